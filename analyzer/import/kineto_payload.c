/* SPDX-License-Identifier: Apache-2.0 */
/* kineto_payload.c - which operation of NCCL on how many bytes: by a kernel's arguments, or by an annotation. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "analyzer/import/kineto_event.h"
#include "schema/event.h"

/* Names of collectives without '_' and ':', lower case; the first that fits the beginning. */
static const struct {
	const char *name;
	int op;            /* enum lw_nccl_op */
	bool is_of_output; /* its count is what a rank receives */
} collectives[] = {
	{"allreduce", LW_NCCL_ALLREDUCE, false},
	{"allgather", LW_NCCL_ALLGATHER, false},
	{"reducescatter", LW_NCCL_REDUCESCATTER, true},
	{"alltoall", LW_NCCL_ALLTOALL, false},
	{"broadcast", LW_NCCL_BROADCAST, false},
	{"reduce", LW_NCCL_REDUCE, false},
	{"gather", LW_NCCL_GATHER, false},
	{"scatter", LW_NCCL_SCATTER, true},
	{"send", LW_NCCL_SEND, false},
	{"recv", LW_NCCL_RECV, true},
	{"barrier", LW_NCCL_BARRIER, false},
	{"coalesced", LW_NCCL_OTHER, false},
};

/* As c10 spells types in arguments of kernels, and in those of annotations. */
static const struct {
	const char *name;
	int dtype;
	uint8_t bytes;
} types[] = {
	{"float", LW_DTYPE_FLOAT32, 4},
	{"double", LW_DTYPE_FLOAT64, 8},
	{"half", LW_DTYPE_FLOAT16, 2},
	{"c10::half", LW_DTYPE_FLOAT16, 2},
	{"bfloat16", LW_DTYPE_BFLOAT16, 2},
	{"c10::bfloat16", LW_DTYPE_BFLOAT16, 2},
	{"long", LW_DTYPE_INT64, 8},
	{"long int", LW_DTYPE_INT64, 8},
	{"int", LW_DTYPE_INT32, 4},
	{"short", LW_DTYPE_INT16, 2},
	{"short int", LW_DTYPE_INT16, 2},
	{"char", LW_DTYPE_INT8, 1},
	{"signed char", LW_DTYPE_INT8, 1},
	{"byte", LW_DTYPE_UINT8, 1},
	{"unsigned char", LW_DTYPE_UINT8, 1},
	{"bool", LW_DTYPE_BOOL, 1},
};

/* One byte an element, whatever the rest of the name says. */
static const char float8[] = "float8";

static int find_collective(const char *name, bool *ret_is_of_output)
{
	char plain[32];
	size_t n = 0;

	for (; *name && n + 1 < sizeof(plain); name++)
		if (isalnum((unsigned char)*name))
			plain[n++] = (char)tolower((unsigned char)*name);
	plain[n] = '\0';
	for (size_t i = 0; i < sizeof(collectives) / sizeof(collectives[0]); i++)
		if (!strncmp(plain, collectives[i].name, strlen(collectives[i].name))) {
			*ret_is_of_output = collectives[i].is_of_output;
			return collectives[i].op;
		}
	return LW_NCCL_OTHER;
}

/* Bytes of an element; 0 = not known. */
static uint64_t find_type(const char *name, int *ret_dtype)
{
	*ret_dtype = LW_DTYPE_UNKNOWN;
	for (size_t i = 0; name && i < sizeof(types) / sizeof(types[0]); i++)
		if (!strcasecmp(name, types[i].name)) {
			*ret_dtype = types[i].dtype;
			return types[i].bytes;
		}
	return name && strcasestr(name, float8) ? 1 : 0;
}

static void set_bytes(struct lw_kineto_payload *payload, uint64_t n, uint64_t type_bytes)
{
	payload->has_bytes = type_bytes &&
			     !__builtin_mul_overflow(n, type_bytes, &payload->bytes) &&
			     payload->bytes <= INT64_MAX;
	if (!payload->has_bytes)
		payload->bytes = 0;
}

/* An allreduce of one number, which nobody wants: no payload. */
static bool set_barrier(struct lw_kineto_payload *payload)
{
	payload->has_bytes |= payload->op == LW_NCCL_BARRIER;
	return payload->op == LW_NCCL_BARRIER;
}

void lw_kineto_payload(const struct lw_json_record *record, struct lw_kineto_payload *ret_payload)
{
	const char *name = lw_json_text(record, "args.Collective name");
	const struct lw_json_field *field;
	uint64_t type_bytes;
	bool is_of_output = false;

	*ret_payload = (struct lw_kineto_payload){0};
	if (!name)
		return;
	ret_payload->op = find_collective(name, &is_of_output);
	type_bytes = find_type(lw_json_text(record, "args.dtype"), &ret_payload->dtype);
	field = lw_json_field(record, is_of_output ? "args.Out msg nelems" : "args.In msg nelems");
	if (!set_barrier(ret_payload) && field && field->type == LW_JSON_INT && field->integer >= 0)
		set_bytes(ret_payload, (uint64_t)field->integer, type_bytes);
	ret_payload->group = lw_json_text(record, "args.Process Group Name");
	ret_payload->ranks = lw_json_text(record, "args.Process Group Ranks");
	field = lw_json_field(record, "args.Group size");
	if (field && field->type == LW_JSON_INT && field->integer > 0)
		ret_payload->group_size = field->integer;
}

/* Elements of all tensors: numbers that share the path but its last part are the dimensions of one. */
static uint64_t count_elements(const struct lw_json_record *record, const char *prefix)
{
	const char *tensor = "";
	size_t n_tensor = 0;
	uint64_t n = 0, product = 0;

	for (size_t i = 0; i < record->n; i++) {
		const struct lw_json_field *field = &record->field[i];
		const char *dot = strrchr(field->key, '.');

		if (strncmp(field->key, prefix, strlen(prefix)) != 0 ||
			field->type != LW_JSON_INT || field->integer < 0)
			continue;
		if (strstr(field->key + strlen(prefix) - 1, LW_KINETO_LAST_ELEMENT))
			return 0; /* of a longer list the rest is not in the record */
		if ((size_t)(dot - field->key) != n_tensor ||
			strncmp(field->key, tensor, n_tensor) != 0) {
			n += product;
			product = 1;
			tensor = field->key;
			n_tensor = (size_t)(dot - field->key);
		}
		if (__builtin_mul_overflow(product, (uint64_t)field->integer, &product) ||
			product > INT64_MAX / 64)
			return 0;
	}
	return n + product;
}

bool lw_kineto_annotation(
	const struct lw_json_record *record, struct lw_kineto_payload *ret_payload)
{
	static const char prefix[] = "nccl:";
	const char *name = lw_json_text(record, "name");
	uint64_t n;
	bool is_of_output = false;

	*ret_payload = (struct lw_kineto_payload){0};
	if (!name || strncmp(name, prefix, sizeof(prefix) - 1) != 0)
		return false;
	ret_payload->op = find_collective(name + sizeof(prefix) - 1, &is_of_output);
	n = set_barrier(ret_payload) ? 0 : count_elements(record, "args.Input Dims.");
	/* with all fields in use dimensions may be missing */
	if (n && !is_of_output && record->n < LW_JSON_MAX_FIELDS)
		set_bytes(ret_payload, n,
			find_type(lw_json_text(record, "args.Input type.0"), &ret_payload->dtype));
	return true;
}
