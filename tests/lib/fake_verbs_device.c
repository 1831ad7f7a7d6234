/* SPDX-License-Identifier: Apache-2.0 */
/* fake_verbs_device.c - of the libibverbs double: its device, and how queues and regions are made and end. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/fake_verbs.h"

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

static uint32_t n_qps;
static pthread_mutex_t qps_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- making and ending ----------------------------------------------------------------------------- */

static struct fake_qp *new_qp(struct ibv_context *context, const struct ibv_qp_init_attr_ex *attr)
{
	struct fake_qp *qp = calloc(1, sizeof(*qp));
	uint32_t number;

	pthread_spin_init(&qp->lock, 0);
	qp->state = IBV_QPS_RESET;
	qp->is_signal_all = attr->sq_sig_all;
	qp->n_sends_max = attr->cap.max_send_wr;
	qp->held = calloc(qp->n_sends_max, sizeof(*qp->held));
	qp->batch = calloc(qp->n_sends_max, sizeof(*qp->batch));
	qp->receives.n_max = attr->cap.max_recv_wr + 1;
	qp->receives.at = calloc(qp->receives.n_max, sizeof(*qp->receives.at));
	qp->ex.qp_base.context = context;
	qp->ex.qp_base.pd = attr->pd;
	qp->ex.qp_base.send_cq = attr->send_cq;
	qp->ex.qp_base.recv_cq = attr->recv_cq;
	qp->ex.qp_base.srq = attr->srq;
	qp->ex.qp_base.qp_type = attr->qp_type;
	pthread_mutex_lock(&qps_lock);
	number = ++n_qps;
	/* numbers are used again, as those of a device are */
	for (uint32_t i = 1; number >= MAX_QPS && i < MAX_QPS; i++)
		number = fake_qps[i] ? number : i;
	qp->ex.qp_base.qp_num = number;
	__atomic_store_n(&fake_qps[number], qp, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&qps_lock);
	return qp;
}

API int ibv_cmd_create_qp(struct ibv_pd *pd, struct ibv_qp *qp, struct ibv_qp_init_attr *attr,
	void *command, size_t command_bytes, void *response, size_t response_bytes)
{
	(void)pd, (void)qp, (void)attr, (void)command, (void)command_bytes, (void)response;
	(void)response_bytes;
	return 0;
}

API struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct ibv_qp_init_attr_ex ex = {.send_cq = attr->send_cq,
		.recv_cq = attr->recv_cq,
		.srq = attr->srq,
		.cap = attr->cap,
		.qp_type = attr->qp_type,
		.sq_sig_all = attr->sq_sig_all,
		.pd = pd};
	struct fake_qp *qp = new_qp(pd->context, &ex);

	/* FAKE_VERBS_UNSEEN: as providers that make queue pairs by another call */
	if (!getenv("FAKE_VERBS_UNSEEN"))
		ibv_cmd_create_qp(pd, &qp->ex.qp_base, attr, NULL, 0, NULL, 0);
	return &qp->ex.qp_base;
}

struct ibv_qp *fake_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)
{
	struct fake_qp *qp = new_qp(context, attr);

	if (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS)
		fake_qp_set_builders(&qp->ex);
	return &qp->ex.qp_base;
}

API struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp)
{
	return (struct ibv_qp_ex *)(void *)qp;
}

API int ibv_cmd_modify_qp(
	struct ibv_qp *ibv, struct ibv_qp_attr *attr, int mask, void *command, size_t command_bytes)
{
	struct fake_qp *qp = (struct fake_qp *)(void *)ibv;
	uint32_t n_held;

	(void)command, (void)command_bytes;
	pthread_spin_lock(&qp->lock);
	if (mask & IBV_QP_DEST_QPN)
		qp->peer = attr->dest_qp_num;
	if (mask & IBV_QP_STATE && attr->qp_state == IBV_QPS_ERR)
		fake_qp_fail(qp);
	if (mask & IBV_QP_STATE)
		qp->state = attr->qp_state;
	if (qp->state == IBV_QPS_RESET)
		qp->n_held = qp->n_sends = qp->n_silent = qp->receives.n = 0;
	n_held = qp->n_held;
	qp->n_held = 0;
	for (uint32_t i = 0; qp->state == IBV_QPS_RTS && i < n_held; i++)
		fake_qp_run(qp, &qp->held[i]);
	pthread_spin_unlock(&qp->lock);
	return 0;
}

API int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	if (attr->port_num == 99) { /* refused by the library itself */
		errno = EINVAL;
		return EINVAL;
	}
	return ibv_cmd_modify_qp(qp, attr, mask, NULL, 0);
}

API int ibv_cmd_destroy_qp(struct ibv_qp *qp)
{
	__atomic_store_n(&fake_qps[qp->qp_num], NULL, __ATOMIC_RELEASE);
	return 0;
}

API int ibv_destroy_qp(struct ibv_qp *ibv)
{
	struct fake_qp *qp = (struct fake_qp *)(void *)ibv;
	int result = ibv_cmd_destroy_qp(ibv);

	free(qp->held);
	free(qp->batch);
	free(qp->receives.at);
	free(qp);
	return result;
}

static struct fake_cq *new_cq(struct ibv_context *context, uint32_t n)
{
	struct fake_cq *cq = calloc(1, sizeof(*cq));

	pthread_spin_init(&cq->lock, 0);
	cq->ex.context = context;
	cq->n_max = n;
	cq->at = calloc(n, sizeof(*cq->at));
	return cq;
}

API struct ibv_cq *ibv_create_cq(struct ibv_context *context, int n, void *cq_context,
	struct ibv_comp_channel *channel, int vector)
{
	(void)cq_context, (void)channel, (void)vector;
	return (struct ibv_cq *)(void *)new_cq(context, (uint32_t)n);
}

struct ibv_cq_ex *fake_create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr)
{
	struct fake_cq *cq = new_cq(context, attr->cqe);

	fake_cq_set_readers(&cq->ex, attr->wc_flags);
	return &cq->ex;
}

API int ibv_destroy_cq(struct ibv_cq *ibv)
{
	free(((struct fake_cq *)(void *)ibv)->at);
	free(ibv);
	return 0;
}

API struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	struct fake_srq *srq = calloc(1, sizeof(*srq));

	pthread_spin_init(&srq->lock, 0);
	srq->srq.context = pd->context;
	srq->srq.pd = pd;
	srq->receives.n_max = attr->attr.max_wr;
	srq->receives.at = calloc(attr->attr.max_wr, sizeof(*srq->receives.at));
	return &srq->srq;
}

API int ibv_cmd_destroy_srq(struct ibv_srq *srq)
{
	(void)srq;
	return 0;
}

API int ibv_destroy_srq(struct ibv_srq *ibv)
{
	int result = ibv_cmd_destroy_srq(ibv);

	free(((struct fake_srq *)(void *)ibv)->receives.at);
	free(ibv);
	return result;
}

/* ---- memory ---------------------------------------------------------------------------------------- */

API int ibv_cmd_reg_mr(struct ibv_pd *pd, void *address, size_t n, uint64_t device_address,
	int access, struct verbs_mr *mr, void *command, size_t command_bytes, void *response,
	size_t response_bytes)
{
	(void)pd, (void)address, (void)n, (void)device_address, (void)access, (void)command;
	(void)command_bytes, (void)response, (void)response_bytes;
	mr->mr.lkey = mr->mr.rkey = RKEY;
	return 0;
}

API int ibv_cmd_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t n, uint64_t device_address,
	int fd, int access, struct verbs_mr *mr)
{
	(void)pd, (void)offset, (void)n, (void)device_address, (void)access;
	mr->mr.lkey = mr->mr.rkey = RKEY;
	return fd < 0 ? EBADF : 0;
}

static struct ibv_mr *keep_mr(
	struct verbs_mr *mr, struct ibv_pd *pd, void *address, size_t n, int result)
{
	if (result) {
		free(mr);
		errno = result;
		return NULL;
	}
	mr->mr.context = pd->context;
	mr->mr.pd = pd;
	mr->mr.addr = address;
	mr->mr.length = n;
	return &mr->mr;
}

API struct ibv_mr *ibv_reg_mr_iova(
	struct ibv_pd *pd, void *address, size_t n, uint64_t iova, int access)
{
	struct verbs_mr *mr = calloc(1, sizeof(*mr));

	return keep_mr(mr, pd, address, n,
		ibv_cmd_reg_mr(pd, address, n, iova, access, mr, NULL, 0, NULL, 0));
}

API struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *address, size_t n, int access)
{
	return ibv_reg_mr_iova(pd, address, n, (uintptr_t)address, access);
}

API struct ibv_mr *ibv_reg_mr_iova2(
	struct ibv_pd *pd, void *address, size_t n, uint64_t iova, unsigned int access)
{
	return ibv_reg_mr_iova(pd, address, n, iova, (int)access);
}

API struct ibv_mr *ibv_reg_dmabuf_mr(
	struct ibv_pd *pd, uint64_t offset, size_t n, uint64_t iova, int fd, int access)
{
	struct verbs_mr *mr = calloc(1, sizeof(*mr));

	return keep_mr(mr, pd, NULL, n, ibv_cmd_reg_dmabuf_mr(pd, offset, n, iova, fd, access, mr));
}

API int ibv_cmd_dereg_mr(struct verbs_mr *mr)
{
	(void)mr;
	return 0;
}

API int ibv_dereg_mr(struct ibv_mr *mr)
{
	int result = ibv_cmd_dereg_mr((struct verbs_mr *)(void *)mr);

	free(mr);
	return result;
}

API struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	struct ibv_pd *pd = calloc(1, sizeof(*pd));

	pd->context = context;
	return pd;
}

API int ibv_dealloc_pd(struct ibv_pd *pd)
{
	free(pd);
	return 0;
}

/* ---- the device ------------------------------------------------------------------------------------ */

/* The second registers its functions past verbs_set_ops(): what a benchmark compares with. */
static struct ibv_device devices[] = {
	{.node_type = IBV_NODE_CA, .name = "fake0", .dev_name = "uverbs0"},
	{.node_type = IBV_NODE_CA, .name = "plain0", .dev_name = "uverbs1"},
};

API struct ibv_device **ibv_get_device_list(int *n)
{
	struct ibv_device **list = calloc(3, sizeof(struct ibv_device *));
	const char *sysfs = getenv("FAKE_VERBS_SYSFS");

	for (int i = 0; i < 2; i++) {
		snprintf(devices[i].ibdev_path, sizeof(devices[i].ibdev_path), "%s",
			sysfs ? sysfs : "/nowhere");
		list[i] = &devices[i];
	}
	if (n)
		*n = 2;
	return list;
}

API void ibv_free_device_list(struct ibv_device **list)
{
	free(list);
}

static int no_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	(void)qp;
	*bad = wr;
	return EOPNOTSUPP;
}

static int no_poll(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	(void)cq, (void)n, (void)wc;
	return -1;
}

static const struct verbs_context_ops dummy_ops = {.post_send = no_send, .poll_cq = no_poll};

static void set_ops(struct verbs_context *context, const struct verbs_context_ops *ops)
{
#define SET(to, name)                                                                              \
	if (ops->name)                                                                             \
	(to)->name = ops->name
	SET(&context->context.ops, post_send);
	SET(&context->context.ops, post_recv);
	SET(&context->context.ops, post_srq_recv);
	SET(&context->context.ops, poll_cq);
	SET(context, create_qp_ex);
	if (context->sz >= sizeof(*context) - offsetof(struct verbs_context, create_cq_ex))
		SET(context, create_cq_ex);
}

API void verbs_set_ops(struct verbs_context *context, const struct verbs_context_ops *ops)
{
	set_ops(context, ops);
}

/* In a context that does not have this slot it is other memory, and nobody may change it. */
#define CANARY                                                                                     \
	((struct ibv_cq_ex * (*)(struct ibv_context *, struct ibv_cq_init_attr_ex *))0x5a5a5a)

API struct ibv_context *ibv_open_device(struct ibv_device *of)
{
	struct verbs_context *context = calloc(1, sizeof(*context));

	for (size_t i = 0; i < sizeof(fake_post_locks) / sizeof(fake_post_locks[0]); i++)
		pthread_mutex_init(&fake_post_locks[i], NULL);
	fake_is_garbage = getenv("FAKE_VERBS_GARBAGE");
	context->context.device = of;
	context->context.cmd_fd = -1;
	context->sz = sizeof(*context);
	context->context.abi_compat = __VERBS_ABI_IS_EXTENDED;
	if (getenv("FAKE_VERBS_ANCIENT"))
		context->context.abi_compat = NULL;
	if (getenv("FAKE_VERBS_SHORT")) {
		context->sz = sizeof(*context) - offsetof(struct verbs_context, create_qp_ex);
		context->create_cq_ex = CANARY;
	}
	if (of == &devices[1]) {
		set_ops(context, &fake_ops);
		return &context->context;
	}
	verbs_set_ops(context, &dummy_ops);
	verbs_set_ops(context, &fake_ops);
	verbs_set_ops(context, &fake_ops); /* some providers do it twice */
	return &context->context;
}

API int ibv_close_device(struct ibv_context *context)
{
	struct verbs_context *extended =
		(struct verbs_context *)(void *)((char *)context -
						 offsetof(struct verbs_context, context));

	if (getenv("FAKE_VERBS_SHORT") && extended->create_cq_ex != CANARY) {
		fprintf(stderr, "fake_verbs: a slot was changed that is not there\n");
		abort();
	}
	free(extended);
	return 0;
}
