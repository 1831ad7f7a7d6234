/* SPDX-License-Identifier: Apache-2.0 */
#include "tui/chooser.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/err.h"
#include "base/units.h"
#include "schema/store.h"
#include "tui/keys.h"

enum { FIRST_LINE = 3, JOB_LINES = 2, COMMAND_COLUMN = 36, WIDE = 78 /* columns */ };

#define TOGETHER_NS (10 * LW_NS_PER_S) /* in which all ranks of a job start */

int lw_job_read(struct lw_job *job)
{
	static const char sql[] =
		"SELECT iif(r.command <> '', r.command, coalesce((SELECT s.text FROM process p JOIN string s"
		" ON s.id = p.command_id ORDER BY p.id LIMIT 1), '')), r.created_realtime_ns,"
		" (SELECT pid FROM process ORDER BY id LIMIT 1), (SELECT count(DISTINCT rank) FROM process),"
		" (SELECT max(size) FROM process), (SELECT min(rank) FROM process) FROM run r";
	struct lw_store *store;
	sqlite3_stmt *row;
	int status = lw_store_open(job->path, LW_STORE_READ, &store);

	job->rank = -1;
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
			if (sqlite3_column_type(row, 5) != SQLITE_NULL)
				job->rank = sqlite3_column_int(row, 5);
		}
		sqlite3_finalize(row);
	}
	lw_store_close(store);
	return status < 0 ? status : LW_OK;
}

/* ---- a job that is recorded into a file a rank ---------------------------------------------------------- */

/* `mpirun lapwing record` knows nothing of its other ranks: what is the same of all of them, and one rank each. */
static bool are_of_one_job(const struct lw_job *a, const struct lw_job *b)
{
	int64_t apart_ns = a->started_ns - b->started_ns;

	return a->command[0] && !strcmp(a->command, b->command) && a->size > 1 &&
	       a->size == b->size && a->rank >= 0 && b->rank >= 0 && a->rank != b->rank &&
	       a->n_ranks < a->size && b->n_ranks < b->size && apart_ns < TOGETHER_NS &&
	       apart_ns > -TOGETHER_NS;
}

/* Is it of the job that file @leader is the first of? */
static bool does_belong(const lw_job_list *jobs, size_t leader, size_t i)
{
	for (size_t k = leader; k < i; k++)
		if (jobs->at[k].leader == leader && !are_of_one_job(&jobs->at[k], &jobs->at[i]))
			return false;
	return true;
}

static void find_leaders(lw_job_list *jobs)
{
	for (size_t i = 0; i < jobs->n; i++) {
		size_t leader = 0;

		while (leader < i &&
			(jobs->at[leader].leader != leader || !does_belong(jobs, leader, i)))
			leader++;
		jobs->at[i].leader = leader;
	}
}

size_t lw_chooser_n_jobs(const struct lw_chooser *chooser)
{
	size_t n = 0;

	for (size_t i = 0; i < chooser->jobs.n; i++)
		n += chooser->jobs.at[i].leader == i;
	return n;
}

/* What all of them begin and end with, and a star between. */
static void widen(char pattern[LW_JOB_PATH_BYTES], const char *path)
{
	size_t n_pattern = strlen(pattern), n_path = strlen(path), begin = 0, end = 0;
	const char *star = strchr(pattern, '*');
	size_t most_begin = star ? (size_t)(star - pattern) : n_pattern;
	size_t most_end = star ? strlen(star + 1) : n_pattern;
	char both[LW_JOB_PATH_BYTES];

	while (begin < most_begin && begin < n_path && pattern[begin] == path[begin])
		begin++;
	while (end < most_end && end + begin < n_path && end + begin < n_pattern &&
		pattern[n_pattern - 1 - end] == path[n_path - 1 - end])
		end++;
	if (begin + 1 + end >= sizeof(both))
		return;
	memcpy(both, pattern, begin);
	both[begin] = '*';
	memcpy(both + begin + 1, pattern + n_pattern - end, end + 1);
	memcpy(pattern, both, begin + 1 + end + 1);
}

struct lw_job_files *lw_chooser_files(
	const struct lw_chooser *chooser, size_t i, struct lw_job_files *ret)
{
	size_t leader = chooser->jobs.at[i].leader;

	memset(ret, 0, sizeof(*ret));
	ret->followed = leader;
	for (size_t k = leader; k < chooser->jobs.n; k++) {
		const struct lw_job *job = &chooser->jobs.at[k];
		const struct lw_job *best = &chooser->jobs.at[ret->followed];

		if (job->leader != leader)
			continue;
		if (ret->n++)
			widen(ret->pattern, job->path);
		else
			snprintf(ret->pattern, sizeof(ret->pattern), "%s", job->path);
		ret->n_ended += job->has_ended;
		ret->n_ranks += job->n_ranks;
		if (job->has_ended < best->has_ended ||
			(job->has_ended == best->has_ended && job->rank < best->rank))
			ret->followed = k;
	}
	return ret;
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
	find_leaders(&chooser->jobs);
	if (chooser->at < chooser->jobs.n)
		chooser->at = chooser->jobs.at[chooser->at].leader;
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

static const char *age_of(
	const struct lw_job *job, bool has_ended, int64_t now_ns, char text[LW_UNIT_TEXT_BYTES])
{
	/* clocks are set back now and then: an age that cannot be is not known */
	if (has_ended)
		snprintf(text, LW_UNIT_TEXT_BYTES, "ended");
	else if (job->started_ns <= 0 || job->started_ns > now_ns)
		snprintf(text, LW_UNIT_TEXT_BYTES, "?");
	else
		lw_age_format(now_ns - job->started_ns, text);
	return text;
}

static void draw_files(const struct lw_chooser *chooser, size_t i, const struct lw_job_files *files,
	struct lw_pane pane, int y)
{
	char text[LW_JOB_PATH_BYTES + 64];
	int x;

	if (files->n > 1) /* what must not be cut comes first */
		snprintf(text, sizeof(text), "%zu files, rank %d's is followed: %s", files->n,
			chooser->jobs.at[files->followed].rank, files->pattern);
	else
		snprintf(text, sizeof(text), "%s", chooser->jobs.at[i].path);
	x = pane.width - 1 - lw_text_width(text); /* a long one begins further to the left */
	x = x > COMMAND_COLUMN ? COMMAND_COLUMN : x < 2 ? 2 : x;
	lw_pane_text(pane, x, y, pane.width - x - 1, LW_STYLE_DIM, text);
}

static void draw_job(const struct lw_chooser *chooser, size_t i, struct lw_pane pane, int y)
{
	const struct lw_job *job = &chooser->jobs.at[i];
	struct lw_job_files files;
	bool is_at = i == chooser->at;
	bool has_ended = lw_chooser_files(chooser, i, &files)->n_ended == files.n;
	enum lw_style style = is_at ? LW_STYLE_SELECTED : has_ended ? LW_STYLE_DIM : LW_STYLE_TEXT;
	char pid[32] = "-", ranks[32], size[24] = "?", age[LW_UNIT_TEXT_BYTES];

	if (job->pid)
		snprintf(pid, sizeof(pid), "%lld", (long long)job->pid);
	if (job->size)
		snprintf(size, sizeof(size), "%d", job->size);
	snprintf(ranks, sizeof(ranks), "%d of %s", files.n_ranks, size);
	if (is_at) {
		lw_pane_fill(pane, 0, y, pane.width, style, ' ');
		lw_pane_rune(pane, 0, y, style, lw_glyph(pane.cells, LW_GLYPH_CURSOR));
	}
	lw_pane_print(pane, 2, y, style, "%-8s %-12s %s", pid,
		age_of(job, has_ended, chooser->now_ns, age), ranks);
	lw_pane_text(pane, COMMAND_COLUMN, y, pane.width - COMMAND_COLUMN - 1, style,
		job->command[0] ? job->command : "(not known yet)");
	draw_files(chooser, i, &files, pane, y + 1);
}

/* The next job's first file from @i on, by @by; @i: there is none. */
static size_t next_job(const struct lw_chooser *chooser, size_t i, int by)
{
	for (size_t k = i + (size_t)by; k < chooser->jobs.n; k += (size_t)by) /* wraps below 0 */
		if (chooser->jobs.at[k].leader == k)
			return k;
	return i;
}

/* Which line of the list a job is on. */
static size_t line_of(const struct lw_chooser *chooser, size_t i)
{
	size_t line = 0;

	while (i > 0 && next_job(chooser, i, -1) != i) {
		i = next_job(chooser, i, -1);
		line++;
	}
	return line;
}

/* Lines stay where they are as long as the one that is selected is among them. */
static void scroll(struct lw_chooser *chooser, int height)
{
	size_t room = height > FIRST_LINE + 1 + JOB_LINES
			      ? (size_t)(height - FIRST_LINE - 1) / JOB_LINES
			      : 1;
	size_t n = lw_chooser_n_jobs(chooser), line = line_of(chooser, chooser->at);

	if (chooser->top > line)
		chooser->top = line;
	if (chooser->top + room <= line)
		chooser->top = line - room + 1;
	if (chooser->top + room > n)
		chooser->top = n > room ? n - room : 0;
}

static size_t job_on(const struct lw_chooser *chooser, size_t line)
{
	size_t i = 0;

	for (; line > 0 && next_job(chooser, i, 1) != i; line--)
		i = next_job(chooser, i, 1);
	return i;
}

static void draw_title(const struct lw_chooser *chooser, struct lw_pane pane)
{
	struct lw_job_files files;
	size_t n_ended = 0, n;
	int x;

	for (size_t i = 0; i < chooser->jobs.n; i++)
		if (chooser->jobs.at[i].leader == i)
			n_ended += lw_chooser_files(chooser, i, &files)->n_ended == files.n;
	n = lw_chooser_n_jobs(chooser) - n_ended;
	lw_pane_fill(pane, 0, 0, pane.width, LW_STYLE_TITLE, ' ');
	x = 1 + lw_pane_print(pane, 1, 0, LW_STYLE_TITLE,
			"lapwing  %zu job%s being recorded on this host", n,
			n == 1 ? " is" : "s are");
	if (n_ended)
		lw_pane_print(pane, x, 0, LW_STYLE_TITLE, ", %zu %s ended", n_ended,
			n_ended == 1 ? "has" : "have");
}

static void draw_message(const struct lw_chooser *chooser, struct lw_pane pane)
{
	int width = pane.width - 2, n;
	char text[LW_JOB_TEXT_BYTES + 2];

	snprintf(text, sizeof(text), "! %s", chooser->message);
	n = lw_pane_wrap(lw_pane_part(pane, 0, 0, width, 0), 0, 0, width, LW_STYLE_BAD, text);
	for (int i = 1; i <= n; i++)
		lw_pane_fill(pane, 0, pane.height - i, pane.width, LW_STYLE_TITLE, ' ');
	lw_pane_wrap(pane, 1, pane.height - n, width, LW_STYLE_BAD, text);
}

static void draw_foot(const struct lw_chooser *chooser, struct lw_pane pane)
{
	const char *keys =
		chooser->is_help ? "Esc back to the list  q leave"
		: pane.width < WIDE
			? "Up Down  Enter follows  ? help  q leave"
			: "Up Down select  Enter follows it, or shows what has ended  ? help"
			  "  q leave";

	lw_pane_fill(pane, 0, pane.height - 1, pane.width, LW_STYLE_TITLE, ' ');
	if (chooser->message[0])
		draw_message(chooser, pane);
	else
		lw_pane_print(pane, 1, pane.height - 1, LW_STYLE_TITLE, "%s", keys);
}

static void draw_help(struct lw_pane pane)
{
	static const char text[] =
		"Every job of yours that is being recorded on this host: by `lapwing record`, or with the"
		" library preloaded.\n\n"
		"Up Down k j    select\n"
		"Home End g G   the first, the last\n"
		"Enter          follow it; one that has ended: show its run\n"
		"Esc            back to the list\n"
		"q              leave; no job is touched\n\n"
		"Of a job that is recorded into a file a rank one file can be followed. Once it has ended,"
		" `lapwing tui` with all the files shows all of it.";

	lw_pane_wrap(pane, 2, 2, pane.width - 4, LW_STYLE_TEXT, text);
}

void lw_chooser_draw(struct lw_chooser *chooser, struct lw_pane pane)
{
	int y = FIRST_LINE;

	draw_title(chooser, pane);
	if (chooser->is_help) {
		draw_help(lw_pane_part(pane, 0, 0, pane.width, pane.height - 1));
		draw_foot(chooser, pane);
		return;
	}
	lw_pane_print(pane, 2, 2, LW_STYLE_DIM, "%-8s %-12s %s", "pid", "runs for", "ranks");
	lw_pane_print(pane, COMMAND_COLUMN, 2, LW_STYLE_DIM, "command, run file");
	scroll(chooser, pane.height);
	for (size_t i = job_on(chooser, chooser->top), last = i;
		i < chooser->jobs.n && y + JOB_LINES < pane.height; y += JOB_LINES) {
		draw_job(chooser, i, pane, y);
		last = i;
		i = next_job(chooser, i, 1);
		if (i == last)
			break;
	}
	draw_foot(chooser, pane);
}

/* Return: it can be followed. */
static bool enter(struct lw_chooser *chooser)
{
	struct lw_job_files files;

	if (!chooser->jobs.n)
		return false;
	chooser->chosen = (int)lw_chooser_files(chooser, chooser->at, &files)->followed;
	if (!chooser->open ||
		chooser->open(chooser->context, &chooser->jobs.at[chooser->chosen]) >= 0)
		return true;
	snprintf(chooser->message, sizeof(chooser->message), "%s", lw_error_text());
	lw_error_clear();
	chooser->chosen = -1;
	return false;
}

static void click(struct lw_chooser *chooser, int y, int height)
{
	size_t line = chooser->top + (size_t)(y - FIRST_LINE) / JOB_LINES;

	if (y >= FIRST_LINE && y < height - 1 && line < lw_chooser_n_jobs(chooser))
		chooser->at = job_on(chooser, line);
}

bool lw_chooser_key(struct lw_chooser *chooser, uint32_t key, int y, int height)
{
	enum lw_request request = lw_key_request(key);
	size_t n = lw_chooser_n_jobs(chooser);

	chooser->message[0] = 0;
	if (chooser->is_help && request != LW_REQUEST_QUIT) {
		chooser->is_help = request != LW_REQUEST_BACK && request != LW_REQUEST_HELP;
		return false;
	}
	switch ((int)request) {
	case LW_REQUEST_UP:
		chooser->at = next_job(chooser, chooser->at, -1);
		break;
	case LW_REQUEST_DOWN:
		chooser->at = next_job(chooser, chooser->at, 1);
		break;
	case LW_REQUEST_TOP:
		chooser->at = 0;
		break;
	case LW_REQUEST_BOTTOM:
		chooser->at = n ? job_on(chooser, n - 1) : 0;
		break;
	case LW_REQUEST_CLICK:
		click(chooser, y, height);
		break;
	case LW_REQUEST_HELP:
		chooser->is_help = true;
		break;
	case LW_REQUEST_ENTER:
		return enter(chooser);
	case LW_REQUEST_QUIT:
		chooser->chosen = -1;
		return true;
	default:
		break;
	}
	if (request == LW_REQUEST_BACK)
		snprintf(chooser->message, sizeof(chooser->message),
			"q leaves, Enter follows a job");
	return false;
}
