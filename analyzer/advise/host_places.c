/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/advise/host_places.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/units.h"

enum { MOST_PLACES = 5, TEXT_ENOUGH = LW_HOST_SAID_BYTES - 240 };
#define WORTH_NAMING_FRAC 0.05 /* of all of the time */
#define DETAIL_FRAC       0.1 /* of a stretch: a range within another that covers less is part of that */

static bool is_loader(const char *name)
{
	return strcasestr(name, "dataloader") || strcasestr(name, "data_loader") ||
	       strcasestr(name, "datapipe");
}

/* Before a forward pass DDP sends rank 0's buffers to the others: all in one piece, which is made and taken apart. */
static bool is_ddp_buffers(const char *name)
{
	return strstr(name, "flatten_dense_tensors") || strstr(name, "broadcast");
}

int lw_host_places_load(
	const struct lw_run *run, const struct lw_rank *rank, struct lw_host_places *places)
{
	const struct lw_host_part *part;
	int status;

	*places = (struct lw_host_places){0};
	status = lw_host_ranges_load(run, rank, &places->ranges);
	if (status == LW_OK)
		status = lw_host_parts(run, rank, &places->ranges, &places->parts, &places->n_wide);
	for (part = places->parts; part; part = part->hh.next)
		places->has_loader |= is_loader(part->name);
	return status;
}

void lw_host_places_free(struct lw_host_places *places)
{
	struct lw_host_place *place, *next;

	HASH_ITER(hh, places->at, place, next)
	{
		HASH_DEL(places->at, place);
		free(place);
	}
	lw_vec_free(&places->open);
	lw_host_ranges_free(&places->ranges);
	lw_host_parts_free(&places->parts);
}

/* ---- adding up ---------------------------------------------------------------------------------------- */

static struct lw_host_place *place_in(
	struct lw_host_places *places, struct lw_host_place *within, const char *name)
{
	struct lw_host_place_key key = {within, name};
	struct lw_host_place *place;

	HASH_FIND(hh, places->at, &key, sizeof(key), place);
	if (place)
		return place;
	place = calloc(1, sizeof(*place));
	if (!place)
		return NULL;
	place->key = key;
	place->depth = within ? within->depth + 1 : 0;
	place->is_loader = is_loader(name) || (within && within->is_loader);
	place->in_ddp_forward = strstr(name, "DistributedDataParallel.forward") ||
				(within && within->in_ddp_forward);
	place->is_ddp_buffers = (within && within->is_ddp_buffers) ||
				(place->in_ddp_forward && is_ddp_buffers(name));
	HASH_ADD(hh, places->at, key, sizeof(place->key), place);
	return place;
}

static int add_instant(struct lw_host_places *places, int64_t ns)
{
	struct lw_host_place *place = NULL;

	for (size_t i = 0; i < places->open.n; i++) {
		place = place_in(places, place, places->open.at[i]->name);
		if (!place)
			return lw_fail(LW_ERR_NOMEM, "no memory");
	}
	if (place)
		place->ns += (double)ns;
	else
		places->none_ns += (double)ns;
	return LW_OK;
}

/* On to @to_ns: ranges end meanwhile, and none begins. */
static int go_on(struct lw_host_places *places, int64_t *at_ns, int64_t to_ns)
{
	int status = LW_OK;

	while (status == LW_OK && *at_ns < to_ns) {
		int64_t next_ns = to_ns;
		size_t n = 0;

		for (size_t i = 0; i < places->open.n; i++) {
			const struct lw_host_range *range = places->open.at[i];

			if (range->end_ns <= *at_ns)
				continue;
			places->open.at[n++] = range;
			next_ns = range->end_ns < next_ns ? range->end_ns : next_ns;
		}
		places->open.n = n;
		status = add_instant(places, next_ns - *at_ns);
		*at_ns = next_ns;
	}
	return status;
}

/* Of many little ranges one after the other, what they lie in says more. */
static bool is_detail(const struct lw_host_places *places, const struct lw_host_range *range,
	int64_t start_ns, int64_t end_ns)
{
	int64_t from_ns = range->start_ns > start_ns ? range->start_ns : start_ns;
	int64_t to_ns = range->end_ns < end_ns ? range->end_ns : end_ns;

	if ((double)(to_ns - from_ns) >= DETAIL_FRAC * (double)(end_ns - start_ns))
		return false;
	for (size_t i = 0; i < places->open.n; i++)
		if (places->open.at[i]->end_ns >= to_ns)
			return true;
	return false;
}

int lw_host_places_add(
	struct lw_host_places *places, int64_t start_ns, int64_t end_ns, uint32_t tid)
{
	int64_t at_ns = start_ns;
	int status = LW_OK;

	places->open.n = 0;
	for (size_t i = 0; i < places->ranges.open.n && status == LW_OK; i++) {
		const struct lw_host_range *range = places->ranges.open.at[i];

		if (range->tid != tid || range->start_ns >= end_ns)
			continue;
		status = go_on(places, &at_ns, range->start_ns);
		if (status == LW_OK && !is_detail(places, range, start_ns, end_ns))
			status = lw_vec_push(&places->open, range);
	}
	return status == LW_OK ? go_on(places, &at_ns, end_ns) : status;
}

/* ---- telling ------------------------------------------------------------------------------------------ */

struct line {
	struct lw_host_where where;
	double ns;
	bool is_ddp_buffers;
};

struct lines {
	lw_vec(struct line) at;
};

static const struct lw_host_place *outermost(const struct lw_host_place *place)
{
	while (place->key.within)
		place = place->key.within;
	return place;
}

/* Of a backward pass each operator has a range of its own. */
static const char *part_name(const struct lw_host_place *place)
{
	static const char backward[] = "autograd::engine::evaluate_function";

	return strncmp(place->key.name, backward, sizeof(backward) - 1) ? place->key.name
									: backward;
}

static struct lw_host_where where_of(const struct lw_host_place *place, bool by_part)
{
	const struct lw_host_place *within = place->key.within, *outer = outermost(place);

	if (by_part)
		return (struct lw_host_where){.in = part_name(outer)};
	return (struct lw_host_where){place->key.name, within ? within->key.name : NULL,
		outer != place && outer != within ? outer->key.name : NULL};
}

static int add_line(struct lines *lines, const struct lw_host_place *place, bool by_part)
{
	struct line *line,
		added = {where_of(place, by_part), place->shown_ns, place->is_ddp_buffers};

	lw_vec_foreach (line, &lines->at)
		if (line->where.in == added.where.in && line->where.within == added.where.within &&
			line->where.outermost == added.where.outermost) {
			line->ns += added.ns;
			return LW_OK;
		}
	return lw_vec_push(&lines->at, added);
}

static int deepest_first(const void *a, const void *b)
{
	return ((const struct lw_host_place *)b)->depth - ((const struct lw_host_place *)a)->depth;
}

static int most_first(const void *a, const void *b)
{
	double x = ((const struct line *)a)->ns, y = ((const struct line *)b)->ns;

	return (x < y) - (x > y);
}

/* What has little time counts with what is around it; @said has the sums. */
static int collect_lines(struct lw_host_places *places, bool by_part,
	const struct lw_host_said *said, struct lines *lines)
{
	struct lw_host_place *place;
	int status = LW_OK;

	for (place = places->at; place; place = place->hh.next)
		place->shown_ns = place->ns;
	HASH_SORT(places->at, deepest_first);
	for (place = places->at; place; place = place->hh.next)
		if (place->key.within && place->shown_ns < WORTH_NAMING_FRAC * said->all_ns) {
			place->key.within->shown_ns += place->shown_ns;
			place->shown_ns = 0;
		}
	for (place = places->at; place && status == LW_OK; place = place->hh.next)
		if (place->shown_ns > 0)
			status = add_line(lines, place, by_part);
	if (lines->at.n)
		qsort(lines->at.at, lines->at.n, sizeof(*lines->at.at), most_first);
	return status;
}

static size_t add_text(struct lw_host_said *said, size_t n, const char *where, double ns)
{
	char length[LW_UNIT_TEXT_BYTES];

	if (n < LW_HOST_SAID_BYTES)
		n += (size_t)snprintf(said->text + n, LW_HOST_SAID_BYTES - n, "%sin %s for %s",
			n ? ", " : "", where, lw_ns_format(ns, length));
	return n;
}

static void write_text(const struct lw_host_places *places, const struct lines *lines, double n,
	struct lw_host_said *said)
{
	double rest_ns = said->known_ns;
	size_t at = 0;

	for (size_t i = 0; i < MOST_PLACES && i < lines->at.n; i++) {
		const struct line *line = &lines->at.at[i];
		char where[LW_HOST_WHERE_BYTES];

		if (line->ns < WORTH_NAMING_FRAC * said->all_ns || at > TEXT_ENOUGH)
			break;
		rest_ns -= line->ns;
		at = add_text(said, at, lw_host_where_text(&line->where, where), line->ns / n);
	}
	if (rest_ns > 0.005 * said->all_ns)
		at = add_text(
			said, at, at ? "other ranges" : "ranges of little time each", rest_ns / n);
	if (places->none_ns > 0.005 * said->all_ns)
		add_text(said, at,
			places->n_wide ? "no range but such around whole steps" : "no range",
			places->none_ns / n);
}

int lw_host_places_tell(
	struct lw_host_places *places, double n, bool by_part, struct lw_host_said *said)
{
	const struct lw_host_place *place;
	struct lines lines = {0};
	int status;

	*said = (struct lw_host_said){0};
	for (place = places->at; place; place = place->hh.next) {
		said->known_ns += place->ns;
		said->loader_ns += place->is_loader ? place->ns : 0;
		said->ddp_ns += place->is_ddp_buffers ? place->ns : 0;
	}
	said->all_ns = said->known_ns + places->none_ns;
	status = collect_lines(places, by_part, said, &lines);
	if (status == LW_OK && said->known_ns > 0)
		write_text(places, &lines, n, said);
	if (lines.at.n) {
		said->most_ns = lines.at.at[0].ns;
		said->is_most_ddp = lines.at.at[0].is_ddp_buffers;
	}
	lw_vec_free(&lines.at);
	return status;
}
