/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu.h - what a run says of GPUs and NCCL, as every reader shows it.
 *
 *	gpu_figures.c  means over steps        gpu_nccl.c   operations and their bandwidth
 *	gpu_text.c     the report's section    gpu_json.c   the key "gpu" of its document
 *	gpu_devices.c  both, of what NVML counted
 *	gpu_proxies.c  both, of what NCCL's proxies moved
 *
 * Reads:  a run after gpu.   Writes: nothing.
 */
#ifndef LAPWING_ANALYZER_EMIT_GPU_H
#define LAPWING_ANALYZER_EMIT_GPU_H

#include "analyzer/emit/report.h"
#include "analyzer/gpu_words.h"
#include "analyzer/kernel_text.h"

/* Members of struct lw_gpu_times, each with _ns, of which the mean over counted steps is given. */
#define LW_GPU_FIGURES(X)                                                                          \
	X(compute)                                                                                 \
	X(comm)                                                                                    \
	X(hidden)                                                                                  \
	X(exposed)                                                                                 \
	X(copy)                                                                                    \
	X(idle)                                                                                    \
	X(sync_lost)

struct lw_gpu_rank_figures {
	int32_t rank;   /* of the job */
	size_t n_steps; /* counted steps that these are means of; 0: of all that was recorded, once */
	double whole_ns; /* mean length of those steps; else from the first kernel to the last end; NAN */
	double comm_sum_ns; /* of what was recorded: lengths of communication kernels added up; else NAN */
#define X(name) struct lw_figure name##_ns;
	LW_GPU_FIGURES(X)
#undef X
};

/* Operations of one kind. A time of service is that of the rank whose kernel took the shortest: it waited for no other.
 * Where an operation was not found on all its ranks, it is its own kernel's, in which waiting is. */
struct lw_gpu_nccl {
	int op, algorithm, protocol;
	uint64_t n;                  /* operations, of all ranks */
	uint64_t n_timed;            /* of them, with a kernel of their own */
	bool is_matched;             /* all of the timed were found on all their ranks */
	struct lw_figure bytes;      /* mean of the operations, as the caller counts */
	struct lw_figure kernel_ns;  /* mean length of their kernels, waiting for others in it */
	struct lw_figure service_ns; /* mean */
	struct lw_figure algbw_bytes_per_s, busbw_bytes_per_s; /* as nccl-tests defines them */
};

struct lw_gpu_summary {
	lw_vec(struct lw_gpu_rank_figures) ranks; /* those with kernels */
	/* the same ranks from their first kernel to their last end, whatever steps there are: n_steps is 0 */
	lw_vec(struct lw_gpu_rank_figures) recorded;
	lw_vec(struct lw_gpu_nccl) nccl;            /* what took longest first */
	lw_vec(const struct lw_gpu_name *) kernels; /* what took longest first */
};

/** lw_gpu_summarize() - Return: LW_OK or LW_ERR_NOMEM; lw_gpu_summary_done() in both cases. */
int lw_gpu_summarize(const struct lw_run *run, struct lw_gpu_summary *ret_summary);
void lw_gpu_summary_done(struct lw_gpu_summary *summary);

/** lw_gpu_sum_ranks() - the part of it that is of ranks; likewise lw_gpu_summary_done(). */
int lw_gpu_sum_ranks(const struct lw_run *run, struct lw_gpu_summary *ret_summary);

/** lw_gpu_sum_nccl() - the part of lw_gpu_summarize() that is in gpu_nccl.c. */
int lw_gpu_sum_nccl(const struct lw_run *run, struct lw_gpu_summary *summary);

/** lw_gpu_devices_text() - what NVML counted of GPUs while steps went on. Nothing: nothing. */
void lw_gpu_devices_text(const struct lw_run *run, FILE *out);

/** lw_gpu_devices_json() - the same, the key "counters" of an open object. */
int lw_gpu_devices_json(struct lw_json *json, const struct lw_run *run);

/** lw_gpu_proxies_text() - what NCCL's proxies sent from rank to rank, and waited for. Nothing recorded: nothing. */
void lw_gpu_proxies_text(const struct lw_run *run, int32_t only_rank, FILE *out);

/** lw_gpu_proxies_json() - the same, the key "proxies" of an open object; null where none were recorded. */
int lw_gpu_proxies_json(struct lw_json *json, const struct lw_run *run);

/** lw_gpu_idle_text() - that GPUs are idle for much of a step; "": they are not, or it is not known. Return: @text. */
const char *lw_gpu_idle_text(const struct lw_run *run, char text[LW_GPU_TEXT_BYTES]);

/** lw_gpu_text() - the section "GPU". Nothing recorded: nothing. */
void lw_gpu_text(const struct lw_run *run, int32_t only_rank, FILE *out);

/** lw_gpu_json() - the key "gpu" of an open object; null where nothing was recorded. Return: LW_OK or LW_ERR_NOMEM. */
int lw_gpu_json(struct lw_json *json, const struct lw_run *run);

#endif /* LAPWING_ANALYZER_EMIT_GPU_H */
