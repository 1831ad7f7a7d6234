/* SPDX-License-Identifier: Apache-2.0 */
/*
 * doctor_gpu.c - what doctor asks about NVIDIA's side of this machine: driver, CUPTI, NVTX, NVML; and who else has
 * them, for of most there can be one user.
 */
#include <dlfcn.h>
#include <link.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/doctor.h"
#include "collector/nvml.h"
#include "schema/cupti_place.h"
#include "schema/rundir.h"

enum { CUDA_ERROR_STUB_LIBRARY = 34 }; /* cuda.h */

const char *lw_doctor_variable(const struct lw_doctor_patient *patient, const char *name)
{
	size_t n = strlen(name);

	for (char **word = patient->command; word && *word; word++)
		if (!strncmp(*word, name, n) && (*word)[n] == '=')
			return *word + n + 1;
	return getenv(name);
}

/* Another library than ours in the variable @name. Return: NULL = none. */
static const char *other_library(const struct lw_doctor_patient *patient, const char *name)
{
	const char *path = lw_doctor_variable(patient, name);

	return path && *path && !strstr(path, "liblapwing") ? path : NULL;
}

/* Return: what is wrong with the CUDA driver, NULL = nothing. cuInit() is not called: it takes its time. */
static const char *driver_trouble(char *text, size_t text_bytes)
{
	void *library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
	int (*get_version)(int *) =
		library ? (int (*)(int *))(uintptr_t)dlsym(library, "cuDriverGetVersion") : NULL;
	int version = 0, result = get_version ? get_version(&version) : -1;

	if (!library)
		snprintf(
			text, text_bytes, "no libcuda.so.1: NVIDIA's driver is not installed here");
	else if (result == CUDA_ERROR_STUB_LIBRARY)
		snprintf(text, text_bytes,
			"libcuda.so.1 is the stub that programs are linked with, not the driver");
	else if (result != 0)
		snprintf(text, text_bytes, "libcuda.so.1 does not answer (error %d)", result);
	else if (access("/dev/nvidiactl", F_OK) < 0)
		snprintf(text, text_bytes,
			"no /dev/nvidiactl: the driver is not loaded, or this container has no GPU");
	else
		text[0] = '\0';
	if (library)
		dlclose(library);
	return *text ? text : NULL;
}

/* The file that the loader takes for @name. Return: it loads. */
static bool find_file(const char *name, char *path, size_t path_bytes)
{
	void *handle = dlopen(name, RTLD_LAZY | RTLD_LOCAL);
	struct link_map *map;
	bool is_there = handle && dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0;

	if (is_there)
		snprintf(path, path_bytes, "%s", map->l_name);
	if (handle)
		dlclose(handle);
	return is_there;
}

/* The libcudart that the command would have: torch's of pip, or the one that its program is linked to; "" = not known. */
static void find_runtime(const struct lw_doctor_patient *patient, char *path, size_t path_bytes)
{
	static const char *const names[] = {"cu13/lib/libcudart.so.13",
		"cuda_runtime/lib/libcudart.so.12", "cuda_runtime/lib/libcudart.so.11.0"};

	for (size_t i = 0; patient->torch_dir[0] && i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(path, path_bytes, "%.3900s/../nvidia/%s", patient->torch_dir, names[i]);
		if (access(path, R_OK) == 0)
			return;
	}
	for (size_t i = 0; i < patient->program.n_needed; i++)
		if (!strncmp(patient->program.needed[i], "libcudart.so", 12) &&
			find_file(patient->program.needed[i], path, path_bytes))
			return;
	path[0] = '\0';
}

static int driver_major(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
	int (*get_version)(int *) =
		library ? (int (*)(int *))(uintptr_t)dlsym(library, "cuDriverGetVersion") : NULL;
	int version = 0;

	if (get_version && get_version(&version))
		version = 0;
	if (library)
		dlclose(library);
	return version / 1000;
}

/* The CUPTI that the tracer would take in the command's process. Return: its path, NULL = none. */
static const char *find_cupti(
	const struct lw_doctor_patient *patient, char *path, size_t path_bytes)
{
	char runtime[4096], name[8192];
	int major;

	find_runtime(patient, runtime, sizeof(runtime));
	major = runtime[0] ? lw_cupti_major(runtime) : driver_major();
	for (size_t i = 0; lw_cupti_place(runtime, major, i, name, sizeof(name)); i++)
		if (name[0] && find_file(name, path, path_bytes))
			return path;
	return NULL;
}

/* One more reason, or remark. */
static void add(struct lw_doctor_answer *answer, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static void add(struct lw_doctor_answer *answer, const char *format, ...)
{
	size_t n = strlen(answer->text);
	va_list args;

	if (n)
		n += (size_t)snprintf(answer->text + n, sizeof(answer->text) - n, "; ");
	va_start(args, format);
	if (n < sizeof(answer->text))
		vsnprintf(answer->text + n, sizeof(answer->text) - n, format, args);
	va_end(args);
}

static bool is_gpu_mode(const char *mode)
{
	static const char *const modes[] = {"on", "graphs", "off", "release"};

	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++)
		if (!strcmp(mode, modes[i]))
			return true;
	return !*mode;
}

/* All reasons why nothing is told: mending one of them alone would not help. */
static void add_reasons(
	const struct lw_doctor_patient *patient, const char *cupti, struct lw_doctor_answer *answer)
{
	const char *daemon = lw_doctor_variable(patient, "KINETO_USE_DAEMON");
	const char *mode = lw_doctor_variable(patient, LW_ENV_GPU);
	bool is_kinetos = daemon && *daemon && strcmp(daemon, "0") != 0;
	char trouble[200];

	if (mode && !is_gpu_mode(mode))
		add(answer, LW_ENV_GPU "=%.60s is none of on, graphs, off, release", mode);
	else if (mode && !strcmp(mode, "off"))
		add(answer, LW_ENV_GPU "=off: not before the program calls lapwing_gpu_start()");
	else if (mode && !strcmp(mode, "release"))
		add(answer, LW_ENV_GPU "=release leaves it to others");
	else if (is_kinetos && !(mode && *mode))
		add(answer,
			"KINETO_USE_DAEMON is set: CUPTI has one subscriber, and is left to Kineto (" LW_ENV_GPU
			"=on takes it)");
	if (driver_trouble(trouble, sizeof(trouble))) {
		add(answer, "%s", trouble);
		if (cupti)
			add(answer, "%.200s is there", cupti);
	} else if (!cupti) {
		add(answer,
			"no libcupti.so: it comes with the CUDA toolkit, and with torch of pip (nvidia-cuda-cupti)");
	}
}

void lw_doctor_check_cupti(const struct lw_doctor_patient *patient, struct lw_doctor_answer *answer)
{
	const char *injected = other_library(patient, "CUDA_INJECTION64_PATH");
	bool is_there = injected && access(injected, R_OK) == 0;
	char path[4096];
	const char *cupti = find_cupti(patient, path, sizeof(path));

	lw_doctor_say(answer, LW_DOCTOR_NO, "%s", "");
	add_reasons(patient, cupti, answer);
	if (!answer->text[0])
		lw_doctor_say(answer, is_there ? LW_DOCTOR_UNSURE : LW_DOCTOR_YES,
			"kernels, copies and waits by %.200s, unless a profiler runs at the same time",
			cupti);
	if (is_there)
		add(answer,
			"CUDA_INJECTION64_PATH is %.120s: CUPTI has one subscriber, which that may be; then lapwing goes on without",
			injected);
	else if (injected)
		add(answer,
			"CUDA_INJECTION64_PATH is %.120s, which is not there: lapwing sees CUDA begin by calls that are linked dynamically alone",
			injected);
}

void lw_doctor_check_nvtx(const struct lw_doctor_patient *patient, struct lw_doctor_answer *answer)
{
	const char *other = other_library(patient, "NVTX_INJECTION64_PATH");
	const char *disabled = lw_doctor_variable(patient, "NCCL_NVTX_DISABLE");
	bool is_nccl_silent = disabled && *disabled && strcmp(disabled, "0") != 0;

	if (other && strchr(other, '/') && access(other, R_OK) < 0)
		lw_doctor_say(answer, LW_DOCTOR_UNSURE,
			"NVTX_INJECTION64_PATH is %.200s, which is not there: lapwing alone has the ranges",
			other);
	else if (other && strchr(other, '/') &&
		 !lw_probe_count_symbols(other, "InitializeInjectionNvtx"))
		lw_doctor_say(answer, LW_DOCTOR_UNSURE,
			"NVTX_INJECTION64_PATH is %.200s, which is no NVTX tool (it exports no InitializeInjectionNvtx2): lapwing alone has the ranges",
			other);
	else if (other && strchr(other, '/') && lw_probe_count_symbols(other, "cuptiSubscribe"))
		lw_doctor_say(answer, LW_DOCTOR_UNSURE,
			"ranges and marks, not NCCL's own: NVTX_INJECTION64_PATH is %.200s, CUPTI itself, which gives domains no handles before somebody subscribes",
			other);
	else if (other)
		lw_doctor_say(answer, LW_DOCTOR_YES,
			"ranges and marks; each call goes on to %.200s, which NVTX_INJECTION64_PATH names",
			other);
	else if (is_nccl_silent)
		lw_doctor_say(answer, LW_DOCTOR_YES,
			"ranges and marks, not NCCL's own: NCCL_NVTX_DISABLE is set");
	else
		lw_doctor_say(answer, LW_DOCTOR_YES,
			"ranges and marks of whoever makes them: NCCL, Horovod, PyTorch's emit_nvtx, your own");
}

void lw_doctor_check_nvml(const struct lw_doctor_patient *patient, struct lw_doctor_answer *answer)
{
	char text[300];
	int n = lw_nvml_probe(text, sizeof(text));

	(void)patient;
	if (n > 0)
		lw_doctor_say(answer, LW_DOCTOR_YES,
			"clocks, power, NVLink and PCIe bytes of %d GPU%s, %s", n,
			n == 1 ? "" : "s", text);
	else
		lw_doctor_say(answer, LW_DOCTOR_NO, "%s", n == 0 ? "NVML sees no GPU" : text);
}
