/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/make_gpu.h"

#include <stdio.h>

#include "schema/event.h"

struct make_gpu make_gpu_job(void)
{
	return (struct make_gpu){.gap_ns = 100000,
		.launch_ns = 150000,
		.comm_stream = MAKE_GPU_COMM_STREAM,
		.copy_ns = 50000,
		.copy_bytes = 2 << 20,
		.nccl_source = LW_NCCL_FROM_PLUGIN};
}

/* Names of kernels and functions are strings 5001 on. */
static const char names_sql[] =
	"INSERT INTO string VALUES(5001, 'NVIDIA H200'), (5002, '0000:3b:00.0'),"
	" (5003, 'sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x32'),"
	" (5004, '_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIfEESt5arrayIPcLm1EEEEviT0_T1_'),"
	" (5005, 'ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)'),"
	" (5006, 'cudaLaunchKernel'), (5007, 'cudaMemcpyAsync'), (5008, 'cudaStreamSynchronize'),"
	" (5009, 'ncclDevKernel_AllReduce_Sum_f32_RING_LL128(ncclDevKernelArgsStorage<4096ul>)');"
	"INSERT INTO gpu SELECT id, start_ns, 0, 5001, 5002, 150754820096, 132, 1980000, 9, 0 FROM process;";

/* What a kernel of computing comes after, and when that is over: the tensor before, or the wait. The last tensor of a
 * step is the one that the next wait follows. */
static const char before_sql[] =
	"CREATE TEMP TABLE made AS WITH e AS (SELECT thread_id, at_ns AS t, 1 AS is_ready FROM ready UNION ALL"
	" SELECT thread_id, end_ns, 0 FROM wait)"
	" SELECT thread_id, t, is_ready, coalesce(lag(t) OVER w, t - 10000000) AS before, coalesce(lag(is_ready) OVER w, 0) AS is_later,"
	" coalesce(lead(is_ready) OVER w, 0) AS is_earlier, row_number() OVER w AS n FROM e WINDOW w AS (PARTITION BY thread_id ORDER BY t);";

const char *make_gpu_sql(const struct make_gpu *gpu, const char *more, char sql[MAKE_GPU_SQL_BYTES])
{
	int n = snprintf(sql, MAKE_GPU_SQL_BYTES, "%s%s", names_sql, before_sql);

	/* kernels of computing, by thread_id and n */
	n += snprintf(sql + n, (size_t)(MAKE_GPU_SQL_BYTES - n),
		"CREATE TEMP TABLE computed AS SELECT thread_id, n, min(before + %lld + CASE WHEN is_later AND NOT is_earlier THEN %lld ELSE 0 END,"
		" t - 1000) AS start_ns, t AS end_ns, is_later, before FROM made WHERE is_ready;"
		"INSERT INTO kernel SELECT thread_id, 100000 + n, start_ns, end_ns, 5003 + n %% 2, 0, 1, %d, 1000000 + n, NULL, 0 FROM computed;"
		"INSERT INTO gpu_sync SELECT thread_id, 200000 + n, before, before + %lld, 3, 1, %d, NULL, 4500000 + n FROM made"
		" WHERE is_ready AND is_later AND NOT is_earlier AND %lld;"
		"INSERT INTO gpu_sync SELECT thread_id, 300000 + seq, start_ns, end_ns, 3, 1, %d, NULL, 4000000 + seq FROM wait;"
		"INSERT INTO gpu_sync SELECT thread_id, 350000 + seq, start_ns + 1000, start_ns + 1000, 2, 1, %d, 1, 4900000 + seq FROM wait;"
		"INSERT INTO copy SELECT thread_id, 400000 + n, start_ns - %lld, start_ns, 1, %lld, 0, 1, %d, 3000000 + n, 0, 0 FROM computed"
		" WHERE NOT is_later;",
		(long long)gpu->gap_ns, (long long)gpu->stall_ns, MAKE_GPU_COMPUTE_STREAM,
		(long long)gpu->stall_ns, gpu->comm_stream, (long long)gpu->stall_ns,
		gpu->comm_stream, MAKE_GPU_COMPUTE_STREAM, (long long)gpu->copy_ns,
		(long long)gpu->copy_bytes, MAKE_GPU_COMPUTE_STREAM);
	if (!gpu->no_nccl)
		n += snprintf(sql + n, (size_t)(MAKE_GPU_SQL_BYTES - n),
			"CREATE TEMP TABLE sent AS SELECT thread_id, seq, start_ns, op, comm_key, sent_bytes AS bytes,"
			" row_number() OVER (PARTITION BY thread_id ORDER BY start_ns) AS n, end_ns FROM collective;"
			"UPDATE sent SET end_ns = (start_ns + end_ns) / 2 WHERE %d AND n %% 4 > 1;"
			"INSERT INTO kernel SELECT thread_id, 500000 + seq, start_ns, end_ns, CASE WHEN %d AND n %% 4 > 1 THEN 5009 ELSE 5005 END,"
			" 0, 1, %d, 2000000 + n, NULL, 0 FROM sent;"
			"INSERT INTO nccl_op SELECT thread_id, 600000 + seq, start_ns - 30000, end_ns, op, comm_key, n, bytes, -1, NULL, 2,"
			" CASE WHEN %d AND n %% 4 > 1 THEN 2 ELSE 1 END, 8, 8, 0, %d FROM sent;",
			gpu->has_two_protocols, gpu->has_two_protocols, gpu->comm_stream,
			gpu->has_two_protocols, gpu->nccl_source);
	if (!gpu->no_launches)
		n += snprintf(sql + n, (size_t)(MAKE_GPU_SQL_BYTES - n),
			"INSERT INTO launch SELECT thread_id, 700000 + n, start_ns - %lld, start_ns - %lld + 6000, 1, 5006, 1000000 + n, 100, 0, 0, 0 FROM computed;"
			"INSERT INTO launch SELECT thread_id, 800000 + n, start_ns - %lld - CASE WHEN %d THEN 5000 ELSE %lld END,"
			" CASE WHEN %d THEN start_ns ELSE start_ns - %lld - %lld + 3000 END, 2, 5007, 3000000 + n, 100, 0, 0, 0 FROM computed WHERE NOT is_later;"
			"INSERT INTO launch SELECT thread_id, 900000 + seq, start_ns, end_ns, 5, 5008, correlation, 100, 0, 0, 0 FROM gpu_sync WHERE op = 3;",
			(long long)gpu->launch_ns, (long long)gpu->launch_ns,
			(long long)gpu->copy_ns, gpu->is_copy_blocking, (long long)gpu->launch_ns,
			gpu->is_copy_blocking, (long long)gpu->copy_ns, (long long)gpu->launch_ns);
	if (!gpu->no_launches && !gpu->no_nccl)
		n += snprintf(sql + n, (size_t)(MAKE_GPU_SQL_BYTES - n),
			"INSERT INTO launch SELECT thread_id, 950000 + seq, start_ns - 20000, start_ns - 14000, 1, 5006, 2000000 + n, 200, 1, n, 0 FROM sent;");
	if (!gpu->no_nccl)
		n += snprintf(sql + n, (size_t)(MAKE_GPU_SQL_BYTES - n), "DROP TABLE temp.sent;");
	snprintf(sql + n, (size_t)(MAKE_GPU_SQL_BYTES - n),
		"DROP TABLE temp.made; DROP TABLE temp.computed; %s", more ? more : "");
	return sql;
}
