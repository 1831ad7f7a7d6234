/* SPDX-License-Identifier: Apache-2.0 */
#include "tui/data.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "tui/apart.h"

enum { BESIDE_A_JOB = 10 }; /* niceness */

struct lw_loader {
	pthread_t thread;
	const char *const *paths;
	size_t n_paths;
	bool is_read_only;
	_Atomic(const char *) stage;
	atomic_bool is_over; /* what follows is the reader's from then on */
	struct lw_analysis *analysis;
	struct lw_prepared prepared;
	int status;
	char error[LW_DATA_TEXT_BYTES];
};

/* The stage is told by a function without context: there is one loading thread at a time. */
static _Thread_local struct lw_loader *loading;

static void note_stage(const char *stage)
{
	if (loading)
		atomic_store(&loading->stage, stage);
}

static void load(struct lw_loader *loader)
{
	const struct lw_analysis_options options = {
		.progress = note_stage, .is_read_only = loader->is_read_only};

	loading = loader;
	loader->status =
		lw_analysis_open(loader->paths, loader->n_paths, &options, &loader->analysis);
	if (loader->status < 0)
		snprintf(loader->error, sizeof(loader->error), "%s", lw_error_text());
	loading = NULL;
}

static void *load_apart(void *context)
{
	struct lw_loader *loader = context;

	if (loader->is_read_only) /* the job goes first; on Linux this is of the thread */
		setpriority(PRIO_PROCESS, 0, BESIDE_A_JOB);
	load(loader);
	loading = loader;
	if (loader->status == LW_OK) /* who dumps a screen wants one view, and has nobody waiting */
		lw_prepare(loader->analysis->run, &loader->prepared, note_stage);
	loading = NULL;
	atomic_store(&loader->is_over, true);
	return NULL;
}

static void drop_preview(struct lw_data *data)
{
	lw_brief_done(&data->preview);
	data->has_preview = false;
}

const struct lw_brief *lw_data_brief(const struct lw_data *data)
{
	if (data->analysis)
		return &data->analysis->brief;
	return data->has_preview ? &data->preview : NULL;
}

static void drop_analysis(struct lw_data *data)
{
	lw_predictor_free(data->predictor);
	data->predictor = NULL;
	data->has_asked_predictor = false;
	data->why_no_predictor[0] = 0;
	lw_prepared_done(&data->prepared);
	lw_analysis_close(data->analysis);
	data->analysis = NULL;
}

static void take_over(struct lw_data *data, struct lw_loader *loader)
{
	data->stage = NULL;
	data->status = loader->status;
	snprintf(data->error, sizeof(data->error), "%s", loader->error);
	if (loader->status < 0)
		return; /* what was there stays */
	drop_preview(data);
	drop_analysis(data);
	data->analysis = loader->analysis;
	data->prepared = loader->prepared;
	data->generation++;
}

int lw_data_load(struct lw_data *data)
{
	struct lw_loader loader = {
		.paths = data->paths, .n_paths = data->n_paths, .is_read_only = data->is_read_only};

	load(&loader);
	take_over(data, &loader);
	return loader.status;
}

int lw_data_begin(struct lw_data *data)
{
	struct lw_loader *loader;
	int status;

	if (data->loader)
		return LW_OK;
	if (!data->analysis && !data->has_preview && !data->is_unfinished) {
		data->has_preview =
			lw_brief_load(data->paths, data->n_paths, &data->preview) == LW_OK;
		lw_error_clear(); /* the analysis says what is wrong, if it is */
		if (!data->has_preview) {
			drop_preview(data);
			lw_brief_peek(data->paths, data->n_paths, data->facts);
		}
	}
	loader = calloc(1, sizeof(*loader));
	if (!loader)
		return lw_fail(LW_ERR_NOMEM, "no memory");
	loader->paths = data->paths;
	loader->n_paths = data->n_paths;
	loader->is_read_only = data->is_read_only;
	status = lw_apart_begin(&loader->thread, load_apart, loader, "read the run");
	if (status < 0) {
		free(loader);
		return status;
	}
	data->loader = loader;
	data->stage = "reading";
	return LW_OK;
}

static void finish(struct lw_data *data)
{
	pthread_join(data->loader->thread, NULL);
	take_over(data, data->loader);
	free(data->loader);
	data->loader = NULL;
}

bool lw_data_poll(struct lw_data *data)
{
	const char *stage;

	if (!data->loader)
		return false;
	if (atomic_load(&data->loader->is_over)) {
		finish(data);
		return true;
	}
	stage = atomic_load(&data->loader->stage);
	if (!stage || stage == data->stage)
		return false;
	data->stage = stage;
	return true;
}

void lw_data_forget(struct lw_data *data)
{
	drop_analysis(data);
	data->generation++; /* what views had made of it is theirs no more */
}

void lw_data_done(struct lw_data *data)
{
	if (data->loader)
		finish(data);
	drop_analysis(data);
	drop_preview(data);
}

struct lw_predictor *lw_data_predictor(struct lw_data *data)
{
	int status;

	if (data->has_asked_predictor || !data->analysis)
		return data->predictor;
	data->has_asked_predictor = true;
	/* the analysis has made what it needs; else the error says what is missing */
	if (data->analysis->advice.replay && data->analysis->has_fit)
		status = lw_predictor_borrow(data->analysis->run, data->analysis->advice.replay,
			&data->analysis->fit, &data->predictor);
	else
		status = lw_predictor_new(data->analysis->run, &data->predictor);
	if (status < 0) {
		snprintf(data->why_no_predictor, sizeof(data->why_no_predictor), "%s",
			lw_error_text());
		lw_error_clear();
		data->predictor = NULL;
	}
	return data->predictor;
}
