/* SPDX-License-Identifier: Apache-2.0 */
/* fake_nccl_ring.c - collectives on a ring, and sends and receives, of the double of libnccl. */
#include "tests/lib/fake_nccl.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

/* ---- one step: send and receive at once, as its proxies are told ------------------------------------------------ */

struct transfer {
	struct fake_task *task; /* NULL = nothing this way */
	int peer;
	const char *data;
	char *room;
	size_t n, at;
	int step;
	bool is_handed_over; /* to the network */
	bool is_done;
	int64_t not_before_ns; /* it is all sent */
	void *event, *net_event;
};

static void rest_us(int us)
{
	if (us > 0)
		nanosleep(&(struct timespec){us / 1000000, us % 1000000 * 1000L}, NULL);
}

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static bool has_credits(const struct fake_comm *comm)
{
	return fake_has_credits &&
	       comm->size > 2; /* of two ranks each sends on what the other does */
}

static void hand_over(int channel, struct transfer *out)
{
	struct fake_task *task = out->task;
	bool is_slow = task->comm->rank == fake_slow_from && out->peer == fake_slow_to;

	out->is_handed_over = true;
	out->not_before_ns = is_slow ? now_ns() + fake_slow_us * INT64_C(1000) : 0;
	fake_plugin_net_start(task, out->event, task->comm->fd[channel][out->peer], true, out->n,
		&out->net_event);
	fake_plugin_proxy_state(task, channel, true, 2, out->n);
	fake_plugin_step_state(task, out->event, 9, out->n);
}

static void begin_send(int channel, struct transfer *out)
{
	struct fake_task *task = out->task;

	fake_plugin_step_start(task, channel, true, out->step, &out->event);
	fake_plugin_proxy_state(task, channel, true, 0, 0);
	fake_plugin_step_state(task, out->event, 8, 0);
	rest_us(fake_gpu_us);
	fake_plugin_proxy_state(task, channel, true, 1, 0);
	fake_plugin_step_state(task, out->event, 20, 0);
	if (!has_credits(task->comm))
		hand_over(channel, out);
}

static void begin_receive(int channel, struct transfer *in)
{
	struct fake_task *task = in->task;
	int fd = task->comm->fd[channel][in->peer];

	fake_plugin_step_start(task, channel, false, in->step, &in->event);
	fake_plugin_net_start(task, in->event, fd, false, in->n, &in->net_event);
	fake_plugin_step_state(task, in->event, 10, 0);
	if (has_credits(task->comm) && send(fd, "", 1, MSG_NOSIGNAL) != 1)
		__atomic_store_n(&task->comm->is_aborted, true, __ATOMIC_RELAXED);
}

static int take_credit(int fd)
{
	char credit;
	ssize_t n = recv(fd, &credit, 1, 0);

	return n == 1 ? 1 : n < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : -1;
}

static int move(int fd, struct transfer *part, bool is_send)
{
	ssize_t n = is_send ? send(fd, part->data + part->at, part->n - part->at, MSG_NOSIGNAL)
			    : recv(fd, part->room + part->at, part->n - part->at, 0);

	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
		return -1;
	part->at += n > 0 ? (size_t)n : 0;
	return 0;
}

static void end_send(int channel, struct transfer *out)
{
	fake_plugin_stop(&out->net_event);
	fake_plugin_stop(&out->event);
	fake_plugin_proxy_state(out->task, channel, true, 3, 0);
}

static void end_receive(int channel, struct transfer *in)
{
	struct fake_task *task = in->task;

	fake_plugin_stop(&in->net_event);
	fake_plugin_proxy_state(task, channel, false, 5, in->n);
	fake_plugin_step_state(task, in->event, 11, in->n);
	fake_plugin_step_state(task, in->event, 12, in->n);
	fake_plugin_stop(&in->event);
}

/* What may be done of @out is; when it is all sent, that is told. Return: false = the connection is gone. */
static bool advance_send(int channel, struct transfer *out)
{
	int fd = out->task->comm->fd[channel][out->peer], credit;

	if (!out->is_handed_over) {
		credit = take_credit(fd);
		if (credit > 0)
			hand_over(channel, out);
		return credit >= 0;
	}
	if (out->at < out->n && move(fd, out, true) < 0)
		return false;
	out->is_done = out->at == out->n;
	if (out->is_done)
		end_send(channel, out);
	return true;
}

static bool advance_receive(int channel, struct transfer *in)
{
	if (in->at < in->n && move(in->task->comm->fd[channel][in->peer], in, false) < 0)
		return false;
	in->is_done = in->at == in->n;
	if (in->is_done)
		end_receive(channel, in);
	return true;
}

static int exchange(int channel, struct transfer *out, struct transfer *in)
{
	bool sends = out->task != NULL, receives = in->task != NULL;
	struct fake_comm *comm = sends ? out->task->comm : receives ? in->task->comm : NULL;

	if (comm && comm->rank == fake_late_rank)
		rest_us(fake_late_us);
	if (receives)
		begin_receive(channel, in);
	if (receives && !in->n && !advance_receive(channel, in))
		return -1;
	if (sends)
		begin_send(channel, out);
	while ((sends && !out->is_done) || (receives && !in->is_done)) {
		bool is_held = sends && out->is_handed_over && now_ns() < out->not_before_ns;
		bool may_send = sends && !out->is_done && !is_held;
		struct pollfd fds[2] = {{may_send ? comm->fd[channel][out->peer] : -1,
						out->is_handed_over ? POLLOUT : POLLIN, 0},
			{receives && !in->is_done ? comm->fd[channel][in->peer] : -1, POLLIN, 0}};

		if (poll(fds, 2, is_held ? 1 : 200) < 0 && errno != EINTR)
			return -1;
		if (__atomic_load_n(&comm->is_aborted, __ATOMIC_RELAXED))
			return -1;
		if (fds[0].revents && !advance_send(channel, out))
			return -1;
		if (fds[1].revents && !advance_receive(channel, in))
			return -1;
	}
	return 0;
}

/* ---- collectives ------------------------------------------------------------------------------------------------ */

#define ADD_AS(type)                                                                               \
	for (size_t i = 0; i < n_bytes / sizeof(type); i++)                                        \
	((type *)to)[i] += ((const type *)from)[i]

static void add(int type, void *to, const void *from, size_t n_bytes)
{
	switch (type) {
	case 2:
	case 3:
		ADD_AS(uint32_t);
		break;
	case 4:
	case 5:
		ADD_AS(uint64_t);
		break;
	case 7:
		ADD_AS(float);
		break;
	case 8:
		ADD_AS(double);
		break;
	default:
		ADD_AS(uint8_t);
	}
}

/* A part of a buffer: elements [first, first + n). */
struct range {
	size_t first, n;
};

static struct range part_of(struct range whole, int i, int n_parts)
{
	size_t first = whole.n * (size_t)i / (size_t)n_parts,
	       end = whole.n * (size_t)(i + 1) / (size_t)n_parts;

	return (struct range){whole.first + first, end - first};
}

struct ring {
	struct fake_task *task;
	int channel, step, next, previous, size, rank;
	size_t element_bytes;
	char *data; /* of the whole operation, worked on in place */
	char *spare;
};

/* Sends @out to the next rank and receives @in from the previous one, added or put there. */
static int ring_step(struct ring *ring, struct range out, struct range in, bool is_added)
{
	char *to = ring->data + in.first * ring->element_bytes;
	struct transfer sent = {.task = ring->task,
				.peer = ring->next,
				.data = ring->data + out.first * ring->element_bytes,
				.n = out.n * ring->element_bytes,
				.step = ring->step},
			received = {.task = ring->task,
				.peer = ring->previous,
				.room = is_added ? ring->spare : to,
				.n = in.n * ring->element_bytes,
				.step = ring->step};

	ring->step++;
	if (exchange(ring->channel, &sent, &received) < 0)
		return -1;
	if (is_added)
		add(ring->task->type, to, ring->spare, received.n);
	return 0;
}

static int wrap(int i, int n)
{
	return (i % n + n) % n;
}

/* After it, rank r has the sum of part r + 1 (mod n) of @whole; @parts are of the ring's data. */
static int reduce_scatter(struct ring *ring, const struct range *parts, int shift)
{
	for (int k = 0; k < ring->size - 1; k++)
		if (ring_step(ring, parts[wrap(ring->rank - k + shift, ring->size)],
			    parts[wrap(ring->rank - k - 1 + shift, ring->size)], true) < 0)
			return -1;
	return 0;
}

static int all_gather(struct ring *ring, const struct range *parts, int shift)
{
	for (int k = 0; k < ring->size - 1; k++)
		if (ring_step(ring, parts[wrap(ring->rank - k + shift, ring->size)],
			    parts[wrap(ring->rank - k - 1 + shift, ring->size)], false) < 0)
			return -1;
	return 0;
}

/* One piece along the ring from @root; the last rank of the chain sends nothing. */
static int chain(struct ring *ring, struct range piece, bool is_reduce)
{
	int root = ring->task->root, first = is_reduce ? wrap(root + 1, ring->size) : root;
	int at = wrap(ring->rank - first, ring->size);
	char *to = ring->data + piece.first * ring->element_bytes;
	struct transfer none = {0},
			received = {.task = at ? ring->task : NULL,
				.peer = ring->previous,
				.room = is_reduce ? ring->spare : to,
				.n = piece.n * ring->element_bytes},
			sent = {.task = at < ring->size - 1 ? ring->task : NULL,
				.peer = ring->next,
				.data = to,
				.n = piece.n * ring->element_bytes};

	if (exchange(ring->channel, &none, &received) < 0)
		return -1;
	if (is_reduce && at)
		add(ring->task->type, to, ring->spare, received.n);
	return exchange(ring->channel, &sent, &none);
}

static int run_channel(struct ring *ring, struct range own)
{
	struct fake_task *task = ring->task;
	struct range parts[FAKE_RANKS_MAX];
	int n = ring->size;

	for (int i = 0; i < n; i++) {
		parts[i] = task->func == F_ALLREDUCE ? part_of(own, i, n) : own;
		if (task->func == F_ALLGATHER || task->func == F_REDUCESCATTER)
			parts[i].first += (size_t)i * task->count;
	}
	switch (task->func) {
	case F_ALLREDUCE:
		return reduce_scatter(ring, parts, 0) < 0 ? -1 : all_gather(ring, parts, 1);
	case F_REDUCESCATTER:
		return reduce_scatter(ring, parts, -1);
	case F_ALLGATHER:
		return all_gather(ring, parts, 0);
	case F_BROADCAST:
	case F_REDUCE:
		return chain(ring, own, task->func == F_REDUCE);
	case F_SEND:
	case F_RECV:
		break;
	}
	return -1;
}

static struct transfer transfer_of(struct fake_task *task)
{
	return (struct transfer){.task = task,
		.peer = task ? task->root : -1,
		.data = task ? task->send : NULL,
		.room = task ? task->receive : NULL,
		.n = task ? task->count * fake_type_bytes(task->type) : 0};
}

/* What a channel's proxies of @task do: steps, and whether there is one to send, one to receive. */
static int proxies_of(const struct fake_task *task, bool is_send)
{
	int n = task->comm->size,
	    first = task->func == F_REDUCE ? (task->root + 1) % n : task->root,
	    at = wrap(task->comm->rank - first, n);

	switch (task->func) {
	case F_ALLREDUCE:
		return 2 * (n - 1);
	case F_ALLGATHER:
	case F_REDUCESCATTER:
		return n - 1;
	case F_BROADCAST:
	case F_REDUCE:
		return is_send ? at < n - 1 : at > 0;
	case F_SEND:
		return is_send;
	case F_RECV:
		return !is_send;
	}
	return 0;
}

static bool is_p2p(const struct fake_task *task)
{
	return task->func == F_SEND || task->func == F_RECV;
}

static void start_proxies(struct fake_task *task)
{
	const struct fake_comm *comm = task->comm;

	for (int channel = 0; channel < (is_p2p(task) ? 1 : fake_n_channels); channel++) {
		for (int way = 0; way < 2; way++) {
			int n_steps = proxies_of(task, way == 0);
			int peer = is_p2p(task)
					   ? task->root
					   : wrap(comm->rank + (way == 0 ? 1 : -1), comm->size);

			if (!n_steps)
				continue;
			fake_plugin_proxy_start(task, channel, way == 0, peer, n_steps);
			fake_plugin_proxy_state(task, channel, way == 0, 19, 0);
		}
	}
}

static int run_ring(struct fake_task *task)
{
	struct fake_comm *comm = task->comm;
	size_t element_bytes = fake_type_bytes(task->type), n = task->count, room;
	int status = 0;
	struct ring ring = {.task = task,
		.next = wrap(comm->rank + 1, comm->size),
		.previous = wrap(comm->rank - 1, comm->size),
		.size = comm->size,
		.rank = comm->rank,
		.element_bytes = element_bytes};
	size_t total = task->func == F_ALLGATHER || task->func == F_REDUCESCATTER
			       ? n * (size_t)comm->size
			       : n;

	room = total * element_bytes;
	ring.data = malloc(2 * room + 16);
	ring.spare = ring.data + room;
	if (task->func == F_ALLGATHER)
		memcpy(ring.data + (size_t)comm->rank * n * element_bytes, task->send,
			n * element_bytes);
	else
		memcpy(ring.data, task->send, room);
	for (ring.channel = 0; ring.channel < fake_n_channels && status == 0; ring.channel++) {
		ring.step = 0;
		status = run_channel(
			&ring, part_of((struct range){0, n}, ring.channel, fake_n_channels));
	}
	if (task->func == F_REDUCESCATTER)
		memcpy(task->receive, ring.data + (size_t)comm->rank * n * element_bytes,
			n * element_bytes);
	else if (task->func != F_REDUCE || task->root == comm->rank)
		memcpy(task->receive, ring.data, room);
	free(ring.data);
	return status;
}

static void stop_proxies(struct fake_task *task)
{
	for (int channel = 0; channel < fake_n_channels; channel++)
		for (int way = 0; way < 2; way++)
			fake_plugin_stop(&task->proxy_event[channel][way]);
}

int fake_run(struct fake_task *task)
{
	int status;

	if (task->comm->size == 1) {
		memmove(task->receive, task->send, task->count * fake_type_bytes(task->type));
		return 0;
	}
	start_proxies(task);
	status = run_ring(task);
	if (status == 0) /* an aborted operation's proxies never stop */
		stop_proxies(task);
	return status;
}

int fake_run_p2p(struct fake_task *send, struct fake_task *receive)
{
	struct transfer out = transfer_of(send), in = transfer_of(receive);
	int status;

	if (send)
		start_proxies(send);
	if (receive)
		start_proxies(receive);
	status = exchange(0, &out, &in);
	if (send && status == 0)
		stop_proxies(send);
	if (receive && status == 0)
		stop_proxies(receive);
	return status;
}
