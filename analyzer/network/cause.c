/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cause.c - when something that holds operations up was there, by rank, out of what is recorded.
 *
 * Every cause is times alone: between two readings of TCP_INFO or of a device's counters of which the later counted more; a
 * captured millisecond is finer.
 * Whether operations were slower meanwhile is judged for all alike (slowed.c).
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/network/network.h"

/*
 * Held back: for a fifth of the time with data in flight, as operations that are a quarter faster without it are told
 * from how their times scatter, less is not. And for a twentieth of the time between the readings: a pause of some ms at the
 * end of a message is no state.
 */
#define HELD_OF_BUSY_FRAC 0.2
#define HELD_OF_TIME_FRAC 0.05

/*
 * A queue: round trips of twice what a quarter of the connection's own busy readings stay below, since on a
 * shaped link or a shallow switch the full queue is the normal state of a long transfer, and as round trips of TCP
 * halve and double by themselves. And a millisecond beyond the least: what a busy host adds.
 */
#define QUEUE_FACTOR 2
enum { QUEUE_NS = 1000000, LEAST_BUSY_READINGS = 8, BIN_NS = 1000000 };

struct sources { /* of one run */
	struct lw_run *run;
	struct lw_net_index index;
	bool *is_used; /* by nic: by connections between ranks */
	struct lw_intervals
		gaps; /* in which captures are incomplete, of the clock of the rank that is looked at */
	int64_t gaps_clock;
	bool has_gaps; /* of that clock */
};

struct finding { /* what a cause adds to, of one rank */
	const struct sources *sources;
	struct lw_run *run;
	struct lw_intervals *when;
	struct lw_net_caused *caused;
	double *link_amounts; /* by link */
	double sum_ns;        /* of the intervals, as read */
	size_t n;
	int status;
};

static void add(struct finding *finding, int64_t start_ns, int64_t end_ns, double amount)
{
	struct lw_interval when = {start_ns, end_ns};

	if (finding->status < 0 || end_ns <= start_ns)
		return;
	finding->status = lw_vec_push(&finding->when->at, when);
	finding->sum_ns += (double)(end_ns - start_ns);
	finding->n++;
	finding->caused->amount += amount;
}

static void add_of_link(
	struct finding *finding, int32_t from, int32_t to, struct lw_interval when, double amount)
{
	const struct lw_net_link *link = lw_net_link_of(finding->run, from, to);

	add(finding, when.start_ns, when.end_ns, amount);
	if (link)
		finding->link_amounts[link - finding->run->network.links.at] += amount;
}

/* Packets of @start_ns to @end_ns may be missing in what was captured. */
static bool is_in_gap(const struct finding *finding, int64_t start_ns, int64_t end_ns)
{
	const struct lw_interval *gaps = finding->sources->gaps.at.at;
	size_t low = 0, high = finding->sources->gaps.at.n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (gaps[middle].end_ns <= start_ns)
			low = middle + 1;
		else
			high = middle;
	}
	return low < finding->sources->gaps.at.n && gaps[low].start_ns < end_ns;
}

/* Where a counter of a device grew, which is not one link's. @is_gap: only where a capture is incomplete. */
static void add_counter(
	struct finding *finding, const struct lw_nic_series *series, bool is_amount, bool is_gap)
{
	for (size_t i = 1; series && i < series->readings.n; i++) {
		const struct lw_reading *a = &series->readings.at[i - 1], *b = a + 1;

		if (b->value > a->value && (!is_gap || is_in_gap(finding, a->at_ns, b->at_ns)))
			add(finding, a->at_ns, b->at_ns,
				is_amount ? (double)(b->value - a->value) : 0);
	}
}

/* What rank @r sends to another rank by TCP and a NIC. */
static bool is_way_out(const struct lw_run *run, const struct lw_tcp_end *end, int32_t r)
{
	return end->rank == r && end->peer_rank != LW_NONE && end->peer_rank != r &&
	       !end->is_rdma && !(end->nic != LW_NONE && run->nics.at[end->nic].is_loopback);
}

/* ---- sent again ---------------------------------------------------------------------------------- */

/* Packets of @r that were sent again, were missing, or were refused by who sends @flow to it. */
static uint64_t n_troubles(
	const struct lw_packet_flow *flow, const struct lw_packet_bin *bin, int32_t r)
{
	return flow->from_rank == r ? bin->n_retransmitted + bin->n_psn_gaps : bin->n_naks;
}

static bool is_link_captured(struct lw_run *run, int32_t from, int32_t to, bool is_rdma)
{
	const struct lw_net_link *link = lw_net_link_of(run, from, to);

	return link && link->is_captured[is_rdma];
}

/* Of links that were captured. What is refused on the way back tells of the way out; what is read goes back only. */
static void add_bins(struct finding *finding, int32_t r)
{
	const struct lw_net_index *index = &finding->sources->index;
	const struct lw_packet_bin *bin;

	for (size_t i = index->first_flow[r]; i < index->first_flow[r + 1]; i++) {
		const struct lw_packet_flow *flow = index->flows[i];
		int32_t peer = flow->from_rank == r ? flow->to_rank : flow->from_rank;

		if (!lw_net_shows(finding->run, flow, r) ||
			(!is_link_captured(finding->run, r, peer, flow->is_roce) &&
				!is_link_captured(finding->run, peer, r, flow->is_roce)))
			continue;
		finding->caused->is_by_packets = true;
		lw_vec_foreach (bin, &flow->bins) {
			uint64_t n = n_troubles(flow, bin, r);

			if (n)
				add_of_link(finding, r, peer,
					(struct lw_interval){bin->bin_ns, bin->bin_ns + BIN_NS},
					(double)n);
		}
	}
}

/* RDMA that was not captured, or not then: all of the ports that @r sends by, which do not say to whom. */
static void add_ports(struct finding *finding, int32_t r)
{
	const struct lw_net_index *index = &finding->sources->index;
	struct lw_run *run = finding->run;
	bool *is_known = calloc(run->nics.n + 1, sizeof(*is_known));
	bool is_captured;

	if (!is_known) {
		finding->status = lw_fail(LW_ERR_NOMEM, "no memory");
		return;
	}
	for (size_t i = index->first_end[r]; i < index->first_end[r + 1]; i++) {
		const struct lw_tcp_end *end = index->ends[i];

		if (!end->is_rdma || !lw_net_is_between_ranks(end) || end->nic == LW_NONE ||
			is_known[end->nic])
			continue;
		is_captured = is_link_captured(run, r, end->peer_rank, true);
		if (is_captured && !finding->sources->gaps.at.n)
			continue;
		is_known[end->nic] = true;
		for (size_t c = 0; c < LW_NET_N_RESENT_COUNTERS; c++)
			add_counter(finding,
				lw_net_series(&run->nics.at[end->nic], lw_net_resent_counters[c]),
				!is_captured, is_captured);
	}
	free(is_known);
}

/* Captured between @end's rank and its peer from @start_ns to @end_ns: sent again. */
static double n_captured(const struct finding *finding, const struct lw_tcp_end *end,
	int64_t start_ns, int64_t end_ns)
{
	const struct lw_net_index *index = &finding->sources->index;
	const struct lw_packet_bin *bin;
	double n = 0;

	for (size_t i = index->first_flow[end->rank]; i < index->first_flow[end->rank + 1]; i++) {
		const struct lw_packet_flow *flow = index->flows[i];

		if (flow->from_rank != end->rank || flow->to_rank != end->peer_rank ||
			flow->is_roce || !lw_net_shows(finding->run, flow, end->rank))
			continue;
		lw_vec_foreach (bin, &flow->bins)
			if (bin->bin_ns + BIN_NS > start_ns && bin->bin_ns < end_ns)
				n += (double)bin->n_retransmitted;
	}
	return n;
}

/* Where packets tell, they do but for when they were dropped: there the kernel counted more. */
static void add_resent(struct finding *finding, const struct lw_tcp_end *end)
{
	bool is_captured = is_link_captured(finding->run, end->rank, end->peer_rank, false);

	for (size_t i = 1; i < end->tcp.n; i++) {
		const struct lw_tcp_reading *a = &end->tcp.at[i - 1], *b = a + 1;
		double n = (double)(b->n_retransmits - a->n_retransmits);

		if (a->n_retransmits < 0 || n <= 0 ||
			(is_captured && !is_in_gap(finding, a->at_ns, b->at_ns)))
			continue;
		if (is_captured)
			n -= n_captured(finding, end, a->at_ns, b->at_ns);
		if (n > 0)
			add_of_link(finding, end->rank, end->peer_rank,
				(struct lw_interval){a->at_ns, b->at_ns}, n);
	}
}

/* ---- held back ----------------------------------------------------------------------------------- */

static void add_held(struct finding *finding, const struct lw_tcp_end *end, size_t offset)
{
	for (size_t i = 1; i < end->tcp.n; i++) {
		const struct lw_tcp_reading *a = &end->tcp.at[i - 1], *b = a + 1;
		int64_t before = *(const int64_t *)(const void *)((const char *)a + offset);
		int64_t after = *(const int64_t *)(const void *)((const char *)b + offset);
		double held_ns = (double)(after - before);

		if (before < 0 || after <= before || a->busy_ns < 0 || b->busy_ns < a->busy_ns)
			continue;
		if (held_ns >= HELD_OF_BUSY_FRAC * (double)(b->busy_ns - a->busy_ns) &&
			held_ns >= HELD_OF_TIME_FRAC * (double)(b->at_ns - a->at_ns))
			add_of_link(finding, end->rank, end->peer_rank,
				(struct lw_interval){a->at_ns, b->at_ns}, held_ns);
	}
}

static void add_window(struct finding *finding, const struct lw_tcp_end *end)
{
	add_held(finding, end, offsetof(struct lw_tcp_reading, rwnd_limited_ns));
}

static void add_buffer(struct finding *finding, const struct lw_tcp_end *end)
{
	add_held(finding, end, offsetof(struct lw_tcp_reading, sndbuf_limited_ns));
}

/* ---- queues -------------------------------------------------------------------------------------- */

static bool is_busy(const struct lw_tcp_reading *a)
{
	return a[0].busy_ns >= 0 && a[1].busy_ns > a[0].busy_ns && a[1].rtt_ns > 0;
}

/* From which round trip on something stands in a queue. INFINITY: too few readings. */
static double queue_ns(const struct lw_tcp_end *end)
{
	double *rtts_ns = calloc(end->tcp.n + 1, sizeof(*rtts_ns));
	double least_ns = INFINITY, usual_ns = INFINITY;
	size_t n = 0;

	for (size_t i = 0; rtts_ns && i < end->tcp.n; i++) {
		const struct lw_tcp_reading *reading = &end->tcp.at[i];

		if (reading->min_rtt_ns > 0)
			least_ns = fmin(least_ns, (double)reading->min_rtt_ns);
		if (i + 1 < end->tcp.n && is_busy(reading))
			rtts_ns[n++] = (double)reading[1].rtt_ns;
	}
	if (n >= LEAST_BUSY_READINGS) {
		lw_net_median(rtts_ns, n); /* sorts */
		usual_ns = rtts_ns[n / 4];
	}
	free(rtts_ns);
	return fmax(QUEUE_FACTOR * usual_ns, least_ns + QUEUE_NS);
}

static void add_queue(struct finding *finding, const struct lw_tcp_end *end)
{
	const struct lw_net_link *link = lw_net_link_of(finding->run, end->rank, end->peer_rank);
	double from_ns = queue_ns(end);

	if (!link ||
		!lw_net_is_edge(finding->run, link)) /* what is rare waits for acknowledgements */
		return;
	for (size_t i = 1; i < end->tcp.n; i++) {
		const struct lw_tcp_reading *a = &end->tcp.at[i - 1], *b = a + 1;

		if (is_busy(a) && (double)b->rtt_ns > from_ns)
			add_of_link(finding, end->rank, end->peer_rank,
				(struct lw_interval){a->at_ns, b->at_ns},
				(double)(b->at_ns - a->at_ns));
	}
}

/* ---- counters of devices ------------------------------------------------------------------------- */

/* Recordings of one host each know it by a number of their own, and share its clock. */
static bool is_on_host(const struct sources *sources, const struct lw_nic *nic, int32_t r)
{
	const struct lw_net_index *index = &sources->index;
	bool has_any = false;

	if (sources->run->ranks.at[r].clock != nic->clock)
		return false;
	for (size_t i = index->first_end[r]; i < index->first_end[r + 1]; i++)
		if (index->ends[i]->nic != LW_NONE) {
			const struct lw_nic *own = &sources->run->nics.at[index->ends[i]->nic];

			has_any = true;
			if (own->store != nic->store || own->host_id == nic->host_id)
				return true;
		}
	return !has_any;
}

/*
 * A rank's by its connections. What serves no connection that was seen serves all ranks of its host: the queues of
 * CPUs, ports of what posts past libibverbs, the NIC of a RoCE port; but no NIC where TCP goes by another.
 */
static bool is_device_of(const struct sources *sources, int32_t nic_index, int32_t r)
{
	const struct lw_net_index *index = &sources->index;
	const struct lw_run *run = sources->run;
	const struct lw_nic *nic = &run->nics.at[nic_index];
	bool is_tcp_elsewhere = false, has_rdma = false;

	for (size_t i = index->first_end[r]; i < index->first_end[r + 1]; i++) {
		const struct lw_tcp_end *end = index->ends[i];

		if (!lw_net_is_between_ranks(end))
			continue;
		if (end->nic != LW_NONE && run->nics.at[end->nic].same_as == nic_index)
			return true;
		is_tcp_elsewhere |= end->nic != LW_NONE && !end->is_rdma;
		has_rdma |= end->is_rdma;
	}
	if (sources->is_used[nic_index] || nic->is_loopback ||
		(!strcmp(nic->kind, "nic") && is_tcp_elsewhere && !has_rdma))
		return false;
	return is_on_host(sources, nic, r);
}

static void add_devices(struct finding *finding, int32_t r)
{
	struct lw_run *run = finding->run;
	const struct lw_net_trouble *trouble;

	lw_vec_foreach (trouble, &run->network.troubles) {
		if (!is_device_of(finding->sources, trouble->nic, r))
			continue;
		if (trouble->n > finding->caused->worst_amount) {
			finding->caused->amount = finding->caused->worst_amount = trouble->n;
			finding->caused->nic = trouble->nic;
			finding->caused->counter = trouble->counter;
		}
		add_counter(finding, lw_net_series(&run->nics.at[trouble->nic], trouble->counter),
			false, false);
	}
}

/* ---- all of them --------------------------------------------------------------------------------- */

static const struct {
	const char *name;
	void (*by_packets)(struct finding *finding, int32_t r);
	void (*by_end)(struct finding *finding, const struct lw_tcp_end *end);
	void (*by_port)(
		struct finding *finding, int32_t r); /* RDMA that was not captured, or not then */
	void (*by_device)(struct finding *finding, int32_t r);
	bool is_state, is_account;
} causes[LW_N_CAUSES] = {
	[LW_CAUSE_RESENT] = {"segments sent again", add_bins, add_resent, add_ports, NULL, false,
		false},
	[LW_CAUSE_WINDOW] = {"receiver's window", NULL, add_window, NULL, NULL, true, true},
	[LW_CAUSE_BUFFER] = {"send buffer", NULL, add_buffer, NULL, NULL, true, true},
	[LW_CAUSE_QUEUE] = {"queueing", NULL, add_queue, NULL, NULL, true, false},
	[LW_CAUSE_DEVICE] = {"NIC's counters", NULL, NULL, NULL, add_devices, false, false},
};

const char *lw_net_cause_name(enum lw_net_cause cause)
{
	return causes[cause].name;
}

bool lw_net_cause_is_state(enum lw_net_cause cause)
{
	return causes[cause].is_state;
}

bool lw_net_cause_is_account(enum lw_net_cause cause)
{
	return causes[cause].is_account;
}

static int find_of_rank(const struct sources *sources, int c, int32_t r, struct lw_intervals *when,
	double *link_amounts)
{
	const struct lw_net_index *index = &sources->index;
	struct lw_run *run = sources->run;
	struct lw_net_caused *caused = &run->network.slowed.by[c];
	struct finding finding = {sources, run, when, caused, link_amounts, 0, 0, LW_OK};

	if (causes[c].by_packets)
		causes[c].by_packets(&finding, r);
	for (size_t i = index->first_end[r]; i < index->first_end[r + 1]; i++)
		if (causes[c].by_end && is_way_out(run, index->ends[i], r))
			causes[c].by_end(&finding, index->ends[i]);
	if (causes[c].by_port)
		causes[c].by_port(&finding, r);
	if (causes[c].by_device)
		causes[c].by_device(&finding, r);
	lw_net_merge(when);
	if (finding.n)
		caused->resolution_ns =
			fmax(caused->resolution_ns, finding.sum_ns / (double)finding.n);
	return finding.status;
}

static int find_gaps(struct sources *sources, size_t r)
{
	int64_t clock = sources->run->ranks.at[r].clock;
	const struct lw_capture_gap *gap;
	int status = LW_OK;

	if (sources->has_gaps && sources->gaps_clock == clock)
		return LW_OK;
	sources->has_gaps = true;
	sources->gaps_clock = clock;
	sources->gaps.at.n = 0;
	lw_vec_foreach (gap, &sources->run->capture_gaps)
		if (status == LW_OK && gap->clock == clock)
			status = lw_vec_push(&sources->gaps.at,
				((struct lw_interval){gap->start_ns, gap->end_ns}));
	lw_net_merge(&sources->gaps);
	return status;
}

static int find_cause(
	struct sources *sources, int c, struct lw_net_touched *touched, double *link_amounts)
{
	struct lw_network *net = &sources->run->network;
	struct lw_net_caused *caused = &net->slowed.by[c];
	int status = LW_OK;

	caused->from = caused->to = caused->nic = LW_NONE;
	for (size_t r = 0; r < sources->run->ranks.n && status == LW_OK; r++) {
		status = find_gaps(sources, r);
		if (status == LW_OK)
			status = find_of_rank(
				sources, c, (int32_t)r, &touched[r].by[c], link_amounts);
	}
	for (size_t i = 0; i < net->links.n; i++)
		if (link_amounts[i] > caused->worst_amount) {
			caused->worst_amount = link_amounts[i];
			caused->from = net->links.at[i].from;
			caused->to = net->links.at[i].to;
		}
	return status;
}

int lw_net_find_touched(struct lw_run *run, struct lw_net_touched *touched)
{
	size_t n_links = run->network.links.n + 1;
	double *link_amounts = calloc(n_links, sizeof(*link_amounts));
	struct sources sources = {
		.run = run, .is_used = calloc(run->nics.n + 1, sizeof(*sources.is_used))};
	const struct lw_tcp_end *end;
	int status = link_amounts && sources.is_used ? lw_net_index_make(run, &sources.index)
						     : lw_fail(LW_ERR_NOMEM, "no memory");

	lw_vec_foreach (end, &run->ends)
		if (status == LW_OK && lw_net_is_between_ranks(end) && end->nic != LW_NONE)
			sources.is_used[run->nics.at[end->nic].same_as] = true;
	for (int c = 0; c < LW_N_CAUSES && status == LW_OK; c++) {
		memset(link_amounts, 0, n_links * sizeof(*link_amounts));
		status = find_cause(&sources, c, touched, link_amounts);
	}
	lw_net_index_free(&sources.index);
	lw_vec_free(&sources.gaps.at);
	free(sources.is_used);
	free(link_amounts);
	return status;
}
