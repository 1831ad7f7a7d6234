/* SPDX-License-Identifier: Apache-2.0 */
/* How the ranks of a plain MPI job agree on a probe: real processes, MPI and the rest of the tracer stubbed out. */
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "tracer/hook_mpi_probe.c"

enum { N_RANKS = 3, AGREED = 10, NO_PROBE = 11 };

static struct lw_mpi_flavour flavour;
const struct lw_mpi_flavour *lw_mpi = &flavour;
uintptr_t lw_mpi_handles[LW_MPI_N_HANDLES];
static char folder[] = "/tmp/lapwing-mpi-probe-XXXXXX";
static char refused[400];
static bool was_run;

const char *lw_ring_dir(void)
{
	return folder;
}

bool lw_horovod_is_present(void)
{
	return false;
}

bool lw_probe_claim(void)
{
	return true;
}

void lw_probe_refuse(const char *why)
{
	snprintf(refused, sizeof(refused), "%s", why);
}

void lw_probe_run(const struct lw_probe_carrier *carrier)
{
	(void)carrier;
	was_run = true;
}

static int succeed(void)
{
	return 0;
}

void *lw_real(const char *name)
{
	(void)name;
	return (void *)(uintptr_t)succeed;
}

static int make_folder(void **state)
{
	(void)state;
	unsetenv("PMIX_NAMESPACE");
	unsetenv("OMPI_MCA_ess_base_jobid");
	unsetenv("PMI_FD");
	flavour.name = "Open MPI";
	strcpy(folder + sizeof(folder) - 7, "XXXXXX");
	return mkdtemp(folder) ? 0 : -1;
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *walk)
{
	(void)st;
	(void)flag;
	(void)walk;
	return remove(path);
}

static int remove_folder(void **state)
{
	(void)state;
	return nftw(folder, remove_one, 4, FTW_DEPTH | FTW_PHYS);
}

/* Every rank behind a wrapper of its own: no two have the same parent. */
static pid_t start_wrapped(int rank, int size, const char *named)
{
	pid_t wrapper = fork(), child;
	int status;

	if (wrapper)
		return wrapper;
	child = fork();
	if (!child) {
		lw_mpi_probe(rank, size);
		_exit(was_run ? AGREED : strstr(refused, named) ? NO_PROBE : 1);
	}
	_exit(waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

/* @named: what the reason says where there is none */
static void run_job(int n_started, int size, int outcome, const char *named)
{
	pid_t wrappers[N_RANKS];
	int status;

	for (int r = 0; r < n_started; r++)
		wrappers[r] = start_wrapped(r, size, named);
	for (int r = 0; r < n_started; r++) {
		assert_int_equal(waitpid(wrappers[r], &status, 0), wrappers[r]);
		assert_true(WIFEXITED(status));
		assert_int_equal(WEXITSTATUS(status), outcome);
	}
}

static void ranks_behind_wrappers_find_each_other_by_the_job(void **state)
{
	(void)state;
	setenv("PMIX_NAMESPACE", "prterun-host/1234@1", 1);
	run_job(N_RANKS, N_RANKS, AGREED, "");
	unsetenv("PMIX_NAMESPACE");
	setenv("OMPI_MCA_ess_base_jobid", "98765", 1);
	run_job(N_RANKS, N_RANKS, AGREED, "");
}

static void ranks_of_mpich_find_each_other_by_their_launcher(void **state)
{
	char fd[16];
	int pair[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	snprintf(fd, sizeof(fd), "%d", pair[0]);
	setenv("PMI_FD", fd, 1);
	setenv("PMIX_NAMESPACE", "of an outer job", 1);
	flavour.name = "MPICH";
	run_job(N_RANKS, N_RANKS, AGREED, "");
	close(pair[0]);
	close(pair[1]);
}

static void a_rank_that_is_not_asked_leaves_none_and_the_reason_names_the_job(void **state)
{
	(void)state;
	setenv("PMIX_NAMESPACE", "1234", 1);
	run_job(N_RANKS - 1, N_RANKS, NO_PROBE, "known by: PMIX_NAMESPACE 1234)");
	unsetenv("PMIX_NAMESPACE");
	run_job(1, N_RANKS, NO_PROBE, "known by: parent process");
}

/* Two jobs must not share an answer: the second's ranks may not all be asked. */
static void a_name_that_was_used_leaves_none(void **state)
{
	(void)state;
	setenv("PMIX_NAMESPACE", "1234", 1);
	run_job(N_RANKS, N_RANKS, AGREED, "");
	run_job(N_RANKS - 1, N_RANKS, NO_PROBE, "PMIX_NAMESPACE 1234");
	run_job(N_RANKS - 1, N_RANKS - 1, AGREED, "");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)
	const struct CMUnitTest tests[] = {
		TEST(ranks_behind_wrappers_find_each_other_by_the_job),
		TEST(ranks_of_mpich_find_each_other_by_their_launcher),
		TEST(a_rank_that_is_not_asked_leaves_none_and_the_reason_names_the_job),
		TEST(a_name_that_was_used_leaves_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
