/* SPDX-License-Identifier: Apache-2.0 */
/* str.h - output names with %h %p %r %q{ENV}, and small string helpers. */
#ifndef LAPWING_BASE_STR_H
#define LAPWING_BASE_STR_H

#include <stddef.h>

/**
 * lw_path_expand() - expand %h (host name), %p (pid), %r (@rank, -1 = not known),
 * %q{NAME} (environment variable), %% in @pattern.
 * @path, @path_bytes: receives the result, terminated
 * Return: LW_OK, LW_ERR_LIMIT (too long), LW_ERR_USAGE (unknown escape, unset variable, or %r where
 * the rank is not known).
 */
int lw_path_expand(const char *pattern, int rank, char *path, size_t path_bytes);

/** lw_str_mask_digits() - each run of digits of @text becomes one '#', in place: "iteration #"; after a '#' it goes. Return: @text. */
char *lw_str_mask_digits(char *text);

#endif /* LAPWING_BASE_STR_H */
