/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fit.h - the parameters of a run: costs of its operations, its backward pass, its scaling factors.
 *
 * Reads:  a run after match and step.   Writes: table fit (lw_fit_store()).
 * Not for: predicting a step under another setting (simulate/): these are the parameters that people
 * compare and put into the OSF model; docs/model.md says how each is found and where it fails.
 */
#ifndef LAPWING_ANALYZER_FIT_FIT_H
#define LAPWING_ANALYZER_FIT_FIT_H

#include <stddef.h>
#include <stdint.h>

#include "analyzer/fit/cost.h"
#include "analyzer/run.h"

/* X(NAME, name in table fit, what it is, why it may be missing) */
#define LW_FIT_NO_READY     "no ready times were recorded"
#define LW_FIT_NO_ALLREDUCE "no allreduce of a counted step was found on all ranks"
#define LW_FIT_RANK_MISSING                                                                        \
	"ranks are missing, and nothing but them tells when the last one entered an operation: what the wire took is not known"
/* Of a run without a framework: fewer allreduces than this tell no cost. The trace of one step holds as few. */
#define LW_FIT_LEAST_OPS 8
#define LW_FIT_TOO_FEW                                                                             \
	"fewer than 8 allreduces in counted steps: too few to tell a fixed cost from a rate"
#define LW_FIT_POOR                                                                                \
	"the fit is poor: sizes that are left out of it are missed by more than 30 % (`poor fit`, below)"
#define LW_FIT_UNSIZED "the sizes of operations are not known"
#define LW_FIT_OTHER_OPS                                                                           \
	"much of the communication is no allreduce of all ranks, and the models know no other"
#define LW_FIT_NO_SIZES                                                                            \
	"operations of one size only, or none, or no growth with size: a fixed cost and a rate cannot be told apart"
#define LW_FIT_NO_MODEL "needs ready times, and operations of the sizes that the model sends"
#define LW_FIT_NOT_HELD "extrapolated: the model sends sizes that the run does not hold"
/* What would tell, where it can be had: lw_fit_why() */
#define LW_FIT_PROBE_TELLS "; a run with `lapwing record --probe` would tell"
#define LW_FIT_PROBE_HOLDS ": a run with `lapwing record --probe` holds more of them"
#define LW_FIT_PROBE_WOULD "; `lapwing record --probe` would"
#define LW_FIT_TORCH_PROBE                                                                         \
	", if the training script calls lapwing_probe.run(), two lines (docs/probe.md)"
#define LW_FIT_NO_MEAN_STEP                                                                        \
	"tensors come and go from step to step, or some have no ready times: together they hold other bytes than a step sends, and a model of one mean step counts each once"
#define LW_FIT_NO_NAMES                                                                            \
	"operations of one size have no names of their own without a framework: which are one gradient's from step to step is not known, and a model of one mean step counts each size once"
#define LW_FIT_NO_MODEL_Q "needs what osf needs, and the fusion threshold and cycle time in force"
#define LW_FIT_FIGURES(X)                                                                                                                                     \
	X(STEP_NS, "mean_step_ns", "mean over counted steps and ranks", "no step counts")                                                                     \
	X(FORWARD_NS, "forward_ns",                                                                                                                           \
		"start of the step to the first ready gradient: forward, and backward of its layer",                                                          \
		LW_FIT_NO_READY)                                                                                                                              \
	X(OVERLAP_NS, "overlap_ns", "T_overlap: first to last ready gradient (OSF eq. 10)",                                                                   \
		LW_FIT_NO_READY)                                                                                                                              \
	X(COMPUTE_NS, "compute_ns", "T_comp: start of the step until nothing was left to compute",                                                            \
		LW_FIT_NO_READY)                                                                                                                              \
	X(COMM_NS, "comm_ns", "allreduces of a step, service times added up", LW_FIT_NO_ALLREDUCE)                                                            \
	X(UPDATE_NS, "update_ns",                                                                                                                             \
		"T_update as measured: first ready gradient to the end of the last allreduce",                                                                \
		LW_FIT_NO_READY)                                                                                                                              \
	X(BYTES_PER_STEP, "bytes_per_step", "allreduced by each rank", LW_FIT_NO_ALLREDUCE)                                                                   \
	X(BATCHES_PER_STEP, "batches_per_step", "allreduces", LW_FIT_NO_ALLREDUCE)                                                                            \
	X(ALPHA_NS, "alpha_ns", "delta of OSF eq. 7: fixed cost of one allreduce, affine fit",                                                                \
		LW_FIT_NO_SIZES)                                                                                                                              \
	X(SLOPE_NS_PER_BYTE, "slope_ns_per_byte", "k of the affine fit", LW_FIT_NO_SIZES)                                                                     \
	X(BETA_BYTES_PER_S, "beta_bytes_per_s",                                                                                                               \
		"effective bandwidth between neighbours of the ring: 2 (N - 1) / (N k)",                                                                      \
		LW_FIT_NO_SIZES)                                                                                                                              \
	X(UTILISATION_FRAC, "utilisation_frac", "c of OSF eq. 5",                                                                                             \
		"needs the operations of the forward pass and the peak rate of the device, which no trace holds: `lapwing report --flop N --peak-flop RATE`") \
	X(ROUND_NS, "round_ns",                                                                                                                               \
		"a coordination round that agreed something, from the last rank's entry",                                                                     \
		"no coordination round was matched across ranks on one clock")                                                                                \
	X(IDLE_ROUND_NS, "idle_round_ns",                                                                                                                     \
		"a round that changed nothing, on the rank that waited least for others",                                                                     \
		"no round without a change was counted on every rank")                                                                                        \
	X(CSF, "csf", "OSF eq. 2, with one allreduce of all gradients at the fitted cost",                                                                    \
		LW_FIT_NO_MODEL)                                                                                                                              \
	X(OSF, "osf", "OSF eq. 3, each gradient its own allreduce at the fitted cost",                                                                        \
		LW_FIT_NO_MODEL)                                                                                                                              \
	X(OSF_F, "osf_f", "OSF eq. 11 at the recorded Q and cycle, the link a queue",                                                                         \
		LW_FIT_NO_MODEL_Q)                                                                                                                            \
	X(OSF_F_PAPER, "osf_f_paper", "the same with eq. 12 to 16 as printed", LW_FIT_NO_MODEL_Q)                                                             \
	X(OSF_MEASURED, "osf_measured", "OSF eq. 3 with T_update as measured", LW_FIT_NO_READY)

enum lw_fit_figure {
#define X(name, text, note, missing) LW_FIT_##name,
	LW_FIT_FIGURES(X)
#undef X
		LW_FIT_N_FIGURES
};

/* X(NAME, name in table fit, what it is); time against bytes, one line each */
#define LW_FIT_COSTS(X)                                                                                               \
	X(WIRE, "wire",                                                                                               \
		"an allreduce, from its last rank's start to its last end; sizes that no step sent are of the probe") \
	X(QUEUED, "wire_queued", "those that began within 1 ms of the end of another")                                \
	X(FIRST, "wire_first", "those after an idle wire")                                                            \
	X(PROBE, "probe", "an operation of `record --probe`, from the second of its burst on")                        \
	X(ALLGATHER, "allgather", "an allgather, likewise; bytes are what a rank gives")                              \
	X(BROADCAST, "broadcast", "a broadcast, likewise")                                                            \
	X(ALLTOALL, "alltoall", "an alltoall, likewise")                                                              \
	X(REDUCESCATTER, "reducescatter", "a reduce-scatter, likewise")                                               \
	X(COPY_IN, "copy_in", "before the wire, batches of several tensors")                                          \
	X(COPY_OUT, "copy_out", "after the wire, batches of several tensors")                                         \
	X(SINGLE_IN, "single_in", "before the wire, batches of one tensor")                                           \
	X(SINGLE_OUT, "single_out", "after the wire, batches of one tensor")

enum lw_fit_cost_kind {
#define X(name, text, note) LW_FIT_COST_##name,
	LW_FIT_COSTS(X)
#undef X
		LW_FIT_N_COSTS
};

/* An operation that starts later than this after the end of all earlier ones is a first one: token
 * buckets and congestion windows have recovered, and it is faster. 1 ms is above the gap between
 * operations of one round (copies, microseconds) and below a cycle of Horovod's older default. */
enum { LW_FIT_IDLE_NS = 1000000 };

struct lw_fit_cost {
	struct lw_cost cost; /* the chosen form; copies and set-up: always affine */
	struct lw_figure a_ns, b_ns_per_byte; /* of the affine form, whatever was chosen */
	struct lw_size *sizes;                /* what it was fitted to, ascending; owned */
	size_t n_sizes;
};

struct lw_fit_layer {    /* in the order in which gradients become ready */
	uint32_t tensor; /* index into run->tensors */
	double bytes;
	struct lw_figure backward_ns; /* t_backward(i): from the gradient before; 0 for the first */
};

struct lw_fit {
	struct lw_figure figure[LW_FIT_N_FIGURES];
	struct lw_fit_cost cost[LW_FIT_N_COSTS];
	struct lw_fit_layer *layers;
	size_t n_layers;
	const char *why_no_costs; /* what operations took cannot be told; NULL = it can */
	const char *
		why_no_scaling; /* no model of a step fits the run; NULL = not known that none does */
	const char *why_no_line;       /* how costs grow with size cannot be told; NULL = it can */
	bool is_unsized;               /* of some allreduce the bytes are not known */
	const char *why_no_mean_step;  /* the layers are not what a step sends; NULL = they are */
	size_t n_steps;                /* counted on every rank */
	size_t n_groups;               /* allreduces that were used */
	size_t n_partial;              /* not used: not on every rank of the run */
	int32_t n_ranks;               /* N */
	double fusion_bytes, cycle_ns; /* in force, NAN = not known */
};

/* Whether `record --probe` can measure what carries this job's gradients, and whether its script must call it for that. */
enum lw_fit_probe { LW_FIT_PROBE_NONE, LW_FIT_PROBE_CAN, LW_FIT_PROBE_SCRIPT };

/** lw_fit_probe() - of MPI and Gloo, which were recorded: NCCL has none, nor has an imported trace. */
enum lw_fit_probe lw_fit_probe(const struct lw_run *run);

/** lw_fit_why() - @why of a figure; where a probe would tell, and there can be one, with that, and what the script needs. */
const char *lw_fit_why(enum lw_fit_probe probe, const char *why);

/**
 * lw_fit_run() - fit all parameters of @run; those that its data cannot identify are NAN with why.
 *
 * Intervals are 95 %, by block bootstrap over steps, with a fixed seed: same run, same figures.
 * Return: LW_OK, LW_ERR_LIMIT (no step that counts), LW_ERR_NOMEM. Free with lw_fit_done().
 */
int lw_fit_run(struct lw_run *run, struct lw_fit *ret_fit);

/**
 * lw_fit_utilisation() - figure utilisation_frac, which needs what no trace holds.
 * @forward_flop: of the forward pass of one step of one rank, all its samples; a multiply-add is two
 * @peak_flop_per_s: of its device, for the number format that it computes in
 */
void lw_fit_utilisation(
	const struct lw_run *run, double forward_flop, double peak_flop_per_s, struct lw_fit *fit);

void lw_fit_done(struct lw_fit *fit);

/** lw_fit_store() - replace table fit of the run's first writable store; none: nothing to do. */
int lw_fit_store(struct lw_run *run, const struct lw_fit *fit);

/** lw_fit_figure_name(), lw_fit_cost_name() - names in table fit. */
const char *lw_fit_figure_name(enum lw_fit_figure figure);
const char *lw_fit_cost_name(enum lw_fit_cost_kind kind);

/** lw_fit_figure_note(), lw_fit_cost_note() - what it is, in a few words; of a figure: in @run. */
const char *lw_fit_figure_note(const struct lw_run *run, enum lw_fit_figure figure);
const char *lw_fit_cost_note(enum lw_fit_cost_kind kind);

#endif /* LAPWING_ANALYZER_FIT_FIT_H */
