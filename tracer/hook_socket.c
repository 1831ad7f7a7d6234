/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hook_socket.c - libc's socket calls: count what went through, keep the table of descriptors true.
 *
 * Writes: nothing itself; socket_table.c does. A call that fails or moves nothing (EAGAIN) is not
 * counted; MSG_PEEK and MSG_ERRQUEUE read no payload and are not counted either. In a process that is
 * not traced, and on descriptors that are no TCP connection, a call costs a load and a branch.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tracer/socket_table.h"

/* What -D_FORTIFY_SOURCE makes of read() and recv(); no header declares them without it. */
ssize_t __read_chk(int fd, void *buffer, size_t n, size_t room);
ssize_t __recv_chk(int fd, void *buffer, size_t n, size_t room, int flags);
ssize_t __recvfrom_chk(int fd, void *buffer, size_t n, size_t room, int flags,
	struct sockaddr *address, socklen_t *address_bytes);

/* clang-format off */
#define REAL_FUNCTIONS(X)                                                                          \
	X(send) X(sendto) X(sendmsg) X(sendmmsg) X(write) X(writev) X(sendfile) X(sendfile64)      \
	X(splice) X(recv) X(recvfrom) X(recvmsg) X(recvmmsg) X(read) X(readv) X(__read_chk)        \
	X(__recv_chk) X(__recvfrom_chk) X(socket) X(connect) X(accept) X(accept4) X(close)         \
	X(fclose) X(close_range) X(closefrom) X(dup) X(dup2) X(dup3) X(fcntl) X(fcntl64)
/* clang-format on */

static struct {
#define X(name) __typeof__(&name) name;
	REAL_FUNCTIONS(X)
#undef X
} real;

/*
 * At load time, not at the first call: dlsym() takes the loader's lock, and a thread that a library's
 * constructor waits for must not wait for that lock in its first write().
 */
__attribute__((constructor)) static void resolve(void)
{
#define X(name) real.name = (__typeof__(&name))lw_real(#name);
	REAL_FUNCTIONS(X)
#undef X
}

/* Other libraries' constructors may call before ours ran. */
#define REAL(name) (*(LW_UNLIKELY(!real.name) ? (resolve(), real.name) : real.name))

/*
 * Asked before the real call, so that a hook with nothing to count can jump to it instead of calling:
 * the return address after a system call is mispredicted on many CPUs (the kernel clears the return
 * predictor), and one more return then costs some 20 ns.
 */
static inline bool is_counted(int fd)
{
	uint16_t entry = lw_fd_entry(fd);

	return entry != LW_FD_IGNORED && (entry != LW_FD_UNKNOWN || lw_is_live());
}

static inline void count(const struct lw_transfer *transfer)
{
	if (is_counted(transfer->fd))
		lw_socket_count(transfer, lw_fd_entry(transfer->fd));
}

static inline ssize_t count_flat(int fd, enum lw_direction direction, ssize_t n, const void *data)
{
	if (n > 0)
		count(&(struct lw_transfer){.fd = fd,
			.direction = direction,
			.n_calls = 1,
			.n_bytes = (size_t)n,
			.data = data});
	return n;
}

static inline ssize_t count_iov(
	int fd, enum lw_direction direction, ssize_t n, const struct iovec *iov, size_t n_iov)
{
	if (n > 0)
		count(&(struct lw_transfer){.fd = fd,
			.direction = direction,
			.n_calls = 1,
			.n_bytes = (size_t)n,
			.iov = iov,
			.n_iov = n_iov});
	return n;
}

/* ---- sending ----------------------------------------------------------------------------------- */

LW_EXPORT ssize_t send(int fd, const void *data, size_t n, int flags)
{
	if (!is_counted(fd))
		return REAL(send)(fd, data, n, flags);
	return count_flat(fd, LW_SENT, REAL(send)(fd, data, n, flags), data);
}

LW_EXPORT ssize_t sendto(int fd, const void *data, size_t n, int flags,
	const struct sockaddr *address, socklen_t address_bytes)
{
	if (!is_counted(fd))
		return REAL(sendto)(fd, data, n, flags, address, address_bytes);
	return count_flat(
		fd, LW_SENT, REAL(sendto)(fd, data, n, flags, address, address_bytes), data);
}

LW_EXPORT ssize_t write(int fd, const void *data, size_t n)
{
	if (!is_counted(fd))
		return REAL(write)(fd, data, n);
	return count_flat(fd, LW_SENT, REAL(write)(fd, data, n), data);
}

LW_EXPORT ssize_t writev(int fd, const struct iovec *iov, int n_iov)
{
	if (!is_counted(fd))
		return REAL(writev)(fd, iov, n_iov);
	return count_iov(fd, LW_SENT, REAL(writev)(fd, iov, n_iov), iov, (size_t)n_iov);
}

LW_EXPORT ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
	ssize_t n;

	if (!is_counted(fd))
		return REAL(sendmsg)(fd, message, flags);
	n = REAL(sendmsg)(fd, message, flags);
	return n > 0 ? count_iov(fd, LW_SENT, n, message->msg_iov, message->msg_iovlen) : n;
}

static void count_messages(
	int fd, enum lw_direction direction, const struct mmsghdr *messages, int n)
{
	for (int i = 0; i < n; i++)
		count_iov(fd, direction, messages[i].msg_len, messages[i].msg_hdr.msg_iov,
			messages[i].msg_hdr.msg_iovlen);
}

LW_EXPORT int sendmmsg(int fd, struct mmsghdr *messages, unsigned n_messages, int flags)
{
	int n;

	if (!is_counted(fd))
		return REAL(sendmmsg)(fd, messages, n_messages, flags);
	n = REAL(sendmmsg)(fd, messages, n_messages, flags);
	count_messages(fd, LW_SENT, messages, n);
	return n;
}

LW_EXPORT ssize_t sendfile(int to, int from, off_t *offset, size_t n)
{
	return count_flat(to, LW_SENT, REAL(sendfile)(to, from, offset, n), NULL);
}

LW_EXPORT ssize_t sendfile64(int to, int from, off64_t *offset, size_t n)
{
	return count_flat(to, LW_SENT, REAL(sendfile64)(to, from, offset, n), NULL);
}

LW_EXPORT ssize_t splice(
	int from, off64_t *from_offset, int to, off64_t *to_offset, size_t n_wanted, unsigned flags)
{
	ssize_t n = REAL(splice)(from, from_offset, to, to_offset, n_wanted, flags);

	count_flat(from, LW_RECEIVED, n, NULL);
	return count_flat(to, LW_SENT, n, NULL);
}

/* ---- receiving --------------------------------------------------------------------------------- */

static bool takes_payload(int flags)
{
	return !(flags & (MSG_PEEK | MSG_ERRQUEUE));
}

static inline ssize_t count_received(int fd, ssize_t n, const void *data, int flags)
{
	return takes_payload(flags) ? count_flat(fd, LW_RECEIVED, n, data) : n;
}

LW_EXPORT ssize_t recv(int fd, void *data, size_t n, int flags)
{
	if (!is_counted(fd))
		return REAL(recv)(fd, data, n, flags);
	return count_received(fd, REAL(recv)(fd, data, n, flags), data, flags);
}

LW_EXPORT ssize_t __recv_chk(int fd, void *data, size_t n, size_t room, int flags)
{
	if (!is_counted(fd))
		return REAL(__recv_chk)(fd, data, n, room, flags);
	return count_received(fd, REAL(__recv_chk)(fd, data, n, room, flags), data, flags);
}

LW_EXPORT ssize_t recvfrom(
	int fd, void *data, size_t n, int flags, struct sockaddr *address, socklen_t *address_bytes)
{
	if (!is_counted(fd))
		return REAL(recvfrom)(fd, data, n, flags, address, address_bytes);
	return count_received(
		fd, REAL(recvfrom)(fd, data, n, flags, address, address_bytes), data, flags);
}

LW_EXPORT ssize_t __recvfrom_chk(int fd, void *data, size_t n, size_t room, int flags,
	struct sockaddr *address, socklen_t *address_bytes)
{
	if (!is_counted(fd))
		return REAL(__recvfrom_chk)(fd, data, n, room, flags, address, address_bytes);
	return count_received(fd,
		REAL(__recvfrom_chk)(fd, data, n, room, flags, address, address_bytes), data,
		flags);
}

LW_EXPORT ssize_t read(int fd, void *data, size_t n)
{
	if (!is_counted(fd))
		return REAL(read)(fd, data, n);
	return count_flat(fd, LW_RECEIVED, REAL(read)(fd, data, n), data);
}

LW_EXPORT ssize_t __read_chk(int fd, void *data, size_t n, size_t room)
{
	if (!is_counted(fd))
		return REAL(__read_chk)(fd, data, n, room);
	return count_flat(fd, LW_RECEIVED, REAL(__read_chk)(fd, data, n, room), data);
}

LW_EXPORT ssize_t readv(int fd, const struct iovec *iov, int n_iov)
{
	if (!is_counted(fd))
		return REAL(readv)(fd, iov, n_iov);
	return count_iov(fd, LW_RECEIVED, REAL(readv)(fd, iov, n_iov), iov, (size_t)n_iov);
}

/* Descriptors that came along are new ones, whatever was known of their numbers. */
static void forget_passed(struct msghdr *message)
{
	for (struct cmsghdr *at = CMSG_FIRSTHDR(message); at; at = CMSG_NXTHDR(message, at)) {
		if (at->cmsg_level != SOL_SOCKET || at->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; CMSG_LEN((i + 1) * sizeof(int)) <= at->cmsg_len; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(at) + i * sizeof(int), sizeof(fd));
			lw_socket_reused(fd);
		}
	}
}

LW_EXPORT ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
	ssize_t n = REAL(recvmsg)(fd, message, flags);

	if (n < 0)
		return n;
	if (message->msg_controllen)
		forget_passed(message);
	if (takes_payload(flags))
		count_iov(fd, LW_RECEIVED, n, message->msg_iov, message->msg_iovlen);
	return n;
}

LW_EXPORT int recvmmsg(
	int fd, struct mmsghdr *messages, unsigned n_messages, int flags, struct timespec *timeout)
{
	int n = REAL(recvmmsg)(fd, messages, n_messages, flags, timeout);

	for (int i = 0; i < n; i++)
		if (messages[i].msg_hdr.msg_controllen)
			forget_passed(&messages[i].msg_hdr);
	if (takes_payload(flags))
		count_messages(fd, LW_RECEIVED, messages, n);
	return n;
}

/* ---- descriptors come and go -------------------------------------------------------------------- */

static inline bool has_entry(int fd)
{
	return (unsigned)fd < LW_FDS_MAX && lw_fd_entry(fd) != LW_FD_UNKNOWN;
}

LW_EXPORT int socket(int domain, int type, int protocol)
{
	int fd = REAL(socket)(domain, type, protocol);

	if (LW_UNLIKELY(has_entry(fd))) /* closed behind our back (a raw system call) */
		lw_socket_reused(fd);
	return fd;
}

LW_EXPORT int connect(int fd, const struct sockaddr *address, socklen_t address_bytes)
{
	int result = REAL(connect)(fd, address, address_bytes);

	if (address && (address->sa_family == AF_INET || address->sa_family == AF_INET6) &&
		(result == 0 || errno == EINPROGRESS || errno == EINTR))
		lw_socket_opened(fd, address, address_bytes);
	return result;
}

LW_EXPORT int accept(int fd, struct sockaddr *address, socklen_t *address_bytes)
{
	int taken = REAL(accept)(fd, address, address_bytes);

	if (taken >= 0)
		lw_socket_opened(taken, NULL, 0);
	return taken;
}

LW_EXPORT int accept4(int fd, struct sockaddr *address, socklen_t *address_bytes, int flags)
{
	int taken = REAL(accept4)(fd, address, address_bytes, flags);

	if (taken >= 0)
		lw_socket_opened(taken, NULL, 0);
	return taken;
}

LW_EXPORT int close(int fd)
{
	if (LW_UNLIKELY(has_entry(fd)))
		lw_socket_closing(fd);
	return REAL(close)(fd);
}

LW_EXPORT int fclose(FILE *file)
{
	int saved_errno = errno, fd = file ? fileno(file) : -1;

	errno = saved_errno; /* a stream over memory has no descriptor */
	if (LW_UNLIKELY(has_entry(fd)))
		lw_socket_closing(fd);
	return REAL(fclose)(file);
}

static void close_many(unsigned first, unsigned last)
{
	int highest = lw_socket_highest();

	for (unsigned fd = first; highest >= 0 && fd <= last && fd <= (unsigned)highest; fd++)
		if (has_entry((int)fd))
			lw_socket_closing((int)fd);
}

LW_EXPORT int close_range(unsigned first, unsigned last, int flags)
{
	/* With UNSHARE the thread leaves our descriptors alone and works on copies. */
	if (!(flags & (CLOSE_RANGE_CLOEXEC | CLOSE_RANGE_UNSHARE)))
		close_many(first, last);
	if (!REAL(close_range)) /* before glibc 2.34 */
		return (int)syscall(SYS_close_range, first, last, flags);
	return REAL(close_range)(first, last, flags);
}

LW_EXPORT void closefrom(int first)
{
	close_many(first < 0 ? 0 : (unsigned)first, UINT_MAX);
	if (!REAL(closefrom))
		syscall(SYS_close_range, first < 0 ? 0 : first, ~0u, 0);
	else
		REAL(closefrom)(first);
}

LW_EXPORT int dup(int fd)
{
	int copy = REAL(dup)(fd);

	if (copy >= 0 && (has_entry(fd) || has_entry(copy) || lw_is_live()))
		lw_socket_duplicated(fd, copy);
	return copy;
}

/* dup2() closes @copy: the last look at that connection must come before. */
static bool will_replace(int fd, int copy)
{
	return fd != copy && lw_fd_entry(copy) >= LW_FD_FIRST && REAL(fcntl)(fd, F_GETFD) >= 0;
}

LW_EXPORT int dup2(int fd, int copy)
{
	int result;

	if (LW_UNLIKELY(will_replace(fd, copy)))
		lw_socket_closing(copy);
	result = REAL(dup2)(fd, copy);
	if (result >= 0 && (has_entry(fd) || has_entry(copy) || lw_is_live()))
		lw_socket_duplicated(fd, copy);
	return result;
}

LW_EXPORT int dup3(int fd, int copy, int flags)
{
	int result;

	if (LW_UNLIKELY(will_replace(fd, copy)))
		lw_socket_closing(copy);
	result = REAL(dup3)(fd, copy, flags);
	if (result >= 0 && (has_entry(fd) || has_entry(copy) || lw_is_live()))
		lw_socket_duplicated(fd, copy);
	return result;
}

static int note_fcntl(int fd, int command, int result)
{
	if ((command == F_DUPFD || command == F_DUPFD_CLOEXEC) && result >= 0 &&
		(has_entry(fd) || has_entry(result) || lw_is_live()))
		lw_socket_duplicated(fd, result);
	return result;
}

LW_EXPORT int fcntl(int fd, int command, ...)
{
	va_list args;
	void *argument; /* an int fits, and a command without one ignores it */

	va_start(args, command);
	argument = va_arg(args, void *);
	va_end(args);
	return note_fcntl(fd, command, REAL(fcntl)(fd, command, argument));
}

LW_EXPORT int fcntl64(int fd, int command, ...)
{
	va_list args;
	void *argument;

	va_start(args, command);
	argument = va_arg(args, void *);
	va_end(args);
	return note_fcntl(fd, command, REAL(fcntl64)(fd, command, argument));
}
