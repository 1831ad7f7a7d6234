/* SPDX-License-Identifier: Apache-2.0 */
/* The drain and the writer against rings that nobody honest would make; and who was killed where. */
#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/units.h"
#include "collector/drain.h"
#include "collector/writer.h"
#include "tests/lib/mix.h"

enum { N = 256, NOW_S = 1000 };
#define NOW_NS (NOW_S * LW_NS_PER_S)

static char folder[64], run_path[80];
static struct lw_drain drain;
static struct lw_writer *writer;
static struct lw_process process;
static struct lw_ring_header *ring; /* the producer's view */
static char refused_why[128];

static void ring_path(int serial, char path[128])
{
	snprintf(path, 128, "%s/77.78.%d.ring", folder, serial);
}

static struct lw_ring_header *make_ring(int serial)
{
	char path[128];
	int fd;
	struct lw_ring_header *made;

	ring_path(serial, path);
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	assert_int_equal(ftruncate(fd, (off_t)lw_ring_file_bytes(N)), 0);
	made = mmap(NULL, lw_ring_file_bytes(N), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	assert_true(made != MAP_FAILED);
	made->created_ns = NOW_NS - LW_NS_PER_S;
	lw_ring_init(made, N, 77, 78, (uint32_t)serial);
	return made;
}

static int setup(void **state)
{
	(void)state;
	strcpy(folder, "/tmp/lapwing-drain-XXXXXX");
	if (!mkdtemp(folder))
		return -1;
	snprintf(run_path, sizeof(run_path), "%s/run.lapwing", folder);
	ring = make_ring(0);
	process = (struct lw_process){.pid = 77, .watch_fd = -1};
	refused_why[0] = '\0';
	return lw_writer_create(run_path, "test", "", &writer) || lw_drain_open(&drain, folder);
}

static int teardown(void **state)
{
	char command[128];

	(void)state;
	lw_writer_close(writer);
	lw_drain_close(&drain);
	munmap(ring, lw_ring_file_bytes(N));
	snprintf(command, sizeof(command), "rm -rf %s", folder);
	return system(command);
}

static void note(void *user, const char *name, const char *why)
{
	(void)user;
	(void)name;
	snprintf(refused_why, sizeof(refused_why), "%s", why);
}

static int discover(void)
{
	int n = lw_drain_discover(&drain, note, NULL);

	assert_int_equal(lw_writer_begin(writer), LW_OK);
	for (size_t i = 0; i < drain.rings.n; i++) {
		if (drain.rings.at[i]->process)
			continue;
		drain.rings.at[i]->process = &process;
		assert_int_equal(lw_writer_register(writer, drain.rings.at[i]), LW_OK);
	}
	assert_int_equal(lw_writer_commit(writer), LW_OK);
	return n;
}

/* One transaction. Return: records taken. */
static size_t take(void)
{
	size_t n;

	assert_int_equal(lw_writer_begin(writer), LW_OK);
	n = lw_drain_take(&drain, NOW_NS);
	assert_int_equal(lw_writer_put(writer, &drain), LW_OK);
	assert_int_equal(lw_writer_commit(writer), LW_OK);
	return n;
}

static int64_t number(const char *sql)
{
	struct lw_store *store;
	int64_t value = -1;

	assert_int_equal(lw_store_open(run_path, LW_STORE_READ, &store), LW_OK);
	assert_int_equal(lw_store_int(store, sql, &value), LW_OK);
	lw_store_close(store);
	return value;
}

static int64_t lost(int reason)
{
	char sql[100];

	snprintf(
		sql, sizeof(sql), "SELECT coalesce(sum(n), 0) FROM loss WHERE reason = %d", reason);
	return number(sql);
}

static void push(void *to, const struct lw_event *event)
{
	lw_ring_push(to, event);
}

static void push_wait(int64_t t0_ns)
{
	struct lw_event event = {
		.kind = LW_EV_WAIT, .op = LW_WAIT_POLL_SLEEP, .t0_ns = t0_ns, .t1_ns = t0_ns + 5};

	lw_ring_push(ring, &event);
}

static void balance_holds(void)
{
	assert_int_equal(
		number("SELECT count(*) FROM thread WHERE n_pushed <> n_stored + n_lost"), 0);
}

static void records_become_rows_of_their_tables(void **state)
{
	char text[64];

	(void)state;
	for (uint64_t tensor = 0; tensor < LW_MIX_TENSORS; tensor++) {
		lw_mix_name(tensor, text);
		lw_mix_push_text(push, ring, text, NOW_NS);
	}
	for (uint64_t i = 0; i < LW_MIX_PER_STEP; i++) {
		struct lw_event event = lw_mix_event(i, NOW_NS);

		event.t1_ns = event.t0_ns;
		lw_ring_push(ring, &event);
	}
	assert_int_equal(discover(), 1);
	assert_int_equal(take(), LW_MIX_PER_STEP + 2 * LW_MIX_TENSORS);
	assert_int_equal(number("SELECT count(*) FROM ready"), 24);
	assert_int_equal(number("SELECT count(*) FROM batch_tensor"), 24);
	assert_int_equal(number("SELECT count(*) FROM batch"), 6);
	assert_int_equal(number("SELECT count(*) FROM collective"), 10);
	assert_int_equal(number("SELECT count(*) FROM cycle"), 4);
	assert_int_equal(number("SELECT count(*) FROM wait"), 6);
	assert_int_equal(
		number("SELECT count(*) FROM v_tensor WHERE name LIKE 'allreduce.layer%'"), 24);
	assert_int_equal(number("SELECT sent_bytes FROM collective ORDER BY seq LIMIT 1"),
		262144 + 7 * 4096);
	assert_int_equal(number("SELECT count(*) FROM loss"), 0);
	balance_holds();
}

static void every_kind_that_is_not_a_row_changes_one(void **state)
{
	struct lw_event event = {.t0_ns = NOW_NS, .t1_ns = NOW_NS, .kind = LW_EV_PROCESS};

	(void)state;
	lw_mix_push_text(push, ring, "python3 train.py", NOW_NS);
	lw_mix_push_text(push, ring, "", NOW_NS);
	event.process = (struct lw_ev_process){.rank = 3,
		.size = -1,
		.local_rank = -1,
		.local_size = -1,
		.ppid = 9,
		.command = lw_string_id("python3 train.py", 16)};
	lw_ring_push(ring, &event);
	event.process = (struct lw_ev_process){.rank = -1,
		.size = 4,
		.local_rank = -1,
		.local_size = -1,
		.ppid = 9,
		.framework = LW_FRAMEWORK_HOROVOD};
	lw_ring_push(ring, &event);
	event.kind = LW_EV_THREAD;
	event.op = LW_THREAD_BACKGROUND;
	event.thread = (struct lw_ev_thread){.name = lw_string_id("python3 train.py", 16)};
	lw_ring_push(ring, &event);
	event.kind = LW_EV_LOSS;
	event.op = LW_LOSS_REENTRY;
	event.loss = (struct lw_ev_loss){.count = 5};
	lw_ring_push(ring, &event);
	lw_ring_push(ring, &event);
	event.kind = LW_EV_SOCKET;
	event.socket = (struct lw_ev_socket){.socket = 1,
		.local_port = 4000,
		.peer_port = 5000,
		.local = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 198, 18, 0, 1},
		.peer = {0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
	lw_ring_push(ring, &event);
	event.kind = LW_EV_CLOCK;
	event.clock = (struct lw_ev_clock){.realtime_ns = 77};
	lw_ring_push(ring, &event);
	discover();
	take();
	assert_int_equal(
		number("SELECT count(*) FROM process p JOIN string s ON s.id = p.command_id"
		       " WHERE rank = 3 AND size = 4 AND local_rank IS NULL AND framework = 1"
		       " AND ppid = 9 AND s.text = 'python3 train.py'"),
		1);
	assert_int_equal(
		number("SELECT role FROM thread WHERE name_id IS NOT NULL"), LW_THREAD_BACKGROUND);
	assert_int_equal(lost(LW_LOSS_REENTRY), 10);
	assert_int_equal(number("SELECT count(*) FROM loss"), 1);
	assert_int_equal(number("SELECT count(*) FROM socket WHERE local_address = '198.18.0.1'"
				" AND peer_address = '2001:db8::1' AND peer_port = 5000"),
		1);
	assert_int_equal(number("SELECT realtime_ns FROM clock_sample"), 77);
	balance_holds();
}

static void parameters_and_their_gradients_become_rows(void **state)
{
	struct lw_event event = {.t0_ns = NOW_NS, .t1_ns = NOW_NS, .kind = LW_EV_PARAMETER};

	(void)state;
	event.parameter = (struct lw_ev_parameter){
		.reducer = 1, .position = 7, .bytes = 4096, .dtype = LW_DTYPE_FLOAT32};
	lw_ring_push(ring, &event);
	event.parameter.bytes = UINT64_MAX; /* would be negative: not used */
	lw_ring_push(ring, &event);
	event.kind = LW_EV_GRADIENT;
	event.gradient = (struct lw_ev_gradient){.reducer = 1, .position = 7};
	lw_ring_push(ring, &event);
	discover();
	take();
	assert_int_equal(
		number("SELECT count(*) FROM parameter JOIN gradient USING(reducer, position)"
		       " WHERE bytes = 4096 AND dtype = 8 AND position = 7"),
		1);
	assert_int_equal(lost(LW_LOSS_TORN), 1);
	balance_holds();
}

static void a_text_id_that_never_arrived_is_null_and_counted(void **state)
{
	struct lw_event event = {.t0_ns = NOW_NS, .t1_ns = NOW_NS, .kind = LW_EV_READY};

	(void)state;
	event.ready.name = 12345;
	lw_ring_push(ring, &event);
	discover();
	take();
	assert_int_equal(number("SELECT count(*) FROM ready WHERE name_id IS NULL"), 1);
	assert_int_equal(lost(LW_LOSS_UNMATCHED_STRING), 1);
	balance_holds();
}

static void a_text_is_never_split_over_two_takes(void **state)
{
	static char long_text[LW_STRING_MAX_BYTES + 1];
	struct lw_event part = {.t0_ns = NOW_NS, .t1_ns = NOW_NS, .kind = LW_EV_STRING};

	(void)state;
	memset(long_text, 'x', LW_STRING_MAX_BYTES);
	push_wait(1);
	part.string.id = lw_string_id(long_text, LW_STRING_MAX_BYTES);
	part.string.n_bytes = LW_STRING_MAX_BYTES;
	memset(part.string.text, 'x', LW_STRING_PART_BYTES);
	for (; part.op < 20; part.op++)
		lw_ring_push(ring, &part);
	discover();
	assert_int_equal(take(), 1); /* the wait; the text waits for its other parts */
	lw_drain_release(&drain);
	for (; part.op < 34; part.op++)
		lw_ring_push(ring, &part);
	assert_int_equal(take(), 34);
	assert_int_equal(number("SELECT count(*) FROM string WHERE length(text) = 1020"), 1);
	/* a producer that died in the middle will send no more: the parts are counted */
	part.string.id++;
	for (part.op = 0; part.op < 3; part.op++)
		lw_ring_push(ring, &part);
	assert_int_equal(take(), 0);
	drain.rings.at[0]->is_final = true;
	assert_int_equal(take(), 3);
	assert_int_equal(lost(LW_LOSS_TORN), 3);
	balance_holds();
}

static void bad_records_are_counted_and_the_good_ones_kept(void **state)
{
	struct lw_event bad[] = {
		{.kind = 0},
		{.kind = LW_EV_COUNT},
		{.kind = 65535},
		{.kind = LW_EV_COLLECTIVE, .op = 0},
		{.kind = LW_EV_COLLECTIVE, .op = 99},
		{.kind = LW_EV_WAIT, .op = LW_WAIT_POLL_SLEEP, .t0_ns = 10, .t1_ns = 9},
		{.kind = LW_EV_WAIT, .op = LW_WAIT_POLL_SLEEP, .t0_ns = -1, .t1_ns = 9},
		{.kind = LW_EV_WAIT, .op = LW_WAIT_POLL_SLEEP, .t1_ns = INT64_MAX},
		{.kind = LW_EV_WAIT, .op = LW_WAIT_POLL_SLEEP, .t1_ns = NOW_NS + 2 * LW_NS_PER_S},
		{.kind = LW_EV_SETTING, .op = 1, .setting = {.value = (double)NAN}},
		{.kind = LW_EV_SETTING, .op = 1, .setting = {.value = (double)INFINITY}},
		{.kind = LW_EV_READY, .ready = {.bytes = UINT64_MAX}},
		{.kind = LW_EV_STRING, .op = 1, .string = {.n_bytes = 50}},
		{.kind = LW_EV_STRING, .string = {.id = 1, .n_bytes = 3, .text = "abc"}},
		{.kind = LW_EV_STRING, .string = {.id = 1, .n_bytes = 65535}},
		{.kind = LW_EV_LOSS, .op = 200},
	};
	enum { N_BAD = sizeof(bad) / sizeof(bad[0]) };

	(void)state;
	for (size_t i = 0; i < N_BAD; i++) {
		push_wait(100);
		lw_ring_push(ring, &bad[i]);
	}
	push_wait(100);
	discover();
	assert_int_equal(take(), 2 * N_BAD + 1);
	assert_int_equal(number("SELECT count(*) FROM wait"), N_BAD + 1);
	assert_int_equal(lost(LW_LOSS_UNKNOWN_KIND), 3);
	assert_int_equal(lost(LW_LOSS_TORN), N_BAD - 3);
	assert_int_equal(number("SELECT sum(n_stored) FROM thread"), N_BAD + 1);
	assert_int_equal(number("SELECT sum(n_lost) FROM thread"), N_BAD);
	balance_holds();
}

static void a_seq_that_cannot_be_is_not_used(void **state)
{
	(void)state;
	for (int i = 0; i < 10; i++)
		push_wait(100 + i);
	lw_ring_records(ring)[4].seq = 3;  /* again */
	lw_ring_records(ring)[7].seq = 70; /* pushes lost that nobody counted */
	discover();
	take();
	assert_int_equal(number("SELECT count(*) FROM wait"), 8);
	assert_int_equal(lost(LW_LOSS_TORN), 2);
	balance_holds();
}

static void lost_pushes_are_counted_where_they_were_lost(void **state)
{
	(void)state;
	discover();
	for (int i = 0; i < N + 9; i++)
		push_wait(100 + i);
	take();
	assert_int_equal(lost(LW_LOSS_RING_FULL), 0); /* not seen yet: nothing came after */
	lw_drain_release(&drain);
	push_wait(1000);
	take();
	assert_int_equal(lost(LW_LOSS_RING_FULL), 9);
	assert_int_equal(number("SELECT max(seq) FROM wait"), N + 9);
	balance_holds();
	lw_drain_release(&drain);
	for (int i = 0; i < N + 4; i++)
		push_wait(2000 + i);
	take();
	lw_drain_release(&drain);
	assert_int_equal(lw_writer_begin(writer), LW_OK);
	assert_int_equal(lw_writer_end_ring(writer, drain.rings.at[0]), LW_OK);
	assert_int_equal(lw_writer_commit(writer), LW_OK);
	assert_int_equal(lost(LW_LOSS_RING_FULL), 13); /* those after the last record too */
	assert_int_equal(number("SELECT n_pushed FROM thread"),
		(int64_t)(atomic_load(&ring->head) + atomic_load(&ring->lost)));
	balance_holds();
}

static void headers_that_lie_are_refused(void **state)
{
	static const struct {
		const char *why;
		size_t offset, n_bytes;
		uint64_t value;
	} lies[] = {
		{"magic", offsetof(struct lw_ring_header, magic), 8, 0x1234},
		{"version", offsetof(struct lw_ring_header, event_version), 4, 99},
		{"records", offsetof(struct lw_ring_header, n_records), 4, 0},
		{"records", offsetof(struct lw_ring_header, n_records), 4, N + 1},
		{"records", offsetof(struct lw_ring_header, n_records), 4, 1u << 31},
		{"size", offsetof(struct lw_ring_header, n_records), 4, 2 * N},
		{"process", offsetof(struct lw_ring_header, pid), 4, 0},
		{"process", offsetof(struct lw_ring_header, pid), 4, UINT32_MAX},
		{"time", offsetof(struct lw_ring_header, created_ns), 8, UINT64_MAX},
		{"taken", offsetof(struct lw_ring_header, tail), 8, 5},
	};

	(void)state;
	for (int i = 0; i < (int)(sizeof(lies) / sizeof(lies[0])); i++) {
		struct lw_ring_header *liar = make_ring(i + 1);

		memcpy((char *)liar + lies[i].offset, &lies[i].value, lies[i].n_bytes);
		munmap(liar, lw_ring_file_bytes(N));
		refused_why[0] = '\0';
		assert_int_equal(discover(), i == 0);
		if (!strstr(refused_why, lies[i].why))
			fail_msg("lie %d: '%s' does not say '%s'", i, refused_why, lies[i].why);
		refused_why[0] = '\0';
		discover();
		assert_string_equal(refused_why, ""); /* said once */
	}
}

static void files_that_are_no_rings_are_refused(void **state)
{
	char path[128];
	int fd;

	(void)state;
	ring_path(1, path);
	fd = open(path, O_WRONLY | O_CREAT, 0600);
	assert_int_equal(write(fd, "short", 5), 5);
	close(fd);
	discover();
	assert_non_null(strstr(refused_why, "short"));
	ring_path(2, path);
	assert_int_equal(symlink("/etc/passwd", path), 0);
	discover();
	assert_non_null(strstr(refused_why, "symbolic links"));
	ring_path(3, path);
	assert_int_equal(mkfifo(path, 0600), 0);
	discover(); /* and does not wait for a writer */
	assert_non_null(strstr(refused_why, "short"));
	assert_int_equal(drain.rings.n, 1);
}

static void a_ring_that_breaks_while_it_is_read_is_left_alone(void **state)
{
	char path[128];

	(void)state;
	push_wait(1);
	discover();
	assert_int_equal(take(), 1);
	atomic_store(&ring->head, UINT64_MAX / 2);
	assert_int_equal(take(), 0);
	assert_int_equal(lost(LW_LOSS_BAD_RING), 1);
	assert_int_equal(take(), 0);
	assert_int_equal(lost(LW_LOSS_BAD_RING), 1);
	/* another is cut short under our eyes */
	munmap(ring, lw_ring_file_bytes(N));
	ring = make_ring(1);
	push_wait(1);
	discover();
	ring_path(1, path);
	assert_int_equal(truncate(path, 100), 0);
	assert_int_equal(take(), 0);
	assert_int_equal(lost(LW_LOSS_BAD_RING), 2);
	assert_false(lw_ring_is_closed(drain.rings.at[1]));
	assert_int_equal(truncate(path, (off_t)lw_ring_file_bytes(N)), 0);
	balance_holds();
}

static void a_take_without_rings_gives_nothing(void **state)
{
	(void)state;
	push_wait(1);
	discover();
	assert_int_equal(take(), 1);
	lw_drain_forget(&drain, drain.rings.at[0]);
	assert_int_equal(take(), 0);
	assert_int_equal(number("SELECT count(*) FROM wait"), 1);
}

/* A new collector on the same directory and file, as after kill -9 of the first. */
static void restart(void)
{
	lw_writer_close(writer);
	lw_drain_close(&drain);
	process = (struct lw_process){.pid = 77, .watch_fd = -1};
	assert_int_equal(lw_writer_resume(run_path, &writer), LW_OK);
	assert_int_equal(lw_drain_open(&drain, folder), LW_OK);
	assert_int_equal(discover(), 1);
}

static void a_collector_killed_between_commit_and_release_stores_nothing_twice(void **state)
{
	struct lw_event event = {.t0_ns = NOW_NS, .t1_ns = NOW_NS, .kind = LW_EV_READY};
	struct lw_ring_header *known = ring;

	(void)state;
	discover();
	lw_mix_push_text(push, ring, "w", NOW_NS);
	for (int i = 0; i < 100; i++)
		push_wait(i);
	assert_int_equal(take(), 101);
	restart(); /* tail says 0: the slots were never given back */
	assert_int_equal(atomic_load(&known->tail), 0);
	assert_int_equal(drain.rings.at[0]->position, 101);
	event.ready.name = lw_string_id("w", 1);
	for (int i = 100; i < N + 20; i++)
		push_wait(i); /* some are lost: the first collector was dead, the ring full */
	assert_int_equal(take(), N - 101);
	lw_drain_release(&drain);
	lw_ring_push(ring, &event);
	restart();
	assert_int_equal(take(), 1);
	assert_int_equal(number("SELECT count(*) FROM wait"), N - 1);
	assert_int_equal(number("SELECT count(DISTINCT seq) FROM wait"), N - 1);
	assert_int_equal(number("SELECT max(seq) - min(seq) FROM wait"), N - 2);
	/* texts of before the kill are known; losses are counted once */
	assert_int_equal(number("SELECT count(*) FROM ready WHERE name_id IS NOT NULL"), 1);
	assert_int_equal(lost(LW_LOSS_RING_FULL), 21);
	assert_int_equal(number("SELECT count(*) FROM process"), 1);
	assert_int_equal(number("SELECT count(*) FROM thread"), 1);
	balance_holds();
}

static void a_collector_killed_before_the_commit_loses_nothing(void **state)
{
	(void)state;
	discover();
	for (int i = 0; i < 50; i++)
		push_wait(i);
	assert_int_equal(lw_writer_begin(writer), LW_OK);
	assert_int_equal(lw_drain_take(&drain, NOW_NS), 50);
	assert_int_equal(lw_writer_put(writer, &drain), LW_OK);
	restart(); /* no commit */
	assert_int_equal(number("SELECT count(*) FROM wait"), 0);
	assert_int_equal(take(), 50);
	assert_int_equal(number("SELECT count(DISTINCT seq) FROM wait"), 50);
	balance_holds();
}

static void records_taken_into_a_file_that_is_gone_are_counted(void **state)
{
	(void)state;
	discover();
	for (int i = 0; i < 50; i++)
		push_wait(i);
	take();
	lw_drain_release(&drain);
	push_wait(50);
	lw_writer_close(writer);
	lw_drain_close(&drain);
	unlink(run_path);
	process = (struct lw_process){.pid = 77, .watch_fd = -1};
	assert_int_equal(lw_writer_create(run_path, "test", "", &writer), LW_OK);
	assert_int_equal(lw_drain_open(&drain, folder), LW_OK);
	discover();
	assert_int_equal(take(), 1);
	assert_int_equal(lost(LW_LOSS_TAKEN), 50);
	assert_int_equal(number("SELECT n_pushed FROM thread"), 51);
	balance_holds();
}

int main(void)
{
#define T(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(records_become_rows_of_their_tables),
		T(every_kind_that_is_not_a_row_changes_one),
		T(parameters_and_their_gradients_become_rows),
		T(a_text_id_that_never_arrived_is_null_and_counted),
		T(a_text_is_never_split_over_two_takes),
		T(bad_records_are_counted_and_the_good_ones_kept),
		T(a_seq_that_cannot_be_is_not_used),
		T(lost_pushes_are_counted_where_they_were_lost),
		T(headers_that_lie_are_refused),
		T(files_that_are_no_rings_are_refused),
		T(a_ring_that_breaks_while_it_is_read_is_left_alone),
		T(a_take_without_rings_gives_nothing),
		T(a_collector_killed_between_commit_and_release_stores_nothing_twice),
		T(a_collector_killed_before_the_commit_loses_nothing),
		T(records_taken_into_a_file_that_is_gone_are_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
