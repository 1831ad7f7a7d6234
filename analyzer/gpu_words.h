/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu_words.h - whether a run tells of GPUs and NCCL, and sentences on them that advice, report and screens share.
 *
 * Reads:  a run after gpu.   Writes: nothing.
 */
#ifndef LAPWING_ANALYZER_GPU_WORDS_H
#define LAPWING_ANALYZER_GPU_WORDS_H

#include "analyzer/run.h"

/** lw_gpu_is_there() - the run has kernels, or operations of NCCL: there is something to say. */
bool lw_gpu_is_there(const struct lw_run *run);

/** lw_gpu_is_time() - the figures of some step are from the GPU: what computes is a kernel, not a thread. */
bool lw_gpu_is_time(const struct lw_run *run);

enum { LW_GPU_TEXT_BYTES = 512 };

/** lw_gpu_compute_words() - what compute, exposed and hidden of this run are, for below a table of them. */
const char *lw_gpu_compute_words(const struct lw_run *run);

struct lw_phase_words {
	const char *title;               /* of a table of them */
	const char *phases;              /* what each is, for below it */
	const char *agree, *wait, *misc; /* "490 us ...", of the exposed time */
};

/** lw_gpu_phase_words() - what the phases are: of gradients, of operations without a framework, of those on a GPU. */
const struct lw_phase_words *lw_gpu_phase_words(const struct lw_run *run);

/** lw_gpu_has_several() - some rank uses several GPUs, whose work counts as that of one. */
bool lw_gpu_has_several(const struct lw_run *run);

/** lw_gpu_source_text() - the @i-th of those that tell of GPUs and NCCL, and how it fared. Return: @text, NULL: past the last. */
const char *lw_gpu_source_text(const struct lw_run *run, size_t i, char text[LW_GPU_TEXT_BYTES]);

/** lw_gpu_nccl_sources() - how many operations each source told of; 0: an imported trace. */
enum { LW_GPU_NCCL_SOURCES = 4 };
void lw_gpu_nccl_sources(const struct lw_run *run, uint64_t ret_n[LW_GPU_NCCL_SOURCES]);

/** lw_gpu_nccl_source_name() - "import", "preload", "plugin", "nvtx". */
const char *lw_gpu_nccl_source_name(int source);

/** lw_gpu_nccl_told() - "48 by the plugin"; "" = none. Return: @text. */
const char *lw_gpu_nccl_told(const struct lw_run *run, char text[LW_GPU_TEXT_BYTES]);

/** lw_gpu_lost_text() - one place where overlap was lost to synchronisation, a sentence. Return: @text. */
const char *lw_gpu_lost_text(
	const struct lw_run *run, const struct lw_gpu_lost *lost, char text[LW_GPU_TEXT_BYTES]);

/** lw_gpu_lost_call() - the function that waited. */
const char *lw_gpu_lost_call(const struct lw_run *run, const struct lw_gpu_lost *lost);

/** lw_gpu_lost_wait_ns() - how long; LW_NS_UNKNOWN. */
int64_t lw_gpu_lost_wait_ns(const struct lw_run *run, const struct lw_gpu_lost *lost);

#endif /* LAPWING_ANALYZER_GPU_WORDS_H */
