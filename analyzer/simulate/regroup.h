/* SPDX-License-Identifier: Apache-2.0 */
/*
 * regroup.h - the tensors of a job in explicit groups, in the order that its cache would then have.
 *
 * Reads:  a replay.   Writes: nothing.
 * In the first step of a job, all of it new to the cache, a group's tensors arrive together and in the
 * order of the group's list, and groups in the order in which they are complete.
 */
#ifndef LAPWING_ANALYZER_SIMULATE_REGROUP_H
#define LAPWING_ANALYZER_SIMULATE_REGROUP_H

#include "analyzer/simulate/replay.h"

/**
 * lw_regroup() - who is with whom, and in which order.
 * Gradients are what some counted step all-reduces; the rest stays alone. Their order of registration
 * is not recorded: it is taken to be the reverse of the mean order of becoming ready, and a group's
 * list to be in it.
 * @n_groups: hvd.DistributedOptimizer(groups=n): the first (gradients mod n) groups hold one more
 * @group_of: NULL, or by recorded tensor instead of @n_groups
 * @ret_from: by tensor of the new job, which recorded one it is
 * @ret_group_of: by tensor of the new job, from 0 on without gaps, or LW_HVD_NO_GROUP
 * Return: LW_OK or LW_ERR_NOMEM.
 */
int lw_regroup(const struct lw_replay *replay, uint32_t n_groups, const int32_t *group_of,
	uint32_t *ret_from, int32_t *ret_group_of);

#endif /* LAPWING_ANALYZER_SIMULATE_REGROUP_H */
