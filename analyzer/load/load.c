/* SPDX-License-Identifier: Apache-2.0 */
/*
 * load.c - run files into one struct lw_run: which processes are its ranks, what is missing.
 *
 * Reads:  every raw table.   Writes: nothing.
 * Not for: judging; odd input becomes a finding (diag) and the rest is used.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/load/load.h"

struct candidate { /* a process of some store */
	size_t store;
	int64_t process_id, start_ns, end_ns, n_operations, n_kernels, clock;
	int32_t rank, size; /* -1 = not known */
	int framework, transport;
	bool died, has_ended;
	char *host;
};
typedef lw_vec(struct candidate) candidates;

static const char candidates_sql[] =
	"SELECT p.id, p.rank, p.size, p.framework, p.transport, p.start_ns, p.end_ns, p.ended, h.name,"
	" h.boot_id, h.clock, (SELECT count(*) FROM batch b JOIN thread t ON t.id = b.thread_id WHERE"
	" t.process_id = p.id) + (SELECT count(*) FROM collective c JOIN thread t ON t.id = c.thread_id"
	" WHERE t.process_id = p.id) + (SELECT count(*) FROM nccl_op o JOIN thread t ON t.id = o.thread_id"
	" WHERE t.process_id = p.id) + (p.id IN (SELECT process_id FROM thread WHERE id IN"
	" (SELECT thread_id FROM kernel))), (SELECT count(*) FROM kernel k JOIN thread t ON t.id = k.thread_id"
	" WHERE t.process_id = p.id) FROM process p LEFT JOIN host h ON h.id = p.host_id ORDER BY p.id";

int64_t lw_load_clock(const struct lw_store *store, const char *boot_id, const char *clock)
{
	char text[512];
	int n = snprintf(text, sizeof(text), "%s|%s", *boot_id ? boot_id : store->path, clock);

	return (int64_t)(lw_string_id(text,
				 (uint64_t)n < sizeof(text) ? (uint64_t)n : sizeof(text) - 1) >>
			 1);
}

/* -1: not known, or none that a job has. */
static int32_t int_or_unknown(sqlite3_stmt *row, int i)
{
	int64_t n = sqlite3_column_type(row, i) == SQLITE_NULL ? -1 : sqlite3_column_int64(row, i);

	return n < 0 || n > LW_LOAD_RANKS_MAX ? -1 : (int32_t)n;
}

static int read_candidates(struct lw_run *run, size_t store, candidates *all)
{
	sqlite3_stmt *row;
	int status = lw_store_prepare(run->stores.at[store], candidates_sql, &row);

	if (status < 0)
		return status;
	while ((status = lw_store_step(run->stores.at[store], row)) == 1) {
		struct candidate one = {.store = store,
			.process_id = sqlite3_column_int64(row, 0),
			.rank = int_or_unknown(row, 1),
			.size = int_or_unknown(row, 2),
			.framework = sqlite3_column_int(row, 3),
			.transport = sqlite3_column_int(row, 4),
			.start_ns = sqlite3_column_int64(row, 5),
			.end_ns = sqlite3_column_int64(row, 6),
			.has_ended = sqlite3_column_type(row, 6) != SQLITE_NULL,
			.died = !strcmp(lw_store_column_text(row, 7), "died"),
			.n_operations = sqlite3_column_int64(row, 11),
			.n_kernels = sqlite3_column_int64(row, 12),
			.clock = lw_load_clock(run->stores.at[store], lw_store_column_text(row, 9),
				lw_store_column_text(row, 10)),
			.host = strdup(lw_store_column_text(row, 8))};

		if (one.start_ns < 0 || one.start_ns > LW_LOAD_TIME_MAX_NS)
			one.start_ns = 0;
		if (one.end_ns < one.start_ns || one.end_ns > LW_LOAD_TIME_MAX_NS)
			one.has_ended = false;
		if (!*lw_framework_name(one.framework))
			one.framework = LW_FRAMEWORK_NONE;
		if (!*lw_transport_name(one.transport))
			one.transport = LW_TRANSPORT_NONE;
		if (!one.host || lw_vec_push(all, one) < 0) {
			free(one.host);
			status = lw_fail(LW_ERR_NOMEM, "no memory");
			break;
		}
	}
	sqlite3_finalize(row);
	return status;
}

/* By rank; of one rank the one with the most operations first, then the most kernels, then the earlier. */
static int compare_candidate(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;

	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	if (x->n_operations != y->n_operations)
		return x->n_operations > y->n_operations ? -1 : 1;
	if (x->n_kernels != y->n_kernels)
		return x->n_kernels > y->n_kernels ? -1 : 1;
	if (x->store != y->store)
		return x->store < y->store ? -1 : 1;
	return (x->process_id > y->process_id) - (x->process_id < y->process_id);
}

static int add_rank(struct lw_run *run, struct candidate *from)
{
	struct lw_rank rank = {.rank = from->rank,
		.process_id = from->process_id,
		.store = from->store,
		.host = from->host,
		.framework = from->framework,
		.transport = from->transport,
		.start_ns = from->start_ns,
		.end_ns = from->has_ended ? from->end_ns : LW_NS_UNKNOWN,
		.died = from->died,
		.clock = from->clock,
		.used_cores = NAN,
		.waited_cores = NAN,
		.core_wait_frac = NAN};

	for (size_t i = 0; i < sizeof(rank.setting) / sizeof(rank.setting[0]); i++)
		rank.setting[i] = (double)NAN;
	if (lw_vec_push(&run->ranks, rank) < 0)
		return LW_ERR_NOMEM;
	from->host = NULL; /* now the rank's */
	if (from->size > run->size)
		run->size = from->size;
	return LW_OK;
}

static int choose_ranks(struct lw_run *run, candidates *all)
{
	struct candidate *one;
	size_t n_active = 0;
	int status = LW_OK;

	lw_vec_foreach (one, all) {
		n_active += one->n_operations > 0;
		run->is_size_known |= one->size > 0;
	}
	/* A program that no launcher started is rank 0 of 1. */
	lw_vec_foreach (one, all)
		if (one->rank < 0 && one->n_operations && n_active == 1) {
			one->rank = 0;
			one->size = one->size < 0 ? 1 : one->size;
			run->is_size_known |= !run->is_import;
		}
	/* Beside ranks that communicated, one that recorded no operation tells nothing: it is missing. */
	lw_vec_foreach (one, all)
		if (one->rank >= 0 && !one->n_operations && n_active) {
			if (one->size > run->size)
				run->size = one->size;
			if (one->rank >= run->size)
				run->size = one->rank + 1;
			one->rank = LW_NONE;
		}
	if (all->n)
		qsort(all->at, all->n, sizeof(*all->at), compare_candidate);
	lw_vec_foreach (one, all) {
		const struct lw_rank *last = run->ranks.n ? &run->ranks.at[run->ranks.n - 1] : NULL;

		if (one->rank < 0 && one->n_operations)
			status = lw_run_diag(run, "load", "process without a rank", 1,
				"%s: a process with collectives, but nobody said which rank it is",
				run->stores.at[one->store]->path);
		else if (run->is_import && !one->n_operations)
			; /* a rank that the timeline only mentions: rank 0's view stays one rank */
		else if (one->rank >= 0 && (!last || last->rank != one->rank))
			status = add_rank(run, one);
		else if (one->rank >= 0 && one->n_operations) {
			run->n_duplicate_ranks++;
			status = lw_run_diag(run, "load", "duplicate rank", 1,
				"rank %d is in the run more than once: the process with the most operations, then the most kernels, is used",
				one->rank);
		}
		if (status < 0)
			return status;
	}
	return LW_OK;
}

/* ---- is it one job? ------------------------------------------------------------------------------ */

struct extent { /* of what one store holds */
	int32_t size;
	int64_t start_ns, end_ns, clock; /* on the clock of its first rank that has ended */
	bool is_known;
};

static struct extent extent_of(const candidates *all, size_t store)
{
	struct extent extent = {.size = -1};
	const struct candidate *one;

	lw_vec_foreach (one, all) {
		if (one->store != store || !one->n_operations)
			continue;
		extent.size = one->size > extent.size ? one->size : extent.size;
		if (!one->has_ended || (extent.is_known && one->clock != extent.clock))
			continue;
		if (!extent.is_known || one->start_ns < extent.start_ns)
			extent.start_ns = one->start_ns;
		if (!extent.is_known || one->end_ns > extent.end_ns)
			extent.end_ns = one->end_ns;
		extent.clock = one->clock;
		extent.is_known = true;
	}
	return extent;
}

static int not_one_job(const struct lw_run *run, size_t a, size_t b, const char *why)
{
	return lw_fail(LW_ERR_USAGE,
		"%s and %s are not of one job, and only files of one job (its hosts, its ranks) are one run: %s",
		run->stores.at[a]->path, run->stores.at[b]->path, why);
}

/* A run file names no job: what cannot be in one job is told by its ranks, its size and its time. */
static int check_one_job(const struct lw_run *run, candidates *all)
{
	struct extent first = extent_of(all, 0);
	char why[128];

	if (run->stores.n < 2)
		return LW_OK;
	qsort(all->at, all->n, sizeof(*all->at), compare_candidate);
	for (size_t i = 1; i < all->n; i++) {
		const struct candidate *x = &all->at[i - 1], *y = x + 1;

		/* copies of one file hold the same processes: no other job */
		if (x->rank < 0 || x->rank != y->rank || x->store == y->store || !x->n_operations ||
			!y->n_operations || (x->clock == y->clock && x->start_ns == y->start_ns))
			continue;
		snprintf(why, sizeof(why), "rank %d is another process in each", x->rank);
		return not_one_job(run, x->store, y->store, why);
	}
	for (size_t b = 1; b < run->stores.n; b++) {
		struct extent other = extent_of(all, b);

		snprintf(why, sizeof(why), "one is of %d ranks, the other of %d", first.size,
			other.size);
		if (first.size > 0 && other.size > 0 && first.size != other.size)
			return not_one_job(run, 0, b, why);
		if (first.is_known && other.is_known && first.clock == other.clock &&
			(first.end_ns < other.start_ns || other.end_ns < first.start_ns))
			return not_one_job(run, 0, b, "one had ended when the other began");
	}
	return LW_OK;
}

/* ---- what is missing ----------------------------------------------------------------------------- */

static int find_missing(struct lw_run *run)
{
	const struct lw_rank *rank = run->ranks.at;
	char list[128] = "";
	size_t n_text = 0;

	if (run->ranks.n && run->size <= run->ranks.at[run->ranks.n - 1].rank)
		run->size = run->ranks.at[run->ranks.n - 1].rank + 1;
	if ((size_t)run->size <= run->ranks.n)
		return LW_OK;
	run->n_missing_ranks = (uint32_t)((size_t)run->size - run->ranks.n);
	if (run->is_import)
		return lw_run_diag(run, "load", "one rank's view", 1,
			"an imported timeline holds one rank of %d: nothing is known of the others",
			run->size);
	for (int32_t i = 0; i < run->size && n_text < 60; i++) {
		if (rank < run->ranks.at + run->ranks.n && rank->rank == i) {
			rank++;
			continue;
		}
		n_text += (size_t)snprintf(
			list + n_text, sizeof(list) - n_text, "%s%d", n_text ? ", " : "", i);
	}
	return lw_run_diag(run, "load", "missing ranks", run->n_missing_ranks,
		"%u of %d ranks are not in the run, or recorded no operation (rank %s%s): %s",
		run->n_missing_ranks, run->size, list, n_text >= 60 ? ", ..." : "",
		run->is_profile ? "import the traces of all ranks together"
				: "give the run files of all hosts");
}

static int read_meta(struct lw_run *run, struct lw_store *store)
{
	int64_t closed = 0, is_import = 0, is_profile = 0;
	int status = lw_store_int(store, "SELECT closed FROM run", &closed);

	if (status == LW_OK)
		status = lw_store_int(store,
			"SELECT source NOT IN ('trace', 'pcap', 'kineto') FROM run", &is_import);
	if (status == LW_OK)
		status = lw_store_int(store, "SELECT source = 'kineto' FROM run", &is_profile);
	if (status < 0)
		return status;
	run->is_import |= is_import != 0;
	run->is_profile |= is_profile != 0;
	if (closed)
		return LW_OK;
	run->is_closed = false;
	return lw_run_diag(run, "load", "not closed", 1,
		"%s: still being written, or its collector died (`lapwing salvage` finishes it)",
		store->path);
}

static int open_stores(
	struct lw_run *run, const char *const *paths, size_t n_paths, enum lw_store_mode mode)
{
	for (size_t i = 0; i < n_paths; i++) {
		struct lw_store *store;
		int status = lw_store_open(paths[i], mode, &store);

		if (status < 0)
			return status;
		if (lw_vec_push(&run->stores, store) < 0) {
			lw_store_close(store);
			return LW_ERR_NOMEM;
		}
		status = read_meta(run, store);
		if (status < 0)
			return status;
	}
	return LW_OK;
}

static int read_store(struct lw_loader *loader)
{
	static int (*const parts[])(struct lw_loader *) = {lw_load_rows, lw_load_traffic,
		lw_load_nics, lw_load_queues, lw_load_ends, lw_load_gpu, lw_load_findings,
		lw_load_told, lw_load_marks, lw_load_captures, lw_load_samplers};
	int status = LW_OK;

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]) && status == LW_OK; i++)
		status = parts[i](loader);
	if (status == LW_OK)
		status = lw_load_bad_traffic(loader);
	lw_vec_free(&loader->threads);
	return status;
}

/* What is joined across stores. */
static int read_joined(struct lw_run *run)
{
	struct lw_load_names *names;
	int status = lw_load_names_make(run, &names);

	if (status < 0)
		return status;
	status = lw_load_same_nics(run);
	lw_load_peers(run, names);
	if (status == LW_OK)
		status = lw_load_flows(run, names);
	lw_load_names_free(names);
	return status;
}

static int exec_all(struct lw_run *run, const char *sql)
{
	int status = LW_OK;

	for (size_t i = 0; i < run->stores.n && status == LW_OK; i++)
		status = lw_store_exec(run->stores.at[i], sql);
	return status;
}

/* One snapshot for all tables: the files may be growing. */
static int read_stores(struct lw_run *run, lw_load_members *members, struct lw_load_probes *probes)
{
	int status = exec_all(run, "BEGIN");

	for (size_t i = 0; i < run->stores.n && status == LW_OK; i++) {
		struct lw_loader loader = {.run = run,
			.store = run->stores.at[i],
			.store_index = i,
			.members = members,
			.probes = probes};

		status = read_store(&loader);
	}
	if (status == LW_OK)
		status = read_joined(run);
	return status == LW_OK ? exec_all(run, "COMMIT") : status;
}

/* First and last moment of a rank that has rows but whose process row does not say. */
static void find_span(struct lw_rank *rank)
{
	int64_t last_ns = rank->start_ns;

#define SEE(vec, field)                                                                            \
	if ((vec)->n && (vec)->at[(vec)->n - 1].field > last_ns)                                   \
		last_ns = (vec)->at[(vec)->n - 1].field;
	SEE(&rank->batches, end_ns)
	SEE(&rank->collectives, end_ns)
	SEE(&rank->readies, at_ns)
	SEE(&rank->waits, end_ns)
	SEE(&rank->gpu.kernels, end_ns)
#undef SEE
	if (rank->end_ns < last_ns)
		rank->end_ns = last_ns;
}

static int join_rank(struct lw_run *run, struct lw_rank *rank, lw_load_members *members)
{
	int status = lw_load_gpu_join(run, rank);

	if (status == LW_OK && run->is_plain)
		status = lw_load_gpu_collectives(run, rank);
	if (status == LW_OK)
		status = lw_load_join(run, rank, members);
	if (status == LW_OK && run->is_plain)
		status = lw_load_plain(run, rank);
	if (status == LW_OK)
		status = run->is_plain ? lw_load_gpu_plain(rank) : lw_load_gpu_batches(run, rank);
	/* A framework has its training thread wait for every step's gradients: its host runs not ahead of the device. */
	return status == LW_OK && run->is_plain ? lw_load_gpu_marks(run, rank) : status;
}

static int join_ranks(struct lw_run *run, lw_load_members *members)
{
	struct lw_rank *rank;
	bool has_batches = false;
	int status = LW_OK;

	run->first_ns = INT64_MAX;
	lw_vec_foreach (rank, &run->ranks)
		has_batches |= rank->batches.n > 0;
	run->is_plain = !has_batches;
	lw_vec_foreach (rank, &run->ranks) {
		status = join_rank(run, rank, &members[rank - run->ranks.at]);
		if (status < 0)
			return status;
		find_span(rank);
		if (rank->start_ns < run->first_ns)
			run->first_ns = rank->start_ns;
		if (rank->end_ns > run->last_ns)
			run->last_ns = rank->end_ns;
		if (has_batches && !rank->batches.n)
			status = lw_run_diag(run, "load", "rank without batches", 1,
				"rank %d recorded collectives, but no operation of the framework",
				rank->rank);
		if (status < 0)
			return status;
	}
	if (!run->ranks.n)
		run->first_ns = run->last_ns = 0;
	return LW_OK;
}

static int load(
	struct lw_run *run, const char *const *paths, size_t n_paths, enum lw_store_mode mode)
{
	candidates all = {0};
	struct candidate *one;
	lw_load_members *members = NULL;
	struct lw_load_probes *probes = NULL;
	int status = open_stores(run, paths, n_paths, mode);

	for (size_t i = 0; i < run->stores.n && status == LW_OK; i++)
		status = read_candidates(run, i, &all);
	if (status == LW_OK)
		status = check_one_job(run, &all);
	if (status == LW_OK)
		status = choose_ranks(run, &all);
	lw_vec_foreach (one, &all)
		free(one->host);
	lw_vec_free(&all);
	if (status == LW_OK)
		status = find_missing(run);
	if (status < 0)
		return status;
	members = calloc(run->ranks.n + 1, sizeof(*members));
	probes = calloc(run->ranks.n + 1, sizeof(*probes));
	if (!members || !probes)
		status = lw_fail(LW_ERR_NOMEM, "no memory");
	if (status == LW_OK)
		status = read_stores(run, members, probes);
	if (status == LW_OK)
		status = join_ranks(run, members);
	if (status == LW_OK)
		status = lw_load_marks_done(run);
	if (status == LW_OK)
		status = lw_load_unfinished(run);
	if (status == LW_OK)
		status = lw_load_match_probes(run, probes);
	for (size_t i = 0; i < run->ranks.n && members && probes; i++) {
		lw_vec_free(&members[i]);
		lw_vec_free(&probes[i].rows);
	}
	free(members);
	free(probes);
	return status;
}

int lw_run_load(
	const char *const *paths, size_t n_paths, enum lw_store_mode mode, struct lw_run **ret_run)
{
	struct lw_run *run = calloc(1, sizeof(*run));
	int status;

	if (!run)
		return lw_fail(LW_ERR_NOMEM, "no memory");
	run->is_closed = true;
	status = load(run, paths, n_paths, mode);
	if (status < 0) {
		lw_run_free(run);
		return status;
	}
	*ret_run = run;
	return LW_OK;
}
