/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/strings.h"

#include <stdlib.h>

#include "base/err.h"

/* The ids are hashes already (64-bit FNV-1a): the low half is as good as another hash of it. */
#define HASH_FUNCTION(key, key_bytes, hash) ((hash) = (unsigned)*(const uint64_t *)(key))
#define HASH_NONFATAL_OOM                   1
#define uthash_nonfatal_oom(entry)          ((entry)->row_id = 0)
#include <uthash.h>

struct entry {
	uint64_t id;
	int64_t row_id;
	UT_hash_handle hh;
};

struct lw_string_map {
	struct entry *head;
};

struct lw_string_map *lw_string_map_new(void)
{
	struct lw_string_map *map = calloc(1, sizeof(*map));

	if (!map)
		lw_fail(LW_ERR_NOMEM, "no memory");
	return map;
}

void lw_string_map_free(struct lw_string_map *map)
{
	struct entry *entry, *next;

	if (!map)
		return;
	HASH_ITER(hh, map->head, entry, next)
	{
		HASH_DEL(map->head, entry);
		free(entry);
	}
	free(map);
}

static struct entry *find(const struct lw_string_map *map, uint64_t id)
{
	struct entry *entry;

	HASH_FIND(hh, map->head, &id, sizeof(id), entry);
	return entry;
}

int lw_string_map_add(struct lw_string_map *map, uint64_t id, int64_t row_id)
{
	struct entry *entry = find(map, id);

	if (entry)
		return LW_OK;
	entry = calloc(1, sizeof(*entry));
	if (!entry)
		return lw_fail(LW_ERR_NOMEM, "no memory");
	entry->id = id;
	entry->row_id = row_id;
	HASH_ADD(hh, map->head, id, sizeof(entry->id), entry);
	if (!entry->row_id) { /* uthash had no memory for its buckets */
		free(entry);
		return lw_fail(LW_ERR_NOMEM, "no memory");
	}
	return LW_OK;
}

int64_t lw_string_map_find(const struct lw_string_map *map, uint64_t id)
{
	const struct entry *entry = find(map, id);

	return entry ? entry->row_id : 0;
}
