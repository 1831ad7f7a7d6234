/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/counter.h"

/* No device counts that much between two looks (2^56 bytes in a minute is a petabyte a second). */
#define TOO_MUCH (UINT64_C(1) << 56)

static uint64_t top_of(unsigned bits)
{
	return bits >= 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
}

/* Falls over @top are short, seen from a range of which a look sees at most a quarter. */
static bool is_wrap(uint64_t top, uint64_t before, uint64_t now)
{
	return before <= top && before > top / 2 && top - before + now < top / 4;
}

enum lw_counter_change lw_counter_step(
	unsigned bits, uint64_t before, uint64_t now, bool is_alone, uint64_t *ret_delta)
{
	uint64_t top = top_of(bits);

	*ret_delta = now - before;
	if (now == before)
		return LW_COUNTER_SAME;
	if (now > before && (*ret_delta < TOO_MUCH || bits < 57))
		return LW_COUNTER_GREW;
	/* Drivers keep 32 bits and show them in a file or field of 64. */
	if (now < before && bits > 32 && is_wrap(UINT32_MAX, before, now))
		top = UINT32_MAX;
	if (now < before && is_alone && is_wrap(top, before, now)) {
		*ret_delta = top - before + now + 1;
		if (*ret_delta < TOO_MUCH)
			return LW_COUNTER_WRAPPED;
	}
	*ret_delta = now < before && now < TOO_MUCH ? now : 0;
	return LW_COUNTER_RESET;
}

int64_t lw_counter_first(uint64_t reading, unsigned scale)
{
	return (int64_t)(reading * scale & (UINT64_MAX >> 2));
}

int64_t lw_counter_add(int64_t total, uint64_t delta, unsigned scale)
{
	uint64_t amount, sum;

	if (__builtin_mul_overflow(delta, (uint64_t)scale, &amount) ||
		__builtin_add_overflow((uint64_t)total, amount, &sum) || sum > INT64_MAX)
		return INT64_MAX;
	return (int64_t)sum;
}
