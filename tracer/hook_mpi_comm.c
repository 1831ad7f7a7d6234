/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hook_mpi_comm.c - communicators: who is in them, and one key for each that is the same on all members.
 *
 * Handles differ from rank to rank, so a communicator's key is a hash of the set of its world ranks, of
 * the key of the communicator it was made from, and of a serial number that all its members count
 * alike: making one is collective over the parent, so "the k-th made from this parent" is the same
 * number everywhere, also when threads make them from different parents at once.
 * Also here: sizes of datatypes. Reads: PMPI. Writes: COMM records.
 */
#include <string.h>

#include "tracer/hook_mpi.h"
#include "tracer/mpi_table.h"

enum {
	N_COMM_BUCKETS = 512, /* 4096 communicators at a time */
	N_TYPE_BUCKETS = 128,
	N_COUNTERS = 1024,
	CHUNK_RANKS = 256,
	MPI_UNDEFINED = -32766, /* in both */
};

static _Atomic uintptr_t comm_keys[N_COMM_BUCKETS * LW_TABLE_WAYS] __attribute__((aligned(64)));
static struct lw_mpi_comm comms[N_COMM_BUCKETS * LW_TABLE_WAYS];
static const struct lw_table comm_table = {comm_keys, N_COMM_BUCKETS};

static _Atomic uintptr_t type_keys[N_TYPE_BUCKETS * LW_TABLE_WAYS] __attribute__((aligned(64)));
static int64_t type_bytes[N_TYPE_BUCKETS * LW_TABLE_WAYS];
static const struct lw_table type_table = {type_keys, N_TYPE_BUCKETS};

/* How many communicators there were of one (set of members, tag), where no parent can count them. */
static struct {
	_Atomic uint64_t scope; /* 0 = free */
	_Atomic uint32_t n;
} counters[N_COUNTERS];

static uintptr_t world_group;

static uint64_t mix(uint64_t value) /* splitmix64's finalizer */
{
	value += UINT64_C(0x9e3779b97f4a7c15);
	value = (value ^ value >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	value = (value ^ value >> 27) * UINT64_C(0x94d049bb133111eb);
	return value ^ value >> 31;
}

static uint64_t key_of(uint64_t members, uint64_t parent, uint32_t serial)
{
	uint64_t key = mix(members ^ mix(parent ^ mix(serial)));

	return key ? key : 1;
}

/* Return: how many there were of @scope before; UINT32_MAX when the table is full. */
static uint32_t count_one(uint64_t scope)
{
	scope |= 1;
	for (uint32_t i = 0; i < N_COUNTERS; i++) {
		uint32_t at = ((uint32_t)(scope >> 8) + i) & (N_COUNTERS - 1);
		uint64_t found = 0;

		if (atomic_compare_exchange_strong(&counters[at].scope, &found, scope) ||
			found == scope)
			return atomic_fetch_add(&counters[at].n, 1);
	}
	return UINT32_MAX;
}

/* Adds the world ranks of @group to the hash *@members; order does not matter: the sum is the set's. */
static bool add_members(uintptr_t group, uint64_t *members)
{
	int inside[CHUNK_RANKS], world[CHUNK_RANKS], n = 0;

	if (lw_pmpi.Group_size(group, (uintptr_t)&n, 0, 0, 0) != 0)
		return false;
	for (int at = 0; at < n; at += CHUNK_RANKS) {
		int n_chunk = n - at < CHUNK_RANKS ? n - at : CHUNK_RANKS;

		for (int i = 0; i < n_chunk; i++)
			inside[i] = at + i;
		if (lw_pmpi.Group_translate_ranks(group, (uintptr_t)n_chunk, (uintptr_t)inside,
			    world_group, (uintptr_t)world) != 0)
			return false;
		for (int i = 0; i < n_chunk; i++) {
			if (world[i] == MPI_UNDEFINED) /* spawned or connected: another world */
				return false;
			*members += mix((uint64_t)world[i]);
		}
	}
	return true;
}

static void read_topology(uintptr_t handle, struct lw_mpi_comm *comm)
{
	int status = MPI_UNDEFINED, n = 0, n_sources = 0, is_weighted = 0;

	if (comm->is_inter || lw_pmpi.Topo_test(handle, (uintptr_t)&status, 0, 0, 0) != 0)
		return;
	if (status == lw_mpi->cart) {
		lw_pmpi.Cartdim_get(handle, (uintptr_t)&n, 0, 0, 0);
		comm->n_sources = comm->n_targets = 2 * n;
	} else if (status == lw_mpi->graph) {
		lw_pmpi.Graph_neighbors_count(handle, (uintptr_t)comm->rank, (uintptr_t)&n, 0, 0);
		comm->n_sources = comm->n_targets = n;
	} else if (status == lw_mpi->dist_graph) {
		lw_pmpi.Dist_graph_neighbors_count(
			handle, (uintptr_t)&n_sources, (uintptr_t)&n, (uintptr_t)&is_weighted, 0);
		comm->n_sources = n_sources;
		comm->n_targets = n;
	}
}

/* Everything but key and serial. Return: the members could be named. */
static bool read_comm(uintptr_t handle, struct lw_mpi_comm *comm)
{
	uintptr_t group = 0, remote_group = 0;
	int is_inter = 0;
	bool is_named;

	memset(comm, 0, sizeof(*comm));
	lw_pmpi.Comm_rank(handle, (uintptr_t)&comm->rank, 0, 0, 0);
	lw_pmpi.Comm_size(handle, (uintptr_t)&comm->size, 0, 0, 0);
	lw_pmpi.Comm_test_inter(handle, (uintptr_t)&is_inter, 0, 0, 0);
	comm->is_inter = is_inter != 0;
	comm->n_peers = comm->size;
	read_topology(handle, comm);
	if (lw_pmpi.Comm_group(handle, (uintptr_t)&group, 0, 0, 0) != 0)
		return false;
	is_named = add_members(group, &comm->members);
	lw_pmpi.Group_free((uintptr_t)&group, 0, 0, 0, 0);
	if (comm->is_inter) {
		lw_pmpi.Comm_remote_size(handle, (uintptr_t)&comm->n_peers, 0, 0, 0);
		if (lw_pmpi.Comm_remote_group(handle, (uintptr_t)&remote_group, 0, 0, 0) != 0)
			return false;
		is_named = is_named && add_members(remote_group, &comm->members);
		lw_pmpi.Group_free((uintptr_t)&remote_group, 0, 0, 0, 0);
		comm->members = mix(comm->members); /* not the intracommunicator of the same */
	}
	return is_named;
}

static struct lw_mpi_comm *find_comm(uintptr_t handle)
{
	uint32_t probe = 0;
	int32_t slot = lw_table_find(&comm_table, handle, &probe);

	return slot < 0 ? NULL : &comms[slot];
}

static void record_comm(const struct lw_mpi_comm *comm, struct lw_event *event)
{
	event->kind = LW_EV_COMM;
	event->comm.comm = comm->key;
	event->comm.size = comm->is_inter ? comm->size + comm->n_peers : comm->size;
	event->comm.rank = comm->rank;
	event->comm.serial = comm->serial;
	event->comm.transport = LW_TRANSPORT_MPI;
	if (comm->key)
		lw_record(event);
}

/*
 * Notes the communicator behind @handle. @serial: UINT32_MAX = count it among those of its members and
 * @tag. @can_match: the other members will come to the same key; false when the parent has none.
 */
static struct lw_mpi_comm *add_comm(
	uintptr_t handle, const struct lw_event *made, uint32_t serial, int tag, bool can_match)
{
	struct lw_event event = *made;
	struct lw_mpi_comm read;
	int saved_errno = errno;
	bool is_named = read_comm(handle, &read) && can_match;
	uint32_t probe = 0;
	int32_t slot;

	errno = saved_errno;
	if (serial == UINT32_MAX) {
		serial = count_one(mix(read.members ^ mix(made->comm.parent ^ mix((uint64_t)tag))));
		if (serial == UINT32_MAX)
			lw_loss(LW_LOSS_TABLE_FULL, 1, "mpi.comm.serial");
		/* apart from the serials that parents count */
		read.members = mix(read.members ^ (uint64_t)tag);
	}
	read.serial = serial;
	if (is_named && serial != UINT32_MAX)
		read.key = key_of(read.members, made->comm.parent, serial);

	/* A handle we never saw freed (MPI freed it itself): this is its next life. */
	while ((slot = lw_table_find(&comm_table, handle, &probe)) >= 0)
		lw_table_remove(&comm_table, slot);
	slot = lw_table_claim(&comm_table, handle);
	if (slot < 0) {
		lw_loss(LW_LOSS_TABLE_FULL, 1, "mpi.comm");
		return NULL;
	}
	memcpy(&comms[slot], &read, sizeof(read));
	lw_table_publish(&comm_table, slot, handle);
	record_comm(&read, &event);
	return &comms[slot];
}

void lw_mpi_comm_register(uintptr_t handle, const struct lw_event *made)
{
	add_comm(handle, made, made->comm.serial, 0, made->comm.parent != 0);
}

void lw_mpi_comms_start(void)
{
	struct lw_event event = {.op = LW_COMM_WORLD};

	lw_pmpi.Comm_group(lw_mpi_handles[LW_MPI_COMM_WORLD], (uintptr_t)&world_group, 0, 0, 0);
	event.t0_ns = event.t1_ns = lw_now_ns();
	add_comm(lw_mpi_handles[LW_MPI_COMM_WORLD], &event, 0, 0, true);
}

uint64_t lw_mpi_comm_key(uintptr_t handle)
{
	struct lw_mpi_comm *comm = find_comm(handle);

	return comm ? comm->key : 0;
}

/*
 * One that came by a way that is not hooked (MPI_COMM_SELF, MPI_Comm_spawn, sessions) is met here first.
 * Two threads may meet it at the same time: the second does without rather than wait.
 */
struct lw_mpi_comm *lw_mpi_comm_of(uintptr_t handle)
{
	static atomic_flag is_adding = ATOMIC_FLAG_INIT;
	struct lw_mpi_comm *comm = find_comm(handle);
	struct lw_event event = {.op = LW_COMM_OTHER};

	if (LW_UNLIKELY(!comm) && handle != lw_mpi_handles[LW_MPI_COMM_NULL] &&
		!atomic_flag_test_and_set(&is_adding)) {
		event.t0_ns = event.t1_ns = lw_now_ns();
		comm = find_comm(handle);
		if (!comm)
			comm = add_comm(handle, &event, UINT32_MAX, -1, true);
		atomic_flag_clear(&is_adding);
	}
	return comm;
}

/* ---- what makes and frees them --------------------------------------------------------------------- */

#define X(Name, name, NAME, n, ...)                                                                \
	const struct lw_mpi_maker_row lw_mpi_row_##Name = {n, MAKER(__VA_ARGS__)};
#define MAKER(parent, tag, made, request, how, serial)                                             \
	parent, tag, made, request, LW_COMM_##how, serial
LW_MPI_COMM_MAKERS(X)
#undef X

int lw_mpi_run_maker(const void *any_row, unsigned form, void *real, const uintptr_t *args)
{
	const struct lw_mpi_maker_row *row = any_row;
	struct lw_mpi_call call = {.row = row, .form = form, .args = args};
	struct lw_event event = {.op = row->how};
	struct lw_mpi_comm *parent = NULL;
	uint32_t serial = UINT32_MAX;
	uintptr_t made;
	int rc;

	if (lw_mpi_is_foreign(form))
		return lw_mpi_pass(real, args);
	rc = lw_mpi_call(&call, real, row->n);
	if (rc != 0)
		return rc;
	event.t0_ns = call.t0_ns;
	event.t1_ns = call.t1_ns;
	if (row->parent != NO)
		parent = lw_mpi_comm_of(lw_mpi_handle(form, lw_pmpi.Comm_f2c, args[row->parent]));
	if (parent)
		event.comm.parent = parent->key;
	if (parent &&
		row->serial == PARENT) /* counts also where this rank is left out of the new one */
		serial = atomic_fetch_add(&parent->n_children, 1) + 1;
	if (row->request != NO) { /* the new one is there when its request is complete */
		event.kind = LW_EV_COMM;
		event.comm.serial = serial;
		lw_mpi_request_started(
			lw_mpi_handle_at(form, lw_pmpi.Request_f2c, args[row->request], 0), &event,
			form, args[row->made]);
		return rc;
	}
	made = lw_mpi_handle_at(form, lw_pmpi.Comm_f2c, args[row->made], 0);
	if (made != lw_mpi_handles[LW_MPI_COMM_NULL])
		add_comm(made, &event, serial,
			row->tag == NO ? 0 : lw_mpi_int(form, args[row->tag]),
			row->parent == NO || event.comm.parent);
	return rc;
}

int lw_mpi_run_comm_free(const void *row, unsigned form, void *real, const uintptr_t *args)
{
	struct lw_mpi_call call = {.row = row, .form = form, .args = args};
	struct lw_event event = {.op = LW_COMM_FREE};
	uintptr_t handle;
	uint32_t probe = 0;
	int32_t slot;
	int rc;

	if (lw_mpi_is_foreign(form))
		return lw_mpi_pass(real, args);
	/* Out of the table before the call: another thread may be given the handle right after. */
	handle = lw_mpi_handle_at(form, lw_pmpi.Comm_f2c, args[0], 0);
	slot = lw_table_find(&comm_table, handle, &probe);
	if (slot >= 0)
		lw_table_publish(&comm_table, slot, LW_TABLE_CLAIMED);
	rc = lw_mpi_call(&call, real, 1);
	if (slot < 0)
		return rc;
	if (rc != 0) {
		lw_table_publish(&comm_table, slot, handle);
		return rc;
	}
	event.t0_ns = call.t0_ns;
	event.t1_ns = call.t1_ns;
	record_comm(&comms[slot], &event);
	lw_table_remove(&comm_table, slot);
	return rc;
}

/* ---- sizes of datatypes ---------------------------------------------------------------------------- */

int64_t lw_mpi_type_bytes(uintptr_t handle)
{
	uint32_t probe = 0;
	int32_t slot = lw_table_find(&type_table, handle, &probe);
	int saved_errno = errno;
	int64_t bytes = 0;

	if (slot >= 0)
		return type_bytes[slot];
	if (lw_pmpi.Type_size_x(handle, (uintptr_t)&bytes, 0, 0, 0) != 0 || bytes < 0)
		bytes = 0;
	errno = saved_errno;
	slot = lw_table_claim(&type_table, handle);
	if (slot >= 0) { /* full: ask again next time */
		type_bytes[slot] = bytes;
		lw_table_publish(&type_table, slot, handle);
	}
	return bytes;
}

int lw_mpi_run_type_free(const void *row, unsigned form, void *real, const uintptr_t *args)
{
	uintptr_t handle;
	uint32_t probe = 0;
	int32_t slot;

	(void)row;
	if (!lw_mpi_is_foreign(form)) {
		handle = lw_mpi_handle_at(form, lw_pmpi.Type_f2c, args[0], 0);
		/* two threads that met it first at once made two entries */
		while ((slot = lw_table_find(&type_table, handle, &probe)) >= 0)
			lw_table_remove(&type_table, slot);
	}
	return lw_mpi_pass(real, args);
}

#define X(Name, name, NAME, n, ...)                                                                \
	LW_MPI_WRAP(MPI_##Name, n, "PMPI_" #Name, lw_mpi_run_maker, &lw_mpi_row_##Name,            \
		LW_MPI_BLOCKING)
LW_MPI_COMM_MAKERS(X)
#undef X
LW_MPI_WRAP(MPI_Comm_free, 1, "PMPI_Comm_free", lw_mpi_run_comm_free, NULL, LW_MPI_BLOCKING)
LW_MPI_WRAP(
	MPI_Comm_disconnect, 1, "PMPI_Comm_disconnect", lw_mpi_run_comm_free, NULL, LW_MPI_BLOCKING)
LW_MPI_WRAP(MPI_Type_free, 1, "PMPI_Type_free", lw_mpi_run_type_free, NULL, LW_MPI_BLOCKING)
