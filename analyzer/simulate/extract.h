/* SPDX-License-Identifier: Apache-2.0 */
/* extract.h - what replay.c takes out of a run: the job's inputs and what the loop costs. */
#ifndef LAPWING_ANALYZER_SIMULATE_EXTRACT_H
#define LAPWING_ANALYZER_SIMULATE_EXTRACT_H

#include "analyzer/simulate/replay.h"

/* A fuse class: only equal responses fuse. A negative one never does. */
static inline int32_t lw_fuse_class(int op, int process_set, int dtype)
{
	return op * 65536 + (process_set & 0xff) * 256 + (dtype & 0xff);
}

static inline int lw_fuse_class_op(int32_t fuse_class) /* 0 = of one that never fuses */
{
	return fuse_class < 0 ? 0 : fuse_class / 65536;
}

static inline int32_t lw_fuse_class_with_dtype(int32_t fuse_class, int dtype)
{
	return fuse_class / 256 * 256 + (dtype & 0xff);
}

/** lw_extract_job() - tensors, ready times, settings, recorded steps. See lw_replay_new(). */
int lw_extract_job(struct lw_run *run, struct lw_replay *replay);

/**
 * lw_extract_check() - whether the replay knows what this run does: process sets, ranks that came and
 * went, NCCL. Return: LW_OK, with diags, or LW_ERR_LIMIT with the reason.
 */
int lw_extract_check(struct lw_run *run, const struct lw_replay *replay);

/** lw_extract_groups() - which tensors were sent in explicit groups, by their names. */
void lw_extract_groups(const struct lw_run *run, struct lw_replay *replay);

/** lw_extract_cost() - what rounds, copies, polls and the wire cost; after lw_extract_job(). */
int lw_extract_cost(struct lw_run *run, struct lw_replay *replay);

/**
 * lw_extract_ddp_job() - of a torch DDP run, after lw_extract_job(): limits of buckets, and gradients
 * instead of buckets where the run holds them.
 */
int lw_extract_ddp_job(const struct lw_run *run, struct lw_replay *replay);

/** lw_extract_ddp_cost() - what its wire, threads and copies cost, instead of lw_extract_cost(). */
int lw_extract_ddp_cost(const struct lw_run *run, struct lw_replay *replay);

/** lw_extract_probe() - the probe's operations back to back; @probes: room for run->probes.n. Those after a
 * pause are not what is wanted. @next: [run->ranks.n] zeros, to tell under which load each ran; NULL: training
 * threads count as computing. Return: how many. */
size_t lw_extract_probe(const struct lw_run *run, size_t *next, struct lw_wire_sample *probes);

/** lw_extract_is_counted() - step @step counts on every rank. */
bool lw_extract_is_counted(const struct lw_run *run, size_t step);

#endif /* LAPWING_ANALYZER_SIMULATE_EXTRACT_H */
