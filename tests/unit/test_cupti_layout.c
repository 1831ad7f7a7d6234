/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The numbers of tracer/cupti_layout.h and cupti_calls.def against NVIDIA's headers, where these are installed:
 * then each is a static assertion, and this program builds only when all hold.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "schema/event.h"
#include "tracer/cupti_calls.def"
#include "tracer/cupti_layout.h"

#if defined(__has_include)
#if __has_include(<cupti_activity.h>) && __has_include(<cuda.h>)
#define HAS_HEADERS 1
#endif
#endif

#ifdef HAS_HEADERS
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wstrict-prototypes"
#include <cuda.h>
#include <cupti.h>
#include <cupti_activity_deprecated.h>
#pragma GCC diagnostic pop
#endif

#if defined(HAS_HEADERS) && CUPTI_API_VERSION >= 130000
static const bool is_compared = true;

/* the newest structure of each, member by member */
#define X(name, offset, structure, member)                                                         \
	static_assert(offsetof(CUpti_Activity##structure, member) == (offset), #name);
LW_CUPTI_MEMBERS(X)
#undef X

/* the oldest one is as long as is asked for at least */
#define X(name, bytes, structure)                                                                  \
	static_assert(sizeof(CUpti_Activity##structure) == (bytes), #name);
LW_CUPTI_LEASTS(X)
#undef X

#define X(name, number) static_assert(CUPTI_ACTIVITY_KIND_##name == (number), #name);
LW_CUPTI_KINDS(X)
#undef X

#define X(name, number, text) static_assert(CUPTI_ACTIVITY_OVERHEAD_##name == (number), #name);
LW_CUPTI_OVERHEADS(X)
#undef X

#define X(op, name, number) static_assert(CUPTI_RUNTIME_TRACE_CBID_##name == (number), #name);
LW_CUPTI_RUNTIME_CALLS(X)
#undef X
#define X(op, name, number) static_assert(CUPTI_DRIVER_TRACE_CBID_##name == (number), #name);
LW_CUPTI_DRIVER_CALLS(X)
#undef X

/* the same members in every version in between */
#define SAME(structure, member, name)                                                              \
	static_assert(offsetof(CUpti_Activity##structure, member) == LW_CUPTI_##name,              \
		#structure #member);
#define KERNEL(structure)                                                                          \
	SAME(structure, start, KERNEL_START)                                                       \
	SAME(structure, end, KERNEL_END)                                                           \
	SAME(structure, deviceId, KERNEL_DEVICE)                                                   \
	SAME(structure, contextId, KERNEL_CONTEXT)                                                 \
	SAME(structure, streamId, KERNEL_STREAM)                                                   \
	SAME(structure, correlationId, KERNEL_CORRELATION)                                         \
	SAME(structure, name, KERNEL_NAME)
#define COPY(structure, kind)                                                                      \
	SAME(structure, bytes, kind##_BYTES_MOVED)                                                 \
	SAME(structure, start, kind##_START)                                                       \
	SAME(structure, end, kind##_END)                                                           \
	SAME(structure, deviceId, kind##_DEVICE)                                                   \
	SAME(structure, contextId, kind##_CONTEXT)                                                 \
	SAME(structure, streamId, kind##_STREAM)                                                   \
	SAME(structure, correlationId, kind##_CORRELATION)
KERNEL(Kernel4)
KERNEL(Kernel5)
KERNEL(Kernel6)
KERNEL(Kernel7)
KERNEL(Kernel8)
KERNEL(Kernel9)
SAME(Kernel5, graphId, KERNEL_GRAPH)
SAME(Kernel5, graphNodeId, KERNEL_GRAPH_NODE)
SAME(Kernel9, graphId, KERNEL_GRAPH)
COPY(Memcpy, COPY)
COPY(Memcpy3, COPY)
COPY(Memcpy4, COPY)
COPY(Memcpy5, COPY)
SAME(Memcpy3, graphNodeId, COPY_GRAPH_NODE)
COPY(MemcpyPtoP, PEER)
COPY(MemcpyPtoP2, PEER)
COPY(MemcpyPtoP3, PEER)
SAME(MemcpyPtoP, srcDeviceId, PEER_SOURCE)
SAME(MemcpyPtoP, dstDeviceId, PEER_TARGET)
SAME(MemcpyPtoP2, graphNodeId, PEER_GRAPH_NODE)
COPY(Memset, MEMSET)
COPY(Memset2, MEMSET)
COPY(Memset3, MEMSET)
SAME(Memset2, graphNodeId, MEMSET_GRAPH_NODE)
SAME(Synchronization, cudaEventId, SYNC_EVENT)
SAME(Overhead, start, OVERHEAD_START)
SAME(Overhead2, start, OVERHEAD_START)
SAME(GraphTrace, streamId, GRAPH_STREAM)
#define DEVICE(structure)                                                                          \
	SAME(structure, globalMemorySize, DEVICE_MEMORY)                                           \
	SAME(structure, coreClockRate, DEVICE_CLOCK)                                               \
	SAME(structure, numMultiprocessors, DEVICE_MULTIPROCESSORS)                                \
	SAME(structure, computeCapabilityMajor, DEVICE_MAJOR)                                      \
	SAME(structure, id, DEVICE_ID)                                                             \
	SAME(structure, uuid, DEVICE_UUID)                                                         \
	SAME(structure, name, DEVICE_NAME)
DEVICE(Device2)
DEVICE(Device3)
DEVICE(Device4)
SAME(Device4, isCudaVisible, DEVICE_VISIBLE)

/* numbers of ours that are CUPTI's */
#define NUMBER(theirs, ours)  static_assert((int)(theirs) == (int)(ours), #theirs);
#define COPY_KIND(name)       NUMBER(CUPTI_ACTIVITY_MEMCPY_KIND_##name, LW_COPY_##name)
#define SYNC_TYPE(name, ours) NUMBER(CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_##name, LW_GPU_SYNC_##ours)
NUMBER(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, LW_CUPTI_EXTERNAL_CUSTOM0)
NUMBER(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM1, LW_CUPTI_EXTERNAL_CUSTOM1)
NUMBER(CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM, LW_CUPTI_THREAD_ID_SYSTEM)
NUMBER(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED, LW_CUPTI_FLUSH_FORCED)
NUMBER(CUPTI_SYNCHRONIZATION_INVALID_VALUE, UINT32_MAX)
NUMBER(CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED, LW_CUPTI_ERROR_MULTIPLE_SUBSCRIBERS)
NUMBER(CUPTI_ERROR_UNKNOWN, LW_CUPTI_ERROR_UNKNOWN)
NUMBER(CUPTI_ERROR_NOT_INITIALIZED, LW_CUPTI_ERROR_NOT_INITIALIZED)
COPY_KIND(HTOD)
COPY_KIND(DTOH)
COPY_KIND(HTOA)
COPY_KIND(ATOH)
COPY_KIND(ATOA)
COPY_KIND(ATOD)
COPY_KIND(DTOA)
COPY_KIND(DTOD)
COPY_KIND(HTOH)
COPY_KIND(PTOP)
SYNC_TYPE(EVENT_SYNCHRONIZE, EVENT)
SYNC_TYPE(STREAM_WAIT_EVENT, STREAM_WAIT_EVENT)
SYNC_TYPE(STREAM_SYNCHRONIZE, STREAM)
SYNC_TYPE(CONTEXT_SYNCHRONIZE, CONTEXT)
#else
static const bool is_compared = false;
#endif

static void every_member_lies_within_the_shortest_record_or_is_known_to_come_later(void **state)
{
	static const struct {
		const char *name;
		int offset;
	} members[] = {
#define X(name, offset, structure, member) {#name, offset},
		LW_CUPTI_MEMBERS(X)
#undef X
	};
	static const struct {
		const char *prefix;
		int bytes;
	} leasts[] = {
#define X(name, bytes, structure) {#name "_", bytes},
		LW_CUPTI_LEASTS(X)
#undef X
	};
	int n_beyond = 0;

	(void)state;
	for (size_t m = 0; m < sizeof(members) / sizeof(members[0]); m++)
		for (size_t l = 0; l < sizeof(leasts) / sizeof(leasts[0]); l++)
			if (!strncmp(members[m].name, leasts[l].prefix, strlen(leasts[l].prefix)) &&
				members[m].offset + 4 > leasts[l].bytes) {
				assert_true(strstr(members[m].name, "GRAPH") ||
					    strstr(members[m].name, "VISIBLE"));
				n_beyond++;
			}
	/* graph and node of kernels; node of copies, peers' and memsets; who may see a device */
	assert_int_equal(n_beyond, 6);
	print_message("headers of CUPTI: %s\n", is_compared ? "compared" : "none of CUDA 13 here");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			every_member_lies_within_the_shortest_record_or_is_known_to_come_later),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
