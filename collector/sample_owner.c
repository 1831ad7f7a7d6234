/* SPDX-License-Identifier: Apache-2.0 */
/* sample_owner.c - whose socket: the descriptors of a process, as links in /proc/PID/fd. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "collector/sample_tcp.h"

enum { DESCRIPTORS_MAX = 1 << 17 };

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

int lw_owner_scan(int32_t pid, void (*each)(void *user, uint64_t inode), void *user)
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
		each(user, inode);
	}
	closedir(listing);
	return n_sockets;
}
