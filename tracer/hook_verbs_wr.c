/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hook_verbs_wr.c - the newer way to post: ibv_wr_start(), a builder and its setters for each request,
 * ibv_wr_complete(). These are pointers in the queue pair itself; libibverbs lets one thread at a time
 * be between start and complete. The requests become posted, as a chain, just before the real complete.
 * Not seen: ibv_wr_flush(), which no header of Debian 12 knows, and builders of mlx5dv's own.
 */
#include <string.h>

#include "tracer/hook_verbs.h"

static inline struct lw_qp *find(struct ibv_qp_ex *qp)
{
	return lw_verbs_is_on() ? lw_qp_find((uintptr_t)qp->qp_base.context, qp->qp_base.qp_num)
				: NULL;
}

static void add(struct ibv_qp_ex *ibv, enum lw_rdma_op op)
{
	struct lw_qp *qp = find(ibv);
	bool is_signalled = ibv->wr_flags & IBV_SEND_SIGNALED;
	struct lw_work *work = qp ? lw_batch_add(qp, is_signalled) : NULL;

	if (!work)
		return;
	work->op = (uint16_t)op;
	work->wr_id = ibv->wr_id;
	work->flags = (uint16_t)(LW_RDMA_EX | (is_signalled ? 0 : LW_RDMA_UNSIGNALLED));
}

static void set(struct ibv_qp_ex *ibv, uint64_t bytes, size_t n_sge, uint16_t flags)
{
	struct lw_qp *qp = find(ibv);
	struct lw_work *work = qp ? lw_batch_last(qp) : NULL;

	if (!work)
		return;
	work->bytes += bytes;
	work->n_sge = (uint16_t)(n_sge > UINT16_MAX ? UINT16_MAX : n_sge);
	work->flags |= flags;
}

/* ---- the calls ------------------------------------------------------------------------------------- */

static void wr_start(struct ibv_qp_ex *ibv, void (*real)(struct ibv_qp_ex *))
{
	struct lw_qp_facts facts;
	struct lw_qp *qp;

	real(ibv); /* takes the queue pair's own lock: from here to complete this thread is alone */
	if (!lw_verbs_is_on() && !lw_verbs_begin())
		return;
	qp = find(ibv);
	if (LW_UNLIKELY(!qp)) {
		facts = lw_verbs_facts(ibv->qp_base.context, &ibv->qp_base, NULL);
		qp = lw_qp_get(&facts);
	}
	if (qp)
		lw_batch_drop(qp);
}

static int wr_complete(struct ibv_qp_ex *ibv, int (*real)(struct ibv_qp_ex *))
{
	struct lw_qp *qp = find(ibv);
	struct lw_post post;
	uint32_t n;
	int result;

	if (!qp)
		return real(ibv);
	n = qp->batch.list.n + qp->batch.n_untracked;
	lw_post_begin(&post);
	lw_batch_post(qp, &post);
	result = real(ibv);
	lw_post_end(qp, LW_QUEUE_SEND, &post, result ? n : 0);
	return result;
}

static void wr_abort(struct ibv_qp_ex *ibv, void (*real)(struct ibv_qp_ex *))
{
	struct lw_qp *qp = find(ibv);

	if (qp)
		lw_batch_drop(qp);
	real(ibv);
}

static void wr_send_tso(struct ibv_qp_ex *qp, void *header, uint16_t header_bytes, uint16_t mss,
	void (*real)(struct ibv_qp_ex *, void *, uint16_t, uint16_t))
{
	add(qp, LW_RDMA_TSO);
	set(qp, header_bytes, 0, 0);
	real(qp, header, header_bytes, mss);
}

static void wr_set_ud_addr(struct ibv_qp_ex *ibv, struct ibv_ah *ah, uint32_t number, uint32_t key,
	void (*real)(struct ibv_qp_ex *, struct ibv_ah *, uint32_t, uint32_t))
{
	struct lw_qp *qp = find(ibv);
	struct lw_work *work = qp ? lw_batch_last(qp) : NULL;

	if (work)
		work->peer_number = number;
	real(ibv, ah, number, key);
}

static void wr_set_inline_data(struct ibv_qp_ex *qp, void *data, size_t n,
	void (*real)(struct ibv_qp_ex *, void *, size_t))
{
	set(qp, n, 1, LW_RDMA_INLINE);
	real(qp, data, n);
}

static void wr_set_inline_data_list(struct ibv_qp_ex *qp, size_t n, const struct ibv_data_buf *list,
	void (*real)(struct ibv_qp_ex *, size_t, const struct ibv_data_buf *))
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < n; i++)
		bytes += list[i].length;
	set(qp, bytes, n, LW_RDMA_INLINE);
	real(qp, n, list);
}

static void wr_set_sge(struct ibv_qp_ex *qp, uint32_t key, uint64_t address, uint32_t n,
	void (*real)(struct ibv_qp_ex *, uint32_t, uint64_t, uint32_t))
{
	set(qp, n, 1, 0);
	real(qp, key, address, n);
}

static void wr_set_sge_list(struct ibv_qp_ex *qp, size_t n, const struct ibv_sge *list,
	void (*real)(struct ibv_qp_ex *, size_t, const struct ibv_sge *))
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < n; i++)
		bytes += list[i].length;
	set(qp, bytes, n, 0);
	real(qp, n, list);
}

/* ---- the pointers ---------------------------------------------------------------------------------- */

/*
 * Every pointer of struct ibv_qp_ex that is replaced: X(name, parameters, arguments, what it does). Those
 * that only begin a request do that and call on; the others have a function above.
 */
#define BUILDERS(X)                                                                                \
	X(wr_send, LW_RDMA_SEND, (struct ibv_qp_ex * qp), (qp))                                    \
	X(wr_send_imm, LW_RDMA_SEND_IMM, (struct ibv_qp_ex * qp, __be32 imm), (qp, imm))           \
	X(wr_send_inv, LW_RDMA_SEND_INV, (struct ibv_qp_ex * qp, uint32_t key), (qp, key))         \
	X(wr_rdma_write, LW_RDMA_WRITE, (struct ibv_qp_ex * qp, uint32_t key, uint64_t to),        \
		(qp, key, to))                                                                     \
	X(wr_rdma_write_imm, LW_RDMA_WRITE_IMM,                                                    \
		(struct ibv_qp_ex * qp, uint32_t key, uint64_t to, __be32 imm),                    \
		(qp, key, to, imm))                                                                \
	X(wr_rdma_read, LW_RDMA_READ, (struct ibv_qp_ex * qp, uint32_t key, uint64_t from),        \
		(qp, key, from))                                                                   \
	X(wr_atomic_cmp_swp, LW_RDMA_CMP_SWAP,                                                     \
		(struct ibv_qp_ex * qp, uint32_t key, uint64_t at, uint64_t a, uint64_t b),        \
		(qp, key, at, a, b))                                                               \
	X(wr_atomic_fetch_add, LW_RDMA_FETCH_ADD,                                                  \
		(struct ibv_qp_ex * qp, uint32_t key, uint64_t at, uint64_t a), (qp, key, at, a))  \
	X(wr_local_inv, LW_RDMA_LOCAL_INV, (struct ibv_qp_ex * qp, uint32_t key), (qp, key))       \
	X(wr_bind_mw, LW_RDMA_BIND_MW,                                                             \
		(struct ibv_qp_ex * qp, struct ibv_mw * mw, uint32_t key,                          \
			const struct ibv_mw_bind_info *info),                                      \
		(qp, mw, key, info))

#define REAL(name, n)                                                                              \
	((__typeof__(((struct ibv_qp_ex *)0)->name))atomic_load_explicit(                          \
		&of_##name.real[n], memory_order_relaxed))

#define BUILDER_VARIANT(name, n, op, parameters, arguments)                                        \
	static void name##_##n parameters                                                          \
	{                                                                                          \
		add(qp, op);                                                                       \
		REAL(name, n) arguments;                                                           \
	}
#define EIGHT(X, name, ...)                                                                        \
	X(name, 0, __VA_ARGS__)                                                                    \
	X(name, 1, __VA_ARGS__)                                                                    \
	X(name, 2, __VA_ARGS__)                                                                    \
	X(name, 3, __VA_ARGS__)                                                                    \
	X(name, 4, __VA_ARGS__)                                                                    \
	X(name, 5, __VA_ARGS__) X(name, 6, __VA_ARGS__) X(name, 7, __VA_ARGS__)
#define WRAPPER(name, n) (void *)name##_##n,
#define BUILDER(name, op, parameters, arguments)                                                   \
	static struct lw_verbs_variants of_##name;                                                 \
	EIGHT(BUILDER_VARIANT, name, op, parameters, arguments)                                    \
	static struct lw_verbs_variants of_##name = {.wrapper = {LW_VERBS_EACH(WRAPPER, name)}};
BUILDERS(BUILDER)

/* X(name, result, parameters, arguments): @real comes behind these. */
#define OTHERS(X)                                                                                  \
	X(wr_start, void, (struct ibv_qp_ex * qp), qp)                                             \
	X(wr_complete, int, (struct ibv_qp_ex * qp), qp)                                           \
	X(wr_abort, void, (struct ibv_qp_ex * qp), qp)                                             \
	X(wr_send_tso, void, (struct ibv_qp_ex * qp, void *header, uint16_t n, uint16_t mss), qp,  \
		header, n, mss)                                                                    \
	X(wr_set_ud_addr, void,                                                                    \
		(struct ibv_qp_ex * qp, struct ibv_ah * ah, uint32_t number, uint32_t key), qp,    \
		ah, number, key)                                                                   \
	X(wr_set_inline_data, void, (struct ibv_qp_ex * qp, void *data, size_t n), qp, data, n)    \
	X(wr_set_inline_data_list, void,                                                           \
		(struct ibv_qp_ex * qp, size_t n, const struct ibv_data_buf *list), qp, n, list)   \
	X(wr_set_sge, void, (struct ibv_qp_ex * qp, uint32_t key, uint64_t at, uint32_t n), qp,    \
		key, at, n)                                                                        \
	X(wr_set_sge_list, void, (struct ibv_qp_ex * qp, size_t n, const struct ibv_sge *list),    \
		qp, n, list)

#define OTHER_VARIANT(name, n, result, parameters, ...)                                            \
	static result name##_##n parameters                                                        \
	{                                                                                          \
		return name(__VA_ARGS__, REAL(name, n));                                           \
	}
#define OTHER(name, result, parameters, ...)                                                       \
	static struct lw_verbs_variants of_##name;                                                 \
	EIGHT(OTHER_VARIANT, name, result, parameters, __VA_ARGS__)                                \
	static struct lw_verbs_variants of_##name = {.wrapper = {LW_VERBS_EACH(WRAPPER, name)}};
OTHERS(OTHER)

#define ENTRY(name, ...) {&of_##name, offsetof(struct ibv_qp_ex, name)},
static const struct {
	struct lw_verbs_variants *variants;
	size_t offset;
} pointers[] = {BUILDERS(ENTRY) OTHERS(ENTRY)};
enum { N_POINTERS = sizeof(pointers) / sizeof(pointers[0]) };

void lw_verbs_patch_qp(struct ibv_qp_ex *qp)
{
	void *wrappers[N_POINTERS];

	/* All or none: a request whose size is not seen would be worse than one that is not seen at all. */
	for (size_t i = 0; i < N_POINTERS; i++) {
		void *real = *(void **)(void *)((char *)qp + pointers[i].offset);

		wrappers[i] = real ? lw_verbs_wrap(pointers[i].variants, real) : NULL;
		if (real && !wrappers[i]) {
			lw_loss(LW_LOSS_TABLE_FULL, 1, "rdma providers");
			return;
		}
	}
	for (size_t i = 0; i < N_POINTERS; i++)
		if (wrappers[i])
			*(void **)(void *)((char *)qp + pointers[i].offset) = wrappers[i];
}
