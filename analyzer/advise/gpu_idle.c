/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu_idle.c - a GPU that has nothing to do because the host launches late: for launching itself takes longer than the
 * kernels, or because the host does something else for long, such as waiting for input, or because it waited for the GPU
 * first. See gpu_gaps.h for what counts.
 *
 * Ranks leave an operation together: what a GPU idled before one that another rank came to later cost nobody anything. Gained
 * is at most what whoever came last idled before it, added up from operation to operation (gpu_chain.h).
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/advise/gpu_chain.h"
#include "analyzer/advise/gpu_gaps.h"
#include "analyzer/kernel_text.h"
#include "base/units.h"

#define WORTH_FRAC    0.05 /* of a step */
#define KERNELS_A_GAP 3
#define KERNEL_OF_GAP 5 /* so many times as long at most */

struct found { /* of one cause, over all ranks */
	struct lw_gpu_span
		span; /* of the rank that costs the run most by it; span.rank NULL: of none */
	struct lw_gpu_idle idle;
	double gain_ns;   /* at most, a step */
	double length_ns; /* of a step, mean of the ranks */
	uint32_t n_alike,
		n_known; /* ranks whose GPU idles so for as much of its step as is worth telling; all */
	uint64_t n_unknown;
	bool has_held;                /* gain_ns: it is known who came last to operations */
	struct lw_host_places places; /* of that rank, in those gaps */
};

static double cost_ns(
	const struct lw_gpu_span *span, const struct lw_gpu_idle *idle, enum lw_gap_cause cause)
{
	return (idle->held_ns[cause] + idle->free_ns[cause]) / span->n;
}

/* What each rank idles, and of all of them what the run can gain by it. */
static int look_at_ranks(const struct lw_run *run, const struct lw_gaps_asked *asked,
	double *free_ns, struct found *ret)
{
	const struct lw_rank *rank;
	struct lw_gpu_idle idle;
	struct lw_gpu_span span;
	double sum_ns = 0;

	lw_vec_foreach (rank, &run->ranks) {
		enum lw_gap_cause cause = asked->cause;

		if (!lw_gpu_span(run, rank, &span))
			continue;
		if (lw_gpu_gaps(run, &span, asked, &idle) < 0)
			return LW_ERR_NOMEM;
		ret->n_unknown += idle.n_unknown;
		ret->n_known++;
		ret->n_alike += idle.ns[cause] >= WORTH_FRAC * span.n * span.length_ns;
		ret->has_held |= idle.held_ns[cause] > 0;
		sum_ns += span.length_ns;
		free_ns[rank - run->ranks.at] = idle.free_ns[cause] / span.n;
		if (cost_ns(&span, &idle, cause) > 0 &&
			(!ret->span.rank || cost_ns(&span, &idle, cause) >
						    cost_ns(&ret->span, &ret->idle, cause))) {
			ret->span = span;
			ret->idle = idle;
		}
	}
	ret->length_ns = ret->n_known ? sum_ns / ret->n_known : 0;
	return LW_OK;
}

static int search_ranks(
	const struct lw_run *run, enum lw_gap_cause cause, const int32_t *last, struct found *ret)
{
	double *held_ns = calloc(run->groups.n + 1, sizeof(*held_ns));
	double *free_ns = calloc(run->ranks.n + 1, sizeof(*free_ns));
	struct lw_gaps_asked asked = {cause, last, held_ns, NULL};
	int status = held_ns && free_ns
			     ? look_at_ranks(run, &asked, free_ns, ret)
			     : lw_fail(LW_ERR_NOMEM, "no memory for %zu operations", run->groups.n);

	if (status == LW_OK)
		status = lw_gpu_chain_gain(run, last, held_ns, free_ns, &ret->gain_ns);
	ret->gain_ns = fmin(ret->gain_ns, ret->length_ns);
	if (ret->gain_ns < WORTH_FRAC * ret->length_ns)
		ret->span.rank = NULL;
	free(held_ns);
	free(free_ns);
	return status;
}

/* Where the host of the rank that is named was in its gaps. */
static int search_places(
	const struct lw_run *run, enum lw_gap_cause cause, const int32_t *last, struct found *found)
{
	struct lw_gaps_asked asked = {cause, last, NULL, &found->places};
	struct lw_gpu_idle idle;
	int status;

	if (!found->span.rank)
		return LW_OK;
	status = lw_host_places_load(run, found->span.rank, &found->places);
	if (status == LW_OK)
		status = lw_gpu_gaps(run, &found->span, &asked, &idle);
	if (status == LW_OK)
		found->idle = idle;
	return status;
}

/* Free @ret's places in any case. */
static int search(const struct lw_run *run, enum lw_gap_cause cause, struct found *ret)
{
	int32_t *last = calloc(run->groups.n + 1, sizeof(*last));
	int64_t late_ns;
	int status;

	*ret = (struct found){0};
	if (!last)
		return lw_fail(LW_ERR_NOMEM, "no memory for %zu operations", run->groups.n);
	for (size_t g = 0; g < run->groups.n; g++)
		last[g] = lw_group_last(run, &run->groups.at[g], &late_ns);
	status = search_ranks(run, cause, last, ret);
	if (status == LW_OK)
		status = search_places(run, cause, last, ret);
	free(last);
	return status;
}

enum { OTHERS_BYTES = 320 };

/* What is gained at most, of how many ranks, and what of it counts. */
static const char *others_text(const struct lw_run *run, const struct found *found,
	enum lw_gap_cause cause, char text[OTHERS_BYTES])
{
	double own_ns = cost_ns(&found->span, &found->idle, cause);
	char unit[2][LW_UNIT_TEXT_BYTES];
	int n = 0;

	text[0] = '\0';
	if (found->gain_ns > 1.01 * own_ns)
		n = snprintf(text, OTHERS_BYTES,
			", added up over the ranks that come last in turn: %s of %s",
			lw_ns_format(found->gain_ns, unit[0]),
			lw_ns_format(found->length_ns, unit[1]));
	if (found->n_alike > 1)
		n += snprintf(text + n, OTHERS_BYTES - (size_t)n,
			"; %u of %u ranks idle so for %.0f %% of the time or more", found->n_alike,
			found->n_known, 100 * WORTH_FRAC);
	if (found->has_held)
		snprintf(text + n, OTHERS_BYTES - (size_t)n,
			"; only what a rank idles before operations that it comes last to counts");
	else if (run->size > 1)
		snprintf(text + n, OTHERS_BYTES - (size_t)n,
			"; how much of that other ranks would be waited for instead is not known");
	return text;
}

/* ---- what is said ------------------------------------------------------------------------------------ */

static struct lw_bound bound_of(const struct found *found, enum lw_gap_cause cause)
{
	const struct lw_gap *longest = &found->idle.longest[cause][0];

	return (struct lw_bound){found->gain_ns / found->length_ns, found->span.rank->rank,
		longest->start_ns, longest->end_ns - longest->start_ns};
}

/* "once a step", "12 times a step" */
static const char *count_text(const struct lw_gpu_span *span, double n, char text[48])
{
	n /= span->n;
	if (fabs(n - 1) < 0.005)
		snprintf(text, 48, "once %s", span->each);
	else
		snprintf(text, 48, n < 99.5 ? "%.3g times %s" : "%.0f times %s", n, span->each);
	return text;
}

/* Launching is what it is where the GPU waits after every few kernels, and for about as long as they take. */
static bool is_launch_bound(const struct lw_gpu_idle *idle)
{
	double n = idle->n[LW_GAP_LAUNCHING];

	return idle->n_kernels <= KERNELS_A_GAP * n &&
	       idle->kernel_ns / idle->n_kernels <= KERNEL_OF_GAP * idle->ns[LW_GAP_LAUNCHING] / n;
}

static int find_launching(const struct lw_adviser *self, const struct lw_run *run,
	struct lw_advice_list *list, struct found *found)
{
	const struct lw_gpu_span *span = &found->span;
	const struct lw_gpu_idle *idle = &found->idle;
	char unit[4][LW_UNIT_TEXT_BYTES], kernels[96] = "", others[OTHERS_BYTES], count[48];
	struct lw_host_said host;

	if (lw_host_places_tell(&found->places, span->n, true, &host) < 0)
		return LW_ERR_NOMEM;
	if (idle->n_kernels > 0)
		snprintf(kernels, sizeof(kernels), "; kernels that compute take %s each, %.0f %s",
			lw_ns_format(idle->kernel_ns / idle->n_kernels, unit[2]),
			idle->n_kernels / span->n, span->each);
	return lw_advise_bound(run, list, self->id, bound_of(found, LW_GAP_LAUNCHING),
		"launches come late: the GPU of rank %d waits for the host to launch: %s nothing ran for %s on average, and the next kernel was launched only then, %s in all%s%s%s. %s: at most %.1f %% less%s; its error is not known; recording itself makes launches slower",
		span->rank->rank, count_text(span, idle->n[LW_GAP_LAUNCHING], count),
		lw_ns_format(idle->ns[LW_GAP_LAUNCHING] / idle->n[LW_GAP_LAUNCHING], unit[0]),
		lw_ns_format(idle->ns[LW_GAP_LAUNCHING] / span->n, unit[1]), kernels,
		*host.text ? "; meanwhile the host was " : "", host.text,
		is_launch_bound(idle)
			? "Launch less often: CUDA graphs (torch.compile(mode=\"reduce-overhead\"), torch.cuda.CUDAGraph), fused optimizers (fused=True, foreach=True), a larger batch"
		: *host.text
			? "Look at what the host does there between launches"
			: "Look at what the host does between these launches: no range names it",
		100 * found->gain_ns / found->length_ns,
		others_text(run, found, LW_GAP_LAUNCHING, others));
}

static int advise_launching(
	const struct lw_adviser *self, struct lw_run *run, struct lw_advice_list *list)
{
	struct found found, away = {0};
	int status = search(run, LW_GAP_LAUNCHING, &found);

	if (status == LW_OK && found.span.rank)
		status = find_launching(self, run, list, &found);
	else if (status == LW_OK && found.n_unknown) {
		status = search(run, LW_GAP_AWAY, &away);
		if (status == LW_OK && !away.span.rank)
			status = lw_advise_note(list, self->id,
				"why GPUs were idle %llu times cannot be told: the calls that launched what came next were not recorded",
				(unsigned long long)found.n_unknown);
	}
	lw_host_places_free(&found.places);
	lw_host_places_free(&away.places);
	return status;
}

/* "in step 2, 3.2 ms after it begins (9.159 ms after the run does)" */
static const char *at_text(
	const struct lw_run *run, const struct lw_rank *rank, int64_t at_ns, char text[128])
{
	int32_t step = lw_rank_step_at(rank, at_ns);
	double since_ms = (double)lw_run_since_ns(run, rank, at_ns) / 1e6;
	char into[LW_UNIT_TEXT_BYTES], number[LW_STEP_TEXT_BYTES];

	if (step == LW_NONE)
		snprintf(text, 128, "%.3f ms after the run begins", since_ms);
	else
		snprintf(text, 128, "in step %s, %s after it begins (%.3f ms after the run does)",
			lw_rank_step_text(rank, step, number),
			lw_ns_format((double)(at_ns - rank->steps.at[step].start_ns), into),
			since_ms);
	return text;
}

/* "that is 29.6 of the 50.1 ms", where it is not all. */
static const char *share_text(const struct found *found, double ns, double all_ns, char text[96])
{
	char unit[2][LW_UNIT_TEXT_BYTES];

	text[0] = '\0';
	if (ns < 0.95 * all_ns)
		snprintf(text, 96, " (%s of the %s)", lw_ns_format(ns / found->span.n, unit[0]),
			lw_ns_format(all_ns / found->span.n, unit[1]));
	return text;
}

/* What it was at, and what to do about it. A loader is to blame where its ranges cover most, or nothing is known at all. */
static const char *away_text(const struct found *found, const struct lw_host_said *host,
	char text[LW_HOST_SAID_BYTES + 448])
{
	static const char loader[] =
		"(torch: DataLoader with more num_workers, persistent_workers, prefetch_factor)";
	static const char python[] = "other work of Python, or collecting garbage";
	const int bytes = LW_HOST_SAID_BYTES + 448;
	char share[96];

	if (!*host->text && !found->places.has_loader)
		snprintf(text, (size_t)bytes,
			"the next batch of input that is not there yet, %s. Look at the loader first %s",
			python, loader);
	else if (!*host->text)
		snprintf(text, (size_t)bytes,
			"it was in no range, nor in one of the loader's, though there are such: %s. Ranges around what it does (NVTX, lapwing_range_push()) would tell",
			python);
	else if (2 * host->loader_ns >= host->all_ns)
		snprintf(text, (size_t)bytes, "it was %s. Look at the loader first%s %s",
			host->text, share_text(found, host->loader_ns, host->all_ns, share),
			loader);
	else if (host->is_most_ddp)
		snprintf(text, (size_t)bytes,
			"it was %s. In flattening and unflattening, DDP packs and unpacks the buffers that it sends before a forward pass%s: fewer of them, or broadcast_buffers=False where ranks may differ in them",
			host->text, share_text(found, host->ddp_ns, host->all_ns, share));
	else if (2 * host->known_ns >= host->all_ns)
		snprintf(text, (size_t)bytes, "it was %s. Look there first", host->text);
	else
		snprintf(text, (size_t)bytes,
			"it was %s. Most of it no range names: ranges around what the host does (NVTX, lapwing_range_push()) would tell",
			host->text);
	return text;
}

static int advise_away(
	const struct lw_adviser *self, struct lw_run *run, struct lw_advice_list *list)
{
	char unit[2][LW_UNIT_TEXT_BYTES], name[LW_KERNEL_TEXT_BYTES], others[OTHERS_BYTES], at[128];
	char away[LW_HOST_SAID_BYTES + 448], count[48];
	struct lw_host_said host;
	struct found found;
	int status = search(run, LW_GAP_AWAY, &found);
	const struct lw_gpu_span *span = &found.span;
	const struct lw_gap *longest = &found.idle.longest[LW_GAP_AWAY][0];

	if (status == LW_OK && span->rank)
		status = lw_host_places_tell(&found.places, span->n, false, &host);
	if (status == LW_OK && span->rank)
		status = lw_advise_bound(run, list, self->id, bound_of(&found, LW_GAP_AWAY),
			"the host is away: the GPU of rank %d waits for a host that does something else: %s nothing ran for %.0f ms or longer, and nothing was launched, %s in all (the longest %s, %s, before %.80s): %s: at most %.1f %% less%s; its error is not known",
			span->rank->rank, count_text(span, found.idle.n[LW_GAP_AWAY], count),
			LW_GAP_SHORT_NS / 1e6,
			lw_ns_format(found.idle.ns[LW_GAP_AWAY] / span->n, unit[0]),
			lw_ns_format((double)(longest->end_ns - longest->start_ns), unit[1]),
			at_text(run, span->rank, longest->start_ns, at),
			lw_kernel_text(longest->name, name), away_text(&found, &host, away),
			100 * found.gain_ns / found.length_ns,
			others_text(run, &found, LW_GAP_AWAY, others));
	lw_host_places_free(&found.places);
	return status;
}

/* The call that waited before the longest of the gaps. */
static const char *call_of(const struct lw_run *run, const struct found *found)
{
	const struct lw_gpu_rank *gpu = &found->span.rank->gpu;
	int32_t sync = found->idle.longest[LW_GAP_AFTER_SYNC][0].sync;
	int32_t launch = sync == LW_NONE ? LW_NONE : gpu->syncs.at[sync].launch;
	uint32_t name = launch == LW_NONE ? UINT32_MAX : gpu->launches.at[launch].name;

	return name == UINT32_MAX ? "a call of no known name" : run->gpu.names.at[name].name;
}

static int advise_wait(
	const struct lw_adviser *self, struct lw_run *run, struct lw_advice_list *list)
{
	char unit[2][LW_UNIT_TEXT_BYTES], others[OTHERS_BYTES], count[48];
	struct lw_host_said host;
	struct found found;
	int status = search(run, LW_GAP_AFTER_SYNC, &found);
	const struct lw_gpu_span *span = &found.span;
	const double n = found.idle.n[LW_GAP_AFTER_SYNC], ns = found.idle.ns[LW_GAP_AFTER_SYNC];

	if (status == LW_OK && span->rank)
		status = lw_host_places_tell(&found.places, span->n, false, &host);
	if (status == LW_OK && span->rank)
		status = lw_advise_bound(run, list, self->id, bound_of(&found, LW_GAP_AFTER_SYNC),
			"the host waits for the device before it launches: rank %d waits until its GPU is done (%.80s) and launches what comes next only then; %s nothing ran after such a wait, for %s on average, %s in all%s%s. Launch first and wait later, or do not wait (torch: .item(), .cpu(), print() of a tensor, torch.cuda.synchronize()): at most %.1f %% less%s; its error is not known",
			span->rank->rank, call_of(run, &found), count_text(span, n, count),
			lw_ns_format(ns / n, unit[0]), lw_ns_format(ns / span->n, unit[1]),
			*host.text ? "; it waited " : "", host.text,
			100 * found.gain_ns / found.length_ns,
			others_text(run, &found, LW_GAP_AFTER_SYNC, others));
	lw_host_places_free(&found.places);
	return status;
}

/* Of the rank that is named, the longest. */
static int find_places(
	const struct lw_run *run, enum lw_gap_cause cause, struct lw_idle_places *ret)
{
	struct found found;
	int status = search(run, cause, &found);

	for (size_t i = 0; status == LW_OK && found.span.rank && i < LW_GAP_N_LONGEST; i++) {
		const struct lw_gap *gap = &found.idle.longest[cause][i];
		const struct lw_rank *rank = found.span.rank;
		struct lw_idle_place place = {.rank = rank->rank,
			.step = lw_rank_step_at(rank, gap->start_ns),
			.at_ns = lw_run_since_ns(run, rank, gap->start_ns),
			.length_ns = gap->end_ns - gap->start_ns,
			.mark = -1,
			.next = gap->name};

		if (!gap->name)
			break;
		if (place.step != LW_NONE) {
			place.into_ns = gap->start_ns - rank->steps.at[place.step].start_ns;
			place.mark = rank->steps.at[place.step].mark;
		}
		lw_host_where_text(&gap->where, place.host);
		status = lw_vec_push(&ret->at, place);
	}
	lw_host_places_free(&found.places);
	return status;
}

static int places_of_launching(const struct lw_run *run, struct lw_idle_places *ret)
{
	return find_places(run, LW_GAP_LAUNCHING, ret);
}

static int places_of_away(const struct lw_run *run, struct lw_idle_places *ret)
{
	return find_places(run, LW_GAP_AWAY, ret);
}

static int places_of_wait(const struct lw_run *run, struct lw_idle_places *ret)
{
	return find_places(run, LW_GAP_AFTER_SYNC, ret);
}

const struct lw_adviser lw_adviser_gpu_idle = {
	.id = "gpu.idle",
	.title = "A GPU that waits for launches",
	.run = advise_launching,
	.places = places_of_launching,
	.needs_no_replay = true,
	.assumes =
		"Where nothing ran on the GPU and what came next was launched only then, it would have run at once, had it been launched before.",
	.wrong_if =
		"What was launched needs what the host computed meanwhile; or recording itself makes launching slow (compare with `record` without CUPTI).",
	.check =
		"`lapwing tui`, timeline, v and . go through kernels: each says when it was launched, and in which ranges of its thread.",
};

const struct lw_adviser lw_adviser_gpu_host = {
	.id = "gpu.host",
	.title = "A GPU that waits for a host that does something else",
	.run = advise_away,
	.places = places_of_away,
	.needs_no_replay = true,
	.assumes =
		"Where nothing ran on the GPU and what came next was launched only then, it would have run at once, had it been launched before.",
	.wrong_if =
		"What was launched needs what the host computed meanwhile; or the host was at something that is there only while it is recorded.",
	.check =
		"`lapwing tui`, timeline, v and . go through kernels: each says when it was launched, and in which ranges of its thread.",
};

const struct lw_adviser lw_adviser_gpu_wait = {
	.id = "gpu.wait",
	.title = "A GPU that waits for a host that waited for it",
	.run = advise_wait,
	.places = places_of_wait,
	.needs_no_replay = true,
	.assumes =
		"Where the host waited for the device and what came next was launched only then, it would have run at once, had it been launched before the wait.",
	.wrong_if =
		"What is launched after the wait needs the value that was waited for: then only a longer way round, such as keeping the value on the device, saves the wait.",
	.check =
		"Take the wait out, record that run too, and compare the two with `lapwing report`.",
};
