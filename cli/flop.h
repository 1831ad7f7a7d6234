/* SPDX-License-Identifier: Apache-2.0 */
/* flop.h - numbers of floating-point operations, as people write them. */
#ifndef LAPWING_CLI_FLOP_H
#define LAPWING_CLI_FLOP_H

/** lw_flop_parse() - "4.1e9", "312T" (1e12): > 0. Return: LW_OK or LW_ERR_USAGE. */
int lw_flop_parse(const char *text, double *ret_flop);

/**
 * lw_flop_read() - a number, or a file of lines "layer operations" (# begins a comment), whose operations are added up.
 * Return: LW_OK, LW_ERR_USAGE (neither), or LW_ERR_FORMAT with the line.
 */
int lw_flop_read(const char *text, double *ret_flop);

#endif /* LAPWING_CLI_FLOP_H */
