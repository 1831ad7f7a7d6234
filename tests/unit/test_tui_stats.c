/* SPDX-License-Identifier: Apache-2.0 */
/* test_tui_stats.c - figures that only screens show: of a tensor, a batch, a rank; traffic; and the heat map. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <math.h>

#include "base/err.h"
#include "tests/lib/run_fixture.h"
#include "tests/unit/kineto_job.h"
#include "tui/batch_rows.h"
#include "tui/connections.h"
#include "tui/heatmap.h"
#include "tui/rank_stats.h"
#include "tui/tensor_columns.h"
#include "tui/tensor_stats.h"

/* The phases of the fixture are whole ns. */
static void check_ns(double got_ns, int64_t expected_ns)
{
	assert_int_equal(llround(got_ns), expected_ns);
}

static void a_tensor_has_its_ready_time_spread_last_rank_and_phases(void **state)
{
	struct make_run spec = make_run_job(3, 8);
	struct lw_tensor_stats *stats;
	struct lw_run *run;
	const struct lw_tensor_stats *alone;

	(void)state;
	spec.late_ns[2] = 5000000;
	run = run_fixture_analyze(&spec);
	assert_int_equal(lw_tensor_stats_make(run, &stats), LW_OK);
	assert_int_equal(run->tensors.n, 3);
	assert_string_equal(run->tensors.at[2].name, spec.tensors[2].name);
	alone = &stats[2];                 /* the only one of its batch */
	assert_int_equal(alone->n, 3 * 7); /* the first step is warm-up */
	check_ns(alone->ready_ns, spec.tensors[2].ready_ns + 5000000 / 3 + 1);
	check_ns(alone->spread_ns, 5000000);
	assert_int_equal(alone->last_rank, 2);
	assert_true(alone->last_frac == 1 && alone->mates == 0 && stats[0].mates == 1);
	check_ns(alone->late_ns, 5000000);
	check_ns(alone->negotiate_ns, 5000000 + spec.coordination_ns);
	check_ns(alone->wait_ns, spec.tick_ns);
	check_ns(alone->allreduce_ns, spec.wire_ns[1]);
	check_ns(alone->misc_ns, 2 * spec.copy_ns);
	assert_true(alone->exposed_frac > 0 && alone->exposed_frac <= 1);
	free(stats);
	lw_run_free(run);
}

static void nobody_is_last_where_all_come_together(void **state)
{
	struct make_run spec = make_run_job(2, 6);
	struct lw_run *run = run_fixture_analyze(&spec);
	struct lw_tensor_stats *stats;

	(void)state;
	assert_int_equal(lw_tensor_stats_make(run, &stats), LW_OK);
	assert_int_equal(stats[0].last_rank, LW_NONE);
	assert_true(stats[0].last_frac == 0 && stats[0].spread_ns == 0);
	free(stats);
	lw_run_free(run);
}

/* Operations of a trace have no names: those of a kind share a line, whose mean is the size of none. */
static void a_line_of_several_sizes_says_which(void **state)
{
	static const struct kineto_op ops[] = {{"all_to_all", ALLTOALL_NAME, 48, 48, 0, 100},
		{"all_to_all", ALLTOALL_NAME, 6144, 6144, 0, 0}};
	const struct kineto_job job = {2, 4, 2, ops, 2, .is_unsized = false};
	struct lw_analysis *analysis = kineto_job_analyze(&job);
	struct lw_tensor_stats *stats;
	char text[LW_TABLE_TEXT_BYTES];

	(void)state;
	assert_int_equal(lw_tensor_stats_make(analysis->run, &stats), LW_OK);
	assert_int_equal(analysis->run->tensors.n, 1);
	assert_true(stats[0].least_bytes == 192 && stats[0].most_bytes == 24576);
	assert_int_equal(stats[0].last_rank, 1); /* as the timeline's details say */
	assert_true(stats[0].spread_ns == 50000);
	{
		const struct lw_tensor_rows rows = {.run = analysis->run, .stats = stats};

		assert_string_equal(
			lw_tensor_columns[0].text(&rows, 0, text), "alltoall, 192 B to 24 KiB");
	}
	free(stats);
	lw_analysis_close(analysis);
}

static void of_one_rank_nothing_is_said_about_others(void **state)
{
	struct make_run spec = make_run_job(1, 6);
	struct lw_run *run = run_fixture_analyze(&spec);
	struct lw_tensor_stats *stats;
	struct lw_rank_stats *ranks;
	double late_ns[6];

	(void)state;
	assert_int_equal(lw_tensor_stats_make(run, &stats), LW_OK);
	assert_int_equal(stats[0].last_rank, LW_NONE);
	assert_true(isnan(stats[0].spread_ns) && isnan(stats[0].last_frac));
	free(stats);
	assert_int_equal(lw_rank_late_ns(run, late_ns), LW_OK);
	assert_int_equal(lw_rank_stats_make(run, late_ns, &ranks), LW_OK);
	assert_true(isnan(late_ns[3]) && isnan(ranks[0].late_ns) && isnan(ranks[0].last_frac));
	assert_true(isnan(ranks[0].sent_bytes_per_step)); /* no socket was seen */
	free(ranks);
	lw_run_free(run);
}

static void batches_recur_as_patterns_or_are_those_of_a_step(void **state)
{
	struct make_run spec = make_run_job(2, 8);
	struct lw_run *run = run_fixture_analyze(&spec);
	struct lw_batch_row *rows;
	size_t n;

	(void)state;
	assert_int_equal(lw_batch_rows_make(run, LW_NONE, &rows, &n), LW_OK);
	assert_int_equal(n, 2);
	assert_int_equal(rows[0].n, 7);
	assert_true(rows[0].start_ns < rows[1].start_ns);
	check_ns(rows[0].wire_ns, spec.wire_ns[0]);
	check_ns(rows[1].wire_ns, spec.wire_ns[1]);
	assert_true(rows[0].algbw_bytes_per_s == rows[0].busbw_bytes_per_s); /* 2 (N - 1) / N = 1 */
	free(rows);
	assert_int_equal(lw_batch_rows_make(run, 3, &rows, &n), LW_OK);
	assert_int_equal(n, 2);
	assert_int_equal(rows[0].n, 1);
	free(rows);
	lw_run_free(run);
}

static void a_batch_that_a_rank_lacks_has_no_wire_time(void **state)
{
	struct make_run spec = make_run_job(2, 6);
	struct lw_run *run;
	struct lw_batch_row *rows;
	size_t n;

	(void)state;
	spec.has_lost = true;
	spec.lost_rank = 1;
	spec.lost_step = 3;
	run = run_fixture_analyze(&spec);
	assert_int_equal(lw_batch_rows_make(run, 3, &rows, &n), LW_OK);
	assert_int_equal(n, 2);
	assert_true(isnan(rows[0].wire_ns) && isnan(rows[0].busbw_bytes_per_s));
	assert_false(isnan(rows[1].wire_ns));
	free(rows);
	lw_run_free(run);
}

static void a_late_rank_is_late_in_every_step(void **state)
{
	struct make_run spec = make_run_job(3, 6);
	struct lw_run *run;
	struct lw_rank_stats *ranks;
	double late_ns[3 * 6];

	(void)state;
	spec.late_ns[1] = 2000000;
	run = run_fixture_analyze(&spec);
	assert_int_equal(lw_rank_late_ns(run, late_ns), LW_OK);
	check_ns(late_ns[1 * 6 + 4], 2000000);
	check_ns(late_ns[2 * 6 + 4], 0);
	assert_int_equal(lw_rank_stats_make(run, late_ns, &ranks), LW_OK);
	check_ns(ranks[1].late_ns, 2000000);
	assert_true(ranks[1].last_frac == 1 && ranks[0].last_frac == 0);
	free(ranks);
	lw_run_free(run);
}

static void connections_know_their_peers(void **state)
{
	struct make_run spec = make_run_job(2, 6);
	struct lw_connections connections;
	struct lw_run *run;

	(void)state;
	spec.extra_sql =
		"INSERT INTO socket SELECT 1, id, 7, 10, '10.0.0.1', 1000, '10.0.0.2', 2000 FROM process WHERE rank = 0;"
		"INSERT INTO socket SELECT 2, id, 9, 10, '10.0.0.2', 2000, '10.0.0.1', 1000 FROM process WHERE rank = 1;"
		"INSERT INTO socket SELECT 3, id, 8, 10, '10.0.0.1', 1001, '10.0.0.9', 80 FROM process WHERE rank = 0;"
		"INSERT INTO socket_sample SELECT id, 7, 20, 1, 500, 40, 1, 1 FROM process WHERE rank = 0;"
		"INSERT INTO tcp_sample SELECT id, 7, 20, 1, 3000, 499, 40, 1000000, 2, 10 FROM process WHERE rank = 0";
	run = run_fixture_analyze(&spec);
	assert_int_equal(lw_connections_load(run, &connections), LW_OK);
	assert_int_equal(connections.n, 3);
	assert_int_equal(connections.at[0].rank, 0);
	assert_int_equal(connections.at[0].peer_rank, 1);
	assert_string_equal(connections.at[0].peer, "10.0.0.2:2000");
	assert_true(connections.at[0].sent_bytes == 500 && connections.at[0].acked_bytes == 499);
	assert_true(connections.at[0].n_retransmits == 2 && connections.at[0].rtt_ns == 3000);
	assert_true(isnan(connections.at[1].sent_bytes) && isnan(connections.at[1].rtt_ns));
	assert_int_equal(connections.at[1].peer_rank, LW_NONE); /* not of the job */
	assert_int_equal(connections.at[2].peer_rank, 0);
	lw_vec_free(&connections);
	lw_run_free(run);
}

static void rates_are_what_was_sent_between_samples(void **state)
{
	struct lw_traffic samples[] = {{100, 0, 0}, {200, 1000, 0}, {400, 1000, 0}};
	struct lw_rank rank = {.traffic = {samples, 3, 3}};
	struct lw_run run = {.first_ns = 0, .last_ns = 400};
	double rates[4];

	(void)state;
	lw_traffic_rates(&run, &rank, 4, rates);
	assert_true(rates[0] == 0); /* 0 to 100: it had sent nothing by the first sample */
	assert_true(rates[1] == 1000 / 100e-9 && rates[2] == 0 && rates[3] == 0);
	rank.traffic.n = 1;
	lw_traffic_rates(&run, &rank, 4, rates);
	assert_true(isnan(rates[1]));
}

/* ---- the map ------------------------------------------------------------------------------------ */

static const char *plain(double value, char *text)
{
	snprintf(text, 32, "%g", value);
	return text;
}

static void check_line(const struct lw_cells *cells, int y, const char *expected)
{
	char text[4 * 256 + 1];

	assert_string_equal(lw_cells_line(cells, y, text), expected);
}

static void a_map_has_digits_a_scale_and_marks(void **state)
{
	static const double values[] = {900, 0, 5, NAN, 999, 10, 2, 5};
	static const bool is_out[] = {true, false, false, false};
	static const int32_t labels[] = {4, 7};
	struct lw_heatmap map = {2, 4, values, is_out, labels, "rank", "step", 0, 0, 1, 2, 0};
	struct lw_cells cells = {.is_ascii = true};
	size_t row, column;

	(void)state;
	lw_heatmap_scale(&map, false);
	assert_true(map.least == 0 && map.most == 10); /* what is left out is not in it */
	assert_int_equal(lw_cells_resize(&cells, 50, 6), LW_OK);
	lw_heatmap_draw(&map, lw_pane_whole(&cells), "late", plain);
	check_line(&cells, 0, " late  0 0123456789 10  x left out");
	check_line(&cells, 1, " step 0     2");
	check_line(&cells, 2, "      x     v");
	check_line(&cells, 3, "    4 9  0  4  ?");
	check_line(&cells, 4, ">   7 9  9  1  4");
	assert_true(lw_heatmap_at(&map, lw_pane_whole(&cells), 12, 4, &row, &column));
	assert_true(row == 1 && column == 2);
	assert_false(lw_heatmap_at(&map, lw_pane_whole(&cells), 30, 4, &row, &column));
	lw_cells_free(&cells);
}

static void a_map_that_does_not_fit_shows_the_largest_and_scrolls_when_closer(void **state)
{
	enum { N_ROWS = 8, N_COLUMNS = 400 };
	static double values[N_ROWS * N_COLUMNS];
	static bool is_out[N_COLUMNS];
	static int32_t labels[N_ROWS];
	struct lw_heatmap map = {N_ROWS, N_COLUMNS, values, is_out, labels, "rank", "step", 0, 0,
		SIZE_MAX, SIZE_MAX, 0};
	struct lw_cells cells = {.is_ascii = true};

	(void)state;
	values[5 * N_COLUMNS + 399] = 1;
	lw_heatmap_scale(&map, true);
	assert_int_equal(lw_cells_resize(&cells, 46, 7), LW_OK);
	lw_heatmap_draw(&map, lw_pane_whole(&cells), "late", plain);
	check_line(&cells, 0, " late  0 0123456789 1  cell: most of 2 ranks ~");
	check_line(&cells, 5, "    0 0000000000000000000000000000000000000009");
	map.zoom = lw_heatmap_closest(&map, 46, 7);
	assert_int_equal(map.zoom, 3); /* of 10 steps a cell one is left */
	map.row = 5;
	map.column = 398;
	lw_cells_clear(&cells);
	lw_heatmap_draw(&map, lw_pane_whole(&cells), "late", plain);
	check_line(&cells, 2, "                                            v");
	check_line(&cells, 5, ">   0 0000000000000000000000000000000000000009");
	lw_cells_free(&cells);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_tensor_has_its_ready_time_spread_last_rank_and_phases),
		cmocka_unit_test(nobody_is_last_where_all_come_together),
		cmocka_unit_test(a_line_of_several_sizes_says_which),
		cmocka_unit_test(of_one_rank_nothing_is_said_about_others),
		cmocka_unit_test(batches_recur_as_patterns_or_are_those_of_a_step),
		cmocka_unit_test(a_batch_that_a_rank_lacks_has_no_wire_time),
		cmocka_unit_test(a_late_rank_is_late_in_every_step),
		cmocka_unit_test(connections_know_their_peers),
		cmocka_unit_test(rates_are_what_was_sent_between_samples),
		cmocka_unit_test(a_map_has_digits_a_scale_and_marks),
		cmocka_unit_test(a_map_that_does_not_fit_shows_the_largest_and_scrolls_when_closer),
	};

	return cmocka_run_group_tests(tests, run_fixture_make, run_fixture_remove);
}
