/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layer.c - the tensor that dominates: what a smaller one in its place would bring.
 *
 * VGG-16's first fully connected layer holds 74 % of its bytes; replaced by convolution and global
 * average pooling the scaling factor at 32 ranks went from 0.25 to 0.72 (OSF paper, section 4).
 */
#include <math.h>
#include <stdio.h>

#include "analyzer/advise/trial.h"
#include "base/units.h"

static const double DOMINATES_FRAC = 0.25; /* of the bytes of a step */

static uint32_t largest_of(const struct lw_replay *replay, double *ret_frac)
{
	double all_bytes = 0;
	uint32_t largest = 0;

	for (uint32_t t = 0; t < replay->input.n_tensors; t++) {
		all_bytes += (double)replay->tensors[t].bytes;
		if (replay->tensors[t].bytes > replay->tensors[largest].bytes)
			largest = t;
	}
	*ret_frac = (double)replay->tensors[largest].bytes / all_bytes;
	return largest;
}

static int advise(const struct lw_adviser *self, struct lw_run *run, struct lw_advice_list *list)
{
	static const double bytes_fracs[] = {0.5, 0.1};
	const struct lw_replay *replay = list->replay;
	char size[LW_UNIT_TEXT_BYTES], alone[LW_UNIT_TEXT_BYTES], gain[128], text[512];
	double share_frac, wire_ns, all_wire_ns;
	struct lw_trial trial = {0};
	struct lw_advice *advice;
	uint32_t layer = largest_of(replay, &share_frac);
	int status = LW_OK;

	/* a bucket of DDP is no layer */
	if (replay->is_ddp || replay->input.n_ranks < 2 || replay->input.n_tensors < 2 ||
		share_frac < DOMINATES_FRAC)
		return LW_OK;
	for (size_t i = 0; i < sizeof(bytes_fracs) / sizeof(bytes_fracs[0]); i++) {
		struct lw_whatif whatif = LW_WHATIF_RECORDED;

		whatif.layer = layer;
		whatif.layer_bytes_frac = bytes_fracs[i];
		status = lw_advise_try(
			list, self->id, &whatif, &trial, "%g of its bytes", bytes_fracs[i]);
		if (status < 0)
			return status;
	}
	wire_ns = lw_wire_mean_ns(&replay->wire, replay->tensors[layer].bytes, 0);
	all_wire_ns = list->base.totals.wire_ns / replay->input.n_steps;
	snprintf(text, sizeof(text),
		"%.120s holds %.0f %% of the bytes of a step (%s); alone on the wire it takes %s, %.0f %% of the time that operations take now. A layer of a tenth of its size in its place, computing as long, takes the step %s",
		run->tensors.at[replay->tensor_of[layer]].name, 100 * share_frac,
		lw_bytes_format((double)replay->tensors[layer].bytes, size),
		lw_ns_format(wire_ns, alone), fmin(100 * wire_ns / all_wire_ns, 100),
		lw_advise_gain_text(list, &trial, gain));
	if (!lw_advise_is_sure(list, &trial))
		return lw_advise_note(list, self->id, "%s", text);
	if (lw_advise_add(list, self, LW_ADVICE_WHAT_IF, &trial, &advice) < 0)
		return LW_ERR_NOMEM;
	snprintf(advice->why, sizeof(advice->why), "%s", text);
	return LW_OK;
}

const struct lw_adviser lw_adviser_layer = {
	.id = "model.layer",
	.title = "The tensor that dominates",
	.run = advise,
	.assumes =
		"The new layer has a tenth of the bytes, and computes as long as the old one. A fully connected layer is the usual case: convolution and global average pooling in its place.",
	.wrong_if =
		"The new layer computes longer or shorter, or the model loses accuracy: no trace shows that.",
	.check = "Train the changed model for a few steps under `lapwing record`.",
};
