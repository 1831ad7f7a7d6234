/* SPDX-License-Identifier: Apache-2.0 */
#include "tui/cost_plot.h"

#include <math.h>
#include <stdio.h>

#include "base/units.h"

static const double NEAR_FRAC = 0.005;     /* of a size: three digits do not tell it from another */
static const double MOST_OFF_FRAC = 99.99; /* then how much is no figure any more */
enum { LABEL_WIDTH = 8, LEAST_WIDTH = 20, LEAST_HEIGHT = 4, MOST_HEIGHT = 24 };

struct range { /* of logarithms */
	double low, high;
};

static void widen(struct range *range, double value)
{
	if (!(value > 0) || !isfinite(value))
		return;
	range->low = fmin(range->low, log10(value));
	range->high = fmax(range->high, log10(value));
}

/* One value alone gets some room around it. */
static void settle(struct range *range)
{
	if (range->high - range->low < 0.1) {
		range->low -= 0.1;
		range->high += 0.1;
	}
}

/* Column or line of @value among @n of them; -1: not in the range. */
static int place(const struct range *range, double value, int n)
{
	double frac = (log10(value) - range->low) / (range->high - range->low);

	if (!(value > 0) || !(frac > -0.001) || !(frac < 1.001))
		return -1;
	return (int)lround(fmin(fmax(frac, 0), 1) * (n - 1));
}

static void draw_labels(
	struct lw_pane pane, const struct range *sizes, const struct range *times, int height)
{
	char text[LW_UNIT_TEXT_BYTES];

	lw_pane_right(pane, LABEL_WIDTH, 0, LABEL_WIDTH, LW_STYLE_DIM,
		lw_ns_format(pow(10, times->high), text));
	lw_pane_right(pane, LABEL_WIDTH, height - 1, LABEL_WIDTH, LW_STYLE_DIM,
		lw_ns_format(pow(10, times->low), text));
	for (int y = 0; y < height; y++)
		lw_pane_rune(
			pane, LABEL_WIDTH, y, LW_STYLE_DIM, lw_glyph(pane.cells, LW_GLYPH_BAR));
	lw_pane_rune(
		pane, LABEL_WIDTH, height, LW_STYLE_DIM, lw_glyph(pane.cells, LW_GLYPH_CORNER));
	lw_pane_fill(pane, LABEL_WIDTH + 1, height, pane.width - LABEL_WIDTH - 1, LW_STYLE_DIM,
		lw_glyph(pane.cells, LW_GLYPH_LINE));
	lw_pane_print(pane, LABEL_WIDTH + 1, height + 1, LW_STYLE_DIM, "%s",
		lw_bytes_format(pow(10, sizes->low), text));
	lw_pane_right(pane, pane.width, height + 1, 10, LW_STYLE_DIM,
		lw_bytes_format(pow(10, sizes->high), text));
	if (pane.width >= 44)
		lw_pane_print(pane, LABEL_WIDTH + 9, height + 1, LW_STYLE_DIM,
			"o measured  . fitted  @ both");
}

void lw_cost_plot(struct lw_pane pane, const struct lw_fit_cost *fitted)
{
	int width = pane.width - LABEL_WIDTH - 1, height = pane.height - 2;
	struct range sizes = {INFINITY, -INFINITY}, times = {INFINITY, -INFINITY};
	const struct lw_cost *cost = &fitted->cost;

	if (height > MOST_HEIGHT)
		height = MOST_HEIGHT;
	if (width < LEAST_WIDTH || height < LEAST_HEIGHT || fitted->n_sizes == 0)
		return;
	for (size_t i = 0; i < fitted->n_sizes; i++) {
		widen(&sizes, fitted->sizes[i].bytes);
		widen(&times, fitted->sizes[i].mean_ns);
		widen(&times, lw_cost_ns(cost, fitted->sizes[i].bytes, NULL));
	}
	if (!isfinite(sizes.low) || !isfinite(times.low))
		return;
	settle(&sizes);
	settle(&times);
	draw_labels(pane, &sizes, &times, height);
	for (int x = 0; x < width; x++) {
		double bytes =
			pow(10, sizes.low + (sizes.high - sizes.low) * x / (double)(width - 1));
		int y = place(&times, lw_cost_ns(cost, bytes, NULL), height);

		if (y >= 0)
			lw_pane_rune(
				pane, LABEL_WIDTH + 1 + x, height - 1 - y, LW_STYLE_ALLREDUCE, '.');
	}
	for (size_t i = 0; i < fitted->n_sizes; i++) {
		int x = place(&sizes, fitted->sizes[i].bytes, width);
		int y = place(&times, fitted->sizes[i].mean_ns, height);
		int fit = place(&times, lw_cost_ns(cost, fitted->sizes[i].bytes, NULL), height);

		if (x >= 0 && y >= 0)
			lw_pane_rune(pane, LABEL_WIDTH + 1 + x, height - 1 - y, LW_STYLE_STRONG,
				y == fit ? '@' : 'o');
	}
}

/* Sizes that are nearly as large as one beside them are told to the byte. */
static const char *size_text(
	const struct lw_fit_cost *fitted, size_t i, char text[LW_UNIT_TEXT_BYTES])
{
	double bytes = fitted->sizes[i].bytes;

	if ((i > 0 && bytes - fitted->sizes[i - 1].bytes < NEAR_FRAC * bytes) ||
		(i + 1 < fitted->n_sizes &&
			fitted->sizes[i + 1].bytes - bytes < NEAR_FRAC * bytes)) {
		snprintf(text, LW_UNIT_TEXT_BYTES, "%.0f B", bytes);
		return text;
	}
	return lw_bytes_format(bytes, text);
}

const char *lw_off_format(double frac, bool is_signed, char text[LW_UNIT_TEXT_BYTES])
{
	if (fabs(frac) >= MOST_OFF_FRAC)
		snprintf(text, LW_UNIT_TEXT_BYTES, "> %.0fx", MOST_OFF_FRAC);
	else
		snprintf(text, LW_UNIT_TEXT_BYTES, is_signed ? "%+.*f%%" : "%.*f %%",
			fabs(frac) < 9.995 ? 1 : 0, 100 * frac);
	return text;
}

size_t lw_cost_sizes(struct lw_pane pane, const struct lw_fit_cost *fitted, size_t top)
{
	size_t room = pane.height > 1 ? (size_t)pane.height - 1 : 0;

	lw_pane_print(pane, 0, 0, LW_STYLE_DIM, "%11s %6s %8s %8s %7s", "size", "n", "measured",
		"fitted", "off");
	for (size_t i = 0; i < room && top + i < fitted->n_sizes; i++) {
		const struct lw_size *size = &fitted->sizes[top + i];
		double fit_ns = lw_cost_ns(&fitted->cost, size->bytes, NULL);
		double off_frac = fit_ns / size->mean_ns - 1;
		char bytes[LW_UNIT_TEXT_BYTES], mean[LW_UNIT_TEXT_BYTES], fit[LW_UNIT_TEXT_BYTES],
			off[LW_UNIT_TEXT_BYTES];
		int x, y = 1 + (int)i;

		x = lw_pane_print(pane, 0, y, LW_STYLE_TEXT, "%11s %6.0f %8s %8s",
			size_text(fitted, top + i, bytes), size->n,
			lw_ns_format(size->mean_ns, mean), lw_ns_format(fit_ns, fit));
		if (isfinite(off_frac))
			lw_pane_print(pane, x, y,
				fabs(off_frac) > 0.2 ? LW_STYLE_WARN : LW_STYLE_TEXT, " %7s",
				lw_off_format(off_frac, true, off));
	}
	return room;
}
