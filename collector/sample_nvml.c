/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sample_nvml.c - GPUs of the host, from NVIDIA's management library: how busy, at which clock and what held it
 * down, power, memory, bytes over NVLink and PCIe. nvml.c reads them, in a thread of its own.
 *
 * A host without NVIDIA's driver is not in trouble: that is said where there is a GPU, or the library, and it does
 * not work.
 */
#include <stdio.h>
#include <string.h>

#include "collector/nvml.h"
#include "collector/sampler.h"

static const struct lw_counter counters[LW_NVML_N_VALUES] = {
#define LW_NVML(NAME, name, unit, scale, is_gauge) {name, name, unit, 64, scale, is_gauge},
#include "schema/counters.def"
};
#define PATIENCE_NS (10 * LW_NS_PER_S)

static void store_gpu(struct lw_samplers *samplers, const struct lw_nvml_look *look, size_t i)
{
	const struct lw_nvml_gpu *gpu = &look->gpus[i];
	struct lw_device *device;

	if (gpu->is_lost) /* the sweep ends it */
		return;
	/* numbered as NVML does; CUDA may number them otherwise, and table gpu has the bus id too */
	device = lw_device_find(samplers, LW_DEVICE_GPU, 0, (uint32_t)i, gpu->name);
	if (!device)
		return;
	lw_device_set(device, device->on_name, sizeof(device->on_name), gpu->pci);
	lw_device_set(device, device->driver, sizeof(device->driver), "nvidia");
	for (int value = 0; value < LW_NVML_N_VALUES; value++)
		if (gpu->known >> value & 1)
			lw_device_read(samplers, device, &counters[value], gpu->values[value]);
	lw_device_commit(samplers, device, look->at_ns);
}

void lw_sample_nvml(struct lw_samplers *samplers)
{
	struct lw_nvml_look *look = samplers->nvml_look;

	if (!look) {
		samplers->nvml_look = look = calloc(1, sizeof(*look));
		samplers->nvml = look ? lw_nvml_start() : NULL;
		if (!samplers->nvml)
			lw_samplers_trouble(samplers, "GPUs are not sampled: no memory or thread");
		return;
	}
	if (!samplers->nvml || look->is_last)
		return;
	if (!lw_nvml_take(samplers->nvml, look)) {
		if (lw_nvml_busy_ns(samplers->nvml) > PATIENCE_NS && !samplers->is_nvml_slow) {
			samplers->is_nvml_slow = true;
			lw_samplers_trouble(samplers, "GPUs: NVML does not answer for %d s",
				(int)(PATIENCE_NS / LW_NS_PER_S));
		}
		return;
	}
	samplers->is_nvml_slow = false;
	samplers->elsewhere_ns += look->cpu_ns;
	if (!samplers->has_nvml_begun) /* loading the library, or looking for it, and finding out what there is */
		samplers->once_ns += look->cpu_ns;
	samplers->has_nvml_begun = true;
	if (look->trouble[0])
		lw_samplers_trouble(samplers, "%s", look->trouble);
	samplers->pass++;
	for (size_t i = 0; i < look->n_gpus; i++)
		store_gpu(samplers, look, i);
	lw_devices_sweep(samplers, LW_DEVICE_GPU, 0, samplers->pass);
}
