/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rows.c - the raw tables of one store, row by row, into its ranks.
 *
 * A run file may come from anybody: times outside [0, LW_LOAD_TIME_MAX_NS] and rows of unknown threads are counted
 * and left out, so that no later stage has to think about overflow.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <uthash.h>

#include "analyzer/load/load.h"

struct lw_load_text {
	int64_t id;
	int32_t tensor;
	UT_hash_handle hh;
};

int lw_load_each(struct lw_loader *loader, const char *sql,
	int (*row)(struct lw_loader *loader, sqlite3_stmt *row))
{
	sqlite3_stmt *rows;
	int status = lw_store_prepare(loader->store, sql, &rows);

	if (status < 0)
		return status;
	while ((status = lw_store_step(loader->store, rows)) == 1) {
		status = row(loader, rows);
		if (status < 0)
			break;
	}
	sqlite3_finalize(rows);
	return status;
}

struct lw_rank *lw_load_rank_of_process(struct lw_loader *loader, int64_t process_id)
{
	struct lw_rank *rank;

	lw_vec_foreach (rank, &loader->run->ranks)
		if (rank->store == loader->store_index && rank->process_id == process_id)
			return rank;
	return NULL;
}

static int add_thread(struct lw_loader *loader, sqlite3_stmt *row)
{
	struct lw_load_thread thread = {.id = sqlite3_column_int64(row, 0),
		.process_id = sqlite3_column_int64(row, 1),
		.rank = LW_NONE};
	const struct lw_rank *rank = lw_load_rank_of_process(loader, thread.process_id);

	if (rank)
		thread.rank = (int32_t)(rank - loader->run->ranks.at);
	return lw_vec_push(&loader->threads, thread);
}

static int compare_thread(const void *a, const void *b)
{
	const struct lw_load_thread *x = a, *y = b;

	return (x->id > y->id) - (x->id < y->id);
}

struct lw_rank *lw_load_rank_of_row(struct lw_loader *loader, sqlite3_stmt *row)
{
	struct lw_load_thread key = {.id = sqlite3_column_int64(row, 0)}, *thread = NULL;

	if (loader->threads.n)
		thread = bsearch(&key, loader->threads.at, loader->threads.n,
			sizeof(*loader->threads.at), compare_thread);
	if (!thread)
		loader->n_bad_rows++;
	return thread && thread->rank != LW_NONE ? &loader->run->ranks.at[thread->rank] : NULL;
}

bool lw_load_interval_of(
	struct lw_loader *loader, sqlite3_stmt *row, int i, int64_t *start_ns, int64_t *end_ns)
{
	*start_ns = sqlite3_column_int64(row, i);
	*end_ns = sqlite3_column_int64(row, i + 1);
	if (*start_ns >= 0 && *end_ns >= *start_ns && *end_ns <= LW_LOAD_TIME_MAX_NS)
		return true;
	loader->n_bad_rows++;
	return false;
}

/* Bytes of an operation in column @i; 0 = not known. */
static uint64_t bytes_of(struct lw_loader *loader, sqlite3_stmt *row, int i)
{
	int64_t bytes = sqlite3_column_int64(row, i);

	if (bytes >= 0 && bytes <= LW_LOAD_BYTES_MAX)
		return (uint64_t)bytes;
	loader->n_bad_rows++;
	return 0;
}

/* Tensor of the string id in column @i; LW_NONE when it is NULL or its text never arrived. */
static int32_t tensor_of(struct lw_loader *loader, sqlite3_stmt *row, int i)
{
	int64_t id = sqlite3_column_int64(row, i);
	struct lw_load_text *text;

	if (sqlite3_column_type(row, i) == SQLITE_NULL)
		return LW_NONE;
	HASH_FIND(hh, loader->texts, &id, sizeof(id), text);
	return text ? text->tensor : LW_NONE;
}

static int add_text(struct lw_loader *loader, sqlite3_stmt *row)
{
	int64_t id = sqlite3_column_int64(row, 0);
	int32_t tensor = lw_load_tensor(loader->run, lw_store_column_text(row, 1));
	struct lw_load_text *text;

	if (tensor < 0)
		return tensor;
	text = calloc(1, sizeof(*text));
	if (!text)
		return lw_fail(LW_ERR_NOMEM, "no memory");
	text->id = id;
	text->tensor = tensor;
	HASH_ADD(hh, loader->texts, id, sizeof(text->id), text);
	return LW_OK;
}

static int add_ready(struct lw_loader *loader, sqlite3_stmt *row)
{
	struct lw_rank *rank = lw_load_rank_of_row(loader, row);
	struct lw_ready ready = {.at_ns = sqlite3_column_int64(row, 1),
		.object = (uint64_t)sqlite3_column_int64(row, 2),
		.bytes = bytes_of(loader, row, 4)};

	if (!rank)
		return LW_OK;
	if (ready.at_ns < 0 || ready.at_ns > LW_LOAD_TIME_MAX_NS) {
		loader->n_bad_rows++;
		return LW_OK;
	}
	ready.tensor = tensor_of(loader, row, 3);
	if (!rank->training_thread_id)
		rank->training_thread_id = sqlite3_column_int64(row, 0);
	return lw_vec_push(&rank->readies, ready);
}

/* "parameter.P" of the first reducer, "ddpR.parameter.P" of others: as its buckets are called. */
static int add_parameter(struct lw_loader *loader, sqlite3_stmt *row)
{
	struct lw_rank *rank = lw_load_rank_of_process(loader, sqlite3_column_int64(row, 0));
	struct lw_parameter parameter = {.reducer = (uint32_t)sqlite3_column_int64(row, 1),
		.position = (uint32_t)sqlite3_column_int64(row, 2),
		.bytes = bytes_of(loader, row, 3),
		.dtype = sqlite3_column_int(row, 4)};
	char prefix[24] = "", name[64];
	struct lw_tensor *tensor;
	int32_t index;

	if (!rank)
		return LW_OK;
	if (parameter.reducer)
		snprintf(prefix, sizeof(prefix), "ddp%u.", parameter.reducer);
	snprintf(name, sizeof(name), "%sparameter.%u", prefix, parameter.position);
	index = lw_load_tensor(loader->run, name);
	if (index < 0)
		return index;
	parameter.tensor = (uint32_t)index;
	tensor = &loader->run->tensors.at[index];
	tensor->bytes = parameter.bytes;
	tensor->dtype = parameter.dtype;
	return lw_vec_push(&rank->parameters, parameter);
}

static int add_gradient(struct lw_loader *loader, sqlite3_stmt *row)
{
	struct lw_rank *rank = lw_load_rank_of_row(loader, row);
	struct lw_gradient gradient = {.at_ns = sqlite3_column_int64(row, 1),
		.reducer = (uint32_t)sqlite3_column_int64(row, 2),
		.position = (uint32_t)sqlite3_column_int64(row, 3)};

	if (!rank)
		return LW_OK;
	if (gradient.at_ns < 0 || gradient.at_ns > LW_LOAD_TIME_MAX_NS) {
		loader->n_bad_rows++;
		return LW_OK;
	}
	return lw_vec_push(&rank->gradients, gradient);
}

static int add_wait(struct lw_loader *loader, sqlite3_stmt *row)
{
	struct lw_rank *rank = lw_load_rank_of_row(loader, row);
	struct lw_interval wait;

	if (!rank || !lw_load_interval_of(loader, row, 1, &wait.start_ns, &wait.end_ns))
		return LW_OK;
	if (!rank->waits.n) /* gradients of a GPU are handed over by a thread of autograd's */
		rank->training_thread_id = sqlite3_column_int64(row, 0);
	return lw_vec_push(&rank->waits, wait);
}

static int add_cycle(struct lw_loader *loader, sqlite3_stmt *row)
{
	struct lw_rank *rank = lw_load_rank_of_row(loader, row);
	struct lw_cycle cycle = {.thread_id = sqlite3_column_int64(row, 0),
		.op = sqlite3_column_int(row, 3),
		.in_bits = (uint64_t)sqlite3_column_int64(row, 4),
		.out_bits = (uint64_t)sqlite3_column_int64(row, 5),
		.n_words = (uint32_t)sqlite3_column_int64(row, 6),
		.n_unchanged = (uint32_t)sqlite3_column_int64(row, 7),
		.unchanged_ns = sqlite3_column_int64(row, 8),
		.unchanged_span_ns = sqlite3_column_int64(row, 9)};

	if (!rank || !lw_load_interval_of(loader, row, 1, &cycle.start_ns, &cycle.end_ns))
		return LW_OK;
	return lw_vec_push(&rank->cycles, cycle);
}

static int add_collective(struct lw_loader *loader, sqlite3_stmt *row)
{
	struct lw_rank *rank = lw_load_rank_of_row(loader, row);
	struct lw_collective collective = {.thread_id = sqlite3_column_int64(row, 0),
		.op = sqlite3_column_int(row, 3),
		.comm_key = sqlite3_column_int64(row, 4),
		.sent_bytes = bytes_of(loader, row, 5),
		.received_bytes = bytes_of(loader, row, 6),
		.root = sqlite3_column_int(row, 7),
		.flags = (uint16_t)sqlite3_column_int(row, 8),
		.transport = sqlite3_column_int(row, 9),
		.batch = LW_NONE,
		.nccl_op = LW_NONE};

	if (!rank || !lw_load_interval_of(loader, row, 1, &collective.start_ns, &collective.end_ns))
		return LW_OK;
	return lw_vec_push(&rank->collectives, collective);
}

static int compare_rank(const void *a, const void *b)
{
	const struct lw_rank *x = a, *y = b;

	return (x->rank > y->rank) - (x->rank < y->rank);
}

/* By the number of the rank: a probe may have been made beside the run, by processes of its own. */
static int add_probe(struct lw_loader *loader, sqlite3_stmt *row)
{
	struct lw_run *run = loader->run;
	struct lw_rank key = {.rank = sqlite3_column_int(row, 0)}, *rank;
	int64_t process_id = sqlite3_column_int64(row, 9);
	struct lw_load_probe probe = {.op = sqlite3_column_int(row, 3),
		.bytes = bytes_of(loader, row, 4),
		.burst = (uint32_t)sqlite3_column_int64(row, 6),
		.position = (uint32_t)sqlite3_column_int64(row, 7),
		.transport = sqlite3_column_int(row, 8)};
	struct lw_load_probes *own;

	for (int i = 5; i <= 7; i++)
		if (sqlite3_column_int64(row, i) < 0 || sqlite3_column_int64(row, i) > UINT32_MAX) {
			loader->n_bad_rows++;
			return LW_OK;
		}
	rank = run->ranks.n ? bsearch(&key, run->ranks.at, run->ranks.n, sizeof(key), compare_rank)
			    : NULL;
	if (!rank || !lw_load_interval_of(loader, row, 1, &probe.start_ns, &probe.end_ns))
		return LW_OK;
	own = &loader->probes[rank - run->ranks.at];
	if (own->rows.n && (own->store != loader->store_index || own->process_id != process_id))
		own->first_number += UINT64_C(1) << 32;
	own->store = loader->store_index;
	own->process_id = process_id;
	probe.number = own->first_number + (uint32_t)sqlite3_column_int64(row, 5);
	return lw_vec_push(&own->rows, probe);
}

static int add_batch(struct lw_loader *loader, sqlite3_stmt *row)
{
	struct lw_rank *rank = lw_load_rank_of_row(loader, row);
	struct lw_batch batch = {.thread_id = sqlite3_column_int64(row, 0),
		.op = sqlite3_column_int(row, 3),
		.serial = (uint64_t)sqlite3_column_int64(row, 4),
		.bytes = bytes_of(loader, row, 5),
		.fusion_bytes = sqlite3_column_type(row, 6) == SQLITE_NULL
					? UINT64_MAX
					: (uint64_t)sqlite3_column_int64(row, 6),
		.process_set = sqlite3_column_int(row, 7),
		.dtype = sqlite3_column_int(row, 8),
		.flags = (uint16_t)sqlite3_column_int(row, 9),
		.wire_start_ns = LW_NS_UNKNOWN,
		.wire_end_ns = LW_NS_UNKNOWN,
		.agreed_ns = LW_NS_UNKNOWN,
		.cycle_ns = LW_NS_UNKNOWN,
		.nccl_op = LW_NONE,
		.step = LW_NONE,
		.group = LW_NONE};

	if (!rank || !lw_load_interval_of(loader, row, 1, &batch.start_ns, &batch.end_ns))
		return LW_OK;
	return lw_vec_push(&rank->batches, batch);
}

static int add_member(struct lw_loader *loader, sqlite3_stmt *row)
{
	struct lw_rank *rank = lw_load_rank_of_row(loader, row);
	struct lw_load_member member = {.serial = (uint64_t)sqlite3_column_int64(row, 1),
		.position = sqlite3_column_int64(row, 2),
		.object = (uint64_t)sqlite3_column_int64(row, 4),
		.bytes = bytes_of(loader, row, 5),
		.dtype = sqlite3_column_int(row, 6)};

	if (!rank)
		return LW_OK;
	member.tensor = tensor_of(loader, row, 3);
	if (member.tensor < 0) {
		/* A member whose name is lost still counts, under a name that says so. */
		member.tensor = lw_load_tensor(loader->run, "(name lost)");
		if (member.tensor < 0)
			return member.tensor;
	}
	return lw_vec_push(&loader->members[rank - loader->run->ranks.at], member);
}

static int add_step_mark(struct lw_loader *loader, sqlite3_stmt *row)
{
	struct lw_rank *rank = lw_load_rank_of_row(loader, row);
	int64_t at_ns = sqlite3_column_int64(row, 1);

	if (!rank)
		return LW_OK;
	if (at_ns < 0 || at_ns > LW_LOAD_TIME_MAX_NS) {
		loader->n_bad_rows++;
		return LW_OK;
	}
	if (lw_vec_push(&rank->step_values, sqlite3_column_int64(row, 2)) < 0)
		return LW_ERR_NOMEM;
	return lw_vec_push(&rank->step_marks, at_ns);
}

static int add_setting(struct lw_loader *loader, sqlite3_stmt *row)
{
	struct lw_rank *rank = lw_load_rank_of_process(loader, sqlite3_column_int64(row, 0));
	int setting = sqlite3_column_int(row, 1), source = sqlite3_column_int(row, 3);
	double value = sqlite3_column_double(row, 2);

	if (!rank || setting <= 0 || setting >= (int)(sizeof(rank->setting) / sizeof(double)))
		return LW_OK;
	if (!(value >= 0 && value <= (double)LW_LOAD_BYTES_MAX)) { /* 13 days, as a time */
		loader->n_bad_rows++;
		return LW_OK;
	}
	/* Autotune: what the framework itself reports as in force has moved. */
	if (source == LW_SOURCE_LIVE && rank->setting_source[setting] == LW_SOURCE_LIVE &&
		(setting == LW_SETTING_FUSION_BYTES || setting == LW_SETTING_CYCLE_NS) &&
		fabs(value - rank->setting[setting]) > 0)
		rank->setting_changed = true;
	rank->setting[setting] = value;
	rank->setting_source[setting] = source;
	return LW_OK;
}

static const struct {
	const char *sql;
	int (*row)(struct lw_loader *loader, sqlite3_stmt *row);
} tables[] = {
	{"SELECT id, process_id FROM thread ORDER BY id", add_thread},
	{"SELECT id, text FROM string WHERE id IN"
	 " (SELECT name_id FROM batch_tensor UNION SELECT name_id FROM ready) ORDER BY id",
		add_text},
	{"SELECT thread_id, at_ns, object, name_id, bytes FROM ready", add_ready},
	{"SELECT process_id, reducer, position, bytes, dtype FROM parameter ORDER BY reducer, position",
		add_parameter},
	{"SELECT thread_id, at_ns, reducer, position FROM gradient ORDER BY at_ns, seq",
		add_gradient},
	{"SELECT thread_id, start_ns, end_ns FROM wait", add_wait},
	{"SELECT thread_id, start_ns, end_ns, op, in_bits, out_bits, n_words, n_unchanged, unchanged_ns,"
	 " unchanged_span_ns FROM cycle",
		add_cycle},
	{"SELECT thread_id, start_ns, end_ns, op, comm_key, sent_bytes, received_bytes, root, flags,"
	 " transport FROM collective",
		add_collective},
	{"SELECT thread_id, start_ns, end_ns, op, batch, bytes, fusion_bytes, process_set, dtype, flags"
	 " FROM batch",
		add_batch},
	{"SELECT thread_id, batch, position, name_id, object, bytes, dtype FROM batch_tensor",
		add_member},
	{"SELECT p.rank, x.start_ns, x.end_ns, x.op, x.bytes, x.number, x.burst, x.position, x.transport,"
	 " p.id FROM probe x JOIN thread t ON t.id = x.thread_id JOIN process p ON p.id = t.process_id"
	 " WHERE p.rank IS NOT NULL ORDER BY p.id, x.number",
		add_probe},
	{"SELECT thread_id, start_ns, value FROM range WHERE op = 1 ORDER BY start_ns",
		add_step_mark},
	{"SELECT process_id, setting, value, source FROM setting ORDER BY at_ns, rowid",
		add_setting},
};
static_assert(LW_MARK_STEP == 1, "the query of step marks");

int lw_load_rows(struct lw_loader *loader)
{
	struct lw_load_text *text, *next;
	int status = LW_OK;

	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]) && status == LW_OK; i++)
		status = lw_load_each(loader, tables[i].sql, tables[i].row);
	if (status == LW_OK) /* who trains is known now */
		status = lw_load_cores(loader);
	HASH_ITER(hh, loader->texts, text, next)
	{
		HASH_DEL(loader->texts, text);
		free(text);
	}
	if (status == LW_OK && loader->n_bad_rows)
		status = lw_run_diag(loader->run, "load", "bad rows", loader->n_bad_rows,
			"%s: rows with impossible times or an unknown thread, not used",
			loader->store->path);
	return status;
}
