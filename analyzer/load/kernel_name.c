/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kernel_name.c - kernels by their names.
 *
 *	ncclAllReduceRingLLKernel_sum_f32                    NCCL to 2.7
 *	ncclKernel_AllReduce_RING_LL_Sum_float               2.8 to 2.18
 *	ncclDevKernel_AllReduce_Sum_f32_RING_LL              from 2.19
 *	ncclSymDevKernel_..., ncclDevKernel_Generic_4        symmetric memory; RCCL
 */
#include "analyzer/load/kernel_name.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include "analyzer/gpu.h"
#include "schema/event.h"

enum { MAX_WORD_BYTES = 160 };

/* The longer ones first: Reduce is in three of them. */
static const struct {
	const char *name;
	int op; /* enum lw_nccl_op */
} ops[] = {
	{"AllReduce", LW_NCCL_ALLREDUCE},
	{"AllGather", LW_NCCL_ALLGATHER},
	{"ReduceScatter", LW_NCCL_REDUCESCATTER},
	{"Broadcast", LW_NCCL_BROADCAST},
	{"AllToAll", LW_NCCL_ALLTOALL},
	{"Reduce", LW_NCCL_REDUCE},
	/* also what NCCL to 2.18 launches for operations that have no kernel of their own */
	{"SendRecv", LW_NCCL_OTHER},
};

static const struct {
	const char *name;
	int algorithm; /* enum lw_nccl_algorithm */
} algorithms[] = {
	{"COLLNET_DIRECT", LW_NCCL_ALGORITHM_COLLNET_DIRECT},
	{"COLLNET_CHAIN", LW_NCCL_ALGORITHM_COLLNET_CHAIN},
	{"NVLS_TREE", LW_NCCL_ALGORITHM_NVLS_TREE},
	{"NVLS", LW_NCCL_ALGORITHM_NVLS},
	{"TREE", LW_NCCL_ALGORITHM_TREE},
	{"Tree", LW_NCCL_ALGORITHM_TREE},
	{"RING", LW_NCCL_ALGORITHM_RING},
	{"Ring", LW_NCCL_ALGORITHM_RING},
};

/* Copies that are made by kernels, or that a profiler lists among these. */
static const char *const copies[] = {
	"Memcpy", "Memset", "__amd_rocclr_copyBuffer", "__amd_rocclr_fillBuffer"};

/* The first word of @name that begins with @library and is a kernel's. A mangled one has its length before it. */
static bool find_word(const char *name, const char *library, char word[MAX_WORD_BYTES])
{
	for (const char *at = strstr(name, library); at; at = strstr(at + 1, library)) {
		size_t n = 0;

		if (at > name && (isalpha((unsigned char)at[-1]) || at[-1] == '_') &&
			!(at == name + 2 && !memcmp(name, "_Z", 2)))
			continue;
		while (n < MAX_WORD_BYTES - 1 && (isalnum((unsigned char)at[n]) || at[n] == '_'))
			n++;
		memcpy(word, at, n);
		word[n] = '\0';
		if (strcasestr(word, "kernel"))
			return true;
	}
	return false;
}

static int find_algorithm(const char *word)
{
	for (size_t i = 0; i < sizeof(algorithms) / sizeof(algorithms[0]); i++)
		if (strstr(word, algorithms[i].name)) {
			/* from 2.19 on all that is not TREE runs in the kernel that is called RING */
			if (algorithms[i].algorithm == LW_NCCL_ALGORITHM_RING &&
				strstr(word, "DevKernel"))
				break;
			return algorithms[i].algorithm;
		}
	return LW_NCCL_ALGORITHM_UNKNOWN;
}

struct lw_kernel_kind lw_kernel_kind(const char *name)
{
	struct lw_kernel_kind kind = {.gpu_class = LW_GPU_COMPUTE};
	char word[MAX_WORD_BYTES];

	for (size_t i = 0; i < sizeof(copies) / sizeof(copies[0]); i++)
		if (!strncmp(name, copies[i], strlen(copies[i])))
			kind.gpu_class = LW_GPU_COPY;
	if (!find_word(name, "nccl", word) && !find_word(name, "rccl", word) &&
		!find_word(name, "msccl", word))
		return kind;
	kind.gpu_class = LW_GPU_COMMUNICATION;
	kind.nccl_op = LW_NCCL_OTHER;
	for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
		if (strstr(word, ops[i].name)) {
			kind.nccl_op = ops[i].op;
			break;
		}
	if (kind.nccl_op != LW_NCCL_OTHER)
		kind.algorithm = find_algorithm(word);
	return kind;
}
