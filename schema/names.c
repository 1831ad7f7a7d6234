/* SPDX-License-Identifier: Apache-2.0 */
/* names.c - the contract's numbers as text, expanded from the X-macros of event.h. */
#include <stddef.h>

#include "schema/event.h"
#include "schema/store.h"

const char *lw_coll_name(int op)
{
	switch ((enum lw_coll)op) {
#define X(name, number, text)                                                                      \
	case LW_COLL_##name:                                                                       \
		return text;
		LW_COLLS(X)
#undef X
	}
	return NULL;
}

const char *lw_rdma_op_name(int op)
{
	switch ((enum lw_rdma_op)op) {
#define X(name, number, text)                                                                      \
	case LW_RDMA_##name:                                                                       \
		return text;
		LW_RDMA_OPS(X)
#undef X
	}
	return NULL;
}

const char *lw_copy_op_name(int op)
{
	switch ((enum lw_copy_op)op) {
#define X(name, number, text)                                                                      \
	case LW_COPY_##name:                                                                       \
		return text;
		LW_COPY_OPS(X)
#undef X
	}
	return NULL;
}

const char *lw_gpu_sync_op_name(int op)
{
	switch ((enum lw_gpu_sync_op)op) {
#define X(name, number, text)                                                                      \
	case LW_GPU_SYNC_##name:                                                                   \
		return text;
		LW_GPU_SYNC_OPS(X)
#undef X
	}
	return NULL;
}

const char *lw_launch_op_name(int op)
{
	switch ((enum lw_launch_op)op) {
#define X(name, number, text)                                                                      \
	case LW_LAUNCH_##name:                                                                     \
		return text;
		LW_LAUNCH_OPS(X)
#undef X
	}
	return NULL;
}

const char *lw_nccl_op_name(int op)
{
	switch ((enum lw_nccl_op)op) {
#define X(name, number, text)                                                                      \
	case LW_NCCL_##name:                                                                       \
		return text;
		LW_NCCL_OPS(X)
#undef X
	}
	return NULL;
}

const char *lw_nccl_algorithm_name(int algorithm)
{
	switch ((enum lw_nccl_algorithm)algorithm) {
#define X(name, number, text)                                                                      \
	case LW_NCCL_ALGORITHM_##name:                                                             \
		return text;
		LW_NCCL_ALGORITHMS(X)
#undef X
	}
	return NULL;
}

const char *lw_nccl_protocol_name(int protocol)
{
	switch ((enum lw_nccl_protocol)protocol) {
#define X(name, number, text)                                                                      \
	case LW_NCCL_PROTOCOL_##name:                                                              \
		return text;
		LW_NCCL_PROTOCOLS(X)
#undef X
	}
	return NULL;
}

const char *lw_setting_name(int setting)
{
	switch ((enum lw_setting)setting) {
#define X(name, number, text)                                                                      \
	case LW_SETTING_##name:                                                                    \
		return text;
		LW_SETTINGS(X)
#undef X
	}
	return NULL;
}

const char *lw_loss_reason_name(int reason)
{
	switch ((enum lw_loss_reason)reason) {
#define X(name, number, text)                                                                      \
	case LW_LOSS_##name:                                                                       \
		return text;
		LW_LOSS_REASONS(X)
#undef X
	}
	return NULL;
}

const char *lw_dtype_name(int dtype)
{
	switch ((enum lw_dtype)dtype) {
#define X(name, number, text, bytes)                                                               \
	case LW_DTYPE_##name:                                                                      \
		return text;
		LW_DTYPES(X)
#undef X
	}
	return NULL;
}

int lw_dtype_bytes(int dtype)
{
	switch ((enum lw_dtype)dtype) {
#define X(name, number, text, bytes)                                                               \
	case LW_DTYPE_##name:                                                                      \
		return bytes;
		LW_DTYPES(X)
#undef X
	}
	return 0;
}

const char *lw_event_kind_name(int kind)
{
	switch ((enum lw_event_kind)kind) {
#define X(name, number, member, text)                                                              \
	case LW_EV_##name:                                                                         \
		return #member;
		LW_EVENT_KINDS(X)
#undef X
	}
	return NULL;
}

const char *lw_framework_name(int framework)
{
	return framework == LW_FRAMEWORK_HOROVOD     ? "horovod"
	       : framework == LW_FRAMEWORK_TORCH_DDP ? "torch_ddp"
						     : "";
}

const char *lw_transport_name(int transport)
{
	return transport == LW_TRANSPORT_MPI    ? "mpi"
	       : transport == LW_TRANSPORT_GLOO ? "gloo"
	       : transport == LW_TRANSPORT_NCCL ? "nccl"
						: "";
}
