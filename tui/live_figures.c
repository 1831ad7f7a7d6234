/* SPDX-License-Identifier: Apache-2.0 */
/* live_figures.c - a window of the model: what a rank and the job did in it. */
#include <math.h>
#include <string.h>

#include "tui/live_model.h"

#define LEAST_SPAN_NS (100 * LW_NS_PER_MS) /* over less, a rate is chance */

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

static double rate(double amount, int64_t span_ns)
{
	return span_ns < LEAST_SPAN_NS ? (double)NAN : per(amount, (double)span_ns * 1e-9);
}

/* Slots @first to @last; what is in the last one is known up to *@ret_until_ns. */
static struct lw_live_slot sum_slots(const struct lw_live_model *model,
	const struct lw_live_rank *rank, int64_t first, int64_t to_ns, int64_t *ret_until_ns)
{
	int64_t last = to_ns / LW_LIVE_SLOT_NS, until_ns = (last + 1) * LW_LIVE_SLOT_NS;
	int64_t newest_ns = model->newest_ns > to_ns ? model->newest_ns : to_ns;
	struct lw_live_slot sum = {0};

	for (int64_t i = first; i <= last; i++) {
		const struct lw_live_slot *slot = slot_at(rank, i);

		if (slot)
			add(&sum, slot);
	}
	if (until_ns > newest_ns)
		until_ns = newest_ns;
	if (rank->ended != LW_LIVE_RUNS && until_ns > rank->end_ns)
		until_ns = rank->end_ns;
	*ret_until_ns = until_ns;
	return sum;
}

bool lw_live_is_nccl(const struct lw_live_model *model)
{
	const struct lw_live_rank *rank;
	bool has_others = model->has_batches;

	lw_vec_foreach (rank, &model->ranks)
		has_others |= rank->n_ops > 0;
	return model->n_nccl_ops > 0 && !has_others;
}

/* As in the report, what was before the first step does not count, where steps are known. */
static void find_exposed(const struct lw_live_model *model, const struct lw_live_rank *rank,
	int64_t from_ns, int64_t to_ns, struct lw_live_figures *figures)
{
	bool is_plain = !model->has_batches;
	struct lw_live_slot sum;
	int64_t until_ns;

	figures->exposed_frac = NAN;
	if (lw_live_is_nccl(model))
		figures->why_not_exposed = "operations of NCCL are not followed live";
	else if (is_plain && rank->is_exposed_unknown)
		figures->why_not_exposed = "operations are nonblocking";
	else if (is_plain && !rank->n_ops)
		figures->why_not_exposed = "no blocking operation was recorded yet";
	else if (!is_plain && !model->has_waits)
		figures->why_not_exposed = "no wait of a training thread was recorded yet";
	if (figures->why_not_exposed)
		return;
	if (rank->counting_ns > from_ns) /* slots are whole */
		from_ns = (rank->counting_ns + LW_LIVE_SLOT_NS - 1) / LW_LIVE_SLOT_NS *
			  LW_LIVE_SLOT_NS;
	sum = sum_slots(model, rank, from_ns / LW_LIVE_SLOT_NS, to_ns, &until_ns);
	figures->exposed_frac = rate((double)sum.blocked_ns * 1e-9, until_ns - from_ns);
	if (isnan(figures->exposed_frac))
		figures->why_not_exposed = "too little of this window is known";
	else if (figures->exposed_frac > 1) /* threads that wait at once add up */
		figures->exposed_frac = 1;
}

struct lw_live_figures *lw_live_rank_figures(const struct lw_live_model *model,
	const struct lw_live_rank *rank, int64_t to_ns, int64_t window_ns,
	struct lw_live_figures *ret)
{
	int64_t n = window_ns / LW_LIVE_SLOT_NS, first, from_ns, until_ns, counting_ns;
	struct lw_live_slot sum;

	if (n > LW_LIVE_SLOTS)
		n = LW_LIVE_SLOTS;
	first = to_ns / LW_LIVE_SLOT_NS - n + 1;
	from_ns = first * LW_LIVE_SLOT_NS;
	sum = sum_slots(model, rank, first, to_ns, &until_ns);
	if (from_ns < rank->start_ns) /* a rate is over the time in which the rank was there */
		from_ns = rank->start_ns;
	counting_ns = rank->counting_ns > from_ns ? rank->counting_ns : from_ns;
	*ret = (struct lw_live_figures){
		.step_ns = per((double)sum.steps_ns, sum.n_steps),
		.steps_per_s = per(sum.n_steps, (double)(until_ns - counting_ns) * 1e-9),
		.ops_per_s =
			lw_live_is_nccl(model) ? (double)NAN : rate(sum.n_ops, until_ns - from_ns),
		.sent_bytes_per_s =
			rank->has_traffic ? rate(sum.sent_bytes, until_ns - from_ns) : (double)NAN,
		.received_bytes_per_s = rank->has_traffic
						? rate(sum.received_bytes, until_ns - from_ns)
						: (double)NAN,
		.late_ns = per((double)sum.late_ns, sum.n_late),
		.last_frac = per(sum.n_last, sum.n_late),
		.n_steps = sum.n_steps,
		.n_late = sum.n_late,
		.n_lost = sum.n_lost,
	};
	/* An operation of several ranks moves bytes: through shared memory or RDMA, where sockets had none. */
	if (sum.n_ops && rank->size != 1 && sum.sent_bytes + sum.received_bytes <= 0)
		ret->sent_bytes_per_s = ret->received_bytes_per_s = NAN;
	find_exposed(model, rank, from_ns, to_ns, ret);
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

	*ret = (struct lw_live_figures){.late_ns = NAN,
		.last_frac = NAN,
		.why_not_exposed = model->ranks.n ? "no rank runs" : "nothing was recorded yet"};
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
			ret->why_not_exposed = one.why_not_exposed;
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
	if (n_exposed)
		ret->why_not_exposed = NULL;
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
