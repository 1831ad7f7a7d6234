/* SPDX-License-Identifier: Apache-2.0 */
/* nvtx_client.c - a program with NVTX ranges and marks of each kind; see nvtx_double.h. */
#include <stdio.h>

#include "tests/e2e/programs/nvtx_double.h"
#include "tracer/lapwing_mark.h"

static struct nvtx_copy nvtx, another; /* a process has as many copies as libraries with NVTX */

#define CORE(type, number, ...)  NVTX_CALL(type, nvtx.core[number], __VA_ARGS__)
#define CORE2(type, number, ...) NVTX_CALL(type, nvtx.core2[number], __VA_ARGS__)

int main(void)
{
	struct nvtx_attributes attributes = {
		.version = 2, .size = sizeof(attributes), .message_type = 1, .message = "batch"};
	const void *domain, *text;
	uint64_t range;
	int levels[4];

	if (!nvtx_load(&nvtx, 0, 0))
		return 1;
	CORE(int (*)(const char *), 9, "before live"); /* its end is not recorded either */
	lapwing_mark_step(1);
	CORE(int (*)(void), 11);

	domain = CORE2(const void *(*)(const char *), 12, "NCCL");
	text = CORE2(const void *(*)(const void *, const char *), 10, domain, "ncclAllReduce");
	levels[0] = CORE(int (*)(const char *), 9, "step");
	attributes.payload_type = 2;
	attributes.payload = -5;
	levels[1] = CORE(int (*)(const struct nvtx_attributes *), 8, &attributes);
	attributes.message_type = 3;
	attributes.message = text;
	attributes.payload = 4096;
	levels[2] = CORE2(
		int (*)(const void *, const struct nvtx_attributes *), 4, domain, &attributes);
	/* the other domain's range ends first, though the default domain's are further in */
	levels[3] = CORE(int (*)(void), 11);
	CORE2(int (*)(const void *), 5, domain);
	CORE(int (*)(void), 11);

	range = CORE(uint64_t(*)(const char *), 5, "across");
	CORE(void (*)(const char *), 2, "point");
	attributes.message_type = 2;
	attributes.message = L"wide \x20ac";
	CORE2(void (*)(const void *, const struct nvtx_attributes *), 1, domain, &attributes);
	CORE(void (*)(uint64_t), 7, range);
	CORE(void (*)(uint64_t), 7, range); /* twice: nothing */
	/* as torch.autograd.profiler.emit_nvtx writes them */
	CORE(int (*)(const char *), 9, "aten::add, seq = 1234, op_id = 7, sizes = [[2, 3], [3]]");
	CORE(int (*)(const char *), 9,
		"autograd::engine::evaluate_function: AddBackward0, op_id = 8");
	CORE(int (*)(void), 11);
	CORE(int (*)(void), 11);
	CORE(int (*)(const wchar_t *), 10, L"wide range");
	CORE(int (*)(void), 11);
	if (nvtx_load(&another, 0, 0)) {
		NVTX_CALL(void (*)(const char *), another.core[2], "from another copy");
		NVTX_CALL(int (*)(const char *), another.core[9], "range of another copy");
		NVTX_CALL(int (*)(void), another.core[11]);
	}
	printf("levels %d %d %d %d pop %d\n", levels[0], levels[1], levels[2], levels[3],
		CORE(int (*)(void), 11));
	return 0;
}
