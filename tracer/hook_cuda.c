/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hook_cuda.c - the first use of CUDA in a process, when CUPTI is to be asked, and of CUPTI by the program, when
 * it is to be given up: a profiler that works without us must work with us (PyTorch's Kineto is linked to
 * libcupti, and takes it when torch.profiler is first used).
 *
 * Two ways say it. The driver loads the library that CUDA_INJECTION64_PATH names, in cuInit, whoever called
 * that. Without the variable, or where another tool has it: the calls below, one of which every program makes
 * early, where the program or its libraries link CUDA dynamically. Each is a load and a branch, and a few loads
 * for the real function.
 */
#include "tracer/cupti_layout.h"
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
int cuptiSubscribe(void **subscriber, lw_cupti_callback callback, void *user);
int cuptiSubscribe_v2(void **subscriber, lw_cupti_callback callback, void *user, void *params);
int cuptiActivityRegisterCallbacks(void *requested, void *completed);

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

/* ---- the program's own profiler ------------------------------------------------------------------------ */

#define CALL_CUPTI(name, arguments)                                                                \
	({                                                                                         \
		static struct lw_real_sites sites_;                                                \
		const void *caller_ = __builtin_return_address(0);                                 \
		__typeof__(&name) real_ = (__typeof__(&name))lw_real_for(                          \
			#name, __builtin_return_address(0), &sites_);                              \
		lw_cupti_yield(caller_);                                                           \
		real_ ? real_ arguments : LW_CUPTI_ERROR_UNKNOWN;                                  \
	})

LW_EXPORT int cuptiSubscribe(void **subscriber, lw_cupti_callback callback, void *user)
{
	return CALL_CUPTI(cuptiSubscribe, (subscriber, callback, user));
}

LW_EXPORT int cuptiSubscribe_v2(
	void **subscriber, lw_cupti_callback callback, void *user, void *params)
{
	return CALL_CUPTI(cuptiSubscribe_v2, (subscriber, callback, user, params));
}

/* Of clients that do not subscribe: from here on the buffers would be theirs. */
LW_EXPORT int cuptiActivityRegisterCallbacks(void *requested, void *completed)
{
	return CALL_CUPTI(cuptiActivityRegisterCallbacks, (requested, completed));
}

/* ---- the driver ---------------------------------------------------------------------------------------- */

/* What the driver calls in the library that CUDA_INJECTION64_PATH names. Return: 1 = goes on. */
LW_EXPORT int InitializeInjection(void)
{
	if (!atomic_load(&lw_cupti_is_settled))
		lw_cupti_injected();
	return 1;
}
