/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/emit/brief.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/emit/late_words.h"
#include "analyzer/gpu_words.h"
#include "base/err.h"
#include "base/units.h"
#include "schema/store.h"

/* Of another form of the rows nothing is read back. */
enum { FORM = 7 };

struct field { /* a figure, by the name of its row */
	const char *name;
	size_t offset;
};

static const struct field run_fields[] = {
#define X(name) {#name, offsetof(struct lw_summary, name)},
	LW_SUMMARY_FIGURES(X)
#undef X
};
static const struct field rank_fields[] = {{"step_ns", offsetof(struct lw_rank_summary, step_ns)},
#define X(name) {#name "_ns", offsetof(struct lw_rank_summary, name##_ns)},
	LW_RANK_FIGURES(X)
#undef X
};
static const struct field count_fields[] = {
	{"n_lost", offsetof(struct lw_brief, n_lost)},
	{"n_missing_ranks", offsetof(struct lw_brief, n_missing_ranks)},
	{"n_died", offsetof(struct lw_brief, n_died)},
	{"n_hung", offsetof(struct lw_brief, n_hung)},
	{"n_remarks", offsetof(struct lw_brief, n_remarks)},
	{"n_files", offsetof(struct lw_brief, n_files)},
	{"n_advice", offsetof(struct lw_brief, n_advice)},
	{"n_more", offsetof(struct lw_brief, n_more)},
	{"n_steps", offsetof(struct lw_brief, summary.n_steps)},
	{"n_excluded", offsetof(struct lw_brief, summary.n_excluded)},
};
static const struct field flag_fields[] = {
	{"is_closed", offsetof(struct lw_brief, is_closed)},
	{"is_advised", offsetof(struct lw_brief, is_advised)},
	{"is_size_known", offsetof(struct lw_brief, is_size_known)},
	{"is_gpu_time", offsetof(struct lw_brief, is_gpu_time)},
};
enum {
	N_RUN_FIELDS = sizeof(run_fields) / sizeof(run_fields[0]),
	N_RANK_FIELDS = sizeof(rank_fields) / sizeof(rank_fields[0]),
	N_COUNT_FIELDS = sizeof(count_fields) / sizeof(count_fields[0]),
	N_FLAG_FIELDS = sizeof(flag_fields) / sizeof(flag_fields[0])
};

static const char *const hows[] = {"measured", "fitted", "predicted", "assumed"};

#define AT(type, base, field) ((type *)((char *)(base) + (field)->offset))
#define IN(type, base, field) ((const type *)((const char *)(base) + (field)->offset))

/* ---- making ------------------------------------------------------------------------------------- */

/* The field's own spelling, by enum lw_framework and enum lw_transport. */
static const char *const framework_titles[] = {"", "Horovod", "torch DDP"};
static const char *const transport_titles[] = {"", "MPI", "Gloo", "NCCL"};

static size_t n_hosts(const struct lw_run *run)
{
	size_t n = 0;

	for (size_t r = 0; r < run->ranks.n; r++) {
		bool is_new = true;

		for (size_t other = 0; other < r && is_new; other++)
			is_new = strcmp(run->ranks.at[other].host, run->ranks.at[r].host) != 0;
		n += is_new;
	}
	return n;
}

const char *lw_brief_job(
	const struct lw_run *run, const struct lw_summary *summary, char text[LW_BRIEF_JOB_BYTES])
{
	const struct lw_rank *rank = run->ranks.n ? &run->ranks.at[0] : NULL;
	size_t n = 0, size = LW_BRIEF_JOB_BYTES, hosts = n_hosts(run);
	char number[LW_UNIT_TEXT_BYTES];

	if (!rank && run->flows.n) {
		snprintf(text, size, "captured packets, no rank of a job");
		return text;
	}
	if (!rank && run->marks.n_processes) {
		snprintf(text, size, "%u process%s without a rank", run->marks.n_processes,
			run->marks.n_processes == 1 ? "" : "es");
		return text;
	}
	if (!rank) {
		snprintf(text, size, "no rank of a job");
		return text;
	}
	n += (size_t)snprintf(
		text + n, size - n, "%d rank%s", run->size, run->size == 1 ? "" : "s");
	if (!run->is_import && !run->is_profile) /* other tools' traces name no host */
		n += (size_t)snprintf(
			text + n, size - n, " on %zu host%s", hosts, hosts == 1 ? "" : "s");
	if (!run->is_size_known)
		n += (size_t)snprintf(text + n, size - n, " (of how many is not known)");
	else if (run->n_missing_ranks)
		n += (size_t)snprintf(text + n, size - n, " (%u missing)", run->n_missing_ranks);
	if (rank->framework)
		n += (size_t)snprintf(
			text + n, size - n, ", %s", framework_titles[rank->framework]);
	if (rank->transport)
		n += (size_t)snprintf(text + n, size - n, "%s%s", rank->framework ? " over " : ", ",
			transport_titles[rank->transport]);
	if (!isnan(summary->fusion_bytes.value))
		n += (size_t)snprintf(text + n, size - n, ", fusion threshold %s",
			lw_bytes_format(summary->fusion_bytes.value, number));
	if (!isnan(summary->cycle_ns.value))
		snprintf(text + n, size - n, ", cycle %s",
			lw_ns_exact(summary->cycle_ns.value, number));
	return text;
}

static int collect_steps(const struct lw_run *run, struct lw_brief *brief)
{
	size_t n = run->ranks.n ? run->ranks.at[0].steps.n : 0;

	brief->step_ns = malloc((n + 1) * sizeof(*brief->step_ns));
	if (!brief->step_ns)
		return lw_fail(LW_ERR_NOMEM, "no memory for %zu steps", n);
	for (size_t s = 0; s < n; s++) {
		double sum_ns = 0;
		size_t n_ranks = 0;

		for (size_t r = 0; r < run->ranks.n; r++) {
			const struct lw_rank *rank = &run->ranks.at[r];

			if (s >= rank->steps.n || rank->steps.at[s].excluded ||
				!rank->steps.at[s].n_batches)
				continue;
			sum_ns += (double)(rank->steps.at[s].end_ns - rank->steps.at[s].start_ns);
			n_ranks++;
		}
		if (n_ranks)
			brief->step_ns[brief->n_steps++] = sum_ns / (double)n_ranks;
	}
	return LW_OK;
}

static int copy_summary(const struct lw_summary *from, struct lw_summary *to)
{
	*to = *from;
	memset(&to->ranks, 0, sizeof(to->ranks));
	memset(&to->stragglers, 0, sizeof(to->stragglers));
	for (size_t i = 0; i < from->ranks.n; i++)
		if (lw_vec_push(&to->ranks, from->ranks.at[i]) < 0)
			return LW_ERR_NOMEM;
	for (size_t i = 0; i < from->stragglers.n; i++)
		if (lw_vec_push(&to->stragglers, from->stragglers.at[i]) < 0)
			return LW_ERR_NOMEM;
	return LW_OK;
}

int lw_brief_make(const struct lw_run *run, const struct lw_summary *summary,
	const struct lw_advice_list *advice, struct lw_brief *ret_brief)
{
	struct lw_late late;
	int status;

	*ret_brief = (struct lw_brief){.n_lost = run->n_lost,
		.n_missing_ranks = run->n_missing_ranks,
		.n_hung = run->n_hung_ranks,
		.n_remarks = run->diags.n,
		.n_files = run->stores.n,
		.n_advice = advice->advice.n,
		.n_more = lw_advise_n_more(advice),
		.is_advised = lw_advise_is_advised(advice),
		.is_size_known = run->is_size_known,
		.is_gpu_time = lw_gpu_is_time(run),
		.is_closed = run->is_closed};
	lw_brief_job(run, summary, ret_brief->job);
	lw_net_slow_text(run, ret_brief->slow_link);
	lw_late_find(run, summary, &late);
	if (lw_late_is_beside(&late))
		snprintf(ret_brief->late, sizeof(ret_brief->late), "%s", late.text);
	for (size_t r = 0; r < run->ranks.n; r++)
		ret_brief->n_died += run->ranks.at[r].died;
	lw_advise_headline(advice, ret_brief->advice);
	lw_advise_lines(advice, ret_brief->lines, sizeof(ret_brief->lines));
	status = copy_summary(summary, &ret_brief->summary);
	return status == LW_OK ? collect_steps(run, ret_brief) : status;
}

void lw_brief_done(struct lw_brief *brief)
{
	for (size_t i = 0; i < brief->texts.n; i++)
		free(brief->texts.at[i]);
	lw_vec_free(&brief->texts);
	lw_summary_done(&brief->summary);
	free(brief->step_ns);
	*brief = (struct lw_brief){0};
}

/* ---- storing ------------------------------------------------------------------------------------ */

struct writing {
	struct lw_store *store;
	sqlite3_stmt *row;
	int status; /* of the first row that failed; the others are then left out */
};

static void bind_known(sqlite3_stmt *row, int i, double value)
{
	if (isfinite(value))
		sqlite3_bind_double(row, i, value);
	else
		sqlite3_bind_null(row, i);
}

/* @rank: LW_NONE = of the whole run. */
static void put(struct writing *w, int32_t rank, const char *name, struct lw_figure figure)
{
	if (w->status < 0)
		return;
	if (rank == LW_NONE)
		sqlite3_bind_null(w->row, 1);
	else
		sqlite3_bind_int(w->row, 1, rank);
	sqlite3_bind_text(w->row, 2, name, -1, SQLITE_STATIC);
	bind_known(w->row, 3, figure.value);
	bind_known(w->row, 4, figure.low);
	bind_known(w->row, 5, figure.high);
	sqlite3_bind_text(w->row, 6, hows[figure.how], -1, SQLITE_STATIC);
	sqlite3_bind_text(w->row, 7, figure.why ? figure.why : "", -1, SQLITE_TRANSIENT);
	w->status = lw_store_step(w->store, w->row);
}

static void put_plain(
	struct writing *w, int32_t rank, const char *name, double value, const char *text)
{
	put(w, rank, name, (struct lw_figure){value, NAN, NAN, LW_MEASURED, text});
}

static void put_all(struct writing *w, const struct lw_brief *brief)
{
	put_plain(w, LW_NONE, "form", FORM, NULL);
	put_plain(w, LW_NONE, "job", NAN, brief->job);
	put_plain(w, LW_NONE, "slow_link", NAN, brief->slow_link);
	put_plain(w, LW_NONE, "late", NAN, brief->late);
	put_plain(w, LW_NONE, "advice", NAN, brief->advice);
	put_plain(w, LW_NONE, "advice_lines", NAN, brief->lines);
	for (size_t i = 0; i < N_FLAG_FIELDS; i++)
		put_plain(w, LW_NONE, flag_fields[i].name, *IN(bool, brief, &flag_fields[i]), NULL);
	for (size_t i = 0; i < N_COUNT_FIELDS; i++)
		put_plain(w, LW_NONE, count_fields[i].name,
			(double)*IN(uint64_t, brief, &count_fields[i]), NULL);
	for (size_t i = 0; i < N_RUN_FIELDS; i++)
		put(w, LW_NONE, run_fields[i].name,
			*IN(struct lw_figure, &brief->summary, &run_fields[i]));
	for (size_t r = 0; r < brief->summary.ranks.n; r++) {
		const struct lw_rank_summary *rank = &brief->summary.ranks.at[r];

		for (size_t i = 0; i < N_RANK_FIELDS; i++)
			put(w, rank->rank, rank_fields[i].name,
				*IN(struct lw_figure, rank, &rank_fields[i]));
	}
	for (size_t i = 0; i < brief->summary.stragglers.n; i++) {
		const struct lw_straggler *late = &brief->summary.stragglers.at[i];

		put(w, late->rank, "straggler_ns", late->late_ns);
		put_plain(w, late->rank, "straggler_steps_frac", late->steps_frac,
			late->is_persistent ? "persistent" : "taking turns");
		put_plain(w, late->rank, "straggler_last_ns", late->last_ns, NULL);
	}
}

int lw_brief_store(struct lw_run *run, const struct lw_brief *brief)
{
	struct writing w = {0};
	int status = lw_run_begin_results(run, "DELETE FROM summary", &w.store);

	if (status != 1)
		return status;
	w.status = lw_store_prepare(
		w.store, "INSERT INTO summary VALUES(?, ?, ?, ?, ?, ?, ?)", &w.row);
	put_all(&w, brief);
	sqlite3_finalize(w.row);
	return lw_run_end_results(w.store, w.status < 0 ? w.status : LW_OK);
}

/* ---- reading back ------------------------------------------------------------------------------- */

static const char *keep(struct lw_brief *brief, const char *text)
{
	char *copy = *text ? strdup(text) : NULL;

	if (copy && lw_vec_push(&brief->texts, copy) < 0) {
		free(copy);
		copy = NULL;
	}
	return copy;
}

static double column(sqlite3_stmt *row, int i)
{
	return sqlite3_column_type(row, i) == SQLITE_NULL ? (double)NAN
							  : sqlite3_column_double(row, i);
}

static struct lw_figure read_figure(struct lw_brief *brief, sqlite3_stmt *row)
{
	struct lw_figure figure = {column(row, 2), column(row, 3), column(row, 4), LW_ASSUMED,
		keep(brief, lw_store_column_text(row, 6))};

	for (size_t i = 0; i < sizeof(hows) / sizeof(hows[0]); i++)
		if (!strcmp(hows[i], lw_store_column_text(row, 5)))
			figure.how = (enum lw_how)i;
	return figure;
}

static const struct field *field_of(const struct field *fields, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(fields[i].name, name))
			return &fields[i];
	return NULL;
}

static void take_run_row(struct lw_brief *brief, const char *name, sqlite3_stmt *row)
{
	const struct field *field = field_of(run_fields, N_RUN_FIELDS, name);
	double value = column(row, 2);

	if (field) {
		*AT(struct lw_figure, &brief->summary, field) = read_figure(brief, row);
		return;
	}
	field = field_of(count_fields, N_COUNT_FIELDS, name);
	if (field && value >= 0 && value < 1e15)
		*AT(uint64_t, brief, field) = (uint64_t)value;
	field = field_of(flag_fields, N_FLAG_FIELDS, name);
	if (field)
		*AT(bool, brief, field) = value == 1;
	else if (!strcmp(name, "job"))
		snprintf(brief->job, sizeof(brief->job), "%s", lw_store_column_text(row, 6));
	else if (!strcmp(name, "slow_link"))
		snprintf(brief->slow_link, sizeof(brief->slow_link), "%s",
			lw_store_column_text(row, 6));
	else if (!strcmp(name, "late"))
		snprintf(brief->late, sizeof(brief->late), "%s", lw_store_column_text(row, 6));
	else if (!strcmp(name, "advice"))
		snprintf(brief->advice, sizeof(brief->advice), "%s", lw_store_column_text(row, 6));
	else if (!strcmp(name, "advice_lines"))
		snprintf(brief->lines, sizeof(brief->lines), "%s", lw_store_column_text(row, 6));
}

static int take_rank_row(
	struct lw_brief *brief, int32_t number, const char *name, sqlite3_stmt *row)
{
	const struct field *field = field_of(rank_fields, N_RANK_FIELDS, name);
	struct lw_summary *summary = &brief->summary;

	if (field) {
		struct lw_rank_summary rank = {.rank = number};

		if ((summary->ranks.n == 0 ||
			    summary->ranks.at[summary->ranks.n - 1].rank != number) &&
			lw_vec_push(&summary->ranks, rank) < 0)
			return LW_ERR_NOMEM;
		*AT(struct lw_figure, &summary->ranks.at[summary->ranks.n - 1], field) =
			read_figure(brief, row);
	} else if (!strcmp(name, "straggler_ns")) {
		struct lw_straggler late = {
			.rank = number, .late_ns = read_figure(brief, row), .last_ns = NAN};

		return lw_vec_push(&summary->stragglers, late);
	} else if (!strcmp(name, "straggler_last_ns") && summary->stragglers.n) {
		summary->stragglers.at[summary->stragglers.n - 1].last_ns = column(row, 2);
	} else if (!strcmp(name, "straggler_steps_frac") && summary->stragglers.n) {
		struct lw_straggler *late = &summary->stragglers.at[summary->stragglers.n - 1];

		late->steps_frac = column(row, 2);
		late->is_persistent = !strcmp(lw_store_column_text(row, 6), "persistent");
	}
	return LW_OK;
}

static int read_rows(struct lw_store *store, struct lw_brief *brief)
{
	sqlite3_stmt *row;
	int status = lw_store_prepare(store,
		"SELECT rank, name, value, low, high, how, text FROM summary ORDER BY rowid", &row);

	if (status < 0)
		return status;
	while ((status = lw_store_step(store, row)) == 1) {
		const char *name = lw_store_column_text(row, 1);

		if (sqlite3_column_type(row, 0) == SQLITE_NULL)
			take_run_row(brief, name, row);
		else if (take_rank_row(brief, sqlite3_column_int(row, 0), name, row) < 0)
			break;
	}
	sqlite3_finalize(row);
	return status == 1 ? LW_ERR_NOMEM : status;
}

static int read_steps(struct lw_store *store, struct lw_brief *brief)
{
	sqlite3_stmt *row;
	size_t n = brief->summary.n_steps;
	int status;

	brief->step_ns = malloc((n + 1) * sizeof(*brief->step_ns));
	if (!brief->step_ns)
		return lw_fail(LW_ERR_NOMEM, "no memory for %zu steps", n);
	status = lw_store_prepare(store,
		"SELECT avg(end_ns - start_ns) FROM step WHERE excluded IS NULL GROUP BY step ORDER BY step",
		&row);
	if (status < 0)
		return status;
	while (brief->n_steps < n && (status = lw_store_step(store, row)) == 1)
		brief->step_ns[brief->n_steps++] = sqlite3_column_double(row, 0);
	sqlite3_finalize(row);
	return status < 0 ? status : LW_OK;
}

int lw_brief_load(const char *const *paths, size_t n_paths, struct lw_brief *ret_brief)
{
	struct lw_store *store;
	int64_t form = 0;
	int status = lw_store_open(paths[0], LW_STORE_READ, &store);

	*ret_brief = (struct lw_brief){0};
	if (status < 0)
		return status;
	status = lw_store_int(store, "SELECT value FROM summary WHERE name = 'form'", &form);
	if (status == LW_OK)
		status = read_rows(store, ret_brief);
	if (status == LW_OK)
		status = read_steps(store, ret_brief);
	lw_store_close(store);
	if (status < 0 || form != FORM || ret_brief->n_files != n_paths)
		return lw_fail(LW_ERR_STATE, "%s: nothing was stored of it that fits", paths[0]);
	return LW_OK;
}

const char *lw_brief_peek(const char *const *paths, size_t n_paths, char text[LW_BRIEF_JOB_BYTES])
{
	int64_t n_ranks = 0, n_events = 0, n_lost = 0;

	text[0] = 0;
	for (size_t i = 0; i < n_paths; i++) {
		int64_t ranks = 0, events = 0, lost = 0;
		struct lw_store *store;

		if (lw_store_open(paths[i], LW_STORE_READ, &store) < 0)
			break;
		if (lw_store_int(store, "SELECT count(DISTINCT rank) FROM process", &ranks) ==
				LW_OK &&
			lw_store_int(store, "SELECT coalesce(sum(n_stored), 0) FROM thread",
				&events) == LW_OK &&
			lw_store_int(store, "SELECT coalesce(sum(n), 0) FROM loss", &lost) == LW_OK)
			n_ranks += ranks;
		n_events += events;
		n_lost += lost;
		lw_store_close(store);
	}
	lw_error_clear(); /* who reads the run says what is wrong with it */
	if (n_ranks > 0)
		snprintf(text, LW_BRIEF_JOB_BYTES, "%lld rank%s, %lld events, %lld lost",
			(long long)n_ranks, n_ranks == 1 ? "" : "s", (long long)n_events,
			(long long)n_lost);
	return text;
}
