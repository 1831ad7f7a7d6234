/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_salvage.c - `lapwing salvage [DIR]`: finish what a collector that died has left, or list it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cmd.h"
#include "cli/finish.h"
#include "collector/collector.h"
#include "schema/rundir.h"
#include "schema/store.h"

struct options {
	const char *dir, *out;
};

static int list(void)
{
	lw_rundir_list found = {0};
	const struct lw_rundir *rundir;
	int status = lw_rundir_find(&found);

	if (status < 0)
		return lw_cli_fail(status);
	lw_vec_foreach (rundir, &found)
		printf("%s  %zu ring(s)  -> %s  %s%s%s\n", rundir->path, rundir->n_rings,
			rundir->out[0] ? rundir->out : "(no run file yet: give -o)",
			rundir->is_collected ? "is being recorded" : "left behind: salvage it",
			rundir->last_log[0] ? "\n    " : "", rundir->last_log);
	if (!found.n)
		printf("nothing to salvage\n");
	lw_vec_free(&found);
	return LW_EXIT_OK;
}

static int events_in(const char *path, int64_t *ret_n)
{
	struct lw_store *store;
	int status = lw_store_open(path, LW_STORE_READ, &store);

	*ret_n = 0;
	if (status < 0)
		return status;
	status = lw_store_int(store, "SELECT coalesce(sum(n_stored), 0) FROM thread", ret_n);
	lw_store_close(store);
	return status;
}

static int salvage(const struct options *options)
{
	struct lw_collect_options collect = {.dir = options->dir,
		.out = options->out,
		.must_move = options->out != NULL,
		.created_by = "lapwing " LAPWING_VERSION,
		.command = "",
		.until = LW_UNTIL_GONE};
	struct lw_rundir before;
	const char *out;
	int64_t n_before = 0, n_after = 0;
	bool has_begun;
	int status = lw_rundir_look(options->dir, &before);

	if (status < 0)
		return lw_cli_fail(lw_cause(status, "salvage"));
	if (!before.is_collected && !before.out[0] && !before.n_rings) {
		/* Files are deleted there in the end: only where the name says that they may be. */
		if (!before.has_lock || !strstr(options->dir, "/" LW_RUNDIR_PREFIX))
			return lw_cli_fail(lw_fail(
				LW_ERR_IO, "salvage: %s: not a ring directory", options->dir));
		/* its collector was killed when it had finished and was cleaning up */
		if (!lw_rundir_remove(options->dir))
			return lw_cli_fail(lw_fail(LW_ERR_IO,
				"salvage: %s: holds no rings, and cannot be removed",
				options->dir));
		printf("%s: nothing was left to store: removed\n", options->dir);
		return LW_EXIT_OK;
	}
	if (before.out[0])
		events_in(before.out,
			&n_before); /* may be gone or unreadable: then it held nothing */
	status = lw_collect(&collect, &has_begun);
	if (status < 0)
		return lw_cli_fail(lw_cause(status, "salvage"));
	out = options->out ? options->out : before.out;
	status = events_in(out, &n_after);
	if (status < 0)
		return lw_cli_fail(status);
	printf("%s: %lld events, %lld of them recovered from %zu ring(s)\n", out,
		(long long)n_after, (long long)(n_after - n_before), before.n_rings);
	lw_finish_apart("salvage", out, false);
	return LW_EXIT_OK;
}

static error_t parse(int key, char *argument, struct argp_state *state)
{
	struct options *options = state->input;

	switch (key) {
	case 'o':
		options->out = argument;
		return 0;
	case ARGP_KEY_ARG:
		if (options->dir)
			argp_error(state, "one directory at a time");
		options->dir = argument;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

int lw_cmd_salvage(int argc, char **argv)
{
	static const struct argp_option argp_options[] = {
		{"output", 'o', "FILE", 0, "write there; what was stored already is copied", 0},
		{0}};
	static const struct argp argp = {argp_options, parse, "[DIR]",
		"Finishes the run of a ring directory whose collector died; waits for processes that still"
		" record into it. Without DIR: lists this user's ring directories."
		"\vExit codes: 0 done, 1 failed (also: a collector is at work there), 2 wrong usage.",
		NULL, NULL, NULL};
	struct options options = {0};

	lw_cli_parse(&argp, argc, argv, 0, &options);
	return options.dir ? salvage(&options) : list();
}
