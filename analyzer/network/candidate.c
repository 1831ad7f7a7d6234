/* SPDX-License-Identifier: Apache-2.0 */
/*
 * candidate.c - whose traffic passes a NIC beside the gradients: connections of the ranks with who is no rank (input
 * pipelines, stores), and of other processes. By peer and service, a port that is known; where there are many peers by
 * service alone, and the least of them together.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <uthash.h>

#include "analyzer/network/network.h"

enum { LEAST_BYTES = 65536, MAX_CANDIDATES = 8, EPHEMERAL_PORT = 32768 };

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

/* A number that clients are given by chance is no service beside a lower one. */
static int service_of(int port, int other_port)
{
	if (port >= EPHEMERAL_PORT && other_port < EPHEMERAL_PORT)
		return -1;
	for (size_t i = 0; i < sizeof(services) / sizeof(services[0]); i++)
		if (services[i].port == port)
			return (int)i;
	return -1;
}

enum whose { OF_OTHERS, OF_JOB, OF_RANK };

struct key {
	enum whose whose;
	bool is_rdma, is_here; /* here: the service is on this side */
	int32_t rank, port, service;
	char local[LW_ADDRESS_BYTES], peer[LW_ADDRESS_BYTES];
};

struct group { /* connections of one key */
	struct key key;
	double in_bytes, out_bytes, outside_bytes; /* NAN = no operation was recorded */
	size_t n_addresses, n_ends;
	char peer[LW_ADDRESS_BYTES]; /* where there is one */
	struct group *into;          /* what it was added to, NULL = it stands for itself */
	bool is_shown;
	UT_hash_handle hh;
};

struct groups {
	struct group *by_peer, *by_service;
	struct group **of; /* by end on the NIC; NULL = none */
};

/* Which of its ports is the service: one that is known, else the lower, as clients get high ones. */
static struct key key_of(const struct lw_tcp_end *end)
{
	struct key key;
	int local_service;

	memset(&key, 0, sizeof(key)); /* padding is compared too */
	key.whose = end->rank != LW_NONE ? OF_RANK : end->process_id ? OF_JOB : OF_OTHERS;
	key.rank = end->rank;
	key.is_rdma = end->is_rdma;
	key.port = end->peer_port;
	key.service = -1;
	snprintf(key.peer, sizeof(key.peer), "%s", end->peer);
	if (end->is_rdma)
		return key;
	key.service = service_of(end->peer_port, end->local_port);
	local_service = service_of(end->local_port, end->peer_port);
	key.is_here = key.service < 0 && (local_service >= 0 || end->local_port < end->peer_port);
	if (key.is_here) {
		key.service = local_service;
		key.port = end->local_port;
		snprintf(key.local, sizeof(key.local), "%s", end->local);
	}
	return key;
}

static struct group *find_group(struct group **groups, const struct key *key)
{
	struct group *group;

	HASH_FIND(hh, *groups, key, sizeof(*key), group);
	if (group)
		return group;
	group = calloc(1, sizeof(*group));
	if (!group)
		return NULL;
	group->key = *key;
	HASH_ADD(hh, *groups, key, sizeof(group->key), group);
	return group;
}

static void free_groups(struct groups *groups)
{
	struct group **const tables[] = {&groups->by_peer, &groups->by_service};
	struct group *group, *next;

	for (size_t i = 0; i < 2; i++)
		HASH_ITER(hh, *tables[i], group, next)
		{
			HASH_DEL(*tables[i], group);
			free(group);
		}
	free(groups->of);
}

static bool is_candidate(const struct lw_tcp_end *end)
{
	return !(end->rank != LW_NONE && end->peer_rank != LW_NONE);
}

static int add_ends(const struct lw_run *run, const struct lw_net_on_nics *on, int32_t nic,
	struct groups *groups)
{
	for (size_t i = on->first[nic]; i < on->first[nic + 1]; i++) {
		const struct lw_tcp_end *end = &run->ends.at[on->ends[i]];
		struct key key;
		struct group *group;

		if (!is_candidate(end))
			continue;
		key = key_of(end);
		group = find_group(&groups->by_peer, &key);
		if (!group)
			return lw_fail(LW_ERR_NOMEM, "no memory");
		group->in_bytes += lw_net_received_total(end);
		group->out_bytes += lw_net_sent_total(end);
		memcpy(group->peer, end->peer, sizeof(group->peer));
		group->n_addresses = 1;
		group->n_ends++;
		groups->of[i - on->first[nic]] = group;
	}
	return LW_OK;
}

/* By service alone. */
static int merge(struct groups *groups)
{
	struct group *group, *next;

	HASH_ITER(hh, groups->by_peer, group, next)
	{
		struct key key = group->key;

		memset(key.peer, 0, sizeof(key.peer));
		group->into = find_group(&groups->by_service, &key);
		if (!group->into)
			return lw_fail(LW_ERR_NOMEM, "no memory");
		group->into->in_bytes += group->in_bytes;
		group->into->out_bytes += group->out_bytes;
		group->into->n_addresses++;
		group->into->n_ends += group->n_ends;
		/* one that is alone keeps its name */
		memcpy(group->into->peer, group->peer, sizeof(group->peer));
	}
	return LW_OK;
}

static double bytes_of(const struct group *group)
{
	return group->in_bytes + group->out_bytes;
}

static int by_bytes(const void *a, const void *b)
{
	const struct group *x = *(struct group *const *)a, *y = *(struct group *const *)b;
	int by = (bytes_of(y) > bytes_of(x)) - (bytes_of(y) < bytes_of(x));

	if (!by)
		by = (x->key.port > y->key.port) - (x->key.port < y->key.port);
	return by ? by : strcmp(x->peer, y->peer);
}

static void name_candidate(
	const struct lw_run *run, const struct group *group, char *text, size_t n)
{
	const struct key *key = &group->key;
	const char *service = key->service < 0 ? NULL : services[key->service].name;
	char who[32] = "another process", peers[LW_ADDRESS_BYTES + 16];
	bool is_one = group->n_addresses == 1;

	if (key->whose == OF_RANK)
		snprintf(who, sizeof(who), "rank %d", run->ranks.at[key->rank].rank);
	else if (key->whose == OF_JOB)
		snprintf(who, sizeof(who), "a process of the job");
	if (!is_one)
		snprintf(peers, sizeof(peers), "%zu addresses", group->n_addresses);
	else
		snprintf(
			peers, sizeof(peers), "%s", *group->peer ? group->peer : "any (datagrams)");
	snprintf(text, n, "%s, %s %d%s%s%s at %s%s%s", who, key->is_rdma ? "queue pair" : "port",
		(int)key->port, service ? " (" : "", service ? service : "", service ? ")" : "",
		key->is_here ? key->local : peers, key->is_here ? ", with " : "",
		key->is_here ? peers : "");
}

static int put_candidate(
	const struct lw_run *run, struct lw_net_account *account, const struct group *group)
{
	struct lw_net_candidate one = {.bytes = bytes_of(group),
		.in_bytes = group->in_bytes,
		.out_bytes = group->out_bytes,
		.n_connections = group->n_ends,
		.is_job = group->key.whose != OF_OTHERS,
		.is_storage = group->key.service >= 0 && services[group->key.service].is_storage,
		.outside_frac = group->key.whose == OF_RANK ? group->outside_bytes / bytes_of(group)
							    : (double)NAN};

	name_candidate(run, group, one.text, sizeof(one.text));
	return lw_vec_push(&account->candidates, one);
}

/* What is not shown by itself. */
static int put_others(struct lw_net_account *account, struct group **groups, size_t n)
{
	struct lw_net_candidate one = {.is_others = true, .outside_frac = NAN};

	for (size_t i = 0; i < n; i++) {
		one.in_bytes += groups[i]->in_bytes;
		one.out_bytes += groups[i]->out_bytes;
		one.n_connections += groups[i]->n_ends;
	}
	one.bytes = one.in_bytes + one.out_bytes;
	if (!n || one.bytes < LEAST_BYTES)
		return LW_OK;
	snprintf(one.text, sizeof(one.text), "%zu other connections", one.n_connections);
	return lw_vec_push(&account->candidates, one);
}

/* Of those that are shown: how much went while their rank was in no operation. */
static int find_outside(const struct lw_run *run, const struct lw_net_on_nics *on, int32_t nic,
	const struct groups *groups)
{
	int status = LW_OK;

	for (size_t i = on->first[nic]; i < on->first[nic + 1] && status == LW_OK; i++) {
		const struct lw_tcp_end *end = &run->ends.at[on->ends[i]];
		struct group *group = groups->of[i - on->first[nic]];
		double bytes;

		if (group && group->into)
			group = group->into;
		if (!group || !group->is_shown || end->rank == LW_NONE)
			continue;
		status = lw_net_outside_bytes(
			run, on, end, lw_net_sent_total(end) + lw_net_received_total(end), &bytes);
		group->outside_bytes += bytes;
	}
	return status;
}

static int show(const struct lw_run *run, const struct lw_net_on_nics *on,
	struct lw_net_account *account, const struct groups *groups)
{
	struct group *table = groups->by_service ? groups->by_service : groups->by_peer, *group,
		     *next;
	struct group **sorted = calloc(HASH_COUNT(table) + 1, sizeof(struct group *));
	size_t n = 0, n_shown = 0;
	int status;

	if (!sorted)
		return lw_fail(LW_ERR_NOMEM, "no memory");
	HASH_ITER(hh, table, group, next)
	sorted[n++] = group;
	qsort(sorted, n, sizeof(struct group *), by_bytes);
	while (n_shown < n && n_shown < MAX_CANDIDATES && bytes_of(sorted[n_shown]) >= LEAST_BYTES)
		sorted[n_shown++]->is_shown = true;
	status = find_outside(run, on, account->nic, groups);
	for (size_t i = 0; i < n_shown && status == LW_OK; i++)
		status = put_candidate(run, account, sorted[i]);
	if (status == LW_OK)
		status = put_others(account, sorted + n_shown, n - n_shown);
	free(sorted);
	return status;
}

int lw_net_find_candidates(
	const struct lw_run *run, const struct lw_net_on_nics *on, struct lw_net_account *account)
{
	size_t n_ends = on->first[account->nic + 1] - on->first[account->nic];
	struct groups groups = {.of = calloc(n_ends + 1, sizeof(struct group *))};
	int status = groups.of ? add_ends(run, on, account->nic, &groups)
			       : lw_fail(LW_ERR_NOMEM, "no memory");

	if (status == LW_OK && HASH_COUNT(groups.by_peer) > MAX_CANDIDATES)
		status = merge(&groups);
	if (status == LW_OK)
		status = show(run, on, account, &groups);
	free_groups(&groups);
	return status;
}
