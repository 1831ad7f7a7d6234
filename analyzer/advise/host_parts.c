/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/advise/host_parts.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/advise/gpu_span.h"
#include "base/err.h"
#include "base/str.h"

/* A range is around a whole step that lasts as long as most of one, and launches nearly all of what one launches. */
#define WIDE_LENGTH_FRAC 0.75
#define WIDE_LAUNCH_FRAC 0.9

struct steps { /* of a rank, by which ranges are judged */
	struct lw_gpu_span span;
	double n_launches; /* a step */
};

static struct lw_host_part *find(struct lw_host_part *parts, const char *name)
{
	struct lw_host_part *part;

	HASH_FIND_PTR(parts, &name, part);
	return part;
}

static int add(struct lw_host_part **parts, const char *name)
{
	struct lw_host_part *part;

	if (find(*parts, name))
		return LW_OK;
	part = calloc(1, sizeof(*part));
	if (part) {
		part->name = part->shown = name;
		part->of = part;
		part->masked = strdup(name);
	}
	if (!part || !part->masked) {
		free(part);
		return lw_fail(LW_ERR_NOMEM, "no memory");
	}
	lw_str_mask_digits(part->masked);
	HASH_ADD_PTR(*parts, name, part);
	return LW_OK;
}

void lw_host_parts_free(struct lw_host_part **parts)
{
	struct lw_host_part *part, *next;

	HASH_ITER(hh, *parts, part, next)
	{
		HASH_DEL(*parts, part);
		free(part->masked);
		free(part);
	}
}

static int by_masked(const void *a, const void *b)
{
	const struct lw_host_part *x = a, *y = b;
	int order = strcmp(x->masked, y->masked);

	return order ? order : strcmp(x->name, y->name);
}

/* Those that differ in digits only are shown as one. */
static void show(struct lw_host_part **parts)
{
	struct lw_host_part *part, *first = NULL;

	HASH_SORT(*parts, by_masked);
	for (part = *parts; part; part = part->hh.next) {
		if (!first || strcmp(first->masked, part->masked) != 0) {
			first = part;
			continue;
		}
		part->of = first;
		first->shown = part->shown = first->masked;
	}
}

/* Launches of @rank before @at_ns. */
static size_t launches_before(const struct lw_rank *rank, int64_t at_ns)
{
	size_t n;

	lw_vec_bisect(n, rank->gpu.launches.n, i, rank->gpu.launches.at[i].start_ns < at_ns);
	return n;
}

static bool is_wide(const struct steps *steps, const struct lw_host_range *range)
{
	const struct lw_rank *rank = steps->span.rank;
	double length_ns = (double)(range->end_ns - range->start_ns);

	if (length_ns < WIDE_LENGTH_FRAC * steps->span.length_ns)
		return false;
	return (double)(launches_before(rank, range->end_ns) -
			launches_before(rank, range->start_ns)) >=
	       WIDE_LAUNCH_FRAC * steps->n_launches;
}

/* Return: false: nothing is known of the rank's steps. */
static bool look_at_steps(
	const struct lw_run *run, const struct lw_rank *rank, struct steps *ret_steps)
{
	const struct lw_gpu_launch *launch;
	struct steps steps = {.n_launches = 0};
	size_t hint = 0;

	if (!lw_gpu_span(run, rank, &steps.span))
		return false;
	lw_vec_foreach (launch, &rank->gpu.launches)
		if (lw_gpu_span_has(&steps.span, launch->start_ns, &hint))
			steps.n_launches += 1 / steps.span.n;
	*ret_steps = steps;
	return true;
}

/* The ends of a recording cut such ranges short: where half of a name's are wide, all are passed over. */
static uint64_t pass_over_wide(
	const struct steps *steps, struct lw_host_ranges *ranges, struct lw_host_part *parts)
{
	struct lw_host_range *range;
	size_t n = 0, n_all = ranges->at.n;

	lw_vec_foreach (range, &ranges->at) {
		struct lw_host_part *of = find(parts, range->name)->of;

		of->n++;
		of->n_wide += is_wide(steps, range);
	}
	lw_vec_foreach (range, &ranges->at) {
		const struct lw_host_part *of = find(parts, range->name)->of;

		if (!of->n_wide || (2 * of->n_wide < of->n && !is_wide(steps, range)))
			ranges->at.at[n++] = *range;
	}
	ranges->at.n = n;
	return n_all - n;
}

int lw_host_parts(const struct lw_run *run, const struct lw_rank *rank,
	struct lw_host_ranges *ranges, struct lw_host_part **parts, uint64_t *ret_n_wide)
{
	struct lw_host_range *range;
	struct steps steps;

	*parts = NULL;
	*ret_n_wide = 0;
	lw_vec_foreach (range, &ranges->at)
		if (add(parts, range->name) < 0)
			return LW_ERR_NOMEM;
	show(parts);
	if (look_at_steps(run, rank, &steps))
		*ret_n_wide = pass_over_wide(&steps, ranges, *parts);
	lw_vec_foreach (range, &ranges->at)
		range->name = find(*parts, range->name)->shown;
	return LW_OK;
}
