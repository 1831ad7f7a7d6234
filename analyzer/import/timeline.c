/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/import/timeline.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "analyzer/import/timeline_name.h"
#include "analyzer/import/timeline_reader.h"
#include "base/err.h"
#include "schema/event.h"

enum { NS_PER_US = 1000 };
#define MAX_TS_US (INT64_C(1) << 50) /* 35 years: no clock of a job, and sums stay in range */

struct activity_entry {
	struct lw_activity_stats stats;
	UT_hash_handle hh;
};

const char *lw_timeline_tensor_name(const struct lw_timeline_tensor *tensor)
{
	return tensor->name;
}

int64_t *lw_timeline_tensor_mark(struct lw_timeline_tensor *tensor)
{
	return &tensor->mark;
}

/* ---- activities and their statistics --------------------------------------------------------- */

static struct lw_activity_stats *find_activity(struct lw_timeline_reader *r, const char *name)
{
	struct activity_entry *entry;

	HASH_FIND_STR(r->activities, name, entry);
	if (entry)
		return &entry->stats;
	entry = calloc(1, sizeof(*entry));
	if (!entry || !(entry->stats.name = strdup(name)) ||
		lw_vec_push(&r->stats->activities, &entry->stats) < 0) {
		if (entry)
			free(entry->stats.name);
		free(entry);
		lw_fail(LW_ERR_NOMEM, "no memory");
		return NULL;
	}
	lw_timeline_classify(name, &entry->stats.kind, &entry->stats.op, &entry->stats.transport);
	entry->stats.union_end_ns = INT64_MIN;
	HASH_ADD_KEYPTR(hh, r->activities, entry->stats.name, strlen(entry->stats.name), entry);
	return &entry->stats;
}

static void count_begin(struct lw_activity_stats *activity, int64_t at_ns)
{
	if (activity->n_open++ == 0)
		activity->union_start_ns =
			at_ns > activity->union_end_ns ? at_ns : activity->union_end_ns;
}

static void count_end(struct lw_activity_stats *activity, int64_t start_ns, int64_t end_ns)
{
	activity->n++;
	if (__builtin_add_overflow(activity->sum_ns, end_ns - start_ns, &activity->sum_ns))
		activity->sum_ns = INT64_MAX;
	if (--activity->n_open == 0 && end_ns > activity->union_start_ns) {
		activity->union_ns += end_ns - activity->union_start_ns;
		activity->union_end_ns = end_ns;
	}
}

/* ---- begins and ends of one tensor ------------------------------------------------------------- */

static int end_negotiation(struct lw_timeline_reader *r, struct lw_timeline_tensor *tensor,
	const struct lw_timeline_open *interval, int64_t at_ns)
{
	struct lw_timeline_negotiation negotiation = {tensor, interval->activity, tensor->object,
		interval->start_ns, at_ns, tensor->ticks.at, tensor->ticks.n};

	interval->activity->n_runs++;
	tensor->negotiated_ns = at_ns;
	tensor->is_ticked = tensor->ticks.n > 0;
	r->stats->n_ticked += tensor->is_ticked;
	tensor->ticks.n = 0;
	return r->sink ? r->sink->on_negotiation(r->sink->context, &negotiation) : LW_OK;
}

static int begin(struct lw_timeline_reader *r, struct lw_timeline_tensor *tensor, const char *name,
	int64_t at_ns)
{
	struct lw_timeline_open *interval;
	struct lw_activity_stats *activity;

	if (tensor->n_open == LW_TIMELINE_MAX_OPEN) {
		r->stats->n_unknown++;
		return LW_OK;
	}
	activity = find_activity(r, name);
	if (!activity)
		return LW_ERR_NOMEM;
	interval = &tensor->open[tensor->n_open++];
	*interval = (struct lw_timeline_open){.activity = activity, .start_ns = at_ns};
	count_begin(activity, at_ns);
	if (activity->kind == LW_ACTIVITY_OPERATION && !tensor->batch) {
		r->last_run = NULL;
		return lw_timeline_batch_begin(r, tensor, interval);
	}
	r->last_batch = NULL;
	if (activity->kind != LW_ACTIVITY_NEGOTIATE)
		return lw_timeline_run_begin(r, tensor, interval);
	r->last_run = NULL;
	tensor->object = ++r->n_objects;
	tensor->negotiated_ns = INT64_MIN;
	tensor->ticks.n = 0;
	return LW_OK;
}

/* @record: of the end event, NULL when the file stops before it. */
static int end(struct lw_timeline_reader *r, struct lw_timeline_tensor *tensor, int64_t at_ns,
	const struct lw_json_record *record)
{
	struct lw_timeline_open interval = tensor->open[--tensor->n_open];

	r->last_run = NULL;
	r->last_batch = NULL;
	if (at_ns < interval.start_ns)
		at_ns = interval.start_ns;
	count_end(interval.activity, interval.start_ns, at_ns);
	interval.activity->n_unfinished += !record;
	if (interval.run)
		return lw_timeline_run_end(r, interval.run, at_ns, !record);
	if (interval.activity->kind == LW_ACTIVITY_NEGOTIATE)
		return end_negotiation(r, tensor, &interval, at_ns);
	return lw_timeline_batch_end(r, tensor, at_ns, record);
}

static int end_all(struct lw_timeline_reader *r, struct lw_timeline_tensor *tensor)
{
	int status = LW_OK;

	while (tensor->n_open && status == LW_OK)
		status = end(r, tensor, r->stats->last_ns, NULL);
	return status;
}

/* ---- records -------------------------------------------------------------------------------------- */

/* The tensor that row @pid stands for; made when new, as @name or by its number. */
static int find_tensor(struct lw_timeline_reader *r, int64_t pid, const char *name,
	struct lw_timeline_tensor **ret_tensor)
{
	struct lw_timeline_tensor *tensor;
	char number[32];

	HASH_FIND(hh, r->tensors, &pid, sizeof(pid), tensor);
	if (tensor && name && strcmp(name, tensor->name)) {
		/* a restarted timeline numbers anew */
		int status = end_all(r, tensor);

		if (status < 0)
			return status;
		HASH_DEL(r->tensors, tensor);
		LL_PREPEND(r->retired, tensor);
		tensor = NULL;
	}
	if (!tensor) {
		snprintf(number, sizeof(number), "row %" PRId64, pid);
		tensor = calloc(1, sizeof(*tensor));
		if (!tensor || !(tensor->name = strdup(name ? name : number))) {
			free(tensor);
			return lw_fail(LW_ERR_NOMEM, "no memory");
		}
		tensor->pid = pid;
		HASH_ADD(hh, r->tensors, pid, sizeof(tensor->pid), tensor);
		r->stats->n_tensors++;
	}
	*ret_tensor = tensor;
	return LW_OK;
}

/* Another header: timelines of one job, one after the other in a file. */
static int start_next_part(struct lw_timeline_reader *r, int64_t realtime_ns)
{
	struct lw_timeline_tensor *tensor, *next;
	int status = LW_OK;

	HASH_ITER(hh, r->tensors, tensor, next)
	{
		if (status == LW_OK)
			status = end_all(r, tensor);
	}
	r->base_ns = realtime_ns - r->stats->origin_realtime_ns;
	return status;
}

static int on_metadata(struct lw_timeline_reader *r, const struct lw_json_record *record)
{
	const char *kind = lw_json_text(record, "name"), *name = lw_json_text(record, "args.name");
	const struct lw_json_field *pid = lw_json_field(record, "pid");
	const struct lw_json_field *origin =
		lw_json_field(record, "args.start_time_since_epoch_in_micros");
	struct lw_timeline_tensor *tensor;

	if (origin && origin->type == LW_JSON_INT && origin->integer >= 0 &&
		origin->integer < MAX_TS_US * 2) {
		int64_t realtime_ns = origin->integer * NS_PER_US;

		if (r->stats->has_origin)
			return start_next_part(r, realtime_ns);
		r->stats->origin_realtime_ns = realtime_ns;
		r->stats->has_origin = true;
	} else if (kind && !strcmp(kind, "process_name") && name && pid &&
		   pid->type == LW_JSON_INT) {
		return find_tensor(r, pid->integer, name, &tensor);
	}
	return LW_OK;
}

static int on_tick(struct lw_timeline_reader *r, struct lw_timeline_tensor *tensor,
	const char *name, int64_t at_ns)
{
	struct lw_timeline_tick tick = {.at_ns = at_ns};
	char *end_of_number;
	long rank = strtol(name, &end_of_number, 10);

	if (!*name || *end_of_number || rank < 0 || rank >= LW_TIMELINE_MAX_RANKS) {
		r->stats->n_unknown++;
		return LW_OK;
	}
	tick.rank = (int32_t)rank;
	if (tick.rank >= r->stats->n_ranks)
		r->stats->n_ranks = tick.rank + 1;
	r->stats->rank_seen[rank / 8] |= (uint8_t)(1u << (rank % 8));
	r->stats->n_ticks++;
	return lw_vec_push(&tensor->ticks, tick);
}

static bool read_time(
	const struct lw_timeline_reader *r, const struct lw_json_record *record, int64_t *ret_ns)
{
	const struct lw_json_field *ts = lw_json_field(record, "ts");

	if (ts && ts->type == LW_JSON_INT && ts->integer >= 0 && ts->integer < MAX_TS_US)
		*ret_ns = ts->integer * NS_PER_US + r->base_ns;
	else if (ts && ts->type == LW_JSON_REAL && ts->real >= 0 && ts->real < (double)MAX_TS_US)
		*ret_ns = llround(ts->real * NS_PER_US) + r->base_ns;
	else
		return false;
	return true;
}

static int on_event(struct lw_timeline_reader *r, const struct lw_json_record *record, char phase)
{
	const char *name = lw_json_text(record, "name");
	const struct lw_json_field *pid = lw_json_field(record, "pid");
	struct lw_timeline_tensor *tensor = NULL;
	int64_t at_ns;
	int status;

	if (!read_time(r, record, &at_ns) || (phase != 'E' && !name) ||
		(phase != 'i' && (!pid || pid->type != LW_JSON_INT))) {
		r->stats->n_unknown++;
		return LW_OK;
	}
	if (at_ns < r->stats->first_ns)
		r->stats->first_ns = at_ns;
	if (at_ns > r->stats->last_ns)
		r->stats->last_ns = at_ns;
	if (phase == 'i') {
		if (strcmp(name, "CYCLE_START")) {
			r->stats->n_unknown++;
			return LW_OK;
		}
		r->stats->n_cycles++;
		return r->sink ? r->sink->on_cycle(r->sink->context, at_ns) : LW_OK;
	}
	status = find_tensor(r, pid->integer, NULL, &tensor);
	if (status < 0)
		return status;
	if (phase == 'B')
		return begin(r, tensor, name, at_ns);
	if (phase == 'X')
		return on_tick(r, tensor, name, at_ns);
	if (tensor->n_open)
		return end(r, tensor, at_ns, record);
	r->stats->n_unmatched_ends++;
	return LW_OK;
}

static int on_record(void *context, const struct lw_json_record *record)
{
	struct lw_timeline_reader *r = context;
	const char *phase = lw_json_text(record, "ph");

	if (phase && !strcmp(phase, "M"))
		return on_metadata(r, record);
	if (phase && strlen(phase) == 1 && strchr("BEXi", *phase))
		return on_event(r, record, *phase);
	r->stats->n_unknown++;
	return LW_OK;
}

static int on_progress(void *context, double done_frac)
{
	const struct lw_timeline_sink *sink = ((struct lw_timeline_reader *)context)->sink;

	return sink && sink->on_progress ? sink->on_progress(sink->context, done_frac) : LW_OK;
}

/* What most collectives ran over. Gloo's alltoall calls itself MPI_ALLTOALL: it does not vote. */
static int main_transport(const struct lw_timeline_stats *stats)
{
	uint64_t n[LW_TRANSPORT_NCCL + 1] = {0}, n_alltoall = 0;
	int best = LW_TRANSPORT_NONE;

	for (size_t i = 0; i < stats->activities.n; i++) {
		const struct lw_activity_stats *activity = stats->activities.at[i];

		if (activity->kind == LW_ACTIVITY_WIRE && activity->op == LW_COLL_ALLTOALL &&
			activity->transport == LW_TRANSPORT_MPI)
			n_alltoall += activity->n_runs;
		else if (activity->kind == LW_ACTIVITY_WIRE)
			n[activity->transport] += activity->n_runs;
	}
	for (int i = LW_TRANSPORT_MPI; i <= LW_TRANSPORT_NCCL; i++)
		if (n[i] > n[best])
			best = i;
	return !n[best] && n_alltoall ? LW_TRANSPORT_MPI : best;
}

static void free_tensor(struct lw_timeline_tensor *tensor)
{
	for (int i = 0; i < tensor->n_open; i++) {
		struct lw_timeline_run *run = tensor->open[i].run;

		if (run && --run->n_open == 0 && !run->batch)
			lw_timeline_run_free(run);
	}
	lw_vec_free(&tensor->ticks);
	free(tensor->name);
	free(tensor);
}

/* After an error too: whatever is still open goes with its owner. */
static void free_reader(struct lw_timeline_reader *r)
{
	struct lw_timeline_tensor *tensor, *next_tensor;
	struct lw_timeline_batch *batch, *next_batch;

	HASH_ITER(hh, r->tensors, tensor, next_tensor)
	{
		HASH_DEL(r->tensors, tensor);
		free_tensor(tensor);
	}
	LL_FOREACH_SAFE(r->retired, tensor, next_tensor)
	free_tensor(tensor);
	DL_FOREACH_SAFE(r->batches, batch, next_batch)
	lw_timeline_batch_free(r, batch);
	HASH_CLEAR(hh, r->activities); /* the entries belong to the statistics now */
}

int lw_timeline_read(
	const char *path, const struct lw_timeline_sink *sink, struct lw_timeline_stats *ret_stats)
{
	struct lw_timeline_reader r = {.stats = ret_stats, .sink = sink};
	const struct lw_json_reader reader = {
		.on_record = on_record, .on_progress = on_progress, .context = &r};
	struct lw_timeline_tensor *tensor, *next;
	int status;

	memset(ret_stats, 0, sizeof(*ret_stats));
	ret_stats->first_ns = INT64_MAX;
	ret_stats->last_ns = INT64_MIN;
	status = lw_json_stream_file(path, &reader, &ret_stats->json);
	ret_stats->n_events = ret_stats->json.n_records;
	HASH_ITER(hh, r.tensors, tensor, next)
	if (status == LW_OK)
		status = end_all(&r, tensor);
	if (status == LW_OK && !ret_stats->activities.n)
		status = lw_fail(LW_ERR_FORMAT,
			"no Horovod operation in %" PRIu64
			" records (a job of one rank writes such a timeline)",
			ret_stats->n_events);
	ret_stats->transport = main_transport(ret_stats);
	free_reader(&r);
	return status;
}

int lw_timeline_stats(const char *path, struct lw_timeline_stats *ret_stats)
{
	return lw_timeline_read(path, NULL, ret_stats);
}

void lw_timeline_stats_free(struct lw_timeline_stats *stats)
{
	for (size_t i = 0; i < stats->activities.n; i++) {
		struct lw_activity_stats *activity = stats->activities.at[i];

		free(activity->name);
		free((char *)activity - offsetof(struct activity_entry, stats));
	}
	lw_vec_free(&stats->activities);
}

const struct lw_activity_stats *lw_timeline_activity(
	const struct lw_timeline_stats *stats, const char *name)
{
	for (size_t i = 0; i < stats->activities.n; i++)
		if (!strcmp(stats->activities.at[i]->name, name))
			return stats->activities.at[i];
	return NULL;
}
