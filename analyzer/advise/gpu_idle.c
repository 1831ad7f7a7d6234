/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu_idle.c - a GPU that has nothing to do because the host launches late: for launching itself takes longer than the
 * kernels, or because the host does something else for long, such as waiting for input.
 *
 * Where no kernel and no copy runs and what ends that was launched after it had begun, the GPU waited for the
 * host. Short ones are launching; in long ones the host was away. Those are told apart in which the host itself waited, for
 * the device or for gradients, or that follow such a wait and are short: it could not launch before. And those that a
 * kernel of NCCL ends: when that is launched is up to the framework, and to other ranks.
 */
#include "analyzer/advise/gpu_span.h"
#include "analyzer/kernel_text.h"
#include "analyzer/reconstruct/interval.h"
#include "base/units.h"

enum {
	SHORT_NS =
		1000000, /* an eager framework takes 5 to 500 us from launch to launch; who is away is so for longer */
	CLOSE_NS = 10000, /* from the end of a wait to the end of what was waited for */
};
#define WORTH_FRAC 0.05 /* of a step */

enum cause { LAUNCHING, AWAY, AFTER_WAIT, N_CAUSES };

struct idle { /* of one rank, in counted steps */
	double n[N_CAUSES], ns[N_CAUSES];
	double n_kernels, kernel_ns;       /* all, for their mean length */
	int64_t longest_ns, longest_at_ns; /* of AWAY */
	const char *longest_name;          /* of what ended it */
	uint64_t n_unknown;                /* the launch was not recorded */
};

struct work { /* a kernel or a copy */
	int64_t start_ns, end_ns;
	int32_t launch;
	const char *name;
	bool is_comm;
};

struct walk {
	const struct lw_gpu_span *span;
	struct lw_intervals waits; /* of the host */
	int64_t busy_ns;           /* until then something ran; INT64_MIN: nothing yet */
	size_t wait;               /* the first that ends after the gap's begin, or just before */
	size_t hint;               /* of lw_gpu_span_has() */
};

static int collect_waits(struct walk *walk)
{
	const struct lw_rank *rank = walk->span->rank;
	const struct lw_gpu_sync *sync;
	const struct lw_interval *wait;
	int status = LW_OK;

	lw_vec_foreach (sync, &rank->gpu.syncs)
		if (sync->op != LW_GPU_SYNC_STREAM_WAIT_EVENT)
			status |= lw_intervals_add(&walk->waits, sync->start_ns, sync->end_ns);
	lw_vec_foreach (wait, &rank->waits)
		status |= lw_intervals_add(&walk->waits, wait->start_ns, wait->end_ns);
	lw_intervals_unite(&walk->waits, 0);
	return status ? LW_ERR_NOMEM : LW_OK;
}

/* How long the host waited in the gap before @end_ns. @ret_follows: or until just before it. */
static int64_t waited_ns(struct walk *walk, int64_t end_ns, bool *ret_follows)
{
	const struct lw_intervals *waits = &walk->waits;
	int64_t ns = 0;

	while (walk->wait < waits->n && waits->at[walk->wait].end_ns < walk->busy_ns - CLOSE_NS)
		walk->wait++;
	*ret_follows = walk->wait < waits->n && waits->at[walk->wait].start_ns < walk->busy_ns;
	for (size_t i = walk->wait; i < waits->n && waits->at[i].start_ns < end_ns; i++) {
		int64_t from_ns = waits->at[i].start_ns, to_ns = waits->at[i].end_ns;

		from_ns = from_ns > walk->busy_ns ? from_ns : walk->busy_ns;
		to_ns = to_ns < end_ns ? to_ns : end_ns;
		ns += to_ns > from_ns ? to_ns - from_ns : 0;
	}
	return ns;
}

static void add_gap(struct idle *idle, struct walk *walk, const struct work *work)
{
	const struct lw_gpu_rank *gpu = &walk->span->rank->gpu;
	int64_t gap_ns = work->start_ns - walk->busy_ns, wait_ns;
	enum cause cause = gap_ns < SHORT_NS ? LAUNCHING : AWAY;
	bool follows;

	if (work->is_comm)
		return;
	if (work->launch == LW_NONE) {
		idle->n_unknown++;
		return;
	}
	if (gpu->launches.at[work->launch].start_ns <= walk->busy_ns)
		return; /* it waited for something on the device */
	wait_ns = waited_ns(walk, work->start_ns, &follows);
	if (2 * wait_ns >= gap_ns || (cause == LAUNCHING && follows))
		cause = AFTER_WAIT;
	idle->n[cause]++;
	idle->ns[cause] += (double)gap_ns;
	if (cause == AWAY && gap_ns > idle->longest_ns) {
		idle->longest_ns = gap_ns;
		idle->longest_at_ns = walk->busy_ns;
		idle->longest_name = work->name;
	}
}

/* Of kernel @k and copy @c the one that began earlier. */
static bool next_work(const struct lw_run *run, const struct lw_gpu_rank *gpu, size_t *k, size_t *c,
	struct work *ret_work)
{
	const struct lw_kernel *kernel = *k < gpu->kernels.n ? &gpu->kernels.at[*k] : NULL;
	const struct lw_copy *copy = *c < gpu->copies.n ? &gpu->copies.at[*c] : NULL;

	if (kernel && (!copy || kernel->start_ns <= copy->start_ns)) {
		*ret_work = (struct work){kernel->start_ns, kernel->end_ns, kernel->launch,
			run->gpu.names.at[kernel->name].name,
			kernel->gpu_class == LW_GPU_COMMUNICATION};
		++*k;
		return true;
	}
	if (copy) {
		*ret_work = (struct work){copy->start_ns, copy->end_ns, copy->launch,
			lw_copy_op_name(copy->op), false};
		++*c;
	}
	return copy != NULL;
}

static int look(const struct lw_run *run, const struct lw_gpu_span *span, struct idle *idle)
{
	const struct lw_gpu_rank *gpu = &span->rank->gpu;
	struct walk walk = {.span = span, .busy_ns = INT64_MIN};
	size_t k = 0, c = 0, n_kernels = 0;
	struct work work;
	int status = collect_waits(&walk);

	while (status == LW_OK && next_work(run, gpu, &k, &c, &work)) {
		if (lw_gpu_span_has(span, work.start_ns, &walk.hint)) {
			bool is_kernel = k > n_kernels;

			idle->n_kernels += is_kernel;
			idle->kernel_ns += is_kernel ? (double)(work.end_ns - work.start_ns) : 0;
			if (walk.busy_ns != INT64_MIN && work.start_ns > walk.busy_ns)
				add_gap(idle, &walk, &work);
		}
		n_kernels = k;
		if (work.end_ns > walk.busy_ns)
			walk.busy_ns = work.end_ns;
	}
	lw_vec_free(&walk.waits);
	return status;
}

static int find_launching(const struct lw_adviser *self, struct lw_advice_list *list,
	const struct lw_gpu_span *span, const struct idle *idle)
{
	double idle_ns = idle->ns[LAUNCHING] / span->n;
	char unit[4][LW_UNIT_TEXT_BYTES];

	return lw_advise_find(list, self->id,
		"the GPU of rank %d waits for the host to launch: %.0f times %s nothing ran for %s on average, and the next kernel was launched only then, %s in all; kernels take %s each, %.0f %s. Launch less often: CUDA graphs (torch.compile(mode=\"reduce-overhead\"), torch.cuda.CUDAGraph), fused optimizers (fused=True, foreach=True), a larger batch: at most %.1f %% less, its error is not known; recording itself makes launches slower",
		span->rank->rank, idle->n[LAUNCHING] / span->n, span->each,
		lw_ns_format(idle->ns[LAUNCHING] / idle->n[LAUNCHING], unit[0]),
		lw_ns_format(idle_ns, unit[1]),
		lw_ns_format(idle->kernel_ns / idle->n_kernels, unit[2]), idle->n_kernels / span->n,
		span->each, 100 * idle_ns / span->length_ns);
}

static int find_away(const struct lw_adviser *self, const struct lw_run *run,
	struct lw_advice_list *list, const struct lw_gpu_span *span, const struct idle *idle)
{
	double idle_ns = idle->ns[AWAY] / span->n;
	char unit[2][LW_UNIT_TEXT_BYTES], name[LW_KERNEL_TEXT_BYTES];

	return lw_advise_find(list, self->id,
		"the GPU of rank %d waits for a host that does something else: %.2g times %s nothing ran for %.0f ms or longer, and nothing was launched, %s in all (the longest %s, at %.3f ms, before %.80s): the next batch of input that is not there yet, other work of Python, or collecting garbage. Look at the loader first (torch: DataLoader with more num_workers, persistent_workers, prefetch_factor): at most %.1f %% less, its error is not known",
		span->rank->rank, idle->n[AWAY] / span->n, span->each, SHORT_NS / 1e6,
		lw_ns_format(idle_ns, unit[0]), lw_ns_format((double)idle->longest_ns, unit[1]),
		(double)(idle->longest_at_ns - run->first_ns) / 1e6,
		lw_kernel_text(idle->longest_name, name), 100 * idle_ns / span->length_ns);
}

static int advise(const struct lw_adviser *self, struct lw_run *run, struct lw_advice_list *list)
{
	bool is_said[N_CAUSES] = {false};
	const struct lw_rank *rank;
	struct lw_gpu_span span;
	uint64_t n_unknown = 0;
	int status = LW_OK;

	lw_vec_foreach (rank, &run->ranks) {
		struct idle idle = {0};

		if (status < 0 || !lw_gpu_span(run, rank, &span))
			continue;
		status = look(run, &span, &idle);
		n_unknown += idle.n_unknown;
		/* ranks are alike: say each once */
		if (status == LW_OK && !is_said[LAUNCHING] &&
			idle.ns[LAUNCHING] >= WORTH_FRAC * span.n * span.length_ns) {
			is_said[LAUNCHING] = true;
			status = find_launching(self, list, &span, &idle);
		}
		if (status == LW_OK && !is_said[AWAY] &&
			idle.ns[AWAY] >= WORTH_FRAC * span.n * span.length_ns) {
			is_said[AWAY] = true;
			status = find_away(self, run, list, &span, &idle);
		}
	}
	if (status == LW_OK && n_unknown && !is_said[LAUNCHING] && !is_said[AWAY])
		status = lw_advise_note(list, self->id,
			"why GPUs were idle %llu times cannot be told: the calls that launched what came next were not recorded",
			(unsigned long long)n_unknown);
	return status;
}

const struct lw_adviser lw_adviser_gpu_idle = {
	.id = "gpu.idle",
	.title = "A GPU that waits for the host",
	.run = advise,
	.needs_no_replay = true,
	.assumes =
		"Where nothing ran on the GPU and what came next was launched only then, it would have run at once, had it been launched before.",
	.wrong_if =
		"What was launched needs what the host computed meanwhile; or recording itself makes launching slow (compare with `record` without CUPTI).",
	.check =
		"`lapwing tui`, timeline, v and . go through kernels: each says when it was launched.",
};
