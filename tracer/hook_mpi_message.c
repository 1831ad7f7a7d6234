/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hook_mpi_message.c - point to point: one MESSAGE record for each message sent or received.
 *
 * Reads: arguments, after the call and only when it succeeded. Writes: MESSAGE records, or hands them to
 * hook_mpi_request.c.
 */
#include "tracer/hook_mpi.h"

#define HALVES(sc, st, sp, sg, rc, rt, rp, rg, comm, last)                                         \
	{sc, st, sp, sg}, {rc, rt, rp, rg}, comm, last
#define X(Name, name, NAME, n, ...)                                                                \
	const struct lw_mpi_message_row lw_mpi_row_##Name = {n, HALVES(__VA_ARGS__)};
LW_MPI_MESSAGES(X)
LW_MPI_MESSAGE_STARTS(X)
LW_MPI_MESSAGE_INITS(X)
#undef X

/* Everything that the arguments say about one direction. Return: there is a message. */
static bool describe(const struct lw_mpi_message_half *half, unsigned form, const uintptr_t *args,
	struct lw_event *event)
{
	int32_t peer = half->peer == NO ? -1 : lw_mpi_int(form, args[half->peer]);

	if (half->count == NO || (half->peer != NO && peer == lw_mpi->proc_null))
		return false;
	event->message.peer = half->peer != NO && peer == lw_mpi->any_source ? -1 : peer;
	event->message.tag = half->tag == NO ? -1 : lw_mpi_int(form, args[half->tag]);
	event->message.bytes = (uint64_t)(lw_mpi_count(form, args[half->count]) *
					  lw_mpi_type_bytes(lw_mpi_handle(
						  form, lw_pmpi.Type_f2c, args[half->type])));
	return true;
}

static void record_failed(const struct lw_mpi_call *call, unsigned flags)
{
	const struct lw_mpi_message_row *row = call->row;
	struct lw_event event = {.kind = LW_EV_MESSAGE};

	if (call->form & LW_MPI_INIT) /* never begun */
		return;
	event.t0_ns = call->t0_ns;
	event.t1_ns = call->t1_ns;
	event.message.peer = event.message.tag = -1;
	event.message.flags = (uint16_t)(LW_COLL_FAILED | LW_COLL_NO_BYTES | flags);
	if (call->form & LW_MPI_FORTRAN) /* a wrong communicator must not be converted */
		event.message.flags |= LW_COLL_FORTRAN;
	else if (row->comm != NO)
		event.message.comm = lw_mpi_comm_key(call->comm & lw_mpi->handle_mask);
	if (call->form & LW_MPI_START)
		event.message.flags |= LW_COLL_NONBLOCKING;
	for (uint16_t op = LW_MESSAGE_SEND; op <= LW_MESSAGE_RECV; op++) {
		event.op = op;
		if ((op == LW_MESSAGE_SEND ? row->sent : row->received).count != NO)
			lw_record(&event);
	}
}

static void record_left(const struct lw_mpi_call *call)
{
	struct lw_mpi_call left = *call;

	left.t1_ns = left.t0_ns;
	record_failed(&left, LW_COLL_UNFINISHED);
}

int lw_mpi_run_message(const void *any_row, unsigned form, void *real, const uintptr_t *args)
{
	const struct lw_mpi_message_row *row = any_row;
	struct lw_mpi_call call = {.row = row,
		.form = form,
		.args = args,
		.comm = row->comm == NO ? 0 : args[row->comm],
		.on_left = record_left};
	struct lw_event event = {.kind = LW_EV_MESSAGE};
	const struct lw_mpi_comm *comm = NULL;
	int rc;

	if (lw_mpi_is_foreign(form))
		return lw_mpi_pass(real, args);
	rc = lw_mpi_call(&call, real, row->n);
	if (LW_UNLIKELY(rc != 0)) {
		record_failed(&call, 0);
		return rc;
	}
	event.t0_ns = call.t0_ns;
	event.t1_ns = call.t1_ns;
	if (form & LW_MPI_FORTRAN)
		event.message.flags |= LW_COLL_FORTRAN;
	if (form & (LW_MPI_START | LW_MPI_INIT))
		event.message.flags |= LW_COLL_NONBLOCKING;
	if (form & LW_MPI_INIT)
		event.message.flags |= LW_COLL_PERSISTENT;
	if (row->comm != NO) /* a matched probe's communicator is not among the arguments */
		comm = lw_mpi_comm_of(lw_mpi_handle(form, lw_pmpi.Comm_f2c, args[row->comm]));
	if (comm)
		event.message.comm = comm->key;
	for (uint16_t op = LW_MESSAGE_SEND; op <= LW_MESSAGE_RECV; op++) {
		event.op = op;
		if (!describe(op == LW_MESSAGE_SEND ? &row->sent : &row->received, form, args,
			    &event))
			continue;
		if (form & (LW_MPI_START | LW_MPI_INIT))
			lw_mpi_request_started(
				lw_mpi_handle_at(form, lw_pmpi.Request_f2c, args[row->last], 0),
				&event, form, 0);
		else if (op == LW_MESSAGE_RECV)
			lw_mpi_record_received(&event, form & LW_MPI_FORTRAN ? 0 : args[row->last]);
		else
			lw_record(&event);
	}
	return rc;
}

#define WRAP(Name, n, form)                                                                        \
	LW_MPI_WRAP(MPI_##Name, n, "PMPI_" #Name, lw_mpi_run_message, &lw_mpi_row_##Name, form)    \
	LW_MPI_WRAP(MPI_##Name##_c, n, "PMPI_" #Name "_c", lw_mpi_run_message, &lw_mpi_row_##Name, \
		(form) | LW_MPI_LARGE)

#define X(Name, name, NAME, n, ...) WRAP(Name, n, LW_MPI_BLOCKING)
LW_MPI_MESSAGES(X)
#undef X
#define X(Name, name, NAME, n, ...) WRAP(Name, n, LW_MPI_START)
LW_MPI_MESSAGE_STARTS(X)
#undef X
#define X(Name, name, NAME, n, ...) WRAP(Name, n, LW_MPI_INIT)
LW_MPI_MESSAGE_INITS(X)
#undef X
