/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hvd_cycle.h - the discrete-event twin of Horovod's background loop, over a chain of steps.
 *
 * Reads:  ready times, a setting, costs.   Writes: the length of every step on every rank.
 * Not for: where the inputs come from (simulate/replay.h) or which setting is best (advise/).
 *
 * What is modelled, as Horovod 0.20 to 0.28 does it:
 *  - one thread per rank turns rounds: the cycle time is a PERIOD from one round's start to the
 *    next, not a gap, and there is no sleep when the thread is late;
 *  - a round is a barrier: it ends on all ranks when the last one entered, plus its cost. A tensor
 *    is agreed when every rank had it queued before it entered the round;
 *  - agreed tensors are fused greedily in the order of their cache bits (order of first execution),
 *    with look-ahead over those that do not fit, up to the threshold rounded as Horovod rounds it;
 *  - ranks may leave an operation apart; one that leaves early enters the next round early, with what it
 *    had queued then, and waits in it: that round can agree on nothing that came later;
 *  - the operations of a round run one after the other on the same thread, so they delay the next;
 *  - the training thread waits from `blocked` on by polling, so it resumes on a multiple of the poll.
 * As rounds are barriers and each rank pays the same costs, the loops of all ranks run in step; ranks
 * differ in when their tensors are ready, when they have computed, and when a step of theirs ends.
 * Not modelled, and for the caller to refuse: operations that run beside the loop (NCCL), rounds of
 * several process sets, gathers and broadcasts of tensors that are not in the cache (their cost comes
 * with round_ns and dispatch_ns).
 */
#ifndef LAPWING_ANALYZER_SIMULATE_HVD_CYCLE_H
#define LAPWING_ANALYZER_SIMULATE_HVD_CYCLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LW_HVD_NO_GROUP = -1 };    /* a group: this tensor is sent on its own */
enum { LW_HVD_NOT_IN_STEP = -1 }; /* a ready time: this step does not send this tensor */

struct lw_hvd_tensor {
	uint64_t bytes;
	int32_t fuse_class; /* only equal ones fuse (operation, dtype, process set); < 0 = never */
};

/*
 * Ready means queued. The tensors of an explicit group (grouped_allreduce) are queued together, when
 * the last of them is ready, so on one rank they are to have the same ready time: then they are agreed
 * in the same round, as Horovod's are. Groups need no more than that, unless they must not be fused.
 */

struct lw_hvd_input {
	uint32_t n_ranks, n_tensors, n_steps;
	const struct lw_hvd_tensor *tensors; /* ascending cache bit */
	/* [step][rank][tensor], ns after this rank's step began; LW_HVD_NOT_IN_STEP on all ranks or none */
	const int64_t *ready_ns;
	const int64_t
		*blocked_ns;    /* [step][rank], ns after the step began: nothing left to compute */
	const int64_t *tail_ns; /* [step][rank], ns from resuming to the end of the step */
	/* [tensor], explicit groups, any number >= 0 or LW_HVD_NO_GROUP; NULL = none. The members of a
	 * group ascend as they do in the list that was sent */
	const int32_t *group_of;
};

struct lw_hvd_setting {
	uint64_t fusion_bytes;
	int64_t cycle_ns;
	uint32_t
		local_size; /* ranks on a host where that is equal on all hosts, else 0: no rounding */
	bool is_group_fusion_off; /* only tensors of one group fuse; one without a group is a group */
	bool is_uncached; /* no cache of responses: fused in the order of becoming ready, not of bits */
};

struct lw_hvd_op { /* one collective, as its cost is asked for */
	uint64_t bytes;
	int64_t idle_ns; /* how long the wire had been idle before */
	int64_t computing_ns; /* from its start until training threads wait, mean over ranks; < 0: they do */
	uint32_t step, nth; /* of the input; of its step, from 0 */
};

/* Of each step of the input, in order, how much more or less than the mean things took. */
struct lw_hvd_scatter {
	double *frac;
	uint32_t *
		from; /* [n_steps + 1]: those of step s are frac[from[s]] to frac[from[s + 1] - 1] */
	uint32_t n_steps; /* 0 = none: all as the mean */
};

/** lw_hvd_scatter_at() - where the @nth of @step is, again from the first where it had fewer; NULL = nowhere. */
const double *lw_hvd_scatter_at(const struct lw_hvd_scatter *scatter, uint32_t step, uint32_t nth);

struct lw_hvd_cost {
	/* time of one collective on the wire, from the last rank's start to the end, ns */
	double (*wire_ns)(const void *context, const struct lw_hvd_op *op);
	const void *context;
	double round_ns; /* one round, from the last rank's entry to its end */
	double late_ns;  /* more, for one that follows an operation without a sleep */
	/* of rounds that agreed something, each until its first operation; borrowed */
	struct lw_hvd_scatter slept_scatter, late_scatter; /* after a sleep; without one */
	double oversleep_ns;      /* a sleep for the cycle ends this much too late */
	double busy_oversleep_ns; /* and this much more, mostly less than 0, after an operation */
	double dispatch_ns;       /* from the end of the round to its first operation */
	double between_ns;        /* from one operation of a round to the next */
	double single_in_ns;      /* before the wire, when the batch holds one tensor */
	double single_out_ns;     /* after the wire, likewise */
	double copy_in_ns, copy_in_ns_per_byte;   /* before the wire, fused */
	double copy_out_ns, copy_out_ns_per_byte; /* after the wire, fused */
	/* [n_ranks], of an operation's time on the wire: how much before the last rank each leaves it;
	 * NULL = all together. Borrowed */
	const double *leave_frac;
	double poll_ns; /* period of the training thread's poll; 0 = it is woken at once */
	/* the training thread, after it waited for a batch: decompression */
	double finish_ns_per_byte;
};

enum { LW_HVD_SIZE_CLASSES = 40 }; /* octaves of bytes */

/* Sums over all steps; times are means over ranks. */
struct lw_hvd_totals {
	uint64_t n_rounds, n_batches, bytes;
	uint64_t min_batch_bytes, max_batch_bytes; /* 0, 0 when there was none */
	struct {
		uint64_t n_batches, bytes;
		/* [i]: of at least 2^i and less than 2^(i + 1) bytes; those after a pause of the wire: LW_HVD_SIZE_CLASSES further on */
	} of_size[2 * LW_HVD_SIZE_CLASSES];
	double wire_ns, copy_ns; /* busy with operations: on the wire, around it */
	double exposed_ns;       /* training threads blocked; what follows splits it */
	double exposed_wire_ns, exposed_copy_ns;
	double exposed_poll_ns;  /* done, not yet noticed, or not yet decompressed */
	double exposed_cycle_ns; /* the loop slept, negotiated, or waited for other ranks */
	double agree_ns;         /* per tensor: last rank ready to agreed, summed over tensors */
	double behind_ns;        /* per tensor: agreed to its own start, summed over tensors */
};

/* One executed batch, at the same times on every rank: all leave a round at once and pay the same. */
struct lw_hvd_batch {
	uint32_t step;
	uint64_t bytes;
	uint32_t n_members;
	const uint32_t *members;
	int64_t round_ns, agreed_ns; /* begin and end of the round that agreed it */
	int64_t start_ns, wire_start_ns, wire_end_ns, end_ns;
};

/* What a test or a run generator may watch; each may be NULL. Times since the first step began. */
struct lw_hvd_observer {
	void (*batch)(void *context, const struct lw_hvd_batch *batch);
	void (*step)(void *context, uint32_t step, const int64_t *start_ns,
		const int64_t *blocked_ns, const int64_t *resumed_ns, const int64_t *end_ns);
	void *context;
};

struct lw_hvd_sim; /* scratch memory, reused from run to run */

/** lw_hvd_count_size() - one batch of @bytes in its class of @totals; @idle_ns: the wire's, before it. */
void lw_hvd_count_size(struct lw_hvd_totals *totals, uint64_t bytes, int64_t idle_ns);

/** lw_hvd_sim_new() - scratch for inputs of at most this size. Return: LW_OK or LW_ERR_NOMEM. */
int lw_hvd_sim_new(uint32_t n_ranks, uint32_t n_tensors, struct lw_hvd_sim **ret_sim);
void lw_hvd_sim_free(struct lw_hvd_sim *sim);

/**
 * lw_hvd_effective_bytes() - the threshold in force: @fusion_bytes rounded UP to a multiple of
 * local_size x 8 (a double) x 64 (Horovod's atomic unit); unchanged when @local_size is 0.
 */
uint64_t lw_hvd_effective_bytes(uint64_t fusion_bytes, uint32_t local_size);

/**
 * lw_hvd_sim_run() - simulate all steps of @input, one after the other on every rank.
 * The loop's last round began when the first step did. Pure: equal arguments, equal results.
 * @ret_step_ns: [step][rank], ns, written in full
 * @ret_totals, @observer: may be NULL
 * Return: LW_OK, LW_ERR_LIMIT (larger than the scratch).
 */
int lw_hvd_sim_run(struct lw_hvd_sim *sim, const struct lw_hvd_input *input,
	const struct lw_hvd_setting *setting, const struct lw_hvd_cost *cost, int64_t *ret_step_ns,
	struct lw_hvd_totals *ret_totals, const struct lw_hvd_observer *observer);

#endif /* LAPWING_ANALYZER_SIMULATE_HVD_CYCLE_H */
