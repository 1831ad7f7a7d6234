/* SPDX-License-Identifier: Apache-2.0 */
/*
 * packet_clock.h - times of packets, which the kernel stamps with CLOCK_REALTIME, on CLOCK_MONOTONIC.
 *
 * The distance of the two clocks is read before every block of packets. It changes while the system
 * clock is slewed, or set: by how much it changed between two readings bounds the error in between.
 */
#ifndef LAPWING_COLLECTOR_PACKET_CLOCK_H
#define LAPWING_COLLECTOR_PACKET_CLOCK_H

#include <stdint.h>

struct lw_packet_clock {
	int64_t offset_ns, last_offset_ns; /* realtime - monotonic, at the last two readings */
	int64_t read_ns, last_read_ns;     /* monotonic times of these; 0 = none */
	int64_t error_ns;                  /* the largest so far */
};

/** lw_packet_clock_read() - read both clocks. Return: CLOCK_MONOTONIC. */
int64_t lw_packet_clock_read(struct lw_packet_clock *clock);

/** lw_packet_clock_pair() - the same with a reading of the caller's, which is off by @error_ns at most. */
void lw_packet_clock_pair(
	struct lw_packet_clock *clock, int64_t monotonic_ns, int64_t realtime_ns, int64_t error_ns);

/** lw_packet_clock_convert() - @realtime_ns, stamped before the last reading, on CLOCK_MONOTONIC. */
int64_t lw_packet_clock_convert(struct lw_packet_clock *clock, int64_t realtime_ns);

#endif /* LAPWING_COLLECTOR_PACKET_CLOCK_H */
