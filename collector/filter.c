/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/filter.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/address.h"
#include "base/err.h"

/* The start of a connection to a new peer, so that its sequence numbers are known from the first on:
 * what came before the filter knew the peer can then be stated in bytes. */
static const char openings[] =
	"(tcp[tcpflags] & tcp-syn != 0) or (ip6[6] = 6 and ip6[53] & 2 != 0)";

void lw_filter_add_peer(struct lw_filter_peers *peers, const uint8_t peer[16])
{
	for (size_t i = 0; i < peers->n && i < LW_FILTER_MAX_PEERS; i++)
		if (!memcmp(peers->at[i], peer, 16))
			return;
	if (peers->n < LW_FILTER_MAX_PEERS)
		memcpy(peers->at[peers->n], peer, 16);
	peers->n += peers->n <= LW_FILTER_MAX_PEERS;
}

static void put_own(FILE *out, const struct lw_filter_peers *peers)
{
	if (peers->n == 0 || peers->n > LW_FILTER_MAX_PEERS) {
		fputs("tcp or udp port 4791", out);
		return;
	}
	fputs("(tcp and (", out);
	for (size_t i = 0; i < peers->n; i++) {
		char address[INET6_ADDRSTRLEN];

		lw_address_text(peers->at[i], address);
		fprintf(out, "%shost %s", i ? " or " : "", address);
	}
	fprintf(out, ")) or udp port 4791 or %s", openings);
}

int lw_filter_text(
	const struct lw_filter_peers *peers, bool has_tags, char *text, size_t text_bytes)
{
	FILE *out = fmemopen(text, text_bytes, "w");
	int status = LW_OK;

	if (!out)
		return lw_fail(LW_ERR_NOMEM, "no memory");
	put_own(out, peers);
	/* The last: all behind the word vlan is read as lying behind a tag. */
	if (has_tags) {
		fputs(" or (vlan and (", out);
		put_own(out, peers);
		fputs("))", out);
	}
	if (fflush(out) == EOF || ftell(out) >= (long)text_bytes - 1)
		status = lw_fail(LW_ERR_LIMIT, "the filter expression is too long");
	fclose(out);
	return status;
}

int lw_filter_compile(pcap_t *pcap, const char *text, struct bpf_program *ret_program)
{
	if (pcap_compile(pcap, ret_program, text, 1, PCAP_NETMASK_UNKNOWN) < 0)
		return lw_fail(LW_ERR_USAGE, "filter '%s': %s", text, pcap_geterr(pcap));
	return LW_OK;
}

int lw_filter_join(const struct bpf_program *first, const struct bpf_program *second,
	struct bpf_program *ret_program)
{
	const struct bpf_insn refuse = BPF_STMT(BPF_RET | BPF_K, 0);
	unsigned int n = first->bf_len + second->bf_len;
	struct bpf_insn *all = calloc(n, sizeof(*all)); /* of libc, as libpcap's own */

	if (!all)
		return lw_fail(LW_ERR_NOMEM, "no memory");
	memcpy(all, first->bf_insns, first->bf_len * sizeof(*all));
	memcpy(all + first->bf_len, second->bf_insns, second->bf_len * sizeof(*all));
	/* Where the first refuses, the second begins: it sets all that it reads. */
	for (unsigned int i = 0; i < first->bf_len; i++)
		if (all[i].code == refuse.code && all[i].k == refuse.k)
			all[i] = (struct bpf_insn)BPF_STMT(BPF_JMP | BPF_JA, first->bf_len - i - 1);
	*ret_program = (struct bpf_program){n, all};
	return LW_OK;
}
