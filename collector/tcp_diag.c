/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/tcp_diag.h"

#include <arpa/inet.h>
#include <linux/sock_diag.h>
#include <linux/tcp.h>
#include <stddef.h>
#include <string.h>

#include "base/address.h"
#include "base/err.h"
#include "base/units.h"
#include "collector/netlink.h"

/* of the kernel's states, which no header for programs has */
enum { STATE_TIME_WAIT = 6, STATE_LISTEN = 10, STATE_NEW_SYN_RECV = 12 };

#define FAR_TOO_MUCH (UINT64_C(1) << 62)

struct info_field {
	size_t offset, n_bytes; /* in the kernel's struct tcp_info */
	size_t column;          /* offset in struct lw_tcp_values */
	int64_t scale;
};

#define FIELD(field, to, scale)                                                                    \
	{                                                                                          \
		offsetof(struct tcp_info, field), sizeof(((struct tcp_info *)0)->field),           \
			offsetof(struct lw_tcp_values, to), scale                                  \
	}

static const struct info_field fields[] = {
	FIELD(tcpi_rtt, rtt_ns, LW_NS_PER_US),
	FIELD(tcpi_min_rtt, min_rtt_ns, LW_NS_PER_US),
	FIELD(tcpi_bytes_sent, sent_bytes, 1),
	FIELD(tcpi_bytes_acked, acked_bytes, 1),
	FIELD(tcpi_bytes_received, received_bytes, 1),
	FIELD(tcpi_bytes_retrans, retransmitted_bytes, 1),
	FIELD(tcpi_total_retrans, n_retransmits, 1),
	FIELD(tcpi_segs_out, n_segments_out, 1),
	FIELD(tcpi_segs_in, n_segments_in, 1),
	FIELD(tcpi_delivery_rate, delivery_bytes_per_s, 1),
	FIELD(tcpi_busy_time, busy_ns, LW_NS_PER_US),
	FIELD(tcpi_rwnd_limited, rwnd_limited_ns, LW_NS_PER_US),
	FIELD(tcpi_sndbuf_limited, sndbuf_limited_ns, LW_NS_PER_US),
	FIELD(tcpi_snd_cwnd, congestion_window_segments, 1),
	FIELD(tcpi_notsent_bytes, unsent_bytes, 1),
};

/* The kernel's struct grows with its version: what is not there stays unknown. */
static void take_info(const char *info, size_t info_bytes, struct lw_tcp_values *values)
{
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		const struct info_field *field = &fields[i];
		uint64_t amount = 0;
		int64_t value = -1;

		if (field->offset + field->n_bytes <= info_bytes) {
			if (field->n_bytes == sizeof(uint32_t)) {
				uint32_t small;

				memcpy(&small, info + field->offset, sizeof(small));
				amount = small;
			} else {
				memcpy(&amount, info + field->offset, sizeof(amount));
			}
			/* "none yet" of min_rtt and "no rate" are all ones */
			if (amount < FAR_TOO_MUCH / (uint64_t)field->scale &&
				!(field->n_bytes == sizeof(uint32_t) && amount == UINT32_MAX))
				value = (int64_t)amount * field->scale;
		}
		memcpy((char *)values + field->column, &value, sizeof(value));
	}
}

static void take_address(uint8_t family, const __be32 *from, uint8_t to[16])
{
	if (family == AF_INET6)
		memcpy(to, from, 16);
	else
		lw_address_map(from, to);
}

int lw_tcp_parse(struct nlmsghdr *message, struct lw_tcp_seen *ret_seen)
{
	struct inet_diag_msg *body = NLMSG_DATA(message);
	const size_t head_bytes = NLMSG_LENGTH(sizeof(*body));
	const uint8_t *protocol;
	const char *info;
	size_t n, left;

	if (message->nlmsg_type != SOCK_DIAG_BY_FAMILY && message->nlmsg_type != TCPDIAG_GETSOCK)
		return LW_ERR_FORMAT;
	if (message->nlmsg_len < head_bytes ||
		(body->idiag_family != AF_INET && body->idiag_family != AF_INET6))
		return LW_ERR_FORMAT;
	left = message->nlmsg_len - head_bytes;
	protocol = lw_netlink_attribute(body + 1, left, INET_DIAG_PROTOCOL, 1, NULL);
	if (protocol && *protocol != IPPROTO_TCP)
		return LW_ERR_FORMAT;
	memset(ret_seen, 0, sizeof(*ret_seen));
	ret_seen->id = body->id;
	ret_seen->cookie = (uint64_t)body->id.idiag_cookie[1] << 32 | body->id.idiag_cookie[0];
	ret_seen->inode = body->idiag_inode;
	ret_seen->family = body->idiag_family;
	ret_seen->state = body->idiag_state;
	take_address(body->idiag_family, body->id.idiag_src, ret_seen->local);
	take_address(body->idiag_family, body->id.idiag_dst, ret_seen->peer);
	ret_seen->local_port = ntohs(body->id.idiag_sport);
	ret_seen->peer_port = ntohs(body->id.idiag_dport);
	info = lw_netlink_attribute(body + 1, left, INET_DIAG_INFO, 1, &n);
	ret_seen->has_values = info != NULL;
	take_info(info, info ? n : 0, &ret_seen->values);
	return LW_OK;
}

void lw_tcp_request_one(struct lw_tcp_request *request, uint8_t family,
	const struct inet_diag_sockid *id, uint32_t sequence)
{
	*request = (struct lw_tcp_request){
		.head = {.nlmsg_len = sizeof(*request),
			.nlmsg_type = SOCK_DIAG_BY_FAMILY,
			.nlmsg_flags = NLM_F_REQUEST,
			.nlmsg_seq = sequence},
		.body = {.sdiag_family = family,
			.sdiag_protocol = IPPROTO_TCP,
			.idiag_ext = 1 << (INET_DIAG_INFO - 1),
			.idiag_states = UINT32_MAX,
			.id = *id},
	};
}

void lw_tcp_request_list(struct lw_tcp_list_request *request)
{
	*request = (struct lw_tcp_list_request){
		.head = {.nlmsg_len = sizeof(*request), .nlmsg_type = TCPDIAG_GETSOCK},
		.body = {.idiag_ext = 1 << (INET_DIAG_INFO - 1),
			.idiag_states = ~(1u << STATE_TIME_WAIT | 1u << STATE_LISTEN |
					  1u << STATE_NEW_SYN_RECV)},
	};
}
