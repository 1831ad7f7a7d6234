/* SPDX-License-Identifier: Apache-2.0 */
/*
 * samples.h - timed operations, added up by size and by block of steps, ready to be resampled.
 *
 * Pure. A block is what the bootstrap draws: neighbouring steps, which are not independent.
 */
#ifndef LAPWING_ANALYZER_FIT_SAMPLES_H
#define LAPWING_ANALYZER_FIT_SAMPLES_H

#include <stddef.h>
#include <stdint.h>

struct lw_sample {
	double bytes, ns; /* > 0 and >= 0 */
	uint32_t block;
};

struct lw_size { /* all samples of one size */
	double bytes, mean_ns;
	double n; /* how many; not whole where blocks have weights */
};

struct lw_samples_row {
	uint32_t block, size; /* size: index */
	double sum_ns, n;
};

struct lw_samples {
	size_t n, n_sizes, n_rows;
	double *bytes; /* of each size, ascending */
	struct lw_samples_row *rows;
};

/**
 * lw_samples_init() - add up @n samples; sorts @samples in place.
 * Return: LW_OK or LW_ERR_NOMEM. Free with lw_samples_done().
 */
int lw_samples_init(struct lw_samples *samples, struct lw_sample *sample, size_t n);
void lw_samples_done(struct lw_samples *samples);

/**
 * lw_samples_weigh() - means by size when block b counts @block_weights[b] times (NULL: once each).
 * @ret_sizes: room for n_sizes; those without any weight are left out
 * Return: sizes written.
 */
size_t lw_samples_weigh(
	const struct lw_samples *samples, const double *block_weights, struct lw_size *ret_sizes);

#endif /* LAPWING_ANALYZER_FIT_SAMPLES_H */
