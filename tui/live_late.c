/* SPDX-License-Identifier: Apache-2.0 */
#include "tui/live_late.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"

enum { NONE = -1 };

int lw_live_grow_groups(struct lw_live_model *model)
{
	size_t n = model->n_group_ranks ? 2 * model->n_group_ranks : 8;
	int64_t *ready_ns, *resumed_ns, *late_ns;

	if (model->ranks.n <= model->n_group_ranks)
		return LW_OK;
	if (!model->groups)
		model->groups = calloc(LW_LIVE_GROUPS, sizeof(*model->groups));
	ready_ns = calloc(LW_LIVE_GROUPS * n, sizeof(*ready_ns));
	resumed_ns = calloc(LW_LIVE_GROUPS * n, sizeof(*resumed_ns));
	late_ns = calloc(LW_LIVE_LATES * n, sizeof(*late_ns));
	if (!model->late)
		model->late = calloc(LW_LIVE_LATES, sizeof(*model->late));
	if (!model->groups || !model->late || !ready_ns || !resumed_ns || !late_ns) {
		free(ready_ns);
		free(resumed_ns);
		free(late_ns);
		return lw_fail(LW_ERR_NOMEM, "no memory for operations");
	}
	free(model->ready_ns);
	free(model->resumed_ns);
	free(model->late_ns);
	model->ready_ns = ready_ns;
	model->resumed_ns = resumed_ns;
	model->late_ns = late_ns;
	memset(model->late, 0, LW_LIVE_LATES * sizeof(*model->late));
	model->n_group_ranks = n;
	memset(model->groups, 0, LW_LIVE_GROUPS * sizeof(*model->groups));
	return LW_OK;
}

static size_t index_of(const struct lw_live_model *model, const struct lw_live_rank *rank)
{
	return (size_t)(rank - model->ranks.at);
}

static size_t place_of(
	const struct lw_live_model *model, const struct lw_live_group *group, size_t rank)
{
	return (size_t)(group->serial % LW_LIVE_GROUPS) * model->n_group_ranks + rank;
}

/* NULL: so old that newer ones have its place. */
static struct lw_live_group *group_at(struct lw_live_model *model, int64_t serial)
{
	struct lw_live_group *group;

	if (serial <= 0)
		return NULL;
	group = &model->groups[serial % LW_LIVE_GROUPS];
	if (group->serial > serial)
		return NULL;
	if (group->serial < serial) {
		*group = (struct lw_live_group){.serial = serial};
		memset(model->ready_ns + place_of(model, group, 0), 0,
			model->n_group_ranks * sizeof(*model->ready_ns));
		memset(model->resumed_ns + place_of(model, group, 0), 0,
			model->n_group_ranks * sizeof(*model->resumed_ns));
	}
	return group;
}

/* Are all ranks of the job here, and how many are they? 0: no. */
static uint32_t n_job_ranks(struct lw_live_model *model)
{
	const struct lw_live_rank *rank;
	int32_t size = 0, n = 0;

	lw_vec_foreach (rank, &model->ranks) {
		n += rank->rank >= 0;
		if (rank->size > size)
			size = rank->size;
	}
	model->why_not_late = size == 1  ? "there is one rank"
			      : n < size ? "not all ranks are seen here"
			      : n > size ? "processes share a rank, or their number is not known"
			      : model->has_batches && !model->has_waits
				      ? "when ranks resumed was not recorded"
				      : NULL;
	return model->why_not_late ? 0 : (uint32_t)n;
}

/* Number of the step that @at_ns lies in, by the rank that appeared first; 0 = not known. */
static int64_t step_at(const struct lw_live_model *model, int64_t at_ns)
{
	const struct lw_live_rank *rank = model->ranks.at;

	for (uint64_t i = rank ? rank->n_bounds : 0;
		i-- > 0 && rank->n_bounds - i <= LW_LIVE_BOUNDS;)
		if (rank->bounds_ns[i % LW_LIVE_BOUNDS] <= at_ns)
			return (int64_t)i + 1;
	return 0;
}

/* Adds what @late says to the ranks' slots (@by 1), or takes it out again (-1). */
static void count_late(struct lw_live_model *model, const struct lw_live_late *late, int by)
{
	const int64_t *late_ns =
		model->late_ns + (size_t)(late - model->late) * model->n_group_ranks;

	for (size_t i = 0; i < model->ranks.n; i++) {
		struct lw_live_slot *slot = lw_live_slot_of(&model->ranks.at[i], late->at_ns);

		if (late_ns[i] == NONE || !slot)
			continue;
		slot->late_ns += by * late_ns[i];
		slot->n_late += (uint32_t)by;
		slot->n_last +=
			late->spread_ns > 0 && late_ns[i] == late->spread_ns ? (uint32_t)by : 0;
	}
}

void lw_live_forget_late(struct lw_live_model *model)
{
	struct lw_live_rank *rank;

	lw_vec_foreach (rank, &model->ranks)
		for (int i = 0; i < LW_LIVE_SLOTS; i++) {
			rank->slots[i].late_ns = 0;
			rank->slots[i].n_late = rank->slots[i].n_last = 0;
		}
	if (model->late)
		memset(model->late, 0, LW_LIVE_LATES * sizeof(*model->late));
}

/* What rank @i computed before an operation since it resumed; NONE: it is no rank of the job. */
static int64_t computed_ns(
	const struct lw_live_model *model, const struct lw_live_group *group, size_t i)
{
	size_t at = place_of(model, group, i);

	return model->ready_ns[at] ? model->ready_ns[at] - model->resumed_ns[at] : NONE;
}

struct span {                      /* of an operation */
	int64_t least_ns, most_ns; /* that a rank computed */
	int64_t last_ns;           /* ready */
};

/* Return: it is known of all ranks. */
static bool find_span(
	const struct lw_live_model *model, const struct lw_live_group *group, struct span *span)
{
	*span = (struct span){.least_ns = INT64_MAX};
	for (size_t i = 0; i < model->ranks.n; i++) {
		size_t at = place_of(model, group, i);
		int64_t ns = computed_ns(model, group, i);

		if (model->ranks.at[i].rank >= 0 && (ns == NONE || !model->resumed_ns[at]))
			return false;
		if (ns == NONE || !model->resumed_ns[at])
			continue;
		span->least_ns = ns < span->least_ns ? ns : span->least_ns;
		span->most_ns = ns > span->most_ns ? ns : span->most_ns;
		if (model->ready_ns[at] > span->last_ns)
			span->last_ns = model->ready_ns[at];
	}
	return span->last_ns > 0;
}

/* Operations of several threads come in another order than that of time: a step counts with the worst one so
 * far, and another one may take its place. */
static void compare_ranks(struct lw_live_model *model, const struct lw_live_group *group)
{
	struct lw_live_late *late;
	int64_t step, spread_ns;
	struct span span;

	if (!find_span(model, group, &span))
		return;
	model->n_groups++;
	spread_ns = span.most_ns - span.least_ns;
	step = step_at(model, span.last_ns);
	if (step && !model->late_step)
		lw_live_forget_late(model);
	late = &model->late[step % LW_LIVE_LATES];
	if (step && late->step == step) {
		if (spread_ns <= late->spread_ns)
			return;
		count_late(model, late, -1);
	}
	*late = (struct lw_live_late){step, spread_ns, span.last_ns};
	for (size_t i = 0; i < model->ranks.n; i++) {
		int64_t ns = computed_ns(model, group, i);

		model->late_ns[(size_t)(late - model->late) * model->n_group_ranks + i] =
			ns == NONE || ns < span.least_ns ? NONE : ns - span.least_ns;
	}
	count_late(model, late, 1);
	model->late_step = step;
}

void lw_live_end_operation(struct lw_live_model *model, int64_t serial)
{
	struct lw_live_group *group = group_at(model, serial);
	uint32_t n = n_job_ranks(model);

	if (!group)
		return;
	group->n_done++;
	if (n && group->n_done == n && !group->is_mixed)
		compare_ranks(model, group);
}

void lw_live_note_ready(struct lw_live_model *model, const struct lw_live_rank *rank,
	int64_t serial, int64_t name_id, int64_t resumed_ns, int64_t ready_ns)
{
	struct lw_live_group *group = group_at(model, serial);
	size_t at = group ? place_of(model, group, index_of(model, rank)) : 0;

	if (!group)
		return;
	if (!group->name_id)
		group->name_id = name_id;
	else if (!model->ready_ns[at] && group->name_id != name_id)
		group->is_mixed = true; /* something was not recorded */
	if (ready_ns > model->ready_ns[at]) {
		model->ready_ns[at] = ready_ns;
		model->resumed_ns[at] = resumed_ns;
	}
}
