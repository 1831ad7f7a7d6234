/* SPDX-License-Identifier: Apache-2.0 */
/* mpi_plugin.c - as a library: linked to MPI, uses it. With -DMAIN: loads that library RTLD_LOCAL, as Python does. */
#include <stdio.h>
#ifdef MAIN
#include <dlfcn.h>

int main(int argc, char **argv)
{
	void *handle = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
	int (*run)(void) = handle ? (int (*)(void))dlsym(handle, "run") : NULL;

	(void)argc;
	return run ? run() : 1;
}
#else
#include <mpi.h>

int run(void)
{
	int in = 1, out = 0;

	MPI_Init(NULL, NULL);
	for (int i = 0; i < 5; i++)
		MPI_Allreduce(&in, &out, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	printf("sum %d\n", out);
	MPI_Finalize();
	return 0;
}
#endif
