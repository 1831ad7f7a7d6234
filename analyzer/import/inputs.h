/* SPDX-License-Identifier: Apache-2.0 */
/* inputs.h - inside import/: which files the user means. */
#ifndef LAPWING_ANALYZER_IMPORT_INPUTS_H
#define LAPWING_ANALYZER_IMPORT_INPUTS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/vec.h"

typedef lw_vec(char *) lw_import_inputs;

/**
 * lw_import_inputs() - @paths, each folder replaced by the traces in it, by name. Free with lw_import_inputs_free(), also
 * after an error. Return: LW_OK, LW_ERR_FORMAT (a folder without traces), LW_ERR_IO, LW_ERR_NOMEM; the error names the path.
 */
int lw_import_inputs_find(const char *const *paths, size_t n_paths, lw_import_inputs *ret_inputs);
void lw_import_inputs_free(lw_import_inputs *inputs);

/**
 * lw_import_read_head() - the beginning of @path, unpacked, ended by a NUL that is not counted.
 * @head: room for @n_room + 1. Return: LW_OK, or an error that does not name the file.
 */
int lw_import_read_head(
	const char *path, char *head, size_t n_room, size_t *ret_n_bytes, bool *ret_is_gzip);

#endif /* LAPWING_ANALYZER_IMPORT_INPUTS_H */
