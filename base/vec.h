/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vec.h - a growable array of any type: struct { T *at; size_t n, capacity; }.
 *
 *	lw_vec(struct thing) things = {0};
 *	if (lw_vec_push(&things, thing) < 0)    // LW_ERR_NOMEM, vector unchanged
 *		...
 *	lw_vec_bisect(first, things.n, i, things.at[i].key < key);
 *	lw_vec_free(&things);
 */
#ifndef LAPWING_BASE_VEC_H
#define LAPWING_BASE_VEC_H

#include <stddef.h>
#include <stdlib.h>

#include "base/err.h"

#define lw_vec(type)                                                                               \
	struct {                                                                                   \
		type *at;                                                                          \
		size_t n, capacity;                                                                \
	}

#define lw_vec_push(vec, value)                                                                    \
	(lw_vec_reserve_(                                                                          \
		 (void **)&(vec)->at, &(vec)->capacity, (vec)->n + 1, sizeof(*(vec)->at)) < 0      \
			? LW_ERR_NOMEM                                                             \
			: ((vec)->at[(vec)->n++] = (value), LW_OK))

#define lw_vec_reserve(vec, wanted)                                                                \
	lw_vec_reserve_((void **)&(vec)->at, &(vec)->capacity, (wanted), sizeof(*(vec)->at))

#define lw_vec_free(vec)                                                                           \
	do {                                                                                       \
		free((vec)->at);                                                                   \
		(vec)->at = NULL;                                                                  \
		(vec)->n = (vec)->capacity = 0;                                                    \
	} while (0)

#define lw_vec_foreach(item, vec)                                                                  \
	for ((item) = (vec)->at; (item) && (item) < (vec)->at + (vec)->n; (item)++)

/* Binary search: @ret_first is the first of @n_items in order for which @is_before, an expression of the index @i, is false; @n_items: none. */
#define lw_vec_bisect(ret_first, n_items, i, is_before)                                            \
	do {                                                                                       \
		size_t low_ = 0, high_ = (n_items);                                                \
                                                                                                   \
		while (low_ < high_) {                                                             \
			size_t i = low_ + (high_ - low_) / 2;                                      \
                                                                                                   \
			if (is_before)                                                             \
				low_ = i + 1;                                                      \
			else                                                                       \
				high_ = i;                                                         \
		}                                                                                  \
		(ret_first) = low_;                                                                \
	} while (0)

static inline int lw_vec_reserve_(void **at, size_t *capacity, size_t wanted, size_t item_bytes)
{
	size_t grown = *capacity ? *capacity : 16;
	void *moved;

	if (wanted <= *capacity)
		return LW_OK;
	while (grown < wanted)
		grown *= 2;
	moved = reallocarray(*at, grown, item_bytes);
	if (!moved)
		return lw_fail(
			LW_ERR_NOMEM, "no memory for %zu items of %zu bytes", grown, item_bytes);
	*at = moved;
	*capacity = grown;
	return LW_OK;
}

#endif /* LAPWING_BASE_VEC_H */
