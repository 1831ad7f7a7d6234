/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hook_nccl.c - NCCL's own API, interposed: for every NCCL that is linked dynamically, or exports its functions where
 * it was linked in (libtorch_cuda.so of some builds). Not for ctypes and others that ask dlsym() with a handle.
 *
 * Writes: through nccl.h, COMM and NCCL_OP records, which the plugin or NVTX may tell of as well. A handle of NCCL's
 * is an address that is never followed; what it stands for is kept in nccl_handles.c. The name of a communicator,
 * NCCL's commHash, is computed from its arguments as NCCL does (nccl_hash.c), or taken from the payload of NCCL's
 * own NVTX range inside of the call, which is right whatever a later version computes.
 *
 * ABI: results are ints; ncclUniqueId is 128 bytes by value; data types as numbered in nccl.h of 2.4 to 2.30.
 */
#include "tracer/nccl.h"
#include "tracer/nccl_calls.def"
#include "tracer/nccl_handles.h"

enum { OK = 0, SYSTEM_ERROR = 2, IN_PROGRESS = 7, NO_COLOR = -1 };

struct unique_id {
	char bytes[LW_NCCL_ID_BYTES];
};

int ncclGetVersion(int *version); /* these three are not interposed: their types alone are used */
int ncclCommCount(const void *comm, int *n);
int ncclCommUserRank(const void *comm, int *rank);

/* Where the object that calls has its NCCL: a process may hold two. Never the wrapper itself. */
#define REAL(name)                                                                                 \
	({                                                                                         \
		static struct lw_real_sites sites_;                                                \
		(__typeof__(&name))lw_real_for(#name, __builtin_return_address(0), &sites_);       \
	})

static bool is_wanted(void)
{
	static _Atomic int8_t known; /* 1 yes, -1 no, 0 = not asked yet */
	int8_t answer = atomic_load_explicit(&known, memory_order_relaxed);

	if (LW_UNLIKELY(!answer)) {
		answer = lw_hook_wanted("nccl") ? 1 : -1;
		atomic_store_explicit(&known, answer, memory_order_relaxed);
	}
	return answer > 0;
}

static bool is_on(void)
{
	return is_wanted() && (lw_is_live() || lw_activate(LW_FRAMEWORK_NONE, LW_TRANSPORT_NCCL));
}

/* From here to leave() NVTX tells of nothing, but says which communicator a call was of. */
static struct lw_thread_memory *enter(void)
{
	struct lw_thread_memory *memory = is_on() ? lw_thread_memory() : NULL;

	if (memory && !memory->in_nccl++)
		memory->nccl_named = 0;
	return memory;
}

static void leave(struct lw_thread_memory *memory)
{
	if (memory)
		memory->in_nccl--;
}

static uint16_t failure(int result)
{
	return result == OK || result == IN_PROGRESS ? 0 : LW_NCCL_FAILED;
}

/* ---- what moves data ------------------------------------------------------------------------------ */

static void set_bytes(struct lw_nccl_facts *facts, size_t count, int type)
{
	uint8_t type_bytes = 0;
	uint64_t bytes;

	facts->dtype = lw_nccl_dtype(type, &type_bytes);
	if (!type_bytes || __builtin_mul_overflow((uint64_t)count, type_bytes, &bytes) ||
		bytes > INT64_MAX) {
		facts->flags |= LW_NCCL_NO_BYTES;
		return;
	}
	facts->bytes = bytes;
}

static void set_in_place(struct lw_nccl_facts *facts, bool is_in_place)
{
	if (is_in_place)
		facts->flags |= LW_NCCL_IN_PLACE;
}

static bool is_part(const struct lw_nccl_facts *facts, const void *whole, const void *part)
{
	int32_t rank = facts->comm ? atomic_load(&facts->comm->rank_plus_1) - 1 : -1;

	return rank >= 0 && (uintptr_t)part == (uintptr_t)whole + (uintptr_t)rank * facts->bytes;
}

/* A communicator that was made before us, or whose name nothing told: its payload may. */
static void learn(struct lw_thread_memory *memory, const void *comm)
{
	const struct lw_nccl_comm_facts facts = {.key = memory->nccl_named, .rank = -1};

	if (memory->nccl_named)
		lw_nccl_handle_set(comm, lw_nccl_comm_seen(&facts));
}

#define BYTES(count, type) set_bytes(&facts, count, type)
#define NONE               ((void)0)
#define NOBODY             (-1)
#define SAME(a, b)         ((a) == (b))
#define PART(whole, part)  is_part(&facts, whole, part)
#define NEVER              false

#define X(Name, operation, parameters, arguments, bytes_, peer_, is_in_place_)                     \
	int nccl##Name parameters;                                                                 \
	LW_EXPORT int nccl##Name parameters                                                        \
	{                                                                                          \
		int(*real) parameters = REAL(nccl##Name);                                          \
		struct lw_thread_memory *memory;                                                   \
		struct lw_nccl_facts facts = {                                                     \
			.op = LW_NCCL_##operation, .source = LW_NCCL_FROM_PRELOAD, .peer = peer_}; \
		uint64_t call;                                                                     \
		int result;                                                                        \
                                                                                                   \
		if (LW_UNLIKELY(!real))                                                            \
			return SYSTEM_ERROR;                                                       \
		memory = enter();                                                                  \
		if (!memory)                                                                       \
			return real arguments;                                                     \
		facts.comm = lw_nccl_handle_find(comm);                                            \
		bytes_;                                                                            \
		set_in_place(&facts, is_in_place_);                                                \
		facts.t0_ns = lw_now_ns();                                                         \
		call = lw_nccl_call_begin(&facts);                                                 \
		result = real arguments;                                                           \
		lw_nccl_call_end(call, failure(result), lw_now_ns());                              \
		if (LW_UNLIKELY(!facts.comm))                                                      \
			learn(memory, comm);                                                       \
		leave(memory);                                                                     \
		return result;                                                                     \
	}
LW_NCCL_CALLS(X)
#undef X

int ncclGroupStart(void);
int ncclGroupEnd(void);
int ncclGroupSimulateEnd(void *information);

LW_EXPORT int ncclGroupStart(void)
{
	int (*real)(void) = REAL(ncclGroupStart);
	struct lw_thread_memory *memory;
	int result;

	if (LW_UNLIKELY(!real))
		return SYSTEM_ERROR;
	memory = enter();
	result = real();
	if (memory && result == OK)
		lw_nccl_group_begin();
	leave(memory);
	return result;
}

LW_EXPORT int ncclGroupEnd(void)
{
	int (*real)(void) = REAL(ncclGroupEnd);
	struct lw_thread_memory *memory;
	int result;

	if (LW_UNLIKELY(!real))
		return SYSTEM_ERROR;
	memory = enter();
	if (!memory)
		return real();
	lw_nccl_group_launch();
	result = real();
	lw_nccl_group_end(failure(result), lw_now_ns());
	if (!memory->nccl.depth)
		lw_nccl_handles_made(result == OK ? REAL(ncclCommCount) : NULL,
			result == OK ? REAL(ncclCommUserRank) : NULL);
	leave(memory);
	return result;
}

/* A group that is only imagined: nothing of it is sent, which is what failed ones have in common with it. */
LW_EXPORT int ncclGroupSimulateEnd(void *information)
{
	int (*real)(void *) = REAL(ncclGroupSimulateEnd);
	struct lw_thread_memory *memory;
	int result;

	if (LW_UNLIKELY(!real))
		return SYSTEM_ERROR;
	memory = enter();
	result = real(information);
	if (memory) {
		lw_nccl_group_end(LW_NCCL_FAILED, lw_now_ns());
		if (!memory->nccl.depth) /* what it was to make it did not */
			lw_nccl_handles_made(NULL, NULL);
	}
	leave(memory);
	return result;
}

/* ---- communicators --------------------------------------------------------------------------------- */

/* A communicator is being made. */
struct making {
	struct lw_thread_memory *memory; /* NULL = nothing is to be told */
	struct lw_nccl_comm_facts facts; /* by the arguments */
	int version;
};

static struct making begin_making(int (*get_version)(int *))
{
	static _Atomic int known;
	struct making making = {.memory = enter(),
		.facts = {.rank = -1},
		.version = atomic_load_explicit(&known, memory_order_relaxed)};

	if (!making.memory)
		return making;
	if (!making.version && get_version && get_version(&making.version) == OK)
		atomic_store_explicit(&known, making.version, memory_order_relaxed);
	return making;
}

static struct making begin_by_id(
	int (*get_version)(int *), int n_ranks, const struct unique_id *id, int rank)
{
	struct making making = begin_making(get_version);

	making.facts.size = n_ranks;
	making.facts.rank = rank;
	making.facts.how = LW_COMM_WORLD;
	if (making.memory && id)
		making.facts.key = lw_nccl_hash_id(id, making.version);
	return making;
}

static struct making begin_of_parent(int (*get_version)(int *), const void *parent)
{
	struct making making = begin_making(get_version);
	struct lw_nccl_comm *comm = making.memory ? lw_nccl_handle_find(parent) : NULL;

	making.facts.how = LW_COMM_SPLIT;
	making.facts.parent = comm ? atomic_load(&comm->key) : 0;
	return making;
}

static void end_making(struct making *making, void **new_comm, int result)
{
	if (making->memory && !failure(result) && new_comm && making->facts.key) {
		lw_nccl_plugin_missing(making->version);
		if (*new_comm)
			lw_nccl_handle_set(*new_comm, lw_nccl_comm_seen(&making->facts));
		else if (making->memory->nccl.depth) /* it comes when the group ends */
			lw_nccl_handle_awaited(new_comm, lw_nccl_comm_seen(&making->facts));
	}
	leave(making->memory);
}

/* What NVTX called it inside of the call is right, however the name was computed. */
static void take_name(struct making *making)
{
	if (making->memory && making->memory->nccl_named)
		making->facts.key = making->memory->nccl_named;
}

/*
 * Size and rank of one that was split off: the arguments do not tell. Not where it may not be ready, of which NCCL
 * would warn in the job's log.
 */
static void ask_place(struct making *making, void **new_comm, int result, lw_nccl_ask_fn get_size,
	lw_nccl_ask_fn get_rank)
{
	if (making->memory && result == OK && new_comm && *new_comm && !making->memory->nccl.depth)
		lw_nccl_handle_ask(*new_comm, get_size, get_rank, &making->facts);
}

int ncclCommInitRank(void **comm, int n_ranks, struct unique_id id, int rank);
int ncclCommInitRankConfig(void **comm, int n_ranks, struct unique_id id, int rank, void *config);
int ncclCommInitRankScalable(
	void **comm, int n_ranks, int rank, int n_ids, struct unique_id *ids, void *config);
int ncclCommInitAll(void **comms, int n, const int *devices);
int ncclCommSplit(void *comm, int color, int key, void **new_comm, void *config);
int ncclCommShrink(
	void *comm, int *excluded, int n_excluded, void **new_comm, void *config, int flags);
int ncclCommGrow(void *comm, int n_ranks, const struct unique_id *id, int rank, void **new_comm,
	void *config);
int ncclCommDestroy(void *comm);
int ncclCommAbort(void *comm);

LW_EXPORT int ncclCommInitRank(void **comm, int n_ranks, struct unique_id id, int rank)
{
	int (*real)(void **, int, struct unique_id, int) = REAL(ncclCommInitRank);
	struct making making;
	int result;

	if (LW_UNLIKELY(!real))
		return SYSTEM_ERROR;
	making = begin_by_id(REAL(ncclGetVersion), n_ranks, &id, rank);
	result = real(comm, n_ranks, id, rank);
	take_name(&making);
	end_making(&making, comm, result);
	return result;
}

LW_EXPORT int ncclCommInitRankConfig(
	void **comm, int n_ranks, struct unique_id id, int rank, void *config)
{
	int (*real)(void **, int, struct unique_id, int, void *) = REAL(ncclCommInitRankConfig);
	struct making making;
	int result;

	if (LW_UNLIKELY(!real))
		return SYSTEM_ERROR;
	making = begin_by_id(REAL(ncclGetVersion), n_ranks, &id, rank);
	result = real(comm, n_ranks, id, rank, config);
	take_name(&making);
	end_making(&making, comm, result);
	return result;
}

LW_EXPORT int ncclCommInitRankScalable(
	void **comm, int n_ranks, int rank, int n_ids, struct unique_id *ids, void *config)
{
	int (*real)(void **, int, int, int, struct unique_id *, void *) =
		REAL(ncclCommInitRankScalable);
	struct making making;
	int result;

	if (LW_UNLIKELY(!real))
		return SYSTEM_ERROR;
	making = begin_by_id(REAL(ncclGetVersion), n_ranks, n_ids > 0 ? ids : NULL, rank);
	result = real(comm, n_ranks, rank, n_ids, ids, config);
	take_name(&making);
	end_making(&making, comm, result);
	return result;
}

/* All devices of one process: NCCL makes the id itself, so only NVTX tells how it is called. */
LW_EXPORT int ncclCommInitAll(void **comms, int n, const int *devices)
{
	int (*real)(void **, int, const int *) = REAL(ncclCommInitAll);
	struct making making;
	int result;

	if (LW_UNLIKELY(!real))
		return SYSTEM_ERROR;
	making = begin_by_id(REAL(ncclGetVersion), n, NULL, n == 1 ? 0 : -1);
	result = real(comms, n, devices);
	take_name(&making);
	for (int i = 1; making.memory && making.facts.key && result == OK && i < n; i++)
		lw_nccl_handle_set(comms[i], lw_nccl_comm_seen(&making.facts));
	end_making(&making, n > 0 ? comms : NULL, result);
	return result;
}

LW_EXPORT int ncclCommSplit(void *comm, int color, int key, void **new_comm, void *config)
{
	int (*real)(void *, int, int, void **, void *) = REAL(ncclCommSplit);
	struct making making;
	int result;

	if (LW_UNLIKELY(!real))
		return SYSTEM_ERROR;
	making = begin_of_parent(REAL(ncclGetVersion), comm);
	if (making.facts.parent) {
		making.facts.serial = (uint32_t)lw_nccl_handle_count_split(comm);
		making.facts.key = lw_nccl_hash_split(
			making.facts.parent, (int32_t)making.facts.serial, color, making.version);
	}
	result = real(comm, color, key, new_comm, config);
	take_name(&making);
	ask_place(&making, new_comm, result, REAL(ncclCommCount), REAL(ncclCommUserRank));
	end_making(&making, new_comm, result);
	return result;
}

/* Its NVTX range speaks of the parent as if it were the new one (2.27 to 2.30). */
LW_EXPORT int ncclCommShrink(
	void *comm, int *excluded, int n_excluded, void **new_comm, void *config, int flags)
{
	int (*real)(void *, int *, int, void **, void *, int) = REAL(ncclCommShrink);
	struct making making;
	int result;

	if (LW_UNLIKELY(!real))
		return SYSTEM_ERROR;
	making = begin_of_parent(REAL(ncclGetVersion), comm);
	if (making.facts.parent)
		making.facts.key = lw_nccl_hash_split(making.facts.parent, 0, 0, making.version);
	result = real(comm, excluded, n_excluded, new_comm, config, flags);
	ask_place(&making, new_comm, result, REAL(ncclCommCount), REAL(ncclCommUserRank));
	end_making(&making, new_comm, result);
	return result;
}

/* The id is of the new ranks only: the others have none, and NVTX alone tells how it is called. */
LW_EXPORT int ncclCommGrow(void *comm, int n_ranks, const struct unique_id *id, int rank,
	void **new_comm, void *config)
{
	int (*real)(void *, int, const struct unique_id *, int, void **, void *) =
		REAL(ncclCommGrow);
	struct making making;
	int result;

	if (LW_UNLIKELY(!real))
		return SYSTEM_ERROR;
	making = begin_of_parent(REAL(ncclGetVersion), comm);
	making.facts.size = n_ranks;
	result = real(comm, n_ranks, id, rank, new_comm, config);
	take_name(&making);
	ask_place(&making, new_comm, result, REAL(ncclCommCount), REAL(ncclCommUserRank));
	end_making(&making, new_comm, result);
	return result;
}

/* What ends is forgotten before: NCCL may give its address to another that is made meanwhile. */
#define ENDED(name)                                                                                \
	LW_EXPORT int name(void *comm)                                                             \
	{                                                                                          \
		int (*real)(void *) = REAL(name);                                                  \
		struct lw_thread_memory *memory;                                                   \
		struct lw_nccl_comm *ended;                                                        \
		int result;                                                                        \
                                                                                                   \
		if (LW_UNLIKELY(!real))                                                            \
			return SYSTEM_ERROR;                                                       \
		memory = enter();                                                                  \
		ended = memory ? lw_nccl_handle_remove(comm) : NULL;                               \
		result = real(comm);                                                               \
		if (ended)                                                                         \
			lw_nccl_comm_ended(ended);                                                 \
		leave(memory);                                                                     \
		return result;                                                                     \
	}
ENDED(ncclCommDestroy)
ENDED(ncclCommAbort)
