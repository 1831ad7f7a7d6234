/* SPDX-License-Identifier: Apache-2.0 */
/*
 * make_run.h - run files for tests: a regular job whose every time follows from a short description.
 *
 * Rank r hands over tensor t at T(s) + ready + late(r), where T(s) is the moment step s begins on all
 * ranks. Batches run one after another, as Horovod's background thread does:
 *
 *	round(b)  = max(last ready of its tensors on any rank, end(b - 1)) + tick    entered by all ranks
 *	start(b)  = round(b) + coordination
 *	wire      = start(b) + copy .. + wire(b)
 *	end(b)    = end of the wire + copy
 *	T(s + 1)  = end of the last batch + resume     the training thread waits until then
 */
#ifndef LAPWING_TESTS_LIB_MAKE_RUN_H
#define LAPWING_TESTS_LIB_MAKE_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MAKE_RUN_MAX = 64 };

struct make_tensor {
	const char *name;
	uint64_t bytes;
	int64_t ready_ns; /* after the step began */
	int batch;        /* which of the step's batches carries it, ascending from 0 */
};

struct make_run {
	int n_ranks, n_steps;
	const struct make_tensor *tensors;
	int n_tensors;
	int64_t wire_ns[MAKE_RUN_MAX]; /* by batch */
	int64_t late_ns[MAKE_RUN_MAX]; /* by rank */
	int64_t tick_ns, coordination_ns, copy_ns, resume_ns,
		block_ns; /* block: last ready to wait */
	int64_t first_ns; /* T(0) */
	int64_t scale;    /* every time is multiplied by it; 0 = 1 */

	int n_broadcasts; /* before the first step */
	int size;         /* of the job; 0 = n_ranks */
	int framework, transport;
	bool no_waits, no_cycles, no_wire, no_objects, has_metric, is_open;
	bool has_tail_metric; /* the loss is averaged in every step, once the gradients are there */
	int64_t lost_rank, lost_step, lost_batch; /* this record is left out ... */
	bool has_lost;                            /* ... when this says so */
	uint64_t shuffle_seed; /* rows are written in another order; 0 = in order */
	const char *extra_sql; /* run at the end, may be NULL */
};

/** make_run_job() - a small job of 3 tensors in 2 batches on @n_ranks for @n_steps; change what matters. */
struct make_run make_run_job(int n_ranks, int n_steps);

/** make_run_write() - write @spec to a new run file at @path. Fails the test on any error. */
void make_run_write(const char *path, const struct make_run *spec);

/** make_run_step_ns() - length of every step but the first, from the formulas above, scaled. */
int64_t make_run_step_ns(const struct make_run *spec);

#endif /* LAPWING_TESTS_LIB_MAKE_RUN_H */
