/* SPDX-License-Identifier: Apache-2.0 */
/* hook_ddp.h - between hook_ddp.c and ddp_parameters.c. */
#ifndef LAPWING_TRACER_HOOK_DDP_H
#define LAPWING_TRACER_HOOK_DDP_H

#include "tracer/tracer.h"

/**
 * lw_ddp_record_parameters() - a PARAMETER record for each tensor of a std::vector<at::Tensor>.
 * @vector: the reducer's constructor argument, before the constructor may have moved it away
 * @reducer: serial within the process; @caller: return address in torch
 * What is not laid out as expected is not read: its records are missing, and counted as lost.
 */
void lw_ddp_record_parameters(const void *vector, uint32_t reducer, void *caller);

#endif /* LAPWING_TRACER_HOOK_DDP_H */
