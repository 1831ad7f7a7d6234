/* SPDX-License-Identifier: Apache-2.0 */
/* net_run.h - rows of connections and counters for a job of make_run.h: a second of even traffic, steps shorter than that. */
#ifndef LAPWING_TESTS_UNIT_NET_RUN_H
#define LAPWING_TESTS_UNIT_NET_RUN_H

#include "analyzer/run.h"

/** net_run_begin() - forget all rows; each rank gets a host address 10.0.0.R+1 and a device "ethR" with id R + 1. */
void net_run_begin(int n_ranks);

/** net_run_add() - further SQL, run after all that is there. */
void net_run_add(const char *format, ...) __attribute__((format(printf, 1, 2)));

/** net_run_sample_every() - connections that are added from here on; 100 at first. */
void net_run_sample_every(int ms);

/**
 * net_run_add_end() - one end on rank @from, as hooked and as the kernel says: it sends @bytes evenly over a second, with
 * something in flight for @busy_ms of each 100 ms, and @n_resent segments again in the @resent_at-th 100 ms.
 */
void net_run_add_end(int from, int to, int local_port, int peer_port, double bytes,
	double received_bytes, int busy_ms, int resent_at, int n_resent);

/** net_run_add_link() - both ends of one connection. */
void net_run_add_link(int from, int to, double bytes, double back_bytes, int busy_ms);

/** net_run_exchange() - @bytes each way. */
void net_run_exchange(int a, int b, double bytes);

/** net_run_add_nic_bytes() - what the device of a rank counted over that second, in frames of 1514 bytes. */
void net_run_add_nic_bytes(int rank, double tx_bytes, double rx_bytes);

/** net_run_add_capture() - that flows of capture @id are of, on the clock of all ranks. */
void net_run_add_capture(int id, int64_t start_ns, int64_t end_ns);

/** net_run_sql() - the rows so far, for a job of one's own. */
const char *net_run_sql(void);

/** net_run_analyze() - write it, load it, run every stage. Free with lw_run_free(). */
struct lw_run *net_run_analyze(int n_ranks);

#endif /* LAPWING_TESTS_UNIT_NET_RUN_H */
