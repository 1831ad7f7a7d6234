/* SPDX-License-Identifier: Apache-2.0 */
/* rundir.c - ring directories: made, looked at, found again, removed (schema/rundir.h). */
#include "schema/rundir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/err.h"
#include "collector/collector.h"

/* Where ring directories are looked for and made, best first. NULL: not set. */
static const char *place(int i)
{
	const char *const places[] = {"/dev/shm", getenv("TMPDIR"), "/tmp"};

	return i < 3 ? places[i] : NULL;
}
enum { N_PLACES = 3 };

static uint64_t free_bytes(const char *path)
{
	struct statvfs fs;

	return path && statvfs(path, &fs) == 0 ? (uint64_t)fs.f_bavail * fs.f_frsize : 0;
}

int lw_rundir_make(uint64_t wanted_bytes, char path[LW_RUNDIR_PATH_BYTES])
{
	/* Room is a wish: where nobody has it, a small /dev/shm still takes the first rings. */
	for (int i = 0; i < 2 * N_PLACES; i++) {
		const char *parent = place(i % N_PLACES);

		if (!parent || strlen(parent) > LW_RUNDIR_PATH_BYTES - 64 ||
			(i < N_PLACES && free_bytes(parent) < wanted_bytes))
			continue;
		snprintf(path, LW_RUNDIR_PATH_BYTES, "%s/" LW_RUNDIR_PREFIX "%u-XXXXXX", parent,
			(unsigned)geteuid());
		if (mkdtemp(path)) /* 0700 */
			return LW_OK;
	}
	return lw_fail(LW_ERR_IO, "no place for the rings in /dev/shm, TMPDIR or /tmp: %s",
		strerror(errno));
}

static bool ends_with(const char *name, const char *end)
{
	size_t n = strlen(name), n_end = strlen(end);

	return n > n_end && !strcmp(name + n - n_end, end);
}

/* "<pid>.<...>.tmp": a ring on its way to its name. Return: its pid, 0 = something else. */
static long draft_of(const char *name)
{
	char *end;
	long pid = strtol(name, &end, 10);

	return *end == '.' && ends_with(name, ".tmp") && pid > 0 ? pid : 0;
}

static bool is_process(long pid)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%ld", pid);
	return access(path, F_OK) == 0;
}

bool lw_rundir_remove(const char *path)
{
	static const char *const last[] = {LW_RUNDIR_OUT ".tmp", LW_RUNDIR_STOP ".tmp",
		LW_RUNDIR_OUT, LW_RUNDIR_STOP, LW_RUNDIR_LOG, LW_RUNDIR_LOCK};
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *listing = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;
	bool has_rings = false;

	if (!listing) {
		if (fd >= 0)
			close(fd);
		return errno == ENOENT;
	}
	while ((entry = readdir(listing))) {
		has_rings |= ends_with(entry->d_name, LW_RUNDIR_RING_EXT);
		if (!strncmp(entry->d_name, LW_RUNDIR_PROBE, strlen(LW_RUNDIR_PROBE)))
			unlinkat(dirfd(listing), entry->d_name, 0);
		if (!draft_of(entry->d_name))
			continue;
		if (is_process(draft_of(entry->d_name)))
			has_rings = true;
		else
			unlinkat(dirfd(listing), entry->d_name, 0);
	}
	/* The lock goes last: a ring that comes now keeps the directory, and the caller goes on. */
	for (size_t i = 0; i < sizeof(last) / sizeof(last[0]) && !has_rings; i++)
		unlinkat(dirfd(listing), last[i], 0);
	closedir(listing);
	return !has_rings && (rmdir(path) == 0 || errno == ENOENT);
}

/* DIR/@name holds @line, whole from the moment that it is there. */
static int write_line(const char *dir, const char *name, const char *line)
{
	char path[LW_RUNDIR_PATH_BYTES + 16], draft[LW_RUNDIR_PATH_BYTES + 16];
	FILE *file;
	int failed;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	snprintf(draft, sizeof(draft), "%s/%s.tmp", dir, name);
	file = fopen(draft, "we");
	if (!file)
		return lw_fail(LW_ERR_IO, "%s: %s", draft, strerror(errno));
	fprintf(file, "%s\n", line);
	failed = fclose(file);
	if (failed || rename(draft, path) < 0)
		return lw_fail(LW_ERR_IO, "%s: %s", path, strerror(errno));
	return LW_OK;
}

int lw_rundir_stop(const char *path, int exit_code)
{
	char text[16];

	snprintf(text, sizeof(text), "%d", exit_code);
	return write_line(path, LW_RUNDIR_STOP, text);
}

int lw_rundir_set_out(const char *path, const char *out)
{
	return write_line(path, LW_RUNDIR_OUT, out);
}

/* Last line of DIR/@name without its newline, "" when there is none. */
static void last_line(const char *dir, const char *name, char *text, size_t text_bytes)
{
	char path[PATH_MAX], line[4096];
	FILE *file;

	text[0] = '\0';
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file)) {
		line[strcspn(line, "\n")] = '\0';
		snprintf(text, text_bytes, "%s", line);
	}
	if (file)
		fclose(file);
}

static bool is_locked(const char *dir)
{
	char path[LW_RUNDIR_PATH_BYTES + 16];
	bool is_free;
	int fd;

	snprintf(path, sizeof(path), "%s/" LW_RUNDIR_LOCK, dir);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return false;
	is_free = flock(fd, LOCK_EX | LOCK_NB) == 0;
	close(fd);
	return !is_free;
}

int lw_rundir_look(const char *path, struct lw_rundir *ret_rundir)
{
	struct dirent *entry;
	struct stat st;
	DIR *listing;

	if (stat(path, &st) < 0)
		return lw_fail(LW_ERR_IO, "%s: %s", path, strerror(errno));
	if (!S_ISDIR(st.st_mode) || strlen(path) >= sizeof(ret_rundir->path))
		return lw_fail(LW_ERR_IO, "%s: not a ring directory", path);
	if (st.st_uid != geteuid())
		return lw_fail(LW_ERR_IO, "%s: belongs to another user", path);
	listing = opendir(path);
	if (!listing)
		return lw_fail(LW_ERR_IO, "%s: %s", path, strerror(errno));
	memset(ret_rundir, 0, sizeof(*ret_rundir));
	snprintf(ret_rundir->path, sizeof(ret_rundir->path), "%s", path);
	while ((entry = readdir(listing))) {
		ret_rundir->n_rings += ends_with(entry->d_name, LW_RUNDIR_RING_EXT);
		ret_rundir->has_lock |= !strcmp(entry->d_name, LW_RUNDIR_LOCK);
	}
	closedir(listing);
	last_line(path, LW_RUNDIR_OUT, ret_rundir->out, sizeof(ret_rundir->out));
	last_line(path, LW_RUNDIR_LOG, ret_rundir->last_log, sizeof(ret_rundir->last_log));
	ret_rundir->is_collected = is_locked(path);
	return LW_OK;
}

int lw_rundir_find(lw_rundir_list *ret_list)
{
	for (int i = 0; i < N_PLACES; i++) {
		DIR *listing;
		struct dirent *entry;

		/* TMPDIR may be one of the other places */
		if (!place(i) ||
			(i == 1 && (!strcmp(place(i), place(0)) || !strcmp(place(i), place(2)))))
			continue;
		listing = opendir(place(i));
		while (listing && (entry = readdir(listing))) {
			char path[PATH_MAX];
			struct lw_rundir rundir;
			int status;

			if (strncmp(entry->d_name, LW_RUNDIR_PREFIX, strlen(LW_RUNDIR_PREFIX)))
				continue;
			snprintf(path, sizeof(path), "%s/%s", place(i), entry->d_name);
			if (lw_rundir_look(path, &rundir) < 0 ||
				(!rundir.has_lock && !rundir.n_rings))
				continue; /* somebody else's, gone meanwhile, or something else */
			status = lw_vec_push(ret_list, rundir);
			if (status < 0) {
				closedir(listing);
				return status;
			}
		}
		if (listing)
			closedir(listing);
	}
	lw_error_clear();
	return LW_OK;
}

int lw_out_check_free(const char *out)
{
	lw_rundir_list list = {0};
	struct lw_rundir *other;
	int status = lw_rundir_find(&list);

	lw_vec_foreach (other, &list)
		if (status == LW_OK && other->is_collected && !strcmp(other->out, out))
			status = lw_fail(LW_ERR_STATE,
				"%s: another job is being recorded into it: give each its own -o (%%r rank, %%p pid)",
				out);
	lw_vec_free(&list);
	return status;
}

int lw_out_lock(const char *out)
{
	char folder[PATH_MAX];
	int fd;

	snprintf(folder, sizeof(folder), "%.*s", (int)(strrchr(out, '/') - out) + 1, out);
	fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	/* Others of ours hold it for milliseconds. A stranger who holds it for long must not hold up a job. */
	for (int i = 0; fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0 && i < 40; i++)
		usleep(50000);
	return fd;
}
