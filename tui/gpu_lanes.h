/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu_lanes.h - what GPUs did, over time: for every rank, and for each of its streams, when kernels and copies ran.
 *
 * Reads:  a run after gpu.   Writes: nothing.
 * As in timeline_lanes.h, work that runs side by side counts once in a track. Times are on the rank's clock.
 */
#ifndef LAPWING_TUI_GPU_LANES_H
#define LAPWING_TUI_GPU_LANES_H

#include "analyzer/run.h"
#include "tui/track.h"

struct lw_gpu_tracks {
	struct lw_track of[LW_GPU_N_CLASSES]; /* by enum lw_gpu_class */
};

struct lw_gpu_rank_lanes {
	struct lw_gpu_tracks all;
	struct lw_gpu_tracks *streams; /* n = the rank's streams */
	size_t n_streams;
};

struct lw_gpu_lanes {
	size_t n_ranks, most_streams;
	struct lw_gpu_rank_lanes *ranks;
	bool is_there; /* of some rank something is known */
	bool has[LW_GPU_N_CLASSES];
};

/** lw_gpu_lanes_init() - all ranks of @run. lw_gpu_lanes_done() frees, also after an error. Return: LW_OK, LW_ERR_NOMEM. */
int lw_gpu_lanes_init(struct lw_gpu_lanes *lanes, const struct lw_run *run);
void lw_gpu_lanes_done(struct lw_gpu_lanes *lanes);

#endif /* LAPWING_TUI_GPU_LANES_H */
