/* SPDX-License-Identifier: Apache-2.0 */
/* internal.h - between core.c, record.c, link.c and hook_mpi_probe.c only; other hooks use tracer.h. */
#ifndef LAPWING_TRACER_INTERNAL_H
#define LAPWING_TRACER_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "schema/ring.h"

/* Counts activations: a thread whose ring belongs to an older epoch (a fork ago) makes a new one. */
extern uint32_t lw_epoch;

/** lw_ring_dir() - the ring directory of this job, made if necessary; NULL = nowhere to record. */
const char *lw_ring_dir(void);

/** lw_collector_wanted() - variables-only job: start the per-host collector unless one is there. */
void lw_collector_wanted(const char *dir);

/** lw_ring_create() - a new ring file for this thread. Return: mapped ring or NULL. */
struct lw_ring_header *lw_ring_create(void);

/** lw_rings_close() - mark every ring of this process as ended in order. */
void lw_rings_close(void);

/** lw_rings_mark() - every ring of this process has ended in order, or (exec failed) has not. */
void lw_rings_mark(bool is_closed);

/** lw_rings_forget() - forked child: the parent's rings are not ours. */
void lw_rings_forget(void);

/** lw_losses_flush() - turn the counters of losses that had no ring into LOSS records. */
void lw_losses_flush(void);

extern pid_t lw_own_pid;

#endif /* LAPWING_TRACER_INTERNAL_H */
