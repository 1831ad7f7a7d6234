/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/simulate/replay.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/simulate/doubt.h"
#include "analyzer/simulate/extract.h"
#include "analyzer/simulate/stats.h"
#include "analyzer/simulate/whatif.h"
#include "base/err.h"

/* Sizes that the run does not hold matter when they move the step by more than this. */
static const double EXTRAPOLATED_FRAC = 0.02;
static const double FAR_FRAC = 4; /* of the largest that it holds: then whatever the fit says */
/* Costs are moved by this much to see what a step does. */
static const double LEAST_OFF_FRAC = 0.002;
static const double MOST_OFF_FRAC = 0.5;

void lw_replay_free(struct lw_replay *replay)
{
	if (!replay)
		return;
	free(replay->tensors);
	free(replay->tensor_of);
	free(replay->dtypes);
	free(replay->group_of);
	free(replay->ready_ns);
	free(replay->blocked_ns);
	free(replay->tail_ns);
	free(replay->recorded_step_ns);
	free(replay->step_ns);
	free(replay->leave_frac);
	free(replay->cost.slept_scatter.frac);
	free(replay->cost.slept_scatter.from);
	free(replay->cost.late_scatter.frac);
	free(replay->cost.late_scatter.from);
	lw_hvd_sim_free(replay->sim);
	lw_wire_done(&replay->wire);
	free(replay);
}

struct lw_figure lw_replay_recorded(const struct lw_replay *replay)
{
	struct lw_figure figure = {.how = LW_MEASURED};

	lw_stats_step(replay->recorded_step_ns, replay->n_steps, &figure.value, &figure.low,
		&figure.high);
	return figure;
}

uint32_t lw_replay_n(const struct lw_replay *replay)
{
	return replay->n_steps;
}

/* Simulates @job. @ret_ns: mean over ranks of each step but the warm-up one, uncorrected.
 * Return: their middle, NAN after an error. */
static double simulate(
	struct lw_whatif_job *job, double *ret_ns, double *sorted, struct lw_hvd_totals *ret_totals)
{
	uint32_t n_ranks = job->input.n_ranks, n = job->input.n_steps - 1;

	int status;

	job->cost.wire_ns = job->ddp_cost.wire_ns = lw_wire_ns;
	job->cost.context = job->ddp_cost.context = &job->wire;
	if (job->is_ddp)
		status = lw_ddp_sim_run(
			&job->input, &job->ddp, &job->ddp_cost, job->step_ns, ret_totals, NULL);
	else
		status = lw_hvd_sim_run(job->sim, &job->input, &job->setting, &job->cost,
			job->step_ns, ret_totals, NULL);
	if (status < 0)
		return NAN;
	for (uint32_t s = 0; s < n; s++) {
		double sum_ns = 0;

		for (uint32_t r = 0; r < n_ranks; r++)
			sum_ns += (double)job->step_ns[(size_t)(s + 1) * n_ranks + r];
		sorted[s] = sum_ns / n_ranks;
	}
	if (ret_ns)
		memcpy(ret_ns, sorted, n * sizeof(*sorted));
	return lw_stats_middle(sorted, n);
}

/* What the replay of the recorded setting misses. */
static int calibrate(struct lw_replay *replay)
{
	uint32_t n = replay->n_steps;
	double *missed_ns = malloc(2 * n * sizeof(*missed_ns));
	double middle_ns, low_ns, high_ns, *sorted = missed_ns + n;
	struct lw_whatif_job job;

	if (!missed_ns)
		return lw_fail(LW_ERR_NOMEM, "no memory to replay %u steps", n);
	memcpy(sorted, replay->recorded_step_ns, n * sizeof(*sorted));
	replay->recorded_ns = lw_stats_middle(sorted, n);
	lw_whatif_recorded(replay, &job);
	replay->bias_ns = replay->recorded_ns - simulate(&job, missed_ns, sorted, NULL);
	for (uint32_t s = 0; s < n; s++)
		missed_ns[s] = replay->recorded_step_ns[s] - missed_ns[s];
	lw_stats_interval(missed_ns, n, &middle_ns, &low_ns, &high_ns);
	replay->residual_ns = (high_ns - low_ns) / 2;
	replay->error_frac = fabs(replay->bias_ns) / replay->recorded_ns;
	free(missed_ns);
	return LW_OK;
}

/*
 * What predictions of OTHER settings miss, as far as their operations are known: 95 % of them, where they
 * were measured (docs/results/rig.md). The run itself cannot show this part, so it is added to its error.
 */
static const double other_setting_frac = 0.03;

/* And what repeats of the recorded one differ by: three in four by less than 0.8 % there. */
static const double repeat_frac = 0.01;

static double other_setting_ns(double step_ns)
{
	return other_setting_frac * step_ns;
}

/*
 * What a ring's formula cannot know of other ranks: whether they share cores, so that every message
 * waits for more processes, or overlap their messages, as trees do. Twice the ranks on the same cores at most
 * double what a message costs; so for each doubling (or halving) the fixed cost of operations and
 * rounds may be once more (or, of the result, less) of itself. Bytes are sent by the link, and summed and copied
 * by cores that more ranks may share: a tenth. Both are bounds from that argument, not a fit. Runs of 2,
 * 3 and 4 ranks agree with them (docs/model.md), and say nothing of many ranks.
 */
static const double ranks_fixed_frac = 1;
static const double ranks_bytes_frac = 0.1;

static double doublings(const struct lw_replay *replay, const struct lw_whatif_job *job)
{
	return fabs(log2((double)job->input.n_ranks / replay->input.n_ranks));
}

/* A replay that misses this much of the recorded step has left something out that the job does: the
 * correction would then be larger than what a setting can change. */
static const double too_far_off_frac = 0.5;

static int check_replay(const struct lw_replay *replay)
{
	if (!(replay->recorded_ns > 0))
		return lw_fail(LW_ERR_LIMIT,
			"its steps have no length: the times in this run cannot be a job's, so nothing is predicted");
	if (replay->error_frac <= too_far_off_frac)
		return LW_OK;
	return lw_fail(LW_ERR_LIMIT,
		"replayed as recorded, its steps would take %.3g times as long: something in this run is not what the simulator takes it for, so nothing is predicted",
		(replay->recorded_ns - replay->bias_ns) / replay->recorded_ns);
}

int lw_replay_new(struct lw_run *run, struct lw_replay **ret_replay)
{
	struct lw_replay *replay = calloc(1, sizeof(*replay));
	int status = replay ? LW_OK : lw_fail(LW_ERR_NOMEM, "no memory");

	if (status == LW_OK)
		status = lw_extract_job(run, replay);
	if (status == LW_OK && replay->is_ddp) {
		status = lw_extract_ddp_job(run, replay);
		if (status == LW_OK)
			status = lw_extract_ddp_cost(run, replay);
	} else if (status == LW_OK) {
		status = lw_extract_cost(run, replay);
	}
	if (status == LW_OK)
		status = lw_hvd_sim_new(
			replay->input.n_ranks, replay->input.n_tensors, &replay->sim);
	if (status == LW_OK)
		status = calibrate(replay);
	if (status == LW_OK)
		status = check_replay(replay);
	if (status == LW_OK)
		replay->core_wait_ns = run->core_wait_frac * replay->recorded_ns;
	if (status == LW_OK)
		replay->core_crowd_frac = run->core_crowd_frac;
	if (status < 0)
		lw_replay_free(replay);
	else
		*ret_replay = replay;
	return status;
}

/* How far other costs move a step is seen in this many; an interval needs no more, a bound fewer. */
enum { MOST_MOVED_STEPS = 32, MOST_RANK_STEPS = 16 };

/* What the costs of @job, changed since it was simulated, do to its step. @raw_ns: of each step before. */
static double moved_by_ns(
	struct lw_whatif_job *job, uint32_t n_most, const double *raw_ns, double *sorted)
{
	uint32_t n_steps = job->input.n_steps, n = n_steps - 1;
	double before_ns, after_ns;

	if (n > n_most)
		n = n_most;
	memcpy(sorted, raw_ns, n * sizeof(*sorted));
	before_ns = lw_stats_middle(sorted, n);
	job->input.n_steps = n + 1;
	after_ns = simulate(job, NULL, sorted, NULL);
	job->input.n_steps = n_steps;
	return after_ns - before_ns;
}

static double moved_ns(struct lw_whatif_job *job, const double *raw_ns, double *sorted)
{
	return moved_by_ns(job, MOST_MOVED_STEPS, raw_ns, sorted);
}

static double guessed(
	struct lw_whatif_job *job, enum lw_wire_guess guess, const double *raw_ns, double *sorted)
{
	job->wire.guess = guess;
	return moved_ns(job, raw_ns, sorted);
}

/* All sizes that a setting sends. */
static bool knows_all(const struct lw_wire *wire, const struct lw_hvd_totals *totals)
{
	for (int i = 0; i < 2 * LW_HVD_SIZE_CLASSES; i++) {
		bool is_paused = i >= LW_HVD_SIZE_CLASSES;
		double n = (double)totals->of_size[i].n_batches;

		if (n > 0 && !lw_wire_knows(wire, (double)totals->of_size[i].bytes / n, is_paused))
			return false;
	}
	return true;
}

/* Widens the interval by what the run does not say about the sizes that this setting sends. */
static void extrapolate(struct lw_whatif_job *job, struct lw_prediction *prediction,
	const double *raw_ns, double *sorted, double step_ns)
{
	double max_bytes = (double)prediction->totals.max_batch_bytes;
	bool is_larger = max_bytes > job->wire.all.max_bytes;
	/* what small ones cost says little of large ones: a bucket that lets them through, a fixed cost
	 * that hides the rate */
	bool is_far = max_bytes > FAR_FRAC * job->wire.all.max_bytes;
	/* small operations are taken to cost the least they can, unless nothing tells it */
	bool is_one = !job->wire.is_slope_known;
	double low_ns = is_larger || is_one || job->wire.is_pause_assumed
				? guessed(job, LW_WIRE_OPTIMISTIC, raw_ns, sorted)
				: 0;
	double high_ns = guessed(job, LW_WIRE_PESSIMISTIC, raw_ns, sorted);

	prediction->step_ns.low += fmin(low_ns, 0);
	prediction->step_ns.high += fmax(high_ns, 0);
	prediction->error.sizes_ns = (fmax(high_ns, 0) - fmin(low_ns, 0)) / 2;
	if (high_ns - low_ns <= EXTRAPOLATED_FRAC * step_ns && !is_far)
		return;
	prediction->is_extrapolated = true;
	prediction->step_ns.how = LW_ASSUMED;
	prediction->step_ns.why =
		is_one && !lw_wire_is_split(&job->wire)
			? "it sends operations of sizes that this run does not hold, and its own are all of one: what of their cost grows with the bytes is not known, from none to all of it is assumed"
		: is_one
			? "the operations of this run are of one size: what of their cost grows with the bytes is not known, from none to all of it is assumed"
		: is_larger
			? "it sends larger operations than any in this run: their cost is extrapolated"
			: "it sends operations of sizes that this run does not hold: their cost under load is not known";
}

/* The same for operations at a time, of which the run may not say what they get done together, and for
 * the fixed cost of smaller ones than it holds: none, or twice as much. */
static void share_otherwise(const struct lw_replay *replay, struct lw_whatif_job *job,
	struct lw_prediction *prediction, const double *raw_ns, double *sorted, double step_ns)
{
	bool is_smaller =
		prediction->totals.n_batches > 0 &&
		(double)prediction->totals.min_batch_bytes < job->wire.all.min_bytes &&
		!lw_wire_knows(&job->wire, (double)prediction->totals.min_batch_bytes, false);
	double doubt_ns = is_smaller ? job->ddp_cost.fixed_ns : 0, more_ns = job->ddp_cost.more_ns;
	double low_ns, high_ns;

	job->wire.guess = LW_WIRE_FITTED;
	job->ddp_cost.sharing = replay->ddp.sharing_high;
	job->ddp_cost.more_ns = more_ns - doubt_ns;
	low_ns = moved_ns(job, raw_ns, sorted);
	job->ddp_cost.sharing = replay->ddp.sharing_low;
	job->ddp_cost.more_ns = more_ns + doubt_ns;
	high_ns = moved_ns(job, raw_ns, sorted);
	prediction->step_ns.low += fmin(low_ns, 0);
	prediction->step_ns.high += fmax(high_ns, 0);
	prediction->error.sizes_ns += (fmax(high_ns, 0) - fmin(low_ns, 0)) / 2;
	if (high_ns - low_ns <= EXTRAPOLATED_FRAC * step_ns)
		return;
	prediction->is_extrapolated = true;
	prediction->step_ns.how = LW_ASSUMED;
	prediction->step_ns.why =
		"it runs operations at a time, or of sizes, that this run holds too few of: what they take then is assumed";
}

/* 95 % half width around 0, of replicates that scatter around it: 1.96 standard deviations, from the last but
 * one of 12, which is 1.52 of them on average. One resample that lost the only large operations would
 * decide a mean square alone. */
static double half_width(const double *off_ns)
{
	double size_ns[LW_WIRE_REPLICATES];

	for (int k = 0; k < LW_WIRE_REPLICATES; k++)
		size_ns[k] = fabs(off_ns[k]);
	qsort(size_ns, LW_WIRE_REPLICATES, sizeof(*size_ns), lw_stats_ascending);
	return 1.96 / 1.517 * size_ns[LW_WIRE_REPLICATES - 2];
}

enum { FITTED = -1 };

/* All costs of this setting's operations, in replicate @k or as FITTED. */
static double all_ns(const struct lw_wire *wire, const struct lw_hvd_totals *totals, int k)
{
	double sum_ns = 0;

	for (int i = 0; i < 2 * LW_HVD_SIZE_CLASSES; i++) {
		double n = (double)totals->of_size[i].n_batches, bytes;

		if (n == 0)
			continue;
		bytes = (double)totals->of_size[i].bytes / n;
		sum_ns += n * lw_wire_mean_ns(wire, (uint64_t)bytes, 0) *
			  (k == FITTED ? 1 : lw_wire_replicate_frac(wire, bytes, k));
	}
	return sum_ns;
}

/* Simulates with what messages among other ranks may cost at most. Return: what that does to the step.
 * @ret_by_frac: how much dearer its operations are then */
static double dearer_ranks(struct lw_whatif_job *job, const struct lw_hvd_totals *totals,
	double n_doublings, const double *raw_ns, double *sorted, double *ret_by_frac)
{
	double fixed_frac = 1 + ranks_fixed_frac * n_doublings, more_ns;
	struct lw_wire_scale scale = job->wire.scale;
	struct lw_hvd_cost cost = job->cost;
	double fixed_ns = job->ddp_cost.fixed_ns, before_ns = all_ns(&job->wire, totals, FITTED);

	job->wire.scale.latency_frac *= fixed_frac;
	job->wire.scale.volume_frac *= 1 + ranks_bytes_frac * n_doublings;
	job->cost.round_ns *= fixed_frac;
	job->cost.late_ns *= fixed_frac;
	job->ddp_cost.fixed_ns *= fixed_frac;
	*ret_by_frac = all_ns(&job->wire, totals, FITTED) / before_ns - 1;
	more_ns = fmax(moved_by_ns(job, MOST_RANK_STEPS, raw_ns, sorted), 0);
	job->wire.scale = scale;
	job->cost = cost;
	job->ddp_cost.fixed_ns = fixed_ns;
	return more_ns;
}

/* What the costs of each replicate do to the step. It is simulated once, with all costs
 * a little higher, and replicates lie in proportion: they differ by little. Lower ones are taken to gain
 * as much as higher ones lose, which is too much where communication is hidden: a safe side. For other ranks
 * it is the simulation of what those may cost.
 * Return: what other ranks may add to the step, 0 = they are as recorded, or one, who sends nothing. */
static double replicate(struct lw_whatif_job *job, const struct lw_hvd_totals *totals,
	double n_doublings, const double *raw_ns, double *sorted,
	double ret_off_ns[LW_WIRE_REPLICATES])
{
	double off_frac[LW_WIRE_REPLICATES], by_frac, more_ns;
	double fitted_ns = all_ns(&job->wire, totals, FITTED);
	bool is_other = n_doublings > 0 && fitted_ns > 0;

	for (int k = 0; k < LW_WIRE_REPLICATES; k++)
		off_frac[k] = fitted_ns > 0 ? all_ns(&job->wire, totals, k) / fitted_ns - 1 : 0;
	if (is_other) {
		more_ns = dearer_ranks(job, totals, n_doublings, raw_ns, sorted, &by_frac);
	} else {
		by_frac = fmin(fmax(half_width(off_frac), LEAST_OFF_FRAC), MOST_OFF_FRAC);
		job->wire.cost_frac = 1 + by_frac;
		more_ns = moved_ns(job, raw_ns, sorted);
		job->wire.cost_frac = 1;
	}
	for (int k = 0; k < LW_WIRE_REPLICATES; k++)
		ret_off_ns[k] = more_ns * off_frac[k] / by_frac;
	return is_other ? more_ns : 0;
}

int lw_replay_predict(struct lw_replay *replay, const struct lw_whatif *whatif,
	struct lw_prediction *ret_prediction, double *ret_step_ns)
{
	uint32_t n = replay->n_steps;
	double *raw_ns = malloc(2 * n * sizeof(*raw_ns)), *sorted = raw_ns + n;
	double step_ns, median_ns, low_ns, high_ns, off_ns, ranks_ns, n_doublings;
	struct lw_prediction prediction = {0};
	struct lw_whatif_job job = {0};
	int status = raw_ns ? LW_OK : lw_fail(LW_ERR_NOMEM, "no memory to predict %u steps", n);

	if (status == LW_OK)
		status = lw_whatif_job(replay, whatif, &job);
	if (status < 0)
		goto done;
	prediction.is_recorded = lw_whatif_is_recorded(replay, whatif);
	prediction.fusion_bytes = (double)job.setting.fusion_bytes;
	prediction.cycle_ns = (double)job.setting.cycle_ns;
	prediction.bucket_cap_bytes = (double)job.ddp.cap_bytes;
	prediction.first_bucket_bytes = (double)job.ddp.first_bytes;
	prediction.n_ranks = job.input.n_ranks;
	prediction.n_passes = whatif->backward_passes > 1 ? whatif->backward_passes : 1;
	step_ns = simulate(&job, raw_ns, sorted, &prediction.totals);
	/* of the median: where steps alternate between two lengths, a run may show either */
	lw_stats_interval(raw_ns, n, &median_ns, &low_ns, &high_ns);
	low_ns = fmin(low_ns, step_ns);
	high_ns = fmax(high_ns, step_ns);
	n_doublings = doublings(replay, &job);
	ranks_ns = replicate(
		&job, &prediction.totals, n_doublings, raw_ns, sorted, prediction.replicate_ns);
	prediction.error = (struct lw_prediction_error){.steps_ns = (high_ns - low_ns) / 2,
		.replay_ns = prediction.is_recorded ? replay->residual_ns
						    : hypot(replay->residual_ns, replay->bias_ns),
		.costs_ns = half_width(prediction.replicate_ns),
		.settings_ns =
			(prediction.is_recorded ? repeat_frac : other_setting_frac) * step_ns,
		.ranks_ns = ranks_ns};
	off_ns = pow(prediction.error.replay_ns, 2) + pow(prediction.error.costs_ns, 2) +
		 pow(prediction.error.settings_ns, 2);
	prediction.step_ns = (struct lw_figure){step_ns + replay->bias_ns,
		/* costs that are higher by (1 + r) at most are lower by 1 / (1 + r) at least */
		step_ns + replay->bias_ns -
			sqrt(pow(step_ns - low_ns, 2) + off_ns +
				pow(ranks_ns / (1 + ranks_fixed_frac * n_doublings), 2)),
		step_ns + replay->bias_ns +
			sqrt(pow(high_ns - step_ns, 2) + off_ns + ranks_ns * ranks_ns),
		LW_PREDICTED, NULL};
	prediction.step_ns.why = lw_whatif_assumes(replay, whatif);
	if (prediction.step_ns.why)
		prediction.step_ns.how = LW_ASSUMED;
	if (lw_wire_is_split(&job.wire) ||
		(!prediction.is_recorded && !knows_all(&job.wire, &prediction.totals)))
		extrapolate(&job, &prediction, raw_ns, sorted, step_ns);
	if (job.is_ddp && !prediction.is_recorded)
		share_otherwise(replay, &job, &prediction, raw_ns, sorted, step_ns);
	lw_doubt_ranks(n_doublings, &prediction);
	lw_doubt_cores(replay, &prediction);
	/* some of what is recorded as computing may have been waiting for cores; repeats differ */
	prediction.least_ns =
		(1 - repeat_frac) * lw_least_step_ns(&job.input, sorted) -
		(prediction.is_recorded ? 0 : replay->core_wait_ns * prediction.n_passes);
	prediction.least_ns = fmin(fmax(prediction.least_ns, 0), prediction.step_ns.value);
	prediction.step_ns.low = fmax(prediction.step_ns.low, prediction.least_ns);
	for (uint32_t s = 0; ret_step_ns && s < n; s++)
		ret_step_ns[s] = raw_ns[s] + replay->bias_ns;
	*ret_prediction = prediction;
done:
	lw_whatif_job_done(&job);
	free(raw_ns);
	return status;
}

struct lw_figure lw_replay_gain(const struct lw_replay *replay, const struct lw_prediction *base,
	const double *base_ns, const struct lw_prediction *other, const double *other_ns)
{
	uint32_t n = replay->n_steps;
	struct lw_figure gain = {NAN, NAN, NAN, LW_PREDICTED, NULL};
	double *saved_ns = malloc(3 * n * sizeof(*saved_ns)), middle_ns, low_ns, high_ns, wire_ns,
	       off_ns;
	double replicate_ns[LW_WIRE_REPLICATES];
	/* no step is shorter than what is computed in it */
	double most_ns = base->step_ns.value / base->n_passes - other->least_ns / other->n_passes;
	/* of one that is extrapolated lw_doubt_gain() counts the whole doubt */
	double ranks_ns = other->is_extrapolated ? 0 : other->error.ranks_ns / other->n_passes;
	double cores_ns = other->is_extrapolated ? 0 : other->error.cores_ns / other->n_passes;

	if (!saved_ns) {
		gain.why = "no memory";
		return gain;
	}
	for (uint32_t s = 0; s < n; s++)
		saved_ns[s] = base_ns[s] / base->n_passes - other_ns[s] / other->n_passes;
	for (int k = 0; k < LW_WIRE_REPLICATES; k++)
		replicate_ns[k] = base->replicate_ns[k] / base->n_passes -
				  other->replicate_ns[k] / other->n_passes;
	wire_ns = half_width(replicate_ns);
	lw_stats_interval(saved_ns, n, &middle_ns, &low_ns, &high_ns);
	memcpy(saved_ns + n, base_ns, n * sizeof(*saved_ns));
	memcpy(saved_ns + 2 * n, other_ns, n * sizeof(*saved_ns));
	gain.value = lw_stats_middle(saved_ns + n, n) / base->n_passes -
		     lw_stats_middle(saved_ns + 2 * n, n) / other->n_passes;
	off_ns = pow(hypot(replay->bias_ns, other_setting_ns(other->step_ns.value)), 2) +
		 wire_ns * wire_ns + pow(ranks_ns, 2);
	gain.low = gain.value - sqrt(pow(middle_ns - low_ns, 2) + off_ns) - cores_ns;
	gain.high = gain.value + sqrt(pow(high_ns - middle_ns, 2) + off_ns);
	if (cores_ns > 0)
		gain.high += replay->core_wait_ns;
	lw_doubt_gain(base, other, &gain);
	gain.high = fmax(fmin(gain.high, most_ns), gain.value);
	free(saved_ns);
	return gain;
}
