/* SPDX-License-Identifier: Apache-2.0 */
/*
 * extract_ddp.c - a torch DDP job as its simulator wants it: gradients in the order of their buckets.
 *
 * The order and the limits are believed when torch's rule, applied to them, gives exactly the buckets
 * that the run sent. Else every recorded bucket stays what it is, and other limits cannot be predicted.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/simulate/extract.h"

enum {
	DEFAULT_FIRST_BYTES = 1 << 20, /* torch.distributed._DEFAULT_FIRST_BUCKET_BYTES */
	DEFAULT_CAP_BYTES = 25 << 20,
	NOT_SEEN = UINT32_MAX,
};

static const char no_gradients[] =
	"when each gradient was complete is not in this run, so what other buckets would hold is not known";
static const char several_models[] =
	"several DDP models send buckets in this run: other buckets are predicted for one alone";
static const char other_rule[] =
	"this run's buckets are not those that torch's rule makes of its gradients (a communication hook, or another torch)";

struct taking {
	const struct lw_run *run;
	struct lw_replay *replay;
	uint32_t reducer;
	/* of the last counted step, in the order of sending */
	uint64_t *bucket_bytes;
	uint32_t n_buckets;
	/* by place in the order of the gradients */
	uint32_t *order;    /* index into the parameters of rank 0 */
	uint32_t *place_of; /* by parameter position: its inverse */
	uint32_t n;
	const struct lw_parameter *parameters; /* of rank 0 and this reducer */
	uint32_t *bucket_of, *scratch;
	uint64_t *sums;
	struct lw_hvd_tensor *tensors;
};

/* ---- recorded buckets ------------------------------------------------------------------------------ */

struct sent {
	int64_t at_ns;
	uint32_t tensor;
};

static int by_time(const void *a, const void *b)
{
	const struct sent *x = a, *y = b;

	if (x->at_ns != y->at_ns)
		return x->at_ns < y->at_ns ? -1 : 1;
	return (x->tensor > y->tensor) - (x->tensor < y->tensor);
}

/* Buckets in the order in which the last step queued them; those it did not send come last. */
static int sort_buckets(struct taking *taking)
{
	struct lw_replay *replay = taking->replay;
	uint32_t n = replay->input.n_tensors;
	size_t n_rows = (size_t)replay->input.n_steps * replay->input.n_ranks;
	const int64_t *last_ns =
		replay->ready_ns + (n_rows - replay->input.n_ranks) * n; /* rank 0 */
	struct sent *sent = calloc(n + 1, sizeof(*sent));
	struct lw_hvd_tensor *tensors = calloc(n + 1, sizeof(*tensors));
	uint32_t *tensor_of = calloc(n + 1, sizeof(*tensor_of));
	uint8_t *dtypes = calloc(n + 1, sizeof(*dtypes));
	int64_t *row = calloc(n + 1, sizeof(*row));
	int status = LW_OK;

	if (!sent || !tensors || !tensor_of || !dtypes || !row) {
		status = lw_fail(LW_ERR_NOMEM, "no memory for %u buckets", n);
		goto done;
	}
	for (uint32_t t = 0; t < n; t++)
		sent[t] = (struct sent){last_ns[t] < 0 ? INT64_MAX : last_ns[t], t};
	qsort(sent, n, sizeof(*sent), by_time);
	for (uint32_t k = 0; k < n; k++) {
		tensors[k] = replay->tensors[sent[k].tensor];
		tensor_of[k] = replay->tensor_of[sent[k].tensor];
		dtypes[k] = replay->dtypes[sent[k].tensor];
		if (sent[k].at_ns == INT64_MAX)
			continue;
		taking->bucket_bytes[taking->n_buckets++] = tensors[k].bytes;
	}
	memcpy(replay->tensors, tensors, n * sizeof(*tensors));
	memcpy(replay->tensor_of, tensor_of, n * sizeof(*tensor_of));
	memcpy(replay->dtypes, dtypes, n * sizeof(*dtypes));
	for (size_t r = 0; r < n_rows; r++) {
		int64_t *ready_ns = replay->ready_ns + r * n;

		for (uint32_t k = 0; k < n; k++)
			row[k] = ready_ns[sent[k].tensor];
		memcpy(ready_ns, row, n * sizeof(*row));
	}
done:
	free(sent);
	free(tensors);
	free(tensor_of);
	free(dtypes);
	free(row);
	return status;
}

/* Which reducer sends the buckets: "bucket.K" of reducer 0, "ddpR.bucket.K" of others. */
static bool find_reducer(struct taking *taking)
{
	const struct lw_replay *replay = taking->replay;

	for (uint32_t k = 0; k < replay->input.n_tensors; k++) {
		const char *name = taking->run->tensors.at[replay->tensor_of[k]].name;
		unsigned reducer = 0;

		if (sscanf(name, "ddp%u.", &reducer) != 1)
			reducer = 0;
		if (k > 0 && reducer != taking->reducer)
			return false;
		taking->reducer = reducer;
	}
	return true;
}

/* ---- gradients -------------------------------------------------------------------------------------- */

static void find_parameters(struct taking *taking)
{
	const struct lw_rank *rank = &taking->run->ranks.at[0];
	const struct lw_parameter *parameter;

	lw_vec_foreach (parameter, &rank->parameters) {
		if (parameter->reducer != taking->reducer)
			continue;
		if (parameter->position != taking->n) { /* one of them was lost */
			taking->n = 0;
			return;
		}
		if (taking->n++ == 0)
			taking->parameters = parameter;
	}
}

/* Torch rebuilds its buckets in the order in which gradients were complete in the first pass of rank 0. */
static bool order_by_first_pass(struct taking *taking)
{
	const struct lw_rank *rank = &taking->run->ranks.at[0];
	const struct lw_gradient *gradient;
	uint32_t n = 0;

	for (uint32_t i = 0; i < taking->n; i++)
		taking->place_of[i] = NOT_SEEN;
	lw_vec_foreach (gradient, &rank->gradients) {
		if (gradient->reducer != taking->reducer || gradient->position >= taking->n ||
			taking->place_of[gradient->position] != NOT_SEEN)
			continue;
		taking->place_of[gradient->position] = n;
		taking->order[n++] = gradient->position;
	}
	return n == taking->n;
}

static void order_by_registration(struct taking *taking)
{
	for (uint32_t i = 0; i < taking->n; i++)
		taking->order[i] = taking->place_of[i] = i;
}

/* Gradients as they are, or with half or a quarter of the bits: what a hook does that compresses each
 * element. A hook that sends something else may send by chance the same part of every bucket. */
static bool is_fraction(double frac)
{
	return fabs(frac - 1) < 1e-6 || fabs(frac - 0.5) < 1e-6 || fabs(frac - 0.25) < 1e-6;
}

/* Does torch's rule give the buckets that were sent? */
static bool is_rule(struct taking *taking, bool is_static)
{
	struct lw_ddp_setting *setting = &taking->replay->ddp.setting;
	double all_bytes = 0, sent_bytes = 0;
	uint32_t n_buckets;

	setting->is_static = is_static;
	setting->is_fixed = false;
	setting->wire_frac = 1;
	for (uint32_t k = 0; k < taking->n; k++) {
		const struct lw_parameter *parameter = &taking->parameters[taking->order[k]];

		taking->tensors[k] =
			(struct lw_hvd_tensor){parameter->bytes, parameter->dtype % LW_DDP_CLASSES};
		all_bytes += (double)parameter->bytes;
	}
	n_buckets = lw_ddp_assign(
		taking->tensors, taking->n, setting, taking->bucket_of, taking->scratch);
	if (n_buckets != taking->n_buckets)
		return false;
	memset(taking->sums, 0, n_buckets * sizeof(*taking->sums));
	for (uint32_t k = 0; k < taking->n; k++)
		taking->sums[taking->bucket_of[k]] += taking->tensors[k].bytes;
	for (uint32_t b = 0; b < n_buckets; b++)
		sent_bytes += (double)taking->bucket_bytes[b];
	setting->wire_frac = sent_bytes / all_bytes;
	if (!is_fraction(setting->wire_frac))
		return false;
	for (uint32_t b = 0; b < n_buckets; b++)
		if (fabs((double)taking->sums[b] * setting->wire_frac -
			    (double)taking->bucket_bytes[b]) > 1)
			return false;
	return true;
}

/* The gradients of one step of one rank, by place. Return: false when one is missing. */
static bool take_row(const struct taking *taking, const struct lw_rank *rank,
	const struct lw_step *step, int64_t *ready_ns)
{
	uint32_t n_missing = taking->n;
	size_t low = 0, high = rank->gradients.n; /* the first after the start of the step */

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (rank->gradients.at[middle].at_ns < step->start_ns)
			low = middle + 1;
		else
			high = middle;
	}
	for (uint32_t k = 0; k < taking->n; k++)
		ready_ns[k] = LW_HVD_NOT_IN_STEP;
	for (; low < rank->gradients.n && rank->gradients.at[low].at_ns <= step->last_ready_ns;
		low++) {
		const struct lw_gradient *gradient = &rank->gradients.at[low];
		int64_t *at_ns;

		if (gradient->reducer != taking->reducer || gradient->position >= taking->n)
			continue;
		at_ns = &ready_ns[taking->place_of[gradient->position]];
		n_missing -= *at_ns < 0;
		*at_ns = gradient->at_ns - step->start_ns;
	}
	return n_missing == 0;
}

static bool take_rows(const struct taking *taking)
{
	uint32_t n_ranks = taking->replay->input.n_ranks, n_out = 0;
	int64_t *ready_ns = taking->replay->ready_ns;

	for (size_t s = 0; s < taking->run->ranks.at[0].steps.n; s++) {
		if (!lw_extract_is_counted(taking->run, s))
			continue;
		n_out++;
		for (uint32_t r = 0; r < n_ranks; r++) {
			const struct lw_rank *rank = &taking->run->ranks.at[r];

			if (!take_row(taking, rank, &rank->steps.at[s],
				    ready_ns + ((size_t)n_out * n_ranks + r) * taking->n))
				return false;
		}
	}
	memcpy(ready_ns, ready_ns + (size_t)n_ranks * taking->n,
		(size_t)n_ranks * taking->n * sizeof(*ready_ns));
	return true;
}

static bool has_gradients(const struct taking *taking)
{
	for (uint32_t i = 0; i < taking->n; i++)
		if (taking->parameters[i].bytes == 0)
			return false;
	for (size_t r = 0; r < taking->run->ranks.n; r++)
		if (taking->run->ranks.at[r].gradients.n == 0)
			return false;
	return taking->n > 0;
}

/* Puts gradients in the place of buckets. Return: why not, NULL = done. */
static const char *take_gradients(struct taking *taking)
{
	struct lw_replay *replay = taking->replay;
	size_t n_rows = (size_t)replay->input.n_steps * replay->input.n_ranks;
	size_t n_bytes = n_rows * replay->input.n_tensors * sizeof(int64_t);
	int64_t *buckets_ns = malloc(n_bytes + 1);
	bool is_done;

	if (!buckets_ns)
		return "no memory for its gradients";
	memcpy(buckets_ns, replay->ready_ns, n_bytes);
	is_done = take_rows(taking);
	if (!is_done)
		memcpy(replay->ready_ns, buckets_ns, n_bytes);
	free(buckets_ns);
	if (!is_done)
		return no_gradients;
	for (uint32_t k = 0; k < taking->n; k++) {
		const struct lw_parameter *parameter = &taking->parameters[taking->order[k]];

		replay->tensors[k] = taking->tensors[k];
		replay->tensors[k].bytes =
			(uint64_t)llround((double)parameter->bytes * replay->ddp.setting.wire_frac);
		replay->tensor_of[k] = parameter->tensor;
		replay->dtypes[k] = (uint8_t)parameter->dtype;
		replay->group_of[k] = LW_HVD_NO_GROUP;
	}
	replay->input.n_tensors = taking->n;
	return NULL;
}

static const char *find_rule(struct taking *taking)
{
	if (!find_reducer(taking))
		return several_models;
	find_parameters(taking);
	if (!has_gradients(taking))
		return no_gradients;
	if (order_by_first_pass(taking) && is_rule(taking, false))
		return take_gradients(taking);
	order_by_registration(taking);
	/* rebuilt so by static_graph, which sees no order in its first pass; or never rebuilt */
	return is_rule(taking, false) || is_rule(taking, true) ? take_gradients(taking)
							       : other_rule;
}

static uint64_t limit(const struct lw_run *run, enum lw_setting setting, uint64_t otherwise)
{
	double value = run->ranks.at[0].setting[setting];

	return isfinite(value) && value > 0 ? (uint64_t)value : otherwise;
}

int lw_extract_ddp_job(const struct lw_run *run, struct lw_replay *replay)
{
	size_t n = run->tensors.n + 1; /* room for buckets, and for parameters */
	struct taking taking = {.run = run,
		.replay = replay,
		.bucket_bytes = calloc(n, sizeof(*taking.bucket_bytes)),
		.order = calloc(n, sizeof(*taking.order)),
		.place_of = calloc(n, sizeof(*taking.place_of)),
		.bucket_of = calloc(n, sizeof(*taking.bucket_of)),
		.scratch = calloc(n, sizeof(*taking.scratch)),
		.sums = calloc(n, sizeof(*taking.sums)),
		.tensors = calloc(n, sizeof(*taking.tensors))};
	struct lw_ddp *ddp = &replay->ddp;
	int status = LW_OK;

	ddp->setting.first_bytes = limit(run, LW_SETTING_FIRST_BUCKET_BYTES, DEFAULT_FIRST_BYTES);
	ddp->setting.cap_bytes = limit(run, LW_SETTING_BUCKET_CAP_BYTES, DEFAULT_CAP_BYTES);
	if (!taking.bucket_bytes || !taking.order || !taking.place_of || !taking.bucket_of ||
		!taking.scratch || !taking.sums || !taking.tensors)
		status = lw_fail(LW_ERR_NOMEM, "no memory for %zu gradients", n);
	if (status == LW_OK)
		status = sort_buckets(&taking);
	if (status == LW_OK) {
		ddp->why_fixed = find_rule(&taking);
		ddp->setting.is_fixed = ddp->why_fixed != NULL;
		if (ddp->setting.is_fixed)
			ddp->setting.wire_frac = 1;
	}
	free(taking.bucket_bytes);
	free(taking.order);
	free(taking.place_of);
	free(taking.bucket_of);
	free(taking.scratch);
	free(taking.sums);
	free(taking.tensors);
	return status;
}
