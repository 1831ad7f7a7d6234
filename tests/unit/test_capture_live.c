/* SPDX-License-Identifier: Apache-2.0 */
/* A real capture of loopback, its thread beside the owner's: what was sent is what is taken. Needs CAP_NET_RAW. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "collector/capture.h"

enum { N_PACKETS = 20000, PAYLOAD_BYTES = 16 + 12 };

struct sums {
	uint64_t n_packets, payload_bytes, n_received, n_dropped;
	int64_t end_ns, first_ns, last_ns;
	size_t n_states, n_bins;
	int64_t longest_ns; /* of a bin */
};

static void add_up(const struct lw_packet_batch *batch, uint32_t qp, struct sums *sums)
{
	struct lw_flow_state *state;
	struct lw_packet_bin *bin;
	static uint32_t wanted = LW_FLOW_NONE;

	sums->n_received = batch->counts.n_received;
	sums->n_dropped = batch->counts.n_dropped;
	sums->end_ns = batch->end_ns;
	lw_vec_foreach (state, &batch->states) {
		if (state->key.is_roce && state->key.destination_qp == qp)
			wanted = state->flow;
		sums->n_states++;
	}
	lw_vec_foreach (bin, &batch->bins) {
		if (bin->flow != wanted)
			continue;
		if (!sums->first_ns || bin->first_ns < sums->first_ns)
			sums->first_ns = bin->first_ns;
		sums->last_ns = bin->last_ns > sums->last_ns ? bin->last_ns : sums->last_ns;
		sums->n_bins++;
		if (bin->last_ns - bin->bin_ns > sums->longest_ns)
			sums->longest_ns = bin->last_ns - bin->bin_ns;
		sums->n_packets += bin->n_packets;
		sums->payload_bytes += bin->payload_bytes;
	}
}

/* RoCE packets to queue pair @qp, to a port of this host that nobody reads. */
static void send_one(int fd, uint32_t qp, uint32_t psn)
{
	uint8_t packet[PAYLOAD_BYTES] = {4, 0, 0xff, 0xff, 0, (uint8_t)(qp >> 16),
		(uint8_t)(qp >> 8), (uint8_t)qp, 0, (uint8_t)(psn >> 16), (uint8_t)(psn >> 8),
		(uint8_t)psn};
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(LW_PORT_ROCE)};

	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(sendto(fd, packet, sizeof(packet), 0, (struct sockaddr *)&to, sizeof(to)),
		(ssize_t)sizeof(packet));
}

static void what_was_sent_is_taken_while_it_is_read(void **state)
{
	const uint32_t qp = 0x10000u + (uint32_t)getpid() % 0xffff;
	const struct lw_packet_batch *batch;
	struct lw_flow_key key = {.protocol = IPPROTO_TCP, .source_port = 1, .destination_port = 2};
	const struct lw_flow_key own = {.protocol = IPPROTO_UDP,
		.is_roce = 1,
		.source = {[10] = 0xff, 0xff, 127, 0, 0, 1},
		.destination = {[10] = 0xff, 0xff, 127, 0, 0, 1},
		.destination_port = LW_PORT_ROCE,
		.destination_qp = qp};
	struct lw_capture *capture;
	struct sums sums = {0};
	int64_t start_ns, end_ns;
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	(void)state;
	if (lw_capture_open("lo", "", NULL, &capture) < 0)
		fail_msg("%s", lw_error_text());
	assert_int_equal(lw_capture_start(capture), LW_OK);
	start_ns = lw_clock_ns();
	for (uint32_t i = 0; i < N_PACKETS; i++) {
		send_one(fd, qp, i);
		if (i % 1000)
			continue;
		key.destination[0] = (uint8_t)(i / 1000);
		assert_int_equal(lw_capture_expect(capture, &key, true), LW_OK);
		if (i == N_PACKETS / 2) /* late, but soon enough */
			assert_int_equal(lw_capture_expect(capture, &own, true), LW_OK);
		nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
		batch = lw_capture_take(capture);
		if (batch)
			add_up(batch, qp, &sums);
	}
	end_ns = lw_clock_ns();
	lw_capture_stop(capture);
	while ((batch = lw_capture_take(capture)))
		add_up(batch, qp, &sums);
	assert_int_equal(sums.n_dropped, 0);
	assert_int_equal(sums.n_packets, N_PACKETS);
	assert_int_equal(sums.payload_bytes, N_PACKETS * 12);
	assert_true(sums.n_bins >= N_PACKETS / 1000 && sums.longest_ns < LW_BIN_NS);
	assert_true(sums.n_received >= N_PACKETS && sums.n_states > 0);
	assert_true(sums.first_ns >= start_ns && sums.last_ns <= end_ns);
	assert_true(sums.end_ns >= end_ns);
	lw_capture_close(capture);
	close(fd);
}

static void one_that_never_started_closes(void **state)
{
	struct lw_capture *capture;

	(void)state;
	assert_int_equal(lw_capture_open("lo", "port 9", NULL, &capture), LW_OK);
	assert_null(lw_capture_take(capture));
	lw_capture_close(capture);
	lw_capture_close(NULL);
	assert_int_equal(lw_capture_open("lo", "prot 9", NULL, &capture), LW_ERR_USAGE);
	assert_int_equal(lw_capture_open("nosuch0", "", NULL, &capture), LW_ERR_IO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_sent_is_taken_while_it_is_read),
		cmocka_unit_test(one_that_never_started_closes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
