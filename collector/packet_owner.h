/* SPDX-License-Identifier: Apache-2.0 */
/*
 * packet_owner.h - whose flows are: from the records of sockets and of RDMA queue pairs, as they come.
 *
 * A TCP connection has two flows, and so has a connected queue pair over RoCE, whose ends are GIDs.
 * Some seconds after a connection is closed, or its process ends, its flows are nobody's again.
 */
#ifndef LAPWING_COLLECTOR_PACKET_OWNER_H
#define LAPWING_COLLECTOR_PACKET_OWNER_H

#include <stdbool.h>
#include <stdint.h>

#include "collector/drain.h"
#include "packet/flow.h"

struct lw_packet_owners;

struct lw_packet_owner_calls {
	/* @process_id sends the flow of @key, or receives it. Return: LW_OK or an error, which ends all. */
	int (*begin)(void *user, const struct lw_flow_key *key, int64_t process_id, bool is_sent);
	void (*end)(void *user, const struct lw_flow_key *key);
};

/** lw_packet_owners_open() - Return: NULL = no memory. */
struct lw_packet_owners *lw_packet_owners_open(
	const struct lw_packet_owner_calls *calls, void *user);
void lw_packet_owners_close(struct lw_packet_owners *owners);

/** lw_packet_owners_take() - what @take says. Return: LW_OK, LW_ERR_NOMEM, or of a call. */
int lw_packet_owners_take(
	struct lw_packet_owners *owners, const struct lw_take *take, int64_t now_ns);

/** lw_packet_owners_process_ended() - all that @process_id had is closed. */
void lw_packet_owners_process_ended(
	struct lw_packet_owners *owners, int64_t process_id, int64_t now_ns);

#endif /* LAPWING_COLLECTOR_PACKET_OWNER_H */
