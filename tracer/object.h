/* SPDX-License-Identifier: Apache-2.0 */
/* object.h - the dynamic symbols of one loaded object, read where the loader mapped them. */
#ifndef LAPWING_TRACER_OBJECT_H
#define LAPWING_TRACER_OBJECT_H

#include <elf.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>

struct lw_object {
	uintptr_t base;
	uintptr_t relro_start, relro_end; /* read-only since its relocation */
	const ElfW(Sym) * symbols;
	const char *names;
	const uint32_t *gnu_hash, *old_hash;
};

/** lw_object_read() - fill *@object; symbols is NULL when the object has no dynamic symbols. */
void lw_object_read(const struct dl_phdr_info *info, struct lw_object *object);

/** lw_object_count_symbols() - entries of object->symbols; object has symbols and a hash table. */
uint32_t lw_object_count_symbols(const struct lw_object *object);

/** lw_object_defines() - by the hash table alone: libtorch has a hundred thousand symbols. */
bool lw_object_defines(const struct lw_object *object, const char *name);

#endif /* LAPWING_TRACER_OBJECT_H */
