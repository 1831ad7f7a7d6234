/* SPDX-License-Identifier: Apache-2.0 */
/* record_columns.h - which column of which table each field of a record goes to. */
#ifndef LAPWING_COLLECTOR_RECORD_COLUMNS_H
#define LAPWING_COLLECTOR_RECORD_COLUMNS_H

#include <stddef.h>

#include "schema/event.h"

enum lw_field_type {
	FIELD_END,
	FIELD_HOST, /* not of the record: its host, process, thread */
	FIELD_PROCESS,
	FIELD_THREAD,
	FIELD_U16,
	FIELD_U16_MAX, /* NULL when UINT16_MAX */
	FIELD_U8,
	FIELD_U32,
	FIELD_U32_ZERO, /* NULL when 0 */
	FIELD_U32_MAX,  /* NULL when UINT32_MAX */
	FIELD_I32,
	FIELD_64,       /* amounts (checked to fit), times, and opaque keys bit by bit */
	FIELD_64_ZERO,  /* NULL when 0 */
	FIELD_64_MAX,   /* NULL when UINT64_MAX */
	FIELD_DOUBLE,   /* checked to be a number */
	FIELD_US_TO_NS, /* uint32 microseconds */
	FIELD_STRING,   /* text id: row in table string, NULL when 0 or never arrived */
	FIELD_ADDRESS,  /* 16 bytes: IPv6, or IPv4 mapped into it, as text */
	FIELD_GID,      /* the same, NULL when all zero */
};

struct lw_column {
	const char *name;
	enum lw_field_type type;
	size_t offset; /* in struct lw_event */
};

enum { LW_MAX_COLUMNS = 18 };

struct lw_kind_table {
	const char *name;
	struct lw_column columns[LW_MAX_COLUMNS];
};

/* By kind; without a name: a kind that does not go to a table of its own. */
extern const struct lw_kind_table lw_kind_tables[LW_EV_COUNT];

#endif /* LAPWING_COLLECTOR_RECORD_COLUMNS_H */
