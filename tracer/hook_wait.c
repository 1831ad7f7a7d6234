/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hook_wait.c - when the training thread has nothing left to compute: WAIT records.
 *
 * Horovod's synchronize() polls its handle and gives the processor away between two polls: torch's
 * with sched_yield, others with a short sleep. So such a call from the extension's own code, on a
 * thread that is not Horovod's own, is a wait; polls that follow each other closely are one wait.
 * For every other caller of these functions: two loads, a compare and a jump.
 */
#include <sched.h>
#include <time.h>
#include <unistd.h>

#include "tracer/hook_horovod.h"

/* clang-format off */
#define REAL_FUNCTIONS(X) X(sched_yield) X(nanosleep) X(clock_nanosleep) X(usleep)
/* clang-format on */

static struct {
#define X(name) __typeof__(&name) name;
	REAL_FUNCTIONS(X)
#undef X
} real;

/* At load time, not at the first call; see hook_socket.c. */
__attribute__((constructor)) static void resolve(void)
{
#define X(name) real.name = (__typeof__(&name))lw_real(#name);
	REAL_FUNCTIONS(X)
#undef X
}

/* Other libraries' constructors may call before ours ran. */
#define REAL(name) (*(LW_UNLIKELY(!real.name) ? (resolve(), real.name) : real.name))

/* Polls further apart than this are two waits: the thread did something else meanwhile. Python needs about
 * half of it from one handle to the next. */
static const int64_t same_wait_ns = 50000;
/* A wait that lasts is told in pieces, so that a job that hangs and is killed has told its last wait. */
static const int64_t longest_piece_ns = 100000000;

static bool is_horovods(const void *caller)
{
	uint32_t n = atomic_load_explicit(&lw_hvd_n_extensions, memory_order_acquire);

	for (uint32_t i = 0; i < n; i++)
		if ((uintptr_t)caller - lw_hvd_extensions[i].text_start <
			lw_hvd_extensions[i].text_end - lw_hvd_extensions[i].text_start)
			return true;
	return false;
}

static bool is_wait(const void *caller)
{
	return is_horovods(caller) && lw_is_live() && lw_hvd_tls.role != LW_HVD_ROLE_BACKGROUND &&
	       lw_hvd_tls.role != LW_HVD_ROLE_OTHER && lw_hook_wanted("wait");
}

void lw_hvd_wait_ends(void)
{
	struct lw_event event = {.kind = LW_EV_WAIT, .op = lw_hvd_tls.wait_op};

	if (!lw_hvd_tls.wait_op)
		return;
	lw_hvd_tls.wait_op = 0;
	event.t0_ns = lw_hvd_tls.wait_start_ns;
	event.t1_ns = lw_hvd_tls.wait_end_ns;
	lw_record(&event);
}

static void poll_begins(enum lw_wait_op op)
{
	int64_t now_ns = lw_now_ns();

	if (lw_hvd_tls.wait_op == op && now_ns - lw_hvd_tls.wait_end_ns < same_wait_ns &&
		now_ns - lw_hvd_tls.wait_start_ns < longest_piece_ns)
		return;
	lw_hvd_wait_ends();
	lw_hvd_tls.wait_op = (uint16_t)op;
	lw_hvd_tls.wait_start_ns = now_ns;
}

static void poll_ends(void)
{
	lw_hvd_tls.wait_end_ns = lw_now_ns();
}

LW_EXPORT int sched_yield(void)
{
	int result;

	if (!is_wait(__builtin_return_address(0)))
		return REAL(sched_yield)();
	poll_begins(LW_WAIT_POLL_YIELD);
	result = REAL(sched_yield)();
	poll_ends();
	return result;
}

LW_EXPORT int nanosleep(const struct timespec *wanted, struct timespec *left)
{
	int result;

	if (!is_wait(__builtin_return_address(0)))
		return REAL(nanosleep)(wanted, left);
	poll_begins(LW_WAIT_POLL_SLEEP);
	result = REAL(nanosleep)(wanted, left);
	poll_ends();
	return result;
}

LW_EXPORT int clock_nanosleep(
	clockid_t clock, int flags, const struct timespec *wanted, struct timespec *left)
{
	int result;

	if (!is_wait(__builtin_return_address(0)))
		return REAL(clock_nanosleep)(clock, flags, wanted, left);
	poll_begins(LW_WAIT_POLL_SLEEP);
	result = REAL(clock_nanosleep)(clock, flags, wanted, left);
	poll_ends();
	return result;
}

LW_EXPORT int usleep(useconds_t wanted)
{
	int result;

	if (!is_wait(__builtin_return_address(0)))
		return REAL(usleep)(wanted);
	poll_begins(LW_WAIT_POLL_SLEEP);
	result = REAL(usleep)(wanted);
	poll_ends();
	return result;
}
