/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/packets.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "collector/capture.h"
#include "collector/filter.h"
#include "collector/permission.h"

struct lw_packets {
	struct lw_capture *capture; /* NULL: refused */
	struct lw_packet_rows *rows;
	char device[64], refusal[512];
};

int lw_packets_open(const struct lw_collect_options *options, struct lw_packets **ret_packets)
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
	if (!packets)
		return lw_fail(LW_ERR_NOMEM, "no memory");
	status = lw_capture_open(options->pcap_device, options->pcap_filter, &packets->capture);
	lw_permission_drop();
	if (status < 0 && options->must_capture && !rundir.out[0]) {
		free(packets);
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
	struct lw_capture_row row = {.device = packets->device,
		.filter = "",
		.source = "live",
		.link_type = "",
		.problem = packets->refusal};
	int status = packets ? lw_writer_begin(writer) : LW_OK;

	if (!packets)
		return LW_OK;
	if (packets->capture)
		row = lw_capture_describe(packets->capture);
	row.host_id = LW_WRITER_HOST_ID;
	if (status == LW_OK)
		status = lw_packet_rows_open(lw_writer_store(writer), &row, &packets->rows);
	if (status == LW_OK)
		status = lw_writer_commit(writer);
	return status == LW_OK && packets->capture ? lw_capture_start(packets->capture) : status;
}

/* A connection of the job: its two flows get an owner each. */
static int own(struct lw_packets *packets, const struct lw_record *record)
{
	const struct lw_ev_socket *socket = &record->event->socket;
	struct lw_connection connection = {
		.local_port = socket->local_port, .peer_port = socket->peer_port};
	struct lw_flow_key sent = {.source_port = socket->local_port,
		.destination_port = socket->peer_port,
		.protocol = IPPROTO_TCP};
	struct lw_flow_key received = {.source_port = socket->peer_port,
		.destination_port = socket->local_port,
		.protocol = IPPROTO_TCP};
	int64_t process_id = record->ring->process->process_id;
	int status;

	memcpy(connection.local, socket->local, 16);
	memcpy(connection.peer, socket->peer, 16);
	memcpy(sent.source, socket->local, 16);
	memcpy(sent.destination, socket->peer, 16);
	memcpy(received.source, socket->peer, 16);
	memcpy(received.destination, socket->local, 16);
	status = lw_capture_expect(packets->capture, &connection);
	if (status == LW_OK)
		status = lw_packet_rows_own(packets->rows, &sent, process_id, true);
	if (status == LW_OK)
		status = lw_packet_rows_own(packets->rows, &received, process_id, false);
	return status;
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
	const struct lw_record_list *sockets = &drain->take.of_kind[LW_EV_SOCKET];
	int status = LW_OK;

	if (!packets || !packets->capture)
		return LW_OK;
	for (size_t i = 0; i < sockets->n && status == LW_OK; i++)
		status = own(packets, &sockets->at[i]);
	return status == LW_OK ? put_batches(packets) : status;
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

void lw_packets_close(struct lw_packets *packets)
{
	if (!packets)
		return;
	lw_capture_close(packets->capture);
	lw_packet_rows_close(packets->rows);
	free(packets);
}

int lw_packets_check(const char *device)
{
	struct lw_capture *capture;
	int status = lw_capture_open(device, NULL, &capture);

	if (status == LW_OK)
		lw_capture_close(capture);
	return status;
}
