/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hook_mpi.h - between the hook_mpi*.c files only.
 *
 * One build serves Open MPI and MPICH without a mpi.h: on every supported ABI an argument is one
 * 64-bit word, be it an int, a pointer or a handle, so a wrapper takes n words and hands them on as
 * they came (an int's upper half is noise to be cut off before use). The callee is always given
 * LW_MPI_MAX_ARGS words: it does not look at those beyond its own.
 */
#ifndef LAPWING_TRACER_HOOK_MPI_H
#define LAPWING_TRACER_HOOK_MPI_H

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "tracer/mpi_calls.def"
#include "tracer/tracer.h"

enum { NO = -1, LW_MPI_MAX_ARGS = 13 };

/* ---- what differs between implementations (hook_mpi.c) ------------------------------------------- */

struct lw_mpi_flavour {
	const char *name;
	uintptr_t handle_mask;      /* the part of a word that is the handle */
	uint32_t handle_bytes;      /* in arrays of handles, and behind a pointer to one */
	uintptr_t in_place;         /* MPI_IN_PLACE */
	uintptr_t no_status;        /* MPI_STATUS_IGNORE, MPI_STATUSES_IGNORE */
	uint32_t status_bytes;      /* sizeof(MPI_Status) */
	uint32_t source_at, tag_at; /* offsets in it */
	int32_t root, proc_null, any_source;
	int32_t cart, graph, dist_graph; /* what MPI_Topo_test says */
	bool is_fortran_in_c;            /* mpi_x_ calls MPI_X */
};

/* X(NAME, symbol in Open MPI, value in MPICH) */
#define LW_MPI_HANDLES(X)                                                                          \
	X(COMM_WORLD, "ompi_mpi_comm_world", 0x44000000)                                           \
	X(COMM_SELF, "ompi_mpi_comm_self", 0x44000001)                                             \
	X(COMM_NULL, "ompi_mpi_comm_null", 0x04000000)                                             \
	X(BYTE, "ompi_mpi_byte", 0x4c00010d)                                                       \
	X(INT, "ompi_mpi_int", 0x4c000405)                                                         \
	X(LONG_LONG_INT, "ompi_mpi_long_long_int", 0x4c000809)                                     \
	X(BAND, "ompi_mpi_op_band", 0x58000006)                                                    \
	X(BOR, "ompi_mpi_op_bor", 0x58000008)                                                      \
	X(REQUEST_NULL, "ompi_request_null", 0x2c000000)                                           \
	X(REQUEST_EMPTY, "ompi_request_empty", 0)

enum lw_mpi_handle {
#define X(name, symbol, value) LW_MPI_##name,
	LW_MPI_HANDLES(X)
#undef X
		LW_MPI_N_HANDLES
};

extern const struct lw_mpi_flavour *lw_mpi; /* set before *lw_mpi_live is 1 */
extern uintptr_t lw_mpi_handles[LW_MPI_N_HANDLES];

/* Functions of the library that the hooks call themselves; NULL where it has none. */
typedef int lw_mpi_fn(uintptr_t a0, uintptr_t a1, uintptr_t a2, uintptr_t a3, uintptr_t a4);
#define LW_MPI_HELPERS(X)                                                                          \
	X(Comm_rank)                                                                               \
	X(Comm_size)                                                                               \
	X(Comm_remote_size)                                                                        \
	X(Comm_test_inter)                                                                         \
	X(Comm_group)                                                                              \
	X(Comm_remote_group)                                                                       \
	X(Group_size)                                                                              \
	X(Group_translate_ranks)                                                                   \
	X(Group_free)                                                                              \
	X(Type_size_x)                                                                             \
	X(Topo_test)                                                                               \
	X(Cartdim_get)                                                                             \
	X(Graph_neighbors_count)                                                                   \
	X(Dist_graph_neighbors_count)                                                              \
	X(Get_elements_x)
/* From the int of a Fortran program to a handle (in MPICH they are the same). */
typedef uintptr_t lw_mpi_f2c_fn(int fortran);
#define LW_MPI_CONVERTERS(X) X(Comm_f2c) X(Type_f2c) X(Op_f2c) X(Request_f2c)

struct lw_mpi_functions {
#define X(name) lw_mpi_fn *name;
	LW_MPI_HELPERS(X)
#undef X
#define X(name) lw_mpi_f2c_fn *name;
	LW_MPI_CONVERTERS(X)
#undef X
};
extern struct lw_mpi_functions lw_pmpi;

/** lw_mpi_real() - resolve @name into *@cached: never NULL (a function that fails when there is none). */
void *lw_mpi_real(_Atomic(void *) *cached, const char *name);

/** lw_mpi_object() - address of a data object of the library, 0 = there is none. */
uintptr_t lw_mpi_object(const char *symbol);

/* ---- one call ------------------------------------------------------------------------------------ */

extern const volatile uint32_t *lw_mpi_live; /* at a zero until MPI_Init and after MPI_Finalize */

static inline bool lw_mpi_is_recording(void)
{
	return *lw_mpi_live != 0;
}

/* Which of a function's forms was called. */
enum lw_mpi_form {
	LW_MPI_BLOCKING = 0,
	LW_MPI_START = 1u << 0,   /* the last argument is a request */
	LW_MPI_INIT = 1u << 1,    /* the same, persistent */
	LW_MPI_LARGE = 1u << 2,   /* counts are 64 bits wide */
	LW_MPI_FORTRAN = 1u << 3, /* arguments by reference, the last is the error code */
	LW_MPI_F08 = 1u << 4,     /* and of these, mpi_f08's */
};

typedef int lw_mpi_call_fn(uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t,
	uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t);

static inline int lw_mpi_pass(void *real, const uintptr_t *a)
{
	return ((lw_mpi_call_fn *)real)(
		a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11], a[12]);
}

/* What to do with a call that is recorded; calls @real itself. @row: of mpi_calls.def */
typedef int lw_mpi_run_fn(const void *row, unsigned form, void *real, const uintptr_t *args);

/*
 * A call under way. An exception of an error handler (or its longjmp) may leave it without our knowledge,
 * and no cleanup attribute may tell (it would bring an unwinder of our own into the job): so what is
 * known is kept beside the thread, and the thread's next MPI call finds that this one's frame is gone.
 */
struct lw_mpi_call {
	const void *row;
	const uintptr_t *args; /* not there when on_left() is called */
	unsigned form;
	int32_t first_request;                           /* hook_mpi_request.c: slot, -1 = none */
	uintptr_t comm;                                  /* as passed */
	void (*on_left)(const struct lw_mpi_call *call); /* records what is known; may be NULL */
	int64_t t0_ns, t1_ns;
};

struct lw_mpi_thread {
	const char *frame; /* of the call that set lw_tls.mpi_depth to 1 */
	struct lw_mpi_call open;
};
extern _Thread_local struct lw_mpi_thread lw_mpi_thread __attribute__((tls_model("initial-exec")));

/** lw_mpi_call() - the real call between two looks at the clock. Return: its error code. */
static inline __attribute__((always_inline)) int lw_mpi_call(
	struct lw_mpi_call *call, void *real, int error_at)
{
	int rc;

	lw_mpi_thread.frame = __builtin_frame_address(0);
	lw_tls.mpi_depth = 1;
	call->t0_ns = lw_now_ns();
	/* one by one: a block copy of what was just stored word by word stalls for 8 ns */
	lw_mpi_thread.open.row = call->row;
	lw_mpi_thread.open.form = call->form;
	lw_mpi_thread.open.first_request = call->first_request;
	lw_mpi_thread.open.comm = call->comm;
	lw_mpi_thread.open.on_left = call->on_left;
	lw_mpi_thread.open.t0_ns = call->t0_ns;
	rc = lw_mpi_pass(real, call->args);
	call->t1_ns = lw_now_ns();
	lw_tls.mpi_depth = 0;
	if (call->form & LW_MPI_FORTRAN) /* optional in mpi_f08 */
		rc = call->args[error_at] ? *(const int *)call->args[error_at] : 0;
	return rc;
}

/** lw_mpi_left() - the open call of this thread was left by an exception. */
void lw_mpi_left(void);

/**
 * lw_mpi_is_foreign() - nested in another MPI call, or Fortran that will end in the C function: MPICH's,
 * but not what it has under the name mpi_x_f08_, the functions without buffers.
 * Inlined into the run functions, whose frames are those that are compared.
 */
static inline __attribute__((always_inline)) bool lw_mpi_is_foreign(unsigned form)
{
	/* stacks grow down: a nested call's frame is below the one it is nested in */
	if (LW_UNLIKELY(lw_tls.mpi_depth) &&
		(const char *)__builtin_frame_address(0) >= lw_mpi_thread.frame)
		lw_mpi_left();
	return lw_tls.mpi_depth || ((form & (LW_MPI_FORTRAN | LW_MPI_F08)) == LW_MPI_FORTRAN &&
					   lw_mpi->is_fortran_in_c);
}

/* ---- arguments as values, whatever the language ----------------------------------------------------- */

static inline int lw_mpi_int(unsigned form, uintptr_t arg)
{
	return form & LW_MPI_FORTRAN ? *(const int *)arg : (int)arg;
}

static inline int64_t lw_mpi_count(unsigned form, uintptr_t arg)
{
	return form & LW_MPI_LARGE ? (int64_t)arg : lw_mpi_int(form, arg);
}

static inline uintptr_t lw_mpi_handle(unsigned form, lw_mpi_f2c_fn *convert, uintptr_t arg)
{
	return form & LW_MPI_FORTRAN ? convert(*(const int *)arg) : arg & lw_mpi->handle_mask;
}

/* The handle that @arg points at, @index-th of an array. */
static inline uintptr_t lw_mpi_handle_at(
	unsigned form, lw_mpi_f2c_fn *convert, uintptr_t arg, int64_t index)
{
	if (form & LW_MPI_FORTRAN)
		return convert(((const int *)arg)[index]);
	if (lw_mpi->handle_bytes == sizeof(uint32_t))
		return ((const uint32_t *)arg)[index];
	return ((const uintptr_t *)arg)[index];
}

/* ---- communicators and types (hook_mpi_comm.c) ------------------------------------------------------ */

struct lw_mpi_comm {
	uint64_t key; /* the same on all members; 0 = not to be had (processes of other worlds) */
	uint64_t members;   /* hash of the set of world ranks */
	int32_t rank, size; /* place in, and size of, the own group */
	int32_t n_peers; /* processes that blocks are exchanged with: size, or the remote group's */
	int32_t n_sources, n_targets; /* neighbours, 0 = no topology */
	bool is_inter;
	uint32_t serial;
	_Atomic uint32_t
		n_children; /* communicators made from it so far, the same on all members */
};

/** lw_mpi_comm_of() - the communicator behind @handle; registered now when it was not known. */
struct lw_mpi_comm *lw_mpi_comm_of(uintptr_t handle);

/** lw_mpi_comm_key() - its key when it is known already, else 0. Calls nothing. */
uint64_t lw_mpi_comm_key(uintptr_t handle);

/** lw_mpi_comm_register() - note and record one that MPI_Comm_idup made. @made: all but key, size, rank */
void lw_mpi_comm_register(uintptr_t handle, const struct lw_event *made);

void lw_mpi_comms_start(void);

/** lw_mpi_type_bytes() - size of one element of datatype @handle. */
int64_t lw_mpi_type_bytes(uintptr_t handle);

/* ---- requests (hook_mpi_request.c) ------------------------------------------------------------------ */

/**
 * lw_mpi_request_started() - a nonblocking call returned @handle.
 * @event: its record; t1 comes with the completion (it is the start call's return until then)
 * @form: LW_MPI_INIT = persistent, not started yet; LW_MPI_FORTRAN
 * @new_comm: where MPI_Comm_idup puts the communicator, else 0
 */
void lw_mpi_request_started(
	uintptr_t handle, const struct lw_event *event, unsigned form, uintptr_t new_comm);

/** lw_mpi_requests_end() - MPI ends: what is still open is recorded as unfinished. */
void lw_mpi_requests_end(void);

/** lw_mpi_record_received() - record a message; its size and sender from @status (0 = none). */
void lw_mpi_record_received(const struct lw_event *event, uintptr_t status);

/* ---- rows of mpi_calls.def ------------------------------------------------------------------------- */

struct lw_mpi_collective_row {
	int8_t n, send_buffer, send_count, send_type, receive_buffer, receive_count, receive_type;
	int8_t op, root, comm;
	uint8_t coll; /* enum lw_coll */
	uint8_t sent_blocks, sent_who, received_blocks, received_who;
};
enum lw_mpi_blocks { NONE, ONE, EACH, SUM, TYPED, MINE };
enum lw_mpi_who { EVERY, ROOT, LEAF };

struct lw_mpi_message_half {
	int8_t count, type, peer, tag;
};
struct lw_mpi_message_row {
	int8_t n;
	struct lw_mpi_message_half sent, received;
	int8_t comm, last;
};

enum lw_mpi_statuses { SINGLE, BY_POSITION, BY_ORDER };
struct lw_mpi_wait_row {
	int8_t n, length, requests, flag, index, out_count, indices, status;
	uint8_t statuses;
};

enum lw_mpi_serial { PARENT, MEMBERS };
struct lw_mpi_maker_row {
	int8_t n, parent, tag, made, request;
	uint8_t how;    /* enum lw_comm_how */
	uint8_t serial; /* enum lw_mpi_serial */
};

/* One object a row, defined beside the C wrappers, used by the Fortran ones too. */
#define X(Name, name, NAME, ...) extern const struct lw_mpi_collective_row lw_mpi_row_##Name;
LW_MPI_COLLECTIVES(X)
LW_MPI_BARRIER(X)
#undef X
#define X(Name, name, NAME, ...) extern const struct lw_mpi_message_row lw_mpi_row_##Name;
LW_MPI_MESSAGES(X)
LW_MPI_MESSAGE_STARTS(X)
LW_MPI_MESSAGE_INITS(X)
#undef X
#define X(Name, name, NAME, ...) extern const struct lw_mpi_wait_row lw_mpi_row_##Name;
LW_MPI_WAITS(X)
#undef X
#define X(Name, name, NAME, ...) extern const struct lw_mpi_maker_row lw_mpi_row_##Name;
LW_MPI_COMM_MAKERS(X)
#undef X

lw_mpi_run_fn lw_mpi_run_collective, lw_mpi_run_message, lw_mpi_run_wait, lw_mpi_run_maker;
lw_mpi_run_fn lw_mpi_run_comm_free, lw_mpi_run_type_free; /* args: the handle */
lw_mpi_run_fn lw_mpi_run_start, lw_mpi_run_startall, lw_mpi_run_request_free;
lw_mpi_run_fn lw_mpi_run_finalize, lw_mpi_run_abort;

/** lw_mpi_initialized() - MPI_Init or MPI_Init_thread came back without an error, in any language. */
void lw_mpi_initialized(void);

/* ---- hook_mpi_probe.c ------------------------------------------------------------------------------ */

/** lw_mpi_probe() - MPI is up: the probe of a plain MPI job, if one is asked for on all ranks. */
void lw_mpi_probe(int rank, int size);

/* ---- the wrappers themselves ------------------------------------------------------------------------ */

#define LW_MPI_P0  void
#define LW_MPI_P1  uintptr_t a0
#define LW_MPI_P2  LW_MPI_P1, uintptr_t a1
#define LW_MPI_P3  LW_MPI_P2, uintptr_t a2
#define LW_MPI_P4  LW_MPI_P3, uintptr_t a3
#define LW_MPI_P5  LW_MPI_P4, uintptr_t a4
#define LW_MPI_P6  LW_MPI_P5, uintptr_t a5
#define LW_MPI_P7  LW_MPI_P6, uintptr_t a6
#define LW_MPI_P8  LW_MPI_P7, uintptr_t a7
#define LW_MPI_P9  LW_MPI_P8, uintptr_t a8
#define LW_MPI_P10 LW_MPI_P9, uintptr_t a9
#define LW_MPI_P11 LW_MPI_P10, uintptr_t a10
#define LW_MPI_P12 LW_MPI_P11, uintptr_t a11
#define LW_MPI_P13 LW_MPI_P12, uintptr_t a12
#define LW_MPI_A0
#define LW_MPI_A1  a0
#define LW_MPI_A2  LW_MPI_A1, a1
#define LW_MPI_A3  LW_MPI_A2, a2
#define LW_MPI_A4  LW_MPI_A3, a3
#define LW_MPI_A5  LW_MPI_A4, a4
#define LW_MPI_A6  LW_MPI_A5, a5
#define LW_MPI_A7  LW_MPI_A6, a6
#define LW_MPI_A8  LW_MPI_A7, a7
#define LW_MPI_A9  LW_MPI_A8, a8
#define LW_MPI_A10 LW_MPI_A9, a9
#define LW_MPI_A11 LW_MPI_A10, a10
#define LW_MPI_A12 LW_MPI_A11, a11
#define LW_MPI_A13 LW_MPI_A12, a12

#define LW_MPI_ADD1_0       1
#define LW_MPI_ADD1_1       2
#define LW_MPI_ADD1_2       3
#define LW_MPI_ADD1_3       4
#define LW_MPI_ADD1_4       5
#define LW_MPI_ADD1_5       6
#define LW_MPI_ADD1_6       7
#define LW_MPI_ADD1_7       8
#define LW_MPI_ADD1_8       9
#define LW_MPI_ADD1_9       10
#define LW_MPI_ADD1_10      11
#define LW_MPI_ADD1_11      12
#define LW_MPI_ADD1_12      13
#define LW_MPI_PASTE_(a, b) a##b
#define LW_MPI_PASTE(a, b)  LW_MPI_PASTE_(a, b)
#define LW_MPI_ADD1(n)      LW_MPI_PASTE(LW_MPI_ADD1_, n)
#define LW_MPI_ADD2(n)      LW_MPI_ADD1(LW_MPI_ADD1(n))

/*
 * One exported function of @n words in front of @real_name. Not recording: a load, a branch, the call.
 */
#define LW_MPI_WRAP(symbol, n, real_name, run, row, form)                                          \
	LW_EXPORT int symbol(LW_MPI_PASTE(LW_MPI_P, n));                                           \
	LW_EXPORT int symbol(LW_MPI_PASTE(LW_MPI_P, n))                                            \
	{                                                                                          \
		static _Atomic(void *) cached;                                                     \
		void *real = atomic_load_explicit(&cached, memory_order_relaxed);                  \
                                                                                                   \
		if (LW_UNLIKELY(!real))                                                            \
			real = lw_mpi_real(&cached, real_name);                                    \
		if (__builtin_expect(!lw_mpi_is_recording(), 1))                                   \
			return ((int (*)(LW_MPI_PASTE(LW_MPI_P, n)))real)(                         \
				LW_MPI_PASTE(LW_MPI_A, n));                                        \
		{                                                                                  \
			const uintptr_t args[LW_MPI_MAX_ARGS] = {LW_MPI_PASTE(LW_MPI_A, n)};       \
                                                                                                   \
			return run(row, form, real, args);                                         \
		}                                                                                  \
	}

#endif /* LAPWING_TRACER_HOOK_MPI_H */
