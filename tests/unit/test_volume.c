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
#include "analyzer/import/import.h"
#include "tests/lib/run_fixture.h"

enum { MAX_RANKS = 4, MI = 1 << 20, STEP_US = 10000, COMPUTE_US = 4000, KERNEL_US = 700 };

struct op { /* of floats, as PyTorch's profiler tells it */
	const char *name, *kernel;
	int in, out; /* elements */
	int apart;   /* of the ranks of a group of two; 0 = all ranks are one */
	int late_us; /* by which the last rank enters it later, and is in it for shorter */
};

struct job {
	int n_ranks, n_steps, n_files;
	const struct op *ops;
	int n_ops;
	bool is_unsized;
	bool is_annotated; /* annotations of the host say what an operation is, as older versions have them */
};

/* "[0, 2]": those in one group with @rank. */
static int group_of(const struct job *job, const struct op *op, int rank, char text[32])
{
	int first = 0, n = job->n_ranks, by = 1;

	if (op->apart == 1) {
		first = rank / 2 * 2;
		n = 2;
	} else if (op->apart == 2) {
		first = rank % 2;
		n = 2;
		by = 2;
	}
	snprintf(text, 32, "[%d", first);
	for (int i = 1; i < n; i++)
		snprintf(text + strlen(text), 32 - strlen(text), ", %d", first + i * by);
	strcat(text, "]");
	return n;
}

static void write_op(
	FILE *out, const struct job *job, const struct op *op, int rank, int at_us, int correlation)
{
	char ranks[32];
	int n = group_of(job, op, rank, ranks);
	int late_us = rank == job->n_ranks - 1 ? op->late_us : 0;

	if (job->is_annotated)
		fprintf(out,
			",{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"nccl:%s\",\"pid\":1,\"tid\":1,\"ts\":%d,\"dur\":3,"
			"\"args\":{\"Input Dims\":[[%d]],\"Input type\":[\"float\"]}}",
			op->name, at_us - 50, op->in);
	fprintf(out,
		",{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"cudaLaunchKernelExC\",\"pid\":1,\"tid\":1,\"ts\":%d,\"dur\":2,"
		"\"args\":{\"correlation\":%d}}",
		at_us - 49, correlation);
	fprintf(out,
		",{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"%s\",\"pid\":0,\"tid\":20,\"ts\":%d,\"dur\":%d,\"args\":"
		"{\"device\":0,\"context\":1,\"stream\":20,\"correlation\":%d",
		op->kernel, at_us + late_us, KERNEL_US + op->late_us - late_us, correlation);
	if (!job->is_annotated && !job->is_unsized)
		fprintf(out,
			",\"Collective name\":\"%s\",\"In msg nelems\":%d,\"Out msg nelems\":%d,\"Group size\":%d,\"dtype\":\"Float\","
			"\"Process Group Name\":\"%d\",\"Process Group Ranks\":\"%s\"",
			op->name, op->in, op->out, n, op->apart, ranks);
	fputs("}}", out);
}

static void write_rank(FILE *out, const struct job *job, int rank)
{
	int correlation = 0;

	fprintf(out,
		"{\"schemaVersion\":1,\"distributedInfo\":{\"rank\":%d,\"world_size\":%d},\"traceEvents\":["
		"{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":1,\"tid\":0,\"ts\":0,\"args\":{\"name\":\"python\"}}",
		rank, job->n_ranks);
	for (int s = 0; s < job->n_steps; s++) {
		int at_us = 1000 + s * STEP_US;

		fprintf(out,
			",{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"ProfilerStep#%d\",\"pid\":1,\"tid\":1,\"ts\":%d,\"dur\":%d}",
			s, at_us, STEP_US - 100);
		fprintf(out,
			",{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"cudaLaunchKernel\",\"pid\":1,\"tid\":1,\"ts\":%d,\"dur\":2,"
			"\"args\":{\"correlation\":%d}}"
			",{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"gemm\",\"pid\":0,\"tid\":7,\"ts\":%d,\"dur\":%d,\"args\":"
			"{\"device\":0,\"context\":1,\"stream\":7,\"correlation\":%d}}",
			at_us + 10, correlation + 1, at_us + 50, COMPUTE_US, correlation + 1);
		correlation++;
		at_us += 50 + COMPUTE_US;
		for (int i = 0; i < job->n_ops; i++) {
			write_op(out, job, &job->ops[i], rank, at_us, ++correlation);
			at_us += KERNEL_US + job->ops[i].late_us + 300;
		}
	}
	fputs("]}", out);
}

static struct lw_analysis *analyze(const struct job *job)
{
	const struct lw_analysis_options options = {.is_read_only = true};
	char files[MAX_RANKS][128], output[128];
	const char *paths[MAX_RANKS], *path = output;
	struct lw_import_summary summary;
	struct lw_analysis *analysis;

	for (int r = 0; r < job->n_files; r++) {
		char name[24];
		FILE *out;

		snprintf(name, sizeof(name), "rank%d.json", r);
		snprintf(files[r], sizeof(files[r]), "%s", run_fixture_path(name));
		paths[r] = files[r];
		out = fopen(files[r], "w");
		assert_non_null(out);
		write_rank(out, job, r);
		assert_int_equal(fclose(out), 0);
	}
	snprintf(output, sizeof(output), "%s", run_fixture_path("volume.lapwing"));
	remove(output);
	if (lw_import(paths, (size_t)job->n_files, NULL, output, NULL, NULL, &summary) < 0 ||
		lw_analysis_open(&path, 1, &options, &analysis) < 0)
		fail_msg("%s", lw_error_text());
	return analysis;
}

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
	char *at;

	assert_non_null(out);
	lw_report_text(analysis, &options, out);
	assert_int_equal(fclose(out), 0);
	for (at = text; (at = strchr(at, '\n')); at++) /* as if lines were not folded */
		if (at[1] == ' ')
			*at = ' ';
	return text;
}

#define MIB           1048576.0
#define KERNEL_S      (KERNEL_US * 1e-6)
#define ALLTOALL_NAME "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"
#define ALLGATHER     "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
#define REDUCESCATTER                                                                              \
	"ncclDevKernel_ReduceScatter_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
#define ALLREDUCE "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"

/* 4 MiB on each of 4 ranks, a quarter of it for each: nccl-tests' size is the 4 MiB, of which 3/4 leave a rank. */
static void check_alltoall(bool is_annotated)
{
	const struct op op = {
		is_annotated ? "all_to_all" : "all_to_allv", ALLTOALL_NAME, MI, MI, 0, 200};
	const struct job job = {4, 4, 4, &op, 1, false, is_annotated};
	struct lw_analysis *analysis = analyze(&job);
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
	const struct op ops[] = {{"_allgather_base", ALLGATHER, MI, 2 * MI, 0, 0},
		{"_reduce_scatter_base", REDUCESCATTER, 2 * MI, MI, 0, 0}};
	const struct job job = {2, 4, 2, ops, 2, false, false};
	struct lw_analysis *analysis = analyze(&job);
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
	const struct op ops[] = {
		{"allreduce", ALLREDUCE, MI, MI, 1, 0}, {"allreduce", ALLREDUCE, MI, MI, 2, 0}};
	const struct job job = {4, 4, 4, ops, 2, false, false};
	struct lw_analysis *analysis = analyze(&job);

	(void)state;
	assert_int_equal(analysis->run->groups.n, 4 * 4);
	assert_near(analysis->summary.batches_per_step, 2);
	assert_near(analysis->summary.bytes_per_step, 8 * MIB);
	assert_near(analysis->summary.algbw_bytes_per_s, 4 * MIB / KERNEL_S);
	assert_near(analysis->summary.busbw_bytes_per_s, 4 * MIB / KERNEL_S);
	assert_near(analysis->summary.expected_bytes_per_step, 8 * MIB);
	lw_analysis_close(analysis);
}

static const struct op buckets[] = {{"allreduce", ALLREDUCE, 4 * MI, 4 * MI, 0, 300},
	{"allreduce", ALLREDUCE, MI, MI, 0, 100}, {"allreduce", ALLREDUCE, MI / 2, MI / 2, 0, 0}};

static void waiting_for_a_rank_that_is_missing_is_not_called_wire(void **state)
{
	const struct job job = {2, 6, 1, buckets, 3, false, false},
			 whole = {2, 6, 2, buckets, 3, false, false};
	struct lw_analysis *analysis = analyze(&job);
	const char *report = report_of(analysis);

	(void)state;
	assert_int_equal(analysis->run->n_missing_ranks, 1);
	assert_true(lw_summary_exposed(&analysis->summary, NULL).has_waits);
	assert_non_null(strstr(report, "or waiting for ranks that came"));
	assert_null(strstr(report, "ms on the wire"));
	assert_true(isnan(analysis->fit.figure[LW_FIT_ALPHA_NS].value));
	assert_true(isnan(analysis->summary.beta_bytes_per_s.value));
	assert_true(isnan(analysis->summary.csf.value));
	assert_string_equal(analysis->summary.csf.why, LW_FIT_RANK_MISSING);
	assert_string_equal(analysis->fit.figure[LW_FIT_OSF_MEASURED].why, LW_FIT_RANK_MISSING);
	lw_analysis_close(analysis);

	analysis = analyze(&whole);
	assert_false(lw_summary_exposed(&analysis->summary, NULL).has_waits);
	assert_null(analysis->fit.why_no_scaling);
	assert_true(analysis->fit.figure[LW_FIT_COMM_NS].value > 0);
	assert_non_null(strstr(report_of(analysis), "ms on the wire"));
	lw_analysis_close(analysis);
}

static void sizes_that_are_not_told_are_not_known(void **state)
{
	const struct job job = {2, 4, 2, buckets, 3, .is_unsized = true};
	struct lw_analysis *analysis = analyze(&job);
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

static void one_step_has_no_interval(void **state)
{
	const struct job job = {2, 1, 2, buckets, 3, false, false};
	struct lw_analysis *analysis = analyze(&job);
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
	const struct job job = {2, 4, 2, buckets, 3, false, false};
	struct lw_analysis *analysis = analyze(&job);

	(void)state;
	assert_int_equal(analysis->run->network.algorithm, LW_ALGORITHM_UNKNOWN);
	assert_null(strstr(analysis->run->network.evidence, "share memory"));
	assert_null(strstr(analysis->run->network.evidence, "one host"));
	assert_non_null(strstr(analysis->run->network.evidence, "neither hosts nor connections"));
	lw_analysis_close(analysis);
}

static void of_a_device_computing_is_told_with_its_gaps(void **state)
{
	const struct job job = {2, 4, 2, buckets, 3, false, false};
	struct lw_analysis *analysis = analyze(&job);

	(void)state;
	assert_non_null(strstr(lw_fit_figure_note(analysis->run, LW_FIT_COMPUTE_NS), "idle"));
	assert_null(strstr(lw_fit_figure_note(analysis->run, LW_FIT_FORWARD_NS), "gradient"));
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
		cmocka_unit_test(one_step_has_no_interval),
		cmocka_unit_test(a_trace_names_no_host_that_ranks_could_share),
		cmocka_unit_test(of_a_device_computing_is_told_with_its_gaps),
	};

	return cmocka_run_group_tests(tests, run_fixture_make, run_fixture_remove);
}
