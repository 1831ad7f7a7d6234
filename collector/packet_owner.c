/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/packet_owner.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/units.h"
#include "base/vec.h"

#define HASH_NONFATAL_OOM          1
#define uthash_nonfatal_oom(entry) ((entry)->id.kind = NO_KIND)
#include <uthash.h>

/* So long a closed connection still sends what was in its buffers, and its packets come to be stored. */
#define LINGER_NS (10 * LW_NS_PER_S)

enum kind { NO_KIND, SOCKET, QP, PORT };

/* Something of a process, by the number that its records have. */
struct owner {
	struct id {
		int64_t process_id;
		uint32_t number;
		uint32_t kind;
	} id;
	bool has_flows;
	struct lw_flow_key sent, received;
	uint32_t port;   /* of a queue pair */
	uint8_t gid[16]; /* of a port */
	int64_t ended_ns;
	UT_hash_handle hh;
};

struct lw_packet_owners {
	struct owner *all;
	lw_vec(struct owner *) ended; /* in the order in which they did; in `all` no more */
	const struct lw_packet_owner_calls *calls;
	void *user;
};

struct lw_packet_owners *lw_packet_owners_open(
	const struct lw_packet_owner_calls *calls, void *user)
{
	struct lw_packet_owners *owners = calloc(1, sizeof(*owners));

	if (!owners)
		return NULL;
	owners->calls = calls;
	owners->user = user;
	return owners;
}

void lw_packet_owners_close(struct lw_packet_owners *owners)
{
	struct owner *one, *next;

	if (!owners)
		return;
	HASH_ITER(hh, owners->all, one, next)
	{
		HASH_DEL(owners->all, one);
		free(one);
	}
	for (size_t i = 0; i < owners->ended.n; i++)
		free(owners->ended.at[i]);
	lw_vec_free(&owners->ended);
	free(owners);
}

static struct owner *find(
	struct lw_packet_owners *owners, int64_t process_id, enum kind kind, uint32_t number)
{
	const struct id id = {process_id, number, kind};
	struct owner *one;

	HASH_FIND(hh, owners->all, &id, sizeof(id), one);
	return one;
}

/* Its flows are its own for some seconds more. Without memory for that they are no longer. */
static void end(struct lw_packet_owners *owners, struct owner *one, int64_t now_ns)
{
	HASH_DEL(owners->all, one);
	one->ended_ns = now_ns;
	if (one->has_flows && lw_vec_push(&owners->ended, one) == LW_OK)
		return;
	if (one->has_flows) {
		owners->calls->end(owners->user, &one->sent);
		owners->calls->end(owners->user, &one->received);
	}
	free(one);
}

/* Return: a new one in the place of one with the same number; NULL = no memory. */
static struct owner *add(struct lw_packet_owners *owners, const struct lw_record *record,
	enum kind kind, uint32_t number, int64_t now_ns)
{
	int64_t process_id = record->ring->process->process_id;
	struct owner *one = find(owners, process_id, kind, number);

	if (one)
		end(owners, one, now_ns);
	one = calloc(1, sizeof(*one));
	if (!one) {
		lw_fail(LW_ERR_NOMEM, "no memory");
		return NULL;
	}
	one->id = (struct id){process_id, number, kind};
	HASH_ADD(hh, owners->all, id, sizeof(one->id), one);
	if (one->id.kind == NO_KIND) { /* uthash had no memory for its buckets */
		free(one);
		lw_fail(LW_ERR_NOMEM, "no memory");
		return NULL;
	}
	return one;
}

static int begin(struct lw_packet_owners *owners, struct owner *one)
{
	const struct lw_packet_owner_calls *calls = owners->calls;
	int status = calls->begin(owners->user, &one->sent, one->id.process_id, true);

	if (status == LW_OK)
		status = calls->begin(owners->user, &one->received, one->id.process_id, false);
	one->has_flows = status == LW_OK;
	return status;
}

static int take_socket(
	struct lw_packet_owners *owners, const struct lw_record *record, int64_t now_ns)
{
	const struct lw_ev_socket *socket = &record->event->socket;
	struct owner *one = add(owners, record, SOCKET, socket->socket, now_ns);

	if (!one)
		return LW_ERR_NOMEM;
	one->sent = (struct lw_flow_key){.protocol = IPPROTO_TCP,
		.source_port = socket->local_port,
		.destination_port = socket->peer_port};
	memcpy(one->sent.source, socket->local, 16);
	memcpy(one->sent.destination, socket->peer, 16);
	one->received = lw_flow_reverse(&one->sent);
	return begin(owners, one);
}

static int take_socket_bytes(
	struct lw_packet_owners *owners, const struct lw_record *record, int64_t now_ns)
{
	struct owner *one = find(owners, record->ring->process->process_id, SOCKET,
		record->event->socket_bytes.socket);

	if (one && record->event->op == LW_SAMPLE_CLOSE)
		end(owners, one, now_ns);
	return LW_OK;
}

static bool is_zero(const uint8_t gid[16])
{
	static const uint8_t zeros[16];

	return !memcmp(gid, zeros, 16);
}

/* The address of its port may come after it, from another thread's ring. */
static int place_qp(struct lw_packet_owners *owners, struct owner *qp)
{
	const struct owner *port = find(owners, qp->id.process_id, PORT, qp->port);

	if (qp->has_flows || !port || is_zero(port->gid))
		return LW_OK;
	memcpy(qp->sent.source, port->gid, 16);
	memcpy(qp->received.destination, port->gid, 16);
	return begin(owners, qp);
}

static int take_port(
	struct lw_packet_owners *owners, const struct lw_record *record, int64_t now_ns)
{
	const struct lw_ev_rdma_port *port = &record->event->rdma_port;
	struct owner *one = add(owners, record, PORT, port->port, now_ns), *qp, *next;
	int status = LW_OK;

	if (!one)
		return LW_ERR_NOMEM;
	memcpy(one->gid, port->gid, 16);
	HASH_ITER(hh, owners->all, qp, next)
	if (status == LW_OK && qp->id.kind == QP && qp->id.process_id == one->id.process_id &&
		qp->port == port->port)
		status = place_qp(owners, qp);
	return status;
}

/* InfiniBand (with LIDs) and queue pairs whose requests have a peer each are no flows of two ends. */
static int take_qp(struct lw_packet_owners *owners, const struct lw_record *record, int64_t now_ns)
{
	const struct lw_ev_rdma_qp *qp = &record->event->rdma_qp;
	struct owner *one;

	if (record->event->op == LW_RDMA_QP_ENDED) {
		one = find(owners, record->ring->process->process_id, QP, qp->qp);
		if (one)
			end(owners, one, now_ns);
		return LW_OK;
	}
	if (record->event->op != LW_RDMA_QP_CONNECTED || !qp->peer_number || qp->peer_lid ||
		is_zero(qp->peer_gid))
		return LW_OK;
	one = add(owners, record, QP, qp->qp, now_ns);
	if (!one)
		return LW_ERR_NOMEM;
	one->port = qp->port;
	one->sent = (struct lw_flow_key){.protocol = IPPROTO_UDP,
		.is_roce = 1,
		.destination_port = LW_PORT_ROCE,
		.destination_qp = qp->peer_number};
	one->received = one->sent;
	one->received.destination_qp = qp->number;
	memcpy(one->sent.destination, qp->peer_gid, 16);
	memcpy(one->received.source, qp->peer_gid, 16);
	return place_qp(owners, one);
}

static void forget_old(struct lw_packet_owners *owners, int64_t now_ns)
{
	size_t n = 0;

	while (n < owners->ended.n && now_ns - owners->ended.at[n]->ended_ns >= LINGER_NS) {
		struct owner *one = owners->ended.at[n++];

		owners->calls->end(owners->user, &one->sent);
		owners->calls->end(owners->user, &one->received);
		free(one);
	}
	if (!n)
		return;
	owners->ended.n -= n;
	memmove(owners->ended.at, owners->ended.at + n,
		owners->ended.n * sizeof(owners->ended.at[0]));
}

int lw_packet_owners_take(
	struct lw_packet_owners *owners, const struct lw_take *take, int64_t now_ns)
{
	/* what begins before what ends: a connection may do both in one take */
	static const struct {
		enum lw_event_kind kind;
		int (*take)(struct lw_packet_owners *owners, const struct lw_record *record,
			int64_t now_ns);
	} kinds[] = {{LW_EV_SOCKET, take_socket}, {LW_EV_SOCKET_BYTES, take_socket_bytes},
		{LW_EV_RDMA_PORT, take_port}, {LW_EV_RDMA_QP, take_qp}};
	int status = LW_OK;

	forget_old(owners, now_ns);
	for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
		const struct lw_record_list *list = &take->of_kind[kinds[k].kind];

		for (size_t i = 0; i < list->n && status == LW_OK; i++)
			status = kinds[k].take(owners, &list->at[i], now_ns);
	}
	return status;
}

void lw_packet_owners_process_ended(
	struct lw_packet_owners *owners, int64_t process_id, int64_t now_ns)
{
	struct owner *one, *next;

	HASH_ITER(hh, owners->all, one, next)
	if (one->id.process_id == process_id)
		end(owners, one, now_ns);
}
