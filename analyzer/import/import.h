/* SPDX-License-Identifier: Apache-2.0 */
/*
 * import.h - traces that other tools wrote, as runs of ours.
 *
 * An importer is one file and one row in import.c's table: it recognises its format by the first
 * bytes and fills the raw tables through rows.h. Everything around it (the new run file, which appears
 * only when it is complete, its closing and its indexes) is done once, in import.c.
 */
#ifndef LAPWING_ANALYZER_IMPORT_IMPORT_H
#define LAPWING_ANALYZER_IMPORT_IMPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lw_import_rows;

/** Called now and then with what is done, 0 to 1. Return: LW_OK, or an error that ends the import. */
typedef int (*lw_import_progress_fn)(void *context, double done_frac);

struct lw_import_summary {
	const char *format;   /* name of the importer */
	uint64_t n_records;   /* of the input that were used */
	uint64_t n_ranks;     /* that the input tells of, 0 for packets */
	uint64_t n_job_ranks; /* of the job, as a profiler's trace says; 0 = it does not */
	uint64_t n_tensors, n_batches, n_collectives, n_ready, n_ranges;
	uint64_t n_packets, n_flows; /* of a capture; each packet once */
	/* of a profiler's trace */
	uint64_t n_without_kernel; /* launches of kernels that are not in the trace */
	uint64_t n_kernels, n_copies, n_launches, n_syncs, n_nccl_ops, n_nccl_unsized, n_steps;
	uint64_t n_unused;     /* records that are well formed, and of what a run does not hold */
	uint64_t n_elsewhere;  /* sightings of those at further interfaces */
	uint64_t n_unfinished; /* batches whose end is not in the input */
	uint64_t n_bad;        /* records that could not be used */
	uint64_t bytes;        /* payload of all batches whose size is known */
	int64_t duration_ns;   /* first to last event */
	bool is_truncated;     /* the input stops inside a record */
	char problem[256];     /* the first thing that is wrong with the input, "" = nothing */
};

struct lw_import { /* what an importer is given */
	const char *const *inputs;
	size_t n_inputs;   /* 1 unless the importer reads several */
	const char *input; /* the first */
	struct lw_import_rows *rows;
	lw_import_progress_fn on_progress; /* may be NULL */
	void *context;                     /* of on_progress */
	struct lw_import_summary *summary; /* zeroed; to be filled */
};

struct lw_importer {
	const char *name;  /* for --from, and run.source */
	const char *reads; /* one line: which files */
	/* may these @n_bytes be the beginning of such a file? */
	bool (*sniff)(const char *head, size_t n_bytes);
	bool reads_gzip;    /* also when they are compressed */
	bool reads_several; /* files of one run at once; then its errors name the file */
	/* LW_OK, or an error that names record or byte but not the file */
	int (*import)(struct lw_import *import);
};

extern const struct lw_importer lw_horovod_timeline_importer; /* horovod_timeline.c */
extern const struct lw_importer lw_kineto_importer;           /* kineto.c */
extern const struct lw_importer lw_pcap_importer;             /* pcap.c */

/** lw_importers() - the table of all importers. *@ret_n: how many. */
const struct lw_importer *const *lw_importers(size_t *ret_n);

/**
 * lw_import() - read @inputs, files of one run, and make the run file @output from them.
 * @inputs: a folder stands for all files in it that end in .json or .json.gz
 * @format: name of an importer, or NULL to recognise it
 * @on_progress: may be NULL; @context is handed to it
 * @output is written under another name in its folder and renamed at the end, so that a failed import
 * leaves nothing behind; it replaces a lapwing run, but no other file. The same input gives the same
 * bytes.
 * Return: LW_OK (look at n_bad and is_truncated); LW_ERR_USAGE (no such format, several files where one is read);
 * LW_ERR_FORMAT (no trace, or @output is another program's file); LW_ERR_IO; or what @on_progress returned.
 */
int lw_import(const char *const *inputs, size_t n_inputs, const char *format, const char *output,
	lw_import_progress_fn on_progress, void *context, struct lw_import_summary *ret_summary);

#endif /* LAPWING_ANALYZER_IMPORT_IMPORT_H */
