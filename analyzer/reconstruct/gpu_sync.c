/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu_sync.c - overlap lost to synchronisation.
 *
 * A thread calls a wait for the device (synchronize a stream, an event or the device; a copy that returns when it is done),
 * and only when that has returned launches the next compute kernel. Let w be how long it waited since its compute launch
 * before, K that next kernel. Without the wait K's launch would have come up to w earlier. So
 *
 *	lost      [max(end of the computing before K, start of K - w), start of K)
 *	exposed   of that, a communication kernel ran: it would have been hidden
 *
 * At most that: K may need what the host waited for (a loss that decides what comes next). And it counts only where K was
 * free to begin: when between the two launches the process told a stream to wait for an event, and that stream is K's or
 * is not known, K may have had to wait for the very communication, as an optimizer does. Such places are not clear.
 */
#include "analyzer/reconstruct/gpu_sync.h"

#include <stdlib.h>
#include <string.h>

struct thread { /* of the host, while its calls go by */
	uint32_t tid;
	int64_t waited_ns;   /* since its last compute launch */
	int64_t computed_ns; /* start of that launch; LW_NS_UNKNOWN */
	int32_t waited_in;   /* launch that waited last */
};
typedef lw_vec(struct thread) threads;

struct finder {
	struct lw_run *run;
	size_t r;
	const struct lw_gpu_rank *gpu;
	int32_t *kernel_of; /* by launch: its first compute kernel, LW_NONE */
	bool *is_wait;      /* by launch: the host waits in it */
	lw_vec(const struct lw_gpu_sync *) orders; /* streams told to wait, by start */
	threads threads;
};

static struct thread *thread_of(struct finder *f, uint32_t tid)
{
	struct thread added = {.tid = tid, .computed_ns = LW_NS_UNKNOWN, .waited_in = LW_NONE};

	for (size_t i = 0; i < f->threads.n; i++)
		if (f->threads.at[i].tid == tid)
			return &f->threads.at[i];
	return lw_vec_push(&f->threads, added) < 0 ? NULL : &f->threads.at[f->threads.n - 1];
}

static bool is_host_wait(int sync_op)
{
	return sync_op == LW_GPU_SYNC_EVENT || sync_op == LW_GPU_SYNC_STREAM ||
	       sync_op == LW_GPU_SYNC_CONTEXT;
}

/* A copy to the host that returned only when it was done; others return when they are enqueued. */
static bool is_blocking(const struct lw_copy *copy, const struct lw_gpu_launch *launch)
{
	return copy->op == LW_COPY_DTOH && launch->end_ns >= copy->end_ns;
}

static int prepare(struct finder *f)
{
	const struct lw_gpu_sync *sync;
	const struct lw_copy *copy;
	int status = LW_OK;

	f->kernel_of = malloc((f->gpu->launches.n + 1) * sizeof(*f->kernel_of));
	f->is_wait = calloc(f->gpu->launches.n + 1, sizeof(*f->is_wait));
	if (!f->kernel_of || !f->is_wait)
		return lw_fail(LW_ERR_NOMEM, "no memory");
	for (size_t i = 0; i < f->gpu->launches.n; i++)
		f->kernel_of[i] = LW_NONE;
	for (size_t i = f->gpu->kernels.n; i > 0; i--) {
		const struct lw_kernel *kernel = &f->gpu->kernels.at[i - 1];

		if (kernel->gpu_class == LW_GPU_COMPUTE && kernel->launch != LW_NONE)
			f->kernel_of[kernel->launch] = (int32_t)(i - 1);
	}
	lw_vec_foreach (sync, &f->gpu->syncs) {
		if (sync->op == LW_GPU_SYNC_STREAM_WAIT_EVENT && status == LW_OK)
			status = lw_vec_push(&f->orders, sync);
		else if (is_host_wait(sync->op) && sync->launch != LW_NONE)
			f->is_wait[sync->launch] = true;
	}
	lw_vec_foreach (copy, &f->gpu->copies)
		if (copy->launch != LW_NONE &&
			is_blocking(copy, &f->gpu->launches.at[copy->launch]))
			f->is_wait[copy->launch] = true;
	return status;
}

/* Whether a stream was told to wait within [from, to) that may be @stream. */
static bool may_depend(const struct finder *f, int64_t from_ns, int64_t to_ns, uint32_t stream)
{
	size_t low;

	lw_vec_bisect(low, f->orders.n, i, f->orders.at[i]->start_ns < from_ns);
	for (size_t i = low; i < f->orders.n && f->orders.at[i]->start_ns < to_ns; i++)
		if (f->orders.at[i]->stream == LW_NONE ||
			f->orders.at[i]->stream == (int32_t)stream)
			return true;
	return false;
}

/* End of the computing before @at_ns, where computing begins at @at_ns; LW_NS_UNKNOWN: it goes on, or is the first. */
static int64_t gap_start_ns(const struct lw_gpu_rank *gpu, int64_t at_ns)
{
	const struct lw_interval *busy = gpu->busy[LW_GPU_COMPUTE].at;
	size_t low;

	lw_vec_bisect(low, gpu->busy[LW_GPU_COMPUTE].n, i, busy[i].start_ns < at_ns);
	return low && low < gpu->busy[LW_GPU_COMPUTE].n && busy[low].start_ns == at_ns
		       ? busy[low - 1].end_ns
		       : LW_NS_UNKNOWN;
}

/* Communication within [start, end), and the first kernel of it. */
static int64_t communicated_ns(
	const struct lw_gpu_rank *gpu, int64_t start_ns, int64_t end_ns, int32_t *ret_kernel)
{
	const struct lw_interval *busy = gpu->busy[LW_GPU_COMMUNICATION].at;
	size_t low;
	int64_t ns = 0;

	*ret_kernel = LW_NONE;
	lw_vec_bisect(low, gpu->busy[LW_GPU_COMMUNICATION].n, i, busy[i].end_ns <= start_ns);
	for (size_t i = low; i < gpu->busy[LW_GPU_COMMUNICATION].n && busy[i].start_ns < end_ns;
		i++) {
		int64_t from_ns = busy[i].start_ns > start_ns ? busy[i].start_ns : start_ns;
		int64_t to_ns = busy[i].end_ns < end_ns ? busy[i].end_ns : end_ns;

		ns += to_ns - from_ns;
		for (size_t k = 0, end = gpu->kernels.n; k < end && *ret_kernel == LW_NONE;) {
			size_t middle = k + (end - k) / 2; /* the first that starts there */

			if (gpu->kernels.at[middle].start_ns < busy[i].start_ns)
				k = middle + 1;
			else
				end = middle;
			if (k == end)
				*ret_kernel = (int32_t)k;
		}
	}
	return ns;
}

static int judge(struct finder *f, const struct thread *thread, size_t launch)
{
	const struct lw_kernel *kernel = &f->gpu->kernels.at[f->kernel_of[launch]];
	int64_t start_ns = gap_start_ns(f->gpu, kernel->start_ns);
	struct lw_gpu_lost lost = {.rank = (int32_t)f->r,
		.step = LW_NONE,
		.launch = thread->waited_in,
		.kernel = f->kernel_of[launch],
		.end_ns = kernel->start_ns};

	if (start_ns == LW_NS_UNKNOWN)
		return LW_OK;
	if (kernel->start_ns - thread->waited_ns > start_ns)
		start_ns = kernel->start_ns - thread->waited_ns;
	lost.start_ns = start_ns;
	lost.exposed_ns = communicated_ns(f->gpu, start_ns, kernel->start_ns, &lost.comm);
	if (!lost.exposed_ns)
		return LW_OK;
	if (thread->computed_ns == LW_NS_UNKNOWN ||
		may_depend(f, thread->computed_ns, f->gpu->launches.at[launch].start_ns,
			kernel->stream)) {
		f->run->gpu.n_lost_unclear++;
		return LW_OK;
	}
	return lw_vec_push(&f->run->gpu.lost, lost);
}

/* Calls of all threads, by start. */
static int go_through(struct finder *f)
{
	enum { MAX_THREADS = 4096 };

	for (size_t i = 0; i < f->gpu->launches.n; i++) {
		const struct lw_gpu_launch *launch = &f->gpu->launches.at[i];
		struct thread *thread;

		if (!f->is_wait[i] && f->kernel_of[i] == LW_NONE)
			continue;
		thread = thread_of(f, launch->tid);
		if (!thread)
			return LW_ERR_NOMEM;
		if (f->threads.n > MAX_THREADS)
			return lw_run_diag(f->run, "gpu", "too many threads", 1,
				"rank %d: more than %d threads launched GPU work: overlap lost to waiting is told of the first only",
				f->run->ranks.at[f->r].rank, MAX_THREADS);
		if (f->is_wait[i]) {
			thread->waited_ns += launch->end_ns - launch->start_ns;
			thread->waited_in = (int32_t)i;
		}
		if (f->kernel_of[i] == LW_NONE)
			continue;
		if (thread->waited_ns > 0 && judge(f, thread, i) < 0)
			return LW_ERR_NOMEM;
		thread->waited_ns = 0;
		thread->computed_ns = launch->start_ns;
	}
	return LW_OK;
}

int lw_gpu_sync_find(struct lw_run *run, size_t r)
{
	struct finder f = {.run = run, .r = r, .gpu = &run->ranks.at[r].gpu};
	int status = prepare(&f);

	if (status == LW_OK)
		status = go_through(&f);
	free(f.kernel_of);
	free(f.is_wait);
	lw_vec_free(&f.orders);
	lw_vec_free(&f.threads);
	return status;
}
