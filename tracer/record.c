/* SPDX-License-Identifier: Apache-2.0 */
/*
 * record.c - from a filled-in event to this thread's ring.
 *
 * The first record of a thread makes its ring (the only slow path); after that a record is a guard,
 * a copy of 64 bytes and a store.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "schema/rundir.h"
#include "tracer/internal.h"
#include "tracer/tracer.h"

enum { MAX_RINGS = 4096 }; /* at a time */

_Thread_local struct lw_tls lw_tls;

static _Atomic(struct lw_ring_header *) rings[MAX_RINGS]; /* of this process, for the orderly end */
static _Atomic uint32_t n_slots;                          /* of rings[] that were ever used */
static _Atomic uint32_t n_serials;                        /* rings made so far */
static _Atomic uint64_t losses[16]; /* by enum lw_loss_reason, not yet recorded */
static _Atomic bool is_loss_pending __attribute__((aligned(64))); /* one of them is not 0 */
static pthread_key_t thread_end_key;
static pthread_once_t thread_end_once = PTHREAD_ONCE_INIT;

static void count_loss(enum lw_loss_reason reason, uint64_t n)
{
	atomic_fetch_add_explicit(&losses[reason], n, memory_order_relaxed);
	/* pairs with the exchange in lw_losses_flush(): who sees it sees the count */
	atomic_store_explicit(&is_loss_pending, true, memory_order_release);
}

/* Takes @ring out of rings[]. Return: true when it was there; the exit of the process may have it. */
static bool take_ring(struct lw_ring_header *ring)
{
	uint32_t n = atomic_load(&n_slots);

	for (uint32_t i = 0; i < n && i < MAX_RINGS; i++) {
		struct lw_ring_header *there = ring;

		if (atomic_compare_exchange_strong(&rings[i], &there, NULL))
			return true;
	}
	return false;
}

static bool keep_ring(struct lw_ring_header *ring)
{
	for (uint32_t i = 0; i < MAX_RINGS; i++) {
		struct lw_ring_header *none = NULL;
		uint32_t n = atomic_load(&n_slots);

		while (n <= i && !atomic_compare_exchange_weak(&n_slots, &n, i + 1))
			;
		if (atomic_compare_exchange_strong(&rings[i], &none, ring))
			return true;
	}
	return false;
}

static void free_memory(void)
{
	if (lw_tls.memory)
		munmap(lw_tls.memory, sizeof(*lw_tls.memory));
	lw_tls.memory = NULL;
}

/* The thread ends: its last records are in, and what was mapped for it is given back. */
static void close_thread(void *unused)
{
	struct lw_ring_header *ring = lw_tls.ring;

	(void)unused;
	if (lw_is_live() && ring && lw_tls.epoch == lw_epoch) {
		lw_losses_flush();
		/* From here on this thread records no more: a late destructor's call is counted. */
		lw_tls.busy = UINT16_MAX / 2;
		if (take_ring(ring)) {
			uint32_t n_records = ring->n_records;

			lw_tls.ring = NULL;
			atomic_store_explicit(&ring->closed, 1, memory_order_release);
			munmap(ring, lw_ring_file_bytes(n_records));
		}
	}
	free_memory();
}

static void make_thread_end_key(void)
{
	if (pthread_key_create(&thread_end_key, close_thread) != 0)
		thread_end_key = (pthread_key_t)-1;
}

static uint32_t ring_records_wanted(void)
{
	const char *text = getenv(LW_ENV_RING_RECORDS);
	unsigned long wanted = text ? strtoul(text, NULL, 10) : LW_RING_RECORDS_DEFAULT;
	uint32_t n = LW_RING_MIN_RECORDS;

	while (n < wanted && n < LW_RING_MAX_RECORDS)
		n *= 2;
	return n;
}

/* Field 22 of /proc/self/stat, after the command in parentheses, which may hold anything. */
static int64_t process_start_ticks(void)
{
	char text[1024], *at;
	int fd = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/stat", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : syscall(SYS_read, fd, text, sizeof(text) - 1);

	if (fd >= 0)
		syscall(SYS_close, fd);
	if (n <= 0)
		return 0;
	text[n] = '\0';
	at = strrchr(text, ')');
	for (int field = 2; at && field < 22; field++)
		at = strchr(at + 1, ' ');
	return at ? strtoll(at + 1, NULL, 10) : 0;
}

/* A file beyond the job's limit (ulimit -f) is a signal that kills, not an error. */
static uint64_t file_limit_bytes(void)
{
	struct rlimit limit;

	return getrlimit(RLIMIT_FSIZE, &limit) == 0 ? limit.rlim_cur : 0;
}

struct lw_ring_header *lw_ring_create(void)
{
	const char *dir = lw_ring_dir();
	uint64_t limit_bytes = file_limit_bytes();
	uint32_t n_records = ring_records_wanted(), tid = (uint32_t)syscall(SYS_gettid);
	uint32_t first_serial = atomic_fetch_add(&n_serials, 1);
	struct lw_ring_header *ring = MAP_FAILED;
	char draft[512], name[512];
	int fd = -1;

	while (n_records > LW_RING_MIN_RECORDS && lw_ring_file_bytes(n_records) > limit_bytes)
		n_records /= 2;
	if (!dir || lw_ring_file_bytes(n_records) > limit_bytes)
		return NULL;
	snprintf(draft, sizeof(draft), "%s/%d.%u.%u.tmp", dir, (int)lw_own_pid, tid, first_serial);
	fd = (int)syscall(
		SYS_openat, AT_FDCWD, draft, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0)
		return NULL;
	/* Reserve the pages now: a full /dev/shm must be an error here, not a SIGBUS in training. */
	for (;; n_records /= 2) {
		if (syscall(SYS_fallocate, fd, 0, 0, lw_ring_file_bytes(n_records)) == 0)
			break;
		if (n_records <= LW_RING_MIN_RECORDS)
			goto fail;
	}
	ring = mmap(NULL, lw_ring_file_bytes(n_records), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_POPULATE, fd, 0);
	if (ring == MAP_FAILED)
		goto fail;
	ring->process_start_ticks = process_start_ticks();
	ring->created_ns = lw_now_ns();
	lw_ring_init(ring, n_records, (uint32_t)lw_own_pid, tid, first_serial);
	for (uint32_t serial = first_serial;;
		serial++) { /* an exec ago this pid may have had the name */
		ring->serial = serial;
		snprintf(name, sizeof(name), "%s/%d.%u.%u" LW_RUNDIR_RING_EXT, dir, (int)lw_own_pid,
			tid, serial);
		if (syscall(SYS_renameat2, AT_FDCWD, draft, AT_FDCWD, name, 1 /* NOREPLACE */) == 0)
			break;
		if (errno != EEXIST)
			goto fail;
	}
	syscall(SYS_close, fd);
	if (!keep_ring(ring)) /* too many at a time: it works, but is not closed at exit */
		lw_loss(LW_LOSS_TABLE_FULL, 1, NULL);
	return ring;
fail:
	if (ring != MAP_FAILED)
		munmap(ring, lw_ring_file_bytes(n_records));
	syscall(SYS_unlinkat, AT_FDCWD, draft, 0);
	syscall(SYS_close, fd);
	return NULL;
}

static void watch_thread_end(void)
{
	pthread_once(&thread_end_once, make_thread_end_key);
	if (thread_end_key != (pthread_key_t)-1)
		pthread_setspecific(thread_end_key, &lw_tls);
}

struct lw_thread_memory *lw_thread_memory(void)
{
	int saved_errno = errno;
	void *memory;

	if (lw_tls.memory || lw_tls.busy)
		return lw_tls.memory;
	lw_tls.busy++;
	memory = mmap(NULL, sizeof(*lw_tls.memory), PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory != MAP_FAILED) {
		lw_tls.memory = memory;
		watch_thread_end();
	}
	lw_tls.busy--;
	errno = saved_errno;
	return lw_tls.memory;
}

/* The first record of a thread. Return: this thread has a ring now. */
static bool open_ring(void)
{
	int saved_errno = errno;

	if (lw_tls.memory) /* of the ring that this thread had before a fork */
		memset(lw_tls.memory->sent_strings, 0, sizeof(lw_tls.memory->sent_strings));
	lw_thread_memory(); /* without it every use of a text defines it again */
	lw_tls.busy++;
	lw_tls.epoch = lw_epoch;
	lw_tls.ring = lw_ring_create();
	if (lw_tls.ring)
		watch_thread_end();
	lw_tls.busy--;
	errno = saved_errno;
	return lw_tls.ring != NULL;
}

void lw_record(const struct lw_event *event)
{
	if (!lw_is_live())
		return;
	if (LW_UNLIKELY(lw_tls.busy)) {
		count_loss(LW_LOSS_REENTRY, 1);
		return;
	}
	if (LW_UNLIKELY(lw_tls.epoch != lw_epoch) && !open_ring()) {
		count_loss(LW_LOSS_NO_RING, 1);
		return;
	}
	if (LW_UNLIKELY(!lw_tls.ring)) {
		count_loss(LW_LOSS_NO_RING, 1);
		return;
	}
	lw_tls.busy = 1;
	/* The guard must be seen by a signal handler on this thread before and after the push. */
	atomic_signal_fence(memory_order_seq_cst);
	lw_ring_push(lw_tls.ring, event);
	atomic_signal_fence(memory_order_seq_cst);
	lw_tls.busy = 0;
	/* At once: a killed rank says no last word. Not inside a text: its parts follow each other. */
	if (LW_UNLIKELY(atomic_load_explicit(&is_loss_pending, memory_order_relaxed)) &&
		event->kind != LW_EV_STRING && event->kind != LW_EV_LOSS)
		lw_losses_flush();
}

uint64_t lw_string(const char *text, size_t n)
{
	if (!text)
		return 0;
	if (n > LW_STRING_MAX_BYTES)
		n = LW_STRING_MAX_BYTES;
	return lw_string_known(lw_string_id(text, n), text, n);
}

uint64_t lw_string_known(uint64_t id, const char *text, size_t n)
{
	struct lw_event event = {.kind = LW_EV_STRING};
	uint64_t *sent = NULL, n_lost = 0;

	if (!lw_is_live() || lw_tls.busy) /* what would use the id is refused too */
		return id;
	if (lw_tls.epoch == lw_epoch && lw_tls.memory && lw_tls.ring) {
		sent = &lw_tls.memory->sent_strings[id % LW_SENT_STRINGS];
		if (*sent == id)
			return id;
		n_lost = atomic_load_explicit(&lw_tls.ring->lost, memory_order_relaxed);
	}
	event.t0_ns = event.t1_ns = lw_now_ns();
	event.string.id = id;
	event.string.n_bytes = (uint16_t)n;
	for (size_t at = 0; at < n || at == 0; at += LW_STRING_PART_BYTES) {
		size_t part = n - at < LW_STRING_PART_BYTES ? n - at : LW_STRING_PART_BYTES;

		memset(event.string.text, 0, sizeof(event.string.text));
		memcpy(event.string.text, text + at, part);
		lw_record(&event);
		event.op++;
	}
	/* Only now, and when none of it was dropped: a signal handler on the way here may use the id too. */
	if (sent && n_lost == atomic_load_explicit(&lw_tls.ring->lost, memory_order_relaxed))
		*sent = id;
	return id;
}

uint64_t lw_string_z(const char *text)
{
	return text ? lw_string(text, strlen(text)) : 0;
}

int64_t lw_record_room(uint32_t n, int64_t patience_ns)
{
	const struct timespec nap = {.tv_nsec = 500000};
	const struct lw_ring_header *ring = lw_tls.epoch == lw_epoch ? lw_tls.ring : NULL;

	while (ring && patience_ns > 0) {
		uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
		uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
		int64_t start_ns;

		if (head - tail + n <= ring->n_records)
			break;
		start_ns = lw_now_ns();
		syscall(SYS_nanosleep, &nap, NULL);
		patience_ns -= lw_now_ns() - start_ns;
	}
	return patience_ns > 0 ? patience_ns : 0;
}

void lw_loss(enum lw_loss_reason reason, uint64_t n, const char *where)
{
	struct lw_event event = {.kind = LW_EV_LOSS, .op = (uint16_t)reason};

	if (!lw_is_live() || lw_tls.busy) {
		count_loss(reason, n);
		return;
	}
	event.loss.count = n;
	event.loss.where = lw_string_z(where);
	event.t0_ns = event.t1_ns = lw_now_ns();
	lw_record(&event);
}

void lw_losses_flush(void)
{
	atomic_exchange_explicit(&is_loss_pending, false, memory_order_acquire);
	for (uint16_t reason = 0; reason < sizeof(losses) / sizeof(losses[0]); reason++) {
		uint64_t n = atomic_exchange_explicit(&losses[reason], 0, memory_order_relaxed);

		if (n)
			lw_loss((enum lw_loss_reason)reason, n, NULL);
	}
}

void lw_rings_close(void)
{
	uint32_t n = atomic_load(&n_slots);

	for (uint32_t i = 0; i < n && i < MAX_RINGS; i++) {
		/* taken out: a thread that ends now must not unmap it under us */
		struct lw_ring_header *ring = atomic_exchange(&rings[i], NULL);

		if (ring)
			atomic_store_explicit(&ring->closed, 1, memory_order_release);
	}
}

void lw_rings_mark(bool is_closed)
{
	uint32_t n = atomic_load(&n_slots);

	for (uint32_t i = 0; i < n && i < MAX_RINGS; i++) {
		struct lw_ring_header *ring = atomic_exchange(&rings[i], NULL), *none = NULL;

		if (!ring)
			continue;
		atomic_store_explicit(&ring->closed, is_closed, memory_order_release);
		if (!atomic_compare_exchange_strong(&rings[i], &none, ring))
			keep_ring(ring);
	}
}

void lw_rings_forget(void)
{
	uint32_t n = atomic_load(&n_slots);

	for (uint32_t i = 0; i < n && i < MAX_RINGS; i++)
		atomic_store(&rings[i], NULL);
	atomic_store(&n_slots, 0);
	atomic_store(&n_serials, 0);
	for (size_t i = 0; i < sizeof(losses) / sizeof(losses[0]); i++)
		atomic_store(&losses[i], 0);
}
