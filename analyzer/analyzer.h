/* SPDX-License-Identifier: Apache-2.0 */
/*
 * analyzer.h - everything that lapwing knows of a run, from one call. For readers: cli/ and tui/.
 */
#ifndef LAPWING_ANALYZER_ANALYZER_H
#define LAPWING_ANALYZER_ANALYZER_H

#include <stdbool.h>

#include "analyzer/advise/advise.h"
#include "analyzer/emit/brief.h"
#include "analyzer/fit/fit.h"
#include "analyzer/run.h"

struct lw_analysis {
	struct lw_run *run;
	struct lw_fit fit; /* zeroed unless has_fit */
	bool has_fit;
	struct lw_advice_list advice;
	struct lw_summary summary;
	struct lw_brief brief;
};

struct lw_analysis_options {
	double baseline_step_ns; /* step time of the same job on one rank, 0 = not known */
	double forward_flop, peak_flop_per_s; /* see lw_fit_utilisation(); 0 = not known */
	void (*progress)(const char *stage);  /* called before each stage; may be NULL */
	bool is_read_only; /* results stay in memory: the collector still writes the run file */
};

/**
 * lw_run_reconstruct() - load @paths and rebuild operations, steps, phases, overlap.
 * @mode: LW_STORE_WRITE: store them, where the file can be written; LW_STORE_READ: not.
 */
int lw_run_reconstruct(const char *const *paths, size_t n_paths, enum lw_store_mode mode,
	void (*progress)(const char *stage), struct lw_run **ret_run);

/**
 * lw_analysis_open() - all stages over @paths; results go into the run file when it can be written.
 * A run that holds no step, or nothing to advise on, is no error: its figures are NAN and say why.
 * Return: LW_OK or the first error. Free with lw_analysis_close().
 */
int lw_analysis_open(const char *const *paths, size_t n_paths,
	const struct lw_analysis_options *options, struct lw_analysis **ret_analysis);
void lw_analysis_close(struct lw_analysis *analysis);

#endif /* LAPWING_ANALYZER_ANALYZER_H */
