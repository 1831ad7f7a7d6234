/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/emit/quality.h"

#include <math.h>
#include <string.h>

#include "analyzer/emit/marks.h"
#include "analyzer/emit/wrap.h"

static void print_diag(const struct lw_diag *diag, FILE *out)
{
	char text[1024];

	/* what was lost names its kind itself */
	snprintf(text, sizeof(text), "%s%s%s", strstr(diag->text, diag->kind) ? "" : diag->kind,
		strstr(diag->text, diag->kind) ? "" : ": ", diag->text);
	fputs("  ", out);
	lw_print_wrapped(out, 2, 2, text);
}

void lw_quality_counts(const struct lw_run *run, size_t n_steps, size_t n_excluded, FILE *out)
{
	const struct lw_rank *rank = run->ranks.n ? &run->ranks.at[0] : NULL;

	fputs("Quality of this run\n  ", out);
	/* of marks alone nothing is left out */
	if (lw_marks_are_all(run))
		fprintf(out, "%llu step%s between marks of all processes",
			(unsigned long long)run->marks.n_gaps, run->marks.n_gaps == 1 ? "" : "s");
	else
		fprintf(out, "%zu step%s counted, %zu left out", n_steps, n_steps == 1 ? "" : "s",
			n_excluded);
	fprintf(out, "; %llu record%s lost", (unsigned long long)run->n_lost,
		run->n_lost == 1 ? "" : "s");
	if (run->n_unread)
		fprintf(out, "; not everything was read (below)");
	fputc('\n', out);
	/* a profiler's own marks say where its last step ends */
	if (rank && !run->is_profile && rank->steps.n && rank->steps.at[0].mark != LW_NONE)
		fprintf(out,
			"  %zu marks of steps on rank %d: %zu steps lie between them, and the last has no end\n",
			rank->step_marks.n, rank->rank, rank->steps.n);
}

void lw_quality_diags(const struct lw_run *run, FILE *out)
{
	const struct lw_diag *diag;

	lw_vec_foreach (diag, &run->diags)
		print_diag(diag, out);
}

static void write_cores(const struct lw_host_cores *host, char *text, size_t text_bytes)
{
	int n;

	if (isnan(host->n_cores)) {
		snprintf(text, text_bytes,
			"cores: not recorded, so nothing tells whether ranks competed for them");
		return;
	}
	if (isnan(host->used_cores)) {
		snprintf(text, text_bytes,
			"cores: %.4g on %s; CPU times cover less than a second of the steps, so nothing tells whether ranks competed for them",
			host->n_cores, host->host);
		return;
	}
	n = snprintf(text, text_bytes, "cores: %u of %u ranks on %s used %.2f of %.4g; ",
		host->n_known, host->n_ranks, host->host, host->used_cores, host->n_cores);
	snprintf(text + n, text_bytes - (size_t)n,
		isnan(host->core_wait_frac) ? "how long computing waited for one is not known"
					    : "computing waited for one in %.1f %% of a step",
		100 * host->core_wait_frac);
}

/* Findings say what is odd; this says too that nothing is. */
void lw_quality_cores(const struct lw_run *run, FILE *out)
{
	const struct lw_host_cores *host;
	char text[512];

	lw_vec_foreach (host, &run->cores) {
		write_cores(host, text, sizeof(text));
		fputs("  ", out);
		lw_print_wrapped(out, 2, 2, text);
		if (isnan(host->n_cores))
			return; /* once is enough */
	}
}

static bool is_of_advisers(const struct lw_diag *diag)
{
	return !strcmp(diag->stage, "advise");
}

void lw_quality_text(const struct lw_run *run, FILE *out)
{
	const struct lw_diag *diag;
	size_t n = 0;

	lw_vec_foreach (diag, &run->diags)
		n += !is_of_advisers(diag);
	if (n == 0 && run->n_lost == 0)
		return;
	fputs("\nQuality of this run\n", out);
	if (run->n_lost)
		fprintf(out, "  %llu record%s lost\n", (unsigned long long)run->n_lost,
			run->n_lost == 1 ? "" : "s");
	lw_vec_foreach (diag, &run->diags)
		if (!is_of_advisers(diag))
			print_diag(diag, out);
}

const char *lw_quality_ranks(
	const struct lw_run *run, uint32_t n_ranks, char text[LW_RANKS_TEXT_BYTES])
{
	bool is_part = n_ranks == run->ranks.n && (size_t)run->size > run->ranks.n;

	if (is_part)
		snprintf(text, LW_RANKS_TEXT_BYTES, "%u of %d ranks", n_ranks, run->size);
	else
		snprintf(text, LW_RANKS_TEXT_BYTES, "%u rank%s", n_ranks, n_ranks == 1 ? "" : "s");
	return text;
}
