/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/finish.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "analyzer/analyzer.h"
#include "cli/cmd.h"
#include "schema/leisure.h"
#include "schema/rundir.h"
#include "schema/store.h"

enum { LONG_S = 2, MOST_S = 60 };
enum { AWAITED = 10 }; /* niceness, as the collector's: the job has ended, and somebody waits */

static time_t begin_s; /* of the child's work */
static bool is_child_quiet;

static time_t now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec;
}

/* After everybody else; and where memory runs out, this process is the one to go. */
static void stand_back(int niceness)
{
	const struct sched_param none = {0};
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (fd >= 0 && write(fd, "1000", 4) < 0)
		errno = 0; /* as it was, then */
	if (fd >= 0)
		close(fd);
	setpriority(PRIO_PROCESS, 0, niceness);
	sched_setscheduler(0, SCHED_BATCH, &none);
}

/* All ranks of the job, and closed. An imported timeline is one rank's view, and whole as that. */
static const char is_whole_sql[] = "SELECT closed AND (source <> 'trace' OR"
				   " ((SELECT coalesce(sum(n_stored), 0) FROM thread) > 0 AND"
				   " (SELECT count(DISTINCT rank) FROM process) >="
				   " (SELECT coalesce(max(size), 0) FROM process))) FROM run";

/* While it is written, readers see what was there before, and do not wait. */
static int prepare(const char *path, bool *ret_is_whole)
{
	struct lw_store *store;
	int64_t is_whole = 0;
	bool is_set;
	int status = lw_store_open(path, LW_STORE_WRITE, &store);

	if (status < 0)
		return status;
	status = lw_store_int(store, is_whole_sql, &is_whole);
	*ret_is_whole = is_whole && !store->is_read_only;
	if (status == LW_OK && *ret_is_whole)
		status = lw_store_set_journal(store, "wal", &is_set);
	lw_store_close(store);
	return status;
}

static bool has_journal(const char *path)
{
	char journal[PATH_MAX + 16];

	snprintf(journal, sizeof(journal), "%s-journal", path);
	return access(journal, F_OK) == 0;
}

/* A journal that was left before it held anything is nobody's: it goes with the next transaction. */
static void write_nothing(struct lw_store *store)
{
	int64_t version;
	char sql[64];

	if (lw_store_int(store, "PRAGMA user_version", &version) < 0)
		return;
	snprintf(sql, sizeof(sql), "PRAGMA user_version = %d", (int)version);
	lw_store_exec(store, sql);
}

void lw_finish_settle(const char *path)
{
	struct lw_store *store;

	if (lw_store_open(path, LW_STORE_WRITE, &store) < 0)
		return;
	if (!store->is_read_only)
		lw_store_seal(store);
	if (!store->is_read_only && has_journal(path))
		write_nothing(store);
	lw_store_close(store);
}

static void show_stage(const char *stage)
{
	if (!is_child_quiet && now_s() - begin_s >= LONG_S)
		lw_cli_stage(stage);
}

int lw_finish_here(const char *path, int niceness)
{
	const struct lw_analysis_options options = {.progress = show_stage};
	struct lw_analysis *analysis = NULL;
	bool is_whole = false;
	int status;

	begin_s = now_s();
	stand_back(niceness);
	status = lw_leisure_begin(path);
	if (status == LW_OK)
		status = prepare(path, &is_whole);
	if (status == LW_OK && is_whole) {
		status = lw_analysis_open(&path, 1, &options, &analysis);
		lw_analysis_close(status == LW_OK ? analysis : NULL);
		lw_finish_settle(path);
	}
	/* what is wrong with a run, who opens it is told */
	return status < 0 ? LW_EXIT_FAILED : LW_EXIT_OK;
}

static void waited_signals(sigset_t *set)
{
	static const int signals[] = {SIGCHLD, SIGINT, SIGTERM, SIGHUP};

	sigemptyset(set);
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		sigaddset(set, signals[i]);
}

static void wait_for(const char *verb, pid_t child, const char *path, bool is_quiet)
{
	const struct timespec patience = {.tv_sec = LONG_S};
	time_t start_s = now_s();
	sigset_t set;
	pid_t waited;
	int ended = 0;

	waited_signals(&set);
	while ((waited = waitpid(child, &ended, WNOHANG)) == 0) { /* < 0: it is no more */
		int signal = sigtimedwait(&set, NULL, &patience);

		if ((signal > 0 && signal != SIGCHLD) || now_s() - start_s > MOST_S)
			kill(child, SIGTERM);
		else if (signal < 0 && errno == EAGAIN && !is_quiet) {
			lw_cli_say("%s: analysing %s, so that it opens at once (Ctrl-C: leave that"
				   " to whoever opens it)",
				verb, path);
			is_quiet = true;
		}
	}
	if (now_s() - start_s >= LONG_S)
		lw_cli_stage(NULL);
	if (waited < 0 ||
		(WIFSIGNALED(ended) && WTERMSIG(ended) != SIGIO)) /* a reader settles it */
		lw_finish_settle(path);
}

void lw_finish_apart(const char *verb, const char *path, bool is_quiet)
{
	const char *off = getenv(LW_ENV_NO_ANALYZE);
	sigset_t set, before;
	pid_t child;

	if (off && *off && strcmp(off, "0"))
		return;
	waited_signals(&set);
	sigprocmask(SIG_BLOCK, &set, &before);
	fflush(NULL);
	child = fork();
	if (child == 0) {
		is_child_quiet = is_quiet;
		signal(SIGINT, SIG_DFL);
		signal(SIGTERM, SIG_DFL);
		sigemptyset(&set);
		sigprocmask(SIG_SETMASK, &set, NULL);
		_exit(lw_finish_here(path, AWAITED));
	}
	if (child > 0)
		wait_for(verb, child, path, is_quiet);
	sigprocmask(SIG_SETMASK, &before, NULL);
	lw_error_clear();
}
