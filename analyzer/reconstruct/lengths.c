/* SPDX-License-Identifier: Apache-2.0 */
/* lengths.c - steps of two lengths: then what is said of "a step" is true of none. */
#include <stdlib.h>
#include <string.h>

#include "analyzer/reconstruct/step.h"
#include "base/err.h"
#include "base/units.h"

enum {
	LEAST_ON_A_SIDE = 4, /* with 3, one in 50 jobs of ordinary scatter looks like this */
	ENOUGH_TO_FORGET_ONE = 16,
	TOO_MANY_TO_FORGET_ONE = 200, /* it would take their square */
};

/* The gap is nearly all of what lies between the middles of the two. Steps that scatter about one length
 * have such a gap in 4 of 1000 runs of 8 steps, in 1 of 1000 of 17 (normal, uniform, exponential). */
static const double gap_frac = 0.8;

/* Shorter and longer differ by what matters, not by the tick that catches the last tensor. */
static const double far_frac = 0.1;

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(const double *sorted, size_t n)
{
	return (sorted[(n - 1) / 2] + sorted[n / 2]) / 2;
}

/* Mean over ranks of every counted step. Return: how many. */
static size_t take_lengths(const struct lw_run *run, double *lengths_ns)
{
	size_t n = 0;

	for (size_t s = 0; s < run->ranks.at[0].steps.n; s++) {
		bool is_counted = true;

		lengths_ns[n] = 0;
		for (size_t r = 0; r < run->ranks.n; r++) {
			const struct lw_step *step = &run->ranks.at[r].steps.at[s];

			is_counted = is_counted && !step->excluded;
			lengths_ns[n] +=
				(double)(step->end_ns - step->start_ns) / (double)run->ranks.n;
		}
		n += is_counted;
	}
	return n;
}

/* Where the longer ones begin; each side holds a quarter at least. 0 = they are of one length. */
static size_t find_longer(const double *sorted, size_t n)
{
	size_t least = (n + 3) / 4 > LEAST_ON_A_SIDE ? (n + 3) / 4 : LEAST_ON_A_SIDE;
	size_t longer = least;
	double gap_ns;

	if (n < 2 * (size_t)LEAST_ON_A_SIDE)
		return 0;
	for (size_t i = least; i <= n - least; i++)
		if (sorted[i] - sorted[i - 1] > sorted[longer] - sorted[longer - 1])
			longer = i;
	gap_ns = sorted[longer] - sorted[longer - 1];
	return gap_ns > far_frac * median(sorted, n) &&
			       gap_ns > gap_frac * (median(sorted + longer, n - longer) -
							   median(sorted, longer))
		       ? longer
		       : 0;
}

struct halves {
	size_t n_short, n_long; /* 0: of one length */
	double short_ns, long_ns;
};

static bool split(const double *sorted, size_t n, struct halves *ret_halves)
{
	size_t longer = find_longer(sorted, n);

	if (longer)
		*ret_halves = (struct halves){longer, n - longer, median(sorted, longer),
			median(sorted + longer, n - longer)};
	return longer > 0;
}

/* Of many steps one may lie between: that in which the one length became the other. */
static void find_halves(const double *sorted, size_t n, double *scratch, struct halves *ret_halves)
{
	bool is_split = split(sorted, n, ret_halves);

	if (n < ENOUGH_TO_FORGET_ONE || n > TOO_MANY_TO_FORGET_ONE)
		return;
	for (size_t i = 1; i + 1 < n && !is_split; i++) {
		memcpy(scratch, sorted, i * sizeof(*sorted));
		memcpy(scratch + i, sorted + i + 1, (n - i - 1) * sizeof(*sorted));
		is_split = split(scratch, n - 1, ret_halves);
	}
}

int lw_step_lengths(struct lw_run *run)
{
	size_t n = run->ranks.n ? run->ranks.at[0].steps.n : 0;
	char low[LW_UNIT_TEXT_BYTES], high[LW_UNIT_TEXT_BYTES];
	struct halves halves = {0};
	double *lengths_ns;
	int status = LW_OK;

	if (n == 0)
		return LW_OK;
	lengths_ns = calloc(2 * n + 1, sizeof(*lengths_ns)); /* room for one more than is taken */
	if (!lengths_ns)
		return lw_fail(LW_ERR_NOMEM, "no memory");
	n = take_lengths(run, lengths_ns);
	qsort(lengths_ns, n, sizeof(*lengths_ns), ascending);
	find_halves(lengths_ns, n, lengths_ns + n, &halves);
	if (halves.n_short)
		status = lw_run_diag(run, "step", LW_STEP_TWO_LENGTHS, n,
			"%zu steps take about %s, %zu about %s: what is said of a step is of their mix and may be true of neither; see `lapwing report --steps`, and record each kind in a run of its own",
			halves.n_short, lw_ns_format(halves.short_ns, low), halves.n_long,
			lw_ns_format(halves.long_ns, high));
	free(lengths_ns);
	return status;
}
