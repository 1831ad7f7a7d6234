/* SPDX-License-Identifier: Apache-2.0 */
/* nccl_late.c - the rank that the others' data waits for, by NCCL's proxies, where that is a good part of the step. */
#include <math.h>
#include <stdio.h>

#include "analyzer/reconstruct/nccl_words.h"

static const double WORTH_FRAC = 0.02; /* of the step, as of other late ranks */

double lw_nccl_step_ns(const struct lw_run *run, const struct lw_rank *rank)
{
	const struct lw_step *step;
	double sum_ns = 0, n = 0;

	lw_vec_foreach (step, &rank->steps)
		if (!step->excluded) {
			sum_ns += (double)(step->end_ns - step->start_ns);
			n++;
		}
	return n > 0 ? sum_ns / n : (double)(run->last_ns - run->first_ns);
}

/* At least, a step: messages that were under way together waited together. */
static double waited_ns(const struct lw_nccl_link *link)
{
	double a_proxy = fmin(link->sent.n_messages / link->sent.n_proxies, LW_NCCL_UNDER_WAY);

	return link->both.receiver_late_ns / (fmax(a_proxy, 1) * fmax(link->n_channels, 1)) /
	       link->n_steps;
}

static bool is_worth(const struct lw_run *run, const struct lw_nccl_links *links)
{
	const struct lw_nccl_link *link;

	lw_vec_foreach (link, &links->at)
		if (link->to == links->late && link->from == links->late_for && !link->why)
			return waited_ns(link) >=
			       WORTH_FRAC * lw_nccl_step_ns(run, &run->ranks.at[links->late]);
	return false;
}

int32_t lw_nccl_late_rank(const struct lw_run *run, char text[LW_GPU_TEXT_BYTES])
{
	char unit[LW_UNIT_TEXT_BYTES];
	struct lw_nccl_links links;
	int32_t rank = LW_NONE;

	text[0] = '\0';
	if (!lw_nccl_has_proxies(run))
		return LW_NONE;
	if (lw_nccl_links(run, &links) < 0) {
		lw_error_clear();
	} else if (links.late != LW_NONE && is_worth(run, &links)) {
		rank = lw_run_rank_number(run, links.late);
		snprintf(text, LW_GPU_TEXT_BYTES,
			"rank %d, by its GPU or its host: it had not asked for what rank %d had ready for at least %s of a message (NCCL's proxies), and waited for nobody as long itself: not the network",
			rank, lw_run_rank_number(run, links.late_for),
			lw_ns_format(links.late_ns, unit));
	}
	lw_nccl_links_done(&links);
	return rank;
}
