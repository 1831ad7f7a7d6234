/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hook_gloo.c - collectives of a Gloo that is called through dynamic symbols (torch.distributed).
 *
 * Writes: COLLECTIVE records, from the call's entry to its return. The C++ options differ between
 * versions and are not taken apart: sizes come from gloo::Context::createUnboundBuffer(ptr, size), which
 * fills them in on the same thread before the call. So of the buffers made since this thread's previous
 * collective
 *	allreduce, broadcast, reduce	the last is the payload (one a tensor, all of one size)
 *	alltoall(v)			the last two are input and output
 *	allgather(v)			the same in any order: the output holds the input
 *	gather(v)			the same on the root; elsewhere the only one is the input
 *	scatter				the last is the output; the ones before are the root's inputs
 * The root of a broadcast or reduce is read out of the options, where two of their fields prove
 * the layout; otherwise it is unknown.
 *
 * Not for: Horovod, whose Gloo is linked in without exported names (hook_horovod_gloo.c).
 */
#include "tracer/hook_gloo.h"

#include <string.h>

#include "tracer/probe.h"

enum shape {
	NOTHING,
	SAME,
	IN_AND_OUT,
	PART_AND_WHOLE,
	ROOT_SENDS,
	ROOT_RECEIVES,
	GATHER,
	SCATTER
};

_Thread_local struct lw_gloo_sum lw_gloo_sum;

/* Buffers that this thread made since its last collective. */
static _Thread_local struct {
	uint64_t last_bytes, previous_bytes, sum_bytes;
	uint32_t n;
} buffers;

/* What runs now, in a table so that the end of the process finds what never ended. */
enum { OPEN_MAX = 32 };
static struct open_collective {
	_Atomic bool is_taken, is_open;
	uintptr_t frame; /* of the hook that opened it */
	struct lw_event event;
} open_collectives[OPEN_MAX];
static _Thread_local struct open_collective *own; /* NULL outside a collective */

static bool is_wanted(void)
{
	static _Atomic int wanted; /* 0 = not asked yet */
	int known = atomic_load_explicit(&wanted, memory_order_relaxed);

	if (!known) {
		known = lw_hook_wanted("gloo") ? 1 : -1;
		atomic_store_explicit(&wanted, known, memory_order_relaxed);
	}
	return known > 0;
}

static struct open_collective *take_free(void)
{
	for (size_t i = 0; i < OPEN_MAX; i++) {
		bool idle = false;

		if (atomic_compare_exchange_strong(&open_collectives[i].is_taken, &idle, true))
			return &open_collectives[i];
	}
	return NULL;
}

/* Return: false when it was closed already. */
static bool close_with(struct open_collective *open, uint16_t flag)
{
	if (!atomic_exchange(&open->is_open, false))
		return false;
	open->event.t1_ns = lw_now_ns();
	if (open->event.kind == LW_EV_COLLECTIVE)
		open->event.collective.flags |= flag;
	else if (flag) /* of a probe only what came to its end says something */
		return true;
	lw_record(&open->event);
	return true;
}

static void close_own(uint16_t flag)
{
	/* What the end of the process has closed stays taken: it may be recording it just now. */
	if (close_with(own, flag))
		atomic_store_explicit(&own->is_taken, false, memory_order_release);
	own = NULL;
}

void lw_gloo_close_thrown(uintptr_t frame)
{
	/* The stack grows down: what was opened at or below a frame that is alive has been left. */
	if (own && own->frame <= frame) {
		close_own(LW_COLL_FAILED);
		lw_gloo_sum.flags |= LW_COLL_FAILED;
	}
}

void lw_gloo_flush(void)
{
	for (size_t i = 0; i < OPEN_MAX; i++)
		close_with(&open_collectives[i], LW_COLL_UNFINISHED);
}

/* Offset 48 of BroadcastOptions and ReduceOptions, behind context, in, out, elements, elementSize. */
static int32_t read_root(const void *options, const struct lw_gloo_comm *comm, uint64_t bytes)
{
	uint64_t words[6];
	int32_t root;

	if (!comm)
		return -1;
	memcpy(words, options, sizeof(words));
	memcpy(&root, (const char *)options + sizeof(words), sizeof(root));
	if (words[4] > UINT32_MAX * UINT64_C(256) || words[5] > 64 ||
		words[4] * words[5] != bytes || root < 0 || root >= comm->size) {
		lw_loss(LW_LOSS_LAYOUT, 1, "gloo options: root");
		return -1;
	}
	return root;
}

static void set_bytes(struct lw_ev_collective *collective, uint64_t sent, uint64_t received)
{
	collective->sent_bytes = sent;
	collective->received_bytes = received;
}

static void find_bytes(struct lw_ev_collective *collective, enum shape shape, const void *options,
	const struct lw_gloo_comm *comm)
{
	static const uint32_t n_buffers_needed[] = {[SAME] = 1,
		[IN_AND_OUT] = 2,
		[PART_AND_WHOLE] = 2,
		[ROOT_SENDS] = 1,
		[ROOT_RECEIVES] = 1,
		[GATHER] = 1,
		[SCATTER] = 1,
		[NOTHING] = 0};
	uint64_t last = buffers.last_bytes, previous = buffers.previous_bytes;
	uint64_t smaller = last < previous ? last : previous, larger = last + previous - smaller;
	bool is_root;

	collective->root = -1;
	if (buffers.n < n_buffers_needed[shape]) {
		collective->flags |= LW_COLL_NO_BYTES;
		return;
	}
	switch (shape) {
	case NOTHING:
		break;
	case SAME:
		set_bytes(collective, last, last);
		break;
	case IN_AND_OUT:
		set_bytes(collective, previous, last);
		break;
	case PART_AND_WHOLE:
		set_bytes(collective, smaller, larger);
		break;
	case ROOT_SENDS:
	case ROOT_RECEIVES:
		collective->root = read_root(options, comm, last);
		is_root = collective->root >= 0 && collective->root == comm->rank;
		if (collective->root < 0)
			set_bytes(collective, last, last);
		else if (shape == ROOT_SENDS)
			set_bytes(collective, is_root ? last : 0, is_root ? 0 : last);
		else
			set_bytes(collective, last, is_root ? last : 0);
		break;
	case GATHER:
		is_root = buffers.n > 1;
		collective->root = is_root && comm ? comm->rank : -1;
		set_bytes(collective, is_root ? smaller : last, is_root ? larger : 0);
		break;
	case SCATTER:
		collective->root = buffers.n > 1 && comm ? comm->rank : -1;
		set_bytes(collective, buffers.sum_bytes - last, last);
		break;
	}
}

/* Return: true when end() must follow; false inside another collective, and where nothing is recorded. */
static bool begin(enum lw_coll op, enum shape shape, const void *options, uintptr_t frame)
{
	static _Atomic bool is_reported;
	const struct lw_gloo_comm *comm;
	struct open_collective *open;
	const void *context;

	if (!is_wanted() || !lw_activate(LW_FRAMEWORK_NONE, LW_TRANSPORT_GLOO))
		return false;
	lw_gloo_close_thrown(frame);
	if (own)
		return false;
	open = take_free();
	if (!open) {
		lw_loss(LW_LOSS_TABLE_FULL, 1, "gloo collectives at a time");
		return false;
	}
	if (!atomic_exchange(&is_reported, true))
		lw_hook_report("gloo", LW_HOOK_ACTIVE, 11, "gloo::* by name");
	memcpy(&context, options, sizeof(context)); /* the first member of all options */
	comm = lw_gloo_comm(context);
	memset(&open->event, 0, sizeof(open->event));
	open->event.kind = LW_EV_COLLECTIVE;
	open->event.op = (uint16_t)op;
	open->event.collective.comm = comm ? comm->key : 0;
	open->event.collective.transport = LW_TRANSPORT_GLOO;
	find_bytes(&open->event.collective, shape, options, comm);
	memset(&buffers, 0, sizeof(buffers));
	if (lw_probe_label(&open->event) == LW_PROBE_HIDDEN) {
		atomic_store_explicit(&open->is_taken, false, memory_order_release);
		return false;
	}
	lw_gloo_sum.comm_size = comm ? comm->size : -1;
	open->frame = frame;
	own = open;
	open->event.t0_ns = lw_now_ns();
	atomic_store_explicit(&open->is_open, true, memory_order_release);
	return true;
}

static void end(void)
{
	const struct lw_ev_collective *collective;

	if (!own) /* on a stack that does not grow down it may have been taken for left */
		return;
	if (own->event.kind == LW_EV_COLLECTIVE) {
		collective = &own->event.collective;
		lw_gloo_sum.bytes += collective->sent_bytes ? collective->sent_bytes
							    : collective->received_bytes;
		lw_gloo_sum.op = own->event.op;
		lw_gloo_sum.flags |= collective->flags;
		lw_gloo_sum.n++;
	}
	close_own(0);
}

#define COLLECTIVE(symbol, op, shape)                                                              \
	void symbol(void *options);                                                                \
	LW_EXPORT void symbol(void *options)                                                       \
	{                                                                                          \
		static struct lw_real_sites sites;                                                 \
		void *real = lw_real_for(#symbol, __builtin_return_address(0), &sites);            \
		bool is_begun = begin(op, shape, options, (uintptr_t)__builtin_frame_address(0));  \
                                                                                                   \
		((void (*)(void *))real)(options);                                                 \
		if (is_begun)                                                                      \
			end();                                                                     \
	}

COLLECTIVE(_ZN4gloo9allreduceERKNS_16AllreduceOptionsE, LW_COLL_ALLREDUCE, SAME)
COLLECTIVE(_ZN4gloo9allgatherERNS_16AllgatherOptionsE, LW_COLL_ALLGATHER, PART_AND_WHOLE)
COLLECTIVE(_ZN4gloo10allgathervERNS_17AllgathervOptionsE, LW_COLL_ALLGATHER, PART_AND_WHOLE)
COLLECTIVE(_ZN4gloo9broadcastERNS_16BroadcastOptionsE, LW_COLL_BROADCAST, ROOT_SENDS)
COLLECTIVE(_ZN4gloo6reduceERNS_13ReduceOptionsE, LW_COLL_REDUCE, ROOT_RECEIVES)
COLLECTIVE(_ZN4gloo6gatherERNS_13GatherOptionsE, LW_COLL_GATHER, GATHER)
COLLECTIVE(_ZN4gloo7gathervERNS_14GathervOptionsE, LW_COLL_GATHER, GATHER)
COLLECTIVE(_ZN4gloo7scatterERNS_14ScatterOptionsE, LW_COLL_SCATTER, SCATTER)
COLLECTIVE(_ZN4gloo8alltoallERNS_15AlltoallOptionsE, LW_COLL_ALLTOALL, IN_AND_OUT)
COLLECTIVE(_ZN4gloo9alltoallvERNS_16AlltoallvOptionsE, LW_COLL_ALLTOALL, IN_AND_OUT)
COLLECTIVE(_ZN4gloo7barrierERNS_14BarrierOptionsE, LW_COLL_BARRIER, NOTHING)

#if defined(__x86_64__) /* elsewhere the place for the result is not passed as a first argument */

/* std::unique_ptr<transport::UnboundBuffer> gloo::Context::createUnboundBuffer(void *, size_t) */
void *_ZN4gloo7Context19createUnboundBufferEPvm(
	void *result, void *self, void *data, size_t n_bytes);

LW_EXPORT void *_ZN4gloo7Context19createUnboundBufferEPvm(
	void *result, void *self, void *data, size_t n_bytes)
{
	static struct lw_real_sites sites;
	void *real = lw_real_for(
		"_ZN4gloo7Context19createUnboundBufferEPvm", __builtin_return_address(0), &sites);

	/* Those made inside a collective are its own scratch space. */
	if (!own) {
		buffers.previous_bytes = buffers.last_bytes;
		buffers.last_bytes = n_bytes;
		buffers.sum_bytes += n_bytes;
		buffers.n++;
	}
	return ((void *(*)(void *, void *, void *, size_t))real)(result, self, data, n_bytes);
}

#endif
