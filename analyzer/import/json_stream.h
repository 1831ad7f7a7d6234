/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json_stream.h - the records of a trace file, one at a time, in constant memory.
 *
 * Reads the Chrome trace shapes: an array of objects, or an object that holds such an array as
 * "traceEvents". Tracers that were killed leave the array open, end it with a comma, or stop inside
 * a record; some write names unescaped. All of that is read as far as it goes: a record that cannot
 * be parsed is counted and skipped. The parser is yajl.
 *
 * Not for: documents that are wanted as a whole (yajl_tree).
 */
#ifndef LAPWING_ANALYZER_IMPORT_JSON_STREAM_H
#define LAPWING_ANALYZER_IMPORT_JSON_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LW_JSON_MAX_FIELDS = 64, LW_JSON_MAX_RECORD_BYTES = 1 << 20, LW_JSON_MAX_BAD = 1000 };

enum lw_json_type { LW_JSON_TEXT, LW_JSON_INT, LW_JSON_REAL };

struct lw_json_field {
	const char *key; /* nested keys are joined by a dot: "args.shape", "args.dims.0" */
	enum lw_json_type type;
	const char *
		text; /* a text; a number as it is written, for who needs all its digits; "" of booleans */
	int64_t integer; /* LW_JSON_INT; booleans are 0 and 1 */
	double real;     /* LW_JSON_REAL: also of integers beyond int64 */
};

/* Texts and keys live until the callback returns. Nulls are left out, and arrays unless they are asked for. */
struct lw_json_record {
	uint64_t number;       /* from 1, bad ones included */
	uint64_t offset_bytes; /* of its '{' in the file */
	size_t n;              /* fields; those past LW_JSON_MAX_FIELDS are left out */
	struct lw_json_field field[LW_JSON_MAX_FIELDS];
};

struct lw_json_result {
	uint64_t n_records; /* handed out */
	uint64_t n_bad;     /* skipped: not JSON, or longer than LW_JSON_MAX_RECORD_BYTES */
	bool is_truncated;  /* the file ends inside a record (not counted in n_bad) */
	char problem[256];  /* the first of these, with record number and byte offset; "" = none */
};

/** Called for every record. Return: LW_OK, or an error that stops the reading. */
typedef int (*lw_json_record_fn)(void *context, const struct lw_json_record *record);

/** Called about every 64 KiB. Return: LW_OK, or an error that stops the reading. */
typedef int (*lw_progress_fn)(void *context, double done_frac);

/** Called for every scalar outside the array of records. Return: LW_OK, or an error that stops the reading. */
typedef int (*lw_json_outside_fn)(void *context, const struct lw_json_field *field);

struct lw_json_reader {
	lw_json_record_fn on_record;
	lw_json_outside_fn on_outside; /* may be NULL */
	lw_progress_fn on_progress;    /* may be NULL */
	void *context;                 /* of these */
	uint32_t max_elements; /* of an array inside a record that are fields of it; 0 = none */
};

/** lw_json_field() - the field with @key, or NULL. */
const struct lw_json_field *lw_json_field(const struct lw_json_record *record, const char *key);

/** lw_json_text() - text of field @key; NULL when absent or not a text. */
const char *lw_json_text(const struct lw_json_record *record, const char *key);

/**
 * lw_json_stream_file() - hand every record of @path, which may be compressed with gzip, to @reader.
 * After LW_JSON_MAX_BAD bad records, when the good ones are fewer, it gives up.
 * Return: LW_OK (see *@ret_result for what was skipped); LW_ERR_IO (cannot be read, not a regular
 * file); LW_ERR_FORMAT (no JSON array of records, with the byte offset); LW_ERR_NOMEM; or what a
 * callback returned. *@ret_result is filled in any case.
 */
int lw_json_stream_file(
	const char *path, const struct lw_json_reader *reader, struct lw_json_result *ret_result);

#endif /* LAPWING_ANALYZER_IMPORT_JSON_STREAM_H */
