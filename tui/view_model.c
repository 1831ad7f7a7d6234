/* SPDX-License-Identifier: Apache-2.0 */
#include "tui/view.h"

static void draw(struct lw_view *view, struct lw_pane pane)
{
	(void)view;
	lw_pane_print(pane, 1, 1, LW_STYLE_DIM, "not built yet");
}

const struct lw_view_ops lw_view_model = {
	.name = "model",
	.label = "model",
	.title = "not built yet",
	.hint = "",
	.draw = draw,
};
