/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trace.h - one step of a what-if, operation by operation: what a prediction looks like over time.
 *
 * Reads:  a replay.   Writes: nothing.   Not for: how long steps are (replay.h), which need no trace.
 */
#ifndef LAPWING_ANALYZER_SIMULATE_TRACE_H
#define LAPWING_ANALYZER_SIMULATE_TRACE_H

#include "analyzer/simulate/replay.h"

/* Times are ns since the first rank began the step; as simulated, so without the replay's correction. */
struct lw_trace_rank {
	int64_t start_ns, blocked_ns, resumed_ns, end_ns; /* blocked until resumed: exposed */
};

struct lw_trace_op { /* one collective, by start; the same on all ranks */
	uint64_t bytes;
	uint32_t n_tensors; /* 0 = not known */
	/* wire: from the last rank's start to the end. DDP: its copies are not seen, so both are the same */
	int64_t start_ns, wire_start_ns, wire_end_ns, end_ns;
};

struct lw_trace {
	uint32_t step;     /* of the replay's, 0 .. lw_replay_n() - 1 */
	double length_ns;  /* of it, mean over ranks */
	uint32_t n_passes; /* backward passes in it; >= 1 */
	uint32_t n_ranks;
	struct lw_trace_rank *ranks;
	lw_vec(struct lw_trace_op) ops;
};

/**
 * lw_replay_trace() - one step under @whatif.
 * @step: of the replay's, as in struct lw_trace; lw_trace_ordinary() finds one
 * Return: as lw_replay_predict(); LW_ERR_UNSUPPORTED also for a step that is not there. Free with
 * lw_trace_done(), which is allowed in any case.
 */
int lw_replay_trace(struct lw_replay *replay, const struct lw_whatif *whatif, uint32_t step,
	struct lw_trace *ret_trace);

/**
 * lw_trace_ordinary() - the step that is nearest to the middle under both settings, so that comparing the two traces
 * of it does not show another change than the prediction says. @base_ns, @other_ns: of @n steps, as
 * lw_replay_predict() gives them. Return: of the replay's; 0 also without memory.
 */
uint32_t lw_trace_ordinary(const double *base_ns, const double *other_ns, uint32_t n);
void lw_trace_done(struct lw_trace *trace);

#endif /* LAPWING_ANALYZER_SIMULATE_TRACE_H */
