/* SPDX-License-Identifier: Apache-2.0 */
/* The samplers on this host itself: its TCP connections, and what may not be asked. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/units.h"
#include "collector/netlink.h"
#include "collector/tcp_follow.h"

/* So long that no look can be too dear: the time is this file's. */
#define PERIOD_NS (60 * LW_NS_PER_S)

static const struct lw_drain drain; /* no rings */
static struct lw_writer *writer;
static struct lw_samplers *samplers;
static int64_t now_ns;

static void begin(void)
{
	const struct lw_sample_options options = {PERIOD_NS, NULL};

	assert_int_equal(lw_samplers_open(&options, &drain, writer, &samplers), LW_OK);
	now_ns = lw_clock_ns();
}

static int setup(void **state)
{
	(void)state;
	assert_int_equal(lw_writer_create(":memory:", "test", "", &writer), LW_OK);
	begin();
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	lw_samplers_close(samplers);
	lw_writer_close(writer);
	return 0;
}

static void look(int n_periods)
{
	for (int i = 0; i < n_periods; i++)
		lw_samplers_run(samplers, now_ns += PERIOD_NS);
}

static void store(void)
{
	assert_int_equal(lw_writer_begin(writer), LW_OK);
	assert_int_equal(lw_samplers_store(samplers), LW_OK);
	assert_int_equal(lw_writer_commit(writer), LW_OK);
}

static int64_t ask(const char *sql)
{
	int64_t value = -1;

	assert_int_equal(lw_store_int(lw_writer_store(writer), sql, &value), LW_OK);
	return value;
}

static void sockets_that_cannot_be_opened_are_told(void **state)
{
	struct rlimit limit, low;
	int next;

	(void)state;
	lw_samplers_close(samplers);
	next = dup(0);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	low = limit;
	low.rlim_cur = (rlim_t)next + 2; /* of the five */
	close(next);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
	begin();
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	store();
	assert_int_equal(
		ask("SELECT count(*) FROM loss WHERE detail LIKE '%TCP connections (Too many open files)%'"),
		1);
}

static void a_process_that_has_ended_is_no_loss(void **state)
{
	struct lw_process process = {.process_id = 9};
	pid_t pid = fork();
	siginfo_t info;

	(void)state;
	if (!pid)
		_exit(0);
	process.pid = (uint32_t)pid;
	/* ended, but nobody has asked how: its namespace cannot be seen any more */
	assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
	lw_samplers_process(samplers, &process);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	process.process_id = 10;
	lw_samplers_process(samplers, &process);
	store();
	assert_int_equal(ask("SELECT count(*) FROM loss"), 0);
}

static void *sleep_on(void *unused)
{
	for (;;)
		pause();
	return unused;
}

/* While a process ends it has no namespace any more, and is no zombie yet: as one whose first thread has gone. */
static void a_process_that_ends_is_no_loss_but_one_that_stays_is(void **state)
{
	struct lw_process process = {.process_id = 9};
	const struct timespec nap = {.tv_nsec = 1000000};
	pid_t pid = fork();
	pthread_t thread;

	(void)state;
	if (!pid) {
		alarm(20); /* whatever becomes of the test */
		pthread_create(&thread, NULL, sleep_on, NULL);
		syscall(SYS_exit, 0); /* of this thread alone */
	}
	for (int i = 0; i < 5000 && lw_netns_key(pid); i++)
		nanosleep(&nap, NULL);
	assert_int_equal(lw_netns_key(pid), 0);
	process.pid = (uint32_t)pid;
	lw_samplers_process(samplers, &process);
	store();
	assert_int_equal(ask("SELECT count(*) FROM loss"), 0);
	look(101);
	store();
	assert_int_equal(ask("SELECT count(*) FROM loss WHERE detail LIKE '%cannot be seen%'"), 1);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static int connected[2];

static void connect_both(struct lw_ev_socket *ret_socket)
{
	struct sockaddr_in local = {.sin_family = AF_INET}, peer = local;
	socklen_t n = sizeof(local);
	int listener = socket(AF_INET, SOCK_STREAM, 0);

	local.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(bind(listener, (struct sockaddr *)&local, n), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&peer, &n), 0);
	connected[0] = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(connect(connected[0], (struct sockaddr *)&peer, n), 0);
	connected[1] = accept(listener, NULL, NULL);
	assert_true(connected[1] >= 0);
	assert_int_equal(getsockname(connected[0], (struct sockaddr *)&local, &n), 0);
	close(listener);
	*ret_socket = (struct lw_ev_socket){
		.local_port = ntohs(local.sin_port), .peer_port = ntohs(peer.sin_port)};
	for (int i = 0; i < 2; i++) {
		uint8_t *address = i ? ret_socket->peer : ret_socket->local;

		memset(address + 10, 0xff, 2);
		memcpy(address + 12, &(uint32_t){htonl(INADDR_LOOPBACK)}, 4);
	}
}

static void announcements_of_where_nobody_looks_leave_room_for_others(void **state)
{
	struct lw_ev_socket socket;

	(void)state;
	connect_both(&socket);
	for (int i = 0; i < 10000; i++)
		lw_tcp_announce(samplers, 7, 1 /* no namespace has this number */, &socket);
	lw_tcp_announce(samplers, 7, lw_netns_key(0), &socket);
	look(3);
	store();
	assert_int_equal(ask("SELECT count(*) FROM tcp_connection WHERE process_id = 7"), 1);
	close(connected[0]);
	close(connected[1]);
}

static void a_connection_that_is_reset_keeps_what_it_had_moved(void **state)
{
	const struct linger at_once = {1, 0};
	struct lw_ev_socket socket;
	char bytes[5000] = "";

	(void)state;
	connect_both(&socket);
	lw_tcp_announce(samplers, 7, lw_netns_key(0), &socket);
	assert_int_equal(send(connected[0], bytes, sizeof(bytes), 0), sizeof(bytes));
	assert_int_equal(recv(connected[1], bytes, sizeof(bytes), MSG_WAITALL), sizeof(bytes));
	look(3);
	setsockopt(connected[0], SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
	close(connected[0]);
	close(connected[1]);
	for (int i = 0; i < 1000 && samplers->tcp->n_own;
		i++) { /* told by a worker of the kernel */
		look(1);
		usleep(1000);
	}
	store();
	assert_int_equal(ask("SELECT is_ended FROM tcp_connection WHERE process_id = 7"), 1);
	assert_int_equal(ask("SELECT acked_bytes FROM v_tcp WHERE process_id = 7"), 5001);
}

/* Announced and found before the interfaces of its namespace are: its device is filled in later. */
static void a_connection_older_than_its_interfaces_gets_its_device(void **state)
{
	struct lw_ev_socket socket;

	(void)state;
	connect_both(&socket);
	lw_tcp_announce(samplers, 7, lw_netns_key(0), &socket);
	lw_sample_tcp(samplers);
	store();
	assert_int_equal(samplers->devices.n, 0);
	assert_int_equal(
		ask("SELECT count(*) FROM tcp_connection WHERE process_id = 7 AND device_id IS NULL"),
		1);
	look(1);
	lw_tcp_finish(samplers);
	store();
	assert_int_equal(
		ask("SELECT count(*) FROM v_tcp WHERE process_id = 7 AND device = 'lo'"), 1);
	close(connected[0]);
	close(connected[1]);
}

static bool is_told(int64_t acked_bytes)
{
	const struct lw_tcp_brief *brief;

	lw_vec_foreach (brief, &samplers->tcp->briefs)
		if (brief->seen.values.acked_bytes >= acked_bytes)
			return true;
	return false;
}

static void what_ended_just_before_the_end_is_kept(void **state)
{
	static char bytes[200000];
	struct lw_ev_socket socket;

	(void)state;
	look(1);
	connect_both(&socket);
	setsockopt(connected[1], SOL_SOCKET, SO_RCVBUF, &(int){1 << 20}, sizeof(int));
	for (size_t n = 0; n < sizeof(bytes);) { /* neither end would wait for the other for ever */
		ssize_t sent = send(connected[0], bytes, sizeof(bytes) - n, MSG_DONTWAIT);
		ssize_t got = recv(connected[1], bytes, sizeof(bytes), MSG_DONTWAIT);

		assert_true(sent != 0 && got != 0);
		n += sent > 0 ? (size_t)sent : 0;
	}
	shutdown(connected[0], SHUT_WR);
	while (recv(connected[1], bytes, sizeof(bytes), 0) > 0)
		;
	close(connected[1]);
	assert_int_equal(recv(connected[0], bytes, sizeof(bytes), 0), 0); /* both ways are closed */
	close(connected[0]);
	for (int i = 0; i < 1000 && !is_told(sizeof(bytes)); i++) {
		look(1);
		usleep(1000);
	}
	/* nobody announced it: it is not the job's, and moved enough to be somebody's */
	assert_int_equal(lw_writer_begin(writer), LW_OK);
	assert_int_equal(lw_samplers_finish(samplers, now_ns), LW_OK);
	assert_int_equal(lw_writer_commit(writer), LW_OK);
	assert_true(
		ask("SELECT count(*) FROM v_tcp WHERE acked_bytes BETWEEN 200000 AND 200002") >= 1);
}

int main(void)
{
#define ONE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
	const struct CMUnitTest tests[] = {
		ONE(a_process_that_ends_is_no_loss_but_one_that_stays_is),
		ONE(a_process_that_has_ended_is_no_loss),
		ONE(sockets_that_cannot_be_opened_are_told),
		ONE(announcements_of_where_nobody_looks_leave_room_for_others),
		ONE(a_connection_that_is_reset_keeps_what_it_had_moved),
		ONE(a_connection_older_than_its_interfaces_gets_its_device),
		ONE(what_ended_just_before_the_end_is_kept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
