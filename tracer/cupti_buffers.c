/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cupti_buffers.c - the buffers that CUPTI fills, and the thread that turns them into records.
 *
 * Writes: KERNEL, COPY, GPU_SYNC, LAUNCH, GPU_OVERHEAD, GPU and LOSS records, all on the ring of one thread of
 * ours. CUPTI may give a full buffer back on its own thread or on one of the job's, so there it is only put
 * down; the reader takes it up. A reader of our own may wait when its ring is full, the job's threads may not,
 * and it asks CUPTI for buffers that are not full yet, without which a live view would see nothing for
 * minutes. CUDA has started threads of its own by the time that it begins.
 */
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tracer/cupti_device.h"
#include "tracer/cupti_layout.h"
#include "tracer/hook_cupti.h"

enum { BUFFER_BYTES = 4 << 20, N_BUFFERS = 32, STACK_BYTES = 1 << 20 };
enum {
	ROOM_WANTED = 2 + LW_STRING_MAX_BYTES / LW_STRING_PART_BYTES + 4
}; /* a name, its record, losses */

static const int64_t period_ns = 500000000;    /* between two requests for what CUPTI has */
static const int64_t patience_ns = 2000000000; /* with a full ring, for the records of one buffer */
static const int64_t flow_patience_ns = 1000000000;

enum { FREE, LENT, FULL };
static struct {
	_Atomic(uint8_t *) bytes; /* mapped when first lent, and kept */
	size_t n_valid;           /* FULL */
	uint64_t serial;          /* FULL: they are read in the order in which they came back */
	_Atomic int state;        /* above; who changes it from FREE or LENT owns the rest */
} buffers[N_BUFFERS];
static _Atomic uint64_t n_completed;

static const struct lw_cupti_api *api;
static struct lw_cupti_parser parser;                         /* the reader's alone */
static pthread_mutex_t flow_lock = PTHREAD_MUTEX_INITIALIZER; /* held while the reader uses CUPTI */
static enum lw_cupti_flow flow;
static _Atomic bool is_reading; /* there is a reader */
static bool is_clock_ours;
static uint64_t known_devices; /* bits by number; the reader's alone */

/* Words that threads sleep on. */
static _Atomic uint32_t n_wakes; /* something is to be done */
static _Atomic uint32_t n_flushes_asked, n_flushes_done;

static void sleep_on(_Atomic uint32_t *word, uint32_t while_it_is, int64_t ns)
{
	const struct timespec wait = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};

	syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, while_it_is, &wait, NULL, 0);
}

static void wake(_Atomic uint32_t *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

/* ---- what CUPTI calls ------------------------------------------------------------------------------- */

static bool map_buffer(size_t i)
{
	void *bytes;

	if (buffers[i].bytes)
		return true;
	bytes = mmap(
		NULL, BUFFER_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (bytes == MAP_FAILED)
		return false;
	buffers[i].bytes = bytes;
	return true;
}

/* No buffer is an answer too: CUPTI drops what it would have held, and counts it. */
void lw_cupti_buffer_requested(uint8_t **buffer, size_t *n_bytes, size_t *n_records)
{
	int saved_errno = errno;

	*buffer = NULL;
	*n_bytes = *n_records = 0; /* records: as many as there is room for */
	for (size_t i = 0; i < N_BUFFERS && !*buffer; i++) {
		int free = FREE;

		if (!atomic_compare_exchange_strong(&buffers[i].state, &free, LENT))
			continue;
		if (map_buffer(i)) {
			*buffer = buffers[i].bytes;
			*n_bytes = BUFFER_BYTES;
		} else {
			atomic_store(&buffers[i].state, FREE);
			break;
		}
	}
	errno = saved_errno;
}

void lw_cupti_buffer_completed(
	void *context, uint32_t stream, uint8_t *buffer, size_t n_bytes, size_t n_valid_bytes)
{
	int saved_errno = errno;

	(void)context; /* both are of CUDA before 6 */
	(void)stream;
	(void)n_bytes;
	for (size_t i = 0; i < N_BUFFERS; i++) {
		if (!buffer || buffers[i].bytes != buffer)
			continue;
		buffers[i].n_valid = n_valid_bytes < BUFFER_BYTES ? n_valid_bytes : BUFFER_BYTES;
		buffers[i].serial = atomic_fetch_add(&n_completed, 1);
		/* pairs with the load in next_full(): its bytes and the two above are there */
		atomic_store_explicit(&buffers[i].state, FULL, memory_order_release);
		atomic_fetch_add(&n_wakes, 1);
		wake(&n_wakes);
		break;
	}
	errno = saved_errno;
}

/* ---- one buffer ------------------------------------------------------------------------------------- */

/*
 * CUPTI gives all records of a kernel the same text, and PyTorch's names are hundreds of bytes long: its
 * hash is taken once. The text is compared all the same, for a module may have gone and its memory been
 * used again.
 */
static uint64_t name_kernel(const char *name)
{
	enum { N_NAMES = 256 };
	static struct {
		const char *at;
		uint64_t id;
		size_t n;
		char text[LW_STRING_MAX_BYTES + 1];
	} names[N_NAMES];
	__typeof__(&names[0]) slot = &names[((uintptr_t)name >> 3) * 2654435761u % N_NAMES];

	if (!name)
		return 0;
	if (slot->at != name || strncmp(slot->text, name, LW_STRING_MAX_BYTES)) {
		slot->at = name;
		slot->n = strnlen(name, LW_STRING_MAX_BYTES);
		memcpy(slot->text, name, slot->n);
		slot->text[slot->n] = '\0';
		slot->id = lw_string_id(slot->text, slot->n);
	}
	return lw_string_known(slot->id, slot->text, slot->n);
}

/* CUPTI tells of each device once, and once more at every request for those that there are. */
static void record_device(struct lw_cupti_record *record)
{
	struct lw_event *event = &record->event;
	char pci[LW_PCI_TEXT_BYTES];

	if (event->gpu.device >= 64 || known_devices >> event->gpu.device & 1)
		return;
	known_devices |= UINT64_C(1) << event->gpu.device;
	event->t0_ns = event->t1_ns = lw_now_ns();
	event->gpu.name = lw_string_z(record->name);
	if (lw_cupti_find_pci("/proc/driver/nvidia/gpus", record->uuid, pci))
		event->gpu.pci = lw_string_z(pci);
	lw_record(event);
}

static void record_one(struct lw_cupti_record *record)
{
	struct lw_event *event = &record->event;

	switch (event->kind) {
	case LW_EV_GPU:
		record_device(record);
		return;
	case LW_EV_KERNEL:
		event->kernel.name = name_kernel(record->name);
		break;
	case LW_EV_LAUNCH:
		event->launch.name = lw_string(record->name, record->n_name);
		break;
	case LW_EV_GPU_OVERHEAD:
		event->gpu_overhead.name = lw_string_z(record->name);
		break;
	default:
		break;
	}
	lw_record(event);
}

struct reading {
	int64_t patience_ns; /* left */
	uint64_t n_unknown, n_torn, n_unfinished;
};

static void read_record(struct reading *reading, const uint8_t *bytes, size_t n_bytes)
{
	struct lw_cupti_record record;

	switch (lw_cupti_parse(&parser, bytes, n_bytes, &record)) {
	case LW_CUPTI_IS_EVENT:
		reading->patience_ns = lw_record_room(ROOM_WANTED, reading->patience_ns);
		record_one(&record);
		break;
	case LW_CUPTI_IS_NOTHING:
		break;
	case LW_CUPTI_IS_UNKNOWN:
		reading->n_unknown++;
		break;
	case LW_CUPTI_IS_TORN:
		reading->n_torn++;
		break;
	case LW_CUPTI_IS_UNFINISHED:
		reading->n_unfinished++;
		break;
	}
}

static void tell_losses(const struct reading *reading, uint64_t n_dropped)
{
	if (n_dropped)
		lw_loss(LW_LOSS_TABLE_FULL, n_dropped, "cupti buffers");
	if (reading->n_unknown)
		lw_loss(LW_LOSS_UNKNOWN_KIND, reading->n_unknown, "cupti");
	if (reading->n_torn)
		lw_loss(LW_LOSS_TORN, reading->n_torn, "cupti");
	if (reading->n_unfinished)
		lw_loss(LW_LOSS_UNENDED, reading->n_unfinished, "gpu work");
}

/* CUPTI's clock against ours; the tightest of five, so that a preemption does not spoil it. */
static int64_t measure_offset_ns(void)
{
	int64_t best_ns = INT64_MAX, offset_ns = 0;

	for (int i = 0; i < 5; i++) {
		int64_t before_ns = lw_now_ns(), after_ns;
		uint64_t theirs_ns;

		if (!api->GetTimestamp || api->GetTimestamp(&theirs_ns))
			return 0;
		after_ns = lw_now_ns();
		if (after_ns - before_ns < best_ns) {
			best_ns = after_ns - before_ns;
			offset_ns = before_ns + best_ns / 2 - (int64_t)theirs_ns;
		}
	}
	return offset_ns;
}

/* A record is known to be whole when CUPTI has stepped over it; how long it is depends on the version. */
static void read_buffer(uint8_t *bytes, size_t n_valid)
{
	static bool is_given_up; /* nobody seems to collect: not for every buffer anew */
	struct reading reading = {.patience_ns = patience_ns};
	uint8_t *record = NULL, *next = NULL;
	size_t n_dropped = 0;

	if (is_given_up && !lw_record_room(ROOM_WANTED, 1))
		reading.patience_ns = 0;
	if (!is_clock_ours)
		parser.offset_ns = measure_offset_ns();
	while (!api->ActivityGetNextRecord(bytes, n_valid, &next)) {
		if (next < bytes || next >= bytes + n_valid || (record && next <= record)) {
			reading.n_torn++;
			break;
		}
		if (record)
			read_record(&reading, record, (size_t)(next - record));
		record = next;
	}
	if (record)
		read_record(&reading, record, (size_t)(bytes + n_valid - record));
	is_given_up = !reading.patience_ns;
	if (api->ActivityGetNumDroppedRecords &&
		api->ActivityGetNumDroppedRecords(NULL, 0, &n_dropped))
		n_dropped = 0;
	tell_losses(&reading, n_dropped);
}

/* ---- the reader ------------------------------------------------------------------------------------- */

/* Return: index of the buffer that came back first of those not yet read; N_BUFFERS = none. */
static size_t next_full(void)
{
	size_t first = N_BUFFERS;

	for (size_t i = 0; i < N_BUFFERS; i++)
		if (atomic_load_explicit(&buffers[i].state, memory_order_acquire) == FULL &&
			(first == N_BUFFERS || buffers[i].serial < buffers[first].serial))
			first = i;
	return first;
}

static void read_all(void)
{
	for (size_t i = next_full(); i < N_BUFFERS; i = next_full()) {
		if (flow == LW_CUPTI_FLOW_OPEN && lw_is_live())
			read_buffer(buffers[i].bytes, buffers[i].n_valid);
		else if (buffers[i].n_valid)
			lw_loss(LW_LOSS_UNENDED, 1, "cupti buffers given back too late");
		atomic_store(&buffers[i].state, FREE);
	}
}

/* The process ends, or goes on without CUPTI: neither may happen while the reader is inside it. */
static void work(bool is_period_over)
{
	uint32_t asked = atomic_load(&n_flushes_asked);
	bool is_asked = asked != atomic_load(&n_flushes_done);

	pthread_mutex_lock(&flow_lock);
	if (flow == LW_CUPTI_FLOW_OPEN && (is_asked || is_period_over))
		api->ActivityFlushAll(is_asked ? LW_CUPTI_FLUSH_FORCED : 0);
	read_all();
	pthread_mutex_unlock(&flow_lock);
	if (is_asked) {
		atomic_store(&n_flushes_done, asked);
		wake(&n_flushes_done);
	}
}

static void *read_buffers(void *unused)
{
	int64_t last_ns = lw_now_ns();

	(void)unused;
	lw_thread_role(LW_THREAD_OTHER);
	for (;;) {
		uint32_t seen = atomic_load(&n_wakes);
		int64_t now_ns = lw_now_ns();
		bool is_period_over = now_ns - last_ns >= period_ns;

		work(is_period_over);
		if (is_period_over)
			last_ns = now_ns;
		sleep_on(&n_wakes, seen, period_ns);
	}
	return NULL;
}

bool lw_cupti_reader_start(const struct lw_cupti_api *with)
{
	sigset_t all, old;
	pthread_attr_t attributes;
	pthread_t thread;
	bool is_started;

	api = with;
	if (atomic_load(&is_reading))
		return true;
	/* Signals are the job's. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	pthread_attr_init(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attributes, STACK_BYTES);
	is_started = !pthread_create(&thread, &attributes, read_buffers, NULL);
	if (is_started)
		pthread_setname_np(thread, "lapwing-gpu");
	pthread_attr_destroy(&attributes);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	atomic_store(&is_reading, is_started);
	return is_started;
}

static void deadline_in(int64_t ns, struct timespec *ret)
{
	clock_gettime(CLOCK_REALTIME,
		ret); /* the only clock that all libcs let a lock be waited for by */
	ns += ret->tv_nsec;
	ret->tv_sec += ns / 1000000000;
	ret->tv_nsec = ns % 1000000000;
}

void lw_cupti_reader_flow(enum lw_cupti_flow wanted)
{
	struct timespec deadline;
	bool is_held;

	deadline_in(flow_patience_ns, &deadline);
	is_held = !pthread_mutex_timedlock(&flow_lock, &deadline);
	flow = wanted; /* without the lock the reader is stuck inside CUPTI, and sees it when it comes back */
	if (is_held)
		pthread_mutex_unlock(&flow_lock);
}

void lw_cupti_reader_clock(bool is_ours, bool is_tid_of_kernel)
{
	is_clock_ours = is_ours;
	memset(&parser, 0, sizeof(parser)); /* another client may have begun anew to number calls */
	parser.is_tid_of_kernel = is_tid_of_kernel;
}

bool lw_cupti_reader_flush(int64_t patience)
{
	int64_t end_ns = lw_now_ns() + patience, left_ns;
	uint32_t asked, done;

	if (!atomic_load(&is_reading))
		return true;
	asked = atomic_fetch_add(&n_flushes_asked, 1) + 1;
	atomic_fetch_add(&n_wakes, 1);
	wake(&n_wakes);
	while ((int32_t)((done = atomic_load(&n_flushes_done)) - asked) < 0) {
		left_ns = end_ns - lw_now_ns();
		if (left_ns <= 0)
			return false;
		sleep_on(&n_flushes_done, done, left_ns);
	}
	return true;
}

void lw_cupti_reader_forget(void)
{
	static const pthread_mutex_t unlocked = PTHREAD_MUTEX_INITIALIZER;

	flow_lock = unlocked;
	flow = LW_CUPTI_FLOW_CLOSED;
	known_devices = 0;
	atomic_store(&is_reading, false);
	for (size_t i = 0; i < N_BUFFERS; i++) /* what CUPTI held there it held in the parent */
		atomic_store(&buffers[i].state, FREE);
}
