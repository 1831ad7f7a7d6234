/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_name.h - what the name of a kernel tells: computing, communicating, copying, and which operation of NCCL. */
#ifndef LAPWING_ANALYZER_LOAD_KERNEL_NAME_H
#define LAPWING_ANALYZER_LOAD_KERNEL_NAME_H

struct lw_kernel_kind {
	int gpu_class; /* enum lw_gpu_class */
	int nccl_op; /* enum lw_nccl_op; 0 = no kernel of NCCL's; OTHER: the name leaves it open */
	int algorithm; /* enum lw_nccl_algorithm, UNKNOWN where the name is of several */
};

/**
 * lw_kernel_kind() - @name: mangled or not.
 * Names say nothing of the protocol: NCCL compiles one kernel for all three and calls it LL (src/device/generate.py).
 */
struct lw_kernel_kind lw_kernel_kind(const char *name);

#endif /* LAPWING_ANALYZER_LOAD_KERNEL_NAME_H */
