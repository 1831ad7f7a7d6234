/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_tui.c - keys, clicks and sizes in any order on the screens of three runs.
 *
 * The first byte picks the run. Then a byte is a key; 0xf0 .. 0xff take the next bytes for what a character
 * cannot say: special keys, clicks, new sizes, time that passes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/err.h"
#include "tests/tui/runs.h"
#include "tui/app.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const names[] = {"slow_rank", "empty", "many_ranks"};
enum { N_RUNS = sizeof(names) / sizeof(names[0]), MAX_INPUT = 512 };

/* Analysed once: an input is about keys. */
static struct lw_data *run_of(size_t which)
{
	static struct lw_data runs[N_RUNS];
	static char files[N_RUNS][64];
	static const char *paths[N_RUNS];
	struct make_run spec;

	if (runs[which].analysis)
		return &runs[which];
	snprintf(files[which], sizeof(files[which]), "/tmp/lapwing-fuzz-%d-%zu", getpid(), which);
	tui_run(names[which], &spec);
	unlink(files[which]);
	make_run_write(files[which], &spec);
	paths[which] = files[which];
	runs[which] = (struct lw_data){.paths = &paths[which], .n_paths = 1};
	if (lw_data_load(&runs[which]) < 0)
		abort();
	unlink(files[which]);
	return &runs[which];
}

static bool is_writing(const struct lw_app *app, uint32_t key)
{
	/* what writes files is tested elsewhere */
	return lw_key_request(key) == LW_REQUEST_EXPORT ||
	       lw_key_request(key) == LW_REQUEST_SNAPSHOT ||
	       (app->mode == LW_APP_COMMAND && key == LW_KEY_ENTER);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct lw_app app = {0};

	if (size < 2 || size > MAX_INPUT)
		return 0;
	app.cells.is_ascii = data[0] & 0x80;
	if (lw_app_init(&app, run_of(data[0] % N_RUNS), "run") < 0)
		abort();
	for (size_t i = 1; i < size; i++) {
		uint8_t byte = data[i], x = i + 1 < size ? data[i + 1] : 0,
			y = i + 2 < size ? data[i + 2] : 0;
		uint32_t key = byte;

		if (byte == 0xff) {
			if (lw_app_resize(&app, x, y) < 0)
				abort();
			i += 2;
			continue;
		}
		if (byte == 0xfe) {
			lw_app_tick(&app);
			continue;
		}
		if (byte == 0xfd) {
			lw_app_key(&app, LW_KEY_CLICK, x, y);
			i += 2;
			continue;
		}
		if (byte >= 0xf0)
			key = LW_KEY_FIRST + (byte & 0x0f);
		if (!is_writing(&app, key) && key < LW_KEY_LAST)
			lw_app_key(&app, key, 0, 0);
		lw_app_draw(&app);
	}
	lw_app_draw(&app);
	lw_app_done(&app);
	return 0;
}
