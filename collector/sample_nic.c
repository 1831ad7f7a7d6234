/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sample_nic.c - network interfaces of every namespace of the job: rtnetlink's 64-bit statistics, one
 * question a namespace. Under another sysfs root (fixtures) the same counters as files.
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/ethtool.h>
#include <linux/if_link.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "collector/sampler.h"

static const struct nic_counter {
	struct lw_counter counter;
	size_t offset; /* in struct rtnl_link_stats64 */
} counters[] = {
#define LW_NIC(name, unit, bits)                                                                   \
	{{#name, #name, unit, bits, 1, false}, offsetof(struct rtnl_link_stats64, name)},
#include "schema/counters.def"
};
enum { N_COUNTERS = sizeof(counters) / sizeof(counters[0]) };

#define MBIT_BYTES_PER_S 125000

/* ---- which there are ------------------------------------------------------------------------------- */

static void ask_driver(struct lw_device *device, int fd)
{
	union { /* with the masks behind it */
		struct ethtool_link_settings settings;
		uint32_t words[sizeof(struct ethtool_link_settings) / sizeof(uint32_t) +
			       3 * SCHAR_MAX];
	} link = {.settings.cmd = ETHTOOL_GLINKSETTINGS};
	struct ethtool_drvinfo info = {.cmd = ETHTOOL_GDRVINFO};
	struct ifreq request = {.ifr_data = (char *)&info};
	int64_t speed_bytes_per_s = -1;

	snprintf(request.ifr_name, sizeof(request.ifr_name), "%.15s", device->name);
	if (ioctl(fd, SIOCETHTOOL, &request) == 0) {
		info.driver[sizeof(info.driver) - 1] = '\0';
		lw_device_set(device, device->driver, sizeof(device->driver), info.driver);
	}
	/* Asked twice: the first answer says how many words the masks have. */
	request.ifr_data = (char *)&link;
	if (ioctl(fd, SIOCETHTOOL, &request) == 0 && link.settings.link_mode_masks_nwords < 0) {
		link.settings.cmd = ETHTOOL_GLINKSETTINGS;
		link.settings.link_mode_masks_nwords =
			(int8_t)-link.settings.link_mode_masks_nwords;
		if (ioctl(fd, SIOCETHTOOL, &request) == 0 &&
			link.settings.speed != (uint32_t)SPEED_UNKNOWN && link.settings.speed)
			speed_bytes_per_s = (int64_t)link.settings.speed * MBIT_BYTES_PER_S;
	}
	lw_device_set_number(device, &device->speed_bytes_per_s, speed_bytes_per_s);
}

struct listing {
	struct lw_samplers *samplers;
	struct lw_netns *netns;
};

static void take_link(void *user, struct nlmsghdr *message)
{
	const struct listing *listing = user;
	struct ifinfomsg *link = NLMSG_DATA(message);
	struct lw_samplers *samplers = listing->samplers;
	const char *name;
	const uint32_t *mtu, *lower;
	struct lw_device *device;
	char on_name[IF_NAMESIZE + 8] = "", clean[IF_NAMESIZE];
	size_t n, left;

	if (message->nlmsg_type != RTM_NEWLINK || message->nlmsg_len < NLMSG_LENGTH(sizeof(*link)))
		return;
	left = message->nlmsg_len - NLMSG_LENGTH(sizeof(*link));
	name = lw_netlink_attribute(IFLA_RTA(link), left, IFLA_IFNAME, 1, &n);
	if (!name || link->ifi_index <= 0)
		return;
	snprintf(clean, sizeof(clean), "%.*s", (int)strnlen(name, n), name);
	device = lw_device_find(
		samplers, LW_DEVICE_NIC, listing->netns->key, (uint32_t)link->ifi_index, clean);
	if (!device)
		return;
	device->is_loopback = link->ifi_flags & IFF_LOOPBACK;
	mtu = lw_netlink_attribute(IFLA_RTA(link), left, IFLA_MTU, sizeof(*mtu), NULL);
	lw_device_set_number(device, &device->mtu_bytes, mtu ? (int64_t)*mtu : -1);
	/* A link in another namespace (veth) has a number there that means nothing here. */
	lower = lw_netlink_attribute(IFLA_RTA(link), left, IFLA_LINK, sizeof(*lower), NULL);
	if (lower && *lower != device->number &&
		!lw_netlink_attribute(IFLA_RTA(link), left, IFLA_LINK_NETNSID, 0, NULL)) {
		struct lw_device *below =
			lw_device_number(samplers, LW_DEVICE_NIC, listing->netns->key, *lower);

		if (below)
			snprintf(on_name, sizeof(on_name), "%.15s", below->name);
	}
	lw_device_set(device, device->on_name, sizeof(device->on_name), on_name);
	ask_driver(device, listing->netns->sockets.ioctl_fd);
}

/* Addresses arrive one by one: kept in `fresh` until the dump is over. */
struct addresses {
	struct listing listing;
	struct {
		struct lw_device *device;
		char text[512];
	} fresh[LW_DEVICES_MAX];
	size_t n;
};

static void take_address(void *user, struct nlmsghdr *message)
{
	struct addresses *addresses = user;
	struct ifaddrmsg *info = NLMSG_DATA(message);
	struct lw_device *device;
	char text[INET6_ADDRSTRLEN];
	const void *address;
	size_t left, i, n, room = sizeof(addresses->fresh[0].text);
	bool is_v6;

	if (message->nlmsg_type != RTM_NEWADDR || message->nlmsg_len < NLMSG_LENGTH(sizeof(*info)))
		return;
	is_v6 = info->ifa_family == AF_INET6;
	if (!is_v6 && info->ifa_family != AF_INET)
		return;
	left = message->nlmsg_len - NLMSG_LENGTH(sizeof(*info));
	n = is_v6 ? 16 : 4;
	address = lw_netlink_attribute(IFA_RTA(info), left, IFA_LOCAL, n, NULL);
	if (!address) /* of a point-to-point link IFA_ADDRESS is the other end */
		address = lw_netlink_attribute(IFA_RTA(info), left, IFA_ADDRESS, n, NULL);
	device = lw_device_number(addresses->listing.samplers, LW_DEVICE_NIC,
		addresses->listing.netns->key, info->ifa_index);
	if (!address || !device)
		return;
	for (i = 0; i < addresses->n && addresses->fresh[i].device != device; i++)
		;
	if (i == addresses->n) {
		if (i == LW_DEVICES_MAX)
			return;
		addresses->fresh[i].device = device;
		addresses->fresh[i].text[0] = '\0';
		addresses->n++;
	}
	inet_ntop(info->ifa_family, address, text, sizeof(text));
	n = strlen(addresses->fresh[i].text);
	if (n + strlen(text) + 2 < room)
		snprintf(addresses->fresh[i].text + n, room - n, "%s%s", n ? " " : "", text);
}

static int list_addresses(struct lw_samplers *samplers, struct lw_netns *netns)
{
	struct {
		struct nlmsghdr head;
		struct ifaddrmsg info;
	} request = {.head = {.nlmsg_len = NLMSG_LENGTH(sizeof(request.info)),
			     .nlmsg_type = RTM_GETADDR}};
	struct addresses *addresses = calloc(1, sizeof(*addresses));
	int status;

	if (!addresses)
		return LW_ERR_NOMEM;
	addresses->listing = (struct listing){samplers, netns};
	status = lw_netlink_dump(
		netns->sockets.route_fd, &request.head, samplers->buffer, take_address, addresses);
	for (size_t i = 0; i < addresses->n; i++)
		lw_device_set(addresses->fresh[i].device, addresses->fresh[i].device->addresses,
			sizeof(addresses->fresh[i].device->addresses), addresses->fresh[i].text);
	free(addresses);
	return status;
}

static void list_links(struct lw_samplers *samplers, struct lw_netns *netns)
{
	struct {
		struct nlmsghdr head;
		struct ifinfomsg info;
	} request = {.head = {.nlmsg_len = NLMSG_LENGTH(sizeof(request.info)),
			     .nlmsg_type = RTM_GETLINK}};
	struct listing listing = {samplers, netns};
	int status;

	samplers->pass++;
	samplers->has_refused = false;
	netns->must_list = false;
	status = lw_netlink_dump(
		netns->sockets.route_fd, &request.head, samplers->buffer, take_link, &listing);
	netns->is_full = samplers->has_refused;
	if (status == LW_OK)
		lw_devices_sweep(samplers, LW_DEVICE_NIC, netns->key, samplers->pass);
	if (status == LW_OK)
		status = list_addresses(samplers, netns);
	if (status < 0)
		lw_samplers_trouble(samplers, "interfaces cannot be listed: %s", lw_error_text());
}

/* ---- what they count ---------------------------------------------------------------------------------- */

static void take_stats(void *user, struct nlmsghdr *message)
{
	const struct listing *listing = user;
	struct if_stats_msg *head = NLMSG_DATA(message);
	struct lw_samplers *samplers = listing->samplers;
	struct lw_device *device;
	const char *stats;
	size_t n;

	if (message->nlmsg_type != RTM_NEWSTATS || message->nlmsg_len < NLMSG_LENGTH(sizeof(*head)))
		return;
	device = lw_device_number(samplers, LW_DEVICE_NIC, listing->netns->key, head->ifindex);
	if (!device) {
		listing->netns->must_list |= !listing->netns->is_full;
		return;
	}
	stats = lw_netlink_attribute((const char *)head + NLMSG_ALIGN(sizeof(*head)),
		message->nlmsg_len - NLMSG_LENGTH(sizeof(*head)), IFLA_STATS_LINK_64,
		sizeof(uint64_t), &n);
	for (size_t i = 0; stats && i < N_COUNTERS; i++) {
		uint64_t reading;

		if (counters[i].offset + sizeof(reading) > n)
			continue; /* an older kernel */
		memcpy(&reading, stats + counters[i].offset, sizeof(reading));
		lw_device_read(samplers, device, &counters[i].counter, reading);
	}
	lw_device_commit(samplers, device, lw_clock_ns());
}

static void note_change(void *user, struct nlmsghdr *message)
{
	(void)message;
	((struct lw_netns *)user)->must_list = true;
}

static void sample_namespace(struct lw_samplers *samplers, struct lw_netns *netns)
{
	struct {
		struct nlmsghdr head;
		struct if_stats_msg stats;
	} request = {.head = {.nlmsg_len = NLMSG_LENGTH(sizeof(request.stats)),
			     .nlmsg_type = RTM_GETSTATS},
		.stats.filter_mask = IFLA_STATS_FILTER_BIT(IFLA_STATS_LINK_64)};
	struct listing listing = {samplers, netns};

	if (lw_netlink_take(netns->sockets.notify_fd, samplers->buffer, note_change, netns) < 0)
		netns->must_list = true;
	if (netns->must_list)
		list_links(samplers, netns);
	if (lw_netlink_dump(netns->sockets.route_fd, &request.head, samplers->buffer, take_stats,
		    &listing) < 0)
		lw_samplers_trouble(
			samplers, "interface counters cannot be read: %s", lw_error_text());
	lw_error_clear();
}

/* ---- as files ------------------------------------------------------------------------------------------- */

static int64_t file_number(int dir_fd, const char *path)
{
	char text[64];
	uint64_t value;
	int n = lw_sysfs_read(dir_fd, path, text, sizeof(text));

	return n > 0 && lw_sysfs_number(text, (size_t)n, &value) == LW_OK && value <= INT64_MAX
		       ? (int64_t)value
		       : -1;
}

static void read_files(struct lw_samplers *samplers, struct lw_device *device)
{
	for (size_t i = 0; i < N_COUNTERS; i++) {
		char path[64], text[64];
		uint64_t reading;
		int n;

		snprintf(path, sizeof(path), "statistics/%s", counters[i].counter.name);
		n = lw_sysfs_read(device->dir_fd, path, text, sizeof(text));
		if (n == -ENOENT || n == -ENODEV)
			continue;
		if (n >= 0 && lw_sysfs_number(text, (size_t)n, &reading) == LW_OK)
			lw_device_read(samplers, device, &counters[i].counter, reading);
		else
			lw_samplers_trouble(samplers, "%s: %s: %s", device->name, path,
				n < 0 ? strerror(-n) : "not a number");
	}
	lw_device_commit(samplers, device, lw_clock_ns());
}

static void sample_folder(struct lw_samplers *samplers, const char *name)
{
	uint64_t key = samplers->namespaces.n ? samplers->namespaces.at[0]->key : 0;
	struct lw_device *device;
	int64_t number, speed_mbit;
	char path[300], driver[sizeof(device->driver)];
	int fd;

	snprintf(path, sizeof(path), "class/net/%s", name);
	fd = lw_sysfs_open(samplers, path);
	if (fd < 0)
		return;
	number = file_number(fd, "ifindex");
	device = lw_device_find(samplers, LW_DEVICE_NIC, key,
		number > 0 && number <= UINT32_MAX ? (uint32_t)number : 0, name);
	if (!device) {
		close(fd);
		return;
	}
	if (device->dir_fd >= 0)
		close(device->dir_fd);
	device->dir_fd = fd;
	lw_device_set_number(device, &device->mtu_bytes, file_number(fd, "mtu"));
	speed_mbit = file_number(fd, "speed");
	lw_device_set_number(device, &device->speed_bytes_per_s,
		speed_mbit > 0 && speed_mbit < INT32_MAX ? speed_mbit * MBIT_BYTES_PER_S : -1);
	if (lw_sysfs_driver(fd, "device/driver", driver, sizeof(driver)))
		lw_device_set(device, device->driver, sizeof(device->driver), driver);
	read_files(samplers, device);
}

void lw_sample_nic(struct lw_samplers *samplers)
{
	if (samplers->options.sysfs_root) {
		uint64_t key = samplers->namespaces.n ? samplers->namespaces.at[0]->key : 0;

		samplers->pass++;
		if (lw_sysfs_list(samplers, "class/net", sample_folder) < 0)
			lw_samplers_trouble(samplers, "%s/class/net: cannot be read",
				samplers->options.sysfs_root);
		lw_devices_sweep(samplers, LW_DEVICE_NIC, key, samplers->pass);
		return;
	}
	for (size_t i = 0; i < samplers->namespaces.n; i++)
		if (samplers->namespaces.at[i]->sockets.route_fd >= 0)
			sample_namespace(samplers, samplers->namespaces.at[i]);
}
