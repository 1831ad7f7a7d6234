/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plugin_host.c - calls NCCL's profiler plugin as NCCL would, one call a line of its input.
 *
 *	plugin_host VERSION [LIBRARY] <SCRIPT        LIBRARY none: NCCL_PROFILER_PLUGIN=STATIC_PLUGIN
 *
 * Structures are laid out as tracer/nccl_abi.h has them from NVIDIA's headers. Words of a line, NAME being a new
 * name and @ an earlier one or "null", "junk" (a pointer to nothing):
 *	init NAME HASH RANKS RANK | final @ | mask @ (prints it)
 *	group NAME @ctx @parent | groupapi NAME @ctx DEPTH CAPTURED | launch NAME @ctx @parent
 *	collapi, p2papi NAME @ctx @parent FUNC COUNT TYPE ROOT CAPTURED
 *	coll NAME @ctx @parent @group FUNC COUNT TYPE ROOT CHANNELS ALGO PROTO HASH
 *	p2p NAME @ctx @parent @group FUNC COUNT TYPE PEER CHANNELS HASH | cecoll NAME @ctx @parent FUNC COUNT TYPE ROOT
 *	proxy NAME @ctx @parent PID PEER CHANNEL STEPS ISSEND (PID 0: our own)
 *	step NAME @ctx @parent STEP | kernel NAME @ctx @parent CHANNEL | ctrl NAME @ctx
 *	net NAME @ctx @parent ib|socket|other NUMBER BYTES | type NAME @ctx KIND (any bits)
 *	state @ NUMBER BYTES (-1: no arguments) | stop @ | sleep MS | flush (_exit) | crash (kill -9)
 */
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tracer/nccl_abi.h"

union any_event {
	struct lw_nccl_event_v1 v1;
	struct lw_nccl_event_v2 v2;
	struct lw_nccl_event_v3 v3;
	struct lw_nccl_event_v4 v4;
	struct lw_nccl_event_v6 v6;
};

/* The table of all versions but for the arguments of init. */
struct table {
	const char *name;
	void (*init)(void);
	int (*start)(void *context, void **handle, void *event);
	int (*stop)(void *handle);
	int (*state)(void *handle, int state, void *arguments);
	int (*finalize)(void *context);
};
typedef int (*init_old)(void **context, int *mask);
typedef int (*init_v4)(void **context, int *mask, const char *name, uint64_t hash, int n_nodes,
	int n_ranks, int rank, void *log);
typedef int (*init_v5)(void **context, uint64_t hash, int *mask, const char *name, int n_nodes,
	int n_ranks, int rank, void *log);

static const struct table *table;
static unsigned version;
static int mask = -1; /* NCCL's global */
static int own_rank;
static struct {
	char name[16];
	void *value;
} names[4096];
static unsigned n_names;
static int n_lines;

static void fail(const char *what)
{
	fprintf(stderr, "plugin_host: line %d: %s\n", n_lines, what);
	exit(1);
}

static void *value_of(const char *name)
{
	static char junk;

	if (!strcmp(name, "null"))
		return NULL;
	if (!strcmp(name, "junk"))
		return &junk;
	for (unsigned i = n_names; i-- > 0;)
		if (!strcmp(names[i].name, name))
			return names[i].value;
	fail(name);
	return NULL;
}

static void keep(const char *name, void *value)
{
	for (unsigned i = n_names; i-- > 0;) {
		if (!strcmp(names[i].name, name)) {
			names[i].value = value;
			return;
		}
	}
	if (n_names == sizeof(names) / sizeof(names[0]))
		fail("too many names");
	snprintf(names[n_names].name, sizeof(names[0].name), "%s", name);
	names[n_names++].value = value;
}

static uint64_t number(const char *text)
{
	return strtoull(text, NULL, 0);
}

static int integer(const char *text)
{
	return (int)strtol(text, NULL, 0);
}

/* ---- v1 has numbers where the others have names ------------------------------------------------------------- */

static uint8_t index_of(const char *name, const char *const *list)
{
	for (uint8_t i = 0; list[i]; i++)
		if (!strcmp(list[i], name))
			return i;
	return 0xff;
}

static const char *const functions[] = {"Broadcast", "Reduce", "AllGather", "ReduceScatter",
	"AllReduce", "SendRecv", "Send", "Recv", NULL};
static const char *const types[] = {"ncclInt8", "ncclUint8", "ncclInt32", "ncclUint32", "ncclInt64",
	"ncclUint64", "ncclFloat16", "ncclFloat32", "ncclFloat64", "ncclBfloat16", NULL};
static const char *const algorithms[] = {
	"TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS", "NVLS_TREE", "PAT", NULL};
static const char *const protocols[] = {"LL", "LL128", "SIMPLE", NULL};

/* ---- events ------------------------------------------------------------------------------------------------- */

static void start(const char *name, const char *context, union any_event *event)
{
	void *handle = NULL;

	if (table->start(value_of(context), &handle, event) != 0)
		fail("startEvent did not say ncclSuccess");
	if (!handle)
		fail("startEvent gave no handle");
	keep(name, handle);
}

/* What lies behind a type of one byte is no part of it. */
static void begin(union any_event *event, uint64_t kind, void *parent)
{
	memset(event, 0, sizeof(*event));
	if (version < 5) {
		memset(event, 0xa5, 8);
		event->v4.type = (uint8_t)kind;
	} else {
		event->v6.type = kind;
	}
	event->v6.parent = parent;
	event->v6.rank = own_rank;
}

#define COLL_TEXTS(e, channels, w)                                                                 \
	do {                                                                                       \
		(e).coll.func = (w)[5];                                                            \
		(e).coll.count = number((w)[6]);                                                   \
		(e).coll.datatype = (w)[7];                                                        \
		(e).coll.root = integer((w)[8]);                                                   \
		(e).coll.channels = (uint8_t)integer((w)[9]);                                      \
		(e).coll.algo = (w)[10];                                                           \
		(e).coll.proto = (w)[11];                                                          \
	} while (0)

static void coll(char **w)
{
	union any_event event;

	begin(&event, LW_NCCL_PROFILE_COLL, value_of(version >= 5 ? w[3] : w[4]));
	switch (version) {
	case 1:
		event.v1.coll.comm_hash = number(w[12]);
		event.v1.coll.func = index_of(w[5], functions);
		event.v1.coll.count = number(w[6]);
		event.v1.coll.datatype = index_of(w[7], types);
		event.v1.coll.root = integer(w[8]);
		event.v1.coll.n_max_channels = (uint8_t)integer(w[9]);
		event.v1.coll.algo = index_of(w[10], algorithms);
		event.v1.coll.proto = index_of(w[11], protocols);
		break;
	case 2:
		event.v2.coll.comm_hash = number(w[12]);
		COLL_TEXTS(event.v2, n_max_channels, w);
		break;
	case 3:
		event.v3.coll.comm_hash = number(w[12]);
		COLL_TEXTS(event.v3, n_max_channels, w);
		break;
	case 4:
		COLL_TEXTS(event.v4, n_channels, w);
		break;
	default:
		COLL_TEXTS(event.v6, n_channels, w);
		event.v6.coll.parent_group = value_of(w[4]);
	}
	start(w[1], w[2], &event);
}

#define P2P_TEXTS(e, w)                                                                            \
	do {                                                                                       \
		(e).p2p.func = (w)[5];                                                             \
		(e).p2p.count = number((w)[6]);                                                    \
		(e).p2p.datatype = (w)[7];                                                         \
		(e).p2p.peer = integer((w)[8]);                                                    \
	} while (0)

static void p2p(char **w)
{
	union any_event event;

	begin(&event, LW_NCCL_PROFILE_P2P, value_of(version >= 5 ? w[3] : w[4]));
	switch (version) {
	case 1:
		event.v1.p2p.comm_hash = number(w[10]);
		event.v1.p2p.func = index_of(w[5], functions);
		event.v1.p2p.count = number(w[6]);
		event.v1.p2p.datatype = index_of(w[7], types);
		event.v1.p2p.peer = integer(w[8]);
		break;
	case 2:
	case 3: /* alike in this */
		event.v2.p2p.comm_hash = number(w[10]);
		P2P_TEXTS(event.v2, w);
		break;
	case 4:
		P2P_TEXTS(event.v4, w);
		event.v4.p2p.n_channels = (uint8_t)integer(w[9]);
		break;
	default:
		P2P_TEXTS(event.v6, w);
		event.v6.p2p.n_channels = (uint8_t)integer(w[9]);
		event.v6.p2p.parent_group = value_of(w[4]);
	}
	start(w[1], w[2], &event);
}

static void api(char **w)
{
	bool is_coll = !strcmp(w[0], "collapi");
	union any_event event;

	begin(&event, is_coll ? LW_NCCL_PROFILE_COLL_API : LW_NCCL_PROFILE_P2P_API, value_of(w[3]));
	if (is_coll) {
		event.v6.coll_api.func = w[4];
		event.v6.coll_api.count = number(w[5]);
		event.v6.coll_api.datatype = w[6];
		event.v6.coll_api.root = integer(w[7]);
		event.v6.coll_api.is_captured = (uint8_t)integer(w[8]);
	} else {
		event.v6.p2p_api.func = w[4];
		event.v6.p2p_api.count = number(w[5]);
		event.v6.p2p_api.datatype = w[6];
		event.v6.p2p_api.is_captured = (uint8_t)integer(w[8]);
	}
	start(w[1], w[2], &event);
}

static void groupapi(char **w)
{
	union any_event event;

	begin(&event, LW_NCCL_PROFILE_GROUP_API, NULL);
	event.v6.group_api.depth = integer(w[3]);
	event.v6.group_api.is_captured = (uint8_t)integer(w[4]);
	start(w[1], w[2], &event);
}

static void cecoll(char **w)
{
	union any_event event;

	begin(&event, LW_NCCL_PROFILE_CE_COLL, value_of(w[3]));
	event.v6.ce_coll.func = w[4];
	event.v6.ce_coll.count = number(w[5]);
	event.v6.ce_coll.datatype = w[6];
	event.v6.ce_coll.root = integer(w[7]);
	start(w[1], w[2], &event);
}

static void proxy(char **w)
{
	union any_event event;

	begin(&event, LW_NCCL_PROFILE_PROXY_OP, value_of(w[3]));
	event.v1.proxy_op.pid = integer(w[4]) ? integer(w[4]) : getpid();
	event.v1.proxy_op.peer = integer(w[5]);
	event.v1.proxy_op.channel = (uint8_t)integer(w[6]);
	event.v1.proxy_op.n_steps = integer(w[7]);
	event.v1.proxy_op.chunk_size = 1 << 17;
	event.v1.proxy_op.is_send = integer(w[8]);
	start(w[1], w[2], &event);
}

static void net(char **w)
{
	struct lw_nccl_net_ib ib = {.type = 1};
	struct lw_nccl_net_socket socket = {.type = 1};
	union any_event event;

	begin(&event, LW_NCCL_PROFILE_NET_PLUGIN, value_of(w[3]));
	ib.qp.number = integer(w[5]);
	ib.qp.bytes = number(w[6]);
	socket.sock.fd = integer(w[5]);
	socket.sock.bytes = number(w[6]);
	event.v3.net_plugin.id = !strcmp(w[4], "ib")       ? LW_NCCL_NET_ID_IB
				 : !strcmp(w[4], "socket") ? LW_NCCL_NET_ID_SOCKET
							   : 0x70001;
	event.v3.net_plugin.data = !strcmp(w[4], "ib") ? (void *)&ib : (void *)&socket;
	start(w[1], w[2], &event);
}

/* Kinds without fields that matter. */
static void plain(char **w)
{
	static const struct {
		const char *word;
		uint64_t kind;
	} kinds[] = {{"group", LW_NCCL_PROFILE_GROUP}, {"step", LW_NCCL_PROFILE_PROXY_STEP},
		{"kernel", LW_NCCL_PROFILE_KERNEL_CH}, {"ctrl", LW_NCCL_PROFILE_PROXY_CTRL},
		{"launch", LW_NCCL_PROFILE_KERNEL_LAUNCH}, {"type", 0}};
	union any_event event;

	for (unsigned i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (strcmp(w[0], kinds[i].word))
			continue;
		begin(&event, kinds[i].kind ? kinds[i].kind : number(w[3]),
			kinds[i].kind && w[3] ? value_of(w[3]) : NULL);
		if (!strcmp(w[0], "step"))
			event.v1.proxy_step.step = integer(w[4]);
		if (!strcmp(w[0], "kernel"))
			event.v3.kernel_ch.channel = (uint8_t)integer(w[4]);
		start(w[1], w[2], &event);
		return;
	}
	fail(w[0]);
}

/* ---- other calls ---------------------------------------------------------------------------------------------- */

static void init(char **w)
{
	void *context = NULL;
	uint64_t hash = number(w[2]);
	int n_ranks = integer(w[3]), rank = integer(w[4]), result;

	if (version < 4)
		result = ((init_old)table->init)(&context, &mask);
	else if (version == 4)
		result =
			((init_v4)table->init)(&context, &mask, "dp", hash, 1, n_ranks, rank, NULL);
	else
		result =
			((init_v5)table->init)(&context, hash, &mask, "dp", 1, n_ranks, rank, NULL);
	own_rank = rank;
	if (result != 0)
		fail("init did not say ncclSuccess");
	keep(w[1], context);
}

static void state(char **w)
{
	union lw_nccl_state_arguments arguments = {0};

	arguments.proxy.transferred_bytes = number(w[3]);
	if (table->state(value_of(w[1]), integer(w[2]), integer(w[3]) < 0 ? NULL : &arguments) != 0)
		fail("recordEventState did not say ncclSuccess");
}

static void stop(char **w)
{
	if (table->stop(value_of(w[1])) != 0)
		fail("stopEvent did not say ncclSuccess");
}

static void final(char **w)
{
	if (table->finalize(value_of(w[1])) != 0)
		fail("finalize did not say ncclSuccess");
}

static void show_mask(char **w)
{
	(void)w;
	printf("mask %d\n", mask);
	fflush(stdout);
}

static void rest(char **w)
{
	int ms = integer(w[1]);

	nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000L}, NULL);
}

static void leave(char **w)
{
	(void)w;
	_exit(0);
}

static void crash(char **w)
{
	(void)w;
	raise(SIGKILL);
}

static const struct {
	const char *word;
	void (*run)(char **w);
} verbs[] = {{"init", init}, {"final", final}, {"mask", show_mask}, {"coll", coll}, {"p2p", p2p},
	{"collapi", api}, {"p2papi", api}, {"groupapi", groupapi}, {"cecoll", cecoll},
	{"proxy", proxy}, {"net", net}, {"state", state}, {"stop", stop}, {"sleep", rest},
	{"flush", leave}, {"crash", crash}};

static void obey(char *line)
{
	char *words[16] = {NULL}, *rest_of = NULL;
	int n = 0;

	for (char *word = strtok_r(line, " \n", &rest_of); word && n < 15;
		word = strtok_r(NULL, " \n", &rest_of))
		words[n++] = word;
	if (!n)
		return;
	for (unsigned i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
		if (!strcmp(words[0], verbs[i].word)) {
			verbs[i].run(words);
			return;
		}
	}
	plain(words);
}

int main(int argc, char **argv)
{
	char symbol[32], line[256];
	void *library = argc > 1 ? dlopen(argc > 2 ? argv[2] : NULL, RTLD_NOW | RTLD_LOCAL) : NULL;

	version = argc > 1 ? (unsigned)integer(argv[1]) : 0;
	snprintf(symbol, sizeof(symbol), "ncclProfiler_v%u", version);
	table = library ? dlsym(library, symbol) : NULL;
	if (!table) {
		fprintf(stderr, "plugin_host: no %s: %s\n", symbol, dlerror());
		return 3;
	}
	while (fgets(line, sizeof(line), stdin)) {
		n_lines++;
		obey(line);
	}
	return 0;
}
