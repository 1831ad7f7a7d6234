/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json.h - JSON for every --json option: yajl's generator with one way to print each type.
 *
 * Errors (no memory, keys where none belongs) are kept and returned by lw_json_close(), so callers
 * write straight through. The same calls give the same bytes.
 */
#ifndef LAPWING_ANALYZER_EMIT_JSON_H
#define LAPWING_ANALYZER_EMIT_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct lw_json;

/** lw_json_open() - start one document, indented by two spaces. NULL: no memory. */
struct lw_json *lw_json_open(void);

/** lw_json_close() - write the document and a newline to @out, free @json. Return: LW_OK or error. */
int lw_json_close(struct lw_json *json, FILE *out);

/* A value inside an object needs its key first: @key is NULL inside an array and at the top. */
void lw_json_object(struct lw_json *json, const char *key);
void lw_json_object_end(struct lw_json *json);
void lw_json_array(struct lw_json *json, const char *key);
void lw_json_array_end(struct lw_json *json);
void lw_json_int(struct lw_json *json, const char *key, int64_t value);
void lw_json_bool(struct lw_json *json, const char *key, bool value);
void lw_json_null(struct lw_json *json, const char *key);

/** lw_json_double() - shortest text that reads back as @value; null for NAN and infinities. */
void lw_json_double(struct lw_json *json, const char *key, double value);

/** lw_json_string() - @text may be NULL (null); bytes that are not UTF-8 become U+FFFD. */
void lw_json_string(struct lw_json *json, const char *key, const char *text);

/**
 * lw_json_unknown() - the value that comes next, with @key, is not known, or where @part is not "" a part of it (".low and
 * .high"): @why (static, or as long-lived as @json). Once a path and reason; the path has no indices, and none of "run.".
 */
void lw_json_unknown(struct lw_json *json, const char *key, const char *part, const char *why);

/** lw_json_unknowns() - rows of kind "not known" for an open array "diag", one each of lw_json_unknown() up to now. */
void lw_json_unknowns(struct lw_json *json);

#endif /* LAPWING_ANALYZER_EMIT_JSON_H */
