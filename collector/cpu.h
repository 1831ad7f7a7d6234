/* SPDX-License-Identifier: Apache-2.0 */
/* cpu.h - cores that a process may use, for everybody; and what the sampler of CPU times stores (sample_cpu.c). */
#ifndef LAPWING_COLLECTOR_CPU_H
#define LAPWING_COLLECTOR_CPU_H

#include <stdint.h>
#include <sys/types.h>

struct lw_process;
struct lw_samplers;

struct lw_cpu_cores {
	int n_online, n_allowed; /* 0 = not known */
	char allowed[1024];      /* list of CPUs, "" = not known */
	double quota_cores;      /* 0 = none */
};

/** lw_cpu_cores() - what @pid may use of this host. */
void lw_cpu_cores(pid_t pid, struct lw_cpu_cores *ret_cores);

/* As table cpu_sample; -1 = not known, of thread_id: all threads. */
struct lw_cpu_row {
	int64_t process_id, thread_id;
	int64_t at_ns; /* before it was read */
	int64_t user_ns, system_ns, waited_ns;
	int64_t n_voluntary, n_involuntary;
};

/* As table cores. */
struct lw_cores_row {
	int64_t process_id, at_ns;
	struct lw_cpu_cores cores;
};

/** lw_cpu_forget() - @process has ended: drop what is kept of it. */
void lw_cpu_forget(struct lw_samplers *samplers, const struct lw_process *process);

/** lw_cpu_close() - drop what is kept of all. */
void lw_cpu_close(struct lw_samplers *samplers);

#endif /* LAPWING_COLLECTOR_CPU_H */
