/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cupti_place.h - where a process's libcupti is looked for, and in which order: by the tracer inside of it, and by
 * `lapwing doctor`, which says beforehand what the tracer would take.
 *
 * None is newer than the process's libcudart, or without one its driver: a newer one refuses an older driver. Beside the
 * runtime (a toolkit's folder, or the neighbour's in pip's packages) before where the loader looks.
 */
#ifndef LAPWING_SCHEMA_CUPTI_PLACE_H
#define LAPWING_SCHEMA_CUPTI_PLACE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/** lw_cupti_major() - of ".../libcudart.so.12" or ".../libcudart.so.11.0", through its links. Return: 0 = not told. */
static inline int lw_cupti_major(const char *library)
{
	char real[PATH_MAX];
	const char *at = realpath(library, real) ? strstr(real, ".so.") : NULL;

	if (!at)
		at = strstr(library, ".so.");
	return at ? (int)strtol(at + 4, NULL, 10) : 0;
}

/**
 * lw_cupti_place() - the @i-th name to load, for a process with @runtime ("" = none) that takes none newer than @major
 * (0 = any). Return: @path; "" = not for this process, go on; NULL = there are no more.
 */
static inline const char *lw_cupti_place(
	const char *runtime, int major, size_t i, char *path, size_t path_bytes)
{
	static const struct {
		const char *name;
		int major;
	} releases[] = {{"libcupti.so.13", 13}, {"libcupti.so.12", 12}, {"libcupti.so.11.8", 11},
		{"libcupti.so.11.7", 11}, {"libcupti.so.11.6", 11}, {"libcupti.so.11.5", 11},
		{"libcupti.so.11.4", 11}, {"libcupti.so.11.3", 11}, {"libcupti.so.11.2", 11},
		{"libcupti.so.11.1", 11}, {"libcupti.so.11.0", 11}, {"libcupti.so.10.2", 10}};
	static const struct {
		bool is_beside;
		const char *folder;
	} folders[] = {{true, ""}, {true, "../../cuda_cupti/lib/"},
		{true, "../extras/CUPTI/lib64/"}, {false, ""}, {false, "/usr/local/cuda/lib64/"},
		{false, "/usr/local/cuda/extras/CUPTI/lib64/"}};
	const size_t n_folders = sizeof(folders) / sizeof(folders[0]);
	size_t release = i / n_folders, folder = i % n_folders;
	const char *slash = strrchr(runtime, '/');

	path[0] = '\0';
	if (release >= sizeof(releases) / sizeof(releases[0]))
		return NULL;
	if ((major && releases[release].major > major) || (folders[folder].is_beside && !slash))
		return path;
	snprintf(path, path_bytes, "%.*s%s%s%s",
		folders[folder].is_beside ? (int)(slash - runtime) : 0, runtime,
		folders[folder].is_beside ? "/" : "", folders[folder].folder,
		releases[release].name);
	return path;
}

#endif /* LAPWING_SCHEMA_CUPTI_PLACE_H */
