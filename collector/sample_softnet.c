/* SPDX-License-Identifier: Apache-2.0 */
/* sample_softnet.c - /proc/net/softnet_stat: packets that the CPUs dropped before any socket saw them. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "collector/sampler.h"

static const struct softnet_counter {
	struct lw_counter counter;
	unsigned column;
} counters[] = {
#define LW_SOFTNET(name, unit, bits, column) {{name, name, unit, bits, 1, false}, column},
#include "schema/counters.def"
};

void lw_sample_softnet(struct lw_samplers *samplers)
{
	/* about 180 bytes a CPU: 64 KiB are 360 CPUs; the netlink buffer is free between questions */
	int n = lw_sysfs_read(
		AT_FDCWD, "/proc/net/softnet_stat", samplers->buffer, LW_NETLINK_BUFFER_BYTES);
	struct lw_device *device;

	if (n < 0) {
		lw_samplers_trouble(samplers, "/proc/net/softnet_stat: %s", strerror(-n));
		return;
	}
	device = lw_device_find(samplers, LW_DEVICE_SOFTNET, 0, 0, "softnet");
	if (!device)
		return;
	for (size_t i = 0; i < sizeof(counters) / sizeof(counters[0]); i++) {
		uint32_t sum;

		if (lw_softnet_sum(samplers->buffer, (size_t)n, counters[i].column, &sum) < 0)
			lw_samplers_trouble(samplers, "/proc/net/softnet_stat: not as known");
		else
			lw_device_read(samplers, device, &counters[i].counter, sum);
	}
	lw_device_commit(samplers, device, lw_clock_ns());
}
