/* SPDX-License-Identifier: Apache-2.0 */
/*
 * link.c - what the network's own counters say is wrong: a slow link, lost packets, the wrong interface, small frames.
 *
 * Statements of what was measured, not predictions: none has a gain. Each is silent where nothing was recorded that
 * would bear it out.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analyzer/advise/trial.h"
#include "base/units.h"

#define IDLE_FRAC          0.01 /* of what the NIC in use moved */
#define FASTER             1.5
#define HELD_FRAC          0.5 /* of the time with data in flight */
#define FULL_FRAC          0.5 /* of the capacity, in the steps: headers matter */
#define HEADER_BYTES       66.0
#define FULL_SEGMENT_BYTES 1448.0
#define JUMBO_BYTES        8948.0

enum { LEAST_BYTES = 1 << 20, ETHERNET_MTU_BYTES = 1500, LEAST_RESENT = 20 };

/* All data of the others goes in and out by the NIC of one. */
static int advise_server(
	const struct lw_adviser *self, const struct lw_run *run, struct lw_advice_list *list)
{
	char text[LW_NET_WORDS_BYTES];

	if (!lw_net_is_server_full(&run->network.server))
		return LW_OK;
	return lw_advise_find(list, self->id,
		"%s. An allreduce (a ring) spreads that over all links; else give that host a faster NIC, or several servers",
		lw_server_text(run, text));
}

/* The way back of the slow one is fast: the link differs by direction. NAN: it is not, or not known. */
static double back_bytes_per_s(const struct lw_run *run)
{
	const struct lw_network *net = &run->network;
	const struct lw_net_rank *rank, *back;
	const struct lw_net_link *link;
	bool is_back = false;

	if (net->slow_to == LW_NONE)
		return NAN;
	lw_vec_foreach (link, &net->links)
		if (link->from == net->slow_to && lw_net_is_edge(run, link)) {
			if (link->to != net->slow_rank)
				return NAN;
			is_back = true;
		}
	rank = &net->ranks.at[net->slow_rank];
	back = &net->ranks.at[net->slow_to];
	if (!is_back || rank->n_sharing > 1 || back->n_sharing > 1 ||
		(back->capacity_from != LW_CAPACITY_PLATEAU &&
			back->capacity_from != LW_CAPACITY_BUSY) ||
		!(back->capacity_bytes_per_s > FASTER * rank->capacity_bytes_per_s))
		return NAN;
	return back->capacity_bytes_per_s;
}

static int advise_slow(
	const struct lw_adviser *self, struct lw_run *run, struct lw_advice_list *list)
{
	const struct lw_network *net = &run->network;
	double back_rate = back_bytes_per_s(run);
	const struct lw_net_rank *rank;
	char unit[2][LW_UNIT_TEXT_BYTES], changed[LW_NET_CHANGED_BYTES];
	char text[LW_NET_WORDS_BYTES];

	if (!net->ranks.n)
		return LW_OK;
	if (net->slow_rank == LW_NONE)
		return advise_server(self, run, list);
	rank = &net->ranks.at[net->slow_rank];
	if (!isnan(back_rate))
		return lw_advise_lead(list, self->id,
			"Slow link, asymmetric: from rank %d (host %.64s, %s) to %d data moves at %s%s, the other way at %s%s: look at the speed and duplex of both NICs and of the switch's ports (ethtool), and at shaping (tc qdisc)",
			lw_run_rank_number(run, net->slow_rank), run->ranks.at[net->slow_rank].host,
			run->nics.at[rank->nic].name, lw_run_rank_number(run, net->slow_to),
			lw_rate_format(rank->capacity_bytes_per_s, unit[0]),
			lw_capacity_changed_text(run, net->slow_rank, changed),
			lw_rate_format(back_rate, unit[1]),
			lw_at_least(net->ranks.at[net->slow_to].capacity_from));
	if (net->slow_to != LW_NONE)
		return lw_advise_lead(list, self->id,
			"Slow link: %s. Look at the NICs of both hosts, their cables and switch ports (ethtool), and at shaping (tc qdisc) out of the one and into the other",
			lw_net_slow_text(run, text));
	return lw_advise_lead(list, self->id,
		"Slow link: %s. Look at that NIC, its cable and its switch port (ethtool), and at shaping (tc qdisc), or leave the host out",
		lw_net_slow_text(run, text));
}

static int advise_loss(
	const struct lw_adviser *self, struct lw_run *run, struct lw_advice_list *list)
{
	const struct lw_net_slowed *slowed = &run->network.slowed;
	const struct lw_net_caused *resent = &slowed->by[LW_CAUSE_RESENT];
	char unit[2][LW_UNIT_TEXT_BYTES], cost[200] = "", worst[120] = "";
	int n = 0;

	if (isnan(slowed->n_retransmits) || slowed->n_retransmits < LEAST_RESENT ||
		!(slowed->frac >= LW_NET_LOSS_FRAC))
		return LW_OK;
	if (slowed->worst_from != LW_NONE)
		n = snprintf(worst, sizeof(worst), ", most from rank %d to %d (%.0f",
			lw_run_rank_number(run, slowed->worst_from),
			lw_run_rank_number(run, slowed->worst_to), slowed->worst_n);
	if (n && !isnan(slowed->worst_frac))
		n += snprintf(worst + n, sizeof(worst) - (size_t)n, ", %.2f %% of what goes there",
			100 * slowed->worst_frac);
	if (n)
		snprintf(worst + n, sizeof(worst) - (size_t)n, ")");
	if (resent->n_slowed)
		snprintf(cost, sizeof(cost),
			"; %u of %u operations that ran meanwhile took longer than %s, by %.0f %%, %s in all",
			resent->n_slowed, resent->n_compared,
			resent->against == LW_AGAINST_FIT ? "a cost fitted to those without"
							  : "those without",
			100 * resent->normal_frac, lw_ns_format(resent->lost_ns, unit[0]));
	else if (resent->n_compared && !resent->n_unclear)
		snprintf(cost, sizeof(cost), "; the operations that ran meanwhile took no longer");
	else if (resent->n_hit)
		snprintf(cost, sizeof(cost),
			"; %u operations ran meanwhile, too few of their kind without it: what it cost cannot be told",
			resent->n_hit);
	return lw_advise_find(list, self->id,
		"packets are lost: %.2f %s%s%s. Look at errors and drops of both NICs (ethtool -S), at the switch's buffers%s, and at the cable",
		100 * slowed->frac,
		slowed->is_by_port ? "NAKs and timeouts for 100 packets that the RDMA ports sent"
				   : "% of the segments between ranks were sent again",
		worst, cost, slowed->is_by_port ? " and its flow control (PFC, ECN)" : "");
}

/* What of TCP can hold a link back, and what sets it. */
static const struct limit {
	size_t frac; /* of struct lw_net_link */
	enum lw_net_cause cause;
	const char *what, *which, *set, *set_mpi, *or_else;
} limits[] = {
	{offsetof(struct lw_net_link, rwnd_limited_frac), LW_CAUSE_WINDOW, "the receiver's window",
		"at the receiver", "net.ipv4.tcp_rmem",
		" (and OMPI_MCA_btl_tcp_rcvbuf=0, where Open MPI sets a size)",
		"; if they are ample, it reads slower than data arrives: give it cores"},
	{offsetof(struct lw_net_link, sndbuf_limited_frac), LW_CAUSE_BUFFER, "the send buffer",
		"at the sender", "net.ipv4.tcp_wmem",
		" (and OMPI_MCA_btl_tcp_sndbuf=0, where Open MPI sets a size)", ""},
};

static double frac_of(const struct lw_net_link *link, const struct limit *limit)
{
	return *(const double *)(const void *)((const char *)link + limit->frac);
}

static int find_held(const struct lw_adviser *self, const struct lw_run *run,
	struct lw_advice_list *list, const struct limit *limit)
{
	const struct lw_net_caused *caused = &run->network.slowed.by[limit->cause];
	const struct lw_net_link *link, *worst = NULL;
	char unit[2][LW_UNIT_TEXT_BYTES], cost[120] = "";

	lw_vec_foreach (link, &run->network.links)
		if (link->run_bytes >= LEAST_BYTES && !link->is_loopback &&
			frac_of(link, limit) > HELD_FRAC &&
			(!worst || frac_of(link, limit) * link->busy_ns >
					   frac_of(worst, limit) * worst->busy_ns))
			worst = link;
	if (!worst)
		return LW_OK;
	if (caused->n_slowed)
		snprintf(cost, sizeof(cost), "; %u operations were slowed by %.0f %%, %s in all",
			caused->n_slowed, 100 * caused->normal_frac,
			lw_ns_format(caused->lost_ns, unit[0]));
	else if (caused->n_hit && !caused->n_compared)
		snprintf(cost, sizeof(cost),
			"; too few operations ran without it: what it cost cannot be told");
	return lw_advise_find(list, self->id,
		"%s held back what rank %d sends to rank %d for %.0f %% of the time with data in flight (%s)%s. Look at the sizes that TCP may use %s (host %.64s): raise the third of %s%s%s",
		limit->what, lw_run_rank_number(run, worst->from),
		lw_run_rank_number(run, worst->to), 100 * frac_of(worst, limit),
		lw_ns_format(frac_of(worst, limit) * worst->busy_ns, unit[1]), cost, limit->which,
		run->ranks.at[limit->cause == LW_CAUSE_WINDOW ? worst->to : worst->from].host,
		limit->set,
		run->ranks.at[worst->from].transport == LW_TRANSPORT_MPI ? limit->set_mpi : "",
		limit->or_else);
}

static int advise_held(
	const struct lw_adviser *self, struct lw_run *run, struct lw_advice_list *list)
{
	int status = LW_OK;

	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]) && status == LW_OK; i++)
		status = find_held(self, run, list, &limits[i]);
	return status;
}

/* What sets the interface, by what moves the gradients. */
static const char *variable_of(const struct lw_rank *rank)
{
	if (rank->transport == LW_TRANSPORT_NCCL)
		return "NCCL_SOCKET_IFNAME";
	if (rank->transport == LW_TRANSPORT_MPI)
		return "OMPI_MCA_btl_tcp_if_include";
	if (rank->transport == LW_TRANSPORT_GLOO)
		return rank->framework == LW_FRAMEWORK_HOROVOD ? "HOROVOD_GLOO_IFACE"
							       : "GLOO_SOCKET_IFNAME";
	return "NCCL_SOCKET_IFNAME, GLOO_SOCKET_IFNAME or HOROVOD_GLOO_IFACE";
}

static double moved_bytes(const struct lw_nic *nic)
{
	/* fmax() takes the one that is known */
	return fmax(lw_net_growth(nic, "tx_bytes"), 0) + fmax(lw_net_growth(nic, "rx_bytes"), 0);
}

static bool is_better(const struct lw_nic *nic, const struct lw_nic *used)
{
	return nic != used && nic->store == used->store && nic->host_id == used->host_id &&
	       nic->namespace_key == used->namespace_key && !strcmp(nic->kind, "nic") &&
	       !nic->is_loopback && !nic->is_gone && *nic->addresses && lw_net_is_physical(nic) &&
	       lw_net_is_physical(used) &&
	       (double)nic->speed_bytes_per_s >= FASTER * (double)used->speed_bytes_per_s &&
	       moved_bytes(nic) < IDLE_FRAC * moved_bytes(used);
}

static int advise_interface(
	const struct lw_adviser *self, struct lw_run *run, struct lw_advice_list *list)
{
	const struct lw_net_rank *rank;
	const struct lw_nic *nic, *best = NULL;
	char unit[2][LW_UNIT_TEXT_BYTES];

	lw_vec_foreach (rank, &run->network.ranks) {
		size_t r = (size_t)(rank - run->network.ranks.at);
		const struct lw_nic *used;

		if (rank->nic == LW_NONE)
			continue;
		used = &run->nics.at[rank->nic];
		lw_vec_foreach (nic, &run->nics)
			if (is_better(nic, used) &&
				(!best || nic->speed_bytes_per_s > best->speed_bytes_per_s))
				best = nic;
		if (best) /* the hosts of a cluster are alike: say it once */
			return lw_advise_find(list, self->id,
				"rank %d sends by %s (%s) while %s (%s, address %.40s) of the same host is idle: set %s=%s, if the other hosts reach it",
				lw_run_rank_number(run, (int32_t)r), used->name,
				lw_rate_format((double)used->speed_bytes_per_s, unit[0]),
				best->name,
				lw_rate_format((double)best->speed_bytes_per_s, unit[1]),
				best->addresses, variable_of(&run->ranks.at[r]), best->name);
	}
	return LW_OK;
}

static int advise_frames(
	const struct lw_adviser *self, struct lw_run *run, struct lw_advice_list *list)
{
	const struct lw_net_rank *rank;
	const double now = HEADER_BYTES / (HEADER_BYTES + FULL_SEGMENT_BYTES);
	const double then = HEADER_BYTES / (HEADER_BYTES + JUMBO_BYTES);

	lw_vec_foreach (rank, &run->network.ranks) {
		const struct lw_nic *nic = rank->nic == LW_NONE ? NULL : &run->nics.at[rank->nic];

		/* of "at least" nobody knows how full it is */
		if (!nic || !lw_net_is_physical(nic) || nic->mtu_bytes != ETHERNET_MTU_BYTES ||
			rank->capacity_from == LW_CAPACITY_BUSY || !(rank->used_frac >= FULL_FRAC))
			continue;
		return lw_advise_find(list, self->id,
			"rank %d fills %.0f %% of what %s carries with frames of %d bytes: headers are %.1f %% of it; with jumbo frames (ip link set %s mtu 9000, on all hosts and switches between them) %.1f %%, and a sixth of the packets",
			lw_run_rank_number(run, (int32_t)(rank - run->network.ranks.at)),
			100 * rank->used_frac, nic->name, ETHERNET_MTU_BYTES, 100 * now, nic->name,
			100 * then);
	}
	return LW_OK;
}

const struct lw_adviser lw_adviser_slow_link = {
	.id = "network.slow_link",
	.title = "A slow link",
	.run = advise_slow,
	.needs_no_replay = true,
	.assumes =
		"A link carries what TCP got acknowledged while data was in flight and got through, or what its NIC sent while TCP was busy throughout.",
	.wrong_if =
		"The receiver is slow, not the link: then TCP_INFO shows it limited by the window or the buffer, and nothing is said.",
	.check = "iperf3 between that host and another, in both directions.",
};

const struct lw_adviser lw_adviser_loss = {
	.id = "network.loss",
	.title = "Lost packets",
	.run = advise_loss,
	.needs_no_replay = true,
	.assumes =
		"An operation that took longer than those of its size without retransmits, and ran while some were sent, was slowed by them.",
	.wrong_if =
		"TCP resent by mistake what was only late: then the counters of both NICs show no drops.",
	.check = "ethtool -S of both NICs and the switch's counters, before and after a run.",
};

const struct lw_adviser lw_adviser_held = {
	.id = "network.held",
	.title = "TCP held back",
	.run = advise_held,
	.needs_no_replay = true,
	.assumes =
		"TCP counts how long it had data to send and the window, or the send buffer, did not let it.",
	.wrong_if =
		"The rank at the other end is slow to read: a larger window only lets more wait for it.",
	.check =
		"ss -tim at both ends during a run: rwnd_limited, sndbuf_limited, rcv_space, skmem; sysctl net.ipv4.tcp_rmem net.ipv4.tcp_wmem.",
};

const struct lw_adviser lw_adviser_interface = {
	.id = "network.interface",
	.title = "The faster interface",
	.run = advise_interface,
	.needs_no_replay = true,
	.assumes =
		"An idle interface with an address could carry the job's traffic at the speed that its driver tells.",
	.wrong_if =
		"It is there for something else (storage), or the other hosts are not on its network.",
	.check = "ip route get ADDRESS-OF-ANOTHER-HOST from its address; iperf3 -B.",
};

const struct lw_adviser lw_adviser_frames = {
	.id = "network.frames",
	.title = "Jumbo frames",
	.run = advise_frames,
	.needs_no_replay = true,
	.assumes = "Frames of 9000 bytes need a sixth of the headers.",
	.wrong_if = "A switch between the hosts does not pass them: connections then hang.",
	.check = "ping -M do -s 8972 to every other host.",
};
