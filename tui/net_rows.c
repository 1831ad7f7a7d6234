/* SPDX-License-Identifier: Apache-2.0 */
#include "tui/net_rows.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tui/parts.h"

const char *lw_net_carries_text(double bytes_per_s, int from, char text[LW_TABLE_TEXT_BYTES])
{
	char rate[LW_UNIT_TEXT_BYTES];

	if (isnan(bytes_per_s))
		return "?";
	snprintf(text, LW_TABLE_TEXT_BYTES, "%s%s", from == LW_CAPACITY_BUSY ? ">" : "",
		lw_rate_format(bytes_per_s, rate));
	return text;
}

/* ---- devices ------------------------------------------------------------------------------------- */

enum nic_key {
	NIC_RX,
	NIC_TX,
	NIC_RX_PACKETS,
	NIC_TX_PACKETS,
	NIC_TROUBLES,
	NIC_OTHER,
	NIC_SPEED,
	NIC_MTU
};

static double troubles_of(const struct lw_run *run, size_t nic)
{
	const struct lw_net_trouble *trouble;
	double n = 0;

	lw_vec_foreach (trouble, &run->network.troubles)
		n += trouble->nic == run->nics.at[nic].same_as ? trouble->n : 0;
	return n;
}

static double others_of(const struct lw_run *run, size_t nic)
{
	const struct lw_net_account *account;

	lw_vec_foreach (account, &run->network.accounts)
		if (account->nic == run->nics.at[nic].same_as)
			return account->other_rx_bytes + account->other_tx_bytes;
	return NAN;
}

static bool is_gpu(const struct lw_nic *nic)
{
	return !strcmp(nic->kind, "gpu");
}

/* Over NVLink and PCIe together, what is counted of the two. */
static double moved_by_gpu(const struct lw_nic *gpu, bool is_out)
{
	double nvlink = lw_net_growth(gpu, is_out ? "nvlink_tx_bytes" : "nvlink_rx_bytes");
	double pcie = lw_net_growth(gpu, is_out ? "pcie_tx_bytes" : "pcie_rx_bytes");

	return isnan(nvlink) ? pcie : isnan(pcie) ? nvlink : nvlink + pcie;
}

static double nic_figure(const void *context, size_t row, int key)
{
	static const char *const counters[] = {[NIC_RX] = "rx_bytes",
		[NIC_TX] = "tx_bytes",
		[NIC_RX_PACKETS] = "rx_packets",
		[NIC_TX_PACKETS] = "tx_packets"};
	const struct lw_run *run = context;
	const struct lw_nic *nic = &run->nics.at[row];

	if (is_gpu(nic) && (key == NIC_RX || key == NIC_TX))
		return moved_by_gpu(nic, key == NIC_TX);
	switch ((enum nic_key)key) {
	case NIC_TROUBLES:
		return troubles_of(run, row);
	case NIC_OTHER:
		return others_of(run, row);
	case NIC_SPEED:
		return nic->speed_bytes_per_s ? (double)nic->speed_bytes_per_s : (double)NAN;
	case NIC_MTU:
		return nic->mtu_bytes ? (double)nic->mtu_bytes : (double)NAN;
	case NIC_RX:
	case NIC_TX:
	case NIC_RX_PACKETS:
	case NIC_TX_PACKETS:
	default:
		return lw_net_growth(nic, counters[key]);
	}
}

static const char *nic_name(const void *context, size_t row, char text[LW_TABLE_TEXT_BYTES])
{
	const struct lw_run *run = context;
	const struct lw_nic *nic = &run->nics.at[row];
	const char *place = strchr(nic->on_name, ':');

	(void)text; /* GPUs of one make have one name: where on the PCI bus */
	return !is_gpu(nic) ? nic->name : place ? place + 1 : nic->on_name;
}

static const char *nic_kind(const void *context, size_t row, char text[LW_TABLE_TEXT_BYTES])
{
	const struct lw_run *run = context;

	(void)text;
	return run->nics.at[row].kind;
}

static const char *nic_owner(const void *context, size_t row, char text[LW_TABLE_TEXT_BYTES])
{
	const struct lw_run *run = context;

	return lw_nic_owner_text(run, &run->nics.at[row], text);
}

static const char *nic_driver(const void *context, size_t row, char text[LW_TABLE_TEXT_BYTES])
{
	const struct lw_run *run = context;

	(void)text;
	return run->nics.at[row].driver;
}

static const char *nic_addresses(const void *context, size_t row, char text[LW_TABLE_TEXT_BYTES])
{
	const struct lw_run *run = context;

	(void)text;
	return is_gpu(&run->nics.at[row]) ? run->nics.at[row].name : run->nics.at[row].addresses;
}

#define NIC(text, columns, which, how, name)                                                       \
	{                                                                                          \
		.title = (text), .width = (columns), .number = nic_figure, .key = (which),         \
		.format = (how), .csv = (name)                                                     \
	}

const struct lw_table_column lw_nic_columns[] = {
	{.title = "device", .width = 10, .is_left = true, .text = nic_name},
	{.title = "whose", .width = 22, .is_left = true, .grows = true, .text = nic_owner},
	NIC("in", 8, NIC_RX, lw_bytes_format, "rx_bytes"),
	NIC("out", 8, NIC_TX, lw_bytes_format, "tx_bytes"),
	NIC("nobody's", 8, NIC_OTHER, lw_bytes_format, "unattributed_bytes"),
	NIC("troubles", 8, NIC_TROUBLES, lw_count_format, "n_troubles"),
	NIC("speed", 9, NIC_SPEED, lw_rate_format, "speed_bytes_per_s"),
	NIC("MTU", 5, NIC_MTU, lw_count_format, "mtu_bytes"),
	{.title = "kind", .width = 9, .is_left = true, .text = nic_kind},
	{.title = "driver", .width = 8, .is_left = true, .text = nic_driver},
	NIC("packets in", 10, NIC_RX_PACKETS, lw_count_format, "rx_packets"),
	NIC("out", 10, NIC_TX_PACKETS, lw_count_format, "tx_packets"),
	{.title = "addresses", .width = 15, .is_left = true, .text = nic_addresses},
};
const size_t lw_nic_n_columns = sizeof(lw_nic_columns) / sizeof(lw_nic_columns[0]);

/* ---- links --------------------------------------------------------------------------------------- */

static double link_figure(const void *context, size_t row, int key)
{
	const struct lw_run *run = context;

	return *(const double *)(const void *)((const char *)&run->network.links.at[row] + key);
}

static double link_rank(const void *context, size_t row, int key)
{
	const struct lw_run *run = context;
	const struct lw_net_link *link = &run->network.links.at[row];

	return run->ranks.at[key ? link->to : link->from].rank;
}

static double way_out(const void *context, size_t row)
{
	return link_figure(context, row, (int)offsetof(struct lw_net_link, capacity_bytes_per_s));
}

/* As lw_net_carries_text(): it may be more. */
static const char *way_out_text(const void *context, size_t row, char text[LW_TABLE_TEXT_BYTES])
{
	const struct lw_run *run = context;
	const struct lw_net_link *link = &run->network.links.at[row];
	int from = run->network.ranks.at[link->from].capacity_from;

	return lw_net_carries_text(link->capacity_bytes_per_s, from, text);
}

#define LINK(text, columns, member, how)                                                           \
	{                                                                                          \
		.title = (text), .width = (columns), .number = link_figure,                        \
		.key = (int)offsetof(struct lw_net_link, member), .format = (how), .csv = #member  \
	}

const struct lw_table_column lw_link_columns[] = {
	{.title = "from",
		.width = 4,
		.number = link_rank,
		.format = lw_count_format,
		.csv = "from_rank"},
	{.title = "to",
		.width = 4,
		.number = link_rank,
		.key = 1,
		.format = lw_count_format,
		.csv = "to_rank"},
	LINK("a step", 8, step_bytes, lw_bytes_format),
	LINK("in all", 8, run_bytes, lw_bytes_format),
	LINK("busy rate", 9, busy_bytes_per_s, lw_rate_format),
	{.title = "way out",
		.width = 10,
		.text = way_out_text,
		.value = way_out,
		.csv = "capacity_bytes_per_s"},
	LINK("used", 5, used_frac, lw_percent_format),
	LINK("RTT", 7, rtt_ns, lw_ns_format),
	LINK("least", 7, min_rtt_ns, lw_ns_format),
	LINK("resent", 6, n_retransmits, lw_count_format),
	LINK("window", 7, rwnd_limited_frac, lw_percent_format),
	LINK("buffer", 7, sndbuf_limited_frac, lw_percent_format),
	LINK("acked", 8, acked_bytes, lw_bytes_format),
	LINK("packets'", 8, packet_bytes, lw_bytes_format),
	LINK("by RDMA", 8, rdma_bytes, lw_bytes_format),
};
const size_t lw_link_n_columns = sizeof(lw_link_columns) / sizeof(lw_link_columns[0]);

const char *lw_net_rows_note(const struct lw_run *run, char text[LW_TABLE_TEXT_BYTES])
{
	const struct lw_network *net = &run->network;
	char at[32] = "";

	if (net->algorithm == LW_ALGORITHM_STAR)
		snprintf(at, sizeof(at), " at rank %d", run->ranks.at[net->hub].rank);
	snprintf(text, LW_TABLE_TEXT_BYTES, "%s%s: %.200s", lw_algorithm_name(net->algorithm), at,
		net->evidence);
	return text;
}
