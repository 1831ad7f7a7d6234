/* SPDX-License-Identifier: Apache-2.0 */
/* What a capture is made of besides packets: the clock it moves times to, and its filter. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <pcap/pcap.h>

#include "base/err.h"
#include "base/units.h"
#include "collector/filter.h"
#include "collector/packet_clock.h"
#include "collector/tap.h"
#include "tests/lib/packets.h"

#define S LW_NS_PER_S

static void times_move_by_the_distance_of_the_clocks(void **state)
{
	struct lw_packet_clock clock = {0};

	(void)state;
	lw_packet_clock_pair(&clock, 10 * S, 1000 * S, 40);
	assert_int_equal(lw_packet_clock_convert(&clock, 1000 * S - 5), 10 * S - 5);
	assert_int_equal(clock.error_ns, 40);
	lw_packet_clock_pair(&clock, 11 * S, 1001 * S + 300, 30); /* slewed by 300 ns in between */
	assert_int_equal(lw_packet_clock_convert(&clock, 1001 * S), 11 * S - 300);
	assert_int_equal(clock.error_ns, 330);
}

static void a_clock_that_is_set_moves_no_packet_out_of_its_time(void **state)
{
	for (int sign = -1; sign <= 1; sign += 2) {
		struct lw_packet_clock clock = {0};
		int64_t step_ns = sign * 3600 * S;

		lw_packet_clock_pair(&clock, 100 * S, 5000 * S, 40);
		lw_packet_clock_pair(&clock, 100 * S + 50000000, 5000 * S + 50000000 + step_ns, 40);
		/* before and after it was set */
		assert_int_equal(lw_packet_clock_convert(&clock, 5000 * S + 1000), 100 * S + 1000);
		assert_int_equal(lw_packet_clock_convert(&clock, 5000 * S + 40000000 + step_ns),
			100 * S + 40000000);
		assert_int_equal(clock.error_ns, 40);
	}
	(void)state;
}

static void a_small_step_is_an_error_that_is_said(void **state)
{
	struct lw_packet_clock clock = {0};

	(void)state;
	lw_packet_clock_pair(&clock, 100 * S, 5000 * S, 40);
	lw_packet_clock_pair(&clock, 100 * S + 50000000, 5000 * S + 30000000, 40); /* 20 ms back */
	lw_packet_clock_convert(&clock, 5000 * S + 10000000);
	assert_int_equal(clock.error_ns, 20000000);
}

static void real_readings_are_close_together(void **state)
{
	struct lw_packet_clock clock = {0};

	(void)state;
	assert_true(lw_packet_clock_read(&clock) > 0);
	assert_true(clock.error_ns > 0 && clock.error_ns < LW_NS_PER_S);
}

static pcap_t *dead_device(int link)
{
	pcap_t *pcap = pcap_open_dead(link, 136);

	assert_non_null(pcap);
	return pcap;
}

/* Does @text, or @also, let @b pass? */
static bool either_passes(const char *text, const char *also, const struct bytes *b)
{
	struct pcap_pkthdr header = {.caplen = b->n, .len = b->n_wire};
	pcap_t *pcap = dead_device(DLT_EN10MB);
	struct bpf_program program, second, joined;
	bool does;

	assert_int_equal(lw_filter_compile(pcap, text, &program), LW_OK);
	if (*also) {
		assert_int_equal(lw_filter_compile(pcap, also, &second), LW_OK);
		assert_int_equal(lw_filter_join(&program, &second, &joined), LW_OK);
		pcap_freecode(&program);
		pcap_freecode(&second);
		program = joined;
		assert_true(bpf_validate(program.bf_insns, (int)program.bf_len));
	}
	does = pcap_offline_filter(&program, &header, b->at) != 0;
	pcap_freecode(&program);
	pcap_close(pcap);
	return does;
}

static bool passes(const char *text, const struct bytes *b)
{
	return either_passes(text, "", b);
}

static void the_narrow_filter_keeps_peers_openings_and_roce(void **state)
{
	static const struct lw_filter_peers none,
		peers = {.at = {{[10] = 0xff, 0xff, 10, 0, 0, 2}, {0xfd, [15] = 2}}, .n = 2};
	struct bytes peer = tcp_frame(&(struct segment){.from = 9, .to = 2, .flags = 16});
	struct bytes stranger = tcp_frame(&(struct segment){.from = 9, .to = 3, .flags = 16});
	struct bytes opening = tcp_frame(&(struct segment){.from = 9, .to = 3, .flags = 2});
	struct bytes roce = roce_frame(8, 9, 4, 1, 1, 0, 64), six = {{0}, 0, 0},
		     tagged = {{0}, 0, 0};
	char narrow[LW_FILTER_BYTES], wide[LW_FILTER_BYTES];

	(void)state;
	put_ethernet(&six, 0x86dd);
	put_ipv6(&six, 6, 20); /* fd00::1 to fd00::2 */
	put_tcp(&six, &(struct segment){.flags = 16});
	put_ethernet(&tagged, 0x8100);
	put32(&tagged, 0x00050800);
	put_ipv4(&tagged, 6, 20, 1, 9, 2);
	put_tcp(&tagged, &(struct segment){.flags = 16});
	assert_int_equal(lw_filter_text(&peers, true, narrow, sizeof(narrow)), LW_OK);
	assert_int_equal(lw_filter_text(&none, true, wide, sizeof(wide)), LW_OK);
	assert_true(passes(narrow, &peer) && passes(narrow, &opening) && passes(narrow, &roce));
	assert_true(passes(narrow, &six) && passes(narrow, &tagged));
	assert_false(passes(narrow, &stranger));
	assert_true(passes(wide, &stranger) && passes(wide, &tagged) && passes(wide, &roce));
	six.at[14 + 39] = 3;
	assert_false(passes(narrow, &six));
	assert_false(either_passes(narrow, "udp port 9", &stranger));
	assert_true(either_passes(narrow, "udp port 9", &tagged));
}

/* Of 10.0.0.9 to 10.0.0.2, with tag 7: UDP to @port, or TCP. */
static struct bytes tagged_frame(uint32_t udp_port)
{
	struct bytes b = {{0}, 0, 0};

	put_ethernet(&b, 0x8100);
	put32(&b, 0x00070800);
	put_ipv4(&b, udp_port ? 17 : 6, 20, 1, 9, 2);
	if (!udp_port) {
		put_tcp(&b, &(struct segment){.flags = 16});
		return b;
	}
	put16(&b, 49152);
	put16(&b, udp_port);
	put16(&b, 20);
	put_zeros(&b, 14);
	return b;
}

/* Behind the word vlan an expression is about what lies behind a tag: the user's must not move ours. */
static void a_filter_of_the_users_with_vlan_in_it_hides_nothing(void **state)
{
	struct lw_filter_peers peers = {.at = {{[10] = 0xff, 0xff, 10, 0, 0, 2}}};
	static const struct {
		const char *also;
		bool takes_tagged_dns; /* as it does when it stands alone */
	} cases[] = {{"", false}, {"udp port 53", false}, {"vlan 7", true}, {"vlan 5", false},
		{"vlan 5 or vlan 6", false}, {"vlan and udp port 53", true},
		{"udp port 9 or (vlan and udp port 9)", false}, {"not vlan", false}};
	struct bytes job = tagged_frame(0), roce = tagged_frame(4791), dns = tagged_frame(53);
	struct bytes plain = tcp_frame(&(struct segment){.from = 9, .to = 2, .flags = 16});

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char text[LW_FILTER_BYTES];

		for (peers.n = 0; peers.n < 2; peers.n++) {
			const char *also = cases[i].also;

			assert_int_equal(lw_filter_text(&peers, true, text, sizeof(text)), LW_OK);
			if (!either_passes(text, also, &job) || !either_passes(text, also, &roce) ||
				!either_passes(text, also, &plain))
				fail_msg("with '%s' the job's packets do not pass", also);
			if (either_passes(text, also, &dns) != cases[i].takes_tagged_dns)
				fail_msg("'%s' takes tagged DNS otherwise than alone", also);
		}
		if (*cases[i].also)
			assert_int_equal(passes(cases[i].also, &dns), cases[i].takes_tagged_dns);
	}
}

static void the_largest_filter_still_compiles_and_one_too_long_is_refused(void **state)
{
	struct lw_filter_peers peers = {.n = 0};
	char text[LW_FILTER_BYTES];
	pcap_t *pcap = dead_device(DLT_EN10MB), *cooked = dead_device(276);

	(void)state;
	for (int i = 0; i < 32; i++) {
		uint8_t peer[16] = {0xfd, [15] = (uint8_t)i};

		lw_filter_add_peer(&peers, peer);
		lw_filter_add_peer(&peers, peer);
	}
	assert_int_equal(lw_filter_text(&peers, true, text, sizeof(text)), LW_OK);
	for (int i = 0; i < 2; i++) {
		struct bpf_program program;

		assert_int_equal(lw_filter_text(&peers, i == 0, text, sizeof(text)), LW_OK);
		assert_int_equal(
			pcap_compile(i ? cooked : pcap, &program, text, 1, PCAP_NETMASK_UNKNOWN),
			0);
		assert_true(program.bf_len < 4096); /* what the kernel takes */
		pcap_freecode(&program);
	}
	assert_int_equal(lw_filter_text(&peers, true, text, 200), LW_ERR_LIMIT);
	lw_filter_add_peer(&peers, (const uint8_t[16]){9}); /* one too many: all of them */
	assert_int_equal(lw_filter_text(&peers, true, text, sizeof(text)), LW_OK);
	assert_null(strstr(text, "host"));
	pcap_close(pcap);
	pcap_close(cooked);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(times_move_by_the_distance_of_the_clocks),
		cmocka_unit_test(a_clock_that_is_set_moves_no_packet_out_of_its_time),
		cmocka_unit_test(a_small_step_is_an_error_that_is_said),
		cmocka_unit_test(real_readings_are_close_together),
		cmocka_unit_test(the_narrow_filter_keeps_peers_openings_and_roce),
		cmocka_unit_test(a_filter_of_the_users_with_vlan_in_it_hides_nothing),
		cmocka_unit_test(the_largest_filter_still_compiles_and_one_too_long_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
