/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/emit/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <yajl/yajl_gen.h>

#include "base/err.h"
#include "base/vec.h"

enum { MAX_DEPTH = 16, PATH_BYTES = 160 };

struct unknown {
	char path[PATH_BYTES + 100];
	const char *why;
	int64_t n;
};

struct lw_json {
	yajl_gen gen;
	yajl_gen_status status; /* the first that was not ok */
	/* keys of the open objects and arrays; one in an array has none */
	char path[PATH_BYTES];
	size_t n_path[MAX_DEPTH], depth; /* path's length before each was opened */
	lw_vec(struct unknown) unknown;
};

static void keep(struct lw_json *json, yajl_gen_status status)
{
	if (json->status == yajl_gen_status_ok)
		json->status = status;
}

struct lw_json *lw_json_open(void)
{
	struct lw_json *json = calloc(1, sizeof(*json));

	if (json)
		json->gen = yajl_gen_alloc(NULL);
	if (!json || !json->gen) {
		free(json);
		lw_fail(LW_ERR_NOMEM, "no memory");
		return NULL;
	}
	yajl_gen_config(json->gen, yajl_gen_beautify, 1);
	yajl_gen_config(json->gen, yajl_gen_indent_string, "  ");
	yajl_gen_config(json->gen, yajl_gen_validate_utf8, 1);
	return json;
}

int lw_json_close(struct lw_json *json, FILE *out)
{
	const unsigned char *text;
	size_t n_bytes;
	int status = LW_OK;

	keep(json, yajl_gen_get_buf(json->gen, &text, &n_bytes));
	if (json->status != yajl_gen_status_ok && json->status != yajl_gen_generation_complete)
		status = lw_fail(LW_ERR_STATE, "JSON: generator status %d", (int)json->status);
	else if (fwrite(text, 1, n_bytes, out) != n_bytes || fflush(out) != 0)
		status = lw_fail(LW_ERR_IO, "cannot write the JSON: %m");
	yajl_gen_free(json->gen);
	lw_vec_free(&json->unknown);
	free(json);
	return status;
}

/* yajl refuses bytes that are not UTF-8 (a command line may hold any): replace every high byte. */
static yajl_gen_status put_repaired(yajl_gen gen, const char *text)
{
	static const char replacement[] = "\xef\xbf\xbd";
	size_t n = 0;
	char *repaired = malloc(strlen(text) * 3 + 1);
	yajl_gen_status status;

	if (!repaired)
		return yajl_gen_in_error_state;
	for (; *text; text++) {
		if (!(*text & 0x80)) {
			repaired[n++] = *text;
			continue;
		}
		memcpy(repaired + n, replacement, 3);
		n += 3;
	}
	status = yajl_gen_string(gen, (const unsigned char *)repaired, n);
	free(repaired);
	return status;
}

static void put_string(struct lw_json *json, const char *text)
{
	yajl_gen_status status =
		yajl_gen_string(json->gen, (const unsigned char *)text, strlen(text));

	if (status == yajl_gen_invalid_string)
		status = put_repaired(json->gen, text);
	keep(json, status);
}

static void put_key(struct lw_json *json, const char *key)
{
	if (key)
		put_string(json, key);
}

static void enter(struct lw_json *json, const char *key)
{
	size_t n = strlen(json->path);

	if (json->depth < MAX_DEPTH)
		json->n_path[json->depth] = n;
	json->depth++;
	if (key)
		snprintf(json->path + n, sizeof(json->path) - n, "%s%s", n ? "." : "", key);
}

static void leave(struct lw_json *json)
{
	if (json->depth && --json->depth < MAX_DEPTH)
		json->path[json->n_path[json->depth]] = '\0';
}

void lw_json_object(struct lw_json *json, const char *key)
{
	put_key(json, key);
	keep(json, yajl_gen_map_open(json->gen));
	enter(json, key);
}

void lw_json_object_end(struct lw_json *json)
{
	leave(json);
	keep(json, yajl_gen_map_close(json->gen));
}

void lw_json_array(struct lw_json *json, const char *key)
{
	put_key(json, key);
	keep(json, yajl_gen_array_open(json->gen));
	enter(json, key);
}

void lw_json_array_end(struct lw_json *json)
{
	leave(json);
	keep(json, yajl_gen_array_close(json->gen));
}

void lw_json_int(struct lw_json *json, const char *key, int64_t value)
{
	put_key(json, key);
	keep(json, yajl_gen_integer(json->gen, value));
}

void lw_json_bool(struct lw_json *json, const char *key, bool value)
{
	put_key(json, key);
	keep(json, yajl_gen_bool(json->gen, value));
}

void lw_json_null(struct lw_json *json, const char *key)
{
	put_key(json, key);
	keep(json, yajl_gen_null(json->gen));
}

void lw_json_double(struct lw_json *json, const char *key, double value)
{
	char text[40];

	if (!isfinite(value)) {
		lw_json_null(json, key);
		return;
	}
	for (int digits = 15; digits <= 17; digits++) {
		snprintf(text, sizeof(text), "%.*g", digits, value);
		if (!(strtod(text, NULL) < value) && !(strtod(text, NULL) > value))
			break;
	}
	put_key(json, key);
	keep(json, yajl_gen_number(json->gen, text, strlen(text)));
}

void lw_json_string(struct lw_json *json, const char *key, const char *text)
{
	put_key(json, key);
	if (text)
		put_string(json, text);
	else
		keep(json, yajl_gen_null(json->gen));
}

void lw_json_unknown(struct lw_json *json, const char *key, const char *part, const char *why)
{
	static const char run[] = "run.";
	struct unknown added = {.why = why, .n = 1}, *old;
	const char *path = json->path;

	if (!strncmp(path, run, sizeof(run) - 1))
		path += sizeof(run) - 1;
	snprintf(added.path, sizeof(added.path), "%s%s%s%s", path, *path ? "." : "", key, part);
	lw_vec_foreach (old, &json->unknown)
		if (!strcmp(old->path, added.path) && !strcmp(old->why, why)) {
			old->n++;
			return;
		}
	if (lw_vec_push(&json->unknown, added) < 0)
		keep(json, yajl_gen_in_error_state);
}

void lw_json_unknowns(struct lw_json *json)
{
	const struct unknown *unknown;
	char text[512];

	lw_vec_foreach (unknown, &json->unknown) {
		snprintf(text, sizeof(text), "%s: %s", unknown->path, unknown->why);
		lw_json_object(json, NULL);
		lw_json_string(json, "kind", "not known");
		lw_json_int(json, "count", unknown->n);
		lw_json_string(json, "text", text);
		lw_json_object_end(json);
	}
}
