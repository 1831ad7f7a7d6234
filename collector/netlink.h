/* SPDX-License-Identifier: Apache-2.0 */
/*
 * netlink.h - ask the kernel over netlink sockets that belong to one network namespace.
 *
 * A socket stays in the namespace it was made in: lw_netns_open() enters that of another process for as
 * long as it takes to make them, in a thread of its own, so that the collector itself never leaves.
 */
#ifndef LAPWING_COLLECTOR_NETLINK_H
#define LAPWING_COLLECTOR_NETLINK_H

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { LW_NETLINK_BUFFER_BYTES = 1 << 16 };

/* The sockets of one namespace; -1 = not open. */
struct lw_netns_sockets {
	int route_fd;      /* links, addresses, statistics */
	int notify_fd;     /* says when those change */
	int diag_fd;       /* TCP connections */
	int ended_fd;      /* says when one ends */
	int ioctl_fd;      /* ethtool */
	char missing[256]; /* which cannot be opened, and why; "" = none */
};

/** lw_netns_key() - inode of the namespace of @pid (0: own). Return: key, 0 = cannot be seen. */
uint64_t lw_netns_key(pid_t pid);

/**
 * lw_netns_open() - make the sockets in the namespace of @pid (0: own).
 * Return: LW_OK (some may be missing), LW_ERR_UNSUPPORTED: that namespace may not be entered, LW_ERR_IO.
 */
int lw_netns_open(pid_t pid, struct lw_netns_sockets *ret_sockets);
void lw_netns_close(struct lw_netns_sockets *sockets);

/** lw_netns_may_enter() - may this process enter network namespaces of others (CAP_SYS_ADMIN)? */
bool lw_netns_may_enter(void);

typedef void (*lw_netlink_fn)(void *user, struct nlmsghdr *message);

/**
 * lw_netlink_dump() - send @request and call @each for every message of the answer.
 * @buffer: LW_NETLINK_BUFFER_BYTES of scratch
 * Return: LW_OK, LW_ERR_IO (refused, or no answer within a second).
 */
int lw_netlink_dump(int fd, struct nlmsghdr *request, char *buffer, lw_netlink_fn each, void *user);

/**
 * lw_netlink_take() - call @each for every message that waits, never waits itself.
 * Return: LW_OK, LW_ERR_LIMIT: some were lost because the socket was full.
 */
int lw_netlink_take(int fd, char *buffer, lw_netlink_fn each, void *user);

/** lw_netlink_is_whole() - NLMSG_OK for a signed rest, which NLMSG_NEXT may take below 0. */
static inline bool lw_netlink_is_whole(const struct nlmsghdr *message, int left)
{
	return left >= (int)sizeof(*message) && message->nlmsg_len >= sizeof(*message) &&
	       message->nlmsg_len <= (unsigned)left;
}

/**
 * lw_netlink_attribute() - payload of attribute @type (nested flag ignored) among @n_bytes at @at.
 * Return: it, or NULL when there is none of at least @min_bytes.
 */
const void *lw_netlink_attribute(
	const void *at, size_t n_bytes, unsigned type, size_t min_bytes, size_t *ret_bytes);

#endif /* LAPWING_COLLECTOR_NETLINK_H */
