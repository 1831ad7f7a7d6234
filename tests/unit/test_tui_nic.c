/* SPDX-License-Identifier: Apache-2.0 */
/* test_tui_nic.c - the bytes of a column are what a walk over all readings finds in it, from the best source there is. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/units.h"
#include "tui/nic_lanes.h"
#include "tui/timeline.h"

enum { MAX_COLUMNS = 200, N_WINDOWS = 60, MS = 1000000 };

static const uint64_t SEED = 0x6e69;

static int64_t below(uint64_t *random, int64_t limit)
{
	*random ^= *random << 13;
	*random ^= *random >> 7;
	*random ^= *random << 17;
	return (int64_t)(*random % (uint64_t)limit);
}

/* ---- curves ------------------------------------------------------------------------------------- */

static double walk(const struct lw_nic_stretches *all, int64_t from_ns, int64_t to_ns, bool is_out)
{
	const struct lw_nic_stretch *s;
	double sum = 0;

	lw_vec_foreach (s, &all->at) {
		int64_t start_ns = s->start_ns > from_ns ? s->start_ns : from_ns;
		int64_t end_ns = s->end_ns < to_ns ? s->end_ns : to_ns;
		double amount = is_out ? s->out : s->in;

		if (s->start_ns == s->end_ns)
			sum += s->start_ns > from_ns && s->start_ns <= to_ns ? amount : 0;
		else if (end_ns > start_ns)
			sum += amount * (double)(end_ns - start_ns) /
			       (double)(s->end_ns - s->start_ns);
	}
	return sum;
}

static struct lw_nic_stretches draw_stretches(uint64_t *random, int kind)
{
	struct lw_nic_stretches all = {0};
	int64_t n = below(random, 300);

	for (int64_t i = 0; i < n; i++) {
		int64_t start_ns = below(random, kind % 2 ? 1000 : 100000);
		struct lw_nic_stretch stretch = {start_ns, start_ns + below(random, 300),
			(double)below(random, 1000000), (double)below(random, 3)};

		if (kind % 3 == 2) { /* bins: of the same times, side by side */
			stretch.start_ns = start_ns / 100 * 100;
			stretch.end_ns = stretch.start_ns + 100;
		}
		assert_int_equal(lw_vec_push(&all.at, stretch), LW_OK);
	}
	return all;
}

static void assert_near(double found, double wanted)
{
	assert_true(fabs(found - wanted) <= 1e-9 * fabs(wanted) + 1e-3);
}

static void compare(const struct lw_nic_curve *curve, const struct lw_nic_stretches *all,
	int64_t from_ns, int64_t column_ns, int n)
{
	double out[MAX_COLUMNS], in[MAX_COLUMNS];

	lw_nic_curve_columns(curve, from_ns, column_ns, n, out, in);
	for (int i = 0; i < n; i++) {
		int64_t start_ns = from_ns + column_ns * i;

		assert_near(out[i], walk(all, start_ns, start_ns + column_ns, true));
		assert_near(in[i], walk(all, start_ns, start_ns + column_ns, false));
	}
}

static void a_column_is_what_a_walk_finds(void **state)
{
	uint64_t random = SEED;

	(void)state;
	print_message("seed %llu\n", (unsigned long long)SEED);
	for (int kind = 0; kind < 60; kind++) {
		struct lw_nic_stretches all = draw_stretches(&random, kind);
		struct lw_nic_curve curve;

		assert_int_equal(lw_nic_curve_make(&all, &curve), LW_OK);
		for (size_t i = 1; i < curve.points.n; i++) {
			assert_true(curve.points.at[i].at_ns >= curve.points.at[i - 1].at_ns);
			assert_true(curve.points.at[i].out >= curve.points.at[i - 1].out);
		}
		for (int i = 0; i < N_WINDOWS; i++)
			compare(&curve, &all, below(&random, 102000) - 1000,
				1 + below(&random, i % 4 ? 100 : 100000),
				1 + (int)below(&random, MAX_COLUMNS));
		lw_vec_free(&curve.points);
		lw_vec_free(&all.at);
	}
}

/* The largest of all windows that begin where the rate changes. */
static void the_most_is_the_largest_rate_over_a_window(void **state)
{
	uint64_t random = SEED;

	(void)state;
	for (int kind = 0; kind < 30; kind++) {
		struct lw_nic_stretches all = draw_stretches(&random, kind);
		int64_t window_ns = 1 + below(&random, 500);
		struct lw_nic_curve curve;
		double most = 0, most_in = 0, wanted_in = 0;

		assert_int_equal(lw_nic_curve_make(&all, &curve), LW_OK);
		for (size_t i = 0; i < all.at.n; i++)
			for (int is_end = 0; is_end < 2; is_end++) {
				int64_t at_ns =
					is_end ? all.at.at[i].end_ns : all.at.at[i].start_ns;
				double out = walk(&all, at_ns, at_ns + window_ns, true);
				double in = walk(&all, at_ns, at_ns + window_ns, false);

				most = out > most ? out : most;
				most = in > most ? in : most;
				wanted_in = in > wanted_in ? in : wanted_in;
			}
		/* what moves at once at a window's start is before it to one of the two, in it to the other */
		assert_true(lw_nic_curve_most(&curve, window_ns, &most_in) >=
			    most / (double)window_ns * 1e9 * (1 - 1e-9));
		assert_true(lw_nic_curve_most(&curve, window_ns, &most_in) <=
			    (most + 1000000 * 3) / (double)window_ns * 1e9);
		if (kind % 3 == 2) /* nothing moves at once */
			assert_true(lw_nic_curve_most(&curve, window_ns, &most_in) <=
				    most / (double)window_ns * 1e9 * (1 + 1e-9));
		assert_true(most_in >= wanted_in / (double)window_ns * 1e9 * (1 - 1e-9));
		assert_true(most_in <= (wanted_in + 1000000 * 3) / (double)window_ns * 1e9);
		lw_vec_free(&curve.points);
		lw_vec_free(&all.at);
	}
}

/* ---- sources ------------------------------------------------------------------------------------ */

/* What was recorded of rank 0 of two: bytes in each direction over a second; 0 = nothing. */
struct recorded {
	const char *name;
	double packets, nic, tcp, rdma;
	enum lw_nic_source source; /* that is wanted */
	bool is_loopback, is_elsewhere /* captured on the other host */, has_other_namespace;
};

#define PUSH(vec, value) assert_int_equal(lw_vec_push(vec, value), LW_OK)
#define LAST(vec)        (&(vec)->at[(vec)->n - 1])

static void add_end(struct lw_run *run, int32_t rank, double bytes, bool is_rdma, int32_t nic)
{
	struct lw_curve_point none = {0}, all = {1000 * MS, (uint64_t)bytes, (uint64_t)bytes, 0};
	struct lw_tcp_reading before = {.at_ns = 0},
			      after = {.at_ns = 100 * MS, .n_retransmits = 5};

	if (bytes <= 0)
		return;
	PUSH(&run->ends,
		((struct lw_tcp_end){
			.rank = rank, .peer_rank = LW_NONE, .is_rdma = is_rdma, .nic = nic}));
	PUSH(&LAST(&run->ends)->curve, none);
	PUSH(&LAST(&run->ends)->curve, all);
	PUSH(&LAST(&run->ends)->tcp, before);
	PUSH(&LAST(&run->ends)->tcp, after);
}

static void add_flow(struct lw_run *run, int32_t from, int32_t to, double bytes, size_t store)
{
	struct lw_packet_bin bin = {20 * MS, (uint64_t)bytes + 66, (uint64_t)bytes, 3, 0, 0};

	if (bytes <= 0)
		return;
	PUSH(&run->flows, ((struct lw_packet_flow){.store = store,
				  .from_rank = from,
				  .to_rank = to,
				  .capture_start_ns = bytes < 500 ? LW_NS_UNKNOWN : 5 * MS,
				  .capture_end_ns = bytes < 500 ? LW_NS_UNKNOWN : 900 * MS,
				  .payload_bytes = (uint64_t)bytes}));
	PUSH(&LAST(&run->flows)->bins, bin);
}

static void add_nic(struct lw_run *run, double bytes, int64_t namespace_key, bool is_loopback)
{
	static char kind[] = "nic", name[] = "eth0", driver[] = "ixgbe",
		    counters[][9] = {"rx_bytes", "tx_bytes"};
	struct lw_nic *nic;

	if (bytes <= 0)
		return;
	PUSH(&run->nics, ((struct lw_nic){.kind = kind,
				 .name = name,
				 .driver = driver,
				 .speed_bytes_per_s = 5000,
				 .namespace_key = namespace_key,
				 .is_loopback = is_loopback}));
	nic = LAST(&run->nics);
	for (int is_out = 0; is_out < 2; is_out++) {
		PUSH(&nic->series, ((struct lw_nic_series){.name = counters[is_out]}));
		for (int64_t ms = 0; ms <= 1000; ms += 100)
			PUSH(&LAST(&nic->series)->readings,
				((struct lw_reading){ms * MS, (int64_t)bytes * ms / 1000}));
	}
}

static void make(struct lw_run *run, const struct recorded *r)
{
	*run = (struct lw_run){0};
	for (int32_t rank = 0; rank < 2; rank++)
		PUSH(&run->ranks,
			((struct lw_rank){.rank = rank, .start_ns = 0, .end_ns = 1000 * MS}));
	add_nic(run, r->nic, 1, r->is_loopback);
	add_nic(run, r->has_other_namespace ? r->nic : 0, 2, false);
	add_end(run, 0, r->tcp, false, r->nic > 0 ? 0 : LW_NONE);
	add_end(run, 0, r->rdma, true, LW_NONE);
	for (size_t store = r->is_elsewhere; store < 2;
		store++) { /* both hosts see the same packets */
		add_flow(run, 0, 1, r->packets, store);
		add_flow(run, 1, 0, r->packets, store);
	}
}

static void drop(struct lw_run *run)
{
	for (size_t i = 0; i < run->ends.n; i++) {
		lw_vec_free(&run->ends.at[i].curve);
		lw_vec_free(&run->ends.at[i].tcp);
	}
	for (size_t i = 0; i < run->flows.n; i++)
		lw_vec_free(&run->flows.at[i].bins);
	for (size_t i = 0; i < run->nics.n; i++) {
		for (size_t k = 0; k < run->nics.at[i].series.n; k++)
			lw_vec_free(&run->nics.at[i].series.at[k].readings);
		lw_vec_free(&run->nics.at[i].series);
	}
	lw_vec_free(&run->ends);
	lw_vec_free(&run->flows);
	lw_vec_free(&run->nics);
	lw_vec_free(&run->ranks);
}

static const struct recorded counters = {
	"counters", 0, 1000, 1000, 0, LW_NIC_COUNTERS, false, false, false};
static const struct recorded cases[] = {
	{"all", 1000, 1000, 1000, 0, LW_NIC_PACKETS, false, false, false},
	{"packets only", 1000, 0, 0, 0, LW_NIC_PACKETS, false, false, false},
	{"packets of a capture that did not end", 400, 0, 0, 0, LW_NIC_PACKETS, false, false,
		false},
	{"a capture that saw a third", 300, 1000, 1000, 0, LW_NIC_COUNTERS, false, false, false},
	{"a capture by the other host", 1000, 0, 1000, 0, LW_NIC_TCP, false, true, false},
	{"counters", 0, 1000, 1000, 0, LW_NIC_COUNTERS, false, false, false},
	{"counters of the host's only NIC", 0, 1000, 0, 0, LW_NIC_COUNTERS, false, false, false},
	{"NICs in two namespaces", 0, 1000, 0, 0, LW_NIC_SOURCES, false, false, true},
	{"a loopback", 0, 1000, 1000, 0, LW_NIC_TCP, true, false, false},
	{"sockets", 0, 0, 1000, 0, LW_NIC_TCP, false, false, false},
	{"RDMA past a netdev", 0, 100, 100, 1000, LW_NIC_RDMA, false, false, false},
	{"RDMA and some TCP", 0, 0, 100, 1000, LW_NIC_RDMA, false, false, false},
	{"RDMA that was captured", 1000, 0, 0, 1000, LW_NIC_PACKETS, false, false, false},
	{"nothing", 0, 0, 0, 0, LW_NIC_SOURCES, false, false, false},
};

/* What the lane says of all of the second, and how closely. */
static void check_sum(const struct lw_nic_lane *lane, const struct recorded *r)
{
	const double wanted[] = {[LW_NIC_PACKETS] = r->packets + 66,
		[LW_NIC_COUNTERS] = r->nic,
		[LW_NIC_TCP] = r->tcp + r->rdma,
		[LW_NIC_RDMA] = r->tcp + r->rdma};
	static const int64_t resolutions_ns[] = {[LW_NIC_PACKETS] = MS,
		[LW_NIC_COUNTERS] = 100 * MS,
		[LW_NIC_TCP] = 1000 * MS,
		[LW_NIC_RDMA] = 1000 * MS};
	double out, in;

	lw_nic_curve_columns(&lane->moved, -1, 1000 * MS + 2, 1, &out, &in);
	assert_near(out, wanted[lane->source]);
	assert_near(in, wanted[lane->source]);
	assert_int_equal(lane->resolution_ns, resolutions_ns[lane->source]);
	assert_int_equal(lane->known_from_ns, lane->source != LW_NIC_PACKETS ? 0
					      : r->packets < 500             ? 20 * MS
									     : 5 * MS);
	assert_int_equal(lane->known_to_ns, lane->source != LW_NIC_PACKETS ? 1000 * MS
					    : r->packets < 500             ? 21 * MS
									   : 900 * MS);
}

static void the_best_source_that_saw_it_is_taken(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct lw_nic_lane *lane;
		struct lw_nic_lanes lanes;
		struct lw_run run;

		print_message("%s\n", cases[i].name);
		make(&run, &cases[i]);
		assert_int_equal(lw_nic_lanes_init(&lanes, &run), LW_OK);
		lane = lw_nic_lane_of(&lanes, 0);
		assert_int_equal(lane != NULL, cases[i].source != LW_NIC_SOURCES);
		if (lane) {
			assert_int_equal(lane->source, cases[i].source);
			check_sum(lane, &cases[i]);
		}
		lw_nic_lanes_done(&lanes);
		drop(&run);
	}
}

/* Segments that were sent again: of a bin in that millisecond, of two readings somewhere between them. */
static void what_was_sent_again_lies_where_it_was_seen(void **state)
{
	static const int first_ms[] = {20, 0}, last_ms[] = {21, 100}, n_again[] = {3, 5};

	(void)state;
	for (int i = 0; i < 2; i++) {
		double out[2], in[2];
		struct lw_nic_lanes lanes;
		struct lw_run run;

		make(&run, i ? &counters : &cases[0]);
		assert_int_equal(lw_nic_lanes_init(&lanes, &run), LW_OK);
		lw_nic_curve_columns(&lw_nic_lane_of(&lanes, 0)->again, first_ms[i] * (int64_t)MS,
			(last_ms[i] - first_ms[i]) * (int64_t)MS, 2, out, in);
		assert_near(out[0], n_again[i]);
		assert_near(out[1], 0);
		assert_near(in[0], 0);
		lw_nic_lanes_done(&lanes);
		drop(&run);
	}
}

static void ranks_behind_one_nic_share_a_lane(void **state)
{
	struct lw_nic_lanes lanes;
	struct lw_run run;

	(void)state;
	make(&run, &counters);
	add_end(&run, 1, 700, false, 0);
	assert_int_equal(lw_nic_lanes_init(&lanes, &run), LW_OK);
	assert_int_equal(lanes.lanes.n, 1);
	assert_ptr_equal(lw_nic_lane_of(&lanes, 0), lw_nic_lane_of(&lanes, 1));
	assert_int_equal(lanes.lanes.at[0].n_ranks, 2);
	assert_int_equal(lanes.lanes.at[0].first_rank, 0);
	lw_nic_lanes_done(&lanes);
	drop(&run);
}

static void full_is_the_capacity_where_something_tells_it(void **state)
{
	struct lw_net_rank rank = {
		.nic = LW_NONE, .capacity_bytes_per_s = 3000, .capacity_from = LW_CAPACITY_PLATEAU};
	enum lw_capacity_from from;
	struct lw_nic_lanes lanes;
	struct lw_run run;
	char veth[] = "veth";

	(void)state;
	make(&run, &counters);
	assert_int_equal(lw_nic_lanes_init(&lanes, &run), LW_OK);
	assert_near(lw_nic_full(&lanes, &run, 0, &from), 5000); /* the driver's */
	assert_int_equal(from, LW_CAPACITY_SPEED);
	run.nics.at[0].driver = veth;
	assert_near(lw_nic_full(&lanes, &run, 0, &from), 1000); /* the most seen */
	assert_int_equal(from, LW_CAPACITY_NONE);
	PUSH(&run.network.ranks, rank);
	assert_near(lw_nic_full(&lanes, &run, 0, &from), 3000);
	assert_int_equal(from, LW_CAPACITY_PLATEAU);
	run.network.ranks.at[0].capacity_bytes_per_s = (double)NAN;
	assert_near(lw_nic_full(&lanes, &run, 0, &from), 1000);
	assert_int_equal(from, LW_CAPACITY_NONE);
	lw_vec_free(&run.network.ranks);
	lw_nic_lanes_done(&lanes);
	drop(&run);
}

/* From 100 to 300 ms of the second packets were dropped. */
static void what_a_capture_dropped_is_a_gap_of_its_lane(void **state)
{
	struct lw_nic_lanes lanes;
	struct lw_run run;
	const struct lw_nic_lane *lane;

	(void)state;
	for (int is_other = 0; is_other < 2; is_other++) {
		make(&run, &cases[0]);
		PUSH(&run.capture_gaps, ((struct lw_capture_gap){.start_ns = 200 * MS,
						.end_ns = 300 * MS,
						.store = (size_t)is_other}));
		PUSH(&run.capture_gaps, ((struct lw_capture_gap){.start_ns = 100 * MS,
						.end_ns = 250 * MS,
						.store = (size_t)is_other}));
		assert_int_equal(lw_nic_lanes_init(&lanes, &run), LW_OK);
		lane = lw_nic_lane_of(&lanes, 0);
		assert_int_equal(lw_nic_gap_ns(lane, 0, 1000 * MS), is_other ? 0 : 200 * MS);
		assert_int_equal(lw_nic_gap_ns(lane, 250 * MS, 400 * MS), is_other ? 0 : 50 * MS);
		assert_int_equal(lw_nic_gap_ns(lane, 300 * MS, 400 * MS), 0);
		assert_int_equal(lw_nic_gap_ns(lane, 0, 100 * MS), 0);
		lw_nic_lanes_done(&lanes);
		lw_vec_free(&run.capture_gaps);
		drop(&run);
	}
}

/* Columns of 50 ms; a capture from 5 to 900 ms, which dropped packets from 100 to 300. */
static void a_gap_is_no_idle_wire(void **state)
{
	struct lw_rank_lanes ranks[2] = {0};
	struct lw_timeline timeline = {.column_ns = 50 * MS, .cursor_ns = 120 * MS};
	char text[LW_TIMELINE_TEXT_BYTES], line[4 * 20 + 1];
	struct lw_cells cells = {.is_ascii = true};
	struct lw_run run;

	(void)state;
	make(&run, &cases[0]);
	PUSH(&run.capture_gaps,
		((struct lw_capture_gap){.start_ns = 100 * MS, .end_ns = 300 * MS}));
	timeline.lanes.run = &run;
	timeline.lanes.ranks = ranks;
	assert_int_equal(lw_nic_lanes_init(&timeline.lanes.nic, &run), LW_OK);
	assert_int_equal(lw_cells_resize(&cells, 20, 1), LW_OK);
	lw_timeline_nic_draw(&timeline, 0, lw_pane_whole(&cells), 1);
	assert_string_equal(lw_cells_line(&cells, 0, line) + 1, " ????            ??");
	assert_true(lw_timeline_nic_say(&timeline, 0, text));
	assert_non_null(strstr(text, "incomplete here: packets were dropped"));
	timeline.cursor_ns = 950 * MS;
	assert_true(lw_timeline_nic_say(&timeline, 0, text));
	assert_non_null(strstr(text, "not looked at here"));
	lw_cells_free(&cells);
	lw_nic_lanes_done(&timeline.lanes.nic);
	lw_vec_free(&run.capture_gaps);
	drop(&run);
}

/* As many as a damaged file may have. */
static void any_number_that_was_sent_again_is_said_whole(void **state)
{
	struct lw_rank_lanes ranks[2] = {0};
	struct lw_timeline timeline = {.column_ns = 200 * MS};
	char text[LW_TIMELINE_TEXT_BYTES];
	struct lw_run run;

	(void)state;
	make(&run, &counters);
	run.ends.at[0].tcp.at[1].n_retransmits = INT64_C(1) << 58;
	timeline.lanes.run = &run;
	timeline.lanes.ranks = ranks;
	assert_int_equal(lw_nic_lanes_init(&timeline.lanes.nic, &run), LW_OK);
	assert_true(lw_timeline_nic_say(&timeline, 0, text));
	assert_non_null(strstr(text, ", ! 288230376151711744 sent again: out "));
	lw_nic_lanes_done(&timeline.lanes.nic);
	drop(&run);
}

/* The most is of a window of a look's length, the cursor's column may be shorter. */
static void nothing_is_more_than_the_most_seen(void **state)
{
	struct lw_rank_lanes ranks[2] = {0};
	struct lw_timeline timeline = {.column_ns = 50 * MS, .cursor_ns = 120 * MS};
	char text[LW_TIMELINE_TEXT_BYTES];
	struct lw_run run;

	(void)state;
	make(&run, &cases[0]);
	timeline.lanes.run = &run;
	timeline.lanes.ranks = ranks;
	assert_int_equal(lw_nic_lanes_init(&timeline.lanes.nic, &run), LW_OK);
	for (int i = 0; i < 20; i++) {
		timeline.cursor_ns = i * 50 * MS;
		timeline.lanes.nic.most_bytes_per_s = 1;
		assert_true(lw_timeline_nic_say(&timeline, 0, text));
		if (strstr(text, "most seen"))
			break;
	}
	assert_non_null(strstr(text, " 100 % of the most seen, "));
	lw_nic_lanes_done(&timeline.lanes.nic);
	drop(&run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_column_is_what_a_walk_finds),
		cmocka_unit_test(the_most_is_the_largest_rate_over_a_window),
		cmocka_unit_test(the_best_source_that_saw_it_is_taken),
		cmocka_unit_test(what_was_sent_again_lies_where_it_was_seen),
		cmocka_unit_test(ranks_behind_one_nic_share_a_lane),
		cmocka_unit_test(full_is_the_capacity_where_something_tells_it),
		cmocka_unit_test(nothing_is_more_than_the_most_seen),
		cmocka_unit_test(what_a_capture_dropped_is_a_gap_of_its_lane),
		cmocka_unit_test(a_gap_is_no_idle_wire),
		cmocka_unit_test(any_number_that_was_sent_again_is_said_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
