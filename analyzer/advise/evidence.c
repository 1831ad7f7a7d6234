/* SPDX-License-Identifier: Apache-2.0 */
/*
 * evidence.c - what the run cannot tell, and which run would.
 *
 * A run with Horovod's defaults fuses everything, so it holds few sizes of operations: nothing in it
 * says what small ones cost under load. Then settings that send them are extrapolated, and this
 * adviser says what to record.
 */
#include <math.h>
#include <string.h>

#include "analyzer/advise/trial.h"
#include "base/units.h"

static const double FEW_SIZES_RATIO = 1.5; /* largest over smallest operation: "one size" */
enum { FEW_STEPS = 10 };

static int find_steps(const struct lw_adviser *self, struct lw_advice_list *list)
{
	if (list->replay->n_steps >= FEW_STEPS)
		return LW_OK;
	return lw_advise_find(list, self->id,
		"only %u steps count: intervals are wide. Record at least %d steps after warm-up",
		list->replay->n_steps, FEW_STEPS);
}

static int find_sizes(
	const struct lw_adviser *self, const struct lw_run *run, struct lw_advice_list *list)
{
	const struct lw_replay *replay = list->replay;
	char least[LW_UNIT_TEXT_BYTES], most[LW_UNIT_TEXT_BYTES];

	if (run->probes.n ||
		(double)replay->max_batch_bytes > (double)replay->min_batch_bytes * FEW_SIZES_RATIO)
		return LW_OK;
	return lw_advise_find(list, self->id,
		"all operations of this run carry about the same (%s to %s): how their cost depends on the size cannot be told. %s with HOROVOD_FUSION_THRESHOLD=%.0f would tell",
		lw_bytes_format((double)replay->min_batch_bytes, least),
		lw_bytes_format((double)replay->max_batch_bytes, most),
		replay->probe == LW_FIT_PROBE_NONE
			? "Some steps"
			: "A run recorded with `lapwing record --probe` or some steps",
		floor((double)replay->min_batch_bytes / 4));
}

static int find_extrapolated(
	const struct lw_adviser *self, const struct lw_run *run, struct lw_advice_list *list)
{
	size_t n_small = 0, n_large = 0, n = 0;
	const struct lw_trial *row;
	char bytes[LW_UNIT_TEXT_BYTES];
	int status = LW_OK;

	lw_vec_foreach (row, &list->tried) {
		if (strcmp(row->id, "horovod.fusion_cycle"))
			continue;
		n++;
		if (!row->prediction.is_extrapolated)
			continue;
		if (row->prediction.totals.max_batch_bytes > list->replay->max_batch_bytes)
			n_large++;
		else
			n_small++;
	}
	if (n_small)
		status = lw_advise_find(list, self->id,
			"%zu of %zu settings that were tried send operations of sizes that this run does not hold (its smallest: %s); what those cost under load cannot be told. %s with HOROVOD_FUSION_THRESHOLD=0 would tell",
			n_small, n, lw_bytes_format((double)list->replay->min_batch_bytes, bytes),
			run->probes.n || list->replay->probe == LW_FIT_PROBE_NONE
				? "A few steps"
				: "A run recorded with `lapwing record --probe` or a few steps");
	if (n_large && status == LW_OK)
		status = lw_advise_find(list, self->id,
			"%zu of %zu settings that were tried send operations larger than the largest of this run (%s). A few steps with HOROVOD_FUSION_THRESHOLD=134217728 and HOROVOD_CYCLE_TIME=%g would show what those cost",
			n_large, n, lw_bytes_format((double)list->replay->max_batch_bytes, bytes),
			fmin((double)list->replay->setting.cycle_ns / 1e6 * 8, 50));
	return status;
}

/* Of each adviser the best of what contended cores can turn into a loss. */
static int find_eaten(const struct lw_adviser *self, struct lw_advice_list *list)
{
	const struct lw_trial *row, *best = NULL;
	char wait[LW_UNIT_TEXT_BYTES];
	int status = LW_OK;

	lw_vec_foreach (row, &list->tried) {
		bool is_last = row + 1 == list->tried.at + list->tried.n ||
			       strcmp(row->id, row[1].id) != 0;

		if (!strcmp(row->id, lw_adviser_sensitivity.id) ||
			!strcmp(row->id, lw_adviser_ranks.id))
			continue; /* answers, not advice */
		if (lw_advise_is_eaten(list, row) &&
			(!best || row->gain_ns.value > best->gain_ns.value))
			best = row;
		if (!is_last || !best || status < 0)
			continue;
		status = lw_advise_find(list, self->id,
			"not said: %s (%s) would save %.1f %% of a step if computing stayed the same, but cores are contended: a step waits %s for one, and that may as well double",
			best->label, best->id, 100 * lw_advise_gain_frac(list, best).value,
			lw_ns_format(list->replay->core_wait_ns, wait));
		best = NULL;
	}
	return status;
}

static int advise(const struct lw_adviser *self, struct lw_run *run, struct lw_advice_list *list)
{
	int status = find_steps(self, list);

	if (status == LW_OK)
		status = find_eaten(self, list);

	if (list->replay->is_ddp)
		return status;
	if (status == LW_OK)
		status = find_sizes(self, run, list);
	if (status == LW_OK)
		status = find_extrapolated(self, run, list);
	return status;
}

const struct lw_adviser lw_adviser_evidence = {
	.id = "horovod.evidence",
	.title = "What this run cannot tell",
	.run = advise,
	.assumes = "The cost of an operation is known only for sizes that the run holds.",
	.wrong_if = "Nothing: it claims nothing.",
	.check = "Record what it names.",
};
