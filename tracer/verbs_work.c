/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verbs_work.c - work requests on their way from the hooks to their queue pair: the flag and the inbox.
 * What is done with them there is in verbs_match.c.
 */
#include "tracer/verbs_match.h"

enum {
	MAX_ACTS = 256, /* messages of others that one look at an inbox acts on */
	MAX_ROUNDS = 4  /* such looks of one call */
};

/* A failed completion does not say of which queue it is: the wr_id has to. */
static bool is_of_sends(struct lw_qp *qp, const struct lw_work *done)
{
	struct lw_work_list *sends = &qp->lists[LW_QUEUE_SEND];
	uint32_t send, receive;

	if (done->queue != LW_QUEUE_UNKNOWN)
		return done->queue == LW_QUEUE_SEND;
	send = lw_work_find(qp, sends, done->wr_id, true);
	receive = lw_works_first(qp, &qp->lists[LW_QUEUE_RECV]);
	if (receive && work_at(receive)->wr_id == done->wr_id) /* of both: the oldest send, then */
		return send && send == lw_works_first(qp, sends);
	return send || (!receive && !qp->srq);
}

static void leave_message(struct lw_qp *qp, const struct lw_work *message);

static void complete(struct lw_qp *qp, const struct lw_work *done)
{
	struct lw_work received = *done;
	struct lw_qp *shared;
	bool is_in;

	if (qp->serial && done->owner != qp->serial) { /* polled when its queue pair had ended */
		lw_verbs_lose(LW_LOSS_UNSEEN, 1);
		return;
	}
	if (is_of_sends(qp, done)) {
		lw_send_completed(qp, done);
		return;
	}
	received.queue = LW_QUEUE_RECV;
	shared = qp->srq ? lw_qp_find(qp->srq, LW_SRQ_NUMBER) : NULL;
	if (!shared) {
		lw_receive_completed(qp, &received);
		return;
	}
	is_in = lw_qp_enter(shared);
	if (is_in)
		lw_receive_completed(shared, &received);
	else
		leave_message(shared, &received);
	lw_qp_leave(shared, is_in);
}

/* ---- messages -------------------------------------------------------------------------------------- */

static void reset(struct lw_qp *qp)
{
	lw_works_end(qp);
	lw_works_drop(qp, &qp->lists[LW_QUEUE_RECV]);
	atomic_store_explicit(&qp->n_untracked[LW_QUEUE_SEND], 0, memory_order_relaxed);
	atomic_store_explicit(&qp->n_untracked[LW_QUEUE_RECV], 0, memory_order_relaxed);
}

static void end(struct lw_qp *qp)
{
	uint32_t n_unused =
		lw_works_count(qp, &qp->lists[LW_QUEUE_RECV]) +
		atomic_load_explicit(&qp->n_untracked[LW_QUEUE_RECV], memory_order_relaxed);

	reset(qp);
	lw_batch_drop(qp);
	if (qp->serial)
		lw_qp_record(qp, LW_RDMA_QP_ENDED, NULL, n_unused);
	while (qp->free)
		lw_work_give_any(lw_work_take(qp));
	atomic_store_explicit(&qp->context, 0, memory_order_relaxed);
	/* Whoever takes it now leaves messages until this thread gives the flag back. */
	lw_qp_free(qp);
}

/* Return: @index is not part of a list now. */
static bool act(struct lw_qp *qp, uint32_t index)
{
	struct lw_work *work = work_at(index);

	switch ((enum lw_work_kind)work->kind) {
	case LW_WORK_POST:
		if (lw_work_is_refused(work))
			break;
		lw_work_append(&qp->lists[work->queue], index);
		return false;
	case LW_WORK_COMPLETE:
		complete(qp, work);
		break;
	case LW_WORK_RESET:
		reset(qp);
		break;
	case LW_WORK_END:
		end(qp);
		break;
	}
	return true;
}

/* Return: all was acted on; else more came than one call may be kept with. */
static bool read_inbox(struct lw_qp *qp)
{
	uint32_t index = atomic_exchange(&qp->inbox, 0), first = 0, next;
	int n_acts = 0;

	for (; index; index = next) { /* oldest first */
		next = next_of(work_at(index));
		set_next(work_at(index), first);
		first = index;
	}
	for (; first; first = next) {
		next = next_of(work_at(first));
		lw_work_append(&qp->pending, first);
	}
	while (qp->pending.first && n_acts++ < MAX_ACTS) {
		first = qp->pending.first;
		lw_work_take_out(&qp->pending, first);
		if (act(qp, first))
			lw_work_give_any(first);
	}
	return !qp->pending.first;
}

static void push(struct lw_qp *qp, uint32_t index)
{
	uint32_t top = atomic_load_explicit(&qp->inbox, memory_order_relaxed);

	do {
		set_next(work_at(index), top);
	} while (!atomic_compare_exchange_weak(&qp->inbox, &top, index));
}

static void copy(struct lw_work *to, const struct lw_work *from)
{
	uint32_t next = next_of(to);

	/* field by field: others may just be reading the link (take_from_pool) or the tag (refuse) */
	to->kind = from->kind;
	to->queue = from->queue;
	to->op = from->op;
	to->flags = from->flags;
	to->n_sge = from->n_sge;
	to->status = from->status;
	to->peer_number = from->peer_number;
	to->owner = from->owner;
	to->wr_id = from->wr_id;
	to->bytes = from->bytes;
	to->at_ns = from->at_ns;
	to->is_passed = false;
	atomic_store_explicit(&to->tag, 0, memory_order_relaxed);
	set_next(to, next);
}

static void leave_message(struct lw_qp *qp, const struct lw_work *message)
{
	uint32_t index = lw_work_take_any();

	if (!index) {
		lw_verbs_lose(LW_LOSS_TABLE_FULL, 1);
		return;
	}
	copy(work_at(index), message);
	push(qp, index);
}

/* ---- the flag -------------------------------------------------------------------------------------- */

/*
 * The exchange of the flag and the looks at the inbox are in one order for all threads (seq_cst): who
 * leaves a message either gets the flag, or its holder sees the message after giving the flag back.
 */
bool lw_qp_enter(struct lw_qp *qp)
{
	if (atomic_load_explicit(&qp->is_held, memory_order_relaxed) ||
		atomic_exchange(&qp->is_held, 1))
		return false;
	if (LW_UNLIKELY(
		    qp->pending.first || atomic_load_explicit(&qp->inbox, memory_order_relaxed)) &&
		!read_inbox(qp)) {
		atomic_exchange(&qp->is_held, 0); /* its own comes after what is still pending */
		return false;
	}
	return true;
}

void lw_qp_leave(struct lw_qp *qp, bool is_in)
{
	bool is_done = true;

	for (int round = 0; round < MAX_ROUNDS && is_done; round++) {
		if (is_in)
			atomic_exchange(&qp->is_held, 0);
		if (!atomic_load(&qp->inbox) || atomic_exchange(&qp->is_held, 1))
			return;
		is_in = true;
		is_done = read_inbox(qp);
	}
	atomic_exchange(&qp->is_held, 0); /* the next call goes on with it */
}

/* ---- what the hooks call --------------------------------------------------------------------------- */

static void set_post(struct lw_work *work, uint32_t index, struct lw_post *post)
{
	work->kind = LW_WORK_POST;
	work->owner = lw_work_own_key();
	work->at_ns = post->at_ns;
	atomic_store_explicit(&work->sibling, post->last, memory_order_relaxed);
	atomic_store_explicit(&work->tag, lw_work_tag(post), memory_order_relaxed);
	post->last = index;
}

/* Will it have a completion of its own? */
static bool is_awaited(const struct lw_qp *qp, bool is_signalled)
{
	return is_signalled ||
	       atomic_load_explicit(&qp->flags, memory_order_relaxed) & LW_RDMA_QP_SIGNAL_ALL;
}

void lw_works_untracked(struct lw_qp *qp, enum lw_queue queue, uint32_t n, uint32_t n_awaited)
{
	if (!n)
		return;
	lw_verbs_lose(LW_LOSS_TABLE_FULL, n);
	atomic_fetch_add_explicit(&qp->n_untracked[queue],
		queue == LW_QUEUE_SEND && is_awaited(qp, false) ? n : n_awaited,
		memory_order_relaxed);
}

void lw_work_post(struct lw_qp *qp, bool is_in, const struct lw_work *work, struct lw_post *post)
{
	uint32_t index = is_in ? lw_work_take(qp) : lw_work_take_any();

	if (LW_UNLIKELY(!index)) { /* its completion will find nothing, and that is expected */
		uint32_t n_awaited = is_awaited(qp, !(work->flags & LW_RDMA_UNSIGNALLED));

		atomic_fetch_add_explicit(
			&qp->n_untracked[work->queue], n_awaited, memory_order_relaxed);
		post->n_untracked++;
		post->n_awaited += n_awaited;
		return;
	}
	copy(work_at(index), work);
	set_post(work_at(index), index, post);
	if (is_in)
		lw_work_append(&qp->lists[work->queue], index);
	else
		push(qp, index);
}

void lw_post_begin(struct lw_post *post)
{
	*post = (struct lw_post){.at_ns = lw_now_ns()};
	atomic_store_explicit(
		lw_work_open_post(lw_work_own_key()), post->at_ns, memory_order_relaxed);
}

/* In place, wherever they are by now: a refused post must not need memory of its own to be taken back. */
static void refuse(const struct lw_post *post, uint32_t n)
{
	for (uint32_t at = post->last, sibling; at && n--; at = sibling) {
		uint64_t tag = lw_work_tag(post);

		sibling = atomic_load_explicit(&work_at(at)->sibling, memory_order_relaxed);
		if (!atomic_compare_exchange_strong(&work_at(at)->tag, &tag, LW_WORK_REFUSED))
			return; /* a poll returned what was refused, and it is something else now */
	}
}

void lw_post_end(
	struct lw_qp *qp, enum lw_queue queue, const struct lw_post *post, uint32_t n_refused)
{
	/* the pool was empty in the end, so those without a work are among the last ones */
	uint32_t n = n_refused < post->n_untracked ? n_refused : post->n_untracked;

	if (LW_UNLIKELY(post->n_untracked > n))
		lw_verbs_lose(LW_LOSS_TABLE_FULL, post->n_untracked - n);
	if (LW_UNLIKELY(n_refused)) {
		bool is_in;

		atomic_fetch_sub_explicit(&qp->n_untracked[queue],
			n < post->n_awaited ? n : post->n_awaited, memory_order_relaxed);
		refuse(post, n_refused - n);
		is_in = lw_qp_enter(qp);
		if (is_in)
			lw_works_drop_refused(qp, &qp->lists[queue]);
		lw_qp_leave(qp, is_in);
	}
	atomic_store_explicit(lw_work_open_post(lw_work_own_key()), 0, memory_order_release);
}

static enum lw_queue queue_of(const struct lw_qp *qp, const struct lw_completion *completion)
{
	if (completion->queue != LW_QUEUE_UNKNOWN || qp->send_cq == qp->recv_cq)
		return completion->queue;
	return completion->cq == qp->send_cq   ? LW_QUEUE_SEND
	       : completion->cq == qp->recv_cq ? LW_QUEUE_RECV
					       : LW_QUEUE_UNKNOWN;
}

void lw_work_complete(struct lw_qp *qp, const struct lw_completion *completion)
{
	struct lw_work done = {.kind = LW_WORK_COMPLETE,
		.op = completion->op,
		.flags = completion->flags,
		.status = completion->status,
		.peer_number = completion->peer_number,
		.wr_id = completion->wr_id,
		.bytes = completion->bytes,
		.at_ns = completion->at_ns};
	bool is_in;

	if (!qp) {
		lw_verbs_lose(LW_LOSS_UNSEEN, 1);
		if (completion->queue == LW_QUEUE_RECV)
			lw_work_record(0, &done, done.status, LW_RDMA_UNTIMED, done.at_ns);
		return;
	}
	done.queue = (uint8_t)queue_of(qp, completion);
	done.owner = qp->serial;
	is_in = lw_qp_enter(qp);
	if (is_in)
		complete(qp, &done);
	else
		leave_message(qp, &done);
	lw_qp_leave(qp, is_in);
}

void lw_qp_tell(struct lw_qp *qp, enum lw_work_kind kind)
{
	const struct lw_work message = {.kind = (uint8_t)kind};
	bool is_in = lw_qp_enter(qp);

	if (!is_in)
		leave_message(qp, &message);
	else if (kind == LW_WORK_RESET)
		reset(qp);
	else
		end(qp);
	lw_qp_leave(qp, is_in);
}

void lw_qp_flush(struct lw_qp *qp)
{
	bool is_in = false;

	for (int i = 0; !is_in && i < LW_WORKS_MAX / MAX_ACTS; i++) /* until nothing is pending */
		is_in = lw_qp_enter(qp);
	if (is_in)
		lw_works_end(qp);
	else if (qp->lists[LW_QUEUE_SEND].n) /* a thread that no longer runs was just here */
		lw_loss(LW_LOSS_UNENDED, qp->lists[LW_QUEUE_SEND].n, "rdma work requests");
	lw_qp_leave(qp, is_in);
}

/* ---- batches: ibv_wr_start() to ibv_wr_complete() -------------------------------------------------- */

struct lw_work *lw_batch_add(struct lw_qp *qp, bool is_signalled)
{
	static const struct lw_work none;
	uint32_t index = lw_work_take_any();

	qp->batch.is_last_untracked = !index;
	if (!index) {
		qp->batch.n_untracked++;
		qp->batch.n_awaited += is_awaited(qp, is_signalled);
		return NULL;
	}
	copy(work_at(index), &none);
	lw_work_append(&qp->batch.list, index);
	return work_at(index);
}

struct lw_work *lw_batch_last(struct lw_qp *qp)
{
	uint32_t last = qp->batch.is_last_untracked ? 0 : qp->batch.list.last;

	return last ? work_at(last) : NULL;
}

void lw_batch_post(struct lw_qp *qp, struct lw_post *post)
{
	bool is_in = lw_qp_enter(qp);

	for (uint32_t at = qp->batch.list.first, next; at; at = next) {
		struct lw_work *work = work_at(at);

		next = next_of(work);
		work->queue = LW_QUEUE_SEND;
		set_post(work, at, post);
		if (is_in)
			lw_work_append(&qp->lists[LW_QUEUE_SEND], at);
		else
			push(qp, at);
	}
	post->n_untracked = qp->batch.n_untracked;
	post->n_awaited = qp->batch.n_awaited;
	atomic_fetch_add_explicit(
		&qp->n_untracked[LW_QUEUE_SEND], post->n_awaited, memory_order_relaxed);
	qp->batch = (struct lw_batch){0};
	lw_qp_leave(qp, is_in);
}

void lw_batch_drop(struct lw_qp *qp)
{
	for (uint32_t at = qp->batch.list.first, next; at; at = next) {
		next = next_of(work_at(at));
		lw_work_give_any(at);
	}
	qp->batch = (struct lw_batch){0};
}
