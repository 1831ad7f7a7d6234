/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hook_cupti.h - between hook_cupti.c (life), hook_cuda.c (who uses it), cupti_ask.c (what for), cupti_find.c (the
 * library) and cupti_buffers.c (its records).
 *
 * CUPTI is used through its global activity interface, which all versions have; its structures and numbers
 * are those of cupti_layout.h.
 */
#ifndef LAPWING_TRACER_HOOK_CUPTI_H
#define LAPWING_TRACER_HOOK_CUPTI_H

#include "tracer/cupti_records.h"
#include "tracer/tracer.h"

struct lw_cupti_subscribe_params { /* CUpti_SubscriberParams */
	size_t struct_bytes;
	const char *name;
	char *holder; /* out: who has CUPTI; at least 64 bytes */
	size_t holder_bytes;
};

typedef void (*lw_cupti_callback)(void *user, int domain, uint32_t call, const void *what);

/* X(need, name behind "cupti", arguments): need 1 = without it there is no use; all return CUptiResult */
#define LW_CUPTI_FUNCTIONS(X)                                                                      \
	X(1, GetVersion, (uint32_t * version))                                                     \
	X(1, Subscribe, (void **subscriber, lw_cupti_callback callback, void *user))               \
	X(0, Subscribe_v2,                                                                         \
		(void **subscriber, lw_cupti_callback callback, void *user,                        \
			struct lw_cupti_subscribe_params *params))                                 \
	X(1, Unsubscribe, (void *subscriber))                                                      \
	X(1, ActivityRegisterCallbacks,                                                            \
		(void (*requested)(uint8_t * *buffer, size_t * n_bytes, size_t * n_records),       \
			void (*completed)(void *context, uint32_t stream, uint8_t *buffer,         \
				size_t n_bytes, size_t n_valid_bytes)))                            \
	X(0, ActivityRegisterTimestampCallback, (uint64_t(*now_ns)(void)))                         \
	X(1, ActivityEnable, (int kind))                                                           \
	X(0, ActivityEnableAndDump, (int kind))                                                    \
	X(1, ActivityDisable, (int kind))                                                          \
	X(0, ActivityEnableRuntimeApi, (uint32_t call, uint8_t enable))                            \
	X(0, ActivityEnableDriverApi, (uint32_t call, uint8_t enable))                             \
	X(0, ActivityEnableAllSyncRecords, (uint8_t enable))                                       \
	X(1, ActivityGetNextRecord, (uint8_t * buffer, size_t n_valid_bytes, uint8_t * *record))   \
	X(0, ActivityGetNumDroppedRecords, (void *context, uint32_t stream, size_t *n))            \
	X(1, ActivityFlushAll, (uint32_t flags))                                                   \
	X(0, ActivityPushExternalCorrelationId, (int kind, uint64_t id))                           \
	X(0, ActivityPopExternalCorrelationId, (int kind, uint64_t *id))                           \
	X(0, GetTimestamp, (uint64_t * now_ns))                                                    \
	X(0, SetThreadIdType, (int type))                                                          \
	X(0, GetResultString, (int result, const char **text))

struct lw_cupti_api {
#define X(need, name, arguments) int(*name) arguments;
	LW_CUPTI_FUNCTIONS(X)
#undef X
	char path[256];
	uint32_t
		version; /* CUPTI_API_VERSION; from CUDA 13.0 on 10000 x major + 100 x minor + .. */
};

/* ---- cupti_find.c ----------------------------------------------------------------------------------- */

/**
 * lw_cupti_find() - load the libcupti that belongs to this process and take its functions.
 * @why: says what is missing, else empty
 * Return: true when all that is needed is there; false leaves nothing loaded that was not.
 */
bool lw_cupti_find(struct lw_cupti_api *api, char *why, size_t why_bytes);

/** lw_cupti_is_cuda_loaded() - CUDA's libraries are in this process. @text: which, of one that seems not to have used them. */
bool lw_cupti_is_cuda_loaded(char *text, size_t text_bytes);

/* ---- cupti_ask.c ------------------------------------------------------------------------------------ */

enum lw_cupti_mode {
	LW_CUPTI_MODE_ON,
	LW_CUPTI_MODE_GRAPHS,  /* the same, a CUDA graph being one record */
	LW_CUPTI_MODE_OFF,     /* not before the program asks for it */
	LW_CUPTI_MODE_RELEASE, /* never: left to others */
	LW_CUPTI_MODE_UNKNOWN
};

/** lw_cupti_mode() - LAPWING_GPU. @ret_is_set: false = it was not set, and the mode is the default. */
enum lw_cupti_mode lw_cupti_mode(bool *ret_is_set);

/** lw_cupti_is_kineto_daemon() - does the job wait for a daemon that has it profiled by Kineto? */
bool lw_cupti_is_kineto_daemon(void);

enum {
	LW_CUPTI_ASK_GRAPHS =
		1u << 0, /* one record a CUDA graph, instead of one each of its nodes */
	LW_CUPTI_ASK_INSIDE =
		1u << 1, /* inside cuInit: the driver cannot be asked yet, and needs not */
};

/**
 * lw_cupti_enable(), lw_cupti_disable() - begin and end all kinds of records that are read.
 * @how: bits of the above
 * @ret_n: kinds that will come, calls of the runtime and of the driver being two
 * Return: CUptiResult: not 0 = not even kernels will come, and nothing is enabled.
 */
int lw_cupti_enable(const struct lw_cupti_api *api, uint32_t how, uint32_t *ret_n);
void lw_cupti_disable(const struct lw_cupti_api *api, uint32_t how);

/* ---- cupti_buffers.c -------------------------------------------------------------------------------- */

/* What the thread that reads buffers may do with CUPTI meanwhile. */
enum lw_cupti_flow {
	LW_CUPTI_FLOW_CLOSED, /* nothing; buffers that are full are still read */
	LW_CUPTI_FLOW_OPEN    /* ask it for what it has, now and then */
};

/**
 * lw_cupti_reader_start() - the thread that turns buffers into records, unless this process has it.
 * @api: must stay; Return: false = there can be none.
 */
bool lw_cupti_reader_start(const struct lw_cupti_api *api);

/** lw_cupti_reader_flow() - what the reader may do from now on; waits until it does nothing else. */
void lw_cupti_reader_flow(enum lw_cupti_flow flow);

/**
 * lw_cupti_reader_flush() - have CUPTI hand over all it has, and have that recorded.
 * Waits for at most @patience_ns. Return: false = not all was recorded in that time.
 */
bool lw_cupti_reader_flush(int64_t patience_ns);

/** lw_cupti_reader_forget() - a forked child: the thread and its buffers were its parent's. */
void lw_cupti_reader_forget(void);

/** lw_cupti_reader_clock() - CUPTI's times are CLOCK_MONOTONIC (it was given ours), or to be converted. */
void lw_cupti_reader_clock(bool is_ours, bool is_tid_of_kernel);

/* What CUPTI calls. */
void lw_cupti_buffer_requested(uint8_t **buffer, size_t *n_bytes, size_t *n_records);
void lw_cupti_buffer_completed(
	void *context, uint32_t stream, uint8_t *buffer, size_t n_bytes, size_t n_valid_bytes);

/* ---- hook_cupti.c ----------------------------------------------------------------------------------- */

/** lw_cupti_is_settled - nothing more is to be done at a use of CUDA. */
extern _Atomic bool lw_cupti_is_settled;

/** lw_cupti_used() - CUDA is about to be used. Subscribes where that is wanted; errno is kept. */
void lw_cupti_used(void);

/** lw_cupti_injected() - the same, called by the driver inside cuInit. */
void lw_cupti_injected(void);

/** lw_cupti_yield() - the program is about to take CUPTI for itself, from @caller: it is free when this returns. */
void lw_cupti_yield(const void *caller);

/** lw_cupti_driver_is_up() - the first call of CUDA that was seen has returned. */
void lw_cupti_driver_is_up(void);

#endif /* LAPWING_TRACER_HOOK_CUPTI_H */
