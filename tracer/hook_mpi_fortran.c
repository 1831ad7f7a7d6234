/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hook_mpi_fortran.c - Fortran's entry points: mpif.h and `use mpi` (mpi_x_ and its spellings), and
 * `use mpi_f08` (mpi_x_f08_).
 *
 * Open MPI's go straight to PMPI, so without these a Fortran job would not be seen at all. MPICH's end in
 * the C functions, which count them, but for those of mpi_f08 that take no buffer (lw_mpi_is_foreign).
 * The rows and what is done with them are those of the C wrappers.
 */
#include "tracer/hook_mpi.h"

/* @n: arguments in C; Fortran adds the error code. Spellings: f2c, gfortran and most; g77; none; upper. */
#define WRAP(name, NAME, n, run, row, form)                                                        \
	LW_MPI_WRAP(name##_, LW_MPI_ADD1(n), #name "_", run, row, (form) | LW_MPI_FORTRAN)         \
	LW_MPI_WRAP(name##_f08_, LW_MPI_ADD1(n), #name "_f08_", run, row,                          \
		(form) | LW_MPI_FORTRAN | LW_MPI_F08)                                              \
	SPELLING(name##__, name##_, LW_MPI_ADD1(n))                                                \
	SPELLING(name, name##_, LW_MPI_ADD1(n))                                                    \
	SPELLING(NAME, name##_, LW_MPI_ADD1(n))
#define SPELLING(other, symbol, n)                                                                 \
	LW_EXPORT int other(LW_MPI_PASTE(LW_MPI_P, n)) __attribute__((alias(#symbol)));

#define X(Name, name, NAME, n, ...)                                                                \
	WRAP(mpi_##name, MPI_##NAME, n, lw_mpi_run_collective, &lw_mpi_row_##Name,                 \
		LW_MPI_BLOCKING)                                                                   \
	WRAP(mpi_i##name, MPI_I##NAME, LW_MPI_ADD1(n), lw_mpi_run_collective, &lw_mpi_row_##Name,  \
		LW_MPI_START)                                                                      \
	WRAP(mpi_##name##_init, MPI_##NAME##_INIT, LW_MPI_ADD2(n), lw_mpi_run_collective,          \
		&lw_mpi_row_##Name, LW_MPI_INIT)                                                   \
	WRAP(mpix_##name##_init, MPIX_##NAME##_INIT, LW_MPI_ADD2(n), lw_mpi_run_collective,        \
		&lw_mpi_row_##Name, LW_MPI_INIT)
LW_MPI_COLLECTIVES(X)
LW_MPI_BARRIER(X)
#undef X

#define X(Name, name, NAME, n, ...)                                                                \
	WRAP(mpi_##name, MPI_##NAME, n, lw_mpi_run_message, &lw_mpi_row_##Name, LW_MPI_BLOCKING)
LW_MPI_MESSAGES(X)
#undef X
#define X(Name, name, NAME, n, ...)                                                                \
	WRAP(mpi_##name, MPI_##NAME, n, lw_mpi_run_message, &lw_mpi_row_##Name, LW_MPI_START)
LW_MPI_MESSAGE_STARTS(X)
#undef X
#define X(Name, name, NAME, n, ...)                                                                \
	WRAP(mpi_##name, MPI_##NAME, n, lw_mpi_run_message, &lw_mpi_row_##Name, LW_MPI_INIT)
LW_MPI_MESSAGE_INITS(X)
#undef X
#define X(Name, name, NAME, n, ...)                                                                \
	WRAP(mpi_##name, MPI_##NAME, n, lw_mpi_run_wait, &lw_mpi_row_##Name, LW_MPI_BLOCKING)
LW_MPI_WAITS(X)
#undef X
#define X(Name, name, NAME, n, ...)                                                                \
	WRAP(mpi_##name, MPI_##NAME, n, lw_mpi_run_maker, &lw_mpi_row_##Name, LW_MPI_BLOCKING)
LW_MPI_COMM_MAKERS(X)
#undef X
WRAP(mpi_comm_free, MPI_COMM_FREE, 1, lw_mpi_run_comm_free, NULL, LW_MPI_BLOCKING)
WRAP(mpi_comm_disconnect, MPI_COMM_DISCONNECT, 1, lw_mpi_run_comm_free, NULL, LW_MPI_BLOCKING)
WRAP(mpi_type_free, MPI_TYPE_FREE, 1, lw_mpi_run_type_free, NULL, LW_MPI_BLOCKING)
WRAP(mpi_start, MPI_START, 1, lw_mpi_run_start, NULL, LW_MPI_BLOCKING)
WRAP(mpi_startall, MPI_STARTALL, 2, lw_mpi_run_startall, NULL, LW_MPI_BLOCKING)
WRAP(mpi_request_free, MPI_REQUEST_FREE, 1, lw_mpi_run_request_free, NULL, LW_MPI_BLOCKING)
WRAP(mpi_finalize, MPI_FINALIZE, 0, lw_mpi_run_finalize, NULL, LW_MPI_BLOCKING)
WRAP(mpi_abort, MPI_ABORT, 2, lw_mpi_run_abort, NULL, LW_MPI_BLOCKING)

/* MPI_Init and MPI_Init_thread: @required and @provided are NULL for the first. */
static void run_init(
	const char *name, _Atomic(void *) *cached, int *required, int *provided, int *error)
{
	void *real = lw_mpi_real(cached, name);

	if (lw_hook_wanted("mpi"))
		lw_activate(LW_FRAMEWORK_NONE, LW_TRANSPORT_MPI);
	if (required)
		((void (*)(int *, int *, int *))real)(required, provided, error);
	else
		((void (*)(int *))real)(error);
	if (!error || *error == 0)
		lw_mpi_initialized();
}

#define INIT(symbol, real_name)                                                                    \
	LW_EXPORT void symbol(int *error);                                                         \
	LW_EXPORT void symbol(int *error)                                                          \
	{                                                                                          \
		static _Atomic(void *) cached;                                                     \
                                                                                                   \
		run_init(real_name, &cached, NULL, NULL, error);                                   \
	}
#define INIT_THREAD(symbol, real_name)                                                             \
	LW_EXPORT void symbol(int *required, int *provided, int *error);                           \
	LW_EXPORT void symbol(int *required, int *provided, int *error)                            \
	{                                                                                          \
		static _Atomic(void *) cached;                                                     \
                                                                                                   \
		run_init(real_name, &cached, required, provided, error);                           \
	}
INIT(mpi_init_, "mpi_init_")
INIT(mpi_init__, "mpi_init__")
INIT(mpi_init, "mpi_init")
INIT(MPI_INIT, "MPI_INIT")
INIT(mpi_init_f08_, "mpi_init_f08_")
INIT_THREAD(mpi_init_thread_, "mpi_init_thread_")
INIT_THREAD(mpi_init_thread__, "mpi_init_thread__")
INIT_THREAD(mpi_init_thread, "mpi_init_thread")
INIT_THREAD(MPI_INIT_THREAD, "MPI_INIT_THREAD")
INIT_THREAD(mpi_init_thread_f08_, "mpi_init_thread_f08_")
