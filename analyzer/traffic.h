/* SPDX-License-Identifier: Apache-2.0 */
/*
 * traffic.h - what crossed the network: as recorded (load), and what it says of the job (network).
 *
 * Counts that a source does not tell are LW_COUNT_UNKNOWN. Ranks are indexes into run->ranks.
 */
#ifndef LAPWING_ANALYZER_TRAFFIC_H
#define LAPWING_ANALYZER_TRAFFIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/vec.h"

enum { LW_NET_OPS_MAX = 64 };
enum { LW_COUNT_UNKNOWN = -1, LW_ADDRESS_BYTES = 48, LW_NET_TEXT_BYTES = 400 };

/* ---- load: as recorded ------------------------------------------------------------------------- */

struct lw_reading {
	int64_t at_ns, value;
};

struct lw_nic_series { /* one counter of one device */
	char *name;
	lw_vec(struct lw_reading) readings; /* by at_ns */
};

struct lw_nic { /* a row of table device: a NIC, an RDMA port, the packet queues of the CPUs */
	size_t store;
	int64_t id, host_id, namespace_key;
	int64_t clock; /* of its host */
	/* Recordings of one host each look at its devices: the one that was watched longest stands for all. */
	int32_t same_as; /* that one, index into run->nics; its own where it is that */
	char *kind, *name, *driver, *addresses;
	char *on_name; /* interface that it lies on, "" = none or not known */
	char *host;    /* its name, "" = not known */
	lw_vec(int32_t)
		ranks; /* that have connections there, or use the GPU, ascending; of one that stands for others */
	uint64_t mtu_bytes, speed_bytes_per_s; /* 0 = not known */
	bool is_loopback, is_gone;
	lw_vec(struct lw_nic_series) series;
};

struct lw_tcp_reading { /* totals so far but for rtt_ns */
	int64_t at_ns, rtt_ns, min_rtt_ns, sent_bytes, acked_bytes, received_bytes,
		retransmitted_bytes, n_retransmits, n_segments_out, n_segments_in, busy_ns,
		rwnd_limited_ns, sndbuf_limited_ns;
};

struct lw_curve_point { /* payload so far */
	int64_t at_ns;
	uint64_t sent_bytes, received_bytes;
	uint64_t
		read_bytes; /* of those received: fetched by RDMA READ, of which the peer tells nothing */
};

enum lw_end_way {
	LW_END_RECEIVED,
	LW_END_SENT,
	LW_END_READ, /* lw_curve_point.read_bytes */
};

struct lw_tcp_end { /* one end of a TCP connection, or an RDMA queue pair with a peer */
	size_t store;
	int64_t tcp_id, socket; /* tcp_connection.id, hooked socket of its process; 0 = none */
	bool is_rdma;           /* then addresses are GIDs, ports the numbers of queue pairs */
	int64_t process_id;     /* 0 = of no recorded process */
	int64_t namespace_key;  /* of the network that it is in; 0 = not known */
	int32_t rank;           /* LW_NONE = of no rank */
	int32_t nic; /* index into run->nics, of those that stand for others; LW_NONE = not known */
	char local[LW_ADDRESS_BYTES], peer[LW_ADDRESS_BYTES];
	int local_port, peer_port;
	lw_vec(struct lw_curve_point) curve; /* as hooked, else as the kernel acknowledged */
	lw_vec(struct lw_tcp_reading) tcp;   /* by at_ns */
	struct { /* RDMA: completed requests, as packets of its path's MTU */
		uint32_t mtu_bytes;
		uint64_t n_messages, n_packets;          /* sent; of a read: the one that asks */
		uint64_t n_read_packets;                 /* that it was answered with */
		uint64_t n_received, n_received_packets; /* messages that a receive took */
		uint64_t more_header_bytes; /* of what it sent, beyond those of every packet */
		bool is_infiniband;         /* its port has a LID */
		uint64_t unfinished_bytes;  /* posted, and no completion was seen */
	} rdma;
	int32_t peer_rank; /* LW_NONE = no rank has the other end */
	int32_t peer_end;  /* the other end, index into run->ends; LW_NONE likewise */
	bool is_older;     /* network: of another process, from before the recording */
};

struct lw_packet_bin { /* a flow in a millisecond */
	int64_t bin_ns;
	uint64_t wire_bytes, payload_bytes, n_retransmitted;
	uint64_t n_psn_gaps, n_naks; /* RoCE: lost before the tap; refused by who sends this flow */
};

struct lw_packet_flow { /* one direction between two ends, as captured */
	size_t store;
	char *protocol, *source, *destination;
	int source_port, destination_port;
	int64_t destination_qp;     /* of RoCE; 0 = none */
	int32_t from_rank, to_rank; /* as the collector said, else by the addresses of ends */
	bool is_other;
	bool is_roce;
	bool is_whole;        /* its capture kept all of it by the ms: of its own job, or a file */
	bool is_repeat;       /* another capture saw it too, and that one counts */
	bool is_clock_repeat; /* likewise, of those on its clock */
	int64_t clock;        /* of its times; compares with that of a rank */
	int64_t capture_id;   /* of its store */
	uint64_t n_frames, frame_bytes, n_packets, wire_bytes, payload_bytes, repeated_bytes,
		n_retransmitted, n_psn_gaps, n_naks;
	int64_t missing_bytes;
	int64_t capture_start_ns,
		capture_end_ns;    /* of its capture; LW_NS_UNKNOWN: it did not say */
	int64_t first_ns, last_ns; /* of its packets, on the clock of its capture; LW_NS_UNKNOWN */
	lw_vec(struct lw_packet_bin) bins; /* of flows of the job only, by bin_ns */
};

struct lw_capture_gap { /* in which a capture is incomplete */
	size_t store;
	int64_t capture_id; /* of its store */
	int64_t clock;      /* of its times; compares with that of a rank */
	int64_t start_ns, end_ns;
	uint64_t n; /* packets that it dropped; 0 = not known how many */
	char device[64];
};

/* ---- network: what it says --------------------------------------------------------------------- */

struct lw_net_link { /* network: from one rank to another, all their connections */
	int32_t from, to;
	double step_bytes;                  /* payload a counted step; a whole run without steps */
	double run_bytes;                   /* payload, whole run */
	double rdma_bytes, rdma_step_bytes; /* of run_bytes, step_bytes: by RDMA */
	double acked_bytes;                 /* by the kernel's account; NAN */
	double packet_bytes;                /* as captured, what was sent twice once; NAN */
	double busy_bytes_per_s;            /* acked while something was in flight; NAN */
	double busy_ns, rwnd_limited_frac, sndbuf_limited_frac; /* NAN = not known */
	double rtt_ns, min_rtt_ns; /* median, of the connection that carried most; least; NAN */
	double rtt_bytes;          /* of that connection */
	double n_retransmits, n_segments; /* of TCP by TCP_INFO, of RDMA by packets; NAN */
	double n_psn_gaps,
		n_naks;   /* RDMA: packets lost before the tap, refused by the other end; NAN */
	bool is_loopback; /* nothing is lost there: what is sent again was late */
	double capacity_bytes_per_s; /* of the way out that it leaves by; NAN: no edge, not known */
	double used_frac;            /* of that, during the steps, by this link alone; NAN */
	/* TCP, RDMA: payload in captured milliseconds on its sender's clock; that is nearly all */
	double seen_bytes[2];
	bool is_captured[2];
};

struct lw_net_rank { /* network */
	double sent_bytes,
		received_bytes; /* to and from ranks, a counted step (whole run without) */
	double in_ops_frac; /* of what it sent to ranks in the steps: while it was in an operation; NAN */
	double other_sent_bytes, other_received_bytes; /* to and from who is no rank, whole run */
	uint32_t n_out, n_in;  /* ranks that take, give a share of its bytes */
	double expected_bytes; /* sent by the algorithm that it looks like; NAN */
	bool is_hot;
	/* what it sends, before the network holds it up: payload and headers */
	double capacity_bytes_per_s; /* NAN = nothing tells */
	int capacity_from;           /* enum lw_capacity_from */
	double at_most_bytes_per_s; /* without what window and buffer held back; BUSY: by the connection that was in flight longest alone; NAN */
	double capacity_before_bytes_per_s; /* it changed: until capacity_since_ns; NAN */
	int64_t capacity_since_ns;          /* LW_NS_UNKNOWN: it did not change */
	double used_frac; /* of it, during the steps since then, by all ranks that send by it; NAN */
	double busy_ns;   /* something was in flight there, whole run, at most; NAN */
	double wire_factor; /* bytes on the wire for one of payload; 1 = not known */
	uint32_t n_sharing; /* ranks that send their gradients by its NIC, itself too; 0 = no NIC */
	double nic_share; /* bytes that all ranks send by its NIC, for each that it sends to ranks */
	double fitted_bytes_per_s; /* after fit: what it sends at the fitted seconds a byte, with headers; NAN */
	int32_t nic; /* that most of its gradients leave by, LW_NONE: none, or a loopback */
};

enum lw_capacity_from {
	LW_CAPACITY_NONE,
	LW_CAPACITY_PLATEAU, /* its NIC sent at this rate whenever TCP was busy throughout */
	LW_CAPACITY_BUSY,    /* mean while something was in flight and got through: at least */
	LW_CAPACITY_SPEED,   /* what the driver says */
};

enum lw_algorithm {
	LW_ALGORITHM_UNKNOWN,
	LW_ALGORITHM_PAIR, /* two ranks: a ring, a tree and a server send the same */
	LW_ALGORITHM_RING, /* in one direction, or in both */
	LW_ALGORITHM_TREE, /* or two of half the bytes each */
	LW_ALGORITHM_STAR,
	LW_ALGORITHM_HALVING, /* recursive halving and doubling */
	LW_ALGORITHM_DOUBLING,
	LW_ALGORITHM_TORUS,
	LW_ALGORITHM_HIERARCHICAL,
	LW_ALGORITHM_DIRECT, /* each rank to each */
};

struct lw_net_candidate { /* traffic of a NIC that is not between ranks */
	char text[200];   /* who: "rank 1, port 2049 (NFS) at 10.0.0.9" */
	double bytes;     /* both directions, payload */
	double in_bytes, out_bytes;
	size_t n_connections;
	bool is_job;         /* a recorded process has it */
	bool is_storage;     /* by its port */
	bool is_others;      /* the least ones together, the last of its account */
	double outside_frac; /* of its bytes: while its rank was in no operation; NAN */
};

struct lw_net_account { /* network: bytes of one NIC, or RDMA port; NAN where it counts none */
	int32_t nic;
	double tx_bytes, rx_bytes, tx_packets, rx_packets; /* as its counters grew */
	double job_tx_bytes, job_rx_bytes; /* payload of the ranks' connections, repeats included */
	double header_tx_bytes, header_rx_bytes; /* of those */
	double again_rx_bytes; /* payload that ranks sent again to it, which it may have counted twice */
	bool is_packet_counted; /* headers by counted packets or segments; else by MTU, assumed */
	double other_tx_bytes, other_rx_bytes; /* what is left: unattributed */
	double unseen_bytes;     /* of those: on no TCP connection that was seen; NAN */
	double other_step_bytes; /* both directions, a counted step; NAN */
	struct lw_net_foreign {
		double tx_frac,
			rx_frac; /* other's part of what it moved in the counted steps; NAN: not known, or hardly anything moved that way */
		/* median of the steps in which others had a good part of it, and of the rest; NAN = too few */
		double with_ns, without_ns;
		uint32_t n_with, n_without;
		bool is_resolved;     /* steps are of some readings; else none is of either kind */
		double resolution_ns; /* of what tells what moved; NAN */
	} foreign;
	/* of an RDMA port: packets of what libibverbs was asked for, its acknowledgements at most; beyond; NAN */
	double job_tx_packets, job_rx_packets, other_tx_packets, other_rx_packets;
	const char *may_be; /* who else, where no candidate is seen; NULL = nothing to be told */
	lw_vec(struct lw_net_candidate) candidates; /* most bytes first */
};

struct lw_net_trouble { /* network: a counter that should not grow, and did */
	int32_t nic;
	const char *counter; /* of the run's nics */
	double n;
};

struct lw_net_op { /* network: operations of one kind and size in the counted steps */
	int op;    /* enum lw_coll */
	uint64_t
		bytes; /* payload of each; 0 = of all sizes beyond the LW_NET_OPS_MAX of most bytes */
	uint32_t n;
	double sent_bytes;     /* by a rank to ranks while one ran, mean; NAN: too short to tell */
	double expected_bytes; /* by the algorithm that it looks like, mean over ranks; NAN */
	double mean_ns;        /* that one took */
	double resolution_ns;  /* of what tells what was sent; NAN */
};

/* What may hold up an operation, as far as something recorded tells (network/cause.c). */
enum lw_net_cause {
	LW_CAUSE_RESENT, /* segments were sent again */
	LW_CAUSE_WINDOW, /* the receiver's window held TCP back */
	LW_CAUSE_BUFFER, /* the send buffer held it back */
	LW_CAUSE_QUEUE,  /* round trips far above what is usual on the connection */
	LW_CAUSE_DEVICE, /* a NIC or port counted pauses, marks, drops */
	LW_N_CAUSES
};

#define LW_NET_LOSS_FRAC 5e-4 /* of segments sent again: beyond what timers resend by mistake */

#define LW_NET_OFF_FRAC                                                                            \
	0.2 /* further off what they are to send, ranks do not run the algorithm that it looks like */

enum lw_net_against { /* what slowed operations were compared with, the best first */
	LW_AGAINST_NONE,
	LW_AGAINST_CALM, /* those of their kind and size without the cause */
	LW_AGAINST_FIT,  /* a + b bytes, fitted to those of their kind without any cause */
};

/* network: operations that one cause touched; several may touch the same. */
struct lw_net_caused {
	uint32_t n_hit;      /* ran while it was there */
	uint32_t n_ops;      /* compared: of sizes with something to compare with */
	uint32_t n_compared; /* of those: hit */
	uint32_t n_slowed;   /* of those: slower than without by more than a tenth */
	uint32_t
		n_unclear; /* of the compared: slower too, but for what else was there, or too few to tell */
	uint32_t n_alone;     /* of the slowed: no other cause slowed them */
	double lost_ns;       /* of the slowed: beyond what they take without, added up */
	double lost_alone_ns; /* of that: in those */
	double normal_frac;   /* how much longer the slowed ones took, mean */
	int against;          /* enum lw_net_against, the worst that was used for a slowed one */
	double resolution_ns; /* of its times */
	double amount; /* whole run: segments (by packets where they were captured), ns held, ns with such round trips, counts */
	bool is_by_packets;  /* amount and times: of links that were captured */
	int32_t from, to;    /* link with most of it, LW_NONE */
	int32_t nic;         /* DEVICE: with most of it, LW_NONE */
	const char *counter; /* DEVICE: the one that grew most, of the run's nics; NULL */
	double worst_amount; /* of that link or counter */
};

struct lw_net_slowed {        /* network: operations that something held up */
	double n_retransmits; /* whole run, links between ranks; NAN = not known */
	double frac;          /* of segments sent; NAN */
	bool is_by_port; /* RDMA without a capture: NAKs and timeouts that its ports counted, of whatever was sent */
	int32_t worst_from, worst_to; /* link with most retransmits, LW_NONE */
	double worst_n, worst_frac;   /* of that link: of its segments; NAN */
	struct lw_net_caused by[LW_N_CAUSES];
	/* each operation once, whatever touched it: compared; hit; of those: compared; slowed */
	uint32_t n_ops, n_hit, n_compared, n_slowed;
	double lost_ns;
};

/* What keeps operations below what the slowest way out carries; a bit each. */
enum lw_net_reason {
	LW_REASON_LATENCY, /* the fixed cost of an operation */
	LW_REASON_WINDOW,
	LW_REASON_BUFFER,
	LW_REASON_SLOWED, /* those that struct lw_net_slowed tells of */
	LW_REASON_CORES,  /* ranks wait for cores */
	LW_REASON_IDLE,   /* nothing was in flight: the library waited, added up, copied */
	LW_N_REASONS
};

/* network: a server (star) whose NIC all others share. Of the time from the first to the last byte between it and them. */
struct lw_net_server {
	int32_t rank; /* LW_NONE: there is none, or how long it was in use is not known */
	double in_frac, out_frac; /* data was in flight to it, from it, at least */
};

/* network, after fit: allreduces against the way out that holds them up most. */
struct lw_net_reach {
	int32_t rank;       /* whose it is, LW_NONE = not known */
	double fitted_frac; /* of its capacity, at the fitted seconds a byte; NAN */
	double mean_frac;   /* of its capacity, as the operations of the counted steps ran */
	double mean_bytes, mean_ns, alpha_ns; /* of one operation; alpha NAN = not known */
	unsigned reasons;            /* 1 << enum lw_net_reason: what the run shows, if it is low */
	double reason[LW_N_REASONS]; /* of the time of operations, CORES: of a step; NAN */
};

struct lw_network {
	lw_vec(struct lw_net_link) links;       /* by from, to */
	lw_vec(struct lw_net_rank) ranks;       /* as run->ranks; empty: no connection was seen */
	lw_vec(struct lw_net_account) accounts; /* NICs that moved something, loopbacks left out */
	lw_vec(struct lw_net_trouble) troubles;
	size_t n_steps;    /* that bytes a step are of; 0 = bytes of the whole run */
	double edge_bytes; /* a link with fewer in a step is control traffic */
	double op_bytes;   /* payload of allreduces in a step, each rank; NAN */
	enum lw_algorithm algorithm;
	char evidence[LW_NET_TEXT_BYTES]; /* of algorithm; why it is not known */
	int32_t hub;                      /* of a star, LW_NONE */
	double off_frac;                  /* worst rank: sent against expected; NAN */
	int32_t slow_rank;                /* its link is much slower than the others', LW_NONE */
	int32_t slow_to; /* all that leaves there goes to this rank's NIC, which may be what is slow; LW_NONE */
	double others_bytes_per_s; /* capacity of the others, median; NAN */
	int others_from;           /* enum lw_capacity_from: BUSY where one of them is */
	struct lw_net_server server;
	lw_vec(struct lw_net_op) ops; /* most bytes first */
	bool are_ops_captured;        /* by the millisecond; else between samples in proportion */
	struct lw_net_slowed slowed;
	struct lw_net_reach reach;
};

/** lw_algorithm_name() - "ring", "not known". */
const char *lw_algorithm_name(enum lw_algorithm algorithm);

/** lw_net_cause_name() - "segments sent again". */
const char *lw_net_cause_name(enum lw_net_cause cause);

/** lw_net_is_low() - operations stay far below what the slowest way out carries. */
bool lw_net_is_low(const struct lw_net_reach *reach);

enum { LW_NET_WORDS_BYTES = 800, LW_NET_CHANGED_BYTES = 120 };
struct lw_run;

/** lw_capacity_changed_text() - " since 8.60 s after its start (25 MB/s before)"; "" = it did not. Return: @text. */
const char *lw_capacity_changed_text(
	const struct lw_run *run, int32_t rank, char text[LW_NET_CHANGED_BYTES]);

/** lw_ways_changed_text() - all ways out that changed: "of rank 2 (eth0) 20 MB/s since ..". "": none did. Return: @text. */
const char *lw_ways_changed_text(const struct lw_run *run, char text[LW_NET_WORDS_BYTES]);

/** lw_net_unseen_text() - what bytes on no connection that was seen may be. Return: @text. */
enum { LW_UNSEEN_TEXT_BYTES = 120 };
const char *lw_net_unseen_text(const struct lw_run *run, char text[LW_UNSEEN_TEXT_BYTES]);

/** lw_at_least() - " at least" after a capacity that is that (enum lw_capacity_from), else "". */
const char *lw_at_least(int from);

/** lw_net_is_server_full() - its NIC is in use for most of the time. */
bool lw_net_is_server_full(const struct lw_net_server *server);

/** lw_server_text() - what goes by the server's NIC; "" = there is none. Return: @text. */
const char *lw_server_text(const struct lw_run *run, char text[LW_NET_WORDS_BYTES]);

/** lw_net_is_edge() - @link carries enough to belong to a pattern: gradients, not control traffic. */
bool lw_net_is_edge(const struct lw_run *run, const struct lw_net_link *link);
/** lw_nic_owner_text() - whose it is: "rank 1, 10.0.0.2 on node7". Return: @text. */
enum { LW_OWNER_TEXT_BYTES = 200 };
const char *lw_nic_owner_text(
	const struct lw_run *run, const struct lw_nic *nic, char text[LW_OWNER_TEXT_BYTES]);

/** lw_net_series() - NULL: @nic has no such counter. */
const struct lw_nic_series *lw_net_series(const struct lw_nic *nic, const char *name);

/** lw_net_growth() - how much the counter @name of @nic grew while it was read; NAN: it was not. */
double lw_net_growth(const struct lw_nic *nic, const char *name);

/** lw_net_is_physical() - the speed that its driver tells is that of a link: known, and not made up. */
bool lw_net_is_physical(const struct lw_nic *nic);

#endif /* LAPWING_ANALYZER_TRAFFIC_H */
