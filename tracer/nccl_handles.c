/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nccl_handles.c - a table from ncclComm_t to what nccl.h knows of it. Handles are addresses: they are compared,
 * never followed.
 */
#include "tracer/nccl_handles.h"

#include "tracer/mpi_table.h"

enum { N_BUCKETS = 256, N_SLOTS = N_BUCKETS * LW_TABLE_WAYS };

static _Alignas(64) _Atomic uintptr_t keys[N_SLOTS];
static struct {
	_Atomic(struct lw_nccl_comm *) comm;
	_Atomic int32_t n_splits;
} slots[N_SLOTS];
static const struct lw_table table = {keys, N_BUCKETS};

static int32_t find(const void *handle)
{
	uint32_t probe = 0;

	return (uintptr_t)handle > LW_TABLE_CLAIMED
		       ? lw_table_find(&table, (uintptr_t)handle, &probe)
		       : -1;
}

struct lw_nccl_comm *lw_nccl_handle_find(const void *handle)
{
	int32_t slot = find(handle);

	return slot < 0 ? NULL : atomic_load_explicit(&slots[slot].comm, memory_order_relaxed);
}

void lw_nccl_handle_set(const void *handle, struct lw_nccl_comm *comm)
{
	int32_t slot = find(handle);

	if (!comm || (uintptr_t)handle <= LW_TABLE_CLAIMED)
		return;
	if (slot >= 0) {
		atomic_store(&slots[slot].comm, comm);
		return;
	}
	slot = lw_table_claim(&table, (uintptr_t)handle);
	if (slot < 0) {
		lw_loss(LW_LOSS_TABLE_FULL, 1, "nccl handles");
		return;
	}
	atomic_store(&slots[slot].comm, comm);
	atomic_store(&slots[slot].n_splits, 0);
	lw_table_publish(&table, slot, (uintptr_t)handle);
}

int32_t lw_nccl_handle_count_split(const void *handle)
{
	int32_t slot = find(handle);

	return slot < 0 ? 0 : atomic_fetch_add(&slots[slot].n_splits, 1) + 1;
}

struct lw_nccl_comm *lw_nccl_handle_remove(const void *handle)
{
	int32_t slot = find(handle);
	struct lw_nccl_comm *comm = slot < 0 ? NULL : atomic_load(&slots[slot].comm);

	if (!comm)
		return NULL;
	lw_table_remove(&table, slot);
	for (int32_t i = 0; i < N_SLOTS; i++)
		if (atomic_load(&keys[i]) > LW_TABLE_CLAIMED && atomic_load(&slots[i].comm) == comm)
			return NULL; /* of another rank in this process */
	return comm;
}

void lw_nccl_handle_awaited(void **handle, struct lw_nccl_comm *comm)
{
	struct lw_nccl_awaited *awaited = lw_tls.memory ? &lw_tls.memory->nccl_awaited : NULL;

	if (!awaited || !comm)
		return;
	if (awaited->n == LW_NCCL_AWAITED_MAX) {
		lw_loss(LW_LOSS_TABLE_FULL, 1, "nccl handles made in one group");
		return;
	}
	awaited->at[awaited->n].handle = handle;
	awaited->at[awaited->n++].comm = comm;
}

void lw_nccl_handle_ask(const void *handle, lw_nccl_ask_fn get_size, lw_nccl_ask_fn get_rank,
	struct lw_nccl_comm_facts *facts)
{
	int size = 0, rank = -1;

	if (get_size && get_rank && get_size(handle, &size) == 0 && get_rank(handle, &rank) == 0) {
		facts->size = size;
		facts->rank = rank;
	}
}

void lw_nccl_handles_made(lw_nccl_ask_fn get_size, lw_nccl_ask_fn get_rank)
{
	struct lw_nccl_awaited *awaited = lw_tls.memory ? &lw_tls.memory->nccl_awaited : NULL;

	for (uint32_t i = 0; awaited && i < awaited->n; i++) {
		/* the caller's own variable: valid to the end of the group, as NCCL writes it then */
		const void *handle = *awaited->at[i].handle;
		struct lw_nccl_comm *comm = awaited->at[i].comm;
		struct lw_nccl_comm_facts facts = {.key = atomic_load(&comm->key), .rank = -1};

		lw_nccl_handle_set(handle, comm);
		if (!handle || atomic_load(&comm->size))
			continue;
		lw_nccl_handle_ask(handle, get_size, get_rank, &facts);
		lw_nccl_comm_seen(&facts);
	}
	if (awaited)
		awaited->n = 0;
}
