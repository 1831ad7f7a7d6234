/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_mpi.c - an MPI library of one rank whose calls cost nothing: MPI_X over PMPI_X with MPICH's handles.
 *
 * For measuring a hook alone, and for tests of the process's life that need no launcher. It has just what
 * the hook asks for and what those programs call.
 */
#include <errno.h>
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))

/* MPI_X is a weak name of PMPI_X, as in the real ones. */
#define FAKE(name, parameters, body)                                                               \
	EXPORT int PMPI_##name parameters;                                                         \
	EXPORT int MPI_##name parameters __attribute__((weak, alias("PMPI_" #name)));              \
	EXPORT __attribute__((noinline)) int PMPI_##name parameters                                \
	{                                                                                          \
		__asm__ volatile("");                                                              \
		body;                                                                              \
		return 0;                                                                          \
	}

enum { GROUP = 0x48000000, COMM_WORLD = 0x44000000 };

FAKE(Init, (int *argc, char ***argv), (void)argc; (void)argv)
FAKE(Finalize, (void), (void)0)
FAKE(Barrier, (int comm), (void)comm)
/* A negative count is an error, which sets errno as a real library may. */
FAKE(
	Allreduce, (const void *in, void *out, int count, int type, int op, int comm), (void)in;
	(void)out; (void)type; (void)op; (void)comm; if (count < 0) {
		errno = EIO;
		return 2;
	})
FAKE(Comm_rank, (int comm, int *rank), (void)comm; *rank = 0)
FAKE(Comm_size, (int comm, int *size), (void)comm; *size = 1)
FAKE(Comm_remote_size, (int comm, int *size), (void)comm; *size = 0)
FAKE(Comm_test_inter, (int comm, int *is_inter), (void)comm; *is_inter = 0)
FAKE(Comm_group, (int comm, int *group), (void)comm; *group = GROUP)
FAKE(Comm_remote_group, (int comm, int *group), (void)comm; *group = GROUP)
FAKE(Group_size, (int group, int *size), (void)group; *size = 1)
FAKE(Group_translate_ranks, (int from, int n, const int *ranks, int to, int *translated),
	(void)from;
	(void)to; for (int i = 0; i < n; i++) translated[i] = ranks[i])
FAKE(Group_free, (int *group), *group = 0)
FAKE(Type_size_x, (int type, int64_t *bytes), *bytes = (type >> 8) & 0xff)
FAKE(Topo_test, (int comm, int *status), (void)comm; *status = -32766)
FAKE(Cartdim_get, (int comm, int *n), (void)comm; *n = 0)
FAKE(Graph_neighbors_count, (int comm, int rank, int *n), (void)comm; (void)rank; *n = 0)
FAKE(Dist_graph_neighbors_count, (int comm, int *in, int *out, int *weighted), (void)comm; *in = 0;
	*out = 0; *weighted = 0)
FAKE(Get_elements_x, (const void *status, int type, int64_t *n), (void)status; (void)type; *n = 0)
