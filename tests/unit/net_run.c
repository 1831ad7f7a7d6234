/* SPDX-License-Identifier: Apache-2.0 */
/* net_run.c - see net_run.h. */
#include "tests/unit/net_run.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/units.h"
#include "tests/lib/run_fixture.h"

enum { N_STEPS = 26, LAST_MS = 1000, EVERY_MS = 100 };

static char sql[1 << 20];
static int n_sockets, sample_ms = EVERY_MS;

void net_run_sample_every(int ms)
{
	sample_ms = ms;
}

void net_run_add(const char *format, ...)
{
	size_t at = strlen(sql);
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(sql + at, sizeof(sql) - at, format, arguments);
	va_end(arguments);
	assert_true(strlen(sql) + 1 < sizeof(sql));
}

void net_run_begin(int n_ranks)
{
	sql[0] = '\0';
	n_sockets = 0;
	sample_ms = EVERY_MS;
	net_run_add(
		"INSERT INTO counter(id, name, unit) VALUES(1, 'tx_bytes', 'bytes'), (2, 'rx_bytes', 'bytes'), (3, 'tx_packets', 'packets'), (4, 'rx_packets', 'packets'), (5, 'rx_dropped', 'packets');");
	for (int r = 0; r < n_ranks; r++)
		net_run_add(
			"INSERT INTO device VALUES(%d, 1, 'nic', 'eth%d', 2, %d, NULL, 1500, NULL, '10.0.0.%d', 'veth', 0, 0, NULL);",
			r + 1, r, r + 1, r + 1);
}

/* One end on rank @from, as hooked and as the kernel says: it sends @bytes evenly over a second, with something in flight
 * for @busy_ms of each 100 ms, and the segments @n_resent in the interval @resent_at. */
void net_run_add_end(int from, int to, int local_port, int peer_port, double bytes,
	double received_bytes, int busy_ms, int resent_at, int n_resent)
{
	int id = ++n_sockets;

	net_run_add(
		"INSERT INTO socket VALUES(%d, %d, %d, 0, '10.0.0.%d', %d, '10.0.0.%d', %d);"
		"INSERT INTO tcp_connection VALUES(%d, 1, %d, %d, 1, '10.0.0.%d', %d, '10.0.0.%d', %d, %d, 0, 2000000000, 1);",
		id, from + 1, id, from + 1, local_port, to + 1, peer_port, id, from + 1, id,
		from + 1, local_port, to + 1, peer_port, from + 1);
	for (int ms = 0; ms <= LAST_MS; ms += sample_ms) {
		double part = ms / (double)LAST_MS;
		int64_t at_ns = ms * LW_NS_PER_MS;

		net_run_add(
			"INSERT INTO socket_sample VALUES(%d, %d, %lld, 1, %.0f, %.0f, 1, 1);"
			"INSERT INTO tcp_info_sample VALUES(%d, %lld, 200000, 100000, %.0f, %.0f, %.0f, 0, %d, %.0f, %.0f, 0, %lld, 0, 0, 10, 0);",
			from + 1, id, (long long)at_ns, bytes * part, received_bytes * part, id,
			(long long)at_ns, bytes * part, bytes * part, received_bytes * part,
			ms > resent_at * EVERY_MS ? n_resent : 0, bytes * part / 1448,
			received_bytes * part / 1448,
			(long long)(ms * busy_ms / EVERY_MS * LW_NS_PER_MS));
	}
}

void net_run_add_link(int from, int to, double bytes, double back_bytes, int busy_ms)
{
	int port = 40000 + from * 100 + to;

	net_run_add_end(from, to, port, 5000 + from, bytes, back_bytes, busy_ms, 0, 0);
	net_run_add_end(to, from, 5000 + from, port, back_bytes, bytes, 0, 0, 0);
}

void net_run_add_capture(int id, int64_t start_ns, int64_t end_ns)
{
	net_run_add(
		"INSERT INTO capture VALUES(%d, 1, 'eth0', '', 'live', 'EN10MB', 136, %lld, %lld, 1, 0, 0, 0, 0, 0, 100, NULL);",
		id, (long long)start_ns, (long long)end_ns);
}

/* What the device of a rank counted over that second. */
void net_run_add_nic_bytes(int rank, double tx_bytes, double rx_bytes)
{
	for (int ms = 0; ms <= LAST_MS; ms += EVERY_MS) {
		double part = ms / (double)LAST_MS;

		for (int counter = 1; counter <= 4; counter++)
			net_run_add("INSERT INTO counter_sample VALUES(%d, %d, %lld, %.0f);",
				rank + 1, counter, (long long)(ms * LW_NS_PER_MS),
				(counter == 1          ? tx_bytes
					: counter == 2 ? rx_bytes
					: counter == 3 ? tx_bytes / 1514
						       : rx_bytes / 1514) *
					part);
	}
}

const char *net_run_sql(void)
{
	return sql;
}

struct lw_run *net_run_analyze(int n_ranks)
{
	struct make_run spec = make_run_job(n_ranks, N_STEPS);
	struct lw_run *run;

	spec.first_ns = 10 * LW_NS_PER_MS;
	spec.extra_sql = sql;
	run = run_fixture_analyze(&spec);
	assert_int_equal(lw_run_network(run), LW_OK);
	return run;
}

void net_run_exchange(int a, int b, double bytes)
{
	net_run_add_link(a, b, bytes, bytes, 50);
}
