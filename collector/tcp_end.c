/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tcp_end.c - connections that the hook announces, and those that end, which the kernel tells by itself. One that came
 * and went between two looks has that one account; whose it was says the hook, now or a little later.
 */
#include "collector/tcp_follow.h"

#include <string.h>

#include "base/err.h"
#include "base/units.h"

enum {
	PENDING_MAX = 4096, /* announced by the hook, not found yet */
	SHORT_MAX = 1024,   /* ended before they were announced */
};

static bool is_same(const struct lw_tcp_pending *pending, const struct lw_tcp_brief *brief)
{
	const struct lw_tcp_seen *seen = &brief->seen;

	return pending->namespace_key == brief->namespace_key &&
	       pending->local_port == seen->local_port && pending->peer_port == seen->peer_port &&
	       !memcmp(pending->local, seen->local, sizeof(seen->local)) &&
	       !memcmp(pending->peer, seen->peer, sizeof(seen->peer));
}

static void settle(
	struct lw_samplers *samplers, const struct lw_tcp_brief *brief, int64_t process_id)
{
	struct lw_tcp *tcp = samplers->tcp;
	struct lw_tcp_followed *one;

	if (!process_id && (lw_tcp_moved_bytes(&brief->seen.values) < LW_TCP_OTHERS_BYTES ||
				   tcp->n_others_stored >= LW_TCP_STORED_MAX))
		return;
	one = lw_tcp_add(samplers, &brief->seen, brief->namespace_key, process_id, brief->at_ns);
	if (!one)
		return;
	if (!one->is_stored) {
		tcp->n_others_stored++;
		lw_tcp_store(samplers, one);
	}
	lw_tcp_drop(samplers, one, true);
}

void lw_tcp_settle(struct lw_samplers *samplers, uint64_t namespace_key, int64_t before_ns)
{
	struct lw_tcp *tcp = samplers->tcp;
	size_t n_kept = 0;

	for (size_t i = 0; i < tcp->briefs.n; i++) {
		if (tcp->briefs.at[i].at_ns < before_ns &&
			(!namespace_key || tcp->briefs.at[i].namespace_key == namespace_key))
			settle(samplers, &tcp->briefs.at[i], 0);
		else
			tcp->briefs.at[n_kept++] = tcp->briefs.at[i];
	}
	tcp->briefs.n = n_kept;
}

static void take_brief(struct lw_samplers *samplers, const struct lw_tcp_seen *seen, int64_t at_ns)
{
	struct lw_tcp *tcp = samplers->tcp;
	const struct lw_tcp_brief brief = {*seen, tcp->netns->key, at_ns};
	struct lw_tcp_pending *pending;

	lw_vec_foreach (pending, &tcp->pending) {
		if (!is_same(pending, &brief))
			continue;
		pending->is_found = true;
		settle(samplers, &brief, pending->process_id);
		return;
	}
	if (tcp->briefs.n == SHORT_MAX)
		lw_tcp_settle(samplers, 0, INT64_MAX);
	if (lw_vec_push(&tcp->briefs, brief) < 0)
		lw_error_clear();
}

static void take_ended(void *user, struct nlmsghdr *message)
{
	struct lw_tcp *tcp = user;
	int64_t at_ns = lw_clock_ns();
	struct lw_tcp_followed *one;
	struct lw_tcp_seen seen;

	if (lw_tcp_parse(message, &seen) < 0 || !seen.has_values)
		return;
	one = lw_tcp_find(tcp, seen.cookie);
	if (!one) {
		take_brief(tcp->samplers, &seen, at_ns);
		return;
	}
	/* One that was reset, or closed with SO_LINGER 0, has forgotten its counts by then. */
	if (lw_tcp_moved_bytes(&seen.values) >= lw_tcp_moved_bytes(&one->values))
		lw_tcp_read(tcp->samplers, one, &seen.values, at_ns);
	lw_tcp_drop(tcp->samplers, one, true);
}

void lw_tcp_take_ended(struct lw_samplers *samplers, struct lw_netns *netns)
{
	struct lw_tcp *tcp = samplers->tcp;

	tcp->netns = netns;
	if (lw_netlink_take(netns->sockets.ended_fd, samplers->buffer, take_ended, tcp) < 0)
		lw_samplers_trouble(samplers,
			"too many TCP connections ended at once: last samples of some are missing");
}

static bool is_asked(const struct lw_samplers *samplers, uint64_t namespace_key)
{
	for (size_t i = 0; i < samplers->namespaces.n; i++)
		if (samplers->namespaces.at[i]->key == namespace_key)
			return samplers->namespaces.at[i]->sockets.diag_fd >= 0;
	return false;
}

void lw_tcp_announce(struct lw_samplers *samplers, int64_t process_id, uint64_t namespace_key,
	const struct lw_ev_socket *socket)
{
	struct lw_tcp *tcp = samplers->tcp;
	struct lw_tcp_pending pending = {.process_id = process_id,
		.namespace_key = namespace_key,
		.local_port = socket->local_port,
		.peer_port = socket->peer_port};

	/* Of a namespace that cannot be asked, or has gone, it would wait for ever. */
	if (!is_asked(samplers, namespace_key))
		return;
	memcpy(pending.local, socket->local, sizeof(pending.local));
	memcpy(pending.peer, socket->peer, sizeof(pending.peer));
	for (size_t i = 0; i < tcp->briefs.n; i++) {
		if (!is_same(&pending, &tcp->briefs.at[i]))
			continue;
		settle(samplers, &tcp->briefs.at[i], process_id);
		tcp->briefs.at[i] = tcp->briefs.at[--tcp->briefs.n];
		return;
	}
	/* More at once than that: the next list has them. */
	if (tcp->pending.n < PENDING_MAX && lw_vec_push(&tcp->pending, pending) < 0)
		lw_error_clear();
}
