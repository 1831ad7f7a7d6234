/* SPDX-License-Identifier: Apache-2.0 */
#include "tui/gpu_lanes.h"

static int add(struct lw_gpu_lanes *lanes, struct lw_gpu_rank_lanes *rank, int gpu_class,
	uint32_t stream, int64_t start_ns, int64_t end_ns)
{
	int status;

	if (gpu_class < 0 || gpu_class >= LW_GPU_N_CLASSES)
		return LW_OK;
	lanes->has[gpu_class] = true;
	status = lw_track_add(&rank->all.of[gpu_class], start_ns, end_ns);
	if (status == LW_OK && stream < rank->n_streams)
		status = lw_track_add(&rank->streams[stream].of[gpu_class], start_ns, end_ns);
	return status;
}

/* Tracks grow in the order of time: of kernels and copies the one that began earlier. */
static int add_rank(struct lw_gpu_lanes *lanes, size_t r, const struct lw_gpu_rank *gpu)
{
	struct lw_gpu_rank_lanes *rank = &lanes->ranks[r];
	size_t k = 0, c = 0;
	int status = LW_OK;

	rank->n_streams = gpu->streams.n;
	rank->streams = calloc(gpu->streams.n + 1, sizeof(*rank->streams));
	if (!rank->streams)
		return lw_fail(LW_ERR_NOMEM, "no memory for %zu streams", gpu->streams.n);
	if (gpu->streams.n > lanes->most_streams)
		lanes->most_streams = gpu->streams.n;
	while ((k < gpu->kernels.n || c < gpu->copies.n) && status == LW_OK) {
		const struct lw_kernel *kernel = k < gpu->kernels.n ? &gpu->kernels.at[k] : NULL;
		const struct lw_copy *copy = c < gpu->copies.n ? &gpu->copies.at[c] : NULL;
		bool is_kernel = kernel && (!copy || kernel->start_ns <= copy->start_ns);

		if (is_kernel)
			status = add(lanes, rank, kernel->gpu_class, kernel->stream,
				kernel->start_ns, kernel->end_ns);
		else if (copy)
			status = add(lanes, rank, LW_GPU_COPY, copy->stream, copy->start_ns,
				copy->end_ns);
		k += is_kernel;
		c += !is_kernel;
	}
	lanes->is_there |= gpu->kernels.n || gpu->copies.n;
	return status;
}

int lw_gpu_lanes_init(struct lw_gpu_lanes *lanes, const struct lw_run *run)
{
	int status = LW_OK;

	*lanes = (struct lw_gpu_lanes){.n_ranks = run->ranks.n};
	lanes->ranks = calloc(run->ranks.n + 1, sizeof(*lanes->ranks));
	if (!lanes->ranks)
		return lw_fail(LW_ERR_NOMEM, "no memory for the GPUs of %zu ranks", run->ranks.n);
	for (size_t r = 0; r < run->ranks.n && status == LW_OK; r++)
		status = add_rank(lanes, r, &run->ranks.at[r].gpu);
	return status;
}

static void free_tracks(struct lw_gpu_tracks *tracks)
{
	for (size_t i = 0; i < LW_GPU_N_CLASSES; i++)
		lw_vec_free(&tracks->of[i].stretches);
}

void lw_gpu_lanes_done(struct lw_gpu_lanes *lanes)
{
	for (size_t r = 0; lanes->ranks && r < lanes->n_ranks; r++) {
		struct lw_gpu_rank_lanes *rank = &lanes->ranks[r];

		free_tracks(&rank->all);
		for (size_t i = 0; rank->streams && i < rank->n_streams; i++)
			free_tracks(&rank->streams[i]);
		free(rank->streams);
	}
	free(lanes->ranks);
	*lanes = (struct lw_gpu_lanes){0};
}
