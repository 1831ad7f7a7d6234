/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/import/timeline_name.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "schema/event.h"
#include "schema/store.h"

/* Response types, and what follows the transport's name in an activity. */
static const struct {
	const char *name;
	int op; /* enum lw_coll */
	bool is_response;
} ops[] = {
	{"ALLREDUCE", LW_COLL_ALLREDUCE, true},
	{"ALLGATHER", LW_COLL_ALLGATHER, true},
	{"BROADCAST", LW_COLL_BROADCAST, true},
	{"JOIN", LW_COLL_JOIN, true},
	{"ADASUM", LW_COLL_ADASUM, true},
	{"ALLTOALL", LW_COLL_ALLTOALL, true},
	{"BARRIER", LW_COLL_BARRIER, true},
	{"REDUCESCATTER", LW_COLL_REDUCESCATTER, true},
	{"ERROR", LW_COLL_ERROR, true},
	{"BCAST", LW_COLL_BROADCAST, false},
	{"REDUCE", LW_COLL_REDUCE, false},
	{"ADASUM_ALLREDUCE", LW_COLL_ADASUM, false},
	{"CROSS_ALLGATHER", LW_COLL_ALLGATHER, false},
};

static const struct {
	const char *prefix;
	enum lw_activity_kind kind;
	int transport; /* enum lw_transport */
} prefixes[] = {
	{"NEGOTIATE_", LW_ACTIVITY_NEGOTIATE, LW_TRANSPORT_NONE},
	{"MPI_", LW_ACTIVITY_WIRE, LW_TRANSPORT_MPI},
	{"GLOO_", LW_ACTIVITY_WIRE, LW_TRANSPORT_GLOO},
	{"NCCL_", LW_ACTIVITY_WIRE, LW_TRANSPORT_NCCL},
	{"CCL_", LW_ACTIVITY_WIRE, LW_TRANSPORT_NONE}, /* oneCCL */
	{"DDL_", LW_ACTIVITY_WIRE, LW_TRANSPORT_NONE}, /* PowerAI, old */
	{"INIT_", LW_ACTIVITY_SETUP, LW_TRANSPORT_NONE},
};

static int find_op(const char *name, bool responses_only)
{
	for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
		if ((ops[i].is_response || !responses_only) && !strcmp(name, ops[i].name))
			return ops[i].op;
	return 0;
}

void lw_timeline_classify(
	const char *name, enum lw_activity_kind *ret_kind, int *ret_op, int *ret_transport)
{
	*ret_transport = LW_TRANSPORT_NONE;
	*ret_op = find_op(name, true);
	*ret_kind = *ret_op ? LW_ACTIVITY_OPERATION : LW_ACTIVITY_OTHER;
	for (size_t i = 0; !*ret_op && i < sizeof(prefixes) / sizeof(prefixes[0]); i++) {
		size_t n_bytes = strlen(prefixes[i].prefix);

		if (strncmp(name, prefixes[i].prefix, n_bytes))
			continue;
		*ret_op = find_op(name + n_bytes, false);
		/* a transport's step that is no collective we know stays an activity like others */
		if (prefixes[i].kind == LW_ACTIVITY_WIRE && !*ret_op)
			return;
		*ret_kind = prefixes[i].kind;
		*ret_transport = prefixes[i].transport;
		return;
	}
}

bool lw_timeline_size(const char *dtype, const char *shape, uint64_t *ret_bytes, int *ret_dtype)
{
	uint64_t bytes = 0;
	const char *name;

	for (int i = LW_DTYPE_UNKNOWN + 1; (name = lw_dtype_name(i)); i++)
		if (!strcmp(dtype, name)) {
			bytes = (uint64_t)lw_dtype_bytes(i);
			*ret_dtype = i;
		}
	if (!bytes || *shape++ != '[')
		return false;
	while (*shape != ']') {
		char *end;
		uint64_t extent = strtoull(shape, &end, 10);

		if (!isdigit((unsigned char)*shape) ||
			__builtin_mul_overflow(bytes, extent, &bytes))
			return false;
		shape = end + strspn(end, ", ");
	}
	*ret_bytes = bytes;
	return bytes <= INT64_MAX;
}
