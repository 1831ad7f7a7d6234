/* SPDX-License-Identifier: Apache-2.0 */
/*
 * connections.h - the TCP connections and RDMA queue pairs of a run with what was seen of them, and traffic over time.
 *
 * Reads:  tables socket, socket_sample, tcp_sample; ends and traffic of ranks (those that the collector alone saw, too).   Writes: nothing.
 */
#ifndef LAPWING_TUI_CONNECTIONS_H
#define LAPWING_TUI_CONNECTIONS_H

#include "analyzer/run.h"

enum { LW_ENDPOINT_BYTES = 64 };

struct lw_connection {
	int32_t rank, peer_rank; /* of the job; LW_NONE: not known */
	char local[LW_ENDPOINT_BYTES], peer[LW_ENDPOINT_BYTES];
	double sent_bytes,
		received_bytes; /* as hooked, else as the kernel counted; NAN: no sample */
	/* of TCP_INFO; NAN: it was not asked */
	double acked_bytes, n_retransmits, rtt_ns, delivery_bytes_per_s; /* the latter: means */
};

struct lw_connections {
	struct lw_connection *at;
	size_t n, capacity;
};

/** lw_connections_load() - of all stores, those that sent most first. Return: LW_OK or an error. */
int lw_connections_load(const struct lw_run *run, struct lw_connections *ret_connections);

/** lw_traffic_rates() - bytes/s sent by @rank in each of @n equal parts of the run; NAN where nothing was sampled. */
void lw_traffic_rates(
	const struct lw_run *run, const struct lw_rank *rank, size_t n, double *rates_bytes_per_s);

#endif /* LAPWING_TUI_CONNECTIONS_H */
