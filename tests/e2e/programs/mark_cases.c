/* SPDX-License-Identifier: Apache-2.0 */
/* mark_cases.c - a user's program with lapwing_mark.h: marks, nested ranges, two threads, one range too many. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "tracer/lapwing_mark.h"

static void *other_thread(void *unused)
{
	lapwing_range_push("other");
	lapwing_mark("from the other thread");
	lapwing_range_pop();
	lapwing_range_pop(); /* none open: nothing */
	return unused;
}

int main(void)
{
	static char long_name[2000];
	pthread_t thread;

	for (int step = 100; step < 103; step++) {
		lapwing_mark_step(step);
		lapwing_range_push("forward");
		lapwing_range_push("layer 1");
		lapwing_range_pop();
		lapwing_range_pop();
		lapwing_mark("loss");
	}
	pthread_create(&thread, NULL, other_thread, NULL);
	pthread_join(thread, NULL);
	memset(long_name, 'x', sizeof(long_name) - 1);
	lapwing_mark(long_name);
	for (int i = 0; i < 40; i++)
		lapwing_range_push("deep");
	for (int i = 0; i < 40; i++)
		lapwing_range_pop();
	puts("done");
	return 0;
}
