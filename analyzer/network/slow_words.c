/* SPDX-License-Identifier: Apache-2.0 */
/* slow_words.c - the slow link in a sentence, one for whoever tells of it: report, advice, views. */
#include <math.h>
#include <stdio.h>

#include "analyzer/network/network.h"
#include "base/units.h"

static bool is_lower_bound(const struct lw_net_rank *rank)
{
	return rank->capacity_from == LW_CAPACITY_BUSY;
}

/* What all ranks there send by its NIC. */
static double step_bytes(const struct lw_net_rank *rank)
{
	return rank->sent_bytes * rank->nic_share * rank->wire_factor;
}

/* What it costs, as far as rates say: sending takes so long, and ranks wait meanwhile unless they compute. */
static void add_cost(const struct lw_network *net, char *text, size_t size)
{
	const struct lw_net_rank *rank = &net->ranks.at[net->slow_rank];
	double bytes = step_bytes(rank);
	char unit[3][LW_UNIT_TEXT_BYTES];

	if (!net->n_steps || rank->capacity_since_ns != LW_NS_UNKNOWN || !(bytes > 0) ||
		!(rank->capacity_bytes_per_s > 0) || !(net->others_bytes_per_s > 0))
		return;
	snprintf(text, size, "; the %s of a step take %s%s there, %s%s at the others' rate",
		lw_bytes_format(bytes, unit[0]), is_lower_bound(rank) ? "at most " : "",
		lw_ns_format(bytes / rank->capacity_bytes_per_s * 1e9, unit[1]),
		net->others_from == LW_CAPACITY_BUSY ? "at most " : "",
		lw_ns_format(bytes / net->others_bytes_per_s * 1e9, unit[2]));
}

static void put_nic(const struct lw_run *run, char *text, size_t size)
{
	const struct lw_net_rank *rank = &run->network.ranks.at[run->network.slow_rank];
	const char *nic = rank->nic == LW_NONE ? "?" : run->nics.at[rank->nic].name;

	if (rank->n_sharing > 1)
		snprintf(text, size, "%.32s (shared with %u more rank%s)", nic, rank->n_sharing - 1,
			rank->n_sharing > 2 ? "s" : "");
	else
		snprintf(text, size, "%.32s", nic);
}

const char *lw_net_slow_text(const struct lw_run *run, char text[LW_NET_WORDS_BYTES])
{
	const struct lw_network *net = &run->network;
	char unit[2][LW_UNIT_TEXT_BYTES], changed[LW_NET_CHANGED_BYTES], others[64], nic[80];
	const char *host;
	int number, n;

	text[0] = '\0';
	if (net->slow_rank < 0 || (size_t)net->slow_rank >= net->ranks.n)
		return text;
	number = lw_run_rank_number(run, net->slow_rank);
	host = run->ranks.at[net->slow_rank].host;
	put_nic(run, nic, sizeof(nic));
	lw_rate_format(net->ranks.at[net->slow_rank].capacity_bytes_per_s, unit[0]);
	lw_capacity_changed_text(run, net->slow_rank, changed);
	snprintf(others, sizeof(others), "the others at %s%s (median)",
		lw_rate_format(net->others_bytes_per_s, unit[1]), lw_at_least(net->others_from));
	if (net->slow_to == LW_NONE)
		n = snprintf(text, LW_NET_WORDS_BYTES,
			"rank %d (host %.64s) sends by %s at %s%s, %s: operations that it is in wait for it",
			number, host, nic, unit[0], changed, others);
	else /* nothing tells which of their NICs it is */
		n = snprintf(text, LW_NET_WORDS_BYTES,
			"rank %d sends to rank %d at %s%s, %s: the way out of the one (host %.64s, %s) or into the other (host %.64s) is slow, and operations that it is in wait for it",
			number, lw_run_rank_number(run, net->slow_to), unit[0], changed, others,
			host, nic, run->ranks.at[net->slow_to].host);
	if (n < LW_NET_WORDS_BYTES)
		add_cost(net, text + n, LW_NET_WORDS_BYTES - (size_t)n);
	return text;
}
