/* SPDX-License-Identifier: Apache-2.0 */
/*
 * overlap.c - computing against communicating, per rank and step.
 *
 *	blocked  the training thread waits (its recorded waits; in a run without a framework its collectives);
 *	         of a rank whose kernels were recorded: no compute kernel runs
 *	compute  the rest of the step
 *	comm     from a tensor's ready time on this rank to the end of its operation
 *	hidden   comm while computing          exposed  comm while blocked
 *	idle     blocked, but nothing of this rank's is communicating
 *
 * So compute + exposed + idle = step and hidden + exposed = comm, exactly.
 */
#include "analyzer/reconstruct/overlap.h"

#include "analyzer/reconstruct/phase.h"

/* Two polls of one waiting loop, with the handling of a finished handle between them. */
static const int64_t poll_gap_ns = 50000;

struct overlap {
	struct lw_run *run;
	struct lw_phases phases;
	struct lw_intervals blocked, exposed, part, rest;
	bool has_waits; /* somewhere in the run, so a rank without any never had to wait */
	uint64_t n_assumed, n_unknown;
};

static size_t first_wait_ending_after(const struct lw_rank *rank, int64_t at_ns)
{
	size_t low = 0, high = rank->waits.n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (rank->waits.at[middle].end_ns <= at_ns)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static int block_by_waits(
	const struct lw_rank *rank, const struct lw_step *step, struct lw_intervals *blocked)
{
	int status = lw_intervals_add(blocked, step->blocked_ns, step->resumed_ns);

	for (size_t i = first_wait_ending_after(rank, step->start_ns);
		i < rank->waits.n && rank->waits.at[i].start_ns < step->end_ns; i++)
		status |= lw_intervals_add(
			blocked, rank->waits.at[i].start_ns, rank->waits.at[i].end_ns);
	return status ? LW_ERR_NOMEM : LW_OK;
}

bool lw_run_has_waits(const struct lw_run *run)
{
	const struct lw_rank *rank;
	bool has_waits = false;

	lw_vec_foreach (rank, &run->ranks)
		has_waits |= rank->waits.n > 0;
	return has_waits;
}

static int block_by_host(const struct lw_run *run, size_t rank_index, size_t s, bool has_waits,
	struct lw_intervals *blocked)
{
	const struct lw_rank *rank = &run->ranks.at[rank_index];
	const struct lw_step *step = &rank->steps.at[s];
	int64_t last_end_ns = LW_NS_UNKNOWN;
	int status = LW_OK;

	blocked->n = 0;
	if (has_waits) {
		status = block_by_waits(rank, step, blocked);
		lw_intervals_unite(blocked, poll_gap_ns);
		lw_intervals_clip(blocked, step->start_ns, step->end_ns);
		return status < 0 ? status : LW_BLOCKED_KNOWN;
	}
	for (uint32_t i = 0; i < step->n_batches; i++) {
		const struct lw_batch *batch = &rank->batches.at[step->first_batch + i];

		if (batch->end_ns > last_end_ns)
			last_end_ns = batch->end_ns;
		if (!run->is_plain)
			continue;
		if (batch->flags & LW_COLL_NONBLOCKING)
			return LW_BLOCKED_UNKNOWN;
		status |= lw_intervals_add(blocked, batch->start_ns, batch->end_ns);
	}
	if (!run->is_plain) {
		if (step->last_ready_ns == LW_NS_UNKNOWN)
			return LW_BLOCKED_UNKNOWN;
		status |= lw_intervals_add(blocked, step->last_ready_ns, last_end_ns);
	}
	lw_intervals_unite(blocked, 0);
	lw_intervals_clip(blocked, step->start_ns, step->end_ns);
	return status ? LW_ERR_NOMEM : run->is_plain ? LW_BLOCKED_KNOWN : LW_BLOCKED_ASSUMED;
}

/* The device computes while a compute kernel runs, on whichever stream. Waiting for it is no computing. */
static int block_by_kernels(
	const struct lw_rank *rank, const struct lw_step *step, struct lw_intervals *blocked)
{
	struct lw_intervals compute = {0};
	int64_t at_ns = step->start_ns;
	int status = lw_intervals_within(rank->gpu.busy[LW_GPU_COMPUTE].at,
		rank->gpu.busy[LW_GPU_COMPUTE].n, step->start_ns, step->end_ns, &compute);

	blocked->n = 0;
	for (size_t i = 0; i < compute.n && status == LW_OK; i++) {
		status = lw_intervals_add(blocked, at_ns, compute.at[i].start_ns);
		at_ns = compute.at[i].end_ns;
	}
	if (status == LW_OK)
		status = lw_intervals_add(blocked, at_ns, step->end_ns);
	lw_vec_free(&compute);
	return status < 0 ? status : LW_BLOCKED_KNOWN;
}

int lw_blocked_collect(const struct lw_run *run, size_t rank_index, size_t s, bool has_waits,
	struct lw_intervals *blocked)
{
	const struct lw_rank *rank = &run->ranks.at[rank_index];

	if (lw_gpu_has(rank))
		return block_by_kernels(rank, &rank->steps.at[s], blocked);
	return block_by_host(run, rank_index, s, has_waits, blocked);
}

/* What the training thread did not wait, also where kernels say more. */
static int host_compute(struct overlap *overlap, size_t r, size_t s)
{
	struct lw_step *step = &overlap->run->ranks.at[r].steps.at[s];
	int known = block_by_host(overlap->run, r, s, overlap->has_waits, &overlap->blocked);

	if (known < 0)
		return known;
	step->host_compute_ns =
		known == LW_BLOCKED_UNKNOWN
			? LW_NS_UNKNOWN
			: step->end_ns - step->start_ns - lw_intervals_length_ns(&overlap->blocked);
	return LW_OK;
}

/* Takes @set out of what is left of the exposed time. Return: how much that was, ns. */
static int take(struct overlap *overlap, const struct lw_intervals *set, int64_t *ret_ns)
{
	struct lw_intervals old = overlap->exposed;
	int status = lw_intervals_intersect(&overlap->exposed, set, &overlap->part);

	*ret_ns = lw_intervals_length_ns(&overlap->part);
	status |= lw_intervals_subtract(&overlap->exposed, set, &overlap->rest);
	overlap->exposed = overlap->rest;
	overlap->rest = old;
	return status;
}

static int do_step(struct overlap *overlap, size_t r, size_t s)
{
	struct lw_rank *rank = &overlap->run->ranks.at[r];
	struct lw_step *step = &rank->steps.at[s];
	struct lw_phases *phases = &overlap->phases;
	int64_t blocked_ns, remainder_ns;
	int status = lw_phases_collect(phases, r, s), known;

	if (status < 0)
		return status;
	step->comm_ns = lw_intervals_length_ns(&phases->comm);
	status = host_compute(overlap, r, s);
	if (status < 0)
		return status;
	step->time_source = lw_gpu_has(rank) ? LW_TIME_FROM_GPU : LW_TIME_FROM_HOST;
	known = lw_blocked_collect(overlap->run, r, s, overlap->has_waits, &overlap->blocked);
	if (known < 0)
		return known;
	step->is_blocked_assumed = known == LW_BLOCKED_ASSUMED;
	if (known == LW_BLOCKED_UNKNOWN) {
		overlap->n_unknown++;
		step->compute_ns = step->hidden_ns = step->exposed_ns = step->idle_ns =
			LW_NS_UNKNOWN;
		step->exposed_allreduce_ns = step->exposed_misc_ns = step->exposed_wait_ns =
			step->exposed_negotiate_ns = step->exposed_entry_ns = LW_NS_UNKNOWN;
		return LW_OK;
	}
	overlap->n_assumed += step->is_blocked_assumed;
	status = lw_intervals_intersect(&overlap->blocked, &phases->comm, &overlap->exposed);
	blocked_ns = lw_intervals_length_ns(&overlap->blocked);
	step->exposed_ns = lw_intervals_length_ns(&overlap->exposed);
	step->hidden_ns = step->comm_ns - step->exposed_ns;
	step->compute_ns = step->end_ns - step->start_ns - blocked_ns;
	step->idle_ns = blocked_ns - step->exposed_ns;
	status |= lw_intervals_intersect(&overlap->exposed, &phases->entry, &overlap->part);
	step->exposed_entry_ns = lw_intervals_length_ns(&overlap->part);
	if (phases->is_partial)
		step->exposed_entry_ns = LW_NS_UNKNOWN;
	status |= take(overlap, &phases->allreduce, &step->exposed_allreduce_ns);
	status |= take(overlap, &phases->misc, &step->exposed_misc_ns);
	status |= take(overlap, &phases->wait, &step->exposed_wait_ns);
	status |= take(overlap, &phases->negotiate, &step->exposed_negotiate_ns);
	/* Between the phases lie only instants that no record covers: they count as waiting. */
	remainder_ns = lw_intervals_length_ns(&overlap->exposed);
	step->exposed_wait_ns += remainder_ns;
	return status ? LW_ERR_NOMEM : LW_OK;
}

static int report(struct overlap *overlap)
{
	int status = LW_OK;

	if (overlap->n_assumed)
		status = lw_run_diag(overlap->run, "overlap", "exposed time assumed",
			overlap->n_assumed,
			"no waits of the training thread were recorded: exposed is taken from the last"
			" gradient queued to the end of its operations, an upper bound");
	if (status == LW_OK && overlap->n_unknown)
		status = lw_run_diag(overlap->run, "overlap", "exposed time not known",
			overlap->n_unknown,
			"neither waits nor ready times were recorded: what was hidden cannot be told");
	return status;
}

int lw_run_overlap(struct lw_run *run)
{
	struct overlap overlap = {.run = run};
	int status;

	lw_run_diag_reset(run, "overlap");
	overlap.has_waits = lw_run_has_waits(run);
	status = lw_phases_init(&overlap.phases, run);
	for (size_t r = 0; r < run->ranks.n; r++)
		for (size_t s = 0; s < run->ranks.at[r].steps.n && status == LW_OK; s++)
			if (run->ranks.at[r].steps.at[s].n_batches || lw_gpu_has(&run->ranks.at[r]))
				status = do_step(&overlap, r, s);
	lw_phases_done(&overlap.phases);
	lw_vec_free(&overlap.blocked);
	lw_vec_free(&overlap.exposed);
	lw_vec_free(&overlap.part);
	lw_vec_free(&overlap.rest);
	return status == LW_OK ? report(&overlap) : status;
}
