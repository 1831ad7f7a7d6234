/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/packet_clock.h"

#include "base/clock.h"
#include "base/units.h"

/* A change of the distance beyond this is a clock that was set, not one that is slewed. */
#define STEP_NS LW_NS_PER_MS
/* No packet waits longer for us to read it. */
#define OLDEST_NS LW_NS_PER_S

static int64_t magnitude(int64_t x)
{
	return x < 0 ? -x : x;
}

void lw_packet_clock_pair(
	struct lw_packet_clock *clock, int64_t monotonic_ns, int64_t realtime_ns, int64_t error_ns)
{
	int64_t offset_ns = realtime_ns - monotonic_ns;

	clock->last_offset_ns = clock->read_ns ? clock->offset_ns : offset_ns;
	clock->last_read_ns = clock->read_ns ? clock->read_ns : monotonic_ns;
	clock->offset_ns = offset_ns;
	clock->read_ns = monotonic_ns;
	if (magnitude(offset_ns - clock->last_offset_ns) < STEP_NS)
		error_ns += magnitude(offset_ns - clock->last_offset_ns);
	if (error_ns > clock->error_ns)
		clock->error_ns = error_ns;
}

int64_t lw_packet_clock_read(struct lw_packet_clock *clock)
{
	int64_t best_ns = INT64_MAX, monotonic_ns = 0, realtime_ns = 0;

	for (int i = 0; i < 3; i++) {
		int64_t before_ns = lw_clock_ns(), now_ns = lw_clock_id_ns(CLOCK_REALTIME);
		int64_t width_ns = lw_clock_ns() - before_ns;

		if (width_ns >= best_ns)
			continue;
		best_ns = width_ns;
		monotonic_ns = before_ns + width_ns / 2;
		realtime_ns = now_ns;
	}
	lw_packet_clock_pair(clock, monotonic_ns, realtime_ns, best_ns / 2 + 1);
	return monotonic_ns;
}

int64_t lw_packet_clock_convert(struct lw_packet_clock *clock, int64_t realtime_ns)
{
	int64_t at_ns = realtime_ns - clock->offset_ns;
	int64_t old_ns = realtime_ns - clock->last_offset_ns;

	if (magnitude(clock->offset_ns - clock->last_offset_ns) < STEP_NS)
		return at_ns;
	/* The clock was set between the readings: before or after this packet? Only one of the two gives
	 * a time that can be; when both do, nobody can tell, and the error is as large as the step. */
	if (at_ns > clock->read_ns || at_ns < clock->last_read_ns - OLDEST_NS)
		return old_ns;
	if (old_ns <= clock->read_ns && old_ns >= clock->last_read_ns - OLDEST_NS &&
		magnitude(at_ns - old_ns) > clock->error_ns)
		clock->error_ns = magnitude(at_ns - old_ns);
	return at_ns;
}
