/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slow.c - whose way out is much slower than the others', and the server whose NIC all others share.
 *
 * Only where that is proven: what the slow one carries at most is below what the others carry at least. Data that meet others'
 * at the NIC of who gets them only wait their turn there, unless the slow one's are in flight when no other's are.
 */
#include <math.h>
#include <stdlib.h>

#include "analyzer/network/network.h"

#define SLOW_FRAC  0.67 /* of the others: slow */
#define OTHER_FRAC 0.1  /* of what a NIC moved: somebody else's, which takes its part */
enum { UNSEEN = -1 };

/* Places that data leave by, or come in by: NICs, and behind them a place for each rank whose NIC is not known. */
struct places {
	const struct lw_run *run;
	size_t n;
	int32_t *into; /* by link: where it comes in */
	size_t *in_links,
		*first_in; /* links by that place; the first of each, one more for the end */
	uint32_t *n_out, *n_in;
	double *rank_bytes, *other_bytes; /* that came in there: of ranks, of who is no rank */
	double *scratch;
};

static int32_t place_of(const struct lw_run *run, int32_t nic, int32_t rank)
{
	return nic == LW_NONE ? (int32_t)run->nics.n + rank : nic;
}

static int32_t way_out_of(const struct lw_run *run, int32_t rank)
{
	return place_of(run, run->network.ranks.at[rank].nic, rank);
}

static const struct lw_tcp_end *peer_of(const struct lw_run *run, const struct lw_tcp_end *end)
{
	return end->peer_end == LW_NONE ? NULL : &run->ends.at[end->peer_end];
}

static bool is_across(const struct lw_run *run, const struct lw_net_link *link)
{
	return !link->is_loopback && lw_net_is_edge(run, link);
}

static void find_into(struct lw_run *run, struct places *places)
{
	const struct lw_tcp_end *end;
	const struct lw_net_link *link;

	lw_vec_foreach (link, &run->network.links)
		places->into[link - run->network.links.at] = UNSEEN;
	lw_vec_foreach (end, &run->ends) {
		const struct lw_tcp_end *peer = peer_of(run, end);
		int32_t place, *into;

		if (end->rank != LW_NONE && end->peer_rank == LW_NONE)
			places->other_bytes[place_of(run, end->nic, end->rank)] +=
				lw_end_received_bytes(end);
		if (!lw_net_is_gradients(run, end))
			continue;
		link = lw_net_link_of(run, end->rank, end->peer_rank);
		into = &places->into[link - run->network.links.at];
		place = place_of(run, peer ? peer->nic : LW_NONE, end->peer_rank);
		*into = *into == UNSEEN || *into == place ? place
							  : place_of(run, LW_NONE, end->peer_rank);
	}
	lw_vec_foreach (link, &run->network.links) {
		int32_t *into = &places->into[link - run->network.links.at];

		if (*into == UNSEEN)
			*into = place_of(run, LW_NONE, link->to);
		places->rank_bytes[*into] += link->run_bytes;
		places->n_out[way_out_of(run, link->from)] += is_across(run, link);
		places->n_in[*into] += is_across(run, link);
	}
}

/* Links by where they come in. */
static void index_into(const struct lw_run *run, struct places *places)
{
	size_t n_links = run->network.links.n;

	for (size_t l = 0; l < n_links; l++)
		places->first_in[places->into[l] + 1]++;
	for (size_t i = 0; i < places->n; i++)
		places->first_in[i + 1] += places->first_in[i];
	for (size_t l = n_links; l-- > 0;) /* ends become starts */
		places->in_links[--places->first_in[places->into[l] + 1]] = l;
	for (size_t i = 0; i < places->n; i++)
		places->first_in[i] = places->first_in[i + 1];
	places->first_in[places->n] = n_links;
}

static void places_free(struct places *places)
{
	free(places->into);
	free(places->in_links);
	free(places->first_in);
	free(places->n_out);
	free(places->n_in);
	free(places->rank_bytes);
	free(places->other_bytes);
	free(places->scratch);
}

static int places_make(struct lw_run *run, struct places *places)
{
	size_t n = run->nics.n + run->ranks.n + 1;

	*places = (struct places){.run = run, .n = n};
	places->into = calloc(run->network.links.n + 1, sizeof(*places->into));
	places->in_links = calloc(run->network.links.n + 1, sizeof(*places->in_links));
	places->first_in = calloc(n + 1, sizeof(*places->first_in));
	places->n_out = calloc(n, sizeof(*places->n_out));
	places->n_in = calloc(n, sizeof(*places->n_in));
	places->rank_bytes = calloc(n, sizeof(*places->rank_bytes));
	places->other_bytes = calloc(n, sizeof(*places->other_bytes));
	places->scratch = calloc(n, sizeof(*places->scratch));
	if (!places->into || !places->in_links || !places->first_in || !places->n_out ||
		!places->n_in || !places->rank_bytes || !places->other_bytes || !places->scratch)
		return lw_fail(LW_ERR_NOMEM, "no memory");
	find_into(run, places);
	index_into(run, places);
	return LW_OK;
}

/* ---- what is no slow way out --------------------------------------------------------------------------- */

static bool is_measured(const struct lw_net_rank *rank)
{
	return !isnan(rank->capacity_bytes_per_s) &&
	       (rank->capacity_from == LW_CAPACITY_PLATEAU ||
		       rank->capacity_from == LW_CAPACITY_BUSY);
}

/* No one else is seen to send by its NIC. The rate of a NIC (plateau) has their part in it. */
static bool has_nic_alone(const struct lw_run *run, const struct lw_net_rank *rank)
{
	const struct lw_net_account *account;

	if (rank->capacity_from == LW_CAPACITY_PLATEAU)
		return true;
	lw_vec_foreach (account, &run->network.accounts)
		if (account->nic == rank->nic)
			return !(account->other_tx_bytes > OTHER_FRAC * account->tx_bytes);
	return !run->n_missing_ranks;
}

/* Others' data come in at @place too: then it may be full of these. */
static bool takes_others(const struct places *places, int32_t place)
{
	const struct lw_net_account *account;

	lw_vec_foreach (account, &places->run->network.accounts)
		if (account->nic == place &&
			account->other_rx_bytes > OTHER_FRAC * account->rx_bytes)
			return true;
	return places->other_bytes[place] > OTHER_FRAC * places->rank_bytes[place];
}

/* Links are by sender: the first of @r. */
static const struct lw_net_link *first_from(const struct lw_network *net, int32_t r)
{
	size_t low = 0, high = net->links.n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (net->links.at[middle].from < r)
			low = middle + 1;
		else
			high = middle;
	}
	return net->links.at + low;
}

static bool is_last(const struct lw_network *net, const struct lw_net_link *link, int32_t r)
{
	return link == net->links.at + net->links.n || link->from != r;
}

static bool is_faster(const struct places *places, const struct lw_net_link *other,
	const struct lw_net_link *link)
{
	return is_across(places->run, other) &&
	       SLOW_FRAC * other->busy_bytes_per_s > link->busy_bytes_per_s;
}

/* Something comes in where @link does, and faster: then it is not the way in. */
static bool is_way_in_faster(const struct places *places, const struct lw_net_link *link)
{
	const struct lw_network *net = &places->run->network;
	int32_t place = places->into[link - net->links.at];

	for (size_t i = places->first_in[place]; i < places->first_in[place + 1]; i++)
		if (is_faster(places, &net->links.at[places->in_links[i]], link))
			return true;
	return false;
}

/* Of the links of one sender this one alone is slow, and so are all that come in where it does: it is the way in. */
static bool is_way_in(const struct places *places, const struct lw_net_link *link)
{
	const struct lw_network *net = &places->run->network;
	const struct lw_net_link *other = first_from(net, link->from);

	while (!is_last(net, other, link->from) && !is_faster(places, other, link))
		other++;
	return !is_last(net, other, link->from) && !is_way_in_faster(places, link);
}

/* Held back by the other end's window or its own buffer, not by a link. */
static double limited_ns(const struct lw_tcp_end *end)
{
	const struct lw_tcp_reading *last = &end->tcp.at[end->tcp.n - 1];

	return fmax(0, (double)last->rwnd_limited_ns) + fmax(0, (double)last->sndbuf_limited_ns);
}

/*
 * What rank @r sends to @place at most, when nothing else is on its way there: it has been in flight for so much longer than
 * all others' together. NAN: it has not, or nobody knows.
 */
static int alone_bytes_per_s(
	const struct places *places, int32_t r, int32_t place, double *ret_bytes_per_s)
{
	const struct lw_run *run = places->run;
	double longest_ns = 0, others_ns = 0, bytes = 0;
	const struct lw_tcp_end *end;

	*ret_bytes_per_s = NAN;
	lw_vec_foreach (end, &run->ends) {
		const struct lw_tcp_end *peer = peer_of(run, end);
		struct lw_net_flight flight;

		if (!lw_net_is_between_ranks(end) ||
			place_of(run, peer ? peer->nic : LW_NONE, end->peer_rank) != place)
			continue;
		if (!end->tcp.n || end->tcp.at[end->tcp.n - 1].busy_ns < 0)
			return LW_OK;
		if (lw_net_flight_make(end, &flight) < 0)
			return LW_ERR_NOMEM;
		if (end->rank == r) {
			longest_ns = fmax(
				longest_ns, flight.at[flight.n - 1].moving_ns - limited_ns(end));
			bytes += flight.at[flight.n - 1].acked_bytes;
		} else {
			others_ns += flight.at[flight.n - 1].all_ns;
		}
		lw_net_flight_free(&flight);
	}
	if (longest_ns > others_ns)
		*ret_bytes_per_s = bytes / (longest_ns - others_ns) * 1e9 *
				   run->network.ranks.at[r].wire_factor;
	return LW_OK;
}

/* That nothing but rank @r's way out holds up what it sends: @others_bytes_per_s is what others carry. */
static int is_alone_slow(
	const struct places *places, int32_t r, double others_bytes_per_s, bool *ret_is)
{
	const struct lw_network *net = &places->run->network;
	uint32_t n_out = places->n_out[way_out_of(places->run, r)];
	const struct lw_net_link *link;

	*ret_is = has_nic_alone(places->run, &net->ranks.at[r]);
	for (link = first_from(net, r); !is_last(net, link, r) && *ret_is; link++) {
		int32_t place = places->into[link - net->links.at];
		double bytes_per_s;

		if (!is_across(places->run, link))
			continue;
		*ret_is = !takes_others(places, place) && !is_way_in(places, link);
		if (!*ret_is || places->n_in[place] <= n_out)
			continue;
		*ret_is = false; /* data meet there */
		if (n_out > 1)
			continue;
		if (alone_bytes_per_s(places, r, place, &bytes_per_s) < 0)
			return LW_ERR_NOMEM;
		*ret_is = bytes_per_s < SLOW_FRAC * others_bytes_per_s;
	}
	return LW_OK;
}

/* Median of those that have another NIC than @r. */
static double others_of(const struct places *places, const struct lw_net_rank *r, int *ret_from)
{
	const struct lw_net_rank *rank;
	size_t n = 0;

	*ret_from = LW_CAPACITY_NONE;
	lw_vec_foreach (rank, &places->run->network.ranks) {
		if (!is_measured(rank) || rank->nic == r->nic)
			continue;
		places->scratch[n++] = rank->capacity_bytes_per_s;
		if (*ret_from != LW_CAPACITY_BUSY)
			*ret_from = rank->capacity_from;
	}
	return lw_net_median(places->scratch, n);
}

/* Where all that leaves by the NIC of rank @r goes, if that is one place, which may be the slow one. Return: a rank there. */
static int32_t only_receiver(const struct places *places, int32_t r)
{
	const struct lw_network *net = &places->run->network;
	const struct lw_net_link *link, *first = NULL;

	lw_vec_foreach (link, &net->links) {
		if (net->ranks.at[link->from].nic != net->ranks.at[r].nic ||
			!is_across(places->run, link))
			continue;
		if (first &&
			places->into[first - net->links.at] != places->into[link - net->links.at])
			return LW_NONE;
		if (!first || (first->from != r && link->from == r))
			first = link;
	}
	return first && !is_way_in_faster(places, first) ? first->to : LW_NONE;
}

static int judge(struct lw_run *run, const struct places *places)
{
	struct lw_network *net = &run->network;
	const struct lw_net_rank *slow = NULL, *slowest = NULL, *rank;
	double most = 0;

	lw_vec_foreach (rank, &net->ranks)
		most = is_measured(rank) ? fmax(most, rank->capacity_bytes_per_s) : most;
	lw_vec_foreach (rank, &net->ranks) {
		bool is_slow;
		int from;
		double others;

		if (!is_measured(rank))
			continue;
		if (!slowest || rank->capacity_bytes_per_s < slowest->capacity_bytes_per_s)
			slowest = rank;
		if (!(rank->at_most_bytes_per_s < SLOW_FRAC * most))
			continue;
		others = others_of(places, rank, &from);
		if (!(rank->at_most_bytes_per_s < SLOW_FRAC * others) ||
			(slow && rank->capacity_bytes_per_s >= slow->capacity_bytes_per_s))
			continue;
		if (is_alone_slow(places, (int32_t)(rank - net->ranks.at), others, &is_slow) < 0)
			return LW_ERR_NOMEM;
		slow = is_slow ? rank : slow;
	}
	if (slow) {
		net->slow_rank = (int32_t)(slow - net->ranks.at);
		net->slow_to = only_receiver(places, net->slow_rank);
	}
	if (slowest)
		net->others_bytes_per_s =
			others_of(places, slow ? slow : slowest, &net->others_from);
	return LW_OK;
}

/* ---- a server --------------------------------------------------------------------------------------- */

/* Data was in flight to @hub, from it: at least as long as in the connection that had some longest. */
static int in_use_frac(const struct lw_run *run, int32_t hub, bool is_in, double *ret_frac)
{
	int64_t start_ns = INT64_MAX, end_ns = INT64_MIN;
	const struct lw_tcp_end *end;
	double longest_ns = 0;

	lw_vec_foreach (end, &run->ends) {
		struct lw_net_flight flight;

		if (!lw_net_is_between_ranks(end) || (is_in ? end->peer_rank : end->rank) != hub ||
			!end->tcp.n || end->tcp.at[end->tcp.n - 1].busy_ns < 0)
			continue;
		if (lw_net_flight_make(end, &flight) < 0)
			return LW_ERR_NOMEM;
		longest_ns = fmax(longest_ns, flight.at[flight.n - 1].all_ns);
		for (size_t i = 0; i < flight.n; i++) {
			double ns = flight.at[i].all_ns - (i ? flight.at[i - 1].all_ns : 0);
			int64_t at_ns = flight.at[i].at_ns;

			if (ns <= 0)
				continue;
			end_ns = at_ns > end_ns ? at_ns : end_ns;
			if (at_ns - (int64_t)ns < start_ns)
				start_ns = at_ns - (int64_t)ns;
		}
		lw_net_flight_free(&flight);
	}
	*ret_frac = end_ns > start_ns ? longest_ns / (double)(end_ns - start_ns) : (double)NAN;
	return LW_OK;
}

static int find_server(struct lw_run *run)
{
	struct lw_network *net = &run->network;
	int32_t hub = net->hub;

	if (net->algorithm != LW_ALGORITHM_STAR || hub == LW_NONE || !net->ranks.at[hub].is_hot ||
		net->ranks.at[hub].nic == LW_NONE)
		return LW_OK;
	net->server.rank = hub;
	if (in_use_frac(run, hub, true, &net->server.in_frac) < 0)
		return LW_ERR_NOMEM;
	return in_use_frac(run, hub, false, &net->server.out_frac);
}

int lw_net_find_slow(struct lw_run *run)
{
	struct places places;
	int status = LW_OK;

	if (run->network.ranks.n) {
		status = places_make(run, &places);
		if (status == LW_OK)
			status = judge(run, &places);
		places_free(&places);
	}
	return status < 0 ? status : find_server(run);
}
