/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu.h - what GPUs did, in memory: the part of run.h that tells of kernels, streams and NCCL.
 *
 * From a trace of ours (CUPTI, NCCL) or an imported one (Kineto), the same either way. Times are the device's own, told
 * on the clock of its rank like all others. Each field says which stage fills it: "load" (load/gpu.c), "gpu"
 * (reconstruct/gpu.c, after overlap). A rank without kernels has empty vectors and LW_NS_UNKNOWN in every figure.
 */
#ifndef LAPWING_ANALYZER_GPU_H
#define LAPWING_ANALYZER_GPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/vec.h"

struct lw_run;
struct lw_rank;

struct lw_interval {
	int64_t start_ns, end_ns;
};

/* What GPU time was for. X(NAME, lower-case name on screens) */
#define LW_GPU_CLASSES(X)                                                                          \
	X(COMPUTE, "compute")                                                                      \
	X(COMMUNICATION, "communication")                                                          \
	X(COPY, "copy")

enum lw_gpu_class {
#define X(name, text) LW_GPU_##name,
	LW_GPU_CLASSES(X)
#undef X
		LW_GPU_N_CLASSES
};

/* Where the figures of a step are from. */
enum lw_time_source {
	LW_TIME_FROM_HOST, /* when the training thread computed and waited */
	LW_TIME_FROM_GPU   /* when kernels ran */
};

struct lw_kernel {
	int64_t start_ns, end_ns;
	uint32_t name;   /* index into run->gpu.names */
	uint32_t stream; /* index into rank->gpu.streams; the device stands there */
	int32_t launch;  /* index into rank->gpu.launches, LW_NONE = not recorded */
	int32_t nccl_op; /* index into rank->gpu.nccl_ops, LW_NONE = of none */
	uint32_t correlation;
	uint8_t gpu_class; /* enum lw_gpu_class */
	uint16_t flags;    /* enum lw_kernel_flag */
};

struct lw_copy { /* copies and memsets that are no kernels; their class is LW_GPU_COPY */
	int64_t start_ns, end_ns;
	uint64_t bytes;
	uint32_t stream;
	int32_t launch;
	uint32_t correlation;
	int op; /* enum lw_copy_op */
};

struct lw_gpu_sync {
	int64_t start_ns, end_ns;
	int64_t thread_id; /* in its store */
	uint32_t tid;      /* of the thread that called, 0 = not known */
	int32_t stream;    /* index into rank->gpu.streams, LW_NONE = no single one, or not known */
	int32_t launch;    /* of the call */
	int op;            /* enum lw_gpu_sync_op */
	uint32_t correlation, context, number; /* number: of the stream, as CUDA numbers it */
	bool has_number;
};

struct lw_gpu_launch { /* the host asked for GPU work */
	int64_t start_ns, end_ns;
	uint32_t correlation, tid;
	uint32_t name;   /* index into run->gpu.names, UINT32_MAX = not known */
	int op;          /* enum lw_launch_op */
	int32_t nccl_op; /* that it was made for: index into rank->gpu.nccl_ops, LW_NONE */
	int32_t batch;   /* likewise into rank->batches */
	uint32_t result; /* 0 = success */
	int made_for;    /* enum lw_launch_for: what for_serial is of */
	uint64_t for_serial;
	/* of a kernel: when that began on the device; of one without, about when it would have; LW_NS_UNKNOWN */
	int64_t device_ns;
	bool lacks_kernel; /* none is recorded, though launches by the same function have theirs */
};

/* Launches of kernels in one stretch of time, in their order, and how many of them lack theirs. */
struct lw_gpu_launched {
	uint64_t n, n_lacking;
	uint64_t in_a_row, most_in_a_row; /* of those that lack theirs */
	bool is_first_lacking;
};

struct lw_nccl_call {                           /* one operation of NCCL: a row of table nccl_op */
	int64_t start_ns, end_ns;               /* enqueued to completed, on the host; see flags */
	int64_t kernel_start_ns, kernel_end_ns; /* of its kernel; LW_NS_UNKNOWN = none joined */
	int64_t comm_key;
	int64_t thread_id; /* in its store */
	uint64_t serial, bytes;
	int32_t peer;   /* root or peer in its communicator, -1 = none */
	uint32_t group; /* calls of one group share it, 0 = none */
	int32_t kernel; /* index into rank->gpu.kernels, LW_NONE; the calls of a group share one */
	int32_t batch; /* index into rank->batches: that it served, or that stands for it; LW_NONE */
	int op;        /* enum lw_nccl_op */
	uint8_t algorithm,
		protocol; /* enum lw_nccl_algorithm, enum lw_nccl_protocol; else of the kernel's name */
	uint8_t n_channels, dtype; /* 0 = not known */
	uint16_t flags, source;    /* enum lw_nccl_flag, enum lw_nccl_source; source 0 = imported */
};

/* What the proxies of one operation of NCCL, one a channel, sent to or received from one peer: rows of table nccl_proxy.
 * Waits are sums over messages (NCCL's steps), of which up to 8 of a proxy are under way at once: more than the time that
 * went by. Of one that receives, peer_ns is posted and nothing there yet, wire_ns is 0. */
struct lw_nccl_proxy {
	uint64_t serial; /* of its operation, 0 = of another process (PXN), or not known */
	int32_t op; /* index into rank->gpu.nccl_ops; LW_NONE = its operation is not in the run */
	int32_t comm_peer; /* rank in its communicator */
	int32_t peer;      /* index into run->ranks, LW_NONE = not in the run, or not known */
	uint32_t n_proxies;
	bool is_send;
	uint64_t n_messages, bytes;
	int64_t start_ns, end_ns;
	double gpu_ns, peer_ns, wire_ns;
};

/* What carried an operation of NCCL, by its own word: rows of table nccl_net. */
struct lw_nccl_carrier {
	uint64_t serial;
	int32_t op;  /* likewise */
	int32_t end; /* index into run->ends: its queue pair or socket, LW_NONE = not recorded */
	int kind;    /* enum lw_nccl_net_op */
	uint32_t
		number; /* of the queue pair on the wire, of the socket in the process; 0 = not known */
	uint64_t n, bytes;
};

/* load: which rank of the run a rank of a communicator of NCCL is. */
struct lw_nccl_comm_rank {
	int64_t comm_key;
	int32_t comm_rank;
	int32_t rank; /* index into run->ranks */
	int32_t size; /* ranks of the communicator */
};

struct lw_gpu_stream {
	uint32_t device, context, stream; /* as CUDA numbers them in the process */
	uint64_t n_kernels, n_copies;
	int64_t busy_ns;                    /* gpu: union of all that ran on it */
	int64_t class_ns[LW_GPU_N_CLASSES]; /* gpu: sums */
};

struct lw_gpu_device {
	uint32_t device;
	char *name, *pci; /* "" = not known */
	uint64_t memory_bytes;
	uint32_t n_multiprocessors, clock_khz;
	int major, minor;
};

/* gpu: unions over the streams of a rank; all LW_NS_UNKNOWN when it has no kernel. */
struct lw_gpu_times {
	int64_t compute_ns; /* a compute kernel ran */
	int64_t comm_ns;    /* a communication kernel ran */
	int64_t hidden_ns;  /* both; hidden + exposed = comm */
	int64_t exposed_ns; /* a communication kernel and no compute kernel */
	int64_t copy_ns;    /* a copy ran, whatever else did */
	int64_t idle_ns;    /* neither compute nor communication kernel; copies count as idle */
	int64_t comm_sum_ns; /* lengths of communication kernels added up: what ran side by side counts twice */
	/* Of exposed: no compute kernel ran, as the host had waited for the device and launched the next one late. At most
	 * the length of that wait, and only where the next kernel need not have waited for the operation: see
	 * reconstruct/gpu_sync.c. 0 where launches or waits were not recorded: then has_syncs is false. */
	int64_t sync_lost_ns;
};

#define LW_GPU_TIMES_UNKNOWN                                                                       \
	((struct lw_gpu_times){INT64_MIN, INT64_MIN, INT64_MIN, INT64_MIN, INT64_MIN, INT64_MIN,   \
		INT64_MIN, INT64_MIN})

/* gpu: one place where overlap was lost to synchronisation; the evidence of sync_lost_ns. */
struct lw_gpu_lost {
	int32_t rank;   /* index into run->ranks */
	int32_t step;   /* index into its steps, LW_NONE */
	int32_t launch; /* index into rank->gpu.launches: the call that waited, the last of several */
	int32_t kernel; /* the compute kernel that began late */
	int32_t comm;   /* the first communication kernel that ran exposed meanwhile */
	int64_t start_ns,
		end_ns;     /* no compute kernel ran, and launching earlier would have helped */
	int64_t exposed_ns; /* of that, communication ran */
};

struct lw_gpu_name { /* load: one distinct name of kernels or of functions that launch; gpu: its sums */
	const char *name;  /* as it is in the store: mangled, or as the profiler wrote it */
	uint8_t gpu_class; /* enum lw_gpu_class, for kernels */
	uint8_t algorithm, protocol; /* of an NCCL kernel whose name says so, else 0 */
	int nccl_op;                 /* enum lw_nccl_op likewise, 0 = none */
	uint64_t n; /* kernels, of all ranks, in steps that count (all, where there are none) */
	int64_t total_ns;  /* their lengths */
	double share_frac; /* of the lengths of all kernels */
};

struct lw_gpu_rank { /* of struct lw_rank */
	/* load */
	lw_vec(struct lw_gpu_device) devices;  /* by device */
	lw_vec(struct lw_gpu_stream) streams;  /* by device, context, stream */
	lw_vec(struct lw_kernel) kernels;      /* by start_ns */
	lw_vec(struct lw_copy) copies;         /* by start_ns */
	lw_vec(struct lw_gpu_sync) syncs;      /* by start_ns */
	lw_vec(struct lw_gpu_launch) launches; /* by start_ns */
	lw_vec(struct lw_nccl_call) nccl_ops;  /* by start_ns */
	lw_vec(struct lw_nccl_proxy)
		nccl_proxies; /* by op, those of none first; sends first, peer */
	lw_vec(struct lw_nccl_carrier) nccl_carriers; /* by op, those of none first */
	int nccl_plugin; /* version of the interface by which NCCL told of them; 0 = not known */
	bool has_syncs;  /* waits for the device and launches were recorded */
	struct lw_gpu_launched launched;                   /* all of its launches of kernels */
	lw_vec(struct lw_interval) busy[LW_GPU_N_CLASSES]; /* unions over its streams, by start */
	/* gpu */
	struct lw_gpu_times whole; /* from its first kernel to its last end */
	struct lw_gpu_times sum;   /* over its steps that count */
	uint64_t n_steps;          /* of sum */
};

struct lw_gpu_run {                                       /* of struct lw_run */
	bool has_kernels;                                 /* load: of some rank */
	lw_vec(struct lw_gpu_name) names;                 /* load */
	struct lw_name *by_name;                          /* load: their texts -> index */
	lw_vec(struct lw_nccl_comm_rank) nccl_comm_ranks; /* load: by comm_key, comm_rank */
	lw_vec(struct lw_gpu_lost)
		lost; /* gpu: of steps that count (of all, where there are none), longest first, at most LW_GPU_LOST_MAX */
	uint64_t n_lost; /* gpu: such places in all */
	uint64_t
		n_lost_unclear; /* gpu: not counted, as the kernel may have had to wait for the operation */
};
enum { LW_GPU_LOST_MAX = 64 };

/** lw_gpu_class_name() - "compute"; "" for a number that is none. */
const char *lw_gpu_class_name(int gpu_class);

/**
 * lw_nccl_is_alltoall() - the @n sends and receives of one group, from @first on, are an all-to-all: each other rank of
 * their one communicator is sent to and received from. An exchange with neighbours is none. (load/gpu_batch.c)
 */
bool lw_nccl_is_alltoall(const struct lw_run *run, const struct lw_nccl_call *first, size_t n);

/** lw_gpu_launched_add() - one more launch, a later one; those of no kernel do not count. (load/gpu_missing.c) */
void lw_gpu_launched_add(struct lw_gpu_launched *launched, const struct lw_gpu_launch *launch);

/** lw_gpu_launched_is_part() - so many lack their kernels that what the others say is not true of the whole. */
bool lw_gpu_launched_is_part(const struct lw_gpu_launched *launched);

/** lw_gpu_is_part() - what is recorded of the GPU work of @rank is but a part of it. (load/gpu_missing.c) */
bool lw_gpu_is_part(const struct lw_run *run, const struct lw_rank *rank);

/** lw_gpu_has() - kernels of @rank were recorded, so its figures are from the GPU. */
#define lw_gpu_has(rank) ((rank)->gpu.kernels.n > 0)

#endif /* LAPWING_ANALYZER_GPU_H */
