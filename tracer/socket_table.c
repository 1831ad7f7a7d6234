/* SPDX-License-Identifier: Apache-2.0 */
/*
 * socket_table.c - see socket_table.h.
 *
 * One 16-bit entry a descriptor leads to a connection with a reference count, so that dup()ed
 * descriptors share one. Everything is atomic and nothing waits. What belongs to a forked child is told
 * from what belongs to its parent by a page that the kernel wipes on fork; a vfork()ed child shares our
 * memory, so whoever changes the table first looks whether it is this process at all.
 */
#include "tracer/socket_table.h"

#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tracer/gloo_preamble.h"

enum { SAMPLE_PERIOD_NS = 100 * 1000 * 1000 };

struct connection {
	_Atomic uint64_t bytes[2]; /* by enum lw_direction */
	_Atomic uint32_t n_calls[2];
	_Atomic int64_t
		sampled_ns; /* CLOCK_MONOTONIC_COARSE of the last periodic sample; 0 = never */
	_Atomic uint32_t n_references; /* descriptors that lead here; 0 = free */
	_Atomic bool is_announced;     /* its SOCKET record is out */
	bool is_parsed;                /* look for Gloo messages */
	uint32_t serial;
	struct lw_ev_socket ends;
};

_Atomic uint16_t lw_fd_entries[LW_FDS_MAX];
static struct connection connections[LW_CONNECTIONS_MAX];
static struct lw_preamble_stream streams[LW_CONNECTIONS_MAX][2];
static int64_t message_start_ns[LW_CONNECTIONS_MAX][2];
static _Atomic uint32_t n_connections; /* ever: the serials */
static _Atomic int highest_fd = -1;

enum { OWNER_NOBODY = 0, OWNER_SETTLING, OWNER_KNOWN };
static _Atomic uint32_t no_owner; /* stands in until the page is there, and when it cannot be */
static _Atomic(_Atomic uint32_t *) owner_state = &no_owner; /* in a page that fork() wipes */
static _Atomic int owner_pid;
static _Atomic int wanted; /* 0 = not asked yet, 1 = yes, -1 = no */

static bool is_wanted(void)
{
	int known = atomic_load_explicit(&wanted, memory_order_relaxed);

	if (!known) {
		known = lw_hook_wanted("socket") || lw_hook_named("gloo_preamble") ? 1 : -1;
		atomic_store_explicit(&wanted, known, memory_order_relaxed);
	}
	return known > 0;
}

static void forget_everything(void)
{
	for (int fd = 0; fd <= atomic_load(&highest_fd); fd++)
		atomic_store_explicit(&lw_fd_entries[fd], LW_FD_UNKNOWN, memory_order_relaxed);
	for (size_t i = 0; i < LW_CONNECTIONS_MAX; i++)
		atomic_store_explicit(&connections[i].n_references, 0, memory_order_relaxed);
	atomic_store(&n_connections, 0);
}

static _Atomic uint32_t *map_owner_page(void)
{
	size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	void *page =
		mmap(NULL, page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	_Atomic uint32_t *none = &no_owner;

	if (page == MAP_FAILED)
		return none;
	if (madvise(page, page_bytes, MADV_WIPEONFORK) < 0 ||
		!atomic_compare_exchange_strong(&owner_state, &none, page)) {
		munmap(page, page_bytes);
		return atomic_load(&owner_state);
	}
	return page;
}

/*
 * May the table be changed from here? Not by a vfork()ed child. The first who asks in a forked child
 * clears what the parent left. One system call, so only where connections come and go.
 */
static bool is_own_table(void)
{
	_Atomic uint32_t *state = atomic_load(&owner_state);
	int pid = (int)syscall(SYS_getpid);
	uint32_t nobody = OWNER_NOBODY;

	if (state == &no_owner)
		state = map_owner_page();
	if (atomic_load(state) == OWNER_KNOWN)
		return pid == atomic_load(&owner_pid);
	if (!atomic_compare_exchange_strong(state, &nobody, OWNER_SETTLING))
		return false;
	forget_everything();
	atomic_store(&owner_pid, pid);
	atomic_store(state, OWNER_KNOWN);
	return true;
}

static bool is_owner_known(void)
{
	return atomic_load_explicit(atomic_load_explicit(&owner_state, memory_order_relaxed),
		       memory_order_relaxed) == OWNER_KNOWN;
}

static bool is_tcp(int fd)
{
	int domain = 0, protocol = 0;
	socklen_t room = sizeof(int);

	if (getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &room) < 0 ||
		protocol != IPPROTO_TCP)
		return false;
	room = sizeof(int);
	return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &room) == 0 &&
	       (domain == AF_INET || domain == AF_INET6);
}

static void store_address(const struct sockaddr_storage *from, uint8_t *to, uint16_t *ret_port)
{
	if (from->ss_family == AF_INET6) {
		const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)from;

		memcpy(to, &six->sin6_addr, 16);
		*ret_port = ntohs(six->sin6_port);
	} else if (from->ss_family == AF_INET) {
		const struct sockaddr_in *four = (const struct sockaddr_in *)from;

		memset(to, 0, 10);
		to[10] = to[11] = 0xff;
		memcpy(to + 12, &four->sin_addr, 4);
		*ret_port = ntohs(four->sin_port);
	}
}

static void find_ends(
	struct connection *connection, int fd, const struct sockaddr *peer, socklen_t peer_bytes)
{
	struct sockaddr_storage address = {0};
	socklen_t room = sizeof(address);
	struct lw_ev_socket *ends = &connection->ends;

	if (getsockname(fd, (struct sockaddr *)&address, &room) == 0)
		store_address(&address, ends->local, &ends->local_port);
	room = sizeof(address);
	if (getpeername(fd, (struct sockaddr *)&address, &room) == 0) {
		store_address(&address, ends->peer, &ends->peer_port);
	} else if (peer && peer_bytes <= sizeof(address)) { /* not connected yet */
		memcpy(&address, peer, peer_bytes);
		store_address(&address, ends->peer, &ends->peer_port);
	}
}

/* A rank of Horovod over Gloo whose vtables could not be watched: the wire is all that is left. */
static bool is_unhooked_horovod(void)
{
	const char *operations = getenv("HOROVOD_CPU_OPERATIONS");

	return !lw_horovod_is_hooked() && (getenv("HOROVOD_GLOO_RENDEZVOUS_ADDR") ||
						  (operations && strcmp(operations, "gloo") == 0));
}

/* Off unless asked for: names and sizes come from better places where those hooks are in place. */
static bool is_parsing_wanted(void)
{
	return lw_hook_named("gloo_preamble") || is_unhooked_horovod();
}

static struct connection *take_free(void)
{
	static _Atomic uint32_t hint;

	for (uint32_t tried = 0; tried < LW_CONNECTIONS_MAX; tried++) {
		uint32_t at = atomic_fetch_add_explicit(&hint, 1, memory_order_relaxed);
		struct connection *connection = &connections[at % LW_CONNECTIONS_MAX];
		uint32_t none = 0;

		if (atomic_compare_exchange_strong(&connection->n_references, &none, 1))
			return connection;
	}
	return NULL;
}

static void raise_highest(int fd)
{
	int highest = atomic_load(&highest_fd);

	while (fd > highest && !atomic_compare_exchange_weak(&highest_fd, &highest, fd))
		;
}

static void set_entry(int fd, uint16_t entry)
{
	if ((unsigned)fd >= LW_FDS_MAX)
		return;
	raise_highest(fd);
	atomic_store_explicit(&lw_fd_entries[fd], entry, memory_order_release);
}

/* Return: the entry of @fd, a new connection, or LW_FD_IGNORED when there is no room for one. */
static uint16_t add_connection(
	int fd, const struct sockaddr *peer, socklen_t peer_bytes, bool is_new)
{
	struct connection *connection = (unsigned)fd < LW_FDS_MAX ? take_free() : NULL;
	uint16_t entry;

	if (!connection) {
		lw_loss(LW_LOSS_TABLE_FULL, 1, "sockets");
		set_entry(fd, LW_FD_IGNORED);
		return LW_FD_IGNORED;
	}
	for (int i = 0; i < 2; i++) {
		atomic_store_explicit(&connection->bytes[i], 0, memory_order_relaxed);
		atomic_store_explicit(&connection->n_calls[i], 0, memory_order_relaxed);
	}
	atomic_store_explicit(&connection->sampled_ns, 0, memory_order_relaxed);
	atomic_store_explicit(&connection->is_announced, false, memory_order_relaxed);
	memset(&connection->ends, 0, sizeof(connection->ends));
	connection->serial = atomic_fetch_add(&n_connections, 1) + 1;
	connection->ends.socket = connection->serial;
	connection->is_parsed = is_new && is_parsing_wanted(); /* else: where in a message? */
	if (connection->is_parsed)
		memset(streams[connection - connections], 0, sizeof(streams[0]));
	find_ends(connection, fd, peer, peer_bytes);
	entry = (uint16_t)(LW_FD_FIRST + (connection - connections));
	set_entry(fd, entry);
	return entry;
}

/* ---- records ----------------------------------------------------------------------------------- */

static int64_t coarse_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static void record_tcp_info(struct connection *connection, int fd, struct lw_event *event)
{
	struct tcp_info info = {0};
	socklen_t room = sizeof(info);

	/* An older kernel fills less: what it does not know stays 0. */
	if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &room) < 0)
		return;
	event->kind = LW_EV_TCP_INFO;
	memset(&event->tcp_info, 0, sizeof(event->tcp_info));
	event->tcp_info.socket = connection->serial;
	event->tcp_info.rtt_us = info.tcpi_rtt;
	event->tcp_info.acked_bytes = info.tcpi_bytes_acked;
	event->tcp_info.received_bytes = info.tcpi_bytes_received;
	event->tcp_info.delivery_bytes_per_s = info.tcpi_delivery_rate;
	event->tcp_info.n_retransmits = info.tcpi_total_retrans;
	event->tcp_info.congestion_window_segments = info.tcpi_snd_cwnd;
	lw_record(event);
}

/* Record the totals, and the kernel's view when @fd still leads there (-1 = it does not). */
static void sample(struct connection *connection, int fd, enum lw_sample_why why)
{
	struct lw_event event = {.kind = LW_EV_SOCKET};
	struct lw_ev_socket_bytes *totals = &event.socket_bytes;
	int saved_errno = errno;

	if (lw_tls.busy || !lw_hook_wanted("socket"))
		return;
	/* A connection that nobody used (a refused connect, a probe of a port) says nothing. */
	if (!atomic_load_explicit(&connection->n_calls[0], memory_order_relaxed) &&
		!atomic_load_explicit(&connection->n_calls[1], memory_order_relaxed))
		return;
	event.t0_ns = event.t1_ns = lw_now_ns();
	if (!atomic_exchange(&connection->is_announced, true)) {
		static _Atomic bool is_reported;

		if (!atomic_exchange(&is_reported, true))
			lw_hook_report("socket", LW_HOOK_ACTIVE, 0, "libc");
		if (fd >= 0) /* a connect() that was under way has a local address by now */
			find_ends(connection, fd, NULL, 0);
		event.socket = connection->ends;
		lw_record(&event);
	}
	memset(totals, 0, sizeof(*totals));
	event.kind = LW_EV_SOCKET_BYTES;
	event.op = (uint16_t)why;
	totals->socket = connection->serial;
	totals->sent_bytes = atomic_load(&connection->bytes[LW_SENT]);
	totals->received_bytes = atomic_load(&connection->bytes[LW_RECEIVED]);
	totals->n_sends = atomic_load(&connection->n_calls[LW_SENT]);
	totals->n_receives = atomic_load(&connection->n_calls[LW_RECEIVED]);
	lw_record(&event);
	if (fd >= 0)
		record_tcp_info(connection, fd, &event);
	errno = saved_errno;
}

static void record_message(
	struct connection *connection, const struct lw_preamble_stream *stream, size_t direction)
{
	struct lw_event event = {
		.kind = LW_EV_GLOO_MESSAGE, .op = (uint16_t)lw_preamble_opcode(stream)};

	event.t1_ns = lw_now_ns();
	event.t0_ns = lw_preamble_payload_bytes(stream)
			      ? message_start_ns[connection - connections][direction]
			      : event.t1_ns;
	event.gloo_message.socket = connection->serial;
	event.gloo_message.slot = lw_preamble_slot(stream);
	event.gloo_message.bytes = lw_preamble_payload_bytes(stream);
	event.gloo_message.is_sent = direction == LW_SENT;
	lw_record(&event);
}

static void parse_part(struct connection *connection, size_t direction, const char *at, size_t n)
{
	struct lw_preamble_stream *stream = &streams[connection - connections][direction];

	while (n && !stream->is_garbage) {
		size_t used;

		switch (lw_preamble_feed(stream, at, n, &used)) {
		case LW_PREAMBLE_MORE:
			break;
		case LW_PREAMBLE_HEADER:
			message_start_ns[connection - connections][direction] = lw_now_ns();
			break;
		case LW_PREAMBLE_MESSAGE:
			/* This process talks Gloo: where nothing else was seen, that is the call of interest. */
			if (!lw_is_live())
				lw_activate(is_unhooked_horovod() ? LW_FRAMEWORK_HOROVOD
								  : LW_FRAMEWORK_NONE,
					LW_TRANSPORT_GLOO);
			record_message(connection, stream, direction);
			break;
		case LW_PREAMBLE_GARBAGE: /* after a message: lost our way; before: not Gloo's */
			if (stream->n_messages)
				lw_loss(LW_LOSS_LAYOUT, 1, "gloo preamble");
			break;
		}
		at += used;
		n -= used;
	}
}

static void parse(struct connection *connection, const struct lw_transfer *transfer)
{
	size_t left = transfer->n_bytes;
	bool is_visible = transfer->data != NULL;

	if (transfer->data)
		parse_part(connection, transfer->direction, transfer->data, left);
	for (size_t i = 0; !transfer->data && i < transfer->n_iov && left; i++) {
		size_t part = transfer->iov[i].iov_len < left ? transfer->iov[i].iov_len : left;

		parse_part(connection, transfer->direction, transfer->iov[i].iov_base, part);
		left -= part;
		is_visible = true;
	}
	if (!is_visible) /* sendfile(): the bytes never came by, so the place in the stream is lost */
		streams[connection - connections][transfer->direction].is_garbage = true;
}

/* ---- what the hooks call ----------------------------------------------------------------------- */

/* First transfer over a descriptor that nobody connected here: inherited, passed on, or no socket. */
static uint16_t classify(int fd)
{
	if (!is_own_table())
		return LW_FD_IGNORED;
	if (is_wanted() && is_tcp(fd))
		return add_connection(fd, NULL, 0, false);
	set_entry(fd, LW_FD_IGNORED);
	return LW_FD_IGNORED;
}

void lw_socket_count(const struct lw_transfer *transfer, uint16_t entry)
{
	struct connection *connection;
	bool is_live = lw_is_live();
	int saved_errno = errno;
	int64_t now_ns, last_ns;

	/* A forked child that records for itself now: nothing that it inherited is its own. */
	if (is_live && LW_UNLIKELY(!is_owner_known()) && !lw_tls.busy) {
		is_own_table();
		entry = lw_fd_entry(transfer->fd);
	}
	if (entry == LW_FD_UNKNOWN) {
		if (!is_live || lw_tls.busy)
			return;
		entry = classify(transfer->fd);
		errno = saved_errno;
	}
	if (entry < LW_FD_FIRST)
		return;
	connection = &connections[entry - LW_FD_FIRST];
	atomic_fetch_add_explicit(
		&connection->bytes[transfer->direction], transfer->n_bytes, memory_order_relaxed);
	atomic_fetch_add_explicit(
		&connection->n_calls[transfer->direction], transfer->n_calls, memory_order_relaxed);
	if (LW_UNLIKELY(connection->is_parsed))
		parse(connection, transfer);
	if (!is_live || lw_tls.busy)
		return;
	now_ns = coarse_now_ns();
	last_ns = atomic_load_explicit(&connection->sampled_ns, memory_order_relaxed);
	if (now_ns - last_ns >= SAMPLE_PERIOD_NS &&
		atomic_compare_exchange_strong(&connection->sampled_ns, &last_ns, now_ns))
		sample(connection, transfer->fd, LW_SAMPLE_PERIOD);
}

/* @fd: still leads to it, -1 = does not any more */
static void release(uint16_t entry, int fd)
{
	struct connection *connection = &connections[entry - LW_FD_FIRST];
	uint32_t n = atomic_load(&connection->n_references);

	/* Two threads may close two copies at once: one of them is told that it has the last. */
	while (n > 1)
		if (atomic_compare_exchange_weak(&connection->n_references, &n, n - 1))
			return;
	/* The last descriptor: sample before the slot is anybody's. */
	if (lw_is_live())
		sample(connection, fd, LW_SAMPLE_CLOSE);
	atomic_fetch_sub(&connection->n_references, 1);
}

void lw_socket_reused(int fd)
{
	uint16_t entry;

	if (lw_fd_entry(fd) == LW_FD_UNKNOWN || (unsigned)fd >= LW_FDS_MAX || !is_own_table())
		return;
	entry = atomic_exchange(&lw_fd_entries[fd], LW_FD_UNKNOWN);
	if (entry >= LW_FD_FIRST)
		release(entry, -1);
}

void lw_socket_closing(int fd)
{
	uint16_t entry = lw_fd_entry(fd);

	if ((unsigned)fd >= LW_FDS_MAX)
		return;
	if (entry == LW_FD_IGNORED) {
		/* Also in a vfork()ed child: at worst the parent looks at the descriptor once more. */
		atomic_store_explicit(&lw_fd_entries[fd], LW_FD_UNKNOWN, memory_order_relaxed);
		return;
	}
	if (!is_own_table())
		return;
	entry = atomic_exchange(&lw_fd_entries[fd], LW_FD_UNKNOWN);
	if (entry >= LW_FD_FIRST)
		release(entry, fd);
}

void lw_socket_opened(int fd, const struct sockaddr *peer, socklen_t peer_bytes)
{
	int saved_errno = errno;
	uint16_t entry = lw_fd_entry(fd);

	if (lw_tls.busy || !is_wanted() || !is_own_table())
		return;
	if (entry >= LW_FD_FIRST && peer) { /* connect() again: under way, or to somebody else */
		struct connection *connection = &connections[entry - LW_FD_FIRST];

		if (!atomic_load(&connection->n_calls[0]) &&
			!atomic_load(&connection->n_calls[1])) {
			find_ends(connection, fd, peer, peer_bytes);
			errno = saved_errno;
			return;
		}
	}
	lw_socket_reused(fd);
	if (is_tcp(fd))
		add_connection(fd, peer, peer_bytes, true);
	else
		set_entry(fd, LW_FD_IGNORED);
	errno = saved_errno;
}

void lw_socket_duplicated(int fd, int copy)
{
	int saved_errno = errno;
	uint16_t entry = lw_fd_entry(fd);
	struct sockaddr_storage peer;
	socklen_t room = sizeof(peer);

	if (fd == copy || lw_tls.busy || !is_own_table())
		return;
	lw_socket_reused(copy);
	if (entry == LW_FD_UNKNOWN && lw_is_live() && is_wanted() &&
		getpeername(fd, (struct sockaddr *)&peer, &room) == 0)
		entry = classify(fd);
	if (entry >= LW_FD_FIRST)
		atomic_fetch_add(&connections[entry - LW_FD_FIRST].n_references, 1);
	if (entry != LW_FD_UNKNOWN)
		set_entry(copy, entry);
	errno = saved_errno;
}

uint32_t lw_socket_serial(int fd)
{
	uint16_t entry = lw_fd_entry(fd);

	return entry >= LW_FD_FIRST ? connections[entry - LW_FD_FIRST].serial : 0;
}

int lw_socket_highest(void)
{
	return atomic_load(&highest_fd);
}

void lw_sockets_flush(enum lw_sample_why why)
{
	static bool is_done[LW_CONNECTIONS_MAX]; /* one sample for all copies of a descriptor */

	if (!is_own_table())
		return;
	memset(is_done, 0, sizeof(is_done));
	for (int fd = 0; fd <= lw_socket_highest(); fd++) {
		uint16_t entry = lw_fd_entry(fd);

		if (entry < LW_FD_FIRST || is_done[entry - LW_FD_FIRST])
			continue;
		is_done[entry - LW_FD_FIRST] = true;
		sample(&connections[entry - LW_FD_FIRST], fd, why);
	}
}
