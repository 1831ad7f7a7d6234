/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ddp.c - what can be set in a torch DDP job. Buckets are made when a job starts, so a run holds one set
 * of them, and their gradients' own ready times are not in it: other sizes are not predicted.
 */
#include "analyzer/advise/advise.h"
#include "base/units.h"

static int advise(const struct lw_adviser *self, struct lw_run *run, struct lw_advice_list *list)
{
	const struct lw_replay *replay = list->replay;
	char least[LW_UNIT_TEXT_BYTES], most[LW_UNIT_TEXT_BYTES];

	(void)run;
	if (!replay->is_ddp)
		return LW_OK;
	return lw_advise_find(list, self->id,
		"%.1f buckets a step of %s to %s. What can be set is bucket_cap_mb of DistributedDataParallel (25 by default; the first bucket is 1 MiB), gradient_as_bucket_view, static_graph and a communication hook; which would be faster cannot be told from one set of buckets: record a run with another bucket_cap_mb. `lapwing predict` answers for other networks, ranks and compute",
		replay->batches_per_step, lw_bytes_format((double)replay->min_batch_bytes, least),
		lw_bytes_format((double)replay->max_batch_bytes, most));
}

const struct lw_adviser lw_adviser_ddp = {
	.id = "ddp.buckets",
	.title = "Buckets of torch DDP",
	.run = advise,
	.assumes = "The buckets are those that were recorded.",
	.wrong_if = "The buckets change: torch rebuilds them after the first step.",
	.check =
		"Record a run with another bucket_cap_mb, and compare the two with `lapwing report`.",
};
