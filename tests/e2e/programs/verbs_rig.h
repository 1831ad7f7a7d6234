/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verbs_rig.h - queue pairs for programs that the tests trace, on the double or on a real device, and an
 * account of what such a program posted and polled: "sum QP OP STATUS N BYTES", to be compared with
 * what was recorded. With VERBS_BY_DLVSYM every function is fetched as NCCL fetches them.
 */
#ifndef LAPWING_TESTS_E2E_PROGRAMS_VERBS_RIG_H
#define LAPWING_TESTS_E2E_PROGRAMS_VERBS_RIG_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#undef ibv_reg_mr

/* X(name, symbol version) */
#define VERBS(X)                                                                                   \
	X(ibv_get_device_list, "IBVERBS_1.1")                                                      \
	X(ibv_free_device_list, "IBVERBS_1.1")                                                     \
	X(ibv_open_device, "IBVERBS_1.1")                                                          \
	X(ibv_close_device, "IBVERBS_1.1")                                                         \
	X(ibv_alloc_pd, "IBVERBS_1.1")                                                             \
	X(ibv_dealloc_pd, "IBVERBS_1.1")                                                           \
	X(ibv_reg_mr, "IBVERBS_1.1")                                                               \
	X(ibv_reg_mr_iova2, "IBVERBS_1.8")                                                         \
	X(ibv_reg_dmabuf_mr, "IBVERBS_1.12")                                                       \
	X(ibv_rereg_mr, "IBVERBS_1.1")                                                             \
	X(ibv_dereg_mr, "IBVERBS_1.1")                                                             \
	X(ibv_create_cq, "IBVERBS_1.1")                                                            \
	X(ibv_destroy_cq, "IBVERBS_1.1")                                                           \
	X(ibv_create_srq, "IBVERBS_1.1")                                                           \
	X(ibv_destroy_srq, "IBVERBS_1.1")                                                          \
	X(ibv_create_qp, "IBVERBS_1.1")                                                            \
	X(ibv_modify_qp, "IBVERBS_1.1")                                                            \
	X(ibv_destroy_qp, "IBVERBS_1.1")                                                           \
	X(ibv_qp_to_qp_ex, "IBVERBS_1.6")

struct verbs {
#define X(name, version) __typeof__(&name) name;
	VERBS(X)
#undef X
};
extern struct verbs v;

enum { RIG_BYTES = 1 << 20, RIG_DEPTH = 128, RIG_MAX_QPS = 200000 };

struct rig {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	char *buffer; /* RIG_BYTES: the first half is sent from, the second is written to */
	int gid_index;
	union ibv_gid gid;
};

/* What "must" wants is there, or the program ends and says so. */
#define must(condition)                                                                            \
	do {                                                                                       \
		if (!(condition))                                                                  \
			rig_fail(#condition, __FILE__, __LINE__);                                  \
	} while (0)
void rig_fail(const char *condition, const char *file, int line) __attribute__((noreturn));

void rig_load(void);            /* the library: linked, or by dlopen and dlvsym */
void rig_unload(void);          /* by dlclose, where that applies */
void rig_open(struct rig *rig); /* both of these */
void rig_open_device(struct rig *rig);
void rig_fill(struct rig *rig);
void rig_close(struct rig *rig);
bool rig_is_real(const struct rig *rig); /* not the double */

struct ibv_qp *rig_qp(struct rig *rig, struct ibv_srq *srq, bool is_signal_all);
struct ibv_qp *rig_qp_ex(struct rig *rig);
void rig_connect(struct rig *rig, struct ibv_qp *qp, uint32_t peer);
void rig_connect_to(struct rig *rig, struct ibv_qp *qp, uint32_t peer, const union ibv_gid *gid);
void rig_state(struct ibv_qp *qp, enum ibv_qp_state state);
/* Two queue pairs, each the other's peer. */
void rig_pair(struct rig *rig, struct ibv_srq *srq, struct ibv_qp *ends[2]);

/* The account: by queue pair number. */
enum op {
	OP_SEND = 1,
	OP_WRITE = 4,
	OP_WRITE_IMM = 5,
	OP_READ = 6,
	OP_ADD = 8,
	OP_RECV = 14,
	OP_RECV_WRITE = 15
};
enum { NO_STATUS = -1 };
void rig_account(uint32_t qp, int op, int status, uint64_t bytes);
void rig_print_account(void);
void rig_forget_account(void);

/* Posts that must succeed, and are in the account when they complete well. */
struct ibv_send_wr rig_wr(
	struct rig *rig, struct ibv_sge *sge, enum ibv_wr_opcode opcode, uint32_t n_bytes);
void rig_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr);
void rig_post_recv(struct rig *rig, struct ibv_qp *qp, uint64_t wr_id, uint32_t n_bytes);
/* Polls until @n completions came; receives go into the account. */
void rig_poll(struct rig *rig, int n, struct ibv_wc *ret);

#endif /* LAPWING_TESTS_E2E_PROGRAMS_VERBS_RIG_H */
