/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu.c - what the kernels alone say: unions over all streams of a rank, per step and in all, and sums by name and operation.
 *
 *	compute   a compute kernel ran            comm     a communication kernel ran
 *	hidden    both                            exposed  comm, but no compute kernel
 *	copy      a copy or memset ran            idle     neither compute nor communication
 *
 * So compute + exposed + idle = length, hidden + exposed = comm. The figures of a step that go with the host's phases
 * (overlap.c) count an operation from when it was ready; these count kernels, as profilers do.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzer/reconstruct/gpu_sync.h"
#include "analyzer/reconstruct/interval.h"

struct measurer {
	struct lw_run *run;
	struct lw_intervals sets[LW_GPU_N_CLASSES], both;
};

/* ---- one stretch of one rank ----------------------------------------------------------------------- */

static size_t first_kernel_from(const struct lw_gpu_rank *gpu, int64_t at_ns)
{
	size_t low = 0, high = gpu->kernels.n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (gpu->kernels.at[middle].start_ns < at_ns)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Communication kernels within [start, end), their lengths; of one that began before, what is within. */
static int64_t comm_sum_ns(const struct lw_gpu_rank *gpu, int64_t start_ns, int64_t end_ns)
{
	enum { LOOK_BACK = 4096 };
	size_t first = first_kernel_from(gpu, start_ns);
	int64_t sum_ns = 0;

	for (size_t i = first > LOOK_BACK ? first - LOOK_BACK : 0; i < gpu->kernels.n; i++) {
		const struct lw_kernel *kernel = &gpu->kernels.at[i];
		int64_t from_ns = kernel->start_ns > start_ns ? kernel->start_ns : start_ns;
		int64_t to_ns = kernel->end_ns < end_ns ? kernel->end_ns : end_ns;

		if (kernel->start_ns >= end_ns)
			break;
		if (kernel->gpu_class == LW_GPU_COMMUNICATION && to_ns > from_ns)
			sum_ns += to_ns - from_ns;
	}
	return sum_ns;
}

static int measure(struct measurer *m, const struct lw_gpu_rank *gpu, int64_t start_ns,
	int64_t end_ns, struct lw_gpu_times *ret_times)
{
	const struct lw_intervals *compute = &m->sets[LW_GPU_COMPUTE];
	const struct lw_intervals *comm = &m->sets[LW_GPU_COMMUNICATION];
	int status = LW_OK;

	for (int i = 0; i < LW_GPU_N_CLASSES; i++) {
		m->sets[i].n = 0;
		status |= lw_intervals_within(
			gpu->busy[i].at, gpu->busy[i].n, start_ns, end_ns, &m->sets[i]);
	}
	status |= lw_intervals_intersect(compute, comm, &m->both);
	if (status)
		return LW_ERR_NOMEM;
	ret_times->compute_ns = lw_intervals_length_ns(compute);
	ret_times->comm_ns = lw_intervals_length_ns(comm);
	ret_times->hidden_ns = lw_intervals_length_ns(&m->both);
	ret_times->exposed_ns = ret_times->comm_ns - ret_times->hidden_ns;
	ret_times->copy_ns = lw_intervals_length_ns(&m->sets[LW_GPU_COPY]);
	ret_times->idle_ns = end_ns - start_ns - ret_times->compute_ns - ret_times->exposed_ns;
	ret_times->comm_sum_ns = comm_sum_ns(gpu, start_ns, end_ns);
	ret_times->sync_lost_ns = 0;
	return LW_OK;
}

static void add_times(struct lw_gpu_times *sum, const struct lw_gpu_times *times)
{
	sum->compute_ns += times->compute_ns;
	sum->comm_ns += times->comm_ns;
	sum->hidden_ns += times->hidden_ns;
	sum->exposed_ns += times->exposed_ns;
	sum->copy_ns += times->copy_ns;
	sum->idle_ns += times->idle_ns;
	sum->comm_sum_ns += times->comm_sum_ns;
	sum->sync_lost_ns += times->sync_lost_ns;
}

/* ---- streams ---------------------------------------------------------------------------------------- */

/* Kernels of one stream follow each other, but who knows what a trace holds: up to where it was busy already. */
static int measure_streams(struct lw_gpu_rank *gpu)
{
	int64_t *busy_until_ns = malloc((gpu->streams.n + 1) * sizeof(*busy_until_ns));
	const struct lw_copy *copy = gpu->copies.at, *end = copy + gpu->copies.n;
	const struct lw_kernel *kernel = gpu->kernels.at, *last = kernel + gpu->kernels.n;

	if (!busy_until_ns)
		return lw_fail(LW_ERR_NOMEM, "no memory");
	for (size_t i = 0; i < gpu->streams.n; i++) {
		busy_until_ns[i] = INT64_MIN;
		gpu->streams.at[i].busy_ns = 0;
		memset(gpu->streams.at[i].class_ns, 0, sizeof(gpu->streams.at[i].class_ns));
	}
	while (kernel < last || copy < end) {
		bool is_copy = kernel == last || (copy < end && copy->start_ns < kernel->start_ns);
		int64_t start_ns = is_copy ? copy->start_ns : kernel->start_ns;
		int64_t end_ns = is_copy ? copy->end_ns : kernel->end_ns;
		uint32_t stream = is_copy ? copy->stream : kernel->stream;
		struct lw_gpu_stream *of = &gpu->streams.at[stream];

		of->class_ns[is_copy ? LW_GPU_COPY : kernel->gpu_class] += end_ns - start_ns;
		if (start_ns < busy_until_ns[stream])
			start_ns = busy_until_ns[stream];
		if (end_ns > start_ns) {
			of->busy_ns += end_ns - start_ns;
			busy_until_ns[stream] = end_ns;
		}
		if (is_copy)
			copy++;
		else
			kernel++;
	}
	free(busy_until_ns);
	return LW_OK;
}

/* ---- steps ------------------------------------------------------------------------------------------ */

static int measure_rank(struct measurer *m, size_t r)
{
	struct lw_rank *rank = &m->run->ranks.at[r];
	struct lw_gpu_rank *gpu = &rank->gpu;
	const struct lw_kernel *kernel;
	int64_t end_ns = INT64_MIN;
	struct lw_step *step;
	int status;

	gpu->n_steps = 0;
	gpu->whole = gpu->sum = LW_GPU_TIMES_UNKNOWN;
	lw_vec_foreach (step, &rank->steps)
		step->gpu = LW_GPU_TIMES_UNKNOWN;
	if (!gpu->kernels.n)
		return LW_OK;
	lw_vec_foreach (kernel, &gpu->kernels)
		end_ns = kernel->end_ns > end_ns ? kernel->end_ns : end_ns;
	status = measure(m, gpu, gpu->kernels.at[0].start_ns, end_ns, &gpu->whole);
	gpu->sum = (struct lw_gpu_times){0};
	lw_vec_foreach (step, &rank->steps) {
		if (status == LW_OK)
			status = measure(m, gpu, step->start_ns, step->end_ns, &step->gpu);
		if (status < 0)
			return status;
		if (step->excluded)
			continue;
		add_times(&gpu->sum, &step->gpu);
		gpu->n_steps++;
	}
	return status == LW_OK ? measure_streams(gpu) : status;
}

/* ---- lost to synchronisation ------------------------------------------------------------------------- */

static int compare_lost(const void *a, const void *b)
{
	const struct lw_gpu_lost *x = a, *y = b;

	if (x->exposed_ns != y->exposed_ns)
		return x->exposed_ns > y->exposed_ns ? -1 : 1;
	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	return (x->start_ns > y->start_ns) - (x->start_ns < y->start_ns);
}

static int find_lost(struct lw_run *run)
{
	struct lw_gpu_lost *lost;
	size_t n_counted = 0;
	int status = LW_OK;

	run->gpu.lost.n = 0;
	run->gpu.n_lost = run->gpu.n_lost_unclear = 0;
	for (size_t r = 0; r < run->ranks.n && status == LW_OK; r++)
		if (lw_gpu_has(&run->ranks.at[r]))
			status = lw_gpu_sync_find(run, r);
	lw_vec_foreach (lost, &run->gpu.lost) {
		struct lw_rank *rank = &run->ranks.at[lost->rank];
		struct lw_step *step;

		rank->gpu.whole.sync_lost_ns += lost->exposed_ns;
		lost->step = lw_rank_step_at(rank, lost->end_ns);
		/* those outside of what the means are of do not bear them out */
		if (!rank->gpu.n_steps || lw_rank_counts_at(rank, lost->end_ns))
			run->gpu.lost.at[n_counted++] = *lost;
		if (lost->step == LW_NONE)
			continue;
		/* of a place that reaches into the step before, all counts here */
		step = &rank->steps.at[lost->step];
		step->gpu.sync_lost_ns += lost->exposed_ns;
		if (!step->excluded)
			rank->gpu.sum.sync_lost_ns += lost->exposed_ns;
	}
	run->gpu.n_lost = run->gpu.lost.n = n_counted;
	if (run->gpu.lost.n)
		qsort(run->gpu.lost.at, run->gpu.lost.n, sizeof(*run->gpu.lost.at), compare_lost);
	if (run->gpu.lost.n > LW_GPU_LOST_MAX)
		run->gpu.lost.n = LW_GPU_LOST_MAX;
	return status;
}

/* ---- by name and by operation ------------------------------------------------------------------------ */

static void sum_names(struct lw_run *run)
{
	const struct lw_kernel *kernel;
	const struct lw_rank *rank;
	struct lw_gpu_name *name;
	int64_t total_ns = 0;

	lw_vec_foreach (name, &run->gpu.names) {
		name->n = 0;
		name->total_ns = 0;
	}
	lw_vec_foreach (rank, &run->ranks)
		lw_vec_foreach (kernel, &rank->gpu.kernels) {
			if (!lw_rank_counts_at(rank, kernel->start_ns))
				continue;
			name = &run->gpu.names.at[kernel->name];
			name->n++;
			name->total_ns += kernel->end_ns - kernel->start_ns;
			total_ns += kernel->end_ns - kernel->start_ns;
		}
	lw_vec_foreach (name, &run->gpu.names)
		name->share_frac = total_ns > 0 ? (double)name->total_ns / (double)total_ns : 0;
}

int lw_run_gpu(struct lw_run *run)
{
	struct measurer m = {.run = run};
	int status = LW_OK;

	lw_run_diag_reset(run, "gpu");
	for (size_t r = 0; r < run->ranks.n && status == LW_OK; r++)
		status = measure_rank(&m, r);
	if (status == LW_OK)
		status = find_lost(run);
	if (status == LW_OK)
		sum_names(run);
	for (int i = 0; i < LW_GPU_N_CLASSES; i++)
		lw_vec_free(&m.sets[i]);
	lw_vec_free(&m.both);
	return status;
}

const char *lw_gpu_class_name(int gpu_class)
{
	static const char *const names[] = {
#define X(name, text) [LW_GPU_##name] = text,
		LW_GPU_CLASSES(X)
#undef X
	};

	return gpu_class >= 0 && gpu_class < LW_GPU_N_CLASSES ? names[gpu_class] : "";
}
