/* SPDX-License-Identifier: Apache-2.0 */
/*
 * track.h - when one kind of work went on.
 *
 * A track is a sorted list of stretches and the time in all those before each: how much of a column is
 * occupied is then the difference of two sums, found by bisection, however many stretches the column
 * covers. So every zoom level is exact and costs the same, and there is no other level to be kept.
 */
#ifndef LAPWING_TUI_TRACK_H
#define LAPWING_TUI_TRACK_H

#include <stdint.h>

#include "base/vec.h"

struct lw_stretch {
	int64_t start_ns;
	int64_t before_ns; /* sum of the lengths of those before */
};

struct lw_track { /* 16 bytes a stretch */
	lw_vec(struct lw_stretch) stretches;
	int64_t total_ns;
};

/** lw_track_add() - append [start, end), cut to what comes after the last one. Return: LW_OK, LW_ERR_NOMEM. */
int lw_track_add(struct lw_track *track, int64_t start_ns, int64_t end_ns);

/** lw_track_columns() - @occupied[i]: time of @track in column i of @n, each @column_ns, from @from_ns on. */
void lw_track_columns(
	const struct lw_track *track, int64_t from_ns, int64_t column_ns, int n, int64_t *occupied);

/** lw_track_append() - all of @from, behind what is in @track. Return: LW_OK, LW_ERR_NOMEM. */
int lw_track_append(struct lw_track *track, const struct lw_track *from);

#endif /* LAPWING_TUI_TRACK_H */
