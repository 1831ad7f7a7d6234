/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/reconstruct/nccl_words.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const char *lw_nccl_slow_text(
	const struct lw_run *run, const struct lw_nccl_links *links, char text[LW_GPU_TEXT_BYTES])
{
	char bytes[LW_UNIT_TEXT_BYTES], unit[2][LW_UNIT_TEXT_BYTES], others[80];
	const struct lw_nccl_link *link;

	text[0] = 0;
	if (links->slow == LW_NONE)
		return text;
	link = &links->at.at[links->slow];
	snprintf(others, sizeof(others),
		"on none of the other %d links with messages of that size for more", links->n_like);
	snprintf(text, LW_GPU_TEXT_BYTES,
		"Slow: from rank %d to rank %d a message (%s) was on the network for up to %s, %s than %s (%.0f messages, both halves of the run alike). Rank %d had asked for it and waited meanwhile: the way between them is slow, or the threads of NCCL that drive it.",
		lw_run_rank_number(run, link->from), lw_run_rank_number(run, link->to),
		lw_bytes_format(link->sent.bytes / link->sent.n_messages, bytes),
		lw_ns_format(links->slow_ns, unit[0]),
		links->n_like == 1 ? "the other way, between the same two, for no more" : others,
		lw_ns_format(links->next_ns, unit[1]), link->both.n_messages,
		lw_run_rank_number(run, link->to));
	return text;
}

const char *lw_nccl_late_text(
	const struct lw_run *run, const struct lw_nccl_links *links, char text[LW_GPU_TEXT_BYTES])
{
	char unit[2][LW_UNIT_TEXT_BYTES], next[96] = "";

	text[0] = 0;
	if (links->late == LW_NONE)
		return text;
	if (links->late_next_ns > 0)
		snprintf(next, sizeof(next), " (other ranks that wait for nobody: %s)",
			lw_ns_format(links->late_next_ns, unit[1]));
	snprintf(text, LW_GPU_TEXT_BYTES,
		"Late: rank %d had not asked for what rank %d had ready, for at least %s of a message%s, in both halves of the run, and itself waited for nobody as long: its GPU, or its host, comes later than the others, not the network.",
		lw_run_rank_number(run, links->late), lw_run_rank_number(run, links->late_for),
		lw_ns_format(links->late_ns, unit[0]), next);
	return text;
}

const char *lw_nccl_link_name(const struct lw_run *run, const struct lw_nccl_link *link,
	char text[LW_NCCL_LINK_NAME_BYTES])
{
	bool is_rdma = link->kinds & 1u << LW_NCCL_NET_QP;
	bool is_tcp = link->kinds & 1u << LW_NCCL_NET_SOCKET;

	snprintf(text, LW_NCCL_LINK_NAME_BYTES, "%s%s%s%s%.40s", is_rdma ? "RDMA" : "",
		is_rdma && is_tcp ? ", " : "", is_tcp ? "TCP" : "",
		link->has_nics || link->nic != LW_NONE ? " " : "",
		link->has_nics         ? "several NICs"
		: link->nic != LW_NONE ? run->nics.at[link->nic].name
				       : "");
	return text;
}

const char *lw_nccl_wait_text(double sum_ns, double n_messages, char text[LW_UNIT_TEXT_BYTES])
{
	double ns = n_messages > 0 ? sum_ns / n_messages : (double)NAN;

	if (!(ns < 1000))
		return lw_ns_or_unknown(ns, text);
	snprintf(text, LW_UNIT_TEXT_BYTES, "< 1 us");
	return text;
}

const char *lw_nccl_why_unasked(
	const struct lw_run *run, int32_t rank, const struct lw_nccl_side *sent, unsigned kinds)
{
	enum { FIRST_THAT_TELLS = 4 }; /* NCCL 2.27 */
	int version = rank == LW_NONE ? 0 : run->ranks.at[rank].gpu.nccl_plugin;

	if (version && version < FIRST_THAT_TELLS)
		return "NCCL tells of it from 2.27 on; before that it is in network";
	if (sent->peer_ns > 0 || kinds == 1u << LW_NCCL_NET_QP)
		return NULL;
	return kinds & 1u << LW_NCCL_NET_SOCKET
		       ? "over sockets nobody asks: a receiver that comes late may look like the network"
		       : "NCCL told of none, as over sockets, where nobody asks: a receiver that comes late may look like the network";
}

/* "; queue pair 4711 on mlx5_0/1", of the first that carried @proxy's messages, and how many more. */
static void add_carriers(const struct lw_run *run, const struct lw_rank *rank,
	const struct lw_nccl_proxy *proxy, char text[LW_GPU_TEXT_BYTES])
{
	const struct lw_tcp_end *first = NULL;
	size_t n, n_like = 0, at = strlen(text);
	const struct lw_nccl_carrier *carrier = lw_nccl_carriers_of(rank, proxy->op, &n);
	int used;

	for (; n > 0; carrier++, n--) {
		const struct lw_tcp_end *end =
			carrier->end == LW_NONE ? NULL : &run->ends.at[carrier->end];

		if (!end || proxy->peer == LW_NONE || end->peer_rank != proxy->peer)
			continue;
		first = first ? first : end;
		n_like++;
	}
	if (!first)
		return;
	if (first->is_rdma)
		used = snprintf(
			text + at, LW_GPU_TEXT_BYTES - at, "; queue pair %d", first->local_port);
	else
		used = snprintf(text + at, LW_GPU_TEXT_BYTES - at, "; socket %s:%d", first->local,
			first->local_port);
	at += used > 0 ? (size_t)used : 0;
	if (first->nic != LW_NONE && at < LW_GPU_TEXT_BYTES)
		used = snprintf(text + at, LW_GPU_TEXT_BYTES - at, " on %.40s",
			run->nics.at[first->nic].name);
	at = strlen(text);
	if (n_like > 1)
		snprintf(text + at, LW_GPU_TEXT_BYTES - at, " and %zu more", n_like - 1);
}

/* By what @proxy's messages went: 1 << enum lw_nccl_net_op. */
static unsigned kinds_of(
	const struct lw_run *run, const struct lw_rank *rank, const struct lw_nccl_proxy *proxy)
{
	unsigned kinds = 0;
	size_t n;
	const struct lw_nccl_carrier *carrier = lw_nccl_carriers_of(rank, proxy->op, &n);

	for (; n > 0; carrier++, n--)
		if (carrier->end != LW_NONE && proxy->peer != LW_NONE &&
			run->ends.at[carrier->end].peer_rank == proxy->peer)
			kinds |= 1u << carrier->kind;
	return kinds;
}

const char *lw_nccl_moved_text(const struct lw_run *run, const struct lw_rank *rank, int32_t op,
	bool is_send, char text[LW_GPU_TEXT_BYTES])
{
	char bytes[LW_UNIT_TEXT_BYTES], unit[3][LW_UNIT_TEXT_BYTES], peer[48];
	const struct lw_nccl_proxy *proxies, *most = NULL;
	size_t n, n_peers = 0;
	double n_messages;
	struct lw_nccl_side sent = {0};

	text[0] = 0;
	proxies = lw_nccl_proxies_of(rank, op, &n);
	for (size_t i = 0; i < n; i++) {
		if (proxies[i].is_send != is_send)
			continue;
		n_peers++;
		if (!most || proxies[i].bytes > most->bytes)
			most = &proxies[i];
	}
	if (!most)
		return text;
	if (most->peer != LW_NONE)
		snprintf(peer, sizeof(peer), "rank %d", lw_run_rank_number(run, most->peer));
	else
		snprintf(peer, sizeof(peer), "%d of its communicator", most->comm_peer);
	n_messages = (double)most->n_messages;
	sent.peer_ns = most->peer_ns;
	n = (size_t)snprintf(text, LW_GPU_TEXT_BYTES,
		"%s %s %s %s on %u channel%s, %llu message%s; of one: ",
		is_send ? "sent" : "received", lw_bytes_format((double)most->bytes, bytes),
		is_send ? "to" : "from", peer, most->n_proxies, most->n_proxies == 1 ? "" : "s",
		(unsigned long long)most->n_messages, most->n_messages == 1 ? "" : "s");
	lw_nccl_wait_text(most->gpu_ns, n_messages, unit[0]);
	lw_nccl_wait_text(most->peer_ns, n_messages, unit[1]);
	if (is_send && lw_nccl_why_unasked(run, (int32_t)(rank - run->ranks.at), &sent,
			       kinds_of(run, rank, most)))
		snprintf(unit[1], sizeof(unit[1]), "?");
	if (is_send)
		snprintf(text + n, LW_GPU_TEXT_BYTES - n,
			"GPU not ready %s, receiver not ready %s, on the network %s", unit[0],
			unit[1], lw_nccl_wait_text(most->wire_ns, n_messages, unit[2]));
	else
		snprintf(text + n, LW_GPU_TEXT_BYTES - n,
			"asked for and not there %s, GPU had not taken it %s", unit[1], unit[0]);
	add_carriers(run, rank, most, text);
	n = strlen(text);
	if (n_peers > 1)
		snprintf(text + n, LW_GPU_TEXT_BYTES - n, "; likewise %zu more rank%s", n_peers - 1,
			n_peers == 2 ? "" : "s");
	n = strlen(text);
	if (rank->gpu.nccl_ops.at[op].group)
		snprintf(text + n, LW_GPU_TEXT_BYTES - n, "; other calls of its group apart");
	return text;
}
