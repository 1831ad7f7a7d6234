/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_run.h - runs of profiler traces that went through the stages. */
#ifndef LAPWING_TESTS_UNIT_GPU_RUN_H
#define LAPWING_TESTS_UNIT_GPU_RUN_H

#include "analyzer/analyzer.h"

/** gpu_run_import() - import @paths, run every stage. */
struct lw_run *gpu_run_import(const char *const *paths, size_t n_paths);

/** gpu_run_two_ranks() - of tests/data/kineto. */
struct lw_run *gpu_run_two_ranks(void);

/** gpu_run_count_all() - steps that were left out, too. */
void gpu_run_count_all(struct lw_run *run);

/** gpu_run_of_events() - a trace of @events, of rank 0 of 1. */
struct lw_run *gpu_run_of_events(const char *events);

/** gpu_run_analyse() - import @paths, and what is made of it; lw_analysis_close(). */
struct lw_analysis *gpu_run_analyse(const char *const *paths, size_t n_paths);

/** gpu_run_report() - its text, paragraphs in one line: where lines are broken is not what is asked. Static. */
const char *gpu_run_report(const struct lw_analysis *analysis);

/** gpu_run_finding() - the text of adviser @id; "" = it has none. */
const char *gpu_run_finding(const struct lw_analysis *analysis, const char *id);

void gpu_run_says(const char *text, const char *wanted);
void gpu_run_says_not(const char *text, const char *unwanted);

#define EVENT(cat, name, tid, ts, dur, args)                                                       \
	"{\"ph\":\"X\",\"cat\":\"" cat "\",\"name\":\"" name "\",\"pid\":1,\"tid\":" #tid          \
	",\"ts\":" #ts ",\"dur\":" #dur ",\"args\":{" args "}}"
#define CALL(name, c, ts, dur) EVENT("cuda_runtime", name, 1, ts, dur, "\"correlation\":" #c)
#define KERNEL(name, c, s, ts, dur)                                                                \
	EVENT("kernel", name, s, ts, dur,                                                          \
		"\"device\":0,\"context\":1,\"stream\":" #s ",\"correlation\":" #c)
#define REDUCE    "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
#define BROADCAST "ncclDevKernel_Broadcast_RING_LL"

#endif /* LAPWING_TESTS_UNIT_GPU_RUN_H */
