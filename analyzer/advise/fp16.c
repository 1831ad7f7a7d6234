/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fp16.c - gradients sent as 16 bits: half the bytes, for a conversion there and back.
 *
 * What the rounding costs in convergence a trace cannot say, so this comes after all advice that leaves
 * the training alone.
 */
#include <math.h>
#include <stdio.h>

#include "analyzer/advise/trial.h"

/* What a byte of a float32 gradient costs to be made 16 bits and back, where a run cannot say: nothing
 * on a device that computes anyway, and about this on one core of a CPU. */
static const double DEAREST_CONVERT_NS_PER_BYTE = 1;

/* The trial with conversion for nothing and with the dearest one, as one: between the two. */
static struct lw_trial between(const struct lw_trial *cheap, const struct lw_trial *dear)
{
	struct lw_trial trial = *dear;

	trial.step_ns.value = (cheap->step_ns.value + dear->step_ns.value) / 2;
	trial.step_ns.low = fmin(cheap->step_ns.low, dear->step_ns.low);
	trial.step_ns.high = fmax(cheap->step_ns.high, dear->step_ns.high);
	trial.gain_ns.value = (cheap->gain_ns.value + dear->gain_ns.value) / 2;
	trial.gain_ns.low = fmin(cheap->gain_ns.low, dear->gain_ns.low);
	trial.gain_ns.high = fmax(cheap->gain_ns.high, dear->gain_ns.high);
	return trial;
}

static int add_fp16(
	const struct lw_adviser *self, struct lw_advice_list *list, const struct lw_trial *trial)
{
	struct lw_advice *advice;
	char gain[128];

	if (lw_advise_add(list, self, LW_ADVICE_TRAINING, trial, &advice) < 0)
		return LW_ERR_NOMEM;
	snprintf(advice->why, sizeof(advice->why),
		"half the bytes on the wire: the step %s, with a conversion that costs between nothing and %g ns a byte. Sums are then rounded to 11 bits, and gradients above 65504 become infinite: watch the loss",
		lw_advise_gain_text(list, trial, gain), DEAREST_CONVERT_NS_PER_BYTE);
	if (list->replay->is_ddp)
		return lw_advise_code(advice,
			"from torch.distributed.algorithms.ddp_comm_hooks import default_hooks\n"
			"model.register_comm_hook(None, default_hooks.fp16_compress_hook)");
	return lw_advise_code(advice,
		"optimizer = hvd.DistributedOptimizer(optimizer,\n"
		"    named_parameters=model.named_parameters(), compression=hvd.Compression.fp16)");
}

static int advise_fp16(
	const struct lw_adviser *self, struct lw_run *run, struct lw_advice_list *list)
{
	struct lw_whatif whatif = LW_WHATIF_RECORDED;
	struct lw_trial cheap, dear, trial;
	char gain[128];
	int status;

	(void)run;
	if (list->replay->input.n_ranks < 2)
		return LW_OK;
	whatif.wire_frac = 0.5;
	status = lw_advise_try(list, self->id, &whatif, &cheap, "16 bits, conversion for nothing");
	whatif.convert_ns_per_byte = DEAREST_CONVERT_NS_PER_BYTE;
	if (status == LW_OK)
		status = lw_advise_try(list, self->id, &whatif, &dear, "16 bits, %g ns a byte",
			DEAREST_CONVERT_NS_PER_BYTE);
	if (status < 0)
		return status;
	trial = between(&cheap, &dear);
	if (lw_advise_is_sure(list, &trial))
		return add_fp16(self, list, &trial);
	return lw_advise_note(list, self->id,
		"half the bytes bring no more than the error of saying so: the step %s",
		lw_advise_gain_text(list, &trial, gain));
}

const struct lw_adviser lw_adviser_fp16 = {
	.id = "training.fp16",
	.title = "Gradients sent as 16 bits",
	.run = advise_fp16,
	.assumes =
		"Half the bytes are sent, at the cost of an operation of that size. Conversion costs the training thread between nothing and 1 ns a byte of a gradient.",
	.wrong_if =
		"Summing 16-bit numbers is slower than sending 32-bit ones: on CPUs (MPI, Gloo) it is done in software. Gradients that are 16 bits already gain nothing.",
	.check = "Run it, compare `lapwing report` of the two, and the loss.",
};
