/* SPDX-License-Identifier: Apache-2.0 */
/*
 * horovod_timeline.c - the importer of what HOROVOD_TIMELINE (horovodrun --timeline-filename) wrote.
 *
 * Reads the file twice: first its figures (how many ranks, which transport), then its events.
 *
 *	batch, batch_tensor   one executed response and its tensors
 *	collective            each MPI_, GLOO_, NCCL_ or CCL_ activity, all its tensors together
 *	range                 every other activity (value: serial of its batch, 0 = none), and
 *	                      NEGOTIATE_* of every tensor (value: its key in ready and batch_tensor)
 *	ready                 rank 0: when the coordinator first heard of the tensor from any rank; other
 *	                      ranks: their ticks, which exist where the response cache did not know it
 *	cycle                 AND without bits: CYCLE_START; RESPONSES: all ranks agreed on a batch,
 *	                      n_words 1 where the response cache did not know it, 0 where it did
 *
 * Ticks of rank 0 itself, and those of a negotiation that not all ranks took part in (a process set,
 * whose ranks are numbered anew, or after a join), are ranges named "tick", with the rank as value.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "analyzer/import/import.h"
#include "analyzer/import/rows.h"
#include "analyzer/import/timeline.h"
#include "base/err.h"
#include "base/units.h"
#include "schema/event.h"

enum { HOST = 1, RANK_0 = 1 }; /* ids; process and thread of rank r are RANK_0 + r */

/* The tensor's mark: id of its name, and this bit when only some ranks negotiate it. */
#define MARK_PARTIAL (INT64_C(1) << 62)

struct timeline_import {
	struct lw_import *import;
	const struct lw_timeline_stats *stats; /* of the first reading */
	int64_t n_rows;                        /* of rank 0's thread */
	int64_t n_ready_of_rank[LW_TIMELINE_MAX_RANKS];
	int64_t cycle_ns; /* latest CYCLE_START, LW_ROW_NULL = none */
	int64_t tick_id;  /* string "tick" */
};

static bool sniff(const char *head, size_t n_bytes)
{
	static const char *const signs[] = {
		"start_time_since_epoch_in_micros", "\"NEGOTIATE_", "\"CYCLE_START\""};
	size_t start = strspn(head, " \t\r\n");

	if (head[start] != '[' && head[start] != '{')
		return false;
	for (size_t i = 0; i < sizeof(signs) / sizeof(signs[0]); i++)
		if (memmem(head, n_bytes, signs[i], strlen(signs[i])))
			return true;
	return false;
}

static int64_t name_id(struct timeline_import *t, struct lw_timeline_tensor *tensor)
{
	int64_t *mark = lw_timeline_tensor_mark(tensor);

	if (!(*mark & ~MARK_PARTIAL)) {
		int64_t id =
			lw_store_string(t->import->rows->store, lw_timeline_tensor_name(tensor));

		if (id < 0)
			return id;
		*mark |= id;
	}
	return *mark & ~MARK_PARTIAL;
}

static int64_t activity_id(struct timeline_import *t, struct lw_activity_stats *activity)
{
	if (!activity->string_id)
		activity->string_id = lw_store_string(t->import->rows->store, activity->name);
	return activity->string_id;
}

static int add_range(struct timeline_import *t, int64_t start_ns, int64_t end_ns, int op,
	int64_t string_id, int64_t value)
{
	if (string_id < 0)
		return (int)string_id;
	t->import->summary->n_ranges++;
	return lw_row(t->import->rows, LW_ROW_RANGE, RANK_0, t->n_rows++, start_ns, end_ns, op,
		string_id, value);
}

static int add_ready(
	struct timeline_import *t, int32_t rank, int64_t at_ns, int64_t object, int64_t string_id)
{
	int64_t seq = rank ? t->n_ready_of_rank[rank]++ : t->n_rows++;

	t->import->summary->n_ready++;
	return lw_row(
		t->import->rows, LW_ROW_READY, RANK_0 + rank, seq, at_ns, object, string_id, 0);
}

static int on_negotiation(void *context, const struct lw_timeline_negotiation *negotiation)
{
	struct timeline_import *t = context;
	int64_t id = name_id(t, negotiation->tensor), object = (int64_t)negotiation->object;
	bool is_partial = negotiation->n_ticks && negotiation->n_ticks < (size_t)t->stats->n_ranks;
	int status = id < 0 ? (int)id : LW_OK;

	if (is_partial)
		*lw_timeline_tensor_mark(negotiation->tensor) |= MARK_PARTIAL;
	if (status == LW_OK)
		status = add_range(t, negotiation->start_ns, negotiation->end_ns, LW_MARK_RANGE,
			activity_id(t, negotiation->activity), object);
	if (status == LW_OK && negotiation->activity->op != LW_COLL_BARRIER) /* it has no tensor */
		status = add_ready(t, 0, negotiation->start_ns, object, id);
	for (size_t i = 0; i < negotiation->n_ticks && status == LW_OK; i++) {
		const struct lw_timeline_tick *tick = &negotiation->ticks[i];

		if (tick->rank == 0 || is_partial)
			status = add_range(
				t, tick->at_ns, tick->at_ns, LW_MARK_POINT, t->tick_id, tick->rank);
		else
			status = add_ready(t, tick->rank, tick->at_ns, object, id);
	}
	return status;
}

static int add_collective(struct timeline_import *t, const struct lw_timeline_run *run,
	uint64_t bytes, bool has_bytes)
{
	const struct lw_activity_stats *activity = run->activity;
	bool is_gathered =
		activity->op == LW_COLL_ALLGATHER || activity->op == LW_COLL_REDUCESCATTER;
	int transport = activity->transport;

	/* Gloo's alltoall calls itself MPI_ALLTOALL */
	if (activity->op == LW_COLL_ALLTOALL && t->stats->transport == LW_TRANSPORT_GLOO)
		transport = LW_TRANSPORT_GLOO;
	t->import->summary->n_collectives++;
	/* the timeline gives the output's size: where the input's differs, that one is not known */
	return lw_row(t->import->rows, LW_ROW_COLLECTIVE, RANK_0, t->n_rows++, run->start_ns,
		run->end_ns, activity->op, 0, is_gathered ? 0 : (int64_t)bytes, (int64_t)bytes, -1,
		(run->is_unfinished ? LW_COLL_UNFINISHED : 0) | (has_bytes ? 0 : LW_COLL_NO_BYTES),
		transport);
}

static int add_run(struct timeline_import *t, const struct lw_timeline_run *run,
	const struct lw_timeline_batch *batch)
{
	if (run->activity->kind == LW_ACTIVITY_WIRE)
		return add_collective(
			t, run, batch ? batch->bytes : 0, batch ? batch->has_bytes : false);
	return add_range(t, run->start_ns, run->end_ns, LW_MARK_RANGE,
		activity_id(t, run->activity), batch ? (int64_t)batch->serial : 0);
}

static int on_stray(void *context, const struct lw_timeline_run *run)
{
	return add_run(context, run, NULL);
}

/* The round in which all ranks agreed on @batch: it ends with the negotiation of its last tensor. */
static int add_agreement(struct timeline_import *t, const struct lw_timeline_batch *batch)
{
	int64_t agreed_ns = INT64_MIN, start_ns;
	bool is_ticked = false;

	for (size_t i = 0; i < batch->members.n; i++) {
		if (batch->members.at[i].negotiated_ns > agreed_ns)
			agreed_ns = batch->members.at[i].negotiated_ns;
		is_ticked = is_ticked || batch->members.at[i].is_ticked;
	}
	if (agreed_ns == INT64_MIN)
		return LW_OK;
	start_ns = t->cycle_ns != LW_ROW_NULL && t->cycle_ns < agreed_ns ? t->cycle_ns : agreed_ns;
	return lw_row(t->import->rows, LW_ROW_CYCLE, RANK_0, t->n_rows++, start_ns, agreed_ns,
		LW_CYCLE_RESPONSES, 0, 0, is_ticked, 0, 0, 0);
}

static int on_batch(void *context, const struct lw_timeline_batch *batch)
{
	struct timeline_import *t = context;
	int64_t serial = (int64_t)batch->serial;
	bool is_partial = false;
	int flags = (batch->is_unfinished ? LW_COLL_UNFINISHED : 0) |
		    (batch->has_bytes ? 0 : LW_COLL_NO_BYTES) |
		    (batch->activity->op == LW_COLL_ERROR ? LW_COLL_FAILED : 0);
	int status = add_agreement(t, batch);

	for (size_t i = 0; i < batch->runs.n && status == LW_OK; i++)
		status = add_run(t, batch->runs.at[i], batch);
	for (size_t i = 0; i < batch->members.n && status == LW_OK; i++) {
		const struct lw_timeline_member *member = &batch->members.at[i];
		int64_t id = name_id(t, member->tensor);

		is_partial = is_partial || *lw_timeline_tensor_mark(member->tensor) & MARK_PARTIAL;
		status = id < 0 ? (int)id
				: lw_row(t->import->rows, LW_ROW_BATCH_TENSOR, RANK_0, t->n_rows++,
					  member->start_ns, serial, (int64_t)i, id,
					  (int64_t)member->object, (int64_t)member->bytes,
					  member->dtype);
	}
	if (status < 0)
		return status;
	return lw_row(t->import->rows, LW_ROW_BATCH, RANK_0, t->n_rows++, batch->start_ns,
		batch->end_ns, batch->activity->op, serial, (int64_t)batch->members.n,
		(int64_t)batch->bytes, LW_ROW_NULL, is_partial ? -1 : 0, batch->members.at[0].dtype,
		flags, LW_FRAMEWORK_HOROVOD);
}

static int on_cycle(void *context, int64_t at_ns)
{
	struct timeline_import *t = context;

	t->cycle_ns = at_ns;
	return lw_row(t->import->rows, LW_ROW_CYCLE, RANK_0, t->n_rows++, at_ns, at_ns,
		LW_CYCLE_AND, 0, 0, 0, 0, 0, 0);
}

static int on_progress(void *context, double done_frac)
{
	const struct lw_import *import = ((struct timeline_import *)context)->import;

	return import->on_progress ? import->on_progress(import->context, done_frac) : LW_OK;
}

/* Rows that need what the whole file has shown: host, processes, losses. */
static int add_job(struct timeline_import *t)
{
	const struct lw_timeline_stats *stats = t->stats;
	struct lw_import_rows *rows = t->import->rows;
	struct lw_import_summary *summary = t->import->summary;
	int status = lw_rows_host(rows, HOST, "unknown",
		stats->has_origin ? "start of the timeline" : "CLOCK_MONOTONIC");

	if (status == LW_OK && stats->has_origin)
		status = lw_row(rows, LW_ROW_CLOCK_SAMPLE, HOST, 0, stats->origin_realtime_ns);
	for (int32_t rank = 0; rank == 0 || rank < stats->n_ranks; rank++) {
		struct lw_row_process process = {
			.id = RANK_0 + rank,
			.host_id = HOST,
			.rank = rank,
			.size = stats->n_ranks ? stats->n_ranks : LW_ROW_NULL,
			.framework = LW_FRAMEWORK_HOROVOD,
			.transport = stats->transport,
			.role = rank ? LW_THREAD_TRAINING : LW_THREAD_BACKGROUND,
			.start_ns = stats->first_ns,
			.end_ns = stats->last_ns,
			.n_stored = rank ? t->n_ready_of_rank[rank] : t->n_rows,
			.n_lost = rank ? 0 : (int64_t)summary->n_bad,
		};

		if (rank && !(stats->rank_seen[rank / 8] & 1u << (rank % 8)))
			continue;
		if (status == LW_OK)
			status = lw_rows_process(rows, &process);
		summary->n_ranks++;
	}
	if (status == LW_OK)
		status = lw_rows_loss(rows, RANK_0, LW_LOSS_TORN,
			stats->json.n_bad + stats->json.is_truncated, stats->json.problem);
	if (status == LW_OK)
		status = lw_rows_loss(rows, RANK_0, LW_LOSS_TORN, stats->n_unmatched_ends,
			"an end without its begin");
	if (status == LW_OK)
		status = lw_rows_loss(rows, RANK_0, LW_LOSS_UNKNOWN_KIND, stats->n_unknown,
			"no event of a Horovod timeline");
	return status;
}

static void summarize(const struct lw_timeline_stats *stats, struct lw_import_summary *summary)
{
	summary->n_records = stats->n_events;
	summary->n_tensors = stats->n_tensors;
	summary->n_batches = stats->n_batches;
	summary->n_unfinished = stats->n_unfinished;
	summary->n_bad = stats->json.n_bad + stats->json.is_truncated + stats->n_unmatched_ends +
			 stats->n_unknown;
	summary->bytes = stats->bytes;
	summary->duration_ns = stats->last_ns - stats->first_ns;
	summary->is_truncated = stats->json.is_truncated;
	if (stats->json.problem[0])
		memcpy(summary->problem, stats->json.problem, sizeof(summary->problem));
	else if (summary->n_bad)
		strcpy(summary->problem,
			stats->n_unmatched_ends
				? "an end event without its begin"
				: "a record that is no event of a Horovod timeline");
}

/* When the job ran: by its header, else the file's own time. */
static int set_created(struct timeline_import *t)
{
	int64_t realtime_ns = t->stats->origin_realtime_ns;
	struct stat st;
	char sql[96];

	if (!t->stats->has_origin && stat(t->import->input, &st) == 0)
		realtime_ns = (int64_t)st.st_mtim.tv_sec * LW_NS_PER_S;
	snprintf(sql, sizeof(sql), "UPDATE run SET created_realtime_ns = %lld",
		(long long)realtime_ns);
	return lw_store_exec(t->import->rows->store, sql);
}

static int import(struct lw_import *import)
{
	struct lw_timeline_stats *stats = malloc(2 * sizeof(*stats));
	struct timeline_import *t = calloc(1, sizeof(*t));
	const struct lw_timeline_sink sink = {
		on_negotiation, on_batch, on_stray, on_cycle, on_progress, t};
	int status;

	if (!stats || !t) {
		free(stats);
		free(t);
		return lw_fail(LW_ERR_NOMEM, "no memory");
	}
	status = lw_timeline_stats(import->input, &stats[0]);
	if (status == LW_OK) {
		summarize(&stats[0], import->summary);
		t->import = import;
		t->stats = &stats[0];
		t->cycle_ns = LW_ROW_NULL;
		t->tick_id = lw_store_string(import->rows->store, "tick");
		status = t->tick_id < 0 ? (int)t->tick_id : set_created(t);
	}
	if (status == LW_OK) {
		status = lw_timeline_read(import->input, &sink, &stats[1]);
		lw_timeline_stats_free(&stats[1]);
	}
	if (status == LW_OK)
		status = add_job(t);
	lw_timeline_stats_free(&stats[0]);
	free(stats);
	free(t);
	return status;
}

const struct lw_importer lw_horovod_timeline_importer = {
	.name = "horovod_timeline",
	.reads =
		"what HOROVOD_TIMELINE or horovodrun --timeline-filename wrote, Horovod 0.20 to 0.28",
	.sniff = sniff,
	.reads_gzip = true,
	.import = import,
};
