/* SPDX-License-Identifier: Apache-2.0 */
/*
 * timeline_lanes.h - what the timeline draws: for every rank or tensor and kind of work, when it went on.
 *
 * Reads:  a run after network.   Writes: nothing.
 * Of a rank whose GPU was recorded, computing is when its kernels computed; else when its training thread did not wait.
 */
#ifndef LAPWING_TUI_TIMELINE_LANES_H
#define LAPWING_TUI_TIMELINE_LANES_H

#include "analyzer/reconstruct/overlap.h"
#include "analyzer/reconstruct/phase.h"
#include "tui/cells.h"
#include "tui/gpu_lanes.h"
#include "tui/nic_lanes.h"
#include "tui/range_lanes.h"
#include "tui/track.h"

enum { LW_TRACKS = LW_LANE_MISC + 1 }; /* compute and the four phases */

struct lw_tracks {
	struct lw_track of[LW_TRACKS]; /* by enum lw_lane */
};

struct lw_rank_lanes {
	struct lw_tracks tracks;
	int64_t *reach_ns;         /* by batch: the latest end of it and those before */
	int64_t origin_ns;         /* on this rank's clock: what the ruler calls 0 */
	enum lw_blocked is_waited; /* what compute is made of; the least known of its steps */
};

struct lw_occurrence { /* of a tensor: one batch of the rank that carried it */
	uint32_t batch, member;
};

struct lw_tensor_lanes { /* of one rank */
	size_t rank;
	uint32_t *order; /* tensors that it has, in the order in which they are reduced */
	size_t n_order;
	size_t *first; /* by tensor, n + 1: into occurrences */
	struct lw_occurrence *occurrences;
	struct lw_tracks **tracks; /* by tensor; NULL: not drawn yet */
};

struct lw_lanes {
	size_t n_ranks, n_tensors; /* of the run, which may be gone when this is freed */
	struct lw_run *run;
	struct lw_phases phases;
	struct lw_rank_lanes *ranks;
	struct lw_tensor_lanes tensors;
	struct lw_nic_lanes nic;
	struct lw_gpu_lanes gpu;
	struct lw_range_lanes ranges;
	int64_t length_ns; /* from the ruler's 0 to the last end on any rank */
	bool is_there[LW_TRACKS];
	bool is_one_clock;
};

/** lw_lanes_init() - all ranks of @run, which has to live on. lw_lanes_done() frees, also after an error. */
int lw_lanes_init(struct lw_lanes *lanes, struct lw_run *run);
void lw_lanes_done(struct lw_lanes *lanes);

/** lw_lanes_turn() - the tensors of @rank, where they are not there yet. */
int lw_lanes_turn(struct lw_lanes *lanes, size_t rank);

/** lw_lanes_tensor() - the tracks of one tensor of the rank turned to; made when first asked for. NULL: no memory. */
const struct lw_tracks *lw_lanes_tensor(struct lw_lanes *lanes, uint32_t tensor);

#endif /* LAPWING_TUI_TIMELINE_LANES_H */
