/* SPDX-License-Identifier: Apache-2.0 */
/*
 * network.h - what the files of network/ share: from sockets, packets and counters to links and findings.
 *
 * Reads:  a run after overlap.   Writes: run->network.
 * Bytes of TCP are payload unless a name says wire: that is with headers, Ethernet's included.
 */
#ifndef LAPWING_ANALYZER_NETWORK_NETWORK_H
#define LAPWING_ANALYZER_NETWORK_NETWORK_H

#include "analyzer/run.h"

/* A link that carries less than this of the busiest is control traffic to whoever looks for a pattern. */
#define LW_NET_EDGE_FRAC 0.05

/** lw_net_window_bytes() - of what @end sent or received: in the counted steps of @rank, all of it without steps. */
double lw_net_window_bytes(
	const struct lw_rank *rank, const struct lw_tcp_end *end, enum lw_end_way way);

/** lw_net_n_counted() - steps of @rank that count. */
size_t lw_net_n_counted(const struct lw_rank *rank);

/** lw_net_is_counted() - all ranks have @group in a counted step (any, without steps), and it moves something. */
bool lw_net_is_counted(const struct lw_run *run, const struct lw_group *group);

/** lw_net_ops() - when @rank was in an operation: disjoint, ascending. Return: LW_OK or an error; free @ret_ops.at. */
struct lw_intervals {
	lw_vec(struct lw_interval) at;
};
int lw_net_ops(const struct lw_rank *rank, struct lw_intervals *ret_ops);

/** lw_net_in_ops_bytes() - of what @end sent or received: while one of @ops ran. */
double lw_net_in_ops_bytes(
	const struct lw_tcp_end *end, const struct lw_intervals *ops, enum lw_end_way way);

/** lw_net_link_of() - NULL: nothing went from @from to @to. */
struct lw_net_link *lw_net_link_of(struct lw_run *run, int32_t from, int32_t to);

/** lw_net_is_gradients() - @end is of a link that is an edge, and not of small messages beside those that make it one. */
bool lw_net_is_gradients(struct lw_run *run, const struct lw_tcp_end *end);

/** lw_net_sent_total() - payload that @end handed to its NIC while the run was recorded, repeats included. */
double lw_net_sent_total(const struct lw_tcp_end *end);
double lw_net_received_total(const struct lw_tcp_end *end);

/** lw_net_header_bytes() - of a full segment of @end on a wire; without Ethernet's on a loopback. */
double lw_net_header_bytes(const struct lw_tcp_end *end, bool is_loopback);

/** lw_net_full_payload_bytes() - of a segment of @end that fills a frame of @nic. */
double lw_net_full_payload_bytes(const struct lw_nic *nic, const struct lw_tcp_end *end);

/** lw_net_segments() - that @end sent or received from @from_ns to @to_ns, acknowledgements too; NAN: the kernel does not tell. */
double lw_net_segments(
	const struct lw_tcp_end *end, enum lw_end_way way, int64_t from_ns, int64_t to_ns);

/** lw_net_kernel_bytes() - payload likewise, what was sent again too. */
double lw_net_kernel_bytes(
	const struct lw_tcp_end *end, enum lw_end_way way, int64_t from_ns, int64_t to_ns);

/** lw_net_again_bytes(), lw_net_n_again() - payload, segments that @end sent again likewise; 0 = none, or not told. */
double lw_net_again_bytes(const struct lw_tcp_end *end, int64_t from_ns, int64_t to_ns);
double lw_net_n_again(const struct lw_tcp_end *end, int64_t from_ns, int64_t to_ns);

/** lw_net_account_header_bytes() - of all segments of @end, one way, since @nic was first read. */
double lw_net_account_header_bytes(
	const struct lw_nic *nic, const struct lw_tcp_end *end, enum lw_end_way way);

/** lw_net_median() - sorts @values; NAN: there are none. */
double lw_net_median(double *values, size_t n);

/* One connection's data in flight by each of its readings (flight.c). */
struct lw_net_flown { /* so far */
	int64_t at_ns;
	double all_ns;
	double moving_ns,
		acked_bytes; /* less the time in which nothing got through, and what was acknowledged then */
};
struct lw_net_flight {
	const struct lw_tcp_end *end;
	struct lw_net_flown *at;
	size_t n;
};

/** lw_net_flight_make() - of @end's readings. Return: LW_OK or LW_ERR_NOMEM; free with lw_net_flight_free(). */
int lw_net_flight_make(const struct lw_tcp_end *end, struct lw_net_flight *flight);
void lw_net_flight_free(struct lw_net_flight *flight);

/** lw_net_flown_by() - between two readings in proportion. */
struct lw_net_flown lw_net_flown_by(const struct lw_net_flight *flight, int64_t at_ns);

/**
 * lw_net_in_flight_ns() - how long from @from_ns on at least one of @flights had data in flight, at most.
 * @is_moving: without the time in which nothing got through
 * Return: LW_OK or LW_ERR_NOMEM.
 */
int lw_net_in_flight_ns(const struct lw_net_flight *flights, size_t n, int64_t from_ns,
	bool is_moving, double *ret_ns);

struct lw_net_rate {
	int64_t from_ns;
	double bytes_per_s;
};

struct lw_net_level {
	double bytes_per_s;        /* NAN: the rates do not agree, or are too few */
	double before_bytes_per_s; /* NAN: it did not change */
	int64_t since_ns;          /* LW_NS_UNKNOWN likewise */
};

/**
 * lw_net_level_of() - what @rates (in time) agree on: their middle half within @spread_frac of the median. If they changed
 * once, by @apart_factor and more, what those since then do.
 */
struct lw_net_level lw_net_level_of(
	const struct lw_net_rate *rates, size_t n, double spread_frac, double apart_factor);

/* What rank's way out got through at another rate since some time. */
struct lw_net_change {
	int64_t since_ns;
	bool is_slower;
	double slow_ns; /* something was in flight in the slower part */
};

/**
 * lw_net_has_changed() - it is the way out of rank @r that changed: operations of one size take longer in the slower part by
 * a quarter, as data are in flight there for most of their time. Else messages may be smaller, or others hold them up.
 * Return: LW_OK or LW_ERR_NOMEM.
 */
int lw_net_has_changed(
	const struct lw_run *run, int32_t r, const struct lw_net_change *change, bool *ret_has);

/**
 * lw_net_shows() - @flow tells of packets between ranks when @r sent or received them: by @r's clock, and each once, however
 * many captures saw it.
 */
bool lw_net_shows(const struct lw_run *run, const struct lw_packet_flow *flow, int32_t r);

/* By rank r: ends[first_end[r]] to before ends[first_end[r + 1]]; flows between it and another rank likewise. */
struct lw_net_index {
	const struct lw_tcp_end **ends;
	const struct lw_packet_flow **flows;
	size_t *first_end, *first_flow;
};

/** lw_net_index_make() - of all ends and flows of @run. Return: LW_OK or LW_ERR_NOMEM; free with lw_net_index_free(). */
int lw_net_index_make(const struct lw_run *run, struct lw_net_index *index);
void lw_net_index_free(struct lw_net_index *index);

/* When one rank was touched by each cause: disjoint, ascending. */
struct lw_net_touched {
	struct lw_intervals by[LW_N_CAUSES];
};

/**
 * lw_net_find_touched() - what was recorded of every cause (cause.c), and its amounts in run->network.slowed.
 * @touched: of each rank, empty; free their intervals
 * Return: LW_OK or LW_ERR_NOMEM.
 */
int lw_net_find_touched(struct lw_run *run, struct lw_net_touched *touched);

/** lw_net_merge() - sort, and make one of those that overlap. */
void lw_net_merge(struct lw_intervals *intervals);

/** lw_net_cause_is_state() - it lasts, and holds up what is usual: the median of what it touches. */
bool lw_net_cause_is_state(enum lw_net_cause cause);

/** lw_net_cause_is_account() - TCP itself counts how long it was held up by it: no coincidence. */
bool lw_net_cause_is_account(enum lw_net_cause cause);

/** lw_net_is_between_ranks() - both ends of @end are ranks of the run, and not the same one. */
static inline bool lw_net_is_between_ranks(const struct lw_tcp_end *end)
{
	return end->rank != LW_NONE && end->peer_rank != LW_NONE && end->rank != end->peer_rank;
}

/* NAKs and timeouts that RDMA ports count, of the whole port; each may make many packets be sent again. */
enum { LW_NET_N_RESENT_COUNTERS = 7 };
extern const char *const lw_net_resent_counters[LW_NET_N_RESENT_COUNTERS];

/** lw_net_count_resent() - n_retransmits, frac and the worst link of run->network.slowed. Return: LW_OK or LW_ERR_NOMEM. */
int lw_net_count_resent(struct lw_run *run);

/* What the accounts of all NICs look up. */
struct lw_net_op_times;
struct lw_net_on_nics {
	size_t *ends;           /* indexes into run->ends, by NIC */
	size_t *first;          /* of each NIC in ends; one more for the end */
	size_t *used, n_used;   /* indexes into run->nics: those that a rank has connections on */
	size_t *ports, n_ports; /* likewise: RDMA ports that stand for others */
	struct lw_net_op_times *times; /* by rank, made when they are asked for */
};

/** lw_net_on_nics_make() - Free with lw_net_on_nics_free(), after an error too. Return: LW_OK or LW_ERR_NOMEM. */
int lw_net_on_nics_make(const struct lw_run *run, struct lw_net_on_nics *ret_on);
void lw_net_on_nics_free(const struct lw_run *run, struct lw_net_on_nics *on);

/**
 * lw_net_outside_bytes() - of @bytes that @end, of a rank, moved: while that was in no operation; NAN: it had none.
 * Return: LW_OK or LW_ERR_NOMEM.
 */
int lw_net_outside_bytes(const struct lw_run *run, const struct lw_net_on_nics *on,
	const struct lw_tcp_end *end, double bytes, double *ret_bytes);

/** lw_net_find_candidates() - of one account. Return: LW_OK or LW_ERR_NOMEM. */
int lw_net_find_candidates(
	const struct lw_run *run, const struct lw_net_on_nics *on, struct lw_net_account *account);

/* Accounts of RDMA: of soft RoCE's packets in the interface's (Return: there are some), and of the port with the index @index. */
bool lw_net_add_soft_rdma(
	const struct lw_run *run, const struct lw_net_on_nics *on, struct lw_net_account *account);
int lw_net_account_port(struct lw_run *run, const struct lw_net_on_nics *on, int32_t index);

#define LW_NET_NO_FOREIGN                                                                          \
	{                                                                                          \
		.tx_frac = NAN, .rx_frac = NAN, .with_ns = NAN, .without_ns = NAN,                 \
		.resolution_ns = NAN                                                               \
	}

/**
 * lw_net_find_foreign() - of an account: what was not the job's in the counted steps (other_step_bytes, foreign).
 * Return: LW_OK or LW_ERR_NOMEM.
 */
int lw_net_find_foreign(
	const struct lw_run *run, const struct lw_net_on_nics *on, struct lw_net_account *account);

/* The parts, in order. Return: LW_OK or LW_ERR_NOMEM. */
int lw_net_find_links(struct lw_run *run);
int lw_net_find_captured(struct lw_run *run);
int lw_net_find_gone(struct lw_run *run);
int lw_net_account(struct lw_run *run);
int lw_net_find_algorithm(struct lw_run *run);
int lw_net_find_capacity(struct lw_run *run);
int lw_net_find_slow(struct lw_run *run);
int lw_net_find_ops(struct lw_run *run);
int lw_net_find_slowed(struct lw_run *run);

#endif /* LAPWING_ANALYZER_NETWORK_NETWORK_H */
