/* SPDX-License-Identifier: Apache-2.0 */
/*
 * play.c - plays keys on the screens of a run and compares what they show, without a terminal.
 *
 *	tui_play CASE.steps
 *
 * A line of a case is one of
 *	run NAME        a run of runs.c; begins anew
 *	size 80x24      the terminal's; also in the middle
 *	ascii           no characters beyond ASCII
 *	keys 2 <Down>   as `lapwing tui --keys`
 *	screen          the cells go to CASE.screen
 *	live NAME       a job that is recorded as that run was, and followed; nothing is there yet
 *	appear [N]      its (first N) processes start
 *	grow SECONDS    what happened until then is stored and seen, at five looks a second
 *	wait SECONDS    the clock goes on, nothing is stored
 *	sql STATEMENT   what else its collector stores
 *	close           its collector closes the run
 *	collector WORD  works, left (it died), gone (all is done)
 *	chooser         a list of jobs
 *	again           the run is analysed anew, as live does, while the view is shown; then it is drawn
 *	# anything
 * LAPWING_UPDATE_GOLDEN=1 writes CASE.screen anew: read the difference before it is committed.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "tests/tui/play_live.h"
#include "tests/tui/runs.h"
#include "tui/app.h"

struct player {
	char dir[64], run_path[96], whole_path[96];
	const char *paths[1];
	struct lw_data data;
	struct lw_app app;
	struct live_player live;
	bool is_open;
	const char *case_path;
	int n_line;
	FILE *out;
};

static _Noreturn void die(const struct player *p, const char *what)
{
	fprintf(stderr, "%s:%d: %s\n", p->case_path, p->n_line, what);
	exit(1);
}

static void close_run(struct player *p)
{
	if (p->is_open) {
		lw_app_done(&p->app);
		lw_data_done(&p->data);
		play_live_end(&p->live);
		unlink(p->run_path);
	}
	p->is_open = false;
}

static void begin_run(struct player *p, const char *name, bool is_live)
{
	bool is_ascii = p->app.cells.is_ascii;
	struct make_run spec;

	close_run(p);
	if (!tui_run(name, &spec))
		die(p, "no such run: see tests/tui/runs.c");
	snprintf(p->run_path, sizeof(p->run_path), "%s/run.lapwing", p->dir);
	if (!is_live)
		make_run_write(p->run_path, &spec);
	p->paths[0] = p->run_path;
	p->data = (struct lw_data){.paths = p->paths, .n_paths = 1};
	p->app = (struct lw_app){.cells.is_ascii = is_ascii};
	if ((!is_live && lw_data_load(&p->data) < 0) ||
		lw_app_init(&p->app, &p->data, "run.lapwing") < 0)
		die(p, lw_error_text());
	snprintf(p->whole_path, sizeof(p->whole_path), "%s/whole.lapwing", p->dir);
	if (is_live && play_live_begin(&p->live, &p->app, "run.lapwing", p->whole_path, &spec) < 0)
		die(p, lw_error_text());
	p->is_open = true;
}

static void play_line(struct player *p, char *line)
{
	int width, height;

	if (!strncmp(line, "run ", 4)) {
		begin_run(p, line + 4, false);
	} else if (!strncmp(line, "live ", 5)) {
		begin_run(p, line + 5, true);
	} else if (!p->is_open) {
		die(p, "the first line has to name a run");
	} else if (sscanf(line, "size %dx%d", &width, &height) == 2) {
		if (lw_app_resize(&p->app, width, height) < 0)
			die(p, lw_error_text());
	} else if (!strcmp(line, "ascii")) {
		p->app.cells.is_ascii = true;
	} else if (!strncmp(line, "keys ", 5)) {
		if (lw_app_keys(&p->app, line + 5) < 0)
			die(p, lw_error_text());
		if (p->live.is_open)
			play_live_settle(&p->live);
	} else if (!strcmp(line, "chooser")) {
		play_chooser(&p->live, &p->app);
	} else if (p->live.is_open && play_live_line(&p->live, line)) {
		return;
	} else if (!strcmp(line, "again")) {
		if (lw_data_load(&p->data) < 0)
			die(p, lw_error_text());
		lw_app_draw_all(&p->app);
	} else if (!strcmp(line, "screen")) {
		lw_app_draw_all(&p->app);
		fprintf(p->out, "==== line %d, %dx%d\n", p->n_line, p->app.cells.width,
			p->app.cells.height);
		if (lw_app_write_screen(&p->app, p->out) < 0)
			die(p, lw_error_text());
	} else {
		die(p, "not understood");
	}
}

static void play(struct player *p)
{
	FILE *in = fopen(p->case_path, "r");
	char line[512];

	/* messages name files: as they are called here, not where this folder happens to be */
	if (!in || chdir(p->dir) < 0)
		die(p, "cannot be read");
	while (fgets(line, sizeof(line), in)) {
		p->n_line++;
		line[strcspn(line, "\n")] = 0;
		if (line[0] && line[0] != '#')
			play_line(p, line);
	}
	fclose(in);
	close_run(p);
}

static int compare(const struct player *p, const char *got)
{
	int n = (int)(strlen(p->case_path) - strlen("steps"));
	char command[1200];

	if (getenv("LAPWING_UPDATE_GOLDEN"))
		snprintf(command, sizeof(command), "cp '%s' '%.*sscreen'", got, n, p->case_path);
	else
		snprintf(command, sizeof(command), "diff -u '%.*sscreen' '%s'", n, p->case_path,
			got);
	return system(command) == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
	struct player p = {.dir = "/tmp/lapwing-play-XXXXXX", .case_path = argc > 1 ? argv[1] : ""};
	char got[96], case_path[PATH_MAX];
	int status;

	p.case_path = realpath(p.case_path, case_path);
	if (argc != 2 || !p.case_path || strlen(argv[1]) < strlen("x.steps") || !mkdtemp(p.dir))
		die(&p, "usage: tui_play CASE.steps");
	snprintf(got, sizeof(got), "%s/screen", p.dir);
	p.out = fopen(got, "w");
	if (!p.out)
		die(&p, "no place for screens");
	play(&p);
	fclose(p.out);
	status = compare(&p, got);
	unlink(got);
	rmdir(p.dir);
	return status;
}
