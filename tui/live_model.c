/* SPDX-License-Identifier: Apache-2.0 */
#include "tui/live_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "tui/live_late.h"

enum { NONE = -1, MAX_NAME_ID = 1 << 20, MAX_SOCKETS = 1 << 14 };

static const uint64_t name_key = UINT64_C(1) << 63; /* of a tensor without an object */

void lw_live_model_done(struct lw_live_model *model)
{
	struct lw_live_rank *rank;

	lw_vec_foreach (rank, &model->ranks) {
		lw_vec_free(&rank->names);
		lw_vec_free(&rank->sockets);
		free(rank->readies);
		free(rank->seen);
		free(rank->slots);
	}
	lw_vec_free(&model->ranks);
	free(model->groups);
	free(model->ready_ns);
	free(model->resumed_ns);
	free(model->late);
	free(model->late_ns);
	memset(model, 0, sizeof(*model));
}

int lw_live_model_copy(struct lw_live_model *into, const struct lw_live_model *from)
{
	const struct lw_live_rank *rank;

	*into = *from;
	into->groups = NULL;
	into->ready_ns = NULL;
	into->resumed_ns = NULL;
	into->late = NULL;
	into->late_ns = NULL;
	into->n_group_ranks = 0;
	memset(&into->ranks, 0, sizeof(into->ranks));
	lw_vec_foreach (rank, &from->ranks) {
		struct lw_live_rank copy = *rank;

		memset(&copy.names, 0, sizeof(copy.names));
		memset(&copy.sockets, 0, sizeof(copy.sockets));
		copy.readies = NULL;
		copy.seen = NULL;
		copy.slots = malloc(LW_LIVE_SLOTS * sizeof(*copy.slots));
		if (!copy.slots || lw_vec_push(&into->ranks, copy) < 0) {
			free(copy.slots);
			lw_live_model_done(into);
			return lw_fail(LW_ERR_NOMEM, "no memory to hold the picture");
		}
		memcpy(copy.slots, rank->slots, LW_LIVE_SLOTS * sizeof(*copy.slots));
	}
	return LW_OK;
}

/* ---- processes -------------------------------------------------------------------------------------- */

struct lw_live_rank *lw_live_rank_of(struct lw_live_model *model, int64_t process_id)
{
	struct lw_live_rank *rank;

	lw_vec_foreach (rank, &model->ranks)
		if (rank->process_id == process_id)
			return rank;
	return NULL;
}

static int add_rank(struct lw_live_model *model, int64_t process_id)
{
	struct lw_live_rank rank = {
		.process_id = process_id, .rank = NONE, .size = NONE, .anchor = NONE};
	int status = LW_OK;

	rank.slots = calloc(LW_LIVE_SLOTS, sizeof(*rank.slots));
	rank.readies = calloc(LW_LIVE_READIES, sizeof(*rank.readies));
	rank.seen = calloc(LW_LIVE_READIES, sizeof(*rank.seen));
	if (!rank.slots || !rank.readies || !rank.seen)
		status = lw_fail(LW_ERR_NOMEM, "no memory for a rank");
	if (status == LW_OK)
		status = lw_vec_push(&model->ranks, rank);
	if (status < 0) {
		free(rank.slots);
		free(rank.readies);
		free(rank.seen);
		return status;
	}
	return lw_live_grow_groups(model);
}

static void note_time(struct lw_live_model *model, struct lw_live_rank *rank, int64_t at_ns)
{
	if (at_ns > rank->end_ns)
		rank->end_ns = at_ns;
	if (at_ns > model->newest_ns)
		model->newest_ns = at_ns;
}

int lw_live_see_process(struct lw_live_model *model, const struct lw_live_process *process)
{
	struct lw_live_rank *rank = lw_live_rank_of(model, process->process_id);

	if (!rank) {
		int status = add_rank(model, process->process_id);

		if (status < 0)
			return status;
		rank = &model->ranks.at[model->ranks.n - 1];
	}
	rank->pid = process->pid;
	snprintf(rank->host, sizeof(rank->host), "%s", process->host ? process->host : "");
	rank->rank = process->rank;
	rank->size = process->size;
	rank->framework = process->framework;
	rank->transport = process->transport;
	rank->start_ns = process->start_ns;
	rank->ended = process->ended;
	note_time(model, rank, process->end_ns);
	if (!model->first_ns || (process->start_ns && process->start_ns < model->first_ns))
		model->first_ns = process->start_ns;
	return LW_OK;
}

const char *lw_live_name(const struct lw_live_rank *rank, char text[LW_LIVE_NAME_BYTES])
{
	if (rank->rank >= 0)
		snprintf(text, LW_LIVE_NAME_BYTES, "rank %d", rank->rank);
	else
		snprintf(text, LW_LIVE_NAME_BYTES, "process %lld%s%s (no rank known yet)",
			(long long)rank->pid, rank->host[0] ? " on " : "", rank->host);
	return text;
}

bool lw_live_is_rank(const struct lw_live_rank *rank)
{
	return rank->rank >= 0 || rank->n_ops > 0;
}

/* ---- slots ------------------------------------------------------------------------------------------ */

/* NULL: too long ago to be kept. */
static struct lw_live_slot *slot_at(struct lw_live_rank *rank, int64_t number)
{
	struct lw_live_slot *slot;

	if (number <= 0)
		return NULL;
	slot = &rank->slots[number % LW_LIVE_SLOTS];
	if (slot->number > number)
		return NULL;
	if (slot->number < number)
		*slot = (struct lw_live_slot){.number = number};
	return slot;
}

struct lw_live_slot *lw_live_slot_of(struct lw_live_rank *rank, int64_t at_ns)
{
	return slot_at(rank, at_ns / LW_LIVE_SLOT_NS);
}

void lw_live_see_counts(struct lw_live_model *model, struct lw_live_rank *rank, int64_t at_ns,
	uint64_t n_stored, uint64_t n_lost)
{
	struct lw_live_slot *slot = lw_live_slot_of(rank, at_ns);

	(void)model;
	if (slot && n_lost > rank->n_lost)
		slot->n_lost += n_lost - rank->n_lost;
	rank->n_stored = n_stored;
	rank->n_lost = n_lost;
}

/* Waits never overlap in a thread, so lengths add up. */
static void add_blocked(struct lw_live_rank *rank, int64_t start_ns, int64_t end_ns)
{
	int64_t first = start_ns / LW_LIVE_SLOT_NS, last = end_ns / LW_LIVE_SLOT_NS;

	if (last - first >= LW_LIVE_SLOTS)
		first = last - LW_LIVE_SLOTS + 1;
	for (int64_t i = first; i <= last; i++) {
		struct lw_live_slot *slot = slot_at(rank, i);
		int64_t from_ns = i * LW_LIVE_SLOT_NS, to_ns = from_ns + LW_LIVE_SLOT_NS;

		if (slot)
			slot->blocked_ns += (end_ns < to_ns ? end_ns : to_ns) -
					    (start_ns > from_ns ? start_ns : from_ns);
	}
}

/* ---- steps ------------------------------------------------------------------------------------------ */

/* Into its place in the order of time in a ring of the @size newest: several threads write in another one. */
static void note_at(int64_t *times_ns, uint64_t size, uint64_t *n, int64_t at_ns)
{
	uint64_t i = (*n)++;

	for (; i > 0 && *n - i < size && times_ns[(i - 1) % size] > at_ns; i--)
		times_ns[i % size] = times_ns[(i - 1) % size];
	times_ns[i % size] = at_ns;
}

static void end_step(struct lw_live_rank *rank, int64_t at_ns)
{
	struct lw_live_slot *slot = lw_live_slot_of(rank, at_ns);

	note_at(rank->bounds_ns, LW_LIVE_BOUNDS, &rank->n_bounds, at_ns);
	if (!rank->counting_ns)
		rank->counting_ns = at_ns;
	if (!rank->boundary_ns) {
		rank->boundary_ns = at_ns;
		return;
	}
	/* One that comes late divides a step that was counted: there is one more, and no more time. */
	rank->n_steps++;
	if (slot)
		slot->n_steps++;
	if (at_ns <= rank->boundary_ns)
		return;
	rank->step_ns = at_ns - rank->boundary_ns;
	rank->boundary_ns = at_ns;
	if (slot)
		slot->steps_ns += rank->step_ns;
}

void lw_live_see_mark(struct lw_live_model *model, struct lw_live_rank *rank, int64_t at_ns)
{
	note_time(model, rank, at_ns);
	if (!rank->has_marks) { /* the user's word counts from now on */
		rank->has_marks = true;
		rank->boundary_ns = rank->counting_ns = 0;
		rank->n_steps = 0;
		for (size_t i = 0; i < LW_LIVE_SLOTS; i++) { /* counts of a time add up to it */
			rank->slots[i].n_steps = 0;
			rank->slots[i].steps_ns = 0;
		}
	}
	end_step(rank, at_ns);
}

static int see_name(struct lw_live_rank *rank, const struct lw_live_member *member)
{
	static const struct lw_live_name none = {0};
	struct lw_live_name *name;
	bool is_larger;

	if (member->name_id <= 0 || member->name_id > MAX_NAME_ID || rank->has_marks)
		return LW_OK;
	while (rank->names.n <= (size_t)member->name_id)
		if (lw_vec_push(&rank->names, none) < 0)
			return LW_ERR_NOMEM;
	name = &rank->names.at[member->name_id];
	name->n++;
	if (member->bytes > name->bytes)
		name->bytes = member->bytes;
	is_larger = rank->anchor == NONE || name->bytes > rank->names.at[rank->anchor].bytes;
	if (name->n >= 2 && is_larger) {
		/* The first that recurs shows the first step; a larger one only takes over. */
		if (rank->anchor == NONE) {
			rank->boundary_ns = rank->counting_ns = name->last_ns;
			end_step(rank, member->at_ns);
		}
		rank->boundary_ns = member->at_ns;
		rank->anchor = member->name_id;
	} else if (member->name_id == rank->anchor) {
		end_step(rank, member->at_ns);
	}
	name->last_ns = member->at_ns;
	return LW_OK;
}

/* ---- ready times -------------------------------------------------------------------------------------- */

static uint64_t key_of(uint64_t object, int64_t name_id)
{
	return object ? object : name_id > 0 ? name_key | (uint64_t)name_id : 0;
}

/* Its place in the table; NULL: not there, and @may_add is false. */
static struct lw_live_seen *find_seen(struct lw_live_rank *rank, uint64_t key, bool may_add)
{
	uint64_t at = key * UINT64_C(0x9e3779b97f4a7c15) >> 32;

	if (may_add && rank->n_seen >= LW_LIVE_READIES / 2) { /* addresses come and go */
		memset(rank->seen, 0, LW_LIVE_READIES * sizeof(*rank->seen));
		rank->n_seen = 0;
	}
	for (;; at++) {
		struct lw_live_seen *seen = &rank->seen[at % LW_LIVE_READIES];

		if (seen->object == key)
			return seen;
		if (seen->object)
			continue;
		if (!may_add)
			return NULL;
		*seen = (struct lw_live_seen){.object = key};
		rank->n_seen++;
		return seen;
	}
}

void lw_live_see_ready(struct lw_live_model *model, struct lw_live_rank *rank, uint64_t object,
	int64_t name_id, int64_t at_ns)
{
	uint64_t key = key_of(object, name_id);
	struct lw_live_seen *seen;

	note_time(model, rank, at_ns);
	if (!key)
		return;
	rank->has_ready = true;
	seen = find_seen(rank, key, true);
	rank->readies[rank->n_readies % LW_LIVE_READIES] =
		(struct lw_live_ready){.object = key, .at_ns = at_ns, .before = seen->newest};
	seen->newest = ++rank->n_readies;
}

/* The newest ready time of @key up to @at_ns; 0 = not known. */
static int64_t ready_before(struct lw_live_rank *rank, uint64_t key, int64_t at_ns)
{
	const struct lw_live_seen *seen = key ? find_seen(rank, key, false) : NULL;
	uint64_t number = seen ? seen->newest : 0;

	while (number && rank->n_readies - number < LW_LIVE_READIES) {
		const struct lw_live_ready *ready = &rank->readies[(number - 1) % LW_LIVE_READIES];

		if (ready->object != key)
			return 0;
		if (ready->at_ns <= at_ns)
			return ready->at_ns;
		number = ready->before;
	}
	return 0;
}

void lw_live_see_resume(struct lw_live_model *model, struct lw_live_rank *rank, int64_t at_ns)
{
	model->has_waits = true;
	note_at(rank->resumes_ns, LW_LIVE_RESUMES, &rank->n_resumes, at_ns);
}

/* When it had last resumed by @at_ns; 0 = not known. */
static int64_t resumed_before(const struct lw_live_rank *rank, int64_t at_ns)
{
	uint64_t n = rank->n_resumes;

	for (uint64_t i = n; i-- > 0 && n - i <= LW_LIVE_RESUMES;)
		if (rank->resumes_ns[i % LW_LIVE_RESUMES] <= at_ns)
			return rank->resumes_ns[i % LW_LIVE_RESUMES];
	return 0;
}

/* ---- members, operations and waits ---------------------------------------------------------------- */

int lw_live_see_member(
	struct lw_live_model *model, struct lw_live_rank *rank, const struct lw_live_member *member)
{
	int64_t ready_ns =
		ready_before(rank, key_of(member->object, member->name_id), member->at_ns);

	note_time(model, rank, member->at_ns);
	if (ready_ns)
		lw_live_note_ready(model, rank, member->serial, member->name_id,
			resumed_before(rank, ready_ns), ready_ns);
	return see_name(rank, member);
}

static void note_end(struct lw_live_model *model, struct lw_live_rank *rank, int64_t end_ns)
{
	struct lw_live_slot *slot = lw_live_slot_of(rank, end_ns);

	note_time(model, rank, end_ns);
	rank->n_ops++;
	if (slot)
		slot->n_ops++;
	rank->ends_ns[rank->n_ends++ % LW_LIVE_ENDS] = end_ns;
}

void lw_live_see_batch(struct lw_live_model *model, struct lw_live_rank *rank, int64_t serial,
	int64_t end_ns, int64_t process_set)
{
	model->has_batches = true;
	note_end(model, rank, end_ns);
	if (process_set <= 0) /* of all ranks; serials of others differ between ranks */
		lw_live_end_operation(model, serial);
}

void lw_live_see_collective(struct lw_live_model *model, struct lw_live_rank *rank,
	int64_t start_ns, int64_t end_ns, bool is_nonblocking, bool is_world)
{
	int64_t before_ns = rank->n_ends ? rank->ends_ns[(rank->n_ends - 1) % LW_LIVE_ENDS] : 0;

	note_end(model, rank, end_ns);
	if (is_nonblocking)
		rank->is_exposed_unknown = true;
	else
		add_blocked(rank, start_ns, end_ns);
	if (model->ops_per_step && rank->n_ops % model->ops_per_step == 0)
		end_step(rank, end_ns);
	if (!is_world || model->is_partial)
		return;
	rank->n_world_ops++;
	lw_live_note_ready(model, rank, (int64_t)rank->n_world_ops, 0,
		before_ns < start_ns ? before_ns : start_ns, start_ns);
	lw_live_end_operation(model, (int64_t)rank->n_world_ops);
}

void lw_live_see_wait(
	struct lw_live_model *model, struct lw_live_rank *rank, int64_t start_ns, int64_t end_ns)
{
	uint64_t n = rank->n_ends < LW_LIVE_ENDS ? rank->n_ends : LW_LIVE_ENDS;
	int64_t last_ns = end_ns;

	note_time(model, rank, end_ns);
	model->has_waits = rank->has_waits = true;
	for (uint64_t i = 0; i < n; i++) {
		int64_t at_ns = rank->ends_ns[(rank->n_ends - 1 - i) % LW_LIVE_ENDS];

		if (at_ns <= start_ns)
			break;
		if (at_ns > end_ns)
			continue;
		last_ns = at_ns; /* the rest of the wait is idle: the poll notices it late */
		break;
	}
	add_blocked(rank, start_ns, last_ns);
}

void lw_live_set_period(struct lw_live_model *model, uint32_t ops_per_step)
{
	if (model->ops_per_step == ops_per_step)
		return;
	model->ops_per_step = ops_per_step;
	lw_live_forget_late(model);
}

/* ---- traffic ------------------------------------------------------------------------------------------------ */

/* @bytes over the time since the sample before, by slots. */
static void spread(struct lw_live_rank *rank, int64_t from_ns, int64_t to_ns, double sent_bytes,
	double received_bytes)
{
	int64_t first = from_ns / LW_LIVE_SLOT_NS + 1, last = to_ns / LW_LIVE_SLOT_NS;
	double n;

	if (first > last)
		first = last;
	if (last - first >= LW_LIVE_SLOTS)
		first = last - LW_LIVE_SLOTS + 1;
	n = (double)(last - first + 1);
	for (int64_t i = first; i <= last; i++) {
		struct lw_live_slot *slot = slot_at(rank, i);

		if (!slot)
			continue;
		slot->sent_bytes += sent_bytes / n;
		slot->received_bytes += received_bytes / n;
	}
}

int lw_live_see_traffic(struct lw_live_model *model, struct lw_live_rank *rank, int64_t socket,
	int64_t at_ns, int64_t sent_bytes, int64_t received_bytes)
{
	static const struct lw_live_socket none = {0};
	struct lw_live_socket now = {at_ns, sent_bytes > 0 ? (uint64_t)sent_bytes : 0,
		received_bytes > 0 ? (uint64_t)received_bytes : 0, true};
	struct lw_live_socket *before;

	if (socket < 0 || socket > MAX_SOCKETS || at_ns <= 0)
		return LW_OK;
	while (rank->sockets.n <= (size_t)socket)
		if (lw_vec_push(&rank->sockets, none) < 0)
			return LW_ERR_NOMEM;
	before = &rank->sockets.at[socket];
	rank->has_traffic = true;
	note_time(model, rank, at_ns);
	/* Of a connection that is older than this screen, what came before is another time's. */
	if (before->is_known || !model->is_partial)
		spread(rank, before->is_known ? before->at_ns : at_ns, at_ns,
			now.sent_bytes > before->sent_bytes
				? (double)(now.sent_bytes - before->sent_bytes)
				: 0,
			now.received_bytes > before->received_bytes
				? (double)(now.received_bytes - before->received_bytes)
				: 0);
	*before = now;
	return LW_OK;
}
