/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nccl_call.c - calls of NCCL's API and groups of them, as their thread sees them; see nccl.h.
 *
 * Writes: NCCL_OP records (by nccl_op.c) of calls that no plugin took over, when the call or its group returns.
 */
#include "tracer/nccl_pool.h"

#if __has_include("tracer/cupti.h")
#include "tracer/cupti.h"
#endif

enum { GROUPS_MAX = 1024 };

_Atomic bool lw_nccl_is_off;

static struct {
	_Atomic uint64_t group_and_n; /* serial << 32 | operations */
	_Atomic uint64_t first;
} groups[GROUPS_MAX];
static _Atomic uint32_t n_groups;

/* ---- groups ------------------------------------------------------------------------------------------ */

uint32_t lw_nccl_group_serial(void)
{
	uint32_t group = atomic_fetch_add_explicit(&n_groups, 1, memory_order_relaxed) + 1;

	if (!group) /* 4 G groups later */
		group = atomic_fetch_add_explicit(&n_groups, 1, memory_order_relaxed) + 1;
	atomic_store(&groups[group % GROUPS_MAX].first, 0);
	atomic_store(&groups[group % GROUPS_MAX].group_and_n, (uint64_t)group << 32);
	return group;
}

void lw_nccl_group_join(uint32_t group, uint64_t serial)
{
	_Atomic uint64_t *word = &groups[group % GROUPS_MAX].group_and_n;
	uint64_t old = atomic_load(word), none = 0;

	while (old >> 32 == group && !atomic_compare_exchange_weak(word, &old, old + 1))
		;
	if (old >> 32 == group)
		atomic_compare_exchange_strong(&groups[group % GROUPS_MAX].first, &none, serial);
}

uint64_t lw_nccl_group_first(uint32_t group)
{
	return group && atomic_load(&groups[group % GROUPS_MAX].group_and_n) >> 32 == group
		       ? atomic_load(&groups[group % GROUPS_MAX].first)
		       : 0;
}

/* A plan of one operation is no group. One that so many followed that its count is gone counts as a group. */
bool lw_nccl_group_is_told(const struct lw_nccl_facts *facts)
{
	uint64_t word = atomic_load(&groups[facts->group % GROUPS_MAX].group_and_n);

	return !facts->is_plan || word >> 32 != facts->group || (uint32_t)word > 1;
}

/* ---- calls ---------------------------------------------------------------------------------------------- */

static struct lw_nccl_thread *this_thread(void)
{
	struct lw_thread_memory *memory = lw_thread_memory();

	return memory ? &memory->nccl : NULL;
}

void lw_nccl_launch_begin(uint64_t serial)
{
#ifdef LAPWING_TRACER_CUPTI_H
	lw_cupti_enter(LW_LAUNCH_FOR_NCCL_OP, serial);
#else
	(void)serial;
#endif
}

void lw_nccl_launch_end(void)
{
#ifdef LAPWING_TRACER_CUPTI_H
	lw_cupti_leave(LW_LAUNCH_FOR_NCCL_OP);
#endif
}

uint64_t lw_nccl_call_begin(const struct lw_nccl_facts *facts)
{
	struct lw_nccl_thread *thread;
	struct lw_nccl_facts grouped = *facts;
	uint64_t serial;

	if (!lw_is_live() || lw_tls.busy ||
		atomic_load_explicit(&lw_nccl_is_off, memory_order_relaxed))
		return 0;
	thread = this_thread();
	if (!thread || thread->call)
		return 0;
	if (thread->depth) {
		grouped.group = thread->group;
		grouped.is_plan = false;
	}
	serial = lw_nccl_begin(&grouped, LW_OP_CALLED);
	if (!serial)
		return 0;
	thread->call = lw_nccl_handle(LW_NCCL_HANDLE_OP, serial);
	lw_nccl_launch_begin(serial);
	return thread->call;
}

uint64_t lw_nccl_call_current(void)
{
	return lw_tls.memory ? lw_tls.memory->nccl.call : 0;
}

/* Of a call whose thread leaves it, or its group. Written unless the plugin has it, or may still take it. */
static void call_returned(struct lw_nccl_place *op, uint64_t serial, uint16_t flags, int64_t t1_ns)
{
	uint64_t word = atomic_load(&op->word);

	if (lw_nccl_word_serial(word) != serial || lw_nccl_word_state(word) != LW_OP_CALLED)
		return;
	lw_nccl_raise_time(&op->returned_ns, t1_ns);
	if (flags)
		atomic_fetch_or(&op->flags, flags);
	if (!(atomic_load(&op->flags) & (LW_NCCL_FAILED | LW_NCCL_IN_GRAPH)) &&
		lw_nccl_comm_has_plugin(atomic_load(&op->comm)))
		return;
	lw_nccl_write_out(op, word);
}

void lw_nccl_call_end(uint64_t handle, uint16_t flags, int64_t t1_ns)
{
	struct lw_nccl_thread *thread = lw_tls.memory ? &lw_tls.memory->nccl : NULL;
	uint64_t serial = lw_nccl_handle_value(handle);

	if (!handle || !thread || thread->call != handle)
		return;
	thread->call = 0;
	lw_nccl_launch_end();
	if (!thread->depth || flags)
		call_returned(lw_nccl_place(serial), serial, flags, t1_ns);
}

void lw_nccl_op_captured(uint64_t handle)
{
	uint64_t serial = lw_nccl_handle_value(handle);
	uint64_t word = atomic_load(&lw_nccl_place(serial)->word);

	if (lw_nccl_handle_kind(handle) == LW_NCCL_HANDLE_OP &&
		word == lw_nccl_word(serial, LW_OP_CALLED))
		atomic_fetch_or(&lw_nccl_place(serial)->flags, LW_NCCL_IN_GRAPH);
}

void lw_nccl_group_begin(void)
{
	struct lw_nccl_thread *thread = lw_is_live() ? this_thread() : NULL;

	if (!thread || thread->depth++)
		return;
	thread->group = lw_nccl_group_serial();
	thread->first_serial = atomic_load(&lw_nccl_n_serials) + 1;
}

void lw_nccl_group_launch(void)
{
	struct lw_nccl_thread *thread = lw_tls.memory ? &lw_tls.memory->nccl : NULL;
	uint64_t first = thread && thread->depth == 1 ? lw_nccl_group_first(thread->group) : 0;

	if (!first)
		return;
	lw_nccl_launch_begin(first);
	thread->is_launching = true;
}

void lw_nccl_group_end(uint16_t flags, int64_t t1_ns)
{
	struct lw_nccl_thread *thread = lw_tls.memory ? &lw_tls.memory->nccl : NULL;
	uint64_t newest = atomic_load(&lw_nccl_n_serials), first;

	if (!thread || !thread->depth || --thread->depth)
		return;
	if (thread->is_launching)
		lw_nccl_launch_end();
	thread->is_launching = false;
	first = newest - thread->first_serial < LW_NCCL_OPS_MAX ? thread->first_serial
								: newest - LW_NCCL_OPS_MAX + 1;
	for (uint64_t serial = first; serial <= newest; serial++) {
		struct lw_nccl_place *op = lw_nccl_place(serial);
		uint64_t called = lw_nccl_word(serial, LW_OP_CALLED);

		/* its group may be read by who owns it only */
		if (!atomic_compare_exchange_strong(
			    &op->word, &called, lw_nccl_word(serial, LW_OP_FILLING)))
			continue;
		if (op->facts.group == thread->group) {
			atomic_store(&op->word, called);
			call_returned(op, serial, flags, t1_ns);
		} else {
			atomic_store(&op->word, called);
		}
	}
	thread->group = 0;
}
