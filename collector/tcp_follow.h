/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tcp_follow.h - the TCP connections that are followed, for the files that ask the kernel about them: a question is
 * sample_tcp.c's, what an answer becomes is tcp_follow.c's, and ends and announcements are tcp_end.c's.
 */
#ifndef LAPWING_COLLECTOR_TCP_FOLLOW_H
#define LAPWING_COLLECTOR_TCP_FOLLOW_H

#include <uthash.h>

#include "collector/sample_tcp.h"

enum {
	LW_TCP_OWN_MAX = 10000,        /* connections of the job that are followed at once */
	LW_TCP_OTHERS_MAX = 4096,      /* and of other processes */
	LW_TCP_STORED_MAX = 100000,    /* of others, in a run */
	LW_TCP_OTHERS_BYTES = 1 << 16, /* what another process's must move to be stored */
};

struct lw_tcp_key {
	uint64_t namespace_key, cookie;
};

struct lw_tcp_followed {
	struct lw_tcp_key key;
	struct lw_tcp_connection_row row;
	struct inet_diag_sockid id;
	struct lw_tcp_values values; /* last, or the first while it is not stored */
	int64_t row_ns, seen_ns;
	uint32_t n_unchanged, n_missing;
	unsigned n_lists; /* by the last that had it */
	uint8_t family;
	bool is_own, is_stored;
	UT_hash_handle hh;
};

struct lw_tcp_pending {
	int64_t process_id;
	uint64_t namespace_key;
	uint8_t local[16], peer[16];
	uint16_t local_port, peer_port;
	uint32_t n_asked;
	bool is_found;
};

/* One that came and went between two looks: its whole life is in this one account. */
struct lw_tcp_brief {
	struct lw_tcp_seen seen;
	uint64_t namespace_key;
	int64_t at_ns;
};

struct lw_tcp {
	struct lw_tcp_followed *connections;
	size_t n_own, n_others, n_others_stored;
	unsigned n_looks, n_lists;
	uint32_t sequence;
	lw_vec(struct lw_tcp_pending) pending;
	lw_vec(struct lw_tcp_brief) briefs;
	struct lw_owned *owned; /* sockets of the job's processes, by the last look */
	/* of the question that is asked just now */
	struct lw_samplers *samplers;
	struct lw_netns *netns;
	uint64_t n_over;
};

/** lw_tcp_find() - the connection with @cookie in the namespace that is asked just now, or NULL. */
struct lw_tcp_followed *lw_tcp_find(struct lw_tcp *tcp, uint64_t cookie);

/** lw_tcp_add() - follow one, which was @seen at @at_ns. @process_id: 0 = of another process. Return: NULL: there are too many (counted). */
struct lw_tcp_followed *lw_tcp_add(struct lw_samplers *samplers, const struct lw_tcp_seen *seen,
	uint64_t namespace_key, int64_t process_id, int64_t at_ns);

/** lw_tcp_read() - @values at @at_ns: rows where they changed. */
void lw_tcp_read(struct lw_samplers *samplers, struct lw_tcp_followed *one,
	const struct lw_tcp_values *values, int64_t at_ns);

/** lw_tcp_become_own() - another process's turns out to be the job's. */
void lw_tcp_become_own(
	struct lw_samplers *samplers, struct lw_tcp_followed *one, int64_t process_id);

/** lw_tcp_store() - it has rows from now on. */
void lw_tcp_store(struct lw_samplers *samplers, struct lw_tcp_followed *one);

/** lw_tcp_drop() - its last rows; it is not followed any more. */
void lw_tcp_drop(struct lw_samplers *samplers, struct lw_tcp_followed *one, bool has_ended);

/** lw_tcp_moved_bytes() - both ways. */
int64_t lw_tcp_moved_bytes(const struct lw_tcp_values *values);

/** lw_tcp_take_ended() - the kernel's last accounts of those in @netns that ended since the last call. */
void lw_tcp_take_ended(struct lw_samplers *samplers, struct lw_netns *netns);

/** lw_tcp_settle() - short ones of @namespace_key (0: of all) that the hook has not claimed by @before_ns are others'. */
void lw_tcp_settle(struct lw_samplers *samplers, uint64_t namespace_key, int64_t before_ns);

#endif /* LAPWING_COLLECTOR_TCP_FOLLOW_H */
