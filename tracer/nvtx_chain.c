/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvtx_chain.c - attaches to a copy of NVTX, and lets another tool have every call as well.
 *
 * NVTX has room for one tool, the library that NVTX_INJECTION64_PATH names, or one that was linked in
 * (InitializeInjectionNvtx2_fnptr). `lapwing record` puts lapwing there and keeps what was there in LW_ENV_NVTX_NEXT:
 * that tool attaches first, exactly as NVTX would have had it; then the functions that we want are exchanged for ours,
 * which call its own. The client holds the handles that the other tool gave, so what we do not take needs no change.
 *
 * A process may hold several copies of NVTX, and a call does not say of which it came: where the other tool gives them
 * different functions, those of the later copies stay as they are, and that is counted.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schema/rundir.h"
#include "tracer/nvtx.h"

enum { EXPORT_CALLBACKS = 1, COMPATIBILITY_MAJOR = 1, SLOT_DISABLED = 1 };

/* Export table 1: nvtxTypes.h, NvtxExportTableCallbacks. */
struct callbacks {
	size_t size;
	int (*get)(int module, lw_nvtx_fn ***ret_table, unsigned *ret_n);
};

static const struct {
	int module;
	unsigned number;
} calls[LW_NVTX_N_CALLS] = {
#define X(name, module, number) {module, number},
	LW_NVTX_CORE_CALLS(X)
#undef X
#define X(name, module, number) {LW_NVTX_EXTENSION_PAYLOAD, number},
		LW_NVTX_PAYLOAD_CALLS(X)
#undef X
};
enum { N_CORE_CALLS = LW_NVTX_SCHEMA };

static void no_function(void)
{
}

static _Atomic(lw_nvtx_fn)
	next[LW_NVTX_N_CALLS]; /* NULL: no copy has attached yet; no_function: none */
static _Atomic uint32_t n_taken;
static _Atomic bool is_lost;             /* another tool is named that does not load */
static _Atomic(const char *) other_name; /* of the other tool, NULL = there is none */
static _Atomic bool has_news;
static _Atomic bool withheld[LW_NVTX_N_CALLS]; /* the other tool does not make such handles */
static _Atomic bool
	is_handleless; /* the other tool gives none: every domain and text is NULL then */

lw_nvtx_fn lw_nvtx_next(enum lw_nvtx_call call)
{
	lw_nvtx_fn function = atomic_load_explicit(&next[call], memory_order_relaxed);

	return function == no_function ? NULL : function;
}

/* ---- the other tool ------------------------------------------------------------------------------- */

static bool is_own(const void *symbol)
{
	Dl_info where, own;

	return symbol && dladdr(symbol, &where) &&
	       dladdr((const void *)(uintptr_t)&lw_nvtx_next, &own) &&
	       where.dli_fbase == own.dli_fbase;
}

/* The tool that was linked into the object that @caller is of, or into the program, where that shows it. */
static void *linked_in(const char *name, const void *caller)
{
	char variable[64];
	Dl_info where;
	void *handle = NULL, **found = NULL;

	snprintf(variable, sizeof(variable), "%s_fnptr", name);
	if (caller && dladdr(caller, &where) && where.dli_fname)
		handle = dlopen(where.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
	if (handle) {
		found = dlsym(handle, variable);
		dlclose(handle);
	}
	if (!found)
		found = dlsym(RTLD_DEFAULT, variable);
	return found ? *found : NULL;
}

/* The other tool's function @name, loading it at its first use as NVTX itself would. Return: NULL = none. */
static void *other_symbol(const char *name, const void *caller)
{
	const char *path = getenv(LW_ENV_NVTX_NEXT);
	void *handle, *symbol;

	if (path && *path) {
		handle = dlopen(path, RTLD_LAZY);
		symbol = handle ? dlsym(handle, name) : NULL;
		if (!handle) /* nor would NVTX have loaded it */
			atomic_store(&is_lost, true);
	} else {
		path = "a tool linked into the program";
		symbol = linked_in(name, caller);
	}
	if (!symbol || is_own(symbol))
		return NULL;
	atomic_store(&other_name, path);
	return symbol;
}

/* ---- one copy of NVTX ----------------------------------------------------------------------------- */

/* Where the client keeps its pointer to what @call goes to; NULL = it has none. */
static lw_nvtx_fn *find_slot(const struct callbacks *callbacks, int call)
{
	lw_nvtx_fn **table;
	unsigned n = 0;

	if (!callbacks->get(calls[call].module, &table, &n) || calls[call].number >= n)
		return NULL;
	return table[calls[call].number];
}

/* Can it be told which function @call goes on to? @theirs: NULL = none, in this copy. */
static bool agrees(int call, lw_nvtx_fn theirs)
{
	lw_nvtx_fn known = NULL, wanted = theirs ? theirs : no_function;

	return atomic_compare_exchange_strong(&next[call], &known, wanted) || known == wanted;
}

static void take(lw_nvtx_fn *slot, int call, lw_nvtx_fn own, lw_nvtx_fn theirs)
{
	if (!agrees(call, theirs)) {
		lw_loss(LW_LOSS_TABLE_FULL, 1, "nvtx functions of several copies");
		return;
	}
	*slot = own;
	atomic_fetch_add(&n_taken, 1);
}

bool lw_nvtx_is_withheld(enum lw_nvtx_call call)
{
	return atomic_load_explicit(&withheld[call], memory_order_relaxed);
}

void lw_nvtx_no_handles(void)
{
	if (!atomic_exchange(&is_handleless, true))
		atomic_store(&has_news, true);
}

/* Makes a handle: where the other tool has no such call the client must get none, or that tool would be given ours. We take
 * the call all the same, to learn whose domain it is, and give NULL. */
static bool makes_handle(int call)
{
	return call >= LW_NVTX_REGISTER_A && call <= LW_NVTX_CREATE_W;
}

int lw_nvtx_attach(lw_nvtx_export_fn get_export_table, const lw_nvtx_fn *own)
{
	int (*other)(lw_nvtx_export_fn) = (int (*)(lw_nvtx_export_fn))(uintptr_t)other_symbol(
		"InitializeInjectionNvtx2", (const void *)(uintptr_t)get_export_table);
	const struct callbacks *callbacks = get_export_table(EXPORT_CALLBACKS);
	lw_nvtx_fn *slots[N_CORE_CALLS], before[N_CORE_CALLS], theirs[N_CORE_CALLS];
	bool is_other;

	atomic_store(&has_news, true);
	if (!own || !callbacks || callbacks->size < sizeof(*callbacks))
		return other ? other(get_export_table) : 0;
	for (int call = 0; call < N_CORE_CALLS; call++) {
		slots[call] = find_slot(callbacks, call);
		before[call] = slots[call] ? *slots[call] : NULL;
	}
	is_other = other && other(get_export_table);
	for (int call = 0; call < N_CORE_CALLS; call++) {
		bool is_set = slots[call] && *slots[call] != before[call];

		theirs[call] = is_set && is_other ? *slots[call] : NULL;
	}
	if (is_other && !theirs[LW_NVTX_CREATE_A])
		lw_nvtx_no_handles();
	for (int call = 0; call < N_CORE_CALLS; call++) {
		if (!slots[call])
			continue;
		if (is_other && !theirs[call] && makes_handle(call))
			atomic_store(&withheld[call], true);
		take(slots[call], call, own[call], theirs[call]);
	}
	return 1;
}

int lw_nvtx_attach_extension(struct lw_nvtx_module *module, const lw_nvtx_fn *own)
{
	int (*other)(struct lw_nvtx_module *) = (int (*)(struct lw_nvtx_module *))(
		uintptr_t)other_symbol("InitializeInjectionNvtxExtension", module);
	bool is_other = other && other(module);
	struct lw_nvtx_segment *segment;

	if (!own || module->module != LW_NVTX_EXTENSION_PAYLOAD || module->n_segments < 1 ||
		module->compatibility >> 8 != COMPATIBILITY_MAJOR)
		return is_other;
	segment = &module->segments[0];
	for (size_t i = 0; other && !is_other && i < segment->n_slots; i++)
		segment->slots[i] = 0; /* it gave up half-way */
	for (int call = N_CORE_CALLS; call < LW_NVTX_N_CALLS; call++) {
		size_t number = calls[call].number;
		lw_nvtx_fn function = NULL;

		if (number >= segment->n_slots)
			continue;
		if (is_other && segment->slots[number] != SLOT_DISABLED)
			function = (lw_nvtx_fn)segment->slots[number];
		take((lw_nvtx_fn *)&segment->slots[number], call, own[call], function);
	}
	return 1;
}

void lw_nvtx_tell(void)
{
	const char *name = atomic_load(&other_name);
	char detail[LW_STRING_MAX_BYTES] = "";

	if (!atomic_load_explicit(&has_news, memory_order_relaxed) || !lw_is_live() ||
		!atomic_exchange(&has_news, false))
		return;
	if (atomic_load(&is_lost))
		snprintf(detail, sizeof(detail), "another tool does not load: %s",
			getenv(LW_ENV_NVTX_NEXT));
	else if (name && atomic_load(&is_handleless))
		snprintf(detail, sizeof(detail),
			"every call goes on to %.180s, which gives domains no handles: whose a range is (NCCL's, Horovod's) cannot be told",
			name);
	else if (name)
		snprintf(detail, sizeof(detail), "every call goes on to %s", name);
	lw_hook_report("nvtx", LW_HOOK_ACTIVE, atomic_load(&n_taken), detail);
}
