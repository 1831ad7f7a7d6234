/* SPDX-License-Identifier: Apache-2.0 */
/* net_facts.c - below the tables of the network view: what the collectives moved, against a ring, and what there is of it. */
#include <math.h>

#include "analyzer/emit/report.h"
#include "tui/net_rows.h"
#include "tui/parts.h"

struct seen {
	const struct lw_run *run;
	size_t n_connections; /* queue pairs too */
};

static size_t count_sockets(const struct seen *seen)
{
	const struct lw_rank *rank;
	size_t n = 0;

	lw_vec_foreach (rank, &seen->run->ranks)
		n += rank->n_sockets;
	return n;
}

static size_t count_samples(const struct seen *seen)
{
	const struct lw_rank *rank;
	size_t n = 0;

	lw_vec_foreach (rank, &seen->run->ranks)
		n += rank->traffic.n;
	return n;
}

static size_t count_queue_pairs(const struct seen *seen)
{
	const struct lw_tcp_end *end;
	size_t n = 0;

	lw_vec_foreach (end, &seen->run->ends)
		n += end->is_rdma && end->rank != LW_NONE;
	return n;
}

static size_t count_connections(const struct seen *seen)
{
	return seen->n_connections - count_queue_pairs(seen);
}

static size_t count_devices(const struct seen *seen)
{
	return seen->run->nics.n;
}

/* What this run has of the network: who misses something sees that it was not recorded. */
static void draw_sources(const struct seen *seen, struct lw_pane pane, int y)
{
	static const struct {
		const char *what;
		size_t (*count)(const struct seen *seen);
		bool is_everywhere; /* else few jobs have them, and none is no news */
	} kinds[] = {
		{"sockets", count_sockets, true},
		{"traffic samples", count_samples, true},
		{"TCP connections", count_connections, true},
		{"queue pairs", count_queue_pairs, false},
		{"NICs", count_devices, true},
	};
	int x = 1 + lw_pane_print(pane, 1, y, LW_STYLE_DIM, "recorded");

	x = x > 20 ? x + 1 : 20;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		size_t n = kinds[i].count(seen);

		if (!n && !kinds[i].is_everywhere)
			continue;
		if (n)
			x += lw_pane_print(pane, x, y, LW_STYLE_DIM, "%s%zu %s", i ? ", " : "", n,
				kinds[i].what);
		else
			x += lw_pane_print(
				pane, x, y, LW_STYLE_DIM, "%sno %s", i ? ", " : "", kinds[i].what);
	}
}

static void draw_words(
	struct lw_pane pane, int y, const char *name, const char *words, const char *none)
{
	lw_pane_print(pane, 1, y, LW_STYLE_DIM, "%s", name);
	lw_pane_print(
		pane, 20, y, *words ? LW_STYLE_TEXT : LW_STYLE_DIM, "%s", *words ? words : none);
}

void lw_net_facts_draw(
	const struct lw_analysis *analysis, size_t n_connections, struct lw_pane pane)
{
	const struct seen seen = {analysis->run, n_connections};
	const struct lw_summary *summary = &analysis->summary;
	bool is_one_view = analysis->run->is_import;
	const struct {
		const char *name;
		const struct lw_figure *figure;
		const char *(*format)(double value, char text[LW_UNIT_TEXT_BYTES]);
		const char *note;
	} facts[] = {
		{"bytes a step", &summary->bytes_per_step, lw_bytes_format,
			"of gradients, each rank"},
		{"a ring would send", &summary->expected_bytes_per_step, lw_bytes_format,
			"a step and rank: 2(N-1)/N of the bytes"},
		{"sent / ring", &summary->sent_ratio, lw_percent_format,
			"on sockets, counted steps"},
		{"acked / sent", &summary->tcp_acked_ratio, lw_percent_format,
			"by the kernel's TCP_INFO, whole run"},
		{"algbw", &summary->algbw_bytes_per_s, lw_rate_format,
			is_one_view ? "one rank's own times, waiting included"
				    : "last rank in to last rank out"},
		{"busbw", &summary->busbw_bytes_per_s, lw_rate_format, "algbw x 2(N-1)/N"},
	};
	enum { N_FACTS = sizeof(facts) / sizeof(facts[0]) };
	const struct lw_run *run = analysis->run;
	char text[LW_UNIT_TEXT_BYTES], note[LW_TABLE_TEXT_BYTES], words[LW_NET_WORDS_BYTES];

	lw_pane_rule(pane, 0, "collectives and network");
	for (int i = 0; i < N_FACTS; i++) {
		double value = facts[i].figure->value;

		lw_pane_print(pane, 1, 1 + i, LW_STYLE_DIM, "%s", facts[i].name);
		if (isnan(value))
			lw_pane_print(pane, 20, 1 + i, LW_STYLE_WARN, "not known: %s",
				facts[i].figure->why ? facts[i].figure->why : "no data");
		else
			lw_pane_print(pane, 20, 1 + i, LW_STYLE_TEXT, "%-10s  %s, %s",
				facts[i].format(value, text), lw_how_name(facts[i].figure->how),
				facts[i].note);
	}
	lw_pane_print(pane, 1, 1 + N_FACTS, LW_STYLE_DIM, "looks like");
	lw_pane_print(
		pane, 20, 1 + N_FACTS, LW_STYLE_TEXT, "%s", lw_net_rows_note(analysis->run, note));
	draw_words(pane, 2 + N_FACTS, "allreduces reach", lw_reach_text(run, words),
		"not known: no way out of known capacity, or no known algorithm");
	draw_words(pane, 3 + N_FACTS, "slowed", lw_slowed_text(run, words),
		run->ends.n || run->nics.n
			? "no operation, by what was recorded"
			: "not known: neither connections nor NICs were sampled");
	draw_sources(&seen, pane, 4 + N_FACTS);
}
