/* SPDX-License-Identifier: Apache-2.0 */
#include "tui/tensor_unsent.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/emit/summary.h"
#include "base/err.h"

static int compare_parameters(const void *a, const void *b)
{
	const struct lw_parameter *x = a, *y = b;

	if (x->reducer != y->reducer)
		return x->reducer < y->reducer ? -1 : 1;
	return (x->position > y->position) - (x->position < y->position);
}

struct sum {
	double ns;
	uint64_t n;
};

/* Gradients and steps are both in order of time. */
static void add_gradients(const struct lw_run *run, const struct lw_rank *rank, struct sum *sums)
{
	size_t s = 0;
	const struct lw_gradient *gradient;

	lw_vec_foreach (gradient, &rank->gradients) {
		struct lw_parameter key = {
			.reducer = gradient->reducer, .position = gradient->position};
		const struct lw_parameter *parameter = NULL;

		while (s < rank->steps.n && rank->steps.at[s].end_ns <= gradient->at_ns)
			s++;
		if (s == rank->steps.n || gradient->at_ns < rank->steps.at[s].start_ns ||
			!lw_summary_is_counted(run, s))
			continue;
		if (rank->parameters.n)
			parameter = bsearch(&key, rank->parameters.at, rank->parameters.n,
				sizeof(key), compare_parameters);
		if (!parameter)
			continue;
		sums[parameter->tensor].ns +=
			(double)(gradient->at_ns - rank->steps.at[s].start_ns);
		sums[parameter->tensor].n++;
	}
}

int lw_tensor_unsent(const struct lw_run *run, struct lw_tensor_stats *stats)
{
	struct sum *sums = calloc(run->tensors.n + 1, sizeof(*sums));

	if (!sums)
		return lw_fail(LW_ERR_NOMEM, "no memory for %zu tensors", run->tensors.n);
	for (size_t r = 0; r < run->ranks.n; r++)
		add_gradients(run, &run->ranks.at[r], sums);
	for (size_t t = 0; t < run->tensors.n; t++) {
		if (stats[t].n)
			continue;
		if (run->tensors.at[t].bytes)
			stats[t].bytes = (double)run->tensors.at[t].bytes;
		if (sums[t].n)
			stats[t].ready_ns = sums[t].ns / (double)sums[t].n;
	}
	free(sums);
	return LW_OK;
}

static int32_t find_tensor(const struct lw_run *run, const char *name)
{
	for (size_t t = 0; t < run->tensors.n; t++)
		if (!strcmp(run->tensors.at[t].name, name))
			return (int32_t)t;
	return LW_NONE;
}

/* "parameter.P" goes in "bucket.K", "ddpR.parameter.P" in "ddpR.bucket.K". */
static int32_t find_bucket(const struct lw_run *run, uint32_t tensor, uint32_t bucket)
{
	const char *name = run->tensors.at[tensor].name, *at = strstr(name, "parameter.");
	char wanted[64];

	if (!at)
		return LW_NONE;
	snprintf(wanted, sizeof(wanted), "%.*sbucket.%u", (int)(at - name), name, bucket);
	return find_tensor(run, wanted);
}

int lw_tensor_carriers(
	const struct lw_run *run, const struct lw_replay *replay, int32_t **ret_carriers)
{
	uint32_t n, *bucket_of, *scratch;
	int32_t *carriers;

	*ret_carriers = NULL;
	if (!replay || !replay->is_ddp || replay->ddp.why_fixed || replay->ddp.setting.is_fixed)
		return LW_OK;
	n = replay->input.n_tensors;
	carriers = calloc(run->tensors.n + 1, sizeof(*carriers));
	bucket_of = calloc(2 * (size_t)n + 1, sizeof(*bucket_of));
	if (!carriers || !bucket_of) {
		free(carriers);
		free(bucket_of);
		return lw_fail(LW_ERR_NOMEM, "no memory for %u parameters", n);
	}
	scratch = bucket_of + n;
	for (size_t t = 0; t < run->tensors.n; t++)
		carriers[t] = LW_NONE;
	lw_ddp_assign(replay->tensors, n, &replay->ddp.setting, bucket_of, scratch);
	for (uint32_t k = 0; k < n; k++)
		carriers[replay->tensor_of[k]] =
			find_bucket(run, replay->tensor_of[k], bucket_of[k]);
	free(bucket_of);
	*ret_carriers = carriers;
	return LW_OK;
}
