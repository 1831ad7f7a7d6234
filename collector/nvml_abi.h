/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvml_abi.h - NVML's ABI as numbers: functions, structures and results as in NVIDIA's public nvml.h (API versions
 * 11 to 13), and the library by dlopen.
 */
#ifndef LAPWING_COLLECTOR_NVML_ABI_H
#define LAPWING_COLLECTOR_NVML_ABI_H

#include <assert.h>

enum {
	LW_NVML_OK = 0,
	LW_NVML_NOT_SUPPORTED = 3,
	LW_NVML_FUNCTION_NOT_FOUND = 13,
	LW_NVML_GPU_IS_LOST = 15,
	LW_NVML_RESET_REQUIRED = 16,
	LW_NVML_ARGUMENT_VERSION_MISMATCH = 25,
	LW_NVML_DEPRECATED = 26,
};
enum { LW_NVML_CLOCK_SM = 1 };
enum {
	LW_NVML_TYPE_UINT = 1,
	LW_NVML_TYPE_ULONG = 2,
	LW_NVML_TYPE_ULLONG = 3,
	LW_NVML_TYPE_LLONG = 4,
	LW_NVML_TYPE_INT = 5
};

struct lw_nvml_utilization {
	unsigned gpu_percent, memory_percent;
};
struct lw_nvml_memory {
	unsigned long long total_bytes, free_bytes, used_bytes;
};
struct lw_nvml_pci { /* nvmlPciInfo_t */
	char legacy[16];
	unsigned domain, bus, device, device_id, subsystem_id;
	char bus_id[32];
};
static_assert(sizeof(struct lw_nvml_pci) == 68, "nvmlPciInfo_t");
struct lw_nvml_field { /* nvmlFieldValue_t */
	unsigned id, scope;
	long long timestamp_us, latency_us;
	int type, result;
	union {
		unsigned uint;
		int sint;
		unsigned long ulong;
		unsigned long long ullong;
	} value;
};
static_assert(sizeof(struct lw_nvml_field) == 40, "nvmlFieldValue_t");

/* X(member, symbol, parameters); the ones that only newer or older libraries have come with both names */
#define LW_NVML_FUNCTIONS(X)                                                                       \
	X(init, "nvmlInit_v2", (void))                                                             \
	X(get_driver, "nvmlSystemGetDriverVersion", (char *, unsigned))                            \
	X(get_count, "nvmlDeviceGetCount_v2", (unsigned *))                                        \
	X(get_handle, "nvmlDeviceGetHandleByIndex_v2", (unsigned, void **))                        \
	X(get_name, "nvmlDeviceGetName", (void *, char *, unsigned))                               \
	X(get_pci, "nvmlDeviceGetPciInfo_v3", (void *, struct lw_nvml_pci *))                      \
	X(get_utilization, "nvmlDeviceGetUtilizationRates",                                        \
		(void *, struct lw_nvml_utilization *))                                            \
	X(get_memory, "nvmlDeviceGetMemoryInfo", (void *, struct lw_nvml_memory *))                \
	X(get_clock, "nvmlDeviceGetClockInfo", (void *, int, unsigned *))                          \
	X(get_power, "nvmlDeviceGetPowerUsage", (void *, unsigned *))                              \
	X(get_energy, "nvmlDeviceGetTotalEnergyConsumption", (void *, unsigned long long *))       \
	X(get_fields, "nvmlDeviceGetFieldValues", (void *, int, struct lw_nvml_field *))           \
	X(get_reasons, "nvmlDeviceGetCurrentClocksEventReasons", (void *, unsigned long long *))   \
	X(get_old_reasons, "nvmlDeviceGetCurrentClocksThrottleReasons",                            \
		(void *, unsigned long long *))

struct lw_nvml_library {
	void *handle;
	const char *(*error_text)(int);
#define X(member, symbol, parameters) int(*member) parameters;
	LW_NVML_FUNCTIONS(X)
#undef X
};

/* Return: what is wrong, NULL = nothing. A function that it does not have is NULL, but for those that nothing works without. */
const char *lw_nvml_library_open(struct lw_nvml_library *library);

/* Of a function's @result. Never NULL; the library's own. */
const char *lw_nvml_error_text(const struct lw_nvml_library *library, int result);

#endif
