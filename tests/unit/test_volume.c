/* SPDX-License-Identifier: Apache-2.0 */
/* What collectives of traces move, and how fast, against figures counted by hand; and what a trace leaves unknown. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/analyzer.h"
#include "analyzer/emit/gpu.h"
#include "analyzer/emit/report.h"
#include "tests/lib/run_fixture.h"
#include "tests/unit/kineto_job.h"

static void assert_near(struct lw_figure figure, double value)
{
	if (!(fabs(figure.value - value) <= 1e-6 * value))
		fail_msg("%.9g (%s), not %.9g", figure.value, figure.why ? figure.why : "", value);
}

static const char *report_of(const struct lw_analysis *analysis)
{
	static char text[1 << 16];
	const struct lw_report_options options = {.rank = LW_NONE};
	FILE *out = fmemopen(text, sizeof(text), "w");
	char *to = text;

	assert_non_null(out);
	lw_report_text(analysis, &options, out);
	assert_int_equal(fclose(out), 0);
	for (const char *from = text; *from; from++) /* as if lines were not folded */
		if (from[0] > ' ' || from[1] != ' ')
			*to++ = *from == '\n' ? ' ' : *from;
	*to = '\0';
	return text;
}

#define MIB      1048576.0
#define KERNEL_S (KERNEL_US * 1e-6)

/* 4 MiB on each of 4 ranks, a quarter of it for each: nccl-tests' size is the 4 MiB, of which 3/4 leave a rank. */
static void check_alltoall(bool is_annotated)
{
	const struct kineto_op op = {
		is_annotated ? "all_to_all" : "all_to_allv", ALLTOALL_NAME, MI, MI, 0, 200};
	const struct kineto_job job = {4, 4, 4, &op, 1, .is_annotated = is_annotated};
	struct lw_analysis *analysis = kineto_job_analyze(&job);
	struct lw_gpu_summary gpu;

	assert_int_equal(lw_gpu_summarize(analysis->run, &gpu), LW_OK);
	assert_int_equal(gpu.nccl.n, 1);
	assert_int_equal(gpu.nccl.at[0].op, LW_NCCL_ALLTOALL);
	assert_near(gpu.nccl.at[0].bytes, 4 * MIB);
	assert_near(gpu.nccl.at[0].algbw_bytes_per_s, 4 * MIB / KERNEL_S);
	assert_near(gpu.nccl.at[0].busbw_bytes_per_s, 3 * MIB / KERNEL_S);
	assert_near(analysis->summary.algbw_bytes_per_s, 4 * MIB / KERNEL_S);
	assert_near(analysis->summary.busbw_bytes_per_s, 3 * MIB / KERNEL_S);
	assert_near(analysis->summary.bytes_per_step, 4 * MIB);
	assert_near(analysis->summary.expected_bytes_per_step, 3 * MIB);
	lw_gpu_summary_done(&gpu);
	lw_analysis_close(analysis);
}

static void an_all_to_all_of_a_trace_is_told_as_a_whole(void **state)
{
	(void)state;
	check_alltoall(false);
	check_alltoall(true);
}

/* Sharded: a rank gives 4 MiB of parameters and gets 8; then gives 8 MiB of gradients and gets 4. */
static void factors_are_those_of_the_operations(void **state)
{
	const struct kineto_op ops[] = {{"_allgather_base", ALLGATHER, MI, 2 * MI, 0, 0},
		{"_reduce_scatter_base", REDUCESCATTER, 2 * MI, MI, 0, 0}};
	const struct kineto_job job = {2, 4, 2, ops, 2, .is_unsized = false};
	struct lw_analysis *analysis = kineto_job_analyze(&job);
	const char *report = report_of(analysis);

	(void)state;
	assert_near(analysis->summary.batches_per_step, 2);
	assert_near(analysis->summary.bytes_per_step, 12 * MIB);
	assert_near(analysis->summary.algbw_bytes_per_s, 8 * MIB / KERNEL_S);
	assert_near(analysis->summary.busbw_bytes_per_s, 4 * MIB / KERNEL_S);
	assert_near(analysis->summary.expected_bytes_per_step, 8 * MIB);
	assert_null(strstr(report, "of gradients"));
	assert_null(strstr(report, "2(N-1)/N"));
	assert_non_null(strstr(report, "handed over by each rank"));
	assert_true(isnan(analysis->summary.csf.value));
	assert_string_equal(analysis->summary.csf.why, LW_FIT_OTHER_OPS);
	assert_string_equal(analysis->fit.figure[LW_FIT_OSF_MEASURED].why, LW_FIT_OTHER_OPS);
	lw_analysis_close(analysis);
}

/* 4 ranks, each in two groups of 2: an allreduce of 4 MiB in each. */
static void groups_of_fewer_ranks_count_for_their_ranks(void **state)
{
	const struct kineto_op ops[] = {
		{"allreduce", ALLREDUCE, MI, MI, 1, 0}, {"allreduce", ALLREDUCE, MI, MI, 2, 0}};
	const struct kineto_job job = {4, 4, 4, ops, 2, .is_unsized = false};
	struct lw_analysis *analysis = kineto_job_analyze(&job);

	(void)state;
	assert_int_equal(analysis->run->groups.n, 4 * 4);
	assert_near(analysis->summary.batches_per_step, 2);
	assert_near(analysis->summary.bytes_per_step, 8 * MIB);
	assert_near(analysis->summary.algbw_bytes_per_s, 4 * MIB / KERNEL_S);
	assert_near(analysis->summary.busbw_bytes_per_s, 4 * MIB / KERNEL_S);
	assert_near(analysis->summary.expected_bytes_per_step, 8 * MIB);
	lw_analysis_close(analysis);
}

static const struct kineto_op buckets[] = {{"allreduce", ALLREDUCE, 4 * MI, 4 * MI, 0, 300},
	{"allreduce", ALLREDUCE, MI, MI, 0, 100}, {"allreduce", ALLREDUCE, MI / 2, MI / 2, 0, 0}};

static void waiting_for_a_rank_that_is_missing_is_not_called_wire(void **state)
{
	const struct kineto_job job = {2, 6, 1, buckets, 3, .is_unsized = false},
				whole = {2, 6, 2, buckets, 3, .is_unsized = false};
	struct lw_analysis *analysis = kineto_job_analyze(&job);
	const char *report = report_of(analysis);

	(void)state;
	assert_int_equal(analysis->run->n_missing_ranks, 1);
	assert_true(lw_summary_exposed(&analysis->summary, NULL).has_waits);
	assert_non_null(strstr(report, "or waiting for ranks or peers that came"));
	assert_null(strstr(report, "ms on the wire"));
	assert_true(isnan(analysis->fit.figure[LW_FIT_ALPHA_NS].value));
	assert_true(isnan(analysis->summary.beta_bytes_per_s.value));
	assert_true(isnan(analysis->summary.csf.value));
	assert_string_equal(analysis->summary.csf.why, LW_FIT_RANK_MISSING);
	assert_string_equal(analysis->fit.figure[LW_FIT_OSF_MEASURED].why, LW_FIT_RANK_MISSING);
	lw_analysis_close(analysis);

	analysis = kineto_job_analyze(&whole);
	assert_false(lw_summary_exposed(&analysis->summary, NULL).has_waits);
	assert_null(analysis->fit.why_no_scaling);
	assert_true(analysis->fit.figure[LW_FIT_COMM_NS].value > 0);
	assert_non_null(strstr(report_of(analysis), "ms on the wire"));
	lw_analysis_close(analysis);
}

static void sizes_that_are_not_told_are_not_known(void **state)
{
	const struct kineto_job job = {2, 4, 2, buckets, 3, .is_unsized = true};
	struct lw_analysis *analysis = kineto_job_analyze(&job);
	const struct lw_summary *summary = &analysis->summary;

	(void)state;
	assert_near(summary->batches_per_step, 3);
	assert_true(isnan(summary->bytes_per_step.value));
	assert_true(isnan(summary->algbw_bytes_per_s.value));
	assert_true(isnan(summary->busbw_bytes_per_s.value));
	assert_true(isnan(summary->expected_bytes_per_step.value));
	assert_string_equal(
		summary->bytes_per_step.why, "of some operations the size was not recorded");
	lw_analysis_close(analysis);
}

static void what_is_sized_is_not_told_as_all(void **state)
{
	static const struct kineto_op ops[] = {{"allreduce", ALLREDUCE, 4 * MI, 4 * MI, 0, 0},
		{"allreduce", ALLREDUCE, MI, MI, 0, 0}, {"allreduce", ALLREDUCE, -1, -1, 0, 0}};
	const struct kineto_job job = {2, 8, 2, ops, 3, .is_unsized = false},
				none = {2, 8, 2, buckets, 3, .is_unsized = true};
	struct lw_analysis *analysis = kineto_job_analyze(&job);

	(void)state;
	assert_true(isnan(analysis->summary.bytes_per_step.value));
	assert_string_equal(analysis->summary.alpha_ns.why, LW_FIT_UNSIZED);
	assert_string_equal(analysis->summary.csf.why, LW_FIT_UNSIZED);
	assert_true(isnan(analysis->fit.figure[LW_FIT_BYTES_PER_STEP].value));
	assert_true(analysis->fit.figure[LW_FIT_COMM_NS].value > 0);
	lw_analysis_close(analysis);
	analysis = kineto_job_analyze(&none);
	assert_string_equal(analysis->summary.alpha_ns.why, LW_FIT_UNSIZED);
	lw_analysis_close(analysis);
}

/* Kernels of barriers are those of an allreduce of one number. */
static void a_barrier_moves_nothing(void **state)
{
	static const struct kineto_op ops[] = {{"allreduce", ALLREDUCE, 4 * MI, 4 * MI, 0, 0},
		{"allreduce", ALLREDUCE, MI, MI, 0, 0}, {"barrier", ALLREDUCE, 1, 1, 0, 0}};
	const struct kineto_job job = {2, 8, 2, ops, 3, .is_unsized = false},
				old = {2, 8, 2, ops, 3, .is_annotated = true};
	struct lw_gpu_summary gpu;

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct lw_analysis *analysis = kineto_job_analyze(i ? &old : &job);
		const struct lw_summary *summary = &analysis->summary;
		const struct lw_gpu_nccl *row;

		assert_int_equal(analysis->run->groups.n, 8 * 3);
		assert_near(summary->batches_per_step, 3);
		assert_near(summary->bytes_per_step, 20 * MIB);
		assert_near(summary->algbw_bytes_per_s, 10 * MIB / KERNEL_S);
		assert_near(summary->busbw_bytes_per_s, 10 * MIB / KERNEL_S);
		assert_int_equal(lw_gpu_summarize(analysis->run, &gpu), LW_OK);
		assert_int_equal(gpu.nccl.n, 2);
		row = gpu.nccl.at[0].op == LW_NCCL_BARRIER ? gpu.nccl.at : &gpu.nccl.at[1];
		assert_int_equal(row->op, LW_NCCL_BARRIER);
		assert_true(isnan(row->algbw_bytes_per_s.value));
		assert_string_equal(row->algbw_bytes_per_s.why, "a barrier moves nothing");
		assert_near(row->kernel_ns, KERNEL_S * 1e9);
		lw_gpu_summary_done(&gpu);
		/* allreduces that were fitted; the time of barriers is communication all the same */
		/* of the seven steps that end within the profiler's window */
		assert_int_equal(analysis->fit.n_groups, 7 * 2);
		assert_near(analysis->run->ranks.at[0].steps.at[3].time_source == LW_TIME_FROM_GPU
				    ? lw_summary_exact((double)analysis->run->ranks.at[0]
							       .steps.at[3]
							       .gpu.comm_ns,
					      LW_MEASURED)
				    : lw_summary_unknown(""),
			3 * KERNEL_S * 1e9);
		lw_analysis_close(analysis);
	}
}

static void a_barrier_has_the_kernel_of_an_allreduce(void **state)
{
	static const struct kineto_op op = {"barrier", ALLREDUCE, 1, 1, 0, 0};
	const struct kineto_job job = {2, 4, 2, &op, 1, .no_launches = true};
	struct lw_analysis *analysis = kineto_job_analyze(&job);
	struct lw_gpu_summary gpu;

	(void)state;
	assert_int_equal(lw_gpu_summarize(analysis->run, &gpu), LW_OK);
	assert_int_equal(gpu.nccl.n, 1);
	assert_int_equal(gpu.nccl.at[0].op, LW_NCCL_BARRIER);
	assert_int_equal(gpu.nccl.at[0].n_timed, gpu.nccl.at[0].n);
	lw_gpu_summary_done(&gpu);
	lw_analysis_close(analysis);
}

/* Each rank sends 1 MiB to the next and receives as much: by two kernels, so nothing says that they belong together. */
static void sends_that_are_not_matched_moved_their_bytes_all_the_same(void **state)
{
	static const struct kineto_op ops[] = {{"send", ALLTOALL_NAME, MI / 4, MI / 4, 0, 0},
		{"recv", ALLTOALL_NAME, MI / 4, MI / 4, 0, 0}};
	const struct kineto_job job = {2, 6, 2, ops, 2, .is_unsized = false};
	struct lw_analysis *analysis = kineto_job_analyze(&job);
	const struct lw_summary *summary = &analysis->summary;
	const char *report = report_of(analysis);

	(void)state;
	assert_near(summary->batches_per_step, 2);
	assert_near(summary->bytes_per_step, MIB);
	assert_near(summary->expected_bytes_per_step, MIB);
	assert_string_equal(summary->algbw_bytes_per_s.why,
		"sends and receives only: nobody knows when the peer came");
	assert_true(isnan(summary->ranks.at[0].entry_ns.value));
	assert_non_null(strstr(summary->ranks.at[0].entry_ns.why, "matched with nobody"));
	assert_non_null(strstr(report, "on the wire, or waiting for ranks or peers"));
	assert_null(strstr(report, "2(N-1)/N"));
	lw_analysis_close(analysis);
}

static void a_few_allreduces_tell_no_cost_and_a_poor_fit_none_that_is_said(void **state)
{
	/* kernels of one length whatever they move, but for one: no line goes through */
	static const struct kineto_op bent[] = {{"allreduce", ALLREDUCE, MI / 16, MI / 16, 0, 0},
		{"allreduce", ALLREDUCE, MI / 4, MI / 4, 0, -400},
		{"allreduce", ALLREDUCE, MI, MI, 0, 0},
		{"allreduce", ALLREDUCE, 2 * MI, 2 * MI, 0, -500}};
	const struct kineto_job few = {2, 2, 2, buckets, 3, .is_unsized = false},
				poor = {2, 6, 2, bent, 4, .is_unsized = false},
				enough = {2, 6, 2, buckets, 2, .is_unsized = false};
	struct lw_analysis *analysis = kineto_job_analyze(&few);

	(void)state;
	assert_true(isnan(analysis->summary.alpha_ns.value) &&
		    isnan(analysis->summary.beta_bytes_per_s.value));
	assert_string_equal(analysis->summary.alpha_ns.why, LW_FIT_TOO_FEW);
	assert_string_equal(analysis->summary.csf.why, LW_FIT_TOO_FEW);
	lw_analysis_close(analysis);
	analysis = kineto_job_analyze(&poor);
	assert_string_equal(analysis->summary.beta_bytes_per_s.why, LW_FIT_POOR);
	assert_string_equal(analysis->summary.osf.why, LW_FIT_POOR);
	lw_analysis_close(analysis);
	analysis = kineto_job_analyze(&enough);
	assert_null(analysis->fit.why_no_line);
	lw_analysis_close(analysis);
}

static void one_step_has_no_interval(void **state)
{
	const struct kineto_job job = {2, 1, 2, buckets, 3, .is_unsized = false};
	struct lw_analysis *analysis = kineto_job_analyze(&job);
	const struct lw_summary *summary = &analysis->summary;

	(void)state;
	assert_int_equal(summary->n_steps, 1);
	assert_true(summary->mean_step_ns.value > 0);
	assert_true(isnan(summary->mean_step_ns.low) && isnan(summary->mean_step_ns.high));
	assert_string_equal(summary->step_ns.why, "no interval: one step only");
	assert_true(isnan(summary->exposed_frac.low) && isnan(summary->exposed_frac.high));
	assert_true(isnan(summary->ranks.at[0].compute_ns.low));
	assert_non_null(strstr(report_of(analysis), "(mean of 1 step;"));
	lw_analysis_close(analysis);
}

static void a_trace_names_no_host_that_ranks_could_share(void **state)
{
	const struct kineto_job job = {2, 4, 2, buckets, 3, .is_unsized = false};
	struct lw_analysis *analysis = kineto_job_analyze(&job);

	(void)state;
	assert_int_equal(analysis->run->network.algorithm, LW_ALGORITHM_UNKNOWN);
	assert_null(strstr(analysis->run->network.evidence, "share memory"));
	assert_null(strstr(analysis->run->network.evidence, "one host"));
	assert_non_null(strstr(analysis->run->network.evidence, "neither hosts nor connections"));
	lw_analysis_close(analysis);
}

static void of_a_device_computing_is_told_with_its_gaps(void **state)
{
	const struct kineto_job job = {2, 4, 2, buckets, 3, .is_unsized = false};
	struct lw_analysis *analysis = kineto_job_analyze(&job);

	(void)state;
	assert_non_null(strstr(lw_fit_figure_note(analysis->run, LW_FIT_COMPUTE_NS), "idle"));
	assert_null(strstr(lw_fit_figure_note(analysis->run, LW_FIT_FORWARD_NS), "gradient"));
	lw_analysis_close(analysis);
}

/* No framework: nothing is fused, copied or agreed on, and an all-to-all is no gradient. */
static void operations_without_a_framework_are_no_gradients(void **state)
{
	const struct kineto_job job = {2, 6, 2, buckets, 3, .is_unsized = false};
	struct lw_analysis *analysis = kineto_job_analyze(&job);
	const char *report = report_of(analysis);

	(void)state;
	assert_non_null(strstr(report, "us launching, or waiting for the device"));
	assert_non_null(strstr(report, "and an operation is ready or runs"));
	assert_non_null(strstr(report, "The phases of its operations (phases"));
	assert_null(strstr(report, "copies and set-up"));
	assert_null(strstr(report, "gradient is on its way"));
	assert_null(strstr(report, "its gradients"));
	assert_null(strstr(report, "Several GPUs"));
	lw_analysis_close(analysis);
}

/* Not a page of zeros and of what is not known. */
static void a_rank_without_operations_has_no_phases(void **state)
{
	const struct kineto_job job = {1, 6, 1, NULL, 0, .is_unsized = false};
	struct lw_analysis *analysis = kineto_job_analyze(&job);
	const char *report = report_of(analysis);

	(void)state;
	assert_non_null(strstr(
		report, "Exposed communication: none, no operation between ranks was recorded."));
	assert_null(strstr(report, "0 ns on the wire"));
	assert_null(strstr(report, "MISC"));
	assert_null(strstr(report, "Collectives and network"));
	assert_null(strstr(report, "alpha"));
	assert_non_null(strstr(report, "Where a step goes"));
	lw_analysis_close(analysis);
}

static void several_gpus_of_a_rank_are_said_to_be_one(void **state)
{
	const struct kineto_job job = {2, 6, 2, buckets, 3, .comm_device = 1};
	struct lw_analysis *analysis = kineto_job_analyze(&job);

	(void)state;
	assert_non_null(strstr(report_of(analysis), "Several GPUs of a rank count as one"));
	lw_analysis_close(analysis);
}

/* DDP's usual buckets are of one size: that they share a name is no change from step to step. */
static void buckets_of_one_size_do_not_come_and_go(void **state)
{
	static const struct kineto_op ops[] = {{"allreduce", ALLREDUCE, MI, MI, 0, 0},
		{"allreduce", ALLREDUCE, MI, MI, 0, 0},
		{"allreduce", ALLREDUCE, MI / 4, MI / 4, 0, 0}};
	struct kineto_job job = {2, 8, 2, ops, 3, .is_unsized = false};
	struct lw_analysis *analysis = kineto_job_analyze(&job);

	(void)state;
	assert_true(isnan(analysis->summary.osf.value));
	assert_non_null(strstr(analysis->summary.osf.why, "have no names of their own"));
	lw_analysis_close(analysis);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_all_to_all_of_a_trace_is_told_as_a_whole),
		cmocka_unit_test(factors_are_those_of_the_operations),
		cmocka_unit_test(groups_of_fewer_ranks_count_for_their_ranks),
		cmocka_unit_test(waiting_for_a_rank_that_is_missing_is_not_called_wire),
		cmocka_unit_test(sizes_that_are_not_told_are_not_known),
		cmocka_unit_test(what_is_sized_is_not_told_as_all),
		cmocka_unit_test(a_barrier_moves_nothing),
		cmocka_unit_test(buckets_of_one_size_do_not_come_and_go),
		cmocka_unit_test(a_barrier_has_the_kernel_of_an_allreduce),
		cmocka_unit_test(sends_that_are_not_matched_moved_their_bytes_all_the_same),
		cmocka_unit_test(a_few_allreduces_tell_no_cost_and_a_poor_fit_none_that_is_said),
		cmocka_unit_test(one_step_has_no_interval),
		cmocka_unit_test(a_trace_names_no_host_that_ranks_could_share),
		cmocka_unit_test(operations_without_a_framework_are_no_gradients),
		cmocka_unit_test(a_rank_without_operations_has_no_phases),
		cmocka_unit_test(several_gpus_of_a_rank_are_said_to_be_one),
		cmocka_unit_test(of_a_device_computing_is_told_with_its_gaps),
	};

	return cmocka_run_group_tests(tests, run_fixture_make, run_fixture_remove);
}
