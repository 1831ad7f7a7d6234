/* SPDX-License-Identifier: Apache-2.0 */
/*
 * group_job.h - the tensors of a replay as layers that can be grouped, and a grouping as lines of Python.
 *
 * Reads:  a replay.   Writes: nothing.   Not for: which grouping is good (groups.c, model/grouping.h).
 */
#ifndef LAPWING_ANALYZER_ADVISE_GROUP_JOB_H
#define LAPWING_ANALYZER_ADVISE_GROUP_JOB_H

#include <stdbool.h>
#include <stdint.h>

#include "analyzer/model/osf.h"
#include "analyzer/simulate/replay.h"

struct lw_group_job {
	const struct lw_replay *replay;
	size_t n;                /* those that a counted step sends */
	uint32_t *tensors;       /* of the replay, in the order in which they become ready */
	struct lw_layer *layers; /* the same */
	bool *is_last;           /* scratch of a grouping: model/grouping.h */
	int32_t *group_of;       /* scratch, by tensor of the replay: struct lw_whatif */
};

/**
 * lw_group_job_init() - ready times are means over steps of the last rank's.
 * Return: LW_OK, LW_ERR_UNSUPPORTED (a tensor is not in every step: its group would wait for it in
 * vain), LW_ERR_NOMEM; free with lw_group_job_done() in any case.
 */
int lw_group_job_init(const struct lw_replay *replay, struct lw_group_job *ret_job);
void lw_group_job_done(struct lw_group_job *job);

/** lw_group_job_link() - what one group costs the thread that sends it, copies and its round included. */
struct lw_link lw_group_job_link(const struct lw_group_job *job);

/** lw_group_job_apply() - is_last to group_of. Return: bytes of the largest group. */
double lw_group_job_apply(struct lw_group_job *job);

/**
 * lw_group_job_code() - is_last as a list of lists of names and the call that takes it, a malloc()ed text.
 * Names are those of model.named_parameters() where Horovod for torch named the tensors after them.
 * Return: NULL = no memory.
 */
char *lw_group_job_code(const struct lw_group_job *job, const struct lw_run *run);

#endif /* LAPWING_ANALYZER_ADVISE_GROUP_JOB_H */
