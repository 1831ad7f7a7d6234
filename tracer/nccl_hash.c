/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nccl_hash.c - the names that NCCL itself gives to communicators (commHash), computed from what its callers see.
 *
 * So that the preload names a communicator as the profiler plugin and NVTX do, on every rank. From NCCL's sources
 * (src/include/bitops.h getHash(), src/init.cc ncclCommInitRankFunc()): up to 2.25 a hash of bytes, DJB2a; a split
 * hashes the text "PARENT-COLOR" (2.18 to 2.23) or "PARENT-SPLITS-COLOR" (2.24, 2.25) in the room of a unique id.
 * From 2.26 on two 64-bit accumulators that eat words of 8 bytes; a split eats parent, splits and color one by one.
 */
#include <stdio.h>
#include <string.h>

#include "tracer/nccl.h"

enum { VERSION_SPLITS_COUNT = 22400, VERSION_WORDS = 22600 };

/* DJB2a; whether a char has a sign is the platform's, here as in NCCL. */
static uint64_t hash_bytes(const char *bytes, size_t n)
{
	uint64_t hash = 5381;

	for (size_t i = 0; i < n; i++)
		hash = (hash * 33) ^ (uint64_t)bytes[i];
	return hash;
}

static void eat(uint64_t state[2], const void *bytes, size_t n)
{
	const char *at = bytes;

	state[0] ^= n;
	for (size_t left = n; left;) {
		size_t part = left < sizeof(uint64_t) ? left : sizeof(uint64_t);
		uint64_t word = 0;

		state[0] += state[1];
		state[1] ^= state[0];
		state[0] ^= state[0] >> 31;
		state[0] *= UINT64_C(0x9de62bbc8cef3ce3);
		state[1] ^= state[1] >> 32;
		state[1] *= UINT64_C(0x485cd6311b599e79);
		memcpy(&word, at, part);
		state[0] += word;
		at += part;
		left -= part;
	}
}

static uint64_t digest(const uint64_t state[2])
{
	uint64_t hash = state[0];

	hash ^= hash >> 31;
	hash *= UINT64_C(0xbac3bd562846de6b);
	hash += state[1];
	hash ^= hash >> 32;
	hash *= UINT64_C(0x995a187a14e7b445);
	return hash;
}

uint64_t lw_nccl_hash_id(const void *id, int version)
{
	uint64_t state[2] = {1, 1};

	if (version < VERSION_WORDS)
		return hash_bytes(id, LW_NCCL_ID_BYTES);
	eat(state, id, LW_NCCL_ID_BYTES);
	return digest(state);
}

uint64_t lw_nccl_hash_split(uint64_t parent, int32_t n_splits, int32_t color, int version)
{
	char text[LW_NCCL_ID_BYTES] = "";
	uint64_t state[2] = {1, 1};

	if (version >= VERSION_WORDS) {
		eat(state, &parent, sizeof(parent));
		eat(state, &n_splits, sizeof(n_splits));
		eat(state, &color, sizeof(color));
		return digest(state);
	}
	if (version >= VERSION_SPLITS_COUNT)
		snprintf(text, sizeof(text), "%016llx-%d-%d", (unsigned long long)parent, n_splits,
			color);
	else
		snprintf(text, sizeof(text), "%016llx-%d", (unsigned long long)parent, color);
	return hash_bytes(text, sizeof(text));
}
