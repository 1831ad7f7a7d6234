/* SPDX-License-Identifier: Apache-2.0 */
/*
 * make_gpu.h - the GPU side of a made-up run (make_run.h): kernels, copies, waits, launches, operations of NCCL.
 *
 * They follow from what the run has. On the stream of computing, one kernel ends at each moment at which a tensor was
 * ready; it began gap_ns after the kernel before it, or after its rank resumed, and was launched launch_ns before that.
 * On comm_stream, one kernel runs while a batch was on the wire, and is that of one operation. A rank waits for its
 * device where it waits for its gradients, and has told the stream of computing to wait for them, too. A copy to the device ends when the first kernel of a step begins.
 */
#ifndef LAPWING_TESTS_LIB_MAKE_GPU_H
#define LAPWING_TESTS_LIB_MAKE_GPU_H

#include <stdbool.h>
#include <stdint.h>

enum { MAKE_GPU_COMPUTE_STREAM = 7, MAKE_GPU_COMM_STREAM = 20, MAKE_GPU_SQL_BYTES = 12288 };

struct make_gpu {
	int64_t gap_ns, launch_ns;
	int comm_stream;
	int64_t copy_ns, copy_bytes;
	bool is_copy_blocking; /* the call of the copy returns when it is done */
	bool no_launches, no_nccl;
	/* the host waits for the device as long, when the last but one tensor was ready, before it launches the next */
	int64_t stall_ns;
	bool has_two_protocols; /* every other operation runs as LL128, in half the time */
	int nccl_source;        /* enum lw_nccl_source */
};

/** make_gpu_job() - what is usual: nothing to be advised on. */
struct make_gpu make_gpu_job(void);

/** make_gpu_sql() - for extra_sql of a run of at most MAKE_RUN_MAX ranks, before @more. Return: @sql. */
const char *make_gpu_sql(
	const struct make_gpu *gpu, const char *more, char sql[MAKE_GPU_SQL_BYTES]);

/*
 * What NVML counted of two GPUs, from 0 to 2 s, for the @more of make_gpu_sql(): rank 0 has the first, and a GPU of nobody's
 * is beside it. Of its clock, 1.98 GHz at most, half the time is held down by heat, on average to 1.5 GHz; 300 W, 4 GB, 90 %
 * busy; it sends 100 MB/s over NVLink.
 */
#define MAKE_GPU_COUNTERS                                                                                                        \
	"INSERT INTO device VALUES(71, 1, 'gpu', 'NVIDIA H200', 0, NULL, '0000:3b:00.0', NULL, NULL, '', 'nvidia', 0, 0, NULL)," \
	" (72, 1, 'gpu', 'NVIDIA H200', 1, NULL, '0000:5e:00.0', NULL, NULL, '', 'nvidia', 0, 0, NULL);"                         \
	"UPDATE gpu SET pci_id = NULL WHERE process_id > 1;"                                                                     \
	"INSERT INTO counter(id, name, unit, is_gauge) VALUES(71, 'gpu_busy_ppm', 'ppm', 1), (72, 'sm_clock_khz', 'kHz', 1),"    \
	" (73, 'power_mw', 'mW', 1), (74, 'gpu_memory_used_bytes', 'bytes', 1), (75, 'nvlink_tx_bytes', 'bytes', 0),"            \
	" (76, 'clocks_sw_thermal_ns', 'ns', 0), (77, 'clocks_sw_power_ns', 'ns', 0);"                                           \
	"INSERT INTO counter_sample VALUES(71, 71, 0, 900000), (71, 71, 2000000000, 900000),"                                    \
	" (71, 72, 0, 1000000), (71, 72, 2000000000, 2000000), (71, 73, 0, 300000), (71, 73, 2000000000, 300000),"               \
	" (71, 74, 0, 4000000000), (71, 74, 2000000000, 4000000000), (71, 75, 0, 0), (71, 75, 2000000000, 200000000),"           \
	" (71, 76, 0, 0), (71, 76, 2000000000, 1000000000), (71, 77, 0, 0), (71, 77, 2000000000, 0),"                            \
	" (72, 71, 0, 0), (72, 71, 2000000000, 0);"

/*
 * A ring of 4 ranks over two channels, for the @more of make_gpu_sql(), in a communicator that counts them the other way round.
 * Of a message the sender waits 5 us for its GPU, 2 us for the receiver and 20 us for the network; the receiver 25 us, and 4 us
 * for its GPU. The proxies of rank r are of thread 2 (r + 1), 8 messages of 64 KiB each.
 */
#define MAKE_GPU_RING                                                                                                                          \
	"INSERT INTO comm(process_id, key, parent_key, size, rank, serial, how, transport, at_ns)"                                             \
	" SELECT DISTINCT t.process_id, o.comm_key, NULL, 4, 4 - t.process_id, 0, 1, 3, 0 FROM nccl_op o JOIN thread t ON t.id = o.thread_id;" \
	"INSERT INTO nccl_proxy SELECT o.thread_id, 1000000 + 4 * o.seq + c.n, o.start_ns, o.end_ns, 1, o.serial, 8 * 65536,"                  \
	" (7 - t.process_id) % 4, c.n, 8, 8 * 5000, 8 * 2000, 8 * 20000"                                                                       \
	" FROM nccl_op o JOIN thread t ON t.id = o.thread_id, (SELECT 0 AS n UNION SELECT 1) c;"                                               \
	"INSERT INTO nccl_proxy SELECT o.thread_id, 1000002 + 4 * o.seq + c.n, o.start_ns, o.end_ns, 2, o.serial, 8 * 65536,"                  \
	" (5 - t.process_id) % 4, c.n, 8, 8 * 4000, 8 * 25000, 0"                                                                              \
	" FROM nccl_op o JOIN thread t ON t.id = o.thread_id, (SELECT 0 AS n UNION SELECT 1) c;"

/* Before it: NCCL's records are all that there is. */
#define MAKE_GPU_NCCL_ONLY                                                                         \
	"DELETE FROM kernel; DELETE FROM copy; DELETE FROM gpu_sync; DELETE FROM launch; DELETE FROM gpu;"

#endif /* LAPWING_TESTS_LIB_MAKE_GPU_H */
