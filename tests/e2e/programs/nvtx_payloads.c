/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvtx_payloads.c - what NCCL, Horovod and a user of the payload extension tell NVTX, laid out as in NCCL 2.28
 * ("new"), 2.18 ("old": no communicator, other names, two functions in the extension) or 2.12 ("oldest": names alone).
 *
 * Also what no well-meaning client does: "bad".
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "tests/e2e/programs/nvtx_double.h"
#include "tracer/lapwing_mark.h"

static struct nvtx_copy nvtx;

enum { INT = 5, UINT64 = 18, SIZE = 22, STATIC = 1 << 24, REDOP = STATIC + 24 };
enum {
	SID_INIT = STATIC,
	SID_DESTROY = STATIC + 2,
	SID_ALLREDUCE = STATIC + 5,
	SID_SEND = STATIC + 9
};
#define EXTENDED ((int32_t)0xDFBD0009)

struct entry {
	uint64_t flags, type;
	const char *name, *description;
	uint64_t detail, offset;
	const void *semantics, *reserved;
};
struct payload {
	uint64_t schema;
	size_t n_bytes;
	const void *data;
};

static uint64_t add_schema(
	const void *domain, uint64_t id, const struct entry *entries, size_t n, size_t n_bytes)
{
	struct {
		uint64_t fields;
		const char *name;
		uint64_t type, flags;
		const struct entry *entries;
		size_t n, n_bytes, pack;
		uint64_t id;
		void *extension;
	} schema = {1 << 2 | 1 << 4 | 1 << 5 | 1 << 6 | (id ? 1 << 8 : 0), NULL, 1, 0, entries, n,
		n_bytes, 0, id, NULL};

	return nvtx.has_payload ? NVTX_CALL(uint64_t(*)(const void *, void *), nvtx.payload[0],
					  domain, &schema)
				: 0;
}

static void add_enum(const void *domain, uint64_t id, size_t n_bytes)
{
	struct {
		uint64_t fields;
		const char *name;
		const void *entries;
		size_t n, n_bytes;
		uint64_t id;
	} definition = {1 << 2 | 1 << 3 | 1 << 4 | 1 << 5, NULL, "", 0, n_bytes, id};

	if (nvtx.has_payload)
		NVTX_CALL(uint64_t(*)(const void *, void *), nvtx.payload[1], domain, &definition);
}

static const void *add_string(const void *domain, const char *text)
{
	return NVTX_CALL(const void *(*)(const void *, const char *), nvtx.core2[10], domain, text);
}

static void push(const void *domain, const void *name, const struct payload *payload)
{
	struct nvtx_attributes attributes = {.version = 2,
		.size = sizeof(attributes),
		.message_type = 3,
		.message = name,
		.payload_type = payload ? EXTENDED : 0,
		.n_payloads = payload != NULL,
		.payload = (int64_t)(uintptr_t)payload};

	NVTX_CALL(int (*)(const void *, void *), nvtx.core2[4], domain, &attributes);
}

static void pop(const void *domain)
{
	NVTX_CALL(int (*)(const void *), nvtx.core2[5], domain);
}

static void pop_with(const void *domain, const struct payload *payload)
{
	NVTX_CALL(int (*)(const void *, const void *, size_t), nvtx.payload[4], domain, payload, 1);
}

/* ---- NCCL 2.28: init gives its payload at the end, collectives at the beginning ---------------------- */

static void nccl_new(const void *domain)
{
	static const struct entry init[] = {
		{0, UINT64, "NCCL communicator ID", NULL, 0, 0, NULL, NULL},
		{0, INT, "No. of ranks", NULL, 0, 8, NULL, NULL},
		{0, INT, "Rank", NULL, 0, 12, NULL, NULL},
		{0, INT, "CUDA device", NULL, 0, 16, NULL, NULL}};
	static const struct entry allreduce[] = {
		{0, UINT64, "NCCL communicator ID", NULL, 0, 0, NULL, NULL},
		{0, SIZE, "Message size [bytes]", NULL, 0, 8, NULL, NULL},
		{0, REDOP, "Reduction operation", NULL, 0, 16, NULL, NULL}};
	static const struct entry send[] = {
		{0, UINT64, "NCCL communicator ID", NULL, 0, 0, NULL, NULL},
		{0, SIZE, "Message size [bytes]", NULL, 0, 8, NULL, NULL},
		{0, INT, "Peer rank", NULL, 0, 16, NULL, NULL}};
	const struct {
		uint64_t comm;
		int n_ranks, rank, device;
	} made = {0xfeedfacecafe0001, 4, 3, 0};
	const struct {
		uint64_t comm;
		size_t bytes;
		unsigned op;
	} reduced = {0xfeedfacecafe0001, 1 << 20, 4};
	const struct {
		uint64_t comm;
		size_t bytes;
		int peer;
	} sent = {0xfeedfacecafe0001, 512, 2};
	const struct payload of_init = {SID_INIT, sizeof(made), &made},
			     of_destroy = {SID_DESTROY, sizeof(made), &made},
			     of_reduced = {SID_ALLREDUCE, sizeof(reduced), &reduced},
			     of_sent = {SID_SEND, SIZE_MAX, &sent};

	add_enum(domain, REDOP, 4);
	push(domain, add_string(domain, "ncclCommInitRank"), NULL);
	add_schema(domain, SID_INIT, init, 4, sizeof(made));
	pop_with(domain, &of_init);

	add_schema(domain, SID_ALLREDUCE, allreduce, 3, sizeof(reduced));
	for (int i = 0; i < 3; i++) {
		push(domain, add_string(domain, "ncclAllReduce"), &of_reduced);
		pop(domain);
	}
	add_schema(domain, SID_SEND, send, 3, sizeof(sent));
	push(domain, add_string(domain, "ncclGroupStart"), NULL);
	pop(domain);
	push(domain, add_string(domain, "ncclSend"), &of_sent);
	pop(domain);
	push(domain, add_string(domain, "ncclRecv"), &of_sent);
	pop(domain);
	push(domain, add_string(domain, "ncclGroupEnd"), NULL);
	pop(domain);
	add_schema(domain, SID_DESTROY, init, 4, sizeof(made));
	push(domain, add_string(domain, "ncclCommDestroy"), &of_destroy);
	pop(domain);
}

/* ---- NCCL 2.18: offsets left to alignment --------------------------------------------------------------- */

static void nccl_old(const void *domain)
{
	static const struct entry reduce[] = {
		{0, SIZE, "Message size [bytes]", NULL, 0, 0, NULL, NULL},
		{0, INT, "Root", NULL, 0, 0, NULL, NULL},
		{0, REDOP, "Reduction operation", NULL, 0, 0, NULL, NULL}};
	static const struct entry send[] = {{0, SIZE, "Bytes", NULL, 0, 0, NULL, NULL},
		{0, INT, "Peer rank", NULL, 0, 8, NULL, NULL}};
	const struct {
		size_t bytes;
		int root;
		unsigned op;
	} reduced = {2048, 1, 2};
	const struct {
		size_t bytes;
		int peer;
	} sent = {64, 1};
	const struct payload of_reduced = {STATIC + 8, sizeof(reduced), &reduced},
			     of_sent = {SID_SEND, sizeof(sent), &sent};

	add_enum(domain, REDOP, 4);
	add_schema(domain, STATIC + 8, reduce, 3, 0);
	push(domain, add_string(domain, "ncclReduce"), &of_reduced);
	pop(domain);
	add_schema(domain, SID_SEND, send, 2, 0);
	push(domain, add_string(domain, "ncclSend"), &of_sent);
	pop(domain);
}

static void nccl_oldest(const void *domain)
{
	push(domain, add_string(domain, "ncclBroadcast"), NULL);
	pop(domain);
	/* 2.12: a send outside of a group makes one of its own */
	push(domain, add_string(domain, "ncclSend"), NULL);
	push(domain, add_string(domain, "ncclGroupStart"), NULL);
	pop(domain);
	push(domain, add_string(domain, "ncclGroupEnd"), NULL);
	pop(domain);
	pop(domain);
}

/* ---- Horovod: a range from enqueueing to the callback of each tensor, many at a time ----------------------- */

enum { N_TENSORS = 600 };
static uint64_t in_flight[N_TENSORS];
static const void *horovod;

static void *end_tensors(void *unused)
{
	for (int i = 0; i < N_TENSORS; i++)
		NVTX_CALL(void (*)(const void *, uint64_t), nvtx.core2[3], horovod, in_flight[i]);
	return unused;
}

static void tensors(void)
{
	struct nvtx_attributes attributes = {
		.version = 2, .size = sizeof(attributes), .message_type = 3, .payload_type = 2};
	pthread_t background;

	horovod = NVTX_CALL(const void *(*)(const char *), nvtx.core2[12], "HorovodOps");
	attributes.message = add_string(horovod, "HorovodAllreduce");
	for (int i = 0; i < N_TENSORS; i++) {
		attributes.payload = 4 * (i + 1);
		in_flight[i] = NVTX_CALL(
			uint64_t(*)(const void *, void *), nvtx.core2[2], horovod, &attributes);
	}
	if (pthread_create(&background, NULL, end_tensors, NULL) == 0)
		pthread_join(background, NULL);
}

/* ---- a user's own -------------------------------------------------------------------------------------------- */

static void users(void)
{
	static const struct entry batch[] = {{0, 19, "loss", NULL, 0, 0, NULL, NULL}, /* float */
		{0, 16, "samples", NULL, 0, 0, NULL, NULL},
		{0, INT, "epoch", NULL, 0, 0, NULL, NULL}};
	const struct {
		float loss;
		uint32_t samples;
		int epoch;
	} values = {0.5F, 3000000000, -2};
	const void *domain = NVTX_CALL(const void *(*)(const char *), nvtx.core2[12], "mine");
	uint64_t id = add_schema(domain, 0, batch, 3, sizeof(values));
	const struct payload payload = {id, sizeof(values), &values};
	const int32_t number = -7;
	const struct payload plain = {INT, sizeof(number), &number};
	uint64_t range;

	push(domain, add_string(domain, "batch"), &payload);
	pop(domain);
	push(domain, add_string(domain, "number"), &plain);
	pop(domain);
	NVTX_CALL(
		void (*)(const void *, const void *, size_t), nvtx.payload[2], domain, &payload, 1);
	NVTX_CALL(int (*)(const void *, const void *, size_t), nvtx.payload[3], domain, &plain, 1);
	pop_with(domain, &plain);
	range = NVTX_CALL(uint64_t(*)(const void *, const void *, size_t), nvtx.payload[5], domain,
		&plain, 1);
	NVTX_CALL(void (*)(const void *, uint64_t, const void *, size_t), nvtx.payload[6], domain,
		range, &plain, 1);
}

/* ---- what must do no harm ---------------------------------------------------------------------------------------- */

static void bad(const void *domain)
{
	static struct entry many[200];
	const struct entry far[] = {
		{0, UINT64, "NCCL communicator ID", NULL, 0, UINT64_MAX - 3, NULL, NULL},
		{0, SIZE, "Message size [bytes]", NULL, 0, 1 << 20, NULL, NULL}};
	const struct entry array[] = {
		{3 << 4, SIZE, "Message size [bytes]", NULL, 1, 0, NULL, NULL},
		{2, SIZE, "Bytes", NULL, 0, 8, NULL, NULL}, {0, 99, NULL, NULL, 0, 16, NULL, NULL},
		{0, UINT64_MAX, "Rank", NULL, 0, 24, NULL, NULL}};
	const uint64_t eight = 8;
	struct payload short_one = {SID_ALLREDUCE, 4, &eight}, unknown = {12345678, 8, &eight},
		       nothing = {SID_ALLREDUCE, 8, NULL}, of_far = {STATIC + 100, 8, &eight},
		       of_array = {STATIC + 101, 8, &eight}, zero = {0, 8, &eight},
		       one = {1, 0, &eight};
	struct payload *all[] = {&short_one, &unknown, &nothing, &of_far, &of_array, &zero, &one};
	struct nvtx_attributes attributes = {.version = 2, .size = 8, .message_type = 3};
	const void *name;

	nccl_new(domain);
	NVTX_CALL(uint64_t(*)(const void *, void *), nvtx.payload[0], domain, NULL);
	NVTX_CALL(uint64_t(*)(const void *, void *), nvtx.payload[1], domain, NULL);
	add_schema(domain, STATIC + 100, far, 2, 8);
	add_schema(domain, STATIC + 101, array, 4, 8);
	add_schema(domain, STATIC + 102, many, 200, 8);
	add_schema(domain, STATIC + 103, NULL, 3, 8);
	for (int i = 0; i < 1000; i++)
		add_schema(domain, STATIC + 1000 + (uint64_t)i, far, 2, 8);
	name = add_string(domain, "ncclAllReduce");
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		push(domain, name, all[i]);
		pop_with(domain, all[i]);
	}
	NVTX_CALL(
		int (*)(const void *, void *), nvtx.core2[4], domain, &attributes); /* too small */
	pop(domain);
	pop(domain); /* one too many */
	pop_with(domain, NULL);
	for (int i = 0; i < 5000; i++)
		add_string(domain, "a string of some length, of which there are far too many");
	NVTX_CALL(void (*)(const void *, uint64_t), nvtx.core2[3], domain, UINT64_MAX);
	NVTX_CALL(void (*)(const void *, uint64_t), nvtx.core2[3], domain, UINT64_MAX - 1);
}

int main(int argc, char **argv)
{
	const char *version = argc > 1 ? argv[1] : "new";
	int is_new = !strcmp(version, "new") || !strcmp(version, "bad");
	const void *domain;

	if (!nvtx_load(&nvtx, is_new ? NVTX_N_PAYLOAD : strcmp(version, "old") ? 0 : 2, 0x0103))
		return 1;
	domain = NVTX_CALL(const void *(*)(const char *), nvtx.core2[12], "NCCL");
	if (!strcmp(version, "bad"))
		bad(domain);
	else if (is_new)
		nccl_new(domain);
	else if (!strcmp(version, "old"))
		nccl_old(domain);
	else
		nccl_oldest(domain);
	if (!strcmp(version, "new")) {
		tensors();
		users();
	}
	printf("done\n");
	return 0;
}
