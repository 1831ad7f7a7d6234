/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_sync.h - computing that began late, as the host had waited for the device before it launched it. */
#ifndef LAPWING_ANALYZER_RECONSTRUCT_GPU_SYNC_H
#define LAPWING_ANALYZER_RECONSTRUCT_GPU_SYNC_H

#include "analyzer/run.h"

/**
 * lw_gpu_sync_find() - places of rank @r where overlap was lost to synchronisation, ascending, appended to run->gpu.lost
 * (all of them, step LW_NONE); counts those that are not clear. Return: LW_OK or LW_ERR_NOMEM.
 */
int lw_gpu_sync_find(struct lw_run *run, size_t r);

#endif /* LAPWING_ANALYZER_RECONSTRUCT_GPU_SYNC_H */
