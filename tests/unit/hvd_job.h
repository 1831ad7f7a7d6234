/* SPDX-License-Identifier: Apache-2.0 */
/* hvd_job.h - a small job for the twin of Horovod's loop, and what a simulation of it showed. */
#ifndef LAPWING_TESTS_UNIT_HVD_JOB_H
#define LAPWING_TESTS_UNIT_HVD_JOB_H

#include "analyzer/simulate/hvd_cycle.h"

enum { MAX_RANKS = 4, MAX_TENSORS = 40, MAX_STEPS = 6, MAX_BATCHES = 512 };
enum { MS = 1000000, US = 1000 };

struct line { /* wire: fixed + per byte, both ns */
	double fixed_ns, ns_per_byte;
};

struct seen {
	uint32_t n;
	struct {
		uint64_t bytes;
		uint32_t n_members, members[MAX_TENSORS];
		int64_t agreed_ns, start_ns, wire_end_ns;
	} batch[MAX_BATCHES];
	int64_t resumed_ns[MAX_STEPS][MAX_RANKS];
	uint32_t n_ranks;
};

/* A job in fixed arrays; ready and blocked are filled by each test. */
struct job {
	struct lw_hvd_tensor tensors[MAX_TENSORS];
	int64_t ready_ns[MAX_STEPS * MAX_RANKS * MAX_TENSORS];
	int64_t blocked_ns[MAX_STEPS * MAX_RANKS], tail_ns[MAX_STEPS * MAX_RANKS];
	struct lw_hvd_input input;
	struct lw_hvd_setting setting;
	struct lw_hvd_cost cost;
	struct line line;
	int64_t step_ns[MAX_STEPS * MAX_RANKS];
	struct lw_hvd_totals totals;
	struct seen seen;
};

/** line_ns() - the wire of a job; @context: struct line. */
double line_ns(const void *context, const struct lw_hvd_op *op);

/** job_init() - all ready at 0, 1000 bytes each, threshold 1 MiB, cycle 5 ms, nothing costs anything. */
void job_init(struct job *job, uint32_t n_ranks, uint32_t n_tensors, uint32_t n_steps);
int64_t *ready(struct job *job, uint32_t step, uint32_t rank, uint32_t tensor);

/** job_run() - simulate it; fills step_ns, totals and seen. */
void job_run(struct job *job);

#endif /* LAPWING_TESTS_UNIT_HVD_JOB_H */
