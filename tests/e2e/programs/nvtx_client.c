/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvtx_client.c - does with an injection library what nvtx3's own header does, without that header:
 * loads NVTX_INJECTION64_PATH, lets it fill in the function pointers, calls through them.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "tracer/lapwing_mark.h"

enum { N_CORE = 16, N_CORE2 = 16 };

struct attributes {
	uint16_t version, size;
	uint32_t category;
	int32_t color_type;
	uint32_t color;
	int32_t payload_type, reserved;
	int64_t payload;
	int32_t message_type;
	const void *message;
};

static void *core[N_CORE], *core2[N_CORE2]; /* the client's function pointers, NULL = no-op */
static void *core_table[N_CORE + 1], *core2_table[N_CORE2 + 1]; /* where they are */

static int get_table(int module, void ***ret_table, unsigned *ret_n)
{
	if (module != 1 && module != 5)
		return 0;
	*ret_table = module == 1 ? core_table : core2_table;
	*ret_n = module == 1 ? N_CORE : N_CORE2;
	return 1;
}

static const struct {
	size_t size;
	int (*get)(int module, void ***ret_table, unsigned *ret_n);
} callbacks = {sizeof(callbacks), get_table};

static const void *get_export_table(uint32_t id)
{
	return id == 1 ? &callbacks : NULL;
}

#define CALL(type, pointer, ...) (((type)(uintptr_t)(pointer))(__VA_ARGS__))

int main(void)
{
	const char *path = getenv("NVTX_INJECTION64_PATH");
	void *library = path ? dlopen(path, RTLD_LAZY) : NULL;
	int (*initialize)(const void *(*)(uint32_t));
	struct attributes attributes = {
		.version = 2, .size = sizeof(attributes), .message_type = 1, .message = "batch"};
	const void *domain, *text;
	uint64_t range;
	int levels[4];

	for (int i = 1; i < N_CORE; i++) {
		core_table[i] = &core[i];
		core2_table[i] = &core2[i];
	}
	initialize = library ? (int (*)(const void *(*)(uint32_t)))(uintptr_t)dlsym(
				       library, "InitializeInjectionNvtx2")
			     : NULL;
	if (!initialize || initialize(get_export_table) != 1)
		return 1;
	CALL(int (*)(const char *), core[9], "before live"); /* its end is not recorded either */
	lapwing_mark_step(1);
	CALL(int (*)(void), core[11]);

	domain = CALL(const void *(*)(const char *), core2[12], "NCCL");
	text = CALL(
		const void *(*)(const void *, const char *), core2[10], domain, "ncclAllReduce");
	levels[0] = CALL(int (*)(const char *), core[9], "step");
	attributes.payload_type = 2;
	attributes.payload = -5;
	levels[1] = CALL(int (*)(const struct attributes *), core[8], &attributes);
	attributes.message_type = 3;
	attributes.message = text;
	attributes.payload = 4096;
	levels[2] = CALL(
		int (*)(const void *, const struct attributes *), core2[4], domain, &attributes);
	/* the other domain's range ends first, though the default domain's are further in */
	levels[3] = CALL(int (*)(void), core[11]);
	CALL(int (*)(const void *), core2[5], domain);
	CALL(int (*)(void), core[11]);

	range = CALL(uint64_t(*)(const char *), core[5], "across");
	CALL(void (*)(const char *), core[2], "point");
	attributes.message_type = 2;
	attributes.message = L"wide \x20ac";
	CALL(void (*)(const void *, const struct attributes *), core2[1], domain, &attributes);
	CALL(void (*)(uint64_t), core[7], range);
	CALL(void (*)(uint64_t), core[7], range); /* twice: nothing */
	printf("levels %d %d %d %d pop %d\n", levels[0], levels[1], levels[2], levels[3],
		CALL(int (*)(void), core[11]));
	return 0;
}
