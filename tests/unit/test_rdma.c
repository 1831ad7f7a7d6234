/* SPDX-License-Identifier: Apache-2.0 */
/* What is said of RDMA: from queue pairs, requests, ports and packets made up here, of a job whose steps are known. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/emit/report.h"
#include "base/err.h"
#include "base/units.h"
#include "tests/lib/run_fixture.h"
#include "tests/unit/net_run.h"

static void assert_near(double value, double wanted, double frac)
{
	if (!(fabs(value - wanted) <= frac * fabs(wanted)))
		fail_msg("%.6g instead of %.6g", value, wanted);
}

static void add_queue(int from, int to, int number, int peer_number, double bytes)
{
	net_run_add("INSERT INTO rdma_port VALUES(%d, 0, 1, NULL, 1, 3, '10.9.0.%d', 0);"
		    "INSERT INTO rdma_qp VALUES(%d, 0, 2, 1, %d, 2, 0, 1, %d, '10.9.0.%d', 0, 0);",
		from + 1, from + 1, from + 1, number, peer_number, to + 1);
	for (int i = 0; i < 10; i++) /* and one that failed */
		net_run_add(
			"INSERT INTO rdma_work SELECT id, %d, %d00000000, %d00000000, 2, 1, NULL, %.0f, 1, 0, 0 FROM thread WHERE process_id = %d AND role = 1;",
			i, i, i + 1, bytes / 10, from + 1);
	net_run_add(
		"INSERT INTO rdma_work SELECT id, 11, 5, 6, 2, 1, NULL, 999, 1, 5, 0 FROM thread WHERE process_id = %d AND role = 1;",
		from + 1);
}

static void queue_pairs_are_links_too(void **state)
{
	const struct lw_net_link *link;
	struct lw_run *run;

	(void)state;
	net_run_begin(3);
	for (int r = 0; r < 3; r++)
		add_queue(r, (r + 1) % 3, 17, 18,
			40e6); /* numbers are of their device: all the same */
	for (int r = 0; r < 3; r++)
		net_run_add(
			"INSERT INTO rdma_qp VALUES(%d, 0, 2, 2, 18, 2, 0, 1, 17, '10.9.0.%d', 0, 0);",
			r + 1, (r + 2) % 3 + 1);
	run = net_run_analyze(3);
	assert_int_equal(run->network.algorithm, LW_ALGORITHM_RING);
	link = &run->network.links.at[0];
	assert_int_equal(link->from, 0);
	assert_int_equal(link->to, 1);
	assert_near(link->run_bytes, 40e6, 1e-9);
	assert_near(link->rdma_bytes, 40e6, 1e-9);
	assert_true(isnan(link->acked_bytes));
	lw_run_free(run);
}

static const char *diag_of(const struct lw_run *run, const char *kind)
{
	const struct lw_diag *diag;

	lw_vec_foreach (diag, &run->diags)
		if (!strcmp(diag->kind, kind))
			return diag->text;
	return NULL;
}

static void add_roce_flow(int id, int capture, int from, int qp)
{
	net_run_add(
		"INSERT INTO flow VALUES(%d, %d, 'roce', '10.9.0.%d', %d, '10.9.0.%d', 4791, %d, NULL, NULL, NULL, 0, 0, NULL, 0, 0);",
		id, capture, from + 1, 50000 + id, 2 - from, qp);
}

static void add_roce_bin(int flow, int64_t at_ns, int payload_bytes, int repeated_bytes)
{
	net_run_add(
		"INSERT INTO packet_bin VALUES(%d, %lld, 1, 1, 1, 1, %d, %d, %d, %d, 0, 0, 0, 0, %lld, %lld);",
		flow, (long long)at_ns, payload_bytes, repeated_bytes > 0, repeated_bytes,
		repeated_bytes, (long long)at_ns, (long long)at_ns);
}

static void add_pair(double bytes)
{
	add_queue(0, 1, 17, 18, bytes);
	add_queue(1, 0, 18, 17, bytes);
}

/* Both ends of the same packets, and a stranger's with the same number on another host. */
static void roce_packets_are_of_the_link_of_their_queue_pairs(void **state)
{
	const struct lw_net_link *link, *back;
	struct lw_run *run;

	(void)state;
	net_run_begin(2);
	add_pair(4e6);
	net_run_add_capture(1, 0, 1000000000);
	net_run_add_capture(2, 1000000, 900000000);
	net_run_add_capture(3, 1000000000, 2000000000);
	for (int capture = 1; capture <= 3; capture++) {
		add_roce_flow(capture, capture, 0, 18);
		add_roce_bin(capture, 500000000, 1000000 * capture, 1000);
	}
	add_roce_flow(4, 1, 1, 17);
	/* refused while the tenth operation of rank 0 ran, and nothing else then */
	net_run_add(
		"INSERT INTO packet_bin SELECT 4, w / 1000000 * 1000000, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 3, 0, w, w FROM"
		" (SELECT c.start_ns + 1500000 AS w FROM collective c JOIN thread t ON t.id = c.thread_id WHERE t.process_id = 1"
		" ORDER BY c.start_ns LIMIT 1 OFFSET 10);");
	net_run_add(
		"INSERT INTO flow VALUES(5, 1, 'roce', '10.9.0.9', 1, '10.9.0.2', 4791, 18, NULL, NULL, NULL, 0, 0, NULL, 0, 0);");
	add_roce_bin(5, 500000000, 777, 0);
	run = net_run_analyze(2);
	assert_int_equal(run->network.links.n, 2);
	link = &run->network.links.at[0];
	back = &run->network.links.at[1];
	/* of two captures at one time one counts, and what a later one saw is more */
	assert_near(link->packet_bytes, 999000 + 2999000, 1e-9);
	assert_near(link->n_retransmits, 2, 1e-9);
	assert_near(link->n_naks, 3, 1e-9);
	assert_near(back->packet_bytes, 0, 1e-9);
	assert_near(back->n_naks, 0, 1e-9);
	assert_non_null(diag_of(run, "captured several times"));
	assert_true(run->network.slowed.n_hit > 0);
	assert_true(run->network.slowed.n_hit < run->network.slowed.n_ops);
	lw_run_free(run);
}

/* In a capture of another job on the host it is a stranger's: a part of it only, by the second. */
static void of_several_captures_the_jobs_own_counts(void **state)
{
	struct lw_run *run;

	(void)state;
	net_run_begin(2);
	add_pair(40e6);
	net_run_add_capture(1, 0, 1000000000);
	net_run_add_capture(2, 1000000, 900000000);
	for (int capture = 1; capture <= 2; capture++) {
		add_roce_flow(capture, capture, 0, 18);
		add_roce_bin(capture, 500000000, 1000000 * capture, 1000);
	}
	net_run_add("UPDATE flow SET process_id = 1, is_sent = 1 WHERE id = 2;");
	run = net_run_analyze(2);
	assert_near(run->network.links.at[0].packet_bytes, 1999000, 1e-9);
	lw_run_free(run);
}

static void who_is_read_has_sent(void **state)
{
	const struct lw_net_link *back;
	struct lw_run *run;

	(void)state;
	net_run_begin(2);
	add_pair(40e6);
	net_run_add(
		"INSERT INTO rdma_work SELECT id, 20, 400000000, 500000000, 6, 1, NULL, 5000000, 1, 0, 0 FROM thread WHERE process_id = 1 AND role = 1;");
	run = net_run_analyze(2);
	back = &run->network.links.at[1];
	assert_int_equal(back->from, 1);
	assert_near(back->run_bytes, 45e6, 1e-9);
	assert_near(back->rdma_bytes, 45e6, 1e-9);
	assert_near(run->network.links.at[0].run_bytes, 40e6, 1e-9);
	lw_run_free(run);
}

/* A port of its own for each rank, and what it counted over the second. */
static void add_port(int rank, double tx_bytes, double rx_bytes, int n_resent)
{
	net_run_add(
		"INSERT INTO device VALUES(%d, 1, 'rdma_port', 'mlx%d/1', 1, NULL, NULL, NULL, 12500000000, '', 'mlx5_core', 0, 0, NULL);"
		"INSERT OR IGNORE INTO string(id, text) VALUES(%d, 'mlx%d');"
		"INSERT OR IGNORE INTO counter(id, name, unit) VALUES(9, 'packet_seq_err', 'packets');"
		"UPDATE rdma_port SET device_id = %d WHERE process_id = %d;",
		20 + rank, rank, 900 + rank, rank, 900 + rank, rank + 1);
	for (int ms = 0; ms <= 1000; ms += 100)
		net_run_add(
			"INSERT INTO counter_sample VALUES(%d, 1, %d000000, %.0f), (%d, 2, %d000000, %.0f), (%d, 3, %d000000, %.0f), (%d, 4, %d000000, %.0f), (%d, 9, %d000000, %d);",
			20 + rank, ms, tx_bytes * ms / 1000, 20 + rank, ms, rx_bytes * ms / 1000,
			20 + rank, ms, 50000.0 * ms / 1000, 20 + rank, ms, 50000.0 * ms / 1000,
			20 + rank, ms, ms > 500 ? n_resent : 0);
}

static const struct lw_net_account *account_of(const struct lw_run *run, const char *name)
{
	const struct lw_net_account *account;

	lw_vec_foreach (account, &run->network.accounts)
		if (!strcmp(run->nics.at[account->nic].name, name))
			return account;
	return NULL;
}

static void what_a_port_moved_past_libibverbs_is_nobodys(void **state)
{
	/* packets of 1024 bytes with 58 of headers, and an acknowledgement for each 32 and each message */
	const double headers = 58 * (40e6 / 1024 + 10 + 40e6 / 1024 / 32 + 10);
	const struct lw_net_account *honest, *hidden;
	struct lw_run *run;

	(void)state;
	net_run_begin(2);
	add_pair(40e6);
	add_port(0, 40e6 + headers, 40e6 + headers, 0);
	add_port(1, 50e6 + headers, 40e6 + headers, 0);
	run = net_run_analyze(2);
	honest = account_of(run, "mlx0/1");
	hidden = account_of(run, "mlx1/1");
	assert_non_null(honest);
	assert_non_null(hidden);
	assert_near(honest->job_tx_bytes, 40e6, 1e-9);
	assert_near(
		honest->job_rx_bytes, 40e6, 1e-9); /* what the peer sent; nobody posted a receive */
	assert_true(honest->other_tx_bytes + honest->other_rx_bytes < 10000);
	assert_null(honest->may_be);
	assert_near(hidden->other_tx_bytes, 10e6, 1e-3);
	assert_non_null(strstr(hidden->may_be, "libibverbs"));
	lw_run_free(run);
}

/* Headers are those of the network: IPv6 has longer ones, InfiniBand shorter. */
static void an_honest_port_hides_nothing_on_any_network(void **state)
{
	static const struct {
		const char *sql;
		double header_bytes;
	} kinds[] = {
		{"", 58},
		{"UPDATE rdma_port SET gid = '2001:db8::' || process_id;"
		 "UPDATE rdma_qp SET peer_gid = '2001:db8::' || (3 - process_id);",
			78},
		{"UPDATE rdma_port SET gid = 'fe80::' || process_id, lid = process_id;"
		 "UPDATE rdma_qp SET peer_gid = 'fe80::' || (3 - process_id), peer_lid = 3 - process_id;",
			26},
	};
	const double n_acks = 40e6 / 1024 / 32 + 10, n_packets = 40e6 / 1024 + 10 + n_acks;

	(void)state;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		double headers = kinds[i].header_bytes * n_packets + 4 * n_acks;
		const struct lw_net_account *honest, *hidden;
		struct lw_run *run;

		net_run_begin(2);
		add_pair(40e6);
		net_run_add("%s", kinds[i].sql);
		add_port(0, 40e6 + headers, 40e6 + headers, 0);
		add_port(1, 41e6 + headers, 40e6 + headers, 0);
		run = net_run_analyze(2);
		honest = account_of(run, "mlx0/1");
		hidden = account_of(run, "mlx1/1");
		assert_null(honest->may_be);
		assert_true(honest->other_tx_bytes + honest->other_rx_bytes < 20000);
		assert_near(hidden->other_tx_bytes, 1e6, 0.02);
		lw_run_free(run);
	}
}

#define SOFT_ACKS    (40e6 / 1024 / 32 + 10)
#define SOFT_PACKETS (40e6 / 1024 + 10 + SOFT_ACKS)
#define SOFT_BYTES   (40e6 + 58 * SOFT_PACKETS + 4 * SOFT_ACKS)

/* Rank @rank's rxe on its interface "eth0", which has its GID for an address: it counts packets only. */
static void add_soft_port(int rank)
{
	net_run_add(
		"UPDATE device SET name = 'eth0', addresses = 'fe80::%d 10.9.0.%d' WHERE id = %d;"
		"INSERT INTO device VALUES(%d, 1, 'rdma_port', 'rxe%d/1', 1, NULL, 'eth0', NULL, NULL, '', 'rdma_rxe', 0, 0, NULL);"
		"INSERT OR IGNORE INTO string(id, text) VALUES(%d, 'rxe%d');"
		"INSERT OR IGNORE INTO counter(id, name, unit) VALUES(9, 'completer_retry_err', 'events');"
		"UPDATE rdma_port SET device_id = %d WHERE process_id = %d;",
		rank + 1, rank + 1, rank + 1, 20 + rank, rank, 900 + rank, rank, 900 + rank,
		rank + 1);
	for (int ms = 0; ms <= 1000; ms += 100)
		net_run_add(
			"INSERT INTO counter_sample VALUES(%d, 3, %d000000, %.0f), (%d, 4, %d000000, %.0f), (%d, 9, %d000000, 0);",
			20 + rank, ms, SOFT_PACKETS * ms / 1000, 20 + rank, ms,
			SOFT_PACKETS * ms / 1000, 20 + rank, ms);
}

/* 40 MB each way by rxe, and a small TCP connection beside it. */
static void what_soft_roce_sends_is_no_strangers(void **state)
{
	const double tcp_bytes = 1e5 * (1 + 66 / 1448.0);
	const struct lw_net_account *account;
	struct lw_run *run;

	(void)state;
	net_run_begin(2);
	add_pair(40e6);
	net_run_exchange(0, 1, 1e5);
	for (int r = 0; r < 2; r++) {
		add_soft_port(r);
		net_run_add_nic_bytes(r, SOFT_BYTES + tcp_bytes, SOFT_BYTES + tcp_bytes);
	}
	run = net_run_analyze(2);
	for (int r = 0; r < 2; r++) {
		account = &run->network.accounts.at[r];
		assert_string_equal(run->nics.at[account->nic].name, "eth0");
		assert_true(account->other_tx_bytes < 0.05 * account->tx_bytes);
		assert_true(isnan(account->foreign.tx_frac) && isnan(account->foreign.rx_frac));
		assert_true(isnan(account->other_step_bytes));
	}
	lw_run_free(run);
}

/* What the host's rxe sends hides nothing on the eth0 of a container. */
static void soft_roce_is_of_the_interface_with_its_address(void **state)
{
	const struct lw_net_account *account;
	struct lw_run *run;
	int n = 0;

	(void)state;
	net_run_begin(2);
	add_pair(40e6);
	add_soft_port(0);
	add_soft_port(1);
	net_run_add("UPDATE device SET addresses = '10.9.0.11' WHERE id = 2;"
		    "UPDATE device SET on_name = 'eth9' WHERE id = 21;");
	net_run_add_nic_bytes(0, SOFT_BYTES, SOFT_BYTES);
	net_run_add_nic_bytes(1, 60e6, 60e6);
	run = net_run_analyze(2);
	lw_vec_foreach (account, &run->network.accounts) {
		const struct lw_nic *nic = &run->nics.at[account->nic];

		n += !strcmp(nic->name, "eth0");
		if (!strcmp(nic->name, "eth0") && nic->id == 1)
			assert_near(account->job_tx_bytes, 40e6, 1e-9);
		else if (!strcmp(nic->name, "eth0"))
			assert_near(account->other_tx_bytes, 60e6, 1e-9);
	}
	assert_int_equal(n, 2);
	lw_run_free(run);
}

static void what_a_port_sent_again_slows_operations(void **state)
{
	const struct lw_net_slowed *slowed;
	char text[LW_NET_WORDS_BYTES];
	struct lw_run *run;

	(void)state;
	net_run_begin(2);
	add_pair(40e6);
	add_port(0, 43e6, 43e6, 600);
	add_port(1, 43e6, 43e6, 0);
	run = net_run_analyze(2);
	slowed = &run->network.slowed;
	assert_true(slowed->is_by_port);
	assert_near(slowed->n_retransmits, 600, 1e-9);
	assert_near(slowed->frac, 600 / 100000.0, 1e-6);
	assert_true(slowed->n_hit > 0 && slowed->n_hit < slowed->n_ops);
	assert_int_equal(slowed->worst_from, LW_NONE);
	assert_non_null(strstr(lw_resent_text(run, text),
		"600 NAKs and timeouts, by the counters of the RDMA ports, 0.6 for 100 packets"));
	lw_run_free(run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(queue_pairs_are_links_too),
		cmocka_unit_test(roce_packets_are_of_the_link_of_their_queue_pairs),
		cmocka_unit_test(of_several_captures_the_jobs_own_counts),
		cmocka_unit_test(who_is_read_has_sent),
		cmocka_unit_test(what_a_port_moved_past_libibverbs_is_nobodys),
		cmocka_unit_test(an_honest_port_hides_nothing_on_any_network),
		cmocka_unit_test(what_soft_roce_sends_is_no_strangers),
		cmocka_unit_test(soft_roce_is_of_the_interface_with_its_address),
		cmocka_unit_test(what_a_port_sent_again_slows_operations),
	};

	return cmocka_run_group_tests(tests, run_fixture_make, run_fixture_remove);
}
