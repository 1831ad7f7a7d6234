/* SPDX-License-Identifier: Apache-2.0 */
/*
 * step.c - training iterations: which operations belong to which, and where each begins and ends.
 *
 * A step ends when the training thread resumes after its last wait for gradients; the next one starts
 * there. Where no waits were recorded it ends with its last operation. The user's step marks win over both.
 */
#include "analyzer/reconstruct/step.h"

#include <stdlib.h>

#include "analyzer/reconstruct/recur.h"

/* A handle is done a little after its operation has returned: a wait may begin this much later. */
static const int64_t completion_ns = 200000;

struct stepper {
	struct lw_run *run;
	int32_t *step_of_group; /* LW_NONE = not a gradient */
	int32_t n_steps;
	bool by_marks;
};

static bool is_gradient(const struct stepper *stepper, const struct lw_batch *batch)
{
	return batch->group != LW_NONE && stepper->step_of_group[batch->group] != LW_NONE;
}

static int64_t batch_ready_ns(const struct lw_rank *rank, const struct lw_batch *batch, bool first)
{
	int64_t found_ns = LW_NS_UNKNOWN;

	for (uint32_t i = 0; i < batch->n_members; i++) {
		int64_t ready_ns = rank->members.at[batch->first_member + i].ready_ns;

		if (ready_ns == LW_NS_UNKNOWN)
			continue;
		if (found_ns == LW_NS_UNKNOWN ||
			(first ? ready_ns < found_ns : ready_ns > found_ns))
			found_ns = ready_ns;
	}
	return found_ns;
}

/* ---- which step a batch belongs to -------------------------------------------------------------- */

static int32_t step_at(const struct lw_rank *rank, int64_t at_ns, int32_t n_steps)
{
	size_t low = 0, high = rank->step_marks.n; /* marks at or before at_ns */

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (rank->step_marks.at[middle] <= at_ns)
			low = middle + 1;
		else
			high = middle;
	}
	return low == 0 || low > (size_t)n_steps ? LW_NONE : (int32_t)low - 1;
}

static void place_by_marks(const struct stepper *stepper, struct lw_rank *rank)
{
	struct lw_batch *batch;

	lw_vec_foreach (batch, &rank->batches) {
		int64_t ready_ns = batch_ready_ns(rank, batch, false);

		/* a step begins with its first kernel: an operation that is this one was called before */
		if (lw_gpu_has(rank) && batch->nccl_op != LW_NONE)
			ready_ns = batch->wire_start_ns;
		batch->step = step_at(rank, ready_ns != LW_NS_UNKNOWN ? ready_ns : batch->start_ns,
			stepper->n_steps);
	}
}

/* What is no gradient belongs to the step that comes next; before the first and after the last: outside. */
static void place_by_recurrence(const struct stepper *stepper, struct lw_rank *rank)
{
	int32_t next = LW_NONE;
	size_t first = 0;

	for (size_t i = rank->batches.n; i > 0; i--) {
		struct lw_batch *batch = &rank->batches.at[i - 1];

		if (is_gradient(stepper, batch))
			next = stepper->step_of_group[batch->group];
		batch->step = next;
	}
	while (first < rank->batches.n && !is_gradient(stepper, &rank->batches.at[first]))
		rank->batches.at[first++].step = LW_NONE;
}

static int place_batches(const struct stepper *stepper, struct lw_rank *rank)
{
	struct lw_step fresh = {.start_ns = LW_NS_UNKNOWN,
		.mark = LW_NONE,
		.end_ns = LW_NS_UNKNOWN,
		.first_ready_ns = LW_NS_UNKNOWN,
		.last_ready_ns = LW_NS_UNKNOWN,
		.blocked_ns = LW_NS_UNKNOWN,
		.resumed_ns = LW_NS_UNKNOWN,
		.compute_ns = LW_NS_UNKNOWN,
		.comm_ns = LW_NS_UNKNOWN,
		.hidden_ns = LW_NS_UNKNOWN,
		.exposed_ns = LW_NS_UNKNOWN,
		.idle_ns = LW_NS_UNKNOWN,
		.negotiate_ns = LW_NS_UNKNOWN,
		.wait_ns = LW_NS_UNKNOWN,
		.allreduce_ns = LW_NS_UNKNOWN,
		.misc_ns = LW_NS_UNKNOWN,
		.host_compute_ns = LW_NS_UNKNOWN,
		.gpu = LW_GPU_TIMES_UNKNOWN};
	int32_t newest = LW_NONE;

	if (stepper->by_marks)
		place_by_marks(stepper, rank);
	else
		place_by_recurrence(stepper, rank);
	rank->steps.n = 0;
	for (int32_t s = 0; s < stepper->n_steps; s++)
		if (lw_vec_push(&rank->steps, fresh) < 0)
			return LW_ERR_NOMEM;
	for (size_t i = 0; i < rank->batches.n; i++) {
		struct lw_batch *batch = &rank->batches.at[i];
		struct lw_step *step;

		if (batch->step == LW_NONE)
			continue;
		if (batch->step < newest) /* a step is one stretch of the rank's operations */
			batch->step = newest;
		newest = batch->step;
		step = &rank->steps.at[newest];
		if (!step->n_batches++)
			step->first_batch = (uint32_t)i;
	}
	return LW_OK;
}

/* ---- where a step begins and ends ---------------------------------------------------------------- */

static void find_readies(const struct stepper *stepper, struct lw_rank *rank, struct lw_step *step,
	int64_t *ret_last_end_ns)
{
	*ret_last_end_ns = LW_NS_UNKNOWN;
	for (uint32_t i = 0; i < step->n_batches; i++) {
		const struct lw_batch *batch = &rank->batches.at[step->first_batch + i];
		int64_t first_ns, last_ns;

		if (!is_gradient(stepper, batch))
			continue;
		first_ns = batch_ready_ns(rank, batch, true);
		last_ns = batch_ready_ns(rank, batch, false);
		if (first_ns != LW_NS_UNKNOWN &&
			(step->first_ready_ns == LW_NS_UNKNOWN || first_ns < step->first_ready_ns))
			step->first_ready_ns = first_ns;
		if (last_ns > step->last_ready_ns)
			step->last_ready_ns = last_ns;
		if (batch->end_ns > *ret_last_end_ns)
			*ret_last_end_ns = batch->end_ns;
	}
}

static size_t first_wait_after(const struct lw_rank *rank, int64_t at_ns)
{
	size_t low = 0, high = rank->waits.n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (rank->waits.at[middle].start_ns < at_ns)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* From the last ready on: the first wait is where computing ended, the end of the last where it resumes. */
static void find_waits(
	const struct lw_rank *rank, struct lw_step *step, int64_t last_end_ns, int64_t limit_ns)
{
	if (step->last_ready_ns == LW_NS_UNKNOWN || last_end_ns == LW_NS_UNKNOWN)
		return;
	for (size_t i = first_wait_after(rank, step->last_ready_ns); i < rank->waits.n; i++) {
		const struct lw_interval *wait = &rank->waits.at[i];

		if (wait->start_ns > last_end_ns + completion_ns || wait->start_ns >= limit_ns)
			break;
		if (step->blocked_ns == LW_NS_UNKNOWN)
			step->blocked_ns = wait->start_ns;
		step->resumed_ns = wait->end_ns < limit_ns ? wait->end_ns : limit_ns;
	}
}

/* The first step has none before it: it starts when the rank's earlier operations and waits were over. */
static int64_t first_start_ns(const struct lw_rank *rank, const struct lw_step *step)
{
	const struct lw_batch *batch = &rank->batches.at[step->first_batch];
	int64_t until_ns =
		step->first_ready_ns != LW_NS_UNKNOWN ? step->first_ready_ns : batch->start_ns;
	int64_t start_ns = rank->start_ns;
	const struct lw_interval *wait;

	if (step->first_batch && batch[-1].end_ns <= until_ns && batch[-1].end_ns > start_ns)
		start_ns = batch[-1].end_ns;
	lw_vec_foreach (wait, &rank->waits) {
		if (wait->end_ns > until_ns)
			break;
		if (wait->end_ns > start_ns)
			start_ns = wait->end_ns;
	}
	return start_ns < until_ns ? start_ns : until_ns;
}

static int find_bounds(const struct stepper *stepper, struct lw_rank *rank)
{
	int64_t previous_ns = LW_NS_UNKNOWN, *last_end_ns;
	size_t n = rank->steps.n;

	last_end_ns = calloc(n + 1, sizeof(*last_end_ns));
	if (!last_end_ns)
		return lw_fail(LW_ERR_NOMEM, "no memory");
	for (size_t s = 0; s < n; s++)
		find_readies(stepper, rank, &rank->steps.at[s], &last_end_ns[s]);
	for (size_t s = 0; s < n; s++) {
		struct lw_step *step = &rank->steps.at[s];
		int64_t limit_ns = INT64_MAX, end_ns;

		for (size_t next = s + 1; next < n; next++) {
			limit_ns = rank->steps.at[next].first_ready_ns;
			if (limit_ns != LW_NS_UNKNOWN)
				break;
			limit_ns = INT64_MAX;
		}
		if (stepper->by_marks) {
			limit_ns = rank->step_marks.at[s + 1];
			find_waits(rank, step, last_end_ns[s], limit_ns);
			step->start_ns = rank->step_marks.at[s];
			step->end_ns = limit_ns;
			step->mark = rank->step_values.at[s];
			continue;
		}
		if (!step->n_batches) { /* nothing of it was recorded here */
			step->start_ns = step->end_ns = previous_ns;
			continue;
		}
		find_waits(rank, step, last_end_ns[s], limit_ns);
		end_ns =
			step->last_ready_ns > last_end_ns[s] ? step->last_ready_ns : last_end_ns[s];
		if (step->resumed_ns != LW_NS_UNKNOWN)
			end_ns = step->resumed_ns;
		if (end_ns > limit_ns)
			end_ns = limit_ns;
		step->start_ns =
			previous_ns != LW_NS_UNKNOWN ? previous_ns : first_start_ns(rank, step);
		step->end_ns = end_ns > step->start_ns ? end_ns : step->start_ns;
		previous_ns = step->end_ns;
	}
	free(last_end_ns);
	return LW_OK;
}

/* Marks count when every rank has them; of a rank that ended early, as far as it got. */
static void look_for_marks(struct stepper *stepper)
{
	const struct lw_rank *rank;
	size_t n = SIZE_MAX;

	lw_vec_foreach (rank, &stepper->run->ranks)
		if (rank->step_marks.n < n)
			n = rank->step_marks.n;
	if (!stepper->run->ranks.n || n < 2 || n > INT32_MAX)
		return;
	stepper->by_marks = true;
	/* Without a gradient set every operation is one. */
	if (!stepper->n_steps)
		for (size_t g = 0; g < stepper->run->groups.n; g++)
			stepper->step_of_group[g] = 0;
	stepper->n_steps = (int32_t)n - 1;
}

/* On a GPU a run without a framework exchanges its gradients by these, among others: where there are any, its other
 * operations (a broadcast of buffers before the forward pass) say nothing of when gradients were ready. */
static void keep_gradients(struct stepper *stepper)
{
	const struct lw_run *run = stepper->run;
	bool has_gradients = false;

	if (!run->is_plain || !run->gpu.has_kernels)
		return;
	for (int pass = 0; pass < 2; pass++)
		for (size_t g = 0; g < run->groups.n; g++) {
			bool is_one = run->groups.at[g].op == LW_COLL_ALLREDUCE ||
				      run->groups.at[g].op == LW_COLL_REDUCESCATTER;

			has_gradients |= is_one && stepper->step_of_group[g] != LW_NONE;
			if (pass && has_gradients && !is_one)
				stepper->step_of_group[g] = LW_NONE;
		}
}

int lw_run_steps(struct lw_run *run)
{
	struct stepper stepper = {.run = run};
	struct lw_rank *rank;
	int status;

	lw_run_diag_reset(run, "step");
	stepper.step_of_group = malloc((run->groups.n + 1) * sizeof(*stepper.step_of_group));
	if (!stepper.step_of_group)
		return lw_fail(LW_ERR_NOMEM, "no memory");
	status = lw_recur_find(run, stepper.step_of_group, &stepper.n_steps);
	if (status == LW_OK)
		look_for_marks(&stepper);
	keep_gradients(&stepper);
	if (status == LW_OK && !stepper.n_steps)
		status = lw_run_diag(run, "step", LW_STEP_NONE, 1, "%s",
			run->groups.n
				? "no operation recurs: there are no steps to tell apart (give operations the same name in every step, or mark the steps: lapwing_mark.h)"
				: "no collective operation was recorded");
	lw_vec_foreach (rank, &run->ranks) {
		if (status == LW_OK)
			status = place_batches(&stepper, rank);
		if (status == LW_OK)
			status = find_bounds(&stepper, rank);
	}
	free(stepper.step_of_group);
	if (status == LW_OK)
		status = lw_step_exclude(run);
	return status == LW_OK ? lw_step_lengths(run) : status;
}

int32_t lw_rank_step_at(const struct lw_rank *rank, int64_t at_ns)
{
	size_t low = 0, high = rank->steps.n; /* steps that start at or before at_ns */

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (rank->steps.at[middle].start_ns <= at_ns)
			low = middle + 1;
		else
			high = middle;
	}
	return low && at_ns < rank->steps.at[low - 1].end_ns ? (int32_t)low - 1 : LW_NONE;
}

bool lw_rank_counts_at(const struct lw_rank *rank, int64_t at_ns)
{
	int32_t step = lw_rank_step_at(rank, at_ns);

	return !rank->steps.n || (step != LW_NONE && !rank->steps.at[step].excluded);
}
