/* SPDX-License-Identifier: Apache-2.0 */
/* kineto_event.h - one event of a trace of PyTorch's profiler. Not for: what several of them mean together. */
#ifndef LAPWING_ANALYZER_IMPORT_KINETO_EVENT_H
#define LAPWING_ANALYZER_IMPORT_KINETO_EVENT_H

#include <stdbool.h>
#include <stdint.h>

#include "analyzer/import/json_stream.h"

/* Of an array, e.g. the tensors of an operation, so many are read. In keys the last of them is LW_KINETO_LAST_ELEMENT. */
enum { LW_KINETO_ELEMENTS = 8 };
#define LW_KINETO_LAST_ELEMENT ".7."

enum lw_kineto_kind {
	LW_KINETO_OTHER, /* well formed, nothing that a run holds: metadata, flows, Python frames */
	LW_KINETO_BAD,   /* an interval without its times, or with impossible ones */
	LW_KINETO_KERNEL,
	LW_KINETO_COPY, /* memsets too */
	LW_KINETO_LAUNCH, /* a call of the CUDA or HIP runtime or driver that starts or awaits GPU work */
	LW_KINETO_SYNC,      /* a wait as the device's profiler tells it */
	LW_KINETO_RANGE,     /* annotation or operator, on a thread */
	LW_KINETO_GPU_RANGE, /* an annotation's extent on a stream */
	LW_KINETO_OVERHEAD
};

struct lw_kineto_event { /* texts live as long as its record */
	enum lw_kineto_kind kind;
	const char *name;
	int64_t start_ns, end_ns; /* as the file counts, from its base */
	bool is_unordered;        /* its duration was negative: end = start */
	bool is_operator;         /* RANGE: cpu_op */
	int op; /* COPY: enum lw_copy_op; LAUNCH: enum lw_launch_op; SYNC, and LAUNCH of a wait: enum lw_gpu_sync_op in sync_op */
	int sync_op;                      /* 0 = none */
	uint32_t device, context, stream; /* stream UINT32_MAX = not known */
	uint32_t correlation;             /* 0 = not known */
	uint32_t tid;                     /* of the host's thread */
	uint32_t pid;
	uint32_t graph; /* KERNEL: CUDA graph that it is a node of, 0 = none */
	uint64_t bytes;
	const struct lw_json_record *record;
};

/** lw_kineto_event() - what @record is. */
void lw_kineto_event(const struct lw_json_record *record, struct lw_kineto_event *ret_event);

/**
 * lw_kineto_time_ns() - us in decimal, of which doubles would lose digits, as ns, rounded to the nearest.
 * Return: false: no number, or beyond 64 bits.
 */
bool lw_kineto_time_ns(const struct lw_json_field *field, int64_t *ret_ns);

/** lw_kineto_step() - the number N of "ProfilerStep#N"; -1: @name is none. */
int64_t lw_kineto_step(const char *name);

struct lw_kineto_payload { /* what is known of a collective */
	int op;            /* enum lw_nccl_op, 0 = not told */
	int dtype;         /* enum lw_dtype */
	uint64_t bytes;    /* count x type size, as the caller of torch gave them */
	bool has_bytes;
	const char *group;  /* name of the process group, NULL = not told */
	const char *ranks;  /* of the group, as text, NULL = not told */
	int64_t group_size; /* 0 = not told */
};

/** lw_kineto_payload() - by the arguments of a kernel: "Collective name", "In msg nelems", ... */
void lw_kineto_payload(const struct lw_json_record *record, struct lw_kineto_payload *ret_payload);

/** lw_kineto_annotation() - by an annotation "nccl:all_reduce" and the shapes of what it was given. Return: false: none. */
bool lw_kineto_annotation(
	const struct lw_json_record *record, struct lw_kineto_payload *ret_payload);

#endif /* LAPWING_ANALYZER_IMPORT_KINETO_EVENT_H */
