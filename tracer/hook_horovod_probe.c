/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hook_horovod_probe.c - a probe that Horovod's controller carries: over Gloo or MPI, as its gradients.
 *
 * CrossRankBitwiseAnd() is an allreduce on the context that the gradients use, so calling it with words
 * of our own is the job's own transport, whatever that is.
 *
 * All ranks must be asked, or those that are would wait for ever for those that are not. So it is agreed
 * first, in a round of the job's own: the very first one, when nothing is in the response cache and the
 * upper bits of the first word mean nothing. Who wants a probe sets them. What all have set comes back
 * set, and is taken out again before Horovod looks; one rank that has not set them (no variable, no
 * tracer) makes them 0, which is what they would have been.
 *
 * Then nothing happens until the ranks agree on their first tensor: now all of them are up and wait.
 */
#include <string.h>

#include "tracer/hook_horovod.h"
#include "tracer/probe.h"

/* Positions 53 and up of the response cache. No rank can have so many before its first round. */
static const uint64_t WANT_BITS = UINT64_C(0xff) << 56;

static struct {
	enum { NOTHING, ASKED, AGREED } state;
	const struct lw_hvd_slot *slot; /* of the controller's AND */
	void *controller;               /* of all ranks */
} probe; /* of the one background thread that lw_probe_claim() chose */

void lw_hvd_probe_ask(
	const struct lw_hvd_slot *slot, void *controller, const struct lw_hvd_vector *words)
{
	uint64_t word;

	if (!lw_hvd_tls.may_ask_probe)
		return;
	lw_hvd_tls.may_ask_probe = false;
	if (!lw_probe_claim())
		return;
	memcpy(&word, words->begin, sizeof(word));
	if (slot->extension->call.size && slot->extension->call.size() == 1) {
		lw_probe_refuse("there is one rank only");
	} else if (!slot->extension->call.responses || word & WANT_BITS) {
		lw_probe_refuse("this Horovod's rounds cannot be read");
	} else {
		word |= WANT_BITS;
		memcpy((char *)(uintptr_t)words->begin, &word, sizeof(word));
		probe.state = ASKED;
		probe.slot = slot;
		probe.controller = controller;
		lw_hvd_tls.has_probe = true;
	}
}

void lw_hvd_probe_answer(const struct lw_hvd_vector *words)
{
	uint64_t word;

	if (!lw_hvd_tls.has_probe || probe.state != ASKED)
		return;
	memcpy(&word, words->begin, sizeof(word));
	probe.state = (word & WANT_BITS) == WANT_BITS ? AGREED : NOTHING;
	word &= ~WANT_BITS;
	memcpy((char *)(uintptr_t)words->begin, &word, sizeof(word));
	if (probe.state == NOTHING)
		lw_probe_refuse("not every rank has LAPWING_PROBE set and is recorded");
}

static void all_and(void *context, void *words, size_t n_bytes)
{
	struct lw_hvd_vector vector = {.begin = words};

	(void)context;
	vector.end = vector.capacity = vector.begin + n_bytes;
	probe.slot->real(
		probe.controller, &vector, (void *)(n_bytes / sizeof(uint64_t)), NULL, NULL);
}

void lw_hvd_probe_at_responses(void *controller, const void *list)
{
	struct lw_probe_carrier carrier = {.all_and = all_and};
	const struct lw_hvd_vector *responses;

	if (!lw_hvd_tls.has_probe || probe.state != AGREED || controller != probe.controller)
		return;
	responses = probe.slot->extension->call.responses(list);
	if (responses->begin == responses->end)
		return;
	probe.state = NOTHING;
	carrier.transport = (enum lw_transport)probe.slot->transport;
	lw_mpi_hide(__builtin_frame_address(0));
	lw_probe_run(&carrier);
	lw_mpi_show();
}

void lw_hvd_probe_thread_ends(void)
{
	if (lw_hvd_tls.may_ask_probe && lw_probe_claim())
		lw_probe_refuse("this Horovod made no round with its response cache (is it off?)");
	lw_hvd_tls.may_ask_probe = false;
	if (!lw_hvd_tls.has_probe)
		return;
	lw_hvd_tls.has_probe = false;
	lw_mpi_show(); /* an exception may have left the probe */
	if (probe.state == AGREED)
		lw_probe_refuse("the job ended before its first operation");
	else
		lw_probe_release();
	probe.state = NOTHING;
}
