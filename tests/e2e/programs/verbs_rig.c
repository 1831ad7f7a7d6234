/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/e2e/programs/verbs_rig.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct verbs v;

void rig_fail(const char *condition, const char *file, int line)
{
	fprintf(stderr, "%s:%d: not so: %s\n", file, line, condition);
	exit(3);
}

#ifdef VERBS_BY_DLVSYM
static void *library;

void rig_load(void)
{
	library = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);
	must(library);
#define X(name, version)                                                                           \
	v.name = (__typeof__(v.name))dlvsym(library, #name, version);                              \
	must(v.name);
	VERBS(X)
#undef X
}

void rig_unload(void)
{
	must(dlclose(library) == 0);
}
#else
void rig_load(void)
{
#define X(name, version) v.name = name;
	VERBS(X)
#undef X
}

void rig_unload(void)
{
}
#endif

/* ---- a device and what belongs to it --------------------------------------------------------------- */

/* Of a real device: the address that IPv4 traffic has. The double takes any. */
static void find_gid(struct rig *rig)
{
	static const char mapped[] = "0000:0000:0000:0000:0000:ffff:";
	char name[600], text[64];

	rig->gid_index = 1;
	for (int i = 0; i < 8; i++) {
		FILE *file;

		snprintf(name, sizeof(name), "%s/ports/1/gids/%d", rig->context->device->ibdev_path,
			i);
		file = fopen(name, "re");
		if (!file)
			return;
		must(fgets(text, sizeof(text), file));
		fclose(file);
		if (strncmp(text, mapped, sizeof(mapped) - 1) != 0)
			continue;
		rig->gid_index = i;
		for (int j = 0; j < 8; j++) {
			unsigned long group = strtoul(text + 5 * j, NULL, 16);

			rig->gid.raw[2 * j] = (uint8_t)(group >> 8);
			rig->gid.raw[2 * j + 1] = (uint8_t)group;
		}
		return;
	}
}

void rig_open_device(struct rig *rig)
{
	struct ibv_device **list;
	int n = 0;

	*rig = (struct rig){0};
	list = v.ibv_get_device_list(&n);
	must(list && n > 0);
	rig->context = v.ibv_open_device(list[0]);
	must(rig->context);
	v.ibv_free_device_list(list);
}

void rig_fill(struct rig *rig)
{
	rig->pd = v.ibv_alloc_pd(rig->context);
	rig->buffer = calloc(1, RIG_BYTES);
	rig->mr = v.ibv_reg_mr(rig->pd, rig->buffer, RIG_BYTES,
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
			IBV_ACCESS_REMOTE_ATOMIC);
	must(rig->mr);
	rig->cq = v.ibv_create_cq(rig->context, 16384, NULL, NULL, 0);
	must(rig->cq);
	find_gid(rig);
}

void rig_open(struct rig *rig)
{
	rig_open_device(rig);
	rig_fill(rig);
}

void rig_close(struct rig *rig)
{
	must(v.ibv_destroy_cq(rig->cq) == 0);
	must(v.ibv_dereg_mr(rig->mr) == 0);
	must(v.ibv_dealloc_pd(rig->pd) == 0);
	must(v.ibv_close_device(rig->context) == 0);
	free(rig->buffer);
}

bool rig_is_real(const struct rig *rig)
{
	return strncmp(rig->context->device->name, "fake", 4) != 0;
}

static const struct ibv_qp_cap cap = {.max_send_wr = RIG_DEPTH,
	.max_recv_wr = RIG_DEPTH,
	.max_send_sge = 4,
	.max_recv_sge = 4,
	.max_inline_data = 64};

struct ibv_qp *rig_qp(struct rig *rig, struct ibv_srq *srq, bool is_signal_all)
{
	struct ibv_qp_init_attr attr = {.send_cq = rig->cq,
		.recv_cq = rig->cq,
		.srq = srq,
		.cap = cap,
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = is_signal_all};
	struct ibv_qp *qp = v.ibv_create_qp(rig->pd, &attr);

	must(qp);
	return qp;
}

struct ibv_qp *rig_qp_ex(struct rig *rig)
{
	struct ibv_qp_init_attr_ex attr = {.send_cq = rig->cq,
		.recv_cq = rig->cq,
		.cap = cap,
		.qp_type = IBV_QPT_RC,
		.pd = rig->pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE |
				  IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM};
	struct verbs_context *extended = verbs_get_ctx_op(rig->context, create_qp_ex);
	struct ibv_qp *(*create)(struct ibv_context *, struct ibv_qp_init_attr_ex *);
	struct ibv_qp *qp;

	must(extended);
	create = extended->create_qp_ex;
	if (getenv("RIG_DV")) /* of the provider, as mlx5dv has it */
		create = (__typeof__(create))dlsym(RTLD_DEFAULT, "fakedv_create_qp");
	must(create);
	qp = create(rig->context, &attr);
	must(qp);
	return qp;
}

void rig_state(struct ibv_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = {.qp_state = state};

	must(v.ibv_modify_qp(qp, &attr, IBV_QP_STATE) == 0);
}

void rig_connect_to(struct rig *rig, struct ibv_qp *qp, uint32_t peer, const union ibv_gid *gid)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags =
			IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer,
		.max_dest_rd_atomic = 1,
		.max_rd_atomic = 1,
		.min_rnr_timer = 1,
		.timeout = 18, /* 1 s: an emulated host may stand still for long */
		.retry_cnt = 7,
		.rnr_retry = 0,
		.ah_attr = {.is_global = 1,
			.port_num = 1,
			.grh = {.dgid = *gid,
				.sgid_index = (uint8_t)rig->gid_index,
				.hop_limit = 1}}};

	must(v.ibv_modify_qp(qp, &attr,
		     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0);
	attr.qp_state = IBV_QPS_RTR;
	must(v.ibv_modify_qp(qp, &attr,
		     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			     IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0);
	attr.qp_state = IBV_QPS_RTS;
	must(v.ibv_modify_qp(qp, &attr,
		     IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			     IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) == 0);
}

void rig_connect(struct rig *rig, struct ibv_qp *qp, uint32_t peer)
{
	rig_connect_to(rig, qp, peer, &rig->gid);
}

void rig_pair(struct rig *rig, struct ibv_srq *srq, struct ibv_qp *ends[2])
{
	for (int i = 0; i < 2; i++)
		ends[i] = rig_qp(rig, srq, false);
	for (int i = 0; i < 2; i++)
		rig_connect(rig, ends[i], ends[1 - i]->qp_num);
}

/* ---- the account ----------------------------------------------------------------------------------- */

enum { MAX_SUMS = 4096 };
static struct sum {
	uint32_t qp;
	int op, status;
	uint64_t n, bytes;
} sums[MAX_SUMS];
static int n_sums;
static pthread_mutex_t sums_lock = PTHREAD_MUTEX_INITIALIZER;

void rig_account(uint32_t qp, int op, int status, uint64_t bytes)
{
	struct sum *sum = sums;

	pthread_mutex_lock(&sums_lock);
	while (sum < sums + n_sums && (sum->qp != qp || sum->op != op || sum->status != status))
		sum++;
	must(sum < sums + MAX_SUMS);
	if (sum == sums + n_sums)
		sums[n_sums++] = (struct sum){qp, op, status, 0, 0};
	sum->n++;
	sum->bytes += bytes;
	pthread_mutex_unlock(&sums_lock);
}

static int compare(const void *a, const void *b)
{
	const struct sum *x = a, *y = b;

	return x->qp != y->qp   ? (x->qp > y->qp) - (x->qp < y->qp)
	       : x->op != y->op ? x->op - y->op
				: x->status - y->status;
}

void rig_print_account(void)
{
	qsort(sums, (size_t)n_sums, sizeof(sums[0]), compare);
	for (struct sum *sum = sums; sum < sums + n_sums; sum++)
		printf("sum %u %d %d %lu %lu\n", sum->qp, sum->op, sum->status, sum->n, sum->bytes);
}

void rig_forget_account(void)
{
	n_sums = 0;
}

/* ---- posts and polls ------------------------------------------------------------------------------- */

static int op_of(enum ibv_wr_opcode opcode)
{
	static const int ops[] = {[IBV_WR_RDMA_WRITE] = OP_WRITE,
		[IBV_WR_RDMA_WRITE_WITH_IMM] = OP_WRITE_IMM,
		[IBV_WR_SEND] = OP_SEND,
		[IBV_WR_RDMA_READ] = OP_READ,
		[IBV_WR_ATOMIC_FETCH_AND_ADD] = OP_ADD};

	return ops[opcode];
}

struct ibv_send_wr rig_wr(
	struct rig *rig, struct ibv_sge *sge, enum ibv_wr_opcode opcode, uint32_t n_bytes)
{
	struct ibv_send_wr wr = {.sg_list = sge, .num_sge = 1, .opcode = opcode};

	*sge = (struct ibv_sge){(uintptr_t)rig->buffer, n_bytes, rig->mr->lkey};
	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = (uintptr_t)rig->buffer + RIG_BYTES / 2;
		wr.wr.atomic.rkey = rig->mr->rkey;
		wr.wr.atomic.compare_add = 1;
	} else if (opcode != IBV_WR_SEND) {
		wr.wr.rdma.remote_addr = (uintptr_t)rig->buffer + RIG_BYTES / 2;
		wr.wr.rdma.rkey = rig->mr->rkey;
	}
	return wr;
}

void rig_post_send(struct ibv_qp *qp, struct ibv_send_wr *first)
{
	struct ibv_send_wr *bad;

	must(ibv_post_send(qp, first, &bad) == 0);
	for (struct ibv_send_wr *wr = first; wr; wr = wr->next) {
		uint64_t bytes = 0;

		for (int i = 0; i < wr->num_sge; i++)
			bytes += wr->sg_list[i].length;
		rig_account(qp->qp_num, op_of(wr->opcode), 0, bytes);
	}
}

void rig_post_recv(struct rig *rig, struct ibv_qp *qp, uint64_t wr_id, uint32_t n_bytes)
{
	struct ibv_sge sge = {(uintptr_t)rig->buffer + RIG_BYTES / 2, n_bytes, rig->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1}, *bad;

	must((qp->srq ? ibv_post_srq_recv(qp->srq, &wr, &bad) : ibv_post_recv(qp, &wr, &bad)) == 0);
}

void rig_poll(struct rig *rig, int n, struct ibv_wc *ret)
{
	struct ibv_wc wc;

	for (int i = 0; i < n;) {
		int got = ibv_poll_cq(rig->cq, 1, &wc);

		must(got >= 0);
		if (!got)
			continue;
		i++;
		if (!ret && wc.status != IBV_WC_SUCCESS) {
			fprintf(stderr, "request %lu of queue pair %u: status %d\n", wc.wr_id,
				wc.qp_num, wc.status);
			exit(3);
		}
		if (ret)
			*ret++ = wc;
		if (wc.status == IBV_WC_SUCCESS && wc.opcode & IBV_WC_RECV)
			rig_account(wc.qp_num, wc.opcode == IBV_WC_RECV ? OP_RECV : OP_RECV_WRITE,
				0, wc.byte_len);
	}
}
