/* SPDX-License-Identifier: Apache-2.0 */
/* analysis.c - the stages in their order; each stores its own tables. */
#include <stdlib.h>

#include "analyzer/analyzer.h"

struct stage {
	const char *name;
	int (*run)(struct lw_run *run);
};

static const struct stage reconstruction[] = {
	{"matching operations across ranks", lw_run_match},
	{"finding steps", lw_run_steps},
	{"phases", lw_run_phases},
	{"overlap of computing and communicating", lw_run_overlap},
	{"GPU streams", lw_run_gpu},
	{"cores", lw_run_cores},
	{"network", lw_run_network},
	{"storing results", lw_run_store_results},
};

static void tell(void (*progress)(const char *stage), const char *stage)
{
	if (progress)
		progress(stage);
}

int lw_run_reconstruct(const char *const *paths, size_t n_paths, enum lw_store_mode mode,
	void (*progress)(const char *stage), struct lw_run **ret_run)
{
	struct lw_run *run = NULL;
	int status;

	tell(progress, "reading");
	status = lw_run_load(paths, n_paths, mode, &run);
	for (size_t i = 0;
		i < sizeof(reconstruction) / sizeof(reconstruction[0]) && status == LW_OK; i++) {
		tell(progress, reconstruction[i].name);
		status = reconstruction[i].run(run);
	}
	if (status < 0) {
		lw_run_free(run);
		return status;
	}
	*ret_run = run;
	return LW_OK;
}

static int fit(struct lw_analysis *analysis, const struct lw_analysis_options *options)
{
	int status = lw_fit_run(analysis->run, &analysis->fit);

	if (status == LW_ERR_LIMIT) { /* no step that counts: the report says so */
		lw_error_clear();
		return LW_OK;
	}
	if (status < 0)
		return status;
	analysis->has_fit = true;
	if (options->forward_flop > 0 && options->peak_flop_per_s > 0)
		lw_fit_utilisation(analysis->run, options->forward_flop, options->peak_flop_per_s,
			&analysis->fit);
	return lw_fit_store(analysis->run, &analysis->fit);
}

int lw_analysis_open(const char *const *paths, size_t n_paths,
	const struct lw_analysis_options *options, struct lw_analysis **ret_analysis)
{
	struct lw_analysis *analysis = calloc(1, sizeof(*analysis));
	int status;

	if (!analysis)
		return lw_fail(LW_ERR_NOMEM, "no memory");
	status = lw_run_reconstruct(paths, n_paths,
		options->is_read_only ? LW_STORE_READ : LW_STORE_WRITE, options->progress,
		&analysis->run);
	if (status == LW_OK) {
		tell(options->progress, "fitting costs");
		status = fit(analysis, options);
	}
	if (status == LW_OK)
		status = lw_run_reach(analysis->run, analysis->has_fit ? &analysis->fit : NULL);
	if (status == LW_OK) {
		tell(options->progress, "simulating other settings");
		status = lw_advise(analysis->run, &analysis->advice);
	}
	if (status == LW_OK)
		status = lw_advise_store(analysis->run, &analysis->advice);
	if (status == LW_OK)
		status = lw_summarize(analysis->run, analysis->has_fit ? &analysis->fit : NULL,
			options->baseline_step_ns, &analysis->summary);
	if (status == LW_OK)
		status = lw_brief_make(
			analysis->run, &analysis->summary, &analysis->advice, &analysis->brief);
	if (status == LW_OK)
		status = lw_brief_store(analysis->run, &analysis->brief);
	if (status == LW_OK)
		status = lw_run_settle(analysis->run);
	if (status < 0) {
		lw_analysis_close(analysis);
		return status;
	}
	*ret_analysis = analysis;
	return LW_OK;
}

void lw_analysis_close(struct lw_analysis *analysis)
{
	if (!analysis)
		return;
	lw_brief_done(&analysis->brief);
	lw_summary_done(&analysis->summary);
	lw_advice_list_free(&analysis->advice);
	if (analysis->has_fit)
		lw_fit_done(&analysis->fit);
	lw_run_free(analysis->run);
	free(analysis);
}
