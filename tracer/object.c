/* SPDX-License-Identifier: Apache-2.0 */
/* object.c - the dynamic symbols of one loaded object, without dlopen and without its file. */
#include <string.h>

#include "tracer/object.h"

void lw_object_read(const struct dl_phdr_info *info, struct lw_object *object)
{
	const ElfW(Dyn) *dynamic = NULL;

	memset(object, 0, sizeof(*object));
	object->base = info->dlpi_addr;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &info->dlpi_phdr[i];

		if (part->p_type == PT_DYNAMIC)
			dynamic = (const ElfW(Dyn) *)(info->dlpi_addr + part->p_vaddr);
		if (part->p_type == PT_GNU_RELRO) {
			object->relro_start = info->dlpi_addr + part->p_vaddr;
			object->relro_end = object->relro_start + part->p_memsz;
		}
	}
	for (; dynamic && dynamic->d_tag != DT_NULL; dynamic++) {
		/* The loader has made these absolute, except in objects whose dynamic section is read-only. */
		uintptr_t at = dynamic->d_un.d_ptr;
		const void *address = (const void *)(at < object->base ? at + object->base : at);

		if (dynamic->d_tag == DT_SYMTAB)
			object->symbols = address;
		else if (dynamic->d_tag == DT_STRTAB)
			object->names = address;
		else if (dynamic->d_tag == DT_GNU_HASH)
			object->gnu_hash = address;
		else if (dynamic->d_tag == DT_HASH)
			object->old_hash = address;
	}
}

/* Only the hash tables know it. */
uint32_t lw_object_count_symbols(const struct lw_object *object)
{
	const uint32_t *hash = object->gnu_hash, *buckets, *chain;
	uint32_t n_buckets, first, last = 0;

	if (object->old_hash)
		return object->old_hash[1];
	n_buckets = hash[0];
	first = hash[1];
	buckets = hash + 4 + (size_t)hash[2] * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
	chain = buckets + n_buckets;
	for (uint32_t i = 0; i < n_buckets; i++)
		if (buckets[i] > last)
			last = buckets[i];
	if (last < first)
		return first;
	while (!(chain[last - first] & 1))
		last++;
	return last + 1;
}

bool lw_object_defines(const struct lw_object *object, const char *name)
{
	const uint32_t *table = object->gnu_hash, *buckets, *chain;
	uint32_t hash = 5381, at;

	if (!table) {
		for (uint32_t i = 0, n = object->old_hash ? object->old_hash[1] : 0; i < n; i++)
			if (object->symbols[i].st_shndx != SHN_UNDEF &&
				strcmp(object->names + object->symbols[i].st_name, name) == 0)
				return true;
		return false;
	}
	for (const char *c = name; *c; c++)
		hash = hash * 33 + (unsigned char)*c;
	if (!table[0])
		return false;
	buckets = table + 4 + (size_t)table[2] * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
	chain = buckets + table[0];
	at = buckets[hash % table[0]];
	if (at < table[1])
		return false;
	for (;; at++) {
		uint32_t other = chain[at - table[1]];

		if ((other | 1) == (hash | 1) &&
			strcmp(object->names + object->symbols[at].st_name, name) == 0)
			return object->symbols[at].st_shndx != SHN_UNDEF;
		if (other & 1)
			return false;
	}
}
