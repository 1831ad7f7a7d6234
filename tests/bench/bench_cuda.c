/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_cuda.c - what an interposed call of CUDA costs, beside the same call by its address.
 *
 *	bench_cuda [ROUNDS]
 *
 * cudaSetDevice of the double of libcudart, which does next to nothing; each round times both. Prints one JSON
 * line: median, 5th and 95th percentile over rounds of either and of their difference, ns a call.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "tests/lib/fake_cudart.h"

enum { MAX_ROUNDS = 5000, N_CALLS = 20000 };

static double plain_ns[MAX_ROUNDS], hooked_ns[MAX_ROUNDS], cost_ns[MAX_ROUNDS];

static double time_calls(int (*call)(int device))
{
	int64_t start_ns = lw_clock_ns();

	for (int i = 0; i < N_CALLS; i++)
		call(0);
	return (double)(lw_clock_ns() - start_ns) / N_CALLS;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void print_spread(const char *name, double *values, int n)
{
	qsort(values, (size_t)n, sizeof(*values), compare);
	printf(",\"%s\":{\"median\":%.2f,\"p5\":%.2f,\"p95\":%.2f}", name, values[n / 2],
		values[n / 20], values[n - 1 - n / 20]);
}

int main(int argc, char **argv)
{
	int n_rounds = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 300;
	void *runtime = dlopen("libcudart.so.13", RTLD_NOW | RTLD_NOLOAD);
	int (*plain)(int) = runtime ? (int (*)(int))dlsym(runtime, "cudaSetDevice") : NULL;
	int (*volatile hooked)(int) = cudaSetDevice;

	if (n_rounds < 1 || n_rounds > MAX_ROUNDS || !plain) {
		fprintf(stderr, "usage: bench_cuda [ROUNDS 1..%d]\n", MAX_ROUNDS);
		return 2;
	}
	time_calls(hooked); /* the first of them subscribes */
	for (int round = 0; round < n_rounds; round++) {
		plain_ns[round] = time_calls(plain);
		hooked_ns[round] = time_calls(hooked);
		cost_ns[round] = hooked_ns[round] - plain_ns[round];
	}
	printf("{\"bench\":\"cuda\",\"n_rounds\":%d,\"is_hooked\":%d", n_rounds, plain != hooked);
	print_spread("plain_ns", plain_ns, n_rounds);
	print_spread("hooked_ns", hooked_ns, n_rounds);
	print_spread("cost_ns", cost_ns, n_rounds);
	printf("}\n");
	return 0;
}
