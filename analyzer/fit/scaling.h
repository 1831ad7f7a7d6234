/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scaling.h - CSF, OSF and OSF_f of one mean step at the fitted cost of its operations.
 *
 * Pure: layers and a cost in, factors out. The fit asks for the recorded setting, simulate/closed.h for
 * others: one function, so that report and predict cannot disagree.
 */
#ifndef LAPWING_ANALYZER_FIT_SCALING_H
#define LAPWING_ANALYZER_FIT_SCALING_H

#include <stdbool.h>
#include <stddef.h>

#include "analyzer/fit/cost.h"
#include "analyzer/model/fusion.h"
#include "analyzer/model/osf.h"

struct lw_scaling_job {
	const struct lw_layer *layers; /* in the order in which they become ready */
	size_t n_layers;
	const struct lw_cost *cost; /* of one allreduce, as recorded */
	/* what is asked of it; 1 = as recorded. Of each cost, at most latency_ns do not depend on the size. */
	double latency_ns, latency_frac, volume_frac;
	double compute_ns;     /* T_comp */
	double bytes_per_step; /* of the one allreduce of CSF */
	bool is_csf_alone;     /* the layers are not those of one step: nothing else is said */
	double fusion_bytes, cycle_ns; /* NAN = not known: no OSF_f */
};

enum lw_scaling_model {
	LW_SCALING_CSF,         /* OSF eq. 2 */
	LW_SCALING_OSF,         /* eq. 3 */
	LW_SCALING_OSF_F,       /* eq. 11, the link a queue (LW_OSF_FIFO) */
	LW_SCALING_OSF_F_PAPER, /* as printed */
	LW_SCALING_N
};

struct lw_scaling {
	double factor;        /* T_comp over the step; NAN = cannot be known */
	bool is_extrapolated; /* it sends sizes that the cost was not measured at */
};

/**
 * lw_scaling() - all four. With one size known the cost of any other cannot be said: then NAN.
 * @slots: scratch, one a layer
 */
void lw_scaling(const struct lw_scaling_job *job, struct lw_fusion_slot *slots,
	struct lw_scaling ret_scaling[LW_SCALING_N]);

/**
 * lw_scaling_comm_ns() - all operations of a step, added up: those of OSF_f's fusion plan (LW_OSF_FIFO), or of
 * each layer where Q or the cycle are not known. NAN as lw_scaling() says.
 */
double lw_scaling_comm_ns(
	const struct lw_scaling_job *job, struct lw_fusion_slot *slots, bool *ret_is_extrapolated);

#endif /* LAPWING_ANALYZER_FIT_SCALING_H */
