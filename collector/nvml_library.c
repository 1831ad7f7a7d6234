/* SPDX-License-Identifier: Apache-2.0 */
/* nvml_library.c - libnvidia-ml.so.1 by dlopen, and what `lapwing doctor` asks of it. */
#include "collector/nvml_abi.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>

#include "collector/nvml.h"

const char *lw_nvml_library_open(struct lw_nvml_library *library)
{
	library->handle = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!library->handle)
		return dlerror();
#define X(member, symbol, parameters)                                                              \
	library->member = (int(*) parameters)(uintptr_t)dlsym(library->handle, symbol);
	LW_NVML_FUNCTIONS(X)
#undef X
	library->error_text =
		(const char *(*)(int))(uintptr_t)dlsym(library->handle, "nvmlErrorString");
	if (!library->init || !library->get_count || !library->get_handle)
		return "libnvidia-ml.so.1 has no nvmlInit_v2";
	return NULL;
}

const char *lw_nvml_error_text(const struct lw_nvml_library *library, int result)
{
	const char *text = library->error_text ? library->error_text(result) : NULL;

	return text ? text : "error";
}

int lw_nvml_probe(char *text, size_t text_bytes)
{
	struct lw_nvml_library library;
	const char *why = lw_nvml_library_open(&library);
	char version[80] = "";
	unsigned n = 0;
	int result;

	if (!library.handle) {
		snprintf(text, text_bytes, "%s", why);
		return -2;
	}
	result = why ? -1 : library.init();
	if (!why && result == LW_NVML_OK)
		result = library.get_count(&n);
	if (result != LW_NVML_OK) {
		snprintf(text, text_bytes, "%s", why ? why : lw_nvml_error_text(&library, result));
		return -1;
	}
	if (library.get_driver)
		library.get_driver(version, sizeof(version));
	snprintf(text, text_bytes, "driver %.70s", version[0] ? version : "of unknown version");
	return (int)n;
}
