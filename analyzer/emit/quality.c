/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/emit/quality.h"

#include <string.h>

#include "analyzer/emit/wrap.h"

static void print_diag(const struct lw_diag *diag, FILE *out)
{
	char text[1024];

	snprintf(text, sizeof(text), "%s: %s", diag->kind, diag->text);
	fputs("  ", out);
	lw_print_wrapped(out, 2, 2, text);
}

void lw_quality_diags(const struct lw_run *run, FILE *out)
{
	const struct lw_diag *diag;

	lw_vec_foreach (diag, &run->diags)
		print_diag(diag, out);
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
		fprintf(out, "  %llu records lost\n", (unsigned long long)run->n_lost);
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
