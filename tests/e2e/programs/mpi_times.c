/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mpi_times.c - nonblocking and persistent operations with a known time between start and wait, threads
 * at once, requests that are never waited for, errors. Prints "RANK what VALUE" lines; ends with code 7.
 */
#include <errno.h>
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int rank, size;
static MPI_Comm comms[4];

static long now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000L + now.tv_nsec;
}

static void compute(long ns) /* busy, so that the time is this program's alone */
{
	long end_ns = now_ns() + ns;

	while (now_ns() < end_ns)
		;
}

static void *work(void *number)
{
	MPI_Comm comm = comms[(long)number];
	MPI_Request request;
	double in = 1, out;

	for (int i = 0; i < 50; i++) {
		MPI_Allreduce(&in, &out, 1, MPI_DOUBLE, MPI_SUM, comm);
		MPI_Iallreduce(&in, &out, 1, MPI_DOUBLE, MPI_SUM, comm, &request);
		MPI_Wait(&request, MPI_STATUS_IGNORE);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[4];
	MPI_Request request;
	int provided, code;
	double in = 1, out = 0;
	long start_ns;

	MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);

	/* 30 ms between start and wait are inside the record */
	start_ns = now_ns();
	MPI_Iallreduce(&in, &out, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &request);
	compute(30000000);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
	printf("%d nonblocking %ld %ld\n", rank, start_ns, now_ns());

	/* errno is the library's and the program's, not the tracer's */
	errno = 4711;
	MPI_Iallreduce(&in, &out, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &request);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
	printf("%d errno %d\n", rank, errno);

	for (int i = 0; i < 4; i++)
		MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
	if (provided == MPI_THREAD_MULTIPLE) {
		for (long i = 0; i < 4; i++)
			pthread_create(&threads[i], NULL, work, (void *)i);
		for (int i = 0; i < 4; i++)
			pthread_join(threads[i], NULL);
	}
	printf("%d threads %d\n", rank, provided == MPI_THREAD_MULTIPLE);

	/* a wrong call is recorded as failed, and its code comes back */
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	MPI_Comm_set_errhandler(comms[0], MPI_ERRORS_RETURN);
	code = MPI_Bcast(&in, 1, MPI_DOUBLE, 99, comms[0]);
	printf("%d failed %d\n", rank, code != MPI_SUCCESS);
	code = MPI_Send(&in, 1, MPI_DOUBLE, 99, 0, comms[0]);
	printf("%d failed %d\n", rank, code != MPI_SUCCESS);
	code = MPI_Allreduce(&in, &out, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_NULL);
	printf("%d failed %d\n", rank, code != MPI_SUCCESS);
	for (int i = 0; i < 4; i++)
		MPI_Comm_free(&comms[i]);

	/* a receive that nobody waits for any more; MPI wants it to be matched */
	if (rank < 2) {
		static char room[4];

		MPI_Irecv(room, 4, MPI_CHAR, 1 - rank, 77, MPI_COMM_WORLD, &request);
		MPI_Request_free(&request);
		MPI_Send("abc", 4, MPI_CHAR, 1 - rank, 77, MPI_COMM_WORLD);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Finalize();
	return 7;
}
