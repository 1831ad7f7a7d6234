/* SPDX-License-Identifier: Apache-2.0 */
/* Which libcupti is taken, in trees like those of toolkits and of pip's packages. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "schema/cupti_place.h"

static char root[] = "/tmp/lapwing-cupti-XXXXXX";

static const char *at(const char *name)
{
	static char path[256];

	snprintf(path, sizeof(path), "%s/%s", root, name);
	return path;
}

static void add(const char *name)
{
	char command[600];

	snprintf(
		command, sizeof(command), "mkdir -p $(dirname %s) && touch %s", at(name), at(name));
	assert_int_equal(system(command), 0);
}

/* The first one that is there, of the tree; its path within it. */
static const char *taken(const char *runtime, int major)
{
	static char path[8192];
	char real[PATH_MAX], under[PATH_MAX];

	assert_non_null(realpath(root, under));
	for (size_t i = 0; lw_cupti_place(runtime, major, i, path, sizeof(path)); i++)
		if (*path && realpath(path, real) && !strncmp(real, under, strlen(under))) {
			snprintf(path, sizeof(path), "%s", real + strlen(under) + 1);
			return path;
		}
	return "";
}

static int make(void **state)
{
	(void)state;
	return mkdtemp(root) ? 0 : -1;
}

static int clear(void **state)
{
	char command[64];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s", root);
	return system(command);
}

static void none_is_newer_than_the_runtime(void **state)
{
	char runtime[256];

	(void)state;
	add("kit/lib64/libcudart.so.12.4.127");
	add("kit/lib64/libcupti.so.13");
	add("kit/lib64/libcupti.so.12");
	snprintf(runtime, sizeof(runtime), "%s", at("kit/lib64/libcudart.so.12"));
	assert_int_equal(symlink("libcudart.so.12.4.127", runtime), 0);
	assert_int_equal(lw_cupti_major(runtime), 12);
	assert_string_equal(taken(runtime, 12), "kit/lib64/libcupti.so.12");
	assert_string_equal(taken(runtime, 11), "");
	assert_string_equal(taken(runtime, 0), "kit/lib64/libcupti.so.13");
	assert_int_equal(lw_cupti_major("libcudart.so.11.0"), 11);
	assert_int_equal(lw_cupti_major("libcudart.so"), 0);
}

static void folders_of_toolkits_and_of_pip_are_neighbours(void **state)
{
	char runtime[256];

	(void)state;
	add("old/lib64/libcudart.so.11.0");
	add("old/extras/CUPTI/lib64/libcupti.so.11.8");
	snprintf(runtime, sizeof(runtime), "%s", at("old/lib64/libcudart.so.11.0"));
	assert_string_equal(taken(runtime, 11), "old/extras/CUPTI/lib64/libcupti.so.11.8");
	add("nvidia/cuda_runtime/lib/libcudart.so.12");
	add("nvidia/cuda_cupti/lib/libcupti.so.12");
	snprintf(runtime, sizeof(runtime), "%s", at("nvidia/cuda_runtime/lib/libcudart.so.12"));
	assert_string_equal(taken(runtime, 12), "nvidia/cuda_cupti/lib/libcupti.so.12");
	assert_string_equal(taken("", 12), ""); /* nothing is beside a runtime that is not known */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(none_is_newer_than_the_runtime),
		cmocka_unit_test(folders_of_toolkits_and_of_pip_are_neighbours),
	};

	return cmocka_run_group_tests(tests, make, clear);
}
