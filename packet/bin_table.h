/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bin_table.h - the bins of a batch as a table that SQLite reads itself, so that a batch is one INSERT ... SELECT
 * (as the collector stores records: twice the speed of a prepared INSERT a row).
 */
#ifndef LAPWING_PACKET_BIN_TABLE_H
#define LAPWING_PACKET_BIN_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "packet/flow.h"
#include "schema/store.h"

struct lw_bin_source {
	const struct lw_packet_bin *bins;
	size_t n;
	const int64_t *flow_ids; /* rows of table flow, by the bins' index of their flow */
};

/**
 * lw_bin_table_attach() - make table lw_in_packet_bin of @store's connection read @source, which must outlive
 * the use of *@ret_insert: the statement that stores all of it. The caller finalizes that.
 * Return: LW_OK or the store's error.
 */
int lw_bin_table_attach(
	struct lw_store *store, struct lw_bin_source *source, sqlite3_stmt **ret_insert);

#endif /* LAPWING_PACKET_BIN_TABLE_H */
