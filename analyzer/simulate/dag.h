/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dag.h - when operations end that wait for each other and share devices and links.
 *
 * Reads and writes nothing: a graph is built, run once and asked. Times are ns since the start, sizes
 * bytes, all double, since these are model values.
 * Not for: which operations a job has (fine.h), or decisions while it runs: who waits for whom is fixed
 * before it starts.
 *
 * The fine-grained class of models of Li, Paolieri, Golubchik, Lin, Yan, TPDS 33(11), 2022: elementary
 * operations with dependencies, on devices that serve one at a time and links that are shared.
 */
#ifndef LAPWING_ANALYZER_SIMULATE_DAG_H
#define LAPWING_ANALYZER_SIMULATE_DAG_H

#include <stddef.h>
#include <stdint.h>

enum lw_dag_kind {
	LW_DAG_DELAY, /* any number at once, each for its own time: latencies. Work in ns. */
	LW_DAG_FIFO, /* a device: one at a time, in the order in which they became ready. Work in ns. */
	LW_DAG_TICK, /* ends at the first multiple of the period at or after it is ready, plus its work in ns */
	LW_DAG_LINK, /* processor sharing: each of k active flows gets 1 / k of the rate. Work in bytes. */
};

enum { LW_DAG_NONE = UINT32_MAX };

struct lw_dag;

/** lw_dag_new() - an empty graph. Return: NULL without memory. */
struct lw_dag *lw_dag_new(void);
void lw_dag_free(struct lw_dag *dag);

/*
 * The next three only note what there is; without memory they note that, and lw_dag_run() tells.
 */

/**
 * lw_dag_resource() - @figure: period of a TICK in ns (0 = every moment is one), rate of a LINK in bytes
 * per ns (> 0), else ignored. Return: its number.
 */
uint32_t lw_dag_resource(struct lw_dag *dag, enum lw_dag_kind kind, double figure);

/**
 * lw_dag_op() - an operation of @work >= 0 on @resource. Return: its number, from 0.
 */
uint32_t lw_dag_op(struct lw_dag *dag, uint32_t resource, double work);

/**
 * lw_dag_flow() - @bytes that cross two links at once, as from one rank's way out to another's way in. Its
 * rate is the lesser of its two shares; what it leaves of the other link's share nobody else gets.
 */
uint32_t lw_dag_flow(struct lw_dag *dag, uint32_t out_link, uint32_t in_link, double bytes);

/** lw_dag_after() - @op begins when @before has ended; LW_DAG_NONE: nothing to wait for. */
void lw_dag_after(struct lw_dag *dag, uint32_t op, uint32_t before);

/** lw_dag_n() - operations so far. */
uint32_t lw_dag_n(const struct lw_dag *dag);

/**
 * lw_dag_run() - simulate. Same graph, same times: what happens at one moment happens in the order of
 * the numbers. Cost: operations times flows that are active at once.
 * Return: LW_OK, LW_ERR_NOMEM, LW_ERR_STATE (operations wait for each other in a circle).
 */
int lw_dag_run(struct lw_dag *dag);

/** lw_dag_end_ns() - end of an operation, after lw_dag_run(). */
double lw_dag_end_ns(const struct lw_dag *dag, uint32_t op);

/** lw_dag_makespan_ns() - end of the last one; 0 for an empty graph. */
double lw_dag_makespan_ns(const struct lw_dag *dag);

#endif /* LAPWING_ANALYZER_SIMULATE_DAG_H */
