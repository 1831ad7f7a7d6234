/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_json.c - what GPUs and NCCL did, for programs (docs/schema/report.json). */
#include <math.h>

#include "analyzer/emit/gpu.h"
#include "analyzer/emit/json.h"

static void put_ns(struct lw_json *json, const char *key, double ns)
{
	lw_json_figure(json, key,
		isnan(ns) ? lw_summary_unknown("the records that would tell are not in the run")
			  : lw_summary_exact(ns, LW_MEASURED));
}

/* From its first kernel to its last end: as profilers and HTA count. */
static void put_recorded(struct lw_json *json, const struct lw_gpu_rank_figures *recorded)
{
	lw_json_object(json, "recorded");
	put_ns(json, "length_ns", recorded->whole_ns);
	put_ns(json, "comm_sum_ns", recorded->comm_sum_ns);
#define X(name) lw_json_figure(json, #name "_ns", recorded->name##_ns);
	LW_GPU_FIGURES(X)
#undef X
	lw_json_object_end(json);
}

static void put_rank(struct lw_json *json, const struct lw_gpu_rank_figures *rank,
	const struct lw_gpu_rank_figures *recorded)
{
	lw_json_object(json, NULL);
	lw_json_int(json, "rank", rank->rank);
	lw_json_int(json, "n_steps", (int64_t)rank->n_steps);
	put_ns(json, "whole_ns", rank->whole_ns);
#define X(name) lw_json_figure(json, #name "_ns", rank->name##_ns);
	LW_GPU_FIGURES(X)
#undef X
	put_recorded(json, recorded);
	lw_json_object_end(json);
}

static void put_device(
	struct lw_json *json, const struct lw_rank *rank, const struct lw_gpu_device *device)
{
	lw_json_object(json, NULL);
	lw_json_int(json, "rank", rank->rank);
	lw_json_int(json, "device", device->device);
	lw_json_string(json, "name", device->name && *device->name ? device->name : NULL);
	lw_json_string(json, "pci", device->pci && *device->pci ? device->pci : NULL);
	if (device->memory_bytes)
		lw_json_int(json, "memory_bytes", (int64_t)device->memory_bytes);
	else
		lw_json_null(json, "memory_bytes");
	lw_json_int(json, "n_multiprocessors", device->n_multiprocessors);
	lw_json_int(json, "major", device->major);
	lw_json_int(json, "minor", device->minor);
	lw_json_object_end(json);
}

static void put_kernel(struct lw_json *json, const struct lw_gpu_name *name)
{
	char read[LW_KERNEL_TEXT_BYTES];

	lw_json_object(json, NULL);
	lw_json_string(json, "name", name->name);
	lw_json_string(json, "read", lw_kernel_text(name->name, read));
	lw_json_string(json, "class", lw_gpu_class_name(name->gpu_class));
	lw_json_int(json, "n", (int64_t)name->n);
	put_ns(json, "total_ns", (double)name->total_ns);
	lw_json_figure(json, "share_frac", lw_summary_exact(name->share_frac, LW_MEASURED));
	lw_json_object_end(json);
}

static void put_nccl(struct lw_json *json, const struct lw_gpu_nccl *row)
{
	lw_json_object(json, NULL);
	lw_json_string(json, "op", lw_nccl_op_name(row->op));
	lw_json_string(
		json, "algorithm", row->algorithm ? lw_nccl_algorithm_name(row->algorithm) : NULL);
	lw_json_string(
		json, "protocol", row->protocol ? lw_nccl_protocol_name(row->protocol) : NULL);
	lw_json_int(json, "n", (int64_t)row->n);
	lw_json_int(json, "n_timed", (int64_t)row->n_timed);
	lw_json_bool(json, "is_matched", row->is_matched);
	lw_json_figure(json, "bytes", row->bytes);
	lw_json_figure(json, "kernel_ns", row->kernel_ns);
	lw_json_figure(json, "service_ns", row->service_ns);
	lw_json_figure(json, "algbw_bytes_per_s", row->algbw_bytes_per_s);
	lw_json_figure(json, "busbw_bytes_per_s", row->busbw_bytes_per_s);
	lw_json_object_end(json);
}

static void put_lost(struct lw_json *json, const struct lw_run *run, const struct lw_gpu_lost *lost)
{
	const struct lw_rank *rank = &run->ranks.at[lost->rank];
	char text[LW_GPU_TEXT_BYTES];

	lw_json_object(json, NULL);
	lw_json_int(json, "rank", rank->rank);
	if (lost->step == LW_NONE)
		lw_json_null(json, "step");
	else
		lw_json_int(json, "step", lost->step);
	lw_json_int(json, "start_ns", lost->start_ns);
	lw_json_int(json, "end_ns", lost->end_ns);
	put_ns(json, "wait_ns", lw_summary_known(lw_gpu_lost_wait_ns(run, lost)));
	lw_json_string(json, "call", lw_gpu_lost_call(run, lost));
	put_ns(json, "exposed_ns", (double)lost->exposed_ns);
	lw_json_string(
		json, "kernel", run->gpu.names.at[rank->gpu.kernels.at[lost->kernel].name].name);
	lw_json_string(json, "text", lw_gpu_lost_text(run, lost, text));
	lw_json_object_end(json);
}

static void put_sources(struct lw_json *json, const struct lw_run *run)
{
	static const char *const statuses[] = {"?", "active", "absent", "refused"};
	const struct lw_told *told;

	lw_json_array(json, "sources");
	lw_vec_foreach (told, &run->told) {
		lw_json_object(json, NULL);
		lw_json_string(json, "name", told->name);
		lw_json_string(json, "status",
			statuses[told->status > 0 && told->status <= LW_HOOK_REFUSED ? told->status
										     : 0]);
		lw_json_int(json, "n_processes", told->n_processes);
		lw_json_string(json, "detail", *told->detail ? told->detail : NULL);
		lw_json_object_end(json);
	}
	lw_json_array_end(json);
}

static void put_devices(struct lw_json *json, const struct lw_run *run)
{
	const struct lw_gpu_device *device;
	const struct lw_rank *rank;

	lw_json_array(json, "devices");
	lw_vec_foreach (rank, &run->ranks)
		lw_vec_foreach (device, &rank->gpu.devices)
			put_device(json, rank, device);
	lw_json_array_end(json);
}

static int put_summary(
	struct lw_json *json, const struct lw_run *run, const struct lw_gpu_summary *summary)
{
	const struct lw_gpu_lost *lost;
	const struct lw_gpu_nccl *row;
	uint64_t n[LW_GPU_NCCL_SOURCES];
	int status;

	lw_json_bool(json, "is_time_source", lw_gpu_is_time(run));
	lw_json_array(json, "ranks");
	for (size_t i = 0; i < summary->ranks.n; i++)
		put_rank(json, &summary->ranks.at[i], &summary->recorded.at[i]);
	lw_json_array_end(json);
	put_devices(json, run);
	lw_json_array(json, "kernels");
	for (size_t i = 0; i < summary->kernels.n; i++)
		put_kernel(json, summary->kernels.at[i]);
	lw_json_array_end(json);
	lw_json_array(json, "nccl");
	lw_vec_foreach (row, &summary->nccl)
		put_nccl(json, row);
	lw_json_array_end(json);
	lw_json_object(json, "sync_lost");
	lw_json_int(json, "n", (int64_t)run->gpu.n_lost);
	lw_json_int(json, "n_unclear", (int64_t)run->gpu.n_lost_unclear);
	lw_json_array(json, "longest");
	lw_vec_foreach (lost, &run->gpu.lost)
		put_lost(json, run, lost);
	lw_json_array_end(json);
	lw_json_object_end(json);
	put_sources(json, run);
	lw_gpu_nccl_sources(run, n);
	lw_json_object(json, "nccl_told");
	for (int i = 0; i < LW_GPU_NCCL_SOURCES; i++)
		lw_json_int(json, lw_gpu_nccl_source_name(i), (int64_t)n[i]);
	lw_json_object_end(json);
	status = lw_gpu_proxies_json(json, run);
	return status == LW_OK ? lw_gpu_devices_json(json, run) : status;
}

int lw_gpu_json(struct lw_json *json, const struct lw_run *run)
{
	struct lw_gpu_summary summary;
	int status;

	if (!lw_gpu_is_there(run)) {
		lw_json_null(json, "gpu");
		return LW_OK;
	}
	status = lw_gpu_summarize(run, &summary);
	lw_json_object(json, "gpu");
	if (status == LW_OK)
		status = put_summary(json, run, &summary);
	lw_json_object_end(json);
	lw_gpu_summary_done(&summary);
	return status;
}
