/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chart.h - figures: curves with bands, bars, points and heat maps, in SVG.
 *
 * Reads and writes nothing else. Readable in black and white and by colour-blind people: series
 * differ by dash, mark and hatch, and the scale of a heat map grows darker all the way.
 * Not for: figures in a terminal (answer_term.c).
 */
#ifndef LAPWING_ANALYZER_EMIT_CHART_H
#define LAPWING_ANALYZER_EMIT_CHART_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum lw_series_kind {
	LW_SERIES_LINE,   /* low and high: a band */
	LW_SERIES_POINTS, /* low and high: whiskers, as for bars */
	LW_SERIES_BAR,    /* beside the other bars of its x */
	LW_SERIES_STACK,  /* on top of the stacks before it */
};

struct lw_series {
	const char *name;
	enum lw_series_kind kind;
	size_t n;
	const double *x;          /* NULL: 0, 1, 2, ... */
	const double *y;          /* NAN: a gap */
	const double *low, *high; /* both NULL: not known; NAN likewise, point by point */
};

enum lw_axis_scale { LW_AXIS_LINEAR, LW_AXIS_LOG2, LW_AXIS_LOG10 }; /* log: values > 0 only */

struct lw_axis {
	const char *title;
	enum lw_axis_scale scale;  /* linear y holds 0 */
	bool is_frac;              /* ticks in percent */
	const char *const *labels; /* NULL: numbers; else at 0, 1, 2, ... */
	size_t n_labels;
};

struct lw_chart {
	const char *title;
	const char *note; /* a line below, or NULL */
	struct lw_axis x, y;
	const struct lw_series *series;
	size_t n_series;
};

/** lw_chart_draw() - into a box of a figure that lw_svg_begin() opened. */
void lw_chart_draw(
	FILE *out, const struct lw_chart *chart, double x, double y, double width, double height);

enum { LW_HEAT_RECORDED = 1, LW_HEAT_BEST = 2, LW_HEAT_UNSURE = 4 }; /* marks of a cell */

struct lw_heat {
	const char *title, *note;   /* note: a line below, or NULL */
	const char *value_title;    /* what the numbers are, with unit */
	const char *unsure_title;   /* what hatched cells are, NULL when there are none */
	struct lw_axis x, y;        /* with labels */
	const double *values;       /* [y.n_labels][x.n_labels], > 0; NAN = not known */
	const unsigned char *marks; /* likewise */
};

/** lw_heat_draw() - its own figure, begin to end, as large as its cells need. */
void lw_heat_draw(FILE *out, const struct lw_heat *heat);

#endif /* LAPWING_ANALYZER_EMIT_CHART_H */
