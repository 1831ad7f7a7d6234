/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_verbs.c - a libibverbs.so.1 with one device and its provider in it, for tests of the tracer only.
 *
 * Binary-compatible with what programs of Debian 12 call. Queue pairs reach each other within the process:
 * a request is carried out by memcpy when it is posted (in state SQD: when the queue goes on), so tests
 * know exactly what must have happened. Where a real library calls a name that the tracer interposes, this
 * one does too, through its procedure linkage table. Environment: FAKE_VERBS_GARBAGE: polls return wr_ids
 * that nobody posted; FAKE_VERBS_SHORT: a context of an older release, without the last slots;
 * FAKE_VERBS_ANCIENT: one from before there were slots; FAKE_VERBS_SYSFS: where the device's files are.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/fake_verbs.h"

struct fake_qp *fake_qps[MAX_QPS];
bool fake_is_garbage;
/* One poster at a time: queues of a real device keep the order too. */
pthread_mutex_t fake_post_locks[64];

static void put(
	struct ibv_cq *ibv, struct fake_qp *qp, const struct ibv_wc *wc, uint32_t n_released)
{
	struct fake_cq *cq = (struct fake_cq *)(void *)ibv;
	struct completion *to;

	pthread_spin_lock(&cq->lock);
	if (cq->n == cq->n_max) {
		fprintf(stderr, "fake_verbs: a completion queue overflows\n");
		abort();
	}
	to = &cq->at[(cq->head + cq->n++) % cq->n_max];
	*to = (struct completion){*wc, qp, n_released};
	to->wc.qp_num = qp->ex.qp_base.qp_num;
	if (fake_is_garbage)
		to->wc.wr_id = wc->wr_id * UINT64_C(0x9e3779b97f4a7c15) + 7;
	pthread_spin_unlock(&cq->lock);
}

static void complete_send(
	struct fake_qp *qp, const struct ibv_send_wr *wr, enum ibv_wc_status status)
{
	static const enum ibv_wc_opcode opcodes[] = {
		[IBV_WR_RDMA_WRITE] = IBV_WC_RDMA_WRITE,
		[IBV_WR_RDMA_WRITE_WITH_IMM] = IBV_WC_RDMA_WRITE,
		[IBV_WR_SEND] = IBV_WC_SEND,
		[IBV_WR_SEND_WITH_IMM] = IBV_WC_SEND,
		[IBV_WR_RDMA_READ] = IBV_WC_RDMA_READ,
		[IBV_WR_ATOMIC_CMP_AND_SWP] = IBV_WC_COMP_SWAP,
		[IBV_WR_ATOMIC_FETCH_AND_ADD] = IBV_WC_FETCH_ADD,
	};
	struct ibv_wc wc = {.wr_id = wr->wr_id, .status = status, .opcode = opcodes[wr->opcode]};

	if (status != IBV_WC_SUCCESS)
		wc.opcode = IBV_WC_DRIVER3; /* not to be looked at */
	qp->n_silent++;
	if (status == IBV_WC_SUCCESS && !qp->is_signal_all && !(wr->send_flags & IBV_SEND_SIGNALED))
		return;
	put(qp->ex.qp_base.send_cq, qp, &wc, qp->n_silent);
	qp->n_silent = 0;
}

static int take_receive(struct receives *from, struct receive *ret)
{
	if (!from->n)
		return 0;
	*ret = from->at[from->head];
	from->head = (from->head + 1) % from->n_max;
	from->n--;
	return 1;
}

static int next_receive(struct fake_qp *qp, struct receive *ret)
{
	struct fake_srq *srq = (struct fake_srq *)(void *)qp->ex.qp_base.srq;
	int is_there;

	if (!srq)
		return take_receive(&qp->receives, ret);
	pthread_spin_lock(&srq->lock);
	is_there = take_receive(&srq->receives, ret);
	pthread_spin_unlock(&srq->lock);
	return is_there;
}

void fake_qp_fail(struct fake_qp *qp)
{
	struct ibv_wc wc = {.status = IBV_WC_WR_FLUSH_ERR, .opcode = IBV_WC_DRIVER3};
	struct receive receive;

	qp->state = IBV_QPS_ERR;
	while (take_receive(&qp->receives, &receive)) {
		wc.wr_id = receive.wr_id;
		put(qp->ex.qp_base.recv_cq, qp, &wc, 0);
	}
	for (uint32_t i = 0; i < qp->n_held; i++)
		complete_send(qp, &qp->held[i].wr, IBV_WC_WR_FLUSH_ERR);
	qp->n_held = 0;
}

/* ---- carrying out ---------------------------------------------------------------------------------- */

static uint32_t gather(const struct send *send, char *to, uint32_t room)
{
	uint32_t n = 0;

	for (int i = 0; i < send->wr.num_sge; i++) {
		uint32_t part = send->sge[i].length;

		if (to && n + part <= room)
			memcpy(to + n, (const char *)(uintptr_t)send->sge[i].addr, part);
		n += part;
	}
	return n;
}

static enum ibv_wc_status deliver(const struct send *send, struct fake_qp *peer, int is_write)
{
	struct receive receive;
	struct ibv_wc wc = {.opcode = is_write ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV};
	static _Thread_local char message[1 << 20];

	if (!next_receive(peer, &receive))
		return IBV_WC_RNR_RETRY_EXC_ERR;
	wc.byte_len = gather(send, message, sizeof(message));
	wc.wr_id = receive.wr_id;
	for (uint32_t i = 0, n = 0; !is_write && i < (uint32_t)receive.n_sge && n < wc.byte_len;
		i++) {
		uint32_t part = receive.sge[i].length < wc.byte_len - n ? receive.sge[i].length
									: wc.byte_len - n;

		memcpy((char *)(uintptr_t)receive.sge[i].addr, message + n, part);
		n += part;
	}
	put(peer->ex.qp_base.recv_cq, peer, &wc, 0);
	return IBV_WC_SUCCESS;
}

static enum ibv_wc_status carry_out(const struct send *send, struct fake_qp *peer)
{
	char *remote = (char *)(uintptr_t)send->wr.wr.rdma.remote_addr;

	switch ((int)send->wr.opcode) {
	case IBV_WR_SEND:
	case IBV_WR_SEND_WITH_IMM:
		return deliver(send, peer, 0);
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		if (send->wr.wr.rdma.rkey != RKEY)
			return IBV_WC_REM_ACCESS_ERR;
		gather(send, remote, UINT32_MAX);
		return send->wr.opcode == IBV_WR_RDMA_WRITE ? IBV_WC_SUCCESS
							    : deliver(send, peer, 1);
	case IBV_WR_RDMA_READ:
		if (send->wr.wr.rdma.rkey != RKEY)
			return IBV_WC_REM_ACCESS_ERR;
		memcpy((char *)(uintptr_t)send->sge[0].addr, remote, send->sge[0].length);
		return IBV_WC_SUCCESS;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		__atomic_fetch_add((uint64_t *)(uintptr_t)send->wr.wr.atomic.remote_addr,
			send->wr.wr.atomic.compare_add, __ATOMIC_SEQ_CST);
		return IBV_WC_SUCCESS;
	default:
		return IBV_WC_BAD_RESP_ERR;
	}
}

/* With the lock of @qp held. The peer's receives are guarded by the peer's own, unless it is the same. */
void fake_qp_run(struct fake_qp *qp, const struct send *send)
{
	struct fake_qp *peer =
		qp->peer < MAX_QPS ? __atomic_load_n(&fake_qps[qp->peer], __ATOMIC_ACQUIRE) : NULL;
	enum ibv_wc_status status = IBV_WC_RETRY_EXC_ERR;

	if (qp->state == IBV_QPS_ERR) {
		complete_send(qp, &send->wr, IBV_WC_WR_FLUSH_ERR);
		return;
	}
	if (peer == qp) {
		status = carry_out(send, peer);
	} else if (peer) {
		pthread_spin_unlock(&qp->lock);
		pthread_spin_lock(&peer->lock);
		status = carry_out(send, peer);
		pthread_spin_unlock(&peer->lock);
		pthread_spin_lock(&qp->lock);
	}
	complete_send(qp, &send->wr, status);
	if (status != IBV_WC_SUCCESS)
		fake_qp_fail(qp);
}

static void keep(struct send *to, const struct ibv_send_wr *wr)
{
	to->wr = *wr;
	if (wr->num_sge)
		memcpy(to->sge, wr->sg_list, (size_t)wr->num_sge * sizeof(to->sge[0]));
}

static int post_send(struct ibv_qp *ibv, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct fake_qp *qp = (struct fake_qp *)(void *)ibv;
	pthread_mutex_t *order = &fake_post_locks[ibv->qp_num % 64];
	struct send send = {0};
	int result = 0;

	pthread_mutex_lock(order);
	pthread_spin_lock(&qp->lock);
	for (; wr && !result; wr = wr->next) {
		if (wr->num_sge > MAX_SGE)
			result = EINVAL;
		else if (qp->n_sends == qp->n_sends_max)
			result = ENOMEM;
		if (result) {
			*bad = wr;
			break;
		}
		qp->n_sends++;
		keep(&send, wr);
		if (qp->state == IBV_QPS_SQD)
			qp->held[qp->n_held++] = send;
		else
			fake_qp_run(qp, &send);
	}
	pthread_spin_unlock(&qp->lock);
	pthread_mutex_unlock(order);
	return result;
}

static int put_receives(struct receives *to, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	for (; wr; wr = wr->next) {
		struct receive *receive = &to->at[(to->head + to->n) % to->n_max];

		if (to->n == to->n_max || wr->num_sge > MAX_SGE) {
			*bad = wr;
			return to->n == to->n_max ? ENOMEM : EINVAL;
		}
		receive->wr_id = wr->wr_id;
		receive->n_sge = wr->num_sge;
		if (wr->num_sge)
			memcpy(receive->sge, wr->sg_list,
				(size_t)wr->num_sge * sizeof(receive->sge[0]));
		to->n++;
	}
	return 0;
}

static int post_recv(struct ibv_qp *ibv, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct fake_qp *qp = (struct fake_qp *)(void *)ibv;
	int result;

	pthread_spin_lock(&qp->lock);
	result = put_receives(&qp->receives, wr, bad);
	if (qp->state == IBV_QPS_ERR)
		fake_qp_fail(qp);
	pthread_spin_unlock(&qp->lock);
	return result;
}

static int post_srq_recv(struct ibv_srq *ibv, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct fake_srq *srq = (struct fake_srq *)(void *)ibv;
	int result;

	pthread_spin_lock(&srq->lock);
	result = put_receives(&srq->receives, wr, bad);
	pthread_spin_unlock(&srq->lock);
	return result;
}

/* ---- polling --------------------------------------------------------------------------------------- */

static int take(struct fake_cq *cq, struct completion *ret)
{
	pthread_spin_lock(&cq->lock);
	if (!cq->n) {
		pthread_spin_unlock(&cq->lock);
		return 0;
	}
	*ret = cq->at[cq->head];
	cq->head = (cq->head + 1) % cq->n_max;
	cq->n--;
	pthread_spin_unlock(&cq->lock);
	if (ret->n_released) {
		pthread_spin_lock(&ret->qp->lock);
		ret->qp->n_sends -= ret->n_released;
		pthread_spin_unlock(&ret->qp->lock);
	}
	return 1;
}

static int poll_cq(struct ibv_cq *ibv, int n_wanted, struct ibv_wc *wc)
{
	struct completion completion;
	int n = 0;

	while (n < n_wanted && take((struct fake_cq *)(void *)ibv, &completion))
		wc[n++] = completion.wc;
	return n;
}

static int next_poll(struct ibv_cq_ex *ex)
{
	struct fake_cq *cq = (struct fake_cq *)(void *)ex;

	if (!take(cq, &cq->current))
		return ENOENT;
	ex->wr_id = cq->current.wc.wr_id;
	ex->status = cq->current.wc.status;
	return 0;
}

static int start_poll(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr)
{
	(void)attr;
	return next_poll(ex);
}

static void end_poll(struct ibv_cq_ex *ex)
{
	(void)ex;
}

static enum ibv_wc_opcode read_opcode(struct ibv_cq_ex *ex)
{
	return ((struct fake_cq *)(void *)ex)->current.wc.opcode;
}

static uint32_t read_byte_len(struct ibv_cq_ex *ex)
{
	return ((struct fake_cq *)(void *)ex)->current.wc.byte_len;
}

static uint32_t read_qp_num(struct ibv_cq_ex *ex)
{
	return ((struct fake_cq *)(void *)ex)->current.wc.qp_num;
}

/* ---- ibv_wr_* -------------------------------------------------------------------------------------- */

static struct fake_qp *of(struct ibv_qp_ex *ex)
{
	return (struct fake_qp *)(void *)ex;
}

static void wr_start(struct ibv_qp_ex *ex)
{
	pthread_mutex_lock(&fake_post_locks[ex->qp_base.qp_num % 64]);
	of(ex)->n_batch = 0;
}

static struct send *build(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode)
{
	struct send *send = &of(ex)->batch[of(ex)->n_batch++ % of(ex)->n_sends_max];

	*send = (struct send){
		.wr = {.wr_id = ex->wr_id, .opcode = opcode, .send_flags = ex->wr_flags}};
	return send;
}

static void wr_send(struct ibv_qp_ex *ex)
{
	build(ex, IBV_WR_SEND);
}

static void wr_rdma_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t to)
{
	struct send *send = build(ex, IBV_WR_RDMA_WRITE);

	send->wr.wr.rdma.rkey = rkey;
	send->wr.wr.rdma.remote_addr = to;
}

static void wr_rdma_write_imm(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t to, __be32 imm)
{
	struct send *send = build(ex, IBV_WR_RDMA_WRITE_WITH_IMM);

	send->wr.wr.rdma.rkey = rkey;
	send->wr.wr.rdma.remote_addr = to;
	send->wr.imm_data = imm;
}

static void wr_set_sge(struct ibv_qp_ex *ex, uint32_t key, uint64_t address, uint32_t n)
{
	struct send *send = &of(ex)->batch[(of(ex)->n_batch - 1) % of(ex)->n_sends_max];

	send->sge[0] = (struct ibv_sge){address, n, key};
	send->wr.num_sge = 1;
}

static void wr_set_sge_list(struct ibv_qp_ex *ex, size_t n, const struct ibv_sge *list)
{
	struct send *send = &of(ex)->batch[(of(ex)->n_batch - 1) % of(ex)->n_sends_max];

	memcpy(send->sge, list, n * sizeof(*list));
	send->wr.num_sge = (int)n;
}

static void wr_set_inline_data(struct ibv_qp_ex *ex, void *data, size_t n)
{
	struct send *send = &of(ex)->batch[(of(ex)->n_batch - 1) % of(ex)->n_sends_max];

	memcpy(send->data, data, n);
	wr_set_sge(ex, 0, (uintptr_t)send->data, (uint32_t)n);
	send->wr.send_flags |= IBV_SEND_INLINE;
}

static int wr_complete(struct ibv_qp_ex *ex)
{
	struct fake_qp *qp = of(ex);
	int result = 0;

	pthread_spin_lock(&qp->lock);
	if (qp->n_sends + qp->n_batch > qp->n_sends_max)
		result = ENOMEM;
	for (uint32_t i = 0; i < qp->n_batch && !result; i++) {
		qp->n_sends++;
		if (qp->state == IBV_QPS_SQD)
			qp->held[qp->n_held++] = qp->batch[i];
		else
			fake_qp_run(qp, &qp->batch[i]);
	}
	pthread_spin_unlock(&qp->lock);
	pthread_mutex_unlock(&fake_post_locks[ex->qp_base.qp_num % 64]);
	return result;
}

static void wr_abort(struct ibv_qp_ex *ex)
{
	pthread_mutex_unlock(&fake_post_locks[ex->qp_base.qp_num % 64]);
}

void fake_cq_set_readers(struct ibv_cq_ex *cq, uint64_t wc_flags)
{
	cq->start_poll = start_poll;
	cq->next_poll = next_poll;
	cq->end_poll = end_poll;
	cq->read_opcode = read_opcode;
	if (wc_flags & IBV_WC_EX_WITH_BYTE_LEN)
		cq->read_byte_len = read_byte_len;
	if (wc_flags & IBV_WC_EX_WITH_QP_NUM)
		cq->read_qp_num = read_qp_num;
}

void fake_qp_set_builders(struct ibv_qp_ex *qp)
{
	qp->wr_start = wr_start;
	qp->wr_complete = wr_complete;
	qp->wr_abort = wr_abort;
	qp->wr_send = wr_send;
	qp->wr_rdma_write = wr_rdma_write;
	qp->wr_rdma_write_imm = wr_rdma_write_imm;
	qp->wr_set_sge = wr_set_sge;
	qp->wr_set_sge_list = wr_set_sge_list;
	qp->wr_set_inline_data = wr_set_inline_data;
}

const struct verbs_context_ops fake_ops = {
	.post_send = post_send,
	.post_recv = post_recv,
	.post_srq_recv = post_srq_recv,
	.poll_cq = poll_cq,
	.create_qp_ex = fake_create_qp_ex,
	.create_cq_ex = fake_create_cq_ex,
};
