/* SPDX-License-Identifier: Apache-2.0 */
/* flows.h - captured flows, most payload first: for the report, and for the views that show the same. */
#ifndef LAPWING_ANALYZER_EMIT_FLOWS_H
#define LAPWING_ANALYZER_EMIT_FLOWS_H

#include <stdio.h>

#include "analyzer/run.h"

struct lw_json;

enum { LW_FLOWS_LISTED = 64, LW_FLOW_END_BYTES = LW_ADDRESS_BYTES + 32 };

struct lw_flow_sum {
	size_t n; /* flows; rows of the rest of a protocol hold any number and are not counted */
	bool has_sums; /* such rows are in it */
	size_t n_beside; /* captures of the same host and time whose such rows are not: they may be of the same packets */
	double payload_bytes, wire_bytes, n_packets, n_retransmitted, missing_bytes;
	double n_frames; /* packets as they were captured; n_packets: as on the wire, merged ones taken apart */
	int64_t first_ns, last_ns; /* LW_NS_UNKNOWN: no packet */
};

struct lw_flow_list {
	const struct lw_packet_flow *at[LW_FLOWS_LISTED]; /* most payload first */
	size_t n;
	struct lw_flow_sum all,
		rest; /* rest: what is beyond those, and what the capture itself added up */
};

/** lw_flow_list() - the @n_most (at most LW_FLOWS_LISTED) flows that count: what another capture shows too is left out. */
void lw_flow_list(const struct lw_run *run, size_t n_most, struct lw_flow_list *ret_list);

/** lw_flow_is_listed() - a flow between two ends that counts: neither a repeat nor the sum of many. */
bool lw_flow_is_listed(const struct lw_packet_flow *flow);

/** lw_flow_payload_bytes() - as captured, what was sent twice once. */
double lw_flow_payload_bytes(const struct lw_packet_flow *flow);

/** lw_flow_lasted_ns() - first to last packet; NAN = not known. */
double lw_flow_lasted_ns(const struct lw_packet_flow *flow);

/** lw_flow_end() - "rank 0:5000", "10.0.0.1:5000", "10.0.0.2 qp 17"; @is_source: who sends. Return: @text. */
const char *lw_flow_end(const struct lw_run *run, const struct lw_packet_flow *flow, bool is_source,
	char text[LW_FLOW_END_BYTES]);

/** lw_flows_text() - the section "Flows"; nothing was captured: nothing. */
void lw_flows_text(const struct lw_run *run, FILE *out);

/** lw_flows_headline() - what a capture without a job holds, in a sentence. Return: @text, "" = none. */
const char *lw_flows_headline(const struct lw_run *run, char text[256]);

/** lw_flows_json() - "flows", "other_flows", "capture_gaps": keys of an open object. */
void lw_flows_json(struct lw_json *json, const struct lw_run *run);

#endif /* LAPWING_ANALYZER_EMIT_FLOWS_H */
