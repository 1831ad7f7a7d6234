/* SPDX-License-Identifier: Apache-2.0 */
/* report_answer.c - what people ask first: how long a step is, how much of it is exposed, who is late, what to change. */
#include "analyzer/emit/report_answer.h"

#include <math.h>
#include <string.h>

#include "analyzer/emit/flows.h"
#include "analyzer/emit/gpu.h"
#include "analyzer/emit/late_words.h"
#include "analyzer/emit/marks.h"
#include "analyzer/emit/wrap.h"
#include "base/units.h"

static const double negligible_frac = 0.005; /* of the exposed time: not worth a word */

static void print_paragraph(FILE *out, const char *text)
{
	fputs("  ", out);
	lw_print_wrapped(out, 2, 2, text);
}

static void print_job(FILE *out, const struct lw_analysis *analysis)
{
	lw_print_wrapped(out, 2, 0, analysis->brief.job);
	fputc('\n', out);
}

static double mean_step_ns(const struct lw_summary *summary)
{
	double sum_ns = 0, n = 0;

	for (size_t r = 0; r < summary->ranks.n; r++)
		if (!isnan(summary->ranks.at[r].step_ns.value)) {
			sum_ns += summary->ranks.at[r].step_ns.value;
			n++;
		}
	return sum_ns / n;
}

bool lw_report_is_silent(const struct lw_run *run, const struct lw_summary *summary)
{
	const struct lw_rank *rank;

	lw_vec_foreach (rank, &run->ranks)
		if (rank->batches.n || rank->gpu.nccl_ops.n)
			return false;
	for (size_t r = 0; r < summary->ranks.n; r++)
		if (summary->ranks.at[r].hidden_ns.value > 0)
			return false;
	return summary->exposed_ns.value == 0;
}

static void print_exposed(FILE *out, const struct lw_run *run, const struct lw_summary *summary)
{
	const struct lw_phase_words *words = lw_gpu_phase_words(run);
	const struct lw_exposed exposed = lw_summary_exposed(summary, NULL);
	const struct {
		enum lw_exposed_part part;
		const char *what;
	} causes[] = {
		{LW_EXPOSED_AGREE, words->agree},
		{LW_EXPOSED_WAIT, words->wait},
		{LW_EXPOSED_WIRE,
			exposed.has_waits
				? "in operations: on the wire, or waiting for ranks or peers that came later"
				: "on the wire"},
		{LW_EXPOSED_MISC, words->misc},
	};
	char text[512], number[LW_UNIT_TEXT_BYTES], mean[LW_UNIT_TEXT_BYTES];
	const char *separator = ":";
	int n;

	if (isnan(summary->exposed_ns.value)) {
		snprintf(text, sizeof(text), "Exposed communication: not known (%s).",
			summary->exposed_ns.why);
		print_paragraph(out, text);
		return;
	}
	if (lw_report_is_silent(run, summary)) {
		print_paragraph(out,
			"Exposed communication: none, no operation between ranks was recorded.");
		return;
	}
	n = snprintf(text, sizeof(text), "Exposed communication: %s%s of the mean %s (%.0f %%)",
		summary->exposed_ns.how == LW_ASSUMED ? "at most " : "",
		lw_ns_format(summary->exposed_ns.value, number),
		lw_ns_format(mean_step_ns(summary), mean), 100 * summary->exposed_frac.value);
	for (size_t i = 0; i < sizeof(causes) / sizeof(causes[0]); i++) {
		double ns = exposed.part_ns[causes[i].part];

		if (!(ns > 0 && ns >= negligible_frac * summary->exposed_ns.value))
			continue;
		n += snprintf(text + n, sizeof(text) - (size_t)n, "%s %s %s", separator,
			lw_ns_format(ns, number), causes[i].what);
		separator = ",";
	}
	snprintf(text + n, sizeof(text) - (size_t)n, ".");
	print_paragraph(out, text);
}

bool lw_report_is_late_by_kernels(const struct lw_run *run)
{
	return run->is_plain && run->gpu.has_kernels;
}

/* What no setting of the framework can mend, said where people look for what to change. */
static void print_late_rank(FILE *out, const struct lw_run *run, const struct lw_summary *summary)
{
	char text[LW_ADVICE_TEXT_BYTES + 16];
	struct lw_late late;

	lw_late_find(run, summary, &late);
	snprintf(text, sizeof(text), "Late rank: %s.", late.text);
	if (*late.text)
		print_paragraph(out, text);
}

static void print_idle_gpu(FILE *out, const struct lw_run *run)
{
	char text[LW_GPU_TEXT_BYTES];

	if (*lw_gpu_idle_text(run, text))
		print_paragraph(out, text);
}

static void print_slow_link(FILE *out, const struct lw_run *run)
{
	char link[LW_NET_WORDS_BYTES], text[LW_NET_WORDS_BYTES + 16];

	if (!*lw_net_slow_text(run, link))
		return;
	snprintf(text, sizeof(text), "Slow link: %s.", link);
	print_paragraph(out, text);
}

static void print_hang(FILE *out, const struct lw_run *run)
{
	const char *nccl = lw_run_diag_text(run, LW_LOAD_NCCL_HANG);
	char hung[LW_UNIT_TEXT_BYTES], text[512];

	if (!run->n_hung_ranks)
		return;
	if (nccl) {
		snprintf(text, sizeof(text), "Hang: %s.", nccl);
		print_paragraph(out, text);
		return;
	}
	snprintf(text, sizeof(text),
		"Hang: at the end %u of %d ranks waited for operations that were never carried to an end, %s at most; the rest is of before that.",
		run->n_hung_ranks, run->size, lw_ns_format((double)run->hung_ns, hung));
	print_paragraph(out, text);
}

static int64_t last_operation_ns(const struct lw_rank *rank)
{
	const struct lw_batch *batch;
	int64_t end_ns = LW_NS_UNKNOWN;

	lw_vec_foreach (batch, &rank->batches)
		end_ns = batch->end_ns > end_ns ? batch->end_ns : end_ns;
	return end_ns;
}

/* Who made no more operations before those of others failed, on one clock: it closed its connections. */
static bool has_left(const struct lw_run *run, const struct lw_rank *rank, uint32_t *ret_n_failed)
{
	const struct lw_rank *other;

	*ret_n_failed = 0;
	if (rank->died || rank->n_failed || !rank->batches.n)
		return false;
	lw_vec_foreach (other, &run->ranks)
		if (other != rank && other->n_failed && other->clock == rank->clock &&
			last_operation_ns(rank) < other->first_failed_ns)
			*ret_n_failed += other->n_failed;
	return *ret_n_failed > 0;
}

/* Ranks that ended before their time: nothing after that is of a whole job. */
static void print_gone(FILE *out, const struct lw_run *run)
{
	const struct lw_rank *rank, *first = NULL;
	char text[320];
	uint32_t n_died = 0, n_failed;

	lw_vec_foreach (rank, &run->ranks) {
		n_died += rank->died;
		if (rank->died && (!first || rank->end_ns < first->end_ns))
			first = rank;
		if (!has_left(run, rank, &n_failed))
			continue;
		snprintf(text, sizeof(text),
			"Left: rank %d made its last operation %.3f s after the run began and ended at %.3f s; %u operation%s of other ranks failed after that. The rest is of before.",
			rank->rank,
			(double)lw_run_since_ns(run, rank, last_operation_ns(rank)) / 1e9,
			(double)lw_run_since_ns(run, rank, rank->end_ns) / 1e9, n_failed,
			n_failed == 1 ? "" : "s");
		print_paragraph(out, text);
	}
	if (!first)
		return;
	if (n_died == 1)
		snprintf(text, sizeof(text),
			"Died: rank %d was killed or crashed; its last record is of %.3f s after the run began, and the rest is of before that.",
			first->rank, (double)lw_run_since_ns(run, first, first->end_ns) / 1e9);
	else
		snprintf(text, sizeof(text),
			"Died: %u of %d ranks were killed or crashed, rank %d first: its last record is of %.3f s after the run began.",
			n_died, run->size, first->rank,
			(double)lw_run_since_ns(run, first, first->end_ns) / 1e9);
	print_paragraph(out, text);
}

/* What is found and not said above, each by what it is worth at most. */
static void print_change(FILE *out, const struct lw_advice_list *list)
{
	char text[LW_ADVICE_TEXT_BYTES], change[LW_ADVICE_TEXT_BYTES + 64];
	const struct lw_finding *finding;
	size_t n_more = lw_advise_n_more(list), n;

	fputs("  To change: ", out);
	n = (size_t)snprintf(change, sizeof(change), "%s", lw_advise_change_line(list, text));
	/* the first is in the line above, the others are below it */
	for (size_t i = 1; n_more && lw_advise_bounded(list, i); i++)
		n_more--;
	if (n_more)
		snprintf(change + n, sizeof(change) - n, " (%zu more: `lapwing advise`)", n_more);
	lw_print_wrapped(out, 2, 13, change);
	for (size_t i = 1; (finding = lw_advise_bounded(list, i)); i++) {
		fputs("    ", out);
		lw_print_wrapped(out, 6, 4, lw_advise_bound_line(finding, text));
	}
}

/* What is not there, before what is said of the rest. */
static void print_missing(FILE *out, const struct lw_run *run)
{
	struct lw_gpu_launched all = {0};
	const struct lw_rank *rank;
	bool is_part = false;
	char text[400];

	if (run->is_cut_off)
		print_paragraph(out,
			"Cut off: a trace of this run stops in its middle. What came after that is missing, and what is said below is of the rest alone.");
	else if (run->n_torn && run->is_profile) {
		snprintf(text, sizeof(text),
			"Damaged: %llu record%s of a trace could not be read. What is said below is of the rest alone.",
			(unsigned long long)run->n_torn, run->n_torn == 1 ? "" : "s");
		print_paragraph(out, text);
	}
	lw_vec_foreach (rank, &run->ranks) {
		all.n += rank->gpu.launched.n;
		all.n_lacking += rank->gpu.launched.n_lacking;
		is_part |= lw_gpu_launched_is_part(&rank->gpu.launched);
	}
	if (!is_part)
		return;
	snprintf(text, sizeof(text),
		"GPU records are missing: %llu of %llu launches of kernels have no kernel (a profiler's buffer that was full, a trace that was cut, CUPTI that began late). Steps with such launches do not count: what they lack looks like an idle GPU.",
		(unsigned long long)all.n_lacking, (unsigned long long)all.n);
	print_paragraph(out, text);
}

static void print_no_steps(FILE *out, const struct lw_analysis *analysis)
{
	const struct lw_run *run = analysis->run;
	const char *not_closed = lw_run_diag_text(run, "not closed");
	bool has_steps = run->ranks.n && run->ranks.at[0].steps.n;
	char text[256];

	if (not_closed)
		print_paragraph(out, not_closed);
	print_paragraph(out,
		*run->marks.why ? run->marks.why
		: has_steps && (run->n_torn || lw_run_diag_text(run, LW_LOAD_LACKS_KERNELS))
			? "How long a step takes is not known: of each, records of GPU work are missing. What was recorded is below."
		: *lw_flows_headline(run, text) ? text
		: run->is_profile
			? "No training step was found: the trace has no ProfilerStep marks (call step() of the profiler in each iteration), and its operations do not recur often enough. What was recorded is below."
			: "No training step was found: no gradient came twice. What was recorded is below.");
	print_idle_gpu(out, run);
	print_slow_link(out, run);
	if (lw_advise_bounded(&analysis->advice, 0))
		print_change(out, &analysis->advice);
	fputc('\n', out);
}

/* Of one step that a profiler recorded each rank may have another piece. "": they are alike. */
static const char *pieces_text(const struct lw_summary *summary, char text[96])
{
	static const double alike_frac = 0.1;
	double least_ns = INFINITY, most_ns = 0;
	char low[LW_UNIT_TEXT_BYTES], high[LW_UNIT_TEXT_BYTES];

	text[0] = '\0';
	for (size_t r = 0; r < summary->ranks.n; r++) {
		least_ns = fmin(least_ns, summary->ranks.at[r].step_ns.value);
		most_ns = fmax(most_ns, summary->ranks.at[r].step_ns.value);
	}
	if (summary->n_steps == 1 && most_ns - least_ns > alike_frac * summary->step_ns.value)
		snprintf(text, 96, "; what was recorded of it is %s to %s long, by rank",
			lw_ns_format(least_ns, low), lw_ns_format(most_ns, high));
	return text;
}

void lw_report_answer(FILE *out, const struct lw_analysis *analysis)
{
	const struct lw_summary *summary = &analysis->summary;
	char step[LW_UNIT_TEXT_BYTES], low[LW_UNIT_TEXT_BYTES], high[LW_UNIT_TEXT_BYTES];
	char text[256], pieces[96];
	size_t n;

	print_job(out, analysis);
	print_hang(out, analysis->run);
	print_gone(out, analysis->run);
	print_missing(out, analysis->run);
	if (!summary->n_steps || lw_marks_are_all(analysis->run)) {
		print_no_steps(out, analysis);
		return;
	}
	n = (size_t)snprintf(text, sizeof(text),
		summary->n_steps == 1 ? "A step takes %s (of %zu step%s"
				      : "A step takes %s (middle half of %zu%s",
		lw_ns_format(summary->step_ns.value, step), summary->n_steps,
		lw_run_diag_text(analysis->run, LW_STEP_TWO_LENGTHS) ? ", which are of two lengths"
								     : "");
	if (!isnan(summary->step_ns.low))
		n += (size_t)snprintf(text + n, sizeof(text) - n, "; 95 %%: %s to %s",
			lw_ns_format(summary->step_ns.low, low),
			lw_ns_format(summary->step_ns.high, high));
	snprintf(text + n, sizeof(text) - n, "%s).", pieces_text(summary, pieces));
	print_paragraph(out, text);
	print_exposed(out, analysis->run, summary);
	print_idle_gpu(out, analysis->run);
	print_slow_link(out, analysis->run);
	print_late_rank(out, analysis->run, summary);
	print_change(out, &analysis->advice);
	fputc('\n', out);
}
