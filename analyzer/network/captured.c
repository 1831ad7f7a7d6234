/* SPDX-License-Identifier: Apache-2.0 */
/*
 * captured.c - of which links captured packets tell: those of which nearly all bytes are in flows on their sender's clock.
 *
 * A capture of another device, of one of several connections, or of a part of the time tells of what it saw only: there
 * samples of the connections do.
 */
#include "analyzer/network/network.h"

#define SEEN_FRAC 0.9 /* the rest: what a capture dropped, or what was under way at its ends */

bool lw_net_shows(const struct lw_run *run, const struct lw_packet_flow *flow, int32_t r)
{
	return flow->bins.n && flow->from_rank != LW_NONE && flow->to_rank != LW_NONE &&
	       flow->from_rank != flow->to_rank && flow->clock == run->ranks.at[r].clock &&
	       !flow->is_clock_repeat;
}

static bool is_most(double seen_bytes, double bytes)
{
	return seen_bytes > 0 && seen_bytes >= SEEN_FRAC * bytes;
}

int lw_net_find_captured(struct lw_run *run)
{
	const struct lw_packet_flow *flow;
	const struct lw_packet_bin *bin;
	struct lw_net_link *link;

	lw_vec_foreach (flow, &run->flows) {
		if (flow->from_rank == LW_NONE || !lw_net_shows(run, flow, flow->from_rank))
			continue;
		link = lw_net_link_of(run, flow->from_rank, flow->to_rank);
		lw_vec_foreach (bin, &flow->bins)
			if (link)
				link->seen_bytes[flow->is_roce] += (double)bin->payload_bytes;
	}
	lw_vec_foreach (link, &run->network.links) {
		link->is_captured[false] =
			is_most(link->seen_bytes[false], link->run_bytes - link->rdma_bytes);
		link->is_captured[true] = is_most(link->seen_bytes[true], link->rdma_bytes);
	}
	return LW_OK;
}
