/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pcap.c - captures of tcpdump and its kind (pcap and pcapng, read by libpcap) as runs of flows and bins.
 *
 * Times stay those of the file: CLOCK_REALTIME of the host that captured. The host's row says so, and
 * the capture's clock_error_ns is what the file rounds to; how right that host's clock was, no file
 * tells. A recorded run holds pairs of both clocks (clock_sample), by which the two can be joined.
 */
#include <pcap/pcap.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "analyzer/import/import.h"
#include "analyzer/import/pcapng.h"
#include "analyzer/import/rows.h"
#include "base/err.h"
#include "base/units.h"
#include "packet/rows.h"
#include "schema/event.h"

enum { HOST = 1, MAX_BINS = 1 << 14, PROGRESS_PACKETS = 1 << 16 };

/* Seconds since 1970 that a time in ns can hold; what a file says beyond it is no time. */
#define MAX_S (INT64_MAX / LW_NS_PER_S - 1)

struct pcap_import {
	struct lw_import *import;
	pcap_t *pcap;
	FILE *file;
	struct lw_pcapng interfaces;
	int64_t size_bytes;
	int link, status;
	bool has_time; /* of any packet */
	bool has_ns;   /* a time that is no whole number of us */
	int64_t first_ns, last_ns;
	struct lw_flow_table flows;
	struct lw_packet_batch batch;
	struct lw_packet_rows *rows;
};

static bool sniff(const char *head, size_t n_bytes)
{
	static const char magics[][4] = {{'\xa1', '\xb2', '\xc3', '\xd4'},
		{'\xd4', '\xc3', '\xb2', '\xa1'}, {'\xa1', '\xb2', '\x3c', '\x4d'},
		{'\x4d', '\x3c', '\xb2', '\xa1'}, {'\xa1', '\xb2', '\xcd', '\x34'},
		{'\x34', '\xcd', '\xb2', '\xa1'}, {'\x0a', '\x0d', '\x0d', '\x0a'}};

	for (size_t i = 0; n_bytes >= 4 && i < sizeof(magics) / sizeof(magics[0]); i++)
		if (!memcmp(head, magics[i], 4))
			return true;
	return false;
}

static int put_batch(struct pcap_import *p)
{
	int status = lw_flows_states(&p->flows, true, &p->batch);

	if (status == LW_OK)
		status = lw_packet_rows_put(p->rows, &p->batch);
	p->batch.bins.n = p->batch.states.n = 0;
	return status;
}

static bool emit(void *user, const struct lw_packet_bin *bin)
{
	struct pcap_import *p = user;

	if (p->status == LW_OK && p->batch.bins.n >= MAX_BINS)
		p->status = put_batch(p);
	if (p->status == LW_OK)
		p->status = lw_vec_push(&p->batch.bins, *bin);
	p->import->summary->bytes += bin->payload_bytes - bin->repeated_bytes;
	return true; /* an error ends the import: nothing waits */
}

static void add_packet(struct pcap_import *p, const struct pcap_pkthdr *header, const u_char *bytes)
{
	struct lw_capture_counts *counts = &p->batch.counts;
	enum lw_packet_status status;
	uint32_t interface = lw_pcapng_next(&p->interfaces);
	struct lw_packet packet;
	int64_t at_ns;

	counts->n_received++;
	if (header->ts.tv_sec < 0 || header->ts.tv_sec > MAX_S || header->ts.tv_usec < 0 ||
		header->ts.tv_usec >= LW_NS_PER_S) {
		counts->n_bad++;
		return;
	}
	at_ns = header->ts.tv_sec * LW_NS_PER_S + header->ts.tv_usec;
	p->has_ns |= at_ns % LW_NS_PER_US != 0;
	if (!p->has_time || at_ns < p->first_ns)
		p->first_ns = at_ns;
	p->has_time = true;
	if (at_ns > p->last_ns)
		p->last_ns = at_ns;
	status = lw_packet_decode(p->link, bytes, header->caplen, header->len, &packet);
	counts->n_other += status == LW_PACKET_OTHER;
	counts->n_cut += status == LW_PACKET_CUT;
	counts->n_bad += status == LW_PACKET_BAD;
	if (status != LW_PACKET_OK)
		return;
	if (!(packet.view >> 4)) /* cooked packets may name theirs themselves */
		packet.view |= interface << 4;
	lw_flows_add(&p->flows, &packet, at_ns);
}

static int tell_progress(struct pcap_import *p)
{
	struct lw_import *import = p->import;
	long at = ftell(p->file);

	if (!import->on_progress || p->size_bytes <= 0 || at < 0)
		return LW_OK;
	return import->on_progress(import->context, (double)at / (double)p->size_bytes);
}

/* All packets to the end of the file, or to where it cannot be read on: the summary says so. */
static int read_packets(struct pcap_import *p)
{
	struct lw_import_summary *summary = p->import->summary;
	struct pcap_pkthdr *header;
	const u_char *bytes;
	int code;

	while (p->status == LW_OK && (code = pcap_next_ex(p->pcap, &header, &bytes)) == 1) {
		add_packet(p, header, bytes);
		if (p->batch.counts.n_received % PROGRESS_PACKETS == 0 && p->status == LW_OK)
			p->status = tell_progress(p);
	}
	if (p->status < 0)
		return p->status;
	if (code == PCAP_ERROR) {
		summary->is_truncated = true;
		snprintf(summary->problem, sizeof(summary->problem), "%s", pcap_geterr(p->pcap));
		snprintf(p->batch.problem, sizeof(p->batch.problem), "%s", pcap_geterr(p->pcap));
	}
	if (!p->has_time)
		return lw_fail(LW_ERR_FORMAT, "holds no packet%s%s%s",
			p->batch.counts.n_received ? " with a time that can be" : "",
			code == PCAP_ERROR ? ": " : "", summary->problem);
	lw_flows_flush(&p->flows, INT64_MAX);
	return p->status;
}

/* Packets that the capture shows once more, at another interface of the same host. */
static uint64_t count_elsewhere(const struct pcap_import *p)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < p->flows.n; i++)
		n += p->flows.flows[i].n_elsewhere;
	return n;
}

static int put_end(struct pcap_import *p)
{
	struct lw_capture_counts *counts = &p->batch.counts;
	struct lw_import_summary *summary = p->import->summary;
	char sql[200];
	int status;

	counts->clock_error_ns = p->has_ns ? 1 : LW_NS_PER_US;
	p->batch.end_ns = p->last_ns;
	status = lw_flows_states(&p->flows, false, &p->batch);
	if (status == LW_OK)
		status = lw_packet_rows_put(p->rows, &p->batch);
	snprintf(sql, sizeof(sql),
		"UPDATE capture SET start_ns = %lld; UPDATE run SET created_realtime_ns = %lld",
		(long long)p->first_ns, (long long)p->first_ns);
	if (status == LW_OK)
		status = lw_store_exec(p->import->rows->store, sql);
	summary->n_records = counts->n_received;
	summary->n_elsewhere = count_elsewhere(p);
	summary->n_packets = counts->n_received - summary->n_elsewhere;
	summary->n_flows = p->flows.n - LW_FLOW_N_OTHER;
	summary->n_bad = counts->n_bad + counts->n_cut + summary->is_truncated;
	summary->duration_ns = p->last_ns - p->first_ns;
	if (!summary->problem[0] && summary->n_bad)
		snprintf(summary->problem, sizeof(summary->problem), "%s",
			counts->n_bad ? "a packet whose headers contradict themselves"
				      : "a packet whose headers were not captured whole");
	return status;
}

static int open_file(struct pcap_import *p)
{
	char error[PCAP_ERRBUF_SIZE];
	struct stat st;

	p->file = fopen(p->import->input, "rbe");
	if (!p->file)
		return lw_fail(LW_ERR_FORMAT, "cannot be read");
	lw_pcapng_open(&p->interfaces, p->import->input);
	p->size_bytes = fstat(fileno(p->file), &st) == 0 ? st.st_size : 0;
	p->pcap = pcap_fopen_offline_with_tstamp_precision(
		p->file, PCAP_TSTAMP_PRECISION_NANO, error);
	if (!p->pcap) {
		fclose(p->file);
		return lw_fail(LW_ERR_FORMAT, "%s", error);
	}
	p->link = pcap_datalink(p->pcap); /* which owns the file now */
	if (!lw_packet_knows_link(p->link)) {
		const char *name = pcap_datalink_val_to_name(p->link);

		return lw_fail(LW_ERR_FORMAT, "packets of link type %s (%d) cannot be decoded",
			name ? name : "?", p->link);
	}
	return LW_OK;
}

static int open_rows(struct pcap_import *p)
{
	const char *input = p->import->input, *slash = strrchr(input, '/');
	const char *name = slash ? slash + 1 : input, *link = pcap_datalink_val_to_name(p->link);
	const struct lw_capture_row capture = {HOST, name, "", "file", link ? link : "?",
		(uint32_t)pcap_snapshot(p->pcap), 0, NULL};
	int status =
		lw_rows_host(p->import->rows, HOST, name, "realtime of the host that captured");

	return status == LW_OK ? lw_packet_rows_open(p->import->rows->store, &capture, &p->rows)
			       : status;
}

static int import(struct lw_import *import)
{
	struct pcap_import p = {.import = import};
	int status = open_file(&p);

	if (status == LW_OK)
		status = lw_flows_open(&p.flows, LW_FLOWS_DEFAULT, emit, &p);
	if (status == LW_OK)
		status = open_rows(&p);
	if (status == LW_OK)
		status = read_packets(&p);
	if (status == LW_OK)
		status = put_end(&p);
	lw_packet_rows_close(p.rows);
	lw_packet_batch_free(&p.batch);
	lw_flows_close(&p.flows);
	lw_pcapng_close(&p.interfaces);
	if (p.pcap)
		pcap_close(p.pcap);
	return status;
}

const struct lw_importer lw_pcap_importer = {
	.name = "pcap",
	.reads = "packets that tcpdump, Wireshark or dumpcap wrote, pcap and pcapng",
	.sniff = sniff,
	.import = import,
};
