/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu_counters.h - what NVML counted of the GPUs that ranks use, while steps that count went on.
 *
 * Reads:  devices of kind "gpu" with their counters (schema/counters.def, LW_NVML), steps.   Writes: nothing.
 * Counters are of a GPU whoever uses it. Between two readings they are taken as a straight line.
 */
#ifndef LAPWING_ANALYZER_RECONSTRUCT_GPU_COUNTERS_H
#define LAPWING_ANALYZER_RECONSTRUCT_GPU_COUNTERS_H

#include "analyzer/run.h"

/* What held the clock of the SMs down. X(name in counters.def, words) */
#define LW_GPU_HOLDS(X)                                                                            \
	X(sw_power, "its power limit")                                                             \
	X(sw_thermal, "its temperature (software)")                                                \
	X(hw_slowdown, "its hardware")                                                             \
	X(hw_thermal, "its temperature (hardware)")                                                \
	X(power_brake, "the power brake of its host")                                              \
	X(sync_boost, "a GPU that boosts together with it")

enum lw_gpu_hold {
#define X(name, words) LW_GPU_HOLD_##name,
	LW_GPU_HOLDS(X)
#undef X
		LW_GPU_N_HOLDS
};

/* Means over the window, per second where they are bytes; NAN: not counted. */
#define LW_GPU_COUNTS(X)                                                                           \
	X(busy_frac, "gpu_busy_ppm", 1e-6, true)                                                   \
	X(memory_busy_frac, "gpu_memory_busy_ppm", 1e-6, true)                                     \
	X(memory_used_bytes, "gpu_memory_used_bytes", 1, true)                                     \
	X(sm_clock_khz, "sm_clock_khz", 1, true)                                                   \
	X(power_mw, "power_mw", 1, true)                                                           \
	X(nvlink_tx_bytes_per_s, "nvlink_tx_bytes", 1, false)                                      \
	X(nvlink_rx_bytes_per_s, "nvlink_rx_bytes", 1, false)                                      \
	X(pcie_tx_bytes_per_s, "pcie_tx_bytes", 1, false)                                          \
	X(pcie_rx_bytes_per_s, "pcie_rx_bytes", 1, false)

struct lw_gpu_counted { /* one GPU */
	const struct lw_nic *device;
	int32_t rank;   /* index: the first that uses it; LW_NONE: none is known to */
	size_t n_ranks; /* that use it */
	int64_t start_ns,
		end_ns; /* the window: the counted steps of that rank, else as long as it was looked at */
#define X(name, counter, scale, is_gauge) double name;
	LW_GPU_COUNTS(X)
#undef X
	double held_frac[LW_GPU_N_HOLDS]; /* of the window */
};

struct lw_gpu_counters {
	lw_vec(struct lw_gpu_counted) at; /* by rank; those of no rank last */
};

/** lw_gpu_counters() - Return: LW_OK, LW_ERR_NOMEM; free ret->at in both cases. */
int lw_gpu_counters(const struct lw_run *run, struct lw_gpu_counters *ret_counters);

/** lw_gpu_hold_name() - "sw_power"; lw_gpu_hold_words() - "its power limit". */
const char *lw_gpu_hold_name(int hold);
const char *lw_gpu_hold_words(int hold);

#endif /* LAPWING_ANALYZER_RECONSTRUCT_GPU_COUNTERS_H */
