/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/tui/runs.h"

#include <stdio.h>
#include <string.h>

#include "schema/event.h"
#include "tests/lib/make_gpu.h"

/* What a tracer leaves of a program that has no framework. */
#define NO_FRAMEWORK                                                                               \
	"DELETE FROM batch; DELETE FROM batch_tensor; DELETE FROM ready;"                          \
	"DELETE FROM cycle; DELETE FROM wait; DELETE FROM setting;"

/* A ring of TCP connections: each rank has one to the next (1) and one from the previous (2). What it sends at a time
 * is what a ring sends, and a tenth more with each rank; the other way go 64 bytes a batch. */
#define NEXT     "((p.rank + 1) % p.size)"
#define PREVIOUS "((p.rank + p.size - 1) % p.size)"
#define ADDRESS  "'10.0.0.' || "
#define RING                                                                                       \
	"INSERT INTO socket SELECT NULL, p.id, 1, p.start_ns, " ADDRESS "(p.rank + 1),"            \
	" 5000 + p.rank, " ADDRESS "(" NEXT " + 1), 6000 + " NEXT " FROM process p;"               \
	"INSERT INTO socket SELECT NULL, p.id, 2, p.start_ns, " ADDRESS "(p.rank + 1),"            \
	" 6000 + p.rank, " ADDRESS "(" PREVIOUS " + 1), 5000 + " PREVIOUS " FROM process p;"
/* What a batch has moved when it ends, and what had been when it began. */
#define MOVED                                                                                      \
	"CREATE TEMP TABLE ended AS SELECT p.id, p.rank, p.size, b.start_ns, b.end_ns, b.bytes,"   \
	" sum(b.bytes) OVER w AS total, row_number() OVER w AS n FROM batch b"                     \
	" JOIN thread t ON t.id = b.thread_id JOIN process p ON p.id = t.process_id"               \
	" WINDOW w AS (PARTITION BY p.id ORDER BY b.end_ns);"                                      \
	"CREATE TEMP TABLE moved AS SELECT id, rank, size, end_ns AS at_ns, n,"                    \
	" total * 2 * (size - 1) / size AS ring FROM ended UNION ALL"                              \
	" SELECT id, rank, size, start_ns, n - 1, (total - bytes) * 2 * (size - 1) / size"         \
	" FROM ended ORDER BY 4, 1;"
#define BY_NEXT     "ring * (10 + p.rank) / 10"
#define BY_PREVIOUS "ring * (10 + " PREVIOUS ") / 10"
#define SAMPLES                                                                                    \
	"INSERT INTO socket_sample SELECT id, 1, at_ns, 1, " BY_NEXT                               \
	", 64 * n, n, n FROM moved p;"                                                             \
	"INSERT INTO socket_sample SELECT id, 2, at_ns, 1, 64 * n, " BY_PREVIOUS                   \
	", n, n FROM moved p;"                                                                     \
	"INSERT INTO tcp_sample SELECT id, 1, at_ns, 1, 50000 + 7000 * rank, " BY_NEXT             \
	" * 97 / 100, 64 * n, 1000000000 - 100000000 * rank, n * (rank = 1), 10 FROM moved p;"     \
	"INSERT INTO tcp_sample SELECT id, 2, at_ns, 1, 40000, 64 * n, " BY_PREVIOUS               \
	", 2000000, 0, 10 FROM moved p;"                                                           \
	"DROP TABLE temp.moved; DROP TABLE temp.ended;"
#define TRAFFIC RING MOVED SAMPLES

/* The number of the step that a row of table ready belongs to, in a job of slow_rank()'s times. */
#define STEP_OF_READY "((at_ns - 1000000000) / 39300000)"

static struct make_run slow_rank(void)
{
	struct make_run spec = make_run_job(3, 12);

	spec.late_ns[2] = 5000000;
	spec.n_broadcasts = 2;
	return spec;
}

static struct make_run one_rank(void)
{
	return make_run_job(1, 8);
}

static struct make_run many_ranks(void)
{
	struct make_run spec = make_run_job(64, 20);

	for (int r = 0; r < 64; r++)
		spec.late_ns[r] = r * 20000;
	return spec;
}

static struct make_run lossy(void)
{
	struct make_run spec = make_run_job(2, 6);

	spec.size = 3;
	spec.has_lost = true;
	spec.lost_rank = 1;
	spec.lost_step = 3;
	spec.extra_sql = "INSERT INTO loss VALUES(2, 4, 1, 5, '')";
	return spec;
}

static struct make_run ddp(void)
{
	struct make_run spec = make_run_job(2, 6);

	spec.framework = LW_FRAMEWORK_TORCH_DDP;
	spec.transport = LW_TRANSPORT_GLOO;
	spec.no_cycles = spec.no_waits = true;
	spec.extra_sql = "DELETE FROM setting";
	return spec;
}

static struct make_run plain(void)
{
	struct make_run spec = make_run_job(2, 6);

	spec.framework = LW_FRAMEWORK_NONE;
	spec.extra_sql = NO_FRAMEWORK;
	return spec;
}

static struct make_run empty(void)
{
	struct make_run spec = make_run_job(1, 1);

	spec.extra_sql = NO_FRAMEWORK "DELETE FROM collective";
	return spec;
}

/* Waits for a cycle that is far too long: there is something to set. */
static struct make_run long_cycle(void)
{
	struct make_run spec = make_run_job(2, 30);

	spec.tick_ns = 12000000;
	spec.late_ns[1] = 2000000;
	spec.extra_sql = "UPDATE setting SET value = 25000000 WHERE setting = 2";
	return spec;
}

/* One rank of two, as rank 0 of Horovod writes it; of how many, it may not say. */
static struct make_run imported(void)
{
	struct make_run spec = make_run_job(1, 6);

	spec.no_waits = true;
	spec.extra_sql = "UPDATE run SET source = 'horovod_timeline'; DELETE FROM setting;"
			 "UPDATE process SET size = 2";
	return spec;
}

static struct make_run imported_of_some(void)
{
	struct make_run spec = imported();

	spec.extra_sql = "UPDATE run SET source = 'horovod_timeline'; DELETE FROM setting;"
			 "UPDATE process SET size = NULL";
	return spec;
}

/* Five sizes whose times nothing explains: the largest is the fastest. */
static struct make_run poor_fit(void)
{
	static const struct make_tensor tensors[] = {
		{"grad.a", 4000, 20000000, 0},
		{"grad.b", 40000, 21000000, 1},
		{"grad.c", 400000, 22000000, 2},
		{"grad.d", 4000000, 23000000, 3},
		{"grad.e", 40000000, 24000000, 4},
	};
	static const int64_t wire_ns[] = {1000000, 9000000, 2000000, 12000000, 500000};
	struct make_run spec = make_run_job(2, 8);

	spec.tensors = tensors;
	spec.n_tensors = sizeof(tensors) / sizeof(tensors[0]);
	memcpy(spec.wire_ns, wire_ns, sizeof(wire_ns));
	return spec;
}

static struct make_run long_run(void)
{
	return make_run_job(4, 2000);
}

/* Two ranks that exchange 40 MB in a second, each over a NIC that also moved something else. */
static struct make_run links(void)
{
	struct make_run spec = make_run_job(2, 30);

	spec.first_ns = 10000000;
	spec.extra_sql =
		"WITH two(r) AS (VALUES(1), (2)) INSERT INTO device SELECT r, 1, 'nic', 'eth' || (r - 1), 2,"
		" r, NULL, 1500, 1250000000, '10.0.0.' || r, 'ixgbe', 0, 0, NULL FROM two;"
		"INSERT INTO device VALUES(3, 1, 'rdma_port', 'mlx5_0/1', 1, NULL, 'eth0', 4096, 12500000000, '', 'mlx5_core', 0, 0, NULL);"
		"INSERT INTO counter(id, name, unit) VALUES(1, 'tx_bytes', 'bytes'), (2, 'rx_bytes', 'bytes'), (3, 'tx_packets', 'packets'),"
		" (4, 'rx_packets', 'packets'), (5, 'rx_dropped', 'packets');"
		"WITH two(r) AS (VALUES(1), (2)), t(at) AS (VALUES(0), (500), (1000)) INSERT INTO counter_sample"
		" SELECT r, c.id, at * 1000000, at * CASE WHEN c.id < 3 THEN 43000 WHEN c.id < 5 THEN 28 ELSE 1 END FROM two, t, counter c;"
		"INSERT INTO counter_sample VALUES(3, 1, 0, 0), (3, 1, 1000000000, 0);"
		"WITH two(r) AS (VALUES(1), (2)) INSERT INTO socket SELECT r, r, 1, 0, '10.0.0.' || r, 5000 + r, '10.0.0.' || (3 - r), 5003 - r FROM two;"
		"INSERT INTO tcp_connection SELECT process_id, 1, process_id, 7, process_id, local_address, local_port, peer_address, peer_port,"
		" process_id, 0, 1, 1 FROM socket;"
		"WITH two(r) AS (VALUES(1), (2)), t(at) AS (VALUES(0), (500), (1000)) INSERT INTO socket_sample"
		" SELECT r, 1, at * 1000000, 1, at * 40000, at * 40000, 1, 1 FROM two, t;"
		"WITH two(r) AS (VALUES(1), (2)), t(at) AS (VALUES(0), (500), (1000)) INSERT INTO tcp_info_sample"
		" SELECT r, at * 1000000, 300000, 100000, at * 40000, at * 40000, at * 40000, 0, at / 100, at * 28, at * 28, 0,"
		" at * 1000000 * 4 / (4 + r), at * 10000, 0, 10, 0 FROM two, t;";
	return spec;
}

/* As links(), each operation captured: the large ones fill the way out of rank 0, segments are sent again, few by rank 1. */
static struct make_run captured(void)
{
	static char sql[8192];
	struct make_run spec = links();

	snprintf(sql, sizeof(sql), "%s%s", spec.extra_sql,
		"UPDATE socket_sample SET sent_bytes = sent_bytes / 4, received_bytes = received_bytes / 4;"
		"UPDATE tcp_info_sample SET sent_bytes = sent_bytes / 4, acked_bytes = acked_bytes / 4,"
		" received_bytes = received_bytes / 4, n_segments_out = n_segments_out / 4, n_segments_in = n_segments_in / 4, busy_ns = busy_ns / 4, rwnd_limited_ns = rwnd_limited_ns / 4;"
		"INSERT INTO capture VALUES(1, 1, 'eth0', '', 'live', 'EN10MB', 128, 0, 1000000000, 9, 0, 0, 0, 0, 0, 0, NULL);"
		"WITH two(r) AS (VALUES(1), (2)) INSERT INTO flow SELECT r, 1, 'tcp', '10.0.0.' || r, 5000 + r, '10.0.0.' || (3 - r),"
		" 5003 - r, NULL, r, 1, 3 - r, 0, 0, 1448, 0, 0 FROM two;"
		"INSERT INTO packet_bin WITH RECURSIVE ms(flow, at, until, wire) AS (SELECT t.process_id, b.start_ns / 1000000,"
		" b.end_ns / 1000000, CASE WHEN b.bytes > 1000000 THEN 51000 ELSE 20000 END FROM batch b JOIN thread t ON t.id = b.thread_id"
		" UNION ALL SELECT flow, at + 1, until, wire FROM ms WHERE at < until)"
		" SELECT flow, at * 1000000, 1, wire, 40, wire, wire, CASE flow WHEN 1 THEN 2 * (at % 7 = 3) ELSE at % 97 = 5 END, 0, 0, 0, 0, 0, 0, at * 1000000,"
		" at * 1000000 FROM ms GROUP BY flow, at;");
	spec.extra_sql = sql;
	return spec;
}

/* Four ranks behind one NIC, which was read every 100 ms. Rank 3 begins late. */
static struct make_run shared_nic(void)
{
	struct make_run spec = make_run_job(4, 12);

	spec.first_ns = 10000000;
	spec.late_ns[3] = 3000000;
	spec.extra_sql =
		"INSERT INTO device VALUES(1, 1, 'nic', 'enp129s0f0np0', 2, 1, NULL, 1500, 125000000, '10.0.0.1', 'ixgbe', 0, 0, NULL);"
		"INSERT INTO counter(id, name, unit) VALUES(1, 'tx_bytes', 'bytes'), (2, 'rx_bytes', 'bytes');"
		"WITH RECURSIVE t(n, tx, rx) AS (SELECT 0, 0, 0 UNION ALL SELECT n + 1, tx + 2500000 * (n + 1),"
		" rx + 12500000 * (n = 1) FROM t WHERE n < 5)"
		" INSERT INTO counter_sample SELECT 1, c.id, n * 100000000, CASE c.id WHEN 1 THEN tx ELSE rx END FROM t, counter c;";
	return spec;
}

/* Three times as much, which is what their allreduces send. */
static struct make_run full_links(void)
{
	static char sql[8192];
	struct make_run spec = links();

	snprintf(sql, sizeof(sql), "%s%s", spec.extra_sql,
		"UPDATE counter_sample SET value = value * 3; UPDATE socket_sample SET sent_bytes = sent_bytes * 3, received_bytes = received_bytes * 3;"
		"UPDATE tcp_info_sample SET sent_bytes = sent_bytes * 3, acked_bytes = acked_bytes * 3, received_bytes = received_bytes * 3,"
		" n_segments_out = n_segments_out * 3, n_segments_in = n_segments_in * 3, busy_ns = busy_ns * 4 / 11;");
	spec.extra_sql = sql;
	return spec;
}

/* As `lapwing import` makes it of a file that tcpdump wrote. */
static struct make_run packets_only(void)
{
	struct make_run spec = make_run_job(1, 1);

	spec.extra_sql =
		"DELETE FROM batch; DELETE FROM batch_tensor; DELETE FROM ready; DELETE FROM cycle; DELETE FROM wait;"
		"DELETE FROM setting; DELETE FROM collective; DELETE FROM thread; DELETE FROM process;"
		"UPDATE run SET source = 'pcap';"
		"INSERT INTO capture VALUES(1, 1, 'a.pcap', '', 'file', 'EN10MB', 128, 0, 2000000000, 99, 0, 0, 0, 0, 2, 1000, NULL);"
		"INSERT INTO flow VALUES(4, 1, 'tcp', '10.0.0.1', 5000, '10.0.0.2', 80, NULL, NULL, NULL, NULL, 0, 0, 1448, 4096, 0),"
		" (5, 1, 'tcp', '10.0.0.2', 80, '10.0.0.1', 5000, NULL, NULL, NULL, NULL, 0, 0, NULL, 0, 2),"
		" (6, 1, 'roce', '2001:db8::1', 49152, '2001:db8::2', 4791, 17, NULL, NULL, NULL, 0, 0, NULL, 0, 0),"
		" (7, 1, 'udp', '2001:db8::1', 53, '2001:db8::2', 4000, NULL, NULL, NULL, NULL, 0, 0, NULL, 0, 0),"
		" (1, 1, 'tcp', '', 0, '', 0, NULL, NULL, NULL, NULL, 1, 0, NULL, 0, 0);"
		"INSERT INTO packet_bin VALUES(4, 0, 9, 90000, 70, 95000, 90000, 3, 3000, 2500, 0, 0, 0, 0, 100000, 900000),"
		" (4, 1500000000, 1, 1500, 1, 1500, 1448, 0, 0, 0, 0, 0, 0, 0, 1500000000, 1500000000),"
		" (5, 0, 5, 400, 5, 400, 0, 0, 0, 0, 0, 0, 0, 0, 200000, 700000),"
		" (6, 0, 8, 8800, 8, 8800, 8192, 0, 0, 0, 0, 1, 0, 0, 0, 500000),"
		" (7, 0, 1, 120, 1, 120, 60, 0, 0, 0, 0, 0, 0, 0, 300000, 300000),"
		" (1, 0, 7, 700, 7, 700, 100, 0, 0, 0, 0, 0, 0, 0, 0, 999999999)";
	return spec;
}

/* As full_links(), but by the way out of rank 1 it takes three times as long: rank 0, which waits for it, resumes 3 ms later. */
static struct make_run slow_link(void)
{
	static char sql[16384];
	struct make_run spec = full_links();

	snprintf(sql, sizeof(sql), "%s%s", spec.extra_sql,
		"UPDATE tcp_info_sample SET busy_ns = busy_ns * 3 WHERE connection_id = 2;"
		"UPDATE wait SET end_ns = end_ns + 3000000 WHERE thread_id = 1;"
		/* no hook saw this one */
		"INSERT INTO tcp_connection VALUES(9, 1, 1, 9, 1, '10.0.0.1', 6001, '10.0.9.9', 443, 1, 0, 1, 1);"
		"WITH t(at) AS (VALUES(0), (500), (1000)) INSERT INTO tcp_info_sample SELECT 9, at * 1000000, 900000, 800000,"
		" at * 50, at * 50, at * 20, 0, 0, at, at, 0, 0, 0, 0, 10, 0 FROM t;");
	spec.late_ns[0] = 3000000;
	spec.extra_sql = sql;
	return spec;
}

static struct make_run ring_of_2(void)
{
	struct make_run spec = make_run_job(2, 12);

	spec.extra_sql = TRAFFIC;
	return spec;
}

/* One of them talks to a host outside the job, and another's samples were not recorded. */
static struct make_run ring_of_4(void)
{
	struct make_run spec = make_run_job(4, 12);

	spec.late_ns[3] = 3000000;
	spec.extra_sql = TRAFFIC
		"INSERT INTO socket VALUES(NULL, 1, 3, 600000000, '10.0.0.1', 7001, '192.168.1.9', 443);"
		"INSERT INTO socket_sample VALUES(1, 3, 600000000, 1, 5000, 90000, 3, 9)";
	return spec;
}

static struct make_run ring_in_part(void)
{
	struct make_run spec = ring_of_4();

	spec.extra_sql = TRAFFIC "DELETE FROM socket_sample WHERE process_id = 4;"
				 "DELETE FROM tcp_sample WHERE process_id = 4";
	return spec;
}

/* As slow_rank(), but another rank was much later in the first step, which does not count. */
static struct make_run slow_start(void)
{
	struct make_run spec = slow_rank();

	spec.extra_sql = "UPDATE ready SET at_ns = at_ns - 9000000 WHERE thread_id IN (3, 5)"
			 " AND object = 1002 AND " STEP_OF_READY " = 0";
	return spec;
}

/* The late rank is later with the large tensors than with the one that is ready before them, where a step is counted
 * from the large one on: the step counts once, with the worst. */
static struct make_run growing_late(void)
{
	struct make_run spec = slow_rank();

	spec.extra_sql =
		"UPDATE ready SET at_ns = at_ns - 3000000 WHERE thread_id = 5 AND object = 1002";
	return spec;
}

/* Ranks 1 and 2 change places in one step of three, or of five. */
#define CHANGE_PLACES(of)                                                                          \
	"UPDATE ready SET at_ns = at_ns + CASE thread_id WHEN 3 THEN 5000000 ELSE -5000000 END"    \
	" WHERE thread_id IN (3, 5) AND object BETWEEN 1000 AND 1002 AND " STEP_OF_READY " % " #of \
	" = 0"

static struct make_run turns_of_3(void)
{
	struct make_run spec = slow_rank();

	spec.extra_sql = CHANGE_PLACES(3);
	return spec;
}

static struct make_run turns_of_5(void)
{
	struct make_run spec = slow_rank();

	spec.extra_sql = CHANGE_PLACES(5);
	return spec;
}

/* Hooks that told, one that could not. */
#define HOOKS                                                                                                 \
	"INSERT INTO string VALUES(5101, 'cupti'), (5102, 'nccl_plugin'), (5103, 'nccl'),"                    \
	" (5104, 'v6, libnccl 2.28.9'), (5105, 'CUPTI 13.0'), (5106, 'libnccl is static: the plugin tells');" \
	"INSERT INTO hook SELECT id, start_ns, 5101, 1, 0, 5105 FROM process;"                                \
	"INSERT INTO hook SELECT id, start_ns, 5102, 1, 0, 5104 FROM process;"                                \
	"INSERT INTO hook SELECT id, start_ns, 5103, 2, 0, 5106 FROM process;"

/* In each step the host waits for the device, though it could launch. */
static struct make_run gpu(void)
{
	static char sql[MAKE_GPU_SQL_BYTES];
	struct make_run spec = make_run_job(2, 12);
	struct make_gpu gpu = make_gpu_job();

	spec.late_ns[1] = 1000000;
	spec.transport = LW_TRANSPORT_NCCL;
	gpu.stall_ns = 6000000;
	gpu.launch_ns = 50000;
	spec.extra_sql = make_gpu_sql(&gpu, HOOKS MAKE_GPU_COUNTERS, sql);
	return spec;
}

/* Ranges within ranges of the thread that trains, and of another one. */
#define NESTED                                                                                                                      \
	"INSERT INTO string VALUES(7001, 'epoch 1'), (7002, 'forward'), (7003, 'nn/layer1'), (7004, 'nn/layer2'),"                  \
	" (7005, 'backward'), (7006, 'optimizer'), (7007, 'loader'), (7008, 'NCCL/ncclAllReduce');"                                 \
	"INSERT INTO range SELECT thread_id, 840000, min(end_ns), max(end_ns) + 34500000, 3, 7001, 0 FROM wait GROUP BY thread_id;" \
	"INSERT INTO range SELECT thread_id, 850000 + seq, end_ns + 100000, end_ns + 9000000, 3, 7002, 0 FROM wait;"                \
	"INSERT INTO range SELECT thread_id, 860000 + seq, end_ns + 200000, end_ns + 4200000, 4, 7003, 64 FROM wait;"               \
	"INSERT INTO range SELECT thread_id, 870000 + seq, end_ns + 4300000, end_ns + 8900000, 4, 7004, 65 FROM wait;"              \
	"INSERT INTO range SELECT thread_id, 880000 + seq, end_ns + 9000000, end_ns + 31000000, 3, 7005, 0 FROM wait;"              \
	"INSERT INTO range SELECT thread_id, 890000 + seq, end_ns + 31500000, end_ns + 34000000, 3, 7006, 0 FROM wait;"             \
	"INSERT INTO range SELECT thread_id, 900000 + seq, end_ns + 9000000, end_ns + 9100000, 4, 7008, 0 FROM wait;"               \
	"INSERT INTO range SELECT thread_id + 1, 910000, min(end_ns) - 5, max(end_ns), 3, 7007, 0 FROM wait GROUP BY thread_id;"

static struct make_run gpu_ranges(void)
{
	static char sql[MAKE_GPU_SQL_BYTES];
	struct make_run spec = make_run_job(2, 6);
	struct make_gpu gpu = make_gpu_job();

	spec.transport = LW_TRANSPORT_NCCL;
	spec.extra_sql = make_gpu_sql(&gpu, NESTED, sql);
	return spec;
}

/* The profiler plugin alone: no kernel is known. */
static struct make_run nccl_only(void)
{
	static char sql[MAKE_GPU_SQL_BYTES];
	struct make_run spec = make_run_job(2, 6);
	struct make_gpu gpu = make_gpu_job();

	spec.transport = LW_TRANSPORT_NCCL;
	spec.extra_sql = make_gpu_sql(&gpu,
		"DELETE FROM kernel; DELETE FROM copy; DELETE FROM gpu_sync; DELETE FROM launch; DELETE FROM gpu;"
		"INSERT INTO string VALUES(5101, 'cupti'), (5102, 'CUPTI has another subscriber: libcupti of nsys');"
		"INSERT INTO hook SELECT id, start_ns, 5101, 3, 0, 5102 FROM process;",
		sql);
	return spec;
}

/* Likewise, with its proxies: what rank 1 has is ready for long before rank 2 asks for it. */
static struct make_run late_proxies(void)
{
	static char sql[MAKE_GPU_SQL_BYTES];
	struct make_run spec = make_run_job(4, 12);
	struct make_gpu gpu = make_gpu_job();

	spec.transport = LW_TRANSPORT_NCCL;
	spec.extra_sql = make_gpu_sql(&gpu,
		MAKE_GPU_NCCL_ONLY MAKE_GPU_RING
		"UPDATE nccl_proxy SET peer_wait_ns = 8000000 WHERE op = 1 AND thread_id = 4;"
		"DELETE FROM batch; DELETE FROM batch_tensor; DELETE FROM ready; DELETE FROM cycle; DELETE FROM wait; DELETE FROM setting;",
		sql);
	return spec;
}

/* Nobody has recorded the last of 3 ranks. */
static struct make_run one_missing(void)
{
	struct make_run spec = make_run_job(2, 8);

	spec.late_ns[1] = 5000000;
	spec.extra_sql = "UPDATE process SET size = 3";
	return spec;
}

/* The program marks its steps, from 100 on, and has ranges of its own; its last rank has marks, too. */
static struct make_run ranges(void)
{
	struct make_run spec = make_run_job(2, 6);

	spec.extra_sql =
		"INSERT INTO string VALUES(7001, 'forward'), (7002, 'optimizer'), (7003, 'halfway');"
		"INSERT INTO range SELECT thread_id, 840000 + seq, end_ns + 4000000, end_ns + 4000000, 2, 7003, 0 FROM wait WHERE thread_id ="
		" (SELECT max(thread_id) FROM wait);"
		"INSERT INTO range SELECT thread_id, 810000 + seq, end_ns, end_ns, 1, NULL,"
		" 99 + row_number() OVER (PARTITION BY thread_id ORDER BY end_ns) FROM wait;"
		"INSERT INTO range SELECT thread_id, 820000 + seq, end_ns + 2500000, end_ns + 9000000, 3, 7001, 0 FROM wait;"
		"INSERT INTO range SELECT thread_id, 830000 + seq, end_ns + 100000, end_ns + 2100000, 4, 7002, 0 FROM wait;";
	return spec;
}

/* A process that is no rank marks its steps. */
static struct make_run marked(void)
{
	struct make_run spec = make_run_job(1, 4);

	spec.extra_sql =
		"INSERT INTO string VALUES(7001, 'step');"
		"INSERT INTO range SELECT thread_id, 810000 + seq, end_ns, end_ns, 1, 7001,"
		" row_number() OVER (ORDER BY end_ns) FROM wait;" NO_FRAMEWORK
		"DELETE FROM collective; UPDATE process SET rank = NULL, size = NULL, framework = 0";
	return spec;
}

static struct make_run no_setting(void)
{
	struct make_run spec = make_run_job(2, 8);

	spec.extra_sql = "DELETE FROM setting";
	return spec;
}

static const struct {
	const char *name;
	struct make_run (*make)(void);
} runs[] = {
	{"links", links},
	{"full_links", full_links},
	{"slow_link", slow_link},
	{"captured", captured},
	{"packets_only", packets_only},
	{"shared_nic", shared_nic},
	{"slow_rank", slow_rank},
	{"one_rank", one_rank},
	{"many_ranks", many_ranks},
	{"lossy", lossy},
	{"ddp", ddp},
	{"plain", plain},
	{"empty", empty},
	{"marked", marked},
	{"long_cycle", long_cycle},
	{"imported", imported},
	{"imported_of_some", imported_of_some},
	{"poor_fit", poor_fit},
	{"long", long_run},
	{"ring_of_2", ring_of_2},
	{"ring_of_4", ring_of_4},
	{"ring_in_part", ring_in_part},
	{"slow_start", slow_start},
	{"growing_late", growing_late},
	{"turns_of_3", turns_of_3},
	{"turns_of_5", turns_of_5},
	{"no_setting", no_setting},
	{"gpu", gpu},
	{"gpu_ranges", gpu_ranges},
	{"nccl_only", nccl_only},
	{"late_proxies", late_proxies},
	{"one_missing", one_missing},
	{"ranges", ranges},
};

bool tui_run(const char *name, struct make_run *ret_spec)
{
	for (size_t i = 0; i < sizeof(runs) / sizeof(runs[0]); i++)
		if (!strcmp(runs[i].name, name)) {
			*ret_spec = runs[i].make();
			return true;
		}
	return false;
}
