/* SPDX-License-Identifier: Apache-2.0 */
/* tcp_follow.c - what becomes of a reading of a connection: rows where something changed, and its last ones. */
#include "collector/tcp_follow.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"

/* ---- one reading ------------------------------------------------------------------------------------ */

static void add_row(struct lw_samplers *samplers, struct lw_tcp_followed *one, int64_t at_ns)
{
	const struct lw_tcp_row row = {one->row.id, at_ns, one->values};

	lw_readings_add_tcp(samplers->rows, &row);
	one->row_ns = at_ns;
}

void lw_tcp_store(struct lw_samplers *samplers, struct lw_tcp_followed *one)
{
	one->is_stored = true;
	one->row.id = lw_readings_next_connection(samplers->rows);
	one->row.device_id = lw_owner_device(samplers, &one->row);
	lw_readings_add_connection(samplers->rows, &one->row);
	add_row(samplers, one, one->seen_ns);
}

int64_t lw_tcp_moved_bytes(const struct lw_tcp_values *values)
{
	return (values->acked_bytes > 0 ? values->acked_bytes : 0) +
	       (values->received_bytes > 0 ? values->received_bytes : 0);
}

void lw_tcp_read(struct lw_samplers *samplers, struct lw_tcp_followed *one,
	const struct lw_tcp_values *values, int64_t at_ns)
{
	struct lw_tcp *tcp = samplers->tcp;

	one->row.last_ns = at_ns;
	one->n_missing = 0;
	if (!one->is_stored) {
		if (lw_tcp_moved_bytes(values) - lw_tcp_moved_bytes(&one->values) <
			LW_TCP_OTHERS_BYTES)
			return;
		if (tcp->n_others_stored >= LW_TCP_STORED_MAX) {
			tcp->n_over++;
			return;
		}
		tcp->n_others_stored++;
		lw_tcp_store(samplers, one);
	}
	if (!memcmp(&one->values, values, sizeof(*values))) {
		one->n_unchanged++;
		one->seen_ns = at_ns;
		return;
	}
	if (one->seen_ns > one->row_ns)
		add_row(samplers, one, one->seen_ns); /* unchanged until here */
	one->values = *values;
	one->seen_ns = at_ns;
	one->n_unchanged = 0;
	add_row(samplers, one, at_ns);
}

void lw_tcp_become_own(
	struct lw_samplers *samplers, struct lw_tcp_followed *one, int64_t process_id)
{
	one->is_own = true;
	one->row.process_id = process_id;
	if (one->is_stored && !one->row.device_id)
		one->row.device_id = lw_owner_device(samplers, &one->row);
	samplers->tcp->n_own++;
	samplers->tcp->n_others--;
	if (one->is_stored)
		lw_readings_add_connection(samplers->rows, &one->row);
	else
		lw_tcp_store(samplers, one);
}

struct lw_tcp_followed *lw_tcp_find(struct lw_tcp *tcp, uint64_t cookie)
{
	const struct lw_tcp_key key = {tcp->netns->key, cookie};
	struct lw_tcp_followed *one;

	HASH_FIND(hh, tcp->connections, &key, sizeof(key), one);
	return one;
}

struct lw_tcp_followed *lw_tcp_add(struct lw_samplers *samplers, const struct lw_tcp_seen *seen,
	uint64_t namespace_key, int64_t process_id, int64_t at_ns)
{
	struct lw_tcp *tcp = samplers->tcp;
	struct lw_tcp_followed *one = NULL;

	if (process_id ? tcp->n_own < LW_TCP_OWN_MAX : tcp->n_others < LW_TCP_OTHERS_MAX)
		one = calloc(1, sizeof(*one));
	if (!one) {
		tcp->n_over++;
		return NULL;
	}
	one->key = (struct lw_tcp_key){namespace_key, seen->cookie};
	one->id = seen->id;
	one->family = seen->family;
	one->values = seen->values;
	one->seen_ns = at_ns;
	one->is_own = process_id != 0;
	one->n_lists = tcp->n_lists;
	one->row = (struct lw_tcp_connection_row){.process_id = process_id,
		.inode = seen->inode,
		.namespace_key = namespace_key,
		.local_port = seen->local_port,
		.peer_port = seen->peer_port,
		.first_ns = at_ns,
		.last_ns = at_ns};
	memcpy(one->row.local, seen->local, sizeof(seen->local));
	memcpy(one->row.peer, seen->peer, sizeof(seen->peer));
	HASH_ADD(hh, tcp->connections, key, sizeof(one->key), one);
	*(one->is_own ? &tcp->n_own : &tcp->n_others) += 1;
	if (one->is_own)
		lw_tcp_store(samplers, one);
	return one;
}

void lw_tcp_drop(struct lw_samplers *samplers, struct lw_tcp_followed *one, bool has_ended)
{
	struct lw_tcp *tcp = samplers->tcp;

	if (one->is_stored) {
		if (one->seen_ns > one->row_ns)
			add_row(samplers, one, one->seen_ns);
		one->row.has_ended = has_ended;
		/* announced before the interfaces of its namespace were read */
		if (!one->row.device_id)
			one->row.device_id = lw_owner_device(samplers, &one->row);
		lw_readings_add_connection(samplers->rows, &one->row);
	}
	*(one->is_own ? &tcp->n_own : &tcp->n_others) -= 1;
	HASH_DEL(tcp->connections, one);
	free(one);
}

/* ---- life ---------------------------------------------------------------------------------------------------- */

int lw_tcp_open(struct lw_samplers *samplers)
{
	samplers->tcp = calloc(1, sizeof(*samplers->tcp));
	if (!samplers->tcp)
		return lw_fail(LW_ERR_NOMEM, "no memory");
	samplers->tcp->samplers = samplers;
	return LW_OK;
}

void lw_tcp_close(struct lw_samplers *samplers)
{
	struct lw_tcp *tcp = samplers->tcp;
	struct lw_tcp_followed *one, *next;

	if (!tcp)
		return;
	HASH_ITER(hh, tcp->connections, one, next)
	{
		HASH_DEL(tcp->connections, one);
		free(one);
	}
	lw_owner_forget(&tcp->owned);
	lw_vec_free(&tcp->pending);
	lw_vec_free(&tcp->briefs);
	free(tcp);
}

void lw_tcp_forget_namespace(struct lw_samplers *samplers, uint64_t namespace_key)
{
	struct lw_tcp *tcp = samplers->tcp;
	struct lw_tcp_followed *one, *next;
	size_t n_kept = 0;

	lw_tcp_settle(samplers, namespace_key, INT64_MAX);
	HASH_ITER(hh, tcp->connections, one, next)
	if (one->key.namespace_key == namespace_key)
		lw_tcp_drop(samplers, one, false);
	for (size_t i = 0; i < tcp->pending.n; i++)
		if (tcp->pending.at[i].namespace_key != namespace_key)
			tcp->pending.at[n_kept++] = tcp->pending.at[i];
	tcp->pending.n = n_kept;
}

void lw_tcp_finish(struct lw_samplers *samplers)
{
	struct lw_tcp_followed *one, *next;

	lw_tcp_settle(samplers, 0, INT64_MAX);
	HASH_ITER(hh, samplers->tcp->connections, one, next)
	lw_tcp_drop(samplers, one, false);
}
