/* SPDX-License-Identifier: Apache-2.0 */
/* What an import of PyTorch profiler traces leaves in the store, and what it does with traces that are odd or broken. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <cmocka.h>

#include "analyzer/gpu.h"
#include "analyzer/import/byte_source.h"
#include "analyzer/import/import.h"
#include "analyzer/import/kineto_event.h"
#include "analyzer/load/kernel_name.h"
#include "base/err.h"
#include "schema/event.h"
#include "schema/store.h"

#define DATA LAPWING_SOURCE_DIR "/tests/data/kineto/"

static char folder[] = "/tmp/lapwing-kineto-XXXXXX";
static char output[64], input[64];

static int make_folder(void **state)
{
	(void)state;
	if (!mkdtemp(folder))
		return -1;
	snprintf(output, sizeof(output), "%s/run.lapwing", folder);
	snprintf(input, sizeof(input), "%s/rank0.json", folder);
	return 0;
}

static int remove_folder(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s", folder);
	return system(command);
}

static struct lw_store *import(
	const char *const *paths, size_t n_paths, struct lw_import_summary *summary)
{
	struct lw_store *store;

	if (lw_import(paths, n_paths, NULL, output, NULL, NULL, summary) < 0 ||
		lw_store_open(output, LW_STORE_READ, &store) < 0)
		fail_msg("%s", lw_error_text());
	return store;
}

static void write_input(const char *text)
{
	FILE *file = fopen(input, "w");

	assert_non_null(file);
	fputs(text, file);
	assert_int_equal(fclose(file), 0);
}

/* A trace of the events in @events, of rank 0 of 1. */
static struct lw_store *import_events(const char *events, struct lw_import_summary *summary)
{
	const char *path = input;
	FILE *file = fopen(input, "w");

	assert_non_null(file);
	fprintf(file,
		"{\"schemaVersion\": 1, \"distributedInfo\": {\"rank\": 0, \"world_size\": 1}, \"traceEvents\": [%s]}",
		events);
	assert_int_equal(fclose(file), 0);
	return import(&path, 1, summary);
}

static void refuse(const char *const *paths, size_t n_paths, int status, const char *why)
{
	struct lw_import_summary summary;
	int found = lw_import(paths, n_paths, NULL, output, NULL, NULL, &summary);

	if (found != status || !strstr(lw_error_text(), why))
		fail_msg("%d: %s", found, found < 0 ? lw_error_text() : "imported");
	assert_int_equal(access(output, F_OK), -1);
}

static int64_t ask(struct lw_store *store, const char *sql)
{
	int64_t value;

	if (lw_store_int(store, sql, &value) < 0)
		fail_msg("%s", lw_error_text());
	return value;
}

static void close_run(struct lw_store *store)
{
	lw_store_close(store);
	unlink(output);
}

/* ---- what is stored ------------------------------------------------------------------------------- */

static void two_files_are_two_ranks_of_one_run(void **state)
{
	const char *paths[] = {DATA "rank1.json", DATA "rank0.json"};
	struct lw_import_summary summary;
	struct lw_store *store = import(paths, 2, &summary);

	(void)state;
	assert_int_equal(summary.n_ranks, 2);
	assert_int_equal(summary.n_bad, 0);
	assert_int_equal(summary.n_kernels, 16);
	assert_int_equal(summary.n_copies, 6);
	assert_int_equal(summary.n_nccl_ops, 4);
	assert_int_equal(summary.n_steps, 2);
	assert_int_equal(summary.bytes, 4 * 4 * INT64_C(6637568));
	assert_int_equal(summary.duration_ns, 2000000);
	assert_int_equal(ask(store, "SELECT count(*) FROM process WHERE rank = id - 1 AND size = 2"
				    " AND pid = 700 + rank AND transport = 3"),
		2);
	assert_int_equal(ask(store, "SELECT count(DISTINCT clock) FROM host"), 2);
	/* 1700000000 s, 7 ns and 1000 us, where the first step begins */
	assert_int_equal(ask(store, "SELECT realtime_ns FROM clock_sample WHERE monotonic_ns = 0"),
		INT64_C(1700000000001000007));
	assert_int_equal(
		ask(store,
			"SELECT count(*) FROM gpu g JOIN process p ON p.id = g.process_id"
			" WHERE g.device = p.rank AND g.n_multiprocessors = 132 AND g.major = 9"),
		2);
	close_run(store);
}

static void an_operation_of_nccl_is_tied_to_its_launch_and_its_kernel(void **state)
{
	const char *path = DATA "rank0.json";
	struct lw_import_summary summary;
	struct lw_store *store = import(&path, 1, &summary);

	(void)state;
	assert_int_equal(
		ask(store, "SELECT count(*) FROM nccl_op o JOIN launch l ON l.for_serial = o.serial"
			   " AND l.made_for = 1 JOIN kernel k ON k.correlation = l.correlation"
			   " WHERE o.op = 1 AND o.bytes = 4 * 6637568 AND o.dtype = 8"
			   " AND o.start_ns = l.start_ns AND o.end_ns = k.end_ns AND l.tid = 2"
			   " AND o.algorithm = 0 AND o.protocol = 0 AND o.flags = 0"),
		2);
	assert_int_equal(
		ask(store, "SELECT count(*) FROM comm c JOIN nccl_op o ON o.comm_key = c.key"
			   " WHERE c.size = 2 AND c.rank = 0 AND c.transport = 3"),
		2);
	/* the same key on the other rank */
	assert_true(ask(store, "SELECT comm_key FROM nccl_op") > 0);
	close_run(store);
}

static void calls_copies_waits_and_ranges_have_their_rows(void **state)
{
	const char *path = DATA "rank0.json";
	struct lw_import_summary summary;
	struct lw_store *store = import(&path, 1, &summary);

	(void)state;
	/* a step: 4 kernels, a copy, an order to wait, a wait; and one memset. The query for capturing is none of these. */
	assert_int_equal(ask(store, "SELECT count(*) FROM launch"), 2 * 7 + 1);
	assert_int_equal(summary.n_launches, 15);
	assert_int_equal(
		ask(store, "SELECT count(*) FROM gpu_sync WHERE op = 3 AND stream IS NULL"), 2);
	assert_int_equal(ask(store, "SELECT count(*) FROM gpu_sync WHERE op = 2"), 2);
	assert_int_equal(ask(store, "SELECT count(*) FROM copy WHERE op = 2 AND bytes = 4"), 2);
	assert_int_equal(ask(store, "SELECT count(*) FROM copy WHERE op = 12 AND bytes = 4096"
				    " AND end_ns - start_ns = 5000"),
		1);
	assert_int_equal(
		ask(store, "SELECT count(*) FROM range r JOIN string s ON s.id = r.name_id"
			   " JOIN thread t ON t.id = r.thread_id WHERE s.text = 'aten::convolution'"
			   " AND r.op = 3 AND t.tid = 1"),
		2);
	assert_int_equal(
		ask(store,
			"SELECT count(*) FROM range r JOIN thread t ON t.id = r.thread_id"
			" JOIN string s ON s.id = t.name_id WHERE s.text = 'stream 7 of device 0'"),
		2);
	/* both steps begin, and the last one ends */
	assert_int_equal(ask(store, "SELECT count(*) FROM range WHERE op = 1"), 3);
	assert_int_equal(
		ask(store, "SELECT sum(start_ns) FROM range WHERE op = 1"), 0 + 1000000 + 2000000);
	assert_int_equal(ask(store, "SELECT max(value) FROM range WHERE op = 1"), 4);
	assert_int_equal(ask(store, "SELECT sum(n_stored) FROM thread"),
		ask(store, "SELECT (SELECT count(*) FROM kernel) + (SELECT count(*) FROM copy)"
			   " + (SELECT count(*) FROM launch) + (SELECT count(*) FROM gpu_sync)"
			   " + (SELECT count(*) FROM range) + (SELECT count(*) FROM nccl_op)"));
	close_run(store);
}

static void old_layouts_say_the_same_in_other_words(void **state)
{
	const char *path = DATA "worker3_old.json";
	struct lw_import_summary summary;
	struct lw_store *store = import(&path, 1, &summary);

	(void)state;
	/* its rank is in its name, its size nowhere; what it allreduced says the annotation around the call */
	assert_int_equal(ask(store, "SELECT rank FROM process WHERE size IS NULL"), 3);
	assert_int_equal(ask(store, "SELECT bytes FROM nccl_op WHERE op = 1 AND dtype = 8"
				    " AND algorithm = 2"),
		4 * (394241 + 6 + 5));
	assert_int_equal(ask(store, "SELECT end_ns - start_ns FROM nccl_op"), 190000);
	assert_int_equal(ask(store, "SELECT stream FROM kernel WHERE device = 0"), 7);
	assert_int_equal(ask(store, "SELECT count(*) FROM copy WHERE op IN (1, 12)"), 2);
	assert_int_equal(
		ask(store, "SELECT realtime_ns FROM clock_sample"), INT64_C(1694128201435418000));
	assert_int_equal(summary.n_bad, 0);
	close_run(store);
}

static void traces_of_amd_devices_are_read_too(void **state)
{
	const char *path = DATA "amd.json";
	struct lw_import_summary summary;
	struct lw_store *store = import(&path, 1, &summary);

	(void)state;
	assert_int_equal(ask(store, "SELECT count(*) FROM kernel"), 3);
	assert_int_equal(ask(store, "SELECT op FROM nccl_op WHERE bytes = 2048 AND dtype = 11"),
		LW_NCCL_ALLGATHER);
	/* 40.001 us from 5043910, called at 5043860 */
	assert_int_equal(ask(store, "SELECT end_ns - start_ns FROM nccl_op"), 90001);
	assert_int_equal(ask(store, "SELECT count(*) FROM launch WHERE op = 1"), 2);
	assert_int_equal(ask(store, "SELECT count(*) FROM copy WHERE op = 2 AND bytes = 512"), 1);
	assert_int_equal(ask(store, "SELECT count(*) FROM gpu_sync WHERE op = 4"), 1);
	close_run(store);
}

/* Doubles have 52 bits: of a time since 1970 in us they lose what is below 0.25. */
static void times_keep_all_their_digits(void **state)
{
	static const struct {
		const char *text;
		int64_t ns;
	} good[] = {
		{"0", 0},
		{"1.5", 1500},
		{"4458676522690.655", INT64_C(4458676522690655)},
		{"1694128201435418.123", INT64_C(1694128201435418123)},
		{"2.0004999", 2000},
		{"2.0005", 2001},
		{"-3.25", -3250},
		{"7.", 7000},
	};
	static const char *const bad[] = {
		"", "x", "9223372036854775807", "1e400", "-", ".5", "9223372036854776.1"};
	int64_t ns;

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		struct lw_json_field field = {.type = LW_JSON_REAL, .text = good[i].text};

		assert_true(lw_kineto_time_ns(&field, &ns));
		assert_int_equal(ns, good[i].ns);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct lw_json_field field = {
			.type = LW_JSON_REAL, .text = bad[i], .real = strtod(bad[i], NULL)};

		assert_false(lw_kineto_time_ns(&field, &ns));
	}
	assert_false(lw_kineto_time_ns(NULL, &ns));
}

static void kernels_are_told_by_their_names(void **state)
{
	static const struct {
		const char *name;
		int gpu_class, op, algorithm;
	} names[] = {
		{"ampere_sgemm_128x64_nt", LW_GPU_COMPUTE, 0, 0},
		{"void my_nccl_like_kernel()", LW_GPU_COMPUTE, 0, 0},
		{"_ZN4ncclE", LW_GPU_COMPUTE, 0, 0},
		{"ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*, unsigned long, ncclWork*)",
			LW_GPU_COMMUNICATION, LW_NCCL_ALLREDUCE, LW_NCCL_ALGORITHM_RING},
		{"ncclKernel_AllReduce_COLLNET_DIRECT_LL_Sum_half(ncclDevComm*)",
			LW_GPU_COMMUNICATION, LW_NCCL_ALLREDUCE, LW_NCCL_ALGORITHM_COLLNET_DIRECT},
		{"ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*)", LW_GPU_COMMUNICATION,
			LW_NCCL_OTHER, 0},
		{"ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
			LW_GPU_COMMUNICATION, LW_NCCL_ALLREDUCE, 0},
		{"ncclDevKernel_AllReduce_Sum_f32_TREE_LL(ncclDevKernelArgsStorage<4096ul>)",
			LW_GPU_COMMUNICATION, LW_NCCL_ALLREDUCE, LW_NCCL_ALGORITHM_TREE},
		{"_Z43ncclDevKernel_ReduceScatter_Sum_f16_RING_LL24ncclDevKernelArgsStorageILm4096EE",
			LW_GPU_COMMUNICATION, LW_NCCL_REDUCESCATTER, 0},
		{"_Z29ncclAllReduceRingLLKernel_sum_f328ncclColl", LW_GPU_COMMUNICATION,
			LW_NCCL_ALLREDUCE, LW_NCCL_ALGORITHM_RING},
		{"ncclDevKernel_Generic_4(ncclDevKernelArgsStorage<4096ul>)", LW_GPU_COMMUNICATION,
			LW_NCCL_OTHER, 0},
		{"ncclSymDevKernel_AllReduce_AGxLL_R_sum_f32(ncclSymDevArgs)", LW_GPU_COMMUNICATION,
			LW_NCCL_ALLREDUCE, 0},
		{"mscclKernel_Sum_half_Simple_false(ncclDevComm*)", LW_GPU_COMMUNICATION,
			LW_NCCL_OTHER, 0},
		{"__amd_rocclr_copyBuffer", LW_GPU_COPY, 0, 0},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct lw_kernel_kind kind = lw_kernel_kind(names[i].name);

		if (kind.gpu_class != names[i].gpu_class || kind.nccl_op != names[i].op ||
			kind.algorithm != names[i].algorithm)
			fail_msg("%s: %d %d %d", names[i].name, kind.gpu_class, kind.nccl_op,
				kind.algorithm);
	}
}

/* Several kernels of one call are a CUDA graph's: the call was made for none of them alone. */
static void kernels_of_a_graph_share_their_call(void **state)
{
	static const char events[] =
		"{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"cudaGraphLaunch\",\"pid\":1,\"tid\":1,\"ts\":10,\"dur\":5,\"args\":{\"correlation\":7}},"
		"{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"ncclDevKernel_Broadcast_RING_LL\",\"pid\":0,\"tid\":9,\"ts\":40,\"dur\":10,\"args\":{\"stream\":9,\"correlation\":7,\"graph id\":3}},"
		"{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"ncclDevKernel_AllReduce_Sum_f32_RING_LL\",\"pid\":0,\"tid\":9,\"ts\":20,\"dur\":10,\"args\":{\"stream\":9,\"correlation\":7,\"graph id\":3}}";
	struct lw_import_summary summary;
	struct lw_store *store = import_events(events, &summary);

	(void)state;
	assert_int_equal(
		ask(store, "SELECT count(*) FROM launch WHERE op = 4 AND made_for = 0"), 1);
	assert_int_equal(
		ask(store, "SELECT count(*) FROM kernel WHERE graph = 3 AND flags = 2"), 2);
	/* by time; in a graph, of unknown size */
	assert_int_equal(ask(store, "SELECT op FROM nccl_op WHERE serial = 1 AND flags = 16 + 32"),
		LW_NCCL_ALLREDUCE);
	assert_int_equal(ask(store, "SELECT op FROM nccl_op WHERE serial = 2"), LW_NCCL_BROADCAST);
	close_run(store);
}

static void a_pause_of_the_profiler_is_no_step(void **state)
{
	static const char events[] =
		"{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"ProfilerStep#7\",\"pid\":1,\"tid\":1,\"ts\":900,\"dur\":50},"
		"{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"ProfilerStep#1\",\"pid\":1,\"tid\":1,\"ts\":100,\"dur\":50},"
		"{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"ProfilerStep#2\",\"pid\":1,\"tid\":1,\"ts\":150,\"dur\":60},"
		"{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"ProfilerStep#2\",\"pid\":1,\"tid\":2,\"ts\":151,\"dur\":58}";
	struct lw_import_summary summary;
	struct lw_store *store = import_events(events, &summary);

	(void)state;
	assert_int_equal(summary.n_steps, 3);
	assert_int_equal(ask(store, "SELECT count(*) FROM range WHERE op = 1"), 5);
	/* from the first event: #1, #2, end of #2, #7, end of #7 */
	assert_int_equal(ask(store, "SELECT sum(start_ns) FROM range WHERE op = 1"),
		1000 * (0 + 50 + 110 + 800 + 850));
	close_run(store);
}

/* ---- several files --------------------------------------------------------------------------------- */

static void files_that_cannot_be_one_run_are_refused(void **state)
{
	const char *same[] = {DATA "rank0.json", DATA "rank0.json"};
	const char *sizes[] = {DATA "rank0.json", DATA "amd.json"};
	const char *lost[] = {DATA "rank0.json", input};

	(void)state;
	refuse(same, 2, LW_ERR_FORMAT, "are both of rank 0");
	refuse(sizes, 2, LW_ERR_FORMAT, "one is of 2 ranks, the other of 8");
	snprintf(input, sizeof(input), "%s/trace.json", folder);
	write_input(
		"{\"traceEvents\": [{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"a\",\"ts\":1,\"dur\":1}]}");
	refuse(lost, 2, LW_ERR_FORMAT, "which rank?");
	unlink(input);
	snprintf(input, sizeof(input), "%s/rank0.json", folder);
}

/* ---- compressed ------------------------------------------------------------------------------------ */

/* Writes @n copies of a text as one compressed file, and cuts it. */
static void write_gzip(const char *path, const char *head, const char *event, int n,
	const char *tail, long keep_bytes)
{
	gzFile file = gzopen(path, "wb");

	assert_non_null(file);
	gzputs(file, head);
	for (int i = 0; i < n; i++)
		gzprintf(file, "%s%s", i ? ",\n" : "", event);
	gzputs(file, tail);
	assert_int_equal(gzclose(file), Z_OK);
	if (keep_bytes)
		assert_int_equal(truncate(path, keep_bytes), 0);
}

static const char cpu_event[] =
	"{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"aten::add\",\"pid\":1,\"tid\":1,\"ts\":100,\"dur\":5}";

static void compressed_traces_are_unpacked_on_the_way(void **state)
{
	static const char bad[] =
		"{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":inf,\"ts\":1,\"dur\":1}";
	char packed[80], tail[256];
	const char *path = packed;
	struct lw_import_summary summary;
	struct stat st;

	(void)state;
	snprintf(packed, sizeof(packed), "%s/rank0.json.gz", folder);
	/* 9 MB: more than is kept to go back in, and a record that has to be looked at twice */
	snprintf(tail, sizeof(tail), ",%s,%s]}", bad, cpu_event);
	write_gzip(packed, "{\"traceEvents\": [", cpu_event, 100000, tail, 0);
	close_run(import(&path, 1, &summary));
	assert_int_equal(summary.n_ranges, 100001);
	assert_int_equal(summary.n_bad, 1);
	assert_int_equal(stat(packed, &st), 0);
	write_gzip(packed, "{\"traceEvents\": [", cpu_event, 100000, "]}", st.st_size / 2);
	close_run(import(&path, 1, &summary));
	assert_true(summary.is_truncated);
	assert_in_range(summary.n_ranges, 40000, 60000);
	assert_non_null(strstr(summary.problem, packed));
	write_gzip(packed, "{\"traceEvents\": [", bad, 300, "]}", 0);
	refuse(&path, 1, LW_ERR_FORMAT, "rank0.json.gz");
	unlink(packed);
}

/* 12 MB of numbered lines: what lies behind is found again, near or far, but not forever. */
static void a_compressed_file_can_be_gone_back_in(void **state)
{
	enum { LINE = 12, N_LINES = 1 << 20 };
	char packed[80], line[2 * LINE], found[LINE + 1] = "";
	static char chunk[1 << 16];
	struct lw_byte_source *source;
	uint64_t at = 0, offset;
	ssize_t n;
	gzFile file;
	int i;

	(void)state;
	snprintf(packed, sizeof(packed), "%s/lines.gz", folder);
	file = gzopen(packed, "wb1");
	for (i = 0; i < N_LINES; i++)
		gzprintf(file, "%011d\n", i);
	assert_int_equal(gzclose(file), Z_OK);
	assert_int_equal(lw_byte_source_open(packed, &source), LW_OK);
	assert_true(lw_byte_source_is_gzip(source));
	while ((n = lw_byte_source_read(source, chunk, sizeof(chunk), at)) > 0)
		at += (uint64_t)n;
	assert_int_equal(at, (uint64_t)LINE * N_LINES);
	assert_null(lw_byte_source_problem(source));
	assert_true(lw_byte_source_done_frac(source) > 0.99);
	for (i = 0; i < 40; i++) {
		int number = i % 2 ? N_LINES - 1000 : 1000 * i;

		offset = (uint64_t)number * LINE;
		/* after going back it is forward again from there, and the far end is no longer behind */
		for (at = i % 2 ? at : offset; at < offset; at += (uint64_t)n) {
			n = lw_byte_source_read(source, chunk,
				offset - at < sizeof(chunk) ? offset - at : sizeof(chunk), at);
			assert_true(n > 0);
		}
		n = lw_byte_source_read(source, found, LINE, offset);
		if (n < 0)
			break;
		assert_int_equal(n, LINE);
		at = offset + LINE;
		snprintf(line, sizeof(line), "%011d\n", number);
		assert_string_equal(found, line);
	}
	assert_int_equal(i, 32); /* 16 times far back, each time forward again */
	assert_non_null(strstr(lw_error_text(), "unpack it first"));
	lw_byte_source_close(source);
	unlink(packed);
}

static void archives_are_said_to_be_archives(void **state)
{
	char tar[512] = "worker0.json";
	char packed[80];
	const char *path = packed;
	gzFile file;

	(void)state;
	snprintf(packed, sizeof(packed), "%s/x.tar.gz", folder);
	memcpy(tar + 257, "ustar  ", 8);
	file = gzopen(packed, "wb");
	assert_int_equal(gzwrite(file, tar, sizeof(tar)), sizeof(tar));
	gzclose(file);
	refuse(&path, 1, LW_ERR_FORMAT, "a tar archive: unpack it first");
	write_gzip(packed, "plain", "text", 1, "", 0);
	refuse(&path, 1, LW_ERR_FORMAT, "compressed with gzip, and unpacked text, not JSON");
	unlink(packed);
}

/* ---- broken ---------------------------------------------------------------------------------------- */

static void what_cannot_be_used_is_counted(void **state)
{
	static const char events[] =
		"{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"a\",\"pid\":0,\"tid\":7,\"ts\":10,\"dur\":5,\"args\":{\"stream\":7}},"
		"{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"no duration\",\"pid\":0,\"tid\":7,\"ts\":10},"
		"{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"no time\",\"pid\":0,\"tid\":7,\"ts\":\"soon\",\"dur\":4},"
		"{\"ph\":\"X\",\"cat\":\"gpu_memcpy\",\"name\":\"Memcpy HtoD\",\"ts\":12,\"dur\":0,\"args\":{\"memory bandwidth (GB/s)\":inf}},"
		"{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"back\",\"pid\":0,\"tid\":7,\"ts\":30,\"dur\":-2,\"args\":{\"stream\":7,\"correlation\":-1}},"
		"{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"far\",\"pid\":0,\"tid\":7,\"ts\":500000000000000,\"dur\":2},"
		"{\"ph\":\"X\",\"cat\":\"python_function\",\"name\":\"f\",\"ts\":1,\"dur\":1},"
		"{\"ph\":\"i\",\"name\":\"mark\",\"ts\":1}, 17, null, [], {}, {\"ph\":\"X\",\"cat\":7,\"name\":\"x\"}";
	struct lw_import_summary summary;
	struct lw_store *store = import_events(events, &summary);

	(void)state;
	assert_int_equal(summary.n_kernels, 2);
	/* two without times, one with a number that is none, one years from the rest */
	assert_int_equal(summary.n_bad, 4);
	assert_int_equal(summary.n_unused, 4);
	assert_int_equal(
		ask(store, "SELECT count(*) FROM kernel WHERE flags = 4 AND start_ns = end_ns"
			   " AND correlation = 0"),
		1);
	assert_int_equal(ask(store, "SELECT sum(n) FROM loss WHERE reason = 6"), 4);
	close_run(store);
}

static void a_file_that_stops_keeps_what_it_has(void **state)
{
	const char *path = input;
	struct lw_import_summary summary;
	struct lw_store *store;

	(void)state;
	write_input(
		"{\"schemaVersion\": 1, \"traceEvents\": ["
		"{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"a\",\"pid\":0,\"tid\":7,\"ts\":10,\"dur\":5,\"args\":{\"stream\":7}},"
		"{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"b\",\"ts\":1");
	store = import(&path, 1, &summary);
	assert_true(summary.is_truncated);
	assert_int_equal(summary.n_kernels, 1);
	assert_int_equal(summary.n_bad, 1);
	close_run(store);
	write_input("{\"schemaVersion\": 1, \"deviceProperties\": [], \"traceEvents\": []}");
	refuse(&path, 1, LW_ERR_FORMAT, "no event of a kernel");
	write_input(
		"[{\"name\": \"ProfilerStep#1\", \"ph\": \"X\", \"ts\": 172, \"dur\": 293, \"tid\": 1, \"pid\": \"CPU functions\", \"args\": {}}]");
	refuse(&path, 1, LW_ERR_FORMAT, "built without Kineto");
	write_input("{\"schemaVersion\": 1, \"deviceProperties\": []}");
	refuse(&path, 1, LW_ERR_FORMAT, input);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(two_files_are_two_ranks_of_one_run),
		cmocka_unit_test(an_operation_of_nccl_is_tied_to_its_launch_and_its_kernel),
		cmocka_unit_test(calls_copies_waits_and_ranges_have_their_rows),
		cmocka_unit_test(old_layouts_say_the_same_in_other_words),
		cmocka_unit_test(traces_of_amd_devices_are_read_too),
		cmocka_unit_test(times_keep_all_their_digits),
		cmocka_unit_test(kernels_are_told_by_their_names),
		cmocka_unit_test(kernels_of_a_graph_share_their_call),
		cmocka_unit_test(a_pause_of_the_profiler_is_no_step),
		cmocka_unit_test(files_that_cannot_be_one_run_are_refused),
		cmocka_unit_test(compressed_traces_are_unpacked_on_the_way),
		cmocka_unit_test(a_compressed_file_can_be_gone_back_in),
		cmocka_unit_test(archives_are_said_to_be_archives),
		cmocka_unit_test(what_cannot_be_used_is_counted),
		cmocka_unit_test(a_file_that_stops_keeps_what_it_has),
	};

	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
