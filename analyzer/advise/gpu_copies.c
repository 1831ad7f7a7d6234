/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu_copies.c - copies between host and device whose call came back only when they were done.
 *
 * So calls do that copy at once, and those that should not, for memory that is not pinned (CUDA Runtime API, "API
 * synchronization behavior"): the host launches nothing meanwhile.
 */
#include "analyzer/advise/gpu_span.h"
#include "analyzer/reconstruct/interval.h"
#include "base/units.h"

enum { CLOSE_NS = 2000 }; /* the call may be back so long before the copy's last record */

struct copies { /* of one rank, those that held up the host, in counted steps */
	double n, bytes;
	const char *call; /* the name of the function, of the longest; NULL */
	int64_t longest_ns, longest_start_ns;
	struct lw_intervals spans, kernels, alone;
};

static bool is_to_or_from_host(int op)
{
	return op == LW_COPY_HTOD || op == LW_COPY_DTOH || op == LW_COPY_HTOA || op == LW_COPY_ATOH;
}

static int collect(const struct lw_run *run, const struct lw_gpu_span *span, struct copies *copies)
{
	const struct lw_gpu_rank *gpu = &span->rank->gpu;
	const struct lw_kernel *kernel;
	const struct lw_copy *copy;
	size_t hint = 0;
	int status = LW_OK;

	lw_vec_foreach (copy, &gpu->copies) {
		const struct lw_gpu_launch *launch =
			copy->launch == LW_NONE ? NULL : &gpu->launches.at[copy->launch];

		if (!launch || !is_to_or_from_host(copy->op) ||
			launch->end_ns < copy->end_ns - CLOSE_NS ||
			!lw_gpu_span_has(span, copy->start_ns, &hint))
			continue;
		copies->n++;
		copies->bytes += (double)copy->bytes;
		if (copy->end_ns - copy->start_ns > copies->longest_ns) {
			copies->longest_ns = copy->end_ns - copy->start_ns;
			copies->longest_start_ns = copy->start_ns;
			copies->call = launch->name == UINT32_MAX
					       ? NULL
					       : run->gpu.names.at[launch->name].name;
		}
		status |= lw_intervals_add(&copies->spans, copy->start_ns, copy->end_ns);
	}
	if (!copies->n)
		return LW_OK;
	lw_vec_foreach (kernel, &gpu->kernels)
		status |= lw_intervals_add(&copies->kernels, kernel->start_ns, kernel->end_ns);
	lw_intervals_unite(&copies->spans, 0);
	lw_intervals_unite(&copies->kernels, 0);
	status |= lw_intervals_subtract(&copies->spans, &copies->kernels, &copies->alone);
	return status ? LW_ERR_NOMEM : LW_OK;
}

static int find(const struct lw_adviser *self, const struct lw_run *run,
	struct lw_advice_list *list, const struct lw_gpu_span *span, const struct copies *copies)
{
	double copied_ns = (double)lw_intervals_length_ns(&copies->spans) / span->n;
	double alone_ns = (double)lw_intervals_length_ns(&copies->alone) / span->n;
	double most_frac = lw_gpu_span_frac(span, (double)lw_intervals_length_ns(&copies->alone));
	char unit[3][LW_UNIT_TEXT_BYTES];

	return lw_advise_bound(run, list, self->id,
		(struct lw_bound){
			most_frac, span->rank->rank, copies->longest_start_ns, copies->longest_ns},
		"copies hold up the host: rank %d makes %.3g copies between host and device %s (%s, %s) whose call (%s) came back only when they were done, as for memory that is not pinned; for %s of that no kernel ran. Copy from pinned memory and go on meanwhile (torch: DataLoader(pin_memory=True), tensor.to(device, non_blocking=True)): at most %.1f %% less, its error is not known",
		span->rank->rank, copies->n / span->n, span->each,
		lw_bytes_format(copies->bytes / span->n, unit[0]), lw_ns_format(copied_ns, unit[1]),
		copies->call ? copies->call : "of no known name", lw_ns_format(alone_ns, unit[2]),
		100 * most_frac);
}

static int advise(const struct lw_adviser *self, struct lw_run *run, struct lw_advice_list *list)
{
	const struct lw_rank *rank;
	struct lw_gpu_span span;
	bool is_said = false;
	int status = LW_OK;

	lw_vec_foreach (rank, &run->ranks) {
		struct copies copies = {0};

		if (is_said || status < 0 || !rank->gpu.copies.n || !lw_gpu_span(run, rank, &span))
			continue;
		status = collect(run, &span, &copies);
		is_said = status == LW_OK && (double)lw_intervals_length_ns(&copies.alone) >=
						     LW_GPU_WORTH_FRAC * span.n * span.length_ns;
		if (is_said) /* ranks are alike: say it once */
			status = find(self, run, list, &span, &copies);
		lw_vec_free(&copies.spans);
		lw_vec_free(&copies.kernels);
		lw_vec_free(&copies.alone);
	}
	return status;
}

const struct lw_adviser lw_adviser_gpu_copies = {
	.id = "gpu.copies",
	.title = "Copies that hold up the host",
	.run = advise,
	.needs_no_replay = true,
	.assumes =
		"A call that came back when its copy was done kept the host from launching, and kernels would have run beside the copy.",
	.wrong_if =
		"The program needs what is copied at once (a loss that is printed): then pinned memory makes the copy shorter, and nothing else.",
	.check = "Pin the memory, record that run too, and compare the two with `lapwing report`.",
};
