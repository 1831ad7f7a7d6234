/* SPDX-License-Identifier: Apache-2.0 */
/*
 * brief.h - a run on one page, kept in its file, so that a screen can begin with it before the rest is read.
 *
 * Reads:  a run's summary and advice; later, the run file alone.   Writes: table summary.
 */
#ifndef LAPWING_ANALYZER_EMIT_BRIEF_H
#define LAPWING_ANALYZER_EMIT_BRIEF_H

#include "analyzer/advise/advise.h"
#include "analyzer/emit/summary.h"

enum { LW_BRIEF_JOB_BYTES = 256 };

struct lw_brief {
	struct lw_summary summary;          /* hosts are NULL, where it was read back; owned */
	char job[LW_BRIEF_JOB_BYTES];       /* "4 ranks on 1 host, Horovod over Gloo, .." */
	char advice[LW_ADVICE_TEXT_BYTES];  /* lw_advise_headline() */
	char slow_link[LW_NET_WORDS_BYTES]; /* lw_net_slow_text() */
	char late
		[LW_ADVICE_TEXT_BYTES]; /* who is late, or why not known, if the stragglers do not tell; "" */
	char lines[2 * LW_ADVICE_TEXT_BYTES]; /* lw_advise_lines(), for who has room */
	uint64_t n_lost, n_missing_ranks, n_died, n_hung, n_remarks, n_files;
	uint64_t n_more;    /* findings beside the advice, see lw_advise_n_more() */
	uint64_t n_advice;  /* advices that there are, answers of other hardware included */
	bool is_advised;    /* there is something to set or to change in the script */
	bool is_size_known; /* else n_missing_ranks is the least that are missing */
	bool is_closed;
	bool is_gpu_time; /* what computes is kernels on a GPU, not a thread that does not wait */
	double *step_ns;  /* [n_steps] the counted ones in order, mean over ranks; owned */
	size_t n_steps;
	lw_vec(char *) texts; /* why's that were read back */
};

/** lw_brief_job() - "4 ranks on 1 host, Horovod over Gloo, fusion threshold 128 MiB, cycle 5 ms". Return: @text. */
const char *lw_brief_job(
	const struct lw_run *run, const struct lw_summary *summary, char text[LW_BRIEF_JOB_BYTES]);

/** lw_brief_make() - @ret_brief's summary is a copy. Return: LW_OK or LW_ERR_NOMEM; lw_brief_done() in any case. */
int lw_brief_make(const struct lw_run *run, const struct lw_summary *summary,
	const struct lw_advice_list *advice, struct lw_brief *ret_brief);

/** lw_brief_store() - replace table summary of the run's first writable store; none: nothing to do. */
int lw_brief_store(struct lw_run *run, const struct lw_brief *brief);

/**
 * lw_brief_load() - what was stored of exactly these files, without reading the run.
 * Return: LW_OK; LW_ERR_STATE: nothing that fits was stored; else lw_store_open()'s errors.
 * lw_brief_done() in any case.
 */
int lw_brief_load(const char *const *paths, size_t n_paths, struct lw_brief *ret_brief);
void lw_brief_done(struct lw_brief *brief);

/** lw_brief_peek() - "4 ranks, 10012345 events, 0 lost", from what the files say of themselves. Return: @text, "" where they say
 * nothing. */
const char *lw_brief_peek(const char *const *paths, size_t n_paths, char text[LW_BRIEF_JOB_BYTES]);

#endif /* LAPWING_ANALYZER_EMIT_BRIEF_H */
