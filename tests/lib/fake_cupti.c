/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_cupti.c - a double of libcupti: what fake_cudart.c says happened becomes records in its client's buffers.
 *
 * Built twice: as libcupti.so.13 (all functions, records of CUDA 13), and with OLD as libcupti.so.11.0 (no
 * clock of the client's, no narrowing, records of CUDA 9). The environment makes it difficult:
 *	FAKE_CUPTI_LOG        a line for each call and for each record, for the test to compare
 *	FAKE_CUPTI_SUBSCRIBE  what cuptiSubscribe returns (39 another has it, 999 no driver)
 *	FAKE_CUPTI_HOLDER     who has it, as cuptiSubscribe_v2 says
 *	FAKE_CUPTI_REFUSE     an activity kind that cannot be enabled
 *	FAKE_CUPTI_VERSION    what cuptiGetVersion says
 *	FAKE_CUPTI_SLOW_MS    how long a flush takes
 *	FAKE_CUPTI_BUFFER_RECORDS  records after which a buffer is full
 */
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/lib/fake_cupti.h"
#include "tracer/cupti_layout.h"

#pragma GCC diagnostic ignored "-Wmissing-prototypes" /* its callers know it by dlsym */

#define EXPORT __attribute__((visibility("default")))

enum {
	MAX_LIMIT_REACHED = 12,
	QUEUE_EMPTY = 18,
	NOT_COMPATIBLE = 14,
	N_KINDS = 256,
	N_CALLS = 1024
};

#ifdef OLD
enum {
	VERSION = 10,
	KERNEL_BYTES = 144,
	COPY_BYTES = 64,
	PEER_BYTES = 72,
	MEMSET_BYTES = 64,
	SYNC_BYTES = 40,
	OVERHEAD_BYTES = 40,
	DEVICE_BYTES = 144
};
#else
enum {
	VERSION = 130001,
	KERNEL_BYTES = 216,
	COPY_BYTES = 96,
	PEER_BYTES = 96,
	MEMSET_BYTES = 88,
	SYNC_BYTES = 56,
	OVERHEAD_BYTES = 56,
	DEVICE_BYTES = 192
};
#endif

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool is_enabled[N_KINDS], is_call_enabled[2][N_CALLS];
static void *subscriber;
static uint64_t (*client_now)(void);
static void (*request)(uint8_t **, size_t *, size_t *);
static void (*complete)(void *, uint32_t, uint8_t *, size_t, size_t);
static struct {
	uint8_t *bytes;
	size_t n_bytes, n_used, n_records;
} buffer;
static size_t n_dropped;

static _Thread_local struct {
	int kind;
	uint64_t id;
} external[16];
static _Thread_local size_t n_external;

static void say(const char *format, ...)
{
	const char *path = getenv("FAKE_CUPTI_LOG");
	FILE *file = path ? fopen(path, "a") : NULL;
	va_list arguments;

	if (!file)
		return;
	va_start(arguments, format);
	vfprintf(file, format, arguments);
	va_end(arguments);
	fclose(file);
}

static int number(const char *variable, int otherwise)
{
	const char *text = getenv(variable);

	return text ? (int)strtol(text, NULL, 10) : otherwise;
}

static uint64_t now(void)
{
	struct timespec time;

	if (client_now)
		return client_now();
	clock_gettime(CLOCK_REALTIME, &time);
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

/* ---- records ---------------------------------------------------------------------------------------- */

static size_t bytes_of(uint32_t kind)
{
	switch (kind) {
	case LW_CUPTI_KIND_CONCURRENT_KERNEL:
		return KERNEL_BYTES;
	case LW_CUPTI_KIND_MEMCPY:
		return COPY_BYTES;
	case LW_CUPTI_KIND_MEMCPY2:
		return PEER_BYTES;
	case LW_CUPTI_KIND_MEMSET:
		return MEMSET_BYTES;
	case LW_CUPTI_KIND_SYNCHRONIZATION:
		return SYNC_BYTES;
	case LW_CUPTI_KIND_OVERHEAD:
		return OVERHEAD_BYTES;
	case LW_CUPTI_KIND_DEVICE:
		return DEVICE_BYTES;
	case LW_CUPTI_KIND_EXTERNAL_CORRELATION:
		return LW_CUPTI_EXTERNAL_BYTES;
	case LW_CUPTI_KIND_GRAPH_TRACE:
		return LW_CUPTI_GRAPH_BYTES;
	case LW_CUPTI_KIND_RUNTIME:
	case LW_CUPTI_KIND_DRIVER:
		return LW_CUPTI_API_BYTES;
	default: /* of no kind that its client knows */
		return 64;
	}
}

static void give_back(void)
{
	uint8_t *bytes = buffer.bytes;
	size_t n_bytes = buffer.n_bytes, n_used = buffer.n_used;

	memset(&buffer, 0, sizeof(buffer));
	if (bytes)
		complete(NULL, 0, bytes, n_bytes, n_used);
}

/* Return: room for a record of @kind, its kind filled in; NULL = not wanted, or dropped. */
static uint8_t *append(uint32_t kind)
{
	size_t n = bytes_of(kind);
	size_t most = (size_t)number("FAKE_CUPTI_BUFFER_RECORDS", 0), asked = 0;
	uint8_t *record;

	if (!request || (kind < N_KINDS && !is_enabled[kind]))
		return NULL;
	if (buffer.bytes &&
		(buffer.n_used + n > buffer.n_bytes || (most && buffer.n_records >= most)))
		give_back();
	if (!buffer.bytes)
		request(&buffer.bytes, &buffer.n_bytes, &asked);
	if (!buffer.bytes) {
		n_dropped++;
		say("dropped\n");
		return NULL;
	}
	record = buffer.bytes + buffer.n_used;
	memset(record, 0, n);
	memcpy(record, &kind, sizeof(kind));
	buffer.n_used += n;
	buffer.n_records++;
	return record;
}

static void put(uint8_t *record, size_t offset, uint64_t value, size_t n_bytes)
{
	memcpy(record + offset, &value,
		n_bytes); /* the machines that CUDA runs on are little-endian */
}
#define PUT32(member, value) put(record, LW_CUPTI_##member, (value), 4)
#define PUT64(member, value) put(record, LW_CUPTI_##member, (value), 8)

static void put_external(uint32_t correlation)
{
	for (int kind = LW_CUPTI_EXTERNAL_CUSTOM0; kind <= LW_CUPTI_EXTERNAL_CUSTOM1; kind++)
		for (size_t i = n_external; i-- > 0;) {
			uint8_t *record;

			if (external[i].kind != kind)
				continue;
			record = append(LW_CUPTI_KIND_EXTERNAL_CORRELATION);
			if (record) {
				PUT32(EXTERNAL_KIND, (uint32_t)kind);
				PUT64(EXTERNAL_ID, external[i].id);
				PUT32(EXTERNAL_CORRELATION, correlation);
			}
			break; /* the innermost of each kind */
		}
}

EXPORT uint64_t fake_cupti_now(void)
{
	return now();
}

EXPORT void fake_cupti_api(bool is_driver, uint32_t call, uint32_t correlation, uint64_t start,
	uint64_t end, uint32_t result)
{
	uint32_t kind = is_driver ? LW_CUPTI_KIND_DRIVER : LW_CUPTI_KIND_RUNTIME;
	uint8_t *record;
	bool was_enabled;

	pthread_mutex_lock(&lock);
	was_enabled = is_enabled[kind];
	if (is_call_enabled[is_driver][call % N_CALLS])
		is_enabled[kind] = true;
	if (is_enabled[kind])
		put_external(correlation);
	record = append(kind);
	if (record) {
		PUT32(API_CALL, call);
		PUT64(API_START, start);
		PUT64(API_END, end);
		PUT32(API_THREAD, (uint32_t)gettid());
		PUT32(API_CORRELATION, correlation);
		PUT32(API_RESULT, result);
		say("api %d %u %u %llu %llu\n", is_driver, call, correlation,
			(unsigned long long)start, (unsigned long long)end);
	}
	is_enabled[kind] = was_enabled;
	pthread_mutex_unlock(&lock);
}

EXPORT void fake_cupti_kernel(const struct fake_work *work, const char *name)
{
	uint8_t *record;

	pthread_mutex_lock(&lock);
	record = append(LW_CUPTI_KIND_CONCURRENT_KERNEL);
	if (record) {
		PUT64(KERNEL_START, work->start);
		PUT64(KERNEL_END, work->end);
		PUT32(KERNEL_DEVICE, work->device);
		PUT32(KERNEL_CONTEXT, 1);
		PUT32(KERNEL_STREAM, work->stream);
		PUT32(KERNEL_CORRELATION, work->correlation);
		PUT64(KERNEL_NAME, (uint64_t)(uintptr_t)name);
		if (KERNEL_BYTES > (int)LW_CUPTI_KERNEL_GRAPH)
			PUT32(KERNEL_GRAPH, work->graph);
		say("kernel %s %u %u %u %llu %llu\n", name, work->device, work->stream,
			work->correlation, (unsigned long long)work->start,
			(unsigned long long)work->end);
	}
	pthread_mutex_unlock(&lock);
}

EXPORT void fake_cupti_copy(const struct fake_work *work, int how, uint64_t n_bytes)
{
	uint8_t *record;

	pthread_mutex_lock(&lock);
	record = append(how == FAKE_COPY_PEER     ? LW_CUPTI_KIND_MEMCPY2
			: how == FAKE_COPY_MEMSET ? LW_CUPTI_KIND_MEMSET
						  : LW_CUPTI_KIND_MEMCPY);
	if (record) {
		/* start to stream lie alike in all three */
		PUT64(COPY_BYTES_MOVED, n_bytes);
		PUT64(COPY_START, work->start);
		PUT64(COPY_END, work->end);
		PUT32(COPY_DEVICE, work->device);
		PUT32(COPY_CONTEXT, 1);
		PUT32(COPY_STREAM, work->stream);
		if (how == FAKE_COPY_PEER) {
			PUT32(PEER_SOURCE, work->device);
			PUT32(PEER_TARGET, work->device + 1);
			PUT32(PEER_CORRELATION, work->correlation);
		} else {
			PUT32(COPY_CORRELATION, work->correlation);
		}
		if (how < FAKE_COPY_PEER)
			record[LW_CUPTI_COPY_KIND] = (uint8_t)how;
		say("copy %d %llu %u %u %llu %llu\n", how, (unsigned long long)n_bytes,
			work->stream, work->correlation, (unsigned long long)work->start,
			(unsigned long long)work->end);
	}
	pthread_mutex_unlock(&lock);
}

EXPORT void fake_cupti_sync(
	int type, uint32_t stream, uint32_t correlation, uint64_t start, uint64_t end)
{
	uint8_t *record;

	pthread_mutex_lock(&lock);
	record = append(LW_CUPTI_KIND_SYNCHRONIZATION);
	if (record) {
		PUT32(SYNC_TYPE, (uint32_t)type);
		PUT64(SYNC_START, start);
		PUT64(SYNC_END, end);
		PUT32(SYNC_CORRELATION, correlation);
		PUT32(SYNC_CONTEXT, 1);
		PUT32(SYNC_STREAM, stream);
		PUT32(SYNC_EVENT, UINT32_MAX);
		say("sync %d %d %u %llu %llu\n", type, (int)stream, correlation,
			(unsigned long long)start, (unsigned long long)end);
	}
	pthread_mutex_unlock(&lock);
}

EXPORT void fake_cupti_strange(uint32_t kind)
{
	pthread_mutex_lock(&lock);
	append(kind);
	pthread_mutex_unlock(&lock);
}

#ifndef OLD
static void put_device(uint32_t id, uint8_t is_visible)
{
	uint8_t *record = append(LW_CUPTI_KIND_DEVICE);

	if (!record)
		return;
	PUT64(DEVICE_MEMORY, UINT64_C(80) << 30);
	PUT32(DEVICE_CLOCK, 1980000);
	PUT32(DEVICE_MULTIPROCESSORS, 132);
	PUT32(DEVICE_MAJOR, 9);
	PUT32(DEVICE_MINOR, 0);
	PUT32(DEVICE_ID, id);
	record[LW_CUPTI_DEVICE_VISIBLE] = is_visible;
	PUT64(DEVICE_NAME, (uint64_t)(uintptr_t) "Double of a GPU");
}
#endif

/* ---- the interface ---------------------------------------------------------------------------------- */

EXPORT int cuptiGetVersion(uint32_t *version)
{
	*version = (uint32_t)number("FAKE_CUPTI_VERSION", VERSION);
	return 0;
}

static int take(void **ret)
{
	int result = number("FAKE_CUPTI_SUBSCRIBE", 0);

	if (!result && subscriber)
		result = LW_CUPTI_ERROR_MULTIPLE_SUBSCRIBERS;
	if (!result)
		*ret = subscriber = &subscriber;
	return result;
}

EXPORT int cuptiSubscribe(void **ret, void *callback, void *user)
{
	int result = take(ret);

	(void)callback;
	(void)user;
	say("cuptiSubscribe %d\n", result);
	return result;
}

EXPORT int cuptiUnsubscribe(void *which)
{
	say("cuptiUnsubscribe\n");
	if (which != subscriber)
		return 1;
	subscriber = NULL;
	return 0;
}

EXPORT int cuptiActivityRegisterCallbacks(void *requested, void *completed)
{
	memcpy(&request, &requested, sizeof(request));
	memcpy(&complete, &completed, sizeof(complete));
	return 0;
}

EXPORT int cuptiActivityEnable(int kind)
{
	say("enable %d\n", kind);
	if (kind == number("FAKE_CUPTI_REFUSE", -1))
		return NOT_COMPATIBLE;
	is_enabled[kind % N_KINDS] = true;
	return 0;
}

EXPORT int cuptiActivityDisable(int kind)
{
	say("disable %d\n", kind);
	is_enabled[kind % N_KINDS] = false;
	return 0;
}

EXPORT int cuptiActivityGetNextRecord(uint8_t *bytes, size_t n_valid, uint8_t **record)
{
	uint32_t kind;
	uint8_t *next = bytes;

	if (*record) {
		memcpy(&kind, *record, sizeof(kind));
		next = *record + bytes_of(kind);
	}
	if (next >= bytes + n_valid)
		return MAX_LIMIT_REACHED;
	*record = next;
	return 0;
}

EXPORT int cuptiActivityGetNumDroppedRecords(void *context, uint32_t stream, size_t *n)
{
	(void)context;
	(void)stream;
	pthread_mutex_lock(&lock);
	*n = n_dropped;
	n_dropped = 0;
	pthread_mutex_unlock(&lock);
	return 0;
}

EXPORT int cuptiActivityFlushAll(uint32_t flags)
{
	say("flush %u\n", flags);
	usleep((useconds_t)number("FAKE_CUPTI_SLOW_MS", 0) * 1000);
	pthread_mutex_lock(&lock);
	give_back();
	pthread_mutex_unlock(&lock);
	return 0;
}

EXPORT int cuptiActivityPushExternalCorrelationId(int kind, uint64_t id)
{
	if (n_external < sizeof(external) / sizeof(external[0])) {
		external[n_external].kind = kind;
		external[n_external++].id = id;
	}
	return 0;
}

EXPORT int cuptiActivityPopExternalCorrelationId(int kind, uint64_t *id)
{
	for (size_t i = n_external; i-- > 0;)
		if (external[i].kind == kind) {
			*id = external[i].id;
			memmove(&external[i], &external[i + 1],
				(n_external - i - 1) * sizeof(external[0]));
			n_external--;
			return 0;
		}
	return QUEUE_EMPTY;
}

EXPORT int cuptiGetTimestamp(uint64_t *time)
{
	*time = now();
	return 0;
}

EXPORT int cuptiGetResultString(int result, const char **text)
{
	*text = result == LW_CUPTI_ERROR_UNKNOWN ? "CUPTI_ERROR_UNKNOWN"
						 : "CUPTI_ERROR_OF_A_DOUBLE";
	return 0;
}

#ifndef OLD
struct params {
	size_t n_bytes;
	const char *name;
	char *holder;
	size_t holder_bytes;
};

EXPORT int cuptiSubscribe_v2(void **ret, void *callback, void *user, struct params *params)
{
	const char *holder = getenv("FAKE_CUPTI_HOLDER");
	int result = take(ret);

	(void)callback;
	(void)user;
	say("cuptiSubscribe_v2 %s %d\n", params->name, result);
	if (result && holder)
		snprintf(params->holder, params->holder_bytes, "%s", holder);
	return result;
}

EXPORT int cuptiActivityEnableAndDump(int kind)
{
	int result = cuptiActivityEnable(kind);

	say("dump %d\n", kind);
	pthread_mutex_lock(&lock);
	if (!result && kind == LW_CUPTI_KIND_DEVICE) {
		put_device(0, 1);
		put_device(1, 0);
	}
	pthread_mutex_unlock(&lock);
	return result;
}

EXPORT int cuptiActivityRegisterTimestampCallback(uint64_t (*callback)(void))
{
	say("clock\n");
	client_now = callback;
	return 0;
}

EXPORT int cuptiSetThreadIdType(int type)
{
	say("thread ids %d\n", type);
	return 0;
}

EXPORT int cuptiActivityEnableAllSyncRecords(uint8_t enable)
{
	say("all sync records %d\n", enable);
	return 0;
}

EXPORT int cuptiActivityEnableRuntimeApi(uint32_t call, uint8_t enable)
{
	is_call_enabled[0][call % N_CALLS] = enable;
	return 0;
}

EXPORT int cuptiActivityEnableDriverApi(uint32_t call, uint8_t enable)
{
	is_call_enabled[1][call % N_CALLS] = enable;
	return 0;
}
#endif
