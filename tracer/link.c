/* SPDX-License-Identifier: Apache-2.0 */
/*
 * link.c - where this job's rings go, and who collects them.
 *
 * Under `lapwing record` the directory exists already (LAPWING_DIR). A job started with the variables
 * alone (LD_PRELOAD and LAPWING_OUT) finds the same directory on every rank of a host from the output
 * name and the launcher's job id, and whoever comes first starts the collector; a lock in the
 * directory makes it one per host.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "schema/launcher.h"
#include "schema/rundir.h"
#include "tracer/internal.h"
#include "tracer/tracer.h"

static char ring_dir[256];
static char out_path[1024];

static bool is_own_dir(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid() &&
	       (st.st_mode & 077) == 0;
}

/* What tells this job from the user's next one with the same output name. */
static uint64_t job_key(void)
{
	static const char *const names[] = {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid",
		"PMI_JOBID", "SLURM_JOB_ID", "SLURM_STEP_ID", "HOROVOD_GLOO_RENDEZVOUS_PORT",
		"MASTER_ADDR", "MASTER_PORT"};
	char text[1024];
	size_t n = 0;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const char *value = getenv(names[i]);

		if (value && n < sizeof(text))
			n += (size_t)snprintf(text + n, sizeof(text) - n, "%s;", value);
	}
	if (!n)
		n = (size_t)snprintf(text, sizeof(text), "session %d", (int)getsid(0));
	return lw_string_id(text, n < sizeof(text) ? n : sizeof(text));
}

/* %r %h %p %q{NAME} of LAPWING_OUT. As base/str.c does it, but libc only and never failing loudly. */
static bool expand_out(const char *pattern)
{
	int32_t rank = lw_place_from_environment().rank;
	size_t n = 0, room = sizeof(out_path);

	if (pattern[0] != '/') {
		if (!getcwd(out_path, room - 1))
			return false;
		n = strlen(out_path);
		out_path[n++] = '/';
	}
	for (const char *at = pattern; *at && n + 256 < room; at++) {
		char name[128];
		const char *end, *value;

		if (*at != '%') {
			out_path[n++] = *at;
			continue;
		}
		switch (*++at) {
		case '%':
			out_path[n++] = '%';
			break;
		case 'r':
			if (rank < 0)
				return false;
			n += (size_t)snprintf(out_path + n, room - n, "%d", rank);
			break;
		case 'p':
			n += (size_t)snprintf(out_path + n, room - n, "%d", (int)getpid());
			break;
		case 'h':
			gethostname(out_path + n, 255);
			n += strnlen(out_path + n, 255);
			break;
		case 'q':
			end = strchr(at, '}');
			if (at[1] != '{' || !end || (size_t)(end - at - 2) >= sizeof(name))
				return false;
			snprintf(name, sizeof(name), "%.*s", (int)(end - at - 2), at + 2);
			value = getenv(name);
			if (!value || strlen(value) > 255)
				return false;
			n += (size_t)snprintf(out_path + n, room - n, "%s", value);
			at = end;
			break;
		default:
			return false;
		}
	}
	out_path[n] = '\0';
	return true;
}

static bool make_dir(const char *parent, uint64_t key)
{
	if (!parent || !*parent || strlen(parent) > 150)
		return false;
	snprintf(ring_dir, sizeof(ring_dir), "%s/" LW_RUNDIR_PREFIX "%u-%016llx", parent,
		(unsigned)geteuid(), (unsigned long long)key);
	if (mkdir(ring_dir, 0700) < 0 && errno != EEXIST)
		return false;
	return is_own_dir(ring_dir);
}

const char *lw_ring_dir(void)
{
	const char *dir = getenv(LW_ENV_DIR), *out = getenv(LW_ENV_OUT);
	uint64_t key;

	if (ring_dir[0])
		return ring_dir;
	if (dir && strlen(dir) < sizeof(ring_dir) && is_own_dir(dir)) {
		strcpy(ring_dir, dir);
		return ring_dir;
	}
	if (!out || !*out || !expand_out(out))
		return NULL;
	key = lw_string_id(out_path, strlen(out_path)) ^ job_key();
	if (!make_dir("/dev/shm", key) && !make_dir(getenv("TMPDIR"), key) &&
		!make_dir("/tmp", key)) {
		ring_dir[0] = '\0';
		return NULL;
	}
	return ring_dir;
}

/* ---- relatives ---------------------------------------------------------------------------------------- */

struct entry { /* linux_dirent64 */
	uint64_t inode, offset;
	uint16_t n_bytes;
	uint8_t type;
	char name[];
};

/* No readdir(): it allocates. */
static bool has_ring(const char *dir, int pid)
{
	int fd = (int)syscall(SYS_openat, AT_FDCWD, dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	size_t n_prefix;
	_Alignas(8) char room[4096];
	char prefix[16];
	bool is_found = false;
	long n;

	if (fd < 0)
		return false;
	n_prefix = (size_t)snprintf(prefix, sizeof(prefix), "%d.", pid);
	while (!is_found && (n = syscall(SYS_getdents64, fd, room, sizeof(room))) > 0)
		for (long at = 0; at < n;) {
			const struct entry *entry = (const void *)(room + at);

			is_found |= !strncmp(entry->name, prefix, n_prefix);
			at += entry->n_bytes;
		}
	syscall(SYS_close, fd);
	return is_found;
}

/* Field 4 of /proc/PID/stat, after the command in parentheses, which may hold anything. Return: 0 = none. */
static int parent_of(int pid)
{
	char path[32], text[512], *at;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	n = syscall(SYS_read, fd, text, sizeof(text) - 1);
	syscall(SYS_close, fd);
	text[n > 0 ? n : 0] = '\0';
	at = strrchr(text, ')');
	return at && strlen(at) > 4 ? (int)strtol(at + 4, NULL, 10) : 0;
}

bool lw_has_traced_ancestor(void)
{
	enum { MOST_GENERATIONS = 16 };
	int saved_errno = errno, pid = (int)getppid();
	const char *dir = lw_ring_dir();
	bool is_found = false;

	for (int i = 0; dir && !is_found && i < MOST_GENERATIONS && pid > 1; i++) {
		is_found = has_ring(dir, pid);
		pid = parent_of(pid);
	}
	errno = saved_errno;
	return is_found;
}

/* ---- the collector -------------------------------------------------------------------------------------- */

/* Ours are for the tracer, and would trace the collector, but for those that tell it what to do. */
static bool is_for_collector(const char *variable)
{
	static const char *const wanted[] = {LW_ENV_NO_ANALYZE "=", LW_ENV_SAMPLE_MS "=",
		LW_ENV_PCAP "=", LW_ENV_PCAP_FILTER "="};

	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++)
		if (!strncmp(variable, wanted[i], strlen(wanted[i])))
			return true;
	return strncmp(variable, "LD_PRELOAD=", 11) != 0 && strncmp(variable, "LAPWING_", 8) != 0;
}

/* The job's environment, without what would trace the collector itself. */
static char **collector_environment(char **kept, size_t room)
{
	size_t n = 0;

	for (char **at = environ; *at && n + 1 < room; at++)
		if (is_for_collector(*at))
			kept[n++] = *at;
	kept[n] = NULL;
	return kept;
}

struct spawn {
	char *const *argv;
	char **environment;
};

static int spawn_grandchild(void *data)
{
	const struct spawn *spawn = data;
	int null_fd = (int)syscall(SYS_openat, AT_FDCWD, "/dev/null", O_RDWR);

	syscall(SYS_setsid);
	for (int fd = 0; fd < 3; fd++)
		syscall(SYS_dup3, null_fd, fd, 0);
	/* Launchers wait for the end of every copy of their pipes: keep none. */
	syscall(SYS_close_range, 3, ~0u, 0);
	execve(spawn->argv[0], spawn->argv, spawn->environment);
	syscall(SYS_exit, 127);
	return 127;
}

static int spawn_child(void *data)
{
	static char stack[16384] __attribute__((aligned(16)));

	clone(spawn_grandchild, stack + sizeof(stack), CLONE_VM | CLONE_VFORK, data);
	syscall(SYS_exit, 0);
	return 0;
}

/*
 * The collector must not be the job's child: a rank's wait(-1) would find it, and SIGCHLD would reach
 * the rank's handler. So: clone without a signal, twice; the middle one is gone before we return.
 */
static void spawn_collector(const char *program, const char *dir)
{
	static char stack[16384] __attribute__((aligned(16)));
	static char *kept[4096];
	char *const argv[] = {(char *)(uintptr_t)program, (char *)(uintptr_t) "--dir",
		(char *)(uintptr_t)dir, (char *)(uintptr_t) "--out", out_path, NULL};
	struct spawn spawn = {argv, collector_environment(kept, sizeof(kept) / sizeof(kept[0]))};
	int pid = clone(spawn_child, stack + sizeof(stack), CLONE_VM | CLONE_VFORK, &spawn);

	if (pid > 0)
		while (waitpid(pid, NULL, __WCLONE) < 0 && errno == EINTR)
			;
}

void lw_collector_wanted(const char *dir)
{
	char path[1200], *slash;
	Dl_info own;
	int fd;
	bool is_free;

	if (!out_path[0]) /* `record` made the directory and collects */
		return;
	snprintf(path, sizeof(path), "%s/" LW_RUNDIR_LOCK, dir);
	fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0)
		return;
	is_free = flock(fd, LOCK_EX | LOCK_NB) == 0;
	syscall(SYS_close, fd); /* gives the lock back: the collector takes it itself */
	if (!is_free || !dladdr((const void *)(uintptr_t)&lw_collector_wanted, &own))
		return;
	/* build/lib/liblapwing.so -> build/bin/lapwingd, and the same in an installed tree */
	if (!realpath(own.dli_fname, path))
		return;
	for (int up = 0; up < 2; up++) {
		slash = strrchr(path, '/');
		if (!slash)
			return;
		*slash = '\0';
		if (up == 0 && strcmp(slash + 1, "liblapwing.so") &&
			strncmp(slash + 1, "liblapwing", 10))
			return;
	}
	strncat(path, "/bin/lapwingd", sizeof(path) - strlen(path) - 1);
	spawn_collector(path, dir);
}
