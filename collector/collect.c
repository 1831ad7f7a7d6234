/* SPDX-License-Identifier: Apache-2.0 */
/*
 * collect.c - the collector's life: who it waits for, when it looks, when it is over.
 *
 * One thread, one loop. A producer never wakes it (a ring push is no system call), so it looks at the
 * rings on a timer: every 100 ms, every 10 ms while a ring fills quickly. New rings and the stop file
 * come by inotify, ends of processes by pidfd.
 */
#include "collector/collector.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/units.h"
#include "collector/cpu.h"
#include "collector/drain.h"
#include "collector/process.h"
#include "collector/writer.h"
#include "schema/rundir.h"

#define SLOW_TICK_NS  (100 * LW_NS_PER_MS)
#define FAST_TICK_NS  (10 * LW_NS_PER_MS)
#define SAMPLE_NS     (LW_NS_PER_S / 2)  /* CPU times: 0.2 ms a process of 12 threads */
#define RESCAN_NS     LW_NS_PER_S        /* inotify may overflow; pids that cannot be watched */
#define FIRST_RING_NS (10 * LW_NS_PER_S) /* patience for the first ring (LW_UNTIL_GONE) */
#define TERM_NS       (10 * LW_NS_PER_S) /* patience after SIGTERM */

enum { SMALL_RING_RECORDS = 1 << 14 }; /* a busy thread fills one between two slow ticks */

struct collector {
	const struct lw_collect_options *options;
	struct lw_drain drain;
	struct lw_writer *writer;
	struct lw_cpu_sampler *sampler;
	char out[PATH_MAX];
	lw_vec(struct lw_process *) processes; /* not ended yet */
	size_t n_processes;                    /* ever seen */
	int lock_fd, epoll_fd, timer_fd, signal_fd, inotify_fd, starter_fd;
	int64_t now_ns, tick_ns;
	int64_t changed_ns;  /* a process appeared or ended */
	int64_t sampled_ns;  /* CPU times were read */
	int64_t scanned_ns;  /* the directory was read, unwatched pids were asked */
	int64_t deadline_ns; /* end at the latest then; INT64_MAX = no hurry */
	bool must_scan, is_stopped;
	int exit_code; /* of the recorded command, -1 = not known */
};

/* ---- start ----------------------------------------------------------------------------------- */

/* Whoever looks whether the lock is held holds it for a moment: that is no collector. */
static bool lock_patiently(int fd)
{
	const struct timespec moment = {.tv_nsec = LW_NS_PER_MS};

	for (int i = 0; i < 20; i++) {
		if (flock(fd, LOCK_EX | LOCK_NB) == 0)
			return true;
		nanosleep(&moment, NULL);
	}
	return false;
}

/* Return: LW_OK with the lock held, LW_ERR_STATE when another collector has it. */
static int take_lock(struct collector *c)
{
	const char *dir = c->options->dir;
	char path[PATH_MAX];
	struct stat held, there;

	snprintf(path, sizeof(path), "%s/" LW_RUNDIR_LOCK, dir);
	for (;;) {
		c->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
		if (c->lock_fd < 0)
			return lw_fail(LW_ERR_IO, "%s: %s", path, strerror(errno));
		if (!lock_patiently(c->lock_fd))
			return lw_fail(LW_ERR_STATE, "%s: a collector is at work there", dir);
		/* A predecessor may have deleted the file between our open and our lock. */
		if (fstat(c->lock_fd, &held) == 0 && stat(path, &there) == 0 &&
			held.st_ino == there.st_ino)
			return LW_OK;
		close(c->lock_fd);
	}
}

/* A directory that names its run file was collected before: go on with that file. */
static int open_out(struct collector *c)
{
	struct lw_rundir rundir;
	int status = lw_rundir_look(c->options->dir, &rundir), folder_fd;

	if (status < 0)
		return status;
	if (rundir.out[0] && !(c->options->must_move && c->options->out)) {
		snprintf(c->out, sizeof(c->out), "%s", rundir.out);
		return lw_writer_resume(c->out, &c->writer);
	}
	if (!c->options->out)
		return lw_fail(LW_ERR_USAGE, "%s: names no run file yet: give one with -o",
			c->options->dir);
	if (c->options->out[0] == '/')
		snprintf(c->out, sizeof(c->out), "%s", c->options->out);
	else if (getcwd(c->out, sizeof(c->out) - 1))
		snprintf(c->out + strlen(c->out), sizeof(c->out) - strlen(c->out), "/%s",
			c->options->out);
	folder_fd = lw_out_lock(c->out);
	status = lw_out_check_free(c->out);
	if (status == LW_OK)
		status = rundir.out[0] && access(rundir.out, R_OK) == 0
				 ? lw_writer_resume_copy(rundir.out, c->out, &c->writer)
				 : lw_writer_create(c->out, c->options->created_by,
					   c->options->command, &c->writer);
	if (status == LW_OK)
		status = lw_rundir_set_out(c->options->dir, c->out);
	if (folder_fd >= 0)
		close(folder_fd);
	return status;
}

static int watch(struct collector *c, int fd, void *data)
{
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = data};

	if (fd < 0 || epoll_ctl(c->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0)
		return lw_fail(LW_ERR_IO, "epoll: %s", strerror(errno));
	return LW_OK;
}

static void set_tick(struct collector *c, int64_t tick_ns)
{
	struct itimerspec spec = {
		.it_interval.tv_nsec = tick_ns % LW_NS_PER_S,
		.it_value.tv_nsec = tick_ns % LW_NS_PER_S,
	};

	if (c->tick_ns != tick_ns)
		timerfd_settime(c->timer_fd, 0, &spec, NULL);
	c->tick_ns = tick_ns;
}

static int open_events(struct collector *c)
{
	sigset_t signals;
	int status;

	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGUSR1);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	c->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	c->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	c->signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
	c->inotify_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (inotify_add_watch(c->inotify_fd, c->options->dir, IN_MOVED_TO | IN_CREATE) < 0)
		return lw_fail(LW_ERR_IO, "%s: %s", c->options->dir, strerror(errno));
	status = watch(c, c->timer_fd, &c->timer_fd);
	if (status == LW_OK)
		status = watch(c, c->signal_fd, &c->signal_fd);
	if (status == LW_OK)
		status = watch(c, c->inotify_fd, &c->inotify_fd);
	if (status == LW_OK && c->options->starter) {
		c->starter_fd = lw_process_watch(c->options->starter, 0);
		if (c->starter_fd >= 0)
			status = watch(c, c->starter_fd, &c->starter_fd);
		else
			c->is_stopped = true;
	}
	set_tick(c, SLOW_TICK_NS);
	return status;
}

/* ---- processes --------------------------------------------------------------------------------- */

static void process_free(struct lw_process *process)
{
	if (process->watch_fd >= 0)
		close(process->watch_fd); /* which also takes it out of the epoll set */
	free(process);
}

static struct lw_process *find_process(struct collector *c, const struct lw_ring *ring)
{
	struct lw_process **process, *added = NULL;

	lw_vec_foreach (process, &c->processes)
		if ((*process)->pid == ring->pid &&
			(*process)->start_ticks == ring->process_start_ticks)
			return *process;
	added = calloc(1, sizeof(*added));
	if (!added || lw_vec_push(&c->processes, added) < 0) {
		free(added);
		lw_fail(LW_ERR_NOMEM, "no memory");
		return NULL;
	}
	added->pid = ring->pid;
	added->start_ticks = ring->process_start_ticks;
	added->watch_fd = lw_process_watch((pid_t)ring->pid, ring->process_start_ticks);
	if (added->watch_fd >= 0 && watch(c, added->watch_fd, added) < 0) {
		close(added->watch_fd);
		added->watch_fd = -1;
	}
	if (added->watch_fd < 0)
		added->is_gone = !lw_process_is_alive((pid_t)added->pid, added->start_ticks);
	c->changed_ns = c->now_ns;
	c->n_processes++;
	return added;
}

static void drop_process(struct collector *c, struct lw_process *process)
{
	for (size_t i = 0; i < c->processes.n; i++) {
		if (c->processes.at[i] != process)
			continue;
		c->processes.at[i] = c->processes.at[--c->processes.n];
		lw_cpu_forget(c->sampler, process);
		process_free(process);
		return;
	}
}

/* Those that no descriptor tells about. */
static void ask_unwatched(struct collector *c)
{
	struct lw_process **process;

	lw_vec_foreach (process, &c->processes)
		if ((*process)->watch_fd < 0 && !(*process)->is_gone)
			(*process)->is_gone = !lw_process_is_alive(
				(pid_t)(*process)->pid, (*process)->start_ticks);
}

/* ---- one look at the rings ------------------------------------------------------------------- */

struct refusal {
	struct collector *c;
	int status;
};

static void refuse(void *user, const char *name, const char *why)
{
	struct refusal *refusal = user;
	char detail[200];

	snprintf(detail, sizeof(detail), "%s: %s", name, why);
	if (refusal->status == LW_OK)
		refusal->status =
			lw_writer_loss(refusal->c->writer, 0, 0, LW_LOSS_BAD_RING, 1, detail);
}

static int scan(struct collector *c)
{
	struct refusal refusal = {c, LW_OK};
	int n_new;

	c->must_scan = false;
	c->scanned_ns = c->now_ns;
	ask_unwatched(c);
	n_new = lw_drain_discover(&c->drain, refuse, &refusal);
	return n_new < 0 ? n_new : refusal.status;
}

static int register_new(struct collector *c)
{
	for (size_t i = 0; i < c->drain.rings.n; i++) {
		struct lw_ring *ring = c->drain.rings.at[i];
		int status;

		if (ring->process)
			continue;
		ring->process = find_process(c, ring);
		if (!ring->process)
			return LW_ERR_NOMEM;
		ring->process->n_rings++;
		status = lw_writer_register(c->writer, ring);
		if (status < 0)
			return status;
	}
	return LW_OK;
}

/* Nothing more will come from this ring's thread. */
static bool is_final(const struct lw_ring *ring)
{
	return ring->process->is_gone ||
	       (lw_ring_is_closed(ring) && !lw_thread_is_alive((pid_t)ring->pid, (pid_t)ring->tid));
}

static bool is_read(const struct lw_ring *ring)
{
	return ring->is_damaged || lw_ring_head(ring) == ring->position;
}

/* Rings whose producer has gone and that are read to the end, then processes without rings. */
static int end_what_ended(struct collector *c)
{
	int status = LW_OK;

	for (size_t i = 0; i < c->drain.rings.n && status == LW_OK; i++) {
		struct lw_ring *ring = c->drain.rings.at[i];

		if (!ring->is_final || !is_read(ring))
			continue;
		status = lw_writer_end_ring(c->writer, ring);
		ring->process->has_open_ring |= !lw_ring_is_closed(ring);
		ring->process->n_rings--;
		ring->is_ended = true;
	}
	for (size_t i = 0; i < c->processes.n && status == LW_OK; i++) {
		struct lw_process *process = c->processes.at[i];

		if (!process->is_gone || process->n_rings || process->is_ended)
			continue;
		status = lw_writer_end_process(
			c->writer, process, process->has_open_ring ? "died" : "exit");
		process->is_ended = true;
		c->changed_ns = c->now_ns;
	}
	return status;
}

/* After the commit: nobody needs these any more. */
static void forget_what_ended(struct collector *c)
{
	for (size_t i = c->drain.rings.n; i-- > 0;)
		if (c->drain.rings.at[i]->is_ended)
			lw_drain_forget(&c->drain, c->drain.rings.at[i]);
	for (size_t i = c->processes.n; i-- > 0;)
		if (c->processes.at[i]->is_ended && !c->processes.at[i]->n_rings)
			drop_process(c, c->processes.at[i]);
}

static bool must_sample(const struct collector *c)
{
	return c->drain.rings.n && c->now_ns - c->sampled_ns >= SAMPLE_NS;
}

/* Is there anything that a transaction would store? Also says how quickly the rings fill. */
static bool has_news(struct collector *c)
{
	bool has_any = c->must_scan || c->now_ns - c->scanned_ns >= RESCAN_NS || must_sample(c);
	bool is_quick = false;

	for (size_t i = 0; i < c->drain.rings.n; i++) {
		struct lw_ring *ring = c->drain.rings.at[i];
		uint64_t n;

		if (!ring->process) {
			has_any = true;
			continue;
		}
		ring->is_final = is_final(ring);
		n = lw_ring_head(ring) - ring->position;
		has_any |= n || ring->is_final;
		is_quick |= n > ring->n_records / 8 || ring->n_records < SMALL_RING_RECORDS;
	}
	for (size_t i = 0; i < c->processes.n; i++)
		has_any |= c->processes.at[i]->is_gone;
	set_tick(c, is_quick ? FAST_TICK_NS : SLOW_TICK_NS);
	return has_any;
}

/* Return: records stored (more may wait when it is LW_TAKE_MAX_RECORDS), or < 0. */
static int look(struct collector *c)
{
	size_t n = 0;
	int status;

	c->now_ns = lw_clock_ns();
	if (!has_news(c))
		return 0;
	status = lw_writer_begin(c->writer);
	if (status == LW_ERR_STATE)
		return 0; /* the rings wait; so do we */
	if (status == LW_OK && (c->must_scan || c->now_ns - c->scanned_ns >= RESCAN_NS))
		status = scan(c);
	if (status == LW_OK)
		status = register_new(c);
	if (status < 0)
		return status;
	for (size_t i = 0; i < c->drain.rings.n; i++)
		c->drain.rings.at[i]->is_final = is_final(c->drain.rings.at[i]);
	n = lw_drain_take(&c->drain, c->now_ns);
	status = lw_writer_put(c->writer, &c->drain);
	if (status == LW_OK && must_sample(c)) {
		status = lw_cpu_sample(c->sampler, &c->drain);
		c->sampled_ns = c->now_ns;
	}
	if (status == LW_OK)
		status = end_what_ended(c);
	if (status == LW_OK)
		status = lw_writer_commit(c->writer);
	if (status < 0)
		return status;
	lw_drain_release(&c->drain);
	forget_what_ended(c);
	return (int)n;
}

/* ---- the loop ---------------------------------------------------------------------------------- */

static void read_stop(struct collector *c)
{
	char path[PATH_MAX];
	FILE *file;

	snprintf(path, sizeof(path), "%s/" LW_RUNDIR_STOP, c->options->dir);
	file = fopen(path, "re");
	if (!file)
		return;
	if (fscanf(file, "%d", &c->exit_code) != 1)
		c->exit_code = -1;
	fclose(file);
	c->is_stopped = true;
}

static void on_signal(struct collector *c)
{
	struct signalfd_siginfo info;

	while (read(c->signal_fd, &info, sizeof(info)) == sizeof(info)) {
		int64_t patience_ns = info.ssi_signo == SIGTERM ? TERM_NS : 0;

		if (c->now_ns + patience_ns < c->deadline_ns)
			c->deadline_ns = c->now_ns + patience_ns;
		c->is_stopped = true;
	}
}

static void on_event(struct collector *c, void *data)
{
	char scratch[4096];

	if (data == &c->timer_fd) {
		while (read(c->timer_fd, scratch, sizeof(uint64_t)) > 0)
			;
	} else if (data == &c->inotify_fd) {
		while (read(c->inotify_fd, scratch, sizeof(scratch)) > 0)
			;
		c->must_scan = true;
		read_stop(c);
	} else if (data == &c->signal_fd) {
		on_signal(c);
	} else if (data == &c->starter_fd) {
		epoll_ctl(c->epoll_fd, EPOLL_CTL_DEL, c->starter_fd, NULL);
		c->must_scan = true;
		c->is_stopped = true;
	} else {
		struct lw_process *process = data;

		epoll_ctl(c->epoll_fd, EPOLL_CTL_DEL, process->watch_fd, NULL);
		process->is_gone = true;
	}
}

static bool is_over(const struct collector *c)
{
	int64_t grace_ns = c->options->grace_ns;

	if (c->now_ns >= c->deadline_ns)
		return true;
	if (c->processes.n || c->must_scan)
		return false;
	if (c->options->until == LW_UNTIL_STOP || c->is_stopped)
		return c->is_stopped;
	if (!c->n_processes && grace_ns)
		grace_ns = FIRST_RING_NS;
	return c->now_ns - c->changed_ns >= grace_ns;
}

static int loop(struct collector *c)
{
	for (;;) {
		struct epoll_event events[16];
		int n, status;

		do {
			status = look(c);
		} while (status == LW_TAKE_MAX_RECORDS);
		if (status < 0 || is_over(c))
			return status;
		n = epoll_wait(c->epoll_fd, events, 16, -1);
		if (n < 0 && errno != EINTR)
			return lw_fail(LW_ERR_IO, "epoll_wait: %s", strerror(errno));
		c->now_ns = lw_clock_ns();
		for (int i = 0; i < n; i++)
			on_event(c, events[i].data.ptr);
	}
}

/* Told to end while processes still run: say so in the file. */
static int leave_running(struct collector *c)
{
	int status = c->processes.n ? lw_writer_begin(c->writer) : LW_OK;

	for (size_t i = 0; i < c->processes.n && status == LW_OK; i++)
		status = lw_writer_end_process(c->writer, c->processes.at[i], NULL);
	if (status == LW_OK && c->processes.n)
		status = lw_writer_commit(c->writer);
	if (status == LW_OK)
		lw_drain_forget_all(&c->drain);
	return status;
}

static void close_all(struct collector *c)
{
	const int fds[] = {
		c->epoll_fd, c->timer_fd, c->signal_fd, c->inotify_fd, c->starter_fd, c->lock_fd};

	lw_cpu_sampler_free(c->sampler);
	lw_writer_close(c->writer);
	lw_drain_close(&c->drain);
	for (size_t i = 0; i < c->processes.n; i++)
		process_free(c->processes.at[i]);
	lw_vec_free(&c->processes);
	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

/* Return: LW_OK, 1 = a ring came while the directory was being removed: start over. */
static int collect_once(const struct lw_collect_options *options, bool *ret_has_begun)
{
	struct collector c = {.options = options,
		.lock_fd = -1,
		.epoll_fd = -1,
		.timer_fd = -1,
		.signal_fd = -1,
		.inotify_fd = -1,
		.starter_fd = -1,
		.must_scan = true,
		.exit_code = -1,
		.deadline_ns = INT64_MAX,
		.drain.dir_fd = -1};
	int status = lw_drain_open(&c.drain, options->dir);

	c.now_ns = c.changed_ns = lw_clock_ns();
	if (status == LW_OK)
		status = take_lock(&c);
	if (status == LW_OK)
		status = open_out(&c);
	if (status == LW_OK)
		status = lw_cpu_sampler_new(lw_writer_store(c.writer), &c.sampler);
	if (status == LW_OK)
		status = open_events(&c);
	if (status == LW_OK) {
		*ret_has_begun = true;
		if (options->ready)
			options->ready();
		read_stop(&c);
		status = loop(&c);
	}
	if (status >= 0)
		status = leave_running(&c);
	if (status == LW_OK)
		status = lw_writer_finish(c.writer, c.exit_code);
	if (status == LW_OK && !lw_rundir_remove(options->dir)) {
		status = lw_rundir_set_out(options->dir, c.out);
		if (status == LW_OK)
			status = 1;
	}
	close_all(&c);
	if (status == LW_OK && options->closed)
		options->closed(c.out);
	return status;
}

int lw_collect(const struct lw_collect_options *options, bool *ret_has_begun)
{
	int status;

	*ret_has_begun = false;
	do {
		status = collect_once(options, ret_has_begun);
	} while (status == 1);
	return status;
}
