/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trial.h - how an adviser asks the simulator, and turns an answer into an advice.
 *
 * Reads:  the replay of a list.   Writes: its trials and advice.
 */
#ifndef LAPWING_ANALYZER_ADVISE_TRIAL_H
#define LAPWING_ANALYZER_ADVISE_TRIAL_H

#include "analyzer/advise/advise.h"

/** lw_advise_base() - predict the recorded setting, once for all. Return: LW_OK or LW_ERR_NOMEM. */
int lw_advise_base(struct lw_advice_list *list);

/**
 * lw_advise_try() - predict @whatif, compare it with the recorded setting and keep both as a trial of @id.
 * @ret_trial: a copy; may be NULL
 * Return: as lw_replay_predict().
 */
int lw_advise_try(struct lw_advice_list *list, const char *id, const struct lw_whatif *whatif,
	struct lw_trial *ret_trial, const char *label, ...) __attribute__((format(printf, 5, 6)));

/** lw_advise_nearly_ns() - steps that differ by less are as good as each other: then the simpler setting is taken. */
double lw_advise_nearly_ns(const struct lw_advice_list *list);

/** lw_advise_is_sure() - also at the lower end of its interval the gain is above what repeats of a job differ by. */
bool lw_advise_is_sure(const struct lw_advice_list *list, const struct lw_trial *trial);

/**
 * lw_advise_none_better() - that none of those tried from @first on (@what: "others") is faster; and of those that would be, but
 * send sizes that the run does not hold, that they are. Return: @text.
 */
const char *lw_advise_none_better(const struct lw_advice_list *list, size_t first, const char *what,
	char text[LW_ADVICE_TEXT_BYTES]);

/** lw_advise_is_blind() - its gain may be anything: the interval holds 0 and is wider than the recorded step. */
bool lw_advise_is_blind(const struct lw_advice_list *list, const struct lw_trial *trial);

/** lw_advise_is_eaten() - it would be sure if computing stayed as it is, but cores are contended. */
bool lw_advise_is_eaten(const struct lw_advice_list *list, const struct lw_trial *trial);

/** lw_advise_cannot_tell() - of one size: what of its cost another network or other ranks change; a finding. */
int lw_advise_cannot_tell(struct lw_advice_list *list, const char *id, const struct lw_trial *trial,
	const char *what);

/** lw_advise_gain_frac() - the gain of @trial, of the recorded step. */
struct lw_figure lw_advise_gain_frac(
	const struct lw_advice_list *list, const struct lw_trial *trial);

/**
 * lw_advise_add() - an advice with the figures of @trial; what it stands on is filled in.
 * @ret_advice: valid until the next one is added; the caller fills in why, set and code
 * Return: LW_OK or LW_ERR_NOMEM.
 */
int lw_advise_add(struct lw_advice_list *list, const struct lw_adviser *self,
	enum lw_advice_kind kind, const struct lw_trial *trial, struct lw_advice **ret_advice);

/** lw_advise_set() - one variable more that the advice sets. */
void lw_advise_set(struct lw_advice *advice, const char *name, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/** lw_advise_code() - the lines to paste. Return: LW_OK or LW_ERR_NOMEM. */
int lw_advise_code(struct lw_advice *advice, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/** lw_advise_least_cycle_ns() - a shorter cycle than this would only coordinate. */
double lw_advise_least_cycle_ns(const struct lw_replay *replay);

/** lw_advise_step_bytes() - what one rank gives to all operations of a step, as sent. */
double lw_advise_step_bytes(const struct lw_replay *replay);

/** lw_advise_hosts() - hosts of @run, and ranks on each; *@ret_n_per_host is 0 where they differ. */
void lw_advise_hosts(const struct lw_run *run, int *ret_n_hosts, int *ret_n_per_host);

/** lw_advise_gain_text() - "from 120 ms to 90.0 ms, 25.0 % (20.0 to 30.0)". Return: @text. */
const char *lw_advise_gain_text(
	const struct lw_advice_list *list, const struct lw_trial *trial, char text[128]);

/** lw_advise_probe_tells() - ". A run recorded with `lapwing record --probe` would tell"; "" where there can be none. */
const char *lw_advise_probe_tells(const struct lw_replay *replay);

#endif /* LAPWING_ANALYZER_ADVISE_TRIAL_H */
