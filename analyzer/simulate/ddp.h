/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ddp.h - torch's DistributedDataParallel over Gloo, simulated over a chain of steps.
 *
 * Reads:  when each gradient is complete, limits of buckets, costs.   Writes: the length of every step.
 * Not for: where the inputs come from (extract_ddp.c) or which limits are best (advise/).
 *
 * What is modelled, as torch 1.13 to 2.x does it:
 *  - gradients are put into buckets in the order in which they were complete in the first pass of rank
 *    0; a bucket is full when it holds its limit or more, so it may exceed it by one gradient. The
 *    first bucket has its own, smaller limit. Each type of elements has its own buckets;
 *  - a bucket is queued on a rank when its last gradient is complete and all earlier buckets have been
 *    queued. Worker threads (2 for each network device) take buckets in that order, so as many
 *    all-reduces run at a time; each starts on the wire when the last rank has taken it;
 *  - an operation first spends its fixed cost, which hides behind others that run meanwhile; then it
 *    shares the wire equally with those that do the same. Together they get done `sharing` times what
 *    one gets done alone: 1 on a link that one of them fills, more where each has idle moments;
 *  - when its backward pass is over, the training thread waits for one bucket after the other, and
 *    copies each back into the gradients.
 */
#ifndef LAPWING_ANALYZER_SIMULATE_DDP_H
#define LAPWING_ANALYZER_SIMULATE_DDP_H

#include "analyzer/simulate/hvd_cycle.h"

enum { LW_DDP_CLASSES = 16, LW_DDP_MAX_THREADS = 64 };

struct lw_ddp_setting {
	uint64_t first_bytes,
		cap_bytes; /* limits, of gradients: of the first bucket, of the others */
	double wire_frac;  /* bytes sent for a byte of a gradient */
	bool is_static; /* buckets are never rebuilt: made in the order of registration, last first */
	bool is_fixed;      /* each tensor is a bucket of its own */
	uint32_t n_threads; /* operations at a time, 1 .. LW_DDP_MAX_THREADS */
};

struct lw_ddp_cost {
	/* time of one collective that runs alone, from the last rank's start to the end, ns */
	double (*wire_ns)(const void *context, const struct lw_hvd_op *op);
	const void *context;
	double fixed_ns;    /* of that: does not keep the wire from others */
	double more_ns;     /* than wire_ns says, an operation: how unsure its fixed cost is */
	double sharing;     /* 1 .. n_threads */
	double dispatch_ns; /* from a bucket's last gradient to its start, when a thread is free */
	double wake_ns;     /* from its end to the training thread that waits for it */
	double copy_ns_per_byte;   /* back into the gradients, of bytes sent */
	double finish_ns_per_byte; /* more, when compressed gradients become whole again */
	double last_bytes; /* sent in the last bucket as recorded: its copy is in the ready times */
};

/* One all-reduce, as every rank saw it: arrays by rank. Times since the first step began. */
struct lw_ddp_op {
	uint32_t step, bucket;
	uint64_t bytes;
	const int64_t *queued_ns, *start_ns;
	int64_t end_ns;
};

struct lw_ddp_observer { /* what a test or a run generator may watch; each may be NULL */
	void (*op)(void *context, const struct lw_ddp_op *op); /* by end */
	void (*step)(void *context, uint32_t step, const int64_t *start_ns,
		const int64_t *blocked_ns, const int64_t *resumed_ns, const int64_t *end_ns);
	void *context;
};

/**
 * lw_ddp_assign() - torch's compute_bucket_assignment_by_size, and the order in which buckets are sent.
 * @tensors: bytes as sent; fuse_class 0 .. LW_DDP_CLASSES - 1 keeps types apart. In the order of the
 * first pass or, for a static assignment, of registration
 * @ret_bucket_of: [n], the bucket of each tensor, 0 = sent first
 * @scratch: [n]
 * Where several types leave an unfilled bucket at the end, torch's order of these is not defined; here
 * it is that of their first tensor. Return: number of buckets.
 */
uint32_t lw_ddp_assign(const struct lw_hvd_tensor *tensors, uint32_t n,
	const struct lw_ddp_setting *setting, uint32_t *ret_bucket_of, uint32_t *scratch);

/**
 * lw_ddp_as_buckets() - @input with each bucket as one tensor, ready when its last gradient is and all
 * buckets before it are; none of them fuses.
 * @ret_input: one block, free() it. Return: LW_OK, LW_ERR_NOMEM.
 */
int lw_ddp_as_buckets(const struct lw_hvd_input *input, const struct lw_ddp_setting *setting,
	struct lw_hvd_input **ret_input);

/**
 * lw_ddp_sim_run() - simulate all steps of @input, one after the other on every rank.
 * Pure: equal arguments, equal results.
 * @ret_step_ns: [step][rank], ns, written in full
 * @ret_totals: may be NULL; n_rounds, agree_ns and behind_ns stay 0
 * @observer: may be NULL
 * Return: LW_OK, LW_ERR_NOMEM.
 */
int lw_ddp_sim_run(const struct lw_hvd_input *input, const struct lw_ddp_setting *setting,
	const struct lw_ddp_cost *cost, int64_t *ret_step_ns, struct lw_hvd_totals *ret_totals,
	const struct lw_ddp_observer *observer);

#endif /* LAPWING_ANALYZER_SIMULATE_DDP_H */
