/* SPDX-License-Identifier: Apache-2.0 */
/* writer_put.c - the records of one take as rows, and how far each ring was read. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "collector/strings.h"
#include "collector/writer_rows.h"

static int put_texts(struct lw_writer *writer, const struct lw_take *take)
{
	const struct lw_text *text;

	lw_vec_foreach (text, &take->texts) {
		int64_t row_id;
		int status;

		if (lw_string_map_find(writer->source.strings, text->id))
			continue;
		row_id = lw_store_string(writer->store, take->text_bytes.at + text->offset);
		status = row_id < 0 ? (int)row_id
				    : lw_string_map_add(writer->source.strings, text->id, row_id);
		if (status < 0)
			return status;
	}
	return LW_OK;
}

/* Binds @value, or NULL where the tracer's "not known" (@unknown) stands. */
static void bind_known(sqlite3_stmt *statement, int i, int64_t value, int64_t unknown)
{
	if (value == unknown)
		sqlite3_bind_null(statement, i);
	else
		sqlite3_bind_int64(statement, i, value);
}

static int put_process(struct lw_writer *writer, const struct lw_record *record)
{
	const struct lw_ev_process *process = &record->event->process;
	sqlite3_stmt *update = writer->own[UPDATE_PROCESS];

	sqlite3_bind_int64(update, 1, record->ring->process->process_id);
	bind_known(update, 2, process->rank, -1);
	bind_known(update, 3, process->size, -1);
	bind_known(update, 4, process->local_rank, -1);
	bind_known(update, 5, process->local_size, -1);
	sqlite3_bind_int(update, 6, process->framework);
	sqlite3_bind_int(update, 7, process->transport);
	bind_known(update, 8, lw_string_map_find(writer->source.strings, process->command), 0);
	sqlite3_bind_int64(update, 9, process->ppid);
	return lw_writer_run(writer, update);
}

static int put_thread(struct lw_writer *writer, const struct lw_record *record)
{
	sqlite3_stmt *update = writer->own[UPDATE_THREAD];

	sqlite3_bind_int64(update, 1, record->ring->thread_id);
	sqlite3_bind_int(update, 2, record->event->op);
	bind_known(update, 3,
		lw_string_map_find(writer->source.strings, record->event->thread.name), 0);
	return lw_writer_run(writer, update);
}

static int put_loss(struct lw_writer *writer, const struct lw_record *record)
{
	int64_t where = lw_string_map_find(writer->source.strings, record->event->loss.where);
	char sql[80], detail[LW_STRING_MAX_BYTES + 1] = "";
	sqlite3_stmt *row;
	int status;

	snprintf(sql, sizeof(sql), "SELECT text FROM string WHERE id = %" PRId64, where);
	status = lw_store_prepare(writer->store, sql, &row);
	if (status < 0)
		return status;
	status = lw_store_step(writer->store, row);
	if (status == 1)
		snprintf(detail, sizeof(detail), "%s", lw_store_column_text(row, 0));
	sqlite3_finalize(row);
	if (status < 0)
		return status;
	return lw_writer_loss(writer, record->ring->process->process_id, record->ring->thread_id,
		record->event->op, record->event->loss.count, detail);
}

/* Kinds that change a row that is there already, instead of adding one. */
static int (*const put_one[LW_EV_COUNT])(struct lw_writer *, const struct lw_record *) = {
	[LW_EV_PROCESS] = put_process,
	[LW_EV_THREAD] = put_thread,
	[LW_EV_LOSS] = put_loss,
};

static int put_kind(struct lw_writer *writer, int kind)
{
	const struct lw_record_list *list = &writer->source.of_kind[kind];

	if (list->n && writer->insert[kind])
		return lw_writer_run(writer, writer->insert[kind]);
	for (size_t i = 0; i < list->n && put_one[kind]; i++) {
		int status = put_one[kind](writer, &list->at[i]);

		if (status < 0)
			return status;
	}
	return LW_OK;
}

static int put_counts(struct lw_writer *writer, struct lw_ring *ring)
{
	sqlite3_stmt *count = writer->own[COUNT_THREAD], *seen = writer->own[SEEN_PROCESS];
	uint64_t n_invalid = ring->n_new[LW_LOSS_TORN] + ring->n_new[LW_LOSS_UNKNOWN_KIND];
	int status = LW_OK;

	ring->n_stored += ring->n_taken - n_invalid;
	ring->n_lost += ring->n_new[LW_LOSS_RING_FULL] + n_invalid;
	for (int reason = 0; reason < LW_LOSS_COUNT && status == LW_OK; reason++)
		if (ring->n_new[reason])
			status = lw_writer_loss(writer, ring->process->process_id, ring->thread_id,
				reason, ring->n_new[reason], "");
	memset(ring->n_new, 0, sizeof(ring->n_new));
	if (status < 0)
		return status;
	sqlite3_bind_int64(count, 1, ring->thread_id);
	sqlite3_bind_int64(count, 2, (int64_t)ring->position);
	sqlite3_bind_int64(count, 3, (int64_t)ring->n_stored);
	sqlite3_bind_int64(count, 4, (int64_t)ring->n_lost);
	status = lw_writer_run(writer, count);
	if (status < 0)
		return status;
	sqlite3_bind_int64(seen, 1, ring->process->process_id);
	bind_known(seen, 2, ring->process->last_ns, 0);
	return lw_writer_run(writer, seen);
}

static bool has_news(const struct lw_ring *ring)
{
	if (ring->n_taken)
		return true;
	for (int reason = 0; reason < LW_LOSS_COUNT; reason++)
		if (ring->n_new[reason])
			return true;
	return false;
}

int lw_writer_put(struct lw_writer *writer, struct lw_drain *drain)
{
	struct lw_ring **ring;
	int status = put_texts(writer, &drain->take);

	memcpy(writer->source.of_kind, drain->take.of_kind, sizeof(writer->source.of_kind));
	for (int kind = 1; kind < LW_EV_COUNT && status == LW_OK; kind++)
		status = put_kind(writer, kind);
	for (size_t i = 0; i < drain->rings.n && status == LW_OK; i++) {
		ring = &drain->rings.at[i];
		if (has_news(*ring))
			status = put_counts(writer, *ring);
	}
	return status;
}

int lw_writer_end_ring(struct lw_writer *writer, struct lw_ring *ring)
{
	uint64_t n_lost = lw_ring_lost(ring);

	/* pushes that were lost after the last record that found room */
	ring->n_taken = 0;
	if (n_lost > ring->n_ring_full)
		ring->n_new[LW_LOSS_RING_FULL] = n_lost - ring->n_ring_full;
	ring->n_ring_full += ring->n_new[LW_LOSS_RING_FULL];
	return put_counts(writer, ring);
}
