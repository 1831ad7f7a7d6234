/* SPDX-License-Identifier: Apache-2.0 */
/*
 * socket_table.h - which descriptor is which TCP connection, and how much went over it.
 *
 * Writes: SOCKET, SOCKET_BYTES, TCP_INFO and GLOO_MESSAGE records, in a live process only; counts from
 * connect() and accept() on in every process, because a job connects before it is known to be one.
 * Not for: UDP, Unix sockets, and what bypasses libc (io_uring, raw system calls, stdio on a socket):
 * there TCP_INFO shows more bytes than these counters.
 */
#ifndef LAPWING_TRACER_SOCKET_TABLE_H
#define LAPWING_TRACER_SOCKET_TABLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "tracer/tracer.h"

enum { LW_FDS_MAX = 65536, LW_CONNECTIONS_MAX = 4096 };

/* An entry of the table: nothing known, not a TCP connection, or LW_FD_FIRST + connection index. */
enum { LW_FD_UNKNOWN = 0, LW_FD_IGNORED = 1, LW_FD_FIRST = 2 };
extern _Atomic uint16_t lw_fd_entries[LW_FDS_MAX];

enum lw_direction { LW_SENT = 0, LW_RECEIVED = 1 };

static inline uint16_t lw_fd_entry(int fd)
{
	return (unsigned)fd < LW_FDS_MAX
		       ? atomic_load_explicit(&lw_fd_entries[fd], memory_order_relaxed)
		       : (uint16_t)LW_FD_IGNORED;
}

/* What one call moved. @data or @iov says where the bytes are, for the message parser. */
struct lw_transfer {
	int fd;
	enum lw_direction direction;
	uint32_t n_calls; /* messages of one sendmmsg count one by one */
	size_t n_bytes;
	const void *data; /* n_bytes there, or NULL: in iov, or not to be looked at */
	const struct iovec *iov;
	size_t n_iov;
};

/** lw_socket_count() - slow half of counting: @entry is not LW_FD_IGNORED. errno is kept. */
void lw_socket_count(const struct lw_transfer *transfer, uint16_t entry);

/** lw_socket_opened() - @fd is a connection from now on. @peer: where connect() went, NULL = accepted. */
void lw_socket_opened(int fd, const struct sockaddr *peer, socklen_t peer_bytes);

/** lw_socket_closing() - @fd, whose entry is not LW_FD_UNKNOWN, is about to be closed. */
void lw_socket_closing(int fd);

/** lw_socket_reused() - @fd is a new descriptor; whatever was known of that number is past. */
void lw_socket_reused(int fd);

/** lw_socket_duplicated() - @copy is another descriptor of what @fd is. */
void lw_socket_duplicated(int fd, int copy);

/** lw_socket_serial() - that the SOCKET record of @fd has, or will have. Return: 0 = no connection known. */
uint32_t lw_socket_serial(int fd);

/** lw_socket_highest() - no descriptor above this one has an entry. */
int lw_socket_highest(void);

#endif /* LAPWING_TRACER_SOCKET_TABLE_H */
