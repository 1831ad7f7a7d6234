/* SPDX-License-Identifier: Apache-2.0 */
/* timeline_order.c - which rank was first and last to have a collective's tensors, or to enter it. */
#include "tui/timeline.h"

int64_t lw_timeline_ready_ns(const struct lw_rank *rank, const struct lw_batch *batch)
{
	int64_t last_ns = LW_NS_UNKNOWN;

	for (uint32_t i = 0; i < batch->n_members; i++) {
		int64_t at_ns = rank->members.at[batch->first_member + i].ready_ns;

		if (at_ns == LW_NS_UNKNOWN)
			return LW_NS_UNKNOWN;
		if (at_ns > last_ns)
			last_ns = at_ns;
	}
	return last_ns;
}

static void find_order(
	const struct lw_run *run, const struct lw_group *group, struct lw_timeline_order *order)
{
	int64_t first_ns = INT64_MAX, last_ns = INT64_MIN;

	order->first = order->last = LW_NONE;
	for (size_t r = 0; r < run->ranks.n; r++) {
		const struct lw_batch *batch = lw_group_batch(run, group, r);
		int64_t at_ns;

		if (!batch)
			continue;
		at_ns = order->is_entry ? lw_batch_wire(batch).start_ns
					: lw_timeline_ready_ns(&run->ranks.at[r], batch);
		if (at_ns == LW_NS_UNKNOWN) {
			order->first = order->last = LW_NONE;
			return;
		}
		if (at_ns < first_ns) {
			first_ns = at_ns;
			order->first = (int32_t)r;
		}
		if (at_ns > last_ns) {
			last_ns = at_ns;
			order->last = (int32_t)r;
		}
	}
	order->late_ns = last_ns - first_ns;
}

/* Across clocks lengths compare: all leave together, so who was in its kernel for less entered later. Return: false: not
 * all of its ranks have kernels, or it lets ranks go before all are there. */
static bool order_by_kernels(
	const struct lw_run *run, const struct lw_group *group, struct lw_timeline_order *order)
{
	int64_t longest_ns = -1, shortest_ns = INT64_MAX;

	if (!lw_group_waits(group->op))
		return false;
	for (size_t r = 0; r < run->ranks.n; r++) {
		const struct lw_batch *batch = lw_group_batch(run, group, r);
		struct lw_interval wire;

		if (!batch)
			continue;
		if (!lw_gpu_has(&run->ranks.at[r]) || batch->wire_start_ns == LW_NS_UNKNOWN)
			return false;
		wire = lw_batch_wire(batch);
		if (wire.end_ns - wire.start_ns > longest_ns) {
			longest_ns = wire.end_ns - wire.start_ns;
			order->first = (int32_t)r;
		}
		if (wire.end_ns - wire.start_ns < shortest_ns) {
			shortest_ns = wire.end_ns - wire.start_ns;
			order->last = (int32_t)r;
		}
	}
	order->late_ns = longest_ns - shortest_ns;
	order->is_entry = true;
	return true;
}

struct lw_timeline_order lw_timeline_order(const struct lw_run *run, const struct lw_group *group)
{
	struct lw_timeline_order order = {.first = LW_NONE, .last = LW_NONE};

	if (group->n_ranks < group->n_wanted)
		order.why = "not all of its ranks are in this run";
	else if (group->n_ranks < 2)
		order.why = "one rank took part";
	else if (!lw_run_is_one_clock(run)) {
		if (order_by_kernels(run, group, &order))
			return order;
		order = (struct lw_timeline_order){
			.first = LW_NONE, .last = LW_NONE, .why = "ranks are on different clocks"};
	}
	if (order.why)
		return order;
	find_order(run, group, &order);
	if (order.first == LW_NONE) {
		order.is_entry = true;
		find_order(run, group, &order);
	}
	return order;
}
