/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_nvml.c - a double of libnvidia-ml.so.1: GPUs whose counters move by known amounts with every look.
 *
 * FAKE_NVML=gpus=2,old,lost=1,init=9,hang=2 (see struct fake_nvml; lost: which GPU, from its third look on).
 */
#include "tests/lib/fake_nvml.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OK = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, GPU_IS_LOST = 15 };

static struct fake_nvml state = {.n_gpus = 2};
static int lost_later = -1;
static int is_by_itself; /* nobody sets the state: it moves with every look */

struct fake_nvml *fake_nvml_state(void)
{
	return &state;
}

__attribute__((constructor)) static void load(void)
{
	const char *text = getenv("FAKE_NVML");
	char *copy = strdup(text ? text : ""), *rest = copy, *word;

	is_by_itself = text != NULL;
	while ((word = strtok_r(rest, ",", &rest))) {
		const char *value = strchr(word, '=');
		int number = value ? (int)strtol(value + 1, NULL, 10) : 1;

		state.n_gpus = strncmp(word, "gpus", 4) ? state.n_gpus : number;
		state.init_result = strncmp(word, "init", 4) ? state.init_result : number;
		state.is_old = strncmp(word, "old", 3) ? state.is_old : number;
		state.hang_s = strncmp(word, "hang", 4) ? state.hang_s : number;
		lost_later = strncmp(word, "lost", 4) ? lost_later : number;
	}
	free(copy);
}

static int gpu_of(const void *device)
{
	return (int)((intptr_t)device - 1);
}

/* Return: 0, or what a call for a GPU that is lost returns. */
static int check(const void *device)
{
	int gpu = gpu_of(device);

	state.n_calls++;
	if (gpu < 0 || gpu >= state.n_gpus)
		return INVALID_ARGUMENT;
	return state.gpus[gpu].is_lost ? GPU_IS_LOST : OK;
}

#define OF(device) state.gpus[gpu_of(device)]

int nvmlInit_v2(void)
{
	return state.init_result;
}

const char *nvmlErrorString(int result)
{
	return result == 9             ? "Driver Not Loaded"
	       : result == GPU_IS_LOST ? "GPU is lost"
				       : "Some Error";
}

int nvmlSystemGetDriverVersion(char *version, unsigned n)
{
	snprintf(version, n, "580.95.05");
	return OK;
}

int nvmlDeviceGetCount_v2(unsigned *n)
{
	*n = (unsigned)state.n_gpus;
	return OK;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device)
{
	*device = (void *)((intptr_t)index + 1);
	return OK;
}

int nvmlDeviceGetName(void *device, char *name, unsigned n)
{
	snprintf(name, n, "Fake GPU");
	return check(device);
}

int nvmlDeviceGetPciInfo_v3(void *device, void *pci)
{
	char *at = pci;

	snprintf(at + 36, 32, "00000000:%02X:00.0", 0x3b + gpu_of(device));
	return check(device);
}

static void move(int gpu)
{
	static int n_looks[FAKE_GPUS_MAX];

	n_looks[gpu]++;
	state.gpus[gpu].is_lost |= gpu == lost_later && n_looks[gpu] >= 3;
	state.gpus[gpu].busy_percent = 40 + (unsigned)n_looks[gpu] % 2 * 50;
	state.gpus[gpu].memory_percent = 20;
	state.gpus[gpu].clock_mhz = n_looks[gpu] % 2 ? 1980 : 1200;
	state.gpus[gpu].power_mw = 350000;
	state.gpus[gpu].used_bytes = 1ULL << 34;
	state.gpus[gpu].energy_mj += 35000;
	state.gpus[gpu].reasons = 4;
	state.gpus[gpu].nvlink_tx_kib += 1024;
	state.gpus[gpu].nvlink_rx_kib += 2048;
	state.gpus[gpu].pcie_tx_bytes += 4096;
	state.gpus[gpu].pcie_rx_bytes += 8192;
}

int nvmlDeviceGetUtilizationRates(void *device, unsigned *rates)
{
	if (state.hang_s)
		sleep((unsigned)state.hang_s);
	if (is_by_itself && check(device) == OK)
		move(gpu_of(device));
	if (check(device) != OK)
		return check(device);
	rates[0] = OF(device).busy_percent;
	rates[1] = OF(device).memory_percent;
	return OK;
}

int nvmlDeviceGetMemoryInfo(void *device, unsigned long long *memory)
{
	if (check(device) == OK)
		memory[2] = OF(device).used_bytes;
	return check(device);
}

int nvmlDeviceGetClockInfo(void *device, int type, unsigned *mhz)
{
	if (check(device) == OK)
		*mhz = OF(device).clock_mhz;
	return type != 1 ? INVALID_ARGUMENT : check(device);
}

int nvmlDeviceGetPowerUsage(void *device, unsigned *mw)
{
	if (check(device) == OK)
		*mw = OF(device).power_mw;
	return check(device);
}

int nvmlDeviceGetTotalEnergyConsumption(void *device, unsigned long long *mj)
{
	if (check(device) == OK)
		*mj = OF(device).energy_mj;
	return state.is_old ? NOT_SUPPORTED : check(device);
}

int nvmlDeviceGetCurrentClocksEventReasons(void *device, unsigned long long *reasons)
{
	if (check(device) == OK)
		*reasons = OF(device).reasons;
	return check(device);
}

struct field {
	unsigned id, scope;
	long long timestamp_us, latency_us;
	int type, result;
	unsigned long long value;
};

static void answer(void *device, struct field *field)
{
	int is_sum = field->scope == UINT32_MAX, is_link = field->scope < 4;

	field->type = 3;
	field->result = OK;
	switch (field->id) {
	case 138:
	case 139:
		field->value =
			field->id == 138 ? OF(device).nvlink_tx_kib : OF(device).nvlink_rx_kib;
		if (!is_sum || state.is_old)
			field->result = NOT_SUPPORTED;
		return;
	case 202:
	case 204: /* bytes of each of four links: a quarter */
		field->value = 256 * (field->id == 202 ? OF(device).nvlink_tx_kib
						       : OF(device).nvlink_rx_kib);
		if (!is_link)
			field->result = INVALID_ARGUMENT;
		return;
	case 197:
	case 198:
		field->value =
			field->id == 197 ? OF(device).pcie_tx_bytes : OF(device).pcie_rx_bytes;
		if (state.is_old)
			field->result = INVALID_ARGUMENT;
		return;
	}
	field->result = NOT_SUPPORTED;
}

int nvmlDeviceGetFieldValues(void *device, int n, struct field *fields)
{
	if (check(device) != OK)
		return check(device);
	for (int i = 0; i < n; i++)
		answer(device, &fields[i]);
	return OK;
}
