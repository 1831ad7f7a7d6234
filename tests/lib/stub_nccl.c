/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stub_nccl.c - says what it was called with, and returns what STUB_NCCL_RESULT says (0, or 7 = in progress, or an error).
 *
 * STUB_NCCL_LATE=1: as before 2.14, handles of communicators that are made in a group are there at its end.
 * STUB_NCCL_QUIET=1: says nothing, for those who time calls.
 * FAKE_CUDA=FILE: the double of libcudart in FILE launches a kernel for an allreduce, and one for a group's sends and
 * receives at its end.
 * STUB_NCCL_NVTX=1: tells NVTX what NCCL 2.28 does, of communicators called NVTX_NAME and, split off, one more each time.
 */
#include "tests/lib/stub_nccl.h"

#include "tests/e2e/programs/nvtx_double.h"
#include "tests/lib/fake_cudart.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_quiet;
static int depth, n_late;
static ncclComm_t *late[8];
static uintptr_t last_handle = 0xc0000000;

static ncclResult_t result(void)
{
	const char *text = is_quiet ? NULL : getenv("STUB_NCCL_RESULT");

	errno = ENOTTY; /* NCCL does change it */
	return text ? (ncclResult_t)strtol(text, NULL, 10) : 0;
}

static __typeof__(&cudaLaunchKernel) launch;
static int n_moved; /* sends and receives of this group */

static void run_kernel(const char *name)
{
	const struct fake_dim3 grid = {1, 2, 3}, block = {4, 5, 6}; /* as that double wants them */

	if (launch && launch(name, grid, block, NULL, 7, (void *)7))
		abort();
}

static ncclResult_t give(ncclComm_t *comm)
{
	ncclComm_t handle = (ncclComm_t)(last_handle += 0x1000);

	*comm = NULL;
	if (result() != 0 && result() != 7)
		return result();
	if (depth && getenv("STUB_NCCL_LATE"))
		late[n_late++ % 8] = comm;
	else
		*comm = handle;
	return result();
}

/* Of all 128 bytes: they travel on the stack. */
static unsigned sum(const ncclUniqueId *id)
{
	unsigned value = 0;

	for (int i = 0; i < 128; i++)
		value = value * 31 + (unsigned char)id->internal[i];
	return value;
}

#define SAY(...) (is_quiet ? 0 : (printf(__VA_ARGS__), putchar('\n')))

/* ---- NVTX ------------------------------------------------------------------------------------------- */

static struct nvtx_copy nvtx;
static const void *nvtx_domain; /* NULL: it is not told */
static uint64_t nvtx_name = STUB_NCCL_NVTX_NAME;

struct told { /* of a communicator, or of an operation */
	uint64_t comm;
	uint64_t bytes;
	int peer;
};

__attribute__((constructor)) static void load_nvtx(void)
{
	static const struct {
		uint64_t flags, type;
		const char *name, *description;
		uint64_t detail, offset;
		const void *semantics, *reserved;
	} entries[] = {{0, 18, "NCCL communicator ID", NULL, 0, 0, NULL, NULL},
		{0, 22, "Message size [bytes]", NULL, 0, 8, NULL, NULL},
		{0, 5, "Root", NULL, 0, 16, NULL, NULL}};
	const struct {
		uint64_t fields;
		const char *name;
		uint64_t type, flags;
		const void *entries;
		size_t n, n_bytes, pack;
		uint64_t id;
	} schema = {1 << 2 | 1 << 4 | 1 << 5 | 1 << 6 | 1 << 8, NULL, 1, 0, entries, 3,
		sizeof(struct told), 0, 1 << 24};

	const char *cuda = getenv("FAKE_CUDA");
	void *library = cuda ? dlopen(cuda, RTLD_NOW | RTLD_GLOBAL) : NULL;

	launch = library ? (__typeof__(launch))(uintptr_t)dlsym(RTLD_DEFAULT, "cudaLaunchKernel")
			 : NULL;
	is_quiet = getenv("STUB_NCCL_QUIET") != NULL;
	if (!getenv("STUB_NCCL_NVTX") || !nvtx_load(&nvtx, NVTX_N_PAYLOAD, 0x0103))
		return;
	nvtx_domain = NVTX_CALL(const void *(*)(const char *), nvtx.core2[12], "NCCL");
	NVTX_CALL(uint64_t(*)(const void *, const void *), nvtx.payload[0], nvtx_domain, &schema);
}

/* @told: NULL = the payload comes at the end. */
static void push(const char *function, const struct told *told)
{
	const struct {
		uint64_t schema;
		size_t n_bytes;
		const void *data;
	} payload = {1 << 24, sizeof(*told), told};
	struct nvtx_attributes attributes = {.version = 2,
		.size = sizeof(attributes),
		.message_type = 1,
		.message = function,
		.payload_type = told ? (int32_t)0xDFBD0009 : 0,
		.n_payloads = 1,
		.payload = (int64_t)(intptr_t)&payload};

	if (nvtx_domain)
		NVTX_CALL(int (*)(const void *, void *), nvtx.core2[4], nvtx_domain, &attributes);
}

static void pop(const struct told *told)
{
	const struct {
		uint64_t schema;
		size_t n_bytes;
		const void *data;
	} payload = {1 << 24, sizeof(*told), told};

	if (nvtx_domain && told)
		NVTX_CALL(int (*)(const void *, const void *, size_t), nvtx.payload[4], nvtx_domain,
			&payload, 1);
	else if (nvtx_domain)
		NVTX_CALL(int (*)(const void *), nvtx.core2[5], nvtx_domain);
}

/* Of an operation of whatever communicator: the last one's. */
static void tell(const char *function, size_t count, int peer)
{
	const struct told told = {nvtx_name, count, peer};

	push(function, &told);
	pop(NULL);
}

ncclResult_t ncclGetVersion(int *version)
{
	*version = 22809;
	return 0;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
	for (int i = 0; i < 128; i++)
		id->internal[i] = (char)(i * 3 + 1);
	return 0;
}

ncclResult_t ncclCommInitRank(ncclComm_t *comm, int n, ncclUniqueId id, int rank)
{
	int (*set_device)(int) =
		launch ? (int (*)(int))(uintptr_t)dlsym(RTLD_DEFAULT, "cudaSetDevice") : NULL;

	if (set_device) /* NCCL is no job's first user of CUDA */
		set_device(0);
	SAY("InitRank %d %u %d", n, sum(&id), rank);
	return give(comm);
}

ncclResult_t ncclCommInitRankConfig(
	ncclComm_t *comm, int n, ncclUniqueId id, int rank, void *config)
{
	SAY("InitRankConfig %d %u %d %p", n, sum(&id), rank, config);
	return give(comm);
}

ncclResult_t ncclCommInitRankScalable(
	ncclComm_t *comm, int n, int rank, int n_ids, ncclUniqueId *ids, void *config)
{
	SAY("InitRankScalable %d %d %d %u %p", n, rank, n_ids, sum(ids), config);
	return give(comm);
}

ncclResult_t ncclCommInitAll(ncclComm_t *comms, int n, const int *devices)
{
	SAY("InitAll %d %d", n, devices ? devices[n - 1] : -1);
	push("ncclCommInitAll", NULL);
	for (int i = 0; i < n; i++)
		give(&comms[i]);
	pop(&(struct told){++nvtx_name, 0, 0});
	return result();
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *child, void *config)
{
	SAY("Split %p %d %d %p", (void *)comm, color, key, config);
	*child = NULL;
	push("ncclCommSplit", NULL);
	pop(color < 0 ? NULL : &(struct told){++nvtx_name, 0, 0});
	return color < 0 ? result() : give(child);
}

ncclResult_t ncclCommShrink(
	ncclComm_t comm, int *excluded, int n, ncclComm_t *child, void *config, int flags)
{
	push("ncclCommShrink", NULL);
	pop(&(struct told){nvtx_name, 0, 0}); /* the parent's: that is how NCCL is */
	SAY("Shrink %p %d %d %p %d", (void *)comm, excluded[n - 1], n, config, flags);
	return give(child);
}

ncclResult_t ncclCommGrow(
	ncclComm_t comm, int n, const ncclUniqueId *id, int rank, ncclComm_t *child, void *config)
{
	SAY("Grow %p %d %u %d %p", (void *)comm, n, id ? sum(id) : 0, rank, config);
	return give(child);
}

/* Only of what is ready: NCCL warns in the job's log otherwise. */
static ncclResult_t ask(ncclComm_t comm, int *value, int answer)
{
	if (depth)
		SAY("WARNING: %p is not ready", (void *)comm);
	*value = answer;
	return 0;
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int *n)
{
	return ask(comm, n, 2);
}

ncclResult_t ncclCommUserRank(const ncclComm_t comm, int *rank)
{
	return ask(comm, rank, 1);
}

ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
	SAY("Finalize %p", (void *)comm);
	return result();
}

ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
	SAY("Destroy %p", (void *)comm);
	return result();
}

ncclResult_t ncclCommAbort(ncclComm_t comm)
{
	SAY("Abort %p", (void *)comm);
	return result();
}

ncclResult_t ncclGroupStart(void)
{
	push("ncclGroupStart", NULL);
	pop(NULL);
	SAY("GroupStart");
	depth++;
	return 0;
}

ncclResult_t ncclGroupEnd(void)
{
	push("ncclGroupEnd", NULL);
	pop(NULL);
	SAY("GroupEnd");
	if (depth == 1 && n_moved)
		run_kernel("ncclDevKernel_SendRecv");
	n_moved = depth == 1 ? 0 : n_moved;
	if (--depth == 0)
		for (; n_late; n_late--)
			*late[n_late - 1] = (ncclComm_t)(last_handle += 0x1000);
	return result();
}

ncclResult_t ncclGroupSimulateEnd(void *information)
{
	SAY("GroupSimulateEnd %p", information);
	depth--;
	return result();
}

#define BUFFERS "%p %p %zu %d"

ncclResult_t ncclAllReduce(const void *send, void *receive, size_t count, ncclDataType_t type,
	ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
	tell("ncclAllReduce", count, -1);
	run_kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL");
	SAY("AllReduce " BUFFERS " %d %p %p", send, receive, count, type, op, (void *)comm,
		(void *)stream);
	return result();
}

ncclResult_t ncclBroadcast(const void *send, void *receive, size_t count, ncclDataType_t type,
	int root, ncclComm_t comm, cudaStream_t stream)
{
	tell("ncclBroadcast", count, root);
	SAY("Broadcast " BUFFERS " %d %p %p", send, receive, count, type, root, (void *)comm,
		(void *)stream);
	return result();
}

/* As NCCL does it: the call within goes through the same name, and may be interposed again. */
ncclResult_t ncclBcast(void *buffer, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
	cudaStream_t stream)
{
	return ncclBroadcast(buffer, buffer, count, type, root, comm, stream);
}

ncclResult_t ncclReduce(const void *send, void *receive, size_t count, ncclDataType_t type,
	ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream)
{
	SAY("Reduce " BUFFERS " %d %d %p %p", send, receive, count, type, op, root, (void *)comm,
		(void *)stream);
	return result();
}

ncclResult_t ncclAllGather(const void *send, void *receive, size_t count, ncclDataType_t type,
	ncclComm_t comm, cudaStream_t stream)
{
	SAY("AllGather " BUFFERS " %p %p", send, receive, count, type, (void *)comm,
		(void *)stream);
	return result();
}

ncclResult_t ncclReduceScatter(const void *send, void *receive, size_t count, ncclDataType_t type,
	ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
	SAY("ReduceScatter " BUFFERS " %d %p %p", send, receive, count, type, op, (void *)comm,
		(void *)stream);
	return result();
}

ncclResult_t ncclAlltoAll(const void *send, void *receive, size_t count, ncclDataType_t type,
	ncclComm_t comm, cudaStream_t stream)
{
	SAY("AlltoAll " BUFFERS " %p %p", send, receive, count, type, (void *)comm, (void *)stream);
	return result();
}

ncclResult_t ncclGather(const void *send, void *receive, size_t count, ncclDataType_t type,
	int root, ncclComm_t comm, cudaStream_t stream)
{
	SAY("Gather " BUFFERS " %d %p %p", send, receive, count, type, root, (void *)comm,
		(void *)stream);
	return result();
}

ncclResult_t ncclScatter(const void *send, void *receive, size_t count, ncclDataType_t type,
	int root, ncclComm_t comm, cudaStream_t stream)
{
	SAY("Scatter " BUFFERS " %d %p %p", send, receive, count, type, root, (void *)comm,
		(void *)stream);
	return result();
}

ncclResult_t ncclSend(const void *send, size_t count, ncclDataType_t type, int peer,
	ncclComm_t comm, cudaStream_t stream)
{
	tell("ncclSend", count, peer);
	n_moved += depth > 0;
	SAY("Send %p %zu %d %d %p %p", send, count, type, peer, (void *)comm, (void *)stream);
	return result();
}

ncclResult_t ncclRecv(void *receive, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
	cudaStream_t stream)
{
	SAY("Recv %p %zu %d %d %p %p", receive, count, type, peer, (void *)comm, (void *)stream);
	return result();
}

ncclResult_t ncclPutSignal(const void *send, size_t count, ncclDataType_t type, int peer,
	void *window, size_t offset, int signal, int context, unsigned flags, ncclComm_t comm,
	cudaStream_t stream)
{
	SAY("PutSignal %p %zu %d %d %p %zu %d %d %u %p %p", send, count, type, peer, window, offset,
		signal, context, flags, (void *)comm, (void *)stream);
	return result();
}

ncclResult_t ncclSignal(
	int peer, int signal, int context, unsigned flags, ncclComm_t comm, cudaStream_t stream)
{
	SAY("Signal %d %d %d %u %p %p", peer, signal, context, flags, (void *)comm, (void *)stream);
	return result();
}

ncclResult_t ncclWaitSignal(int n, void *signals, ncclComm_t comm, cudaStream_t stream)
{
	SAY("WaitSignal %d %p %p %p", n, signals, (void *)comm, (void *)stream);
	return result();
}
