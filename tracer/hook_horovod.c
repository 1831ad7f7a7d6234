/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hook_horovod.c - what Horovod executes and what it is given: BATCH, BATCH_TENSOR and READY records.
 *
 * Reads:  responses through their exported accessors; entries of a batch at the three places that all
 *         versions share (name, tensor, process set), and only after every name in them was found to
 *         be the response's. If one is not, nothing of the entries is read and the loss is counted.
 * Not for: the wire; hook_horovod_gloo.c and the MPI and NCCL hooks see that.
 */
#include <string.h>

#include "tracer/cupti.h"
#include "tracer/hook_horovod.h"

static _Atomic uint64_t last_batch; /* process-wide serial */

/* ---- enqueues ------------------------------------------------------------------------------------ */

static void ready(const struct lw_hvd_extension *extension, const void *tensor, int64_t at_ns)
{
	struct lw_event event = {.t0_ns = at_ns, .t1_ns = at_ns, .kind = LW_EV_READY};

	lw_hvd_wait_ends();
	if (lw_hvd_tls.role == LW_HVD_ROLE_UNKNOWN) {
		lw_hvd_tls.role = LW_HVD_ROLE_TRAINING;
		lw_thread_role(LW_THREAD_TRAINING);
	}
	event.ready.object = (uint64_t)(uintptr_t)tensor;
	for (uint32_t i = 0; i < extension->n_tensor_classes; i++)
		if (*(const void *const *)tensor == extension->tensor_classes[i].vtable)
			event.ready.bytes = (uint64_t)extension->tensor_classes[i].size(tensor);
	lw_record(&event);
}

static bool is_own_thread(void)
{
	return lw_hvd_tls.role == LW_HVD_ROLE_BACKGROUND || lw_hvd_tls.role == LW_HVD_ROLE_OTHER;
}

/*
 * Tensor::dtype() const. Every enqueue asks each of its tensors for its type and next for its shape; of
 * alltoall's splits it asks the shape first. So a tensor was handed over when dtype() is followed by
 * shape() of the same object, and the time is that of dtype().
 */
uint64_t lw_hvd_on_dtype(
	const struct lw_hvd_slot *slot, void *tensor, void *b, void *c, void *d, void *e)
{
	if (lw_is_live() && !is_own_thread()) {
		int64_t now_ns = lw_now_ns();

		if (slot->extension->has_shape) {
			lw_hvd_tls.asked = tensor;
			lw_hvd_tls.asked_ns = now_ns;
		} else {
			ready(slot->extension, tensor, now_ns);
		}
	}
	return slot->real(tensor, b, c, d, e);
}

/* Tensor::shape() const; the result is built where @result points */
uint64_t lw_hvd_on_shape(
	const struct lw_hvd_slot *slot, void *result, void *tensor, void *c, void *d, void *e)
{
	if (lw_hvd_tls.asked) {
		if (lw_hvd_tls.asked == tensor && lw_is_live())
			ready(slot->extension, tensor, lw_hvd_tls.asked_ns);
		lw_hvd_tls.asked = NULL;
	}
	return slot->real(result, tensor, c, d, e);
}

/* ---- batches --------------------------------------------------------------------------------------- */

struct text {
	const char *at;
	size_t n;
};

/* A std::string at @string, of either ABI: both begin with the address of the text. */
static struct text read_string(const char *string, uint32_t string_bytes)
{
	struct text text;

	memcpy(&text.at, string, sizeof(text.at));
	/* the old ABI keeps length, capacity and count of owners before the text */
	memcpy(&text.n, string_bytes == 8 ? text.at - 24 : string + 8, sizeof(text.n));
	return text;
}

struct batch {
	const struct lw_hvd_slot *slot;
	struct lw_event event;
	const struct lw_hvd_vector *entries, *names;
	size_t n, stride; /* of names; of entries in bytes, 0 = entries are not read */
};

static uint16_t batch_op(const struct lw_hvd_slot *slot, const void *response)
{
	/* Response::ResponseType. ERROR came last and was renumbered twice: its class says it, not this. */
	static const uint16_t ops[] = {LW_COLL_ALLREDUCE, LW_COLL_ALLGATHER, LW_COLL_BROADCAST,
		LW_COLL_JOIN, LW_COLL_ADASUM, LW_COLL_ALLTOALL, LW_COLL_BARRIER,
		LW_COLL_REDUCESCATTER};
	int type = slot->extension->call.response_type
			   ? slot->extension->call.response_type(response)
			   : -1;

	if (slot->detail == LW_COLL_ERROR || type < 0 || type > 7)
		return LW_COLL_ERROR;
	return ops[type];
}

static uint16_t dtype_known(int horovod_type)
{
	return horovod_type >= 0 && horovod_type <= 9 ? (uint16_t)(horovod_type + LW_DTYPE_UINT8)
						      : LW_DTYPE_UNKNOWN;
}

static uint64_t dtype_bytes(uint16_t dtype)
{
	static const uint8_t bytes[] = {
#define X(name, number, text, n) [number] = (n),
		LW_DTYPES(X)
#undef X
	};

	return dtype < sizeof(bytes) ? bytes[dtype] : 0;
}

/*
 * Are the entries laid out as supposed? The size of one follows from how many names the response has,
 * and every entry must carry its response's name at its front.
 */
static bool is_layout_known(struct batch *batch, uint32_t string_bytes)
{
	size_t n_bytes = (size_t)(batch->entries->end - batch->entries->begin);

	if (!batch->n || n_bytes % batch->n)
		return false;
	batch->stride = n_bytes / batch->n;
	if (batch->stride % 8 || batch->stride < 112 || batch->stride > 1024)
		return false;
	for (size_t i = 0; i < batch->n; i++) {
		struct text name =
			read_string(batch->names->begin + i * string_bytes, string_bytes);
		const char *entry = batch->entries->begin + i * batch->stride;
		uintptr_t at;
		size_t n;

		memcpy(&at, entry, sizeof(at));
		memcpy(&n, entry + 8, sizeof(n));
		if (at < 4096 || (string_bytes == 8 && at % 8))
			return false;
		/* a short C++11 string lies within its own object */
		if (string_bytes == 32 && (n != name.n || (n < 16 && at != (uintptr_t)entry + 16)))
			return false;
		struct text own = read_string(entry, string_bytes);
		if (own.n != name.n || memcmp(own.at, name.at, own.n))
			return false;
	}
	return true;
}

static void refuse_layout(struct lw_hvd_extension *extension)
{
	lw_loss(LW_LOSS_LAYOUT, 1, "horovod.entries");
	if (!extension->is_layout_refused)
		lw_hook_report("horovod.entries", LW_HOOK_REFUSED, 0,
			"the names in a batch's entries are not its response's: entries are not read");
	extension->is_layout_refused = true;
}

static void read_tensor(const struct lw_hvd_extension *extension, const char *entry,
	struct lw_ev_batch_tensor *member)
{
	const void *tensor;

	memcpy(&tensor, entry + extension->string_bytes + 16, sizeof(tensor)); /* after context */
	member->object = (uint64_t)(uintptr_t)tensor;
	for (uint32_t i = 0; tensor && i < extension->n_tensor_classes; i++) {
		if (*(const void *const *)tensor != extension->tensor_classes[i].vtable)
			continue;
		member->bytes = (uint64_t)extension->tensor_classes[i].size(tensor);
		member->dtype = dtype_known(extension->tensor_classes[i].dtype(tensor));
	}
}

/* What the response alone says of its @i-th tensor: enough for reductions, nothing for the others. */
static void read_response_size(const struct lw_hvd_extension *extension, const void *response,
	uint16_t op, size_t i, struct lw_ev_batch_tensor *member)
{
	const struct lw_hvd_vector *sizes;
	int64_t n_elements;

	if ((op != LW_COLL_ALLREDUCE && op != LW_COLL_ADASUM && op != LW_COLL_REDUCESCATTER) ||
		!extension->call.tensor_sizes || !extension->call.tensor_type)
		return;
	sizes = extension->call.tensor_sizes(response);
	if ((size_t)(sizes->end - sizes->begin) < 8 * (i + 1))
		return;
	memcpy(&n_elements, sizes->begin + 8 * i, sizeof(n_elements));
	member->dtype = dtype_known(extension->call.tensor_type(response));
	member->bytes = (uint64_t)n_elements * dtype_bytes(member->dtype);
}

static int32_t read_process_set(struct lw_hvd_extension *extension, const struct batch *batch)
{
	int32_t id = 0;

	if (extension->set_offset < 0) /* before there were process sets */
		return 0;
	if (!batch->stride)
		return -1;
	memcpy(&id, batch->entries->begin + extension->string_bytes + 48 + extension->set_offset,
		sizeof(id));
	return lw_hvd_process_set(extension, id) ? id : -1;
}

static void begin_batch(struct batch *batch, const void *response)
{
	struct lw_hvd_extension *extension = batch->slot->extension;
	struct lw_event member = {.kind = LW_EV_BATCH_TENSOR};
	struct lw_ev_batch *out = &batch->event.batch;

	batch->event.kind = LW_EV_BATCH;
	batch->event.op = batch_op(batch->slot, response);
	out->batch = atomic_fetch_add_explicit(&last_batch, 1, memory_order_relaxed) + 1;
	out->framework = LW_FRAMEWORK_HOROVOD;
	out->fusion_bytes = extension->fusion_bytes;
	out->process_set = -1;
	member.t0_ns = member.t1_ns = lw_now_ns();
	member.batch_tensor.batch = out->batch;
	if (!extension->call.tensor_names || !extension->string_bytes) {
		lw_loss(LW_LOSS_LAYOUT, 1, "horovod.names");
		return;
	}
	batch->names = extension->call.tensor_names(response);
	batch->n = (size_t)(batch->names->end - batch->names->begin) / extension->string_bytes;
	out->n_tensors = (uint32_t)batch->n;
	if (batch->entries->begin == batch->entries->end) {
		batch->stride = 0; /* join and barrier may have none */
	} else if (!is_layout_known(batch, extension->string_bytes)) {
		batch->stride = 0;
		refuse_layout(extension);
	}
	out->process_set = read_process_set(extension, batch);
	for (size_t i = 0; i < batch->n; i++) {
		struct text name = read_string(
			batch->names->begin + i * extension->string_bytes, extension->string_bytes);

		member.op = (uint16_t)i;
		member.batch_tensor.name = lw_string(name.at, name.n);
		member.batch_tensor.object = member.batch_tensor.bytes = 0;
		member.batch_tensor.dtype = LW_DTYPE_UNKNOWN;
		if (batch->stride)
			read_tensor(extension, batch->entries->begin + i * batch->stride,
				&member.batch_tensor);
		if (!member.batch_tensor.dtype)
			read_response_size(
				extension, response, batch->event.op, i, &member.batch_tensor);
		out->bytes += member.batch_tensor.bytes;
		out->dtype = i ? out->dtype : member.batch_tensor.dtype;
		lw_record(&member);
	}
}

/* Status HorovodOp::Execute(vector<TensorTableEntry> &entries, const Response &response[, ProcessSet &]) */
uint64_t lw_hvd_on_execute(const struct lw_hvd_slot *slot, void *status, void *self, void *entries,
	void *response, void *process_set)
{
	struct lw_hvd_extension *extension = slot->extension;
	struct batch batch = {.slot = slot, .entries = entries};
	uintptr_t frame = (uintptr_t)__builtin_frame_address(0);
	uint64_t result;

	lw_hvd_background_seen(extension);
	if (!lw_is_live())
		return slot->real(status, self, entries, response, process_set);
	lw_hvd_close_thrown(frame);
	if (lw_hvd_is_open(LW_HVD_OPEN_BATCH)) /* one operation may use another */
		return slot->real(status, self, entries, response, process_set);
	if (slot->transport && slot->transport != extension->transport) {
		extension->transport = slot->transport;
		lw_activate(LW_FRAMEWORK_HOROVOD, (enum lw_transport)slot->transport);
	}
	begin_batch(&batch, response);
	lw_hvd_tls.process_set = batch.event.batch.process_set;
	batch.event.t0_ns = lw_now_ns();
	lw_hvd_open(LW_HVD_OPEN_BATCH, &batch.event, frame);
	lw_cupti_enter(LW_LAUNCH_FOR_BATCH, batch.event.batch.batch);
	result = slot->real(status, self, entries, response, process_set);
	lw_cupti_leave(LW_LAUNCH_FOR_BATCH);
	batch.event.t1_ns = lw_now_ns();
	/* In progress: handed to the device; its end is told to the framework, not to us. */
	if (extension->call.is_in_progress && extension->call.is_in_progress(status))
		batch.event.batch.flags |= LW_COLL_UNFINISHED;
	else if (extension->call.is_ok && !extension->call.is_ok(status))
		batch.event.batch.flags |= LW_COLL_FAILED;
	lw_hvd_cycle_worked();
	lw_hvd_close(LW_HVD_OPEN_BATCH, &batch.event);
	return result;
}

struct lw_hvd_process_set *lw_hvd_process_set(struct lw_hvd_extension *extension, int32_t id)
{
	const struct lw_hvd_calls *call = &extension->call;
	struct lw_hvd_process_set set = {.id = id, .rank = -1, .size = -1};

	for (uint32_t i = 0; i < extension->n_process_sets; i++)
		if (extension->process_sets[i].id == id)
			return &extension->process_sets[i];
	if (id && id > 0 && call->process_set_rank && call->process_set_size) {
		set.rank = call->process_set_rank(id);
		set.size = call->process_set_size(id);
	} else if (id == 0 && call->rank && call->size) {
		set.rank = call->rank();
		set.size = call->size();
	}
	if (set.rank < 0 || set.size <= set.rank)
		return NULL;
	if (extension->n_process_sets == LW_HVD_MAX_PROCESS_SETS)
		extension->n_process_sets = 0; /* forgets them all: they are asked again */
	extension->process_sets[extension->n_process_sets] = set;
	return &extension->process_sets[extension->n_process_sets++];
}
