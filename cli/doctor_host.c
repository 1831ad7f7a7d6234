/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_host.c - what doctor asks about this host: the tracer, room for rings, the run file, preloading, cores. */
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "base/units.h"
#include "cli/cmd.h"
#include "cli/doctor.h"
#include "collector/collector.h"
#include "collector/cpu.h"
#include "schema/ring.h"
#include "schema/rundir.h"

void lw_doctor_check_library(
	const struct lw_doctor_patient *patient, struct lw_doctor_answer *answer)
{
	char path[4096], own[4096];
	ssize_t n = readlink("/proc/self/exe", own, sizeof(own) - 1);
	char *slash;

	(void)patient;
	own[n > 0 ? n : 0] = '\0';
	slash = strrchr(own, '/');
	if (slash)
		*slash = '\0';
	snprintf(path, sizeof(path), "%.3000s/../lib/liblapwing.so", own);
	if (access(path, R_OK) < 0)
		lw_doctor_say(answer, LW_DOCTOR_NO,
			"%s is missing: build it, or install lapwing again", path);
	else if (strpbrk(own, LW_PRELOAD_SEPARATORS))
		lw_doctor_say(answer, LW_DOCTOR_NO,
			"%s: LD_PRELOAD cannot name a path with a space or a colon", own);
	else if (!dlopen(path, RTLD_NOW | RTLD_LOCAL))
		lw_doctor_say(answer, LW_DOCTOR_NO, "%s", dlerror());
	else
		lw_doctor_say(answer, LW_DOCTOR_YES, "liblapwing.so loads");
}

void lw_doctor_check_ring_space(
	const struct lw_doctor_patient *patient, struct lw_doctor_answer *answer)
{
	double ring_bytes = (double)lw_ring_file_bytes(LW_RING_RECORDS_DEFAULT), room_bytes;
	char room[LW_UNIT_TEXT_BYTES], ring[LW_UNIT_TEXT_BYTES];
	struct statvfs fs;

	(void)patient;
	if (statvfs("/dev/shm", &fs) < 0) {
		lw_doctor_say(answer, LW_DOCTOR_UNSURE,
			"no /dev/shm: rings go to $TMPDIR or /tmp, which may be a slow disk");
		return;
	}
	room_bytes = (double)fs.f_bavail * (double)fs.f_frsize;
	lw_doctor_say(answer, room_bytes > 16 * ring_bytes ? LW_DOCTOR_YES : LW_DOCTOR_NO,
		"/dev/shm has %s free; a recording thread takes %s%s",
		lw_bytes_format(room_bytes, room), lw_bytes_format(ring_bytes, ring),
		room_bytes > 16 * ring_bytes
			? ""
			: ": give the container more (--shm-size), or use --ring-records");
}

/* Under `record` a bad name ends it before the command starts; with the variables alone nobody may say a word. */
void lw_doctor_check_out(const struct lw_doctor_patient *patient, struct lw_doctor_answer *answer)
{
	const char *wanted = lw_doctor_variable(patient, LW_ENV_OUT), *slash;
	char path[PATH_MAX], folder[PATH_MAX];
	struct stat st;

	if (lw_path_expand(wanted ? wanted : "run.lapwing", 0, path, sizeof(path)) < 0) {
		lw_doctor_say(answer, LW_DOCTOR_NO, "LAPWING_OUT=%s: %s", wanted, lw_error_text());
		lw_error_clear();
		return;
	}
	slash = strrchr(path, '/');
	if (slash)
		snprintf(folder, sizeof(folder), "%.*s", (int)(slash - path) + 1, path);
	else
		strcpy(folder, ".");
	if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
		lw_doctor_say(answer, LW_DOCTOR_NO, "%s: is a folder, not a run file", path);
	else if (access(path, F_OK) == 0 && access(path, W_OK) < 0)
		lw_doctor_say(answer, LW_DOCTOR_NO, "%s: %s", path, strerror(errno));
	else if (access(folder, W_OK | X_OK) < 0)
		lw_doctor_say(answer, LW_DOCTOR_NO, "%s: %s (the folder of %s)", folder,
			strerror(errno), path);
	else
		lw_doctor_say(answer, LW_DOCTOR_YES, "%s%s", path, wanted ? " (LAPWING_OUT)" : "");
}

/* Where a collector that could not write, or died, left what it had, and why. */
void lw_doctor_check_left(const struct lw_doctor_patient *patient, struct lw_doctor_answer *answer)
{
	lw_rundir_list list = {0};
	const struct lw_rundir *rundir, *last = NULL;
	size_t n = 0;

	(void)patient;
	if (lw_rundir_find(&list) < 0)
		lw_error_clear();
	lw_vec_foreach (rundir, &list)
		if (!rundir->is_collected) {
			n++;
			last = last && last->last_log[0] ? last : rundir;
		}
	if (n)
		lw_doctor_say(answer, LW_DOCTOR_UNSURE,
			"%zu left behind, `lapwing salvage` lists all: %s%s%s", n, last->path,
			last->last_log[0] ? ": " : "", last->last_log);
	else
		lw_doctor_say(answer, LW_DOCTOR_YES, "no recording was left behind");
	lw_vec_free(&list);
}

/* Ranks that the command starts, as its launcher is told: mpirun, horovodrun, torchrun. 0 = it does not say. */
static long count_ranks(char *const *command, bool *ret_is_elsewhere)
{
	static const char *const counts[] = {
		"-np", "--np", "-n", "--nproc_per_node", "--nproc-per-node", "--num-proc"};
	static const char *const hosts[] = {"-H", "--host", "--hosts", "-hostfile", "--hostfile",
		"--host-discovery-script", "--nnodes"};
	static const char *const launchers[] = {
		"mpirun", "mpiexec", "horovodrun", "torchrun", "orterun", "prterun"};
	bool is_launched = false;
	long n = 0;

	*ret_is_elsewhere = false;
	for (; *command; command++) {
		const char *slash = strrchr(*command, '/');
		size_t n_name = strcspn(*command, "=");
		const char *value = (*command)[n_name] ? *command + n_name + 1 : command[1];

		for (size_t i = 0; i < sizeof(launchers) / sizeof(launchers[0]); i++)
			is_launched |= !strcmp(slash ? slash + 1 : *command, launchers[i]);
		if (!is_launched)
			continue; /* "nice -n 10 mpirun ..." */
		for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++)
			*ret_is_elsewhere |=
				strlen(hosts[i]) == n_name && !strncmp(*command, hosts[i], n_name);
		for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]) && value && !n; i++)
			if (strlen(counts[i]) == n_name && !strncmp(*command, counts[i], n_name))
				n = strtol(value, NULL, 10);
		if (lw_doctor_is_python(*command))
			break; /* what follows are its script and arguments */
	}
	return n > 0 ? n : 0;
}

/* Only of use where ranks train on CPUs, which no look at files tells. */
void lw_doctor_check_cores(const struct lw_doctor_patient *patient, struct lw_doctor_answer *answer)
{
	struct lw_cpu_cores own;
	bool is_elsewhere;
	double n_cores;
	long n_ranks = count_ranks(patient->command, &is_elsewhere);

	lw_cpu_cores(getpid(), &own);
	n_cores = own.n_allowed ? own.n_allowed : own.n_online;
	if (own.quota_cores > 0 && own.quota_cores < n_cores)
		n_cores = own.quota_cores;
	if (!n_ranks || is_elsewhere || n_cores <= 0)
		lw_doctor_say(answer, LW_DOCTOR_UNSURE,
			"%.4g cores here; the command does not say how many ranks run on this host",
			n_cores);
	else if ((double)n_ranks > n_cores)
		lw_doctor_say(answer, LW_DOCTOR_NO,
			"%ld ranks on %.4g cores: where they train on CPUs they wait for each other's cores, computing depends on the setting, and predictions of other settings are unsure",
			n_ranks, n_cores);
	else if ((double)n_ranks == n_cores)
		lw_doctor_say(answer, LW_DOCTOR_UNSURE,
			"%ld ranks on as many cores: where they train on CPUs, their communication takes time from computing; the report says how much",
			n_ranks);
	else
		lw_doctor_say(answer, LW_DOCTOR_YES,
			"%.4g cores for %ld ranks (each may start several threads)", n_cores,
			n_ranks);
}

void lw_doctor_check_preload(
	const struct lw_doctor_patient *patient, struct lw_doctor_answer *answer)
{
	const char *preload = getenv("LD_PRELOAD");

	(void)patient;
	if (preload && *preload)
		lw_doctor_say(answer, LW_DOCTOR_UNSURE,
			"LD_PRELOAD is already \"%s\": kept, ours goes behind it", preload);
	else
		lw_doctor_say(answer, LW_DOCTOR_YES, "LD_PRELOAD is free");
}
