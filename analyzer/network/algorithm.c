/* SPDX-License-Identifier: Apache-2.0 */
/*
 * algorithm.c - which algorithm the traffic between ranks looks like: who sends to whom decides, bytes bear it out.
 *
 * What each rank sends for an allreduce of D bytes on N ranks:
 *	ring, halving and doubling, torus, direct	2 D (N - 1) / N
 *	doubling alone					D log2 N, as much to each
 *	tree (reduce, then broadcast)			D for each neighbour
 *	two trees of half the bytes			D / 2 for each neighbour, in each
 *	star						D; the server (N - 1) D
 * Two ranks send D each whatever they do. (pattern.c has the patterns.)
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/network/pattern.h"
#include "analyzer/reconstruct/volume.h"
#include "base/units.h"

enum { LEAST_ELSEWHERE_BYTES = 1 << 20 };
#define LEAST_STEP_BYTES 65536.0 /* of all ranks together */
#define HOT_FACTOR       1.5
#define SAME_FRAC        0.1
#define OTHERS_FRAC      0.02 /* of what allreduces move: what other collectives may */

/* What a batch makes each rank send, in a ring. NAN: not known. */
static double volume(const struct lw_run *run, const struct lw_batch *batch)
{
	const struct lw_group *group;

	if (batch->group == LW_NONE)
		return (double)batch->bytes;
	group = &run->groups.at[batch->group];
	return lw_group_size_bytes(run, group) * lw_group_bus_factor(group);
}

/* Bytes of the allreduces of a counted step. NAN: there are none, or other collectives move what would be seen. */
static double op_bytes(const struct lw_run *run)
{
	const struct lw_rank *rank = run->ranks.n ? &run->ranks.at[0] : NULL;
	double bytes = 0, moved_bytes = 0, other_bytes = 0;

	if (!rank || !run->network.n_steps)
		return NAN;
	for (size_t s = 0; s < rank->steps.n; s++) {
		const struct lw_step *step = &rank->steps.at[s];

		for (uint32_t b = 0; b < step->n_batches && !step->excluded; b++) {
			const struct lw_batch *batch = &rank->batches.at[step->first_batch + b];

			if (!batch->bytes)
				continue;
			if (batch->op != LW_COLL_ALLREDUCE) {
				other_bytes += volume(run, batch);
				continue;
			}
			bytes += (double)batch->bytes;
			moved_bytes += volume(run, batch);
		}
	}
	return bytes > 0 && other_bytes < OTHERS_FRAC * moved_bytes
		       ? bytes / (double)run->network.n_steps
		       : (double)NAN;
}

/* What rank @r sends of D = 1. @pattern: NULL: two ranks. */
static double expected(const struct lw_network *net, const struct lw_net_shape *shape,
	const struct lw_net_pattern *pattern, size_t r)
{
	double n = (double)shape->n;

	switch (net->algorithm) {
	case LW_ALGORITHM_PAIR:
		return 1;
	case LW_ALGORITHM_DOUBLING:
		return log2(n);
	case LW_ALGORITHM_HALVING:
	case LW_ALGORITHM_RING:
	case LW_ALGORITHM_TORUS:
	case LW_ALGORITHM_DIRECT:
		return 2 * (n - 1) / n;
	case LW_ALGORITHM_TREE:
		/* in two trees an edge of both carries as much as two others: as it sends, of all */
		return pattern->is_twofold
			       ? 2 * (n - 1) / n * net->ranks.at[r].sent_bytes / shape->sent_bytes
			       : shape->n_out[r];
	case LW_ALGORITHM_STAR:
		return (int32_t)r == net->hub ? n - 1 : 1;
	case LW_ALGORITHM_UNKNOWN:
	case LW_ALGORITHM_HIERARCHICAL:
	default:
		return NAN;
	}
}

static void compare(
	struct lw_run *run, const struct lw_net_shape *shape, const struct lw_net_pattern *pattern)
{
	struct lw_network *net = &run->network;

	net->off_frac = NAN;
	for (size_t r = 0; r < net->ranks.n; r++) {
		struct lw_net_rank *rank = &net->ranks.at[r];
		double off;

		rank->expected_bytes = net->op_bytes * expected(net, shape, pattern, r);
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

/*
 * Connections of ranks that moved much, to who is no rank, and look like those of ranks with each other: every rank has one,
 * and what they sent in all is what they received. 0: they do not.
 */
static size_t count_elsewhere(const struct lw_run *run)
{
	uint32_t *n_of = calloc(run->ranks.n + 1, sizeof(*n_of));
	double sent_bytes = 0, received_bytes = 0;
	const struct lw_tcp_end *end;
	size_t n = 0;

	lw_vec_foreach (end, &run->ends) {
		double bytes = lw_end_sent_bytes(end) + lw_end_received_bytes(end);

		if (!n_of || end->rank == LW_NONE || end->peer_rank != LW_NONE ||
			bytes < LEAST_ELSEWHERE_BYTES ||
			(end->nic != LW_NONE && run->nics.at[end->nic].is_loopback))
			continue;
		n_of[end->rank]++;
		sent_bytes += lw_end_sent_bytes(end);
		received_bytes += lw_end_received_bytes(end);
		n++;
	}
	for (size_t r = 0; r < run->ranks.n && n_of; r++)
		if (!n_of[r])
			n = 0;
	free(n_of);
	return fabs(sent_bytes - received_bytes) <= SAME_FRAC * fmax(sent_bytes, received_bytes)
		       ? n
		       : 0;
}

/* Why nothing can be said. Return: NULL: something can. */
static const char *why_not(const struct lw_run *run, char text[LW_NET_TEXT_BYTES])
{
	const struct lw_network *net = &run->network;
	const char *host = run->ranks.n ? run->ranks.at[0].host : "";
	const struct lw_net_rank *rank;
	char unit[LW_UNIT_TEXT_BYTES];
	size_t n_elsewhere = count_elsewhere(run);
	double bytes = 0;
	bool is_one_host = true;

	for (size_t r = 0; r < run->ranks.n; r++)
		is_one_host &= !strcmp(run->ranks.at[r].host, host);
	lw_vec_foreach (rank, &net->ranks)
		bytes += rank->sent_bytes;
	if (run->ranks.n < 2)
		return run->ranks.n ? "one rank is in the run" : "no rank is in the run";
	if (run->n_missing_ranks)
		return "not all ranks of the job are in the run";
	if (!net->links.n && (run->is_import || run->is_profile))
		return "a trace of another tool tells neither hosts nor connections";
	if (!net->links.n && n_elsewhere) {
		snprintf(text, LW_NET_TEXT_BYTES,
			"no two ranks have the same connection, but %zu connections of ranks lead to addresses that no rank has, with as much out as in (translated on the way, NAT%s?)",
			n_elsewhere,
			is_one_host ? "; or the ranks, which are on one host, share memory" : "");
		return text;
	}
	if (!net->links.n && is_one_host)
		return "the ranks are on one host and have no TCP connection with each other: they share memory";
	if (!net->links.n)
		return "neither TCP nor RDMA between ranks was seen: a library, or a device, that the hooks do not see";
	if (bytes >= LEAST_STEP_BYTES)
		return NULL;
	snprintf(text, LW_NET_TEXT_BYTES, "too little traffic between ranks: %s %s",
		lw_bytes_format(bytes, unit), net->n_steps ? "a step" : "in the whole run");
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

static void choose(struct lw_run *run, const struct lw_net_shape *shape)
{
	const struct lw_net_pattern *pattern = lw_net_pattern_of(shape);

	if (!pattern)
		return;
	run->network.algorithm = pattern->algorithm;
	if (pattern->algorithm == LW_ALGORITHM_STAR)
		run->network.hub = (int32_t)lw_net_shape_hub(shape);
	compare(run, shape, pattern);
	say(run, pattern->text);
}

int lw_net_find_algorithm(struct lw_run *run)
{
	struct lw_network *net = &run->network;
	char text[LW_NET_TEXT_BYTES];
	const char *why = why_not(run, text);
	struct lw_net_shape shape = {0};
	int status;

	net->op_bytes = op_bytes(run);
	if (why) {
		snprintf(net->evidence, sizeof(net->evidence), "%s", why);
		return LW_OK;
	}
	status = lw_net_shape_make(run, &shape);
	if (status == LW_OK && shape.n == 2) {
		net->algorithm = LW_ALGORITHM_PAIR;
		compare(run, &shape, NULL);
		say(run, "two ranks: a ring, a tree and a server send the same");
	} else if (status == LW_OK) {
		choose(run, &shape);
	}
	if (status == LW_OK && !*net->evidence)
		snprintf(net->evidence, sizeof(net->evidence),
			"%zu links between %zu ranks carry most of it, which is no pattern that is known",
			shape.n_edges, shape.n);
	if (status == LW_OK)
		status = find_hot(run);
	lw_net_shape_done(&shape);
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
		[LW_ALGORITHM_DOUBLING] = "doubling",
		[LW_ALGORITHM_TORUS] = "torus",
		[LW_ALGORITHM_HIERARCHICAL] = "hierarchical",
		[LW_ALGORITHM_DIRECT] = "direct"};

	return names[algorithm];
}
