/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/advise/gpu_chain.h"

#include <math.h>
#include <stdlib.h>

struct chain {
	const struct lw_run *run;
	const int32_t *last;
	const double *held_ns;
	double *gain_ns;       /* of each rank, up to where it is */
	size_t *next;          /* of each rank: its first batch that is not over */
	uint32_t *n_there;     /* of each group: ranks whose next it is; UINT32_MAX: it is over */
	lw_vec(int32_t) ready; /* groups at which all of their ranks are */
};

/* The group that rank @r is at; LW_NONE: it has come to its end. */
static int32_t group_at(const struct chain *chain, size_t r)
{
	const struct lw_rank *rank = &chain->run->ranks.at[r];

	return chain->next[r] < rank->batches.n ? rank->batches.at[chain->next[r]].group : LW_NONE;
}

/* Rank @r goes on to the next operation of which it is known who came last. */
static int go_on(struct chain *chain, size_t r)
{
	const struct lw_rank *rank = &chain->run->ranks.at[r];
	int32_t g = LW_NONE;

	for (; chain->next[r] < rank->batches.n; chain->next[r]++) {
		g = rank->batches.at[chain->next[r]].group;
		if (g != LW_NONE && chain->last[g] != LW_NONE && chain->n_there[g] != UINT32_MAX)
			break;
		g = LW_NONE;
	}
	if (g == LW_NONE || ++chain->n_there[g] < chain->run->groups.at[g].n_ranks)
		return LW_OK;
	return lw_vec_push(&chain->ready, g);
}

static int pass(struct chain *chain, int32_t g)
{
	const struct lw_group *group = &chain->run->groups.at[g];
	double gain_ns = chain->gain_ns[chain->last[g]] + chain->held_ns[g];
	int status = LW_OK;

	if (chain->n_there[g] == UINT32_MAX)
		return LW_OK;
	chain->n_there[g] = UINT32_MAX;
	for (size_t r = 0; r < chain->run->ranks.n && status == LW_OK; r++)
		if (group->batch_of_rank[r] != LW_NONE) {
			chain->gain_ns[r] = gain_ns;
			if (group_at(chain, r) == g)
				status = go_on(chain, r);
		}
	return status;
}

/* Ranks may come to operations of several communicators in other orders: then one is passed where not all are. */
static int32_t some_group(const struct chain *chain)
{
	int32_t g = LW_NONE;

	for (size_t r = 0; r < chain->run->ranks.n && g == LW_NONE; r++)
		g = group_at(chain, r);
	return g;
}

static int follow(struct chain *chain)
{
	int status = LW_OK;
	int32_t g;

	for (size_t r = 0; r < chain->run->ranks.n && status == LW_OK; r++)
		status = go_on(chain, r);
	while (status == LW_OK) {
		g = chain->ready.n ? chain->ready.at[--chain->ready.n] : some_group(chain);
		if (g == LW_NONE)
			break;
		status = pass(chain, g);
	}
	return status;
}

int lw_gpu_chain_gain(const struct lw_run *run, const int32_t *last, const double *held_ns,
	const double *free_ns, double *ret_ns)
{
	struct chain chain = {.run = run,
		.last = last,
		.held_ns = held_ns,
		.gain_ns = calloc(run->ranks.n + 1, sizeof(double)),
		.next = calloc(run->ranks.n + 1, sizeof(size_t)),
		.n_there = calloc(run->groups.n + 1, sizeof(uint32_t))};
	int status = chain.gain_ns && chain.next && chain.n_there
			     ? follow(&chain)
			     : lw_fail(LW_ERR_NOMEM, "no memory for %zu operations", run->groups.n);

	*ret_ns = 0;
	for (size_t r = 0; r < run->ranks.n && status == LW_OK; r++)
		*ret_ns = fmax(*ret_ns, chain.gain_ns[r] + free_ns[r]);
	free(chain.gain_ns);
	free(chain.next);
	free(chain.n_there);
	lw_vec_free(&chain.ready);
	return status;
}
