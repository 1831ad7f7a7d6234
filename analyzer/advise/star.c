/* SPDX-License-Identifier: Apache-2.0 */
/*
 * star.c - traffic through one rank (a parameter server, or a root that gathers and spreads).
 *
 * In a ring every rank sends 2 (N - 1) / N D; through a hub, the hub sends (N - 1) D or more, every other
 * rank about D (Zhang, Ran, Lai, Liu: Ring Allreduce against parameter server on Tianhe). The hub's
 * link is then the limit, and a ring's is (hub's bytes / ring's bytes) times less busy.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "analyzer/advise/trial.h"
#include "analyzer/model/osf.h"
#include "base/units.h"

static const double HUB_FRAC = 0.75;       /* of (N - 1) D: that much came from one rank */
static const double HUB_OVER_OTHERS = 1.6; /* and that many times what the next one sent */

struct traffic { /* a step, over the counted ones and what lies between */
	size_t hub;
	double hub_bytes, next_bytes, ring_bytes;
};

static bool find_span(const struct lw_run *run, int64_t *ret_n_steps, size_t *first, size_t *last)
{
	const struct lw_rank *rank = &run->ranks.at[0];

	*ret_n_steps = 0;
	for (size_t s = 0; s < rank->steps.n; s++) {
		bool counts = true;

		for (size_t r = 0; r < run->ranks.n; r++)
			counts = counts && s < run->ranks.at[r].steps.n &&
				 !run->ranks.at[r].steps.at[s].excluded;
		if (!counts)
			continue;
		*first = *ret_n_steps ? *first : s;
		*last = s;
		++*ret_n_steps;
	}
	return *ret_n_steps > 0;
}

static double gradient_bytes(const struct lw_run *run, size_t first, size_t last)
{
	const struct lw_rank *rank = &run->ranks.at[0];
	double bytes = 0;

	for (size_t s = first; s <= last; s++)
		for (uint32_t b = 0; b < rank->steps.at[s].n_batches; b++)
			bytes += (double)rank->batches.at[rank->steps.at[s].first_batch + b].bytes;
	return bytes;
}

/* Return: false = the traffic of a rank is not known, or it is no star. */
static bool is_star(const struct lw_run *run, struct traffic *ret_traffic)
{
	double n_ranks = (double)run->ranks.n, bytes, n_steps;
	struct traffic traffic = {0};
	int64_t n_counted;
	size_t first = 0, last = 0;

	if (run->ranks.n < 3 || !find_span(run, &n_counted, &first, &last))
		return false;
	n_steps = (double)(last - first + 1);
	for (size_t r = 0; r < run->ranks.n; r++) {
		const struct lw_rank *rank = &run->ranks.at[r];
		double sent_bytes;

		if (rank->traffic.n < 2)
			return false;
		sent_bytes = (lw_rank_sent_bytes(rank, rank->steps.at[last].end_ns) -
				     lw_rank_sent_bytes(rank, rank->steps.at[first].start_ns)) /
			     n_steps;
		if (sent_bytes > traffic.hub_bytes) {
			traffic.next_bytes = traffic.hub_bytes;
			traffic.hub_bytes = sent_bytes;
			traffic.hub = r;
		} else if (sent_bytes > traffic.next_bytes) {
			traffic.next_bytes = sent_bytes;
		}
	}
	bytes = gradient_bytes(run, first, last) / n_steps;
	traffic.ring_bytes = lw_ring_wire_bytes(bytes, (int)run->ranks.n);
	*ret_traffic = traffic;
	return bytes > 0 && traffic.hub_bytes > HUB_FRAC * (n_ranks - 1) * bytes &&
	       traffic.hub_bytes > HUB_OVER_OTHERS * traffic.next_bytes;
}

static int advise(const struct lw_adviser *self, struct lw_run *run, struct lw_advice_list *list)
{
	struct lw_whatif whatif = LW_WHATIF_RECORDED;
	char hub[LW_UNIT_TEXT_BYTES], next[LW_UNIT_TEXT_BYTES], ring[LW_UNIT_TEXT_BYTES];
	char text[512], gain[128];
	struct traffic traffic;
	struct lw_advice *advice;
	struct lw_trial trial;
	int status;

	if (!is_star(run, &traffic))
		return LW_OK;
	snprintf(text, sizeof(text),
		"rank %d (host %.64s) sends %s a step, the next one %s: a star; in a ring every rank would send %s, %.1f times less than the hub",
		run->ranks.at[traffic.hub].rank, run->ranks.at[traffic.hub].host,
		lw_bytes_format(traffic.hub_bytes, hub), lw_bytes_format(traffic.next_bytes, next),
		lw_bytes_format(traffic.ring_bytes, ring), traffic.hub_bytes / traffic.ring_bytes);
	if (!list->replay)
		return lw_advise_find(list, self->id, "%s", text);
	whatif.bandwidth_frac = traffic.hub_bytes / traffic.ring_bytes;
	status = lw_advise_try(list, self->id, &whatif, &trial, "a ring");
	if (status < 0)
		return status;
	if (!lw_advise_is_sure(list, &trial))
		return lw_advise_find(list, self->id,
			"%s. A ring would take the step %s: less than the error of saying so", text,
			lw_advise_gain_text(list, &trial, gain));
	trial.step_ns.how = trial.gain_ns.how = LW_ASSUMED;
	trial.step_ns.why = trial.gain_ns.why = trial.prediction.step_ns.why =
		"the hub's link is taken to be the limit";
	if (lw_advise_add(list, self, LW_ADVICE_WHAT_IF, &trial, &advice) < 0)
		return LW_ERR_NOMEM;
	snprintf(advice->why, sizeof(advice->why),
		"%s. If the hub's link is the limit, a ring takes the step %s. Over Open MPI: coll_tuned_use_dynamic_rules=1 and coll_tuned_allreduce_algorithm=4 make it one; with a parameter server of your own: all-reduce instead",
		text, lw_advise_gain_text(list, &trial, gain));
	return LW_OK;
}

const struct lw_adviser lw_adviser_star = {
	.id = "network.star",
	.title = "A ring instead of a star",
	.run = advise,
	.needs_no_replay = true,
	.assumes =
		"The hub's link is what takes the time, and links of a ring are as fast; latency stays as it is.",
	.wrong_if =
		"The hub is limited by its core rather than by its link; ranks share a host, where a link is memory.",
	.check = "Switch, record again, and compare bytes sent by rank and the step.",
};
