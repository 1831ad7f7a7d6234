/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/fit/samples.h"

#include <stdbool.h>
#include <stdlib.h>

#include "base/err.h"

static int compare_samples(const void *left, const void *right)
{
	const struct lw_sample *a = left, *b = right;

	if (a->bytes != b->bytes)
		return a->bytes < b->bytes ? -1 : 1;
	if (a->block != b->block)
		return a->block < b->block ? -1 : 1;
	/* equal sizes of a block are added up: in one order, so that the sum is always the same */
	return (a->ns > b->ns) - (a->ns < b->ns);
}

int lw_samples_init(struct lw_samples *samples, struct lw_sample *sample, size_t n)
{
	*samples = (struct lw_samples){.n = n};
	if (n == 0)
		return LW_OK;
	samples->bytes = calloc(n, sizeof(*samples->bytes));
	samples->rows = calloc(n, sizeof(*samples->rows));
	if (!samples->bytes || !samples->rows) {
		lw_samples_done(samples);
		return lw_fail(LW_ERR_NOMEM, "no memory for %zu timed operations", n);
	}
	qsort(sample, n, sizeof(*sample), compare_samples);
	for (size_t i = 0; i < n; i++) {
		bool is_size = i == 0 || sample[i].bytes != sample[i - 1].bytes;
		struct lw_samples_row *row;

		if (is_size)
			samples->bytes[samples->n_sizes++] = sample[i].bytes;
		if (is_size || sample[i].block != sample[i - 1].block)
			samples->rows[samples->n_rows++] = (struct lw_samples_row){
				.block = sample[i].block, .size = (uint32_t)samples->n_sizes - 1};
		row = &samples->rows[samples->n_rows - 1];
		row->sum_ns += sample[i].ns;
		row->n += 1;
	}
	return LW_OK;
}

void lw_samples_done(struct lw_samples *samples)
{
	free(samples->bytes);
	free(samples->rows);
	*samples = (struct lw_samples){0};
}

size_t lw_samples_weigh(
	const struct lw_samples *samples, const double *block_weights, struct lw_size *ret_sizes)
{
	size_t n_sizes = 0;

	/* Rows stand by size: one pass, each size closed when the next one begins. */
	for (size_t i = 0; i < samples->n_rows;) {
		uint32_t size = samples->rows[i].size;
		double sum_ns = 0, n = 0;

		for (; i < samples->n_rows && samples->rows[i].size == size; i++) {
			const struct lw_samples_row *row = &samples->rows[i];
			double weight = block_weights ? block_weights[row->block] : 1;

			sum_ns += weight * row->sum_ns;
			n += weight * row->n;
		}
		if (n > 0)
			ret_sizes[n_sizes++] =
				(struct lw_size){samples->bytes[size], sum_ns / n, n};
	}
	return n_sizes;
}
