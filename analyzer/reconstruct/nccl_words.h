/* SPDX-License-Identifier: Apache-2.0 */
/* nccl_words.h - sentences on NCCL's proxies that report, screens and advice share. */
#ifndef LAPWING_ANALYZER_RECONSTRUCT_NCCL_WORDS_H
#define LAPWING_ANALYZER_RECONSTRUCT_NCCL_WORDS_H

#include "analyzer/gpu_words.h"
#include "analyzer/reconstruct/nccl_links.h"
#include "base/units.h"

/** lw_nccl_slow_text() - the link that stands out; "" = none does. Return: @text. */
const char *lw_nccl_slow_text(
	const struct lw_run *run, const struct lw_nccl_links *links, char text[LW_GPU_TEXT_BYTES]);

enum { LW_NCCL_UNDER_WAY = 8 }; /* messages of a channel at once, at most */

/** lw_nccl_step_ns() - of a counted step of @rank, mean; of the whole run where there are none. */
double lw_nccl_step_ns(const struct lw_run *run, const struct lw_rank *rank);

/** lw_nccl_late_text() - the rank that the others' data waits for; "" = none does. Return: @text. */
const char *lw_nccl_late_text(
	const struct lw_run *run, const struct lw_nccl_links *links, char text[LW_GPU_TEXT_BYTES]);

/**
 * lw_nccl_late_rank() - the same for an answer: "rank 2 ...", where what the data waits is 2 % of a step or more.
 * Return: number of the rank; LW_NONE: none, and @text is "". (nccl_late.c)
 */
int32_t lw_nccl_late_rank(const struct lw_run *run, char text[LW_GPU_TEXT_BYTES]);

/** lw_nccl_link_name() - "TCP eth0", "RDMA mlx5_0/1", "TCP"; "" = NCCL did not say what carried it. Return: @text. */
enum { LW_NCCL_LINK_NAME_BYTES = 64 };
const char *lw_nccl_link_name(const struct lw_run *run, const struct lw_nccl_link *link,
	char text[LW_NCCL_LINK_NAME_BYTES]);

/** lw_nccl_wait_text() - the mean of @n_messages; "?" = of none. Waits are recorded to a microsecond. Return: @text. */
const char *lw_nccl_wait_text(double sum_ns, double n_messages, char text[LW_UNIT_TEXT_BYTES]);

/**
 * lw_nccl_why_unasked() - why it is not known for how long messages that @rank (LW_NONE: nobody's) had sent were not asked for.
 * @kinds: as of a link. Return: static; NULL = it is known.
 */
const char *lw_nccl_why_unasked(
	const struct lw_run *run, int32_t rank, const struct lw_nccl_side *sent, unsigned kinds);

/** lw_nccl_moved_text() - what proxies sent (else received) for operation @op of @rank, and waited for; "" = none did. Return: @text. */
const char *lw_nccl_moved_text(const struct lw_run *run, const struct lw_rank *rank, int32_t op,
	bool is_send, char text[LW_GPU_TEXT_BYTES]);

#endif /* LAPWING_ANALYZER_RECONSTRUCT_NCCL_WORDS_H */
