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
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <uthash.h>

#include "base/address.h"
#include "base/units.h"

enum {
	OWN_MAX = 10000,     /* connections of the job that are followed at once */
	OTHERS_MAX = 4096,   /* and of other processes */
	STORED_MAX = 100000, /* of others, in a run */
	PENDING_MAX = 4096,  /* announced by the hook, not found yet */
	PENDING_LOOKS = 5,   /* then it is not there any more */
	SHORT_MAX = 1024,    /* ended before they were announced */
	BATCH = 64,
	ANSWER_BYTES = LW_NETLINK_BUFFER_BYTES / BATCH,
	FEW = 64,               /* so many of the job are asked for every time */
	REST_LOOKS = 10,        /* else those unchanged for so long every REST_LOOKS-th time */
	OTHERS_BYTES = 1 << 16, /* what another process's must move to be stored */
};

struct key {
	uint64_t namespace_key, cookie;
};

struct connection {
	struct key key;
	struct lw_tcp_connection_row row;
	struct inet_diag_sockid id;
	struct lw_tcp_values values; /* last, or the first while it is not stored */
	int64_t row_ns, seen_ns;
	uint32_t n_unchanged, n_missing;
	uint8_t family;
	bool is_own, is_stored;
	UT_hash_handle hh;
};

struct pending {
	int64_t process_id;
	uint64_t namespace_key;
	uint8_t local[16], peer[16];
	uint16_t local_port, peer_port;
	uint32_t n_asked;
	bool is_found;
};

/* One that came and went between two looks: its whole life is in this one account. */
struct brief {
	struct lw_tcp_seen seen;
	uint64_t namespace_key;
	int64_t at_ns;
};
#define BRIEF_NS (2 * LW_NS_PER_S) /* the hook's word of it may come that much later */

struct lw_tcp {
	struct connection *connections;
	size_t n_own, n_others, n_others_stored;
	unsigned n_looks;
	uint32_t sequence;
	lw_vec(struct pending) pending;
	lw_vec(struct brief) briefs;
	struct lw_owned *owned; /* sockets of the job's processes, by the last look */
	/* of the question that is asked just now */
	struct lw_samplers *samplers;
	struct lw_netns *netns;
	uint64_t n_over;
};

/* ---- one reading ------------------------------------------------------------------------------------ */

static void add_row(struct lw_samplers *samplers, struct connection *one, int64_t at_ns)
{
	const struct lw_tcp_row row = {one->row.id, at_ns, one->values};

	lw_readings_add_tcp(samplers->rows, &row);
	one->row_ns = at_ns;
}

static void store(struct lw_samplers *samplers, struct connection *one)
{
	one->is_stored = true;
	one->row.id = lw_readings_next_connection(samplers->rows);
	one->row.device_id = lw_owner_device(samplers, &one->row);
	lw_readings_add_connection(samplers->rows, &one->row);
	add_row(samplers, one, one->seen_ns);
}

static int64_t moved_bytes(const struct lw_tcp_values *values)
{
	return (values->acked_bytes > 0 ? values->acked_bytes : 0) +
	       (values->received_bytes > 0 ? values->received_bytes : 0);
}

static void read_values(struct lw_samplers *samplers, struct connection *one,
	const struct lw_tcp_values *values, int64_t at_ns)
{
	struct lw_tcp *tcp = samplers->tcp;

	one->row.last_ns = at_ns;
	one->n_missing = 0;
	if (!one->is_stored) {
		if (moved_bytes(values) - moved_bytes(&one->values) < OTHERS_BYTES)
			return;
		if (tcp->n_others_stored >= STORED_MAX) {
			tcp->n_over++;
			return;
		}
		tcp->n_others_stored++;
		store(samplers, one);
	}
	if (!memcmp(&one->values, values, sizeof(*values))) {
		one->n_unchanged++;
		one->seen_ns = at_ns;
		return;
	}
	if (one->seen_ns > one->row_ns)
		add_row(samplers, one, one->seen_ns); /* unchanged until here */
	one->values = *values;
	one->seen_ns = at_ns;
	one->n_unchanged = 0;
	add_row(samplers, one, at_ns);
}

static void become_own(struct lw_samplers *samplers, struct connection *one, int64_t process_id)
{
	one->is_own = true;
	one->row.process_id = process_id;
	samplers->tcp->n_own++;
	samplers->tcp->n_others--;
	if (one->is_stored)
		lw_readings_add_connection(samplers->rows, &one->row);
	else
		store(samplers, one);
}

static struct connection *find(struct lw_tcp *tcp, uint64_t cookie)
{
	const struct key key = {tcp->netns->key, cookie};
	struct connection *one;

	HASH_FIND(hh, tcp->connections, &key, sizeof(key), one);
	return one;
}

static struct connection *add(struct lw_samplers *samplers, const struct lw_tcp_seen *seen,
	uint64_t namespace_key, int64_t process_id, int64_t at_ns)
{
	struct lw_tcp *tcp = samplers->tcp;
	struct connection *one = NULL;

	if (process_id ? tcp->n_own < OWN_MAX : tcp->n_others < OTHERS_MAX)
		one = calloc(1, sizeof(*one));
	if (!one) {
		tcp->n_over++;
		return NULL;
	}
	one->key = (struct key){namespace_key, seen->cookie};
	one->id = seen->id;
	one->family = seen->family;
	one->values = seen->values;
	one->seen_ns = at_ns;
	one->is_own = process_id != 0;
	one->row = (struct lw_tcp_connection_row){.process_id = process_id,
		.inode = seen->inode,
		.namespace_key = namespace_key,
		.local_port = seen->local_port,
		.peer_port = seen->peer_port,
		.first_ns = at_ns,
		.last_ns = at_ns};
	memcpy(one->row.local, seen->local, sizeof(seen->local));
	memcpy(one->row.peer, seen->peer, sizeof(seen->peer));
	HASH_ADD(hh, tcp->connections, key, sizeof(one->key), one);
	*(one->is_own ? &tcp->n_own : &tcp->n_others) += 1;
	if (one->is_own)
		store(samplers, one);
	return one;
}

/* Its last rows; it is not followed any more. */
static void drop(struct lw_samplers *samplers, struct connection *one, bool has_ended)
{
	struct lw_tcp *tcp = samplers->tcp;

	if (one->is_stored) {
		if (one->seen_ns > one->row_ns)
			add_row(samplers, one, one->seen_ns);
		one->row.has_ended = has_ended;
		lw_readings_add_connection(samplers->rows, &one->row);
	}
	*(one->is_own ? &tcp->n_own : &tcp->n_others) -= 1;
	HASH_DEL(tcp->connections, one);
	free(one);
}

/* ---- ends --------------------------------------------------------------------------------------------- */

static bool is_same(const struct pending *pending, const struct brief *brief)
{
	const struct lw_tcp_seen *seen = &brief->seen;

	return pending->namespace_key == brief->namespace_key &&
	       pending->local_port == seen->local_port && pending->peer_port == seen->peer_port &&
	       !memcmp(pending->local, seen->local, sizeof(seen->local)) &&
	       !memcmp(pending->peer, seen->peer, sizeof(seen->peer));
}

static void settle(struct lw_samplers *samplers, const struct brief *brief, int64_t process_id)
{
	struct lw_tcp *tcp = samplers->tcp;
	struct connection *one;

	if (!process_id && (moved_bytes(&brief->seen.values) < OTHERS_BYTES ||
				   tcp->n_others_stored >= STORED_MAX))
		return;
	one = add(samplers, &brief->seen, brief->namespace_key, process_id, brief->at_ns);
	if (!one)
		return;
	if (!one->is_stored) {
		tcp->n_others_stored++;
		store(samplers, one);
	}
	drop(samplers, one, true);
}

/* Those that the hook has not claimed by @before_ns are somebody else's. */
static void settle_older(struct lw_samplers *samplers, int64_t before_ns)
{
	struct lw_tcp *tcp = samplers->tcp;
	size_t n_kept = 0;

	for (size_t i = 0; i < tcp->briefs.n; i++) {
		if (tcp->briefs.at[i].at_ns < before_ns)
			settle(samplers, &tcp->briefs.at[i], 0);
		else
			tcp->briefs.at[n_kept++] = tcp->briefs.at[i];
	}
	tcp->briefs.n = n_kept;
}

static void take_brief(struct lw_samplers *samplers, const struct lw_tcp_seen *seen, int64_t at_ns)
{
	struct lw_tcp *tcp = samplers->tcp;
	const struct brief brief = {*seen, tcp->netns->key, at_ns};
	struct pending *pending;

	lw_vec_foreach (pending, &tcp->pending) {
		if (!is_same(pending, &brief))
			continue;
		pending->is_found = true;
		settle(samplers, &brief, pending->process_id);
		return;
	}
	if (tcp->briefs.n == SHORT_MAX)
		settle_older(samplers, INT64_MAX);
	if (lw_vec_push(&tcp->briefs, brief) < 0)
		lw_error_clear();
}

static void take_ended(void *user, struct nlmsghdr *message)
{
	struct lw_tcp *tcp = user;
	int64_t at_ns = lw_clock_ns();
	struct connection *one;
	struct lw_tcp_seen seen;

	if (lw_tcp_parse(message, &seen) < 0 || !seen.has_values)
		return;
	one = find(tcp, seen.cookie);
	if (!one) {
		take_brief(tcp->samplers, &seen, at_ns);
		return;
	}
	read_values(tcp->samplers, one, &seen.values, at_ns);
	drop(tcp->samplers, one, true);
}

static void take_all_ended(struct lw_samplers *samplers, struct lw_netns *netns)
{
	struct lw_tcp *tcp = samplers->tcp;

	tcp->netns = netns;
	if (lw_netlink_take(netns->sockets.ended_fd, samplers->buffer, take_ended, tcp) < 0)
		lw_samplers_trouble(samplers,
			"too many TCP connections ended at once: last samples of some are missing");
}

/* ---- one by one ------------------------------------------------------------------------------------------ */

struct batch {
	struct lw_tcp_request requests[BATCH];
	struct connection *of[BATCH];
	struct pending *pending[BATCH]; /* where `of` is NULL: announced, not known yet */
	size_t n;
};

static void take_answer(
	struct lw_samplers *samplers, struct batch *batch, struct nlmsghdr *message, int64_t at_ns)
{
	struct lw_tcp *tcp = samplers->tcp;
	size_t i = message->nlmsg_seq - batch->requests[0].head.nlmsg_seq;
	struct lw_tcp_seen seen;
	struct connection *one;

	if (i >= batch->n)
		return; /* late, of a batch that was given up */
	one = batch->of[i];
	if (message->nlmsg_type == NLMSG_ERROR && one)
		one->n_missing++;
	if (lw_tcp_parse(message, &seen) < 0 || !seen.has_values)
		return;
	if (one) {
		read_values(samplers, one, &seen.values, at_ns);
		return;
	}
	batch->pending[i]->is_found = true;
	one = find(tcp, seen.cookie);
	if (!one)
		add(samplers, &seen, tcp->netns->key, batch->pending[i]->process_id, at_ns);
	else if (!one->is_own)
		become_own(samplers, one, batch->pending[i]->process_id);
}

static void ask(struct lw_samplers *samplers, struct batch *batch)
{
	int fd = samplers->tcp->netns->sockets.diag_fd, n;
	struct mmsghdr answers[BATCH];
	struct iovec buffers[BATCH];
	size_t n_answered = 0;

	if (!batch->n || send(fd, batch->requests, batch->n * sizeof(batch->requests[0]), 0) < 0) {
		batch->n = 0;
		return;
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
				take_answer(samplers, batch, message, at_ns);
		}
		n_answered += (size_t)n;
	}
	batch->n = 0;
}

static void put(struct lw_samplers *samplers, struct batch *batch, uint8_t family,
	const struct inet_diag_sockid *id, struct connection *one, struct pending *pending)
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
	struct pending *pending;

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
	struct connection *one, *next;

	HASH_ITER(hh, tcp->connections, one, next)
	{
		if (!one->is_own || one->key.namespace_key != tcp->netns->key)
			continue;
		/* Its end was told to nobody (or lost). */
		if (one->n_missing >= REST_LOOKS)
			drop(samplers, one, false);
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
		take_all_ended(samplers, tcp->netns);
		ask_pending(samplers, &batch);
		ask_known(samplers, &batch);
	}
	forget_found(tcp);
	settle_older(samplers, lw_clock_ns() - BRIEF_NS);
	if (tcp->n_over)
		lw_samplers_trouble(samplers,
			"more than %d TCP connections of the job or %d of others: not all are sampled",
			OWN_MAX, OTHERS_MAX);
	tcp->n_over = 0;
}

/* ---- the list of all ------------------------------------------------------------------------------------- */

static void take_listed(void *user, struct nlmsghdr *message)
{
	struct lw_tcp *tcp = user;
	struct lw_tcp_seen seen;
	struct connection *one;
	int64_t process_id, at_ns = lw_clock_ns();

	if (lw_tcp_parse(message, &seen) < 0 || !seen.has_values)
		return;
	process_id = lw_owner_find(tcp->owned, seen.inode);
	one = find(tcp, seen.cookie);
	if (!one) {
		add(tcp->samplers, &seen, tcp->netns->key, process_id, at_ns);
		return;
	}
	if (process_id && !one->is_own)
		become_own(tcp->samplers, one, process_id);
	read_values(tcp->samplers, one, &seen.values, at_ns);
}

void lw_sample_tcp_list(struct lw_samplers *samplers)
{
	struct lw_tcp *tcp = samplers->tcp;
	struct lw_job_process *process;

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
		take_all_ended(samplers, tcp->netns);
		lw_tcp_request_list(&request);
		if (lw_netlink_dump(tcp->netns->sockets.diag_fd, &request.head, samplers->buffer,
			    take_listed, tcp) < 0)
			lw_samplers_trouble(
				samplers, "TCP connections cannot be listed: %s", lw_error_text());
		lw_error_clear();
	}
	lw_owner_forget(&tcp->owned);
}

/* ---- life ---------------------------------------------------------------------------------------------------- */

int lw_tcp_open(struct lw_samplers *samplers)
{
	samplers->tcp = calloc(1, sizeof(*samplers->tcp));
	if (!samplers->tcp)
		return lw_fail(LW_ERR_NOMEM, "no memory");
	samplers->tcp->samplers = samplers;
	return LW_OK;
}

void lw_tcp_close(struct lw_samplers *samplers)
{
	struct lw_tcp *tcp = samplers->tcp;
	struct connection *one, *next;

	if (!tcp)
		return;
	HASH_ITER(hh, tcp->connections, one, next)
	{
		HASH_DEL(tcp->connections, one);
		free(one);
	}
	lw_owner_forget(&tcp->owned);
	lw_vec_free(&tcp->pending);
	lw_vec_free(&tcp->briefs);
	free(tcp);
}

void lw_tcp_announce(struct lw_samplers *samplers, int64_t process_id, uint64_t namespace_key,
	const struct lw_ev_socket *socket)
{
	struct lw_tcp *tcp = samplers->tcp;
	struct pending pending = {.process_id = process_id,
		.namespace_key = namespace_key,
		.local_port = socket->local_port,
		.peer_port = socket->peer_port};

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

void lw_tcp_forget_namespace(struct lw_samplers *samplers, uint64_t namespace_key)
{
	struct connection *one, *next;

	HASH_ITER(hh, samplers->tcp->connections, one, next)
	if (one->key.namespace_key == namespace_key)
		drop(samplers, one, false);
}

void lw_tcp_finish(struct lw_samplers *samplers)
{
	struct connection *one, *next;

	HASH_ITER(hh, samplers->tcp->connections, one, next)
	drop(samplers, one, false);
}
