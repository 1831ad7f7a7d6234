/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sample_ethtool.c - what drivers count beyond the common counters: pauses of a priority (PFC), ECN marks,
 * drops in the NIC. ETHTOOL_GSTATS, where the names that the driver gives are in the table.
 */
#include <ctype.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>

#include "collector/sample_ethtool.h"
#include "collector/sampler.h"

static const struct ethtool_counter {
	const char *name, *unit;
	unsigned bits, scale;
	const char *string;
} counters[] = {
#define LW_ETHTOOL(name, unit, bits, scale, string) {name, unit, bits, scale, string},
#include "schema/counters.def"
};
enum {
	N_COUNTERS = sizeof(counters) / sizeof(counters[0]),
	STATS_MAX = 1 << 15, /* mlx5 with 128 rings has 5,000 */
	TAKEN_MAX = 128,     /* of one device */
	NUMBER_MAX = 64,     /* what # may stand for: 8 priorities, some queues */
	SLACK = 1 << 10,     /* statistics that may appear between two system calls */
};

/* Which statistics of one device are taken. */
struct ethtool_map {
	uint32_t n_stats; /* when the names were read; 0 = it has none */
	size_t n;
	struct {
		uint32_t position;
		uint16_t counter;
		char name[48];
	} taken[TAKEN_MAX];
};

static bool matches(const char *pattern, const char *string, size_t string_bytes, int *number)
{
	size_t i = 0;

	*number = -1;
	for (; *pattern; pattern++) {
		if (*pattern != '#') {
			if (i >= string_bytes || string[i++] != *pattern)
				return false;
			continue;
		}
		*number = 0;
		if (i >= string_bytes || !isdigit((unsigned char)string[i]))
			return false;
		while (i < string_bytes && isdigit((unsigned char)string[i]))
			if ((*number = *number * 10 + (string[i++] - '0')) >= NUMBER_MAX)
				return false;
	}
	return i == string_bytes || string[i] == '\0';
}

int lw_ethtool_match(const char *string, size_t string_bytes, char *ret_name, size_t name_bytes)
{
	for (int i = 0; i < N_COUNTERS; i++) {
		const char *mark = strchr(counters[i].name, '#');
		int number;

		if (!matches(counters[i].string, string, string_bytes, &number))
			continue;
		if (mark)
			snprintf(ret_name, name_bytes, "%.*s%d%s", (int)(mark - counters[i].name),
				counters[i].name, number, mark + 1);
		else
			snprintf(ret_name, name_bytes, "%s", counters[i].name);
		return i;
	}
	return -1;
}

static int ask(const struct lw_netns *netns, const struct lw_device *device, void *question)
{
	struct ifreq request = {.ifr_data = question};

	snprintf(request.ifr_name, sizeof(request.ifr_name), "%.15s", device->name);
	return ioctl(netns->sockets.ioctl_fd, SIOCETHTOOL, &request);
}

static uint32_t count_stats(const struct lw_netns *netns, const struct lw_device *device)
{
	union { /* room for the one number behind it */
		struct ethtool_sset_info head;
		uint32_t words[sizeof(struct ethtool_sset_info) / sizeof(uint32_t) + 1];
	} info = {.head = {.cmd = ETHTOOL_GSSET_INFO, .sset_mask = 1 << ETH_SS_STATS}};

	if (ask(netns, device, &info) < 0 || !info.head.sset_mask || info.head.data[0] > STATS_MAX)
		return 0;
	return info.head.data[0];
}

static void read_names(
	const struct lw_netns *netns, const struct lw_device *device, struct ethtool_map *map)
{
	struct ethtool_gstrings *strings;

	map->n = 0;
	map->n_stats = count_stats(netns, device);
	if (!map->n_stats)
		return;
	/* The kernel writes as many as there are then, whatever is asked for. */
	strings = calloc(1, sizeof(*strings) + (map->n_stats + SLACK) * ETH_GSTRING_LEN);
	if (!strings)
		return;
	*strings = (struct ethtool_gstrings){
		.cmd = ETHTOOL_GSTRINGS, .string_set = ETH_SS_STATS, .len = map->n_stats};
	if (ask(netns, device, strings) < 0 || strings->len < map->n_stats)
		map->n_stats = 0;
	for (uint32_t i = 0; i < map->n_stats && map->n < TAKEN_MAX; i++) {
		int counter = lw_ethtool_match((const char *)strings->data + i * ETH_GSTRING_LEN,
			ETH_GSTRING_LEN, map->taken[map->n].name, sizeof(map->taken[0].name));

		if (counter < 0)
			continue;
		map->taken[map->n].position = i;
		map->taken[map->n++].counter = (uint16_t)counter;
	}
	free(strings);
}

static void read_stats(
	struct lw_samplers *samplers, const struct lw_netns *netns, struct lw_device *device)
{
	struct ethtool_map *map = device->ethtool;
	struct ethtool_stats *stats;
	uint32_t n_stats = count_stats(netns, device);

	if (!n_stats)
		return; /* the driver resets just now */
	if (n_stats != map->n_stats) {
		lw_device_rekey(device); /* queues were added or taken away */
		read_names(netns, device, map);
		return;
	}
	stats = calloc(1, sizeof(*stats) + (map->n_stats + SLACK) * sizeof(uint64_t));
	if (!stats)
		return;
	*stats = (struct ethtool_stats){.cmd = ETHTOOL_GSTATS, .n_stats = map->n_stats};
	if (ask(netns, device, stats) == 0 && stats->n_stats == map->n_stats) {
		for (size_t i = 0; i < map->n; i++) {
			const struct ethtool_counter *counter = &counters[map->taken[i].counter];
			uint64_t reading;
			const struct lw_counter read = {&map->taken[i], map->taken[i].name,
				counter->unit, counter->bits, counter->scale, false};

			memcpy(&reading, (const char *)stats->data + map->taken[i].position * 8, 8);
			lw_device_read(samplers, device, &read, reading);
		}
		lw_device_commit(samplers, device, lw_clock_ns());
	}
	free(stats);
}

void lw_sample_ethtool(struct lw_samplers *samplers)
{
	for (size_t i = 0; i < samplers->devices.n; i++) {
		struct lw_device *device = samplers->devices.at[i];
		struct lw_netns *netns = NULL;

		for (size_t k = 0; k < samplers->namespaces.n && !netns; k++)
			if (samplers->namespaces.at[k]->key == device->namespace_key)
				netns = samplers->namespaces.at[k];
		if (device->kind != LW_DEVICE_NIC || device->gone_ns || !netns ||
			samplers->options.sysfs_root)
			continue;
		if (!device->ethtool) {
			device->ethtool = calloc(1, sizeof(struct ethtool_map));
			if (!device->ethtool)
				return;
			read_names(netns, device, device->ethtool);
		}
		if (((struct ethtool_map *)device->ethtool)->n)
			read_stats(samplers, netns, device);
	}
}
