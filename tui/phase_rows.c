/* SPDX-License-Identifier: Apache-2.0 */
#include "tui/phase_rows.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "analyzer/emit/summary.h"
#include "tui/parts.h"

static const size_t offsets[LW_PHASE_COUNT] = {
	[LW_PHASE_COMPUTE] = offsetof(struct lw_step, compute_ns),
	[LW_PHASE_EXPOSED] = offsetof(struct lw_step, exposed_ns),
	[LW_PHASE_IDLE] = offsetof(struct lw_step, idle_ns),
	[LW_PHASE_NEGOTIATE] = offsetof(struct lw_step, negotiate_ns),
	[LW_PHASE_LATE] = offsetof(struct lw_step, late_ns),
	[LW_PHASE_WAIT] = offsetof(struct lw_step, wait_ns),
	[LW_PHASE_TICK] = offsetof(struct lw_step, tick_ns),
	[LW_PHASE_ALLREDUCE] = offsetof(struct lw_step, allreduce_ns),
	[LW_PHASE_ENTRY] = offsetof(struct lw_step, entry_ns),
	[LW_PHASE_MISC] = offsetof(struct lw_step, misc_ns),
};

static double step_figure_ns(const struct lw_step *step, enum lw_phase_figure figure)
{
	if (figure == LW_PHASE_STEP)
		return (double)(step->end_ns - step->start_ns);
	return lw_ns_known(*(const int64_t *)((const char *)step + offsets[figure]));
}

void lw_phase_rows_fill_steps(struct lw_phase_rows *rows, size_t n_steps)
{
	const struct lw_run *run = rows->run;

	rows->whole_ns = 0;
	for (size_t s = 0; s < n_steps; s++) {
		for (int f = 0; f < LW_PHASE_COUNT; f++) {
			double sum = 0;

			for (size_t r = 0; r < run->ranks.n; r++)
				sum += step_figure_ns(
					&run->ranks.at[r].steps.at[s], (enum lw_phase_figure)f);
			rows->figures_ns[s][f] = sum / (double)run->ranks.n;
		}
		if (lw_summary_is_counted(run, s))
			rows->whole_ns = fmax(rows->whole_ns, rows->figures_ns[s][LW_PHASE_STEP]);
	}
}

void lw_phase_rows_fill_ranks(struct lw_phase_rows *rows, int32_t step)
{
	const struct lw_run *run = rows->run;
	size_t n_steps = lw_run_n_steps(run);

	rows->whole_ns = 0;
	for (size_t r = 0; r < run->ranks.n; r++) {
		const struct lw_rank *rank = &run->ranks.at[r];
		double *figures = rows->figures_ns[r], n = 0;

		memset(figures, 0, sizeof(rows->figures_ns[r]));
		for (size_t s = 0; s < n_steps; s++) {
			if (step == LW_NONE ? !lw_summary_is_counted(run, s) : s != (size_t)step)
				continue;
			n++;
			for (int f = 0; f < LW_PHASE_COUNT; f++)
				figures[f] +=
					step_figure_ns(&rank->steps.at[s], (enum lw_phase_figure)f);
		}
		for (int f = 0; f < LW_PHASE_COUNT; f++)
			figures[f] = n > 0 ? figures[f] / n : (double)NAN;
		rows->whole_ns = fmax(rows->whole_ns, figures[LW_PHASE_STEP]);
	}
}

void lw_phase_rows_fill_tensors(struct lw_phase_rows *rows)
{
	rows->whole_ns = 0;
	for (size_t t = 0; t < rows->run->tensors.n; t++) {
		const struct lw_tensor_stats *stats = &rows->stats[t];
		double *figures = rows->figures_ns[t], sum = 0;

		figures[LW_PHASE_NEGOTIATE] = stats->negotiate_ns;
		figures[LW_PHASE_LATE] = stats->late_ns;
		figures[LW_PHASE_WAIT] = stats->wait_ns;
		figures[LW_PHASE_ALLREDUCE] = stats->allreduce_ns;
		figures[LW_PHASE_ENTRY] = stats->entry_ns;
		figures[LW_PHASE_MISC] = stats->misc_ns;
		for (size_t i = 0; i < 4; i++) {
			static const enum lw_phase_figure phases[] = {LW_PHASE_NEGOTIATE,
				LW_PHASE_WAIT, LW_PHASE_ALLREDUCE, LW_PHASE_MISC};

			sum += isnan(figures[phases[i]]) ? 0 : figures[phases[i]];
		}
		rows->whole_ns = fmax(rows->whole_ns, sum);
	}
}
