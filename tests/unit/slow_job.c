/* SPDX-License-Identifier: Apache-2.0 */
/* slow_job.c - see slow_job.h. */
#include "tests/unit/slow_job.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/run_fixture.h"
#include "tests/unit/net_run.h"

struct lw_run *slow_job_make(void)
{
	net_run_begin(SLOW_JOB_RANKS);
	for (int r = 0; r < SLOW_JOB_RANKS; r++)
		net_run_add_link(r, (r + 1) % SLOW_JOB_RANKS, 60e6, 1e3, 50);
	return net_run_analyze(SLOW_JOB_RANKS);
}

void slow_job_set_op(struct lw_run *run, size_t i, uint64_t bytes, int64_t ns)
{
	struct lw_group *group = &run->groups.at[i];

	group->op = LW_COLL_ALLREDUCE;
	group->bytes = bytes;
	group->first_start_ns = group->last_start_ns = (int64_t)(i + 1) * SLOW_JOB_EVERY_NS;
	group->last_end_ns = group->last_start_ns + ns;
	for (size_t r = 0; r < run->ranks.n; r++) {
		struct lw_batch *batch = &run->ranks.at[r].batches.at[group->batch_of_rank[r]];

		batch->bytes = bytes;
		batch->wire_start_ns = group->last_start_ns;
		batch->wire_end_ns = group->last_end_ns;
	}
}

/* Of the first @n operations every one, of one size; those that @is_slow takes longer. */
void slow_job_set_ops(struct lw_run *run, bool (*is_slow)(size_t i))
{
	for (size_t i = 0; i < run->groups.n; i++)
		slow_job_set_op(
			run, i, 1 << 20, SLOW_JOB_CALM_NS + (is_slow(i) ? SLOW_JOB_LOST_NS : 0));
}

static bool is_counted(const struct lw_run *run, size_t i)
{
	for (size_t r = 0; r < run->ranks.n; r++) {
		const struct lw_batch *batch = lw_group_batch(run, &run->groups.at[i], r);

		if (!batch || batch->step < 0 || run->ranks.at[r].steps.at[batch->step].excluded)
			return false;
	}
	return true;
}

uint32_t slow_job_count_of(const struct lw_run *run, bool (*is_it)(size_t i))
{
	uint32_t n = 0;

	for (size_t i = 0; i < run->groups.n; i++)
		n += is_counted(run, i) && is_it(i);
	return n;
}

bool slow_job_is_late(size_t i)
{
	return i >= 30;
}

bool slow_job_is_some_late(size_t i)
{
	return i >= 30 && i % 2;
}

bool slow_job_is_any(size_t i)
{
	(void)i;
	return true;
}

bool slow_job_is_none(size_t i)
{
	(void)i;
	return false;
}

struct lw_tcp_end *slow_job_end_of(struct lw_run *run, int32_t from, int32_t to)
{
	struct lw_tcp_end *end;

	lw_vec_foreach (end, &run->ends)
		if (end->rank == from && end->peer_rank == to)
			return end;
	fail_msg("no end from %d to %d", from, to);
	return NULL;
}

/* The readings of @end anew: TCP is busy while an operation runs, and @step is added in those that @is_it. */
void slow_job_set_readings(struct lw_run *run, int32_t from, int32_t to, bool (*is_it)(size_t i),
	struct lw_tcp_reading step)
{
	struct lw_tcp_end *end = slow_job_end_of(run, from, to);
	struct lw_tcp_reading now = {.rtt_ns = 200000, .min_rtt_ns = 100000};

	end->tcp.n = 0;
	for (size_t i = 0; i < run->groups.n; i++) {
		const struct lw_group *group = &run->groups.at[i];
		bool is_here = is_it(i);

		now.at_ns = group->last_start_ns;
		lw_vec_push(&end->tcp, now);
		now.at_ns = group->last_end_ns;
		now.busy_ns += group->last_end_ns - group->last_start_ns;
		now.rtt_ns = is_here && step.rtt_ns ? step.rtt_ns : 200000;
		now.n_retransmits += is_here ? step.n_retransmits : 0;
		now.rwnd_limited_ns += is_here ? step.rwnd_limited_ns : 0;
		now.sndbuf_limited_ns += is_here ? step.sndbuf_limited_ns : 0;
		lw_vec_push(&end->tcp, now);
	}
}

/* A counter of a device, read like that. */
void slow_job_add_counter(struct lw_run *run, size_t nic, const char *name, bool (*is_it)(size_t i))
{
	struct lw_nic_series series = {.name = strdup(name)};
	int64_t value = 0;

	for (size_t i = 0; i < run->groups.n; i++) {
		struct lw_reading reading = {run->groups.at[i].last_start_ns, value};

		lw_vec_push(&series.readings, reading);
		value += is_it(i) ? 7 : 0;
		reading = (struct lw_reading){run->groups.at[i].last_end_ns, value};
		lw_vec_push(&series.readings, reading);
	}
	lw_vec_push(&run->nics.at[nic].series, series);
}

const struct lw_net_caused *slow_job_judged(struct lw_run *run, int cause)
{
	assert_int_equal(lw_run_network(run), LW_OK);
	return &run->network.slowed.by[cause];
}

void slow_job_assert_near(double value, double wanted)
{
	if (!(fabs(value - wanted) <= 0.001 * fabs(wanted)))
		fail_msg("%.6g instead of %.6g", value, wanted);
}

void slow_job_assert_slowed(const struct lw_net_caused *caused, uint32_t n, int against)
{
	assert_int_equal(caused->n_slowed, n);
	slow_job_assert_near(caused->lost_ns, (double)n * SLOW_JOB_LOST_NS);
	assert_int_equal(caused->against, against);
}
