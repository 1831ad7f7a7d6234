/* SPDX-License-Identifier: Apache-2.0 */
/*
 * late_range.c - which of its own ranges (NVTX, marks of the program) makes a rank late: one that takes longer there than
 * on all others, each step, by half of what it is late or more.
 */
#include <math.h>
#include <stdio.h>

#include "analyzer/advise/advise.h"
#include "base/units.h"

#define OF_LATE_FRAC  0.5
#define OF_STEPS_FRAC 0.5 /* a range that is not in half of the steps is none of a step's */

struct compared {
	double own_ns, others_ns; /* a step; others_ns: of whom it is longest */
};

static double n_steps(const struct lw_run *run, int32_t number)
{
	const struct lw_rank *rank;

	lw_vec_foreach (rank, &run->ranks)
		if (rank->rank == number)
			return (double)rank->steps.n;
	return 0;
}

/* Return: the late rank has ranges so named in its steps. */
static bool compare(const struct lw_run *run, const struct lw_mark_name *name, int32_t late,
	struct compared *ret)
{
	const struct lw_mark_process *one;
	struct compared compared = {0, 0};

	lw_vec_foreach (one, &name->by_process) {
		double n = one->rank == LW_NONE ? 0 : n_steps(run, one->rank);

		if (!(n > 0))
			continue;
		if (one->rank != late)
			compared.others_ns = fmax(compared.others_ns, one->total_ns / n);
		else if ((double)one->n >= OF_STEPS_FRAC * n)
			compared.own_ns += one->total_ns / n;
	}
	*ret = compared;
	return compared.own_ns > 0;
}

const char *lw_advise_late_range_text(
	const struct lw_run *run, int32_t rank, double late_ns, char text[LW_LATE_RANGE_BYTES])
{
	const struct lw_mark_name *name, *most = NULL;
	char own[LW_UNIT_TEXT_BYTES], others[LW_UNIT_TEXT_BYTES];
	struct compared one, of_most = {0, 0};
	double most_frac = 0;

	text[0] = '\0';
	lw_vec_foreach (name, &run->marks.names) {
		double longer_ns;

		if ((name->op != LW_MARK_RANGE && name->op != LW_MARK_NVTX_RANGE) ||
			!compare(run, name, rank, &one))
			continue;
		longer_ns = one.own_ns - one.others_ns;
		/* of ranges within each other, the one that is little else */
		if (longer_ns >= OF_LATE_FRAC * late_ns && longer_ns / one.own_ns > most_frac) {
			most_frac = longer_ns / one.own_ns;
			most = name;
			of_most = one;
		}
	}
	if (!most)
		return text;
	if (of_most.others_ns > 0)
		snprintf(text, LW_LATE_RANGE_BYTES,
			"its range \"%.64s\" takes %s a step, on no other rank more than %s",
			most->name, lw_ns_format(of_most.own_ns, own),
			lw_ns_format(of_most.others_ns, others));
	else
		snprintf(text, LW_LATE_RANGE_BYTES,
			"its range \"%.64s\" takes %s a step, and no other rank has one",
			most->name, lw_ns_format(of_most.own_ns, own));
	return text;
}
