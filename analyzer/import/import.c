/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/import/import.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyzer/import/rows.h"
#include "base/err.h"

enum { HEAD_BYTES = 256 << 10 };

static const struct lw_importer *const importers[] = {
	&lw_horovod_timeline_importer,
	&lw_pcap_importer,
};
enum { N_IMPORTERS = sizeof(importers) / sizeof(importers[0]) };

const struct lw_importer *const *lw_importers(size_t *ret_n)
{
	*ret_n = N_IMPORTERS;
	return importers;
}

/* What the beginning of a file that no importer knows looks like. */
static const char *looks_like(const char *head, size_t n_bytes)
{
	static const struct {
		const char *magic, *what;
	} known[] = {
		{"SQLite format 3", "a lapwing run or another SQLite file"},
		{"\x1f\x8b", "compressed with gzip: unpack it first"},
		{"\x28\xb5\x2f\xfd", "compressed with zstd: unpack it first"},
		{"PK\x03\x04", "a zip archive: unpack it first"},
		{"\x7f"
		 "ELF",
			"a program"},
	};
	size_t i;

	for (i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (n_bytes >= strlen(known[i].magic) &&
			!memcmp(head, known[i].magic, strlen(known[i].magic)))
			return known[i].what;
	for (i = 0; i < n_bytes && isspace((unsigned char)head[i]); i++)
		;
	if (i == n_bytes)
		return "an empty file";
	if (head[i] == '[' && i + 1 + strspn(head + i + 1, " \t\r\n]") >= n_bytes)
		return "an empty JSON array: the job wrote no event (a job of one rank does that)";
	if (head[i] == '[' || head[i] == '{')
		return "JSON, but of another program";
	return memchr(head, '\0', n_bytes) ? "binary data" : "text, not JSON";
}

static int read_head(const char *input, char *head, size_t *ret_n_bytes)
{
	int fd = open(input, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO must not block us */
	struct stat st;
	ssize_t n = -1;
	int status = LW_OK;

	if (fd < 0 || fstat(fd, &st) < 0)
		status = lw_fail(LW_ERR_IO, "%s", strerror(errno));
	else if (!S_ISREG(st.st_mode))
		status = lw_fail(LW_ERR_IO, "not a regular file");
	else if ((n = read(fd, head, HEAD_BYTES)) < 0)
		status = lw_fail(LW_ERR_IO, "%s", strerror(errno));
	if (fd >= 0)
		close(fd);
	if (status < 0)
		return status;
	head[n] = '\0';
	*ret_n_bytes = (size_t)n;
	return LW_OK;
}

static int find_by_name(const char *format, const struct lw_importer **ret_importer)
{
	for (size_t i = 0; i < N_IMPORTERS; i++)
		if (!strcmp(importers[i]->name, format)) {
			*ret_importer = importers[i];
			return LW_OK;
		}
	return lw_fail(
		LW_ERR_USAGE, "no importer is called '%s' (see `lapwing import --help`)", format);
}

/* Which importer reads @input: the one called @format, or the first that recognises it. */
static int find_importer(
	const char *input, const char *format, const struct lw_importer **ret_importer)
{
	size_t n_bytes = 0;
	char *head;
	int status;

	if (format) {
		status = find_by_name(format, ret_importer);
		if (status < 0)
			return status;
	}
	head = malloc(HEAD_BYTES + 1);
	if (!head)
		return lw_fail(LW_ERR_NOMEM, "no memory");
	status = read_head(input, head, &n_bytes);
	if (status == LW_OK && !format) {
		*ret_importer = NULL;
		for (size_t i = 0; i < N_IMPORTERS && !*ret_importer; i++)
			if (importers[i]->sniff(head, n_bytes))
				*ret_importer = importers[i];
		if (!*ret_importer)
			status =
				lw_fail(LW_ERR_FORMAT, "not a trace that can be imported: it is %s",
					looks_like(head, n_bytes));
	}
	free(head);
	return status < 0 ? lw_cause(status, "%s", input) : LW_OK;
}

/* @output may be made: its folder is there. It may be replaced when it is missing, empty, or a run of ours. */
static int check_output(const char *output)
{
	const char *slash = strrchr(output, '/');
	struct lw_store *store;
	struct stat st;
	int status;

	if (slash && slash != output) {
		char folder[4096];

		snprintf(folder, sizeof(folder), "%.*s", (int)(slash - output), output);
		if (access(folder, W_OK) < 0)
			return lw_fail(
				LW_ERR_IO, "%s: folder %s: %s", output, folder, strerror(errno));
	}
	if (stat(output, &st) < 0)
		return errno == ENOENT ? LW_OK
				       : lw_fail(LW_ERR_IO, "%s: %s", output, strerror(errno));
	if (S_ISREG(st.st_mode) && st.st_size == 0)
		return LW_OK;
	status = S_ISREG(st.st_mode) ? lw_store_open(output, LW_STORE_READ, &store) : LW_ERR_FORMAT;
	if (status == LW_OK)
		lw_store_close(store);
	if (status < 0 && status != LW_ERR_UNSUPPORTED)
		return lw_fail(
			LW_ERR_FORMAT, "%s: exists and is not a lapwing run: not replaced", output);
	return LW_OK;
}

/* What SQLite keeps beside a file; a leftover must not meet a new file of the same name. */
static void remove_side_files(const char *path)
{
	static const char *const ends[] = {"-wal", "-shm", "-journal"};

	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		char name[4200];

		snprintf(name, sizeof(name), "%s%s", path, ends[i]);
		unlink(name);
	}
}

static void remove_run(const char *path)
{
	unlink(path);
	remove_side_files(path);
}

/* All rows, from the first to "closed". The file is new and nobody else's: no journal is needed. */
static int fill(
	struct lw_store *store, const struct lw_importer *importer, struct lw_import *import)
{
	struct lw_import_rows rows;
	char *run;
	int status = lw_store_exec(store, "PRAGMA journal_mode = DELETE; PRAGMA journal_mode = OFF;"
					  "PRAGMA synchronous = OFF; BEGIN");

	if (status == LW_OK)
		status = lw_rows_open(&rows, store);
	if (status < 0)
		return status;
	import->rows = &rows;
	run = sqlite3_mprintf(
		"INSERT INTO run(id, created_by, source, command, created_realtime_ns, closed)"
		" VALUES(1, 'lapwing %s', %Q, '', 0, 0)",
		LAPWING_VERSION, importer->name);
	status = run ? lw_store_exec(store, run) : lw_fail(LW_ERR_NOMEM, "no memory");
	sqlite3_free(run);
	if (status == LW_OK) {
		status = importer->import(import);
		if (status == LW_ERR_FORMAT)
			lw_cause(status, "%s", import->input);
	}
	lw_rows_close(&rows);
	if (status == LW_OK)
		status = lw_store_exec(store, "COMMIT");
	if (status == LW_OK)
		status = lw_store_build_indexes(store);
	if (status == LW_OK) /* on the disk before it gets its name */
		status = lw_store_exec(
			store, "PRAGMA synchronous = FULL; UPDATE run SET closed = 1");
	return status;
}

int lw_import(const char *input, const char *format, const char *output,
	lw_import_progress_fn on_progress, void *context, struct lw_import_summary *ret_summary)
{
	struct lw_import import = {input, NULL, on_progress, context, ret_summary};
	const struct lw_importer *importer = NULL;
	struct lw_store *store;
	char unfinished[4096];
	int status;

	memset(ret_summary, 0, sizeof(*ret_summary));
	status = find_importer(input, format, &importer);
	if (status == LW_OK)
		status = check_output(output);
	if (status < 0)
		return status;
	ret_summary->format = importer->name;
	if (snprintf(unfinished, sizeof(unfinished), "%s.%d.unfinished", output, (int)getpid()) >=
		(int)sizeof(unfinished))
		return lw_fail(LW_ERR_LIMIT, "%.64s...: name too long", output);
	remove_run(unfinished);
	status = lw_store_open(unfinished, LW_STORE_CREATE, &store);
	if (status < 0) {
		remove_run(unfinished);
		return status;
	}
	status = fill(store, importer, &import);
	lw_store_close(store);
	if (status == LW_OK) {
		remove_side_files(output);
		if (rename(unfinished, output) < 0)
			status = lw_fail(LW_ERR_IO, "%s: %s", output, strerror(errno));
	}
	if (status < 0)
		remove_run(unfinished);
	return status;
}
