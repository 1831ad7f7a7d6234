/* SPDX-License-Identifier: Apache-2.0 */
/* What traces say: overlap lost to synchronisation, counted by hand, and public ones as others counted them. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "analyzer/advise/advise.h"
#include "tests/lib/run_fixture.h"
#include "tests/unit/gpu_run.h"

#define PUBLIC LAPWING_SOURCE_DIR "/../shared/samples/public/"
#define RESNET PUBLIC "hta_nccl_resnet50_2rank.json.gz"
#define DLRM   PUBLIC "param_dlrm_kineto_8rank.tar.gz"

/* ---- overlap lost to synchronisation ---------------------------------------------------------------- */

/* One kernel 100..200, an allreduce 150..600, then a wait of the host 30..400 and only after it the next kernel 420..520. */
#define BEFORE                                                                                     \
	CALL("cudaLaunchKernel", 1, 10, 5)                                                         \
	"," KERNEL("one", 1, 7, 100, 100) "," CALL("cudaLaunchKernelExC", 2, 20, 5) "," KERNEL(    \
		REDUCE, 2, 20, 150, 450)
#define AFTER "," CALL("cudaLaunchKernel", 4, 410, 5) "," KERNEL("two", 4, 7, 420, 100)

static void overlap_is_lost_where_the_host_waited_before_it_launched(void **state)
{
	struct lw_run *run =
		gpu_run_of_events(BEFORE "," CALL("cudaEventSynchronize", 3, 30, 370) AFTER);
	const struct lw_gpu_rank *gpu = &run->ranks.at[0].gpu;
	const struct lw_gpu_lost *lost = run->gpu.lost.at;

	(void)state;
	assert_true(gpu->has_syncs);
	assert_int_equal(run->gpu.n_lost, 1);
	/* kernel two could have begun at 420 - 370 = 50, but one ran until 200 */
	assert_int_equal(lost->start_ns, 190000); /* the trace begins at 10 */
	assert_int_equal(lost->end_ns, 410000);
	assert_int_equal(lost->exposed_ns, 220000);
	assert_int_equal(gpu->whole.sync_lost_ns, 220000);
	assert_int_equal(gpu->launches.at[lost->launch].correlation, 3);
	assert_int_equal(gpu->kernels.at[lost->kernel].correlation, 4);
	assert_int_equal(gpu->kernels.at[lost->comm].correlation, 2);
	/* 150..600 less 150..200 and 420..520 */
	assert_int_equal(gpu->whole.exposed_ns, 300000);
	lw_run_free(run);
}

static void no_more_is_lost_than_the_host_waited(void **state)
{
	struct lw_run *run =
		gpu_run_of_events(BEFORE "," CALL("cudaStreamSynchronize", 3, 340, 60) AFTER);

	(void)state;
	assert_int_equal(run->gpu.n_lost, 1);
	assert_int_equal(run->ranks.at[0].gpu.whole.sync_lost_ns, 60000);
	lw_run_free(run);
	/* a copy to the host that returned when it was done waits too; one that returned before does not */
	run = gpu_run_of_events(BEFORE "," CALL("cudaMemcpyAsync", 3, 340, 60) "," EVENT(
		"gpu_memcpy", "Memcpy DtoH (Device -> Pageable)", 7, 390, 5,
		"\"stream\":7,\"correlation\":3") AFTER);
	assert_int_equal(run->ranks.at[0].gpu.whole.sync_lost_ns, 60000);
	lw_run_free(run);
	run = gpu_run_of_events(BEFORE "," CALL("cudaMemcpyAsync", 3, 340, 60) "," EVENT(
		"gpu_memcpy", "Memcpy DtoH (Device -> Pinned)", 7, 401, 5,
		"\"stream\":7,\"correlation\":3") AFTER);
	assert_int_equal(run->ranks.at[0].gpu.whole.sync_lost_ns, 0);
	lw_run_free(run);
}

static void what_may_have_had_to_wait_is_not_lost(void **state)
{
	/* the next kernel's stream was told to wait, for all that is known for the allreduce */
	struct lw_run *run = gpu_run_of_events(BEFORE "," CALL("cudaStreamWaitEvent", 5, 25,
		2) "," CALL("cudaEventSynchronize", 3, 30, 370) AFTER);

	(void)state;
	assert_int_equal(run->gpu.n_lost, 0);
	assert_int_equal(run->gpu.n_lost_unclear, 1);
	assert_int_equal(run->ranks.at[0].gpu.whole.sync_lost_ns, 0);
	lw_run_free(run);
	/* it is known that it was another stream */
	run = gpu_run_of_events(BEFORE "," CALL("cudaStreamWaitEvent", 5, 25, 2) "," EVENT(
		"cuda_sync", "Stream Wait Event", 20, 25, 2,
		"\"stream\":20,\"device\":0,\"context\":1,\"correlation\":5") "," CALL("cudaEventSynchronize",
		3, 30, 370) AFTER);
	assert_int_equal(run->gpu.n_lost, 1);
	assert_int_equal(run->ranks.at[0].gpu.syncs.n, 2);
	lw_run_free(run);
	/* nobody waited: the host was busy with something else */
	run = gpu_run_of_events(BEFORE AFTER);
	assert_int_equal(run->gpu.n_lost + run->gpu.n_lost_unclear, 0);
	assert_false(run->ranks.at[0].gpu.has_syncs);
	lw_run_free(run);
}

/* The thread that a profiler's steps are marked on is the one that its kernels are stored with: its ranges are its own all the same. */
static void ranges_of_the_thread_that_marks_steps_are_told(void **state)
{
	struct lw_run *run = gpu_run_of_events(EVENT("user_annotation", "ProfilerStep#1", 1, 10, 90,
		"") "," EVENT("cpu_op", "aten::add", 1, 20, 30, "") "," EVENT("gpu_user_annotation",
		"aten::add", 7, 60, 20, "\"device\":0,\"stream\":7") "," CALL("cudaLaunchKernel", 1,
		30, 5) "," KERNEL("add", 1, 7, 60, 20));
	const struct lw_mark_name *name;
	uint64_t n = 0;

	(void)state;
	lw_vec_foreach (name, &run->marks.names)
		if (!strcmp(name->name, "aten::add")) {
			n += name->n; /* not that of the stream, which repeats it */
			assert_int_equal(name->longest_ns, 30000);
		}
	assert_int_equal(n, 1);
	lw_run_free(run);
}

/* ---- public traces, as papers and other tools count them ------------------------------------------- */

static bool is_there(const char *path)
{
	if (access(path, R_OK) == 0)
		return true;
	print_message("%s is not here: the traces made for this test stand in\n", path);
	return false;
}

static void check_us(double found_ns, double us)
{
	if (found_ns < us * 1000 - 50.5 || found_ns > us * 1000 + 50.5)
		fail_msg("%.1f us, not %.1f", found_ns / 1000, us);
}

/* Half of its long gaps lie where DDP takes apart what it sends of the buffers before a forward pass; there is no loader. */
static void check_where_the_host_was(struct lw_run *run)
{
	const struct lw_finding *finding, *host = NULL;
	struct lw_advice_list list;

	assert_int_equal(lw_advise(run, &list), LW_OK);
	lw_vec_foreach (finding, &list.findings)
		if (!strcmp(finding->id, "gpu.host"))
			host = finding;
	assert_non_null(host);
	print_message("%s\n", host->text);
	assert_non_null(strstr(host->text,
		"in aten::unflatten_dense_tensors (in DistributedDataParallel.forward, ## forward ##) for "));
	assert_non_null(strstr(host->text, "broadcast_buffers=False"));
	assert_null(strstr(host->text, "DataLoader"));
	lw_advice_list_free(&list);
}

static void resnet50_of_two_ranks(void **state)
{
	const char *path = RESNET;
	const struct lw_gpu_times *whole;
	int64_t exposed_ns, compute_ns;
	const struct lw_step *step;
	struct lw_run *run;
	uint64_t elements = 0;

	(void)state;
	if (!is_there(path))
		return;
	run = gpu_run_import(&path, 1);
	whole = &run->ranks.at[0].gpu.whole;
	assert_int_equal(run->ranks.at[0].steps.n, 3);
	for (uint32_t i = 0; i < run->ranks.at[0].steps.at[1].n_batches; i++) {
		const struct lw_batch *batch =
			&run->ranks.at[0].batches.at[run->ranks.at[0].steps.at[1].first_batch + i];

		if (batch->op == LW_COLL_ALLREDUCE)
			elements += batch->bytes / 4;
	}
	assert_int_equal(elements, 25557032);
	check_us((double)whole->comm_sum_ns, 46876.5);
	check_us((double)whole->compute_ns, 115655.8);
	check_us((double)whole->hidden_ns, 7317.0);
	check_us((double)whole->exposed_ns, 39559.5);
	/* all of it lies in its steps, of which the last ends with the window */
	exposed_ns = compute_ns = 0;
	lw_vec_foreach (step, &run->ranks.at[0].steps) {
		exposed_ns += step->gpu.exposed_ns;
		compute_ns += step->gpu.compute_ns;
	}
	assert_int_equal(exposed_ns, whole->exposed_ns);
	assert_int_equal(compute_ns, whole->compute_ns);
	assert_int_equal(run->ranks.at[0].gpu.n_steps, 2);
	/* of its 2700 launches none lacks its kernel */
	assert_int_equal(run->ranks.at[0].gpu.launched.n, 2700);
	assert_int_equal(run->ranks.at[0].gpu.launched.n_lacking, 0);
	check_where_the_host_was(run);
	lw_run_free(run);
}

static void dlrm_of_eight_ranks(void **state)
{
	static const int64_t nccl_us[] = {5798, 11336, 3492, 9774, 6587, 6251, 3558, 1746};
	static const int64_t compute_us[] = {1034, 1246, 1068, 1240, 1126, 1041, 1051, 1059};
	char traces[128], command[512];
	const char *path = traces;
	int64_t late_ns[8];
	struct lw_run *run;

	(void)state;
	if (!is_there(DLRM))
		return;
	snprintf(traces, sizeof(traces), "%s", run_fixture_path("dlrm_kineto"));
	snprintf(command, sizeof(command), "mkdir -p %s && tar xzf %s -C %s --strip-components=1",
		path, DLRM, path);
	assert_int_equal(system(command), 0);
	run = gpu_run_import(&path, 1);
	assert_int_equal(run->ranks.n, 8);
	for (size_t r = 0; r < 8; r++) {
		assert_int_equal(run->ranks.at[r].gpu.whole.comm_sum_ns, nccl_us[r] * 1000);
		assert_int_equal(run->ranks.at[r].gpu.whole.compute_ns, compute_us[r] * 1000);
	}
	assert_int_equal(run->groups.n, 8);
	assert_true(lw_run_computed(run, 0, late_ns));
	for (size_t r = 0; r < 7; r++)
		assert_true(late_ns[r] < late_ns[7]);
	for (size_t g = 0; g < run->groups.n; g++)
		assert_int_equal(run->groups.at[g].n_ranks, 8);
	lw_run_free(run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(overlap_is_lost_where_the_host_waited_before_it_launched),
		cmocka_unit_test(no_more_is_lost_than_the_host_waited),
		cmocka_unit_test(what_may_have_had_to_wait_is_not_lost),
		cmocka_unit_test(ranges_of_the_thread_that_marks_steps_are_told),
		cmocka_unit_test(resnet50_of_two_ranks),
		cmocka_unit_test(dlrm_of_eight_ranks),
	};

	return cmocka_run_group_tests(tests, run_fixture_make, run_fixture_remove);
}
