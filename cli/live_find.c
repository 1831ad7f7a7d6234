/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/live_find.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/units.h"
#include "cli/cmd.h"
#include "collector/collector.h"

#define START_NS (20 * LW_NS_PER_S) /* patience for a run file that somebody is about to make */

static void take_rundir(struct lw_job *job, const struct lw_rundir *rundir)
{
	snprintf(job->dir, sizeof(job->dir), "%s", rundir->path);
	snprintf(job->path, sizeof(job->path), "%s", rundir->out);
}

int lw_live_find_jobs(size_t *ret_n_left, lw_job_list *ret_jobs)
{
	lw_rundir_list list = {0};
	const struct lw_rundir *rundir;
	int status = lw_rundir_find(&list);

	*ret_n_left = 0;
	lw_vec_foreach (rundir, &list) {
		struct lw_job job = {0};

		if (status < 0 || !rundir->is_collected || !rundir->out[0]) {
			*ret_n_left += !rundir->is_collected;
			continue;
		}
		take_rundir(&job, rundir);
		if (lw_job_read(&job) < 0)
			lw_error_clear(); /* it is just beginning, or ending */
		status = lw_vec_push(ret_jobs, job);
	}
	lw_vec_free(&list);
	return status;
}

int lw_live_await_run(const char *dir, struct lw_job *job)
{
	const struct timespec pause = {.tv_nsec = 20 * LW_NS_PER_MS};
	int64_t until_ns = lw_clock_ns() + START_NS;

	for (;;) {
		struct lw_rundir rundir;
		int status = lw_rundir_look(dir, &rundir);

		if (status < 0)
			return status;
		if (rundir.out[0]) {
			take_rundir(job, &rundir);
			return LW_OK;
		}
		if (!rundir.is_collected || lw_clock_ns() > until_ns)
			return lw_fail(LW_ERR_STATE,
				"%s: names no run file: nobody collects there (`lapwing salvage` lists what is left)",
				dir);
		nanosleep(&pause, NULL);
	}
}

int lw_live_say_no_job(size_t n_left)
{
	lw_cli_say(
		"live: no job is being recorded on this host: `lapwing live -- COMMAND` starts one,"
		" `lapwing record -- COMMAND` too; `lapwing tui RUN` shows a run that is over");
	if (n_left)
		lw_cli_say("live: %zu ring director%s left behind by a collector that died:"
			   " `lapwing salvage` lists them",
			n_left, n_left == 1 ? "y was" : "ies were");
	return LW_EXIT_FAILED;
}
