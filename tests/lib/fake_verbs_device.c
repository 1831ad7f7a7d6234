/* SPDX-License-Identifier: Apache-2.0 */
/* fake_verbs_device.c - of the libibverbs double: its device, and how queues and regions are made and end. */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/fake_verbs.h"

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

/* All arguments must have arrived, as many as this release has. */
static int create_ex(const uintptr_t *words, int n, const struct ibv_qp_init_attr_ex *attr)
{
	for (int i = 0; i < n; i++)
		if (words[i] != (i ? WORD + (uintptr_t)i : (uintptr_t)attr)) {
			fprintf(stderr, "fake_verbs: argument %d of a queue pair was changed\n", i);
			abort();
		}
	return 0;
}

API int ibv_cmd_create_qp_ex(struct ibv_context *context, struct verbs_qp *qp, uintptr_t a,
	uintptr_t b, uintptr_t c, uintptr_t d, uintptr_t e, uintptr_t f)
{
	const uintptr_t words[] = {a, b, c, d, e, f};
	int is_old = a == sizeof(struct ibv_qp_ex);

	(void)context, (void)qp;
	return is_old ? create_ex(words + 1, 5, (const void *)b)
		      : create_ex(words, 5, (const void *)a);
}

API int ibv_cmd_create_qp_ex2(struct ibv_context *context, struct verbs_qp *qp, uintptr_t a,
	uintptr_t b, uintptr_t c, uintptr_t d, uintptr_t e, uintptr_t f, uintptr_t g, uintptr_t h)
{
	const uintptr_t words[] = {a, b, c, d, e, f, g, h};

	(void)context, (void)qp;
	return a == sizeof(struct ibv_qp_ex) ? create_ex(words + 1, 7, (const void *)b)
					     : create_ex(words, 5, (const void *)a);
}

/*
 * FAKE_VERBS_CREATE: by which call the kernel is asked, as real providers do it: "ex", "ex2", both as of
 * older releases ("old", "old2"), or one that nobody knows ("unseen").
 */
static void ask_kernel(struct fake_qp *qp, struct ibv_qp_init_attr_ex *attr)
{
	const char *how = getenv("FAKE_VERBS_CREATE");
	struct ibv_qp_init_attr plain = {.send_cq = attr->send_cq,
		.recv_cq = attr->recv_cq,
		.srq = attr->srq,
		.cap = attr->cap,
		.qp_type = attr->qp_type,
		.sq_sig_all = attr->sq_sig_all};
	struct ibv_context *context = qp->ex.qp_base.context;
	struct verbs_qp *made = (struct verbs_qp *)(void *)qp;
	uintptr_t asked = (uintptr_t)attr, size = sizeof(struct ibv_qp_ex);

	if (!how)
		ibv_cmd_create_qp(attr->pd, &qp->ex.qp_base, &plain, NULL, 0, NULL, 0);
	else if (!strcmp(how, "ex"))
		ibv_cmd_create_qp_ex(
			context, made, asked, WORD + 1, WORD + 2, WORD + 3, WORD + 4, 0);
	else if (!strcmp(how, "ex2"))
		ibv_cmd_create_qp_ex2(
			context, made, asked, WORD + 1, WORD + 2, WORD + 3, WORD + 4, 0, 0, 0);
	else if (!strcmp(how, "old"))
		ibv_cmd_create_qp_ex(
			context, made, size, asked, WORD + 1, WORD + 2, WORD + 3, WORD + 4);
	else if (!strcmp(how, "old2"))
		ibv_cmd_create_qp_ex2(context, made, size, asked, WORD + 1, WORD + 2, WORD + 3,
			WORD + 4, WORD + 5, WORD + 6);
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

	ask_kernel(qp, &ex);
	return &qp->ex.qp_base;
}

struct ibv_qp *fake_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)
{
	struct fake_qp *qp = new_qp(context, attr);

	if (getenv("FAKE_VERBS_CREATE"))
		ask_kernel(qp, attr);
	if (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS)
		fake_qp_set_builders(&qp->ex);
	return &qp->ex.qp_base;
}

/* As mlx5dv_create_qp() and efadv_create_qp_ex(): past the slot in the context. */
API struct ibv_qp *fakedv_create_qp(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)
{
	return fake_create_qp_ex(context, attr);
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

/* With a ring that the provider registers for itself; nobody sets the length of that (as in irdma). */
static struct fake_cq *new_cq(struct ibv_context *context, uint32_t n)
{
	struct fake_cq *cq = calloc(1, sizeof(*cq));
	struct ibv_pd own = {.context = context};

	pthread_spin_init(&cq->lock, 0);
	cq->ex.context = context;
	cq->n_max = n;
	cq->at = calloc(n, sizeof(*cq->at));
	if (getenv("FAKE_VERBS_RINGS"))
		ibv_cmd_reg_mr(&own, cq->at, n * sizeof(*cq->at), (uintptr_t)cq->at, 0, &cq->ring,
			NULL, 0, NULL, 0);
	return cq;
}

API struct ibv_cq *ibv_create_cq(struct ibv_context *context, int n, void *cq_context,
	struct ibv_comp_channel *channel, int vector)
{
	(void)cq_context, (void)channel, (void)vector;
	return (struct ibv_cq *)(void *)new_cq(context, (uint32_t)n);
}

/* FAKE_VERBS_NO_NUMBERS: a device that does not tell the queue pair of a completion */
struct ibv_cq_ex *fake_create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr)
{
	struct fake_cq *cq;

	if (attr->wc_flags & IBV_WC_EX_WITH_QP_NUM && getenv("FAKE_VERBS_NO_NUMBERS")) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	cq = new_cq(context, attr->cqe);
	fake_cq_set_readers(&cq->ex, attr->wc_flags);
	return &cq->ex;
}

API int ibv_destroy_cq(struct ibv_cq *ibv)
{
	if (getenv("FAKE_VERBS_RINGS"))
		ibv_cmd_dereg_mr(&((struct fake_cq *)(void *)ibv)->ring);
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

/* ---- the device ------------------------------------------------------------------------------------ */

/* The second makes its contexts by no name that is interposed: what a benchmark compares with. */
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
	/* what a provider has for create_cq_ex, the library keeps for itself */
}

API void verbs_set_ops(struct verbs_context *context, const struct verbs_context_ops *ops)
{
	set_ops(context, ops);
}

/* In a context that does not have this slot it is other memory, and nobody may change it. */
#define CANARY                                                                                     \
	((struct ibv_cq_ex * (*)(struct ibv_context *, struct ibv_cq_init_attr_ex *))0x5a5a5a)

static struct ibv_cq_ex *lib_create_cq_ex(
	struct ibv_context *context, struct ibv_cq_init_attr_ex *attr)
{
	return fake_create_cq_ex(context, attr);
}

/* The slot is the library's own, and is filled when the provider is done. */
static void set_lib_ops(struct verbs_context *context)
{
	if (context->sz >= sizeof(*context) - offsetof(struct verbs_context, create_cq_ex))
		context->create_cq_ex = lib_create_cq_ex;
}

/* The provider's object is loaded for this only: all its functions are here. */
static void set_provider_ops(struct verbs_context *context)
{
	void *provider = dlopen("libfake-rdmav34.so", RTLD_NOW | RTLD_LOCAL);
	int (*fill)(struct verbs_context *, const struct verbs_context_ops *) =
		provider ? (__typeof__(fill))dlsym(provider, "fake_provider_fill") : NULL;

	if (!fill || fill(context, &fake_ops)) {
		fprintf(stderr, "fake_verbs: %s\n", dlerror());
		abort();
	}
	dlclose(provider);
}

static struct ibv_context *open_device(struct ibv_device *of)
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
	} else {
		verbs_set_ops(context, &dummy_ops);
		set_provider_ops(context);
	}
	set_lib_ops(context);
	return &context->context;
}

API struct ibv_context *verbs_open_device(struct ibv_device *of, void *private_data)
{
	(void)private_data;
	return open_device(of);
}

/* FAKE_VERBS_IMPORT: as where a context is imported, or in a release without that call. */
API struct ibv_context *ibv_open_device(struct ibv_device *of)
{
	return of == &devices[1] || getenv("FAKE_VERBS_IMPORT") ? open_device(of)
								: verbs_open_device(of, NULL);
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
