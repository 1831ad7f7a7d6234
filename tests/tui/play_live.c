/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/tui/play_live.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/units.h"

#define LOOK_NS (200 * LW_NS_PER_MS)

static int64_t now_of(void *context)
{
	return ((struct live_player *)context)->now_ns;
}

static enum lw_live_collector ask(void *context)
{
	return ((struct live_player *)context)->collector;
}

void play_live_settle(struct live_player *p)
{
	lw_app_draw_all(p->app);
	while (p->app->data->loader || (p->live && p->live->snapshot)) {
		usleep(1000);
		lw_app_draw_all(p->app);
	}
	lw_app_draw_all(p->app);
}

int play_live_begin(struct live_player *p, struct lw_app *app, const char *path, const char *whole,
	const struct make_run *spec)
{
	const struct lw_live_options options = {.path = p->run.path,
		.dir = "/dev/shm/lapwing-0-abcdef",
		.log = "run.lapwing.log",
		.ask = ask,
		.clock_ns = now_of,
		.context = p};
	int status;

	snprintf(p->whole_path, sizeof(p->whole_path), "%s", whole);
	grow_run_begin(&p->run, path, whole, spec);
	p->app = app;
	p->n_ranks = spec->n_ranks;
	p->now_ns = LW_NS_PER_S / 2;
	p->collector = LW_LIVE_AT_WORK;
	p->is_open = true;
	status = lw_live_open(&options, &p->live);
	app->live = p->live;
	return status;
}

void play_live_end(struct live_player *p)
{
	if (p->is_open) {
		lw_live_close(p->live);
		grow_run_end(&p->run);
		unlink(p->whole_path);
	}
	lw_vec_free(&p->chooser.jobs);
	*p = (struct live_player){0};
}

static void go_to(struct live_player *p, double to_s, bool has_rows)
{
	int64_t to_ns = (int64_t)(to_s * (double)LW_NS_PER_S);

	while (p->now_ns < to_ns) {
		p->now_ns += p->now_ns + LOOK_NS < to_ns ? LOOK_NS : to_ns - p->now_ns;
		if (has_rows)
			grow_run_to(&p->run, p->now_ns);
		play_live_settle(p);
	}
}

bool play_live_line(struct live_player *p, const char *line)
{
	double to_s;
	int n = p->n_ranks;

	if (sscanf(line, "appear %d", &n) == 1 || !strcmp(line, "appear"))
		for (int r = 0; r < n; r++)
			grow_run_appear(&p->run, r);
	else if (sscanf(line, "grow %lf", &to_s) == 1)
		go_to(p, to_s, true);
	else if (sscanf(line, "wait %lf", &to_s) == 1)
		go_to(p, to_s, false);
	else if (!strncmp(line, "sql ", 4))
		grow_run_execute(&p->run, "%s", line + 4);
	else if (!strcmp(line, "close"))
		grow_run_execute(&p->run, "UPDATE run SET closed = 1, exit_code = 0");
	else if (!strcmp(line, "collector works"))
		p->collector = LW_LIVE_AT_WORK;
	else if (!strcmp(line, "collector left"))
		p->collector = LW_LIVE_LEFT;
	else if (!strcmp(line, "collector gone"))
		p->collector = LW_LIVE_GONE;
	else
		return false;
	return true;
}

void play_chooser(struct live_player *p, struct lw_app *app)
{
	static const struct lw_job jobs[] = {
		{.dir = "a",
			.path = "/home/ada/resnet/run.lapwing",
			.pid = 4711,
			.n_ranks = 4,
			.size = 4,
			.command = "horovodrun -np 4 python3 train.py --model resnet50",
			.started_ns = 1000 * LW_NS_PER_S},
		{.dir = "b",
			.path = "/home/ada/bert/run.lapwing",
			.pid = 5003,
			.n_ranks = 2,
			.size = 16,
			.command =
				"mpirun -np 16 python3 /home/ada/bert/pretrain.py --batch 32 --epochs 40 --half",
			.started_ns = 8777 * LW_NS_PER_S},
		{.dir = "c", .path = "/tmp/just-beginning.lapwing"},
		{.dir = "d",
			.path = "/tmp/over.lapwing",
			.pid = 3999,
			.n_ranks = 2,
			.size = 2,
			.command = "python3 small.py",
			.started_ns = 500 * LW_NS_PER_S,
			.has_ended = true},
		{.dir = "e",
			.path = "/home/ada/vit/run-0.lapwing",
			.pid = 6001,
			.n_ranks = 1,
			.size = 2,
			.command = "python3 vit.py",
			.started_ns = 8700 * LW_NS_PER_S},
		{.dir = "f",
			.path = "/home/ada/vit/run-1.lapwing",
			.pid = 6002,
			.n_ranks = 1,
			.size = 2,
			.rank = 1,
			.command = "python3 vit.py",
			.started_ns = 8701 * LW_NS_PER_S},
	};
	lw_job_list list = {0};

	p->chooser = (struct lw_chooser){.chosen = -1, .now_ns = 8800 * LW_NS_PER_S};
	for (size_t i = 0; i < sizeof(jobs) / sizeof(jobs[0]); i++)
		if (lw_vec_push(&list, jobs[i]) < 0)
			return;
	if (lw_chooser_take(&p->chooser, &list) < 0)
		return;
	lw_vec_free(&list);
	app->chooser = &p->chooser;
}
