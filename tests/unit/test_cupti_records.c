/* SPDX-License-Identifier: Apache-2.0 */
/* CUPTI's records of every version become ours; what cannot be is told apart. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "tracer/cupti_layout.h"
#include "tracer/cupti_records.h"

static struct lw_cupti_parser parser;
static uint8_t bytes[256];
static struct lw_cupti_record got;

static void put32(size_t offset, uint32_t value)
{
	memcpy(bytes + offset, &value, sizeof(value));
}

static void put64(size_t offset, uint64_t value)
{
	memcpy(bytes + offset, &value, sizeof(value));
}

static enum lw_cupti_verdict parse(size_t n_bytes)
{
	memset(&got, 0xee, sizeof(got));
	return lw_cupti_parse(&parser, bytes, n_bytes, &got);
}

static int fresh(void **state)
{
	(void)state;
	memset(&parser, 0, sizeof(parser));
	memset(bytes, 0, sizeof(bytes));
	return 0;
}

static void make_kernel(uint32_t kind)
{
	memset(bytes, 0xaa, sizeof(bytes));
	put32(0, kind);
	put64(LW_CUPTI_KERNEL_START, 1000);
	put64(LW_CUPTI_KERNEL_END, 3000);
	put32(LW_CUPTI_KERNEL_DEVICE, 2);
	put32(LW_CUPTI_KERNEL_CONTEXT, 4);
	put32(LW_CUPTI_KERNEL_STREAM, 9);
	put32(LW_CUPTI_KERNEL_CORRELATION, 77);
	put64(LW_CUPTI_KERNEL_NAME, UINT64_C(0x123456789abc));
	put64(LW_CUPTI_KERNEL_GRAPH_NODE, 0);
	put32(LW_CUPTI_KERNEL_GRAPH, 0);
}

static void kernels_of_all_versions_read_alike(void **state)
{
	static const size_t sizes[] = {144, 160, 168, 176, 200, 208, 216, 240};

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		make_kernel(LW_CUPTI_KIND_CONCURRENT_KERNEL);
		assert_int_equal(parse(sizes[i]), LW_CUPTI_IS_EVENT);
		assert_int_equal(got.event.kind, LW_EV_KERNEL);
		assert_int_equal(got.event.t0_ns, 1000);
		assert_int_equal(got.event.t1_ns, 3000);
		assert_int_equal(got.event.kernel.device, 2);
		assert_int_equal(got.event.kernel.context, 4);
		assert_int_equal(got.event.kernel.stream, 9);
		assert_int_equal(got.event.kernel.correlation, 77);
		assert_int_equal(got.event.kernel.flags, 0);
		assert_int_equal(got.event.kernel.graph, 0);
		assert_int_equal(got.event.kernel.reserved, 0);
		assert_ptr_equal(got.name, (void *)0x123456789abc);
	}
}

static void a_graphs_number_is_read_where_the_record_has_one(void **state)
{
	(void)state;
	make_kernel(LW_CUPTI_KIND_CONCURRENT_KERNEL);
	put32(LW_CUPTI_KERNEL_GRAPH, 6);
	assert_int_equal(parse(160), LW_CUPTI_IS_EVENT);
	assert_int_equal(got.event.kernel.graph, 6);
	assert_int_equal(got.event.kernel.flags, LW_KERNEL_IN_GRAPH);
	assert_int_equal(
		parse(144), LW_CUPTI_IS_EVENT); /* of CUDA 9: what follows is the next record's */
	assert_int_equal(got.event.kernel.graph, 0);
	assert_int_equal(got.event.kernel.flags, 0);
	put32(LW_CUPTI_KERNEL_GRAPH, 0);
	put64(LW_CUPTI_KERNEL_GRAPH_NODE, 5);
	assert_int_equal(parse(216), LW_CUPTI_IS_EVENT);
	assert_int_equal(got.event.kernel.flags, LW_KERNEL_IN_GRAPH);
}

static void a_graph_as_a_whole_is_a_kernel_without_a_name(void **state)
{
	(void)state;
	put32(0, LW_CUPTI_KIND_GRAPH_TRACE);
	put32(LW_CUPTI_GRAPH_CORRELATION, 3);
	put64(LW_CUPTI_GRAPH_START, 10);
	put64(LW_CUPTI_GRAPH_END, 30);
	put32(LW_CUPTI_GRAPH_GRAPH, 8);
	put32(LW_CUPTI_GRAPH_STREAM, 2);
	assert_int_equal(parse(48), LW_CUPTI_IS_EVENT);
	assert_int_equal(got.event.kind, LW_EV_KERNEL);
	assert_int_equal(got.event.kernel.flags, LW_KERNEL_GRAPH);
	assert_int_equal(got.event.kernel.graph, 8);
	assert_int_equal(got.event.kernel.correlation, 3);
	assert_int_equal(got.event.kernel.stream, 2);
	assert_null(got.name);
}

static void work_that_ends_before_it_begins_is_flagged(void **state)
{
	(void)state;
	make_kernel(LW_CUPTI_KIND_CONCURRENT_KERNEL);
	put64(LW_CUPTI_KERNEL_END, 900);
	assert_int_equal(parse(216), LW_CUPTI_IS_EVENT);
	assert_int_equal(got.event.t0_ns, 1000);
	assert_int_equal(got.event.t1_ns, 1000);
	assert_int_equal(got.event.kernel.flags, LW_KERNEL_UNORDERED);
}

static void work_without_both_times_is_unfinished(void **state)
{
	(void)state;
	make_kernel(LW_CUPTI_KIND_CONCURRENT_KERNEL);
	put64(LW_CUPTI_KERNEL_END, 0);
	assert_int_equal(parse(216), LW_CUPTI_IS_UNFINISHED);
	put64(LW_CUPTI_KERNEL_END, 5);
	put64(LW_CUPTI_KERNEL_START, 0);
	assert_int_equal(parse(216), LW_CUPTI_IS_UNFINISHED);
}

static void times_that_no_clock_gives_are_torn(void **state)
{
	(void)state;
	make_kernel(LW_CUPTI_KIND_CONCURRENT_KERNEL);
	put64(LW_CUPTI_KERNEL_END, UINT64_MAX);
	assert_int_equal(parse(216), LW_CUPTI_IS_TORN);
	put64(LW_CUPTI_KERNEL_END, 3000);
	parser.offset_ns = -2000; /* before this host began */
	assert_int_equal(parse(216), LW_CUPTI_IS_TORN);
	parser.offset_ns = INT64_MAX;
	assert_int_equal(parse(216), LW_CUPTI_IS_TORN);
	parser.offset_ns = 500;
	assert_int_equal(parse(216), LW_CUPTI_IS_EVENT);
	assert_int_equal(got.event.t0_ns, 1500);
	assert_int_equal(got.event.t1_ns, 3500);
}

static void short_and_unknown_records_are_told_apart(void **state)
{
	(void)state;
	make_kernel(LW_CUPTI_KIND_CONCURRENT_KERNEL);
	assert_int_equal(parse(143), LW_CUPTI_IS_TORN);
	assert_int_equal(parse(3), LW_CUPTI_IS_TORN);
	assert_int_equal(parse(0), LW_CUPTI_IS_TORN);
	put32(0, 0);
	assert_int_equal(parse(216), LW_CUPTI_IS_UNKNOWN);
	put32(0, 12); /* markers were not asked for */
	assert_int_equal(parse(216), LW_CUPTI_IS_UNKNOWN);
	put32(0, UINT32_MAX);
	assert_int_equal(parse(216), LW_CUPTI_IS_UNKNOWN);
}

static void make_copy(uint32_t kind, uint8_t how)
{
	memset(bytes, 0xaa, sizeof(bytes));
	put32(0, kind);
	bytes[LW_CUPTI_COPY_KIND] = how;
	put64(LW_CUPTI_COPY_BYTES_MOVED, 4096);
	put64(LW_CUPTI_COPY_START, 100);
	put64(LW_CUPTI_COPY_END, 200);
	put32(LW_CUPTI_COPY_DEVICE, 1);
	put32(LW_CUPTI_COPY_CONTEXT, 3);
	put32(LW_CUPTI_COPY_STREAM, 5);
	put32(LW_CUPTI_COPY_CORRELATION, 11);
	put64(LW_CUPTI_COPY_GRAPH_NODE, 0);
}

static void copies_of_all_versions_read_alike(void **state)
{
	static const size_t sizes[] = {64, 72, 80, 88, 96};

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		make_copy(LW_CUPTI_KIND_MEMCPY, 8);
		assert_int_equal(parse(sizes[i]), LW_CUPTI_IS_EVENT);
		assert_int_equal(got.event.kind, LW_EV_COPY);
		assert_int_equal(got.event.op, LW_COPY_DTOD);
		assert_int_equal(got.event.copy.bytes, 4096);
		assert_int_equal(got.event.copy.device, 1);
		assert_int_equal(got.event.copy.peer_device, 1);
		assert_int_equal(got.event.copy.context, 3);
		assert_int_equal(got.event.copy.stream, 5);
		assert_int_equal(got.event.copy.correlation, 11);
		assert_int_equal(got.event.copy.flags, 0);
		put64(LW_CUPTI_COPY_GRAPH_NODE, 1);
		assert_int_equal(parse(sizes[i]), LW_CUPTI_IS_EVENT);
		assert_int_equal(got.event.copy.flags, sizes[i] > 64 ? LW_KERNEL_IN_GRAPH : 0);
	}
	make_copy(LW_CUPTI_KIND_MEMCPY, 0);
	assert_int_equal(parse(96), LW_CUPTI_IS_EVENT);
	assert_int_equal(got.event.op, LW_COPY_OTHER);
	make_copy(LW_CUPTI_KIND_MEMCPY, 200);
	assert_int_equal(parse(96), LW_CUPTI_IS_EVENT);
	assert_int_equal(got.event.op, LW_COPY_OTHER);
}

static void a_peer_copy_names_the_other_device(void **state)
{
	(void)state;
	for (uint32_t source = 1; source <= 2; source++) {
		make_copy(LW_CUPTI_KIND_MEMCPY2, 10);
		put32(LW_CUPTI_PEER_SOURCE, source);
		put32(LW_CUPTI_PEER_TARGET, 3 - source);
		put32(LW_CUPTI_PEER_CORRELATION, 21);
		put64(LW_CUPTI_PEER_GRAPH_NODE, 0);
		assert_int_equal(parse(96), LW_CUPTI_IS_EVENT);
		assert_int_equal(got.event.op, LW_COPY_PTOP);
		assert_int_equal(got.event.copy.device, 1);
		assert_int_equal(got.event.copy.peer_device, 2);
		assert_int_equal(got.event.copy.correlation, 21);
		assert_int_equal(parse(72), LW_CUPTI_IS_EVENT);
		assert_int_equal(parse(71), LW_CUPTI_IS_TORN);
	}
}

static void a_memset_is_a_copy_of_its_own_kind(void **state)
{
	(void)state;
	make_copy(LW_CUPTI_KIND_MEMSET, 1);
	assert_int_equal(parse(64), LW_CUPTI_IS_EVENT);
	assert_int_equal(got.event.op, LW_COPY_MEMSET);
	assert_int_equal(got.event.copy.bytes, 4096);
	assert_int_equal(got.event.copy.correlation, 11);
}

static void waits_keep_what_they_waited_for(void **state)
{
	(void)state;
	put32(0, LW_CUPTI_KIND_SYNCHRONIZATION);
	put32(LW_CUPTI_SYNC_TYPE, 3);
	put64(LW_CUPTI_SYNC_START, 50);
	put64(LW_CUPTI_SYNC_END, 60);
	put32(LW_CUPTI_SYNC_CORRELATION, 31);
	put32(LW_CUPTI_SYNC_CONTEXT, 1);
	put32(LW_CUPTI_SYNC_STREAM, 7);
	put32(LW_CUPTI_SYNC_EVENT, UINT32_MAX);
	assert_int_equal(parse(40), LW_CUPTI_IS_EVENT);
	assert_int_equal(got.event.kind, LW_EV_GPU_SYNC);
	assert_int_equal(got.event.op, LW_GPU_SYNC_STREAM);
	assert_int_equal(got.event.gpu_sync.stream, 7);
	assert_int_equal(got.event.gpu_sync.event, 0);
	assert_int_equal(got.event.gpu_sync.correlation, 31);
	put32(LW_CUPTI_SYNC_TYPE, 9);
	put32(LW_CUPTI_SYNC_EVENT, 4);
	assert_int_equal(parse(56), LW_CUPTI_IS_EVENT);
	assert_int_equal(got.event.op, LW_GPU_SYNC_OTHER);
	assert_int_equal(got.event.gpu_sync.event, 4);
	put64(LW_CUPTI_SYNC_END, 49);
	assert_int_equal(parse(56), LW_CUPTI_IS_TORN);
}

static void make_call(uint32_t kind, uint32_t number, uint32_t correlation)
{
	memset(bytes, 0, sizeof(bytes));
	put32(0, kind);
	put32(LW_CUPTI_API_CALL, number);
	put64(LW_CUPTI_API_START, 500);
	put64(LW_CUPTI_API_END, 700);
	put32(LW_CUPTI_API_THREAD, 4242);
	put32(LW_CUPTI_API_CORRELATION, correlation);
	put32(LW_CUPTI_API_RESULT, 2);
}

static void make_external(uint32_t kind, uint64_t id, uint32_t correlation)
{
	memset(bytes, 0, sizeof(bytes));
	put32(0, LW_CUPTI_KIND_EXTERNAL_CORRELATION);
	put32(LW_CUPTI_EXTERNAL_KIND, kind);
	put64(LW_CUPTI_EXTERNAL_ID, id);
	put32(LW_CUPTI_EXTERNAL_CORRELATION, correlation);
}

static void expect_name(const char *name)
{
	assert_int_equal(got.n_name, strlen(name));
	assert_memory_equal(got.name, name, strlen(name));
}

static void calls_that_are_wanted_become_launches(void **state)
{
	static const struct {
		uint32_t kind, number;
		uint16_t op;
		const char *name;
	} calls[] = {
		{LW_CUPTI_KIND_RUNTIME, 211, LW_LAUNCH_KERNEL, "cudaLaunchKernel"},
		{LW_CUPTI_KIND_RUNTIME, 506, LW_LAUNCH_KERNEL, "cudaLaunchKernel"},
		{LW_CUPTI_KIND_RUNTIME, 225, LW_LAUNCH_COPY, "cudaMemcpyAsync"},
		{LW_CUPTI_KIND_RUNTIME, 51, LW_LAUNCH_MEMSET, "cudaMemsetAsync"},
		{LW_CUPTI_KIND_RUNTIME, 311, LW_LAUNCH_GRAPH, "cudaGraphLaunch"},
		{LW_CUPTI_KIND_RUNTIME, 165, LW_LAUNCH_SYNC, "cudaDeviceSynchronize"},
		{LW_CUPTI_KIND_DRIVER, 307, LW_LAUNCH_KERNEL, "cuLaunchKernel"},
		{LW_CUPTI_KIND_DRIVER, 279, LW_LAUNCH_COPY, "cuMemcpyDtoHAsync"},
		{LW_CUPTI_KIND_DRIVER, 17, LW_LAUNCH_SYNC, "cuCtxSynchronize"},
	};

	(void)state;
	for (uint32_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		make_call(calls[i].kind, calls[i].number, 100 + i);
		parser.is_tid_of_kernel = i % 2;
		assert_int_equal(parse(40), LW_CUPTI_IS_EVENT);
		assert_int_equal(got.event.kind, LW_EV_LAUNCH);
		assert_int_equal(got.event.op, calls[i].op);
		expect_name(calls[i].name);
		assert_int_equal(got.event.launch.correlation, 100 + i);
		assert_int_equal(got.event.launch.tid, i % 2 ? 4242 : 0);
		assert_int_equal(got.event.launch.result, 2);
		assert_int_equal(got.event.launch.made_for, LW_LAUNCH_FOR_NOTHING);
	}
	make_call(
		LW_CUPTI_KIND_RUNTIME, 20, 200); /* cudaMalloc, where narrowing is not to be had */
	assert_int_equal(parse(40), LW_CUPTI_IS_NOTHING);
	make_call(LW_CUPTI_KIND_RUNTIME, UINT32_MAX, 200);
	assert_int_equal(parse(40), LW_CUPTI_IS_NOTHING);
	make_call(LW_CUPTI_KIND_RUNTIME, 211, 201);
	put64(LW_CUPTI_API_END, 1);
	assert_int_equal(parse(40), LW_CUPTI_IS_TORN);
}

static void a_launch_knows_what_it_was_made_for(void **state)
{
	(void)state;
	make_external(LW_CUPTI_EXTERNAL_CUSTOM1, 12, 5);
	assert_int_equal(parse(24), LW_CUPTI_IS_NOTHING);
	make_call(LW_CUPTI_KIND_RUNTIME, 211, 5);
	assert_int_equal(parse(40), LW_CUPTI_IS_EVENT);
	assert_int_equal(got.event.launch.made_for, LW_LAUNCH_FOR_BATCH);
	assert_int_equal(got.event.launch.for_serial, 12);
	/* the operation of NCCL inside a batch, in either order of the two */
	for (uint32_t i = 0; i < 2; i++) {
		make_external(
			i ? LW_CUPTI_EXTERNAL_CUSTOM0 : LW_CUPTI_EXTERNAL_CUSTOM1, 40 + i, 6 + i);
		parse(24);
		make_external(
			i ? LW_CUPTI_EXTERNAL_CUSTOM1 : LW_CUPTI_EXTERNAL_CUSTOM0, 50 + i, 6 + i);
		parse(24);
		make_call(LW_CUPTI_KIND_RUNTIME, 211, 6 + i);
		assert_int_equal(parse(40), LW_CUPTI_IS_EVENT);
		assert_int_equal(got.event.launch.made_for, LW_LAUNCH_FOR_NCCL_OP);
		assert_int_equal(got.event.launch.for_serial, i ? 41 : 50);
	}
	/* another client's, another call's, and what has been used */
	make_external(5, 60, 9);
	parse(24);
	make_call(LW_CUPTI_KIND_RUNTIME, 211, 9);
	assert_int_equal(parse(40), LW_CUPTI_IS_EVENT);
	assert_int_equal(got.event.launch.made_for, LW_LAUNCH_FOR_NOTHING);
	make_external(LW_CUPTI_EXTERNAL_CUSTOM1, 65, 0);
	parse(24);
	for (int i = 0; i < 2; i++) {
		make_call(LW_CUPTI_KIND_RUNTIME, 211, 0);
		assert_int_equal(parse(40), LW_CUPTI_IS_EVENT);
		assert_int_equal(
			got.event.launch.made_for, i ? LW_LAUNCH_FOR_NOTHING : LW_LAUNCH_FOR_BATCH);
	}
	make_external(LW_CUPTI_EXTERNAL_CUSTOM0, 70, 10 + LW_CUPTI_REMEMBERED);
	parse(24);
	make_call(LW_CUPTI_KIND_RUNTIME, 211, 10);
	assert_int_equal(parse(40), LW_CUPTI_IS_EVENT);
	assert_int_equal(got.event.launch.made_for, LW_LAUNCH_FOR_NOTHING);
}

static void a_call_inside_another_is_told_once(void **state)
{
	(void)state;
	make_call(LW_CUPTI_KIND_DRIVER, 307, 8);
	assert_int_equal(parse(40), LW_CUPTI_IS_EVENT);
	make_call(LW_CUPTI_KIND_RUNTIME, 211, 8);
	assert_int_equal(parse(40), LW_CUPTI_IS_NOTHING);
	make_call(LW_CUPTI_KIND_RUNTIME, 211, 9);
	assert_int_equal(parse(40), LW_CUPTI_IS_EVENT);
	for (int i = 0; i < 2; i++) { /* 0 is no correlation */
		make_call(LW_CUPTI_KIND_RUNTIME, 211, 0);
		assert_int_equal(parse(40), LW_CUPTI_IS_EVENT);
	}
}

static void overhead_is_told_by_name(void **state)
{
	(void)state;
	put32(0, LW_CUPTI_KIND_OVERHEAD);
	put32(LW_CUPTI_OVERHEAD_KIND, 5 << 16);
	put64(LW_CUPTI_OVERHEAD_START, 1);
	put64(LW_CUPTI_OVERHEAD_END, 2);
	assert_int_equal(parse(40), LW_CUPTI_IS_EVENT);
	assert_int_equal(got.event.kind, LW_EV_GPU_OVERHEAD);
	assert_string_equal(got.name, "lazy function loading");
	put32(LW_CUPTI_OVERHEAD_KIND, 99 << 16);
	assert_int_equal(parse(56), LW_CUPTI_IS_EVENT);
	assert_string_equal(got.name, "unknown");
}

static void a_device_says_what_it_is(void **state)
{
	(void)state;
	put32(0, LW_CUPTI_KIND_DEVICE);
	put64(LW_CUPTI_DEVICE_MEMORY, UINT64_C(80) << 30);
	put32(LW_CUPTI_DEVICE_CLOCK, 1980000);
	put32(LW_CUPTI_DEVICE_MULTIPROCESSORS, 132);
	put32(LW_CUPTI_DEVICE_MAJOR, 9);
	put32(LW_CUPTI_DEVICE_MINOR, 0);
	put32(LW_CUPTI_DEVICE_ID, 3);
	put64(LW_CUPTI_DEVICE_NAME, 0x1000);
	assert_int_equal(parse(144), LW_CUPTI_IS_EVENT);
	assert_int_equal(got.event.kind, LW_EV_GPU);
	assert_int_equal(got.event.gpu.memory_bytes, UINT64_C(80) << 30);
	assert_int_equal(got.event.gpu.clock_khz, 1980000);
	assert_int_equal(got.event.gpu.n_multiprocessors, 132);
	assert_int_equal(got.event.gpu.major, 9);
	assert_int_equal(got.event.gpu.device, 3);
	assert_ptr_equal(got.name, (void *)0x1000);
	assert_ptr_equal(got.uuid, bytes + LW_CUPTI_DEVICE_UUID);
	assert_int_equal(parse(192), LW_CUPTI_IS_NOTHING); /* hidden from this process */
	bytes[LW_CUPTI_DEVICE_VISIBLE] = 1;
	assert_int_equal(parse(192), LW_CUPTI_IS_EVENT);
	assert_int_equal(parse(136), LW_CUPTI_IS_TORN); /* of CUDA before 7: another structure */
}

static void the_list_of_calls_has_each_once(void **state)
{
	static uint8_t seen[2][2048];
	uint32_t number;
	size_t n = 0;
	bool is_driver;

	(void)state;
	for (; (number = lw_cupti_call(n, &is_driver)) != 0; n++) {
		assert_true(number < 2048);
		assert_int_equal(seen[is_driver][number]++, 0);
		make_call(is_driver ? LW_CUPTI_KIND_DRIVER : LW_CUPTI_KIND_RUNTIME, number,
			(uint32_t)n + 1);
		assert_int_equal(parse(40), LW_CUPTI_IS_EVENT);
	}
	assert_int_equal(n, 180);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, fresh)
	const struct CMUnitTest tests[] = {
		TEST(kernels_of_all_versions_read_alike),
		TEST(a_graphs_number_is_read_where_the_record_has_one),
		TEST(a_graph_as_a_whole_is_a_kernel_without_a_name),
		TEST(work_that_ends_before_it_begins_is_flagged),
		TEST(work_without_both_times_is_unfinished),
		TEST(times_that_no_clock_gives_are_torn),
		TEST(short_and_unknown_records_are_told_apart),
		TEST(copies_of_all_versions_read_alike),
		TEST(a_peer_copy_names_the_other_device),
		TEST(a_memset_is_a_copy_of_its_own_kind),
		TEST(waits_keep_what_they_waited_for),
		TEST(calls_that_are_wanted_become_launches),
		TEST(a_launch_knows_what_it_was_made_for),
		TEST(a_call_inside_another_is_told_once),
		TEST(overhead_is_told_by_name),
		TEST(a_device_says_what_it_is),
		TEST(the_list_of_calls_has_each_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
