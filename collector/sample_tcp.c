/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sample_tcp.c - TCP_INFO of the job's connections, and of others of the host that move much.
 *
 * A list of all connections costs the kernel a walk over its whole table (a millisecond on a small host),
 * so that comes seldom. What the hook announces and what a list found among the job's descriptors is then
 * asked for one by one, which is two microseconds each; connections that rest, every tenth time only.
 * The kernel's own account at the end of each connection comes by itself.
 */
#include "collector/sample_tcp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/address.h"
#include "base/err.h"
#include "base/units.h"
#include "collector/tcp_follow.h"

#define BRIEF_NS (2 * LW_NS_PER_S) /* the hook's word of a short one may come that much later */

enum {
	PENDING_LOOKS = 5, /* then what was announced is not there any more */
	BATCH = 64,
	ANSWER_BYTES = LW_NETLINK_BUFFER_BYTES / BATCH,
	FEW = 64,        /* so many of the job are asked for every time */
	REST_LOOKS = 10, /* else those unchanged for so long every REST_LOOKS-th time */
};

/* ---- one by one ------------------------------------------------------------------------------------------ */

struct batch {
	struct lw_tcp_request requests[BATCH];
	struct lw_tcp_followed *of[BATCH];
	struct lw_tcp_pending *pending[BATCH]; /* where `of` is NULL: announced, not known yet */
	size_t n;
};

/* Return: it is of this batch. */
static bool take_answer(
	struct lw_samplers *samplers, struct batch *batch, struct nlmsghdr *message, int64_t at_ns)
{
	struct lw_tcp *tcp = samplers->tcp;
	size_t i = message->nlmsg_seq - batch->requests[0].head.nlmsg_seq;
	struct lw_tcp_seen seen;
	struct lw_tcp_followed *one;

	if (i >= batch->n)
		return false; /* late, of a batch that was given up */
	one = batch->of[i];
	if (message->nlmsg_type == NLMSG_ERROR && one)
		one->n_missing++;
	if (lw_tcp_parse(message, &seen) < 0 || !seen.has_values)
		return true;
	if (one) {
		if (seen.cookie == one->key.cookie)
			lw_tcp_read(samplers, one, &seen.values, at_ns);
		return true;
	}
	batch->pending[i]->is_found = true;
	one = lw_tcp_find(tcp, seen.cookie);
	if (!one)
		lw_tcp_add(samplers, &seen, tcp->netns->key, batch->pending[i]->process_id, at_ns);
	else if (!one->is_own)
		lw_tcp_become_own(samplers, one, batch->pending[i]->process_id);
	return true;
}

static void ask(struct lw_samplers *samplers, struct batch *batch)
{
	int fd = samplers->tcp->netns->sockets.diag_fd, n;
	struct mmsghdr answers[BATCH];
	struct iovec buffers[BATCH];
	size_t n_answered = 0;

	if (batch->n && send(fd, batch->requests, batch->n * sizeof(batch->requests[0]), 0) < 0) {
		lw_samplers_trouble(
			samplers, "TCP connections cannot be asked for: %s", strerror(errno));
		batch->n = 0;
	}
	for (size_t i = 0; i < BATCH; i++) {
		buffers[i] = (struct iovec){samplers->buffer + i * ANSWER_BYTES, ANSWER_BYTES};
		answers[i] = (struct mmsghdr){.msg_hdr = {.msg_iov = &buffers[i], .msg_iovlen = 1}};
	}
	/* The kernel has answered all of it by the time that send() returns. */
	while (n_answered < batch->n &&
		(n = recvmmsg(fd, answers, (unsigned)(batch->n - n_answered), MSG_DONTWAIT, NULL)) >
			0) {
		int64_t at_ns = lw_clock_ns();

		for (int i = 0; i < n; i++) {
			struct nlmsghdr *message = buffers[i].iov_base;

			if (lw_netlink_is_whole(message, (int)answers[i].msg_len))
				n_answered += take_answer(samplers, batch, message, at_ns);
		}
	}
	batch->n = 0;
}

static void put(struct lw_samplers *samplers, struct batch *batch, uint8_t family,
	const struct inet_diag_sockid *id, struct lw_tcp_followed *one,
	struct lw_tcp_pending *pending)
{
	lw_tcp_request_one(&batch->requests[batch->n], family, id, ++samplers->tcp->sequence);
	batch->of[batch->n] = one;
	batch->pending[batch->n] = pending;
	if (++batch->n == BATCH)
		ask(samplers, batch);
}

static void ask_pending(struct lw_samplers *samplers, struct batch *batch)
{
	struct lw_tcp *tcp = samplers->tcp;
	struct lw_tcp_pending *pending;

	lw_vec_foreach (pending, &tcp->pending) {
		bool is_v4 = lw_address_is_v4(pending->local);
		size_t skipped = is_v4 ? LW_ADDRESS_V4_AT : 0;
		struct inet_diag_sockid id = {.idiag_sport = htons(pending->local_port),
			.idiag_dport = htons(pending->peer_port),
			.idiag_cookie = {INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE}};

		if (pending->namespace_key != tcp->netns->key || pending->is_found)
			continue;
		pending->n_asked++;
		memcpy(id.idiag_src, pending->local + skipped, 16 - skipped);
		memcpy(id.idiag_dst, pending->peer + skipped, 16 - skipped);
		put(samplers, batch, is_v4 ? AF_INET : AF_INET6, &id, NULL, pending);
	}
	ask(samplers, batch);
}

static void ask_known(struct lw_samplers *samplers, struct batch *batch)
{
	struct lw_tcp *tcp = samplers->tcp;
	struct lw_tcp_followed *one, *next;

	HASH_ITER(hh, tcp->connections, one, next)
	{
		if (!one->is_own || one->key.namespace_key != tcp->netns->key)
			continue;
		/* Its end was told to nobody (or lost). */
		if (one->n_missing >= REST_LOOKS)
			lw_tcp_drop(samplers, one, false);
		else if (tcp->n_own <= FEW || one->n_unchanged < REST_LOOKS ||
			 tcp->n_looks % REST_LOOKS == 0)
			put(samplers, batch, one->family, &one->id, one, NULL);
	}
	ask(samplers, batch);
}

static void forget_found(struct lw_tcp *tcp)
{
	size_t n_kept = 0;

	for (size_t i = 0; i < tcp->pending.n; i++)
		if (!tcp->pending.at[i].is_found && tcp->pending.at[i].n_asked < PENDING_LOOKS)
			tcp->pending.at[n_kept++] = tcp->pending.at[i];
	tcp->pending.n = n_kept;
}

void lw_sample_tcp(struct lw_samplers *samplers)
{
	struct lw_tcp *tcp = samplers->tcp;
	struct batch batch;

	batch.n = 0;
	tcp->n_looks++;
	for (size_t i = 0; i < samplers->namespaces.n; i++) {
		tcp->netns = samplers->namespaces.at[i];
		if (tcp->netns->sockets.diag_fd < 0)
			continue;
		lw_tcp_take_ended(samplers, tcp->netns);
		ask_pending(samplers, &batch);
		ask_known(samplers, &batch);
	}
	forget_found(tcp);
	lw_tcp_settle(samplers, 0, lw_clock_ns() - BRIEF_NS);
	if (tcp->n_over)
		lw_samplers_trouble(samplers,
			"more than %d TCP connections of the job or %d of others: not all are sampled",
			LW_TCP_OWN_MAX, LW_TCP_OTHERS_MAX);
	tcp->n_over = 0;
}

/* ---- the list of all ------------------------------------------------------------------------------------- */

static void take_listed(void *user, struct nlmsghdr *message)
{
	struct lw_tcp *tcp = user;
	struct lw_tcp_seen seen;
	struct lw_tcp_followed *one;
	int64_t process_id, at_ns = lw_clock_ns();

	if (lw_tcp_parse(message, &seen) < 0 || !seen.has_values)
		return;
	process_id = lw_owner_find(tcp->owned, seen.inode);
	one = lw_tcp_find(tcp, seen.cookie);
	if (!one) {
		lw_tcp_add(tcp->samplers, &seen, tcp->netns->key, process_id, at_ns);
		return;
	}
	one->n_lists = tcp->n_lists;
	if (process_id && !one->is_own)
		lw_tcp_become_own(tcp->samplers, one, process_id);
	lw_tcp_read(tcp->samplers, one, &seen.values, at_ns);
}

/* Others' whose end was told to nobody. A list is no instant: one miss may be by chance. */
static void drop_unlisted(struct lw_samplers *samplers)
{
	struct lw_tcp *tcp = samplers->tcp;
	struct lw_tcp_followed *one, *next;

	HASH_ITER(hh, tcp->connections, one, next)
	if (!one->is_own && one->key.namespace_key == tcp->netns->key &&
		tcp->n_lists - one->n_lists > 1)
		lw_tcp_drop(samplers, one, false);
}

void lw_sample_tcp_list(struct lw_samplers *samplers)
{
	struct lw_tcp *tcp = samplers->tcp;
	struct lw_job_process *process;

	tcp->n_lists++;
	lw_vec_foreach (process, &samplers->processes) {
		int n;

		n = lw_owner_scan(process->pid, process->process_id, &tcp->owned);
		if (n < 0 && n != -ENOENT && n != -ESRCH)
			lw_samplers_trouble(samplers,
				"/proc/%d/fd: %s: its connections are those that the hook sees",
				process->pid, strerror(-n));
	}
	for (size_t i = 0; i < samplers->namespaces.n; i++) {
		struct lw_tcp_list_request request;

		tcp->netns = samplers->namespaces.at[i];
		if (tcp->netns->sockets.diag_fd < 0)
			continue;
		lw_tcp_take_ended(samplers, tcp->netns);
		lw_tcp_request_list(&request);
		if (lw_netlink_dump(tcp->netns->sockets.diag_fd, &request.head, samplers->buffer,
			    take_listed, tcp) < 0)
			lw_samplers_trouble(
				samplers, "TCP connections cannot be listed: %s", lw_error_text());
		else
			drop_unlisted(samplers);
		lw_error_clear();
	}
	lw_owner_forget(&tcp->owned);
}
