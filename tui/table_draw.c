/* SPDX-License-Identifier: Apache-2.0 */
/* table_draw.c - a list on the screen: which columns there is room for, titles, rows. */
#include <string.h>

#include "tui/table.h"

enum { GAP = 2, LEAST_GROWING = 12 };

struct layout {
	size_t first, end; /* columns shown after the fixed one */
	int n_growing;     /* of those shown */
	int extra;         /* columns of the screen that each of these gets */
};

static int least_of(const struct lw_table *table, size_t column)
{
	return table->columns[column].width ? table->columns[column].width : LEAST_GROWING;
}

static bool grows(const struct lw_table *table, size_t column)
{
	return table->columns[column].grows || !table->columns[column].width;
}

static struct layout lay_out(const struct lw_table *table, int pane_width, size_t first_column)
{
	struct layout layout = {1 + first_column, 0, 0, 0};
	int left = pane_width - 1 - least_of(table, 0);

	for (layout.end = layout.first; layout.end < table->n_columns; layout.end++) {
		int wanted = GAP + least_of(table, layout.end);

		if (wanted > left)
			break;
		left -= wanted;
	}
	layout.n_growing = grows(table, 0);
	for (size_t c = layout.first; c < layout.end; c++)
		layout.n_growing += grows(table, c);
	if (layout.end < table->n_columns)
		left -= GAP; /* for the mark that there are more */
	layout.extra = left > 0 && layout.n_growing ? left / layout.n_growing : 0;
	return layout;
}

/* No further to the right than it takes to see the last column. */
static struct layout settle(struct lw_table *table, int pane_width)
{
	size_t sort = table->sort;

	pane_width -= table->has_more;
	if (table->must_show_sort && sort > 0) {
		if (sort < 1 + table->first_column)
			table->first_column = sort - 1;
		while (table->first_column + 1 < sort &&
			lay_out(table, pane_width, table->first_column).end <= sort)
			table->first_column++;
	}
	table->must_show_sort = false;
	while (table->first_column > 0 &&
		lay_out(table, pane_width, table->first_column - 1).end == table->n_columns)
		table->first_column--;
	return lay_out(table, pane_width, table->first_column);
}

static int width_of(const struct lw_table *table, const struct layout *layout, size_t column)
{
	return least_of(table, column) + (grows(table, column) ? layout->extra : 0);
}

static size_t next_shown(const struct layout *layout, size_t column)
{
	return column == 0 ? layout->first : column + 1;
}

static void draw_text(const struct lw_table_column *column, struct lw_pane cell,
	enum lw_style style, const char *text)
{
	if (column->is_left)
		lw_pane_text(cell, 0, 0, cell.width, style, text);
	else
		lw_pane_right(cell, cell.width, 0, cell.width, style, text);
}

static void draw_titles(
	const struct lw_table *table, const struct layout *layout, struct lw_pane pane)
{
	uint32_t cut = lw_glyph(pane.cells, LW_GLYPH_CUT);
	int x = 1;

	for (size_t c = 0; c == 0 || c < layout->end; c = next_shown(layout, c)) {
		bool is_sorted = table->is_sorted && table->sort == c;
		const char *mark = !is_sorted ? "" : table->is_descending ? "v" : "^";
		int width = width_of(table, layout, c);
		char text[LW_TABLE_TEXT_BYTES];

		snprintf(text, sizeof(text), "%s%s", table->columns[c].title, mark);
		draw_text(&table->columns[c],
			lw_pane_part(pane, x - (is_sorted && !table->columns[c].is_left), 0,
				width + is_sorted, 1),
			is_sorted ? LW_STYLE_STRONG : LW_STYLE_DIM, text);
		x += width;
		if (c == 0 && table->first_column > 0)
			lw_pane_rune(pane, x, 0, LW_STYLE_DIM, cut);
		x += GAP;
	}
	if (layout->end < table->n_columns)
		lw_pane_rune(pane, pane.width - 1, 0, LW_STYLE_DIM, cut);
}

static void draw_row(const struct lw_table *table, const struct layout *layout, struct lw_pane pane,
	int y, size_t row)
{
	int x = 1;

	for (size_t c = 0; c == 0 || c < layout->end; c = next_shown(layout, c)) {
		const struct lw_table_column *column = &table->columns[c];
		int width = width_of(table, layout, c);
		struct lw_pane cell = lw_pane_part(pane, x, y, width, 1);
		char text[LW_TABLE_TEXT_BYTES];

		if (column->draw)
			column->draw(table->context, row, cell);
		else
			draw_text(column, cell,
				column->style ? column->style(table->context, row) : LW_STYLE_TEXT,
				lw_table_text(table, c, row, text));
		x += width + GAP;
	}
}

/* In column 0: the cursor, or what else is marked. */
static void draw_sign(const struct lw_table *table, struct lw_pane pane, int y, size_t place)
{
	if (place == table->at) {
		lw_pane_restyle(pane, 0, y, pane.width, LW_STYLE_SELECTED);
		lw_pane_rune(pane, 0, y, LW_STYLE_SELECTED, lw_glyph(pane.cells, LW_GLYPH_CURSOR));
	} else if (table->order[place] + 1 == table->marked) {
		lw_pane_rune(pane, 0, y, LW_STYLE_STRONG, '*');
	}
}

/* In the last column: there are more rows above, below. */
static void draw_more(const struct lw_table *table, struct lw_pane pane, size_t n_lines)
{
	if (table->top > 0)
		lw_pane_rune(pane, pane.width - 1, LW_TABLE_TITLE_LINES, LW_STYLE_STRONG,
			lw_glyph(pane.cells, LW_GLYPH_UP));
	if (table->top + n_lines < table->n_rows)
		lw_pane_rune(pane, pane.width - 1, pane.height - 1, LW_STYLE_STRONG,
			lw_glyph(pane.cells, LW_GLYPH_DOWN));
}

void lw_table_draw(struct lw_table *table, struct lw_pane pane)
{
	size_t n_lines = pane.height > LW_TABLE_TITLE_LINES
				 ? (size_t)(pane.height - LW_TABLE_TITLE_LINES)
				 : 0;
	struct layout layout;

	table->has_more = n_lines < table->n_rows;
	layout = settle(table, pane.width);
	draw_titles(table, &layout, pane);
	if (table->at < table->top)
		table->top = table->at;
	if (n_lines && table->at >= table->top + n_lines)
		table->top = table->at - n_lines + 1;
	if (table->top + n_lines > table->n_rows)
		table->top = table->n_rows > n_lines ? table->n_rows - n_lines : 0;
	for (size_t i = 0; i < n_lines && table->top + i < table->n_rows; i++) {
		int y = LW_TABLE_TITLE_LINES + (int)i;

		draw_row(table, &layout, pane, y, table->order[table->top + i]);
		draw_sign(table, pane, y, table->top + i);
	}
	if (n_lines)
		draw_more(table, pane, n_lines);
}

size_t lw_table_column_at(struct lw_table *table, int width, int wanted_x)
{
	struct layout layout = settle(table, width);
	int x = 1;

	for (size_t c = 0; c == 0 || c < layout.end; c = next_shown(&layout, c)) {
		int column_width = width_of(table, &layout, c);

		if (wanted_x >= x && wanted_x < x + column_width)
			return c;
		x += column_width + GAP;
	}
	return SIZE_MAX;
}

const char *lw_table_place(const struct lw_table *table, char text[LW_TABLE_TEXT_BYTES])
{
	snprintf(text, LW_TABLE_TEXT_BYTES, "%zu of %zu", table->n_rows ? table->at + 1 : 0,
		table->n_rows);
	return text;
}
