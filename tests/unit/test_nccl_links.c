/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL's proxies from rank to rank: whose they are, what carried them, and when one end alone does not tell who is late. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/emit/gpu.h"
#include "analyzer/emit/json.h"
#include "analyzer/reconstruct/nccl_words.h"
#include "tests/lib/make_gpu.h"
#include "tests/lib/run_fixture.h"

enum { RANKS = 4, STEPS = 12, OPS = 2, CHANNELS = 2, MESSAGES = 8 };
#define MESSAGE_BYTES 65536.0

/*
 * A ring of ranks over two channels, in a communicator that counts them the other way round. Of a message the sender waits
 * 5 us for its GPU, 2 us for the receiver and 20 us for the network; the receiver 25 us, and 4 us for its GPU. The proxies
 * of rank r are of thread 2 (r + 1).
 */
static const char ring_sql[] =
	"INSERT INTO comm(process_id, key, parent_key, size, rank, serial, how, transport, at_ns)"
	" SELECT DISTINCT t.process_id, o.comm_key, NULL, 4, 4 - t.process_id, 0, 1, 3, 0 FROM nccl_op o JOIN thread t ON t.id = o.thread_id;"
	"INSERT INTO nccl_proxy SELECT o.thread_id, 1000000 + 4 * o.seq + c.n, o.start_ns, o.end_ns, 1, o.serial, 8 * 65536,"
	" (7 - t.process_id) % 4, c.n, 8, 8 * 5000, 8 * 2000, 8 * 20000"
	" FROM nccl_op o JOIN thread t ON t.id = o.thread_id, (SELECT 0 AS n UNION SELECT 1) c;"
	"INSERT INTO nccl_proxy SELECT o.thread_id, 1000002 + 4 * o.seq + c.n, o.start_ns, o.end_ns, 2, o.serial, 8 * 65536,"
	" (5 - t.process_id) % 4, c.n, 8, 8 * 4000, 8 * 25000, 0"
	" FROM nccl_op o JOIN thread t ON t.id = o.thread_id, (SELECT 0 AS n UNION SELECT 1) c;";

static struct lw_run *load(const char *more)
{
	static char sql[MAKE_GPU_SQL_BYTES], all[8192];
	struct make_run spec = make_run_job(RANKS, STEPS);
	struct make_gpu gpu = make_gpu_job();
	struct lw_run *run;

	spec.transport = LW_TRANSPORT_NCCL;
	snprintf(all, sizeof(all), "%s%s", ring_sql, more ? more : "");
	spec.extra_sql = make_gpu_sql(&gpu, all, sql);
	run = run_fixture_analyze(&spec);
	assert_int_equal(lw_run_gpu(run), LW_OK);
	return run;
}

static struct lw_nccl_links links_of(const struct lw_run *run)
{
	struct lw_nccl_links links;

	assert_int_equal(lw_nccl_links(run, &links), LW_OK);
	return links;
}

static const struct lw_nccl_link *link_from(const struct lw_nccl_links *links, int32_t from)
{
	const struct lw_nccl_link *link;

	lw_vec_foreach (link, &links->at)
		if (link->from == from && link->to == (from + 1) % RANKS)
			return link;
	fail_msg("no link from %d", from);
	return NULL;
}

static void assert_near(double value, double wanted)
{
	if (!(fabs(value - wanted) < 1e-6 * fabs(wanted) + 1e-6))
		fail_msg("%g, not %g", value, wanted);
}

static const char *text_of(const struct lw_run *run)
{
	static char text[1 << 16];
	FILE *out = fmemopen(text, sizeof(text), "w");

	assert_non_null(out);
	text[0] = 0;
	lw_gpu_text(run, LW_NONE, out);
	fclose(out);
	return text;
}

static void assert_says(const char *text, const char *wanted)
{
	if (!strstr(text, wanted))
		fail_msg("\"%s\" is not in \"%s\"", wanted, text);
}

/* ---- sums -------------------------------------------------------------------------------------------- */

static void a_link_is_what_its_two_ends_say(void **state)
{
	struct lw_run *run = load(NULL);
	struct lw_nccl_links links = links_of(run);

	(void)state;
	assert_int_equal(links.at.n, RANKS);
	for (int32_t r = 0; r < RANKS; r++) {
		const struct lw_nccl_link *link = link_from(&links, r);
		double n = OPS * CHANNELS * MESSAGES;

		assert_near(link->n_steps, STEPS - 1); /* the first is left out */
		assert_near(link->sent.n_messages / link->n_steps, n);
		assert_near(link->sent.bytes / link->n_steps, n * MESSAGE_BYTES);
		assert_near(link->sent.gpu_ns / link->sent.n_messages, 5000);
		assert_near(link->sent.peer_ns / link->sent.n_messages, 2000);
		assert_near(link->sent.wire_ns / link->sent.n_messages, 20000);
		assert_near(link->received.peer_ns / link->received.n_messages, 25000);
		assert_null(link->why);
		assert_near(link->both.n_messages, link->sent.n_messages);
		assert_near(link->both.network_ns / link->both.n_messages, 20000);
		assert_near(link->both.receiver_late_ns, 0);
		assert_near(link->both.sender_late_ns / link->both.n_messages, 3000);
	}
	assert_true(links.slow == LW_NONE && links.late == LW_NONE);
	lw_nccl_links_done(&links);
	assert_int_equal(lw_nccl_links_by_step(run, 10, &links), LW_OK);
	assert_int_equal(links.n, (STEPS - 1) * RANKS);
	assert_int_equal(links.at.n, 10);
	assert_int_equal(links.at.at[9].step, 3); /* 0 is left out */
	lw_nccl_links_done(&links);
	lw_run_free(run);
}

static void an_operation_has_one_row_a_peer_and_direction(void **state)
{
	/* one more channel, whose proxy ended long after the others */
	struct lw_run *run = load(
		"INSERT INTO nccl_proxy SELECT thread_id, seq + 900000, start_ns, end_ns, op, serial, 8, peer, 7, 1, 0, 0, 0"
		" FROM nccl_proxy WHERE thread_id = 4 AND op = 1 AND channel = 0 AND serial = 4;");
	size_t n;
	const struct lw_nccl_proxy *proxies = lw_nccl_proxies_of(&run->ranks.at[1], 3, &n);

	(void)state;
	assert_int_equal(run->ranks.at[1].gpu.nccl_proxies.n, 2 * OPS * STEPS);
	assert_int_equal(proxies[0].peer, 2);
	assert_int_equal(proxies[0].n_proxies, CHANNELS + 1);
	assert_int_equal(proxies[0].n_messages, CHANNELS * MESSAGES + 1);
	assert_int_equal(proxies[1].peer, 0);
	lw_run_free(run);
}

static void what_is_of_another_process_counts_apart(void **state)
{
	struct lw_run *run = load(
		"INSERT INTO nccl_proxy SELECT thread_id, seq + 500000, start_ns, end_ns, op, NULL, 1000, peer, channel, 1, 1, 1, 1"
		" FROM nccl_proxy WHERE thread_id = 2 AND serial = 5 AND op = 1 AND channel = 0;"
		"INSERT INTO nccl_proxy SELECT thread_id, seq + 600000, start_ns, end_ns, op, 99999, 1000, peer, channel, 1, 1, 1, 1"
		" FROM nccl_proxy WHERE thread_id = 2 AND serial = 5 AND op = 1 AND channel = 0;");
	struct lw_nccl_links links = links_of(run);

	(void)state;
	assert_near(links.other.n_proxies, 2);
	assert_near(links.other.bytes, 2000);
	assert_says(
		text_of(run), "2 proxies more moved 1.95 KiB for operations of other processes");
	lw_nccl_links_done(&links);
	lw_run_free(run);
}

static void rows_that_cannot_be_are_not_used(void **state)
{
	static const char *const bad[] = {"bytes = -1", "bytes = 1 << 60", "n_steps = -4",
		"wire_ns = -1", "wire_ns = 1 << 62", "gpu_wait_ns = 1 << 62", "peer_wait_ns = -7",
		"op = 0", "op = 77", "end_ns = start_ns - 1", "start_ns = -9"};
	char sql[256];

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct lw_nccl_links links;
		struct lw_run *run;

		snprintf(sql, sizeof(sql),
			"UPDATE nccl_proxy SET %s WHERE thread_id = 4 AND serial = 7 AND op = 1 AND channel = 0;",
			bad[i]);
		run = load(sql);
		links = links_of(run);
		if (run_fixture_diag(run, "bad rows of GPU work") != 1)
			fail_msg("%s", bad[i]);
		assert_near(link_from(&links, 1)->sent.n_messages,
			link_from(&links, 2)->sent.n_messages - MESSAGES);
		/* the other operations are still compared */
		assert_null(link_from(&links, 1)->why);
		assert_near(link_from(&links, 1)->both.n_messages,
			link_from(&links, 2)->both.n_messages - CHANNELS * MESSAGES);
		lw_nccl_links_done(&links);
		lw_run_free(run);
	}
}

static void an_operation_that_never_ended_says_nothing_of_messages(void **state)
{
	struct lw_run *run = load("UPDATE nccl_op SET flags = 2 WHERE serial = 9;"
				  "UPDATE nccl_proxy SET wire_ns = 1 << 50 WHERE serial = 9;");
	struct lw_nccl_links links = links_of(run);

	(void)state;
	assert_near(
		link_from(&links, 1)->sent.wire_ns / link_from(&links, 1)->sent.n_messages, 20000);
	assert_near(link_from(&links, 1)->both.n_messages,
		(double)((STEPS - 1) * OPS - 1) * CHANNELS * MESSAGES);
	lw_nccl_links_done(&links);
	lw_run_free(run);
}

/* ---- late, or slow ------------------------------------------------------------------------------------- */

#define WIRE(us, rank)                                                                             \
	"UPDATE nccl_proxy SET wire_ns = 8000 * " #us " WHERE op = 1 AND thread_id = 2 * " #rank   \
	" + 2"
#define PEER(us, rank)                                                                             \
	"UPDATE nccl_proxy SET peer_wait_ns = 8000 * " #us                                         \
	" WHERE op = 1 AND thread_id = 2 * " #rank " + 2"
#define AWAIT(us, rank)                                                                            \
	"UPDATE nccl_proxy SET peer_wait_ns = 8000 * " #us                                         \
	" WHERE op = 2 AND thread_id = 2 * " #rank " + 2"

static void assert_found(const char *sql, int32_t slow_from, int32_t late)
{
	struct lw_run *run = load(sql);
	struct lw_nccl_links links = links_of(run);
	char text[LW_GPU_TEXT_BYTES];
	int32_t from = links.slow == LW_NONE ? LW_NONE : links.at.at[links.slow].from;

	if (from != slow_from || links.late != late)
		fail_msg("%s: slow from %d, late %d", sql, from, links.late);
	assert_int_equal(*lw_nccl_slow_text(run, &links, text) != 0, slow_from != LW_NONE);
	assert_int_equal(*lw_nccl_late_text(run, &links, text) != 0, late != LW_NONE);
	lw_nccl_links_done(&links);
	lw_run_free(run);
}

static void a_slow_link_is_long_on_the_network_at_both_ends(void **state)
{
	struct lw_run *run = load(WIRE(300, 1) ";" AWAIT(310, 2) ";");

	(void)state;
	assert_says(text_of(run),
		"Slow: from rank 1 to rank 2 a message (64 KiB) was on the network for up to");
	assert_says(text_of(run), "300 us, on none of the other 3 links");
	lw_run_free(run);
	assert_found(WIRE(300, 1) ";" AWAIT(310, 2) ";", 1, LW_NONE);
	/* ranks behind it wait, and have nothing to send */
	assert_found(
		WIRE(300, 1) ";" AWAIT(310, 2) ";" AWAIT(300, 3) ";" AWAIT(300,
			0) ";"
			   "UPDATE nccl_proxy SET gpu_wait_ns = 8000 * 300 WHERE op = 1 AND thread_id <> 4;",
		1, LW_NONE);
}

static void a_late_receiver_is_no_slow_link(void **state)
{
	(void)state;
	/* RDMA: the sender may not send */
	assert_found(PEER(300, 1) ";", LW_NONE, 2);
	/* a socket takes what nobody has asked for: it looks as if it were on the network */
	assert_found(WIRE(300, 1) ";", LW_NONE, 2);
	/* rank 1 cannot take what rank 0 has, as rank 2 does not take what rank 1 has */
	assert_found(PEER(300, 1) ";" PEER(300, 0) ";", LW_NONE, 2);
	/* but who waits itself may only pass it on */
	assert_found(PEER(300, 1) ";" AWAIT(300, 2) ";", LW_NONE, LW_NONE);
	assert_found(PEER(300, 1) ";" WIRE(200, 2) ";" AWAIT(200, 3) ";", 2, LW_NONE);
	/* two are late: nobody stands out */
	assert_found(PEER(300, 1) ";" PEER(300, 3) ";", LW_NONE, LW_NONE);
}

static void who_waits_alone_tells_of_neither(void **state)
{
	(void)state;
	assert_found(AWAIT(300, 2) ";", LW_NONE, LW_NONE);
	/* the sums agree, but not operation by operation */
	assert_found(WIRE(600, 1) " AND serial % 2;" AWAIT(600, 2) " AND NOT serial % 2;", LW_NONE,
		LW_NONE);
}

static void what_half_of_the_run_shows_is_chance(void **state)
{
	(void)state;
	assert_found(WIRE(300, 1) " AND serial < 13;" AWAIT(310, 2) " AND serial < 13;", LW_NONE,
		LW_NONE);
	assert_found(WIRE(300, 1) " AND serial > 12;" AWAIT(310, 2) " AND serial > 12;", LW_NONE,
		LW_NONE);
	assert_found(PEER(300, 1) " AND serial > 12;", LW_NONE, LW_NONE);
	assert_found(PEER(300, 1) " AND serial < 13;", LW_NONE, LW_NONE);
	/* twice as long is not clear, and 3 us of nothing is nobody's trouble */
	assert_found(WIRE(50, 1) ";" AWAIT(50, 2) ";", LW_NONE, LW_NONE);
	assert_found("UPDATE nccl_proxy SET wire_ns = 8000;" WIRE(9, 1) ";", LW_NONE, LW_NONE);
}

static void messages_of_other_sizes_do_not_compare(void **state)
{
	(void)state;
	assert_found(
		WIRE(300, 1) ";" AWAIT(310,
			2) ";"
			   "UPDATE nccl_proxy SET bytes = 8 * 65536 * 16 WHERE (op = 1 AND thread_id = 4) OR (op = 2 AND thread_id = 6);",
		LW_NONE, LW_NONE);
}

static void of_one_end_it_is_not_known(void **state)
{
	struct lw_run *run = load(WIRE(300, 1) ";" PEER(
		300, 3) "; DELETE FROM nccl_proxy WHERE thread_id IN (6, 2);");
	struct lw_nccl_links links = links_of(run);
	struct lw_json *json = lw_json_open();
	static char text[1 << 17];
	FILE *out = fmemopen(text, sizeof(text), "w");

	(void)state;
	assert_true(links.slow == LW_NONE && links.late == LW_NONE);
	for (int32_t r = 0; r < RANKS; r++)
		assert_non_null(link_from(&links, r)->why);
	assert_says(text_of(run), "one end was not recorded");
	lw_json_object(json, NULL);
	assert_int_equal(lw_gpu_json(json, run), LW_OK);
	lw_json_array(json, "diag");
	lw_json_unknowns(json);
	lw_json_array_end(json);
	lw_json_object_end(json);
	assert_int_equal(lw_json_close(json, out), LW_OK);
	fclose(out);
	assert_says(text, "gpu.proxies.links.network_most_ns");
	assert_says(text, "\"received\": null");
	lw_nccl_links_done(&links);
	lw_run_free(run);
}

/* What is left cannot be put side by side: the fifth would be taken for the fourth. */
static void operations_that_one_end_does_not_have_are_not_compared(void **state)
{
	struct lw_run *run = load(WIRE(300, 1) ";" AWAIT(
		310, 2) ";"
			"DELETE FROM nccl_proxy WHERE thread_id = 6 AND op = 2 AND serial = 4;");
	struct lw_nccl_links links = links_of(run);

	(void)state;
	assert_string_equal(
		link_from(&links, 1)->why, "its two ends did not record the same operations");
	assert_null(link_from(&links, 2)->why);
	assert_int_equal(links.slow, LW_NONE);
	lw_nccl_links_done(&links);
	lw_run_free(run);
}

static void a_peer_that_no_communicator_names_is_not_known(void **state)
{
	struct lw_run *run = load("UPDATE comm SET rank = -1 WHERE process_id = 3;");
	struct lw_nccl_links links = links_of(run);
	size_t n;

	(void)state;
	assert_int_equal(lw_nccl_proxies_of(&run->ranks.at[1], 3, &n)->peer, LW_NONE);
	/* of 1 to 2 and of 2 to 3 the end that names the other, and the one that cannot */
	assert_int_equal(links.at.n, RANKS + 2);
	lw_nccl_links_done(&links);
	lw_run_free(run);
}

/* ---- what carried it ------------------------------------------------------------------------------------ */

static const char nets_sql[] =
	"INSERT INTO socket VALUES(1, 2, 41, 0, '10.0.0.2', 5000, '10.0.0.3', 6000), (2, 3, 51, 0, '10.0.0.3', 6000, '10.0.0.2', 5000);"
	"INSERT INTO socket_sample VALUES(2, 41, 1, 1, 0, 0, 1, 1), (3, 51, 1, 1, 0, 0, 1, 1);"
	"INSERT INTO rdma_port VALUES(3, 0, 1, NULL, 1, 3, '10.9.0.3', 0), (4, 0, 1, NULL, 1, 3, '10.9.0.4', 0);"
	"INSERT INTO rdma_qp VALUES(3, 0, 2, 1, 77, 2, 0, 1, 88, '10.9.0.4', 0, 0), (4, 0, 2, 1, 88, 2, 0, 1, 77, '10.9.0.3', 0, 0);"
	"INSERT INTO nccl_net SELECT thread_id, seq + 700000, start_ns, end_ns, 2, serial, bytes, 41, 8 FROM nccl_proxy WHERE thread_id = 4 AND op = 1;"
	"INSERT INTO nccl_net SELECT thread_id, seq + 700000, start_ns, end_ns, 1, serial, bytes, 77, 8 FROM nccl_proxy WHERE thread_id = 6 AND op = 1;";

static void what_carried_it_is_the_connection_of_its_process(void **state)
{
	struct lw_run *run = load(nets_sql);
	struct lw_nccl_links links = links_of(run);
	char text[LW_GPU_TEXT_BYTES], name[LW_NCCL_LINK_NAME_BYTES];
	const struct lw_nccl_carrier *carrier;
	size_t n;

	(void)state;
	carrier = lw_nccl_carriers_of(&run->ranks.at[1], 3, &n);
	assert_int_equal(n, 1);
	assert_int_equal(carrier->n, CHANNELS * MESSAGES);
	assert_true(carrier->end != LW_NONE);
	assert_int_equal(run->ends.at[carrier->end].peer_rank, 2);
	assert_string_equal(lw_nccl_link_name(run, link_from(&links, 1), name), "TCP");
	assert_string_equal(lw_nccl_link_name(run, link_from(&links, 2), name), "RDMA");
	assert_string_equal(lw_nccl_link_name(run, link_from(&links, 0), name), "");
	assert_says(lw_nccl_moved_text(run, &run->ranks.at[1], 3, true, text),
		"sent 1 MiB to rank 2 on 2 channels, 16 messages; of one: GPU not ready 5.00 us, receiver not ready 2.00 us, on the network 20.0 us; socket 10.0.0.2:5000");
	assert_says(lw_nccl_moved_text(run, &run->ranks.at[2], 3, true, text), "; queue pair 77");
	assert_string_equal(lw_nccl_moved_text(run, &run->ranks.at[2], 3, false, text),
		"received 1 MiB from rank 1 on 2 channels, 16 messages; of one: asked for and not there 25.0 us, GPU had not taken it 4.00 us");
	lw_nccl_links_done(&links);
	lw_run_free(run);
}

static void of_several_peers_the_one_with_most_is_said(void **state)
{
	struct lw_run *run = load(
		"UPDATE nccl_op SET group_serial = 9 WHERE serial = 5;"
		"INSERT INTO nccl_proxy SELECT thread_id, seq + 800000, start_ns, end_ns, 1, serial, 8, 0, 3, 1, 0, 0, 0"
		" FROM nccl_proxy WHERE thread_id = 2 AND op = 1 AND serial IN (4, 5) AND channel = 0;");
	char text[LW_GPU_TEXT_BYTES];

	(void)state;
	assert_says(lw_nccl_moved_text(run, &run->ranks.at[0], 3, true, text),
		"sent 1 MiB to rank 1 on 2 channels, 16 messages; of one: GPU not ready 5.00 us, receiver not ready 2.00 us, on the network 20.0 us; likewise 1 more rank");
	assert_says(lw_nccl_moved_text(run, &run->ranks.at[0], 4, true, text),
		"; likewise 1 more rank; other calls of its group apart");
	lw_run_free(run);
}

static void a_number_that_two_queue_pairs_had_is_neither(void **state)
{
	static char sql[4096];
	const struct lw_nccl_carrier *carriers;
	struct lw_nccl_links links;
	char name[LW_NCCL_LINK_NAME_BYTES];
	struct lw_run *run;
	size_t n;

	(void)state;
	snprintf(sql, sizeof(sql), "%s%s", nets_sql,
		"INSERT INTO rdma_qp VALUES(3, 9, 2, 2, 77, 2, 0, 1, 99, '10.9.0.1', 0, 0);"
		/* another process's number; one that leads to another rank */
		"UPDATE nccl_net SET number = 51 WHERE thread_id = 4;"
		"INSERT INTO socket VALUES(3, 2, 42, 0, '10.0.0.2', 5001, '10.0.0.1', 6001), (4, 1, 43, 0, '10.0.0.1', 6001, '10.0.0.2', 5001);"
		"INSERT INTO nccl_net SELECT thread_id, seq, start_ns, end_ns, op, serial, bytes, 42, n FROM nccl_net WHERE thread_id = 4;");
	run = load(sql);
	links = links_of(run);
	assert_int_equal(lw_nccl_carriers_of(&run->ranks.at[2], 3, &n)->end, LW_NONE);
	assert_int_equal(n, 1);
	carriers = lw_nccl_carriers_of(&run->ranks.at[1], 3, &n);
	assert_int_equal(n, 2); /* 42, 51 */
	assert_int_equal(run->ends.at[carriers[0].end].peer_rank, 0);
	assert_int_equal(carriers[1].end, LW_NONE);
	assert_string_equal(lw_nccl_link_name(run, link_from(&links, 1), name), "");
	assert_string_equal(lw_nccl_link_name(run, link_from(&links, 2), name), "");
	lw_nccl_links_done(&links);
	lw_run_free(run);
}

static void lines_are_no_wider_than_a_page(void **state)
{
	struct lw_run *run = load(WIRE(123456, 1) ";" PEER(0, 3) ";");
	const char *line = strstr(text_of(run), "Inside NCCL");

	(void)state;
	assert_non_null(line);
	assert_says(line,
		"     0    1     2 MiB      32   5.00 us  2.00 us  20.0 us  25.0 us  4.00 us\n");
	assert_says(line,
		"     1    2     2 MiB      32   5.00 us  2.00 us   123 ms  25.0 us  4.00 us\n");
	assert_says(line, "     3    0     2 MiB      32   5.00 us   < 1 us");
	for (; *line; line += strcspn(line, "\n") + 1)
		if (strcspn(line, "\n") > 80)
			fail_msg("%.*s", (int)strcspn(line, "\n"), line);
	lw_run_free(run);
}

static void a_run_without_proxies_has_no_such_part(void **state)
{
	struct lw_run *run = load("DELETE FROM nccl_proxy;");

	(void)state;
	assert_false(lw_nccl_has_proxies(run));
	assert_null(strstr(text_of(run), "Inside NCCL"));
	lw_run_free(run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_link_is_what_its_two_ends_say),
		cmocka_unit_test(an_operation_has_one_row_a_peer_and_direction),
		cmocka_unit_test(what_is_of_another_process_counts_apart),
		cmocka_unit_test(rows_that_cannot_be_are_not_used),
		cmocka_unit_test(an_operation_that_never_ended_says_nothing_of_messages),
		cmocka_unit_test(a_slow_link_is_long_on_the_network_at_both_ends),
		cmocka_unit_test(a_late_receiver_is_no_slow_link),
		cmocka_unit_test(who_waits_alone_tells_of_neither),
		cmocka_unit_test(what_half_of_the_run_shows_is_chance),
		cmocka_unit_test(messages_of_other_sizes_do_not_compare),
		cmocka_unit_test(of_one_end_it_is_not_known),
		cmocka_unit_test(operations_that_one_end_does_not_have_are_not_compared),
		cmocka_unit_test(a_peer_that_no_communicator_names_is_not_known),
		cmocka_unit_test(what_carried_it_is_the_connection_of_its_process),
		cmocka_unit_test(of_several_peers_the_one_with_most_is_said),
		cmocka_unit_test(a_number_that_two_queue_pairs_had_is_neither),
		cmocka_unit_test(lines_are_no_wider_than_a_page),
		cmocka_unit_test(a_run_without_proxies_has_no_such_part),
	};

	return cmocka_run_group_tests(tests, run_fixture_make, run_fixture_remove);
}
