/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu_nccl.c - NCCL_ALGO and NCCL_PROTO, where the run itself holds both: operations of one kind, of one communicator and of
 * the very same size that ran one way and another, and took longer one way. NCCL itself goes by the size: operations of two
 * sizes that ran two ways tell nothing of either way. Nothing is said of what no operation of the run did.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "analyzer/advise/gpu_span.h"
#include "analyzer/reconstruct/nccl_served.h"
#include "base/units.h"

enum { LEAST_OF_EACH = 8 };
#define FASTER_FRAC 0.1 /* by as much at least, and by more than its error */

struct way {                      /* operations of one work, algorithm, protocol */
	struct lw_nccl_served of; /* any of them */
	double n, sum_ns, square_ns;
};

struct ways {
	lw_vec(struct way) at; /* ways of one work side by side */
};

/* By work: kind, size, communicator. */
static int compare_work(const struct lw_nccl_served *a, const struct lw_nccl_served *b)
{
	if (a->op != b->op)
		return a->op < b->op ? -1 : 1;
	if (a->n_ranks != b->n_ranks)
		return a->n_ranks < b->n_ranks ? -1 : 1;
	if (a->comm_key != b->comm_key)
		return a->comm_key < b->comm_key ? -1 : 1;
	return a->bytes < b->bytes ? -1 : a->bytes > b->bytes;
}

static int compare_ways(const void *first, const void *second)
{
	const struct lw_nccl_served *a = first, *b = second;
	int order = compare_work(a, b);

	if (order || a->algorithm != b->algorithm)
		return order ? order : a->algorithm - b->algorithm;
	return a->protocol - b->protocol;
}

/* Those of which both are known, and that are enough. */
static bool is_told(const struct way *way)
{
	return way->n >= LEAST_OF_EACH && way->of.algorithm && way->of.protocol;
}

/* Sorts @services. */
static int collect(struct lw_nccl_services *services, struct ways *ways)
{
	struct way *last;
	const struct lw_nccl_served *served;

	if (services->at.n)
		qsort(services->at.at, services->at.n, sizeof(*services->at.at), compare_ways);
	lw_vec_foreach (served, &services->at) {
		if (!served->is_matched ||    /* waiting for others would count as time */
			!(served->bytes > 0)) /* a barrier */
			continue;
		last = ways->at.n ? &ways->at.at[ways->at.n - 1] : NULL;
		if (!last || compare_ways(&last->of, served)) {
			if (last && !is_told(last))
				ways->at.n--;
			if (lw_vec_push(&ways->at, (struct way){.of = *served}) < 0)
				return LW_ERR_NOMEM;
			last = &ways->at.at[ways->at.n - 1];
		}
		last->n++;
		last->sum_ns += served->service_ns;
		last->square_ns += served->service_ns * served->service_ns;
	}
	if (ways->at.n && !is_told(&ways->at.at[ways->at.n - 1]))
		ways->at.n--;
	return LW_OK;
}

static double mean_ns(const struct way *way)
{
	return way->sum_ns / way->n;
}

/* Variance of the mean. */
static double error_square(const struct way *way)
{
	double mean = mean_ns(way);

	return fmax(way->square_ns / way->n - mean * mean, 0) / (way->n - 1);
}

/* What one operation gains by going @fast, and half its interval. Return: more than that, and worth it. */
static bool is_faster(
	const struct way *slow, const struct way *fast, double *ret_ns, double *ret_error_ns)
{
	*ret_ns = mean_ns(slow) - mean_ns(fast);
	*ret_error_ns = 1.96 * sqrt(error_square(slow) + error_square(fast));
	return *ret_ns > *ret_error_ns && *ret_ns >= FASTER_FRAC * mean_ns(slow);
}

/* The first way of the work of @way. */
static size_t first_of_work(const struct ways *ways, size_t way)
{
	while (way && !compare_work(&ways->at.at[way - 1].of, &ways->at.at[way].of))
		way--;
	return way;
}

static bool is_like(const struct way *a, const struct way *b)
{
	return a->of.algorithm == b->of.algorithm && a->of.protocol == b->of.protocol;
}

/* Of another work the same change makes operations slower: the variables hold for all of them. */
static bool is_contradicted(const struct ways *ways, const struct way *slow, const struct way *fast)
{
	double ns, error_ns;

	for (size_t i = 0; i < ways->at.n; i++)
		for (size_t k = first_of_work(ways, i);
			k < ways->at.n && !compare_work(&ways->at.at[i].of, &ways->at.at[k].of);
			k++)
			if (is_like(&ways->at.at[i], slow) && is_like(&ways->at.at[k], fast) &&
				is_faster(&ways->at.at[k], &ways->at.at[i], &ns, &error_ns))
				return true;
	return false;
}

/* "(95 %: 1.9 ms to 2.0 ms, no more than what is exposed)"; without an interval where all took the same. */
static const char *interval_text(double low_ns, double high_ns, char text[96])
{
	char unit[2][LW_UNIT_TEXT_BYTES];

	if (low_ns < high_ns)
		snprintf(text, 96, "95 %%: %s to %s, no more than what is exposed",
			lw_ns_format(low_ns, unit[0]), lw_ns_format(high_ns, unit[1]));
	else
		snprintf(text, 96, "no more than what is exposed; its error is not known");
	return text;
}

/* As NCCL reads it in NCCL_ALGO, whatever the case (ncclAlgoStr, src/init.cc); a name that it does not know is an error. */
static const char *variable_of(int algorithm)
{
	static const char *const others[] = {[LW_NCCL_ALGORITHM_COLLNET_DIRECT] = "CollNetDirect",
		[LW_NCCL_ALGORITHM_COLLNET_CHAIN] = "CollNetChain",
		[LW_NCCL_ALGORITHM_NVLS_TREE] = "NVLSTree"};

	if (algorithm >= 0 && algorithm < (int)(sizeof(others) / sizeof(others[0])) &&
		others[algorithm])
		return others[algorithm];
	return lw_nccl_algorithm_name(algorithm);
}

static int find(const struct lw_adviser *self, const struct lw_run *run,
	struct lw_advice_list *list, const struct way *slow, const struct way *fast)
{
	double ns, error_ns, n_steps = 1, exposed_ns = INFINITY, gain_ns, low_ns, high_ns;
	struct lw_bound bound = LW_BOUND_NONE;
	char unit[4][LW_UNIT_TEXT_BYTES], set[96], interval[96];
	double length_ns = 0;
	const char *each = "in what was recorded";
	const struct lw_rank *rank;
	struct lw_gpu_span span;

	is_faster(slow, fast, &ns, &error_ns);
	lw_vec_foreach (rank, &run->ranks)
		if (lw_gpu_span(run, rank, &span)) {
			n_steps = span.n;
			each = span.each;
			exposed_ns = fmin(exposed_ns, (double)span.times->exposed_ns / span.n);
			length_ns = fmax(length_ns, span.length_ns);
		}
	gain_ns = fmin(ns * slow->n / n_steps, exposed_ns);
	low_ns = fmin((ns - error_ns) * slow->n / n_steps, exposed_ns);
	high_ns = fmin((ns + error_ns) * slow->n / n_steps, exposed_ns);
	if (length_ns > 0)
		bound.most_frac = gain_ns / length_ns;
	snprintf(set, sizeof(set), "%s%s%s%s%s",
		slow->of.algorithm != fast->of.algorithm ? "NCCL_ALGO=" : "",
		slow->of.algorithm != fast->of.algorithm ? variable_of(fast->of.algorithm) : "",
		slow->of.algorithm != fast->of.algorithm && slow->of.protocol != fast->of.protocol
			? " "
			: "",
		slow->of.protocol != fast->of.protocol ? "NCCL_PROTO=" : "",
		slow->of.protocol != fast->of.protocol ? lw_nccl_protocol_name(fast->of.protocol)
						       : "");
	return lw_advise_bound(run, list, self->id, bound,
		"NCCL ran %s of %s two ways in this run: %.0f times as %s %s in %s, %.0f times as %s %s in %s. If all ran the second way (%s): up to %s less %s (%s). The variable holds for all operations: of sizes that never ran so nothing is known",
		lw_nccl_op_name(slow->of.op), lw_bytes_format(slow->of.bytes, unit[0]), slow->n,
		lw_nccl_algorithm_name(slow->of.algorithm),
		lw_nccl_protocol_name(slow->of.protocol), lw_ns_format(mean_ns(slow), unit[1]),
		fast->n, lw_nccl_algorithm_name(fast->of.algorithm),
		lw_nccl_protocol_name(fast->of.protocol), lw_ns_format(mean_ns(fast), unit[2]), set,
		lw_ns_format(gain_ns, unit[3]), each, interval_text(low_ns, high_ns, interval));
}

/* The change that gains most. */
static int choose(const struct lw_adviser *self, const struct lw_run *run,
	struct lw_advice_list *list, const struct ways *ways)
{
	const struct way *slow = NULL, *fast = NULL;
	double ns, error_ns, most_ns = 0;

	for (size_t i = 0; i < ways->at.n; i++)
		for (size_t k = first_of_work(ways, i);
			k < ways->at.n && !compare_work(&ways->at.at[i].of, &ways->at.at[k].of);
			k++) {
			const struct way *a = &ways->at.at[i], *b = &ways->at.at[k];

			if (is_faster(a, b, &ns, &error_ns) && ns * a->n > most_ns &&
				!is_contradicted(ways, a, b)) {
				most_ns = ns * a->n;
				slow = a;
				fast = b;
			}
		}
	return slow ? find(self, run, list, slow, fast) : LW_OK;
}

static int advise(const struct lw_adviser *self, struct lw_run *run, struct lw_advice_list *list)
{
	struct lw_nccl_services services;
	struct ways ways = {0};
	int status = lw_nccl_services(run, &services);

	if (status == LW_OK)
		status = collect(&services, &ways);
	if (status == LW_OK)
		status = choose(self, run, list, &ways);
	lw_vec_free(&ways.at);
	lw_vec_free(&services.at);
	return status;
}

const struct lw_adviser lw_adviser_gpu_nccl = {
	.id = "gpu.nccl",
	.title = "Algorithm and protocol of NCCL",
	.run = advise,
	.needs_no_replay = true,
	.assumes =
		"Operations of one kind, one size and one communicator differ by their algorithm and protocol only. The time of each is that of the rank that came last.",
	.wrong_if =
		"NCCL chose by what else differed (channels, buffers that were registered); or the variable slows sizes that this run never sent so.",
	.check =
		"Set it, record that run too, and compare the two with `lapwing report`: section NCCL.",
};
