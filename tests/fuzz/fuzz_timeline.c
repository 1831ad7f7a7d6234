/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a timeline: read or refused, and what is handed out holds together. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "analyzer/import/timeline.h"
#include "base/err.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void demand(bool holds)
{
	if (!holds)
		abort();
}

static void check_run(const struct lw_timeline_run *run)
{
	demand(run->activity && run->n_open == 0 && run->end_ns >= run->start_ns);
}

static int on_negotiation(void *context, const struct lw_timeline_negotiation *negotiation)
{
	(void)context;
	demand(negotiation->end_ns >= negotiation->start_ns);
	return LW_OK;
}

static int on_batch(void *context, const struct lw_timeline_batch *batch)
{
	uint64_t *n_batches = context;

	demand(batch->members.n > 0 && batch->serial == ++*n_batches);
	for (size_t i = 0; i < batch->members.n; i++) {
		const struct lw_timeline_member *member = &batch->members.at[i];

		demand(member->tensor && member->start_ns >= batch->start_ns);
		demand(member->end_ns <= batch->end_ns && lw_timeline_tensor_name(member->tensor));
	}
	for (size_t i = 0; i < batch->runs.n; i++)
		check_run(batch->runs.at[i]);
	return LW_OK;
}

static int on_stray(void *context, const struct lw_timeline_run *run)
{
	(void)context;
	check_run(run);
	return LW_OK;
}

static int on_cycle(void *context, int64_t at_ns)
{
	(void)context;
	(void)at_ns;
	return LW_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	static struct lw_timeline_stats stats;
	uint64_t n_batches = 0;
	const struct lw_timeline_sink sink = {
		on_negotiation, on_batch, on_stray, on_cycle, NULL, &n_batches};
	int fd = memfd_create("timeline", 0), status;
	char path[64];

	demand(fd >= 0 && write(fd, data, n) == (ssize_t)n);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	status = lw_timeline_read(path, &sink, &stats);
	demand(status == LW_OK || (status == LW_ERR_FORMAT && lw_error_text()[0]));
	demand(stats.n_batches == n_batches);
	for (size_t i = 0; i < stats.activities.n; i++) {
		const struct lw_activity_stats *activity = stats.activities.at[i];

		demand(activity->union_ns >= 0 && activity->sum_ns >= 0);
		demand(status < 0 || (activity->n_open == 0 && activity->n_runs <= activity->n));
	}
	lw_timeline_stats_free(&stats);
	close(fd);
	return 0;
}
