/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hook_ddp.c - DistributedDataParallel of torch over Gloo: buckets, when they are ready, who waits.
 *
 * Writes: READY at the moment a bucket's work object is queued on the training thread; BATCH and
 * BATCH_TENSOR around its execution on a worker thread; WAIT while the training thread waits for
 * futures; SETTING bucket_cap_bytes and first_bucket_bytes; GRADIENT when a parameter's is complete. A
 * bucket is a tensor called "bucket.K", K its place in the backward pass: the reducer starts buckets in
 * the order of their index, on all ranks, in every step.
 * A second reducer of the process has "ddp1.bucket.K", and so on.
 *
 * The functions are exported by libtorch_cpu and called through dynamic symbols (seen in 1.13 and
 * 2.5). A work object's address joins READY and BATCH_TENSOR, whichever thread executes it. Other work
 * of the process group (broadcasts, the user's own all_reduce) has COLLECTIVE records only.
 *
 * Not for: NCCL process groups, whose work is not queued here; sizes of parameters: ddp_parameters.c.
 */
#include <stdio.h>
#include <string.h>

#include "tracer/hook_ddp.h"
#include "tracer/hook_gloo.h"
#include "tracer/probe.h"

enum { REDUCERS_MAX = 64, QUEUED_MAX = 256 };

/* Those used last: nobody tells us when one is gone. */
static struct reducer {
	_Atomic(const void *) object;
	_Atomic uint64_t used; /* the last time, as a count of all uses; 0 = free */
	/* The reducer's own mutex protects these. */
	uint32_t serial;    /* within the process, from 0: the same on all ranks */
	uint32_t n_started; /* buckets of this backward pass */
} reducers[REDUCERS_MAX];
static _Atomic uint64_t n_uses;
static _Atomic uint32_t n_reducers; /* ever */

/* Buckets that are queued and not yet executed: work object -> its name. */
static struct {
	_Atomic(const void *) work; /* NULL = free */
	char text[32];
} queued[QUEUED_MAX];
static char taken; /* its address marks an entry that is being written */

static _Atomic uint64_t bucket_cap_bytes = UINT64_MAX;
static _Atomic uint64_t n_batches;

/*
 * Both functions may throw past our hooks, and are known to have been left when a hook runs on a frame
 * at or above theirs: the stack grows down.
 */
static _Thread_local struct {
	char bucket[32];         /* name of the bucket that is being started */
	uintptr_t bucket_frame;  /* of the hook that starts it; 0 outside */
	int64_t waiting_ns;      /* since when finalize_backward() waits for the next bucket */
	uintptr_t waiting_frame; /* of the hook around it; 0 outside */
	bool is_role_known;
} here;

static void leave_thrown(uintptr_t frame)
{
	if (here.bucket_frame <= frame)
		here.bucket_frame = 0;
	if (here.waiting_frame <= frame)
		here.waiting_frame = 0;
}
#define LEAVE_THROWN() leave_thrown((uintptr_t)__builtin_frame_address(0))

static bool is_wanted(void)
{
	static _Atomic int wanted; /* 0 = not asked yet */
	int known = atomic_load_explicit(&wanted, memory_order_relaxed);

	if (!known) {
		known = lw_hook_wanted("ddp") ? 1 : -1;
		atomic_store_explicit(&wanted, known, memory_order_relaxed);
	}
	return known > 0;
}

static void say_role(enum lw_thread_role role)
{
	if (here.is_role_known)
		return;
	here.is_role_known = true;
	lw_thread_role(role);
}

/* @is_made: just now; what was known of its address is of one that is gone */
static struct reducer *reducer_of(const void *object, bool is_made)
{
	struct reducer *found = NULL, *oldest = reducers;

	for (size_t i = 0; !found && i < REDUCERS_MAX; i++) {
		if (atomic_load(&reducers[i].object) == object)
			found = &reducers[i];
		else if (atomic_load(&reducers[i].used) < atomic_load(&oldest->used))
			oldest = &reducers[i];
	}
	if (!found) {
		const void *gone = atomic_load(&oldest->object);

		if (!atomic_compare_exchange_strong(&oldest->object, &gone, object)) {
			lw_loss(LW_LOSS_TABLE_FULL, 1, "torch reducers made at a time");
			return NULL;
		}
		found = oldest;
		is_made = true;
	}
	if (is_made) {
		found->serial = atomic_fetch_add(&n_reducers, 1);
		found->n_started = 0;
	}
	atomic_store(&found->used, atomic_fetch_add(&n_uses, 1) + 1);
	return found;
}

static void record_wait(int64_t t0_ns, int64_t t1_ns)
{
	struct lw_event event = {
		.kind = LW_EV_WAIT, .op = LW_WAIT_WORK, .t0_ns = t0_ns, .t1_ns = t1_ns};

	if (lw_is_live() && lw_hook_wanted("wait"))
		lw_record(&event);
}

#define NAME_OF(symbol)  NAME_OF_(symbol)
#define NAME_OF_(symbol) #symbol
#define REAL_FOR(symbol)                                                                           \
	({                                                                                         \
		static struct lw_real_sites sites_;                                                \
		lw_real_for(NAME_OF(symbol), __builtin_return_address(0), &sites_);                \
	})

/* ---- c10d::Reducer: which bucket, and the wait at the end of the backward pass ----------------------- */

/*
 * Reducer(params, bucket_indices, per_bucket_size_limits, process_group, expect_sparse, int64_t
 * bucket_bytes_cap, bool, bool, param_names, int64_t first_bucket_bytes_cap). Objects passed by value
 * come as addresses, so all three spellings (1.13; later ones; those with the old string ABI) agree.
 */
#define REDUCER_CONSTRUCTOR(symbol)                                                                \
	void symbol(void *self, void *params, void *indices, void *limits, void *group,            \
		void *sparse, int64_t cap_bytes, bool find_unused, bool as_view, void *names,      \
		int64_t first_cap_bytes);                                                          \
	LW_EXPORT void symbol(void *self, void *params, void *indices, void *limits, void *group,  \
		void *sparse, int64_t cap_bytes, bool find_unused, bool as_view, void *names,      \
		int64_t first_cap_bytes)                                                           \
	{                                                                                          \
		void *real = REAL_FOR(symbol);                                                     \
                                                                                                   \
		reducer_is_made(                                                                   \
			self, params, cap_bytes, first_cap_bytes, __builtin_return_address(0));    \
		((void (*)(void *, void *, void *, void *, void *, void *, int64_t, bool, bool,    \
			void *, int64_t))real)(self, params, indices, limits, group, sparse,       \
			cap_bytes, find_unused, as_view, names, first_cap_bytes);                  \
	}

/* Before its constructor runs: that moves the parameters away. */
static void reducer_is_made(const void *self, const void *params, int64_t cap_bytes,
	int64_t first_cap_bytes, void *caller)
{
	const struct reducer *reducer;

	if (!is_wanted() || !lw_activate(LW_FRAMEWORK_TORCH_DDP, LW_TRANSPORT_NONE))
		return;
	lw_hook_report(
		"torch.ddp", LW_HOOK_ACTIVE, 9, "c10d::Reducer and ProcessGroupGloo by name");
	say_role(LW_THREAD_TRAINING);
	reducer = reducer_of(self, true);
	if (cap_bytes > 0) {
		atomic_store(&bucket_cap_bytes, (uint64_t)cap_bytes);
		lw_setting(LW_SETTING_BUCKET_CAP_BYTES, (double)cap_bytes, LW_SOURCE_LIVE);
	}
	if (first_cap_bytes > 0)
		lw_setting(LW_SETTING_FIRST_BUCKET_BYTES, (double)first_cap_bytes, LW_SOURCE_LIVE);
	if (reducer)
		lw_ddp_record_parameters(params, reducer->serial, caller);
}

/* clang-format off */
REDUCER_CONSTRUCTOR(_ZN4c10d7ReducerC1ESt6vectorIN2at6TensorESaIS3_EES1_IS1_ImSaImEESaIS7_EES7_N3c1013intrusive_ptrINS_12ProcessGroupENSA_6detail34intrusive_target_default_null_typeISC_EEEES1_IbSaIbEElbbSt13unordered_mapImNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEESt4hashImESt8equal_toImESaISt4pairIKmSP_EEEl)
REDUCER_CONSTRUCTOR(_ZN4c10d7ReducerC1ESt6vectorIN2at6TensorESaIS3_EES1_IS1_ImSaImEESaIS7_EERKS7_N3c1013intrusive_ptrINS_12ProcessGroupENSC_6detail34intrusive_target_default_null_typeISE_EEEES1_IbSaIbEElbbSt13unordered_mapImNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEESt4hashImESt8equal_toImESaISt4pairIKmSR_EEEl)
REDUCER_CONSTRUCTOR(_ZN4c10d7ReducerC1ESt6vectorIN2at6TensorESaIS3_EES1_IS1_ImSaImEESaIS7_EERKS7_N3c1013intrusive_ptrINS_12ProcessGroupENSC_6detail34intrusive_target_default_null_typeISE_EEEES1_IbSaIbEElbbSt13unordered_mapImSsSt4hashImESt8equal_toImESaISt4pairIKmSsEEEl)
/* clang-format on */

/* void Reducer::reset_bucket_counting(): a backward pass begins. */
void _ZN4c10d7Reducer21reset_bucket_countingEv(void *self);

LW_EXPORT void _ZN4c10d7Reducer21reset_bucket_countingEv(void *self)
{
	void *real = REAL_FOR(_ZN4c10d7Reducer21reset_bucket_countingEv);
	struct reducer *reducer = is_wanted() ? reducer_of(self, false) : NULL;

	if (reducer)
		reducer->n_started = 0;
	((void (*)(void *))real)(self);
}

/* void Reducer::mark_variable_ready(size_t): a parameter's gradient is complete, or known to be unused. */
void _ZN4c10d7Reducer19mark_variable_readyEm(void *self, size_t position);

LW_EXPORT void _ZN4c10d7Reducer19mark_variable_readyEm(void *self, size_t position)
{
	void *real = REAL_FOR(_ZN4c10d7Reducer19mark_variable_readyEm);
	struct reducer *reducer = is_wanted() && lw_is_live() ? reducer_of(self, false) : NULL;

	if (reducer) {
		struct lw_event event = {.kind = LW_EV_GRADIENT};

		say_role(LW_THREAD_TRAINING);
		event.t0_ns = event.t1_ns = lw_now_ns();
		event.gradient.reducer = reducer->serial;
		event.gradient.position = (uint32_t)position;
		lw_record(&event);
	}
	((void (*)(void *, size_t))real)(self, position);
}

/* void Reducer::all_reduce_bucket(Bucket &): all gradients of the bucket are in it. */
void _ZN4c10d7Reducer17all_reduce_bucketERNS0_6BucketE(void *self, void *bucket);

LW_EXPORT void _ZN4c10d7Reducer17all_reduce_bucketERNS0_6BucketE(void *self, void *bucket)
{
	void *real = REAL_FOR(_ZN4c10d7Reducer17all_reduce_bucketERNS0_6BucketE);
	struct reducer *reducer = is_wanted() && lw_is_live() ? reducer_of(self, false) : NULL;

	if (reducer) {
		say_role(LW_THREAD_TRAINING);
		if (!reducer->serial)
			snprintf(here.bucket, sizeof(here.bucket), "bucket.%u",
				reducer->n_started++);
		else
			snprintf(here.bucket, sizeof(here.bucket), "ddp%u.bucket.%u",
				reducer->serial, reducer->n_started++);
		here.bucket_frame = (uintptr_t)__builtin_frame_address(0);
	}
	((void (*)(void *, void *))real)(self, bucket);
	here.bucket_frame = 0;
}

/* void Reducer::finalize_backward(): for each bucket wait for its future, then finalize_bucket_dense(). */
void _ZN4c10d7Reducer17finalize_backwardEv(void *self);

LW_EXPORT void _ZN4c10d7Reducer17finalize_backwardEv(void *self)
{
	void *real = REAL_FOR(_ZN4c10d7Reducer17finalize_backwardEv);

	LEAVE_THROWN();
	if (is_wanted() && lw_is_live()) {
		here.waiting_frame = (uintptr_t)__builtin_frame_address(0);
		here.waiting_ns = lw_now_ns();
	}
	((void (*)(void *))real)(self);
	here.waiting_frame = 0;
}

void _ZN4c10d7Reducer21finalize_bucket_denseERNS0_6BucketE(void *self, void *bucket);

LW_EXPORT void _ZN4c10d7Reducer21finalize_bucket_denseERNS0_6BucketE(void *self, void *bucket)
{
	void *real = REAL_FOR(_ZN4c10d7Reducer21finalize_bucket_denseERNS0_6BucketE);

	LEAVE_THROWN();
	if (here.waiting_frame)
		record_wait(here.waiting_ns, lw_now_ns());
	((void (*)(void *, void *))real)(self, bucket); /* copies the bucket into the gradients */
	if (here.waiting_frame)
		here.waiting_ns = lw_now_ns();
}

/* bool Work::wait(std::chrono::milliseconds): what the user's own collectives block in. */
#define WORK_WAIT _ZN4c10d4Work4waitENSt6chrono8durationIlSt5ratioILl1ELl1000EEEE

bool WORK_WAIT(void *self, int64_t timeout_ms);

LW_EXPORT bool WORK_WAIT(void *self, int64_t timeout_ms)
{
	void *real = REAL_FOR(WORK_WAIT);
	int64_t t0_ns;
	bool result;

	LEAVE_THROWN();
	t0_ns = is_wanted() && lw_is_live() && !here.waiting_frame && !lw_probe_is_scripted()
			? lw_now_ns()
			: 0;
	result = ((bool (*)(void *, int64_t))real)(self, timeout_ms);
	if (t0_ns)
		record_wait(t0_ns, lw_now_ns());
	return result;
}

/* ---- c10d::ProcessGroupGloo: the queue of work objects ------------------------------------------------ */

static void remember(const void *work, const char *text)
{
	for (size_t i = 0; i < QUEUED_MAX; i++) {
		const void *none = NULL;

		if (!atomic_compare_exchange_strong(&queued[i].work, &none, &taken))
			continue;
		memcpy(queued[i].text, text, strlen(text) + 1);
		/* pairs with the load in forget() */
		atomic_store_explicit(&queued[i].work, work, memory_order_release);
		return;
	}
	lw_loss(LW_LOSS_TABLE_FULL, 1, "queued buckets");
}

/* Return: true when @work is a bucket; its name goes to @text (32 bytes). */
static bool forget(const void *work, char *text)
{
	for (size_t i = 0; i < QUEUED_MAX; i++) {
		if (atomic_load_explicit(&queued[i].work, memory_order_acquire) != work)
			continue;
		memcpy(text, queued[i].text, sizeof(queued[i].text));
		atomic_store_explicit(&queued[i].work, NULL, memory_order_release);
		return true;
	}
	return false;
}

/* void ProcessGroupGloo::enqueue(c10::intrusive_ptr<AsyncWork>): the pointer comes by address. */
#define ENQUEUE                                                                                    \
	_ZN4c10d16ProcessGroupGloo7enqueueEN3c1013intrusive_ptrINS0_9AsyncWorkENS1_6detail34intrusive_target_default_null_typeIS3_EEEE

void ENQUEUE(void *self, void **work);

LW_EXPORT void ENQUEUE(void *self, void **work)
{
	void *real = REAL_FOR(ENQUEUE);
	struct lw_event event = {.kind = LW_EV_READY};

	LEAVE_THROWN();
	if (here.bucket_frame) {
		event.t0_ns = event.t1_ns = lw_now_ns();
		event.ready.object = (uint64_t)(uintptr_t)*work;
		event.ready.name = lw_string_z(here.bucket);
		remember(*work, here.bucket);
		lw_record(&event);
		/* a communication hook may queue more; one of them is the bucket */
		here.bucket_frame = 0;
	}
	((void (*)(void *, void **))real)(self, work);
}

static void record_batch(const char *text, uint64_t object, int64_t t0_ns)
{
	struct lw_event event = {.kind = LW_EV_BATCH_TENSOR};
	const struct lw_gloo_sum *sum = &lw_gloo_sum;
	uint64_t batch = atomic_fetch_add(&n_batches, 1) + 1;

	event.t0_ns = t0_ns;
	event.t1_ns = lw_now_ns();
	event.batch_tensor.batch = batch;
	event.batch_tensor.name = lw_string_z(text);
	event.batch_tensor.object = object;
	event.batch_tensor.bytes = sum->bytes;
	lw_record(&event);
	event.kind = LW_EV_BATCH;
	event.op = sum->n ? sum->op : (uint16_t)LW_COLL_ALLREDUCE;
	memset(&event.batch, 0, sizeof(event.batch));
	event.batch.batch = batch;
	event.batch.bytes = sum->bytes;
	event.batch.fusion_bytes = atomic_load(&bucket_cap_bytes);
	event.batch.n_tensors = 1;
	event.batch.process_set = -1;
	event.batch.flags = sum->flags;
	event.batch.framework = LW_FRAMEWORK_TORCH_DDP;
	lw_record(&event);
}

static void execute(void **work, void *real, uintptr_t frame)
{
	const void *object = *work; /* read now: the function may give the pointer away */
	char text[32];
	bool is_bucket = is_wanted() && lw_is_live() && forget(object, text);
	int64_t t0_ns = 0;

	if (is_bucket) {
		say_role(LW_THREAD_BACKGROUND);
		memset(&lw_gloo_sum, 0, sizeof(lw_gloo_sum));
		t0_ns = lw_now_ns();
	}
	((void (*)(void **))real)(work);
	lw_gloo_close_thrown(frame); /* execute() keeps the exceptions of the work to itself */
	if (is_bucket)
		record_batch(text, (uint64_t)(uintptr_t)object, t0_ns);
}

/* static void AsyncWork::execute(intrusive_ptr<AsyncWork>), and since 2.x (const intrusive_ptr &) */
#define EXECUTE                                                                                    \
	_ZN4c10d16ProcessGroupGloo9AsyncWork7executeEN3c1013intrusive_ptrIS1_NS2_6detail34intrusive_target_default_null_typeIS1_EEEE
#define EXECUTE_BY_REFERENCE                                                                       \
	_ZN4c10d16ProcessGroupGloo9AsyncWork7executeERKN3c1013intrusive_ptrIS1_NS2_6detail34intrusive_target_default_null_typeIS1_EEEE

void EXECUTE(void **work);
void EXECUTE_BY_REFERENCE(void **work);

LW_EXPORT void EXECUTE(void **work)
{
	execute(work, REAL_FOR(EXECUTE), (uintptr_t)__builtin_frame_address(0));
}

LW_EXPORT void EXECUTE_BY_REFERENCE(void **work)
{
	execute(work, REAL_FOR(EXECUTE_BY_REFERENCE), (uintptr_t)__builtin_frame_address(0));
}
