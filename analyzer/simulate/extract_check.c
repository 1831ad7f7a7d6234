/* SPDX-License-Identifier: Apache-2.0 */
/* extract_check.c - what a run holds that the replay does not know: refused in words, or a diag. */
#include <stdlib.h>
#include <string.h>

#include "analyzer/simulate/extract.h"

/* More than half of what is compared: below it, an operation at the edge of a step is in the next one. */
static bool is_most(size_t n, size_t of)
{
	return 2 * n > of;
}

static bool is_counted(const struct lw_run *run, const struct lw_batch *batch)
{
	return batch->step != LW_NONE && lw_extract_is_counted(run, (size_t)batch->step);
}

/* Every process set has its own controller, the global one too where it sends nothing, and each negotiates
 * once in every cycle. */
static int check_process_sets(const struct lw_run *run)
{
	const struct lw_batch *batch;
	bool has_global = false;
	int other = 0;

	for (size_t r = 0; r < run->ranks.n; r++)
		lw_vec_foreach (batch, &run->ranks.at[r].batches) {
			if (!is_counted(run, batch))
				continue;
			has_global = has_global || batch->process_set <= 0; /* -1: not known */
			if (batch->process_set > 0 && other == 0)
				other = batch->process_set;
		}
	if (other == 0)
		return LW_OK;
	return lw_fail(LW_ERR_LIMIT,
		has_global
			? "this run uses process set %d beside the global one: each negotiates by itself, which the replay of Horovod's loop does not know"
			: "this run sends everything in process set %d, nothing in the global one: each negotiates by itself, which the replay of Horovod's loop does not know",
		other);
}

/* Whether the first operation of step @step of rank 0 is in the same step of rank @rank. */
static bool is_same_step(const struct lw_run *run, size_t step, size_t rank)
{
	const struct lw_rank *first = &run->ranks.at[0], *other = &run->ranks.at[rank];
	const struct lw_batch *batch = &first->batches.at[first->steps.at[step].first_batch];
	int32_t found;

	if (first->steps.at[step].n_batches == 0 || batch->group == LW_NONE)
		return true; /* nothing to compare */
	found = run->groups.at[batch->group].batch_of_rank[rank];
	return found != LW_NONE && other->batches.at[found].step == (int32_t)step;
}

/* A job that went on with other ranks: the k-th step of one is not the k-th of another. */
static int check_ranks(const struct lw_run *run)
{
	size_t n_compared = 0, n_apart = 0;

	if (run->n_duplicate_ranks > 0)
		return lw_fail(LW_ERR_LIMIT,
			"ranks were started more than once in this run (an elastic job?): there is no one set of ranks to replay");
	for (size_t s = 0; s < run->ranks.at[0].steps.n; s++)
		for (size_t r = 1; r < run->ranks.n && lw_extract_is_counted(run, s); r++) {
			n_compared++;
			n_apart += !is_same_step(run, s, r);
		}
	if (is_most(n_apart, n_compared))
		return lw_fail(LW_ERR_LIMIT,
			"%zu of %zu steps hold other operations on other ranks: their ranks cannot be replayed together",
			n_apart, n_compared);
	return LW_OK;
}

/* NCCL's operations run on a stream while the loop goes on. */
static int check_transport(struct lw_run *run, const struct lw_replay *replay)
{
	if (replay->is_ddp || run->ranks.at[0].transport != LW_TRANSPORT_NCCL)
		return LW_OK;
	return lw_run_diag(run, "simulate", "asynchronous", 1,
		"NCCL's operations run beside Horovod's loop; the replay lets each hold it up, as those of MPI and Gloo do: other cycle times are predicted too slow");
}

int lw_extract_check(struct lw_run *run, const struct lw_replay *replay)
{
	int status = check_ranks(run);

	if (status == LW_OK)
		status = check_process_sets(run);
	if (status == LW_OK)
		status = check_transport(run, replay);
	return status;
}

/* ---- explicit groups ------------------------------------------------------------------------------ */

/* "grouped_allreduce.NAME_3of7", as torch and TensorFlow name them. Return: length of what the group's
 * members share, 0 = it is none. @ret_n: of them */
static size_t group_name(const char *name, unsigned long *ret_n)
{
	const char *mark = strrchr(name, '_');
	unsigned long nth;
	char *end;

	if (!mark || mark[1] < '0' || mark[1] > '9')
		return 0;
	nth = strtoul(mark + 1, &end, 10);
	if (strncmp(end, "of", 2) || end[2] < '0' || end[2] > '9')
		return 0;
	*ret_n = strtoul(end + 2, &end, 10);
	return *end || nth < 1 || nth > *ret_n || *ret_n < 2 ? 0 : (size_t)(mark - name);
}

static bool is_same_group(const char *a, const char *b)
{
	unsigned long n_a, n_b;
	size_t length = group_name(a, &n_a);

	return length && length == group_name(b, &n_b) && n_a == n_b && !strncmp(a, b, length);
}

void lw_extract_groups(const struct lw_run *run, struct lw_replay *replay)
{
	unsigned long ignored;

	replay->n_groups = 0;
	for (uint32_t t = 0; t < replay->input.n_tensors; t++) {
		const char *name = run->tensors.at[replay->tensor_of[t]].name;
		uint32_t before = t;

		replay->group_of[t] = LW_HVD_NO_GROUP;
		if (!group_name(name, &ignored))
			continue;
		/* members follow each other in the cache */
		while (before > 0 && replay->group_of[t] == LW_HVD_NO_GROUP)
			if (is_same_group(name, run->tensors.at[replay->tensor_of[--before]].name))
				replay->group_of[t] = replay->group_of[before];
		if (replay->group_of[t] == LW_HVD_NO_GROUP)
			replay->group_of[t] = (int32_t)replay->n_groups++;
	}
	if (replay->n_groups > 0)
		replay->input.group_of = replay->group_of;
}
