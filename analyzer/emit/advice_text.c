/* SPDX-License-Identifier: Apache-2.0 */
/*
 * advice_text.c - advice for people: first what can be set, then what needs code, what other hardware
 * would bring, what is not known; and the whole story of one adviser.
 */
#include <math.h>
#include <string.h>

#include "analyzer/advise/trial.h"
#include "analyzer/emit/advice.h"
#include "analyzer/emit/quality.h"
#include "analyzer/emit/wrap.h"
#include "analyzer/kernel_text.h"
#include "base/units.h"

enum { COLUMN = 13, MAX_LISTED_LINES = 6 };

/* "  name       text", wrapped into the column of the text. */
static void print_row(FILE *out, const char *name, const char *text)
{
	fprintf(out, "  %-*s", COLUMN - 2, name);
	lw_print_wrapped(out, COLUMN, COLUMN, text);
}

static size_t n_lines(const char *text)
{
	size_t n = 1;

	for (; *text; text++)
		n += *text == '\n';
	return n;
}

/* As it is to be pasted: never wrapped. */
static void print_code(FILE *out, const char *code, bool with_all)
{
	if (!with_all && n_lines(code) > MAX_LISTED_LINES) {
		char text[64];

		snprintf(text, sizeof(text), "%zu lines: --explain prints them", n_lines(code));
		print_row(out, "code", text);
		return;
	}
	for (const char *line = code; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		fprintf(out, "  %-*s%.*s\n", COLUMN - 2, line == code ? "code" : "",
			(int)strcspn(line, "\n"), line);
	}
}

static const char *const kind_texts[] = {
	[LW_ADVICE_SET] = "can be set today, without touching code",
	[LW_ADVICE_CODE] =
		"needs these lines in the training script; what is trained stays the same",
	[LW_ADVICE_TRAINING] =
		"needs these lines in the training script, and changes what is trained",
	[LW_ADVICE_HARDWARE] = "no setting: what other hardware would bring",
	[LW_ADVICE_WHAT_IF] = "no setting: what it would bring if it were so",
};

static void print_advice(
	const struct lw_advice *advice, const struct lw_advice_list *list, bool with_all, FILE *out)
{
	char step[LW_UNIT_TEXT_BYTES], now[LW_UNIT_TEXT_BYTES], text[256];

	fprintf(out, "%s (%s)\n", advice->title, advice->id);
	for (uint32_t i = 0; i < advice->n_sets; i++)
		fprintf(out, "  %-*s%s=%s\n", COLUMN - 2, "set", advice->set[i].name,
			advice->set[i].value);
	if (advice->code)
		print_code(out, advice->code, with_all);
	snprintf(text, sizeof(text), "%s instead of %s: %.1f %% less (95 %%: %.1f to %.1f)",
		lw_ns_format(advice->step_ns.value, step),
		lw_ns_format(list->baseline_ns.value, now), 100 * advice->gain_frac.value,
		100 * advice->gain_frac.low, 100 * advice->gain_frac.high);
	print_row(out, "step", text);
	print_row(out, "why", advice->why);
	print_row(out, "how sure", advice->sure);
	print_row(out, "kind", kind_texts[advice->kind]);
}

static void print_finding(const struct lw_finding *finding, FILE *out)
{
	fprintf(out, "%s: ", finding->id);
	lw_print_wrapped(out, 2, (int)strlen(finding->id) + 2, finding->text);
}

/* @id: all of that adviser; NULL: those for everybody that come @is_first. */
static void print_findings(
	const struct lw_advice_list *list, const char *id, bool is_first, FILE *out)
{
	const struct lw_finding *finding;

	lw_vec_foreach (finding, &list->findings) {
		if (id ? strcmp(finding->id, id) != 0
		       : finding->is_minor || finding->is_first != is_first)
			continue;
		print_finding(finding, out);
	}
}

/* What everyone asks after: Horovod's own setting, unless it is the recorded one. */
static void print_default(const struct lw_advice_list *list, FILE *out)
{
	const struct lw_trial *trial = lw_advise_default(list);
	char gain[128], text[256];

	if (!trial || trial->prediction.is_recorded)
		return;
	snprintf(text, sizeof(text),
		"Horovod's own setting (128 MiB, 1 ms) would change the step %s%s.",
		lw_advise_gain_text(list, trial, gain),
		trial->prediction.is_extrapolated ? "; extrapolated" : "");
	lw_print_wrapped(out, 0, 0, text);
}

/* "  label   754 ms, 12.3 % less" for the trials of @id. @is_small: of changes whose sign alone would mislead. */
static void print_changes(const struct lw_advice_list *list, const char *id, const char *title,
	bool is_small, FILE *out)
{
	const struct lw_trial *trial;
	bool is_first = true, is_more, is_unsure = false;

	lw_vec_foreach (trial, &list->tried) {
		struct lw_figure gain_frac = lw_advise_gain_frac(list, trial);
		char step[LW_UNIT_TEXT_BYTES];

		if (strcmp(trial->id, id))
			continue;
		if (is_first)
			fprintf(out, "%s\n", title);
		is_first = false;
		is_more = gain_frac.value < 0;
		if (is_small && gain_frac.low <= 0 && gain_frac.high >= 0) {
			fprintf(out,
				"  %-18.18s %8s  within its error (95 %%: %.1f more to %.1f %% less)%s\n",
				trial->label, lw_ns_format(trial->step_ns.value, step),
				-100 * gain_frac.low, 100 * gain_frac.high,
				trial->prediction.is_extrapolated ? " x" : "");
			is_unsure = is_unsure || trial->prediction.is_extrapolated;
			continue;
		}
		fprintf(out, "  %-18.18s %8s  %5.1f %% %s (95 %%: %.1f to %.1f)%s\n", trial->label,
			lw_ns_format(trial->step_ns.value, step), 100 * fabs(gain_frac.value),
			is_more ? "more" : "less",
			100 * (is_more ? -gain_frac.high : gain_frac.low),
			100 * (is_more ? -gain_frac.low : gain_frac.high),
			trial->prediction.is_extrapolated ? " x" : "");
		is_unsure = is_unsure || trial->prediction.is_extrapolated;
	}
	if (is_unsure)
		fputs("  x extrapolated: from operations or ranks unlike those of this run\n", out);
}

static void print_ids(const struct lw_advice_list *list, FILE *out)
{
	char ids[LW_ADVICE_TEXT_BYTES], text[LW_ADVICE_TEXT_BYTES + 64];

	snprintf(text, sizeof(text), "The whole story of one by --explain ID: %s",
		lw_advise_ids(list, ids));
	fputc('\n', out);
	lw_print_wrapped(out, 2, 0, text);
}

/* Where a replay is. */
static void print_answers(const struct lw_advice_list *list, FILE *out)
{
	const struct lw_advice *advice;

	lw_vec_foreach (advice, &list->advice)
		if (advice->kind > LW_ADVICE_TRAINING)
			print_advice(advice, list, false, out);
	print_changes(list, lw_adviser_ranks.id, "More ranks, each with the batch it has now",
		false, out);
	print_changes(list, lw_adviser_sensitivity.id, "What the step depends on", true, out);
	print_ids(list, out);
}

void lw_advice_text(const struct lw_advice_list *list, const struct lw_run *run, FILE *out)
{
	const struct lw_advice *advice;

	print_findings(list, NULL, true, out);
	lw_vec_foreach (advice, &list->advice)
		if (advice->kind <= LW_ADVICE_TRAINING)
			print_advice(advice, list, false, out);
	print_findings(list, NULL, false, out);
	print_default(list, out);
	if (list->replay)
		print_answers(list, out);
	lw_quality_text(run, out);
}

/* ---- the story of one ----------------------------------------------------------------------------- */

static void print_bytes_range(const struct lw_replay *replay, FILE *out)
{
	char least[LW_UNIT_TEXT_BYTES], most[LW_UNIT_TEXT_BYTES], cheap[LW_UNIT_TEXT_BYTES],
		dear[LW_UNIT_TEXT_BYTES], text[256];

	lw_bytes_format((double)replay->min_batch_bytes, least);
	lw_bytes_format((double)replay->max_batch_bytes, most);
	snprintf(text, sizeof(text), "%.1f a step, of %s to %s", replay->batches_per_step, least,
		most);
	print_row(out, "operations", text);
	snprintf(text, sizeof(text), "%s on the wire for %s, %s for %s (mean, back to back)",
		lw_ns_format(lw_wire_mean_ns(&replay->wire, replay->min_batch_bytes, 0), cheap),
		least,
		lw_ns_format(lw_wire_mean_ns(&replay->wire, replay->max_batch_bytes, 0), dear),
		most);
	print_row(out, "one takes", text);
}

static void print_numbers(const struct lw_advice_list *list, const struct lw_run *run, FILE *out)
{
	const struct lw_replay *replay = list->replay;
	const struct lw_hvd_totals *totals = &list->base.totals;
	char a[LW_UNIT_TEXT_BYTES], b[LW_UNIT_TEXT_BYTES], c[LW_UNIT_TEXT_BYTES], text[256];
	char ranks[LW_RANKS_TEXT_BYTES];
	double n = replay->input.n_steps;

	fputs("\nNumbers it stands on\n", out);
	snprintf(text, sizeof(text), "%u counted, %s; middle half %s (95 %%: %s to %s), measured",
		replay->n_steps, lw_quality_ranks(run, replay->input.n_ranks, ranks),
		lw_ns_format(list->baseline_ns.value, a), lw_ns_format(list->baseline_ns.low, b),
		lw_ns_format(list->baseline_ns.high, c));
	print_row(out, "steps", text);
	if (!replay->is_ddp) {
		snprintf(text, sizeof(text),
			"fusion threshold %s, cycle %g ms, %s; a round takes %s",
			lw_bytes_format((double)replay->setting.fusion_bytes, a),
			(double)replay->setting.cycle_ns / 1e6,
			replay->is_setting_known ? "recorded" : "assumed",
			lw_ns_format(replay->cost.round_ns, b));
		print_row(out, "setting", text);
	}
	print_bytes_range(replay, out);
	snprintf(text, sizeof(text),
		"%s a step as replayed, of which %s on the wire, %s waiting for cycles and ranks",
		lw_ns_format(totals->exposed_ns / n, a),
		lw_ns_format(totals->exposed_wire_ns / n, b),
		lw_ns_format(totals->exposed_cycle_ns / n, c));
	print_row(out, "exposed", text);
	snprintf(text, sizeof(text),
		"the recorded setting, simulated, is off by %.1f %% (%s%s a step, which is added to every prediction)",
		100 * replay->error_frac, replay->bias_ns < 0 ? "-" : "+",
		lw_ns_format(fabs(replay->bias_ns), a));
	print_row(out, "replay", text);
}

static void print_trials(const struct lw_advice_list *list, const char *id, FILE *out)
{
	const struct lw_trial *trial;
	bool is_first = true, any = false;

	lw_vec_foreach (trial, &list->tried) {
		const struct lw_prediction *prediction = &trial->prediction;
		struct lw_figure gain_frac = lw_advise_gain_frac(list, trial);
		char step[LW_UNIT_TEXT_BYTES], low[LW_UNIT_TEXT_BYTES], high[LW_UNIT_TEXT_BYTES];

		if (strcmp(trial->id, id))
			continue;
		if (is_first)
			fprintf(out, "\nWhat was tried\n  %-30s %9s %19s %10s\n", "", "step",
				"95 %", "less");
		is_first = false;
		any = any || prediction->is_extrapolated;
		fprintf(out, "  %-31.31s %8s %9s-%9s %8.1f %%%s%s\n", trial->label,
			lw_ns_format(trial->step_ns.value, step),
			lw_ns_format(trial->step_ns.low, low),
			lw_ns_format(trial->step_ns.high, high), 100 * gain_frac.value,
			prediction->is_recorded ? " now" : "",
			prediction->is_extrapolated ? " x" : "");
	}
	if (any)
		fputs("  x: extrapolated from operations or ranks unlike those of this run\n", out);
}

static void print_section(FILE *out, const char *title, const char *text)
{
	fprintf(out, "\n%s\n  ", title);
	lw_print_wrapped(out, 2, 2, text);
}

static void print_places(const struct lw_adviser *adviser, const struct lw_run *run, FILE *out)
{
	char text[LW_KERNEL_TEXT_BYTES], step[16], length[LW_UNIT_TEXT_BYTES];
	char into[LW_UNIT_TEXT_BYTES];
	struct lw_idle_places places = {0};
	const struct lw_idle_place *place;

	if (adviser->places && adviser->places(run, &places) < 0)
		lw_error_clear();
	if (places.at.n)
		fprintf(out,
			"\nWhere, the longest (at: since the run begins, as the timeline's ruler has it)\n"
			"  %4s %5s %9s %14s %9s  %s\n",
			"rank", "step", "into it", "at", "length", "before");
	lw_vec_foreach (place, &places.at) {
		snprintf(step, sizeof(step), "-");
		if (place->step != LW_NONE)
			snprintf(step, sizeof(step), "%d", place->step);
		fprintf(out, "  %4d %5s %9s %11.3f ms %9s  %.27s\n", place->rank, step,
			place->step == LW_NONE ? "-" : lw_ns_format((double)place->into_ns, into),
			(double)place->at_ns / 1e6, lw_ns_format((double)place->length_ns, length),
			lw_kernel_text(place->next, text));
		if (*place->host) {
			fputs("             in ", out);
			lw_print_wrapped(out, 16, 16, place->host);
		}
	}
	lw_vec_free(&places.at);
}

static void print_story(const struct lw_advice_list *list, const struct lw_run *run,
	const struct lw_adviser *adviser, FILE *out)
{
	if (list->replay)
		print_numbers(list, run, out);
	print_trials(list, adviser->id, out);
	print_places(adviser, run, out);
	print_section(out, "What the model assumes", adviser->assumes);
	print_section(out, "What could make it wrong", adviser->wrong_if);
	print_section(out, "How to check it", adviser->check);
}

void lw_advice_explain_text(
	const struct lw_advice_list *list, const struct lw_run *run, const char *id, FILE *out)
{
	const struct lw_advice *advice;

	lw_vec_foreach (advice, &list->advice)
		if (!strcmp(advice->id, id))
			print_advice(advice, list, true, out);
	print_findings(list, id, false, out);
	if (list->replay || lw_advise_adviser(id)->needs_no_replay)
		print_story(list, run, lw_advise_adviser(id), out);
	lw_quality_text(run, out);
}
