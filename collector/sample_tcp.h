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

/**
 * lw_owner_scan() - call @each with the inode of every socket that @pid has open.
 * Return: sockets, -errno when its descriptors cannot be seen.
 */
int lw_owner_scan(int32_t pid, void (*each)(void *user, uint64_t inode), void *user);

/** lw_owner_inode() - of a link "socket:[123]". Return: it, 0 = another thing. */
uint64_t lw_owner_inode(const char *link);

#endif /* LAPWING_COLLECTOR_SAMPLE_TCP_H */
