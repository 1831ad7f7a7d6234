/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cupti_real.c - calls NVIDIA's own libcudart and libcupti, linked to both, as a framework with a profiler does.
 *
 * Built by test_cupti_real.py where the two are installed; their versioned names bind to ours under the tracer.
 */
#include <stddef.h>
#include <stdio.h>

int cudaSetDevice(int device);
int cudaMalloc(void **memory, size_t n_bytes);
int cuptiGetVersion(unsigned *version);
int cuptiSubscribe(void **subscriber, void (*callback)(void), void *user);
int cuptiActivityRegisterCallbacks(void (*requested)(void), void (*completed)(void));

static void nothing(void)
{
}

int main(void)
{
	void *memory, *subscriber;
	unsigned version = 0;

	printf("cudaSetDevice %d\n", cudaSetDevice(0));
	printf("cudaMalloc %d\n", cudaMalloc(&memory, 1024));
	cuptiGetVersion(&version);
	printf("cuptiGetVersion %u\n", version);
	printf("cuptiSubscribe %d\n", cuptiSubscribe(&subscriber, nothing, NULL));
	printf("cuptiActivityRegisterCallbacks %d\n",
		cuptiActivityRegisterCallbacks(nothing, nothing));
	return 0;
}
