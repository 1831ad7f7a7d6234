/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda_static.c - a program whose CUDA no preloaded library can get between: it takes the (double of the)
 * runtime by dlopen and dlsym, and does what the driver does in cuInit with CUDA_INJECTION64_PATH. With an
 * argument it marks between that and its kernels.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/lib/fake_cudart.h"
#include "tracer/lapwing_mark.h"

int main(int argc, char **argv)
{
	const struct fake_dim3 grid = {1, 2, 3}, block = {4, 5, 6};
	const char *path = getenv("CUDA_INJECTION64_PATH");
	void *runtime = dlopen("libcudart.so.13", RTLD_NOW | RTLD_LOCAL);
	void *injected = path ? dlopen(path, RTLD_NOW) : NULL;
	int (*initialize)(void) =
		injected ? (int (*)(void))dlsym(injected, "InitializeInjection") : NULL;
	__typeof__(&cudaLaunchKernel) launch =
		runtime ? (__typeof__(&cudaLaunchKernel))dlsym(runtime, "cudaLaunchKernel") : NULL;

	if (!launch)
		return 2;
	(void)argv;
	printf("injected %d\n", initialize ? initialize() : -1);
	if (argc > 1)
		lapwing_mark("the first that is known of this process");
	for (int i = 0; i < 3; i++)
		if (launch("static", grid, block, NULL, 7, NULL))
			return 3;
	return 0;
}
