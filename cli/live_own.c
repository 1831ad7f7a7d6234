/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/live_own.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/units.h"
#include "cli/cmd.h"

/* In the process that records: as `record`, but nothing of it reaches the terminal. Does not return. */
static _Noreturn void record_apart(struct lw_launch *launch, int log_fd, int word_fd)
{
	int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC), code;

	setsid(); /* Ctrl-C and a hangup of the terminal are for the screen */
	dup2(null_fd, STDIN_FILENO);
	dup2(log_fd, STDOUT_FILENO);
	dup2(log_fd, STDERR_FILENO);
	code = lw_launch_run(launch);
	/* Else what is at launch->out may be anybody's. The reading end is open in here, too: no SIGPIPE. */
	if (launch->is_collected && write(word_fd, "y", 1) < 0)
		_exit(LW_EXIT_FAILED);
	_exit(code);
}

bool lw_own_has_ended(struct lw_own *own, bool must_wait)
{
	int ended;

	if (own->recorder &&
		waitpid(own->recorder, &ended, must_wait ? 0 : WNOHANG) == own->recorder) {
		own->code = WIFEXITED(ended) ? WEXITSTATUS(ended) : LW_EXIT_FAILED;
		own->recorder = 0;
	}
	return !own->recorder;
}

/* The recorder's word that the file of this name is its own. */
static bool has_recorded(int word_fd)
{
	char word;

	return read(word_fd, &word, 1) == 1;
}

/*
 * The ring directory is this job's alone, so the file that it names is this job's run. Once it is gone, only the
 * recorder knows: a file of that name may be an earlier run, or one that another job is being recorded into.
 * Return: there is a run, of a command that runs or has ended already.
 */
static bool await_run(
	struct lw_own *own, const struct lw_launch *launch, int word_fd, struct lw_job *ret_job)
{
	const struct timespec pause = {.tv_nsec = 20 * LW_NS_PER_MS};
	bool has_ended;

	snprintf(ret_job->dir, sizeof(ret_job->dir), "%s", launch->dir);
	do {
		struct lw_rundir rundir;

		has_ended = lw_own_has_ended(own, false);
		if (lw_rundir_look(launch->dir, &rundir) == LW_OK && rundir.out[0]) {
			snprintf(ret_job->path, sizeof(ret_job->path), "%s", rundir.out);
			return true;
		}
		lw_error_clear();
		nanosleep(&pause, NULL);
	} while (!has_ended);
	return has_recorded(word_fd) && realpath(launch->out, ret_job->path);
}

/* Return: LW_OK; an error: nothing was started. */
static int begin(struct lw_own *own, struct lw_launch *launch, int log_fd, int *ret_word_fd)
{
	int word[2];

	if (pipe2(word, O_CLOEXEC) < 0)
		return lw_fail(LW_ERR_IO, "pipe: %s", strerror(errno));
	fflush(NULL);
	own->recorder = fork();
	if (own->recorder == 0)
		record_apart(launch, log_fd, word[1]);
	close(word[1]);
	*ret_word_fd = word[0];
	if (own->recorder > 0)
		return LW_OK;
	own->recorder = 0;
	close(word[0]);
	return lw_fail(LW_ERR_IO, "fork: %s", strerror(errno));
}

int lw_own_start(struct lw_own *own, struct lw_launch *launch, struct lw_job *ret_job)
{
	int code = lw_launch_prepare(launch), status, fd, word_fd = -1;
	bool has_run;

	if (code)
		return 1 + code;
	snprintf(own->log, sizeof(own->log), "%s.log", launch->out);
	fd = open(own->log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	status = fd < 0 ? lw_fail(LW_ERR_IO, "%s: %s", own->log, strerror(errno))
			: begin(own, launch, fd, &word_fd);
	if (fd >= 0)
		close(fd);
	if (status < 0) {
		lw_rundir_remove(launch->dir);
		return 1 + lw_cli_fail(lw_cause(status, "live"));
	}
	has_run = await_run(own, launch, word_fd, ret_job);
	close(word_fd);
	if (has_run)
		return 0;
	lw_cli_say("live: the recording ended before it began; %s says why", own->log);
	return 1 + (own->code ? own->code : LW_EXIT_FAILED);
}
