/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cupti.h - for the other hooks: what the CUDA calls of this thread are made for.
 *
 * CUDA calls between lw_cupti_enter() and lw_cupti_leave() give LAUNCH records that say so (made_for,
 * for_serial), and kernels and copies join them by correlation. Both are a load and a branch where CUPTI
 * does not record (no GPU, another subscriber, released). NCCL_OP and BATCH nest in each other, and each in
 * itself; a launch inside both is the NCCL_OP's.
 */
#ifndef LAPWING_TRACER_CUPTI_H
#define LAPWING_TRACER_CUPTI_H

#include "tracer/tracer.h"

/* CUPTI knows of external work in this process. In a forked child it is not asked; see lw_cupti_push(). */
extern _Atomic bool lw_cupti_is_attached;

void lw_cupti_push(enum lw_launch_for made_for, uint64_t serial);
void lw_cupti_pop(enum lw_launch_for made_for);

/** lw_cupti_enter() - what follows on this thread is made for @serial; errno is kept. */
static inline void lw_cupti_enter(enum lw_launch_for made_for, uint64_t serial)
{
	if (LW_UNLIKELY(atomic_load_explicit(&lw_cupti_is_attached, memory_order_relaxed)))
		lw_cupti_push(made_for, serial);
}

/** lw_cupti_leave() - ends what the innermost lw_cupti_enter() of @made_for began; without one, nothing. */
static inline void lw_cupti_leave(enum lw_launch_for made_for)
{
	if (LW_UNLIKELY(atomic_load_explicit(&lw_cupti_is_attached, memory_order_relaxed)))
		lw_cupti_pop(made_for);
}

#endif /* LAPWING_TRACER_CUPTI_H */
