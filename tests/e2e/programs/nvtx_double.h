/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvtx_double.h - does with an injection library what nvtx3's own headers do, without those headers: loads
 * NVTX_INJECTION64_PATH, lets it fill in the function pointers of the core and of the payload extension.
 */
#ifndef LAPWING_TESTS_E2E_PROGRAMS_NVTX_DOUBLE_H
#define LAPWING_TESTS_E2E_PROGRAMS_NVTX_DOUBLE_H

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

enum { NVTX_N_CORE = 16, NVTX_N_CORE2 = 16, NVTX_N_PAYLOAD = 63 };

struct nvtx_attributes {
	uint16_t version, size;
	uint32_t category;
	int32_t color_type;
	uint32_t color;
	int32_t payload_type, n_payloads;
	int64_t payload;
	int32_t message_type;
	const void *message;
};

/* One copy of NVTX: a process has one for each library that was built with the headers. */
struct nvtx_copy {
	void *core[NVTX_N_CORE],
		*core2[NVTX_N_CORE2]; /* the client's function pointers, nvtx_not_taken = no-op */
	void *core_table[NVTX_N_CORE], *core2_table[NVTX_N_CORE2]; /* where they are */
	intptr_t payload[NVTX_N_PAYLOAD];
	int has_payload;
};

static struct nvtx_copy
	*nvtx_loading; /* the tool asks for its table by a function without an argument */

static int nvtx_get_table(int module, void ***ret_table, unsigned *ret_n)
{
	if (module != 1 && module != 5)
		return 0;
	*ret_table = module == 1 ? nvtx_loading->core_table : nvtx_loading->core2_table;
	*ret_n = module == 1 ? NVTX_N_CORE : NVTX_N_CORE2;
	return 1;
}

static const struct {
	size_t size;
	int (*get)(int module, void ***ret_table, unsigned *ret_n);
} nvtx_callbacks = {sizeof(nvtx_callbacks), nvtx_get_table};

static const void *nvtx_get_export_table(uint32_t id)
{
	return id == 1 ? &nvtx_callbacks : NULL;
}

/* What a call does that no tool takes, of whatever type it is. */
static long nvtx_not_taken(void)
{
	return 0;
}

static int nvtx_load_payload(
	struct nvtx_copy *nvtx, void *library, unsigned n_slots, uint16_t compatibility)
{
	struct {
		size_t id, n_slots;
		intptr_t *slots;
	} segment = {0, n_slots, nvtx->payload};
	struct {
		uint16_t version, size, module, compatibility;
		size_t n_segments;
		void *segments;
		void *get_export;
		const void *extension;
	} module = {3, 40, 2, compatibility, 1, &segment, NULL, NULL};
	int (*initialize)(void *) =
		(int (*)(void *))(uintptr_t)dlsym(library, "InitializeInjectionNvtxExtension");

	return initialize && initialize(&module);
}

/**
 * nvtx_load() - @n_slots, @compatibility: of the payload extension in this version of the headers.
 * Return: whether a tool is attached.
 */
static int nvtx_load(struct nvtx_copy *nvtx, unsigned n_slots, uint16_t compatibility)
{
	const char *path = getenv("NVTX_INJECTION64_PATH");
	void *library = path ? dlopen(path, RTLD_LAZY) : NULL;
	int (*initialize)(const void *(*)(uint32_t));
	int is_attached;

	for (int i = 1; i < NVTX_N_CORE; i++) {
		nvtx->core[i] = nvtx->core2[i] = (void *)(uintptr_t)nvtx_not_taken;
		nvtx->core_table[i] = &nvtx->core[i];
		nvtx->core2_table[i] = &nvtx->core2[i];
	}
	initialize = library ? (int (*)(const void *(*)(uint32_t)))(uintptr_t)dlsym(
				       library, "InitializeInjectionNvtx2")
			     : NULL;
	nvtx_loading = nvtx;
	is_attached = initialize && initialize(nvtx_get_export_table) == 1;
	for (int i = 1; i < NVTX_N_CORE && !is_attached; i++)
		nvtx->core[i] = nvtx->core2[i] = (void *)(uintptr_t)nvtx_not_taken;
	nvtx->has_payload =
		is_attached && n_slots && nvtx_load_payload(nvtx, library, n_slots, compatibility);
	for (int i = 0; i < NVTX_N_PAYLOAD; i++)
		if (!nvtx->has_payload || !nvtx->payload[i])
			nvtx->payload[i] = (intptr_t)nvtx_not_taken;
	return is_attached;
}

/* Calls what the tool put there, as a function of this type. */
#define NVTX_CALL(type, pointer, ...) (((type)(uintptr_t)(pointer))(__VA_ARGS__))

#endif /* LAPWING_TESTS_E2E_PROGRAMS_NVTX_DOUBLE_H */
