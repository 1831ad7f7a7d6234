/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hook_cupti.c - when CUPTI is asked what the GPU does, and when it is left alone.
 *
 * Writes: HOOK "cupti" records; what CUPTI tells is written by cupti_buffers.c. Subscribed at the first use of
 * CUDA in a process that is traced, or whose launcher says which rank it is; a process that merely has CUDA
 * is no reason to trace it. CUPTI has one client: where another one has it, it keeps it, and where the program's
 * own profiler comes for it later, it gets it. Given back by cuptiUnsubscribe(); cuptiFinalize() would end
 * another client that came in between, and has crashed jobs.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "schema/launcher.h"
#include "schema/rundir.h"
#include "tracer/cupti.h"
#include "tracer/cupti_layout.h"
#include "tracer/hook_cupti.h"
#include "tracer/lapwing_mark.h"

#undef lapwing_gpu_start
#undef lapwing_gpu_stop
#undef lapwing_gpu_release

_Atomic bool lw_cupti_is_attached;
_Atomic bool lw_cupti_is_settled;

/* OFF to RELEASED are what the program may change by lapwing_gpu_*(). */
enum state { UNSETTLED, OFF, ON, STOPPED, RELEASED, REFUSED, ENDED };

static struct lw_cupti_api api;
static void *subscriber;
static enum state state;                 /* changed by who has is_held */
static _Atomic bool is_held;             /* somebody subscribes, starts, stops or ends */
static uint32_t how;                     /* bits of LW_CUPTI_ASK_ */
static bool is_clock_ours;               /* CUPTI asks us for the time */
static _Atomic bool is_clock_given_back; /* others are to read the clock that CUPTI has by itself */
static _Atomic bool is_cuda_used, is_inside_init;
static pid_t owner; /* whose CUPTI it is: not a forked child's */

static const int64_t flush_patience_ns = 2000000000; /* of a process that ends */

static bool try_hold(void)
{
	return !atomic_exchange(&is_held, true);
}

/* For the program's own requests, which may take the time that CUPTI takes. */
static bool hold(void)
{
	const struct timespec nap = {.tv_nsec = 1000000};
	int saved_errno = errno;
	bool is_ours = try_hold();

	for (int i = 0; i < 5000 && !is_ours; i++) {
		syscall(SYS_nanosleep, &nap, NULL);
		is_ours = try_hold();
	}
	errno = saved_errno;
	return is_ours;
}

static void let_go(void)
{
	atomic_store(&is_held, false);
}

/* ---- reports ---------------------------------------------------------------------------------------- */

/* Path of another library that the driver was told to load; NULL = none, or ours. */
static const char *other_injection(void)
{
	const char *path = getenv("CUDA_INJECTION64_PATH"), *name;

	if (!path || !*path)
		return NULL;
	name = strrchr(path, '/');
	return strncmp(name ? name + 1 : path, "liblapwing", 10) ? path : NULL;
}

static void refuse(enum lw_hook_status status, const char *why)
{
	const char *other = other_injection();
	char text[LW_STRING_MAX_BYTES];

	snprintf(text, sizeof(text), "%s%s%s", why,
		other ? "; CUDA_INJECTION64_PATH is another's: " : "", other ? other : "");
	lw_hook_report("cupti", status, 0, text);
}

static void report_active(uint32_t n_kinds)
{
	const char *other = other_injection();
	char text[LW_STRING_MAX_BYTES];

	snprintf(text, sizeof(text), "%s, CUPTI %u%s%s%s%s", api.path, api.version,
		is_clock_ours ? "" : ", its times converted by the offset of its clock",
		how & LW_CUPTI_ASK_GRAPHS ? ", graphs as a whole" : "",
		other ? "; CUDA_INJECTION64_PATH is another's: " : "", other ? other : "");
	lw_hook_report("cupti", LW_HOOK_ACTIVE, n_kinds, text);
}

static void refuse_result(const char *call, int result, const char *holder)
{
	const char *name = NULL;
	char text[512];

	if (!api.GetResultString || api.GetResultString(result, &name))
		name = NULL;
	if (result == LW_CUPTI_ERROR_MULTIPLE_SUBSCRIBERS)
		snprintf(text, sizeof(text), "%s: another has CUPTI: %s", api.path,
			*holder ? holder : "nsys, ncu, a debugger, or a profiler in the program");
	else
		snprintf(text, sizeof(text), "%s: %s: %s (%d)%s", api.path, call,
			name ? name : "error", result,
			result == LW_CUPTI_ERROR_UNKNOWN || result == LW_CUPTI_ERROR_NOT_INITIALIZED
				? ": no driver, or no GPU?"
				: "");
	refuse(LW_HOOK_REFUSED, text);
}

/* ---- subscribed ------------------------------------------------------------------------------------- */

static void ignore_callback(void *user, int domain, uint32_t call, const void *what)
{
	(void)user; /* none is enabled: the subscription only says that CUPTI is taken */
	(void)domain;
	(void)call;
	(void)what;
}

static void end(void)
{
	if (try_hold()) {
		if (lw_is_live() && (state == ON || state == STOPPED) &&
			owner == (pid_t)syscall(SYS_getpid)) {
			if (!lw_cupti_reader_flush(flush_patience_ns))
				lw_loss(LW_LOSS_UNENDED, 1, "cupti buffers not flushed in time");
			lw_cupti_reader_flow(LW_CUPTI_FLOW_CLOSED);
			atomic_store(&lw_cupti_is_attached, false);
			state = ENDED;
		}
		let_go();
	}
}

void lw_cupti_driver_is_up(void)
{
	static _Atomic bool is_done;

	/* The last to be registered is the first to be called: the driver is whole then. */
	if (atomic_load(&lw_cupti_is_attached) && !atomic_exchange(&is_done, true))
		atexit(end);
}

static uint64_t tell_time(void)
{
	struct timespec now;

	if (!atomic_load_explicit(&is_clock_given_back, memory_order_relaxed))
		return (uint64_t)lw_now_ns();
	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static bool subscribe(void)
{
	char holder[128] = "";
	struct lw_cupti_subscribe_params params = {
		sizeof(params), "lapwing", holder, sizeof(holder)};
	int result = api.Subscribe(&subscriber, ignore_callback, NULL);

	if (result == LW_CUPTI_ERROR_MULTIPLE_SUBSCRIBERS && api.Subscribe_v2)
		result = api.Subscribe_v2(&subscriber, ignore_callback, NULL, &params);
	holder[sizeof(holder) - 1] = '\0';
	if (result)
		refuse_result("cuptiSubscribe", result, holder);
	return !result;
}

/* Subscribed: sets all up. Return: false = not to be had, which is reported; then it is to be given back. */
static bool set_up(void)
{
	static bool is_told_at_exit;
	int result =
		api.ActivityRegisterCallbacks(lw_cupti_buffer_requested, lw_cupti_buffer_completed);
	bool is_tid_of_kernel;
	uint32_t n;

	if (result) {
		refuse_result("cuptiActivityRegisterCallbacks", result, "");
		return false;
	}
	atomic_store(&is_clock_given_back, false);
	is_clock_ours = api.ActivityRegisterTimestampCallback &&
			!api.ActivityRegisterTimestampCallback(tell_time);
	is_tid_of_kernel = api.SetThreadIdType && !api.SetThreadIdType(LW_CUPTI_THREAD_ID_SYSTEM);
	/* Frameworks ask again and again whether an event has happened: only the last answer is wanted. */
	if (api.ActivityEnableAllSyncRecords)
		api.ActivityEnableAllSyncRecords(0);
	lw_cupti_reader_clock(is_clock_ours, is_tid_of_kernel);
	if (!lw_cupti_reader_start(&api)) {
		refuse(LW_HOOK_REFUSED, "no thread can be started to read its buffers");
		return false;
	}
	lw_cupti_reader_flow(LW_CUPTI_FLOW_OPEN);
	result = lw_cupti_enable(&api, how, &n);
	if (result) {
		refuse_result("cuptiActivityEnable", result, "");
		lw_cupti_reader_flow(LW_CUPTI_FLOW_CLOSED);
		return false;
	}
	owner = (pid_t)syscall(SYS_getpid);
	atomic_store(&lw_cupti_is_attached, true);
	if (!is_told_at_exit)
		is_told_at_exit = !atexit(end);
	report_active(n);
	return true;
}

/* Held, and ON or STOPPED: all that CUPTI has is told, and it is free for another client. */
static void give_up(const char *why)
{
	if (state == ON)
		lw_cupti_disable(&api, how);
	atomic_store(&lw_cupti_is_attached, false);
	if (!lw_cupti_reader_flush(flush_patience_ns))
		lw_loss(LW_LOSS_UNENDED, 1, "cupti buffers not flushed in time");
	lw_cupti_reader_flow(LW_CUPTI_FLOW_CLOSED);
	atomic_store(&is_clock_given_back, true);
	api.Unsubscribe(subscriber);
	lw_hook_report("cupti", LW_HOOK_REFUSED, 0, why);
	state = RELEASED;
}

static enum state attach(void)
{
	char why[512];

	/* Once found it stays: other threads may be about to call it. */
	if (!api.Subscribe && !lw_cupti_find(&api, why, sizeof(why))) {
		refuse(LW_HOOK_ABSENT, why);
		return REFUSED;
	}
	if (!subscribe())
		return REFUSED;
	if (set_up())
		return ON;
	api.Unsubscribe(subscriber);
	return REFUSED;
}

/* As the environment, or the program itself, wants it. */
static enum state begin(bool is_asked)
{
	bool is_mode_set;
	enum lw_cupti_mode mode = lw_cupti_mode(&is_mode_set);
	char text[128];

	how = mode == LW_CUPTI_MODE_GRAPHS ? LW_CUPTI_ASK_GRAPHS : 0;
	if (atomic_load(&is_inside_init))
		how |= LW_CUPTI_ASK_INSIDE;
	if (mode == LW_CUPTI_MODE_UNKNOWN) {
		snprintf(text, sizeof(text), LW_ENV_GPU "=%.60s: on, graphs, off or release",
			getenv(LW_ENV_GPU));
		refuse(LW_HOOK_REFUSED, text);
		return REFUSED;
	}
	if (mode == LW_CUPTI_MODE_RELEASE) {
		refuse(LW_HOOK_REFUSED, LW_ENV_GPU "=release: left to others");
		return REFUSED;
	}
	if (mode == LW_CUPTI_MODE_OFF && !is_asked) {
		refuse(LW_HOOK_REFUSED, LW_ENV_GPU "=off: not before lapwing_gpu_start()");
		return OFF;
	}
	if (!is_mode_set && !is_asked && lw_cupti_is_kineto_daemon()) {
		refuse(LW_HOOK_REFUSED, "KINETO_USE_DAEMON is set: left to Kineto (" LW_ENV_GPU
					"=on takes it all the same)");
		return OFF;
	}
	return attach();
}

/* ---- first use of CUDA ------------------------------------------------------------------------------ */

static bool is_wanted(void)
{
	static _Atomic int8_t known; /* 1 yes, -1 no, 0 = not asked yet */
	int8_t answer = atomic_load_explicit(&known, memory_order_relaxed);

	if (!answer) {
		answer = lw_hook_wanted("cupti") ? 1 : -1;
		atomic_store_explicit(&known, answer, memory_order_relaxed);
	}
	return answer > 0;
}

static bool is_of_interest(void)
{
	static _Atomic int8_t
		known; /* 1: the launcher has given this process a rank, and no helper of it */
	int8_t answer = atomic_load_explicit(&known, memory_order_relaxed);

	if (lw_is_live())
		return true;
	if (!answer) {
		answer =
			lw_place_from_environment().rank >= 0 && !lw_has_traced_ancestor() ? 1 : -1;
		atomic_store_explicit(&known, answer, memory_order_relaxed);
	}
	return answer > 0 && lw_activate(LW_FRAMEWORK_NONE, LW_TRANSPORT_NONE);
}

void lw_cupti_used(void)
{
	int saved_errno = errno;

	atomic_store(&is_cuda_used, true);
	if (!is_wanted()) {
		atomic_store(&lw_cupti_is_settled, true);
	} else if (!lw_tls.busy && !is_of_interest()) {
		/* lw_cupti_activated() comes back to it; unless it was here just now, and saw no use yet. */
		atomic_store(&lw_cupti_is_settled, true);
		atomic_thread_fence(memory_order_seq_cst);
		if (lw_is_live())
			atomic_store(&lw_cupti_is_settled, false);
	} else if (!lw_tls.busy && try_hold()) {
		if (state == UNSETTLED)
			state = begin(false);
		atomic_store(&lw_cupti_is_settled, true);
		let_go();
	}
	errno = saved_errno;
}

void lw_cupti_injected(void)
{
	atomic_store(&is_inside_init, true);
	lw_cupti_used();
	atomic_store(&is_inside_init, false);
}

/* The process is traced from now on: it may have used CUDA before. */
void lw_cupti_activated(void)
{
	atomic_thread_fence(memory_order_seq_cst); /* pairs with the one above */
	if (atomic_load(&is_cuda_used))
		lw_cupti_used(); /* does nothing where it has been settled for good */
}

void lw_cupti_forget(void)
{
	bool was_attached = state == ON || state == STOPPED || state == RELEASED;

	lw_cupti_reader_forget();
	atomic_store(&lw_cupti_is_attached, false);
	atomic_store(&is_cuda_used, false);
	atomic_store(&is_held, false);
	/* What CUDA and CUPTI were in the parent they are not in its child. */
	state = was_attached ? ENDED : UNSETTLED;
	atomic_store(&lw_cupti_is_settled, was_attached);
}

/* The driver failed, or was called past us: a user who called CUDA looks for a word on it. */
static void tell_unused(void)
{
	char text[400];

	if (state != UNSETTLED || atomic_load(&is_cuda_used) || !lw_hook_wanted("cupti") ||
		!lw_cupti_is_cuda_loaded(text, sizeof(text)) || !try_hold())
		return;
	refuse(LW_HOOK_ABSENT, text);
	state = ENDED;
	let_go();
}

void lw_cupti_flush(void)
{
	tell_unused();
	if (atomic_load(&lw_cupti_is_attached) && owner == (pid_t)syscall(SYS_getpid) &&
		!lw_cupti_reader_flush(flush_patience_ns))
		lw_loss(LW_LOSS_UNENDED, 1, "cupti buffers not flushed in time");
}

void lw_cupti_yield(const void *caller)
{
	int saved_errno = errno;
	char why[300];
	Dl_info where;

	if (!atomic_load(&lw_cupti_is_attached) || !lw_is_live() || !hold())
		return;
	if (state == ON || state == STOPPED) {
		snprintf(why, sizeof(why),
			"given up: the program's own profiler takes CUPTI: %.200s",
			dladdr(caller, &where) && where.dli_fname ? where.dli_fname : "?");
		give_up(why);
	}
	let_go();
	errno = saved_errno;
}

/* ---- for the other hooks ---------------------------------------------------------------------------- */

static int external_kind(enum lw_launch_for made_for)
{
	return made_for == LW_LAUNCH_FOR_NCCL_OP ? LW_CUPTI_EXTERNAL_CUSTOM0
						 : LW_CUPTI_EXTERNAL_CUSTOM1;
}

void lw_cupti_push(enum lw_launch_for made_for, uint64_t serial)
{
	int saved_errno = errno;

	if (lw_is_live() && api.ActivityPushExternalCorrelationId)
		api.ActivityPushExternalCorrelationId(external_kind(made_for), serial);
	errno = saved_errno;
}

void lw_cupti_pop(enum lw_launch_for made_for)
{
	int saved_errno = errno;
	uint64_t serial;

	if (lw_is_live() && api.ActivityPopExternalCorrelationId)
		api.ActivityPopExternalCorrelationId(external_kind(made_for), &serial);
	errno = saved_errno;
}

/* ---- for the program -------------------------------------------------------------------------------- */

LW_EXPORT void lapwing_gpu_start(void)
{
	int saved_errno = errno, result;
	uint32_t n;

	if (is_wanted() && lw_activate(LW_FRAMEWORK_NONE, LW_TRANSPORT_NONE) && hold()) {
		if (state == STOPPED) {
			result = lw_cupti_enable(&api, how, &n);
			if (result)
				refuse_result("cuptiActivityEnable", result, "");
			else
				report_active(n);
			state = result ? STOPPED : ON;
		} else if (state != ON && state != ENDED) {
			state = begin(true);
		}
		atomic_store(&lw_cupti_is_settled, true);
		let_go();
	}
	errno = saved_errno;
}

LW_EXPORT void lapwing_gpu_stop(void)
{
	int saved_errno = errno;

	if (!is_wanted() || !hold())
		return;
	if (state == ON && lw_is_live()) {
		lw_cupti_disable(&api, how); /* what has begun is told when it has ended */
		lw_hook_report("cupti", LW_HOOK_REFUSED, 0, "stopped by lapwing_gpu_stop()");
		state = STOPPED;
	} else if (state == UNSETTLED) {
		state = OFF;
		atomic_store(&lw_cupti_is_settled, true);
	}
	let_go();
	errno = saved_errno;
}

LW_EXPORT void lapwing_gpu_release(void)
{
	int saved_errno = errno;

	if (!is_wanted() || !hold())
		return;
	if ((state == ON || state == STOPPED) && lw_is_live()) {
		give_up("released by lapwing_gpu_release()");
	} else if (state == UNSETTLED) {
		state = RELEASED;
		atomic_store(&lw_cupti_is_settled, true);
	}
	let_go();
	errno = saved_errno;
}
