/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu_nccl.c - NCCL_ALGO and NCCL_PROTO, where the run itself holds both: operations of one kind and about one size that
 * ran one way and another, and took longer one way. Nothing is said of what no operation of the run did.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/advise/gpu_span.h"
#include "analyzer/reconstruct/nccl_served.h"
#include "base/units.h"

enum { LEAST_OF_EACH = 8 };
#define FASTER_FRAC 0.1 /* by as much at least, and by more than its error */

struct way { /* operations of one kind, size class, algorithm, protocol */
	int op, algorithm, protocol, size_class; /* size_class: log2 of the bytes */
	uint32_t n_ranks;
	double n, sum_ns, square_ns, bytes;
};

struct ways {
	lw_vec(struct way) at;
};

static int add(struct ways *ways, const struct lw_nccl_served *served)
{
	struct way way = {served->op, served->algorithm, served->protocol,
		(int)floor(log2(fmax(served->bytes, 1))), served->n_ranks, 1, served->service_ns,
		served->service_ns * served->service_ns, served->bytes};
	struct way *old;

	lw_vec_foreach (old, &ways->at)
		if (old->op == way.op && old->algorithm == way.algorithm &&
			old->protocol == way.protocol && old->size_class == way.size_class &&
			old->n_ranks == way.n_ranks) {
			old->n++;
			old->sum_ns += way.sum_ns;
			old->square_ns += way.square_ns;
			old->bytes += way.bytes;
			return LW_OK;
		}
	return lw_vec_push(&ways->at, way);
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

static bool is_same_work(const struct way *a, const struct way *b)
{
	return a->op == b->op && a->size_class == b->size_class && a->n_ranks == b->n_ranks &&
	       (a->algorithm != b->algorithm || a->protocol != b->protocol) && a->algorithm &&
	       a->protocol && b->algorithm && b->protocol && a->n >= LEAST_OF_EACH &&
	       b->n >= LEAST_OF_EACH;
}

/* Of another size the same change makes operations slower: the variables hold for all of them. */
static bool is_contradicted(const struct ways *ways, const struct way *slow, const struct way *fast)
{
	const struct way *a, *b;
	double ns, error_ns;

	lw_vec_foreach (a, &ways->at)
		lw_vec_foreach (b, &ways->at)
			if (is_same_work(a, b) && a->algorithm == slow->algorithm &&
				a->protocol == slow->protocol && b->algorithm == fast->algorithm &&
				b->protocol == fast->protocol && is_faster(b, a, &ns, &error_ns))
				return true;
	return false;
}

static int find(const struct lw_adviser *self, const struct lw_run *run,
	struct lw_advice_list *list, const struct way *slow, const struct way *fast)
{
	double ns, error_ns, n_steps = 1, exposed_ns = INFINITY, gain_ns, low_ns, high_ns;
	char unit[6][LW_UNIT_TEXT_BYTES], set[96];
	const char *each = "of what was recorded";
	const struct lw_rank *rank;
	struct lw_gpu_span span;

	is_faster(slow, fast, &ns, &error_ns);
	lw_vec_foreach (rank, &run->ranks)
		if (lw_gpu_span(run, rank, &span)) {
			n_steps = span.n;
			each = span.each;
			exposed_ns = fmin(exposed_ns, (double)span.times->exposed_ns / span.n);
		}
	gain_ns = fmin(ns * slow->n / n_steps, exposed_ns);
	low_ns = fmin((ns - error_ns) * slow->n / n_steps, exposed_ns);
	high_ns = fmin((ns + error_ns) * slow->n / n_steps, exposed_ns);
	snprintf(set, sizeof(set), "%s%s%s%s%s",
		slow->algorithm != fast->algorithm ? "NCCL_ALGO=" : "",
		slow->algorithm != fast->algorithm ? lw_nccl_algorithm_name(fast->algorithm) : "",
		slow->algorithm != fast->algorithm && slow->protocol != fast->protocol ? " " : "",
		slow->protocol != fast->protocol ? "NCCL_PROTO=" : "",
		slow->protocol != fast->protocol ? lw_nccl_protocol_name(fast->protocol) : "");
	return lw_advise_find(list, self->id,
		"NCCL ran %s of about %s two ways in this run: %.0f times as %s %s in %s, %.0f times as %s %s in %s. If all ran the second way (%s): up to %s less %s (95 %%: %s to %s, no more than what is exposed). The variable holds for all operations: of sizes that never ran so nothing is known",
		lw_nccl_op_name(slow->op), lw_bytes_format(slow->bytes / slow->n, unit[0]), slow->n,
		lw_nccl_algorithm_name(slow->algorithm), lw_nccl_protocol_name(slow->protocol),
		lw_ns_format(mean_ns(slow), unit[1]), fast->n,
		lw_nccl_algorithm_name(fast->algorithm), lw_nccl_protocol_name(fast->protocol),
		lw_ns_format(mean_ns(fast), unit[2]), set, lw_ns_format(gain_ns, unit[3]), each,
		lw_ns_format(low_ns, unit[4]), lw_ns_format(high_ns, unit[5]));
}

/* The change that gains most. */
static int choose(const struct lw_adviser *self, const struct lw_run *run,
	struct lw_advice_list *list, const struct ways *ways)
{
	const struct way *a, *b, *slow = NULL, *fast = NULL;
	double ns, error_ns, most_ns = 0;

	lw_vec_foreach (a, &ways->at)
		lw_vec_foreach (b, &ways->at)
			if (is_same_work(a, b) && is_faster(a, b, &ns, &error_ns) &&
				ns * a->n > most_ns && !is_contradicted(ways, a, b)) {
				most_ns = ns * a->n;
				slow = a;
				fast = b;
			}
	return slow ? find(self, run, list, slow, fast) : LW_OK;
}

static int advise(const struct lw_adviser *self, struct lw_run *run, struct lw_advice_list *list)
{
	struct lw_nccl_services services;
	const struct lw_nccl_served *served;
	struct ways ways = {0};
	int status = lw_nccl_services(run, &services);

	lw_vec_foreach (served, &services.at) /* waiting for others would count as time */
		if (status == LW_OK && served->is_matched)
			status = add(&ways, served);
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
		"Operations of one kind, and of sizes within a factor of two, differ by their algorithm and protocol only. The time of each is that of the rank that came last.",
	.wrong_if =
		"NCCL chose by what else differed (channels, buffers that were registered); or the variable slows sizes that this run never sent so.",
	.check =
		"Set it, record that run too, and compare the two with `lapwing report`: section NCCL.",
};
