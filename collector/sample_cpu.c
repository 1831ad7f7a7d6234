/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sample_cpu.c - CPU times of the job's processes, of their threads with a ring, and the cores they may use, from /proc.
 *
 * Of a process all threads are added up; threads with a ring, the training thread among them, get rows of their own.
 */
#include "collector/cpu.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/units.h"
#include "collector/cpu_text.h"
#include "collector/sampler.h"

enum {
	GROUP_PATH_BYTES = 2048,
	/* every so many looks: what changes seldom or is of use by its sum, and is dear to read */
	RARELY = 10,
};

struct known_thread {
	pid_t tid;
	int64_t waited_ns;
	int64_t user_ns, system_ns; /* -1 = not read: a thread without a ring */
	bool is_seen;               /* in this look */
};

struct lw_cpu_known {
	const struct lw_process *process;
	lw_vec(struct known_thread) threads;
	int64_t waited_ns; /* of all threads that it ever had, as far as they were seen */
	int64_t used_ns;   /* by the last look */
	bool has_waited;   /* this kernel tells */
	char allowed[sizeof(((struct lw_cpu_cores *)NULL)->allowed)];
	unsigned pass; /* the samplers', when it was looked at last */
	int64_t at_ns; /* then */
	unsigned n_looks;
	bool is_rare;   /* this look */
	bool is_asleep; /* no thread ran since the last look: nothing else is read */
};

/* A collector that has to wait for a core itself, in the middle of a sample, would name a wrong time. */
static const int64_t MOST_READING_NS = 20 * LW_NS_PER_MS;

/* ---- files --------------------------------------------------------------------------------------- */

/* Return: bytes read into @text, which is terminated; 0 = it cannot be read. */
static size_t read_text(const char *path, char *text, size_t text_bytes)
{
	int n = lw_sysfs_read(AT_FDCWD, path, text, text_bytes);

	return n > 0 ? (size_t)n : 0;
}

/* The least quota of the group at @path below @root and of those above it. */
static void least_quota(const char *root, char *path, bool is_v2, double *ret_cores)
{
	char file[GROUP_PATH_BYTES + 256], text[128], period[64];

	for (;;) {
		double cores;
		char *slash;

		snprintf(file, sizeof(file), "%s%s/%s", root, path[1] ? path : "",
			is_v2 ? "cpu.max" : "cpu.cfs_quota_us");
		if (read_text(file, text, sizeof(text)) && !is_v2) {
			snprintf(file, sizeof(file), "%s%s/cpu.cfs_period_us", root,
				path[1] ? path : "");
			read_text(file, period, sizeof(period));
			text[strcspn(text, "\n")] = '\0';
			snprintf(
				text + strlen(text), sizeof(text) - strlen(text), " %.50s", period);
		}
		cores = lw_cpu_parse_max(text);
		if (cores > 0 && !(*ret_cores > 0 && *ret_cores < cores))
			*ret_cores = cores;
		slash = strrchr(path, '/');
		if (!path[1] || !slash)
			return;
		slash[slash == path] = '\0';
	}
}

static double quota_cores(pid_t pid)
{
	static const struct {
		const char *root, *controller;
	} roots[] = {{"/sys/fs/cgroup", ""}, {"/sys/fs/cgroup/unified", ""},
		{"/sys/fs/cgroup/cpu", "cpu"}, {"/sys/fs/cgroup/cpu,cpuacct", "cpu"}};
	char name[64], text[4096], path[GROUP_PATH_BYTES];
	double cores = 0;

	snprintf(name, sizeof(name), "/proc/%d/cgroup", (int)pid);
	read_text(name, text, sizeof(text));
	for (size_t i = 0; i < sizeof(roots) / sizeof(roots[0]); i++)
		if (lw_cpu_parse_group(text, roots[i].controller, path, sizeof(path)))
			least_quota(roots[i].root, path, !*roots[i].controller, &cores);
	return cores;
}

void lw_cpu_cores(pid_t pid, struct lw_cpu_cores *ret_cores)
{
	char name[64], text[8192];
	long n_online = sysconf(_SC_NPROCESSORS_ONLN);

	*ret_cores = (struct lw_cpu_cores){.n_online = n_online > 0 ? (int)n_online : 0};
	snprintf(name, sizeof(name), "/proc/%d/status", (int)pid);
	read_text(name, text, sizeof(text));
	ret_cores->n_allowed =
		lw_cpu_parse_allowed(text, ret_cores->allowed, sizeof(ret_cores->allowed));
	if (!ret_cores->n_allowed)
		ret_cores->allowed[0] = '\0';
	ret_cores->quota_cores = quota_cores(pid);
}

/* @folder: "/proc/PID" or "/proc/PID/task/TID". Return: it lives. */
static bool read_times(const char *folder, struct lw_cpu_row *row)
{
	static long ticks_per_s;
	char name[160], text[2048];
	uint64_t user_ticks, system_ticks;
	int64_t tick_ns;

	if (!ticks_per_s)
		ticks_per_s = sysconf(_SC_CLK_TCK);
	tick_ns = LW_NS_PER_S / (ticks_per_s > 0 ? ticks_per_s : 100);
	snprintf(name, sizeof(name), "%s/stat", folder);
	if (!read_text(name, text, sizeof(text)) ||
		!lw_cpu_parse_stat(text, &user_ticks, &system_ticks) ||
		user_ticks > (uint64_t)(INT64_MAX / tick_ns) ||
		system_ticks > (uint64_t)(INT64_MAX / tick_ns))
		return false;
	row->user_ns = (int64_t)user_ticks * tick_ns;
	row->system_ns = (int64_t)system_ticks * tick_ns;
	return true;
}

static int64_t read_waited(const char *folder)
{
	char name[160], text[128];

	snprintf(name, sizeof(name), "%s/schedstat", folder);
	read_text(name, text, sizeof(text));
	return lw_cpu_parse_schedstat(text);
}

/* ---- a process ----------------------------------------------------------------------------------- */

static struct known_thread *find_thread(struct lw_cpu_known *known, pid_t tid)
{
	struct known_thread *thread;

	lw_vec_foreach (thread, &known->threads)
		if (thread->tid == tid)
			return thread;
	return NULL;
}

/* A thread's total only grows: less is another thread that got its number. */
static int add_thread(struct lw_cpu_known *known, pid_t tid, int64_t waited_ns)
{
	struct known_thread added = {tid, waited_ns, -1, -1, true};
	struct known_thread *thread = find_thread(known, tid);

	if (!thread) {
		known->waited_ns += waited_ns;
		return lw_vec_push(&known->threads, added);
	}
	known->waited_ns += waited_ns - (waited_ns >= thread->waited_ns ? thread->waited_ns : 0);
	thread->waited_ns = waited_ns;
	thread->is_seen = true;
	return LW_OK;
}

/* /proc/PID/schedstat is of the first thread alone, so they are added up here. */
static void add_up_waited(struct lw_cpu_known *known)
{
	char path[96];
	struct dirent *entry;
	DIR *tasks;

	known->has_waited = false;
	snprintf(path, sizeof(path), "/proc/%u/task", known->process->pid);
	tasks = opendir(path);
	for (size_t i = 0; i < known->threads.n; i++)
		known->threads.at[i].is_seen = false;
	while (tasks && (entry = readdir(tasks))) {
		pid_t tid = (pid_t)strtol(entry->d_name, NULL, 10);
		int64_t waited_ns;

		if (tid <= 0)
			continue;
		snprintf(path, sizeof(path), "/proc/%u/task/%d", known->process->pid, (int)tid);
		waited_ns = read_waited(path);
		known->has_waited |= waited_ns >= 0;
		if (waited_ns >= 0 && add_thread(known, tid, waited_ns) < 0)
			break;
	}
	if (tasks)
		closedir(tasks);
	for (size_t i = known->threads.n; i-- > 0;)
		if (!known->threads.at[i].is_seen)
			known->threads.at[i] = known->threads.at[--known->threads.n];
}

static void add(struct lw_samplers *samplers, const struct lw_cpu_row *row)
{
	if (lw_clock_ns() - row->at_ns <= MOST_READING_NS)
		lw_readings_add_cpu(samplers->rows, row);
}

static void look_at_cores(struct lw_samplers *samplers, struct lw_cpu_known *known)
{
	struct lw_cores_row row = {
		.process_id = known->process->process_id, .at_ns = lw_clock_ns()};

	lw_cpu_cores((pid_t)known->process->pid, &row.cores);
	if (!row.cores.n_allowed || !row.cores.n_online ||
		!strcmp(row.cores.allowed, known->allowed))
		return;
	memcpy(known->allowed, row.cores.allowed, sizeof(known->allowed));
	lw_readings_add_cores(samplers->rows, &row);
}

static struct lw_cpu_known *find_known(
	struct lw_samplers *samplers, const struct lw_process *process)
{
	struct lw_cpu_known **known, *added;

	lw_vec_foreach (known, &samplers->cpu)
		if ((*known)->process == process)
			return *known;
	added = calloc(1, sizeof(*added));
	if (!added || lw_vec_push(&samplers->cpu, added) < 0) {
		free(added);
		return NULL;
	}
	added->process = process;
	added->pass = samplers->pass - 1;
	return added;
}

/*
 * Its threads follow with the same time. Where it did not use a tick (10 ms of CPU) they are not asked one by one, but
 * in rare looks: what they waited meanwhile is found then, or with the first tick.
 */
static void look_at_process(struct lw_samplers *samplers, struct lw_cpu_known *known)
{
	struct lw_cpu_row row = {.process_id = known->process->process_id,
		.thread_id = -1,
		.n_voluntary = -1,
		.n_involuntary = -1};
	char folder[64];

	known->is_rare = known->n_looks++ % RARELY == 0;
	if (known->is_rare)
		look_at_cores(samplers, known);
	known->pass = samplers->pass;
	row.at_ns = known->at_ns = lw_clock_ns();
	snprintf(folder, sizeof(folder), "/proc/%u", known->process->pid);
	if (!read_times(folder, &row))
		return;
	known->is_asleep = !known->is_rare && row.user_ns + row.system_ns == known->used_ns;
	known->used_ns = row.user_ns + row.system_ns;
	if (!known->is_asleep)
		add_up_waited(known);
	row.waited_ns = known->has_waited ? known->waited_ns : -1;
	add(samplers, &row);
}

/* As remembered of a process that is asleep, else read. Return: it lives. */
static bool thread_times(const struct lw_cpu_known *known, struct known_thread *thread,
	const char *folder, struct lw_cpu_row *row)
{
	if (known->is_asleep && thread && thread->user_ns >= 0) {
		row->user_ns = thread->user_ns;
		row->system_ns = thread->system_ns;
		return true;
	}
	if (!read_times(folder, row))
		return false;
	if (thread) {
		thread->user_ns = row->user_ns;
		thread->system_ns = row->system_ns;
	}
	return true;
}

static void look_at_thread(
	struct lw_samplers *samplers, struct lw_cpu_known *known, const struct lw_ring *ring)
{
	struct known_thread *thread = find_thread(known, (pid_t)ring->tid);
	struct lw_cpu_row row = {.process_id = ring->process->process_id,
		.thread_id = ring->thread_id,
		.at_ns = known->at_ns,
		.waited_ns = thread ? thread->waited_ns : -1,
		.n_voluntary = -1,
		.n_involuntary = -1};
	char folder[64], name[160], text[8192];

	snprintf(folder, sizeof(folder), "/proc/%u/task/%u", ring->pid, ring->tid);
	if (!thread_times(known, thread, folder, &row))
		return;
	snprintf(name, sizeof(name), "%s/status", folder);
	if (known->is_rare && read_text(name, text, sizeof(text))) {
		row.n_voluntary = lw_cpu_parse_number(text, "\nvoluntary_ctxt_switches:");
		row.n_involuntary = lw_cpu_parse_number(text, "\nnonvoluntary_ctxt_switches:");
	}
	add(samplers, &row);
}

void lw_sample_cpu(struct lw_samplers *samplers)
{
	samplers->pass++;
	for (size_t i = 0; i < samplers->drain->rings.n; i++) {
		const struct lw_ring *ring = samplers->drain->rings.at[i];
		struct lw_cpu_known *known;

		if (!ring->process || !ring->thread_id || ring->is_final || ring->process->is_gone)
			continue;
		known = find_known(samplers, ring->process);
		if (!known)
			continue;
		if (known->pass != samplers->pass)
			look_at_process(samplers, known);
		look_at_thread(samplers, known, ring);
	}
}

/* ---- life ---------------------------------------------------------------------------------------- */

static void forget(struct lw_samplers *samplers, size_t i)
{
	lw_vec_free(&samplers->cpu.at[i]->threads);
	free(samplers->cpu.at[i]);
	samplers->cpu.at[i] = samplers->cpu.at[--samplers->cpu.n];
}

void lw_cpu_forget(struct lw_samplers *samplers, const struct lw_process *process)
{
	for (size_t i = samplers->cpu.n; i-- > 0;)
		if (samplers->cpu.at[i]->process == process)
			forget(samplers, i);
}

void lw_cpu_close(struct lw_samplers *samplers)
{
	while (samplers->cpu.n)
		forget(samplers, 0);
	lw_vec_free(&samplers->cpu);
}
