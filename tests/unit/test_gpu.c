/* SPDX-License-Identifier: Apache-2.0 */
/* What GPU work says of a run: figures of small traces and of rows as the tracer writes them, counted by hand. */
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/analyzer.h"
#include "analyzer/emit/gpu.h"
#include "analyzer/reconstruct/nccl_served.h"
#include "tests/lib/run_fixture.h"
#include "tests/unit/gpu_run.h"

static void check_times(const struct lw_gpu_times *times, const int64_t *us)
{
	const int64_t found[] = {times->compute_ns, times->comm_ns, times->hidden_ns,
		times->exposed_ns, times->copy_ns, times->idle_ns, times->comm_sum_ns,
		times->sync_lost_ns};

	for (size_t i = 0; i < sizeof(found) / sizeof(found[0]); i++)
		if (found[i] != us[i] * 1000)
			fail_msg("figure %zu: %" PRId64 " ns, not %" PRId64 " us", i, found[i],
				us[i]);
}

/* ---- small traces, by hand ------------------------------------------------------------------------- */

/*
 * A step of rank 0, us from its mark; its kernels on stream 7, the allreduce on 20:
 *
 *	bn 50..250, sgemm 250..450, optimizer 500..600 (second step 600..700), a copy of 10 behind it
 *	allreduce 300..500 (second step 300..600); called at 30, after both bn and sgemm were launched
 *
 * It begins with its first kernel, 50 behind the mark: steps are 50..1050 and 1050..2000.
 */
static void steps_are_measured_by_the_unions_of_kernels(void **state)
{
	struct lw_run *run = gpu_run_two_ranks();
	const struct lw_rank *rank = &run->ranks.at[0];

	(void)state;
	assert_true(run->gpu.has_kernels);
	assert_int_equal(rank->steps.n, 2);
	assert_int_equal(rank->steps.at[0].start_ns, 50000);
	assert_int_equal(rank->steps.at[0].end_ns, 1050000);
	assert_int_equal(rank->steps.at[1].end_ns, 2000000);
	assert_null(rank->steps.at[0].excluded); /* the profiler had its own warm-up */
	/* compute, comm, hidden, exposed, copy, idle, sum of comm, lost */
	check_times(&rank->steps.at[0].gpu, (int64_t[]){500, 200, 150, 50, 10, 450, 200, 0});
	check_times(&rank->steps.at[1].gpu, (int64_t[]){500, 300, 150, 150, 15, 300, 300, 0});
	/* the second step ends with the profiler's window, wherever the third one's first kernel was */
	assert_string_equal(rank->steps.at[1].excluded,
		"its end was not seen: the profiler's window ended first");
	check_times(&rank->gpu.sum, (int64_t[]){500, 200, 150, 50, 10, 450, 200, 0});
	/* from the first kernel to the end of the last: the copies behind it are not in it */
	check_times(&rank->gpu.whole, (int64_t[]){1000, 500, 300, 200, 10, 450, 500, 0});
	assert_int_equal(rank->gpu.n_steps, 1);
	lw_run_free(run);
}

/* bn alone had to be done for the allreduce: ready at 250, on the wire at 300. */
static void a_collective_is_ready_when_the_device_has_computed_what_it_needs(void **state)
{
	struct lw_run *run = gpu_run_two_ranks();
	const struct lw_rank *rank = &run->ranks.at[0];
	const struct lw_step *step = &rank->steps.at[0];
	const struct lw_batch *batch = &rank->batches.at[0];

	(void)state;
	assert_int_equal(rank->batches.n, 2);
	assert_int_equal(rank->members.at[batch->first_member].ready_ns, 250000);
	assert_int_equal(batch->start_ns, 250000);
	assert_int_equal(batch->wire_start_ns, 300000);
	assert_int_equal(batch->wire_end_ns, 500000);
	assert_int_equal(batch->bytes, 4 * 6637568);
	assert_int_equal(step->first_ready_ns, 250000);
	assert_int_equal(step->time_source, LW_TIME_FROM_GPU);
	/* the operation from when it was ready: 250..500, of which 250..450 and nothing behind it are hidden */
	assert_int_equal(step->compute_ns, 500000);
	assert_int_equal(step->comm_ns, 250000);
	assert_int_equal(step->hidden_ns, 200000);
	assert_int_equal(step->exposed_ns, 50000);
	assert_int_equal(step->exposed_allreduce_ns, 50000);
	assert_int_equal(step->idle_ns, 450000);
	assert_int_equal(step->allreduce_ns, 200000);
	assert_int_equal(step->misc_ns, 50000);
	assert_int_equal(step->wait_ns, 0);
	lw_run_free(run);
}

static void backward_is_told_on_the_devices_own_clock(void **state)
{
	struct lw_run *run = gpu_run_two_ranks();
	struct lw_fit fit;

	(void)state;
	gpu_run_count_all(run);
	assert_int_equal(run->ranks.at[0].members.at[0].computed_ns, 250000);
	assert_int_equal(lw_fit_run(run, &fit), LW_OK);
	assert_int_equal(fit.n_layers, 1);
	/* 200 on rank 0, and 200 and 300 on rank 1, whose step begins at 50 too */
	assert_float_equal(fit.figure[LW_FIT_FORWARD_NS].value, (200 + 200 + 200 + 300) * 250, 1);
	/* steps of 1000 and 950 less what was exposed: 50 and 150 on rank 0, 50 and 50 on rank 1 */
	assert_float_equal(fit.figure[LW_FIT_COMPUTE_NS].value, (950 + 800 + 950 + 900) * 250, 1);
	/* first gradient to the end of the allreduce: 250 and 350, 250 and 250 */
	assert_float_equal(fit.figure[LW_FIT_UPDATE_NS].value, (250 + 350 + 250 + 250) * 250, 1);
	/* 1e9 operations forward, twice that backward, at 1e13 a second: 300 us of the mean 525 that kernels compute */
	assert_true(isnan(fit.figure[LW_FIT_UTILISATION_FRAC].value));
	lw_fit_utilisation(run, 1e9, 1e13, &fit);
	assert_float_equal(fit.figure[LW_FIT_UTILISATION_FRAC].value, 300.0 / 525, 1e-9);
	assert_true(fit.figure[LW_FIT_UTILISATION_FRAC].low < 300.0 / 525);
	assert_null(fit.figure[LW_FIT_UTILISATION_FRAC].why);
	lw_fit_utilisation(run, 1e9, 1e12, &fit);
	assert_non_null(fit.figure[LW_FIT_UTILISATION_FRAC].why);
	lw_fit_done(&fit);
	lw_run_free(run);
}

/* A CUDA graph launches all at once: what was over when the allreduce began is what it needed. */
static void within_a_graph_a_collective_is_ready_behind_the_kernels_before_it(void **state)
{
	struct lw_run *run = gpu_run_of_events(CALL("cudaGraphLaunch", 1, 10, 5) "," KERNEL(
		"one", 1, 7, 20, 30) "," KERNEL("two", 1, 7, 60, 40) "," KERNEL(REDUCE, 1, 20, 105,
		50) "," KERNEL("three", 1, 7, 100, 100));
	const struct lw_rank *rank = &run->ranks.at[0];

	(void)state;
	assert_int_equal(rank->batches.n, 1);
	assert_int_equal(rank->members.at[0].computed_ns, 90000); /* the trace begins at 10 */
	assert_int_equal(rank->batches.at[0].start_ns, 90000);
	assert_int_equal(rank->batches.at[0].wire_start_ns, 95000);
	lw_run_free(run);
}

/* In the second step rank 1's allreduce takes 200, rank 0's 300: it had waited 100 for rank 1. */
static void the_rank_whose_kernel_is_shortest_came_last(void **state)
{
	struct lw_run *run = gpu_run_two_ranks();
	int64_t computed_ns[2];

	(void)state;
	assert_int_equal(run->groups.n, 2);
	assert_int_equal(run->groups.at[1].n_ranks, 2);
	assert_int_equal(run->groups.at[1].last_rank, 1);
	assert_int_equal(run->groups.at[1].first_rank, 0);
	assert_true(lw_run_computed(run, 0, computed_ns));
	assert_int_equal(computed_ns[0], 0);
	assert_int_equal(computed_ns[1], 0);
	assert_true(lw_run_computed(run, 1, computed_ns));
	assert_int_equal(computed_ns[0], 0);
	assert_int_equal(computed_ns[1], 100000);
	assert_int_equal(run->ranks.at[0].steps.at[1].entry_ns, 100000);
	assert_int_equal(run->ranks.at[1].steps.at[1].entry_ns, 0);
	assert_int_equal(lw_group_service_ns(run, &run->groups.at[1], false), 200000);
	lw_run_free(run);
}

static struct lw_gpu_name name_of(const struct lw_run *run, const char *name)
{
	const struct lw_gpu_name *found;

	lw_vec_foreach (found, &run->gpu.names)
		if (strstr(found->name, name))
			return *found;
	fail_msg("no %s", name);
	return (struct lw_gpu_name){0};
}

static void sums_are_by_name_and_by_operation(void **state)
{
	struct lw_run *run = gpu_run_two_ranks();
	struct lw_gpu_name sgemm = name_of(run, "sgemm");
	const struct lw_gpu_nccl *sum;
	struct lw_gpu_summary summary;
	const struct lw_gpu_stream *stream;

	(void)state;
	/* of the first step of two, the one that counts */
	assert_int_equal(sgemm.n, 2);
	assert_int_equal(sgemm.total_ns, 400000);
	/* rank 0: 500 of computing, rank 1: 200 + 200 + 100; both 200 on the wire */
	assert_true(sgemm.share_frac > 399.9 / 1400 && sgemm.share_frac < 400.1 / 1400);
	assert_int_equal(lw_gpu_summarize(run, &summary), LW_OK);
	assert_int_equal(summary.nccl.n, 1);
	sum = summary.nccl.at;
	assert_int_equal(sum->op, LW_NCCL_ALLREDUCE);
	assert_int_equal(sum->n, 2);
	assert_int_equal(sum->n_timed, 2);
	assert_int_equal((int64_t)(sum->bytes.value * 2), 8 * INT64_C(6637568));
	assert_int_equal((int64_t)(sum->kernel_ns.value * 2), 400000);
	lw_gpu_summary_done(&summary);
	assert_int_equal(run->ranks.at[1].gpu.streams.n, 2);
	stream = &run->ranks.at[1].gpu.streams.at[1];
	assert_int_equal(stream->stream, 20);
	assert_int_equal(stream->device, 1);
	assert_int_equal(stream->busy_ns, 400000);
	assert_int_equal(stream->class_ns[LW_GPU_COMMUNICATION], 400000);
	assert_string_equal(run->ranks.at[1].gpu.devices.at[0].name, "NVIDIA H200");
	lw_run_free(run);
}

/* DDP broadcasts buffers before the forward pass: gradients are what is allreduced. */
static void a_broadcast_before_the_forward_pass_is_no_gradient(void **state)
{
	struct lw_run *run = gpu_run_of_events(EVENT("user_annotation", "ProfilerStep#1", 1, 0,
		1000, "") "," CALL("cudaLaunchKernel", 1, 5, 2) "," KERNEL(BROADCAST, 1, 20, 10,
		5) "," CALL("cudaLaunchKernel", 2, 20, 2) "," KERNEL("one", 2, 7, 30,
		500) "," CALL("cudaLaunchKernel", 3, 40, 2) "," KERNEL(REDUCE, 3, 20, 540, 100));
	const struct lw_step *step = &run->ranks.at[0].steps.at[0];

	(void)state;
	assert_int_equal(run->ranks.at[0].steps.n, 1);
	assert_int_equal(step->n_batches, 2);
	assert_int_equal(step->first_ready_ns, 530000);
	assert_int_equal(step->last_ready_ns, 530000);
	lw_run_free(run);
}

/* ---- from the tracer -------------------------------------------------------------------------------- */

/* A batch is launched 10 us after it starts, runs from 1 ms after that to 0.5 ms after its call returned; and one kernel
 * computes from 8 ms to 1 ms before each gradient is ready. */
static const char horovod_sql[] =
	"INSERT INTO string VALUES(900, 'ncclDevKernel_AllReduce_Sum_f32_RING_LL'), (901, 'sgemm');"
	"INSERT INTO launch SELECT thread_id, 100000 + rowid, start_ns + 10000, start_ns + 15000, 1, NULL,"
	" batch, 9, 2, batch, 0 FROM batch;"
	"INSERT INTO kernel SELECT thread_id, 200000 + rowid, start_ns + 1000000, end_ns + 500000, 900, 0, 1,"
	" 20, batch, NULL, 0 FROM batch;"
	"INSERT INTO kernel SELECT thread_id, 300000 + rowid, at_ns - 8000000, at_ns - 1000000, 901, 0, 1,"
	" 7, 0, NULL, 0 FROM ready";

static void horovods_batches_have_the_kernels_that_were_launched_for_them(void **state)
{
	struct make_run spec = make_run_job(2, 6);
	const struct lw_batch *batch;
	struct lw_run *run;

	(void)state;
	spec.no_wire = true;
	spec.transport = LW_TRANSPORT_NCCL;
	spec.extra_sql = horovod_sql;
	run = run_fixture_analyze(&spec);
	assert_int_equal(lw_run_gpu(run), LW_OK);
	assert_false(run->is_plain);
	lw_vec_foreach (batch, &run->ranks.at[1].batches) {
		assert_int_equal(batch->wire_start_ns, batch->start_ns + 1000000);
		assert_int_equal(batch->wire_end_ns, batch->end_ns);
	}
	for (size_t s = 1; s < 6; s++) {
		const struct lw_step *step = &run->ranks.at[1].steps.at[s];

		/* of both batches, waiting for the device is MISC */
		assert_int_equal(step->misc_ns, 2000000);
		/* 2..9 with 4..11 of the two tensors of the first batch, and 22..29: 9 + 7 ms */
		assert_int_equal(step->compute_ns, 16000000);
		assert_int_equal(step->gpu.compute_ns, 16000000);
		assert_int_equal(step->time_source, LW_TIME_FROM_GPU);
		/* the training thread waits as ever: that is what cores are compared with */
		assert_true(step->host_compute_ns > 16000000);
		assert_int_equal(step->compute_ns + step->exposed_ns + step->idle_ns,
			step->end_ns - step->start_ns);
	}
	lw_run_free(run);
}

/* The same, but the kernel of each gradient is launched 9 ms before that is queued, and ends 1.5 ms behind it. */
static const char behind_sql[] =
	"INSERT INTO string VALUES(900, 'ncclDevKernel_AllReduce_Sum_f32_RING_LL'), (901, 'sgemm');"
	"INSERT INTO launch SELECT thread_id, 100000 + rowid, start_ns + 10000, start_ns + 15000, 1, NULL,"
	" batch, 9, 2, batch, 0 FROM batch;"
	"INSERT INTO kernel SELECT thread_id, 200000 + rowid, start_ns + 1000000, end_ns + 500000, 900, 0, 1,"
	" 20, batch, NULL, 0 FROM batch;"
	"INSERT INTO launch SELECT thread_id, 300000 + rowid, at_ns - 9000000, at_ns - 8990000, 1, NULL,"
	" 500000 + rowid, 9, 0, 0, 0 FROM ready;"
	"INSERT INTO kernel SELECT thread_id, 400000 + rowid, at_ns - 500000, at_ns + 1500000, 901, 0, 1,"
	" 7, 500000 + rowid, NULL, 0 FROM ready";

static void a_gradient_can_be_sent_when_the_device_has_computed_it(void **state)
{
	struct make_run spec = make_run_job(2, 6);
	const struct lw_batch *batch;
	const struct lw_rank *rank;
	struct lw_run *run;
	struct lw_fit fit;

	(void)state;
	spec.no_wire = true;
	spec.extra_sql = behind_sql;
	run = run_fixture_analyze(&spec);
	assert_int_equal(lw_run_gpu(run), LW_OK);
	rank = &run->ranks.at[1];
	lw_vec_foreach (batch, &rank->batches) {
		const struct lw_member *last =
			&rank->members.at[batch->first_member + batch->n_members - 1];

		/* queued 0.7 ms before its batch starts, computed 0.8 ms behind that, on the wire after 0.2 ms more */
		assert_int_equal(last->computed_ns, last->ready_ns + 1500000);
		assert_int_equal(lw_member_there_ns(rank, last), last->computed_ns);
		assert_int_equal(lw_batch_there_ns(rank, batch), batch->wire_start_ns - 200000);
	}
	/* of MISC, waiting for the device depends on computing and is no cost of a copy */
	assert_int_equal(rank->steps.at[2].misc_ns, 2000000);
	assert_int_equal(lw_fit_run(run, &fit), LW_OK);
	assert_float_equal(fit.cost[LW_FIT_COST_COPY_IN].sizes[0].mean_ns, 200000, 1);
	/* 12 + 1.5 to 30 + 1.5 ms: the first two are seen to be there at once */
	assert_float_equal(fit.figure[LW_FIT_OVERLAP_NS].value, 18000000, 1);
	lw_fit_done(&fit);
	lw_run_free(run);
}

static void without_kernels_everything_is_as_before(void **state)
{
	struct make_run spec = make_run_job(2, 6);
	struct lw_run *run = run_fixture_analyze(&spec);
	const struct lw_step *step = &run->ranks.at[0].steps.at[3];

	(void)state;
	assert_int_equal(lw_run_gpu(run), LW_OK);
	assert_false(run->gpu.has_kernels);
	assert_int_equal(step->time_source, LW_TIME_FROM_HOST);
	assert_int_equal(step->host_compute_ns, step->compute_ns);
	assert_int_equal(step->gpu.compute_ns, LW_NS_UNKNOWN);
	assert_int_equal(run->ranks.at[0].gpu.whole.comm_ns, LW_NS_UNKNOWN);
	lw_run_free(run);
}

static void kernels_that_nobody_told_of_are_operations_all_the_same(void **state)
{
	struct make_run spec = make_run_job(1, 2);
	struct lw_run *run;

	(void)state;
	spec.extra_sql =
		"DELETE FROM batch; DELETE FROM batch_tensor; DELETE FROM collective;"
		"INSERT INTO string VALUES(900, 'ncclDevKernel_AllReduce_Sum_f32_TREE_LL');"
		"INSERT INTO kernel VALUES(1, 10, 30000, 50000, 900, 0, 1, 20, 0, NULL, 0)";
	run = run_fixture_load(&spec);
	assert_int_equal(run->ranks.at[0].gpu.nccl_ops.n, 1);
	assert_int_equal(run->ranks.at[0].gpu.nccl_ops.at[0].algorithm, LW_NCCL_ALGORITHM_TREE);
	assert_int_equal(run->ranks.at[0].batches.n, 1);
	assert_int_equal(run->ranks.at[0].batches.at[0].op, LW_COLL_ALLREDUCE);
	assert_true(run->ranks.at[0].batches.at[0].flags & LW_COLL_NO_BYTES);
	lw_run_free(run);
}

/* A wrapper script asked for the GPU before the training did: both processes have the rank of the launcher. */
static void of_two_processes_of_a_rank_the_one_with_more_kernels_is_used(void **state)
{
	struct make_run spec = make_run_job(1, 2);
	struct lw_run *run;

	(void)state;
	spec.extra_sql =
		"DELETE FROM batch; DELETE FROM batch_tensor; DELETE FROM collective;"
		"INSERT INTO string VALUES(900, 'helper'), (901, 'training');"
		"INSERT INTO process(id, host_id, pid, ppid, rank, size, framework, transport, start_ns)"
		" SELECT 50, host_id, 9999, 1, rank, size, framework, transport, start_ns FROM process WHERE id = 1;"
		"INSERT INTO thread(id, process_id, tid, serial, role, n_pushed, n_stored, n_lost)"
		" VALUES(50, 50, 9999, 0, 1, 2, 2, 0);"
		"INSERT INTO kernel VALUES(1, 10, 30000, 50000, 900, 0, 1, 20, 0, NULL, 0),"
		" (50, 1, 30000, 50000, 901, 0, 1, 20, 0, NULL, 0), (50, 2, 60000, 70000, 901, 0, 1, 20, 0, NULL, 0)";
	run = run_fixture_load(&spec);
	assert_int_equal(run->ranks.n, 1);
	assert_int_equal(run->ranks.at[0].process_id, 50);
	assert_int_equal(run->ranks.at[0].gpu.kernels.n, 2);
	lw_run_free(run);
}

/* A run file may come from anybody. */
static const char damaged_sql[] =
	"INSERT INTO string VALUES(900, 'ncclDevKernel_AllReduce_Sum_f32_RING_LL');"
	"INSERT INTO kernel VALUES(1, 1, 100, 50, 900, 0, 1, 20, 0, NULL, 0),"
	" (1, 2, -5, 50, 900, 0, 1, 20, 0, NULL, 0), (1, 3, 5, 9223372036854775807, 900, 0, 1, 20, 0, NULL, 0),"
	" (99, 4, 5, 6, 900, 0, 1, 20, 0, NULL, 0),"
	" (1, 5, 1100000000, 1200000000, 12345, -1, -1, 9999999999, -7, -7, 123456),"
	" (1, 6, 1100000000, 1200000000, 900, 0, 1, 20, 7, NULL, 0),"
	" (1, 7, 1100000000, 1100000000, NULL, 0, 1, 20, 7, NULL, 4);"
	"INSERT INTO copy VALUES(1, 8, 1100000000, 1100000000, 77, -9, 0, 1, 7, 7, 0, 4);"
	"INSERT INTO gpu_sync VALUES(1, 9, 1100000000, 1200000000, 0, 1, NULL, NULL, 7),"
	" (1, 10, 1100000000, 1200000000, 99, 1, 20, NULL, 7), (1, 11, 1000, 1200000000, 3, 1, 20, NULL, 7);"
	"INSERT INTO launch VALUES(1, 12, 1100000000, 1200000000, 88, NULL, 7, -1, 1, -1, 0),"
	" (1, 13, 1000, 1200000000, 1, 900, 7, 1, 2, 9223372036854775807, 0);"
	"INSERT INTO nccl_op VALUES(1, 14, 1100000000, 1100000001, 99, 5, 0, -1, -9, 77, 250, 250, 300, -1, -1, 9),"
	" (1, 15, 1000, 1100000001, 1, 5, -1, 9223372036854775807, 0, 77, 1, 1, 1, 1, 255, 0)";

static void damaged_rows_are_counted_and_the_rest_is_used(void **state)
{
	struct make_run spec = make_run_job(2, 6);
	const char *path = run_fixture_path("run.lapwing");
	struct lw_run *run;

	(void)state;
	spec.extra_sql = damaged_sql;
	make_run_write(path, &spec);
	if (lw_run_reconstruct(&path, 1, LW_STORE_WRITE, NULL, &run) < 0)
		fail_msg("%s", lw_error_text());
	/* three kernels with impossible times, one of nobody; two operations with impossible sizes */
	assert_int_equal(run_fixture_diag(run, "bad rows"), 0);
	assert_int_equal(run_fixture_diag(run, "bad rows of GPU work"), 6);
	assert_int_equal(run_fixture_diag(run, "GPU work without a length"), 2);
	assert_int_equal(run->ranks.at[0].gpu.kernels.n, 3);
	assert_int_equal(run->ranks.at[0].gpu.nccl_ops.at[1].op, LW_NCCL_OTHER);
	assert_int_equal(run->ranks.at[0].gpu.nccl_ops.at[1].algorithm, 0);
	assert_int_equal(run->ranks.at[0].steps.n, 6);
	lw_run_free(run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(steps_are_measured_by_the_unions_of_kernels),
		cmocka_unit_test(a_collective_is_ready_when_the_device_has_computed_what_it_needs),
		cmocka_unit_test(backward_is_told_on_the_devices_own_clock),
		cmocka_unit_test(within_a_graph_a_collective_is_ready_behind_the_kernels_before_it),
		cmocka_unit_test(the_rank_whose_kernel_is_shortest_came_last),
		cmocka_unit_test(sums_are_by_name_and_by_operation),
		cmocka_unit_test(a_broadcast_before_the_forward_pass_is_no_gradient),
		cmocka_unit_test(horovods_batches_have_the_kernels_that_were_launched_for_them),
		cmocka_unit_test(a_gradient_can_be_sent_when_the_device_has_computed_it),
		cmocka_unit_test(without_kernels_everything_is_as_before),
		cmocka_unit_test(kernels_that_nobody_told_of_are_operations_all_the_same),
		cmocka_unit_test(of_two_processes_of_a_rank_the_one_with_more_kernels_is_used),
		cmocka_unit_test(damaged_rows_are_counted_and_the_rest_is_used),
	};

	return cmocka_run_group_tests(tests, run_fixture_make, run_fixture_remove);
}
