/* SPDX-License-Identifier: Apache-2.0 */
#include "tui/parts.h"

#include <math.h>
#include <string.h>

enum { LW_FIT_TEXT_BYTES = 2048 };

double lw_ns_known(int64_t ns)
{
	return ns == LW_NS_UNKNOWN ? (double)NAN : (double)ns;
}

const char *lw_percent_format(double frac, char text[LW_UNIT_TEXT_BYTES])
{
	snprintf(text, LW_UNIT_TEXT_BYTES, "%.0f %%", 100 * frac);
	return text;
}

const char *lw_count_format(double n, char text[LW_UNIT_TEXT_BYTES])
{
	snprintf(text, LW_UNIT_TEXT_BYTES, n == floor(n) || n >= 1000 ? "%.0f" : "%.1f", n);
	return text;
}

int lw_pane_fit(struct lw_pane pane, int x, int y, int width, int lines, enum lw_style style,
	const char *text, const char *end)
{
	struct lw_pane nowhere = lw_pane_part(pane, 0, 0, 0, 0);
	char fitting[LW_FIT_TEXT_BYTES];
	size_t n = strlen(text);

	if (lines < 1)
		return 0;
	if (n > sizeof(fitting) - 64)
		n = sizeof(fitting) - 64;
	for (const char *cut = text[n] ? "..." : "";; cut = "...") {
		snprintf(fitting, sizeof(fitting), "%.*s%s%s", (int)n, text, cut, end);
		if (n == 0 || lw_pane_wrap(nowhere, 0, 0, width, style, fitting) <= lines)
			break;
		while (n > 0 && text[n - 1] != ' ')
			n--;
		while (n > 0 && text[n - 1] == ' ')
			n--;
	}
	return lw_pane_wrap(pane, x, y, width, style, fitting);
}

size_t lw_run_n_steps(const struct lw_run *run)
{
	return run->ranks.n ? run->ranks.at[0].steps.n : 0;
}

void lw_pane_heading(
	struct lw_pane pane, const struct lw_table *table, enum lw_style style, const char *text)
{
	char place[LW_TABLE_TEXT_BYTES] = "";
	int width;

	if (table && table->n_rows)
		lw_table_place(table, place);
	width = lw_text_width(place);
	lw_pane_text(pane, 1, 0, pane.width - 3 - width, style, text);
	lw_pane_right(pane, pane.width - 1, 0, width, LW_STYLE_DIM, place);
}

void lw_pane_rule(struct lw_pane pane, int y, const char *title)
{
	lw_pane_fill(pane, 0, y, pane.width, LW_STYLE_DIM, lw_glyph(pane.cells, LW_GLYPH_LINE));
	lw_pane_print(pane, 1, y, LW_STYLE_STRONG, " %s ", title);
}

struct lw_input lw_input_inside(const struct lw_input *input, int y, int height)
{
	struct lw_input inside = *input;

	inside.y -= y;
	inside.height = height;
	return inside;
}

void lw_focus_move(struct lw_focus *focus, const struct lw_run *run, int by)
{
	int32_t n = (int32_t)lw_run_n_steps(run), to;

	if (n == 0)
		return;
	to = focus->step == LW_NONE ? (by > 0 ? 0 : n - 1) : focus->step + by;
	focus->step = to < 0 ? 0 : to >= n ? n - 1 : to;
}
