/* SPDX-License-Identifier: Apache-2.0 */
/*
 * advise.h - what to change, how much it would gain, and how sure that is.
 *
 * Reads:  a run after match and step.   Writes: tables advice and prediction (lw_advise_store()).
 *
 * One adviser is one file and one row in advise.c's table. It may add one advice, and findings: plain
 * statements without a gain, such as "the recorded setting is as good as anything this run can tell".
 * An advice never claims a gain that is below its own error.
 */
#ifndef LAPWING_ANALYZER_ADVISE_ADVISE_H
#define LAPWING_ANALYZER_ADVISE_ADVISE_H

#include "analyzer/run.h"
#include "analyzer/simulate/replay.h"

enum { LW_ADVICE_MAX_SETS = 4, LW_ADVICE_TEXT_BYTES = 1024 };

struct lw_advice_set {
	const char *name; /* variable, static */
	char value[32];
};

struct lw_advice {
	const char *id, *title; /* static */
	char why[LW_ADVICE_TEXT_BYTES];
	char sure[LW_ADVICE_TEXT_BYTES / 2];
	struct lw_advice_set set[LW_ADVICE_MAX_SETS];
	uint32_t n_sets;
	struct lw_figure step_ns;   /* median step with it */
	struct lw_figure gain_frac; /* of the recorded step; low > 0 */
};

struct lw_finding {
	const char *id; /* of the adviser, static */
	char text[LW_ADVICE_TEXT_BYTES];
};

struct lw_grid_row { /* one setting that was tried */
	struct lw_prediction prediction;
	struct lw_figure gain_ns;
};

struct lw_advice_list {
	struct lw_figure baseline_ns;    /* recorded median step; NAN with why when there is none */
	lw_vec(struct lw_advice) advice; /* best first */
	lw_vec(struct lw_finding) findings;
	lw_vec(struct lw_grid_row) tried; /* by fusion_bytes, then cycle_ns */
	struct lw_replay *replay; /* NULL: no replay was possible, baseline_ns.why says why */
	char why_not[LW_ADVICE_TEXT_BYTES];
};

/* One row of advise.c's table. @run: returns LW_OK also when it has nothing to say. */
struct lw_adviser {
	const char *id, *title;
	int (*run)(const struct lw_adviser *self, struct lw_run *run, struct lw_advice_list *list);
};

/**
 * lw_advise() - ask every adviser.
 * A run that cannot be replayed gives no advice, one finding and one diag that say why, and LW_OK.
 * Return: LW_OK or LW_ERR_NOMEM; free with lw_advice_list_free() in both cases.
 */
int lw_advise(struct lw_run *run, struct lw_advice_list *ret_list);
void lw_advice_list_free(struct lw_advice_list *list);

/** lw_advise_store() - replace tables advice and prediction of the run's first writable store. */
int lw_advise_store(struct lw_run *run, const struct lw_advice_list *list);

/** lw_advise_top_line() - the whole answer in one line, for reports. Return: @text. */
const char *lw_advise_top_line(const struct lw_advice_list *list, char text[LW_ADVICE_TEXT_BYTES]);

/** lw_advise_find() - add a finding. Return: LW_OK or LW_ERR_NOMEM. */
int lw_advise_find(struct lw_advice_list *list, const char *id, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* The advisers. */
int lw_advise_fusion_cycle(
	const struct lw_adviser *self, struct lw_run *run, struct lw_advice_list *list);
int lw_advise_ddp(const struct lw_adviser *self, struct lw_run *run, struct lw_advice_list *list);
int lw_advise_evidence(
	const struct lw_adviser *self, struct lw_run *run, struct lw_advice_list *list);

/** lw_advise_grid() - the settings that fusion_cycle tries first; see fusion_cycle.c. */
struct lw_advise_grid {
	double fusion_bytes[24], cycle_ns[24];
	size_t n_fusion, n_cycle;
};
void lw_advise_grid(const struct lw_replay *replay, struct lw_advise_grid *ret_grid);

#endif /* LAPWING_ANALYZER_ADVISE_ADVISE_H */
