// SPDX-License-Identifier: Apache-2.0
// mpi_throws.cc - an error handler that throws: the exception passes through MPI and every wrapper.
#include <mpi.h>
#include <cstdio>
#include <stdexcept>

static void on_error(MPI_Comm *, int *, ...)
{
	throw std::runtime_error("mpi");
}

int main(int argc, char **argv)
{
	MPI_Errhandler handler;
	MPI_Comm comm;
	int rank, n_caught = 0;
	double value = 0;

	MPI_Init(&argc, &argv);
	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	MPI_Comm_rank(comm, &rank);
	MPI_Comm_create_errhandler(on_error, &handler);
	MPI_Comm_set_errhandler(comm, handler);
	for (int i = 0; i < 3; i++) {
		try {
			MPI_Bcast(&value, 1, MPI_DOUBLE, 99, comm);
		} catch (const std::runtime_error &) {
			n_caught++;
		}
	}
	try {
		MPI_Send(&value, 1, MPI_DOUBLE, 99, 0, comm);
	} catch (const std::runtime_error &) {
		n_caught++;
	}
	/* what comes after is recorded as ever */
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Barrier(MPI_COMM_WORLD);
	std::printf("%d caught %d\n", rank, n_caught);
	MPI_Errhandler_free(&handler);
	MPI_Comm_free(&comm);
	MPI_Finalize();
}
