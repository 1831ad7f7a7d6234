/* SPDX-License-Identifier: Apache-2.0 */
/*
 * data.h - what views show: the analysis of a run, read in the background, and what can be asked of it.
 *
 * Reads:  run files.   Writes: what analyzer/ writes (result tables).
 * The analysis is made by a thread of its own; lw_data_poll() takes it over, so views see whole ones only.
 */
#ifndef LAPWING_TUI_DATA_H
#define LAPWING_TUI_DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyzer/analyzer.h"
#include "analyzer/simulate/forecast.h"
#include "tui/prepare.h"

enum { LW_DATA_TEXT_BYTES = 512 };

struct lw_loader;

struct lw_data {
	const char *const *paths; /* borrowed */
	size_t n_paths;
	bool is_read_only;       /* the run still grows: its collector is the one who writes */
	bool is_unfinished;      /* no analysis can be stored in it yet: none is looked for */
	struct lw_brief preview; /* as stored by an earlier analysis, until this one is there */
	bool has_preview;
	char facts[LW_BRIEF_JOB_BYTES]; /* what the files say at once; "" = nothing, or not asked */
	struct lw_analysis *analysis;   /* NULL: not there yet, or failed */
	struct lw_prepared prepared;    /* of this analysis, for views to take */
	unsigned generation;            /* grows with each new analysis; 0: none was there yet */
	const char *stage;              /* what the thread does now, static; NULL: nothing */
	char error[LW_DATA_TEXT_BYTES]; /* why there is no (new) analysis; "" = no error */
	int status;                     /* LW_OK or what error tells of */
	struct lw_predictor *predictor; /* of this analysis; see lw_data_predictor() */
	char why_no_predictor[LW_DATA_TEXT_BYTES];
	bool has_asked_predictor;
	struct lw_loader *loader; /* while it works */
};

/** lw_data_load() - analyse @data->paths, here and now. Return: LW_OK or an error, in data->error too. */
int lw_data_load(struct lw_data *data);

/** lw_data_begin() - the same in the background, unless it is at it already; what an earlier analysis stored is there at
 * once. Return: as far as can be told. */
int lw_data_begin(struct lw_data *data);

/** lw_data_poll() - take over what the thread has made. Return: something changed: draw. */
bool lw_data_poll(struct lw_data *data);

/** lw_data_brief() - the run on one page. NULL: nothing is known yet. */
const struct lw_brief *lw_data_brief(const struct lw_data *data);

/** lw_data_forget() - close the analysis that is there: the run file is free again. Views open anew. */
void lw_data_forget(struct lw_data *data);

/** lw_data_done() - waits for the thread. */
void lw_data_done(struct lw_data *data);

/** lw_data_predictor() - for what-ifs; made when first asked for. NULL: why_no_predictor says why. */
struct lw_predictor *lw_data_predictor(struct lw_data *data);

#endif /* LAPWING_TUI_DATA_H */
