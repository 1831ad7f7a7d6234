/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/check.h"

#include <math.h>
#include <stdbool.h>

/* The contract's lists are numbered from 1 without gaps: their length is their highest number. */
#define X(...) +1
enum {
	N_COLLS = 0 LW_COLLS(X),
	N_SETTINGS = 0 LW_SETTINGS(X),
	N_LOSS_REASONS = 0 LW_LOSS_REASONS(X),
	N_RDMA_OPS = 0 LW_RDMA_OPS(X),
	N_COPY_OPS = 0 LW_COPY_OPS(X),
	N_GPU_SYNC_OPS = 0 LW_GPU_SYNC_OPS(X),
	N_LAUNCH_OPS = 0 LW_LAUNCH_OPS(X),
	N_NCCL_OPS = 0 LW_NCCL_OPS(X),
};
#undef X
enum { ANY = UINT16_MAX };

/* Smallest and largest op of each kind; max 0 and min 1 = kind unknown. */
static const struct {
	uint16_t min, max;
} op_range[LW_EV_COUNT] = {
	[0] = {1, 0},
	[LW_EV_PROCESS] = {0, ANY},
	[LW_EV_STRING] = {0, LW_STRING_MAX_BYTES / LW_STRING_PART_BYTES},
	[LW_EV_CLOCK] = {0, ANY},
	[LW_EV_COMM] = {LW_COMM_WORLD, LW_COMM_FREE},
	[LW_EV_COLLECTIVE] = {1, N_COLLS},
	[LW_EV_MESSAGE] = {LW_MESSAGE_SEND, LW_MESSAGE_RECV},
	[LW_EV_READY] = {0, ANY},
	[LW_EV_CYCLE] = {LW_CYCLE_AND, LW_CYCLE_RESPONSES},
	[LW_EV_BATCH] = {1, N_COLLS},
	[LW_EV_BATCH_TENSOR] = {0, ANY},
	[LW_EV_SETTING] = {1, N_SETTINGS},
	[LW_EV_WAIT] = {LW_WAIT_POLL_SLEEP, LW_WAIT_WORK},
	[LW_EV_SOCKET] = {0, ANY},
	[LW_EV_SOCKET_BYTES] = {LW_SAMPLE_PERIOD, LW_SAMPLE_EXIT},
	[LW_EV_TCP_INFO] = {LW_SAMPLE_PERIOD, LW_SAMPLE_EXIT},
	[LW_EV_GLOO_MESSAGE] = {0, ANY},
	[LW_EV_MARK] = {LW_MARK_STEP, LW_MARK_NVTX_POINT},
	[LW_EV_LOSS] = {1, N_LOSS_REASONS},
	[LW_EV_HOOK] = {LW_HOOK_ACTIVE, LW_HOOK_REFUSED},
	[LW_EV_THREAD] = {LW_THREAD_OTHER, LW_THREAD_BACKGROUND},
	[LW_EV_PARAMETER] = {0, ANY},
	[LW_EV_GRADIENT] = {0, ANY},
	[LW_EV_PROBE] = {1, N_COLLS},
	[LW_EV_RDMA_PORT] = {0, ANY},
	[LW_EV_RDMA_QP] = {LW_RDMA_QP_SEEN, LW_RDMA_QP_ENDED},
	[LW_EV_RDMA_WORK] = {1, N_RDMA_OPS},
	[LW_EV_RDMA_MEMORY] = {0, ANY},
	[LW_EV_GPU] = {0, ANY},
	[LW_EV_KERNEL] = {0, ANY},
	[LW_EV_COPY] = {1, N_COPY_OPS},
	[LW_EV_GPU_SYNC] = {1, N_GPU_SYNC_OPS},
	[LW_EV_LAUNCH] = {1, N_LAUNCH_OPS},
	[LW_EV_GPU_OVERHEAD] = {0, ANY},
	[LW_EV_NCCL_OP] = {1, N_NCCL_OPS},
	[LW_EV_NCCL_PROXY] = {LW_MESSAGE_SEND, LW_MESSAGE_RECV},
	[LW_EV_NCCL_NET] = {LW_NCCL_NET_QP, LW_NCCL_NET_SOCKET},
};

/* Amounts are int64 in the store: one with the top bit set would come out negative. */
static bool amounts_fit(const struct lw_event *event)
{
	uint64_t bits = 0;

	switch ((enum lw_event_kind)event->kind) {
	case LW_EV_COLLECTIVE:
		bits = event->collective.sent_bytes | event->collective.received_bytes;
		break;
	case LW_EV_MESSAGE:
		bits = event->message.bytes;
		break;
	case LW_EV_READY:
		bits = event->ready.bytes;
		break;
	case LW_EV_CYCLE:
		bits = (uint64_t)event->cycle.unchanged_ns |
		       (uint64_t)event->cycle.unchanged_span_ns;
		break;
	case LW_EV_BATCH:
		bits = event->batch.batch | event->batch.bytes;
		if (event->batch.fusion_bytes != UINT64_MAX)
			bits |= event->batch.fusion_bytes;
		break;
	case LW_EV_BATCH_TENSOR:
		bits = event->batch_tensor.batch | event->batch_tensor.bytes;
		break;
	case LW_EV_SOCKET_BYTES:
		bits = event->socket_bytes.sent_bytes | event->socket_bytes.received_bytes;
		break;
	case LW_EV_TCP_INFO:
		bits = event->tcp_info.acked_bytes | event->tcp_info.received_bytes |
		       event->tcp_info.delivery_bytes_per_s;
		break;
	case LW_EV_GLOO_MESSAGE:
		bits = event->gloo_message.bytes;
		break;
	case LW_EV_PARAMETER:
		bits = event->parameter.bytes;
		break;
	case LW_EV_PROBE:
		bits = event->probe.bytes;
		break;
	case LW_EV_RDMA_WORK:
		bits = event->rdma_work.bytes;
		break;
	case LW_EV_RDMA_MEMORY:
		bits = event->rdma_memory.registered_bytes | event->rdma_memory.register_ns;
		break;
	case LW_EV_GPU:
		bits = event->gpu.memory_bytes;
		break;
	case LW_EV_COPY:
		bits = event->copy.bytes;
		break;
	case LW_EV_LAUNCH:
		bits = event->launch.for_serial;
		break;
	case LW_EV_NCCL_OP:
		bits = event->nccl_op.serial | event->nccl_op.bytes;
		break;
	case LW_EV_NCCL_PROXY:
		bits = event->nccl_proxy.serial | event->nccl_proxy.bytes;
		break;
	case LW_EV_NCCL_NET:
		bits = event->nccl_net.serial | event->nccl_net.bytes;
		break;
	case LW_EV_LOSS: /* these are added up */
		return !(event->loss.count >> 48);
	case LW_EV_SETTING:
		return isfinite(event->setting.value);
	case LW_EV_STRING:
		return event->string.n_bytes <= LW_STRING_MAX_BYTES;
	case LW_EV_PROCESS:
	case LW_EV_CLOCK:
	case LW_EV_COMM:
	case LW_EV_WAIT:
	case LW_EV_SOCKET:
	case LW_EV_MARK:
	case LW_EV_HOOK:
	case LW_EV_THREAD:
	case LW_EV_GRADIENT:
	case LW_EV_RDMA_PORT:
	case LW_EV_RDMA_QP:
	case LW_EV_KERNEL:
	case LW_EV_GPU_SYNC:
	case LW_EV_GPU_OVERHEAD:
		break;
	}
	return !(bits >> 63);
}

int lw_event_check(const struct lw_event *event, int64_t latest_ns)
{
	if (event->kind >= LW_EV_COUNT || op_range[event->kind].min > op_range[event->kind].max)
		return LW_LOSS_UNKNOWN_KIND;
	if (event->op < op_range[event->kind].min || event->op > op_range[event->kind].max)
		return LW_LOSS_TORN;
	if (event->t0_ns < 0 || event->t1_ns < event->t0_ns || event->t1_ns > latest_ns)
		return LW_LOSS_TORN;
	return amounts_fit(event) ? 0 : LW_LOSS_TORN;
}
