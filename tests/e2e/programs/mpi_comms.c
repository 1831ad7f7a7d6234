/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mpi_comms.c - makes communicators in every way and calls one barrier on each; prints, per barrier, a name
 * that is the same on all members and on no other communicator: "RANK comm NAME".
 */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static int rank, size;

static void use(MPI_Comm comm, const char *name, int group)
{
	MPI_Barrier(comm);
	printf("%d comm %s.%d\n", rank, name, group);
	fflush(stdout);
}

/* Two threads make communicators of the same processes at once, each from a parent of its own. */
static void *make_many(void *parent)
{
	MPI_Comm made[20];

	for (int i = 0; i < 20; i++) {
		MPI_Comm_dup(*(MPI_Comm *)parent, &made[i]);
		if (i % 3 == 0) /* freed handles come back for others */
			MPI_Comm_free(&made[i]);
	}
	for (int i = 0; i < 20; i++)
		if (i % 3) {
			MPI_Barrier(made[i]);
			MPI_Comm_free(&made[i]);
		}
	return NULL;
}

int main(int argc, char **argv)
{
	int provided, color, dims[2] = {2, 0}, periods[2] = {0, 0}, remain[2] = {0, 1}, index[64],
			     edges[128];
	MPI_Comm comm, half, other, inter, merged, parents[2];
	MPI_Group world, group;
	MPI_Request request;
	pthread_t threads[2];

	MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	color = rank % 2;
	use(MPI_COMM_WORLD, "world", 0);
	use(MPI_COMM_SELF, "self", rank);
	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	use(comm, "dup", 0);
	MPI_Comm_dup_with_info(MPI_COMM_WORLD, MPI_INFO_NULL, &other);
	use(other, "dup_with_info", 0);
	MPI_Comm_free(&other);
	MPI_Comm_idup(MPI_COMM_WORLD, &other, &request);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
	use(other, "idup", 0);
	MPI_Comm_free(&other);
	MPI_Comm_split(comm, color, -rank, &half);
	use(half, "split", color);
	/* some are left out: they count the call all the same */
	MPI_Comm_split(comm, rank == 0 ? MPI_UNDEFINED : 0, 0, &other);
	if (other != MPI_COMM_NULL) {
		use(other, "split_rest", 0);
		MPI_Comm_free(&other);
	}
	MPI_Comm_split(comm, color, rank, &other);
	use(other, "split_again", color);
	MPI_Comm_free(&other);
	MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &other);
	use(other, "split_type", 0);
	MPI_Comm_free(&other);
	MPI_Comm_group(comm, &world);
	MPI_Group_incl(world, 2, (int[]){0, 1}, &group);
	MPI_Comm_create(comm, group, &other);
	if (other != MPI_COMM_NULL) {
		use(other, "create", 0);
		MPI_Comm_free(&other);
	}
	for (int tag = 1; tag < 3 && rank < 2; tag++) {
		MPI_Comm_create_group(comm, group, tag, &other);
		use(other, "create_group", tag);
		MPI_Comm_free(&other);
	}
	MPI_Intercomm_create(half, 0, comm,
		1 - color + (color ? (size - 1) / 2 * 2 : (size / 2 - 1) * 2), 5, &inter);
	use(inter, "intercomm", 0);
	MPI_Intercomm_merge(inter, color, &merged);
	use(merged, "merged", 0);
	MPI_Comm_free(&merged);
	MPI_Comm_free(&inter);
	MPI_Dims_create(size, 2, dims);
	MPI_Cart_create(comm, 2, dims, periods, 0, &other);
	use(other, "cart", 0);
	MPI_Cart_sub(other, remain, &merged);
	use(merged, "cart_sub", rank / dims[1]);
	MPI_Comm_free(&merged);
	MPI_Comm_free(&other);
	for (int i = 0; i < size; i++) { /* a ring */
		index[i] = 2 * (i + 1);
		edges[2 * i] = (i + size - 1) % size;
		edges[2 * i + 1] = (i + 1) % size;
	}
	MPI_Graph_create(comm, size, index, edges, 0, &other);
	use(other, "graph", 0);
	MPI_Comm_free(&other);
	if (provided == MPI_THREAD_MULTIPLE) {
		MPI_Comm_dup(comm, &parents[0]);
		MPI_Comm_dup(comm, &parents[1]);
		pthread_create(&threads[0], NULL, make_many, &parents[0]);
		pthread_create(&threads[1], NULL, make_many, &parents[1]);
		pthread_join(threads[0], NULL);
		pthread_join(threads[1], NULL);
		MPI_Comm_free(&parents[0]);
		MPI_Comm_free(&parents[1]);
	}
	printf("%d threads %d\n", rank, provided == MPI_THREAD_MULTIPLE);
	MPI_Group_free(&group);
	MPI_Group_free(&world);
	MPI_Comm_free(&half);
	MPI_Comm_free(&comm);
	MPI_Finalize();
	return 0;
}
