/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cupti_find.c - which libcupti belongs to this process.
 *
 * One that is mapped already comes first: pip's packages of CUDA bring their own, and a process may hold
 * only one. Else what schema/cupti_place.h says.
 */
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schema/cupti_place.h"
#include "tracer/hook_cupti.h"

enum { OLDEST_VERSION = 10 }; /* CUDA 9.0: the first whose records are those of cupti_layout.h */

struct mapped {
	char cupti[PATH_MAX];
	char runtime[PATH_MAX]; /* libcudart */
	char driver[PATH_MAX];  /* libcuda */
};

static void keep(char *room, const char *path)
{
	if (!room[0] && strlen(path) < PATH_MAX)
		memcpy(room, path, strlen(path) + 1);
}

static int look(struct dl_phdr_info *info, size_t size, void *data)
{
	struct mapped *mapped = data;
	const char *path = info->dlpi_name ? info->dlpi_name : "", *name = strrchr(path, '/');

	(void)size;
	name = name ? name + 1 : path;
	if (!strncmp(name, "libcupti.so", 11))
		keep(mapped->cupti, path);
	else if (!strncmp(name, "libcudart.so", 12))
		keep(mapped->runtime, path);
	else if (!strncmp(name, "libcuda.so", 10))
		keep(mapped->driver, path);
	return 0;
}

static int driver_major(const struct mapped *mapped)
{
	int (*version)(int *) = NULL;
	int value = 0;
	void *handle = mapped->driver[0] ? dlopen(mapped->driver, RTLD_LAZY | RTLD_NOLOAD) : NULL;

	if (handle) {
		version = (int (*)(int *))dlsym(handle, "cuDriverGetVersion");
		if (!version || version(&value))
			value = 0;
		dlclose(handle);
	}
	return value / 1000;
}

static void tell_path(char *ret, size_t n_bytes, const char *path)
{
	char real[PATH_MAX];
	const char *told = realpath(path, real) ? real : path;
	size_t n = strnlen(told, n_bytes - 1);

	memcpy(ret, told, n);
	ret[n] = '\0';
}

static void *try_path(const char *path, char *ret_path, size_t n_bytes)
{
	void *handle = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
	struct link_map *map;

	if (handle && !dlinfo(handle, RTLD_DI_LINKMAP, &map))
		tell_path(ret_path, n_bytes, map->l_name && *map->l_name ? map->l_name : path);
	return handle;
}

static void *open_library(char *ret_path, size_t n_bytes)
{
	struct mapped mapped = {0};
	char path[2 * PATH_MAX];
	void *handle = NULL;
	int major;

	dl_iterate_phdr(look, &mapped);
	if (mapped.cupti[0]) {
		tell_path(ret_path, n_bytes, mapped.cupti);
		return dlopen(mapped.cupti, RTLD_LAZY | RTLD_NOLOAD);
	}
	major = mapped.runtime[0] ? lw_cupti_major(mapped.runtime) : driver_major(&mapped);
	for (size_t i = 0; !handle && lw_cupti_place(mapped.runtime, major, i, path, sizeof(path));
		i++)
		if (path[0])
			handle = try_path(path, ret_path, n_bytes);
	return handle;
}

static const char *take_functions(struct lw_cupti_api *api, void *handle)
{
	const char *missing = NULL;

#define X(need, name, arguments)                                                                   \
	api->name = (__typeof__(api->name))dlsym(handle, "cupti" #name);                           \
	if ((need) && !api->name)                                                                  \
		missing = "cupti" #name;
	LW_CUPTI_FUNCTIONS(X)
#undef X
	return missing;
}

bool lw_cupti_find(struct lw_cupti_api *api, char *why, size_t why_bytes)
{
	int saved_errno = errno;
	const char *missing;
	void *handle;

	why[0] = '\0';
	memset(api, 0, sizeof(*api));
	handle = open_library(api->path, sizeof(api->path));
	missing = handle ? take_functions(api, handle) : NULL;
	if (!handle)
		snprintf(why, why_bytes, "no libcupti.so.13, .12, .11.x or .10.2 is found");
	else if (missing)
		snprintf(why, why_bytes, "%s has no %s", api->path, missing);
	else if (api->GetVersion(&api->version) || api->version < OLDEST_VERSION)
		snprintf(why, why_bytes,
			"%s is of version %u: CUDA 9.0 (10) is the oldest that is read", api->path,
			api->version);
	if (why[0]) {
		memset(api, 0, sizeof(*api));
		if (handle)
			dlclose(handle);
	}
	errno = saved_errno;
	return !why[0];
}

bool lw_cupti_is_cuda_loaded(char *text, size_t text_bytes)
{
	struct mapped mapped = {0};

	dl_iterate_phdr(look, &mapped);
	if (mapped.runtime[0])
		snprintf(text, text_bytes,
			"CUDA is loaded (%.200s) and no first use of it was seen%s", mapped.runtime,
			mapped.driver[0] ? ""
					 : ": there is no driver in this process (libcuda.so.1)");
	else if (mapped.driver[0])
		snprintf(text, text_bytes,
			"CUDA's driver is loaded (%.200s) and no first use of it was seen",
			mapped.driver);
	return mapped.runtime[0] || mapped.driver[0];
}
