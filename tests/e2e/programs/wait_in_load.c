/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wait_in_load.c - a library whose constructor waits for a thread that sleeps, yields and makes a thread:
 * what it calls must not wait for the loader, which is loading this library meanwhile.
 */
#include <pthread.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

static void *nothing(void *unused)
{
	return unused;
}

static void *work(void *unused)
{
	struct timespec little = {0, 1000};
	pthread_t thread;

	sched_yield();
	nanosleep(&little, NULL);
	clock_nanosleep(CLOCK_MONOTONIC, 0, &little, NULL);
	usleep(1);
	if (pthread_create(&thread, NULL, nothing, NULL) == 0)
		pthread_join(thread, NULL);
	return unused;
}

__attribute__((constructor)) static void load(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, work, NULL) == 0)
		pthread_join(thread, NULL);
}
