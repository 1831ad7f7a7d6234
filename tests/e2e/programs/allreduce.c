/* SPDX-License-Identifier: Apache-2.0 */
/* allreduce.c - a plain MPI program: 50 all-reduces of 1000 doubles, a barrier, one message. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
	static double in[1000], out[1000];
	int rank, size;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	for (int i = 0; i < 50; i++)
		MPI_Allreduce(in, out, 1000, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank == 0)
		MPI_Send(in, 1000, MPI_DOUBLE, 1, 7, MPI_COMM_WORLD);
	if (rank == 1)
		MPI_Recv(out, 1000, MPI_DOUBLE, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	printf("{\"rank\": %d, \"size\": %d}\n", rank, size);
	MPI_Finalize();
	return 0;
}
