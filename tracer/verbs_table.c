/* SPDX-License-Identifier: Apache-2.0 */
/* verbs_table.c - queue pairs by context and number: found without a lock, made and ended under a short one. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "tracer/hook_verbs.h"
#include "tracer/verbs_table.h"

enum {
	MAX_PROBES = 64, /* slots that a search looks at */
	MAX_SPINS =
		20000, /* tens of microseconds; beside a call that asks a device for a queue pair */
	LEFT = UINT32_MAX,
	LOSSES_AT_A_TIME = 1024
};

struct lw_verbs_tables *_Atomic lw_verbs_tables;

static inline struct lw_verbs_tables *tables(void)
{
	return atomic_load_explicit(&lw_verbs_tables, memory_order_acquire);
}

/* ---- beginning ------------------------------------------------------------------------------------- */

static bool map_tables(void)
{
	struct lw_verbs_tables *none = NULL;
	void *memory;

	if (tables())
		return true;
	/* Made accessible last: a job that locks all its memory (mlockall) would have all of it at once. */
	memory = mmap(NULL, sizeof(struct lw_verbs_tables), PROT_NONE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (memory == MAP_FAILED)
		return false;
	munlock(memory, sizeof(struct lw_verbs_tables));
	if (madvise(memory, sizeof(struct lw_verbs_tables), MADV_WIPEONFORK) < 0 ||
		mprotect(memory, sizeof(struct lw_verbs_tables), PROT_READ | PROT_WRITE) < 0 ||
		!atomic_compare_exchange_strong(&lw_verbs_tables, &none, memory))
		munmap(memory, sizeof(struct lw_verbs_tables));
	return tables() != NULL;
}

bool lw_verbs_is_on(void)
{
	return lw_is_live() && tables();
}

bool lw_verbs_begin(void)
{
	static _Atomic bool has_failed;
	int saved_errno = errno;
	bool is_on;

	if (!lw_is_live()) /* a forked child says for itself that there is no memory */
		atomic_store_explicit(&has_failed, false, memory_order_relaxed);
	if (LW_UNLIKELY(lw_tls.busy) || atomic_load_explicit(&has_failed, memory_order_relaxed))
		return false;
	if (!lw_hook_wanted("verbs") || !lw_activate(LW_FRAMEWORK_NONE, LW_TRANSPORT_NONE))
		return false;
	is_on = map_tables();
	if (!is_on && !atomic_exchange(&has_failed, true)) {
		lw_hook_report("verbs", LW_HOOK_REFUSED, 0, "no memory for its tables");
		lw_loss(LW_LOSS_TABLE_FULL, 1, "rdma tables");
	}
	if (is_on && !atomic_exchange(&tables()->is_reported, true))
		lw_verbs_report();
	errno = saved_errno;
	return is_on;
}

static void tell_lost(struct lw_verbs_tables *of, size_t i)
{
	uint64_t n = atomic_exchange_explicit(&of->n_lost[i], 0, memory_order_relaxed);

	if (n)
		lw_loss(i ? LW_LOSS_UNSEEN : LW_LOSS_TABLE_FULL, n,
			i ? "rdma completions" : "rdma work requests");
}

/* The first at once, for a killed process says no last word; a flood of them is told in sums. */
void lw_verbs_lose(enum lw_loss_reason reason, uint64_t n)
{
	size_t i = reason == LW_LOSS_UNSEEN;
	struct lw_verbs_tables *of = tables();

	if (!of) {
		lw_loss(reason, n, "rdma");
		return;
	}
	n += atomic_fetch_add_explicit(&of->n_lost[i], n, memory_order_relaxed);
	if (n >= LOSSES_AT_A_TIME ||
		!atomic_exchange_explicit(&of->is_told[i], true, memory_order_relaxed))
		tell_lost(of, i);
}

/* ---- finding --------------------------------------------------------------------------------------- */

static inline uint32_t first_slot(uintptr_t context, uint32_t number)
{
	uint64_t hash = ((uint64_t)context ^ (uint64_t)number << 20) * UINT64_C(0x9e3779b97f4a7c15);

	return (uint32_t)(hash >> 46) % LW_QP_SLOTS;
}

static inline bool is_it(const struct lw_qp *qp, uintptr_t context, uint32_t number)
{
	return atomic_load_explicit(&qp->number, memory_order_relaxed) == number &&
	       atomic_load_explicit(&qp->context, memory_order_relaxed) == context;
}

struct place {
	uint32_t slot; /* of what was looked for; LW_QP_SLOTS = it is not there */
	uint32_t free; /* where it could be put; LW_QP_SLOTS = nowhere */
};

/* Return: NULL = it is not there. @ret: NULL = not wanted. */
static inline struct lw_qp *look_up(
	struct lw_verbs_tables *in, uintptr_t context, uint32_t number, struct place *ret)
{
	uint32_t at = first_slot(context, number), free_slot = LW_QP_SLOTS;
	struct lw_qp *found = NULL;

	for (int i = 0; i < MAX_PROBES; i++, at = (at + 1) % LW_QP_SLOTS) {
		uint32_t index = atomic_load_explicit(&in->slots[at], memory_order_acquire);

		if (index && index != LEFT && is_it(&in->qps[index], context, number)) {
			found = &in->qps[index];
			break;
		}
		if ((!index || index == LEFT) && free_slot == LW_QP_SLOTS)
			free_slot = at;
		if (!index)
			break;
	}
	if (ret)
		*ret = (struct place){found ? at : LW_QP_SLOTS, free_slot};
	return found;
}

struct lw_qp *lw_qp_find(uintptr_t context, uint32_t number)
{
	struct lw_verbs_tables *in = tables();

	return in ? look_up(in, context, number, NULL) : NULL;
}

/* ---- making and ending ----------------------------------------------------------------------------- */

static bool lock(struct lw_verbs_tables *in)
{
	for (int i = 0; i < MAX_SPINS; i++) {
		if (!atomic_load_explicit(&in->is_changing, memory_order_relaxed) &&
			!atomic_exchange_explicit(&in->is_changing, 1, memory_order_acquire))
			return true;
#if defined(__x86_64__)
		__builtin_ia32_pause();
#endif
	}
	return false;
}

static void unlock(struct lw_verbs_tables *in)
{
	atomic_store_explicit(&in->is_changing, 0, memory_order_release);
}

void lw_qp_free(struct lw_qp *qp)
{
	struct lw_verbs_tables *in = tables();
	uint64_t top = atomic_load(&in->free_qps), index = (uint64_t)(qp - in->qps);

	do {
		qp->next_free = (uint32_t)top;
	} while (!atomic_compare_exchange_weak(
		&in->free_qps, &top, ((top >> 32) + 1) << 32 | index));
}

/* Under the lock, which makes it the only taker. Return: NULL = none left. */
static struct lw_qp *take_free(struct lw_verbs_tables *in)
{
	uint64_t top = atomic_load(&in->free_qps);

	while ((uint32_t)top) {
		struct lw_qp *qp = &in->qps[(uint32_t)top];

		if (atomic_compare_exchange_weak(
			    &in->free_qps, &top, ((top >> 32) + 1) << 32 | qp->next_free))
			return qp;
	}
	if (atomic_load(&in->n_qps) >= LW_QPS_MAX - 1)
		return NULL;
	return &in->qps[atomic_fetch_add(&in->n_qps, 1) + 1]; /* 0 is none */
}

static void fill(struct lw_qp *qp, const struct lw_qp_facts *facts)
{
	qp->send_cq = facts->send_cq;
	qp->recv_cq = facts->recv_cq;
	qp->srq = facts->srq;
	qp->type = facts->type;
	atomic_store_explicit(&qp->flags, facts->flags, memory_order_relaxed);
	qp->is_signal_all = facts->is_signalling_known && facts->flags & LW_RDMA_QP_SIGNAL_ALL;
	qp->is_signalling_known = facts->is_signalling_known;
	qp->peer_number = 0;
	qp->port = 0;
	qp->made_ns = lw_now_ns();
}

/*
 * The serial of a port and address, and in *@ret_is_new whether its record is still to be written.
 * Under the lock. Return: 0 = no room.
 */
static uint32_t find_port(struct lw_verbs_tables *in, const struct lw_rdma_path *path,
	uint64_t device, bool *ret_is_new)
{
	uint32_t n = atomic_load(&in->n_ports);

	*ret_is_new = false;
	for (uint32_t i = 0; i < n; i++)
		if (in->ports[i].device == device && in->ports[i].number == path->port &&
			in->ports[i].gid_index == path->gid_index &&
			!memcmp(in->ports[i].gid, path->gid, sizeof(path->gid)))
			return i + 1;
	if (n == LW_RDMA_PORTS_MAX)
		return 0;
	in->ports[n].device = device;
	in->ports[n].number = path->port;
	in->ports[n].gid_index = path->gid_index;
	memcpy(in->ports[n].gid, path->gid, sizeof(path->gid));
	atomic_store(&in->n_ports, n + 1);
	*ret_is_new = true;
	return n + 1;
}

static uint32_t get_port(struct lw_verbs_tables *in, const struct lw_rdma_path *path)
{
	struct lw_event event = {.kind = LW_EV_RDMA_PORT};
	uint64_t device = lw_string_z(path->device);
	uint32_t port;
	bool is_new;

	if (!path->device || !lock(in))
		return 0;
	port = find_port(in, path, device, &is_new);
	unlock(in);
	if (!is_new)
		return port;
	event.t0_ns = event.t1_ns = lw_now_ns();
	event.rdma_port.device = device;
	memcpy(event.rdma_port.gid, path->gid, sizeof(path->gid));
	event.rdma_port.port = port;
	event.rdma_port.lid = path->lid;
	event.rdma_port.number = path->port;
	event.rdma_port.gid_index = path->gid_index;
	lw_record(&event);
	return port;
}

void lw_qp_record(const struct lw_qp *qp, enum lw_rdma_qp_op op, const struct lw_rdma_path *path,
	uint32_t n_unused_receives)
{
	struct lw_event event = {.kind = LW_EV_RDMA_QP, .op = (uint16_t)op};

	event.t0_ns = event.t1_ns = lw_now_ns();
	event.rdma_qp.qp = qp->serial;
	event.rdma_qp.number = atomic_load_explicit(&qp->number, memory_order_relaxed);
	event.rdma_qp.peer_number = qp->peer_number;
	event.rdma_qp.port = qp->port;
	if (path) {
		memcpy(event.rdma_qp.peer_gid, path->peer_gid, sizeof(path->peer_gid));
		event.rdma_qp.peer_lid = path->peer_lid;
	}
	event.rdma_qp.type = qp->type;
	event.rdma_qp.flags = atomic_load_explicit(&qp->flags, memory_order_relaxed);
	if (path)
		event.rdma_qp.flags |=
			(uint8_t)((path->mtu << LW_RDMA_QP_MTU_SHIFT) & LW_RDMA_QP_MTU);
	event.rdma_qp.n_unused_receives = n_unused_receives;
	lw_record(&event);
}

static struct lw_qp *add(struct lw_verbs_tables *in, const struct lw_qp_facts *facts)
{
	const struct lw_rdma_path nowhere = {.device = facts->device};
	struct place place;
	struct lw_qp *qp;
	bool is_new = false;

	if (!lock(in)) {
		lw_verbs_lose(LW_LOSS_TABLE_FULL, 1);
		return NULL;
	}
	qp = look_up(in, facts->context, facts->number, &place);
	if (!qp && place.free < LW_QP_SLOTS) { /* else another thread was quicker */
		qp = take_free(in);
		is_new = qp != NULL;
	}
	if (is_new) {
		fill(qp, facts);
		qp->serial = facts->number == LW_SRQ_NUMBER
				     ? 0
				     : atomic_fetch_add(&in->n_serials, 1) + 1;
		atomic_store_explicit(&qp->number, facts->number, memory_order_relaxed);
		atomic_store_explicit(&qp->context, facts->context, memory_order_relaxed);
		atomic_store_explicit(
			&in->slots[place.free], (uint32_t)(qp - in->qps), memory_order_release);
	}
	unlock(in);
	if (!qp) {
		lw_verbs_lose(LW_LOSS_TABLE_FULL, 1);
	} else if (is_new && qp->serial) {
		qp->port = get_port(in, &nowhere);
		lw_qp_record(qp, LW_RDMA_QP_SEEN, NULL, 0);
	}
	return qp;
}

struct lw_qp *lw_qp_get(const struct lw_qp_facts *facts)
{
	struct lw_qp *qp = lw_qp_find(facts->context, facts->number);

	return qp ? qp : add(tables(), facts);
}

struct lw_qp *lw_qp_created(const struct lw_qp_facts *facts, int64_t since_ns)
{
	struct lw_qp *old = lw_qp_find(facts->context, facts->number);

	if (old && old->made_ns >= since_ns)
		return old;
	if (old)
		lw_qp_ended(old);
	return add(tables(), facts);
}

void lw_qp_connected(struct lw_qp *qp, const struct lw_rdma_path *path)
{
	qp->peer_number = path->peer_number;
	qp->port = get_port(tables(), path);
	lw_qp_record(qp, LW_RDMA_QP_CONNECTED, path, 0);
}

void lw_qp_reset(struct lw_qp *qp)
{
	lw_qp_tell(qp, LW_WORK_RESET);
}

void lw_qp_ended(struct lw_qp *qp)
{
	struct lw_verbs_tables *in = tables();
	struct place place;
	bool is_there;

	if (!lock(in)) { /* stays as it is: found again when its number is, and ended then */
		lw_verbs_lose(LW_LOSS_TABLE_FULL, 1);
		return;
	}
	is_there = look_up(in, atomic_load(&qp->context), atomic_load(&qp->number), &place);
	if (is_there)
		atomic_store_explicit(&in->slots[place.slot], LEFT, memory_order_release);
	unlock(in);
	if (is_there) /* else another thread ends it */
		lw_qp_tell(qp, LW_WORK_END);
}

/* ---- the end --------------------------------------------------------------------------------------- */

void lw_verbs_flush(void)
{
	struct lw_verbs_tables *of = tables();

	if (!of || !lw_is_live())
		return;
	for (uint32_t i = 1, n = atomic_load(&of->n_qps); i <= n; i++)
		if (atomic_load_explicit(&of->qps[i].context, memory_order_relaxed))
			lw_qp_flush(&of->qps[i]);
	tell_lost(of, 0);
	tell_lost(of, 1);
	lw_verbs_memory_record();
}
