/* SPDX-License-Identifier: Apache-2.0 */
/*
 * timeline.h - inside the timeline view: its state, and what its files are to each other.
 *
 *	view_timeline.c     what keys do            timeline_select.c   which collective is meant
 *	timeline_layout.c   where things are        timeline_details.c  what is said of it
 *	timeline_draw.c     rows and their lanes    timeline_keys.c     where keys and clicks go
 *	timeline_ruler.c    times and steps         timeline_lanes.h    when each kind of work went on
 *	timeline_csv.c      what `e` writes         timeline_nic.c      what crossed the network
 *	timeline_range.c    the program's ranges    timeline_range_select.c, timeline_range_details.c   which one, and of it
 *	timeline_ranges.c   in which ranges a rank was      timeline_order.c   who was first and last
 *	timeline_gpu.c      what GPUs did           timeline_gpu_select.c, timeline_gpu_details.c   which kernel, and of it
 *
 * Times here are relative to the ruler's 0, the origin_ns of a rank's lanes, so one number means one column on
 * all rows.
 */
#ifndef LAPWING_TUI_TIMELINE_H
#define LAPWING_TUI_TIMELINE_H

#include "base/units.h"
#include "tui/timeline_lanes.h"
#include "tui/view.h"

enum lw_timeline_density { /* lanes of one rank */
	LW_TIMELINE_FITTING,
	LW_TIMELINE_ALL,
	LW_TIMELINE_TWO,
	LW_TIMELINE_ONE,
	LW_TIMELINE_DENSITIES
};

enum lw_timeline_gpu { /* what the lanes of GPUs are of */
	LW_TIMELINE_GPU_KINDS,
	LW_TIMELINE_GPU_STREAMS,
	LW_TIMELINE_GPU_HIDDEN,
	LW_TIMELINE_GPU_MODES
};

enum lw_timeline_ranges_shown {
	LW_TIMELINE_RANGES_FITTING, /* where the other lanes leave room */
	LW_TIMELINE_RANGES_SHOWN,
	LW_TIMELINE_RANGES_HIDDEN
};

/* A kernel or copy of the selected rank. */
struct lw_timeline_item {
	bool is_there, is_copy;
	size_t index; /* into its kernels or copies */
};

/* A range of the selected rank. */
struct lw_timeline_bar {
	bool is_there;
	size_t index; /* into the level */
};

enum { LW_TIMELINE_TEXT_BYTES = 384, LW_TIMELINE_HEAD_LINES = 6 }; /* one more with NIC lanes */

enum { LW_TIMELINE_FIT_ALL = -2, LW_TIMELINE_FIT_NOTHING = -1, LW_TIMELINE_MAX_COLUMNS = 4096 };

struct lw_timeline {
	struct lw_lanes lanes;
	struct lw_focus seen;                               /* the focus as this view left it */
	bool was_open, is_by_tensor, is_following, is_full; /* full: details are all of the pane */
	bool is_nic_hidden;
	enum lw_timeline_density density;
	size_t rank, row;           /* selected: index into the ranks; into the tensors' order */
	size_t top;                 /* first row on the screen */
	int64_t from_ns, column_ns; /* the screen's left edge, relative; a column */
	int64_t cursor_ns;          /* in the cursor's column */
	int32_t group;              /* selected, LW_NONE */
	enum lw_timeline_gpu gpu;
	bool is_on_gpu;               /* what is selected is a kernel or copy, no collective */
	size_t gpu_line;              /* of a rank's GPU lanes, where it is on one */
	struct lw_timeline_item item; /* selected */
	enum lw_timeline_ranges_shown ranges_shown;
	bool is_on_range;           /* what is selected is one of the program's ranges */
	size_t range_level;         /* of the selected rank's, where it is on ranges */
	struct lw_timeline_bar bar; /* selected, of that level */
	size_t n_in_column;         /* operations under the cursor: at least so many, */
	bool is_more_in_column;     /* and more */
	int32_t to_fit;             /* step that the next drawing zooms to, or LW_TIMELINE_FIT_.. */
	size_t details_top;
	struct lw_timeline_ranges *ranges; /* of the last selections; timeline_ranges.c */
	int n_columns;                     /* of the screen as it was drawn last */
	int gpu_lines;                     /* GPU lanes of a rank on it */
	int range_lines;                   /* of ranges, likewise */
	size_t n_shown;                    /* rows on it */
};

struct lw_timeline_layout {
	int label_width, n_columns;   /* of a row */
	int first_line, n_lines;      /* of rows */
	int header_lines;             /* status, ruler, steps */
	int lanes_per_row, row_lines; /* with the blank between ranks */
	int nic_lines;                /* of lanes_per_row, the last */
	int range_lines;              /* of lanes_per_row, the first */
	int gpu_lines;                /* of lanes_per_row, behind these */
	int shared_lines;             /* below the rows, of each NIC that several ranks share, */
	bool is_shared_selected;      /* or only of the selected rank's */
	enum lw_timeline_density density;
	int legend_line;        /* -1: none */
	struct lw_pane details; /* height 0: none */
	size_t n_rows, n_shown; /* ranks or tensors; whole rows that fit */
};

/* ---- timeline_layout.c ---- */

enum {
	LW_TIMELINE_SIDE_WIDTH = 44, /* of details beside the rows */
	LW_TIMELINE_NAME_WIDTH = 10  /* of a lane */
};

/** lw_timeline_lay_out() - where things are in @pane. */
struct lw_timeline_layout lw_timeline_lay_out(
	const struct lw_timeline *timeline, struct lw_pane pane);

/* ---- timeline_draw.c ---- */

void lw_timeline_draw(struct lw_timeline *timeline, struct lw_pane pane);

/** lw_timeline_mark() - what is selected on @line: brackets, so that it is seen without colours too. @span: relative. */
void lw_timeline_mark(
	const struct lw_timeline *timeline, struct lw_pane line, struct lw_interval span);

/* ---- timeline_ruler.c ---- */

/** lw_timeline_column() - of the screen, where @at_ns, relative, is; -1 or beyond: left or right of it. */
int lw_timeline_column(const struct lw_timeline *timeline, int64_t at_ns);
int lw_timeline_n_digits(int64_t number);
void lw_timeline_ruler_draw(const struct lw_timeline *timeline,
	const struct lw_timeline_layout *layout, struct lw_pane pane);

/* ---- timeline_select.c ---- */

/** lw_timeline_batch() - the selected collective on the rank of index @rank. NULL: none, or not there. */
const struct lw_batch *lw_timeline_batch(const struct lw_timeline *timeline, size_t rank);

/** lw_timeline_step_at() - the step of the selected rank at @at_ns, relative. LW_NONE: outside. */
int32_t lw_timeline_step_at(const struct lw_timeline *timeline, int64_t at_ns);

/** lw_timeline_column_start() - where the cursor's column begins, relative. */
int64_t lw_timeline_column_start(const struct lw_timeline *timeline);

/** lw_timeline_move_to() - the cursor to @at_ns, relative, what is there is selected. */
void lw_timeline_move_to(struct lw_timeline *timeline, int64_t at_ns, int n_columns);

/** lw_timeline_select_here() - the collective under the cursor on the selected row. */
void lw_timeline_select_here(struct lw_timeline *timeline);

/** lw_timeline_select_any() - what is under the cursor: a collective, kernel or range, whichever are selected. */
void lw_timeline_select_any(struct lw_timeline *timeline);

/** lw_timeline_go() - select @batch of the selected rank and move the cursor there. */
void lw_timeline_go(struct lw_timeline *timeline, size_t batch, int n_columns);

/** lw_timeline_next() - the collective after (@by 1) or before (-1) the cursor on this row. Return: there is one. */
bool lw_timeline_next(struct lw_timeline *timeline, int by, int n_columns);

/** lw_timeline_find() - as lw_view_ops.find, on the selected rank. Return: the tensor that was found, LW_NONE. */
int32_t lw_timeline_find(struct lw_timeline *timeline, const char *text, int by, int n_columns);

/** lw_timeline_show() - move the screen so that @at_ns, relative, is on it. */
void lw_timeline_show(struct lw_timeline *timeline, int64_t at_ns, int n_columns);

/** lw_timeline_clip() - keep the zoom and the screen within the run. */
void lw_timeline_clip(struct lw_timeline *timeline, int n_columns);

/** lw_timeline_tensor() - the selected tensor, when tensors are down. LW_NONE: ranks are. */
int32_t lw_timeline_tensor(const struct lw_timeline *timeline);

/** lw_timeline_fit_step() - step @s of the selected rank takes 80 % of the screen, the cursor stands at its start. */
void lw_timeline_fit_step(struct lw_timeline *timeline, int32_t s, int n_columns);

/** lw_timeline_fit_pending() - do what timeline->to_fit asks for. */
void lw_timeline_fit_pending(struct lw_timeline *timeline, int n_columns);

/** lw_timeline_select_first() - the first collective that starts at the cursor or later. */
void lw_timeline_select_first(struct lw_timeline *timeline, int n_columns);

/** lw_timeline_step_here() - what is selected belongs to it, or the cursor stands in it. LW_NONE: neither. */
int32_t lw_timeline_step_here(const struct lw_timeline *timeline);

/** lw_timeline_select_tensor() - its row, when tensors are down. */
void lw_timeline_select_tensor(struct lw_timeline *timeline, int32_t tensor);

/* ---- timeline_range.c ---- */

enum { LW_TIMELINE_RANGE_LINES = 6 }; /* of a rank, at most */

/** lw_timeline_shows_ranges() - some rank has ranges, and nothing keeps them from being shown but the size of the screen. */
bool lw_timeline_shows_ranges(const struct lw_timeline *timeline);

/** lw_timeline_range_base() - the level on the first of @n_lines lines of rank @r: ranges that hold all of the screen are above it. */
size_t lw_timeline_range_base(const struct lw_timeline *timeline, size_t r, int n_lines);

/** lw_timeline_range_draw() - line @line of the @n_lines of rank @r. */
void lw_timeline_range_draw(
	const struct lw_timeline *timeline, size_t r, int line, int n_lines, struct lw_pane pane);

/* ---- timeline_range_select.c ---- */

/** lw_timeline_bar() - the selected range. NULL: none is. */
const struct lw_range_bar *lw_timeline_bar(const struct lw_timeline *timeline);

/** lw_timeline_range_here() - what is under the cursor on the selected level. */
void lw_timeline_range_here(struct lw_timeline *timeline);

/** lw_timeline_range_enter() - from now on ranges are selected, the outermost that is drawn first. */
void lw_timeline_range_enter(struct lw_timeline *timeline);

/** lw_timeline_range_next() - as lw_timeline_next(), on the level. */
bool lw_timeline_range_next(struct lw_timeline *timeline, int by, int n_columns);

/** lw_timeline_range_move() - to the first inside (@by 1), or the one around (-1). Return: there is one. */
bool lw_timeline_range_move(struct lw_timeline *timeline, int by, int n_columns);

/** lw_timeline_range_find() - the next one on any level whose name holds @text. Return: its name, NULL. */
const char *lw_timeline_range_find(
	struct lw_timeline *timeline, const char *text, int by, int n_columns);

/* ---- timeline_range_details.c ---- */

/** lw_timeline_range_line() - line @n of what is known of the selected range. Return: there is one. */
bool lw_timeline_range_line(
	const struct lw_timeline *timeline, size_t n, char text[LW_TIMELINE_TEXT_BYTES]);

/** lw_timeline_range_write() - as CSV, the lanes' ranges within [from, to), relative, on all ranks. */
int lw_timeline_range_write(
	const struct lw_timeline *timeline, int64_t from_ns, int64_t to_ns, FILE *out);

/* ---- timeline_ranges.c ---- */

enum { LW_TIMELINE_RANGES_BYTES = 256 };

/**
 * lw_timeline_ranges_text() - "; in the program's range ..." for the ranges that the rank of index @rank was in at @at_ns,
 * the innermost first. @tid: of that thread, 0 = of the one that the lane is of. Return: "": none. Valid until the call after the next.
 */
const char *lw_timeline_ranges_text(
	const struct lw_timeline *timeline, size_t rank, int64_t at_ns, uint32_t tid);

/**
 * lw_timeline_ranges_find() - go to the next (@by 1; 0: or one at the cursor) or the one before (-1) of all ranks' ranges and marks
 * whose names hold @text. Selects its rank.
 * Return: what is found, in words: valid until the next call. NULL: there is none.
 */
const char *lw_timeline_ranges_find(
	struct lw_timeline *timeline, const char *text, int by, int n_columns);

/** lw_timeline_ranges_found() - of what the last search found, while the cursor stands at its start. NULL: it does not. */
const char *lw_timeline_ranges_found(const struct lw_timeline *timeline);

/** lw_timeline_ranges_begin() - forget what was found in another analysis. */
void lw_timeline_ranges_begin(struct lw_timeline *timeline);

/* ---- timeline_order.c ---- */

/* Who had all its tensors of a collective first, and last; where nobody queues: who entered it. */
struct lw_timeline_order {
	int32_t first, last; /* indices into the ranks; LW_NONE: not known */
	int64_t late_ns;
	bool is_entry;
	const char *why; /* not known */
};

struct lw_timeline_order lw_timeline_order(const struct lw_run *run, const struct lw_group *group);

/** lw_timeline_ready_ns() - when a rank had all tensors of @batch queued; LW_NS_UNKNOWN. */
int64_t lw_timeline_ready_ns(const struct lw_rank *rank, const struct lw_batch *batch);

/* ---- timeline_details.c ---- */

/** lw_timeline_add() - more of a line of details, at @text + @n; cut at LW_TIMELINE_TEXT_BYTES. Return: where the next begins. */
size_t lw_timeline_add(char *text, size_t n, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/** lw_timeline_details_line() - line @n of all that is known of the selection. Return: there is one. */
bool lw_timeline_details_line(
	struct lw_timeline *timeline, size_t n, char text[LW_TIMELINE_TEXT_BYTES]);
void lw_timeline_details_draw(struct lw_timeline *timeline, struct lw_pane pane);

/** lw_timeline_write() - as CSV, the collectives within [from, to), relative, on all ranks. */
int lw_timeline_write(
	const struct lw_timeline *timeline, int64_t from_ns, int64_t to_ns, FILE *out);

/* ---- timeline_nic.c ---- */

/** lw_timeline_has_nic() - it is recorded what some rank sent. */
bool lw_timeline_has_nic(const struct lw_timeline *timeline);

/** lw_timeline_shows_nic() - and nothing keeps its lanes from being shown but the size of the screen. */
bool lw_timeline_shows_nic(const struct lw_timeline *timeline);

/** lw_timeline_nic_is_shared() - several ranks have one lane, which is drawn once, below all of them. */
bool lw_timeline_nic_is_shared(const struct lw_timeline *timeline, size_t r);

/** lw_timeline_nic_count() - lanes that are shared, or not. */
size_t lw_timeline_nic_count(const struct lw_timeline *timeline, bool is_shared);

/** lw_timeline_nic_label() - of line @line of the @n_lines (1 or 2) of rank @r. */
void lw_timeline_nic_label(const struct lw_timeline *timeline, size_t r, int line, int n_lines,
	char text[2 * LW_UNIT_TEXT_BYTES]);

/** lw_timeline_nic_draw() - out and in; of one line the larger of both. */
void lw_timeline_nic_draw(
	const struct lw_timeline *timeline, size_t r, struct lw_pane lines, int n_lines);

/** lw_timeline_nic_n_said() - lines that lw_timeline_nic_say() has. */
size_t lw_timeline_nic_n_said(const struct lw_timeline *timeline);

/** lw_timeline_nic_say() - line @n of what the selected rank's lane shows at the cursor. Return: there is one. */
bool lw_timeline_nic_say(
	const struct lw_timeline *timeline, size_t n, char text[LW_TIMELINE_TEXT_BYTES]);

/* ---- timeline_gpu.c ---- */

enum { LW_TIMELINE_MAX_STREAMS = 8 }; /* lanes of a rank */

/** lw_timeline_shows_gpu() - there are lanes of GPUs, and nothing keeps them from being shown but the size of the screen. */
bool lw_timeline_shows_gpu(const struct lw_timeline *timeline);

/** lw_timeline_gpu_n_lines() - GPU lanes of a rank at @density. */
int lw_timeline_gpu_n_lines(const struct lw_timeline *timeline, enum lw_timeline_density density);

/** lw_timeline_gpu_has_compute() - they have one for computing: then it needs no lane of its own. */
bool lw_timeline_gpu_has_compute(const struct lw_timeline *timeline);

/** lw_timeline_gpu_class() - of lane @line: enum lw_gpu_class; LW_NONE: of a stream, whatever runs on it. */
int lw_timeline_gpu_class(const struct lw_timeline *timeline, size_t line);

/** lw_timeline_gpu_label() - "GPU comm", "stream 7". Return: @text. */
const char *lw_timeline_gpu_label(
	const struct lw_timeline *timeline, size_t r, size_t line, char text[LW_UNIT_TEXT_BYTES]);

/** lw_timeline_gpu_draw() - lane @line of rank @r. */
void lw_timeline_gpu_draw(
	const struct lw_timeline *timeline, size_t r, size_t line, struct lw_pane pane);

/* ---- timeline_gpu_select.c ---- */

/** lw_timeline_item_span() - when the selected kernel or copy ran, relative. Return: false: none is. */
bool lw_timeline_item_span(const struct lw_timeline *timeline, struct lw_interval *ret_span);

/** lw_timeline_gpu_select_here() - what is under the cursor on the selected lane. */
void lw_timeline_gpu_select_here(struct lw_timeline *timeline);

/** lw_timeline_gpu_next() - as lw_timeline_next(), of the kernels and copies of the lane. */
bool lw_timeline_gpu_next(struct lw_timeline *timeline, int by, int n_columns);

/** lw_timeline_gpu_follow() - the selected lane is that of what is selected. */
void lw_timeline_gpu_follow(struct lw_timeline *timeline);

/** lw_timeline_gpu_find() - the next one on any lane whose name, as shown or not, holds @text. Return: its name, NULL. */
const char *lw_timeline_gpu_find(
	struct lw_timeline *timeline, const char *text, int by, int n_columns);

/* ---- timeline_gpu_details.c ---- */

/** lw_timeline_gpu_line() - line @n of what is known of the selected kernel or copy. Return: there is one. */
bool lw_timeline_gpu_line(
	const struct lw_timeline *timeline, size_t n, char text[LW_TIMELINE_TEXT_BYTES]);

/**
 * lw_timeline_moved_line() - line @n of what NCCL's proxies moved for @batch, of a run without a framework, on the rank at the cursor.
 * Return: there is one.
 */
bool lw_timeline_moved_line(const struct lw_timeline *timeline, const struct lw_batch *batch,
	size_t n, char text[LW_TIMELINE_TEXT_BYTES]);

/** lw_timeline_write_text() - a comma, and @text quoted: names may hold commas and quotes. */
void lw_timeline_write_text(FILE *out, const char *text);

/** lw_timeline_gpu_write() - as CSV, kernels and copies within [from, to), relative, on all ranks. */
int lw_timeline_gpu_write(
	const struct lw_timeline *timeline, int64_t from_ns, int64_t to_ns, FILE *out);

/* ---- timeline_keys.c ---- */

/** lw_timeline_request() - as lw_view_ops.request. */
bool lw_timeline_request(struct lw_view *view, const struct lw_input *input);

#endif /* LAPWING_TUI_TIMELINE_H */
