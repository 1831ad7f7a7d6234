/* SPDX-License-Identifier: Apache-2.0 */
/* lines.h - a long text that is scrolled and searched, line by line. */
#ifndef LAPWING_TUI_LINES_H
#define LAPWING_TUI_LINES_H

#include "base/vec.h"
#include "tui/view.h"

struct lw_lines {   /* zeroed: empty */
	char *text; /* owned; its newlines are terminators now */
	lw_vec(const char *) at;
	size_t top;   /* first on the screen */
	int left;     /* columns that are off the screen at the left */
	int height;   /* of the pane it was drawn on last */
	size_t found; /* line that was searched for last, + 1; 0 = none */
};

/** lw_lines_take() - show @text, which is owned from now on in any case. Return: LW_OK, LW_ERR_NOMEM. */
int lw_lines_take(struct lw_lines *lines, char *text);
void lw_lines_done(struct lw_lines *lines);

/** lw_lines_draw() - and how much more there is, at the right end of the last line. */
void lw_lines_draw(struct lw_lines *lines, struct lw_pane pane);

/** lw_lines_request() - scrolling, sideways too. Return: understood. */
bool lw_lines_request(struct lw_lines *lines, enum lw_request request);

/** lw_lines_find() - as lw_view_ops.find. */
bool lw_lines_find(struct lw_lines *lines, const char *text, int by);

#endif /* LAPWING_TUI_LINES_H */
