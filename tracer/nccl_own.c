/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nccl_own.c - which handles of operations are this process's; see hook_nccl_plugin.h.
 *
 * NCCL's description of a proxy has the originator's pid, its handle and its context (profiler_v1.h to _v6.h): pids of two
 * containers may be equal, serials begin at 1 in each process, and contexts lie at equal addresses where nothing is laid
 * out at random. A handle is ours to give, and 20 of its bits are of no other use.
 */
#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tracer/hook_nccl_plugin.h"
#include "tracer/nccl_pool.h"

enum {
	NUMBER_AT = 40,
	NUMBER_MAX = 0xfffff
}; /* above the serial, of which nccl_pool.h keeps 40 bits */

static _Atomic uint64_t own; /* pid << 32 | number, 0 = none yet */

static uint32_t draw(int32_t pid)
{
	enum { NO_WAIT = 1 }; /* GRND_NONBLOCK */
	int saved_errno = errno;
	uint64_t number = 0;

	if (syscall(SYS_getrandom, &number, sizeof(number), NO_WAIT) != (long)sizeof(number)) {
		number = (uint64_t)lw_now_ns() ^ (uint64_t)(uintptr_t)&number ^ (uint64_t)pid << 17;
		number = (number ^ number >> 31) * UINT64_C(0x9e3779b97f4a7c15) >> 40;
	}
	errno = saved_errno;
	return (uint32_t)(number % NUMBER_MAX) + 1;
}

void lw_nccl_own_begin(void)
{
	int32_t pid = (int32_t)syscall(SYS_getpid);
	uint64_t known = atomic_load(&own);

	while ((int32_t)(known >> 32) != pid && !atomic_compare_exchange_weak(&own, &known,
							(uint64_t)(uint32_t)pid << 32 | draw(pid)))
		;
}

static uint64_t own_number(void)
{
	return atomic_load_explicit(&own, memory_order_relaxed) & NUMBER_MAX;
}

uint64_t lw_nccl_own(uint64_t handle)
{
	return handle | own_number() << NUMBER_AT;
}

static bool is_own(uint64_t handle)
{
	uint64_t number = handle >> NUMBER_AT & NUMBER_MAX;

	return number && number == own_number();
}

uint64_t lw_nccl_own_handle(uint64_t handle)
{
	return is_own(handle) ? handle & ~((uint64_t)NUMBER_MAX << NUMBER_AT)
			      : lw_nccl_handle(LW_NCCL_HANDLE_NONE, 0);
}

/* Of an operation that is written already its communicator is not known any more. */
static bool is_of_other_comm(uint64_t handle, const struct lw_nccl_comm *comm)
{
	uint64_t serial = lw_nccl_handle_value(handle);
	const struct lw_nccl_place *op = lw_nccl_place(serial);
	uint64_t word = atomic_load(&op->word);
	const struct lw_nccl_comm *known;

	if (lw_nccl_handle_kind(handle) != LW_NCCL_HANDLE_OP ||
		lw_nccl_word_serial(word) != serial || lw_nccl_word_state(word) != LW_OP_STARTED)
		return false;
	known = atomic_load(&op->comm);
	return known && comm && known != comm;
}

bool lw_nccl_own_parent(struct lw_nccl_event *event, const struct lw_nccl_comm *comm)
{
	uint64_t handle = lw_nccl_own_handle(event->parent);
	bool has_pid = event->kind != LW_NCCL_PROFILE_KERNEL_CH;

	if (!is_own(event->parent) || is_of_other_comm(handle, comm) ||
		(has_pid && event->pid != (int32_t)(atomic_load(&own) >> 32)))
		return false;
	event->parent = handle;
	return true;
}
