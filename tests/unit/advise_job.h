/* SPDX-License-Identifier: Apache-2.0 */
/* advise_job.h - a made-up job whose truth is known, recorded and asked for advice. */
#ifndef LAPWING_TESTS_UNIT_ADVISE_JOB_H
#define LAPWING_TESTS_UNIT_ADVISE_JOB_H

#include "analyzer/advise/advise.h"
#include "tests/unit/sim_run.h"

enum { JOB_MAX_TENSORS = 200 };
#define JOB_MS 1e6

struct job_link { /* the true cost of an operation */
	double fixed_ns, ns_per_byte;
};

struct job {
	struct sim_spec spec; /* its pointers are set by what uses it */
	uint64_t bytes[JOB_MAX_TENSORS];
	struct job_link link;
};

/** job_init() - 25 steps of @n_tensors tensors of @bytes each, cycle 5 ms. */
void job_init(struct job *job, uint32_t n_ranks, uint32_t n_tensors, uint64_t bytes);

/** job_advise() - record it and ask for advice. Free the list, then the run. */
void job_advise(struct job *job, struct lw_run **ret_run, struct lw_advice_list *ret_list);

/** job_truth_ns() - its median step, over steps 1.. */
double job_truth_ns(const struct job *job);

/** job_find() - the advice @id. Return: NULL = there is none. */
const struct lw_advice *job_find(const struct lw_advice_list *list, const char *id);

/** job_must_find() - the same, or the test fails. */
const struct lw_advice *job_must_find(const struct lw_advice_list *list, const char *id);

#endif /* LAPWING_TESTS_UNIT_ADVISE_JOB_H */
