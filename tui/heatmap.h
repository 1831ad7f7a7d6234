/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heatmap.h - a map of rows x columns: a style and a digit 0..9 a cell, so that colour is not alone.
 *
 * What does not fit is put together, the largest of several values in a cell; closer, it scrolls to what is selected.
 */
#ifndef LAPWING_TUI_HEATMAP_H
#define LAPWING_TUI_HEATMAP_H

#include "tui/cells.h"

struct lw_heatmap {
	size_t n_rows, n_columns;
	const double *values;    /* row by row; NAN = not known: "?" */
	const bool *is_out;      /* by column: does not count, and is not in the scale */
	const int32_t *labels;   /* by row */
	const char *row_name;    /* "rank" */
	const char *column_name; /* "step" */
	double least, most;      /* the scale: lw_heatmap_scale() */
	size_t row, column;      /* selected; SIZE_MAX: none */
	unsigned zoom;           /* 0: all of it; each more halves what a cell holds */
};

/** lw_heatmap_scale() - from the values that count. @from_zero: the scale begins at 0. */
void lw_heatmap_scale(struct lw_heatmap *map, bool from_zero);

enum { LW_HEATMAP_TOP_LINES = 3 }; /* scale, column numbers, marks */

/** lw_heatmap_draw() - @name: what the values are; @format: of a value. */
void lw_heatmap_draw(const struct lw_heatmap *map, struct lw_pane pane, const char *name,
	const char *(*format)(double value, char *text));

/** lw_heatmap_closest() - the zoom beyond which nothing gets closer, in such a pane. */
unsigned lw_heatmap_closest(const struct lw_heatmap *map, int width, int height);

/** lw_heatmap_at() - what is at @x, @y of the pane that was drawn. Return: false: no cell. */
bool lw_heatmap_at(const struct lw_heatmap *map, struct lw_pane pane, int x, int y, size_t *ret_row,
	size_t *ret_column);

#endif /* LAPWING_TUI_HEATMAP_H */
