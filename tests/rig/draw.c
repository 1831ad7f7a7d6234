/* SPDX-License-Identifier: Apache-2.0 */
/*
 * draw.c - a chart as JSON on stdin, the same as SVG on stdout, drawn as lapwing draws its own.
 *
 * {"title": "..", "note": "..", "width": 760, "height": 440,
 *  "x": {"title": "..", "scale": "linear"|"log2"|"log10", "labels": ["a", "b"], "percent": false},
 *  "y": {the same},
 *  "series": [{"name": "..", "kind": "line"|"points"|"bar"|"stack", "x": [..], "y": [..], "low": [..], "high": [..]}]}
 * {"heat": [[1, null], [2, 3]], "marks": [["best", ""], ["recorded", "unsure"]], "title": "..", "value_title": "..",
 *  "unsure_title": "..", "note": "..", "x": {"title": "..", "labels": [..]}, "y": {the same}}
 *
 * Left out: "note", "scale" (linear), "percent", "width" and "height", "kind" (line), "x" of a series
 * (0, 1, ..: the labels), "low" and "high", "marks", "unsure_title". A null is a gap. Memory is left to
 * the end of the process.
 */
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yajl/yajl_tree.h>

#include "analyzer/emit/chart.h"
#include "analyzer/emit/svg.h"

static _Noreturn void die(const char *what, const char *name)
{
	fprintf(stderr, "draw: %s %s\n", what, name);
	exit(1);
}

/* All that is allocated, freed at the end: one figure a process. */
static struct room {
	struct room *next;
	max_align_t items[];
} * rooms;
static yajl_val root;

static void *room_for(size_t n, size_t item_bytes)
{
	struct room *room = calloc(1, sizeof(*room) + (n + 1) * item_bytes);

	if (!room)
		die("no memory", "");
	room->next = rooms;
	rooms = room;
	return room->items;
}

static void free_all(void)
{
	while (rooms) {
		struct room *next = rooms->next;

		free(rooms);
		rooms = next;
	}
	yajl_tree_free(root);
}

static yajl_val find(yajl_val parent, const char *name)
{
	const char *path[] = {name, NULL};

	return yajl_tree_get(parent, path, yajl_t_any);
}

static const char *text_of(yajl_val parent, const char *name, const char *otherwise)
{
	yajl_val value = find(parent, name);

	return YAJL_IS_STRING(value) ? YAJL_GET_STRING(value) : otherwise;
}

static double number(yajl_val value)
{
	return YAJL_IS_NUMBER(value) ? YAJL_GET_DOUBLE(value) : (double)NAN;
}

/* NULL when it is no list. */
static yajl_val *list_of(yajl_val value, size_t *ret_n)
{
	*ret_n = YAJL_IS_ARRAY(value) ? value->u.array.len : 0;
	return YAJL_IS_ARRAY(value) ? value->u.array.values : NULL;
}

/* NULL when @name is left out; @n points, else the program ends. */
static const double *numbers_of(yajl_val parent, const char *name, size_t n)
{
	size_t n_found;
	yajl_val *list = list_of(find(parent, name), &n_found);
	double *numbers;

	if (!list)
		return NULL;
	if (n_found != n)
		die("a series whose lists differ in length:", name);
	numbers = room_for(n, sizeof(*numbers));
	for (size_t i = 0; i < n; i++)
		numbers[i] = number(list[i]);
	return numbers;
}

static size_t choice_of(yajl_val parent, const char *name, const char *const *choices, size_t n)
{
	const char *text = text_of(parent, name, choices[0]);

	for (size_t i = 0; i < n; i++)
		if (!strcmp(text, choices[i]))
			return i;
	die(name, text);
}

static struct lw_axis axis_of(yajl_val chart, const char *name)
{
	static const char *const scales[] = {"linear", "log2", "log10"};
	yajl_val axis = find(chart, name), *labels;
	struct lw_axis made = {.title = ""};
	const char **texts;

	if (!axis)
		die("no axis", name);
	made.title = text_of(axis, "title", "");
	made.scale = (enum lw_axis_scale)choice_of(axis, "scale", scales, 3);
	made.is_frac = YAJL_IS_TRUE(find(axis, "percent"));
	labels = list_of(find(axis, "labels"), &made.n_labels);
	if (!labels)
		return made;
	texts = room_for(made.n_labels, sizeof(*texts));
	for (size_t i = 0; i < made.n_labels; i++) {
		texts[i] = YAJL_IS_STRING(labels[i]) ? YAJL_GET_STRING(labels[i]) : "?";
	}
	made.labels = texts;
	return made;
}

static void draw_chart(yajl_val figure)
{
	static const char *const kinds[] = {"line", "points", "bar", "stack"};
	struct lw_chart chart = {.title = text_of(figure, "title", ""),
		.note = text_of(figure, "note", NULL),
		.x = axis_of(figure, "x"),
		.y = axis_of(figure, "y")};
	yajl_val *list = list_of(find(figure, "series"), &chart.n_series);
	double width = number(find(figure, "width")), height = number(find(figure, "height"));
	struct lw_series *series;

	if (!list)
		die("no list", "series");
	width = isfinite(width) ? width : 760;
	height = isfinite(height) ? height : 440;
	series = room_for(chart.n_series, sizeof(*series));
	for (size_t k = 0; k < chart.n_series; k++) {
		yajl_val one = list[k];
		size_t n;

		if (!list_of(find(one, "y"), &n))
			die("no list", "y");
		series[k] = (struct lw_series){.name = text_of(one, "name", ""),
			.kind = (enum lw_series_kind)choice_of(one, "kind", kinds, 4),
			.n = n,
			.x = numbers_of(one, "x", n),
			.y = numbers_of(one, "y", n),
			.low = numbers_of(one, "low", n),
			.high = numbers_of(one, "high", n)};
	}
	chart.series = series;
	lw_svg_begin(stdout, width, height, chart.title);
	lw_chart_draw(stdout, &chart, 0, 0, width, height);
	lw_svg_end(stdout);
}

/* The @i-th cell of the @row-th list of @rows; the program ends when it is not there. */
static yajl_val cell_of(yajl_val rows, size_t row, size_t i, size_t n_rows, size_t n)
{
	size_t n_found;
	yajl_val *list = list_of(rows, &n_found);

	if (!list || n_found != n_rows)
		die("not a row for each label", "of y");
	list = list_of(list[row], &n_found);
	if (!list || n_found != n)
		die("not a cell for each label", "of x");
	return list[i];
}

static void draw_heat(yajl_val figure)
{
	struct lw_heat heat = {.title = text_of(figure, "title", ""),
		.note = text_of(figure, "note", NULL),
		.value_title = text_of(figure, "value_title", ""),
		.unsure_title = text_of(figure, "unsure_title", NULL),
		.x = axis_of(figure, "x"),
		.y = axis_of(figure, "y")};
	size_t n_rows = heat.y.n_labels, n_columns = heat.x.n_labels;
	double *values = room_for(n_rows * n_columns, sizeof(*values));
	unsigned char *marks = room_for(n_rows * n_columns, sizeof(*marks));

	for (size_t r = 0; r < n_rows; r++) {
		for (size_t c = 0; c < n_columns; c++) {
			size_t i = r * n_columns + c;
			yajl_val mark = find(figure, "marks");
			const char *text;

			values[i] = number(cell_of(find(figure, "heat"), r, c, n_rows, n_columns));
			if (!mark)
				continue;
			mark = cell_of(mark, r, c, n_rows, n_columns);
			text = YAJL_IS_STRING(mark) ? YAJL_GET_STRING(mark) : "";
			marks[i] = (strstr(text, "recorded") ? LW_HEAT_RECORDED : 0) |
				   (strstr(text, "best") ? LW_HEAT_BEST : 0) |
				   (strstr(text, "unsure") ? LW_HEAT_UNSURE : 0);
		}
	}
	heat.values = values;
	heat.marks = marks;
	lw_heat_draw(stdout, &heat);
}

int main(void)
{
	enum { MAX_BYTES = 1 << 22 };
	char *text, error[256];

	atexit(free_all);
	text = room_for(MAX_BYTES, 1);
	if (fread(text, 1, MAX_BYTES, stdin) == MAX_BYTES)
		die("more than 4 MiB of", "JSON");
	root = yajl_tree_parse(text, error, sizeof(error));
	if (!root)
		die("not JSON:", error);
	if (find(root, "heat"))
		draw_heat(root);
	else
		draw_chart(root);
	return fflush(stdout) || ferror(stdout) ? 1 : 0;
}
