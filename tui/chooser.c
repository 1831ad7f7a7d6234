/* SPDX-License-Identifier: Apache-2.0 */
#include "tui/chooser.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/err.h"
#include "base/units.h"
#include "schema/store.h"
#include "tui/keys.h"

enum { FIRST_LINE = 3, JOB_LINES = 2 };

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

static void draw_job(const struct lw_job *job, struct lw_pane pane, int y, bool is_at)
{
	long long age_s = (long long)(time(NULL) - job->started_ns / LW_NS_PER_S);
	enum lw_style style = is_at ? LW_STYLE_SELECTED : LW_STYLE_TEXT;
	char pid[32] = "-", ranks[32], size[24] = "?";

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
		pane, 2, y, style, "%-8s %4lld:%02lld  %-9s", pid, age_s / 60, age_s % 60, ranks);
	lw_pane_text(pane, 32, y, pane.width - 33, style,
		job->command[0] ? job->command : "(not known yet)");
	lw_pane_text(pane, 32, y + 1, pane.width - 33, LW_STYLE_DIM, job->path);
}

/* First job on the screen. */
static size_t top_of(const struct lw_chooser *chooser, int height)
{
	size_t room = height > FIRST_LINE + 1 + JOB_LINES
			      ? (size_t)(height - FIRST_LINE - 1) / JOB_LINES
			      : 1;

	return chooser->at >= room ? chooser->at - room + 1 : 0;
}

void lw_chooser_draw(const struct lw_chooser *chooser, struct lw_pane pane)
{
	int y = FIRST_LINE;

	lw_pane_fill(pane, 0, 0, pane.width, LW_STYLE_TITLE, ' ');
	lw_pane_print(pane, 1, 0, LW_STYLE_TITLE,
		"lapwing  %zu jobs are being recorded on this host", chooser->jobs.n);
	lw_pane_print(pane, 2, 2, LW_STYLE_DIM, "%-8s %7s  %-9s", "pid", "min:s", "ranks");
	lw_pane_print(pane, 32, 2, LW_STYLE_DIM, "command, run file");
	for (size_t i = top_of(chooser, pane.height);
		i < chooser->jobs.n && y + JOB_LINES < pane.height; i++, y += JOB_LINES)
		draw_job(&chooser->jobs.at[i], pane, y, i == chooser->at);
	lw_pane_fill(pane, 0, pane.height - 1, pane.width, LW_STYLE_TITLE, ' ');
	lw_pane_print(pane, 1, pane.height - 1, LW_STYLE_TITLE,
		"Up, Down select  Enter follows it  q leave");
}

bool lw_chooser_key(struct lw_chooser *chooser, uint32_t key, int y)
{
	size_t last = chooser->jobs.n ? chooser->jobs.n - 1 : 0;

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
		if (y >= FIRST_LINE && (size_t)(y - FIRST_LINE) / JOB_LINES <= last)
			chooser->at = (size_t)(y - FIRST_LINE) / JOB_LINES;
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
