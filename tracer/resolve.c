/* SPDX-License-Identifier: Apache-2.0 */
/* resolve.c - the real function behind a hook, wherever its library was loaded; and slot patching. */
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tracer/tracer.h"

struct search {
	const char *name;
	const void *own_base; /* where this library is mapped */
	void *found;
};

static int search_object(struct dl_phdr_info *info, size_t size, void *data)
{
	struct search *search = data;
	Dl_info where;
	void *handle, *symbol;

	(void)size;
	if (!info->dlpi_name || !info->dlpi_name[0] || strstr(info->dlpi_name, "linux-vdso"))
		return 0;
	handle = dlopen(info->dlpi_name, RTLD_LAZY | RTLD_NOLOAD);
	if (!handle)
		return 0;
	symbol = dlsym(handle, search->name);
	/* dlsym(handle) searches the dependencies too: whatever it finds is real unless it is ours. */
	if (symbol && dladdr(symbol, &where) && where.dli_fbase != search->own_base)
		search->found = symbol;
	dlclose(handle);
	return search->found != NULL;
}

void *lw_real(const char *name)
{
	struct search search = {.name = name};
	int saved_errno = errno;
	Dl_info own;

	search.found = dlsym(RTLD_NEXT, name);
	if (!search.found && dladdr((const void *)(uintptr_t)&lw_real, &own)) {
		search.own_base = own.dli_fbase;
		lw_tls.busy++;
		dl_iterate_phdr(search_object, &search);
		lw_tls.busy--;
	}
	errno = saved_errno;
	return search.found;
}

static void *resolve_for(const char *name, void *caller)
{
	Dl_info where, own, found;
	void *handle, *symbol = NULL;

	if (dladdr(caller, &where) && where.dli_fname &&
		dladdr((const void *)(uintptr_t)&lw_real, &own)) {
		handle = dlopen(where.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
		if (handle) { /* searches that library and what it is linked to, not the preloaded ones */
			symbol = dlsym(handle, name);
			dlclose(handle);
		}
		if (symbol && dladdr(symbol, &found) && found.dli_fbase == own.dli_fbase)
			symbol = NULL;
	}
	return symbol ? symbol : lw_real(name);
}

void *lw_real_for(const char *name, void *caller, struct lw_real_sites *sites)
{
	const size_t n_sites = sizeof(sites->at) / sizeof(sites->at[0]);
	int saved_errno;
	void *real;

	for (size_t i = 0; i < n_sites; i++)
		/* pairs with the release below: the function is there when its caller shows */
		if (atomic_load_explicit(&sites->at[i].caller, memory_order_acquire) == caller)
			return atomic_load_explicit(&sites->at[i].real, memory_order_relaxed);
	saved_errno = errno;
	lw_tls.busy++;
	real = resolve_for(name, caller);
	lw_tls.busy--;
	errno = saved_errno;
	for (size_t i = 0; i < n_sites; i++) {
		void *none = NULL;

		if (!atomic_compare_exchange_strong(&sites->at[i].real, &none, real))
			continue;
		atomic_store_explicit(&sites->at[i].caller, caller, memory_order_release);
		break;
	}
	return real;
}

bool lw_patch_slot(void **slot, void *replacement)
{
	uintptr_t page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE);
	uintptr_t start = (uintptr_t)slot & ~(page_bytes - 1);
	uintptr_t end = ((uintptr_t)(slot + 1) + page_bytes - 1) & ~(page_bytes - 1);
	int saved_errno = errno;
	bool is_done = false;

	if (mprotect((void *)start, end - start, PROT_READ | PROT_WRITE) == 0) {
		__atomic_store_n(slot, replacement, __ATOMIC_RELEASE);
		mprotect((void *)start, end - start, PROT_READ); /* vtables live in RELRO pages */
		is_done = true;
	}
	errno = saved_errno;
	return is_done;
}
