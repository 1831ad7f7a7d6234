/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/import/json_stream.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <yajl/yajl_parse.h>

#include "base/err.h"
#include "base/vec.h"

enum { CHUNK_BYTES = 64 << 10, MAX_DEPTH = 64, MAX_KEY_BYTES = 256 };

struct stream {
	int fd;
	uint64_t file_bytes;
	lw_json_record_fn on_record;
	lw_progress_fn on_progress;
	void *context;
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
	size_t key_end[MAX_DEPTH];
	bool in_array; /* inside an array of the record: its values have no key */
	unsigned int array_depth;
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

/* Return: 1 go on, 0 stop; as yajl's callbacks. */
static int add_field(struct stream *s, struct lw_json_field field, const char *text, size_t n_bytes)
{
	size_t i = s->record.n;

	s->expects_array = false;
	if (!s->in_record || s->in_array || i == LW_JSON_MAX_FIELDS)
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
	((struct stream *)context)->expects_array = false;
	return 1;
}

static int on_boolean(void *context, int value)
{
	return add_field(
		context, (struct lw_json_field){.type = LW_JSON_INT, .integer = value}, "", 0);
}

static int on_integer(void *context, long long value)
{
	return add_field(
		context, (struct lw_json_field){.type = LW_JSON_INT, .integer = value}, "", 0);
}

static int on_double(void *context, double value)
{
	return add_field(
		context, (struct lw_json_field){.type = LW_JSON_REAL, .real = value}, "", 0);
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

	if (!s->in_record) {
		s->expects_array = s->depth == 1 && !s->record_depth && n_bytes == 11 &&
				   !memcmp(key, "traceEvents", 11);
		return 1;
	}
	if (s->in_array)
		return 1;
	at = s->key_end[s->depth - 1];
	snprintf(s->key + at, sizeof(s->key) - at, "%s%.*s", at ? "." : "", (int)n_bytes,
		(const char *)key);
	return 1;
}

static int open_container(struct stream *s)
{
	if (s->depth == MAX_DEPTH) {
		s->is_too_deep = true;
		return 0;
	}
	/* what is inside a map of a record has the path so far in front of its keys */
	s->key_end[s->depth] = s->in_record ? strlen(s->key) : 0;
	s->depth++;
	return 1;
}

static int on_start_map(void *context)
{
	struct stream *s = context;

	if (!s->in_record && s->record_depth && s->depth == s->record_depth) {
		s->in_record = true;
		s->record_start = offset_now(s) - 1;
		s->record.n = 0;
		s->text.n = 0;
		s->key[0] = '\0';
	}
	s->expects_array = false;
	return open_container(s);
}

static int on_end_map(void *context)
{
	struct stream *s = context;
	struct lw_json_record *record = &s->record;
	int status;

	s->depth--;
	if (!s->in_record)
		return 1;
	s->key[s->key_end[s->depth]] = '\0';
	if (s->depth != s->record_depth)
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
	status = s->on_record(s->context, record);
	return status < 0 ? stop(s, status) : 1;
}

static int on_start_array(void *context)
{
	struct stream *s = context;

	if (s->in_record && !s->in_array) {
		s->in_array = true;
		s->array_depth = s->depth;
	} else if (!s->in_record && (s->depth == 0 || (s->depth == 1 && s->expects_array))) {
		s->is_wrapped = s->depth == 1;
		s->record_depth = s->depth + 1;
	}
	s->expects_array = false;
	return open_container(s);
}

static int on_end_array(void *context)
{
	struct stream *s = context;

	s->depth--;
	if (s->in_array && s->depth == s->array_depth)
		s->in_array = false;
	else if (!s->in_record && s->depth < s->record_depth)
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
	static const yajl_callbacks callbacks = {on_null, on_boolean, on_integer, on_double, NULL,
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
	s->in_record = s->in_array = s->expects_array = false;
	s->chunk_start = offset;
	s->is_too_deep = false;
	if (*prefix)
		yajl_parse(s->yajl, (const unsigned char *)prefix, strlen(prefix));
	return LW_OK;
}

static ssize_t read_chunk(struct stream *s, unsigned char *chunk, uint64_t offset)
{
	ssize_t n;

	do
		n = pread(s->fd, chunk, CHUNK_BYTES, (off_t)offset);
	while (n < 0 && errno == EINTR);
	return n < 0 ? lw_fail(LW_ERR_IO, "%s", strerror(errno)) : n;
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
		if (s->on_progress) {
			status = s->on_progress(s->context, (double)offset / (double)s->file_bytes);
			if (status < 0)
				return status;
		}
	}
	if (n < 0)
		return (int)n;
	if (s->in_record) {
		note_problem(s, "the file ends here, inside a record");
		s->result->is_truncated = true;
	}
	return LW_OK;
}

int lw_json_stream_file(const char *path, lw_json_record_fn on_record, lw_progress_fn on_progress,
	void *context, struct lw_json_result *ret_result)
{
	struct stream *s = calloc(1, sizeof(*s));
	unsigned char *chunk = malloc(CHUNK_BYTES);
	struct stat st;
	int status;

	memset(ret_result, 0, sizeof(*ret_result));
	if (!s || !chunk) {
		free(s);
		free(chunk);
		return lw_fail(LW_ERR_NOMEM, "no memory");
	}
	s->on_record = on_record;
	s->on_progress = on_progress;
	s->context = context;
	s->result = ret_result;
	s->fd = open(path, O_RDONLY | O_CLOEXEC);
	if (s->fd < 0 || fstat(s->fd, &st) < 0)
		status = lw_fail(LW_ERR_IO, "%s", strerror(errno));
	else if (!S_ISREG(st.st_mode))
		status = lw_fail(LW_ERR_IO, "not a regular file");
	else
		status = restart(s, 0, true);
	if (status == LW_OK) {
		s->file_bytes = (uint64_t)st.st_size;
		status = read_all(s, chunk);
	}
	if (s->fd >= 0)
		close(s->fd);
	if (s->yajl)
		yajl_free(s->yajl);
	lw_vec_free(&s->text);
	free(chunk);
	free(s);
	return status;
}
