/* SPDX-License-Identifier: Apache-2.0 */
/*
 * capacity.c - what the way out of each rank carries, and which of them is slow.
 *
 * In a ring all ranks send at the pace of the slowest link, so rates alone name nobody. But TCP of the slow link
 * has data in flight all the time, the others wait for data to send. So a rate counts where TCP was busy
 * throughout; where no reading is long enough for that: what was acknowledged by the time something was in flight.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/network/network.h"

#define BUSY_FRAC    0.95 /* of the time between two readings: busy throughout */
#define SPREAD_FRAC  0.1  /* of the middle: a plateau */
#define PLATEAU_FRAC 0.95 /* of the mean while something is in flight: what a plateau is at least */
#define LIMITED_FRAC 0.5  /* of the busy time: not the network held it up */
#define SLOW_FRAC    0.67 /* of the others: slow */
enum { LEAST_RATES = 4, LEAST_BYTES = 1 << 20, LEAST_NS = 20000000 };

/* Time with data in flight by @at_ns, between two readings in proportion. */
static double busy_at(const struct lw_tcp_end *end, int64_t at_ns)
{
	const struct lw_tcp_reading *before = NULL, *reading;
	size_t low = 0, high = end->tcp.n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (end->tcp.at[middle].at_ns <= at_ns)
			low = middle + 1;
		else
			high = middle;
	}
	if (!low || end->tcp.at[low - 1].busy_ns < 0)
		return 0;
	before = &end->tcp.at[low - 1];
	if (low == end->tcp.n || end->tcp.at[low].busy_ns < 0)
		return (double)before->busy_ns;
	reading = &end->tcp.at[low];
	return (double)before->busy_ns + (double)(reading->busy_ns - before->busy_ns) *
						 (double)(at_ns - before->at_ns) /
						 (double)(reading->at_ns - before->at_ns);
}

static bool is_out_of(const struct lw_tcp_end *end, const struct lw_run *run, int32_t rank)
{
	return end->rank == rank && end->peer_rank != LW_NONE && end->peer_rank != rank &&
	       end->nic != LW_NONE && !run->nics.at[end->nic].is_loopback;
}

/* The NIC that most bytes for other ranks leave by. */
static int32_t main_nic(const struct lw_run *run, int32_t rank)
{
	double *bytes = calloc(run->nics.n + 1, sizeof(*bytes));
	const struct lw_tcp_end *end;
	int32_t best = LW_NONE;

	if (!bytes)
		return LW_NONE;
	lw_vec_foreach (end, &run->ends)
		if (is_out_of(end, run, rank))
			bytes[end->nic] += lw_end_sent_bytes(end);
	for (size_t i = 0; i < run->nics.n; i++)
		if (bytes[i] > 0 && (best == LW_NONE || bytes[i] > bytes[best]))
			best = (int32_t)i;
	free(bytes);
	return best;
}

struct way { /* out of a rank: all its connections to ranks by its NIC */
	double acked_bytes, sent_bytes, busy_ns, n_segments, limited_ns, header_bytes;
};

static struct way way_of(const struct lw_run *run, int32_t rank, int32_t nic)
{
	struct way way = {0};
	const struct lw_tcp_end *end;

	lw_vec_foreach (end, &run->ends) {
		const struct lw_tcp_reading *last =
			end->tcp.n ? &end->tcp.at[end->tcp.n - 1] : NULL;

		if (!is_out_of(end, run, rank) || end->nic != nic || !last ||
			last->acked_bytes < 0 || last->busy_ns < 0)
			continue;
		way.acked_bytes += (double)last->acked_bytes;
		way.sent_bytes += lw_net_sent_total(end);
		way.n_segments += (double)(last->n_segments_out > 0 ? last->n_segments_out : 0);
		way.limited_ns +=
			(double)(last->rwnd_limited_ns > 0 ? last->rwnd_limited_ns : 0) +
			(double)(last->sndbuf_limited_ns > 0 ? last->sndbuf_limited_ns : 0);
		/* several at once: busy is the union, which is at least the longest and at most their sum */
		way.busy_ns = fmax(way.busy_ns, (double)last->busy_ns);
		way.header_bytes = lw_net_header_bytes(end, false);
	}
	return way;
}

struct ends {
	lw_vec(const struct lw_tcp_end *) at;
};

static double busy_frac(const struct ends *ends, int64_t from_ns, int64_t to_ns)
{
	double most = 0;

	for (size_t i = 0; i < ends->at.n; i++)
		most = fmax(
			most, busy_at(ends->at.at[i], to_ns) - busy_at(ends->at.at[i], from_ns));
	return most / (double)(to_ns - from_ns);
}

/* Those that leave by @nic and had something in flight for as long as counts. */
static void find_busy(const struct lw_run *run, int32_t nic, struct ends *busy)
{
	const struct lw_tcp_end *end;

	lw_vec_foreach (end, &run->ends)
		if (end->nic == nic && end->tcp.n &&
			end->tcp.at[end->tcp.n - 1].busy_ns >= LEAST_NS &&
			lw_vec_push(&busy->at, end) < 0)
			return;
}

/* Rates of the NIC while TCP was busy throughout: their median, when they agree. NAN: there are too few. */
static double plateau_bytes_per_s(const struct lw_run *run, int32_t nic)
{
	const struct lw_nic_series *series = lw_net_series(&run->nics.at[nic], "tx_bytes");
	lw_vec(double) rates = {0};
	double middle = NAN;
	struct ends busy = {0};

	find_busy(run, nic, &busy);
	for (size_t i = 1; series && i < series->readings.n; i++) {
		const struct lw_reading *a = &series->readings.at[i - 1], *b = a + 1;

		if (b->at_ns - a->at_ns >= LEAST_NS &&
			busy_frac(&busy, a->at_ns, b->at_ns) >= BUSY_FRAC &&
			lw_vec_push(&rates, (double)(b->value - a->value) /
						    (double)(b->at_ns - a->at_ns) * 1e9) < 0)
			break;
	}
	if (rates.n >= LEAST_RATES) {
		middle = lw_net_median(rates.at, rates.n); /* sorts */
		if (rates.at[rates.n * 3 / 4] - rates.at[rates.n / 4] > SPREAD_FRAC * middle)
			middle = NAN;
	}
	lw_vec_free(&rates);
	lw_vec_free(&busy.at);
	return middle;
}

/* A wire carries a header for each segment, which the NIC's counter has not seen where a frame was many of them. */
static double wire_factor(const struct lw_run *run, int32_t nic, const struct way *way)
{
	double n_frames = lw_net_growth(&run->nics.at[nic], "tx_packets");
	double n_counted = isnan(n_frames) ? way->n_segments : fmin(n_frames, way->n_segments);

	return (way->sent_bytes + way->header_bytes * way->n_segments) /
	       (way->sent_bytes + way->header_bytes * n_counted);
}

static double steps_ns(const struct lw_rank *rank)
{
	const struct lw_step *step;
	double ns = 0;

	lw_vec_foreach (step, &rank->steps)
		if (!step->excluded)
			ns += (double)(step->end_ns - step->start_ns);
	return ns;
}

static void find_way(struct lw_run *run, int32_t r)
{
	struct lw_net_rank *rank = &run->network.ranks.at[r];
	const struct lw_nic *nic;
	struct way way;
	double ns = steps_ns(&run->ranks.at[r]);

	rank->nic = main_nic(run, r);
	if (rank->nic == LW_NONE)
		return;
	nic = &run->nics.at[rank->nic];
	way = way_of(run, r, rank->nic);
	rank->busy_ns = way.busy_ns;
	if (way.sent_bytes > 0)
		rank->wire_factor = 1 + way.header_bytes * way.n_segments / way.sent_bytes;
	if (way.acked_bytes >= LEAST_BYTES && way.limited_ns < LIMITED_FRAC * way.busy_ns) {
		double busy_bytes_per_s = way.acked_bytes / way.busy_ns * 1e9 * rank->wire_factor;

		rank->capacity_bytes_per_s =
			plateau_bytes_per_s(run, rank->nic) * wire_factor(run, rank->nic, &way);
		rank->capacity_from = LW_CAPACITY_PLATEAU;
		/* less than the mean: it was busy throughout while something held it up */
		if (!(rank->capacity_bytes_per_s >= PLATEAU_FRAC * busy_bytes_per_s) &&
			way.busy_ns > 0) {
			rank->capacity_bytes_per_s = busy_bytes_per_s;
			rank->capacity_from = LW_CAPACITY_BUSY;
		}
		if (ns > 0 && run->network.n_steps)
			rank->used_frac = rank->sent_bytes * (double)run->network.n_steps *
					  rank->wire_factor / (ns / 1e9) /
					  rank->capacity_bytes_per_s;
	}
	if (isnan(rank->capacity_bytes_per_s)) {
		rank->capacity_from = LW_CAPACITY_NONE;
		if (lw_net_is_physical(nic)) {
			rank->capacity_from = LW_CAPACITY_SPEED;
			rank->capacity_bytes_per_s = (double)nic->speed_bytes_per_s;
		}
	}
}

bool lw_net_is_physical(const struct lw_nic *nic)
{
	/* what these say of their speed is made up */
	static const char *const drivers[] = {
		"veth", "bridge", "tun", "virtio_net", "bonding", "team", "macvlan", "dummy", ""};

	for (size_t i = 0; i < sizeof(drivers) / sizeof(drivers[0]); i++)
		if (!strcmp(nic->driver, drivers[i]))
			return false;
	return nic->speed_bytes_per_s > 0;
}

static bool is_measured(const struct lw_net_rank *rank)
{
	return !isnan(rank->capacity_bytes_per_s) &&
	       (rank->capacity_from == LW_CAPACITY_PLATEAU ||
		       rank->capacity_from == LW_CAPACITY_BUSY);
}

static void find_slow(struct lw_run *run, double *others)
{
	struct lw_network *net = &run->network;
	double least = INFINITY;
	int32_t slow = LW_NONE;
	size_t n = 0;

	for (size_t r = 0; r < net->ranks.n; r++)
		if (is_measured(&net->ranks.at[r]) &&
			net->ranks.at[r].capacity_bytes_per_s < least) {
			least = net->ranks.at[r].capacity_bytes_per_s;
			slow = (int32_t)r;
		}
	for (size_t r = 0; r < net->ranks.n; r++)
		if (is_measured(&net->ranks.at[r]) && (int32_t)r != slow)
			others[n++] = net->ranks.at[r].capacity_bytes_per_s;
	net->others_bytes_per_s = lw_net_median(others, n);
	if (least < SLOW_FRAC * net->others_bytes_per_s)
		net->slow_rank = slow;
}

int lw_net_find_capacity(struct lw_run *run)
{
	double *others = calloc(run->network.ranks.n + 1, sizeof(*others));

	if (!others)
		return lw_fail(LW_ERR_NOMEM, "no memory");
	for (size_t r = 0; r < run->network.ranks.n; r++)
		find_way(run, (int32_t)r);
	find_slow(run, others);
	free(others);
	return LW_OK;
}
