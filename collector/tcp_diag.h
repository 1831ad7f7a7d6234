/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tcp_diag.h - TCP connections as the kernel's inet_diag tells of them.
 */
#ifndef LAPWING_COLLECTOR_TCP_DIAG_H
#define LAPWING_COLLECTOR_TCP_DIAG_H

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <stdbool.h>
#include <stdint.h>

/* Columns of tcp_info_sample after its time, in order. X(column) */
#define LW_TCP_COLUMNS(X)                                                                          \
	X(rtt_ns)                                                                                  \
	X(min_rtt_ns)                                                                              \
	X(sent_bytes)                                                                              \
	X(acked_bytes)                                                                             \
	X(received_bytes)                                                                          \
	X(retransmitted_bytes)                                                                     \
	X(n_retransmits)                                                                           \
	X(n_segments_out)                                                                          \
	X(n_segments_in)                                                                           \
	X(delivery_bytes_per_s)                                                                    \
	X(busy_ns)                                                                                 \
	X(rwnd_limited_ns)                                                                         \
	X(sndbuf_limited_ns)                                                                       \
	X(congestion_window_segments)                                                              \
	X(unsent_bytes)

/* -1 = this kernel does not tell. */
struct lw_tcp_values {
#define X(column) int64_t column;
	LW_TCP_COLUMNS(X)
#undef X
};

struct lw_tcp_seen {
	struct inet_diag_sockid id;
	uint64_t cookie;
	uint64_t inode; /* 0 = none any more */
	uint8_t family, state;
	uint8_t local[16], peer[16]; /* IPv6, or IPv4 mapped into it */
	uint16_t local_port, peer_port;
	bool has_values;
	struct lw_tcp_values values;
};

/**
 * lw_tcp_parse() - one message of an answer, which may be cut short or hold anything.
 * Return: LW_OK, LW_ERR_FORMAT: not about a TCP connection.
 */
int lw_tcp_parse(struct nlmsghdr *message, struct lw_tcp_seen *ret_seen);

struct lw_tcp_request {
	struct nlmsghdr head;
	struct inet_diag_req_v2 body;
};

/** lw_tcp_request_one() - ask for exactly @id; the answer has @sequence. */
void lw_tcp_request_one(struct lw_tcp_request *request, uint8_t family,
	const struct inet_diag_sockid *id, uint32_t sequence);

struct lw_tcp_list_request {
	struct nlmsghdr head;
	struct inet_diag_req body;
};

/** lw_tcp_request_list() - ask for all of IPv4 and IPv6 at once that carry data. */
void lw_tcp_request_list(struct lw_tcp_list_request *request);

#endif /* LAPWING_COLLECTOR_TCP_DIAG_H */
