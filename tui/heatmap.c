/* SPDX-License-Identifier: Apache-2.0 */
#include "tui/heatmap.h"

#include <math.h>
#include <stdio.h>

#include "base/units.h"

enum { LABEL_WIDTH = 6, WIDEST_CELL = 3, N_DIGITS = 10 };

struct axis {
	size_t per_cell;       /* rows or columns of the map in one cell */
	size_t first, n_cells; /* first of the map that is shown; cells shown */
	int width;             /* of a cell on the screen */
};

static struct axis lay_axis(size_t n, size_t room, int widest, size_t selected, unsigned zoom)
{
	struct axis axis = {1, 0, 0, 1};
	size_t n_all;

	if (room == 0 || n == 0)
		return axis;
	axis.per_cell = (n + room - 1) / room;
	axis.per_cell = zoom < 32 && axis.per_cell >> zoom ? axis.per_cell >> zoom : 1;
	n_all = (n + axis.per_cell - 1) / axis.per_cell;
	axis.width = (int)(room / n_all);
	axis.width = axis.width < 1 ? 1 : axis.width > widest ? widest : axis.width;
	axis.n_cells = n_all < room ? n_all : room;
	if (n_all > room && selected < n) {
		size_t at = selected / axis.per_cell;
		size_t first = at > room / 2 ? at - room / 2 : 0;

		axis.first = (first + room > n_all ? n_all - room : first) * axis.per_cell;
	}
	return axis;
}

static struct axis columns_of(const struct lw_heatmap *map, int width)
{
	return lay_axis(map->n_columns, width > LABEL_WIDTH ? (size_t)(width - LABEL_WIDTH) : 0,
		WIDEST_CELL, map->column, map->zoom);
}

static struct axis rows_of(const struct lw_heatmap *map, int height)
{
	return lay_axis(map->n_rows,
		height > LW_HEATMAP_TOP_LINES ? (size_t)(height - LW_HEATMAP_TOP_LINES) : 0, 1,
		map->row, map->zoom);
}

void lw_heatmap_scale(struct lw_heatmap *map, bool from_zero)
{
	map->least = INFINITY;
	map->most = -INFINITY;
	for (size_t r = 0; r < map->n_rows; r++)
		for (size_t c = 0; c < map->n_columns; c++) {
			double value = map->values[r * map->n_columns + c];

			if (map->is_out[c] || isnan(value))
				continue;
			map->least = fmin(map->least, value);
			map->most = fmax(map->most, value);
		}
	if (from_zero && map->least > 0 && map->most >= map->least)
		map->least = 0;
}

unsigned lw_heatmap_closest(const struct lw_heatmap *map, int width, int height)
{
	struct lw_heatmap whole = *map;
	unsigned zoom = 0;
	size_t most;

	whole.zoom = 0;
	most = columns_of(&whole, width).per_cell;
	if (rows_of(&whole, height).per_cell > most)
		most = rows_of(&whole, height).per_cell;
	while (most >> zoom > 1)
		zoom++;
	return zoom;
}

/* ---- drawing ------------------------------------------------------------------------------------ */

struct cell {
	double value;    /* largest; NAN: none is known */
	bool is_counted; /* of a column that counts */
};

static struct cell largest(const struct lw_heatmap *map, size_t first_row, size_t n_rows,
	size_t first_column, size_t n_columns)
{
	struct cell cell = {NAN, false};

	for (size_t c = first_column; c < first_column + n_columns && c < map->n_columns; c++) {
		bool is_counted = !map->is_out[c];

		if (cell.is_counted && !is_counted)
			continue;
		if (is_counted && !cell.is_counted)
			cell = (struct cell){NAN, true};
		for (size_t r = first_row; r < first_row + n_rows && r < map->n_rows; r++)
			cell.value = fmax(cell.value, map->values[r * map->n_columns + c]);
	}
	return cell;
}

static double frac_of(const struct lw_heatmap *map, double value)
{
	double frac = map->most > map->least ? (value - map->least) / (map->most - map->least) : 0;

	return fmin(fmax(frac, 0), 1);
}

static void draw_cell(const struct lw_heatmap *map, struct lw_pane pane, int x, int y, int width,
	struct cell cell)
{
	double frac = frac_of(map, cell.value);
	enum lw_style style = cell.is_counted ? lw_heat_style(frac) : LW_STYLE_DIM;

	if (isnan(cell.value)) {
		lw_pane_rune(pane, x, y, LW_STYLE_DIM, '?');
		return;
	}
	if (width > 1 && cell.is_counted)
		lw_pane_fill(pane, x, y, width - (width > 2), style, ' ');
	lw_pane_rune(pane, x, y, style, '0' + (uint32_t)(frac * (N_DIGITS - 0.001)));
}

static void draw_scale(const struct lw_heatmap *map, struct lw_pane pane, const char *name,
	const char *(*format)(double value, char *text), const struct axis *rows,
	const struct axis *columns)
{
	char least[LW_UNIT_TEXT_BYTES], most[LW_UNIT_TEXT_BYTES];
	int x;

	if (!(map->most >= map->least)) {
		lw_pane_print(pane, 1, 0, LW_STYLE_WARN, "%s: not known in this run", name);
		return;
	}
	x = 1 + lw_pane_print(pane, 1, 0, LW_STYLE_STRONG, "%s", name);
	x += lw_pane_print(pane, x, 0, LW_STYLE_DIM, "  %s ", format(map->least, least));
	for (int i = 0; i < N_DIGITS; i++)
		lw_pane_rune(pane, x++, 0, lw_heat_style((i + 0.5) / N_DIGITS), '0' + (uint32_t)i);
	x += lw_pane_print(pane, x, 0, LW_STYLE_DIM, " %s", format(map->most, most));
	if (rows->per_cell > 1 || columns->per_cell > 1)
		x += lw_pane_print(pane, x, 0, LW_STYLE_DIM, "  cell: most of %zu %s%s x %zu %s%s",
			rows->per_cell, map->row_name, rows->per_cell == 1 ? "" : "s",
			columns->per_cell, map->column_name, columns->per_cell == 1 ? "" : "s");
	for (size_t c = 0; c < map->n_columns; c++)
		if (map->is_out[c]) {
			lw_pane_print(pane, x, 0, LW_STYLE_DIM, "  x left out");
			break;
		}
}

/* Column numbers where they fit, then what is left out and what is selected. */
static void draw_columns(
	const struct lw_heatmap *map, struct lw_pane pane, const struct axis *columns)
{
	int free_x = 0;

	lw_pane_print(pane, 0, 1, LW_STYLE_DIM, "%5s", map->column_name);
	for (size_t i = 0; i < columns->n_cells; i++) {
		size_t first = columns->first + i * columns->per_cell,
		       end = first + columns->per_cell;
		int x = LABEL_WIDTH + (int)i * columns->width;
		bool is_out = true;
		char text[24];

		for (size_t c = first; c < end && c < map->n_columns; c++)
			is_out &= map->is_out[c];
		if (is_out)
			lw_pane_rune(pane, x, 2, LW_STYLE_DIM, 'x');
		if (map->column >= first && map->column < end)
			lw_pane_rune(
				pane, x, 2, LW_STYLE_STRONG, lw_glyph(pane.cells, LW_GLYPH_DOWN));
		if (x < free_x)
			continue;
		snprintf(text, sizeof(text), "%zu", first);
		if (x + lw_text_width(text) > pane.width)
			break;
		free_x = x + lw_pane_print(pane, x, 1, LW_STYLE_DIM, "%s", text);
		free_x = free_x + 1 > x + 5 ? free_x + 1 : x + 5;
	}
}

void lw_heatmap_draw(const struct lw_heatmap *map, struct lw_pane pane, const char *name,
	const char *(*format)(double value, char *text))
{
	struct axis columns = columns_of(map, pane.width), rows = rows_of(map, pane.height);

	draw_scale(map, pane, name, format, &rows, &columns);
	if (!(map->most >= map->least))
		return;
	draw_columns(map, pane, &columns);
	for (size_t i = 0; i < rows.n_cells; i++) {
		size_t row = rows.first + i * rows.per_cell;
		int y = LW_HEATMAP_TOP_LINES + (int)i;
		bool is_selected = map->row >= row && map->row < row + rows.per_cell;

		lw_pane_print(pane, 0, y, is_selected ? LW_STYLE_STRONG : LW_STYLE_DIM, "%5d",
			map->labels[row]);
		if (is_selected)
			lw_pane_rune(
				pane, 0, y, LW_STYLE_STRONG, lw_glyph(pane.cells, LW_GLYPH_CURSOR));
		for (size_t k = 0; k < columns.n_cells; k++)
			draw_cell(map, pane, LABEL_WIDTH + (int)k * columns.width, y, columns.width,
				largest(map, row, rows.per_cell,
					columns.first + k * columns.per_cell, columns.per_cell));
	}
}

bool lw_heatmap_at(const struct lw_heatmap *map, struct lw_pane pane, int x, int y, size_t *ret_row,
	size_t *ret_column)
{
	struct axis columns = columns_of(map, pane.width), rows = rows_of(map, pane.height);
	size_t column, row;

	if (x < LABEL_WIDTH || y < LW_HEATMAP_TOP_LINES)
		return false;
	column = (size_t)(x - LABEL_WIDTH) / (size_t)columns.width;
	row = (size_t)(y - LW_HEATMAP_TOP_LINES);
	if (column >= columns.n_cells || row >= rows.n_cells)
		return false;
	*ret_column = columns.first + column * columns.per_cell;
	*ret_row = rows.first + row * rows.per_cell;
	return *ret_row < map->n_rows && *ret_column < map->n_columns;
}
