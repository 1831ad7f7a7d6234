/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ddp.c - which bucket_cap_mb, and which limit of the first bucket: search over the replay of a DDP run.
 *
 * First the limit of all buckets, then at the best of these that of the first one. Of limits that are
 * nearly as good as the best the nearest to the recorded one is advised.
 */
#include <math.h>
#include <stdio.h>

#include "analyzer/advise/trial.h"
#include "base/units.h"

static const double MIB = 1048576;

struct search {
	const struct lw_adviser *self;
	struct lw_advice_list *list;
	double all_bytes; /* of all gradients */
	size_t from;      /* its trials begin here in list->tried */
};

static int try_limits(struct search *search, double cap_bytes, double first_bytes)
{
	struct lw_whatif whatif = LW_WHATIF_RECORDED;
	char first[LW_UNIT_TEXT_BYTES];

	whatif.bucket_cap_bytes = cap_bytes;
	whatif.first_bucket_bytes = first_bytes;
	if (!(first_bytes > 0))
		return lw_advise_try(
			search->list, search->self->id, &whatif, NULL, "%g MiB", cap_bytes / MIB);
	return lw_advise_try(search->list, search->self->id, &whatif, NULL, "%g MiB, first %s",
		cap_bytes / MIB, lw_bytes_format(first_bytes, first));
}

/* One that holds all gradients is as good as any larger one. */
static int try_caps(struct search *search)
{
	static const double caps_mib[] = {1, 2, 5, 10, 25, 50, 100};
	double recorded_bytes = (double)search->list->replay->ddp.setting.cap_bytes;
	bool is_whole = false, has_recorded = false;
	int status = LW_OK;

	for (size_t i = 0; i < sizeof(caps_mib) / sizeof(caps_mib[0]) && status == LW_OK; i++) {
		double cap_bytes = caps_mib[i] * MIB;

		if (!has_recorded && recorded_bytes <= cap_bytes) {
			status = try_limits(search, recorded_bytes, 0);
			has_recorded = true;
			is_whole = is_whole || recorded_bytes >= search->all_bytes;
		}
		if (status == LW_OK && !is_whole && cap_bytes != recorded_bytes)
			status = try_limits(search, cap_bytes, 0);
		is_whole = is_whole || cap_bytes >= search->all_bytes;
	}
	if (status == LW_OK && !has_recorded)
		status = try_limits(search, recorded_bytes, 0);
	return status;
}

static int try_firsts(struct search *search, double cap_bytes)
{
	static const double firsts_mib[] = {0.25, 0.5, 1, 2, 5};
	double recorded_bytes = (double)search->list->replay->ddp.setting.first_bytes;
	int status = LW_OK;

	for (size_t i = 0; i < sizeof(firsts_mib) / sizeof(firsts_mib[0]) && status == LW_OK; i++)
		if (firsts_mib[i] * MIB != recorded_bytes && firsts_mib[i] * MIB <= cap_bytes)
			status = try_limits(search, cap_bytes, firsts_mib[i] * MIB);
	return status;
}

/* Octaves from the recorded limits. */
static double distance(const struct search *search, const struct lw_trial *trial)
{
	const struct lw_ddp_setting *recorded = &search->list->replay->ddp.setting;

	return fabs(log2(trial->prediction.bucket_cap_bytes / (double)recorded->cap_bytes)) +
	       fabs(log2(trial->prediction.first_bucket_bytes / (double)recorded->first_bytes));
}

/* @is_sure_only: only those that may be advised. Identified ones go before extrapolated ones. */
static const struct lw_trial *best_of(const struct search *search, bool is_sure_only)
{
	const struct lw_advice_list *list = search->list;
	const struct lw_trial *best = NULL, *nearest = NULL;

	for (size_t i = search->from; i < list->tried.n; i++) {
		const struct lw_trial *trial = &list->tried.at[i];
		bool is_known = !trial->prediction.is_extrapolated;

		if (is_sure_only && !lw_advise_is_sure(list, trial))
			continue;
		if (!best || (is_known && best->prediction.is_extrapolated) ||
			(is_known == !best->prediction.is_extrapolated &&
				trial->gain_ns.value > best->gain_ns.value))
			best = trial;
	}
	for (size_t i = search->from; best && i < list->tried.n; i++) {
		const struct lw_trial *trial = &list->tried.at[i];

		if (trial->prediction.is_extrapolated != best->prediction.is_extrapolated ||
			(is_sure_only && !lw_advise_is_sure(list, trial)) ||
			trial->gain_ns.value < best->gain_ns.value - lw_advise_nearly_ns(list))
			continue;
		if (!nearest || distance(search, trial) < distance(search, nearest))
			nearest = trial;
	}
	return nearest;
}

/* ---- words -------------------------------------------------------------------------------------- */

static double buckets_of(const struct lw_replay *replay, const struct lw_prediction *prediction)
{
	return (double)prediction->totals.n_batches / replay->input.n_steps;
}

static const char *cause(const struct lw_replay *replay, const struct lw_prediction *from,
	const struct lw_prediction *to)
{
	if (buckets_of(replay, to) > buckets_of(replay, from))
		return "large buckets are complete late, when little is left to compute that could hide sending them; smaller ones use the network earlier";
	if (buckets_of(replay, to) < buckets_of(replay, from))
		return "each bucket has a fixed cost, and there are many; larger ones pay it less often";
	return "the gradients fall into buckets that are complete at better moments";
}

static int add_advice(const struct search *search, const struct lw_trial *trial)
{
	const struct lw_replay *replay = search->list->replay;
	const struct lw_prediction *from = &search->list->base, *to = &trial->prediction;
	double first_bytes = to->first_bucket_bytes, n = replay->input.n_steps;
	bool has_first = first_bytes != (double)replay->ddp.setting.first_bytes;
	char from_exposed[LW_UNIT_TEXT_BYTES], to_exposed[LW_UNIT_TEXT_BYTES];
	struct lw_advice *advice;

	if (lw_advise_add(search->list, search->self, LW_ADVICE_CODE, trial, &advice) < 0)
		return LW_ERR_NOMEM;
	snprintf(advice->why, sizeof(advice->why),
		"%s: a step now waits %s for the network, with %.1f buckets; with this it waits %s, with %.1f",
		cause(replay, from, to), lw_ns_format(from->totals.exposed_ns / n, from_exposed),
		buckets_of(replay, from), lw_ns_format(to->totals.exposed_ns / n, to_exposed),
		buckets_of(replay, to));
	lw_advise_set(advice, "bucket_cap_mb", "%g", to->bucket_cap_bytes / MIB);
	if (!has_first)
		return lw_advise_code(advice,
			"model = DistributedDataParallel(model, bucket_cap_mb=%g)",
			to->bucket_cap_bytes / MIB);
	lw_advise_set(advice, "torch.distributed._DEFAULT_FIRST_BUCKET_BYTES", "%.0f", first_bytes);
	return lw_advise_code(advice,
		"torch.distributed._DEFAULT_FIRST_BUCKET_BYTES = %.0f\n"
		"model = DistributedDataParallel(model, bucket_cap_mb=%g)",
		first_bytes, to->bucket_cap_bytes / MIB);
}

static int add_nothing(const struct search *search)
{
	const struct lw_advice_list *list = search->list;
	const struct lw_trial *best = best_of(search, false);
	char step[LW_UNIT_TEXT_BYTES], gain[LW_UNIT_TEXT_BYTES], low[LW_UNIT_TEXT_BYTES],
		high[LW_UNIT_TEXT_BYTES], none[LW_ADVICE_TEXT_BYTES];
	double cap_mib = (double)list->replay->ddp.setting.cap_bytes / MIB;
	size_t n = list->tried.n - search->from;

	if (best->prediction.is_recorded || best->gain_ns.value <= 0)
		return lw_advise_find(search->list, search->self->id,
			"the recorded bucket_cap_mb=%g is as good as anything this run can tell: %s a step, and %s",
			cap_mib, lw_ns_format(list->base.step_ns.value, step),
			lw_advise_none_better(list, search->from, "other limits", none));
	return lw_advise_find(search->list, search->self->id,
		"the recorded bucket_cap_mb=%g is as good as anything this run can tell: %s a step; one of the best of %zu others (%s) is predicted to save %s, but the error of that is %s to %s",
		cap_mib, lw_ns_format(list->base.step_ns.value, step), n - 1, best->label,
		lw_ns_format(best->gain_ns.value, gain), lw_ns_format(best->gain_ns.low, low),
		lw_ns_format(best->gain_ns.high, high));
}

static int cannot_tell(const struct lw_adviser *self, struct lw_advice_list *list)
{
	const struct lw_replay *replay = list->replay;
	char least[LW_UNIT_TEXT_BYTES], most[LW_UNIT_TEXT_BYTES];

	return lw_advise_find(list, self->id,
		"%.1f buckets a step of %s to %s. Which bucket_cap_mb would be faster cannot be told: %s. `lapwing predict` answers for other networks, ranks and compute",
		replay->batches_per_step, lw_bytes_format((double)replay->min_batch_bytes, least),
		lw_bytes_format((double)replay->max_batch_bytes, most), replay->ddp.why_fixed);
}

static int advise(const struct lw_adviser *self, struct lw_run *run, struct lw_advice_list *list)
{
	struct search search = {.self = self, .list = list, .from = list->tried.n};
	const struct lw_trial *best;
	int status;

	(void)run;
	if (!list->replay->is_ddp || list->replay->input.n_ranks < 2)
		return LW_OK;
	if (list->replay->ddp.why_fixed)
		return cannot_tell(self, list);
	search.all_bytes = lw_advise_step_bytes(list->replay) / list->replay->ddp.setting.wire_frac;
	status = try_caps(&search);
	if (status == LW_OK)
		status = try_firsts(&search, best_of(&search, false)->prediction.bucket_cap_bytes);
	if (status < 0)
		return status;
	best = best_of(&search, true);
	return best ? add_advice(&search, best) : add_nothing(&search);
}

const struct lw_adviser lw_adviser_ddp = {
	.id = "ddp.buckets",
	.title = "Buckets of torch DDP",
	.run = advise,
	.assumes =
		"Gradients are complete when they were in this run, and torch puts them into buckets by its rule: in the order of the first backward pass, each bucket full at its limit or above.",
	.wrong_if =
		"Operations overlap more than they did in this run and get in each other's way; the model computes in another order on another day. torch 2.2 and later give the first bucket the limit of the others when bucket_cap_mb is passed.",
	.check = "Set it, record that run too, and compare the two with `lapwing report`.",
};
