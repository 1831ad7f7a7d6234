/* SPDX-License-Identifier: Apache-2.0 */
#include "tui/predict.h"

#include <math.h>
#include <stdlib.h>

int lw_asker_open(struct lw_asker *asker, struct lw_predictor *predictor)
{
	size_t n = lw_replay_n(predictor->replay);

	lw_asker_done(asker);
	asker->base_ns = calloc(n + 1, sizeof(*asker->base_ns));
	asker->other_ns = calloc(n + 1, sizeof(*asker->other_ns));
	if (!asker->base_ns || !asker->other_ns)
		return lw_fail(LW_ERR_NOMEM, "no memory for %zu steps", n);
	asker->predictor = predictor;
	return lw_replay_predict(
		predictor->replay, &LW_WHATIF_RECORDED, &asker->base, asker->base_ns);
}

void lw_asker_done(struct lw_asker *asker)
{
	free(asker->base_ns);
	free(asker->other_ns);
	*asker = (struct lw_asker){0};
}

void lw_asker_ask(
	struct lw_asker *asker, const struct lw_whatif *whatif, struct lw_reply *ret_reply)
{
	struct lw_replay *replay = asker->predictor->replay;
	struct lw_prediction *prediction = &ret_reply->forecast.prediction;
	struct lw_figure *gain = &ret_reply->gain_frac;
	size_t n_models;

	*ret_reply =
		(struct lw_reply){.forecast = {.model = lw_models(&n_models), .whatif = *whatif}};
	if (lw_replay_predict(replay, whatif, prediction, asker->other_ns) < 0) {
		snprintf(ret_reply->error, sizeof(ret_reply->error), "%s", lw_error_text());
		lw_error_clear();
		return;
	}
	*gain = lw_replay_gain(replay, &asker->base, asker->base_ns, prediction, asker->other_ns);
	gain->value /= asker->base.step_ns.value;
	gain->low /= asker->base.step_ns.value;
	gain->high /= asker->base.step_ns.value;
	ret_reply->is_known = true;
}

/* ---- words -------------------------------------------------------------------------------------- */

/* @forecast: a copy, as an answer may change its own. */
static struct lw_answer as_answer(const struct lw_asker *asker, struct lw_forecast *forecast)
{
	return (struct lw_answer){
		.predictor = asker->predictor, .forecasts = forecast, .n_forecasts = 1};
}

const char *lw_reply_setting(
	const struct lw_asker *asker, const struct lw_reply *reply, char text[LW_REPLY_TEXT_BYTES])
{
	struct lw_forecast forecast = reply->forecast;
	struct lw_answer answer = as_answer(asker, &forecast);

	_Static_assert((int)LW_REPLY_TEXT_BYTES >= (int)LW_SETTING_TEXT_BYTES, "its text fits");
	return lw_answer_setting(
		&answer, &reply->forecast.prediction, &reply->forecast.whatif, text);
}

const char *lw_gain_text(const struct lw_figure *gain_frac, char text[LW_REPLY_TEXT_BYTES])
{
	bool is_more = gain_frac->value < 0;
	bool is_blind =
		gain_frac->low < 0 && gain_frac->high > 0 && gain_frac->high - gain_frac->low > 1;
	double low = is_more ? -gain_frac->high : gain_frac->low;
	double high = is_more ? -gain_frac->low : gain_frac->high;

	snprintf(text, LW_REPLY_TEXT_BYTES, "%.1f %% %s (95 %%: %.1f to %.1f)%s",
		100 * fabs(gain_frac->value), is_more ? "more" : "less", 100 * low, 100 * high,
		is_blind ? ": cannot be told from so few steps" : "");
	return text;
}

const char *lw_reply_step(const struct lw_reply *reply, char text[LW_REPLY_TEXT_BYTES])
{
	const struct lw_prediction *prediction = &reply->forecast.prediction;
	char step[LW_UNIT_TEXT_BYTES], low[LW_UNIT_TEXT_BYTES], high[LW_UNIT_TEXT_BYTES];
	char gain[LW_REPLY_TEXT_BYTES];
	int n;

	if (!reply->is_known || isnan(prediction->step_ns.value)) {
		snprintf(text, LW_REPLY_TEXT_BYTES, "not known%s%s", reply->error[0] ? ": " : "",
			reply->error);
		return text;
	}
	n = snprintf(text, LW_REPLY_TEXT_BYTES, "%s a step (95 %%: %s to %s)",
		lw_ns_format(prediction->step_ns.value, step),
		lw_ns_format(prediction->step_ns.low, low),
		lw_ns_format(prediction->step_ns.high, high));
	if (prediction->is_recorded)
		snprintf(text + n, LW_REPLY_TEXT_BYTES - (size_t)n,
			", the recorded setting replayed");
	else
		snprintf(text + n, LW_REPLY_TEXT_BYTES - (size_t)n, ", %s",
			lw_gain_text(&reply->gain_frac, gain));
	return text;
}

const char *lw_asker_sure(const struct lw_asker *asker, char text[LW_REPLY_TEXT_BYTES])
{
	const struct lw_replay *replay = asker->predictor->replay;
	char off[LW_UNIT_TEXT_BYTES];

	snprintf(text, LW_REPLY_TEXT_BYTES,
		"replayed as recorded, a step comes out %s too %s (%.1f %%): predictions are corrected by that",
		lw_ns_format(fabs(replay->bias_ns), off), replay->bias_ns > 0 ? "short" : "long",
		100 * replay->error_frac);
	return text;
}

const char *lw_reply_doubt(
	const struct lw_asker *asker, const struct lw_reply *reply, char text[LW_REPLY_TEXT_BYTES])
{
	const struct lw_prediction *prediction = &reply->forecast.prediction;
	struct lw_forecast forecast = reply->forecast;
	struct lw_answer answer = as_answer(asker, &forecast);
	char tell[LW_WOULD_TELL_BYTES];

	uint32_t n_missing = asker->predictor->replay->n_missing_ranks;
	size_t n = 0;

	text[0] = 0;
	if (!reply->is_known)
		return text;
	if (n_missing)
		n = (size_t)snprintf(text, LW_REPLY_TEXT_BYTES,
			"%u rank%s of the job %s not in this run: only the others are replayed. ",
			n_missing, n_missing == 1 ? "" : "s", n_missing == 1 ? "is" : "are");
	if (prediction->is_extrapolated && lw_answer_is_same(prediction, &asker->base)) {
		snprintf(text + n, LW_REPLY_TEXT_BYTES - n,
			"= sends what the recorded setting sends");
		return text;
	}
	if (!prediction->step_ns.why)
		return text;
	lw_answer_would_tell(&answer, &forecast, tell);
	snprintf(text + n, LW_REPLY_TEXT_BYTES - n, "%s: %s%s%s",
		prediction->is_extrapolated ? "x extrapolated" : "assumed", prediction->step_ns.why,
		tell[0] ? ". Would tell: " : "", tell);
	return text;
}

static double or_recorded(double asked, double recorded)
{
	return isfinite(asked) && asked > 0 ? asked : recorded;
}

void lw_whatif_lines(const struct lw_replay *replay, const struct lw_whatif *whatif, FILE *out)
{
	const struct lw_ddp_setting *ddp = &replay->ddp.setting;
	const struct {
		const char *name;
		double frac;
	} fracs[] = {{"bandwidth", whatif->bandwidth_frac}, {"latency", whatif->latency_frac},
		{"time to compute", whatif->compute_frac}};

	if (!replay->is_ddp) {
		fprintf(out, "export HOROVOD_FUSION_THRESHOLD=%.0f\nexport HOROVOD_CYCLE_TIME=%g\n",
			isfinite(whatif->fusion_bytes) ? whatif->fusion_bytes
						       : (double)replay->setting.fusion_bytes,
			or_recorded(whatif->cycle_ns, (double)replay->setting.cycle_ns) / 1e6);
	} else if (!replay->ddp.why_fixed) {
		double first_bytes =
			or_recorded(whatif->first_bucket_bytes, (double)ddp->first_bytes);

		if (first_bytes != (double)ddp->first_bytes)
			fprintf(out, "torch.distributed._DEFAULT_FIRST_BUCKET_BYTES = %.0f\n",
				first_bytes);
		fprintf(out, "model = DistributedDataParallel(model, bucket_cap_mb=%g)\n",
			or_recorded(whatif->bucket_cap_bytes, (double)ddp->cap_bytes) / 1048576);
	}
	if (whatif->n_ranks && whatif->n_ranks != replay->input.n_ranks)
		fprintf(out, "# no setting: on %u ranks\n", whatif->n_ranks);
	for (size_t i = 0; i < sizeof(fracs) / sizeof(fracs[0]); i++)
		if (fracs[i].frac != 1)
			fprintf(out, "# no setting: %s %g times the recorded\n", fracs[i].name,
				fracs[i].frac);
	if (whatif->is_balanced)
		fprintf(out, "# no setting: no rank slower than the others\n");
}

/* ---- a mean step as a bar ----------------------------------------------------------------------- */

/* The lanes of the phases that they are most like, under names of their own: ALLREDUCE and WAIT are other times. */
static const struct {
	const char *name;
	enum lw_lane lane;
	int width;
} share_looks[LW_SHARE_COUNT] = {
	[LW_SHARE_COMPUTE] = {"not exposed", LW_LANE_COMPUTE, 14},
	[LW_SHARE_WIRE] = {"wire", LW_LANE_ALLREDUCE, 10},
	[LW_SHARE_COPY] = {"MISC", LW_LANE_MISC, 10},
	[LW_SHARE_WAIT] = {"agree + cycle", LW_LANE_WAIT, 16},
	[LW_SHARE_POLL] = {"idle", LW_LANE_IDLE, 10},
};

struct lw_share lw_share_of(const struct lw_replay *replay, const struct lw_prediction *prediction)
{
	const struct lw_hvd_totals *totals = &prediction->totals;
	double n = (double)replay->input.n_steps * prediction->n_passes;
	struct lw_share share = {.step_ns = prediction->step_ns.value / prediction->n_passes,
		.part_ns = {[LW_SHARE_WIRE] = totals->exposed_wire_ns / n,
			[LW_SHARE_COPY] = totals->exposed_copy_ns / n,
			[LW_SHARE_WAIT] = totals->exposed_cycle_ns / n,
			[LW_SHARE_POLL] = totals->exposed_poll_ns / n},
		.n_ops = (double)totals->n_batches / n};

	lw_share_resize(&share, share.step_ns);
	return share;
}

struct lw_share lw_share_measured(const struct lw_summary *summary)
{
	struct lw_share share = {.step_ns = NAN, .n_ops = summary->batches_per_step.value};
	struct lw_exposed exposed = lw_summary_exposed(summary, NULL);

	if (summary->exposed_ns.how != LW_MEASURED || !isfinite(summary->exposed_ns.value))
		return share;
	share.part_ns[LW_SHARE_WIRE] = exposed.part_ns[LW_EXPOSED_WIRE];
	share.part_ns[LW_SHARE_COPY] = exposed.part_ns[LW_EXPOSED_MISC];
	share.part_ns[LW_SHARE_WAIT] =
		exposed.part_ns[LW_EXPOSED_AGREE] + exposed.part_ns[LW_EXPOSED_WAIT];
	share.part_ns[LW_SHARE_POLL] = exposed.part_ns[LW_EXPOSED_IDLE];
	lw_share_resize(&share, summary->step_ns.value);
	return share;
}

void lw_share_resize(struct lw_share *share, double step_ns)
{
	double exposed_ns = 0;

	for (int i = LW_SHARE_WIRE; i < LW_SHARE_COUNT; i++)
		exposed_ns += share->part_ns[i];
	share->step_ns = step_ns;
	share->part_ns[LW_SHARE_COMPUTE] = fmax(step_ns - exposed_ns, 0);
}

enum {
	NAME_WIDTH = 10,
	STEP_WIDTH = 9,
	LEAST_BAR = 10,
	MOST_SHARES = 3,
	LEAST_FOR_NUMBERS = 6,
	LEAST_FOR_BAR = 7
};

static void draw_bar(
	struct lw_pane pane, int y, const char *name, const struct lw_share *share, double whole_ns)
{
	struct lw_bar_part parts[LW_SHARE_COUNT];
	char step[LW_UNIT_TEXT_BYTES];
	int x = 1 + NAME_WIDTH + STEP_WIDTH + 1;

	for (int i = 0; i < LW_SHARE_COUNT; i++)
		parts[i] = (struct lw_bar_part){share_looks[i].lane, share->part_ns[i]};
	lw_pane_text(pane, 1, y, NAME_WIDTH, LW_STYLE_STRONG, name);
	lw_pane_right(
		pane, x - 1, y, STEP_WIDTH, LW_STYLE_STRONG, lw_ns_format(share->step_ns, step));
	if (pane.width - x - 1 >= LEAST_BAR)
		lw_pane_bar(pane, x, y, pane.width - x - 1, parts, LW_SHARE_COUNT, whole_ns);
}

static void draw_numbers(struct lw_pane pane, int y, const char *name, const struct lw_share *share)
{
	int x = NAME_WIDTH;

	lw_pane_text(pane, 1, y, NAME_WIDTH, LW_STYLE_DIM, name);
	for (int i = 0; i < LW_SHARE_COUNT; i++) {
		char text[LW_UNIT_TEXT_BYTES];

		x += share_looks[i].width;
		lw_pane_right(pane, x, y, share_looks[i].width - 1, LW_STYLE_TEXT,
			lw_ns_format(share->part_ns[i], text));
	}
	lw_pane_print(pane, x + 1, y, LW_STYLE_DIM, "%7.1f", share->n_ops);
}

static void draw_names(struct lw_pane pane, int y)
{
	int x = NAME_WIDTH;

	for (int i = 0; i < LW_SHARE_COUNT; i++) {
		const struct lw_lane_look *look = &lw_lanes[share_looks[i].lane];

		x += share_looks[i].width;
		lw_pane_right(
			pane, x, y, share_looks[i].width - 1, LW_STYLE_DIM, share_looks[i].name);
		lw_pane_rune(pane, x - lw_text_width(share_looks[i].name) - 2, y, look->style,
			lw_glyph(pane.cells, look->glyph));
	}
	lw_pane_print(pane, x + 1, y, LW_STYLE_DIM, "batches");
}

void lw_shares_room(struct lw_shares *shares, const struct lw_share *measured, int lines)
{
	shares->measured = lines >= LEAST_FOR_NUMBERS ? measured : NULL;
	shares->is_short = lines < LEAST_FOR_BAR;
}

int lw_shares_draw(struct lw_pane pane, int y, const struct lw_shares *shares)
{
	const struct {
		const char *name;
		const struct lw_share *share;
	} rows[MOST_SHARES] = {{"measured", shares->measured}, {"replayed", shares->replayed},
		{"predicted", shares->predicted}};
	double whole_ns = 0;
	int at = y;

	for (int i = 0; i < MOST_SHARES; i++)
		if (rows[i].share)
			whole_ns = fmax(whole_ns, rows[i].share->step_ns);
	for (int i = 0; i < MOST_SHARES; i++)
		if (rows[i].share && isfinite(rows[i].share->step_ns) &&
			!(shares->is_short && rows[i].share == shares->measured))
			draw_bar(pane, at++, rows[i].name, rows[i].share, whole_ns);
	draw_names(pane, at++);
	for (int i = 0; i < MOST_SHARES; i++)
		if (rows[i].share && isfinite(rows[i].share->step_ns))
			draw_numbers(pane, at++, rows[i].name, rows[i].share);
	return at - y;
}

int lw_predict_refuse(struct lw_pane pane, const char *why)
{
	int y = 1;

	lw_pane_print(pane, 1, y++, LW_STYLE_STRONG, "Nothing can be predicted from this run");
	y += lw_pane_wrap(
		pane, 1, y, pane.width - 2, LW_STYLE_WARN, why && *why ? why : "why is not known");
	y += 1 +
	     lw_pane_wrap(pane, 1, y + 1, pane.width - 2, LW_STYLE_TEXT,
		     "Predictions replay the steps of Horovod or torch DDP jobs that `lapwing record` "
		     "saw: when each gradient was ready on every rank, and what each operation took. "
		     "Record such a job with all its ranks, for 100 steps or so; "
		     "`lapwing doctor` says what can be recorded on this machine.");
	return y;
}
