/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/import/pcapng.h"

#include <byteswap.h>
#include <string.h>

enum { SECTION = 0x0a0d0d0a, OLD_PACKET = 2, SIMPLE_PACKET = 3, PACKET = 6 };
enum { BYTE_ORDER_MAGIC = 0x1a2b3c4d };

/* A block: its type, its length, and what comes first in it. At its end stands the length again. */
struct head {
	uint32_t type, n_bytes, first;
};

enum { SHORTEST_BYTES = 3 * sizeof(uint32_t) };

void lw_pcapng_open(struct lw_pcapng *ng, const char *path)
{
	uint32_t type = 0;

	*ng = (struct lw_pcapng){.file = fopen(path, "rbe")};
	if (ng->file && (fread(&type, sizeof(type), 1, ng->file) != 1 || type != SECTION))
		lw_pcapng_close(ng);
	else if (ng->file)
		rewind(ng->file);
}

void lw_pcapng_close(struct lw_pcapng *ng)
{
	if (ng->file)
		fclose(ng->file);
	ng->file = NULL;
}

/* Reads the head of the next block and goes behind the block. */
static bool next_block(struct lw_pcapng *ng, struct head *ret_head)
{
	struct head head;

	if (fread(&head, sizeof(head), 1, ng->file) != 1)
		return false;
	if (head.type == SECTION)
		ng->is_swapped = head.first == bswap_32(BYTE_ORDER_MAGIC);
	else if (ng->is_swapped)
		head.type = bswap_32(head.type);
	if (ng->is_swapped) {
		head.n_bytes = bswap_32(head.n_bytes);
		head.first = bswap_32(head.first);
	}
	*ret_head = head;
	return head.n_bytes >= SHORTEST_BYTES && head.n_bytes % 4 == 0 &&
	       fseek(ng->file, (long)(head.n_bytes - sizeof(head)), SEEK_CUR) == 0;
}

uint32_t lw_pcapng_next(struct lw_pcapng *ng)
{
	struct head head;

	while (ng->file) {
		if (!next_block(ng, &head)) {
			lw_pcapng_close(ng);
			break;
		}
		switch (head.type) {
		case PACKET:
			return head.first + 1;
		case OLD_PACKET: /* two bytes of it */
			return (ng->is_swapped ? head.first >> 16 : head.first & 0xffff) + 1;
		case SIMPLE_PACKET:
			return 1;
		default:
			break;
		}
	}
	return 0;
}
