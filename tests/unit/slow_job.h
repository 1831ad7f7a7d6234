/* SPDX-License-Identifier: Apache-2.0 */
/* slow_job.h - a ring whose operations and readings a test sets: one every 20 ms, a reading at its start and one at its end. */
#ifndef LAPWING_TESTS_UNIT_SLOW_JOB_H
#define LAPWING_TESTS_UNIT_SLOW_JOB_H

#include "analyzer/run.h"
#include "base/units.h"

enum {
	SLOW_JOB_RANKS = 3,
	SLOW_JOB_EVERY_NS = 20 * LW_NS_PER_MS,
	SLOW_JOB_CALM_NS = 5 * LW_NS_PER_MS, /* that an operation takes */
	SLOW_JOB_LOST_NS = 3 * LW_NS_PER_MS  /* that a slow one takes longer */
};

/** slow_job_make() - free with lw_run_free(). */
struct lw_run *slow_job_make(void);

/** slow_job_set_op() - the operation @i moves @bytes in @ns. */
void slow_job_set_op(struct lw_run *run, size_t i, uint64_t bytes, int64_t ns);

/** slow_job_set_ops() - all of 1 MiB; those that @is_slow take longer. */
void slow_job_set_ops(struct lw_run *run, bool (*is_slow)(size_t i));

/** slow_job_count_of() - of the operations in counted steps those that @is_it. */
uint32_t slow_job_count_of(const struct lw_run *run, bool (*is_it)(size_t i));

/* From the 30th on; every second of those; all; none. */
bool slow_job_is_late(size_t i);
bool slow_job_is_some_late(size_t i);
bool slow_job_is_any(size_t i);
bool slow_job_is_none(size_t i);

/** slow_job_end_of() - the end at rank @from of its connection with @to. */
struct lw_tcp_end *slow_job_end_of(struct lw_run *run, int32_t from, int32_t to);

/** slow_job_set_readings() - anew: TCP is busy while an operation runs, and @step is added in those that @is_it. */
void slow_job_set_readings(struct lw_run *run, int32_t from, int32_t to, bool (*is_it)(size_t i),
	struct lw_tcp_reading step);

/** slow_job_add_counter() - of a device, read like that: it grows in those that @is_it. */
void slow_job_add_counter(
	struct lw_run *run, size_t nic, const char *name, bool (*is_it)(size_t i));

/** slow_job_judged() - what is said of an enum lw_net_cause now. */
const struct lw_net_caused *slow_job_judged(struct lw_run *run, int cause);

/** slow_job_assert_near() - within a thousandth. */
void slow_job_assert_near(double value, double wanted);

/** slow_job_assert_slowed() - @n operations, each by SLOW_JOB_LOST_NS. */
void slow_job_assert_slowed(const struct lw_net_caused *caused, uint32_t n, int against);

#endif /* LAPWING_TESTS_UNIT_SLOW_JOB_H */
