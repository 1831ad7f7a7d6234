/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kineto.c - the importer of what torch.profiler wrote: export_chrome_trace(), tensorboard_trace_handler(), on_demand.
 *
 * One file a rank. Each is read twice: first for its rank, its times, its operations of NCCL (kineto_scan.c), then for its
 * rows (kineto_rows.c). A file names no host, and nothing says how well the clocks of two of them agree: every rank gets a
 * clock of its own. Where all know the time of day, all count from one origin, so that they can be drawn side by side.
 */
#include <assert.h>
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "analyzer/import/kineto.h"
#include "base/err.h"
#include "base/units.h"
#include "schema/event.h"

/* Times before 2001 are no time of day: they count from the start of a host, or of the trace. */
static const int64_t first_day_ns = INT64_C(1000000000) * LW_NS_PER_S;
/* Files of one job begin within this of each other. */
static const int64_t max_spread_ns = INT64_C(24) * 3600 * LW_NS_PER_S;

struct kineto_import {
	struct lw_import *import;
	struct lw_kineto_file *files; /* by rank, once that is known */
	size_t n_files, n_done;       /* readings that are over, of 2 n_files */
	bool is_one_day;              /* all know the time of day */
};

static bool sniff(const char *head, size_t n_bytes)
{
	static const char *const signs[] = {"\"deviceProperties\"", "\"distributedInfo\"",
		"\"cpu_op\"", "\"cuda_runtime\"", "\"gpu_memcpy\"", "\"hip_runtime\"",
		"\"Operator\"", "ProfilerStep#", "\"External id\"", "\"external id\"",
		"PyTorch Profiler"};
	size_t start = strspn(head, " \t\r\n");

	if (head[start] != '[' && head[start] != '{')
		return false;
	for (size_t i = 0; i < sizeof(signs) / sizeof(signs[0]); i++)
		if (memmem(head, n_bytes, signs[i], strlen(signs[i])))
			return true;
	return false;
}

/* ---- which rank ------------------------------------------------------------------------------------ */

/* "…/worker3_step_12.pt.trace.json", "rank-3.json.gz": the number behind the word; -1 = none. */
static int64_t rank_in_name(const char *path)
{
	static const char *const words[] = {"rank", "worker"};
	const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		for (const char *at = strcasestr(name, words[i]); at;
			at = strcasestr(at + 1, words[i])) {
			const char *digits = at + strlen(words[i]);

			digits += strspn(digits, "-_. =");
			if (isdigit((unsigned char)*digits) && strspn(digits, "0123456789") < 8)
				return atoll(digits);
		}
	return -1;
}

static int compare_file(const void *a, const void *b)
{
	const struct lw_kineto_file *x = a, *y = b;

	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	return strcmp(x->path, y->path);
}

static int number_ranks(struct kineto_import *k)
{
	int64_t size = -1;

	for (size_t i = 0; i < k->n_files; i++) {
		struct lw_kineto_file *file = &k->files[i];

		if (file->rank < 0)
			file->rank = rank_in_name(file->path);
		if (file->rank < 0 && k->n_files == 1)
			file->rank = 0;
		if (file->rank < 0 || file->rank > INT32_MAX || file->world_size > INT32_MAX)
			return lw_fail(LW_ERR_FORMAT,
				"%s: which rank? It does not say (distributedInfo), nor does its name: call it rank3.json or such",
				file->path);
		if (file->world_size > 0 && file->rank >= file->world_size)
			return lw_fail(LW_ERR_FORMAT, "%s: rank %" PRId64 " of %" PRId64,
				file->path, file->rank, file->world_size);
		if (size > 0 && file->world_size > 0 && size != file->world_size)
			return lw_fail(LW_ERR_FORMAT,
				"%s and %s are not of one job: one is of %" PRId64
				" ranks, the other of %" PRId64,
				k->files[0].path, file->path, size, file->world_size);
		size = file->world_size > 0 ? file->world_size : size;
	}
	qsort(k->files, k->n_files, sizeof(*k->files), compare_file);
	for (size_t i = 1; i < k->n_files; i++)
		if (k->files[i].rank == k->files[i - 1].rank)
			return lw_fail(LW_ERR_FORMAT, "%s and %s are both of rank %" PRId64,
				k->files[i - 1].path, k->files[i].path, k->files[i].rank);
	for (size_t i = 0; i < k->n_files;
		i++) /* one that does not say has the size of those that do */
		k->files[i].world_size = size;
	return LW_OK;
}

/* ---- times ----------------------------------------------------------------------------------------- */

static int place_times(struct kineto_import *k)
{
	int64_t first_ns = INT64_MAX, last_first_ns = INT64_MIN;

	k->is_one_day = true;
	for (size_t i = 0; i < k->n_files; i++) {
		struct lw_kineto_file *file = &k->files[i];
		int64_t start_ns, end_ns;

		if (__builtin_add_overflow(file->base_ns, file->first_ns, &start_ns) ||
			__builtin_add_overflow(file->base_ns, file->last_ns, &end_ns))
			return lw_fail(LW_ERR_FORMAT, "%s: times beyond 64 bits", file->path);
		file->origin_ns = start_ns;
		k->is_one_day &= start_ns >= first_day_ns;
		first_ns = start_ns < first_ns ? start_ns : first_ns;
		last_first_ns = start_ns > last_first_ns ? start_ns : last_first_ns;
	}
	k->is_one_day = k->is_one_day && last_first_ns - first_ns < max_spread_ns;
	for (size_t i = 0; i < k->n_files && k->is_one_day; i++) {
		const struct lw_kineto_file *file = &k->files[i];

		if (file->base_ns + file->last_ns < last_first_ns - max_spread_ns)
			return lw_fail(LW_ERR_FORMAT, "%s: not of the same job", file->path);
		k->files[i].origin_ns = first_ns;
	}
	return LW_OK;
}

/* ---- the whole ------------------------------------------------------------------------------------- */

static int on_progress(void *context, double done_frac)
{
	const struct kineto_import *k = context;

	if (!k->import->on_progress)
		return LW_OK;
	return k->import->on_progress(
		k->import->context, ((double)k->n_done + done_frac) / (2 * (double)k->n_files));
}

static int scan_files(struct kineto_import *k)
{
	for (size_t i = 0; i < k->n_files; i++, k->n_done++) {
		int status;

		k->files[i].path = k->import->inputs[i];
		status = lw_kineto_scan(&k->files[i], on_progress, k);
		if (status == LW_ERR_FORMAT || status == LW_ERR_IO)
			lw_cause(status, "%s", k->files[i].path);
		if (status < 0)
			return status;
	}
	return LW_OK;
}

static int write_host(struct kineto_import *k, const struct lw_kineto_file *file, int64_t id)
{
	struct lw_import_rows *rows = k->import->rows;
	char clock[64];
	int status;

	snprintf(clock, sizeof(clock), "profiler of rank %" PRId64, file->rank);
	status = lw_rows_host(rows, id, "unknown", clock);
	if (status == LW_OK && file->origin_ns >= first_day_ns)
		status = lw_row(rows, LW_ROW_CLOCK_SAMPLE, id, 0, file->origin_ns);
	return status;
}

static int write_files(struct kineto_import *k)
{
	int64_t next_thread_id = (int64_t)k->n_files + 1;
	struct lw_kineto_text *texts = NULL, *text, *next;
	int status = LW_OK;

	for (size_t i = 0; i < k->n_files && status == LW_OK; i++, k->n_done++) {
		struct lw_kineto_writer writer = {.import = k->import,
			.file = &k->files[i],
			.process_id = (int64_t)i + 1,
			.next_thread_id = &next_thread_id,
			.texts = &texts,
			.on_progress = on_progress,
			.context = k};

		status = write_host(k, &k->files[i], writer.process_id);
		if (status == LW_OK)
			status = lw_kineto_write(&writer);
	}
	HASH_ITER(hh, texts, text, next)
	{
		HASH_DEL(texts, text);
		free(text->text);
		free(text);
	}
	return status;
}

static void summarize(struct kineto_import *k)
{
	struct lw_import_summary *summary = k->import->summary;
	int64_t first_ns = INT64_MAX, last_ns = INT64_MIN, start_ns, end_ns;

	summary->n_ranks = k->n_files;
	if (k->files[0].world_size > 0)
		summary->n_job_ranks = (uint64_t)k->files[0].world_size;
	for (size_t i = 0; i < k->n_files; i++) {
		const struct lw_kineto_file *file = &k->files[i];

		summary->n_records += file->json.n_records;
		summary->n_bad += file->json.n_bad + file->json.is_truncated + file->n_bad;
		summary->is_truncated |= file->json.is_truncated;
		if (file->json.problem[0] && !summary->problem[0])
			snprintf(summary->problem, sizeof(summary->problem), "%.96s: %.150s",
				file->path, file->json.problem);
		else if (file->n_bad && !summary->problem[0])
			snprintf(summary->problem, sizeof(summary->problem),
				"%.96s: an interval without its times, or far from all others",
				file->path);
		start_ns = file->base_ns + file->first_ns - file->origin_ns;
		end_ns = file->base_ns + file->last_ns - file->origin_ns;
		first_ns = start_ns < first_ns ? start_ns : first_ns;
		last_ns = end_ns > last_ns ? end_ns : last_ns;
	}
	summary->duration_ns = last_ns - first_ns;
}

/* When the job ran: by its own times, else by the file's. */
static int set_created(struct kineto_import *k)
{
	int64_t realtime_ns = k->is_one_day ? k->files[0].origin_ns : 0;
	struct stat st;
	char sql[96];

	if (!k->is_one_day && stat(k->files[0].path, &st) == 0)
		realtime_ns = (int64_t)st.st_mtim.tv_sec * LW_NS_PER_S;
	snprintf(sql, sizeof(sql), "UPDATE run SET created_realtime_ns = %" PRId64, realtime_ns);
	return lw_store_exec(k->import->rows->store, sql);
}

/* As analyzer/load/gpu_missing.c has it. */
static int count_missing(struct lw_import *import)
{
	int64_t n = 0;
	int status = lw_store_int(import->rows->store,
		"WITH k AS (SELECT DISTINCT t.process_id AS p, k.correlation AS c FROM kernel k"
		" JOIN thread t ON t.id = k.thread_id),"
		" l AS (SELECT t.process_id AS p, l.correlation AS c, l.name_id AS name FROM launch l"
		" JOIN thread t ON t.id = l.thread_id WHERE l.op = 1 AND l.result = 0 AND l.correlation),"
		" n AS (SELECT count(*) - count(k.c) AS n_lacking, count(k.c) AS n_with FROM l"
		" LEFT JOIN k ON k.p = l.p AND k.c = l.c GROUP BY l.p, l.name)"
		" SELECT coalesce(sum(n_lacking), 0) FROM n WHERE n_with",
		&n);

	import->summary->n_without_kernel = (uint64_t)n;
	return status;
}
static_assert(LW_LAUNCH_KERNEL == 1, "the query of launches");

static int import(struct lw_import *import)
{
	struct kineto_import k = {.import = import, .n_files = import->n_inputs};
	int status;

	if (k.n_files > LW_KINETO_MAX_FILES)
		return lw_fail(LW_ERR_LIMIT, "more than %d files", LW_KINETO_MAX_FILES);
	k.files = calloc(k.n_files, sizeof(*k.files));
	if (!k.files)
		return lw_fail(LW_ERR_NOMEM, "no memory");
	status = scan_files(&k);
	if (status == LW_OK)
		status = number_ranks(&k);
	if (status == LW_OK)
		status = place_times(&k);
	if (status == LW_OK)
		status = write_files(&k);
	if (status == LW_OK) {
		summarize(&k);
		status = set_created(&k);
	}
	if (status == LW_OK)
		status = count_missing(import);
	for (size_t i = 0; i < k.n_files; i++)
		lw_kineto_file_done(&k.files[i]);
	free(k.files);
	return status;
}

const struct lw_importer lw_kineto_importer = {
	.name = "kineto",
	.reads = "what torch.profiler wrote (.json, .json.gz), one file a rank, or their folder",
	.sniff = sniff,
	.reads_gzip = true,
	.reads_several = true,
	.import = import,
};
