/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kineto.h - the state of an import of traces of PyTorch's profiler: between kineto.c, which knows the job, kineto_scan.c,
 * which reads each file for what it holds as a whole, and kineto_rows.c, which reads it again for its rows. For these only.
 *
 * One file is one rank. Its times count from its base (baseTimeNanoseconds; without one, from the epoch or from the start of
 * the host) and are stored from the run's origin.
 */
#ifndef LAPWING_ANALYZER_IMPORT_KINETO_H
#define LAPWING_ANALYZER_IMPORT_KINETO_H

#include <uthash.h>

#include "analyzer/import/import.h"
#include "analyzer/import/kineto_event.h"
#include "analyzer/import/rows.h"
#include "base/vec.h"

enum {
	LW_KINETO_MAX_FILES = 1 << 14,
	LW_KINETO_MAX_OPS = 1 << 22, /* of NCCL, of one file; further ones stay kernels */
	LW_KINETO_MAX_GROUPS = 1 << 12,
	LW_KINETO_MAX_DEVICES = 64,
	LW_KINETO_MAX_STEPS = 1 << 20,
};

struct lw_kineto_op {             /* an operation of NCCL: a kernel of it */
	int64_t start_ns, end_ns; /* of the kernel, as the file counts */
	int64_t called_ns; /* start of the call that launched it; LW_ROW_NULL = not in the file */
	uint32_t correlation, tid; /* tid: of that call */
	uint32_t place;            /* of the first with its correlation, in by_correlation */
	uint32_t n_same; /* operations with this correlation: more than one are of a CUDA graph */
	int op, algorithm, dtype; /* enum lw_nccl_op, enum lw_nccl_algorithm, enum lw_dtype */
	uint64_t bytes;
	bool has_bytes, is_told; /* told: the kernel's arguments say which operation it is */
	int32_t group;           /* index into groups, -1 = not told */
};

struct lw_kineto_group {    /* a process group, as communicator */
	int64_t key;        /* the same on all its ranks */
	int64_t size, rank; /* -1 = not known */
	int64_t first_ns;
};

struct lw_kineto_annotation { /* "nccl:all_reduce" on a thread of the host */
	int64_t start_ns, end_ns;
	uint32_t tid;
	int op, dtype;
	uint64_t bytes;
	bool has_bytes;
};

struct lw_kineto_step {
	int64_t number, start_ns, end_ns;
	uint32_t tid;
};

struct lw_kineto_device {
	int64_t id, memory_bytes, n_multiprocessors, major, minor;
	char name[96];
};

struct lw_kineto_file {
	const char *path;
	struct lw_json_result json;
	/* of the whole: */
	int64_t rank, world_size; /* -1 = not told */
	int64_t base_ns;          /* added to its times */
	bool has_base;
	int64_t origin_ns;         /* of its times with the base: what is stored is from there */
	int64_t first_ns, last_ns; /* of all intervals that are used; first > last: there is none */
	uint32_t pid;
	uint64_t n_kernels, n_bad;
	struct lw_kineto_device devices[LW_KINETO_MAX_DEVICES];
	size_t n_devices;
	lw_vec(struct lw_kineto_op) ops; /* by start */
	lw_vec(uint32_t) by_correlation; /* indices into ops, by correlation, start */
	lw_vec(struct lw_kineto_group) groups;
	lw_vec(struct lw_kineto_annotation) annotations; /* by tid, start */
	lw_vec(struct lw_kineto_step) steps;             /* by start */
	uint64_t n_ops_left_out;
};

/** lw_kineto_scan() - fill @file, whose path is set, from its first reading. Return: LW_OK or an error that names the file. */
int lw_kineto_scan(struct lw_kineto_file *file, lw_progress_fn on_progress, void *context);
void lw_kineto_file_done(struct lw_kineto_file *file);

/** lw_kineto_op_of() - operations of @file launched by the call @correlation. *@ret_n: how many. NULL: none. */
struct lw_kineto_op *lw_kineto_op_of(
	const struct lw_kineto_file *file, uint32_t correlation, uint32_t *ret_n);

/** lw_kineto_serial() - of an operation of @file, from 1, by time. */
int64_t lw_kineto_serial(const struct lw_kineto_file *file, const struct lw_kineto_op *op);

struct lw_kineto_thread { /* a thread of the host, or a stream, that has rows */
	uint64_t key;     /* tid, or stream with its device and a mark */
	int64_t id, n_rows;
	UT_hash_handle hh;
};

struct lw_kineto_text {
	char *text;
	int64_t id;
	UT_hash_handle hh;
};

struct lw_kineto_writer { /* while rows of one file are written */
	struct lw_import *import;
	struct lw_kineto_file *file;
	int64_t process_id;      /* of the file; its own thread has the same id */
	int64_t *next_thread_id; /* of the run */
	int64_t offset_ns;       /* added to times of the file */
	struct lw_kineto_thread *threads;
	struct lw_kineto_text **texts; /* of the run */
	struct lw_kineto_thread own;
	uint64_t used_devices; /* a bit each */
	lw_progress_fn on_progress;
	void *context;
};

/** lw_kineto_write() - the rows of a scanned file, its process and threads included. */
int lw_kineto_write(struct lw_kineto_writer *writer);

/** lw_kineto_string() - id of @text in the store, remembered in @texts. Return: > 0 or an error. */
int64_t lw_kineto_string(
	struct lw_import_rows *rows, struct lw_kineto_text **texts, const char *text);

#endif /* LAPWING_ANALYZER_IMPORT_KINETO_H */
