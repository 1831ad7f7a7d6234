/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nccl_op.c - NCCL's operations from begin to record; see nccl.h, and nccl_pool.h for how a place is shared.
 *
 * Writes: NCCL_OP records. An operation is complete when its task was enqueued, all parts that were seen have
 * ended, and a newer operation of its communicator has had a part that ended: a communicator's operations run in
 * order, so no part of this one can still come. It is written then; else when its place is needed, its
 * communicator ends, or the process does.
 */
#include "tracer/nccl_pool.h"

enum { SWEEP_AT_ONCE = 4, TRIES = 8, SETTLED_MAX = 256 };
static const int64_t SWEEP_AGE_NS = INT64_C(2000000000);

struct lw_nccl_place lw_nccl_places[LW_NCCL_OPS_MAX];
_Atomic uint64_t lw_nccl_n_serials;

/* ---- records ------------------------------------------------------------------------------------------ */

static int64_t later(int64_t a_ns, int64_t b_ns)
{
	return a_ns > b_ns ? a_ns : b_ns;
}

/* Of an operation that is LW_OP_WRITING; @before: what its word was. */
static void record(struct lw_nccl_place *op, uint64_t before)
{
	const struct lw_nccl_facts *facts = &op->facts;
	struct lw_event event = {.kind = LW_EV_NCCL_OP, .op = facts->op};
	uint16_t flags = facts->flags | (uint16_t)atomic_load(&op->flags);
	struct lw_nccl_comm *comm = atomic_load(&op->comm);

	if (!atomic_load(&op->n_parts))
		flags |= LW_NCCL_UNTIMED;
	if (lw_nccl_word_state(before) == LW_OP_STARTED &&
		(lw_nccl_word_parts(before) || atomic_load(&op->n_tasks)))
		flags |= LW_NCCL_UNFINISHED;
	event.t0_ns = facts->t0_ns;
	/* the thread that enqueued it may come back later than its proxies were done */
	event.t1_ns = atomic_load(&op->ended_ns);
	if (!event.t1_ns || flags & LW_NCCL_UNFINISHED)
		event.t1_ns = later(event.t1_ns, atomic_load(&op->returned_ns));
	if (event.t1_ns < event.t0_ns)
		event.t1_ns = event.t0_ns;
	event.nccl_op.comm = comm ? atomic_load(&comm->key) : 0;
	event.nccl_op.serial = lw_nccl_word_serial(before);
	event.nccl_op.bytes = facts->bytes;
	event.nccl_op.peer = facts->peer;
	event.nccl_op.group = facts->group && lw_nccl_group_is_told(facts) ? facts->group : 0;
	event.nccl_op.algorithm = facts->algorithm;
	event.nccl_op.protocol = facts->protocol;
	event.nccl_op.n_channels = facts->n_channels;
	event.nccl_op.dtype = facts->dtype;
	event.nccl_op.flags = flags;
	event.nccl_op.source = facts->source;
	if (comm && !atomic_load_explicit(&comm->is_announced, memory_order_relaxed))
		lw_nccl_comm_announce(comm);
	lw_record(&event);
}

/* @word: what the place holds. Return: false = it holds another one now. */
bool lw_nccl_write_out(struct lw_nccl_place *op, uint64_t word)
{
	if (!atomic_compare_exchange_strong(
		    &op->word, &word, lw_nccl_word(lw_nccl_word_serial(word), LW_OP_WRITING)))
		return false;
	record(op, word);
	atomic_store(&op->word, lw_nccl_word(lw_nccl_word_serial(word), LW_OP_FREE));
	return true;
}

/* Writes a started operation that nothing works for any more. */
static void write_if_idle(struct lw_nccl_place *op, uint64_t serial)
{
	uint64_t word = atomic_load(&op->word);

	if (word == lw_nccl_word(serial, LW_OP_STARTED) && !atomic_load(&op->n_tasks))
		lw_nccl_write_out(op, word);
}

/* No part of it can come any more. */
static void due(uint64_t serial)
{
	struct lw_nccl_place *op = lw_nccl_place(serial);

	if (lw_nccl_word_serial(atomic_load(&op->word)) != serial)
		return;
	atomic_store(&op->is_due, true);
	write_if_idle(op, serial);
}

/*
 * What was enqueued long ago, and has nothing that could tell of its completion, need not wait until its place is
 * needed: a stream of work that long is rare. Return: false = nothing newer is that old either.
 */
static bool sweep_started(uint64_t serial, int64_t now_ns)
{
	struct lw_nccl_place *op = lw_nccl_place(serial);
	struct lw_nccl_comm *comm = atomic_load(&op->comm);
	uint64_t word = atomic_load(&op->word);

	if (word != lw_nccl_word(serial, LW_OP_STARTED) || atomic_load(&op->n_tasks) ||
		atomic_load(&op->n_parts) || (comm && atomic_load(&comm->has_network)))
		return true;
	if (now_ns - atomic_load(&op->returned_ns) < SWEEP_AGE_NS)
		return false;
	lw_nccl_write_out(op, word);
	return true;
}

static void sweep(uint64_t newest, int64_t now_ns)
{
	static _Atomic uint64_t next = 1;
	uint64_t serial = atomic_load_explicit(&next, memory_order_relaxed);

	for (int i = 0; i < SWEEP_AT_ONCE && serial < newest; i++) {
		if (!sweep_started(serial, now_ns))
			return;
		if (!atomic_compare_exchange_strong(&next, &serial, serial + 1))
			return; /* another thread sweeps */
		serial++;
	}
}

static void sweep_called(uint64_t serial)
{
	uint64_t word = atomic_load(&lw_nccl_place(serial)->word);

	if (word == lw_nccl_word(serial, LW_OP_CALLED))
		lw_nccl_write_out(lw_nccl_place(serial), word);
}

/* A place, LW_OP_FILLING, with what held it written. Return: NULL = other threads were at work in all that were tried. */
static struct lw_nccl_place *take_place(int64_t now_ns, uint64_t *ret_serial)
{
	for (int tried = 0; tried < TRIES; tried++) {
		uint64_t serial =
			atomic_fetch_add_explicit(&lw_nccl_n_serials, 1, memory_order_relaxed) + 1;
		struct lw_nccl_place *op = lw_nccl_place(serial);
		uint64_t word = atomic_load(&op->word);

		sweep(serial, now_ns);
		if (serial > LW_NCCL_OPS_MAX / 2)
			sweep_called(serial - LW_NCCL_OPS_MAX / 2);
		if (lw_nccl_word_state(word) == LW_OP_CALLED ||
			lw_nccl_word_state(word) == LW_OP_STARTED) {
			lw_nccl_write_out(op, word);
			word = atomic_load(&op->word);
		}
		if (lw_nccl_word_state(word) == LW_OP_FREE &&
			atomic_compare_exchange_strong(
				&op->word, &word, lw_nccl_word(serial, LW_OP_FILLING))) {
			*ret_serial = serial;
			return op;
		}
	}
	lw_loss(LW_LOSS_TABLE_FULL, 1, "nccl operations");
	return NULL;
}

static bool is_composite(uint16_t op)
{
	return op == LW_NCCL_ALLTOALL || op == LW_NCCL_GATHER || op == LW_NCCL_SCATTER;
}

/* Return: its serial, 0 = dropped. */
uint64_t lw_nccl_begin(const struct lw_nccl_facts *facts, enum lw_nccl_state_of_op state)
{
	uint64_t serial;
	struct lw_nccl_place *op = take_place(facts->t0_ns, &serial);

	if (!op)
		return 0;
	op->facts = *facts;
	atomic_store_explicit(&op->is_composite, state == LW_OP_CALLED && is_composite(facts->op),
		memory_order_relaxed);
	atomic_store_explicit(&op->group, facts->group, memory_order_relaxed);
	atomic_store_explicit(&op->comm, facts->comm, memory_order_relaxed);
	atomic_store_explicit(&op->returned_ns, facts->t0_ns, memory_order_relaxed);
	atomic_store_explicit(&op->ended_ns, 0, memory_order_relaxed);
	atomic_store_explicit(&op->n_parts, 0, memory_order_relaxed);
	atomic_store_explicit(&op->n_tasks, state == LW_OP_STARTED, memory_order_relaxed);
	atomic_store_explicit(&op->flags, 0, memory_order_relaxed);
	atomic_store_explicit(&op->is_due, false, memory_order_relaxed);
	if (facts->group)
		lw_nccl_group_join(facts->group, serial);
	/* pairs with the swaps that take it out of this state: its facts are whole then */
	atomic_store_explicit(&op->word, lw_nccl_word(serial, state), memory_order_release);
	return serial;
}

void lw_nccl_raise_time(_Atomic int64_t *time_ns, int64_t to_ns)
{
	int64_t old_ns = atomic_load_explicit(time_ns, memory_order_relaxed);

	while (to_ns > old_ns && !atomic_compare_exchange_weak(time_ns, &old_ns, to_ns))
		;
}

void lw_nccl_ops_flush(const struct lw_nccl_comm *comm)
{
	uint64_t newest = atomic_load(&lw_nccl_n_serials);
	uint64_t first = newest > LW_NCCL_OPS_MAX ? newest - LW_NCCL_OPS_MAX + 1 : 1;

	for (uint64_t serial = first; serial <= newest; serial++) {
		struct lw_nccl_place *op = lw_nccl_place(serial);
		uint64_t word = atomic_load(&op->word);

		if ((lw_nccl_word_state(word) == LW_OP_CALLED ||
			    lw_nccl_word_state(word) == LW_OP_STARTED) &&
			(!comm || atomic_load(&op->comm) == comm))
			lw_nccl_write_out(op, word);
	}
}

/* ---- what the plugin tells ---------------------------------------------------------------------------- */

/* A call becomes an operation of the plugin's: it knows how it is done, the call knows what was asked for. */
static void take_over(struct lw_nccl_place *op, const struct lw_nccl_facts *facts)
{
	op->facts.algorithm = facts->algorithm;
	op->facts.protocol = facts->protocol;
	op->facts.n_channels = facts->n_channels;
	op->facts.source = LW_NCCL_FROM_PLUGIN;
	if (!op->facts.comm) {
		op->facts.comm = facts->comm;
		atomic_store(&op->comm, facts->comm);
	}
	if (op->facts.flags & ~facts->flags & LW_NCCL_NO_BYTES && op->facts.op == facts->op) {
		op->facts.bytes = facts->bytes;
		op->facts.flags &= (uint16_t)~LW_NCCL_NO_BYTES;
	}
	if (op->facts.peer < 0 && op->facts.op == facts->op)
		op->facts.peer = facts->peer;
	if (!op->facts.group) {
		op->facts.group = facts->group;
		op->facts.is_plan = facts->is_plan;
		atomic_store(&op->group, facts->group);
	}
}

static bool is_of_call(
	const struct lw_nccl_place *op, const struct lw_nccl_facts *facts, bool is_exact)
{
	const struct lw_nccl_facts *call = &op->facts;

	if (atomic_load(&op->is_composite))
		return facts->op == LW_NCCL_SEND || facts->op == LW_NCCL_RECV;
	if (call->op != facts->op)
		return false;
	if (!is_exact)
		return true;
	return (call->bytes == facts->bytes || call->flags & LW_NCCL_NO_BYTES) &&
	       (call->peer == facts->peer || call->peer < 0 || facts->peer < 0);
}

/* Another task of a composite call that the plugin has already. */
static bool add_task(struct lw_nccl_place *op, uint64_t serial)
{
	uint64_t word = atomic_load(&op->word);

	if (lw_nccl_word_serial(word) != serial || lw_nccl_word_state(word) != LW_OP_STARTED ||
		!atomic_load(&op->is_composite))
		return false;
	atomic_fetch_add(&op->n_tasks, 1);
	return true;
}

/* Return: true = @serial is this task's operation now. */
static bool take_call(uint64_t serial, const struct lw_nccl_facts *facts, bool is_exact)
{
	struct lw_nccl_place *op = lw_nccl_place(serial);
	uint64_t called = lw_nccl_word(serial, LW_OP_CALLED);
	bool is_taken;

	if (!serial)
		return false;
	if (!atomic_compare_exchange_strong(
		    &op->word, &called, lw_nccl_word(serial, LW_OP_FILLING)))
		return add_task(op, serial);
	is_taken = is_of_call(op, facts, is_exact);
	if (is_taken) {
		take_over(op, facts);
		atomic_store(&op->n_tasks, 1);
	}
	atomic_store(&op->word, lw_nccl_word(serial, is_taken ? LW_OP_STARTED : LW_OP_CALLED));
	if (is_taken && facts->group && op->facts.group == facts->group)
		lw_nccl_group_join(facts->group, serial);
	return is_taken;
}

/* Can a call with this serial still be there, or come? */
static bool is_past(uint64_t serial)
{
	uint64_t word = atomic_load(&lw_nccl_place(serial)->word);

	return lw_nccl_word_serial(word) > serial ||
	       (lw_nccl_word_serial(word) == serial && lw_nccl_word_state(word) != LW_OP_CALLED &&
		       lw_nccl_word_state(word) != LW_OP_FILLING);
}

/* For tasks that do not say which call they are of: the oldest that looks like it. Return: its serial, 0 = none. */
static uint64_t find_call(const struct lw_nccl_facts *facts)
{
	static _Atomic uint64_t first = 1; /* of those that were not taken yet */
	uint64_t newest = atomic_load(&lw_nccl_n_serials), serial = atomic_load(&first);

	while (serial <= newest && is_past(serial))
		serial++;
	atomic_store_explicit(&first, serial, memory_order_relaxed);
	for (; serial <= newest; serial++) {
		struct lw_nccl_place *op = lw_nccl_place(serial);

		if (atomic_load(&op->word) == lw_nccl_word(serial, LW_OP_CALLED) &&
			atomic_load(&op->comm) == facts->comm && take_call(serial, facts, true))
			return serial;
	}
	return 0;
}

uint64_t lw_nccl_op_start(uint64_t call, const struct lw_nccl_facts *facts)
{
	uint64_t serial = 0;

	if (lw_nccl_handle_kind(call) == LW_NCCL_HANDLE_CALL ||
		lw_nccl_handle_kind(call) == LW_NCCL_HANDLE_INSIDE) {
		if (take_call(lw_nccl_handle_value(call), facts, false))
			serial = lw_nccl_handle_value(call);
	} else if (facts->comm) {
		serial = find_call(facts);
	}
	if (!serial)
		serial = lw_nccl_begin(facts, LW_OP_STARTED);
	return serial ? lw_nccl_handle(LW_NCCL_HANDLE_OP, serial)
		      : lw_nccl_handle(LW_NCCL_HANDLE_NONE, 0);
}

bool lw_nccl_op_stop(uint64_t handle, int64_t now_ns)
{
	uint64_t serial = lw_nccl_handle_value(handle);
	struct lw_nccl_place *op = lw_nccl_place(serial);
	uint64_t word = atomic_load(&op->word);
	uint32_t n_tasks = atomic_load(&op->n_tasks);

	if (lw_nccl_handle_kind(handle) != LW_NCCL_HANDLE_OP ||
		lw_nccl_word_serial(word) != serial || lw_nccl_word_state(word) != LW_OP_STARTED)
		return false;
	lw_nccl_raise_time(&op->returned_ns, now_ns);
	while (n_tasks && !atomic_compare_exchange_weak(&op->n_tasks, &n_tasks, n_tasks - 1))
		;
	if (atomic_load(&op->is_due))
		write_if_idle(op, serial);
	return n_tasks > 0;
}

bool lw_nccl_part_begin(uint64_t handle)
{
	uint64_t serial = lw_nccl_handle_value(handle);
	struct lw_nccl_place *op = lw_nccl_place(serial);
	uint64_t word = atomic_load(&op->word);
	struct lw_nccl_comm *comm;

	if (lw_nccl_handle_kind(handle) != LW_NCCL_HANDLE_OP)
		return false;
	do {
		if (lw_nccl_word_serial(word) != serial ||
			lw_nccl_word_state(word) != LW_OP_STARTED ||
			lw_nccl_word_parts(word) == LW_NCCL_PARTS_MAX)
			return false;
	} while (!atomic_compare_exchange_weak(&op->word, &word, word + (1 << 8)));
	atomic_fetch_add(&op->n_parts, 1);
	comm = atomic_load(&op->comm);
	if (comm && !atomic_load_explicit(&comm->has_network, memory_order_relaxed))
		atomic_store(&comm->has_network, true);
	return true;
}

static bool is_same_group(uint64_t a, uint64_t b)
{
	uint32_t group = atomic_load(&lw_nccl_place(a)->group);

	return group && group == atomic_load(&lw_nccl_place(b)->group);
}

/*
 * A part of @serial ended: what was begun before it on its communicator is over, as operations run in order there;
 * but those of one group run at once.
 */
static void runs_now(struct lw_nccl_comm *comm, struct lw_nccl_place *op, uint64_t serial)
{
	uint64_t newest = atomic_load(&comm->running), settled = atomic_load(&comm->settled);

	while (newest < serial && !atomic_compare_exchange_weak(&comm->running, &newest, serial))
		;
	if (newest > serial && !is_same_group(newest, serial))
		atomic_store(&op->is_due, true);
	if (serial - settled > SETTLED_MAX) /* the others wait until their place is needed */
		settled = settled < serial ? serial - SETTLED_MAX : serial;
	for (; settled < serial; settled++) {
		if (!settled || atomic_load(&lw_nccl_place(settled)->comm) != comm)
			continue;
		if (is_same_group(settled, serial))
			break;
		due(settled);
	}
	if (settled > atomic_load(&comm->settled))
		atomic_store(&comm->settled, settled);
}

void lw_nccl_part_end(uint64_t handle, int64_t now_ns)
{
	uint64_t serial = lw_nccl_handle_value(handle);
	struct lw_nccl_place *op = lw_nccl_place(serial);
	uint64_t word = atomic_load(&op->word);
	struct lw_nccl_comm *comm;

	if (lw_nccl_handle_kind(handle) != LW_NCCL_HANDLE_OP ||
		lw_nccl_word_serial(word) != serial || lw_nccl_word_state(word) != LW_OP_STARTED ||
		!lw_nccl_word_parts(word))
		return;
	lw_nccl_raise_time(&op->ended_ns, now_ns);
	comm = atomic_load(&op->comm);
	if (comm)
		runs_now(comm, op, serial);
	while (lw_nccl_word_serial(word) == serial && lw_nccl_word_state(word) == LW_OP_STARTED &&
		lw_nccl_word_parts(word) &&
		!atomic_compare_exchange_weak(&op->word, &word, word - (1 << 8)))
		;
	if (atomic_load(&op->is_due))
		write_if_idle(op, serial);
}
