/* SPDX-License-Identifier: Apache-2.0 */
#include "tui/advice_rows.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Findings before all advice. */
static size_t n_first(const struct lw_advice_list *list)
{
	size_t n = 0;

	while (n < list->findings.n && list->findings.at[n].is_first)
		n++;
	return n;
}

const struct lw_advice *lw_advice_row_advice(const struct lw_advice_list *list, size_t row)
{
	size_t first = n_first(list);

	return row >= first && row - first < list->advice.n ? &list->advice.at[row - first] : NULL;
}

/* The @row-th line; findings for who asks after one adviser only come last. */
const struct lw_finding *lw_advice_row_finding(const struct lw_advice_list *list, size_t row)
{
	size_t first = n_first(list), at = first + list->advice.n;

	if (row < first)
		return &list->findings.at[row];
	for (int is_minor = 0; is_minor < 2; is_minor++)
		for (size_t i = first; i < list->findings.n; i++)
			if (list->findings.at[i].is_minor == is_minor && at++ == row)
				return &list->findings.at[i];
	return NULL;
}

const char *lw_advice_row_id(const struct lw_advice_list *list, size_t row)
{
	const struct lw_advice *advice = lw_advice_row_advice(list, row);
	const struct lw_finding *finding = lw_advice_row_finding(list, row);

	return advice ? advice->id : finding ? finding->id : NULL;
}

static const char *rank_text(const void *context, size_t row, char text[LW_TABLE_TEXT_BYTES])
{
	if (!lw_advice_row_advice(context, row))
		return "-";
	snprintf(text, LW_TABLE_TEXT_BYTES, "%zu", row + 1 - n_first(context));
	return text;
}

static double rank_value(const void *context, size_t row)
{
	(void)context;
	return (double)row;
}

/* "HOROVOD_CYCLE_TIME=1 ..": what one does, not only what it is about. */
static const char *what_text(const void *context, size_t row, char text[LW_TABLE_TEXT_BYTES])
{
	const struct lw_advice *advice = lw_advice_row_advice(context, row);
	const struct lw_finding *finding = lw_advice_row_finding(context, row);
	size_t n;

	if (!advice)
		return finding ? finding->text : "";
	n = (size_t)snprintf(text, LW_TABLE_TEXT_BYTES, "%s", advice->title);
	for (uint32_t i = 0; i < advice->n_sets && n < LW_TABLE_TEXT_BYTES; i++)
		n += (size_t)snprintf(text + n, LW_TABLE_TEXT_BYTES - n, "%s%s=%s", i ? " " : ": ",
			advice->set[i].name, advice->set[i].value);
	return text;
}

static const char *gain_text(const void *context, size_t row, char text[LW_TABLE_TEXT_BYTES])
{
	const struct lw_advice *advice = lw_advice_row_advice(context, row);
	const struct lw_finding *finding = lw_advice_row_finding(context, row);

	if (finding && !isnan(finding->bound.most_frac))
		snprintf(text, LW_TABLE_TEXT_BYTES, "<= %.1f %%", 100 * finding->bound.most_frac);
	if (!advice)
		return finding && !isnan(finding->bound.most_frac) ? text : "";
	snprintf(text, LW_TABLE_TEXT_BYTES, "%.1f %% (%.1f-%.1f)", 100 * advice->gain_frac.value,
		100 * advice->gain_frac.low, 100 * advice->gain_frac.high);
	return text;
}

static double gain_value(const void *context, size_t row)
{
	const struct lw_advice *advice = lw_advice_row_advice(context, row);
	const struct lw_finding *finding = lw_advice_row_finding(context, row);

	return advice ? advice->gain_frac.value : finding ? finding->bound.most_frac : (double)NAN;
}

static enum lw_style gain_style(const void *context, size_t row)
{
	return lw_advice_row_advice(context, row) ? LW_STYLE_GOOD : LW_STYLE_TEXT;
}

static const char *kind_text(const void *context, size_t row, char text[LW_TABLE_TEXT_BYTES])
{
	const struct lw_advice *advice = lw_advice_row_advice(context, row);
	const struct lw_finding *finding = lw_advice_row_finding(context, row);

	(void)text;
	if (!advice)
		return finding && finding->is_minor ? "note" : "finding";
	return lw_advice_kind_name(advice->kind);
}

/* Whether it stands on what was seen, in a word; the story has the sentence. */
static const char *sure_text(const void *context, size_t row, char text[LW_TABLE_TEXT_BYTES])
{
	const struct lw_advice *advice = lw_advice_row_advice(context, row);
	const char *why = advice ? advice->step_ns.why : NULL;
	const struct lw_finding *finding = lw_advice_row_finding(context, row);

	(void)text;
	if (!advice)
		return finding && !isnan(finding->bound.most_frac) ? "at most" : "";
	return why ? "assumed" : "predicted";
}

const struct lw_table_column lw_advice_columns[LW_ADVICE_N_COLUMNS] = {
	{"#", 2, .text = rank_text, .value = rank_value},
	{"what to change", 0, .is_left = true, .text = what_text},
	{"step shorter by", 18, .text = gain_text, .value = gain_value, .style = gain_style},
	{"sure", 9, .is_left = true, .text = sure_text},
	{"kind", 8, .is_left = true, .text = kind_text},
};
