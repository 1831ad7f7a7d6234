/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pcapng.h - at which interface each packet of a pcapng file was seen, which libpcap does not tell.
 *
 * The file is read a second time beside libpcap, block by block, and only as far as the blocks' heads.
 */
#ifndef LAPWING_ANALYZER_IMPORT_PCAPNG_H
#define LAPWING_ANALYZER_IMPORT_PCAPNG_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct lw_pcapng {
	FILE *file; /* NULL: no such file, or not to be understood any more */
	bool is_swapped;
};

/** lw_pcapng_open() - @path, whatever it is: of another format no packet has an interface. */
void lw_pcapng_open(struct lw_pcapng *ng, const char *path);
void lw_pcapng_close(struct lw_pcapng *ng);

/** lw_pcapng_next() - Return: interface of the next packet, counted from 1; 0 = not known. */
uint32_t lw_pcapng_next(struct lw_pcapng *ng);

#endif /* LAPWING_ANALYZER_IMPORT_PCAPNG_H */
