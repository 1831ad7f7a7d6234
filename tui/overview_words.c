/* SPDX-License-Identifier: Apache-2.0 */
#include "tui/overview_words.h"

#include <stdio.h>

#include "base/units.h"

enum { MOST_TOLD = 3 }; /* ranks that take turns */

const char *lw_overview_late(const struct lw_straggler *late, char text[LW_OVERVIEW_LINE_BYTES])
{
	char ns[LW_UNIT_TEXT_BYTES];

	snprintf(text, LW_OVERVIEW_LINE_BYTES, "%.0f %% by %s", 100 * late->steps_frac,
		lw_ns_or_unknown(late->last_ns, ns));
	return text;
}

/* The one that is last most often, after @after; persistent ones first. */
static const struct lw_straggler *next_late(
	const struct lw_summary *summary, const struct lw_straggler *after)
{
	const struct lw_straggler *one, *next = NULL;

	lw_vec_foreach (one, &summary->stragglers)
		if ((!after || one->steps_frac < after->steps_frac ||
			    (one->steps_frac == after->steps_frac && one > after)) &&
			(!next || one->steps_frac > next->steps_frac))
			next = one;
	return next;
}

const char *lw_overview_slowest(const struct lw_brief *brief, char text[LW_OVERVIEW_LATE_BYTES])
{
	const struct lw_summary *summary = &brief->summary;
	const struct lw_straggler *late = next_late(summary, NULL);
	char ns[LW_UNIT_TEXT_BYTES], each[LW_OVERVIEW_LINE_BYTES];
	int n, size = LW_OVERVIEW_LINE_BYTES;

	if (*brief->late) {
		snprintf(text, LW_OVERVIEW_LATE_BYTES, "Late rank: %s", brief->late);
		return text;
	}
	if (!late) {
		snprintf(text, LW_OVERVIEW_LINE_BYTES, "Slowest rank: %s",
			!summary->ranks.n      ? "no rank is in this run"
			: summary->ranks.n < 2 ? "one rank is in this run"
			: !summary->n_steps    ? "not known, no step was found"
					       : "none stands out");
		return text;
	}
	if (summary->n_steps == 1) {
		snprintf(text, LW_OVERVIEW_LINE_BYTES,
			"Late rank: %d, last in the one step that counts, %s after the first",
			late->rank, lw_ns_or_unknown(late->last_ns, ns));
		return text;
	}
	if (late->is_persistent) {
		snprintf(text, LW_OVERVIEW_LINE_BYTES,
			"Slowest rank: %d, last in %.0f %% of the steps, then %s after the first",
			late->rank, 100 * late->steps_frac, lw_ns_or_unknown(late->last_ns, ns));
		return text;
	}
	n = snprintf(text, LW_OVERVIEW_LINE_BYTES, "Slowest rank: ranks take turns: ");
	for (int i = 0; late && i < MOST_TOLD && n < size; i++, late = next_late(summary, late))
		n += snprintf(text + n, (size_t)(size - n), "%s%d %sin %s", i ? ", " : "",
			late->rank, i ? "" : "last ", lw_overview_late(late, each));
	if (late && n < size)
		snprintf(text + n, (size_t)(size - n), ", and others");
	return text;
}

static const char *plural(unsigned long long n)
{
	return n == 1 ? "" : "s";
}

/* What the line says of ranks: how many of them nobody recorded. */
static const char *missing_text(const struct lw_brief *brief, char text[LW_UNIT_TEXT_BYTES])
{
	if (!brief->is_size_known)
		return "ranks missing: not known";
	snprintf(text, LW_UNIT_TEXT_BYTES, "%llu rank%s missing",
		(unsigned long long)brief->n_missing_ranks, plural(brief->n_missing_ranks));
	return text;
}

const char *lw_overview_quality(
	const struct lw_brief *brief, bool *ret_is_bad, char text[LW_OVERVIEW_LINE_BYTES])
{
	char missing[LW_UNIT_TEXT_BYTES], died[2 * LW_UNIT_TEXT_BYTES] = "";
	char hung[2 * LW_UNIT_TEXT_BYTES] = "";

	*ret_is_bad = brief->n_lost || brief->n_died || brief->n_hung || brief->n_missing_ranks ||
		      !brief->is_size_known || !brief->is_closed;
	if (brief->n_died)
		snprintf(died, sizeof(died), "%llu rank%s DIED, ",
			(unsigned long long)brief->n_died, plural(brief->n_died));
	if (brief->n_hung)
		snprintf(hung, sizeof(hung), "%llu rank%s HUNG, ",
			(unsigned long long)brief->n_hung, plural(brief->n_hung));
	snprintf(text, LW_OVERVIEW_LINE_BYTES,
		"Quality: %s%s%llu record%s lost, %s, %llu remark%s%s%s", died, hung,
		(unsigned long long)brief->n_lost, plural(brief->n_lost),
		missing_text(brief, missing), (unsigned long long)brief->n_remarks,
		plural(brief->n_remarks), brief->is_closed ? "" : ", not closed in order",
		brief->n_remarks || *ret_is_bad ? " (- lists them)" : "");
	return text;
}
