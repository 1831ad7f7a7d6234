/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fusion_cycle.c - which fusion threshold and cycle time: search over the replay of the run.
 *
 * A coarse grid, then the neighbourhood of its best point. Of settings that are nearly as good as the
 * best the one nearest to the recorded setting is advised, and settings whose operations the run holds
 * go before extrapolated ones.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/advise/trial.h"
#include "base/units.h"

/* Horovod's own, since 0.21. */
static const double DEFAULT_FUSION_BYTES = 128 << 20;
static const double DEFAULT_CYCLE_NS = 1000000;

static const char fusion_cycle_id[] = "horovod.fusion_cycle";

struct search {
	struct lw_replay *replay;
	struct lw_advice_list *list;
	size_t first; /* of its trials in list->tried */
};

static void add_value(double *values, size_t *n, double value)
{
	size_t i = *n;

	for (size_t k = 0; k < *n; k++)
		if (values[k] == value)
			return;
	for (; i > 0 && values[i - 1] > value; i--)
		values[i] = values[i - 1];
	values[i] = value;
	(*n)++;
}

void lw_advise_grid(const struct lw_replay *replay, struct lw_advise_grid *ret_grid)
{
	static const double fusion_mib[] = {0, 1.0 / 16, 0.25, 1, 4, 16, 64, 128};
	static const double cycle_ms[] = {0.25, 0.5, 1, 2.5, 5, 10, 20, 50};
	double step_bytes = lw_advise_step_bytes(replay);
	bool is_whole = false; /* a threshold that holds a whole step is in */

	memset(ret_grid, 0, sizeof(*ret_grid));
	for (size_t i = 0; i < sizeof(fusion_mib) / sizeof(fusion_mib[0]) && !is_whole; i++) {
		add_value(ret_grid->fusion_bytes, &ret_grid->n_fusion, fusion_mib[i] * 1048576);
		is_whole = fusion_mib[i] * 1048576 >= step_bytes;
	}
	add_value(
		ret_grid->fusion_bytes, &ret_grid->n_fusion, (double)replay->setting.fusion_bytes);
	for (size_t i = 0; i < sizeof(cycle_ms) / sizeof(cycle_ms[0]); i++)
		if (cycle_ms[i] * 1e6 >= lw_advise_least_cycle_ns(replay))
			add_value(ret_grid->cycle_ns, &ret_grid->n_cycle, cycle_ms[i] * 1e6);
	add_value(ret_grid->cycle_ns, &ret_grid->n_cycle, (double)replay->setting.cycle_ns);
}

static bool is_tried(const struct search *search, double fusion_bytes, double cycle_ns)
{
	for (size_t i = search->first; i < search->list->tried.n; i++) {
		const struct lw_prediction *prediction = &search->list->tried.at[i].prediction;

		if (prediction->fusion_bytes == fusion_bytes && prediction->cycle_ns == cycle_ns)
			return true;
	}
	return false;
}

static int try_setting(struct search *search, double fusion_bytes, double cycle_ns)
{
	struct lw_whatif whatif = LW_WHATIF_RECORDED;
	char bytes[LW_UNIT_TEXT_BYTES];

	whatif.fusion_bytes = floor(fusion_bytes);
	whatif.cycle_ns = round(cycle_ns);
	if (is_tried(search, whatif.fusion_bytes, whatif.cycle_ns))
		return LW_OK;
	return lw_advise_try(search->list, fusion_cycle_id, &whatif, NULL, "%s, %.4g ms",
		lw_bytes_format(whatif.fusion_bytes, bytes), whatif.cycle_ns / 1e6);
}

const struct lw_trial *lw_advise_default(const struct lw_advice_list *list)
{
	const struct lw_trial *trial;

	lw_vec_foreach (trial, &list->tried)
		if (!strcmp(trial->id, fusion_cycle_id) &&
			trial->prediction.fusion_bytes == DEFAULT_FUSION_BYTES &&
			trial->prediction.cycle_ns == DEFAULT_CYCLE_NS)
			return trial;
	return NULL;
}

/* Octaves from the recorded setting; 1 KiB stands in for no fusion. */
static double distance(const struct lw_replay *replay, const struct lw_trial *row)
{
	double from_bytes = fmax((double)replay->setting.fusion_bytes, 1024);
	double to_bytes = fmax(row->prediction.fusion_bytes, 1024);
	double from_ns = fmax((double)replay->setting.cycle_ns, 1000);

	return fabs(log2(to_bytes / from_bytes)) +
	       fabs(log2(fmax(row->prediction.cycle_ns, 1000) / from_ns));
}

/* @is_sure_only: only settings that may be advised. Identified ones go before extrapolated ones. */
static const struct lw_trial *best_of(const struct search *search, bool is_sure_only)
{
	const struct lw_trial *best = NULL, *nearest = NULL;

	for (size_t i = search->first; i < search->list->tried.n; i++) {
		const struct lw_trial *row = &search->list->tried.at[i];

		if (is_sure_only && !lw_advise_is_sure(search->list, row))
			continue;
		if (!best ||
			(best->prediction.is_extrapolated && !row->prediction.is_extrapolated) ||
			(best->prediction.is_extrapolated == row->prediction.is_extrapolated &&
				row->gain_ns.value > best->gain_ns.value))
			best = row;
	}
	if (!best)
		return NULL;
	for (size_t i = search->first; i < search->list->tried.n; i++) {
		const struct lw_trial *row = &search->list->tried.at[i];

		if (row->prediction.is_extrapolated != best->prediction.is_extrapolated ||
			(is_sure_only && !lw_advise_is_sure(search->list, row)) ||
			row->gain_ns.value <
				best->gain_ns.value - lw_advise_nearly_ns(search->list))
			continue;
		if (!nearest || distance(search->replay, row) < distance(search->replay, nearest))
			nearest = row;
	}
	return nearest;
}

static int search_grid(struct search *search)
{
	struct lw_advise_grid grid;
	int status = LW_OK;

	lw_advise_grid(search->replay, &grid);
	for (size_t q = 0; q < grid.n_fusion; q++)
		for (size_t c = 0; c < grid.n_cycle && status == LW_OK; c++)
			status = try_setting(search, grid.fusion_bytes[q], grid.cycle_ns[c]);
	if (status == LW_OK) /* whatever was recorded, everyone wants to see this one */
		status = try_setting(search, DEFAULT_FUSION_BYTES, DEFAULT_CYCLE_NS);
	return status;
}

/* Two significant digits, as a person would write it; never below @least. */
static double plain_cycle_ns(double cycle_ns, double least_ns)
{
	double unit_ns = pow(10, floor(log10(cycle_ns)) - 1);

	return fmax(round(cycle_ns / unit_ns), ceil(least_ns / unit_ns)) * unit_ns;
}

static double plain_bytes(double bytes)
{
	return bytes < 16384 ? bytes : round(bytes / 1024) * 1024;
}

static int search_around(struct search *search, double fusion_bytes, double cycle_ns)
{
	static const double steps[] = {0.5, 0.7, 1.4, 2};
	int status = LW_OK;

	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]) && status == LW_OK; i++) {
		double scaled_ns = plain_cycle_ns(
			cycle_ns * steps[i], lw_advise_least_cycle_ns(search->replay));

		if (fusion_bytes > 0 &&
			fusion_bytes * steps[i] < 2 * lw_advise_step_bytes(search->replay))
			status =
				try_setting(search, plain_bytes(fusion_bytes * steps[i]), cycle_ns);
		if (status == LW_OK && scaled_ns <= 50e6)
			status = try_setting(search, fusion_bytes, scaled_ns);
	}
	return status;
}

static int by_setting(const void *a, const void *b)
{
	const struct lw_trial *x = a, *y = b;

	if (x->prediction.fusion_bytes != y->prediction.fusion_bytes)
		return x->prediction.fusion_bytes < y->prediction.fusion_bytes ? -1 : 1;
	return (x->prediction.cycle_ns > y->prediction.cycle_ns) -
	       (x->prediction.cycle_ns < y->prediction.cycle_ns);
}

/* ---- words ------------------------------------------------------------------------------------ */

struct share {                   /* of a step, ns: what exposed communication consists of */
	double setting_cycle_ns; /* the cycle time it stands for */
	double exposed_ns, cycle_ns, wire_ns, copy_ns, poll_ns, n_batches;
};

static struct share share_of(const struct lw_replay *replay, const struct lw_prediction *prediction)
{
	const struct lw_hvd_totals *totals = &prediction->totals;
	double n = replay->input.n_steps;

	return (struct share){prediction->cycle_ns, totals->exposed_ns / n,
		totals->exposed_cycle_ns / n, totals->exposed_wire_ns / n,
		totals->exposed_copy_ns / n, totals->exposed_poll_ns / n,
		(double)totals->n_batches / n};
}

static const char *cause(const struct share *from, const struct share *to)
{
	double cycle_ns = from->cycle_ns - to->cycle_ns, wire_ns = from->wire_ns - to->wire_ns;
	double copy_ns = from->copy_ns - to->copy_ns;

	if (cycle_ns >= wire_ns && cycle_ns >= copy_ns)
		return "most of what can be saved is waiting for the next coordination cycle";
	if (copy_ns >= wire_ns)
		return "most of what can be saved is copying into and out of the fusion buffer";
	if (to->n_batches < from->n_batches)
		return "many small operations, each with its fixed cost, are what holds the step back";
	if (to->setting_cycle_ns >= from->setting_cycle_ns)
		return "operations are fused so large that the last ones come late; smaller ones use the wire earlier";
	return "tensors wait for the cycle instead of being sent while the rest is computed, so the last operations are late and large";
}

static void write_share(const struct share *share, char text[192])
{
	char exposed[LW_UNIT_TEXT_BYTES], cycle[LW_UNIT_TEXT_BYTES], wire[LW_UNIT_TEXT_BYTES];
	char copy[LW_UNIT_TEXT_BYTES], poll[LW_UNIT_TEXT_BYTES];

	snprintf(text, 192,
		"%s exposed (%s on the wire, %s for cycles and ranks, %s copies, %s until noticed) in %.1f operations",
		lw_ns_format(share->exposed_ns, exposed), lw_ns_format(share->wire_ns, wire),
		lw_ns_format(share->cycle_ns, cycle), lw_ns_format(share->copy_ns, copy),
		lw_ns_format(share->poll_ns, poll), share->n_batches);
}

static void write_setting(double fusion_bytes, double cycle_ns, char text[96])
{
	char bytes[LW_UNIT_TEXT_BYTES];

	snprintf(text, 96, "fusion threshold %s, cycle %g ms",
		fusion_bytes > 0 ? lw_bytes_format(fusion_bytes, bytes) : "0 (off)",
		cycle_ns / 1e6);
}

static int add_advice(
	const struct lw_adviser *self, struct search *search, const struct lw_trial *row)
{
	const struct lw_replay *replay = search->replay;
	struct share from = share_of(replay, &search->list->base);
	struct share to = share_of(replay, &row->prediction);
	char from_text[192], to_text[192];
	struct lw_advice *advice;

	if (lw_advise_add(search->list, self, LW_ADVICE_SET, row, &advice) < 0)
		return LW_ERR_NOMEM;
	write_share(&from, from_text);
	write_share(&to, to_text);
	snprintf(advice->why, sizeof(advice->why),
		"%s: replayed, a step now has %s; with this it has %s.", cause(&from, &to),
		from_text, to_text);
	lw_advise_set(advice, "HOROVOD_FUSION_THRESHOLD", "%.0f", row->prediction.fusion_bytes);
	lw_advise_set(advice, "HOROVOD_CYCLE_TIME", "%g", row->prediction.cycle_ns / 1e6);
	return LW_OK;
}

/* Most others send what this run does not hold: whether one of them is better is not known. */
static int add_unknown(const struct lw_adviser *self, struct search *search, size_t n_unknown)
{
	char now[96], step[LW_UNIT_TEXT_BYTES];
	size_t n_others = search->list->tried.n - search->first - 1;
	bool has_rest = n_others > n_unknown;

	write_setting((double)search->replay->setting.fusion_bytes,
		(double)search->replay->setting.cycle_ns, now);
	return lw_advise_find(search->list, self->id,
		"whether another setting is better than the %s (%s, %s a step) cannot be told from this run: %zu of %zu others send operations of sizes that it does not hold%s%s",
		search->replay->is_setting_known ? "recorded one" : "assumed default", now,
		lw_ns_format(search->list->base.step_ns.value, step), n_unknown, n_others,
		has_rest ? ", and of the rest none gains more than its error" : "",
		lw_advise_probe_tells(search->replay));
}

static size_t count_unknown(const struct search *search)
{
	size_t n = 0;

	for (size_t i = search->first; i < search->list->tried.n; i++) {
		const struct lw_prediction *one = &search->list->tried.at[i].prediction;

		n += one->is_extrapolated && !one->is_recorded;
	}
	return n;
}

static const char *error_text(const struct search *search, const struct lw_trial *trial,
	char text[2 * LW_UNIT_TEXT_BYTES])
{
	char low[LW_UNIT_TEXT_BYTES], high[LW_UNIT_TEXT_BYTES];

	if (lw_advise_is_blind(search->list, trial))
		return "more than the step";
	snprintf(text, 2 * LW_UNIT_TEXT_BYTES, "%s to %s", lw_ns_format(trial->gain_ns.low, low),
		lw_ns_format(trial->gain_ns.high, high));
	return text;
}

static int add_nothing(const struct lw_adviser *self, struct search *search)
{
	const struct lw_trial *best = best_of(search, false);
	size_t n_unknown = count_unknown(search);
	char setting[96], now[96], step[LW_UNIT_TEXT_BYTES], gain[LW_UNIT_TEXT_BYTES];
	char wait[LW_UNIT_TEXT_BYTES];
	char error[2 * LW_UNIT_TEXT_BYTES], none[LW_ADVICE_TEXT_BYTES];
	const char *whose =
		search->replay->is_setting_known ? "recorded setting" : "assumed default";

	if (2 * n_unknown > search->list->tried.n - search->first - 1)
		return add_unknown(self, search, n_unknown);
	write_setting((double)search->replay->setting.fusion_bytes,
		(double)search->replay->setting.cycle_ns, now);
	if (best->prediction.is_recorded || best->gain_ns.value <= 0)
		return lw_advise_find(search->list, self->id,
			"the %s (%s) is as good as anything this run can tell: %s a step, and %s",
			whose, now, lw_ns_format(search->list->base.step_ns.value, step),
			lw_advise_none_better(search->list, search->first, "others", none));
	write_setting(best->prediction.fusion_bytes, best->prediction.cycle_ns, setting);
	if (search->replay->core_wait_ns > 0)
		return lw_advise_find(search->list, self->id,
			"whether another setting is better than the %s (%s, %s a step) cannot be told from this run: its cores are contended, a step waits %s for one, and how long depends on the setting; one of the best of %zu others (%s) is predicted to save %s, with an error of %s. Measure it, or give the ranks more cores",
			whose, now, lw_ns_format(search->list->base.step_ns.value, step),
			lw_ns_format(search->replay->core_wait_ns, wait),
			search->list->tried.n - search->first - 1, setting,
			lw_ns_format(best->gain_ns.value, gain), error_text(search, best, error));
	if (lw_advise_is_blind(search->list, best))
		return lw_advise_find(search->list, self->id,
			"whether another setting is better than the %s (%s, %s a step) cannot be told from so few steps: the %u of this run differ so much that the error of what another saves is larger than the step. Record more of them",
			whose, now, lw_ns_format(search->list->base.step_ns.value, step),
			search->replay->n_steps);
	return lw_advise_find(search->list, self->id,
		"the %s (%s) is as good as anything this run can tell: %s a step; one of the best of %zu others (%s) is predicted to save %s, but the error of that is %s",
		whose, now, lw_ns_format(search->list->base.step_ns.value, step),
		search->list->tried.n - search->first - 1, setting,
		lw_ns_format(best->gain_ns.value, gain), error_text(search, best, error));
}

static int advise(const struct lw_adviser *self, struct lw_run *run, struct lw_advice_list *list)
{
	struct search search = {.replay = list->replay, .list = list, .first = list->tried.n};
	const struct lw_trial *best;
	int status;

	(void)run;
	if (list->replay->is_ddp)
		return LW_OK;
	status = search_grid(&search);
	if (status == LW_OK) {
		const struct lw_prediction around = best_of(&search, false)->prediction;

		status = search_around(&search, around.fusion_bytes, around.cycle_ns);
	}
	if (status == LW_OK) {
		qsort(list->tried.at + search.first, list->tried.n - search.first,
			sizeof(*list->tried.at), by_setting);
		best = best_of(&search, true);
		status = best ? add_advice(self, &search, best) : add_nothing(self, &search);
	}
	return status;
}

const struct lw_adviser lw_adviser_fusion_cycle = {
	.id = fusion_cycle_id,
	.title = "Fusion threshold and cycle time",
	.run = advise,
	.assumes =
		"Computing does not change: the ready times of every rank and step are replayed as they were recorded, and what follows them is simulated. The loop is that of Horovod 0.20 to 0.28.",
	.wrong_if =
		"It sends operations of sizes that the run does not hold (marked x); computing slows down when the network is busier (few cores); other jobs were on the machine while it was recorded.",
	.check = "Set both variables, record again, and compare the two with `lapwing report`.",
};
