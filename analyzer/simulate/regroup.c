/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/simulate/regroup.h"

#include <math.h>
#include <stdlib.h>

#include "analyzer/simulate/extract.h"
#include "base/err.h"

struct slot {
	uint32_t tensor; /* of the replay */
	uint32_t listed; /* position in the order of registration */
	int32_t group;
	double ready_ns;    /* mean over steps, INFINITY = in none */
	double complete_ns; /* of its group */
};

static double mean_ready_ns(const struct lw_replay *replay, uint32_t tensor)
{
	const struct lw_hvd_input *input = &replay->input;
	double sum_ns = 0, n = 0;

	for (uint32_t s = 1; s < input->n_steps; s++) {
		size_t row = (size_t)s * input->n_ranks;
		int64_t at_ns = replay->ready_ns[row * input->n_tensors + tensor];

		if (at_ns < 0)
			continue;
		sum_ns += (double)at_ns;
		n++;
	}
	return n > 0 ? sum_ns / n : (double)INFINITY;
}

/* As registered: last ready first. What is never ready comes last. */
static int by_list(const void *a, const void *b)
{
	const struct slot *x = a, *y = b;

	if (isinf(x->ready_ns) != isinf(y->ready_ns))
		return isinf(x->ready_ns) ? 1 : -1;
	if (x->ready_ns != y->ready_ns)
		return x->ready_ns > y->ready_ns ? -1 : 1;
	return (x->tensor < y->tensor) - (x->tensor > y->tensor);
}

static int by_group(const void *a, const void *b)
{
	const struct slot *x = a, *y = b;

	if (x->group != y->group)
		return x->group < y->group ? -1 : 1;
	return (x->listed > y->listed) - (x->listed < y->listed);
}

static int by_bit(const void *a, const void *b)
{
	const struct slot *x = a, *y = b;

	if (x->complete_ns != y->complete_ns)
		return x->complete_ns < y->complete_ns ? -1 : 1;
	return by_group(a, b);
}

/* The k-th of @n gradients in chunks: the first n % n_groups chunks hold one more. */
static int32_t chunk_of(uint32_t k, uint32_t n, uint32_t n_groups)
{
	uint32_t size = n / n_groups, n_larger = n % n_groups;
	uint32_t in_larger = n_larger * (size + 1);

	return (int32_t)(k < in_larger ? k / (size + 1) : n_larger + (k - in_larger) / size);
}

static bool is_gradient(const struct lw_replay *replay, const struct slot *slot)
{
	return lw_fuse_class_op(replay->tensors[slot->tensor].fuse_class) == LW_COLL_ALLREDUCE &&
	       isfinite(slot->ready_ns);
}

/* Numbers groups from 0 on and says when each is complete; @slots are by group. */
static void complete_groups(struct slot *slots, uint32_t n)
{
	int32_t next = 0;

	for (uint32_t first = 0, end; first < n; first = end) {
		double complete_ns = slots[first].ready_ns;

		for (end = first + 1; end < n && slots[first].group >= 0 &&
				      slots[end].group == slots[first].group;
			end++)
			complete_ns = fmax(complete_ns, slots[end].ready_ns);
		for (uint32_t i = end; i-- > first;) {
			slots[i].complete_ns = complete_ns;
			slots[i].group = slots[i].group < 0 ? LW_HVD_NO_GROUP : next;
		}
		next += slots[first].group >= 0;
	}
}

int lw_regroup(const struct lw_replay *replay, uint32_t n_groups, const int32_t *group_of,
	uint32_t *ret_from, int32_t *ret_group_of)
{
	uint32_t n = replay->input.n_tensors, n_gradients = 0, k = 0;
	struct slot *slots = calloc((size_t)n + 1, sizeof(*slots));

	if (!slots)
		return lw_fail(LW_ERR_NOMEM, "no memory to group %u tensors", n);
	for (uint32_t t = 0; t < n; t++) {
		slots[t] = (struct slot){.tensor = t, .ready_ns = mean_ready_ns(replay, t)};
		n_gradients += is_gradient(replay, &slots[t]);
	}
	qsort(slots, n, sizeof(*slots), by_list);
	for (uint32_t i = 0; i < n; i++) {
		slots[i].listed = i;
		slots[i].group = LW_HVD_NO_GROUP;
		if (is_gradient(replay, &slots[i]))
			slots[i].group = group_of ? group_of[slots[i].tensor]
						  : chunk_of(k++, n_gradients, n_groups);
	}
	qsort(slots, n, sizeof(*slots), by_group);
	complete_groups(slots, n);
	qsort(slots, n, sizeof(*slots), by_bit);
	for (uint32_t i = 0; i < n; i++) {
		ret_from[i] = slots[i].tensor;
		ret_group_of[i] = slots[i].group;
	}
	free(slots);
	return LW_OK;
}
