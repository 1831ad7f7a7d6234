/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_store.c - ring to SQLite: events per second on one core, and bytes per event stored.
 *
 *	bench_store [RUNS] [EVENTS] [FOLDER]
 *
 * The mix of a real run (tests/lib/mix.h) is pushed into a ring in FOLDER (default: /tmp), a full ring
 * at a time, and drained by the collector's own code; pushing is not in the time. Beside it, in the
 * same run and with the same validation, the alternative: one prepared INSERT bound per record.
 * Prints one JSON line, medians with [lowest, highest] over the runs. CPU time is of the whole process:
 * the collector has one thread. Times are those of a machine that has been up for 30 days: a young
 * clock's would be two bytes shorter.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/units.h"
#include "collector/drain.h"
#include "collector/writer.h"
#include "schema/store.h"
#include "tests/lib/mix.h"

enum { RING_RECORDS = 1 << 16, MAX_RUNS = 99 };
#define UPTIME_NS (INT64_C(30) * 86400 * LW_NS_PER_S)

struct result {
	double cpu_s, wall_s, close_cpu_s;
	int64_t n_events, n_rows;
	int64_t data_bytes, file_bytes; /* before and after the indexes */
};

/* CLOCK_MONOTONIC as if the machine had started UPTIME_NS before this program. */
static int64_t aged_now_ns(void)
{
	static int64_t start_ns;

	if (!start_ns)
		start_ns = lw_mix_now_ns();
	return lw_mix_now_ns() - start_ns + UPTIME_NS;
}

static double seconds(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static _Noreturn void die(const char *what)
{
	fprintf(stderr, "bench_store: %s: %s\n", what, lw_error_text());
	exit(1);
}

static struct lw_ring_header *make_ring(const char *folder)
{
	char path[300];
	struct lw_ring_header *ring;
	int fd;

	snprintf(path, sizeof(path), "%s/%d.%d.0.ring", folder, (int)getpid(), (int)getpid());
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0 || ftruncate(fd, (off_t)lw_ring_file_bytes(RING_RECORDS)) < 0)
		die(path);
	ring = mmap(
		NULL, lw_ring_file_bytes(RING_RECORDS), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (ring == MAP_FAILED)
		die("mmap");
	ring->created_ns = aged_now_ns();
	lw_ring_init(ring, RING_RECORDS, (uint32_t)getpid(), (uint32_t)getpid(), 0);
	return ring;
}

static void push(void *ring, const struct lw_event *event)
{
	lw_ring_push(ring, event);
}

/* ---- the alternative: bind and step, row by row --------------------------------------------------- */

static const struct {
	int kind;
	const char *sql;
} plain_sql[] = {
	{LW_EV_READY, "INSERT INTO ready VALUES(?,?,?,?,?,?)"},
	{LW_EV_BATCH_TENSOR, "INSERT INTO batch_tensor VALUES(?,?,?,?,?,?,?,?,?)"},
	{LW_EV_BATCH, "INSERT INTO batch VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?)"},
	{LW_EV_CYCLE, "INSERT INTO cycle VALUES(?,?,?,?,?,?,?,?,?,?,?)"},
	{LW_EV_COLLECTIVE, "INSERT INTO collective VALUES(?,?,?,?,?,?,?,?,?,?,?)"},
	{LW_EV_WAIT, "INSERT INTO wait VALUES(?,?,?,?,?)"},
};
enum { N_PLAIN = sizeof(plain_sql) / sizeof(plain_sql[0]) };

static int plain_values(const struct lw_event *e, int64_t *v)
{
	int n = 0;

	v[n++] = 1;
	v[n++] = e->seq;
	v[n++] = e->t0_ns;
	switch (e->kind) {
	case LW_EV_READY:
		v[n++] = (int64_t)e->ready.object;
		v[n++] = 1;
		v[n++] = (int64_t)e->ready.bytes;
		break;
	case LW_EV_BATCH_TENSOR:
		v[n++] = (int64_t)e->batch_tensor.batch;
		v[n++] = e->op;
		v[n++] = (int64_t)(e->batch_tensor.name % LW_MIX_TENSORS);
		v[n++] = (int64_t)e->batch_tensor.object;
		v[n++] = (int64_t)e->batch_tensor.bytes;
		v[n++] = e->batch_tensor.dtype;
		break;
	case LW_EV_BATCH:
		v[n++] = e->t1_ns;
		v[n++] = e->op;
		v[n++] = (int64_t)e->batch.batch;
		v[n++] = e->batch.n_tensors;
		v[n++] = (int64_t)e->batch.bytes;
		v[n++] = (int64_t)e->batch.fusion_bytes;
		v[n++] = e->batch.process_set;
		v[n++] = e->batch.dtype;
		v[n++] = e->batch.flags;
		v[n++] = e->batch.framework;
		break;
	case LW_EV_CYCLE:
		v[n++] = e->t1_ns;
		v[n++] = e->op;
		v[n++] = (int64_t)e->cycle.in_bits;
		v[n++] = (int64_t)e->cycle.out_bits;
		v[n++] = e->cycle.n_words;
		v[n++] = e->cycle.n_unchanged;
		v[n++] = e->cycle.unchanged_ns;
		v[n++] = e->cycle.unchanged_span_ns;
		break;
	case LW_EV_COLLECTIVE:
		v[n++] = e->t1_ns;
		v[n++] = e->op;
		v[n++] = (int64_t)e->collective.comm;
		v[n++] = (int64_t)e->collective.sent_bytes;
		v[n++] = (int64_t)e->collective.received_bytes;
		v[n++] = e->collective.root;
		v[n++] = e->collective.flags;
		v[n++] = e->collective.transport;
		break;
	default:
		v[n++] = e->t1_ns;
		v[n++] = e->op;
	}
	return n;
}

static void put_plain(
	struct lw_store *store, sqlite3_stmt *const *insert, const struct lw_take *take)
{
	if (lw_store_exec(store, "BEGIN IMMEDIATE") < 0)
		die("begin");
	for (size_t i = 0; i < take->n; i++) {
		const struct lw_event *event = &take->events[i];
		int64_t values[16];
		int n = plain_values(event, values);
		sqlite3_stmt *statement = insert[event->kind];

		if (!statement)
			continue;
		for (int column = 0; column < n; column++)
			sqlite3_bind_int64(statement, column + 1, values[column]);
		if (sqlite3_step(statement) != SQLITE_DONE)
			die(sqlite3_errmsg(store->db));
		sqlite3_reset(statement);
	}
	if (lw_store_exec(store, "COMMIT") < 0)
		die("commit");
}

/* ---- both ------------------------------------------------------------------------------------------- */

static int64_t file_bytes(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 ? st.st_size : 0;
}

static int64_t count_rows(const char *path)
{
	struct lw_store *store;
	int64_t n = 0;

	if (lw_store_open(path, LW_STORE_READ, &store) < 0 ||
		lw_store_int(store,
			"SELECT (SELECT count(*) FROM ready) + (SELECT count(*) FROM batch_tensor)"
			" + (SELECT count(*) FROM batch) + (SELECT count(*) FROM cycle)"
			" + (SELECT count(*) FROM collective) + (SELECT count(*) FROM wait)",
			&n) < 0)
		die(path);
	lw_store_close(store);
	return n;
}

/* A full ring, drained; again and again. @is_plain: the alternative. */
static struct result measure(const char *folder, int64_t n_events, bool is_plain)
{
	struct lw_ring_header *ring = make_ring(folder);
	struct lw_process process = {.pid = (uint32_t)getpid(), .watch_fd = -1};
	struct result result = {0};
	struct lw_drain drain;
	struct lw_writer *writer = NULL;
	struct lw_store *store = NULL;
	sqlite3_stmt *insert[LW_EV_COUNT] = {0};
	char path[300], text[64];
	int64_t n = 0;

	snprintf(path, sizeof(path), "%s/bench.lapwing", folder);
	if (is_plain) {
		if (lw_store_open(path, LW_STORE_CREATE, &store) < 0)
			die(path);
		for (int i = 0; i < N_PLAIN; i++)
			if (lw_store_prepare(store, plain_sql[i].sql, &insert[plain_sql[i].kind]) <
				0)
				die(plain_sql[i].sql);
	} else if (lw_writer_create(path, "bench", "", &writer) < 0) {
		die(path);
	}
	if (lw_drain_open(&drain, folder) < 0 || lw_drain_discover(&drain, NULL, NULL) != 1)
		die(folder);
	drain.rings.at[0]->process = &process;
	if (writer &&
		(lw_writer_begin(writer) < 0 || lw_writer_register(writer, drain.rings.at[0]) < 0 ||
			lw_writer_commit(writer) < 0))
		die("register");
	for (uint64_t tensor = 0; tensor < LW_MIX_TENSORS; tensor++) {
		lw_mix_name(tensor, text);
		lw_mix_push_text(push, ring, text, aged_now_ns());
	}
	while (n < n_events) {
		double cpu_s, wall_s;
		size_t n_taken;

		for (;; n++) {
			struct lw_event event = lw_mix_event((uint64_t)n, aged_now_ns());

			event.t1_ns = event.t0_ns + (event.t1_ns - event.t0_ns) % 900000000;
			if (atomic_load(&ring->head) - atomic_load(&ring->tail) >= RING_RECORDS)
				break;
			lw_ring_push(ring, &event);
		}
		cpu_s = seconds(CLOCK_PROCESS_CPUTIME_ID);
		wall_s = seconds(CLOCK_MONOTONIC);
		if (writer && lw_writer_begin(writer) < 0)
			die("begin");
		n_taken = lw_drain_take(&drain, aged_now_ns());
		if (is_plain)
			put_plain(store, insert, &drain.take);
		else if (lw_writer_put(writer, &drain) < 0 || lw_writer_commit(writer) < 0)
			die("put");
		lw_drain_release(&drain);
		result.cpu_s += seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu_s;
		result.wall_s += seconds(CLOCK_MONOTONIC) - wall_s;
		result.n_events += (int64_t)n_taken;
	}
	result.close_cpu_s = seconds(CLOCK_PROCESS_CPUTIME_ID);
	if (writer) {
		int64_t pages = 0;

		/* the data alone: what the file would hold without its indexes */
		if (lw_store_open(path, LW_STORE_READ, &store) < 0 ||
			lw_store_int(store, "PRAGMA page_count", &pages) < 0 ||
			lw_store_int(store, "PRAGMA page_size", &result.data_bytes) < 0)
			die(path);
		result.data_bytes *= pages;
		lw_store_close(store);
		if (lw_writer_finish(writer, 0) < 0)
			die("finish");
	}
	result.close_cpu_s = seconds(CLOCK_PROCESS_CPUTIME_ID) - result.close_cpu_s;
	lw_writer_close(writer);
	if (is_plain) {
		for (int kind = 0; kind < LW_EV_COUNT; kind++)
			sqlite3_finalize(insert[kind]);
		lw_store_close(store);
	}
	result.file_bytes = file_bytes(path);
	result.n_rows = count_rows(path);
	lw_drain_forget_all(&drain);
	lw_drain_close(&drain);
	munmap(ring, lw_ring_file_bytes(RING_RECORDS));
	unlink(path);
	return result;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* "name":{"median":..,"low":..,"high":..} of @n values, which are sorted. */
static void print_spread(const char *name, double *values, int n, int decimals)
{
	qsort(values, (size_t)n, sizeof(*values), compare);
	printf(",\"%s\":{\"median\":%.*f,\"low\":%.*f,\"high\":%.*f}", name, decimals,
		(values[(n - 1) / 2] + values[n / 2]) / 2, decimals, values[0], decimals,
		values[n - 1]);
}

int main(int argc, char **argv)
{
	int n_runs = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 5;
	int64_t n_events = argc > 2 ? strtoll(argv[2], NULL, 10) : 2000000;
	double ours_cpu[MAX_RUNS], ours_wall[MAX_RUNS], plain_cpu[MAX_RUNS], plain_wall[MAX_RUNS];
	double data[MAX_RUNS], file[MAX_RUNS], close_cpu[MAX_RUNS];
	char folder[200];

	snprintf(folder, sizeof(folder), "%s/lapwing-bench-XXXXXX", argc > 3 ? argv[3] : "/tmp");
	if (n_events < 1 || n_runs < 1 || n_runs > MAX_RUNS || !mkdtemp(folder))
		die(folder);
	for (int i = 0; i < n_runs; i++) {
		struct result plain = measure(folder, n_events, true);
		struct result ours = measure(folder, n_events, false);

		if (ours.n_rows != plain.n_rows)
			die("the two ways stored different numbers of rows");
		n_events = ours.n_events;
		plain_cpu[i] = (double)plain.n_events / plain.cpu_s;
		plain_wall[i] = (double)plain.n_events / plain.wall_s;
		ours_cpu[i] = (double)ours.n_events / ours.cpu_s;
		ours_wall[i] = (double)ours.n_events / ours.wall_s;
		data[i] = (double)ours.data_bytes / (double)ours.n_events;
		file[i] = (double)ours.file_bytes / (double)ours.n_events;
		close_cpu[i] = ours.close_cpu_s;
	}
	rmdir(folder);
	printf("{\"bench\":\"store\",\"n_runs\":%d,\"n_events\":%" PRId64, n_runs, n_events);
	print_spread("events_per_cpu_s", ours_cpu, n_runs, 0);
	print_spread("events_per_wall_s", ours_wall, n_runs, 0);
	print_spread("plain_insert_events_per_cpu_s", plain_cpu, n_runs, 0);
	print_spread("plain_insert_events_per_wall_s", plain_wall, n_runs, 0);
	print_spread("data_bytes_per_event", data, n_runs, 1);
	print_spread("file_bytes_per_event", file, n_runs, 1);
	print_spread("close_cpu_s", close_cpu, n_runs, 2);
	printf("}\n");
	return 0;
}
