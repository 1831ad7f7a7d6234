/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu.c - the tables of GPU work of one store, row by row, into its ranks. gpu_join.c ties the rows together.
 *
 * From the tracer and from importers alike. Streams are numbered per rank, names over the run.
 */
#include <stdlib.h>
#include <string.h>

#include <uthash.h>

#include "analyzer/load/load.h"

struct text {
	int64_t id; /* in the store */
	int32_t name;
	UT_hash_handle hh;
};

struct stream {
	struct {
		int32_t rank;
		uint32_t device, context, stream;
	} key;
	uint32_t index;
	UT_hash_handle hh;
};

struct lw_load_gpu {
	struct text *texts;
	struct stream *streams;
	struct stream *last;  /* that was asked for */
	uint64_t n_unordered; /* kernels and copies that end before they begin */
};

static int add_text(struct lw_loader *loader, sqlite3_stmt *row)
{
	int32_t name = lw_load_gpu_name(loader->run, lw_store_column_text(row, 1));
	struct text *text = name < 0 ? NULL : calloc(1, sizeof(*text));

	if (name < 0)
		return name;
	if (!text)
		return lw_fail(LW_ERR_NOMEM, "no memory");
	text->id = sqlite3_column_int64(row, 0);
	text->name = name;
	HASH_ADD(hh, loader->gpu->texts, id, sizeof(text->id), text);
	return LW_OK;
}

/* Index of the name in column @i; UINT32_MAX: it has none. */
static uint32_t name_of(const struct lw_loader *loader, sqlite3_stmt *row, int i)
{
	int64_t id = sqlite3_column_int64(row, i);
	struct text *text;

	HASH_FIND(hh, loader->gpu->texts, &id, sizeof(id), text);
	return text ? (uint32_t)text->name : UINT32_MAX;
}

/* Index of the stream in columns @i (device), @i + 1 (context), @i + 2, added if new. Return: >= 0 or an error. */
static int64_t stream_of(struct lw_loader *loader, struct lw_rank *rank, sqlite3_stmt *row, int i)
{
	struct lw_load_gpu *gpu = loader->gpu;
	struct stream wanted = {.key = {(int32_t)(rank - loader->run->ranks.at),
					(uint32_t)sqlite3_column_int64(row, i),
					(uint32_t)sqlite3_column_int64(row, i + 1),
					(uint32_t)sqlite3_column_int64(row, i + 2)}};
	struct lw_gpu_stream added = {.device = wanted.key.device,
		.context = wanted.key.context,
		.stream = wanted.key.stream};
	struct stream *stream;

	if (gpu->last && !memcmp(&gpu->last->key, &wanted.key, sizeof(wanted.key)))
		return gpu->last->index;
	HASH_FIND(hh, gpu->streams, &wanted.key, sizeof(wanted.key), stream);
	if (!stream) {
		stream = malloc(sizeof(*stream));
		if (!stream)
			return lw_fail(LW_ERR_NOMEM, "no memory");
		*stream = wanted;
		stream->index = (uint32_t)rank->gpu.streams.n;
		if (stream->index >= INT32_MAX || lw_vec_push(&rank->gpu.streams, added) < 0) {
			free(stream);
			return LW_ERR_NOMEM;
		}
		HASH_ADD(hh, gpu->streams, key, sizeof(stream->key), stream);
	}
	gpu->last = stream;
	return stream->index;
}

static int add_device(struct lw_loader *loader, sqlite3_stmt *row)
{
	struct lw_rank *rank = lw_load_rank_of_process(loader, sqlite3_column_int64(row, 0));
	struct lw_gpu_device device = {.device = (uint32_t)sqlite3_column_int64(row, 1),
		.memory_bytes = (uint64_t)sqlite3_column_int64(row, 4),
		.n_multiprocessors = (uint32_t)sqlite3_column_int64(row, 5),
		.clock_khz = (uint32_t)sqlite3_column_int64(row, 6),
		.major = sqlite3_column_int(row, 7),
		.minor = sqlite3_column_int(row, 8)};
	const struct lw_gpu_device *known;

	if (!rank)
		return LW_OK;
	lw_vec_foreach (known, &rank->gpu.devices)
		if (known->device == device.device)
			return LW_OK;
	device.name = strdup(lw_store_column_text(row, 2));
	device.pci = strdup(lw_store_column_text(row, 3));
	if (!device.name || !device.pci || lw_vec_push(&rank->gpu.devices, device) < 0) {
		free(device.name);
		free(device.pci);
		return lw_fail(LW_ERR_NOMEM, "no memory");
	}
	return LW_OK;
}

static int add_kernel(struct lw_loader *loader, sqlite3_stmt *row)
{
	struct lw_rank *rank = lw_load_rank_of_row(loader, row);
	struct lw_kernel kernel = {.correlation = (uint32_t)sqlite3_column_int64(row, 7),
		.flags = (uint16_t)sqlite3_column_int(row, 8),
		.launch = LW_NONE,
		.nccl_op = LW_NONE};
	int64_t stream;

	if (!rank || !lw_load_interval_of(loader, row, 1, &kernel.start_ns, &kernel.end_ns))
		return LW_OK;
	kernel.name = name_of(loader, row, 3);
	if (kernel.name == UINT32_MAX) {
		int32_t name = lw_load_gpu_name(loader->run, "(name lost)");

		if (name < 0)
			return name;
		kernel.name = (uint32_t)name;
	}
	kernel.gpu_class = loader->run->gpu.names.at[kernel.name].gpu_class;
	stream = stream_of(loader, rank, row, 4);
	if (stream < 0)
		return (int)stream;
	kernel.stream = (uint32_t)stream;
	rank->gpu.streams.at[stream].n_kernels++;
	loader->gpu->n_unordered += (kernel.flags & LW_KERNEL_UNORDERED) != 0;
	loader->run->gpu.has_kernels = true;
	return lw_vec_push(&rank->gpu.kernels, kernel);
}

static int add_copy(struct lw_loader *loader, sqlite3_stmt *row)
{
	struct lw_rank *rank = lw_load_rank_of_row(loader, row);
	int64_t bytes = sqlite3_column_int64(row, 8), stream;
	struct lw_copy copy = {.op = sqlite3_column_int(row, 3),
		.correlation = (uint32_t)sqlite3_column_int64(row, 7),
		.bytes = bytes > 0 && bytes <= LW_LOAD_BYTES_MAX ? (uint64_t)bytes : 0,
		.launch = LW_NONE};

	if (!rank || !lw_load_interval_of(loader, row, 1, &copy.start_ns, &copy.end_ns))
		return LW_OK;
	stream = stream_of(loader, rank, row, 4);
	if (stream < 0)
		return (int)stream;
	loader->gpu->n_unordered += (sqlite3_column_int(row, 9) & LW_KERNEL_UNORDERED) != 0;
	copy.stream = (uint32_t)stream;
	rank->gpu.streams.at[stream].n_copies++;
	return lw_vec_push(&rank->gpu.copies, copy);
}

static int add_sync(struct lw_loader *loader, sqlite3_stmt *row)
{
	struct lw_rank *rank = lw_load_rank_of_row(loader, row);
	struct lw_gpu_sync sync = {.thread_id = sqlite3_column_int64(row, 0),
		.op = sqlite3_column_int(row, 3),
		.correlation = (uint32_t)sqlite3_column_int64(row, 6),
		.number = (uint32_t)sqlite3_column_int64(row, 5),
		.has_number = sqlite3_column_type(row, 5) != SQLITE_NULL,
		.context = (uint32_t)sqlite3_column_int64(row, 4),
		.stream = LW_NONE,
		.launch = LW_NONE};

	if (!rank || !lw_load_interval_of(loader, row, 1, &sync.start_ns, &sync.end_ns))
		return LW_OK;
	return lw_vec_push(&rank->gpu.syncs, sync);
}

static int add_launch(struct lw_loader *loader, sqlite3_stmt *row)
{
	struct lw_rank *rank = lw_load_rank_of_row(loader, row);
	struct lw_gpu_launch launch = {.op = sqlite3_column_int(row, 3),
		.correlation = (uint32_t)sqlite3_column_int64(row, 5),
		.tid = (uint32_t)sqlite3_column_int64(row, 6),
		.made_for = sqlite3_column_int(row, 7),
		.for_serial = (uint64_t)sqlite3_column_int64(row, 8),
		.result = (uint32_t)sqlite3_column_int64(row, 9),
		.nccl_op = LW_NONE,
		.batch = LW_NONE};

	if (!rank || !lw_load_interval_of(loader, row, 1, &launch.start_ns, &launch.end_ns))
		return LW_OK;
	launch.name = name_of(loader, row, 4);
	return lw_vec_push(&rank->gpu.launches, launch);
}

static int add_nccl_op(struct lw_loader *loader, sqlite3_stmt *row)
{
	struct lw_rank *rank = lw_load_rank_of_row(loader, row);
	int64_t bytes = sqlite3_column_int64(row, 6);
	struct lw_nccl_call op = {.thread_id = sqlite3_column_int64(row, 0),
		.kernel_start_ns = LW_NS_UNKNOWN,
		.kernel_end_ns = LW_NS_UNKNOWN,
		.op = sqlite3_column_int(row, 3),
		.comm_key = sqlite3_column_int64(row, 4),
		.serial = (uint64_t)sqlite3_column_int64(row, 5),
		.bytes = bytes > 0 && bytes <= LW_LOAD_BYTES_MAX ? (uint64_t)bytes : 0,
		.peer = sqlite3_column_int(row, 7),
		.group = (uint32_t)sqlite3_column_int64(row, 8),
		.algorithm = (uint8_t)sqlite3_column_int(row, 9),
		.protocol = (uint8_t)sqlite3_column_int(row, 10),
		.n_channels = (uint8_t)sqlite3_column_int(row, 11),
		.dtype = (uint8_t)sqlite3_column_int(row, 12),
		.flags = (uint16_t)sqlite3_column_int(row, 13),
		.source = (uint16_t)sqlite3_column_int(row, 14),
		.kernel = LW_NONE,
		.batch = LW_NONE};

	if (!rank || !lw_load_interval_of(loader, row, 1, &op.start_ns, &op.end_ns))
		return LW_OK;
	if (!lw_nccl_op_name(op.op))
		op.op = LW_NCCL_OTHER;
	if (!lw_nccl_algorithm_name(op.algorithm))
		op.algorithm = LW_NCCL_ALGORITHM_UNKNOWN;
	if (!lw_nccl_protocol_name(op.protocol))
		op.protocol = LW_NCCL_PROTOCOL_UNKNOWN;
	if (bytes < 0 || bytes > LW_LOAD_BYTES_MAX)
		loader->n_bad_rows++;
	return lw_vec_push(&rank->gpu.nccl_ops, op);
}

static const struct {
	const char *sql;
	int (*row)(struct lw_loader *loader, sqlite3_stmt *row);
} tables[] = {
	{"SELECT id, text FROM string WHERE id IN"
	 " (SELECT name_id FROM kernel UNION SELECT name_id FROM launch) ORDER BY id",
		add_text},
	{"SELECT g.process_id, g.device, n.text, p.text, g.memory_bytes, g.n_multiprocessors,"
	 " g.clock_khz, g.major, g.minor FROM gpu g LEFT JOIN string n ON n.id = g.name_id"
	 " LEFT JOIN string p ON p.id = g.pci_id ORDER BY g.process_id, g.device, g.rowid",
		add_device},
	{"SELECT thread_id, start_ns, end_ns, name_id, device, context, stream, correlation, flags"
	 " FROM kernel",
		add_kernel},
	{"SELECT thread_id, start_ns, end_ns, op, device, context, stream, correlation, bytes, flags"
	 " FROM copy",
		add_copy},
	{"SELECT thread_id, start_ns, end_ns, op, context, stream, correlation FROM gpu_sync",
		add_sync},
	{"SELECT thread_id, start_ns, end_ns, op, name_id, correlation, tid, made_for, for_serial,"
	 " result FROM launch",
		add_launch},
	{"SELECT thread_id, start_ns, end_ns, op, comm_key, serial, bytes, peer, group_serial,"
	 " algorithm, protocol, n_channels, dtype, flags, source FROM nccl_op",
		add_nccl_op},
};

int lw_load_gpu(struct lw_loader *loader)
{
	struct lw_load_gpu gpu = {0};
	struct text *text, *next_text;
	struct stream *stream, *next_stream;
	int status = LW_OK;

	loader->n_bad_rows = 0;

	loader->gpu = &gpu;
	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]) && status == LW_OK; i++)
		status = lw_load_each(loader, tables[i].sql, tables[i].row);
	if (status == LW_OK)
		status = lw_load_nccl_proxies(loader);
	HASH_ITER(hh, gpu.texts, text, next_text)
	{
		HASH_DEL(gpu.texts, text);
		free(text);
	}
	HASH_ITER(hh, gpu.streams, stream, next_stream)
	{
		HASH_DEL(gpu.streams, stream);
		free(stream);
	}
	loader->gpu = NULL;
	if (status == LW_OK && loader->n_bad_rows)
		status = lw_run_diag(loader->run, "load", "bad rows of GPU work",
			loader->n_bad_rows,
			"%s: rows of GPU work with impossible times or sizes, or of an unknown thread, not used",
			loader->store->path);
	if (status == LW_OK && gpu.n_unordered)
		status = lw_run_diag(loader->run, "load", "GPU work without a length",
			gpu.n_unordered,
			"%s: kernels or copies end before they begin: they have no length here, so computing, communicating and what is exposed are told too short or too long",
			loader->store->path);
	if (status == LW_OK && loader->run->is_profile && !loader->run->gpu.has_kernels)
		status = lw_run_diag(loader->run, "load", "no GPU work", 1,
			"%s: the profiler's trace holds no kernel: was ProfilerActivity.CUDA among its activities?",
			loader->store->path);
	return status;
}

void lw_load_gpu_free(struct lw_gpu_rank *gpu)
{
	struct lw_gpu_device *device;

	lw_vec_foreach (device, &gpu->devices) {
		free(device->name);
		free(device->pci);
	}
	lw_vec_free(&gpu->devices);
	lw_vec_free(&gpu->streams);
	lw_vec_free(&gpu->kernels);
	lw_vec_free(&gpu->copies);
	lw_vec_free(&gpu->syncs);
	lw_vec_free(&gpu->launches);
	lw_vec_free(&gpu->nccl_ops);
	lw_vec_free(&gpu->nccl_proxies);
	lw_vec_free(&gpu->nccl_carriers);
	for (size_t i = 0; i < LW_GPU_N_CLASSES; i++)
		lw_vec_free(&gpu->busy[i]);
}
