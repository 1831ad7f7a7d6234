/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verbs_ring.c - a rank of a ring that reduces over RDMA, as a launcher starts it (OMPI_COMM_WORLD_RANK): known bytes.
 *
 *	verbs_ring ADDRESS...	where each rank listens, rank 0 first; their number is the size of the ring
 *
 * Ranks tell each other their queue pairs over TCP. Then each reads READ_BYTES of the next one's memory once, and in each
 * of N_STEPS steps sends 2 (N - 1) pieces of PIECE_BYTES to it.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/e2e/programs/verbs_rig.h"
#include "tracer/lapwing_mark.h"

enum {
	N_STEPS = 12,
	PIECE_BYTES = 16384,
	READ_BYTES = 40000,
	FIRST_PORT = 21000,
	MAX_TRIES = 1200
};

struct hello {
	uint64_t address;
	uint32_t qp, rkey;
	union ibv_gid gid;
};

struct ring {
	struct rig rig;
	struct ibv_qp *next, *previous;
	int next_fd, previous_fd;
	struct hello next_hello;
	int n_sent, n_received; /* completed */
};

static struct sockaddr_in address_of(const char *text, int rank)
{
	struct sockaddr_in address = {
		.sin_family = AF_INET, .sin_port = htons((uint16_t)(FIRST_PORT + rank))};

	must(inet_pton(AF_INET, text, &address.sin_addr) == 1);
	return address;
}

static int connect_to(const char *text, int rank)
{
	struct sockaddr_in address = address_of(text, rank);

	for (int i = 0; i < MAX_TRIES; i++) {
		int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

		if (!connect(fd, (struct sockaddr *)&address, sizeof(address)))
			return fd;
		close(fd);
		usleep(50000);
	}
	must(!"the next rank listens");
	return -1;
}

static void open_sockets(struct ring *ring, char **addresses, int rank, int size)
{
	struct sockaddr_in own = address_of(addresses[rank], rank);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	must(bind(fd, (struct sockaddr *)&own, sizeof(own)) == 0 && listen(fd, 4) == 0);
	ring->next_fd = connect_to(addresses[(rank + 1) % size], (rank + 1) % size);
	ring->previous_fd = accept(fd, NULL, NULL);
	must(ring->previous_fd >= 0);
	close(fd);
}

static void say_hello(const struct ring *ring, const struct ibv_qp *qp, int fd)
{
	const struct hello own = {
		(uintptr_t)ring->rig.buffer, qp->qp_num, ring->rig.mr->rkey, ring->rig.gid};

	must(send(fd, &own, sizeof(own), 0) == sizeof(own));
}

static struct hello hear_hello(int fd)
{
	struct hello peer;

	must(recv(fd, &peer, sizeof(peer), MSG_WAITALL) == sizeof(peer));
	return peer;
}

/* Both neighbours are where this one is. */
static void meet(const struct ring *ring)
{
	char byte = 0;

	must(send(ring->next_fd, &byte, 1, 0) == 1 && send(ring->previous_fd, &byte, 1, 0) == 1);
	must(recv(ring->next_fd, &byte, 1, 0) == 1 && recv(ring->previous_fd, &byte, 1, 0) == 1);
}

static void join(struct ring *ring, int size)
{
	struct hello previous;

	ring->next = rig_qp(&ring->rig, NULL, true);
	ring->previous = rig_qp(&ring->rig, NULL, true);
	say_hello(ring, ring->next, ring->next_fd);
	say_hello(ring, ring->previous, ring->previous_fd);
	ring->next_hello = hear_hello(ring->next_fd);
	previous = hear_hello(ring->previous_fd);
	rig_connect_to(&ring->rig, ring->next, ring->next_hello.qp, &ring->next_hello.gid);
	rig_connect_to(&ring->rig, ring->previous, previous.qp, &previous.gid);
	/* nothing may come before there is a place for it */
	for (int i = 0; i < N_STEPS * 2 * (size - 1); i++)
		rig_post_recv(&ring->rig, ring->previous, (uint64_t)i, PIECE_BYTES);
	meet(ring);
}

static void wait_for(struct ring *ring, int n_sent, int n_received)
{
	while (ring->n_sent < n_sent || ring->n_received < n_received) {
		struct ibv_wc wc;

		rig_poll(&ring->rig, 1, &wc);
		must(wc.status == IBV_WC_SUCCESS);
		if (wc.opcode & IBV_WC_RECV)
			ring->n_received++;
		else
			ring->n_sent++;
	}
}

static void read_next(struct ring *ring)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = rig_wr(&ring->rig, &sge, IBV_WR_RDMA_READ, READ_BYTES);

	wr.wr.rdma.remote_addr = ring->next_hello.address;
	wr.wr.rdma.rkey = ring->next_hello.rkey;
	rig_post_send(ring->next, &wr);
	wait_for(ring, 1, 0);
	meet(ring);
}

int main(int argc, char **argv)
{
	const char *text = getenv("OMPI_COMM_WORLD_RANK");
	struct ring ring = {0};
	int rank = text ? (int)strtol(text, NULL, 10) : 0, size = argc - 1;

	must(size >= 2 && rank < size && N_STEPS * 2 * (size - 1) <= RIG_DEPTH);
	rig_load();
	rig_open(&ring.rig);
	open_sockets(&ring, argv + 1, rank, size);
	join(&ring, size);
	read_next(&ring);
	for (int step = 0; step < N_STEPS; step++) {
		lapwing_mark_step(step);
		for (int i = 0; i < 2 * (size - 1); i++) {
			struct ibv_sge sge;
			struct ibv_send_wr wr = rig_wr(&ring.rig, &sge, IBV_WR_SEND, PIECE_BYTES);

			rig_post_send(ring.next, &wr);
			wait_for(&ring, ring.n_sent + 1, step * 2 * (size - 1) + i + 1);
		}
	}
	meet(&ring);
	printf("rank %d: %d requests sent\n", rank, ring.n_sent);
	must(v.ibv_destroy_qp(ring.next) == 0 && v.ibv_destroy_qp(ring.previous) == 0);
	rig_close(&ring.rig);
	rig_unload();
	return 0;
}
