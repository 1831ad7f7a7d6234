/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reader of Horovod timelines against figures that tests/lib/timeline_figures.py computed from the
 * same files with a plain JSON parser, and what the reader must bear.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "analyzer/import/timeline.h"
#include "base/err.h"
#include "schema/event.h"

#define DATA   LAPWING_SOURCE_DIR "/tests/data/"
#define PUBLIC LAPWING_SOURCE_DIR "/../shared/samples/public/"

struct figure {
	const char *name;
	uint64_t n;
	int64_t sum_us, union_us;
	uint64_t n_runs; /* 0: not compared */
};

struct expected {
	const char *path;
	uint64_t n_events, n_tensors, n_batches, bytes;
	int64_t duration_us;
	struct figure figures[16];
};

static const struct expected ours[] = {
	{DATA "timeline_small.json", 54, 3, 4, 240, 1215,
		{{"NEGOTIATE_ALLREDUCE", 6, 763, 592, 0}, {"MEMCPY_IN_FUSION_BUFFER", 2, 20, 11, 1},
			{"MPI_ALLREDUCE", 6, 502, 304, 4},
			{"MEMCPY_OUT_FUSION_BUFFER", 2, 20, 11, 1}, {"ALLREDUCE", 6, 651, 383, 4}}},
	{DATA "horovod/f0.json", 332, 15, 45, 21600, 144806,
		{{"NEGOTIATE_ALLREDUCE", 45, 1540, 137, 0},
			{"GLOO_ALLREDUCE", 45, 34552, 34552, 45},
			{"ALLREDUCE", 45, 34711, 34711, 45}}},
	{DATA "horovod/f1024.json", 480, 15, 27, 21600, 153027,
		{{"NEGOTIATE_ALLREDUCE", 45, 50669, 3415, 0}, {"INIT_FUSION_BUFFER", 2, 68, 34, 1},
			{"MEMCPY_IN_FUSION_BUFFER", 36, 74, 50, 18},
			{"GLOO_ALLREDUCE", 45, 44550, 29891, 27},
			{"MEMCPY_OUT_FUSION_BUFFER", 36, 81, 61, 18},
			{"ALLREDUCE", 45, 45303, 30325, 27}}},
	{DATA "horovod/f2000.json", 510, 15, 15, 21600, 296763,
		{{"NEGOTIATE_ALLREDUCE", 45, 714083, 47667, 0},
			{"INIT_FUSION_BUFFER", 5, 386, 80, 1},
			{"MEMCPY_IN_FUSION_BUFFER", 42, 140, 56, 12},
			{"GLOO_ALLREDUCE", 45, 402212, 123392, 15},
			{"MEMCPY_OUT_FUSION_BUFFER", 42, 177, 60, 12},
			{"ALLREDUCE", 45, 403987, 123856, 15}}},
	{DATA "horovod/g.json", 412, 14, 18, 7987400, 615536,
		{{"NEGOTIATE_BROADCAST", 8, 27117, 24505, 0}, {"GLOO_BCAST", 8, 7853, 7853, 8},
			{"BROADCAST", 8, 7927, 7927, 8},
			{"NEGOTIATE_ALLREDUCE", 30, 1046183, 209215, 0},
			{"INIT_FUSION_BUFFER", 3, 195, 67, 1},
			{"MEMCPY_IN_FUSION_BUFFER", 30, 6834, 2298, 10},
			{"GLOO_ALLREDUCE", 30, 150539, 50200, 10},
			{"MEMCPY_OUT_FUSION_BUFFER", 30, 7282, 2447, 10},
			{"ALLREDUCE", 30, 167686, 55964, 10}}},
	{DATA "horovod/m.json", 270, 12, 14, 4792440, 182358,
		{{"NEGOTIATE_BROADCAST", 6, 44862, 7502, 0}, {"MPI_BCAST", 6, 490, 490, 6},
			{"BROADCAST", 6, 506, 506, 6},
			{"NEGOTIATE_ALLREDUCE", 18, 130040, 60761, 0},
			{"INIT_FUSION_BUFFER", 2, 189, 95, 1},
			{"MEMCPY_IN_FUSION_BUFFER", 18, 4199, 1599, 8},
			{"MPI_ALLREDUCE", 18, 168525, 68791, 8},
			{"MEMCPY_OUT_FUSION_BUFFER", 18, 1205, 434, 8},
			{"ALLREDUCE", 18, 175525, 71498, 8}}},
	{DATA "horovod/tl.json", 651, 12, 23, 7987400, 954563,
		{{"NEGOTIATE_BROADCAST", 6, 9164, 1544, 0}, {"GLOO_BCAST", 6, 4845, 4845, 6},
			{"BROADCAST", 6, 4894, 4894, 6},
			{"NEGOTIATE_ALLREDUCE", 30, 513059, 220034, 0},
			{"INIT_FUSION_BUFFER", 2, 202, 102, 1},
			{"MEMCPY_IN_FUSION_BUFFER", 26, 3804, 1924, 13},
			{"GLOO_ALLREDUCE", 30, 240302, 133196, 17},
			{"MEMCPY_OUT_FUSION_BUFFER", 26, 1700, 860, 13},
			{"ALLREDUCE", 30, 248233, 137288, 17}}},
};

/* Two public timelines of 8 ranks (ATPESC), which are not ours to distribute: figures only. */
static const struct expected foreign[] = {
	{PUBLIC "atpesc_horovod_gpu.json", 20734, 58, 309, 739127400, 6667208,
		{{"NEGOTIATE_ALLREDUCE", 1254, 31135612, 5096767, 0},
			{"ALLREDUCE", 1254, 9992681, 4558239, 259},
			{"NCCL_ALLREDUCE", 1232, 303410, 56610, 237},
			{"WAIT_FOR_DATA", 1232, 454192, 114351, 237},
			{"WAIT_FOR_OTHER_TENSOR_DATA", 1232, 369191, 93917, 0},
			{"QUEUE", 1232, 10182, 3002, 237},
			{"MEMCPY_IN_FUSION_BUFFER", 1230, 15941, 4282, 235},
			{"MEMCPY_OUT_FUSION_BUFFER", 1230, 43220, 10180, 235},
			{"INIT_NCCL", 2, 8648254, 4324131, 1}, {"INIT_FUSION_BUFFER", 2, 98, 51, 1},
			{"BROADCAST", 50, 21388, 21388, 50}, {"MPI_BCAST", 50, 21134, 21134, 50},
			{"NEGOTIATE_BROADCAST", 50, 218079, 24679, 0},
			{"MPI_ALLREDUCE", 22, 285, 285, 22}}},
	{PUBLIC "atpesc_horovod_cpu.json", 10216, 58, 1013, 739127400, 27931023,
		{{"NEGOTIATE_ALLREDUCE", 1254, 11385108, 7736946, 0},
			{"INIT_FUSION_BUFFER", 3, 278, 97, 1},
			{"MEMCPY_IN_FUSION_BUFFER", 449, 93454, 35144, 158},
			{"MPI_ALLREDUCE", 1254, 5067724, 4364650, 963},
			{"MEMCPY_OUT_FUSION_BUFFER", 449, 36539, 13428, 158},
			{"ALLREDUCE", 1254, 5655956, 4787403, 963},
			{"NEGOTIATE_BROADCAST", 50, 210704, 16976, 0},
			{"MPI_BCAST", 50, 18401, 18401, 50}, {"BROADCAST", 50, 18657, 18657, 50}}},
};

static void check_activities(const struct expected *e, const struct lw_timeline_stats *stats)
{
	size_t n = 0;

	for (const struct figure *f = e->figures; f->name; f++, n++) {
		const struct lw_activity_stats *activity = lw_timeline_activity(stats, f->name);

		assert_non_null(activity);
		assert_int_equal(activity->n, f->n);
		assert_int_equal(activity->sum_ns, f->sum_us * 1000);
		assert_int_equal(activity->union_ns, f->union_us * 1000);
		if (f->n_runs)
			assert_int_equal(activity->n_runs, f->n_runs);
	}
	assert_int_equal(stats->activities.n, n); /* and no other activity */
}

static void check(const struct expected *e)
{
	struct lw_timeline_stats *stats = malloc(sizeof(*stats));

	assert_non_null(stats);
	if (lw_timeline_stats(e->path, stats) < 0)
		fail_msg("%s: %s", e->path, lw_error_text());
	assert_int_equal(stats->n_events, e->n_events);
	assert_int_equal(stats->n_tensors, e->n_tensors);
	assert_int_equal(stats->n_batches, e->n_batches);
	assert_int_equal(stats->bytes, e->bytes);
	assert_int_equal(stats->last_ns - stats->first_ns, e->duration_us * 1000);
	assert_int_equal(stats->n_unmatched_ends + stats->n_unknown + stats->json.n_bad, 0);
	check_activities(e, stats);
	lw_timeline_stats_free(stats);
	free(stats);
}

static void figures_are_those_of_a_plain_parser(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++)
		check(&ours[i]);
}

/* Every figure of the public oracle, where the files are at hand. */
static void public_timelines_have_their_known_figures(void **state)
{
	size_t n_missing = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(foreign) / sizeof(foreign[0]); i++) {
		if (access(foreign[i].path, R_OK) < 0) {
			print_message("not at hand, not checked: %s\n", foreign[i].path);
			n_missing++;
			continue;
		}
		check(&foreign[i]);
		print_message("checked: %s\n", foreign[i].path);
	}
	if (n_missing)
		skip();
}

/* ---- texts that the tests make ------------------------------------------------------------------ */

static char path[] = "/tmp/lapwing-timeline-XXXXXX";

static int make_file(void **state)
{
	int fd = mkstemp(path);

	(void)state;
	if (fd < 0)
		return -1;
	return close(fd);
}

static int remove_file(void **state)
{
	(void)state;
	return unlink(path);
}

static void write_text(const char *text, size_t n_bytes)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	assert_int_equal(fwrite(text, 1, n_bytes, file), n_bytes);
	assert_int_equal(fclose(file), 0);
}

/* The small timeline's text, with its last ",\n" taken off; the caller frees it. */
static char *small_text(size_t *ret_n_bytes)
{
	FILE *file = fopen(DATA "timeline_small.json", "r");
	char *text = calloc(1, 1 << 16);
	size_t n_bytes;

	assert_non_null(file);
	assert_non_null(text);
	n_bytes = fread(text, 1, (1 << 16) - 1, file);
	fclose(file);
	assert_memory_equal(text + n_bytes - 2, ",\n", 2);
	text[n_bytes - 2] = '\0';
	*ret_n_bytes = n_bytes - 2;
	return text;
}

static void every_way_to_close_the_array_reads_the_same(void **state)
{
	static const char *const ends[] = {"", ",", ",\n", "]", "]\n", ",\n]", ",,\n ]"};
	struct expected small = ours[0];
	size_t n_bytes;
	char *text = small_text(&n_bytes);

	(void)state;
	small.path = path;
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		char *whole;
		int n = asprintf(&whole, "%s%s", text, ends[i]);

		write_text(whole, (size_t)n);
		free(whole);
		check(&small);
	}
	for (int i = 0; i < 2; i++) { /* and inside an object, closed or not */
		char *whole;
		int n = asprintf(&whole, "{\"displayTimeUnit\": \"ms\", \"traceEvents\": %s%s",
			text, i ? "], \"meta\": {\"pid\": [1]}}\n" : "");

		write_text(whole, (size_t)n);
		free(whole);
		check(&small);
	}
	free(text);
}

static void a_file_cut_anywhere_is_read_as_far_as_it_goes(void **state)
{
	struct lw_timeline_stats *stats = malloc(sizeof(*stats));
	uint64_t n_events = 0, n_truncated = 0;
	size_t n_bytes;
	char *text = small_text(&n_bytes);

	(void)state;
	assert_non_null(stats);
	for (size_t cut = 0; cut <= n_bytes; cut++) {
		size_t n_opened = 0, n_closed = 0;
		int status;

		for (size_t i = 0; i < cut; i++) {
			n_opened += text[i] == '{';
			n_closed += text[i] == '}';
		}
		write_text(text, cut);
		status = lw_timeline_stats(path, stats);
		assert_true(status == LW_OK || status == LW_ERR_FORMAT);
		assert_true(stats->n_events >= n_events);
		assert_int_equal(stats->json.is_truncated, n_opened > n_closed);
		assert_int_equal(stats->json.n_bad, 0);
		n_truncated += stats->json.is_truncated;
		n_events = stats->n_events;
		lw_timeline_stats_free(stats);
	}
	assert_int_equal(n_events, ours[0].n_events);
	assert_true(n_truncated > n_bytes / 2);
	free(text);
	free(stats);
}

static void a_record_with_raw_quotes_is_named_and_skipped(void **state)
{
	struct lw_timeline_stats *stats = malloc(sizeof(*stats));

	(void)state;
	assert_non_null(stats);
	assert_int_equal(lw_timeline_stats(DATA "fail/raw_quote.json", stats), LW_OK);
	assert_int_equal(stats->json.n_bad, 1);
	assert_non_null(strstr(stats->json.problem, "record 5 at byte 298"));
	assert_int_equal(stats->n_events, ours[0].n_events - 1);
	check_activities(&ours[0], stats); /* nothing else is lost */
	lw_timeline_stats_free(stats);
	free(stats);
}

static void damage_in_the_middle_costs_only_its_own_records(void **state)
{
	struct lw_timeline_stats *stats = malloc(sizeof(*stats));
	size_t n_bytes;
	char *text = small_text(&n_bytes), *hole = strstr(text, "\"ts\": 1000000221");

	(void)state;
	assert_non_null(stats);
	memset(hole, '\0', 16); /* a block of a file that never reached the disk */
	write_text(text, n_bytes);
	assert_int_equal(lw_timeline_stats(path, stats), LW_OK);
	assert_int_equal(stats->json.n_bad, 1);
	assert_int_equal(stats->n_events, ours[0].n_events - 1);
	lw_timeline_stats_free(stats);
	free(text);
	free(stats);
}

/* ---- which tensors make a batch ------------------------------------------------------------------ */

struct seen {
	char text
		[512]; /* "2:16 1:?" = a batch of 2 tensors with 16 bytes, then one of 1, size unknown */
	size_t n_runs, n_strays;
	int64_t latest_cycle_ns;
};

static int see_negotiation(void *context, const struct lw_timeline_negotiation *negotiation)
{
	(void)context;
	assert_true(negotiation->object > 0 && negotiation->end_ns >= negotiation->start_ns);
	return LW_OK;
}

static int see_batch(void *context, const struct lw_timeline_batch *batch)
{
	struct seen *seen = context;
	size_t n = strlen(seen->text);
	char bytes[24] = "?";

	if (batch->has_bytes)
		snprintf(bytes, sizeof(bytes), "%llu", (unsigned long long)batch->bytes);
	snprintf(seen->text + n, sizeof(seen->text) - n, "%s%zu:%s%s", n ? " " : "",
		batch->members.n, bytes, batch->is_unfinished ? "!" : "");
	for (size_t i = 0; i < batch->runs.n; i++) {
		assert_true(batch->runs.at[i]->start_ns >= batch->start_ns);
		assert_true(batch->runs.at[i]->end_ns <= batch->end_ns);
		seen->n_runs++;
	}
	return LW_OK;
}

static int see_stray(void *context, const struct lw_timeline_run *run)
{
	assert_true(run->end_ns >= run->start_ns);
	((struct seen *)context)->n_strays++;
	return LW_OK;
}

static int see_cycle(void *context, int64_t at_ns)
{
	((struct seen *)context)->latest_cycle_ns = at_ns;
	return LW_OK;
}

/*
 * Writes a timeline from a short script: "B1 NAME" begins NAME on row 1, "E1" ends what is open there,
 * "S1" ends it with a shape of 4 float32. Time goes on by 1 us an event.
 */
static struct seen see(const char *script)
{
	struct seen seen = {0};
	const struct lw_timeline_sink sink = {
		see_negotiation, see_batch, see_stray, see_cycle, NULL, &seen};
	struct lw_timeline_stats *stats = malloc(sizeof(*stats));
	char *words = strdup(script), *place = NULL;
	FILE *file = fopen(path, "w");
	int ts_us = 0;

	assert_non_null(stats);
	assert_non_null(words);
	assert_non_null(file);
	fputs("[\n", file);
	for (char *word = strtok_r(words, " ", &place); word; word = strtok_r(NULL, " ", &place)) {
		int row = (int)strtol(word + 1, NULL, 10);

		ts_us++;
		if (*word == 'B')
			fprintf(file,
				"{\"ph\": \"B\", \"name\": \"%s\", \"ts\": %d, \"pid\": %d},\n",
				strtok_r(NULL, " ", &place), ts_us, row);
		else
			fprintf(file, "{\"ph\": \"E\", \"ts\": %d, \"pid\": %d%s},\n", ts_us, row,
				*word == 'S'
					? ", \"args\": {\"dtype\": \"float32\", \"shape\": \"[4]\"}"
					: "");
	}
	fclose(file);
	if (lw_timeline_read(path, &sink, stats) < 0)
		fail_msg("%s", lw_error_text());
	lw_timeline_stats_free(stats);
	free(stats);
	free(words);
	return seen;
}

static void one_response_is_one_batch(void **state)
{
	struct seen seen =
		see("B1 ALLREDUCE B2 ALLREDUCE B1 GLOO_ALLREDUCE B2 GLOO_ALLREDUCE E1 E2 S1 S2 "
		    "B3 ALLREDUCE B3 GLOO_ALLREDUCE E3 S3");

	(void)state;
	assert_string_equal(seen.text, "2:32 1:16");
	assert_int_equal(seen.n_runs, 2);
}

static void responses_begun_back_to_back_are_told_apart_by_their_collectives(void **state)
{
	struct seen seen =
		see("B1 ALLREDUCE B2 ALLREDUCE B3 ALLREDUCE B1 NCCL_ALLREDUCE B2 NCCL_ALLREDUCE "
		    "E1 E2 S1 S2 B3 NCCL_ALLREDUCE E3 S3");

	(void)state;
	assert_string_equal(seen.text, "2:32 1:16");
	assert_int_equal(seen.n_runs, 2);
}

static void begins_interrupted_by_another_thread_stay_one_batch(void **state)
{
	struct seen seen = see("B9 ALLREDUCE B9 NCCL_ALLREDUCE "
			       "B1 ALLREDUCE E9 B2 ALLREDUCE S9 B1 QUEUE B2 QUEUE E1 E2 "
			       "B1 NCCL_ALLREDUCE B2 NCCL_ALLREDUCE E1 E2 S1 S2");

	(void)state;
	assert_string_equal(seen.text, "1:16 2:32");
	assert_int_equal(seen.n_runs, 3); /* two collectives and one QUEUE */
}

static void a_step_of_one_batch_interrupted_stays_one_run(void **state)
{
	struct seen seen = see("B1 ALLREDUCE B2 ALLREDUCE B1 NCCL_ALLREDUCE B8 NEGOTIATE_ALLREDUCE "
			       "B2 NCCL_ALLREDUCE E8 E1 E2 S1 S2");

	(void)state;
	assert_string_equal(seen.text, "2:32");
	assert_int_equal(seen.n_runs, 1);
}

static void sizes_that_are_not_told_are_not_made_up(void **state)
{
	(void)state;
	assert_string_equal(see("B1 BROADCAST B1 MPI_BCAST E1 E1").text, "1:?");
	assert_string_equal(see("B1 ALLREDUCE B1 MPI_ALLREDUCE").text, "1:?!");
	/* but a tensor that is cut off has the size it had before */
	assert_string_equal(
		see("B1 ALLREDUCE S1 B1 ALLREDUCE B1 MPI_ALLREDUCE").text, "1:16 1:16!");
}

static void activities_that_outlive_their_operation_are_strays(void **state)
{
	struct seen seen = see("B1 ALLREDUCE B1 QUEUE B2 QUEUE E1 S1 E2 E2 B3 MPI_ALLREDUCE E3");

	(void)state;
	assert_string_equal(seen.text, "1:16");
	assert_int_equal(seen.n_strays, 2);
}

/* ---- memory ---------------------------------------------------------------------------------------- */

enum { BIG_FILE_BYTES = 50 << 20, BIG_RSS_BYTES = 16 << 20 };

#ifdef __SANITIZE_ADDRESS__
/* What the sanitizer keeps of freed memory would be most of what is measured. */
__attribute__((visibility("default"))) const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "quarantine_size_mb=1";
}
#endif

static void write_big_timeline(void)
{
	FILE *file = fopen(path, "w");
	long ts_us = 0;

	assert_non_null(file);
	fputs("[\n", file);
	while (ftell(file) < BIG_FILE_BYTES)
		for (int row = 1; row <= 100; row++) {
			static const char *const names[] = {"NEGOTIATE_ALLREDUCE", NULL,
				"ALLREDUCE", "MPI_ALLREDUCE", NULL, NULL};

			for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
				ts_us += 3;
				if (names[i])
					fprintf(file,
						"{\"ph\": \"B\", \"name\": \"%s\", \"ts\": %ld, \"pid\": %d},",
						names[i], ts_us, row);
				else
					fprintf(file, "{\"ph\": \"E\", \"ts\": %ld, \"pid\": %d},",
						ts_us, row);
			}
		}
	assert_int_equal(fclose(file), 0);
}

static void a_large_timeline_takes_little_memory(void **state)
{
	struct rusage usage;
	int exit_status;
	pid_t child;

	(void)state;
	write_big_timeline();
	fflush(stdout);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		struct lw_timeline_stats *stats = malloc(sizeof(*stats));

		_exit(stats && lw_timeline_stats(path, stats) == LW_OK && stats->n_batches > 100000
				? 0
				: 1);
	}
	assert_int_equal(wait4(child, &exit_status, 0, &usage), child);
	assert_int_equal(exit_status, 0);
	print_message("50 MiB timeline: %ld KiB at most resident, %.2f s of CPU\n", usage.ru_maxrss,
		(double)usage.ru_utime.tv_sec + (double)usage.ru_utime.tv_usec / 1e6);
	assert_true(usage.ru_maxrss < BIG_RSS_BYTES / 1024);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(figures_are_those_of_a_plain_parser),
		cmocka_unit_test(public_timelines_have_their_known_figures),
		cmocka_unit_test(every_way_to_close_the_array_reads_the_same),
		cmocka_unit_test(a_file_cut_anywhere_is_read_as_far_as_it_goes),
		cmocka_unit_test(a_record_with_raw_quotes_is_named_and_skipped),
		cmocka_unit_test(damage_in_the_middle_costs_only_its_own_records),
		cmocka_unit_test(one_response_is_one_batch),
		cmocka_unit_test(responses_begun_back_to_back_are_told_apart_by_their_collectives),
		cmocka_unit_test(begins_interrupted_by_another_thread_stay_one_batch),
		cmocka_unit_test(a_step_of_one_batch_interrupted_stays_one_run),
		cmocka_unit_test(sizes_that_are_not_told_are_not_made_up),
		cmocka_unit_test(activities_that_outlive_their_operation_are_strays),
		cmocka_unit_test(a_large_timeline_takes_little_memory),
	};

	return cmocka_run_group_tests(tests, make_file, remove_file);
}
