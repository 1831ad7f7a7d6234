/* SPDX-License-Identifier: Apache-2.0 */
/* sim_run.h - a run in memory, as load, match and step leave it, of a job that the simulator ran. */
#ifndef LAPWING_TESTS_UNIT_SIM_RUN_H
#define LAPWING_TESTS_UNIT_SIM_RUN_H

#include "analyzer/run.h"
#include "analyzer/simulate/hvd_cycle.h"

struct sim_spec {
	uint32_t n_ranks, n_tensors, n_steps;
	const uint64_t *bytes;      /* by tensor, in the order in which they become ready */
	int64_t forward_ns, gap_ns; /* before the first tensor; between tensors */
	uint32_t
		n_in_burst; /* 0 = none; else so many tensors come together, with as many gaps between */
	int64_t jitter_ns; /* ready times vary by up to this much, growing through the step */
	int64_t late_ns;   /* the last rank's forward pass takes this much longer */
	struct lw_hvd_setting setting;
	struct lw_hvd_cost cost;
	uint64_t seed;
	const int32_t *group_of; /* by tensor: sent together, when the last is ready; NULL = none */
};

/** sim_job() - the input that @spec says; one block, free() it. */
struct lw_hvd_input *sim_job(const struct sim_spec *spec);

/** sim_median_ns() - median step of @spec, over steps 1.., mean over ranks: the truth. */
double sim_median_ns(const struct sim_spec *spec);

/** sim_run_new() - the run that a tracer would have recorded; step 0 is excluded as warm-up. */
struct lw_run *sim_run_new(const struct sim_spec *spec);
void sim_run_free(struct lw_run *run);

#endif /* LAPWING_TESTS_UNIT_SIM_RUN_H */
