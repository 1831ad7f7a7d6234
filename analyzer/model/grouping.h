/* SPDX-License-Identifier: Apache-2.0 */
/*
 * grouping.h - which neighbouring layers should share one all-reduce: exact, MG-WFBP, adaFusion.
 *
 * Pure functions; layers, units and the time origin are those of osf.h. A grouping is an array of
 * flags, one a layer: is_last[i] says that a group ends with layer i, and is sent when that layer's
 * backward pass ends. The link is a queue: one operation at a time, in order.
 * Not for: Horovod's timed fusion (fusion.h, simulate/): this is num_groups and DDP buckets.
 */
#ifndef LAPWING_ANALYZER_MODEL_GROUPING_H
#define LAPWING_ANALYZER_MODEL_GROUPING_H

#include <stdbool.h>
#include <stddef.h>

#include "analyzer/model/osf.h"

/** lw_group_update_ns() - T_update of a grouping; a group of 0 bytes costs nothing. */
double lw_group_update_ns(
	const struct lw_layer *layers, size_t n, struct lw_link link, const bool *is_last);

/**
 * lw_group_tick_update_ns() - T_update of a grouping when a background thread starts it: groups that are
 * complete when a round begins are sent in it, one after the other, none merged; rounds begin at
 * @phase_ns and then @cycle_ns after the one before began, or when its last operation ended if that
 * is later. Horovod with grouped all-reduce and HOROVOD_DISABLE_GROUP_FUSION (its blog of 0.21, and
 * horovod/common/operations.cc). Negotiation costs nothing here.
 * @cycle_ns: >= 0; 0 = a group is seen at once: lw_group_update_ns()
 * @phase_ns: first round, from the end of the backward pass of index 0; in [0, @cycle_ns)
 */
double lw_group_tick_update_ns(const struct lw_layer *layers, size_t n, struct lw_link link,
	const bool *is_last, double cycle_ns, double phase_ns);

/**
 * lw_group_contiguous() - Horovod's groups=@n_groups of the torch optimizer (split_list): parameters in
 * the order of the model, which is the reverse of ours, cut into runs whose lengths differ by one at
 * most, the longer ones first. More groups than layers: each its own. @n_groups >= 1.
 */
void lw_group_contiguous(size_t n, size_t n_groups, bool *ret_is_last);

/** lw_group_n_ops() - groups in a grouping. */
size_t lw_group_n_ops(const bool *is_last, size_t n);

/**
 * lw_group_optimal() - the grouping with the least T_update, exactly, for any cost.
 * @cap_bytes: no group of several layers may be larger; INFINITY = no cap
 *
 * Dynamic programme E(i) = min over j <= i of max(E(j - 1), done(i)) + t(D(j) + .. + D(i)): exact
 * since the end of a group never falls when the one before ends later. O(n^2) costs. Of several
 * best groupings it takes the one whose last groups are shortest.
 * Return: LW_OK or LW_ERR_NOMEM; @ret_is_last is written only on success.
 */
int lw_group_optimal(const struct lw_layer *layers, size_t n, double cap_bytes, struct lw_link link,
	bool *ret_is_last);

/**
 * lw_group_mgwfbp() - MG-WFBP's rule (Shi, Chu, Li, INFOCOM 2019, arXiv 1811.11141): merge a layer
 * into the next one when that one is ready before this one's operation would end, and either the
 * link is still busy then, or waiting for it costs less than the start-up that sharing saves,
 * t(M1) + t(M2) - t(M1 + M2), which is their constant a when the cost is affine. Not optimal.
 */
void lw_group_mgwfbp(
	const struct lw_layer *layers, size_t n, struct lw_link link, bool *ret_is_last);

/**
 * lw_group_adafusion() - adaFusion, OSF eq. 17: put a layer into the buffer when
 * t(B + D) + t_wait < t(B) + t(D).
 * @queue_aware: false = as printed, t_wait = t_backward of that layer; true = only the part of it
 * in which the link would have been free.
 */
void lw_group_adafusion(const struct lw_layer *layers, size_t n, struct lw_link link,
	bool queue_aware, bool *ret_is_last);

#endif /* LAPWING_ANALYZER_MODEL_GROUPING_H */
