/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verbs_match.c - which work request a completion means: RDMA_WORK records.
 *
 * A queue pair completes its sends in order, and its receives in order; but two threads may post, or
 * poll, and come here the other way round. So a completion is matched by the job's wr_id among the
 * oldest requests, and by order where that says nothing (all the same, or garbage). Whatever it says,
 * every request that was posted becomes one record, and every received message becomes one.
 */
#include "tracer/verbs_match.h"

enum {
	MAX_LOOK = 256, /* requests that a search for a wr_id passes */
	MAX_KEPT = 4    /* works that a queue pair keeps for its next posts */
};

/* ---- the pool -------------------------------------------------------------------------------------- */

/* Return: an index, 0 = none left. */
uint32_t lw_work_take_any(void)
{
	struct lw_verbs_tables *of = atomic_load_explicit(&lw_verbs_tables, memory_order_relaxed);
	uint64_t top = atomic_load_explicit(&of->free_works, memory_order_acquire);

	while ((uint32_t)top)
		if (atomic_compare_exchange_weak_explicit(&of->free_works, &top,
			    ((top >> 32) + 1) << 32 | next_of(&of->works[(uint32_t)top]),
			    memory_order_acquire, memory_order_acquire))
			return (uint32_t)top;
	if (atomic_load_explicit(&of->n_works, memory_order_relaxed) >= LW_WORKS_MAX - 1)
		return 0;
	top = atomic_fetch_add_explicit(&of->n_works, 1, memory_order_relaxed) + 1;
	return top < LW_WORKS_MAX ? (uint32_t)top : 0;
}

void lw_work_give_any(uint32_t index)
{
	struct lw_verbs_tables *of = atomic_load_explicit(&lw_verbs_tables, memory_order_relaxed);
	uint64_t top = atomic_load_explicit(&of->free_works, memory_order_relaxed);

	do {
		set_next(&of->works[index], (uint32_t)top);
	} while (!atomic_compare_exchange_weak_explicit(&of->free_works, &top,
		((top >> 32) + 1) << 32 | index, memory_order_release, memory_order_relaxed));
}

/* Two that the holder of the flag uses: most requests never leave their queue pair. */
uint32_t lw_work_take(struct lw_qp *qp)
{
	uint32_t index = qp->free;

	if (!index)
		return lw_work_take_any();
	qp->free = next_of(work_at(index));
	qp->n_free--;
	return index;
}

static void give(struct lw_qp *qp, uint32_t index)
{
	if (qp->n_free >= MAX_KEPT) {
		lw_work_give_any(index);
		return;
	}
	set_next(work_at(index), qp->free);
	qp->free = index;
	qp->n_free++;
}

/* ---- records --------------------------------------------------------------------------------------- */

void lw_work_record(uint32_t serial, const struct lw_work *work, uint16_t status, uint16_t flags,
	int64_t end_ns)
{
	struct lw_event event = {.kind = LW_EV_RDMA_WORK, .op = work->op};

	event.t0_ns = work->at_ns;
	event.t1_ns = end_ns > work->at_ns ? end_ns : work->at_ns;
	event.rdma_work.bytes = work->bytes;
	event.rdma_work.qp = serial;
	event.rdma_work.peer_number = work->peer_number;
	event.rdma_work.n_sge = work->n_sge;
	event.rdma_work.status = status;
	event.rdma_work.flags = work->flags | flags;
	lw_record(&event);
}

/* ---- lists: by the holder of the flag only --------------------------------------------------------- */

void lw_work_append(struct lw_work_list *list, uint32_t index)
{
	set_next(work_at(index), 0);
	work_at(index)->prev = list->last;
	if (list->last)
		set_next(work_at(list->last), index);
	else
		list->first = index;
	list->last = index;
	list->n++;
}

void lw_work_take_out(struct lw_work_list *list, uint32_t index)
{
	uint32_t next = next_of(work_at(index)), prev = work_at(index)->prev;

	if (prev)
		set_next(work_at(prev), next);
	else
		list->first = next;
	if (next)
		work_at(next)->prev = prev;
	else
		list->last = prev;
	list->n--;
}

void lw_works_drop(struct lw_qp *qp, struct lw_work_list *list)
{
	for (uint32_t index = list->first, next; index; index = next) {
		next = next_of(work_at(index));
		give(qp, index);
	}
	*list = (struct lw_work_list){0};
}

/* Of the end where they come in: there they are many when a job posts until its queue has room. */
void lw_works_drop_refused(struct lw_qp *qp, struct lw_work_list *list)
{
	while (list->last && lw_work_is_refused(work_at(list->last))) {
		uint32_t at = list->last;

		lw_work_take_out(list, at);
		give(qp, at);
	}
}

/*
 * @at, or the first behind it that the device took, 0 = none. Those that it did not take are dropped: they
 * are not at the end when another thread posted behind them.
 */
static uint32_t skip_refused(struct lw_qp *qp, struct lw_work_list *list, uint32_t at)
{
	while (at && lw_work_is_refused(work_at(at))) {
		uint32_t next = next_of(work_at(at));

		lw_work_take_out(list, at);
		give(qp, at);
		at = next;
	}
	return at;
}

uint32_t lw_works_first(struct lw_qp *qp, struct lw_work_list *list)
{
	return skip_refused(qp, list, list->first);
}

static uint32_t behind(struct lw_qp *qp, struct lw_work_list *list, uint32_t at)
{
	return skip_refused(qp, list, next_of(work_at(at)));
}

uint32_t lw_works_count(struct lw_qp *qp, struct lw_work_list *list)
{
	for (uint32_t at = lw_works_first(qp, list); at; at = behind(qp, list, at))
		;
	return list->n;
}

void lw_works_end(struct lw_qp *qp)
{
	int64_t now_ns = lw_now_ns();
	struct lw_work_list *sends = &qp->lists[LW_QUEUE_SEND];

	for (uint32_t at = lw_works_first(qp, sends); at; at = behind(qp, sends, at)) {
		struct lw_work *work = work_at(at);

		if (qp->is_signal_all)
			work->flags &= (uint16_t)~LW_RDMA_UNSIGNALLED;
		if (work->is_passed)
			lw_work_record(qp->serial, work, 0, 0, now_ns);
		else
			lw_work_record(
				qp->serial, work, LW_RDMA_NO_STATUS, LW_RDMA_UNFINISHED, now_ns);
	}
	lw_works_drop(qp, sends);
}

/* ---- sends complete -------------------------------------------------------------------------------- */

static inline bool is_signalled(const struct lw_qp *qp, const struct lw_work *work)
{
	return qp->is_signal_all || !(work->flags & LW_RDMA_UNSIGNALLED);
}

/*
 * The oldest with @wr_id, 0 = none. @is_any: those without a completion of their own too. One whose post
 * is still under way may have completed already, or may be refused: only if there is no other.
 */
uint32_t lw_work_find(struct lw_qp *qp, struct lw_work_list *list, uint64_t wr_id, bool is_any)
{
	uint32_t open_at = 0;
	int n_passed = 0;

	for (uint32_t at = lw_works_first(qp, list); at && n_passed < MAX_LOOK;
		at = behind(qp, list, at)) {
		const struct lw_work *work = work_at(at);
		bool is_own = is_signalled(qp, work);

		n_passed += is_own || is_any;
		if (work->wr_id != wr_id || (!is_own && !is_any))
			continue;
		if (!lw_work_is_open(work))
			return at;
		open_at = open_at ? open_at : at;
	}
	return open_at;
}

static uint32_t find_signalled(struct lw_qp *qp, struct lw_work_list *list)
{
	uint32_t at = lw_works_first(qp, list);

	while (at && !is_signalled(qp, work_at(at)))
		at = behind(qp, list, at);
	return at;
}

static bool is_untracked(struct lw_qp *qp, enum lw_queue queue)
{
	if (!atomic_load_explicit(&qp->n_untracked[queue], memory_order_relaxed))
		return false;
	atomic_fetch_sub_explicit(&qp->n_untracked[queue], 1, memory_order_relaxed);
	return true;
}

/* Which request does a completion of this queue mean? Return: 0 = none that was seen. */
static uint32_t match_send(struct lw_qp *qp, const struct lw_work *done)
{
	struct lw_work_list *list = &qp->lists[LW_QUEUE_SEND];
	bool has_failed = done->status != 0;
	uint32_t at = lw_work_find(qp, list, done->wr_id, has_failed);

	if (!at && !qp->is_signalling_known)
		at = lw_work_find(qp, list, done->wr_id, true);
	if (!at && is_untracked(qp, LW_QUEUE_SEND))
		return 0;
	if (!at)
		at = has_failed ? lw_works_first(qp, list) : find_signalled(qp, list);
	if (!at && !qp->is_signalling_known)
		at = lw_works_first(qp, list);
	/* It asked for no completion and yet one came: so all are signalled (sq_sig_all). */
	if (at && !has_failed && !is_signalled(qp, work_at(at))) {
		qp->is_signal_all = true;
		atomic_fetch_or_explicit(&qp->flags, LW_RDMA_QP_SIGNAL_ALL, memory_order_relaxed);
	}
	if (!at)
		lw_verbs_lose(LW_LOSS_UNSEEN, 1);
	return at;
}

/* IBV_WC_WR_FLUSH_ERR: those each have a completion, signalled or not. */
enum { STATUS_FLUSHED = 5 };

static bool is_same_post(const struct lw_work *a, const struct lw_work *b)
{
	return a->owner == b->owner && a->at_ns == b->at_ns;
}

void lw_send_completed(struct lw_qp *qp, const struct lw_work *done)
{
	struct lw_work_list *list = &qp->lists[LW_QUEUE_SEND];
	uint32_t done_at = match_send(qp, done), next;

	/* What asked for no completion and is older than this is done too. */
	for (uint32_t at = done_at ? list->first : 0; at != done_at; at = next) {
		struct lw_work *work = work_at(at);
		bool is_stale = lw_work_is_refused(work);

		next = next_of(work);
		if (!is_stale && (is_signalled(qp, work) || done->status == STATUS_FLUSHED))
			continue;
		if (!is_stale && lw_work_is_open(work) && !is_same_post(work, work_at(done_at))) {
			work->is_passed = true;
			continue;
		}
		if (!is_stale)
			lw_work_record(qp->serial, work, 0, 0, done->at_ns);
		lw_work_take_out(list, at);
		give(qp, at);
	}
	if (!done_at)
		return;
	if (qp->is_signal_all)
		work_at(done_at)->flags &= (uint16_t)~LW_RDMA_UNSIGNALLED;
	lw_work_record(qp->serial, work_at(done_at), done->status, 0, done->at_ns);
	lw_work_take_out(list, done_at);
	give(qp, done_at);
}

/* ---- receives complete ----------------------------------------------------------------------------- */

/* @qp: holds the receives, a shared queue perhaps; done->owner: serial of the queue pair that received. */
void lw_receive_completed(struct lw_qp *qp, const struct lw_work *done)
{
	struct lw_work_list *list = &qp->lists[LW_QUEUE_RECV];
	uint32_t at = lw_work_find(qp, list, done->wr_id, true);
	struct lw_work received = *done;

	if (!at && !is_untracked(qp, LW_QUEUE_RECV))
		at = lw_works_first(qp, list);
	if (at) {
		received.at_ns = work_at(at)->at_ns;
		received.n_sge = work_at(at)->n_sge;
		received.flags |= work_at(at)->flags;
		lw_work_take_out(list, at);
		give(qp, at);
	} else {
		received.flags |= LW_RDMA_UNTIMED;
	}
	lw_work_record(done->owner, &received, done->status, 0, done->at_ns);
}
