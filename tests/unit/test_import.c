/* SPDX-License-Identifier: Apache-2.0 */
/* What an import leaves in the store: the same figures as the timeline, and nothing when it fails. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "analyzer/import/import.h"
#include "analyzer/import/timeline.h"
#include "base/err.h"
#include "schema/event.h"
#include "schema/store.h"

#define DATA LAPWING_SOURCE_DIR "/tests/data/"
#define GPU  LAPWING_SOURCE_DIR "/../shared/samples/public/atpesc_horovod_gpu.json"

static char folder[] = "/tmp/lapwing-import-XXXXXX";
static char output[64], input[64];

static int make_folder(void **state)
{
	(void)state;
	if (!mkdtemp(folder))
		return -1;
	snprintf(output, sizeof(output), "%s/run.lapwing", folder);
	snprintf(input, sizeof(input), "%s/timeline.json", folder);
	return 0;
}

static int remove_folder(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s", folder);
	return system(command);
}

static int import_one(const char *path, const char *format, const char *to,
	lw_import_progress_fn on_progress, void *context, struct lw_import_summary *summary)
{
	return lw_import(&path, 1, format, to, on_progress, context, summary);
}

static struct lw_store *import_to_store(const char *path, struct lw_import_summary *summary)
{
	struct lw_store *store;

	if (import_one(path, NULL, output, NULL, NULL, summary) < 0 ||
		lw_store_open(output, LW_STORE_READ, &store) < 0)
		fail_msg("%s", lw_error_text());
	return store;
}

static int64_t ask(struct lw_store *store, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static int64_t ask(struct lw_store *store, const char *format, ...)
{
	int64_t value;
	char sql[1024];
	va_list args;

	va_start(args, format);
	vsnprintf(sql, sizeof(sql), format, args);
	va_end(args);
	if (lw_store_int(store, sql, &value) < 0)
		fail_msg("%s", lw_error_text());
	return value;
}

static int n_files(void)
{
	DIR *dir = opendir(folder);
	int n = 0;

	assert_non_null(dir);
	for (struct dirent *entry; (entry = readdir(dir));)
		n += entry->d_name[0] != '.';
	closedir(dir);
	return n;
}

static void write_input(const char *text)
{
	FILE *file = fopen(input, "w");

	assert_non_null(file);
	fputs(text, file);
	assert_int_equal(fclose(file), 0);
}

/* Rows of one activity: as many as it has runs, covering exactly its union. */
static void check_activity(struct lw_store *store, const struct lw_activity_stats *activity)
{
	char rows[512];

	if (activity->kind == LW_ACTIVITY_WIRE)
		snprintf(rows, sizeof(rows),
			"SELECT start_ns AS s, end_ns AS e FROM collective WHERE op = %d AND transport = %d",
			activity->op, activity->transport);
	else
		snprintf(rows, sizeof(rows),
			"SELECT start_ns AS s, end_ns AS e FROM range JOIN string ON string.id = name_id"
			" WHERE text = '%s' AND op = %d",
			activity->name, LW_MARK_RANGE);
	assert_int_equal(ask(store, "SELECT count(*) FROM (%s)", rows), activity->n_runs);
	assert_int_equal(
		ask(store,
			"SELECT sum(max(0, e - max(s, before))) FROM (SELECT s, e, coalesce(max(e)"
			" OVER (ORDER BY s, e ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), s)"
			" AS before FROM (%s))",
			rows),
		activity->union_ns);
}

static void check_store(const char *path)
{
	struct lw_timeline_stats *stats = malloc(sizeof(*stats));
	struct lw_import_summary summary;
	struct lw_store *store = import_to_store(path, &summary);
	uint64_t n_negotiations = 0, n_members = 0;

	assert_non_null(stats);
	assert_int_equal(lw_timeline_stats(path, stats), LW_OK);
	for (size_t i = 0; i < stats->activities.n; i++) {
		const struct lw_activity_stats *activity = stats->activities.at[i];

		if (activity->kind == LW_ACTIVITY_OPERATION)
			n_members += activity->n;
		else
			check_activity(store, activity);
		if (activity->kind == LW_ACTIVITY_NEGOTIATE)
			n_negotiations += activity->n;
	}
	assert_int_equal(ask(store, "SELECT count(*) FROM batch"), stats->n_batches);
	assert_int_equal(ask(store, "SELECT sum(bytes) FROM batch"), stats->bytes);
	assert_int_equal(ask(store, "SELECT count(*) FROM batch_tensor"), n_members);
	assert_int_equal(ask(store, "SELECT sum(n_tensors) FROM batch"), n_members);
	assert_int_equal(
		ask(store, "SELECT count(*) FROM ready WHERE thread_id = 1"), n_negotiations);
	/* every executed tensor has exactly one ready of rank 0, before it */
	assert_int_equal(
		ask(store, "SELECT count(*) FROM batch_tensor b JOIN ready r ON"
			   " r.object = b.object AND r.thread_id = 1 AND r.name_id = b.name_id"
			   " AND r.at_ns <= b.at_ns"),
		n_members);
	assert_int_equal(ask(store, "SELECT sum(n_stored) FROM thread"),
		ask(store,
			"SELECT (SELECT count(*) FROM batch) + (SELECT count(*) FROM batch_tensor)"
			" + (SELECT count(*) FROM ready) + (SELECT count(*) FROM cycle)"
			" + (SELECT count(*) FROM range) + (SELECT count(*) FROM collective)"));
	assert_int_equal(ask(store, "SELECT closed FROM run"), 1);
	assert_int_equal(ask(store, "SELECT count(*) FROM loss"), 0);
	lw_store_close(store);
	lw_timeline_stats_free(stats);
	free(stats);
}

static void the_store_has_what_the_timeline_has(void **state)
{
	static const char *const paths[] = {DATA "timeline_small.json", DATA "horovod/tl.json",
		DATA "horovod/m.json", DATA "horovod/g.json", DATA "horovod/f0.json",
		DATA "horovod/f1024.json", DATA "horovod/f2000.json", GPU};

	(void)state;
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
		if (access(paths[i], R_OK) == 0 || strcmp(paths[i], GPU))
			check_store(paths[i]);
}

/* The threshold of 2000 bytes is rounded up to 2048: 5 tensors of 400 bytes, 2 of 800. */
static void fused_batches_are_those_that_the_threshold_allows(void **state)
{
	static const char count[] =
		"SELECT count(*) FROM batch WHERE n_tensors = %d AND bytes = %d AND dtype = %d";
	struct lw_import_summary summary;
	struct lw_store *store = import_to_store(DATA "horovod/f2000.json", &summary);

	(void)state;
	assert_int_equal(ask(store, count, 5, 2000, LW_DTYPE_FLOAT32), 6);
	assert_int_equal(ask(store, count, 2, 800, LW_DTYPE_FLOAT32), 3);
	assert_int_equal(ask(store, count, 2, 1600, LW_DTYPE_FLOAT64), 3);
	assert_int_equal(ask(store, count, 1, 800, LW_DTYPE_FLOAT64), 3);
	assert_int_equal(ask(store, "SELECT count(*) FROM batch"), 15);
	lw_store_close(store);
	store = import_to_store(DATA "horovod/f0.json", &summary);
	assert_int_equal(ask(store, "SELECT count(*) FROM batch WHERE n_tensors = 1"), 45);
	lw_store_close(store);
}

/* The newest round that had ended when a batch began is the one that agreed it, or a later one. */
static void the_agreement_of_every_batch_can_be_found(void **state)
{
	static const char found[] =
		"SELECT count(*) FROM batch b WHERE (SELECT max(c.end_ns) FROM cycle c WHERE"
		" c.thread_id = b.thread_id AND c.op = 3 AND c.end_ns <= b.start_ns) >="
		" (SELECT max(r.end_ns) FROM range r JOIN batch_tensor t ON t.object = r.value JOIN string s"
		" ON s.id = r.name_id WHERE t.batch = b.batch AND s.text LIKE 'NEGOTIATE_%')";
	static const char marks_between[] =
		"SELECT count(*) FROM batch b JOIN cycle m ON m.op = 1 AND m.end_ns <= b.start_ns AND"
		" m.end_ns > (SELECT max(c.end_ns) FROM cycle c WHERE c.op = 3 AND c.end_ns <= b.start_ns)";
	static const char *const paths[] = {
		DATA "timeline_small.json", DATA "horovod/tl.json", DATA "horovod/f2000.json"};
	struct lw_import_summary summary;

	(void)state;
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		struct lw_store *store = import_to_store(paths[i], &summary);

		assert_int_equal(ask(store, "%s", found), summary.n_batches);
		/* a mark of the next cycle never comes in between */
		assert_int_equal(ask(store, "%s", marks_between), 0);
		lw_store_close(store);
	}
}

static void ticks_tell_when_the_other_ranks_were_ready(void **state)
{
	struct lw_import_summary summary;
	struct lw_store *store = import_to_store(DATA "timeline_small.json", &summary);

	(void)state;
	assert_int_equal(summary.n_ranks, 2);
	assert_int_equal(ask(store, "SELECT max(size) FROM process"), 2);
	/* allreduce.c: rank 0 asks at 120 us, rank 1 follows at 400 us */
	assert_int_equal(
		ask(store, "SELECT r.at_ns - 1000000000000 FROM ready r JOIN string s ON"
			   " s.id = r.name_id WHERE s.text = 'allreduce.c' AND r.thread_id = 2"),
		400000);
	assert_int_equal(ask(store, "SELECT count(*) FROM ready WHERE thread_id = 2"), 3);
	assert_int_equal(ask(store, "SELECT count(*) FROM clock_sample"), 0); /* 0.20: monotonic */
	lw_store_close(store);
}

static void ticks_of_a_process_set_are_not_taken_for_ranks(void **state)
{
	static const char text[] =
		"[\n{\"ph\":\"B\",\"name\":\"NEGOTIATE_ALLREDUCE\",\"ts\":1,\"pid\":1},"
		"{\"ph\":\"X\",\"name\":\"0\",\"ts\":2,\"pid\":1,\"dur\":0},"
		"{\"ph\":\"X\",\"name\":\"1\",\"ts\":3,\"pid\":1,\"dur\":0},"
		"{\"ph\":\"X\",\"name\":\"2\",\"ts\":4,\"pid\":1,\"dur\":0},{\"ph\":\"E\",\"ts\":5,\"pid\":1},"
		"{\"ph\":\"B\",\"name\":\"NEGOTIATE_ALLREDUCE\",\"ts\":6,\"pid\":2},"
		"{\"ph\":\"X\",\"name\":\"0\",\"ts\":7,\"pid\":2,\"dur\":0},"
		"{\"ph\":\"X\",\"name\":\"1\",\"ts\":8,\"pid\":2,\"dur\":0},{\"ph\":\"E\",\"ts\":9,\"pid\":2},"
		"{\"ph\":\"B\",\"name\":\"ALLREDUCE\",\"ts\":10,\"pid\":2},{\"ph\":\"E\",\"ts\":11,\"pid\":2}]";
	struct lw_import_summary summary;
	struct lw_store *store;

	(void)state;
	write_input(text);
	store = import_to_store(input, &summary);
	assert_int_equal(ask(store, "SELECT count(*) FROM ready WHERE thread_id > 1"), 2);
	assert_int_equal(ask(store, "SELECT count(*) FROM range WHERE op = 2 AND value = 1"), 1);
	assert_int_equal(ask(store, "SELECT process_set FROM batch"), -1);
	lw_store_close(store);
}

static void alltoall_over_gloo_is_gloo(void **state)
{
	static const char text[] =
		"[\n{\"ph\":\"B\",\"name\":\"NEGOTIATE_ALLREDUCE\",\"ts\":0,\"pid\":1},"
		"{\"ph\":\"E\",\"ts\":1,\"pid\":1},{\"ph\":\"B\",\"name\":\"ALLREDUCE\",\"ts\":1,\"pid\":1},"
		"{\"ph\":\"B\",\"name\":\"GLOO_ALLREDUCE\",\"ts\":1,\"pid\":1},"
		"{\"ph\":\"E\",\"ts\":2,\"pid\":1},{\"ph\":\"E\",\"ts\":2,\"pid\":1},"
		"{\"ph\":\"B\",\"name\":\"ALLTOALL\",\"ts\":3,\"pid\":2},"
		"{\"ph\":\"B\",\"name\":\"MPI_ALLTOALL\",\"ts\":3,\"pid\":2},"
		"{\"ph\":\"E\",\"ts\":4,\"pid\":2},{\"ph\":\"E\",\"ts\":4,\"pid\":2}]";
	struct lw_import_summary summary;
	struct lw_store *store;

	(void)state;
	write_input(text);
	store = import_to_store(input, &summary);
	assert_int_equal(ask(store, "SELECT count(*) FROM collective WHERE transport = 2"), 2);
	assert_int_equal(ask(store, "SELECT transport FROM process"), LW_TRANSPORT_GLOO);
	lw_store_close(store);
}

static void the_header_gives_the_wall_clock(void **state)
{
	struct lw_import_summary summary;
	struct lw_store *store = import_to_store(DATA "horovod/tl.json", &summary);

	(void)state;
	assert_int_equal(ask(store, "SELECT realtime_ns FROM clock_sample WHERE monotonic_ns = 0"),
		INT64_C(1795963146327354000));
	assert_int_equal(ask(store, "SELECT count(*) FROM cycle WHERE op = 1"), 277);
	lw_store_close(store);
}

static void joined_timelines_go_on_by_the_wall_clock(void **state)
{
	static const char part[] =
		"{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":0,"
		"\"args\":{\"start_time_since_epoch_in_micros\":%d}},"
		"{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":1,\"args\":{\"name\":\"%s\"}},"
		"{\"ph\":\"B\",\"name\":\"ALLREDUCE\",\"ts\":10,\"pid\":1},%s";
	struct lw_import_summary summary;
	struct lw_store *store;
	char first[512], second[512], text[1100];

	(void)state;
	snprintf(first, sizeof(first), part, 5000, "a", "");
	snprintf(second, sizeof(second), part, 9000, "b", "{\"ph\":\"E\",\"ts\":15,\"pid\":1}");
	snprintf(text, sizeof(text), "[\n%s]\n[\n%s]", first, second);
	write_input(text);
	store = import_to_store(input, &summary);
	assert_int_equal(summary.n_batches, 2);
	assert_int_equal(summary.n_unfinished, 1);
	assert_int_equal(summary.n_bad, 0);
	assert_int_equal(ask(store, "SELECT max(end_ns) FROM batch"), 4015000);
	assert_int_equal(ask(store, "SELECT end_ns FROM batch WHERE batch = 1"), 10000);
	lw_store_close(store);
}

static void what_is_missing_is_a_loss(void **state)
{
	struct lw_import_summary summary;
	struct lw_store *store = import_to_store(DATA "fail/truncated.json", &summary);

	(void)state;
	assert_true(summary.is_truncated);
	assert_int_equal(summary.n_unfinished, 1);
	assert_int_equal(
		ask(store, "SELECT n FROM loss WHERE detail LIKE 'record 48 at byte 3001%%'"), 1);
	lw_store_close(store);
	store = import_to_store(DATA "fail/raw_quote.json", &summary);
	assert_false(summary.is_truncated);
	assert_int_equal(summary.n_bad, 1);
	assert_int_equal(
		ask(store, "SELECT n FROM loss WHERE detail LIKE 'record 5 at byte 298%%'"), 1);
	lw_store_close(store);
}

static void the_same_input_gives_the_same_bytes(void **state)
{
	struct lw_import_summary summary;
	char command[256];

	(void)state;
	lw_store_close(import_to_store(DATA "horovod/tl.json", &summary));
	snprintf(command, sizeof(command), "mv %s %s.first", output, output);
	assert_int_equal(system(command), 0);
	lw_store_close(import_to_store(DATA "horovod/tl.json", &summary));
	snprintf(
		command, sizeof(command), "cmp %s %s.first && rm %s.first", output, output, output);
	assert_int_equal(system(command), 0);
}

static int stop_halfway(void *context, double done_frac)
{
	(void)context;
	return done_frac > 0 ? lw_fail(LW_ERR_STATE, "stopped by the test") : LW_OK;
}

static void a_failed_import_leaves_nothing_behind(void **state)
{
	static const char *const bad[] = {"empty.json", "only_bracket.json", "not_json.json",
		"other_program.json", "header_only.json", "no_such_file.json"};
	struct lw_import_summary summary;

	(void)state;
	unlink(output);
	unlink(input);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		char path[512];
		int status;

		snprintf(path, sizeof(path), "%sfail/%s", DATA, bad[i]);
		status = import_one(path, NULL, output, NULL, NULL, &summary);
		assert_true(status == LW_ERR_FORMAT || status == LW_ERR_IO);
		assert_non_null(strstr(lw_error_text(), path));
		assert_null(strchr(lw_error_text(), '\n'));
		status = import_one(path, "horovod_timeline", output, NULL, NULL, &summary);
		assert_true(status == LW_ERR_FORMAT || status == LW_ERR_IO);
		assert_int_equal(n_files(), 0);
	}
	assert_int_equal(
		import_one(DATA "horovod/m.json", NULL, output, stop_halfway, NULL, &summary),
		LW_ERR_STATE);
	assert_int_equal(import_one(DATA "horovod/m.json", "nosuch", output, NULL, NULL, &summary),
		LW_ERR_USAGE);
	assert_int_equal(
		import_one(DATA "horovod/m.json", NULL, "/no/such/folder/x", NULL, NULL, &summary),
		LW_ERR_IO);
	assert_int_equal(n_files(), 0);
}

static void an_output_of_another_kind_is_not_replaced(void **state)
{
	struct lw_import_summary summary;

	(void)state;
	write_input("chapter one");
	assert_int_equal(import_one(DATA "horovod/m.json", NULL, input, NULL, NULL, &summary),
		LW_ERR_FORMAT);
	assert_int_equal(import_one(DATA "horovod/m.json", NULL, folder, NULL, NULL, &summary),
		LW_ERR_FORMAT);
	assert_int_equal(n_files(), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_store_has_what_the_timeline_has),
		cmocka_unit_test(fused_batches_are_those_that_the_threshold_allows),
		cmocka_unit_test(the_agreement_of_every_batch_can_be_found),
		cmocka_unit_test(ticks_tell_when_the_other_ranks_were_ready),
		cmocka_unit_test(ticks_of_a_process_set_are_not_taken_for_ranks),
		cmocka_unit_test(alltoall_over_gloo_is_gloo),
		cmocka_unit_test(the_header_gives_the_wall_clock),
		cmocka_unit_test(joined_timelines_go_on_by_the_wall_clock),
		cmocka_unit_test(what_is_missing_is_a_loss),
		cmocka_unit_test(the_same_input_gives_the_same_bytes),
		cmocka_unit_test(a_failed_import_leaves_nothing_behind),
		cmocka_unit_test(an_output_of_another_kind_is_not_replaced),
	};

	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
