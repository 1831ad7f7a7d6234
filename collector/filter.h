/* SPDX-License-Identifier: Apache-2.0 */
/* filter.h - the expression that a capture filters with, made from the peers of a job. */
#ifndef LAPWING_COLLECTOR_FILTER_H
#define LAPWING_COLLECTOR_FILTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LW_FILTER_BYTES = 8192 };

/**
 * lw_filter_text() - write the expression (pcap-filter(7)) into @text.
 * @peers, @n_peers: addresses that the job talks to (IPv4 mapped); 0 = not restricted to any
 * @has_tags: packets may carry a VLAN tag (Ethernet, not cooked)
 * @also: an expression of the user's whose packets are captured too, "" = none
 * Return: LW_OK; LW_ERR_LIMIT: longer than @text_bytes.
 */
int lw_filter_text(const uint8_t (*peers)[16], size_t n_peers, bool has_tags, const char *also,
	char *text, size_t text_bytes);

#endif /* LAPWING_COLLECTOR_FILTER_H */
