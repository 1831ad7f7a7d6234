/* SPDX-License-Identifier: Apache-2.0 */
/* Extended payloads of NVTX: every type of entry, offsets given and not, and blobs that do not fit their schema. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "tracer/nvtx.h"

static uint64_t n_lost;

void lw_loss(enum lw_loss_reason reason, uint64_t n, const char *where)
{
	(void)reason;
	(void)where;
	n_lost += n;
}

enum { SIZE = 22, UINT64 = 18, FIELDS = 1 << 2 | 1 << 4 | 1 << 5 | 1 << 6 };

/* A schema of its own domain for each test, so that none sees another's. */
static uint64_t add(
	const void *domain, const struct lw_nvtx_schema_entry *entries, size_t n, size_t n_bytes)
{
	const struct lw_nvtx_schema schema = {.fields = FIELDS,
		.type = 1,
		.entries = entries,
		.n_entries = n,
		.n_bytes = n_bytes};

	return lw_nvtx_schema_add(domain, &schema);
}

static struct lw_nvtx_values read_blob(
	const void *domain, uint64_t schema, const void *data, size_t n_bytes)
{
	const struct lw_nvtx_payload payload = {schema, n_bytes, data};
	struct lw_nvtx_values values = {0};

	lw_nvtx_read(domain, &payload, 1, &values);
	return values;
}

static void every_whole_number_is_read_with_its_sign(void **state)
{
	static const struct {
		uint64_t type;
		int n_bytes;
		bool is_signed;
	} types[] = {{1, 1, true}, {2, 1, false}, {3, 2, true}, {4, 2, false}, {5, 4, true},
		{6, 4, false}, {7, 8, true}, {8, 8, false}, {9, 8, true}, {10, 8, false},
		{11, 1, true}, {12, 1, false}, {13, 2, true}, {14, 2, false}, {15, 4, true},
		{16, 4, false}, {17, 8, true}, {18, 8, false}, {22, 8, false}, {71, 4, false},
		{72, 8, false}, {73, 4, false}, {74, 8, false}};
	static const char domain[1];
	const int64_t minus_two = -2;

	(void)state;
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		const struct lw_nvtx_schema_entry entry = {.type = types[i].type, .name = "Rank"};
		struct lw_nvtx_values values =
			read_blob(domain, add(domain, &entry, 1, (size_t)types[i].n_bytes),
				&minus_two, (size_t)types[i].n_bytes);
		int64_t expected = types[i].is_signed || types[i].n_bytes == 8
					   ? -2
					   : (INT64_C(1) << 8 * types[i].n_bytes) - 2;

		assert_true(lw_nvtx_has(&values, LW_NVTX_FIELD_RANK));
		assert_int_equal(values.at[LW_NVTX_FIELD_RANK], expected);
		assert_int_equal(values.at[LW_NVTX_FIELD_FIRST], expected);
		values = read_blob(domain, types[i].type, &minus_two, (size_t)types[i].n_bytes);
		assert_int_equal(values.at[LW_NVTX_FIELD_FIRST], expected);
	}
}

static void offsets_follow_from_alignment_where_none_is_given(void **state)
{
	static const char domain[1];
	const struct {
		char a;
		uint64_t comm;
		short b;
		int rank;
		double c;
		size_t bytes;
	} blob = {1, 77, 2, -3, 0.5, 4096};
	const struct lw_nvtx_schema_entry entries[] = {{.type = 1, .name = "a"},
		{.type = UINT64, .name = "NCCL communicator ID"}, {.type = 3},
		{.type = 5, .name = "Rank"}, {.type = 20, .name = "Root"},
		{.type = SIZE, .name = "Bytes"}};
	struct lw_nvtx_values values =
		read_blob(domain, add(domain, entries, 6, sizeof(blob)), &blob, sizeof(blob));

	(void)state;
	assert_int_equal(values.at[LW_NVTX_FIELD_COMM], 77);
	assert_int_equal(values.at[LW_NVTX_FIELD_RANK], -3);
	assert_int_equal(values.at[LW_NVTX_FIELD_BYTES], 4096);
	assert_int_equal(values.at[LW_NVTX_FIELD_FIRST], 1);
	assert_false(lw_nvtx_has(&values, LW_NVTX_FIELD_PEER)); /* a double is no rank */
	values = read_blob(domain, UINT64_C(1) << 40, &blob, sizeof(blob));
	assert_int_equal(values.known, 0);
}

static void packed_structures_are_read_as_packed(void **state)
{
	static const char domain[1];
	const unsigned char blob[] = {9, 1, 0, 0, 0, 0, 0, 0, 0, 7, 0};
	const struct lw_nvtx_schema_entry entries[] = {
		{.type = 2}, {.type = SIZE, .name = "Bytes"}, {.type = 4, .name = "Root"}};
	const struct lw_nvtx_schema schema = {.fields = FIELDS | 1 << 7,
		.type = 1,
		.entries = entries,
		.n_entries = 3,
		.n_bytes = sizeof(blob),
		.pack_bytes = 1};
	struct lw_nvtx_values values =
		read_blob(domain, lw_nvtx_schema_add(domain, &schema), blob, sizeof(blob));

	(void)state;
	assert_int_equal(values.at[LW_NVTX_FIELD_BYTES], 1);
	assert_int_equal(values.at[LW_NVTX_FIELD_PEER], 7);
}

static void what_is_no_plain_number_is_passed_over(void **state)
{
	static const char domain[1];
	const uint64_t blob[] = {11, 12, 13, 14, 15};
	const struct lw_nvtx_schema_entry entries[] = {
		{.flags = 1 << 1, .type = SIZE, .name = "Bytes"},          /* a pointer to it */
		{.flags = 1 << 4, .type = 5, .name = "Root", .offset = 8}, /* arrays */
		{.flags = 3 << 4, .type = 5, .name = "Rank", .offset = 16},
		{.type = 75, .name = "No. of ranks", .offset = 24}, /* a text */
		{.flags = 1 << 9,
			.type = SIZE,
			.name = "Message size [bytes]",
			.offset = 32}}; /* hidden */
	struct lw_nvtx_values values =
		read_blob(domain, add(domain, entries, 5, sizeof(blob)), blob, sizeof(blob));

	(void)state;
	assert_int_equal(values.known, 1u << LW_NVTX_FIELD_BYTES | 1u << LW_NVTX_FIELD_FIRST);
	assert_int_equal(values.at[LW_NVTX_FIELD_BYTES], 15);
}

static void a_schema_is_its_domains(void **state)
{
	static const char one[1], two[1];
	const struct lw_nvtx_schema_entry bytes = {.type = SIZE, .name = "Bytes"},
					  root = {.type = SIZE, .name = "Root"};
	struct lw_nvtx_schema schema = {.fields = FIELDS | 1 << 8,
		.type = 1,
		.n_entries = 1,
		.n_bytes = 8,
		.id = (1 << 24) + 5};
	const size_t value = 12;

	(void)state;
	schema.entries = &bytes;
	assert_int_equal(lw_nvtx_schema_add(one, &schema), schema.id);
	schema.entries = &root;
	assert_int_equal(lw_nvtx_schema_add(two, &schema), schema.id);
	assert_int_equal(read_blob(one, schema.id, &value, 8).at[LW_NVTX_FIELD_BYTES], 12);
	assert_false(read_blob(one, schema.id, &value, 8).known >> LW_NVTX_FIELD_PEER & 1);
	assert_int_equal(read_blob(two, schema.id, &value, 8).at[LW_NVTX_FIELD_PEER], 12);
	/* another length is another layout: of a second NCCL in this domain */
	assert_int_equal(read_blob(one, schema.id, &value, 7).known, 0);
	/* the other tool calls it by another number */
	lw_nvtx_schema_alias(two, schema.id, 4711);
	assert_int_equal(read_blob(two, 4711, &value, 8).at[LW_NVTX_FIELD_PEER], 12);
	assert_int_equal(read_blob(one, 4711, &value, 8).known, 0);
}

static uint64_t mix(uint64_t *random) /* xorshift64 */
{
	*random ^= *random << 13;
	*random ^= *random >> 7;
	return *random ^= *random << 17;
}

/* Whatever a schema says of a blob: not a byte outside of it is read. */
static void random_schemas_stay_inside_their_blobs(void **state)
{
	static const char *const names[] = {
		"Bytes", "Root", "Rank", NULL, "something", "NCCL communicator ID"};
	static char domains[512];
	uint64_t seed = (uint64_t)time(NULL) | 1, random = seed;

	(void)state;
	printf("seed %llu\n", (unsigned long long)seed);
	for (size_t round = 0; round < 200; round++) {
		struct lw_nvtx_schema_entry entries[6];
		size_t n_bytes = mix(&random) % 24, limit = 64;
		unsigned char *blob =
			test_malloc(n_bytes + 1); /* cmocka sees writes, a sanitizer reads */
		uint64_t id;

		memset(blob, 0xee, n_bytes + 1);
		for (int i = 0; i < 6; i++)
			entries[i] = (struct lw_nvtx_schema_entry){
				.flags = mix(&random) % 8 ? 0 : mix(&random),
				.type = mix(&random) % 8 ? mix(&random) % 80 : mix(&random),
				.name = names[mix(&random) % 6],
				.offset = mix(&random) % 3 ? mix(&random) % limit : mix(&random)};
		id = add(&domains[round], entries, 6, mix(&random) % 2 ? n_bytes : 0);
		for (int i = 0; i < 2; i++) {
			struct lw_nvtx_values values =
				read_blob(&domains[round], id, blob, i ? n_bytes : 0);

			assert_true(i || !values.known);
			for (int field = 0; field < LW_NVTX_N_FIELDS; field++)
				if (lw_nvtx_has(&values, (enum lw_nvtx_field)field))
					assert_int_equal(values.at[field] & 0xff, 0xee);
		}
		test_free(blob);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_whole_number_is_read_with_its_sign),
		cmocka_unit_test(offsets_follow_from_alignment_where_none_is_given),
		cmocka_unit_test(packed_structures_are_read_as_packed),
		cmocka_unit_test(what_is_no_plain_number_is_passed_over),
		cmocka_unit_test(a_schema_is_its_domains),
		cmocka_unit_test(random_schemas_stay_inside_their_blobs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
