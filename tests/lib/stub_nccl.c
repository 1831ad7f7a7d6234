/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stub_nccl.c - says what it was called with, and returns what STUB_NCCL_RESULT says (0, or 7 = in progress, or an error).
 *
 * STUB_NCCL_LATE=1: as before 2.14, handles of communicators that are made in a group are there at its end.
 */
#include "tests/lib/stub_nccl.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int depth, n_late;
static ncclComm_t *late[8];
static uintptr_t last_handle = 0xc0000000;

static ncclResult_t result(void)
{
	const char *text = getenv("STUB_NCCL_RESULT");

	errno = ENOTTY; /* NCCL does change it */
	return text ? (ncclResult_t)strtol(text, NULL, 10) : 0;
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

#define SAY(...) (printf(__VA_ARGS__), putchar('\n'))

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
	for (int i = 0; i < n; i++)
		give(&comms[i]);
	return result();
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *child, void *config)
{
	SAY("Split %p %d %d %p", (void *)comm, color, key, config);
	*child = NULL;
	return color < 0 ? result() : give(child);
}

ncclResult_t ncclCommShrink(
	ncclComm_t comm, int *excluded, int n, ncclComm_t *child, void *config, int flags)
{
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
	SAY("GroupStart");
	depth++;
	return 0;
}

ncclResult_t ncclGroupEnd(void)
{
	SAY("GroupEnd");
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
	SAY("AllReduce " BUFFERS " %d %p %p", send, receive, count, type, op, (void *)comm,
		(void *)stream);
	return result();
}

ncclResult_t ncclBroadcast(const void *send, void *receive, size_t count, ncclDataType_t type,
	int root, ncclComm_t comm, cudaStream_t stream)
{
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
