/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/emit/json.h"
#include "base/err.h"

static char *text;
static size_t n_bytes;

static int close_into_text(struct lw_json *json)
{
	FILE *out;
	int status;

	free(text);
	out = open_memstream(&text, &n_bytes);
	assert_non_null(out);
	status = lw_json_close(json, out);
	fclose(out);
	return status;
}

static void every_type_has_one_form(void **state)
{
	struct lw_json *json = lw_json_open();

	(void)state;
	lw_json_object(json, NULL);
	lw_json_int(json, "i", INT64_MIN);
	lw_json_bool(json, "b", true);
	lw_json_null(json, "n");
	lw_json_array(json, "d");
	lw_json_double(json, NULL, 0.1);
	lw_json_double(json, NULL, 3);
	lw_json_double(json, NULL, 1.0 / 3);
	lw_json_double(json, NULL, 1e300);
	lw_json_double(json, NULL, (double)NAN);
	lw_json_double(json, NULL, -(double)INFINITY);
	lw_json_array_end(json);
	lw_json_string(json, "s", "a\"b\n");
	lw_json_string(json, "none", NULL);
	lw_json_object_end(json);
	assert_int_equal(close_into_text(json), LW_OK);
	assert_string_equal(text, "{\n"
				  "  \"i\": -9223372036854775808,\n"
				  "  \"b\": true,\n"
				  "  \"n\": null,\n"
				  "  \"d\": [\n"
				  "    0.1,\n"
				  "    3,\n"
				  "    0.3333333333333333,\n"
				  "    1e+300,\n"
				  "    null,\n"
				  "    null\n"
				  "  ],\n"
				  "  \"s\": \"a\\\"b\\n\",\n"
				  "  \"none\": null\n"
				  "}\n");
}

static void bytes_that_are_not_utf8_are_replaced(void **state)
{
	struct lw_json *json = lw_json_open();

	(void)state;
	lw_json_string(json, NULL, "x\xff\xfey");
	assert_int_equal(close_into_text(json), LW_OK);
	assert_string_equal(text, "\"x\xef\xbf\xbd\xef\xbf\xbdy\"\n");
}

static void a_misplaced_key_is_reported_at_the_close(void **state)
{
	struct lw_json *json = lw_json_open();

	(void)state;
	lw_json_object(json, NULL);
	lw_json_int(json, NULL, 1);
	lw_json_object_end(json);
	assert_int_equal(close_into_text(json), LW_ERR_STATE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_type_has_one_form),
		cmocka_unit_test(bytes_that_are_not_utf8_are_replaced),
		cmocka_unit_test(a_misplaced_key_is_reported_at_the_close),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
