/* SPDX-License-Identifier: Apache-2.0 */
/* network_text.c - the report's section on the network. Ranks are printed up to a number that a page holds. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/emit/report.h"
#include "analyzer/emit/wrap.h"
#include "base/units.h"

enum { MAX_LINES = 16, MAX_OPS = 4 };

#define LEAST_OTHER_FRAC 0.01 /* of a NIC's bytes: worth a line */

static void print_line(FILE *out, const char *name, const char *text)
{
	fprintf(out, "  %-18s ", name);
	lw_print_wrapped(out, 21, 21, text);
}

static void print_algorithm(FILE *out, const struct lw_run *run)
{
	const struct lw_network *net = &run->network;
	char text[LW_NET_TEXT_BYTES + 64];
	int n = snprintf(text, sizeof(text), "%s", lw_algorithm_name(net->algorithm));

	if (net->algorithm == LW_ALGORITHM_STAR)
		n += snprintf(text + n, sizeof(text) - (size_t)n, " at rank %d",
			lw_run_rank_number(run, net->hub));
	snprintf(text + n, sizeof(text) - (size_t)n, ": %s", net->evidence);
	print_line(out, "looks like", text);
}

static const char *bytes_or(double bytes, char text[LW_UNIT_TEXT_BYTES])
{
	return isnan(bytes) ? "?" : lw_bytes_format(bytes, text);
}

/* Of a rank that no way out is told of: gradients leave by the loopback alone, or nobody knows. */
static const char *nic_name(const struct lw_run *run, int32_t r)
{
	const struct lw_net_link *link;
	bool is_loopback = false;

	if (run->network.ranks.at[r].nic != LW_NONE)
		return run->nics.at[run->network.ranks.at[r].nic].name;
	lw_vec_foreach (link, &run->network.links) {
		if (link->from != r || !lw_net_is_edge(run, link))
			continue;
		if (!link->is_loopback)
			return "?";
		is_loopback = true;
	}
	return is_loopback ? "loopback" : "?";
}

static void print_ranks(FILE *out, const struct lw_run *run)
{
	const struct lw_network *net = &run->network;
	char unit[4][LW_UNIT_TEXT_BYTES], text[LW_NET_WORDS_BYTES];

	fprintf(out, "  %4s %8s %8s %8s %6s %8s %10s %-8s %5s\n", "rank", "sent", "received",
		"expected", "in ops", "NIC", "capacity", "", "used");
	for (size_t r = 0; r < net->ranks.n && r < MAX_LINES; r++) {
		const struct lw_net_rank *rank = &net->ranks.at[r];
		char in_ops[16] = "?", used[16] = "?";

		if (!isnan(rank->in_ops_frac))
			snprintf(in_ops, sizeof(in_ops), "%.0f %%", 100 * rank->in_ops_frac);
		if (!isnan(rank->used_frac))
			snprintf(used, sizeof(used), "%.0f %%", 100 * rank->used_frac);
		fprintf(out, "  %4d %8s %8s %8s %6s %8.8s %10s %-8s %5s%s\n",
			lw_run_rank_number(run, (int32_t)r),
			lw_bytes_format(rank->sent_bytes, unit[0]),
			lw_bytes_format(rank->received_bytes, unit[1]),
			bytes_or(rank->expected_bytes, unit[2]), in_ops, nic_name(run, (int32_t)r),
			isnan(rank->capacity_bytes_per_s)
				? "?"
				: lw_rate_format(rank->capacity_bytes_per_s, unit[3]),
			isnan(rank->capacity_bytes_per_s)
				? ""
				: lw_capacity_name((enum lw_capacity_from)rank->capacity_from),
			used, rank->is_hot ? " hot" : "");
	}
	if (net->ranks.n > MAX_LINES)
		fprintf(out, "  ... and %zu more ranks (--json has all)\n",
			net->ranks.n - MAX_LINES);
	if (*lw_ways_changed_text(run, text))
		print_line(out, "ways out changed", text);
}

static int compare_used(const void *a, const void *b)
{
	const struct lw_net_link *const *x = a, *const *y = b;
	double by = (*y)->used_frac - (*x)->used_frac;

	return by ? (by > 0) - (by < 0) : (*x > *y) - (*x < *y);
}

/* Where a rank sends to one other only, its own line says it. */
static void print_links(FILE *out, const struct lw_run *run)
{
	const struct lw_network *net = &run->network;
	const struct lw_net_link *link, **used = calloc(net->links.n + 1, sizeof(*used));
	char unit[2][LW_UNIT_TEXT_BYTES];
	bool has_several = false;
	size_t n = 0;

	lw_vec_foreach (link, &net->links)
		if (used && !isnan(link->used_frac)) {
			has_several |= net->ranks.at[link->from].n_out > 1;
			used[n++] = link;
		}
	if (n && has_several) {
		qsort(used, n, sizeof(*used), compare_used);
		fprintf(out, "  %4s %4s %8s %10s %5s\n", "from", "to", "sent", "way out", "used");
	}
	for (size_t i = 0; i < n && i < MAX_LINES && has_several; i++)
		fprintf(out, "  %4d %4d %8s %10s %3.0f %%\n",
			lw_run_rank_number(run, used[i]->from),
			lw_run_rank_number(run, used[i]->to),
			lw_bytes_format(used[i]->step_bytes, unit[0]),
			lw_rate_format(used[i]->capacity_bytes_per_s, unit[1]),
			100 * used[i]->used_frac);
	if (n > MAX_LINES && has_several)
		fprintf(out, "  ... and %zu more links (--json has all)\n", n - MAX_LINES);
	free(used);
}

static void print_ops(FILE *out, const struct lw_run *run)
{
	const struct lw_network *net = &run->network;
	char text[LW_NET_WORDS_BYTES];

	for (size_t i = 0; i < net->ops.n && i < MAX_OPS; i++)
		print_line(out, lw_coll_name(net->ops.at[i].op),
			lw_net_op_text(run, &net->ops.at[i], text));
}

static void print_slow(FILE *out, const struct lw_run *run)
{
	char text[LW_NET_WORDS_BYTES], words[LW_NET_WORDS_BYTES];

	if (*lw_server_text(run, words))
		print_line(out, "server", words);
	if (*lw_net_slow_text(run, text))
		print_line(out, "slow link", text);
}

static void print_reach(FILE *out, const struct lw_run *run)
{
	char text[LW_NET_WORDS_BYTES];

	if (*lw_reach_text(run, text))
		print_line(out, "allreduces reach", text);
}

/* Queues fill, and counters grow, without harm: they have a line when something was slowed. What held TCP back has one anyway. */
static void print_slowed(FILE *out, const struct lw_run *run)
{
	const struct lw_net_slowed *slowed = &run->network.slowed;
	char text[LW_NET_WORDS_BYTES];
	int n_lines = 0;

	if (*lw_resent_text(run, text))
		print_line(out, "sent again", text);
	for (int c = 0; c < LW_N_CAUSES; c++) {
		bool is_held = c == LW_CAUSE_WINDOW || c == LW_CAUSE_BUFFER;

		n_lines += slowed->by[c].n_slowed > 0;
		if (c != LW_CAUSE_RESENT &&
			(slowed->by[c].n_slowed || (is_held && slowed->by[c].n_hit)))
			print_line(out, lw_net_cause_name((enum lw_net_cause)c),
				lw_caused_text(run, c, text));
	}
	if (n_lines > 1)
		print_line(out, "slowed in all", lw_slowed_text(run, text));
}

/* What is known of who it is, beyond the name. */
static const char *candidate_note(const struct lw_run *run, const struct lw_net_candidate *one)
{
	if (one->is_others)
		return "";
	if (one->is_storage)
		return " (a port of storage)";
	if (!one->is_job)
		return "";
	return run->n_missing_ranks ? " (perhaps a rank that was not recorded)"
				    : " (no rank has the other end)";
}

static void print_candidates(
	FILE *out, const struct lw_run *run, const struct lw_net_account *account)
{
	const struct lw_net_candidate *one;
	char text[400], unit[2][LW_UNIT_TEXT_BYTES];

	lw_vec_foreach (one, &account->candidates) {
		char outside[48] = "";

		if (!isnan(one->outside_frac))
			snprintf(outside, sizeof(outside), ", %.0f %% outside of operations",
				100 * one->outside_frac);
		snprintf(text, sizeof(text), "%s: %s in, %s out%s%s", one->text,
			lw_bytes_format(one->in_bytes, unit[0]),
			lw_bytes_format(one->out_bytes, unit[1]), outside,
			candidate_note(run, one));
		print_line(out, "", text);
	}
}

static const char *count_format(double n, char text[LW_UNIT_TEXT_BYTES])
{
	snprintf(text, LW_UNIT_TEXT_BYTES, "%.0f", n);
	return text;
}

/* Some ports count no bytes: then their packets tell. */
static void print_port(FILE *out, const struct lw_run *run, const struct lw_net_account *account)
{
	const struct lw_nic *nic = &run->nics.at[account->nic];
	bool has_bytes = !isnan(account->tx_bytes);
	const char *(*format)(double value, char text[LW_UNIT_TEXT_BYTES]) =
		has_bytes ? lw_bytes_format : count_format;
	double tx = has_bytes ? account->other_tx_bytes : account->other_tx_packets;
	double rx = has_bytes ? account->other_rx_bytes : account->other_rx_packets;
	double all = has_bytes ? account->tx_bytes + account->rx_bytes
			       : account->tx_packets + account->rx_packets;
	char text[900], owner[LW_OWNER_TEXT_BYTES], unit[4][LW_UNIT_TEXT_BYTES];

	snprintf(text, sizeof(text),
		"(%s) %s of %s%s %s beyond what the job asked libibverbs for (%s out, %s in)%s%s",
		lw_nic_owner_text(run, nic, owner), format(tx + rx, unit[0]), format(all, unit[1]),
		has_bytes ? "" : " packets", has_bytes ? "is" : "are", format(tx, unit[2]),
		format(rx, unit[3]), account->may_be ? ": " : "",
		account->may_be ? account->may_be : "");
	print_line(out, nic->name, text);
}

static bool is_port(const struct lw_run *run, const struct lw_net_account *account)
{
	return !strcmp(run->nics.at[account->nic].kind, "rdma_port");
}

static double other_bytes(const struct lw_net_account *account)
{
	return account->other_tx_bytes + account->other_rx_bytes;
}

static bool is_worth_a_line(const struct lw_run *run, const struct lw_net_account *account)
{
	if (account->candidates.n || account->may_be)
		return true;
	return !is_port(run, account) &&
	       other_bytes(account) >= LEAST_OTHER_FRAC * (account->tx_bytes + account->rx_bytes);
}

static void print_account(FILE *out, const struct lw_run *run, const struct lw_net_account *account)
{
	const struct lw_nic *nic = &run->nics.at[account->nic];
	char text[700], owner[LW_OWNER_TEXT_BYTES], unit[4][LW_UNIT_TEXT_BYTES];
	char unseen[LW_UNSEEN_TEXT_BYTES];
	int n;

	if (is_port(run, account)) {
		print_port(out, run, account);
		print_candidates(out, run, account);
		return;
	}
	n = snprintf(text, sizeof(text),
		"(%s) %s of %s is not of the job's connections and their headers (%s out, %s in)",
		lw_nic_owner_text(run, nic, owner), lw_bytes_format(other_bytes(account), unit[0]),
		lw_bytes_format(account->tx_bytes + account->rx_bytes, unit[1]),
		lw_bytes_format(account->other_tx_bytes, unit[2]),
		lw_bytes_format(account->other_rx_bytes, unit[3]));
	if (!isnan(account->other_step_bytes))
		n += snprintf(text + n, sizeof(text) - (size_t)n, "; %s a step",
			lw_bytes_format(account->other_step_bytes, unit[0]));
	if (account->unseen_bytes >= LEAST_OTHER_FRAC * (account->tx_bytes + account->rx_bytes))
		n += snprintf(text + n, sizeof(text) - (size_t)n,
			"; %s on no TCP connection that was seen: %s",
			lw_bytes_format(account->unseen_bytes, unit[0]),
			lw_net_unseen_text(run, unseen));
	if (!account->is_packet_counted)
		snprintf(text + n, sizeof(text) - (size_t)n,
			"; headers assumed from the MTU, segments were not counted");
	print_line(out, nic->name, text);
	print_candidates(out, run, account);
}

static int by_other_bytes(const void *a, const void *b)
{
	const struct lw_net_account *const *x = a, *const *y = b;
	double x_bytes = other_bytes(*x), y_bytes = other_bytes(*y);

	if ((y_bytes > x_bytes) != (y_bytes < x_bytes))
		return y_bytes > x_bytes ? 1 : -1;
	return ((*x)->nic > (*y)->nic) - ((*x)->nic < (*y)->nic);
}

static int by_growth(const void *a, const void *b)
{
	const struct lw_net_trouble *const *x = a, *const *y = b;

	if ((*x)->n != (*y)->n)
		return (*y)->n > (*x)->n ? 1 : -1;
	return (*x > *y) - (*x < *y);
}

/* A host of containers may have thousands of devices. */
static void print_accounts(FILE *out, const struct lw_run *run)
{
	const struct lw_network *net = &run->network;
	const struct lw_net_account **lines = calloc(net->accounts.n + 1, sizeof(*lines)), *account;
	size_t n = 0;

	lw_vec_foreach (account, &net->accounts)
		if (lines && is_worth_a_line(run, account))
			lines[n++] = account;
	if (n > MAX_LINES)
		qsort(lines, n, sizeof(*lines), by_other_bytes);
	for (size_t i = 0; i < n && i < MAX_LINES; i++)
		print_account(out, run, lines[i]);
	if (n > MAX_LINES)
		fprintf(out, "  ... and %zu more NICs with traffic of others (--json has all)\n",
			n - MAX_LINES);
	free(lines);
}

static void print_troubles(FILE *out, const struct lw_run *run)
{
	const struct lw_network *net = &run->network;
	const struct lw_net_trouble **lines = calloc(net->troubles.n + 1, sizeof(*lines)), *trouble;
	char text[160 + LW_OWNER_TEXT_BYTES], owner[LW_OWNER_TEXT_BYTES];
	size_t n = 0;

	lw_vec_foreach (trouble, &net->troubles)
		if (lines)
			lines[n++] = trouble;
	if (n > MAX_LINES)
		qsort(lines, n, sizeof(*lines), by_growth);
	for (size_t i = 0; i < n && i < MAX_LINES; i++) {
		const struct lw_nic *nic = &run->nics.at[lines[i]->nic];

		snprintf(text, sizeof(text), "(%s) %s grew by %.0f",
			lw_nic_owner_text(run, nic, owner), lines[i]->counter, lines[i]->n);
		print_line(out, nic->name, text);
	}
	if (n > MAX_LINES)
		fprintf(out, "  ... and %zu more counters of errors (--json has all)\n",
			n - MAX_LINES);
	free(lines);
}

void lw_network_text(const struct lw_analysis *analysis, FILE *out)
{
	const struct lw_run *run = analysis->run;
	const struct lw_network *net = &run->network;

	if (!net->ranks.n && !net->accounts.n)
		return;
	fprintf(out, "Network (%s; sent and received: between ranks, without headers)\n",
		net->n_steps ? "a counted step" : "whole run");
	print_algorithm(out, run);
	print_ops(out, run);
	print_slow(out, run);
	print_reach(out, run);
	print_slowed(out, run);
	print_troubles(out, run);
	print_accounts(out, run);
	if (net->ranks.n) {
		print_ranks(out, run);
		print_links(out, run);
	}
	fputc('\n', out);
}
