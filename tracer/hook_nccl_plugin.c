/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hook_nccl_plugin.c - NCCL's profiler plugin, versions 1 to 6: NCCL_PROFILER_PLUGIN=STATIC_PLUGIN where this
 * library is preloaded (NCCL looks its plugin up in the whole process then), else =/path/of/liblapwing.so.
 *
 * Writes: COMM, NCCL_OP, NCCL_PROXY and NCCL_NET records, by nccl_comm.c, nccl_op.c and nccl_proxy.c; HOOK.
 * NCCL takes the highest version that it knows; all are read into one form (nccl_event.c). It is always told
 * ncclSuccess, and always given a handle: where the parent of an event has none, it does not tell of the event.
 *
 * Known of NCCL, and borne: states told after the stop of an event; steps that are never stopped; handles used
 * after their communicator ended; parents of another process (PXN). Kernel and proxy control events are off
 * unless asked for: NCCL crashes with them where /dev/shm is small.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "schema/rundir.h"
#include "tracer/hook_nccl_plugin.h"
#include "tracer/lapwing_mark.h"

enum {
	MASK_DEFAULT = LW_NCCL_PROFILE_GROUP | LW_NCCL_PROFILE_COLL | LW_NCCL_PROFILE_P2P |
		       LW_NCCL_PROFILE_PROXY_OP | LW_NCCL_PROFILE_PROXY_STEP |
		       LW_NCCL_PROFILE_NET_PLUGIN | LW_NCCL_PROFILE_GROUP_API |
		       LW_NCCL_PROFILE_COLL_API | LW_NCCL_PROFILE_P2P_API |
		       LW_NCCL_PROFILE_KERNEL_LAUNCH | LW_NCCL_PROFILE_CE_COLL
};
static const int masks_known[LW_NCCL_PROFILER_VERSIONS + 1] = {
	0, 0x3f, 0x3f, 0xff, 0xff, 0xfff, 0x7fff};

enum { CONTEXTS_MAX = 1024, VERSION_NEEDED = 22304 };

/* What NCCL calls us with for one communicator. */
static struct context {
	_Atomic uint32_t version;            /* 0 = free */
	_Atomic(struct lw_nccl_comm *) comm; /* NULL = not known yet, or no room */
	_Atomic(int *) mask;                 /* NCCL's own */
} contexts[CONTEXTS_MAX];
static struct context spare; /* when there is no other */

static _Atomic uint32_t n_contexts; /* ever */
static _Atomic uint64_t n_odd;      /* calls for what had ended, or never began */

/* ---- contexts ------------------------------------------------------------------------------------------ */

static int mask_of(unsigned version)
{
	const char *text = getenv(LW_ENV_NCCL_MASK);
	char *end = NULL;
	unsigned long mask = text ? strtoul(text, &end, 0) : MASK_DEFAULT;

	if (text && (end == text || *end))
		mask = MASK_DEFAULT;
	return (int)(mask & (unsigned long)masks_known[version]);
}

static struct context *take_context(unsigned version)
{
	for (struct context *context = contexts; context < contexts + CONTEXTS_MAX; context++) {
		uint32_t none = 0;

		if (atomic_compare_exchange_strong(&context->version, &none, version))
			return context;
	}
	lw_loss(LW_LOSS_TABLE_FULL, 1, "nccl plugin contexts");
	return NULL;
}

/* NCCL gives back what it was given. Return: NULL = that was not ours, or has ended. */
static struct context *context_of(void *at)
{
	uintptr_t offset = (uintptr_t)at - (uintptr_t)contexts;

	if (offset >= sizeof(contexts) || offset % sizeof(contexts[0]))
		return NULL;
	return atomic_load_explicit(&((struct context *)at)->version, memory_order_acquire) ? at
											    : NULL;
}

static void set_comm(struct context *context, const struct lw_nccl_comm_facts *facts)
{
	struct lw_nccl_comm *comm = lw_nccl_comm_seen(facts), *none = NULL;

	if (comm && atomic_compare_exchange_strong(&context->comm, &none, comm))
		atomic_fetch_add(&comm->n_contexts, 1);
}

static void report(unsigned version)
{
	static const char *const names[] = {"", "v1", "v2", "v3", "v4", "v5", "v6"};

	if (atomic_fetch_add(&n_contexts, 1) == 0)
		lw_hook_report("nccl_plugin", LW_HOOK_ACTIVE, 5, names[version]);
}

/* @facts: key 0 = this version does not tell of the communicator yet */
int lw_nccl_plugin_open(
	unsigned version, void **ret_context, int *mask, const struct lw_nccl_comm_facts *facts)
{
	struct context *context = NULL;
	bool is_live = lw_hook_wanted("nccl") && lw_activate(LW_FRAMEWORK_NONE, LW_TRANSPORT_NCCL);

	if (is_live)
		context = take_context(version);
	*ret_context = context ? context : &spare;
	if (mask)
		*mask = is_live && !atomic_load(&lw_nccl_is_off) ? mask_of(version) : 0;
	if (!context)
		return 0;
	atomic_store(&context->comm, NULL);
	atomic_store(&context->mask, mask);
	lw_nccl_own_begin();
	report(version);
	if (facts->key) {
		if (lw_rank_known() < 0)
			lw_place_confirmed(facts->rank, facts->size);
		set_comm(context, facts);
	}
	return 0;
}

int lw_nccl_plugin_finalize(void *at)
{
	struct context *context = context_of(at);
	struct lw_nccl_comm *comm;

	if (!context)
		return 0;
	comm = atomic_exchange(&context->comm, NULL);
	if (comm) {
		lw_nccl_proxies_flush(comm);
		lw_nccl_ops_flush(comm);
		if (atomic_fetch_sub(&comm->n_contexts, 1) == 1)
			lw_nccl_comm_ended(comm);
	}
	atomic_store(&context->version, 0);
	return 0;
}

void lw_nccl_plugin_on(bool is_on)
{
	atomic_store(&lw_nccl_is_off, !is_on);
	for (struct context *context = contexts; context < contexts + CONTEXTS_MAX; context++) {
		uint32_t version = atomic_load(&context->version);
		int *mask = atomic_load(&context->mask);

		if (version && mask)
			__atomic_store_n(mask, is_on ? mask_of(version) : 0, __ATOMIC_RELAXED);
	}
}

#undef lapwing_nccl_start
#undef lapwing_nccl_stop

LW_EXPORT void lapwing_nccl_start(void)
{
	lw_nccl_plugin_on(true);
}

LW_EXPORT void lapwing_nccl_stop(void)
{
	lw_nccl_plugin_on(false);
}

/* ---- events --------------------------------------------------------------------------------------------- */

struct call {
	struct context *context;
	unsigned version;
	int64_t now_ns;
	struct lw_nccl_event event;
};

static uint64_t none(void)
{
	return lw_nccl_handle(LW_NCCL_HANDLE_NONE, 0);
}

/* A group's handle: its serial, and whether it is only what happens to be launched together. */
static uint64_t group_handle(uint32_t serial, bool is_plan)
{
	return lw_nccl_handle(LW_NCCL_HANDLE_GROUP, (uint64_t)is_plan << 32 | serial);
}

static void set_group(struct lw_nccl_facts *facts, uint64_t handle)
{
	if (lw_nccl_handle_kind(handle) != LW_NCCL_HANDLE_GROUP)
		return;
	facts->group = (uint32_t)handle;
	facts->is_plan = lw_nccl_handle_value(handle) >> 32;
}

static uint64_t start_group(struct call *call)
{
	(void)call;
	return group_handle(lw_nccl_group_serial(), true);
}

/* NCCL counts the call itself as one level. */
static uint64_t start_group_api(struct call *call)
{
	const struct lw_nccl_thread *thread = lw_tls.memory ? &lw_tls.memory->nccl : NULL;

	if (thread && thread->depth)
		return group_handle(thread->group, false);
	return group_handle(lw_nccl_group_serial(), call->event.depth <= 1);
}

static int32_t peer_of(const struct lw_nccl_event *event)
{
	switch (event->op) {
	case LW_NCCL_BROADCAST:
	case LW_NCCL_REDUCE:
	case LW_NCCL_GATHER:
	case LW_NCCL_SCATTER:
	case LW_NCCL_SEND:
	case LW_NCCL_RECV:
		return event->root;
	default: /* NCCL says 0 there */
		return -1;
	}
}

static struct lw_nccl_facts facts_of(const struct call *call)
{
	const struct lw_nccl_event *event = &call->event;
	struct lw_nccl_facts facts = {.comm = atomic_load(&call->context->comm),
		.t0_ns = call->now_ns,
		.bytes = event->bytes,
		.peer = peer_of(event),
		.op = event->op,
		.source = LW_NCCL_FROM_PLUGIN,
		.algorithm = event->algorithm,
		.protocol = event->protocol,
		.n_channels = event->n_channels,
		.dtype = event->dtype};

	if (event->dtype == LW_DTYPE_UNKNOWN)
		facts.flags |= LW_NCCL_NO_BYTES;
	return facts;
}

static uint64_t start_api(struct call *call)
{
	struct lw_nccl_facts facts = facts_of(call);
	uint64_t current = lw_nccl_call_current(), begun;

	if (current) { /* who called us told of it */
		if (call->event.is_captured)
			lw_nccl_op_captured(current);
		return lw_nccl_handle(LW_NCCL_HANDLE_INSIDE, lw_nccl_handle_value(current));
	}
	set_group(&facts, call->event.parent);
	begun = lw_nccl_call_begin(&facts);
	if (!begun)
		return none();
	if (call->event.is_captured)
		lw_nccl_op_captured(begun);
	return lw_nccl_handle(LW_NCCL_HANDLE_CALL, lw_nccl_handle_value(begun));
}

static uint64_t start_task(struct call *call)
{
	const struct lw_nccl_event *event = &call->event;
	struct lw_nccl_facts facts;

	if (event->comm_hash) { /* up to v3 an operation says which communicator it is of */
		const struct lw_nccl_comm_facts comm = {
			.key = event->comm_hash, .rank = event->rank};

		if (!atomic_load(&call->context->comm))
			set_comm(call->context, &comm);
	}
	facts = facts_of(call);
	set_group(&facts, event->group);
	return lw_nccl_own(lw_nccl_op_start(event->parent, &facts));
}

static uint64_t start_proxy(struct call *call)
{
	struct lw_nccl_comm *comm = call->context ? atomic_load(&call->context->comm) : NULL;
	bool is_own = call->context && lw_nccl_own_parent(&call->event, comm);

	/* PXN: the context is of the other process too, an address that is nothing here */
	return lw_nccl_proxy_start(is_own ? comm : NULL, &call->event, is_own, call->now_ns);
}

static uint64_t start_step(struct call *call)
{
	return lw_nccl_proxy_step(&call->event, call->now_ns);
}

static uint64_t start_net(struct call *call)
{
	return lw_nccl_proxy_net(&call->event, call->now_ns);
}

static uint64_t start_launch(struct call *call)
{
	uint64_t first = lw_nccl_handle_kind(call->event.parent) == LW_NCCL_HANDLE_GROUP
				 ? lw_nccl_group_first((uint32_t)call->event.parent)
				 : 0;
	struct lw_thread_memory *memory = first ? lw_thread_memory() : NULL;

	if (!memory || memory->nccl.launch)
		return none();
	memory->nccl.launch = lw_nccl_handle(LW_NCCL_HANDLE_LAUNCH, first);
	lw_nccl_launch_begin(first);
	return memory->nccl.launch;
}

static uint64_t start_nothing(struct call *call)
{
	(void)call;
	return none();
}

/* These may come for operations of another process, whose context is not ours. */
enum {
	WITHOUT_CONTEXT =
		LW_NCCL_PROFILE_PROXY_OP | LW_NCCL_PROFILE_PROXY_STEP | LW_NCCL_PROFILE_NET_PLUGIN
};

/* By the bit of enum lw_nccl_profile. */
static uint64_t (*const starts[])(struct call *call) = {start_group, start_task, start_task,
	start_proxy, start_step, start_nothing, start_proxy, start_net, start_group_api, start_api,
	start_api, start_launch, start_task, start_nothing, start_nothing};

int lw_nccl_plugin_start(unsigned version, void *at, void **ret_handle, const void *event)
{
	struct call call = {.context = context_of(at), .version = version};
	uint64_t handle = none();

	if (event && lw_is_live()) {
		unsigned bit;

		call.now_ns = lw_now_ns();
		lw_nccl_event_read(version, event, &call.event);
		bit = call.event.kind ? (unsigned)__builtin_ctz(call.event.kind) : 32;
		if (bit < sizeof(starts) / sizeof(starts[0]) && call.event.kind == 1u << bit &&
			(call.context || call.event.kind & WITHOUT_CONTEXT))
			handle = starts[bit](&call);
	}
	if (ret_handle)
		*ret_handle = (void *)(uintptr_t)handle;
	return 0;
}

static void count_odd(bool is_known)
{
	if (!is_known)
		atomic_fetch_add_explicit(&n_odd, 1, memory_order_relaxed);
}

static void stop_launch(uint64_t handle)
{
	struct lw_nccl_thread *thread = lw_tls.memory ? &lw_tls.memory->nccl : NULL;

	if (!thread || thread->launch != handle) {
		count_odd(false);
		return;
	}
	thread->launch = 0;
	lw_nccl_launch_end();
}

int lw_nccl_plugin_stop(void *at)
{
	uint64_t handle = (uint64_t)(uintptr_t)at;

	if (!lw_is_live())
		return 0;
	switch (lw_nccl_handle_kind(handle)) {
	case LW_NCCL_HANDLE_OP:
		count_odd(lw_nccl_op_stop(lw_nccl_own_handle(handle), lw_now_ns()));
		break;
	case LW_NCCL_HANDLE_CALL:
		lw_nccl_call_end(lw_nccl_handle(LW_NCCL_HANDLE_OP, lw_nccl_handle_value(handle)), 0,
			lw_now_ns());
		break;
	case LW_NCCL_HANDLE_PROXY:
	case LW_NCCL_HANDLE_STEP:
	case LW_NCCL_HANDLE_NET:
		count_odd(lw_nccl_proxy_stop(handle, lw_now_ns()));
		break;
	case LW_NCCL_HANDLE_LAUNCH:
		stop_launch(handle);
		break;
	case LW_NCCL_HANDLE_GROUP:
	case LW_NCCL_HANDLE_INSIDE:
	case LW_NCCL_HANDLE_NONE:
		break;
	default:
		count_odd(false);
	}
	return 0;
}

int lw_nccl_plugin_change(unsigned version, void *at, int state, const void *arguments)
{
	uint64_t handle = (uint64_t)(uintptr_t)at;
	unsigned kind = lw_nccl_handle_kind(handle);

	if (!lw_is_live())
		return 0;
	if (kind == LW_NCCL_HANDLE_PROXY || kind == LW_NCCL_HANDLE_STEP ||
		kind == LW_NCCL_HANDLE_NET) {
		const struct lw_nccl_change told = {version, state, arguments, lw_now_ns()};

		count_odd(lw_nccl_proxy_change(handle, &told));
	} else if (kind < LW_NCCL_HANDLE_OP || kind > LW_NCCL_HANDLE_NONE) {
		count_odd(false);
	}
	return 0;
}

void lw_nccl_flush(void)
{
	uint64_t n = atomic_exchange(&n_odd, 0);

	lw_nccl_proxies_flush(NULL);
	lw_nccl_ops_flush(NULL);
	lw_nccl_comms_flush();
	if (n) { /* nothing is missing: NCCL itself calls for what has ended */
		char text[96];

		snprintf(text, sizeof(text),
			"%llu calls of NCCL were for events that had ended or never begun",
			(unsigned long long)n);
		lw_hook_report("nccl_plugin", LW_HOOK_ACTIVE, 0, text);
	}
}

/* ---- why it is not there -------------------------------------------------------------------------------- */

void lw_nccl_plugin_missing(int version)
{
	static _Atomic bool is_told;
	const char *name = getenv("NCCL_PROFILER_PLUGIN");

	if (!lw_is_live() || atomic_load(&n_contexts) || atomic_exchange(&is_told, true))
		return;
	if (version && version < VERSION_NEEDED)
		lw_hook_report("nccl_plugin", LW_HOOK_ABSENT, 0,
			"NCCL before 2.23.4 has no profiler interface");
	else if (!name || !*name)
		lw_hook_report("nccl_plugin", LW_HOOK_ABSENT, 0, "NCCL_PROFILER_PLUGIN is not set");
	else if (strcasecmp(name, "none") == 0)
		lw_hook_report("nccl_plugin", LW_HOOK_REFUSED, 0, "NCCL_PROFILER_PLUGIN=none");
	else if (strncasecmp(name, "STATIC_PLUGIN", strlen(name)) != 0 &&
		 !strstr(name, "liblapwing"))
		lw_hook_report("nccl_plugin", LW_HOOK_REFUSED, 0,
			"NCCL_PROFILER_PLUGIN names another plugin: left alone");
	else
		lw_hook_report("nccl_plugin", LW_HOOK_ABSENT, 0, "NCCL did not load it");
}
