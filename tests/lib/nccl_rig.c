/* SPDX-License-Identifier: Apache-2.0 */
/* nccl_rig.c - see nccl_rig.h. A record that the collector would refuse ends the test at once. */
#include "tests/lib/nccl_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if __has_include("tracer/cupti.h")
#include "tracer/cupti.h"

_Atomic bool lw_cupti_is_attached;

void lw_cupti_push(enum lw_launch_for made_for, uint64_t serial)
{
	(void)made_for, (void)serial;
}

void lw_cupti_pop(enum lw_launch_for made_for)
{
	(void)made_for;
}
#endif

static uint32_t live = 1;
const volatile uint32_t *lw_live = &live;
_Thread_local struct lw_tls lw_tls;
static _Thread_local struct lw_thread_memory memory;

struct lw_event rig_records[RIG_RECORDS_MAX];
_Atomic uint32_t rig_n_records;
_Atomic uint64_t rig_n_ops, rig_n_lost;
enum lw_hook_status rig_status;
const char *rig_detail;

enum { SERIALS_MAX = 1 << 20 };
static _Atomic uint64_t seen[SERIALS_MAX]; /* serials of NCCL_OP records */

static void refuse(const char *why, const struct lw_event *event)
{
	fprintf(stderr, "nccl_rig: %s: kind %d op %d t0 %lld t1 %lld\n", why, event->kind,
		event->op, (long long)event->t0_ns, (long long)event->t1_ns);
	abort();
}

static void check_op(const struct lw_event *event)
{
	uint64_t serial = event->nccl_op.serial;

	if (event->op < LW_NCCL_ALLREDUCE || event->op > LW_NCCL_OTHER)
		refuse("an operation of no kind", event);
	if (!serial || atomic_exchange(&seen[serial % SERIALS_MAX], serial) == serial)
		refuse("an operation told twice", event);
	if (event->nccl_op.algorithm > LW_NCCL_ALGORITHM_PAT ||
		event->nccl_op.protocol > LW_NCCL_PROTOCOL_SIMPLE)
		refuse("an algorithm or protocol that there is not", event);
	atomic_fetch_add(&rig_n_ops, 1);
}

void lw_record(const struct lw_event *event)
{
	uint32_t at = atomic_fetch_add(&rig_n_records, 1);

	if (event->t1_ns < event->t0_ns || event->t0_ns <= 0)
		refuse("times", event);
	if (event->kind == LW_EV_NCCL_OP)
		check_op(event);
	if (event->kind == LW_EV_NCCL_PROXY && event->op != LW_MESSAGE_SEND &&
		event->op != LW_MESSAGE_RECV)
		refuse("a proxy that neither sends nor receives", event);
	if (event->kind == LW_EV_NCCL_NET && event->op != LW_NCCL_NET_QP &&
		event->op != LW_NCCL_NET_SOCKET)
		refuse("a network of no kind", event);
	if (at < RIG_RECORDS_MAX)
		rig_records[at] = *event;
}

void rig_clear(void)
{
	atomic_store(&rig_n_records, 0);
	atomic_store(&rig_n_ops, 0);
	atomic_store(&rig_n_lost, 0);
}

const struct lw_event *rig_nth(enum lw_event_kind kind, uint32_t n)
{
	for (uint32_t i = 0; i < atomic_load(&rig_n_records) && i < RIG_RECORDS_MAX; i++)
		if (rig_records[i].kind == kind && n-- == 0)
			return &rig_records[i];
	return NULL;
}

struct lw_thread_memory *lw_thread_memory(void)
{
	lw_tls.memory = &memory;
	return &memory;
}

void lw_loss(enum lw_loss_reason reason, uint64_t n, const char *where)
{
	(void)reason, (void)where;
	atomic_fetch_add(&rig_n_lost, n);
}

bool lw_activate(enum lw_framework framework, enum lw_transport transport)
{
	(void)framework, (void)transport;
	return true;
}

bool lw_hook_wanted(const char *name)
{
	(void)name;
	return true;
}

void lw_hook_report(
	const char *name, enum lw_hook_status status, uint32_t n_slots, const char *detail)
{
	(void)name, (void)n_slots;
	rig_status = status;
	rig_detail = detail;
}

int32_t lw_rank_known(void)
{
	return 0;
}

void lw_place_confirmed(int32_t rank, int32_t size)
{
	(void)rank, (void)size;
}

uint32_t lw_socket_serial(int fd);
uint32_t lw_socket_serial(int fd)
{
	return fd > 0 ? (uint32_t)fd : 0;
}

/* ---- for tests ---- */

uint64_t rig_key(void)
{
	static _Atomic uint64_t next = 1000;

	return atomic_fetch_add(&next, 1);
}

struct lw_nccl_comm *rig_comm(int32_t size, bool has_plugin)
{
	const struct lw_nccl_comm_facts facts = {.key = rig_key(), .size = size, .rank = 0};
	struct lw_nccl_comm *comm = lw_nccl_comm_seen(&facts);

	if (!comm)
		abort();
	atomic_store(&comm->n_contexts, has_plugin);
	rig_clear();
	return comm;
}

struct lw_nccl_facts rig_call(struct lw_nccl_comm *comm, uint16_t op, uint64_t bytes)
{
	return (struct lw_nccl_facts){.comm = comm,
		.t0_ns = 100,
		.bytes = bytes,
		.peer = -1,
		.op = op,
		.source = LW_NCCL_FROM_PRELOAD,
		.flags = LW_NCCL_IN_PLACE,
		.dtype = LW_DTYPE_FLOAT32};
}

struct lw_nccl_facts rig_task(struct lw_nccl_comm *comm, uint16_t op, uint64_t bytes)
{
	return (struct lw_nccl_facts){.comm = comm,
		.t0_ns = 200,
		.bytes = bytes,
		.peer = -1,
		.op = op,
		.source = LW_NCCL_FROM_PLUGIN,
		.algorithm = LW_NCCL_ALGORITHM_RING,
		.protocol = LW_NCCL_PROTOCOL_LL,
		.n_channels = 4,
		.dtype = LW_DTYPE_INT8};
}
