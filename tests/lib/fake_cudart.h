/* SPDX-License-Identifier: Apache-2.0 */
/* fake_cudart.h - of the double of libcudart: the calls of CUDA that it has, and its own. */
#ifndef LAPWING_TESTS_LIB_FAKE_CUDART_H
#define LAPWING_TESTS_LIB_FAKE_CUDART_H

#include <stddef.h>
#include <stdint.h>

struct fake_dim3 {
	unsigned x, y, z;
};

int cuInit(unsigned flags);
int cudaSetDevice(int device);
int cudaMalloc(void **memory, size_t n_bytes);
int cudaMallocAsync(void **memory, size_t n_bytes, void *stream);
int cudaLaunchKernel(const void *kernel, struct fake_dim3 grid, struct fake_dim3 block,
	void **arguments, size_t shared_bytes, void *stream);
int cudaLaunchKernelExC(const void *config, const void *kernel, void **arguments);
int cudaMemcpyAsync(void *to, const void *from, size_t n_bytes, int how, void *stream);
int cudaMemcpyPeerAsync(
	void *to, int to_device, const void *from, int from_device, size_t n_bytes, void *stream);
int cudaMemsetAsync(void *to, int value, size_t n_bytes, void *stream);
int cudaDeviceSynchronize(void);

void fake_cudart_strange(uint32_t kind);
void fake_cudart_kernel_at(const char *name, int64_t start_in_ns, int64_t end_in_ns);

#endif /* LAPWING_TESTS_LIB_FAKE_CUDART_H */
