/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/reconstruct/nccl_links.h"

#include <math.h>
#include <stdlib.h>

#include "analyzer/reconstruct/nccl_served.h"

/* What stands out: so many times the next one, and in each half of the run so many messages; less is chance, or nobody's trouble. */
#define CLEAR_TIMES  3.0
#define LIKE_TIMES   2.0 /* sizes of messages that compare */
#define WORTH_NS     20000.0
#define OWN_FRAC     0.25 /* of what others wait for it: who waits more itself may only pass it on */
#define MATCHED_FRAC 0.5  /* of the messages of a link, in operations that both ends have */
enum { LEAST_MESSAGES = 16 };

bool lw_nccl_has_proxies(const struct lw_run *run)
{
	const struct lw_rank *rank;

	lw_vec_foreach (rank, &run->ranks)
		if (rank->gpu.nccl_proxies.n)
			return true;
	return false;
}

/* Both lists are by op. */
const struct lw_nccl_proxy *lw_nccl_proxies_of(
	const struct lw_rank *rank, int32_t op, size_t *ret_n)
{
	size_t first, n = 0;

	lw_vec_bisect(first, rank->gpu.nccl_proxies.n, i, rank->gpu.nccl_proxies.at[i].op < op);
	while (first + n < rank->gpu.nccl_proxies.n &&
		rank->gpu.nccl_proxies.at[first + n].op == op)
		n++;
	*ret_n = n;
	return rank->gpu.nccl_proxies.at + first;
}

const struct lw_nccl_carrier *lw_nccl_carriers_of(
	const struct lw_rank *rank, int32_t op, size_t *ret_n)
{
	size_t first, n = 0;

	lw_vec_bisect(first, rank->gpu.nccl_carriers.n, i, rank->gpu.nccl_carriers.at[i].op < op);
	while (first + n < rank->gpu.nccl_carriers.n &&
		rank->gpu.nccl_carriers.at[first + n].op == op)
		n++;
	*ret_n = n;
	return rank->gpu.nccl_carriers.at + first;
}

/* ---- sums ------------------------------------------------------------------------------------------ */

struct entry {        /* the proxies of an operation at one end of a link */
	int32_t step; /* LW_NONE = all of them together */
	int32_t from, to;
	int64_t comm_key;
	int32_t rank;
	const struct lw_nccl_proxy *proxy;
};

struct entries {
	lw_vec(struct entry) at; /* by step, link, communicator, sends first, operation */
	bool are_by_step;
	uint64_t most; /* links to be kept */
};

static int compare_entry(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	if (x->step != y->step)
		return x->step < y->step ? -1 : 1;
	if (x->from != y->from)
		return x->from < y->from ? -1 : 1;
	if (x->to != y->to)
		return x->to < y->to ? -1 : 1;
	if (x->comm_key != y->comm_key)
		return x->comm_key < y->comm_key ? -1 : 1;
	if (x->proxy->is_send != y->proxy->is_send)
		return x->proxy->is_send ? -1 : 1;
	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	return (x->proxy->op > y->proxy->op) - (x->proxy->op < y->proxy->op);
}

static struct lw_nccl_side side_of(const struct lw_nccl_proxy *proxy)
{
	return (struct lw_nccl_side){proxy->n_proxies, (double)proxy->n_messages,
		(double)proxy->bytes, proxy->gpu_ns, proxy->peer_ns, proxy->wire_ns};
}

static void add_side(struct lw_nccl_side *sum, const struct lw_nccl_side *more)
{
	sum->n_proxies += more->n_proxies;
	sum->n_messages += more->n_messages;
	sum->bytes += more->bytes;
	sum->gpu_ns += more->gpu_ns;
	sum->peer_ns += more->peer_ns;
	sum->wire_ns += more->wire_ns;
}

static void add_both(struct lw_nccl_both *sum, const struct lw_nccl_both *more)
{
	sum->n_messages += more->n_messages;
	sum->network_ns += more->network_ns;
	sum->receiver_late_ns += more->receiver_late_ns;
	sum->sender_late_ns += more->sender_late_ns;
}

static int collect(const struct lw_run *run, struct entries *entries, struct lw_nccl_links *links)
{
	for (int32_t r = 0; r < (int32_t)run->ranks.n; r++) {
		const struct lw_rank *rank = &run->ranks.at[r];
		const struct lw_nccl_proxy *proxy;

		lw_vec_foreach (proxy, &rank->gpu.nccl_proxies) {
			struct entry entry = {LW_NONE, proxy->is_send ? r : proxy->peer,
				proxy->is_send ? proxy->peer : r, 0, r, proxy};
			struct lw_nccl_side side = side_of(proxy);
			const struct lw_nccl_call *op;

			if (proxy->op == LW_NONE) {
				add_side(&links->other, &side);
				continue;
			}
			op = &rank->gpu.nccl_ops.at[proxy->op];
			entry.comm_key = op->comm_key;
			if (entries->are_by_step) /* as lw_nccl_is_counted() */
				entry.step = lw_rank_step_at(rank,
					op->kernel == LW_NONE ? op->start_ns : op->kernel_start_ns);
			if (entries->are_by_step && entry.step == LW_NONE)
				continue;
			if (lw_vec_push(&entries->at, entry) < 0)
				return LW_ERR_NOMEM;
		}
	}
	if (entries->at.n)
		qsort(entries->at.at, entries->at.n, sizeof(*entries->at.at), compare_entry);
	return LW_OK;
}

static void set_carrier(
	const struct lw_run *run, const struct lw_nccl_carrier *carrier, struct lw_nccl_link *link)
{
	int32_t nic = carrier->end == LW_NONE ? LW_NONE : run->ends.at[carrier->end].nic;

	link->kinds |= 1u << carrier->kind;
	if (nic == LW_NONE)
		return;
	link->has_nics |= link->nic != LW_NONE && link->nic != nic;
	link->nic = link->has_nics ? LW_NONE : nic;
}

/* What carried @op to or from the peer of @proxy: the connection whose other end is that rank's. */
static void set_carriers(const struct lw_run *run, const struct lw_rank *rank,
	const struct lw_nccl_proxy *proxy, struct lw_nccl_link *link)
{
	size_t n;
	const struct lw_nccl_carrier *carrier = lw_nccl_carriers_of(rank, proxy->op, &n);

	for (; n > 0; carrier++, n--)
		if (carrier->end != LW_NONE && proxy->peer != LW_NONE &&
			run->ends.at[carrier->end].peer_rank == proxy->peer)
			set_carrier(run, carrier, link);
}

static const struct lw_nccl_call *op_of(const struct lw_run *run, const struct entry *entry)
{
	return &run->ranks.at[entry->rank].gpu.nccl_ops.at[entry->proxy->op];
}

/* An operation that never ended has messages that were never sent: its waits are none of a message. */
static bool is_counted(const struct lw_run *run, const struct entry *entry)
{
	const struct lw_nccl_call *op = op_of(run, entry);

	return !(op->flags & LW_NCCL_UNFINISHED) &&
	       lw_nccl_is_counted(&run->ranks.at[entry->rank], op);
}

static int half_of(const struct lw_run *run, const struct entry *entry)
{
	return (size_t)entry->proxy->op >= run->ranks.at[entry->rank].gpu.nccl_ops.n / 2;
}

static void add_end(const struct lw_run *run, const struct entry *entry, struct lw_nccl_link *link)
{
	struct lw_nccl_half *half = &link->half[half_of(run, entry)];
	struct lw_nccl_side side = side_of(entry->proxy);

	add_side(entry->proxy->is_send ? &link->sent : &link->received, &side);
	add_side(entry->proxy->is_send ? &half->sent : &half->received, &side);
	link->n_channels = fmax(link->n_channels, side.n_proxies);
	/* by which it leaves, where that end was recorded: sends come first */
	if (entry->proxy->is_send || !(link->sent.n_proxies > 0))
		set_carriers(run, &run->ranks.at[entry->rank], entry->proxy, link);
}

/* One operation at both ends; of other messages than the same ones nothing follows. */
static void add_pair(const struct lw_run *run, const struct entry *sent,
	const struct entry *received, struct lw_nccl_link *link)
{
	const struct lw_nccl_proxy *out = sent->proxy, *in = received->proxy;
	double out_ns = out->peer_ns + out->wire_ns;
	struct lw_nccl_both both = {(double)out->n_messages, fmin(out->wire_ns, in->peer_ns),
		fmax(out_ns - in->peer_ns, 0), fmax(in->peer_ns - out_ns, 0)};

	if (out->n_messages != in->n_messages || !is_counted(run, sent) ||
		!is_counted(run, received))
		return;
	add_both(&link->both, &both);
	add_both(&link->half[half_of(run, sent)].both, &both);
}

static bool is_of_link(const struct entry *entry, const struct lw_nccl_link *link)
{
	return entry->step == link->step && entry->from == link->from && entry->to == link->to;
}

/* Of @n operations in order, without those at the end that never ended: who is killed or hangs leaves one at one end only. */
static size_t n_ended(const struct lw_run *run, const struct entry *first, size_t n)
{
	while (n && op_of(run, &first[n - 1])->flags & LW_NCCL_UNFINISHED)
		n--;
	return n;
}

/* Operations of one communicator: the k-th that was sent is the k-th that was received, unless records are missing. */
static size_t add_comm(const struct lw_run *run, const struct entry *first, const struct entry *end,
	struct lw_nccl_link *link)
{
	size_t n, n_sent = 0, n_pairs;

	for (n = 0; first + n < end && is_of_link(&first[n], link) &&
		    first[n].comm_key == first->comm_key;
		n++) {
		n_sent += first[n].proxy->is_send;
		if (is_counted(run, &first[n]))
			add_end(run, &first[n], link);
	}
	n_pairs = n_ended(run, first, n_sent);
	if (n_pairs != n_ended(run, first + n_sent, n - n_sent))
		n_pairs = n == 2 * n_sent ? n_sent : 0;
	for (size_t k = 0; k < n_pairs && link->from != LW_NONE && link->to != LW_NONE; k++)
		add_pair(run, &first[k], &first[n_sent + k], link);
	return n;
}

static double n_steps_of(const struct lw_rank *rank)
{
	const struct lw_step *step;
	double n = 0;

	lw_vec_foreach (step, &rank->steps)
		n += !step->excluded;
	return n;
}

static const char *why_not(const struct lw_nccl_link *link)
{
	if (!(link->sent.n_messages > 0) || !(link->received.n_messages > 0))
		return "one end was not recorded: from the other, late and slow look alike";
	if (link->both.n_messages < MATCHED_FRAC * link->sent.n_messages)
		return "its two ends did not record the same operations";
	return NULL;
}

static int add_links(
	const struct lw_run *run, const struct entries *entries, struct lw_nccl_links *links)
{
	const struct entry *entry = entries->at.at, *end = entry + entries->at.n;

	while (entry < end) {
		double n_steps = entries->are_by_step ? 1 : n_steps_of(&run->ranks.at[entry->rank]);
		struct lw_nccl_link link = {.step = entry->step,
			.from = entry->from,
			.to = entry->to,
			.n_steps = n_steps > 0 ? n_steps : 1,
			.nic = LW_NONE};

		links->has_steps |= n_steps > 0;
		while (entry < end && is_of_link(entry, &link))
			entry += add_comm(run, entry, end, &link);
		link.why = why_not(&link);
		if (!(link.sent.n_proxies + link.received.n_proxies > 0))
			continue;
		if (links->n++ < entries->most && lw_vec_push(&links->at, link) < 0)
			return LW_ERR_NOMEM;
	}
	return LW_OK;
}

/* ---- who is late, and what is slow -------------------------------------------------------------------- */

static double network_ns(const struct lw_nccl_both *both)
{
	return both->n_messages > 0 ? both->network_ns / both->n_messages : (double)NAN;
}

static bool is_like(const struct lw_nccl_link *a, const struct lw_nccl_link *b)
{
	double ratio = a->sent.bytes / a->sent.n_messages / (b->sent.bytes / b->sent.n_messages);

	return a != b && !b->why && ratio < LIKE_TIMES && ratio > 1 / LIKE_TIMES;
}

/* The most of the links that compare with @link, *@ret_n of them; in @half, -1 = in all. */
static double most_of_others(const struct lw_nccl_links *links, const struct lw_nccl_link *link,
	int half, int32_t *ret_n)
{
	const struct lw_nccl_link *other;
	double most_ns = 0;

	*ret_n = 0;
	lw_vec_foreach (other, &links->at) {
		double ns = network_ns(half < 0 ? &other->both : &other->half[half].both);

		if (!is_like(link, other) || isnan(ns))
			continue;
		most_ns = fmax(most_ns, ns);
		++*ret_n;
	}
	return most_ns;
}

static bool is_slow(const struct lw_nccl_links *links, const struct lw_nccl_link *link)
{
	enum { LEAST_OTHERS = 2 };
	/* between two ranks there is the other direction, of the same hosts, and nothing else */
	int32_t least = links->at.n == 2 ? 1 : LEAST_OTHERS, n;

	for (int half = 0; half < 2; half++) {
		const struct lw_nccl_both *both = &link->half[half].both;
		double most_ns = most_of_others(links, link, half, &n);

		if (!(network_ns(both) >= WORTH_NS) || both->n_messages < LEAST_MESSAGES ||
			n < least || network_ns(both) < CLEAR_TIMES * most_ns)
			return false;
	}
	return true;
}

/* The link whose messages are longest on the network, of those with less than @below_ns; NULL. */
static const struct lw_nccl_link *longest(const struct lw_nccl_links *links, double below_ns)
{
	const struct lw_nccl_link *link, *most = NULL;

	lw_vec_foreach (link, &links->at)
		if (!link->why && network_ns(&link->both) < below_ns &&
			(!most || network_ns(&link->both) > network_ns(&most->both)))
			most = link;
	return most;
}

static void find_slow(struct lw_nccl_links *links)
{
	enum { LOOK_AT = 16 };
	double below_ns = INFINITY;

	for (int i = 0; i < LOOK_AT && links->slow == LW_NONE; i++) {
		const struct lw_nccl_link *link = longest(links, below_ns);

		if (!link)
			return;
		below_ns = network_ns(&link->both);
		if (!is_slow(links, link))
			continue;
		links->slow = (int32_t)(link - links->at.at);
		links->slow_ns = below_ns;
		links->next_ns = most_of_others(links, link, -1, &links->n_like);
	}
}

struct reached { /* a rank, in one half of the run: what others wait for it, what it waits for others; ns a message */
	double late_ns, own_ns, n_messages;
	int32_t late_for;
};

/* Of links into it the most that it is late, of those out of it the most that it is held up, of its receives what they wait. */
static struct reached reached_of(const struct lw_nccl_links *links, int32_t rank, int half)
{
	struct reached reached = {.late_for = LW_NONE};
	const struct lw_nccl_link *link;

	lw_vec_foreach (link, &links->at) {
		const struct lw_nccl_half *of = &link->half[half];
		double late_ns = of->both.n_messages > 0
					 ? of->both.receiver_late_ns / of->both.n_messages
					 : 0;

		if (link->to == rank && of->received.n_messages > 0)
			reached.own_ns = fmax(
				reached.own_ns, of->received.peer_ns / of->received.n_messages);
		if (link->from == rank && of->sent.n_messages > 0)
			reached.own_ns = fmax(reached.own_ns,
				(of->sent.peer_ns + of->sent.wire_ns) / of->sent.n_messages);
		if (link->why || link->to != rank || !(late_ns > reached.late_ns))
			continue;
		reached.late_ns = late_ns;
		reached.late_for = link->from;
		reached.n_messages = of->both.n_messages;
	}
	return reached;
}

/* Who waits itself may only pass on what others do to it, through buffers that are not free. */
static bool passes_on(const struct reached *reached)
{
	return reached->own_ns > OWN_FRAC * reached->late_ns;
}

static bool is_late(const struct lw_run *run, const struct lw_nccl_links *links, int32_t rank,
	int half, struct reached *ret_reached, double *ret_next_ns)
{
	*ret_reached = reached_of(links, rank, half);
	*ret_next_ns = 0;
	if (ret_reached->late_ns < WORTH_NS || passes_on(ret_reached) ||
		ret_reached->n_messages < LEAST_MESSAGES)
		return false;
	for (int32_t other = 0; other < (int32_t)run->ranks.n; other++) {
		struct reached reached = reached_of(links, other, half);

		if (other != rank && !passes_on(&reached))
			*ret_next_ns = fmax(*ret_next_ns, reached.late_ns);
	}
	return ret_reached->late_ns >= CLEAR_TIMES * *ret_next_ns;
}

static void find_late(const struct lw_run *run, struct lw_nccl_links *links)
{
	for (int32_t rank = 0; rank < (int32_t)run->ranks.n && links->late == LW_NONE; rank++) {
		struct reached first, second;
		double next_ns[2];

		if (!is_late(run, links, rank, 0, &first, &next_ns[0]) ||
			!is_late(run, links, rank, 1, &second, &next_ns[1]))
			continue;
		links->late = rank;
		links->late_ns = fmin(first.late_ns, second.late_ns);
		links->late_next_ns = fmax(next_ns[0], next_ns[1]);
		links->late_for = second.late_for;
	}
}

static int make_links(
	const struct lw_run *run, bool are_by_step, uint64_t most, struct lw_nccl_links *ret_links)
{
	struct entries entries = {.are_by_step = are_by_step, .most = most};
	int status;

	*ret_links = (struct lw_nccl_links){.slow = LW_NONE, .late = LW_NONE, .late_for = LW_NONE};
	status = collect(run, &entries, ret_links);
	if (status == LW_OK)
		status = add_links(run, &entries, ret_links);
	lw_vec_free(&entries.at);
	return status;
}

int lw_nccl_links(const struct lw_run *run, struct lw_nccl_links *ret_links)
{
	int status = make_links(run, false, UINT64_MAX, ret_links);

	if (status < 0)
		return status;
	find_slow(ret_links);
	find_late(run, ret_links);
	return LW_OK;
}

int lw_nccl_links_by_step(const struct lw_run *run, uint64_t most, struct lw_nccl_links *ret_links)
{
	return make_links(run, true, most, ret_links);
}

void lw_nccl_links_done(struct lw_nccl_links *links)
{
	lw_vec_free(&links->at);
}
