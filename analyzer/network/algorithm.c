/* SPDX-License-Identifier: Apache-2.0 */
/*
 * algorithm.c - which algorithm the traffic between ranks looks like: who sends to whom decides, bytes bear it out.
 *
 * What each rank sends for an allreduce of D bytes on N ranks:
 *	ring, halving and doubling, torus, direct	2 D (N - 1) / N
 *	doubling alone					D log2 N
 *	tree (reduce, then broadcast)			D for each neighbour
 *	star						D; the server (N - 1) D
 * Two ranks send D each whatever they do.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/network/network.h"
#include "base/units.h"

enum { LEAST_ELSEWHERE_BYTES = 1 << 20 };
#define LEAST_STEP_BYTES 65536.0 /* of all ranks together */
#define EVEN_FRAC        0.2     /* bytes this close are the same */
#define HOT_FACTOR       1.5

struct shape {
	struct lw_run *run;
	size_t n;
	uint32_t *n_out, *n_in; /* edges */
	int32_t *next;          /* of ranks with one edge out */
	size_t n_edges;
	size_t n_both; /* edges with one the other way round */
};

static int make_shape(struct lw_run *run, struct shape *shape)
{
	const struct lw_net_link *link;

	*shape = (struct shape){.run = run, .n = run->ranks.n};
	shape->n_out = calloc(shape->n + 1, sizeof(*shape->n_out));
	shape->n_in = calloc(shape->n + 1, sizeof(*shape->n_in));
	shape->next = calloc(shape->n + 1, sizeof(*shape->next));
	if (!shape->n_out || !shape->n_in || !shape->next)
		return lw_fail(LW_ERR_NOMEM, "no memory");
	lw_vec_foreach (link, &run->network.links) {
		const struct lw_net_link *back = lw_net_link_of(run, link->to, link->from);

		if (!lw_net_is_edge(run, link))
			continue;
		shape->n_out[link->from]++;
		shape->n_in[link->to]++;
		shape->next[link->from] = link->to;
		shape->n_edges++;
		shape->n_both += back && lw_net_is_edge(run, back);
	}
	return LW_OK;
}

static bool all_are(const uint32_t *values, size_t n, uint32_t wanted)
{
	for (size_t i = 0; i < n; i++)
		if (values[i] != wanted)
			return false;
	return true;
}

static bool is_ring(const struct shape *shape)
{
	int32_t at = 0;

	if (!all_are(shape->n_out, shape->n, 1) || !all_are(shape->n_in, shape->n, 1))
		return false;
	for (size_t i = 1; i < shape->n; i++) {
		at = shape->next[at];
		if (at == 0)
			return false; /* several small ones */
	}
	return shape->next[at] == 0;
}

static bool is_star(const struct shape *shape)
{
	size_t hub = 0;

	for (size_t i = 1; i < shape->n; i++)
		if (shape->n_out[i] + shape->n_in[i] > shape->n_out[hub] + shape->n_in[hub])
			hub = i;
	if (shape->n_out[hub] != shape->n - 1 || shape->n_in[hub] != shape->n - 1 ||
		shape->n_edges != 2 * (shape->n - 1))
		return false;
	shape->run->network.hub = (int32_t)hub;
	return true;
}

/* All edges both ways, as many as a tree has, and every rank reached. */
static bool is_tree(const struct shape *shape)
{
	const struct lw_net_link *link;
	bool has_grown = true;
	size_t n_reached = 1;
	bool *is_reached;

	if (shape->n_edges != 2 * (shape->n - 1) || shape->n_both != shape->n_edges)
		return false;
	is_reached = calloc(shape->n, sizeof(*is_reached));
	if (!is_reached)
		return false;
	is_reached[0] = true;
	while (has_grown) {
		has_grown = false;
		lw_vec_foreach (link, &shape->run->network.links)
			if (lw_net_is_edge(shape->run, link) && is_reached[link->from] &&
				!is_reached[link->to]) {
				is_reached[link->to] = has_grown = true;
				n_reached++;
			}
	}
	free(is_reached);
	return n_reached == shape->n;
}

static bool is_halving(const struct shape *shape)
{
	uint32_t n_rounds = 0;

	while (((size_t)1 << n_rounds) < shape->n)
		n_rounds++;
	return ((size_t)1 << n_rounds) == shape->n && shape->n_both == shape->n_edges &&
	       all_are(shape->n_out, shape->n, n_rounds) &&
	       all_are(shape->n_in, shape->n, n_rounds);
}

static bool is_direct(const struct shape *shape)
{
	return all_are(shape->n_out, shape->n, (uint32_t)shape->n - 1) &&
	       all_are(shape->n_in, shape->n, (uint32_t)shape->n - 1);
}

/* Two rings through every rank, of a x b: of D bytes 2 D (a - 1) / a on one, 2 D (b - 1) / b / a on the other. */
static bool is_torus(const struct shape *shape)
{
	const struct lw_network *net = &shape->run->network;
	double more = 0, less = 0;

	if (!all_are(shape->n_out, shape->n, 2) || !all_are(shape->n_in, shape->n, 2))
		return false;
	for (size_t i = 0; i + 1 < net->links.n; i++) {
		const struct lw_net_link *a = &net->links.at[i], *b = NULL;

		for (size_t j = i + 1; j < net->links.n && net->links.at[j].from == a->from; j++)
			if (lw_net_is_edge(shape->run, &net->links.at[j]))
				b = &net->links.at[j];
		if (!b || !lw_net_is_edge(shape->run, a))
			continue;
		more += fmax(a->step_bytes, b->step_bytes);
		less += fmin(a->step_bytes, b->step_bytes);
	}
	for (size_t a = 2; a <= shape->n / 2; a++) {
		double b = (double)shape->n / (double)a, size = (double)a;
		double wanted = (size - 1) / ((b - 1) / b);

		if (shape->n % a == 0 && less > 0 &&
			fabs(more / less / fmax(wanted, 1 / wanted) - 1) < EVEN_FRAC)
			return true;
	}
	return false;
}

/* Of each host at most one rank talks to other hosts, and some host has several. */
static bool is_hierarchical(const struct shape *shape)
{
	const struct lw_run *run = shape->run;
	const struct lw_net_link *link;
	bool has_across = false, has_several = false;
	bool *is_leader = calloc(shape->n + 1, sizeof(*is_leader));

	if (!is_leader)
		return false;
	lw_vec_foreach (link, &run->network.links)
		if (lw_net_is_edge(run, link) &&
			strcmp(run->ranks.at[link->from].host, run->ranks.at[link->to].host)) {
			is_leader[link->from] = is_leader[link->to] = has_across = true;
		}
	for (size_t i = 0; i < shape->n && has_across; i++)
		for (size_t j = i + 1; j < shape->n; j++) {
			if (strcmp(run->ranks.at[i].host, run->ranks.at[j].host))
				continue;
			has_several = true;
			if (is_leader[i] && is_leader[j])
				has_across = false;
		}
	free(is_leader);
	return has_across && has_several;
}

/* The first that fits. */
static const struct {
	enum lw_algorithm algorithm;
	bool (*fits)(const struct shape *shape);
	const char *text;
} shapes[] = {
	{LW_ALGORITHM_HIERARCHICAL, is_hierarchical,
		"one rank of each host exchanges with other hosts"},
	{LW_ALGORITHM_RING, is_ring, "each rank sends to one other, all in one circle"},
	{LW_ALGORITHM_STAR, is_star, "all exchange with one rank alone"},
	{LW_ALGORITHM_TREE, is_tree, "neighbours exchange both ways, without a circle"},
	{LW_ALGORITHM_HALVING, is_halving,
		"each rank exchanges with log2 N others (a torus of two by two sends the same)"},
	{LW_ALGORITHM_TORUS, is_torus, "each rank is in two circles"},
	{LW_ALGORITHM_DIRECT, is_direct, "each rank sends to each"},
};

/* Bytes of the allreduces of a counted step. NAN: there are none, or other collectives move much too. */
static double op_bytes(const struct lw_run *run)
{
	const struct lw_rank *rank = run->ranks.n ? &run->ranks.at[0] : NULL;
	double bytes = 0, other_bytes = 0;

	if (!rank || !run->network.n_steps)
		return NAN;
	for (size_t s = 0; s < rank->steps.n; s++) {
		const struct lw_step *step = &rank->steps.at[s];

		for (uint32_t b = 0; b < step->n_batches && !step->excluded; b++) {
			const struct lw_batch *batch = &rank->batches.at[step->first_batch + b];

			if (batch->op == LW_COLL_ALLREDUCE)
				bytes += (double)batch->bytes;
			else
				other_bytes += (double)batch->bytes;
		}
	}
	return bytes > 0 && other_bytes < 0.1 * bytes ? bytes / (double)run->network.n_steps
						      : (double)NAN;
}

/* What rank @r sends of D = 1. */
static double expected(const struct lw_network *net, const struct shape *shape, size_t r)
{
	double n = (double)shape->n;

	switch (net->algorithm) {
	case LW_ALGORITHM_PAIR:
		return 1;
	case LW_ALGORITHM_RING:
	case LW_ALGORITHM_HALVING:
	case LW_ALGORITHM_TORUS:
	case LW_ALGORITHM_DIRECT:
		return 2 * (n - 1) / n;
	case LW_ALGORITHM_TREE:
		return shape->n_out[r];
	case LW_ALGORITHM_STAR:
		return (int32_t)r == net->hub ? n - 1 : 1;
	case LW_ALGORITHM_UNKNOWN:
	case LW_ALGORITHM_HIERARCHICAL:
	default:
		return NAN;
	}
}

static void compare(struct lw_run *run, const struct shape *shape)
{
	struct lw_network *net = &run->network;

	net->off_frac = NAN;
	for (size_t r = 0; r < net->ranks.n; r++) {
		struct lw_net_rank *rank = &net->ranks.at[r];
		double off;

		rank->expected_bytes = net->op_bytes * expected(net, shape, r);
		if (isnan(rank->expected_bytes))
			continue;
		off = fabs(rank->sent_bytes / rank->expected_bytes - 1);
		if (isnan(net->off_frac) || off > net->off_frac)
			net->off_frac = off;
	}
}

static int find_hot(struct lw_run *run)
{
	struct lw_network *net = &run->network;
	double *bytes = calloc(net->ranks.n + 1, sizeof(*bytes)), middle;

	if (!bytes)
		return lw_fail(LW_ERR_NOMEM, "no memory");
	for (size_t r = 0; r < net->ranks.n; r++)
		bytes[r] = net->ranks.at[r].sent_bytes + net->ranks.at[r].received_bytes;
	middle = lw_net_median(bytes, net->ranks.n);
	for (size_t r = 0; r < net->ranks.n && net->ranks.n > 2; r++)
		net->ranks.at[r].is_hot =
			net->ranks.at[r].sent_bytes + net->ranks.at[r].received_bytes >
			HOT_FACTOR * middle;
	free(bytes);
	return LW_OK;
}

/* Connections of ranks that moved much, to who is no rank. */
static size_t count_elsewhere(const struct lw_run *run)
{
	const struct lw_tcp_end *end;
	size_t n = 0;

	lw_vec_foreach (end, &run->ends)
		n += end->rank != LW_NONE && end->peer_rank == LW_NONE &&
		     lw_end_sent_bytes(end) >= LEAST_ELSEWHERE_BYTES &&
		     (end->nic == LW_NONE || !run->nics.at[end->nic].is_loopback);
	return n;
}

/* Why nothing can be said. Return: NULL: something can. */
static const char *why_not(const struct lw_run *run, char text[LW_NET_TEXT_BYTES])
{
	const struct lw_network *net = &run->network;
	const char *host = run->ranks.n ? run->ranks.at[0].host : "";
	const struct lw_net_rank *rank;
	char unit[LW_UNIT_TEXT_BYTES];
	double bytes = 0;
	bool is_one_host = true;

	for (size_t r = 0; r < run->ranks.n; r++)
		is_one_host &= !strcmp(run->ranks.at[r].host, host);
	lw_vec_foreach (rank, &net->ranks)
		bytes += rank->sent_bytes;
	if (run->ranks.n < 2)
		return "one rank is in the run";
	if (run->n_missing_ranks)
		return "not all ranks of the job are in the run";
	if (!net->links.n && count_elsewhere(run)) {
		snprintf(text, LW_NET_TEXT_BYTES,
			"no two ranks have the same connection, but %zu connections of ranks lead to addresses that no rank has (translated on the way, NAT?)",
			count_elsewhere(run));
		return text;
	}
	if (!net->links.n)
		return is_one_host
			       ? "the ranks are on one host and have no TCP connection with each other: they share memory"
			       : "neither TCP nor RDMA between ranks was seen: a library, or a device, that the hooks do not see";
	if (bytes >= LEAST_STEP_BYTES)
		return NULL;
	snprintf(text, LW_NET_TEXT_BYTES, "too little traffic between ranks: %s a step",
		lw_bytes_format(bytes, unit));
	return text;
}

static void say(struct lw_run *run, const char *shape)
{
	struct lw_network *net = &run->network;
	size_t n = (size_t)snprintf(net->evidence, sizeof(net->evidence), "%s", shape);
	double least = INFINITY, most = 0, leaves = 0;

	for (size_t r = 0; r < net->ranks.n; r++) {
		const struct lw_net_rank *rank = &net->ranks.at[r];
		double ratio = rank->sent_bytes / rank->expected_bytes;

		least = fmin(least, ratio);
		most = fmax(most, ratio);
		leaves += (int32_t)r == net->hub ? 0 : rank->sent_bytes;
	}
	if (!isnan(net->off_frac))
		snprintf(net->evidence + n, sizeof(net->evidence) - n,
			"; they sent %.3f to %.3f of what that takes", least, most);
	else if (net->algorithm == LW_ALGORITHM_STAR)
		snprintf(net->evidence + n, sizeof(net->evidence) - n,
			"; it sends %.2f times what another does",
			net->ranks.at[net->hub].sent_bytes * (double)(net->ranks.n - 1) / leaves);
}

int lw_net_find_algorithm(struct lw_run *run)
{
	struct lw_network *net = &run->network;
	char text[LW_NET_TEXT_BYTES];
	const char *why = why_not(run, text);
	struct shape shape = {0};
	int status;

	net->op_bytes = op_bytes(run);
	if (why) {
		snprintf(net->evidence, sizeof(net->evidence), "%s", why);
		return LW_OK;
	}
	status = make_shape(run, &shape);
	if (status == LW_OK && shape.n == 2) {
		net->algorithm = LW_ALGORITHM_PAIR;
		compare(run, &shape);
		say(run, "two ranks: a ring, a tree and a server send the same");
	}
	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]) && status == LW_OK && shape.n > 2;
		i++) {
		if (!shapes[i].fits(&shape))
			continue;
		net->algorithm = shapes[i].algorithm;
		compare(run, &shape);
		say(run, shapes[i].text);
		break;
	}
	if (status == LW_OK && !*net->evidence)
		snprintf(net->evidence, sizeof(net->evidence),
			"%zu links between %zu ranks carry most of it, which is no pattern that is known",
			shape.n_edges, shape.n);
	if (status == LW_OK)
		status = find_hot(run);
	free(shape.n_out);
	free(shape.n_in);
	free(shape.next);
	return status;
}

const char *lw_algorithm_name(enum lw_algorithm algorithm)
{
	static const char *const names[] = {[LW_ALGORITHM_UNKNOWN] = "not known",
		[LW_ALGORITHM_PAIR] = "pair",
		[LW_ALGORITHM_RING] = "ring",
		[LW_ALGORITHM_TREE] = "tree",
		[LW_ALGORITHM_STAR] = "star",
		[LW_ALGORITHM_HALVING] = "halving and doubling",
		[LW_ALGORITHM_TORUS] = "torus",
		[LW_ALGORITHM_HIERARCHICAL] = "hierarchical",
		[LW_ALGORITHM_DIRECT] = "direct"};

	return names[algorithm];
}
