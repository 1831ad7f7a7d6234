/* SPDX-License-Identifier: Apache-2.0 */
/*
 * packets.h - a capture as part of a recording: its batches become rows in the writer's transactions,
 * and the connections that the job's records tell of say whose its flows are.
 */
#ifndef LAPWING_COLLECTOR_PACKETS_H
#define LAPWING_COLLECTOR_PACKETS_H

#include <stdbool.h>

#include "collector/collector.h"
#include "collector/writer.h"

struct pcap;       /* libpcap's: an open device */
struct lw_packets; /* NULL = no capture was asked for: allowed in every call */

/**
 * lw_packets_open() - open the device that @options ask for, or go on with *@tap, what lw_packets_leave() gave.
 * With must_capture a device that cannot be opened is an error, but not of a collector that goes on where
 * an earlier one stopped: then, and without it, a row says why, and the recording goes on.
 * Return: LW_OK; the errors of lw_capture_open().
 */
int lw_packets_open(const struct lw_collect_options *options, struct pcap **tap,
	struct lw_packets **ret_packets);

/**
 * lw_packets_leave() - the device after lw_packets_finish(), for a collector that begins again: the right to
 * open it was given back. Return: NULL when there is none; lw_packets_close_tap() closes it.
 */
struct pcap *lw_packets_leave(struct lw_packets *packets);
void lw_packets_close_tap(struct pcap *tap);

/** lw_packets_start() - the row of the capture, and its thread. Makes a transaction of its own. */
int lw_packets_start(struct lw_packets *packets, struct lw_writer *writer);

/** lw_packets_has_news() - is there anything to store? */
bool lw_packets_has_news(const struct lw_packets *packets);

/** lw_packets_put() - store what was captured; @drain: what was just taken. In a transaction. */
int lw_packets_put(struct lw_packets *packets, const struct lw_drain *drain);

/** lw_packets_process_ended() - its connections end with it. */
void lw_packets_process_ended(struct lw_packets *packets, const struct lw_process *process);

/** lw_packets_finish() - end the capture and store the rest, in a transaction of its own. */
int lw_packets_finish(struct lw_packets *packets, struct lw_writer *writer);

/** lw_packets_close() - NULL is allowed. */
void lw_packets_close(struct lw_packets *packets);

/** lw_packets_check() - can @device (NULL = any) be captured here? Return: as lw_capture_open(). */
int lw_packets_check(const char *device);

#endif /* LAPWING_COLLECTOR_PACKETS_H */
