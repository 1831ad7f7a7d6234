/* SPDX-License-Identifier: Apache-2.0 */
/* timeline_csv.c - the collectives of the screen as CSV. */
#include <errno.h>
#include <string.h>

#include "tui/timeline.h"

static void write_ns(FILE *out, int64_t at_ns)
{
	if (at_ns == LW_NS_UNKNOWN)
		fputc(',', out);
	else
		fprintf(out, ",%lld", (long long)at_ns);
}

/* The clock's times, and those of the ruler, whose 0 is @origin_ns. */
static void write_batch(const struct lw_run *run, const struct lw_rank *rank, int64_t origin_ns,
	const struct lw_batch *batch, FILE *out)
{
	struct lw_timeline_order order = {.first = LW_NONE, .last = LW_NONE};

	if (batch->group != LW_NONE)
		order = lw_timeline_order(run, &run->groups.at[batch->group]);
	fprintf(out, "%d,", rank->rank);
	if (batch->step != LW_NONE)
		fprintf(out, "%d,%td", batch->step,
			batch - rank->batches.at - rank->steps.at[batch->step].first_batch);
	else
		fputc(',', out);
	fprintf(out, ",%s,%llu", lw_coll_name(batch->op), (unsigned long long)batch->bytes);
	write_ns(out, batch->start_ns);
	write_ns(out, batch->end_ns);
	write_ns(out, batch->wire_start_ns);
	write_ns(out, batch->wire_end_ns);
	if (order.first != LW_NONE && !order.is_entry)
		fprintf(out, ",%d,%d", run->ranks.at[order.first].rank,
			run->ranks.at[order.last].rank);
	else
		fputs(",,", out);
	write_ns(out, batch->start_ns - origin_ns);
	write_ns(out, batch->end_ns - origin_ns);
	if (batch->step != LW_NONE && rank->steps.at[batch->step].mark >= 0)
		fprintf(out, ",%lld", (long long)rank->steps.at[batch->step].mark);
	else
		fputc(',', out);
	fputc('\n', out);
}

int lw_timeline_write(const struct lw_timeline *timeline, int64_t from_ns, int64_t to_ns, FILE *out)
{
	const struct lw_run *run = timeline->lanes.run;

	fputs("rank,step,batch,op,bytes,start_ns,end_ns,wire_start_ns,wire_end_ns,"
	      "first_ready_rank,last_ready_rank,shown_start_ns,shown_end_ns,step_mark\n",
		out);
	for (size_t r = 0; r < run->ranks.n; r++) {
		int64_t origin_ns = timeline->lanes.ranks[r].origin_ns;
		const struct lw_batch *batch;

		lw_vec_foreach (batch, &run->ranks.at[r].batches)
			if (batch->start_ns < to_ns + origin_ns &&
				batch->end_ns > from_ns + origin_ns)
				write_batch(run, &run->ranks.at[r], origin_ns, batch, out);
	}
	return ferror(out) ? lw_fail(LW_ERR_IO, "cannot write: %s", strerror(errno)) : LW_OK;
}
