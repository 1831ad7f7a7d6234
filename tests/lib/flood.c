/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flood.c - many small TCP segments at a steady rate, on a device of a test's own network namespace.
 *
 *	flood DEVICE PACKETS_PER_S SECONDS N_FLOWS [udp]
 *
 * From 198.18.201.1 to 198.18.201.77, which nobody has; flow k comes from port 1000 + k, each segment
 * follows the one before it. With udp they are datagrams of the same size. Prints how many were sent.
 */
#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netpacket/packet.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { BATCH = 64, PAYLOAD_BYTES = 64, FRAME_BYTES = 14 + 20 + 20 + PAYLOAD_BYTES };

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static void make(uint8_t *frame, uint32_t flow, uint32_t seq, bool is_udp)
{
	static const uint8_t head[] = {2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0, 0,
		40 + PAYLOAD_BYTES, 0, 1, 0, 0, 64, 6, 0, 0, 198, 18, 201, 1, 198, 18, 201, 77};
	uint16_t ports[2] = {htons((uint16_t)(1000 + flow)), htons(601)};

	memset(frame, 0, FRAME_BYTES);
	memcpy(frame, head, sizeof(head));
	memcpy(frame + 34, ports, 4);
	if (is_udp) {
		frame[23] = IPPROTO_UDP;
		frame[39] = FRAME_BYTES - 14 - 20;
		return;
	}
	seq = htonl(seq);
	memcpy(frame + 38, &seq, 4);
	frame[46] = 0x50;
	frame[47] = 16;
}

int main(int argc, char **argv)
{
	static uint8_t frames[BATCH][FRAME_BYTES];
	struct sockaddr_ll to = {.sll_family = AF_PACKET, .sll_protocol = htons(0x0800)};
	struct mmsghdr messages[BATCH];
	struct iovec parts[BATCH];
	uint64_t n_sent = 0, n_wanted;
	uint32_t n_flows;
	int64_t start_ns, end_ns, rate;
	int fd = socket(AF_PACKET, SOCK_RAW, 0);

	if (argc < 5 || fd < 0) {
		perror("flood: DEVICE PACKETS_PER_S SECONDS N_FLOWS [udp]");
		return 1;
	}
	to.sll_ifindex = (int)if_nametoindex(argv[1]);
	rate = strtol(argv[2], NULL, 10);
	n_flows = (uint32_t)strtoul(argv[4], NULL, 10);
	if (bind(fd, (struct sockaddr *)&to, sizeof(to)) < 0) {
		perror("flood: bind");
		return 1;
	}
	start_ns = now_ns();
	end_ns = start_ns + (int64_t)(strtod(argv[3], NULL) * 1e9);
	for (int64_t now = start_ns; now < end_ns; now = now_ns()) {
		int n;

		n_wanted = (uint64_t)((double)(now - start_ns) * 1e-9 * (double)rate);
		if (n_wanted < n_sent + BATCH) {
			usleep(200);
			continue;
		}
		memset(messages, 0, sizeof(messages));
		for (uint32_t i = 0; i < BATCH; i++) {
			uint64_t k = n_sent + i;

			make(frames[i], (uint32_t)(k % n_flows),
				(uint32_t)(k / n_flows * PAYLOAD_BYTES), argc > 5);
			parts[i] = (struct iovec){frames[i], FRAME_BYTES};
			messages[i].msg_hdr.msg_iov = &parts[i];
			messages[i].msg_hdr.msg_iovlen = 1;
		}
		n = sendmmsg(fd, messages, BATCH, 0);
		n_sent += n > 0 ? (uint64_t)n : 0;
	}
	printf("%llu\n", (unsigned long long)n_sent);
	return 0;
}
