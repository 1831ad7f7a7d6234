/* SPDX-License-Identifier: Apache-2.0 */
/*
 * candidate.c - whose traffic passes a NIC beside the gradients: connections of the ranks with who is no rank (input
 * pipelines, stores), and of other processes. By peer and service, a port that is known.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/network/network.h"

enum { LEAST_BYTES = 65536, MAX_CANDIDATES = 8 };

static const struct {
	int port;
	const char *name;
	bool is_storage;
} services[] = {
	{22, "ssh", false},
	{80, "http", false},
	{111, "rpcbind", false},
	{443, "https", false},
	{445, "SMB", true},
	{548, "AFP", true},
	{860, "iSCSI", true},
	{873, "rsync", true},
	{988, "Lustre", true},
	{2049, "NFS", true},
	{3260, "iSCSI", true},
	{3300, "Ceph", true},
	{4420, "NVMe over TCP", true},
	{6789, "Ceph", true},
	{6800, "Ceph", true},
	{8020, "HDFS", true},
	{9000, "S3 (MinIO)", true},
	{9866, "HDFS", true},
	{22345, "WekaFS", true},
	{24007, "GlusterFS", true},
	{49152, "GlusterFS", true},
};

static int service_of(int port)
{
	for (size_t i = 0; i < sizeof(services) / sizeof(services[0]); i++)
		if (services[i].port == port)
			return (int)i;
	return -1;
}

/* Which of its ports is the service: one that is known, else the lower, as clients get high ones. */
static void name_candidate(
	const struct lw_run *run, const struct lw_tcp_end *end, struct lw_net_candidate *candidate)
{
	int service = end->is_rdma ? -1 : service_of(end->peer_port);
	int port = end->peer_port;
	char who[32] = "another process";

	if (!end->is_rdma && service < 0 && service_of(end->local_port) >= 0) {
		service = service_of(end->local_port);
		port = end->local_port;
	} else if (!end->is_rdma && service < 0 && end->local_port < end->peer_port) {
		port = end->local_port;
	}
	if (end->rank != LW_NONE)
		snprintf(who, sizeof(who), "rank %d", run->ranks.at[end->rank].rank);
	else if (end->process_id)
		snprintf(who, sizeof(who), "a process of the job");
	snprintf(candidate->text, sizeof(candidate->text), "%s, %s %d%s%s%s at %s", who,
		end->is_rdma ? "queue pair" : "port", port, service < 0 ? "" : " (",
		service < 0 ? "" : services[service].name, service < 0 ? "" : ")",
		*end->peer ? end->peer : "any (datagrams)");
	candidate->is_storage = service >= 0 && services[service].is_storage;
	candidate->is_job = end->process_id != 0;
}

static int add_candidate(
	struct lw_net_account *account, const struct lw_net_candidate *one, double outside_bytes)
{
	struct lw_net_candidate *known;

	lw_vec_foreach (known, &account->candidates) {
		if (strcmp(known->text, one->text))
			continue;
		if (!isnan(outside_bytes))
			known->outside_frac = (known->outside_frac * known->bytes + outside_bytes) /
					      (known->bytes + one->bytes);
		known->bytes += one->bytes;
		known->in_bytes += one->in_bytes;
		known->out_bytes += one->out_bytes;
		return LW_OK;
	}
	if (lw_vec_push(&account->candidates, *one) < 0)
		return LW_ERR_NOMEM;
	account->candidates.at[account->candidates.n - 1].outside_frac =
		one->bytes > 0 ? outside_bytes / one->bytes : (double)NAN;
	return LW_OK;
}

static int compare_bytes(const void *a, const void *b)
{
	const struct lw_net_candidate *x = a, *y = b;

	return (y->bytes > x->bytes) - (y->bytes < x->bytes);
}

static int consider(
	struct lw_run *run, struct lw_net_account *account, const struct lw_tcp_end *end)
{
	struct lw_net_candidate one = {
		.in_bytes = lw_net_received_total(end), .out_bytes = lw_net_sent_total(end)};
	double outside_bytes = NAN;
	struct lw_intervals ops;
	int status = LW_OK;

	one.bytes = one.in_bytes + one.out_bytes;
	if (one.bytes < LEAST_BYTES)
		return LW_OK;
	name_candidate(run, end, &one);
	if (end->rank != LW_NONE) {
		status = lw_net_ops(&run->ranks.at[end->rank], &ops);
		if (ops.at.n)
			outside_bytes =
				fmax(0, one.bytes - lw_net_in_ops_bytes(end, &ops, LW_END_SENT) -
						lw_net_in_ops_bytes(end, &ops, LW_END_RECEIVED));
		lw_vec_free(&ops.at);
	}
	return status < 0 ? status : add_candidate(account, &one, outside_bytes);
}

int lw_net_find_candidates(struct lw_run *run, struct lw_net_account *account)
{
	const struct lw_tcp_end *end;
	int status = LW_OK;

	lw_vec_foreach (end, &run->ends)
		if (end->nic == account->nic && status == LW_OK &&
			!(end->rank != LW_NONE && end->peer_rank != LW_NONE))
			status = consider(run, account, end);
	if (account->candidates.n)
		qsort(account->candidates.at, account->candidates.n,
			sizeof(*account->candidates.at), compare_bytes);
	if (account->candidates.n > MAX_CANDIDATES)
		account->candidates.n = MAX_CANDIDATES;
	return status;
}
