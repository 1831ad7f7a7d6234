/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/advise/group_job.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"

void lw_group_job_done(struct lw_group_job *job)
{
	free(job->tensors);
	free(job->layers);
	free(job->is_last);
	free(job->group_of);
}

/* Mean over steps of when the last rank had @tensor ready; *@ret_n_steps: in how many of them it is. */
static double mean_ready_ns(const struct lw_replay *replay, uint32_t tensor, uint32_t *ret_n_steps)
{
	const struct lw_hvd_input *input = &replay->input;
	double sum_ns = 0;

	*ret_n_steps = 0;
	for (uint32_t s = 1; s < input->n_steps; s++) { /* step 0 is step 1 once more */
		int64_t last_ns = LW_HVD_NOT_IN_STEP;

		for (uint32_t r = 0; r < input->n_ranks; r++) {
			size_t row = (size_t)s * input->n_ranks + r;
			int64_t at_ns = input->ready_ns[row * input->n_tensors + tensor];

			last_ns = at_ns > last_ns ? at_ns : last_ns;
		}
		if (last_ns < 0)
			continue;
		sum_ns += (double)last_ns;
		++*ret_n_steps;
	}
	return *ret_n_steps ? sum_ns / *ret_n_steps : (double)NAN;
}

struct ready {
	uint32_t tensor;
	double at_ns;
};

static int by_time(const void *a, const void *b)
{
	const struct ready *x = a, *y = b;

	if (x->at_ns != y->at_ns)
		return x->at_ns < y->at_ns ? -1 : 1;
	return (x->tensor > y->tensor) - (x->tensor < y->tensor);
}

int lw_group_job_init(const struct lw_replay *replay, struct lw_group_job *ret_job)
{
	size_t n = replay->input.n_tensors;
	struct ready *ready = malloc((n + 1) * sizeof(*ready));
	int status = LW_OK;

	*ret_job = (struct lw_group_job){.replay = replay,
		.tensors = malloc((n + 1) * sizeof(*ret_job->tensors)),
		.layers = malloc((n + 1) * sizeof(*ret_job->layers)),
		.is_last = calloc(n + 1, sizeof(*ret_job->is_last)),
		.group_of = calloc(n + 1, sizeof(*ret_job->group_of))};
	if (!ready || !ret_job->tensors || !ret_job->layers || !ret_job->is_last ||
		!ret_job->group_of)
		status = lw_fail(LW_ERR_NOMEM, "no memory to group %zu tensors", n);
	for (uint32_t t = 0; t < n && status == LW_OK; t++) {
		uint32_t n_steps;
		double at_ns = mean_ready_ns(replay, t, &n_steps);

		ret_job->group_of[t] = LW_HVD_NO_GROUP;
		if (n_steps == 0) /* sent before the training, such as a broadcast */
			continue;
		ready[ret_job->n++] = (struct ready){t, at_ns};
		if (n_steps < replay->n_steps)
			status = lw_fail(LW_ERR_UNSUPPORTED,
				"not every step sends every tensor: a group would wait for one that does not come");
	}
	if (status == LW_OK)
		qsort(ready, ret_job->n, sizeof(*ready), by_time);
	for (size_t i = 0; i < ret_job->n && status == LW_OK; i++) {
		ret_job->tensors[i] = ready[i].tensor;
		ret_job->layers[i] =
			(struct lw_layer){(double)replay->tensors[ready[i].tensor].bytes,
				i ? ready[i].at_ns - ready[i - 1].at_ns : 0};
	}
	free(ready);
	return status;
}

static double group_ns(double bytes, const void *params)
{
	const struct lw_replay *replay = params;
	const struct lw_hvd_cost *cost = &replay->cost;

	return cost->round_ns + cost->dispatch_ns + cost->copy_in_ns + cost->copy_out_ns +
	       (cost->copy_in_ns_per_byte + cost->copy_out_ns_per_byte) * bytes +
	       lw_wire_mean_ns(&replay->wire, (uint64_t)bytes, 0);
}

struct lw_link lw_group_job_link(const struct lw_group_job *job)
{
	return (struct lw_link){group_ns, job->replay};
}

double lw_group_job_apply(struct lw_group_job *job)
{
	double bytes = 0, largest_bytes = 0;
	int32_t group = 0;

	for (size_t i = 0; i < job->n; i++) {
		job->group_of[job->tensors[i]] = group;
		bytes += job->layers[i].bytes;
		if (!job->is_last[i])
			continue;
		largest_bytes = fmax(largest_bytes, bytes);
		bytes = 0;
		group++;
	}
	return largest_bytes;
}

/* As a Python string. Horovod for torch puts "allreduce." in front of the parameter's name. */
static void write_name(FILE *out, const char *name)
{
	static const char prefix[] = "allreduce.";

	if (!strncmp(name, prefix, sizeof(prefix) - 1))
		name += sizeof(prefix) - 1;
	fputc('"', out);
	for (; *name; name++) {
		if (*name == '"' || *name == '\\')
			fputc('\\', out);
		fputc(*name, out);
	}
	fputc('"', out);
}

char *lw_group_job_code(const struct lw_group_job *job, const struct lw_run *run)
{
	char *text = NULL;
	size_t n_bytes;
	FILE *out = open_memstream(&text, &n_bytes);
	bool is_first = true;

	if (!out)
		return NULL;
	fputs("groups = [  # names of parameters, in the order in which they become ready\n", out);
	for (size_t i = 0; i < job->n; i++) {
		const char *name = run->tensors.at[job->replay->tensor_of[job->tensors[i]]].name;

		fputs(is_first ? "    [" : ", ", out);
		write_name(out, name);
		is_first = job->is_last[i];
		if (is_first)
			fputs("],\n", out);
	}
	fputs("]\n"
	      "named = dict(model.named_parameters())\n"
	      "optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=named.items(),\n"
	      "    groups=[[named[name] for name in group] for group in groups])",
		out);
	if (fclose(out) == 0)
		return text;
	free(text);
	return NULL;
}
