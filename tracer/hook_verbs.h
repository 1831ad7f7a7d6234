/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hook_verbs.h - between hook_verbs.c, hook_verbs_post.c, _wr.c and _memory.c; for nobody else.
 *
 * libibverbs calls its providers through pointers in memory of its own. Each is replaced by a function
 * of ours that knows where the real one is: one of LW_VERBS_VARIANTS per pointer, for the few providers
 * (and kinds of queue) that one process meets. So nothing has to be looked up to call the real function,
 * and that works in a forked child, before our tables and after them.
 */
#ifndef LAPWING_TRACER_HOOK_VERBS_H
#define LAPWING_TRACER_HOOK_VERBS_H

#include <infiniband/verbs.h>

#include "tracer/tracer.h"
#include "tracer/verbs_table.h"

/* By the calling provider: two copies of libibverbs may live in one process, and come and go. */
#define REAL_FOR_CALLER(name)                                                                      \
	({                                                                                         \
		static struct lw_real_site site_;                                                  \
		(__typeof__(&name))lw_real_now(#name, __builtin_return_address(0), &site_);        \
	})

enum { LW_VERBS_VARIANTS = 8 };

struct lw_verbs_variants {
	_Atomic(void *) real[LW_VERBS_VARIANTS]; /* NULL = free */
	void *wrapper[LW_VERBS_VARIANTS];
};

/* Expands @X(name, n) for every variant. */
#define LW_VERBS_EACH(X, name)                                                                     \
	X(name, 0) X(name, 1) X(name, 2) X(name, 3) X(name, 4) X(name, 5) X(name, 6) X(name, 7)

/** lw_verbs_wrap() - Return: our function in front of @real (which may be it already), NULL = no room. */
void *lw_verbs_wrap(struct lw_verbs_variants *variants, void *real);

/** lw_verbs_patch() - put it into @slot. Return: false = no room, or nothing there: left as it is. */
bool lw_verbs_patch(struct lw_verbs_variants *variants, void *slot);

/** lw_verbs_patch_context() - the data path of @context, and how queues are made. Return: slots patched. */
uint32_t lw_verbs_patch_context(struct ibv_context *context);

/** lw_verbs_patch_qp() - the ibv_wr_* of @qp, all or (no room, which is counted) none. */
void lw_verbs_patch_qp(struct ibv_qp_ex *qp);

/** lw_verbs_facts() - of a queue pair as it was @asked for, or (NULL) as its public part says. */
struct lw_qp_facts lw_verbs_facts(const struct ibv_context *context, const struct ibv_qp *qp,
	const struct ibv_qp_init_attr_ex *asked);

/** lw_verbs_created() - @qp was made, by a call that began at @since_ns: it may have been told already. */
void lw_verbs_created(struct ibv_context *context, const struct ibv_qp *qp,
	const struct ibv_qp_init_attr_ex *asked, int64_t since_ns);

/** lw_verbs_memory_record() - what is registered now. */
void lw_verbs_memory_record(void);

/** lw_verbs_report() - this process begins to record: say what is hooked. */
void lw_verbs_report(void);

#endif /* LAPWING_TRACER_HOOK_VERBS_H */
