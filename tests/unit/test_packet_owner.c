/* SPDX-License-Identifier: Apache-2.0 */
/* Whose flows are: from records as the collector takes them, in any order, until some seconds after the end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/units.h"
#include "collector/packet_owner.h"

#define S LW_NS_PER_S

enum { MAX = 64 };

static const uint8_t here[16] = {[10] = 0xff, 0xff, 10, 9, 0, 1};
static const uint8_t there[16] = {[10] = 0xff, 0xff, 10, 9, 0, 2};

/* What is owned now, and one take. */
struct scene {
	struct {
		struct lw_flow_key key;
		int64_t process_id;
		bool is_sent;
	} owned[MAX];
	size_t n_owned;
	struct lw_packet_owners *owners;
	struct lw_process processes[2];
	struct lw_ring rings[2];
	struct lw_event events[MAX];
	struct lw_record records[LW_EV_COUNT][MAX];
	struct lw_take take;
	size_t n_events;
};

static int on_begin(void *user, const struct lw_flow_key *key, int64_t process_id, bool is_sent)
{
	struct scene *s = user;

	assert_true(s->n_owned < MAX);
	s->owned[s->n_owned].key = *key;
	s->owned[s->n_owned].process_id = process_id;
	s->owned[s->n_owned++].is_sent = is_sent;
	return 0;
}

static void on_end(void *user, const struct lw_flow_key *key)
{
	struct scene *s = user;

	for (size_t i = 0; i < s->n_owned; i++)
		if (!memcmp(&s->owned[i].key, key, sizeof(*key))) {
			s->owned[i] = s->owned[--s->n_owned];
			return;
		}
	fail_msg("a flow ended that nobody had");
}

static void start(struct scene *s)
{
	static const struct lw_packet_owner_calls calls = {on_begin, on_end};

	memset(s, 0, sizeof(*s));
	s->owners = lw_packet_owners_open(&calls, s);
	assert_non_null(s->owners);
	for (int i = 0; i < 2; i++) {
		s->processes[i].process_id = 11 + i;
		s->rings[i].process = &s->processes[i];
	}
}

static struct lw_event *say(struct scene *s, int process, enum lw_event_kind kind, uint16_t op)
{
	struct lw_event *event = &s->events[s->n_events++];
	size_t n = s->take.of_kind[kind].n++;

	*event = (struct lw_event){.kind = (uint16_t)kind, .op = op};
	s->records[kind][n] = (struct lw_record){event, &s->rings[process]};
	s->take.of_kind[kind].at = s->records[kind];
	return event;
}

static void take(struct scene *s, int64_t now_ns)
{
	assert_int_equal(lw_packet_owners_take(s->owners, &s->take, now_ns), 0);
	memset(&s->take, 0, sizeof(s->take));
	s->n_events = 0;
}

static void say_socket(struct scene *s, int process, uint32_t socket, uint16_t port)
{
	struct lw_event *event = say(s, process, LW_EV_SOCKET, 0);

	event->socket.socket = socket;
	event->socket.local_port = port;
	event->socket.peer_port = 80;
	memcpy(event->socket.local, here, 16);
	memcpy(event->socket.peer, there, 16);
}

static void say_bytes(struct scene *s, int process, uint32_t socket, enum lw_sample_why why)
{
	say(s, process, LW_EV_SOCKET_BYTES, (uint16_t)why)->socket_bytes.socket = socket;
}

static void say_port(struct scene *s, uint32_t port, const uint8_t gid[16])
{
	struct lw_event *event = say(s, 0, LW_EV_RDMA_PORT, 0);

	event->rdma_port.port = port;
	memcpy(event->rdma_port.gid, gid, 16);
}

static struct lw_ev_rdma_qp *say_qp(struct scene *s, uint32_t qp, enum lw_rdma_qp_op op)
{
	struct lw_event *event = say(s, 0, LW_EV_RDMA_QP, (uint16_t)op);

	event->rdma_qp = (struct lw_ev_rdma_qp){.qp = qp, .number = 17 + qp, .port = 3};
	if (op == LW_RDMA_QP_CONNECTED) {
		event->rdma_qp.peer_number = 170 + qp;
		memcpy(event->rdma_qp.peer_gid, there, 16);
	}
	return &event->rdma_qp;
}

static void a_connection_has_two_flows_until_some_seconds_after_its_close(void **state)
{
	struct scene s;

	(void)state;
	start(&s);
	say_socket(&s, 0, 1, 5000);
	say_bytes(&s, 0, 1, LW_SAMPLE_PERIOD);
	take(&s, S);
	assert_int_equal(s.n_owned, 2);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(s.owned[i].process_id, 11);
		assert_int_equal(s.owned[i].is_sent, i == 0);
		assert_memory_equal(s.owned[i].key.source, i ? there : here, 16);
		assert_memory_equal(s.owned[i].key.destination, i ? here : there, 16);
		assert_int_equal(s.owned[i].key.source_port, i ? 80 : 5000);
		assert_int_equal(s.owned[i].key.destination_port, i ? 5000 : 80);
	}
	say_bytes(&s, 1, 1, LW_SAMPLE_CLOSE); /* another process's first socket, not known here */
	say_socket(&s, 0, 2, 5001);           /* comes and goes between two looks */
	say_bytes(&s, 0, 2, LW_SAMPLE_CLOSE);
	take(&s, 2 * S);
	assert_int_equal(s.n_owned, 4);
	say_bytes(&s, 0, 1, LW_SAMPLE_CLOSE);
	take(&s, 9 * S);
	assert_int_equal(s.n_owned, 4);
	take(&s, 12 * S);
	assert_int_equal(s.n_owned, 2);
	assert_int_equal(s.owned[0].key.source_port + s.owned[0].key.destination_port, 5080);
	take(&s, 20 * S);
	assert_int_equal(s.n_owned, 0);
	lw_packet_owners_close(s.owners);
}

static void what_a_process_had_ends_with_it(void **state)
{
	struct scene s;

	(void)state;
	start(&s);
	for (uint32_t i = 0; i < 5; i++) {
		say_socket(&s, 0, 1 + i, (uint16_t)(6000 + i));
		say_socket(&s, 1, 1 + i, (uint16_t)(7000 + i));
	}
	say_port(&s, 3, here);
	take(&s, S);
	assert_int_equal(s.n_owned, 20);
	lw_packet_owners_process_ended(s.owners, 11, 2 * S);
	take(&s, 3 * S);
	assert_int_equal(s.n_owned, 20);
	take(&s, 13 * S);
	assert_int_equal(s.n_owned, 10);
	for (size_t i = 0; i < s.n_owned; i++)
		assert_int_equal(s.owned[i].process_id, 12);
	lw_packet_owners_close(s.owners);
}

static void check_roce(const struct scene *s, uint32_t qp)
{
	assert_int_equal(s->n_owned, 2);
	for (int i = 0; i < 2; i++) {
		const struct lw_flow_key *key = &s->owned[i].key;

		assert_int_equal(s->owned[i].is_sent, i == 0);
		assert_int_equal(key->protocol, 17);
		assert_int_equal(key->is_roce, 1);
		assert_int_equal(key->source_port, 0);
		assert_int_equal(key->destination_port, 4791);
		assert_int_equal(key->destination_qp, i ? 17 + qp : 170 + qp);
		assert_memory_equal(key->source, i ? there : here, 16);
		assert_memory_equal(key->destination, i ? here : there, 16);
	}
}

static void a_connected_queue_pair_has_two_flows_whenever_its_address_comes(void **state)
{
	(void)state;
	for (int order = 0; order < 3; order++) {
		struct scene s;

		start(&s);
		if (order != 1)
			say_port(&s, 3, here);
		if (order == 0)
			take(&s, S);
		say_qp(&s, 1, LW_RDMA_QP_SEEN);
		say_qp(&s, 1, LW_RDMA_QP_CONNECTED);
		take(&s, 2 * S);
		if (order == 1) { /* from another thread's ring */
			assert_int_equal(s.n_owned, 0);
			say_port(&s, 4, there);
			say_port(&s, 3, here);
			take(&s, 3 * S);
		}
		check_roce(&s, 1);
		say_qp(&s, 1, LW_RDMA_QP_CONNECTED)->peer_number = 500; /* connected anew */
		take(&s, 4 * S);
		assert_int_equal(s.n_owned, 4);
		say_qp(&s, 1, LW_RDMA_QP_ENDED);
		take(&s, 5 * S);
		take(&s, 14 * S);
		assert_int_equal(s.n_owned, 2);
		take(&s, 16 * S);
		assert_int_equal(s.n_owned, 0);
		lw_packet_owners_close(s.owners);
	}
}

static void what_has_no_one_peer_or_no_address_is_left_alone(void **state)
{
	static const uint8_t nowhere[16];
	struct scene s;

	(void)state;
	start(&s);
	say_port(&s, 3, here);
	say_qp(&s, 1, LW_RDMA_QP_CONNECTED)->peer_number = 0; /* datagrams */
	say_qp(&s, 2, LW_RDMA_QP_CONNECTED)->peer_lid = 5;    /* InfiniBand */
	memcpy(say_qp(&s, 3, LW_RDMA_QP_CONNECTED)->peer_gid, nowhere, 16);
	say_qp(&s, 4, LW_RDMA_QP_CONNECTED)->port = 9; /* a port that is not known */
	say_port(&s, 8, nowhere);
	say_qp(&s, 5, LW_RDMA_QP_CONNECTED)->port = 8;
	take(&s, S);
	assert_int_equal(s.n_owned, 0);
	say_qp(&s, 4, LW_RDMA_QP_ENDED);
	lw_packet_owners_process_ended(s.owners, 11, 2 * S);
	take(&s, 20 * S);
	lw_packet_owners_close(s.owners);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_connection_has_two_flows_until_some_seconds_after_its_close),
		cmocka_unit_test(what_a_process_had_ends_with_it),
		cmocka_unit_test(a_connected_queue_pair_has_two_flows_whenever_its_address_comes),
		cmocka_unit_test(what_has_no_one_peer_or_no_address_is_left_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
