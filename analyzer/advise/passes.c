/* SPDX-License-Identifier: Apache-2.0 */
/*
 * passes.c - fewer exchanges: gradients of several backward passes are added up, then sent once.
 *
 * The gain is for one backward pass, hence for one batch. What the larger batch costs in convergence a
 * trace cannot say, so this comes after all advice that leaves the training alone.
 */
#include <math.h>
#include <stdio.h>

#include "analyzer/advise/trial.h"

static int add_passes(const struct lw_adviser *self, struct lw_advice_list *list,
	const struct lw_trial *trial, const char *others)
{
	uint32_t k = trial->prediction.n_passes;
	struct lw_advice *advice;

	if (lw_advise_add(list, self, LW_ADVICE_TRAINING, trial, &advice) < 0)
		return LW_ERR_NOMEM;
	snprintf(advice->why, sizeof(advice->why),
		"one exchange for every %u backward passes: what is exposed is paid once. Per pass: %s. The optimizer then takes one step where it took %u, on gradients that are the SUM of %u passes: divide the loss by %u, and choose the learning rate for a batch %u times as large",
		k, others, k, k, k, k);
	if (list->replay->is_ddp)
		return lw_advise_code(advice,
			"for i, batch in enumerate(batches):\n"
			"    with model.no_sync() if (i + 1) %% %u else contextlib.nullcontext():\n"
			"        (loss_of(batch) / %u).backward()\n"
			"    if (i + 1) %% %u == 0:\n"
			"        optimizer.step(); optimizer.zero_grad()",
			k, k, k);
	return lw_advise_code(advice,
		"optimizer = hvd.DistributedOptimizer(optimizer,\n"
		"    named_parameters=model.named_parameters(), backward_passes_per_step=%u)\n"
		"# in the loop: (loss / %u).backward() each time,\n"
		"# optimizer.step() and optimizer.zero_grad() every %u-th time only",
		k, k, k);
}

static int advise_passes(
	const struct lw_adviser *self, struct lw_run *run, struct lw_advice_list *list)
{
	static const uint32_t passes[] = {2, 4, 8};
	struct lw_trial found = {0};
	char others[400], gain[128];
	int status = LW_OK, n = 0;

	(void)run;
	if (list->replay->input.n_ranks < 2)
		return LW_OK;
	for (size_t i = 0; i < sizeof(passes) / sizeof(passes[0]); i++) {
		struct lw_whatif whatif = LW_WHATIF_RECORDED;
		struct lw_trial trial;

		whatif.backward_passes = passes[i];
		status = lw_advise_try(
			list, self->id, &whatif, &trial, "%u passes a step (of each)", passes[i]);
		if (status < 0)
			return status;
		if (!found.id && lw_advise_is_sure(list, &trial))
			found = trial; /* the least change of the training */
		n += snprintf(others + n, sizeof(others) - (size_t)n, "%sk = %u %s", i ? "; " : "",
			passes[i], lw_advise_gain_text(list, &trial, gain));
	}
	if (found.id)
		return add_passes(self, list, &found, others);
	return lw_advise_note(list, self->id,
		"sending gradients less often brings no more than the error of saying so: %s",
		others);
}

const struct lw_adviser lw_adviser_accumulate = {
	.id = "training.passes",
	.title = "Several backward passes an exchange",
	.run = advise_passes,
	.assumes =
		"Every pass computes as a recorded step did, and only the last of k sends its gradients. What follows the exchange in a step (the optimizer) comes once in k passes.",
	.wrong_if =
		"Adding gradients up costs time that the run does not hold; the larger batch needs more steps to converge, which no trace shows.",
	.check =
		"Run it, and compare the time of one batch; then the loss after the same number of samples.",
};
