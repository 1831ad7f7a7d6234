/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_clocks.c - a GPU whose clock was held down while it trained: by heat, by power, by its host. */
#include <math.h>
#include <stdio.h>
#include <strings.h>

#include "analyzer/advise/gpu_span.h"
#include "analyzer/reconstruct/gpu_counters.h"
#include "base/units.h"

#define HELD_FRAC 0.05 /* of the steps' time */

static const char *const remedies[LW_GPU_N_HOLDS] = {
	[LW_GPU_HOLD_sw_power] =
		"that is what its power limit is for: raise it, if power supply and cooling allow (nvidia-smi -pl)",
	[LW_GPU_HOLD_sw_thermal] = "look at its cooling: fans, air, what is next to it",
	[LW_GPU_HOLD_hw_slowdown] = "look at its cooling and power supply (nvidia-smi -q)",
	[LW_GPU_HOLD_hw_thermal] = "look at its cooling: fans, air, what is next to it",
	[LW_GPU_HOLD_power_brake] = "look at the host's power supply",
	[LW_GPU_HOLD_sync_boost] =
		"look at the GPUs of its boost group: the slowest sets the clock",
};

static int worst_hold(const struct lw_gpu_counted *gpu)
{
	int worst = 0;

	for (int i = 1; i < LW_GPU_N_HOLDS; i++)
		if (isnan(gpu->held_frac[worst]) || gpu->held_frac[i] > gpu->held_frac[worst])
			worst = i;
	return worst;
}

/* Of its multiprocessors, kHz; 0 = not known. */
static double highest_clock_khz(const struct lw_rank *rank, const struct lw_nic *device)
{
	const struct lw_gpu_device *gpu;

	lw_vec_foreach (gpu, &rank->gpu.devices)
		if (gpu->pci && !strcasecmp(gpu->pci, device->on_name))
			return gpu->clock_khz;
	return 0;
}

/* "at most 3.1 % less, if all computing went on at 1.98 GHz": or that nothing tells. Return: that part of a step; NAN. */
static double say_gain(const struct lw_run *run, const struct lw_gpu_counted *gpu, char text[128])
{
	const struct lw_rank *rank = &run->ranks.at[gpu->rank];
	double highest = highest_clock_khz(rank, gpu->device);
	struct lw_gpu_span span;
	double most_frac;

	if (!(highest > 0) || !(gpu->sm_clock_khz < highest) || !lw_gpu_span(run, rank, &span)) {
		snprintf(text, 128, "what it cost is not known");
		return NAN;
	}
	most_frac = lw_gpu_span_frac(
		&span, (1 - gpu->sm_clock_khz / highest) * (double)span.times->compute_ns);
	snprintf(text, 128,
		"at most %.1f %% less, if all computing went at %.3g GHz; its error is not known",
		100 * most_frac, highest / 1e6);
	return most_frac;
}

static int advise(const struct lw_adviser *self, struct lw_run *run, struct lw_advice_list *list)
{
	struct lw_gpu_counters counters;
	const struct lw_gpu_counted *gpu, *worst = NULL;
	int status = lw_gpu_counters(run, &counters);
	struct lw_bound bound = LW_BOUND_NONE;
	char gain[128];
	size_t n = 0;

	lw_vec_foreach (gpu, &counters.at) {
		if (gpu->rank == LW_NONE || !(gpu->held_frac[worst_hold(gpu)] >= HELD_FRAC))
			continue;
		n++;
		if (!worst || gpu->held_frac[worst_hold(gpu)] > worst->held_frac[worst_hold(worst)])
			worst = gpu;
	}
	if (status == LW_OK && worst) {
		int hold = worst_hold(worst);

		bound.most_frac = say_gain(run, worst, gain);
		bound.rank = lw_run_rank_number(run, worst->rank);
		status = lw_advise_bound(run, list, self->id, bound,
			"the clock of the GPU of rank %d (%.20s on host %.64s) was held down by %s for %.0f %% of the time, to %.3g GHz on average%s; %s: %s",
			lw_run_rank_number(run, worst->rank), worst->device->on_name,
			worst->device->host, lw_gpu_hold_words(hold), 100 * worst->held_frac[hold],
			worst->sm_clock_khz / 1e6, n > 1 ? ", most of several" : "", remedies[hold],
			gain);
	}
	lw_vec_free(&counters.at);
	return status;
}

const struct lw_adviser lw_adviser_gpu_clocks = {
	.id = "gpu.clocks",
	.title = "A clock that is held down",
	.run = advise,
	.needs_no_replay = true,
	.assumes = "Kernels that compute take as much longer as the clock is lower.",
	.wrong_if =
		"They wait for memory, whose clock is another one; or another process made the GPU hot, or drew the power.",
	.check = "nvidia-smi -q -d PERFORMANCE,CLOCK,POWER,TEMPERATURE on that host during a run.",
};
