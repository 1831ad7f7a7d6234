/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda_cases.c - a program that uses CUDA (the double of its runtime) as its first argument says.
 *
 * A "kernel" is its name here: the double of CUPTI gives it on.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/lib/fake_cudart.h"
#include "tracer/lapwing_mark.h"

static char long_name[400];

static void launch(const char *name, size_t stream)
{
	const struct fake_dim3 grid = {1, 2, 3}, block = {4, 5, 6};

	if (cudaLaunchKernel(name, grid, block, NULL, 7, (void *)stream))
		exit(3);
}

static void *launch_some(void *unused)
{
	(void)unused;
	for (int i = 0; i < 200; i++)
		launch("threaded", 3);
	return NULL;
}

/* One of each. */
static void work(void)
{
	void *memory;

	cudaSetDevice(0);
	cudaMalloc(&memory, 4096);
	cudaMemcpyAsync(memory, memory, 4096, 1, (void *)7);
	launch("_Z6matmulPfS_S_i", 7);
	launch(long_name, 7);
	cudaLaunchKernelExC(NULL, "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", NULL);
	cudaMemsetAsync(memory, 0, 512, (void *)7);
	cudaMemcpyPeerAsync(memory, 1, memory, 0, 8192, (void *)9);
	cudaMemcpyAsync(memory, memory, 128, 2, (void *)7);
	cudaDeviceSynchronize();
}

static void rows(void)
{
	work();
}

static void leave_at_once(void)
{
	work();
	_exit(5);
}

static void on_and_off(void)
{
	launch("before", 1);
	lapwing_gpu_stop();
	launch("between", 1);
	lapwing_gpu_start();
	launch("after", 1);
	lapwing_gpu_start(); /* again: nothing */
}

/* Whose clock CUPTI stamps with. */
static const char *clock_of(void *handle)
{
	uint64_t (*now)(void) = (uint64_t(*)(void))dlsym(handle, "fake_cupti_now");
	struct timespec own;
	uint64_t theirs = now ? now() : 0;

	clock_gettime(CLOCK_MONOTONIC, &own);
	return theirs <= (uint64_t)own.tv_sec * 1000000000 + (uint64_t)own.tv_nsec ? "monotonic"
										   : "realtime";
}

/* Another client of CUPTI comes, as torch.profiler does, and goes. */
static void release(void)
{
	int (*subscribe)(void **, void *, void *);
	int (*unsubscribe)(void *);
	void *handle, *own;

	launch("before", 1);
	handle = dlopen("libcupti.so.13", RTLD_LAZY | RTLD_NOLOAD);
	if (!handle)
		exit(4);
	subscribe = (int (*)(void **, void *, void *))dlsym(handle, "cuptiSubscribe");
	unsubscribe = (int (*)(void *))dlsym(handle, "cuptiUnsubscribe");
	printf("held %d %s\n", subscribe(&own, NULL, NULL), clock_of(handle));
	lapwing_gpu_release();
	printf("released %d %s\n", subscribe(&own, NULL, NULL), clock_of(handle));
	launch("between", 1);
	lapwing_gpu_start(); /* still another's */
	unsubscribe(own);
	lapwing_gpu_start();
	launch("after", 1);
	printf("taken %s\n", clock_of(handle));
}

/* As PyTorch's Kineto, which is linked to libcupti: the program's profiler works as it does without us. */
static void profiler(void)
{
	int (*subscribe)(void **, void *, void *), (*unsubscribe)(void *);
	void *own;

	launch("before", 1);
	if (!dlopen("libcupti.so.13", RTLD_NOW | RTLD_GLOBAL))
		exit(4);
	subscribe = (int (*)(void **, void *, void *))dlsym(RTLD_DEFAULT, "cuptiSubscribe");
	unsubscribe = (int (*)(void *))dlsym(RTLD_DEFAULT, "cuptiUnsubscribe");
	printf("subscribed %d\n", subscribe(&own, NULL, NULL));
	launch("the profiler's", 1);
	printf("unsubscribed %d\n", unsubscribe(own));
	launch("nobody's", 1);
	lapwing_gpu_start();
	launch("after", 1);
}

/* An old client, which does not subscribe. */
static void collector(void)
{
	int (*callbacks)(void *, void *);

	launch("before", 1);
	if (!dlopen("libcupti.so.13", RTLD_NOW | RTLD_GLOBAL))
		exit(4);
	callbacks = (int (*)(void *, void *))dlsym(RTLD_DEFAULT, "cuptiActivityRegisterCallbacks");
	printf("registered %d\n", callbacks(NULL, NULL));
	launch("its own", 1);
}

static void child(bool is_to_exec)
{
	int status;
	pid_t pid;

	launch("parent", 1);
	pid = fork();
	if (!pid) {
		launch("child", 1);
		lapwing_mark("child is traced too");
		launch("traced child", 1);
		if (is_to_exec)
			execl("/bin/true", "true", NULL);
		exit(0);
	}
	waitpid(pid, &status, 0);
	printf("child %d\n", status);
	launch("parent again", 1);
}

static void forked(void)
{
	child(false);
}

static void forked_then_exec(void)
{
	child(true);
}

/* As compilers of kernels do, a process of its own that uses CUDA too, with the rank's environment. */
static void helper(void)
{
	int status;
	pid_t pid;

	launch("rank", 1);
	pid = fork();
	if (!pid) {
		execl("/proc/self/exe", "cuda_cases", "rows", NULL);
		_exit(6);
	}
	waitpid(pid, &status, 0);
	printf("helper %d\n", status);
}

static void exec_self(void)
{
	launch("before exec", 1);
	execl("/bin/true", "true", NULL);
}

static void strange(void)
{
	launch("first", 1);
	fake_cudart_strange(77);
	fake_cudart_strange(1000000);
	fake_cudart_kernel_at("backwards", 0, -50000);
	fake_cudart_kernel_at("unfinished", 0, INT64_MIN);
	fake_cudart_kernel_at("never", INT64_MIN, INT64_MIN);
	fake_cudart_kernel_at("earlier", -2000000, -1900000); /* out of order, and overlapping */
	launch("last", 1);
}

static void threads(void)
{
	pthread_t thread[4];

	cudaSetDevice(0); /* while one thread subscribes, what others do may be told in part */
	for (int i = 0; i < 4; i++)
		pthread_create(&thread[i], NULL, launch_some, NULL);
	for (int i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
}

/* More records than a ring holds. */
static void storm(void)
{
	for (int i = 0; i < 40000; i++)
		launch("storm", 1);
}

/* CUDA comes first, and what makes the process interesting later. */
static void late(void)
{
	launch("untraced", 1);
	lapwing_mark("now");
	launch("traced", 1);
}

static void sleepy(void)
{
	launch("seen at once", 1);
	lapwing_mark("launched");
	pause();
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} cases[] = {{"rows", rows}, {"_exit", leave_at_once}, {"on_off", on_and_off},
		{"release", release}, {"fork", forked}, {"fork_exec", forked_then_exec},
		{"exec", exec_self}, {"helper", helper}, {"profiler", profiler},
		{"collector", collector}, {"strange", strange}, {"threads", threads},
		{"storm", storm}, {"late", late}, {"sleepy", sleepy}};

	memset(long_name, 'k', sizeof(long_name) - 1);
	for (size_t i = 0; argc > 1 && i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (strcmp(argv[1], cases[i].name))
			continue;
		puts("begins");
		fflush(stdout);
		cases[i].run();
		puts("ends");
		return 0;
	}
	return 2;
}
