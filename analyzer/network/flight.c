/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flight.c - when TCP had data in flight: of one connection, and of several at least one of them.
 *
 * A reading says how long there was something since the last one, not when. So of several connections each is taken to
 * be busy evenly between two readings, and all together as long as the sum, up to the whole time. One dump reads all
 * connections of a host at once, so this is no less than it was: rates by it are no more than they were.
 *
 * While a retransmission timer runs data is in flight too, but none of it gets through: that is no rate of a link.
 */
#include <math.h>
#include <stdlib.h>

#include "analyzer/network/network.h"

#define STALLED_FRAC 0.95 /* of the time between two readings in flight, and nothing acknowledged */
enum { LEAST_STALL_NS = 50000000 };

static bool is_stalled(const struct lw_tcp_end *end, size_t i)
{
	const struct lw_tcp_reading *a, *b;

	if (!i || i >= end->tcp.n)
		return false;
	a = &end->tcp.at[i - 1];
	b = &end->tcp.at[i];
	return a->busy_ns >= 0 && b->at_ns - a->at_ns >= LEAST_STALL_NS &&
	       b->acked_bytes == a->acked_bytes &&
	       (double)(b->busy_ns - a->busy_ns) >= STALLED_FRAC * (double)(b->at_ns - a->at_ns);
}

int lw_net_flight_make(const struct lw_tcp_end *end, struct lw_net_flight *flight)
{
	double busy_ns = 0, acked_bytes = 0;
	int64_t last_busy_ns = 0, last_acked_bytes = 0;

	*flight = (struct lw_net_flight){.end = end, .n = end->tcp.n};
	flight->at = calloc(flight->n + 1, sizeof(*flight->at));
	if (!flight->at)
		return lw_fail(LW_ERR_NOMEM, "no memory");
	for (size_t i = 0; i < flight->n; i++) {
		const struct lw_tcp_reading *reading = &end->tcp.at[i];
		/* those beside a stall are partly of it */
		bool is_in = !is_stalled(end, i) && !is_stalled(end, i + 1) &&
			     !(i && is_stalled(end, i - 1));

		if (reading->busy_ns >= last_busy_ns && reading->acked_bytes >= last_acked_bytes) {
			busy_ns += is_in ? (double)(reading->busy_ns - last_busy_ns) : 0;
			acked_bytes +=
				is_in ? (double)(reading->acked_bytes - last_acked_bytes) : 0;
			last_busy_ns = reading->busy_ns;
			last_acked_bytes = reading->acked_bytes;
		}
		flight->at[i] = (struct lw_net_flown){
			reading->at_ns, (double)last_busy_ns, busy_ns, acked_bytes};
	}
	return LW_OK;
}

void lw_net_flight_free(struct lw_net_flight *flight)
{
	free(flight->at);
	flight->at = NULL;
}

struct lw_net_flown lw_net_flown_by(const struct lw_net_flight *flight, int64_t at_ns)
{
	struct lw_net_flown flown = {.at_ns = at_ns};
	size_t low = 0, high = flight->n;
	const struct lw_net_flown *a, *b;
	double part;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (flight->at[middle].at_ns <= at_ns)
			low = middle + 1;
		else
			high = middle;
	}
	if (!low)
		return flown;
	a = &flight->at[low - 1];
	if (low == flight->n)
		return *a;
	b = &flight->at[low];
	part = (double)(at_ns - a->at_ns) / (double)(b->at_ns - a->at_ns);
	flown.all_ns = a->all_ns + (b->all_ns - a->all_ns) * part;
	flown.moving_ns = a->moving_ns + (b->moving_ns - a->moving_ns) * part;
	flown.acked_bytes = a->acked_bytes + (b->acked_bytes - a->acked_bytes) * part;
	return flown;
}

/* ---- several --------------------------------------------------------------------------------------- */

struct turn { /* from here on so much more, or less, is busy */
	int64_t at_ns;
	double load;
};

struct turns {
	lw_vec(struct turn) at;
};

static int compare_turn(const void *a, const void *b)
{
	const struct turn *x = a, *y = b;

	return (x->at_ns > y->at_ns) - (x->at_ns < y->at_ns);
}

static int add_turns(
	const struct lw_net_flight *flight, int64_t from_ns, bool is_moving, struct turns *turns)
{
	double before_ns = 0;

	for (size_t i = 0; i < flight->n; i++) {
		const struct lw_net_flown *flown = &flight->at[i];
		double so_far_ns = is_moving ? flown->moving_ns : flown->all_ns;
		double ns = so_far_ns - before_ns;
		/* before the first reading: until then, as nothing else is known */
		int64_t start_ns = i ? flown[-1].at_ns : flown->at_ns - (int64_t)ns;
		double load = flown->at_ns > start_ns
				      ? fmin(1, ns / (double)(flown->at_ns - start_ns))
				      : 0;

		before_ns = so_far_ns;
		if (!(load > 0) || flown->at_ns <= from_ns)
			continue;
		if (lw_vec_push(&turns->at,
			    ((struct turn){start_ns > from_ns ? start_ns : from_ns, load})) < 0 ||
			lw_vec_push(&turns->at, ((struct turn){flown->at_ns, -load})) < 0)
			return LW_ERR_NOMEM;
	}
	return LW_OK;
}

int lw_net_in_flight_ns(const struct lw_net_flight *flights, size_t n, int64_t from_ns,
	bool is_moving, double *ret_ns)
{
	struct turns turns = {0};
	double load = 0;
	int status = LW_OK;

	*ret_ns = 0;
	for (size_t i = 0; i < n && status == LW_OK; i++)
		status = add_turns(&flights[i], from_ns, is_moving, &turns);
	if (turns.at.n)
		qsort(turns.at.at, turns.at.n, sizeof(*turns.at.at), compare_turn);
	for (size_t i = 0; i + 1 < turns.at.n; i++) {
		load += turns.at.at[i].load;
		*ret_ns += fmin(1, fmax(0, load)) *
			   (double)(turns.at.at[i + 1].at_ns - turns.at.at[i].at_ns);
	}
	lw_vec_free(&turns.at);
	return status;
}
