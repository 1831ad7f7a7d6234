/* SPDX-License-Identifier: Apache-2.0 */
/* lines.c - a whole list of advice as a line, as a line for who begins there, and as a line each. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "analyzer/advise/advise.h"
#include "base/units.h"

static void append(char *text, size_t size, size_t *n, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

static void append(char *text, size_t size, size_t *n, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	if (*n < size)
		*n += (size_t)vsnprintf(text + *n, size - *n, format, args);
	va_end(args);
}

static bool is_bounded(const struct lw_finding *finding)
{
	return !finding->is_minor && !finding->is_first && finding->bound.most_frac > 0;
}

/* The first that is more than a note. Why a run cannot be replayed comes last. Where settings were tried, it is what is said
 * of these. */
static const struct lw_finding *first_finding(const struct lw_advice_list *list)
{
	const struct lw_finding *finding;

	lw_vec_foreach (finding, &list->findings)
		if (!finding->is_minor && !finding->is_first &&
			!(list->replay && is_bounded(finding)))
			return finding;
	return NULL;
}

const struct lw_finding *lw_advise_bounded(const struct lw_advice_list *list, size_t n)
{
	const struct lw_finding *finding;

	lw_vec_foreach (finding, &list->findings)
		if (is_bounded(finding) && n-- == 0)
			return finding;
	return NULL;
}

const char *lw_advise_bound_line(const struct lw_finding *finding, char text[LW_ADVICE_TEXT_BYTES])
{
	const struct lw_adviser *adviser = lw_advise_adviser(finding->id);
	char rank[32] = "";

	if (finding->bound.rank != LW_NONE)
		snprintf(rank, sizeof(rank), ", rank %d", finding->bound.rank);
	snprintf(text, LW_ADVICE_TEXT_BYTES, "%s: at most %.1f %% less%s (%s)",
		adviser ? adviser->title : finding->id, 100 * finding->bound.most_frac, rank,
		finding->id);
	return text;
}

size_t lw_advise_n_more(const struct lw_advice_list *list)
{
	const struct lw_finding *finding;
	size_t n = 0;

	if (list->replay)
		return 0;
	lw_vec_foreach (finding, &list->findings)
		n += !finding->is_minor && !finding->is_first;
	return n > 2 ? n - 2 : 0; /* less the first, and why there is no replay */
}

/* What is found and gains more than can be set, for what nothing was simulated for is worth that at most. NULL: there is nothing.
 * Of a run that cannot be replayed the top line is all of it. */
static const struct lw_finding *found_beside(const struct lw_advice_list *list)
{
	return list->replay || list->advice.n ? lw_advise_bounded(list, 0) : NULL;
}

/* What to set, or why nothing. */
static const char *setting_line(const struct lw_advice_list *list, char text[LW_ADVICE_TEXT_BYTES])
{
	const struct lw_advice *advice = list->advice.at;
	const struct lw_finding *finding = first_finding(list);
	char step[LW_UNIT_TEXT_BYTES], now[LW_UNIT_TEXT_BYTES];
	int n = 0;

	text[0] = '\0';
	if (!lw_advise_is_advised(list)) {
		snprintf(text, LW_ADVICE_TEXT_BYTES, "%s", finding ? finding->text : "no advice");
		return text;
	}
	if (advice->kind == LW_ADVICE_CODE)
		n = snprintf(text, LW_ADVICE_TEXT_BYTES, "%s (`lapwing advise --explain %s`)",
			advice->title, advice->id);
	for (uint32_t i = 0; i < advice->n_sets && advice->kind == LW_ADVICE_SET; i++)
		n += snprintf(text + n, LW_ADVICE_TEXT_BYTES - (size_t)n, "%s%s=%s",
			i ? " " : "set ", advice->set[i].name, advice->set[i].value);
	snprintf(text + n, LW_ADVICE_TEXT_BYTES - (size_t)n,
		": a step of %s instead of %s, %.1f %% less (%.1f to %.1f)",
		lw_ns_format(advice->step_ns.value, step),
		lw_ns_format(list->baseline_ns.value, now), 100 * advice->gain_frac.value,
		100 * advice->gain_frac.low, 100 * advice->gain_frac.high);
	return text;
}

/* A late rank, where without it the step would come by more than by anything that can be set. NULL: there is none. */
static const struct lw_advice *late_beside(const struct lw_advice_list *list)
{
	const struct lw_advice *advice;

	lw_vec_foreach (advice, &list->advice)
		if (!strcmp(advice->id, lw_adviser_straggler.id))
			return lw_advise_is_advised(list) && list->advice.at[0].gain_frac.value >=
								     advice->gain_frac.value
				       ? NULL
				       : advice;
	return NULL;
}

/* @line, and what is found: behind it, where @is_advice, else first. Return: @text. */
static const char *with_found(const struct lw_advice_list *list, bool is_advice, const char *line,
	char text[LW_ADVICE_TEXT_BYTES])
{
	const struct lw_finding *found = found_beside(list);
	char said[LW_ADVICE_TEXT_BYTES];
	size_t n = 0;

	if (!found)
		append(text, LW_ADVICE_TEXT_BYTES, &n, "%s", line);
	else if (is_advice)
		append(text, LW_ADVICE_TEXT_BYTES, &n, "%s; and see %s", line,
			lw_advise_bound_line(found, said));
	else
		append(text, LW_ADVICE_TEXT_BYTES, &n, "%s; settings: %s",
			lw_advise_bound_line(found, said), line);
	return text;
}

/* "3.1 % less (1.0 to 5.2)" */
static void append_gain(const struct lw_advice *advice, char *text, size_t size, size_t *n)
{
	append(text, size, n, "%.1f %% less (%.1f to %.1f)", 100 * advice->gain_frac.value,
		100 * advice->gain_frac.low, 100 * advice->gain_frac.high);
}

const char *lw_advise_top_line(const struct lw_advice_list *list, char text[LW_ADVICE_TEXT_BYTES])
{
	char line[LW_ADVICE_TEXT_BYTES];

	return with_found(list, lw_advise_is_advised(list), setting_line(list, line), text);
}

const char *lw_advise_change_line(
	const struct lw_advice_list *list, char text[LW_ADVICE_TEXT_BYTES])
{
	const struct lw_advice *late = late_beside(list);
	char line[LW_ADVICE_TEXT_BYTES], said[LW_ADVICE_TEXT_BYTES];
	size_t n = 0;

	if (!late)
		return lw_advise_top_line(list, text);
	append(said, sizeof(said), &n, "%s ", late->lead);
	append_gain(late, said, sizeof(said), &n);
	append(said, sizeof(said), &n, " (%s); settings: %s", late->id, setting_line(list, line));
	return with_found(list, true, said, text);
}

static void append_sets(const struct lw_advice *advice, char *text, size_t size, size_t *n)
{
	for (uint32_t i = 0; i < advice->n_sets; i++)
		append(text, size, n, "%s%s=%s", i ? " " : "", advice->set[i].name,
			advice->set[i].value);
}

/* What gains most of what keeps the training as it is and the machines too. NULL: there is nothing. */
static const struct lw_advice *greatest(const struct lw_advice_list *list)
{
	const struct lw_advice *advice, *most = NULL;

	lw_vec_foreach (advice, &list->advice)
		if (advice->kind != LW_ADVICE_HARDWARE && advice->kind != LW_ADVICE_TRAINING &&
			(!most || advice->gain_frac.value > most->gain_frac.value))
			most = advice;
	return most;
}

/* Without what is found beside. */
static const char *advice_line(const struct lw_advice_list *list, char text[LW_ADVICE_TEXT_BYTES])
{
	const struct lw_advice *most = greatest(list), *first = list->advice.at;
	char rest[LW_ADVICE_TEXT_BYTES];
	size_t n = 0, size = LW_ADVICE_TEXT_BYTES;

	if (!most || (lw_advise_is_advised(list) && most == first))
		return setting_line(list, text);
	append(text, size, &n, "%s%s ", most->lead[0] ? most->lead : most->title,
		most->lead[0] ? "" : ":");
	append_gain(most, text, size, &n);
	append(text, size, &n, "; ");
	if (!lw_advise_is_advised(list)) {
		append(text, size, &n, "settings: %s", setting_line(list, rest));
		return text;
	}
	append(text, size, &n, first->kind == LW_ADVICE_SET ? "to set: " : "to write: ");
	if (first->kind == LW_ADVICE_SET)
		append_sets(first, text, size, &n);
	else
		append(text, size, &n, "%s", first->title);
	append(text, size, &n, ", ");
	append_gain(first, text, size, &n);
	return text;
}

const char *lw_advise_headline(const struct lw_advice_list *list, char text[LW_ADVICE_TEXT_BYTES])
{
	char line[LW_ADVICE_TEXT_BYTES];

	return with_found(list, greatest(list) != NULL, advice_line(list, line), text);
}

const char *lw_advise_lines(const struct lw_advice_list *list, char *text, size_t text_bytes)
{
	char said[LW_ADVICE_TEXT_BYTES];
	size_t n = 0;

	text[0] = 0;
	for (size_t i = 0; i < list->advice.n; i++) {
		const struct lw_advice *advice = &list->advice.at[i];

		append(text, text_bytes, &n, "%s%zu %s: ", i ? "\n" : "", i + 1, advice->title);
		append_gain(advice, text, text_bytes, &n);
		append(text, text_bytes, &n, ", %s%s", lw_advice_kind_name(advice->kind),
			advice->n_sets ? ": " : "");
		append_sets(advice, text, text_bytes, &n);
	}
	for (size_t i = 0; lw_advise_bounded(list, i); i++)
		append(text, text_bytes, &n, "%s- %s", n ? "\n" : "",
			lw_advise_bound_line(lw_advise_bounded(list, i), said));
	return text;
}
