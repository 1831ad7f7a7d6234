/* SPDX-License-Identifier: Apache-2.0 */
/*
 * filter.h - what a capture filters with: an expression made from the peers of a job, or another of the user's.
 *
 * The two are compiled each for itself and joined as programs: as one text they would change each
 * other's meaning (all behind the word vlan is about what lies behind a tag).
 */
#ifndef LAPWING_COLLECTOR_FILTER_H
#define LAPWING_COLLECTOR_FILTER_H

#include <pcap/pcap.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LW_FILTER_BYTES = 8192 };
enum { LW_FILTER_MAX_PEERS = 32 };

struct lw_filter_peers { /* addresses that the job talks to, IPv4 mapped */
	uint8_t at[LW_FILTER_MAX_PEERS][16];
	size_t n; /* more than LW_FILTER_MAX_PEERS: too many for a filter */
};

/** lw_filter_add_peer() - @peer too, if it is new. */
void lw_filter_add_peer(struct lw_filter_peers *peers, const uint8_t peer[16]);

/**
 * lw_filter_text() - write the expression (pcap-filter(7)) into @text.
 * @peers: none, or too many: not restricted to any
 * @has_tags: packets may carry a VLAN tag (Ethernet, not cooked)
 * Return: LW_OK; LW_ERR_LIMIT: longer than @text_bytes.
 */
int lw_filter_text(
	const struct lw_filter_peers *peers, bool has_tags, char *text, size_t text_bytes);

/** lw_filter_compile() - as pcap_compile(). Return: LW_OK, LW_ERR_USAGE with libpcap's own words. */
int lw_filter_compile(pcap_t *pcap, const char *text, struct bpf_program *ret_program);

/**
 * lw_filter_join() - a program that lets pass what @first or @second lets pass.
 * Return: LW_OK or LW_ERR_NOMEM. *@ret_program is freed with pcap_freecode(), as are the two.
 */
int lw_filter_join(const struct bpf_program *first, const struct bpf_program *second,
	struct bpf_program *ret_program);

#endif /* LAPWING_COLLECTOR_FILTER_H */
