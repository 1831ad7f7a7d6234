/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stub_nccl.h - every function of NCCL's API that lapwing interposes, as nccl.h of 2.30 declares it, over a library that
 * says what it was called with and does nothing. For arguments and results; what NCCL does is in fake_nccl.c.
 */
#ifndef LAPWING_TESTS_LIB_STUB_NCCL_H
#define LAPWING_TESTS_LIB_STUB_NCCL_H

#include <stddef.h>

#define STUB_NCCL_NVTX_NAME 0x5eed000 /* see stub_nccl.c */

typedef int ncclResult_t;
typedef struct ncclComm *ncclComm_t;
typedef struct CUstream_st *cudaStream_t;
typedef int ncclDataType_t, ncclRedOp_t;
typedef struct {
	char internal[128];
} ncclUniqueId;

ncclResult_t ncclGetVersion(int *version);
ncclResult_t ncclGetUniqueId(ncclUniqueId *id);
ncclResult_t ncclCommInitRank(ncclComm_t *comm, int n, ncclUniqueId id, int rank);
ncclResult_t ncclCommInitRankConfig(
	ncclComm_t *comm, int n, ncclUniqueId id, int rank, void *config);
ncclResult_t ncclCommInitRankScalable(
	ncclComm_t *comm, int n, int rank, int n_ids, ncclUniqueId *ids, void *config);
ncclResult_t ncclCommInitAll(ncclComm_t *comms, int n, const int *devices);
ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *child, void *config);
ncclResult_t ncclCommShrink(
	ncclComm_t comm, int *excluded, int n, ncclComm_t *child, void *config, int flags);
ncclResult_t ncclCommGrow(
	ncclComm_t comm, int n, const ncclUniqueId *id, int rank, ncclComm_t *child, void *config);
ncclResult_t ncclCommCount(const ncclComm_t comm, int *n);
ncclResult_t ncclCommUserRank(const ncclComm_t comm, int *rank);
ncclResult_t ncclCommFinalize(ncclComm_t comm);
ncclResult_t ncclCommDestroy(ncclComm_t comm);
ncclResult_t ncclCommAbort(ncclComm_t comm);
ncclResult_t ncclGroupStart(void);
ncclResult_t ncclGroupEnd(void);
ncclResult_t ncclGroupSimulateEnd(void *information);
ncclResult_t ncclAllReduce(const void *send, void *receive, size_t count, ncclDataType_t type,
	ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclBroadcast(const void *send, void *receive, size_t count, ncclDataType_t type,
	int root, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclBcast(void *buffer, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
	cudaStream_t stream);
ncclResult_t ncclReduce(const void *send, void *receive, size_t count, ncclDataType_t type,
	ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclAllGather(const void *send, void *receive, size_t count, ncclDataType_t type,
	ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclReduceScatter(const void *send, void *receive, size_t count, ncclDataType_t type,
	ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclAlltoAll(const void *send, void *receive, size_t count, ncclDataType_t type,
	ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclGather(const void *send, void *receive, size_t count, ncclDataType_t type,
	int root, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclScatter(const void *send, void *receive, size_t count, ncclDataType_t type,
	int root, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclSend(const void *send, size_t count, ncclDataType_t type, int peer,
	ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclRecv(void *receive, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
	cudaStream_t stream);
ncclResult_t ncclPutSignal(const void *send, size_t count, ncclDataType_t type, int peer,
	void *window, size_t offset, int signal, int context, unsigned flags, ncclComm_t comm,
	cudaStream_t stream);
ncclResult_t ncclSignal(
	int peer, int signal, int context, unsigned flags, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclWaitSignal(int n, void *signals, ncclComm_t comm, cudaStream_t stream);

#endif /* LAPWING_TESTS_LIB_STUB_NCCL_H */
