/* SPDX-License-Identifier: Apache-2.0 */
#include "base/units.h"

#include <ctype.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"

struct unit {
	const char *name;
	double scale;
};

/* Largest first: the first one that is not larger than the value is used. */
static const struct unit time_units[] = {
	{"s", 1e9}, {"ms", 1e6}, {"us", 1e3}, {"ns", 1}, {NULL, 0}};
static const struct unit size_units[] = {
	{"GiB", 1073741824.0}, {"MiB", 1048576.0}, {"KiB", 1024.0}, {"B", 1}, {NULL, 0}};
static const struct unit rate_units[] = {
	{"GB/s", 1e9}, {"MB/s", 1e6}, {"kB/s", 1e3}, {"B/s", 1}, {NULL, 0}};
static const struct unit size_words[] = {{"GiB", 1073741824.0}, {"MiB", 1048576.0}, {"KiB", 1024.0},
	{"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}, {"G", 1073741824.0}, {"M", 1048576.0}, {"K", 1024.0},
	{"B", 1}, {"", 1}, {NULL, 0}};
static const struct unit time_words[] = {
	{"s", 1e9}, {"ms", 1e6}, {"us", 1e3}, {"ns", 1}, {"", 1}, {NULL, 0}};

/* @is_even: as many digits where the last are zeros. */
static const char *format(double value, const struct unit *units, bool is_even, char *text)
{
	double x, magnitude = fabs(value);
	int decimals;

	while (units[1].name && magnitude < units->scale * 0.9995)
		units++;
	x = value / units->scale;
	decimals = x == floor(x) && fabs(x) < 1e6 && (!is_even || units->scale == 1) ? 0
		   : fabs(x) < 9.995                                                 ? 2
		   : fabs(x) < 99.95                                                 ? 1
										     : 0;
	snprintf(text, LW_UNIT_TEXT_BYTES, "%.*f %s", decimals, x, units->name);
	return text;
}

const char *lw_ns_format(double ns, char text[LW_UNIT_TEXT_BYTES])
{
	return format(ns, time_units, true, text);
}

const char *lw_ns_exact(double ns, char text[LW_UNIT_TEXT_BYTES])
{
	return format(ns, time_units, false, text);
}

const char *lw_bytes_format(double bytes, char text[LW_UNIT_TEXT_BYTES])
{
	return format(bytes, size_units, false, text);
}

const char *lw_rate_format(double bytes_per_s, char text[LW_UNIT_TEXT_BYTES])
{
	return format(bytes_per_s, rate_units, false, text);
}

const char *lw_ns_or_unknown(double ns, char text[LW_UNIT_TEXT_BYTES])
{
	return isfinite(ns) ? lw_ns_format(ns, text) : strcpy(text, "?");
}

const char *lw_bytes_or_unknown(double bytes, char text[LW_UNIT_TEXT_BYTES])
{
	return isfinite(bytes) ? lw_bytes_format(bytes, text) : strcpy(text, "?");
}

const char *lw_rate_or_unknown(double bytes_per_s, char text[LW_UNIT_TEXT_BYTES])
{
	return isfinite(bytes_per_s) ? lw_rate_format(bytes_per_s, text) : strcpy(text, "?");
}

static int parse(const char *text, const struct unit *words, const char *what, double *ret_value)
{
	char *end;
	double number = strtod(text, &end);

	if (end == text || !isfinite(number) || number < 0)
		return lw_fail(LW_ERR_FORMAT, "'%s' is not %s", text, what);
	while (isspace((unsigned char)*end))
		end++;
	for (; words->name; words++) {
		if (strcasecmp(end, words->name))
			continue;
		if (number * words->scale >= 9.2e18)
			return lw_fail(LW_ERR_LIMIT, "'%s' is too large", text);
		*ret_value = number * words->scale;
		return LW_OK;
	}
	return lw_fail(LW_ERR_FORMAT, "'%s' is not %s: unknown unit '%s'", text, what, end);
}

int lw_ns_parse(const char *text, int64_t *ret_ns)
{
	double ns;
	int status = parse(text, time_words, "a time (5ms, 1.5s, 200us)", &ns);

	if (status == LW_OK)
		*ret_ns = (int64_t)llround(ns);
	return status;
}

int lw_bytes_parse(const char *text, uint64_t *ret_bytes)
{
	double bytes;
	int status = parse(text, size_words, "a size (128MiB, 64K, 4096)", &bytes);

	if (status == LW_OK)
		*ret_bytes = (uint64_t)llround(bytes);
	return status;
}

const char *lw_age_format(int64_t age_ns, char text[LW_UNIT_TEXT_BYTES])
{
	long long s = age_ns > 0 ? age_ns / LW_NS_PER_S : 0;

	if (s < 60)
		snprintf(text, LW_UNIT_TEXT_BYTES, "%lld s", s);
	else if (s < 3600)
		snprintf(text, LW_UNIT_TEXT_BYTES, "%lld min %02lld s", s / 60, s % 60);
	else
		snprintf(text, LW_UNIT_TEXT_BYTES, "%lld h %02lld min", s / 3600, s / 60 % 60);
	return text;
}
