/* SPDX-License-Identifier: Apache-2.0 */
/* nccl_handles.h - which communicator of nccl.h an ncclComm_t is; for hook_nccl.c. */
#ifndef LAPWING_TRACER_NCCL_HANDLES_H
#define LAPWING_TRACER_NCCL_HANDLES_H

#include "tracer/nccl.h"

/** lw_nccl_handle_find() - Return: NULL = it was made before us, or by whom we do not see. */
struct lw_nccl_comm *lw_nccl_handle_find(const void *handle);

/** lw_nccl_handle_set() - @handle is @comm from now on; NULL of either does nothing. */
void lw_nccl_handle_set(const void *handle, struct lw_nccl_comm *comm);

/** lw_nccl_handle_awaited() - @*handle will be @comm at the end of the group that this thread is in. */
void lw_nccl_handle_awaited(void **handle, struct lw_nccl_comm *comm);

typedef int (*lw_nccl_ask_fn)(
	const void *handle, int *ret_value); /* ncclCommCount, ncclCommUserRank */

/** lw_nccl_handle_ask() - put size and rank of @handle into *@facts, where both functions are there and tell. */
void lw_nccl_handle_ask(const void *handle, lw_nccl_ask_fn get_size, lw_nccl_ask_fn get_rank,
	struct lw_nccl_comm_facts *facts);

/**
 * lw_nccl_handles_made() - the outermost group ended: handles that this thread awaited are there, or never come.
 * @get_size, @get_rank: to ask those for whose place no argument told; NULL = they may not be ready
 */
void lw_nccl_handles_made(lw_nccl_ask_fn get_size, lw_nccl_ask_fn get_rank);

/** lw_nccl_handle_count_split() - the k-th split of @handle begins, from 1. Return: k, 0 = @handle is not known. */
int32_t lw_nccl_handle_count_split(const void *handle);

/**
 * lw_nccl_handle_remove() - @handle is about to end.
 * Return: its communicator, when no other handle of this process is of it; else NULL.
 */
struct lw_nccl_comm *lw_nccl_handle_remove(const void *handle);

#endif /* LAPWING_TRACER_NCCL_HANDLES_H */
