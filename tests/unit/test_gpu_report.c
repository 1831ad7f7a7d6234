/* SPDX-License-Identifier: Apache-2.0 */
/* What is said of GPUs and NCCL: figures that follow from a made-up run, what is not known, who told. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/emit/gpu.h"
#include "analyzer/emit/json.h"
#include "analyzer/emit/marks.h"
#include "analyzer/reconstruct/gpu_counters.h"
#include "analyzer/reconstruct/nccl_served.h"
#include "tests/lib/make_gpu.h"
#include "tests/lib/run_fixture.h"
#include "tests/unit/gpu_run.h"
#include "tests/unit/trace_file.h"

#define MS 1e6
/* Kernels of NCCL on rank 0, and on all: of its background threads. */
#define NCCL_OF_RANK_0 " WHERE thread_id = 2"

static struct lw_run *analyze_steps(int n_steps, const struct make_gpu *gpu, const char *more)
{
	static char sql[MAKE_GPU_SQL_BYTES];
	struct make_run spec = make_run_job(2, n_steps);
	struct lw_run *run;

	spec.transport = LW_TRANSPORT_NCCL;
	if (gpu)
		spec.extra_sql = make_gpu_sql(gpu, more, sql);
	run = run_fixture_analyze(&spec);
	assert_int_equal(lw_run_gpu(run), LW_OK);
	return run;
}

static struct lw_run *analyze(const struct make_gpu *gpu, const char *more)
{
	return analyze_steps(6, gpu, more);
}

static struct lw_gpu_summary summarize(const struct lw_run *run)
{
	struct lw_gpu_summary summary;

	assert_int_equal(lw_gpu_summarize(run, &summary), LW_OK);
	return summary;
}

static void assert_ns(struct lw_figure figure, double ns)
{
	if (!(fabs(figure.value - ns) < 1))
		fail_msg("%.0f, not %.0f", figure.value, ns);
}

static const char *text_of(const struct lw_run *run)
{
	static char text[1 << 16];
	FILE *out = fmemopen(text, sizeof(text), "w");

	assert_non_null(out);
	text[0] = 0;
	lw_gpu_text(run, LW_NONE, out);
	fclose(out);
	return text;
}

static void assert_says(const char *text, const char *wanted)
{
	if (!strstr(text, wanted))
		fail_msg("\"%s\" is not in \"%s\"", wanted, text);
}

static void the_parts_of_a_step_are_those_of_the_kernels(void **state)
{
	struct make_gpu gpu = make_gpu_job();
	struct lw_run *run = analyze(&gpu, NULL);
	struct lw_gpu_summary summary = summarize(run);

	(void)state;
	assert_int_equal(summary.ranks.n, 2);
	for (size_t r = 0; r < 2; r++) {
		const struct lw_gpu_rank_figures *rank = &summary.ranks.at[r];

		assert_int_equal(rank->n_steps, 5); /* the first is left out */
		assert_ns(lw_summary_exact(rank->whole_ns, LW_MEASURED), 34.3 * MS);
		/* [0.1, 10) [10.1, 12) [12.1, 30), and of NCCL [12.8, 20.8) [30.8, 33.8) */
		assert_ns(rank->compute_ns, 29.7 * MS);
		assert_ns(rank->comm_ns, 11 * MS);
		assert_ns(rank->hidden_ns, 8 * MS);
		assert_ns(rank->exposed_ns, 3 * MS);
		assert_ns(rank->idle_ns, 1.6 * MS);
		assert_ns(rank->copy_ns, 0.05 * MS);
		assert_ns(rank->sync_lost_ns, 0);
		assert_int_equal(rank->exposed_ns.how, LW_MEASURED);
		assert_int_equal(rank->sync_lost_ns.how, LW_ASSUMED); /* at most */
	}
	assert_null(strstr(lw_gpu_compute_words(run), "thread"));
	assert_int_equal(summary.kernels.n, 3);
	assert_int_equal(summary.kernels.at[0]->n, 2 * 2 * 5);
	assert_int_equal(summary.kernels.at[0]->total_ns, (int64_t)(2 * 5 * 27.8 * MS));
	lw_gpu_summary_done(&summary);
	lw_run_free(run);
}

static void of_a_run_without_steps_all_is_said(void **state)
{
	struct make_gpu gpu = make_gpu_job();
	struct lw_run *run = analyze_steps(1, &gpu,
		"DELETE FROM batch; DELETE FROM batch_tensor; DELETE FROM ready; DELETE FROM cycle;"
		"DELETE FROM wait; DELETE FROM setting; DELETE FROM collective; DELETE FROM nccl_op;");
	struct lw_gpu_summary summary = summarize(run);

	(void)state;
	assert_int_equal(run->ranks.at[0].steps.n, 0);
	assert_int_equal(summary.ranks.at[0].n_steps, 0);
	assert_ns(summary.ranks.at[0].comm_ns, 11 * MS);
	assert_true(isfinite(summary.ranks.at[0].compute_ns.value));
	assert_says(text_of(run), "from the first of a rank to its last");
	lw_gpu_summary_done(&summary);
	lw_run_free(run);
}

static void waiting_for_a_rank_is_no_time_of_service(void **state)
{
	struct make_gpu gpu = make_gpu_job();
	struct lw_run *run =
		analyze(&gpu, "UPDATE kernel SET start_ns = start_ns - 2000000" NCCL_OF_RANK_0 ";");
	struct lw_gpu_summary summary = summarize(run);
	const struct lw_gpu_nccl *row = summary.nccl.at;

	(void)state;
	assert_int_equal(summary.nccl.n, 1);
	assert_int_equal(row->n, 2 * 2 * 5);
	assert_int_equal(row->n_timed, row->n);
	assert_true(row->is_matched);
	assert_ns(row->kernel_ns, (5.5 + 7.5) / 2 * MS);
	assert_ns(row->service_ns, 5.5 * MS);
	/* 4004000 and 400000 bytes in 8 and 3 ms; 2 (N - 1) / N is 1 */
	assert_true(fabs(row->algbw_bytes_per_s.value - 4404000 / 0.011) < 1);
	assert_true(fabs(row->busbw_bytes_per_s.value - 4404000 / 0.011) < 1);
	lw_gpu_summary_done(&summary);
	lw_run_free(run);
}

static void an_operation_that_a_rank_does_not_have_is_said(void **state)
{
	struct make_gpu gpu = make_gpu_job();
	struct lw_run *run =
		analyze(&gpu, "DELETE FROM nccl_op WHERE thread_id = 4 AND serial = 7;");
	struct lw_gpu_summary summary = summarize(run);

	(void)state;
	assert_int_equal(summary.nccl.at[0].n, 2 * 2 * 5 - 1);
	assert_false(summary.nccl.at[0].is_matched);
	assert_says(text_of(run), "at least.");
	lw_gpu_summary_done(&summary);
	lw_run_free(run);
}

static void operations_without_kernels_have_no_bandwidth(void **state)
{
	struct make_gpu gpu = make_gpu_job();
	struct lw_run *run = analyze(&gpu,
		"DELETE FROM kernel; DELETE FROM copy; DELETE FROM gpu_sync; DELETE FROM launch;");
	struct lw_gpu_summary summary = summarize(run);

	(void)state;
	assert_true(lw_gpu_is_there(run));
	assert_false(lw_gpu_is_time(run));
	assert_int_equal(summary.ranks.n, 0);
	assert_int_equal(summary.nccl.at[0].n_timed, 0);
	assert_true(isnan(summary.nccl.at[0].busbw_bytes_per_s.value));
	assert_non_null(summary.nccl.at[0].busbw_bytes_per_s.why);
	assert_says(text_of(run), "not known, no kernel of them was recorded");
	assert_says(lw_gpu_compute_words(run), "next wait of the training thread (no GPU records)");
	lw_gpu_summary_done(&summary);
	lw_run_free(run);
}

static void where_one_rank_was_seen_both_kinds_of_computing_are_said(void **state)
{
	struct make_gpu gpu = make_gpu_job();
	struct lw_run *run = analyze(&gpu,
		"DELETE FROM kernel WHERE thread_id > 2; DELETE FROM copy WHERE thread_id > 2;");
	struct lw_gpu_summary summary = summarize(run);

	(void)state;
	assert_int_equal(summary.ranks.n, 1);
	assert_true(lw_gpu_is_time(run));
	assert_says(lw_gpu_compute_words(run),
		"a kernel computes on the rank's GPU, and of ranks without GPU records");
	lw_gpu_summary_done(&summary);
	lw_run_free(run);
}

static void without_launches_nothing_is_said_of_lost_overlap(void **state)
{
	struct make_gpu gpu = make_gpu_job();
	struct lw_gpu_summary summary;
	struct lw_run *run;

	(void)state;
	gpu.no_launches = true;
	gpu.stall_ns = 6000000;
	run = analyze(&gpu, "DELETE FROM gpu_sync;");
	summary = summarize(run);
	assert_true(isnan(summary.ranks.at[0].sync_lost_ns.value));
	assert_non_null(summary.ranks.at[0].sync_lost_ns.why);
	assert_null(strstr(text_of(run), "Overlap lost"));
	lw_gpu_summary_done(&summary);
	lw_run_free(run);
}

static void lost_overlap_names_the_call_and_the_kernel(void **state)
{
	struct make_gpu gpu = make_gpu_job();
	const struct lw_gpu_lost *lost;
	struct lw_gpu_summary summary;
	struct lw_run *run;

	(void)state;
	gpu.stall_ns = 6000000;
	gpu.launch_ns = 50000;
	run = analyze(&gpu, NULL);
	summary = summarize(run);
	/* NCCL runs from 12.8 ms on, the host waits from 12 to 18, what computes next begins at 18.1 */
	assert_ns(summary.ranks.at[0].sync_lost_ns, 5.3 * MS);
	/* step 0 is in no mean, so nothing of it is named */
	assert_int_equal(run->gpu.n_lost, 2 * 5);
	lw_vec_foreach (lost, &run->gpu.lost)
		assert_true(lost->step > 0);
	assert_says(text_of(run), "up to 5.30 ms a step of its exposed communication");
	assert_says(text_of(run), "cudaStreamSynchronize");
	assert_says(text_of(run), "12.1 ms into step ");
	lw_gpu_summary_done(&summary);
	lw_run_free(run);
}

static void who_told_and_who_could_not(void **state)
{
	struct make_gpu gpu = make_gpu_job();
	struct lw_run *run = analyze(&gpu,
		"INSERT INTO string VALUES(5101, 'cupti'), (5102, 'held by nsys'), (5103, 'nvtx'), (5104, 'mpi');"
		"INSERT INTO loss VALUES(1, 1, 4, 7, 'cupti: kinds'), (1, 1, 4, 5, 'gloo');"
		"INSERT INTO hook VALUES(1, 0, 5101, 1, 0, NULL), (2, 0, 5101, 3, 0, 5102), (1, 0, 5103, 2, 0, NULL), (1, 0, 5104, 1, 9, NULL);");
	char text[LW_GPU_TEXT_BYTES];

	(void)state;
	assert_int_equal(run->told.n, 3);
	assert_string_equal(lw_gpu_source_text(run, 0, text), "CUPTI: told in 1 process");
	assert_string_equal(
		lw_gpu_source_text(run, 1, text), "CUPTI: NOT in place in 1 process: held by nsys");
	assert_string_equal(lw_gpu_source_text(run, 2, text), "NVTX: absent in 1 process");
	assert_null(lw_gpu_source_text(run, 3, text));
	assert_string_equal(lw_gpu_nccl_told(run, text), "24 by plugin");
	assert_says(text_of(run), "Who told of GPUs and NCCL");
	assert_says(text_of(run), "cupti: kinds");
	assert_null(strstr(text_of(run), "gloo")); /* that is said elsewhere */
	lw_run_free(run);
}

static void what_nvml_counted_is_of_the_steps_of_the_rank(void **state)
{
	struct make_gpu gpu = make_gpu_job();
	struct lw_run *run = analyze(&gpu, MAKE_GPU_COUNTERS);
	const struct lw_rank *rank = &run->ranks.at[0];
	double middle_s = (double)(rank->steps.at[1].start_ns + rank->steps.at[5].end_ns) / 2e9;
	struct lw_gpu_counters counters;

	(void)state;
	assert_int_equal(lw_gpu_counters(run, &counters), LW_OK);
	assert_int_equal(counters.at.n, 2);
	assert_int_equal(counters.at.at[0].rank, 0);
	assert_int_equal(counters.at.at[0].n_ranks, 1);
	assert_int_equal(counters.at.at[1].rank, LW_NONE);
	assert_true(fabs(counters.at.at[0].busy_frac - 0.9) < 1e-9);
	/* it rises by half a GHz a second */
	assert_true(fabs(counters.at.at[0].sm_clock_khz - 1e6 - 5e5 * middle_s) < 1);
	assert_true(fabs(counters.at.at[0].nvlink_tx_bytes_per_s - 1e8) < 1);
	assert_true(fabs(counters.at.at[0].held_frac[LW_GPU_HOLD_sw_thermal] - 0.5) < 1e-9);
	assert_true(fabs(counters.at.at[0].held_frac[LW_GPU_HOLD_sw_power]) < 1e-9);
	assert_true(isnan(counters.at.at[0].held_frac[LW_GPU_HOLD_sync_boost]));
	assert_true(isnan(counters.at.at[0].pcie_tx_bytes_per_s));
	assert_says(text_of(run), "GPUs while steps went on, by NVML");
	assert_says(text_of(run),
		"0000:3b:00.0: its temperature (software) held its clock down for 50 % of the");
	lw_vec_free(&counters.at);
	lw_run_free(run);
}

/* Two recordings of one host; GPUs of one make have one name. */
static void gpus_are_told_apart_by_their_place(void **state)
{
	static char sql[MAKE_GPU_SQL_BYTES];
	static const char *const others[] = {"72", "71"};
	struct make_run spec = make_run_job(1, 4);
	struct make_gpu gpu = make_gpu_job();
	struct lw_gpu_counters counters;
	char more[4096], files[2][128];
	const char *paths[2] = {files[0], files[1]};
	struct lw_run *run;

	(void)state;
	for (int i = 0; i < 2; i++) {
		snprintf(files[i], sizeof(files[i]), "%s",
			run_fixture_path(i ? "b.lapwing" : "a.lapwing"));
		snprintf(more, sizeof(more),
			"%sDELETE FROM device WHERE id = %s;"
			"DELETE FROM counter_sample WHERE device_id = %s;",
			MAKE_GPU_COUNTERS, others[i], others[i]);
		spec.extra_sql = make_gpu_sql(&gpu, more, sql);
		make_run_write(files[i], &spec);
	}
	assert_int_equal(lw_run_load(paths, 2, LW_STORE_READ, &run), LW_OK);
	assert_int_equal(lw_gpu_counters(run, &counters), LW_OK);
	assert_int_equal(counters.at.n, 2);
	lw_vec_free(&counters.at);
	lw_run_free(run);
}

static void a_run_without_gpus_has_no_section(void **state)
{
	struct lw_run *run = analyze(NULL, NULL);
	struct lw_json *json = lw_json_open();
	char text[64] = "";
	FILE *out = fmemopen(text, sizeof(text), "w");

	(void)state;
	assert_string_equal(text_of(run), "");
	lw_json_object(json, NULL);
	assert_int_equal(lw_gpu_json(json, run), LW_OK);
	lw_json_object_end(json);
	assert_int_equal(lw_json_close(json, out), LW_OK);
	fclose(out);
	assert_string_equal(text, "{\n  \"gpu\": null\n}\n");
	lw_run_free(run);
}

static void lines_are_no_wider_than_a_page(void **state)
{
	struct make_gpu gpu = make_gpu_job();
	const char *line;
	struct lw_run *run;

	(void)state;
	gpu.stall_ns = 6000000;
	gpu.launch_ns = 50000;
	gpu.has_two_protocols = true;
	run = analyze(
		&gpu, "UPDATE string SET text = text || hex(zeroblob(400)) WHERE id >= 5003;");
	for (line = text_of(run); *line; line += strcspn(line, "\n") + 1)
		if (strcspn(line, "\n") > 80 && !strstr(line, "000000"))
			fail_msg("%.*s", (int)strcspn(line, "\n"), line);
	lw_run_free(run);
}

static void bus_bandwidth_is_that_of_nccl_tests(void **state)
{
	(void)state;
	assert_true(fabs(lw_nccl_bus_factor(LW_NCCL_ALLREDUCE, 8) - 1.75) < 1e-9);
	assert_true(fabs(lw_nccl_bus_factor(LW_NCCL_ALLGATHER, 8) - 0.875) < 1e-9);
	assert_true(fabs(lw_nccl_bus_factor(LW_NCCL_REDUCESCATTER, 4) - 0.75) < 1e-9);
	assert_true(fabs(lw_nccl_bus_factor(LW_NCCL_BROADCAST, 4) - 1) < 1e-9);
	assert_true(isnan(lw_nccl_bus_factor(LW_NCCL_ALLREDUCE, 0)));
	assert_true(isnan(lw_nccl_bus_factor(LW_NCCL_OTHER, 4)));
	/* every rank gives 100 bytes: 800 are gathered */
	assert_true(fabs(lw_nccl_size(LW_NCCL_ALLGATHER, 0, 100, 8) - 800) < 1e-9);
	assert_true(fabs(lw_nccl_size(LW_NCCL_ALLREDUCE, 0, 100, 8) - 100) < 1e-9);
}

/* A step is a name of its own to a profiler; the second rank loads for longer. */
static void names_that_count_are_one_and_ranks_that_differ_are_told(void **state)
{
	static char text[1 << 16];
	char input[2][128];
	const char *paths[] = {input[0], input[1]};
	struct lw_run *run;
	FILE *out;

	(void)state;
	for (int r = 0; r < 2; r++) {
		struct trace trace;

		snprintf(input[r], sizeof(input[r]), "%s",
			run_fixture_path(r ? "names1.json" : "names0.json"));
		trace_begin(&trace, input[r], r, 2);
		for (int s = 0; s < 15; s++) {
			int at = 1000 + 10000 * s;

			trace_numbered(&trace, "ProfilerStep#", s, at, 9990);
			trace_range(&trace, "load", at + 10, r ? 4000 : 50);
			trace_range(&trace, "conv2d", at + 5000, 1000);
			trace_kernel(&trace, at + 5000, at + 5010, 1000);
		}
		trace_end(&trace);
	}
	run = gpu_run_import(paths, 2);
	out = fmemopen(text, sizeof(text), "w");
	assert_non_null(out);
	lw_marks_text(run, out);
	fclose(out);
	assert_says(text, "       30    300 ms   9.99 ms   9.99 ms     0  ProfilerStep#\n");
	assert_null(strstr(text, "ProfilerStep#1"));
	assert_says(text, "  load\n");
	assert_says(text, "  mean 50.0 us on rank 0, 4.00 ms on rank 1\n");
	assert_says(text, "     0  conv2d\n  rank: that had");
	lw_run_free(run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_parts_of_a_step_are_those_of_the_kernels),
		cmocka_unit_test(of_a_run_without_steps_all_is_said),
		cmocka_unit_test(waiting_for_a_rank_is_no_time_of_service),
		cmocka_unit_test(an_operation_that_a_rank_does_not_have_is_said),
		cmocka_unit_test(operations_without_kernels_have_no_bandwidth),
		cmocka_unit_test(where_one_rank_was_seen_both_kinds_of_computing_are_said),
		cmocka_unit_test(without_launches_nothing_is_said_of_lost_overlap),
		cmocka_unit_test(lost_overlap_names_the_call_and_the_kernel),
		cmocka_unit_test(who_told_and_who_could_not),
		cmocka_unit_test(what_nvml_counted_is_of_the_steps_of_the_rank),
		cmocka_unit_test(gpus_are_told_apart_by_their_place),
		cmocka_unit_test(a_run_without_gpus_has_no_section),
		cmocka_unit_test(lines_are_no_wider_than_a_page),
		cmocka_unit_test(bus_bandwidth_is_that_of_nccl_tests),
		cmocka_unit_test(names_that_count_are_one_and_ranks_that_differ_are_told),
	};

	return cmocka_run_group_tests(tests, run_fixture_make, run_fixture_remove);
}
