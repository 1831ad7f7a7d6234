/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/emit/late_words.h"

#include <stdio.h>

#include "analyzer/reconstruct/nccl_words.h"
#include "base/units.h"

static const struct lw_straggler *latest_of(const struct lw_summary *summary)
{
	const struct lw_straggler *straggler, *latest = NULL;

	lw_vec_foreach (straggler, &summary->stragglers)
		if ((straggler->is_persistent ||
			    (summary->n_steps == 1 && straggler->steps_frac == 1)) &&
			(!latest || straggler->late_ns.value > latest->late_ns.value))
			latest = straggler;
	return latest;
}

/* "rank 2 computes longest in 100 % of the steps, then 5 ms more than the first"; "" = none does. */
static int32_t find_computed(const struct lw_summary *summary, char text[160])
{
	const struct lw_straggler *latest = latest_of(summary);
	char late[LW_UNIT_TEXT_BYTES], steps[48];

	text[0] = '\0';
	if (!latest)
		return LW_NONE;
	snprintf(steps, sizeof(steps), "in %.0f %% of the steps", 100 * latest->steps_frac);
	snprintf(text, 160, "rank %d computes longest %s, then %s more than the first",
		latest->rank, summary->n_steps == 1 ? "in the one step that counts" : steps,
		lw_ns_or_unknown(latest->last_ns, late));
	return latest->rank;
}

static void find_missing(
	const struct lw_run *run, const struct lw_summary *summary, struct lw_late *late)
{
	char missing[LW_MISSING_TEXT_BYTES], computed[160];

	if (run->is_plain && run->gpu.has_kernels)
		computed[0] = '\0'; /* an operation's last is not known */
	else
		find_computed(summary, computed);
	snprintf(late->text, sizeof(late->text), "not known: %s%s%s",
		lw_run_missing_text(run, missing), *computed ? "; of those that are " : "",
		computed);
	late->by = LW_LATE_MISSING;
}

static void find_by_computing(
	const struct lw_run *run, const struct lw_summary *summary, struct lw_late *late)
{
	char computed[160], range[LW_LATE_RANGE_BYTES];

	late->rank = find_computed(summary, computed);
	if (late->rank == LW_NONE)
		return;
	late->by = LW_LATE_COMPUTED;
	snprintf(late->text, sizeof(late->text),
		"%s: the others wait for it, which settings of the communication seldom change; %s",
		computed,
		*lw_advise_late_range_text(
			run, late->rank, latest_of(summary)->late_ns.value, range)
			? range
			: "look at its input, its device, its neighbours, the cores that it has");
}

static void find_by_proxies(const struct lw_run *run, struct lw_late *late)
{
	late->rank = lw_nccl_late_rank(run, late->text);
	if (late->rank != LW_NONE)
		late->by = LW_LATE_PROXIES;
}

void lw_late_find(
	const struct lw_run *run, const struct lw_summary *summary, struct lw_late *ret_late)
{
	bool is_by_kernels = run->is_plain && run->gpu.has_kernels;

	*ret_late = (struct lw_late){.rank = LW_NONE};
	if (run->ranks.n < 2)
		return;
	if (run->n_missing_ranks) {
		find_missing(run, summary, ret_late);
		return;
	}
	ret_late->rank = lw_advise_late_text(run, ret_late->text);
	if (ret_late->rank != LW_NONE)
		ret_late->by = LW_LATE_KERNELS;
	else if (!run->is_plain)
		find_by_computing(run, summary, ret_late);
	if (ret_late->rank == LW_NONE)
		find_by_proxies(run, ret_late);
	/* when a host calls NCCL says less than that */
	if (ret_late->rank == LW_NONE && run->is_plain && !is_by_kernels)
		find_by_computing(run, summary, ret_late);
}

const char *lw_late_by_name(enum lw_late_by by)
{
	static const char *const names[] = {NULL, NULL, "kernels", "proxies", "computing"};

	return names[by];
}

bool lw_late_is_beside(const struct lw_late *late)
{
	return late->by == LW_LATE_MISSING || late->by == LW_LATE_PROXIES;
}
