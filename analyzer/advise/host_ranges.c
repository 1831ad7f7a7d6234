/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/advise/host_ranges.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"

/* Those of NCCL and Horovod are the operations themselves, those of streams repeat their threads', and all of a step is in the
 * profiler's mark of it. */
#define OWN_RANGES                                                                                 \
	" FROM range r JOIN thread t ON t.id = r.thread_id JOIN string s ON s.id = r.name_id"      \
	" WHERE t.process_id = ?1 AND r.op IN (3, 4) AND r.end_ns > r.start_ns"                    \
	" AND s.text NOT GLOB 'NCCL/*' AND s.text NOT GLOB 'HorovodOps/*'"                         \
	" AND s.text NOT GLOB 'ProfilerStep#*' AND t.tid > 0"
static_assert(LW_MARK_RANGE == 3 && LW_MARK_NVTX_RANGE == 4, "the queries of ranges");

static const char ranges_sql[] = "SELECT r.start_ns, r.end_ns, t.tid, r.name_id" OWN_RANGES
				 " ORDER BY r.start_ns, r.end_ns DESC, r.seq";
static const char names_sql[] = "SELECT DISTINCT s.id, s.text" OWN_RANGES " ORDER BY s.id";

static int add_range(struct lw_host_ranges *ranges, sqlite3_stmt *row)
{
	struct lw_host_range range = {.start_ns = sqlite3_column_int64(row, 0),
		.end_ns = sqlite3_column_int64(row, 1),
		.tid = (uint32_t)sqlite3_column_int64(row, 2),
		.name_id = sqlite3_column_int64(row, 3)};

	return lw_vec_push(&ranges->at, range);
}

static int add_name(struct lw_host_ranges *ranges, sqlite3_stmt *row)
{
	struct lw_host_name name = {
		sqlite3_column_int64(row, 0), strdup(lw_store_column_text(row, 1))};

	if (name.text && lw_vec_push(&ranges->names, name) == LW_OK)
		return LW_OK;
	free(name.text);
	return lw_fail(LW_ERR_NOMEM, "no memory");
}

static int each(struct lw_host_ranges *ranges, struct lw_store *store, int64_t process_id,
	const char *sql, int (*add)(struct lw_host_ranges *ranges, sqlite3_stmt *row))
{
	sqlite3_stmt *row;
	int status = lw_store_prepare(store, sql, &row);

	if (status < 0)
		return status;
	sqlite3_bind_int64(row, 1, process_id);
	while ((status = lw_store_step(store, row)) == 1) {
		status = add(ranges, row);
		if (status < 0)
			break;
	}
	sqlite3_finalize(row);
	return status;
}

static int compare_name(const void *key, const void *at)
{
	int64_t id = *(const int64_t *)key, other = ((const struct lw_host_name *)at)->id;

	return (id > other) - (id < other);
}

int lw_host_ranges_load(
	const struct lw_run *run, const struct lw_rank *rank, struct lw_host_ranges *ret_ranges)
{
	struct lw_store *store = run->stores.at[rank->store];
	struct lw_host_range *range;
	int status;

	*ret_ranges = (struct lw_host_ranges){0};
	status = each(ret_ranges, store, rank->process_id, names_sql, add_name);
	if (status == LW_OK)
		status = each(ret_ranges, store, rank->process_id, ranges_sql, add_range);
	lw_vec_foreach (range, &ret_ranges->at) {
		const struct lw_host_name *name =
			ret_ranges->names.n ? bsearch(&range->name_id, ret_ranges->names.at,
						      ret_ranges->names.n,
						      sizeof(*ret_ranges->names.at), compare_name)
					    : NULL;

		range->name = name ? name->text : "";
	}
	return status;
}

void lw_host_ranges_free(struct lw_host_ranges *ranges)
{
	struct lw_host_name *name;

	lw_vec_foreach (name, &ranges->names)
		free(name->text);
	lw_vec_free(&ranges->names);
	lw_vec_free(&ranges->at);
	lw_vec_free(&ranges->open);
}

/* Keep those that reach into [start, end). */
static int move_on(struct lw_host_ranges *ranges, int64_t start_ns, int64_t end_ns)
{
	size_t n = 0;

	for (size_t i = 0; i < ranges->open.n; i++)
		if (ranges->open.at[i]->end_ns > start_ns)
			ranges->open.at[n++] = ranges->open.at[i];
	ranges->open.n = n;
	for (; ranges->next < ranges->at.n && ranges->at.at[ranges->next].start_ns < end_ns;
		ranges->next++)
		if (ranges->at.at[ranges->next].end_ns > start_ns &&
			lw_vec_push(&ranges->open, &ranges->at.at[ranges->next]) < 0)
			return LW_ERR_NOMEM;
	return LW_OK;
}

static int64_t length_of(const struct lw_host_range *range)
{
	return range->end_ns - range->start_ns;
}

static bool covers_most(const struct lw_host_range *range, int64_t start_ns, int64_t end_ns)
{
	int64_t from_ns = range->start_ns > start_ns ? range->start_ns : start_ns;
	int64_t to_ns = range->end_ns < end_ns ? range->end_ns : end_ns;

	return to_ns - from_ns >= (end_ns - start_ns + 1) / 2;
}

int lw_host_ranges_find(struct lw_host_ranges *ranges, int64_t start_ns, int64_t end_ns,
	uint32_t tid, struct lw_host_where *ret_where)
{
	const struct lw_host_range *in = NULL, *within = NULL, *outermost = NULL;

	*ret_where = (struct lw_host_where){0};
	if (move_on(ranges, start_ns, end_ns) < 0)
		return LW_ERR_NOMEM;
	for (size_t i = 0; i < ranges->open.n; i++) {
		const struct lw_host_range *range = ranges->open.at[i];

		/* of equal ones the later is inside */
		if (range->tid == tid && covers_most(range, start_ns, end_ns) &&
			(!in || length_of(range) <= length_of(in)))
			in = range;
	}
	for (size_t i = 0; in && i < ranges->open.n; i++) {
		const struct lw_host_range *range = ranges->open.at[i];

		if (range == in || range->tid != tid || range->start_ns > in->start_ns ||
			range->end_ns < in->end_ns)
			continue;
		if (!within || length_of(range) <= length_of(within))
			within = range;
		if (!outermost || length_of(range) > length_of(outermost))
			outermost = range;
	}
	if (in)
		*ret_where = (struct lw_host_where){in->name, within ? within->name : NULL,
			outermost && outermost != within ? outermost->name : NULL};
	return LW_OK;
}

const char *lw_host_where_text(const struct lw_host_where *where, char text[LW_HOST_WHERE_BYTES])
{
	int n;

	text[0] = '\0';
	if (!where->in)
		return text;
	n = snprintf(text, LW_HOST_WHERE_BYTES, "%.64s", where->in);
	if (where->within)
		n += snprintf(
			text + n, LW_HOST_WHERE_BYTES - (size_t)n, " (in %.50s", where->within);
	if (where->outermost)
		n += snprintf(
			text + n, LW_HOST_WHERE_BYTES - (size_t)n, ", %.50s", where->outermost);
	if (where->within)
		snprintf(text + n, LW_HOST_WHERE_BYTES - (size_t)n, ")");
	return text;
}
