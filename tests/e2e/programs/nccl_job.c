/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nccl_job.c - a job of several ranks on NCCL's API (its double): every operation, exact results.
 *
 *	nccl_job RANKS CASE [N]     starts RANKS copies of itself; the highest exit code of theirs
 *
 * all: N rounds of every operation; group: several in one ncclGroup; split: halves of the ranks; abort: rank 0
 * leaves an operation that the others never join; alone: a communicator of one rank; leave: _exit with operations
 * done and nothing destroyed; many: N small allreduces; off: N rounds of
 * every operation of which only the last is recorded. Prints a line a rank: a hash over all results.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tracer/lapwing_mark.h"

typedef struct comm *comm_t;
typedef struct {
	char bytes[128];
} id_t_;
enum { INT32 = 2, INT64 = 4, FLOAT32 = 7, FLOAT64 = 8, SUM = 0 };

int ncclGetUniqueId(id_t_ *id);
int ncclCommInitRank(comm_t *comm, int n, id_t_ id, int rank);
int ncclCommSplit(comm_t comm, int color, int key, comm_t *child, void *config);
int ncclCommDestroy(comm_t comm);
int ncclCommAbort(comm_t comm);
int ncclCommFinalize(comm_t comm);
int ncclGroupStart(void);
int ncclGroupEnd(void);
int ncclAllReduce(
	const void *send, void *receive, size_t n, int type, int op, comm_t comm, void *stream);
int ncclAllGather(const void *send, void *receive, size_t n, int type, comm_t comm, void *stream);
int ncclReduceScatter(
	const void *send, void *receive, size_t n, int type, int op, comm_t comm, void *stream);
int ncclBroadcast(
	const void *send, void *receive, size_t n, int type, int root, comm_t comm, void *stream);
int ncclReduce(const void *send, void *receive, size_t n, int type, int op, int root, comm_t comm,
	void *stream);
int ncclSend(const void *send, size_t n, int type, int peer, comm_t comm, void *stream);
int ncclRecv(void *receive, size_t n, int type, int peer, comm_t comm, void *stream);
int fake_nccl_synchronize(comm_t comm);
int fake_nccl_plugin(void);

enum { N_ELEMENTS = 1 << 16, RANKS_MAX = 16 };
static float in[N_ELEMENTS * RANKS_MAX], out[N_ELEMENTS * RANKS_MAX];
static uint64_t hash = UINT64_C(0xcbf29ce484222325);
static int rank, size;

static void must(int result, const char *what)
{
	if (result) {
		fprintf(stderr, "nccl_job: rank %d: %s: %d\n", rank, what, result);
		exit(1);
	}
}

static void fill(int round)
{
	for (size_t i = 0; i < sizeof(in) / sizeof(in[0]); i++)
		in[i] = (float)((i * 7 + (size_t)rank * 13 + (size_t)round) % 1000) / 3.0f;
}

static void take_result(comm_t comm, size_t n_bytes)
{
	must(fake_nccl_synchronize(comm), "synchronize");
	for (size_t i = 0; i < n_bytes; i++)
		hash = (hash ^ ((const unsigned char *)out)[i]) * UINT64_C(0x100000001b3);
}

static comm_t world(const char *path)
{
	id_t_ id;
	comm_t comm = NULL;
	char draft[4200];
	FILE *file = NULL;

	if (rank == 0) {
		snprintf(draft, sizeof(draft), "%s.draft", path);
		must(ncclGetUniqueId(&id), "ncclGetUniqueId");
		file = fopen(draft, "wb");
		must(!file || fwrite(&id, sizeof(id), 1, file) != 1 || fclose(file), draft);
		must(rename(draft, path), path);
	} else {
		while (!(file = fopen(path, "rb")))
			nanosleep(&(struct timespec){0, 2000000}, NULL);
		must(fread(&id, sizeof(id), 1, file) != 1, path);
		fclose(file);
	}
	must(ncclCommInitRank(&comm, size, id, rank), "ncclCommInitRank");
	return comm;
}

static void run_all(comm_t comm, int n)
{
	for (int round = 0; round < n; round++) {
		fill(round);
		must(ncclAllReduce(in, out, 4096, FLOAT32, SUM, comm, NULL), "ncclAllReduce");
		take_result(comm, 4096 * 4);
		must(ncclAllReduce(in, out, 65536, FLOAT32, SUM, comm, NULL), "ncclAllReduce");
		take_result(comm, 65536 * 4);
		must(ncclAllGather(in, out, 1024, FLOAT32, comm, NULL), "ncclAllGather");
		take_result(comm, 4096 * (size_t)size);
		must(ncclReduceScatter(in, out, 2048, INT32, SUM, comm, NULL), "ncclReduceScatter");
		take_result(comm, 2048 * 4);
		must(ncclBroadcast(in, out, 512, FLOAT64, 1 % size, comm, NULL), "ncclBroadcast");
		take_result(comm, 512 * 8);
		must(ncclReduce(in, out, 256, INT64, SUM, 0, comm, NULL), "ncclReduce");
		take_result(comm, rank ? 0 : 256 * 8);
	}
}

static void run_group(comm_t comm, int n)
{
	int next = (rank + 1) % size, previous = (rank + size - 1) % size;

	for (int round = 0; round < n; round++) {
		fill(round);
		must(ncclGroupStart(), "ncclGroupStart");
		must(ncclSend(in, 16384, FLOAT32, next, comm, NULL), "ncclSend");
		must(ncclRecv(out, 16384, FLOAT32, previous, comm, NULL), "ncclRecv");
		must(ncclGroupEnd(), "ncclGroupEnd");
		take_result(comm, 16384 * 4);
		must(ncclGroupStart(), "ncclGroupStart");
		must(ncclAllReduce(in, out, 8192, FLOAT32, SUM, comm, NULL), "ncclAllReduce");
		must(ncclAllReduce(in + 8192, out + 8192, 8192, FLOAT32, SUM, comm, NULL),
			"ncclAllReduce");
		must(ncclGroupEnd(), "ncclGroupEnd");
		take_result(comm, 16384 * 4);
	}
}

static void run_split(comm_t comm, int n)
{
	comm_t half = NULL, none = NULL;

	must(ncclCommSplit(comm, rank ? -1 : 0, rank, &none, NULL), "ncclCommSplit");
	must(ncclCommSplit(comm, rank % 2, -rank, &half, NULL), "ncclCommSplit");
	for (int round = 0; round < n; round++) {
		fill(round);
		must(ncclAllReduce(in, out, 4096, FLOAT32, SUM, half, NULL), "ncclAllReduce");
		take_result(half, 4096 * 4);
	}
	must(ncclCommFinalize(half), "ncclCommFinalize");
	must(ncclCommDestroy(half), "ncclCommDestroy");
	if (none)
		must(ncclCommDestroy(none), "ncclCommDestroy");
}

static void run_many(comm_t comm, int n)
{
	for (int i = 0; i < n; i++)
		must(ncclAllReduce(in, out, 64, FLOAT32, SUM, comm, NULL), "ncclAllReduce");
	take_result(comm, 64 * 4);
}

static void run_off(comm_t comm, int n)
{
	lapwing_nccl_stop();
	run_all(comm, n - 1);
	lapwing_nccl_start();
	run_all(comm, 1);
}

static int run_rank(const char *name, int n, const char *path)
{
	comm_t comm;

	if (!strcmp(name, "alone"))
		size = 1;
	comm = world(path);
	if (!strcmp(name, "group"))
		run_group(comm, n);
	else if (!strcmp(name, "split"))
		run_split(comm, n);
	else if (!strcmp(name, "many"))
		run_many(comm, n);
	else if (!strcmp(name, "off"))
		run_off(comm, n);
	else
		run_all(comm, n);
	printf("rank %d plugin %d hash %016llx\n", rank, fake_nccl_plugin(),
		(unsigned long long)hash);
	fflush(stdout);
	if (!strcmp(name, "leave"))
		_exit(0);
	if (!strcmp(name, "abort")) {
		if (rank == 0)
			must(ncclAllReduce(in, out, 4096, FLOAT32, SUM, comm, NULL),
				"ncclAllReduce");
		nanosleep(&(struct timespec){0, 100000000}, NULL);
		must(ncclCommAbort(comm), "ncclCommAbort");
		return 0;
	}
	must(ncclCommDestroy(comm), "ncclCommDestroy");
	return 0;
}

static int start_all(char **argv, int n_ranks)
{
	char path[64], number[16];
	int worst = 0, status;

	snprintf(path, sizeof(path), "/tmp/nccl_job.%d", (int)getpid());
	setenv("NCCL_JOB_ID", path, 1);
	snprintf(number, sizeof(number), "%d", n_ranks);
	setenv("WORLD_SIZE", number, 1);
	setenv("LOCAL_WORLD_SIZE", number, 1);
	for (int i = 0; i < n_ranks; i++) {
		snprintf(number, sizeof(number), "%d", i);
		setenv("RANK", number, 1);
		setenv("LOCAL_RANK", number, 1);
		if (fork() == 0) {
			execv("/proc/self/exe", argv);
			_exit(127);
		}
	}
	while (wait(&status) > 0) {
		int code = WIFEXITED(status) ? WEXITSTATUS(status) : 99;

		worst = code > worst ? code : worst;
	}
	unlink(path);
	return worst;
}

int main(int argc, char **argv)
{
	const char *path = getenv("NCCL_JOB_ID");

	if (argc < 3) {
		fprintf(stderr, "usage: nccl_job RANKS CASE [N]\n");
		return 2;
	}
	size = (int)strtol(argv[1], NULL, 10);
	if (!path)
		return start_all(argv, size);
	rank = (int)strtol(getenv("RANK"), NULL, 10);
	return run_rank(argv[2], argc > 3 ? (int)strtol(argv[3], NULL, 10) : 2, path);
}
