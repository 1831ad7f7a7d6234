/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/packets.h"

#include <pcap/pcap.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/err.h"
#include "collector/capture.h"
#include "collector/filter.h"
#include "collector/packet_owner.h"
#include "collector/permission.h"

struct lw_packets {
	struct lw_capture *capture; /* NULL: refused */
	struct lw_packet_rows *rows;
	struct lw_packet_owners *owners;
	char device[64], refusal[512];
};

/* A flow of the job gets a place, and an owner. */
static int begin(void *user, const struct lw_flow_key *key, int64_t process_id, bool is_sent)
{
	struct lw_packets *packets = user;
	int status = lw_capture_expect(packets->capture, key, is_sent);

	return status == LW_OK ? lw_packet_rows_own(packets->rows, key, process_id, is_sent)
			       : status;
}

static void end(void *user, const struct lw_flow_key *key)
{
	struct lw_packets *packets = user;

	lw_capture_forget(packets->capture, key);
	lw_packet_rows_disown(packets->rows, key);
}

static const struct lw_packet_owner_calls owner_calls = {begin, end};

int lw_packets_open(const struct lw_collect_options *options, struct pcap **tap,
	struct lw_packets **ret_packets)
{
	struct lw_packets *packets;
	struct lw_rundir rundir;
	int status;

	*ret_packets = NULL;
	if (!options->pcap_device)
		return LW_OK;
	status = lw_rundir_look(options->dir, &rundir);
	if (status < 0)
		return status;
	packets = calloc(1, sizeof(*packets));
	if (packets)
		packets->owners = lw_packet_owners_open(&owner_calls, packets);
	if (!packets || !packets->owners) {
		free(packets);
		return lw_fail(LW_ERR_NOMEM, "no memory");
	}
	status = lw_capture_open(
		options->pcap_device, options->pcap_filter, *tap, &packets->capture);
	*tap = NULL;
	lw_permission_drop();
	if (status < 0 && options->must_capture && !rundir.out[0]) {
		lw_packets_close(packets);
		return lw_cause(status, "--pcap");
	}
	if (status < 0) {
		snprintf(packets->device, sizeof(packets->device), "%s",
			*options->pcap_device ? options->pcap_device : LW_CAPTURE_ANY);
		snprintf(packets->refusal, sizeof(packets->refusal), "%s", lw_error_text());
	}
	*ret_packets = packets;
	return LW_OK;
}

int lw_packets_start(struct lw_packets *packets, struct lw_writer *writer)
{
	struct lw_capture_row row = {.filter = "", .source = "live", .link_type = ""};
	int status;

	if (!packets)
		return LW_OK;
	status = lw_writer_begin(writer);
	row.device = packets->device;
	row.problem = packets->refusal;
	if (packets->capture)
		row = lw_capture_describe(packets->capture);
	row.host_id = LW_WRITER_HOST_ID;
	if (status == LW_OK)
		status = lw_packet_rows_end_earlier(
			lw_writer_store(writer), row.host_id, lw_clock_ns());
	if (status == LW_OK)
		status = lw_packet_rows_open(lw_writer_store(writer), &row, &packets->rows);
	if (status == LW_OK)
		status = lw_writer_commit(writer);
	return status == LW_OK && packets->capture ? lw_capture_start(packets->capture) : status;
}

static int put_batches(struct lw_packets *packets)
{
	const struct lw_packet_batch *batch;
	char filter[2 * LW_FILTER_BYTES];
	int status = LW_OK;

	if (lw_capture_filter(packets->capture, filter, sizeof(filter)))
		status = lw_packet_rows_filter(packets->rows, filter);
	while (status == LW_OK && (batch = lw_capture_take(packets->capture)))
		status = lw_packet_rows_put(packets->rows, batch);
	return status;
}

bool lw_packets_has_news(const struct lw_packets *packets)
{
	return packets && packets->capture && lw_capture_has_news(packets->capture);
}

int lw_packets_put(struct lw_packets *packets, const struct lw_drain *drain)
{
	int status;

	if (!packets || !packets->capture)
		return LW_OK;
	status = lw_packet_owners_take(packets->owners, &drain->take, lw_clock_ns());
	return status == LW_OK ? put_batches(packets) : status;
}

void lw_packets_process_ended(struct lw_packets *packets, const struct lw_process *process)
{
	if (packets && packets->capture)
		lw_packet_owners_process_ended(packets->owners, process->process_id, lw_clock_ns());
}

int lw_packets_finish(struct lw_packets *packets, struct lw_writer *writer)
{
	int status = LW_OK;

	if (!packets || !packets->capture)
		return LW_OK;
	lw_capture_stop(packets->capture);
	status = lw_writer_begin(writer);
	if (status == LW_OK)
		status = put_batches(packets);
	return status == LW_OK ? lw_writer_commit(writer) : status;
}

struct pcap *lw_packets_leave(struct lw_packets *packets)
{
	return packets && packets->capture ? lw_capture_leave(packets->capture) : NULL;
}

void lw_packets_close_tap(struct pcap *tap)
{
	if (tap)
		pcap_close(tap);
}

void lw_packets_close(struct lw_packets *packets)
{
	if (!packets)
		return;
	lw_capture_close(packets->capture);
	lw_packet_rows_close(packets->rows);
	lw_packet_owners_close(packets->owners);
	free(packets);
}

int lw_packets_check(const char *device)
{
	struct lw_capture *capture;
	int status = lw_capture_open(device, NULL, NULL, &capture);

	if (status == LW_OK)
		lw_capture_close(capture);
	return status;
}
