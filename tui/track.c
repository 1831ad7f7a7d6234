/* SPDX-License-Identifier: Apache-2.0 */
#include "tui/track.h"

int lw_track_add(struct lw_track *track, int64_t start_ns, int64_t end_ns)
{
	size_t n = track->stretches.n;

	if (n > 0) {
		const struct lw_stretch *last = &track->stretches.at[n - 1];
		int64_t last_end_ns = last->start_ns + track->total_ns - last->before_ns;

		if (start_ns < last_end_ns)
			start_ns = last_end_ns;
		if (start_ns == last_end_ns && end_ns > start_ns) {
			track->total_ns += end_ns - start_ns;
			return LW_OK;
		}
	}
	if (end_ns <= start_ns)
		return LW_OK;
	if (lw_vec_push(&track->stretches, ((struct lw_stretch){start_ns, track->total_ns})) < 0)
		return LW_ERR_NOMEM;
	track->total_ns += end_ns - start_ns;
	return LW_OK;
}

/* How many start at or before @at_ns, when @low do: near ones are found soon. */
static size_t advance(const struct lw_track *track, size_t low, int64_t at_ns)
{
	size_t n = track->stretches.n, high = low, by = 1;

	while (high < n && track->stretches.at[high].start_ns <= at_ns) {
		low = high + 1;
		high = n - high > by ? high + by : n;
		by *= 2;
	}
	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (track->stretches.at[middle].start_ns <= at_ns)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Time of @track before @at_ns; @i of its stretches have started. */
static int64_t sum_before(const struct lw_track *track, size_t i, int64_t at_ns)
{
	const struct lw_stretch *last;
	int64_t end_sum_ns, sum_ns;

	if (i == 0)
		return 0;
	last = &track->stretches.at[i - 1];
	end_sum_ns = i < track->stretches.n ? last[1].before_ns : track->total_ns;
	sum_ns = last->before_ns + (at_ns - last->start_ns);
	return sum_ns < end_sum_ns ? sum_ns : end_sum_ns;
}

void lw_track_columns(
	const struct lw_track *track, int64_t from_ns, int64_t column_ns, int n, int64_t *occupied)
{
	size_t i = advance(track, 0, from_ns);
	int64_t before_ns = sum_before(track, i, from_ns);

	for (int column = 0; column < n; column++) {
		int64_t end_ns = from_ns + column_ns * (column + 1), sum_ns;

		i = advance(track, i, end_ns);
		sum_ns = sum_before(track, i, end_ns);
		occupied[column] = sum_ns - before_ns;
		before_ns = sum_ns;
	}
}

int lw_track_append(struct lw_track *track, const struct lw_track *from)
{
	int status = LW_OK;

	for (size_t i = 0; i < from->stretches.n && status == LW_OK; i++) {
		const struct lw_stretch *at = &from->stretches.at[i];
		int64_t end_sum_ns = i + 1 < from->stretches.n ? at[1].before_ns : from->total_ns;

		status = lw_track_add(
			track, at->start_ns, at->start_ns + end_sum_ns - at->before_ns);
	}
	return status;
}
