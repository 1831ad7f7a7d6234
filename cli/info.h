/* SPDX-License-Identifier: Apache-2.0 */
/* info.h - what the files of `lapwing info` share: cmd_info.c has the run, info_network.c its network, info_gpu.c its
 * GPUs, info_marks.c its marks. */
#ifndef LAPWING_CLI_INFO_H
#define LAPWING_CLI_INFO_H

#include "analyzer/emit/json.h"
#include "schema/store.h"

typedef void (*lw_info_row_fn)(sqlite3_stmt *row, struct lw_json *json);

/** lw_info_each() - call @row for every row of @sql. Return: LW_OK or the store's error. */
int lw_info_each(struct lw_store *store, const char *sql, lw_info_row_fn row, struct lw_json *json);

/** lw_info_put_int() - column @i as an integer, null where the store has NULL. */
void lw_info_put_int(struct lw_json *json, const char *key, sqlite3_stmt *row, int i);
void lw_info_put_text(struct lw_json *json, const char *key, sqlite3_stmt *row, int i);

/** lw_info_print_network() - lines of text on stdout. Return: LW_OK or the store's error. */
int lw_info_print_network(struct lw_store *store);

/** lw_info_put_network() - the same as keys of the open object. */
int lw_info_put_network(struct lw_store *store, struct lw_json *json);

/** lw_info_print_marks(), lw_info_put_marks() - marks and ranges by name, 20 at most. */
int lw_info_print_marks(struct lw_store *store);
int lw_info_put_marks(struct lw_store *store, struct lw_json *json);

/** lw_info_print_gpus(), lw_info_put_gpus() - likewise. */
int lw_info_print_gpus(struct lw_store *store);
int lw_info_put_gpus(struct lw_store *store, struct lw_json *json);

#endif /* LAPWING_CLI_INFO_H */
