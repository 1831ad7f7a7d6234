/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verbs_match.h - lists of work requests and what a completion does to them; for verbs_work.c only.
 * All but the pool is for the holder of the queue pair's flag.
 */
#ifndef LAPWING_TRACER_VERBS_MATCH_H
#define LAPWING_TRACER_VERBS_MATCH_H

#include "tracer/verbs_table.h"

static inline struct lw_work *work_at(uint32_t index)
{
	return &atomic_load_explicit(&lw_verbs_tables, memory_order_relaxed)->works[index];
}

static inline uint32_t next_of(const struct lw_work *work)
{
	return atomic_load_explicit(&work->next, memory_order_relaxed);
}

static inline void set_next(struct lw_work *work, uint32_t next)
{
	atomic_store_explicit(&work->next, next, memory_order_relaxed);
}

/* ---- posts that are under way ---------------------------------------------------------------------- */

static inline uint32_t lw_work_own_key(void)
{
	return (uint32_t)((uintptr_t)&lw_tls >> 4);
}

static inline _Atomic int64_t *lw_work_open_post(uint32_t owner)
{
	uint32_t hash = owner * UINT32_C(0x9e3779b1) >> 22;

	return &atomic_load_explicit(&lw_verbs_tables, memory_order_relaxed)
			->open_posts[hash % LW_OPEN_POSTS]
			.at_ns;
}

/* May the device still refuse it? */
static inline bool lw_work_is_open(const struct lw_work *work)
{
	return atomic_load_explicit(lw_work_open_post(work->owner), memory_order_relaxed) ==
	       work->at_ns;
}

static inline uint64_t lw_work_tag(const struct lw_post *post)
{
	return (uint64_t)post->at_ns << 16 ^ (uint64_t)lw_work_own_key() << 2 ^
	       2; /* neither 0 nor refused */
}

static inline bool lw_work_is_refused(const struct lw_work *work)
{
	return atomic_load_explicit(&work->tag, memory_order_relaxed) == LW_WORK_REFUSED;
}

/* ---- the pool, and lists --------------------------------------------------------------------------- */

/** lw_work_take_any(), lw_work_give_any() - of the pool. Return: an index, 0 = none left. */
uint32_t lw_work_take_any(void);
void lw_work_give_any(uint32_t index);

/** lw_work_take() - the same, of what the queue pair keeps for itself if it can be. */
uint32_t lw_work_take(struct lw_qp *qp);

void lw_work_append(struct lw_work_list *list, uint32_t index);
void lw_work_take_out(struct lw_work_list *list, uint32_t index);
void lw_works_drop(struct lw_qp *qp, struct lw_work_list *list);

/** lw_works_drop_refused() - those at the end: many, when a job posts until its queue has room. */
void lw_works_drop_refused(struct lw_qp *qp, struct lw_work_list *list);

/** lw_works_count() - those that were not refused. */
uint32_t lw_works_count(struct lw_qp *qp, struct lw_work_list *list);

/**
 * lw_work_find() - the oldest with @wr_id, 0 = none. @is_any: those without a completion of their own too.
 * What was refused is dropped where a search passes it, here and in lw_works_first().
 */
uint32_t lw_work_find(struct lw_qp *qp, struct lw_work_list *list, uint64_t wr_id, bool is_any);

/** lw_works_first() - the oldest, 0 = none. */
uint32_t lw_works_first(struct lw_qp *qp, struct lw_work_list *list);

/* ---- what becomes a record ------------------------------------------------------------------------- */

/** lw_work_record() - @work ended; @serial: of its queue pair, 0 = not known. */
void lw_work_record(uint32_t serial, const struct lw_work *work, uint16_t status, uint16_t flags,
	int64_t end_ns);

/** lw_works_end() - the sends of @qp will never complete. */
void lw_works_end(struct lw_qp *qp);

/** lw_send_completed(), lw_receive_completed() - @done was polled. @qp of a receive: a shared queue perhaps. */
void lw_send_completed(struct lw_qp *qp, const struct lw_work *done);
void lw_receive_completed(struct lw_qp *qp, const struct lw_work *done);

#endif /* LAPWING_TRACER_VERBS_MATCH_H */
