/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lapwing_mark.h - tell lapwing where a step or a phase of your program begins and ends, and when to look at the GPU.
 *
 * Include it and call; there is nothing to link. The functions live in liblapwing.so, which
 * `lapwing record` preloads; without it every call is a test of an address and does nothing. The first
 * mark makes lapwing trace a process that calls no communication library it knows.
 *
 * The names are macros so that an absent function is never called; `(lapwing_mark)("x")` would be. A
 * program linked with -no-pie must still be compiled with -fPIE or -fPIC, else its linker decides that they are absent.
 * Other languages: call the same names, e.g. ctypes.CDLL(None).lapwing_mark_step(7) in Python,
 * after asking whether they exist (examples/mark.py).
 */
#ifndef LAPWING_TRACER_LAPWING_MARK_H
#define LAPWING_TRACER_LAPWING_MARK_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * lapwing_mark_step() - training step @step begins here, on this rank.
 * @step: your own count, any start; equal on all ranks for the same step
 */
__attribute__((weak)) void lapwing_mark_step(int64_t step);

/** lapwing_mark() - something called @name happened now. @name: copied, cut to 1020 bytes; not NULL. */
__attribute__((weak)) void lapwing_mark(const char *name);

/**
 * lapwing_range_push(), lapwing_range_pop() - a range called @name, nested per thread, at most 32 deep;
 * deeper ones are counted and not recorded. A pop without a push does nothing.
 */
__attribute__((weak)) void lapwing_range_push(const char *name);
__attribute__((weak)) void lapwing_range_pop(void);

/**
 * lapwing_gpu_start(), lapwing_gpu_stop() - record what the GPU does from here on, or no more. Recording is on
 * from the first use of CUDA unless LAPWING_GPU says otherwise; these may be called as often as wanted.
 * lapwing_gpu_release() - give CUPTI to somebody else: a process has one client of it at a time. A profiler of the
 * program's own that is linked to it gets it unasked (torch.profiler); call this before one that loads it by
 * dlopen, and lapwing_gpu_start() when it has unsubscribed.
 */
__attribute__((weak)) void lapwing_gpu_start(void);
__attribute__((weak)) void lapwing_gpu_stop(void);
__attribute__((weak)) void lapwing_gpu_release(void);

/**
 * lapwing_nccl_start(), lapwing_nccl_stop() - record NCCL's operations from here on, or no more (what is under way
 * is recorded to its end). Recording is on from the first communicator; these may be called as often as wanted.
 */
__attribute__((weak)) void lapwing_nccl_start(void);
__attribute__((weak)) void lapwing_nccl_stop(void);

#ifdef __cplusplus
}
#endif

#define lapwing_mark_step(step)  (lapwing_mark_step ? lapwing_mark_step(step) : (void)0)
#define lapwing_mark(name)       (lapwing_mark ? lapwing_mark(name) : (void)0)
#define lapwing_range_push(name) (lapwing_range_push ? lapwing_range_push(name) : (void)0)
#define lapwing_range_pop()      (lapwing_range_pop ? lapwing_range_pop() : (void)0)
#define lapwing_gpu_start()      (lapwing_gpu_start ? lapwing_gpu_start() : (void)0)
#define lapwing_gpu_stop()       (lapwing_gpu_stop ? lapwing_gpu_stop() : (void)0)
#define lapwing_gpu_release()    (lapwing_gpu_release ? lapwing_gpu_release() : (void)0)
#define lapwing_nccl_start()     (lapwing_nccl_start ? lapwing_nccl_start() : (void)0)
#define lapwing_nccl_stop()      (lapwing_nccl_stop ? lapwing_nccl_stop() : (void)0)

#endif /* LAPWING_TRACER_LAPWING_MARK_H */
