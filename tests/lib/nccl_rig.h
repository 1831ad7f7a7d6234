/* SPDX-License-Identifier: Apache-2.0 */
/* nccl_rig.h - what the NCCL part of the tracer needs of the rest, without it: records are looked at and kept. */
#ifndef LAPWING_TESTS_LIB_NCCL_RIG_H
#define LAPWING_TESTS_LIB_NCCL_RIG_H

#include "tracer/hook_nccl_plugin.h"

enum { RIG_RECORDS_MAX = 1 << 16 };

extern struct lw_event rig_records[RIG_RECORDS_MAX]; /* of all kinds, the first ones */
extern _Atomic uint32_t rig_n_records;
extern _Atomic uint64_t rig_n_ops;  /* NCCL_OP records ever: none may have the serial of another */
extern _Atomic uint64_t rig_n_lost; /* by lw_loss() */
extern enum lw_hook_status rig_status;
extern const char *rig_detail; /* of the last hook report */

/** rig_clear() - forget what was recorded (not which serials were). */
void rig_clear(void);

/** rig_nth() - the @n-th record of @kind. Return: NULL = there are fewer. */
const struct lw_event *rig_nth(enum lw_event_kind kind, uint32_t n);

/** rig_key() - a communicator's name that was not used before. */
uint64_t rig_key(void);

/** rig_comm() - a communicator of its own for a test, with records forgotten. */
struct lw_nccl_comm *rig_comm(int32_t size, bool has_plugin);

/** rig_call(), rig_task() - what a call of the API says of an operation (at 100 ns), and what the plugin does (at 200). */
struct lw_nccl_facts rig_call(struct lw_nccl_comm *comm, uint16_t op, uint64_t bytes);
struct lw_nccl_facts rig_task(struct lw_nccl_comm *comm, uint16_t op, uint64_t bytes);

/* The plugin's table of any version; init is to be cast. */
struct rig_table {
	const char *name;
	void (*init)(void);
	int (*start)(void *context, void **handle, void *event);
	int (*stop)(void *handle);
	int (*state)(void *handle, int state, void *arguments);
	int (*finalize)(void *context);
};
extern const struct rig_table ncclProfiler_v1, ncclProfiler_v2, ncclProfiler_v3, ncclProfiler_v4,
	ncclProfiler_v5, ncclProfiler_v6;
typedef int (*rig_init_v1)(void **, int *); /* to v3 */
typedef int (*rig_init_v4)(void **, int *, const char *, uint64_t, int, int, int, void (*)(void));
typedef int (*rig_init_v5)(void **, uint64_t, int *, const char *, int, int, int, void (*)(void));

#endif /* LAPWING_TESTS_LIB_NCCL_RIG_H */
