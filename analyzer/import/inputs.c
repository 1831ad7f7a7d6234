/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/import/inputs.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "analyzer/import/byte_source.h"
#include "base/err.h"

enum { MAX_INPUTS = 1 << 16 };

/* Takes @path. */
static int add(lw_import_inputs *inputs, char *path)
{
	if (!path)
		return lw_fail(LW_ERR_NOMEM, "no memory");
	if (inputs->n == MAX_INPUTS) {
		free(path);
		return lw_fail(LW_ERR_LIMIT, "more than %d files", MAX_INPUTS);
	}
	if (lw_vec_push(inputs, path) < 0) {
		free(path);
		return LW_ERR_NOMEM;
	}
	return LW_OK;
}

static bool is_trace(const char *name)
{
	static const char *const ends[] = {".json", ".json.gz"};
	size_t n = strlen(name);

	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		if (n > strlen(ends[i]) && !strcmp(name + n - strlen(ends[i]), ends[i]))
			return *name != '.';
	return false;
}

static int add_folder(lw_import_inputs *inputs, const char *path)
{
	struct dirent **entries;
	size_t n_before = inputs->n;
	int n = scandir(path, &entries, NULL, alphasort), status = LW_OK;

	if (n < 0)
		return lw_fail(LW_ERR_IO, "%s: %s", path, strerror(errno));
	for (int i = 0; i < n; i++) {
		char *name = NULL;

		if (status == LW_OK && is_trace(entries[i]->d_name))
			status = asprintf(&name, "%s/%s", path, entries[i]->d_name) < 0
					 ? lw_fail(LW_ERR_NOMEM, "no memory")
					 : add(inputs, name);
		free(entries[i]);
	}
	free(entries);
	if (status == LW_OK && inputs->n == n_before)
		status = lw_fail(LW_ERR_FORMAT, "%s: no .json or .json.gz in this folder", path);
	return status;
}

int lw_import_inputs_find(const char *const *paths, size_t n_paths, lw_import_inputs *ret_inputs)
{
	int status = LW_OK;

	*ret_inputs = (lw_import_inputs){0};
	for (size_t i = 0; i < n_paths && status == LW_OK; i++) {
		struct stat st;

		if (stat(paths[i], &st) == 0 && S_ISDIR(st.st_mode))
			status = add_folder(ret_inputs, paths[i]);
		else
			status = add(ret_inputs, strdup(paths[i]));
	}
	return status;
}

void lw_import_inputs_free(lw_import_inputs *inputs)
{
	for (size_t i = 0; i < inputs->n; i++)
		free(inputs->at[i]);
	lw_vec_free(inputs);
}

int lw_import_read_head(
	const char *path, char *head, size_t n_room, size_t *ret_n_bytes, bool *ret_is_gzip)
{
	struct lw_byte_source *source;
	size_t n_bytes = 0;
	ssize_t n;
	int status = lw_byte_source_open(path, &source);

	if (status < 0)
		return status;
	while (n_bytes < n_room &&
		(n = lw_byte_source_read(source, head + n_bytes, n_room - n_bytes, n_bytes)) != 0) {
		if (n < 0) {
			status = (int)n;
			break;
		}
		n_bytes += (size_t)n;
	}
	*ret_is_gzip = lw_byte_source_is_gzip(source);
	lw_byte_source_close(source);
	head[n_bytes] = '\0';
	*ret_n_bytes = n_bytes;
	return status;
}
