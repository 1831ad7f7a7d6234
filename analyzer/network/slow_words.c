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

static double step_bytes(const struct lw_network *net)
{
	const struct lw_net_link *link;
	double bytes = 0;

	lw_vec_foreach (link, &net->links)
		if (link->from == net->slow_rank && !link->is_loopback)
			bytes += link->step_bytes - link->rdma_step_bytes;
	return bytes * net->ranks.at[net->slow_rank].wire_factor;
}

/* What it costs, as far as rates say: sending takes so long, and ranks wait meanwhile unless they compute. */
static size_t add_cost(const struct lw_network *net, char text[LW_NET_TEXT_BYTES], size_t n)
{
	const struct lw_net_rank *rank = &net->ranks.at[net->slow_rank];
	double bytes = step_bytes(net);
	char unit[3][LW_UNIT_TEXT_BYTES];

	if (!net->n_steps || rank->capacity_since_ns != LW_NS_UNKNOWN || !(bytes > 0) ||
		!(rank->capacity_bytes_per_s > 0) || !(net->others_bytes_per_s > 0))
		return n;
	return n + (size_t)snprintf(text + n, LW_NET_TEXT_BYTES - n,
			   "; the %s of a step take %s%s there, %s%s at the others' rate",
			   lw_bytes_format(bytes, unit[0]), is_lower_bound(rank) ? "at most " : "",
			   lw_ns_format(bytes / rank->capacity_bytes_per_s * 1e9, unit[1]),
			   net->others_from == LW_CAPACITY_BUSY ? "at most " : "",
			   lw_ns_format(bytes / net->others_bytes_per_s * 1e9, unit[2]));
}

const char *lw_net_slow_text(const struct lw_run *run, char text[LW_NET_TEXT_BYTES])
{
	const struct lw_network *net = &run->network;
	const struct lw_net_rank *rank;
	char unit[2][LW_UNIT_TEXT_BYTES], changed[LW_NET_CHANGED_BYTES];
	size_t n;

	text[0] = '\0';
	if (net->slow_rank < 0 || (size_t)net->slow_rank >= net->ranks.n)
		return text;
	rank = &net->ranks.at[net->slow_rank];
	n = (size_t)snprintf(text, LW_NET_TEXT_BYTES,
		"rank %d (host %.64s) sends by %.32s at %s%s, the others at %s%s (median): operations that it is in wait for it",
		run->ranks.at[net->slow_rank].rank, run->ranks.at[net->slow_rank].host,
		rank->nic == LW_NONE ? "?" : run->nics.at[rank->nic].name,
		lw_rate_format(rank->capacity_bytes_per_s, unit[0]),
		lw_capacity_changed_text(run, net->slow_rank, changed),
		lw_rate_format(net->others_bytes_per_s, unit[1]), lw_at_least(net->others_from));
	add_cost(net, text, n);
	return text;
}
