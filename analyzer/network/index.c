/* SPDX-License-Identifier: Apache-2.0 */
/* index.c - connections and captured flows by rank: whoever asks for one rank's does not walk all of them. */
#include <stdlib.h>

#include "analyzer/network/network.h"

/* From counts in @first[r + 1] to where those of rank r begin. */
static size_t begin(size_t *first, size_t n_ranks)
{
	for (size_t r = 0; r < n_ranks; r++)
		first[r + 1] += first[r];
	return first[n_ranks];
}

/* After each was put at first[r]++. */
static void rewind_to(size_t *first, size_t n_ranks)
{
	for (size_t r = n_ranks; r > 0; r--)
		first[r] = first[r - 1];
	first[0] = 0;
}

static bool is_between(const struct lw_packet_flow *flow)
{
	return flow->from_rank != LW_NONE && flow->to_rank != LW_NONE &&
	       flow->from_rank != flow->to_rank;
}

static int index_ends(const struct lw_run *run, struct lw_net_index *index)
{
	const struct lw_tcp_end *end;

	index->first_end = calloc(run->ranks.n + 1, sizeof(*index->first_end));
	if (!index->first_end)
		return LW_ERR_NOMEM;
	lw_vec_foreach (end, &run->ends)
		if (end->rank != LW_NONE)
			index->first_end[end->rank + 1]++;
	index->ends = calloc(begin(index->first_end, run->ranks.n) + 1, sizeof(*index->ends));
	if (!index->ends)
		return LW_ERR_NOMEM;
	lw_vec_foreach (end, &run->ends)
		if (end->rank != LW_NONE)
			index->ends[index->first_end[end->rank]++] = end;
	rewind_to(index->first_end, run->ranks.n);
	return LW_OK;
}

static int index_flows(const struct lw_run *run, struct lw_net_index *index)
{
	const struct lw_packet_flow *flow;

	index->first_flow = calloc(run->ranks.n + 1, sizeof(*index->first_flow));
	if (!index->first_flow)
		return LW_ERR_NOMEM;
	lw_vec_foreach (flow, &run->flows)
		if (is_between(flow)) {
			index->first_flow[flow->from_rank + 1]++;
			index->first_flow[flow->to_rank + 1]++;
		}
	index->flows = calloc(begin(index->first_flow, run->ranks.n) + 1, sizeof(*index->flows));
	if (!index->flows)
		return LW_ERR_NOMEM;
	lw_vec_foreach (flow, &run->flows)
		if (is_between(flow)) {
			index->flows[index->first_flow[flow->from_rank]++] = flow;
			index->flows[index->first_flow[flow->to_rank]++] = flow;
		}
	rewind_to(index->first_flow, run->ranks.n);
	return LW_OK;
}

int lw_net_index_make(const struct lw_run *run, struct lw_net_index *index)
{
	*index = (struct lw_net_index){0};
	if (index_ends(run, index) == LW_OK && index_flows(run, index) == LW_OK)
		return LW_OK;
	lw_net_index_free(index);
	return lw_fail(LW_ERR_NOMEM, "no memory");
}

void lw_net_index_free(struct lw_net_index *index)
{
	free(index->ends);
	free(index->first_end);
	free(index->flows);
	free(index->first_flow);
	*index = (struct lw_net_index){0};
}
