/* SPDX-License-Identifier: Apache-2.0 */
/* tap.h - a network device opened for capture, or the reason why it is not. */
#ifndef LAPWING_COLLECTOR_TAP_H
#define LAPWING_COLLECTOR_TAP_H

#include <pcap/pcap.h>
#include <stdint.h>

/**
 * lw_tap_open() - open @device for headers only, not promiscuous, with times in ns.
 * Return: LW_OK; LW_ERR_UNSUPPORTED: not permitted, the text says what is missing; LW_ERR_IO: no such
 * device (the text names those there are), it is down, or its packets cannot be decoded.
 * *@ret_pcap is closed with pcap_close().
 */
int lw_tap_open(const char *device, pcap_t **ret_pcap);

/** lw_tap_link_name() - what libpcap calls its kind of link. */
const char *lw_tap_link_name(pcap_t *pcap);

/** lw_tap_mtu() - in bytes, 0 = not known. */
uint32_t lw_tap_mtu(const char *device);

/**
 * lw_tap_filter() - make @text the filter, or also what @also (bf_len 0 = nothing) lets pass.
 * Return: LW_OK, LW_ERR_USAGE with libpcap's own words, LW_ERR_IO, LW_ERR_NOMEM.
 */
int lw_tap_filter(pcap_t *pcap, const char *text, const struct bpf_program *also);

#endif /* LAPWING_COLLECTOR_TAP_H */
