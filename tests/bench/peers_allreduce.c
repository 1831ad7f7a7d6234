/* SPDX-License-Identifier: Apache-2.0 */
/* peers_allreduce.c - N small allreduces of one rank, timed by itself: prints ns per call. For bench_peers.sh. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
	int n_calls = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 20000;
	double in = 1, out, start;

	MPI_Init(&argc, &argv);
	for (int i = 0; i < 1000; i++)
		MPI_Allreduce(&in, &out, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	start = MPI_Wtime();
	for (int i = 0; i < n_calls; i++)
		MPI_Allreduce(&in, &out, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	fprintf(stderr, "ns_per_call %.1f\n", (MPI_Wtime() - start) * 1e9 / n_calls);
	MPI_Finalize();
	return 0;
}
