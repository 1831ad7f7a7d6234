/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fine.h - a job as a graph of computing, messages and shared links: all-reduce, parameter server.
 *
 * Pure: a job in, the ends of its steps out. Built on dag.h. Every rank has one link out and one link in
 * of the same rate (full duplex); so has the server. Switches cost nothing.
 * Not for: Horovod's loop as it decides (hvd_cycle.h): which batches there are, and which of them share a
 * round, is given. For a recorded run fine_run.h makes that up.
 */
#ifndef LAPWING_ANALYZER_SIMULATE_FINE_H
#define LAPWING_ANALYZER_SIMULATE_FINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyzer/model/topology.h"

enum lw_fine_exchange {
	/* 2 (N - 1) steps of D / N bytes from each rank to the next; a step waits for the one before */
	LW_FINE_RING,
	/* the same as one message of 2 (N - 1) / N D bytes after 2 (N - 1) latencies, when the last rank is
	 * there: equal to the ring where all ranks come at once, and far fewer operations */
	LW_FINE_COLLECTIVE,
	/* each rank pushes D to the one server, and pulls D when all have pushed / when it has itself.
	 * Batches do not wait for each other: rounds, in_ns and out_ns are not used. */
	LW_FINE_PS_SYNC,
	LW_FINE_PS_ASYNC,
};

struct lw_fine_batch {
	uint32_t step;
	/* All-reduce: a new round, that begins this long after the last one did, or later: when the thread is
	 * free and all ranks have the batch. Else in the same round, after the batch before. */
	bool begins_round;
	double since_ns;
	double bytes;
	const double *ready_ns; /* [rank], after its step began */
	/* each rank's thread: from the round's begin, or the batch before, to the exchange; after it */
	double in_ns, out_ns;
	double finish_ns; /* the training thread, when it has computed all and this is exchanged; >= 0 */
};

struct lw_fine_job {
	enum lw_fine_exchange exchange;
	uint32_t n_ranks; /* simulated */
	uint32_t n_ring;  /* N of a COLLECTIVE, >= n_ranks: others are assumed to come no later */
	uint32_t n_steps;
	const double *compute_ns; /* [rank], of each step */
	const double *tail_ns;    /* [rank], from the last exchange and compute to the next step */
	const struct lw_fine_batch *batches; /* by step */
	size_t n_batches;
	struct lw_hop hop;
	double cycle_ns;  /* the first round begins at a multiple of it */
	double notice_ns; /* from the end of the last exchange to when the training thread knows */
};

/** lw_fine_n_ops() - how many operations its graph has, about. */
double lw_fine_n_ops(const struct lw_fine_job *job);

/**
 * lw_fine_run() - simulate @job.
 * @ret_end_ns: [step][rank], end of each step, ns since the start
 * Return: LW_OK, LW_ERR_NOMEM.
 */
int lw_fine_run(const struct lw_fine_job *job, double *ret_end_ns);

#endif /* LAPWING_ANALYZER_SIMULATE_FINE_H */
