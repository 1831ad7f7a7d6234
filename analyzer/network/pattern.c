/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pattern.c - the patterns that are known of who exchanges with whom.
 *
 * Some have the same links: then bytes tell them apart, else both are named.
 */
#include "analyzer/network/pattern.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int lw_net_shape_make(struct lw_run *run, struct lw_net_shape *shape)
{
	const struct lw_net_link *link;

	*shape = (struct lw_net_shape){.run = run, .n = run->ranks.n, .least_bytes = INFINITY};
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
		shape->least_bytes = fmin(shape->least_bytes, link->step_bytes);
		shape->most_bytes = fmax(shape->most_bytes, link->step_bytes);
	}
	for (size_t r = 0; r < run->network.ranks.n; r++)
		shape->sent_bytes += run->network.ranks.at[r].sent_bytes / (double)shape->n;
	return LW_OK;
}

void lw_net_shape_done(struct lw_net_shape *shape)
{
	free(shape->n_out);
	free(shape->n_in);
	free(shape->next);
}

static bool all_are(const uint32_t *values, size_t n, uint32_t wanted)
{
	for (size_t i = 0; i < n; i++)
		if (values[i] != wanted)
			return false;
	return true;
}

static bool is_ring(const struct lw_net_shape *shape)
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

size_t lw_net_shape_hub(const struct lw_net_shape *shape)
{
	size_t hub = 0;

	for (size_t i = 1; i < shape->n; i++)
		if (shape->n_out[i] + shape->n_in[i] > shape->n_out[hub] + shape->n_in[hub])
			hub = i;
	return hub;
}

static bool is_star(const struct lw_net_shape *shape)
{
	size_t hub = lw_net_shape_hub(shape);

	return shape->n_out[hub] == shape->n - 1 && shape->n_in[hub] == shape->n - 1 &&
	       shape->n_edges == 2 * (shape->n - 1);
}

static bool is_even(const struct lw_net_shape *shape)
{
	return shape->most_bytes < (1 + LW_NET_EVEN_FRAC) * shape->least_bytes;
}

/* Edges lead from rank 0 to every rank. */
static bool is_connected(const struct lw_net_shape *shape)
{
	const struct lw_net_link *link;
	bool has_grown = true;
	size_t n_reached = 1;
	bool *is_reached = calloc(shape->n, sizeof(*is_reached));

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

/* All edges both ways, as many as a tree has, and every rank reached. */
static bool is_tree(const struct lw_net_shape *shape)
{
	return shape->n_edges == 2 * (shape->n - 1) && shape->n_both == shape->n_edges &&
	       is_connected(shape);
}

/* Two trees, an edge that is in both counts twice: the other edges carry half of it. */
static bool is_two_trees(const struct lw_net_shape *shape)
{
	const struct lw_net_link *link;
	size_t n = 0;

	if (shape->n_both != shape->n_edges)
		return false;
	lw_vec_foreach (link, &shape->run->network.links) {
		double times = link->step_bytes / shape->least_bytes;

		if (!lw_net_is_edge(shape->run, link))
			continue;
		if (fabs(times - 1) > LW_NET_EVEN_FRAC && fabs(times - 2) > 2 * LW_NET_EVEN_FRAC)
			return false;
		n += times > 1.5 ? 2 : 1;
	}
	return n == 4 * (shape->n - 1) && is_connected(shape);
}

static bool has_halving_links(const struct lw_net_shape *shape, uint32_t *ret_n_rounds)
{
	uint32_t n_rounds = 0;

	while (((size_t)1 << n_rounds) < shape->n)
		n_rounds++;
	*ret_n_rounds = n_rounds;
	return ((size_t)1 << n_rounds) == shape->n && shape->n_both == shape->n_edges &&
	       all_are(shape->n_out, shape->n, n_rounds) &&
	       all_are(shape->n_in, shape->n, n_rounds) && is_connected(shape);
}

/* Each round has half the bytes of the one before it. */
static bool is_halving(const struct lw_net_shape *shape)
{
	uint32_t n_rounds;

	return has_halving_links(shape, &n_rounds) && !is_even(shape);
}

static bool has_ring_links_both_ways(const struct lw_net_shape *shape)
{
	return shape->n > 3 && shape->n_both == shape->n_edges &&
	       all_are(shape->n_out, shape->n, 2) && all_are(shape->n_in, shape->n, 2) &&
	       is_even(shape) && is_connected(shape);
}

/* Of four ranks both have the same links, and as much on each: what a rank sends tells. */
static bool is_nearer_to_doubling(const struct lw_net_shape *shape)
{
	double ratio = shape->sent_bytes / shape->run->network.op_bytes;
	double n = (double)shape->n, ring = 2 * (n - 1) / n;

	return fabs(log(ratio / log2(n))) < fabs(log(ratio / ring));
}

static bool is_doubling(const struct lw_net_shape *shape)
{
	uint32_t n_rounds;

	return has_halving_links(shape, &n_rounds) && is_even(shape) &&
	       (!has_ring_links_both_ways(shape) || is_nearer_to_doubling(shape));
}

static bool is_ring_both_ways(const struct lw_net_shape *shape)
{
	uint32_t n_rounds;

	if (!has_ring_links_both_ways(shape))
		return false;
	return !has_halving_links(shape, &n_rounds) ||
	       (shape->run->network.op_bytes > 0 && !is_nearer_to_doubling(shape));
}

static bool is_ring_or_doubling(const struct lw_net_shape *shape)
{
	uint32_t n_rounds;

	return has_ring_links_both_ways(shape) && has_halving_links(shape, &n_rounds);
}

static bool is_direct(const struct lw_net_shape *shape)
{
	return all_are(shape->n_out, shape->n, (uint32_t)shape->n - 1) &&
	       all_are(shape->n_in, shape->n, (uint32_t)shape->n - 1);
}

/* Two rings through every rank, of a x b: of D bytes 2 D (a - 1) / a on one, 2 D (b - 1) / b / a on the other. */
static bool is_torus(const struct lw_net_shape *shape)
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
			fabs(more / less / fmax(wanted, 1 / wanted) - 1) < LW_NET_EVEN_FRAC)
			return true;
	}
	return false;
}

/* Of each host at most one rank talks to other hosts, and some host has several. */
static bool is_hierarchical(const struct lw_net_shape *shape)
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

/* The first that fits. A star before what is hierarchical: a server on the host of some workers has one leader a host too. */
static const struct lw_net_pattern shapes[] = {
	{LW_ALGORITHM_STAR, is_star, "all exchange with one rank alone", false},
	{LW_ALGORITHM_HIERARCHICAL, is_hierarchical,
		"one rank of each host exchanges with other hosts", false},
	{LW_ALGORITHM_RING, is_ring, "each rank sends to one other, all in one circle", false},
	{LW_ALGORITHM_TREE, is_tree, "neighbours exchange both ways, without a circle", false},
	{LW_ALGORITHM_HALVING, is_halving,
		"each rank exchanges with log2 N others, more with one than with the next (a torus of two by two sends the same)",
		false},
	{LW_ALGORITHM_DOUBLING, is_doubling,
		"each rank exchanges as much with each of log2 N others", false},
	{LW_ALGORITHM_RING, is_ring_both_ways,
		"each rank exchanges with both neighbours of one circle", false},
	{LW_ALGORITHM_UNKNOWN, is_ring_or_doubling,
		"a ring in both directions, or doubling alone: on four ranks these have the same links, and what the operations had to move is not known",
		false},
	{LW_ALGORITHM_TORUS, is_torus, "each rank is in two circles", false},
	{LW_ALGORITHM_DIRECT, is_direct, "each rank sends to each", false},
	{LW_ALGORITHM_TREE, is_two_trees,
		"neighbours exchange both ways, as in two trees of half the bytes each", true},
};

const struct lw_net_pattern *lw_net_pattern_of(const struct lw_net_shape *shape)
{
	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++)
		if (shapes[i].fits(shape))
			return &shapes[i];
	return NULL;
}
