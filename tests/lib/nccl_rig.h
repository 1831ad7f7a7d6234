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

#endif /* LAPWING_TESTS_LIB_NCCL_RIG_H */
