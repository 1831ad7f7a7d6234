/* SPDX-License-Identifier: Apache-2.0 */
/*
 * volume.h - how much an operation over ranks moves: callers count differently by interface and by kind.
 *
 * Reads:  a run after match.   Writes: nothing.
 * Not for: operations of NCCL that are not matched (nccl_served.h).
 */
#ifndef LAPWING_ANALYZER_RECONSTRUCT_VOLUME_H
#define LAPWING_ANALYZER_RECONSTRUCT_VOLUME_H

#include "analyzer/run.h"

/** lw_group_size_bytes() - what nccl-tests calls the size of @group: algbw is of it. 0: not recorded. */
double lw_group_size_bytes(const struct lw_run *run, const struct lw_group *group);

/** lw_group_given_bytes() - what each rank hands over: of an allgather and a gather its own part, else the size. */
double lw_group_given_bytes(const struct lw_run *run, const struct lw_group *group);

/** lw_group_bus_factor() - busbw / algbw of @group, by its operation and its own number of ranks; NAN: not known. */
double lw_group_bus_factor(const struct lw_group *group);

#endif /* LAPWING_ANALYZER_RECONSTRUCT_VOLUME_H */
