/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_cudart.c - a double of libcudart (and cuInit): nothing is computed, and the double of libcupti hears of
 * it where it is loaded. Work "runs" inside the call that launches it, so that its times are in the past.
 */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "tests/lib/fake_cudart.h"
#include "tests/lib/fake_cupti.h"

#define EXPORT __attribute__((visibility("default")))

/* numbers of cupti_runtime_cbid.h and cupti_driver_cbid.h */
enum {
	CALL_MEMCPY_ASYNC = 41,
	CALL_MEMSET_ASYNC = 51,
	CALL_MALLOC = 20,
	CALL_PEER_ASYNC = 161,
	CALL_DEVICE_SYNCHRONIZE = 165,
	CALL_LAUNCH = 211,
	CALL_LAUNCH_EX = 430,
	CALL_DRIVER_LAUNCH = 307
};

static _Atomic uint32_t n_correlations;
static int current_device;

static void *double_of_cupti(const char *name)
{
	static const char *const libraries[] = {"libcupti.so.13", "libcupti.so.11.0"};
	void *handle = NULL, *symbol = NULL;

	for (size_t i = 0; !handle && i < 2; i++)
		handle = dlopen(libraries[i], RTLD_LAZY | RTLD_NOLOAD);
	if (handle) {
		symbol = dlsym(handle, name);
		dlclose(handle);
	}
	return symbol;
}

/* Calls @name of the double where there is one. */
#define TELL(name, ...)                                                                            \
	do {                                                                                       \
		__typeof__(&name) tell_ = (__typeof__(&name))double_of_cupti(#name);               \
		if (tell_)                                                                         \
			tell_(__VA_ARGS__);                                                        \
	} while (0)

static uint64_t now(void)
{
	__typeof__(&fake_cupti_now) ask =
		(__typeof__(&fake_cupti_now))double_of_cupti("fake_cupti_now");

	return ask ? ask() : 0;
}

struct call {
	uint32_t number, correlation;
	uint64_t start;
	struct fake_work work;
};

static struct call begin(uint32_t number, uint32_t stream)
{
	struct call call = {.number = number,
		.correlation = atomic_fetch_add(&n_correlations, 1) + 1,
		.start = now()};

	call.work.device = (uint32_t)current_device;
	call.work.stream = stream;
	call.work.correlation = call.correlation;
	call.work.start = now();
	for (volatile int i = 0; i < 2000; i++)
		;
	call.work.end = now();
	return call;
}

static void end(const struct call *call)
{
	TELL(fake_cupti_api, false, call->number, call->correlation, call->start, now(), 0);
}

EXPORT int cuInit(unsigned flags)
{
	(void)flags;
	return 0;
}

EXPORT int cudaSetDevice(int device)
{
	current_device = device;
	return 0;
}

EXPORT int cudaMalloc(void **memory, size_t n_bytes)
{
	struct call call = begin(CALL_MALLOC, 0);

	(void)n_bytes;
	*memory = memory;
	end(&call);
	return 0;
}

EXPORT int cudaMallocAsync(void **memory, size_t n_bytes, void *stream)
{
	(void)stream;
	return cudaMalloc(memory, n_bytes);
}

EXPORT int cudaLaunchKernel(const void *kernel, struct fake_dim3 grid, struct fake_dim3 block,
	void **arguments, size_t shared_bytes, void *stream)
{
	struct call call = begin(CALL_LAUNCH, (uint32_t)(uintptr_t)stream);

	(void)arguments;
	/* What comes by value and on the stack arrives as it was given. */
	if (grid.x != 1 || grid.y != 2 || grid.z != 3 || block.z != 6 || shared_bytes != 7)
		return 9;
	TELL(fake_cupti_kernel, &call.work, kernel);
	end(&call);
	return 0;
}

EXPORT int cudaLaunchKernelExC(const void *config, const void *kernel, void **arguments)
{
	struct call call = begin(CALL_LAUNCH_EX, 7);

	(void)config;
	(void)arguments;
	call.work.graph = 5;
	TELL(fake_cupti_kernel, &call.work, kernel);
	/* the driver's call inside the runtime's is told too, and first */
	TELL(fake_cupti_api, true, CALL_DRIVER_LAUNCH, call.correlation, call.start, now(), 0);
	end(&call);
	return 0;
}

EXPORT int cudaMemcpyAsync(void *to, const void *from, size_t n_bytes, int how, void *stream)
{
	struct call call = begin(CALL_MEMCPY_ASYNC, (uint32_t)(uintptr_t)stream);

	(void)to;
	(void)from;
	TELL(fake_cupti_copy, &call.work, how, n_bytes);
	end(&call);
	return 0;
}

EXPORT int cudaMemcpyPeerAsync(
	void *to, int to_device, const void *from, int from_device, size_t n_bytes, void *stream)
{
	struct call call = begin(CALL_PEER_ASYNC, (uint32_t)(uintptr_t)stream);

	(void)to;
	(void)to_device;
	(void)from;
	(void)from_device;
	TELL(fake_cupti_copy, &call.work, FAKE_COPY_PEER, n_bytes);
	end(&call);
	return 0;
}

EXPORT int cudaMemsetAsync(void *to, int value, size_t n_bytes, void *stream)
{
	struct call call = begin(CALL_MEMSET_ASYNC, (uint32_t)(uintptr_t)stream);

	(void)to;
	(void)value;
	TELL(fake_cupti_copy, &call.work, FAKE_COPY_MEMSET, n_bytes);
	end(&call);
	return 0;
}

EXPORT int cudaDeviceSynchronize(void)
{
	struct call call = begin(CALL_DEVICE_SYNCHRONIZE, 0);

	TELL(fake_cupti_sync, 4, UINT32_MAX, call.correlation, call.work.start, call.work.end);
	end(&call);
	return 0;
}

EXPORT void fake_cudart_strange(uint32_t kind)
{
	TELL(fake_cupti_strange, kind);
}

/* A kernel with these times, and no call that launched it. */
EXPORT void fake_cudart_kernel_at(const char *name, int64_t start_in_ns, int64_t end_in_ns)
{
	struct call call = begin(0, 0);

	call.work.start = start_in_ns == INT64_MIN ? 0 : call.work.start + (uint64_t)start_in_ns;
	call.work.end = end_in_ns == INT64_MIN ? 0 : call.work.end + (uint64_t)end_in_ns;
	TELL(fake_cupti_kernel, &call.work, name);
}
