/* SPDX-License-Identifier: Apache-2.0 */
/* fake_nccl_mesh.c - connections between the ranks of a communicator of the double of libnccl. */
#include "tests/lib/fake_nccl.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct hello { /* from each rank to the root, and back as a table */
	int32_t rank, size, port, reserved;
};

static int write_all(int fd, const void *data, size_t n)
{
	for (const char *at = data; n;) {
		ssize_t part = send(fd, at, n, MSG_NOSIGNAL);

		if (part < 0 && (errno == EAGAIN || errno == EINTR)) {
			poll(&(struct pollfd){fd, POLLOUT, 0}, 1, 1000);
			continue;
		}
		if (part <= 0)
			return -1;
		at += part;
		n -= (size_t)part;
	}
	return 0;
}

static int read_all(int fd, void *data, size_t n)
{
	for (char *at = data; n;) {
		ssize_t part = recv(fd, at, n, 0);

		if (part < 0 && (errno == EAGAIN || errno == EINTR)) {
			poll(&(struct pollfd){fd, POLLIN, 0}, 1, 1000);
			continue;
		}
		if (part <= 0)
			return -1;
		at += part;
		n -= (size_t)part;
	}
	return 0;
}

static int listen_somewhere(int *ret_port)
{
	struct sockaddr_in address = {
		.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t room = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
		listen(fd, 2 * FAKE_RANKS_MAX) < 0 ||
		getsockname(fd, (struct sockaddr *)&address, &room) < 0)
		return -1;
	*ret_port = ntohs(address.sin_port);
	return fd;
}

static int connect_to(int port)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
		.sin_port = htons((uint16_t)port)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

/* ---- the root: hands every rank the ports of all --------------------------------------------------------- */

static void *serve_root(void *argument)
{
	int listener = (int)(intptr_t)argument, fds[FAKE_RANKS_MAX], n = 0, size = 1;
	struct hello table[FAKE_RANKS_MAX] = {0};

	for (n = 0; n < size && n < FAKE_RANKS_MAX; n++) {
		struct hello hello;
		int fd = accept(listener, NULL, NULL);

		if (fd < 0 || read_all(fd, &hello, sizeof(hello)) < 0 || hello.rank < 0 ||
			hello.rank >= FAKE_RANKS_MAX)
			break;
		size = hello.size;
		table[hello.rank] = hello;
		fds[n] = fd;
	}
	for (int i = 0; i < n; i++) {
		write_all(fds[i], table, sizeof(table));
		close(fds[i]);
	}
	close(listener);
	return NULL;
}

int fake_root_start(struct fake_id *id)
{
	int port = 0, listener = listen_somewhere(&port), random;
	pthread_t thread;

	memset(id, 0, sizeof(*id));
	random = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
	if (random < 0 || read(random, id->bytes + 16, 16) != 16 || listener < 0)
		return -1;
	close(random);
	memcpy(id->bytes, &port, sizeof(port));
	if (pthread_create(&thread, NULL, serve_root, (void *)(intptr_t)listener) != 0)
		return -1;
	pthread_detach(thread);
	return 0;
}

/* ---- one connection to each rank, for each channel ------------------------------------------------------------ */

static int mesh(struct fake_comm *comm, const struct hello *table)
{
	for (int channel = 0; channel < fake_n_channels; channel++) {
		for (int peer = comm->rank + 1; peer < comm->size; peer++) {
			struct hello hello = {.rank = comm->rank, .reserved = channel};
			int fd = connect_to(table[peer].port);

			if (fd < 0 || write_all(fd, &hello, sizeof(hello)) < 0)
				return -1;
			comm->fd[channel][peer] = fd;
		}
	}
	for (int i = 0; i < comm->rank * fake_n_channels; i++) {
		struct hello hello;
		int fd = accept(comm->listener, NULL, NULL);

		if (fd < 0 || read_all(fd, &hello, sizeof(hello)) < 0)
			return -1;
		comm->fd[hello.reserved][hello.rank] = fd;
	}
	for (int channel = 0; channel < fake_n_channels; channel++) {
		for (int peer = 0; peer < comm->size; peer++) {
			int fd = comm->fd[channel][peer], on = 1;

			if (peer == comm->rank)
				continue;
			setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
			fcntl(fd, F_SETFL, O_NONBLOCK);
		}
	}
	close(comm->listener);
	comm->listener = -1;
	return 0;
}

int fake_mesh_make(struct fake_comm *comm, const struct fake_id *id)
{
	struct hello table[FAKE_RANKS_MAX], hello = {.rank = comm->rank, .size = comm->size};
	int port, root;

	comm->listener = listen_somewhere(&hello.port);
	memcpy(&port, id->bytes, sizeof(port));
	root = connect_to(port);
	if (comm->listener < 0 || root < 0 || write_all(root, &hello, sizeof(hello)) < 0 ||
		read_all(root, table, sizeof(table)) < 0)
		return -1;
	close(root);
	return mesh(comm, table);
}

struct split {
	int32_t rank, color, key, port;
};

static int by_key(const void *a, const void *b)
{
	const struct split *x = a, *y = b;

	return x->key != y->key ? x->key - y->key : x->rank - y->rank;
}

/* Everybody of @parent calls it, nothing is under way there. comm->size 0 = none for this rank. */
int fake_mesh_split(struct fake_comm *comm, struct fake_comm *parent, int color, int key)
{
	struct split all[FAKE_RANKS_MAX], own = {.rank = parent->rank, .color = color, .key = key};
	struct hello table[FAKE_RANKS_MAX] = {0};
	int n = 0;

	comm->listener = listen_somewhere(&own.port);
	for (int peer = 0; peer < parent->size; peer++)
		if (peer != parent->rank && write_all(parent->fd[0][peer], &own, sizeof(own)) < 0)
			return -1;
	for (int peer = 0; peer < parent->size; peer++) {
		struct split other = own;

		if (peer != parent->rank &&
			read_all(parent->fd[0][peer], &other, sizeof(other)) < 0)
			return -1;
		if (other.color == color)
			all[n++] = other;
	}
	qsort(all, (size_t)n, sizeof(all[0]), by_key);
	comm->size = color < 0 ? 0 : n;
	for (int i = 0; i < n; i++) {
		table[i].port = all[i].port;
		if (all[i].rank == parent->rank)
			comm->rank = i;
	}
	return color < 0 ? 0 : mesh(comm, table);
}

void fake_mesh_close(struct fake_comm *comm)
{
	for (int channel = 0; channel < fake_n_channels; channel++)
		for (int peer = 0; peer < comm->size; peer++)
			if (peer != comm->rank && comm->fd[channel][peer] > 0)
				close(comm->fd[channel][peer]);
	if (comm->listener > 0)
		close(comm->listener);
}
