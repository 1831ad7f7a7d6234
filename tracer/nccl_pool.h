/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nccl_pool.h - between nccl_op.c and nccl_call.c only: the pool of NCCL's operations that are under way.
 *
 * An operation's place is its serial modulo the size of the pool, and one 64-bit word there says whose place it
 * is, what state that is in and how many proxies and kernels work for it: all that happens to an operation is a
 * compare-and-swap of that word, so whoever comes late only finds another serial. Between FILLING or WRITING and
 * the next store its facts belong to the thread that put it there.
 */
#ifndef LAPWING_TRACER_NCCL_POOL_H
#define LAPWING_TRACER_NCCL_POOL_H

#include "tracer/nccl.h"

enum { LW_NCCL_OPS_MAX = 4096, LW_NCCL_PARTS_MAX = 0xffff };
enum lw_nccl_state_of_op { LW_OP_FREE, LW_OP_FILLING, LW_OP_CALLED, LW_OP_STARTED, LW_OP_WRITING };

struct lw_nccl_place {
	_Atomic uint64_t word; /* serial << 24 | parts at work << 8 | enum lw_nccl_state_of_op */
	_Atomic int64_t returned_ns; /* the call, or the event of the task */
	_Atomic int64_t ended_ns;    /* the latest of its parts, 0 = none yet */
	_Atomic uint32_t n_parts;
	_Atomic uint32_t n_tasks; /* started and not enqueued yet */
	_Atomic uint32_t flags;   /* enum lw_nccl_flag, added to facts.flags */
	_Atomic bool is_due;      /* nothing new can come: written when nothing works for it */
	_Atomic(struct lw_nccl_comm *) comm;
	_Atomic uint32_t group;
	_Atomic bool is_composite; /* a call that NCCL makes of sends and receives */
	struct lw_nccl_facts facts;
};

extern struct lw_nccl_place lw_nccl_places[LW_NCCL_OPS_MAX];
extern _Atomic uint64_t lw_nccl_n_serials; /* given so far */

static inline uint64_t lw_nccl_word(uint64_t serial, enum lw_nccl_state_of_op state)
{
	return serial << 24 | state;
}

static inline uint64_t lw_nccl_word_serial(uint64_t word)
{
	return word >> 24;
}

static inline enum lw_nccl_state_of_op lw_nccl_word_state(uint64_t word)
{
	return (enum lw_nccl_state_of_op)(word & 0xff);
}

static inline uint32_t lw_nccl_word_parts(uint64_t word)
{
	return word >> 8 & LW_NCCL_PARTS_MAX;
}

static inline struct lw_nccl_place *lw_nccl_place(uint64_t serial)
{
	return &lw_nccl_places[serial % LW_NCCL_OPS_MAX];
}

/** lw_nccl_begin() - a new operation in @state. Return: its serial, 0 = dropped (counted). */
uint64_t lw_nccl_begin(const struct lw_nccl_facts *facts, enum lw_nccl_state_of_op state);

/** lw_nccl_write_out() - write the NCCL_OP of what @op holds. Return: false = not @word any more. */
bool lw_nccl_write_out(struct lw_nccl_place *op, uint64_t word);

/** lw_nccl_raise_time() - *@time_ns is not before @to_ns. */
void lw_nccl_raise_time(_Atomic int64_t *time_ns, int64_t to_ns);

/** lw_nccl_group_join() - operation @serial is one of @group. */
void lw_nccl_group_join(uint32_t group, uint64_t serial);

/** lw_nccl_group_is_told() - a plan of one operation is no group. */
bool lw_nccl_group_is_told(const struct lw_nccl_facts *facts);

#endif /* LAPWING_TRACER_NCCL_POOL_H */
