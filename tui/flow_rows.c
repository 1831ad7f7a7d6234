/* SPDX-License-Identifier: Apache-2.0 */
#include "tui/flow_rows.h"

#include <math.h>
#include <stdlib.h>

#include "analyzer/emit/flows.h"
#include "base/err.h"
#include "tui/parts.h"

enum key { BYTES, PACKETS, RESENT, LASTED, WIRE, MISSING };

static const struct lw_packet_flow *flow_of(const void *context, size_t row)
{
	const struct lw_flow_rows *rows = context;

	return &rows->run->flows.at[rows->at[row]];
}

static double figure(const void *context, size_t row, int key)
{
	const struct lw_packet_flow *flow = flow_of(context, row);

	switch ((enum key)key) {
	case BYTES:
		return lw_flow_payload_bytes(flow);
	case PACKETS:
		return (double)flow->n_frames;
	case RESENT:
		return (double)flow->n_retransmitted;
	case LASTED:
		return lw_flow_lasted_ns(flow);
	case WIRE:
		return (double)flow->wire_bytes;
	case MISSING:
		return (double)flow->missing_bytes;
	}
	return NAN;
}

static const char *end(const void *context, size_t row, bool is_source, char *text)
{
	const struct lw_flow_rows *rows = context;

	static_assert((int)LW_FLOW_END_BYTES <= (int)LW_TABLE_TEXT_BYTES, "an end fits a cell");
	return lw_flow_end(rows->run, flow_of(context, row), is_source, text);
}

static const char *from_text(const void *context, size_t row, char text[LW_TABLE_TEXT_BYTES])
{
	return end(context, row, true, text);
}

static const char *to_text(const void *context, size_t row, char text[LW_TABLE_TEXT_BYTES])
{
	return end(context, row, false, text);
}

static const char *protocol_text(const void *context, size_t row, char text[LW_TABLE_TEXT_BYTES])
{
	(void)text;
	return flow_of(context, row)->protocol;
}

static const char *source_text(const void *context, size_t row, char text[LW_TABLE_TEXT_BYTES])
{
	(void)text;
	return flow_of(context, row)->source;
}

static const char *destination_text(const void *context, size_t row, char text[LW_TABLE_TEXT_BYTES])
{
	(void)text;
	return flow_of(context, row)->destination;
}

#define FIGURE(name, columns, what, how, csv_name)                                                 \
	{                                                                                          \
		.title = (name), .width = (columns), .number = figure, .key = (what),              \
		.format = (how), .csv = (csv_name)                                                 \
	}
#define TEXT(name, columns, does_grow, what)                                                       \
	{                                                                                          \
		.title = (name), .width = (columns), .is_left = true, .grows = (does_grow),        \
		.text = (what)                                                                     \
	}

const struct lw_table_column lw_flow_columns[] = {
	TEXT("from", 16, true, from_text),
	TEXT("to", 16, true, to_text),
	TEXT("", 4, false, protocol_text),
	FIGURE("bytes", 8, BYTES, lw_bytes_format, "payload_bytes"),
	FIGURE("packets", 8, PACKETS, lw_count_format, "n_frames"),
	FIGURE("resent", 6, RESENT, lw_count_format, "n_retransmitted"),
	FIGURE("lasted", 8, LASTED, lw_ns_format, "duration_ns"),
	FIGURE("on wire", 8, WIRE, lw_bytes_format, "wire_bytes"),
	FIGURE("unseen", 8, MISSING, lw_bytes_format, "missing_bytes"),
	TEXT("source", 15, false, source_text),
	TEXT("destination", 15, false, destination_text),
};
const size_t lw_flow_n_columns = sizeof(lw_flow_columns) / sizeof(lw_flow_columns[0]);

struct sized {
	double bytes;
	size_t flow;
};

static int compare(const void *a, const void *b)
{
	const struct sized *x = a, *y = b;

	if (x->bytes < y->bytes || x->bytes > y->bytes)
		return x->bytes > y->bytes ? -1 : 1;
	return (x->flow > y->flow) - (x->flow < y->flow);
}

int lw_flow_rows_make(const struct lw_run *run, struct lw_flow_rows *rows)
{
	struct sized *sized = calloc(run->flows.n + 1, sizeof(*sized));
	size_t *at = calloc(run->flows.n + 1, sizeof(*at));
	size_t n = 0;

	lw_flow_rows_done(rows);
	if (!sized || !at) {
		free(sized);
		free(at);
		return lw_fail(LW_ERR_NOMEM, "no memory for %zu flows", run->flows.n);
	}
	for (size_t i = 0; i < run->flows.n; i++)
		if (lw_flow_is_listed(&run->flows.at[i]))
			sized[n++] = (struct sized){lw_flow_payload_bytes(&run->flows.at[i]), i};
	qsort(sized, n, sizeof(*sized), compare);
	for (size_t i = 0; i < n; i++)
		at[i] = sized[i].flow;
	free(sized);
	*rows = (struct lw_flow_rows){run, at, n};
	return LW_OK;
}

void lw_flow_rows_done(struct lw_flow_rows *rows)
{
	free(rows->at);
	*rows = (struct lw_flow_rows){0};
}
