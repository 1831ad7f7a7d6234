/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/tap.h"

#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "collector/capture.h"
#include "collector/filter.h"
#include "collector/permission.h"
#include "packet/decode.h"

/* The kernel hands a block of packets over when it is full or this old. */
enum { BLOCK_MS = 50 };
/* 200 000 packets/s fill it in a second: so long may the reader have to wait for a core. libpcap takes
 * less when there is less. */
enum { RING_BYTES = 32 << 20 };

const char *lw_tap_link_name(pcap_t *pcap)
{
	const char *name = pcap_datalink_val_to_name(pcap_datalink(pcap));

	return name ? name : "?";
}

static int say_no_device(const char *device, const char *why)
{
	char names[256] = "", error[PCAP_ERRBUF_SIZE];
	pcap_if_t *all = NULL;

	if (pcap_findalldevs(&all, error) == 0) {
		for (const pcap_if_t *one = all; one; one = one->next) {
			size_t n = strlen(names);

			if (one->flags & PCAP_IF_UP && n + strlen(one->name) + 3 < sizeof(names))
				snprintf(names + n, sizeof(names) - n, "%s%s", n ? ", " : "",
					one->name);
		}
		pcap_freealldevs(all);
	}
	return lw_fail(LW_ERR_IO, "%s: %s%s%s", device, why, names[0] ? "; there are " : "", names);
}

static int say_why_not(const char *device, pcap_t *pcap, int code)
{
	const char *why = pcap_geterr(pcap);
	char missing[3400];

	switch (code) {
	case PCAP_ERROR_PERM_DENIED:
		lw_permission_explain(missing, sizeof(missing));
		return lw_fail(LW_ERR_UNSUPPORTED, "%s: not permitted: %s", device, missing);
	case PCAP_ERROR_NO_SUCH_DEVICE:
		return say_no_device(device, "no such network device");
	case PCAP_ERROR_IFACE_NOT_UP:
		return say_no_device(device, "is down");
	default:
		return lw_fail(LW_ERR_IO, "%s: %s", device, *why ? why : pcap_statustostr(code));
	}
}

/* Return: 0 or a PCAP_ERROR_. */
static int set_up(pcap_t *pcap, const char *device)
{
	int code;

	pcap_set_snaplen(pcap, LW_PACKET_SNAP_BYTES);
	pcap_set_promisc(pcap, 0);
	pcap_set_immediate_mode(pcap, 0); /* that would be TPACKET_V2 and a wake-up a packet */
	pcap_set_timeout(pcap, BLOCK_MS);
	pcap_set_buffer_size(pcap, RING_BYTES);
	pcap_set_tstamp_precision(pcap, PCAP_TSTAMP_PRECISION_NANO);
	code = pcap_activate(pcap);
	if (code < 0)
		return code;
	/* "any" names the interface of each packet only in the second version of its header */
	if (!strcmp(device, LW_CAPTURE_ANY) && pcap_set_datalink(pcap, LW_LINK_SLL2) < 0)
		return PCAP_ERROR;
	return 0;
}

int lw_tap_open(const char *device, pcap_t **ret_pcap)
{
	char error[PCAP_ERRBUF_SIZE] = "";
	pcap_t *pcap;
	int code, status = LW_OK;

	lw_permission_raise();
	pcap = pcap_create(device, error);
	if (!pcap)
		return lw_fail(LW_ERR_IO, "%s: %s", device, error);
	code = set_up(pcap, device);
	if (code < 0)
		status = say_why_not(device, pcap, code);
	else if (!lw_packet_knows_link(pcap_datalink(pcap)))
		status = lw_fail(LW_ERR_IO, "%s: is a link of type %s, which cannot be decoded",
			device, lw_tap_link_name(pcap));
	else if (pcap_setnonblock(pcap, 1, error) < 0)
		status = lw_fail(LW_ERR_IO, "%s: %s", device, error);
	if (status < 0) {
		pcap_close(pcap);
		return status;
	}
	*ret_pcap = pcap;
	return LW_OK;
}

uint32_t lw_tap_mtu(const char *device)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq request = {0};
	bool is_known;

	snprintf(request.ifr_name, sizeof(request.ifr_name), "%.*s", IFNAMSIZ - 1, device);
	is_known = fd >= 0 && ioctl(fd, SIOCGIFMTU, &request) == 0 && request.ifr_mtu > 0;
	if (fd >= 0)
		close(fd);
	return is_known ? (uint32_t)request.ifr_mtu : 0;
}

int lw_tap_filter(pcap_t *pcap, const char *text, const struct bpf_program *also)
{
	struct bpf_program own, both;
	int status = lw_filter_compile(pcap, text, &own);

	if (status == LW_OK && also->bf_len) {
		status = lw_filter_join(&own, also, &both);
		pcap_freecode(&own);
		own = both;
	}
	if (status < 0)
		return status;
	if (pcap_setfilter(pcap, &own) < 0)
		status = lw_fail(LW_ERR_IO, "filter '%s': %s", text, pcap_geterr(pcap));
	pcap_freecode(&own);
	return status;
}
