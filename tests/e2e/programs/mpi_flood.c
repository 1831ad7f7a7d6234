/* SPDX-License-Identifier: Apache-2.0 */
/* mpi_flood.c - more requests at a time than the tracer's table holds. Prints how many: "RANK flood N". */
#include <mpi.h>
#include <stdio.h>

enum { N = 20000 };

int main(int argc, char **argv)
{
	static MPI_Request requests[N];
	static int values[N];
	int rank, sum = 0;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	for (int i = 0; i < N; i++)
		MPI_Irecv(&values[i], 1, MPI_INT, 1 - rank, i, MPI_COMM_WORLD, &requests[i]);
	MPI_Barrier(MPI_COMM_WORLD);
	for (int i = 0; i < N; i++)
		MPI_Send(&i, 1, MPI_INT, 1 - rank, i, MPI_COMM_WORLD);
	MPI_Waitall(N, requests, MPI_STATUSES_IGNORE);
	for (int i = 0; i < N; i++)
		sum += values[i] == i;
	/* the table is free again: these are timed to their end */
	for (int i = 0; i < 10; i++)
		MPI_Irecv(&values[i], 1, MPI_INT, 1 - rank, N + i, MPI_COMM_WORLD, &requests[i]);
	for (int i = 0; i < 10; i++)
		MPI_Send(&i, 1, MPI_INT, 1 - rank, N + i, MPI_COMM_WORLD);
	MPI_Waitall(10, requests, MPI_STATUSES_IGNORE);
	printf("%d flood %d\n", rank, sum);
	MPI_Finalize();
	return 0;
}
