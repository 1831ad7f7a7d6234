/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/emit/svg.h"

#include <stdarg.h>
#include <stdint.h>
#include <string.h>

/* Bytes of the UTF-8 sequence at @text, 0 when it is none. Overlong forms are caught by their lead
 * bytes but for three; those and surrogates only matter to a validator, and are refused too. */
static size_t sequence_bytes(const unsigned char *text)
{
	size_t n = *text < 0x80 ? 1 : *text >= 0xc2 && *text < 0xe0 ? 2 : *text < 0xf0 ? 3 : 4;

	if (*text >= 0xf5 || (*text >= 0x80 && *text < 0xc2))
		return 0;
	for (size_t i = 1; i < n; i++)
		if ((text[i] & 0xc0) != 0x80)
			return 0;
	if ((*text == 0xe0 && text[1] < 0xa0) || (*text == 0xed && text[1] > 0x9f) ||
		(*text == 0xf0 && text[1] < 0x90) || (*text == 0xf4 && text[1] > 0x8f))
		return 0;
	return n;
}

static void put_escaped(FILE *out, const char *text)
{
	const unsigned char *at = (const unsigned char *)text;

	while (*at) {
		size_t n = sequence_bytes(at);

		if (*at == '&')
			fputs("&amp;", out);
		else if (*at == '<')
			fputs("&lt;", out);
		else if (*at == '>')
			fputs("&gt;", out);
		else if (n == 0 || *at < 0x20 || *at == 0x7f)
			fputc('?', out);
		else
			fwrite(at, 1, n, out);
		at += n ? n : 1;
	}
}

void lw_svg_begin(FILE *out, double width_px, double height_px, const char *title)
{
	fprintf(out,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" width=\"%g\" height=\"%g\""
		" viewBox=\"0 0 %g %g\" font-family=\"DejaVu Sans, Verdana, Arial, sans-serif\">\n<title>",
		width_px, height_px, width_px, height_px);
	put_escaped(out, title);
	fputs("</title>\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n", out);
}

void lw_svg_end(FILE *out)
{
	fputs("</svg>\n", out);
}

/* Attributes of @style and the end of the element. */
static void put_style(FILE *out, const struct lw_svg_style *style)
{
	fprintf(out, " fill=\"%s\"", style->fill ? style->fill : "none");
	if (style->opacity > 0)
		fprintf(out, " fill-opacity=\"%g\"", style->opacity);
	if (style->stroke)
		fprintf(out, " stroke=\"%s\" stroke-width=\"%g\"", style->stroke, style->width_px);
	if (style->dash)
		fprintf(out, " stroke-dasharray=\"%s\"", style->dash);
	fputs("/>\n", out);
}

void lw_svg_rect(FILE *out, double x, double y, double width, double height,
	const struct lw_svg_style *style)
{
	fprintf(out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"", x, y, width,
		height);
	put_style(out, style);
}

void lw_svg_line(
	FILE *out, double x1, double y1, double x2, double y2, const struct lw_svg_style *style)
{
	fprintf(out, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"", x1, y1, x2, y2);
	put_style(out, style);
}

void lw_svg_path(FILE *out, const double *x, const double *y, size_t n, bool is_closed,
	const struct lw_svg_style *style)
{
	fputs(is_closed ? "<polygon points=\"" : "<polyline points=\"", out);
	for (size_t i = 0; i < n; i++)
		fprintf(out, "%s%.1f,%.1f", i ? " " : "", x[i], y[i]);
	fputc('"', out);
	put_style(out, style);
}

/* Corners about the middle, in half widths. */
static const struct {
	size_t n;
	double x[8], y[8];
} shapes[] = {
	{8, {-0.4, 0.4, 1, 1, 0.4, -0.4, -1, -1}, {-1, -1, -0.4, 0.4, 1, 1, 0.4, -0.4}}, /* round */
	{4, {-0.9, 0.9, 0.9, -0.9}, {-0.9, -0.9, 0.9, 0.9}},
	{3, {0, 1.1, -1.1}, {-1.1, 0.9, 0.9}},
	{4, {0, 1.3, 0, -1.3}, {-1.3, 0, 1.3, 0}},
	{3, {0, 1.1, -1.1}, {1.1, -0.9, -0.9}},
	{8, {-0.3, 0.3, 0.3, 0.3, 0.3, -0.3, -0.3, -0.3}, {-1.3, -1.3, 0, 0, 1.3, 1.3, 0, 0}},
	{4, {-1.3, 1.3, 1.3, -1.3}, {-0.35, -0.35, 0.35, 0.35}},
};
const size_t lw_svg_n_shapes = sizeof(shapes) / sizeof(shapes[0]);

void lw_svg_mark(FILE *out, size_t shape, double x, double y, const char *colour)
{
	const struct lw_svg_style style = {.fill = colour};
	size_t s = shape % lw_svg_n_shapes;
	double xs[8], ys[8];

	for (size_t i = 0; i < shapes[s].n; i++) {
		xs[i] = x + 3.5 * shapes[s].x[i];
		ys[i] = y + 3.5 * shapes[s].y[i];
	}
	lw_svg_path(out, xs, ys, shapes[s].n, true, &style);
}

void lw_svg_hatch(FILE *out, size_t id, const char *colour, const char *ground)
{
	static const char *const lines[] = {"M0 0h8v8h-8z", "M-2 2l4 -4M0 8l8 -8M6 10l4 -4",
		"M0 2h8M0 6h8", "M2 0v8M6 0v8", "M-2 6l4 4M0 0l8 8M6 -2l4 4", "M0 4h8M4 0v8",
		"M1 1h2v2h-2zM5 5h2v2h-2z"};

	fprintf(out,
		"<pattern id=\"hatch%zu\" width=\"8\" height=\"8\" patternUnits=\"userSpaceOnUse\">"
		"<rect width=\"8\" height=\"8\" fill=\"%s\"/><path d=\"%s\" fill=\"%s\" stroke=\"%s\"/></pattern>\n",
		id, ground, lines[id % 7], id % 7 == 0 || id % 7 == 6 ? colour : "none", colour);
}

void lw_svg_text(
	FILE *out, double x, double y, const struct lw_svg_font *font, const char *format, ...)
{
	static const char *const anchors[] = {"start", "middle", "end"};
	char text[1024];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" font-size=\"%g\"", x, y, font->size_px);
	if (font->anchor != LW_SVG_LEFT)
		fprintf(out, " text-anchor=\"%s\"", anchors[font->anchor]);
	if (font->is_bold)
		fputs(" font-weight=\"bold\"", out);
	if (font->fill)
		fprintf(out, " fill=\"%s\"", font->fill);
	if (font->is_upright)
		fprintf(out, " transform=\"rotate(-90 %.1f %.1f)\"", x, y);
	fputc('>', out);
	put_escaped(out, text);
	fputs("</text>\n", out);
}

double lw_svg_text_px(const char *text, double size_px)
{
	size_t n = 0;

	for (; *text; text++)
		n += ((unsigned char)*text & 0xc0) != 0x80;
	return 0.62 * size_px * (double)n; /* mean advance of DejaVu Sans, the widest of the list */
}
