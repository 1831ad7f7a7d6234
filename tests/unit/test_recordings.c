/* SPDX-License-Identifier: Apache-2.0 */
/* Several recordings of one host: each looks at its devices and captures its packets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/emit/flows.h"
#include "analyzer/emit/json.h"
#include "base/err.h"
#include "tests/lib/run_fixture.h"

#define ONLY_RANK_0                                                                                \
	"DELETE FROM thread WHERE process_id = 2; DELETE FROM process WHERE id = 2;"               \
	"DELETE FROM batch WHERE thread_id > 2; DELETE FROM collective WHERE thread_id > 2;"
#define ONLY_RANK_1                                                                                \
	"DELETE FROM thread WHERE process_id = 1; DELETE FROM process WHERE id = 1;"               \
	"DELETE FROM batch WHERE thread_id < 3; DELETE FROM collective WHERE thread_id < 3;"

static char printed[8192];

static struct lw_run *load(const char *first_sql, const char *second_sql)
{
	const char *const sql[] = {first_sql, second_sql};
	const char *const names[] = {"recA.lapwing", "recB.lapwing"};
	char path[2][128];
	const char *paths[] = {path[0], path[1]};
	struct lw_run *run;

	for (int i = 0; i < 2; i++) {
		struct make_run spec = make_run_job(2, 3);

		spec.extra_sql = sql[i];
		snprintf(path[i], sizeof(path[i]), "%s", run_fixture_path(names[i]));
		remove(path[i]);
		make_run_write(path[i], &spec);
	}
	assert_int_equal(lw_run_load(paths, 2, LW_STORE_READ, &run), LW_OK);
	return run;
}

/* eth0 of the host, which went and came again while the second looked longest; a container's eth0; another host's. */
static void a_device_counts_once_whoever_looked_at_it(void **state)
{
#define DEVICE(id, host, name, key)                                                                \
	"INSERT INTO device VALUES(" id ", " host ", 'nic', '" name "', 2, " key                   \
	", NULL, 1500, NULL, '', 'veth', 0, 0, NULL);"
#define READ_UNTIL(id, ns)                                                                         \
	"INSERT INTO counter_sample VALUES(" id ", 1, 0, 0), (" id ", 1, " ns ", 9);"
	struct lw_run *run = load(ONLY_RANK_0
		"INSERT INTO counter(id, name, unit) VALUES(1, 'tx_bytes', 'bytes');" DEVICE(
			"1", "1", "eth0", "1") READ_UNTIL("1", "500") DEVICE("2", "1", "eth0", "2")
			READ_UNTIL("2", "500") DEVICE("3", "1", "eth1", "1"),
		ONLY_RANK_1
		"INSERT INTO counter(id, name, unit) VALUES(1, 'tx_bytes', 'bytes');"
		"INSERT INTO host VALUES(7, 'far', 'another boot', 'monotonic');" DEVICE(
			"1", "1", "eth1", "1") DEVICE("2", "1", "eth0", "1") READ_UNTIL("2", "900")
			DEVICE("3", "1", "eth0", "1") READ_UNTIL("3", "100")
				DEVICE("4", "7", "eth0", "1"));
	static const int32_t same_as[] = {4, 1, 2, 2, 4, 4, 6};

	(void)state;
	assert_int_equal(run->nics.n, sizeof(same_as) / sizeof(same_as[0]));
	for (size_t i = 0; i < run->nics.n; i++)
		assert_int_equal(run->nics.at[i].same_as, same_as[i]);
	lw_run_free(run);
}

/* The rest of capture @id: 1600 packets with 4 MB, from 0 to a second. */
#define REST(id, host)                                                                             \
	"INSERT INTO capture VALUES(" id ", " host                                                 \
	", 'lo', '', 'live', 'EN10MB', 136, 0, 1000000000, 1600, 0, 0, 0, 0, 0, 100, NULL);"       \
	"INSERT INTO flow VALUES(1" id ", " id                                                     \
	", '', '', 0, '', 0, NULL, NULL, NULL, NULL, 1, 0, NULL, 0, 0);"                           \
	"INSERT INTO packet_bin VALUES(1" id                                                       \
	", 0, 1600, 4100000, 1600, 4100000, 4000000, 0, 0, 0, 0, 0, 0, 0, 5, 900000000);"

static const char *print(
	void (*text)(const struct lw_run *run, FILE *out), const struct lw_run *run)
{
	FILE *out = fmemopen(printed, sizeof(printed), "w");

	assert_non_null(out);
	text(run, out);
	fclose(out);
	for (char *at = printed; *at; at++)
		*at = *at == '\n' ? ' ' : *at;
	return printed;
}

static void what_several_captures_did_not_keep_apart_counts_once(void **state)
{
	struct lw_run *run = load(ONLY_RANK_0 REST("1", "1"), ONLY_RANK_1 REST("1", "1"));
	struct lw_flow_list list;

	(void)state;
	lw_flow_list(run, 0, &list);
	assert_int_equal((int)list.all.n_frames, 1600);
	assert_int_equal((int)list.rest.payload_bytes, 4000000);
	assert_int_equal(list.rest.n_beside, 1);
	assert_int_equal(run_fixture_diag(run, "captured several times"), 0);
	print(lw_flows_text, run);
	assert_non_null(strstr(printed, "3.81 MiB in 1600 packets"));
	assert_non_null(strstr(printed, "1 other capture of that time has"));
	lw_run_free(run);
	/* another host's are others, and so are those of another time */
	run = load(ONLY_RANK_0 REST("1", "1"),
		ONLY_RANK_1 "INSERT INTO host VALUES(7, 'far', 'another boot', 'monotonic');" REST(
			"1", "7") REST("2",
			"1") "UPDATE capture SET start_ns = 2000000000, end_ns = 3000000000 WHERE id = 2;");
	lw_flow_list(run, 0, &list);
	assert_int_equal((int)list.rest.n_frames, 3 * 1600);
	assert_int_equal(list.rest.n_beside, 0);
	lw_run_free(run);
}

/* When packets were dropped, by host, and that a counter began anew. */
static void what_is_incomplete_is_told(void **state)
{
	struct lw_run *run = load(
		ONLY_RANK_0 REST("1",
			"1") "UPDATE capture SET n_dropped = 70; INSERT INTO capture_loss VALUES(1, 300000000, 400000000, 50),"
			     " (1, 600000000, 620000000, 20), (1, 900000000, 800000000, 3), (1, 990000000, 1000000000, 0);",
		ONLY_RANK_1
		"INSERT INTO counter(id, name, unit) VALUES(1, 'tx_bytes', 'bytes');" DEVICE("1",
			"1", "eth1",
			"1") "INSERT INTO counter_break VALUES(1, 1, 5, 'reset'), (1, 1, 9, 'reset'), (1, 1, 11, 'wrap');");
	const struct lw_diag *diag;
	char *json_text = NULL;
	size_t n;
	FILE *out = open_memstream(&json_text, &n);
	struct lw_json *json = lw_json_open();
	bool is_said = false;

	(void)state;
	assert_int_equal(run->capture_gaps.n, 3); /* one is damage */
	assert_int_equal(run->capture_gaps.at[0].start_ns, 300000000);
	assert_int_equal(run->capture_gaps.at[1].n, 20);
	assert_true(run->capture_gaps.at[0].clock == run->ranks.at[0].clock);
	lw_vec_foreach (diag, &run->diags)
		is_said |= !!strstr(diag->text,
			"it is incomplete in 2 intervals, 120 ms in all, from 300 ms after its start on");
	assert_true(is_said);
	assert_int_equal(run_fixture_diag(run, "counter that was reset"), 2);
	lw_json_object(json, NULL);
	lw_flows_json(json, run);
	lw_json_object_end(json);
	assert_int_equal(lw_json_close(json, out), LW_OK);
	fclose(out);
	assert_non_null(strstr(json_text, "capture_gaps"));
	assert_non_null(strstr(json_text, "600000000"));
	free(json_text);
	lw_run_free(run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_device_counts_once_whoever_looked_at_it),
		cmocka_unit_test(what_several_captures_did_not_keep_apart_counts_once),
		cmocka_unit_test(what_is_incomplete_is_told),
	};

	return cmocka_run_group_tests(tests, run_fixture_make, run_fixture_remove);
}
