/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cupti_records.h - from one record of CUPTI's to one of ours: bytes in, struct lw_event out.
 *
 * Nothing here calls CUPTI, looks at a clock, or follows a pointer that a record holds.
 */
#ifndef LAPWING_TRACER_CUPTI_RECORDS_H
#define LAPWING_TRACER_CUPTI_RECORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schema/event.h"

/* Calls whose purpose, or whose first record, is remembered at a time; a power of two. */
enum { LW_CUPTI_REMEMBERED = 4096 };

struct lw_cupti_parser {
	int64_t offset_ns;     /* added to every time of CUPTI's */
	bool is_tid_of_kernel; /* threads are told by the kernel's number for them; else tid is 0 */
	struct {
		uint64_t serial;
		uint32_t correlation;
		uint16_t made_for; /* enum lw_launch_for */
	} purpose
		[LW_CUPTI_REMEMBERED]; /* by correlation: external records come before their call's */
	uint32_t launched
		[LW_CUPTI_REMEMBERED]; /* by correlation: a call that has given its LAUNCH */
};

enum lw_cupti_verdict {
	LW_CUPTI_IS_EVENT,     /* the record is filled */
	LW_CUPTI_IS_NOTHING,   /* of no interest, or kept for a later record */
	LW_CUPTI_IS_UNKNOWN,   /* a kind that was not asked for */
	LW_CUPTI_IS_TORN,      /* too short, or its times or numbers cannot be */
	LW_CUPTI_IS_UNFINISHED /* GPU work whose start or end is not known */
};

struct lw_cupti_record {
	struct lw_event event; /* without name; never seq */
	/* Of KERNEL and GPU: a pointer as the record has it, the caller's to believe. Of others: static. */
	const char *name;    /* NULL = none */
	size_t n_name;       /* 0 = up to its terminating zero */
	const uint8_t *uuid; /* of a GPU: 16 bytes inside the record; else NULL */
};

/**
 * lw_cupti_parse() - read one record.
 * @record, @n_bytes: its bytes, as long as they surely are its own
 * @out: filled for LW_CUPTI_IS_EVENT only
 */
enum lw_cupti_verdict lw_cupti_parse(struct lw_cupti_parser *parser, const void *record,
	size_t n_bytes, struct lw_cupti_record *out);

/**
 * lw_cupti_call() - the @i-th CUDA call whose records are wanted, from 0.
 * @ret_is_driver: of the driver's interface, else of the runtime's
 * Return: its callback number; 0 = there are no more.
 */
uint32_t lw_cupti_call(size_t i, bool *ret_is_driver);

#endif /* LAPWING_TRACER_CUPTI_RECORDS_H */
