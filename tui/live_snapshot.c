/* SPDX-License-Identifier: Apache-2.0 */
/* live_snapshot.c - the run so far as a file of its own, copied by a thread: the screen goes on meanwhile. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "tui/apart.h"
#include "tui/live.h"

enum { ERROR_BYTES = 400, MAX_TRIES = 5, STOP_OPS = 10000 };

struct lw_live_snapshot {
	pthread_t thread;
	const char *from;
	char path[LW_LIVE_PATH_BYTES];
	int shown_percent;
	atomic_int percent;
	atomic_bool is_dropped; /* the writer gives up, and removes what it has written */
	atomic_bool is_over;    /* what follows is the reader's from then on */
	int status;
	char error[ERROR_BYTES];
};

/* ---- in the thread ---------------------------------------------------------------------------------- */

static bool note_progress(void *context, double done_frac)
{
	struct lw_live_snapshot *snapshot = context;

	atomic_store(&snapshot->percent, (int)(100 * done_frac));
	return !atomic_load(&snapshot->is_dropped);
}

/* Asked by SQLite while a statement, such as one that makes an index, goes on. */
static int must_stop(void *context)
{
	const struct lw_live_snapshot *snapshot = context;

	return atomic_load(&snapshot->is_dropped);
}

/* One read transaction: a writer goes on meanwhile, and what it writes is not in the copy. */
static int copy(struct lw_live_snapshot *snapshot, struct lw_store *from, struct lw_store *into)
{
	int status = lw_store_exec(from, "BEGIN; SELECT count(*) FROM sqlite_schema");

	if (status == LW_OK)
		status = lw_store_copy_told(into, from, note_progress, snapshot);
	sqlite3_exec(from->db, "COMMIT", NULL, NULL, NULL);
	return status;
}

static int write_file(struct lw_live_snapshot *snapshot)
{
	struct lw_store *from = NULL, *into = NULL;
	int status = lw_store_open(snapshot->from, LW_STORE_READ, &from);

	if (status < 0)
		return status;
	status = lw_store_open(snapshot->path, LW_STORE_CREATE, &into);
	if (status == LW_OK)
		sqlite3_progress_handler(into->db, STOP_OPS, must_stop, snapshot);
	for (int i = 0; i < MAX_TRIES && status == LW_OK; i++) {
		status = copy(snapshot, from, into);
		if (status != LW_ERR_BUSY || i + 1 == MAX_TRIES ||
			atomic_load(&snapshot->is_dropped))
			break;
		status = LW_OK;
		sleep(1);
	}
	if (status == LW_OK)
		status = lw_store_build_indexes(into);
	if (status == LW_OK)
		status = lw_store_seal(into);
	if (status < 0 && into) /* else the error names it */
		lw_cause(status, "writing %s", snapshot->path);
	lw_store_close(from);
	lw_store_close(into);
	if (status < 0 && into)
		unlink(snapshot->path); /* half a file helps nobody */
	return status;
}

static void *write_apart(void *context)
{
	struct lw_live_snapshot *snapshot = context;

	snapshot->status = write_file(snapshot);
	if (snapshot->status < 0)
		snprintf(snapshot->error, sizeof(snapshot->error), "%s", lw_error_text());
	atomic_store(&snapshot->is_over, true);
	return NULL;
}

/* ---- in the program ----------------------------------------------------------------------------------- */

static void choose_path(char path[LW_LIVE_PATH_BYTES])
{
	time_t now = time(NULL);
	struct tm parts;
	char stamp[32];

	localtime_r(&now, &parts);
	strftime(stamp, sizeof(stamp), "%Y%m%d-%H%M%S", &parts);
	snprintf(path, LW_LIVE_PATH_BYTES, "lapwing-live-%s.lapwing", stamp);
	for (int i = 2; i < 100 && access(path, F_OK) == 0; i++)
		snprintf(path, LW_LIVE_PATH_BYTES, "lapwing-live-%s-%d.lapwing", stamp, i);
}

int lw_live_snapshot_begin(struct lw_live *live)
{
	struct lw_live_snapshot *snapshot;
	int status;

	if (live->snapshot)
		return lw_fail(LW_ERR_STATE, "%s is still being written", live->snapshot->path);
	snapshot = calloc(1, sizeof(*snapshot));
	if (!snapshot)
		return lw_fail(LW_ERR_NOMEM, "no memory");
	snapshot->from = live->options.path;
	snapshot->shown_percent = -1;
	choose_path(snapshot->path);
	status = lw_apart_begin(&snapshot->thread, write_apart, snapshot, "write it");
	if (status < 0) {
		free(snapshot);
		return status;
	}
	live->snapshot = snapshot;
	return LW_OK;
}

int lw_live_snapshot_wait(struct lw_live *live, char path[LW_LIVE_PATH_BYTES])
{
	struct lw_live_snapshot *snapshot = live->snapshot;
	int status;

	if (!snapshot)
		return LW_OK;
	pthread_join(snapshot->thread, NULL);
	memcpy(path, snapshot->path, LW_LIVE_PATH_BYTES);
	status = snapshot->status;
	if (status < 0)
		lw_fail((enum lw_status)status, "%s", snapshot->error);
	free(snapshot);
	live->snapshot = NULL;
	return status;
}

void lw_live_snapshot_drop(struct lw_live *live)
{
	char path[LW_LIVE_PATH_BYTES];

	if (!live || !live->snapshot)
		return;
	atomic_store(&live->snapshot->is_dropped, true);
	if (lw_live_snapshot_wait(live, path) < 0)
		lw_error_clear();
}

bool lw_live_snapshot_poll(struct lw_app *app)
{
	struct lw_live *live = app->live;
	struct lw_live_snapshot *snapshot = live->snapshot;
	char path[LW_LIVE_PATH_BYTES];
	int percent;

	if (!snapshot)
		return false;
	percent = atomic_load(&snapshot->percent);
	if (atomic_load(&snapshot->is_over)) {
		if (lw_live_snapshot_wait(live, path) < 0)
			lw_app_say(app, true, "no snapshot: %s", lw_error_text());
		else
			lw_app_say(app, false, "written: %s, the run so far (`lapwing report %s`)",
				path, path);
		return true;
	}
	if (percent == snapshot->shown_percent)
		return false;
	snapshot->shown_percent = percent;
	lw_app_say(app, false, "writing %s: %d %%", snapshot->path, percent);
	return true;
}
