/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hook_horovod_thread.c - Horovod's own threads: who they are, and what they leave untold.
 */
#include "tracer/cupti.h"
#include "tracer/hook_horovod.h"

_Thread_local struct lw_hvd_tls lw_hvd_tls;

enum { MAX_THREADS = 16 };
static struct lw_hvd_thread threads[MAX_THREADS];

struct lw_hvd_thread *lw_hvd_thread(void)
{
	for (size_t i = 0; !lw_hvd_tls.thread && i < MAX_THREADS; i++) {
		bool idle = false;

		if (atomic_compare_exchange_strong(&threads[i].is_taken, &idle, true))
			lw_hvd_tls.thread = &threads[i];
	}
	return lw_hvd_tls.thread;
}

/* ---- begun and not told ---------------------------------------------------------------------------- */

void lw_hvd_open(int what, const struct lw_event *event, uintptr_t frame)
{
	struct lw_hvd_thread *thread = lw_hvd_thread();

	if (!thread)
		return;
	thread->open[what].event = *event;
	thread->open[what].frame = frame;
	/* pairs with the exchange in tell_open() */
	atomic_store_explicit(&thread->open[what].is_open, true, memory_order_release);
}

bool lw_hvd_is_open(int what)
{
	return lw_hvd_tls.thread &&
	       atomic_load_explicit(&lw_hvd_tls.thread->open[what].is_open, memory_order_relaxed);
}

bool lw_horovod_in_control(void)
{
	return lw_hvd_tls.role == LW_HVD_ROLE_BACKGROUND && lw_horovod_is_hooked() &&
	       !lw_hvd_is_open(LW_HVD_OPEN_BATCH);
}

void lw_hvd_close(int what, const struct lw_event *event)
{
	if (lw_hvd_tls.thread)
		atomic_store_explicit(
			&lw_hvd_tls.thread->open[what].is_open, false, memory_order_relaxed);
	lw_record(event);
}

static void tell_open(struct lw_hvd_thread *thread, int what, uint16_t flags)
{
	struct lw_event event;

	if (!atomic_exchange_explicit(&thread->open[what].is_open, false, memory_order_acquire))
		return;
	event = thread->open[what].event;
	event.t1_ns = lw_now_ns();
	if (event.kind == LW_EV_BATCH)
		event.batch.flags |= flags;
	else
		event.collective.flags |= flags;
	lw_record(&event);
}

void lw_hvd_close_thrown(uintptr_t frame)
{
	struct lw_hvd_thread *thread = lw_hvd_tls.thread;

	/* Innermost first. A deeper frame than ours cannot be running any more. */
	for (int what = LW_HVD_N_OPEN - 1; thread && what >= 0; what--)
		if (thread->open[what].frame <= frame) {
			if (what == LW_HVD_OPEN_BATCH && lw_hvd_is_open(what))
				lw_cupti_leave(LW_LAUNCH_FOR_BATCH);
			tell_open(thread, what, LW_COLL_FAILED);
		}
}

static void thread_ends(void)
{
	struct lw_hvd_thread *thread = lw_hvd_tls.thread;

	if (!thread)
		return;
	lw_hvd_close_thrown(UINTPTR_MAX);
	lw_hvd_probe_thread_ends();
	lw_hvd_cycle_flush(thread);
	lw_hvd_tls.thread = NULL;
	thread->n_last = 0;
	thread->is_work_done = false;
	atomic_store_explicit(&thread->is_taken, false, memory_order_release);
}

/* The end of the process; its background threads may be running still, or be gone without a word. */
void lw_horovod_flush(void)
{
	lw_hvd_wait_ends();
	for (size_t i = 0; i < MAX_THREADS; i++) {
		if (!atomic_load_explicit(&threads[i].is_taken, memory_order_acquire))
			continue;
		lw_hvd_cycle_flush(&threads[i]);
		tell_open(&threads[i], LW_HVD_OPEN_WIRE, LW_COLL_UNFINISHED);
		tell_open(&threads[i], LW_HVD_OPEN_BATCH, LW_COLL_UNFINISHED);
	}
}

/* ---- who they are ---------------------------------------------------------------------------------- */

static void report(struct lw_hvd_extension *extension)
{
	static const struct {
		const char *name, *missing;
		enum lw_hvd_group group;
	} parts[] = {
		{"horovod.controller", "no controller's vtable is exported", LW_HVD_CONTROLLER},
		{"horovod.execute", "no operation's vtable is exported", LW_HVD_EXECUTE},
		{"horovod.ready", "no tensor class is exported", LW_HVD_READY},
		{"horovod.settings", "no parameter manager is exported", LW_HVD_ENABLED},
		{"horovod.gloo", "built without Gloo", LW_HVD_GLOO},
	};

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		uint32_t n = lw_hvd_slots_in_place(extension, parts[i].group);

		if (n)
			lw_hook_report(parts[i].name, LW_HOOK_ACTIVE, n, extension->path);
		else
			lw_hook_report(parts[i].name, LW_HOOK_ABSENT, 0, parts[i].missing);
	}
	if (!extension->string_bytes || !extension->call.tensor_names)
		lw_hook_report("horovod.names", LW_HOOK_REFUSED, 0,
			"this build's strings are of an unknown kind");
}

static void confirm_place(struct lw_hvd_extension *extension)
{
	int rank = extension->call.rank ? extension->call.rank() : -1;
	int size = extension->call.size ? extension->call.size() : -1;

	if (rank < 0 || size <= 0) /* not initialised yet */
		return;
	extension->is_placed = true;
	lw_place_confirmed(rank, size);
}

void lw_hvd_background_seen(struct lw_hvd_extension *extension)
{
	if (lw_hvd_tls.role != LW_HVD_ROLE_BACKGROUND) {
		lw_hvd_tls.role = LW_HVD_ROLE_BACKGROUND;
		if (!lw_activate(LW_FRAMEWORK_HOROVOD, LW_TRANSPORT_NONE))
			return;
		extension->is_placed = false; /* elastic jobs start it again, with other ranks */
		extension->n_process_sets = 0;
		lw_thread_role(LW_THREAD_BACKGROUND);
		report(extension);
		lw_hvd_settings_start(extension);
	}
	if (LW_UNLIKELY(!extension->is_placed) && lw_is_live())
		confirm_place(extension);
}

/* std::thread::_State_impl<...>::_M_run(): a thread of Horovod's own begins, and ends when it returns. */
uint64_t lw_hvd_on_thread(
	const struct lw_hvd_slot *slot, void *self, void *b, void *c, void *d, void *e)
{
	uint64_t result;

	if (slot->detail == LW_HVD_ROLE_BACKGROUND) {
		lw_hvd_background_seen(slot->extension);
		lw_hvd_tls.may_ask_probe = true;
	} else {
		lw_hvd_tls.role = (uint8_t)slot->detail;
	}
	result = slot->real(self, b, c, d, e);
	if (lw_is_live())
		thread_ends();
	return result;
}
