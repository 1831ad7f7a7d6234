/* SPDX-License-Identifier: Apache-2.0 */
/* advise.c - asks the advisers, keeps and stores what they say. One row an adviser. */
#include "analyzer/advise/advise.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/advise/trial.h"
#include "analyzer/simulate/stats.h"
#include "base/units.h"

static const struct lw_adviser *const advisers[] = {
	&lw_adviser_fusion_cycle,
	&lw_adviser_groups,
	&lw_adviser_ddp,
	&lw_adviser_accumulate,
	&lw_adviser_fp16,
	&lw_adviser_sparse,
	&lw_adviser_hierarchical,
	&lw_adviser_star,
	&lw_adviser_straggler,
	&lw_adviser_late,
	&lw_adviser_gpu_late,
	&lw_adviser_slow_link,
	&lw_adviser_loss,
	&lw_adviser_held,
	&lw_adviser_foreign,
	&lw_adviser_interface,
	&lw_adviser_frames,
	&lw_adviser_gpu_sync,
	&lw_adviser_gpu_stream,
	&lw_adviser_gpu_copies,
	&lw_adviser_gpu_idle,
	&lw_adviser_gpu_host,
	&lw_adviser_gpu_wait,
	&lw_adviser_gpu_clocks,
	&lw_adviser_gpu_nccl,
	&lw_adviser_gpu_link,
	&lw_adviser_layer,
	&lw_adviser_bandwidth,
	&lw_adviser_latency,
	&lw_adviser_ranks,
	&lw_adviser_sensitivity,
	&lw_adviser_evidence,
};
enum { N_ADVISERS = sizeof(advisers) / sizeof(advisers[0]) };

static const char *const kind_names[] = {"set", "code", "training", "hardware", "what-if"};

const char *lw_advice_kind_name(enum lw_advice_kind kind)
{
	return kind_names[kind];
}

const struct lw_adviser *lw_advise_nth(size_t n)
{
	return n < N_ADVISERS ? advisers[n] : NULL;
}

const struct lw_adviser *lw_advise_adviser(const char *id)
{
	for (size_t i = 0; i < N_ADVISERS; i++)
		if (!strcmp(advisers[i]->id, id))
			return advisers[i];
	return NULL;
}

size_t lw_advise_n_tried(const struct lw_advice_list *list, const char *id)
{
	const struct lw_trial *trial;
	size_t n = 0;

	lw_vec_foreach (trial, &list->tried)
		n += !strcmp(trial->id, id);
	return n;
}

bool lw_advise_spoke(const struct lw_advice_list *list, const char *id)
{
	const struct lw_finding *finding;
	const struct lw_advice *advice;

	lw_vec_foreach (advice, &list->advice)
		if (!strcmp(advice->id, id))
			return true;
	lw_vec_foreach (finding, &list->findings)
		if (!strcmp(finding->id, id))
			return true;
	return lw_advise_n_tried(list, id) > 0;
}

const char *lw_advise_ids(const struct lw_advice_list *list, char text[LW_ADVICE_TEXT_BYTES])
{
	size_t n = 0;

	text[0] = 0;
	for (size_t i = 0; i < N_ADVISERS && n < LW_ADVICE_TEXT_BYTES; i++)
		if (lw_advise_spoke(list, advisers[i]->id))
			n += (size_t)snprintf(text + n, LW_ADVICE_TEXT_BYTES - n, "%s%s",
				n ? " " : "", advisers[i]->id);
	return text;
}

static int add_finding(struct lw_advice_list *list, struct lw_finding finding, const char *format,
	va_list arguments)
{
	vsnprintf(finding.text, sizeof(finding.text), format, arguments);
	if (lw_vec_push(&list->findings, finding) < 0)
		return LW_ERR_NOMEM;
	if (finding.is_first) {
		memmove(list->findings.at + 1, list->findings.at,
			(list->findings.n - 1) * sizeof(finding));
		list->findings.at[0] = finding;
	}
	return LW_OK;
}

#define ADD_FINDING(...)                                                                           \
	va_list arguments;                                                                         \
	int status;                                                                                \
                                                                                                   \
	va_start(arguments, format);                                                               \
	status = add_finding(list, (struct lw_finding){.step = LW_NONE, .mark = -1, __VA_ARGS__},  \
		format, arguments);                                                                \
	va_end(arguments);                                                                         \
	return status

int lw_advise_find(struct lw_advice_list *list, const char *id, const char *format, ...)
{
	ADD_FINDING(.id = id, .bound = LW_BOUND_NONE);
}

int lw_advise_lead(struct lw_advice_list *list, const char *id, const char *format, ...)
{
	ADD_FINDING(.id = id, .is_first = true, .bound = LW_BOUND_NONE);
}

/* The rank of the job @number. NULL: it is none of the run. */
static const struct lw_rank *rank_of(const struct lw_run *run, int32_t number)
{
	const struct lw_rank *rank;

	lw_vec_foreach (rank, &run->ranks)
		if (rank->rank == number)
			return rank;
	return NULL;
}

int lw_advise_bound(const struct lw_run *run, struct lw_advice_list *list, const char *id,
	struct lw_bound bound, const char *format, ...)
{
	const struct lw_rank *rank = rank_of(run, bound.rank);
	struct lw_finding finding = {.id = id, .bound = bound, .step = LW_NONE, .mark = -1};
	va_list arguments;
	int status;

	if (rank && bound.at_ns != LW_NS_UNKNOWN) {
		finding.step = lw_rank_step_at(rank, bound.at_ns);
		finding.since_ns = lw_run_since_ns(run, rank, bound.at_ns);
		if (finding.step != LW_NONE)
			finding.mark = rank->steps.at[finding.step].mark;
	}
	va_start(arguments, format);
	status = add_finding(list, finding, format, arguments);
	va_end(arguments);
	return status;
}

/* How much a finding is worth saying before others of its list. */
static double worth(const struct lw_finding *finding)
{
	return finding->is_first                 ? (double)INFINITY
	       : isnan(finding->bound.most_frac) ? -1
						 : finding->bound.most_frac;
}

/* Those that can gain most first; the others stay in their order. */
static void sort_findings(struct lw_advice_list *list)
{
	for (size_t i = 1; i < list->findings.n; i++) {
		struct lw_finding finding = list->findings.at[i];
		size_t to = i;

		for (; to > 0 && worth(&list->findings.at[to - 1]) < worth(&finding); to--)
			list->findings.at[to] = list->findings.at[to - 1];
		list->findings.at[to] = finding;
	}
}

int lw_advise_note(struct lw_advice_list *list, const char *id, const char *format, ...)
{
	ADD_FINDING(.id = id, .is_minor = true, .bound = LW_BOUND_NONE);
}

void lw_advice_list_free(struct lw_advice_list *list)
{
	struct lw_advice *advice;

	lw_vec_foreach (advice, &list->advice)
		free(advice->code);
	for (size_t i = 0; i < list->groupings.n; i++)
		free(list->groupings.at[i]);
	lw_vec_free(&list->groupings);
	free(list->base_ns);
	list->base_ns = list->other_ns = NULL;
	lw_vec_free(&list->advice);
	lw_vec_free(&list->findings);
	lw_vec_free(&list->tried);
	lw_replay_free(list->replay);
	list->replay = NULL;
}

/* Mean over ranks of step @s. Return: NAN: it is left out on one of them. */
static double step_ns(const struct lw_run *run, size_t s)
{
	double ns = 0;

	for (size_t r = 0; r < run->ranks.n; r++) {
		const struct lw_rank *rank = &run->ranks.at[r];

		if (s >= rank->steps.n || rank->steps.at[s].excluded)
			return NAN;
		ns += (double)(rank->steps.at[s].end_ns - rank->steps.at[s].start_ns) /
		      (double)run->ranks.n;
	}
	return ns;
}

/* How long a step was is measured, though nothing is replayed. */
static int measure_baseline(const struct lw_run *run, struct lw_figure *baseline_ns)
{
	size_t n_all = run->ranks.n ? run->ranks.at[0].steps.n : 0, n = 0;
	double *ns = malloc((n_all + 1) * sizeof(*ns));

	if (!ns)
		return lw_fail(LW_ERR_NOMEM, "no memory for %zu steps", n_all);
	for (size_t s = 0; s < n_all; s++) {
		ns[n] = step_ns(run, s);
		n += !isnan(ns[n]);
	}
	if (n) {
		baseline_ns->why = NULL;
		lw_stats_step(ns, n, &baseline_ns->value, &baseline_ns->low, &baseline_ns->high);
	}
	free(ns);
	return LW_OK;
}

static int refuse(struct lw_run *run, struct lw_advice_list *list)
{
	int status;

	snprintf(list->why_not, sizeof(list->why_not), "%s", lw_error_text());
	list->baseline_ns.why = list->why_not;
	lw_error_clear();
	status = measure_baseline(run, &list->baseline_ns);
	if (status < 0)
		return status;
	return lw_run_diag(run, "advise", "no_advice", 1, "no advice: %s", list->why_not);
}

/* Why nothing was replayed: after what is said all the same. */
static int find_refusal(const struct lw_run *run, struct lw_advice_list *list)
{
	const char *id = run->is_profile ? lw_adviser_ddp.id : lw_adviser_fusion_cycle.id;
	const struct lw_finding *finding;

	lw_vec_foreach (finding, &list->findings)
		if (!finding->is_minor && !finding->is_first)
			return lw_advise_find(list, id,
				"no setting was tried, and nothing is predicted: %s",
				list->why_not);
	return lw_advise_find(list, id, "no advice: %s", list->why_not);
}

/* What can be set first; of a kind, what gains most even if the error is against it. */
static int by_kind(const void *a, const void *b)
{
	const struct lw_advice *x = a, *y = b;

	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	if (x->gain_frac.low != y->gain_frac.low)
		return x->gain_frac.low > y->gain_frac.low ? -1 : 1;
	return strcmp(x->id, y->id);
}

static int prepare(struct lw_run *run, struct lw_advice_list *list)
{
	int status = lw_replay_new(run, &list->replay);

	if (status == LW_ERR_LIMIT)
		return refuse(run, list);
	if (status < 0)
		return status;
	list->baseline_ns = lw_replay_recorded(list->replay);
	return lw_advise_base(list);
}

static int note_refusal(struct lw_advice_list *list, const struct lw_adviser *self)
{
	char text[LW_ADVICE_TEXT_BYTES];

	snprintf(text, sizeof(text), "%s", lw_error_text());
	lw_error_clear();
	return lw_advise_note(list, self->id, "%s", text);
}

int lw_advise(struct lw_run *run, struct lw_advice_list *ret_list)
{
	struct lw_advice_list *list = ret_list;
	int status;

	memset(list, 0, sizeof(*list));
	list->baseline_ns = (struct lw_figure){NAN, NAN, NAN, LW_MEASURED, NULL};
	status = prepare(run, list);
	for (size_t i = 0; i < N_ADVISERS && status == LW_OK; i++) {
		if (list->replay || advisers[i]->needs_no_replay)
			status = advisers[i]->run(advisers[i], run, list);
		if (status == LW_ERR_UNSUPPORTED) /* it asked for what this run cannot tell */
			status = note_refusal(list, advisers[i]);
	}
	if (status == LW_OK && !list->replay)
		status = find_refusal(run, list);
	sort_findings(list);
	if (list->advice.n > 1)
		qsort(list->advice.at, list->advice.n, sizeof(*list->advice.at), by_kind);
	return status;
}

bool lw_advise_is_advised(const struct lw_advice_list *list)
{
	return list->advice.n > 0 && list->advice.at[0].kind <= LW_ADVICE_CODE;
}
