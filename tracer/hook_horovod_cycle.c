/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hook_horovod_cycle.c - Horovod's rounds of coordination, as CYCLE records.
 *
 * A job that waits makes a thousand rounds a second that say nothing new. A round is told when its bits
 * differ from the same controller's round before, when work came of it, or when a second of silence is
 * over; the others are counted in the record that comes next (struct lw_ev_cycle).
 *
 * Not for: what the bits mean; the analyzer knows.
 */
#include <dlfcn.h>
#include <string.h>

#include "tracer/hook_horovod.h"

static const int64_t max_silence_ns = 1000000000;

/* Return: these bits are what the same controller's last round had. */
static bool is_repeated(
	struct lw_hvd_thread *state, const void *controller, uint32_t op, uint64_t hash)
{
	uint32_t i = 0;

	while (i < state->n_last &&
		(state->last[i].controller != controller || state->last[i].op != op))
		i++;
	if (i ==
		sizeof(state->last) /
			sizeof(state->last
					[0])) { /* stays correct: more rounds are told one by one */
		state->n_last = i = 0;
	}
	if (i == state->n_last) {
		state->last[i].controller = controller;
		state->last[i].op = op;
		state->last[i].hash = hash;
		state->n_last++;
		return false;
	}
	if (state->last[i].hash != hash) {
		state->last[i].hash = hash;
		return false;
	}
	return true;
}

static void tell(struct lw_hvd_thread *state, struct lw_event *event)
{
	uint32_t n = atomic_exchange_explicit(&state->n_unchanged, 0, memory_order_acquire);

	if (n) {
		event->cycle.n_unchanged = n;
		event->cycle.unchanged_ns = state->unchanged_ns;
		event->cycle.unchanged_span_ns = state->newest.t1_ns - state->first_ns;
	}
	lw_record(event);
}

static void count(struct lw_hvd_thread *state, const struct lw_event *event)
{
	if (!atomic_load_explicit(&state->n_unchanged, memory_order_relaxed)) {
		state->first_ns = event->t0_ns;
		state->unchanged_ns = 0;
	}
	state->unchanged_ns += event->t1_ns - event->t0_ns;
	state->newest = *event;
	/* pairs with the acquire in tell(): whoever takes the count sees the sums */
	atomic_fetch_add_explicit(&state->n_unchanged, 1, memory_order_release);
}

static void round_done(
	const void *controller, struct lw_event *event, uint64_t hash, bool may_be_counted)
{
	struct lw_hvd_thread *state = lw_hvd_thread();
	bool is_counted;

	if (!state) {
		lw_record(event);
		return;
	}
	is_counted = is_repeated(state, controller, event->op, hash) && may_be_counted &&
		     !state->is_work_done;
	if (is_counted && atomic_load_explicit(&state->n_unchanged, memory_order_relaxed) &&
		event->t1_ns - state->first_ns > max_silence_ns)
		is_counted = false;
	/* A round of final responses is the second half of a round of bits, which may repeat. */
	if (event->op == LW_CYCLE_AND)
		state->is_work_done = false;
	if (is_counted)
		count(state, event);
	else
		tell(state, event);
}

static uint64_t hash_words(uint64_t hash, const struct lw_hvd_vector *words, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		uint64_t word;

		memcpy(&word, words->begin + 8 * (size_t)i, sizeof(word));
		hash = (hash ^ word) * UINT64_C(0x100000001b3);
		hash ^= hash >> 29;
	}
	return hash;
}

/* Controller::CrossRankBitwiseAnd(vector<long long> &words, int count), and Or */
uint64_t lw_hvd_on_bitwise(const struct lw_hvd_slot *slot, void *controller, void *words,
	void *count_, void *d, void *e)
{
	struct lw_event event = {.kind = LW_EV_CYCLE, .op = slot->detail};
	const struct lw_hvd_vector *bits = words;
	int count_words = (int)(intptr_t)count_;
	uint32_t n = count_words > 0 ? (uint32_t)count_words : 0;
	uint64_t hash, result;

	lw_hvd_background_seen(slot->extension);
	if (!lw_is_live())
		return slot->real(controller, words, count_, d, e);
	lw_hvd_close_thrown(UINTPTR_MAX);
	lw_hvd_settings_check(slot->extension, controller);
	if ((size_t)(bits->end - bits->begin) < 8 * (size_t)n)
		n = 0;
	if (n)
		memcpy(&event.cycle.in_bits, bits->begin, 8);
	hash = hash_words(n, bits, n);
	if (n && slot->detail == LW_CYCLE_AND)
		lw_hvd_probe_ask(slot, controller, bits);
	event.t0_ns = lw_now_ns();
	result = slot->real(controller, words, count_, d, e);
	event.t1_ns = lw_now_ns();
	if (n) {
		lw_hvd_probe_answer(bits);
		memcpy(&event.cycle.out_bits, bits->begin, 8);
	}
	hash = hash_words(hash, bits, n);
	event.cycle.n_words = n;
	round_done(controller, &event, hash, true);
	return result;
}

/* Could this be the start of a Response? Looks at its own words only, follows nothing. */
static bool looks_like_response(const char *at, uint32_t string_bytes)
{
	uintptr_t word[4];

	memcpy(word, at, sizeof(word));
	return (word[0] & 0xffffffff) < 16 && word[1] >= 4096 && word[1] < word[2] &&
	       word[2] <= word[3] && word[1] % 8 == 0 && (word[2] - word[1]) % string_bytes == 0;
}

/* A list of responses has no count of its own, and their size differs between versions. */
static uint32_t count_responses(const struct lw_hvd_extension *extension, const void *list)
{
	const struct lw_hvd_vector *all;
	size_t n_bytes;

	if (!extension->call.responses || !extension->string_bytes)
		return 0;
	all = extension->call.responses(list);
	n_bytes = (size_t)(all->end - all->begin);
	for (size_t stride = 96; stride <= 256 && stride <= n_bytes; stride += 8) {
		size_t at = 0;

		if (n_bytes % stride)
			continue;
		while (at < n_bytes &&
			looks_like_response(all->begin + at, extension->string_bytes))
			at += stride;
		if (at == n_bytes)
			return (uint32_t)(n_bytes / stride);
	}
	return n_bytes ? 1 : 0;
}

/* Controller::SendFinalTensors(ResponseList &) on a set's first rank, RecvFinalTensors on the others */
uint64_t lw_hvd_on_final(
	const struct lw_hvd_slot *slot, void *controller, void *list, void *c, void *d, void *e)
{
	struct lw_event event = {.kind = LW_EV_CYCLE, .op = LW_CYCLE_RESPONSES};
	uint64_t result;

	lw_hvd_background_seen(slot->extension);
	if (!lw_is_live())
		return slot->real(controller, list, c, d, e);
	lw_hvd_close_thrown(UINTPTR_MAX);
	lw_hvd_settings_check(slot->extension, controller); /* the cache may be off: no bits then */
	event.t0_ns = lw_now_ns();
	result = slot->real(controller, list, c, d, e);
	event.t1_ns = lw_now_ns();
	event.cycle.n_words = count_responses(slot->extension, list);
	round_done(controller, &event, event.cycle.n_words, event.cycle.n_words == 0);
	if (event.cycle.n_words)
		lw_hvd_cycle_worked();
	lw_hvd_probe_at_responses(controller, list);
	return result;
}

bool lw_horovod_is_present(void)
{
	static _Atomic int asked; /* 1 yes, -1 no */
	int answer = atomic_load_explicit(&asked, memory_order_relaxed);

	if (atomic_load_explicit(&lw_hvd_n_extensions, memory_order_relaxed))
		return true;
	if (!answer) { /* Python loads the extension so that its C interface is found by anybody */
		answer = dlsym(RTLD_DEFAULT, "horovod_rank") ? 1 : -1;
		atomic_store_explicit(&asked, answer, memory_order_relaxed);
	}
	return answer > 0;
}

void lw_horovod_band(
	uint64_t in_bits, uint64_t out_bits, uint32_t n_words, int64_t t0_ns, int64_t t1_ns)
{
	struct lw_event event = {
		.t0_ns = t0_ns, .t1_ns = t1_ns, .kind = LW_EV_CYCLE, .op = LW_CYCLE_AND};
	uint64_t hash = (in_bits * UINT64_C(0x100000001b3) ^ out_bits) + n_words;

	if (lw_horovod_is_hooked() || !lw_is_live() || !lw_horovod_is_present())
		return;
	if (lw_hvd_tls.role != LW_HVD_ROLE_BACKGROUND) {
		lw_hvd_tls.role = LW_HVD_ROLE_BACKGROUND;
		lw_activate(LW_FRAMEWORK_HOROVOD, LW_TRANSPORT_NONE);
		lw_thread_role(LW_THREAD_BACKGROUND);
		lw_hook_report("horovod.controller", LW_HOOK_REFUSED, 0,
			"not watched: rounds are those seen on the wire, without names");
	}
	event.cycle.in_bits = in_bits;
	event.cycle.out_bits = out_bits;
	event.cycle.n_words = n_words;
	/* Bits 0 to 2 set: nobody stops, nothing new. No other bit: nothing agreed. So no work comes of it. */
	round_done(NULL, &event, hash, out_bits == 7);
}

void lw_hvd_cycle_worked(void)
{
	struct lw_hvd_thread *state = lw_hvd_thread();

	if (state)
		state->is_work_done = true;
}

/* The newest of the counted rounds becomes a record, the others stay a count. */
void lw_hvd_cycle_flush(struct lw_hvd_thread *state)
{
	struct lw_event event;
	uint32_t n = atomic_exchange_explicit(&state->n_unchanged, 0, memory_order_acquire);

	if (!n)
		return;
	event = state->newest;
	event.cycle.n_unchanged = n - 1;
	event.cycle.unchanged_ns = state->unchanged_ns - (event.t1_ns - event.t0_ns);
	event.cycle.unchanged_span_ns = n > 1 ? event.t0_ns - state->first_ns : 0;
	lw_record(&event);
}
