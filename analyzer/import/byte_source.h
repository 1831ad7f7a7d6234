/* SPDX-License-Identifier: Apache-2.0 */
/*
 * byte_source.h - the bytes of a file, gzip unpacked on the way, by their offset.
 *
 * Reading goes forward; a reader that has to look again may go back a little, which is kept, or now and then far, which
 * unpacks the file anew. Memory is constant, however much a file unpacks to.
 */
#ifndef LAPWING_ANALYZER_IMPORT_BYTE_SOURCE_H
#define LAPWING_ANALYZER_IMPORT_BYTE_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct lw_byte_source;

/** lw_byte_source_open() - Return: LW_OK; LW_ERR_IO (cannot be read, not a regular file) or LW_ERR_NOMEM, not naming @path. */
int lw_byte_source_open(const char *path, struct lw_byte_source **ret_source);
void lw_byte_source_close(struct lw_byte_source *source);

/**
 * lw_byte_source_read() - up to @n_bytes from @offset of the unpacked file, which is not beyond what was read so far.
 * Return: how many, 0 at the end, LW_ERR_IO, or LW_ERR_FORMAT (went far back too often).
 */
ssize_t lw_byte_source_read(
	struct lw_byte_source *source, void *bytes, size_t n_bytes, uint64_t offset);

/** lw_byte_source_is_gzip() - its bytes are unpacked on the way. */
bool lw_byte_source_is_gzip(const struct lw_byte_source *source);

/** lw_byte_source_done_frac() - how much of the file has been read, 0 to 1. */
double lw_byte_source_done_frac(const struct lw_byte_source *source);

/** lw_byte_source_problem() - why the compressed data ends before its end; NULL: it does not. */
const char *lw_byte_source_problem(const struct lw_byte_source *source);

#endif /* LAPWING_ANALYZER_IMPORT_BYTE_SOURCE_H */
