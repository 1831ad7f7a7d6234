/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/kineto_job.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/import/import.h"
#include "tests/lib/run_fixture.h"

/* "[0, 2]": those in one group with @rank. */
static int group_of(
	const struct kineto_job *job, const struct kineto_op *op, int rank, char text[32])
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

static void write_op(FILE *out, const struct kineto_job *job, const struct kineto_op *op, int rank,
	int at_us, int correlation)
{
	char ranks[32];
	int n = group_of(job, op, rank, ranks);
	int late_us = rank == job->n_ranks - 1 ? op->late_us : 0;

	if (job->is_annotated)
		fprintf(out,
			",{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"nccl:%s\",\"pid\":1,\"tid\":1,\"ts\":%d,\"dur\":3,"
			"\"args\":{\"Input Dims\":[[%d]],\"Input type\":[\"float\"]}}",
			op->name, at_us - 50, op->in);
	if (!job->no_launches)
		fprintf(out,
			",{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"cudaLaunchKernelExC\",\"pid\":1,\"tid\":1,\"ts\":%d,\"dur\":2,"
			"\"args\":{\"correlation\":%d}}",
			at_us - 49, correlation);
	fprintf(out,
		",{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"%s\",\"pid\":0,\"tid\":20,\"ts\":%d,\"dur\":%d,\"args\":"
		"{\"device\":%d,\"context\":1,\"stream\":20,\"correlation\":%d",
		op->kernel, at_us + late_us, KERNEL_US + op->late_us - late_us, job->comm_device,
		correlation);
	if (!job->is_annotated && !job->is_unsized && op->in < 0)
		fprintf(out, ",\"Collective name\":\"%s\",\"Group size\":%d", op->name, n);
	else if (!job->is_annotated && !job->is_unsized)
		fprintf(out,
			",\"Collective name\":\"%s\",\"In msg nelems\":%d,\"Out msg nelems\":%d,\"Group size\":%d,\"dtype\":\"Float\","
			"\"Process Group Name\":\"%d\",\"Process Group Ranks\":\"%s\"",
			op->name, op->in, op->out, n, op->apart, ranks);
	fputs("}}", out);
}

static void write_rank(FILE *out, const struct kineto_job *job, int rank)
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

struct lw_analysis *kineto_job_analyze(const struct kineto_job *job)
{
	const struct lw_analysis_options options = {.is_read_only = true};
	char files[KINETO_MAX_RANKS][128], output[128];
	const char *paths[KINETO_MAX_RANKS], *path = output;
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
