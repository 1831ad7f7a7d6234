/* SPDX-License-Identifier: Apache-2.0 */
/* network_words.c - in words: how much of the links operations reach, and what slowed them. For report and views. */
#include <math.h>
#include <stdarg.h>

#include "analyzer/emit/report.h"
#include "base/units.h"

enum { LEAST_RETRANSMITS = 10, N_EDGES = 2 };
#define SAME_FRAC 0.1

__attribute__((format(printf, 3, 4))) static void append(
	char text[LW_NET_WORDS_BYTES], size_t *n, const char *format, ...)
{
	va_list arguments;
	int added;

	va_start(arguments, format);
	added = vsnprintf(text + *n, LW_NET_WORDS_BYTES - *n, format, arguments);
	va_end(arguments);
	*n += added > 0 ? (size_t)added : 0;
	if (*n >= LW_NET_WORDS_BYTES)
		*n = LW_NET_WORDS_BYTES - 1;
}

const char *lw_capacity_name(enum lw_capacity_from from)
{
	static const char *const names[] = {[LW_CAPACITY_NONE] = "not known",
		[LW_CAPACITY_PLATEAU] = "plateau",
		[LW_CAPACITY_BUSY] = "at least",
		[LW_CAPACITY_SPEED] = "nominal"};

	return names[from];
}

/* ---- what operations reach ------------------------------------------------------------------------- */

static const char *const reason_words[LW_N_REASONS] = {
	[LW_REASON_LATENCY] = "of the time is what an operation costs whatever its size",
	[LW_REASON_WINDOW] = "of the time in operations a receiver's window held TCP back",
	[LW_REASON_BUFFER] = "of the time in operations a send buffer held TCP back",
	[LW_REASON_SLOWED] = "of the time was lost by operations that something slowed",
	[LW_REASON_CORES] = "of a step ranks that had to compute waited for a core",
	[LW_REASON_IDLE] =
		"of the time in operations nothing was in flight there: its rank waited, added up, copied"};

const char *lw_reach_text(const struct lw_run *run, char text[LW_NET_WORDS_BYTES])
{
	const struct lw_net_reach *reach = &run->network.reach;
	const struct lw_net_rank *rank;
	char unit[3][LW_UNIT_TEXT_BYTES];
	size_t n = 0;

	text[0] = '\0';
	if (reach->rank == LW_NONE)
		return text;
	rank = &run->network.ranks.at[reach->rank];
	append(text, &n, "%.0f %% of what the way out of rank %d carries (%s %s)",
		100 * reach->mean_frac, lw_run_rank_number(run, reach->rank),
		lw_capacity_name((enum lw_capacity_from)rank->capacity_from),
		lw_rate_format(rank->capacity_bytes_per_s, unit[0]));
	if (!isnan(reach->fitted_frac))
		append(text, &n, ", %.0f %% by the fitted cost of a byte (%s)",
			100 * reach->fitted_frac,
			lw_rate_format(rank->fitted_bytes_per_s, unit[1]));
	if (!lw_net_is_low(reach))
		return text;
	for (int i = 0; i < LW_N_REASONS; i++)
		if (reach->reasons >> i & 1)
			append(text, &n, "; %.0f %% %s", 100 * reach->reason[i], reason_words[i]);
	if (!reach->reasons)
		append(text, &n, "; nothing that was recorded says why not more");
	return text;
}

/* ---- what slowed them ------------------------------------------------------------------------------ */

static const char *amount_text(int cause, double amount, char text[LW_UNIT_TEXT_BYTES])
{
	if (cause == LW_CAUSE_RESENT || cause == LW_CAUSE_DEVICE)
		snprintf(text, LW_UNIT_TEXT_BYTES, "%.0f", amount);
	else
		lw_ns_format(amount, text);
	return text;
}

static void add_what(const struct lw_run *run, int cause, char *text, size_t *n)
{
	static const char *const verbs[LW_N_CAUSES] = {[LW_CAUSE_RESENT] = "sent again: ",
		[LW_CAUSE_WINDOW] = "held TCP back for ",
		[LW_CAUSE_BUFFER] = "held TCP back for ",
		[LW_CAUSE_QUEUE] = "round trips far above the usual for ",
		[LW_CAUSE_DEVICE] = ""};
	const struct lw_net_caused *caused = &run->network.slowed.by[cause];
	char unit[2][LW_UNIT_TEXT_BYTES], owner[LW_OWNER_TEXT_BYTES];

	if (caused->counter)
		append(text, n, "%s of %s (%s)", caused->counter, run->nics.at[caused->nic].name,
			lw_nic_owner_text(run, &run->nics.at[caused->nic], owner));
	append(text, n, "%s%s%s", verbs[cause], caused->counter ? " grew by " : "",
		amount_text(cause, caused->amount, unit[0]));
	if (caused->from != LW_NONE)
		append(text, n, ", most from rank %d to %d (%s)",
			lw_run_rank_number(run, caused->from), lw_run_rank_number(run, caused->to),
			amount_text(cause, caused->worst_amount, unit[1]));
}

static const char *const against[] = {[LW_AGAINST_NONE] = "",
	[LW_AGAINST_CALM] = "",
	[LW_AGAINST_FIT] = ", against a cost fitted to those without"};

static void add_ops(const struct lw_net_caused *caused, char text[LW_NET_WORDS_BYTES], size_t *n)
{
	char unit[2][LW_UNIT_TEXT_BYTES];

	if (!caused->n_hit)
		return;
	append(text, n, "; %u", caused->n_hit);
	if (caused->n_compared == caused->n_hit)
		append(text, n, " of %u", caused->n_ops);
	append(text, n, " operations ran meanwhile (times within %s)",
		lw_ns_exact(caused->resolution_ns, unit[0]));
	if (caused->n_compared && caused->n_compared < caused->n_hit)
		append(text, n, "; %u of them can be compared", caused->n_compared);
	if (!caused->n_compared)
		append(text, n, ", too few of their kind without: what it cost cannot be told");
	else if (!caused->n_slowed && caused->n_unclear)
		append(text, n, ", %u of them slow, but not by this as far as can be told",
			caused->n_unclear);
	else if (!caused->n_slowed)
		append(text, n, ", no slower than others");
	else
		append(text, n, ", %u of them slowed by %.0f %%, %s in all%s", caused->n_slowed,
			100 * caused->normal_frac, lw_ns_format(caused->lost_ns, unit[1]),
			against[caused->against]);
	if (caused->n_slowed > caused->n_alone && caused->n_alone)
		append(text, n, " (%s of it where nothing else did)",
			lw_ns_format(caused->lost_alone_ns, unit[0]));
	else if (caused->n_slowed && !caused->n_alone)
		append(text, n, " (something else did too)");
}

/* Of TCP: what was counted of packets where those were captured, if it is another number than TCP's own. */
static void add_captured(const struct lw_run *run, char *text, size_t *n)
{
	const struct lw_net_slowed *slowed = &run->network.slowed;
	double captured = slowed->by[LW_CAUSE_RESENT].amount;
	const struct lw_net_link *link;

	lw_vec_foreach (link, &run->network.links)
		if (link->rdma_bytes > 0)
			return;
	if (slowed->by[LW_CAUSE_RESENT].is_by_packets &&
		fabs(captured - slowed->n_retransmits) >
			SAME_FRAC * fmax(captured, slowed->n_retransmits))
		append(text, n, " by TCP, %.0f by captured packets", captured);
}

const char *lw_resent_text(const struct lw_run *run, char text[LW_NET_WORDS_BYTES])
{
	const struct lw_net_slowed *slowed = &run->network.slowed;
	size_t n = 0;

	text[0] = '\0';
	if (isnan(slowed->n_retransmits))
		return text;
	append(text, &n, "%.0f %s", slowed->n_retransmits,
		slowed->is_by_port ? "NAKs and timeouts, by the counters of the RDMA ports"
				   : "segments");
	add_captured(run, text, &n);
	if (!isnan(slowed->frac))
		append(text, &n,
			slowed->is_by_port ? ", %.3g for 100 packets that they sent"
					   : ", %.3g %% of what was sent",
			100 * slowed->frac);
	if (slowed->worst_from != LW_NONE && slowed->n_retransmits >= LEAST_RETRANSMITS) {
		append(text, &n, ", most from rank %d to %d (%.0f",
			lw_run_rank_number(run, slowed->worst_from),
			lw_run_rank_number(run, slowed->worst_to), slowed->worst_n);
		if (!isnan(slowed->worst_frac))
			append(text, &n, ", %.3g %% of that link's", 100 * slowed->worst_frac);
		append(text, &n, ")");
	}
	add_ops(&slowed->by[LW_CAUSE_RESENT], text, &n);
	return text;
}

const char *lw_caused_text(const struct lw_run *run, int cause, char text[LW_NET_WORDS_BYTES])
{
	size_t n = 0;

	text[0] = '\0';
	add_what(run, cause, text, &n);
	add_ops(&run->network.slowed.by[cause], text, &n);
	return text;
}

const char *lw_slowed_text(const struct lw_run *run, char text[LW_NET_WORDS_BYTES])
{
	const struct lw_net_slowed *slowed = &run->network.slowed;
	const struct lw_net_caused *most = &slowed->by[0], *caused;
	char unit[LW_UNIT_TEXT_BYTES], owner[LW_OWNER_TEXT_BYTES];
	size_t n = 0;

	text[0] = '\0';
	for (caused = slowed->by; caused < slowed->by + LW_N_CAUSES; caused++)
		if (caused->lost_ns > most->lost_ns)
			most = caused;
	if (!most->n_slowed)
		return text;
	append(text, &n, "%u of %u operations, %s in all: %s", slowed->n_slowed, slowed->n_ops,
		lw_ns_format(slowed->lost_ns, unit),
		lw_net_cause_name((enum lw_net_cause)(most - slowed->by)));
	if (most->from != LW_NONE)
		append(text, &n, ", from rank %d to %d", lw_run_rank_number(run, most->from),
			lw_run_rank_number(run, most->to));
	else if (most->counter)
		append(text, &n, ", %s of %s (%s)", most->counter, run->nics.at[most->nic].name,
			lw_nic_owner_text(run, &run->nics.at[most->nic], owner));
	append(text, &n, "%s", against[most->against]);
	for (caused = slowed->by; caused < slowed->by + LW_N_CAUSES; caused++)
		if (caused != most && caused->n_slowed)
			append(text, &n, "; %s",
				lw_net_cause_name((enum lw_net_cause)(caused - slowed->by)));
	return text;
}

/* ---- bytes of operations --------------------------------------------------------------------------- */

const char *lw_net_op_text(
	const struct lw_run *run, const struct lw_net_op *op, char text[LW_NET_WORDS_BYTES])
{
	const char *source = run->network.are_ops_captured ? "packets" : "samples";
	char unit[2][LW_UNIT_TEXT_BYTES];
	size_t n = 0;

	text[0] = '\0';
	append(text, &n, "%u of %s", op->n,
		op->bytes ? lw_bytes_format((double)op->bytes, unit[0]) : "other sizes");
	if (isnan(op->sent_bytes)) {
		append(text, &n, "; %s each, too short to tell what was sent meanwhile",
			lw_ns_format(op->mean_ns, unit[0]));
		if (!isnan(op->resolution_ns))
			append(text, &n, " (%s, to %s)", source,
				lw_ns_exact(op->resolution_ns, unit[1]));
		return text;
	}
	append(text, &n, "; each rank sent %s meanwhile", lw_bytes_format(op->sent_bytes, unit[0]));
	if (!isnan(op->expected_bytes))
		append(text, &n, ", expected %s", lw_bytes_format(op->expected_bytes, unit[0]));
	append(text, &n, " (%s, to %s: within %.0f %%)", source,
		lw_ns_exact(op->resolution_ns, unit[0]),
		ceil(100 * N_EDGES * op->resolution_ns / op->mean_ns));
	return text;
}
