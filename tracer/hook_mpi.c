/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hook_mpi.c - MPI's life in this process: which implementation it is, MPI_Init to MPI_Finalize.
 *
 * MPI_Init activates the tracer; only then do the wrappers of the other hook_mpi*.c files record.
 * Reads: symbols of the MPI library. Writes: PROCESS, COMM and HOOK records.
 */
#include <dlfcn.h>
#include <string.h>

#include "tracer/hook_mpi.h"

static const volatile uint32_t never_live = 0;
const volatile uint32_t *lw_mpi_live = &never_live;

/* From the two mpi.h: Open MPI 4.1 (the same since 1.x), MPICH 4.0 (the MPICH ABI since 3.1). */
static const struct lw_mpi_flavour open_mpi = {
	.name = "Open MPI",
	.handle_mask = UINTPTR_MAX,
	.handle_bytes = sizeof(void *),
	.in_place = 1,
	.no_status = 0,
	.status_bytes = 24,
	.source_at = 0,
	.tag_at = 4,
	.root = -4,
	.proc_null = -2,
	.any_source = -1,
	.cart = 1,
	.graph = 2,
	.dist_graph = 3,
};
static const struct lw_mpi_flavour mpich = {
	.name = "MPICH",
	.handle_mask = UINT32_MAX,
	.handle_bytes = sizeof(uint32_t),
	.in_place = UINTPTR_MAX,
	.no_status = 1,
	.status_bytes = 20,
	.source_at = 8,
	.tag_at = 12,
	.root = -3,
	.proc_null = -1,
	.any_source = -2,
	.graph = 1,
	.cart = 2,
	.dist_graph = 3,
	.is_fortran_in_c = true,
};

const struct lw_mpi_flavour *lw_mpi = &open_mpi;
uintptr_t lw_mpi_handles[LW_MPI_N_HANDLES];
struct lw_mpi_functions lw_pmpi;
_Thread_local struct lw_mpi_thread lw_mpi_thread;

static int absent(void)
{
	return 16; /* an error of MPI_ERR_OTHER's kind in both */
}

void *lw_mpi_real(_Atomic(void *) *cached, const char *name)
{
	void *real = lw_real(name);

	if (!real)
		return (void *)(uintptr_t)&absent;
	atomic_store_explicit(cached, real, memory_order_relaxed);
	return real;
}

void lw_mpi_left(void)
{
	lw_tls.mpi_depth = 0;
	if (lw_mpi_thread.open.on_left)
		lw_mpi_thread.open.on_left(&lw_mpi_thread.open);
}

void lw_mpi_hide(const void *frame)
{
	lw_mpi_thread.frame = frame;
	lw_mpi_thread.open.on_left = NULL;
	lw_tls.mpi_depth = 1;
}

void lw_mpi_show(void)
{
	lw_tls.mpi_depth = 0;
}

/* An object of the library: the program's own copy (copy relocation) comes before the library's. */
uintptr_t lw_mpi_object(const char *symbol)
{
	void *found = dlsym(RTLD_DEFAULT, symbol);

	return (uintptr_t)(found ? found : lw_real(symbol));
}

static uintptr_t same(int fortran)
{
	return (uint32_t)fortran;
}

static bool find_functions(const char **ret_missing)
{
#define X(fn)                                                                                      \
	lw_pmpi.fn = (lw_mpi_fn *)lw_real("PMPI_" #fn);                                            \
	if (!lw_pmpi.fn) {                                                                         \
		*ret_missing = "this MPI has no PMPI_" #fn;                                        \
		return false;                                                                      \
	}
	LW_MPI_HELPERS(X)
#undef X
#define X(fn)                                                                                      \
	lw_pmpi.fn = lw_mpi == &open_mpi ? (lw_mpi_f2c_fn *)lw_real("PMPI_" #fn) : same;           \
	if (!lw_pmpi.fn) {                                                                         \
		*ret_missing = "this MPI has no PMPI_" #fn;                                        \
		return false;                                                                      \
	}
	LW_MPI_CONVERTERS(X)
#undef X
	return true;
}

static bool find_handles(const char **ret_missing)
{
#define X(handle, symbol, value)                                                                   \
	lw_mpi_handles[LW_MPI_##handle] = lw_mpi == &open_mpi ? lw_mpi_object(symbol) : (value);   \
	if (lw_mpi == &open_mpi && !lw_mpi_handles[LW_MPI_##handle]) {                             \
		*ret_missing = "this Open MPI has no " symbol;                                     \
		return false;                                                                      \
	}
	LW_MPI_HANDLES(X)
#undef X
	return true;
}

/* Return: the library is one whose handles and constants are known; else *@ret_why says what is not. */
static bool is_known(const char *library, const char **ret_why)
{
	if (strstr(library, "mpi_abi")) {
		*ret_why = "the MPI 5 ABI is not supported";
		return false;
	}
	lw_mpi = lw_mpi_object("ompi_mpi_comm_world") ? &open_mpi : &mpich;
	return find_functions(ret_why) && find_handles(ret_why);
}

#define X(...) +1
enum {
	N_FUNCTIONS =
		LW_MPI_COLLECTIVES(X) LW_MPI_BARRIER(X) LW_MPI_MESSAGES(X) LW_MPI_MESSAGE_STARTS(X)
			LW_MPI_MESSAGE_INITS(X) LW_MPI_WAITS(X) LW_MPI_COMM_MAKERS(X)
};
#undef X

void lw_mpi_initialized(void)
{
	static _Atomic int is_started;
	const char *library = "", *why = NULL;
	int saved_errno = errno, rank = -1, size = -1;
	uintptr_t world;
	Dl_info where;

	if (!lw_hook_wanted("mpi") || !lw_activate(LW_FRAMEWORK_NONE, LW_TRANSPORT_MPI))
		return;
	if (atomic_exchange(&is_started, 1))
		return;
	if (dladdr(lw_real("PMPI_Init"), &where) && where.dli_fname)
		library = where.dli_fname;
	if (!is_known(library, &why)) {
		lw_hook_report("mpi", LW_HOOK_REFUSED, 0, why);
		errno = saved_errno;
		return;
	}
	world = lw_mpi_handles[LW_MPI_COMM_WORLD];
	lw_pmpi.Comm_rank(world, (uintptr_t)&rank, 0, 0, 0);
	lw_pmpi.Comm_size(world, (uintptr_t)&size, 0, 0, 0);
	lw_place_confirmed(rank, size);
	lw_mpi_comms_start();
	lw_hook_report("mpi", LW_HOOK_ACTIVE, N_FUNCTIONS, library);
	lw_mpi_probe(rank, size);
	lw_mpi_live = lw_live;
	errno = saved_errno;
}

LW_EXPORT int MPI_Init(int *argc, char ***argv);
LW_EXPORT int MPI_Init(int *argc, char ***argv)
{
	static _Atomic(void *) cached;
	int (*real)(int *, char ***) = lw_mpi_real(&cached, "PMPI_Init");
	int rc;

	if (lw_hook_wanted("mpi")) /* before the library opens its connections */
		lw_activate(LW_FRAMEWORK_NONE, LW_TRANSPORT_MPI);
	rc = real(argc, argv);
	if (rc == 0)
		lw_mpi_initialized();
	return rc;
}

LW_EXPORT int MPI_Init_thread(int *argc, char ***argv, int required, int *provided);
LW_EXPORT int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
	static _Atomic(void *) cached;
	int (*real)(int *, char ***, int, int *) = lw_mpi_real(&cached, "PMPI_Init_thread");
	int rc;

	if (lw_hook_wanted("mpi"))
		lw_activate(LW_FRAMEWORK_NONE, LW_TRANSPORT_MPI);
	rc = real(argc, argv, required, provided);
	if (rc == 0)
		lw_mpi_initialized();
	return rc;
}

/* MPI calls made from inside (attribute callbacks) are the library's, and after it there are none. */
int lw_mpi_run_finalize(const void *row, unsigned form, void *real, const uintptr_t *args)
{
	struct lw_mpi_call call = {.row = row, .form = form, .args = args};

	if (lw_mpi_is_foreign(form))
		return lw_mpi_pass(real, args);
	lw_mpi_requests_end();
	lw_mpi_live = &never_live;
	return lw_mpi_call(&call, real, 0);
}

/* It does not come back, and may not run destructors. What is in the rings is safe. */
int lw_mpi_run_abort(const void *row, unsigned form, void *real, const uintptr_t *args)
{
	(void)row;
	if (!lw_mpi_is_foreign(form))
		lw_mpi_requests_end();
	return lw_mpi_pass(real, args);
}

LW_MPI_WRAP(MPI_Finalize, 0, "PMPI_Finalize", lw_mpi_run_finalize, NULL, LW_MPI_BLOCKING)
LW_MPI_WRAP(MPI_Abort, 2, "PMPI_Abort", lw_mpi_run_abort, NULL, LW_MPI_BLOCKING)
