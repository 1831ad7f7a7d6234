/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes on the wire by operation: from samples, and from packets where most was captured. */
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
#include "base/units.h"
#include "tests/lib/run_fixture.h"
#include "tests/unit/net_run.h"

static void assert_near(double value, double wanted, double frac)
{
	if (!(fabs(value - wanted) <= frac * fabs(wanted)))
		fail_msg("%.6g instead of %.6g", value, wanted);
}

/* What the ends sent anew: the same, sampled every @every_ns. */
static void sample_every(struct lw_run *run, int64_t every_ns)
{
	struct lw_tcp_end *end;

	lw_vec_foreach (end, &run->ends) {
		uint64_t sent_bytes = end->curve.at[end->curve.n - 1].sent_bytes;

		end->curve.n = 0;
		for (int64_t at_ns = 0; at_ns <= LW_NS_PER_S; at_ns += every_ns) {
			struct lw_curve_point point = {.at_ns = at_ns,
				.sent_bytes = (uint64_t)((double)sent_bytes * (double)at_ns / 1e9)};

			lw_vec_push(&end->curve, point);
		}
	}
	assert_int_equal(lw_run_network(run), LW_OK);
}

/* What is sent after the last step is in no operation, and no part of what the steps sent. */
static void assert_in_ops_are_of_steps(struct lw_run *run)
{
	double in_ops_frac = run->network.ranks.at[0].in_ops_frac;
	struct lw_tcp_end *end;

	lw_vec_foreach (end, &run->ends) {
		struct lw_curve_point last = end->curve.at[end->curve.n - 1];

		last.at_ns += 1000000000;
		assert_int_equal(lw_vec_push(&end->curve, last), 0);
		last.at_ns += 1000000000;
		last.sent_bytes *= 3;
		assert_int_equal(lw_vec_push(&end->curve, last), 0);
	}
	assert_int_equal(lw_run_network(run), LW_OK);
	assert_near(run->network.ranks.at[0].in_ops_frac, in_ops_frac, 1e-9);
}

static void operations_shorter_than_samples_do_not_tell_what_was_sent(void **state)
{
	struct lw_run *run;

	(void)state;
	net_run_begin(2);
	net_run_exchange(0, 1, 60e6);
	run = net_run_analyze(2);
	assert_int_equal(run->network.ops.n, 2);
	for (size_t i = 0; i < 2; i++) {
		const struct lw_net_op *op = &run->network.ops.at[i];
		char text[LW_NET_WORDS_BYTES];

		assert_true(isnan(op->sent_bytes));
		assert_near(op->resolution_ns, 100e6, 1e-9);
		assert_true(op->mean_ns > 0 && op->mean_ns < 100e6);
		assert_non_null(strstr(lw_net_op_text(run, op, text),
			" each, too short to tell what was sent meanwhile (samples, to 100 ms)"));
	}
	assert_true(isnan(run->network.ranks.at[0].in_ops_frac));
	sample_every(run, 100000);
	assert_true(run->network.ranks.at[0].in_ops_frac > 0);
	assert_true(run->network.ops.at[0].sent_bytes > 0);
	assert_near(run->network.ops.at[0].resolution_ns, 100000, 1e-9);
	assert_in_ops_are_of_steps(run);
	lw_run_free(run);
}

static void bytes_are_those_sent_while_the_operation_ran(void **state)
{
	const struct lw_net_op *op;
	struct lw_run *run;

	(void)state;
	net_run_begin(4);
	for (int r = 0; r < 4; r++)
		net_run_add_link(r, (r + 1) % 4, 60e6, 1e3, 50);
	run = net_run_analyze(4);
	sample_every(run, 100000);
	assert_int_equal(run->network.ops.n, 2);
	assert_false(run->network.are_ops_captured);
	lw_vec_foreach (op, &run->network.ops) {
		const struct lw_batch *batch;
		bool is_found = false;

		lw_vec_foreach (batch, &run->ranks.at[0].batches)
			if (batch->bytes == op->bytes && !is_found && batch->step > 1) {
				struct lw_interval wire = lw_batch_wire(batch);

				is_found = true; /* 60 MB in a second, and 1 kB the other way */
				assert_near(op->sent_bytes,
					0.060001 * (double)(wire.end_ns - wire.start_ns), 0.05);
			}
		assert_true(is_found);
		assert_near(op->n, (double)run->network.n_steps, 1e-9);
		assert_near(op->expected_bytes, 1.5 * (double)op->bytes, 1e-9);
	}
	lw_run_free(run);
}

static void packets_tell_bytes_of_an_operation_to_the_millisecond(void **state)
{
	const struct lw_net_op *op;
	struct lw_run *run;
	int n_told = 0;

	(void)state;
	net_run_begin(2);
	net_run_exchange(0, 1, 2.0 * 26 * 700000);
	net_run_add_capture(1, 0, 2000000000);
	for (int r = 0; r < 2; r++) /* all of a second's bytes in the milliseconds of operations */
		net_run_add(
			"INSERT INTO flow VALUES(%d, 1, 'tcp', '10.0.0.%d', %d, '10.0.0.%d', %d, NULL, %d, 1, NULL, 0, 0, 1448, 0, 0);"
			"INSERT INTO packet_bin SELECT %d, w / 1000000 * 1000000, 1, 1, 1, 1, 700000, 0, 0, 0, 0, 0, 0, 0, w, w FROM"
			" (SELECT DISTINCT c.start_ns + 1500000 AS w FROM collective c JOIN thread t ON t.id = c.thread_id WHERE t.process_id = %d);"
			/* a second's sum is of no operation */
			"INSERT INTO packet_bin SELECT %d, max(w), 1, 1, 1, 1, 50000000, 0, 0, 0, 0, 0, 0, 0, w, w + 900000000 FROM"
			" (SELECT c.start_ns AS w FROM collective c JOIN thread t ON t.id = c.thread_id WHERE t.process_id = %d);",
			r + 1, r + 1, r ? 5000 : 40001, 2 - r, r ? 40001 : 5000, r + 1, r + 1,
			r + 1, r + 1, r + 1);
	run = net_run_analyze(2);
	assert_true(run->network.are_ops_captured);
	lw_vec_foreach (op, &run->network.ops) {
		if (op->mean_ns < 5e6)
			assert_true(isnan(op->sent_bytes));
		else
			assert_near(op->sent_bytes, 700000, 0.01);
		n_told += !isnan(op->sent_bytes);
	}
	assert_int_equal(n_told, 1);
	lw_run_free(run);
}

/* Two connections each way, of which a capture (of another device) saw one: samples tell of all. */
static void of_a_link_that_was_captured_in_part_samples_tell(void **state)
{
	const struct lw_net_op *op;
	struct lw_run *run;

	(void)state;
	net_run_begin(2);
	net_run_exchange(0, 1, 60e6);
	net_run_add_capture(1, 0, 2000000000);
	net_run_add(
		"INSERT INTO flow VALUES(1, 1, 'tcp', '10.0.0.1', 40001, '10.0.0.2', 5000, NULL, 1, 1, NULL, 0, 0, 1448, 0, 0);"
		"WITH RECURSIVE ms(at) AS (SELECT 1 UNION ALL SELECT at + 1 FROM ms WHERE at < 900)"
		" INSERT INTO packet_bin SELECT 1, at * 1000000, 1, 1, 1, 1, 20000, 0, 0, 0, 0, 0, 0, 0, at * 1000000, at * 1000000 FROM ms;");
	run = net_run_analyze(2);
	assert_false(run->network.links.at[0].is_captured[false]);
	assert_false(run->network.are_ops_captured);
	sample_every(run, 100000); /* 60 MB a second, not 20 */
	lw_vec_foreach (op, &run->network.ops)
		assert_near(op->sent_bytes, 0.06 * op->mean_ns, 0.05);
	lw_run_free(run);
}

/* Each operation of a size of its own: those of most bytes have a row, the others one that says so. */
static void sizes_beyond_those_that_are_listed_have_a_row_without_size(void **state)
{
	const struct lw_net_op *op;
	uint32_t n = 0, n_others = 0;
	char text[LW_NET_WORDS_BYTES];
	struct lw_run *run;

	(void)state;
	net_run_begin(2);
	net_run_exchange(0, 1, 60e6);
	run = net_run_analyze(2);
	for (size_t r = 0; r < 2; r++) { /* each operation cut in three */
		struct lw_rank *rank = &run->ranks.at[r];

		for (size_t i = 0, n_batches = rank->batches.n; i < n_batches; i++)
			for (int part = 0; part < 3; part++) {
				struct lw_batch one = rank->batches.at[i];
				int64_t third_ns =
					(one.wire_end_ns - one.wire_start_ns) / (3 - part);

				one.bytes = 1000000 + 3 * i + (size_t)part;
				one.wire_end_ns = one.wire_start_ns + third_ns;
				rank->batches.at[i].wire_start_ns += third_ns;
				lw_vec_push(&rank->batches, one);
			}
		memmove(rank->batches.at, rank->batches.at + rank->batches.n / 4,
			rank->batches.n / 4 * 3 * sizeof(*rank->batches.at));
		rank->batches.n = rank->batches.n / 4 * 3;
	}
	sample_every(run, 10000);
	assert_int_equal(run->network.ops.n, LW_NET_OPS_MAX + 1);
	lw_vec_foreach (op, &run->network.ops) {
		n += op->n;
		n_others += op->bytes ? 0 : op->n;
		assert_true(op->bytes ? op->n == 1 : isnan(op->expected_bytes));
		assert_near(op->sent_bytes, 0.06 * op->mean_ns, 0.05);
	}
	assert_int_equal(n, 6 * run->network.n_steps);
	assert_int_equal(n_others, n - LW_NET_OPS_MAX);
	assert_non_null(strstr(lw_net_op_text(run, &run->network.ops.at[LW_NET_OPS_MAX], text),
		"of other sizes; each rank sent "));
	lw_run_free(run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(operations_shorter_than_samples_do_not_tell_what_was_sent),
		cmocka_unit_test(bytes_are_those_sent_while_the_operation_ran),
		cmocka_unit_test(packets_tell_bytes_of_an_operation_to_the_millisecond),
		cmocka_unit_test(of_a_link_that_was_captured_in_part_samples_tell),
		cmocka_unit_test(sizes_beyond_those_that_are_listed_have_a_row_without_size),
	};

	return cmocka_run_group_tests(tests, run_fixture_make, run_fixture_remove);
}
