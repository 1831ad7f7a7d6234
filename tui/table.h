/* SPDX-License-Identifier: Apache-2.0 */
/*
 * table.h - a list of rows with columns: sorted, scrolled, searched, written as CSV. For views that are one.
 *
 * The first column stays, others scroll sideways when not all fit; a click on a title sorts by it. Rows are numbers 0 .. n_rows - 1; what
 * is in them only the column functions know.
 */
#ifndef LAPWING_TUI_TABLE_H
#define LAPWING_TUI_TABLE_H

#include "base/units.h"
#include "tui/view.h"

enum { LW_TABLE_TEXT_BYTES = 256, LW_TABLE_TITLE_LINES = 1 };

/* What lw_table_request() understands. */
#define LW_TABLE_CAN                                                                               \
	(LW_CAN(UP) | LW_CAN(DOWN) | LW_CAN(PAGE_UP) | LW_CAN(PAGE_DOWN) | LW_CAN(TOP) |           \
		LW_CAN(BOTTOM) | LW_CAN(LEFT) | LW_CAN(RIGHT) | LW_CAN(SORT) |                     \
		LW_CAN(SORT_REVERSE) | LW_CAN(CLICK))

struct lw_table_column {
	const char *title;
	int width;    /* at least; 0: 12, and it grows */
	bool is_left; /* else to the right, as numbers are */
	bool grows;   /* takes what other columns leave, in equal parts with others that do */
	/* Return: @text, or a text that lives longer. */
	const char *(*text)(const void *context, size_t row, char text[LW_TABLE_TEXT_BYTES]);
	double (*value)(const void *context, size_t row); /* sorts by it, NAN last. NULL: by text */
	enum lw_style (*style)(const void *context, size_t row); /* NULL: plain */
	/* Instead of text and value, for many columns of numbers: NAN is shown as "?". */
	double (*number)(const void *context, size_t row, int key);
	/* What is shown in place of a NAN number. NULL: "?" */
	const char *(*unknown)(const void *context, size_t row);
	int key;
	const char *(*format)(double number, char text[LW_UNIT_TEXT_BYTES]);
	/* Instead of text on the screen: a bar, .. @cell is one line. Without text it is not in CSV. */
	void (*draw)(const void *context, size_t row, struct lw_pane cell);
	const char
		*csv; /* its name where CSV has the number, with its unit; NULL: title and text */
};

struct lw_table {
	const struct lw_table_column *columns;
	size_t n_columns, n_rows;
	const void *context;
	size_t *order;                 /* rows as shown */
	size_t at, top;                /* of order: selected; first on the screen */
	size_t sort;                   /* column */
	bool is_sorted, is_descending; /* else as they come */
	size_t first_column;           /* shown after the fixed one */
	bool must_show_sort;           /* was sorted by another column: scroll to it */
	bool has_more;                 /* than fits, as drawn last: the last column is for signs */
	size_t marked; /* row + 1 that a "*" marks where the cursor is not on it; 0: none */
};

/** lw_table_open() - other rows; sorting stays, the selected place as far as there is one. Return: LW_OK, LW_ERR_NOMEM. */
int lw_table_open(struct lw_table *table, const struct lw_table_column *columns, size_t n_columns,
	size_t n_rows, const void *context);
void lw_table_done(struct lw_table *table);

/** lw_table_draw() - titles, then rows; a sign at the right end where there are more above or below. */
void lw_table_draw(struct lw_table *table, struct lw_pane pane);

/** lw_table_text() - what stands in a cell. Return: @text, or a text that lives longer. */
const char *lw_table_text(
	const struct lw_table *table, size_t column, size_t row, char text[LW_TABLE_TEXT_BYTES]);

/** lw_table_column_at() - the column at @x of a pane that is @width wide. SIZE_MAX: none. */
size_t lw_table_column_at(struct lw_table *table, int width, int x);

/** lw_table_place() - "12 of 340": which row is selected. Return: @text. */
const char *lw_table_place(const struct lw_table *table, char text[LW_TABLE_TEXT_BYTES]);

/** lw_table_request() - moving, sorting, selecting by click; @input in the table's own pane. Return: understood. */
bool lw_table_request(struct lw_table *table, const struct lw_input *input);

/** lw_table_row() - the selected row. Return: SIZE_MAX: there is none. */
size_t lw_table_row(const struct lw_table *table);

/** lw_table_mark() - the row @row, LW_NONE: none. It stays marked, wherever the cursor goes. */
void lw_table_mark(struct lw_table *table, int32_t row);

/** lw_table_select() - the row @row, wherever it is sorted to. */
void lw_table_select(struct lw_table *table, size_t row);

/** lw_table_find() - as lw_view_ops.find, in all columns. */
bool lw_table_find(struct lw_table *table, const char *text, int by);

/** lw_table_write() - as CSV (RFC 4180), as sorted. */
int lw_table_write(const struct lw_table *table, FILE *out);

/** lw_table_copy() - the selected row, columns apart by tabs. Return: there is one. */
bool lw_table_copy(const struct lw_table *table, FILE *out);

#endif /* LAPWING_TUI_TABLE_H */
