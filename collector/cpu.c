/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/cpu.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/units.h"
#include "base/vec.h"
#include "collector/cpu_text.h"

enum { GROUP_PATH_BYTES = 2048 };

struct known_thread {
	pid_t tid;
	int64_t waited_ns;
	bool is_seen; /* in this sample */
};

struct known_process {
	const struct lw_process *process;
	lw_vec(struct known_thread) threads;
	int64_t waited_ns; /* of all threads that it ever had, as far as they were seen */
	char allowed[sizeof(((struct lw_cpu_cores *)NULL)->allowed)];
	uint64_t n_sampled; /* the sampler's, when this was sampled last */
};

enum statement { ADD_CORES, ADD_SAMPLE, N_STATEMENTS };

static const char *const statement_sql[N_STATEMENTS] = {
	[ADD_CORES] =
		"INSERT INTO cores(process_id, at_ns, n_online, allowed, n_allowed, quota_frac)"
		" VALUES(?1, ?2, ?3, ?4, ?5, ?6)",
	[ADD_SAMPLE] =
		"INSERT INTO cpu_sample(process_id, thread_id, at_ns, user_ns, system_ns,"
		" waited_ns, n_voluntary, n_involuntary) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
};

struct lw_cpu_sampler {
	struct lw_store *store;
	sqlite3_stmt *own[N_STATEMENTS];
	lw_vec(struct known_process *) processes;
	uint64_t n_sampled; /* calls of lw_cpu_sample() */
};

/* What seldom changes, or nobody needs twice a second: looked at in the first sample and each so many later. */
enum { SELDOM_SAMPLES = 10 };

/* A collector that has to wait for a core itself, in the middle of a sample, would name a wrong time. */
static const int64_t MOST_READING_NS = 20 * LW_NS_PER_MS;

struct usage {
	int64_t at_ns; /* before it was read */
	int64_t user_ns, system_ns;
	int64_t waited_ns, n_voluntary, n_involuntary; /* -1 = not known */
};

/* ---- files --------------------------------------------------------------------------------------- */

/* Return: bytes read into @text, which is terminated; 0 = it cannot be read. */
static size_t read_text(const char *path, char *text, size_t text_bytes)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	size_t n = 0;
	ssize_t got = 0;

	if (fd >= 0) {
		while (n < text_bytes - 1 && (got = read(fd, text + n, text_bytes - 1 - n)) > 0)
			n += (size_t)got;
		close(fd);
	}
	text[n] = '\0';
	return n;
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
static bool read_times(const char *folder, struct usage *usage)
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
	usage->user_ns = (int64_t)user_ticks * tick_ns;
	usage->system_ns = (int64_t)system_ticks * tick_ns;
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

/* A thread's total only grows: less is another thread that got its number. */
static int add_thread(struct known_process *known, pid_t tid, int64_t waited_ns)
{
	struct known_thread *thread, added = {.tid = tid, .is_seen = true, .waited_ns = waited_ns};

	lw_vec_foreach (thread, &known->threads) {
		if (thread->tid != tid)
			continue;
		known->waited_ns +=
			waited_ns - (waited_ns >= thread->waited_ns ? thread->waited_ns : 0);
		thread->waited_ns = waited_ns;
		thread->is_seen = true;
		return LW_OK;
	}
	known->waited_ns += waited_ns;
	return lw_vec_push(&known->threads, added);
}

/* /proc/PID/schedstat is of the first thread alone, so they are added up here. */
static int64_t add_up_waited(struct known_process *known)
{
	char path[96];
	struct dirent *entry;
	DIR *tasks;
	bool is_known = false;

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
		is_known |= waited_ns >= 0;
		if (waited_ns >= 0 && add_thread(known, tid, waited_ns) < 0)
			break;
	}
	if (tasks)
		closedir(tasks);
	for (size_t i = known->threads.n; i-- > 0;)
		if (!known->threads.at[i].is_seen)
			known->threads.at[i] = known->threads.at[--known->threads.n];
	return is_known ? known->waited_ns : -1;
}

static void bind_known(sqlite3_stmt *statement, int i, int64_t value)
{
	if (value < 0)
		sqlite3_bind_null(statement, i);
	else
		sqlite3_bind_int64(statement, i, value);
}

static int run(struct lw_cpu_sampler *sampler, sqlite3_stmt *statement)
{
	int status = lw_store_step(sampler->store, statement);

	return status < 0 ? status : LW_OK;
}

static int add_sample(struct lw_cpu_sampler *sampler, int64_t process_id, int64_t thread_id,
	const struct usage *usage)
{
	sqlite3_stmt *add = sampler->own[ADD_SAMPLE];

	if (lw_clock_ns() - usage->at_ns > MOST_READING_NS)
		return LW_OK;

	sqlite3_bind_int64(add, 1, process_id);
	bind_known(add, 2, thread_id);
	sqlite3_bind_int64(add, 3, usage->at_ns);
	sqlite3_bind_int64(add, 4, usage->user_ns);
	sqlite3_bind_int64(add, 5, usage->system_ns);
	bind_known(add, 6, usage->waited_ns);
	bind_known(add, 7, usage->n_voluntary);
	bind_known(add, 8, usage->n_involuntary);
	return run(sampler, add);
}

static bool is_seldom(const struct lw_cpu_sampler *sampler)
{
	return sampler->n_sampled % SELDOM_SAMPLES == 1;
}

/* Once of each process, then seldom. */
static int add_cores(struct lw_cpu_sampler *sampler, struct known_process *known)
{
	sqlite3_stmt *add = sampler->own[ADD_CORES];
	struct lw_cpu_cores cores;

	if (known->allowed[0] && !is_seldom(sampler))
		return LW_OK;
	lw_cpu_cores((pid_t)known->process->pid, &cores);
	if (!cores.n_allowed || !cores.n_online || !strcmp(cores.allowed, known->allowed))
		return LW_OK;
	memcpy(known->allowed, cores.allowed, sizeof(known->allowed));
	sqlite3_bind_int64(add, 1, known->process->process_id);
	sqlite3_bind_int64(add, 2, lw_clock_ns());
	sqlite3_bind_int(add, 3, cores.n_online);
	sqlite3_bind_text(add, 4, cores.allowed, -1, SQLITE_TRANSIENT);
	sqlite3_bind_int(add, 5, cores.n_allowed);
	if (cores.quota_cores > 0)
		sqlite3_bind_double(add, 6, cores.quota_cores);
	else
		sqlite3_bind_null(add, 6);
	return run(sampler, add);
}

static struct known_process *find_process(
	struct lw_cpu_sampler *sampler, const struct lw_process *process)
{
	struct known_process **known, *added;

	lw_vec_foreach (known, &sampler->processes)
		if ((*known)->process == process)
			return *known;
	added = calloc(1, sizeof(*added));
	if (!added || lw_vec_push(&sampler->processes, added) < 0) {
		free(added);
		lw_fail(LW_ERR_NOMEM, "no memory");
		return NULL;
	}
	added->process = process;
	return added;
}

static int sample_process(struct lw_cpu_sampler *sampler, const struct lw_process *process)
{
	struct known_process *known = find_process(sampler, process);
	struct usage usage = {.n_voluntary = -1, .n_involuntary = -1};
	char folder[64];
	int status;

	if (!known)
		return LW_ERR_NOMEM;
	if (known->n_sampled == sampler->n_sampled)
		return LW_OK; /* by another of its rings */
	known->n_sampled = sampler->n_sampled;
	status = add_cores(sampler, known);
	snprintf(folder, sizeof(folder), "/proc/%u", process->pid);
	usage.at_ns = lw_clock_ns();
	if (status < 0 || !read_times(folder, &usage))
		return status;
	usage.waited_ns = add_up_waited(known);
	return add_sample(sampler, process->process_id, -1, &usage);
}

static int sample_thread(struct lw_cpu_sampler *sampler, const struct lw_ring *ring)
{
	struct usage usage = {.at_ns = lw_clock_ns()};
	char folder[64], name[160], text[8192];

	snprintf(folder, sizeof(folder), "/proc/%u/task/%u", ring->pid, ring->tid);
	if (!read_times(folder, &usage))
		return LW_OK;
	usage.waited_ns = read_waited(folder);
	usage.n_voluntary = usage.n_involuntary = -1;
	if (is_seldom(sampler)) {
		snprintf(name, sizeof(name), "%s/status", folder);
		read_text(name, text, sizeof(text));
		usage.n_voluntary = lw_cpu_parse_number(text, "\nvoluntary_ctxt_switches:");
		usage.n_involuntary = lw_cpu_parse_number(text, "\nnonvoluntary_ctxt_switches:");
	}
	return add_sample(sampler, ring->process->process_id, ring->thread_id, &usage);
}

int lw_cpu_sample(struct lw_cpu_sampler *sampler, const struct lw_drain *drain)
{
	int status = LW_OK;

	sampler->n_sampled++;
	for (size_t i = 0; i < drain->rings.n && status == LW_OK; i++) {
		const struct lw_ring *ring = drain->rings.at[i];

		if (!ring->process || !ring->thread_id || ring->is_final || ring->process->is_gone)
			continue;
		status = sample_process(sampler, ring->process);
		if (status == LW_OK)
			status = sample_thread(sampler, ring);
	}
	return status;
}

/* ---- life ---------------------------------------------------------------------------------------- */

static void known_free(struct known_process *known)
{
	lw_vec_free(&known->threads);
	free(known);
}

void lw_cpu_forget(struct lw_cpu_sampler *sampler, const struct lw_process *process)
{
	for (size_t i = 0; sampler && i < sampler->processes.n; i++) {
		if (sampler->processes.at[i]->process != process)
			continue;
		known_free(sampler->processes.at[i]);
		sampler->processes.at[i] = sampler->processes.at[--sampler->processes.n];
		return;
	}
}

int lw_cpu_sampler_new(struct lw_store *store, struct lw_cpu_sampler **ret_sampler)
{
	struct lw_cpu_sampler *sampler = calloc(1, sizeof(*sampler));
	int status = LW_OK;

	if (!sampler)
		return lw_fail(LW_ERR_NOMEM, "no memory");
	sampler->store = store;
	for (int i = 0; i < N_STATEMENTS && status == LW_OK; i++)
		status = lw_store_prepare(store, statement_sql[i], &sampler->own[i]);
	if (status < 0) {
		lw_cpu_sampler_free(sampler);
		return status;
	}
	*ret_sampler = sampler;
	return LW_OK;
}

void lw_cpu_sampler_free(struct lw_cpu_sampler *sampler)
{
	struct known_process **known;

	if (!sampler)
		return;
	lw_vec_foreach (known, &sampler->processes)
		known_free(*known);
	lw_vec_free(&sampler->processes);
	for (int i = 0; i < N_STATEMENTS; i++)
		sqlite3_finalize(sampler->own[i]);
	free(sampler);
}
