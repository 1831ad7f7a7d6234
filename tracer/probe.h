/* SPDX-License-Identifier: Apache-2.0 */
/*
 * probe.h - `record --probe`: the tracer sends collectives of its own, once, before the job does.
 *
 * The only part of the tracer that uses the network. It does so when LAPWING_PROBE asks for it, and only
 * where all ranks were seen to be asked: what carries the operations must make sure of that first.
 */
#ifndef LAPWING_TRACER_PROBE_H
#define LAPWING_TRACER_PROBE_H

#include "tracer/tracer.h"

struct lw_probe_carrier {
	enum lw_transport transport;
	/* Bit-wise AND of @n_bytes at @words over all ranks, in place. May leave by an exception of the job's. */
	void (*all_and)(void *context, void *words, size_t n_bytes);
	void *context;
};

/**
 * lw_probe_claim() - a probe is asked for, has not been claimed in this process, and has its memory.
 * After true the caller either runs it or refuses it.
 */
bool lw_probe_claim(void);

/** lw_probe_run() - all of it, in the calling thread; PROBE records. */
void lw_probe_run(const struct lw_probe_carrier *carrier);

/** lw_probe_refuse() - there will be none, and @why; told as a HOOK record. */
void lw_probe_refuse(const char *why);

/** lw_probe_end() - a process of torch.distributed ends: if a probe was asked for and its script made none, it says why. */
void lw_probe_end(void);

/** lw_probe_release() - its memory goes; also after an exception left lw_probe_run(). */
void lw_probe_release(void);

/** lw_probe_pause() - between two bursts: long enough that a wire counts as idle, short beside a step. */
void lw_probe_pause(void);

/** lw_probe_is_scripted() - a script's probe is going on (probe_script.c): the job itself does nothing. */
bool lw_probe_is_scripted(void);

/**
 * lw_probe_label() - a collective begins: is it one of a script's probe (probe_script.c)?
 * @event: COLLECTIVE, bytes filled in; OWN: it is a PROBE event now. HIDDEN: not to be recorded
 */
enum lw_probe_label { LW_PROBE_NOT, LW_PROBE_OWN, LW_PROBE_HIDDEN };
enum lw_probe_label lw_probe_label(struct lw_event *event);

#endif /* LAPWING_TRACER_PROBE_H */
