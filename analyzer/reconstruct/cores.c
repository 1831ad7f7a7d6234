/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cores.c - were there cores enough? What each rank used during its steps, and how long it had to wait for one.
 *
 * Totals are sampled twice a second; between two samples they grow evenly. Over the counted steps of a rank, as
 * parts of their time, its training thread
 *
 *	ran r, was ready to run without a core q, slept the rest; it waited for results w (overlap.c)
 *
 * Horovod's waits never sleep, they yield: of r + q, w is such waiting and the rest computing. So
 *
 *	demand = min(r + q - w, 1 - w)          waits of others sleep: min(r + q, 1 - w)
 *	core_wait_frac = demand q / (r + q)
 *
 * which takes a thread to wait for cores alike in both. A yielding thread is passed over more often than one that
 * computes, so this is rather too much than too little. What yielding itself uses or waits for never counts:
 * that the rig's jobs, which compute by timers and wait on all cores, do. And a thread that sleeps through most of
 * its computing, for a GPU or a timer, computes elsewhere: what its short turns wait for a core is little of that.
 */
#include <math.h>
#include <string.h>

#include "analyzer/run.h"
#include "base/cpulist.h"
#include "base/units.h"

/* Less is within what intervals of other settings allow anyway (replay.c); measured in docs/results/cpu.md. */
static const double CONTENDED_FRAC = 0.03;
static const double CPU_BOUND_FRAC = 0.5; /* of computing: so much needs a core */
static const int64_t LEAST_WINDOW_NS = LW_NS_PER_S;

struct window {
	int64_t start_ns, end_ns;
	double blocked_frac; /* of its steps; NAN = not known */
};

/* From the first to the last counted step. */
static struct window find_window(const struct lw_rank *rank)
{
	struct window window = {INT64_MAX, INT64_MIN, NAN};
	double compute_ns = 0, step_ns = 0;
	const struct lw_step *step;

	lw_vec_foreach (step, &rank->steps) {
		if (step->excluded || step->end_ns <= step->start_ns)
			continue;
		if (step->start_ns < window.start_ns)
			window.start_ns = step->start_ns;
		if (step->end_ns > window.end_ns)
			window.end_ns = step->end_ns;
		if (step->host_compute_ns == LW_NS_UNKNOWN)
			continue;
		compute_ns += (double)step->host_compute_ns;
		step_ns += (double)(step->end_ns - step->start_ns);
	}
	if (step_ns > 0)
		window.blocked_frac = fmin(fmax(1 - compute_ns / step_ns, 0), 1);
	return window;
}

struct use {                 /* seconds a second, over the part of a window that has samples */
	double used, waited; /* NAN = not known */
};

static double between(double at, double from, double to, double from_value, double to_value)
{
	return to > from ? from_value + (to_value - from_value) * (at - from) / (to - from)
			 : to_value;
}

/* Totals at @at_ns, which lies between the first and the last of @samples. */
static void total_at(const struct lw_cpu_sample *samples, size_t n, int64_t at_ns,
	double *ret_used_ns, double *ret_waited_ns)
{
	size_t i = 1;
	const struct lw_cpu_sample *from, *to;

	while (i < n - 1 && samples[i].at_ns < at_ns)
		i++;
	from = &samples[i - 1];
	to = &samples[i];
	*ret_used_ns = between((double)at_ns, (double)from->at_ns, (double)to->at_ns,
		(double)from->used_ns, (double)to->used_ns);
	*ret_waited_ns = from->waited_ns == LW_NS_UNKNOWN || to->waited_ns == LW_NS_UNKNOWN
				 ? (double)NAN
				 : between((double)at_ns, (double)from->at_ns, (double)to->at_ns,
					   (double)from->waited_ns, (double)to->waited_ns);
}

static struct use use_in(const struct lw_cpu_sample *samples, size_t n, const struct window *window)
{
	double used_ns[2], waited_ns[2], span_ns;
	int64_t start_ns, end_ns;

	if (n < 2)
		return (struct use){NAN, NAN};
	start_ns = samples[0].at_ns > window->start_ns ? samples[0].at_ns : window->start_ns;
	end_ns = samples[n - 1].at_ns < window->end_ns ? samples[n - 1].at_ns : window->end_ns;
	if (end_ns < start_ns ||
		end_ns - start_ns < LEAST_WINDOW_NS) /* also where no step was found */
		return (struct use){NAN, NAN};
	span_ns = (double)(end_ns - start_ns);
	total_at(samples, n, start_ns, &used_ns[0], &waited_ns[0]);
	total_at(samples, n, end_ns, &used_ns[1], &waited_ns[1]);
	/* totals that shrink are not of one process */
	return (struct use){
		used_ns[1] < used_ns[0] ? (double)NAN : (used_ns[1] - used_ns[0]) / span_ns,
		waited_ns[1] < waited_ns[0] ? (double)NAN
					    : (waited_ns[1] - waited_ns[0]) / span_ns};
}

static void measure_rank(struct lw_rank *rank)
{
	struct window window = find_window(rank);
	struct use all = use_in(rank->cpu.at, rank->cpu.n, &window), training;
	double demand;

	rank->used_cores = all.used;
	rank->waited_cores = all.waited;
	rank->core_wait_frac = NAN;
	rank->is_cpu_bound = false;
	training = use_in(rank->training_cpu.at, rank->training_cpu.n, &window);
	if (isnan(training.used) || isnan(training.waited) || isnan(window.blocked_frac))
		return;
	demand = training.used + training.waited -
		 (rank->framework == LW_FRAMEWORK_HOROVOD ? window.blocked_frac : 0);
	demand = fmin(demand, 1 - window.blocked_frac);
	rank->is_cpu_bound = demand > CPU_BOUND_FRAC * (1 - window.blocked_frac);
	rank->core_wait_frac =
		demand > 0 ? demand * training.waited / (training.used + training.waited) : 0;
}

static bool is_on(const struct lw_host_cores *host, const struct lw_rank *rank)
{
	return host->store == rank->store || !strcmp(host->host, rank->host);
}

static void add_up_host(const struct lw_run *run, struct lw_host_cores *host)
{
	const struct lw_rank *rank;
	struct lw_cpuset set = {0};
	double quota_cores = 0;

	lw_vec_foreach (rank, &run->ranks) {
		if (!is_on(host, rank))
			continue;
		host->n_ranks++;
		if (rank->cpus)
			lw_cpulist_add(rank->cpus, &set);
		quota_cores = fmax(quota_cores, rank->quota_cores); /* of one job: one group */
		if (isnan(rank->used_cores))
			continue;
		host->n_known++;
		host->used_cores = isnan(host->used_cores) ? rank->used_cores
							   : host->used_cores + rank->used_cores;
		host->core_wait_frac = fmax(host->core_wait_frac, rank->core_wait_frac);
		host->n_bound += rank->is_cpu_bound;
		if (rank->is_cpu_bound && rank->core_wait_frac > CONTENDED_FRAC)
			host->contended_frac = fmax(host->contended_frac, rank->core_wait_frac);
	}
	if (lw_cpuset_count(&set))
		host->n_cores = lw_cpuset_count(&set);
	if (quota_cores > 0 && !(host->n_cores < quota_cores))
		host->n_cores = quota_cores;
}

static int find_hosts(struct lw_run *run)
{
	const struct lw_rank *rank;
	struct lw_host_cores *host;

	run->cores.n = 0;
	lw_vec_foreach (rank, &run->ranks) {
		struct lw_host_cores added = {.host = rank->host,
			.store = rank->store,
			.n_cores = NAN,
			.used_cores = NAN,
			.core_wait_frac = NAN};
		bool is_known = false;

		lw_vec_foreach (host, &run->cores)
			is_known |= is_on(host, rank);
		if (!is_known && lw_vec_push(&run->cores, added) < 0)
			return LW_ERR_NOMEM;
	}
	lw_vec_foreach (host, &run->cores)
		add_up_host(run, host);
	return LW_OK;
}

int lw_run_cores(struct lw_run *run)
{
	struct lw_host_cores *host;
	struct lw_rank *rank;
	int status;

	lw_run_diag_reset(run, "cores");
	run->core_wait_frac = run->core_crowd_frac = 0;
	lw_vec_foreach (rank, &run->ranks)
		measure_rank(rank);
	status = find_hosts(run);
	lw_vec_foreach (host, &run->cores) {
		if (status < 0 || !(host->contended_frac > 0))
			continue;
		run->core_wait_frac = fmax(run->core_wait_frac, host->contended_frac);
		if (host->n_cores > 0)
			run->core_crowd_frac =
				fmax(run->core_crowd_frac, host->n_bound / host->n_cores - 1);
		status = lw_run_diag(run, "cores", LW_CORES_CONTENDED, 1,
			"ranks on host %s used %.2f of %.4g cores, and computing waited for a free one in %.0f %% of a step (the most of %u ranks): how long computing takes then depends on the setting, so predictions of other settings are less sure, by at least that much",
			host->host, host->used_cores, host->n_cores, 100 * host->contended_frac,
			host->n_known);
	}
	return status;
}
