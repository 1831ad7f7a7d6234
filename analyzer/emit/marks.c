/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/emit/marks.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/emit/json.h"
#include "analyzer/emit/wrap.h"
#include "base/units.h"

enum {
	MAX_NAMES = 12,
	HEAD_WIDTH = 12,
	TAIL_WIDTH = 18,
	NAME_WIDTH = HEAD_WIDTH + 2 + TAIL_WIDTH,
	NAME_BYTES = 4 * NAME_WIDTH + 4,
	WORTH_A_LINE = 2 /* times as long on one rank as on another */
};

static const char *const kinds[] = {"?", "step", "mark", "range", "NVTX range", "NVTX mark"};

static const char *kind_of(const struct lw_mark_name *name)
{
	return kinds[name->op > 0 && name->op <= LW_MARK_NVTX_POINT ? name->op : 0];
}

static bool is_point(const struct lw_mark_name *name)
{
	return name->op == LW_MARK_POINT || name->op == LW_MARK_NVTX_POINT;
}

static size_t n_characters(const char *text)
{
	size_t n = 0;

	for (; *text; text++)
		n += (*text & 0xc0) != 0x80;
	return n;
}

/* What a program called it, for one line: without control characters, and where it is long without its middle. */
static const char *name_text(const char *name, char text[NAME_BYTES])
{
	size_t n = 0, at = 0, width = n_characters(name);

	if (!*name)
		return "(no name)";
	for (; *name && n < NAME_BYTES - 4; name++) {
		bool is_first = (*name & 0xc0) != 0x80;

		at += is_first;
		if (width > NAME_WIDTH && at > HEAD_WIDTH && at <= width - TAIL_WIDTH) {
			if (is_first && at == HEAD_WIDTH + 1)
				n += (size_t)snprintf(text + n, NAME_BYTES - n, "..");
			continue;
		}
		text[n++] = (char)((unsigned char)*name < 0x20 || *name == 0x7f ? '?' : *name);
	}
	text[n] = '\0';
	return text;
}

bool lw_marks_are_all(const struct lw_run *run)
{
	return *run->marks.why && !run->gpu.has_kernels;
}

/* Each mark of the program's begins a step, the last one too; a profiler marks ends as well. 0: steps were not marked. */
static double n_marked(const struct lw_run *run)
{
	return run->is_profile ? 0 : (double)run->marks.n_steps;
}

struct spread { /* of the ranges of one name: the ranks whose are shortest and longest on average; NULL: of fewer than two */
	const struct lw_mark_process *least, *most;
};

static double mean_ns(const struct lw_mark_process *process)
{
	return process->total_ns / (double)process->n;
}

static struct spread spread_of(const struct lw_mark_name *name)
{
	const struct lw_mark_process *one;
	struct spread spread = {NULL, NULL};

	if (is_point(name))
		return spread;
	lw_vec_foreach (one, &name->by_process) {
		if (one->rank == LW_NONE)
			continue;
		if (!spread.least || mean_ns(one) < mean_ns(spread.least))
			spread.least = one;
		if (!spread.most || mean_ns(one) > mean_ns(spread.most))
			spread.most = one;
	}
	return spread.least == spread.most ? (struct spread){NULL, NULL} : spread;
}

/* One mean of ranks that differ is that of none of them. */
static void print_spread(FILE *out, const struct lw_mark_name *name)
{
	struct spread spread = spread_of(name);
	char least[LW_UNIT_TEXT_BYTES], most[LW_UNIT_TEXT_BYTES];

	if (spread.least && mean_ns(spread.most) >= WORTH_A_LINE * mean_ns(spread.least))
		fprintf(out, "  %25s  mean %s on rank %d, %s on rank %d\n", "",
			lw_ns_format(mean_ns(spread.least), least), spread.least->rank,
			lw_ns_format(mean_ns(spread.most), most), spread.most->rank);
}

static void print_name(FILE *out, const struct lw_mark_name *name, double n_steps)
{
	char text[LW_UNIT_TEXT_BYTES], cut[NAME_BYTES], rank[16] = "-";

	fprintf(out, "  %7llu", (unsigned long long)name->n);
	if (is_point(name)) {
		fprintf(out, " %31s", kind_of(name));
	} else {
		fprintf(out, " %9s", lw_ns_format(name->total_ns, text));
		fprintf(out, " %9s",
			lw_ns_format(
				name->total_ns / (n_steps > 0 ? n_steps : (double)name->n), text));
		if (name->longest_rank != LW_NONE)
			snprintf(rank, sizeof(rank), "%d", name->longest_rank);
		fprintf(out, " %9s", lw_ns_format((double)name->longest_ns, text));
	}
	fprintf(out, " %5s  %s\n", is_point(name) ? "" : rank, name_text(name->name, cut));
	print_spread(out, name);
}

void lw_marks_text(const struct lw_run *run, FILE *out)
{
	const struct lw_marks *marks = &run->marks;

	if (!marks->names.n)
		return;
	fputs("Marks and ranges, all processes (each in full, those inside of it included)\n", out);
	fprintf(out, "  %7s %9s %9s %9s %5s  %s\n", "n", "total",
		n_marked(run) > 0 ? "a step" : "mean", "longest", "rank", "name");
	for (size_t i = 0; i < marks->names.n && i < MAX_NAMES; i++)
		print_name(out, &marks->names.at[i], n_marked(run));
	if (marks->names.n > MAX_NAMES)
		fprintf(out, "  ... and %zu more name%s (--json; each one: SQL, v_range)\n",
			marks->names.n - MAX_NAMES, marks->names.n - MAX_NAMES == 1 ? "" : "s");
	fputs("  ", out);
	lw_print_wrapped(out, 2, 2,
		n_marked(run) > 0
			? "a step: total by the marks of steps, of all processes. rank: that had the longest; -: of a process without a rank."
			: "rank: that had the longest; -: of a process without a rank.");
	fputc('\n', out);
}

static void put_or_null(struct lw_json *json, const char *key, bool is_known, double value)
{
	if (is_known)
		lw_json_double(json, key, value);
	else
		lw_json_null(json, key);
}

static void put_spread(struct lw_json *json, const struct lw_mark_name *name)
{
	struct spread spread = spread_of(name);
	const struct lw_mark_process *const ends[] = {spread.least, spread.most};

	lw_json_array(json, "mean_by_rank");
	for (int i = 0; i < 2 && ends[i]; i++) {
		lw_json_object(json, NULL);
		lw_json_int(json, "rank", ends[i]->rank);
		lw_json_double(json, "mean_ns", mean_ns(ends[i]));
		lw_json_object_end(json);
	}
	lw_json_array_end(json);
}

void lw_marks_json(struct lw_json *json, const struct lw_run *run)
{
	const struct lw_marks *marks = &run->marks;
	const struct lw_mark_name *name;

	lw_json_object(json, "marks");
	lw_json_int(json, "n_processes", marks->n_processes);
	lw_json_int(json, "n_steps", (int64_t)marks->n_steps);
	put_or_null(json, "mean_step_ns", marks->n_gaps > 0, marks->mean_gap_ns);
	lw_json_array(json, "names");
	lw_vec_foreach (name, &marks->names) {
		lw_json_object(json, NULL);
		lw_json_string(json, "kind", kind_of(name));
		lw_json_string(json, "name", name->name);
		lw_json_int(json, "n", (int64_t)name->n);
		lw_json_int(json, "n_processes", name->n_processes);
		put_or_null(json, "total_ns", !is_point(name), name->total_ns);
		put_or_null(json, "longest_ns", !is_point(name), (double)name->longest_ns);
		if (name->longest_rank == LW_NONE)
			lw_json_null(json, "longest_rank");
		else
			lw_json_int(json, "longest_rank", name->longest_rank);
		put_spread(json, name);
		lw_json_object_end(json);
	}
	lw_json_array_end(json);
	lw_json_object_end(json);
}
