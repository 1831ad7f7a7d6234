/* SPDX-License-Identifier: Apache-2.0 */
/*
 * summary.h - the figures of a run that every reader shows: report text, report JSON, screens.
 *
 * Reads:  a run after overlap, its fit.   Writes: nothing.
 * Of a breakdown the means are given, since means add up to the mean step; step_ns is what most steps take, the mean of
 * the middle half of them. Intervals are 95 %: of step_ns by bootstrap over counted steps, of means by their normal
 * approximation; none reaches below 0.
 */
#ifndef LAPWING_ANALYZER_EMIT_SUMMARY_H
#define LAPWING_ANALYZER_EMIT_SUMMARY_H

#include "analyzer/fit/fit.h"
#include "analyzer/run.h"

/* Members of struct lw_step, each with _ns, of which the mean over counted steps is given. */
#define LW_RANK_FIGURES(X)                                                                         \
	X(compute)                                                                                 \
	X(comm)                                                                                    \
	X(hidden)                                                                                  \
	X(exposed)                                                                                 \
	X(idle)                                                                                    \
	X(negotiate)                                                                               \
	X(wait)                                                                                    \
	X(allreduce)                                                                               \
	X(misc)                                                                                    \
	X(late)                                                                                    \
	X(tick)                                                                                    \
	X(entry)                                                                                   \
	X(exposed_negotiate)                                                                       \
	X(exposed_wait)                                                                            \
	X(exposed_allreduce)                                                                       \
	X(exposed_misc)                                                                            \
	X(exposed_entry)

/* Of the whole run. step_ns: middle half over steps of the mean over ranks, mean_step_ns: mean of all counted ones. exposed_*: means over steps and ranks, of the
 * mean step. sent_*: of the mean rank. tcp_acked_ratio: what the kernel says was acknowledged over what the
 * hooks saw sent. */
#define LW_SUMMARY_FIGURES(X)                                                                      \
	X(duration_ns)                                                                             \
	X(step_ns)                                                                                 \
	X(mean_step_ns)                                                                            \
	X(exposed_ns)                                                                              \
	X(exposed_frac)                                                                            \
	X(fusion_bytes)                                                                            \
	X(cycle_ns)                                                                                \
	X(batches_per_step)                                                                        \
	X(bytes_per_step)                                                                          \
	X(algbw_bytes_per_s)                                                                       \
	X(busbw_bytes_per_s)                                                                       \
	X(sent_bytes_per_step)                                                                     \
	X(rdma_bytes_per_step)                                                                     \
	X(expected_bytes_per_step)                                                                 \
	X(sent_ratio)                                                                              \
	X(tcp_acked_ratio)                                                                         \
	X(sf)                                                                                      \
	X(csf)                                                                                     \
	X(osf)                                                                                     \
	X(osf_f)                                                                                   \
	X(alpha_ns)                                                                                \
	X(beta_bytes_per_s)

struct lw_rank_summary { /* means over the counted steps of one rank */
	int32_t rank;
	const char *host; /* of the run */
	struct lw_figure step_ns;
#define X(name) struct lw_figure name##_ns;
	LW_RANK_FIGURES(X)
#undef X
};

struct lw_straggler {
	int32_t rank;
	bool is_persistent; /* last in most of several steps; else one of several that take turns, or the last of one step */
	struct lw_figure
		late_ns; /* computing that it needs beyond the fastest rank; mean of all counted steps */
	double last_ns;    /* the same, mean of the steps that it was last in; NAN: not stored */
	double steps_frac; /* of the counted steps it was last in */
};

struct lw_summary {
	size_t n_steps, n_excluded;
#define X(name) struct lw_figure name;
	LW_SUMMARY_FIGURES(X)
#undef X
	lw_vec(struct lw_rank_summary) ranks;
	lw_vec(struct lw_straggler) stragglers;
};

/**
 * lw_summarize() - @fit may be NULL (no step counted); @baseline_step_ns: the job's step time on one
 * rank, 0 = not known (then sf is not known). Return: LW_OK or LW_ERR_NOMEM; lw_summary_done().
 */
int lw_summarize(struct lw_run *run, const struct lw_fit *fit, double baseline_step_ns,
	struct lw_summary *ret_summary);
void lw_summary_done(struct lw_summary *summary);

/* What a mean step is made of, one after the other. */
enum lw_exposed_part {
	LW_EXPOSED_COMPUTE, /* not exposed */
	LW_EXPOSED_AGREE, /* NEGOTIATE, and where it is known entry: the last rank is not there yet */
	LW_EXPOSED_WAIT,
	LW_EXPOSED_WIRE, /* ALLREDUCE less entry */
	LW_EXPOSED_MISC,
	LW_EXPOSED_IDLE, /* neither */
	LW_EXPOSED_PARTS
};

struct lw_exposed {
	double part_ns[LW_EXPOSED_PARTS]; /* NAN = not known */
};

/** lw_summary_exposed() - of @rank; NULL: mean over the ranks that know theirs. */
struct lw_exposed lw_summary_exposed(
	const struct lw_summary *summary, const struct lw_rank_summary *rank);

/* Figures as this one has them: a number without an interval, one that @why says why it is not known (static text), */
struct lw_figure lw_summary_exact(double value, enum lw_how how);
struct lw_figure lw_summary_unknown(const char *why);
/** lw_summary_mean() - and the mean of @n times, with the interval of a mean; any NAN among them: not known. */
struct lw_figure lw_summary_mean(const double *values, size_t n, const char *why);
/** lw_summary_known() - LW_NS_UNKNOWN is NAN. */
double lw_summary_known(int64_t ns);

/** lw_summary_is_counted() - step @s is in the means: of no rank it was left out. */
bool lw_summary_is_counted(const struct lw_run *run, size_t s);

/**
 * lw_summary_acked() - payload that rank @r sent on hooked sockets, by the kernel's count: as the hook asked, else as the
 * collector did. @ret_sent: by the hook, on the same sockets. Return: NAN: nobody asked.
 */
double lw_summary_acked(const struct lw_run *run, size_t r, double *ret_sent);

#endif /* LAPWING_ANALYZER_EMIT_SUMMARY_H */
