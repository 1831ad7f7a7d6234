/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/advise_job.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/units.h"

static double link_ns(const void *context, const struct lw_hvd_op *op)
{
	const struct job_link *link = context;

	return link->fixed_ns + link->ns_per_byte * (double)op->bytes;
}

void job_init(struct job *job, uint32_t n_ranks, uint32_t n_tensors, uint64_t bytes)
{
	*job = (struct job){.link = {300e3, 80}};
	job->spec = (struct sim_spec){.n_ranks = n_ranks,
		.n_tensors = n_tensors,
		.n_steps = 25,
		.forward_ns = 50 * LW_NS_PER_MS,
		.gap_ns = 2 * LW_NS_PER_MS,
		.jitter_ns = LW_NS_PER_MS,
		.seed = 5};
	for (uint32_t t = 0; t < n_tensors; t++)
		job->bytes[t] = bytes;
	job->spec.setting = (struct lw_hvd_setting){128 << 20, 5 * LW_NS_PER_MS, 1, false, false};
	job->spec.cost = (struct lw_hvd_cost){.wire_ns = link_ns,
		.round_ns = 200e3,
		.oversleep_ns = 60e3,
		.dispatch_ns = 30e3,
		.between_ns = 20e3,
		.copy_in_ns_per_byte = 0.2,
		.copy_out_ns_per_byte = 0.2,
		.poll_ns = 1060e3};
}

/* @job holds pointers into itself: set them last. */
void job_advise(struct job *job, struct lw_run **ret_run, struct lw_advice_list *ret_list)
{
	job->spec.bytes = job->bytes;
	job->spec.cost.context = &job->link;
	*ret_run = sim_run_new(&job->spec);
	if (lw_advise(*ret_run, ret_list) < 0)
		abort();
}

const struct lw_advice *job_find(const struct lw_advice_list *list, const char *id)
{
	const struct lw_advice *advice;

	lw_vec_foreach (advice, &list->advice)
		if (!strcmp(advice->id, id))
			return advice;
	return NULL;
}

const struct lw_advice *job_must_find(const struct lw_advice_list *list, const char *id)
{
	const struct lw_advice *advice = job_find(list, id);

	if (advice)
		return advice;
	fail_msg("no advice %s", id);
	abort(); /* not reached: the test has ended */
}

double job_truth_ns(const struct job *job)
{
	struct job truth = *job;

	truth.spec.bytes = truth.bytes;
	truth.spec.cost.context = &truth.link;
	return sim_median_ns(&truth.spec);
}
