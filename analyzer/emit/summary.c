/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/emit/summary.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/emit/volume.h"
#include "analyzer/model/osf.h"
#include "analyzer/simulate/stats.h"

static struct lw_figure unknown(const char *why)
{
	return (struct lw_figure){NAN, NAN, NAN, LW_MEASURED, why};
}

static struct lw_figure exact(double value, enum lw_how how)
{
	return (struct lw_figure){value, value, value, how, NULL};
}

static const char one_step[] = "no interval: one step only";

/* Mean of @values and its interval, which one value has not; any NAN among them: not known. */
static struct lw_figure mean_of(const double *values, size_t n, const char *why)
{
	struct lw_figure figure = unknown(why);
	double sum = 0, square = 0, error;

	for (size_t i = 0; i < n; i++)
		sum += values[i];
	if (!n || isnan(sum))
		return figure;
	figure = (struct lw_figure){sum / (double)n, NAN, NAN, LW_MEASURED, NULL};
	figure.why = n < 2 ? one_step : NULL;
	if (n < 2)
		return figure;
	for (size_t i = 0; i < n; i++)
		square += (values[i] - figure.value) * (values[i] - figure.value);
	/* normal approximation of the mean's interval: steps are many, and their mean is near normal */
	error = 1.96 * sqrt(square / (double)(n - 1) / (double)n);
	figure.low = fmax(figure.value - error, 0); /* they are times */
	figure.high = figure.value + error;
	return figure;
}

/* Mean of @parts as a fraction of the mean of @wholes; interval of a ratio of means (delta method). */
static struct lw_figure ratio_of(
	const double *parts, const double *wholes, size_t n, const char *why)
{
	struct lw_figure figure = unknown(why);
	double part = 0, whole = 0, square = 0, error;

	for (size_t i = 0; i < n; i++) {
		part += parts[i];
		whole += wholes[i];
	}
	if (isnan(part) || !(whole > 0))
		return figure;
	figure = (struct lw_figure){part / whole, NAN, NAN, LW_MEASURED, NULL};
	figure.why = n < 2 ? one_step : NULL;
	if (n < 2)
		return figure;
	for (size_t i = 0; i < n; i++)
		square += (parts[i] - figure.value * wholes[i]) *
			  (parts[i] - figure.value * wholes[i]);
	error = 1.96 * sqrt(square * (double)n / (double)(n - 1)) / whole;
	figure.low = figure.value > error ? figure.value - error : 0;
	figure.high = figure.value + error;
	return figure;
}

static double known(int64_t ns)
{
	return ns == LW_NS_UNKNOWN ? (double)NAN : (double)ns;
}

struct lw_figure lw_summary_unknown(const char *why)
{
	return unknown(why);
}

struct lw_figure lw_summary_exact(double value, enum lw_how how)
{
	return exact(value, how);
}

struct lw_figure lw_summary_mean(const double *values, size_t n, const char *why)
{
	return mean_of(values, n, why);
}

double lw_summary_known(int64_t ns)
{
	return known(ns);
}

/* ---- counted steps ------------------------------------------------------------------------------- */

static size_t n_steps_of(const struct lw_run *run)
{
	return run->ranks.n ? run->ranks.at[0].steps.n : 0;
}

bool lw_summary_is_counted(const struct lw_run *run, size_t s)
{
	for (size_t r = 0; r < run->ranks.n; r++)
		if (s >= run->ranks.at[r].steps.n || run->ranks.at[r].steps.at[s].excluded)
			return false;
	return run->ranks.n > 0;
}

static const struct {
	size_t step_offset, summary_offset;
	const char *why; /* it is not known */
} rank_figures[] = {
#define X(name)                                                                                    \
	{offsetof(struct lw_step, name##_ns), offsetof(struct lw_rank_summary, name##_ns),         \
		"this run does not tell when the rank was computing, or when gradients were queued"},
	LW_RANK_FIGURES(X)
#undef X
};

static const char no_last[] =
	"a rank is missing, or sends and receives are matched with nobody: who came last is not known";

/* Of phases that are known, what depends on who came last. */
static void say_no_last(struct lw_rank_summary *rank)
{
	if (isnan(rank->allreduce_ns.value))
		return;
	if (isnan(rank->entry_ns.value))
		rank->entry_ns.why = no_last;
	if (isnan(rank->exposed_entry_ns.value) && !isnan(rank->exposed_ns.value))
		rank->exposed_entry_ns.why = no_last;
	if (isnan(rank->negotiate_ns.value))
		return;
	if (isnan(rank->late_ns.value))
		rank->late_ns.why = no_last;
	if (isnan(rank->tick_ns.value))
		rank->tick_ns.why = no_last;
}

/* Of a step that is counted as none is whole, some ranks may have nothing. */
static bool has_step(const struct lw_step *step)
{
	return step->end_ns > step->start_ns;
}

/* @values: room for all steps of the rank */
static void summarize_rank(const struct lw_run *run, const struct lw_rank *rank, double *values,
	struct lw_rank_summary *out)
{
	size_t n = 0;

	*out = (struct lw_rank_summary){.rank = rank->rank, .host = rank->host};
	for (size_t s = 0; s < rank->steps.n; s++)
		if (lw_summary_is_counted(run, s) && has_step(&rank->steps.at[s]))
			values[n++] =
				(double)(rank->steps.at[s].end_ns - rank->steps.at[s].start_ns);
	out->step_ns = mean_of(values, n, "no step was found that counts");
	for (size_t i = 0; i < sizeof(rank_figures) / sizeof(rank_figures[0]); i++) {
		char *figure = (char *)out + rank_figures[i].summary_offset;

		n = 0;
		for (size_t s = 0; s < rank->steps.n; s++) {
			const char *step = (const char *)&rank->steps.at[s];

			if (lw_summary_is_counted(run, s) && has_step(&rank->steps.at[s]))
				values[n++] = known(
					*(const int64_t *)(step + rank_figures[i].step_offset));
		}
		*(struct lw_figure *)figure = mean_of(values, n, rank_figures[i].why);
	}
	say_no_last(out);
}

/* No waits were recorded: exposed time is an upper bound (reconstruct/overlap.c). */
static bool is_assumed(const struct lw_run *run)
{
	for (size_t r = 0; r < run->ranks.n; r++)
		for (size_t s = 0; s < run->ranks.at[r].steps.n; s++)
			if (lw_summary_is_counted(run, s) &&
				run->ranks.at[r].steps.at[s].is_blocked_assumed)
				return true;
	return false;
}

static void assume_upper(struct lw_figure *figure)
{
	figure->how = LW_ASSUMED;
	if (isnan(figure->value))
		return;
	figure->low = 0;
	if (isnan(figure->high)) /* of one step: it is the bound itself */
		figure->high = figure->value;
}

static void assume_lower(struct lw_figure *figure, double high)
{
	figure->how = LW_ASSUMED;
	if (isnan(figure->value))
		return;
	figure->high = high;
	if (isnan(figure->low))
		figure->low = figure->value;
}

static void assume_rank(struct lw_rank_summary *rank)
{
	struct lw_figure *upper[] = {&rank->exposed_ns, &rank->exposed_negotiate_ns,
		&rank->exposed_wait_ns, &rank->exposed_allreduce_ns, &rank->exposed_misc_ns,
		&rank->exposed_entry_ns};

	assume_lower(&rank->compute_ns, rank->compute_ns.value + rank->exposed_ns.value);
	assume_lower(&rank->hidden_ns, rank->comm_ns.value);
	assume_lower(&rank->idle_ns, rank->idle_ns.value);
	for (size_t i = 0; i < sizeof(upper) / sizeof(upper[0]); i++)
		assume_upper(upper[i]);
}

static int summarize_steps(struct lw_run *run, struct lw_summary *summary)
{
	size_t n_all = n_steps_of(run), n = 0;
	double *lengths = calloc(2 * n_all + 1, sizeof(*lengths)), *exposed = lengths + n_all,
	       n_with;

	if (!lengths)
		return lw_fail(LW_ERR_NOMEM, "no memory");
	for (size_t s = 0; s < n_all; s++) {
		if (!lw_summary_is_counted(run, s)) {
			summary->n_excluded++;
			continue;
		}
		lengths[n] = exposed[n] = n_with = 0;
		for (size_t r = 0; r < run->ranks.n; r++) {
			const struct lw_step *step = &run->ranks.at[r].steps.at[s];

			if (!has_step(step))
				continue;
			lengths[n] += (double)(step->end_ns - step->start_ns);
			exposed[n] += known(step->exposed_ns);
			n_with++;
		}
		lengths[n] /= n_with > 0 ? n_with : 1;
		exposed[n] /= n_with > 0 ? n_with : 1;
		n++;
	}
	summary->n_steps = n;
	summary->exposed_ns =
		mean_of(exposed, n, "this run does not tell when the ranks were computing");
	summary->exposed_frac = ratio_of(exposed, lengths, n, summary->exposed_ns.why);
	if (is_assumed(run)) {
		assume_upper(&summary->exposed_ns);
		assume_upper(&summary->exposed_frac);
	}
	summary->step_ns =
		unknown(*run->marks.why ? run->marks.why : "no step was found that counts");
	summary->mean_step_ns = mean_of(lengths, n, summary->step_ns.why);
	if (n) {
		summary->step_ns = exact(0, LW_MEASURED);
		lw_stats_step(lengths, n, &summary->step_ns.value, &summary->step_ns.low,
			&summary->step_ns.high);
		summary->step_ns.why = n < 2 ? one_step : NULL;
	}
	for (size_t r = 0; r < run->ranks.n; r++) {
		struct lw_rank_summary rank;

		summarize_rank(run, &run->ranks.at[r], lengths, &rank);
		if (is_assumed(run))
			assume_rank(&rank);
		if (lw_vec_push(&summary->ranks, rank) < 0) {
			free(lengths);
			return LW_ERR_NOMEM;
		}
	}
	free(lengths);
	return LW_OK;
}

/* ---- network --------------------------------------------------------------------------------------- */

/* TCP that carried less than this of the expected bytes is not where the gradients went. */
static const double mostly_elsewhere_frac = 0.1;

/* Of the mean rank; what peers read of it too. 0: nothing went by RDMA. */
static double rdma_bytes_per_step(const struct lw_run *run)
{
	const struct lw_net_link *link;
	double bytes = 0;

	lw_vec_foreach (link, &run->network.links)
		bytes += link->rdma_step_bytes;
	return run->ranks.n ? bytes / (double)run->ranks.n : 0;
}

static void compare_with_ring(struct lw_summary *summary, double sent)
{
	if (sent < mostly_elsewhere_frac * summary->expected_bytes_per_step.value)
		summary->sent_ratio = unknown(
			"next to nothing went over TCP or libibverbs: shared memory, or RDMA that neither sees, carried the gradients");
	else if (isnan(summary->expected_bytes_per_step.value))
		summary->sent_ratio = summary->expected_bytes_per_step;
	else if (summary->expected_bytes_per_step.value > 0)
		summary->sent_ratio =
			exact(sent / summary->expected_bytes_per_step.value, LW_MEASURED);
	else
		summary->sent_ratio = unknown(
			"no operation was recorded, so nobody knows how much a ring would send");
}

double lw_summary_acked(const struct lw_run *run, size_t r, double *ret_sent)
{
	const struct lw_rank *rank = &run->ranks.at[r];
	double acked = (double)rank->tcp_acked_bytes;
	const struct lw_tcp_end *end;

	*ret_sent = (double)rank->sent_bytes;
	if (acked > 0)
		return acked;
	*ret_sent = 0;
	lw_vec_foreach (end, &run->ends) {
		if (end->rank != (int32_t)r || end->is_rdma || !end->socket || !end->tcp.n ||
			end->tcp.at[end->tcp.n - 1].acked_bytes < 0)
			continue;
		acked += (double)end->tcp.at[end->tcp.n - 1].acked_bytes;
		*ret_sent += lw_end_sent_bytes(end);
	}
	return acked > 0 ? acked : (double)NAN;
}

static void summarize_network(const struct lw_run *run, struct lw_summary *summary)
{
	double sent = 0, rdma = rdma_bytes_per_step(run);
	double acked = 0, acked_of = 0, sent_in_all = 0;
	size_t n_all = n_steps_of(run), first = n_all, last = 0;

	summary->tcp_acked_ratio = unknown("no TCP connection was asked for its TCP_INFO");
	for (size_t r = 0; r < run->ranks.n; r++) {
		double sent_of_rank, acked_of_rank = lw_summary_acked(run, r, &sent_of_rank);

		sent_in_all += (double)run->ranks.at[r].sent_bytes;
		acked += isnan(acked_of_rank) ? 0 : acked_of_rank;
		acked_of += isnan(acked_of_rank) ? 0 : sent_of_rank;
	}
	if (acked > 0 && acked_of > 0)
		summary->tcp_acked_ratio = exact(acked / acked_of, LW_MEASURED);
	summary->sent_bytes_per_step = summary->sent_ratio =
		unknown("no TCP connection of this run was seen sending");
	summary->rdma_bytes_per_step = unknown("no RDMA between ranks was seen");
	if (!summary->n_steps && sent_in_all > 0)
		summary->sent_bytes_per_step = summary->sent_ratio =
			summary->expected_bytes_per_step;
	if (!summary->n_steps)
		return;
	if (rdma > 0) {
		summary->rdma_bytes_per_step = exact(rdma, LW_MEASURED);
		compare_with_ring(summary, rdma);
	}
	for (size_t s = 0; s < n_all; s++)
		if (lw_summary_is_counted(run, s)) {
			first = s < first ? s : first;
			last = s;
		}
	for (size_t r = 0; r < run->ranks.n; r++) {
		const struct lw_rank *rank = &run->ranks.at[r];

		if (rank->traffic.n < 2) {
			if (sent_in_all > 0)
				summary->sent_bytes_per_step =
					unknown("of a rank, no TCP connection was seen sending");
			if (sent_in_all > 0 && !(rdma > 0))
				summary->sent_ratio = summary->sent_bytes_per_step;
			return;
		}
		sent += lw_rank_sent_bytes(rank, rank->steps.at[last].end_ns) -
			lw_rank_sent_bytes(rank, rank->steps.at[first].start_ns);
	}
	sent /= (double)run->ranks.n * (double)(last - first + 1);
	summary->sent_bytes_per_step = exact(sent, LW_MEASURED);
	compare_with_ring(summary, sent + rdma);
}

/* ---- stragglers ------------------------------------------------------------------------------------ */

/* A rank counts as late when that costs the step this much of its length. */
static const double worth_telling_frac = 0.02;
static const double most_steps_frac = 0.75;

static int summarize_stragglers(const struct lw_run *run, struct lw_summary *summary)
{
	size_t n_all = n_steps_of(run), n_ranks = run->ranks.n, n = summary->n_steps;
	double *late = calloc(n_ranks * n + 1, sizeof(*late)); /* [rank][step] */
	double *last_ns =
		calloc(n_ranks + 1, sizeof(*last_ns)); /* sum over steps that it was last in */
	int64_t *computed_ns = calloc(n_ranks + 1, sizeof(*computed_ns));
	size_t *n_last = calloc(n_ranks + 1, sizeof(*n_last)), at = 0;
	int status = LW_OK;

	if (!late || !n_last || !computed_ns || !last_ns)
		status = lw_fail(LW_ERR_NOMEM, "no memory");
	for (size_t s = 0; s < n_all && status == LW_OK && n_ranks > 1; s++) {
		size_t first = 0;
		int32_t last;

		if (!lw_summary_is_counted(run, s))
			continue;
		if (!lw_run_computed(run, s, computed_ns))
			goto done; /* lateness cannot be compared */
		for (size_t r = 1; r < n_ranks; r++)
			first = computed_ns[r] < computed_ns[first] ? r : first;
		last = lw_run_last(run, computed_ns);
		if (last != LW_NONE) {
			n_last[last]++;
			last_ns[last] += (double)(computed_ns[last] - computed_ns[first]);
		}
		for (size_t r = 0; r < n_ranks; r++)
			late[r * n + at] = (double)(computed_ns[r] - computed_ns[first]);
		at++;
	}
	for (size_t r = 0; r < n_ranks && status == LW_OK && at; r++) {
		struct lw_straggler straggler = {.rank = run->ranks.at[r].rank,
			.steps_frac = (double)n_last[r] / (double)at,
			.late_ns = mean_of(late + r * n, at, NULL),
			.last_ns = n_last[r] ? last_ns[r] / (double)n_last[r] : (double)NAN};

		double least_ns = at > 1 ? straggler.late_ns.low : straggler.late_ns.value;

		straggler.is_persistent = at > 1 && straggler.steps_frac >= most_steps_frac;
		if (least_ns > worth_telling_frac * summary->step_ns.value &&
			straggler.steps_frac > 0.5 / (double)n_ranks)
			status = lw_vec_push(&summary->stragglers, straggler);
	}
done:
	free(late);
	free(last_ns);
	free(computed_ns);
	free(n_last);
	return status;
}

/* ---- settings, scaling, model ----------------------------------------------------------------------- */

static struct lw_figure setting_of(const struct lw_run *run, enum lw_setting setting)
{
	const struct lw_rank *rank = run->ranks.n ? &run->ranks.at[0] : NULL;

	if (!rank || isnan(rank->setting[setting]))
		return unknown("the framework's setting was not seen");
	return exact(rank->setting[setting],
		rank->setting_source[setting] == LW_SOURCE_DEFAULT ? LW_ASSUMED : LW_MEASURED);
}

static void summarize_model(const struct lw_run *run, const struct lw_fit *fit,
	double baseline_step_ns, struct lw_summary *summary)
{
	summary->fusion_bytes = setting_of(run, LW_SETTING_FUSION_BYTES);
	summary->cycle_ns = setting_of(run, LW_SETTING_CYCLE_NS);
	summary->duration_ns = exact((double)(run->last_ns - run->first_ns), LW_MEASURED);
	summary->csf = fit ? fit->figure[LW_FIT_CSF] : summary->step_ns;
	summary->osf = fit ? fit->figure[LW_FIT_OSF] : summary->step_ns;
	summary->osf_f = fit ? fit->figure[LW_FIT_OSF_F] : summary->step_ns;
	summary->alpha_ns = fit ? fit->figure[LW_FIT_ALPHA_NS] : summary->step_ns;
	summary->beta_bytes_per_s = fit ? fit->figure[LW_FIT_BETA_BYTES_PER_S] : summary->step_ns;
	summary->sf = unknown("the step time on one rank is not known: give --baseline");
	if (baseline_step_ns > 0 && summary->n_steps) {
		summary->sf.value = lw_sf_weak(baseline_step_ns, summary->step_ns.value);
		summary->sf.low = lw_sf_weak(baseline_step_ns, summary->step_ns.high);
		summary->sf.high = lw_sf_weak(baseline_step_ns, summary->step_ns.low);
		summary->sf.why = summary->step_ns.why;
	}
}

int lw_summarize(struct lw_run *run, const struct lw_fit *fit, double baseline_step_ns,
	struct lw_summary *ret_summary)
{
	int status;

	*ret_summary = (struct lw_summary){0};
	status = summarize_steps(run, ret_summary);
	if (status == LW_OK)
		status = summarize_stragglers(run, ret_summary);
	if (status < 0) {
		lw_summary_done(ret_summary);
		return status;
	}
	lw_volume_summarize(run, ret_summary);
	summarize_network(run, ret_summary);
	summarize_model(run, fit, baseline_step_ns, ret_summary);
	return LW_OK;
}

void lw_summary_done(struct lw_summary *summary)
{
	lw_vec_free(&summary->ranks);
	lw_vec_free(&summary->stragglers);
}
