/* SPDX-License-Identifier: Apache-2.0 */
/*
 * replay.h - the counted steps of a run, replayed by the simulator under the recorded or other settings.
 *
 * Reads:  a run after match and step.   Writes: nothing; findings become diags of the run.
 * Not for: the loop itself (hvd_cycle.h), or which setting to take (advise/).
 *
 * A torch DDP run is replayed by the simulator of ddp.h: its tensors are gradients, which other limits
 * put into other buckets, or the recorded buckets where the run does not say what they hold.
 *
 * The recorded setting is replayed first. What the replay misses, the middle of the recorded steps minus the
 * simulated one, is added to every prediction: compute is replayed as recorded, so a miss can only
 * be time that the loop spends and the model does not know (scheduling, callbacks), and that comes
 * once a step, whatever the setting. A ratio would make long steps pay more for it. Since another
 * setting may need more or less of it, its full size also widens the interval of every setting but
 * the recorded one.
 */
#ifndef LAPWING_ANALYZER_SIMULATE_REPLAY_H
#define LAPWING_ANALYZER_SIMULATE_REPLAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyzer/fit/fit.h"
#include "analyzer/run.h"
#include "analyzer/simulate/ddp.h"
#include "analyzer/simulate/hvd_cycle.h"
#include "analyzer/simulate/wire.h"

struct lw_ddp { /* of a torch DDP run; else zeroed */
	struct lw_ddp_setting setting;
	struct lw_ddp_cost cost;          /* without wire: that is set for each run */
	double sharing_low, sharing_high; /* 95 % */
	const char *why_fixed; /* static: why other buckets cannot be predicted; NULL = they can */
};

struct lw_replay {
	/* the job: input.* point into what follows */
	struct lw_hvd_input input; /* the first step stands twice: its first pass only warms up */
	struct lw_hvd_tensor *tensors;
	uint32_t *tensor_of;      /* index into run->tensors, by input tensor */
	uint8_t *dtypes;          /* enum lw_dtype, likewise */
	int32_t *group_of;        /* explicit groups of the run, likewise; NULL = none */
	uint32_t n_groups;        /* of them */
	uint32_t n_missing_ranks; /* of the job, not in the run */
	int64_t *ready_ns, *blocked_ns, *tail_ns;
	double *recorded_step_ns; /* [n_steps]: mean over ranks, without the doubled first */
	uint32_t n_steps;
	struct lw_hvd_setting setting; /* as recorded */
	bool is_ddp;                   /* torch DDP: no loop, and its own settings */
	enum lw_fit_probe probe;       /* lw_fit_probe() of its run */
	struct lw_ddp ddp;
	bool is_setting_known;   /* else Horovod's defaults are assumed */
	struct lw_hvd_cost cost; /* without wire: that is set for each run; owns its scatters */
	double *leave_frac;      /* that of cost, or NULL; owned */
	struct lw_wire wire;
	/* what the run was like */
	double recorded_ns; /* middle of recorded_step_ns: lw_stats_middle() */
	double batches_per_step;
	uint64_t min_batch_bytes, max_batch_bytes;
	/* what the replay of the recorded setting showed */
	double bias_ns;     /* recorded - simulated middle half, added to every prediction */
	double residual_ns; /* half width of the 95 % interval of recorded - simulated, step by step */
	double error_frac; /* of the replay before it was corrected: |bias| / recorded */
	/* of a step, what a prediction may be too high by: a rank had to compute and no core was free, where cores are contended; else 0 */
	double core_wait_ns;
	double core_crowd_frac; /* run->core_crowd_frac */
	uint32_t n_clamped;     /* ready times outside their step */
	struct lw_hvd_sim *sim;
	int64_t *step_ns; /* scratch: [input.n_steps][n_ranks] */
};

/*
 * What is asked. Every field: 0, NAN, NULL or false = as recorded (the fractions of the recorded: 1).
 * One value may be combined with any other, except what lw_replay_predict() refuses.
 */
struct lw_whatif {
	double fusion_bytes, cycle_ns; /* NAN = as recorded */
	uint32_t n_ranks;              /* 0 = as recorded */
	double bandwidth_frac, latency_frac,
		compute_frac; /* of the recorded; > 0, 1 = as recorded */
	/*
	 * Explicit groups, each sent when all its tensors are ready: group_of, else n_groups, else none.
	 * n_groups: as DistributedOptimizer(groups=n) makes them, chunks of equal count in the order of
	 * registration, which is taken to be the reverse of the order of becoming ready.
	 * group_of: [replay->input.n_tensors], any number >= 0; LW_HVD_NO_GROUP = on its own.
	 */
	uint32_t n_groups;
	const int32_t *group_of;
	bool is_group_fusion_off; /* HOROVOD_DISABLE_GROUP_FUSION=1: groups are not fused with others */
	/* backward_passes_per_step=k: gradients are sent in the last of k passes. A step, and with it
	 * every step_ns, is then k passes: one step of the optimizer. 0 or 1 = as recorded */
	uint32_t backward_passes;
	/* compression: bytes sent for a byte of a gradient (fp16: 0.5), 0 = as recorded, and what the
	 * training thread pays per byte of a gradient, half before sending, half after; NAN = what
	 * copies to and from the fusion buffer cost in this run */
	double wire_frac, convert_ns_per_byte;
	bool is_balanced; /* no straggler: in each step every rank is as its median rank was */
	/* one tensor, an index of replay->tensors, replaced by one of this many times the bytes that
	 * takes as long to compute; 0 = as recorded */
	uint32_t layer;
	double layer_bytes_frac;
	/* torch DDP: limits of its buckets, of the first and of the others; 0 = as recorded */
	double bucket_cap_bytes, first_bucket_bytes;
};

#define LW_WHATIF_RECORDED                                                                         \
	((struct lw_whatif){NAN, NAN, 0, 1, 1, 1, 0, NULL, false, 0, 0, 0, false, 0, 0, 0, 0})

/* What the interval of a prediction is made of: half widths, ns. They are independent of each other, so
 * their squares add up; only what is not known about sizes, and of contended cores, is added as it is. */
struct lw_prediction_error {
	double steps_ns;  /* the steps of a run differ */
	double replay_ns; /* what the replay of the recorded setting missed, corrected or not */
	double costs_ns;  /* the costs of its operations were fitted */
	double settings_ns; /* what is missed of other settings alone; of the recorded one: of a repeat */
	double ranks_ns; /* other ranks: upwards; what a ring does not say of messages among them */
	double cores_ns; /* contended cores: upwards; computing may wait this much longer for one */
	double sizes_ns; /* sizes, and operations at a time, that the run does not hold */
};

struct lw_prediction {
	struct lw_figure
		step_ns;      /* middle of the steps; how = PREDICTED, or ASSUMED with why set */
	bool is_recorded;     /* the setting of the run itself */
	bool is_extrapolated; /* operations or ranks unlike any the run holds: why says which */
	double fusion_bytes, cycle_ns;
	double bucket_cap_bytes, first_bucket_bytes; /* torch DDP, else 0 */
	uint32_t n_ranks;
	uint32_t n_passes; /* backward passes in this step, of the recorded steps' length; >= 1 */
	double least_ns;   /* the lower end is never below: what a rank computes in a step, ns */
	struct lw_prediction_error error;
	struct lw_hvd_totals totals; /* of all steps, the warm-up included */
	/* the step with the costs of resampled steps, less that with the fit itself */
	double replicate_ns[LW_WIRE_REPLICATES];
};

/**
 * lw_replay_new() - take the inputs out of @run and replay the recorded setting.
 * Return: LW_OK; LW_ERR_LIMIT with the reason (neither Horovod nor DDP, too few counted steps, no ready
 * times, no setting), LW_ERR_NOMEM. Free with lw_replay_free().
 */
int lw_replay_new(struct lw_run *run, struct lw_replay **ret_replay);
void lw_replay_free(struct lw_replay *replay);

/**
 * lw_replay_scale() - what @whatif does to the cost of an operation: bandwidth, latency, ranks.
 * Return: LW_OK, LW_ERR_UNSUPPORTED (other ranks asked of a run of one rank).
 */
int lw_replay_scale(const struct lw_replay *replay, const struct lw_whatif *whatif,
	struct lw_wire_scale *ret_scale);

/** lw_replay_recorded() - the mean of the middle half of the recorded steps; see lw_stats_step(). */
struct lw_figure lw_replay_recorded(const struct lw_replay *replay);

/** lw_replay_n() - how many steps a prediction stands on; the length of @ret_step_ns below. */
uint32_t lw_replay_n(const struct lw_replay *replay);

/**
 * lw_replay_predict() - the middle of the steps (lw_stats_middle()) under @whatif.
 * @ret_step_ns: NULL, or lw_replay_n() corrected step times (mean over ranks), in recorded order
 * Return: LW_OK, LW_ERR_UNSUPPORTED (threshold, cycle or groups asked of a DDP run, buckets of another
 * run or of one that does not say what they hold, ranks of a run of
 * one rank, groups of a run that has some, compression of one that sends 16 bits, no such layer),
 * LW_ERR_NOMEM.
 */
int lw_replay_predict(struct lw_replay *replay, const struct lw_whatif *whatif,
	struct lw_prediction *ret_prediction, double *ret_step_ns);

/**
 * lw_replay_gain() - how much less a backward pass takes in @other than in @base (a step, unless
 * backward_passes was asked: then its n_passes-th part), paired step by step and cost by cost. The
 * interval is that of the paired median (bootstrap), widened by the replay's miss, and by what is not known of
 * an extrapolated setting. Of other ranks nothing is paired: it is that of @other's step.
 * @base_ns, @other_ns: their step times
 */
struct lw_figure lw_replay_gain(const struct lw_replay *replay, const struct lw_prediction *base,
	const double *base_ns, const struct lw_prediction *other, const double *other_ns);

#endif /* LAPWING_ANALYZER_SIMULATE_REPLAY_H */
