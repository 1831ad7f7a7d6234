/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cpu.h - cores that a job may use, and the CPU time that its processes used and waited for.
 *
 * Read from /proc by the collector, twice a second, never inside the job; rows go into tables cores and
 * cpu_sample. Of a process all threads are added up; threads with a ring, the training thread among
 * them, get rows of their own.
 */
#ifndef LAPWING_COLLECTOR_CPU_H
#define LAPWING_COLLECTOR_CPU_H

#include <stdint.h>
#include <sys/types.h>

#include "collector/drain.h"
#include "schema/store.h"

struct lw_cpu_sampler;

/** lw_cpu_sampler_new() - for the run file @store. Return: LW_OK or an error; free with lw_cpu_sampler_free(). */
int lw_cpu_sampler_new(struct lw_store *store, struct lw_cpu_sampler **ret_sampler);
void lw_cpu_sampler_free(struct lw_cpu_sampler *sampler);

/**
 * lw_cpu_sample() - a row for each process of @drain's rings that lives, and one for each of its threads with a ring.
 * Inside a transaction. What /proc does not say is left out. Return: LW_OK or the store's error.
 */
int lw_cpu_sample(struct lw_cpu_sampler *sampler, const struct lw_drain *drain);

/** lw_cpu_forget() - @process has ended: drop what is kept of it. */
void lw_cpu_forget(struct lw_cpu_sampler *sampler, const struct lw_process *process);

struct lw_cpu_cores {
	int n_online, n_allowed; /* 0 = not known */
	char allowed[1024];      /* list of CPUs, "" = not known */
	double quota_cores;      /* 0 = none */
};

/** lw_cpu_cores() - what @pid may use of this host. */
void lw_cpu_cores(pid_t pid, struct lw_cpu_cores *ret_cores);

#endif /* LAPWING_COLLECTOR_CPU_H */
