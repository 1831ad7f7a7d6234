/* SPDX-License-Identifier: Apache-2.0 */
/* live_figures.c - a window of the model: what a rank and the job did in it. */
#include <math.h>
#include <string.h>

#include "tui/live_model.h"

/* NULL: nothing is known of that time. */
static const struct lw_live_slot *slot_at(const struct lw_live_rank *rank, int64_t number)
{
	const struct lw_live_slot *slot;

	if (number <= 0)
		return NULL;
	slot = &rank->slots[number % LW_LIVE_SLOTS];
	return slot->number == number ? slot : NULL;
}

static void add(struct lw_live_slot *sum, const struct lw_live_slot *slot)
{
	sum->blocked_ns += slot->blocked_ns;
	sum->steps_ns += slot->steps_ns;
	sum->late_ns += slot->late_ns;
	sum->n_steps += slot->n_steps;
	sum->n_late += slot->n_late;
	sum->n_last += slot->n_last;
	sum->n_ops += slot->n_ops;
	sum->sent_bytes += slot->sent_bytes;
	sum->received_bytes += slot->received_bytes;
	sum->n_lost += slot->n_lost;
}

static double per(double amount, double n)
{
	return n > 0 ? amount / n : (double)NAN;
}

struct lw_live_figures *lw_live_rank_figures(const struct lw_live_model *model,
	const struct lw_live_rank *rank, int64_t to_ns, int64_t window_ns,
	struct lw_live_figures *ret)
{
	int64_t last = to_ns / LW_LIVE_SLOT_NS, n = window_ns / LW_LIVE_SLOT_NS;
	int64_t from_ns, until_ns = to_ns;
	struct lw_live_slot sum = {0};
	bool is_plain = !model->has_batches;
	int64_t counting_ns;
	double span_s;

	if (n > LW_LIVE_SLOTS)
		n = LW_LIVE_SLOTS;
	from_ns = (last - n + 1) * LW_LIVE_SLOT_NS;
	for (int64_t i = last - n + 1; i <= last; i++) {
		const struct lw_live_slot *slot = slot_at(rank, i);

		if (slot)
			add(&sum, slot);
	}
	if (from_ns < rank->start_ns) /* a rate is over the time in which the rank was there */
		from_ns = rank->start_ns;
	if (rank->ended != LW_LIVE_RUNS && until_ns > rank->end_ns)
		until_ns = rank->end_ns;
	counting_ns = rank->counting_ns > from_ns ? rank->counting_ns : from_ns;
	span_s = (double)(until_ns - from_ns) * 1e-9;
	*ret = (struct lw_live_figures){
		.step_ns = per((double)sum.steps_ns, sum.n_steps),
		.steps_per_s = per(sum.n_steps, (double)(until_ns - counting_ns) * 1e-9),
		.ops_per_s = per(sum.n_ops, span_s),
		.sent_bytes_per_s = rank->has_traffic ? per(sum.sent_bytes, span_s) : (double)NAN,
		.received_bytes_per_s =
			rank->has_traffic ? per(sum.received_bytes, span_s) : (double)NAN,
		.late_ns = per((double)sum.late_ns, sum.n_late),
		.last_frac = per(sum.n_last, sum.n_late),
		.n_steps = sum.n_steps,
		.n_late = sum.n_late,
		.n_lost = sum.n_lost,
		.exposed_frac = NAN,
	};
	/* An operation of several ranks moves bytes: through shared memory or RDMA, where sockets had none. */
	if (sum.n_ops && rank->size != 1 && sum.sent_bytes + sum.received_bytes <= 0)
		ret->sent_bytes_per_s = ret->received_bytes_per_s = NAN;
	if (span_s > 0 && (is_plain ? !rank->is_exposed_unknown && rank->n_ops : model->has_waits))
		ret->exposed_frac = fmin(per((double)sum.blocked_ns * 1e-9, span_s), 1);
	return ret;
}

static void add_known(double *sum, size_t *n, double value)
{
	if (isnan(value))
		return;
	*sum += value;
	++*n;
}

struct lw_live_figures *lw_live_job_figures(const struct lw_live_model *model, int64_t to_ns,
	int64_t window_ns, struct lw_live_figures *ret)
{
	double step_ns = 0, rate = 0, exposed = 0, ops = 0, sent = 0, received = 0;
	size_t n_step = 0, n_rate = 0, n_exposed = 0, n_ops = 0, n_sent = 0, n_received = 0;
	bool does_any_run = false; /* else it is what the last seconds were that counts */
	const struct lw_live_rank *rank;

	*ret = (struct lw_live_figures){.late_ns = NAN, .last_frac = NAN};
	lw_vec_foreach (rank, &model->ranks)
		does_any_run |= rank->ended == LW_LIVE_RUNS && lw_live_is_rank(rank);
	lw_vec_foreach (rank, &model->ranks) {
		struct lw_live_figures one;

		if (!lw_live_is_rank(rank))
			continue;
		lw_live_rank_figures(model, rank, to_ns, window_ns, &one);
		add_known(&step_ns, &n_step, one.step_ns);
		if (rank->ended == LW_LIVE_RUNS || !does_any_run) {
			add_known(&rate, &n_rate, one.steps_per_s);
			add_known(&exposed, &n_exposed, one.exposed_frac);
		}
		add_known(&ops, &n_ops, one.ops_per_s);
		add_known(&sent, &n_sent, one.sent_bytes_per_s);
		add_known(&received, &n_received, one.received_bytes_per_s);
		ret->n_lost += one.n_lost;
		if (one.n_steps > ret->n_steps)
			ret->n_steps = one.n_steps;
		if (one.n_late > ret->n_late)
			ret->n_late = one.n_late;
	}
	ret->step_ns = per(step_ns, (double)n_step);
	ret->steps_per_s = per(rate, (double)n_rate);
	ret->exposed_frac = per(exposed, (double)n_exposed);
	ret->ops_per_s = per(ops, (double)n_ops);
	ret->sent_bytes_per_s = n_sent ? sent : (double)NAN;
	ret->received_bytes_per_s = n_received ? received : (double)NAN;
	return ret;
}

void lw_live_step_series(const struct lw_live_model *model, int64_t to_ns, size_t n, double *values)
{
	int64_t last = to_ns / LW_LIVE_SLOT_NS;
	double step_ns = NAN, left_ns = 0; /* of the step that ended last, seen from its end */

	for (size_t i = n; i-- > 0;) {
		int64_t number = last - (int64_t)(n - 1 - i), sum_ns = 0;
		const struct lw_live_rank *rank;
		uint32_t n_steps = 0;

		lw_vec_foreach (rank, &model->ranks) {
			const struct lw_live_slot *slot = slot_at(rank, number);

			sum_ns += slot ? slot->steps_ns : 0;
			n_steps += slot ? slot->n_steps : 0;
		}
		left_ns -= (double)LW_LIVE_SLOT_NS;
		if (n_steps)
			left_ns = step_ns = (double)sum_ns / n_steps;
		values[i] = left_ns > 0 ? step_ns : (double)NAN;
	}
}
