/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nic_lanes.h - what crossed the network, over time: for every rank the bytes that it had sent and received.
 *
 *	nic_lanes.c    where a rank's figures come from      nic_curve.c    bytes by any moment
 *
 * Reads:  a run after network.   Writes: nothing.
 * A source tells how much moved between two moments, no more: in between the rate is taken as the same. So a curve is
 * a sorted list of moments with the bytes so far, and the bytes of a column are the difference of two of its values,
 * found by bisection: every zoom costs the same. Times are on the rank's clock.
 */
#ifndef LAPWING_TUI_NIC_LANES_H
#define LAPWING_TUI_NIC_LANES_H

#include "analyzer/run.h"

struct lw_nic_stretch { /* moved from start to end, nobody knows when in between; end >= start */
	int64_t start_ns, end_ns;
	double out, in;
};

struct lw_nic_stretches {
	lw_vec(struct lw_nic_stretch) at;
};

struct lw_nic_point {
	int64_t at_ns;
	double out, in; /* so far */
};

struct lw_nic_curve { /* 24 bytes a moment; where much moves at once there are two */
	lw_vec(struct lw_nic_point) points;
};

/** lw_nic_curve_make() - of stretches in any order, which may overlap: they are sorted. Return: LW_OK, LW_ERR_NOMEM. */
int lw_nic_curve_make(struct lw_nic_stretches *stretches, struct lw_nic_curve *ret_curve);

/** lw_nic_curve_columns() - @out[i], @in[i]: what moved in column i of @n, each @column_ns, from @from_ns on. */
void lw_nic_curve_columns(const struct lw_nic_curve *curve, int64_t from_ns, int64_t column_ns,
	int n, double *out, double *in);

/** lw_nic_curve_most() - the largest rate in either direction over any @window_ns > 0, by the second. @ret_in: of what came in. */
double lw_nic_curve_most(const struct lw_nic_curve *curve, int64_t window_ns, double *ret_in);

enum lw_nic_source { /* the best first */
	LW_NIC_PACKETS,
	LW_NIC_COUNTERS,
	LW_NIC_TCP,
	LW_NIC_RDMA,
	LW_NIC_SOURCES
};

struct lw_nic_lane {
	enum lw_nic_source source;
	int32_t nic;                        /* of counters: index into run->nics, else LW_NONE */
	size_t first_rank, n_ranks;         /* counters do not tell apart who shares a NIC */
	struct lw_nic_curve moved;          /* bytes: with headers, of TCP and RDMA payload */
	struct lw_nic_curve again;          /* .out: segments that were sent again */
	int64_t known_from_ns, known_to_ns; /* outside nothing was looked at */
	lw_vec(struct lw_interval) gaps;    /* in which packets are missing: disjoint, ascending */
	double most_in_bytes_per_s;         /* over that resolution */
	int64_t resolution_ns;              /* median of the stretches in which something moved */
};

struct lw_nic_lanes {
	lw_vec(struct lw_nic_lane) lanes;
	size_t *of_rank; /* index into lanes; SIZE_MAX: nothing tells */
	double most_bytes_per_s;
};

/** lw_nic_lanes_init() - all ranks of @run, which has to live on. lw_nic_lanes_done() frees, also after an error. */
int lw_nic_lanes_init(struct lw_nic_lanes *lanes, const struct lw_run *run);
void lw_nic_lanes_done(struct lw_nic_lanes *lanes);

/** lw_nic_lane_of() - NULL: nothing tells what rank @r sent. */
const struct lw_nic_lane *lw_nic_lane_of(const struct lw_nic_lanes *lanes, size_t r);

/** lw_nic_gap_ns() - how much of [@start_ns, @end_ns) is in gaps of @lane. */
int64_t lw_nic_gap_ns(const struct lw_nic_lane *lane, int64_t start_ns, int64_t end_ns);

/** lw_nic_full() - the rate that fills the lane of @r: what its way out carries, where something tells, else the most of all lanes. */
double lw_nic_full(const struct lw_nic_lanes *lanes, const struct lw_run *run, size_t r,
	enum lw_capacity_from *ret_from);

#endif /* LAPWING_TUI_NIC_LANES_H */
