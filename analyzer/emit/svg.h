/* SPDX-License-Identifier: Apache-2.0 */
/*
 * svg.h - the few SVG elements that figures are made of, written straight to a file.
 *
 * Reads and writes nothing else. Coordinates are pixels from the top left, y grows downwards.
 * Not for: axes, legends, colours of series; chart.h has those. Write errors stay in the FILE: the
 * caller asks ferror() once, after lw_svg_end(). The same calls give the same bytes.
 */
#ifndef LAPWING_ANALYZER_EMIT_SVG_H
#define LAPWING_ANALYZER_EMIT_SVG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum lw_svg_anchor { LW_SVG_LEFT, LW_SVG_MIDDLE, LW_SVG_RIGHT };

struct lw_svg_style {
	const char *fill;   /* colour, url(#id), NULL = none */
	const char *stroke; /* colour, NULL = none */
	double width_px;    /* of the stroke */
	const char *dash;   /* "4 2", NULL = solid */
	double opacity;     /* of the fill, 0 = 1 */
};

struct lw_svg_font {
	double size_px;
	enum lw_svg_anchor anchor;
	const char *fill;         /* NULL = black */
	bool is_bold, is_upright; /* upright: turned by 90 degrees, read from below */
};

/** lw_svg_begin() - head, white ground; @title is what screen readers say of the figure. */
void lw_svg_begin(FILE *out, double width_px, double height_px, const char *title);
void lw_svg_end(FILE *out);

void lw_svg_rect(FILE *out, double x, double y, double width, double height,
	const struct lw_svg_style *style);
void lw_svg_line(
	FILE *out, double x1, double y1, double x2, double y2, const struct lw_svg_style *style);

/** lw_svg_path() - through @n points; closed: a polygon. */
void lw_svg_path(FILE *out, const double *x, const double *y, size_t n, bool is_closed,
	const struct lw_svg_style *style);

/** lw_svg_mark() - the @shape-th of lw_svg_n_shapes shapes about a point, 7 px wide. */
extern const size_t lw_svg_n_shapes;
void lw_svg_mark(FILE *out, size_t shape, double x, double y, const char *colour);

/**
 * lw_svg_hatch() - a pattern to fill with, as url(#hatch<id>): the @id-th of seven, on @ground.
 * The first is plain, so that one series alone is not hatched.
 */
void lw_svg_hatch(FILE *out, size_t id, const char *colour, const char *ground);

/** lw_svg_text() - @y is the base line. Escaped; control characters and broken UTF-8 become '?'. */
void lw_svg_text(FILE *out, double x, double y, const struct lw_svg_font *font, const char *format,
	...) __attribute__((format(printf, 5, 6)));

/** lw_svg_text_px() - about how wide @text is: there is no font here to measure it with. */
double lw_svg_text_px(const char *text, double size_px);

#endif /* LAPWING_ANALYZER_EMIT_SVG_H */
