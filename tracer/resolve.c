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

struct span {
	uintptr_t inside; /* an address in the object that is looked for */
	uintptr_t start, end;
};

static int find_span(struct dl_phdr_info *info, size_t size, void *data)
{
	struct span *span = data;
	uintptr_t start = UINTPTR_MAX, end = 0;

	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &info->dlpi_phdr[i];
		uintptr_t at = info->dlpi_addr + part->p_vaddr;

		if (part->p_type != PT_LOAD)
			continue;
		start = at < start ? at : start;
		end = at + part->p_memsz > end ? at + part->p_memsz : end;
	}
	if (span->inside < start || span->inside >= end)
		return 0;
	span->start = start;
	span->end = end;
	return 1;
}

/* The first call from an object, or from one without a place in @sites. */
static void *find_real_for(const char *name, void *caller, struct lw_real_sites *sites)
{
	const size_t n_sites = sizeof(sites->at) / sizeof(sites->at[0]);
	struct span span = {.inside = (uintptr_t)caller};
	void *real;

	if (dl_iterate_phdr(find_span, &span)) {
		for (size_t i = 0; i < n_sites; i++) {
			uintptr_t start = 0;

			if (atomic_compare_exchange_strong(
				    &sites->at[i].start, &start, span.start)) {
				real = resolve_for(name, caller);
				sites->at[i].end = span.end;
				/* pairs with the load in lw_real_for(): the end is there */
				atomic_store_explicit(
					&sites->at[i].real, real, memory_order_release);
				return real;
			}
			if (start == span.start) /* another thread is just about to know it */
				return resolve_for(name, caller);
		}
	}
	real = lw_real(name);
	atomic_store_explicit(&sites->other, real, memory_order_relaxed);
	return real;
}

void *lw_real_for(const char *name, void *caller, struct lw_real_sites *sites)
{
	const size_t n_sites = sizeof(sites->at) / sizeof(sites->at[0]);
	int saved_errno;
	void *real;

	for (size_t i = 0; i < n_sites; i++) {
		uintptr_t start;

		/* pairs with the release in find_real_for() */
		real = atomic_load_explicit(&sites->at[i].real, memory_order_acquire);
		start = atomic_load_explicit(&sites->at[i].start, memory_order_relaxed);
		if (real && (uintptr_t)caller - start < sites->at[i].end - start)
			return real;
	}
	real = atomic_load_explicit(&sites->other, memory_order_relaxed);
	if (real && atomic_load_explicit(&sites->at[n_sites - 1].start, memory_order_relaxed))
		return real;
	saved_errno = errno;
	lw_tls.busy++;
	real = find_real_for(name, caller, sites);
	lw_tls.busy--;
	errno = saved_errno;
	return real;
}

static int count_unloads(struct dl_phdr_info *info, size_t size, void *data)
{
	if (size >= offsetof(struct dl_phdr_info, dlpi_subs) + sizeof(info->dlpi_subs))
		*(uint64_t *)data = info->dlpi_subs;
	return 1;
}

/* Return: what is cached for @caller while @n_unloads libraries had gone, or NULL. */
static void *read_site(struct lw_real_site *site, uintptr_t caller, uint64_t n_unloads)
{
	uint32_t version = atomic_load(&site->version);
	void *real = atomic_load(&site->real);
	bool is_it = atomic_load(&site->n_unloads) == n_unloads &&
		     caller - atomic_load(&site->start) < atomic_load(&site->n_bytes);

	return is_it && !(version & 1) && atomic_load(&site->version) == version ? real : NULL;
}

static void write_site(
	struct lw_real_site *site, const struct span *span, void *real, uint64_t n_unloads)
{
	uint32_t version = atomic_load(&site->version);

	if (version & 1 || !atomic_compare_exchange_strong(&site->version, &version, version + 1))
		return; /* another thread is at it */
	atomic_store(&site->real, real);
	atomic_store(&site->start, span->start);
	atomic_store(&site->n_bytes, span->end - span->start);
	atomic_store(&site->n_unloads, n_unloads);
	atomic_store(&site->version, version + 2);
}

void *lw_real_now(const char *name, void *caller, struct lw_real_site *site)
{
	struct span span = {.inside = (uintptr_t)caller};
	int saved_errno = errno;
	uint64_t n_unloads = UINT64_MAX;
	void *real;

	dl_iterate_phdr(count_unloads, &n_unloads);
	real = read_site(site, (uintptr_t)caller, n_unloads);
	if (!real) {
		lw_tls.busy++;
		real = resolve_for(name, caller);
		if (n_unloads != UINT64_MAX && dl_iterate_phdr(find_span, &span))
			write_site(site, &span, real, n_unloads);
		lw_tls.busy--;
	}
	errno = saved_errno;
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
