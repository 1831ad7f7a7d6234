/* SPDX-License-Identifier: Apache-2.0 */
/* test_tui_timeline.c - what the timeline draws of a column is what a walk over all intervals finds in it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/run_fixture.h"
#include "tui/app.h"
#include "tui/timeline.h"

enum { MAX_COLUMNS = 300, N_WINDOWS = 200 };

static const uint64_t SEED = 0x7461;

static uint64_t draw_random(uint64_t *random)
{
	*random ^= *random << 13;
	*random ^= *random >> 7;
	*random ^= *random << 17;
	return *random;
}

static int64_t below(uint64_t *random, int64_t limit)
{
	return (int64_t)(draw_random(random) % (uint64_t)limit);
}

static int64_t walk(const struct lw_intervals *set, int64_t from_ns, int64_t to_ns)
{
	int64_t sum_ns = 0;

	for (size_t i = 0; i < set->n; i++) {
		int64_t start_ns = set->at[i].start_ns > from_ns ? set->at[i].start_ns : from_ns;
		int64_t end_ns = set->at[i].end_ns < to_ns ? set->at[i].end_ns : to_ns;

		sum_ns += end_ns > start_ns ? end_ns - start_ns : 0;
	}
	return sum_ns;
}

static void compare(const struct lw_track *track, const struct lw_intervals *set, int64_t from_ns,
	int64_t column_ns, int n)
{
	int64_t occupied[MAX_COLUMNS];

	lw_track_columns(track, from_ns, column_ns, n, occupied);
	for (int i = 0; i < n; i++) {
		int64_t start_ns = from_ns + column_ns * i;

		assert_int_equal(occupied[i], walk(set, start_ns, start_ns + column_ns));
	}
}

static void a_column_is_what_a_walk_finds(void **state)
{
	uint64_t random = SEED;

	(void)state;
	print_message("seed %llu\n", (unsigned long long)SEED);
	for (int run = 0; run < 40; run++) {
		struct lw_track track = {0};
		struct lw_intervals set = {0};
		int64_t at_ns = below(&random, 1000), n = below(&random, 400);

		for (int64_t i = 0; i < n; i++) {
			int64_t start_ns = at_ns + below(&random, run % 2 ? 50 : 5000);

			at_ns = start_ns + below(&random, run % 3 ? 90 : 9000);
			assert_int_equal(lw_track_add(&track, start_ns, at_ns), LW_OK);
			assert_int_equal(lw_intervals_add(&set, start_ns, at_ns), LW_OK);
		}
		assert_int_equal(track.total_ns, lw_intervals_length_ns(&set));
		for (int i = 0; i < N_WINDOWS; i++)
			compare(&track, &set, below(&random, at_ns + 2000) - 1000,
				1 + below(&random, i % 4 ? 100 : at_ns + 1),
				1 + (int)below(&random, MAX_COLUMNS));
		lw_vec_free(&track.stretches);
		lw_vec_free(&set);
	}
}

static void stretches_that_touch_or_overlap_count_once(void **state)
{
	struct lw_track track = {0};
	int64_t occupied[3];

	(void)state;
	assert_int_equal(lw_track_add(&track, 10, 20), LW_OK);
	assert_int_equal(lw_track_add(&track, 20, 25), LW_OK);
	assert_int_equal(lw_track_add(&track, 22, 30), LW_OK);
	assert_int_equal(lw_track_add(&track, 12, 28), LW_OK);
	assert_int_equal(track.stretches.n, 1);
	assert_int_equal(track.total_ns, 20);
	lw_track_columns(&track, 0, 15, 3, occupied);
	assert_int_equal(occupied[0], 5);
	assert_int_equal(occupied[1], 15);
	assert_int_equal(occupied[2], 0);
	lw_vec_free(&track.stretches);
}

/* Of one rank and step, what the columns say adds up to what reports say. */
static void check_step(const struct lw_lanes *lanes, size_t r, const struct lw_step *step)
{
	const int64_t wanted_ns[LW_TRACKS] = {[LW_LANE_COMPUTE] = step->compute_ns,
		[LW_LANE_NEGOTIATE] = step->negotiate_ns,
		[LW_LANE_WAIT] = step->wait_ns,
		[LW_LANE_ALLREDUCE] = step->allreduce_ns,
		[LW_LANE_MISC] = step->misc_ns};

	for (size_t k = 0; k < LW_TRACKS; k++) {
		int64_t occupied_ns;

		if (wanted_ns[k] == LW_NS_UNKNOWN)
			continue;
		lw_track_columns(&lanes->ranks[r].tracks.of[k], step->start_ns,
			step->end_ns - step->start_ns, 1, &occupied_ns);
		assert_int_equal(occupied_ns, wanted_ns[k]);
	}
}

/* All of the steps of a rank, as reports collect them, against columns of any size, anywhere. */
static void check_windows(const struct lw_lanes *lanes, size_t r, uint64_t *random)
{
	const struct lw_rank *rank = &lanes->run->ranks.at[r];
	const struct lw_track *track = &lanes->ranks[r].tracks.of[LW_LANE_ALLREDUCE];
	int64_t from_ns = rank->steps.at[0].start_ns;
	int64_t length_ns = rank->steps.at[rank->steps.n - 1].end_ns - from_ns, sum_ns = 0;
	int64_t occupied[MAX_COLUMNS];
	struct lw_intervals all = {0};
	struct lw_phases phases;

	assert_int_equal(lw_phases_init(&phases, lanes->run), LW_OK);
	for (size_t s = 0; s < rank->steps.n; s++) {
		assert_int_equal(lw_phases_collect(&phases, r, s), LW_OK);
		for (size_t i = 0; i < phases.allreduce.n; i++)
			assert_int_equal(lw_intervals_add(&all, phases.allreduce.at[i].start_ns,
						 phases.allreduce.at[i].end_ns),
				LW_OK);
	}
	for (int i = 0; i < N_WINDOWS; i++)
		compare(track, &all, from_ns + below(random, length_ns),
			1 + below(random, length_ns / 20), 20);
	lw_track_columns(track, from_ns, length_ns / 100 + 1, 100, occupied);
	for (int i = 0; i < 100; i++)
		sum_ns += occupied[i];
	assert_int_equal(sum_ns, lw_intervals_length_ns(&all));
	lw_vec_free(&all);
	lw_phases_done(&phases);
}

static void lanes_hold_what_reports_say(void **state)
{
	uint64_t random = SEED;

	(void)state;
	for (int i = 0; i < 6; i++) {
		struct make_run spec = make_run_job(1 + i % 3, 4 + i);
		struct lw_lanes lanes;
		struct lw_run *run;

		spec.n_broadcasts = i % 2 ? 3 : 0;
		spec.no_waits = i == 3;
		spec.no_wire = i == 4;
		for (int r = 0; r < spec.n_ranks; r++)
			spec.late_ns[r] = below(&random, 5000000);
		run = run_fixture_analyze(&spec);
		assert_int_equal(lw_lanes_init(&lanes, run), LW_OK);
		for (size_t r = 0; r < run->ranks.n; r++)
			for (size_t s = 0; s < run->ranks.at[r].steps.n; s++)
				check_step(&lanes, r, &run->ranks.at[r].steps.at[s]);
		if (!spec.n_broadcasts) /* they lie before the first step */
			check_windows(&lanes, 0, &random);
		assert_int_equal(lanes.ranks[0].is_waited,
			spec.no_waits ? LW_BLOCKED_ASSUMED : LW_BLOCKED_KNOWN);
		lw_lanes_done(&lanes);
		lw_run_free(run);
	}
}

/* One tensor waits while another is on the wire: each has its own row. */
static void a_tensor_has_its_own_phases(void **state)
{
	struct make_run spec = make_run_job(2, 4);
	struct lw_run *run = run_fixture_analyze(&spec);
	const struct lw_step *step = &run->ranks.at[1].steps.at[2];
	struct lw_lanes lanes;
	int64_t occupied_ns;

	(void)state;
	assert_int_equal(lw_lanes_init(&lanes, run), LW_OK);
	assert_int_equal(lw_lanes_turn(&lanes, 1), LW_OK);
	assert_int_equal(lanes.tensors.n_order, 3);
	assert_string_equal(run->tensors.at[lanes.tensors.order[0]].name, "allreduce.fc.weight");
	assert_string_equal(run->tensors.at[lanes.tensors.order[2]].name, "allreduce.conv.weight");
	for (size_t i = 0; i < 3; i++) {
		/* fc.bias is ready at 12 ms, fc.weight at 10; the round that takes both begins at 12.5 */
		static const int64_t wait_ns[] = {2500000, 500000, 500000};
		static const int64_t wire_ns[] = {8000000, 8000000, 3000000};
		const struct lw_tracks *tracks = lw_lanes_tensor(&lanes, lanes.tensors.order[i]);

		lw_track_columns(&tracks->of[LW_LANE_WAIT], step->start_ns,
			step->end_ns - step->start_ns, 1, &occupied_ns);
		assert_int_equal(occupied_ns, wait_ns[i]);
		lw_track_columns(&tracks->of[LW_LANE_ALLREDUCE], step->start_ns,
			step->end_ns - step->start_ns, 1, &occupied_ns);
		assert_int_equal(occupied_ns, wire_ns[i]);
	}
	lw_lanes_done(&lanes);
	lw_run_free(run);
}

static void who_was_last_had_its_tensors_last(void **state)
{
	struct make_run spec = make_run_job(3, 4);
	struct lw_timeline_order order;
	struct lw_run *run;

	(void)state;
	spec.late_ns[1] = 5000000;
	spec.late_ns[2] = 2000000;
	run = run_fixture_analyze(&spec);
	order = lw_timeline_order(run, &run->groups.at[run->groups.n - 1]);
	assert_int_equal(order.first, 0);
	assert_int_equal(order.last, 1);
	assert_int_equal(order.late_ns, 5000000);
	assert_false(order.is_entry);
	lw_run_free(run);
}

/* Only the rank's own, of threads, that are open when the operation starts: the innermost first. */
static void an_operation_is_said_to_run_in_ranges_of_its_rank(void **state)
{
	struct make_run spec = make_run_job(2, 4);
	struct lw_timeline timeline = {.group = 0};
	char sql[2048], text[LW_TIMELINE_TEXT_BYTES];
	const struct lw_batch *batch;
	struct lw_run *run = run_fixture_analyze(&spec);
	long long at_ns = (long long)lw_group_batch(run, &run->groups.at[0], 1)->start_ns;

	(void)state;
	lw_run_free(run);
	snprintf(sql, sizeof(sql),
		"INSERT INTO string VALUES(7001, 'inner'), (7002, 'outer'), (7003, 'of rank 0'), (7004, 'NCCL/x');"
		"INSERT INTO range VALUES(3, 9001, %lld, %lld, 3, 7002, 0), (3, 9002, %lld, %lld, 4, 7001, 0),"
		" (3, 9003, %lld, %lld, 4, 7004, 0), (1, 9001, %lld, %lld, 3, 7003, 0),"
		" (3, 9004, %lld, %lld, 3, 7003, 0), (3, 9005, %lld, %lld, 1, NULL, 0);",
		at_ns - 2000, at_ns + 2000, at_ns - 1000, at_ns + 1, at_ns - 10, at_ns + 10,
		at_ns - 10, at_ns + 10, at_ns - 10, at_ns, at_ns, at_ns);
	spec.extra_sql = sql;
	run = run_fixture_analyze(&spec);
	assert_int_equal(lw_lanes_init(&timeline.lanes, run), LW_OK);
	lw_timeline_ranges_begin(&timeline);
	timeline.rank = 1;
	batch = lw_timeline_batch(&timeline, 1);
	assert_non_null(batch);
	for (int i = 0; i < 2; i++) { /* asked, and as it was answered */
		assert_true(lw_timeline_details_line(&timeline, 1, text));
		assert_non_null(strstr(text, "; in the program's range \"inner\", \"outer\""));
		assert_null(strstr(text, "of rank 0"));
		assert_null(strstr(text, "NCCL/"));
	}
	timeline.rank = 0;
	assert_true(lw_timeline_details_line(&timeline, 1, text));
	assert_null(strstr(text, "outer"));
	free(timeline.ranges);
	lw_lanes_done(&timeline.lanes);
	lw_run_free(run);
}

static void ranks_on_other_clocks_begin_their_first_step_together(void **state)
{
	struct make_run spec = make_run_job(3, 4);
	struct lw_run *run = run_fixture_analyze(&spec);
	const int64_t apart_ns = INT64_C(86400) * 1000000000;
	struct lw_lanes lanes;
	struct lw_step *step;
	struct lw_batch *batch;

	(void)state;
	run->ranks.at[2].clock++;
	run->ranks.at[2].start_ns += apart_ns;
	run->ranks.at[2].end_ns += apart_ns;
	lw_vec_foreach (step, &run->ranks.at[2].steps) {
		step->start_ns += apart_ns;
		step->end_ns += apart_ns;
	}
	lw_vec_foreach (batch, &run->ranks.at[2].batches) {
		batch->start_ns += apart_ns;
		batch->end_ns += apart_ns;
	}
	assert_int_equal(lw_lanes_init(&lanes, run), LW_OK);
	assert_false(lanes.is_one_clock);
	assert_int_equal(lanes.ranks[1].origin_ns, lanes.ranks[0].origin_ns);
	assert_int_equal(run->ranks.at[2].steps.at[0].start_ns - lanes.ranks[2].origin_ns,
		run->ranks.at[0].steps.at[0].start_ns - lanes.ranks[0].origin_ns);
	assert_true(lanes.length_ns < apart_ns);
	assert_string_equal(
		lw_timeline_order(run, &run->groups.at[0]).why, "ranks are on different clocks");
	lw_lanes_done(&lanes);
	lw_run_free(run);
}

static void keys_go_from_step_to_step_and_to_what_others_selected(void **state)
{
	struct make_run spec = make_run_job(2, 8);
	struct lw_run *run = run_fixture_analyze(&spec);
	struct lw_analysis analysis = {.run = run};
	struct lw_data data = {.analysis = &analysis, .generation = 1};
	struct lw_app app = {0};
	static const char keys[] = "]][";
	static const int32_t steps[] = {2, 3, 2};

	(void)state;
	assert_int_equal(lw_app_init(&app, &data, "a run"), LW_OK);
	lw_app_show(&app, lw_view_find("timeline"));
	lw_app_draw(&app);
	assert_int_equal(app.focus.step, 1); /* the first that counts */
	for (size_t i = 0; i < 3; i++) {
		lw_app_key(&app, (uint32_t)keys[i], 0, 0);
		lw_app_draw(&app);
		assert_int_equal(app.focus.step, steps[i]);
		assert_int_equal(app.focus.group,
			run->ranks.at[0]
				.batches.at[run->ranks.at[0].steps.at[steps[i]].first_batch]
				.group);
	}
	app.focus.step = 5;
	lw_app_draw(&app);
	assert_int_equal(app.focus.step, 5);
	app.focus.group =
		run->ranks.at[0].batches.at[run->ranks.at[0].steps.at[4].first_batch].group;
	lw_app_draw(&app);
	assert_int_equal(app.focus.step, 4);
	lw_app_key(&app, '.', 0, 0);
	lw_app_draw(&app);
	assert_int_equal(app.focus.group,
		run->ranks.at[0].batches.at[run->ranks.at[0].steps.at[4].first_batch + 1].group);
	lw_app_done(&app);
	lw_run_free(run);
}

/* By a walk over all. *@ret_n: how many are in the column. */
static int32_t longest_in(const struct lw_rank *rank, int64_t from_ns, int64_t to_ns, size_t *ret_n)
{
	int64_t most_ns = -1;
	int32_t best = LW_NONE;

	*ret_n = 0;
	for (size_t i = 0; i < rank->batches.n; i++) {
		const struct lw_batch *batch = &rank->batches.at[i];
		int64_t start_ns = batch->start_ns > from_ns ? batch->start_ns : from_ns;
		int64_t end_ns = batch->end_ns < to_ns ? batch->end_ns : to_ns;

		if (batch->start_ns >= to_ns || batch->end_ns <= from_ns)
			continue;
		++*ret_n;
		if (end_ns - start_ns > most_ns) {
			most_ns = end_ns - start_ns;
			best = batch->group;
		}
	}
	return best;
}

static void check_columns(struct lw_timeline *timeline, const struct lw_rank *rank, uint64_t random)
{
	int64_t origin_ns = timeline->lanes.ranks[0].origin_ns;
	size_t n, n_more = 0;

	for (int i = 0; i < N_WINDOWS; i++) {
		int64_t length_ns = timeline->lanes.length_ns;
		int32_t group;

		timeline->column_ns = 1 + below(&random, i % 2 ? length_ns : length_ns / 100);
		timeline->from_ns = timeline->cursor_ns = below(&random, length_ns);
		group = longest_in(rank, origin_ns + timeline->from_ns,
			origin_ns + timeline->from_ns + timeline->column_ns, &n);
		lw_timeline_select_here(timeline);
		if (group != LW_NONE)
			assert_int_equal(timeline->group, group);
		n_more += timeline->is_more_in_column;
		if (timeline->is_more_in_column)
			assert_true(timeline->n_in_column < n);
		else
			assert_int_equal(timeline->n_in_column, n);
	}
	assert_int_equal(n_more > 0, rank->batches.at[0].end_ns > rank->batches.at[5000].end_ns);
}

/* Also where the column holds thousands, and where one hangs over all of them. */
static void what_takes_most_of_a_column_is_selected(void **state)
{
	struct make_run spec = make_run_job(1, 3000);
	struct lw_run *run = run_fixture_analyze(&spec);
	struct lw_rank *rank = &run->ranks.at[0];
	struct lw_timeline timeline = {0};
	size_t n;

	(void)state;
	assert_true(rank->batches.n > 5000);
	rank->batches.at[9].end_ns = rank->batches.at[10].start_ns; /* the longest one */
	assert_int_equal(lw_lanes_init(&timeline.lanes, run), LW_OK);
	timeline.column_ns = timeline.lanes.length_ns;
	lw_timeline_select_here(&timeline);
	assert_int_equal(timeline.n_in_column, rank->batches.n);
	assert_int_equal(timeline.group,
		longest_in(rank, 0, rank->batches.at[rank->batches.n - 1].end_ns, &n));
	check_columns(&timeline, rank, SEED);
	lw_lanes_done(&timeline.lanes);

	rank->batches.at[0].end_ns = rank->batches.at[rank->batches.n - 1].end_ns;
	timeline = (struct lw_timeline){0};
	assert_int_equal(lw_lanes_init(&timeline.lanes, run), LW_OK);
	check_columns(&timeline, rank, SEED);
	lw_lanes_done(&timeline.lanes);
	lw_run_free(run);
}

static const struct make_run *odd_jobs(size_t *ret_n)
{
	static struct make_run jobs[11];

	for (size_t i = 0; i < sizeof(jobs) / sizeof(jobs[0]); i++)
		jobs[i] = make_run_job(2, 5);
	jobs[0] = make_run_job(1, 4);
	jobs[1] = make_run_job(2, 1); /* no gradient comes twice: no step */
	jobs[2].no_objects = true;
	jobs[3].no_objects = jobs[3].no_waits = true;
	jobs[4].no_wire = jobs[4].no_cycles = true;
	jobs[5].size = 4;
	jobs[6] = make_run_job(9, 3);
	jobs[6].n_broadcasts = 3;
	jobs[7].has_lost = true;
	jobs[7].lost_rank = jobs[7].lost_step = 1;
	jobs[8].framework = LW_FRAMEWORK_TORCH_DDP;
	jobs[8].no_cycles = jobs[8].no_waits = true;
	jobs[9].framework = LW_FRAMEWORK_NONE;
	jobs[9].extra_sql = "DELETE FROM batch; DELETE FROM batch_tensor; DELETE FROM ready;"
			    "DELETE FROM cycle; DELETE FROM wait; DELETE FROM setting";
	jobs[10].extra_sql = "DELETE FROM batch; DELETE FROM batch_tensor; DELETE FROM ready;"
			     "DELETE FROM cycle; DELETE FROM wait; DELETE FROM setting;"
			     "DELETE FROM collective";
	*ret_n = sizeof(jobs) / sizeof(jobs[0]);
	return jobs;
}

/* Any keys, clicks and sizes: what is drawn stays on the screen and memory where it belongs (sanitizers look). */
static void any_keys_at_any_size_do_no_harm(void **state)
{
	static const uint32_t keys[] = {LW_KEY_UP, LW_KEY_DOWN, LW_KEY_LEFT, LW_KEY_RIGHT,
		LW_KEY_PAGE_UP, LW_KEY_PAGE_DOWN, LW_KEY_HOME, LW_KEY_END, LW_KEY_ENTER,
		LW_KEY_CLICK, 's', 't', ']', '[', '+', '+', '_', 'a', 'f', '.', ',', 'n', 'y', 'r'};
	uint64_t random = SEED;
	size_t n_jobs;
	const struct make_run *jobs = odd_jobs(&n_jobs);

	(void)state;
	for (size_t i = 0; i < n_jobs; i++) {
		struct lw_run *run = run_fixture_analyze(&jobs[i]);
		struct lw_analysis analysis = {.run = run};
		struct lw_data data = {.analysis = &analysis, .generation = 1};
		struct lw_app app = {0};

		if (i % 4 == 2) /* as if on another host; nothing is compared then */
			run->ranks.at[run->ranks.n - 1].clock++;
		assert_int_equal(lw_app_init(&app, &data, "a run"), LW_OK);
		lw_app_show(&app, lw_view_find("timeline"));
		lw_app_draw(&app);
		snprintf(app.sought, sizeof(app.sought), "%s", "conv");
		for (int k = 0; k < 600; k++) {
			if (k % 20 == 0)
				assert_int_equal(lw_app_resize(&app, 30 + (int)below(&random, 190),
							 6 + (int)below(&random, 60)),
					LW_OK);
			lw_app_key(&app, keys[below(&random, sizeof(keys) / sizeof(keys[0]))],
				(int)below(&random, 200), 2 + (int)below(&random, 60));
			lw_app_draw(&app);
			data.generation += k % 100 == 99; /* analysed anew */
		}
		lw_app_done(&app);
		lw_run_free(run);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_column_is_what_a_walk_finds),
		cmocka_unit_test(stretches_that_touch_or_overlap_count_once),
		cmocka_unit_test(lanes_hold_what_reports_say),
		cmocka_unit_test(a_tensor_has_its_own_phases),
		cmocka_unit_test(who_was_last_had_its_tensors_last),
		cmocka_unit_test(an_operation_is_said_to_run_in_ranges_of_its_rank),
		cmocka_unit_test(ranks_on_other_clocks_begin_their_first_step_together),
		cmocka_unit_test(keys_go_from_step_to_step_and_to_what_others_selected),
		cmocka_unit_test(what_takes_most_of_a_column_is_selected),
		cmocka_unit_test(any_keys_at_any_size_do_no_harm),
	};

	return cmocka_run_group_tests(tests, run_fixture_make, run_fixture_remove);
}
