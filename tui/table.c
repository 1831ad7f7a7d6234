/* SPDX-License-Identifier: Apache-2.0 */
#include "tui/table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"

enum { TITLE_LINES = 1, GAP = 2 };

static const char *text_of(
	const struct lw_table *table, size_t column, size_t row, char text[LW_TABLE_TEXT_BYTES])
{
	return table->columns[column].text(table->context, row, text);
}

/* ---- order -------------------------------------------------------------------------------------- */

static int compare_values(double a, double b)
{
	if (isnan(a) || isnan(b))
		return isnan(a) - isnan(b);
	return (a > b) - (a < b);
}

static int compare(const void *a, const void *b, void *context)
{
	const struct lw_table *table = context;
	const struct lw_table_column *column = &table->columns[table->sort];
	size_t x = *(const size_t *)a, y = *(const size_t *)b;
	int order;

	if (column->value) {
		double value_x = column->value(table->context, x);
		double value_y = column->value(table->context, y);

		order = compare_values(value_x, value_y);
		if (table->is_descending && !isnan(value_x) && !isnan(value_y))
			order = -order;
	} else {
		char text_x[LW_TABLE_TEXT_BYTES], text_y[LW_TABLE_TEXT_BYTES];

		order = strcmp(text_of(table, table->sort, x, text_x),
			text_of(table, table->sort, y, text_y));
		if (table->is_descending)
			order = -order;
	}
	return order ? order : (x > y) - (x < y);
}

static void sort(struct lw_table *table)
{
	size_t row = lw_table_row(table);

	for (size_t i = 0; i < table->n_rows; i++)
		table->order[i] = i;
	if (table->is_sorted)
		qsort_r(table->order, table->n_rows, sizeof(*table->order), compare, table);
	if (row != SIZE_MAX)
		lw_table_select(table, row);
}

int lw_table_open(struct lw_table *table, const struct lw_table_column *columns, size_t n_columns,
	size_t n_rows, const void *context)
{
	size_t *order = malloc((n_rows + 1) * sizeof(*order)), row;

	if (!order)
		return lw_fail(LW_ERR_NOMEM, "no memory for %zu rows", n_rows);
	row = table->order ? lw_table_row(table) : 0;
	free(table->order);
	table->order = order;
	table->columns = columns;
	table->n_columns = n_columns;
	table->n_rows = n_rows;
	table->context = context;
	table->at = 0;
	for (size_t i = 0; i < n_rows; i++)
		order[i] = i;
	if (row < n_rows)
		table->at = row;
	sort(table);
	return LW_OK;
}

void lw_table_done(struct lw_table *table)
{
	free(table->order);
	*table = (struct lw_table){0};
}

size_t lw_table_row(const struct lw_table *table)
{
	return table->at < table->n_rows ? table->order[table->at] : SIZE_MAX;
}

void lw_table_select(struct lw_table *table, size_t row)
{
	for (size_t i = 0; i < table->n_rows; i++)
		if (table->order[i] == row)
			table->at = i;
}

/* ---- drawing ------------------------------------------------------------------------------------ */

static int width_of(const struct lw_table *table, size_t column, int pane_width)
{
	int taken = 0;

	if (table->columns[column].width)
		return table->columns[column].width;
	for (size_t c = 0; c < table->n_columns; c++)
		taken += (c > 0 ? GAP : 0) + table->columns[c].width;
	return pane_width - taken > 12 ? pane_width - taken : 12;
}

static void draw_row(const struct lw_table *table, struct lw_pane pane, int y, size_t row)
{
	int x = 1;

	for (size_t c = 0; c < table->n_columns; c++) {
		const struct lw_table_column *column = &table->columns[c];
		int width = width_of(table, c, pane.width - 1);
		char text[LW_TABLE_TEXT_BYTES];
		enum lw_style style;

		if (c > 0 && c < 1 + table->first_column)
			continue;
		if (x + width > pane.width && c > 0) {
			if (row == SIZE_MAX)
				lw_pane_rune(pane, pane.width - 1, y, LW_STYLE_DIM,
					lw_glyph(pane.cells, LW_GLYPH_CUT));
			break;
		}
		if (row == SIZE_MAX) {
			bool is_sorted = table->is_sorted && table->sort == c;
			const char *mark = !is_sorted ? "" : table->is_descending ? "v" : "^";

			snprintf(text, sizeof(text), "%s%s", column->title, mark);
			style = is_sorted ? LW_STYLE_STRONG : LW_STYLE_DIM;
			if (column->is_left)
				lw_pane_text(pane, x, y, width, style, text);
			else
				lw_pane_right(pane, x + width, y, width, style, text);
		} else {
			const char *shown = text_of(table, c, row, text);

			style = column->style ? column->style(table->context, row) : LW_STYLE_TEXT;
			if (column->is_left)
				lw_pane_text(pane, x, y, width, style, shown);
			else
				lw_pane_right(pane, x + width, y, width, style, shown);
		}
		x += width + GAP;
	}
}

void lw_table_draw(struct lw_table *table, struct lw_pane pane)
{
	size_t n_lines = pane.height > TITLE_LINES ? (size_t)(pane.height - TITLE_LINES) : 0;

	draw_row(table, pane, 0, SIZE_MAX);
	if (table->at < table->top)
		table->top = table->at;
	if (n_lines && table->at >= table->top + n_lines)
		table->top = table->at - n_lines + 1;
	if (table->top + n_lines > table->n_rows)
		table->top = table->n_rows > n_lines ? table->n_rows - n_lines : 0;
	for (size_t i = 0; i < n_lines && table->top + i < table->n_rows; i++) {
		int y = TITLE_LINES + (int)i;

		draw_row(table, pane, y, table->order[table->top + i]);
		if (table->top + i == table->at) {
			lw_pane_restyle(pane, 0, y, pane.width, LW_STYLE_SELECTED);
			lw_pane_rune(pane, 0, y, LW_STYLE_SELECTED,
				lw_glyph(pane.cells, LW_GLYPH_CURSOR));
		}
	}
}

/* ---- requests ----------------------------------------------------------------------------------- */

static void move(struct lw_table *table, long by)
{
	long at = (long)table->at + by;

	if (at >= (long)table->n_rows)
		at = (long)table->n_rows - 1;
	table->at = at > 0 ? (size_t)at : 0;
}

static void sort_next(struct lw_table *table)
{
	if (!table->is_sorted) {
		table->is_sorted = true;
		table->sort = 0;
	} else if (++table->sort == table->n_columns) {
		table->is_sorted = false;
		table->sort = 0;
	}
	/* of numbers the largest are what people look for */
	table->is_descending =
		table->is_sorted && table->columns[table->sort].value && table->sort > 0;
	sort(table);
}

bool lw_table_request(struct lw_table *table, const struct lw_input *input)
{
	long page = input->height > TITLE_LINES + 1 ? input->height - TITLE_LINES : 1;

	switch ((int)input->request) {
	case LW_REQUEST_UP:
		move(table, -1);
		return true;
	case LW_REQUEST_DOWN:
		move(table, 1);
		return true;
	case LW_REQUEST_PAGE_UP:
		move(table, -page);
		return true;
	case LW_REQUEST_PAGE_DOWN:
		move(table, page);
		return true;
	case LW_REQUEST_TOP:
		move(table, -(long)table->n_rows);
		return true;
	case LW_REQUEST_BOTTOM:
		move(table, (long)table->n_rows);
		return true;
	case LW_REQUEST_LEFT:
		table->first_column -= table->first_column > 0;
		return true;
	case LW_REQUEST_RIGHT:
		table->first_column += table->first_column + 2 < table->n_columns;
		return true;
	case LW_REQUEST_SORT:
		sort_next(table);
		return true;
	case LW_REQUEST_SORT_REVERSE:
		table->is_sorted = true;
		table->is_descending = !table->is_descending;
		sort(table);
		return true;
	case LW_REQUEST_CLICK:
		if (input->y >= TITLE_LINES &&
			table->top + (size_t)(input->y - TITLE_LINES) < table->n_rows)
			table->at = table->top + (size_t)(input->y - TITLE_LINES);
		return true;
	default:
		return false;
	}
}

/* ---- searching and writing ---------------------------------------------------------------------- */

static bool holds(const struct lw_table *table, size_t row, const char *wanted)
{
	for (size_t c = 0; c < table->n_columns; c++) {
		char text[LW_TABLE_TEXT_BYTES];

		if (strcasestr(text_of(table, c, row, text), wanted))
			return true;
	}
	return false;
}

bool lw_table_find(struct lw_table *table, const char *text, int by)
{
	size_t step = by < 0 ? table->n_rows - 1 : 1, at = table->at;

	for (size_t i = 0; i < table->n_rows; i++) {
		if (by || i > 0)
			at = (at + step) % table->n_rows;
		if (holds(table, table->order[at], text)) {
			table->at = at;
			return true;
		}
	}
	return false;
}

static void write_field(FILE *out, const char *text)
{
	bool is_quoted = strpbrk(text, ",\"\n\r") != NULL;

	if (!is_quoted) {
		fputs(text, out);
		return;
	}
	fputc('"', out);
	for (; *text; text++) {
		if (*text == '"')
			fputc('"', out);
		fputc(*text, out);
	}
	fputc('"', out);
}

int lw_table_write(const struct lw_table *table, FILE *out)
{
	for (size_t i = 0; i <= table->n_rows; i++)
		for (size_t c = 0; c < table->n_columns; c++) {
			char text[LW_TABLE_TEXT_BYTES];

			write_field(out, i == 0 ? table->columns[c].title
						: text_of(table, c, table->order[i - 1], text));
			fputc(c + 1 < table->n_columns ? ',' : '\n', out);
		}
	return ferror(out) ? lw_fail(LW_ERR_IO, "cannot write") : LW_OK;
}

bool lw_table_copy(const struct lw_table *table, FILE *out)
{
	size_t row = lw_table_row(table);

	for (size_t c = 0; c < table->n_columns && row != SIZE_MAX; c++) {
		char text[LW_TABLE_TEXT_BYTES];

		fprintf(out, "%s%s", c ? "\t" : "", text_of(table, c, row, text));
	}
	return row != SIZE_MAX;
}
