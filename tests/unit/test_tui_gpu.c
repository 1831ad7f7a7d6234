/* SPDX-License-Identifier: Apache-2.0 */
/* The timeline's lanes of GPUs: columns are what a walk finds, and keys go through all that ran, each once. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/make_gpu.h"
#include "tests/lib/run_fixture.h"
#include "tests/unit/gpu_run.h"
#include "tui/tensor_stats.h"
#include "tui/tensor_text.h"
#include "tui/timeline.h"

enum { COLUMNS = 200 };

struct fixture {
	struct lw_run *run;
	struct lw_timeline timeline;
};

static void begin(struct fixture *f, const char *more)
{
	static char sql[MAKE_GPU_SQL_BYTES];
	struct make_run spec = make_run_job(2, 8);
	struct make_gpu gpu = make_gpu_job();

	spec.transport = LW_TRANSPORT_NCCL;
	spec.extra_sql = make_gpu_sql(&gpu, more, sql);
	f->run = run_fixture_analyze(&spec);
	assert_int_equal(lw_run_gpu(f->run), LW_OK);
	f->timeline = (struct lw_timeline){.group = LW_NONE, .gpu_lines = 3, .is_on_gpu = true};
	assert_int_equal(lw_lanes_init(&f->timeline.lanes, f->run), LW_OK);
	f->timeline.column_ns = f->timeline.lanes.length_ns / COLUMNS + 1;
}

static void end(struct fixture *f)
{
	lw_lanes_done(&f->timeline.lanes);
	lw_run_free(f->run);
}

static int64_t walk(
	const struct lw_rank *rank, int gpu_class, int64_t stream, int64_t from_ns, int64_t to_ns)
{
	int64_t sum_ns = 0, busy_ns = INT64_MIN;
	const struct lw_kernel *kernel;

	lw_vec_foreach (kernel, &rank->gpu.kernels) {
		int64_t start_ns = kernel->start_ns > busy_ns ? kernel->start_ns : busy_ns;

		if (kernel->gpu_class != gpu_class || (stream >= 0 && kernel->stream != stream))
			continue;
		busy_ns = kernel->end_ns > busy_ns ? kernel->end_ns : busy_ns;
		start_ns = start_ns > from_ns ? start_ns : from_ns;
		sum_ns += (kernel->end_ns < to_ns ? kernel->end_ns : to_ns) > start_ns
				  ? (kernel->end_ns < to_ns ? kernel->end_ns : to_ns) - start_ns
				  : 0;
	}
	return sum_ns;
}

static void a_column_is_what_a_walk_finds(void **state)
{
	int64_t occupied[COLUMNS], by_stream[COLUMNS];
	struct fixture f;

	(void)state;
	/* a second kernel that computes at the same time, on a stream of its own */
	begin(&f,
		"INSERT INTO kernel SELECT thread_id, seq + 1, start_ns + 1000000, end_ns + 70000, 5003, 0, 1, 8, 0, NULL, 0"
		" FROM kernel WHERE stream = 7 AND end_ns - start_ns > 2000000;");
	for (int gpu_class = 0; gpu_class < 2; gpu_class++) {
		const struct lw_rank *rank = &f.run->ranks.at[1];
		const struct lw_gpu_rank_lanes *lanes = &f.timeline.lanes.gpu.ranks[1];
		int64_t from_ns = f.timeline.lanes.ranks[1].origin_ns;

		lw_track_columns(&lanes->all.of[gpu_class], from_ns, f.timeline.column_ns, COLUMNS,
			occupied);
		assert_int_equal(lanes->n_streams, rank->gpu.streams.n);
		for (int x = 0; x < COLUMNS; x++, from_ns += f.timeline.column_ns)
			assert_int_equal(occupied[x],
				walk(rank, gpu_class, -1, from_ns, from_ns + f.timeline.column_ns));
		for (size_t s = 0; s < lanes->n_streams; s++) {
			from_ns = f.timeline.lanes.ranks[1].origin_ns;
			lw_track_columns(&lanes->streams[s].of[gpu_class], from_ns,
				f.timeline.column_ns, COLUMNS, by_stream);
			for (int x = 0; x < COLUMNS; x++, from_ns += f.timeline.column_ns)
				assert_int_equal(
					by_stream[x], walk(rank, gpu_class, (int64_t)s, from_ns,
							      from_ns + f.timeline.column_ns));
		}
	}
	end(&f);
}

/* Some profilers write copies as kernels, among those that are copies. */
static void kernels_that_copy_and_copies_are_one_lane(void **state)
{
	struct fixture f;
	int64_t occupied;

	(void)state;
	begin(&f,
		"INSERT INTO string VALUES(5200, 'Memcpy DtoD (Device -> Device)');"
		"INSERT INTO kernel SELECT thread_id, seq + 1, start_ns + 10000, end_ns + 20000, 5200, 0, 1, 7, 0, NULL, 0 FROM copy;"
		"INSERT INTO kernel SELECT thread_id, seq + 2, end_ns + 30000, end_ns + 40000, 5200, 0, 1, 7, 0, NULL, 0 FROM copy;");
	assert_int_equal(f.run->ranks.at[0].gpu.kernels.n, 8 * (3 + 2 + 2));
	lw_track_columns(&f.timeline.lanes.gpu.ranks[0].all.of[LW_GPU_COPY],
		f.timeline.lanes.ranks[0].origin_ns, f.timeline.lanes.length_ns, 1, &occupied);
	assert_int_equal(occupied, 8 * (70000 + 10000));
	end(&f);
}

static void computing_is_when_kernels_compute(void **state)
{
	struct fixture f;

	(void)state;
	/* also before the first step, by 1 ms */
	begin(&f,
		"INSERT INTO kernel SELECT DISTINCT thread_id, 1, 400000000, 401000000, 5003, 0, 1, 7, 0, NULL, 0 FROM ready;");
	for (size_t r = 0; r < 2; r++) {
		assert_int_equal(f.timeline.lanes.ranks[r].tracks.of[LW_LANE_COMPUTE].total_ns,
			f.timeline.lanes.gpu.ranks[r].all.of[LW_GPU_COMPUTE].total_ns);
		assert_int_equal(f.timeline.lanes.gpu.ranks[r].all.of[LW_GPU_COMPUTE].total_ns,
			8 * 29700000 + 1000000);
	}
	assert_true(lw_timeline_gpu_has_compute(&f.timeline));
	assert_int_equal(lw_timeline_gpu_n_lines(&f.timeline, LW_TIMELINE_ALL), 3);
	assert_int_equal(lw_timeline_gpu_n_lines(&f.timeline, LW_TIMELINE_TWO), 2);
	assert_int_equal(lw_timeline_gpu_n_lines(&f.timeline, LW_TIMELINE_ONE), 0);
	f.timeline.gpu = LW_TIMELINE_GPU_STREAMS;
	assert_int_equal(lw_timeline_gpu_n_lines(&f.timeline, LW_TIMELINE_ALL), 2);
	f.timeline.gpu = LW_TIMELINE_GPU_HIDDEN;
	assert_int_equal(lw_timeline_gpu_n_lines(&f.timeline, LW_TIMELINE_ALL), 0);
	end(&f);
}

static void a_rank_without_kernels_shows_its_thread_under_its_own_name(void **state)
{
	char text[LW_UNIT_TEXT_BYTES];
	struct fixture f;

	(void)state;
	begin(&f, "DELETE FROM kernel WHERE thread_id > 2; DELETE FROM copy WHERE thread_id > 2;");
	assert_string_equal(lw_timeline_gpu_label(&f.timeline, 0, 0, text), "GPU comp");
	assert_string_equal(lw_timeline_gpu_label(&f.timeline, 1, 0, text), "compute");
	/* from resuming to the wait for its gradients; the first step begins a little later */
	assert_true(f.timeline.lanes.ranks[1].tracks.of[LW_LANE_COMPUTE].total_ns > 7 * 30050000);
	f.timeline.rank = 1;
	assert_false(lw_timeline_gpu_next(&f.timeline, 1, COLUMNS));
	end(&f);
}

static void a_tensor_is_exposed_while_no_kernel_computes(void **state)
{
	struct lw_tensor_stats *stats;
	struct fixture f;

	(void)state;
	begin(&f, NULL);
	assert_int_equal(lw_tensor_stats_make(f.run, &stats), LW_OK);
	/* queued at 10 and at 30 ms, done at 20.9 and at 33.9; kernels compute [10.1, 12) [12.1, 30) */
	assert_true(fabs(stats[0].exposed_frac - 0.2 / 10.9) < 1e-9);
	assert_true(fabs(stats[2].exposed_frac - 1) < 1e-9);
	free(stats);
	end(&f);
}

/* From the start by @by until there is no more. Return: how many. */
static size_t go_through(struct lw_timeline *timeline, int by, bool *is_seen)
{
	const struct lw_gpu_rank *gpu = &timeline->lanes.run->ranks.at[timeline->rank].gpu;
	size_t n = 0;

	while (lw_timeline_gpu_next(timeline, by, COLUMNS)) {
		size_t at = timeline->item.index + (timeline->item.is_copy ? gpu->kernels.n : 0);

		assert_false(is_seen[at]);
		is_seen[at] = true;
		assert_true(++n <= gpu->kernels.n + gpu->copies.n);
	}
	return n;
}

static void next_goes_through_a_lane_and_through_all(void **state)
{
	struct fixture f;
	const struct lw_gpu_rank *gpu;
	bool is_seen[512];

	(void)state;
	/* copies that begin with kernels, at once */
	begin(&f, "UPDATE copy SET start_ns = start_ns + 50000, end_ns = end_ns + 50000;");
	gpu = &f.run->ranks.at[0].gpu;
	assert_true(gpu->kernels.n + gpu->copies.n < 512);
	for (int by = 1; by >= -1; by -= 2)
		for (size_t line = 0; line < 4; line++) {
			static const size_t wanted[] = {8 * 3, 8 * 2, 8, 8 * 6};

			memset(is_seen, 0, sizeof(is_seen));
			f.timeline.item.is_there = false;
			f.timeline.gpu_line = line; /* 3: none, so any */
			f.timeline.cursor_ns = by > 0 ? 0 : f.timeline.lanes.length_ns;
			assert_int_equal(go_through(&f.timeline, by, is_seen), wanted[line]);
		}
	f.timeline.gpu = LW_TIMELINE_GPU_STREAMS;
	f.timeline.gpu_lines = 2;
	for (size_t line = 0; line < 2; line++) {
		memset(is_seen, 0, sizeof(is_seen));
		f.timeline.item.is_there = false;
		f.timeline.gpu_line = line;
		f.timeline.cursor_ns = 0;
		assert_int_equal(go_through(&f.timeline, 1, is_seen), line ? 8 * 2 : 8 * 4);
	}
	end(&f);
}

static void find_goes_on_after_the_last_one_from_the_first(void **state)
{
	struct fixture f;
	int64_t first_ns = 0;

	(void)state;
	begin(&f, NULL);
	f.timeline.gpu_line = 1; /* whichever is selected */
	for (int i = 0; i < 8 + 1; i++) {
		assert_non_null(lw_timeline_gpu_find(&f.timeline, "SM90_xmma", 1, COLUMNS));
		if (i == 0)
			first_ns = f.timeline.cursor_ns;
		assert_int_equal(f.timeline.cursor_ns == first_ns, i == 0 || i == 8);
	}
	/* as it is read, not as it is mangled */
	assert_non_null(lw_timeline_gpu_find(&f.timeline, "FillFunctor<float>", 1, COLUMNS));
	assert_non_null(lw_timeline_gpu_find(&f.timeline, "host to device", -1, COLUMNS));
	assert_true(f.timeline.item.is_copy);
	assert_int_equal(f.timeline.gpu_line, 2);
	assert_null(lw_timeline_gpu_find(&f.timeline, "no such kernel", 1, COLUMNS));
	end(&f);
}

/* Times in words and on the ruler are the same, on one clock and on several. */
static void the_ruler_begins_where_words_count_from(void **state)
{
	struct lw_run *run = gpu_run_two_ranks();
	struct lw_lanes lanes;
	struct fixture f;

	(void)state;
	begin(&f, NULL);
	for (size_t r = 0; r < 2; r++)
		assert_int_equal(lw_run_since_ns(f.run, &f.run->ranks.at[r],
					 f.timeline.lanes.ranks[r].origin_ns),
			0);
	end(&f);
	assert_false(lw_run_is_one_clock(run));
	assert_int_equal(lw_lanes_init(&lanes, run), LW_OK);
	for (size_t r = 0; r < run->ranks.n; r++)
		assert_int_equal(
			lw_run_since_ns(run, &run->ranks.at[r], lanes.ranks[r].origin_ns), 0);
	lw_lanes_done(&lanes);
	lw_run_free(run);
}

static void what_is_said_of_a_kernel(void **state)
{
	char text[LW_TIMELINE_TEXT_BYTES];
	struct fixture f;
	size_t n = 0;

	(void)state;
	begin(&f, NULL);
	f.timeline.gpu_line = 1;
	for (int i = 0; i < 3; i++)
		assert_true(lw_timeline_gpu_next(&f.timeline, 1, COLUMNS));
	assert_true(lw_timeline_gpu_line(&f.timeline, 1, text));
	assert_non_null(strstr(text,
		"rank 0, GPU 0, stream 20: starts at 547.100 ms (12.8 ms into step 1), takes 8.00 ms"));
	assert_true(lw_timeline_gpu_line(&f.timeline, 2, text));
	assert_string_equal(text, "hidden behind computing for 8.00 ms of that, exposed for 0 ns");
	assert_true(lw_timeline_gpu_line(&f.timeline, 3, text));
	assert_non_null(strstr(text,
		"launched by cudaLaunchKernel, thread 200, at 547.080 ms, 20.0 us before it began"));
	assert_true(lw_timeline_gpu_line(&f.timeline, 4, text));
	assert_non_null(strstr(text,
		"NCCL allreduce, 3.82 MiB, RING LL, 8 channels; told by the profiler plugin"));
	f.timeline.item.is_there = false;
	assert_true(lw_timeline_gpu_line(&f.timeline, 0, text));
	assert_false(lw_timeline_gpu_line(&f.timeline, 1, text));
	f.timeline.gpu_line = 0;
	assert_true(lw_timeline_gpu_next(&f.timeline, 1, COLUMNS));
	while (lw_timeline_gpu_line(&f.timeline, n, text))
		assert_true(++n < 9 && *text);
	end(&f);
}

static void details_say_what_proxies_moved(void **state)
{
	char text[LW_TIMELINE_TEXT_BYTES];
	struct fixture f;
	size_t n = 0;

	(void)state;
	begin(&f,
		"INSERT INTO comm(process_id, key, parent_key, size, rank, serial, how, transport, at_ns)"
		" SELECT DISTINCT t.process_id, o.comm_key, NULL, 2, t.process_id - 1, 0, 1, 3, 0 FROM nccl_op o JOIN thread t ON t.id = o.thread_id;"
		"INSERT INTO nccl_proxy SELECT thread_id, 1000000 + seq, start_ns, end_ns, 1, serial, 65536, 1, 0, 1, 5000, 2000, 20000 FROM nccl_op WHERE thread_id = 2;"
		"INSERT INTO nccl_proxy SELECT thread_id, 2000000 + seq, start_ns, end_ns, 2, serial, 65536, 1, 0, 1, 4000, 25000, 0 FROM nccl_op WHERE thread_id = 2;");
	f.timeline.gpu_line = 1;
	assert_true(lw_timeline_gpu_next(&f.timeline, 1, COLUMNS));
	assert_true(lw_timeline_gpu_line(&f.timeline, 5, text));
	assert_string_equal(text,
		"sent 64 KiB to rank 1 on 1 channel, 1 message; of one: GPU not ready 5.00 us, receiver not ready 2.00 us, on the network 20.0 us");
	assert_true(lw_timeline_gpu_line(&f.timeline, 6, text));
	assert_string_equal(text,
		"received 64 KiB from rank 1 on 1 channel, 1 message; of one: asked for and not there 25.0 us, GPU had not taken it 4.00 us");
	assert_true(lw_timeline_gpu_line(&f.timeline, 7, text));
	assert_non_null(strstr(text, "ncclDevKernel"));
	assert_false(lw_timeline_gpu_line(&f.timeline, 8, text));
	f.timeline.gpu_line = 0; /* computing */
	f.timeline.item.is_there = false;
	assert_true(lw_timeline_gpu_next(&f.timeline, 1, COLUMNS));
	while (lw_timeline_gpu_line(&f.timeline, n, text))
		assert_null(strstr(text, "message")), n++;
	assert_true(n >= 5);
	end(&f);
}

/* Where no kernel was recorded: operations of NCCL are the collectives. */
static void details_of_a_collective_say_it_too(void **state)
{
	static char sql[MAKE_GPU_SQL_BYTES];
	char text[LW_TIMELINE_TEXT_BYTES];
	struct make_run spec = make_run_job(2, 8);
	struct make_gpu gpu = make_gpu_job();
	struct lw_timeline timeline = {.group = 0};
	struct lw_run *run;
	size_t n_sent = 0, n_received = 0;

	(void)state;
	spec.transport = LW_TRANSPORT_NCCL;
	spec.extra_sql = make_gpu_sql(&gpu,
		"DELETE FROM kernel; DELETE FROM launch; DELETE FROM gpu_sync; DELETE FROM copy; DELETE FROM batch; DELETE FROM batch_tensor;"
		"DELETE FROM ready; DELETE FROM wait; DELETE FROM cycle; DELETE FROM collective; UPDATE process SET framework = 0;"
		"INSERT INTO nccl_proxy SELECT thread_id, 1000000 + seq, start_ns, end_ns, 1, serial, 65536, 1, 0, 1, 5000, 2000, 20000 FROM nccl_op WHERE thread_id = 2;"
		"INSERT INTO nccl_proxy SELECT thread_id, 2000000 + seq, start_ns, end_ns, 2, serial, 65536, 1, 0, 1, 4000, 25000, 0 FROM nccl_op WHERE thread_id IN (2, 4);",
		sql);
	run = run_fixture_analyze(&spec);
	assert_int_equal(lw_lanes_init(&timeline.lanes, run), LW_OK);
	for (size_t n = 0; lw_timeline_details_line(&timeline, n, text); n++) {
		n_sent += !strcmp(text,
			"sent 64 KiB to 1 of its communicator on 1 channel, 1 message; of one: GPU not ready 5.00 us, receiver not ready 2.00 us, on the network 20.0 us");
		n_received += strstr(text, "received 64 KiB from 1 of its") != NULL;
	}
	assert_int_equal(n_sent, 1);
	assert_int_equal(n_received, 1);
	timeline.rank = 1; /* which sent nothing */
	for (size_t n = 0; lw_timeline_details_line(&timeline, n, text); n++) {
		assert_null(strstr(text, "sent "));
		n_received += strstr(text, "received 64 KiB from 1 of its") != NULL;
	}
	assert_int_equal(n_received, 2);
	lw_lanes_done(&timeline.lanes);
	lw_run_free(run);
}

static void csv_has_a_line_for_each_that_is_shown(void **state)
{
	static char csv[1 << 16];
	struct fixture f;
	size_t n = 0, n_commas = 0;
	FILE *out = fmemopen(csv, sizeof(csv), "w");

	(void)state;
	begin(&f, "UPDATE string SET text = 'a \"quoted\", name' WHERE id = 5003;");
	assert_int_equal(
		lw_timeline_gpu_write(&f.timeline, 0, f.timeline.lanes.length_ns, out), LW_OK);
	fclose(out);
	for (const char *at = csv; *at && *at != '\n'; at++)
		n_commas += *at == ',';
	for (const char *line = csv; *line; line += strcspn(line, "\n") + 1) {
		size_t commas = 0;
		bool is_quoted = false;

		n++;
		for (const char *at = line; *at && *at != '\n'; at++) {
			is_quoted ^= *at == '"';
			commas += *at == ',' && !is_quoted;
		}
		assert_int_equal(commas, n_commas);
	}
	assert_int_equal(n, 1 + 2 * 8 * (3 + 2 + 1));
	assert_non_null(strstr(csv, ",\"a \"\"quoted\"\", name\","));
	end(&f);
}

/* Of two profilers' traces: in the second step rank 1 is in the allreduce for 200 us, rank 0 for 300. */
static void across_clocks_the_shortest_kernel_came_last(void **state)
{
	struct lw_run *run = gpu_run_two_ranks();
	struct lw_timeline_order order = lw_timeline_order(run, &run->groups.at[1]);

	(void)state;
	assert_false(lw_run_is_one_clock(run));
	assert_null(order.why);
	assert_true(order.is_entry);
	assert_int_equal(order.first, 0);
	assert_int_equal(order.last, 1);
	assert_int_equal(order.late_ns, 100000);
	run->groups.at[1].op =
		LW_COLL_BROADCAST; /* its root may leave before the others are there */
	order = lw_timeline_order(run, &run->groups.at[1]);
	assert_non_null(order.why);
	assert_int_equal(order.last, LW_NONE);
	lw_run_free(run);
}

/* Rank 1 by itself is a group of fewer ranks than the run has, and complete. */
static void across_clocks_a_group_of_fewer_ranks_has_a_rate(void **state)
{
	struct lw_run *run = gpu_run_two_ranks();
	struct lw_timeline timeline = {.group = 1, .rank = 1};
	struct lw_group *group = &run->groups.at[1];
	char text[LW_TIMELINE_TEXT_BYTES];
	bool is_said = false;

	(void)state;
	group->n_ranks = group->n_wanted = 1;
	group->batch_of_rank[0] = LW_NONE;
	assert_int_equal(lw_lanes_init(&timeline.lanes, run), LW_OK);
	for (size_t n = 0; lw_timeline_details_line(&timeline, n, text); n++) {
		assert_null(strstr(text, "algbw ?"));
		is_said |= strstr(text, "the shortest rank's time") != NULL;
	}
	assert_true(is_said);
	lw_lanes_done(&timeline.lanes);
	lw_run_free(run);
}

static void across_clocks_tensors_tell_who_entered_last(void **state)
{
	struct lw_run *run = gpu_run_two_ranks();
	const struct lw_batch *batch = lw_group_batch(run, &run->groups.at[1], 1);
	struct lw_tensor_stats *stats;
	uint32_t tensor = run->ranks.at[1].members.at[batch->first_member].tensor;
	char *text = NULL;
	size_t n = 0;
	FILE *out;

	(void)state;
	gpu_run_count_all(run);
	assert_int_equal(lw_tensor_stats_make(run, &stats), LW_OK);
	assert_true(stats[tensor].is_entry);
	assert_int_equal(stats[tensor].last_rank, 1);
	/* one or both steps count: in the first both ranks are in it for as long */
	assert_true(stats[tensor].spread_ns * (double)stats[tensor].n / 2 == 100000);
	out = open_memstream(&text, &n);
	assert_non_null(out);
	lw_tensor_print(run, tensor, &stats[tensor], NULL, out);
	assert_int_equal(fclose(out), 0);
	assert_non_null(strstr(text, "the last rank entered it"));
	free(text);
	free(stats);
	lw_run_free(run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_column_is_what_a_walk_finds),
		cmocka_unit_test(kernels_that_copy_and_copies_are_one_lane),
		cmocka_unit_test(computing_is_when_kernels_compute),
		cmocka_unit_test(a_rank_without_kernels_shows_its_thread_under_its_own_name),
		cmocka_unit_test(a_tensor_is_exposed_while_no_kernel_computes),
		cmocka_unit_test(next_goes_through_a_lane_and_through_all),
		cmocka_unit_test(find_goes_on_after_the_last_one_from_the_first),
		cmocka_unit_test(the_ruler_begins_where_words_count_from),
		cmocka_unit_test(what_is_said_of_a_kernel),
		cmocka_unit_test(across_clocks_the_shortest_kernel_came_last),
		cmocka_unit_test(across_clocks_a_group_of_fewer_ranks_has_a_rate),
		cmocka_unit_test(across_clocks_tensors_tell_who_entered_last),
		cmocka_unit_test(details_say_what_proxies_moved),
		cmocka_unit_test(details_of_a_collective_say_it_too),
		cmocka_unit_test(csv_has_a_line_for_each_that_is_shown),
	};

	return cmocka_run_group_tests(tests, run_fixture_make, run_fixture_remove);
}
