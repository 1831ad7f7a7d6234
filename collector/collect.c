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
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/units.h"
#include "collector/look.h"
#include "collector/process.h"
#include "schema/rundir.h"

#define SLOW_TICK_NS  (100 * LW_NS_PER_MS)
#define FAST_TICK_NS  (10 * LW_NS_PER_MS)
#define FIRST_RING_NS (10 * LW_NS_PER_S) /* patience for the first ring (LW_UNTIL_GONE) */
#define TERM_NS       (10 * LW_NS_PER_S) /* patience after SIGTERM */

struct collector {
	const struct lw_collect_options *options;
	struct lw_look look;
	char out[PATH_MAX];
	int lock_fd, epoll_fd, timer_fd, signal_fd, inotify_fd, starter_fd;
	int64_t tick_ns;
	int64_t deadline_ns; /* end at the latest then; INT64_MAX = no hurry */
	bool is_stopped;
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
		return lw_writer_resume(c->out, &c->look.writer);
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
				 ? lw_writer_resume_copy(rundir.out, c->out, &c->look.writer)
				 : lw_writer_create(c->out, c->options->created_by,
					   c->options->command, &c->look.writer);
	if (status == LW_OK)
		status = lw_rundir_set_out(c->options->dir, c->out);
	if (folder_fd >= 0)
		close(folder_fd);
	return status;
}

static void set_tick(struct collector *c, int64_t tick_ns)
{
	struct itimerspec spec = {0};

	if (tick_ns > lw_samplers_period_ns(c->look.samplers))
		tick_ns = lw_samplers_period_ns(c->look.samplers);
	spec.it_interval.tv_nsec = spec.it_value.tv_nsec = tick_ns % LW_NS_PER_S;
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
	c->look.epoll_fd = c->epoll_fd;
	c->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	c->signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
	c->inotify_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (inotify_add_watch(c->inotify_fd, c->options->dir, IN_MOVED_TO | IN_CREATE) < 0)
		return lw_fail(LW_ERR_IO, "%s: %s", c->options->dir, strerror(errno));
	status = lw_look_watch(c->epoll_fd, c->timer_fd, &c->timer_fd);
	if (status == LW_OK)
		status = lw_look_watch(c->epoll_fd, c->signal_fd, &c->signal_fd);
	if (status == LW_OK)
		status = lw_look_watch(c->epoll_fd, c->inotify_fd, &c->inotify_fd);
	if (status == LW_OK && c->options->starter) {
		c->starter_fd = lw_process_watch(c->options->starter, 0);
		if (c->starter_fd >= 0)
			status = lw_look_watch(c->epoll_fd, c->starter_fd, &c->starter_fd);
		else
			c->is_stopped = true;
	}
	set_tick(c, SLOW_TICK_NS);
	return status;
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

		if (c->look.now_ns + patience_ns < c->deadline_ns)
			c->deadline_ns = c->look.now_ns + patience_ns;
		c->is_stopped = true;
	}
}

static void on_event(struct collector *c, void *data)
{
	char scratch[4096];

	if (data == &c->timer_fd) {
		if (read(c->timer_fd, scratch, sizeof(uint64_t)) < 0)
			errno = 0; /* it is read whole, or not due yet */
	} else if (data == &c->inotify_fd) {
		while (read(c->inotify_fd, scratch, sizeof(scratch)) > 0)
			;
		c->look.must_scan = true;
		read_stop(c);
	} else if (data == &c->signal_fd) {
		on_signal(c);
	} else if (data == &c->starter_fd) {
		epoll_ctl(c->epoll_fd, EPOLL_CTL_DEL, c->starter_fd, NULL);
		c->look.must_scan = true;
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

	if (c->look.now_ns >= c->deadline_ns)
		return true;
	if (c->look.processes.n || c->look.must_scan)
		return false;
	if (c->options->until == LW_UNTIL_STOP || c->is_stopped)
		return c->is_stopped;
	if (!c->look.n_processes && grace_ns)
		grace_ns = FIRST_RING_NS;
	return c->look.now_ns - c->look.changed_ns >= grace_ns;
}

static int loop(struct collector *c)
{
	for (;;) {
		struct epoll_event events[16];
		int n, status;

		do {
			status = lw_look(&c->look);
			set_tick(c, c->look.is_quick ? FAST_TICK_NS : SLOW_TICK_NS);
		} while (status == LW_TAKE_MAX_RECORDS);
		if (status < 0 || is_over(c))
			return status;
		n = epoll_wait(c->epoll_fd, events, 16, -1);
		if (n < 0 && errno != EINTR)
			return lw_fail(LW_ERR_IO, "epoll_wait: %s", strerror(errno));
		c->look.now_ns = lw_clock_ns();
		for (int i = 0; i < n; i++)
			on_event(c, events[i].data.ptr);
	}
}

static void close_all(struct collector *c)
{
	const int fds[] = {
		c->epoll_fd, c->timer_fd, c->signal_fd, c->inotify_fd, c->starter_fd, c->lock_fd};

	lw_look_close(&c->look);
	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

/* Return: LW_OK, 1 = a ring came while the directory was being removed: start over, with *@tap. */
static int collect_once(
	const struct lw_collect_options *options, struct pcap **tap, bool *ret_has_begun)
{
	struct collector c = {.options = options,
		.lock_fd = -1,
		.epoll_fd = -1,
		.timer_fd = -1,
		.signal_fd = -1,
		.inotify_fd = -1,
		.starter_fd = -1,
		.look.must_scan = true,
		.exit_code = -1,
		.deadline_ns = INT64_MAX,
		.look.drain.dir_fd = -1};
	int status = lw_drain_open(&c.look.drain, options->dir);

	c.look.now_ns = c.look.changed_ns = lw_clock_ns();
	if (status == LW_OK)
		status = take_lock(&c);
	if (status == LW_OK) /* before the run file, which a refusal must not replace */
		status = lw_packets_open(options, tap, &c.look.packets);
	if (status == LW_OK)
		status = open_out(&c);
	if (status == LW_OK)
		status = lw_samplers_open(
			&options->sample, &c.look.drain, c.look.writer, &c.look.samplers);
	if (status == LW_OK)
		status = open_events(&c);
	if (status == LW_OK) /* its thread takes over which signals are blocked */
		status = lw_packets_start(c.look.packets, c.look.writer);
	if (status == LW_OK) {
		*ret_has_begun = true;
		if (options->ready)
			options->ready();
		read_stop(&c);
		status = loop(&c);
	}
	if (status >= 0)
		status = lw_look_leave(&c.look);
	if (status == LW_OK)
		status = lw_packets_finish(c.look.packets, c.look.writer);
	if (status == LW_OK)
		status = lw_writer_finish(c.look.writer, c.exit_code);
	if (status == LW_OK && !lw_rundir_remove(options->dir)) {
		status = lw_rundir_set_out(options->dir, c.out);
		if (status == LW_OK) {
			*tap = lw_packets_leave(c.look.packets);
			status = 1;
		}
	}
	close_all(&c);
	if (status == LW_OK && options->closed)
		options->closed(c.out);
	return status;
}

int lw_collect(const struct lw_collect_options *options, bool *ret_has_begun)
{
	struct pcap *tap = NULL;
	int status;

	*ret_has_begun = false;
	do {
		status = collect_once(options, &tap, ret_has_begun);
	} while (status == 1);
	lw_packets_close_tap(tap); /* it was not taken */
	return status;
}
