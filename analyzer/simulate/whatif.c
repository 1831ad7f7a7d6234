/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/simulate/whatif.h"

#include <math.h>
#include <stdlib.h>

#include "analyzer/simulate/extract.h"
#include "analyzer/simulate/regroup.h"
#include "analyzer/simulate/rows.h"
#include "base/err.h"

void lw_whatif_recorded(const struct lw_replay *replay, struct lw_whatif_job *job)
{
	*job = (struct lw_whatif_job){.input = replay->input,
		.setting = replay->setting,
		.cost = replay->cost,
		.is_ddp = replay->is_ddp,
		.ddp = replay->ddp.setting,
		.ddp_cost = replay->ddp.cost,
		.wire = replay->wire,
		.sim = replay->sim,
		.step_ns = replay->step_ns};
}

void lw_whatif_job_done(struct lw_whatif_job *job)
{
	free(job->tensors);
	free(job->group_of);
	free(job->ready_ns);
	if (job->owns_sim)
		lw_hvd_sim_free(job->sim);
}

int lw_replay_scale(const struct lw_replay *replay, const struct lw_whatif *whatif,
	struct lw_wire_scale *ret_scale)
{
	double known = replay->input.n_ranks, n = whatif->n_ranks ? whatif->n_ranks : known;

	*ret_scale = (struct lw_wire_scale){whatif->latency_frac, 1 / whatif->bandwidth_frac};
	if (n == known)
		return LW_OK;
	if (replay->n_missing_ranks > 0)
		return lw_fail(LW_ERR_UNSUPPORTED,
			"%u ranks of the job are not in this run: what others would add cannot be told from it",
			replay->n_missing_ranks);
	if (known < 2)
		return lw_fail(LW_ERR_UNSUPPORTED,
			"a run of one rank holds no network: %.0f ranks cannot be predicted from it",
			n);
	/* ring all-reduce: 2 (N - 1) messages one after the other, 2 (N - 1) / N of the bytes on
	 * each link (Thakur et al. 2005) */
	ret_scale->latency_frac *= (n - 1) / (known - 1);
	ret_scale->volume_frac *= (n - 1) / n / ((known - 1) / known);
	return LW_OK;
}

static bool asks_groups(const struct lw_whatif *whatif)
{
	return whatif->n_groups > 0 || whatif->group_of;
}

static bool asks_wire_frac(const struct lw_whatif *whatif)
{
	return whatif->wire_frac > 0 && whatif->wire_frac != 1;
}

static bool asks_layer(const struct lw_whatif *whatif)
{
	return whatif->layer_bytes_frac > 0 && whatif->layer_bytes_frac != 1;
}

static double convert_ns_per_byte(const struct lw_replay *replay, const struct lw_whatif *whatif)
{
	return isnan(whatif->convert_ns_per_byte)
		       ? replay->cost.copy_in_ns_per_byte + replay->cost.copy_out_ns_per_byte
		       : whatif->convert_ns_per_byte;
}

static bool asks_buckets(const struct lw_whatif *whatif)
{
	return whatif->bucket_cap_bytes > 0 || whatif->first_bucket_bytes > 0;
}

static bool is_same_limit(double asked_bytes, uint64_t recorded_bytes)
{
	return !(asked_bytes > 0) || (uint64_t)asked_bytes == recorded_bytes;
}

static uint32_t ranks_of(const struct lw_replay *replay, const struct lw_whatif *whatif)
{
	return whatif->n_ranks ? whatif->n_ranks : replay->input.n_ranks;
}

/* Asks for more than settings of the loop and of the network. */
static bool is_job_changed(const struct lw_whatif *whatif)
{
	return asks_groups(whatif) || whatif->is_group_fusion_off || whatif->backward_passes > 1 ||
	       asks_wire_frac(whatif) || whatif->is_balanced || asks_layer(whatif);
}

bool lw_whatif_is_recorded(const struct lw_replay *replay, const struct lw_whatif *whatif)
{
	return !(isfinite(whatif->fusion_bytes) &&
		       (uint64_t)whatif->fusion_bytes != replay->setting.fusion_bytes) &&
	       !(isfinite(whatif->cycle_ns) &&
		       (int64_t)llround(whatif->cycle_ns) != replay->setting.cycle_ns) &&
	       is_same_limit(whatif->bucket_cap_bytes, replay->ddp.setting.cap_bytes) &&
	       is_same_limit(whatif->first_bucket_bytes, replay->ddp.setting.first_bytes) &&
	       ranks_of(replay, whatif) == replay->input.n_ranks && whatif->bandwidth_frac == 1 &&
	       whatif->latency_frac == 1 && whatif->compute_frac == 1 && !is_job_changed(whatif);
}

const char *lw_whatif_assumes(const struct lw_replay *replay, const struct lw_whatif *whatif)
{
	if (replay->n_missing_ranks > 0)
		return "ranks of this job are not in the run: when the last of them came to an operation, and left it, is not known, so its costs are assumed to be those of the ranks that are";
	if (ranks_of(replay, whatif) != replay->input.n_ranks)
		return "other ranks are assumed to compute as the recorded ones do and to form a ring";
	if (asks_wire_frac(whatif) && isnan(whatif->convert_ns_per_byte))
		return "converting gradients is assumed to cost what copying them does in this run, and summing them no more than now";
	if (whatif->backward_passes > 1)
		return "a pass that sends nothing is assumed to take what a recorded step computes, the optimizer's part included";
	return NULL;
}

static int refuse(const struct lw_replay *replay, const struct lw_whatif *whatif)
{
	if (replay->is_ddp && (isfinite(whatif->fusion_bytes) || isfinite(whatif->cycle_ns)))
		return lw_fail(LW_ERR_UNSUPPORTED,
			"torch DDP has no fusion threshold and no cycle time: its buckets are made when the job starts");
	if (!replay->is_ddp && asks_buckets(whatif))
		return lw_fail(LW_ERR_UNSUPPORTED,
			"buckets are torch DDP's: Horovod fuses tensors up to its threshold");
	if (replay->is_ddp && asks_buckets(whatif) && replay->ddp.why_fixed)
		return lw_fail(LW_ERR_UNSUPPORTED, "%s", replay->ddp.why_fixed);
	if (replay->is_ddp && (asks_groups(whatif) || whatif->is_group_fusion_off))
		return lw_fail(LW_ERR_UNSUPPORTED,
			"explicit groups are Horovod's: torch DDP puts gradients into buckets");
	if (replay->n_groups > 0 && asks_groups(whatif))
		return lw_fail(LW_ERR_UNSUPPORTED,
			"this run sends %u explicit groups: when each of their gradients was ready is not in it; record the job without groups to predict others",
			replay->n_groups);
	if (asks_layer(whatif) && whatif->layer >= replay->input.n_tensors)
		return lw_fail(LW_ERR_UNSUPPORTED, "no tensor %u: this run has %u", whatif->layer,
			replay->input.n_tensors);
	return LW_OK;
}

static bool is_float(int dtype) /* UNKNOWN is taken to be what gradients mostly are */
{
	return dtype == LW_DTYPE_UNKNOWN || dtype == LW_DTYPE_FLOAT16 ||
	       dtype == LW_DTYPE_BFLOAT16 || dtype == LW_DTYPE_FLOAT32 || dtype == LW_DTYPE_FLOAT64;
}

/* What a floating point gradient of @bytes sends when compressed to @wire_frac of 32 bits an element;
 * others, and those that are smaller already, as they are. */
static uint64_t compressed_bytes(
	const struct lw_replay *replay, uint32_t tensor, uint64_t bytes, double wire_frac)
{
	int dtype = replay->dtypes[tensor];
	int element_bytes = dtype == LW_DTYPE_UNKNOWN ? 4 : lw_dtype_bytes(dtype);
	double sent_bytes = ceil((double)bytes / element_bytes * 4 * wire_frac);

	if (!is_float(dtype) || sent_bytes >= (double)bytes)
		return bytes;
	if (!replay->is_ddp &&
		lw_fuse_class_op(replay->tensors[tensor].fuse_class) != LW_COLL_ALLREDUCE)
		return bytes;
	return (uint64_t)sent_bytes;
}

/* The tensors, in the order of @from, with what the training thread pays for each before it is queued.
 * Return: LW_ERR_UNSUPPORTED when compression was asked and nothing is there to compress. */
static int change_tensors(const struct lw_replay *replay, const struct lw_whatif *whatif,
	const uint32_t *from, struct lw_whatif_job *job, double *ret_convert_ns)
{
	double converted_bytes = 0, sent_bytes = 0;

	for (uint32_t t = 0; t < replay->input.n_tensors; t++) {
		uint32_t recorded = from ? from[t] : t;
		struct lw_hvd_tensor tensor = replay->tensors[recorded];
		uint64_t bytes;

		if (asks_layer(whatif) && recorded == whatif->layer)
			tensor.bytes = (uint64_t)fmax(
				round((double)tensor.bytes * whatif->layer_bytes_frac), 1);
		bytes = asks_wire_frac(whatif) ? compressed_bytes(replay, recorded, tensor.bytes,
							 whatif->wire_frac)
					       : tensor.bytes;
		if (bytes < tensor.bytes) {
			converted_bytes += (double)tensor.bytes;
			sent_bytes += (double)bytes;
			ret_convert_ns[t] =
				convert_ns_per_byte(replay, whatif) / 2 * (double)tensor.bytes;
			/* all of one type now */
			if (tensor.fuse_class >= 0)
				tensor.fuse_class = lw_fuse_class_with_dtype(
					tensor.fuse_class, LW_DTYPE_FLOAT16);
			tensor.bytes = bytes;
		}
		job->tensors[t] = tensor;
	}
	if (asks_wire_frac(whatif) && converted_bytes == 0)
		return lw_fail(LW_ERR_UNSUPPORTED,
			"nothing to compress to %.3g bytes for each 4: this run's gradients are sent in no more, or are not floating point numbers",
			4 * whatif->wire_frac);
	if (sent_bytes > 0)
		job->cost.finish_ns_per_byte =
			convert_ns_per_byte(replay, whatif) / 2 * converted_bytes / sent_bytes;
	return LW_OK;
}

static int change_rows(struct lw_rows *rows, struct lw_whatif_job *job)
{
	const struct lw_hvd_input *recorded = &rows->replay->input;
	size_t n_rows = (size_t)recorded->n_steps * rows->n_ranks, n_tensors = recorded->n_tensors;
	int status;

	job->ready_ns = malloc(n_rows * (n_tensors + 3) * sizeof(*job->ready_ns));
	if (!job->ready_ns)
		return lw_fail(LW_ERR_NOMEM, "no memory to simulate %u ranks", rows->n_ranks);
	job->input.n_ranks = rows->n_ranks;
	job->input.ready_ns = job->ready_ns;
	job->input.blocked_ns = job->ready_ns + n_rows * n_tensors;
	job->input.tail_ns = job->input.blocked_ns + n_rows;
	job->step_ns = job->ready_ns + n_rows * (n_tensors + 2);
	status = lw_rows_fill(rows, job->ready_ns, job->ready_ns + n_rows * n_tensors,
		job->ready_ns + n_rows * (n_tensors + 1));
	if (status < 0 || rows->n_ranks <= recorded->n_ranks)
		return status;
	status = lw_hvd_sim_new(rows->n_ranks, recorded->n_tensors, &job->sim);
	job->owns_sim = status == LW_OK;
	return status;
}

static void change_settings(const struct lw_whatif *whatif, struct lw_whatif_job *job)
{
	if (isfinite(whatif->fusion_bytes))
		job->setting.fusion_bytes = (uint64_t)whatif->fusion_bytes;
	if (isfinite(whatif->cycle_ns))
		job->setting.cycle_ns = (int64_t)llround(whatif->cycle_ns);
	job->setting.is_group_fusion_off |= whatif->is_group_fusion_off;
	if (whatif->bucket_cap_bytes > 0)
		job->ddp.cap_bytes = (uint64_t)whatif->bucket_cap_bytes;
	if (whatif->first_bucket_bytes > 0)
		job->ddp.first_bytes = (uint64_t)whatif->first_bucket_bytes;
	if (asks_wire_frac(whatif)) /* limits are of gradients, what fills them is as sent */
		job->ddp.wire_frac *= whatif->wire_frac;
}

int lw_whatif_job(
	const struct lw_replay *replay, const struct lw_whatif *whatif, struct lw_whatif_job *job)
{
	uint32_t n_tensors = replay->input.n_tensors;
	bool is_converted = asks_wire_frac(whatif) && convert_ns_per_byte(replay, whatif) > 0;
	bool is_changed = asks_groups(whatif) || asks_wire_frac(whatif) || asks_layer(whatif);
	struct lw_rows rows = {.replay = replay,
		.n_ranks = ranks_of(replay, whatif),
		.compute_frac = whatif->compute_frac,
		.n_passes = whatif->backward_passes > 1 ? whatif->backward_passes : 1,
		.is_balanced = whatif->is_balanced};
	double *convert_ns = NULL;
	uint32_t *from = NULL;
	int status;

	lw_whatif_recorded(replay, job);
	change_settings(whatif, job);
	status = refuse(replay, whatif);
	if (status == LW_OK)
		status = lw_replay_scale(replay, whatif, &job->wire.scale);
	if (status < 0)
		return status;
	if (rows.n_ranks != replay->input.n_ranks || rows.is_balanced)
		job->cost.leave_frac = NULL;
	job->cost.round_ns *= job->wire.scale.latency_frac;
	job->cost.late_ns *= job->wire.scale.latency_frac;
	job->ddp_cost.fixed_ns *= job->wire.scale.latency_frac;
	if (is_changed) {
		job->tensors = malloc((n_tensors + 1) * sizeof(*job->tensors));
		job->group_of = malloc((n_tensors + 1) * sizeof(*job->group_of));
		convert_ns = calloc((size_t)n_tensors + 1, sizeof(*convert_ns));
		from = malloc((n_tensors + 1) * sizeof(*from));
		if (!job->tensors || !job->group_of || !convert_ns || !from)
			status = lw_fail(LW_ERR_NOMEM, "no memory for %u tensors", n_tensors);
	}
	if (status == LW_OK && asks_groups(whatif)) {
		status =
			lw_regroup(replay, whatif->n_groups, whatif->group_of, from, job->group_of);
		rows.from = from;
		rows.group_of = job->input.group_of = job->group_of;
	}
	if (status == LW_OK && is_changed) {
		status = change_tensors(replay, whatif, rows.from, job, convert_ns);
		job->input.tensors = job->tensors;
		rows.convert_ns = is_converted ? convert_ns : NULL;
	}
	job->ddp_cost.finish_ns_per_byte = job->cost.finish_ns_per_byte;
	if (status == LW_OK &&
		(rows.n_ranks != replay->input.n_ranks || rows.compute_frac != 1 ||
			rows.n_passes > 1 || rows.is_balanced || rows.group_of || rows.convert_ns))
		status = change_rows(&rows, job);
	free(convert_ns);
	free(from);
	return status;
}
