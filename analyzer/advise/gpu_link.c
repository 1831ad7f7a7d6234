/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu_link.c - a link between two ranks on which NCCL's messages stay far longer than on the others, by the proxies at both its ends.
 *
 * Said without a gain: messages of one connection overlap, and what the operation would wait for next is not known.
 */
#include <string.h>

#include "analyzer/advise/gpu_span.h"
#include "analyzer/reconstruct/nccl_words.h"

/* However much the messages overlapped, the link was in use for a good part of the step. */
static bool is_worth(const struct lw_run *run, const struct lw_nccl_link *link)
{
	double used_ns =
		link->both.network_ns / (LW_NCCL_UNDER_WAY * link->n_channels) / link->n_steps;

	return used_ns >= LW_GPU_WORTH_FRAC * lw_nccl_step_ns(run, &run->ranks.at[link->from]);
}

/* Nothing leaves the host there: neither NIC nor switch is to blame. */
static bool is_in_host(const struct lw_run *run, const struct lw_nccl_link *link)
{
	return (link->nic != LW_NONE && run->nics.at[link->nic].is_loopback) ||
	       (!link->has_nics && link->nic == LW_NONE &&
		       !strcmp(run->ranks.at[link->from].host, run->ranks.at[link->to].host));
}

static int advise(const struct lw_adviser *self, struct lw_run *run, struct lw_advice_list *list)
{
	char text[LW_GPU_TEXT_BYTES];
	struct lw_nccl_links links;
	int status = lw_nccl_links(run, &links);
	const char *words;

	if (status == LW_OK && links.slow != LW_NONE && is_worth(run, &links.at.at[links.slow]) &&
		run->network.slow_rank !=
			links.at.at[links.slow].from) { /* else that is said, with its capacity */
		words = strchr(lw_nccl_slow_text(run, &links, text), ':');
		status = lw_advise_find(list, self->id,
			"a link of NCCL's is slow:%.*s; look at %s first. What that costs a step is not known, as messages overlap",
			(int)strlen(words + 1) - 1, words + 1,
			is_in_host(run, &links.at.at[links.slow])
				? "the cores that its ranks and NCCL's threads have (it does not leave the host)"
				: "its cables, NICs and switch");
	}
	lw_nccl_links_done(&links);
	return status;
}

const struct lw_adviser lw_adviser_gpu_link = {
	.id = "gpu.link",
	.title = "A slow link of NCCL's",
	.run = advise,
	.needs_no_replay = true,
	.assumes =
		"What a message waits for between its sender's handing it over and its receiver's having it, while both want it, is the way between them.",
	.wrong_if =
		"NCCL's proxy threads there had no core: then the network is idle meanwhile; see cores in `lapwing report`.",
	.check =
		"Move one of the two ranks to another host, record that run too, and compare the two with `lapwing report`: section Inside NCCL.",
};
