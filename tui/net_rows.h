/* SPDX-License-Identifier: Apache-2.0 */
/* net_rows.h - columns of two tables over run->nics and run->network.links, whose context is the run; what stands below. */
#ifndef LAPWING_TUI_NET_ROWS_H
#define LAPWING_TUI_NET_ROWS_H

#include "analyzer/analyzer.h"
#include "tui/table.h"

extern const struct lw_table_column lw_nic_columns[], lw_link_columns[];
extern const size_t lw_nic_n_columns, lw_link_n_columns;

/** lw_net_carries_text() - "5 MB/s", ">5 MB/s" where it is at least that (enum lw_capacity_from). Return: @text or "?". */
const char *lw_net_carries_text(double bytes_per_s, int from, char text[LW_TABLE_TEXT_BYTES]);

/** lw_net_rows_note() - what the traffic between ranks looks like, or why that is not known, in one line. Return: @text. */
const char *lw_net_rows_note(const struct lw_run *run, char text[LW_TABLE_TEXT_BYTES]);

/**
 * lw_net_facts_draw() - figures of collectives and network, each with how it is known, and what was recorded of it.
 * @n_connections: of TCP and RDMA; @pane: as many lines as there is room for
 */
void lw_net_facts_draw(
	const struct lw_analysis *analysis, size_t n_connections, struct lw_pane pane);

#endif /* LAPWING_TUI_NET_ROWS_H */
