/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nccl_proxy.c - what NCCL's proxies move for its operations: operations of theirs, their steps, and what carried them.
 *
 * Writes: NCCL_PROXY and NCCL_NET records, when a proxy operation ends. One proxy thread works at one proxy
 * operation; another thread comes in only when its communicator ends under it, so every field is atomic and what
 * comes too late finds another generation. Free places are a stack, so that the same few stay in the cache.
 */
#include "tracer/hook_nccl_plugin.h"
#include "tracer/socket_table.h"

enum { PROXIES_MAX = 8192, STEPS_MAX = 8, NETS_MAX = 4 }; /* NCCL has 8 steps of one under way */
enum state { FREE, OPEN, WRITING };
enum wait { WAIT_NONE, WAIT_GPU, WAIT_PEER, WAIT_WIRE, N_WAITS };

struct step {
	_Atomic uint32_t stamp;   /* counts the uses of this place; 0 = free */
	_Atomic uint32_t wait;    /* enum wait */
	_Atomic int64_t since_ns; /* of that */
	_Atomic uint64_t bytes;
};

struct net {
	_Atomic uint64_t what; /* enum lw_nccl_net_op << 32 | number; 0 = free */
	_Atomic uint64_t bytes;
	_Atomic uint32_t n;
	_Atomic int64_t t0_ns, t1_ns;
};

struct proxy {
	_Atomic uint64_t word; /* generation << 8 | enum state */
	_Atomic uint32_t next; /* free one below, + 1 */
	_Atomic uint32_t n_stamps;
	_Atomic(const struct lw_nccl_comm *) comm;
	_Atomic uint64_t op; /* handle, 0 = none */
	_Atomic bool has_part, is_kernel, is_send;
	_Atomic int32_t peer, channel, n_steps;
	_Atomic int64_t t0_ns, last_ns; /* last_ns: of anything that was said of it */
	_Atomic uint64_t bytes;
	_Atomic int64_t wait_ns[N_WAITS];
	_Atomic int64_t
		fifo_since_ns; /* v1 to v3: the oldest step not sent waits for its peer; 0 = it does not */
	struct step steps[STEPS_MAX];
	struct net nets[NETS_MAX];
};

static struct proxy proxies[PROXIES_MAX];
static _Atomic uint32_t n_used;
static _Atomic uint64_t free_head; /* pops so far << 32 | place + 1 */

/* Relaxed: fields are read and written by one thread but for the end of a communicator. */
#define GET(field)        atomic_load_explicit(&(field), memory_order_relaxed)
#define SET(field, value) atomic_store_explicit(&(field), (value), memory_order_relaxed)
#define ADD(field, value) SET(field, GET(field) + (value))

/* ---- places and handles ----------------------------------------------------------------------------------- */

/* A handle's value: generation (28 bits, of the lower ones), stamp of a step (12), its place (4), the proxy's (16). */
static uint64_t make_handle(
	enum lw_nccl_handle kind, const struct proxy *proxy, uint32_t stamp, uint32_t at)
{
	uint64_t generation = (GET(proxy->word) >> 8) & 0xfffffff;

	return lw_nccl_handle(kind, generation << 32 | (uint64_t)(stamp & 0xfff) << 20 | at << 16 |
					    (uint64_t)(proxy - proxies));
}

static uint32_t place_in(uint64_t handle)
{
	return handle >> 16 & 0xf;
}

static bool is_current(uint64_t handle, uint64_t word)
{
	return (word & 0xff) == OPEN && ((word >> 8) & 0xfffffff) == (handle >> 32 & 0xfffffff);
}

/* Return: NULL = it has ended, or never was. */
static struct proxy *find(uint64_t handle)
{
	struct proxy *proxy = &proxies[(handle & 0xffff) % PROXIES_MAX];

	return is_current(handle, atomic_load(&proxy->word)) ? proxy : NULL;
}

static struct step *find_step(struct proxy *proxy, uint64_t handle)
{
	struct step *step = &proxy->steps[place_in(handle) % STEPS_MAX];
	uint32_t stamp = GET(step->stamp);

	return stamp && (stamp & 0xfff) == (handle >> 20 & 0xfff) ? step : NULL;
}

static struct proxy *take_place(void)
{
	uint64_t head = atomic_load(&free_head);
	uint32_t n = atomic_load(&n_used);

	while ((uint32_t)head) {
		struct proxy *proxy = &proxies[(uint32_t)head - 1];
		uint64_t below = ((head >> 32) + 1) << 32 | GET(proxy->next);

		if (atomic_compare_exchange_weak(&free_head, &head, below))
			return proxy;
	}
	while (n < PROXIES_MAX)
		if (atomic_compare_exchange_weak(&n_used, &n, n + 1))
			return &proxies[n];
	return NULL;
}

static void give_place(struct proxy *proxy)
{
	uint64_t head = atomic_load(&free_head), above;

	do {
		SET(proxy->next, (uint32_t)head);
		above = (head >> 32) << 32 | (uint64_t)(proxy - proxies + 1);
	} while (!atomic_compare_exchange_weak(&free_head, &head, above));
}

/* ---- times ------------------------------------------------------------------------------------------------ */

static void leave_wait(struct proxy *proxy, struct step *step, int64_t now_ns)
{
	uint32_t wait = GET(step->wait);
	int64_t since_ns = GET(step->since_ns), fifo_ns = GET(proxy->fifo_since_ns);

	/* Up to v3 the proxy operation tells when its oldest step began to wait for the peer. */
	if (wait == WAIT_GPU && fifo_ns > since_ns && fifo_ns <= now_ns) {
		ADD(proxy->wait_ns[WAIT_GPU], fifo_ns - since_ns);
		wait = WAIT_PEER;
		since_ns = fifo_ns;
	}
	if (now_ns > since_ns)
		ADD(proxy->wait_ns[wait], now_ns - since_ns);
}

/* What a step waits for in a state; whether its bytes are known from there on. */
static const struct {
	uint8_t wait;
	bool has_bytes;
} step_states[] = {
	[LW_NCCL_STATE_STEP_SEND_GPU_WAIT] = {WAIT_GPU, false},
	[LW_NCCL_STATE_STEP_SEND_PEER_WAIT] = {WAIT_PEER, false},
	[LW_NCCL_STATE_STEP_SEND_WAIT] = {WAIT_WIRE, true},
	[LW_NCCL_STATE_STEP_RECV_WAIT] = {WAIT_PEER, false},
	[LW_NCCL_STATE_STEP_RECV_FLUSH_WAIT] = {WAIT_GPU, true},
	[LW_NCCL_STATE_STEP_RECV_GPU_WAIT] = {WAIT_GPU, false},
};

static void change_step(struct proxy *proxy, struct step *step, const struct lw_nccl_change *change)
{
	int state = change->state;

	if (state < 0 || (size_t)state >= sizeof(step_states) / sizeof(step_states[0]) ||
		!step_states[state].wait)
		return;
	if (change->version >= 4 && change->arguments && step_states[state].has_bytes)
		SET(step->bytes, change->arguments->proxy.transferred_bytes);
	if (GET(step->wait) == step_states[state].wait) /* said again at every try */
		return;
	leave_wait(proxy, step, change->now_ns);
	if (step_states[state].wait == WAIT_WIRE)
		SET(proxy->fifo_since_ns, 0);
	SET(step->wait, step_states[state].wait);
	SET(step->since_ns, change->now_ns);
}

static void end_step(struct proxy *proxy, struct step *step, int64_t now_ns)
{
	leave_wait(proxy, step, now_ns);
	ADD(proxy->bytes, GET(step->bytes));
	SET(step->stamp, 0);
}

static void change_proxy(struct proxy *proxy, const struct lw_nccl_change *change)
{
	if (change->version >= 4) {
		if (change->state == LW_NCCL_STATE_OP_IN_PROGRESS) /* it was only queued before */
			SET(proxy->t0_ns, change->now_ns);
		return;
	}
	if (change->state < 0 || change->state > LW_NCCL_STATE_OP_V3_LAST)
		return;
	if (change->state == LW_NCCL_STATE_OP_SEND_REM_FIFO_WAIT && !GET(proxy->fifo_since_ns))
		SET(proxy->fifo_since_ns, change->now_ns);
	if (change->arguments && change->arguments->proxy.transferred_bytes > GET(proxy->bytes))
		SET(proxy->bytes, change->arguments->proxy.transferred_bytes);
}

/* ---- records ---------------------------------------------------------------------------------------------- */

/* Who ends a proxy under its thread may read one time before and another after that thread sets them. */
static int64_t not_before(int64_t start_ns, int64_t end_ns)
{
	return end_ns > start_ns ? end_ns : start_ns;
}

static void record_net(uint64_t serial, struct net *net)
{
	uint64_t what = atomic_exchange(&net->what, 0); /* told once */
	struct lw_event event = {.kind = LW_EV_NCCL_NET, .op = (uint16_t)(what >> 32)};

	if (!what)
		return;
	event.t0_ns = GET(net->t0_ns);
	event.t1_ns = not_before(event.t0_ns, GET(net->t1_ns));
	event.nccl_net.serial = serial;
	event.nccl_net.bytes = GET(net->bytes);
	event.nccl_net.number = (uint32_t)what;
	event.nccl_net.n = GET(net->n);
	lw_record(&event);
}

static uint32_t us_of(int64_t ns)
{
	return ns / 1000 < UINT32_MAX ? (uint32_t)(ns / 1000) : UINT32_MAX;
}

static uint64_t serial_of(struct proxy *proxy)
{
	return lw_nccl_handle_value(GET(proxy->op));
}

static void record_proxy(struct proxy *proxy, int64_t now_ns)
{
	struct lw_event event = {.kind = LW_EV_NCCL_PROXY,
		.op = GET(proxy->is_send) ? LW_MESSAGE_SEND : LW_MESSAGE_RECV};
	int32_t n_steps = GET(proxy->n_steps);

	event.t0_ns = GET(proxy->t0_ns);
	event.t1_ns = not_before(event.t0_ns, now_ns);
	event.nccl_proxy.serial = serial_of(proxy);
	event.nccl_proxy.bytes = GET(proxy->bytes);
	event.nccl_proxy.peer = GET(proxy->peer);
	event.nccl_proxy.channel = (uint16_t)GET(proxy->channel);
	event.nccl_proxy.n_steps = (uint16_t)(n_steps < UINT16_MAX ? n_steps : UINT16_MAX);
	event.nccl_proxy.gpu_wait_us = us_of(GET(proxy->wait_ns[WAIT_GPU]));
	event.nccl_proxy.peer_wait_us = us_of(GET(proxy->wait_ns[WAIT_PEER]));
	event.nccl_proxy.wire_us = us_of(GET(proxy->wait_ns[WAIT_WIRE]));
	lw_record(&event);
}

/* Of one that is OPEN with @word. Return: false = somebody else has ended it. */
static bool end_proxy(struct proxy *proxy, uint64_t word, int64_t now_ns)
{
	if (!atomic_compare_exchange_strong(
		    &proxy->word, &word, (word & ~UINT64_C(0xff)) | WRITING))
		return false;
	/* Steps that NCCL never stopped end with it. */
	for (int i = 0; i < STEPS_MAX; i++)
		if (GET(proxy->steps[i].stamp))
			end_step(proxy, &proxy->steps[i], now_ns);
	if (!GET(proxy->is_kernel))
		record_proxy(proxy, now_ns);
	for (int i = 0; i < NETS_MAX; i++)
		record_net(serial_of(proxy), &proxy->nets[i]);
	if (GET(proxy->has_part))
		lw_nccl_part_end(GET(proxy->op), now_ns);
	atomic_store(&proxy->word, ((word >> 8) + 1) << 8 | FREE);
	give_place(proxy);
	return true;
}

/* ---- what the plugin is called with -------------------------------------------------------------------------- */

uint64_t lw_nccl_proxy_start(
	struct lw_nccl_comm *comm, const struct lw_nccl_event *event, bool is_own, int64_t now_ns)
{
	struct proxy *proxy = take_place();
	bool has_op = is_own && lw_nccl_handle_kind(event->parent) == LW_NCCL_HANDLE_OP;
	uint64_t generation;

	if (!proxy) {
		lw_loss(LW_LOSS_TABLE_FULL, 1, "nccl proxy operations");
		return lw_nccl_handle(LW_NCCL_HANDLE_NONE, 0);
	}
	generation = atomic_load(&proxy->word) >> 8;
	SET(proxy->comm, comm);
	SET(proxy->op, has_op ? event->parent : 0);
	SET(proxy->has_part, has_op && lw_nccl_part_begin(event->parent));
	SET(proxy->is_kernel, event->kind == LW_NCCL_PROFILE_KERNEL_CH);
	SET(proxy->is_send, event->is_send);
	SET(proxy->peer, event->root);
	SET(proxy->channel, event->channel);
	SET(proxy->n_steps, event->n_steps > 0 ? event->n_steps : 0);
	SET(proxy->t0_ns, now_ns);
	SET(proxy->last_ns, now_ns);
	SET(proxy->bytes, 0);
	SET(proxy->fifo_since_ns, 0);
	for (int i = 0; i < N_WAITS; i++)
		SET(proxy->wait_ns[i], 0);
	for (int i = 0; i < STEPS_MAX; i++)
		SET(proxy->steps[i].stamp, 0);
	for (int i = 0; i < NETS_MAX; i++)
		SET(proxy->nets[i].what, 0);
	atomic_store(&proxy->word, generation << 8 | OPEN);
	return make_handle(LW_NCCL_HANDLE_PROXY, proxy, 0, 0);
}

uint64_t lw_nccl_proxy_step(const struct lw_nccl_event *event, int64_t now_ns)
{
	struct proxy *proxy = lw_nccl_handle_kind(event->parent) == LW_NCCL_HANDLE_PROXY
				      ? find(event->parent)
				      : NULL;
	uint32_t at = (uint32_t)event->step % STEPS_MAX, stamp;
	struct step *step;

	if (!proxy)
		return lw_nccl_handle(LW_NCCL_HANDLE_NONE, 0);
	step = &proxy->steps[at];
	if (GET(step->stamp)) /* NCCL did not stop the one of eight steps ago */
		end_step(proxy, step, now_ns);
	ADD(proxy->n_stamps, 1);
	stamp = GET(proxy->n_stamps) % 0xfff + 1; /* 1 to 4095 */
	SET(step->wait, WAIT_NONE);
	SET(step->since_ns, now_ns);
	SET(step->bytes, 0);
	SET(step->stamp, stamp);
	SET(proxy->last_ns, now_ns);
	return make_handle(LW_NCCL_HANDLE_STEP, proxy, stamp, at);
}

bool lw_nccl_proxy_change(uint64_t handle, const struct lw_nccl_change *change)
{
	struct proxy *proxy = find(handle);
	struct step *step;

	if (!proxy)
		return lw_nccl_handle_kind(handle) == LW_NCCL_HANDLE_NET;
	SET(proxy->last_ns, change->now_ns);
	switch (lw_nccl_handle_kind(handle)) {
	case LW_NCCL_HANDLE_PROXY:
		change_proxy(proxy, change);
		return true;
	case LW_NCCL_HANDLE_STEP:
		step = find_step(proxy, handle);
		if (step)
			change_step(proxy, step, change);
		return step != NULL;
	default:
		return true;
	}
}

bool lw_nccl_proxy_stop(uint64_t handle, int64_t now_ns)
{
	struct proxy *proxy = find(handle);
	struct step *step;
	struct net *net;

	if (!proxy) /* a request may end after its proxy operation */
		return lw_nccl_handle_kind(handle) == LW_NCCL_HANDLE_NET;
	SET(proxy->last_ns, now_ns);
	switch (lw_nccl_handle_kind(handle)) {
	case LW_NCCL_HANDLE_PROXY:
		return end_proxy(proxy, atomic_load(&proxy->word), now_ns);
	case LW_NCCL_HANDLE_STEP:
		step = find_step(proxy, handle);
		if (step)
			end_step(proxy, step, now_ns);
		return step != NULL;
	default:
		net = &proxy->nets[place_in(handle) % NETS_MAX];
		SET(net->t1_ns, now_ns);
		return true;
	}
}

/* ---- what carried it ---------------------------------------------------------------------------------------- */

/* Return: enum lw_nccl_net_op << 32 | number; 0 = of a network plugin that we cannot read. */
static uint64_t what_of(const struct lw_nccl_event *event, uint64_t *ret_bytes)
{
	const struct lw_nccl_net_ib *ib = event->net_data;
	const struct lw_nccl_net_socket *socket = event->net_data;

	if (!event->net_data)
		return 0;
	if (event->net_id == LW_NCCL_NET_ID_IB) {
		*ret_bytes = ib->qp.bytes;
		return (uint64_t)LW_NCCL_NET_QP << 32 | (uint32_t)ib->qp.number;
	}
	if (event->net_id == LW_NCCL_NET_ID_SOCKET) {
		*ret_bytes = socket->sock.bytes;
		return (uint64_t)LW_NCCL_NET_SOCKET << 32 | lw_socket_serial(socket->sock.fd);
	}
	return 0;
}

/* The place of @what, an own one or that of the one that is longest there, which is written first. */
static struct net *net_of(struct proxy *proxy, uint64_t what, int64_t now_ns)
{
	struct net *chosen = &proxy->nets[0];

	for (struct net *net = proxy->nets; net < proxy->nets + NETS_MAX; net++) {
		if (GET(net->what) == what)
			return net;
		if (GET(chosen->what) && (!GET(net->what) || GET(net->t0_ns) < GET(chosen->t0_ns)))
			chosen = net;
	}
	record_net(serial_of(proxy), chosen);
	SET(chosen->n, 0);
	SET(chosen->bytes, 0);
	SET(chosen->t0_ns, now_ns);
	SET(chosen->t1_ns, now_ns);
	SET(chosen->what, what);
	return chosen;
}

uint64_t lw_nccl_proxy_net(const struct lw_nccl_event *event, int64_t now_ns)
{
	unsigned kind = lw_nccl_handle_kind(event->parent);
	struct proxy *proxy = kind == LW_NCCL_HANDLE_STEP || kind == LW_NCCL_HANDLE_PROXY
				      ? find(event->parent)
				      : NULL;
	uint64_t bytes = 0, what = what_of(event, &bytes);
	struct net alone = {.what = what}, *net;

	if (!what) {
		lw_loss(LW_LOSS_LAYOUT, 1, "nccl network plugin");
		return lw_nccl_handle(LW_NCCL_HANDLE_NONE, 0);
	}
	net = proxy ? net_of(proxy, what, now_ns) : &alone;
	if (!proxy)
		SET(net->t0_ns, now_ns);
	ADD(net->n, 1);
	ADD(net->bytes, bytes);
	SET(net->t1_ns, now_ns);
	if (!proxy) { /* of another process's operation, or of one that was dropped */
		record_net(0, net);
		return lw_nccl_handle(LW_NCCL_HANDLE_NONE, 0);
	}
	return make_handle(LW_NCCL_HANDLE_NET, proxy, 0, (uint32_t)(net - proxy->nets));
}

void lw_nccl_proxies_flush(const struct lw_nccl_comm *comm)
{
	uint32_t n = atomic_load(&n_used);
	uint64_t n_unended = 0;

	for (struct proxy *proxy = proxies; proxy < proxies + n; proxy++) {
		uint64_t word = atomic_load(&proxy->word);

		if ((word & 0xff) != OPEN || (comm && GET(proxy->comm) != comm))
			continue;
		/* not its end: the operation that it works for is unfinished */
		SET(proxy->has_part, false);
		n_unended += end_proxy(proxy, word, GET(proxy->last_ns));
	}
	if (n_unended)
		lw_loss(LW_LOSS_UNENDED, n_unended, "nccl proxy operations");
}
