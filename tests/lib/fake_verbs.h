/* SPDX-License-Identifier: Apache-2.0 */
/* fake_verbs.h - between the parts of the libibverbs double; see fake_verbs.c. */
#ifndef LAPWING_TESTS_LIB_FAKE_VERBS_H
#define LAPWING_TESTS_LIB_FAKE_VERBS_H

#include <pthread.h>
#include <stdbool.h>

#include <infiniband/verbs.h>

#define API __attribute__((visibility("default")))

enum {
	MAX_QPS = 1 << 18,
	RKEY = 0x1234,
	MAX_SGE = 8,
	INLINE_BYTES = 64,
	WORD = 0x600d0000 /* arguments that nobody may change: WORD + 1, ... */
};

struct receive {
	uint64_t wr_id;
	struct ibv_sge sge[MAX_SGE];
	int n_sge;
};

struct receives { /* a ring */
	struct receive *at;
	uint32_t n_max, head, n;
};

struct send {
	struct ibv_send_wr wr;
	struct ibv_sge sge[MAX_SGE];
	char data[INLINE_BYTES];
};

struct fake_qp;

struct completion {
	struct ibv_wc wc;
	struct fake_qp *qp;
	uint32_t n_released; /* places in the send queue */
};

struct verbs_mr {
	struct ibv_mr mr;
};

struct fake_cq {
	struct ibv_cq_ex ex;
	pthread_spinlock_t lock;
	struct completion *at, current;
	struct verbs_mr ring; /* FAKE_VERBS_RINGS */
	uint32_t n_max, head, n;
};

struct fake_srq {
	struct ibv_srq srq;
	pthread_spinlock_t lock;
	struct receives receives;
};

struct fake_qp {
	struct ibv_qp_ex ex;
	pthread_spinlock_t lock;
	enum ibv_qp_state state;
	uint32_t peer;
	int is_signal_all;
	uint32_t n_sends_max, n_sends,
		n_silent;          /* in the send queue; of these since a completion */
	struct send *held, *batch; /* in SQD; between wr_start and wr_complete */
	uint32_t n_held, n_batch;
	struct receives receives;
};

struct verbs_context_ops {
	int (*post_send)(struct ibv_qp *, struct ibv_send_wr *, struct ibv_send_wr **);
	int (*post_recv)(struct ibv_qp *, struct ibv_recv_wr *, struct ibv_recv_wr **);
	int (*post_srq_recv)(struct ibv_srq *, struct ibv_recv_wr *, struct ibv_recv_wr **);
	int (*poll_cq)(struct ibv_cq *, int, struct ibv_wc *);
	struct ibv_qp *(*create_qp_ex)(struct ibv_context *, struct ibv_qp_init_attr_ex *);
	struct ibv_cq_ex *(*create_cq_ex)(struct ibv_context *, struct ibv_cq_init_attr_ex *);
};
API void verbs_set_ops(struct verbs_context *context, const struct verbs_context_ops *ops);
API struct ibv_context *verbs_open_device(struct ibv_device *of, void *private_data);
API int ibv_cmd_alloc_pd(struct ibv_context *context, struct ibv_pd *pd, void *command,
	size_t command_bytes, void *response, size_t response_bytes);
struct verbs_qp; /* begins with an ibv_qp_ex */
/* With room for the arguments of all releases; the last ones are given by older ones only. */
API int ibv_cmd_create_qp_ex(struct ibv_context *context, struct verbs_qp *qp, uintptr_t a,
	uintptr_t b, uintptr_t c, uintptr_t d, uintptr_t e, uintptr_t f);
API int ibv_cmd_create_qp_ex2(struct ibv_context *context, struct verbs_qp *qp, uintptr_t a,
	uintptr_t b, uintptr_t c, uintptr_t d, uintptr_t e, uintptr_t f, uintptr_t g, uintptr_t h);
API int ibv_cmd_create_qp(struct ibv_pd *pd, struct ibv_qp *qp, struct ibv_qp_init_attr *attr,
	void *command, size_t command_bytes, void *response, size_t response_bytes);
API struct ibv_qp *fakedv_create_qp(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr);
API int ibv_cmd_modify_qp(
	struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask, void *command, size_t command_bytes);
API int ibv_cmd_destroy_qp(struct ibv_qp *qp);
API int ibv_cmd_destroy_srq(struct ibv_srq *srq);
API int ibv_cmd_reg_mr(struct ibv_pd *pd, void *address, size_t n, uint64_t device_address,
	int access, struct verbs_mr *mr, void *command, size_t command_bytes, void *response,
	size_t response_bytes);
API int ibv_cmd_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t n, uint64_t device_address,
	int fd, int access, struct verbs_mr *mr);
API int ibv_cmd_rereg_mr(struct verbs_mr *mr, uint32_t flags, void *address, size_t n,
	uint64_t device_address, int access, struct ibv_pd *pd, void *command, size_t command_bytes,
	void *response, size_t response_bytes);
API int ibv_cmd_dereg_mr(struct verbs_mr *mr);

extern struct fake_qp *fake_qps[MAX_QPS];
extern bool fake_is_garbage;
extern pthread_mutex_t fake_post_locks[64];
extern const struct verbs_context_ops fake_ops;

void fake_qp_fail(struct fake_qp *qp); /* with its lock held */
void fake_qp_run(struct fake_qp *qp, const struct send *send);
void fake_cq_set_readers(struct ibv_cq_ex *cq, uint64_t wc_flags);
void fake_qp_set_builders(struct ibv_qp_ex *qp);
struct ibv_qp *fake_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr);
struct ibv_cq_ex *fake_create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr);

#endif /* LAPWING_TESTS_LIB_FAKE_VERBS_H */
