/* SPDX-License-Identifier: Apache-2.0 */
/*
 * timeline_batch.c - which tensors one operation carried, and what was done with them.
 *
 * In the order of the file, the begins of one fused operation follow each other, tensor by tensor; so
 * do the begins of each of its activities (a "run").
 */
#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "analyzer/import/timeline_name.h"
#include "analyzer/import/timeline_reader.h"
#include "base/err.h"

enum { MAX_RUNS_BACK = 4 };

void lw_timeline_run_free(struct lw_timeline_run *run)
{
	lw_vec_free(&run->tensors);
	free(run);
}

void lw_timeline_batch_free(struct lw_timeline_reader *r, struct lw_timeline_batch *batch)
{
	DL_DELETE(r->batches, batch);
	for (size_t i = 0; i < batch->runs.n; i++)
		lw_timeline_run_free(batch->runs.at[i]);
	lw_vec_free(&batch->runs);
	lw_vec_free(&batch->members);
	if (r->last_batch == batch)
		r->last_batch = NULL;
	free(batch);
}

static struct lw_timeline_batch *new_batch(
	struct lw_timeline_reader *r, struct lw_activity_stats *activity)
{
	struct lw_timeline_batch *batch = calloc(1, sizeof(*batch));

	if (!batch) {
		lw_fail(LW_ERR_NOMEM, "no memory");
		return NULL;
	}
	batch->activity = activity;
	DL_APPEND(r->batches, batch);
	return batch;
}

static int add_member(struct lw_timeline_batch *batch, struct lw_timeline_member member)
{
	if (lw_vec_push(&batch->members, member) < 0)
		return LW_ERR_NOMEM;
	member.tensor->batch = batch;
	member.tensor->position = batch->members.n - 1;
	batch->n_open++;
	return LW_OK;
}

/* A damaged file can let an activity outlive its operation: it goes on outside of any batch. */
static void release_open_runs(struct lw_timeline_batch *batch)
{
	size_t n = 0;

	for (size_t i = 0; i < batch->runs.n; i++) {
		if (batch->runs.at[i]->n_open)
			batch->runs.at[i]->batch = NULL;
		else
			batch->runs.at[n++] = batch->runs.at[i];
	}
	batch->runs.n = n;
}

static int emit_batch(struct lw_timeline_reader *r, struct lw_timeline_batch *batch)
{
	int status = LW_OK;

	release_open_runs(batch);
	batch->serial = ++r->stats->n_batches;
	batch->activity->n_runs++;
	batch->start_ns = INT64_MAX;
	batch->end_ns = INT64_MIN;
	batch->has_bytes = true;
	for (size_t i = 0; i < batch->members.n; i++) {
		const struct lw_timeline_member *member = &batch->members.at[i];

		if (member->start_ns < batch->start_ns)
			batch->start_ns = member->start_ns;
		if (member->end_ns > batch->end_ns)
			batch->end_ns = member->end_ns;
		if (!member->has_bytes ||
			__builtin_add_overflow(batch->bytes, member->bytes, &batch->bytes))
			batch->has_bytes = false;
	}
	if (!batch->has_bytes || batch->bytes > INT64_MAX)
		batch->bytes = 0;
	r->stats->bytes += batch->bytes;
	r->stats->n_unfinished += batch->is_unfinished;
	if (r->sink)
		status = r->sink->on_batch(r->sink->context, batch);
	lw_timeline_batch_free(r, batch);
	return status;
}

/* Members of @batch that moved away leave a hole (tensor NULL); it goes when it is empty. */
static int close_holes(struct lw_timeline_reader *r, struct lw_timeline_batch *batch)
{
	size_t n = 0;

	for (size_t i = 0; i < batch->members.n; i++) {
		struct lw_timeline_member *member = &batch->members.at[i];

		if (!member->tensor)
			continue;
		if (member->tensor->batch == batch && member->tensor->position == i)
			member->tensor->position = n;
		batch->members.at[n++] = *member;
	}
	batch->members.n = n;
	if (n == 0) {
		release_open_runs(batch);
		lw_timeline_batch_free(r, batch);
	} else if (batch->n_open == 0) {
		return emit_batch(r, batch);
	}
	return LW_OK;
}

/* Activities of @from whose first tensor now belongs to @to follow it. */
static int move_runs(struct lw_timeline_batch *from, struct lw_timeline_batch *to)
{
	size_t n = 0;

	for (size_t i = 0; i < from->runs.n; i++) {
		struct lw_timeline_run *run = from->runs.at[i];

		if (run->tensors.at[0]->batch != to) {
			from->runs.at[n++] = run;
			continue;
		}
		if (lw_vec_push(&to->runs, run) < 0) {
			/* the rest stays where it is: nothing is owned twice */
			memmove(&from->runs.at[n], &from->runs.at[i],
				(from->runs.n - i) * sizeof(run));
			from->runs.n -= i - n;
			return LW_ERR_NOMEM;
		}
		run->batch = to;
	}
	from->runs.n = n;
	return LW_OK;
}

/*
 * The tensors of one collective are one batch, whatever the order of the operations' begins made it
 * look like: two responses begun back to back look like one, and one whose begins were interrupted by
 * another thread's events looks like two.
 */
static int settle_batch(struct lw_timeline_reader *r, struct lw_timeline_run *run)
{
	struct lw_timeline_batch *first = run->batch, *batch;
	lw_vec(struct lw_timeline_batch *) olds = {0};
	bool is_same;
	int status = LW_OK;

	if (!first)
		return LW_OK; /* outside of any batch when it began */
	is_same = first->members.n == run->tensors.n;
	for (size_t i = 0; i < run->tensors.n; i++) {
		batch = run->tensors.at[i]->batch;
		if (!batch || batch->activity != first->activity)
			return LW_OK; /* begun before the file starts, or damaged: stays as it looks */
		is_same = is_same && batch == first;
	}
	if (is_same)
		return LW_OK;
	batch = new_batch(r, first->activity);
	if (!batch)
		return LW_ERR_NOMEM;
	for (size_t i = 0; i < run->tensors.n && status == LW_OK; i++) {
		struct lw_timeline_tensor *tensor = run->tensors.at[i];
		struct lw_timeline_batch *old = tensor->batch;
		struct lw_timeline_member *member = &old->members.at[tensor->position];

		if (old == batch) /* listed twice: a damaged file */
			continue;
		if (!olds.n || olds.at[olds.n - 1] != old)
			status = lw_vec_push(&olds, old);
		if (status == LW_OK)
			status = add_member(batch, *member);
		if (status == LW_OK) {
			member->tensor = NULL;
			old->n_open--;
		}
	}
	for (size_t i = 0; i < olds.n && status == LW_OK; i++) {
		bool is_repeated = false;

		for (size_t j = 0; j < i; j++)
			is_repeated = is_repeated || olds.at[j] == olds.at[i];
		if (is_repeated)
			olds.at[i] = NULL;
		else
			status = move_runs(olds.at[i], batch);
	}
	for (size_t i = 0; i < olds.n && status == LW_OK; i++)
		if (olds.at[i])
			status = close_holes(r, olds.at[i]);
	lw_vec_free(&olds);
	return status;
}

/* The run that a begin of @activity on @tensor continues, or NULL. */
static struct lw_timeline_run *continued_run(const struct lw_timeline_reader *r,
	const struct lw_timeline_tensor *tensor, const struct lw_activity_stats *activity)
{
	const struct lw_timeline_batch *batch = tensor->batch;

	if (r->last_run && r->last_run->activity == activity)
		return r->last_run;
	/* other threads' events may come in between; then the batch tells, while nobody has ended */
	for (size_t i = 0; batch && i < batch->runs.n && i < MAX_RUNS_BACK; i++) {
		struct lw_timeline_run *run = batch->runs.at[batch->runs.n - 1 - i];

		if (run->activity == activity && run->n_open == run->n)
			return run;
	}
	return NULL;
}

int lw_timeline_run_begin(struct lw_timeline_reader *r, struct lw_timeline_tensor *tensor,
	struct lw_timeline_open *interval)
{
	struct lw_timeline_run *run = continued_run(r, tensor, interval->activity);

	if (!run) {
		run = calloc(1, sizeof(*run));
		if (!run)
			return lw_fail(LW_ERR_NOMEM, "no memory");
		run->activity = interval->activity;
		run->start_ns = interval->start_ns;
		run->end_ns = INT64_MIN;
		run->batch = tensor->batch;
		if (run->batch && lw_vec_push(&run->batch->runs, run) < 0) {
			free(run);
			return LW_ERR_NOMEM;
		}
		run->activity->n_runs++;
	}
	if (interval->start_ns < run->start_ns)
		run->start_ns = interval->start_ns;
	run->n++;
	run->n_open++;
	interval->run = run;
	r->last_run = run;
	return lw_vec_push(&run->tensors, tensor);
}

int lw_timeline_run_end(struct lw_timeline_reader *r, struct lw_timeline_run *run, int64_t at_ns,
	bool is_unfinished)
{
	int status = LW_OK;

	if (run->n_open == run->n && run->activity->kind == LW_ACTIVITY_WIRE)
		status = settle_batch(r, run);
	run->n_open--;
	run->is_unfinished = run->is_unfinished || is_unfinished;
	if (at_ns > run->end_ns)
		run->end_ns = at_ns;
	if (run->n_open == 0 && !run->batch) {
		if (r->sink && status == LW_OK)
			status = r->sink->on_stray(r->sink->context, run);
		lw_timeline_run_free(run);
	}
	return status;
}

int lw_timeline_batch_begin(struct lw_timeline_reader *r, struct lw_timeline_tensor *tensor,
	const struct lw_timeline_open *interval)
{
	struct lw_timeline_batch *batch = r->last_batch;
	struct lw_timeline_member member = {
		.tensor = tensor,
		.object = tensor->object,
		.negotiated_ns = tensor->object ? tensor->negotiated_ns : INT64_MIN,
		.start_ns = interval->start_ns,
		.is_ticked = tensor->object && tensor->is_ticked,
	};

	tensor->object = 0;
	if (!batch || batch->activity != interval->activity)
		batch = new_batch(r, interval->activity);
	r->last_batch = batch;
	return batch ? add_member(batch, member) : LW_ERR_NOMEM;
}

int lw_timeline_batch_end(struct lw_timeline_reader *r, struct lw_timeline_tensor *tensor,
	int64_t at_ns, const struct lw_json_record *record)
{
	struct lw_timeline_batch *batch = tensor->batch;
	struct lw_timeline_member *member = &batch->members.at[tensor->position];
	const char *dtype = record ? lw_json_text(record, "args.dtype") : NULL;
	const char *shape = record ? lw_json_text(record, "args.shape") : NULL;

	if (dtype && shape && lw_timeline_size(dtype, shape, &tensor->bytes, &tensor->dtype)) {
		tensor->size_op = batch->activity->op;
		member->has_bytes = true;
	} else if (!record && tensor->size_op == batch->activity->op) {
		member->has_bytes = true; /* cut off: it has the size it always had */
	}
	if (member->has_bytes) {
		member->bytes = tensor->bytes;
		member->dtype = tensor->dtype;
	}
	member->end_ns = at_ns;
	tensor->batch = NULL;
	batch->is_unfinished = batch->is_unfinished || !record;
	return --batch->n_open ? LW_OK : emit_batch(r, batch);
}
