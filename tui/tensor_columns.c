/* SPDX-License-Identifier: Apache-2.0 */
/* tensor_columns.c - what stands in the columns of tensors and of batches. */
#include "tui/tensor_columns.h"

#include <math.h>

#include "tui/parts.h"

/* ---- columns of tensors ------------------------------------------------------------------------- */

static double statistic(const void *context, size_t row, int key)
{
	const struct lw_tensor_rows *rows = context;

	return *(const double *)((const char *)&rows->stats[row] + key);
}

static const char *name_text(const void *context, size_t row, char text[LW_TABLE_TEXT_BYTES])
{
	const struct lw_tensor_rows *rows = context;
	const struct lw_tensor_stats *stats = &rows->stats[row];
	char least[LW_UNIT_TEXT_BYTES], most[LW_UNIT_TEXT_BYTES];
	const char *name = rows->run->tensors.at[row].name;

	if (!(stats->least_bytes < stats->most_bytes))
		return name;
	snprintf(text, LW_TABLE_TEXT_BYTES, "%.80s, %s to %s", name,
		lw_bytes_format(stats->least_bytes, least),
		lw_bytes_format(stats->most_bytes, most));
	return text;
}

static const char *dtype_text(const void *context, size_t row, char text[LW_TABLE_TEXT_BYTES])
{
	const struct lw_tensor_rows *rows = context;
	int dtype = rows->run->tensors.at[row].dtype;
	const char *name = lw_dtype_name(dtype);

	(void)text;
	return dtype && name ? name : "?";
}

/* Of what no step sends there are no figures of steps, which is another thing than not to know them. */
static const char *no_figure(const void *context, size_t row)
{
	const struct lw_tensor_rows *rows = context;

	return rows->stats[row].n ? "?" : "-";
}

static const char *carrier_text(const void *context, size_t row, char text[LW_TABLE_TEXT_BYTES])
{
	const struct lw_tensor_rows *rows = context;
	int32_t carrier = rows->carriers[row];

	(void)text;
	return carrier == LW_NONE ? "" : rows->run->tensors.at[carrier].name;
}

static const char *last_text(const void *context, size_t row, char text[LW_TABLE_TEXT_BYTES])
{
	const struct lw_tensor_rows *rows = context;
	const struct lw_tensor_stats *stats = &rows->stats[row];

	if (!stats->n)
		return no_figure(context, row);
	if (stats->last_rank == LW_NONE)
		return isnan(stats->last_frac) ? "?" : "none";
	snprintf(text, LW_TABLE_TEXT_BYTES, "%d: %.0f %%",
		rows->run->ranks.at[stats->last_rank].rank, 100 * stats->last_frac);
	return text;
}

static double times(const void *context, size_t row, int key)
{
	const struct lw_tensor_rows *rows = context;

	(void)key;
	return (double)rows->stats[row].n;
}

#define STATISTIC(text, columns, member, how, name)                                                \
	{                                                                                          \
		.title = (text), .width = (columns), .number = statistic,                          \
		.key = (int)offsetof(struct lw_tensor_stats, member), .format = (how),             \
		.csv = (name), .unknown = no_figure                                                \
	}

#define FIRST_COLUMNS                                                                              \
	{.title = "tensor", .width = 17, .is_left = true, .grows = true, .text = name_text},       \
		STATISTIC("bytes", 8, bytes, lw_bytes_format, "bytes"),                            \
		STATISTIC("ready", 7, ready_ns, lw_ns_format, "ready_ns")
#define OTHER_COLUMNS                                                                              \
	STATISTIC("spread", 7, spread_ns, lw_ns_format, "spread_ns"),                              \
		{.title = "last rank", .width = 9, .text = last_text},                             \
		STATISTIC("exposed", 7, exposed_frac, lw_percent_format, "exposed_frac"),          \
		STATISTIC("mates", 5, mates, lw_count_format, "n_mates"),                          \
		STATISTIC("NEGOTIATE", 9, negotiate_ns, lw_ns_format, "negotiate_ns"),             \
		STATISTIC("WAIT", 7, wait_ns, lw_ns_format, "wait_ns"),                            \
		STATISTIC("ALLREDUCE", 9, allreduce_ns, lw_ns_format, "allreduce_ns"),             \
		STATISTIC("MISC", 7, misc_ns, lw_ns_format, "misc_ns"),                            \
		{.title = "dtype", .width = 8, .is_left = true, .text = dtype_text},               \
	{                                                                                          \
		.title = "times", .width = 6, .number = times, .format = lw_count_format,          \
		.csv = "n"                                                                         \
	}

const struct lw_table_column lw_tensor_columns[] = {FIRST_COLUMNS, OTHER_COLUMNS};
const size_t lw_tensor_n_columns = sizeof(lw_tensor_columns) / sizeof(lw_tensor_columns[0]);

const struct lw_table_column lw_carried_columns[] = {FIRST_COLUMNS,
	{.title = "goes in", .width = 9, .is_left = true, .text = carrier_text}, OTHER_COLUMNS};
const size_t lw_carried_n_columns = sizeof(lw_carried_columns) / sizeof(lw_carried_columns[0]);

/* ---- columns of batches ------------------------------------------------------------------------- */

static double batch_figure(const void *context, size_t row, int key)
{
	const struct lw_tensor_rows *rows = context;

	return *(const double *)((const char *)&rows->batches[row] + key);
}

static const struct lw_group *group_of(const struct lw_tensor_rows *rows, size_t row)
{
	return &rows->run->groups.at[rows->batches[row].group];
}

static const char *order_text(const void *context, size_t row, char text[LW_TABLE_TEXT_BYTES])
{
	(void)context;
	snprintf(text, LW_TABLE_TEXT_BYTES, "%zu", row + 1);
	return text;
}

static double order_value(const void *context, size_t row)
{
	(void)context;
	return (double)row;
}

static double n_tensors(const void *context, size_t row, int key)
{
	const struct lw_tensor_rows *rows = context;
	const struct lw_batch *batch = lw_group_any_batch(rows->run, group_of(rows, row), NULL);

	(void)key;
	return batch->n_members ? (double)batch->n_members : (double)NAN;
}

static double n_times(const void *context, size_t row, int key)
{
	const struct lw_tensor_rows *rows = context;

	(void)key;
	return (double)rows->batches[row].n;
}

/* As many names as there is room for. */
static const char *members_text(const void *context, size_t row, char text[LW_TABLE_TEXT_BYTES])
{
	const struct lw_tensor_rows *rows = context;
	size_t r = 0, n = 0;
	const struct lw_batch *batch = lw_group_any_batch(rows->run, group_of(rows, row), &r);
	const struct lw_rank *rank = &rows->run->ranks.at[r];

	text[0] = 0;
	for (uint32_t i = 0; i < batch->n_members && n < LW_TABLE_TEXT_BYTES; i++) {
		const struct lw_member *member = &rank->members.at[batch->first_member + i];

		n += (size_t)snprintf(text + n, LW_TABLE_TEXT_BYTES - n, "%s%s", i ? " " : "",
			rows->run->tensors.at[member->tensor].name);
	}
	return batch->n_members ? text : "?";
}

static const char *op_text(const void *context, size_t row, char text[LW_TABLE_TEXT_BYTES])
{
	const char *name = lw_coll_name(group_of(context, row)->op);

	(void)text;
	return name ? name : "?";
}

#define BATCH_FIGURE(text, columns, member, how, name)                                             \
	{                                                                                          \
		.title = (text), .width = (columns), .number = batch_figure,                       \
		.key = (int)offsetof(struct lw_batch_row, member), .format = (how), .csv = (name)  \
	}

const struct lw_table_column lw_batch_columns[] = {
	{.title = "no.", .width = 3, .text = order_text, .value = order_value},
	BATCH_FIGURE("bytes", 8, bytes, lw_bytes_format, "bytes"),
	{.title = "n",
		.width = 4,
		.number = n_tensors,
		.format = lw_count_format,
		.csv = "n_tensors"},
	{.title = "tensors", .width = 12, .is_left = true, .grows = true, .text = members_text},
	BATCH_FIGURE("agreed", 7, agreed_ns, lw_ns_format, "agreed_ns"),
	BATCH_FIGURE("start", 7, start_ns, lw_ns_format, "start_ns"),
	BATCH_FIGURE("wire", 7, wire_ns, lw_ns_format, "wire_ns"),
	BATCH_FIGURE("busbw", 9, busbw_bytes_per_s, lw_rate_format, "busbw_bytes_per_s"),
	BATCH_FIGURE("algbw", 9, algbw_bytes_per_s, lw_rate_format, "algbw_bytes_per_s"),
	{.title = "times", .width = 5, .number = n_times, .format = lw_count_format, .csv = "n"},
	{.title = "what", .width = 13, .is_left = true, .text = op_text},
};
const size_t lw_batch_n_columns = sizeof(lw_batch_columns) / sizeof(lw_batch_columns[0]);
