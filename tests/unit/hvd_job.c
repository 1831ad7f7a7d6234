/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/hvd_job.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

double line_ns(const void *context, const struct lw_hvd_op *op)
{
	const struct line *line = context;

	return line->fixed_ns + line->ns_per_byte * (double)op->bytes;
}

static void see_batch(void *context, const struct lw_hvd_batch *batch)
{
	struct seen *seen = context;

	assert_true(seen->n < MAX_BATCHES);
	seen->batch[seen->n].bytes = batch->bytes;
	seen->batch[seen->n].n_members = batch->n_members;
	memcpy(seen->batch[seen->n].members, batch->members,
		batch->n_members * sizeof(*batch->members));
	seen->batch[seen->n].agreed_ns = batch->agreed_ns;
	seen->batch[seen->n].start_ns = batch->start_ns;
	seen->batch[seen->n].wire_end_ns = batch->wire_end_ns;
	seen->n++;
}

static void see_step(void *context, uint32_t step, const int64_t *start_ns,
	const int64_t *blocked_ns, const int64_t *resumed_ns, const int64_t *end_ns)
{
	struct seen *seen = context;

	(void)start_ns;
	(void)blocked_ns;
	(void)end_ns;
	memcpy(seen->resumed_ns[step], resumed_ns, seen->n_ranks * sizeof(*resumed_ns));
}

void job_init(struct job *job, uint32_t n_ranks, uint32_t n_tensors, uint32_t n_steps)
{
	memset(job, 0, sizeof(*job));
	job->input = (struct lw_hvd_input){n_ranks, n_tensors, n_steps, job->tensors, job->ready_ns,
		job->blocked_ns, job->tail_ns, NULL};
	job->cost.wire_ns = line_ns;
	job->cost.context = &job->line;
	job->setting.fusion_bytes = 1 << 20;
	job->setting.cycle_ns = 5 * MS;
	for (uint32_t t = 0; t < n_tensors; t++)
		job->tensors[t].bytes = 1000;
}

int64_t *ready(struct job *job, uint32_t step, uint32_t rank, uint32_t tensor)
{
	return &job->ready_ns[((size_t)step * job->input.n_ranks + rank) * job->input.n_tensors +
			      tensor];
}

void job_run(struct job *job)
{
	struct lw_hvd_sim *sim;
	struct lw_hvd_observer observer = {see_batch, see_step, &job->seen};

	job->seen.n = 0;
	job->seen.n_ranks = job->input.n_ranks;
	assert_int_equal(lw_hvd_sim_new(job->input.n_ranks, job->input.n_tensors, &sim), 0);
	assert_int_equal(lw_hvd_sim_run(sim, &job->input, &job->setting, &job->cost, job->step_ns,
				 &job->totals, &observer),
		0);
	lw_hvd_sim_free(sim);
}
