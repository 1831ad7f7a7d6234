/* SPDX-License-Identifier: Apache-2.0 */
/*
 * producer.c - a "traced job" without a tracer: writes rings into LAPWING_DIR through schema/ring.h.
 *
 *	producer [-p PROCESSES] [-t THREADS] [-n RECORDS] [-r RING_RECORDS] [-u PAUSE_US] [-T TRUTH] [-k] [-x CODE]
 *
 * -u: sleep so long after each 64 records. -T: file that receives, per thread, pushes that were
 * published (8 bytes each, shared memory: right up to a kill -9). -k: end without closing the rings,
 * as a crash does. -x: exit code. Without LAPWING_DIR it writes nothing.
 * Each thread's first record is PROCESS; then its texts, then the mix of mix.h. Prints one line per
 * process: published and lost.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "schema/launcher.h"
#include "schema/ring.h"
#include "schema/rundir.h"
#include "tests/lib/mix.h"

static long n_processes = 1, n_threads = 1, n_records = 1000, ring_records = 4096, pause_us,
	    exit_code;
static long process_rank;
static bool is_crash;
static const char *dir, *truth_path;
static _Atomic uint64_t *truth; /* n_processes * n_threads */

struct worker {
	pthread_t thread;
	long number;
	struct lw_ring_header *ring;
};

static int64_t start_ticks(void)
{
	char text[1024], *at;
	int fd = open("/proc/self/stat", O_RDONLY);
	ssize_t n = read(fd, text, sizeof(text) - 1);

	close(fd);
	text[n > 0 ? n : 0] = '\0';
	at = strrchr(text, ')');
	for (int field = 2; at && field < 22; field++)
		at = strchr(at + 1, ' ');
	return at ? strtoll(at + 1, NULL, 10) : 0;
}

static struct lw_ring_header *make_ring(long serial)
{
	char draft[512], name[512];
	uint32_t tid = (uint32_t)syscall(SYS_gettid);
	struct lw_ring_header *ring;
	int fd;

	snprintf(draft, sizeof(draft), "%s/%d.%u.%ld.tmp", dir, (int)getpid(), tid, serial);
	snprintf(name, sizeof(name), "%s/%d.%u.%ld" LW_RUNDIR_RING_EXT, dir, (int)getpid(), tid,
		serial);
	fd = open(draft, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0 || ftruncate(fd, (off_t)lw_ring_file_bytes((uint32_t)ring_records)) < 0) {
		perror(draft);
		exit(1);
	}
	ring = mmap(NULL, lw_ring_file_bytes((uint32_t)ring_records), PROT_READ | PROT_WRITE,
		MAP_SHARED, fd, 0);
	close(fd);
	if (ring == MAP_FAILED) {
		perror("mmap");
		exit(1);
	}
	ring->process_start_ticks = start_ticks();
	ring->created_ns = lw_mix_now_ns();
	lw_ring_init(ring, (uint32_t)ring_records, (uint32_t)getpid(), tid, (uint32_t)serial);
	if (rename(draft, name) < 0) {
		perror(name);
		exit(1);
	}
	return ring;
}

static void push(void *data, const struct lw_event *event)
{
	struct worker *worker = data;

	if (lw_ring_push(worker->ring, event) && truth)
		atomic_fetch_add(&truth[process_rank * n_threads + worker->number], 1);
}

static void *work(void *data)
{
	struct worker *worker = data;
	struct lw_event process = {.kind = LW_EV_PROCESS};

	worker->ring = make_ring(worker->number);
	process.t0_ns = process.t1_ns = lw_mix_now_ns();
	process.process = (struct lw_ev_process){.rank = (int32_t)process_rank,
		.size = (int32_t)n_processes,
		.local_rank = (int32_t)process_rank,
		.local_size = (int32_t)n_processes,
		.framework = LW_FRAMEWORK_HOROVOD,
		.transport = LW_TRANSPORT_MPI,
		.ppid = (uint32_t)getppid(),
		.command = lw_string_id("producer", 8)};
	lw_mix_push_text(push, worker, "producer", process.t0_ns);
	push(worker, &process);
	for (uint64_t tensor = 0; tensor < LW_MIX_TENSORS; tensor++) {
		char text[64];

		lw_mix_name(tensor, text);
		lw_mix_push_text(push, worker, text, lw_mix_now_ns());
	}
	for (long i = 0; i < n_records; i++) {
		struct lw_event event = lw_mix_event((uint64_t)i, lw_mix_now_ns() - 2000000);

		push(worker, &event);
		if (pause_us && i % 64 == 63)
			usleep((useconds_t)pause_us);
	}
	if (!is_crash)
		atomic_store_explicit(&worker->ring->closed, 1, memory_order_release);
	return NULL;
}

static int run_process(long rank)
{
	struct worker *workers = calloc((size_t)n_threads, sizeof(*workers));
	uint64_t published = 0, lost = 0;

	process_rank = rank;
	for (long i = 0; i < n_threads; i++) {
		workers[i].number = i;
		if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
			return 1;
	}
	for (long i = 0; i < n_threads; i++) {
		pthread_join(workers[i].thread, NULL);
		published += atomic_load(&workers[i].ring->head);
		lost += atomic_load(&workers[i].ring->lost);
	}
	printf("rank %ld published %llu lost %llu\n", rank, (unsigned long long)published,
		(unsigned long long)lost);
	fflush(stdout);
	free(workers);
	return (int)exit_code;
}

static void map_truth(void)
{
	size_t n_bytes = (size_t)(n_processes * n_threads) * sizeof(*truth);
	int fd = open(truth_path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	if (fd < 0 || ftruncate(fd, (off_t)n_bytes) < 0) {
		perror(truth_path);
		exit(1);
	}
	truth = mmap(NULL, n_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
}

int main(int argc, char **argv)
{
	int option, status, code = 0;

	while ((option = getopt(argc, argv, "p:t:n:r:u:T:kx:")) != -1) {
		long value = optarg ? strtol(optarg, NULL, 10) : 0;

		if (option == 'p')
			n_processes = value;
		else if (option == 't')
			n_threads = value;
		else if (option == 'n')
			n_records = value;
		else if (option == 'r')
			ring_records = value;
		else if (option == 'u')
			pause_us = value;
		else if (option == 'T')
			truth_path = optarg;
		else if (option == 'k')
			is_crash = true;
		else if (option == 'x')
			exit_code = value;
		else
			return 2;
	}
	dir = getenv(LW_ENV_DIR);
	if (!dir)
		return (int)exit_code;
	if (truth_path)
		map_truth();
	if (n_processes == 1)
		return run_process(lw_place_from_environment().rank > 0
					   ? lw_place_from_environment().rank
					   : 0);
	for (long rank = 0; rank < n_processes; rank++)
		if (fork() == 0)
			_exit(run_process(rank));
	while (wait(&status) > 0)
		if (WIFEXITED(status) && WEXITSTATUS(status))
			code = WEXITSTATUS(status);
	return code;
}
