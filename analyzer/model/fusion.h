/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fusion.h - OSF_f: what the fusion buffer sends when, and the update time that follows.
 *
 * Pure functions; layers, units and the time origin are those of osf.h. The paper's model has two
 * artefacts (docs/model.md), so each function takes a variant:
 *	PAPER	eq. 12 to 16 as printed: a full buffer still waits for the next layer, and waits are
 *		added even while the link is busy
 *	FIFO	a full buffer is sent at once, and the link is a queue. Without a buffer it is eq. 8.
 * Both use one comparator: the printed >= in eq. 12 loses bytes when t_backward equals the timeout.
 */
#ifndef LAPWING_ANALYZER_MODEL_FUSION_H
#define LAPWING_ANALYZER_MODEL_FUSION_H

#include <stddef.h>

#include "analyzer/model/osf.h"

enum lw_osf_variant { LW_OSF_PAPER, LW_OSF_FIFO };

struct lw_fusion_slot {        /* of the layer with the same index */
	double buffered_bytes; /* B(i), eq. 12 */
	double sent_bytes;     /* F(i), eq. 13; 0 = stays in the buffer */
	double wait_ns; /* t_wait(i), eq. 14: from the end of its backward pass to its sending */
};

/**
 * lw_fusion_plan() - eq. 12 to 14.
 * @fusion_bytes: Q >= 0, INFINITY allowed; a larger layer goes alone
 * @timeout_ns: longest wait for the next layer, >= 0, INFINITY allowed
 * @ret_slots: @n of them. The sum of sent_bytes is the sum of the layers' bytes.
 */
void lw_fusion_plan(const struct lw_layer *layers, size_t n, double fusion_bytes, double timeout_ns,
	enum lw_osf_variant variant, struct lw_fusion_slot *ret_slots);

/** lw_fusion_update_ns() - T_update of a plan: eq. 15 and 16, or the queue, as @variant says. */
double lw_fusion_update_ns(const struct lw_layer *layers, const struct lw_fusion_slot *slots,
	size_t n, struct lw_link link, enum lw_osf_variant variant);

/** lw_fusion_n_ops() - all-reduces that a plan makes. */
size_t lw_fusion_n_ops(const struct lw_fusion_slot *slots, size_t n);

#endif /* LAPWING_ANALYZER_MODEL_FUSION_H */
