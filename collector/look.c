/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/look.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/units.h"
#include "collector/process.h"

#define RESCAN_NS LW_NS_PER_S /* inotify may overflow; pids that cannot be watched */

enum { SMALL_RING_RECORDS = 1 << 14 }; /* a busy thread fills one between two slow ticks */

int lw_look_watch(int epoll_fd, int fd, void *data)
{
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = data};

	if (fd < 0 || epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0)
		return lw_fail(LW_ERR_IO, "epoll: %s", strerror(errno));
	return LW_OK;
}

/* ---- processes --------------------------------------------------------------------------------- */

static void process_free(struct lw_process *process)
{
	if (process->watch_fd >= 0)
		close(process->watch_fd); /* which also takes it out of the epoll set */
	free(process);
}

static struct lw_process *find_process(struct lw_look *look, const struct lw_ring *ring)
{
	struct lw_process **process, *added = NULL;

	lw_vec_foreach (process, &look->processes)
		if ((*process)->pid == ring->pid &&
			(*process)->start_ticks == ring->process_start_ticks)
			return *process;
	added = calloc(1, sizeof(*added));
	if (!added || lw_vec_push(&look->processes, added) < 0) {
		free(added);
		lw_fail(LW_ERR_NOMEM, "no memory");
		return NULL;
	}
	added->pid = ring->pid;
	added->start_ticks = ring->process_start_ticks;
	added->watch_fd = lw_process_watch((pid_t)ring->pid, ring->process_start_ticks);
	if (added->watch_fd >= 0 && lw_look_watch(look->epoll_fd, added->watch_fd, added) < 0) {
		close(added->watch_fd);
		added->watch_fd = -1;
	}
	if (added->watch_fd < 0)
		added->is_gone = !lw_process_is_alive((pid_t)added->pid, added->start_ticks);
	look->changed_ns = look->now_ns;
	look->n_processes++;
	return added;
}

static void drop_process(struct lw_look *look, struct lw_process *process)
{
	for (size_t i = 0; i < look->processes.n; i++) {
		if (look->processes.at[i] != process)
			continue;
		look->processes.at[i] = look->processes.at[--look->processes.n];
		process_free(process);
		return;
	}
}

/* Those that no descriptor tells about. */
static void ask_unwatched(struct lw_look *look)
{
	struct lw_process **process;

	lw_vec_foreach (process, &look->processes)
		if ((*process)->watch_fd < 0 && !(*process)->is_gone)
			(*process)->is_gone = !lw_process_is_alive(
				(pid_t)(*process)->pid, (*process)->start_ticks);
}

/* ---- one look at the rings ------------------------------------------------------------------- */

struct refusal {
	struct lw_look *look;
	int status;
};

static void refuse(void *user, const char *name, const char *why)
{
	struct refusal *refusal = user;
	char detail[200];

	snprintf(detail, sizeof(detail), "%s: %s", name, why);
	if (refusal->status == LW_OK)
		refusal->status =
			lw_writer_loss(refusal->look->writer, 0, 0, LW_LOSS_BAD_RING, 1, detail);
}

static int scan(struct lw_look *look)
{
	struct refusal refusal = {look, LW_OK};
	int n_new;

	look->must_scan = false;
	look->scanned_ns = look->now_ns;
	ask_unwatched(look);
	n_new = lw_drain_discover(&look->drain, refuse, &refusal);
	return n_new < 0 ? n_new : refusal.status;
}

static int register_new(struct lw_look *look)
{
	for (size_t i = 0; i < look->drain.rings.n; i++) {
		struct lw_ring *ring = look->drain.rings.at[i];
		int status;

		if (ring->process)
			continue;
		ring->process = find_process(look, ring);
		if (!ring->process)
			return LW_ERR_NOMEM;
		ring->process->n_rings++;
		status = lw_writer_register(look->writer, ring);
		if (status < 0)
			return status;
		lw_samplers_process(look->samplers, ring->process);
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
static int end_what_ended(struct lw_look *look)
{
	int status = LW_OK;

	for (size_t i = 0; i < look->drain.rings.n && status == LW_OK; i++) {
		struct lw_ring *ring = look->drain.rings.at[i];

		if (!ring->is_final || !is_read(ring))
			continue;
		status = lw_writer_end_ring(look->writer, ring);
		ring->process->has_open_ring |= !lw_ring_is_closed(ring);
		ring->process->n_rings--;
		ring->is_ended = true;
	}
	for (size_t i = 0; i < look->processes.n && status == LW_OK; i++) {
		struct lw_process *process = look->processes.at[i];

		if (!process->is_gone || process->n_rings || process->is_ended)
			continue;
		status = lw_writer_end_process(
			look->writer, process, process->has_open_ring ? "died" : "exit");
		process->is_ended = true;
		look->changed_ns = look->now_ns;
		lw_samplers_process_ended(look->samplers, process);
		lw_packets_process_ended(look->packets, process);
	}
	return status;
}

/* After the commit: nobody needs these any more. */
static void forget_what_ended(struct lw_look *look)
{
	for (size_t i = look->drain.rings.n; i-- > 0;)
		if (look->drain.rings.at[i]->is_ended)
			lw_drain_forget(&look->drain, look->drain.rings.at[i]);
	for (size_t i = look->processes.n; i-- > 0;)
		if (look->processes.at[i]->is_ended && !look->processes.at[i]->n_rings)
			drop_process(look, look->processes.at[i]);
}

/* Is there anything that a transaction would store? Also says how quickly the rings fill. */
static bool has_news(struct lw_look *look)
{
	bool has_any = look->must_scan || look->now_ns - look->scanned_ns >= RESCAN_NS;

	look->is_quick = false;
	has_any |= lw_packets_has_news(look->packets);
	for (size_t i = 0; i < look->drain.rings.n; i++) {
		struct lw_ring *ring = look->drain.rings.at[i];
		uint64_t n;

		if (!ring->process) {
			has_any = true;
			continue;
		}
		ring->is_final = is_final(ring);
		n = lw_ring_head(ring) - ring->position;
		has_any |= n || ring->is_final;
		look->is_quick |= n > ring->n_records / 8 || ring->n_records < SMALL_RING_RECORDS;
	}
	for (size_t i = 0; i < look->processes.n; i++)
		has_any |= look->processes.at[i]->is_gone;
	has_any |= lw_samplers_must_store(look->samplers, look->now_ns);
	return has_any;
}

int lw_look(struct lw_look *look)
{
	size_t n = 0;
	int status;

	look->now_ns = lw_clock_ns();
	lw_samplers_run(look->samplers, look->now_ns);
	if (!has_news(look))
		return 0;
	status = lw_writer_begin(look->writer);
	if (status == LW_ERR_STATE)
		return 0; /* the rings wait; so do we */
	if (status == LW_OK && (look->must_scan || look->now_ns - look->scanned_ns >= RESCAN_NS))
		status = scan(look);
	if (status == LW_OK)
		status = register_new(look);
	if (status < 0)
		return status;
	for (size_t i = 0; i < look->drain.rings.n; i++)
		look->drain.rings.at[i]->is_final = is_final(look->drain.rings.at[i]);
	n = lw_drain_take(&look->drain, look->now_ns);
	lw_samplers_sockets(look->samplers, &look->drain.take.of_kind[LW_EV_SOCKET]);
	status = lw_writer_put(look->writer, &look->drain);
	if (status == LW_OK)
		status = lw_packets_put(look->packets, &look->drain);
	if (status == LW_OK)
		status = end_what_ended(look);
	if (status == LW_OK)
		status = lw_samplers_store(look->samplers);
	if (status == LW_OK)
		status = lw_writer_commit(look->writer);
	if (status < 0)
		return status;
	lw_drain_release(&look->drain);
	forget_what_ended(look);
	return (int)n;
}

int lw_look_leave(struct lw_look *look)
{
	int status = lw_writer_begin(look->writer);

	for (size_t i = 0; i < look->processes.n && status == LW_OK; i++)
		status = lw_writer_end_process(look->writer, look->processes.at[i], NULL);
	if (status == LW_OK)
		status = lw_samplers_finish(look->samplers, lw_clock_ns());
	if (status == LW_OK)
		status = lw_writer_commit(look->writer);
	if (status == LW_OK)
		lw_drain_forget_all(&look->drain);
	return status;
}

void lw_look_close(struct lw_look *look)
{
	lw_samplers_close(look->samplers);
	lw_packets_close(look->packets); /* their statements first, then the file */
	lw_writer_close(look->writer);
	lw_drain_close(&look->drain);
	for (size_t i = 0; i < look->processes.n; i++)
		process_free(look->processes.at[i]);
	lw_vec_free(&look->processes);
}
