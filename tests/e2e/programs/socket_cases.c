/* SPDX-License-Identifier: Apache-2.0 */
/*
 * socket_cases.c - one way of using TCP a run, told by its argument; test_sockets.py reads the outcome.
 *
 * Prints for every end of a connection that a tracer must see
 *	end NAME LOCAL_PORT SENT RECEIVED
 * with the bytes that the program itself knows it moved. Anything unexpected ends it with status 1.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tracer/lapwing_mark.h"

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "line %d: %s: %s\n", __LINE__, #condition,                 \
				strerror(errno));                                                  \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)

static char data[1 << 20];

static int listen_here(struct sockaddr_in *ret_address)
{
	socklen_t room = sizeof(*ret_address);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	memset(ret_address, 0, sizeof(*ret_address));
	ret_address->sin_family = AF_INET;
	ret_address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	CHECK(fd >= 0 && bind(fd, (struct sockaddr *)ret_address, sizeof(*ret_address)) == 0);
	CHECK(getsockname(fd, (struct sockaddr *)ret_address, &room) == 0 && listen(fd, 8) == 0);
	return fd;
}

static void connect_pair(int *ret_a, int *ret_b)
{
	struct sockaddr_in address;
	int listener = listen_here(&address);

	*ret_a = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(connect(*ret_a, (struct sockaddr *)&address, sizeof(address)) == 0);
	*ret_b = accept(listener, NULL, NULL);
	CHECK(*ret_b >= 0);
	close(listener);
}

static int port_of(int fd)
{
	struct sockaddr_in address;
	socklen_t room = sizeof(address);

	CHECK(getsockname(fd, (struct sockaddr *)&address, &room) == 0);
	return ntohs(address.sin_port);
}

static void say_end(const char *name, int port, size_t sent, size_t received)
{
	printf("end %s %d %zu %zu\n", name, port, sent, received);
	fflush(stdout);
}

/* Until the peer has acknowledged all: then the kernel's counters are final. */
static void drain(int fd)
{
	int n_queued = 1;

	while (n_queued)
		CHECK(ioctl(fd, SIOCOUTQ, &n_queued) == 0);
}

static void take(int fd, size_t n)
{
	while (n) {
		ssize_t part = recv(fd, data, n < sizeof(data) ? n : sizeof(data), 0);

		CHECK(part > 0);
		n -= (size_t)part;
	}
}

static void give(int fd, size_t n)
{
	CHECK(send(fd, data, n, 0) == (ssize_t)n);
}

static void finish_pair(int a, int b, size_t from_a, size_t from_b)
{
	drain(a);
	drain(b);
	say_end("a", port_of(a), from_a, from_b);
	say_end("b", port_of(b), from_b, from_a);
	close(a);
	close(b);
}

/* Every call that sends and every one that receives. */
static void case_calls(void)
{
	struct iovec iov[2] = {{data, 300}, {data + 300, 77}};
	struct msghdr message = {.msg_iov = iov, .msg_iovlen = 2};
	struct mmsghdr many[3] = {0};
	int a, b, pipe_fds[2], file;
	char path[] = "/tmp/lapwing-sendfile-XXXXXX";
	size_t n = 0, m = 0;

	connect_pair(&a, &b);
	n += (size_t)send(a, data, 11, 0);
	n += (size_t)sendto(a, data, 13, 0, NULL, 0);
	n += (size_t)write(a, data, 17);
	n += (size_t)writev(a, iov, 2);
	n += (size_t)sendmsg(a, &message, 0);
	for (int i = 0; i < 3; i++)
		many[i].msg_hdr = message;
	CHECK(sendmmsg(a, many, 3, 0) == 3);
	n += 3 * 377;
	file = mkstemp(path);
	CHECK(file >= 0 && unlink(path) == 0 && write(file, data, 5000) == 5000);
	CHECK(lseek(file, 0, SEEK_SET) == 0);
	n += (size_t)sendfile(a, file, NULL, 5000);
	CHECK(pipe(pipe_fds) == 0 && write(pipe_fds[1], data, 900) == 900);
	n += (size_t)splice(pipe_fds[0], NULL, a, NULL, 900, 0);
	CHECK(n == 11 + 13 + 17 + 5 * 377 + 5000 + 900);

	drain(a); /* all of it waits in b's queue: the reads below come back full */
	m += (size_t)recv(b, data, 11, 0);
	m += (size_t)recvfrom(b, data, 13, 0, NULL, NULL);
	m += (size_t)read(b, data, 17);
	m += (size_t)readv(b, iov, 2);
	m += (size_t)recvmsg(b, &message, 0);
	CHECK(recvmmsg(b, many, 3, MSG_WAITFORONE, NULL) == 3);
	m += many[0].msg_len + many[1].msg_len + many[2].msg_len;
	m += (size_t)splice(b, NULL, pipe_fds[1], NULL, 900, 0);
	take(b, n - m);
	finish_pair(a, b, n, 0);
}

/* Non-blocking sockets driven by epoll: EAGAIN counts nothing, a partial write counts its part. */
static void case_nonblocking(void)
{
	size_t wanted = 24u << 20, sent = 0, received = 0;
	int a, b, n_again = 0, n_partial = 0, small = 4096, poller = epoll_create1(0);
	struct epoll_event event = {.events = EPOLLIN | EPOLLOUT};

	connect_pair(&a, &b);
	CHECK(setsockopt(a, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)) == 0);
	CHECK(fcntl(a, F_SETFL, O_NONBLOCK) == 0 && fcntl(b, F_SETFL, O_NONBLOCK) == 0);
	event.data.fd = a;
	CHECK(epoll_ctl(poller, EPOLL_CTL_ADD, a, &event) == 0);
	event.data.fd = b;
	CHECK(epoll_ctl(poller, EPOLL_CTL_ADD, b, &event) == 0);
	while (received < wanted) {
		struct epoll_event ready[2];
		int n_ready = epoll_wait(poller, ready, 2, 5000);

		CHECK(n_ready > 0);
		for (int i = 0; i < n_ready; i++) {
			ssize_t n;

			while (ready[i].data.fd == a && sent < wanted) {
				size_t left = wanted - sent;
				size_t ask = left < sizeof(data) ? left : sizeof(data);

				n = write(a, data, ask);
				if (n < 0) {
					CHECK(errno == EAGAIN);
					n_again++;
					break;
				}
				n_partial += (size_t)n < ask;
				sent += (size_t)n;
			}
			while (ready[i].data.fd == b && (n = read(b, data, 100000)) != 0) {
				if (n < 0) {
					CHECK(errno == EAGAIN);
					n_again++;
					break;
				}
				received += (size_t)n;
			}
		}
	}
	CHECK(n_again > 2 && n_partial > 2);
	printf("again %d partial %d\n", n_again, n_partial);
	finish_pair(a, b, sent, 0);
}

static void case_peek(void)
{
	int a, b;

	connect_pair(&a, &b);
	give(a, 1000);
	for (int i = 0; i < 5; i++)
		CHECK(recv(b, data, 1000, MSG_PEEK | MSG_WAITALL) == 1000);
	CHECK(recv(b, data, 1000, MSG_WAITALL) == 1000);
	CHECK(recv(b, data, 1000, MSG_ERRQUEUE | MSG_DONTWAIT) == -1);
	finish_pair(a, b, 1000, 0);
}

/* Copies of a descriptor are one connection, which ends with the last of them. */
static void case_dup(void)
{
	int a, b, copies[4];

	connect_pair(&a, &b);
	give(a, 100);
	copies[0] = dup(a);
	copies[1] = dup2(a, 200);
	copies[2] = dup3(a, 201, O_CLOEXEC);
	copies[3] = fcntl(a, F_DUPFD_CLOEXEC, 300);
	CHECK(copies[0] >= 0 && copies[1] == 200 && copies[2] == 201 && copies[3] >= 300);
	close(a);
	for (int i = 0; i < 4; i++)
		give(copies[i], 1000);
	take(b, 4100);
	for (int i = 0; i < 3; i++)
		close(copies[i]);
	finish_pair(copies[3], b, 4100, 0);
}

static void *mark(void *unused)
{
	lapwing_mark_step(7);
	return unused;
}

/* A thread that gets no ring, then a mark of one that has a ring, then no orderly end. */
static void case_killed(void)
{
	const char *directory = getenv("LAPWING_DIR");
	char aside[256];
	pthread_t thread;

	snprintf(aside, sizeof(aside), "%s-aside", directory);
	CHECK(rename(directory, aside) == 0);
	pthread_create(&thread, NULL, mark, NULL);
	pthread_join(thread, NULL);
	CHECK(rename(aside, directory) == 0);
	lapwing_mark_step(8);
	raise(SIGKILL);
}

/* dup2() over a connection ends it; what is then written to the number is not the connection's. */
static void case_dup2_over(void)
{
	int a, b, file = open("/dev/null", O_RDWR);

	connect_pair(&a, &b);
	give(a, 500);
	take(b, 500);
	drain(a);
	say_end("a", port_of(a), 500, 0);
	say_end("b", port_of(b), 0, 500);
	CHECK(dup2(file, a) == a && write(a, data, 777) == 777);
	close(b);
}

static void case_close_range(void)
{
	int a, b;
	FILE *stream;

	connect_pair(&a, &b);
	give(a, 40);
	take(b, 40);
	drain(a);
	say_end("a", port_of(a), 40, 0);
	say_end("b", port_of(b), 0, 40);
	stream = fdopen(b, "r");
	CHECK(stream && fclose(stream) == 0);
	CHECK(close_range((unsigned)a, ~0u, 0) == 0);
	/* the numbers serve files now */
	CHECK(open("/dev/null", O_WRONLY) >= 0 && write(a, data, 99) != 0);
}

/* A child counts for itself, from when it first uses what it inherited. */
static void case_fork(void)
{
	int a, b, status;
	pid_t child;

	connect_pair(&a, &b);
	give(a, 10);
	take(b, 10);
	child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		give(a, 333); /* not traced yet: nobody counts this */
		lapwing_mark_step(1);
		give(a, 2000);
		drain(a);
		say_end("child", port_of(a), 2000, 0);
		close(a);
		exit(0);
	}
	take(b, 2333);
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	give(a, 5);
	take(b, 5);
	drain(a);
	say_end("a", port_of(a), 15, 0);
	say_end("b", port_of(b), 0, 2348);
	close(a);
	close(b);
}

/* The child of vfork() runs in our memory; what it closes are its own descriptors. */
static void case_vfork(void)
{
	int a, b, status;
	volatile pid_t child;

	connect_pair(&a, &b);
	give(a, 10);
	take(b, 10);
	child = vfork();
	if (child == 0) {
		close(a);
		dup2(2, b);
		close_range(3, ~0u, 0);
		_exit(0);
	}
	CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
	give(a, 20);
	take(b, 20);
	finish_pair(a, b, 30, 0);
}

static void pass(int over, int fd)
{
	char control[CMSG_SPACE(sizeof(int))] = {0};
	struct iovec iov = {data, 1};
	struct msghdr message = {.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control)};
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);

	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(header), &fd, sizeof(fd));
	CHECK(sendmsg(over, &message, 0) == 1);
}

static int be_passed(int over)
{
	char control[CMSG_SPACE(sizeof(int))];
	struct iovec iov = {data, 1};
	struct msghdr message = {.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control)};
	int fd;

	CHECK(recvmsg(over, &message, 0) == 1 && CMSG_FIRSTHDR(&message));
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(fd));
	return fd;
}

/* A connection that came over a Unix socket, on a number that was a file before. */
static void case_passed(void)
{
	int a, b, unix_pair[2], status;
	pid_t child;

	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, unix_pair) == 0);
	child = fork();
	if (child == 0) {
		int fd, file = open("/dev/null", O_WRONLY);

		lapwing_mark_step(1);
		CHECK(write(file, data, 10) == 10);
		syscall(SYS_close, file); /* unseen */
		fd = be_passed(unix_pair[1]);
		CHECK(fd == file);
		give(fd, 5000);
		drain(fd);
		say_end("child", port_of(fd), 5000, 0);
		close(fd);
		exit(0);
	}
	connect_pair(&a, &b);
	pass(unix_pair[0], a);
	close(a);
	take(b, 5000);
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	say_end("b", port_of(b), 0, 5000);
	close(b);
}

static void case_errno(void)
{
	int a, b, file = open("/dev/null", O_RDWR);

	connect_pair(&a, &b);
	CHECK(fcntl(b, F_SETFL, O_NONBLOCK) == 0);
	errno = 1234;
	give(a, 100);
	CHECK(errno == 1234 && write(file, data, 5) == 5 && errno == 1234);
	drain(a);
	take(b, 100);
	CHECK(errno == 1234);
	CHECK(recv(b, data, 1, 0) == -1 && errno == EAGAIN);
	CHECK(close(-1) == -1 && errno == EBADF);
	CHECK(write(-1, data, 1) == -1 && errno == EBADF);
	CHECK(dup2(-1, a) == -1 && errno == EBADF);
	CHECK(write(1 << 20, data, 1) == -1 && errno == EBADF);
	CHECK(send(file, data, 1, 0) == -1 && errno == ENOTSOCK);
	errno = 1234;
	CHECK(close(dup(a)) == 0 && errno == 1234);
	finish_pair(a, b, 100, 0);
}

/* Bytes moved before anybody knew that this process is of interest. */
static void case_early(void)
{
	int a, b;

	connect_pair(&a, &b);
	give(a, 3000);
	take(b, 3000);
	lapwing_mark_step(0);
	give(a, 1);
	take(b, 1);
	finish_pair(a, b, 3001, 0);
}

static void case_others(void)
{
	struct sockaddr_in address = {
		.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int unix_pair[2], from = socket(AF_INET, SOCK_DGRAM, 0),
			  to = socket(AF_INET, SOCK_DGRAM, 0);
	socklen_t room = sizeof(address);

	CHECK(bind(to, (struct sockaddr *)&address, sizeof(address)) == 0);
	CHECK(getsockname(to, (struct sockaddr *)&address, &room) == 0);
	CHECK(connect(from, (struct sockaddr *)&address, sizeof(address)) == 0);
	give(from, 100);
	CHECK(recv(to, data, 100, 0) == 100);
	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, unix_pair) == 0);
	give(unix_pair[0], 100);
	CHECK(read(unix_pair[1], data, 100) == 100);
	/* refused: no connection, nothing to show */
	address.sin_port = htons(1);
	CHECK(connect(socket(AF_INET, SOCK_STREAM, 0), (struct sockaddr *)&address,
		      sizeof(address)) == -1);
}

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* Traffic over 450 ms, and a connection that is still open at the end. */
static void case_period(void)
{
	int64_t end_ns = now_ns() + 450000000;
	size_t n = 0;
	int a, b;

	connect_pair(&a, &b);
	while (now_ns() < end_ns) {
		give(a, 64);
		take(b, 64);
		n += 64;
	}
	drain(a);
	say_end("a", port_of(a), n, 0);
	say_end("b", port_of(b), 0, n);
}

/* ns per round trip of one byte, two processes. */
static void case_ping_pong(void)
{
	enum { N_ROUNDS = 20000 };
	int a, b, one = 1;
	int64_t start_ns;

	connect_pair(&a, &b);
	setsockopt(a, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	setsockopt(b, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (fork() == 0) {
		lapwing_mark_step(0);
		for (int i = 0; i < N_ROUNDS; i++) {
			take(b, 1);
			give(b, 1);
		}
		exit(0);
	}
	start_ns = now_ns();
	for (int i = 0; i < N_ROUNDS; i++) {
		give(a, 1);
		take(a, 1);
	}
	printf("round_trip_ns %.1f\n", (double)(now_ns() - start_ns) / N_ROUNDS);
	wait(NULL);
}

static const struct {
	const char *name;
	void (*run)(void);
	int is_marked; /* live from the start */
} cases[] = {
	{"calls", case_calls, 1},
	{"nonblocking", case_nonblocking, 1},
	{"peek", case_peek, 1},
	{"dup", case_dup, 1},
	{"dup2_over", case_dup2_over, 1},
	{"close_range", case_close_range, 1},
	{"fork", case_fork, 1},
	{"vfork", case_vfork, 1},
	{"passed", case_passed, 0},
	{"errno", case_errno, 1},
	{"early", case_early, 0},
	{"killed", case_killed, 1},
	{"others", case_others, 1},
	{"period", case_period, 1},
	{"inert", case_calls, 0},
	{"ping_pong", case_ping_pong, 1},
};

int main(int argc, char **argv)
{
	signal(SIGPIPE, SIG_IGN);
	for (size_t i = 0; argc == 2 && i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (strcmp(argv[1], cases[i].name))
			continue;
		if (cases[i].is_marked)
			lapwing_mark_step(0);
		cases[i].run();
		return 0;
	}
	return 2;
}
