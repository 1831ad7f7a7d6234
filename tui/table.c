/* SPDX-License-Identifier: Apache-2.0 */
#include "tui/table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"

static double value_of(const struct lw_table *table, size_t column, size_t row)
{
	const struct lw_table_column *of = &table->columns[column];

	return of->value ? of->value(table->context, row)
			 : of->number(table->context, row, of->key);
}

static bool has_value(const struct lw_table_column *column)
{
	return column->value || column->number;
}

static bool has_text(const struct lw_table_column *column)
{
	return column->text || column->number;
}

const char *lw_table_text(
	const struct lw_table *table, size_t column, size_t row, char text[LW_TABLE_TEXT_BYTES])
{
	const struct lw_table_column *of = &table->columns[column];
	double number;

	if (of->text)
		return of->text(table->context, row, text);
	if (!of->number)
		return "";
	number = of->number(table->context, row, of->key);
	if (isnan(number))
		return of->unknown ? of->unknown(table->context, row) : "?";
	if (of->format)
		return of->format(number, text);
	snprintf(text, LW_TABLE_TEXT_BYTES, "%.3g", number);
	return text;
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

	if (has_value(column)) {
		double value_x = value_of(table, table->sort, x);
		double value_y = value_of(table, table->sort, y);

		order = compare_values(value_x, value_y);
		if (table->is_descending && !isnan(value_x) && !isnan(value_y))
			order = -order;
	} else {
		char text_x[LW_TABLE_TEXT_BYTES], text_y[LW_TABLE_TEXT_BYTES];

		order = strcmp(lw_table_text(table, table->sort, x, text_x),
			lw_table_text(table, table->sort, y, text_y));
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
	row = table->order ? lw_table_row(table) : SIZE_MAX; /* at first what comes first */
	free(table->order);
	table->order = order;
	table->columns = columns;
	table->n_columns = n_columns;
	table->n_rows = n_rows;
	table->context = context;
	if (table->sort >= n_columns) {
		table->is_sorted = table->is_descending = false;
		table->sort = 0;
	}
	table->at = SIZE_MAX;
	sort(table);
	table->at = 0;
	if (row < n_rows)
		lw_table_select(table, row);
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

void lw_table_mark(struct lw_table *table, int32_t row)
{
	table->marked = row >= 0 ? (size_t)row + 1 : 0;
}

void lw_table_select(struct lw_table *table, size_t row)
{
	for (size_t i = 0; i < table->n_rows; i++)
		if (table->order[i] == row)
			table->at = i;
}

/* ---- requests ----------------------------------------------------------------------------------- */

static void move(struct lw_table *table, long by)
{
	long at = (long)table->at + by;

	if (at >= (long)table->n_rows)
		at = (long)table->n_rows - 1;
	table->at = at > 0 ? (size_t)at : 0;
}

/* Who sorts wants to see what comes first. */
static void sort_and_see(struct lw_table *table)
{
	sort(table);
	table->at = table->top = 0;
}

/* @column: n_columns = as the rows come */
static void sort_by(struct lw_table *table, size_t column)
{
	table->is_sorted = column < table->n_columns;
	table->sort = table->is_sorted ? column : 0;
	table->must_show_sort = table->is_sorted;
	/* of numbers the largest are what people look for */
	table->is_descending =
		table->is_sorted && has_value(&table->columns[table->sort]) && table->sort > 0;
	sort_and_see(table);
}

static bool is_as_they_come(const struct lw_table *table)
{
	for (size_t i = 0; i < table->n_rows; i++)
		if (table->order[i] != i)
			return false;
	return true;
}

static size_t next_with_text(const struct lw_table *table, size_t column)
{
	while (column < table->n_columns && !has_text(&table->columns[column]))
		column++;
	return column;
}

/* Rows that come in the order of their first column are not sorted by it: that would change nothing. */
static void sort_next(struct lw_table *table)
{
	bool was_sorted = table->is_sorted;
	size_t column = next_with_text(table, was_sorted ? table->sort + 1 : 0);

	sort_by(table, column);
	if (!was_sorted && column < table->n_columns && is_as_they_come(table))
		sort_by(table, next_with_text(table, column + 1));
}

static void reverse(struct lw_table *table)
{
	if (!table->is_sorted)
		table->sort = 0;
	table->is_sorted = true;
	table->is_descending = !table->is_descending;
	sort_and_see(table);
}

static void click_title(struct lw_table *table, const struct lw_input *input)
{
	size_t column = lw_table_column_at(table, input->width, input->x);

	if (column == SIZE_MAX || !has_text(&table->columns[column]))
		return;
	if (table->is_sorted && table->sort == column)
		reverse(table);
	else
		sort_by(table, column);
}

static void click(struct lw_table *table, const struct lw_input *input)
{
	if (input->y == 0)
		click_title(table, input);
	else if (input->y >= LW_TABLE_TITLE_LINES && input->y < input->height &&
		 table->top + (size_t)(input->y - LW_TABLE_TITLE_LINES) < table->n_rows)
		table->at = table->top + (size_t)(input->y - LW_TABLE_TITLE_LINES);
}

bool lw_table_request(struct lw_table *table, const struct lw_input *input)
{
	long page =
		input->height > LW_TABLE_TITLE_LINES + 1 ? input->height - LW_TABLE_TITLE_LINES : 1;

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
		reverse(table);
		return true;
	case LW_REQUEST_CLICK:
		click(table, input);
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

		if (strcasestr(lw_table_text(table, c, row, text), wanted))
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

static void write_cell(const struct lw_table *table, size_t column, size_t row, FILE *out)
{
	char text[LW_TABLE_TEXT_BYTES];
	double value;

	if (!table->columns[column].csv || !has_value(&table->columns[column])) {
		write_field(out, lw_table_text(table, column, row, text));
		return;
	}
	value = value_of(table, column, row);
	if (!isnan(value)) /* what is not known is empty */
		fprintf(out, "%.15g", value);
}

int lw_table_write(const struct lw_table *table, FILE *out)
{
	for (size_t i = 0; i <= table->n_rows; i++) {
		const char *separator = "";

		for (size_t c = 0; c < table->n_columns; c++) {
			const struct lw_table_column *column = &table->columns[c];

			if (!has_text(column))
				continue;
			fputs(separator, out);
			separator = ",";
			if (i > 0)
				write_cell(table, c, table->order[i - 1], out);
			else
				write_field(out, column->csv ? column->csv : column->title);
		}
		fputc('\n', out);
	}
	return ferror(out) ? lw_fail(LW_ERR_IO, "cannot write") : LW_OK;
}

bool lw_table_copy(const struct lw_table *table, FILE *out)
{
	size_t row = lw_table_row(table);
	const char *separator = "";

	for (size_t c = 0; c < table->n_columns && row != SIZE_MAX; c++) {
		char text[LW_TABLE_TEXT_BYTES];

		if (!has_text(&table->columns[c]))
			continue;
		fprintf(out, "%s%s", separator, lw_table_text(table, c, row, text));
		separator = "\t";
	}
	return row != SIZE_MAX;
}
