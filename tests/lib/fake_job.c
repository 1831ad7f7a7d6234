/* SPDX-License-Identifier: Apache-2.0 */
/* fake_job.c - loads the extensions named on its command line and runs the thread of each, one by one. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		void *library = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL), *start;
		pthread_t thread;

		start = library ? dlsym(library, "fake_thread") : NULL;
		if (!start) {
			fprintf(stderr, "%s\n", dlerror());
			return 1;
		}
		if (pthread_create(&thread, NULL, (void *(*)(void *))start, NULL) ||
			pthread_join(thread, NULL))
			return 1;
	}
	return 0;
}
