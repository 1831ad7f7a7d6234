/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nccl_comm.c - which communicators of NCCL this process has; see nccl.h.
 *
 * Writes: COMM records. A table with a window of places per key: a lookup looks at all of the window, an entry is
 * taken by one compare-and-swap of its key, and facts are filled in one by one, by whoever knows them first.
 */
#include "tracer/nccl.h"

enum { COMMS_MAX = 1024, WINDOW = 32 };

static struct lw_nccl_comm comms[COMMS_MAX];

static struct lw_nccl_comm *place(uint64_t key, unsigned i)
{
	return &comms[(key ^ key >> 32) % (COMMS_MAX - WINDOW) + i];
}

struct lw_nccl_comm *lw_nccl_comm_find(uint64_t key)
{
	for (unsigned i = 0; key && i < WINDOW; i++)
		if (atomic_load_explicit(&place(key, i)->key, memory_order_acquire) == key)
			return place(key, i);
	return NULL;
}

/* Takes a free place or, second, one whose communicator has ended. Return: NULL = there is none. */
static struct lw_nccl_comm *take(uint64_t key)
{
	for (int is_used = 0; is_used < 2; is_used++) {
		for (unsigned i = 0; i < WINDOW; i++) {
			struct lw_nccl_comm *comm = place(key, i);
			uint64_t old = atomic_load(&comm->key);

			if ((old != 0) != is_used || (is_used && !atomic_load(&comm->is_ended)))
				continue;
			if (!atomic_compare_exchange_strong(&comm->key, &old, key))
				continue;
			/* Who finds it meanwhile sees less than is known, never more. */
			atomic_store(&comm->is_ended, false);
			atomic_store(&comm->parent, 0);
			atomic_store(&comm->size, 0);
			atomic_store(&comm->rank_plus_1, 0);
			atomic_store(&comm->serial, 0);
			atomic_store(&comm->how, 0);
			atomic_store(&comm->n_contexts, 0);
			atomic_store(&comm->has_network, false);
			atomic_store(&comm->running, 0);
			atomic_store(&comm->settled, 0);
			atomic_store(&comm->is_announced, false);
			return comm;
		}
	}
	return NULL;
}

void lw_nccl_comm_announce(struct lw_nccl_comm *comm)
{
	struct lw_event event = {.kind = LW_EV_COMM};
	uint32_t how = atomic_load(&comm->how);

	if (atomic_exchange(&comm->is_announced, true))
		return;
	event.op = (uint16_t)(how ? how : LW_COMM_OTHER);
	event.comm.comm = atomic_load(&comm->key);
	event.comm.parent = atomic_load(&comm->parent);
	event.comm.size = atomic_load(&comm->size);
	event.comm.rank = atomic_load(&comm->rank_plus_1) - 1;
	event.comm.serial = atomic_load(&comm->serial);
	event.comm.transport = LW_TRANSPORT_NCCL;
	event.t0_ns = event.t1_ns = lw_now_ns();
	lw_record(&event);
}

struct lw_nccl_comm *lw_nccl_comm_seen(const struct lw_nccl_comm_facts *facts)
{
	struct lw_nccl_comm *comm;

	if (!lw_is_live() || !facts->key)
		return NULL;
	comm = lw_nccl_comm_find(facts->key);
	if (!comm)
		comm = take(facts->key);
	if (!comm) {
		lw_loss(LW_LOSS_TABLE_FULL, 1, "nccl communicators");
		return NULL;
	}
	if (facts->parent)
		atomic_store(&comm->parent, facts->parent);
	if (facts->size > 0)
		atomic_store(&comm->size, facts->size);
	if (facts->rank >= 0)
		atomic_store(&comm->rank_plus_1, facts->rank + 1);
	if (facts->serial)
		atomic_store(&comm->serial, facts->serial);
	if (facts->how)
		atomic_store(&comm->how, facts->how);
	/* Who does not know how it was made is followed by who does: the plugin is called inside of that call. */
	if (atomic_load(&comm->how) && atomic_load(&comm->size) && atomic_load(&comm->rank_plus_1))
		lw_nccl_comm_announce(comm);
	return comm;
}

void lw_nccl_comm_ended(struct lw_nccl_comm *comm)
{
	if (!comm || atomic_load(&comm->is_ended))
		return;
	lw_nccl_ops_flush(comm);
	lw_nccl_comm_announce(comm);
	atomic_store(&comm->is_ended, true);
}

void lw_nccl_comms_flush(void)
{
	for (struct lw_nccl_comm *comm = comms; comm < comms + COMMS_MAX; comm++)
		if (atomic_load(&comm->key) && atomic_load(&comm->size))
			lw_nccl_comm_announce(comm);
}
