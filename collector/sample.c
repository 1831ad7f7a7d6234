/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/sample.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/units.h"
#include "collector/cpu.h"
#include "collector/nvml.h"
#include "collector/process.h"
#include "collector/sample_tcp.h"
#include "collector/sampler.h"

/*
 * Those of the network together not more than two thousandths of a core, with what storing their rows takes. CPU times
 * are of use at any period, but predictions need them: they have their own share, and nobody switches them off. GPUs have
 * theirs: most of it is what storing about 16 rows a GPU takes.
 */
static const struct lw_sampler_ops table[] = {
	{"cpu", 0, LW_NS_PER_S / 2, 0.002, lw_sample_cpu},
	{"nic", 1, 0, 0.0007, lw_sample_nic},
	{"rdma_port", 1, 0, 0.0003, lw_sample_rdma},
	{"tcp", 1, 0, 0.0004, lw_sample_tcp},
	{"tcp_list", 50, 0, 0.0002, lw_sample_tcp_list},
	{"softnet", 10, 0, 0.0001, lw_sample_softnet},
	{"ethtool", 10, 0, 0.0001, lw_sample_ethtool},
	{"nvml", 1, 0, 0.001, lw_sample_nvml},
};
enum {
	N_SAMPLERS = sizeof(table) / sizeof(table[0]),
	STORE_ROWS = 4096, /* that are worth a transaction of their own */
	NAMESPACES_MAX = 64,
	PROCESSES_MAX = 4096,
	LOOKS_TO_LEARN = 8, /* over which costs are averaged */
};
#define STORE_NS       LW_NS_PER_S /* rows wait for no longer */
#define WALL_PER_CPU   20          /* a driver that makes us wait may do so for so much longer */
#define EARLY_FRAC     0.05 /* of a period: the timers of loop and samplers are not in step */
#define ROW_NS_AT_ONCE 1500 /* before any was stored: see bench_store */

struct lw_schedule {
	int64_t due_ns, period_ns, actual_period_ns;
	double cost_ns; /* of one look, averaged */
	int64_t longest_ns;
	struct tally {
		int64_t cpu_ns;
		uint64_t n_samples, n_late, n_failed;
	} sum, stored; /* of this collector; of that in its row, beside that of collectors before it */
};

int64_t lw_sample_period_ns(const char *text)
{
	char *end;
	double period_ms = strtod(text, &end);

	if (end == text || *end || !(period_ms == 0 || period_ms >= 1) ||
		period_ms * (double)LW_NS_PER_MS > (double)LW_SAMPLE_MAX_NS)
		return -1;
	return (int64_t)(period_ms * (double)LW_NS_PER_MS);
}

void lw_samplers_trouble(struct lw_samplers *samplers, const char *format, ...)
{
	char text[256];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	samplers->n_failed++;
	lw_readings_add_trouble(samplers->rows, text);
}

static bool has_network(const struct lw_samplers *samplers)
{
	return samplers->options.period_ns > 0;
}

static int64_t period_ns(const struct lw_samplers *samplers, size_t i)
{
	return table[i].period_ns ? table[i].period_ns
				  : samplers->options.period_ns * table[i].n_periods;
}

/* ---- namespaces --------------------------------------------------------------------------------------- */

static struct lw_netns *find_namespace(struct lw_samplers *samplers, uint64_t key)
{
	for (size_t i = 0; i < samplers->namespaces.n; i++)
		if (samplers->namespaces.at[i]->key == key)
			return samplers->namespaces.at[i];
	return NULL;
}

/* Our sockets would keep it, and its interfaces, from going away with the job. */
static void drop_namespace(struct lw_samplers *samplers, size_t i)
{
	struct lw_netns *netns = samplers->namespaces.at[i];

	lw_tcp_forget_namespace(samplers, netns->key);
	lw_devices_sweep(samplers, LW_DEVICE_NIC, netns->key, ++samplers->pass);
	lw_netns_close(&netns->sockets);
	free(netns);
	samplers->namespaces.at[i] = samplers->namespaces.at[--samplers->namespaces.n];
}

static void add_namespace(struct lw_samplers *samplers, int32_t pid, uint64_t key)
{
	struct lw_netns *netns;
	int status;

	if (find_namespace(samplers, key))
		return;
	if (samplers->namespaces.n == NAMESPACES_MAX) {
		lw_samplers_trouble(samplers,
			"more than %d network namespaces: others are not sampled", NAMESPACES_MAX);
		return;
	}
	netns = calloc(1, sizeof(*netns));
	if (!netns || lw_vec_push(&samplers->namespaces, netns) < 0) {
		free(netns);
		return;
	}
	*netns = (struct lw_netns){.key = key, .is_own = pid == 0, .must_list = true};
	/* Kept even when it cannot be entered, so that this is said once. */
	status = lw_netns_open(pid, &netns->sockets);
	if (status < 0 && pid && !lw_process_is_alive(pid, 0))
		drop_namespace(samplers, samplers->namespaces.n - 1); /* ended meanwhile */
	else if (status < 0)
		lw_samplers_trouble(
			samplers, "%s: its NICs and sockets are not sampled", lw_error_text());
	else if (*netns->sockets.missing)
		lw_samplers_trouble(samplers, "not sampled: %s", netns->sockets.missing);
	lw_error_clear();
}

static void drop_unused_namespaces(struct lw_samplers *samplers)
{
	for (size_t i = samplers->namespaces.n; i-- > 0;) {
		bool is_used = samplers->namespaces.at[i]->is_own;
		struct lw_job_process *process;

		lw_vec_foreach (process, &samplers->processes)
			is_used |= process->namespace_key == samplers->namespaces.at[i]->key;
		if (!is_used)
			drop_namespace(samplers, i);
	}
}

static bool is_unused_soon(const struct lw_samplers *samplers, const struct lw_job_process *gone)
{
	struct lw_job_process *process;

	if (samplers->namespaces.n && samplers->namespaces.at[0]->key == gone->namespace_key)
		return false;
	lw_vec_foreach (process, &samplers->processes)
		if (process != gone && process->namespace_key == gone->namespace_key)
			return false;
	return true;
}

/* ---- processes ------------------------------------------------------------------------------------------ */

/* Of a process that is new: a short one would have no sample. */
static void look_at_cpu_soon(struct lw_samplers *samplers)
{
	for (size_t i = 0; i < N_SAMPLERS; i++)
		if (table[i].sample == lw_sample_cpu)
			samplers->schedule[i].due_ns = lw_clock_ns();
}

void lw_samplers_process(struct lw_samplers *samplers, const struct lw_process *process)
{
	struct lw_job_process added = {
		(int32_t)process->pid, process->start_ticks, process->process_id, 0, false};
	struct lw_job_process *one;

	look_at_cpu_soon(samplers);
	if (!has_network(samplers) || process->is_gone)
		return;
	lw_vec_foreach (one, &samplers->processes)
		if (one->process_id == added.process_id)
			return;
	samplers->now_ns = lw_clock_ns();
	added.namespace_key = lw_netns_key(added.pid);
	if (!added.namespace_key && errno != ENOENT && errno != ESRCH)
		lw_samplers_trouble(samplers, "the network namespace of pid %d cannot be seen: %s",
			added.pid, strerror(errno));
	else if (!added.namespace_key && !lw_process_is_alive(added.pid, added.start_ticks))
		return; /* it was short */
	if (samplers->processes.n == PROCESSES_MAX || lw_vec_push(&samplers->processes, added) < 0)
		lw_samplers_trouble(
			samplers, "more than %d processes: others are not sampled", PROCESSES_MAX);
	else if (added.namespace_key)
		add_namespace(samplers, added.pid, added.namespace_key);
}

void lw_samplers_process_ended(struct lw_samplers *samplers, const struct lw_process *process)
{
	lw_cpu_forget(samplers, process);
	for (size_t i = 0; i < samplers->processes.n; i++) {
		if (samplers->processes.at[i].process_id != process->process_id)
			continue;
		samplers->now_ns = lw_clock_ns();
		if (is_unused_soon(samplers, &samplers->processes.at[i])) {
			lw_sample_tcp(samplers);
			lw_sample_nic(samplers);
		}
		samplers->processes.at[i] = samplers->processes.at[--samplers->processes.n];
		drop_unused_namespaces(samplers);
		return;
	}
}

/* A process may go to another namespace at any time. */
static void look_where_processes_are(struct lw_samplers *samplers)
{
	struct lw_job_process *process;
	bool has_moved = false;

	lw_vec_foreach (process, &samplers->processes) {
		uint64_t key = lw_netns_key(process->pid);

		if (!key && !process->namespace_key && !process->is_told &&
			lw_process_is_alive(process->pid, process->start_ticks)) {
			process->is_told =
				true; /* one that ends has none for a moment: this one stays */
			lw_samplers_trouble(samplers,
				"the network namespace of pid %d cannot be seen", process->pid);
		}
		if (!key || key == process->namespace_key)
			continue;
		process->namespace_key = key;
		add_namespace(samplers, process->pid, key);
		has_moved = true;
	}
	if (has_moved)
		drop_unused_namespaces(samplers);
}

void lw_samplers_sockets(struct lw_samplers *samplers, const struct lw_record_list *sockets)
{
	for (size_t i = 0; has_network(samplers) && i < sockets->n; i++) {
		const struct lw_record *record = &sockets->at[i];
		int64_t process_id = record->ring->process->process_id;
		/* Of a process that has ended already, most likely in the collector's own namespace. */
		uint64_t key = samplers->namespaces.n ? samplers->namespaces.at[0]->key : 0;
		struct lw_job_process *process;

		lw_vec_foreach (process, &samplers->processes)
			if (process->process_id == process_id)
				key = process->namespace_key;
		lw_tcp_announce(samplers, process_id, key, &record->event->socket);
	}
}

/* ---- when ----------------------------------------------------------------------------------------------- */

static void charge(
	struct lw_samplers *samplers, size_t i, int64_t cpu_ns, int64_t wall_ns, size_t n_rows)
{
	struct lw_schedule *schedule = &samplers->schedule[i];
	double cost_ns = (double)(cpu_ns - samplers->once_ns) + (double)n_rows * samplers->row_ns;
	double wanted_ns;

	if (cost_ns < (double)wall_ns / WALL_PER_CPU)
		cost_ns = (double)wall_ns / WALL_PER_CPU;
	/* The first look finds out what there is: it says nothing of the others. */
	if (schedule->sum.n_samples)
		schedule->cost_ns +=
			(cost_ns - schedule->cost_ns) /
			(double)(schedule->sum.n_samples < LOOKS_TO_LEARN ? schedule->sum.n_samples
									  : LOOKS_TO_LEARN);
	schedule->sum.cpu_ns += cpu_ns;
	if (wall_ns > schedule->longest_ns)
		schedule->longest_ns = wall_ns;
	schedule->sum.n_samples++;
	wanted_ns = schedule->cost_ns / table[i].cpu_frac;
	if (wanted_ns > (double)LW_SAMPLE_MAX_NS)
		wanted_ns = (double)LW_SAMPLE_MAX_NS;
	/* One dear look must not make us blind for a minute. */
	if (wanted_ns > 2 * (double)schedule->actual_period_ns)
		wanted_ns = 2 * (double)schedule->actual_period_ns;
	schedule->actual_period_ns = schedule->period_ns;
	if ((double)schedule->period_ns < wanted_ns)
		schedule->actual_period_ns = (int64_t)wanted_ns;
}

static void run_one(struct lw_samplers *samplers, size_t i)
{
	struct lw_schedule *schedule = &samplers->schedule[i];
	int64_t cpu_ns = lw_clock_id_ns(CLOCK_THREAD_CPUTIME_ID), wall_ns = lw_clock_ns();
	size_t n_rows = lw_readings_waiting(samplers->rows);

	samplers->n_failed = 0;
	samplers->elsewhere_ns = samplers->once_ns = 0;
	table[i].sample(samplers);
	schedule->sum.n_failed += samplers->n_failed;
	charge(samplers, i,
		lw_clock_id_ns(CLOCK_THREAD_CPUTIME_ID) - cpu_ns + samplers->elsewhere_ns,
		lw_clock_ns() - wall_ns, lw_readings_waiting(samplers->rows) - n_rows);
}

void lw_samplers_run(struct lw_samplers *samplers, int64_t now_ns)
{
	samplers->now_ns = now_ns;
	for (size_t i = 0; i < N_SAMPLERS; i++) {
		struct lw_schedule *schedule = &samplers->schedule[i];
		int64_t late_ns = now_ns - schedule->due_ns;

		if (late_ns < -(int64_t)((double)samplers->options.period_ns * EARLY_FRAC))
			continue;
		if (table[i].sample == lw_sample_tcp_list)
			look_where_processes_are(samplers);
		run_one(samplers, i);
		schedule->sum.n_late +=
			schedule->sum.n_samples > 1 && late_ns > schedule->period_ns / 2;
		/* in step with the first one, unless it is far behind */
		schedule->due_ns += schedule->actual_period_ns;
		if (schedule->due_ns <= now_ns)
			schedule->due_ns = now_ns + schedule->actual_period_ns;
	}
}

int64_t lw_samplers_period_ns(const struct lw_samplers *samplers)
{
	return has_network(samplers) ? samplers->options.period_ns : INT64_MAX;
}

/* ---- rows ----------------------------------------------------------------------------------------------- */

bool lw_samplers_must_store(const struct lw_samplers *samplers, int64_t now_ns)
{
	size_t n = lw_readings_waiting(samplers->rows);

	return n >= STORE_ROWS || (n && now_ns - samplers->stored_ns >= STORE_NS);
}

static void free_gone_devices(struct lw_samplers *samplers)
{
	for (size_t i = samplers->devices.n; i-- > 0;) {
		if (!samplers->devices.at[i]->gone_ns || samplers->devices.at[i]->is_dirty)
			continue;
		lw_device_free(samplers->devices.at[i]);
		samplers->devices.at[i] = samplers->devices.at[--samplers->devices.n];
	}
}

int lw_samplers_store(struct lw_samplers *samplers)
{
	int64_t cpu_ns = lw_clock_id_ns(CLOCK_THREAD_CPUTIME_ID);
	size_t n = lw_readings_waiting(samplers->rows);
	int status;

	status = lw_readings_store(samplers->rows, samplers->devices.at, samplers->devices.n);
	for (size_t i = 0; i < N_SAMPLERS && status == LW_OK; i++) {
		struct lw_schedule *schedule = &samplers->schedule[i];
		const struct tally *sum = &schedule->sum, *stored = &schedule->stored;
		const struct lw_sampler_row row = {table[i].name, schedule->period_ns,
			schedule->actual_period_ns, sum->cpu_ns - stored->cpu_ns,
			schedule->longest_ns, sum->n_samples - stored->n_samples,
			sum->n_late - stored->n_late, sum->n_failed - stored->n_failed};

		if (!period_ns(samplers, i))
			continue;
		status = lw_readings_store_sampler(samplers->rows, &row);
		schedule->stored = schedule->sum;
	}
	if (n >= LOOKS_TO_LEARN)
		samplers->row_ns +=
			((double)(lw_clock_id_ns(CLOCK_THREAD_CPUTIME_ID) - cpu_ns) / (double)n -
				samplers->row_ns) /
			LOOKS_TO_LEARN;
	samplers->stored_ns = lw_clock_ns();
	free_gone_devices(samplers);
	return status;
}

int lw_samplers_finish(struct lw_samplers *samplers, int64_t now_ns)
{
	samplers->now_ns = now_ns;
	for (size_t i = 0; i < N_SAMPLERS; i++)
		if (period_ns(samplers, i))
			run_one(samplers, i);
	lw_tcp_finish(samplers);
	for (size_t i = 0; i < samplers->devices.n; i++)
		lw_device_last(samplers, samplers->devices.at[i]);
	return lw_samplers_store(samplers);
}

/* ---- life ------------------------------------------------------------------------------------------------- */

int lw_samplers_open(const struct lw_sample_options *options, const struct lw_drain *drain,
	struct lw_writer *writer, struct lw_samplers **ret_samplers)
{
	struct lw_samplers *samplers = calloc(1, sizeof(*samplers));
	int status;

	if (!samplers)
		return lw_fail(LW_ERR_NOMEM, "no memory");
	samplers->options = *options;
	samplers->drain = drain;
	samplers->buffer = malloc(LW_NETLINK_BUFFER_BYTES);
	samplers->schedule = calloc(N_SAMPLERS, sizeof(*samplers->schedule));
	status = samplers->buffer && samplers->schedule ? lw_readings_open(writer, &samplers->rows)
							: lw_fail(LW_ERR_NOMEM, "no memory");
	if (status == LW_OK)
		status = lw_tcp_open(samplers);
	if (status < 0) {
		lw_samplers_close(samplers);
		return status;
	}
	samplers->row_ns = ROW_NS_AT_ONCE;
	samplers->stored_ns = samplers->now_ns = lw_clock_ns();
	for (size_t i = 0; i < N_SAMPLERS; i++)
		samplers->schedule[i] = (struct lw_schedule){
			.due_ns = period_ns(samplers, i) ? samplers->now_ns : INT64_MAX,
			.period_ns = period_ns(samplers, i),
			.actual_period_ns = period_ns(samplers, i)};
	if (has_network(samplers))
		add_namespace(samplers, 0, lw_netns_key(0));
	*ret_samplers = samplers;
	return LW_OK;
}

void lw_samplers_close(struct lw_samplers *samplers)
{
	if (!samplers)
		return;
	lw_nvml_stop(samplers->nvml);
	free(samplers->nvml_look);
	lw_cpu_close(samplers);
	lw_tcp_close(samplers);
	for (size_t i = 0; i < samplers->devices.n; i++)
		lw_device_free(samplers->devices.at[i]);
	for (size_t i = 0; i < samplers->namespaces.n; i++) {
		lw_netns_close(&samplers->namespaces.at[i]->sockets);
		free(samplers->namespaces.at[i]);
	}
	lw_vec_free(&samplers->devices);
	lw_vec_free(&samplers->namespaces);
	lw_vec_free(&samplers->processes);
	lw_readings_close(samplers->rows);
	free(samplers->schedule);
	free(samplers->buffer);
	free(samplers);
}
