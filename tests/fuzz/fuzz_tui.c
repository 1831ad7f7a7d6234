/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_tui.c - keys, clicks, the wheel, commands, sizes and new analyses in any order on the screens of some runs,
 * and of jobs that are followed while they run.
 *
 * The first byte: 0x80 ASCII, 0x40 a running job, the others pick the run. Then a byte is a key; 0xf0 .. 0xff take
 * the next bytes for what a character cannot say: special keys, clicks, new sizes, time that passes, another
 * analysis under the view that is shown. Of a running job 0xe0 .. 0xe6 are what happens to it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "tests/tui/play_live.h"
#include "tests/tui/runs.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const names[] = {"slow_rank", "empty", "many_ranks", "one_rank", "ddp", "plain",
	"lossy", "imported", "imported_of_some", "long_cycle", "poor_fit", "ring_of_4",
	"ring_in_part", "no_setting", "captured", "shared_nic", "links", "gpu", "nccl_only"};
static const char *const live_names[] = {"slow_rank", "one_rank", "lossy", "ring_of_4", "plain",
	"empty", "ddp", "turns_of_3", "growing_late"};
enum {
	N_RUNS = sizeof(names) / sizeof(names[0]),
	N_LIVE_RUNS = sizeof(live_names) / sizeof(live_names[0]),
	MAX_INPUT = 512,
	MAX_ANALYSES = 24,
	MOST_S = 90, /* on a job's clock */
	IS_ASCII = 0x80,
	IS_LIVE = 0x40
};

enum special {         /* what a byte means; those below are keys from LW_KEY_FIRST on */
	APPEAR = 0xe0, /* next byte: which rank */
	GROW,          /* next byte: by how many hundredths of a second */
	WAIT,          /* next byte: how many tenths */
	STORE,         /* next byte: which of the statements */
	END,           /* its collector closes the run */
	COLLECTOR,     /* next byte: how it is */
	CHOOSE,        /* the screen is a list of jobs */
	FIRST_SPECIAL = 0xf0,
	ANALYSE_UNSEEN = 0xfb, /* and a key comes before it is drawn. Next byte: which run */
	ANALYSE = 0xfc,
	CLICK = 0xfd, /* next bytes: x, y */
	TICK = 0xfe,
	RESIZE = 0xff, /* next bytes: width, height */
};

/* What a collector stores beside the rows of a well-behaved job, and what somebody may have edited. */
static const char *const statements[] = {
	"UPDATE process SET ended = 'died' WHERE id = 1",
	"UPDATE process SET ended = 'died'",
	"UPDATE process SET ended = 'exit'",
	"UPDATE process SET rank = NULL WHERE id = 2",
	"UPDATE process SET rank = 0",
	"UPDATE process SET size = NULL",
	"UPDATE process SET rank = rank + 4, size = 8",
	"UPDATE process SET size = 1000000",
	"UPDATE process SET framework = 0",
	"UPDATE thread SET n_lost = 17 WHERE process_id = 1",
	"UPDATE thread SET n_lost = 9000000000000000000, n_stored = 9000000000000000000",
	"DELETE FROM thread WHERE id = 1",
	"DELETE FROM process WHERE id = 1",
	"INSERT INTO range SELECT id, 1, 1505000000, 1505000000, 1, NULL, 0 FROM thread",
	"INSERT INTO range SELECT id, 2, 1506000000, 1506000000, 1, NULL, 0 FROM thread",
	"INSERT INTO range SELECT id, 3, -5, -5, 1, NULL, 0 FROM thread",
	"INSERT INTO loss VALUES(1, 4, 1, 5, '')",
	"INSERT INTO socket_sample SELECT id, 1, 1100000000, 1, 1000, 2000, 1, 1 FROM process",
	"INSERT INTO socket_sample SELECT id, 1, 1200000000, 1, 900, 9000000000000000000, 1, 1 FROM process",
	"INSERT INTO socket_sample SELECT id, -1, 1300000000, 1, -4, -8, 1, 1 FROM process",
	"INSERT INTO setting SELECT id, 1100000000, 2, 5000000, 2 FROM process",
	"UPDATE ready SET at_ns = at_ns + 3000000 WHERE rowid % 3 = 0",
	"UPDATE wait SET end_ns = start_ns - 1",
	"UPDATE batch SET end_ns = 9000000000000000000 WHERE rowid % 2 = 0",
	"DELETE FROM string",
};
enum { N_STATEMENTS = sizeof(statements) / sizeof(statements[0]) };

static struct lw_data data; /* kept from input to input: most are about keys */
static const char *path;
static size_t shown;

/* With what sqlite puts beside it. */
static void remove_run(const char *file)
{
	static const char *const ends[] = {"", "-wal", "-shm"};
	char text[80];

	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		snprintf(text, sizeof(text), "%s%s", file, ends[i]);
		unlink(text);
	}
}

/* The one before it is freed: what a view still holds of it a sanitizer sees. */
static void analyse(size_t which)
{
	static char files[N_RUNS][64];
	struct make_run spec;

	snprintf(files[which], sizeof(files[which]), "/dev/shm/lapwing-fuzz-%d-%zu", getpid(),
		which);
	tui_run(names[which], &spec);
	remove_run(files[which]);
	make_run_write(files[which], &spec);
	path = files[which];
	data.paths = &path;
	data.n_paths = 1;
	if (lw_data_load(&data) < 0)
		abort();
	remove_run(files[which]);
	shown = which;
}

/* What writes files is tested elsewhere. */
static bool is_writing(const struct lw_app *app, uint32_t key)
{
	const char *line = app->line;

	if (app->mode == LW_APP_COMMAND)
		return key == LW_KEY_ENTER && line[strspn(line, " ")] == 'w';
	if (app->mode == LW_APP_SEARCH)
		return false;
	return lw_key_request(key) == LW_REQUEST_EXPORT ||
	       lw_key_request(key) == LW_REQUEST_SNAPSHOT;
}

static void press(struct lw_app *app, uint32_t key, int x, int y)
{
	if (key < LW_KEY_LAST && !is_writing(app, key))
		lw_app_key(app, key, x, y);
}

/* Return: how many bytes after the first it took. */
static size_t play(struct lw_app *app, const uint8_t *bytes, size_t n, int *n_analyses)
{
	uint8_t x = n > 1 ? bytes[1] : 0, y = n > 2 ? bytes[2] : 0;

	switch (bytes[0]) {
	case RESIZE:
		if (lw_app_resize(app, x, y) < 0)
			abort();
		return 2;
	case CLICK:
		press(app, LW_KEY_CLICK, x, y);
		break;
	case ANALYSE:
	case ANALYSE_UNSEEN:
		if ((*n_analyses)++ < MAX_ANALYSES)
			analyse(x % N_RUNS);
		if (bytes[0] == ANALYSE)
			lw_app_draw(app);
		return 1;
	case TICK:
		lw_app_tick(app);
		break;
	default:
		press(app, bytes[0] >= FIRST_SPECIAL ? LW_KEY_FIRST + (bytes[0] & 0x0fu) : bytes[0],
			0, 0);
		break;
	}
	lw_app_draw(app);
	return bytes[0] == CLICK ? 2 : 0;
}

static void play_all(struct lw_app *app, const uint8_t *bytes, size_t size)
{
	int n_analyses = 0;

	for (size_t i = 1; i < size; i++)
		i += play(app, bytes + i, size - i, &n_analyses);
	lw_app_draw(app);
}

/* ---- a job that runs -------------------------------------------------------------------------------------- */

struct job {
	struct live_player player;
	struct lw_app app;
	struct lw_data data;
	uint64_t appeared; /* a bit a rank */
	bool is_closed;    /* nothing more is stored */
};

static void let_time_pass(struct job *job, const char *what, double by_s)
{
	double to_s = (double)job->player.now_ns * 1e-9 + by_s;
	char line[64];

	snprintf(line, sizeof(line), "%s %.3f", what, to_s < MOST_S ? to_s : MOST_S);
	play_live_line(&job->player, line);
}

static void store(struct job *job, const char *statement)
{
	if (!job->is_closed)
		grow_run_execute(&job->player.run, "%s", statement);
}

static void end_job(struct job *job)
{
	store(job, "DETACH whole");
	store(job, "UPDATE run SET closed = 1, exit_code = 0");
	job->is_closed = true;
}

/* Return: as play(). */
static size_t happen(struct job *job, const uint8_t *bytes, size_t n)
{
	static char words[][24] = {"collector works", "collector left", "collector gone"};
	uint8_t x = n > 1 ? bytes[1] : 0;
	int rank = x % job->player.n_ranks;

	switch (bytes[0]) {
	case APPEAR:
		if (!job->is_closed && !(job->appeared >> rank & 1))
			grow_run_appear(&job->player.run, rank);
		job->appeared |= UINT64_C(1) << rank;
		return 1;
	case GROW:
		let_time_pass(job, job->is_closed ? "wait" : "grow", x * 0.01);
		return 1;
	case WAIT:
		let_time_pass(job, "wait", x * 0.1);
		return 1;
	case STORE:
		store(job, statements[x % N_STATEMENTS]);
		return 1;
	case COLLECTOR:
		play_live_line(&job->player, words[x % 3]);
		return 1;
	case END:
		end_job(job);
		return 0;
	default:
		if (!job->app.chooser && !job->player.chooser.jobs.n)
			play_chooser(&job->player, &job->app);
		return 0;
	}
}

static size_t play_job(struct job *job, const uint8_t *bytes, size_t n)
{
	int n_analyses = MAX_ANALYSES; /* it has its own */
	size_t n_taken;

	if (bytes[0] >= APPEAR && bytes[0] <= CHOOSE) {
		n_taken = happen(job, bytes, n);
		lw_app_draw(&job->app);
		return n_taken;
	}
	n_taken = play(&job->app, bytes, n, &n_analyses);
	if (job->app.chooser &&
		job->app.is_over) { /* as `lapwing live` goes on with what was chosen */
		job->app.chooser = NULL;
		job->app.is_over = false;
	}
	return n_taken;
}

static void follow(const uint8_t *bytes, size_t size)
{
	static char run_path[64], whole_path[64];
	static const char *const paths[] = {run_path};
	struct job job = {
		.data = {.paths = paths, .n_paths = 1}, .app.cells.is_ascii = bytes[0] & IS_ASCII};
	struct make_run spec;

	snprintf(run_path, sizeof(run_path), "/dev/shm/lapwing-fuzz-%d-live", getpid());
	snprintf(whole_path, sizeof(whole_path), "/dev/shm/lapwing-fuzz-%d-whole", getpid());
	remove_run(run_path);
	remove_run(whole_path);
	tui_run(live_names[(bytes[0] & 0x3fu) % N_LIVE_RUNS], &spec);
	if (lw_app_init(&job.app, &job.data, "run") < 0 ||
		play_live_begin(&job.player, &job.app, run_path, whole_path, &spec) < 0)
		abort();
	for (size_t i = 1; i < size; i++)
		i += play_job(&job, bytes + i, size - i);
	play_live_settle(&job.player);
	lw_app_done(&job.app);
	lw_data_done(&job.data);
	play_live_end(&job.player);
	remove_run(run_path);
	remove_run(whole_path);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct lw_app app = {0};
	size_t which;

	if (size < 2 || size > MAX_INPUT)
		return 0;
	if (bytes[0] & IS_LIVE) {
		follow(bytes, size);
		return 0;
	}
	which = (bytes[0] & 0x3fu) % N_RUNS;
	if (!data.analysis || shown != which)
		analyse(which);
	app.cells.is_ascii = bytes[0] & IS_ASCII;
	if (lw_app_init(&app, &data, "run") < 0)
		abort();
	play_all(&app, bytes, size);
	lw_app_done(&app);
	return 0;
}
