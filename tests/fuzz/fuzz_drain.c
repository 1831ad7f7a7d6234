/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_drain.c - any bytes as a ring file: drained into a run file in memory, nothing may crash, hang or
 * fail, and the counts must balance.
 *
 * Input: the first 128 bytes are the header's (offsets as in struct lw_ring_header, tail after lost and
 * closed), the rest is records. To get past the checks that are a matter of luck, magic, version, size
 * and process are made right unless the first byte is odd.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/err.h"
#include "collector/drain.h"
#include "collector/writer.h"

enum { INPUT_HEADER_BYTES = 128, N = 128 };
#define NOW_NS (INT64_C(1) << 60)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

/* assert() would be compiled out of an optimized build */
static void must(bool is_so, const char *what)
{
	if (is_so)
		return;
	fprintf(stderr, "fuzz_drain: %s: %s\n", what, lw_error_text());
	abort();
}

static char folder[] = "/dev/shm/lw-fuzz-XXXXXX";

static void make_ring(const char *path, const uint8_t *data, size_t n_bytes)
{
	static union {
		struct lw_ring_header header;
		char bytes[LW_RING_HEADER_BYTES + N * LW_EVENT_BYTES];
	} file;
	size_t n_records_bytes = n_bytes - INPUT_HEADER_BYTES;
	int fd;

	memset(&file, 0, sizeof(file));
	memcpy(file.bytes, data, INPUT_HEADER_BYTES);
	if (n_records_bytes > N * LW_EVENT_BYTES)
		n_records_bytes = N * LW_EVENT_BYTES;
	memcpy(file.bytes + LW_RING_HEADER_BYTES, data + INPUT_HEADER_BYTES, n_records_bytes);
	if (!(data[0] & 1)) {
		file.header.process_start_ticks &= INT64_MAX;
		file.header.created_ns &= INT64_MAX;
		lw_ring_init(&file.header, N, 1 + file.header.pid % 1000,
			1 + file.header.tid % 1000, file.header.serial);
		/* any place in the ring's life, with a ring's worth waiting at most */
		file.header.tail = atomic_load(&file.header.head);
		atomic_fetch_add(&file.header.head, n_records_bytes / LW_EVENT_BYTES);
	}
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	must(write(fd, &file, sizeof(file)) == sizeof(file), path);
	close(fd);
}

/* One run file in memory for many inputs: making its tables takes longer than an input. */
static struct lw_writer *writer_for_now(void)
{
	static struct lw_writer *writer;
	static int n_uses;

	if (n_uses++ % 1000 == 0) {
		lw_writer_close(writer);
		must(lw_writer_create(":memory:", "fuzz", "", &writer) == LW_OK, "create");
	}
	return writer;
}

static void drain_all(void)
{
	struct lw_process process = {.pid = 1, .watch_fd = -1};
	struct lw_writer *writer = writer_for_now();
	struct lw_drain drain;
	int n_rings;

	must(lw_drain_open(&drain, folder) == LW_OK, "open");
	n_rings = lw_drain_discover(&drain, NULL, NULL);
	must(n_rings == 0 || n_rings == 1, "discover");
	for (int i = 0; i < 2 * n_rings; i++) { /* first as if it lived, then as if it had died */
		struct lw_ring *ring = drain.rings.at[0];

		ring->process = &process;
		ring->is_final = i;
		must(lw_writer_begin(writer) == LW_OK, "begin");
		if (!ring->thread_id)
			must(lw_writer_register(writer, ring) == LW_OK, "register");
		lw_drain_take(&drain, NOW_NS);
		must(lw_writer_put(writer, &drain) == LW_OK, "put");
		if (i)
			must(lw_writer_end_ring(writer, ring) == LW_OK, "end ring");
		must(lw_writer_commit(writer) == LW_OK, "commit");
		lw_drain_release(&drain);
		must(ring->n_stored + ring->n_lost == ring->position + ring->n_ring_full,
			"stored + lost is not pushed");
		must(!i || ring->is_damaged || lw_ring_head(ring) == ring->position,
			"not read to its end");
	}
	lw_drain_close(&drain);
}

static void remove_folder(void)
{
	rmdir(folder);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
	static char path[64];

	if (n_bytes < INPUT_HEADER_BYTES)
		return 0;
	if (!path[0]) {
		must(mkdtemp(folder) != NULL, folder);
		atexit(remove_folder);
		snprintf(path, sizeof(path), "%s/1.1.0.ring", folder);
	}
	make_ring(path, data, n_bytes);
	drain_all();
	unlink(path);
	return 0;
}
