/* SPDX-License-Identifier: Apache-2.0 */
/*
 * phase.c - NEGOTIATE, WAIT, ALLREDUCE, MISC of every step: unions, so fused work counts once.
 *
 * A tensor of a batch goes through (first and last: over the ranks)
 *
 *	first ready .. last ready     NEGOTIATE  some rank is still computing it
 *	last ready .. round starts    WAIT       for the cycle, or behind an operation that is running
 *	round starts .. agreed        NEGOTIATE  the coordination message itself
 *	agreed .. batch starts        WAIT       behind earlier batches of the same response list
 *	batch starts .. ends          ALLREDUCE while its transport collective runs, else MISC
 */
#include "analyzer/reconstruct/phase.h"

#include <stdlib.h>

/* What a reader of the sets gets: united. */
#define ALL_SETS(phases)                                                                           \
	{                                                                                          \
		&(phases)->negotiate, &(phases)->wait, &(phases)->allreduce, &(phases)->misc,      \
			&(phases)->late, &(phases)->tick, &(phases)->entry, &(phases)->comm        \
	}
enum { N_SETS = 8 };

static struct lw_batch *batch_of_group(struct lw_run *run, const struct lw_group *group, size_t r)
{
	return group->batch_of_rank[r] == LW_NONE
		       ? NULL
		       : &run->ranks.at[r].batches.at[group->batch_of_rank[r]];
}

static void span_group(struct lw_run *run, const struct lw_group *group,
	struct lw_phase_span *spans, uint32_t n_members)
{
	bool is_whole = group->n_ranks == group->n_wanted;
	int64_t clock = 0;

	for (uint32_t i = 0; i < n_members; i++)
		spans[i].first_ns = spans[i].last_ns = LW_NS_UNKNOWN;
	for (size_t r = 0; r < run->ranks.n; r++) {
		const struct lw_rank *rank = &run->ranks.at[r];
		const struct lw_batch *batch = batch_of_group(run, group, r);

		if (!batch)
			continue;
		is_whole &= batch->n_members == n_members && (!clock || clock == rank->clock);
		clock = clock ? clock : rank->clock;
		for (uint32_t i = 0; i < n_members && i < batch->n_members && is_whole; i++) {
			int64_t ready_ns = rank->members.at[batch->first_member + i].ready_ns;

			is_whole &= ready_ns != LW_NS_UNKNOWN;
			if (spans[i].first_ns == LW_NS_UNKNOWN || ready_ns < spans[i].first_ns)
				spans[i].first_ns = ready_ns;
			if (ready_ns > spans[i].last_ns)
				spans[i].last_ns = ready_ns;
		}
	}
	/* Where a rank is not known, nobody knows who was last. */
	for (uint32_t i = 0; i < n_members && !is_whole; i++)
		spans[i].first_ns = spans[i].last_ns = LW_NS_UNKNOWN;
}

static uint32_t n_members_of(struct lw_run *run, const struct lw_group *group)
{
	size_t r = 0;

	while (!batch_of_group(run, group, r))
		r++;
	return batch_of_group(run, group, r)->n_members;
}

int lw_phases_init(struct lw_phases *phases, struct lw_run *run)
{
	size_t n = 0;

	*phases = (struct lw_phases){.run = run, .is_one_clock = lw_run_is_one_clock(run)};
	phases->first_span = malloc((run->groups.n + 1) * sizeof(*phases->first_span));
	if (!phases->first_span)
		return lw_fail(LW_ERR_NOMEM, "no memory");
	for (size_t g = 0; g < run->groups.n; g++) {
		phases->first_span[g] = n;
		n += n_members_of(run, &run->groups.at[g]);
	}
	phases->spans = malloc((n + 1) * sizeof(*phases->spans));
	if (!phases->spans)
		return lw_fail(LW_ERR_NOMEM, "no memory");
	for (size_t g = 0; g < run->groups.n; g++)
		span_group(run, &run->groups.at[g], phases->spans + phases->first_span[g],
			n_members_of(run, &run->groups.at[g]));
	return LW_OK;
}

void lw_phases_done(struct lw_phases *phases)
{
	struct lw_intervals *sets[] = {&phases->negotiate, &phases->wait, &phases->allreduce,
		&phases->misc, &phases->late, &phases->tick, &phases->entry, &phases->comm,
		&phases->running, &phases->scratch};

	for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]); i++)
		lw_vec_free(sets[i]);
	free(phases->spans);
	free(phases->first_span);
}

static int64_t later_ns(int64_t a_ns, int64_t b_ns)
{
	return a_ns > b_ns ? a_ns : b_ns;
}

/* One tensor until its batch starts. @ready_ns: on this rank. */
static int add_tensor(struct lw_phases *phases, const struct lw_batch *batch,
	const struct lw_phase_span *span, int64_t ready_ns, int64_t round_ns)
{
	int64_t last_ns = span->last_ns;
	int status = LW_OK;

	if (ready_ns != LW_NS_UNKNOWN || last_ns != LW_NS_UNKNOWN)
		phases->has_ready = true;
	if (batch->agreed_ns == LW_NS_UNKNOWN) {
		/* Nobody coordinates (DDP), or it was not seen: queued until it starts. */
		if (batch->process_set >= 0 && last_ns != LW_NS_UNKNOWN &&
			phases->run->ranks.at[0].framework == LW_FRAMEWORK_HOROVOD) {
			status |= lw_intervals_add(&phases->negotiate, span->first_ns, last_ns);
			status |= lw_intervals_add(&phases->late, span->first_ns, last_ns);
			ready_ns = last_ns;
		}
		return status | lw_intervals_add(&phases->wait, ready_ns, batch->start_ns);
	}
	if (last_ns ==
		LW_NS_UNKNOWN) /* only this rank's view: waiting for others cannot be told apart */
		return lw_intervals_add(&phases->negotiate, ready_ns, batch->agreed_ns);
	status |= lw_intervals_add(&phases->negotiate, span->first_ns, last_ns);
	status |= lw_intervals_add(&phases->late, span->first_ns, last_ns);
	if (round_ns == LW_NS_UNKNOWN)
		round_ns = later_ns(batch->cycle_ns, last_ns);
	if (round_ns > batch->agreed_ns)
		round_ns = batch->agreed_ns;
	status |= lw_intervals_add(&phases->wait, last_ns, round_ns);
	status |= lw_intervals_add(&phases->tick, last_ns, round_ns);
	return status |
	       lw_intervals_add(&phases->negotiate, later_ns(round_ns, last_ns), batch->agreed_ns);
}

/*
 * When the last rank had entered @batch's collective, not after its end. Across clocks nobody's start compares; but nobody
 * leaves before the last one has entered, and that one waited for nobody: all others were there longer by what they waited.
 */
static int64_t entered_ns(
	const struct lw_phases *phases, const struct lw_group *group, const struct lw_batch *batch)
{
	struct lw_interval wire = lw_batch_wire(batch);
	int64_t at_ns = group->last_start_ns;

	if (!phases->is_one_clock)
		at_ns = lw_group_waits(group->op) ? wire.end_ns - (int64_t)lw_group_service_ns(
									  phases->run, group, false)
						  : wire.start_ns;
	return at_ns < wire.end_ns ? at_ns : wire.end_ns;
}

/* @n of its tensors, from the @first. */
static int add_members(struct lw_phases *phases, const struct lw_rank *rank,
	const struct lw_batch *batch, uint32_t first, uint32_t n)
{
	const struct lw_group *group = &phases->run->groups.at[batch->group];
	const struct lw_phase_span *spans = phases->spans + phases->first_span[batch->group];
	int64_t wire_start_ns = batch->start_ns, wire_end_ns = batch->end_ns;
	int64_t own_ns = batch->start_ns;
	int status = LW_OK;

	for (uint32_t i = first; i < first + n && i < batch->n_members; i++) {
		int64_t ready_ns = rank->members.at[batch->first_member + i].ready_ns;

		if (ready_ns != LW_NS_UNKNOWN && ready_ns < own_ns)
			own_ns = ready_ns;
		status |= add_tensor(phases, batch, &spans[i], ready_ns, group->round_ns);
	}
	status |= lw_intervals_add(&phases->wait, batch->agreed_ns, batch->start_ns);
	if (own_ns == batch->start_ns && batch->agreed_ns != LW_NS_UNKNOWN)
		own_ns = batch->agreed_ns;
	status |= lw_intervals_add(&phases->comm, own_ns, batch->end_ns);
	status |= lw_intervals_add(&phases->running, batch->start_ns, batch->end_ns);
	if (batch->wire_start_ns != LW_NS_UNKNOWN) {
		status |= lw_intervals_add(&phases->misc, batch->start_ns, batch->wire_start_ns);
		status |= lw_intervals_add(&phases->misc, batch->wire_end_ns, batch->end_ns);
		wire_start_ns = batch->wire_start_ns;
		wire_end_ns = batch->wire_end_ns;
	}
	status |= lw_intervals_add(&phases->allreduce, wire_start_ns, wire_end_ns);
	if (group->n_wanted > 1)
		status |= lw_intervals_add(
			&phases->entry, wire_start_ns, entered_ns(phases, group, batch));
	return status;
}

static void forget(struct lw_phases *phases)
{
	struct lw_intervals *sets[N_SETS] = ALL_SETS(phases);

	for (size_t i = 0; i < N_SETS; i++)
		sets[i]->n = 0;
	phases->running.n = 0;
	phases->has_ready = phases->is_partial = false;
}

/* Of tick, only the time in which no operation was running. */
static int end_ticks(struct lw_phases *phases)
{
	struct lw_intervals old;
	int status;

	lw_intervals_unite(&phases->running, 0);
	status = lw_intervals_subtract(&phases->tick, &phases->running, &phases->scratch);
	old = phases->tick;
	phases->tick = phases->scratch;
	phases->scratch = old;
	return status;
}

int lw_phases_collect_members(struct lw_phases *phases, size_t rank_index,
	const struct lw_batch *batch, uint32_t first, uint32_t n)
{
	const struct lw_group *group = &phases->run->groups.at[batch->group];
	struct lw_intervals *sets[N_SETS] = ALL_SETS(phases);
	int status;

	forget(phases);
	phases->is_partial = group->n_ranks < group->n_wanted;
	status = add_members(phases, &phases->run->ranks.at[rank_index], batch, first, n);
	for (size_t i = 0; i < N_SETS; i++)
		lw_intervals_unite(sets[i], 0);
	status |= end_ticks(phases);
	return status ? LW_ERR_NOMEM : LW_OK;
}

static int64_t earlier_ns(int64_t a_ns, int64_t b_ns)
{
	return b_ns == LW_NS_UNKNOWN || a_ns < b_ns ? a_ns : b_ns;
}

/* Whether one of its intervals can reach into @step. Notes whether a ready time is known. */
static bool reaches(struct lw_phases *phases, const struct lw_rank *rank,
	const struct lw_batch *batch, const struct lw_step *step)
{
	const struct lw_phase_span *spans = phases->spans + phases->first_span[batch->group];
	int64_t first_ns = earlier_ns(batch->start_ns, batch->agreed_ns);
	int64_t last_ns = later_ns(batch->end_ns, batch->agreed_ns);

	first_ns = earlier_ns(first_ns, batch->wire_start_ns);
	last_ns = later_ns(later_ns(last_ns, batch->start_ns), batch->wire_end_ns);
	for (uint32_t i = 0; i < batch->n_members; i++) {
		int64_t ready_ns = rank->members.at[batch->first_member + i].ready_ns;

		phases->has_ready |= ready_ns != LW_NS_UNKNOWN || spans[i].last_ns != LW_NS_UNKNOWN;
		first_ns = earlier_ns(first_ns, ready_ns);
		first_ns = earlier_ns(first_ns, spans[i].first_ns);
		last_ns = later_ns(last_ns, later_ns(ready_ns, spans[i].last_ns));
	}
	return first_ns < step->end_ns && last_ns > step->start_ns;
}

/* Sends and receives, and kernels of which no operation is known, are matched with nobody: whether they wait for their peer
 * is not known. */
static bool has_unmatched(
	const struct lw_run *run, const struct lw_rank *rank, const struct lw_step *step)
{
	const struct lw_gpu_rank *gpu = &rank->gpu;
	size_t low;

	if (!run->is_plain || (run->is_size_known && run->size == 1))
		return false;
	lw_vec_bisect(low, gpu->kernels.n, i, gpu->kernels.at[i].start_ns < step->start_ns);
	for (; low < gpu->kernels.n && gpu->kernels.at[low].start_ns < step->end_ns; low++) {
		const struct lw_kernel *kernel = &gpu->kernels.at[low];

		if (kernel->gpu_class == LW_GPU_COMMUNICATION &&
			(kernel->nccl_op == LW_NONE ||
				gpu->nccl_ops.at[kernel->nccl_op].batch == LW_NONE))
			return true;
	}
	return false;
}

int lw_phases_collect(struct lw_phases *phases, size_t rank_index, size_t s)
{
	const struct lw_rank *rank = &phases->run->ranks.at[rank_index];
	const struct lw_step *step = &rank->steps.at[s];
	struct lw_intervals *sets[N_SETS] = ALL_SETS(phases);
	int status = LW_OK;

	forget(phases);
	phases->is_partial = has_unmatched(phases->run, rank, step);
	/* An operation may reach over the edge of its step: look at the neighbours too. */
	for (size_t i = s ? s - 1 : 0; i <= s + 1 && i < rank->steps.n; i++)
		for (uint32_t b = 0; b < rank->steps.at[i].n_batches; b++) {
			const struct lw_batch *batch =
				&rank->batches.at[rank->steps.at[i].first_batch + b];
			const struct lw_group *group = &phases->run->groups.at[batch->group];

			phases->is_partial |= i == s && group->n_ranks < group->n_wanted;
			if (i == s || reaches(phases, rank, batch, step))
				status |= add_members(phases, rank, batch, 0, batch->n_members);
		}
	/* Kernels that no operation is known for communicate too. */
	for (int i = 0; i < 2; i++)
		status |= lw_intervals_within(rank->gpu.busy[LW_GPU_COMMUNICATION].at,
			rank->gpu.busy[LW_GPU_COMMUNICATION].n, step->start_ns, step->end_ns,
			i ? &phases->comm : &phases->allreduce);
	for (size_t i = 0; i < N_SETS; i++) {
		lw_intervals_unite(sets[i], 0);
		lw_intervals_clip(sets[i], step->start_ns, step->end_ns);
	}
	status |= end_ticks(phases);
	return status ? LW_ERR_NOMEM : LW_OK;
}

int lw_run_phases(struct lw_run *run)
{
	struct lw_phases phases;
	uint64_t n_no_wire = 0;
	int status;

	lw_run_diag_reset(run, "phase");
	status = lw_phases_init(&phases, run);
	for (size_t r = 0; r < run->ranks.n && status == LW_OK; r++) {
		struct lw_rank *rank = &run->ranks.at[r];
		const struct lw_batch *batch;

		for (size_t s = 0; s < rank->steps.n && status == LW_OK; s++) {
			struct lw_step *step = &rank->steps.at[s];

			if (!step->n_batches && !lw_gpu_has(rank))
				continue;
			status = lw_phases_collect(&phases, r, s);
			step->allreduce_ns = lw_intervals_length_ns(&phases.allreduce);
			step->misc_ns = lw_intervals_length_ns(&phases.misc);
			step->entry_ns = lw_intervals_length_ns(&phases.entry);
			step->late_ns = lw_intervals_length_ns(&phases.late);
			step->tick_ns = lw_intervals_length_ns(&phases.tick);
			step->negotiate_ns = lw_intervals_length_ns(&phases.negotiate);
			step->wait_ns = lw_intervals_length_ns(&phases.wait);
			if (phases.is_partial)
				step->late_ns = step->tick_ns = step->entry_ns = LW_NS_UNKNOWN;
			if (!phases.has_ready)
				step->negotiate_ns = step->wait_ns = step->late_ns = step->tick_ns =
					LW_NS_UNKNOWN;
		}
		lw_vec_foreach (batch, &rank->batches)
			n_no_wire += batch->wire_start_ns == LW_NS_UNKNOWN;
	}
	lw_phases_done(&phases);
	if (status == LW_OK && n_no_wire)
		status = lw_run_diag(run, "phase", "wire time not seen", n_no_wire,
			"the transport's own collective was not recorded inside these operations:"
			" their copies count as ALLREDUCE, not as MISC");
	return status;
}
