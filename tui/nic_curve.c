/* SPDX-License-Identifier: Apache-2.0 */
/* nic_curve.c - bytes so far at any moment, of stretches that may overlap: each moves its own at an even rate. */
#include <math.h>

#include "tui/nic_lanes.h"

struct change { /* of the rates, by the nanosecond; or of what has moved, all at once */
	int64_t at_ns;
	double out, in;
	int by; /* stretches that go on: +1, -1; 0 = all at once */
};

struct changes {
	lw_vec(struct change) at;
};

static int compare_change(const void *a, const void *b)
{
	const struct change *x = a, *y = b;

	return (x->at_ns > y->at_ns) - (x->at_ns < y->at_ns);
}

/* They are where no stretch overlaps the next: bins, readings of one counter. */
static bool is_in_order(const struct changes *changes)
{
	for (size_t i = 1; i < changes->at.n; i++)
		if (changes->at.at[i].at_ns < changes->at.at[i - 1].at_ns)
			return false;
	return true;
}

static int compare_stretch(const void *a, const void *b)
{
	const struct lw_nic_stretch *x = a, *y = b;
	int by = (x->start_ns > y->start_ns) - (x->start_ns < y->start_ns);

	return by ? by : (x->end_ns > y->end_ns) - (x->end_ns < y->end_ns);
}

/* Those of the same time become one: what many flows did in a millisecond. */
static void join(struct lw_nic_stretches *stretches)
{
	size_t n = 0;

	if (!stretches->at.n)
		return;
	qsort(stretches->at.at, stretches->at.n, sizeof(*stretches->at.at), compare_stretch);
	for (size_t i = 1; i < stretches->at.n; i++) {
		struct lw_nic_stretch *last = &stretches->at.at[n], *next = &stretches->at.at[i];

		if (compare_stretch(last, next) != 0) {
			stretches->at.at[++n] = *next;
			continue;
		}
		last->out += next->out;
		last->in += next->in;
	}
	stretches->at.n = n + 1;
}

static int add_changes(struct changes *changes, const struct lw_nic_stretch *stretch)
{
	double length_ns = (double)(stretch->end_ns - stretch->start_ns);
	struct change begin = {stretch->start_ns, stretch->out, stretch->in, 0}, end;

	if (stretch->out <= 0 && stretch->in <= 0)
		return LW_OK;
	if (stretch->end_ns <= stretch->start_ns)
		return lw_vec_push(&changes->at, begin);
	begin.out /= length_ns;
	begin.in /= length_ns;
	begin.by = 1;
	end = (struct change){stretch->end_ns, -begin.out, -begin.in, -1};
	return lw_vec_push(&changes->at, begin) < 0 || lw_vec_push(&changes->at, end) < 0
		       ? LW_ERR_NOMEM
		       : LW_OK;
}

/* Two of the same time: before and after what moved all at once. */
static int put(struct lw_nic_curve *curve, struct lw_nic_point point)
{
	const struct lw_nic_point *last =
		curve->points.n ? &curve->points.at[curve->points.n - 1] : NULL;

	if (last && last->at_ns == point.at_ns && last->out >= point.out && last->in >= point.in)
		return LW_OK;
	return lw_vec_push(&curve->points, point);
}

int lw_nic_curve_make(struct lw_nic_stretches *stretches, struct lw_nic_curve *ret_curve)
{
	struct changes changes = {0};
	const struct lw_nic_stretch *stretch;
	const struct change *change;
	struct lw_nic_point point = {0};
	double out = 0, in = 0; /* rates */
	int status = LW_OK, n_going_on = 0;

	*ret_curve = (struct lw_nic_curve){0};
	join(stretches);
	lw_vec_foreach (stretch, &stretches->at)
		if (status == LW_OK)
			status = add_changes(&changes, stretch);
	if (!is_in_order(&changes))
		qsort(changes.at.at, changes.at.n, sizeof(*changes.at.at), compare_change);
	lw_vec_foreach (change, &changes.at) {
		double passed_ns = (double)(change->at_ns - point.at_ns);

		if (status < 0)
			break;
		if (ret_curve->points.n) {
			point.out += fmax(0, out) * passed_ns;
			point.in += fmax(0, in) * passed_ns;
		}
		point.at_ns = change->at_ns;
		status = put(ret_curve, point);
		if (change->by == 0) {
			point.out += change->out;
			point.in += change->in;
			status = status < 0 ? status : put(ret_curve, point);
			continue;
		}
		n_going_on += change->by;
		out = n_going_on ? out + change->out
				 : 0; /* what rounding left goes with the last */
		in = n_going_on ? in + change->in : 0;
	}
	lw_vec_free(&changes.at);
	return status;
}

/* How many points lie at or before @at_ns, when @low do. */
static size_t n_before(const struct lw_nic_curve *curve, size_t low, int64_t at_ns)
{
	size_t high = curve->points.n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (curve->points.at[middle].at_ns <= at_ns)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* What had moved by @at_ns; @i points lie at or before it. */
static struct lw_nic_point value(const struct lw_nic_curve *curve, size_t i, int64_t at_ns)
{
	struct lw_nic_point point = {at_ns, 0, 0};
	const struct lw_nic_point *last;
	double part;

	if (!i)
		return point;
	last = &curve->points.at[i - 1];
	part = i < curve->points.n
		       ? (double)(at_ns - last->at_ns) / (double)(last[1].at_ns - last->at_ns)
		       : 0;
	point.out = last->out + (part > 0 ? (last[1].out - last->out) * part : 0);
	point.in = last->in + (part > 0 ? (last[1].in - last->in) * part : 0);
	return point;
}

void lw_nic_curve_columns(const struct lw_nic_curve *curve, int64_t from_ns, int64_t column_ns,
	int n, double *out, double *in)
{
	size_t i = n_before(curve, 0, from_ns);
	struct lw_nic_point before = value(curve, i, from_ns);

	for (int column = 0; column < n; column++) {
		int64_t end_ns = from_ns + column_ns * (column + 1);
		struct lw_nic_point after;

		i = n_before(curve, i, end_ns);
		after = value(curve, i, end_ns);
		out[column] = after.out - before.out;
		in[column] = after.in - before.in;
		before = after;
	}
}

double lw_nic_curve_most(const struct lw_nic_curve *curve, int64_t window_ns, double *ret_in)
{
	double most_out = 0, most_in = 0;
	size_t j = 0;

	for (size_t i = 0; i < curve->points.n; i++) {
		const struct lw_nic_point *from = &curve->points.at[i];
		struct lw_nic_point to;

		while (j < curve->points.n && curve->points.at[j].at_ns <= from->at_ns + window_ns)
			j++;
		to = value(curve, j, from->at_ns + window_ns);
		most_out = fmax(most_out, to.out - from->out);
		most_in = fmax(most_in, to.in - from->in);
	}
	*ret_in = most_in / (double)window_ns * 1e9;
	return fmax(most_out, most_in) / (double)window_ns * 1e9;
}
