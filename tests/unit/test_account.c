/* SPDX-License-Identifier: Apache-2.0 */
/* Which NICs have an account, whose the bytes beyond the job's are, and what those did to the steps. */
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
#include "tests/unit/net_run.h"

#define HEADERS (40e6 / 1448 * 66)

static void assert_near(double value, double wanted, double frac)
{
	if (!(fabs(value - wanted) <= frac * fabs(wanted)))
		fail_msg("%.6g instead of %.6g", value, wanted);
}

/* Two ranks, each with a NIC in a namespace of its own. */
static void begin_pair(double more_tx_bytes, double more_rx_bytes)
{
	net_run_begin(2);
	net_run_exchange(0, 1, 40e6);
	net_run_add_nic_bytes(0, 40e6 + HEADERS + more_tx_bytes, 40e6 + HEADERS + more_rx_bytes);
	net_run_add_nic_bytes(1, 40e6 + HEADERS, 40e6 + HEADERS);
}

/* What rank 0's NIC sends a far end receives. */
static void add_far_end(int id, const char *addresses, const char *driver)
{
	net_run_add(
		"INSERT INTO device VALUES(%d, 1, 'nic', 'far%d', %d, 50, NULL, 1500, NULL, '%s', '%s', 0, 0, NULL);"
		"INSERT INTO counter_sample SELECT %d, CASE counter_id WHEN 1 THEN 2 WHEN 2 THEN 1 WHEN 3 THEN 4 ELSE 3 END,"
		" at_ns, value FROM counter_sample WHERE device_id = 1 AND counter_id < 5;",
		id, id, id, addresses, driver, id);
}

static void ends_of_the_host_have_no_account(void **state)
{
	struct lw_run *run;

	(void)state;
	begin_pair(7e6, 0);
	add_far_end(20, "fe80::1840:feff:fe01:acac", "ixgbe"); /* a port of a bridge */
	add_far_end(21, "fe80::2 10.0.0.254", "veth");         /* routed */
	add_far_end(22, "fe80::3 10.0.0.253 fe80::4",
		"mlx5"); /* a NIC that happens to count the same */
	run = net_run_analyze(2);
	assert_int_equal(run->network.accounts.n, 3);
	assert_string_equal(run->nics.at[run->network.accounts.at[0].nic].name, "eth0");
	assert_string_equal(run->nics.at[run->network.accounts.at[1].nic].name, "eth1");
	assert_string_equal(run->nics.at[run->network.accounts.at[2].nic].name, "far22");
	lw_run_free(run);
}

static void what_a_rank_sent_again_is_no_stranger(void **state)
{
	const struct lw_net_account *account;
	struct lw_run *run;

	(void)state;
	/* rank 0 sends 1000 segments again, that rank 1's NIC counts twice, and somebody else 3 MB */
	net_run_begin(2);
	net_run_add_end(0, 1, 40001, 5000, 40e6, 40e6, 50, 3, 1000);
	net_run_add_end(1, 0, 5000, 40001, 40e6, 40e6, 0, 0, 0);
	net_run_add_nic_bytes(0, 40e6 + HEADERS, 40e6 + HEADERS);
	net_run_add_nic_bytes(1, 40e6 + HEADERS, 40e6 + HEADERS + 1000 * 1448 + 3e6);
	run = net_run_analyze(2);
	account = &run->network.accounts.at[1];
	assert_near(account->again_rx_bytes, 1000 * 1448, 1e-9);
	assert_near(account->other_rx_bytes, 3e6, 0.01);
	assert_near(run->network.accounts.at[0].again_rx_bytes + 1, 1, 1e-9);
	lw_run_free(run);
}

static void headers_are_known_without_counted_packets(void **state)
{
	struct lw_run *run;

	(void)state;
	begin_pair(0, 0);
	net_run_add("DELETE FROM counter_sample WHERE counter_id IN (3, 4);");
	run = net_run_analyze(2);
	assert_near(run->network.accounts.at[0].header_tx_bytes, HEADERS, 0.001);
	assert_true(run->network.accounts.at[0].other_tx_bytes < 1e3);
	lw_run_free(run);
}

static void add_other(int id, const char *local, int local_port, const char *peer, int peer_port,
	double out_bytes, double in_bytes)
{
	net_run_add(
		"INSERT INTO tcp_connection VALUES(%d, 1, NULL, %d, 1, '%s', %d, '%s', %d, 1, 0, 1, 1);"
		"INSERT INTO tcp_info_sample VALUES(%d, 0, 1, 1, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 1, 0),"
		" (%d, 1000000000, 1, 1, %.0f, %.0f, %.0f, 0, 0, 9, 9, 0, 0, 0, 0, 1, 0);",
		id, id, local, local_port, peer, peer_port, id, id, out_bytes, out_bytes, in_bytes);
}

static void a_service_is_at_the_end_that_has_its_port(void **state)
{
	const struct lw_net_account *account;
	struct lw_run *run;

	(void)state;
	begin_pair(0, 20e6);
	add_other(90, "10.0.0.1", 2049, "10.0.0.7", 800, 0, 5e6);    /* an NFS server here */
	add_other(91, "10.0.0.1", 801, "10.0.0.9", 2049, 0, 4e6);    /* a client of one there */
	add_other(92, "10.0.0.1", 5005, "10.0.0.8", 49152, 0, 3e6);  /* a client's port by chance */
	add_other(93, "10.0.0.1", 45678, "10.0.0.8", 49152, 0, 2e6); /* GlusterFS */
	run = net_run_analyze(2);
	account = &run->network.accounts.at[0];
	assert_int_equal(account->candidates.n, 4);
	assert_string_equal(account->candidates.at[0].text,
		"another process, port 2049 (NFS) at 10.0.0.1, with 10.0.0.7");
	assert_string_equal(
		account->candidates.at[1].text, "another process, port 2049 (NFS) at 10.0.0.9");
	assert_string_equal(account->candidates.at[2].text,
		"another process, port 5005 at 10.0.0.1, with 10.0.0.8");
	assert_string_equal(account->candidates.at[3].text,
		"another process, port 49152 (GlusterFS) at 10.0.0.8");
	/* of 20 MB 14 are theirs; the rest is no TCP that was seen */
	assert_near(account->unseen_bytes, 6e6, 0.01);
	lw_run_free(run);
}

static void many_peers_are_added_up_and_none_is_left_out(void **state)
{
	const struct lw_net_candidate *one;
	const struct lw_net_account *account;
	struct lw_run *run;
	double bytes = 0;
	char peer[32];

	(void)state;
	begin_pair(0, 40e6);
	for (int i = 0; i < 12; i++) {
		snprintf(peer, sizeof(peer), "10.1.0.%d", i);
		add_other(100 + i, "10.0.0.1", 40000 + i, peer, 443, 0, 1e6);
		add_other(120 + i, "10.0.0.1", 41000 + i, "10.2.0.1", 7000 + i, 0, 1e5 * (i + 1));
	}
	run = net_run_analyze(2);
	account = &run->network.accounts.at[0];
	assert_int_equal(account->candidates.n, 9);
	assert_string_equal(account->candidates.at[0].text,
		"another process, port 443 (https) at 12 addresses");
	assert_near(account->candidates.at[0].in_bytes, 12e6, 1e-9);
	assert_int_equal(account->candidates.at[0].n_connections, 12);
	assert_string_equal(
		account->candidates.at[1].text, "another process, port 7011 at 10.2.0.1");
	assert_true(account->candidates.at[8].is_others);
	assert_string_equal(account->candidates.at[8].text, "5 other connections");
	lw_vec_foreach (one, &account->candidates)
		bytes += one->bytes;
	assert_near(bytes, 12e6 + 7.8e6, 1e-9);
	lw_run_free(run);
}

/* Rank 0's NIC, read every 5 ms: others have 30 MB/s from 300 to 600 ms. */
static void read_often(double other_bytes_per_ms)
{
	net_run_add("DELETE FROM counter_sample WHERE device_id = 1;");
	for (int ms = 0; ms <= 1000; ms += 5) {
		double part = ms / 1000.0, other_ms = ms < 300 ? 0 : ms > 600 ? 300 : ms - 300;

		net_run_add(
			"INSERT INTO counter_sample VALUES(1, 1, %d000000, %.0f), (1, 2, %d000000, %.0f), (1, 3, %d000000, %.0f), (1, 4, %d000000, %.0f);",
			ms, (40e6 + HEADERS) * part, ms,
			(40e6 + HEADERS) * part + other_bytes_per_ms * other_ms, ms, 28e3 * part,
			ms, 28e3 * part);
	}
}

static void what_others_have_in_the_steps_is_told(void **state)
{
	const struct lw_net_foreign *foreign;
	struct lw_run *run;

	(void)state;
	net_run_begin(2);
	net_run_sample_every(5);
	net_run_exchange(0, 1, 40e6);
	net_run_add_nic_bytes(1, 40e6 + HEADERS, 40e6 + HEADERS);
	read_often(30e3);
	run = net_run_analyze(2);
	foreign = &run->network.accounts.at[0].foreign;
	assert_true(foreign->tx_frac < 0.01);
	assert_true(foreign->rx_frac > 0.1 && foreign->rx_frac < 0.4);
	assert_true(foreign->n_with >= 5 && foreign->n_without >= 5);
	assert_near(foreign->with_ns, foreign->without_ns, 0.2);
	assert_true(run->network.accounts.at[1].foreign.rx_frac < 0.01);
	assert_int_equal(run->network.accounts.at[1].foreign.n_with, 0);
	assert_true(isnan(run->network.accounts.at[1].foreign.with_ns));
	assert_near(run->network.accounts.at[0].other_step_bytes * (double)run->network.n_steps,
		9e6, 0.001);
	lw_run_free(run);
}

static void set_nic(int device, const char *direction, double bytes, double packets, int from_ms)
{
	const char *const names[] = {"bytes", "packets"};
	const double totals[] = {bytes, packets};

	for (int i = 0; i < 2; i++)
		for (int ms = from_ms; ms <= 1000; ms += 100)
			net_run_add(
				"INSERT INTO counter_sample SELECT %d, id, %d000000, %.0f FROM counter WHERE name = '%s_%s';",
				device, ms, totals[i] * ms / 1000, direction, names[i]);
}

static void a_nic_that_goes_before_its_connections_is_said(void **state)
{
	const struct lw_diag *diag;
	struct lw_run *run;
	int n = 0;

	(void)state;
	begin_pair(0, 0);
	/* both are gone in the end; what left by rank 1's was there for some seconds more */
	net_run_add(
		"UPDATE device SET gone_ns = 1000000000;"
		"UPDATE tcp_info_sample SET at_ns = 4000000000 WHERE connection_id = 2 AND at_ns = 1000000000;");
	run = net_run_analyze(2);
	lw_vec_foreach (diag, &run->diags) {
		if (strcmp(diag->kind, "device gone") != 0)
			continue;
		n++;
		assert_non_null(strstr(diag->text,
			"eth1 (rank 1, 10.0.0.2 on node1) was gone 995 ms after the start of rank 1: connections that left by it were there for another 3.00 s"));
	}
	assert_int_equal(n, 1);
	lw_run_free(run);
}

/* InfiniBand's word for congestion: ticks that a port had to wait. */
static void ports_that_wait_and_slow_down_are_troubles(void **state)
{
	static const char *const names[] = {"tx_wait_ticks", "roce_slow_restart"};
	struct lw_run *run;

	(void)state;
	begin_pair(0, 0);
	for (int i = 0; i < 2; i++)
		net_run_add(
			"INSERT INTO counter(id, name, unit) VALUES(%d, '%s', 'ticks');"
			"INSERT INTO counter_sample VALUES(1, %d, 0, 0), (1, %d, 500000000, 5000);",
			20 + i, names[i], 20 + i, 20 + i);
	run = net_run_analyze(2);
	assert_int_equal(run->network.troubles.n, 2);
	for (int i = 0; i < 2; i++)
		assert_string_equal(run->network.troubles.at[i].counter, names[i]);
	lw_run_free(run);
}

/* Rank 0 sends 200 MB; rank 1 acknowledges every second segment, and has sent 2 kB before its NIC is read first. */
static void acknowledgements_are_no_strangers(void **state)
{
	const double data = 200e6 / 1448, acks = data / 2;
	const struct lw_net_account *account;
	struct lw_run *run;

	(void)state;
	net_run_begin(2);
	net_run_add_end(0, 1, 40001, 5000, 200e6, 2e3, 50, 0, 0);
	net_run_add_end(1, 0, 5000, 40001, 2e3, 200e6, 0, 0, 0);
	net_run_add(
		"UPDATE tcp_info_sample SET n_segments_out = n_segments_out + received_bytes / 2896,"
		" n_segments_in = n_segments_in + sent_bytes / 2896;"
		"UPDATE tcp_info_sample SET sent_bytes = 2000 WHERE connection_id = 2 AND at_ns > 0;"
		"UPDATE tcp_info_sample SET received_bytes = 2000 WHERE connection_id = 1 AND at_ns > 0;"
		"UPDATE socket_sample SET sent_bytes = 2000 WHERE process_id = 2 AND at_ns > 0;"
		"UPDATE socket_sample SET received_bytes = 2000 WHERE process_id = 1 AND at_ns > 0;");
	set_nic(1, "tx", 200e6 + data * 66, data, 100);
	set_nic(1, "rx", acks * 66, acks, 100);
	set_nic(2, "tx", acks * 66, acks, 100);
	set_nic(2, "rx", 200e6 + data * 66, data, 100);
	run = net_run_analyze(2);
	account = &run->network.accounts.at[1];
	assert_string_equal(run->nics.at[account->nic].name, "eth1");
	assert_near(account->header_tx_bytes, 0.9 * acks * 66, 0.001);
	assert_true(account->other_tx_bytes < 0.01 * account->tx_bytes);
	assert_true(account->other_step_bytes < 2000);
	assert_true(isnan(account->foreign.tx_frac)); /* hardly anything moves that way */
	assert_true(account->foreign.rx_frac < 0.01);
	assert_true(run->network.accounts.at[0].foreign.tx_frac < 0.01);
	assert_true(isnan(run->network.accounts.at[0].foreign.rx_frac));
	lw_run_free(run);
}

/* The hook has a sample at either end of the second, the kernel's readings say that all moved in the last tenth. */
static void what_a_pause_hides_from_the_hook_the_kernel_tells(void **state)
{
	struct lw_run *run;

	(void)state;
	net_run_begin(2);
	net_run_exchange(0, 1, 40e6);
	net_run_add(
		"DELETE FROM socket_sample WHERE at_ns > 0 AND at_ns < 1000000000;"
		"UPDATE tcp_info_sample SET sent_bytes = 0, acked_bytes = 0, received_bytes = 0,"
		" n_segments_out = 0, n_segments_in = 0 WHERE at_ns < 1000000000;");
	for (int device = 1; device <= 2; device++)
		for (int counter = 1; counter <= 4; counter++)
			net_run_add(
				"INSERT INTO counter_sample VALUES(%d, %d, 500000000, 0), (%d, %d, 1000000000, %.0f);",
				device, counter, device, counter,
				counter <= 2 ? 40e6 + HEADERS : 40e6 / 1448);
	run = net_run_analyze(2);
	for (int r = 0; r < 2; r++) {
		assert_near(run->network.accounts.at[r].job_tx_bytes, 40e6, 1e-6);
		assert_true(run->network.accounts.at[r].other_tx_bytes < 100e3);
		assert_true(run->network.accounts.at[r].other_rx_bytes < 100e3);
	}
	lw_run_free(run);
}

static void what_was_sent_again_is_the_jobs_in_the_steps_too(void **state)
{
	const double again = 3000, sent = 40e6 + again * 1448;
	struct lw_run *run;

	(void)state;
	net_run_begin(2);
	net_run_add_end(0, 1, 40001, 5000, 40e6, 40e6, 50, 3, 3000);
	net_run_add_end(1, 0, 5000, 40001, 40e6, 40e6, 0, 0, 0);
	net_run_add(
		"UPDATE tcp_info_sample SET sent_bytes = sent_bytes + 1448 * n_retransmits,"
		" retransmitted_bytes = 1448 * n_retransmits, n_segments_out = n_segments_out + n_retransmits"
		" WHERE connection_id = 1;"
		"UPDATE tcp_info_sample SET n_segments_in = n_segments_in + 3000"
		" WHERE connection_id = 2 AND at_ns > 300000000;");
	set_nic(1, "tx", sent + (40e6 / 1448 + again) * 66, 40e6 / 1448 + again, 0);
	set_nic(1, "rx", 40e6 + HEADERS, 40e6 / 1448, 0);
	set_nic(2, "tx", 40e6 + HEADERS, 40e6 / 1448, 0);
	set_nic(2, "rx", sent + (40e6 / 1448 + again) * 66, 40e6 / 1448 + again, 0);
	run = net_run_analyze(2);
	for (int r = 0; r < 2; r++) {
		const struct lw_net_account *account = &run->network.accounts.at[r];

		assert_true(account->foreign.tx_frac < 0.02);
		assert_true(account->foreign.rx_frac < 0.02);
		assert_true(account->other_step_bytes < 30e3);
	}
	lw_run_free(run);
}

/* Each rank has the same address in a container of its own, and knows the others by those of their hosts. */
static void behind_nat_connections_lead_to_nobody(void **state)
{
	struct lw_run *run;

	(void)state;
	net_run_begin(2);
	net_run_exchange(0, 1, 40e6);
	net_run_add("UPDATE tcp_connection SET local_address = '172.17.0.2';"
		    "UPDATE socket SET local_address = '172.17.0.2';");
	run = net_run_analyze(2);
	assert_int_equal(run->network.links.n, 0);
	assert_non_null(strstr(run->network.evidence,
		"2 connections of ranks lead to addresses that no rank has"));
	lw_run_free(run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ends_of_the_host_have_no_account),
		cmocka_unit_test(what_a_rank_sent_again_is_no_stranger),
		cmocka_unit_test(headers_are_known_without_counted_packets),
		cmocka_unit_test(a_service_is_at_the_end_that_has_its_port),
		cmocka_unit_test(many_peers_are_added_up_and_none_is_left_out),
		cmocka_unit_test(behind_nat_connections_lead_to_nobody),
		cmocka_unit_test(what_others_have_in_the_steps_is_told),
		cmocka_unit_test(a_nic_that_goes_before_its_connections_is_said),
		cmocka_unit_test(ports_that_wait_and_slow_down_are_troubles),
		cmocka_unit_test(acknowledgements_are_no_strangers),
		cmocka_unit_test(what_a_pause_hides_from_the_hook_the_kernel_tells),
		cmocka_unit_test(what_was_sent_again_is_the_jobs_in_the_steps_too),
	};

	return cmocka_run_group_tests(tests, run_fixture_make, run_fixture_remove);
}
