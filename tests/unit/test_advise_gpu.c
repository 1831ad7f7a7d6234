/* SPDX-License-Identifier: Apache-2.0 */
/* What is advised of GPUs, each with what bears it out, and that it is not where nothing does. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/advise/advise.h"
#include "tests/lib/make_gpu.h"
#include "tests/lib/run_fixture.h"

static char said[2 * LW_ADVICE_TEXT_BYTES];
static bool is_minor; /* of what was said last */
static struct lw_finding last;
static char headline[LW_ADVICE_TEXT_BYTES], lines[4 * LW_ADVICE_TEXT_BYTES]; /* of the same list */

/* All that @id says of the job, "" = nothing. */
static const char *advise_spec(const struct make_run *spec, const char *id)
{
	struct lw_run *run = run_fixture_analyze(spec);
	const struct lw_finding *finding;
	struct lw_advice_list list;

	said[0] = '\0';
	assert_int_equal(lw_run_gpu(run), LW_OK);
	assert_int_equal(lw_run_cores(run), LW_OK);
	assert_int_equal(lw_run_network(run), LW_OK);
	assert_int_equal(lw_advise(run, &list), LW_OK);
	lw_vec_foreach (finding, &list.findings)
		if (!strcmp(finding->id, id)) {
			snprintf(said + strlen(said), sizeof(said) - strlen(said), "%s\n",
				finding->text);
			is_minor = finding->is_minor;
			last = *finding;
		}
	lw_advise_headline(&list, headline);
	lw_advise_lines(&list, lines, sizeof(lines));
	lw_advice_list_free(&list);
	lw_run_free(run);
	return said;
}

static const char *advise_ranks(
	int n_ranks, const struct make_gpu *gpu, int n_steps, const char *more, const char *id)
{
	static char sql[MAKE_GPU_SQL_BYTES];
	struct make_run spec = make_run_job(n_ranks, n_steps);

	spec.transport = LW_TRANSPORT_NCCL;
	if (gpu)
		spec.extra_sql = make_gpu_sql(gpu, more, sql);
	return advise_spec(&spec, id);
}

static const char *advise_of(
	const struct make_gpu *gpu, int n_steps, const char *more, const char *id)
{
	return advise_ranks(2, gpu, n_steps, more, id);
}

static void assert_says(const char *text, const char *wanted)
{
	if (!strstr(text, wanted))
		fail_msg("\"%s\" is not in \"%s\"", wanted, text);
}

static void a_usual_job_and_one_without_gpus_are_left_alone(void **state)
{
	static const char *const ids[] = {
		"gpu.stream", "gpu.copies", "gpu.idle", "gpu.host", "gpu.nccl"};
	struct make_gpu gpu = make_gpu_job();

	(void)state;
	for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
		assert_string_equal(advise_of(&gpu, 8, NULL, ids[i]), "");
		assert_string_equal(advise_of(NULL, 8, NULL, ids[i]), "");
	}
	assert_string_equal(advise_of(NULL, 8, NULL, "gpu.sync"), "");
	assert_says(advise_of(&gpu, 8, NULL, "gpu.sync"), "no rank loses 2 % of a step");
	assert_true(is_minor);
}

static void a_wait_that_costs_overlap_is_said_with_its_call(void **state)
{
	struct make_gpu gpu = make_gpu_job();

	(void)state;
	gpu.stall_ns = 6000000;
	gpu.launch_ns = 50000;
	assert_says(advise_of(&gpu, 8, NULL, "gpu.sync"),
		"waits for its device (cudaStreamSynchronize, thread 100)");
	assert_false(is_minor);
	/* of 34.3 ms; [12.8, 18.1) ms of NCCL's first kernel */
	assert_says(said,
		"5.30 ms of the 8.30 ms of exposed communication a step had nothing beside it");
	assert_says(said, "at most 15.5 % less (5.30 ms a step), its error is not known");
	/* too little: 0.3 ms */
	gpu.stall_ns = 1000000;
	assert_says(advise_of(&gpu, 8, NULL, "gpu.sync"), "no rank loses 2 % of a step");
	gpu.stall_ns = 6000000;
	/* what is launched after it has to wait for the communication */
	assert_says(
		advise_of(&gpu, 8,
			"INSERT INTO gpu_sync SELECT thread_id, seq + 1, start_ns, start_ns, 2, 1, 7, 9, 99 FROM gpu_sync WHERE op = 3;",
			"gpu.sync"),
		"no rank loses 2 % of a step");
	gpu.no_launches = true;
	assert_says(advise_of(&gpu, 8, NULL, "gpu.sync"), "cannot be told");
	assert_true(is_minor);
}

static void communication_on_the_stream_that_computes_is_said(void **state)
{
	struct make_gpu gpu = make_gpu_job();

	(void)state;
	gpu.comm_stream = MAKE_GPU_COMPUTE_STREAM;
	assert_says(advise_of(&gpu, 8, NULL, "gpu.stream"),
		"on rank 0, 100 % of the time in kernels of NCCL is on stream 7");
	assert_says(said, "at most 8.7 % less (the 3.00 ms a step that are exposed)");
	/* a little that computes beside it, as what scales gradients does, is no such stream */
	gpu.comm_stream = MAKE_GPU_COMM_STREAM;
	assert_string_equal(
		advise_of(&gpu, 8,
			"INSERT INTO kernel SELECT thread_id, seq + 1, end_ns, end_ns + 50000, 5003, 0, 1, 20, 0, NULL, 0 FROM kernel WHERE stream = 20;",
			"gpu.stream"),
		"");
}

static void copies_that_hold_up_the_host_are_said(void **state)
{
	struct make_gpu gpu = make_gpu_job();

	(void)state;
	gpu.gap_ns = 4000000;
	gpu.launch_ns = 5000000;
	gpu.copy_ns = 3000000;
	gpu.is_copy_blocking = true;
	assert_says(advise_of(&gpu, 8, NULL, "gpu.copies"),
		"rank 0 makes 1 copies between host and device a step (2 MiB, 3.00 ms) whose call (cudaMemcpyAsync)");
	assert_says(said, "for 3.00 ms of that no kernel ran");
	assert_says(said, "at most 8.7 % less, its error is not known");
	gpu.is_copy_blocking = false;
	assert_string_equal(advise_of(&gpu, 8, NULL, "gpu.copies"), "");
	gpu.is_copy_blocking = true;
	gpu.no_launches = true; /* then nobody knows */
	assert_string_equal(advise_of(&gpu, 8, NULL, "gpu.copies"), "");
}

/* Forty tensors, half a millisecond apart: as many kernels, and gaps. */
static struct make_run many_kernels(void)
{
	static struct make_tensor tensors[40];
	static char names[40][16];
	struct make_run spec = make_run_job(2, 8);

	for (int i = 0; i < 40; i++) {
		snprintf(names[i], sizeof(names[i]), "grad.%d", i);
		tensors[i] = (struct make_tensor){names[i], 40000, 500000 * (i + 1), i / 30};
	}
	spec.tensors = tensors;
	spec.n_tensors = 40;
	spec.transport = LW_TRANSPORT_NCCL;
	return spec;
}

static void a_gpu_that_waits_for_launches_is_said(void **state)
{
	static char sql[MAKE_GPU_SQL_BYTES];
	struct make_run spec = many_kernels();
	struct make_gpu gpu = make_gpu_job();

	(void)state;
	gpu.gap_ns = 90000;
	gpu.launch_ns = 20000;
	spec.extra_sql = make_gpu_sql(&gpu, NULL, sql);
	assert_says(
		advise_spec(&spec, "gpu.idle"), "the GPU of rank 0 waits for the host to launch");
	assert_says(said, "nothing ran for 90.0 us on average");
	assert_says(said, "CUDA graphs");
	assert_null(strstr(said, "something else"));
	gpu.launch_ns = 150000; /* queued before the GPU was done with the last */
	spec.extra_sql = make_gpu_sql(&gpu, NULL, sql);
	assert_string_equal(advise_spec(&spec, "gpu.idle"), "");
	gpu.no_launches = true;
	spec.extra_sql = make_gpu_sql(&gpu, NULL, sql);
	assert_says(advise_spec(&spec, "gpu.idle"), "cannot be told");
	assert_true(is_minor);
}

static void a_host_that_is_away_is_said_and_one_that_waits_is_not(void **state)
{
	struct make_gpu gpu = make_gpu_job();

	(void)state;
	gpu.gap_ns = 4000000;
	gpu.launch_ns = 20000;
	gpu.copy_ns = 1000;
	assert_says(advise_of(&gpu, 8, NULL, "gpu.host"),
		"the GPU of rank 0 waits for a host that does something else");
	assert_says(said, "DataLoader");
	assert_null(strstr(said, "to launch:"));
	gpu.launch_ns = 5000000;
	assert_string_equal(advise_of(&gpu, 8, NULL, "gpu.host"), "");
	/* waits for the device all the time: what it costs is another matter */
	gpu = make_gpu_job();
	gpu.stall_ns = 6000000;
	gpu.launch_ns = 50000;
	assert_string_equal(
		advise_of(&gpu, 8, "DELETE FROM kernel WHERE stream = 20;", "gpu.host"), "");
}

/* A settings' list of a framework that has nothing to set begins with what gains most all the same. */
static void what_is_found_of_a_framework_s_job_is_in_its_headline(void **state)
{
	struct make_gpu gpu = make_gpu_job();

	(void)state;
	gpu.stall_ns = 6000000;
	gpu.launch_ns = 50000;
	advise_of(&gpu, 8, MAKE_GPU_COUNTERS, "gpu.sync");
	assert_ptr_equal(
		strstr(headline,
			"Overlap lost to synchronisation: at most 15.5 % less, rank 0 (gpu.sync); settings: "),
		headline);
	assert_says(headline, "as good as anything this run can tell");
	assert_says(lines,
		"- Overlap lost to synchronisation: at most 15.5 % less, rank 0 (gpu.sync)\n"
		"- A clock that is held down: at most ");
	/* nothing that is worth a word */
	gpu = make_gpu_job();
	advise_of(&gpu, 8, NULL, "gpu.sync");
	assert_null(strstr(headline, "settings:"));
	assert_null(strstr(lines, "at most"));
}

static void what_a_finding_is_worth_and_its_longest_place_are_figures(void **state)
{
	struct make_gpu gpu = make_gpu_job();

	(void)state;
	gpu.stall_ns = 6000000;
	gpu.launch_ns = 50000;
	advise_of(&gpu, 8, NULL, "gpu.sync");
	assert_true(last.bound.most_frac > 0.15 && last.bound.most_frac < 0.16);
	assert_int_equal(last.bound.rank, 0);
	assert_int_equal(last.bound.length_ns, 6000000);
	assert_true(last.step > 0); /* step 0 does not count */
	assert_true(last.since_ns > 0 && last.since_ns < last.bound.at_ns);
	advise_of(&gpu, 8, MAKE_GPU_COUNTERS, "gpu.clocks"); /* of no single place */
	assert_true(last.bound.most_frac > 0);
	assert_int_equal(last.bound.at_ns, LW_NS_UNKNOWN);
	assert_int_equal(last.step, LW_NONE);
}

/* What is recorded of a run without steps is told as such. */
static void a_run_without_steps_is_told_of_as_a_whole(void **state)
{
	static char sql[MAKE_GPU_SQL_BYTES];
	struct make_run spec = many_kernels();
	struct make_gpu gpu = make_gpu_job();

	(void)state;
	gpu.gap_ns = 90000;
	gpu.launch_ns = 20000;
	gpu.no_nccl = true;
	spec.extra_sql = make_gpu_sql(&gpu,
		"DELETE FROM batch; DELETE FROM batch_tensor; DELETE FROM ready; DELETE FROM cycle;"
		"DELETE FROM wait; DELETE FROM setting; DELETE FROM collective; DELETE FROM gpu_sync; DELETE FROM copy;",
		sql);
	assert_says(advise_spec(&spec, "gpu.idle"), "times in what was recorded nothing ran for ");
	assert_null(strstr(said, "of what was recorded"));
	assert_says(headline, "the host is away: the GPU of rank ");
}

/* It is launched when the framework and other ranks are ready. */
static void a_gap_that_communication_ends_is_not_the_hosts(void **state)
{
	static char sql[MAKE_GPU_SQL_BYTES];
	struct make_run spec = make_run_job(2, 8);
	struct make_gpu gpu = make_gpu_job();

	(void)state;
	spec.transport = LW_TRANSPORT_NCCL;
	spec.coordination_ns = 4000000;
	spec.extra_sql = make_gpu_sql(&gpu, "DELETE FROM wait; DELETE FROM gpu_sync;", sql);
	assert_string_equal(advise_spec(&spec, "gpu.idle"), "");
}

static void a_clock_that_heat_holds_down_is_said(void **state)
{
	struct make_gpu gpu = make_gpu_job();

	(void)state;
	assert_says(advise_of(&gpu, 8, MAKE_GPU_COUNTERS, "gpu.clocks"),
		"the clock of the GPU of rank 0 (0000:3b:00.0 on host node1) was held down by its temperature (software) for 50 % of the time");
	assert_says(said, "look at its cooling");
	assert_says(said, "if all computing went at 1.98 GHz; its error is not known");
	/* a little, and the GPU of nobody's */
	assert_string_equal(
		advise_of(&gpu, 8,
			MAKE_GPU_COUNTERS
			"UPDATE counter_sample SET value = value / 20 WHERE counter_id = 76;",
			"gpu.clocks"),
		"");
	assert_string_equal(
		advise_of(&gpu, 8, MAKE_GPU_COUNTERS "UPDATE gpu SET pci_id = NULL;", "gpu.clocks"),
		"");
	assert_string_equal(advise_of(&gpu, 8, NULL, "gpu.clocks"), "");
}

static void a_protocol_that_the_run_shows_to_be_faster_is_said(void **state)
{
	struct make_gpu gpu = make_gpu_job();

	(void)state;
	gpu.has_two_protocols = true;
	assert_says(advise_of(&gpu, 40, NULL, "gpu.nccl"), "as RING LL in 8.00 ms");
	assert_says(said, "as RING LL128 in 4.00 ms");
	assert_says(said, "If all ran the second way (NCCL_PROTO=LL128)");
	/* half of the steps, 4 ms in each */
	assert_says(said, "up to 1.95 ms less a step");
	assert_null(strstr(said, "NCCL_ALGO"));
	/* the variable spells some of them in a way of its own */
	assert_says(advise_of(&gpu, 40,
			    "UPDATE nccl_op SET algorithm = iif(protocol = 2, 6, 2), protocol = 1;",
			    "gpu.nccl"),
		"If all ran the second way (NCCL_ALGO=NVLSTree)");
	/* too few */
	assert_string_equal(advise_of(&gpu, 8, NULL, "gpu.nccl"), "");
	/* of the small ones LL128 takes longer: the variable holds for them, too */
	assert_string_equal(
		advise_of(&gpu, 40,
			"UPDATE kernel SET end_ns = start_ns + 6000000 WHERE name_id = 5009 AND end_ns - start_ns < 2000000;",
			"gpu.nccl"),
		"");
}

/* NCCL goes by the size: what is smaller and runs another way is not faster for it. */
static void sizes_that_differ_show_no_protocol_to_be_faster(void **state)
{
	struct make_gpu gpu = make_gpu_job();

	(void)state;
	gpu.has_two_protocols = true;
	/* both in [2^20, 2^21) */
	assert_string_equal(
		advise_of(&gpu, 40,
			"UPDATE nccl_op SET bytes = CASE WHEN protocol = 2 THEN 1150000 ELSE 1990000 END;",
			"gpu.nccl"),
		"");
	assert_says(advise_of(&gpu, 40, "UPDATE nccl_op SET bytes = 1990000;", "gpu.nccl"),
		"NCCL ran allreduce of 1.90 MiB two ways");
	/* nor do communicators of other ranks, and so other links */
	assert_string_equal(
		advise_of(&gpu, 40,
			"UPDATE nccl_op SET bytes = 1990000, comm_key = comm_key + protocol;",
			"gpu.nccl"),
		"");
}

static void no_advice_claims_more_than_is_exposed(void **state)
{
	struct make_gpu gpu = make_gpu_job();

	(void)state;
	gpu.has_two_protocols = true;
	gpu.gap_ns = 10000;
	/* what computes hides all of the large ones, and of the small ones all but 0.1 ms */
	assert_says(
		advise_of(&gpu, 40,
			"INSERT INTO kernel SELECT thread_id, seq + 1, start_ns, end_ns - 100000, 5003, 0, 1, 7, 0, NULL, 0 FROM kernel WHERE stream = 20;",
			"gpu.nccl"),
		"up to 100 us less a step");
}

/* A ring of four: of a message 3 ms on the network from rank 1 to rank 2, or @us there, and 20 us elsewhere. */
static const char *ring_sql(int us)
{
	static char sql[2048];

	snprintf(sql, sizeof(sql),
		"INSERT INTO comm(process_id, key, parent_key, size, rank, serial, how, transport, at_ns)"
		" SELECT DISTINCT t.process_id, o.comm_key, NULL, 4, t.process_id - 1, 0, 1, 3, 0 FROM nccl_op o JOIN thread t ON t.id = o.thread_id;"
		"INSERT INTO nccl_proxy SELECT o.thread_id, 1000000 + o.seq, o.start_ns, o.end_ns, 1, o.serial, 1048576, t.process_id %% 4, 0, 8,"
		" 0, 0, 8000 * CASE WHEN t.process_id = 2 THEN %d ELSE 20 END FROM nccl_op o JOIN thread t ON t.id = o.thread_id;"
		"INSERT INTO nccl_proxy SELECT o.thread_id, 2000000 + o.seq, o.start_ns, o.end_ns, 2, o.serial, 1048576, (t.process_id + 2) %% 4, 0, 8,"
		" 0, 8000 * CASE WHEN t.process_id = 3 THEN %d ELSE 20 END, 0 FROM nccl_op o JOIN thread t ON t.id = o.thread_id;",
		us, us);
	return sql;
}

static void a_slow_link_inside_nccl_is_said_where_it_matters(void **state)
{
	struct make_gpu gpu = make_gpu_job();

	(void)state;
	assert_says(advise_ranks(4, &gpu, 12, ring_sql(3000), "gpu.link"),
		"from rank 1 to rank 2 a message (128 KiB) was on the network for up to 3.00 ms, on none of the other 3 links");
	assert_says(said, "What that costs a step is not known");
	assert_false(is_minor);
	/* two operations of 8 messages that run at once: 200 us of 34 ms */
	assert_string_equal(advise_ranks(4, &gpu, 12, ring_sql(100), "gpu.link"), "");
	assert_string_equal(advise_ranks(4, &gpu, 12, ring_sql(20), "gpu.link"), "");
	assert_string_equal(advise_ranks(4, &gpu, 12, NULL, "gpu.link"), "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_usual_job_and_one_without_gpus_are_left_alone),
		cmocka_unit_test(a_wait_that_costs_overlap_is_said_with_its_call),
		cmocka_unit_test(communication_on_the_stream_that_computes_is_said),
		cmocka_unit_test(copies_that_hold_up_the_host_are_said),
		cmocka_unit_test(a_gpu_that_waits_for_launches_is_said),
		cmocka_unit_test(a_host_that_is_away_is_said_and_one_that_waits_is_not),
		cmocka_unit_test(what_is_found_of_a_framework_s_job_is_in_its_headline),
		cmocka_unit_test(what_a_finding_is_worth_and_its_longest_place_are_figures),
		cmocka_unit_test(a_run_without_steps_is_told_of_as_a_whole),
		cmocka_unit_test(a_gap_that_communication_ends_is_not_the_hosts),
		cmocka_unit_test(a_clock_that_heat_holds_down_is_said),
		cmocka_unit_test(a_protocol_that_the_run_shows_to_be_faster_is_said),
		cmocka_unit_test(sizes_that_differ_show_no_protocol_to_be_faster),
		cmocka_unit_test(no_advice_claims_more_than_is_exposed),
		cmocka_unit_test(a_slow_link_inside_nccl_is_said_where_it_matters),
	};

	return cmocka_run_group_tests(tests, run_fixture_make, run_fixture_remove);
}
