/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hook_verbs_post.c - the data path of libibverbs: posts and polls.
 *
 * A request is noted before the real post (its completion may be polled by another thread before that
 * returns) and withdrawn should the post fail. Of what it points to only the lengths of its buffers are
 * read. A poll that returns nothing costs one call more; it is not recorded.
 */
#include <errno.h>
#include <string.h>

#include "tracer/hook_verbs.h"

enum {
	MAX_SGE =
		256, /* more than any device takes: it will be refused, and the buffers may not be there */
	MAX_LIST = 65536 /* more than any queue holds: a ring of requests, perhaps */
};

static uint64_t sum_bytes(const struct ibv_sge *sge, int n)
{
	uint64_t bytes = 0;

	for (int i = 0; sge && i < n && n <= MAX_SGE; i++)
		bytes += sge[i].length;
	return bytes;
}

static uint16_t n_sge_of(int n)
{
	return (uint16_t)(n < 0 ? 0 : n > MAX_SGE ? MAX_SGE : n);
}

static inline struct lw_qp *find(struct ibv_qp *qp)
{
	struct lw_qp_facts facts;
	struct lw_qp *found;

	if (LW_UNLIKELY(!lw_verbs_is_on()) && !lw_verbs_begin())
		return NULL;
	found = lw_qp_find((uintptr_t)qp->context, qp->qp_num);
	if (LW_UNLIKELY(!found)) {
		facts = lw_verbs_facts(qp->context, qp, NULL);
		found = lw_qp_get(&facts);
	}
	return found;
}

/* ---- posts ----------------------------------------------------------------------------------------- */

static const uint8_t send_ops[] = {
	[IBV_WR_RDMA_WRITE] = LW_RDMA_WRITE,
	[IBV_WR_RDMA_WRITE_WITH_IMM] = LW_RDMA_WRITE_IMM,
	[IBV_WR_SEND] = LW_RDMA_SEND,
	[IBV_WR_SEND_WITH_IMM] = LW_RDMA_SEND_IMM,
	[IBV_WR_RDMA_READ] = LW_RDMA_READ,
	[IBV_WR_ATOMIC_CMP_AND_SWP] = LW_RDMA_CMP_SWAP,
	[IBV_WR_ATOMIC_FETCH_AND_ADD] = LW_RDMA_FETCH_ADD,
	[IBV_WR_LOCAL_INV] = LW_RDMA_LOCAL_INV,
	[IBV_WR_BIND_MW] = LW_RDMA_BIND_MW,
	[IBV_WR_SEND_WITH_INV] = LW_RDMA_SEND_INV,
	[IBV_WR_TSO] = LW_RDMA_TSO,
	[IBV_WR_ATOMIC_WRITE] = LW_RDMA_ATOMIC_WRITE,
};

static void describe_send(
	const struct ibv_qp *qp, const struct ibv_send_wr *wr, struct lw_work *work)
{
	unsigned opcode = wr->opcode;

	work->op = opcode < sizeof(send_ops) ? send_ops[opcode] : 0;
	if (!work->op)
		work->op = LW_RDMA_OTHER;
	work->flags = wr->send_flags & IBV_SEND_SIGNALED ? 0 : LW_RDMA_UNSIGNALLED;
	if (wr->send_flags & IBV_SEND_INLINE)
		work->flags |= LW_RDMA_INLINE;
	work->wr_id = wr->wr_id;
	work->n_sge = n_sge_of(wr->num_sge);
	work->bytes = sum_bytes(wr->sg_list, wr->num_sge);
	if (work->op == LW_RDMA_TSO)
		work->bytes += wr->tso.hdr_sz;
	work->peer_number = qp->qp_type == IBV_QPT_UD ? wr->wr.ud.remote_qpn : 0;
}

/* Lists of sends and of receives are linked alike. */
static const void *after(const void *wr)
{
	const void *next;

	_Static_assert(offsetof(struct ibv_send_wr, next) == offsetof(struct ibv_recv_wr, next),
		"both are read here");
	memcpy(&next, (const char *)wr + offsetof(struct ibv_recv_wr, next), sizeof(next));
	return next;
}

/* One call that posts: what of its list was noted, and what is behind that. */
struct list {
	const void *first, *rest;
	uint32_t n;
	struct lw_post post;
};

static bool is_signalled(const struct ibv_send_wr *wr)
{
	return wr->send_flags & IBV_SEND_SIGNALED;
}

/* The device took what was too long to be noted: count it, so that completions of it are expected. */
static void lose_rest(
	struct lw_qp *qp, enum lw_queue queue, const struct list *list, const void *bad)
{
	uint32_t n = 0, n_awaited = 0;

	for (const void *wr = list->rest; wr && wr != bad && n < LW_WORKS_MAX; wr = after(wr)) {
		n++;
		n_awaited += queue == LW_QUEUE_RECV || is_signalled(wr);
	}
	lw_works_untracked(qp, queue, n, n_awaited);
}

/* The device answered @result, and was given @bad to name the first that it did not take. */
static void end_list(struct lw_qp *qp, enum lw_queue queue, const struct list *list, int result,
	const void *const *bad)
{
	uint32_t n_refused = result ? list->n : 0;

	for (const void *wr = list->first; n_refused && bad && wr && wr != *bad; wr = after(wr))
		n_refused--;
	if (LW_UNLIKELY(list->rest != NULL) && !n_refused)
		lose_rest(qp, queue, list, result && bad ? *bad : NULL);
	lw_post_end(qp, queue, &list->post, n_refused);
}

static int post_send(struct ibv_qp *ibv, struct ibv_send_wr *first, struct ibv_send_wr **bad,
	int (*real)(struct ibv_qp *, struct ibv_send_wr *, struct ibv_send_wr **))
{
	struct lw_qp *qp = find(ibv);
	struct lw_work work = {.queue = LW_QUEUE_SEND};
	struct list list = {.first = first};
	const struct ibv_send_wr *wr = first;
	bool is_in;
	int result;

	if (!qp)
		return real(ibv, first, bad);
	lw_post_begin(&list.post);
	is_in = lw_qp_enter(qp);
	for (; wr && list.n < MAX_LIST; wr = wr->next, list.n++) {
		describe_send(ibv, wr, &work);
		lw_work_post(qp, is_in, &work, &list.post);
	}
	lw_qp_leave(qp, is_in);
	list.rest = wr;
	result = real(ibv, first, bad);
	end_list(qp, LW_QUEUE_SEND, &list, result, (const void *const *)(const void *)bad);
	return result;
}

static void note_receives(
	struct lw_qp *qp, const struct ibv_recv_wr *first, uint16_t flags, struct list *list)
{
	struct lw_work work = {.queue = LW_QUEUE_RECV, .op = LW_RDMA_RECV, .flags = flags};
	const struct ibv_recv_wr *wr = first;
	bool is_in;

	*list = (struct list){.first = first};
	lw_post_begin(&list->post);
	is_in = lw_qp_enter(qp);
	for (; wr && list->n < MAX_LIST; wr = wr->next, list->n++) {
		work.wr_id = wr->wr_id;
		work.n_sge = n_sge_of(wr->num_sge);
		lw_work_post(qp, is_in, &work, &list->post);
	}
	lw_qp_leave(qp, is_in);
	list->rest = wr;
}

static int post_recv(struct ibv_qp *ibv, struct ibv_recv_wr *first, struct ibv_recv_wr **bad,
	int (*real)(struct ibv_qp *, struct ibv_recv_wr *, struct ibv_recv_wr **))
{
	struct lw_qp *qp = find(ibv);
	struct list list;
	int result;

	if (!qp)
		return real(ibv, first, bad);
	note_receives(qp, first, 0, &list);
	result = real(ibv, first, bad);
	end_list(qp, LW_QUEUE_RECV, &list, result, (const void *const *)(const void *)bad);
	return result;
}

static int post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *first, struct ibv_recv_wr **bad,
	int (*real)(struct ibv_srq *, struct ibv_recv_wr *, struct ibv_recv_wr **))
{
	const struct lw_qp_facts facts = {.context = (uintptr_t)srq, .number = LW_SRQ_NUMBER};
	struct lw_qp *queue = NULL;
	struct list list;
	int result;

	if (lw_verbs_is_on() || lw_verbs_begin())
		queue = lw_qp_get(&facts);
	if (!queue)
		return real(srq, first, bad);
	note_receives(queue, first, LW_RDMA_SRQ, &list);
	result = real(srq, first, bad);
	end_list(queue, LW_QUEUE_RECV, &list, result, (const void *const *)(const void *)bad);
	return result;
}

/* ---- polls ----------------------------------------------------------------------------------------- */

/* Return: it is one that a post was seen for, not a tag-matching or driver's own one. */
static bool describe(struct lw_completion *to, enum ibv_wc_status status, unsigned opcode)
{
	to->status = (uint16_t)status;
	to->queue = LW_QUEUE_SEND;
	to->op = LW_RDMA_RECV;
	if (status != IBV_WC_SUCCESS) {
		to->queue = LW_QUEUE_UNKNOWN;
		to->bytes = 0;
		return true;
	}
	if (opcode == IBV_WC_RECV || opcode == IBV_WC_RECV_RDMA_WITH_IMM) {
		to->queue = LW_QUEUE_RECV;
		if (opcode == IBV_WC_RECV_RDMA_WITH_IMM)
			to->op = LW_RDMA_RECV_WRITE_IMM;
		return true;
	}
	return !(opcode & IBV_WC_RECV);
}

static void note_completions(const struct ibv_cq *cq, const struct ibv_wc *wc, int n)
{
	struct lw_completion completion = {.at_ns = lw_now_ns(), .cq = (uintptr_t)cq};
	struct lw_qp *qp = NULL;
	uint32_t number = 0;

	for (int i = 0; i < n; i++) {
		if (!qp || wc[i].qp_num != number) {
			number = wc[i].qp_num;
			qp = lw_qp_find((uintptr_t)cq->context, number);
		}
		completion.wr_id = wc[i].wr_id;
		completion.bytes = wc[i].byte_len;
		if (!describe(&completion, wc[i].status, wc[i].opcode))
			continue;
		completion.peer_number =
			completion.queue == LW_QUEUE_RECV && qp && qp->type == IBV_QPT_UD
				? wc[i].src_qp
				: 0;
		lw_work_complete(qp, &completion);
	}
}

static int poll_cq(struct ibv_cq *cq, int n_wanted, struct ibv_wc *wc,
	int (*real)(struct ibv_cq *, int, struct ibv_wc *))
{
	int n = real(cq, n_wanted, wc);

	if (n > 0 && lw_verbs_is_on())
		note_completions(cq, wc, n < n_wanted ? n : n_wanted);
	return n;
}

/* The completion that an extended queue stands at. The readers are the provider's; they look at it only. */
static void note_current(struct ibv_cq_ex *cq)
{
	struct lw_completion completion = {
		.at_ns = lw_now_ns(), .cq = (uintptr_t)cq, .wr_id = cq->wr_id};
	struct lw_qp *qp = NULL;
	unsigned opcode = cq->status == IBV_WC_SUCCESS ? cq->read_opcode(cq) : 0;

	if (!describe(&completion, cq->status, opcode))
		return;
	/* Readers of fields that the job did not ask for are not there. */
	if (cq->read_qp_num)
		qp = lw_qp_find((uintptr_t)cq->context, cq->read_qp_num(cq));
	if (completion.queue == LW_QUEUE_RECV && cq->read_byte_len)
		completion.bytes = cq->read_byte_len(cq);
	else if (completion.queue == LW_QUEUE_RECV)
		completion.flags = LW_RDMA_UNSIZED;
	if (completion.queue == LW_QUEUE_RECV && cq->read_src_qp && qp && qp->type == IBV_QPT_UD)
		completion.peer_number = cq->read_src_qp(cq);
	lw_work_complete(qp, &completion);
}

static int start_poll(struct ibv_cq_ex *cq, struct ibv_poll_cq_attr *attr,
	int (*real)(struct ibv_cq_ex *, struct ibv_poll_cq_attr *))
{
	int result = real(cq, attr);

	if (result == 0 && lw_verbs_is_on())
		note_current(cq);
	return result;
}

static int next_poll(struct ibv_cq_ex *cq, int (*real)(struct ibv_cq_ex *))
{
	int result = real(cq);

	if (result == 0 && lw_verbs_is_on())
		note_current(cq);
	return result;
}

/* ---- the pointers ---------------------------------------------------------------------------------- */

static struct lw_verbs_variants of_post_send, of_post_recv, of_post_srq_recv, of_poll_cq,
	of_start_poll, of_next_poll, of_create_qp_ex, of_create_cq_ex;

static struct ibv_qp *create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr,
	struct ibv_qp *(*real)(struct ibv_context *, struct ibv_qp_init_attr_ex *))
{
	int64_t start_ns = lw_now_ns();
	struct ibv_qp *ibv = real(context, attr);

	if (!ibv)
		return ibv;
	/* Also where nothing is recorded yet: later there is no way in. */
	if (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS)
		lw_verbs_patch_qp((struct ibv_qp_ex *)(void *)ibv);
	lw_verbs_created(context, ibv, attr, start_ns);
	return ibv;
}

/*
 * A job that knows its queue pairs by the wr_id need not ask for their numbers, and without them we could
 * not tell whose a completion is. So they are asked for in any case: one reader more, which it does not call.
 */
static struct ibv_cq_ex *create_telling(struct ibv_context *context,
	struct ibv_cq_init_attr_ex *attr,
	struct ibv_cq_ex *(*real)(struct ibv_context *, struct ibv_cq_init_attr_ex *))
{
	const uint32_t known = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;
	/* jobs built for older releases do not have the last fields */
	size_t n = attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD ? sizeof(*attr)
		   : attr->comp_mask ? offsetof(struct ibv_cq_init_attr_ex, parent_domain)
				     : offsetof(struct ibv_cq_init_attr_ex, flags);
	struct ibv_cq_init_attr_ex asking = {0};
	struct ibv_cq_ex *cq;
	int saved_errno = errno;

	if (attr->wc_flags & IBV_WC_EX_WITH_QP_NUM || attr->comp_mask & ~known)
		return real(context, attr);
	memcpy(&asking, attr, n);
	asking.wc_flags |= IBV_WC_EX_WITH_QP_NUM;
	cq = real(context, &asking);
	if (!cq) {
		errno = saved_errno;
		return real(context, attr);
	}
	if (asking.cqe != attr->cqe) /* a provider may say how many there are */
		attr->cqe = asking.cqe;
	return cq;
}

static struct ibv_cq_ex *create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr,
	struct ibv_cq_ex *(*real)(struct ibv_context *, struct ibv_cq_init_attr_ex *))
{
	struct ibv_cq_ex *cq = create_telling(context, attr, real);

	if (cq && cq->start_poll && cq->next_poll) {
		lw_verbs_patch(&of_start_poll, &cq->start_poll);
		lw_verbs_patch(&of_next_poll, &cq->next_poll);
	}
	return cq;
}

/* The public slots begin behind what this program's headers do not know: the structure grows at its front. */
#define HAS_SLOT(context, slot)                                                                    \
	((context)->sz >= sizeof(*(context)) - offsetof(struct verbs_context, slot) &&             \
		(context)->slot)

uint32_t lw_verbs_patch_context(struct ibv_context *context)
{
	struct verbs_context *extended = verbs_get_ctx(context);
	uint32_t n = 0;

	n += lw_verbs_patch(&of_post_send, &context->ops.post_send);
	n += lw_verbs_patch(&of_post_recv, &context->ops.post_recv);
	n += lw_verbs_patch(&of_post_srq_recv, &context->ops.post_srq_recv);
	n += lw_verbs_patch(&of_poll_cq, &context->ops.poll_cq);
	if (extended && HAS_SLOT(extended, create_qp_ex))
		n += lw_verbs_patch(&of_create_qp_ex, &extended->create_qp_ex);
	if (extended && HAS_SLOT(extended, create_cq_ex))
		n += lw_verbs_patch(&of_create_cq_ex, &extended->create_cq_ex);
	return n;
}

#define REAL(name, n)                                                                              \
	((__typeof__(&name##_##n))atomic_load_explicit(&of_##name.real[n], memory_order_relaxed))
#define POST_SEND(name, n)                                                                         \
	static int name##_##n(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad) \
	{                                                                                          \
		return name(qp, wr, bad, REAL(name, n));                                           \
	}
#define POST_RECV(name, n)                                                                         \
	static int name##_##n(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad) \
	{                                                                                          \
		return name(qp, wr, bad, REAL(name, n));                                           \
	}
#define POST_SRQ_RECV(name, n)                                                                     \
	static int name##_##n(                                                                     \
		struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)             \
	{                                                                                          \
		return name(srq, wr, bad, REAL(name, n));                                          \
	}
#define POLL_CQ(name, n)                                                                           \
	static int name##_##n(struct ibv_cq *cq, int n_wanted, struct ibv_wc *wc)                  \
	{                                                                                          \
		return name(cq, n_wanted, wc, REAL(name, n));                                      \
	}
#define START_POLL(name, n)                                                                        \
	static int name##_##n(struct ibv_cq_ex *cq, struct ibv_poll_cq_attr *attr)                 \
	{                                                                                          \
		return name(cq, attr, REAL(name, n));                                              \
	}
#define NEXT_POLL(name, n)                                                                         \
	static int name##_##n(struct ibv_cq_ex *cq)                                                \
	{                                                                                          \
		return name(cq, REAL(name, n));                                                    \
	}
#define CREATE_QP_EX(name, n)                                                                      \
	static struct ibv_qp *name##_##n(                                                          \
		struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)                     \
	{                                                                                          \
		return name(context, attr, REAL(name, n));                                         \
	}
#define CREATE_CQ_EX(name, n)                                                                      \
	static struct ibv_cq_ex *name##_##n(                                                       \
		struct ibv_context *context, struct ibv_cq_init_attr_ex *attr)                     \
	{                                                                                          \
		return name(context, attr, REAL(name, n));                                         \
	}
#define WRAPPER(name, n) (void *)name##_##n,
#define VARIANTS(define, name)                                                                     \
	LW_VERBS_EACH(define, name)                                                                \
	static struct lw_verbs_variants of_##name = {.wrapper = {LW_VERBS_EACH(WRAPPER, name)}};

VARIANTS(POST_SEND, post_send)
VARIANTS(POST_RECV, post_recv)
VARIANTS(POST_SRQ_RECV, post_srq_recv)
VARIANTS(POLL_CQ, poll_cq)
VARIANTS(START_POLL, start_poll)
VARIANTS(NEXT_POLL, next_poll)
VARIANTS(CREATE_QP_EX, create_qp_ex)
VARIANTS(CREATE_CQ_EX, create_cq_ex)
