/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mpi_calls.c - calls every hooked MPI function and prints, in the order in which they complete, what a
 * tracer must have seen: "coll NAME sent received flags root" or "send|recv bytes peer tag flags".
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NB = 1, PS = 2, INPL = 4 }; /* enum lw_coll_flag */
enum { MAX = 4096 };

static int rank, size;
static double sb[MAX], rb[MAX];
static int counts[64], offsets[64], rcounts[64], roffsets[64];

static void coll(const char *name, long sent, long received, int flags, int root)
{
	printf("%d coll %s %ld %ld %d %d\n", rank, name, sent, received, flags, root);
}

static void message(const char *which, long bytes, int peer, int tag, int flags)
{
	printf("%d %s %ld %d %d %d\n", rank, which, bytes, peer, tag, flags);
}

/* Sums over ranks of 8-byte counts: counts[i] = i + 1 for sends, rank + 1 from everyone for receives. */
static long sum_counts(void)
{
	long n = 0;

	for (int i = 0; i < size; i++)
		n += counts[i];
	return 8 * n;
}

#define ON_ROOT(root, value) (rank == (root) ? (long)(value) : 0L)

static void blocking(MPI_Comm comm)
{
	MPI_Datatype types[64];
	long all = sum_counts();

	for (int i = 0; i < size; i++)
		types[i] = MPI_DOUBLE;
	MPI_Barrier(comm);
	coll("barrier", 0, 0, 0, -1);
	MPI_Allreduce(sb, rb, 10, MPI_DOUBLE, MPI_SUM, comm);
	coll("allreduce", 80, 80, 0, -1);
	MPI_Allreduce(MPI_IN_PLACE, rb, 7, MPI_INT, MPI_BAND, comm);
	coll("allreduce", 28, 28, INPL, -1);
	MPI_Reduce(sb, rb, 11, MPI_DOUBLE, MPI_SUM, 1, comm);
	coll("reduce", 88, ON_ROOT(1, 88), 0, 1);
	MPI_Bcast(sb, 12, MPI_FLOAT, 0, comm);
	coll("broadcast", ON_ROOT(0, 48), 48 - ON_ROOT(0, 48), 0, 0);
	/* a root's arguments mean nothing elsewhere: pass nonsense there */
	MPI_Gather(sb, 3, MPI_DOUBLE, rb, rank == 1 ? 3 : -99,
		rank == 1 ? MPI_DOUBLE : MPI_DATATYPE_NULL, 1, comm);
	coll("gather", 24, ON_ROOT(1, 24 * size), 0, 1);
	MPI_Gather(rank == 0 ? MPI_IN_PLACE : sb, 3, MPI_DOUBLE, rb, 3, MPI_DOUBLE, 0, comm);
	coll("gather", 24, ON_ROOT(0, 24 * size), rank == 0 ? INPL : 0, 0);
	MPI_Gatherv(sb, rank + 1, MPI_DOUBLE, rb, rank == 0 ? counts : NULL,
		rank == 0 ? offsets : NULL, MPI_DOUBLE, 0, comm);
	coll("gather", 8 * (rank + 1), ON_ROOT(0, all), 0, 0);
	MPI_Scatter(rank == 0 ? sb : NULL, 5, MPI_DOUBLE, rank == 0 ? MPI_IN_PLACE : rb, 5,
		MPI_DOUBLE, 0, comm);
	coll("scatter", ON_ROOT(0, 40 * size), 40, rank == 0 ? INPL : 0, 0);
	MPI_Scatterv(sb, rank == 1 ? counts : NULL, rank == 1 ? offsets : NULL, MPI_DOUBLE, rb,
		rank + 1, MPI_DOUBLE, 1, comm);
	coll("scatter", ON_ROOT(1, all), 8 * (rank + 1), 0, 1);
	MPI_Allgather(sb, 2, MPI_DOUBLE, rb, 2, MPI_DOUBLE, comm);
	coll("allgather", 16, 16 * size, 0, -1);
	MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, rb, 2, MPI_DOUBLE, comm);
	coll("allgather", 16, 16 * size, INPL, -1);
	MPI_Allgatherv(sb, rank + 1, MPI_DOUBLE, rb, counts, offsets, MPI_DOUBLE, comm);
	coll("allgather", 8 * (rank + 1), all, 0, -1);
	MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, rb, counts, offsets, MPI_DOUBLE, comm);
	coll("allgather", 8 * (rank + 1), all, INPL, -1);
	MPI_Alltoall(sb, 2, MPI_DOUBLE, rb, 2, MPI_DOUBLE, comm);
	coll("alltoall", 16 * size, 16 * size, 0, -1);
	MPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, rb, 2, MPI_DOUBLE, comm);
	coll("alltoall", 16 * size, 16 * size, INPL, -1);
	MPI_Alltoallv(sb, counts, offsets, MPI_DOUBLE, rb, rcounts, roffsets, MPI_DOUBLE, comm);
	coll("alltoall", all, 8L * size * (rank + 1), 0, -1);
	MPI_Alltoallw(sb, counts, offsets, types, rb, rcounts, roffsets, types, comm);
	coll("alltoall", all, 8L * size * (rank + 1), 0, -1);
	MPI_Reduce_scatter(sb, rb, counts, MPI_DOUBLE, MPI_SUM, comm);
	coll("reducescatter", all, 8 * (rank + 1), 0, -1);
	MPI_Reduce_scatter_block(sb, rb, 3, MPI_DOUBLE, MPI_SUM, comm);
	coll("reducescatter", 24 * size, 24, 0, -1);
	MPI_Scan(sb, rb, 4, MPI_DOUBLE, MPI_SUM, comm);
	coll("scan", 32, 32, 0, -1);
	MPI_Exscan(sb, rb, 4, MPI_DOUBLE, MPI_SUM, comm);
	coll("scan", 32, rank == 0 ? 0 : 32, 0, -1);
}

static void nonblocking(MPI_Comm comm)
{
	MPI_Datatype types[64];
	long all = sum_counts();
	MPI_Request request;

	for (int i = 0; i < size; i++)
		types[i] = MPI_DOUBLE;
#define DONE(...)                                                                                  \
	MPI_Wait(&request, MPI_STATUS_IGNORE);                                                     \
	coll(__VA_ARGS__)
	MPI_Ibarrier(comm, &request);
	DONE("barrier", 0, 0, NB, -1);
	MPI_Iallreduce(sb, rb, 10, MPI_DOUBLE, MPI_SUM, comm, &request);
	DONE("allreduce", 80, 80, NB, -1);
	MPI_Ireduce(sb, rb, 11, MPI_DOUBLE, MPI_SUM, 1, comm, &request);
	DONE("reduce", 88, ON_ROOT(1, 88), NB, 1);
	MPI_Ibcast(sb, 12, MPI_FLOAT, 0, comm, &request);
	DONE("broadcast", ON_ROOT(0, 48), 48 - ON_ROOT(0, 48), NB, 0);
	MPI_Igather(sb, 3, MPI_DOUBLE, rb, 3, MPI_DOUBLE, 1, comm, &request);
	DONE("gather", 24, ON_ROOT(1, 24 * size), NB, 1);
	MPI_Igatherv(sb, rank + 1, MPI_DOUBLE, rb, counts, offsets, MPI_DOUBLE, 0, comm, &request);
	DONE("gather", 8 * (rank + 1), ON_ROOT(0, all), NB, 0);
	MPI_Iscatter(sb, 5, MPI_DOUBLE, rb, 5, MPI_DOUBLE, 0, comm, &request);
	DONE("scatter", ON_ROOT(0, 40 * size), 40, NB, 0);
	MPI_Iscatterv(sb, counts, offsets, MPI_DOUBLE, rb, rank + 1, MPI_DOUBLE, 1, comm, &request);
	DONE("scatter", ON_ROOT(1, all), 8 * (rank + 1), NB, 1);
	MPI_Iallgather(sb, 2, MPI_DOUBLE, rb, 2, MPI_DOUBLE, comm, &request);
	DONE("allgather", 16, 16 * size, NB, -1);
	MPI_Iallgatherv(sb, rank + 1, MPI_DOUBLE, rb, counts, offsets, MPI_DOUBLE, comm, &request);
	DONE("allgather", 8 * (rank + 1), all, NB, -1);
	MPI_Ialltoall(sb, 2, MPI_DOUBLE, rb, 2, MPI_DOUBLE, comm, &request);
	DONE("alltoall", 16 * size, 16 * size, NB, -1);
	MPI_Ialltoallv(
		sb, counts, offsets, MPI_DOUBLE, rb, rcounts, roffsets, MPI_DOUBLE, comm, &request);
	DONE("alltoall", all, 8L * size * (rank + 1), NB, -1);
	MPI_Ialltoallw(sb, counts, offsets, types, rb, rcounts, roffsets, types, comm, &request);
	DONE("alltoall", all, 8L * size * (rank + 1), NB, -1);
	MPI_Ireduce_scatter(sb, rb, counts, MPI_DOUBLE, MPI_SUM, comm, &request);
	DONE("reducescatter", all, 8 * (rank + 1), NB, -1);
	MPI_Ireduce_scatter_block(sb, rb, 3, MPI_DOUBLE, MPI_SUM, comm, &request);
	DONE("reducescatter", 24 * size, 24, NB, -1);
	MPI_Iscan(sb, rb, 4, MPI_DOUBLE, MPI_SUM, comm, &request);
	DONE("scan", 32, 32, NB, -1);
	MPI_Iexscan(sb, rb, 4, MPI_DOUBLE, MPI_SUM, comm, &request);
	DONE("scan", 32, rank == 0 ? 0 : 32, NB, -1);
}

#ifdef OPEN_MPI
#include <mpi-ext.h>
#define PERSISTENT(name) MPIX_##name
#else
#define PERSISTENT(name) MPI_##name
#endif

static void persistent(MPI_Comm comm)
{
	MPI_Request requests[2];

	PERSISTENT(Allreduce_init)
	(sb, rb, 6, MPI_DOUBLE, MPI_SUM, comm, MPI_INFO_NULL, &requests[0]);
	PERSISTENT(Bcast_init)(sb + 64, 5, MPI_DOUBLE, 1, comm, MPI_INFO_NULL, &requests[1]);
	for (int i = 0; i < 3; i++) {
		MPI_Startall(2, requests);
		MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
		coll("allreduce", 48, 48, NB | PS, -1);
		coll("broadcast", ON_ROOT(1, 40), 40 - ON_ROOT(1, 40), NB | PS, 1);
	}
	MPI_Start(&requests[0]);
	for (int flag = 0; !flag;)
		MPI_Test(&requests[0], &flag, MPI_STATUS_IGNORE);
	coll("allreduce", 48, 48, NB | PS, -1);
	MPI_Request_free(&requests[0]);
	MPI_Request_free(&requests[1]);
}

static void neighborhood(void)
{
	int dims[1] = {0}, periods[1] = {1}, left = (rank + size - 1) % size,
	    right = (rank + 1) % size;
	int two[2] = {1, 2}, zero[2] = {0, 8};
	MPI_Comm cart, graph;
	MPI_Request request;

	MPI_Dims_create(size, 1, dims);
	MPI_Cart_create(MPI_COMM_WORLD, 1, dims, periods, 0, &cart);
	MPI_Neighbor_allgather(sb, 2, MPI_DOUBLE, rb, 2, MPI_DOUBLE, cart);
	coll("neighbor_allgather", 16, 32, 0, -1);
	MPI_Neighbor_alltoall(sb, 2, MPI_DOUBLE, rb, 2, MPI_DOUBLE, cart);
	coll("neighbor_alltoall", 32, 32, 0, -1);
	MPI_Ineighbor_alltoall(sb, 2, MPI_DOUBLE, rb, 2, MPI_DOUBLE, cart, &request);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
	coll("neighbor_alltoall", 32, 32, NB, -1);
	/* everyone sends to its right only */
	MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &left, MPI_UNWEIGHTED, 1, &right,
		MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &graph);
	MPI_Neighbor_allgatherv(sb, 1, MPI_DOUBLE, rb, two, zero, MPI_DOUBLE, graph);
	coll("neighbor_allgather", 8, 8, 0, -1);
	MPI_Neighbor_alltoallv(sb, two, zero, MPI_DOUBLE, rb, two, zero, MPI_DOUBLE, graph);
	coll("neighbor_alltoall", 8, 8, 0, -1);
	MPI_Comm_free(&graph);
	MPI_Comm_free(&cart);
}

/* In pairs 0-1, 2-3: rank 0 and 2 send first. */
static void messages(MPI_Comm comm)
{
	int peer = rank ^ 1, flag, index;
	MPI_Request requests[3], persistent[2];
	MPI_Message matched;
	MPI_Status status, statuses[3];
	char *room = malloc(1 << 20);

	memset(room, 0, 1 << 20);
	if (peer < size) {
		if (rank < peer) {
			MPI_Send(sb, 10, MPI_DOUBLE, peer, 1, comm);
			message("send", 80, peer, 1, 0);
			MPI_Ssend(sb, 11, MPI_DOUBLE, peer, 2, comm);
			message("send", 88, peer, 2, 0);
			MPI_Send(sb, 3, MPI_INT, peer, 3, comm);
			message("send", 12, peer, 3, 0);
			MPI_Issend(room, 1 << 19, MPI_CHAR, peer, 4, comm, &requests[0]);
			MPI_Issend(sb, 4, MPI_DOUBLE, peer, 5, comm, &requests[1]);
			MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
			MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
			message("send", 1 << 19, peer, 4, NB);
			message("send", 32, peer, 5, NB);
			MPI_Send_init(room, 1 << 18, MPI_CHAR, peer, 6, comm, &persistent[0]);
		} else {
			MPI_Recv(rb, 100, MPI_DOUBLE, peer, 1, comm, &status);
			message("recv", 80, peer, 1, 0);
			MPI_Recv(rb, 100, MPI_DOUBLE, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &status);
			message("recv", 88, peer, 2, 0);
			MPI_Recv(rb, 100, MPI_INT, peer, 3, comm,
				MPI_STATUS_IGNORE); /* room offered: 400 */
			message("recv", 400, peer, 3, 0);
			MPI_Irecv(room, 1 << 20, MPI_CHAR, MPI_ANY_SOURCE, 4, comm, &requests[0]);
			MPI_Irecv(rb, 10, MPI_DOUBLE, peer, 5, comm, &requests[1]);
			requests[2] = MPI_REQUEST_NULL;
			MPI_Waitall(3, requests, statuses);
			message("recv", 1 << 19, peer, 4, NB);
			message("recv", 32, peer, 5, NB);
			MPI_Recv_init(room, 1 << 20, MPI_CHAR, peer, 6, comm, &persistent[0]);
		}
		for (int i = 0; i < 2; i++) {
			MPI_Start(&persistent[0]);
			MPI_Waitany(1, persistent, &index, &status);
			message(rank < peer ? "send" : "recv", 1 << 18, peer, 6, NB | PS);
		}
		MPI_Request_free(&persistent[0]);
		MPI_Sendrecv(
			sb, 5, MPI_DOUBLE, peer, 7, rb, 50, MPI_DOUBLE, peer, 7, comm, &status);
		message("send", 40, peer, 7, 0);
		message("recv", 40, peer, 7, 0);
		MPI_Sendrecv_replace(sb, 6, MPI_DOUBLE, peer, 8, peer, 8, comm, &status);
		message("send", 48, peer, 8, 0);
		message("recv", 48, peer, 8, 0);
		/* a matched probe: its receive does not say in which communicator */
		if (rank < peer) {
			MPI_Send(sb, 9, MPI_DOUBLE, peer, 9, comm);
			message("send", 72, peer, 9, 0);
		} else {
			MPI_Mprobe(peer, 9, comm, &matched, &status);
			MPI_Mrecv(rb, 9, MPI_DOUBLE, &matched, &status);
			message("recv", 72, peer, 9, 0);
		}
		/* some and any, receives posted in the opposite order */
		if (rank < peer) {
			for (int i = 0; i < 3; i++) {
				MPI_Ssend(sb, i + 1, MPI_DOUBLE, peer, 20 + i, comm);
				message("send", 8 * (i + 1), peer, 20 + i, 0);
			}
		} else {
			int n, indices[3], left = 3;

			for (int i = 0; i < 3; i++)
				MPI_Irecv(rb + 10 * i, 10, MPI_DOUBLE, peer, 22 - i, comm,
					&requests[i]);
			MPI_Testany(3, requests, &index, &flag, &status);
			if (flag) {
				message("recv", 8 * (3 - index), peer, 22 - index, NB);
				left--;
			}
			while (left) {
				MPI_Waitsome(3, requests, &n, indices, statuses);
				left -= n;
				/* recorded in the order of the array */
				for (int at = 0; at < 3; at++)
					for (int i = 0; i < n; i++)
						if (indices[i] == at)
							message("recv", 8 * (3 - at), peer, 22 - at,
								NB);
			}
		}
	}
	/* to nobody: no message */
	MPI_Send(sb, 5, MPI_DOUBLE, MPI_PROC_NULL, 1, comm);
	MPI_Irecv(rb, 5, MPI_DOUBLE, MPI_PROC_NULL, 1, comm, &requests[0]);
	MPI_Wait(&requests[0], &status);
	free(room);
}

/* More requests than any buffer of a tracer holds, completed by one call. */
static void many_requests(MPI_Comm comm)
{
	enum { N = 3000 };
	static MPI_Request requests[2 * N];
	static int values[2 * N];
	int peer = rank ^ 1, flag = 0;

	if (peer >= size)
		return;
	for (int i = 0; i < N; i++)
		MPI_Irecv(&values[i], 1, MPI_INT, peer, i, comm, &requests[i]);
	for (int i = 0; i < N; i++)
		MPI_Isend(&values[N + i], 1, MPI_INT, peer, i, comm, &requests[N + i]);
	while (!flag)
		MPI_Testall(2 * N, requests, &flag, MPI_STATUSES_IGNORE);
	printf("%d many %d\n", rank, N);
}

static void derived_types(MPI_Comm comm)
{
	MPI_Datatype type;

	/* the handle of a freed type comes back with another size */
	for (int i = 1; i <= 50; i++) {
		MPI_Type_contiguous(i, MPI_INT, &type);
		MPI_Type_commit(&type);
		MPI_Bcast(sb, 2, type, 0, comm);
		coll("broadcast", ON_ROOT(0, 8 * i), 8 * i - ON_ROOT(0, 8 * i), 0, 0);
		MPI_Type_free(&type);
	}
}

#ifndef OPEN_MPI
static void large_counts(MPI_Comm comm)
{
	MPI_Count lcounts[64];
	MPI_Aint loffsets[64];
	MPI_Request request;

	for (int i = 0; i < size; i++) {
		lcounts[i] = counts[i];
		loffsets[i] = offsets[i];
	}
	MPI_Allreduce_c(sb, rb, 10, MPI_DOUBLE, MPI_SUM, comm);
	coll("allreduce", 80, 80, 0, -1);
	MPI_Allgatherv_c(sb, rank + 1, MPI_DOUBLE, rb, lcounts, loffsets, MPI_DOUBLE, comm);
	coll("allgather", 8 * (rank + 1), sum_counts(), 0, -1);
	MPI_Iallreduce_c(sb, rb, 10, MPI_DOUBLE, MPI_SUM, comm, &request);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
	coll("allreduce", 80, 80, NB, -1);
}
#endif

int main(int argc, char **argv)
{
	MPI_Comm comm;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	for (int i = 0; i < size; i++) {
		counts[i] = i + 1;
		offsets[i] = i ? offsets[i - 1] + 8 * counts[i - 1]
			       : 0; /* bytes in alltoallw, elements else */
		rcounts[i] = rank + 1;
		roffsets[i] = 8 * i * (rank + 1);
	}
	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	blocking(comm);
	nonblocking(comm);
	persistent(comm);
	neighborhood();
	messages(comm);
	derived_types(comm);
#ifndef OPEN_MPI
	large_counts(comm);
#endif
	many_requests(comm);
	MPI_Comm_free(&comm);
	MPI_Finalize();
	return 0;
}
