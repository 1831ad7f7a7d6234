/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ring_owners.c - children, threads, signal handlers and errors around hooked calls of fake_mpi.c: one MODE a run.
 *
 * It checks what only it can see (errno, ring files while it lives) and prints what a tracer must have
 * recorded of it: "PID barriers N".
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "schema/ring.h"
#include "tracer/lapwing_mark.h"

enum { WORLD = 0x44000000, MPI_DOUBLE = 0x4c00080b, MPI_SUM = 0x58000003 };

int MPI_Init(int *argc, char ***argv);
int MPI_Finalize(void);
int MPI_Barrier(int comm);
int MPI_Allreduce(const void *in, void *out, int count, int type, int op, int comm);

extern char **environ;

static void barriers(int n)
{
	for (int i = 0; i < n; i++)
		MPI_Barrier(WORLD);
}

static void say(int n)
{
	printf("%d barriers %d\n", (int)getpid(), n);
	fflush(stdout);
}

static void require(int is_true, const char *what)
{
	if (!is_true) {
		fprintf(stderr, "ring_owners: %s\n", what);
		exit(9);
	}
}

static int wait_for(pid_t pid)
{
	int status;

	return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Is the ring of thread @tid of this process closed? -1 = it has none. */
static int is_ring_closed(pid_t tid)
{
	DIR *listing = opendir(getenv("LAPWING_DIR"));
	char prefix[64];
	struct dirent *entry;
	int result = -1;

	snprintf(prefix, sizeof(prefix), "%d.%d.", (int)getpid(), (int)tid);
	while (listing && (entry = readdir(listing))) {
		struct lw_ring_header *ring;
		int fd;

		if (strncmp(entry->d_name, prefix, strlen(prefix)))
			continue;
		fd = openat(dirfd(listing), entry->d_name, O_RDONLY);
		ring = mmap(NULL, LW_RING_HEADER_BYTES, PROT_READ, MAP_SHARED, fd, 0);
		close(fd);
		if (ring == MAP_FAILED)
			continue;
		result = (int)atomic_load(&ring->closed);
		munmap(ring, LW_RING_HEADER_BYTES);
	}
	if (listing)
		closedir(listing);
	return result;
}

static int child_barriers(void *unused)
{
	(void)unused;
	barriers(7);
	return 0;
}

/* Children that never become of interest leave no trace, in the parent's rings least of all. */
static void fork_around(char **argv)
{
	static char stack[65536] __attribute__((aligned(16)));
	pid_t pid;

	MPI_Init(NULL, NULL);
	barriers(10);
	pid = fork();
	if (pid == 0) { /* leaves through the destructors */
		barriers(7);
		exit(11);
	}
	require(wait_for(pid) == 11, "exit code of a forked child");
	pid = fork();
	if (pid == 0) { /* leaves as Python's multiprocessing does */
		barriers(7);
		_exit(12);
	}
	require(wait_for(pid) == 12, "exit code of a forked child that calls _exit");
	pid = clone(child_barriers, stack + sizeof(stack), SIGCHLD, NULL);
	require(wait_for(pid) == 0, "exit code of a cloned child"); /* no atfork handler ran */
	require(is_ring_closed(getpid()) == 0, "a child closed its parent's ring");
	pid = vfork();
	if (pid == 0) {
		execl("/bin/sh", "sh", "-c", "exit 13", (char *)NULL);
		_exit(99);
	}
	require(wait_for(pid) == 13, "exit code after vfork and exec");
	pid = vfork();
	if (pid == 0)
		_exit(14);
	require(wait_for(pid) == 14, "exit code after vfork");
	require(posix_spawn(&pid, "/bin/true", NULL, NULL, (char *[]){argv[0], NULL}, environ) == 0,
		"posix_spawn");
	require(wait_for(pid) == 0, "exit code after posix_spawn");
	require(system("exit 15") >> 8 == 15, "exit code of system()");
	require(is_ring_closed(getpid()) == 0, "a vfork child closed its parent's ring");
	barriers(5);
	say(15);
	MPI_Finalize();
}

/* A launcher that forks its workers: each is traced for itself. */
static void fork_workers(void)
{
	pid_t pids[3];

	for (int i = 0; i < 3; i++) {
		pids[i] = fork();
		if (pids[i] == 0) {
			MPI_Init(NULL, NULL);
			barriers(3 + i);
			say(3 + i);
			MPI_Finalize();
			_exit(0); /* as Python's multiprocessing leaves */
		}
	}
	for (int i = 0; i < 3; i++)
		require(wait_for(pids[i]) == 0, "exit code of a worker");
}

/* A traced process forks one that is of interest itself. */
static void fork_traced(void)
{
	pid_t pid;

	MPI_Init(NULL, NULL);
	barriers(4);
	pid = fork();
	if (pid == 0) {
		barriers(2); /* not yet */
		MPI_Init(NULL, NULL);
		barriers(6);
		say(6);
		exit(0);
	}
	require(wait_for(pid) == 0, "exit code of the child");
	barriers(4);
	say(8);
}

static pid_t tids[8];

static void *thread_barriers(void *number)
{
	long i = (long)number;

	tids[i] = (pid_t)syscall(SYS_gettid);
	errno = 4711;
	MPI_Barrier(WORLD); /* makes the ring */
	require(errno == 4711, "errno after a thread's first record");
	barriers(4);
	return NULL;
}

static void threads(void)
{
	pthread_t handles[8];

	MPI_Init(NULL, NULL);
	barriers(1);
	for (long i = 0; i < 8; i++)
		pthread_create(&handles[i], NULL, thread_barriers, (void *)i);
	for (int i = 0; i < 8; i++)
		pthread_join(handles[i], NULL);
	for (int i = 0; i < 8; i++)
		require(is_ring_closed(tids[i]) == 1, "the ring of a thread that ended is open");
	require(is_ring_closed(getpid()) == 0, "the ring of a running thread is closed");
	say(41);
	MPI_Finalize();
}

static void *run_forever(void *unused)
{
	for (;;)
		MPI_Barrier(WORLD);
	return unused;
}

static void exit_while_running(void)
{
	pthread_t handle;

	MPI_Init(NULL, NULL);
	for (int i = 0; i < 3; i++)
		pthread_create(&handle, NULL, run_forever, NULL);
	barriers(2000);
	exit(21); /* the others are inside hooks */
}

static volatile sig_atomic_t n_handled;

static void on_alarm(int number)
{
	int saved = errno;

	(void)number;
	lapwing_mark("a signal handler's mark");
	require(errno == saved, "errno in a signal handler");
	n_handled++;
}

static void signals(void)
{
	struct itimerval every = {{0, 200}, {0, 200}};
	int n = 0;

	MPI_Init(NULL, NULL);
	signal(SIGALRM, on_alarm);
	setitimer(ITIMER_REAL, &every, NULL);
	while (n_handled < 400) {
		barriers(5);
		n += 5;
	}
	memset(&every, 0, sizeof(every));
	setitimer(ITIMER_REAL, &every, NULL);
	say(n);
	printf("%d marks %d\n", (int)getpid(), (int)n_handled);
	MPI_Finalize();
}

static void *thread_without_ring(void *unused)
{
	errno = 4711;
	MPI_Barrier(WORLD);
	require(errno == 4711, "errno after a record that had no ring");
	return unused;
}

static void errors(void)
{
	struct rlimit limit = {3, 3};
	double in = 1, out;
	pthread_t handle;

	errno = 4711;
	MPI_Init(NULL, NULL);
	require(errno == 4711, "errno after MPI_Init");
	require(MPI_Allreduce(&in, &out, 1, MPI_DOUBLE, MPI_SUM, WORLD) == 0 && errno == 4711,
		"errno after success");
	require(MPI_Allreduce(&in, &out, -1, MPI_DOUBLE, MPI_SUM, WORLD) == 2 && errno == EIO,
		"errno and code after failure");
	say(0);
	fflush(stdout);
	setrlimit(RLIMIT_NOFILE, &limit); /* no descriptor for another ring */
	pthread_create(&handle, NULL, thread_without_ring, NULL);
	pthread_join(handle, NULL);
	MPI_Finalize();
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";

	if (!strcmp(mode, "fork"))
		fork_around(argv);
	else if (!strcmp(mode, "workers"))
		fork_workers();
	else if (!strcmp(mode, "fork_traced"))
		fork_traced();
	else if (!strcmp(mode, "threads"))
		threads();
	else if (!strcmp(mode, "exit"))
		exit_while_running();
	else if (!strcmp(mode, "signals"))
		signals();
	else if (!strcmp(mode, "errors"))
		errors();
	else
		return 2;
	return 0;
}
