/* SPDX-License-Identifier: Apache-2.0 */
/* Operations of NCCL without launches: their kernels by their order, and what sends and receives of a group are. */
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

/*
 * Two communicators on two streams, calls without launches: kernels in their order. The operations 3 and 4 are of one
 * group and have one kernel. Times in us.
 */
static const char ordered_sql[] =
	"DELETE FROM batch; DELETE FROM batch_tensor; DELETE FROM collective; DELETE FROM ready; DELETE FROM wait;"
	"DELETE FROM cycle; INSERT INTO string VALUES(900, 'ncclDevKernel_AllReduce_Sum_f32_RING_LL'),"
	" (901, 'ncclDevKernel_Generic');"
	"INSERT INTO nccl_op VALUES(1, 1, 10000, 11000, 1, 5, 1, 400, -1, NULL, 2, 3, 4, 8, 1, 2),"
	" (1, 2, 12000, 13000, 1, 6, 2, 800, -1, NULL, 1, 1, 4, 8, 1, 2),"
	" (1, 3, 14000, 15000, 1, 5, 3, 100, -1, 9, 2, 3, 4, 8, 1, 2),"
	" (1, 4, 15000, 16000, 1, 5, 4, 200, -1, 9, 2, 3, 4, 8, 1, 2),"
	" (1, 5, 17000, 18000, 9, 5, 5, 50, 1, 10, 0, 0, 1, 8, 1, 2),"
	" (1, 6, 18000, 19000, 10, 5, 6, 70, 1, 10, 0, 0, 1, 8, 1, 2),"
	" (1, 7, 19000, 19500, 9, 5, 7, 60, 1, NULL, 0, 0, 1, 8, 1, 2);"
	"INSERT INTO kernel VALUES(1, 10, 30000, 50000, 900, 0, 1, 20, 0, NULL, 0),"
	" (1, 11, 31000, 60000, 900, 0, 1, 21, 0, NULL, 0), (1, 12, 50000, 70000, 900, 0, 1, 20, 0, NULL, 0),"
	" (1, 13, 70000, 75000, 901, 0, 1, 20, 0, NULL, 0), (1, 14, 75000, 76000, 901, 0, 1, 20, 0, NULL, 0),"
	" (1, 15, 1000, 2000, 900, 0, 1, 20, 0, NULL, 0)";
#define COMM_OF(size) "; INSERT INTO comm VALUES(901, 1, 5, NULL, " size ", 0, 1, 7, 3, 0)"

/* In a communicator of three a rank that exchanges with one of its neighbours takes no part in an all-to-all. */
static void an_exchange_with_a_neighbour_is_no_alltoall(void **state)
{
	struct make_run spec = make_run_job(1, 2);
	struct lw_nccl_services services;
	char sql[4096];
	struct lw_run *run;

	(void)state;
	snprintf(sql, sizeof(sql), "%s%s", ordered_sql, COMM_OF("3"));
	spec.extra_sql = sql;
	run = run_fixture_load(&spec);
	assert_int_equal(run->ranks.at[0].batches.n, 3);
	assert_int_equal(run_fixture_diag(run, "point to point"), 3);
	assert_int_equal(lw_nccl_services(run, &services), LW_OK);
	assert_int_equal(services.at.n, 5);
	assert_int_equal(services.at.at[3].op, LW_NCCL_SEND);
	assert_int_equal((int)services.at.at[3].bytes, 50);
	lw_vec_free(&services.at);
	lw_run_free(run);
}

static void kernels_without_launches_are_taken_in_their_order(void **state)
{
	struct make_run spec = make_run_job(1, 2);
	struct lw_nccl_services services;
	const struct lw_gpu_rank *gpu;
	const struct lw_rank *rank;
	struct lw_run *run;
	char sql[4096];

	(void)state;
	snprintf(sql, sizeof(sql), "%s%s", ordered_sql, COMM_OF("2"));
	spec.extra_sql = sql;
	run = run_fixture_load(&spec);
	rank = &run->ranks.at[0];
	gpu = &rank->gpu;
	assert_true(run->is_plain);
	assert_int_equal(gpu->nccl_ops.at[0].kernel_start_ns, 30000);
	assert_int_equal(gpu->nccl_ops.at[1].kernel_end_ns, 60000);
	assert_int_equal(gpu->nccl_ops.at[2].kernel_start_ns, 50000);
	assert_int_equal(gpu->nccl_ops.at[3].kernel_start_ns, 50000);
	assert_int_equal(gpu->nccl_ops.at[4].kernel_start_ns, 70000);
	assert_int_equal(gpu->nccl_ops.at[5].kernel_start_ns, 70000);
	assert_int_equal(gpu->nccl_ops.at[6].kernel_start_ns, 75000);
	/* what ran before the first call is of none */
	assert_int_equal(gpu->kernels.at[0].nccl_op, LW_NONE);
	/* the group is one operation, so are its sends and receives; the lone send is not matched */
	assert_int_equal(rank->batches.n, 4);
	assert_int_equal(rank->batches.at[2].bytes, 300);
	assert_int_equal(rank->batches.at[3].op, LW_COLL_ALLTOALL);
	assert_int_equal(rank->batches.at[3].bytes, 50);
	/* behind the allreduce of its stream: waits until that ends */
	assert_int_equal(rank->batches.at[2].start_ns, 50000);
	assert_int_equal(rank->members.at[rank->batches.at[2].first_member].ready_ns, 14000);
	assert_int_equal(run_fixture_diag(run, "kernels taken in order"), 5);
	assert_int_equal(run_fixture_diag(run, "point to point"), 1);
	/* each kernel served what its group handed over, and a group of sends and receives an all-to-all */
	assert_int_equal(lw_nccl_services(run, &services), LW_OK);
	assert_int_equal(services.at.n, 5);
	assert_int_equal((int)services.at.at[2].bytes, 300);
	assert_int_equal(services.at.at[3].op, LW_NCCL_ALLTOALL);
	assert_int_equal((int)services.at.at[3].bytes, 50);
	assert_int_equal((int)services.at.at[3].size_bytes, 50);
	assert_int_equal(services.at.at[4].op, LW_NCCL_SEND);
	assert_int_equal((int)services.at.at[4].bytes, 60);
	lw_vec_free(&services.at);
	lw_run_free(run);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(kernels_without_launches_are_taken_in_their_order),
		cmocka_unit_test(an_exchange_with_a_neighbour_is_no_alltoall),
	};

	return cmocka_run_group_tests(tests, run_fixture_make, run_fixture_remove);
}
