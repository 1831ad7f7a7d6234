/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/emit/flows.h"

#include <math.h>
#include <string.h>

#include "analyzer/emit/json.h"
#include "analyzer/emit/wrap.h"
#include "base/units.h"

enum {
	MAX_LINES = 12,
	MAX_LINES_BESIDE = 6,
	MAX_GAPS = 1000,
	WHO_COLUMN = 38
}; /* beside: of a job, whose links say more */

bool lw_flow_is_listed(const struct lw_packet_flow *flow)
{
	return !flow->is_other && !flow->is_repeat;
}

double lw_flow_payload_bytes(const struct lw_packet_flow *flow)
{
	return flow->payload_bytes > flow->repeated_bytes
		       ? (double)(flow->payload_bytes - flow->repeated_bytes)
		       : 0;
}

double lw_flow_lasted_ns(const struct lw_packet_flow *flow)
{
	return flow->first_ns == LW_NS_UNKNOWN ? (double)NAN
					       : (double)(flow->last_ns - flow->first_ns);
}

const char *lw_flow_end(const struct lw_run *run, const struct lw_packet_flow *flow, bool is_source,
	char text[LW_FLOW_END_BYTES])
{
	int32_t rank = is_source ? flow->from_rank : flow->to_rank;
	const char *address = is_source ? flow->source : flow->destination;
	int port = is_source ? flow->source_port : flow->destination_port;
	bool is_v6 = rank == LW_NONE && strchr(address, ':');
	char who[LW_ADDRESS_BYTES];

	if (rank == LW_NONE)
		snprintf(who, sizeof(who), "%s", address);
	else
		snprintf(who, sizeof(who), "rank %d", run->ranks.at[rank].rank);
	if (flow->is_roce && is_source) /* senders choose their ports freely */
		snprintf(text, LW_FLOW_END_BYTES, "%s", who);
	else if (flow->is_roce)
		snprintf(text, LW_FLOW_END_BYTES, "%s qp %d", who, (int)flow->destination_qp);
	else
		snprintf(text, LW_FLOW_END_BYTES, "%s%s%s:%d", is_v6 ? "[" : "", who,
			is_v6 ? "]" : "", port);
	return text;
}

/* ---- the list ------------------------------------------------------------------------------------ */

static void add(struct lw_flow_sum *sum, const struct lw_packet_flow *flow)
{
	sum->n += !flow->is_other;
	sum->has_sums |= flow->is_other && flow->n_frames;
	sum->n_frames += (double)flow->n_frames;
	sum->payload_bytes += lw_flow_payload_bytes(flow);
	sum->wire_bytes += (double)flow->wire_bytes;
	sum->n_packets += (double)flow->n_packets;
	sum->n_retransmitted += (double)flow->n_retransmitted;
	sum->missing_bytes += flow->missing_bytes > 0 ? (double)flow->missing_bytes : 0;
	if (flow->first_ns == LW_NS_UNKNOWN)
		return;
	if (sum->first_ns == LW_NS_UNKNOWN || flow->first_ns < sum->first_ns)
		sum->first_ns = flow->first_ns;
	if (sum->last_ns == LW_NS_UNKNOWN || flow->last_ns > sum->last_ns)
		sum->last_ns = flow->last_ns;
}

/* Into its place among those that moved more; who falls out at the end is of the rest. */
static void insert(struct lw_flow_list *list, size_t n_most, const struct lw_packet_flow *flow)
{
	size_t i = list->n;

	while (i > 0 && lw_flow_payload_bytes(list->at[i - 1]) < lw_flow_payload_bytes(flow))
		i--;
	if (i == n_most) {
		add(&list->rest, flow);
		return;
	}
	if (list->n == n_most)
		add(&list->rest, list->at[--list->n]);
	memmove(&list->at[i + 1], &list->at[i], (list->n - i) * sizeof(list->at[0]));
	list->at[i] = flow;
	list->n++;
}

void lw_flow_list(const struct lw_run *run, size_t n_most, struct lw_flow_list *ret_list)
{
	const struct lw_flow_sum none = {.first_ns = LW_NS_UNKNOWN, .last_ns = LW_NS_UNKNOWN};
	const struct lw_packet_flow *flow, *beside = NULL;

	*ret_list = (struct lw_flow_list){.all = none, .rest = none};
	lw_vec_foreach (flow, &run->flows) {
		if (flow->is_repeat && flow->is_other && flow->n_frames) {
			ret_list->rest.n_beside += !beside || beside->store != flow->store ||
						   beside->capture_id != flow->capture_id;
			beside = flow;
		}
		if (flow->is_repeat)
			continue;
		add(&ret_list->all, flow);
		if (lw_flow_is_listed(flow))
			insert(ret_list, n_most, flow);
		else
			add(&ret_list->rest, flow);
	}
}

/* ---- text ----------------------------------------------------------------------------------------- */

static const char *lasted_format(double ns, char text[LW_UNIT_TEXT_BYTES])
{
	return isnan(ns) ? "?" : lw_ns_format(ns, text);
}

static void print_rest(const struct lw_flow_sum *rest, FILE *out)
{
	char bytes[LW_UNIT_TEXT_BYTES], more[48] = "", beside[128] = "", text[384];

	if (!(rest->n_frames > 0))
		return;
	if (rest->n_beside)
		snprintf(beside, sizeof(beside),
			"; %zu other capture%s of that time %s such a rest too: not added, as it may be of the same packets",
			rest->n_beside, rest->n_beside == 1 ? "" : "s",
			rest->n_beside == 1 ? "has" : "have");
	if (rest->n)
		snprintf(more, sizeof(more), "%zu more flow%s", rest->n, rest->n == 1 ? "" : "s");
	snprintf(text, sizeof(text), "... and %s%s%s: %s in %.0f packets, %.0f sent again%s", more,
		rest->n && rest->has_sums ? ", and " : "",
		rest->has_sums ? "what the capture did not keep apart" : "",
		lw_bytes_format(rest->payload_bytes, bytes), rest->n_frames, rest->n_retransmitted,
		beside);
	fputs("  ", out);
	lw_print_wrapped(out, 2, 2, text);
}

static void print_flow(const struct lw_run *run, const struct lw_packet_flow *flow, FILE *out)
{
	char end[2][LW_FLOW_END_BYTES], unit[2][LW_UNIT_TEXT_BYTES];
	char text[2 * LW_FLOW_END_BYTES + 32];

	fprintf(out, "  %8s %9llu %6llu %8s  ",
		lw_bytes_format(lw_flow_payload_bytes(flow), unit[0]),
		(unsigned long long)flow->n_frames, (unsigned long long)flow->n_retransmitted,
		lasted_format(lw_flow_lasted_ns(flow), unit[1]));
	snprintf(text, sizeof(text), "%s to %s, %.16s", lw_flow_end(run, flow, true, end[0]),
		lw_flow_end(run, flow, false, end[1]), flow->protocol);
	lw_print_wrapped(out, WHO_COLUMN, WHO_COLUMN, text);
}

void lw_flows_text(const struct lw_run *run, FILE *out)
{
	char unit[LW_UNIT_TEXT_BYTES], text[160];
	struct lw_flow_list list;

	lw_flow_list(run, run->ranks.n ? MAX_LINES_BESIDE : MAX_LINES, &list);
	if (!(list.all.n_frames > 0))
		return;
	fputs("Flows (captured; bytes of payload once; lasted: first to last packet)\n", out);
	if (list.n)
		fprintf(out, "  %8s %9s %6s %8s\n", "bytes", "packets", "resent", "lasted");
	for (size_t i = 0; i < list.n; i++)
		print_flow(run, list.at[i], out);
	print_rest(&list.rest, out);
	if (list.all.missing_bytes > 0) {
		snprintf(text, sizeof(text),
			"%s of these TCP streams passed unseen: dropped, or outside of the capture",
			lw_bytes_format(list.all.missing_bytes, unit));
		fputs("  ", out);
		lw_print_wrapped(out, 2, 2, text);
	}
	fputc('\n', out);
}

const char *lw_flows_headline(const struct lw_run *run, char text[256])
{
	char bytes[LW_UNIT_TEXT_BYTES], lasted[LW_UNIT_TEXT_BYTES];
	struct lw_flow_list list;

	text[0] = 0;
	lw_flow_list(run, 0, &list);
	if (run->ranks.n || !(list.all.n_frames > 0))
		return text;
	snprintf(text, 256,
		"No rank, only a capture: %.0f packets of %zu flow%s, %s of payload in %s.",
		list.all.n_frames, list.all.n, list.all.n == 1 ? "" : "s",
		lw_bytes_format(list.all.payload_bytes, bytes),
		lasted_format(list.all.first_ns == LW_NS_UNKNOWN
				      ? (double)NAN
				      : (double)(list.all.last_ns - list.all.first_ns),
			lasted));
	return text;
}

/* ---- JSON ------------------------------------------------------------------------------------------ */

static void put_rank(struct lw_json *json, const char *key, const struct lw_run *run, int32_t rank)
{
	if (rank == LW_NONE)
		lw_json_null(json, key);
	else
		lw_json_int(json, key, run->ranks.at[rank].rank);
}

static void put_flow(
	struct lw_json *json, const struct lw_run *run, const struct lw_packet_flow *flow)
{
	lw_json_object(json, NULL);
	lw_json_string(json, "protocol", flow->protocol);
	lw_json_string(json, "source_address", flow->source);
	lw_json_int(json, "source_port", flow->source_port);
	lw_json_string(json, "destination_address", flow->destination);
	lw_json_int(json, "destination_port", flow->destination_port);
	if (flow->is_roce)
		lw_json_int(json, "destination_qp", flow->destination_qp);
	else
		lw_json_null(json, "destination_qp");
	put_rank(json, "from_rank", run, flow->from_rank);
	put_rank(json, "to_rank", run, flow->to_rank);
	lw_json_double(json, "payload_bytes", lw_flow_payload_bytes(flow));
	lw_json_double(json, "wire_bytes", (double)flow->wire_bytes);
	lw_json_double(json, "n_packets", (double)flow->n_packets);
	lw_json_double(json, "n_frames", (double)flow->n_frames);
	lw_json_double(json, "n_retransmitted", (double)flow->n_retransmitted);
	lw_json_double(json, "missing_bytes", (double)flow->missing_bytes);
	lw_json_double(json, "duration_ns", lw_flow_lasted_ns(flow));
	lw_json_object_end(json);
}

static void put_gaps(struct lw_json *json, const struct lw_run *run)
{
	const struct lw_capture_gap *gap;

	lw_json_array(json, "capture_gaps");
	lw_vec_foreach (gap, &run->capture_gaps) {
		if (gap - run->capture_gaps.at >= MAX_GAPS)
			break;
		lw_json_object(json, NULL);
		lw_json_string(json, "device", gap->device);
		lw_json_int(json, "start_ns", gap->start_ns);
		lw_json_int(json, "end_ns", gap->end_ns);
		if (gap->n)
			lw_json_int(json, "n_packets", (int64_t)gap->n);
		else
			lw_json_null(json, "n_packets");
		lw_json_object_end(json);
	}
	lw_json_array_end(json);
	lw_json_int(json, "n_capture_gaps", (int64_t)run->capture_gaps.n);
}

void lw_flows_json(struct lw_json *json, const struct lw_run *run)
{
	struct lw_flow_list list;

	lw_flow_list(run, LW_FLOWS_LISTED, &list);
	lw_json_array(json, "flows");
	for (size_t i = 0; i < list.n; i++)
		put_flow(json, run, list.at[i]);
	lw_json_array_end(json);
	lw_json_object(json, "other_flows");
	lw_json_int(json, "n", (int64_t)list.rest.n);
	lw_json_double(json, "payload_bytes", list.rest.payload_bytes);
	lw_json_double(json, "wire_bytes", list.rest.wire_bytes);
	lw_json_double(json, "n_packets", list.rest.n_packets);
	lw_json_double(json, "n_frames", list.rest.n_frames);
	lw_json_double(json, "n_retransmitted", list.rest.n_retransmitted);
	lw_json_int(json, "n_captures_not_added", (int64_t)list.rest.n_beside);
	lw_json_object_end(json);
	put_gaps(json, run);
}
