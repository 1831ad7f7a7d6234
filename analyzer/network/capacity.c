/* SPDX-License-Identifier: Apache-2.0 */
/*
 * capacity.c - what each NIC that gradients leave by carries, and how much of that ranks and links use.
 *
 * In a ring all ranks send at the pace of the slowest link, so rates alone name nobody. But TCP of the slow link
 * has data in flight all the time, the others wait for data to send. So a rate counts where TCP was busy
 * throughout; where no reading is long enough for that: what was acknowledged by the time something was in flight.
 *
 * Of connections that carry gradients, and only where they are most of what leaves by a NIC: of small messages that time
 * is all round trips.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/network/network.h"

#define BUSY_FRAC    0.95 /* of the time between two readings: busy throughout */
#define SPREAD_FRAC  0.1  /* of the middle: a plateau */
#define APART_FACTOR 1.25 /* a plateau that changed */
#define PLATEAU_FRAC 0.95 /* of the mean while something is in flight: what a plateau is at least */
#define LIMITED_FRAC 0.5  /* of the busy time: not the network held it up */
#define MOST_FRAC    0.5  /* of what leaves by a NIC */
#define SMALL_FRAC   0.01 /* of a link's bytes: a connection beside those that carry them */
#define OVER_FACTOR  1.1  /* more than that was used: so it is not the capacity */
/* of means between two readings, which are uneven */
#define BUSY_SPREAD_FRAC  0.5
#define BUSY_APART_FACTOR 1.5
enum { LEAST_BYTES = 1 << 20, LEAST_NS = 20000000 };
enum { UNSEEN = -2 }; /* no connection of the link so far; not LW_NONE */

#define LEVEL_UNKNOWN ((struct lw_net_level){NAN, NAN, LW_NS_UNKNOWN})

struct way { /* out by one NIC: the connections of all ranks there that carry gradients */
	lw_vec(struct lw_net_flight) flights; /* of TCP */
	int32_t rank;                         /* one of those that send by it */
	double bytes, all_bytes; /* of those connections; of all that ranks have there */
	double acked_bytes, sent_bytes, header_bytes, n_segments, limited_ns, sum_ns, busy_ns;
	double wire_factor;
	double capacity_bytes_per_s, at_most_bytes_per_s, used_frac;
	int from;
	struct lw_net_level level;
};

struct share { /* what a rank sends by a NIC */
	int32_t rank, nic;
	double bytes;
};

struct ways {
	struct way *at; /* by NIC */
	size_t n;
	lw_vec(struct share) shares; /* by rank, NIC */
	int32_t *nic_of_link;        /* UNSEEN; LW_NONE: by several, or not known */
};

bool lw_net_is_gradients(struct lw_run *run, const struct lw_tcp_end *end)
{
	const struct lw_net_link *link = lw_net_is_between_ranks(end)
						 ? lw_net_link_of(run, end->rank, end->peer_rank)
						 : NULL;

	return link && lw_net_is_edge(run, link) &&
	       lw_end_sent_bytes(end) >= SMALL_FRAC * link->run_bytes;
}

static int add_flight(struct way *way, const struct lw_tcp_end *end)
{
	const struct lw_tcp_reading *last = end->tcp.n ? &end->tcp.at[end->tcp.n - 1] : NULL;
	struct lw_net_flight flight;

	if (!last || last->acked_bytes < 0 || last->busy_ns < 0)
		return LW_OK;
	if (lw_net_flight_make(end, &flight) < 0)
		return LW_ERR_NOMEM;
	if (lw_vec_push(&way->flights, flight) < 0) {
		lw_net_flight_free(&flight);
		return LW_ERR_NOMEM;
	}
	if (last->n_segments_out > 0) {
		way->n_segments += (double)last->n_segments_out;
		way->header_bytes += (double)last->n_segments_out * lw_net_header_bytes(end, false);
	}
	way->sent_bytes += lw_net_sent_total(end);
	way->acked_bytes += (double)last->acked_bytes;
	way->sum_ns += (double)last->busy_ns;
	way->limited_ns += (double)(last->rwnd_limited_ns > 0 ? last->rwnd_limited_ns : 0) +
			   (double)(last->sndbuf_limited_ns > 0 ? last->sndbuf_limited_ns : 0);
	return LW_OK;
}

static int compare_share(const void *a, const void *b)
{
	const struct share *x = a, *y = b;
	int by = (x->rank > y->rank) - (x->rank < y->rank);

	return by ? by : (x->nic > y->nic) - (x->nic < y->nic);
}

static void merge_shares(struct ways *ways)
{
	size_t n = 0;

	if (!ways->shares.n)
		return;
	qsort(ways->shares.at, ways->shares.n, sizeof(*ways->shares.at), compare_share);
	for (size_t i = 1; i < ways->shares.n; i++) {
		const struct share *share = &ways->shares.at[i];

		if (compare_share(&ways->shares.at[n], share))
			ways->shares.at[++n] = *share;
		else
			ways->shares.at[n].bytes += share->bytes;
	}
	ways->shares.n = n + 1;
}

static int find_ways(struct lw_run *run, struct ways *ways)
{
	const struct lw_tcp_end *end;

	lw_vec_foreach (end, &run->ends) {
		struct share share = {end->rank, end->nic, lw_end_sent_bytes(end)};
		struct way *way = end->nic == LW_NONE ? NULL : &ways->at[end->nic];
		size_t l;

		if (end->rank == LW_NONE)
			continue;
		if (way)
			way->all_bytes += share.bytes;
		if (!lw_net_is_gradients(run, end))
			continue;
		l = (size_t)(lw_net_link_of(run, end->rank, end->peer_rank) -
			     run->network.links.at);
		ways->nic_of_link[l] =
			ways->nic_of_link[l] == UNSEEN || ways->nic_of_link[l] == end->nic
				? end->nic
				: LW_NONE;
		if (lw_vec_push(&ways->shares, share) < 0)
			return LW_ERR_NOMEM;
		if (!way || run->nics.at[end->nic].is_loopback)
			continue;
		way->rank = end->rank;
		way->bytes += share.bytes;
		if (add_flight(way, end) < 0)
			return LW_ERR_NOMEM;
	}
	merge_shares(ways);
	return LW_OK;
}

/* ---- what one carries ------------------------------------------------------------------------------ */

struct rates {
	lw_vec(struct lw_net_rate) at;
};

static double busy_frac(const struct way *way, int64_t from_ns, int64_t to_ns)
{
	double most_ns = 0;

	for (size_t i = 0; i < way->flights.n; i++) {
		const struct lw_net_flight *flight = &way->flights.at[i];

		if (flight->n && flight->at[flight->n - 1].moving_ns >= LEAST_NS)
			most_ns = fmax(most_ns, lw_net_flown_by(flight, to_ns).moving_ns -
							lw_net_flown_by(flight, from_ns).moving_ns);
	}
	return most_ns / (double)(to_ns - from_ns);
}

/* Rates of the NIC while TCP was busy throughout. */
static struct lw_net_level plateau_of(const struct lw_nic *nic, const struct way *way)
{
	const struct lw_nic_series *series = lw_net_series(nic, "tx_bytes");
	struct rates rates = {0};
	struct lw_net_level level;

	for (size_t i = 1; series && i < series->readings.n; i++) {
		const struct lw_reading *a = &series->readings.at[i - 1], *b = a + 1;
		double bytes_per_s =
			(double)(b->value - a->value) / (double)(b->at_ns - a->at_ns) * 1e9;

		if (b->at_ns - a->at_ns >= LEAST_NS &&
			busy_frac(way, a->at_ns, b->at_ns) >= BUSY_FRAC &&
			lw_vec_push(&rates.at, ((struct lw_net_rate){a->at_ns, bytes_per_s})) < 0)
			break;
	}
	level = lw_net_level_of(rates.at.at, rates.at.n, SPREAD_FRAC, APART_FACTOR);
	lw_vec_free(&rates.at);
	return level;
}

/* Whether the rates while something was in flight changed: of the connection that carried most. */
static struct lw_net_level change_of(const struct way *way)
{
	const struct lw_net_flight *most = NULL;
	struct rates rates = {0};
	struct lw_net_level level;

	for (size_t i = 0; i < way->flights.n; i++) {
		const struct lw_net_flight *flight = &way->flights.at[i];

		if (flight->n && (!most || flight->at[flight->n - 1].acked_bytes >
						   most->at[most->n - 1].acked_bytes))
			most = flight;
	}
	for (size_t i = 1; most && i < most->n; i++) {
		const struct lw_net_flown *a = &most->at[i - 1], *b = a + 1;
		double ns = b->moving_ns - a->moving_ns;

		if (ns >= LEAST_NS &&
			lw_vec_push(&rates.at,
				((struct lw_net_rate){a->at_ns,
					(b->acked_bytes - a->acked_bytes) / ns * 1e9})) < 0)
			break;
	}
	level = lw_net_level_of(rates.at.at, rates.at.n, BUSY_SPREAD_FRAC, BUSY_APART_FACTOR);
	lw_vec_free(&rates.at);
	return level;
}

struct busy {              /* from some time on */
	double bytes, ns;  /* acknowledged; something was in flight and got through */
	double longest_ns; /* in the connection that was in flight longest */
};

static int busy_since(const struct way *way, int64_t since_ns, struct busy *ret_busy)
{
	*ret_busy = (struct busy){0};
	for (size_t i = 0; i < way->flights.n; i++) {
		const struct lw_net_flight *flight = &way->flights.at[i];
		struct lw_net_flown before = lw_net_flown_by(flight, since_ns), all = before;

		if (flight->n)
			all = flight->at[flight->n - 1];
		ret_busy->bytes += all.acked_bytes - before.acked_bytes;
		ret_busy->longest_ns = fmax(ret_busy->longest_ns, all.moving_ns - before.moving_ns);
	}
	return lw_net_in_flight_ns(way->flights.at, way->flights.n, since_ns, true, &ret_busy->ns);
}

/* With headers. NAN: nothing was in flight. */
static double rate_of(const struct way *way, double bytes, double ns)
{
	return ns > 0 ? bytes / ns * 1e9 * way->wire_factor : (double)NAN;
}

static void set_busy(struct way *way, const struct busy *busy)
{
	way->capacity_bytes_per_s = rate_of(way, busy->bytes, busy->ns);
	way->at_most_bytes_per_s = rate_of(way, busy->bytes, busy->longest_ns - way->limited_ns);
}

/* A wire carries a header for each segment, which the NIC's counter has not seen where a frame was many of them. */
static double counted_factor(const struct lw_nic *nic, const struct way *way)
{
	double n_frames = lw_net_growth(nic, "tx_packets");
	double n_counted = isnan(n_frames) ? way->n_segments : fmin(n_frames, way->n_segments);

	if (!(way->n_segments > 0))
		return 1;
	return (way->sent_bytes + way->header_bytes) /
	       (way->sent_bytes + way->header_bytes * n_counted / way->n_segments);
}

/* Of steps since @since_ns: what its connections sent, by what it could have carried. */
static double used_frac(const struct lw_run *run, const struct ways *ways, int32_t nic)
{
	const struct way *way = &ways->at[nic];
	const struct lw_rank *rank = &run->ranks.at[way->rank];
	int64_t since_ns = way->level.since_ns;
	const struct lw_tcp_end *end;
	const struct lw_step *step;
	double bytes = 0, ns = 0;

	if (!run->network.n_steps)
		return NAN;
	lw_vec_foreach (step, &rank->steps)
		if (!step->excluded && step->start_ns >= since_ns)
			ns += (double)(step->end_ns - step->start_ns);
	lw_vec_foreach (end, &run->ends) {
		size_t hint = 0;

		if (end->nic != nic || !lw_net_is_between_ranks(end))
			continue;
		lw_vec_foreach (step, &rank->steps)
			if (!step->excluded && step->start_ns >= since_ns) {
				double before =
					lw_end_bytes(end, step->start_ns, LW_END_SENT, &hint);

				bytes += lw_end_bytes(end, step->end_ns, LW_END_SENT, &hint) -
					 before;
			}
	}
	return ns > 0 ? bytes * way->wire_factor / (ns / 1e9) / way->capacity_bytes_per_s
		      : (double)NAN;
}

/* If what was in flight got through at another rate since some time: else the faster part tells what it carries at least. */
static int measure_busy(struct lw_run *run, struct way *way, const struct busy *all)
{
	struct busy after, before;
	struct lw_net_change change;
	bool has_changed;

	set_busy(way, all);
	way->from = LW_CAPACITY_BUSY;
	way->level = change_of(way);
	if (way->level.since_ns == LW_NS_UNKNOWN)
		return LW_OK;
	if (busy_since(way, way->level.since_ns, &after) < 0)
		return LW_ERR_NOMEM;
	before = (struct busy){
		all->bytes - after.bytes, all->ns - after.ns, all->longest_ns - after.longest_ns};
	change.since_ns = way->level.since_ns;
	change.is_slower = way->level.bytes_per_s < way->level.before_bytes_per_s;
	change.slow_ns = change.is_slower ? after.ns : before.ns;
	if (lw_net_has_changed(run, way->rank, &change, &has_changed) < 0)
		return LW_ERR_NOMEM;
	set_busy(way, has_changed || !change.is_slower ? &after : &before);
	if (has_changed)
		way->level.before_bytes_per_s *= way->wire_factor;
	else
		way->level = LEVEL_UNKNOWN;
	return LW_OK;
}

/* @ret_is: what was in flight tells; else what the driver says may. */
static int measure(struct lw_run *run, const struct lw_nic *nic, struct way *way, bool *ret_is)
{
	struct busy all, busy;
	int status;

	*ret_is = false;
	if (way->acked_bytes < LEAST_BYTES || way->limited_ns >= LIMITED_FRAC * way->sum_ns ||
		way->bytes < MOST_FRAC * way->all_bytes)
		return LW_OK;
	way->level = plateau_of(nic, way);
	way->capacity_bytes_per_s = way->level.bytes_per_s * counted_factor(nic, way);
	way->level.before_bytes_per_s *= counted_factor(nic, way);
	way->from = LW_CAPACITY_PLATEAU;
	if (busy_since(way, way->level.since_ns, &busy) < 0 ||
		busy_since(way, LW_NS_UNKNOWN, &all) < 0)
		return LW_ERR_NOMEM;
	/* less than the mean: it was busy throughout while something held it up */
	if (way->capacity_bytes_per_s >= PLATEAU_FRAC * rate_of(way, busy.bytes, busy.ns)) {
		way->at_most_bytes_per_s =
			way->capacity_bytes_per_s / (1 - way->limited_ns / way->sum_ns);
		*ret_is = true;
		return LW_OK;
	}
	status = measure_busy(run, way, &all);
	*ret_is = !isnan(way->capacity_bytes_per_s);
	return status;
}

static int find_one(struct lw_run *run, struct ways *ways, int32_t n)
{
	const struct lw_nic *nic = &run->nics.at[n];
	struct way *way = &ways->at[n];
	bool is_measured;

	way->wire_factor = way->sent_bytes > 0 ? 1 + way->header_bytes / way->sent_bytes : 1;
	if (lw_net_in_flight_ns(
		    way->flights.at, way->flights.n, LW_NS_UNKNOWN, false, &way->busy_ns) < 0)
		return LW_ERR_NOMEM;
	if (measure(run, nic, way, &is_measured) < 0)
		return LW_ERR_NOMEM;
	if (is_measured)
		way->used_frac = used_frac(run, ways, n);
	if (is_measured && !(way->used_frac > OVER_FACTOR))
		return LW_OK;
	way->level = LEVEL_UNKNOWN;
	way->capacity_bytes_per_s = way->used_frac = NAN;
	way->from = LW_CAPACITY_NONE;
	if (!lw_net_is_physical(nic))
		return LW_OK;
	way->from = LW_CAPACITY_SPEED;
	way->capacity_bytes_per_s = (double)nic->speed_bytes_per_s;
	way->used_frac = used_frac(run, ways, n);
	return LW_OK;
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

/* ---- of ranks and links ----------------------------------------------------------------------------- */

static void tell_ranks(struct lw_run *run, const struct ways *ways)
{
	const struct share *share, *best = NULL;
	struct lw_net_rank *rank;

	lw_vec_foreach (share, &ways->shares) {
		rank = &run->network.ranks.at[share->rank];
		if (best && best->rank != share->rank)
			best = NULL;
		if (share->nic == LW_NONE || run->nics.at[share->nic].is_loopback ||
			(best && share->bytes <= best->bytes))
			continue;
		best = share;
		rank->nic = share->nic;
	}
	for (size_t r = 0; r < run->network.ranks.n; r++) {
		const struct way *way;
		double bytes = 0;

		rank = &run->network.ranks.at[r];
		if (rank->nic == LW_NONE)
			continue;
		way = &ways->at[rank->nic];
		lw_vec_foreach (share, &ways->shares) {
			bytes += share->rank == (int32_t)r ? share->bytes : 0;
			rank->n_sharing += share->nic == rank->nic;
		}
		rank->nic_share = bytes > 0 ? way->bytes / bytes : 1;
		rank->wire_factor = way->wire_factor;
		rank->busy_ns = way->flights.n ? way->busy_ns : (double)NAN;
		rank->capacity_bytes_per_s = way->capacity_bytes_per_s;
		rank->at_most_bytes_per_s = way->at_most_bytes_per_s;
		rank->capacity_from = way->from;
		rank->capacity_before_bytes_per_s = way->level.before_bytes_per_s;
		rank->capacity_since_ns = way->level.since_ns;
		rank->used_frac = way->used_frac;
	}
}

static void tell_links(struct lw_run *run, const struct ways *ways)
{
	struct lw_net_link *link;

	lw_vec_foreach (link, &run->network.links) {
		int32_t nic = ways->nic_of_link[link - run->network.links.at];
		const struct way *way = nic < 0 ? NULL : &ways->at[nic];
		const struct lw_rank *rank = &run->ranks.at[link->from];
		const struct lw_step *step;
		double ns = 0;

		if (!way || isnan(way->capacity_bytes_per_s))
			continue;
		link->capacity_bytes_per_s = way->capacity_bytes_per_s;
		if (way->level.since_ns != LW_NS_UNKNOWN || !run->network.n_steps)
			continue;
		lw_vec_foreach (step, &rank->steps)
			if (!step->excluded)
				ns += (double)(step->end_ns - step->start_ns);
		if (ns > 0)
			link->used_frac = link->step_bytes * (double)run->network.n_steps *
					  way->wire_factor / (ns / 1e9) / way->capacity_bytes_per_s;
	}
}

int lw_net_find_capacity(struct lw_run *run)
{
	struct ways ways = {.n = run->nics.n};
	int status = LW_OK;

	if (!run->network.ranks.n)
		return LW_OK;
	ways.at = calloc(ways.n + 1, sizeof(*ways.at));
	ways.nic_of_link = calloc(run->network.links.n + 1, sizeof(*ways.nic_of_link));
	if (!ways.at || !ways.nic_of_link)
		status = lw_fail(LW_ERR_NOMEM, "no memory");
	for (size_t l = 0; l < run->network.links.n && status == LW_OK; l++)
		ways.nic_of_link[l] = UNSEEN;
	if (status == LW_OK)
		status = find_ways(run, &ways);
	for (size_t i = 0; i < ways.n && ways.at; i++) {
		ways.at[i].level = LEVEL_UNKNOWN;
		ways.at[i].capacity_bytes_per_s = ways.at[i].at_most_bytes_per_s =
			ways.at[i].used_frac = NAN;
	}
	for (size_t i = 0; i < ways.n && status == LW_OK; i++)
		if (ways.at[i].bytes > 0)
			status = find_one(run, &ways, (int32_t)i);
	if (status == LW_OK) {
		tell_ranks(run, &ways);
		tell_links(run, &ways);
	}
	for (size_t i = 0; ways.at && i < ways.n; i++) {
		for (size_t f = 0; f < ways.at[i].flights.n; f++)
			lw_net_flight_free(&ways.at[i].flights.at[f]);
		lw_vec_free(&ways.at[i].flights);
	}
	lw_vec_free(&ways.shares);
	free(ways.nic_of_link);
	free(ways.at);
	return status;
}
