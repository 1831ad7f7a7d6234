/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hook_mpi_probe.c - a probe of a plain MPI job: all-reduces on a copy of MPI_COMM_WORLD, when MPI is up.
 *
 * All ranks must make it, or none. A collective cannot find out who is asked: it would wait for those that
 * are not. So the ranks of one host agree in their ring directory: each leaves a file there, and the first
 * that finds all of them, or has waited long enough, leaves the answer, which nobody can change. Ranks
 * that do not share the directory (several hosts, one `record` a rank) get no probe.
 *
 * Not for: Horovod, whose controller carries its own (hook_horovod_probe.c).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "schema/rundir.h"
#include "tracer/hook_mpi.h"
#include "tracer/internal.h"
#include "tracer/probe.h"

static const int64_t patience_ns = 2000000000;

typedef int allreduce_fn(const void *, void *, int, uintptr_t, uintptr_t, uintptr_t);

/* Ranks of one launch have one parent. */
static void path_of(char *path, size_t room, const char *what)
{
	snprintf(path, room, "%s/" LW_RUNDIR_PROBE "%d.%s", lw_ring_dir(), (int)getppid(), what);
}

static bool leave_file(int rank)
{
	char path[400], name[16];
	int fd;

	snprintf(name, sizeof(name), "%d", rank);
	path_of(path, sizeof(path), name);
	fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	if (fd >= 0)
		syscall(SYS_close, fd);
	return fd >= 0;
}

static bool are_all_here(int size)
{
	char path[400], name[16];

	for (int rank = 0; rank < size; rank++) {
		snprintf(name, sizeof(name), "%d", rank);
		path_of(path, sizeof(path), name);
		if (access(path, F_OK) < 0)
			return false;
	}
	return true;
}

/* The answer is what a symbolic link says: it appears whole, and only once. Return: 'y', 'n', 0 = none yet. */
static char read_answer(const char *path)
{
	char answer = 0;

	return readlink(path, &answer, 1) == 1 ? answer : 0;
}

static bool agree(int rank, int size)
{
	const struct timespec pause = {.tv_nsec = 1000000};
	int64_t start_ns = lw_now_ns();
	char path[400], answer;

	if (!lw_ring_dir() || !leave_file(rank))
		return false;
	path_of(path, sizeof(path), "answer");
	while (!(answer = read_answer(path))) {
		bool are_all = are_all_here(size);

		if (are_all || lw_now_ns() - start_ns > patience_ns) {
			if (symlink(are_all ? "y" : "n", path) < 0 && errno != EEXIST)
				return false; /* nor can any other rank, then */
			continue;
		}
		syscall(SYS_nanosleep, &pause, NULL);
	}
	return answer == 'y';
}

struct context {
	allreduce_fn *allreduce;
	uintptr_t comm;
};

static void all_and(void *context, void *words, size_t n_bytes)
{
	const struct context *c = context;

	c->allreduce((const void *)lw_mpi->in_place, words, (int)(n_bytes / sizeof(uint64_t)),
		lw_mpi_handles[LW_MPI_LONG_LONG_INT], lw_mpi_handles[LW_MPI_BAND], c->comm);
}

void lw_mpi_probe(int rank, int size)
{
	lw_mpi_fn *dup = lw_real("PMPI_Comm_dup"), *release = lw_real("PMPI_Comm_free");
	struct context context = {.allreduce = lw_real("PMPI_Allreduce")};
	const struct lw_probe_carrier carrier = {
		.transport = LW_TRANSPORT_MPI, .all_and = all_and, .context = &context};

	if (lw_horovod_is_present() || !lw_probe_claim())
		return;
	if (size == 1)
		lw_probe_refuse("there is one rank only");
	else if (!dup || !release || !context.allreduce)
		lw_probe_refuse("this MPI cannot be called");
	else if (!agree(rank, size))
		lw_probe_refuse(
			"not all ranks of this MPI job are on one host, under one `lapwing record`");
	else if (dup(lw_mpi_handles[LW_MPI_COMM_WORLD], (uintptr_t)&context.comm, 0, 0, 0) != 0)
		lw_probe_refuse("MPI_Comm_dup failed");
	else {
		lw_probe_run(&carrier);
		release((uintptr_t)&context.comm, 0, 0, 0, 0);
	}
}
