/* SPDX-License-Identifier: Apache-2.0 */
#include "tui/settings.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "tui/view.h"

/* Return: there is a place. The specification wants an absolute path, and others ignored. */
static bool folder(char path[PATH_MAX])
{
	const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
	int n;

	if (config && config[0] == '/')
		n = snprintf(path, PATH_MAX, "%s/lapwing", config);
	else if (home && home[0] == '/')
		n = snprintf(path, PATH_MAX, "%s/.config/lapwing", home);
	else
		return false;
	return n > 0 && n < PATH_MAX - 16;
}

void lw_settings_read(struct lw_settings *ret_settings)
{
	char path[PATH_MAX], line[256];
	FILE *in;

	*ret_settings = (struct lw_settings){.view = -1};
	if (!folder(path))
		return;
	strcat(path, "/tui");
	in = fopen(path, "re");
	while (in && fgets(line, sizeof(line), in)) {
		char *value = strchr(line, '=');

		if (!value)
			continue;
		*value++ = 0;
		value[strcspn(value, "\n")] = 0;
		if (!strcmp(line, "view"))
			ret_settings->view = lw_view_find(value);
		else if (!strcmp(line, "nic"))
			ret_settings->is_nic_hidden = !strcmp(value, "hidden");
	}
	if (in)
		fclose(in);
}

/* With the folders above it, as the specification asks: only for the user. */
static void make_folders(char *path)
{
	for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = 0;
		mkdir(path, 0700);
		*slash = '/';
	}
	mkdir(path, 0700);
}

int lw_settings_write(const struct lw_settings *settings)
{
	char path[PATH_MAX], next[PATH_MAX];
	bool is_written;
	FILE *out;

	if (settings->view < 0)
		return LW_OK;
	if (!folder(path))
		return lw_fail(LW_ERR_IO, "neither XDG_CONFIG_HOME nor HOME names a folder");
	make_folders(path);
	strcat(path, "/tui");
	snprintf(next, sizeof(next), "%.*s.new", PATH_MAX - 8, path);
	out = fopen(next, "we");
	if (!out)
		return lw_fail(LW_ERR_IO, "%s: %s", next, strerror(errno));
	fprintf(out, "view=%s\n%s", lw_views[settings->view]->name,
		settings->is_nic_hidden ? "nic=hidden\n" : "");
	is_written = fclose(out) == 0 && rename(next, path) == 0;
	if (is_written)
		return LW_OK;
	lw_fail(LW_ERR_IO, "%s: %s", path, strerror(errno));
	unlink(next);
	return LW_ERR_IO;
}
