/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cells.h - what views draw on: a buffer of cells that a terminal or a text file then shows.
 *
 * Reads and writes nothing else, so screens are tested without a terminal. A pane is a rectangle of it;
 * what does not fit is cut off, never an error. Coordinates are columns and lines of the pane, from 0.
 * Text is UTF-8. Nothing is told by a style alone: lanes have glyphs of their own, and what is selected,
 * late or best is marked by a character too.
 */
#ifndef LAPWING_TUI_CELLS_H
#define LAPWING_TUI_CELLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum lw_style {
	LW_STYLE_TEXT,
	LW_STYLE_DIM,
	LW_STYLE_STRONG,
	LW_STYLE_TITLE,    /* bars at the top and bottom */
	LW_STYLE_TAB,      /* the view that is shown */
	LW_STYLE_SELECTED, /* the line or cell that the cursor is on */
	LW_STYLE_GOOD,
	LW_STYLE_WARN,
	LW_STYLE_BAD,
	LW_STYLE_COMPUTE,
	LW_STYLE_NEGOTIATE,
	LW_STYLE_WAIT,
	LW_STYLE_ALLREDUCE,
	LW_STYLE_MISC,
	LW_STYLE_EXPOSED,
	LW_STYLE_IDLE,
	LW_STYLE_HEAT_FIRST,                          /* little .. */
	LW_STYLE_HEAT_LAST = LW_STYLE_HEAT_FIRST + 7, /* .. much */
	LW_STYLE_COUNT
};

enum lw_glyph { /* each also has an ASCII form */
	LW_GLYPH_COMPUTE,
	LW_GLYPH_NEGOTIATE,
	LW_GLYPH_WAIT,
	LW_GLYPH_ALLREDUCE,
	LW_GLYPH_MISC,
	LW_GLYPH_EXPOSED,
	LW_GLYPH_IDLE,
	LW_GLYPH_LINE, /* horizontal */
	LW_GLYPH_BAR,  /* vertical */
	LW_GLYPH_CORNER,
	LW_GLYPH_CUT, /* what follows did not fit */
	LW_GLYPH_CURSOR,
	LW_GLYPH_UP,
	LW_GLYPH_DOWN,
	LW_GLYPH_LEVEL_FIRST, /* eight heights of a column */
	LW_GLYPH_LEVEL_LAST = LW_GLYPH_LEVEL_FIRST + 7,
	LW_GLYPH_COUNT
};

struct lw_cell {
	uint32_t rune; /* 0: the right half of the wide one before it */
	uint8_t style;
};

struct lw_cells {
	int width, height;
	bool is_ascii;
	struct lw_cell *at; /* line by line */
};

struct lw_pane {
	struct lw_cells *cells;
	int x, y, width, height; /* inside the cells */
};

/** lw_cells_resize() - new size, all blank. Return: LW_OK, LW_ERR_NOMEM (unchanged). */
int lw_cells_resize(struct lw_cells *cells, int width, int height);
void lw_cells_clear(struct lw_cells *cells);
void lw_cells_free(struct lw_cells *cells);

/** lw_cells_line() - line @y as UTF-8 without trailing blanks. @text: 4 x width + 1 bytes. Return: @text. */
const char *lw_cells_line(const struct lw_cells *cells, int y, char *text);

uint32_t lw_glyph(const struct lw_cells *cells, enum lw_glyph glyph);

struct lw_pane lw_pane_whole(struct lw_cells *cells);

/** lw_pane_part() - what of the rectangle lies inside @pane. */
struct lw_pane lw_pane_part(struct lw_pane pane, int x, int y, int width, int height);

void lw_pane_rune(struct lw_pane pane, int x, int y, enum lw_style style, uint32_t rune);
void lw_pane_fill(struct lw_pane pane, int x, int y, int width, enum lw_style style, uint32_t rune);

/** lw_pane_restyle() - change the style of @width cells, keep what they show. */
void lw_pane_restyle(struct lw_pane pane, int x, int y, int width, enum lw_style style);

/** lw_pane_text() - draw @text, at most @width columns; LW_GLYPH_CUT ends what is longer. Return: columns. */
int lw_pane_text(
	struct lw_pane pane, int x, int y, int width, enum lw_style style, const char *text);

/** lw_pane_print() - the same, to the pane's end. Return: columns. */
int lw_pane_print(struct lw_pane pane, int x, int y, enum lw_style style, const char *format, ...)
	__attribute__((format(printf, 5, 6)));

/** lw_pane_right() - the same, ending before column @x_end. */
void lw_pane_right(
	struct lw_pane pane, int x_end, int y, int width, enum lw_style style, const char *text);

/** lw_pane_wrap() - @text broken at blanks into lines of at most @width. Return: lines, also those below the pane. */
int lw_pane_wrap(
	struct lw_pane pane, int x, int y, int width, enum lw_style style, const char *text);

/** lw_text_width() - columns of @text. */
int lw_text_width(const char *text);

/* ---- figures ------------------------------------------------------------------------------------ */

enum lw_lane { /* what a stretch of time was */
	LW_LANE_COMPUTE,
	LW_LANE_NEGOTIATE,
	LW_LANE_WAIT,
	LW_LANE_ALLREDUCE,
	LW_LANE_MISC,
	LW_LANE_EXPOSED,
	LW_LANE_IDLE,
	LW_LANE_COUNT
};

struct lw_lane_look {
	const char *name;
	enum lw_style style;
	enum lw_glyph glyph;
};

extern const struct lw_lane_look lw_lanes[LW_LANE_COUNT];

struct lw_bar_part {
	enum lw_lane lane;
	double amount; /* >= 0 */
};

/** lw_pane_bar() - parts one after the other; @width columns are @whole. Parts that are there get a column. */
void lw_pane_bar(struct lw_pane pane, int x, int y, int width, const struct lw_bar_part *parts,
	size_t n_parts, double whole);

/** lw_pane_legend() - glyph and name of each lane of @parts. Return: columns. */
int lw_pane_legend(
	struct lw_pane pane, int x, int y, const struct lw_bar_part *parts, size_t n_parts);

/** lw_pane_spark() - a column a value, between the least and the most of them; NAN is blank. If there are more
 * than @width, a column is the largest of several. Return: columns. */
int lw_pane_spark(struct lw_pane pane, int x, int y, int width, enum lw_style style,
	const double *values, size_t n);

/** lw_heat_style() - @frac 0 .. 1 of the scale. */
enum lw_style lw_heat_style(double frac);

#endif /* LAPWING_TUI_CELLS_H */
