/* SPDX-License-Identifier: Apache-2.0 */
#include "tui/sliders.h"

#include <math.h>
#include <stdio.h>

#include "base/units.h"

enum { MAX_RANKS = 64, MAX_RANKS_OF_RECORDED = 4 };

struct lw_slider_kind {
	const char *name;
	double (*recorded)(const struct lw_replay *replay);
	bool (*applies)(const struct lw_replay *replay);
	double (*most)(const struct lw_replay *replay); /* NULL: all values */
	void (*ask)(struct lw_whatif *whatif, double value);
	void (*text)(double value, char text[LW_SLIDER_TEXT_BYTES]);
	const double *values; /* ascending, 0-terminated after the first */
};

#define KIB 1024.0
#define MIB 1048576.0
#define MS  1e6

static const double fusion_values[] = {0, 64 * KIB, 128 * KIB, 256 * KIB, 512 * KIB, MIB, 2 * MIB,
	4 * MIB, 8 * MIB, 16 * MIB, 32 * MIB, 64 * MIB, 128 * MIB, 256 * MIB, 512 * MIB, 0};
static const double cycle_values[] = {0.1 * MS, 0.25 * MS, 0.5 * MS, 0.75 * MS, MS, 1.25 * MS,
	1.5 * MS, 2 * MS, 2.5 * MS, 3 * MS, 4 * MS, 5 * MS, 6 * MS, 8 * MS, 10 * MS, 15 * MS,
	20 * MS, 30 * MS, 50 * MS, 75 * MS, 100 * MS, 0};
static const double bucket_values[] = {64 * KIB, 128 * KIB, 256 * KIB, 512 * KIB, MIB, 2 * MIB,
	4 * MIB, 8 * MIB, 16 * MIB, 25 * MIB, 32 * MIB, 50 * MIB, 64 * MIB, 100 * MIB, 128 * MIB,
	256 * MIB, 0};
static const double rank_values[] = {
	1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 0};
static const double frac_values[] = {0.1, 0.125, 0.167, 0.2, 0.25, 0.333, 0.4, 0.5, 0.667, 0.8, 0.9,
	1, 1.1, 1.25, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10, 16, 25, 40, 100, 0};
static const double switch_values[] = {0, 1, 0};

static bool always(const struct lw_replay *replay)
{
	(void)replay;
	return true;
}

static bool is_horovod(const struct lw_replay *replay)
{
	return !replay->is_ddp;
}

static bool has_buckets(const struct lw_replay *replay)
{
	return replay->is_ddp && !replay->ddp.why_fixed;
}

static bool has_network(const struct lw_replay *replay)
{
	return replay->input.n_ranks > 1;
}

static double recorded_fusion(const struct lw_replay *replay)
{
	return (double)replay->setting.fusion_bytes;
}

static double recorded_cycle(const struct lw_replay *replay)
{
	return (double)replay->setting.cycle_ns;
}

static double recorded_cap(const struct lw_replay *replay)
{
	return (double)replay->ddp.setting.cap_bytes;
}

static double recorded_first(const struct lw_replay *replay)
{
	return (double)replay->ddp.setting.first_bytes;
}

static double recorded_ranks(const struct lw_replay *replay)
{
	return replay->input.n_ranks;
}

static double recorded_frac(const struct lw_replay *replay)
{
	(void)replay;
	return 1;
}

static double recorded_off(const struct lw_replay *replay)
{
	(void)replay;
	return 0;
}

/* Every rank is simulated: an answer has to come at once. */
static double most_ranks(const struct lw_replay *replay)
{
	return fmax(MAX_RANKS, MAX_RANKS_OF_RECORDED * (double)replay->input.n_ranks);
}

static void ask_fusion(struct lw_whatif *whatif, double value)
{
	whatif->fusion_bytes = value;
}

static void ask_cycle(struct lw_whatif *whatif, double value)
{
	whatif->cycle_ns = value;
}

static void ask_cap(struct lw_whatif *whatif, double value)
{
	whatif->bucket_cap_bytes = value;
}

static void ask_first(struct lw_whatif *whatif, double value)
{
	whatif->first_bucket_bytes = value;
}

static void ask_ranks(struct lw_whatif *whatif, double value)
{
	whatif->n_ranks = (uint32_t)value;
}

static void ask_bandwidth(struct lw_whatif *whatif, double value)
{
	whatif->bandwidth_frac = value;
}

static void ask_latency(struct lw_whatif *whatif, double value)
{
	whatif->latency_frac = value;
}

static void ask_compute(struct lw_whatif *whatif, double value)
{
	whatif->compute_frac = value;
}

static void ask_balanced(struct lw_whatif *whatif, double value)
{
	whatif->is_balanced = value > 0;
}

static void bytes_text(double value, char text[LW_SLIDER_TEXT_BYTES])
{
	char bytes[LW_UNIT_TEXT_BYTES];

	snprintf(text, LW_SLIDER_TEXT_BYTES, "%s",
		value > 0 ? lw_bytes_format(value, bytes) : "0: no fusion");
}

static void ms_text(double value, char text[LW_SLIDER_TEXT_BYTES])
{
	snprintf(text, LW_SLIDER_TEXT_BYTES, "%g ms", value / MS);
}

static void ranks_text(double value, char text[LW_SLIDER_TEXT_BYTES])
{
	snprintf(text, LW_SLIDER_TEXT_BYTES, "%.0f", value);
}

static void frac_text(double value, char text[LW_SLIDER_TEXT_BYTES])
{
	snprintf(text, LW_SLIDER_TEXT_BYTES, "x %g", value);
}

static void switch_text(double value, char text[LW_SLIDER_TEXT_BYTES])
{
	snprintf(text, LW_SLIDER_TEXT_BYTES, "%s", value > 0 ? "none" : "as they are");
}

static const struct lw_slider_kind kinds[] = {
	{"fusion threshold", recorded_fusion, is_horovod, NULL, ask_fusion, bytes_text,
		fusion_values},
	{"cycle time", recorded_cycle, is_horovod, NULL, ask_cycle, ms_text, cycle_values},
	{"bucket limit", recorded_cap, has_buckets, NULL, ask_cap, bytes_text, bucket_values},
	{"first bucket", recorded_first, has_buckets, NULL, ask_first, bytes_text, bucket_values},
	{"ranks", recorded_ranks, has_network, most_ranks, ask_ranks, ranks_text, rank_values},
	{"bandwidth", recorded_frac, has_network, NULL, ask_bandwidth, frac_text, frac_values},
	{"latency", recorded_frac, has_network, NULL, ask_latency, frac_text, frac_values},
	{"time to compute", recorded_frac, always, NULL, ask_compute, frac_text, frac_values},
	{"late ranks", recorded_off, has_network, NULL, ask_balanced, switch_text, switch_values},
};

static void add_value(struct lw_slider *slider, double value)
{
	if (slider->n < LW_SLIDER_VALUES)
		slider->values[slider->n++] = value;
}

static void fill(const struct lw_replay *replay, struct lw_slider *slider)
{
	double recorded = slider->kind->recorded(replay);
	double most = slider->kind->most ? slider->kind->most(replay) : (double)INFINITY;
	bool has_recorded = false;

	for (size_t i = 0; i == 0 || slider->kind->values[i] > 0; i++) {
		double value = slider->kind->values[i];

		if (!has_recorded && value >= recorded) {
			slider->recorded = slider->n;
			add_value(slider, recorded);
			has_recorded = true;
		}
		if (value != recorded && value <= most)
			add_value(slider, value);
	}
	if (!has_recorded) {
		slider->recorded = slider->n;
		add_value(slider, recorded);
	}
	slider->at = slider->recorded;
}

void lw_sliders_make(const struct lw_replay *replay, struct lw_sliders *ret_sliders)
{
	*ret_sliders = (struct lw_sliders){0};
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		struct lw_slider *slider = &ret_sliders->of[ret_sliders->n];

		if (ret_sliders->n == LW_SLIDERS_MAX || !kinds[i].applies(replay))
			continue;
		slider->kind = &kinds[i];
		slider->is_assumed = kinds[i].applies == is_horovod && !replay->is_setting_known;
		fill(replay, slider);
		ret_sliders->n++;
	}
}

void lw_sliders_keep(struct lw_sliders *sliders, const struct lw_sliders *before)
{
	for (size_t i = 0; i < sliders->n; i++)
		for (size_t k = 0; k < before->n; k++) {
			struct lw_slider *slider = &sliders->of[i];
			const struct lw_slider *old = &before->of[k];

			if (old->kind != slider->kind || old->at == old->recorded)
				continue;
			for (size_t v = 0; v < slider->n; v++)
				if (slider->values[v] == old->values[old->at])
					slider->at = v;
		}
}

bool lw_slider_turn(struct lw_slider *slider, int by)
{
	long at = (long)slider->at + by;

	if (at < 0)
		at = 0;
	if (at >= (long)slider->n)
		at = (long)slider->n - 1;
	if (at < 0 || (size_t)at == slider->at)
		return false;
	slider->at = (size_t)at;
	return true;
}

void lw_sliders_reset(struct lw_sliders *sliders)
{
	for (size_t i = 0; i < sliders->n; i++)
		sliders->of[i].at = sliders->of[i].recorded;
}

struct lw_whatif lw_sliders_whatif(const struct lw_sliders *sliders)
{
	struct lw_whatif whatif = LW_WHATIF_RECORDED;

	for (size_t i = 0; i < sliders->n; i++) {
		const struct lw_slider *slider = &sliders->of[i];

		if (slider->at != slider->recorded)
			slider->kind->ask(&whatif, slider->values[slider->at]);
	}
	return whatif;
}

const char *lw_slider_name(const struct lw_slider *slider)
{
	return slider->kind->name;
}

const char *lw_slider_text(const struct lw_slider *slider, char text[LW_SLIDER_TEXT_BYTES])
{
	slider->kind->text(slider->values[slider->at], text);
	return text;
}
