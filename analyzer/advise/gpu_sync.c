/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu_sync.c - what keeps computing and communication of a GPU from running at the same time: a host that waits for the
 * device before it launches what computes next, and operations on the stream that computes.
 */
#include <stdio.h>

#include "analyzer/advise/gpu_span.h"
#include "analyzer/gpu_words.h"
#include "base/units.h"

/* ---- waits -------------------------------------------------------------------------------------- */

static const struct lw_gpu_lost *longest_of(const struct lw_run *run, const struct lw_rank *rank)
{
	const struct lw_gpu_lost *lost;

	lw_vec_foreach (lost, &run->gpu.lost)
		if (&run->ranks.at[lost->rank] == rank)
			return lost;
	return NULL;
}

static int find_lost(const struct lw_adviser *self, const struct lw_run *run,
	struct lw_advice_list *list, const struct lw_gpu_span *span)
{
	double lost_ns = (double)span->times->sync_lost_ns / span->n;
	double exposed_ns = (double)span->times->exposed_ns / span->n;
	double most_frac = lw_gpu_span_frac(span, (double)span->times->sync_lost_ns);
	const struct lw_gpu_lost *longest = longest_of(run, span->rank);
	char unit[3][LW_UNIT_TEXT_BYTES], text[LW_GPU_TEXT_BYTES], thread[32] = "";

	if (longest && longest->launch != LW_NONE)
		snprintf(thread, sizeof(thread), ", thread %u",
			span->rank->gpu.launches.at[longest->launch].tid);
	if (lost_ns < LW_GPU_WORTH_FRAC * span->length_ns || !longest)
		return lw_advise_note(list, self->id,
			"no rank loses %.0f %% of a step of overlap, or more, to waiting for the device",
			100 * LW_GPU_WORTH_FRAC);
	return lw_advise_bound(run, list, self->id,
		(struct lw_bound){most_frac, span->rank->rank, longest->start_ns,
			longest->end_ns - longest->start_ns},
		"overlap is lost to synchronisation: rank %d waits for its device (%s%s) and only then launches what computes next; %s of the %s of exposed communication %s had nothing beside it for that. Launch first and wait later, or do not wait (torch: .item(), .cpu(), print() of a tensor, torch.cuda.synchronize()): at most %.1f %% less (%s %s), its error is not known. The longest: %.400s",
		span->rank->rank, lw_gpu_lost_call(run, longest), thread,
		lw_ns_format(lost_ns, unit[0]), lw_ns_format(exposed_ns, unit[1]), span->each,
		100 * most_frac, lw_ns_format(lost_ns, unit[2]), span->each,
		lw_gpu_lost_text(run, longest, text));
}

static int advise_sync(
	const struct lw_adviser *self, struct lw_run *run, struct lw_advice_list *list)
{
	struct lw_gpu_span span, most = {0};
	const struct lw_rank *rank;
	bool has_syncs = false;

	lw_vec_foreach (rank, &run->ranks) {
		if (!lw_gpu_span(run, rank, &span) || !rank->gpu.has_syncs ||
			span.times->sync_lost_ns == LW_NS_UNKNOWN)
			continue;
		has_syncs = true;
		if (!most.rank || (double)span.times->sync_lost_ns / span.n >
					  (double)most.times->sync_lost_ns / most.n)
			most = span;
	}
	if (has_syncs)
		return find_lost(self, run, list, &most);
	if (!run->gpu.has_kernels)
		return LW_OK;
	return lw_advise_note(list, self->id,
		"whether overlap is lost to synchronisation cannot be told: waits for the device and calls that launch were not recorded");
}

/* ---- one stream --------------------------------------------------------------------------------- */

#define SHARED_FRAC  0.5  /* of the time in kernels of NCCL: on streams that compute, too */
#define COMPUTE_FRAC 0.05 /* of the time in kernels that compute: such a stream has as much */

static const struct lw_gpu_stream *shared_stream(const struct lw_rank *rank, double *ret_frac)
{
	const struct lw_gpu_stream *stream, *most = NULL;
	double comm_ns = 0, compute_ns = 0, shared_ns = 0;

	lw_vec_foreach (stream, &rank->gpu.streams) {
		comm_ns += (double)stream->class_ns[LW_GPU_COMMUNICATION];
		compute_ns += (double)stream->class_ns[LW_GPU_COMPUTE];
	}
	lw_vec_foreach (stream, &rank->gpu.streams) {
		if ((double)stream->class_ns[LW_GPU_COMPUTE] < COMPUTE_FRAC * compute_ns ||
			!stream->class_ns[LW_GPU_COMMUNICATION])
			continue;
		shared_ns += (double)stream->class_ns[LW_GPU_COMMUNICATION];
		if (!most || stream->class_ns[LW_GPU_COMMUNICATION] >
				     most->class_ns[LW_GPU_COMMUNICATION])
			most = stream;
	}
	*ret_frac = comm_ns > 0 ? shared_ns / comm_ns : 0;
	return most;
}

static int advise_stream(
	const struct lw_adviser *self, struct lw_run *run, struct lw_advice_list *list)
{
	const struct lw_gpu_stream *stream;
	const struct lw_rank *rank;
	struct lw_gpu_span span;
	double frac, exposed_ns, most_frac;
	char unit[2][LW_UNIT_TEXT_BYTES];

	lw_vec_foreach (rank, &run->ranks) {
		if (!lw_gpu_span(run, rank, &span))
			continue;
		stream = shared_stream(rank, &frac);
		exposed_ns = (double)span.times->exposed_ns / span.n;
		most_frac = lw_gpu_span_frac(&span, (double)span.times->exposed_ns);
		if (!stream || frac < SHARED_FRAC ||
			exposed_ns < LW_GPU_WORTH_FRAC * span.length_ns)
			continue;
		return lw_advise_bound(run, list, self->id,
			(struct lw_bound){most_frac, rank->rank, LW_NS_UNKNOWN, LW_NS_UNKNOWN},
			"communication runs on a stream that computes: on rank %d, %.0f %% of the time in kernels of NCCL is on stream %u, beside %s of kernels that compute, and there one waits for the other. Give it a stream of its own (torch: async_op=True, or DistributedDataParallel, whose collectives have one): at most %.1f %% less (the %s %s that are exposed), its error is not known",
			rank->rank, 100 * frac, stream->stream,
			lw_ns_format((double)stream->class_ns[LW_GPU_COMPUTE], unit[0]),
			100 * most_frac, lw_ns_format(exposed_ns, unit[1]), span.each);
	}
	return LW_OK;
}

const struct lw_adviser lw_adviser_gpu_sync = {
	.id = "gpu.sync",
	.title = "Overlap lost to synchronisation",
	.run = advise_sync,
	.needs_no_replay = true,
	.assumes =
		"The kernel that began late could have been launched before the wait, and would then have run beside the communication.",
	.wrong_if =
		"What is launched after the wait needs the value that was waited for, or the kernels of NCCL leave it no multiprocessor.",
	.check =
		"Take the wait out, record that run too, and compare the two with `lapwing report`.",
};

const struct lw_adviser lw_adviser_gpu_stream = {
	.id = "gpu.stream",
	.title = "Communication on the stream that computes",
	.run = advise_stream,
	.needs_no_replay = true,
	.assumes =
		"Work of one stream runs in its order; that of two streams may run side by side.",
	.wrong_if =
		"What computes next needs what is communicated: then it would wait on another stream as well.",
	.check =
		"Record with the collectives on another stream: `lapwing tui`, timeline, u shows streams.",
};
