/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nccl_tables.c - what NCCL looks up of its profiler plugin: a table of each version, ncclProfiler_v1 to v6.
 *
 * All call hook_nccl_plugin.c, with their version.
 */
#include "tracer/hook_nccl_plugin.h"

typedef void (*logger)(void); /* ncclDebugLogger_t: never called */

static const struct lw_nccl_comm_facts not_known = {.rank = -1};

#define ADAPTERS(version)                                                                          \
	static int start_v##version(void *context, void **ret_handle, void *event)                 \
	{                                                                                          \
		return lw_nccl_plugin_start(version, context, ret_handle, event);                  \
	}                                                                                          \
	static int change_v##version(void *handle, int state, void *arguments)                     \
	{                                                                                          \
		return lw_nccl_plugin_change(version, handle, state, arguments);                   \
	}

/* v1 to v3 do not say which communicator it is for; v4 and v5 do, in different orders. */
#define INIT_OLD(version)                                                                          \
	static int init_v##version(void **context, int *mask)                                      \
	{                                                                                          \
		return lw_nccl_plugin_open(version, context, mask, &not_known);                    \
	}
#define INIT_OF(version, ...)                                                                      \
	static int init_v##version(__VA_ARGS__, int n_ranks, int rank, logger log)                 \
	{                                                                                          \
		const struct lw_nccl_comm_facts facts = {                                          \
			.key = hash, .size = n_ranks, .rank = rank};                               \
                                                                                                   \
		(void)name, (void)n_nodes, (void)log;                                              \
		return lw_nccl_plugin_open(version, context, mask, &facts);                        \
	}

#define TABLE(version, ...)                                                                        \
	extern const struct profiler_v##version {                                                  \
		const char *name;                                                                  \
		int (*init)(__VA_ARGS__);                                                          \
		int (*start_event)(void *context, void **ret_handle, void *event);                 \
		int (*stop_event)(void *handle);                                                   \
		int (*record_event_state)(void *handle, int state, void *arguments);               \
		int (*finalize)(void *context);                                                    \
	} ncclProfiler_v##version;                                                                 \
	LW_EXPORT const struct profiler_v##version ncclProfiler_v##version = {"lapwing",           \
		init_v##version, start_v##version, lw_nccl_plugin_stop, change_v##version,         \
		lw_nccl_plugin_finalize};

INIT_OLD(1)
INIT_OLD(2)
INIT_OLD(3)
INIT_OF(4, void **context, int *mask, const char *name, uint64_t hash, int n_nodes)
INIT_OF(5, void **context, uint64_t hash, int *mask, const char *name, int n_nodes)
INIT_OF(6, void **context, uint64_t hash, int *mask, const char *name, int n_nodes)
ADAPTERS(1)
ADAPTERS(2)
ADAPTERS(3)
ADAPTERS(4)
ADAPTERS(5)
ADAPTERS(6)
TABLE(1, void **, int *)
TABLE(2, void **, int *)
TABLE(3, void **, int *)
TABLE(4, void **, int *, const char *, uint64_t, int, int, int, logger)
TABLE(5, void **, uint64_t, int *, const char *, int, int, int, logger)
TABLE(6, void **, uint64_t, int *, const char *, int, int, int, logger)
