/* SPDX-License-Identifier: Apache-2.0 */
/* Flows and bins as rows: whose they are, what becomes of a place that is given back, what is kept in mind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>
#include <malloc.h>

#include "base/err.h"
#include "packet/rows.h"
#include "schema/store.h"

struct scene {
	char path[64];
	struct lw_store *store;
	struct lw_packet_rows *rows;
	struct lw_packet_batch batch;
};

static const struct lw_capture_row capture = {.host_id = 1,
	.device = "eth0",
	.filter = "",
	.source = "live",
	.link_type = "EN10MB",
	.start_ns = 100};

static void start(struct scene *s)
{
	*s = (struct scene){.path = "/tmp/lapwing-rows-XXXXXX"};
	close(mkstemp(s->path));
	unlink(s->path);
	if (lw_store_open(s->path, LW_STORE_CREATE, &s->store) < 0 ||
		lw_store_exec(s->store, "BEGIN") < 0 ||
		lw_packet_rows_open(s->store, &capture, &s->rows) < 0)
		fail_msg("%s", lw_error_text());
}

static void end(struct scene *s)
{
	lw_packet_rows_close(s->rows);
	lw_packet_batch_free(&s->batch);
	lw_store_exec(s->store, "COMMIT");
	lw_store_close(s->store);
	unlink(s->path);
}

static struct lw_flow_key key_of(uint32_t n)
{
	return (struct lw_flow_key){
		.protocol = 6, .source_port = (uint16_t)n, .destination_port = (uint16_t)(n >> 16)};
}

/* A flow at @place, with one packet of @bytes. */
static void put(struct scene *s, uint32_t place, uint32_t n, bool is_new, uint64_t bytes)
{
	const struct lw_flow_state state = {
		.flow = place, .key = key_of(n), .source_port = (uint16_t)n, .is_new = is_new};
	const struct lw_packet_bin bin = {.flow = place, .n_frames = 1, .payload_bytes = bytes};

	s->batch.states.n = s->batch.bins.n = 0;
	assert_int_equal(lw_vec_push(&s->batch.states, state), 0);
	assert_int_equal(lw_vec_push(&s->batch.bins, bin), 0);
	if (lw_packet_rows_put(s->rows, &s->batch) < 0)
		fail_msg("%s", lw_error_text());
}

static int64_t ask(struct scene *s, const char *sql)
{
	sqlite3_stmt *statement = NULL;
	int64_t value;

	assert_int_equal(lw_store_prepare(s->store, sql, &statement), LW_OK);
	assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
	value = sqlite3_column_int64(statement, 0);
	sqlite3_finalize(statement);
	return value;
}

static void a_place_that_is_given_back_is_another_flow(void **state)
{
	struct scene s;

	(void)state;
	start(&s);
	put(&s, 3, 1, true, 10);
	put(&s, 3, 1, false, 20);
	put(&s, 3, 2, true, 100);
	put(&s, 5, 1, true, 1); /* the first is back */
	assert_int_equal(ask(&s, "SELECT count(*) FROM flow"), 3);
	assert_int_equal(
		ask(&s, "SELECT sum(payload_bytes) FROM packet_bin WHERE flow_id = 1"), 30);
	assert_int_equal(
		ask(&s, "SELECT sum(payload_bytes) FROM packet_bin WHERE flow_id = 2"), 100);
	assert_int_equal(ask(&s, "SELECT payload_bytes FROM packet_bin WHERE flow_id = 3"), 1);
	assert_int_equal(ask(&s, "SELECT source_port FROM flow WHERE id = 2"), 2);
	end(&s);
}

static void an_owner_is_told_before_or_after_its_packets_until_it_ends(void **state)
{
	const struct lw_flow_key first = key_of(1), second = key_of(2);
	struct scene s;

	(void)state;
	start(&s);
	assert_int_equal(lw_packet_rows_own(s.rows, &first, 7, true), LW_OK);
	put(&s, 3, 1, true, 10);
	put(&s, 4, 2, true, 10);
	assert_int_equal(lw_packet_rows_own(s.rows, &second, 8, false), LW_OK);
	assert_int_equal(lw_packet_rows_own(s.rows, &second, 9, true), LW_OK);
	assert_int_equal(ask(&s, "SELECT process_id * 10 + is_sent FROM flow WHERE id = 1"), 71);
	assert_int_equal(
		ask(&s, "SELECT process_id * 10 + peer_process_id FROM flow WHERE id = 2"), 98);
	lw_packet_rows_disown(s.rows, &second); /* one of its two ends */
	put(&s, 6, 2, true, 10);
	assert_int_equal(ask(&s, "SELECT process_id FROM flow WHERE id = 3"), 9);
	lw_packet_rows_disown(s.rows, &second);
	lw_packet_rows_disown(s.rows, &second); /* once too often */
	put(&s, 4, 2, true, 10);
	assert_int_equal(ask(&s, "SELECT process_id IS NULL FROM flow WHERE id = 4"), 1);
	assert_int_equal(ask(&s, "SELECT process_id FROM flow WHERE id = 2"), 9);
	end(&s);
}

/* Half of the connections have packets here, in 50 places by turns; half have none. */
static void what_ended_is_not_kept_in_mind(void **state)
{
	size_t used_bytes = 0;
	struct scene s;

	(void)state;
	start(&s);
	for (uint32_t i = 0; i < 50000; i++) {
		struct lw_flow_key key = key_of(i);

		assert_int_equal(lw_packet_rows_own(s.rows, &key, 7, true), LW_OK);
		if (i % 2)
			put(&s, i / 2 % 50, i, true, 10);
		lw_packet_rows_disown(s.rows, &key);
		if (i == 30000) /* what the store keeps has its full size by then */
			used_bytes = mallinfo2().uordblks;
	}
	/* ASan's allocator counts nothing there */
	if (used_bytes && mallinfo2().uordblks > used_bytes + (1 << 20))
		fail_msg("%zu bytes more", mallinfo2().uordblks - used_bytes);
	assert_int_equal(ask(&s, "SELECT count(*) FROM flow WHERE process_id = 7"), 25000);
	end(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_place_that_is_given_back_is_another_flow),
		cmocka_unit_test(an_owner_is_told_before_or_after_its_packets_until_it_ends),
		cmocka_unit_test(what_ended_is_not_kept_in_mind),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
