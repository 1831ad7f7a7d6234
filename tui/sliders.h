/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sliders.h - the what-ifs that can be turned, each a row of values with the recorded one among them.
 *
 * Pure: no pane, no prediction. What all of them say together is one struct lw_whatif.
 */
#ifndef LAPWING_TUI_SLIDERS_H
#define LAPWING_TUI_SLIDERS_H

#include <stdbool.h>
#include <stddef.h>

#include "analyzer/simulate/replay.h"

enum { LW_SLIDERS_MAX = 8, LW_SLIDER_VALUES = 40, LW_SLIDER_TEXT_BYTES = 48 };

struct lw_slider_kind;

struct lw_slider {
	const struct lw_slider_kind *kind;
	double values[LW_SLIDER_VALUES]; /* ascending */
	size_t n, recorded, at;
	bool is_assumed; /* the run does not say what was set: that is Horovod's default */
};

struct lw_sliders {
	struct lw_slider of[LW_SLIDERS_MAX];
	size_t n;
};

/** lw_sliders_make() - those that make sense for this job, all as recorded. */
void lw_sliders_make(const struct lw_replay *replay, struct lw_sliders *ret_sliders);

/** lw_sliders_keep() - the same positions, by value, of @before where @sliders has them. */
void lw_sliders_keep(struct lw_sliders *sliders, const struct lw_sliders *before);

/** lw_slider_turn() - by @by values, never beyond the last. Return: it moved. */
bool lw_slider_turn(struct lw_slider *slider, int by);

/** lw_sliders_reset() - all as recorded. */
void lw_sliders_reset(struct lw_sliders *sliders);

/** lw_sliders_whatif() - what they say; of those as recorded nothing is asked. */
struct lw_whatif lw_sliders_whatif(const struct lw_sliders *sliders);

/** lw_slider_name() - "fusion threshold". */
const char *lw_slider_name(const struct lw_slider *slider);

/** lw_slider_text() - its value: "64 MiB". Return: @text. */
const char *lw_slider_text(const struct lw_slider *slider, char text[LW_SLIDER_TEXT_BYTES]);

#endif /* LAPWING_TUI_SLIDERS_H */
