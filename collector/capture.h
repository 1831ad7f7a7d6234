/* SPDX-License-Identifier: Apache-2.0 */
/*
 * capture.h - packets of a network device, read by a thread of their own while a job is recorded.
 *
 *	lw_capture_open()     the device, its filter; says what is missing when it may not
 *	lw_capture_start()    the thread: packets -> flows and bins (packet/flow.h) -> batches
 *	lw_capture_expect()   flows of the job, as its records tell of them; lw_capture_forget() when they end
 *	lw_capture_take()     what is ready for the writer
 *	lw_capture_stop()     the rest
 *
 * Headers only, never promiscuous, libpcap's default ring (TPACKET_V3). Packets that the kernel drops
 * are counted with the interval in which it happened. The kernel stamps packets with CLOCK_REALTIME:
 * they are moved to CLOCK_MONOTONIC by pairs that are read with every block of packets.
 *
 * The filter begins wide (all TCP and RoCE), so that no connection's start is missed and traffic that
 * is not the job's can be told. Only when strangers send more than LW_CAPTURE_STRANGERS_PER_S it is
 * narrowed to the peers of the job, and to whatever opens a connection.
 */
#ifndef LAPWING_COLLECTOR_CAPTURE_H
#define LAPWING_COLLECTOR_CAPTURE_H

#include <stdbool.h>
#include <stdint.h>

#include "packet/rows.h"

/* A stranger's packet costs about 0.1 us, with what is stored of it, so up to here they cost 0.2 % of a core. */
enum { LW_CAPTURE_STRANGERS_PER_S = 20000 };

#define LW_CAPTURE_ANY "any"

struct lw_capture;
struct pcap; /* libpcap's pcap_t: an open device */

/**
 * lw_capture_open() - open @device (NULL = all of them).
 * @filter: captured too, in the language of pcap-filter(7), "" or NULL = nothing more
 * @tap: that device, as another capture left it; closed whatever happens. NULL = open it.
 * Return: LW_OK; LW_ERR_UNSUPPORTED: not permitted (the text says what to do); LW_ERR_IO: no such
 * device, or it is of a kind that cannot be read; LW_ERR_USAGE: @filter is wrong.
 */
int lw_capture_open(
	const char *device, const char *filter, struct pcap *tap, struct lw_capture **ret_capture);

/** lw_capture_start() - begin to read. Return: LW_OK or LW_ERR_NOMEM. */
int lw_capture_start(struct lw_capture *capture);

/**
 * lw_capture_expect() - the flow of @key is the job's: it keeps its milliseconds, and has a place that
 * strangers cannot take. @is_sent: by the job; over TCP its receiver stays in the filter then.
 * Return: LW_OK or LW_ERR_NOMEM.
 */
int lw_capture_expect(struct lw_capture *capture, const struct lw_flow_key *key, bool is_sent);

/** lw_capture_forget() - takes one lw_capture_expect() back. */
void lw_capture_forget(struct lw_capture *capture, const struct lw_flow_key *key);

/** lw_capture_has_news() - is there anything to take? */
bool lw_capture_has_news(struct lw_capture *capture);

/** lw_capture_take() - what was read since the last call, NULL = nothing; valid until the next call. */
const struct lw_packet_batch *lw_capture_take(struct lw_capture *capture);

/** lw_capture_filter() - the expression in force and, when it changed since the last call, true. */
bool lw_capture_filter(struct lw_capture *capture, char *text, size_t text_bytes);

/** lw_capture_stop() - read what has come so far, end the thread. lw_capture_take() gives the rest. */
void lw_capture_stop(struct lw_capture *capture);

/** lw_capture_leave() - the device, once it was stopped, for another capture; NULL when it is gone. */
struct pcap *lw_capture_leave(struct lw_capture *capture);

/** lw_capture_close() - NULL is allowed. */
void lw_capture_close(struct lw_capture *capture);

/** What a row says about it: device, link type, snap length; owned by @capture. */
struct lw_capture_row lw_capture_describe(const struct lw_capture *capture);

#endif /* LAPWING_COLLECTOR_CAPTURE_H */
