/* SPDX-License-Identifier: Apache-2.0 */
/* link_words.c - in words, for report and advice: since when a way out is as it is, and a server's NIC. */
#include <math.h>
#include <stdio.h>

#include "analyzer/network/network.h"
#include "base/units.h"

#define FULL_FRAC 0.5 /* of the time: in and out, which a server does by turns */

const char *lw_capacity_changed_text(
	const struct lw_run *run, int32_t r, char text[LW_NET_CHANGED_BYTES])
{
	const struct lw_net_rank *rank = &run->network.ranks.at[r];
	char unit[2][LW_UNIT_TEXT_BYTES];

	text[0] = '\0';
	if (rank->capacity_since_ns != LW_NS_UNKNOWN)
		snprintf(text, LW_NET_CHANGED_BYTES, " since %s after its start (%s before)",
			lw_ns_format((double)(rank->capacity_since_ns - run->ranks.at[r].start_ns),
				unit[0]),
			lw_rate_format(rank->capacity_before_bytes_per_s, unit[1]));
	return text;
}

const char *lw_ways_changed_text(const struct lw_run *run, char text[LW_NET_WORDS_BYTES])
{
	char unit[LW_UNIT_TEXT_BYTES], changed[LW_NET_CHANGED_BYTES];
	const struct lw_net_rank *rank;
	size_t n = 0, n_more = 0;

	text[0] = '\0';
	lw_vec_foreach (rank, &run->network.ranks) {
		int32_t r = (int32_t)(rank - run->network.ranks.at);

		if (rank->capacity_since_ns == LW_NS_UNKNOWN)
			continue;
		if (n > LW_NET_WORDS_BYTES / 2) {
			n_more++;
			continue;
		}
		n += (size_t)snprintf(text + n, LW_NET_WORDS_BYTES - n,
			"%sof rank %d (%.32s)%s %s%s", n ? "; " : "", lw_run_rank_number(run, r),
			rank->nic == LW_NONE ? "?" : run->nics.at[rank->nic].name,
			lw_at_least(rank->capacity_from),
			lw_rate_format(rank->capacity_bytes_per_s, unit),
			lw_capacity_changed_text(run, r, changed));
	}
	if (n_more)
		snprintf(text + n, LW_NET_WORDS_BYTES - n, "; and of %zu more", n_more);
	return text;
}

const char *lw_net_unseen_text(const struct lw_run *run, char text[LW_UNSEEN_TEXT_BYTES])
{
	char unit[LW_UNIT_TEXT_BYTES];

	if (run->tcp_list_ns > 0)
		snprintf(text, LW_UNSEEN_TEXT_BYTES,
			"not TCP (UDP), or too short to be listed (every %s)",
			lw_ns_format((double)run->tcp_list_ns, unit));
	else
		snprintf(text, LW_UNSEEN_TEXT_BYTES, "not TCP (UDP), or too short to be listed");
	return text;
}

const char *lw_at_least(int from)
{
	return from == LW_CAPACITY_BUSY ? " at least" : "";
}

bool lw_net_is_server_full(const struct lw_net_server *server)
{
	return server->rank != LW_NONE && server->in_frac + server->out_frac >= FULL_FRAC;
}

const char *lw_server_text(const struct lw_run *run, char text[LW_NET_WORDS_BYTES])
{
	const struct lw_net_server *server = &run->network.server;
	const struct lw_net_rank *rank;
	char unit[LW_UNIT_TEXT_BYTES], changed[LW_NET_CHANGED_BYTES];
	int n;

	text[0] = '\0';
	if (server->rank == LW_NONE || isnan(server->in_frac + server->out_frac))
		return text;
	rank = &run->network.ranks.at[server->rank];
	n = snprintf(text, LW_NET_WORDS_BYTES,
		"all that the other %zu ranks exchange goes in and out by %s of rank %d (host %.64s): data was in flight to it for %.0f %% of the time and more, from it for %.0f %%",
		run->network.ranks.n - 1, run->nics.at[rank->nic].name,
		run->ranks.at[server->rank].rank, run->ranks.at[server->rank].host,
		100 * server->in_frac, 100 * server->out_frac);
	if (!isnan(rank->capacity_bytes_per_s))
		n += snprintf(text + n, LW_NET_WORDS_BYTES - (size_t)n, ", it sends %s%s%s",
			lw_rate_format(rank->capacity_bytes_per_s, unit),
			lw_at_least(rank->capacity_from),
			lw_capacity_changed_text(run, server->rank, changed));
	if (lw_net_is_server_full(server)) /* each of them moves a part of it only */
		snprintf(text + n, LW_NET_WORDS_BYTES - (size_t)n,
			": unless their own links are %zu times slower they wait for that NIC, which all share",
			run->network.ranks.n - 1);
	return text;
}
