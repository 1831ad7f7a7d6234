/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cupti_layout.h - where CUPTI's records have what is read of them, and its numbers.
 *
 * Facts of cupti_activity.h and cupti_activity_deprecated.h of CUDA 13.0, taken over as numbers because no
 * header of a vendor is needed to build; tests/unit/test_cupti_layout.c compares each with the headers
 * where these are installed. NVIDIA only ever appends to a record: the offsets are those of all versions
 * from CUDA 9.0 on, and what came later is read only where the record is long enough.
 */
#ifndef LAPWING_TRACER_CUPTI_LAYOUT_H
#define LAPWING_TRACER_CUPTI_LAYOUT_H

/* CUpti_ActivityKind. X(NAME, number) */
#define LW_CUPTI_KINDS(X)                                                                          \
	X(MEMCPY, 1)                                                                               \
	X(MEMSET, 2)                                                                               \
	X(KERNEL, 3)                                                                               \
	X(DRIVER, 4)                                                                               \
	X(RUNTIME, 5)                                                                              \
	X(DEVICE, 8)                                                                               \
	X(CONCURRENT_KERNEL, 10)                                                                   \
	X(OVERHEAD, 17)                                                                            \
	X(MEMCPY2, 22)                                                                             \
	X(SYNCHRONIZATION, 38)                                                                     \
	X(EXTERNAL_CORRELATION, 39)                                                                \
	X(GRAPH_TRACE, 51)

enum lw_cupti_kind {
#define X(name, number) LW_CUPTI_KIND_##name = (number),
	LW_CUPTI_KINDS(X)
#undef X
};

/*
 * X(NAME, offset, newest structure without its CUpti_Activity, member). Every record begins with its kind,
 * 4 bytes. Lengths of members are those of the readers in cupti_records.c.
 */
#define LW_CUPTI_MEMBERS(X)                                                                        \
	X(KERNEL_START, 16, Kernel10, start)                                                       \
	X(KERNEL_END, 24, Kernel10, end)                                                           \
	X(KERNEL_DEVICE, 40, Kernel10, deviceId)                                                   \
	X(KERNEL_CONTEXT, 44, Kernel10, contextId)                                                 \
	X(KERNEL_STREAM, 48, Kernel10, streamId)                                                   \
	X(KERNEL_CORRELATION, 92, Kernel10, correlationId)                                         \
	X(KERNEL_NAME, 104, Kernel10, name)                                                        \
	X(KERNEL_GRAPH_NODE, 144, Kernel10, graphNodeId)                                           \
	X(KERNEL_GRAPH, 156, Kernel10, graphId)                                                    \
	X(COPY_KIND, 4, Memcpy6, copyKind)                                                         \
	X(COPY_BYTES_MOVED, 8, Memcpy6, bytes)                                                     \
	X(COPY_START, 16, Memcpy6, start)                                                          \
	X(COPY_END, 24, Memcpy6, end)                                                              \
	X(COPY_DEVICE, 32, Memcpy6, deviceId)                                                      \
	X(COPY_CONTEXT, 36, Memcpy6, contextId)                                                    \
	X(COPY_STREAM, 40, Memcpy6, streamId)                                                      \
	X(COPY_CORRELATION, 44, Memcpy6, correlationId)                                            \
	X(COPY_GRAPH_NODE, 64, Memcpy6, graphNodeId)                                               \
	X(PEER_KIND, 4, MemcpyPtoP4, copyKind)                                                     \
	X(PEER_BYTES_MOVED, 8, MemcpyPtoP4, bytes)                                                 \
	X(PEER_START, 16, MemcpyPtoP4, start)                                                      \
	X(PEER_END, 24, MemcpyPtoP4, end)                                                          \
	X(PEER_DEVICE, 32, MemcpyPtoP4, deviceId)                                                  \
	X(PEER_CONTEXT, 36, MemcpyPtoP4, contextId)                                                \
	X(PEER_STREAM, 40, MemcpyPtoP4, streamId)                                                  \
	X(PEER_SOURCE, 44, MemcpyPtoP4, srcDeviceId)                                               \
	X(PEER_TARGET, 52, MemcpyPtoP4, dstDeviceId)                                               \
	X(PEER_CORRELATION, 60, MemcpyPtoP4, correlationId)                                        \
	X(PEER_GRAPH_NODE, 72, MemcpyPtoP4, graphNodeId)                                           \
	X(MEMSET_BYTES_MOVED, 8, Memset4, bytes)                                                   \
	X(MEMSET_START, 16, Memset4, start)                                                        \
	X(MEMSET_END, 24, Memset4, end)                                                            \
	X(MEMSET_DEVICE, 32, Memset4, deviceId)                                                    \
	X(MEMSET_CONTEXT, 36, Memset4, contextId)                                                  \
	X(MEMSET_STREAM, 40, Memset4, streamId)                                                    \
	X(MEMSET_CORRELATION, 44, Memset4, correlationId)                                          \
	X(MEMSET_GRAPH_NODE, 64, Memset4, graphNodeId)                                             \
	X(API_CALL, 4, API, cbid)                                                                  \
	X(API_START, 8, API, start)                                                                \
	X(API_END, 16, API, end)                                                                   \
	X(API_THREAD, 28, API, threadId)                                                           \
	X(API_CORRELATION, 32, API, correlationId)                                                 \
	X(API_RESULT, 36, API, returnValue)                                                        \
	X(SYNC_TYPE, 4, Synchronization2, type)                                                    \
	X(SYNC_START, 8, Synchronization2, start)                                                  \
	X(SYNC_END, 16, Synchronization2, end)                                                     \
	X(SYNC_CORRELATION, 24, Synchronization2, correlationId)                                   \
	X(SYNC_CONTEXT, 28, Synchronization2, contextId)                                           \
	X(SYNC_STREAM, 32, Synchronization2, streamId)                                             \
	X(SYNC_EVENT, 36, Synchronization2, cudaEventId)                                           \
	X(EXTERNAL_KIND, 4, ExternalCorrelation, externalKind)                                     \
	X(EXTERNAL_ID, 8, ExternalCorrelation, externalId)                                         \
	X(EXTERNAL_CORRELATION, 16, ExternalCorrelation, correlationId)                            \
	X(OVERHEAD_KIND, 4, Overhead3, overheadKind)                                               \
	X(OVERHEAD_START, 24, Overhead3, start)                                                    \
	X(OVERHEAD_END, 32, Overhead3, end)                                                        \
	X(GRAPH_CORRELATION, 4, GraphTrace2, correlationId)                                        \
	X(GRAPH_START, 8, GraphTrace2, start)                                                      \
	X(GRAPH_END, 16, GraphTrace2, end)                                                         \
	X(GRAPH_DEVICE, 24, GraphTrace2, deviceId)                                                 \
	X(GRAPH_GRAPH, 28, GraphTrace2, graphId)                                                   \
	X(GRAPH_CONTEXT, 32, GraphTrace2, contextId)                                               \
	X(GRAPH_STREAM, 36, GraphTrace2, streamId)                                                 \
	X(DEVICE_MEMORY, 16, Device5, globalMemorySize)                                            \
	X(DEVICE_CLOCK, 36, Device5, coreClockRate)                                                \
	X(DEVICE_MULTIPROCESSORS, 44, Device5, numMultiprocessors)                                 \
	X(DEVICE_MAJOR, 104, Device5, computeCapabilityMajor)                                      \
	X(DEVICE_MINOR, 108, Device5, computeCapabilityMinor)                                      \
	X(DEVICE_ID, 112, Device5, id)                                                             \
	X(DEVICE_UUID, 120, Device5, uuid)                                                         \
	X(DEVICE_NAME, 136, Device5, name)                                                         \
	X(DEVICE_VISIBLE, 144, Device5, isCudaVisible)

enum {
#define X(name, offset, structure, member) LW_CUPTI_##name = (offset),
	LW_CUPTI_MEMBERS(X)
#undef X
};

/* The shortest structure of each kind, which is the oldest. X(NAME, bytes, oldest structure) */
#define LW_CUPTI_LEASTS(X)                                                                         \
	X(KERNEL, 144, Kernel4)                                                                    \
	X(COPY, 64, Memcpy)                                                                        \
	X(PEER, 72, MemcpyPtoP)                                                                    \
	X(MEMSET, 64, Memset)                                                                      \
	X(API, 40, API)                                                                            \
	X(SYNC, 40, Synchronization)                                                               \
	X(EXTERNAL, 24, ExternalCorrelation)                                                       \
	X(OVERHEAD, 40, Overhead)                                                                  \
	X(GRAPH, 48, GraphTrace)                                                                   \
	X(DEVICE, 144, Device2)

enum {
#define X(name, bytes, structure) LW_CUPTI_##name##_BYTES = (bytes),
	LW_CUPTI_LEASTS(X)
#undef X
};

/* CUpti_ActivityOverheadKind. X(NAME, number, text in the store) */
#define LW_CUPTI_OVERHEADS(X)                                                                      \
	X(UNKNOWN, 0, "unknown")                                                                   \
	X(DRIVER_COMPILER, 1, "compiler of the driver")                                            \
	X(CUPTI_BUFFER_FLUSH, 1 << 16, "buffer flush")                                             \
	X(CUPTI_INSTRUMENTATION, 2 << 16, "instrumentation")                                       \
	X(CUPTI_RESOURCE, 3 << 16, "resources of CUPTI")                                           \
	X(RUNTIME_TRIGGERED_MODULE_LOADING, 4 << 16, "module loading")                             \
	X(LAZY_FUNCTION_LOADING, 5 << 16, "lazy function loading")                                 \
	X(COMMAND_BUFFER_FULL, 6 << 16, "command buffer full")                                     \
	X(ACTIVITY_BUFFER_REQUEST, 7 << 16, "buffer request")                                      \
	X(UVM_ACTIVITY_INIT, 8 << 16, "start of unified memory's records")

enum {
	LW_CUPTI_EXTERNAL_CUSTOM0 = 3, /* CUpti_ExternalCorrelationKind */
	LW_CUPTI_EXTERNAL_CUSTOM1 = 4,
	LW_CUPTI_THREAD_ID_SYSTEM = 1, /* CUpti_ActivityThreadIdType: the kernel's tid */
	LW_CUPTI_FLUSH_FORCED = 1,     /* CUPTI_ACTIVITY_FLAG_FLUSH_FORCED */
};

/* CUptiResult */
enum {
	LW_CUPTI_SUCCESS = 0,
	LW_CUPTI_ERROR_NOT_INITIALIZED = 15, /* what 11.8 to 12.8 say without a driver */
	LW_CUPTI_ERROR_MULTIPLE_SUBSCRIBERS = 39,
	LW_CUPTI_ERROR_UNKNOWN = 999, /* and what 13.0 says */
};

#endif /* LAPWING_TRACER_CUPTI_LAYOUT_H */
