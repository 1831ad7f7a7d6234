/* SPDX-License-Identifier: Apache-2.0 */
/* The buffers between CUPTI and the reader, with the rest of the tracer stubbed out: CUPTI is four threads here. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tracer/cupti_layout.h"
#include "tracer/hook_cupti.h"

enum { N_THREADS = 4, N_BUFFERS = 200, N_RECORDS = 50, RECORD_BYTES = 216, POOL = 32 };

/* ---- the tracer ------------------------------------------------------------------------------------- */

static uint32_t live = 1;
const volatile uint32_t *lw_live = &live;
static pthread_t reader;
static _Atomic uint32_t n_kernels[N_THREADS + 1]; /* by device: the thread that made it */
static _Atomic uint64_t last_name;
static _Atomic uint64_t lost[17];
static _Atomic bool is_another_thread, is_out_of_order, is_ring_full;
static _Atomic int64_t least_patience_ns;

void lw_record(const struct lw_event *event)
{
	static uint32_t last[N_THREADS + 1];
	uint32_t device = event->kernel.device;

	if (event->kind != LW_EV_KERNEL)
		return;
	if (!pthread_equal(pthread_self(), reader))
		is_another_thread = true;
	/* what one thread gave back earlier is read earlier */
	if (event->kernel.correlation <= last[device])
		is_out_of_order = true;
	last[device] = event->kernel.correlation;
	last_name = event->kernel.name;
	n_kernels[device]++;
}

void lw_loss(enum lw_loss_reason reason, uint64_t n, const char *where)
{
	assert_non_null(where);
	lost[reason] += n;
}

int64_t lw_record_room(uint32_t n, int64_t patience_ns)
{
	(void)n;
	if (!is_ring_full)
		return patience_ns;
	if (patience_ns > least_patience_ns)
		least_patience_ns = patience_ns;
	return 0;
}

uint64_t lw_string_known(uint64_t id, const char *text, size_t n)
{
	assert_int_equal(id, lw_string_id(text, n));
	return id;
}

uint64_t lw_string(const char *text, size_t n)
{
	return lw_string_id(text, n);
}

uint64_t lw_string_z(const char *text)
{
	return lw_string_id(text, strlen(text));
}

void lw_thread_role(enum lw_thread_role role)
{
	(void)role;
	reader = pthread_self();
}

/* ---- CUPTI ------------------------------------------------------------------------------------------ */

static _Atomic size_t n_dropped;
static _Atomic int n_flushes, n_forced;
static _Atomic bool is_stuck; /* CUPTI does not come back from a flush */

static int step(uint8_t *buffer, size_t n_valid, uint8_t **record)
{
	uint8_t *next = *record ? *record + RECORD_BYTES : buffer;

	if (next >= buffer + n_valid)
		return 12;
	*record = next;
	return 0;
}

static int count_dropped(void *context, uint32_t stream, size_t *n)
{
	(void)context;
	(void)stream;
	*n = atomic_exchange(&n_dropped, 0);
	return 0;
}

static int flush_all(uint32_t flags)
{
	n_flushes++;
	n_forced += flags == LW_CUPTI_FLUSH_FORCED;
	while (is_stuck)
		usleep(1000);
	return 0;
}

static const struct lw_cupti_api api = {.ActivityGetNextRecord = step,
	.ActivityGetNumDroppedRecords = count_dropped,
	.ActivityFlushAll = flush_all};

static char kernel_name[2000] = "kernel";

static void fill(uint8_t *record, uint32_t device, uint32_t correlation)
{
	const char *at = kernel_name;
	uint32_t kind = LW_CUPTI_KIND_CONCURRENT_KERNEL;
	uint64_t start = 1000, end = 2000;

	memset(record, 0, RECORD_BYTES);
	memcpy(record, &kind, sizeof(kind));
	memcpy(record + LW_CUPTI_KERNEL_START, &start, sizeof(start));
	memcpy(record + LW_CUPTI_KERNEL_END, &end, sizeof(end));
	memcpy(record + LW_CUPTI_KERNEL_DEVICE, &device, sizeof(device));
	memcpy(record + LW_CUPTI_KERNEL_CORRELATION, &correlation, sizeof(correlation));
	memcpy(record + LW_CUPTI_KERNEL_NAME, &at, sizeof(at));
}

static void give(uint32_t device, uint32_t *correlation)
{
	uint8_t *buffer;
	size_t n_bytes, n_records;

	errno = 77;
	lw_cupti_buffer_requested(&buffer, &n_bytes, &n_records);
	assert_int_equal(errno, 77);
	if (!buffer) {
		n_dropped += N_RECORDS;
		usleep(100);
		return;
	}
	assert_int_equal((uintptr_t)buffer % 8, 0);
	assert_true(n_bytes >= N_RECORDS * RECORD_BYTES);
	for (uint32_t i = 0; i < N_RECORDS; i++)
		fill(buffer + i * RECORD_BYTES, device, ++*correlation);
	lw_cupti_buffer_completed(NULL, 0, buffer, n_bytes, N_RECORDS * RECORD_BYTES);
	assert_int_equal(errno, 77);
}

static void *be_cupti(void *device)
{
	uint32_t correlation = 0;

	for (int i = 0; i < N_BUFFERS; i++)
		give((uint32_t)(uintptr_t)device, &correlation);
	return NULL;
}

static void open_reader(void)
{
	lw_cupti_reader_clock(true, true);
	assert_true(lw_cupti_reader_start(&api));
	lw_cupti_reader_flow(LW_CUPTI_FLOW_OPEN);
}

/* ---- tests ------------------------------------------------------------------------------------------ */

static void every_record_is_written_once_by_the_reader_or_counted(void **state)
{
	pthread_t threads[N_THREADS];
	uint64_t n = 0;

	(void)state;
	open_reader();
	for (uintptr_t i = 0; i < N_THREADS; i++)
		pthread_create(&threads[i], NULL, be_cupti, (void *)i);
	for (int i = 0; i < N_THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_true(lw_cupti_reader_flush(10000000000));
	for (int i = 0; i < N_THREADS; i++)
		n += n_kernels[i];
	assert_int_equal(
		n + lost[LW_LOSS_TABLE_FULL] + n_dropped, N_THREADS * N_BUFFERS * N_RECORDS);
	assert_true(n > POOL * N_RECORDS);
	assert_false(is_another_thread);
	assert_false(is_out_of_order);
	assert_int_equal(n_forced, 1);
}

static void a_flush_that_lasts_is_not_waited_for_in_vain(void **state)
{
	(void)state;
	is_stuck = true;
	assert_false(lw_cupti_reader_flush(20000000));
	is_stuck = false;
	assert_true(lw_cupti_reader_flush(10000000000));
}

static void with_a_full_ring_it_loses_patience_once(void **state)
{
	uint32_t correlation = 1000000;

	(void)state;
	is_ring_full = true;
	give(N_THREADS, &correlation);
	assert_true(lw_cupti_reader_flush(10000000000));
	assert_true(least_patience_ns > 1000000000);
	least_patience_ns = 0;
	give(N_THREADS, &correlation); /* nobody collects: it only looks */
	assert_true(lw_cupti_reader_flush(10000000000));
	assert_int_equal(least_patience_ns, 1);
	is_ring_full = false;
	give(N_THREADS, &correlation);
	assert_true(lw_cupti_reader_flush(10000000000));
	assert_int_equal(n_kernels[N_THREADS], 3 * N_RECORDS);
}

static void closed_it_leaves_cupti_alone_and_counts_what_comes(void **state)
{
	uint32_t correlation = 2000000, before = n_kernels[N_THREADS];
	int n;

	(void)state;
	lw_cupti_reader_flow(LW_CUPTI_FLOW_CLOSED);
	n = n_flushes;
	give(N_THREADS, &correlation);
	assert_true(lw_cupti_reader_flush(10000000000));
	assert_int_equal(n_flushes, n);
	assert_int_equal(n_kernels[N_THREADS], before);
	assert_int_equal(lost[LW_LOSS_UNENDED], 1);
	open_reader(); /* the same thread goes on */
	give(N_THREADS, &correlation);
	assert_true(lw_cupti_reader_flush(10000000000));
	assert_int_equal(n_kernels[N_THREADS], before + N_RECORDS);
}

/* A module has gone, and another one's names lie where its were. */
static void a_name_is_what_its_text_is_now(void **state)
{
	static const char *const names[] = {"kernel", "kernels", "kern", "other", "kernel"};
	uint32_t correlation = 2500000;

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		strcpy(kernel_name, names[i]);
		give(N_THREADS, &correlation);
		assert_true(lw_cupti_reader_flush(10000000000));
		assert_int_equal(last_name, lw_string_id(names[i], strlen(names[i])));
	}
	memset(kernel_name, 'x', sizeof(kernel_name) - 1); /* cut, and still one name */
	for (int i = 0; i < 2; i++) {
		give(N_THREADS, &correlation);
		assert_true(lw_cupti_reader_flush(10000000000));
		assert_int_equal(last_name, lw_string_id(kernel_name, LW_STRING_MAX_BYTES));
	}
}

static void a_buffer_of_nobodys_is_not_read(void **state)
{
	static uint8_t foreign[RECORD_BYTES];
	uint32_t before = n_kernels[N_THREADS];

	(void)state;
	fill(foreign, N_THREADS, 3000000);
	lw_cupti_buffer_completed(NULL, 0, foreign, sizeof(foreign), sizeof(foreign));
	lw_cupti_buffer_completed(NULL, 0, NULL, 0, 0);
	assert_true(lw_cupti_reader_flush(10000000000));
	assert_int_equal(n_kernels[N_THREADS], before);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_record_is_written_once_by_the_reader_or_counted),
		cmocka_unit_test(a_flush_that_lasts_is_not_waited_for_in_vain),
		cmocka_unit_test(with_a_full_ring_it_loses_patience_once),
		cmocka_unit_test(closed_it_leaves_cupti_alone_and_counts_what_comes),
		cmocka_unit_test(a_name_is_what_its_text_is_now),
		cmocka_unit_test(a_buffer_of_nobodys_is_not_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
