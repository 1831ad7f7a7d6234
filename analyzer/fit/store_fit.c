/* SPDX-License-Identifier: Apache-2.0 */
/* store_fit.c - table fit, replaced as a whole: the same run gives the same rows in one order. */
#include <math.h>
#include <stdio.h>

#include "analyzer/fit/fit.h"
#include "analyzer/gpu_words.h"
#include "base/err.h"

const char *lw_fit_figure_name(enum lw_fit_figure figure)
{
	static const char *const names[] = {
#define X(name, text, note, missing) text,
		LW_FIT_FIGURES(X)
#undef X
	};

	return names[figure];
}

/* What figures are where times are of the device: there nobody waits for gradients on the host. */
static const struct {
	enum lw_fit_figure figure;
	const char *note;
} gpu_notes[] = {
	{LW_FIT_FORWARD_NS,
		"start of the step until the data of its first allreduce was there: whatever ran before, other collectives among it"},
	{LW_FIT_OVERLAP_NS,
		"T_overlap: from then until the data of its last allreduce was there (OSF eq. 10)"},
	{LW_FIT_COMPUTE_NS,
		"T_comp: the step less exposed communication: kernels that compute, and gaps in which the device is idle"},
};

const char *lw_fit_figure_note(const struct lw_run *run, enum lw_fit_figure figure)
{
	static const char *const notes[] = {
#define X(name, text, note, missing) note,
		LW_FIT_FIGURES(X)
#undef X
	};

	for (size_t i = 0; i < sizeof(gpu_notes) / sizeof(gpu_notes[0]) && lw_gpu_is_time(run); i++)
		if (gpu_notes[i].figure == figure)
			return gpu_notes[i].note;
	return notes[figure];
}

const char *lw_fit_cost_name(enum lw_fit_cost_kind kind)
{
	static const char *const names[] = {
#define X(name, text, note) text,
		LW_FIT_COSTS(X)
#undef X
	};

	return names[kind];
}

const char *lw_fit_cost_note(enum lw_fit_cost_kind kind)
{
	static const char *const notes[] = {
#define X(name, text, note) note,
		LW_FIT_COSTS(X)
#undef X
	};

	return notes[kind];
}

struct writing {
	struct lw_store *store;
	sqlite3_stmt *row;
	int status; /* of the first row that failed; the others are then left out */
};

static void put(struct writing *w, const char *name, struct lw_figure figure, const char *note)
{
	static const char *const hows[] = {"measured", "fitted", "predicted", "assumed"};
	double values[] = {figure.value, figure.low, figure.high};
	char text[256];

	if (w->status < 0)
		return;
	snprintf(text, sizeof(text), "%s%s%s", note, figure.why && note[0] ? "; " : "",
		figure.why ? figure.why : "");
	sqlite3_bind_text(w->row, 1, name, -1, SQLITE_TRANSIENT);
	for (int i = 0; i < 3; i++)
		if (isfinite(values[i]))
			sqlite3_bind_double(w->row, 2 + i, values[i]);
		else
			sqlite3_bind_null(w->row, 2 + i);
	sqlite3_bind_text(w->row, 5, hows[figure.how], -1, SQLITE_STATIC);
	sqlite3_bind_text(w->row, 6, text, -1, SQLITE_TRANSIENT);
	w->status = lw_store_step(w->store, w->row);
}

static void put_plain(struct writing *w, const char *cost, const char *name, double value)
{
	char full[96];

	if (!isfinite(value))
		return;
	snprintf(full, sizeof(full), "%s.%s", cost, name);
	put(w, full, (struct lw_figure){value, NAN, NAN, LW_FITTED, NULL}, "");
}

static void put_cost(struct writing *w, size_t kind, const struct lw_fit_cost *fitted)
{
	const struct lw_cost *cost = &fitted->cost;
	const char *name = lw_fit_cost_name((enum lw_fit_cost_kind)kind);
	char full[96], note[224], verdict[LW_VERDICT_TEXT_BYTES];

	if (cost->form == LW_COST_NONE && kind >= LW_FIT_COST_PROBE &&
		kind <= LW_FIT_COST_REDUCESCATTER)
		return; /* most jobs have none */
	snprintf(note, sizeof(note), "%s; best form: %s, %.0f samples of %zu sizes%s%s",
		lw_fit_cost_note((enum lw_fit_cost_kind)kind), lw_cost_form_name(cost->form),
		cost->n, cost->n_sizes, *lw_cost_verdict(cost, verdict) ? "; " : "", verdict);
	snprintf(full, sizeof(full), "%s.a_ns", name);
	put(w, full, fitted->a_ns, note);
	snprintf(full, sizeof(full), "%s.b_ns_per_byte", name);
	put(w, full, fitted->b_ns_per_byte, lw_fit_cost_note((enum lw_fit_cost_kind)kind));
	if (cost->form == LW_COST_NONE)
		return;
	put_plain(w, name, "min_bytes", cost->min_bytes);
	put_plain(w, name, "max_bytes", cost->max_bytes);
	put_plain(w, name, "mape_frac", cost->mape_frac);
	put_plain(w, name, "cross_frac", cost->cross_frac);
	if (cost->form != LW_COST_PIECEWISE)
		return;
	put_plain(w, name, "threshold_bytes", cost->threshold_bytes);
	put_plain(w, name, "left_ns_per_doubling", cost->left_ns_per_doubling);
	put_plain(w, name, "left_ns", cost->left_ns);
	put_plain(w, name, "right_ns_per_byte", cost->right_ns_per_byte);
	put_plain(w, name, "right_ns", cost->right_ns);
	put_plain(w, name, "jump_ns", cost->jump_ns);
}

static int put_all(struct lw_store *store, const struct lw_run *run, const struct lw_fit *fit)
{
	struct writing w = {.store = store};
	int status = lw_store_prepare(store,
		"INSERT INTO fit(name, value, low, high, how, note) VALUES(?, ?, ?, ?, ?, ?)",
		&w.row);

	if (status < 0)
		return status;
	for (size_t i = 0; i < LW_FIT_N_FIGURES; i++)
		put(&w, lw_fit_figure_name((enum lw_fit_figure)i), fit->figure[i],
			lw_fit_figure_note(run, (enum lw_fit_figure)i));
	for (size_t k = 0; k < LW_FIT_N_COSTS; k++)
		put_cost(&w, k, &fit->cost[k]);
	for (size_t i = 0; i < fit->n_layers; i++) {
		char name[1200];

		snprintf(name, sizeof(name), "backward_ns[%zu] %s", i,
			run->tensors.at[fit->layers[i].tensor].name);
		put(&w, name, fit->layers[i].backward_ns, "");
	}
	sqlite3_finalize(w.row);
	return w.status < 0 ? w.status : LW_OK;
}

int lw_fit_store(struct lw_run *run, const struct lw_fit *fit)
{
	struct lw_store *store;
	int status = lw_run_begin_results(run, "DELETE FROM fit", &store);

	return status == 1 ? lw_run_end_results(store, put_all(store, run, fit)) : status;
}
