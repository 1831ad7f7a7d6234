/* SPDX-License-Identifier: Apache-2.0 */
/*
 * port.c - what an RDMA port moved against what the job asked libibverbs for. What is beyond was posted past it, or by
 * others.
 *
 * A port counts packets, and mostly bytes with all headers, which are of its kind of network: RoCE over IPv4 or IPv6, or
 * InfiniBand. Of a request the packets are known by the MTU of its
 * path; acknowledgements are at most one for each message and each ACK_EVERY packets. What the peer writes and reads is
 * known where the peer was recorded.
 */
#include <math.h>
#include <string.h>

#include "analyzer/network/network.h"

enum {
	ROCE_BYTES = 58, /* Ethernet, IPv4, UDP, the transport's header and checksum */
	ROCE_V6_BYTES = 78,
	INFINIBAND_BYTES = 26, /* local route, transport, both checksums */
	ACK_BYTES = 4,         /* more in an acknowledgement */
	ACK_EVERY = 32,
	LEAST_BYTES = 65536,
	LEAST_PACKETS = 64
};
#define LEAST_OTHER_FRAC 0.01 /* of the port: who it may be is worth a word */

struct moved { /* by a port, one way */
	double bytes, data_packets, ack_packets, header_bytes;
	double resent_packets, resent_bytes; /* of these as captured */
};

static double acks(const struct lw_tcp_end *sender)
{
	return (double)(sender->rdma.n_messages + sender->rdma.n_packets / ACK_EVERY);
}

/* Of each packet of @end. */
static double packet_header_bytes(const struct lw_tcp_end *end)
{
	if (end->rdma.is_infiniband)
		return INFINIBAND_BYTES;
	return strchr(end->local, ':') || strchr(end->peer, ':') ? ROCE_V6_BYTES : ROCE_BYTES;
}

static double packets(const struct moved *moved)
{
	return moved->data_packets + moved->ack_packets + moved->resent_packets;
}

static const struct lw_tcp_end *peer_of(const struct lw_run *run, const struct lw_tcp_end *end)
{
	return end->peer_end == LW_NONE ? NULL : &run->ends.at[end->peer_end];
}

static void add_end(
	const struct lw_run *run, const struct lw_tcp_end *end, struct moved *tx, struct moved *rx)
{
	const struct lw_tcp_end *peer = peer_of(run, end);
	double received_bytes = lw_end_received_bytes(end);

	tx->bytes += lw_end_sent_bytes(end);
	tx->data_packets += (double)end->rdma.n_packets;
	rx->ack_packets += acks(end);
	rx->data_packets += (double)end->rdma.n_read_packets;
	if (!peer) {
		rx->bytes += received_bytes;
		rx->data_packets += (double)end->rdma.n_received_packets;
		tx->ack_packets +=
			(double)(end->rdma.n_received + end->rdma.n_received_packets / ACK_EVERY);
		return;
	}
	rx->bytes += fmax(
		received_bytes, lw_end_sent_bytes(peer) + lw_end_total_bytes(end, LW_END_READ));
	rx->data_packets += (double)peer->rdma.n_packets;
	tx->ack_packets += acks(peer);
	tx->bytes += lw_end_total_bytes(peer, LW_END_READ);
	tx->data_packets += (double)peer->rdma.n_read_packets;
}

/* Each packet that comes again may be acknowledged again. */
static void add_resent(const struct lw_packet_flow *flow, struct moved *there, struct moved *back)
{
	there->resent_packets += (double)flow->n_retransmitted;
	there->resent_bytes += (double)flow->repeated_bytes;
	back->ack_packets += (double)flow->n_retransmitted;
}

static bool is_of(const struct lw_tcp_end *end, const char *local, const char *peer)
{
	return !strcmp(end->local, local) && !strcmp(end->peer, peer);
}

static void add_flows(
	const struct lw_run *run, const struct lw_tcp_end *end, struct moved *tx, struct moved *rx)
{
	const struct lw_packet_flow *flow;

	lw_vec_foreach (flow, &run->flows) {
		if (!flow->is_roce || flow->is_repeat || !flow->n_retransmitted)
			continue;
		if (flow->from_rank == end->rank && flow->destination_qp == end->peer_port &&
			is_of(end, flow->source, flow->destination))
			add_resent(flow, tx, rx);
		else if (flow->to_rank == end->rank && flow->destination_qp == end->local_port &&
			 is_of(end, flow->destination, flow->source))
			add_resent(flow, rx, tx);
	}
}

static void add(struct moved *sum, const struct moved *one)
{
	sum->bytes += one->bytes;
	sum->data_packets += one->data_packets;
	sum->ack_packets += one->ack_packets;
	sum->resent_packets += one->resent_packets;
	sum->resent_bytes += one->resent_bytes;
	sum->header_bytes += one->header_bytes;
}

/* Queue pairs of the job that use port @port. @is_wire_only: without those whose peer is on it too. */
static void add_port(const struct lw_run *run, const struct lw_net_on_nics *on, int32_t port,
	bool is_wire_only, struct moved *tx, struct moved *rx)
{
	for (size_t i = on->first[port]; i < on->first[port + 1]; i++) {
		const struct lw_tcp_end *end = &run->ends.at[on->ends[i]];
		const struct lw_tcp_end *peer = peer_of(run, end);
		struct moved out = {0}, in = {0};

		if (!end->is_rdma || !end->process_id ||
			(is_wire_only && peer && peer->nic == port))
			continue;
		add_end(run, end, &out, &in);
		if (end->rank != LW_NONE)
			add_flows(run, end, &out, &in);
		out.header_bytes = packet_header_bytes(end) * packets(&out) +
				   ACK_BYTES * out.ack_packets +
				   (double)end->rdma.more_header_bytes;
		in.header_bytes = packet_header_bytes(end) * packets(&in) +
				  ACK_BYTES * in.ack_packets +
				  (peer ? (double)peer->rdma.more_header_bytes : 0);
		add(tx, &out);
		add(rx, &in);
	}
}

/* Of fewer packets, if fewer were counted (acknowledgements are the most that there may be). */
static double header_bytes(const struct moved *moved, double n_counted)
{
	double n = packets(moved);

	return n > n_counted ? moved->header_bytes * n_counted / n : moved->header_bytes;
}

/* rxe sends by its interface, whose counters have its packets; adapters pass theirs by. */
static bool is_soft(const struct lw_nic *port)
{
	return lw_net_series(port, "completer_retry_err") != NULL;
}

static bool lies_on(const struct lw_nic *port, const struct lw_nic *nic)
{
	return port->clock == nic->clock && !strcmp(nic->kind, "nic") &&
	       !strcmp(port->on_name, nic->name);
}

/* GIDs are made of the addresses of the interface that the port lies on. */
static bool has_gid(const struct lw_run *run, const struct lw_net_on_nics *on, int32_t port,
	const struct lw_nic *nic)
{
	for (size_t i = on->first[port]; i < on->first[port + 1]; i++) {
		const char *gid = run->ends.at[on->ends[i]].local;
		size_t n = strlen(gid);

		for (const char *at = strstr(nic->addresses, gid); n && at;
			at = strstr(at + n, gid))
			if ((at == nic->addresses || at[-1] == ' ') &&
				(at[n] == ' ' || at[n] == '\0'))
				return true;
	}
	return false;
}

/* Every container has an eth0, and no port says whose it lies on. */
static bool is_its_interface(const struct lw_run *run, const struct lw_net_on_nics *on,
	int32_t port, const struct lw_nic *nic)
{
	const struct lw_nic *other;
	size_t n = 0;

	if (!lies_on(&run->nics.at[port], nic))
		return false;
	lw_vec_foreach (other, &run->nics)
		n += other->same_as == other - run->nics.at && lies_on(&run->nics.at[port], other);
	return n == 1 || has_gid(run, on, port, nic);
}

bool lw_net_add_soft_rdma(
	const struct lw_run *run, const struct lw_net_on_nics *on, struct lw_net_account *account)
{
	const struct lw_nic *nic = &run->nics.at[account->nic];
	bool has_any = false;

	for (size_t i = 0; i < on->n_ports; i++) {
		int32_t index = (int32_t)on->ports[i];
		struct moved tx = {0}, rx = {0};

		if (!is_soft(&run->nics.at[index]) || !is_its_interface(run, on, index, nic))
			continue;
		add_port(run, on, index, true, &tx, &rx);
		account->job_tx_bytes += tx.bytes + tx.resent_bytes;
		account->job_rx_bytes += rx.bytes + rx.resent_bytes;
		account->header_tx_bytes += header_bytes(&tx, account->tx_packets);
		account->header_rx_bytes += header_bytes(&rx, account->rx_packets);
		has_any |= packets(&tx) + packets(&rx) > 0;
	}
	return has_any;
}

static double beyond(double all, double job)
{
	return isnan(all) ? all : fmax(0, all - job);
}

static int add_unfinished(const struct lw_run *run, struct lw_net_account *account)
{
	struct lw_net_candidate one = {.text = "requests of the job without a completion",
		.is_job = true,
		.outside_frac = NAN};
	const struct lw_tcp_end *end;

	lw_vec_foreach (end, &run->ends)
		if (end->nic == account->nic)
			one.bytes += (double)end->rdma.unfinished_bytes;
	one.out_bytes = one.bytes;
	return one.bytes < LEAST_BYTES ? LW_OK : lw_vec_push(&account->candidates, one);
}

static bool has_others(const struct lw_net_account *account)
{
	return account->other_tx_bytes + account->other_rx_bytes >
		       fmax(LEAST_BYTES,
			       LEAST_OTHER_FRAC * (account->tx_bytes + account->rx_bytes)) ||
	       (isnan(account->tx_bytes) &&
		       account->other_tx_packets + account->other_rx_packets >
			       fmax(LEAST_PACKETS,
				       LEAST_OTHER_FRAC *
					       (account->tx_packets + account->rx_packets)));
}

static void fill(
	const struct lw_run *run, const struct lw_net_on_nics *on, struct lw_net_account *account)
{
	double n_duplicates = lw_net_growth(&run->nics.at[account->nic], "duplicate_request");
	struct moved tx = {0}, rx = {0};

	add_port(run, on, account->nic, false, &tx, &rx);
	/* the port's own word, where nothing was captured */
	rx.resent_packets = fmax(rx.resent_packets, n_duplicates);
	account->job_tx_bytes = tx.bytes + tx.resent_bytes;
	account->job_rx_bytes = rx.bytes + rx.resent_bytes;
	account->job_tx_packets = packets(&tx);
	account->job_rx_packets = packets(&rx);
	account->is_packet_counted = !isnan(account->tx_packets) && !isnan(account->rx_packets);
	account->header_tx_bytes = header_bytes(&tx, account->tx_packets);
	account->header_rx_bytes = header_bytes(&rx, account->rx_packets);
	account->other_tx_packets = beyond(account->tx_packets, account->job_tx_packets);
	account->other_rx_packets = beyond(account->rx_packets, account->job_rx_packets);
	account->other_tx_bytes =
		beyond(account->tx_bytes, account->job_tx_bytes + account->header_tx_bytes);
	account->other_rx_bytes =
		beyond(account->rx_bytes, account->job_rx_bytes + account->header_rx_bytes);
}

/* Of how long its counters were read, the part that the counted steps took. */
static double step_bytes(const struct lw_run *run, const struct lw_net_account *account)
{
	const struct lw_nic_series *series = lw_net_series(&run->nics.at[account->nic], "tx_bytes");
	const struct lw_rank *rank = run->ranks.n ? &run->ranks.at[0] : NULL;
	double watched_ns = series ? (double)(series->readings.at[series->readings.n - 1].at_ns -
					      series->readings.at[0].at_ns)
				   : 0;
	double steps_ns = 0;

	if (!rank || !run->network.n_steps || watched_ns <= 0)
		return NAN;
	for (size_t s = 0; s < rank->steps.n; s++)
		if (!rank->steps.at[s].excluded)
			steps_ns += (double)(rank->steps.at[s].end_ns - rank->steps.at[s].start_ns);
	return (account->other_tx_bytes + account->other_rx_bytes) *
	       fmin(1, steps_ns / watched_ns) / (double)run->network.n_steps;
}

int lw_net_account_port(struct lw_run *run, const struct lw_net_on_nics *on, int32_t index)
{
	const struct lw_nic *nic = &run->nics.at[index];
	struct lw_net_account account = {.nic = index,
		.tx_bytes = lw_net_growth(nic, "tx_bytes"),
		.rx_bytes = lw_net_growth(nic, "rx_bytes"),
		.tx_packets = lw_net_growth(nic, "tx_packets"),
		.rx_packets = lw_net_growth(nic, "rx_packets"),
		.unseen_bytes = NAN,
		.other_step_bytes = NAN,
		.foreign = LW_NET_NO_FOREIGN};
	int status;

	if (!(account.tx_bytes + account.rx_bytes >= LEAST_BYTES) &&
		!(account.tx_packets + account.rx_packets >= LEAST_PACKETS))
		return LW_OK;
	fill(run, on, &account);
	if (has_others(&account))
		account.may_be =
			"posted past libibverbs (by a GPU, mlx5dv, UCX or DOCA), by a process that was not recorded, by a peer that was not recorded and writes or reads here, or by the kernel (NFS, SMB, NVMe over RDMA)";
	status = lw_net_find_candidates(run, on, &account);
	account.other_step_bytes = step_bytes(run, &account);
	if (status == LW_OK)
		status = add_unfinished(run, &account);
	if (status == LW_OK)
		status = lw_vec_push(&run->network.accounts, account);
	if (status < 0)
		lw_vec_free(&account.candidates);
	return status;
}
