/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sample_owner.c - whose connection: the process by its descriptors (links in /proc/PID/fd), the interface by
 * the local address.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <uthash.h>

#include "base/address.h"
#include "collector/sample_tcp.h"

enum { DESCRIPTORS_MAX = 1 << 17, INODES_MAX = 1 << 17 };

struct lw_owned {
	uint64_t inode;
	int64_t process_id;
	UT_hash_handle hh;
};

int64_t lw_owner_find(const struct lw_owned *owned, uint64_t inode)
{
	struct lw_owned *one = NULL;

	if (inode)
		HASH_FIND(hh, owned, &inode, sizeof(inode), one);
	return one ? one->process_id : 0;
}

static void note_inode(struct lw_owned **owned, uint64_t inode, int64_t process_id)
{
	struct lw_owned *one;

	/* One that parent and child have open: whoever was recorded first. */
	if (lw_owner_find(*owned, inode) || HASH_COUNT(*owned) >= INODES_MAX)
		return;
	one = calloc(1, sizeof(*one));
	if (!one)
		return;
	one->inode = inode;
	one->process_id = process_id;
	HASH_ADD(hh, *owned, inode, sizeof(one->inode), one);
}

void lw_owner_forget(struct lw_owned **owned)
{
	struct lw_owned *one, *next;

	HASH_ITER(hh, *owned, one, next)
	{
		HASH_DEL(*owned, one);
		free(one);
	}
}

uint64_t lw_owner_inode(const char *link)
{
	static const char prefix[] = "socket:[";
	const char *at = link + sizeof(prefix) - 1;
	size_t n;
	uint64_t inode;

	if (strncmp(link, prefix, sizeof(prefix) - 1) != 0)
		return 0;
	n = strlen(at);
	if (n < 2 || at[n - 1] != ']' || lw_sysfs_number(at, n - 1, &inode) < 0)
		return 0;
	return inode;
}

int lw_owner_scan(int32_t pid, int64_t process_id, struct lw_owned **owned)
{
	char path[64], link[64];
	struct dirent *entry;
	DIR *listing;
	int n_seen = 0, n_sockets = 0;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	listing = opendir(path);
	if (!listing)
		return -errno;
	while (n_seen++ < DESCRIPTORS_MAX && (entry = readdir(listing))) {
		ssize_t n = readlinkat(dirfd(listing), entry->d_name, link, sizeof(link) - 1);
		uint64_t inode;

		link[n > 0 ? n : 0] = '\0';
		inode = lw_owner_inode(link);
		if (!inode)
			continue;
		n_sockets++;
		note_inode(owned, inode, process_id);
	}
	closedir(listing);
	return n_sockets;
}

/* ---- which interface ------------------------------------------------------------------------------- */

static bool has_address(const struct lw_device *device, const char *text)
{
	size_t n = strlen(text);

	for (const char *at = device->addresses; (at = strstr(at, text)); at++)
		if ((at == device->addresses || at[-1] == ' ') && (at[n] == ' ' || !at[n]))
			return true;
	return device->is_loopback && !strncmp(text, "127.", 4);
}

/* What goes to an address of the same namespace goes over its loopback, whatever that address is on. */
int64_t lw_owner_device(struct lw_samplers *samplers, const struct lw_tcp_connection_row *row)
{
	char local[INET6_ADDRSTRLEN], peer[INET6_ADDRSTRLEN];
	int64_t device_id = 0, loopback_id = 0;
	bool is_inside = false;

	lw_address_text(row->local, local);
	lw_address_text(row->peer, peer);
	for (size_t i = 0; i < samplers->devices.n; i++) {
		const struct lw_device *device = samplers->devices.at[i];

		if (device->kind != LW_DEVICE_NIC || device->gone_ns ||
			device->namespace_key != row->namespace_key)
			continue;
		if (device->is_loopback)
			loopback_id = device->id;
		if (has_address(device, local))
			device_id = device->id;
		is_inside |= has_address(device, peer);
	}
	return is_inside ? loopback_id : device_id;
}
