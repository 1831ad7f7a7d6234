/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hook_mpi_collective.c - every collective as one COLLECTIVE record: bytes by the rules of mpi_calls.def.
 *
 * Reads: arguments, after the call and only when it succeeded (asking MPI about a wrong handle would
 * call the job's error handler). Writes: COLLECTIVE records, or hands them to hook_mpi_request.c.
 */
#include "tracer/hook_mpi.h"

#define ROW(buffer_s, count_s, type_s, buffer_r, count_r, type_r, op, root, comm, coll, ...)       \
	buffer_s, count_s, type_s, buffer_r, count_r, type_r, op, root, comm, LW_COLL_##coll,      \
		__VA_ARGS__
#define X(Name, name, NAME, n, ...)                                                                \
	const struct lw_mpi_collective_row lw_mpi_row_##Name = {n, ROW(__VA_ARGS__)};
LW_MPI_COLLECTIVES(X)
LW_MPI_BARRIER(X)
#undef X

/* What a Fortran program passes as MPI_IN_PLACE: the address of a common block, by compilers' spellings. */
static bool is_fortran_in_place(uintptr_t buffer)
{
	static const char *const names[] = {"mpi_fortran_in_place_", "mpi_fortran_in_place",
		"mpi_fortran_in_place__", "MPI_FORTRAN_IN_PLACE"};
	static _Atomic uintptr_t places[4]; /* 1 = there is none */

	for (int i = 0; i < 4; i++) {
		uintptr_t place = atomic_load_explicit(&places[i], memory_order_relaxed);

		if (!place) {
			place = lw_mpi_object(names[i]);
			atomic_store_explicit(&places[i], place ? place : 1, memory_order_relaxed);
		}
		if (buffer == place)
			return true;
	}
	return false;
}

static bool is_in_place(unsigned form, uintptr_t buffer)
{
	return buffer == lw_mpi->in_place ||
	       ((form & LW_MPI_FORTRAN) && is_fortran_in_place(buffer));
}

static int64_t count_at(unsigned form, uintptr_t counts, int64_t index)
{
	return form & LW_MPI_LARGE ? ((const int64_t *)counts)[index]
				   : ((const int *)counts)[index];
}

struct side {
	enum lw_mpi_blocks blocks;
	uintptr_t count, type; /* arguments */
	int32_t n_blocks;      /* EACH, SUM, TYPED: processes, or neighbours */
};

static uint64_t side_bytes(unsigned form, const struct side *side, int32_t rank)
{
	int64_t n = 0;

	switch (side->blocks) {
	case NONE:
		return 0;
	case ONE:
		n = lw_mpi_count(form, side->count);
		break;
	case EACH:
		n = lw_mpi_count(form, side->count) * side->n_blocks;
		break;
	case MINE:
		n = count_at(form, side->count, rank);
		break;
	case SUM:
		for (int32_t i = 0; i < side->n_blocks; i++)
			n += count_at(form, side->count, i);
		break;
	case TYPED:
		for (int32_t i = 0; i < side->n_blocks; i++)
			n += count_at(form, side->count, i) *
			     lw_mpi_type_bytes(
				     lw_mpi_handle_at(form, lw_pmpi.Type_f2c, side->type, i));
		return (uint64_t)n;
	}
	return (uint64_t)(n * lw_mpi_type_bytes(lw_mpi_handle(form, lw_pmpi.Type_f2c, side->type)));
}

/* The block of a side that gave up its arguments for MPI_IN_PLACE, in the other side's terms. */
static struct side replaced(const struct side *own, const struct side *other)
{
	struct side result = *other;

	if (own->blocks == ONE)
		result.blocks = other->blocks == SUM ? MINE : ONE;
	return result;
}

static void count_bytes(const struct lw_mpi_collective_row *row, unsigned form,
	const uintptr_t *args, const struct lw_mpi_comm *comm, struct lw_event *event)
{
	bool is_neighbor =
		row->coll == LW_COLL_NEIGHBOR_ALLGATHER || row->coll == LW_COLL_NEIGHBOR_ALLTOALL;
	/* all but the root know it from the root's rank; a scan's first rank is like a root */
	int32_t root = row->root == NO ? 0 : lw_mpi_int(form, args[row->root]);
	bool is_root = root == comm->rank, is_leaf = !is_root;
	struct side sent = {.blocks = row->sent_blocks},
		    received = {.blocks = row->received_blocks};

	if (row->root != NO)
		event->collective.root = root;
	if (row->root != NO && comm->is_inter) {
		is_root = root == lw_mpi->root;
		is_leaf = root != lw_mpi->root && root != lw_mpi->proc_null;
	}
	if (row->send_count == NO)
		return;
	sent.count = args[row->send_count];
	sent.type = args[row->send_type];
	received.count = args[row->receive_count];
	received.type = args[row->receive_type];
	sent.n_blocks = is_neighbor ? comm->n_targets : comm->n_peers;
	received.n_blocks = is_neighbor ? comm->n_sources : comm->n_peers;
	/* A reduce-scatter's counts are those of the group that is given the result: the own one. */
	if (row->coll == LW_COLL_REDUCESCATTER)
		sent.n_blocks = comm->size;

	if (!(row->sent_who == EVERY || (row->sent_who == ROOT ? is_root : is_leaf)))
		sent.blocks = NONE;
	if (!(row->received_who == EVERY || (row->received_who == ROOT ? is_root : is_leaf)))
		received.blocks = NONE;
	if (row->root != NO && comm->is_inter) { /* between groups a root does not send to itself */
		if (is_root && row->sent_who == EVERY)
			sent.blocks = NONE;
		if (is_root && row->received_who == EVERY)
			received.blocks = NONE;
		if (!is_root && !is_leaf)
			sent.blocks = received.blocks = NONE;
	}
	if (sent.blocks != NONE && is_in_place(form, args[row->send_buffer])) {
		event->collective.flags |= LW_COLL_IN_PLACE;
		sent = replaced(&sent, &received);
	} else if (received.blocks != NONE && row->receive_buffer != row->send_buffer &&
		   is_in_place(form, args[row->receive_buffer])) {
		event->collective.flags |= LW_COLL_IN_PLACE;
		received = replaced(&received, &sent);
	}
	event->collective.sent_bytes = side_bytes(form, &sent, comm->rank);
	event->collective.received_bytes = side_bytes(form, &received, comm->rank);
}

/* Is this how Horovod's background thread coordinates, rather than a gradient on the move? */
static bool is_control(
	const struct lw_mpi_collective_row *row, unsigned form, const uintptr_t *args, bool is_band)
{
	uintptr_t type;

	if (is_band)
		return true;
	if (!lw_horovod_in_control())
		return false;
	if (row->send_type == NO) /* a barrier */
		return true;
	/* Tensors never have these types: theirs are sized (MPI_INT32_T, MPI_UINT8_T) or made. */
	type = lw_mpi_handle(form, lw_pmpi.Type_f2c,
		args[row->root != NO && row->coll == LW_COLL_GATHER ? row->send_type
								    : row->receive_type]);
	return type == lw_mpi_handles[LW_MPI_BYTE] || type == lw_mpi_handles[LW_MPI_INT];
}

/* Horovod's bit-wise AND or OR of who has what ready: in place, in words of long long. */
static bool is_horovod_bits(
	const struct lw_mpi_collective_row *row, unsigned form, const uintptr_t *args)
{
	uintptr_t op;

	if (row->coll != LW_COLL_ALLREDUCE || form != LW_MPI_BLOCKING)
		return false;
	op = args[row->op] & lw_mpi->handle_mask;
	return (op == lw_mpi_handles[LW_MPI_BAND] || op == lw_mpi_handles[LW_MPI_BOR]) &&
	       args[row->send_buffer] == lw_mpi->in_place &&
	       (args[row->send_type] & lw_mpi->handle_mask) ==
		       lw_mpi_handles[LW_MPI_LONG_LONG_INT] &&
	       lw_horovod_is_present();
}

static void record_failed(const struct lw_mpi_call *call, unsigned flags)
{
	const struct lw_mpi_collective_row *row = call->row;
	struct lw_event event = {.kind = LW_EV_COLLECTIVE, .op = row->coll};

	if (call->form & LW_MPI_INIT) /* one that could not be set up was never begun */
		return;
	event.t0_ns = call->t0_ns;
	event.t1_ns = call->t1_ns;
	if (!(call->form & LW_MPI_FORTRAN)) /* a wrong one must not be converted */
		event.collective.comm = lw_mpi_comm_key(call->comm & lw_mpi->handle_mask);
	event.collective.root = -1;
	event.collective.transport = LW_TRANSPORT_MPI;
	event.collective.flags = (uint16_t)(LW_COLL_FAILED | LW_COLL_NO_BYTES | flags);
	if (call->form & LW_MPI_START)
		event.collective.flags |= LW_COLL_NONBLOCKING;
	if (call->form & LW_MPI_FORTRAN)
		event.collective.flags |= LW_COLL_FORTRAN;
	lw_record(&event);
}

static void record_left(const struct lw_mpi_call *call)
{
	struct lw_mpi_call left = *call;

	left.t1_ns = left.t0_ns;
	record_failed(&left, LW_COLL_UNFINISHED);
}

int lw_mpi_run_collective(const void *any_row, unsigned form, void *real, const uintptr_t *args)
{
	const struct lw_mpi_collective_row *row = any_row;
	struct lw_mpi_call call = {.row = row,
		.form = form,
		.args = args,
		.comm = args[row->comm],
		.on_left = record_left};
	/* nonblocking forms add a request, persistent ones an info and a request */
	int n = row->n + (form & LW_MPI_START ? 1 : 0) + (form & LW_MPI_INIT ? 2 : 0);
	struct lw_event event = {.kind = LW_EV_COLLECTIVE, .op = row->coll};
	const struct lw_mpi_comm *comm;
	uint64_t in_bits = 0;
	bool is_bits;
	int rc;

	if (lw_mpi_is_foreign(form))
		return lw_mpi_pass(real, args);
	is_bits = is_horovod_bits(row, form, args);
	if (is_bits && (int)args[row->send_count] > 0)
		in_bits = *(const uint64_t *)args[row->receive_buffer];
	rc = lw_mpi_call(&call, real, n);
	if (LW_UNLIKELY(rc != 0)) {
		record_failed(&call, 0);
		return rc;
	}
	event.t0_ns = call.t0_ns;
	event.t1_ns = call.t1_ns;
	event.collective.root = -1;
	event.collective.transport = LW_TRANSPORT_MPI;
	if (form & LW_MPI_FORTRAN)
		event.collective.flags |= LW_COLL_FORTRAN;
	if (is_control(row, form, args, is_bits))
		event.collective.flags |= LW_COLL_CONTROL;
	comm = lw_mpi_comm_of(lw_mpi_handle(form, lw_pmpi.Comm_f2c, args[row->comm]));
	if (comm) {
		event.collective.comm = comm->key;
		count_bytes(row, form, args, comm, &event);
	} else {
		event.collective.flags |= LW_COLL_NO_BYTES;
	}
	if (form & (LW_MPI_START | LW_MPI_INIT)) {
		event.collective.flags |= form & LW_MPI_INIT
						  ? LW_COLL_PERSISTENT | LW_COLL_NONBLOCKING
						  : LW_COLL_NONBLOCKING;
		lw_mpi_request_started(lw_mpi_handle_at(form, lw_pmpi.Request_f2c, args[n - 1], 0),
			&event, form, 0);
		return rc;
	}
	lw_record(&event);
	if (is_bits && (args[row->op] & lw_mpi->handle_mask) == lw_mpi_handles[LW_MPI_BAND])
		lw_horovod_band(in_bits, *(const uint64_t *)args[row->receive_buffer],
			(uint32_t)args[row->send_count], call.t0_ns, call.t1_ns);
	return rc;
}

#define WRAP(symbol, n, row, form)                                                                 \
	LW_MPI_WRAP(                                                                               \
		MPI_##symbol, n, "PMPI_" #symbol, lw_mpi_run_collective, &lw_mpi_row_##row, form)

#define X(Name, name, NAME, n, ...)                                                                \
	WRAP(Name, n, Name, LW_MPI_BLOCKING)                                                       \
	WRAP(I##name, LW_MPI_ADD1(n), Name, LW_MPI_START)                                          \
	WRAP(Name##_init, LW_MPI_ADD2(n), Name, LW_MPI_INIT)                                       \
	LW_MPI_WRAP(MPIX_##Name##_init, LW_MPI_ADD2(n), "PMPIX_" #Name "_init",                    \
		lw_mpi_run_collective, &lw_mpi_row_##Name, LW_MPI_INIT)
LW_MPI_COLLECTIVES(X)
LW_MPI_BARRIER(X)
#undef X

#define X(Name, name, NAME, n, ...)                                                                \
	WRAP(Name##_c, n, Name, LW_MPI_LARGE)                                                      \
	WRAP(I##name##_c, LW_MPI_ADD1(n), Name, LW_MPI_START | LW_MPI_LARGE)                       \
	WRAP(Name##_init_c, LW_MPI_ADD2(n), Name, LW_MPI_INIT | LW_MPI_LARGE)
LW_MPI_COLLECTIVES(X)
#undef X
