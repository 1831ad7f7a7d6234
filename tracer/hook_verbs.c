/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hook_verbs.c - where libibverbs is got hold of, and what happens beside its data path.
 *
 * Writes: HOOK "verbs" and RDMA_MEMORY records; the rest through hook_verbs_post.c and hook_verbs_wr.c.
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

/* Of rdma-core's private header; none of it is looked into, but that struct verbs_mr begins with an ibv_mr. */
struct verbs_context_ops;
struct verbs_mr;
struct verbs_dm;
void verbs_set_ops(struct verbs_context *context, const struct verbs_context_ops *ops);
int ibv_cmd_create_qp(struct ibv_pd *pd, struct ibv_qp *qp, struct ibv_qp_init_attr *attr,
	void *command, size_t command_bytes, void *response, size_t response_bytes);
int ibv_cmd_modify_qp(
	struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask, void *command, size_t command_bytes);
int ibv_cmd_modify_qp_ex(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask, void *command,
	size_t command_bytes, void *response, size_t response_bytes);
int ibv_cmd_destroy_qp(struct ibv_qp *qp);
int ibv_cmd_destroy_srq(struct ibv_srq *srq);
int ibv_cmd_reg_mr(struct ibv_pd *pd, void *address, size_t n, uint64_t device_address, int access,
	struct verbs_mr *mr, void *command, size_t command_bytes, void *response,
	size_t response_bytes);
int ibv_cmd_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t n, uint64_t device_address,
	int fd, int access, struct verbs_mr *mr, void *more);
int ibv_cmd_dereg_mr(struct verbs_mr *mr);

/* By the calling provider: two copies of libibverbs may live in one process, and come and go. */
#define REAL_FOR_CALLER(name)                                                                      \
	({                                                                                         \
		static struct lw_real_site site_;                                                  \
		(__typeof__(&name))lw_real_now(#name, __builtin_return_address(0), &site_);        \
	})

static const int64_t memory_period_ns = 100000000;
/* A registration of everything (on-demand paging) has no size. */
static const uint64_t max_region_bytes = UINT64_C(1) << 47;

/* ---- contexts -------------------------------------------------------------------------------------- */

static _Atomic uint32_t n_patched;
static _Atomic bool is_layout_unknown;
static char provider[256]; /* path of the first one */

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
	void **pointer = slot, *wrapper = *pointer ? lw_verbs_wrap(variants, *pointer) : NULL;

	if (wrapper)
		*pointer = wrapper;
	else if (*pointer)
		lw_loss(LW_LOSS_TABLE_FULL, 1, "rdma providers");
	return wrapper != NULL;
}

static void keep_path(const void *address)
{
	int saved_errno = errno;
	Dl_info where;

	if (!provider[0] && dladdr(address, &where) && where.dli_fname)
		snprintf(provider, sizeof(provider), "%s", where.dli_fname);
	errno = saved_errno;
}

LW_EXPORT void verbs_set_ops(struct verbs_context *context, const struct verbs_context_ops *ops)
{
	__typeof__(&verbs_set_ops) real = REAL_FOR_CALLER(verbs_set_ops);
	void *caller = __builtin_return_address(0);

	if (!real)
		return;
	real(context, ops);
	if (!context || !lw_hook_wanted("verbs"))
		return;
	/* Before rdma-core 1 the structure was another one. */
	if (context->context.abi_compat != __VERBS_ABI_IS_EXTENDED) {
		atomic_store(&is_layout_unknown, true);
		return;
	}
	keep_path(caller);
	atomic_store(&n_patched, lw_verbs_patch_context(&context->context));
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

struct lw_qp_facts lw_verbs_facts(const struct ibv_qp *qp)
{
	return (struct lw_qp_facts){.context = (uintptr_t)qp->context,
		.number = qp->qp_num,
		.send_cq = (uintptr_t)qp->send_cq,
		.recv_cq = (uintptr_t)qp->recv_cq,
		.srq = (uintptr_t)qp->srq,
		.device = qp->context && qp->context->device ? qp->context->device->name : NULL,
		.type = (uint8_t)qp->qp_type,
		.flags = qp->srq ? LW_RDMA_QP_SRQ : 0};
}

LW_EXPORT int ibv_cmd_create_qp(struct ibv_pd *pd, struct ibv_qp *qp, struct ibv_qp_init_attr *attr,
	void *command, size_t command_bytes, void *response, size_t response_bytes)
{
	int result = REAL_FOR_CALLER(ibv_cmd_create_qp)(
		pd, qp, attr, command, command_bytes, response, response_bytes);
	struct lw_qp_facts facts;

	if (result || !pd || !pd->context || (!lw_verbs_is_on() && !lw_verbs_begin()))
		return result;
	facts = (struct lw_qp_facts){.context = (uintptr_t)pd->context,
		.number = qp->qp_num,
		.send_cq = (uintptr_t)attr->send_cq,
		.recv_cq = (uintptr_t)attr->recv_cq,
		.srq = (uintptr_t)attr->srq,
		.device = pd->context->device ? pd->context->device->name : NULL,
		.type = (uint8_t)attr->qp_type,
		.flags = (uint8_t)((attr->srq ? LW_RDMA_QP_SRQ : 0) |
				   (attr->sq_sig_all ? LW_RDMA_QP_SIGNAL_ALL : 0)),
		.is_signalling_known = true};
	lw_qp_created(&facts);
	return result;
}

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

static void note_connected(const struct ibv_qp *ibv, const struct ibv_qp_attr *attr, int mask)
{
	const struct ibv_device *device = ibv->context ? ibv->context->device : NULL;
	const struct lw_qp_facts facts = lw_verbs_facts(ibv);
	struct lw_rdma_path path = {.device = facts.device};
	struct lw_qp *qp = lw_qp_get(&facts);

	if (!qp)
		return;
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

static void note_modified(const struct ibv_qp *ibv, const struct ibv_qp_attr *attr, int mask)
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

/* ---- memory ---------------------------------------------------------------------------------------- */

/* Counted from the first registration on: memory is registered before there is a queue pair. */
static struct {
	_Atomic int pid; /* whose counts these are: a forked child begins anew */
	_Atomic uint64_t bytes, register_ns;
	_Atomic uint32_t n, n_registrations, n_deregistrations, n_dmabufs;
	_Atomic int64_t told_ns;
} memory;

static void own_memory(void)
{
	int pid = (int)syscall(SYS_getpid), before = atomic_load(&memory.pid);

	if (before == pid || !atomic_compare_exchange_strong(&memory.pid, &before, pid))
		return;
	atomic_store(&memory.bytes, 0);
	atomic_store(&memory.register_ns, 0);
	atomic_store(&memory.n, 0);
	atomic_store(&memory.n_registrations, 0);
	atomic_store(&memory.n_deregistrations, 0);
	atomic_store(&memory.n_dmabufs, 0);
	atomic_store(&memory.told_ns, 0);
}

void lw_verbs_memory_record(void)
{
	struct lw_event event = {.kind = LW_EV_RDMA_MEMORY};

	own_memory();
	if (!atomic_load(&memory.n_registrations))
		return;
	event.t0_ns = event.t1_ns = lw_now_ns();
	event.rdma_memory.registered_bytes = atomic_load(&memory.bytes);
	event.rdma_memory.n_registered = atomic_load(&memory.n);
	event.rdma_memory.n_registrations = atomic_load(&memory.n_registrations);
	event.rdma_memory.n_deregistrations = atomic_load(&memory.n_deregistrations);
	event.rdma_memory.n_dmabufs = atomic_load(&memory.n_dmabufs);
	event.rdma_memory.register_ns = atomic_load(&memory.register_ns);
	lw_record(&event);
}

static void tell_memory(int64_t now_ns)
{
	int64_t told_ns = atomic_load(&memory.told_ns);

	if (lw_verbs_is_on() && now_ns - told_ns >= memory_period_ns &&
		atomic_compare_exchange_strong(&memory.told_ns, &told_ns, now_ns))
		lw_verbs_memory_record();
}

static uint64_t region_bytes(uint64_t bytes)
{
	return bytes > max_region_bytes ? 0 : bytes;
}

static void note_registered(uint64_t bytes, bool is_dmabuf, int64_t start_ns)
{
	int64_t now_ns = lw_now_ns();

	own_memory();
	atomic_fetch_add(&memory.bytes, region_bytes(bytes));
	atomic_fetch_add(&memory.n, 1);
	atomic_fetch_add(&memory.n_registrations, 1);
	atomic_fetch_add(&memory.n_dmabufs, is_dmabuf);
	atomic_fetch_add(&memory.register_ns, (uint64_t)(now_ns - start_ns));
	tell_memory(now_ns);
}

LW_EXPORT int ibv_cmd_reg_mr(struct ibv_pd *pd, void *address, size_t n, uint64_t device_address,
	int access, struct verbs_mr *mr, void *command, size_t command_bytes, void *response,
	size_t response_bytes)
{
	int64_t start_ns = lw_now_ns();
	int result = REAL_FOR_CALLER(ibv_cmd_reg_mr)(pd, address, n, device_address, access, mr,
		command, command_bytes, response, response_bytes);

	if (!result)
		note_registered(n, false, start_ns);
	return result;
}

/* @more: an argument of later releases; where the caller gave none, a word of its stack is handed on. */
LW_EXPORT int ibv_cmd_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t n,
	uint64_t device_address, int fd, int access, struct verbs_mr *mr, void *more)
{
	int64_t start_ns = lw_now_ns();
	int result = REAL_FOR_CALLER(ibv_cmd_reg_dmabuf_mr)(
		pd, offset, n, device_address, fd, access, mr, more);

	if (!result)
		note_registered(n, true, start_ns);
	return result;
}

static void take_away(_Atomic uint64_t *from, uint64_t n)
{
	uint64_t there = atomic_load(from);

	/* regions that were not seen to begin (device memory, imported ones) end here too */
	while (!atomic_compare_exchange_weak(from, &there, there > n ? there - n : 0))
		;
}

LW_EXPORT int ibv_cmd_dereg_mr(struct verbs_mr *mr)
{
	uint64_t bytes = region_bytes(((const struct ibv_mr *)(const void *)mr)->length);
	int result = REAL_FOR_CALLER(ibv_cmd_dereg_mr)(mr);
	uint32_t n;

	if (result)
		return result;
	own_memory();
	take_away(&memory.bytes, bytes);
	n = atomic_load(&memory.n);
	while (n && !atomic_compare_exchange_weak(&memory.n, &n, n - 1))
		;
	atomic_fetch_add(&memory.n_deregistrations, 1);
	tell_memory(lw_now_ns());
	return result;
}
