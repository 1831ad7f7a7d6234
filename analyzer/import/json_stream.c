/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/import/json_stream.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <yajl/yajl_parse.h>

#include "analyzer/import/byte_source.h"
#include "base/err.h"
#include "base/vec.h"

enum { CHUNK_BYTES = 64 << 10, MAX_DEPTH = 64, MAX_KEY_BYTES = 256 };

struct stream {
	struct lw_byte_source *source;
	struct lw_json_reader reader;
	struct lw_json_result *result;

	yajl_handle yajl;
	uint64_t chunk_start; /* file offset of the chunk that yajl is in */
	bool is_too_deep;     /* why a callback stopped yajl: treated as a parse error */
	int status;           /* why a callback stopped yajl: ends the reading */

	unsigned int depth;        /* open containers */
	unsigned int record_depth; /* depth of the array of records, 0 = not reached */
	bool is_wrapped;           /* that array is the "traceEvents" of an object */
	bool expects_array;        /* the key "traceEvents" was the last thing seen */
	bool in_record;
	uint64_t record_start, last_end; /* file offsets: of '{', and after the last '}' */

	/* the record being read: keys and texts are offsets into text until it is complete */
	struct lw_json_record record;
	size_t key_at[LW_JSON_MAX_FIELDS], text_at[LW_JSON_MAX_FIELDS];
	lw_vec(char) text;
	char key[MAX_KEY_BYTES]; /* path of the value to come */
	struct {
		size_t key_end; /* of the path that leads to it */
		bool is_array;
		uint32_t n; /* elements seen */
	} container[MAX_DEPTH];
	unsigned int
		skip_depth; /* inside an element that nobody wants: depth outside of it; 0 = none */
};

const struct lw_json_field *lw_json_field(const struct lw_json_record *record, const char *key)
{
	for (size_t i = 0; i < record->n; i++)
		if (!strcmp(record->field[i].key, key))
			return &record->field[i];
	return NULL;
}

const char *lw_json_text(const struct lw_json_record *record, const char *key)
{
	const struct lw_json_field *field = lw_json_field(record, key);

	return field && field->type == LW_JSON_TEXT ? field->text : NULL;
}

/* File offset after the token that yajl is reporting. */
static uint64_t offset_now(const struct stream *s)
{
	return s->chunk_start + yajl_get_bytes_consumed(s->yajl);
}

static int stop(struct stream *s, int status)
{
	s->status = status;
	return 0; /* yajl_status_client_canceled */
}

static int add_text(struct stream *s, const char *text, size_t n_bytes, size_t *ret_at)
{
	if (lw_vec_reserve(&s->text, s->text.n + n_bytes + 1) < 0)
		return LW_ERR_NOMEM;
	*ret_at = s->text.n;
	memcpy(s->text.at + s->text.n, text, n_bytes);
	s->text.at[s->text.n + n_bytes] = '\0';
	s->text.n += n_bytes + 1;
	return LW_OK;
}

/* The path of an element of an array ends in its number. Return: false: nobody wants this value. */
static bool name_value(struct stream *s)
{
	size_t at;
	uint32_t i;

	s->expects_array = false;
	if (s->skip_depth)
		return false;
	if (!s->in_record)
		return s->reader.on_outside && s->depth && s->depth != s->record_depth;
	if (!s->container[s->depth - 1].is_array)
		return true;
	i = s->container[s->depth - 1].n++;
	if (i >= s->reader.max_elements)
		return false;
	at = s->container[s->depth - 1].key_end;
	snprintf(s->key + at, sizeof(s->key) - at, ".%u", i);
	return true;
}

static int tell_outside(
	struct stream *s, struct lw_json_field field, const char *text, size_t n_bytes)
{
	int status;

	s->text.n = 0;
	if (add_text(s, text, n_bytes, &s->text_at[0]) < 0)
		return stop(s, LW_ERR_NOMEM);
	field.key = s->key;
	field.text = s->text.at;
	status = s->reader.on_outside(s->reader.context, &field);
	return status < 0 ? stop(s, status) : 1;
}

/* Return: 1 go on, 0 stop; as yajl's callbacks. */
static int add_field(struct stream *s, struct lw_json_field field, const char *text, size_t n_bytes)
{
	size_t i = s->record.n;

	if (!name_value(s))
		return 1;
	if (!s->in_record)
		return tell_outside(s, field, text, n_bytes);
	if (i == LW_JSON_MAX_FIELDS)
		return 1;
	if (add_text(s, s->key, strlen(s->key), &s->key_at[i]) < 0 ||
		add_text(s, text, n_bytes, &s->text_at[i]) < 0)
		return stop(s, LW_ERR_NOMEM);
	s->record.field[i] = field;
	s->record.n++;
	return 1;
}

static int on_null(void *context)
{
	name_value(context);
	return 1;
}

static int on_boolean(void *context, int value)
{
	return add_field(
		context, (struct lw_json_field){.type = LW_JSON_INT, .integer = value}, "", 0);
}

static int on_number(void *context, const char *text, size_t n_bytes)
{
	struct lw_json_field field = {.type = LW_JSON_INT};
	char number[64];

	snprintf(number, sizeof(number), "%.*s", (int)n_bytes, text);
	errno = 0;
	if (!strpbrk(number, ".eE"))
		field.integer = strtoll(number, NULL, 10);
	if (errno || n_bytes >= sizeof(number) || strpbrk(number, ".eE"))
		field = (struct lw_json_field){.type = LW_JSON_REAL, .real = strtod(number, NULL)};
	return add_field(context, field, text, n_bytes);
}

static int on_string(void *context, const unsigned char *text, size_t n_bytes)
{
	return add_field(
		context, (struct lw_json_field){.type = LW_JSON_TEXT}, (const char *)text, n_bytes);
}

static int on_key(void *context, const unsigned char *key, size_t n_bytes)
{
	struct stream *s = context;
	size_t at;

	if (!s->in_record)
		s->expects_array = s->depth == 1 && !s->record_depth && n_bytes == 11 &&
				   !memcmp(key, "traceEvents", 11);
	if (s->skip_depth)
		return 1;
	at = s->container[s->depth - 1].key_end;
	snprintf(s->key + at, sizeof(s->key) - at, "%s%.*s", at ? "." : "", (int)n_bytes,
		(const char *)key);
	return 1;
}

/* @is_wanted: what is in it is told */
static int open_container(struct stream *s, bool is_array, bool is_wanted)
{
	if (s->depth == MAX_DEPTH) {
		s->is_too_deep = true;
		return 0;
	}
	if (!is_wanted && !s->skip_depth && s->in_record)
		s->skip_depth = s->depth;
	/* what is inside has the path so far in front of its keys */
	s->container[s->depth].key_end = strlen(s->key);
	s->container[s->depth].is_array = is_array;
	s->container[s->depth].n = 0;
	s->depth++;
	return 1;
}

static void close_container(struct stream *s)
{
	s->depth--;
	s->key[s->container[s->depth].key_end] = '\0';
	if (s->skip_depth == s->depth)
		s->skip_depth = 0;
}

static int on_start_map(void *context)
{
	struct stream *s = context;
	bool is_wanted = true;

	if (!s->in_record && s->record_depth && s->depth == s->record_depth) {
		s->in_record = true;
		s->record_start = offset_now(s) - 1;
		s->record.n = 0;
		s->text.n = 0;
		s->key[0] = '\0';
		s->expects_array = false;
	} else {
		is_wanted = name_value(s);
	}
	return open_container(s, false, is_wanted);
}

static int on_end_map(void *context)
{
	struct stream *s = context;
	struct lw_json_record *record = &s->record;
	int status;

	close_container(s);
	if (!s->in_record || s->depth != s->record_depth)
		return 1;
	s->in_record = false;
	s->last_end = offset_now(s);
	s->result->n_records++;
	record->number = s->result->n_records + s->result->n_bad;
	record->offset_bytes = s->record_start;
	for (size_t i = 0; i < record->n; i++) {
		record->field[i].key = s->text.at + s->key_at[i];
		record->field[i].text = s->text.at + s->text_at[i];
	}
	status = s->reader.on_record(s->reader.context, record);
	return status < 0 ? stop(s, status) : 1;
}

static int on_start_array(void *context)
{
	struct stream *s = context;
	bool is_first = s->depth == 0 || (s->depth == 1 && s->expects_array);
	bool is_wanted;

	if (!s->in_record && is_first) {
		s->is_wrapped = s->depth == 1;
		s->record_depth = s->depth + 1;
	}
	is_wanted = name_value(s) && (!s->in_record || s->reader.max_elements > 0);
	return open_container(s, true, is_wanted);
}

static int on_end_array(void *context)
{
	struct stream *s = context;

	close_container(s);
	if (!s->in_record && s->depth < s->record_depth)
		s->record_depth = 0;
	return 1;
}

/* What yajl says about the error in @chunk, in one line. Return: LW_ERR_FORMAT. */
static int describe(struct stream *s, const unsigned char *chunk, size_t n_bytes)
{
	unsigned char *text = yajl_get_error(s->yajl, 0, chunk, n_bytes);

	lw_fail(LW_ERR_FORMAT, "byte %llu: %.*s", (unsigned long long)offset_now(s),
		text ? (int)strcspn((const char *)text, "\n") : 0, text ? (const char *)text : "");
	if (text)
		yajl_free_error(s->yajl, text);
	return LW_ERR_FORMAT;
}

/* A fresh parser at file offset @offset, told that it is inside the array of records. */
static int restart(struct stream *s, uint64_t offset, bool is_first)
{
	static const yajl_callbacks callbacks = {on_null, on_boolean, NULL, NULL, on_number,
		on_string, on_start_map, on_key, on_end_map, on_start_array, on_end_array};
	const char *prefix = is_first ? "" : s->is_wrapped ? "{\"traceEvents\":[" : "[";

	if (s->yajl)
		yajl_free(s->yajl);
	s->yajl = yajl_alloc(&callbacks, NULL, s);
	if (!s->yajl)
		return lw_fail(LW_ERR_NOMEM, "no memory");
	yajl_config(s->yajl, yajl_allow_comments, 1);
	yajl_config(s->yajl, yajl_dont_validate_strings, 1);
	yajl_config(s->yajl, yajl_allow_multiple_values, 1);
	yajl_config(s->yajl, yajl_allow_partial_values, 1);
	s->depth = s->record_depth = 0;
	s->in_record = s->expects_array = false;
	s->skip_depth = 0;
	s->key[0] = '\0';
	s->chunk_start = offset;
	s->is_too_deep = false;
	if (*prefix)
		yajl_parse(s->yajl, (const unsigned char *)prefix, strlen(prefix));
	return LW_OK;
}

static ssize_t read_chunk(struct stream *s, unsigned char *chunk, uint64_t offset)
{
	return lw_byte_source_read(s->source, chunk, CHUNK_BYTES, offset);
}

/*
 * After an error: where the next record may begin, from @offset on. Inside a broken record that is a
 * '{' after "},", since quotes cannot be trusted there; between records it is any '{'.
 * *@ret_is_clean: nothing but brackets, commas and space lies between.
 * Return: 1 found, 0 none, < 0 error.
 */
static int find_record(
	struct stream *s, uint64_t offset, bool in_record, uint64_t *ret_offset, bool *ret_is_clean)
{
	unsigned char *chunk = malloc(CHUNK_BYTES);
	int wanted = in_record ? '}' : '{';
	bool is_clean = true;
	ssize_t n;

	if (!chunk)
		return lw_fail(LW_ERR_NOMEM, "no memory");
	while ((n = read_chunk(s, chunk, offset)) > 0) {
		for (ssize_t i = 0; i < n; i++) {
			int c = chunk[i];

			if (c == wanted && c == '{') {
				*ret_offset = offset + (uint64_t)i;
				*ret_is_clean = is_clean;
				free(chunk);
				return 1;
			}
			if (!strchr(" \t\r\n,[]}", c) || c == '\0')
				is_clean = false;
			if (!in_record || strchr(" \t\r\n", c))
				continue;
			if (c == '}')
				wanted = ',';
			else
				wanted = c == ',' && wanted == ',' ? '{' : '}';
		}
		offset += (uint64_t)n;
	}
	free(chunk);
	*ret_is_clean = is_clean;
	return n < 0 ? (int)n : 0;
}

static void note_problem(struct stream *s, const char *what)
{
	if (!s->result->problem[0])
		snprintf(s->result->problem, sizeof(s->result->problem),
			"record %llu at byte %llu: %s",
			(unsigned long long)(s->result->n_records + s->result->n_bad + 1),
			(unsigned long long)(s->in_record ? s->record_start : s->last_end), what);
}

/* The text of the error is set. Return: 1 go on at *@offset, 0 nothing more to read, < 0 error. */
static int recover(struct stream *s, uint64_t *offset)
{
	bool in_record = s->in_record, is_clean = true;
	int found;

	if (!in_record && s->result->n_records + s->result->n_bad == 0)
		return LW_ERR_FORMAT;
	found = find_record(
		s, in_record ? s->record_start + 1 : s->last_end, in_record, offset, &is_clean);
	if (found < 0)
		return found;
	if (in_record || !is_clean) {
		note_problem(s, lw_error_text());
		s->result->n_bad++;
	}
	if (s->result->n_bad >= LW_JSON_MAX_BAD && s->result->n_bad > s->result->n_records)
		return lw_fail(LW_ERR_FORMAT, "more bad records than good ones; the first: %s",
			s->result->problem);
	return found ? restart(s, *offset, false) < 0 ? LW_ERR_NOMEM : 1 : 0;
}

static int read_all(struct stream *s, unsigned char *chunk)
{
	uint64_t offset = 0;
	ssize_t n;

	while ((n = read_chunk(s, chunk, offset)) > 0) {
		int status = LW_OK;
		yajl_status parsed;

		s->chunk_start = offset;
		parsed = yajl_parse(s->yajl, chunk, (size_t)n);
		if (s->status < 0)
			return s->status;
		offset += (uint64_t)n;
		if (s->is_too_deep)
			status = lw_fail(LW_ERR_FORMAT, "nested deeper than %d", MAX_DEPTH);
		else if (parsed == yajl_status_error)
			status = describe(s, chunk, (size_t)n);
		else if (s->in_record && offset - s->record_start > LW_JSON_MAX_RECORD_BYTES)
			status = lw_fail(
				LW_ERR_FORMAT, "longer than %d bytes", LW_JSON_MAX_RECORD_BYTES);
		if (status < 0) {
			status = recover(s, &offset);
			if (status <= 0)
				return status;
		}
		if (s->reader.on_progress) {
			status = s->reader.on_progress(
				s->reader.context, lw_byte_source_done_frac(s->source));
			if (status < 0)
				return status;
		}
	}
	if (n < 0)
		return (int)n;
	if (s->in_record)
		note_problem(s, "the file ends here, inside a record");
	if (lw_byte_source_problem(s->source))
		note_problem(s, lw_byte_source_problem(s->source));
	s->result->is_truncated = s->in_record || lw_byte_source_problem(s->source);
	return LW_OK;
}

int lw_json_stream_file(
	const char *path, const struct lw_json_reader *reader, struct lw_json_result *ret_result)
{
	struct stream *s = calloc(1, sizeof(*s));
	unsigned char *chunk = malloc(CHUNK_BYTES);
	int status;

	memset(ret_result, 0, sizeof(*ret_result));
	if (!s || !chunk) {
		free(s);
		free(chunk);
		return lw_fail(LW_ERR_NOMEM, "no memory");
	}
	s->reader = *reader;
	s->result = ret_result;
	status = lw_byte_source_open(path, &s->source);
	if (status == LW_OK)
		status = restart(s, 0, true);
	if (status == LW_OK)
		status = read_all(s, chunk);
	lw_byte_source_close(s->source);
	if (s->yajl)
		yajl_free(s->yajl);
	lw_vec_free(&s->text);
	free(chunk);
	free(s);
	return status;
}
