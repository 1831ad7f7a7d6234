/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/make_run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/vec.h"
#include "schema/event.h"
#include "schema/store.h"

enum { MAX_VALUES = 12, TRAINING = 0, BACKGROUND = 1 };

#define ok(status)                                                                                 \
	do {                                                                                       \
		if ((status) != LW_OK)                                                             \
			fail_msg("%s", lw_error_text());                                           \
	} while (0)

struct row {
	const char *sql;
	int n_values;
	int64_t values[MAX_VALUES];
};

struct maker {
	const struct make_run *spec;
	struct lw_store *store;
	lw_vec(struct row) rows;
	uint64_t seq[MAKE_RUN_MAX];
	int64_t serial[MAKE_RUN_MAX];
};

static const struct make_tensor job_tensors[] = {
	{"allreduce.fc.weight", 4000000, 10000000, 0},
	{"allreduce.fc.bias", 4000, 12000000, 0},
	{"allreduce.conv.weight", 400000, 30000000, 1},
};

struct make_run make_run_job(int n_ranks, int n_steps)
{
	struct make_run spec = {.n_ranks = n_ranks,
		.n_steps = n_steps,
		.tensors = job_tensors,
		.n_tensors = 3,
		.wire_ns = {8000000, 3000000},
		.tick_ns = 500000,
		.coordination_ns = 200000,
		.copy_ns = 100000,
		.resume_ns = 400000,
		.block_ns = 50000,
		.first_ns = 1000000000,
		.framework = LW_FRAMEWORK_HOROVOD,
		.transport = LW_TRANSPORT_MPI};

	return spec;
}

static void add(struct maker *maker, const char *sql, int n_values, ...)
{
	struct row row = {.sql = sql, .n_values = n_values};
	va_list arguments;

	va_start(arguments, n_values);
	for (int i = 0; i < n_values; i++)
		row.values[i] = va_arg(arguments, int64_t);
	va_end(arguments);
	ok(lw_vec_push(&maker->rows, row));
}

#define I(value) ((int64_t)(value))

static int64_t thread_of(int rank, int which)
{
	return 2 * rank + which + 1;
}

static int64_t scaled(const struct maker *maker, int64_t ns)
{
	return ns * (maker->spec->scale ? maker->spec->scale : 1);
}

static void add_wait(struct maker *maker, int rank, int64_t start_ns, int64_t end_ns)
{
	add(maker, "INSERT INTO wait VALUES(?1, ?2, ?3, ?4, 1)", 4, thread_of(rank, TRAINING),
		I(maker->seq[rank]++), scaled(maker, start_ns), scaled(maker, end_ns));
}

static void add_cycle(struct maker *maker, int rank, int64_t start_ns, int64_t end_ns)
{
	if (!maker->spec->no_cycles)
		add(maker, "INSERT INTO cycle VALUES(?1, ?2, ?3, ?4, 1, 31, 31, 1, 3, 0, 0)", 4,
			thread_of(rank, BACKGROUND), I(maker->seq[rank]++), scaled(maker, start_ns),
			scaled(maker, end_ns));
}

static void add_member(struct maker *maker, int rank, int position, int64_t name_id, int64_t object,
	int64_t bytes, int64_t at_ns)
{
	add(maker, "INSERT INTO batch_tensor VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 8)", 8,
		thread_of(rank, BACKGROUND), I(maker->seq[rank]++), scaled(maker, at_ns),
		maker->serial[rank], I(position), name_id, maker->spec->no_objects ? 0 : object,
		bytes);
}

static void add_ready(struct maker *maker, int rank, int64_t at_ns, int64_t object, int64_t name_id)
{
	if (maker->spec->no_objects)
		add(maker, "INSERT INTO ready VALUES(?1, ?2, ?3, 0, ?4, 0)", 4,
			thread_of(rank, TRAINING), I(maker->seq[rank]++), scaled(maker, at_ns),
			name_id);
	else
		add(maker, "INSERT INTO ready VALUES(?1, ?2, ?3, ?4, NULL, 0)", 4,
			thread_of(rank, TRAINING), I(maker->seq[rank]++), scaled(maker, at_ns),
			object);
}

static void add_batch(struct maker *maker, int rank, int op, int n_tensors, int64_t bytes,
	int64_t start_ns, int64_t wire_ns)
{
	const struct make_run *spec = maker->spec;
	int64_t wire_start_ns = start_ns + spec->copy_ns, wire_end_ns = wire_start_ns + wire_ns;

	if (!spec->no_wire)
		add(maker,
			"INSERT INTO collective VALUES(?1, ?2, ?3, ?4, ?5, 77, ?6, ?6, -1, 0, ?7)",
			7, thread_of(rank, BACKGROUND), I(maker->seq[rank]++),
			scaled(maker, wire_start_ns), scaled(maker, wire_end_ns), I(op), bytes,
			I(spec->transport));
	add(maker,
		"INSERT INTO batch VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 134217728, 0, 8, 0, ?9)",
		9, thread_of(rank, BACKGROUND), I(maker->seq[rank]++), scaled(maker, start_ns),
		scaled(maker, wire_end_ns + spec->copy_ns), I(op), maker->serial[rank],
		I(n_tensors), bytes, I(spec->framework));
}

/* Names: tensor t has string id t + 1; the broadcasts and the metric come after. */
static int64_t name_of(const struct make_run *spec, int tensor)
{
	(void)spec;
	return tensor + 1;
}

static int64_t broadcast(struct maker *maker, int64_t at_ns)
{
	const struct make_run *spec = maker->spec;

	for (int i = 0; i < spec->n_broadcasts; i++) {
		for (int rank = 0; rank < spec->n_ranks; rank++) {
			int64_t object = 900000 + i, name_id = spec->n_tensors + 2 + i;

			maker->serial[rank]++;
			add_ready(maker, rank, at_ns, object, name_id);
			add_cycle(maker, rank, at_ns + 1000, at_ns + 2000);
			add_member(maker, rank, 0, name_id, object, 4000, at_ns + 3000);
			add_batch(maker, rank, LW_COLL_BROADCAST, 1, 4000, at_ns + 3000, 50000);
		}
		at_ns += 60000 + 2 * spec->copy_ns;
	}
	return at_ns;
}

static int n_batches_of(const struct make_run *spec)
{
	return spec->tensors[spec->n_tensors - 1].batch + 1;
}

static int64_t slowest_ns(const struct make_run *spec)
{
	int64_t late_ns = 0;

	for (int rank = 0; rank < spec->n_ranks; rank++)
		if (spec->late_ns[rank] > late_ns)
			late_ns = spec->late_ns[rank];
	return late_ns;
}

/* When batch @b of a step that begins at 0 enters its round, given the end of the batch before it. */
static int64_t round_ns(const struct make_run *spec, int b, int64_t previous_end_ns)
{
	int64_t at_ns = previous_end_ns;

	for (int t = 0; t < spec->n_tensors; t++)
		if (spec->tensors[t].batch == b &&
			spec->tensors[t].ready_ns + slowest_ns(spec) > at_ns)
			at_ns = spec->tensors[t].ready_ns + slowest_ns(spec);
	return at_ns + spec->tick_ns;
}

static int64_t end_ns(const struct make_run *spec, int b, int64_t at_round_ns)
{
	return at_round_ns + spec->coordination_ns + 2 * spec->copy_ns + spec->wire_ns[b];
}

int64_t make_run_step_ns(const struct make_run *spec)
{
	int64_t at_ns = 0;

	for (int b = 0; b < n_batches_of(spec); b++)
		at_ns = end_ns(spec, b, round_ns(spec, b, at_ns));
	return (at_ns + spec->resume_ns) * (spec->scale ? spec->scale : 1);
}

static void add_metric(struct maker *maker, int rank, int64_t at_ns)
{
	maker->serial[rank]++;
	add_ready(maker, rank, at_ns, 800000, maker->spec->n_tensors + 1);
	add_cycle(maker, rank, at_ns + 1000, at_ns + 2000);
	add_member(maker, rank, 0, maker->spec->n_tensors + 1, 800000, 8, at_ns + 3000);
	add_batch(maker, rank, LW_COLL_ALLREDUCE, 1, 8, at_ns + 3000, 10000);
}

/* The optimizer's step took 2 ms; then the loss is queued and waited for. Return: how long it all took. */
static int64_t average_loss(struct maker *maker, int64_t at_ns)
{
	int64_t queued_ns = at_ns + 2000000;
	int64_t resumed_ns = queued_ns + 1000000;

	for (int rank = 0; rank < maker->spec->n_ranks; rank++) {
		add_metric(maker, rank, queued_ns);
		add_wait(maker, rank, queued_ns + 2000, resumed_ns);
	}
	return resumed_ns - at_ns;
}

static void add_one_batch(
	struct maker *maker, int rank, int step, int b, int64_t begin_ns, int64_t previous_end_ns)
{
	const struct make_run *spec = maker->spec;
	int64_t at_ns = round_ns(spec, b, previous_end_ns), bytes = 0;
	int n = 0;

	maker->serial[rank]++;
	for (int t = 0; t < spec->n_tensors; t++)
		if (spec->tensors[t].batch == b)
			add_ready(maker, rank,
				begin_ns + spec->tensors[t].ready_ns + spec->late_ns[rank],
				1000 + t, name_of(spec, t));
	if (spec->has_lost && spec->lost_rank == rank && spec->lost_step == step &&
		spec->lost_batch == b)
		return;
	add_cycle(maker, rank, begin_ns + at_ns, begin_ns + at_ns + spec->coordination_ns);
	for (int t = 0; t < spec->n_tensors; t++) {
		if (spec->tensors[t].batch != b)
			continue;
		add_member(maker, rank, n++, name_of(spec, t), 1000 + t, I(spec->tensors[t].bytes),
			begin_ns + at_ns + spec->coordination_ns);
		bytes += I(spec->tensors[t].bytes);
	}
	add_batch(maker, rank, LW_COLL_ALLREDUCE, n, bytes,
		begin_ns + at_ns + spec->coordination_ns, spec->wire_ns[b]);
}

static void train(struct maker *maker, int64_t begin_ns)
{
	const struct make_run *spec = maker->spec;

	for (int step = 0; step < spec->n_steps; step++) {
		int64_t at_ns = 0;

		/* An average of the loss, once in four steps, at the head of the step. */
		for (int rank = 0; spec->has_metric && step % 4 == 1 && rank < spec->n_ranks;
			rank++)
			add_metric(maker, rank, begin_ns + 100000);
		for (int b = 0; b < n_batches_of(spec); b++) {
			for (int rank = 0; rank < spec->n_ranks; rank++)
				add_one_batch(maker, rank, step, b, begin_ns, at_ns);
			at_ns = end_ns(spec, b, round_ns(spec, b, at_ns));
		}
		for (int rank = 0; rank < spec->n_ranks && !spec->no_waits; rank++)
			add_wait(maker, rank,
				begin_ns + spec->tensors[spec->n_tensors - 1].ready_ns +
					spec->late_ns[rank] + spec->block_ns,
				begin_ns + at_ns + spec->resume_ns);
		begin_ns += at_ns + spec->resume_ns;
		if (spec->has_tail_metric && !spec->no_waits)
			begin_ns += average_loss(maker, begin_ns);
	}
}

/* splitmix64: the order of rows is arbitrary, but the same for the same seed. */
static uint64_t next_random(uint64_t *state)
{
	uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

static void write_rows(struct maker *maker)
{
	uint64_t state = maker->spec->shuffle_seed;
	sqlite3_stmt *statement = NULL;
	const char *sql = NULL;
	struct row *row;

	for (size_t i = maker->rows.n; state && i > 1; i--) {
		size_t j = next_random(&state) % i;
		struct row swap = maker->rows.at[i - 1];

		maker->rows.at[i - 1] = maker->rows.at[j];
		maker->rows.at[j] = swap;
	}
	lw_vec_foreach (row, &maker->rows) {
		if (row->sql != sql) {
			sqlite3_finalize(statement);
			sql = row->sql;
			ok(lw_store_prepare(maker->store, sql, &statement));
		}
		for (int i = 0; i < row->n_values; i++)
			sqlite3_bind_int64(statement, i + 1, row->values[i]);
		ok(lw_store_step(maker->store, statement));
		sqlite3_reset(statement);
	}
	sqlite3_finalize(statement);
	lw_vec_free(&maker->rows);
}

static void execute(struct maker *maker, const char *format, ...)
{
	char sql[1024];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(sql, sizeof(sql), format, arguments);
	va_end(arguments);
	ok(lw_store_exec(maker->store, sql));
}

static void write_processes(struct maker *maker)
{
	const struct make_run *spec = maker->spec;

	execute(maker,
		"INSERT INTO run VALUES(1, 'lapwing 0.1.0', 'trace', 'train', 1700000000000000000, %d, 0);"
		"INSERT INTO host VALUES(1, 'node1', 'boot-1', 'monotonic')",
		!spec->is_open);
	for (int t = 0; t < spec->n_tensors; t++)
		execute(maker, "INSERT INTO string VALUES(%d, '%s')", t + 1, spec->tensors[t].name);
	execute(maker, "INSERT INTO string VALUES(%d, 'allreduce.loss')", spec->n_tensors + 1);
	for (int i = 0; i < spec->n_broadcasts; i++)
		execute(maker, "INSERT INTO string VALUES(%d, 'broadcast.%d')",
			spec->n_tensors + 2 + i, i);
	for (int rank = 0; rank < spec->n_ranks; rank++)
		execute(maker,
			"INSERT INTO process(id, host_id, pid, ppid, rank, size, local_rank, local_size, framework,"
			" transport, command_id, start_ns, end_ns, ended) VALUES(%d, 1, %d, 1, %d, %d, %d, %d, %d, %d, NULL, %lld, NULL, 'exit');"
			"INSERT INTO thread(id, process_id, tid, serial, role, name_id, n_pushed, n_stored, n_lost) VALUES(%d, %d, %d, 1, 1, NULL, 100, 100, 0);"
			"INSERT INTO thread(id, process_id, tid, serial, role, name_id, n_pushed, n_stored, n_lost) VALUES(%d, %d, %d, 2, 2, NULL, 100, 100, 0);"
			"INSERT INTO setting VALUES(%d, 0, 1, 134217728, 2);"
			"INSERT INTO setting VALUES(%d, 0, 2, 1000000, 1);",
			rank + 1, 100 + rank, rank, spec->size ? spec->size : spec->n_ranks, rank,
			spec->n_ranks, spec->framework, spec->transport,
			(long long)scaled(maker, spec->first_ns / 2),
			(int)thread_of(rank, TRAINING), rank + 1, 100 + rank,
			(int)thread_of(rank, BACKGROUND), rank + 1, 200 + rank, rank + 1, rank + 1);
}

void make_run_write(const char *path, const struct make_run *spec)
{
	struct maker maker = {.spec = spec};

	assert_true(spec->n_ranks <= MAKE_RUN_MAX && n_batches_of(spec) <= MAKE_RUN_MAX);
	ok(lw_store_open(path, LW_STORE_CREATE, &maker.store));
	execute(&maker, "BEGIN");
	write_processes(&maker);
	assert_true(broadcast(&maker, spec->first_ns / 2 + 1000) <= spec->first_ns);
	train(&maker, spec->first_ns);
	write_rows(&maker);
	if (spec->extra_sql)
		ok(lw_store_exec(maker.store, spec->extra_sql));
	execute(&maker, "COMMIT");
	lw_store_close(maker.store);
}
