/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run.h - a run in memory: what every analyzer stage reads and the next ones add to.
 *
 *	load -> match -> step -> (align) -> phase -> overlap -> gpu -> network -> fit -> (reach) -> model -> simulate -> advise
 *
 * Each field says which stage fills it; a stage writes only its own. Times are int64 ns of the host
 * clock of that rank (one host: one clock), LW_NS_UNKNOWN where nobody could know.
 */
#ifndef LAPWING_ANALYZER_RUN_H
#define LAPWING_ANALYZER_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyzer/gpu.h"
#include "analyzer/traffic.h"
#include "base/vec.h"
#include "schema/event.h"
#include "schema/store.h"

#define LW_NS_UNKNOWN INT64_MIN
enum { LW_NONE = -1 };

/* Where a figure comes from (DESIGN: results that were not measured say so). */
enum lw_how { LW_MEASURED, LW_FITTED, LW_PREDICTED, LW_ASSUMED };

/* A figure with its 95 % interval. NAN = not known; then why, a static text, says what is missing. */
struct lw_figure {
	double value, low, high;
	enum lw_how how;
	const char *why;
};

struct lw_tensor { /* load: one distinct tensor name, the same index on all ranks */
	const char *name;
	uint64_t bytes; /* 0 = not known */
	int dtype;      /* enum lw_dtype */
};

struct lw_member {       /* load: one tensor carried by one batch of one rank */
	uint32_t tensor; /* index into run->tensors */
	uint64_t bytes;
	int64_t ready_ns; /* when this rank had queued it; LW_NS_UNKNOWN */
	/* of ranks with kernels: the device had computed what was launched before it was queued; LW_NS_UNKNOWN */
	int64_t computed_ns;
};

struct lw_batch { /* one executed response of the framework on one rank */
	/* load */
	int op;                       /* enum lw_coll */
	uint64_t serial;              /* within the process */
	uint64_t bytes, fusion_bytes; /* payload; threshold in force (UINT64_MAX = not known) */
	int64_t start_ns, end_ns;     /* the operation, copies included */
	int64_t wire_start_ns, wire_end_ns; /* its transport collective; LW_NS_UNKNOWN */
	int64_t agreed_ns; /* this rank learned that all ranks have it; LW_NS_UNKNOWN */
	int64_t cycle_ns;  /* start of the coordination round that agreed it; LW_NS_UNKNOWN */
	uint32_t first_member, n_members; /* in rank->members */
	uint16_t flags;                   /* enum lw_coll_flag */
	int dtype, process_set;
	int64_t thread_id; /* in its store: operations of one thread never overlap */
	int64_t comm_key;  /* plain collectives only (a run without a framework), else 0 */
	int32_t nccl_op;   /* likewise: index into rank->gpu.nccl_ops; LW_NONE */
	/* step */
	int32_t step; /* index into rank->steps, LW_NONE = outside */
	/* match */
	int32_t group; /* index into run->groups, LW_NONE = unmatched */
};

/* match: the same operation on all its ranks */
struct lw_group {
	int op;
	uint64_t bytes;
	uint32_t n_ranks;       /* ranks on which it was found */
	uint32_t n_wanted;      /* ranks that took part, those not in the run included */
	int64_t first_ready_ns; /* first rank had one of its tensors: NEGOTIATE starts */
	int64_t last_ready_ns;  /* last rank had the last of its tensors */
	int32_t first_rank,
		last_rank; /* index into run->ranks of who was first / last ready; LW_NONE */
	int64_t first_start_ns, last_start_ns, last_end_ns; /* over ranks, wire times where known */
	int64_t round_ns; /* last rank entered the round that agreed it; LW_NS_UNKNOWN */
	int32_t *
		batch_of_rank; /* n = run->ranks.n; index into that rank's batches, LW_NONE = missing */
};

struct lw_ready {
	int64_t at_ns;
	uint64_t object;
	uint64_t bytes;
	int32_t tensor; /* load: joined name, LW_NONE = never executed */
};

struct lw_parameter {               /* load: one gradient that a DDP reducer of a rank exchanges */
	uint32_t reducer, position; /* k-th of the process; among its parameters */
	uint32_t tensor;            /* index into run->tensors */
	uint64_t bytes;
	int dtype; /* enum lw_dtype */
};

struct lw_gradient { /* load: a parameter's gradient was complete */
	int64_t at_ns;
	uint32_t reducer, position;
};

struct lw_traffic { /* load: TCP payload so far, sum over the sockets of a rank */
	int64_t at_ns;
	uint64_t sent_bytes, received_bytes;
};

struct lw_cpu_sample { /* load: of a rank, or of its training thread, so far */
	int64_t at_ns, used_ns;
	int64_t waited_ns; /* ready to run without a core; LW_NS_UNKNOWN */
};

struct lw_cycle { /* load: one recorded coordination round */
	int64_t start_ns, end_ns;
	int op; /* enum lw_cycle_op */
	uint64_t in_bits, out_bits;
	uint32_t n_words, n_unchanged;
	int64_t unchanged_ns, unchanged_span_ns;
	int64_t thread_id;
};

/* load: one operation of `record --probe`, found on all ranks of the job. Not part of any step. */
struct lw_probe_op {
	int op, transport; /* enum lw_coll, enum lw_transport */
	uint64_t bytes;    /* payload of every rank, > 0 */
	/* From the last rank's start to the last rank's end: their difference is the time of service. Across
	 * clocks both are of the rank that took the shortest: it came last and waited for nobody. */
	int64_t last_start_ns, last_end_ns;
	int64_t idle_ns;       /* nothing was sent for this long before; INT64_MAX = not known */
	uint32_t burst;        /* from 0, without gaps */
	uint32_t nth_in_burst; /* from the second on they are queued back to back; <= probes.n */
};

struct lw_collective { /* load: transport level */
	int64_t start_ns, end_ns;
	int op, transport;
	int64_t comm_key;
	uint64_t sent_bytes, received_bytes;
	int32_t root;
	uint16_t flags;
	int32_t batch; /* index into rank->batches that it served, LW_NONE */
	int64_t thread_id;
	int32_t nccl_op; /* index into rank->gpu.nccl_ops, of which this was made; LW_NONE */
};

struct lw_step {
	/* step */
	int64_t start_ns, end_ns;
	int64_t mark;                    /* the number that its step mark says; < 0 = it has none */
	const char *excluded;            /* static text why it does not count, NULL = it counts */
	uint32_t first_batch, n_batches; /* contiguous in rank->batches */
	int64_t first_ready_ns, last_ready_ns; /* of this rank; LW_NS_UNKNOWN */
	int64_t blocked_ns; /* first wait after the last ready: nothing left to compute; LW_NS_UNKNOWN */
	int64_t resumed_ns; /* end of the last wait: = end_ns where waits exist; LW_NS_UNKNOWN */
	/* overlap; all >= 0, LW_NS_UNKNOWN where it cannot be known */
	int64_t compute_ns, comm_ns, hidden_ns, exposed_ns, idle_ns;
	int64_t negotiate_ns, wait_ns, allreduce_ns,
		misc_ns; /* unions over the step, clipped to it */
	/* phases: what the two above consist of; LW_NS_UNKNOWN where it cannot be known */
	int64_t late_ns; /* of negotiate_ns: a tensor was queued somewhere, not yet on all its ranks */
	int64_t tick_ns; /* of wait_ns: queued everywhere, no operation running: waiting for the cycle */
	int64_t entry_ns; /* of allreduce_ns: in the collective before the last rank had entered it */
	/* overlap: exposed_ns by what went on, the first that applies; they add up to exposed_ns */
	int64_t exposed_allreduce_ns, exposed_misc_ns, exposed_wait_ns, exposed_negotiate_ns;
	int64_t exposed_entry_ns; /* of exposed_allreduce_ns: the last rank had not entered yet */
	bool is_blocked_assumed; /* no waits recorded: from the last ready on nothing was left to do */
	/* overlap: that the training thread did not wait, wherever compute_ns is from; LW_NS_UNKNOWN */
	int64_t host_compute_ns;
	/* overlap: FROM_GPU: compute_ns is when compute kernels ran, hidden_ns, exposed_ns and idle_ns are against that */
	enum lw_time_source time_source;
	struct lw_gpu_times
		gpu; /* gpu: clipped to the step; kernels alone, nothing that the host said */
};

struct lw_rank {
	int32_t rank;       /* in the job */
	int64_t process_id; /* in its store */
	size_t store;       /* index into run->stores */
	char *host;
	int framework, transport; /* enum lw_framework, enum lw_transport */
	int64_t start_ns, end_ns;
	bool died; /* ended without saying so */
	/* load: operations of the framework that failed, as a peer was gone; they are none of batches. first: start, last: end */
	uint32_t n_failed;
	int64_t first_failed_ns, last_failed_ns; /* LW_NS_UNKNOWN = none */
	lw_vec(struct lw_batch) batches;         /* by start_ns */
	lw_vec(struct lw_member) members;
	lw_vec(struct lw_ready) readies;          /* by at_ns */
	lw_vec(struct lw_parameter) parameters;   /* by reducer, position */
	lw_vec(struct lw_gradient) gradients;     /* by at_ns */
	lw_vec(struct lw_interval) waits;         /* by start_ns */
	lw_vec(struct lw_cycle) cycles;           /* by start_ns */
	lw_vec(struct lw_collective) collectives; /* by start_ns */
	lw_vec(struct lw_step) steps;
	lw_vec(int64_t) step_marks; /* LW_MARK_STEP times, ascending */
	lw_vec(int64_t)
		step_values; /* their numbers: what the user or the profiler calls the step; < 0 = none */
	double setting[16];     /* by enum lw_setting: the last value in force, NAN = not known */
	int setting_source[16]; /* enum lw_setting_source */
	bool setting_changed;   /* autotune moved one during the run */
	uint64_t sent_bytes, received_bytes;          /* sum over its TCP sockets as hooked */
	uint64_t tcp_acked_bytes, tcp_received_bytes; /* as the kernel says, same sockets */
	uint64_t n_sockets;
	lw_vec(struct lw_traffic) traffic; /* by at_ns, cumulative */
	int64_t training_thread_id; /* load: who waits for results, else who hands gradients over; 0 = nobody */
	lw_vec(struct lw_cpu_sample) cpu, training_cpu; /* load: by at_ns; empty: not recorded */
	char *cpus;         /* load: that it may use, "0-3"; NULL = not recorded */
	double quota_cores; /* load: CPU time it may use a second; 0 = no limit */
	/* cores: over the counted steps; NAN = not known */
	double used_cores, waited_cores; /* all its threads: with a core, ready but without one */
	double core_wait_frac; /* of a step: its training thread had to compute and no core was free */
	bool is_cpu_bound;     /* cores: it computes on cores, not on a GPU that it sleeps for */
	int64_t clock; /* ranks with the same value share a clock: their times compare directly */
	struct lw_gpu_rank gpu;
};

struct lw_host_cores {    /* cores: what the ranks on one host did with its cores */
	const char *host; /* of its first rank */
	size_t store;
	uint32_t n_bound;          /* ranks that compute on cores */
	uint32_t n_ranks, n_known; /* known: CPU times recorded over its steps */
	double n_cores;            /* that they may use together; NAN = not recorded */
	double used_cores;         /* sum of the known; NAN = none known */
	double core_wait_frac;     /* the most of its ranks; NAN = not known */
	double contended_frac; /* the same of ranks that compute on cores, where it matters; else 0 */
};

struct lw_diag {
	const char *stage, *kind; /* static */
	uint64_t n;
	char *text;
	uint64_t
		n_more; /* findings of this kind that only count here, as their texts were too many */
};

struct lw_told { /* load: a hook or an importer that tells of GPUs and NCCL, and how it fared; by name, status */
	char *name, *detail;  /* detail: "" = none */
	int status;           /* enum lw_hook_status */
	uint32_t n_processes; /* that said so */
};

struct lw_mark_process { /* what one process made of them */
	int32_t rank;    /* of the job; LW_NONE: it is none */
	size_t store;
	int64_t process_id; /* in its store */
	uint64_t n;
	double total_ns;
};

/* load: marks and ranges of one kind and name, of the program or of whom it uses. Names that differ in digits only are one. */
struct lw_mark_name {
	char *name; /* "" = none; of several, with '#' for each number: "iteration #" */
	int op;     /* enum lw_mark_op, but no step */
	uint64_t n;
	double total_ns; /* marks: 0 */
	int64_t longest_ns;
	int32_t longest_rank; /* that made the longest; LW_NONE: a process without a rank */
	uint32_t n_processes; /* that made any */
	lw_vec(struct lw_mark_process) by_process;
};

struct lw_marks {
	lw_vec(struct lw_mark_name) names; /* by total_ns, the most first; 1000 at most */
	uint32_t n_processes;              /* in the run, with or without a rank */
	uint64_t n_steps;                  /* marks of steps, of all processes */
	uint64_t n_gaps;                   /* from one to the next of its process */
	double mean_gap_ns, shortest_gap_ns, longest_gap_ns;
	char why[256]; /* of a run without an operation: what is known of its steps; "" else, or nothing was marked */
};

struct lw_name;

struct lw_run {
	lw_vec(struct lw_store *) stores; /* as given on the command line */
	lw_vec(struct lw_rank) ranks;     /* by rank */
	lw_vec(struct lw_tensor) tensors;
	lw_vec(struct lw_group) groups;     /* by last_start_ns */
	lw_vec(struct lw_probe_op) probes;  /* in the order in which they ran; empty: no probe */
	lw_vec(struct lw_host_cores) cores; /* cores: by first rank */
	double core_wait_frac; /* cores: the most of the contended hosts, 0 = none: computing depends on settings */
	double core_crowd_frac; /* cores: there, of the ranks that compute on cores, more than cores / cores; 0 = none */
	lw_vec(struct lw_nic) nics;                 /* load: by store, id */
	lw_vec(struct lw_tcp_end) ends;             /* load */
	lw_vec(struct lw_packet_flow) flows;        /* load */
	lw_vec(struct lw_capture_gap) capture_gaps; /* load: by store, capture, start */
	int64_t tcp_list_ns; /* load: connections of others were listed so far apart, at most; 0 = not known */
	struct lw_gpu_run gpu;       /* load, gpu */
	struct lw_network network;   /* network */
	lw_vec(struct lw_told) told; /* load */
	struct lw_marks marks;       /* load */
	lw_vec(struct lw_diag) diags;
	int32_t size;       /* ranks of the job; >= ranks.n */
	bool is_size_known; /* else it is the least that there are */
	uint64_t n_lost;    /* records that were dropped */
	uint64_t
		n_unread; /* counters, sockets, captures of which something is missing: no records of ranks */
	uint32_t n_missing_ranks;
	uint32_t n_duplicate_ranks; /* processes of a rank that is there already: not used */
	uint32_t
		n_hung_ranks; /* load: they waited at the end for an operation that was not carried to an end, */
	int64_t hung_ns;    /* the longest so long */
	uint64_t n_unended; /* load: records of what was not seen to begin or to end; of n_lost */
	uint64_t n_torn;    /* load: records of files that could not be read; of n_lost */
	bool is_cut_off; /* a trace that was imported stops in its middle: what came after it is not known */
	bool is_closed; /* every store was closed in order */
	bool is_import; /* from a timeline: one rank's view */
	bool is_profile; /* from a profiler's trace: its steps are marked, and begin behind its warm-up */
	int64_t first_ns, last_ns;
	bool is_plain;         /* no framework: each collective stands for a batch of its own */
	int32_t *batch_slots;  /* match: owner of every group's batch_of_rank */
	struct lw_name *names; /* load: tensor names -> index */
};

/* Kinds that another stage asks for. */
#define LW_LOAD_LACKS_KERNELS "launches without a kernel"
#define LW_LOAD_NCCL_HANG     "hang in NCCL"
#define LW_STEP_NONE          "no steps"
#define LW_STEP_TWO_LENGTHS   "two lengths"
#define LW_CORES_CONTENDED    "cores contended"

enum { LW_DIAG_MAX_TEXTS = 8 }; /* of one kind */

/**
 * lw_run_diag() - add a finding; the text is copied. One with the same stage, kind and text is merged, n
 * added; beyond LW_DIAG_MAX_TEXTS texts of a kind, further ones share one row, "and N more".
 */
int lw_run_diag(struct lw_run *run, const char *stage, const char *kind, uint64_t n,
	const char *format, ...) __attribute__((format(printf, 5, 6)));

/** lw_run_diag_text() - of the first finding of @kind, NULL = there is none. Valid until the next finding. */
const char *lw_run_diag_text(const struct lw_run *run, const char *kind);

/** lw_run_diag_reset() - forget the findings of @stage: it is about to run again. */
void lw_run_diag_reset(struct lw_run *run, const char *stage);

/**
 * lw_run_load() - read @n_paths run files (one per host or per rank) into memory.
 * @mode: LW_STORE_WRITE when results shall be stored (falls back to read only), else LW_STORE_READ
 * Return: LW_OK or the first error; what is merely odd becomes a diag. Free with lw_run_free().
 */
int lw_run_load(
	const char *const *paths, size_t n_paths, enum lw_store_mode mode, struct lw_run **ret_run);
void lw_run_free(struct lw_run *run);

/**
 * lw_run_begin_results() - open a transaction in the store that results of the whole run go into: the first that can be
 * written and that no collector writes any more. @sql: run first, to delete what is there.
 * Return: 1, with *@ret_store; 0: there is none, nothing to do; or the mapped error.
 */
int lw_run_begin_results(struct lw_run *run, const char *sql, struct lw_store **ret_store);

/** lw_run_end_results() - keep them when @status is LW_OK, else nothing of them. Return: LW_OK, @status or an error. */
int lw_run_end_results(struct lw_store *store, int status);

/**
 * lw_run_settle() - the stores that results went into are one file each again, when whoever was to see to that was
 * ended (schema/leisure.h); not while somebody else reads.
 */
int lw_run_settle(struct lw_run *run);

/** lw_run_may_store() - results may go into store @index. */
bool lw_run_may_store(const struct lw_run *run, size_t index);

/** lw_rank_sent_bytes() - TCP payload sent by @at_ns: between two samples of its sockets, in proportion. */
double lw_rank_sent_bytes(const struct lw_rank *rank, int64_t at_ns);

/**
 * lw_end_bytes() - payload that one end sent or received (@way) by @at_ns, likewise.
 * @hint: 0 at first; then it is quick for times that come in their order
 */
double lw_end_bytes(const struct lw_tcp_end *end, int64_t at_ns, enum lw_end_way way, size_t *hint);

/** lw_end_total_bytes(), lw_end_sent_bytes(), lw_end_received_bytes() - all of it. */
double lw_end_total_bytes(const struct lw_tcp_end *end, enum lw_end_way way);
double lw_end_sent_bytes(const struct lw_tcp_end *end);
double lw_end_received_bytes(const struct lw_tcp_end *end);

/** lw_run_rank_number() - the job's number of the rank with index @index, which is not LW_NONE. */
static inline int lw_run_rank_number(const struct lw_run *run, int32_t index)
{
	return run->ranks.at[index].rank;
}

/** lw_run_is_one_clock() - the times of all its ranks compare directly. */
bool lw_run_is_one_clock(const struct lw_run *run);

/** lw_group_batch() - @group's batch on the rank of index @rank. NULL: that rank has none. */
const struct lw_batch *lw_group_batch(
	const struct lw_run *run, const struct lw_group *group, size_t rank);

/** lw_rank_step_at() - index of the step of @rank that @at_ns is in; LW_NONE: outside. (reconstruct/step.c) */
int32_t lw_rank_step_at(const struct lw_rank *rank, int64_t at_ns);

enum { LW_STEP_TEXT_BYTES = 48 };

/** lw_rank_step_text() - of its index @step: "12", or "12 (#22)" where its mark has another number. Return: @text. */
const char *lw_rank_step_text(
	const struct lw_rank *rank, int32_t step, char text[LW_STEP_TEXT_BYTES]);

/** lw_rank_counts_at() - @at_ns is in a step that counts; where there are no steps, every time counts. */
bool lw_rank_counts_at(const struct lw_rank *rank, int64_t at_ns);

/**
 * lw_run_since_ns() - @at_ns of @rank since the run begins: since the first rank on its clock does. Where ranks are on several
 * clocks their first steps are laid side by side. The ruler of the screens has the same origin.
 */
int64_t lw_run_since_ns(const struct lw_run *run, const struct lw_rank *rank, int64_t at_ns);

/** lw_group_waits() - nobody leaves such an operation (enum lw_coll) before everybody has entered. */
bool lw_group_waits(int op);

/** lw_group_is_unsized() - it moves something, and no rank that has it knows how much. */
bool lw_group_is_unsized(const struct lw_run *run, const struct lw_group *group);

/** lw_batch_wire() - its transport collective; the whole operation where that is not known. */
struct lw_interval lw_batch_wire(const struct lw_batch *batch);

/**
 * lw_member_there_ns() - when @member's gradient was queued, and on a rank with kernels computed too: it can be sent. The host
 * queues a gradient when it has launched its kernels. LW_NS_UNKNOWN: not known.
 */
int64_t lw_member_there_ns(const struct lw_rank *rank, const struct lw_member *member);

/** lw_batch_there_ns() - when all of @batch could be sent, at the earliest its start: what it waits then is no computing. */
int64_t lw_batch_there_ns(const struct lw_rank *rank, const struct lw_batch *batch);

/**
 * lw_group_service_ns() - what the wire took for a group that all ranks have: from the last rank's start to the
 * last end, as what is before that is waiting for the last rank. Across clocks the shortest of the ranks'
 * own durations: the rank that came last waited for nobody.
 */
double lw_group_service_ns(
	const struct lw_run *run, const struct lw_group *group, bool is_one_clock);

/**
 * lw_run_computed() - what each rank computed in step @s until its last gradient was queued, counted from when it resumed;
 * in a plain run before it entered an operation, the one where ranks differ most; with kernels, by what it came later to that
 * than the first by its own doing. Lengths: they compare across clocks.
 * @computed_ns: one a rank. Return: false: not known. (reconstruct/late.c)
 */
bool lw_run_computed(const struct lw_run *run, size_t s, int64_t *computed_ns);

enum { LW_MISSING_TEXT_BYTES = 120 };

/** lw_run_missing_text() - "1 of the job's 8 ranks is not in the run, and may be what all wait for". Return: @text. */
const char *lw_run_missing_text(const struct lw_run *run, char text[LW_MISSING_TEXT_BYTES]);

/** lw_run_last() - who computed longest. Return: its index; LW_NONE: by kernels, another one is within what these resolve. */
int32_t lw_run_last(const struct lw_run *run, const int64_t *computed_ns);

/**
 * lw_group_last() - who came last to an operation that nobody leaves before all have entered, by the lengths of kernels: its own
 * is the shortest. @ret_ns: by what the longest is longer. Return: index of the rank; LW_NONE: not known.
 */
int32_t lw_group_last(const struct lw_run *run, const struct lw_group *group, int64_t *ret_ns);

/**
 * lw_run_waited() - for how long others waited for each rank in operations, by the lengths of kernels, mean a counted step: it
 * came last by its own doing, or made who came last late in an operation before. Of several that came last together each counts.
 * @ns, @n (such operations): one a rank. Return: false: not known. (reconstruct/late_kernels.c)
 */
bool lw_run_waited(const struct lw_run *run, double *ns, double *n);

/** lw_net_slow_text() - the slow link and what it costs, one sentence. Return: @text, "": there is none. (network/slow_words.c) */
const char *lw_net_slow_text(const struct lw_run *run, char text[LW_NET_WORDS_BYTES]);

/* The stages, in order; each needs the ones before it and may be called again. */
int lw_run_match(struct lw_run *run);   /* reconstruct/match.c */
int lw_run_steps(struct lw_run *run);   /* reconstruct/step.c */
int lw_run_phases(struct lw_run *run);  /* reconstruct/phase.c: the four phases of every step */
int lw_run_overlap(struct lw_run *run); /* reconstruct/overlap.c: compute, hidden, exposed, idle */
int lw_run_gpu(struct lw_run *run);     /* reconstruct/gpu.c: the same of kernels alone; sums */
int lw_run_cores(struct lw_run *run);   /* reconstruct/cores.c: cores used, and waited for */
int lw_run_network(struct lw_run *run); /* network/network.c: who sent what to whom, links */
struct lw_fit;
int lw_run_reach(struct lw_run *run,
	const struct lw_fit *fit); /* network/reach.c: operations against links; NULL: no fit */
int lw_run_store_results(
	struct lw_run *run); /* reconstruct/results.c: tables step, phase, overlap, diag */

#endif /* LAPWING_ANALYZER_RUN_H */
