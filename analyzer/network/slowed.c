/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slowed.c - operations that ran while something was there that slows them (cause.c), against those that ran without.
 *
 * What an operation takes without a cause, the best that there is of:
 *	1. the median of those of its kind and size that nothing touched, else that this cause did not touch;
 *	2. a + b bytes, fitted to what operations of its kind and other sizes took that nothing touched.
 * Where it touched all there is neither, and what it cost is not told: the fastest of them are no operations without it, but
 * the lower end of how their times scatter anyway.
 * Each operation counts once in the sums, and with each of its causes.
 */
#include <math.h>
#include <stdlib.h>

#include "analyzer/fit/cost.h"
#include "analyzer/network/network.h"

#define SLOWED_FRAC 0.1 /* longer than without */
#define SPREAD_FACTOR                                                                              \
	2            /* of even scatter nine of ten are within this times what three of four are */
#define FIT_FACTOR 2 /* of the sizes that were fitted: as far as a line is believed */
enum { LEAST_CALM = 4 };
static const unsigned all_causes = (1U << LW_N_CAUSES) - 1;

/* Round trips grow with whatever else is wrong: a queue is looked at beside other causes, not they beside it. */
static unsigned beside(int cause)
{
	return cause == LW_CAUSE_QUEUE ? all_causes : all_causes & ~(1U << LW_CAUSE_QUEUE);
}

struct sample { /* an operation */
	int op;
	uint64_t bytes;
	double ns, lost_ns;
	unsigned touched; /* 1 << enum lw_net_cause */
	unsigned slowed;  /* by which of those */
	bool is_compared;
};

struct base { /* what operations of one kind and size take without a cause */
	double ns, limit_ns;
	enum lw_net_against against;
};

struct line { /* of one kind, fitted to those that nothing touched */
	struct lw_cost cost;
	double spread; /* nine of ten of these took less than this times the line */
	bool is_known;
};

struct work { /* room for as many as there are operations */
	double *values;
	struct lw_size *sizes;
};

static bool is_touched(const struct lw_intervals *when, struct lw_interval op)
{
	size_t low = 0, high = when->at.n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (when->at.at[middle].start_ns < op.end_ns)
			low = middle + 1;
		else
			high = middle;
	}
	return low && when->at.at[low - 1].end_ns > op.start_ns;
}

static int compare_sample(const void *a, const void *b)
{
	const struct sample *x = a, *y = b;
	int by = (x->op > y->op) - (x->op < y->op);

	if (!by)
		by = (x->bytes > y->bytes) - (x->bytes < y->bytes);
	if (!by)
		by = (x->ns > y->ns) - (x->ns < y->ns);
	return by;
}

/* Of @samples, by time: how long those took that none of @causes touched. */
static size_t take_without(
	const struct sample *samples, size_t n, unsigned causes, double *ret_values)
{
	size_t n_values = 0;

	for (size_t i = 0; i < n; i++)
		if (!(samples[i].touched & causes))
			ret_values[n_values++] = samples[i].ns;
	return n_values;
}

/* The end of those of the same kind (@by_size: and size) as the first. */
static size_t end_of(const struct sample *samples, size_t n, size_t first, bool by_size)
{
	size_t i = first;

	while (i < n && samples[i].op == samples[first].op &&
		(!by_size || samples[i].bytes == samples[first].bytes))
		i++;
	return i;
}

/* ---- the line ------------------------------------------------------------------------------------- */

/* Medians of sizes of one kind that enough untouched operations have. */
static int fit_line(
	const struct sample *samples, size_t n, const struct work *work, struct line *line)
{
	size_t n_sizes = 0, n_ratios = 0;
	int status;

	*line = (struct line){.spread = 1};
	for (size_t first = 0, end; first < n; first = end) {
		size_t n_calm;

		end = end_of(samples, n, first, true);
		n_calm = take_without(samples + first, end - first, all_causes, work->values);
		if (n_calm >= LEAST_CALM)
			work->sizes[n_sizes++] = (struct lw_size){(double)samples[first].bytes,
				lw_net_median(work->values, n_calm), (double)n_calm};
	}
	if (n_sizes < 2)
		return LW_OK;
	status = lw_cost_fit(work->sizes, n_sizes, LW_COST_AFFINE, LW_WEIGHT_FITTED, &line->cost);
	if (status < 0)
		return status;
	for (size_t i = 0; i < n; i++)
		if (!samples[i].touched)
			work->values[n_ratios++] =
				samples[i].ns /
				lw_cost_ns(&line->cost, (double)samples[i].bytes, NULL);
	lw_net_median(work->values, n_ratios); /* sorts */
	line->spread = work->values[n_ratios * 9 / 10];
	line->is_known = line->cost.slope_known;
	return LW_OK;
}

static bool is_within(const struct line *line, double bytes)
{
	return line->is_known && bytes >= line->cost.min_bytes / FIT_FACTOR &&
	       bytes <= line->cost.max_bytes * FIT_FACTOR;
}

/* ---- operations of one kind and size ---------------------------------------------------------------- */

/*
 * Slowed is over a tenth beyond the median, and beyond nine of ten, as the middle tells: of those that seem
 * untouched a quarter may have been touched, between two readings that do not show it.
 */
static struct base calm_base(double *values, size_t n)
{
	double ns = lw_net_median(values, n); /* sorts */
	double spread_ns = SPREAD_FACTOR * (values[n * 3 / 4] - ns);

	return (struct base){ns, fmax((1 + SLOWED_FRAC) * ns, ns + spread_ns), LW_AGAINST_CALM};
}

static struct base find_base(const struct sample *samples, size_t n, int cause,
	const struct line *line, const struct work *work)
{
	const unsigned tried[] = {beside(cause), 1U << cause};
	double bytes = (double)samples[0].bytes, ns;

	for (size_t i = 0; i < sizeof(tried) / sizeof(tried[0]); i++) {
		size_t n_calm = take_without(samples, n, tried[i], work->values);

		if (n_calm >= LEAST_CALM)
			return calm_base(work->values, n_calm);
	}
	/* a queue fills with the bytes: small operations say nothing of what large ones take with it */
	if (cause != LW_CAUSE_QUEUE && is_within(line, bytes)) {
		ns = lw_cost_ns(&line->cost, bytes, NULL);
		return (struct base){ns, fmax(1 + SLOWED_FRAC, line->spread) * ns, LW_AGAINST_FIT};
	}
	return (struct base){0, 0, LW_AGAINST_NONE};
}

/* What lasts holds up what is usual: where it does not, those that took long did so for another reason. */
static bool is_median_slowed(const struct sample *samples, size_t n, unsigned bit, double limit_ns)
{
	size_t n_hit = 0, n_slow = 0;

	for (size_t i = 0; i < n; i++) {
		n_hit += (samples[i].touched & bit) != 0;
		n_slow += (samples[i].touched & bit) && samples[i].ns > limit_ns;
	}
	return 2 * n_slow > n_hit;
}

/* How long those took that exactly @causes touched, of those in @beside; median. NAN: too few. */
static double median_of(const struct sample *samples, size_t n, unsigned causes, unsigned beside,
	const struct work *work)
{
	size_t n_values = 0;

	for (size_t i = 0; i < n; i++)
		if ((samples[i].touched & beside) == (causes & beside))
			work->values[n_values++] = samples[i].ns;
	return n_values >= LEAST_CALM ? lw_net_median(work->values, n_values) : (double)NAN;
}

static unsigned accounts(void)
{
	unsigned bits = 0;

	for (int c = 0; c < LW_N_CAUSES; c++)
		bits |= (unsigned)lw_net_cause_is_account((enum lw_net_cause)c) << c;
	return bits;
}

/*
 * That @cause is one of operations that all of @causes touched: those that the others touched without it took less, or alone
 * it slows too, or TCP itself says so. Too few operations to tell: it is not.
 */
static bool is_to_blame(const struct sample *samples, size_t n, int cause, unsigned causes,
	double limit_ns, const struct work *work)
{
	unsigned bit = 1U << cause, seen = beside(cause);
	double with_ns, rest_ns;

	if (!(causes & bit) || !(causes & seen & ~bit) ||
		lw_net_cause_is_account((enum lw_net_cause)cause))
		return causes & bit;
	if (median_of(samples, n, bit, seen, work) > limit_ns)
		return true;
	with_ns = median_of(samples, n, causes, seen, work);
	rest_ns = median_of(samples, n, causes & ~bit, seen, work);
	if (isnan(rest_ns)) /* hardly one without the other: one of them it is, unless TCP says which */
		return !isnan(with_ns) && !(causes & accounts());
	return with_ns > (1 + SLOWED_FRAC) * rest_ns;
}

static void judge(struct lw_net_slowed *slowed, int cause, struct sample *samples, size_t n,
	const struct base *base, const struct work *work)
{
	struct lw_net_caused *caused = &slowed->by[cause];
	bool is_blamed[1 << LW_N_CAUSES];
	unsigned bit = 1U << cause;
	bool is_told = !lw_net_cause_is_state((enum lw_net_cause)cause) ||
		       is_median_slowed(samples, n, bit, base->limit_ns);

	for (unsigned causes = 0; causes <= all_causes; causes++)
		is_blamed[causes] = is_to_blame(samples, n, cause, causes, base->limit_ns, work);
	for (size_t i = 0; i < n; i++) {
		double lost_ns = samples[i].ns - base->ns;

		caused->n_ops++;
		caused->n_compared += (samples[i].touched & bit) != 0;
		samples[i].is_compared = true;
		if (!(samples[i].touched & bit) || samples[i].ns <= base->limit_ns)
			continue;
		if (!is_blamed[samples[i].touched] || !is_told) {
			caused->n_unclear++;
			continue;
		}
		samples[i].slowed |= bit;
		samples[i].lost_ns = fmax(samples[i].lost_ns, lost_ns);
		caused->n_slowed++;
		caused->lost_ns += lost_ns;
		caused->normal_frac += samples[i].ns / base->ns - 1;
		if (caused->against < (int)base->against)
			caused->against = (int)base->against;
	}
}

static void judge_size(struct lw_net_slowed *slowed, struct sample *samples, size_t n,
	const struct line *line, const struct work *work)
{
	for (int c = 0; c < LW_N_CAUSES; c++) {
		struct base base = {0};

		if (slowed->by[c].n_hit)
			base = find_base(samples, n, c, line, work);
		if (base.against != LW_AGAINST_NONE)
			judge(slowed, c, samples, n, &base, work);
	}
}

/* ---- all operations ----------------------------------------------------------------------------------- */

static unsigned touched_by(const struct lw_run *run, const struct lw_group *group,
	const struct lw_net_touched *touched)
{
	unsigned bits = 0;

	for (size_t r = 0; r < run->ranks.n; r++) {
		struct lw_interval wire = lw_batch_wire(lw_group_batch(run, group, r));

		for (int c = 0; c < LW_N_CAUSES; c++)
			if (is_touched(&touched[r].by[c], wire))
				bits |= 1U << c;
	}
	return bits;
}

static size_t take_samples(
	struct lw_run *run, const struct lw_net_touched *touched, struct sample *samples)
{
	bool is_one_clock = lw_run_is_one_clock(run);
	const struct lw_group *group;
	size_t n = 0;

	lw_vec_foreach (group, &run->groups) {
		double ns;

		if (!lw_net_is_counted(run, group))
			continue;
		ns = lw_group_service_ns(run, group, is_one_clock);
		if (ns <= 0)
			continue;
		samples[n] = (struct sample){.op = group->op,
			.bytes = group->bytes,
			.ns = ns,
			.touched = touched_by(run, group, touched)};
		for (int c = 0; c < LW_N_CAUSES; c++)
			run->network.slowed.by[c].n_hit += samples[n].touched >> c & 1;
		n++;
	}
	qsort(samples, n, sizeof(*samples), compare_sample);
	return n;
}

static void add_up(struct lw_net_slowed *slowed, const struct sample *samples, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		slowed->n_ops += samples[i].is_compared;
		slowed->n_hit += samples[i].touched != 0;
		slowed->n_compared += samples[i].is_compared && samples[i].touched;
		slowed->n_slowed += samples[i].slowed != 0;
		slowed->lost_ns += samples[i].lost_ns;
		for (int c = 0; c < LW_N_CAUSES; c++)
			if (samples[i].slowed == 1U << c) {
				slowed->by[c].n_alone++;
				slowed->by[c].lost_alone_ns += samples[i].lost_ns;
			}
	}
	for (int c = 0; c < LW_N_CAUSES; c++)
		if (slowed->by[c].n_slowed)
			slowed->by[c].normal_frac /= slowed->by[c].n_slowed;
}

static int judge_all(
	struct lw_net_slowed *slowed, struct sample *samples, size_t n, const struct work *work)
{
	for (size_t first = 0, end; first < n; first = end) {
		struct line line;
		int status;

		end = end_of(samples, n, first, false);
		status = fit_line(samples + first, end - first, work, &line);
		if (status < 0)
			return status;
		for (size_t i = first, next; i < end; i = next) {
			next = end_of(samples, n, i, true);
			judge_size(slowed, samples + i, next - i, &line, work);
		}
		lw_cost_done(&line.cost);
	}
	add_up(slowed, samples, n);
	return LW_OK;
}

static int compare_all(struct lw_run *run, const struct lw_net_touched *touched)
{
	size_t n = run->groups.n + 1;
	struct sample *samples = calloc(n, sizeof(*samples));
	struct work work = {calloc(n, sizeof(double)), calloc(n, sizeof(struct lw_size))};
	int status;

	if (samples && work.values && work.sizes) {
		n = take_samples(run, touched, samples);
		status = judge_all(&run->network.slowed, samples, n, &work);
	} else {
		status = lw_fail(LW_ERR_NOMEM, "no memory");
	}
	free(samples);
	free(work.values);
	free(work.sizes);
	return status;
}

int lw_net_find_slowed(struct lw_run *run)
{
	struct lw_net_touched *touched = calloc(run->ranks.n + 1, sizeof(*touched));
	bool has_any = false;
	int status;

	if (!touched)
		return lw_fail(LW_ERR_NOMEM, "no memory");
	status = lw_net_count_resent(run);
	if (status == LW_OK)
		status = lw_net_find_touched(run, touched);
	for (size_t r = 0; r < run->ranks.n; r++)
		for (int c = 0; c < LW_N_CAUSES; c++)
			has_any |= touched[r].by[c].at.n > 0;
	if (status == LW_OK && has_any)
		status = compare_all(run, touched);
	for (size_t r = 0; r < run->ranks.n; r++)
		for (int c = 0; c < LW_N_CAUSES; c++)
			lw_vec_free(&touched[r].by[c].at);
	free(touched);
	return status;
}
