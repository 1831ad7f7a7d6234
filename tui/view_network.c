/* SPDX-License-Identifier: Apache-2.0 */
/*
 * view_network.c - what crossed the network: a line a rank with its traffic over time; `t`: a line a connection, a link
 * between ranks, a device, a captured flow.
 *
 * Below: what the collectives moved, against what a ring would have sent, each figure with how it is known.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/emit/report.h"
#include "tui/app.h"
#include "tui/connections.h"
#include "tui/flow_rows.h"
#include "tui/net_rows.h"
#include "tui/parts.h"
#include "tui/rank_stats.h"

enum side { RANKS, CONNECTIONS, LINKS, DEVICES, FLOWS, N_SIDES };
enum { N_PARTS = 240 }; /* of the run, for traffic over time */

struct rank_row {
	double sent_bytes, received_bytes, acked_bytes, n_sockets;
	double step_bytes, ring_frac, mean_bytes_per_s, peak_bytes_per_s;
	double rdma_bytes, rdma_step_bytes;                     /* to ranks, read by them too */
	double expected_bytes, capacity_bytes_per_s, used_frac; /* as struct lw_net_rank */
	double rates_bytes_per_s[N_PARTS];
};

struct rows { /* the context of both tables */
	const struct lw_run *run;
	struct rank_row *ranks;
	struct lw_connections connections;
};

struct state {
	struct lw_table tables[N_SIDES];
	struct rows rows;
	struct lw_flow_rows flows;
	enum side side;
	bool was_shown; /* then the side is the user's */
	int32_t seen_rank;
};

/* ---- columns ------------------------------------------------------------------------------------ */

static double rank_figure(const void *context, size_t row, int key)
{
	const struct rows *rows = context;

	return *(const double *)((const char *)&rows->ranks[row] + key);
}

static double carries(const void *context, size_t row)
{
	const struct rows *rows = context;

	return rows->ranks[row].capacity_bytes_per_s;
}

static const char *carries_text(const void *context, size_t row, char text[LW_TABLE_TEXT_BYTES])
{
	const struct rows *rows = context;
	int from = row < rows->run->network.ranks.n ? rows->run->network.ranks.at[row].capacity_from
						    : LW_CAPACITY_NONE;

	return lw_net_carries_text(carries(context, row), from, text);
}

/* What is told of its way: that all wait for it, that it moves far more than others. */
static const char *way_text(const void *context, size_t row, char text[LW_TABLE_TEXT_BYTES])
{
	const struct rows *rows = context;
	const struct lw_network *net = &rows->run->network;
	bool is_slow = net->slow_rank == (int32_t)row;
	bool is_hot = row < net->ranks.n && net->ranks.at[row].is_hot;

	snprintf(text, LW_TABLE_TEXT_BYTES, "%s%s%s", is_slow ? "slow" : "",
		is_slow && is_hot ? " " : "", is_hot ? "hot" : "");
	return text;
}

static enum lw_style way_style(const void *context, size_t row)
{
	char text[LW_TABLE_TEXT_BYTES];

	return *way_text(context, row, text) ? LW_STYLE_WARN : LW_STYLE_TEXT;
}

static double connection_figure(const void *context, size_t row, int key)
{
	const struct rows *rows = context;

	return *(const double *)((const char *)&rows->connections.at[row] + key);
}

static double rank_number(const void *context, size_t row, int key)
{
	const struct rows *rows = context;

	(void)key;
	return rows->run->ranks.at[row].rank;
}

static double end_rank(const void *context, size_t row, int key)
{
	const struct rows *rows = context;
	const char *connection = (const char *)&rows->connections.at[row];
	int32_t rank = *(const int32_t *)(connection + key);

	return rank == LW_NONE ? (double)NAN : (double)rank;
}

static const char *local_text(const void *context, size_t row, char text[LW_TABLE_TEXT_BYTES])
{
	const struct rows *rows = context;

	(void)text;
	return rows->connections.at[row].local;
}

static const char *peer_text(const void *context, size_t row, char text[LW_TABLE_TEXT_BYTES])
{
	const struct rows *rows = context;

	(void)text;
	return rows->connections.at[row].peer;
}

static void draw_rates(const void *context, size_t row, struct lw_pane cell)
{
	const struct rows *rows = context;
	const struct rank_row *rank = &rows->ranks[row];

	if (isnan(rank->peak_bytes_per_s))
		lw_pane_print(cell, 0, 0, LW_STYLE_DIM, "?");
	else
		lw_pane_spark(cell, 0, 0, cell.width, LW_STYLE_ALLREDUCE, rank->rates_bytes_per_s,
			N_PARTS);
}

#define RANK(text, columns, member, how)                                                           \
	{                                                                                          \
		.title = (text), .width = (columns), .number = rank_figure,                        \
		.key = (int)offsetof(struct rank_row, member), .format = (how), .csv = #member     \
	}
#define CONNECTION(text, columns, member, how)                                                     \
	{                                                                                          \
		.title = (text), .width = (columns), .number = connection_figure,                  \
		.key = (int)offsetof(struct lw_connection, member), .format = (how),               \
		.csv = #member                                                                     \
	}

#define RANK_NUMBER                                                                                \
	{                                                                                          \
		.title = "rank", .width = 4, .number = rank_number, .format = lw_count_format,     \
		.csv = "rank"                                                                      \
	}
#define OVER_THE_RUN(text)                                                                         \
	{                                                                                          \
		.title = (text), .width = 17, .is_left = true, .grows = true, .draw = draw_rates   \
	}

#define WAY                                                                                        \
	{.title = "carries", .width = 10, .text = carries_text, .value = carries},                 \
		RANK("used", 5, used_frac, lw_percent_format),                                     \
	{                                                                                          \
		.title = "way", .width = 4, .is_left = true, .text = way_text, .style = way_style, \
		.csv = "way"                                                                       \
	}

static const struct lw_table_column rank_columns[] = {
	RANK_NUMBER,
	RANK("sent", 8, sent_bytes, lw_bytes_format),
	RANK("sent/st.", 8, step_bytes, lw_bytes_format),
	RANK("of ring", 7, ring_frac, lw_percent_format),
	WAY,
	OVER_THE_RUN("sent over the run"),
	RANK("expected", 8, expected_bytes, lw_bytes_format),
	RANK("received", 8, received_bytes, lw_bytes_format),
	RANK("mean", 9, mean_bytes_per_s, lw_rate_format),
	RANK("peak", 9, peak_bytes_per_s, lw_rate_format),
	RANK("acked", 8, acked_bytes, lw_bytes_format),
	RANK("sockets", 7, n_sockets, lw_count_format),
};

/* Of a job that uses RDMA: the same of TCP comes behind it. */
static const struct lw_table_column rdma_rank_columns[] = {
	RANK_NUMBER,
	RANK("by RDMA", 8, rdma_bytes, lw_bytes_format),
	RANK("RDMA/st.", 8, rdma_step_bytes, lw_bytes_format),
	RANK("of ring", 7, ring_frac, lw_percent_format),
	RANK("by TCP", 8, sent_bytes, lw_bytes_format),
	RANK("received", 8, received_bytes, lw_bytes_format),
	OVER_THE_RUN("TCP over the run"),
	WAY,
	RANK("expected", 8, expected_bytes, lw_bytes_format),
	RANK("TCP/step", 8, step_bytes, lw_bytes_format),
	RANK("mean", 9, mean_bytes_per_s, lw_rate_format),
	RANK("acked", 8, acked_bytes, lw_bytes_format),
	RANK("sockets", 7, n_sockets, lw_count_format),
};

static const struct lw_table_column connection_columns[] = {
	{.title = "rank",
		.width = 4,
		.number = end_rank,
		.key = (int)offsetof(struct lw_connection, rank),
		.format = lw_count_format,
		.csv = "rank"},
	{.title = "peer",
		.width = 4,
		.number = end_rank,
		.key = (int)offsetof(struct lw_connection, peer_rank),
		.format = lw_count_format,
		.csv = "peer_rank"},
	CONNECTION("sent", 8, sent_bytes, lw_bytes_format),
	CONNECTION("received", 8, received_bytes, lw_bytes_format),
	CONNECTION("RTT", 7, rtt_ns, lw_ns_format),
	CONNECTION("resent", 6, n_retransmits, lw_count_format),
	{.title = "peer's address", .width = 22, .is_left = true, .grows = true, .text = peer_text},
	CONNECTION("delivery", 9, delivery_bytes_per_s, lw_rate_format),
	CONNECTION("acked", 8, acked_bytes, lw_bytes_format),
	{.title = "own address", .width = 22, .is_left = true, .text = local_text},
};

/* ---- rows --------------------------------------------------------------------------------------- */

static void fill_rank(const struct lw_run *run, const struct lw_summary *summary, size_t r,
	double step_bytes, struct rank_row *row)
{
	const struct lw_rank *rank = &run->ranks.at[r];
	const struct lw_traffic *first, *last;
	bool has_sockets = rank->n_sockets > 0;
	const struct lw_net_link *link;
	double ring_bytes = summary->expected_bytes_per_step.value, sent_on_those;
	const struct lw_net_rank *way = r < run->network.ranks.n ? &run->network.ranks.at[r] : NULL;

	*row = (struct rank_row){.sent_bytes = has_sockets ? (double)rank->sent_bytes : (double)NAN,
		.received_bytes = has_sockets ? (double)rank->received_bytes : (double)NAN,
		.acked_bytes = lw_summary_acked(run, r, &sent_on_those),
		.n_sockets = (double)rank->n_sockets,
		.step_bytes = step_bytes,
		.ring_frac = ring_bytes > 0 ? step_bytes / ring_bytes : (double)NAN,
		.expected_bytes = way ? way->expected_bytes : (double)NAN,
		.capacity_bytes_per_s = way ? way->capacity_bytes_per_s : (double)NAN,
		.used_frac = way ? way->used_frac : (double)NAN,
		.mean_bytes_per_s = NAN,
		.peak_bytes_per_s = NAN};
	lw_vec_foreach (link, &run->network.links)
		if (link->from == (int32_t)r) {
			row->rdma_bytes += link->rdma_bytes;
			row->rdma_step_bytes += link->rdma_step_bytes;
		}
	if (ring_bytes > 0 && row->rdma_step_bytes > 0)
		row->ring_frac =
			(row->rdma_step_bytes + (isnan(step_bytes) ? 0 : step_bytes)) / ring_bytes;
	lw_traffic_rates(run, rank, N_PARTS, row->rates_bytes_per_s);
	for (size_t i = 0; i < N_PARTS; i++)
		row->peak_bytes_per_s = fmax(row->peak_bytes_per_s, row->rates_bytes_per_s[i]);
	if (rank->traffic.n < 2)
		return;
	first = &rank->traffic.at[0];
	last = &rank->traffic.at[rank->traffic.n - 1];
	if (last->at_ns > first->at_ns)
		row->mean_bytes_per_s = (double)(last->sent_bytes - first->sent_bytes) /
					(double)(last->at_ns - first->at_ns) * 1e9;
}

static int make_ranks(struct state *state, const struct lw_analysis *analysis)
{
	const struct lw_run *run = analysis->run;
	size_t n = run->ranks.n;
	double *late_ns = calloc(n * lw_run_n_steps(run) + 1, sizeof(*late_ns));
	struct lw_rank_stats *stats = NULL;
	int status = LW_OK;

	free(state->rows.ranks);
	state->rows.ranks = calloc(n + 1, sizeof(*state->rows.ranks));
	if (!late_ns || !state->rows.ranks)
		status = lw_fail(LW_ERR_NOMEM, "no memory for %zu ranks", n);
	if (status == LW_OK)
		status = lw_rank_stats_make(run, late_ns, &stats);
	for (size_t r = 0; r < n && status == LW_OK; r++)
		fill_rank(run, &analysis->summary, r, stats[r].sent_bytes_per_step,
			&state->rows.ranks[r]);
	free(late_ns);
	free(stats);
	return status;
}

static bool has_rdma(const struct lw_run *run)
{
	const struct lw_net_link *link;

	lw_vec_foreach (link, &run->network.links)
		if (link->rdma_bytes > 0)
			return true;
	return false;
}

static int open_ranks(struct lw_table *table, const struct rows *rows)
{
	if (has_rdma(rows->run))
		return lw_table_open(table, rdma_rank_columns,
			sizeof(rdma_rank_columns) / sizeof(rdma_rank_columns[0]),
			rows->run->ranks.n, rows);
	return lw_table_open(table, rank_columns, sizeof(rank_columns) / sizeof(rank_columns[0]),
		rows->run->ranks.n, rows);
}

/* A capture that is of no job begins with what it has. */
static int open_flows(struct state *state, const struct lw_run *run)
{
	int status = lw_flow_rows_make(run, &state->flows);

	if (!state->was_shown && !run->ranks.n && state->flows.n)
		state->side = FLOWS;
	if (!state->flows.n && state->side == FLOWS)
		state->side = RANKS;
	state->was_shown = true;
	return status < 0 ? status
			  : lw_table_open(&state->tables[FLOWS], lw_flow_columns, lw_flow_n_columns,
				    state->flows.n, &state->flows);
}

static int open(struct lw_view *view)
{
	struct state *state = view->state;
	const struct lw_run *run = view->data->analysis->run;
	struct rows *rows = &state->rows;
	struct lw_connections *made;
	int status = make_ranks(state, view->data->analysis);

	if (status < 0)
		return status;
	rows->run = run;
	lw_vec_free(&rows->connections);
	made = lw_prepared_take(&view->data->prepared, LW_PREPARED_CONNECTIONS);
	if (made)
		rows->connections = *made;
	else
		status = lw_connections_load(run, &rows->connections);
	free(made);
	if (status < 0)
		return status;
	state->seen_rank = LW_NONE;
	status = open_ranks(&state->tables[RANKS], rows);
	if (status == LW_OK)
		status = lw_table_open(&state->tables[CONNECTIONS], connection_columns,
			sizeof(connection_columns) / sizeof(connection_columns[0]),
			rows->connections.n, rows);
	if (status == LW_OK)
		status = lw_table_open(&state->tables[LINKS], lw_link_columns, lw_link_n_columns,
			run->network.links.n, run);
	if (status == LW_OK)
		status = lw_table_open(&state->tables[DEVICES], lw_nic_columns, lw_nic_n_columns,
			run->nics.n, run);
	return status < 0 ? status : open_flows(state, run);
}

static void done(struct lw_view *view)
{
	struct state *state = view->state;

	for (int i = 0; i < N_SIDES; i++)
		lw_table_done(&state->tables[i]);
	free(state->rows.ranks);
	lw_vec_free(&state->rows.connections);
	lw_flow_rows_done(&state->flows);
}

/* ---- drawing ------------------------------------------------------------------------------------ */

enum { FACT_LINES = 12, HEADING_LINES = 1, LEAST_TABLE_LINES = 6 };

/* Of a capture without ranks nothing is to be said below. */
static int table_lines(const struct state *state, int height)
{
	int left = height - HEADING_LINES;

	if (!state->rows.run->ranks.n && state->flows.n)
		return left;
	return left - FACT_LINES >= LEAST_TABLE_LINES ? left - FACT_LINES : left;
}

static void follow(struct lw_view *view)
{
	struct state *state = view->state;
	int32_t rank = view->focus->rank;

	if (rank != state->seen_rank && rank >= 0)
		lw_table_select(&state->tables[RANKS], (size_t)rank);
	lw_table_mark(&state->tables[RANKS], rank);
	state->seen_rank = rank;
}

static void draw(struct lw_view *view, struct lw_pane pane)
{
	static const char *const headings[N_SIDES] = {
		[RANKS] = "TCP by rank, as hooked. hot: moves 1.5 times the middle; slow: all wait",
		[CONNECTIONS] =
			"Connections, RDMA queue pairs (qp). RTT, resent, delivery: TCP_INFO",
		[LINKS] =
			"From rank to rank. Busy rate: while something was in flight; window, buffer: what held it back",
		[DEVICES] = "NICs, RDMA ports, CPUs, GPUs. nobody's: not of the job's connections",
		[FLOWS] =
			"Captured flows. Bytes: payload once; packets as captured; unseen: dropped or outside",
	};
	static const char *const nothing[N_SIDES] = {
		[RANKS] = "No rank is in the run.",
		[CONNECTIONS] =
			"No TCP connection and no RDMA queue pair was seen: shared memory, or a library that the hooks do not see, carried the gradients, or this was imported.",
		[LINKS] = "No TCP connection and no RDMA queue pair between two ranks was seen.",
		[DEVICES] =
			"No device was sampled: recorded with --sample-ms 0, or without a collector that can.",
		[FLOWS] = "", /* then it is no side */
	};
	struct state *state = view->state;
	const char *heading =
		state->side == RANKS && has_rdma(state->rows.run)
			? "RDMA and TCP by rank, as hooked. hot: moves 1.5 times the middle"
			: headings[state->side];
	int n_lines = table_lines(state, pane.height);
	struct lw_pane table = lw_pane_part(pane, 0, HEADING_LINES, pane.width, n_lines);

	follow(view);
	lw_pane_heading(pane, &state->tables[state->side], LW_STYLE_STRONG, heading);
	if (state->tables[state->side].n_rows)
		lw_table_draw(&state->tables[state->side], table);
	else
		lw_pane_wrap(table, 1, 1, table.width - 2, LW_STYLE_WARN, nothing[state->side]);
	if (n_lines < pane.height - HEADING_LINES)
		lw_net_facts_draw(view->data->analysis, state->rows.connections.n,
			lw_pane_part(pane, 0, HEADING_LINES + n_lines, pane.width, FACT_LINES));
}

/* ---- requests ----------------------------------------------------------------------------------- */

/* The rank that the row of a side is of; LW_NONE: of none. */
static int32_t rank_of_row(const struct state *state, size_t row)
{
	const struct lw_run *run = state->rows.run;

	if (state->side == RANKS)
		return (int32_t)row;
	if (state->side == LINKS)
		return run->network.links.at[row].from;
	if (state->side == FLOWS)
		return run->flows.at[state->flows.at[row]].from_rank;
	for (size_t r = 0; r < run->ranks.n && state->side == CONNECTIONS; r++)
		if (run->ranks.at[r].rank == state->rows.connections.at[row].rank)
			return (int32_t)r;
	return LW_NONE;
}

static void enter(struct lw_view *view)
{
	struct state *state = view->state;
	size_t row = lw_table_row(&state->tables[state->side]);
	int32_t rank = row == SIZE_MAX ? LW_NONE : rank_of_row(state, row);

	if (rank == LW_NONE)
		return;
	view->focus->rank = rank;
	lw_app_say(view->app, false, "rank %d is selected, in all views",
		state->rows.run->ranks.at[rank].rank);
}

static bool request(struct lw_view *view, const struct lw_input *input)
{
	struct state *state = view->state;
	struct lw_input inside =
		lw_input_inside(input, HEADING_LINES, table_lines(state, input->height));

	if (input->request == LW_REQUEST_TURN)
		state->side = (state->side + 1) % (state->flows.n ? N_SIDES : FLOWS);
	else if (input->request == LW_REQUEST_ENTER)
		enter(view);
	else
		return lw_table_request(&state->tables[state->side], &inside);
	return true;
}

static struct lw_table *table(struct lw_view *view)
{
	struct state *state = view->state;

	return &state->tables[state->side];
}

static const struct lw_key_words words[] = {
	{LW_REQUEST_TURN, "next table",
		"ranks, connections, links between ranks, devices, captured flows"},
	{LW_REQUEST_SORT, "sort", NULL}, {LW_REQUEST_LEFT, "", NULL},
	{LW_REQUEST_RIGHT, "columns", NULL},
	{LW_REQUEST_ENTER, "select", "select its rank, in all views"}, {0}};

const struct lw_view_ops lw_view_network = {
	.name = "network",
	.label = "net",
	.title = "bytes by rank, connection, link and device, against what a ring would send",
	.keys = {LW_TABLE_CAN | LW_CAN(TURN) | LW_CAN(ENTER), words},
	.state_bytes = sizeof(struct state),
	.open = open,
	.draw = draw,
	.request = request,
	.table = table,
	.done = done,
};
