/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/simulate/wire.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"

enum { MIN_CLASS_SAMPLES = 8 };
static const double BIN_WIDTH = 1.15;       /* sizes within 15 % share a bin */
static const double REACH_BELOW = 0.7;      /* "about the size": down to this fraction */
static const double REACH_ABOVE = 1.5;      /* and up to this one */
static const double OPTIMISTIC_FRAC = 0.85; /* of the slope, beyond the largest size */
static const double PESSIMISTIC_FRAC = 1.15;

static int by_size(const void *a, const void *b)
{
	const struct lw_wire_sample *x = a, *y = b;

	if (x->bytes != y->bytes)
		return x->bytes < y->bytes ? -1 : 1;
	return (x->service_ns > y->service_ns) - (x->service_ns < y->service_ns);
}

/* Pools neighbours until more bytes never cost less (pool adjacent violators). */
static void make_rising(struct lw_wire_table *table)
{
	uint32_t top = 0;

	for (uint32_t i = 0; i < table->n_bins; i++) {
		table->bytes[top] = table->bytes[i];
		table->service_ns[top] = table->service_ns[i];
		table->n[top] = table->n[i];
		for (; top > 0 && table->service_ns[top] < table->service_ns[top - 1]; top--) {
			double n = table->n[top - 1] + table->n[top];

			table->service_ns[top - 1] =
				(table->service_ns[top - 1] * table->n[top - 1] +
					table->service_ns[top] * table->n[top]) /
				n;
			table->bytes[top - 1] = (table->bytes[top - 1] * table->n[top - 1] +
							table->bytes[top] * table->n[top]) /
						n;
			table->n[top - 1] = n;
		}
		top++;
	}
	table->n_bins = top;
}

/* @class: 0 = all samples, 1 = first after idle, 2 = back to back. */
static void fill_table(
	struct lw_wire_table *table, const struct lw_wire_sample *samples, size_t n, int class)
{
	double bin_start_bytes = -1;
	uint32_t b = 0;

	memset(table, 0, sizeof(*table));
	for (size_t i = 0; i < n; i++) {
		bool is_first = samples[i].idle_ns > LW_WIRE_IDLE_NS;
		double bytes = (double)samples[i].bytes;

		if ((class == 1 && !is_first) || (class == 2 && is_first))
			continue;
		if (table->n_samples++ == 0 ||
			(bytes > bin_start_bytes * BIN_WIDTH && b + 1 < LW_WIRE_MAX_BINS)) {
			b = table->n_bins++;
			bin_start_bytes = bytes;
		}
		table->bytes[b] += bytes;
		table->service_ns[b] += samples[i].service_ns;
		table->n[b]++;
	}
	for (uint32_t i = 0; i < table->n_bins; i++) {
		table->bytes[i] /= table->n[i];
		table->service_ns[i] /= table->n[i];
	}
	make_rising(table);
}

static double first_of(const struct lw_wire_table *table)
{
	return table->bytes[0];
}

static double last_of(const struct lw_wire_table *table)
{
	return table->bytes[table->n_bins - 1];
}

/* The table at @bytes; linear between sizes, through (0, latency) outside of them. */
static double read_table(
	const struct lw_wire *wire, const struct lw_wire_table *table, double bytes)
{
	uint32_t low = 0, high = table->n_bins - 1;
	double last_bytes = table->bytes[high], last_ns = table->service_ns[high];

	if (bytes <= table->bytes[0])
		return wire->latency_ns +
		       (table->service_ns[0] - wire->latency_ns) *
			       (table->bytes[0] > 0 ? bytes / table->bytes[0] : 1);
	if (bytes >= last_bytes)
		return last_ns + (last_ns - wire->latency_ns) * (bytes / last_bytes - 1);
	while (high - low > 1) {
		uint32_t middle = low + (high - low) / 2;

		if (table->bytes[middle] <= bytes)
			low = middle;
		else
			high = middle;
	}
	return table->service_ns[low] + (table->service_ns[high] - table->service_ns[low]) *
						(bytes - table->bytes[low]) /
						(table->bytes[high] - table->bytes[low]);
}

static double recorded_ns(const struct lw_wire *wire, double bytes, int64_t idle_ns)
{
	const struct lw_wire_table *table =
		idle_ns > LW_WIRE_IDLE_NS ? &wire->first : &wire->queued;

	if (table->n_samples < MIN_CLASS_SAMPLES || bytes < first_of(table) * REACH_BELOW ||
		bytes > last_of(table) * REACH_ABOVE)
		table = &wire->all;
	return read_table(wire, table, bytes);
}

bool lw_wire_knows(const struct lw_wire *wire, double bytes)
{
	return bytes >= first_of(&wire->all) * REACH_BELOW &&
	       bytes <= last_of(&wire->all) * REACH_ABOVE;
}

double lw_wire_ns(const void *context, uint64_t bytes, int64_t idle_ns)
{
	const struct lw_wire *wire = context;
	double cost_ns = recorded_ns(wire, (double)bytes, idle_ns);
	double size_ns = cost_ns > wire->latency_ns ? cost_ns - wire->latency_ns : 0;

	cost_ns =
		(cost_ns - size_ns) * wire->scale.latency_frac + size_ns * wire->scale.volume_frac;
	if (wire->guess == LW_WIRE_TABLE || lw_wire_knows(wire, (double)bytes))
		return cost_ns;
	if ((double)bytes > last_of(&wire->all))
		return cost_ns *
		       (wire->guess == LW_WIRE_OPTIMISTIC ? OPTIMISTIC_FRAC : PESSIMISTIC_FRAC);
	if (wire->guess == LW_WIRE_PESSIMISTIC && cost_ns < LW_WIRE_LOADED * wire->latency_ns)
		return LW_WIRE_LOADED * wire->latency_ns;
	return cost_ns;
}

/* Relative error of a mean cost, from how far the samples lie from the table. */
static double error_of(const struct lw_wire *wire, const struct lw_wire_sample *samples, size_t n)
{
	double sum_of_squares = 0;

	for (size_t i = 0; i < n; i++) {
		double expected_ns =
			recorded_ns(wire, (double)samples[i].bytes, samples[i].idle_ns);
		double off = expected_ns > 0 ? samples[i].service_ns / expected_ns - 1 : 0;

		sum_of_squares += off * off;
	}
	return 1.96 * sqrt(sum_of_squares / (double)n) / sqrt((double)n);
}

int lw_wire_init(struct lw_wire *wire, struct lw_wire_sample *samples, size_t n, double latency_ns)
{
	memset(wire, 0, sizeof(*wire));
	if (n == 0)
		return lw_fail(LW_ERR_LIMIT, "no collective was timed on all ranks");
	qsort(samples, n, sizeof(*samples), by_size);
	fill_table(&wire->all, samples, n, 0);
	fill_table(&wire->first, samples, n, 1);
	fill_table(&wire->queued, samples, n, 2);
	wire->latency_ns = fmin(latency_ns, wire->all.service_ns[0]);
	wire->scale = (struct lw_wire_scale){1, 1};
	wire->error_frac = error_of(wire, samples, n);
	return LW_OK;
}
