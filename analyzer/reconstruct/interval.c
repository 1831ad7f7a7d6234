/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/reconstruct/interval.h"

#include <stdlib.h>

int lw_intervals_add(struct lw_intervals *set, int64_t start_ns, int64_t end_ns)
{
	struct lw_interval interval = {start_ns, end_ns};

	if (start_ns == LW_NS_UNKNOWN || end_ns == LW_NS_UNKNOWN || end_ns <= start_ns)
		return LW_OK;
	return lw_vec_push(set, interval);
}

static int compare(const void *a, const void *b)
{
	const struct lw_interval *x = a, *y = b;

	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns ? -1 : 1;
	return (x->end_ns > y->end_ns) - (x->end_ns < y->end_ns);
}

void lw_intervals_unite(struct lw_intervals *set, int64_t gap_ns)
{
	size_t n = 0;

	if (!set->n)
		return;
	qsort(set->at, set->n, sizeof(*set->at), compare);
	for (size_t i = 1; i < set->n; i++) {
		if (set->at[i].start_ns - set->at[n].end_ns > gap_ns)
			set->at[++n] = set->at[i];
		else if (set->at[i].end_ns > set->at[n].end_ns)
			set->at[n].end_ns = set->at[i].end_ns;
	}
	set->n = n + 1;
}

void lw_intervals_clip(struct lw_intervals *set, int64_t start_ns, int64_t end_ns)
{
	size_t n = 0;

	for (size_t i = 0; i < set->n; i++) {
		struct lw_interval interval = set->at[i];

		if (interval.start_ns < start_ns)
			interval.start_ns = start_ns;
		if (interval.end_ns > end_ns)
			interval.end_ns = end_ns;
		if (interval.start_ns < interval.end_ns)
			set->at[n++] = interval;
	}
	set->n = n;
}

int lw_intervals_within(const struct lw_interval *at, size_t n, int64_t start_ns, int64_t end_ns,
	struct lw_intervals *result)
{
	size_t low = 0, high = n; /* the first that ends behind start_ns */
	int status = LW_OK;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (at[middle].end_ns <= start_ns)
			low = middle + 1;
		else
			high = middle;
	}
	for (size_t i = low; i < n && at[i].start_ns < end_ns && status == LW_OK; i++)
		status = lw_intervals_add(result,
			at[i].start_ns > start_ns ? at[i].start_ns : start_ns,
			at[i].end_ns < end_ns ? at[i].end_ns : end_ns);
	return status;
}

int64_t lw_intervals_length_ns(const struct lw_intervals *set)
{
	int64_t length_ns = 0;

	for (size_t i = 0; i < set->n; i++)
		length_ns += set->at[i].end_ns - set->at[i].start_ns;
	return length_ns;
}

int lw_intervals_intersect(
	const struct lw_intervals *a, const struct lw_intervals *b, struct lw_intervals *result)
{
	size_t i = 0, j = 0;

	result->n = 0;
	while (i < a->n && j < b->n) {
		const struct lw_interval *x = &a->at[i], *y = &b->at[j];

		if (lw_intervals_add(result, x->start_ns > y->start_ns ? x->start_ns : y->start_ns,
			    x->end_ns < y->end_ns ? x->end_ns : y->end_ns) < 0)
			return LW_ERR_NOMEM;
		if (x->end_ns < y->end_ns)
			i++;
		else
			j++;
	}
	return LW_OK;
}

int lw_intervals_subtract(
	const struct lw_intervals *a, const struct lw_intervals *b, struct lw_intervals *result)
{
	size_t j = 0;

	result->n = 0;
	for (size_t i = 0; i < a->n; i++) {
		int64_t at_ns = a->at[i].start_ns;

		while (j < b->n && b->at[j].end_ns <= at_ns)
			j++;
		for (size_t k = j; k < b->n && b->at[k].start_ns < a->at[i].end_ns; k++) {
			if (lw_intervals_add(result, at_ns, b->at[k].start_ns) < 0)
				return LW_ERR_NOMEM;
			at_ns = b->at[k].end_ns;
		}
		if (lw_intervals_add(result, at_ns, a->at[i].end_ns) < 0)
			return LW_ERR_NOMEM;
	}
	return LW_OK;
}
