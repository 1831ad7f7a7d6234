/* SPDX-License-Identifier: Apache-2.0 */
/*
 * golden_report.c - whole reports, text and JSON, of runs that make_run.c describes.
 *
 * tests/golden/report/CASE.{txt,json} are what people and programs get. LAPWING_UPDATE_GOLDEN=1 writes
 * them anew: read the difference before it is committed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/emit/report.h"
#include "tests/lib/make_gpu.h"
#include "tests/lib/run_fixture.h"

static char *read_file(const char *path)
{
	FILE *file = fopen(path, "r");
	char *text = calloc(1, 1 << 20);

	assert_non_null(text);
	if (!file)
		fail_msg("%s is missing: LAPWING_UPDATE_GOLDEN=1 makes it", path);
	assert_true(fread(text, 1, (1 << 20) - 1, file) > 0);
	fclose(file);
	return text;
}

static void check(const char *got_path, const char *name, const char *extension)
{
	char path[256], command[700], *got = read_file(got_path), *expected;

	snprintf(path, sizeof(path), "%s/tests/golden/report/%s.%s", LAPWING_SOURCE_DIR, name,
		extension);
	if (getenv("LAPWING_UPDATE_GOLDEN")) {
		snprintf(command, sizeof(command), "cp %s %s", got_path, path);
		assert_int_equal(system(command), 0);
	}
	expected = read_file(path);
	for (const char *line = got, *end; !strcmp(extension, "txt") && (end = strchr(line, '\n'));
		line = end + 1)
		assert_true(end - line < 80);
	if (strcmp(got, expected)) {
		snprintf(command, sizeof(command), "diff -u %s %s", path, got_path);
		fail_msg("%s differs (diff says %d)", path, system(command));
	}
	free(got);
	free(expected);
}

static void report(const struct make_run *spec, const char *name, bool with_json)
{
	struct lw_report_options options = {.with_steps = true, .rank = LW_NONE};
	struct lw_analysis_options analysis_options = {.baseline_step_ns = 30000000};
	char run_path[128], out_path[128];
	const char *path = run_path;
	struct lw_analysis *analysis;
	FILE *out;

	snprintf(run_path, sizeof(run_path), "%s", run_fixture_path("run.lapwing"));
	snprintf(out_path, sizeof(out_path), "%s", run_fixture_path("report.out"));
	make_run_write(run_path, spec);
	assert_int_equal(lw_analysis_open(&path, 1, &analysis_options, &analysis), LW_OK);
	out = fopen(out_path, "w");
	assert_non_null(out);
	lw_report_text(analysis, &options, out);
	fclose(out);
	check(out_path, name, "txt");
	if (!with_json) {
		lw_analysis_close(analysis);
		return;
	}
	out = fopen(out_path, "w");
	assert_non_null(out);
	assert_int_equal(lw_report_json(analysis, out), LW_OK);
	fclose(out);
	check(out_path, name, "json");
	lw_analysis_close(analysis);
}

static void a_horovod_job_with_one_slow_rank(void **state)
{
	struct make_run spec = make_run_job(3, 8);

	(void)state;
	spec.late_ns[2] = 5000000;
	spec.n_broadcasts = 2;
	/* its program says what it does there */
	spec.extra_sql =
		"INSERT INTO string VALUES(900, 'load');"
		"INSERT INTO range SELECT min(t.id), w.seq, w.end_ns, w.end_ns + CASE t.process_id WHEN 3 THEN 5100000 ELSE 90000 END, 3, 900, 0"
		" FROM wait w JOIN thread t ON t.id = w.thread_id GROUP BY t.process_id, w.seq;";
	report(&spec, "horovod_slow_rank", true);
}

static void a_job_that_lost_records_and_a_rank(void **state)
{
	struct make_run spec = make_run_job(2, 6);

	(void)state;
	spec.size = 3;
	spec.has_lost = true;
	spec.lost_rank = 1;
	spec.lost_step = 3;
	spec.extra_sql = "INSERT INTO loss VALUES(2, 4, 1, 5, '')";
	report(&spec, "incomplete", false);
}

static void a_ddp_job_without_waits(void **state)
{
	struct make_run spec = make_run_job(2, 6);

	(void)state;
	spec.framework = LW_FRAMEWORK_TORCH_DDP;
	spec.transport = LW_TRANSPORT_GLOO;
	spec.no_cycles = spec.no_waits = true;
	spec.extra_sql = "DELETE FROM setting";
	report(&spec, "ddp_without_waits", false);
}

/* Sizes enough to say how far the fitted cost is off. */
static void a_job_of_four_sizes(void **state)
{
	static const struct make_tensor tensors[] = {
		{"allreduce.a", 4000000, 10000000, 0},
		{"allreduce.b", 40000, 20000000, 1},
		{"allreduce.c", 400000, 30000000, 2},
		{"allreduce.d", 1000000, 40000000, 3},
	};
	struct make_run spec = make_run_job(2, 6);

	(void)state;
	spec.tensors = tensors;
	spec.n_tensors = 4;
	spec.wire_ns[0] = 9000000;
	spec.wire_ns[1] = 1100000;
	spec.wire_ns[2] = 1700000;
	spec.wire_ns[3] = 3100000;
	report(&spec, "four_sizes", false);
}

/* From 400 ms on the window of rank 1 holds rank 0 back, and rank 1's NIC is paused now and then. */
static void a_network_that_slows(void **state)
{
	static const struct make_tensor tensors[] = {
		{"grad.a", 300000, 5000000, 0},
		{"grad.b", 200000, 20000000, 1},
	};
	struct make_run spec = make_run_job(2, 24);

	(void)state;
	spec.tensors = tensors;
	spec.n_tensors = 2;
	spec.wire_ns[0] = 6000000;
	spec.wire_ns[1] = 4000000;
	spec.first_ns = 10000000;
	spec.transport = LW_TRANSPORT_GLOO;
	spec.extra_sql =
		"UPDATE collective SET end_ns = end_ns + 3000000 WHERE start_ns > 400000000;"
		"UPDATE batch SET end_ns = end_ns + 3000000 WHERE start_ns > 400000000;"
		"UPDATE wait SET end_ns = end_ns + 3000000 WHERE start_ns > 400000000;"
		"WITH two(r) AS (VALUES(1), (2)) INSERT INTO device SELECT r, 1, 'nic', 'eth' || (r - 1), 2,"
		" r, NULL, 1500, 125000000, '10.0.0.' || r, 'ixgbe', 0, 0, NULL FROM two;"
		"INSERT INTO counter(id, name, unit) VALUES(1, 'rx_pfc_pause_prio3', 'frames');"
		"WITH RECURSIVE t(i) AS (VALUES(0) UNION ALL SELECT i + 1 FROM t WHERE i < 40) INSERT INTO counter_sample"
		" SELECT 2, 1, i * 20000000, max(0, (i - 20) / 3) * 9 FROM t;"
		"WITH two(r) AS (VALUES(1), (2)) INSERT INTO socket SELECT r, r, 1, 0, '10.0.0.' || r, 5000 + r, '10.0.0.' || (3 - r), 5003 - r FROM two;"
		"INSERT INTO tcp_connection SELECT process_id, 1, process_id, 7, process_id, local_address, local_port, peer_address, peer_port,"
		" process_id, 0, 1, 1 FROM socket;"
		"WITH RECURSIVE two(r) AS (VALUES(1), (2)), t(i) AS (VALUES(0) UNION ALL SELECT i + 1 FROM t WHERE i < 40) INSERT INTO socket_sample"
		" SELECT r, 1, i * 20000000, 1, i * 400000, i * 400000, 1, 1 FROM two, t;"
		"WITH RECURSIVE two(r) AS (VALUES(1), (2)), t(i) AS (VALUES(0) UNION ALL SELECT i + 1 FROM t WHERE i < 40) INSERT INTO tcp_info_sample"
		" SELECT r, i * 20000000, 300000, 100000, i * 400000, i * 400000, i * 400000, 0, i / 30, i * 210, i * 210, 0,"
		" i * 9000000, CASE r WHEN 1 THEN max(0, i - 20) * 7000000 ELSE 0 END, 0, 10, 0 FROM two, t;";
	report(&spec, "held", true);
}

/* Ranks 1 and 2 exchange with rank 0 only, which is one after the other with both. */
static void a_server(void **state)
{
	struct make_run spec = make_run_job(3, 24);

	(void)state;
	spec.first_ns = 10000000;
	spec.extra_sql =
		"WITH three(r) AS (VALUES(1), (2), (3)) INSERT INTO device SELECT r, 1, 'nic', 'eth' || (r - 1), 2,"
		" r, NULL, 1500, NULL, '10.0.0.' || r, 'veth', 0, 0, NULL FROM three;"
		/* sockets 1 and 2: from the workers; 3 and 4: to them */
		"WITH two(w) AS (VALUES(1), (2)) INSERT INTO socket SELECT w, w + 1, w, 0, '10.0.0.' || (w + 1), 40000 + w, '10.0.0.1', 5000 + w FROM two"
		" UNION ALL SELECT w + 2, 1, w + 2, 0, '10.0.0.1', 5000 + w, '10.0.0.' || (w + 1), 40000 + w FROM two;"
		"INSERT INTO tcp_connection SELECT socket, 1, process_id, 7, process_id, local_address, local_port, peer_address, peer_port,"
		" process_id, 0, 1, 1 FROM socket;"
		"WITH RECURSIVE t(i) AS (VALUES(0) UNION ALL SELECT i + 1 FROM t WHERE i < 40) INSERT INTO socket_sample"
		" SELECT process_id, socket, i * 20000000, 1, i * 2000000, i * 2000000, 1, 1 FROM socket, t;"
		"WITH RECURSIVE t(i) AS (VALUES(0) UNION ALL SELECT i + 1 FROM t WHERE i < 40) INSERT INTO tcp_info_sample"
		" SELECT socket, i * 20000000, 300000, 100000, i * 2000000, i * 2000000, i * 2000000, 0, 0, i * 1400, i * 1400, 0,"
		" i * 7000000, 0, 0, 10, 0 FROM socket, t;";
	report(&spec, "server", false);
}

static void a_plain_program(void **state)
{
	struct make_run spec = make_run_job(2, 6);

	(void)state;
	spec.framework = LW_FRAMEWORK_NONE;
	spec.extra_sql = "DELETE FROM batch; DELETE FROM batch_tensor; DELETE FROM ready;"
			 "DELETE FROM cycle; DELETE FROM wait; DELETE FROM setting";
	report(&spec, "plain", false);
}

static void a_run_without_a_collective(void **state)
{
	struct make_run spec = make_run_job(1, 1);

	(void)state;
	spec.extra_sql = "DELETE FROM batch; DELETE FROM batch_tensor; DELETE FROM ready;"
			 "DELETE FROM cycle; DELETE FROM wait; DELETE FROM setting;"
			 "DELETE FROM collective";
	report(&spec, "nothing", true);
}

/* In each step the host waits for its device, though it could launch; two protocols. CUPTI and the plugin told. */
static void a_job_on_gpus(void **state)
{
	static char sql[MAKE_GPU_SQL_BYTES];
	struct make_run spec = make_run_job(2, 6);
	struct make_gpu gpu = make_gpu_job();

	(void)state;
	spec.transport = LW_TRANSPORT_NCCL;
	gpu.stall_ns = 6000000;
	gpu.launch_ns = 50000;
	gpu.has_two_protocols = true;
	spec.extra_sql = make_gpu_sql(&gpu,
		"INSERT INTO string VALUES(5101, 'cupti'), (5102, 'nccl_plugin'), (5103, 'CUPTI 13.0');"
		"INSERT INTO hook SELECT id, start_ns, 5101, 1, 0, 5103 FROM process;"
		"INSERT INTO hook SELECT id, start_ns, 5102, 1, 0, NULL FROM process;" MAKE_GPU_COUNTERS,
		sql);
	report(&spec, "gpu", true);
}

/* As `lapwing import` makes it of a file that tcpdump wrote. */
static void an_imported_capture(void **state)
{
	struct make_run spec = make_run_job(1, 1);

	(void)state;
	spec.extra_sql =
		"DELETE FROM batch; DELETE FROM batch_tensor; DELETE FROM ready; DELETE FROM cycle; DELETE FROM wait;"
		"DELETE FROM setting; DELETE FROM collective; DELETE FROM thread; DELETE FROM process;"
		"UPDATE run SET source = 'pcap';"
		"INSERT INTO capture VALUES(1, 1, 'a.pcap', '', 'file', 'EN10MB', 128, 0, 2000000000, 99, 0, 0, 0, 0, 2, 1000, NULL);"
		"INSERT INTO flow VALUES(4, 1, 'tcp', '10.0.0.1', 5000, '10.0.0.2', 80, NULL, NULL, NULL, NULL, 0, 0, 1448, 4096, 0),"
		" (5, 1, 'tcp', '10.0.0.2', 80, '10.0.0.1', 5000, NULL, NULL, NULL, NULL, 0, 0, NULL, 0, 2),"
		" (6, 1, 'roce', '2001:db8::1', 49152, '2001:db8::2', 4791, 17, NULL, NULL, NULL, 0, 0, NULL, 0, 0),"
		" (7, 1, 'udp', '2001:db8::1', 53, '2001:db8::2', 4000, NULL, NULL, NULL, NULL, 0, 0, NULL, 0, 0),"
		" (1, 1, 'tcp', '', 0, '', 0, NULL, NULL, NULL, NULL, 1, 0, NULL, 0, 0);"
		"INSERT INTO packet_bin VALUES(4, 0, 9, 90000, 70, 95000, 90000, 3, 3000, 2500, 0, 0, 0, 0, 100000, 900000),"
		" (4, 1500000000, 1, 1500, 1, 1500, 1448, 0, 0, 0, 0, 0, 0, 0, 1500000000, 1500000000),"
		" (5, 0, 5, 400, 5, 400, 0, 0, 0, 0, 0, 0, 0, 0, 200000, 700000),"
		" (6, 0, 8, 8800, 8, 8800, 8192, 0, 0, 0, 0, 1, 0, 0, 0, 500000),"
		" (7, 0, 1, 120, 1, 120, 60, 0, 0, 0, 0, 0, 0, 0, 300000, 300000),"
		" (1, 0, 7, 700, 7, 700, 100, 0, 0, 0, 0, 0, 0, 0, 0, 999999999)";
	report(&spec, "capture", true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_horovod_job_with_one_slow_rank),
		cmocka_unit_test(a_job_that_lost_records_and_a_rank),
		cmocka_unit_test(a_ddp_job_without_waits),
		cmocka_unit_test(a_job_of_four_sizes),
		cmocka_unit_test(a_network_that_slows),
		cmocka_unit_test(a_server),
		cmocka_unit_test(a_plain_program),
		cmocka_unit_test(a_run_without_a_collective),
		cmocka_unit_test(an_imported_capture),
		cmocka_unit_test(a_job_on_gpus),
	};

	return cmocka_run_group_tests(tests, run_fixture_make, run_fixture_remove);
}
