/* SPDX-License-Identifier: Apache-2.0 */
/* network_json.c - what is said of the network, as keys of "network" (docs/schema/report.json). */
#include <math.h>

#include "analyzer/emit/json.h"
#include "analyzer/emit/report.h"

static void put_rank_number(
	struct lw_json *json, const char *key, const struct lw_run *run, int32_t rank)
{
	if (rank == LW_NONE)
		lw_json_null(json, key);
	else
		lw_json_int(json, key, lw_run_rank_number(run, rank));
}

static const char *nic_name(const struct lw_run *run, int32_t nic)
{
	return nic == LW_NONE ? NULL : run->nics.at[nic].name;
}

/* Whose it is: its name alone is that of many. */
static void put_owner(struct lw_json *json, const struct lw_run *run, int32_t index)
{
	const struct lw_nic *nic = index == LW_NONE ? NULL : &run->nics.at[index];
	const int32_t *rank;

	lw_json_string(json, "host", nic && *nic->host ? nic->host : NULL);
	lw_json_string(json, "addresses", nic ? nic->addresses : NULL);
	lw_json_array(json, "ranks");
	if (nic)
		lw_vec_foreach (rank, &run->nics.at[nic->same_as].ranks)
			lw_json_int(json, NULL, lw_run_rank_number(run, *rank));
	lw_json_array_end(json);
}

static const char *const capacity_names[] = {[LW_CAPACITY_NONE] = NULL,
	[LW_CAPACITY_PLATEAU] = "plateau",
	[LW_CAPACITY_BUSY] = "busy",
	[LW_CAPACITY_SPEED] = "speed"};

static void put_ranks(struct lw_json *json, const struct lw_run *run)
{
	const struct lw_net_rank *rank;

	lw_json_array(json, "by_rank");
	lw_vec_foreach (rank, &run->network.ranks) {
		lw_json_object(json, NULL);
		lw_json_int(json, "rank",
			lw_run_rank_number(run, (int32_t)(rank - run->network.ranks.at)));
		lw_json_double(json, "sent_bytes", rank->sent_bytes);
		lw_json_double(json, "received_bytes", rank->received_bytes);
		lw_json_double(json, "expected_bytes", rank->expected_bytes);
		lw_json_double(json, "in_ops_frac", rank->in_ops_frac);
		lw_json_double(json, "other_sent_bytes", rank->other_sent_bytes);
		lw_json_double(json, "other_received_bytes", rank->other_received_bytes);
		lw_json_int(json, "n_out", rank->n_out);
		lw_json_int(json, "n_in", rank->n_in);
		lw_json_bool(json, "is_hot", rank->is_hot);
		lw_json_string(json, "nic", nic_name(run, rank->nic));
		lw_json_double(json, "capacity_bytes_per_s", rank->capacity_bytes_per_s);
		lw_json_string(json, "capacity_from", capacity_names[rank->capacity_from]);
		lw_json_double(
			json, "capacity_before_bytes_per_s", rank->capacity_before_bytes_per_s);
		if (rank->capacity_since_ns == LW_NS_UNKNOWN)
			lw_json_null(json, "capacity_since_ns");
		else
			lw_json_int(json, "capacity_since_ns",
				rank->capacity_since_ns -
					run->ranks.at[rank - run->network.ranks.at].start_ns);
		lw_json_double(json, "used_frac", rank->used_frac);
		lw_json_int(json, "n_sharing", rank->n_sharing);
		lw_json_double(json, "fitted_bytes_per_s", rank->fitted_bytes_per_s);
		lw_json_object_end(json);
	}
	lw_json_array_end(json);
}

static void put_links(struct lw_json *json, const struct lw_run *run)
{
	const struct lw_net_link *link;

	lw_json_array(json, "links");
	lw_vec_foreach (link, &run->network.links) {
		lw_json_object(json, NULL);
		put_rank_number(json, "from", run, link->from);
		put_rank_number(json, "to", run, link->to);
		lw_json_double(json, "step_bytes", link->step_bytes);
		lw_json_double(json, "run_bytes", link->run_bytes);
		lw_json_double(json, "rdma_bytes", link->rdma_bytes);
		lw_json_double(json, "rdma_step_bytes", link->rdma_step_bytes);
		lw_json_double(json, "acked_bytes", link->acked_bytes);
		lw_json_double(json, "packet_bytes", link->packet_bytes);
		lw_json_double(json, "busy_bytes_per_s", link->busy_bytes_per_s);
		lw_json_double(json, "rwnd_limited_frac", link->rwnd_limited_frac);
		lw_json_double(json, "sndbuf_limited_frac", link->sndbuf_limited_frac);
		lw_json_double(json, "rtt_ns", link->rtt_ns);
		lw_json_double(json, "min_rtt_ns", link->min_rtt_ns);
		lw_json_double(json, "n_retransmits", link->n_retransmits);
		lw_json_double(json, "n_segments", link->n_segments);
		lw_json_double(json, "n_psn_gaps", link->n_psn_gaps);
		lw_json_double(json, "n_naks", link->n_naks);
		lw_json_double(json, "capacity_bytes_per_s", link->capacity_bytes_per_s);
		lw_json_double(json, "used_frac", link->used_frac);
		lw_json_object_end(json);
	}
	lw_json_array_end(json);
}

static void put_server(struct lw_json *json, const struct lw_run *run)
{
	const struct lw_net_server *server = &run->network.server;

	lw_json_object(json, "server");
	put_rank_number(json, "rank", run, server->rank);
	lw_json_double(json, "in_frac", server->in_frac);
	lw_json_double(json, "out_frac", server->out_frac);
	lw_json_bool(json, "is_full", lw_net_is_server_full(server));
	lw_json_object_end(json);
}

static void put_candidates(struct lw_json *json, const struct lw_net_account *account)
{
	const struct lw_net_candidate *one;

	lw_json_array(json, "candidates");
	lw_vec_foreach (one, &account->candidates) {
		lw_json_object(json, NULL);
		lw_json_string(json, "who", one->text);
		lw_json_double(json, "in_bytes", one->in_bytes);
		lw_json_double(json, "out_bytes", one->out_bytes);
		lw_json_bool(json, "is_job", one->is_job);
		lw_json_bool(json, "is_storage", one->is_storage);
		lw_json_bool(json, "is_others", one->is_others);
		lw_json_int(json, "n_connections", (int64_t)one->n_connections);
		lw_json_double(json, "outside_ops_frac", one->outside_frac);
		lw_json_object_end(json);
	}
	lw_json_array_end(json);
}

static void put_foreign(struct lw_json *json, const struct lw_net_foreign *foreign)
{
	lw_json_object(json, "others_in_steps");
	lw_json_double(json, "tx_frac", foreign->tx_frac);
	lw_json_double(json, "rx_frac", foreign->rx_frac);
	lw_json_int(json, "n_steps_with", foreign->n_with);
	lw_json_int(json, "n_steps_without", foreign->n_without);
	lw_json_double(json, "with_ns", foreign->with_ns);
	lw_json_double(json, "without_ns", foreign->without_ns);
	lw_json_double(json, "resolution_ns", foreign->resolution_ns);
	lw_json_object_end(json);
}

static void put_nics(struct lw_json *json, const struct lw_run *run)
{
	const struct lw_net_account *account;

	lw_json_array(json, "nics");
	lw_vec_foreach (account, &run->network.accounts) {
		const struct lw_nic *nic = &run->nics.at[account->nic];

		lw_json_object(json, NULL);
		lw_json_string(json, "name", nic->name);
		lw_json_string(json, "kind", nic->kind);
		put_owner(json, run, account->nic);
		lw_json_double(json, "tx_bytes", account->tx_bytes);
		lw_json_double(json, "rx_bytes", account->rx_bytes);
		lw_json_double(json, "job_tx_bytes", account->job_tx_bytes);
		lw_json_double(json, "job_rx_bytes", account->job_rx_bytes);
		lw_json_double(json, "header_tx_bytes", account->header_tx_bytes);
		lw_json_double(json, "header_rx_bytes", account->header_rx_bytes);
		lw_json_double(json, "again_rx_bytes", account->again_rx_bytes);
		lw_json_string(json, "headers_from",
			account->is_packet_counted ? "counted segments" : "assumed from the MTU");
		lw_json_double(json, "other_tx_bytes", account->other_tx_bytes);
		lw_json_double(json, "other_rx_bytes", account->other_rx_bytes);
		lw_json_double(json, "other_unseen_bytes", account->unseen_bytes);
		lw_json_double(json, "other_bytes_per_step", account->other_step_bytes);
		put_foreign(json, &account->foreign);
		lw_json_double(json, "tx_packets", account->tx_packets);
		lw_json_double(json, "rx_packets", account->rx_packets);
		lw_json_double(json, "job_tx_packets", account->job_tx_packets);
		lw_json_double(json, "job_rx_packets", account->job_rx_packets);
		lw_json_double(json, "other_tx_packets", account->other_tx_packets);
		lw_json_double(json, "other_rx_packets", account->other_rx_packets);
		lw_json_string(json, "may_be", account->may_be);
		put_candidates(json, account);
		lw_json_object_end(json);
	}
	lw_json_array_end(json);
}

static void put_ops(struct lw_json *json, const struct lw_run *run)
{
	const struct lw_net_op *op;

	lw_json_array(json, "operations");
	lw_vec_foreach (op, &run->network.ops) {
		lw_json_object(json, NULL);
		lw_json_string(json, "op", lw_coll_name(op->op));
		if (op->bytes)
			lw_json_int(json, "bytes", (int64_t)op->bytes);
		else
			lw_json_null(json, "bytes");
		lw_json_int(json, "n", op->n);
		lw_json_double(json, "mean_ns", op->mean_ns);
		lw_json_double(json, "resolution_ns", op->resolution_ns);
		lw_json_double(json, "sent_bytes", op->sent_bytes);
		lw_json_double(json, "expected_bytes", op->expected_bytes);
		lw_json_object_end(json);
	}
	lw_json_array_end(json);
	lw_json_string(json, "operations_from",
		!run->network.ops.n             ? NULL
		: run->network.are_ops_captured ? "packets"
						: "samples");
}

static const char *const against_names[] = {[LW_AGAINST_NONE] = NULL,
	[LW_AGAINST_CALM] = "those without",
	[LW_AGAINST_FIT] = "a cost fitted to those without"};

static void put_retransmits(struct lw_json *json, const struct lw_run *run)
{
	const struct lw_net_slowed *slowed = &run->network.slowed;
	const struct lw_net_caused *caused = &slowed->by[LW_CAUSE_RESENT];

	lw_json_object(json, "retransmits");
	lw_json_double(json, "n", slowed->n_retransmits);
	lw_json_double(json, "frac", slowed->frac);
	lw_json_bool(json, "is_by_rdma_port", slowed->is_by_port);
	put_rank_number(json, "worst_from", run, slowed->worst_from);
	put_rank_number(json, "worst_to", run, slowed->worst_to);
	lw_json_double(json, "worst_n", slowed->worst_n);
	lw_json_double(json, "worst_frac", slowed->worst_frac);
	lw_json_int(json, "n_ops", caused->n_ops);
	lw_json_int(json, "n_ops_meanwhile", caused->n_hit);
	lw_json_int(json, "n_ops_compared", caused->n_compared);
	lw_json_int(json, "n_ops_slowed", caused->n_slowed);
	lw_json_double(json, "lost_ns", caused->lost_ns);
	lw_json_double(json, "slower_frac", caused->normal_frac);
	lw_json_string(json, "against", against_names[caused->against]);
	lw_json_double(json, "resolution_ns", caused->resolution_ns);
	lw_json_object_end(json);
}

static const char *const cause_names[LW_N_CAUSES] = {[LW_CAUSE_RESENT] = "resent",
	[LW_CAUSE_WINDOW] = "window",
	[LW_CAUSE_BUFFER] = "buffer",
	[LW_CAUSE_QUEUE] = "queue",
	[LW_CAUSE_DEVICE] = "device"};

static void put_cause(struct lw_json *json, const struct lw_run *run, int cause)
{
	const struct lw_net_caused *caused = &run->network.slowed.by[cause];

	lw_json_object(json, NULL);
	lw_json_string(json, "cause", cause_names[cause]);
	lw_json_int(json, "n_ops_meanwhile", caused->n_hit);
	lw_json_int(json, "n_ops_compared", caused->n_compared);
	lw_json_int(json, "n_ops_slowed", caused->n_slowed);
	lw_json_int(json, "n_ops_unclear", caused->n_unclear);
	lw_json_int(json, "n_ops_alone", caused->n_alone);
	lw_json_double(json, "lost_ns", caused->lost_ns);
	lw_json_double(json, "lost_alone_ns", caused->lost_alone_ns);
	lw_json_double(json, "slower_frac", caused->normal_frac);
	lw_json_string(json, "against", against_names[caused->against]);
	lw_json_double(json, "resolution_ns", caused->resolution_ns);
	lw_json_double(json, "amount", caused->amount);
	lw_json_bool(json, "is_by_packets", caused->is_by_packets);
	lw_json_double(json, "worst_amount", caused->worst_amount);
	put_rank_number(json, "worst_from", run, caused->from);
	put_rank_number(json, "worst_to", run, caused->to);
	lw_json_string(json, "nic", nic_name(run, caused->nic));
	put_owner(json, run, caused->nic);
	lw_json_string(json, "counter", caused->counter);
	lw_json_object_end(json);
}

static void put_slowed(struct lw_json *json, const struct lw_run *run)
{
	const struct lw_net_slowed *slowed = &run->network.slowed;

	lw_json_object(json, "slowed");
	lw_json_int(json, "n_ops", slowed->n_ops);
	lw_json_int(json, "n_ops_meanwhile", slowed->n_hit);
	lw_json_int(json, "n_ops_compared", slowed->n_compared);
	lw_json_int(json, "n_ops_slowed", slowed->n_slowed);
	lw_json_double(json, "lost_ns", slowed->lost_ns);
	lw_json_array(json, "causes");
	for (int c = 0; c < LW_N_CAUSES; c++)
		if (slowed->by[c].n_hit)
			put_cause(json, run, c);
	lw_json_array_end(json);
	lw_json_object_end(json);
}

static const char *const reason_names[LW_N_REASONS] = {[LW_REASON_LATENCY] = "latency",
	[LW_REASON_WINDOW] = "window",
	[LW_REASON_BUFFER] = "buffer",
	[LW_REASON_SLOWED] = "slowed",
	[LW_REASON_CORES] = "cores",
	[LW_REASON_IDLE] = "idle"};

static void put_reach(struct lw_json *json, const struct lw_run *run)
{
	const struct lw_net_reach *reach = &run->network.reach;

	lw_json_object(json, "reach");
	put_rank_number(json, "rank", run, reach->rank);
	lw_json_double(json, "fitted_frac", reach->fitted_frac);
	lw_json_double(json, "mean_frac", reach->mean_frac);
	lw_json_bool(json, "is_low", lw_net_is_low(reach));
	lw_json_array(json, "reasons");
	for (int i = 0; i < LW_N_REASONS; i++) {
		if (!(reach->reasons >> i & 1))
			continue;
		lw_json_object(json, NULL);
		lw_json_string(json, "reason", reason_names[i]);
		lw_json_double(json, "frac", reach->reason[i]);
		lw_json_object_end(json);
	}
	lw_json_array_end(json);
	lw_json_object_end(json);
}

void lw_network_json(struct lw_json *json, const struct lw_analysis *analysis)
{
	const struct lw_run *run = analysis->run;
	const struct lw_network *net = &run->network;
	const struct lw_net_trouble *trouble;

	lw_json_object(json, "algorithm");
	lw_json_string(json, "name",
		net->algorithm == LW_ALGORITHM_UNKNOWN ? NULL : lw_algorithm_name(net->algorithm));
	lw_json_string(json, "evidence", net->evidence);
	put_rank_number(json, "hub", run, net->hub);
	lw_json_double(json, "off_frac", net->off_frac);
	lw_json_double(json, "op_bytes_per_step", net->op_bytes);
	lw_json_int(json, "n_steps", (int64_t)net->n_steps);
	lw_json_object_end(json);
	put_rank_number(json, "slow_rank", run, net->slow_rank);
	put_rank_number(json, "slow_to", run, net->slow_to);
	lw_json_double(json, "others_bytes_per_s", net->others_bytes_per_s);
	put_server(json, run);
	put_ranks(json, run);
	put_links(json, run);
	put_nics(json, run);
	put_ops(json, run);
	put_retransmits(json, run);
	put_slowed(json, run);
	put_reach(json, run);
	lw_json_array(json, "troubles");
	lw_vec_foreach (trouble, &net->troubles) {
		lw_json_object(json, NULL);
		lw_json_string(json, "nic", nic_name(run, trouble->nic));
		put_owner(json, run, trouble->nic);
		lw_json_string(json, "counter", trouble->counter);
		lw_json_double(json, "n", trouble->n);
		lw_json_object_end(json);
	}
	lw_json_array_end(json);
}
