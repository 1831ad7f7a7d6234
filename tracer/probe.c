/* SPDX-License-Identifier: Apache-2.0 */
#include "tracer/probe.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tracer/probe_schedule.h"

static _Atomic bool is_claimed;
static _Atomic(void *) memory;

bool lw_probe_claim(void)
{
	int saved_errno = errno;
	void *mapped;

	if (!lw_probe_budget_ns || !lw_is_live() || atomic_exchange(&is_claimed, true))
		return false;
	mapped = mmap(NULL, LW_PROBE_MAX_BYTES, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	errno = saved_errno;
	if (mapped == MAP_FAILED) {
		lw_probe_refuse("no memory");
		return false;
	}
	atomic_store(&memory, mapped);
	return true;
}

void lw_probe_release(void)
{
	int saved_errno = errno;
	void *mapped = atomic_exchange(&memory, NULL);

	if (mapped)
		munmap(mapped, LW_PROBE_MAX_BYTES);
	errno = saved_errno;
}

void lw_probe_refuse(const char *why)
{
	lw_hook_report("probe", LW_HOOK_REFUSED, 0, why);
	lw_probe_release();
}

void lw_probe_end(void)
{
	if (lw_probe_budget_ns && !atomic_exchange(&is_claimed, true))
		lw_hook_report("probe", LW_HOOK_REFUSED, 0,
			"with torch.distributed the script makes it, on all ranks:"
			" import lapwing_probe; lapwing_probe.run() (docs/probe.md)");
}

void lw_probe_pause(void)
{
	const struct timespec pause = {.tv_nsec = 5000000};
	int saved_errno = errno;

	syscall(SYS_nanosleep, &pause, NULL);
	errno = saved_errno;
}

/* What a size needs is in memory before the pause: page faults are not the network's. */
static void prepare(char *words, size_t *n_touched, size_t n_bytes)
{
	if (n_bytes > *n_touched) {
		memset(words + *n_touched, 0, n_bytes - *n_touched);
		*n_touched = n_bytes;
	}
	lw_probe_pause();
}

void lw_probe_run(const struct lw_probe_carrier *carrier)
{
	struct lw_event event = {.kind = LW_EV_PROBE, .op = LW_COLL_ALLREDUCE};
	struct lw_probe_schedule schedule;
	char *words = atomic_load(&memory);
	size_t n_touched = 0;
	int64_t start_ns;
	uint64_t votes;

	lw_sockets_flush(LW_SAMPLE_PERIOD); /* so that its bytes are not taken for the job's */
	event.probe.transport = (uint16_t)carrier->transport;
	start_ns = lw_now_ns();
	for (lw_probe_start(&schedule, lw_probe_budget_ns); !schedule.is_over;
		lw_probe_done(&schedule, votes, event.t1_ns - event.t0_ns)) {
		event.probe.bytes = lw_probe_sizes[schedule.size].bytes;
		event.probe.number = schedule.number;
		event.probe.burst = schedule.burst;
		event.probe.position = schedule.position;
		if (!schedule.position)
			prepare(words, &n_touched, event.probe.bytes);
		event.t0_ns = lw_now_ns();
		votes = lw_probe_vote(&schedule, event.t0_ns - start_ns);
		memcpy(words, &votes, sizeof(votes));
		carrier->all_and(carrier->context, words, event.probe.bytes);
		event.t1_ns = lw_now_ns();
		memcpy(&votes, words, sizeof(votes));
		lw_record(&event);
	}
	lw_sockets_flush(LW_SAMPLE_PERIOD);
	lw_probe_release();
}
