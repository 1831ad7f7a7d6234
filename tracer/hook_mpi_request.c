/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hook_mpi_request.c - nonblocking and persistent operations, from their start to the return of the wait
 * or test that completes them.
 *
 * A request's record waits in a fixed table. A wait or test first takes its requests' entries out of
 * the reach of others (MPI forgets a handle inside the call, so another thread may be given the same one
 * before our wrapper is back), links them into a list, and afterwards records those that are complete and
 * puts the others back. So arrays of any length need no memory of ours.
 */
#include <string.h>

#include "tracer/hook_mpi.h"
#include "tracer/mpi_table.h"

enum { N_BUCKETS = 2048 }; /* 16384 requests at a time */

enum state { IDLE, ACTIVE, TAKEN }; /* IDLE: persistent and not started */

struct request {
	_Atomic uint32_t state;
	int32_t next;     /* TAKEN: slot of the next one of the same call, -1 = last */
	int32_t position; /* TAKEN: place in the caller's array */
	bool is_persistent;
	uintptr_t raw; /* TAKEN: what stood in the caller's array: MPI overwrites it when done */
	uintptr_t new_comm; /* of MPI_Comm_idup, else 0 */
	struct lw_event event;
};

static _Atomic uintptr_t keys[N_BUCKETS * LW_TABLE_WAYS] __attribute__((aligned(64)));
static struct request requests[N_BUCKETS * LW_TABLE_WAYS];
static const struct lw_table table = {keys, N_BUCKETS};

#define X(Name, name, NAME, ...) const struct lw_mpi_wait_row lw_mpi_row_##Name = {__VA_ARGS__};
LW_MPI_WAITS(X)
#undef X

void lw_mpi_record_received(const struct lw_event *event, uintptr_t status)
{
	struct lw_event received = *event;
	int saved_errno = errno;
	int64_t bytes = -1;

	if (status && status != lw_mpi->no_status) {
		lw_pmpi.Get_elements_x(
			status, lw_mpi_handles[LW_MPI_BYTE], (uintptr_t)&bytes, 0, 0);
		if (bytes >= 0) /* not MPI_UNDEFINED */
			received.message.bytes = (uint64_t)bytes;
		memcpy(&received.message.peer, (const char *)status + lw_mpi->source_at, 4);
		memcpy(&received.message.tag, (const char *)status + lw_mpi->tag_at, 4);
	}
	errno = saved_errno;
	lw_record(&received);
}

static void record(
	const struct lw_event *event, uintptr_t new_comm, unsigned form, uintptr_t status)
{
	if (event->kind == LW_EV_COMM)
		lw_mpi_comm_register(lw_mpi_handle_at(form, lw_pmpi.Comm_f2c, new_comm, 0), event);
	else if (event->kind == LW_EV_MESSAGE && event->op == LW_MESSAGE_RECV)
		lw_mpi_record_received(event, status);
	else
		lw_record(event);
}

/* Its end will not be seen: t1 stays the return of the start call, the last that is known of it. */
static void record_unfinished(struct lw_event *event)
{
	if (event->kind == LW_EV_COLLECTIVE)
		event->collective.flags |= LW_COLL_UNFINISHED;
	else if (event->kind == LW_EV_MESSAGE)
		event->message.flags |= LW_COLL_UNFINISHED;
	else
		return; /* a communicator that never came to be */
	lw_record(event);
}

/* Operations that were complete at once share one handle, which says nothing of which one it is. */
static bool is_complete(uintptr_t handle)
{
	if (handle == lw_mpi_handles[LW_MPI_REQUEST_NULL])
		return true;
	if (lw_mpi->handle_bytes == sizeof(uint32_t))
		return handle >> 30 == 1; /* MPICH: a built-in object */
	return handle == lw_mpi_handles[LW_MPI_REQUEST_EMPTY];
}

void lw_mpi_request_started(
	uintptr_t handle, const struct lw_event *event, unsigned form, uintptr_t new_comm)
{
	uint32_t probe = 0;
	int32_t slot;

	if (!(form & LW_MPI_INIT) && is_complete(handle)) {
		record(event, new_comm, form, 0);
		return;
	}
	/* Still in the table and nobody is waiting: its end was hidden from us, and this is a new life. */
	while ((slot = lw_table_find(&table, handle, &probe)) >= 0) {
		uint32_t state = atomic_load(&requests[slot].state);

		if (state == TAKEN)
			continue;
		if (state == ACTIVE)
			record_unfinished(&requests[slot].event);
		lw_table_remove(&table, slot);
	}
	slot = lw_table_claim(&table, handle);
	if (slot < 0) {
		struct lw_event lost = *event;

		lw_loss(LW_LOSS_TABLE_FULL, 1, "mpi.request");
		if (!(form & LW_MPI_INIT))
			record_unfinished(&lost);
		return;
	}
	requests[slot].event = *event;
	requests[slot].is_persistent = (form & LW_MPI_INIT) != 0;
	requests[slot].new_comm = new_comm;
	atomic_store_explicit(
		&requests[slot].state, form & LW_MPI_INIT ? IDLE : ACTIVE, memory_order_relaxed);
	lw_table_publish(&table, slot, handle);
}

/* The slot of @handle in state @state; -1 = none. */
static int32_t find_in_state(uintptr_t handle, enum state state)
{
	uint32_t probe = 0;
	int32_t slot;

	while ((slot = lw_table_find(&table, handle, &probe)) >= 0)
		if (atomic_load_explicit(&requests[slot].state, memory_order_acquire) == state)
			return slot;
	return -1;
}

void lw_mpi_requests_end(void)
{
	for (uint32_t slot = 0; slot < N_BUCKETS * LW_TABLE_WAYS; slot++) {
		uint32_t active = ACTIVE;

		if (atomic_load_explicit(&keys[slot], memory_order_acquire) <= LW_TABLE_CLAIMED ||
			!atomic_compare_exchange_strong(&requests[slot].state, &active, TAKEN))
			continue;
		record_unfinished(&requests[slot].event);
		lw_table_remove(&table, (int32_t)slot);
	}
}

/* ---- waits and tests ------------------------------------------------------------------------------- */

static uintptr_t raw_at(unsigned form, uintptr_t array, int64_t index)
{
	if ((form & LW_MPI_FORTRAN) || lw_mpi->handle_bytes == sizeof(uint32_t))
		return ((const uint32_t *)array)[index];
	return ((const uintptr_t *)array)[index];
}

/* Return: the first slot of the list of those of the caller's requests that are under way, -1 = none. */
static int32_t take(const struct lw_mpi_wait_row *row, unsigned form, const uintptr_t *args)
{
	int32_t n = row->length == NO ? 1 : lw_mpi_int(form, args[row->length]);
	int32_t first = -1, *link = &first;

	for (int32_t i = 0; i < n; i++) {
		uintptr_t handle =
			lw_mpi_handle_at(form, lw_pmpi.Request_f2c, args[row->requests], i);
		uint32_t active = ACTIVE;
		int32_t slot;

		if (is_complete(handle))
			continue;
		slot = find_in_state(handle, ACTIVE);
		if (slot < 0 ||
			!atomic_compare_exchange_strong(&requests[slot].state, &active, TAKEN))
			continue;
		requests[slot].position = i;
		requests[slot].raw = raw_at(form, args[row->requests], i);
		requests[slot].next = -1;
		*link = slot;
		link = &requests[slot].next;
	}
	return first;
}

/* Where @position stands in the list of indices of a ...some; usually one after the last. -1 = not. */
static int32_t order_of(const struct lw_mpi_wait_row *row, unsigned form, const uintptr_t *args,
	int32_t position, int32_t *hint)
{
	int32_t n = *(const int *)args[row->out_count];
	const int *indices = (const int *)args[row->indices];

	for (int32_t i = 0; i < n; i++) {
		int32_t at = (*hint + i) % n;

		if (indices[at] - (form & LW_MPI_FORTRAN ? 1 : 0) == position) {
			*hint = at + 1;
			return at;
		}
	}
	return -1; /* also when n is MPI_UNDEFINED */
}

/* A persistent request's handle stays, so what the call says is all there is. */
static bool is_persistent_done(const struct lw_mpi_wait_row *row, unsigned form,
	const uintptr_t *args, int32_t position, int32_t order)
{
	if (row->flag != NO && !*(const int *)args[row->flag])
		return false;
	if (row->index != NO)
		return *(const int *)args[row->index] - (form & LW_MPI_FORTRAN ? 1 : 0) == position;
	return row->out_count == NO || order >= 0;
}

static uintptr_t status_of(const struct lw_mpi_wait_row *row, unsigned form, const uintptr_t *args,
	int32_t position, int32_t order)
{
	uintptr_t status = args[row->status];
	int32_t at = 0;

	/* Fortran has its own constants for "no status": look at none. */
	if ((form & LW_MPI_FORTRAN) || status == lw_mpi->no_status)
		return 0;
	if (row->statuses == BY_POSITION)
		at = position;
	else if (row->statuses == BY_ORDER)
		at = order;
	return at < 0 ? 0 : status + (uintptr_t)at * lw_mpi->status_bytes;
}

/* @rc: of the call; not 0: some of its requests failed, and only those that it names are done. */
static void give_back(const struct lw_mpi_call *call, int rc)
{
	const struct lw_mpi_wait_row *row = call->row;
	unsigned form = call->form;
	int32_t slot = call->first_request, hint = 0;

	while (slot >= 0) {
		struct request *request = &requests[slot];
		int32_t next = request->next, position = request->position, order = -1;
		uintptr_t new_comm = request->new_comm;
		struct lw_event event;
		bool is_done;

		if (row->out_count != NO)
			order = order_of(row, form, call->args, position, &hint);
		if (request->is_persistent)
			is_done = is_persistent_done(row, form, call->args, position, order);
		else
			is_done = raw_at(form, call->args[row->requests], position) != request->raw;
		if (!is_done) {
			atomic_store_explicit(&request->state, ACTIVE, memory_order_release);
			slot = next;
			continue;
		}
		event = request->event;
		event.t1_ns = call->t1_ns;
		if (request->is_persistent)
			atomic_store_explicit(&request->state, IDLE, memory_order_release);
		else
			lw_table_remove(&table, slot);
		if (rc != 0 && event.kind == LW_EV_COLLECTIVE)
			event.collective.flags |= LW_COLL_FAILED;
		else if (rc != 0 && event.kind == LW_EV_MESSAGE)
			event.message.flags |= LW_COLL_FAILED;
		if (rc == 0)
			record(&event, new_comm, form,
				status_of(row, form, call->args, position, order));
		else if (event.kind != LW_EV_COMM)
			lw_record(&event);
		slot = next;
	}
}

/* The wait was left by an exception: MPI does not say which of its requests are done. None is waited for. */
static void give_up(const struct lw_mpi_call *call)
{
	for (int32_t slot = call->first_request, next; slot >= 0; slot = next) {
		struct lw_event event = requests[slot].event;

		next = requests[slot].next;
		if (requests[slot].is_persistent)
			atomic_store_explicit(&requests[slot].state, IDLE, memory_order_release);
		else
			lw_table_remove(&table, slot);
		event.t1_ns = call->t0_ns;
		if (event.kind == LW_EV_COLLECTIVE)
			event.collective.flags |= LW_COLL_FAILED;
		else if (event.kind == LW_EV_MESSAGE)
			event.message.flags |= LW_COLL_FAILED;
		record_unfinished(&event);
	}
}

int lw_mpi_run_wait(const void *any_row, unsigned form, void *real, const uintptr_t *args)
{
	const struct lw_mpi_wait_row *row = any_row;
	struct lw_mpi_call call = {.row = row, .form = form, .args = args, .on_left = give_up};
	int rc;

	if (lw_mpi_is_foreign(form))
		return lw_mpi_pass(real, args);
	call.first_request = take(row, form, args);
	rc = lw_mpi_call(&call, real, row->n);
	give_back(&call, rc);
	return rc;
}

/* ---- persistent requests ----------------------------------------------------------------------------- */

static void mark_started(const struct lw_mpi_call *call, uintptr_t handle)
{
	int32_t slot = find_in_state(handle, IDLE);

	if (slot < 0)
		return;
	requests[slot].event.t0_ns = call->t0_ns;
	requests[slot].event.t1_ns = call->t1_ns;
	/* pairs with the acquire in find_in_state: the thread that waits may be another */
	atomic_store_explicit(&requests[slot].state, ACTIVE, memory_order_release);
}

int lw_mpi_run_start(const void *row, unsigned form, void *real, const uintptr_t *args)
{
	struct lw_mpi_call call = {.row = row, .form = form, .args = args};
	int rc;

	if (lw_mpi_is_foreign(form))
		return lw_mpi_pass(real, args);
	rc = lw_mpi_call(&call, real, 1);
	if (rc == 0)
		mark_started(&call, lw_mpi_handle_at(form, lw_pmpi.Request_f2c, args[0], 0));
	return rc;
}

int lw_mpi_run_startall(const void *row, unsigned form, void *real, const uintptr_t *args)
{
	struct lw_mpi_call call = {.row = row, .form = form, .args = args};
	int rc;

	if (lw_mpi_is_foreign(form))
		return lw_mpi_pass(real, args);
	rc = lw_mpi_call(&call, real, 2);
	for (int i = 0; rc == 0 && i < lw_mpi_int(form, args[0]); i++)
		mark_started(&call, lw_mpi_handle_at(form, lw_pmpi.Request_f2c, args[1], i));
	return rc;
}

int lw_mpi_run_request_free(const void *row, unsigned form, void *real, const uintptr_t *args)
{
	uint32_t probe = 0;
	uintptr_t handle;
	int32_t slot;

	(void)row;
	if (lw_mpi_is_foreign(form))
		return lw_mpi_pass(real, args);
	handle = lw_mpi_handle_at(form, lw_pmpi.Request_f2c, args[0], 0);
	while (!is_complete(handle) && (slot = lw_table_find(&table, handle, &probe)) >= 0) {
		if (atomic_load(&requests[slot].state) == ACTIVE)
			record_unfinished(&requests[slot].event);
		lw_table_remove(&table, slot);
	}
	return lw_mpi_pass(real, args);
}

#define X(Name, name, NAME, n, ...)                                                                \
	LW_MPI_WRAP(MPI_##Name, n, "PMPI_" #Name, lw_mpi_run_wait, &lw_mpi_row_##Name,             \
		LW_MPI_BLOCKING)
LW_MPI_WAITS(X)
#undef X
LW_MPI_WRAP(MPI_Start, 1, "PMPI_Start", lw_mpi_run_start, NULL, LW_MPI_BLOCKING)
LW_MPI_WRAP(MPI_Startall, 2, "PMPI_Startall", lw_mpi_run_startall, NULL, LW_MPI_BLOCKING)
LW_MPI_WRAP(
	MPI_Request_free, 1, "PMPI_Request_free", lw_mpi_run_request_free, NULL, LW_MPI_BLOCKING)
