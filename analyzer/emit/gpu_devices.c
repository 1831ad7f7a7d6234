/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_devices.c - what NVML counted of GPUs while steps went on, as text and JSON. */
#include <math.h>

#include "analyzer/emit/gpu.h"
#include "analyzer/emit/json.h"
#include "analyzer/emit/wrap.h"
#include "analyzer/reconstruct/gpu_counters.h"
#include "base/units.h"

enum { MAX_GPUS = 16 };
#define WORTH_HELD_FRAC 0.01 /* of the time */

static const char *percent(double frac, char text[LW_UNIT_TEXT_BYTES])
{
	snprintf(text, LW_UNIT_TEXT_BYTES, isfinite(frac) ? "%.0f %%" : "?", 100 * frac);
	return text;
}

static const char *scaled(double value, double by, const char *unit, char text[LW_UNIT_TEXT_BYTES])
{
	snprintf(text, LW_UNIT_TEXT_BYTES, isfinite(value) ? "%.4g %s" : "?", value / by, unit);
	return text;
}

static void print_gpu(FILE *out, const struct lw_run *run, const struct lw_gpu_counted *gpu)
{
	char text[6][LW_UNIT_TEXT_BYTES], rank[16] = "-";

	if (gpu->rank != LW_NONE)
		snprintf(rank, sizeof(rank), "%d%s", lw_run_rank_number(run, gpu->rank),
			gpu->n_ranks > 1 ? "+" : "");
	fprintf(out, "  %4s %-13.13s %6s %9s %8s %9s %10s %10s\n", rank, gpu->device->on_name,
		percent(gpu->busy_frac, text[0]), scaled(gpu->sm_clock_khz, 1e6, "GHz", text[1]),
		scaled(gpu->power_mw, 1e3, "W", text[2]),
		lw_bytes_or_unknown(gpu->memory_used_bytes, text[3]),
		lw_rate_or_unknown(gpu->nvlink_tx_bytes_per_s, text[4]),
		lw_rate_or_unknown(gpu->pcie_tx_bytes_per_s + gpu->pcie_rx_bytes_per_s, text[5]));
}

static void print_held(FILE *out, const struct lw_gpu_counted *gpu)
{
	char text[256];

	for (int i = 0; i < LW_GPU_N_HOLDS; i++) {
		if (!(gpu->held_frac[i] >= WORTH_HELD_FRAC))
			continue;
		snprintf(text, sizeof(text),
			"%.13s: %s held its clock down for %.0f %% of the time",
			gpu->device->on_name, lw_gpu_hold_words(i), 100 * gpu->held_frac[i]);
		fputs("  ", out);
		lw_print_wrapped(out, 2, 2, text);
	}
}

void lw_gpu_devices_text(const struct lw_run *run, FILE *out)
{
	struct lw_gpu_counters counters;
	const struct lw_gpu_counted *gpu;
	size_t n = 0;

	if (lw_gpu_counters(run, &counters) == LW_OK && counters.at.n) {
		fputs("GPUs while steps went on, by NVML (whoever used them)\n", out);
		fprintf(out, "  %4s %-13s %6s %9s %8s %9s %10s %10s\n", "rank", "GPU", "busy",
			"clock", "power", "memory", "NVLink out", "PCIe");
		lw_vec_foreach (gpu, &counters.at)
			if (n++ < MAX_GPUS)
				print_gpu(out, run, gpu);
		if (n > MAX_GPUS)
			fprintf(out, "  ... and %zu more (--json has all)\n", n - MAX_GPUS);
		lw_vec_foreach (gpu, &counters.at)
			print_held(out, gpu);
		fputc('\n', out);
	}
	lw_vec_free(&counters.at);
}

static void put(struct lw_json *json, const char *key, double value)
{
	lw_json_figure(json, key,
		isfinite(value) ? lw_summary_exact(value, LW_MEASURED)
				: lw_summary_unknown("NVML did not count it"));
}

static void put_gpu(
	struct lw_json *json, const struct lw_run *run, const struct lw_gpu_counted *gpu)
{
	char key[64];

	lw_json_object(json, NULL);
	lw_json_string(json, "name", gpu->device->name);
	lw_json_string(json, "pci", gpu->device->on_name);
	lw_json_string(json, "host", gpu->device->host);
	if (gpu->rank == LW_NONE)
		lw_json_null(json, "rank");
	else
		lw_json_int(json, "rank", lw_run_rank_number(run, gpu->rank));
	lw_json_int(json, "n_ranks", (int64_t)gpu->n_ranks);
#define X(member, counter, scale, is_gauge) put(json, #member, gpu->member);
	LW_GPU_COUNTS(X)
#undef X
	lw_json_object(json, "held");
	for (int i = 0; i < LW_GPU_N_HOLDS; i++) {
		snprintf(key, sizeof(key), "%s_frac", lw_gpu_hold_name(i));
		put(json, key, gpu->held_frac[i]);
	}
	lw_json_object_end(json);
	lw_json_object_end(json);
}

int lw_gpu_devices_json(struct lw_json *json, const struct lw_run *run)
{
	struct lw_gpu_counters counters;
	const struct lw_gpu_counted *gpu;
	int status = lw_gpu_counters(run, &counters);

	lw_json_array(json, "counters");
	lw_vec_foreach (gpu, &counters.at)
		put_gpu(json, run, gpu);
	lw_json_array_end(json);
	lw_vec_free(&counters.at);
	return status;
}
