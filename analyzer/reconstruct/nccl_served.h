/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nccl_served.h - how long operations of NCCL took on the device.
 *
 * A kernel runs from when its rank came until the data is there, so its length holds waiting for ranks that came later.
 * Whoever came last waited for nobody: of an operation that all its ranks have, the shortest kernel is the time of
 * service. Of others it is their own kernel, in which waiting is.
 */
#ifndef LAPWING_ANALYZER_RECONSTRUCT_NCCL_SERVED_H
#define LAPWING_ANALYZER_RECONSTRUCT_NCCL_SERVED_H

#include "analyzer/run.h"

struct lw_nccl_served {
	int op, algorithm, protocol;
	int32_t step;      /* of the first rank that has it; LW_NONE: none, or not known */
	uint32_t n_ranks;  /* that took part; 0 = not known */
	bool is_matched;   /* found on all its ranks */
	double bytes;      /* as the caller of one rank counts */
	double size_bytes; /* lw_nccl_size() */
	double service_ns;
	int64_t comm_key; /* of the communicator, as the first rank that has it knows it */
};

struct lw_nccl_services {
	lw_vec(struct lw_nccl_served) at; /* whole ones by time, then the others by rank and time */
};

/** lw_nccl_is_counted() - it is in a step that counts; where there are none, all are. */
bool lw_nccl_is_counted(const struct lw_rank *rank, const struct lw_nccl_call *call);

/**
 * lw_nccl_together() - the calls that one kernel serves as one operation: bytes are what all hand over; sends and receives are an
 * all-to-all. @first: of its kernel; @ret_call: the operation, a copy of @first where that is alone. Return: how many calls.
 */
size_t lw_nccl_together(const struct lw_run *run, const struct lw_rank *rank,
	const struct lw_nccl_call *first, struct lw_nccl_call *ret_call);

/** lw_nccl_services() - of all that count, with a kernel and a size. Return: LW_OK, LW_ERR_NOMEM; free ret->at in both cases. */
int lw_nccl_services(const struct lw_run *run, struct lw_nccl_services *ret_services);

/** lw_nccl_size() - what nccl-tests calls the size of an operation whose callers said @bytes each; @flags: enum lw_nccl_flag. */
double lw_nccl_size(int op, uint32_t flags, double bytes, uint32_t n_ranks);

/** lw_nccl_bus_factor() - busbw / algbw of an operation (nccl-tests, doc/PERFORMANCE.md); NAN: not known. */
double lw_nccl_bus_factor(int op, uint32_t n_ranks);

#endif /* LAPWING_ANALYZER_RECONSTRUCT_NCCL_SERVED_H */
