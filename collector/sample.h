/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sample.h - what the kernel counts beside the job: NICs, RDMA ports, TCP connections, CPU times.
 *
 * The collector calls these from its loop:
 *	lw_samplers_run()      look, at least every lw_samplers_period_ns()
 *	lw_samplers_store()    what was seen becomes rows, in the collector's own transaction
 * Which samplers there are: the table in sample.c. Each has a share of one core that it may take; where a
 * look costs more, it looks less often, and table sampler says so. What cannot be read is a row in loss.
 */
#ifndef LAPWING_COLLECTOR_SAMPLE_H
#define LAPWING_COLLECTOR_SAMPLE_H

#include <stdbool.h>
#include <stdint.h>

struct lw_drain;
struct lw_process;
struct lw_record_list;
struct lw_writer;

#define LW_SAMPLE_MAX_NS     INT64_C(60000000000)
#define LW_SAMPLE_DEFAULT_MS 100

struct lw_sample_options {
	int64_t period_ns;      /* 0 = CPU times only */
	const char *sysfs_root; /* NULL = /sys; else NICs are read from there as files too */
};

struct lw_samplers;

/** lw_sample_period_ns() - "100" (ms, may have a fraction; 0 = never). Return: ns; -1: not from 1 to a minute. */
int64_t lw_sample_period_ns(const char *text);

/**
 * lw_samplers_open() - @drain: its rings have the processes and threads whose CPU times are read.
 * Both are used until lw_samplers_close(). Return: LW_OK; LW_ERR_NOMEM, _IO.
 */
int lw_samplers_open(const struct lw_sample_options *options, const struct lw_drain *drain,
	struct lw_writer *writer, struct lw_samplers **ret_samplers);

/** lw_samplers_close() - before its writer is closed; NULL is allowed. */
void lw_samplers_close(struct lw_samplers *samplers);

/** lw_samplers_period_ns() - how often to call lw_samplers_run() at least; INT64_MAX = twice a second is enough. */
int64_t lw_samplers_period_ns(const struct lw_samplers *samplers);

/** lw_samplers_run() - take the samples that are due. Never fails: what does is counted. */
void lw_samplers_run(struct lw_samplers *samplers, int64_t now_ns);

/** lw_samplers_process() - @process, which has its row, belongs to the job. */
void lw_samplers_process(struct lw_samplers *samplers, const struct lw_process *process);

/** lw_samplers_process_ended() - its namespace is let go when no other process of the job is in there. */
void lw_samplers_process_ended(struct lw_samplers *samplers, const struct lw_process *process);

/** lw_samplers_sockets() - connections that the hook has just announced need not be searched for. */
void lw_samplers_sockets(struct lw_samplers *samplers, const struct lw_record_list *sockets);

/** lw_samplers_must_store() - enough waits, or has waited for long enough, to be worth a transaction. */
bool lw_samplers_must_store(const struct lw_samplers *samplers, int64_t now_ns);

/** lw_samplers_store() - rows for what waits; inside a transaction. Return: LW_OK or the store's error. */
int lw_samplers_store(struct lw_samplers *samplers);

/** lw_samplers_finish() - last look, last rows; inside a transaction. Return: LW_OK or the store's error. */
int lw_samplers_finish(struct lw_samplers *samplers, int64_t now_ns);

#endif /* LAPWING_COLLECTOR_SAMPLE_H */
