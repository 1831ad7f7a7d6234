/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/import/import.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyzer/import/inputs.h"
#include "analyzer/import/rows.h"
#include "base/err.h"

enum { HEAD_BYTES = 256 << 10 };

static const struct lw_importer *const importers[] = {
	&lw_horovod_timeline_importer,
	&lw_kineto_importer,
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

/* A tar archive says so in the middle of its first block. */
static bool is_tar(const char *head, size_t n_bytes)
{
	return n_bytes > 262 && !memcmp(head + 257, "ustar", 5);
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

/* By what @input begins with. @head: its room. */
static int recognise(
	const char *input, const char *format, char *head, const struct lw_importer **ret_importer)
{
	size_t n_bytes = 0;
	bool is_gzip = false;
	int status = lw_import_read_head(input, head, HEAD_BYTES, &n_bytes, &is_gzip);

	if (status < 0)
		return status;
	if (format)
		status = find_by_name(format, ret_importer);
	else
		*ret_importer = NULL;
	if (is_tar(head, n_bytes))
		return lw_fail(LW_ERR_FORMAT,
			"a tar archive: unpack it first, and import the files in it, or their folder");
	for (size_t i = 0; i < N_IMPORTERS && !*ret_importer; i++)
		if (importers[i]->sniff(head, n_bytes))
			*ret_importer = importers[i];
	if (!*ret_importer)
		return lw_fail(LW_ERR_FORMAT, "not a trace that can be imported: it is %s%s",
			is_gzip ? "compressed with gzip, and unpacked " : "",
			looks_like(head, n_bytes));
	if (is_gzip && !(*ret_importer)->reads_gzip)
		return lw_fail(LW_ERR_FORMAT, "compressed with gzip: unpack it first");
	return status;
}

/* The one importer of all @inputs: the one called @format, or the first that recognises them. */
static int find_importer(
	const lw_import_inputs *inputs, const char *format, const struct lw_importer **ret_importer)
{
	char *head = malloc(HEAD_BYTES + 1);
	int status = LW_OK;

	if (!head)
		return lw_fail(LW_ERR_NOMEM, "no memory");
	if (format)
		status = find_by_name(format, ret_importer);
	for (size_t i = 0; i < inputs->n && status == LW_OK; i++) {
		const struct lw_importer *importer = NULL;

		status = recognise(inputs->at[i], format, head, &importer);
		if (status == LW_OK && i && importer != *ret_importer)
			status = lw_fail(LW_ERR_USAGE, "a %s, while %s is a %s", importer->name,
				inputs->at[0], (*ret_importer)->name);
		if (status < 0)
			lw_cause(status, "%s", inputs->at[i]);
		*ret_importer = importer;
	}
	free(head);
	if (status == LW_OK && inputs->n > 1 && !(*ret_importer)->reads_several)
		status = lw_fail(LW_ERR_USAGE, "one file at a time (%s)", (*ret_importer)->name);
	return status;
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
		if (status == LW_ERR_FORMAT && !importer->reads_several)
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

static int make_run(
	const struct lw_importer *importer, struct lw_import *import, const char *output)
{
	struct lw_store *store;
	char unfinished[4096];
	int status;

	if (snprintf(unfinished, sizeof(unfinished), "%s.%d.unfinished", output, (int)getpid()) >=
		(int)sizeof(unfinished))
		return lw_fail(LW_ERR_LIMIT, "%.64s...: name too long", output);
	remove_run(unfinished);
	status = lw_store_open(unfinished, LW_STORE_CREATE, &store);
	if (status < 0) {
		remove_run(unfinished);
		return status;
	}
	status = fill(store, importer, import);
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

int lw_import(const char *const *inputs, size_t n_inputs, const char *format, const char *output,
	lw_import_progress_fn on_progress, void *context, struct lw_import_summary *ret_summary)
{
	struct lw_import import = {
		.on_progress = on_progress, .context = context, .summary = ret_summary};
	const struct lw_importer *importer = NULL;
	lw_import_inputs found;
	int status = lw_import_inputs_find(inputs, n_inputs, &found);

	memset(ret_summary, 0, sizeof(*ret_summary));
	if (status == LW_OK && !found.n)
		status = lw_fail(LW_ERR_USAGE, "which file?");
	if (status == LW_OK)
		status = find_importer(&found, format, &importer);
	if (status == LW_OK)
		status = check_output(output);
	if (status == LW_OK) {
		ret_summary->format = importer->name;
		import.inputs = (const char *const *)found.at;
		import.n_inputs = found.n;
		import.input = found.at[0];
		status = make_run(importer, &import, output);
	}
	lw_import_inputs_free(&found);
	return status;
}
