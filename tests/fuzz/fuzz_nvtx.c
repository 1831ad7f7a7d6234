/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any schemas, enumerations and payloads of NVTX, in any order: no byte outside of a blob is read (a sanitizer sees that:
 * each blob is as long as it says), and what is said to be known was in it.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tracer/nvtx_payload.c" /* its table is emptied for each input */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

void lw_loss(enum lw_loss_reason reason, uint64_t n, const char *where)
{
	(void)reason;
	(void)n;
	(void)where;
}

struct input {
	const uint8_t *at, *end;
};

static uint64_t take(struct input *input, size_t n_bytes)
{
	uint64_t value = 0;

	if ((size_t)(input->end - input->at) < n_bytes) {
		input->at = input->end;
		return 0;
	}
	memcpy(&value, input->at, n_bytes);
	input->at += n_bytes;
	return value;
}

/* Mostly small, sometimes anything. */
static uint64_t take_number(struct input *input)
{
	uint64_t small = take(input, 1);

	return small == 0xff ? take(input, 8) : small;
}

enum { IDS = 16 };
static uint64_t ids[IDS];
static const char domains[2];

static void add_one_schema(struct input *input, unsigned slot)
{
	static const char *const names[] = {"NCCL communicator ID", "Bytes", "Root", "Rank",
		"No. of ranks", "Reduction operation", "Message size [bytes]", NULL};
	struct lw_nvtx_schema_entry entries[8];
	struct lw_nvtx_schema schema = {.fields = UINT64_MAX, .entries = entries};

	memset(entries, 0, sizeof(entries));
	schema.n_entries = take(input, 1) % 9;
	schema.type = take(input, 1) % 4 ? 1 : take_number(input);
	schema.n_bytes = take(input, 1) % 64;
	schema.pack_bytes = take(input, 1) % 4 ? 0 : take_number(input);
	schema.id = take(input, 1) % 2 ? (1 << 24) + slot : take_number(input);
	schema.fields = take(input, 1) % 8 ? UINT64_MAX : take_number(input);
	for (size_t i = 0; i < schema.n_entries && i < 8; i++)
		entries[i] = (struct lw_nvtx_schema_entry){
			.flags = take(input, 1) % 4 ? 0 : take_number(input),
			.type = take(input, 1) % 4 ? take(input, 1) : ids[take(input, 1) % IDS],
			.name = names[take(input, 1) % 8],
			.offset = take_number(input)};
	ids[slot] = lw_nvtx_schema_add(&domains[slot % 2], &schema);
}

static void read_one(struct input *input, unsigned slot)
{
	bool is_size_said = take(input, 1) % 4 != 0;
	/* who does not say it has room for every schema that there may be */
	size_t n_bytes = is_size_said ? take(input, 1) % 64 : 64;
	uint64_t schema = take(input, 1) % 8 ? ids[slot] : take_number(input);
	struct lw_nvtx_values values = {0};
	struct lw_nvtx_payload payload;
	uint8_t *blob = malloc(n_bytes ? n_bytes : 1);

	for (size_t i = 0; i < n_bytes; i++)
		blob[i] = (uint8_t)take(input, 1);
	payload = (struct lw_nvtx_payload){schema, is_size_said ? n_bytes : SIZE_MAX, blob};
	lw_nvtx_read(&domains[slot % 2], &payload, 1, &values);
	for (int field = 0; field < LW_NVTX_N_FIELDS; field++)
		if (!lw_nvtx_has(&values, (enum lw_nvtx_field)field) && values.at[field])
			abort();
	if (values.known && !n_bytes)
		abort();
	free(blob);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct input input = {data, data + n};

	memset(schemas, 0, sizeof(schemas));
	memset(ids, 0, sizeof(ids));
	while (input.at < input.end) {
		unsigned what = (unsigned)take(&input, 1), slot = (unsigned)take(&input, 1) % IDS;
		struct lw_nvtx_enum definition = {.fields = UINT64_MAX};

		switch (what % 4) {
		case 0:
			add_one_schema(&input, slot);
			break;
		case 1:
			definition.n_bytes = take_number(&input);
			definition.id = (1 << 24) + take(&input, 1) % 32;
			ids[slot] = lw_nvtx_enum_add(&domains[slot % 2], &definition);
			break;
		case 2:
			lw_nvtx_schema_alias(&domains[slot % 2], ids[slot], take_number(&input));
			break;
		case 3:
			read_one(&input, slot);
			break;
		}
	}
	return 0;
}
