/* SPDX-License-Identifier: Apache-2.0 */
#include "tui/cells.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "base/err.h"

static const struct {
	uint32_t rune;
	char ascii;
} glyphs[LW_GLYPH_COUNT] = {
	[LW_GLYPH_COMPUTE] = {0x2588, '#'},   /* full block */
	[LW_GLYPH_NEGOTIATE] = {0x2591, 'n'}, /* light shade */
	[LW_GLYPH_WAIT] = {0x00b7, '.'},      /* middle dot */
	[LW_GLYPH_ALLREDUCE] = {0x2593, 'A'}, /* dark shade */
	[LW_GLYPH_MISC] = {0x25aa, 'm'},      /* small square */
	[LW_GLYPH_EXPOSED] = {0x2592, 'x'},   /* medium shade */
	[LW_GLYPH_IDLE] = {0x2581, '_'},      /* low line */
	[LW_GLYPH_LINE] = {0x2500, '-'},
	[LW_GLYPH_BAR] = {0x2502, '|'},
	[LW_GLYPH_CORNER] = {0x2514, '`'},
	[LW_GLYPH_CUT] = {0x2026, '~'},
	[LW_GLYPH_CURSOR] = {0x25b8, '>'},
	[LW_GLYPH_UP] = {0x25b2, '^'},
	[LW_GLYPH_DOWN] = {0x25bc, 'v'},
	[LW_GLYPH_LEVEL_FIRST + 0] = {0x2581, '_'},
	[LW_GLYPH_LEVEL_FIRST + 1] = {0x2582, '.'},
	[LW_GLYPH_LEVEL_FIRST + 2] = {0x2583, ':'},
	[LW_GLYPH_LEVEL_FIRST + 3] = {0x2584, '-'},
	[LW_GLYPH_LEVEL_FIRST + 4] = {0x2585, '='},
	[LW_GLYPH_LEVEL_FIRST + 5] = {0x2586, '+'},
	[LW_GLYPH_LEVEL_FIRST + 6] = {0x2587, '*'},
	[LW_GLYPH_LEVEL_FIRST + 7] = {0x2588, '#'},
};

enum { REPLACEMENT = '?', MAX_SIDE = 4096 };

uint32_t lw_glyph(const struct lw_cells *cells, enum lw_glyph glyph)
{
	return cells->is_ascii ? (uint32_t)glyphs[glyph].ascii : glyphs[glyph].rune;
}

int lw_cells_resize(struct lw_cells *cells, int width, int height)
{
	struct lw_cell *at;

	width = width < 1 ? 1 : width > MAX_SIDE ? MAX_SIDE : width;
	height = height < 1 ? 1 : height > MAX_SIDE ? MAX_SIDE : height;
	at = calloc((size_t)width * (size_t)height, sizeof(*at));
	if (!at)
		return lw_fail(LW_ERR_NOMEM, "no memory for a screen of %d x %d", width, height);
	free(cells->at);
	cells->at = at;
	cells->width = width;
	cells->height = height;
	lw_cells_clear(cells);
	return LW_OK;
}

void lw_cells_clear(struct lw_cells *cells)
{
	for (size_t i = 0; i < (size_t)cells->width * (size_t)cells->height; i++)
		cells->at[i] = (struct lw_cell){' ', LW_STYLE_TEXT};
}

void lw_cells_free(struct lw_cells *cells)
{
	free(cells->at);
	*cells = (struct lw_cells){.is_ascii = cells->is_ascii};
}

/* ---- runes -------------------------------------------------------------------------------------- */

/* The first rune of @text. Return: its bytes; what is no UTF-8 is one byte and a replacement. */
static size_t read_rune(const char *text, uint32_t *ret_rune)
{
	static const struct {
		unsigned char mask, is;
		uint32_t least;
	} forms[] = {
		{0x80, 0x00, 0}, {0xe0, 0xc0, 0x80}, {0xf0, 0xe0, 0x800}, {0xf8, 0xf0, 0x10000}};
	unsigned char first = (unsigned char)text[0];

	for (size_t n = 0; n < 4; n++) {
		uint32_t rune = first & (unsigned char)~forms[n].mask;
		size_t i = 1;

		if ((first & forms[n].mask) != forms[n].is)
			continue;
		for (; i <= n && ((unsigned char)text[i] & 0xc0) == 0x80; i++)
			rune = rune << 6 | ((unsigned char)text[i] & 0x3f);
		if (i != n + 1 || rune < forms[n].least || rune > 0x10ffff ||
			(rune >= 0xd800 && rune <= 0xdfff))
			break;
		*ret_rune = rune;
		return n + 1;
	}
	*ret_rune = REPLACEMENT;
	return 1;
}

static size_t write_rune(uint32_t rune, char *text)
{
	if (rune < 0x80) {
		text[0] = (char)rune;
		return 1;
	}
	if (rune < 0x800) {
		text[0] = (char)(0xc0 | rune >> 6);
		text[1] = (char)(0x80 | (rune & 0x3f));
		return 2;
	}
	if (rune < 0x10000) {
		text[0] = (char)(0xe0 | rune >> 12);
		text[1] = (char)(0x80 | (rune >> 6 & 0x3f));
		text[2] = (char)(0x80 | (rune & 0x3f));
		return 3;
	}
	text[0] = (char)(0xf0 | rune >> 18);
	text[1] = (char)(0x80 | (rune >> 12 & 0x3f));
	text[2] = (char)(0x80 | (rune >> 6 & 0x3f));
	text[3] = (char)(0x80 | (rune & 0x3f));
	return 4;
}

/* Its columns; what moves a cursor or has no width becomes a replacement of one. */
static int rune_width(uint32_t *rune)
{
	int width;

	if (*rune < 0x80) {
		if (*rune < 0x20 || *rune == 0x7f)
			*rune = REPLACEMENT;
		return 1;
	}
	if (*rune >= 0x2500 && *rune < 0x2600) /* ours; the C locale knows no width of them */
		return 1;
	width = wcwidth((wchar_t)*rune);
	if (width < 1 && (*rune < 0xa0 || width == 0)) {
		*rune = REPLACEMENT;
		return 1;
	}
	return width == 2 ? 2 : 1;
}

int lw_text_width(const char *text)
{
	int width = 0;

	while (*text) {
		uint32_t rune;

		text += read_rune(text, &rune);
		width += rune_width(&rune);
	}
	return width;
}

const char *lw_cells_line(const struct lw_cells *cells, int y, char *text)
{
	const struct lw_cell *line = cells->at + (size_t)y * (size_t)cells->width;
	size_t n = 0, end = 0;

	for (int x = 0; x < cells->width; x++) {
		if (!line[x].rune)
			continue;
		n += write_rune(line[x].rune, text + n);
		if (line[x].rune != ' ')
			end = n;
	}
	text[end] = 0;
	return text;
}

/* ---- panes -------------------------------------------------------------------------------------- */

struct lw_pane lw_pane_whole(struct lw_cells *cells)
{
	return (struct lw_pane){cells, 0, 0, cells->width, cells->height};
}

struct lw_pane lw_pane_part(struct lw_pane pane, int x, int y, int width, int height)
{
	int left = x < 0 ? 0 : x, top = y < 0 ? 0 : y;
	int right = x + width > pane.width ? pane.width : x + width;
	int bottom = y + height > pane.height ? pane.height : y + height;

	return (struct lw_pane){pane.cells, pane.x + left, pane.y + top,
		right > left ? right - left : 0, bottom > top ? bottom - top : 0};
}

static struct lw_cell *cell_at(struct lw_pane pane, int x, int y)
{
	if (x < 0 || y < 0 || x >= pane.width || y >= pane.height)
		return NULL;
	return &pane.cells->at[(size_t)(pane.y + y) * (size_t)pane.cells->width +
			       (size_t)(pane.x + x)];
}

/* Half of a wide one cannot stay when the other half goes. */
static void put(struct lw_pane pane, int x, int y, enum lw_style style, uint32_t rune)
{
	struct lw_cell *cell = cell_at(pane, x, y), *next = cell_at(pane, x + 1, y);

	if (!cell)
		return;
	if (!cell->rune && pane.x + x > 0 && rune)
		cell[-1].rune = ' ';
	if (next && !next->rune && rune)
		next->rune = ' ';
	*cell = (struct lw_cell){rune, (uint8_t)style};
}

void lw_pane_rune(struct lw_pane pane, int x, int y, enum lw_style style, uint32_t rune)
{
	if (rune_width(&rune) == 1)
		put(pane, x, y, style, rune);
}

void lw_pane_fill(struct lw_pane pane, int x, int y, int width, enum lw_style style, uint32_t rune)
{
	for (int i = 0; i < width; i++)
		lw_pane_rune(pane, x + i, y, style, rune);
}

void lw_pane_restyle(struct lw_pane pane, int x, int y, int width, enum lw_style style)
{
	for (int i = 0; i < width; i++) {
		struct lw_cell *cell = cell_at(pane, x + i, y);

		if (cell)
			cell->style = (uint8_t)style;
	}
}

int lw_pane_text(
	struct lw_pane pane, int x, int y, int width, enum lw_style style, const char *text)
{
	int end = x + width < pane.width ? x + width : pane.width, at = x, before = x;

	while (*text) {
		uint32_t rune;
		int columns;

		text += read_rune(text, &rune);
		columns = rune_width(&rune);
		if (pane.cells->is_ascii && rune > 0x7e) {
			rune = REPLACEMENT;
			columns = 1;
		}
		if (at + columns > end) {
			at = at < end ? at : before;
			if (at >= x && at < end)
				put(pane, at, y, style, lw_glyph(pane.cells, LW_GLYPH_CUT));
			return end - x;
		}
		put(pane, at, y, style, rune);
		if (columns == 2)
			put(pane, at + 1, y, style, 0);
		before = at;
		at += columns;
	}
	return at - x;
}

int lw_pane_print(struct lw_pane pane, int x, int y, enum lw_style style, const char *format, ...)
{
	char text[1024];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	return lw_pane_text(pane, x, y, pane.width - x, style, text);
}

void lw_pane_right(
	struct lw_pane pane, int x_end, int y, int width, enum lw_style style, const char *text)
{
	int columns = lw_text_width(text);

	columns = columns < width ? columns : width;
	lw_pane_text(pane, x_end - columns, y, columns, style, text);
}

int lw_pane_wrap(
	struct lw_pane pane, int x, int y, int width, enum lw_style style, const char *text)
{
	int n_lines = 0;

	if (width < 1)
		return 0;
	while (*text) {
		size_t end = 0, blank = 0, n = 0;
		int columns = 0;
		char line[4 * MAX_SIDE];

		while (text[n] && text[n] != '\n') {
			uint32_t rune;
			size_t bytes = read_rune(text + n, &rune);

			columns += rune_width(&rune);
			if (columns > width)
				break;
			if (rune == ' ')
				blank = n;
			n += bytes;
		}
		end = !text[n] || text[n] == '\n' || text[n] == ' ' ? n : blank ? blank : n;
		if (end == 0 && text[0] != '\n') /* not even one rune fits */
			return n_lines;
		if (end >= sizeof(line))
			end = sizeof(line) - 1;
		memcpy(line, text, end);
		line[end] = 0;
		lw_pane_text(pane, x, y + n_lines++, width, style, line);
		text += end;
		if (*text == '\n')
			text++;
		else
			text += strspn(text, " ");
	}
	if (y < pane.height && y + n_lines > pane.height) /* there is more than can be seen */
		lw_pane_rune(pane, x + width - 1, pane.height - 1, style,
			lw_glyph(pane.cells, LW_GLYPH_CUT));
	return n_lines;
}
