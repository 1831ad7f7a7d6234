/* SPDX-License-Identifier: Apache-2.0 */
#include "tui/tensor_text.h"

#include <math.h>

#include "analyzer/gpu_words.h"
#include "tui/parts.h"

static const char *dtype_name(int dtype)
{
	const char *name = lw_dtype_name(dtype);

	return dtype && name ? name : "unknown type";
}

/* What a bucket of DDP holds. */
static void print_carried(
	const struct lw_run *run, uint32_t index, const int32_t *carriers, FILE *out)
{
	const char *before = "Holds ";
	char text[LW_UNIT_TEXT_BYTES];

	for (size_t t = 0; carriers && t < run->tensors.n; t++) {
		if (carriers[t] != (int32_t)index)
			continue;
		fprintf(out, "%s%s (%s)", before, run->tensors.at[t].name,
			lw_bytes_format((double)run->tensors.at[t].bytes, text));
		before = ", ";
	}
	if (before[0] == ',')
		fputs(".\n", out);
}

void lw_tensor_print(const struct lw_run *run, uint32_t index, const struct lw_tensor_stats *stats,
	const int32_t *carriers, FILE *out)
{
	const struct lw_tensor *tensor = &run->tensors.at[index];
	char text[4][LW_UNIT_TEXT_BYTES];

	fprintf(out, "%s\n%s of %s. ", tensor->name,
		isnan(stats->bytes) ? "? bytes" : lw_bytes_format(stats->bytes, text[0]),
		dtype_name(tensor->dtype));
	if (!stats->n) {
		fputs("No step that counts carries it as such", out);
		if (carriers && carriers[index] != LW_NONE)
			fprintf(out, ": it goes in %s", run->tensors.at[carriers[index]].name);
		if (!isnan(stats->ready_ns))
			fprintf(out, ".\nIts gradient is complete %s after the step began (mean)",
				lw_ns_format(stats->ready_ns, text[0]));
		fputs(".\n", out);
		return;
	}
	fprintf(out, "Sent %llu times by the ranks in counted steps, with %s others on average.\n",
		(unsigned long long)stats->n, lw_count_format(stats->mates, text[1]));
	print_carried(run, index, carriers, out);
	fprintf(out, "Queued %s after its step began; ",
		lw_ns_or_unknown(stats->ready_ns, text[0]));
	if (stats->last_rank == LW_NONE)
		fprintf(out, "%s\n",
			isnan(stats->last_frac) ? "which rank was last is not known."
						: "no rank is later than another.");
	else
		fprintf(out,
			"the last rank %s%s after the first; rank %d was last in %.0f %% of the %s.\n",
			stats->is_entry ? "entered it " : "",
			lw_ns_or_unknown(stats->spread_ns, text[1]),
			run->ranks.at[stats->last_rank].rank, 100 * stats->last_frac,
			stats->is_entry ? "operations, by its kernels" : "steps");
	fprintf(out, "NEGOTIATE %s, WAIT %s, ", lw_ns_or_unknown(stats->negotiate_ns, text[0]),
		lw_ns_or_unknown(stats->wait_ns, text[1]));
	fprintf(out, "ALLREDUCE %s, MISC %s (means).\n",
		lw_ns_or_unknown(stats->allreduce_ns, text[2]),
		lw_ns_or_unknown(stats->misc_ns, text[3]));
	if (isnan(stats->exposed_frac))
		fputs("Exposed: not known, no waits of the training thread were recorded.\n", out);
	else
		fprintf(out,
			"Exposed: in %.0f %% of the time from queued to done %s (for this or another).\n",
			100 * stats->exposed_frac,
			lw_gpu_is_time(run) ? "no kernel computes" : "the training thread waits");
}

void lw_batch_print(
	const struct lw_run *run, const struct lw_batch_row *of, bool is_pattern, FILE *out)
{
	const struct lw_group *group = &run->groups.at[of->group];
	size_t r = 0;
	const struct lw_batch *batch = lw_group_any_batch(run, group, &r);
	const struct lw_rank *rank = &run->ranks.at[r];
	char text[4][LW_UNIT_TEXT_BYTES];

	fprintf(out, "%s of %s, %u tensor%s, on %u of %u ranks",
		lw_coll_name(group->op) ? lw_coll_name(group->op) : "operation",
		lw_bytes_or_unknown(of->bytes, text[0]), batch->n_members,
		batch->n_members == 1 ? "" : "s", group->n_ranks, group->n_wanted);
	if (is_pattern)
		fprintf(out, ", %llu times in counted steps", (unsigned long long)of->n);
	fprintf(out, ".\nStarts %s after the step began (agreed at %s); ",
		lw_ns_or_unknown(of->start_ns, text[0]), lw_ns_or_unknown(of->agreed_ns, text[1]));
	fprintf(out, "wire %s from the last rank in to the last out, algbw %s, busbw %s.\n",
		lw_ns_or_unknown(of->wire_ns, text[0]),
		lw_rate_or_unknown(of->algbw_bytes_per_s, text[1]),
		lw_rate_or_unknown(of->busbw_bytes_per_s, text[2]));
	if (!is_pattern && group->n_ranks == group->n_wanted && group->n_ranks > 1 &&
		group->last_rank != LW_NONE && group->first_rank != LW_NONE)
		fprintf(out, "Last to have it queued: rank %d, %s after rank %d.\n",
			run->ranks.at[group->last_rank].rank,
			lw_ns_format(
				(double)(group->last_ready_ns - group->first_ready_ns), text[0]),
			run->ranks.at[group->first_rank].rank);
	for (uint32_t i = 0; i < batch->n_members; i++) {
		const struct lw_member *member = &rank->members.at[batch->first_member + i];

		fprintf(out, "%s%s (%s)", i ? ", " : "", run->tensors.at[member->tensor].name,
			lw_bytes_format((double)member->bytes, text[0]));
	}
}
