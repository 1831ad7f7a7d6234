/* SPDX-License-Identifier: Apache-2.0 */
/*
 * random.h - a seeded sequence, the same on every machine: for resampling and for tests.
 *
 * SplitMix64 (Steele, Lea, Flood, OOPSLA 2014). Not for secrets.
 */
#ifndef LAPWING_BASE_RANDOM_H
#define LAPWING_BASE_RANDOM_H

#include <math.h>
#include <stdint.h>

struct lw_random {
	uint64_t state; /* the seed, at first */
};

/** lw_random_next() - 64 random bits. */
static inline uint64_t lw_random_next(struct lw_random *random)
{
	uint64_t z = (random->state += UINT64_C(0x9e3779b97f4a7c15));

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

/** lw_random_below() - a number in [0, @n), @n > 0; the bias is below @n / 2^64. */
static inline uint64_t lw_random_below(struct lw_random *random, uint64_t n)
{
	return lw_random_next(random) % n;
}

/** lw_random_unit() - a number in [0, 1), 53 bits. */
static inline double lw_random_unit(struct lw_random *random)
{
	return (double)(lw_random_next(random) >> 11) * 0x1p-53;
}

/** lw_random_normal() - mean 0, variance 1 (Box and Muller, 1958). */
static inline double lw_random_normal(struct lw_random *random)
{
	double radius = sqrt(-2 * log(1 - lw_random_unit(random)));

	return radius * cos(6.283185307179586 * lw_random_unit(random));
}

#endif /* LAPWING_BASE_RANDOM_H */
