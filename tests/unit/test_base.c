/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/address.h"
#include "base/err.h"
#include "base/str.h"
#include "base/units.h"
#include "base/vec.h"

static void a_cause_goes_in_front_of_the_error(void **state)
{
	(void)state;
	assert_int_equal(lw_fail(LW_ERR_FORMAT, "record %d: end before start", 17), LW_ERR_FORMAT);
	assert_int_equal(lw_cause(LW_ERR_FORMAT, "import '%s'", "a.json"), LW_ERR_FORMAT);
	assert_string_equal(lw_error_text(), "import 'a.json': record 17: end before start");
	lw_error_clear();
	assert_string_equal(lw_error_text(), "");
}

static void sizes_are_read_as_people_write_them(void **state)
{
	static const struct {
		const char *text;
		uint64_t bytes;
	} cases[] = {{"4096", 4096}, {"64K", 65536}, {"64KiB", 65536}, {"128MiB", 134217728},
		{"128 MB", 128000000}, {"1GB", 1000000000}, {"0", 0}, {"0.5MiB", 524288}};
	uint64_t bytes;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(lw_bytes_parse(cases[i].text, &bytes), LW_OK);
		assert_int_equal(bytes, cases[i].bytes);
	}
	assert_int_equal(lw_bytes_parse("12 parsecs", &bytes), LW_ERR_FORMAT);
	assert_int_equal(lw_bytes_parse("-1", &bytes), LW_ERR_FORMAT);
	assert_int_equal(lw_bytes_parse("", &bytes), LW_ERR_FORMAT);
	assert_int_equal(lw_bytes_parse("nan", &bytes), LW_ERR_FORMAT);
	assert_int_equal(lw_bytes_parse("99999999999GiB", &bytes), LW_ERR_LIMIT);
}

static void times_survive_format_and_parse(void **state)
{
	static const char *const texts[] = {"5.00 ms", "1.50 s", "200 us", "10 ns", "0 ns"};
	char text[LW_UNIT_TEXT_BYTES];
	int64_t ns;

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		assert_int_equal(lw_ns_parse(texts[i], &ns), LW_OK);
		assert_string_equal(lw_ns_format((double)ns, text), texts[i]);
	}
	assert_string_equal(lw_bytes_format(134217728, text), "128 MiB");
	assert_string_equal(lw_bytes_format(1500, text), "1.46 KiB");
	assert_string_equal(lw_rate_format(1.25e9, text), "1.25 GB/s");
	assert_string_equal(lw_ns_format(-1500, text), "-1.50 us");
}

static void output_names_expand(void **state)
{
	char path[64];

	(void)state;
	setenv("LAPWING_TEST_WORD", "blue", 1);
	assert_int_equal(
		lw_path_expand("run-%r-%q{LAPWING_TEST_WORD}-%%.lapwing", 3, path, sizeof(path)),
		LW_OK);
	assert_string_equal(path, "run-3-blue-%.lapwing");
	assert_int_equal(lw_path_expand("run-%r", -1, path, sizeof(path)), LW_ERR_USAGE);
	assert_int_equal(lw_path_expand("run-%z", -1, path, sizeof(path)), LW_ERR_USAGE);
	assert_int_equal(lw_path_expand("run-%", -1, path, sizeof(path)), LW_ERR_USAGE);
	assert_int_equal(
		lw_path_expand("%q{LAPWING_NOT_SET}", -1, path, sizeof(path)), LW_ERR_USAGE);
	assert_int_equal(lw_path_expand("%q{unclosed", -1, path, sizeof(path)), LW_ERR_USAGE);
	assert_int_equal(lw_path_expand("0123456789", -1, path, 10), LW_ERR_LIMIT);
}

static void a_vector_grows(void **state)
{
	lw_vec(int) numbers = {0};
	int *number, sum = 0;

	(void)state;
	for (int i = 0; i < 1000; i++)
		assert_int_equal(lw_vec_push(&numbers, i), LW_OK);
	lw_vec_foreach (number, &numbers)
		sum += *number;
	assert_int_equal(sum, 499500);
	lw_vec_free(&numbers);
	assert_null(numbers.at);
}

static void addresses_are_written_as_people_write_them(void **state)
{
	static const uint8_t v4[4] = {192, 0, 2, 1};
	uint8_t address[LW_ADDRESS_BYTES] = {0x20, 0x01, 0x0d, 0xb8, [15] = 7};
	char text[INET6_ADDRSTRLEN];

	(void)state;
	assert_false(lw_address_is_v4(address));
	lw_address_text(address, text);
	assert_string_equal(text, "2001:db8::7");
	lw_address_map(v4, address);
	assert_true(lw_address_is_v4(address));
	lw_address_text(address, text);
	assert_string_equal(text, "192.0.2.1");
	memset(address, 0, sizeof(address)); /* "::", not IPv4's 0.0.0.0 */
	assert_false(lw_address_is_v4(address));
	lw_address_text(address, text);
	assert_string_equal(text, "::");
	memset(address, 0xff, sizeof(address));
	lw_address_text(address, text);
	assert_string_equal(text, "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_cause_goes_in_front_of_the_error),
		cmocka_unit_test(sizes_are_read_as_people_write_them),
		cmocka_unit_test(times_survive_format_and_parse),
		cmocka_unit_test(output_names_expand),
		cmocka_unit_test(addresses_are_written_as_people_write_them),
		cmocka_unit_test(a_vector_grows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
