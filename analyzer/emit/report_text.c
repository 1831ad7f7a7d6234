/* SPDX-License-Identifier: Apache-2.0 */
/* report_text.c - the report for people: the answer (report_answer.c), then where that comes from. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/emit/flows.h"
#include "analyzer/emit/gpu.h"
#include "analyzer/emit/marks.h"
#include "analyzer/emit/quality.h"
#include "analyzer/emit/report.h"
#include "analyzer/emit/report_answer.h"
#include "analyzer/emit/volume.h"
#include "analyzer/emit/wrap.h"
#include "base/units.h"

enum { MAX_WAITED = 4 };
#define WAITED_FRAC 0.01 /* of a step: less is not worth a word */

/* ---- pieces ------------------------------------------------------------------------------------- */

static void print_paragraph(FILE *out, const char *text)
{
	fputs("  ", out);
	lw_print_wrapped(out, 2, 2, text);
}

/* ---- the breakdown --------------------------------------------------------------------------------- */

static bool has_marks(const struct lw_run *run)
{
	return run->ranks.n && run->ranks.at[0].steps.n && run->ranks.at[0].steps.at[0].mark >= 0;
}

/* By what name the user, or the profiler, knows the steps that are counted here from 0 on. */
static void print_first_mark(FILE *out, const struct lw_run *run)
{
	char text[320];

	if (!has_marks(run) || (!run->ranks.at[0].steps.at[0].mark && !run->is_profile))
		return;
	snprintf(text, sizeof(text), "Steps are counted from 0: step 0 is %s%lld of the %s.",
		run->is_profile ? "ProfilerStep#" : "mark ",
		(long long)run->ranks.at[0].steps.at[0].mark,
		run->is_profile
			? "trace; on a GPU it lasts from its first kernel to that of the next, and the last of a profiler's window, whose end nobody saw, to the end of its mark or of its last kernel"
			: "program (lapwing_mark_step(); `report --steps` has the others)");
	print_paragraph(out, text);
}

static void print_ranks(
	FILE *out, const struct lw_analysis *analysis, const struct lw_report_options *options)
{
	const struct lw_rank_summary *rank;
	char text[7][LW_UNIT_TEXT_BYTES];

	fprintf(out, "Where a step goes (mean of %zu step%s; compute + exposed + idle = step)\n",
		analysis->summary.n_steps, analysis->summary.n_steps == 1 ? "" : "s");
	fprintf(out, "  %4s %10s %10s %10s %10s %12s\n", "rank", "step", "compute", "exposed",
		"idle", "hidden comm");
	lw_vec_foreach (rank, &analysis->summary.ranks)
		if (options->rank == LW_NONE || options->rank == rank->rank)
			fprintf(out, "  %4d %10s %10s %10s %10s %12s\n", rank->rank,
				lw_ns_or_unknown(rank->step_ns.value, text[0]),
				lw_ns_or_unknown(rank->compute_ns.value, text[1]),
				lw_ns_or_unknown(rank->exposed_ns.value, text[2]),
				lw_ns_or_unknown(rank->idle_ns.value, text[3]),
				lw_ns_or_unknown(rank->hidden_ns.value, text[4]));
	print_paragraph(out, lw_gpu_compute_words(analysis->run));
	print_first_mark(out, analysis->run);
	fputc('\n', out);
}

/* Each phase in words, with the part of it that people ask about. */
static void print_phases(
	FILE *out, const struct lw_analysis *analysis, const struct lw_report_options *options)
{
	const struct lw_phase_words *words = lw_gpu_phase_words(analysis->run);
	const struct lw_rank_summary *rank;
	char text[6][LW_UNIT_TEXT_BYTES];

	fprintf(out, "%s\n", words->title);
	fprintf(out, "  %4s %10s %10s %12s %10s %12s %10s\n", "rank", "NEGOTIATE", "WAIT",
		"of it cycle", "ALLREDUCE", "of it entry", "MISC");
	lw_vec_foreach (rank, &analysis->summary.ranks)
		if (options->rank == LW_NONE || options->rank == rank->rank)
			fprintf(out, "  %4d %10s %10s %12s %10s %12s %10s\n", rank->rank,
				lw_ns_or_unknown(rank->negotiate_ns.value, text[0]),
				lw_ns_or_unknown(rank->wait_ns.value, text[1]),
				lw_ns_or_unknown(rank->tick_ns.value, text[2]),
				lw_ns_or_unknown(rank->allreduce_ns.value, text[3]),
				lw_ns_or_unknown(rank->entry_ns.value, text[4]),
				lw_ns_or_unknown(rank->misc_ns.value, text[5]));
	print_paragraph(out, words->phases);
	fputc('\n', out);
}

static void print_steps(
	FILE *out, const struct lw_analysis *analysis, const struct lw_report_options *options)
{
	const struct lw_rank *rank;
	char mark[32];

	fprintf(out, "Steps\n  %4s %5s %10s %10s %10s %8s%s\n", "rank", "step", "length", "compute",
		"exposed", "batches", has_marks(analysis->run) ? "  mark" : "");
	lw_vec_foreach (rank, &analysis->run->ranks) {
		if (options->rank != LW_NONE && options->rank != rank->rank)
			continue;
		for (size_t s = 0; s < rank->steps.n; s++) {
			const struct lw_step *step = &rank->steps.at[s];
			char text[3][LW_UNIT_TEXT_BYTES];
			const int64_t compute_ns = step->compute_ns, exposed_ns = step->exposed_ns;

			mark[0] = '\0';
			if (step->mark >= 0)
				snprintf(mark, sizeof(mark), "  %lld", (long long)step->mark);
			fprintf(out, "  %4d %5zu %10s %10s %10s %8u%s\n", rank->rank, s,
				lw_ns_format((double)(step->end_ns - step->start_ns), text[0]),
				compute_ns == LW_NS_UNKNOWN
					? "?"
					: lw_ns_format((double)compute_ns, text[1]),
				exposed_ns == LW_NS_UNKNOWN
					? "?"
					: lw_ns_format((double)exposed_ns, text[2]),
				step->n_batches, mark);
			if (step->excluded)
				fprintf(out, "             left out, %s\n", step->excluded);
		}
	}
	fputc('\n', out);
}

/* ---- the rest ------------------------------------------------------------------------------------------ */

/* "  name    value (low to high), note", or why the value is not known. */
static void print_figure(FILE *out, const char *name, struct lw_figure figure,
	const char *(*format)(double value, char text[LW_UNIT_TEXT_BYTES]), const char *note)
{
	char value[LW_UNIT_TEXT_BYTES], low[LW_UNIT_TEXT_BYTES], high[LW_UNIT_TEXT_BYTES];
	char text[512];

	if (isnan(figure.value))
		snprintf(text, sizeof(text), "not known (%s)", figure.why ? figure.why : "no data");
	else if (!isnan(figure.low) && figure.low < figure.high)
		snprintf(text, sizeof(text), "%s (%s to %s)%s%s", format(figure.value, value),
			format(figure.low, low), format(figure.high, high), *note ? ", " : "",
			note);
	else
		snprintf(text, sizeof(text), "%s%s%s", format(figure.value, value),
			*note ? ", " : "", note);
	fprintf(out, "  %-18s ", name);
	lw_print_wrapped(out, 21, 21, text);
}

static const char *plain_format(double value, char text[LW_UNIT_TEXT_BYTES])
{
	snprintf(text, LW_UNIT_TEXT_BYTES, "%.3g", value);
	return text;
}

static void print_traffic(FILE *out, const struct lw_run *run, const struct lw_summary *summary)
{
	fputs("Collectives and network, per step\n", out);
	print_figure(
		out, "batches", summary->batches_per_step, plain_format, "operations executed");
	print_figure(out, "bytes", summary->bytes_per_step, lw_bytes_format,
		lw_volume_note(run, LW_VOLUME_BYTES));
	print_figure(out, "algbw", summary->algbw_bytes_per_s, lw_rate_format,
		"last rank in to last rank out");
	print_figure(out, "busbw", summary->busbw_bytes_per_s, lw_rate_format,
		lw_volume_note(run, LW_VOLUME_BUSBW));
	print_figure(
		out, "sent on sockets", summary->sent_bytes_per_step, lw_bytes_format, "each rank");
	if (!isnan(summary->rdma_bytes_per_step.value))
		print_figure(out, "sent by RDMA", summary->rdma_bytes_per_step, lw_bytes_format,
			"each rank");
	print_figure(out, "a ring would send", summary->expected_bytes_per_step, lw_bytes_format,
		lw_volume_note(run, LW_VOLUME_RING));
	print_figure(out, "sent / ring", summary->sent_ratio, plain_format, "");
	print_figure(out, "TCP_INFO / sent", summary->tcp_acked_ratio, plain_format,
		"acknowledged, by the kernel's count, over the whole run");
	fputc('\n', out);
}

/* "piecewise, 1.3 % off on average, 2.0 % in cross-validation" */
static void print_form(FILE *out, const struct lw_cost *cost)
{
	char text[256], verdict[LW_VERDICT_TEXT_BYTES];
	int n = snprintf(text, sizeof(text), "%s", lw_cost_form_name(cost->form));

	if (cost->form == LW_COST_NONE)
		return;
	if (!isnan(cost->mape_frac))
		n += snprintf(text + n, sizeof(text) - (size_t)n, ", %.1f %% off on average",
			100 * cost->mape_frac);
	if (isnan(cost->cross_frac))
		snprintf(text + n, sizeof(text) - (size_t)n,
			"; too few sizes to cross-validate (%zu)", cost->n_sizes);
	else
		snprintf(text + n, sizeof(text) - (size_t)n, ", %.1f %% in cross-validation",
			100 * cost->cross_frac);
	n = (int)strlen(text);
	if (*lw_cost_verdict(cost, verdict))
		snprintf(text + n, sizeof(text) - (size_t)n, "; %s", verdict);
	fprintf(out, "  %-18s ", "cost of allreduce");
	lw_print_wrapped(out, 21, 21, text);
}

static void print_scaling(FILE *out, const struct lw_analysis *analysis)
{
	const struct lw_summary *summary = &analysis->summary;

	fputs("Scaling: step of one rank / of N (the models know no slow rank; docs/model.md)\n",
		out);
	print_figure(out, "SF measured", summary->sf, plain_format, "");
	print_figure(out, "CSF no overlap", summary->csf, plain_format, "");
	print_figure(out, "OSF no fusion", summary->osf, plain_format, "");
	print_figure(out, "OSF_f as fused", summary->osf_f, plain_format, "");
	print_figure(out, "alpha", summary->alpha_ns, lw_ns_format, "fixed cost of an operation");
	print_figure(
		out, "beta", summary->beta_bytes_per_s, lw_rate_format, "effective link bandwidth");
	if (analysis->has_fit && !isnan(analysis->fit.figure[LW_FIT_UTILISATION_FRAC].value))
		print_figure(out, "utilisation c", analysis->fit.figure[LW_FIT_UTILISATION_FRAC],
			plain_format,
			analysis->fit.figure[LW_FIT_UTILISATION_FRAC].why
				? analysis->fit.figure[LW_FIT_UTILISATION_FRAC].why
				: "of the peak rate, while it computes");
	if (analysis->has_fit)
		print_form(out, &analysis->fit.cost[LW_FIT_COST_WIRE].cost);
	fputc('\n', out);
}

static size_t greatest(const double *values, size_t n)
{
	size_t at = 0;

	for (size_t i = 1; i < n; i++)
		at = values[i] > values[at] ? i : at;
	return at;
}

/* In which operations of a step each is last changes: for whom the others wait how long, in all of them. */
static const char *waited_text(
	const struct lw_run *run, const struct lw_summary *summary, char text[512])
{
	double *ns = calloc(2 * run->ranks.n + 1, sizeof(*ns)), *n = ns + run->ranks.n;
	char number[LW_UNIT_TEXT_BYTES];
	int at = 0;

	text[0] = '\0';

	if (ns && lw_report_is_late_by_kernels(run) && lw_run_waited(run, ns, n))
		for (int i = 0; i < MAX_WAITED && at < 512; i++) {
			size_t r = greatest(ns, run->ranks.n);

			if (!(ns[r] >= WAITED_FRAC * summary->step_ns.value))
				break;
			at += snprintf(text + at, 512 - (size_t)at,
				"%s rank %d %s (%.2g operation%s)",
				i ? "," : "Waited for, a step:", run->ranks.at[r].rank,
				lw_ns_format(ns[r], number), n[r], n[r] == 1 ? "" : "s");
			ns[r] = 0;
		}
	free(ns);
	return text;
}

static void print_stragglers(FILE *out, const struct lw_run *run, const struct lw_summary *summary)
{
	const struct lw_straggler *straggler;
	char waited[512];

	/* groups of fewer ranks than all are compared each by itself, there only */
	if (!*waited_text(run, summary, waited) && !summary->stragglers.n)
		return;
	fprintf(out, "Late ranks (%s, against the first)\n",
		lw_report_is_late_by_kernels(run)
			? "shortest in an operation that all leave together"
		: run->is_plain ? "entry into a collective, from when each resumed"
				: "last gradient ready, from when each resumed");
	lw_vec_foreach (straggler, &summary->stragglers) {
		char text[2][LW_UNIT_TEXT_BYTES];

		if (summary->n_steps == 1) {
			fprintf(out, "  rank %d: by %s, in the one step that counts\n",
				straggler->rank, lw_ns_format(straggler->late_ns.value, text[0]));
			continue;
		}
		fprintf(out, "  rank %d: last in %.0f %% of steps, then by %s; mean %s (%s)\n",
			straggler->rank, 100 * straggler->steps_frac,
			lw_ns_or_unknown(straggler->last_ns, text[0]),
			lw_ns_format(straggler->late_ns.value, text[1]),
			straggler->is_persistent ? "persistent" : "in turns");
	}
	if (*waited)
		print_paragraph(out, waited);
	fputc('\n', out);
}

static void print_findings(FILE *out, const struct lw_run *run, const struct lw_summary *summary)
{
	lw_quality_counts(run, summary->n_steps, summary->n_excluded, out);
	lw_quality_cores(run, out);
	lw_quality_diags(run, out);
}

void lw_report_text(
	const struct lw_analysis *analysis, const struct lw_report_options *options, FILE *out)
{
	const struct lw_summary *summary = &analysis->summary;
	bool has_steps = summary->n_steps && !lw_marks_are_all(analysis->run);
	bool has_operations = has_steps && !lw_report_is_silent(analysis->run, summary);

	lw_report_answer(out, analysis);
	if (has_steps)
		print_ranks(out, analysis, options);
	if (has_operations)
		print_phases(out, analysis, options);
	if (options->with_steps)
		print_steps(out, analysis, options);
	if (has_operations) {
		print_traffic(out, analysis->run, summary);
		print_scaling(out, analysis);
		print_stragglers(out, analysis->run, summary);
	}
	lw_gpu_text(analysis->run, options->rank, out);
	lw_marks_text(analysis->run, out);
	if (has_steps || analysis->run->ends.n || analysis->run->network.links.n)
		lw_network_text(analysis, out);
	lw_flows_text(analysis->run, out);
	print_findings(out, analysis->run, summary);
}
