/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verbs_cases.c - `verbs_cases CASE...`: RDMA traffic within this process, and an account of it.
 *
 * Runs on the double (tests/lib/fake_verbs.c) by LD_LIBRARY_PATH, or on a real device (soft-RoCE); cases
 * that only the double can do are marked.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/e2e/programs/verbs_cases.h"

struct rig rig;

/* ---- on any device --------------------------------------------------------------------------------- */

/* Sends, writes, reads and atomics of many sizes, each with a completion. */
static void case_rc(void)
{
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_SEND, IBV_WR_RDMA_WRITE,
		IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_ATOMIC_FETCH_AND_ADD};
	struct ibv_qp *ends[2];
	struct ibv_sge sge;

	rig_pair(&rig, NULL, ends);
	for (int i = 0; i < 100; i++) {
		enum ibv_wr_opcode opcode = opcodes[i % 5];
		uint32_t n = opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ? 8 : (uint32_t)(i * 313 + 1);
		struct ibv_send_wr wr = rig_wr(&rig, &sge, opcode, n);
		bool is_received = opcode == IBV_WR_SEND || opcode == IBV_WR_RDMA_WRITE_WITH_IMM;

		if (is_received)
			rig_post_recv(&rig, ends[1], (uint64_t)i, 65536);
		wr.wr_id = (uint64_t)i + 1000;
		wr.send_flags = IBV_SEND_SIGNALED;
		rig_post_send(ends[0], &wr);
		rig_poll(&rig, is_received ? 2 : 1, NULL);
	}
	end_pair(ends);
}

/* One of 16 has a completion, and both directions share a completion queue. */
static void case_unsignalled(void)
{
	struct ibv_qp *ends[2];
	struct ibv_sge sge;

	rig_pair(&rig, NULL, ends);
	for (int i = 0; i < 320; i++) {
		for (int end = 0; end < 2; end++) {
			struct ibv_send_wr wr =
				rig_wr(&rig, &sge, IBV_WR_RDMA_WRITE, 64 + (uint32_t)i);

			wr.wr_id = (uint64_t)i;
			wr.send_flags = i % 16 == 15 ? IBV_SEND_SIGNALED : 0;
			if (i % 3 == 0) {
				wr.send_flags |= IBV_SEND_INLINE;
				sge.length = 17;
			}
			rig_post_send(ends[end], &wr);
		}
		if (i % 16 == 15)
			rig_poll(&rig, 2, NULL);
	}
	end_pair(ends);
}

/* Two queue pairs receive from one shared queue, which is filled in another order than it is used in. */
static void case_srq(void)
{
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = 256, .max_sge = 1}};
	struct ibv_srq *srq = v.ibv_create_srq(rig.pd, &attr);
	struct ibv_qp *a[2], *b[2];
	struct ibv_sge sge;

	must(srq);
	rig_pair(&rig, srq, a);
	rig_pair(&rig, srq, b);
	for (int i = 0; i < 64; i++)
		rig_post_recv(&rig, a[0], (uint64_t)(64 - i), 65536);
	for (int i = 0; i < 120; i++) {
		struct ibv_send_wr wr = rig_wr(&rig, &sge, IBV_WR_SEND, (uint32_t)i * 97);

		wr.wr_id = (uint64_t)i;
		wr.send_flags = i % 4 == 3 ? IBV_SEND_SIGNALED : 0;
		rig_post_send(i / 4 % 2 ? a[0] : b[1], &wr);
		rig_poll(&rig, i % 4 == 3 ? 2 : 1, NULL);
		rig_post_recv(&rig, a[0], (uint64_t)i, 65536);
	}
	end_pair(a);
	end_pair(b);
	must(v.ibv_destroy_srq(srq) == 0);
}

/* The newer interface: chains, inline data, lists of buffers, and a chain that is taken back. */
static void case_wr(void)
{
	struct ibv_qp *ends[2] = {rig_qp_ex(&rig), rig_qp_ex(&rig)};
	struct ibv_qp_ex *qp = v.ibv_qp_to_qp_ex(ends[0]);
	uint64_t to = (uintptr_t)rig.buffer + RIG_BYTES / 2;
	struct ibv_sge list[3];
	char text[40] = "inline";
	/* librxe of rdma-core 44 forgets the length of a list, and the flag of inline data. */
	bool is_rxe = !strncmp(rig.context->device->name, "rxe", 3);

	rig_connect(&rig, ends[0], ends[1]->qp_num);
	rig_connect(&rig, ends[1], ends[0]->qp_num);
	for (int i = 0; i < 3; i++)
		list[i] = (struct ibv_sge){(uintptr_t)rig.buffer, 100 + (uint32_t)i, rig.mr->lkey};
	for (int i = 0; i < 50; i++) {
		ibv_wr_start(qp);
		qp->wr_id = (uint64_t)i;
		qp->wr_flags = 0;
		ibv_wr_rdma_write(qp, rig.mr->rkey, to);
		if (is_rxe)
			ibv_wr_set_sge(qp, rig.mr->lkey, (uintptr_t)rig.buffer, 303);
		else
			ibv_wr_set_sge_list(qp, 3, list);
		qp->wr_flags = is_rxe ? IBV_SEND_INLINE : 0;
		ibv_wr_rdma_write(qp, rig.mr->rkey, to);
		ibv_wr_set_inline_data(qp, text, sizeof(text));
		if (i % 10 == 9) {
			ibv_wr_abort(qp);
			continue;
		}
		rig_post_recv(&rig, ends[1], 7, 4096);
		qp->wr_flags = IBV_SEND_SIGNALED;
		ibv_wr_send(qp);
		ibv_wr_set_sge(qp, rig.mr->lkey, (uintptr_t)rig.buffer, 1000 + (uint32_t)i);
		must(ibv_wr_complete(qp) == 0);
		rig_account(ends[0]->qp_num, OP_WRITE, 0, 303);
		rig_account(ends[0]->qp_num, OP_WRITE, 0, 40);
		rig_account(ends[0]->qp_num, OP_SEND, 0, 1000 + (uint64_t)i);
		rig_poll(&rig, 2, NULL);
	}
	end_pair(ends);
}

/* A key that nobody gave out: an error, and then everything on that queue pair is flushed. */
static void case_error(void)
{
	struct ibv_qp *ends[2];
	struct ibv_send_wr wr, *bad;
	struct ibv_sge sge;
	struct ibv_wc wc[12];

	rig_pair(&rig, NULL, ends);
	for (int i = 0; i < 3; i++)
		rig_post_recv(&rig, ends[0], 500 + (uint64_t)i, 4096);
	for (int i = 0; i < 2; i++) { /* done, though nobody is told */
		wr = rig_wr(&rig, &sge, IBV_WR_RDMA_WRITE, 100);
		wr.wr_id = (uint64_t)i;
		rig_post_send(ends[0], &wr);
	}
	wr = rig_wr(&rig, &sge, IBV_WR_RDMA_WRITE, 2000);
	wr.wr_id = 2;
	wr.wr.rdma.rkey = 0xdead;
	must(ibv_post_send(ends[0], &wr, &bad) == 0);
	rig_account(ends[0]->qp_num, OP_WRITE, IBV_WC_REM_ACCESS_ERR, 2000);
	rig_poll(&rig, 4, wc); /* and the receives, in whatever order */
	for (int i = 0; i < 4; i++)
		must(wc[i].status ==
			(wc[i].wr_id == 2 ? IBV_WC_REM_ACCESS_ERR : IBV_WC_WR_FLUSH_ERR));
	for (int i = 0; i < 2; i++) {
		wr = rig_wr(&rig, &sge, IBV_WR_RDMA_WRITE, 300);
		wr.wr_id = 10 + (uint64_t)i;
		must(ibv_post_send(ends[0], &wr, &bad) == 0);
		rig_account(ends[0]->qp_num, OP_WRITE, IBV_WC_WR_FLUSH_ERR, 300);
	}
	rig_poll(&rig, 2, wc);
	must(wc[0].status == IBV_WC_WR_FLUSH_ERR && wc[1].status == IBV_WC_WR_FLUSH_ERR);
	for (int i = 0; i < 3; i++)
		rig_account(ends[0]->qp_num, OP_RECV, IBV_WC_WR_FLUSH_ERR, 0);
	end_pair(ends);
}

/* sq_sig_all: nothing asks for a completion, and everything gets one. */
static void case_signal_all(void)
{
	struct ibv_qp *ends[2] = {rig_qp(&rig, NULL, true), rig_qp(&rig, NULL, true)};
	struct ibv_sge sge;

	rig_connect(&rig, ends[0], ends[1]->qp_num);
	rig_connect(&rig, ends[1], ends[0]->qp_num);
	for (int i = 0; i < 40; i++) {
		struct ibv_send_wr wr = rig_wr(&rig, &sge, IBV_WR_RDMA_WRITE, 50 + (uint32_t)i);

		wr.wr_id = (uint64_t)i;
		rig_post_send(ends[0], &wr);
		if (i % 4 == 3)
			rig_poll(&rig, 4, NULL);
	}
	end_pair(ends);
}

/* Registered memory comes and goes. */
static void case_memory(void)
{
	struct ibv_qp *qp = rig_qp(&rig, NULL, false);
	struct ibv_mr *a = v.ibv_reg_mr(rig.pd, rig.buffer, 4096, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_mr *b = v.ibv_reg_mr_iova2(
		rig.pd, rig.buffer, 8192, (uintptr_t)rig.buffer, IBV_ACCESS_RELAXED_ORDERING);

	must(a && b);
	must(!v.ibv_reg_dmabuf_mr(rig.pd, 0, 4096, 0, -1, 0));
	must(v.ibv_dereg_mr(a) == 0);
	must(v.ibv_rereg_mr(b, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, rig.buffer, 12288, 0) == 0);
	printf("memory %d %d %d\n", RIG_BYTES + 12288, 2,
		3); /* at the exit: b and that of the rig */
	must(v.ibv_destroy_qp(qp) == 0);
	rig_print_account();
	exit(0);
}

/* ---- extended completion queues ---------------------------------------------------------------------- */

/* @flags: which fields the job asks for. */
static struct ibv_cq_ex *make_cq_ex(uint64_t flags)
{
	struct ibv_cq_init_attr_ex attr = {.cqe = 512, .wc_flags = flags};
	struct ibv_cq_ex *cq = ibv_create_cq_ex(rig.context, &attr);

	must(cq);
	return cq;
}

static void use_cq_ex(struct ibv_cq_ex *cq, uint64_t flags)
{
	struct ibv_cq *usual = rig.cq;
	struct ibv_poll_cq_attr poll = {0};
	struct ibv_qp *ends[2];
	struct ibv_sge sge;
	int n = 0;

	rig.cq = ibv_cq_ex_to_cq(cq);
	rig_pair(&rig, NULL, ends);
	for (int i = 0; i < 30; i++) {
		struct ibv_send_wr wr = rig_wr(&rig, &sge, IBV_WR_SEND, 100 + (uint32_t)i);

		rig_post_recv(&rig, ends[1], (uint64_t)i, 4096);
		wr.wr_id = (uint64_t)i;
		wr.send_flags = IBV_SEND_SIGNALED;
		rig_post_send(ends[0], &wr);
		rig_account(ends[1]->qp_num, OP_RECV, 0,
			flags & IBV_WC_EX_WITH_BYTE_LEN ? 100 + (uint64_t)i : 0);
	}
	while (n < 60) {
		int result = ibv_start_poll(cq, &poll);

		must(result == 0 || result == ENOENT);
		if (result)
			continue;
		do {
			n++;
			must(cq->status == IBV_WC_SUCCESS);
		} while (ibv_next_poll(cq) == 0);
		if (!rig_is_real(&rig)) /* librxe of rdma-core 44 has ended it then */
			ibv_end_poll(cq);
	}
	must(n == 60 && ibv_start_poll(cq, &poll) == ENOENT);
	end_pair(ends);
	must(v.ibv_destroy_cq(rig.cq) == 0);
	rig.cq = usual;
}

static void cq_ex(uint64_t flags)
{
	use_cq_ex(make_cq_ex(flags), flags);
}

/* It is the first that is made of a context. */
static void case_cq_ex_first(void)
{
	const uint64_t flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_QP_NUM;
	struct ibv_cq_ex *cq;

	rig_close(&rig);
	rig_open_device(&rig);
	cq = make_cq_ex(flags);
	rig_fill(&rig);
	use_cq_ex(cq, flags);
}

static void case_cq_ex(void)
{
	cq_ex(IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_QP_NUM);
}

static void case_cq_ex_unsized(void)
{
	cq_ex(IBV_WC_EX_WITH_QP_NUM);
}

/* The job tells its queue pairs apart by the wr_id. */
static void case_cq_ex_unnamed(void)
{
	cq_ex(IBV_WC_EX_WITH_BYTE_LEN);
}

/* The parent has a queue pair; the child opens a context of its own. Both go on. */
static void case_fork(void)
{
	struct rig own = rig;
	struct ibv_qp *ends[2];
	struct ibv_sge sge;
	struct ibv_send_wr wr;
	int status;
	pid_t child;

	rig_pair(&rig, NULL, ends);
	wr = rig_wr(&rig, &sge, IBV_WR_RDMA_WRITE, 1111);
	wr.send_flags = IBV_SEND_SIGNALED;
	rig_post_send(ends[0], &wr);
	fflush(stdout);
	child = fork();
	if (child == 0) {
		rig_forget_account();
		rig_open(&rig);
		case_unsignalled();
		rig_close(&rig);
		printf("child\n");
		rig_print_account();
		printf("parent\n");
		fflush(stdout);
		_exit(0);
	}
	must(waitpid(child, &status, 0) == child && status == 0);
	rig = own;
	rig_poll(&rig, 1, NULL);
	end_pair(ends);
}

/* The library goes and comes back. */
static void case_reload(void) /* double, by dlvsym */
{
	case_rc();
	rig_close(&rig);
	rig_unload();
	rig_load();
	rig_open(&rig);
	case_rc();
}

static long resident_bytes(void)
{
	FILE *file = fopen("/proc/self/statm", "re");
	long n_all, n = 0;

	must(file && fscanf(file, "%ld %ld", &n_all, &n) == 2);
	fclose(file);
	return n * sysconf(_SC_PAGESIZE);
}

/* Everything that is mapped from now on is in memory at once, as HPC codes want it. */
static void case_locked(void) /* double */
{
	struct ibv_qp *qp;
	long before;

	must(mlockall(MCL_FUTURE) == 0);
	before = resident_bytes();
	qp = rig_qp(&rig, NULL, false);
	printf("locked %ld\n", resident_bytes() - before);
	must(v.ibv_destroy_qp(qp) == 0);
}

/* Looks at a device, as tools do that start in every job. */
static void case_inert(void)
{
}

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
	{"rc", case_rc},
	{"unsignalled", case_unsignalled},
	{"srq", case_srq},
	{"wr", case_wr},
	{"error", case_error},
	{"signal_all", case_signal_all},
	{"memory", case_memory},
	{"destroyed", case_destroyed},
	{"reset", case_reset},
	{"exit", case_exit},
	{"full", case_full},
	{"list", case_list},
	{"long_list", case_long_list},
	{"many", case_many},
	{"too_many", case_too_many},
	{"threads", case_threads},
	{"cq_ex", case_cq_ex},
	{"cq_ex_first", case_cq_ex_first},
	{"cq_ex_unsized", case_cq_ex_unsized},
	{"cq_ex_unnamed", case_cq_ex_unnamed},
	{"fork", case_fork},
	{"reload", case_reload},
	{"locked", case_locked},
	{"inert", case_inert},
};

int main(int argc, char **argv)
{
	rig_load();
	rig_open(&rig);
	for (int i = 1; i < argc; i++) {
		size_t at = 0;

		while (at < sizeof(cases) / sizeof(cases[0]) &&
			strcmp(cases[at].name, argv[i]) != 0)
			at++;
		must(at < sizeof(cases) / sizeof(cases[0]));
		cases[at].run();
	}
	rig_close(&rig);
	rig_print_account();
	return 0;
}
