/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nic_lanes.c - where the figures of a rank come from: its captured packets, else the counters of its NIC, else its
 * sockets or RDMA queue pairs.
 *
 * What saw less than half of what the rank is known to have moved looked elsewhere: a netdev while RDMA passes it by,
 * a capture of another device.
 */
#include "tui/nic_lanes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"

enum { BIN_NS = LW_NS_PER_MS, LEAST_WINDOW_NS = LW_NS_PER_MS };
#define SEEN_FRAC 0.5

/* ---- packets ------------------------------------------------------------------------------------ */

static int add_bins(const struct lw_packet_flow *flow, bool is_out, struct lw_nic_stretches *moved,
	struct lw_nic_stretches *again)
{
	const struct lw_packet_bin *bin;
	int status = LW_OK;

	lw_vec_foreach (bin, &flow->bins) {
		double bytes = (double)bin->wire_bytes;
		struct lw_nic_stretch stretch = {
			bin->bin_ns, bin->bin_ns + BIN_NS, is_out ? bytes : 0, is_out ? 0 : bytes};

		if (status == LW_OK)
			status = lw_vec_push(&moved->at, stretch);
		stretch.out = (double)bin->n_retransmitted;
		stretch.in = 0;
		if (status == LW_OK && is_out && bin->n_retransmitted)
			status = lw_vec_push(&again->at, stretch);
	}
	return status;
}

/* When packets of @flow would have been seen: its capture's time, at least from the first to the last. */
static void note_span(const struct lw_packet_flow *flow, struct lw_nic_lane *lane)
{
	int64_t from_ns = flow->bins.at[0].bin_ns;
	int64_t to_ns = flow->bins.at[flow->bins.n - 1].bin_ns + BIN_NS;

	if (flow->capture_start_ns != LW_NS_UNKNOWN && flow->capture_start_ns < from_ns)
		from_ns = flow->capture_start_ns;
	if (flow->capture_end_ns > to_ns)
		to_ns = flow->capture_end_ns;
	if (from_ns < lane->known_from_ns)
		lane->known_from_ns = from_ns;
	if (to_ns > lane->known_to_ns)
		lane->known_to_ns = to_ns;
}

/* Flows that the rank's own host captured: another's clock may differ, and it saw the same packets. */
static int from_packets(const struct lw_run *run, size_t r, struct lw_nic_lane *lane,
	struct lw_nic_stretches *moved, struct lw_nic_stretches *again)
{
	const struct lw_packet_flow *flow;
	int status = LW_OK;

	lane->known_from_ns = INT64_MAX;
	lw_vec_foreach (flow, &run->flows) {
		if (flow->store != run->ranks.at[r].store || !flow->bins.n || status < 0)
			continue;
		note_span(flow, lane);
		if (flow->from_rank == (int32_t)r && flow->to_rank != (int32_t)r)
			status = add_bins(flow, true, moved, again);
		else if (flow->to_rank == (int32_t)r && flow->from_rank != (int32_t)r)
			status = add_bins(flow, false, moved, again);
	}
	return status;
}

static int compare_interval(const void *a, const void *b)
{
	const struct lw_interval *x = a, *y = b;

	return (x->start_ns > y->start_ns) - (x->start_ns < y->start_ns);
}

/* Of the captures of the rank's host. */
static int find_gaps(const struct lw_run *run, size_t r, struct lw_nic_lane *lane)
{
	const struct lw_capture_gap *gap;
	size_t n = 0;

	lw_vec_foreach (gap, &run->capture_gaps) {
		struct lw_interval one = {gap->start_ns, gap->end_ns};

		if (gap->store == run->ranks.at[r].store && lw_vec_push(&lane->gaps, one) < 0)
			return LW_ERR_NOMEM;
	}
	if (!lane->gaps.n)
		return LW_OK;
	qsort(lane->gaps.at, lane->gaps.n, sizeof(*lane->gaps.at), compare_interval);
	for (size_t i = 1; i < lane->gaps.n; i++) {
		struct lw_interval *last = &lane->gaps.at[n], next = lane->gaps.at[i];

		if (next.start_ns > last->end_ns)
			lane->gaps.at[++n] = next;
		else if (next.end_ns > last->end_ns)
			last->end_ns = next.end_ns;
	}
	lane->gaps.n = n + 1;
	return LW_OK;
}

int64_t lw_nic_gap_ns(const struct lw_nic_lane *lane, int64_t start_ns, int64_t end_ns)
{
	size_t low = 0, high = lane->gaps.n;
	int64_t sum_ns = 0;

	while (low < high) { /* the first that ends later */
		size_t middle = low + (high - low) / 2;

		if (lane->gaps.at[middle].end_ns <= start_ns)
			low = middle + 1;
		else
			high = middle;
	}
	for (; low < lane->gaps.n && lane->gaps.at[low].start_ns < end_ns; low++) {
		const struct lw_interval *gap = &lane->gaps.at[low];

		sum_ns += (gap->end_ns < end_ns ? gap->end_ns : end_ns) -
			  (gap->start_ns > start_ns ? gap->start_ns : start_ns);
	}
	return sum_ns;
}

/* ---- sockets ------------------------------------------------------------------------------------ */

static double rank_bytes(const struct lw_run *run, size_t r, bool is_rdma)
{
	const struct lw_tcp_end *end;
	double bytes = 0;

	lw_vec_foreach (end, &run->ends)
		if (end->rank == (int32_t)r && end->is_rdma == is_rdma)
			bytes += lw_end_sent_bytes(end) + lw_end_received_bytes(end);
	return bytes;
}

/* What went before the first sample nobody knows the time of. */
static int add_curve(const struct lw_tcp_end *end, struct lw_nic_stretches *moved)
{
	for (size_t i = 1; i < end->curve.n; i++) {
		const struct lw_curve_point *a = &end->curve.at[i - 1], *b = a + 1;
		struct lw_nic_stretch stretch = {a->at_ns, b->at_ns,
			(double)b->sent_bytes - (double)a->sent_bytes,
			(double)b->received_bytes - (double)a->received_bytes};

		if (b->at_ns >= a->at_ns && (stretch.out > 0 || stretch.in > 0) &&
			lw_vec_push(&moved->at, stretch) < 0)
			return LW_ERR_NOMEM;
	}
	return LW_OK;
}

static int add_retransmits(const struct lw_tcp_end *end, struct lw_nic_stretches *again)
{
	for (size_t i = 1; i < end->tcp.n; i++) {
		const struct lw_tcp_reading *a = &end->tcp.at[i - 1], *b = a + 1;
		struct lw_nic_stretch stretch = {
			a->at_ns, b->at_ns, (double)(b->n_retransmits - a->n_retransmits), 0};

		if (a->n_retransmits >= 0 && b->n_retransmits > a->n_retransmits &&
			b->at_ns >= a->at_ns && lw_vec_push(&again->at, stretch) < 0)
			return LW_ERR_NOMEM;
	}
	return LW_OK;
}

static int from_sockets(const struct lw_run *run, size_t r, struct lw_nic_lane *lane,
	struct lw_nic_stretches *moved, struct lw_nic_stretches *again)
{
	const struct lw_tcp_end *end;
	int status = LW_OK;

	lw_vec_foreach (end, &run->ends)
		if (status == LW_OK && end->rank == (int32_t)r) {
			status = add_curve(end, moved);
			status = status < 0 ? status : add_retransmits(end, again);
		}
	lane->known_from_ns = run->ranks.at[r].start_ns;
	lane->known_to_ns = run->ranks.at[r].end_ns;
	return status;
}

/* ---- counters ----------------------------------------------------------------------------------- */

static const struct lw_nic_series *series_of(const struct lw_nic *nic, bool is_out)
{
	const struct lw_nic_series *series;

	lw_vec_foreach (series, &nic->series)
		if (!strcmp(series->name, is_out ? "tx_bytes" : "rx_bytes") &&
			series->readings.n > 1)
			return series;
	return NULL;
}

static double nic_bytes(const struct lw_nic *nic)
{
	double bytes = 0;

	for (int is_out = 0; is_out < 2; is_out++) {
		const struct lw_nic_series *series = series_of(nic, is_out);

		if (series)
			bytes += (double)(series->readings.at[series->readings.n - 1].value -
					  series->readings.at[0].value);
	}
	return bytes;
}

/* The busiest NIC of the rank's host, when all that moved something are of one network namespace: in another the
 * rank may not be. */
static int32_t busiest_nic(const struct lw_run *run, size_t store)
{
	int32_t best = LW_NONE;

	for (size_t i = 0; i < run->nics.n; i++) {
		const struct lw_nic *nic = &run->nics.at[i];

		if (nic->store != store || nic->is_loopback || nic_bytes(nic) <= 0)
			continue;
		if (best != LW_NONE && run->nics.at[best].namespace_key != nic->namespace_key)
			return LW_NONE;
		if (best == LW_NONE || nic_bytes(nic) > nic_bytes(&run->nics.at[best]))
			best = (int32_t)i;
	}
	return best;
}

/* That most of what the rank is known to have moved went by; of a rank of which nothing is known, its host's. */
static int32_t nic_of(const struct lw_run *run, size_t r, double *bytes)
{
	const struct lw_tcp_end *end;
	int32_t best = LW_NONE;
	double moved = 0;

	if (r < run->network.ranks.n && run->network.ranks.at[r].nic != LW_NONE)
		return run->network.ranks.at[r].nic;
	memset(bytes, 0, run->nics.n * sizeof(*bytes));
	lw_vec_foreach (end, &run->ends) {
		if (end->rank != (int32_t)r)
			continue;
		moved += lw_end_sent_bytes(end) + lw_end_received_bytes(end);
		if (end->nic != LW_NONE && !run->nics.at[end->nic].is_loopback)
			bytes[end->nic] += lw_end_sent_bytes(end) + lw_end_received_bytes(end);
	}
	for (size_t i = 0; i < run->nics.n; i++)
		if (bytes[i] > 0 && (best == LW_NONE || bytes[i] > bytes[best]))
			best = (int32_t)i;
	return moved > 0 ? best : busiest_nic(run, run->ranks.at[r].store);
}

static int add_readings(const struct lw_nic_series *series, bool is_out, struct lw_nic_lane *lane,
	struct lw_nic_stretches *moved)
{
	for (size_t i = 1; series && i < series->readings.n; i++) {
		const struct lw_reading *a = &series->readings.at[i - 1], *b = a + 1;
		double bytes = (double)b->value - (double)a->value;
		struct lw_nic_stretch stretch = {
			a->at_ns, b->at_ns, is_out ? bytes : 0, is_out ? 0 : bytes};

		if (bytes > 0 && b->at_ns >= a->at_ns && lw_vec_push(&moved->at, stretch) < 0)
			return LW_ERR_NOMEM;
	}
	if (series && series->readings.at[0].at_ns < lane->known_from_ns)
		lane->known_from_ns = series->readings.at[0].at_ns;
	if (series && series->readings.at[series->readings.n - 1].at_ns > lane->known_to_ns)
		lane->known_to_ns = series->readings.at[series->readings.n - 1].at_ns;
	return LW_OK;
}

static int from_counters(const struct lw_run *run, struct lw_nic_lane *lane,
	struct lw_nic_stretches *moved, struct lw_nic_stretches *again)
{
	const struct lw_nic *nic = &run->nics.at[lane->nic];
	const struct lw_tcp_end *end;
	int status;

	lane->known_from_ns = INT64_MAX;
	status = add_readings(series_of(nic, true), true, lane, moved);
	if (status == LW_OK)
		status = add_readings(series_of(nic, false), false, lane, moved);
	lw_vec_foreach (end, &run->ends)
		if (status == LW_OK && end->nic == lane->nic)
			status = add_retransmits(end, again);
	return status;
}

/* ---- lanes -------------------------------------------------------------------------------------- */

static int compare_ns(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

static int find_resolution(const struct lw_nic_stretches *moved, struct lw_nic_lane *lane)
{
	int64_t *lengths_ns;

	lane->resolution_ns = BIN_NS;
	if (lane->source == LW_NIC_PACKETS)
		return LW_OK;
	lengths_ns = malloc((moved->at.n + 1) * sizeof(*lengths_ns));
	if (!lengths_ns)
		return lw_fail(LW_ERR_NOMEM, "no memory");
	for (size_t i = 0; i < moved->at.n; i++)
		lengths_ns[i] = moved->at.at[i].end_ns - moved->at.at[i].start_ns;
	qsort(lengths_ns, moved->at.n, sizeof(*lengths_ns), compare_ns);
	lane->resolution_ns = moved->at.n ? lengths_ns[moved->at.n / 2] : 0;
	free(lengths_ns);
	return LW_OK;
}

static double payload_bytes(const struct lw_run *run, size_t r)
{
	const struct lw_packet_flow *flow;
	double bytes = 0;

	lw_vec_foreach (flow, &run->flows)
		if (flow->store == run->ranks.at[r].store && flow->bins.n &&
			(flow->from_rank == (int32_t)r) != (flow->to_rank == (int32_t)r))
			bytes += (double)flow->payload_bytes;
	return bytes;
}

/* Return: there is a source, with lane->source and .nic. */
static bool choose(const struct lw_run *run, size_t r, double *nic_sums, struct lw_nic_lane *lane)
{
	double rdma = rank_bytes(run, r, true), tcp = rank_bytes(run, r, false);
	double packets = payload_bytes(run, r);

	lane->nic = LW_NONE;
	lane->source = LW_NIC_PACKETS;
	if (packets > 0 && packets >= SEEN_FRAC * (rdma + tcp))
		return true;
	lane->source = LW_NIC_COUNTERS;
	lane->nic = nic_of(run, r, nic_sums);
	if (lane->nic != LW_NONE && nic_bytes(&run->nics.at[lane->nic]) > 0 &&
		nic_bytes(&run->nics.at[lane->nic]) >= SEEN_FRAC * (rdma + tcp))
		return true;
	lane->nic = LW_NONE;
	lane->source = rdma > tcp ? LW_NIC_RDMA : LW_NIC_TCP;
	return rdma + tcp > 0;
}

static int fill(const struct lw_run *run, size_t r, struct lw_nic_lane *lane)
{
	struct lw_nic_stretches moved = {0}, again = {0};
	int status;

	if (lane->source == LW_NIC_PACKETS)
		status = from_packets(run, r, lane, &moved, &again);
	else if (lane->source == LW_NIC_COUNTERS)
		status = from_counters(run, lane, &moved, &again);
	else
		status = from_sockets(run, r, lane, &moved, &again);
	if (status == LW_OK && lane->source == LW_NIC_PACKETS)
		status = find_gaps(run, r, lane);
	if (status == LW_OK)
		status = find_resolution(&moved, lane);
	if (status == LW_OK)
		status = lw_nic_curve_make(&moved, &lane->moved);
	if (status == LW_OK)
		status = lw_nic_curve_make(&again, &lane->again);
	lw_vec_free(&moved.at);
	lw_vec_free(&again.at);
	return status;
}

static int add_rank(
	struct lw_nic_lanes *lanes, const struct lw_run *run, size_t r, double *nic_sums)
{
	struct lw_nic_lane lane = {.first_rank = r, .n_ranks = 1}, *other;
	int64_t window_ns;
	int status;

	lanes->of_rank[r] = SIZE_MAX;
	if (!choose(run, r, nic_sums, &lane))
		return LW_OK;
	lw_vec_foreach (other, &lanes->lanes)
		if (lane.nic != LW_NONE && other->nic == lane.nic) {
			lanes->of_rank[r] = (size_t)(other - lanes->lanes.at);
			other->n_ranks++;
			return LW_OK;
		}
	if (lw_vec_push(&lanes->lanes, lane) < 0)
		return LW_ERR_NOMEM;
	other = &lanes->lanes.at[lanes->lanes.n - 1];
	status = fill(run, r, other);
	if (status < 0)
		return status;
	lanes->of_rank[r] = lanes->lanes.n - 1;
	window_ns = other->resolution_ns > LEAST_WINDOW_NS ? other->resolution_ns : LEAST_WINDOW_NS;
	lanes->most_bytes_per_s = fmax(lanes->most_bytes_per_s,
		lw_nic_curve_most(&other->moved, window_ns, &other->most_in_bytes_per_s));
	return LW_OK;
}

int lw_nic_lanes_init(struct lw_nic_lanes *lanes, const struct lw_run *run)
{
	double *nic_sums = calloc(run->nics.n + 1, sizeof(*nic_sums));
	int status = LW_OK;

	*lanes = (struct lw_nic_lanes){0};
	lanes->of_rank = calloc(run->ranks.n + 1, sizeof(*lanes->of_rank));
	if (!nic_sums || !lanes->of_rank)
		status = lw_fail(LW_ERR_NOMEM, "no memory for the traffic of ranks");
	for (size_t r = 0; r < run->ranks.n && status == LW_OK; r++)
		status = add_rank(lanes, run, r, nic_sums);
	free(nic_sums);
	return status;
}

void lw_nic_lanes_done(struct lw_nic_lanes *lanes)
{
	struct lw_nic_lane *lane;

	lw_vec_foreach (lane, &lanes->lanes) {
		lw_vec_free(&lane->moved.points);
		lw_vec_free(&lane->again.points);
		lw_vec_free(&lane->gaps);
	}
	lw_vec_free(&lanes->lanes);
	free(lanes->of_rank);
	lanes->of_rank = NULL;
}

const struct lw_nic_lane *lw_nic_lane_of(const struct lw_nic_lanes *lanes, size_t r)
{
	return lanes->of_rank && lanes->of_rank[r] < lanes->lanes.n
		       ? &lanes->lanes.at[lanes->of_rank[r]]
		       : NULL;
}

double lw_nic_full(const struct lw_nic_lanes *lanes, const struct lw_run *run, size_t r,
	enum lw_capacity_from *ret_from)
{
	const struct lw_net_rank *rank =
		r < run->network.ranks.n ? &run->network.ranks.at[r] : NULL;
	const struct lw_nic_lane *lane = lw_nic_lane_of(lanes, r);

	*ret_from = LW_CAPACITY_NONE;
	if (rank && rank->capacity_bytes_per_s > 0) { /* not NAN */
		*ret_from = (enum lw_capacity_from)rank->capacity_from;
		return rank->capacity_bytes_per_s;
	}
	if (lane && lane->nic != LW_NONE && lw_net_is_physical(&run->nics.at[lane->nic])) {
		*ret_from = LW_CAPACITY_SPEED;
		return (double)run->nics.at[lane->nic].speed_bytes_per_s;
	}
	return lanes->most_bytes_per_s;
}
