/* SPDX-License-Identifier: Apache-2.0 */
#include "tui/live_late.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"

enum { NONE = -1 };

int lw_live_grow_groups(struct lw_live_model *model)
{
	size_t n = model->n_group_ranks ? 2 * model->n_group_ranks : 8;
	int64_t *ready_ns, *late_ns;

	if (model->ranks.n <= model->n_group_ranks)
		return LW_OK;
	if (!model->groups)
		model->groups = calloc(LW_LIVE_GROUPS, sizeof(*model->groups));
	ready_ns = calloc(LW_LIVE_GROUPS * n, sizeof(*ready_ns));
	late_ns = calloc(LW_LIVE_LATES * n, sizeof(*late_ns));
	if (!model->late)
		model->late = calloc(LW_LIVE_LATES, sizeof(*model->late));
	if (!model->groups || !model->late || !ready_ns || !late_ns) {
		free(ready_ns);
		free(late_ns);
		return lw_fail(LW_ERR_NOMEM, "no memory for operations");
	}
	free(model->ready_ns);
	free(model->late_ns);
	model->ready_ns = ready_ns;
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
		memset(model->ready_ns + (size_t)(serial % LW_LIVE_GROUPS) * model->n_group_ranks,
			0, model->n_group_ranks * sizeof(*model->ready_ns));
	}
	return group;
}

static int64_t *ready_of(
	struct lw_live_model *model, const struct lw_live_group *group, size_t rank)
{
	return &model->ready_ns[(size_t)(group->serial % LW_LIVE_GROUPS) * model->n_group_ranks +
				rank];
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

/* First and last ready time of an operation. Return: all are known. */
static bool find_span(struct lw_live_model *model, const struct lw_live_group *group,
	int64_t *ret_first_ns, int64_t *ret_last_ns)
{
	*ret_first_ns = INT64_MAX;
	*ret_last_ns = 0;
	for (size_t i = 0; i < model->ranks.n; i++) {
		int64_t at_ns = *ready_of(model, group, i);

		if (!at_ns && model->ranks.at[i].rank >= 0)
			return false;
		if (at_ns && at_ns < *ret_first_ns)
			*ret_first_ns = at_ns;
		if (at_ns > *ret_last_ns)
			*ret_last_ns = at_ns;
	}
	return true;
}

/* Operations of several threads come in another order than that of time: a step counts with the worst one so
 * far, and another one may take its place. */
static void compare_ranks(struct lw_live_model *model, const struct lw_live_group *group)
{
	struct lw_live_late *late;
	int64_t first_ns, last_ns, step;

	if (!find_span(model, group, &first_ns, &last_ns))
		return;
	model->n_groups++;
	step = step_at(model, last_ns);
	if (step && !model->late_step)
		lw_live_forget_late(model);
	late = &model->late[step % LW_LIVE_LATES];
	if (step && late->step == step) {
		if (last_ns - first_ns <= late->spread_ns)
			return;
		count_late(model, late, -1);
	}
	*late = (struct lw_live_late){step, last_ns - first_ns, last_ns};
	for (size_t i = 0; i < model->ranks.n; i++) {
		int64_t at_ns = *ready_of(model, group, i);

		model->late_ns[(size_t)(late - model->late) * model->n_group_ranks + i] =
			at_ns ? at_ns - first_ns : NONE;
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
	int64_t serial, int64_t name_id, int64_t ready_ns)
{
	struct lw_live_group *group = group_at(model, serial);
	int64_t *known_ns = group ? ready_of(model, group, index_of(model, rank)) : NULL;

	if (!known_ns)
		return;
	if (!group->name_id)
		group->name_id = name_id;
	else if (!*known_ns && group->name_id != name_id)
		group->is_mixed = true; /* something was not recorded */
	if (ready_ns > *known_ns)
		*known_ns = ready_ns;
}
