/* SPDX-License-Identifier: Apache-2.0 */
/*
 * probe_script.c - a probe that a script in the job makes (lapwing_probe.py), with the tracer's schedule.
 *
 *	lapwing_probe_begin()	is one asked for?
 *	lapwing_probe_next()	bytes of the next operation, after the pause between bursts; 0 = it is over
 *	lapwing_probe_votes()	what its first words carry
 *	lapwing_probe_done()	what all ranks agree on
 *	lapwing_probe_end()
 *
 * From begin to end the collectives of this process are the probe's: hook_gloo.c records those between
 * next and done as PROBE, and the others not at all.
 */
#include <string.h>

#include "tracer/probe.h"
#include "tracer/probe_schedule.h"

static struct {
	struct lw_probe_schedule schedule;
	int64_t start_ns, voted_ns;
	struct lw_ev_probe current;
} script;
static _Atomic enum { OFF, BETWEEN, INSIDE } state; /* INSIDE: current is set */
static _Atomic uint32_t n_told;

bool lw_probe_is_scripted(void)
{
	return LW_UNLIKELY(atomic_load_explicit(&state, memory_order_relaxed) != OFF);
}

enum lw_probe_label lw_probe_label(struct lw_event *event)
{
	uint64_t bytes = event->collective.sent_bytes;

	switch (atomic_load_explicit(&state, memory_order_acquire)) {
	case OFF:
		return LW_PROBE_NOT;
	case BETWEEN:
		return LW_PROBE_HIDDEN;
	case INSIDE:
		break;
	}
	event->kind = LW_EV_PROBE;
	event->probe = script.current;
	event->probe.bytes = bytes;
	atomic_fetch_add(&n_told, 1);
	return LW_PROBE_OWN;
}

int lapwing_probe_begin(void);
LW_EXPORT int lapwing_probe_begin(void)
{
	if (!lw_probe_budget_ns || !lw_activate(LW_FRAMEWORK_NONE, LW_TRANSPORT_NONE) ||
		!lw_probe_claim())
		return 0;
	lw_probe_release(); /* the script has memory of its own */
	lw_sockets_flush(LW_SAMPLE_PERIOD);
	atomic_store(&n_told, 0);
	lw_probe_start(&script.schedule, lw_probe_budget_ns);
	script.start_ns = 0;
	atomic_store(&state, BETWEEN);
	return 1;
}

uint64_t lapwing_probe_next(void);
LW_EXPORT uint64_t lapwing_probe_next(void)
{
	struct lw_probe_schedule *schedule = &script.schedule;

	if (atomic_load(&state) != BETWEEN || schedule->is_over)
		return 0;
	if (!script.start_ns)
		script.start_ns = lw_now_ns();
	if (!schedule->position)
		lw_probe_pause();
	script.current = (struct lw_ev_probe){.number = schedule->number,
		.burst = schedule->burst,
		.position = schedule->position,
		.transport = LW_TRANSPORT_GLOO};
	atomic_store(&state, INSIDE);
	return lw_probe_sizes[schedule->size].bytes;
}

uint64_t lapwing_probe_votes(void);
LW_EXPORT uint64_t lapwing_probe_votes(void)
{
	script.voted_ns = lw_now_ns();
	return lw_probe_vote(&script.schedule, script.voted_ns - script.start_ns);
}

void lapwing_probe_done(uint64_t agreed);
LW_EXPORT void lapwing_probe_done(uint64_t agreed)
{
	if (atomic_load(&state) != INSIDE)
		return;
	atomic_store(&state, BETWEEN);
	lw_probe_done(&script.schedule, agreed, lw_now_ns() - script.voted_ns);
}

void lapwing_probe_end(void);
LW_EXPORT void lapwing_probe_end(void)
{
	if (atomic_exchange(&state, OFF) == OFF)
		return;
	lw_sockets_flush(LW_SAMPLE_PERIOD);
	if (!script.schedule.number)
		lw_probe_refuse(
			"not every rank has LAPWING_PROBE set and is recorded, or there is one only");
	else if (!atomic_load(&n_told))
		lw_probe_refuse("the Gloo of this program cannot be seen");
}
