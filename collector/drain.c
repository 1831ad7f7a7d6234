/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/drain.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/units.h"
#include "collector/check.h"
#include "schema/rundir.h"

enum { MAX_STRING_PARTS = (LW_STRING_MAX_BYTES + LW_STRING_PART_BYTES - 1) / LW_STRING_PART_BYTES };

/* No thread pushes more in its life; what says so is damaged, and sums of what does not fit the store. */
#define MAX_PUSHES (UINT64_C(1) << 48)

int lw_drain_open(struct lw_drain *drain, const char *dir)
{
	memset(drain, 0, sizeof(*drain));
	drain->dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (drain->dir_fd < 0)
		return lw_fail(LW_ERR_IO, "%s: %s", dir, strerror(errno));
	drain->dir = strdup(dir);
	drain->take.events = calloc(LW_TAKE_MAX_RECORDS, sizeof(*drain->take.events));
	drain->take.records = calloc(LW_TAKE_MAX_RECORDS, sizeof(*drain->take.records));
	if (!drain->dir || !drain->take.events || !drain->take.records) {
		lw_drain_close(drain);
		return lw_fail(LW_ERR_NOMEM, "no memory");
	}
	return LW_OK;
}

static void ring_free(struct lw_ring *ring)
{
	if (ring->header)
		munmap(ring->header, LW_RING_HEADER_BYTES);
	if (ring->fd >= 0)
		close(ring->fd);
	free(ring);
}

void lw_drain_close(struct lw_drain *drain)
{
	struct lw_ring **ring;
	char **name;

	lw_vec_foreach (ring, &drain->rings)
		ring_free(*ring);
	lw_vec_free(&drain->rings);
	lw_vec_foreach (name, &drain->refused)
		free(*name);
	lw_vec_free(&drain->refused);
	lw_vec_free(&drain->take.texts);
	lw_vec_free(&drain->take.text_bytes);
	free(drain->take.events);
	free(drain->take.records);
	free(drain->dir);
	if (drain->dir_fd >= 0)
		close(drain->dir_fd);
	memset(drain, 0, sizeof(*drain));
	drain->dir_fd = -1;
}

/* Copies what is fixed out of the header, then looks at the copy. Return: NULL, or why not. */
static const char *check_header(struct lw_ring *ring, int64_t file_bytes)
{
	const struct lw_ring_header *header = ring->header;
	uint32_t event_version = header->event_version;

	ring->n_records = header->n_records;
	ring->pid = header->pid;
	ring->tid = header->tid;
	ring->serial = header->serial;
	ring->process_start_ticks = header->process_start_ticks;
	ring->created_ns = header->created_ns;
	if (header->magic != LW_RING_MAGIC)
		return "not a ring (magic)";
	if (event_version != LW_EVENT_VERSION)
		return "made by another version of lapwing";
	if (ring->n_records < LW_RING_MIN_RECORDS || ring->n_records > LW_RING_MAX_RECORDS ||
		(ring->n_records & (ring->n_records - 1)))
		return "impossible number of records";
	if (file_bytes != (int64_t)lw_ring_file_bytes(ring->n_records))
		return "file size does not match its header";
	if (ring->pid == 0 || ring->pid > INT32_MAX || ring->tid == 0 || ring->tid > INT32_MAX ||
		ring->created_ns < 0 || ring->process_start_ticks < 0)
		return "impossible process, thread or time";
	ring->position = atomic_load_explicit(&header->tail, memory_order_relaxed);
	if (ring->position > atomic_load_explicit(&header->head, memory_order_acquire) ||
		ring->position > MAX_PUSHES)
		return "more records taken than were written";
	return NULL;
}

/* Return: the ring, or NULL with *@ret_why (NULL there: no memory). */
static struct lw_ring *ring_open(int dir_fd, const char *name, const char **ret_why)
{
	struct lw_ring *ring = calloc(1, sizeof(*ring));
	struct stat st;

	*ret_why = NULL;
	if (!ring)
		return NULL;
	snprintf(ring->name, sizeof(ring->name), "%s", name);
	ring->fd = openat(dir_fd, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (ring->fd < 0 || fstat(ring->fd, &st) < 0)
		*ret_why = strerror(errno);
	else if (!S_ISREG(st.st_mode) || st.st_size < LW_RING_HEADER_BYTES)
		*ret_why = "too short for a ring";
	if (!*ret_why) {
		ring->header = mmap(NULL, LW_RING_HEADER_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED,
			ring->fd, 0);
		if (ring->header == MAP_FAILED) {
			ring->header = NULL;
			*ret_why = strerror(errno);
		} else {
			*ret_why = check_header(ring, st.st_size);
		}
	}
	if (*ret_why) {
		ring_free(ring);
		return NULL;
	}
	return ring;
}

static bool is_known(const struct lw_drain *drain, const char *name)
{
	struct lw_ring *const *ring;
	char *const *refused;

	lw_vec_foreach (ring, &drain->rings)
		if (!strcmp((*ring)->name, name))
			return true;
	lw_vec_foreach (refused, &drain->refused)
		if (!strcmp(*refused, name))
			return true;
	return false;
}

static bool has_ring_name(const char *name)
{
	size_t n = strlen(name), n_ext = strlen(LW_RUNDIR_RING_EXT);

	return n > n_ext && !strcmp(name + n - n_ext, LW_RUNDIR_RING_EXT) &&
	       n < sizeof(((struct lw_ring *)NULL)->name);
}

int lw_drain_discover(struct lw_drain *drain,
	void (*refused)(void *user, const char *name, const char *why), void *user)
{
	int fd = openat(drain->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), n_new = 0;
	DIR *listing = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;

	if (!listing) {
		if (fd >= 0)
			close(fd);
		return lw_fail(LW_ERR_IO, "%s: %s", drain->dir, strerror(errno));
	}
	while ((entry = readdir(listing))) {
		struct lw_ring *ring;
		const char *why;
		char *name;

		if (!has_ring_name(entry->d_name) || is_known(drain, entry->d_name))
			continue;
		ring = ring_open(drain->dir_fd, entry->d_name, &why);
		if (ring && lw_vec_push(&drain->rings, ring) == LW_OK) {
			n_new++;
			continue;
		}
		if (ring)
			ring_free(ring);
		name = why ? strdup(entry->d_name) : NULL;
		if (!name || lw_vec_push(&drain->refused, name) < 0) {
			free(name);
			closedir(listing);
			return lw_fail(LW_ERR_NOMEM, "no memory");
		}
		if (refused)
			refused(user, name, why);
	}
	closedir(listing);
	return n_new;
}

uint64_t lw_ring_head(const struct lw_ring *ring)
{
	/* pairs with the release in lw_ring_push */
	return ring->is_damaged ? ring->position
				: atomic_load_explicit(&ring->header->head, memory_order_acquire);
}

bool lw_ring_is_closed(const struct lw_ring *ring)
{
	return !ring->is_damaged &&
	       atomic_load_explicit(&ring->header->closed, memory_order_acquire) == 1;
}

uint64_t lw_ring_lost(const struct lw_ring *ring)
{
	uint64_t n = ring->is_damaged
			     ? 0
			     : atomic_load_explicit(&ring->header->lost, memory_order_relaxed);

	return n < ring->n_ring_full || n > MAX_PUSHES ? ring->n_ring_full : n;
}

static void count(struct lw_ring *ring, int reason, uint64_t n)
{
	ring->n_new[reason] += n;
}

static void damage(struct lw_ring *ring)
{
	ring->is_damaged = true;
	count(ring, LW_LOSS_BAD_RING, 1);
}

/* Copies @n records from @position on. pread, not a mapping: a file cut short is an error, no SIGBUS. */
static bool copy_out(const struct lw_ring *ring, uint64_t position, size_t n, struct lw_event *to)
{
	while (n) {
		uint64_t at = position & (ring->n_records - 1);
		size_t run = n < ring->n_records - at ? n : (size_t)(ring->n_records - at);
		off_t offset = (off_t)(LW_RING_HEADER_BYTES + at * LW_EVENT_BYTES);

		if (pread(ring->fd, to, run * LW_EVENT_BYTES, offset) !=
			(ssize_t)(run * LW_EVENT_BYTES))
			return false;
		position += run;
		to += run;
		n -= run;
	}
	return true;
}

static size_t n_string_parts(const struct lw_event *event)
{
	size_t n_bytes = event->string.n_bytes;

	return n_bytes ? (n_bytes + LW_STRING_PART_BYTES - 1) / LW_STRING_PART_BYTES : 1;
}

/*
 * A text's parts follow each other in its ring. One whose later parts are not here yet is left for the
 * next take, so that no text is ever split over two transactions. Return: how many of @n to take.
 */
static size_t without_split_text(const struct lw_event *events, size_t n)
{
	size_t back = 0;

	while (back < n && back < MAX_STRING_PARTS) {
		const struct lw_event *last = &events[n - 1 - back];

		if (last->kind != LW_EV_STRING || last->op >= MAX_STRING_PARTS ||
			last->string.n_bytes > LW_STRING_MAX_BYTES)
			return n;
		back++;
		if (last->op == 0)
			return back < n_string_parts(last) ? n - back : n;
	}
	return n;
}

/* Puts the text whose parts start at @event together. Return: number of parts, 0 = not valid. */
static size_t take_text(struct lw_take *take, const struct lw_event *event, size_t n)
{
	size_t n_parts = n_string_parts(event), n_bytes = event->string.n_bytes;
	size_t offset = take->text_bytes.n;
	struct lw_text text = {event->string.id, offset};
	char *at;

	if (event->op != 0 || n_parts > n || event->string.n_bytes > LW_STRING_MAX_BYTES ||
		lw_vec_reserve(&take->text_bytes, offset + n_parts * LW_STRING_PART_BYTES + 1) < 0)
		return 0;
	at = take->text_bytes.at + offset;
	for (size_t part = 0; part < n_parts; part++, event++) {
		if (event->kind != LW_EV_STRING || event->op != part ||
			event->string.id != text.id || event->string.n_bytes != n_bytes)
			return 0;
		memcpy(at + part * LW_STRING_PART_BYTES, event->string.text, LW_STRING_PART_BYTES);
	}
	at[n_bytes] = '\0';
	if (strlen(at) != n_bytes || lw_string_id(at, n_bytes) != text.id ||
		lw_vec_push(&take->texts, text) < 0)
		return 0;
	take->text_bytes.n = offset + n_bytes + 1;
	return n_parts;
}

/* Is the record's place in its ring possible? Counts the pushes that were lost before it. */
static bool check_seq(
	struct lw_ring *ring, const struct lw_event *event, uint64_t n_lost_by_producer)
{
	uint32_t gap = event->seq - (uint32_t)(ring->position + ring->n_ring_full);

	if (ring->n_ring_full + gap > n_lost_by_producer)
		return false;
	ring->n_ring_full += gap;
	if (gap)
		count(ring, LW_LOSS_RING_FULL, gap);
	return true;
}

/* Checks @n copied records in place; the kind of one that must not be used becomes 0. */
static void check_records(struct lw_ring *ring, struct lw_take *take, struct lw_event *events,
	size_t n, uint64_t n_lost_by_producer, int64_t latest_ns)
{
	size_t text_parts = 0; /* still to come of a text that was put together */

	for (size_t i = 0; i < n; i++, ring->position++) {
		struct lw_event *event = &events[i];
		int reason = check_seq(ring, event, n_lost_by_producer)
				     ? lw_event_check(event, latest_ns)
				     : LW_LOSS_TORN;

		if (!reason && event->kind == LW_EV_STRING) {
			if (!text_parts)
				text_parts = take_text(take, event, n - i);
			if (text_parts)
				text_parts--;
			else
				reason = LW_LOSS_TORN;
		} else {
			text_parts = 0;
		}
		if (reason) {
			count(ring, reason, 1);
			event->kind = 0;
		} else if (event->t1_ns > ring->process->last_ns) {
			ring->process->last_ns = event->t1_ns;
		}
	}
}

/* The first page is mapped: a file cut to nothing would be a SIGBUS at the next look. */
static bool is_whole(const struct lw_ring *ring)
{
	struct stat st;

	return fstat(ring->fd, &st) == 0 &&
	       st.st_size == (off_t)lw_ring_file_bytes(ring->n_records);
}

static void take_ring(struct lw_drain *drain, struct lw_ring *ring, int64_t latest_ns)
{
	struct lw_take *take = &drain->take;
	struct lw_event *events = take->events + take->n;
	uint64_t head, n_lost, waiting;
	size_t n;

	if (ring->is_damaged)
		return;
	if (!is_whole(ring)) {
		damage(ring);
		return;
	}
	/* head first: pushes that were lost before it are then counted in what is read next */
	head = lw_ring_head(ring);
	n_lost = lw_ring_lost(ring);
	if (head == ring->position)
		return;
	waiting = head - ring->position;
	if (head < ring->position || waiting > ring->n_records || head > MAX_PUSHES) {
		damage(ring);
		return;
	}
	n = LW_TAKE_MAX_RECORDS - take->n;
	if (waiting < n)
		n = (size_t)waiting;
	if (!copy_out(ring, ring->position, n, events)) {
		damage(ring);
		return;
	}
	if (!ring->is_final || n < waiting)
		n = without_split_text(events, n);
	ring->n_taken = n;
	take->n += n;
	check_records(ring, take, events, n, n_lost, latest_ns);
}

/* Counting sort of the valid records by kind; ring order within a kind. */
static void group_by_kind(struct lw_drain *drain)
{
	struct lw_take *take = &drain->take;
	struct lw_record *next[LW_EV_COUNT];
	struct lw_record *end = take->records;
	struct lw_event *event = take->events;
	size_t n_of_kind[LW_EV_COUNT] = {0};

	for (size_t i = 0; i < take->n; i++)
		n_of_kind[take->events[i].kind]++;
	for (int kind = 1; kind < LW_EV_COUNT; kind++) {
		next[kind] = end;
		take->of_kind[kind] = (struct lw_record_list){end, n_of_kind[kind]};
		end += n_of_kind[kind];
	}
	for (size_t i = 0; i < drain->rings.n; i++) {
		struct lw_ring *ring = drain->rings.at[(drain->first + i) % drain->rings.n];

		for (uint64_t k = 0; k < ring->n_taken; k++, event++)
			if (event->kind)
				*next[event->kind]++ = (struct lw_record){event, ring};
	}
}

size_t lw_drain_take(struct lw_drain *drain, int64_t now_ns)
{
	struct lw_take *take = &drain->take;

	take->n = take->texts.n = take->text_bytes.n = 0;
	memset(take->of_kind, 0, sizeof(take->of_kind));
	if (!drain->rings.n)
		return 0;
	drain->first = (drain->first + 1) % drain->rings.n;
	for (size_t i = 0; i < drain->rings.n; i++) {
		struct lw_ring *ring = drain->rings.at[(drain->first + i) % drain->rings.n];

		ring->n_taken = 0;
		take_ring(drain, ring, now_ns + LW_NS_PER_S);
	}
	group_by_kind(drain);
	return take->n;
}

void lw_drain_release(struct lw_drain *drain)
{
	struct lw_ring **ring;

	/* pairs with the acquire in lw_ring_push */
	lw_vec_foreach (ring, &drain->rings)
		if ((*ring)->n_taken && !(*ring)->is_damaged)
			atomic_store_explicit(
				&(*ring)->header->tail, (*ring)->position, memory_order_release);
}

void lw_drain_forget(struct lw_drain *drain, struct lw_ring *ring)
{
	for (size_t i = 0; i < drain->rings.n; i++) {
		if (drain->rings.at[i] != ring)
			continue;
		unlinkat(drain->dir_fd, ring->name, 0);
		drain->rings.at[i] = drain->rings.at[--drain->rings.n];
		ring_free(ring);
		return;
	}
}

void lw_drain_forget_all(struct lw_drain *drain)
{
	char **name;

	while (drain->rings.n)
		lw_drain_forget(drain, drain->rings.at[0]);
	lw_vec_foreach (name, &drain->refused)
		unlinkat(drain->dir_fd, *name, 0);
}
