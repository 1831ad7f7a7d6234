/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_proxies.c - inside NCCL: what proxies sent from rank to rank and waited for, as text and as JSON. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/emit/gpu.h"
#include "analyzer/emit/json.h"
#include "analyzer/emit/wrap.h"
#include "analyzer/reconstruct/nccl_words.h"
#include "base/units.h"

enum { MAX_LINKS = 16, MAX_BY_STEP = 8192 };
#define NOT_RECORDED "that end was not recorded"

static double link_bytes(const struct lw_nccl_link *link)
{
	return fmax(link->sent.bytes, link->received.bytes) / link->n_steps;
}

/* ---- text --------------------------------------------------------------------------------------------- */

static int by_bytes(const void *a, const void *b)
{
	const struct lw_nccl_link *x = *(const struct lw_nccl_link *const *)a;
	const struct lw_nccl_link *y = *(const struct lw_nccl_link *const *)b;
	double x_bytes = link_bytes(x), y_bytes = link_bytes(y);

	if (x_bytes < y_bytes || x_bytes > y_bytes)
		return x_bytes > y_bytes ? -1 : 1;
	return (x > y) - (x < y);
}

static const char *rank_text(const struct lw_run *run, int32_t rank, char text[16])
{
	if (rank == LW_NONE)
		snprintf(text, 16, "?");
	else
		snprintf(text, 16, "%d", lw_run_rank_number(run, rank));
	return text;
}

/* A mean: of operations that are not in every step it is no whole number. */
static const char *count_text(double n, char text[32])
{
	snprintf(text, 32, "%.*f", n >= 100 || n <= floor(n) ? 0 : n >= 10 ? 1 : 2, n);
	return text;
}

static void print_link(FILE *out, const struct lw_run *run, const struct lw_nccl_link *link)
{
	const struct lw_nccl_side *sent = &link->sent, *received = &link->received;
	bool is_unknown = lw_nccl_why_unasked(run, link->from, sent, link->kinds) != NULL;
	char name[LW_NCCL_LINK_NAME_BYTES], unit[6][LW_UNIT_TEXT_BYTES], rank[2][16];
	char count[32];

	lw_nccl_link_name(run, link, name);
	fprintf(out, "  %4s %4s %9s %7s %9s %8s %8s %8s %8s%s%.12s\n",
		rank_text(run, link->from, rank[0]), rank_text(run, link->to, rank[1]),
		lw_bytes_format(link_bytes(link), unit[0]),
		count_text(fmax(sent->n_messages, received->n_messages) / link->n_steps, count),
		lw_nccl_wait_text(sent->gpu_ns, sent->n_messages, unit[1]),
		lw_nccl_wait_text(sent->peer_ns, is_unknown ? 0 : sent->n_messages, unit[2]),
		lw_nccl_wait_text(sent->wire_ns, sent->n_messages, unit[3]),
		lw_nccl_wait_text(received->peer_ns, received->n_messages, unit[4]),
		lw_nccl_wait_text(received->gpu_ns, received->n_messages, unit[5]),
		*name ? "  " : "", name);
}

/* Of the first link that it is not known of; NULL. */
static const char *why_unasked(const struct lw_run *run, const struct lw_nccl_links *links)
{
	const struct lw_nccl_link *link;
	const char *why = NULL;

	lw_vec_foreach (link, &links->at)
		if (!why && link->sent.n_messages > 0)
			why = lw_nccl_why_unasked(run, link->from, &link->sent, link->kinds);
	return why;
}

static void print_paragraph(FILE *out, const char *text)
{
	if (!*text)
		return;
	fputs("  ", out);
	lw_print_wrapped(out, 2, 2, text);
}

static void print_links(
	const struct lw_run *run, const struct lw_nccl_links *links, int32_t only_rank, FILE *out)
{
	size_t n = links->at.n, n_asked = 0;
	const struct lw_nccl_link **order = malloc((n + 1) * sizeof(*order));

	if (!order)
		return;
	for (size_t i = 0; i < n; i++)
		order[i] = &links->at.at[i];
	if (n > MAX_LINKS)
		qsort(order, n, sizeof(*order), by_bytes);
	fprintf(out, "  %4s %4s %9s %7s %9s %8s %8s %8s %8s\n", "from", "to",
		links->has_steps ? "B a step" : "bytes", "msgs", "gpu late", "unasked", "network",
		"awaited", "gpu busy");
	for (size_t i = 0; i < n; i++) {
		const struct lw_nccl_link *link = order[i];
		bool is_asked =
			only_rank == LW_NONE ||
			(link->from != LW_NONE &&
				lw_run_rank_number(run, link->from) == only_rank) ||
			(link->to != LW_NONE && lw_run_rank_number(run, link->to) == only_rank);

		n_asked += is_asked;
		if (is_asked && n_asked <= MAX_LINKS)
			print_link(out, run, link);
	}
	if (n_asked > MAX_LINKS)
		fprintf(out, "  ... and %zu more links (--json has all)\n", n_asked - MAX_LINKS);
	free(order);
}

void lw_gpu_proxies_text(const struct lw_run *run, int32_t only_rank, FILE *out)
{
	char text[LW_GPU_TEXT_BYTES], bytes[LW_UNIT_TEXT_BYTES];
	const struct lw_nccl_link *link;
	struct lw_nccl_links links;
	const char *why = NULL;

	if (!lw_nccl_has_proxies(run))
		return;
	if (lw_nccl_links(run, &links) < 0 || (!links.at.n && !(links.other.n_proxies > 0))) {
		lw_nccl_links_done(&links);
		return;
	}
	fputs("Inside NCCL: what its proxies sent, and waited for; times are of a message\n", out);
	if (links.at.n) {
		print_links(run, &links, only_rank, out);
		print_paragraph(out,
			"Mean of a message, of which 8 may be under way at once. Sender: gpu late: its GPU had not made it; unasked: the receiver had not asked for it; network: handed over and not done. Receiver: awaited: asked for and not there, as the sender is late or the network slow; gpu busy: its GPU had not taken it.");
	}
	if (why_unasked(run, &links)) {
		snprintf(text, sizeof(text), "Where unasked is \"?\" it is not known: %s.",
			why_unasked(run, &links));
		print_paragraph(out, text);
	}
	lw_vec_foreach (link, &links.at)
		why = why ? why : link->why;
	print_paragraph(out, lw_nccl_slow_text(run, &links, text));
	print_paragraph(out, lw_nccl_late_text(run, &links, text));
	if (why) {
		snprintf(text, sizeof(text), "Of some links it is not known who is late: %s.", why);
		print_paragraph(out, text);
	}
	if (links.other.n_proxies > 0) {
		snprintf(text, sizeof(text),
			"%.0f proxies more moved %s for operations of other processes (PXN), or of which no record is here.",
			links.other.n_proxies, lw_bytes_format(links.other.bytes, bytes));
		print_paragraph(out, text);
	}
	fputc('\n', out);
	lw_nccl_links_done(&links);
}

/* ---- JSON ---------------------------------------------------------------------------------------------- */

static void put_mean(struct lw_json *json, const char *key, double sum, double n, const char *why)
{
	lw_json_figure(json, key,
		n > 0 ? lw_summary_exact(sum / n, LW_MEASURED) : lw_summary_unknown(why));
}

static void put_side(struct lw_json *json, const char *key, const struct lw_nccl_side *side,
	double n_steps, bool is_sender, const char *why_unasked)
{
	if (!(side->n_proxies > 0)) {
		lw_json_null(json, key);
		return;
	}
	lw_json_object(json, key);
	put_mean(json, "n_proxies", side->n_proxies, n_steps, NOT_RECORDED);
	put_mean(json, "n_messages", side->n_messages, n_steps, NOT_RECORDED);
	put_mean(json, "bytes", side->bytes, n_steps, NOT_RECORDED);
	put_mean(json, "gpu_wait_ns", side->gpu_ns, side->n_messages, NOT_RECORDED);
	put_mean(json, "peer_wait_ns", side->peer_ns, why_unasked ? 0 : side->n_messages,
		why_unasked ? why_unasked : NOT_RECORDED);
	if (is_sender)
		put_mean(json, "network_ns", side->wire_ns, side->n_messages, NOT_RECORDED);
	lw_json_object_end(json);
}

static void put_bound(
	struct lw_json *json, const char *key, const struct lw_nccl_link *link, double sum)
{
	lw_json_figure(json, key,
		link->why ? lw_summary_unknown(link->why)
			  : lw_summary_exact(sum / link->both.n_messages, LW_ASSUMED));
}

static void put_rank(struct lw_json *json, const struct lw_run *run, const char *key, int32_t rank)
{
	if (rank == LW_NONE)
		lw_json_null(json, key);
	else
		lw_json_int(json, key, lw_run_rank_number(run, rank));
}

static void put_link(
	struct lw_json *json, const struct lw_run *run, const struct lw_nccl_link *link)
{
	lw_json_object(json, NULL);
	put_rank(json, run, "from", link->from);
	put_rank(json, run, "to", link->to);
	put_side(json, "sent", &link->sent, link->n_steps, true,
		lw_nccl_why_unasked(run, link->from, &link->sent, link->kinds));
	put_side(json, "received", &link->received, link->n_steps, false, NULL);
	put_bound(json, "network_most_ns", link, link->both.network_ns);
	put_bound(json, "receiver_late_least_ns", link, link->both.receiver_late_ns);
	put_bound(json, "sender_late_least_ns", link, link->both.sender_late_ns);
	lw_json_array(json, "over");
	if (link->kinds & 1u << LW_NCCL_NET_QP)
		lw_json_string(json, NULL, "rdma");
	if (link->kinds & 1u << LW_NCCL_NET_SOCKET)
		lw_json_string(json, NULL, "tcp");
	lw_json_array_end(json);
	lw_json_string(json, "nic", link->nic == LW_NONE ? NULL : run->nics.at[link->nic].name);
	lw_json_object_end(json);
}

static void put_ns(
	struct lw_json *json, const char *key, const struct lw_nccl_side *side, double sum)
{
	put_mean(json, key, sum, side->n_messages, NOT_RECORDED);
}

static void put_step(
	struct lw_json *json, const struct lw_run *run, const struct lw_nccl_link *link)
{
	const char *why;

	lw_json_object(json, NULL);
	lw_json_int(json, "step", link->step);
	put_rank(json, run, "from", link->from);
	put_rank(json, run, "to", link->to);
	lw_json_int(json, "bytes", (int64_t)fmax(link->sent.bytes, link->received.bytes));
	lw_json_int(json, "n_messages",
		(int64_t)fmax(link->sent.n_messages, link->received.n_messages));
	put_ns(json, "sender_gpu_wait_ns", &link->sent, link->sent.gpu_ns);
	why = lw_nccl_why_unasked(run, link->from, &link->sent, link->kinds);
	put_mean(json, "sender_peer_wait_ns", link->sent.peer_ns, why ? 0 : link->sent.n_messages,
		why ? why : NOT_RECORDED);
	put_ns(json, "sender_network_ns", &link->sent, link->sent.wire_ns);
	put_ns(json, "receiver_peer_wait_ns", &link->received, link->received.peer_ns);
	put_ns(json, "receiver_gpu_wait_ns", &link->received, link->received.gpu_ns);
	lw_json_object_end(json);
}

static int put_steps(struct lw_json *json, const struct lw_run *run)
{
	const struct lw_nccl_link *link;
	struct lw_nccl_links links;
	int status = lw_nccl_links_by_step(run, MAX_BY_STEP, &links);

	lw_json_int(json, "n_by_step", (int64_t)links.n);
	lw_json_array(json, "by_step");
	lw_vec_foreach (link, &links.at)
		put_step(json, run, link);
	lw_json_array_end(json);
	lw_nccl_links_done(&links);
	return status;
}

int lw_gpu_proxies_json(struct lw_json *json, const struct lw_run *run)
{
	const struct lw_nccl_link *link;
	char text[LW_GPU_TEXT_BYTES];
	struct lw_nccl_links links;
	int status;

	if (!lw_nccl_has_proxies(run)) {
		lw_json_null(json, "proxies");
		return LW_OK;
	}
	status = lw_nccl_links(run, &links);
	lw_json_object(json, "proxies");
	lw_json_bool(json, "is_by_step", links.has_steps);
	lw_json_array(json, "links");
	lw_vec_foreach (link, &links.at)
		put_link(json, run, link);
	lw_json_array_end(json);
	lw_json_object(json, "other");
	lw_json_int(json, "n_proxies", (int64_t)links.other.n_proxies);
	lw_json_int(json, "bytes", (int64_t)links.other.bytes);
	lw_json_object_end(json);
	lw_json_string(json, "slow", *lw_nccl_slow_text(run, &links, text) ? text : NULL);
	put_rank(json, run, "slow_from",
		links.slow == LW_NONE ? LW_NONE : links.at.at[links.slow].from);
	put_rank(
		json, run, "slow_to", links.slow == LW_NONE ? LW_NONE : links.at.at[links.slow].to);
	lw_json_string(json, "late", *lw_nccl_late_text(run, &links, text) ? text : NULL);
	put_rank(json, run, "late_rank", links.late);
	if (status == LW_OK)
		status = put_steps(json, run);
	lw_json_object_end(json);
	lw_nccl_links_done(&links);
	return status;
}
