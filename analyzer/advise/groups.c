/* SPDX-License-Identifier: Apache-2.0 */
/*
 * groups.c - explicit groups (grouped all-reduce) with the cycle at its minimum.
 *
 * Without groups a short cycle means small operations: what is ready is sent. With them the cycle only
 * decides how soon a group is seen, and the groups decide how large operations are. Groups come from
 * num_groups, from the exact dynamic programme, from MG-WFBP and from both readings of adaFusion; each
 * is judged by the simulator, which knows rounds, queues and scatter, not by the closed form that
 * made it.
 */
#include "analyzer/advise/group_job.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/advise/trial.h"
#include "analyzer/model/grouping.h"
#include "base/units.h"

enum rule { DP, MGWFBP, ADAFUSION, ADAFUSION_QUEUE, N_RULES };

static const char *const rule_names[] = {"exact (DP)", "MG-WFBP", "adaFusion", "adaFusion, queue"};

struct search {
	struct lw_advice_list *list;
	const struct lw_adviser *self;
	struct lw_group_job job;
	double cycle_ns;
	double end_ns[N_RULES]; /* closed form: last group's end after the first gradient */
	/* of the best so far */
	struct lw_trial best;
	uint32_t n_groups; /* groups=n, 0 = a rule's */
	enum rule rule;
	bool has_best, is_fusion_off;
};

static int make_groups(struct search *search, enum rule rule)
{
	struct lw_group_job *job = &search->job;
	struct lw_link link = lw_group_job_link(job);
	int status = LW_OK;

	switch (rule) {
	case MGWFBP:
		lw_group_mgwfbp(job->layers, job->n, link, job->is_last);
		break;
	case ADAFUSION:
	case ADAFUSION_QUEUE:
		lw_group_adafusion(
			job->layers, job->n, link, rule == ADAFUSION_QUEUE, job->is_last);
		break;
	case DP:
	case N_RULES:
	default:
		status = lw_group_optimal(job->layers, job->n, INFINITY, link, job->is_last);
	}
	if (status == LW_OK)
		search->end_ns[rule] = lw_group_update_ns(job->layers, job->n, link, job->is_last);
	return status;
}

/* Identified sizes before extrapolated ones, then the gain; those tried earlier are the simpler. */
static void keep_best(struct search *search, const struct lw_trial *trial, uint32_t n_groups,
	enum rule rule, bool is_fusion_off)
{
	double nearly_ns = lw_advise_nearly_ns(search->list);
	const struct lw_trial *best = &search->best;

	if (!lw_advise_is_sure(search->list, trial))
		return;
	if (search->has_best &&
		(trial->prediction.is_extrapolated != best->prediction.is_extrapolated
				? trial->prediction.is_extrapolated
				: trial->gain_ns.value < best->gain_ns.value + nearly_ns))
		return;
	search->best = *trial;
	search->has_best = true;
	search->n_groups = n_groups;
	search->rule = rule;
	search->is_fusion_off = is_fusion_off;
}

/* The threshold still splits a group, so it has to hold the largest. */
static double fusion_bytes(const struct search *search, double largest_bytes)
{
	return fmax((double)search->list->replay->setting.fusion_bytes, largest_bytes);
}

static int try_counts(struct search *search)
{
	static const uint32_t counts[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32};
	double all_bytes = lw_layers_bytes(search->job.layers, search->job.n);
	int status = LW_OK;

	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]) && status == LW_OK; i++) {
		struct lw_whatif whatif = LW_WHATIF_RECORDED;
		struct lw_trial trial;

		if (counts[i] >= search->job.n)
			break;
		whatif.n_groups = counts[i];
		whatif.cycle_ns = search->cycle_ns;
		whatif.fusion_bytes = fusion_bytes(search, all_bytes);
		status = lw_advise_try(search->list, search->self->id, &whatif, &trial,
			"groups=%u, %.3g ms", counts[i], search->cycle_ns / 1e6);
		if (status == LW_OK)
			keep_best(search, &trial, counts[i], DP, false);
	}
	return status;
}

static int try_rule(struct search *search, enum rule rule, bool is_fusion_off)
{
	struct lw_whatif whatif = LW_WHATIF_RECORDED;
	struct lw_trial trial;
	int status = make_groups(search, rule);

	if (status < 0)
		return status;
	whatif.cycle_ns = search->cycle_ns;
	whatif.fusion_bytes = fusion_bytes(search, lw_group_job_apply(&search->job));
	whatif.group_of = search->job.group_of;
	whatif.is_group_fusion_off = is_fusion_off;
	status = lw_advise_try(search->list, search->self->id, &whatif, &trial, "%s: %zu%s",
		rule_names[rule], lw_group_n_ops(search->job.is_last, search->job.n),
		is_fusion_off ? ", not fused" : "");
	if (status == LW_OK)
		keep_best(search, &trial, 0, rule, is_fusion_off);
	return status;
}

static int try_all(struct search *search)
{
	int status = try_counts(search);

	for (int rule = 0; rule < N_RULES && status == LW_OK; rule++)
		status = try_rule(search, (enum rule)rule, false);
	if (status == LW_OK)
		status = try_rule(search, DP, true);
	return status;
}

/* What threshold and cycle alone bring, which needs no code; 0 when that cannot be told. */
static double gain_of_settings_ns(const struct lw_advice_list *list)
{
	const struct lw_trial *trial;
	double most_ns = 0;

	lw_vec_foreach (trial, &list->tried)
		if (!strcmp(trial->id, lw_adviser_fusion_cycle.id) &&
			lw_advise_is_sure(list, trial))
			most_ns = fmax(most_ns, trial->gain_ns.value);
	return most_ns;
}

static void write_closed(const struct search *search, char text[256])
{
	int n = snprintf(text, 256,
		"By the closed form alone the last group ends so long after the first gradient:");

	for (int rule = 0; rule < N_RULES; rule++) {
		char end[LW_UNIT_TEXT_BYTES];

		n += snprintf(text + n, 256 - (size_t)n, "%s %s %s", rule ? "," : "",
			rule_names[rule], lw_ns_format(search->end_ns[rule], end));
	}
}

static int write_code(struct search *search, const struct lw_run *run, struct lw_advice *advice)
{
	int status;

	if (search->n_groups)
		return lw_advise_code(advice,
			"optimizer = hvd.DistributedOptimizer(optimizer,\n"
			"    named_parameters=model.named_parameters(), groups=%u)",
			search->n_groups);
	status = make_groups(search, search->rule);
	if (status < 0)
		return status;
	advice->code = lw_group_job_code(&search->job, run);
	return advice->code ? LW_OK : lw_fail(LW_ERR_NOMEM, "no memory for the lines of an advice");
}

static int add_advice(struct search *search, const struct lw_run *run, double settings_ns)
{
	const struct lw_replay *replay = search->list->replay;
	const struct lw_trial *best = &search->best;
	char settings[LW_UNIT_TEXT_BYTES], gain[LW_UNIT_TEXT_BYTES], closed[256];
	struct lw_advice *advice;

	if (lw_advise_add(search->list, search->self, LW_ADVICE_CODE, best, &advice) < 0)
		return LW_ERR_NOMEM;
	write_closed(search, closed);
	snprintf(advice->why, sizeof(advice->why),
		"explicit groups keep operations large (%.1f a step, now %.1f) while a short cycle starts them soon after their last gradient: %s less a step, where threshold and cycle alone bring %s. %s. Keep your other arguments of DistributedOptimizer; a job that calls hvd.allreduce_async itself calls hvd.grouped_allreduce_async with the same lists",
		(double)best->prediction.totals.n_batches / replay->input.n_steps,
		(double)search->list->base.totals.n_batches / replay->input.n_steps,
		lw_ns_format(best->gain_ns.value, gain), lw_ns_format(settings_ns, settings),
		closed);
	lw_advise_set(advice, "HOROVOD_CYCLE_TIME", "%g", search->cycle_ns / 1e6);
	if (best->prediction.fusion_bytes > (double)replay->setting.fusion_bytes)
		lw_advise_set(advice, "HOROVOD_FUSION_THRESHOLD", "%.0f",
			ceil(best->prediction.fusion_bytes));
	if (search->is_fusion_off)
		lw_advise_set(advice, "HOROVOD_DISABLE_GROUP_FUSION", "1");
	return write_code(search, run, advice);
}

static int conclude(struct search *search, const struct lw_run *run)
{
	double settings_ns = gain_of_settings_ns(search->list);
	double nearly_ns = lw_advise_nearly_ns(search->list);
	char gain[LW_UNIT_TEXT_BYTES], settings[LW_UNIT_TEXT_BYTES], closed[256];

	if (search->has_best && search->best.gain_ns.value > settings_ns + nearly_ns)
		return add_advice(search, run, settings_ns);
	write_closed(search, closed);
	if (!search->has_best)
		return lw_advise_note(search->list, search->self->id,
			"no explicit groups are faster by more than the error of saying so. %s",
			closed);
	return lw_advise_note(search->list, search->self->id,
		"explicit groups would save %s a step; threshold and cycle alone save %s and need no code. %s",
		lw_ns_format(search->best.gain_ns.value, gain), lw_ns_format(settings_ns, settings),
		closed);
}

static int advise(const struct lw_adviser *self, struct lw_run *run, struct lw_advice_list *list)
{
	const struct lw_replay *replay = list->replay;
	struct search search = {.list = list, .self = self};
	int status;

	if (replay->is_ddp || replay->input.n_ranks < 2)
		return LW_OK;
	search.cycle_ns = round(lw_advise_least_cycle_ns(replay));
	status = lw_group_job_init(replay, &search.job);
	if (status == LW_OK && search.job.n > 1)
		status = try_all(&search);
	if (status == LW_OK && search.job.n > 1)
		status = conclude(&search, run);
	lw_group_job_done(&search.job);
	return status;
}

const struct lw_adviser lw_adviser_groups = {
	.id = "horovod.groups",
	.title = "Explicit groups of gradients",
	.run = advise,
	.assumes =
		"Gradients become ready when they did in this run, on average in this order, and a group is sent when all of its gradients are ready on all ranks. groups=n cuts the parameters in the order of the optimizer, taken to be the reverse of that. DP is exact for a link that is a queue, means of times, and gradients of one type; each row is then simulated with the recorded scatter.",
	.wrong_if =
		"The order differs from step to step; some parameters get no gradient in some steps; the sizes of the groups are not among those that this run holds (x).",
	.check =
		"Paste the groups, set the cycle, record again, and see in `lapwing report` how many operations a step has.",
};
