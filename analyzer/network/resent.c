/* SPDX-License-Identifier: Apache-2.0 */
/*
 * resent.c - how much was sent again between ranks: by connections, by packets of RDMA, else what its ports count.
 *
 * Ports count events (a NAK, a timeout), each of which may make many packets be sent again: never packets.
 */
#include <math.h>
#include <stdlib.h>

#include "analyzer/network/network.h"

const char *const lw_net_resent_counters[LW_NET_N_RESENT_COUNTERS] = {"packet_seq_err",
	"local_ack_timeout_err", "implied_nak_seq_err", "rnr_nak_retry_err",
	"retransmitted_packets", "rcvd_seq_err", "rcvd_rnr_err"};

/* RDMA without a capture: by the ports that ranks send by, which do not say to whom. */
static void count_ports(struct lw_run *run, bool *has_port)
{
	struct lw_net_slowed *slowed = &run->network.slowed;
	const struct lw_tcp_end *end;
	double n = 0, n_packets = 0;
	bool is_counted = false;

	lw_vec_foreach (end, &run->ends) {
		const struct lw_nic *nic = end->nic == LW_NONE ? NULL : &run->nics.at[end->nic];

		if (!end->is_rdma || !nic || !lw_net_is_between_ranks(end) || has_port[end->nic])
			continue;
		has_port[end->nic] = true;
		for (size_t c = 0; c < LW_NET_N_RESENT_COUNTERS; c++) {
			double growth = lw_net_growth(nic, lw_net_resent_counters[c]);

			is_counted |= !isnan(growth);
			n += isnan(growth) ? 0 : growth;
		}
		n_packets += fmax(0, lw_net_growth(nic, "tx_packets"));
	}
	if (!is_counted)
		return;
	slowed->is_by_port = true;
	slowed->n_retransmits = n;
	slowed->frac = n_packets > 0 ? n / n_packets : (double)NAN;
	slowed->worst_from = slowed->worst_to = LW_NONE; /* those of TCP beside it */
	slowed->worst_n = 0;
	slowed->worst_frac = NAN;
}

static void count_links(struct lw_run *run)
{
	struct lw_net_slowed *slowed = &run->network.slowed;
	const struct lw_net_link *link;
	double n_segments = 0;

	slowed->n_retransmits = slowed->frac = NAN;
	lw_vec_foreach (link, &run->network.links) {
		if (isnan(link->n_retransmits) || link->is_loopback)
			continue;
		slowed->n_retransmits = (isnan(slowed->n_retransmits) ? 0 : slowed->n_retransmits) +
					link->n_retransmits;
		n_segments += isnan(link->n_segments) ? 0 : link->n_segments;
		if (link->n_retransmits > slowed->worst_n) {
			slowed->worst_n = link->n_retransmits;
			slowed->worst_from = link->from;
			slowed->worst_to = link->to;
			slowed->worst_frac = link->n_segments > 0
						     ? link->n_retransmits / link->n_segments
						     : (double)NAN;
		}
	}
	if (n_segments > 0)
		slowed->frac = slowed->n_retransmits / n_segments;
}

/* Most went by RDMA, and its packets were not captured: TCP, if there is any, tells nothing of it. */
static bool is_rdma_unseen(const struct lw_run *run)
{
	const struct lw_net_link *link;
	double bytes = 0, rdma_bytes = 0;

	lw_vec_foreach (link, &run->network.links) {
		bytes += link->run_bytes;
		rdma_bytes += link->is_captured[true] ? 0 : link->rdma_bytes;
	}
	return rdma_bytes > bytes / 2;
}

int lw_net_count_resent(struct lw_run *run)
{
	bool *has_port = calloc(run->nics.n + 1, sizeof(*has_port));

	if (!has_port)
		return lw_fail(LW_ERR_NOMEM, "no memory");
	count_links(run);
	if (is_rdma_unseen(run))
		count_ports(run, has_port);
	free(has_port);
	return LW_OK;
}
