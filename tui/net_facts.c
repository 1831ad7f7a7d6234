/* SPDX-License-Identifier: Apache-2.0 */
/* net_facts.c - below the tables of the network view: what the collectives moved, against a ring, and what there is of it. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analyzer/emit/report.h"
#include "analyzer/emit/volume.h"
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

static size_t count_gpus(const struct seen *seen)
{
	const struct lw_nic *nic;
	size_t n = 0;

	lw_vec_foreach (nic, &seen->run->nics)
		n += !strcmp(nic->kind, "gpu");
	return n;
}

static size_t count_devices(const struct seen *seen)
{
	return seen->run->nics.n - count_gpus(seen);
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
		{"GPUs", count_gpus, false},
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

static bool is_some_way_known(const struct lw_run *run)
{
	const struct lw_net_rank *rank;

	lw_vec_foreach (rank, &run->network.ranks)
		if (!isnan(rank->capacity_bytes_per_s))
			return true;
	return false;
}

static const char *why_no_reach(const struct lw_run *run, char text[LW_NET_WORDS_BYTES])
{
	const struct lw_network *net = &run->network;
	char changed[LW_NET_WORDS_BYTES];

	if (!net->ranks.n)
		return "not known: no traffic between ranks was seen";
	if (*lw_ways_changed_text(run, changed)) {
		snprintf(text, LW_NET_WORDS_BYTES, "not known: a way out changed: %.*s",
			(int)(LW_NET_WORDS_BYTES - 40), changed);
		return text;
	}
	if (isnan(net->off_frac))
		return "not known: no known algorithm, or not what it had to move";
	if (net->off_frac <= LW_NET_OFF_FRAC)
		return is_some_way_known(run)
			       ? "not known: less is known of a way out than operations reached"
			       : "not known: no way out of known capacity";
	snprintf(text, LW_NET_WORDS_BYTES,
		"not known: what ranks sent is %.0f %% off what that algorithm takes",
		100 * net->off_frac);
	return text;
}

/* Where nothing was slowed: or nothing stands for operations without what touched all of them. */
static const char *why_none_slowed(const struct lw_run *run, char text[LW_NET_WORDS_BYTES])
{
	if (!run->ends.n && !run->nics.n)
		return "not known: neither connections nor NICs were sampled";
	for (int c = 0; c < LW_N_CAUSES; c++) {
		const struct lw_net_caused *caused = &run->network.slowed.by[c];

		if (!caused->n_hit || caused->n_compared)
			continue;
		snprintf(text, LW_NET_WORDS_BYTES,
			"not known: none ran without this to compare with: %s",
			lw_net_cause_name((enum lw_net_cause)c));
		return text;
	}
	return "no operation, by what was recorded";
}

static bool is_way_known(const struct lw_run *run)
{
	return !isnan(run->network.others_bytes_per_s);
}

/* Of what is not figures: a line each from @y on. */
static void draw_sentences(const struct lw_run *run, struct lw_pane pane, int y)
{
	char note[LW_TABLE_TEXT_BYTES], words[LW_NET_WORDS_BYTES], why[LW_NET_WORDS_BYTES];

	draw_words(pane, y, "looks like", lw_net_rows_note(run, note), "");
	draw_words(pane, y + 1, "slow link", lw_net_slow_text(run, words),
		is_way_known(run) ? "none that can be told, of those whose rate is known"
				  : "not known: the ways out of fewer than two ranks are known");
	if (run->network.slow_rank != LW_NONE)
		lw_pane_restyle(pane, 1, y + 1, pane.width - 2, LW_STYLE_WARN);
	draw_words(
		pane, y + 2, "allreduces reach", lw_reach_text(run, words), why_no_reach(run, why));
	draw_words(pane, y + 3, "slowed", lw_slowed_text(run, words), why_none_slowed(run, why));
}

void lw_net_facts_draw(
	const struct lw_analysis *analysis, size_t n_connections, struct lw_pane pane)
{
	const struct seen seen = {analysis->run, n_connections};
	const struct lw_summary *summary = &analysis->summary;
	bool is_one_view = analysis->run->is_import;
	char ring_note[128];
	const struct {
		const char *name;
		const struct lw_figure *figure;
		const char *(*format)(double value, char text[LW_UNIT_TEXT_BYTES]);
		const char *note;
	} facts[] = {
		{"bytes a step", &summary->bytes_per_step, lw_bytes_format,
			lw_volume_note(analysis->run, LW_VOLUME_BYTES)},
		{"a ring would send", &summary->expected_bytes_per_step, lw_bytes_format,
			ring_note},
		{"sent / ring", &summary->sent_ratio, lw_percent_format,
			isnan(summary->rdma_bytes_per_step.value)
				? "on sockets, counted steps"
				: "by RDMA and on sockets, counted steps"},
		{"acked / sent", &summary->tcp_acked_ratio, lw_percent_format,
			"by the kernel's TCP_INFO, whole run"},
		{"algbw", &summary->algbw_bytes_per_s, lw_rate_format,
			is_one_view ? "one rank's own times, waiting included"
				    : "last rank in to last rank out"},
		{"busbw", &summary->busbw_bytes_per_s, lw_rate_format,
			lw_volume_note(analysis->run, LW_VOLUME_BUSBW)},
	};
	enum { N_FACTS = sizeof(facts) / sizeof(facts[0]) };
	const struct lw_run *run = analysis->run;
	char text[LW_UNIT_TEXT_BYTES];

	snprintf(ring_note, sizeof(ring_note), "a step and rank: %s",
		lw_volume_note(run, LW_VOLUME_RING));
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
	draw_sentences(run, pane, 1 + N_FACTS);
	draw_sources(&seen, pane, 5 + N_FACTS);
}
