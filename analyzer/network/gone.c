/* SPDX-License-Identifier: Apache-2.0 */
/* gone.c - NICs that disappeared while connections of ranks that leave by them were still there: those get no answer. */
#include "analyzer/network/network.h"
#include "base/units.h"

enum { LATER_NS = 1000000000 }; /* at the end of a job its container goes, and its NIC with it */

static int64_t last_read_ns(const struct lw_nic *nic)
{
	const struct lw_nic_series *series;
	int64_t last_ns = LW_NS_UNKNOWN;

	lw_vec_foreach (series, &nic->series)
		if (series->readings.n &&
			series->readings.at[series->readings.n - 1].at_ns > last_ns)
			last_ns = series->readings.at[series->readings.n - 1].at_ns;
	return last_ns;
}

static int say(struct lw_run *run, const struct lw_nic *nic, int64_t gone_ns, int64_t there_ns)
{
	const struct lw_rank *rank = &run->ranks.at[nic->ranks.at[0]];
	char owner[LW_OWNER_TEXT_BYTES], unit[2][LW_UNIT_TEXT_BYTES];

	return lw_run_diag(run, "network", "device gone", 1,
		"%.64s (%s) was gone %s after the start of rank %d: connections that left by it were there for another %s",
		nic->name, lw_nic_owner_text(run, nic, owner),
		lw_ns_format((double)(gone_ns - rank->start_ns), unit[0]), rank->rank,
		lw_ns_format((double)(there_ns - gone_ns), unit[1]));
}

int lw_net_find_gone(struct lw_run *run)
{
	int status = LW_OK;

	for (size_t i = 0; i < run->nics.n && status == LW_OK; i++) {
		const struct lw_nic *nic = &run->nics.at[i];
		int64_t gone_ns = last_read_ns(nic), there_ns = LW_NS_UNKNOWN;
		const struct lw_tcp_end *end;

		if (!nic->is_gone || !nic->ranks.n || gone_ns == LW_NS_UNKNOWN)
			continue;
		lw_vec_foreach (end, &run->ends)
			if (end->nic == (int32_t)i && end->rank != LW_NONE && end->tcp.n &&
				end->tcp.at[end->tcp.n - 1].at_ns > there_ns)
				there_ns = end->tcp.at[end->tcp.n - 1].at_ns;
		if (there_ns != LW_NS_UNKNOWN && there_ns - gone_ns >= LATER_NS)
			status = say(run, nic, gone_ns, there_ns);
	}
	return status;
}
