/* SPDX-License-Identifier: Apache-2.0 */
/* model_costs.c - the costs of operations, and one of them against what was measured, size by size. */
#include <math.h>
#include <string.h>

#include "base/units.h"
#include "tui/cost_plot.h"
#include "tui/model_sides.h"

enum { MOST_COST_LINES = 7, SIZES_WIDTH = 47 /* and a column for a sign */ };
static const double LEAST_NS_PER_BYTE = 0.001, LEAST_HALF_FRAC = 0.001;

static const struct lw_fit_cost *cost_of(const void *context, size_t row)
{
	const struct lw_model_state *state = context;

	return &state->analysis->fit.cost[state->kinds[row]];
}

static const char *cost_name(const void *context, size_t row, char text[LW_TABLE_TEXT_BYTES])
{
	const struct lw_model_state *state = context;

	(void)text;
	return lw_fit_cost_name(state->kinds[row]);
}

static const char *form_text(const void *context, size_t row, char text[LW_TABLE_TEXT_BYTES])
{
	const struct lw_cost *cost = &cost_of(context, row)->cost;
	char verdict[LW_VERDICT_TEXT_BYTES];

	snprintf(text, LW_TABLE_TEXT_BYTES, "%s%s", lw_cost_form_name(cost->form),
		*lw_cost_verdict(cost, verdict) ? "!" : "");
	return text;
}

static const char *samples_text(const void *context, size_t row, char text[LW_TABLE_TEXT_BYTES])
{
	const struct lw_cost *cost = &cost_of(context, row)->cost;

	snprintf(text, LW_TABLE_TEXT_BYTES, "%.0f of %zu", cost->n, cost->n_sizes);
	return text;
}

static double samples_value(const void *context, size_t row)
{
	return cost_of(context, row)->cost.n;
}

static const char *fixed_text(const void *context, size_t row, char text[LW_TABLE_TEXT_BYTES])
{
	const struct lw_figure *a_ns = &cost_of(context, row)->a_ns;
	char value[LW_UNIT_TEXT_BYTES], half[LW_UNIT_TEXT_BYTES];

	if (!isfinite(a_ns->value))
		return "?";
	if (!isfinite(a_ns->high - a_ns->low))
		return strcpy(text, lw_ns_format(a_ns->value, value));
	snprintf(text, LW_TABLE_TEXT_BYTES, "%s +-%s", lw_ns_format(a_ns->value, value),
		lw_ns_format((a_ns->high - a_ns->low) / 2, half));
	return text;
}

static double fixed_value(const void *context, size_t row)
{
	return cost_of(context, row)->a_ns.value;
}

static const char *rate_text(const void *context, size_t row, char text[LW_TABLE_TEXT_BYTES])
{
	const struct lw_figure *b = &cost_of(context, row)->b_ns_per_byte;
	double half;

	if (!isfinite(b->value))
		return "?";
	if (b->high < LEAST_NS_PER_BYTE)
		return "below 0.001";
	if (b->value < LEAST_NS_PER_BYTE && isfinite(b->high)) { /* nothing, or that */
		snprintf(text, LW_TABLE_TEXT_BYTES, "up to %.2g", b->high);
		return text;
	}
	half = (b->high - b->low) / 2;
	if (!isfinite(half)) {
		snprintf(text, LW_TABLE_TEXT_BYTES, "%.3g", b->value);
		return text;
	}
	snprintf(text, LW_TABLE_TEXT_BYTES, b->value < 1000 ? "%.3g +-%.2g" : "%.0f +-%.0f",
		b->value, half < LEAST_HALF_FRAC * b->value ? 0 : half);
	return text;
}

static double rate_value(const void *context, size_t row)
{
	return cost_of(context, row)->b_ns_per_byte.value;
}

static const char *off_text(const void *context, size_t row, char text[LW_TABLE_TEXT_BYTES])
{
	double off_frac = cost_of(context, row)->cost.mape_frac;

	return isfinite(off_frac) ? lw_off_format(off_frac, false, text) : "?";
}

static double off_value(const void *context, size_t row)
{
	return cost_of(context, row)->cost.mape_frac;
}

static const struct lw_table_column cost_columns[] = {
	{"cost of", 13, .is_left = true, .text = cost_name},
	{"form", 10, .is_left = true, .text = form_text},
	{"n of sizes", 10, .text = samples_text, .value = samples_value},
	{"fixed (affine)", 17, .text = fixed_text, .value = fixed_value},
	{"ns a byte", 13, .text = rate_text, .value = rate_value},
	{"off", 6, .text = off_text, .value = off_value},
};

void lw_model_costs_draw(struct lw_model_state *state, struct lw_pane pane)
{
	int lines = (int)state->costs.n_rows + 1, y, plot_width = pane.width - SIZES_WIDTH;
	size_t row = lw_table_row(&state->costs);
	const struct lw_fit_cost *fitted;
	char text[LW_TABLE_TEXT_BYTES], verdict[LW_VERDICT_TEXT_BYTES + 2] = "! ";
	int n;

	if (row == SIZE_MAX) {
		lw_pane_wrap(pane, 1, 0, pane.width - 2, LW_STYLE_WARN,
			lw_fit_probe(state->analysis->run) == LW_FIT_PROBE_NONE
				? "No cost was fitted: no operation of a counted step was found on all ranks."
				: "No cost was fitted: no operation of a counted step was found on all ranks. "
				  "`lapwing record --probe` measures operations of many sizes; a torch script must call it (docs/probe.md).");
		return;
	}
	if (lines > MOST_COST_LINES && lines > pane.height / 3)
		lines = pane.height / 3 > MOST_COST_LINES ? pane.height / 3 : MOST_COST_LINES;
	lw_table_draw(&state->costs, lw_pane_part(pane, 0, 0, pane.width, lines));
	y = lines;
	fitted = cost_of(state, row);
	n = snprintf(text, sizeof(text), "%s", lw_fit_cost_note(state->kinds[row]));
	if (isfinite(fitted->cost.cross_frac))
		n += snprintf(text + n, sizeof(text) - (size_t)n,
			"; sizes left out of the fit: %.1f %% off", 100 * fitted->cost.cross_frac);
	if (fitted->cost.why)
		snprintf(text + n, sizeof(text) - (size_t)n, "; %s", fitted->cost.why);
	y += lw_pane_wrap(pane, 1, y, pane.width - 2, LW_STYLE_DIM, text);
	if (*lw_cost_verdict(&fitted->cost, verdict + 2))
		y += lw_pane_wrap(pane, 1, y, pane.width - 2, LW_STYLE_WARN, verdict);
	if (plot_width < 30)
		plot_width = 0;
	else
		lw_cost_plot(lw_pane_part(pane, 0, y, plot_width, pane.height - y), fitted);
	if (state->top_size >= fitted->n_sizes)
		state->top_size = 0;
	state->n_size_lines = lw_cost_sizes(
		lw_pane_part(pane, plot_width + 1, y, pane.width - plot_width - 1, pane.height - y),
		fitted, state->top_size);
	if (state->top_size + state->n_size_lines < fitted->n_sizes)
		lw_pane_rune(pane, pane.width - 1, pane.height - 1, LW_STYLE_STRONG,
			lw_glyph(pane.cells, LW_GLYPH_DOWN));
}

int lw_model_costs_open(struct lw_model_state *state)
{
	const struct lw_analysis *analysis = state->analysis;
	size_t n = 0;

	for (size_t k = 0; analysis->has_fit && k < LW_FIT_N_COSTS; k++)
		if (analysis->fit.cost[k].cost.form != LW_COST_NONE)
			state->kinds[n++] = (enum lw_fit_cost_kind)k;
	return lw_table_open(&state->costs, cost_columns,
		sizeof(cost_columns) / sizeof(cost_columns[0]), n, state);
}

bool lw_model_costs_request(struct lw_model_state *state, const struct lw_input *input)
{
	size_t row = lw_table_row(&state->costs), page = state->n_size_lines;
	size_t n_sizes = row == SIZE_MAX ? 0 : cost_of(state, row)->n_sizes;

	if (input->request == LW_REQUEST_PAGE_DOWN) {
		state->top_size += state->top_size + page < n_sizes ? page : 0;
		return true;
	}
	if (input->request == LW_REQUEST_PAGE_UP) {
		state->top_size -= state->top_size > page ? page : state->top_size;
		return true;
	}
	if (!lw_table_request(&state->costs, input))
		return false;
	if (lw_table_row(&state->costs) != row)
		state->top_size = 0;
	return true;
}

int lw_model_costs_write(const struct lw_model_state *state, FILE *out)
{
	fprintf(out, "cost,bytes,n,measured_ns,fitted_ns\n");
	for (size_t k = 0; k < state->costs.n_rows; k++)
		for (size_t i = 0; i < cost_of(state, k)->n_sizes; i++) {
			const struct lw_size *size = &cost_of(state, k)->sizes[i];

			fprintf(out, "%s,%.0f,%.0f,%.0f,%.0f\n", lw_fit_cost_name(state->kinds[k]),
				size->bytes, size->n, size->mean_ns,
				lw_cost_ns(&cost_of(state, k)->cost, size->bytes, NULL));
		}
	return ferror(out) ? lw_fail(LW_ERR_IO, "cannot write") : LW_OK;
}
