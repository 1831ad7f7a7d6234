/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slow.c - whose way out is much slower than the others', and the server whose NIC all others share.
 *
 * Only where that is proven: what the slow one carries at most is below what the others carry at least. A rank whose data
 * meet those of others at the NIC of who gets them only waits its turn there.
 */
#include <math.h>
#include <stdlib.h>

#include "analyzer/network/network.h"

#define SLOW_FRAC  0.67 /* of the others: slow */
#define OTHER_FRAC 0.1  /* of what a NIC sent: somebody else's, which takes its part */

static bool is_measured(const struct lw_net_rank *rank)
{
	return !isnan(rank->capacity_bytes_per_s) &&
	       (rank->capacity_from == LW_CAPACITY_PLATEAU ||
		       rank->capacity_from == LW_CAPACITY_BUSY);
}

/* Who gets its data gets them of more ranks than it sends to. */
static bool meets_others(const struct lw_run *run, int32_t r)
{
	const struct lw_network *net = &run->network;
	const struct lw_net_link *link;

	lw_vec_foreach (link, &net->links)
		if (link->from == r && lw_net_is_edge(run, link) &&
			net->ranks.at[link->to].n_in > net->ranks.at[r].n_out)
			return true;
	return false;
}

/* No one else is seen to send by its NIC. The rate of a NIC (plateau) has their part in it. */
static bool has_nic_alone(const struct lw_run *run, const struct lw_net_rank *rank)
{
	const struct lw_net_account *account;

	if (rank->capacity_from == LW_CAPACITY_PLATEAU)
		return true;
	lw_vec_foreach (account, &run->network.accounts)
		if (account->nic == rank->nic)
			return !(account->other_tx_bytes > OTHER_FRAC * account->tx_bytes);
	return !run->n_missing_ranks;
}

static void judge(struct lw_run *run, double *others)
{
	struct lw_network *net = &run->network;
	const struct lw_net_rank *rank, *slow = NULL;
	double most_bytes_per_s;
	size_t n = 0;

	for (size_t r = 0; r < net->ranks.n; r++) {
		rank = &net->ranks.at[r];
		if (is_measured(rank) &&
			(!slow || rank->capacity_bytes_per_s < slow->capacity_bytes_per_s) &&
			has_nic_alone(run, rank) && !meets_others(run, (int32_t)r))
			slow = rank;
	}
	if (!slow)
		return;
	lw_vec_foreach (rank, &net->ranks) {
		if (!is_measured(rank) || rank->nic == slow->nic)
			continue;
		others[n++] = rank->capacity_bytes_per_s;
		if (net->others_from != LW_CAPACITY_BUSY)
			net->others_from = rank->capacity_from;
	}
	net->others_bytes_per_s = lw_net_median(others, n);
	most_bytes_per_s = slow->capacity_from == LW_CAPACITY_BUSY ? slow->at_most_bytes_per_s
								   : slow->capacity_bytes_per_s;
	if (most_bytes_per_s < SLOW_FRAC * net->others_bytes_per_s)
		net->slow_rank = (int32_t)(slow - net->ranks.at);
}

/* ---- a server --------------------------------------------------------------------------------------- */

/* Data was in flight to @hub, from it: at least as long as in the connection that had some longest. */
static int in_use_frac(const struct lw_run *run, int32_t hub, bool is_in, double *ret_frac)
{
	int64_t start_ns = INT64_MAX, end_ns = INT64_MIN;
	const struct lw_tcp_end *end;
	double longest_ns = 0;

	lw_vec_foreach (end, &run->ends) {
		struct lw_net_flight flight;

		if (!lw_net_is_between_ranks(end) || (is_in ? end->peer_rank : end->rank) != hub ||
			!end->tcp.n || end->tcp.at[end->tcp.n - 1].busy_ns < 0)
			continue;
		if (lw_net_flight_make(end, &flight) < 0)
			return LW_ERR_NOMEM;
		longest_ns = fmax(longest_ns, flight.at[flight.n - 1].all_ns);
		for (size_t i = 0; i < flight.n; i++) {
			double ns = flight.at[i].all_ns - (i ? flight.at[i - 1].all_ns : 0);
			int64_t at_ns = flight.at[i].at_ns;

			if (ns <= 0)
				continue;
			end_ns = at_ns > end_ns ? at_ns : end_ns;
			if (at_ns - (int64_t)ns < start_ns)
				start_ns = at_ns - (int64_t)ns;
		}
		lw_net_flight_free(&flight);
	}
	*ret_frac = end_ns > start_ns ? longest_ns / (double)(end_ns - start_ns) : (double)NAN;
	return LW_OK;
}

static int find_server(struct lw_run *run)
{
	struct lw_network *net = &run->network;
	int32_t hub = net->hub;

	if (net->algorithm != LW_ALGORITHM_STAR || hub == LW_NONE || !net->ranks.at[hub].is_hot ||
		net->ranks.at[hub].nic == LW_NONE)
		return LW_OK;
	net->server.rank = hub;
	if (in_use_frac(run, hub, true, &net->server.in_frac) < 0)
		return LW_ERR_NOMEM;
	return in_use_frac(run, hub, false, &net->server.out_frac);
}

int lw_net_find_slow(struct lw_run *run)
{
	double *others = calloc(run->network.ranks.n + 1, sizeof(*others));

	if (!others)
		return lw_fail(LW_ERR_NOMEM, "no memory");
	judge(run, others);
	free(others);
	return find_server(run);
}
