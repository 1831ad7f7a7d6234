/* SPDX-License-Identifier: Apache-2.0 */
/* strings.h - from the tracer's 64-bit text ids to rows of table string. */
#ifndef LAPWING_COLLECTOR_STRINGS_H
#define LAPWING_COLLECTOR_STRINGS_H

#include <stdint.h>

struct lw_string_map;

/** lw_string_map_new() - NULL: no memory. */
struct lw_string_map *lw_string_map_new(void);
void lw_string_map_free(struct lw_string_map *map);

/** lw_string_map_add() - text @id is row @row_id. Return: LW_OK or LW_ERR_NOMEM. */
int lw_string_map_add(struct lw_string_map *map, uint64_t id, int64_t row_id);

/** lw_string_map_find() - Return: row id, 0 = never arrived. */
int64_t lw_string_map_find(const struct lw_string_map *map, uint64_t id);

#endif /* LAPWING_COLLECTOR_STRINGS_H */
