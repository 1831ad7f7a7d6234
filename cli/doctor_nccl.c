/* SPDX-License-Identifier: Apache-2.0 */
/*
 * doctor_nccl.c - which NCCL a command would use, how it is linked, and which of the three ways into it are open.
 *
 * Looks at files: dynamic symbols through libelf, and the version in the text that every NCCL has in it, which is the
 * only way to tell that of one that was linked in statically. libnccl.so.2 alone is loaded, to ask the loader where it
 * is; nothing in it is called.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/doctor.h"

/* NCCL_PROFILER_PLUGIN speaks this version of the interface, or an older one. */
static const struct {
	int from, interface;
} interfaces[] = {{22902, 6}, {22803, 5}, {22703, 4}, {22602, 3}, {22403, 2}, {22304, 1}};

/* "NCCL version 2.28.9+cuda13.0", which it prints with NCCL_DEBUG=VERSION. Return: 22809, 0 = there is none. */
static int find_version(const char *path)
{
	static const char mark[] = "NCCL version ";
	int fd = open(path, O_RDONLY | O_CLOEXEC), version = 0;
	unsigned major, minor, patch;
	struct stat st;
	char *text, *at;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size == 0) {
		if (fd >= 0)
			close(fd);
		return 0;
	}
	text = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (text == MAP_FAILED)
		return 0;
	at = text;
	while (!version &&
		(at = memmem(at, (size_t)(text + st.st_size - at), mark, strlen(mark)))) {
		char number[32];

		at += strlen(mark);
		snprintf(number, sizeof(number), "%.*s",
			(int)(text + st.st_size - at < 20 ? text + st.st_size - at : 20), at);
		if (sscanf(number, "%u.%u.%u", &major, &minor, &patch) == 3 && major < 10 &&
			minor < 100 && patch < 100)
			version =
				(int)(minor > 8 || major > 2 ? major * 10000 + minor * 100 + patch
							     : major * 1000 + minor * 100 + patch);
	}
	munmap(text, (size_t)st.st_size);
	return version;
}

/* Where the loader finds libnccl.so.2 for this program, "" = it does not. */
static void find_library(char *path, size_t path_bytes)
{
	void *handle = dlopen("libnccl.so.2", RTLD_LAZY | RTLD_LOCAL);
	struct link_map *map;

	path[0] = '\0';
	if (handle && dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0)
		snprintf(path, path_bytes, "%s", map->l_name);
	if (handle)
		dlclose(handle);
}

/* NCCL of the library or program @user, if it has one. Return: it has. */
static bool find_in(
	const struct lw_doctor_patient *patient, const char *user, struct lw_doctor_nccl *nccl)
{
	struct lw_probe probe;
	char beside[4300];

	if (!*user || access(user, R_OK) < 0)
		return false;
	lw_probe_file(user, &probe);
	if (lw_probe_needs(&probe, "libnccl")) {
		nccl->how = LW_DOCTOR_NCCL_DYNAMIC;
		find_library(nccl->path, sizeof(nccl->path));
		/* where pip puts it, which torch prefers */
		snprintf(beside, sizeof(beside), "%s/../nvidia/nccl/lib/libnccl.so.2",
			patient->torch_dir);
		if (patient->torch_dir[0] && access(beside, R_OK) == 0)
			snprintf(nccl->path, sizeof(nccl->path), "%.4095s", beside);
		nccl->version = find_version(nccl->path);
	} else if (lw_probe_count_symbols(user, "ncclAllReduce") ||
		   (nccl->version = find_version(user))) {
		nccl->how = lw_probe_count_symbols(user, "ncclAllReduce") ? LW_DOCTOR_NCCL_EXPORTED
									  : LW_DOCTOR_NCCL_HIDDEN;
		snprintf(nccl->path, sizeof(nccl->path), "%.4095s", user);
		nccl->version = find_version(user);
	} else {
		return false;
	}
	snprintf(nccl->user, sizeof(nccl->user), "%.4095s", user);
	return true;
}

void lw_doctor_find_nccl(struct lw_doctor_patient *patient)
{
	struct lw_doctor_nccl *nccl = &patient->nccl;
	char torch[4200];

	snprintf(torch, sizeof(torch), "%s/lib/libtorch_cuda.so", patient->torch_dir);
	if (find_in(patient, patient->extension, nccl) ||
		(patient->torch_dir[0] && find_in(patient, torch, nccl)) ||
		find_in(patient, patient->python[0] ? "" : patient->program.path, nccl))
		return;
	nccl->how = LW_DOCTOR_NCCL_NONE;
	find_library(nccl->path, sizeof(nccl->path)); /* what a dlopen() would find */
	nccl->version = *nccl->path ? find_version(nccl->path) : 0;
}

static const char *version_text(int version, char text[24])
{
	if (!version)
		return "of unknown version";
	if (version >= 10000)
		snprintf(text, 24, "%d.%d.%d", version / 10000, version / 100 % 100, version % 100);
	else
		snprintf(text, 24, "%d.%d.%d", version / 1000, version / 100 % 10, version % 100);
	return text;
}

void lw_doctor_check_nccl(const struct lw_doctor_patient *patient, struct lw_doctor_answer *answer)
{
	const struct lw_doctor_nccl *nccl = &patient->nccl;
	char version[24];

	version_text(nccl->version, version);
	switch (nccl->how) {
	case LW_DOCTOR_NCCL_DYNAMIC:
		if (!*nccl->path)
			lw_doctor_say(answer, LW_DOCTOR_NO,
				"%.200s needs libnccl.so.2, which the loader does not find",
				nccl->user);
		else
			lw_doctor_say(answer, LW_DOCTOR_YES, "%.200s loads NCCL %s, %.200s",
				nccl->user, version_text(nccl->version, version), nccl->path);
		return;
	case LW_DOCTOR_NCCL_EXPORTED:
	case LW_DOCTOR_NCCL_HIDDEN:
		lw_doctor_say(answer, LW_DOCTOR_YES, "NCCL %s is linked into %.300s statically",
			version_text(nccl->version, version), nccl->user);
		return;
	case LW_DOCTOR_NCCL_NONE:
		break;
	}
	if (*nccl->path)
		lw_doctor_say(answer, LW_DOCTOR_UNSURE,
			"nothing here is linked to NCCL; what loads it while it runs would find %s, %.250s",
			version_text(nccl->version, version), nccl->path);
	else
		lw_doctor_say_none(patient, answer, "no NCCL here");
}

void lw_doctor_check_nccl_preload(
	const struct lw_doctor_patient *patient, struct lw_doctor_answer *answer)
{
	switch (patient->nccl.how) {
	case LW_DOCTOR_NCCL_DYNAMIC:
		lw_doctor_say(answer, LW_DOCTOR_YES,
			"every call of NCCL's API; not those of ctypes or dlsym(), which go past LD_PRELOAD");
		return;
	case LW_DOCTOR_NCCL_EXPORTED:
		lw_doctor_say(answer, LW_DOCTOR_YES,
			"NCCL is static in %.300s, but its functions are exported there and can be interposed",
			patient->nccl.user);
		return;
	case LW_DOCTOR_NCCL_HIDDEN:
		lw_doctor_say(answer, LW_DOCTOR_NO,
			"NCCL is static in %.300s and not exported: the plugin and NVTX still see it",
			patient->nccl.user);
		return;
	case LW_DOCTOR_NCCL_NONE:
		break;
	}
	if (*patient->nccl.path)
		lw_doctor_say(answer, LW_DOCTOR_UNSURE,
			"calls of a program that is linked to libnccl.so.2; not those of ctypes or dlsym()");
	else
		lw_doctor_say_none(patient, answer, "no NCCL here");
}

void lw_doctor_check_nccl_plugin(
	const struct lw_doctor_patient *patient, struct lw_doctor_answer *answer)
{
	const char *other = lw_doctor_variable(patient, "NCCL_PROFILER_PLUGIN");
	const struct lw_doctor_nccl *nccl = &patient->nccl;
	char version[24];
	int interface = 0;

	for (size_t i = 0; i < sizeof(interfaces) / sizeof(interfaces[0]) && !interface; i++)
		if (nccl->version >= interfaces[i].from)
			interface = interfaces[i].interface;
	if (nccl->how == LW_DOCTOR_NCCL_NONE && !*nccl->path)
		lw_doctor_say_none(patient, answer, "no NCCL here");
	else if (other && !strcmp(other, "none"))
		lw_doctor_say(answer, LW_DOCTOR_NO,
			"NCCL_PROFILER_PLUGIN=none: NCCL loads no profiler, and so not this one");
	else if (other && *other && strcmp(other, "STATIC_PLUGIN") != 0 &&
		 !strstr(other, "liblapwing"))
		lw_doctor_say(answer, LW_DOCTOR_NO,
			"NCCL_PROFILER_PLUGIN is %.200s already: NCCL has one profiler, and it is that one",
			other);
	else if (!nccl->version)
		lw_doctor_say(answer, LW_DOCTOR_UNSURE,
			"the version of %.300s is not known: 2.23 and later have profiler plugins",
			nccl->path);
	else if (!interface)
		lw_doctor_say(answer, LW_DOCTOR_NO,
			"NCCL %s has no profiler plugins (2.23.4 is the first)",
			version_text(nccl->version, version));
	else
		lw_doctor_say(answer,
			nccl->how == LW_DOCTOR_NCCL_NONE ? LW_DOCTOR_UNSURE : LW_DOCTOR_YES,
			"NCCL %s speaks version %d of the interface%s",
			version_text(nccl->version, version), interface,
			interface < 3 ? ": without what its network did" : "");
}
