/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hierarchical.c - hosts with several ranks each: reduce in the host, then between hosts, then spread.
 *
 * Horovod does that over NCCL only. A flat ring crosses each host's network card with one flow each way,
 * 2 (N - 1) / N of the bytes; the torus with n flows of an n-th, 2 (m - 1) / m: with one card a host nearly
 * the same. What it saves is latency, 2 (m - 1) messages between hosts where there were 2 (N - 1). What a
 * message in the host costs is not in a run of a flat ring, so it is taken from nothing to all.
 */
#include <math.h>
#include <stdio.h>

#include "analyzer/advise/trial.h"
#include "analyzer/model/topology.h"

/* What of a flat ring's latency and volume the torus keeps, when a hop in the host costs @intra of one
 * between hosts, which all ranks of a host share. */
static struct lw_whatif torus(int n_hosts, int n_per_host, double intra)
{
	struct lw_whatif whatif = LW_WHATIF_RECORDED;
	struct lw_topology latency = {n_hosts, n_per_host, {intra, 0}, {1, 0}, 0};
	struct lw_topology volume = {n_hosts, n_per_host, {0, intra}, {0, n_per_host}, 0};
	struct lw_topology flat = {n_hosts, n_per_host, {0, 1}, {0, 1}, 0};

	whatif.latency_frac = lw_torus_ns(1, &latency) / lw_flat_ring_ns(1, &latency);
	whatif.bandwidth_frac = lw_flat_ring_ns(1, &flat) / lw_torus_ns(1, &volume);
	return whatif;
}

static const struct way {
	enum lw_setting setting;
	const char *variable;
} ways[] = {
	{LW_SETTING_TORUS_ALLREDUCE, "HOROVOD_TORUS_ALLREDUCE"},
	{LW_SETTING_HIERARCHICAL_ALLREDUCE, "HOROVOD_HIERARCHICAL_ALLREDUCE"},
};

/* The variable that is on, NULL = none. */
static const char *what_is_on(const struct lw_rank *rank)
{
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
		if (rank->setting[ways[i].setting] > 0)
			return ways[i].variable;
	return NULL;
}

/* Between the two: as much as a message in the host costs. */
static struct lw_trial between(const struct lw_trial *best, const struct lw_trial *worst)
{
	struct lw_trial trial = *worst;

	trial.step_ns.value = (best->step_ns.value + worst->step_ns.value) / 2;
	trial.step_ns.low = best->step_ns.low;
	trial.gain_ns.value = (best->gain_ns.value + worst->gain_ns.value) / 2;
	trial.gain_ns.high = best->gain_ns.high;
	trial.gain_ns.how = trial.step_ns.how = LW_ASSUMED;
	trial.gain_ns.why = trial.step_ns.why = trial.prediction.step_ns.why =
		"what a message inside a host costs is not in this run: taken from nothing to as much as between hosts";
	return trial;
}

static int conclude(const struct lw_adviser *self, struct lw_advice_list *list,
	const struct lw_trial *best, const struct lw_trial *worst, const struct lw_rank *rank)
{
	struct lw_trial trial = between(best, worst);
	struct lw_advice *advice;
	char least[128], most[128];

	lw_advise_gain_text(list, worst, least);
	lw_advise_gain_text(list, best, most);
	if (rank->transport != LW_TRANSPORT_NCCL)
		return lw_advise_find(list, self->id,
			"several ranks a host, on several hosts: reducing inside each host first would bring the step %s, if a message there costs nothing; %s, if it costs as much as between hosts. Horovod can do that over NCCL only, and this run did not use NCCL",
			most, least);
	if (lw_advise_is_sure(list, best) && !lw_advise_is_sure(list, &trial))
		return lw_advise_find(list, self->id,
			"several ranks a host, on several hosts: whether reducing inside each host first pays hangs on what a message there costs, which is not in this run: it would bring the step %s, if nothing; %s, if as much as between hosts",
			most, least);
	if (!lw_advise_is_sure(list, &trial))
		return lw_advise_note(list, self->id,
			"reducing inside each host first brings no more than the error of saying so: the step %s at best",
			most);
	/* its ParameterManager told the tracer of it: 0.26 and later */
	if (rank->setting_source[LW_SETTING_TORUS_ALLREDUCE] != LW_SOURCE_LIVE)
		return lw_advise_find(list, self->id,
			"several ranks a host, on several hosts: reducing inside each host first, as a torus, would bring the step %s, if a message in the host costs nothing; %s, if it costs as much as between hosts. Horovod has that (HOROVOD_TORUS_ALLREDUCE) since 0.26, and this run does not show that its Horovod has; HOROVOD_HIERARCHICAL_ALLREDUCE, which all have, copies through host memory besides, for how long is not in this run",
			most, least);
	if (lw_advise_add(list, self, LW_ADVICE_SET, &trial, &advice) < 0)
		return LW_ERR_NOMEM;
	snprintf(advice->why, sizeof(advice->why),
		"several ranks a host, on several hosts: reducing inside each host first sends fewer messages one after the other between hosts; the step comes %s, if a message in the host costs nothing; %s, if it costs as much as between hosts. HOROVOD_HIERARCHICAL_ALLREDUCE does the same, but copies through host memory",
		most, least);
	lw_advise_set(advice, "HOROVOD_TORUS_ALLREDUCE", "1");
	return LW_OK;
}

static int advise(const struct lw_adviser *self, struct lw_run *run, struct lw_advice_list *list)
{
	const struct lw_rank *rank = &run->ranks.at[0];
	struct lw_trial best, worst;
	struct lw_whatif whatif;
	int n_hosts, n_per_host, status;

	lw_advise_hosts(run, &n_hosts, &n_per_host);
	if (list->replay->is_ddp || n_hosts < 2 || n_per_host < 2)
		return LW_OK;
	if (rank->transport == LW_TRANSPORT_NCCL && what_is_on(rank))
		return lw_advise_note(list, self->id,
			"%s is on: the recorded operations reduce inside each host first already, and what they would cost as one flat ring is not in this run",
			what_is_on(rank));
	whatif = torus(n_hosts, n_per_host, 0);
	status = lw_advise_try(list, self->id, &whatif, &best, "hops in the host for nothing");
	whatif = torus(n_hosts, n_per_host, 1);
	if (status == LW_OK)
		status = lw_advise_try(
			list, self->id, &whatif, &worst, "hops in the host as between");
	return status < 0 ? status : conclude(self, list, &best, &worst, rank);
}

const struct lw_adviser lw_adviser_hierarchical = {
	.id = "horovod.hierarchical",
	.title = "Reduce inside each host first",
	.run = advise,
	.assumes =
		"The recorded operations are flat rings; the ranks of a host share one network card; a message inside a host costs between nothing and as much as one between hosts.",
	.wrong_if =
		"NCCL already builds trees or rings that know the hosts, as it does by default; there are several cards a host.",
	.check = "Set the variable, record again, and compare the two with `lapwing report`.",
};
