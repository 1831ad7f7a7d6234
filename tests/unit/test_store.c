/* SPDX-License-Identifier: Apache-2.0 */
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

#include "base/err.h"
#include "schema/store.h"

static char folder[] = "/tmp/lapwing-store-XXXXXX";
static char path[64];

static int make_folder(void **state)
{
	(void)state;
	if (!mkdtemp(folder))
		return -1;
	snprintf(path, sizeof(path), "%s/run.lapwing", folder);
	return 0;
}

static int remove_folder(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s", folder);
	return system(command);
}

static void write_file(const char *text)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static void a_new_run_opens_again(void **state)
{
	struct lw_store *store;
	int64_t value, id;

	(void)state;
	assert_int_equal(lw_store_open(path, LW_STORE_CREATE, &store), LW_OK);
	id = lw_store_string(store, "layer1.weight");
	assert_true(id > 0);
	assert_int_equal(lw_store_string(store, "layer1.weight"), id);
	assert_int_equal(lw_store_build_indexes(store), LW_OK);
	lw_store_close(store);
	assert_int_equal(lw_store_open(path, LW_STORE_READ, &store), LW_OK);
	assert_int_equal(lw_store_int(store, "SELECT count(*) FROM string", &value), LW_OK);
	assert_int_equal(value, 1);
	assert_int_equal(lw_store_int(store, "PRAGMA user_version", &value), LW_OK);
	assert_int_equal(value, lw_store_schema_version());
	lw_store_close(store);
}

static void a_missing_run_is_an_error(void **state)
{
	struct lw_store *store;

	(void)state;
	assert_int_equal(lw_store_open("/no/such/run", LW_STORE_READ, &store), LW_ERR_IO);
	assert_non_null(strstr(lw_error_text(), "No such file"));
	assert_int_equal(lw_store_open("/no/such/run", LW_STORE_CREATE, &store), LW_ERR_IO);
}

static void a_foreign_file_is_refused_and_never_replaced(void **state)
{
	struct lw_store *store;
	struct stat st;

	(void)state;
	write_file("chapter one: it was a dark and stormy night, and nobody had made a backup\n");
	assert_int_equal(lw_store_open(path, LW_STORE_READ, &store), LW_ERR_FORMAT);
	assert_non_null(strstr(lw_error_text(), "not a lapwing run"));
	assert_int_equal(lw_store_open(path, LW_STORE_CREATE, &store), LW_ERR_FORMAT);
	assert_int_equal(stat(path, &st), 0);
	assert_true(st.st_size > 50);
	unlink(path);
}

static void a_newer_run_is_refused_in_words(void **state)
{
	struct lw_store *store;

	(void)state;
	assert_int_equal(lw_store_open(path, LW_STORE_CREATE, &store), LW_OK);
	assert_int_equal(lw_store_exec(store, "PRAGMA user_version = 999"), LW_OK);
	lw_store_close(store);
	assert_int_equal(lw_store_open(path, LW_STORE_READ, &store), LW_ERR_UNSUPPORTED);
	assert_non_null(strstr(lw_error_text(), "newer lapwing"));
	unlink(path);
}

static void a_truncated_run_is_an_error(void **state)
{
	struct lw_store *store;
	int status;

	(void)state;
	assert_int_equal(lw_store_open(path, LW_STORE_CREATE, &store), LW_OK);
	lw_store_close(store);
	assert_int_equal(truncate(path, 5000), 0);
	status = lw_store_open(path, LW_STORE_READ, &store);
	assert_int_equal(status, LW_ERR_FORMAT);
	assert_non_null(strstr(lw_error_text(), "damaged"));
	unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_new_run_opens_again),
		cmocka_unit_test(a_missing_run_is_an_error),
		cmocka_unit_test(a_foreign_file_is_refused_and_never_replaced),
		cmocka_unit_test(a_newer_run_is_refused_in_words),
		cmocka_unit_test(a_truncated_run_is_an_error),
	};

	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
