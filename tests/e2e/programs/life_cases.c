/* SPDX-License-Identifier: Apache-2.0 */
/* life_cases.c CASE - a process that forks, execs, ends threads or is interrupted while it records. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tracer/lapwing_mark.h"

static _Atomic long n_handled;
static _Atomic int n_errno_changed;

static void marks(const char *name, int n)
{
	for (int i = 0; i < n; i++)
		lapwing_mark(name);
}

static void on_alarm(int signal_number)
{
	(void)signal_number;
	errno = 4242;
	lapwing_mark("handler");
	if (errno != 4242)
		n_errno_changed++;
	n_handled++;
}

/* Interrupted every 200 us in the middle of whatever it does: mostly in the middle of a record. */
static int interrupted(void)
{
	struct itimerval every = {{0, 200}, {0, 200}}, never = {{0, 0}, {0, 0}};
	struct sigaction action = {.sa_handler = on_alarm};
	long n = 0;

	lapwing_mark("first"); /* makes the ring before the first signal */
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &every, NULL);
	while (n_handled < 2000) {
		errno = 17;
		lapwing_mark("main");
		/* the handler sets errno too, but only between two of our statements */
		n++;
		for (volatile int spin = 0; spin < 20000; spin++)
			; /* slowly enough for the ring never to fill */
	}
	setitimer(ITIMER_REAL, &never, NULL);
	printf("%ld %ld %d\n", n, (long)n_handled, n_errno_changed);
	return 0;
}

static void *one_thread(void *unused)
{
	marks("thread", 10);
	return unused;
}

static int count_rings(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[512];
	int n = 0;

	while (maps && fgets(line, sizeof(line), maps))
		n += strstr(line, ".ring") != NULL;
	if (maps)
		fclose(maps);
	return n;
}

static int threads(void)
{
	marks("main", 1);
	for (int i = 0; i < 300; i++) {
		pthread_t thread;

		if (pthread_create(&thread, NULL, one_thread, NULL))
			return 1;
		pthread_join(thread, NULL);
	}
	printf("%d\n", count_rings());
	return 0;
}

static int forked(void)
{
	pid_t pid;

	marks("parent", 50);
	pid = fork();
	if (pid == 0) {
		marks("child", 30);
		exit(0);
	}
	marks("parent", 50);
	waitpid(pid, NULL, 0);
	/* a child that never does anything of interest */
	pid = fork();
	if (pid == 0)
		_exit(0);
	waitpid(pid, NULL, 0);
	return 0;
}

static int vforked(char **argv)
{
	char *const program[] = {argv[0], (char[]){"marks"}, NULL};
	pid_t pid;

	marks("parent", 50);
	pid = vfork();
	if (pid == 0) {
		execv(argv[0], program);
		_exit(1);
	}
	waitpid(pid, NULL, 0);
	marks("parent", 50);
	return 0;
}

static void *leaves(void *unused)
{
	marks("worker", 20);
	return unused;
}

static int ringless(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, leaves, NULL))
		return 1;
	pthread_join(thread, NULL);
	_exit(0);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	if (!strcmp(what, "marks"))
		marks("new image", 25);
	else if (!strcmp(what, "exec")) {
		marks("old image", 40);
		execl(argv[0], argv[0], "marks", (char *)NULL);
		return 1;
	} else if (!strcmp(what, "exec_fails")) {
		marks("before", 10);
		if (execl("/no/such/program", "x", (char *)NULL) != -1 || errno != ENOENT)
			return 1;
		marks("after", 10);
	} else if (!strcmp(what, "signal"))
		return interrupted();
	else if (!strcmp(what, "threads"))
		return threads();
	else if (!strcmp(what, "fork"))
		return forked();
	else if (!strcmp(what, "vfork"))
		return vforked(argv);
	else if (!strcmp(what, "ringless"))
		return ringless();
	else
		return 2;
	return 0;
}
