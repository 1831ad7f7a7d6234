/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/reconstruct/gpu_counters.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static const struct {
	const char *counter;
	size_t offset;
	double scale;
	bool is_gauge;
} counts[] = {
#define X(name, counter, scale, is_gauge)                                                          \
	{counter, offsetof(struct lw_gpu_counted, name), scale, is_gauge},
	LW_GPU_COUNTS(X)
#undef X
};
enum { N_COUNTS = sizeof(counts) / sizeof(counts[0]) };

static const struct {
	const char *name, *counter, *words;
} holds[LW_GPU_N_HOLDS] = {
#define X(name, words) {#name, "clocks_" #name "_ns", words},
	LW_GPU_HOLDS(X)
#undef X
};

const char *lw_gpu_hold_name(int hold)
{
	return holds[hold].name;
}

const char *lw_gpu_hold_words(int hold)
{
	return holds[hold].words;
}

static const struct lw_nic_series *series_of(const struct lw_nic *device, const char *name)
{
	const struct lw_nic_series *series;

	lw_vec_foreach (series, &device->series)
		if (!strcmp(series->name, name))
			return series;
	return NULL;
}

/* On the straight line between the readings around @at_ns; what is outside of them is as the nearest. */
static double value_at(const struct lw_nic_series *series, int64_t at_ns)
{
	const struct lw_reading *at = series->readings.at;
	size_t low = 0, high = series->readings.n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (at[middle].at_ns <= at_ns)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == 0 || low == series->readings.n)
		return (double)at[low ? low - 1 : 0].value;
	return (double)at[low - 1].value + (double)(at[low].value - at[low - 1].value) *
						   (double)(at_ns - at[low - 1].at_ns) /
						   (double)(at[low].at_ns - at[low - 1].at_ns);
}

static bool is_read(const struct lw_nic_series *series, int64_t start_ns, int64_t end_ns)
{
	size_t n = series ? series->readings.n : 0;

	return n > 1 && end_ns > start_ns && series->readings.at[0].at_ns < end_ns &&
	       series->readings.at[n - 1].at_ns > start_ns;
}

/* By how much it grew. */
static double growth(const struct lw_nic_series *series, int64_t start_ns, int64_t end_ns)
{
	return is_read(series, start_ns, end_ns)
		       ? value_at(series, end_ns) - value_at(series, start_ns)
		       : (double)NAN;
}

static double mean(const struct lw_nic_series *series, int64_t start_ns, int64_t end_ns)
{
	double sum = 0, before;
	int64_t at_ns = start_ns;

	if (!is_read(series, start_ns, end_ns))
		return (double)NAN;
	before = value_at(series, start_ns);
	for (size_t i = 0; i <= series->readings.n; i++) {
		int64_t next_ns = i < series->readings.n ? series->readings.at[i].at_ns : end_ns;
		double next;

		if (next_ns <= at_ns)
			continue;
		next_ns = next_ns < end_ns ? next_ns : end_ns;
		next = value_at(series, next_ns);
		sum += (before + next) / 2 * (double)(next_ns - at_ns);
		before = next;
		at_ns = next_ns;
	}
	return sum / (double)(end_ns - start_ns);
}

/* The steps of @rank that count. Return: there are some. */
static bool find_window(const struct lw_rank *rank, struct lw_gpu_counted *counted)
{
	const struct lw_step *step;
	bool is_first = true;

	lw_vec_foreach (step, &rank->steps) {
		if (step->excluded)
			continue;
		if (is_first)
			counted->start_ns = step->start_ns;
		counted->end_ns = step->end_ns;
		is_first = false;
	}
	return !is_first;
}

static void look_at_all(struct lw_gpu_counted *counted)
{
	const struct lw_nic_series *series;
	bool is_first = true;

	lw_vec_foreach (series, &counted->device->series) {
		size_t n = series->readings.n;

		if (!n)
			continue;
		if (is_first || series->readings.at[0].at_ns < counted->start_ns)
			counted->start_ns = series->readings.at[0].at_ns;
		if (is_first || series->readings.at[n - 1].at_ns > counted->end_ns)
			counted->end_ns = series->readings.at[n - 1].at_ns;
		is_first = false;
	}
}

static void count(struct lw_gpu_counted *counted)
{
	int64_t start_ns = counted->start_ns, end_ns = counted->end_ns;
	double seconds = (double)(end_ns - start_ns) / 1e9;

	for (size_t i = 0; i < N_COUNTS; i++) {
		const struct lw_nic_series *series = series_of(counted->device, counts[i].counter);
		double value = counts[i].is_gauge ? mean(series, start_ns, end_ns)
						  : growth(series, start_ns, end_ns) / seconds;

		*(double *)((char *)counted + counts[i].offset) = value * counts[i].scale;
	}
	for (int i = 0; i < LW_GPU_N_HOLDS; i++)
		counted->held_frac[i] =
			growth(series_of(counted->device, holds[i].counter), start_ns, end_ns) /
			(double)(end_ns - start_ns);
}

static int by_rank(const void *a, const void *b)
{
	const struct lw_gpu_counted *x = a, *y = b;
	uint32_t x_rank = (uint32_t)x->rank, y_rank = (uint32_t)y->rank; /* none is the largest */

	if (x_rank != y_rank)
		return x_rank < y_rank ? -1 : 1;
	return (x->device > y->device) - (x->device < y->device);
}

int lw_gpu_counters(const struct lw_run *run, struct lw_gpu_counters *ret_counters)
{
	const struct lw_nic *device;

	*ret_counters = (struct lw_gpu_counters){0};
	lw_vec_foreach (device, &run->nics) {
		struct lw_gpu_counted counted = {.device = device,
			.rank = device->ranks.n ? device->ranks.at[0] : LW_NONE,
			.n_ranks = device->ranks.n};

		if (strcmp(device->kind, "gpu") ||
			device->same_as != (int32_t)(device - run->nics.at))
			continue;
		if (counted.rank == LW_NONE || !find_window(&run->ranks.at[counted.rank], &counted))
			look_at_all(&counted);
		count(&counted);
		if (lw_vec_push(&ret_counters->at, counted) < 0)
			return LW_ERR_NOMEM;
	}
	if (ret_counters->at.n > 1)
		qsort(ret_counters->at.at, ret_counters->at.n, sizeof(*ret_counters->at.at),
			by_rank);
	return LW_OK;
}
