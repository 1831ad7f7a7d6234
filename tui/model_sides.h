/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model_sides.h - inside the view model: its state, and the two sides that have files of their own.
 *
 * view_model.c has the figures and the view; model_costs.c the costs; model_scaling.c how it scales.
 */
#ifndef LAPWING_TUI_MODEL_SIDES_H
#define LAPWING_TUI_MODEL_SIDES_H

#include "tui/predict.h"
#include "tui/table.h"

enum lw_model_side { LW_MODEL_FIGURES, LW_MODEL_COSTS, LW_MODEL_SCALING, LW_MODEL_SIDES };

struct lw_model_state {
	const struct lw_analysis *analysis;
	enum lw_model_side side;
	struct lw_table figures, costs;
	enum lw_fit_cost_kind kinds[LW_FIT_N_COSTS]; /* rows of costs */
	size_t top_size, n_size_lines;               /* of the list of sizes */
	struct lw_answer scaling;
	bool is_asked, is_open; /* scaling: asked for; there is something to ask */
	size_t n_made, top_rank;
	char why_not[LW_REPLY_TEXT_BYTES];
};

int lw_model_costs_open(struct lw_model_state *state);
void lw_model_costs_draw(struct lw_model_state *state, struct lw_pane pane);
bool lw_model_costs_request(struct lw_model_state *state, const struct lw_input *input);
int lw_model_costs_write(const struct lw_model_state *state, FILE *out);

void lw_model_scaling_drop(struct lw_model_state *state);
void lw_model_scaling_draw(struct lw_model_state *state, struct lw_pane pane);
bool lw_model_scaling_request(struct lw_model_state *state, enum lw_request request);

/** lw_model_scaling_tick() - as lw_view_ops.tick; the first asks. */
bool lw_model_scaling_tick(struct lw_view *view);
int lw_model_scaling_write(const struct lw_model_state *state, FILE *out);

#endif /* LAPWING_TUI_MODEL_SIDES_H */
