/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/live_who.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "schema/rundir.h"

/* Holder of the flock() on a file, as /proc/locks has it:
 * "5: FLOCK  ADVISORY  WRITE 10100 00:1b:158366 0 EOF". 0 = nobody, or not known. */
static int64_t lock_holder(const struct stat *file)
{
	FILE *locks = fopen("/proc/locks", "re");
	int64_t holder = 0;
	char line[256];

	while (locks && !holder && fgets(line, sizeof(line), locks)) {
		unsigned int major_number, minor_number;
		unsigned long long inode;
		long long pid;

		if (sscanf(line, "%*d: FLOCK %*s WRITE %lld %x:%x:%llu", &pid, &major_number,
			    &minor_number, &inode) == 4 &&
			inode == file->st_ino && major_number == major(file->st_dev) &&
			minor_number == minor(file->st_dev))
			holder = pid;
	}
	if (locks)
		fclose(locks);
	return holder > 0 ? holder : 0;
}

/* The parent of a process, 0 = it is gone. */
static int parent_of(int64_t pid)
{
	char path[64], line[512] = "";
	const char *end;
	int parent = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%lld/stat", (long long)pid);
	file = fopen(path, "re");
	if (file && fgets(line, sizeof(line), file)) {
		end = strrchr(line, ')'); /* names may hold anything */
		if (!end || sscanf(end + 1, " %*c %d", &parent) != 1)
			parent = 0;
	}
	if (file)
		fclose(file);
	return parent;
}

static bool is_lapwing(int pid)
{
	char path[64], name[64] = "";
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/comm", pid);
	file = fopen(path, "re");
	if (file && fgets(name, sizeof(name), file))
		name[strcspn(name, "\n")] = 0;
	if (file)
		fclose(file);
	return !strcmp(name, "lapwing");
}

struct lw_live_who *lw_live_who_collects(const char *dir, struct lw_live_who *ret)
{
	char path[PATH_MAX];
	struct stat file;
	int parent;

	*ret = (struct lw_live_who){.has_recorder = true};
	snprintf(path, sizeof(path), "%s/" LW_RUNDIR_LOCK, dir);
	if (stat(path, &file) == 0)
		ret->collector_pid = lock_holder(&file);
	parent = ret->collector_pid ? parent_of(ret->collector_pid) : 0;
	if (parent)
		ret->has_recorder = is_lapwing(parent);
	return ret;
}
