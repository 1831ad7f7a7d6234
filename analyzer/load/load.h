/* SPDX-License-Identifier: Apache-2.0 */
/*
 * load.h - what the files of load/ share while stores are being read into a run.
 */
#ifndef LAPWING_ANALYZER_LOAD_LOAD_H
#define LAPWING_ANALYZER_LOAD_LOAD_H

#include "analyzer/run.h"

/* Beyond these a row is damage, and what computes with it must not overflow. */
#define LW_LOAD_TIME_MAX_NS (INT64_C(1) << 58) /* nine years of uptime */
#define LW_LOAD_BYTES_MAX   (INT64_C(1) << 50) /* of one operation */
enum { LW_LOAD_RANKS_MAX = INT32_MAX - 1 };

struct lw_load_thread {
	int64_t id, process_id;
	int32_t rank; /* index into run->ranks, LW_NONE = of a process that is no rank */
};

struct lw_load_member { /* table batch_tensor, before its batch is known */
	uint64_t serial, object, bytes;
	int64_t position;
	int32_t tensor, dtype;
};
typedef lw_vec(struct lw_load_member) lw_load_members;

struct lw_load_probe { /* table probe */
	int64_t start_ns, end_ns;
	uint64_t bytes;
	uint64_t number; /* see lw_load_probes.first_number */
	uint32_t burst, position;
	int op, transport;
};
struct lw_load_probes { /* of one rank */
	lw_vec(struct lw_load_probe) rows;
	size_t store;          /* of the last row, and its process: another one is another probe, */
	int64_t process_id;    /* whose numbers */
	uint64_t first_number; /* begin at the next multiple of 2^32 */
};

struct lw_load_text;       /* string id -> tensor, of one store */
struct lw_load_queue;      /* one RDMA queue pair, of one store */
struct lw_load_addresses;  /* interfaces by their addresses, of one store */
struct lw_load_ends;       /* ends of connections by their keys, of one store */
struct lw_load_connection; /* one TCP connection's totals, of one store */
struct lw_load_gpu;        /* texts and streams by their ids, of one store */
struct lw_load_names;      /* ends by their addresses, of all stores */

struct lw_loader { /* one store being read */
	struct lw_run *run;
	struct lw_store *store;
	size_t store_index;
	lw_vec(struct lw_load_thread) threads; /* by id */
	struct lw_load_text *texts;
	struct lw_load_connection *connections;
	lw_load_members *members;          /* by index of rank */
	struct lw_load_probes *probes;     /* by index of rank */
	uint64_t n_bad_rows;               /* impossible times, unknown threads: not used */
	struct lw_load_queue *queues;      /* while RDMA requests are read */
	struct lw_load_ends *ends;         /* while connections are read */
	struct lw_load_gpu *gpu;           /* while GPU work is read */
	int32_t last_nic;                  /* whose counters are being read, LW_NONE */
	size_t first_flow;                 /* of this store in run->flows */
	const struct lw_load_names *names; /* while flows are read */
	uint64_t n_bad_traffic;            /* the same of what is read from the network's tables */
};

/** lw_load_rows() - read the raw tables of @loader's store into the ranks that it holds. */
int lw_load_rows(struct lw_loader *loader);

/** lw_load_traffic() - sockets: totals and the cumulative curve of every rank of this store. */
int lw_load_traffic(struct lw_loader *loader);

/** lw_load_nics() - devices and their counters. */
int lw_load_nics(struct lw_loader *loader);

/** lw_load_samplers() - how often connections were listed. */
int lw_load_samplers(struct lw_loader *loader);

/**
 * lw_load_same_nics() - lw_nic.same_as and .ranks, once all stores are read; ends then use those that stand for others.
 * Return: LW_OK or LW_ERR_NOMEM.
 */
int lw_load_same_nics(struct lw_run *run);

/** lw_load_ends() - both ends of TCP connections, as hooked and as the kernel says; after lw_load_nics(). */
int lw_load_ends(struct lw_loader *loader);

/** lw_load_queues() - RDMA queue pairs as such ends; after lw_load_nics(). */
int lw_load_queues(struct lw_loader *loader);

/**
 * lw_load_names_make() - the ends of all ranks by their addresses, once all stores are read; they stay the run's.
 * Free with lw_load_names_free().
 */
int lw_load_names_make(const struct lw_run *run, struct lw_load_names **ret_names);
void lw_load_names_free(struct lw_load_names *names);

/** lw_load_peers() - lw_tcp_end.peer_rank of all ends. */
void lw_load_peers(struct lw_run *run, const struct lw_load_names *names);

/** lw_load_flow_ranks() - the ranks of @flow that are not known yet. */
void lw_load_flow_ranks(const struct lw_load_names *names, struct lw_packet_flow *flow);

/** lw_load_flows() - captured packets of all stores. */
int lw_load_flows(struct lw_run *run, const struct lw_load_names *names);

/** lw_load_bad_traffic() - a diag when n_bad_traffic rows were not used. */
int lw_load_bad_traffic(const struct lw_loader *loader);

/** lw_load_clock() - of a host: equal ones compare directly. Without a boot id each store stands alone. */
int64_t lw_load_clock(const struct lw_store *store, const char *boot_id, const char *clock);

/** lw_load_rank_index() - of this store's process; LW_NONE: it is no rank. */
int32_t lw_load_rank_index(struct lw_loader *loader, int64_t process_id);

/** lw_load_nic_index() - the device @id of this store in run->nics; LW_NONE. */
int32_t lw_load_nic_index(const struct lw_loader *loader, int64_t id);

/** lw_load_addresses_make() - after lw_load_nics(). Free with lw_load_addresses_free(). Return: LW_OK or LW_ERR_NOMEM. */
int lw_load_addresses_make(
	const struct lw_loader *loader, struct lw_load_addresses **ret_addresses);
void lw_load_addresses_free(struct lw_load_addresses *addresses);

/** lw_load_address_nic() - what a connection leaves by, index into run->nics; LW_NONE = nothing there has @local. */
int32_t lw_load_address_nic(const struct lw_load_addresses *addresses, int64_t namespace_key,
	const char *local, const char *peer);

/** lw_load_is_time() - @ns can be a time of a host. */
bool lw_load_is_time(int64_t ns);

/** lw_load_cores() - tables cores and cpu_sample; asked by lw_load_rows(). */
int lw_load_cores(struct lw_loader *loader);

/** lw_load_findings() - tables loss and hook as diags. */
int lw_load_findings(struct lw_loader *loader);

/** lw_load_told() - what the hooks that tell of GPUs and NCCL said of themselves, and the importer. */
int lw_load_told(struct lw_loader *loader);

/** lw_load_marks() - marks and ranges by name, and how many processes there are; of every process. (marks.c) */
int lw_load_marks(struct lw_loader *loader);

/** lw_load_marks_done() - of all stores: names that differ in digits only are one; lw_marks.why. Return: LW_OK or LW_ERR_NOMEM. */
int lw_load_marks_done(struct lw_run *run);
void lw_load_marks_free(struct lw_run *run);

/** lw_load_captures() - what captures miss, as diags. */
int lw_load_captures(struct lw_loader *loader);

/** lw_load_unfinished() - of ranks that were killed or waited in vain: gradients that no operation had carried to its end. After joining. */
int lw_load_unfinished(struct lw_run *run);

/** lw_load_each() - call @row for every row of @sql. Return: LW_OK, or the first error of either. */
int lw_load_each(struct lw_loader *loader, const char *sql,
	int (*row)(struct lw_loader *loader, sqlite3_stmt *row));

/** lw_load_rank_of_process() - the rank of this store's process, NULL when it is none. */
struct lw_rank *lw_load_rank_of_process(struct lw_loader *loader, int64_t process_id);

/** lw_load_rank_of_row() - the rank whose thread wrote this row (column 0); NULL: not used. */
struct lw_rank *lw_load_rank_of_row(struct lw_loader *loader, sqlite3_stmt *row);

/** lw_load_interval_of() - columns @i and @i + 1. Return: false: no interval, counted as bad row. */
bool lw_load_interval_of(
	struct lw_loader *loader, sqlite3_stmt *row, int i, int64_t *start_ns, int64_t *end_ns);

/** lw_load_tensor() - index of @name in run->tensors, added if new. Return: >= 0 or an error. */
int32_t lw_load_tensor(struct lw_run *run, const char *name);

/**
 * lw_load_join() - sort the rows of @rank and tie them together: member -> batch, ready -> member, wire
 * interval and coordination round -> batch, collective -> batch.
 * @members: rows of batch_tensor of this rank, reordered
 */
int lw_load_join(struct lw_run *run, struct lw_rank *rank, lw_load_members *members);

/**
 * lw_load_match_probes() - the k-th operation of the same probe on every rank becomes one of run->probes.
 * @probes: by index of rank, reordered
 */
int lw_load_match_probes(struct lw_run *run, struct lw_load_probes *probes);

/** lw_load_gpu() - kernels, copies, waits, launches, NCCL's operations of this store. (gpu.c) */
int lw_load_gpu(struct lw_loader *loader);

/** lw_load_nccl_proxies() - what NCCL's proxies moved, what carried it, which ranks communicators have; of lw_load_gpu(). (nccl_proxy.c) */
int lw_load_nccl_proxies(struct lw_loader *loader);

/** lw_load_nccl_join() - these to operations, ranks and ends of connections; when all stores are read and operations sorted. */
int lw_load_nccl_join(struct lw_run *run, struct lw_rank *rank);

/** lw_load_gpu_name() - index of @name in run->gpu.names, added if new. Return: >= 0 or an error. */
int32_t lw_load_gpu_name(struct lw_run *run, const char *name);

/** lw_load_gpu_join() - sort them and tie them together: launch to work, kernel to operation of NCCL. (gpu_join.c) */
int lw_load_gpu_join(struct lw_run *run, struct lw_rank *rank);

/** lw_load_gpu_collectives() - operations of NCCL as collectives of a run without a framework; before lw_load_join(). */
int lw_load_gpu_collectives(struct lw_run *run, struct lw_rank *rank);

/** lw_load_gpu_plain() - when batches made of them were ready, queued and on the wire, by their kernels; after lw_load_plain(). */
int lw_load_gpu_plain(struct lw_rank *rank);

/** lw_load_gpu_batches() - the framework's batches get the kernels that were launched for them; after lw_load_join(). */
int lw_load_gpu_batches(struct lw_run *run, struct lw_rank *rank);

/** lw_load_gpu_missing() - which launches lack their kernels; of lw_load_gpu_join(). (gpu_missing.c) */
int lw_load_gpu_missing(struct lw_run *run, struct lw_rank *rank);

/** lw_load_gpu_marks() - marks of steps, moved from when the host set them to when the GPU got there. (gpu_marks.c) */
int lw_load_gpu_marks(const struct lw_run *run, struct lw_rank *rank);

/** lw_load_nccl_hangs() - a diag for each operation of NCCL that never ended, once all ranks are joined. (nccl_hang.c) */
int lw_load_nccl_hangs(struct lw_run *run);

/** lw_load_gpu_free() - of one rank, of the run. */
void lw_load_gpu_free(struct lw_gpu_rank *gpu);

/** lw_load_plain() - a run without a framework: every payload collective becomes a batch. */
int lw_load_plain(struct lw_run *run, struct lw_rank *rank);

#endif /* LAPWING_ANALYZER_LOAD_LOAD_H */
