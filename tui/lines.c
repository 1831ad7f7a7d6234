/* SPDX-License-Identifier: Apache-2.0 */
#include "tui/lines.h"

#include <stdlib.h>
#include <string.h>

enum { SIDE_STEP = 8, MOST_LEFT = 400 };

void lw_lines_done(struct lw_lines *lines)
{
	free(lines->text);
	lw_vec_free(&lines->at);
	*lines = (struct lw_lines){0};
}

int lw_lines_take(struct lw_lines *lines, char *text)
{
	char *rest = text, *line;

	lw_lines_done(lines);
	lines->text = text;
	while ((line = strsep(&rest, "\n")))
		if ((rest || *line) && lw_vec_push(&lines->at, (const char *)line) < 0)
			return LW_ERR_NOMEM;
	return LW_OK;
}

static size_t last_top(const struct lw_lines *lines)
{
	size_t height = lines->height > 0 ? (size_t)lines->height : 1;

	return lines->at.n > height ? lines->at.n - height : 0;
}

void lw_lines_draw(struct lw_lines *lines, struct lw_pane pane)
{
	lines->height = pane.height;
	if (lines->top > last_top(lines))
		lines->top = last_top(lines);
	for (int y = 0; y < pane.height && lines->top + (size_t)y < lines->at.n; y++) {
		size_t i = lines->top + (size_t)y;
		const char *line = lines->at.at[i];

		for (int left = 0; left < lines->left && *line; left++)
			do
				line++;
			while ((*line & 0xc0) == 0x80);

		lw_pane_text(pane, 1, y, pane.width - 1,
			i + 1 == lines->found ? LW_STYLE_SELECTED : LW_STYLE_TEXT, line);
	}
	if (lines->top < last_top(lines) && pane.height > 0)
		lw_pane_rune(pane, pane.width - 1, pane.height - 1, LW_STYLE_STRONG,
			lw_glyph(pane.cells, LW_GLYPH_DOWN));
	if (lines->top > 0)
		lw_pane_rune(pane, pane.width - 1, 0, LW_STYLE_STRONG,
			lw_glyph(pane.cells, LW_GLYPH_UP));
}

bool lw_lines_request(struct lw_lines *lines, enum lw_request request)
{
	long page = lines->height > 1 ? lines->height - 1 : 1, by = 0;

	switch ((int)request) {
	case LW_REQUEST_LEFT:
		lines->left -= lines->left > 0 ? SIDE_STEP : 0;
		return true;
	case LW_REQUEST_RIGHT:
		lines->left += lines->left < MOST_LEFT ? SIDE_STEP : 0;
		return true;
	case LW_REQUEST_UP:
		by = -1;
		break;
	case LW_REQUEST_DOWN:
		by = 1;
		break;
	case LW_REQUEST_PAGE_UP:
		by = -page;
		break;
	case LW_REQUEST_PAGE_DOWN:
		by = page;
		break;
	case LW_REQUEST_TOP:
		by = -(long)lines->at.n;
		break;
	case LW_REQUEST_BOTTOM:
		by = (long)lines->at.n;
		break;
	default:
		return false;
	}
	by += (long)lines->top;
	lines->top = by > 0 ? (size_t)by : 0;
	if (lines->top > last_top(lines))
		lines->top = last_top(lines);
	return true;
}

bool lw_lines_find(struct lw_lines *lines, const char *text, int by)
{
	size_t n = lines->at.n, step = by < 0 ? n - 1 : 1;
	size_t at = lines->found ? lines->found - 1 : lines->top;

	for (size_t i = 0; i < n; i++) {
		if (i > 0 || (by && lines->found))
			at = (at + step) % n;
		if (strcasestr(lines->at.at[at], text)) {
			lines->found = at + 1;
			lines->top = at;
			return true;
		}
	}
	return false;
}
