/* SPDX-License-Identifier: Apache-2.0 */
/* answer_text.c - what predict answers, as text of at most 80 columns. */
#include <math.h>

#include "analyzer/emit/answer.h"
#include "analyzer/emit/report.h"
#include "base/units.h"

static void write_setting(
	const struct lw_answer *answer, const struct lw_prediction *prediction, char text[128])
{
	const char *plural = prediction->n_ranks == 1 ? "" : "s";
	char bytes[LW_UNIT_TEXT_BYTES];

	if (answer->predictor->replay->is_ddp)
		snprintf(text, 128, "buckets as recorded, %u rank%s", prediction->n_ranks, plural);
	else
		snprintf(text, 128, "fusion threshold %s, cycle %g ms, %u rank%s",
			lw_bytes_format(prediction->fusion_bytes, bytes),
			prediction->cycle_ns / 1e6, prediction->n_ranks, plural);
}

static void print_frac(const char *name, double frac, FILE *out)
{
	if (frac != 1)
		fprintf(out, ", %s %g of the recorded", name, frac);
}

static void print_head(const struct lw_answer *answer, FILE *out)
{
	const struct lw_replay *replay = answer->predictor->replay;
	struct lw_prediction recorded = {.fusion_bytes = (double)replay->setting.fusion_bytes,
		.cycle_ns = (double)replay->setting.cycle_ns,
		.n_ranks = replay->input.n_ranks};
	char setting[128], step[LW_UNIT_TEXT_BYTES];

	write_setting(answer, &recorded, setting);
	fprintf(out, "%-10s %s: %s a step, measured (median of %u)\n",
		replay->is_ddp || replay->is_setting_known ? "recorded" : "assumed", setting,
		lw_ns_format(answer->predictor->recorded_ns.value, step), replay->n_steps);
}

static void print_sure(const struct lw_answer *answer, FILE *out)
{
	const struct lw_replay *replay = answer->predictor->replay;
	char bias[LW_UNIT_TEXT_BYTES];

	if (answer->model->predict) {
		fprintf(out,
			"how sure   a closed model without rounds and ticks; it is not corrected by the run\n");
		return;
	}
	fprintf(out,
		"how sure   replayed as recorded, the model is off by %.1f %% (%s%s a step), which is added to"
		" every prediction\n",
		100 * replay->error_frac, replay->bias_ns < 0 ? "-" : "+",
		lw_ns_format(fabs(replay->bias_ns), bias));
}

static const char *const scaling_titles[] = {"CSF", "OSF", "OSF_f"};

static void print_one(const struct lw_answer *answer, const struct lw_forecast *forecast, FILE *out)
{
	const struct lw_prediction *prediction = &forecast->prediction;
	const struct lw_whatif *whatif = &answer->whatif;
	char setting[128], step[LW_UNIT_TEXT_BYTES], low[LW_UNIT_TEXT_BYTES],
		high[LW_UNIT_TEXT_BYTES];

	write_setting(answer, prediction, setting);
	fprintf(out, "%-10s %s", lw_how_name(prediction->step_ns.how), setting);
	print_frac("bandwidth", whatif->bandwidth_frac, out);
	print_frac("latency", whatif->latency_frac, out);
	print_frac("compute", whatif->compute_frac, out);
	if (isnan(prediction->step_ns.value))
		fprintf(out, ": not known");
	else
		fprintf(out, ": %s a step", lw_ns_format(prediction->step_ns.value, step));
	if (isfinite(prediction->step_ns.low))
		fprintf(out, " (95 %%: %s to %s)", lw_ns_format(prediction->step_ns.low, low),
			lw_ns_format(prediction->step_ns.high, high));
	if (!prediction->is_recorded && isfinite(forecast->gain_frac))
		fprintf(out, ", %.1f %% %s", 100 * fabs(forecast->gain_frac),
			forecast->gain_frac < 0 ? "more" : "less");
	fprintf(out, "\n");
	print_sure(answer, out);
	if (prediction->step_ns.why)
		fprintf(out, "note       %s%s\n",
			prediction->is_extrapolated ? "extrapolated: " : "",
			prediction->step_ns.why);
	fprintf(out, "scaling   ");
	for (size_t i = 0; i <= LW_SCALING_OSF_F; i++)
		if (isnan(forecast->scaling[i].value))
			fprintf(out, " %s not known ", scaling_titles[i]);
		else
			fprintf(out, " %s %.3f ", scaling_titles[i], forecast->scaling[i].value);
	fprintf(out, "(closed models, on the costs of this run)\n");
}

static void print_grid(const struct lw_answer *answer, FILE *out)
{
	const struct lw_advise_grid *grid = &answer->grid;
	const struct lw_forecast *forecasts = answer->forecasts;
	bool any = false;

	print_head(answer, out);
	fprintf(out, "\npredicted step in ms; columns: cycle in ms; x = extrapolated\n%-12s",
		"threshold");
	for (size_t c = 0; c < grid->n_cycle; c++)
		fprintf(out, "%11g ", grid->cycle_ns[c] / 1e6);
	fprintf(out, "\n");
	for (size_t q = 0; q < grid->n_fusion; q++) {
		char bytes[LW_UNIT_TEXT_BYTES];

		fprintf(out, "%-12s", lw_bytes_format(grid->fusion_bytes[q], bytes));
		for (size_t c = 0; c < grid->n_cycle; c++, forecasts++) {
			if (isnan(forecasts->prediction.step_ns.value))
				fprintf(out, "%11s ", "not known");
			else
				fprintf(out, "%11.1f%c", forecasts->prediction.step_ns.value / 1e6,
					forecasts->prediction.is_extrapolated ? 'x' : ' ');
			any = any || forecasts->prediction.is_extrapolated;
		}
		fprintf(out, "\n");
	}
	fprintf(out, "\n");
	print_sure(answer, out);
	if (any)
		fprintf(out,
			"note       x: such settings send operations of sizes that this run does not hold\n");
}

void lw_answer_text(const struct lw_answer *answer, FILE *out)
{
	if (answer->question == LW_ASK_GRID) {
		print_grid(answer, out);
		return;
	}
	print_head(answer, out);
	print_one(answer, answer->forecasts, out);
}
