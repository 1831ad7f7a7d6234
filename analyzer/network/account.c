/* SPDX-License-Identifier: Apache-2.0 */
/*
 * account.c - the bytes of each NIC against those of the job's connections that leave by it. What is left is
 * nobody's: other processes, storage, another protocol. What only passes on others' frames has no account: ports of
 * bridges, and the host's ends of veth pairs.
 *
 * A NIC counts frames. With segmentation offload a frame is merged segments with one header between them, on a veth
 * also as received; a real NIC counts what it sent. So headers are those of the frames or of the segments,
 * whichever are fewer.
 */
#include <ctype.h>
#include <math.h>
#include <string.h>

#include "analyzer/network/network.h"

enum {
	ETHERNET_BYTES = 14,
	IPV4_BYTES = 20,
	IPV6_BYTES = 40,
	TCP_BYTES = 32, /* with timestamps */
	LEAST_BYTES = 65536,
	FIRST_LIST_NS = 500000000 /* after a namespace's NICs were first read */
};
#define PAIR_FRAC 0.01 /* both ends of a veth pair count alike but for when they are read */

const struct lw_nic_series *lw_net_series(const struct lw_nic *nic, const char *name)
{
	const struct lw_nic_series *series;

	lw_vec_foreach (series, &nic->series)
		if (!strcmp(series->name, name) && series->readings.n)
			return series;
	return NULL;
}

double lw_net_growth(const struct lw_nic *nic, const char *name)
{
	const struct lw_nic_series *series = lw_net_series(nic, name);

	if (!series)
		return NAN;
	return (double)(series->readings.at[series->readings.n - 1].value -
			series->readings.at[0].value);
}

double lw_net_header_bytes(const struct lw_tcp_end *end, bool is_loopback)
{
	bool is_v6 = strchr(end->local, ':') && strncmp(end->local, "::ffff:", 7) != 0;

	return (is_loopback ? 0 : ETHERNET_BYTES) + (is_v6 ? IPV6_BYTES : IPV4_BYTES) + TCP_BYTES;
}

/* Of the job: all since its first packet. Of others that were there when the recording began: since then. */
static double total(const struct lw_tcp_end *end, int64_t first, int64_t last)
{
	if (last == LW_COUNT_UNKNOWN)
		return NAN;
	return (double)(last - (end->is_older && first != LW_COUNT_UNKNOWN ? first : 0));
}

/* Connections of others that were seen with the first list of their namespace. */
static void find_older(struct lw_run *run)
{
	struct lw_tcp_end *end;

	lw_vec_foreach (end, &run->ends) {
		const struct lw_nic_series *series =
			end->nic == LW_NONE ? NULL
					    : lw_net_series(&run->nics.at[end->nic], "tx_bytes");

		end->is_older = !end->process_id && end->tcp.n &&
				(!series || end->tcp.at[0].at_ns <
						    series->readings.at[0].at_ns + FIRST_LIST_NS);
	}
}

double lw_net_sent_total(const struct lw_tcp_end *end)
{
	double bytes = NAN;

	if (end->tcp.n) {
		const struct lw_tcp_reading *first = &end->tcp.at[0],
					    *last = &end->tcp.at[end->tcp.n - 1];

		bytes = total(end, first->sent_bytes, last->sent_bytes);
		if (isnan(bytes))
			bytes = total(end, first->acked_bytes, last->acked_bytes);
	}
	return isnan(bytes) ? lw_end_sent_bytes(end) : bytes;
}

double lw_net_received_total(const struct lw_tcp_end *end)
{
	double bytes = NAN;

	if (end->tcp.n)
		bytes = total(end, end->tcp.at[0].received_bytes,
			end->tcp.at[end->tcp.n - 1].received_bytes);
	return isnan(bytes) ? lw_end_received_bytes(end) : bytes;
}

/*
 * Payload that moved after the NIC was first read: one that joins late may have been busy before that. By the kernel's
 * readings, which a pause has two of; the hook's samples may be a second apart.
 */
static double counted_bytes(
	const struct lw_nic *nic, const struct lw_tcp_end *end, enum lw_end_way way)
{
	const struct lw_nic_series *series =
		lw_net_series(nic, way == LW_END_SENT ? "tx_bytes" : "rx_bytes");
	int64_t from_ns = series ? series->readings.at[0].at_ns : INT64_MIN;
	double all = way == LW_END_SENT ? lw_net_sent_total(end) : lw_net_received_total(end);
	double bytes = lw_net_kernel_bytes(end, way, from_ns, INT64_MAX);
	size_t hint = 0;

	return isnan(bytes) ? fmax(0, all - lw_end_bytes(end, from_ns, way, &hint)) : bytes;
}

double lw_net_full_payload_bytes(const struct lw_nic *nic, const struct lw_tcp_end *end)
{
	return (nic->mtu_bytes > 200 ? (double)nic->mtu_bytes : 1500) + ETHERNET_BYTES -
	       lw_net_header_bytes(end, false);
}

struct headers {
	double n_tx, n_rx, bytes; /* segments of the job's; of one of them */
	bool is_counted;
};

/* Of the job: since the NIC was first read. Of others: since they were. */
static double segments(const struct lw_nic *nic, const struct lw_tcp_end *end, enum lw_end_way way,
	bool *ret_is_counted)
{
	const struct lw_nic_series *series =
		lw_net_series(nic, way == LW_END_SENT ? "tx_bytes" : "rx_bytes");
	int64_t from_ns = series ? series->readings.at[0].at_ns : INT64_MIN;
	double n, bytes;

	if (!end->process_id)
		from_ns = end->is_older ? end->tcp.at[0].at_ns : INT64_MIN;
	n = lw_net_segments(end, way, from_ns, INT64_MAX);
	*ret_is_counted = !isnan(n);
	if (!isnan(n))
		return n;
	if (end->process_id)
		bytes = counted_bytes(nic, end, way);
	else
		bytes = way == LW_END_SENT ? lw_net_sent_total(end) : lw_net_received_total(end);
	return ceil(bytes / lw_net_full_payload_bytes(nic, end));
}

double lw_net_account_header_bytes(
	const struct lw_nic *nic, const struct lw_tcp_end *end, enum lw_end_way way)
{
	bool is_counted;

	return lw_net_header_bytes(end, nic->is_loopback) * segments(nic, end, way, &is_counted);
}

static void add_segments(
	struct headers *headers, const struct lw_nic *nic, const struct lw_tcp_end *end)
{
	bool is_counted[2];

	headers->bytes = fmax(headers->bytes, lw_net_header_bytes(end, nic->is_loopback));
	headers->n_tx += segments(nic, end, LW_END_SENT, &is_counted[0]);
	headers->n_rx += segments(nic, end, LW_END_RECEIVED, &is_counted[1]);
	headers->is_counted &= is_counted[0] && is_counted[1];
}

/*
 * What ranks sent again to those on @account's NIC, which may have counted it twice: it was only late, or it was dropped
 * behind the NIC. What was lost before it hides as many bytes of others.
 */
static int add_again(
	struct lw_run *run, const struct lw_net_on_nics *on, struct lw_net_account *account)
{
	bool *is_counted = calloc(run->network.links.n + 1, sizeof(*is_counted));

	if (!is_counted)
		return lw_fail(LW_ERR_NOMEM, "no memory");
	for (size_t i = on->first[account->nic]; i < on->first[account->nic + 1]; i++) {
		const struct lw_tcp_end *end = &run->ends.at[on->ends[i]];
		const struct lw_net_link *link =
			lw_net_is_between_ranks(end) && !end->is_rdma
				? lw_net_link_of(run, end->peer_rank, end->rank)
				: NULL;

		if (!link || !(link->n_retransmits > 0) || is_counted[link - run->network.links.at])
			continue;
		is_counted[link - run->network.links.at] = true;
		account->again_rx_bytes +=
			link->n_retransmits *
			lw_net_full_payload_bytes(&run->nics.at[account->nic], end);
	}
	free(is_counted);
	return LW_OK;
}

/* Return: soft RoCE is in it. */
static bool add_job(
	const struct lw_run *run, const struct lw_net_on_nics *on, struct lw_net_account *account)
{
	const struct lw_nic *nic = &run->nics.at[account->nic];
	struct headers headers = {.is_counted = true};

	for (size_t i = on->first[account->nic]; i < on->first[account->nic + 1]; i++) {
		const struct lw_tcp_end *end = &run->ends.at[on->ends[i]];

		if (!end->process_id)
			continue;
		account->job_tx_bytes += counted_bytes(nic, end, LW_END_SENT);
		account->job_rx_bytes += counted_bytes(nic, end, LW_END_RECEIVED);
		add_segments(&headers, nic, end);
	}
	account->is_packet_counted = headers.is_counted;
	/* fmin() takes the one that is known */
	account->header_tx_bytes = headers.bytes * fmin(headers.n_tx, account->tx_packets);
	account->header_rx_bytes = headers.bytes * fmin(headers.n_rx, account->rx_packets);
	return lw_net_add_soft_rdma(run, on, account);
}

/* Of others' bytes: what no TCP connection accounts for that was seen. */
static double unseen_bytes(const struct lw_run *run, const struct lw_net_on_nics *on,
	const struct lw_net_account *account)
{
	const struct lw_nic *nic = &run->nics.at[account->nic];
	struct headers headers = {.is_counted = true};
	double seen_bytes = 0;

	for (size_t i = on->first[account->nic]; i < on->first[account->nic + 1]; i++) {
		const struct lw_tcp_end *end = &run->ends.at[on->ends[i]];

		if (end->process_id)
			continue;
		seen_bytes += lw_net_sent_total(end) + lw_net_received_total(end);
		add_segments(&headers, nic, end);
	}
	seen_bytes += headers.bytes * (fmin(headers.n_tx, account->tx_packets) +
					      fmin(headers.n_rx, account->rx_packets));
	return fmax(0, account->other_tx_bytes + account->other_rx_bytes - seen_bytes);
}

/* One that it did not make up itself: ports of bridges and bonds have those too. */
static bool has_address(const struct lw_nic *nic)
{
	for (const char *at = nic->addresses; *at;
		at += strcspn(at, " ") + (at[strcspn(at, " ")] != '\0'))
		if (strncmp(at, "fe80:", 5) != 0)
			return true;
	return false;
}

static bool is_alike(double sent_bytes, double received_bytes)
{
	return fabs(sent_bytes - received_bytes) <=
	       fmax(LEAST_BYTES, PAIR_FRAC * fmax(sent_bytes, received_bytes));
}

/* The host's end of a veth pair: what a rank's NIC in another namespace sends it receives, and the other way. */
static bool is_far_end(
	const struct lw_run *run, const struct lw_net_on_nics *on, const struct lw_nic *nic)
{
	double tx_bytes = lw_net_growth(nic, "tx_bytes"), rx_bytes = lw_net_growth(nic, "rx_bytes");
	const struct lw_nic *other;

	if (strcmp(nic->driver, "veth") != 0 || nic->ranks.n)
		return false;
	for (size_t i = 0; i < on->n_used; i++) {
		other = &run->nics.at[on->used[i]];
		if (other->clock == nic->clock && other->namespace_key != nic->namespace_key &&
			!strcmp(other->driver, "veth") &&
			is_alike(lw_net_growth(other, "tx_bytes"), rx_bytes) &&
			is_alike(lw_net_growth(other, "rx_bytes"), tx_bytes))
			return true;
	}
	return false;
}

/* What goes through a port of a bridge or of a bond is counted there too. */
static bool is_accounted(
	const struct lw_run *run, const struct lw_net_on_nics *on, const struct lw_nic *nic)
{
	return !strcmp(nic->kind, "nic") && !nic->is_loopback && has_address(nic) &&
	       lw_net_series(nic, "tx_bytes") && lw_net_series(nic, "rx_bytes") &&
	       !is_far_end(run, on, nic);
}

static int account_for(struct lw_run *run, const struct lw_net_on_nics *on, int32_t index)
{
	const struct lw_nic *nic = &run->nics.at[index];
	struct lw_net_account account = {.nic = index,
		.tx_bytes = lw_net_growth(nic, "tx_bytes"),
		.rx_bytes = lw_net_growth(nic, "rx_bytes"),
		.tx_packets = lw_net_growth(nic, "tx_packets"),
		.rx_packets = lw_net_growth(nic, "rx_packets"),
		.job_tx_packets = NAN,
		.job_rx_packets = NAN,
		.other_tx_packets = NAN,
		.other_rx_packets = NAN,
		.other_step_bytes = NAN,
		.foreign = LW_NET_NO_FOREIGN};
	bool has_soft_rdma;
	int status;

	if (account.tx_bytes + account.rx_bytes < LEAST_BYTES)
		return LW_OK;
	has_soft_rdma = add_job(run, on, &account);
	status = add_again(run, on, &account);
	if (status < 0)
		return status;
	account.other_tx_bytes =
		fmax(0, account.tx_bytes - account.job_tx_bytes - account.header_tx_bytes);
	account.other_rx_bytes = fmax(0, account.rx_bytes - account.job_rx_bytes -
						 account.header_rx_bytes - account.again_rx_bytes);
	account.unseen_bytes = unseen_bytes(run, on, &account);
	status = lw_net_find_candidates(run, on, &account);
	/* when its packets were on the wire requests do not tell, nor when acknowledgements were */
	if (status == LW_OK && !has_soft_rdma)
		status = lw_net_find_foreign(run, on, &account);
	if (status == LW_OK)
		status = lw_vec_push(&run->network.accounts, account);
	if (status < 0)
		lw_vec_free(&account.candidates);
	return status;
}

/* What a word of a counter's name begins with that stands still where all is well; drivers choose their names. */
static const char *const troubles[] = {"drop", "discard", "err", "pause", "ecn", "cnp",
	"out_of_seq", "duplicate", "exceeded", "retrans", "timeout", "overrun", "link_downed",
	"out_of_buffer", "wait", "slow_restart"};

static bool is_trouble(const char *name)
{
	for (const char *word = name; *word; word++) {
		if (word > name && isalnum((unsigned char)word[-1]))
			continue;
		for (size_t i = 0; i < sizeof(troubles) / sizeof(troubles[0]); i++)
			if (!strncmp(word, troubles[i], strlen(troubles[i])))
				return true;
	}
	return false;
}

enum { LEAST_TROUBLE = 10 }; /* a stray packet of an unknown protocol counts as dropped */

static int find_troubles(struct lw_run *run, int32_t index)
{
	const struct lw_nic *nic = &run->nics.at[index];
	const struct lw_nic_series *series;

	lw_vec_foreach (series, &nic->series) {
		struct lw_net_trouble trouble = {index, series->name, 0};

		if (!is_trouble(series->name))
			continue;
		trouble.n = lw_net_growth(nic, series->name);
		if (trouble.n >= LEAST_TROUBLE && lw_vec_push(&run->network.troubles, trouble) < 0)
			return LW_ERR_NOMEM;
	}
	return LW_OK;
}

int lw_net_account(struct lw_run *run)
{
	struct lw_net_on_nics on;
	int status = lw_net_on_nics_make(run, &on);

	find_older(run);
	for (size_t i = 0; i < run->nics.n && status == LW_OK; i++) {
		if (run->nics.at[i].same_as != (int32_t)i)
			continue;
		if (is_accounted(run, &on, &run->nics.at[i]))
			status = account_for(run, &on, (int32_t)i);
		else if (!strcmp(run->nics.at[i].kind, "rdma_port"))
			status = lw_net_account_port(run, &on, (int32_t)i);
		if (status == LW_OK)
			status = find_troubles(run, (int32_t)i);
	}
	lw_net_on_nics_free(run, &on);
	return status;
}
