/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any sequence of calls of NCCL's profiler plugin, of all versions, on any handles: always ncclSuccess, never a
 * NULL handle, no record that the collector would refuse, no operation told twice (tests/lib/nccl_rig.c).
 *
 * The input is a program: a byte of what to do, then the bytes that it takes.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/lib/nccl_rig.h"

static const struct rig_table *const tables[] = {&ncclProfiler_v1, &ncclProfiler_v2,
	&ncclProfiler_v3, &ncclProfiler_v4, &ncclProfiler_v5, &ncclProfiler_v6};

enum { N_HANDLES = 64, N_CONTEXTS = 8 };
static void *handles[N_HANDLES], *contexts[N_CONTEXTS];
static int masks[N_CONTEXTS];
static const char *const texts[] = {NULL, "", "AllReduce", "Send", "Recv", "AlltoAll", "Broadcast",
	"RING", "PAT", "LL128", "SIMPLE", "ncclFloat32", "ncclInt8", "a name that nobody knows"};
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static struct {
	const uint8_t *at;
	size_t n;
} input;

static uint8_t byte(void)
{
	if (!input.n)
		return 0;
	input.n--;
	return *input.at++;
}

static uint64_t word(void)
{
	uint64_t value = 0;

	for (int i = 0; i < 8; i++)
		value = value << 8 | byte();
	return value;
}

/* Mostly one that was given, now and then any number. */
static void *some_handle(void)
{
	uint8_t which = byte();

	if (which < 4 * N_HANDLES - 8)
		return handles[which % N_HANDLES];
	return (void *)(uintptr_t)(which % 2 ? word() : (uint64_t)which << 60);
}

static void *some_context(void)
{
	uint8_t which = byte();

	return which < 250 ? contexts[which % N_CONTEXTS] : (void *)(uintptr_t)word();
}

static void must(int result)
{
	if (result != 0)
		abort();
}

static void init(unsigned version)
{
	unsigned at = byte() % N_CONTEXTS;
	void (*call)(void) = tables[version - 1]->init;
	uint64_t hash = byte() % 32;
	int size = (int8_t)byte(), rank = (int8_t)byte();

	if (version < 4)
		must(((rig_init_v1)call)(&contexts[at], &masks[at]));
	else if (version == 4)
		must(((rig_init_v4)call)(
			&contexts[at], &masks[at], NULL, hash, 1, size, rank, NULL));
	else
		must(((rig_init_v5)call)(
			&contexts[at], hash, &masks[at], NULL, 1, size, rank, NULL));
	if (!contexts[at])
		abort();
}

/* Text fields hold a text of ours or NULL, whatever else the bytes say: NCCL's do. */
static void fix_texts(unsigned version, uint64_t kind, void *event)
{
	static const uint8_t coll[][4] = {{0}, {0}, {48, 88, 112, 120}, {48, 88, 104, 112},
		{32, 72, 88, 96}, {32, 72, 88, 96}, {32, 72, 88, 96}};
	static const uint8_t p2p[][4] = {
		{0}, {0}, {40, 56}, {40, 56}, {24, 40}, {24, 40}, {24, 40}};
	static const uint8_t api[4] = {24, 40}, ce[4] = {32, 72};
	const uint8_t *at = kind == LW_NCCL_PROFILE_COLL        ? coll[version]
			    : kind == LW_NCCL_PROFILE_P2P       ? p2p[version]
			    : kind == LW_NCCL_PROFILE_CE_COLL   ? ce
			    : kind >= LW_NCCL_PROFILE_GROUP_API ? api
								: coll[0];

	for (int i = 0; i < 4; i++) {
		const char *text = texts[byte() % (sizeof(texts) / sizeof(texts[0]))];

		if (at[i])
			memcpy((char *)event + at[i], &text, sizeof(text));
	}
}

static void start(unsigned version)
{
	struct lw_nccl_net_ib net = {.type = 1, .qp = {.number = byte(), .bytes = byte()}};
	uint64_t room[17]; /* the largest version's */
	uint64_t kind = (uint64_t)1 << byte() % 17;
	void *context = some_context(), *handle = NULL, *parent = some_handle(),
	     *group = some_handle();
	const void *data = byte() % 4 ? &net : NULL;
	int64_t id = byte() % 2 ? LW_NCCL_NET_ID_IB : LW_NCCL_NET_ID_SOCKET;

	for (size_t i = 0; i < sizeof(room) / sizeof(room[0]); i++)
		room[i] = byte() % 8 ? byte() : word();
	if (byte() == 255)
		kind = word();
	if (version < 5) /* one byte there */
		kind = (uint8_t)kind;
	fix_texts(version, kind, room);
	if (version < 5)
		memcpy(room, &(uint8_t){(uint8_t)kind}, 1);
	else
		room[0] = kind;
	memcpy(&room[1], &parent, sizeof(parent));
	if (kind == LW_NCCL_PROFILE_NET_PLUGIN) {
		memcpy(&room[3], &id, sizeof(id));
		memcpy(&room[4], &data, sizeof(data));
	}
	if (version >= 5 && kind == LW_NCCL_PROFILE_COLL)
		memcpy(&room[13], &group, sizeof(group));
	must(tables[version - 1]->start(context, &handle, room));
	if (!handle)
		abort();
	handles[byte() % N_HANDLES] = handle;
}

static void change(unsigned version)
{
	union lw_nccl_state_arguments arguments = {.proxy = {byte(), byte()}};
	void *handle = some_handle();
	int state = (int8_t)byte();

	must(tables[version - 1]->state(handle, state, byte() % 4 ? &arguments : NULL));
}

/* A call of the API around what follows, as the preload has them. */
static void call(void)
{
	static uint64_t begun;
	struct lw_nccl_facts facts = {.comm = lw_nccl_comm_find(byte() % 32),
		.t0_ns = lw_now_ns(),
		.bytes = byte(),
		.peer = (int8_t)byte(),
		.op = (uint16_t)(byte() % LW_NCCL_OTHER + 1),
		.source = LW_NCCL_FROM_PRELOAD};

	switch (byte() % 6) {
	case 0:
	case 1:
		if (!begun)
			begun = lw_nccl_call_begin(&facts);
		break;
	case 2:
		lw_nccl_call_end(begun, byte() % 2 ? LW_NCCL_FAILED : 0, lw_now_ns());
		begun = 0;
		break;
	case 3:
		lw_nccl_group_begin();
		break;
	case 4:
		lw_nccl_group_launch();
		break;
	case 5:
		lw_nccl_group_end(0, lw_now_ns());
		break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	input.at = data;
	input.n = n;
	while (input.n) {
		uint8_t what = byte();
		unsigned version = what / 16 % LW_NCCL_PROFILER_VERSIONS + 1;

		switch (what % 16) {
		case 0:
			init(version);
			break;
		case 1:
			must(tables[version - 1]->finalize(some_context()));
			break;
		case 2:
			call();
			break;
		case 3:
			lw_nccl_plugin_on(byte() % 2);
			break;
		case 4:
		case 5:
		case 6:
			change(version);
			break;
		case 7:
		case 8:
		case 9:
			must(tables[version - 1]->stop(some_handle()));
			break;
		default:
			start(version);
		}
	}
	/* each input begins with nothing under way */
	for (int i = 0; i < N_CONTEXTS; i++)
		must(tables[0]->finalize(contexts[i]));
	for (int i = 0; i < 8; i++)
		lw_nccl_group_end(0, lw_now_ns());
	lw_nccl_call_end(lw_nccl_call_current(), 0, lw_now_ns());
	lw_nccl_flush();
	return 0;
}
