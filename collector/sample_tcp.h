/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sample_tcp.h - the TCP connections of the job's namespaces and what becomes of them in the store.
 */
#ifndef LAPWING_COLLECTOR_SAMPLE_TCP_H
#define LAPWING_COLLECTOR_SAMPLE_TCP_H

#include "collector/sampler.h"
#include "collector/tcp_diag.h"

struct lw_tcp_row {
	int64_t connection_id, at_ns;
	struct lw_tcp_values values;
};

/* As table tcp_connection. */
struct lw_tcp_connection_row {
	int64_t id, process_id, device_id; /* 0 = not known */
	uint64_t inode, namespace_key;
	uint8_t local[16], peer[16];
	uint16_t local_port, peer_port;
	int64_t first_ns, last_ns;
	bool has_ended;
};

void lw_readings_add_tcp(struct lw_readings *rows, const struct lw_tcp_row *row);
void lw_readings_add_connection(struct lw_readings *rows, const struct lw_tcp_connection_row *row);

int lw_tcp_open(struct lw_samplers *samplers);
void lw_tcp_close(struct lw_samplers *samplers);

/** lw_tcp_announce() - the hook saw this connection of @process_id open. */
void lw_tcp_announce(struct lw_samplers *samplers, int64_t process_id, uint64_t namespace_key,
	const struct lw_ev_socket *socket);

/** lw_tcp_forget_namespace() - its connections are not looked at any more. */
void lw_tcp_forget_namespace(struct lw_samplers *samplers, uint64_t namespace_key);

/** lw_tcp_finish() - last rows of all connections. */
void lw_tcp_finish(struct lw_samplers *samplers);

/* Sockets of processes, by their inodes; NULL = none. */
struct lw_owned;

/**
 * lw_owner_scan() - add every socket that @pid has open to *@owned.
 * Return: sockets, -errno when its descriptors cannot be seen.
 */
int lw_owner_scan(int32_t pid, int64_t process_id, struct lw_owned **owned);

/** lw_owner_find() - Return: the process of @inode; 0 = not known. */
int64_t lw_owner_find(const struct lw_owned *owned, uint64_t inode);
void lw_owner_forget(struct lw_owned **owned);

/** lw_owner_device() - the interface that a connection uses, by its addresses. Return: its row; 0 = not known. */
int64_t lw_owner_device(struct lw_samplers *samplers, const struct lw_tcp_connection_row *row);

/** lw_owner_inode() - of a link "socket:[123]". Return: it, 0 = another thing. */
uint64_t lw_owner_inode(const char *link);

#endif /* LAPWING_COLLECTOR_SAMPLE_TCP_H */
