/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvml.h - NVIDIA's management library, read by a thread of its own.
 *
 * A call of NVML may take long: nvmlInit() a second for each GPU that nobody uses yet, anything at all when a GPU is
 * lost. The collector must not wait for that, so a thread reads, and who samples takes the newest whole look.
 */
#ifndef LAPWING_COLLECTOR_NVML_H
#define LAPWING_COLLECTOR_NVML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LW_NVML_GPUS_MAX = 64, LW_NVML_TEXT_BYTES = 200 };

enum lw_nvml_value {
#define LW_NVML(NAME, name, unit, scale, is_gauge) LW_NVML_##NAME,
#include "schema/counters.def"
	LW_NVML_N_VALUES
};

struct lw_nvml_gpu {
	char name[64];
	char pci[32];   /* "0000:3b:00.0", as CUDA and sysfs write it; "" = not known */
	bool is_lost;   /* it has left the bus: it is not asked again */
	uint32_t known; /* bit i: values[i] was read */
	uint64_t values[LW_NVML_N_VALUES]; /* in counts of schema/counters.def */
};

struct lw_nvml_look {
	int64_t at_ns, cpu_ns; /* when it ended, CPU time that it took */
	size_t n_gpus;
	bool is_last; /* there will be no other */
	char trouble
		[LW_NVML_TEXT_BYTES]; /* what cannot be read and why, "" = nothing; each is told once */
	struct lw_nvml_gpu gpus[LW_NVML_GPUS_MAX];
};

struct lw_nvml;

/** lw_nvml_start() - begin the first look. Return: NULL = no memory or no thread. */
struct lw_nvml *lw_nvml_start(void);

/**
 * lw_nvml_take() - the look that was begun last, if it is whole, and begin another.
 * Return: false = it is not.
 */
bool lw_nvml_take(struct lw_nvml *nvml, struct lw_nvml_look *look);

/** lw_nvml_busy_ns() - how long the look that runs takes already; 0 = none runs. */
int64_t lw_nvml_busy_ns(struct lw_nvml *nvml);

/** lw_nvml_stop() - end the thread; one that hangs in the driver is left to itself, with its memory. */
void lw_nvml_stop(struct lw_nvml *nvml);

/* ---- without the thread: for `lapwing doctor` ------------------------------------------------------------------ */

/**
 * lw_nvml_probe() - load it and ask how many GPUs it sees.
 * @text: which driver, or why not. Return: number of GPUs, -1 = it does not work, -2 = there is no library.
 */
int lw_nvml_probe(char *text, size_t text_bytes);

#endif /* LAPWING_COLLECTOR_NVML_H */
