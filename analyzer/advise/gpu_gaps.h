/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu_gaps.h - when a GPU had nothing to do because the host launched late: how often, why, and where the host was.
 *
 * Where no kernel and no copy runs and what ends that was launched after it had begun, the GPU waited for the
 * host. Short ones are launching; in long ones the host was away. Those are told apart in which the host itself waited, for
 * the device or for gradients, or that follow such a wait and are short: it could not launch before. And those that a
 * kernel of NCCL ends: when that is launched is up to the framework, and to other ranks.
 *
 * Reads:  a run after gpu.   Writes: nothing.
 */
#ifndef LAPWING_ANALYZER_ADVISE_GPU_GAPS_H
#define LAPWING_ANALYZER_ADVISE_GPU_GAPS_H

#include "analyzer/advise/gpu_span.h"
#include "analyzer/advise/host_places.h"

enum {
	LW_GAP_SHORT_NS =
		1000000, /* an eager framework takes 5 to 500 us from launch to launch; who is away is so for longer */
	LW_GAP_N_LONGEST = 8,
};

/* AFTER_SYNC: the host waited for the device, and launched only then. AFTER_WAIT: for gradients, or it is not known for what. */
enum lw_gap_cause {
	LW_GAP_LAUNCHING,
	LW_GAP_AWAY,
	LW_GAP_AFTER_SYNC,
	LW_GAP_AFTER_WAIT,
	LW_GAP_N_CAUSES
};

struct lw_gap {
	int64_t start_ns, end_ns;
	const char *name; /* of what ended it; NULL: there is no gap */
	/* of the host, AFTER_SYNC: while it waited. Where that was asked for; of places->ranges */
	struct lw_host_where where;
	int32_t sync; /* AFTER_SYNC: index into rank->gpu.syncs; else LW_NONE */
};

struct lw_gpu_idle { /* of one rank, in counted steps */
	double n[LW_GAP_N_CAUSES], ns[LW_GAP_N_CAUSES];
	double held_ns[LW_GAP_N_CAUSES]; /* of ns: before operations that this rank came last to */
	double free_ns[LW_GAP_N_CAUSES]; /* of ns: where it is not known for which operation */
	double n_kernels, kernel_ns;     /* those that compute, for their mean length */
	struct lw_gap longest[LW_GAP_N_CAUSES][LW_GAP_N_LONGEST]; /* longest first */
	uint64_t n_unknown;                                       /* the launch was not recorded */
};

struct lw_gaps_asked {
	enum lw_gap_cause cause;
	/* of each group: index of the rank that came last, LW_NONE = not known */
	const int32_t *last;
	/* of each group, a step: what whoever came last idled before; NULL: nobody asks */
	double *held_ns;
	/* loaded, of the rank; filled with where the host was in gaps of that cause (AFTER_SYNC: while it waited);
	 * NULL: nobody asks */
	struct lw_host_places *places;
};

/**
 * lw_gpu_gaps() - those of the rank of @span.
 * Return: LW_OK or LW_ERR_NOMEM.
 */
int lw_gpu_gaps(const struct lw_run *run, const struct lw_gpu_span *span,
	const struct lw_gaps_asked *asked, struct lw_gpu_idle *ret_idle);

#endif /* LAPWING_ANALYZER_ADVISE_GPU_GAPS_H */
