/* SPDX-License-Identifier: Apache-2.0 */
/*
 * predict.h - what the views advice, grid and what-if share: asking the simulator, and a mean step as a bar.
 *
 * Reads:  a predictor.   Writes: a pane.
 * Not for: choosing settings (advise/, emit/answer.h).
 */
#ifndef LAPWING_TUI_PREDICT_H
#define LAPWING_TUI_PREDICT_H

#include "analyzer/emit/answer.h"
#include "analyzer/emit/summary.h"
#include "tui/view.h"

enum { LW_REPLY_TEXT_BYTES = 512 };

struct lw_asker { /* zeroed: nothing can be asked */
	struct lw_predictor *predictor;
	struct lw_prediction base;  /* of the recorded setting */
	double *base_ns, *other_ns; /* step times, by step */
};

struct lw_reply {
	struct lw_forecast forecast; /* whatif and prediction only */
	struct lw_figure gain_frac;  /* of the recorded step, for one backward pass */
	bool is_known;
	char error[LW_REPLY_TEXT_BYTES - 16]; /* why it is not */
};

/** lw_asker_open() - @predictor must outlive it. Return: LW_OK or lw_replay_predict()'s errors. */
int lw_asker_open(struct lw_asker *asker, struct lw_predictor *predictor);
void lw_asker_done(struct lw_asker *asker);

/** lw_asker_ask() - what cannot be asked is no error: @ret_reply says why. */
void lw_asker_ask(
	struct lw_asker *asker, const struct lw_whatif *whatif, struct lw_reply *ret_reply);

/** lw_reply_setting() - as lw_answer_setting(). Return: @text. */
const char *lw_reply_setting(
	const struct lw_asker *asker, const struct lw_reply *reply, char text[LW_REPLY_TEXT_BYTES]);

/** lw_reply_step() - "132 ms a step (95 %: 130 ms to 135 ms), 3.1 % less (1.0 to 5.2)". Return: @text. */
const char *lw_reply_step(const struct lw_reply *reply, char text[LW_REPLY_TEXT_BYTES]);

/** lw_reply_doubt() - why it is extrapolated or assumed, and which run would tell; "" = it is neither. */
const char *lw_reply_doubt(
	const struct lw_asker *asker, const struct lw_reply *reply, char text[LW_REPLY_TEXT_BYTES]);

/** lw_asker_sure() - what the replay of the recorded setting is off by. Return: @text. */
const char *lw_asker_sure(const struct lw_asker *asker, char text[LW_REPLY_TEXT_BYTES]);

/** lw_gain_text() - "3.1 % less (95 %: 1.0 to 5.2)", and if it may be anything, that. Return: @text. */
const char *lw_gain_text(const struct lw_figure *gain_frac, char text[LW_REPLY_TEXT_BYTES]);

/** lw_whatif_lines() - what to set so that it is so, as lines to paste; what is no setting is a comment. */
void lw_whatif_lines(const struct lw_replay *replay, const struct lw_whatif *whatif, FILE *out);

enum lw_share_part {
	LW_SHARE_COMPUTE, /* the rest: what is not exposed */
	LW_SHARE_WIRE,    /* exposed: on the wire, once the last rank has entered */
	LW_SHARE_COPY,    /* in copies to and from the buffer */
	LW_SHARE_WAIT, /* for other ranks, to agree, and for the cycle: a replay does not tell these apart */
	LW_SHARE_POLL, /* done, not yet noticed */
	LW_SHARE_COUNT
};

struct lw_share { /* what a step of one backward pass consists of, ns */
	double step_ns;
	double part_ns[LW_SHARE_COUNT]; /* they add up to step_ns */
	double n_ops;
};

/** lw_share_of() - exposed parts as simulated: of LW_WHATIF_RECORDED the replay, not what was measured. */
struct lw_share lw_share_of(const struct lw_replay *replay, const struct lw_prediction *prediction);

/** lw_share_measured() - step_ns is NAN where the run does not tell what was exposed, or only a bound of it. */
struct lw_share lw_share_measured(const struct lw_summary *summary);

/** lw_share_resize() - another length of it: what is not exposed is then more or less. */
void lw_share_resize(struct lw_share *share, double step_ns);

struct lw_shares { /* the steps that are compared; NULL or without step_ns: not shown */
	const struct lw_share *measured, *replayed, *predicted;
	bool is_short; /* of what was measured the numbers alone */
};

/** lw_shares_room() - compare with what was measured where @lines of the screen are enough, if only without its bar. */
void lw_shares_room(struct lw_shares *shares, const struct lw_share *measured, int lines);

/** lw_shares_draw() - on one scale, with numbers below. Return: lines. */
int lw_shares_draw(struct lw_pane pane, int y, const struct lw_shares *shares);

/** lw_predict_refuse() - in words, that and why nothing can be predicted. Return: lines. */
int lw_predict_refuse(struct lw_pane pane, const char *why);

#endif /* LAPWING_TUI_PREDICT_H */
