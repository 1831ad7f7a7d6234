/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/leave.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli/cmd.h"
#include "cli/finish.h"
#include "schema/event.h"
#include "schema/store.h"

struct options {
	int signal, code;
	const char *const *paths;
	size_t n_paths;
};

/* What lw_cli_run_exit() looks at, as far as the files know it before an analysis. */
struct found {
	int64_t n_bad, n_ranks, n_wanted;
};

static _Noreturn void end(int number, int code)
{
	if (number) {
		signal(number, SIG_DFL);
		raise(number);
	}
	_exit(code < 0 ? LW_EXIT_OK : code);
}

_Noreturn void lw_leave_now(const char *const *paths, size_t n_paths, int signal, int code)
{
	char by[32], with[32];
	const char **argv = calloc(n_paths + 6, sizeof(*argv));
	size_t n = 0;

	snprintf(by, sizeof(by), "--signal=%d", signal);
	snprintf(with, sizeof(with), "--code=%d", code);
	fflush(NULL);
	if (argv && n_paths) {
		argv[n++] = "lapwing";
		argv[n++] = "settle";
		argv[n++] = by;
		argv[n++] = with;
		argv[n++] = "--";
		for (size_t i = 0; i < n_paths; i++)
			argv[n++] = paths[i];
		execv("/proc/self/exe", (char *const *)(uintptr_t)argv);
	}
	end(signal, code);
}

/* ---- the verb --------------------------------------------------------------------------------------- */

static int64_t ask(struct lw_store *store, const char *sql)
{
	int64_t value = 0;

	if (lw_store_int(store, sql, &value) < 0)
		lw_error_clear(); /* who reads all of it is told */
	return value;
}

static void look(const char *path, struct found *found)
{
	struct lw_store *store;
	int64_t n_wanted;
	char sql[128];

	if (lw_store_open(path, LW_STORE_READ, &store) < 0)
		return;
	snprintf(sql, sizeof(sql),
		"SELECT coalesce(sum(n), 0) FROM loss WHERE reason NOT IN (%d, %d)", LW_LOSS_DIED,
		LW_LOSS_RUNNING);
	found->n_bad += ask(store, sql);
	found->n_bad += ask(store, "SELECT NOT closed FROM run");
	found->n_bad += ask(store, "SELECT count(*) FROM process WHERE ended = 'died'");
	/* of an imported timeline, one rank's view, no rank is missed */
	if (ask(store, "SELECT source = 'trace' FROM run")) {
		found->n_ranks +=
			ask(store, "SELECT count(DISTINCT rank) FROM process WHERE rank >= 0");
		n_wanted = ask(store,
			"SELECT coalesce(max(max(size, rank + 1)), 0) FROM process WHERE rank >= 0");
		if (n_wanted > found->n_wanted)
			found->n_wanted = n_wanted;
	}
	lw_store_close(store);
}

static error_t parse(int key, char *argument, struct argp_state *state)
{
	struct options *options = state->input;

	switch (key) {
	case 's':
		options->signal = (int)strtol(argument, NULL, 10);
		return 0;
	case 'c':
		options->code = (int)strtol(argument, NULL, 10);
		return 0;
	case ARGP_KEY_ARGS:
		options->paths = (const char *const *)state->argv + state->next;
		options->n_paths = (size_t)(state->argc - state->next);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

int lw_cmd_settle(int argc, char **argv)
{
	static const struct argp_option argp_options[] = {
		{"signal", 's', "NUMBER", 0, "end by this signal", 0},
		{"code", 'c', "NUMBER", 0,
			"exit code; -1: 3 if the run lost or misses data, else 0", 0},
		{0}};
	static const struct argp argp = {argp_options, parse, "RUN...",
		"Undoes what an analysis that was left had not stored, and makes one file of each run.",
		NULL, NULL, NULL};
	struct options options = {.code = LW_LEAVE_CODE_OF_RUN};
	struct found found = {0};

	lw_cli_parse(&argp, argc, argv, 0, &options);
	for (size_t i = 0; i < options.n_paths; i++) {
		lw_finish_settle(options.paths[i]);
		look(options.paths[i], &found);
	}
	if (options.code == LW_LEAVE_CODE_OF_RUN &&
		(found.n_bad || found.n_ranks != found.n_wanted))
		options.code = LW_EXIT_INCOMPLETE;
	end(options.signal, options.code);
}
