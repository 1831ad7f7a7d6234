/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvtx_nccl.c - what NCCL says of itself by NVTX: each function of its API is a range of the domain "NCCL", with its
 * communicator, bytes and peer in an extended payload.
 *
 * This is the one way in where NCCL is linked in statically and older than its profiler plugin (2.23). From 2.24 on
 * the payload names the communicator, from 2.16 on it has bytes, before that there is a name alone. Who else tells of
 * the same call is left to nccl.h: inside a preloaded wrapper lw_nccl_call_begin() gives 0.
 *
 * Not taken from payloads: the size and rank that ncclCommSplit and ncclCommShrink give, which are the parent's
 * (NCCL 2.28.9, src/init.cc).
 */
#include <string.h>

#include "tracer/nccl.h"
#include "tracer/nvtx.h"

enum what { OPERATION, MADE, SPLIT, ENDED, GROUP_START, GROUP_END };

static const struct function {
	const char *name;
	enum what what;
	enum lw_nccl_op op;
} functions[] = {
	{"ncclAllReduce", OPERATION, LW_NCCL_ALLREDUCE},
	{"ncclAllGather", OPERATION, LW_NCCL_ALLGATHER},
	{"ncclReduceScatter", OPERATION, LW_NCCL_REDUCESCATTER},
	{"ncclBroadcast", OPERATION, LW_NCCL_BROADCAST},
	{"ncclReduce", OPERATION, LW_NCCL_REDUCE},
	{"ncclSend", OPERATION, LW_NCCL_SEND},
	{"ncclRecv", OPERATION, LW_NCCL_RECV},
	{"ncclAlltoAll", OPERATION, LW_NCCL_ALLTOALL},
	{"ncclGather", OPERATION, LW_NCCL_GATHER},
	{"ncclScatter", OPERATION, LW_NCCL_SCATTER},
	{"ncclPutSignal", OPERATION, LW_NCCL_OTHER},
	{"ncclSignal", OPERATION, LW_NCCL_OTHER},
	{"ncclWaitSignal", OPERATION, LW_NCCL_OTHER},
	{"ncclGroupStart", GROUP_START, 0},
	{"ncclGroupEnd", GROUP_END, 0},
	{"ncclCommInitRank", MADE, 0},
	{"ncclCommInitRankConfig", MADE, 0},
	{"ncclCommInitRankScalable", MADE, 0},
	{"ncclCommInitAll", MADE, 0},
	{"ncclCommSplit", SPLIT, 0},
	{"ncclCommGrow", SPLIT, 0},
	{"ncclCommDestroy", ENDED, 0},
	{"ncclCommAbort", ENDED, 0},
};
enum { N_FUNCTIONS = sizeof(functions) / sizeof(functions[0]) };

bool lw_nvtx_nccl_is(const void *domain)
{
	static _Atomic(const void *)
		known; /* the last domain of that name: there is one a copy of NCCL */
	const char *name;

	if (!domain)
		return false;
	if (LW_UNLIKELY(domain != atomic_load_explicit(&known, memory_order_relaxed))) {
		name = lw_nvtx_text(LW_NVTX_DOMAINS, domain);
		if (!name || strcmp(name, "NCCL") != 0 || !lw_hook_wanted("nccl"))
			return false;
		atomic_store_explicit(&known, domain, memory_order_relaxed);
	}
	return lw_is_live() || lw_activate(LW_FRAMEWORK_NONE, LW_TRANSPORT_NCCL);
}

static const struct function *find_function(const char *name)
{
	for (int i = 0; i < N_FUNCTIONS; i++)
		if (strcmp(name, functions[i].name) == 0)
			return &functions[i];
	return NULL;
}

static uint64_t comm_of(const struct lw_nvtx_values *values)
{
	return values && lw_nvtx_has(values, LW_NVTX_FIELD_COMM)
		       ? (uint64_t)values->at[LW_NVTX_FIELD_COMM]
		       : 0;
}

static struct lw_nccl_comm *comm_seen(uint64_t key)
{
	const struct lw_nccl_comm_facts facts = {.key = key, .rank = -1};

	return key ? lw_nccl_comm_seen(&facts) : NULL;
}

static uint64_t begin_operation(enum lw_nccl_op op, const struct lw_nvtx_values *values)
{
	struct lw_nccl_facts facts = {.t0_ns = lw_now_ns(),
		.comm = comm_seen(comm_of(values)),
		.peer = -1,
		.op = (uint16_t)op,
		.source = LW_NCCL_FROM_NVTX};

	if (lw_nvtx_has(values, LW_NVTX_FIELD_BYTES) && values->at[LW_NVTX_FIELD_BYTES] >= 0)
		facts.bytes = (uint64_t)values->at[LW_NVTX_FIELD_BYTES];
	else
		facts.flags = LW_NCCL_NO_BYTES;
	if (lw_nvtx_has(values, LW_NVTX_FIELD_PEER))
		facts.peer = (int32_t)values->at[LW_NVTX_FIELD_PEER];
	return lw_nccl_call_begin(&facts);
}

void lw_nvtx_nccl_push(const char *name, int level, const struct lw_nvtx_values *values)
{
	const struct function *function = find_function(name);
	struct lw_thread_memory *memory = lw_thread_memory();
	struct lw_nccl_range *range = memory ? &memory->nccl_range : NULL;

	/* the outer one of two counts: ncclSend() of NCCL 2.12 calls ncclGroupStart() */
	if (!range || !function || range->function)
		return;
	if (memory->in_nccl && comm_of(values))
		memory->nccl_named = comm_of(values);
	*range = (struct lw_nccl_range){
		.function = (uint16_t)(1 + (function - functions)), .level = level};
	range->comm = comm_of(values);
	if (function->what == OPERATION)
		range->call = begin_operation(function->op, values);
	else if (function->what == GROUP_END && !memory->in_nccl)
		lw_nccl_group_launch();
}

/* A communicator was made, split off or ended; what its payload said. */
static void end_comm(enum what what, uint64_t key, const struct lw_nvtx_values *values)
{
	struct lw_nccl_comm_facts facts = {.key = key, .rank = -1};
	struct lw_nccl_comm *comm;

	if (!key)
		return;
	if (what == ENDED) {
		comm = lw_nccl_comm_find(key);
		if (comm)
			lw_nccl_comm_ended(comm);
		return;
	}
	facts.how = what == SPLIT ? LW_COMM_SPLIT : LW_COMM_WORLD;
	if (values && what == SPLIT && lw_nvtx_has(values, LW_NVTX_FIELD_PARENT))
		facts.parent = (uint64_t)values->at[LW_NVTX_FIELD_PARENT];
	if (values && what == MADE && lw_nvtx_has(values, LW_NVTX_FIELD_RANK) &&
		lw_nvtx_has(values, LW_NVTX_FIELD_N_RANKS)) {
		facts.rank = (int32_t)values->at[LW_NVTX_FIELD_RANK];
		facts.size = (int32_t)values->at[LW_NVTX_FIELD_N_RANKS];
	}
	comm = lw_nccl_comm_seen(&facts);
	if (comm)
		lw_nccl_comm_announce(comm);
}

void lw_nvtx_nccl_pop(int level, const struct lw_nvtx_values *values)
{
	struct lw_thread_memory *memory = lw_tls.memory;
	struct lw_nccl_range range = memory ? memory->nccl_range : (struct lw_nccl_range){0};
	enum what what;

	if (!range.function || range.level != level)
		return;
	memory->nccl_range.function = 0;
	if (memory->in_nccl && comm_of(values))
		memory->nccl_named = comm_of(values);
	what = functions[range.function - 1].what;
	switch (what) {
	case OPERATION:
		lw_nccl_call_end(range.call, 0, lw_now_ns());
		return;
	case MADE:
	case SPLIT:
	case ENDED:
		/* the preload knows it better: there size and rank are arguments */
		if (!memory->in_nccl)
			end_comm(what, comm_of(values) ? comm_of(values) : range.comm, values);
		return;
	case GROUP_START:
		if (!memory->in_nccl)
			lw_nccl_group_begin();
		return;
	case GROUP_END:
		if (!memory->in_nccl)
			lw_nccl_group_end(0, lw_now_ns());
		return;
	}
}
