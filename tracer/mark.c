/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mark.c - what lapwing_mark.h calls: the user's own steps, points and ranges.
 *
 * Writes: MARK records. A mark is a call of interest: it starts the tracing of its process.
 */
#include "tracer/mark.h"

#include <string.h>

#include "tracer/lapwing_mark.h"

#undef lapwing_mark_step
#undef lapwing_mark
#undef lapwing_range_push
#undef lapwing_range_pop

static const char own_domain[1]; /* its address tells the user's ranges from NVTX's */

void lw_mark_record(enum lw_mark_op op, int64_t t0_ns, int64_t t1_ns, uint64_t name, int64_t value)
{
	struct lw_event event = {
		.kind = LW_EV_MARK, .op = (uint16_t)op, .t0_ns = t0_ns, .t1_ns = t1_ns};

	event.mark.name = name;
	event.mark.value = value;
	lw_record(&event);
}

static _Atomic int64_t n_open; /* ranges, of all threads, whose end would be recorded */
static int64_t n_told; /* of them, as lost: by who ends the process, or becomes another program */

void lw_ranges_flush(void)
{
	int64_t n = atomic_load_explicit(&n_open, memory_order_relaxed) + lw_nvtx_count_started() -
		    n_told;

	if (n <= 0)
		return;
	lw_loss(LW_LOSS_UNENDED, (uint64_t)n, "ranges that were open when the process ended");
	n_told += n;
}

void lw_ranges_forget(void)
{
	const struct lw_thread_memory *stack = lw_tls.memory;
	int64_t n = 0;

	for (uint32_t i = 0; stack && i < stack->n_open; i++)
		n += stack->ranges[i].t0_ns != 0;
	atomic_store(&n_open, n);
	n_told = lw_nvtx_count_started(); /* the parent's, which may end them */
}

static int count_open(const struct lw_thread_memory *stack, const void *domain)
{
	int n = 0;

	for (uint32_t i = 0; i < stack->n_open; i++)
		n += stack->ranges[i].domain == domain;
	return n;
}

int lw_ranges_push(const void *domain, uint64_t name, int64_t value)
{
	struct lw_thread_memory *stack = lw_thread_memory();

	if (!stack)
		return 0;
	if (stack->n_open == LW_RANGES_MAX) {
		lw_loss(LW_LOSS_TABLE_FULL, 1, "ranges nested too deep");
		return LW_RANGES_MAX + (int)stack->n_overflow++;
	}
	stack->ranges[stack->n_open++] = (struct lw_range){.domain = domain,
		.t0_ns = lw_is_live() ? lw_now_ns() : 0,
		.name = name,
		.value = value};
	if (stack->ranges[stack->n_open - 1].t0_ns)
		atomic_fetch_add_explicit(&n_open, 1, memory_order_relaxed);
	return count_open(stack, domain) - 1;
}

int lw_ranges_pop(const void *domain, enum lw_mark_op op)
{
	struct lw_thread_memory *stack = lw_tls.memory;
	uint32_t at = stack ? stack->n_open : 0;
	struct lw_range range;

	if (!stack)
		return -1;
	if (stack->n_overflow)
		return LW_RANGES_MAX + (int)--stack->n_overflow;
	while (at && stack->ranges[at - 1].domain != domain)
		at--;
	if (!at)
		return -1;
	range = stack->ranges[at - 1];
	memmove(&stack->ranges[at - 1], &stack->ranges[at],
		(stack->n_open - at) * sizeof(stack->ranges[0]));
	stack->n_open--;
	if (range.t0_ns) {
		atomic_fetch_sub_explicit(&n_open, 1, memory_order_relaxed);
		lw_mark_record(op, range.t0_ns, lw_now_ns(), range.name, range.value);
	}
	return count_open(stack, domain);
}

static bool is_wanted(void)
{
	static _Atomic int8_t known; /* 1 yes, -1 no, 0 = not asked yet */
	int8_t answer = atomic_load_explicit(&known, memory_order_relaxed);

	if (LW_UNLIKELY(!answer)) {
		answer = lw_hook_wanted("mark") ? 1 : -1;
		atomic_store_explicit(&known, answer, memory_order_relaxed);
	}
	return answer > 0;
}

static bool is_live(void)
{
	return is_wanted() && lw_activate(LW_FRAMEWORK_NONE, LW_TRANSPORT_NONE);
}

static void record_instant(enum lw_mark_op op, const char *name, int64_t value)
{
	int64_t now_ns;

	if (!is_wanted())
		return;
	now_ns = lw_now_ns(); /* before the first mark's activation, which takes a while */
	if (is_live())
		lw_mark_record(op, now_ns, now_ns, lw_string_z(name), value);
}

LW_EXPORT void lapwing_mark_step(int64_t step)
{
	record_instant(LW_MARK_STEP, NULL, step);
}

LW_EXPORT void lapwing_mark(const char *name)
{
	if (name)
		record_instant(LW_MARK_POINT, name, 0);
}

LW_EXPORT void lapwing_range_push(const char *name)
{
	if (is_live())
		lw_ranges_push(own_domain, lw_string_z(name), 0);
}

LW_EXPORT void lapwing_range_pop(void)
{
	if (is_wanted())
		lw_ranges_pop(own_domain, LW_MARK_RANGE);
}
