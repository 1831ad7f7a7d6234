/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/netlink.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sock_diag.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"

#define GROUP(number) (1u << ((number)-1))
enum { NOTIFY_BUFFER_BYTES = 4 << 20, PATIENCE_S = 1 };

static void namespace_path(pid_t pid, char *path, size_t path_bytes)
{
	if (pid)
		snprintf(path, path_bytes, "/proc/%d/ns/net", (int)pid);
	else
		snprintf(path, path_bytes, "/proc/self/ns/net");
}

uint64_t lw_netns_key(pid_t pid)
{
	char path[64];
	struct stat st;

	namespace_path(pid, path, sizeof(path));
	return stat(path, &st) == 0 ? (uint64_t)st.st_ino : 0;
}

static int open_socket(int protocol, unsigned groups)
{
	struct sockaddr_nl address = {.nl_family = AF_NETLINK, .nl_groups = groups};
	const struct timeval patience = {.tv_sec = PATIENCE_S};
	const int bytes = NOTIFY_BUFFER_BYTES;
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol);

	if (fd < 0)
		return -1;
	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes)) < 0)
		setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	if (bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0) {
		close(fd);
		return -1;
	}
	return fd;
}

/* The netlink ones. */
static const struct socket_kind {
	size_t offset;
	int protocol;
	unsigned groups;
	const char *what;
} kinds[] = {
	{offsetof(struct lw_netns_sockets, route_fd), NETLINK_ROUTE, 0, "interfaces"},
	{offsetof(struct lw_netns_sockets, notify_fd), NETLINK_ROUTE,
		GROUP(RTNLGRP_LINK) | GROUP(RTNLGRP_IPV4_IFADDR) | GROUP(RTNLGRP_IPV6_IFADDR),
		"interfaces that come and go"},
	{offsetof(struct lw_netns_sockets, diag_fd), NETLINK_SOCK_DIAG, 0, "TCP connections"},
	{offsetof(struct lw_netns_sockets, ended_fd), NETLINK_SOCK_DIAG,
		GROUP(SKNLGRP_INET_TCP_DESTROY) | GROUP(SKNLGRP_INET6_TCP_DESTROY),
		"ends of TCP connections"},
};
enum { N_KINDS = sizeof(kinds) / sizeof(kinds[0]) };

static int *fd_of(struct lw_netns_sockets *sockets, size_t kind)
{
	return (int *)(void *)((char *)sockets + kinds[kind].offset);
}

static void add_missing(struct lw_netns_sockets *sockets, const char *what)
{
	size_t n = strlen(sockets->missing);

	snprintf(sockets->missing + n, sizeof(sockets->missing) - n, "%s%s (%s)", n ? ", " : "",
		what, strerror(errno));
}

static void open_sockets(struct lw_netns_sockets *sockets)
{
	for (size_t i = 0; i < N_KINDS; i++) {
		int *fd = fd_of(sockets, i);

		*fd = open_socket(kinds[i].protocol, kinds[i].groups);
		if (*fd < 0)
			add_missing(sockets, kinds[i].what);
	}
	sockets->ioctl_fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (sockets->ioctl_fd < 0)
		add_missing(sockets, "ethtool");
}

struct visit {
	pid_t pid;
	int error; /* errno of entering it */
	struct lw_netns_sockets *sockets;
};

static void *visit_namespace(void *data)
{
	struct visit *visit = data;
	char path[64];
	int fd;

	namespace_path(visit->pid, path, sizeof(path));
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || setns(fd, CLONE_NEWNET) < 0)
		visit->error = errno;
	else
		open_sockets(visit->sockets);
	if (fd >= 0)
		close(fd);
	return NULL;
}

int lw_netns_open(pid_t pid, struct lw_netns_sockets *ret_sockets)
{
	struct visit visit = {pid, 0, ret_sockets};
	pthread_t thread;

	*ret_sockets = (struct lw_netns_sockets){-1, -1, -1, -1, -1, ""};
	if (!pid || lw_netns_key(pid) == lw_netns_key(0)) {
		open_sockets(ret_sockets);
	} else {
		if (pthread_create(&thread, NULL, visit_namespace, &visit) != 0)
			return lw_fail(LW_ERR_NOMEM, "no thread to enter a network namespace");
		pthread_join(thread, NULL);
	}
	if (visit.error)
		return lw_fail(LW_ERR_UNSUPPORTED,
			"the network namespace of pid %d cannot be entered: %s%s", (int)pid,
			strerror(visit.error),
			visit.error == EPERM || visit.error == EACCES
				? " (it takes CAP_SYS_ADMIN: record as root, or from inside that namespace)"
				: "");
	if (ret_sockets->route_fd < 0 && ret_sockets->diag_fd < 0)
		return lw_fail(LW_ERR_IO, "netlink: %s", ret_sockets->missing);
	return LW_OK;
}

bool lw_netns_may_enter(void)
{
	struct lw_netns_sockets sockets = {-1, -1, -1, -1, -1, ""};
	struct visit visit = {0, 0, &sockets};
	pthread_t thread;

	/* Its own needs the same right. */
	if (pthread_create(&thread, NULL, visit_namespace, &visit) != 0)
		return false;
	pthread_join(thread, NULL);
	lw_netns_close(&sockets);
	return !visit.error;
}

void lw_netns_close(struct lw_netns_sockets *sockets)
{
	for (size_t i = 0; i <= N_KINDS; i++) {
		int *fd = i < N_KINDS ? fd_of(sockets, i) : &sockets->ioctl_fd;

		if (*fd >= 0)
			close(*fd);
		*fd = -1;
	}
}

/* Only the kernel may answer. Return: bytes, 0 = not from it, < 0 with errno. */
static ssize_t receive(int fd, char *buffer, int flags)
{
	struct sockaddr_nl from;
	socklen_t from_bytes = sizeof(from);
	ssize_t n;

	do {
		n = recvfrom(fd, buffer, LW_NETLINK_BUFFER_BYTES, flags, (struct sockaddr *)&from,
			&from_bytes);
	} while (n < 0 && errno == EINTR);
	return n > 0 && from.nl_pid != 0 ? 0 : n;
}

int lw_netlink_dump(int fd, struct nlmsghdr *request, char *buffer, lw_netlink_fn each, void *user)
{
	static uint32_t sequence;
	ssize_t n;

	request->nlmsg_seq = ++sequence;
	request->nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
	if (send(fd, request, request->nlmsg_len, 0) < 0)
		return lw_fail(LW_ERR_IO, "netlink: %s", strerror(errno));
	while ((n = receive(fd, buffer, 0)) >= 0) {
		struct nlmsghdr *message = (struct nlmsghdr *)buffer;
		int left = (int)n; /* NLMSG_NEXT may go below 0 */

		for (; lw_netlink_is_whole(message, left); message = NLMSG_NEXT(message, left)) {
			if (message->nlmsg_seq != request->nlmsg_seq)
				continue; /* of a dump that was given up */
			if (message->nlmsg_type == NLMSG_DONE)
				return LW_OK;
			if (message->nlmsg_type == NLMSG_ERROR) {
				struct nlmsgerr *error = NLMSG_DATA(message);

				return lw_fail(LW_ERR_IO, "netlink: %s",
					message->nlmsg_len >= NLMSG_LENGTH(sizeof(*error))
						? strerror(-error->error)
						: "refused");
			}
			each(user, message);
		}
	}
	return lw_fail(LW_ERR_IO, "netlink: %s", strerror(errno));
}

int lw_netlink_take(int fd, char *buffer, lw_netlink_fn each, void *user)
{
	bool has_lost = false;
	ssize_t n;

	while (fd >= 0 && ((n = receive(fd, buffer, MSG_DONTWAIT)) >= 0 || errno == ENOBUFS)) {
		struct nlmsghdr *message = (struct nlmsghdr *)buffer;
		int left = n > 0 ? (int)n : 0;

		has_lost |= n < 0;
		for (; lw_netlink_is_whole(message, left); message = NLMSG_NEXT(message, left))
			each(user, message);
	}
	return has_lost ? LW_ERR_LIMIT : LW_OK;
}

const void *lw_netlink_attribute(
	const void *at, size_t n_bytes, unsigned type, size_t min_bytes, size_t *ret_bytes)
{
	struct rtattr *attribute =
		(struct rtattr *)(uintptr_t)at; /* only read; its macros take no const */
	int left = n_bytes < LW_NETLINK_BUFFER_BYTES ? (int)n_bytes : LW_NETLINK_BUFFER_BYTES;

	for (; RTA_OK(attribute, left); attribute = RTA_NEXT(attribute, left)) {
		if ((attribute->rta_type & NLA_TYPE_MASK) != type ||
			RTA_PAYLOAD(attribute) < min_bytes)
			continue;
		if (ret_bytes)
			*ret_bytes = RTA_PAYLOAD(attribute);
		return RTA_DATA(attribute);
	}
	return NULL;
}
