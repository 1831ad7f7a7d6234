/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_words.c - sentences on GPUs and NCCL that report and screens share. */
#include "analyzer/gpu_words.h"

#include <stdio.h>
#include <string.h>

#include "analyzer/kernel_text.h"
#include "base/units.h"

bool lw_gpu_is_there(const struct lw_run *run)
{
	const struct lw_rank *rank;

	if (run->gpu.has_kernels)
		return true;
	lw_vec_foreach (rank, &run->ranks)
		if (rank->gpu.nccl_ops.n || rank->gpu.copies.n)
			return true;
	return false;
}

bool lw_gpu_is_time(const struct lw_run *run)
{
	const struct lw_rank *rank;
	const struct lw_step *step;

	lw_vec_foreach (rank, &run->ranks)
		lw_vec_foreach (step, &rank->steps)
			if (step->time_source == LW_TIME_FROM_GPU)
				return true;
	return false;
}

const char *lw_gpu_compute_words(const struct lw_run *run)
{
	const struct lw_rank *rank;
	const struct lw_step *step;
	bool has_host = false;

	lw_vec_foreach (rank, &run->ranks)
		lw_vec_foreach (step, &rank->steps)
			has_host |= step->time_source == LW_TIME_FROM_HOST &&
				    step->compute_ns != LW_NS_UNKNOWN && !step->excluded;
	if (!lw_gpu_is_time(run))
		return run->is_plain
			       ? "compute: from resuming to the next wait of the training thread (no GPU records);"
				 " exposed: it waits for operations; hidden: communication while it computes."
			       : "compute: from resuming to the next wait of the training thread (no GPU records);"
				 " exposed: it waits for gradients; hidden: communication while it computes.";
	if (has_host)
		return run->is_plain
			       ? "compute: a kernel computes on the rank's GPU, and of ranks without GPU records,"
				 " from resuming to the next wait of the training thread; exposed: an operation is"
				 " on its way without it; hidden: at the same time."
			       : "compute: a kernel computes on the rank's GPU, and of ranks without GPU records,"
				 " from resuming to the next wait of the training thread; exposed: a gradient is on"
				 " its way without it; hidden: at the same time.";
	return run->is_plain
		       ? "compute: a kernel computes on the rank's GPU; exposed: none does, and an operation"
			 " is ready or runs; hidden: both; idle: neither."
		       : "compute: a kernel computes on the rank's GPU; exposed: none does, and a gradient is on"
			 " its way, from queued to reduced; hidden: both; idle: neither.";
}

const struct lw_phase_words *lw_gpu_phase_words(const struct lw_run *run)
{
	static const struct lw_phase_words of_framework = {
		"The phases of its gradients (fused work once; phases overlap each other)",
		"NEGOTIATE: some rank has the gradient, another does not yet, or they are agreeing."
		" WAIT: all have it, but the cycle has not come, or earlier operations run."
		" ALLREDUCE: in the collective; entry: before the last rank had entered it."
		" MISC: copies into and out of the fusion buffer, set-up.",
		"for slower ranks and to agree", "for the cycle or behind other operations",
		"in copies and set-up"};
	static const struct lw_phase_words of_gpu = {
		"The phases of its operations (phases overlap each other)",
		"NEGOTIATE: nobody agrees on operations without a framework."
		" WAIT: ready, but the one before it on its stream still runs."
		" ALLREDUCE: in the operation, of whichever kind; entry: before the last rank had entered it."
		" MISC: ready, but its kernel does not run yet: launching, or waiting for the device.",
		"for slower ranks", "behind other operations",
		"launching, or waiting for the device"};
	static const struct lw_phase_words of_host = {
		"The phases of its operations (phases overlap each other)",
		"NEGOTIATE: nobody agrees on operations without a framework."
		" WAIT: ready, but earlier operations run."
		" ALLREDUCE: in the operation, of whichever kind; entry: before the last rank had entered it."
		" MISC: whatever else an operation takes.",
		"for slower ranks", "behind other operations", "before or after an operation"};

	if (!run->is_plain)
		return &of_framework;
	return lw_gpu_is_time(run) ? &of_gpu : &of_host;
}

bool lw_gpu_has_several(const struct lw_run *run)
{
	const struct lw_rank *rank;

	lw_vec_foreach (rank, &run->ranks)
		for (size_t i = 1; i < rank->gpu.streams.n; i++)
			if (rank->gpu.streams.at[i].device != rank->gpu.streams.at[0].device)
				return true;
	return false;
}

/* By the names of hooks, and of importers. */
static const struct {
	const char *name, *title;
} titles[] = {
	{"cupti", "CUPTI"},
	{"kineto", "Kineto"},
	{"nccl", "NCCL preload"},
	{"nccl_plugin", "NCCL plugin"},
	{"nvml", "NVML"},
	{"nvtx", "NVTX"},
};

static const char *title_of(const struct lw_told *told)
{
	for (size_t i = 0; i < sizeof(titles) / sizeof(titles[0]); i++)
		if (!strcmp(told->name, titles[i].name))
			return titles[i].title;
	return told->name;
}

const char *lw_gpu_source_text(const struct lw_run *run, size_t i, char text[LW_GPU_TEXT_BYTES])
{
	static const char *const fared[] = {"?", "told", "absent", "NOT in place"};
	const struct lw_told *told = i < run->told.n ? &run->told.at[i] : NULL;
	char *end = text;

	if (!told)
		return NULL;
	end += snprintf(text, LW_GPU_TEXT_BYTES, "%s: %s in %u process%s", title_of(told),
		fared[told->status > 0 && told->status <= LW_HOOK_REFUSED ? told->status : 0],
		told->n_processes, told->n_processes == 1 ? "" : "es");
	if (*told->detail)
		snprintf(end, LW_GPU_TEXT_BYTES - (size_t)(end - text), ": %s", told->detail);
	return text;
}

void lw_gpu_nccl_sources(const struct lw_run *run, uint64_t ret_n[LW_GPU_NCCL_SOURCES])
{
	const struct lw_nccl_call *op;
	const struct lw_rank *rank;

	memset(ret_n, 0, LW_GPU_NCCL_SOURCES * sizeof(*ret_n));
	lw_vec_foreach (rank, &run->ranks)
		lw_vec_foreach (op, &rank->gpu.nccl_ops)
			if (op->source < LW_GPU_NCCL_SOURCES)
				ret_n[op->source]++;
}

const char *lw_gpu_nccl_source_name(int source)
{
	static const char *const names[LW_GPU_NCCL_SOURCES] = {
		"import", [LW_NCCL_FROM_PRELOAD] = "preload", [LW_NCCL_FROM_PLUGIN] = "plugin",
		[LW_NCCL_FROM_NVTX] = "nvtx"};

	return source >= 0 && source < LW_GPU_NCCL_SOURCES ? names[source] : "?";
}

const char *lw_gpu_nccl_told(const struct lw_run *run, char text[LW_GPU_TEXT_BYTES])
{
	uint64_t n[LW_GPU_NCCL_SOURCES];
	int at = 0;

	lw_gpu_nccl_sources(run, n);
	text[0] = 0;
	for (int i = 0; i < LW_GPU_NCCL_SOURCES; i++)
		if (n[i])
			at += snprintf(text + at, LW_GPU_TEXT_BYTES - (size_t)at, "%s%llu by %s",
				at ? ", " : "", (unsigned long long)n[i],
				i || run->is_profile ? lw_gpu_nccl_source_name(i)
						     : "their kernels alone");
	return text;
}

const char *lw_gpu_lost_call(const struct lw_run *run, const struct lw_gpu_lost *lost)
{
	const struct lw_gpu_rank *gpu = &run->ranks.at[lost->rank].gpu;
	uint32_t name = lost->launch == LW_NONE ? UINT32_MAX : gpu->launches.at[lost->launch].name;

	return name == UINT32_MAX ? "a call of no known name" : run->gpu.names.at[name].name;
}

int64_t lw_gpu_lost_wait_ns(const struct lw_run *run, const struct lw_gpu_lost *lost)
{
	const struct lw_gpu_rank *gpu = &run->ranks.at[lost->rank].gpu;

	return lost->launch == LW_NONE ? LW_NS_UNKNOWN
				       : gpu->launches.at[lost->launch].end_ns -
						 gpu->launches.at[lost->launch].start_ns;
}

enum { SHORT_BYTES = 61 };

/* As people read it, and no longer than a word of a sentence. */
static const char *short_name(const struct lw_run *run, const struct lw_rank *rank, int32_t kernel,
	char text[SHORT_BYTES])
{
	bool is_there = kernel >= 0 && (size_t)kernel < rank->gpu.kernels.n;
	const char *name =
		is_there ? run->gpu.names.at[rank->gpu.kernels.at[kernel].name].name : "a kernel";
	char whole[LW_KERNEL_TEXT_BYTES];
	bool is_long = strlen(lw_kernel_text(name, whole)) >= SHORT_BYTES;

	snprintf(text, SHORT_BYTES, "%.*s%s", is_long ? SHORT_BYTES - 3 : SHORT_BYTES - 1, whole,
		is_long ? ".." : "");
	return text;
}

const char *lw_gpu_lost_text(
	const struct lw_run *run, const struct lw_gpu_lost *lost, char text[LW_GPU_TEXT_BYTES])
{
	const struct lw_rank *rank = &run->ranks.at[lost->rank];
	int64_t wait_ns = lw_gpu_lost_wait_ns(run, lost);
	char name[2][SHORT_BYTES], unit[4][LW_UNIT_TEXT_BYTES], step[96] = "";
	char number[LW_STEP_TEXT_BYTES];
	int64_t into_ns =
		lost->step == LW_NONE ? 0 : lost->start_ns - rank->steps.at[lost->step].start_ns;

	/* a place is of the step in which it ends */
	if (lost->step != LW_NONE)
		snprintf(step, sizeof(step), ", %s %s step %s",
			lw_ns_format((double)(into_ns < 0 ? -into_ns : into_ns), unit[3]),
			into_ns < 0 ? "before" : "into",
			lw_rank_step_text(rank, lost->step, number));
	snprintf(text, LW_GPU_TEXT_BYTES,
		"rank %d, at %.3f ms%s: %.60s waited %s for the device, and %s began %s late; meanwhile %s ran %s exposed",
		rank->rank, (double)lw_run_since_ns(run, rank, lost->start_ns) / 1e6, step,
		lw_gpu_lost_call(run, lost),
		wait_ns == LW_NS_UNKNOWN ? "?" : lw_ns_format((double)wait_ns, unit[0]),
		short_name(run, rank, lost->kernel, name[0]),
		lw_ns_format((double)(lost->end_ns - lost->start_ns), unit[1]),
		short_name(run, rank, lost->comm, name[1]),
		lw_ns_format((double)lost->exposed_ns, unit[2]));
	return text;
}
