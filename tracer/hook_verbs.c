/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hook_verbs.c - where libibverbs is got hold of, and queue pairs beside its data path.
 *
 * Writes: HOOK "verbs" records; the rest through hook_verbs_{post,wr,memory}.c.
 *
 * A library that fetches libibverbs by dlopen and dlvsym (NCCL) calls none of our names. But providers
 * (libmlx5, librxe, ...) do: they are linked to libibverbs and register their functions with
 * verbs_set_ops(), and ask the kernel through ibv_cmd_*(). These names are private to rdma-core, their
 * arguments are what stayed the same in all its releases so far, and what we do not know we only hand on.
 * Only public structures are read. Not seen: what goes to the device past libibverbs (mlx5dv with own
 * doorbells as in UCX, DOCA, posts by a GPU).
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tracer/hook_verbs.h"

/* Of rdma-core's private header; none of it is looked into, but that struct verbs_qp begins with an ibv_qp. */
struct verbs_context_ops;
struct verbs_qp;
void verbs_set_ops(struct verbs_context *context, const struct verbs_context_ops *ops);
struct ibv_context *verbs_open_device(struct ibv_device *device, void *private_data);
int ibv_cmd_alloc_pd(struct ibv_context *context, struct ibv_pd *pd, void *command,
	size_t command_bytes, void *response, size_t response_bytes);
int ibv_cmd_create_qp(struct ibv_pd *pd, struct ibv_qp *qp, struct ibv_qp_init_attr *attr,
	void *command, size_t command_bytes, void *response, size_t response_bytes);
int ibv_cmd_modify_qp(
	struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask, void *command, size_t command_bytes);
int ibv_cmd_modify_qp_ex(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask, void *command,
	size_t command_bytes, void *response, size_t response_bytes);
int ibv_cmd_destroy_qp(struct ibv_qp *qp);
int ibv_cmd_destroy_srq(struct ibv_srq *srq);
/* Those that make a queue pair have had between seven and ten arguments: all are handed on as words. */
#define WORDS                                                                                      \
	uintptr_t third, uintptr_t fourth, uintptr_t fifth, uintptr_t sixth, uintptr_t seventh,    \
		uintptr_t eighth, uintptr_t ninth, uintptr_t tenth
#define WORDS_ON third, fourth, fifth, sixth, seventh, eighth, ninth, tenth
int ibv_cmd_create_qp_ex(struct ibv_context *context, struct verbs_qp *qp, WORDS);
int ibv_cmd_create_qp_ex2(struct ibv_context *context, struct verbs_qp *qp, WORDS);

/* ---- contexts -------------------------------------------------------------------------------------- */

static _Atomic uint32_t n_patched;
static _Atomic bool is_layout_unknown;
static char provider[256]; /* path of the last one */

void *lw_verbs_wrap(struct lw_verbs_variants *variants, void *real)
{
	for (int i = 0; i < LW_VERBS_VARIANTS; i++)
		if (real == variants->wrapper[i])
			return real;
	for (int i = 0; i < LW_VERBS_VARIANTS; i++) {
		void *there = NULL;

		if (atomic_compare_exchange_strong(&variants->real[i], &there, real) ||
			there == real)
			return variants->wrapper[i];
	}
	return NULL;
}

bool lw_verbs_patch(struct lw_verbs_variants *variants, void *slot)
{
	void **pointer = slot, *there = __atomic_load_n(pointer, __ATOMIC_RELAXED);
	void *wrapper = there ? lw_verbs_wrap(variants, there) : NULL;

	if (wrapper && wrapper != there)
		__atomic_store_n(pointer, wrapper, __ATOMIC_RELAXED);
	else if (there && !wrapper)
		lw_loss(LW_LOSS_TABLE_FULL, 1, "rdma providers");
	return wrapper != NULL;
}

/* libibverbs itself, which holds @own, fills a context before its provider does: that is not meant. */
static void keep_path(const void *caller, const void *own)
{
	static _Atomic bool is_held; /* devices are seldom opened, and more seldom at a time */
	int saved_errno = errno;
	Dl_info where, library;

	if (dladdr(caller, &where) && where.dli_fname && dladdr(own, &library) &&
		where.dli_fbase != library.dli_fbase && !atomic_exchange(&is_held, true)) {
		snprintf(provider, sizeof(provider), "%s", where.dli_fname);
		atomic_store(&is_held, false);
	}
	errno = saved_errno;
}

/* As often as a context comes by: libibverbs fills slots of its own behind its provider (create_cq_ex). */
static void patch(struct ibv_context *context)
{
	if (!context || !lw_hook_wanted("verbs"))
		return;
	/* Before rdma-core 1 the structure was another one. */
	if (context->abi_compat != __VERBS_ABI_IS_EXTENDED)
		atomic_store(&is_layout_unknown, true);
	else
		atomic_store(&n_patched, lw_verbs_patch_context(context));
}

LW_EXPORT void verbs_set_ops(struct verbs_context *context, const struct verbs_context_ops *ops)
{
	__typeof__(&verbs_set_ops) real = REAL_FOR_CALLER(verbs_set_ops);

	if (!real)
		return;
	real(context, ops);
	if (!context)
		return;
	keep_path(__builtin_return_address(0), (const void *)real);
	patch(&context->context);
}

LW_EXPORT struct ibv_context *verbs_open_device(struct ibv_device *device, void *private_data)
{
	struct ibv_context *context = REAL_FOR_CALLER(verbs_open_device)(device, private_data);

	patch(context);
	return context;
}

/* A context that was imported, or opened by a release without the call above. */
LW_EXPORT int ibv_cmd_alloc_pd(struct ibv_context *context, struct ibv_pd *pd, void *command,
	size_t command_bytes, void *response, size_t response_bytes)
{
	int result = REAL_FOR_CALLER(ibv_cmd_alloc_pd)(
		context, pd, command, command_bytes, response, response_bytes);

	if (!result)
		patch(context);
	return result;
}

void lw_verbs_report(void)
{
	uint32_t n = atomic_load(&n_patched);

	if (n)
		lw_hook_report("verbs", LW_HOOK_ACTIVE, n, provider);
	else
		lw_hook_report("verbs", LW_HOOK_REFUSED, 0,
			atomic_load(&is_layout_unknown) ? "unknown layout of its contexts"
							: "no context was seen to open");
	lw_verbs_memory_record(); /* most is registered before there is a queue pair */
}

/* ---- queue pairs ----------------------------------------------------------------------------------- */

struct lw_qp_facts lw_verbs_facts(const struct ibv_context *context, const struct ibv_qp *qp,
	const struct ibv_qp_init_attr_ex *asked)
{
	const struct ibv_qp_init_attr_ex told = {.send_cq = qp->send_cq,
		.recv_cq = qp->recv_cq,
		.srq = qp->srq,
		.qp_type = qp->qp_type};
	const struct ibv_qp_init_attr_ex *from = asked ? asked : &told;
	bool is_ex = from->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;

	return (struct lw_qp_facts){.context = (uintptr_t)context,
		.number = qp->qp_num,
		.send_cq = (uintptr_t)from->send_cq,
		.recv_cq = (uintptr_t)from->recv_cq,
		.srq = (uintptr_t)from->srq,
		.device = context && context->device ? context->device->name : NULL,
		.type = (uint8_t)from->qp_type,
		.flags = (uint8_t)((from->srq ? LW_RDMA_QP_SRQ : 0) |
				   (from->sq_sig_all ? LW_RDMA_QP_SIGNAL_ALL : 0) |
				   (is_ex ? LW_RDMA_QP_EX : 0)),
		.is_signalling_known = asked != NULL};
}

void lw_verbs_created(struct ibv_context *context, const struct ibv_qp *qp,
	const struct ibv_qp_init_attr_ex *asked, int64_t since_ns)
{
	int saved_errno = errno;
	struct lw_qp_facts facts;

	if (lw_verbs_is_on() || lw_verbs_begin()) {
		facts = lw_verbs_facts(context, qp, asked);
		lw_qp_created(&facts, since_ns);
	}
	errno = saved_errno;
}

LW_EXPORT int ibv_cmd_create_qp(struct ibv_pd *pd, struct ibv_qp *qp, struct ibv_qp_init_attr *attr,
	void *command, size_t command_bytes, void *response, size_t response_bytes)
{
	int64_t start_ns = lw_now_ns();
	int result = REAL_FOR_CALLER(ibv_cmd_create_qp)(
		pd, qp, attr, command, command_bytes, response, response_bytes);
	const struct ibv_qp_init_attr_ex asked = {.send_cq = attr->send_cq,
		.recv_cq = attr->recv_cq,
		.srq = attr->srq,
		.qp_type = attr->qp_type,
		.sq_sig_all = attr->sq_sig_all};

	if (!result && pd)
		lw_verbs_created(pd->context, qp, &asked, start_ns);
	return result;
}

/*
 * What was asked for is the third argument, or, before rdma-core 31, the fourth: then the third is the size
 * of @qp. Believed only where it says what became of it.
 */
static const struct ibv_qp_init_attr_ex *asked_of(
	const struct ibv_qp *qp, uintptr_t third, uintptr_t fourth)
{
	enum { PAGE_BYTES = 4096 }; /* no pointer is that small, and no queue pair that big */
	const struct ibv_qp_init_attr_ex *asked =
		(const void *)(third >= PAGE_BYTES ? third : fourth);

	return (uintptr_t)asked >= PAGE_BYTES && asked->qp_type == qp->qp_type &&
			       asked->send_cq == qp->send_cq && asked->recv_cq == qp->recv_cq
		       ? asked
		       : NULL;
}

/* The providers of most devices (mlx5, mlx4, efa, hns, ...) make all their queue pairs by these. */
#define CREATE_QP_EX(name)                                                                         \
	LW_EXPORT int name(struct ibv_context *context, struct verbs_qp *qp, WORDS)                \
	{                                                                                          \
		const struct ibv_qp *made = (const void *)qp;                                      \
		int64_t start_ns = lw_now_ns();                                                    \
		int result = REAL_FOR_CALLER(name)(context, qp, WORDS_ON);                         \
                                                                                                   \
		if (!result && context)                                                            \
			lw_verbs_created(context, made, asked_of(made, third, fourth), start_ns);  \
		return result;                                                                     \
	}
CREATE_QP_EX(ibv_cmd_create_qp_ex)
CREATE_QP_EX(ibv_cmd_create_qp_ex2)

/* "fe80:0000:0000:0000:5054:00ff:fe00:0001": eight groups. A file of the kernel's, but checked. */
static bool parse_gid(const char *text, uint8_t gid[16])
{
	for (int i = 0; i < 8; i++) {
		char *end;
		unsigned long group = strtoul(text, &end, 16);

		if (end == text || group > UINT16_MAX || (i < 7 && *end != ':'))
			return false;
		gid[2 * i] = (uint8_t)(group >> 8);
		gid[2 * i + 1] = (uint8_t)group;
		text = end + 1;
	}
	return true;
}

static void read_gid(const struct ibv_device *device, struct lw_rdma_path *path)
{
	char name[IBV_SYSFS_PATH_MAX + 40], text[64];
	ssize_t n;
	int fd;

	snprintf(name, sizeof(name), "%.*s/ports/%u/gids/%u", IBV_SYSFS_PATH_MAX,
		device->ibdev_path, path->port, path->gid_index);
	fd = (int)syscall(SYS_openat, AT_FDCWD, name, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	n = syscall(SYS_read, fd, text, sizeof(text) - 1);
	syscall(SYS_close, fd);
	text[n > 0 ? n : 0] = '\0';
	if (!parse_gid(text, path->gid))
		memset(path->gid, 0, sizeof(path->gid));
}

static void note_connected(struct ibv_qp *ibv, const struct ibv_qp_attr *attr, int mask)
{
	const struct ibv_device *device = ibv->context ? ibv->context->device : NULL;
	const struct lw_qp_facts facts = lw_verbs_facts(ibv->context, ibv, NULL);
	struct lw_rdma_path path = {.device = facts.device};
	struct lw_qp *qp = lw_qp_get(&facts);

	if (!qp)
		return;
	/* One that a provider made by a call of its own (mlx5dv, efadv): it cannot have been posted to yet. */
	if (atomic_load_explicit(&qp->flags, memory_order_relaxed) & LW_RDMA_QP_EX)
		lw_verbs_patch_qp((struct ibv_qp_ex *)(void *)ibv);
	if (mask & IBV_QP_DEST_QPN)
		path.peer_number = attr->dest_qp_num;
	if (mask & IBV_QP_PATH_MTU)
		path.mtu = (uint8_t)attr->path_mtu;
	if (mask & IBV_QP_AV) {
		path.port = attr->ah_attr.port_num;
		path.peer_lid = attr->ah_attr.dlid;
	}
	if (mask & IBV_QP_AV && attr->ah_attr.is_global) {
		path.gid_index = attr->ah_attr.grh.sgid_index;
		memcpy(path.peer_gid, attr->ah_attr.grh.dgid.raw, sizeof(path.peer_gid));
		if (device)
			read_gid(device, &path);
	}
	lw_qp_connected(qp, &path);
}

static void note_modified(struct ibv_qp *ibv, const struct ibv_qp_attr *attr, int mask)
{
	int saved_errno = errno;
	struct lw_qp *qp;

	if (!(mask & IBV_QP_STATE) ||
		(attr->qp_state != IBV_QPS_RTR && attr->qp_state != IBV_QPS_RESET) ||
		(!lw_verbs_is_on() && !lw_verbs_begin()))
		return;
	if (attr->qp_state == IBV_QPS_RTR) {
		note_connected(ibv, attr, mask);
	} else {
		qp = lw_qp_find((uintptr_t)ibv->context, ibv->qp_num);
		if (qp)
			lw_qp_reset(qp);
	}
	errno = saved_errno;
}

LW_EXPORT int ibv_cmd_modify_qp(
	struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask, void *command, size_t command_bytes)
{
	int result = REAL_FOR_CALLER(ibv_cmd_modify_qp)(qp, attr, mask, command, command_bytes);

	if (!result)
		note_modified(qp, attr, mask);
	return result;
}

LW_EXPORT int ibv_cmd_modify_qp_ex(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
	void *command, size_t command_bytes, void *response, size_t response_bytes)
{
	int result = REAL_FOR_CALLER(ibv_cmd_modify_qp_ex)(
		qp, attr, mask, command, command_bytes, response, response_bytes);

	if (!result)
		note_modified(qp, attr, mask);
	return result;
}

LW_EXPORT int ibv_cmd_destroy_qp(struct ibv_qp *qp)
{
	uintptr_t context = (uintptr_t)qp->context;
	uint32_t number = qp->qp_num;
	int result = REAL_FOR_CALLER(ibv_cmd_destroy_qp)(qp);
	struct lw_qp *known = !result && lw_verbs_is_on() ? lw_qp_find(context, number) : NULL;

	if (known)
		lw_qp_ended(known);
	return result;
}

LW_EXPORT int ibv_cmd_destroy_srq(struct ibv_srq *srq)
{
	int result = REAL_FOR_CALLER(ibv_cmd_destroy_srq)(srq);
	struct lw_qp *known =
		!result && lw_verbs_is_on() ? lw_qp_find((uintptr_t)srq, LW_SRQ_NUMBER) : NULL;

	if (known)
		lw_qp_ended(known);
	return result;
}
