/* SPDX-License-Identifier: Apache-2.0 */
#include "tracer/probe_schedule.h"

#include <string.h>

const struct lw_probe_size lw_probe_sizes[LW_PROBE_N_SIZES] = {
	{8, 10},
	{64, 10},
	{512, 10},
	{2 << 10, 10},
	{8 << 10, 10},
	{32 << 10, 8},
	{128 << 10, 6},
	{512 << 10, 4},
	{2 << 20, 3},
	{8 << 20, 3},
	{32 << 20, 3},
};

/* One size may take this part of the budget. Else the largest that fits would leave no time for the
 * repeats of the small ones, which scatter most, and which a job does not send by itself. */
enum { SHARE_DIVISOR = 8 };
/* From here on the first burst is one operation: whether a second fits is not known before its end. */
enum { LARGE_BYTES = 2 << 20 };

static const uint64_t TIME_LEFT = 1;

static uint64_t wanted_bit(uint32_t size)
{
	return UINT64_C(2) << size;
}

void lw_probe_start(struct lw_probe_schedule *schedule, int64_t budget_ns)
{
	memset(schedule, 0, sizeof(*schedule));
	schedule->budget_ns = budget_ns;
}

/* Mean so far; for a size not tried yet the next smaller one's, in proportion to the bytes. */
static double expected_ns(const struct lw_probe_schedule *schedule, uint32_t size)
{
	double growth = 1;

	while (size && !schedule->n_done[size]) {
		growth *= (double)lw_probe_sizes[size].bytes / lw_probe_sizes[size - 1].bytes;
		size--;
	}
	return schedule->n_done[size]
		       ? growth * (double)schedule->spent_ns[size] / schedule->n_done[size]
		       : 0;
}

uint64_t lw_probe_vote(const struct lw_probe_schedule *schedule, int64_t elapsed_ns)
{
	double budget_ns = (double)schedule->budget_ns;
	double now_ns = expected_ns(schedule, schedule->size); /* of the operation that votes */
	double left_ns = budget_ns - (double)elapsed_ns - now_ns;
	uint64_t votes = left_ns > 0 ? TIME_LEFT : 0;

	for (uint32_t size = 0; size < LW_PROBE_N_SIZES; size++) {
		bool is_now = size == schedule->size;
		double all_ns = (double)schedule->spent_ns[size] + (is_now ? now_ns : 0);
		double next_ns = expected_ns(schedule, size);

		if (next_ns <= left_ns && all_ns + next_ns <= budget_ns / SHARE_DIVISOR)
			votes |= wanted_bit(size);
	}
	return votes;
}

/* The size whose turn it is: upwards in the first pass, which knows nothing, then by changing strides. */
static uint32_t size_of_turn(const struct lw_probe_schedule *schedule)
{
	uint32_t stride = 1 + 3 * schedule->pass % (LW_PROBE_N_SIZES - 1);

	return (schedule->turn * stride + schedule->pass) % LW_PROBE_N_SIZES;
}

static uint32_t burst_length(const struct lw_probe_schedule *schedule)
{
	const struct lw_probe_size *size = &lw_probe_sizes[schedule->size];

	return schedule->pass == 0 && size->bytes >= LARGE_BYTES ? 1 : size->n_burst;
}

static void next_burst(struct lw_probe_schedule *schedule, uint64_t agreed)
{
	schedule->burst++;
	schedule->position = 0;
	do {
		if (++schedule->turn == LW_PROBE_N_SIZES) {
			schedule->turn = 0;
			if (++schedule->pass == LW_PROBE_N_PASSES) {
				schedule->is_over = true;
				return;
			}
		}
		schedule->size = size_of_turn(schedule);
	} while (!(agreed & wanted_bit(schedule->size)));
}

void lw_probe_done(struct lw_probe_schedule *schedule, uint64_t agreed, int64_t took_ns)
{
	schedule->spent_ns[schedule->size] += took_ns;
	schedule->n_done[schedule->size]++;
	schedule->number++;
	schedule->position++;
	if (!(agreed & TIME_LEFT) || !(agreed & ~TIME_LEFT))
		schedule->is_over = true;
	else if (schedule->position == burst_length(schedule) ||
		 !(agreed & wanted_bit(schedule->size)))
		next_burst(schedule, agreed);
}
