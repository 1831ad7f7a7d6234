/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/reconstruct/metric.h"

#include <stdlib.h>

/* Metrics are small: a program that waits for each gradient in turn has gradients behind every wait. */
static const double most_bytes_frac = 0.01, most_steps_frac = 0.8;

struct queued {
	int64_t ready_ns;
	uint32_t tensor;
	uint64_t bytes;
};
typedef lw_vec(struct queued) queue;

struct tally {
	uint32_t n_seen, n_behind; /* steps that hold the tensor; in which it came behind a wait */
};

static int compare_queued(const void *a, const void *b)
{
	const struct queued *x = a, *y = b;

	if (x->ready_ns != y->ready_ns)
		return x->ready_ns < y->ready_ns ? -1 : 1;
	return (x->tensor > y->tensor) - (x->tensor < y->tensor);
}

static bool has_wait_within(const struct lw_rank *rank, int64_t from_ns, int64_t to_ns)
{
	size_t low = 0, high = rank->waits.n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (rank->waits.at[middle].start_ns < from_ns)
			low = middle + 1;
		else
			high = middle;
	}
	return low < rank->waits.n && rank->waits.at[low].end_ns <= to_ns;
}

/* The tensors of one step, of which the last small ones may lie behind a wait. */
static void judge_step(const struct lw_rank *rank, queue *step, struct tally *tallies)
{
	uint64_t total = 0, tail = 0;
	size_t first_behind = step->n;

	qsort(step->at, step->n, sizeof(*step->at), compare_queued);
	for (size_t i = 0; i < step->n; i++) {
		total += step->at[i].bytes;
		tallies[step->at[i].tensor].n_seen++;
	}
	for (size_t k = step->n - 1; k > 0 && 2 * (step->n - k) <= step->n; k--) {
		tail += step->at[k].bytes;
		if ((double)tail > most_bytes_frac * (double)total)
			break;
		if (has_wait_within(rank, step->at[k - 1].ready_ns, step->at[k].ready_ns))
			first_behind = k;
	}
	for (size_t k = first_behind; k < step->n; k++)
		tallies[step->at[k].tensor].n_behind++;
}

static int add_group(const struct lw_rank *rank, const struct lw_batch *batch, queue *step)
{
	for (uint32_t i = 0; i < batch->n_members; i++) {
		const struct lw_member *member = &rank->members.at[batch->first_member + i];
		struct queued queued = {member->ready_ns, member->tensor, member->bytes};

		if (member->ready_ns != LW_NS_UNKNOWN && lw_vec_push(step, queued) < 0)
			return LW_ERR_NOMEM;
	}
	return LW_OK;
}

/* One rank tells: all of them run the same program. Groups of a step follow each other. */
static int judge_rank(
	const struct lw_run *run, size_t r, const int32_t *step_of_group, struct tally *tallies)
{
	const struct lw_rank *rank = &run->ranks.at[r];
	int32_t newest = LW_NONE;
	queue step = {0};
	int status = LW_OK;

	for (size_t g = 0; g < run->groups.n && status == LW_OK; g++) {
		int32_t batch = run->groups.at[g].batch_of_rank[r];

		if (step_of_group[g] == LW_NONE || batch == LW_NONE)
			continue;
		if (step_of_group[g] != newest && step.n)
			judge_step(rank, &step, tallies);
		if (step_of_group[g] != newest)
			step.n = 0;
		newest = step_of_group[g];
		status = add_group(rank, &rank->batches.at[batch], &step);
	}
	if (status == LW_OK && step.n)
		judge_step(rank, &step, tallies);
	lw_vec_free(&step);
	return status;
}

int lw_metric_find(struct lw_run *run, const int32_t *step_of_group, int32_t n_steps,
	bool *is_metric, bool *ret_found)
{
	struct tally *tallies;
	int status = LW_OK;
	size_t r = 0;

	*ret_found = false;
	while (r < run->ranks.n && (!run->ranks.at[r].waits.n || !run->ranks.at[r].readies.n))
		r++;
	for (size_t t = 0; t < run->tensors.n; t++)
		is_metric[t] = false;
	if (r == run->ranks.n || n_steps < 2)
		return LW_OK;
	tallies = calloc(run->tensors.n + 1, sizeof(*tallies));
	if (!tallies)
		return lw_fail(LW_ERR_NOMEM, "no memory");
	status = judge_rank(run, r, step_of_group, tallies);
	for (size_t t = 0; t < run->tensors.n && status == LW_OK; t++) {
		is_metric[t] = tallies[t].n_seen &&
			       (double)tallies[t].n_behind >= most_steps_frac * tallies[t].n_seen;
		*ret_found |= is_metric[t];
	}
	free(tallies);
	return status;
}
