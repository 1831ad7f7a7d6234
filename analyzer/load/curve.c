/* SPDX-License-Identifier: Apache-2.0 */
/* curve.c - the cumulative curve of a rank's traffic, read at any time. */
#include "analyzer/run.h"

double lw_rank_sent_bytes(const struct lw_rank *rank, int64_t at_ns)
{
	const struct lw_traffic *before = NULL, *after = NULL, *sample;

	lw_vec_foreach (sample, &rank->traffic) {
		if (sample->at_ns > at_ns) {
			after = sample;
			break;
		}
		before = sample;
	}
	if (!before)
		return 0;
	if (!after)
		return (double)before->sent_bytes;
	return (double)before->sent_bytes + (double)(after->sent_bytes - before->sent_bytes) *
						    (double)(at_ns - before->at_ns) /
						    (double)(after->at_ns - before->at_ns);
}
