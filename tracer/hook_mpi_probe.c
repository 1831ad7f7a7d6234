/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hook_mpi_probe.c - a probe of a plain MPI job: all-reduces on a copy of MPI_COMM_WORLD, when MPI is up.
 *
 * All ranks must make it, or none. A collective cannot find out who is asked: it would wait for those that
 * are not. So the ranks of one host agree in their ring directory: each leaves a file there, and the first
 * that finds all of them, or has waited long enough, leaves the answer, which nobody can change. Ranks
 * that do not share the directory (several hosts, one `record` a rank) get no probe. Jobs in one directory are
 * told apart by what their launcher calls them.
 *
 * Not for: Horovod, whose controller carries its own (hook_horovod_probe.c).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "schema/launcher.h"
#include "schema/rundir.h"
#include "tracer/hook_mpi.h"
#include "tracer/internal.h"
#include "tracer/probe.h"

static const int64_t patience_ns = 2000000000;

typedef int allreduce_fn(const void *, void *, int, uintptr_t, uintptr_t, uintptr_t);

struct job {
	int size;
	uint64_t id;
	char name[160]; /* where the id is from */
};

/* The process at the other end of what MPICH's launcher gave to a rank: its proxy on this host. 0 = none. */
static int proxy_pid(void)
{
	struct ucred peer = {0};
	socklen_t n_bytes = sizeof(peer);
	int fd = lw_env_int("PMI_FD");

	return fd >= 0 && getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n_bytes) == 0 ? peer.pid
											: 0;
}

/* The same for all ranks of a launch on this host, also behind a wrapper each. A variable that another launcher left in
 * the environment would mix its jobs up, so that each MPI looks at its own. */
static struct job this_job(int size)
{
	static const char *const variables[] = {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"};
	bool is_mpich = !strcmp(lw_mpi->name, "MPICH");
	int proxy = is_mpich ? proxy_pid() : 0;
	struct job job = {.size = size};

	for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]) && !is_mpich; i++) {
		const char *value = getenv(variables[i]);

		if (value && *value && !*job.name)
			snprintf(job.name, sizeof(job.name), "%s %s", variables[i], value);
	}
	if (proxy)
		snprintf(job.name, sizeof(job.name), "launcher process %d of PMI_FD", proxy);
	else if (!*job.name)
		snprintf(job.name, sizeof(job.name),
			"parent process %d, as the launcher names no job", (int)getppid());
	job.id = lw_string_id(job.name, strlen(job.name));
	return job;
}

static void path_of(const struct job *job, char *path, size_t room, const char *what)
{
	snprintf(path, room, "%s/" LW_RUNDIR_PROBE "%016llx.%d.%s", lw_ring_dir(),
		(unsigned long long)job->id, job->size, what);
}

/* Return: false also when an earlier job of the same name and size left one: its answer is none for this one. */
static bool leave_file(const struct job *job, int rank)
{
	char path[400], name[16];
	int fd;

	snprintf(name, sizeof(name), "%d", rank);
	path_of(job, path, sizeof(path), name);
	fd = (int)syscall(
		SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd >= 0)
		syscall(SYS_close, fd);
	return fd >= 0;
}

static bool are_all_here(const struct job *job)
{
	char path[400], name[16];

	for (int rank = 0; rank < job->size; rank++) {
		snprintf(name, sizeof(name), "%d", rank);
		path_of(job, path, sizeof(path), name);
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

static bool agree(const struct job *job, int rank)
{
	const struct timespec pause = {.tv_nsec = 1000000};
	int64_t start_ns = lw_now_ns();
	char path[400], answer;

	if (!lw_ring_dir() || !leave_file(job, rank))
		return false;
	path_of(job, path, sizeof(path), "answer");
	while (!(answer = read_answer(path))) {
		bool are_all = are_all_here(job);

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

	struct job job;
	char why[320];

	if (lw_horovod_is_present() || !lw_probe_claim())
		return;
	job = this_job(size);
	snprintf(why, sizeof(why),
		"not all %d ranks of this MPI job were asked on one host, under one `lapwing record` (the job is known by: %s)",
		size, job.name);
	if (size == 1)
		lw_probe_refuse("there is one rank only");
	else if (!dup || !release || !context.allreduce)
		lw_probe_refuse("this MPI cannot be called");
	else if (!agree(&job, rank))
		lw_probe_refuse(why);
	else if (dup(lw_mpi_handles[LW_MPI_COMM_WORLD], (uintptr_t)&context.comm, 0, 0, 0) != 0)
		lw_probe_refuse("MPI_Comm_dup failed");
	else {
		lw_probe_run(&carrier);
		release((uintptr_t)&context.comm, 0, 0, 0, 0);
	}
}
