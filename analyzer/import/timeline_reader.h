/* SPDX-License-Identifier: Apache-2.0 */
/*
 * timeline_reader.h - the state of one reading of a timeline: between timeline.c, which knows records
 * and tensors, and timeline_batch.c, which knows what one operation carried. For these two only.
 */
#ifndef LAPWING_ANALYZER_IMPORT_TIMELINE_READER_H
#define LAPWING_ANALYZER_IMPORT_TIMELINE_READER_H

#include <uthash.h>

#include "analyzer/import/timeline.h"

enum { LW_TIMELINE_MAX_OPEN = 8 };

struct lw_timeline_open {
	struct lw_activity_stats *activity;
	struct lw_timeline_run *run; /* NULL for negotiations and operations */
	int64_t start_ns;
};

struct lw_timeline_tensor {
	int64_t pid; /* the timeline's key */
	char *name;
	int64_t mark;
	struct lw_timeline_open open[LW_TIMELINE_MAX_OPEN];
	int n_open;
	uint64_t object; /* of its latest negotiation, until an operation takes it; 0 = none */
	int64_t negotiated_ns;
	bool is_ticked; /* ranks reported in that negotiation */
	lw_vec(struct lw_timeline_tick) ticks;
	struct lw_timeline_batch *batch; /* that it is a member of now */
	size_t position;                 /* in that batch */
	uint64_t bytes;                  /* as last seen at an end */
	int dtype, size_op;              /* size_op: operation that it was seen on, 0 = never */
	struct lw_timeline_tensor *next; /* of those whose pid was given to another */
	UT_hash_handle hh;
};

struct lw_timeline_reader {
	struct lw_timeline_stats *stats;
	const struct lw_timeline_sink *sink;
	struct lw_timeline_tensor *tensors, *retired;
	struct activity_entry *activities; /* by name */
	struct lw_timeline_batch *batches; /* not ended yet, by start */
	int64_t base_ns;                   /* added to all times: later parts of a joined file */
	uint64_t n_objects;
	/* what the previous event began, when the next one may belong to it */
	struct lw_timeline_run *last_run;
	struct lw_timeline_batch *last_batch;
};

/** lw_timeline_batch_begin() - an operation begins on @tensor: a new batch, or one more of the last. */
int lw_timeline_batch_begin(struct lw_timeline_reader *r, struct lw_timeline_tensor *tensor,
	const struct lw_timeline_open *interval);

/**
 * lw_timeline_batch_end() - the operation of @tensor ends, seen by @record or (NULL) cut off; the last
 * member's end hands the batch to the sink and frees it.
 */
int lw_timeline_batch_end(struct lw_timeline_reader *r, struct lw_timeline_tensor *tensor,
	int64_t at_ns, const struct lw_json_record *record);

/** lw_timeline_batch_free() - without telling anyone. */
void lw_timeline_batch_free(struct lw_timeline_reader *r, struct lw_timeline_batch *batch);

/** lw_timeline_run_begin() - an activity begins on @tensor; sets @interval->run. */
int lw_timeline_run_begin(struct lw_timeline_reader *r, struct lw_timeline_tensor *tensor,
	struct lw_timeline_open *interval);

/** lw_timeline_run_end() - it ends on one tensor of @run; the first end fixes the batch. */
int lw_timeline_run_end(struct lw_timeline_reader *r, struct lw_timeline_run *run, int64_t at_ns,
	bool is_unfinished);
void lw_timeline_run_free(struct lw_timeline_run *run);

#endif /* LAPWING_ANALYZER_IMPORT_TIMELINE_READER_H */
