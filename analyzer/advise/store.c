/* SPDX-License-Identifier: Apache-2.0 */
/* store.c - tables advice and prediction, replaced as a whole: the same run gives the same rows. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analyzer/advise/advise.h"

static void bind_figure(sqlite3_stmt *row, int at, struct lw_figure figure)
{
	double values[] = {figure.value, figure.low, figure.high};

	for (int i = 0; i < 3; i++)
		if (isfinite(values[i]))
			sqlite3_bind_double(row, at + i, values[i]);
		else
			sqlite3_bind_null(row, at + i);
}

static int store_predictions(struct lw_store *store, const struct lw_advice_list *list)
{
	const struct lw_trial *tried;
	sqlite3_stmt *row;
	int status = lw_store_prepare(store,
		"INSERT INTO prediction(model, setting, step_ns, low_ns, high_ns, note)"
		" VALUES('hvd_cycle', ?, ?, ?, ?, ?)",
		&row);

	if (status < 0)
		return status;
	lw_vec_foreach (tried, &list->tried) {
		const struct lw_prediction *prediction = &tried->prediction;
		char setting[160];

		if (!strcmp(tried->id, "horovod.fusion_cycle"))
			snprintf(setting, sizeof(setting),
				"HOROVOD_FUSION_THRESHOLD=%.0f HOROVOD_CYCLE_TIME=%g",
				prediction->fusion_bytes, prediction->cycle_ns / 1e6);
		else
			snprintf(setting, sizeof(setting), "%s: %s", tried->id, tried->label);
		sqlite3_bind_text(row, 1, setting, -1, SQLITE_TRANSIENT);
		bind_figure(row, 2, prediction->step_ns);
		sqlite3_bind_text(row, 5,
			prediction->is_recorded   ? "as recorded"
			: prediction->step_ns.why ? prediction->step_ns.why
						  : "",
			-1, SQLITE_TRANSIENT);
		status = lw_store_step(store, row);
		if (status < 0)
			break;
		sqlite3_reset(row);
	}
	sqlite3_finalize(row);
	return status < 0 ? status : LW_OK;
}

static int store_advice(struct lw_store *store, const struct lw_advice_list *list)
{
	sqlite3_stmt *row;
	int status = lw_store_prepare(store,
		"INSERT INTO advice(id, position, title, why, setting, step_ns, low_ns, high_ns, gain_frac)"
		" VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?)",
		&row);

	if (status < 0)
		return status;
	for (size_t i = 0; i < list->advice.n; i++) {
		const struct lw_advice *advice = &list->advice.at[i];
		char setting[512] = "";
		int n = 0;

		for (uint32_t k = 0; k < advice->n_sets; k++)
			n += snprintf(setting + n, sizeof(setting) - (size_t)n, "%s%s=%s",
				k ? " " : "", advice->set[k].name, advice->set[k].value);
		sqlite3_bind_text(row, 1, advice->id, -1, SQLITE_TRANSIENT);
		sqlite3_bind_int64(row, 2, (sqlite3_int64)i);
		sqlite3_bind_text(row, 3, advice->title, -1, SQLITE_TRANSIENT);
		sqlite3_bind_text(row, 4, advice->why, -1, SQLITE_TRANSIENT);
		sqlite3_bind_text(row, 5, setting, -1, SQLITE_TRANSIENT);
		bind_figure(row, 6, advice->step_ns);
		sqlite3_bind_double(row, 9, advice->gain_frac.value);
		status = lw_store_step(store, row);
		if (status < 0)
			break;
		sqlite3_reset(row);
	}
	sqlite3_finalize(row);
	return status < 0 ? status : LW_OK;
}

int lw_advise_store(struct lw_run *run, const struct lw_advice_list *list)
{
	struct lw_store *store;
	int status = lw_run_begin_results(run,
		"DELETE FROM advice; DELETE FROM prediction WHERE model = 'hvd_cycle'", &store);

	if (status != 1)
		return status;
	status = store_predictions(store, list);
	if (status == LW_OK)
		status = store_advice(store, list);
	return lw_run_end_results(store, status);
}
