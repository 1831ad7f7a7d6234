/* SPDX-License-Identifier: Apache-2.0 */
/*
 * core.c - when a process starts to be traced, who it is, and how it ends.
 *
 * The library is loaded everywhere LD_PRELOAD reaches: shells, launchers, helpers. It does nothing in
 * them: no ring, no thread, no file, until a hook sees a call of interest and calls lw_activate().
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#include "schema/launcher.h"
#include "schema/rundir.h"
#include "tracer/internal.h"
#include "tracer/mark.h"
#include "tracer/probe.h"
#include "tracer/tracer.h"

static const uint32_t never_live = 0;
const volatile uint32_t *lw_live = &never_live;
uint32_t lw_epoch;
pid_t lw_own_pid;

static volatile uint32_t *live_page; /* wiped in a forked child */
static _Atomic int is_activating;
static struct lw_place place = {-1, -1, -1, -1};
static enum lw_framework known_framework;
static enum lw_transport known_transport;
static char command[LW_STRING_MAX_BYTES + 1];
static const char *hook_list; /* LAPWING_HOOKS */
static bool is_disabled;
int64_t lw_probe_budget_ns;

static void read_command(void)
{
	int fd = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : syscall(SYS_read, fd, command, sizeof(command) - 1);

	if (fd >= 0)
		syscall(SYS_close, fd);
	for (ssize_t i = 0; i + 1 < n; i++)
		if (command[i] == '\0')
			command[i] = ' ';
	command[n > 0 ? n : 0] = '\0';
}

static void record_process(void)
{
	struct lw_event event = {.kind = LW_EV_PROCESS};

	event.process.rank = place.rank;
	event.process.size = place.size;
	event.process.local_rank = place.local_rank;
	event.process.local_size = place.local_size;
	event.process.ppid = (uint32_t)getppid();
	event.process.framework = (uint16_t)known_framework;
	event.process.transport = (uint16_t)known_transport;
	event.process.command = lw_string_z(command);
	event.t0_ns = event.t1_ns = lw_now_ns();
	lw_record(&event);
}

/* One (MONOTONIC, REALTIME, TSC) triple; the tightest of five, so that a preemption does not spoil it. */
static void record_clock(void)
{
	struct lw_event event = {.kind = LW_EV_CLOCK};
	int64_t best_ns = INT64_MAX;

	for (int i = 0; i < 5; i++) {
		int64_t before_ns = lw_now_ns(), after_ns;
		struct timespec real;

		clock_gettime(CLOCK_REALTIME, &real);
		after_ns = lw_now_ns();
		if (after_ns - before_ns >= best_ns)
			continue;
		best_ns = after_ns - before_ns;
		event.t0_ns = event.t1_ns = before_ns + best_ns / 2;
		event.clock.realtime_ns = real.tv_sec * INT64_C(1000000000) + real.tv_nsec;
	}
#if defined(__x86_64__)
	event.clock.tsc = __rdtsc();
#endif
	lw_record(&event);
}

static bool map_live_page(void)
{
	void *page;

	if (live_page)
		return true;
	page = mmap(NULL, (size_t)sysconf(_SC_PAGESIZE), PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED)
		return false;
	if (madvise(page, (size_t)sysconf(_SC_PAGESIZE), MADV_WIPEONFORK) < 0) {
		/* Kernels before 4.14 cannot tell us about forks: rather trace nothing than a child's lies. */
		munmap(page, (size_t)sysconf(_SC_PAGESIZE));
		return false;
	}
	live_page = page;
	return true;
}

static void start(void)
{
	const char *dir;

	if (lw_epoch) { /* a forked child that turned out to be of interest itself */
		lw_rings_forget();
		lw_cupti_forget();
		lw_ranges_forget();
	}
	lw_own_pid = (pid_t)syscall(SYS_getpid);
	place = lw_place_from_environment();
	dir = lw_ring_dir();
	if (!dir || !map_live_page()) {
		is_disabled = true;
		return;
	}
	read_command();
	lw_epoch++;
	*live_page = 1;
	lw_live = live_page;
	record_process();
	record_clock();
	lw_nvtx_started();
	lw_tls.busy++; /* what the start itself calls (open, close) is not the job's */
	lw_collector_wanted(dir);
	lw_tls.busy--;
}

bool lw_activate(enum lw_framework framework, enum lw_transport transport)
{
	bool is_news = (framework && framework != known_framework) ||
		       (transport && transport != known_transport);
	int saved_errno = errno, idle = 0;

	if (is_disabled || lw_tls.busy)
		return lw_is_live();
	if (framework)
		known_framework = framework;
	/* Horovod over Gloo under mpirun uses both: what carries the tensors is said last by the hook. */
	if (transport)
		known_transport = transport;
	if (!lw_is_live()) {
		if (atomic_compare_exchange_strong(&is_activating, &idle, 1)) {
			if (!lw_is_live())
				start();
			atomic_store(&is_activating, 0);
			lw_cupti_activated();
		}
	} else if (is_news) {
		record_process();
	}
	errno = saved_errno;
	return lw_is_live();
}

void lw_place_confirmed(int32_t rank, int32_t size)
{
	if (rank >= 0 && size > 0 && (rank != place.rank || size != place.size)) {
		place.rank = rank;
		place.size = size;
		if (lw_is_live())
			record_process();
	}
}

int32_t lw_rank_known(void)
{
	return place.rank;
}

bool lw_hook_wanted(const char *name)
{
	return !is_disabled && lw_hook_list_allows(hook_list, name);
}

bool lw_hook_named(const char *name)
{
	size_t n = strlen(name);

	if (is_disabled || !hook_list)
		return false;
	for (const char *at = hook_list; *at;) {
		size_t length = strcspn(at, ",");

		if (length == n && strncmp(at, name, n) == 0)
			return true;
		at += length + (at[length] == ',');
	}
	return false;
}

void lw_hook_report(
	const char *name, enum lw_hook_status status, uint32_t n_slots, const char *detail)
{
	struct lw_event event = {.kind = LW_EV_HOOK, .op = (uint16_t)status};

	if (!lw_is_live())
		return;
	event.hook.name = lw_string_z(name);
	event.hook.detail = lw_string_z(detail);
	event.hook.n_slots = n_slots;
	event.t0_ns = event.t1_ns = lw_now_ns();
	lw_record(&event);
}

void lw_setting(enum lw_setting setting, double value, enum lw_setting_source source)
{
	struct lw_event event = {.kind = LW_EV_SETTING, .op = (uint16_t)setting};

	event.setting.value = value;
	event.setting.source = source;
	event.t0_ns = event.t1_ns = lw_now_ns();
	lw_record(&event);
}

void lw_thread_role(enum lw_thread_role role)
{
	struct lw_event event = {.kind = LW_EV_THREAD, .op = (uint16_t)role};
	char name[16] = "";

	if (!lw_is_live())
		return;
	pthread_getname_np(pthread_self(), name, sizeof(name));
	event.thread.name = lw_string_z(name);
	event.t0_ns = event.t1_ns = lw_now_ns();
	lw_record(&event);
}

/* Last totals and last losses. The thread that ends the process may never have recorded before. */
static void tell_the_rest(void)
{
	lw_cupti_flush();
	lw_ranges_flush();
	lw_horovod_flush();
	lw_gloo_flush();
	lw_nccl_flush();
	lw_sockets_flush(LW_SAMPLE_EXIT);
	lw_verbs_flush();
	record_clock();
	lw_losses_flush();
}

/* The orderly end: what is left to tell, and the word that nothing is missing. */
static void finish(void)
{
	if (!lw_is_live() || lw_tls.busy)
		return;
	if (known_framework == LW_FRAMEWORK_TORCH_DDP ||
		(known_framework == LW_FRAMEWORK_NONE && known_transport == LW_TRANSPORT_GLOO))
		lw_probe_end();
	tell_the_rest();
	lw_rings_close();
}

bool lw_image_ends(void)
{
	int saved_errno = errno;

	/* the child of a vfork runs in our memory, with our thread's variables, but is not us */
	if (!lw_is_live() || lw_tls.busy || (pid_t)syscall(SYS_getpid) != lw_own_pid)
		return false;
	tell_the_rest();
	lw_rings_mark(true);
	errno = saved_errno;
	return true;
}

void lw_image_stays(bool is_told)
{
	if (is_told)
		lw_rings_mark(false);
}

__attribute__((constructor)) static void load(void)
{
	const char *disable = getenv(LW_ENV_DISABLE), *probe = getenv(LW_ENV_PROBE);
	double probe_s = probe ? strtod(probe, NULL) : 0;

	hook_list = getenv(LW_ENV_HOOKS);
	is_disabled = (disable && *disable && strcmp(disable, "0") != 0) ||
		      (!getenv(LW_ENV_DIR) && !getenv(LW_ENV_OUT));
	if (probe_s > 0 && probe_s <= LW_PROBE_MAX_S)
		lw_probe_budget_ns = (int64_t)(probe_s * 1e9);
}

__attribute__((destructor)) static void unload(void)
{
	finish();
}

/* Python's os._exit and forked workers leave this way: no destructor runs, so say goodbye here. */
LW_EXPORT void _exit(int status)
{
	if (lw_is_live() && (pid_t)syscall(SYS_getpid) == lw_own_pid)
		finish();
	syscall(SYS_exit_group, status);
	__builtin_unreachable();
}

LW_EXPORT void _Exit(int status)
{
	_exit(status);
}
