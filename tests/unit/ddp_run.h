/* SPDX-License-Identifier: Apache-2.0 */
/* ddp_run.h - a run in memory, as load, match and step leave it, of a DDP job that the simulator ran. */
#ifndef LAPWING_TESTS_UNIT_DDP_RUN_H
#define LAPWING_TESTS_UNIT_DDP_RUN_H

#include "analyzer/run.h"
#include "analyzer/simulate/ddp.h"

enum {
	DDP_STEPS = 21, /* the first is excluded as warm-up */
	DDP_RANKS = 2,
	DDP_PARAMETERS = 30,
	DDP_ROWS = DDP_STEPS * DDP_RANKS,
	KIB = 1024,
};

struct ddp_truth {
	double fixed_ns, ns_per_byte; /* of an operation */
	struct lw_ddp_setting setting;
	struct lw_ddp_cost cost;
	int64_t clock_shift_ns; /* of rank 1 */
	struct lw_hvd_tensor tensors[DDP_PARAMETERS];
	int64_t ready_ns[DDP_ROWS * DDP_PARAMETERS], blocked_ns[DDP_ROWS], tail_ns[DDP_ROWS];
	struct lw_hvd_input input; /* points into the above */
};

/** ddp_truth_make() - 4.4 MB of gradients, one each 6 ms; the wire takes 40 ns a byte. */
void ddp_truth_make(struct ddp_truth *truth, uint64_t cap_bytes);

/** ddp_truth_median_ns() - median step, over steps 1.., mean over ranks. */
double ddp_truth_median_ns(const struct ddp_truth *truth);

/** ddp_run_new() - the run that a tracer would have recorded; free with sim_run_free(). One at a time. */
struct lw_run *ddp_run_new(const struct ddp_truth *truth);

#endif /* LAPWING_TESTS_UNIT_DDP_RUN_H */
