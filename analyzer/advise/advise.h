/* SPDX-License-Identifier: Apache-2.0 */
/*
 * advise.h - what to change, how much it would gain, and how sure that is.
 *
 * Reads:  a run after match and step.   Writes: tables advice and prediction (lw_advise_store()).
 *
 * One adviser is one struct lw_adviser in a file and one row in advise.c's table. It tries settings (trial.h), and may add
 * advice, and findings: plain statements without a gain, such as "the recorded setting is as good as
 * anything this run can tell". An advice never claims a gain that is below its own error.
 */
#ifndef LAPWING_ANALYZER_ADVISE_ADVISE_H
#define LAPWING_ANALYZER_ADVISE_ADVISE_H

#include <math.h>

#include "analyzer/run.h"
#include "analyzer/simulate/replay.h"

enum { LW_ADVICE_MAX_SETS = 4, LW_ADVICE_TEXT_BYTES = 1536, LW_TRIAL_LABEL_BYTES = 64 };

/* What it takes to follow an advice, the easiest first. The last two are no advice but answers: what
 * other hardware or other work would bring. */
enum lw_advice_kind {
	LW_ADVICE_SET,      /* variables of the environment */
	LW_ADVICE_CODE,     /* lines of the training script; what is trained stays the same */
	LW_ADVICE_TRAINING, /* lines of the training script; batch or rounding change */
	LW_ADVICE_HARDWARE,
	LW_ADVICE_WHAT_IF,
};

struct lw_advice_set {
	const char *name; /* variable, static */
	char value[32];
};

struct lw_advice {
	const char *id, *title; /* static */
	enum lw_advice_kind kind;
	char lead[64]; /* "Late rank 1: without it", before "77.4 % less"; "" = the title does */
	char why[LW_ADVICE_TEXT_BYTES];
	char sure[LW_ADVICE_TEXT_BYTES / 2];
	struct lw_advice_set set[LW_ADVICE_MAX_SETS];
	uint32_t n_sets;
	char *code;                 /* lines to paste, the last without a newline; NULL = none */
	struct lw_figure step_ns;   /* the step with it, for one backward pass */
	struct lw_figure gain_frac; /* of the recorded step; low > 0 */
	/* the trial that it stands on: what the step then consists of; of several, the first */
	struct lw_prediction prediction;
	struct lw_whatif whatif; /* what that trial asked; group_of: of the list */
};

/* What a finding is worth at most, straight from the records: nothing was simulated for it, and its error is not known. */
struct lw_bound {
	double most_frac; /* of the step, or of what was recorded where there are no steps; NAN: not known */
	int32_t rank; /* of the job, the one that is named; LW_NONE: of none, or all */
	/* the longest place that it stands on, on that rank's clock; LW_NS_UNKNOWN: it knows none */
	int64_t at_ns, length_ns;
};
#define LW_BOUND_NONE ((struct lw_bound){NAN, LW_NONE, LW_NS_UNKNOWN, LW_NS_UNKNOWN})

struct lw_finding {
	const char *id; /* of the adviser, static */
	char text[LW_ADVICE_TEXT_BYTES];
	bool is_minor; /* for who asks after this adviser only */
	bool is_first; /* before every advice: what holds up all operations; first of the findings too */
	struct lw_bound bound;
	int64_t since_ns; /* of bound.at_ns: since the run begins, as lw_run_since_ns() */
	int32_t step;     /* of bound.at_ns: index; LW_NONE: outside, or there is no place */
	int64_t mark;     /* the number that its mark says; < 0 = it has none */
};

struct lw_trial {       /* one setting that was tried */
	const char *id; /* of the adviser, static */
	char label[LW_TRIAL_LABEL_BYTES];
	struct lw_prediction prediction;
	struct lw_whatif whatif; /* what was asked; group_of: of the list */
	/* of one backward pass, which is a step unless backward_passes was asked */
	struct lw_figure step_ns, gain_ns; /* gain: against the recorded setting */
};

struct lw_advice_list {
	struct lw_figure
		baseline_ns; /* middle of the recorded steps, replayed or not; NAN with why when there is none */
	lw_vec(struct lw_advice) advice;    /* by kind, then by the lower end of the gain */
	lw_vec(struct lw_finding) findings; /* is_first, then by most_frac, then the others */
	lw_vec(struct lw_trial) tried; /* of an adviser: contiguous, in the order to show them */
	lw_vec(int32_t *) groupings;   /* group_of of trials; owned */
	struct lw_replay *replay;      /* NULL: no replay was possible, why_not says why */
	char why_not[LW_ADVICE_TEXT_BYTES];
	/* the recorded setting, which every trial is compared with; see trial.h */
	struct lw_prediction base;
	double *base_ns, *other_ns; /* step times, by step */
};

struct lw_idle_place {      /* one that a finding stands on: a GPU had nothing to do */
	int32_t rank, step; /* of the job; index into the steps of that rank, LW_NONE: outside */
	int64_t at_ns, length_ns; /* at: lw_run_since_ns() */
	int64_t into_ns;          /* since the step began */
	int64_t mark;             /* the number that the step's mark says; < 0 = it has none */
	const char *next;         /* what ran then, as it is in the store; of the run */
	char host
		[192]; /* in which ranges the thread that launched that was meanwhile; "" = not known */
};

struct lw_idle_places {
	lw_vec(struct lw_idle_place) at;
};

/* Defined by the file of the adviser, named in one row of advise.c's table. */
struct lw_adviser {
	const char *id, *title;
	/* Return: LW_OK also when it has nothing to say. */
	int (*run)(const struct lw_adviser *self, struct lw_run *run, struct lw_advice_list *list);
	bool needs_no_replay; /* is asked even when list->replay is NULL */
	/* Adds those that matter most, the longest first. Return: LW_OK or LW_ERR_NOMEM. NULL: it knows none. */
	int (*places)(const struct lw_run *run, struct lw_idle_places *ret);
	/* the story that advise --explain tells; the figures come from the trials */
	const char *assumes, *wrong_if, *check;
};

/**
 * lw_advise() - ask every adviser.
 * A run that cannot be replayed gives no advice, one finding and one diag that say why, and LW_OK.
 * Return: LW_OK or LW_ERR_NOMEM; free with lw_advice_list_free() in both cases.
 */
int lw_advise(struct lw_run *run, struct lw_advice_list *ret_list);
void lw_advice_list_free(struct lw_advice_list *list);

/** lw_advise_adviser() - the adviser @id. Return: NULL when there is none. */
const struct lw_adviser *lw_advise_adviser(const char *id);

/** lw_advise_spoke() - whether @id has an advice, a finding or a trial in @list. */
bool lw_advise_spoke(const struct lw_advice_list *list, const char *id);

/** lw_advise_ids() - those that lw_advise_spoke() knows, blanks between. Return: @text. */
const char *lw_advise_ids(const struct lw_advice_list *list, char text[LW_ADVICE_TEXT_BYTES]);

/** lw_advise_n_tried() - how many settings adviser @id tried. */
size_t lw_advise_n_tried(const struct lw_advice_list *list, const char *id);

/** lw_advise_nth() - the advisers in the order of the table. Return: NULL past the last. */
const struct lw_adviser *lw_advise_nth(size_t n);

/** lw_advice_kind_name() - "set", "code", "training", "hardware", "what-if". */
const char *lw_advice_kind_name(enum lw_advice_kind kind);

/** lw_advise_store() - replace tables advice and prediction of the run's first writable store. */
int lw_advise_store(struct lw_run *run, const struct lw_advice_list *list);

/** lw_advise_is_advised() - there is something to do that leaves the training alone: the top line says it. */
bool lw_advise_is_advised(const struct lw_advice_list *list);

/** lw_advise_top_line() - the whole answer in one line, for reports. Return: @text. */
const char *lw_advise_top_line(const struct lw_advice_list *list, char text[LW_ADVICE_TEXT_BYTES]);

/** lw_advise_change_line() - the same; before it a late rank, where without it the step gains more than what can be set. */
const char *lw_advise_change_line(
	const struct lw_advice_list *list, char text[LW_ADVICE_TEXT_BYTES]);

/** lw_advise_n_more() - of a run that cannot be replayed: what is found, and not said by the top line. */
size_t lw_advise_n_more(const struct lw_advice_list *list);

/** lw_advise_bounded() - the @n-th finding of those that say what they are worth at most, the most first. NULL: there is none. */
const struct lw_finding *lw_advise_bounded(const struct lw_advice_list *list, size_t n);

/** lw_advise_bound_line() - "A clock that is held down: at most 3.1 % less, rank 0 (gpu.clocks)". Return: @text. */
const char *lw_advise_bound_line(const struct lw_finding *finding, char text[LW_ADVICE_TEXT_BYTES]);

/**
 * lw_advise_headline() - the same for who begins there: what gains most first, be it a finding such as a late rank, and
 * apart from it what to set. Answers of other hardware come last, and so not at all. Return: @text.
 */
const char *lw_advise_headline(const struct lw_advice_list *list, char text[LW_ADVICE_TEXT_BYTES]);

/** lw_advise_lines() - every advice, then every lw_advise_bound_line(), one a line, in their order. Return: @text. */
const char *lw_advise_lines(const struct lw_advice_list *list, char *text, size_t text_bytes);

/**
 * lw_advise_late_text() - of a run without a framework whose kernels are known: the rank that the others wait for, and
 * whether its GPU or its host makes it late. Return: the number of the rank; LW_NONE: no single rank is late, or it is not
 * known, and @text is "".
 */
int32_t lw_advise_late_text(const struct lw_run *run, char text[LW_ADVICE_TEXT_BYTES]);

enum { LW_LATE_RANGE_BYTES = 192 };

/**
 * lw_advise_late_range_text() - which of its own ranges makes rank @rank (of the job) late by @late_ns a step: "its range
 * "load" takes 20.3 ms a step, on no other rank more than 150 us". Return: @text, "" = none does.
 */
const char *lw_advise_late_range_text(
	const struct lw_run *run, int32_t rank, double late_ns, char text[LW_LATE_RANGE_BYTES]);

/** lw_advise_find() - add a finding. Return: LW_OK or LW_ERR_NOMEM. */
int lw_advise_find(struct lw_advice_list *list, const char *id, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/** lw_advise_bound() - the same, one that says how much is to be gained at most. Of one list its rank is of @run. */
int lw_advise_bound(const struct lw_run *run, struct lw_advice_list *list, const char *id,
	struct lw_bound bound, const char *format, ...) __attribute__((format(printf, 5, 6)));

/** lw_advise_lead() - the same, one that comes before every advice. */
int lw_advise_lead(struct lw_advice_list *list, const char *id, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/** lw_advise_note() - the same, a minor one. */
int lw_advise_note(struct lw_advice_list *list, const char *id, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

extern const struct lw_adviser lw_adviser_fusion_cycle, lw_adviser_groups, lw_adviser_ddp,
	lw_adviser_accumulate, lw_adviser_fp16, lw_adviser_sparse, lw_adviser_hierarchical,
	lw_adviser_star, lw_adviser_straggler, lw_adviser_late, lw_adviser_gpu_late,
	lw_adviser_layer, lw_adviser_bandwidth, lw_adviser_latency, lw_adviser_slow_link,
	lw_adviser_loss, lw_adviser_held, lw_adviser_foreign, lw_adviser_gpu_sync,
	lw_adviser_gpu_stream, lw_adviser_gpu_copies, lw_adviser_gpu_idle, lw_adviser_gpu_host,
	lw_adviser_gpu_wait, lw_adviser_gpu_clocks, lw_adviser_gpu_nccl, lw_adviser_gpu_link,
	lw_adviser_interface, lw_adviser_frames, lw_adviser_ranks, lw_adviser_sensitivity,
	lw_adviser_evidence;

/** lw_advise_default() - the trial of Horovod's own setting. Return: NULL when it was not tried. */
const struct lw_trial *lw_advise_default(const struct lw_advice_list *list);

/** lw_advise_grid() - the settings that fusion_cycle tries first; see fusion_cycle.c. */
struct lw_advise_grid {
	double fusion_bytes[24], cycle_ns[24];
	size_t n_fusion, n_cycle;
};
void lw_advise_grid(const struct lw_replay *replay, struct lw_advise_grid *ret_grid);

#endif /* LAPWING_ANALYZER_ADVISE_ADVISE_H */
