/* SPDX-License-Identifier: Apache-2.0 */
/* samplers.c - how often the collector looked, where it did so less often than it was asked to. */
#include <string.h>

#include "analyzer/load/load.h"

static int add_sampler(struct lw_loader *loader, sqlite3_stmt *row)
{
	int64_t period_ns = sqlite3_column_int64(row, 1);

	if (!strcmp(lw_store_column_text(row, 0), "tcp_list") && lw_load_is_time(period_ns) &&
		period_ns > loader->run->tcp_list_ns)
		loader->run->tcp_list_ns = period_ns;
	return LW_OK;
}

int lw_load_samplers(struct lw_loader *loader)
{
	return lw_load_each(loader, "SELECT name, actual_period_ns FROM sampler", add_sampler);
}
