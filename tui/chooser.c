/* SPDX-License-Identifier: Apache-2.0 */
#include "tui/chooser.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/err.h"
#include "base/units.h"
#include "schema/store.h"
#include "tui/keys.h"

enum { FIRST_LINE = 3, JOB_LINES = 2, COMMAND_COLUMN = 36 };

int lw_job_read(struct lw_job *job)
{
	static const char sql[] =
		"SELECT iif(r.command <> '', r.command, coalesce((SELECT s.text FROM process p JOIN string s"
		" ON s.id = p.command_id ORDER BY p.id LIMIT 1), '')), r.created_realtime_ns,"
		" (SELECT pid FROM process ORDER BY id LIMIT 1), (SELECT count(DISTINCT rank) FROM process),"
		" (SELECT max(size) FROM process) FROM run r";
	struct lw_store *store;
	sqlite3_stmt *row;
	int status = lw_store_open(job->path, LW_STORE_READ, &store);

	if (status < 0)
		return status;
	status = lw_store_prepare(store, sql, &row);
	if (status == LW_OK) {
		status = lw_store_step(store, row);
		if (status == 1) {
			snprintf(job->command, sizeof(job->command), "%s",
				lw_store_column_text(row, 0));
			job->started_ns = sqlite3_column_int64(row, 1);
			job->pid = sqlite3_column_int64(row, 2);
			job->n_ranks = sqlite3_column_int(row, 3);
			job->size = sqlite3_column_int(row, 4);
		}
		sqlite3_finalize(row);
	}
	lw_store_close(store);
	return status < 0 ? status : LW_OK;
}

/* ---- looking again ------------------------------------------------------------------------------------ */

static struct lw_job *find_job(const lw_job_list *jobs, const char *dir)
{
	struct lw_job *job;

	lw_vec_foreach (job, jobs)
		if (!strcmp(job->dir, dir))
			return job;
	return NULL;
}

int lw_chooser_take(struct lw_chooser *chooser, const lw_job_list *jobs)
{
	struct lw_job *job;

	lw_vec_foreach (job, &chooser->jobs) {
		const struct lw_job *now = find_job(jobs, job->dir);

		if (!now)
			job->has_ended = true;
		else if (now->started_ns ||
			 !job->started_ns) /* else it could not be read this time */
			*job = *now;
	}
	lw_vec_foreach (job, jobs)
		if (!find_job(&chooser->jobs, job->dir) && lw_vec_push(&chooser->jobs, *job) < 0)
			return LW_ERR_NOMEM;
	return LW_OK;
}

bool lw_chooser_tick(struct lw_chooser *chooser)
{
	lw_job_list jobs = {0};
	struct timespec now;

	if (!chooser->find)
		return false;
	clock_gettime(CLOCK_REALTIME, &now);
	chooser->now_ns = now.tv_sec * LW_NS_PER_S + now.tv_nsec;
	if (chooser->now_ns >= chooser->looked_ns &&
		chooser->now_ns - chooser->looked_ns < LW_NS_PER_S)
		return false;
	chooser->looked_ns = chooser->now_ns;
	if (chooser->find(chooser->context, &jobs) < 0 || lw_chooser_take(chooser, &jobs) < 0)
		lw_error_clear(); /* the next time */
	lw_vec_free(&jobs);
	return true;
}

/* ---- drawing ------------------------------------------------------------------------------------------ */

static const char *age_of(const struct lw_job *job, int64_t now_ns, char text[LW_UNIT_TEXT_BYTES])
{
	/* clocks are set back now and then: an age that cannot be is not known */
	if (job->has_ended)
		snprintf(text, LW_UNIT_TEXT_BYTES, "ended");
	else if (job->started_ns <= 0 || job->started_ns > now_ns)
		snprintf(text, LW_UNIT_TEXT_BYTES, "?");
	else
		lw_age_format(now_ns - job->started_ns, text);
	return text;
}

static void draw_job(const struct lw_chooser *chooser, size_t i, struct lw_pane pane, int y)
{
	const struct lw_job *job = &chooser->jobs.at[i];
	bool is_at = i == chooser->at;
	enum lw_style style = is_at            ? LW_STYLE_SELECTED
			      : job->has_ended ? LW_STYLE_DIM
					       : LW_STYLE_TEXT;
	char pid[32] = "-", ranks[32], size[24] = "?", age[LW_UNIT_TEXT_BYTES];

	if (job->pid)
		snprintf(pid, sizeof(pid), "%lld", (long long)job->pid);
	if (job->size)
		snprintf(size, sizeof(size), "%d", job->size);
	snprintf(ranks, sizeof(ranks), "%d of %s", job->n_ranks, size);
	if (is_at) {
		lw_pane_fill(pane, 0, y, pane.width, style, ' ');
		lw_pane_rune(pane, 0, y, style, lw_glyph(pane.cells, LW_GLYPH_CURSOR));
	}
	lw_pane_print(
		pane, 2, y, style, "%-8s %-12s %s", pid, age_of(job, chooser->now_ns, age), ranks);
	lw_pane_text(pane, COMMAND_COLUMN, y, pane.width - COMMAND_COLUMN - 1, style,
		job->command[0] ? job->command : "(not known yet)");
	lw_pane_text(pane, COMMAND_COLUMN, y + 1, pane.width - COMMAND_COLUMN - 1, LW_STYLE_DIM,
		job->path);
}

/* First job on the screen. */
static size_t top_of(const struct lw_chooser *chooser, int height)
{
	size_t room = height > FIRST_LINE + 1 + JOB_LINES
			      ? (size_t)(height - FIRST_LINE - 1) / JOB_LINES
			      : 1;

	return chooser->at >= room ? chooser->at - room + 1 : 0;
}

static void draw_title(const struct lw_chooser *chooser, struct lw_pane pane)
{
	const struct lw_job *job;
	size_t n_ended = 0, n;
	int x;

	lw_vec_foreach (job, &chooser->jobs)
		n_ended += job->has_ended;
	n = chooser->jobs.n - n_ended;
	lw_pane_fill(pane, 0, 0, pane.width, LW_STYLE_TITLE, ' ');
	x = 1 + lw_pane_print(pane, 1, 0, LW_STYLE_TITLE,
			"lapwing  %zu job%s being recorded on this host", n,
			n == 1 ? " is" : "s are");
	if (n_ended)
		lw_pane_print(pane, x, 0, LW_STYLE_TITLE, ", %zu %s ended", n_ended,
			n_ended == 1 ? "has" : "have");
}

void lw_chooser_draw(const struct lw_chooser *chooser, struct lw_pane pane)
{
	int y = FIRST_LINE;

	draw_title(chooser, pane);
	lw_pane_print(pane, 2, 2, LW_STYLE_DIM, "%-8s %-12s %s", "pid", "runs for", "ranks");
	lw_pane_print(pane, COMMAND_COLUMN, 2, LW_STYLE_DIM, "command, run file");
	for (size_t i = top_of(chooser, pane.height);
		i < chooser->jobs.n && y + JOB_LINES < pane.height; i++, y += JOB_LINES)
		draw_job(chooser, i, pane, y);
	lw_pane_fill(pane, 0, pane.height - 1, pane.width, LW_STYLE_TITLE, ' ');
	lw_pane_print(pane, 1, pane.height - 1, LW_STYLE_TITLE,
		"Up, Down select  Enter follows it (one that has ended: shows it)  q leave");
}

bool lw_chooser_key(struct lw_chooser *chooser, uint32_t key, int y, int height)
{
	size_t last = chooser->jobs.n ? chooser->jobs.n - 1 : 0, clicked;

	switch ((int)lw_key_request(key)) {
	case LW_REQUEST_UP:
		chooser->at -= chooser->at > 0;
		return false;
	case LW_REQUEST_DOWN:
		chooser->at += chooser->at < last;
		return false;
	case LW_REQUEST_TOP:
		chooser->at = 0;
		return false;
	case LW_REQUEST_BOTTOM:
		chooser->at = last;
		return false;
	case LW_REQUEST_CLICK:
		clicked = top_of(chooser, height) + (size_t)(y - FIRST_LINE) / JOB_LINES;
		if (y >= FIRST_LINE && y < height - 1 && clicked <= last)
			chooser->at = clicked;
		return false;
	case LW_REQUEST_ENTER:
		chooser->chosen = chooser->jobs.n ? (int)chooser->at : -1;
		return true;
	case LW_REQUEST_QUIT:
	case LW_REQUEST_BACK:
		chooser->chosen = -1;
		return true;
	default:
		return false;
	}
}
