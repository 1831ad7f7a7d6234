/* SPDX-License-Identifier: Apache-2.0 */
/* hook_gloo.h - between hook_gloo.c, gloo_comm.c and hook_ddp.c: contexts, and what a thread moved. */
#ifndef LAPWING_TRACER_HOOK_GLOO_H
#define LAPWING_TRACER_HOOK_GLOO_H

#include "tracer/tracer.h"

/* A gloo::Context, as its constructor was told. */
struct lw_gloo_comm {
	_Atomic(const void *) context; /* address, never followed; NULL = free entry */
	uint64_t key;                  /* of the COMM record, 0 = not connected yet */
	uint64_t prefix; /* hash of what its keys in the store begin with, 0 = unknown */
	int32_t rank, size;
};

/** lw_gloo_comm() - the comm of the context at @context. Return: NULL when it was not seen made. */
const struct lw_gloo_comm *lw_gloo_comm(const void *context);

/* Collectives that ended on this thread since the caller set it to zero. */
struct lw_gloo_sum {
	uint64_t bytes;    /* payload contributed, or given where this rank contributes none */
	uint16_t op;       /* enum lw_coll of the last one */
	uint16_t flags;    /* enum lw_coll_flag, of all */
	int32_t comm_size; /* members, -1 = unknown */
	uint32_t n;
};
extern _Thread_local struct lw_gloo_sum lw_gloo_sum;

/** lw_gloo_close_thrown() - a collective open on this thread at or below @frame threw: record it so. */
void lw_gloo_close_thrown(uintptr_t frame);

#endif /* LAPWING_TRACER_HOOK_GLOO_H */
