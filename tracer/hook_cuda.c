/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hook_cuda.c - the first use of CUDA in a process: when CUPTI is to be asked.
 *
 * Two ways say it. The driver loads the library that CUDA_INJECTION64_PATH names, in cuInit, whoever called
 * that. Without the variable, or where another tool has it: the calls below, one of which every program makes
 * early, where the program or its libraries link CUDA dynamically. Each is a load and a branch, and a few loads
 * for the real function.
 */
#include "tracer/hook_cupti.h"

struct dim3 { /* as CUDA passes it, by value */
	unsigned x, y, z;
};

enum { NOT_INITIALIZED = 3 }; /* CUDA_ERROR_NOT_INITIALIZED and cudaErrorInitializationError */

int InitializeInjection(void);
int cuInit(unsigned flags);
int cudaSetDevice(int device);
int cudaMalloc(void **memory, size_t n_bytes);
int cudaMallocAsync(void **memory, size_t n_bytes, void *stream);
int cudaLaunchKernel(const void *kernel, struct dim3 grid, struct dim3 block, void **arguments,
	size_t shared_bytes, void *stream);
int cudaLaunchKernelExC(const void *config, const void *kernel, void **arguments);

/* @call: of the real function @name. It is gone only where a program has the name and not the library. */
#define CALL(name, arguments)                                                                      \
	({                                                                                         \
		static struct lw_real_sites sites_;                                                \
		__typeof__(&name) real_ = (__typeof__(&name))lw_real_for(                          \
			#name, __builtin_return_address(0), &sites_);                              \
		bool is_first_ = LW_UNLIKELY(                                                      \
			!atomic_load_explicit(&lw_cupti_is_settled, memory_order_relaxed));        \
		int result_;                                                                       \
		if (is_first_ && real_)                                                            \
			lw_cupti_used();                                                           \
		result_ = real_ ? real_ arguments : NOT_INITIALIZED;                               \
		if (is_first_)                                                                     \
			lw_cupti_driver_is_up();                                                   \
		result_;                                                                           \
	})

LW_EXPORT int cuInit(unsigned flags)
{
	return CALL(cuInit, (flags));
}

LW_EXPORT int cudaSetDevice(int device)
{
	return CALL(cudaSetDevice, (device));
}

LW_EXPORT int cudaMalloc(void **memory, size_t n_bytes)
{
	return CALL(cudaMalloc, (memory, n_bytes));
}

LW_EXPORT int cudaMallocAsync(void **memory, size_t n_bytes, void *stream)
{
	return CALL(cudaMallocAsync, (memory, n_bytes, stream));
}

LW_EXPORT int cudaLaunchKernel(const void *kernel, struct dim3 grid, struct dim3 block,
	void **arguments, size_t shared_bytes, void *stream)
{
	return CALL(cudaLaunchKernel, (kernel, grid, block, arguments, shared_bytes, stream));
}

LW_EXPORT int cudaLaunchKernelExC(const void *config, const void *kernel, void **arguments)
{
	return CALL(cudaLaunchKernelExC, (config, kernel, arguments));
}

/* What the driver calls in the library that CUDA_INJECTION64_PATH names. Return: 1 = goes on. */
LW_EXPORT int InitializeInjection(void)
{
	if (!atomic_load(&lw_cupti_is_settled))
		lw_cupti_injected();
	return 1;
}
