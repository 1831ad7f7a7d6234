/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/sim_run.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/simulate/stats.h"

/* The run's own, without the loading of stores that it lives beside; where that is linked, it wins. */
__attribute__((weak)) int lw_run_diag(struct lw_run *run, const char *stage, const char *kind,
	uint64_t n, const char *format, ...)
{
	struct lw_diag diag = {.stage = stage, .kind = kind, .n = n};
	va_list arguments;

	va_start(arguments, format);
	if (vasprintf(&diag.text, format, arguments) < 0)
		abort();
	va_end(arguments);
	return lw_vec_push(&run->diags, diag);
}

static uint64_t draw(uint64_t *random)
{
	*random ^= *random << 13;
	*random ^= *random >> 7;
	*random ^= *random << 17;
	return *random;
}

/* All of a group are queued when its last one is ready. */
static void gather(const struct sim_spec *spec, int64_t *ready_ns)
{
	for (uint32_t t = 0; t < spec->n_tensors; t++)
		for (uint32_t other = t; other-- > 0;)
			if (spec->group_of[other] == spec->group_of[t])
				ready_ns[other] = ready_ns[t];
}

struct lw_hvd_input *sim_job(const struct sim_spec *spec)
{
	size_t n_rows = (size_t)spec->n_steps * spec->n_ranks, n_tensors = spec->n_tensors;
	struct lw_hvd_input *input =
		calloc(1, sizeof(*input) + n_tensors * sizeof(struct lw_hvd_tensor) +
				  n_rows * (n_tensors + 2) * sizeof(int64_t));
	struct lw_hvd_tensor *tensors = (struct lw_hvd_tensor *)(input + 1);
	int64_t *ready_ns = (int64_t *)(tensors + n_tensors);
	int64_t *blocked_ns = ready_ns + n_rows * n_tensors, *tail_ns = blocked_ns + n_rows;
	uint64_t random = spec->seed + 88172645463325252;

	for (size_t t = 0; t < n_tensors; t++)
		tensors[t] = (struct lw_hvd_tensor){spec->bytes[t], 1};
	for (size_t row = 0; row < n_rows; row++) {
		bool is_last = row % spec->n_ranks == spec->n_ranks - 1;
		int64_t at_ns = spec->forward_ns + (is_last ? spec->late_ns : 0);

		for (size_t t = 0; t < n_tensors; t++) {
			if (spec->n_in_burst == 0)
				at_ns += spec->gap_ns;
			else if (t % spec->n_in_burst == 0)
				at_ns += spec->n_in_burst * spec->gap_ns;
			if (spec->jitter_ns)
				at_ns += (int64_t)(draw(&random) % (uint64_t)spec->jitter_ns);
			ready_ns[row * n_tensors + t] = at_ns;
		}
		blocked_ns[row] = at_ns;
		if (spec->group_of)
			gather(spec, ready_ns + row * n_tensors);
	}
	*input = (struct lw_hvd_input){spec->n_ranks, spec->n_tensors, spec->n_steps, tensors,
		ready_ns, blocked_ns, tail_ns, spec->group_of};
	return input;
}

struct recorder {
	struct lw_run *run;
	const struct lw_hvd_input *input;
	const struct sim_spec *spec;
	int64_t start_ns[64]; /* of this step, by rank: steps of a rank follow each other */
	int64_t last_enter_ns[64];
};

static const int64_t ORIGIN_NS = INT64_C(1000000000000);

static void record_batch(void *context, const struct lw_hvd_batch *batch)
{
	struct recorder *recorder = context;
	struct lw_group group = {.op = LW_COLL_ALLREDUCE,
		.bytes = batch->bytes,
		.n_ranks = recorder->spec->n_ranks,
		.first_start_ns = INT64_MAX};

	group.batch_of_rank = calloc(recorder->spec->n_ranks, sizeof(int32_t));
	group.last_start_ns = group.round_ns = INT64_MIN;
	for (uint32_t r = 0; r < recorder->spec->n_ranks; r++) {
		struct lw_rank *rank = &recorder->run->ranks.at[r];
		struct lw_batch one = {.op = LW_COLL_ALLREDUCE,
			.serial = rank->batches.n + 1,
			.bytes = batch->bytes,
			.fusion_bytes = recorder->spec->setting.fusion_bytes,
			.start_ns = ORIGIN_NS + batch->start_ns,
			.end_ns = ORIGIN_NS + batch->end_ns,
			.wire_start_ns = ORIGIN_NS + batch->wire_start_ns,
			.wire_end_ns = ORIGIN_NS + batch->wire_end_ns,
			.agreed_ns = ORIGIN_NS + batch->agreed_ns,
			.cycle_ns = ORIGIN_NS + batch->round_ns,
			.first_member = (uint32_t)rank->members.n,
			.n_members = batch->n_members,
			.dtype = LW_DTYPE_FLOAT32,
			.step = (int32_t)batch->step,
			.group = (int32_t)recorder->run->groups.n};
		size_t row = (size_t)batch->step * recorder->spec->n_ranks + r;

		for (uint32_t m = 0; m < batch->n_members; m++) {
			uint32_t t = batch->members[m];
			struct lw_member member = {t, recorder->spec->bytes[t],
				ORIGIN_NS + recorder->start_ns[r] +
					recorder->input
						->ready_ns[row * recorder->spec->n_tensors + t],
				LW_NS_UNKNOWN};

			if (member.ready_ns > group.last_ready_ns)
				group.last_ready_ns = member.ready_ns;
			lw_vec_push(&rank->members, member);
		}
		group.batch_of_rank[r] = (int32_t)rank->batches.n;
		if (one.wire_start_ns > group.last_start_ns)
			group.last_start_ns = one.wire_start_ns;
		if (one.wire_start_ns < group.first_start_ns)
			group.first_start_ns = one.wire_start_ns;
		if (one.cycle_ns > group.round_ns)
			group.round_ns = one.cycle_ns;
		lw_vec_push(&rank->batches, one);
	}
	group.last_end_ns = ORIGIN_NS + batch->wire_end_ns;
	lw_vec_push(&recorder->run->groups, group);
}

static int64_t last_ready_ns(const struct lw_rank *rank, const struct lw_step *step)
{
	int64_t last_ns = LW_NS_UNKNOWN;

	for (uint32_t b = 0; b < step->n_batches; b++) {
		const struct lw_batch *batch = &rank->batches.at[step->first_batch + b];

		for (uint32_t m = 0; m < batch->n_members; m++)
			if (rank->members.at[batch->first_member + m].ready_ns > last_ns)
				last_ns = rank->members.at[batch->first_member + m].ready_ns;
	}
	return last_ns;
}

static void record_step(void *context, uint32_t step, const int64_t *start_ns,
	const int64_t *blocked_ns, const int64_t *resumed_ns, const int64_t *end_ns)
{
	struct recorder *recorder = context;

	for (uint32_t r = 0; r < recorder->spec->n_ranks; r++) {
		struct lw_rank *rank = &recorder->run->ranks.at[r];
		struct lw_step one = {.start_ns = ORIGIN_NS + start_ns[r],
			.end_ns = ORIGIN_NS + end_ns[r],
			.excluded = step == 0 ? "warm-up" : NULL,
			.blocked_ns = ORIGIN_NS + blocked_ns[r],
			.resumed_ns = ORIGIN_NS + resumed_ns[r]};
		struct lw_interval wait = {one.blocked_ns, one.blocked_ns};
		int64_t poll_ns = recorder->spec->cost.poll_ns > 0
					  ? (int64_t)recorder->spec->cost.poll_ns
					  : one.resumed_ns - one.blocked_ns;
		size_t b = rank->batches.n;

		while (b > 0 && rank->batches.at[b - 1].step == (int32_t)step)
			b--;
		one.first_batch = (uint32_t)b;
		one.n_batches = (uint32_t)(rank->batches.n - b);
		one.last_ready_ns = last_ready_ns(rank, &one);
		lw_vec_push(&rank->steps, one);
		while (wait.end_ns < one.resumed_ns) { /* one sleep after the other */
			wait.start_ns = wait.end_ns;
			wait.end_ns += poll_ns;
			lw_vec_push(&rank->waits, wait);
		}
		recorder->start_ns[r] = end_ns[r];
	}
}

/* The idle rounds of a whole run, as one counted record a rank. */
static void record_idle(struct recorder *recorder)
{
	const struct sim_spec *spec = recorder->spec;

	for (uint32_t r = 0; r < spec->n_ranks; r++) {
		double period_ns = (double)spec->setting.cycle_ns + spec->cost.oversleep_ns;
		struct lw_cycle cycle = {.op = LW_CYCLE_AND,
			.n_words = 1,
			.n_unchanged = 20,
			.unchanged_ns = (int64_t)(20 * spec->cost.round_ns),
			.unchanged_span_ns = (int64_t)(19 * period_ns + spec->cost.round_ns)};

		lw_vec_push(&recorder->run->ranks.at[r].cycles, cycle);
	}
}

struct lw_run *sim_run_new(const struct sim_spec *spec)
{
	struct recorder recorder = {.run = calloc(1, sizeof(struct lw_run)), .spec = spec};
	struct lw_hvd_observer observer = {record_batch, record_step, &recorder};
	struct lw_hvd_input *input = sim_job(spec);
	int64_t *step_ns = calloc((size_t)spec->n_steps * spec->n_ranks, sizeof(*step_ns));
	struct lw_hvd_sim *sim;

	recorder.input = input;
	recorder.run->size = (int32_t)spec->n_ranks;
	recorder.run->is_closed = true;
	for (uint32_t t = 0; t < spec->n_tensors; t++) {
		struct lw_tensor tensor = {"gradient", spec->bytes[t], LW_DTYPE_FLOAT32};

		lw_vec_push(&recorder.run->tensors, tensor);
	}
	for (uint32_t r = 0; r < spec->n_ranks; r++) {
		static const char *const hosts[] = {"a", "b", "c", "d", "e", "f", "g", "h"};
		struct lw_rank rank = {.rank = (int32_t)r,
			.host = (char *)(uintptr_t)hosts[r % 8],
			.framework = LW_FRAMEWORK_HOROVOD,
			.transport = LW_TRANSPORT_GLOO};

		for (size_t i = 0; i < sizeof(rank.setting) / sizeof(rank.setting[0]); i++)
			rank.setting[i] = NAN;
		rank.setting[LW_SETTING_FUSION_BYTES] = (double)spec->setting.fusion_bytes;
		rank.setting[LW_SETTING_CYCLE_NS] = (double)spec->setting.cycle_ns;
		lw_vec_push(&recorder.run->ranks, rank);
	}
	if (lw_hvd_sim_new(spec->n_ranks, spec->n_tensors, &sim) < 0 ||
		lw_hvd_sim_run(sim, input, &spec->setting, &spec->cost, step_ns, NULL, &observer) <
			0)
		abort();
	record_idle(&recorder);
	lw_hvd_sim_free(sim);
	free(step_ns);
	free(input);
	return recorder.run;
}

double sim_median_ns(const struct sim_spec *spec)
{
	struct lw_hvd_input *input = sim_job(spec);
	int64_t *step_ns = calloc((size_t)spec->n_steps * spec->n_ranks, sizeof(*step_ns));
	double *means = calloc(spec->n_steps, sizeof(*means)), median_ns;
	struct lw_hvd_sim *sim;

	if (lw_hvd_sim_new(spec->n_ranks, spec->n_tensors, &sim) < 0 ||
		lw_hvd_sim_run(sim, input, &spec->setting, &spec->cost, step_ns, NULL, NULL) < 0)
		abort();
	for (uint32_t s = 1; s < spec->n_steps; s++)
		for (uint32_t r = 0; r < spec->n_ranks; r++)
			means[s - 1] += (double)step_ns[s * spec->n_ranks + r] / spec->n_ranks;
	median_ns = lw_stats_median(means, spec->n_steps - 1);
	lw_hvd_sim_free(sim);
	free(means);
	free(step_ns);
	free(input);
	return median_ns;
}

void sim_run_free(struct lw_run *run)
{
	struct lw_group *group;
	struct lw_rank *rank;
	struct lw_diag *diag;

	lw_vec_foreach (group, &run->groups)
		free(group->batch_of_rank);
	lw_vec_foreach (rank, &run->ranks) {
		lw_vec_free(&rank->batches);
		lw_vec_free(&rank->members);
		lw_vec_free(&rank->parameters);
		lw_vec_free(&rank->gradients);
		lw_vec_free(&rank->waits);
		lw_vec_free(&rank->cycles);
		lw_vec_free(&rank->steps);
	}
	lw_vec_foreach (diag, &run->diags)
		free(diag->text);
	lw_vec_free(&run->diags);
	lw_vec_free(&run->groups);
	lw_vec_free(&run->probes);
	lw_vec_free(&run->ranks);
	lw_vec_free(&run->tensors);
	free(run);
}
