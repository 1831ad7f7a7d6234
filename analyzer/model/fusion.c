/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/model/fusion.h"

#include <math.h>
#include <stdbool.h>

void lw_fusion_plan(const struct lw_layer *layers, size_t n, double fusion_bytes, double timeout_ns,
	enum lw_osf_variant variant, struct lw_fusion_slot *ret_slots)
{
	double buffered_bytes = 0;

	for (size_t i = 0; i < n; i++) {
		struct lw_fusion_slot *slot = &ret_slots[i];
		bool is_last = i + 1 == n;
		double next_ns = is_last ? 0 : layers[i + 1].backward_ns;
		bool times_out = !is_last && next_ns > timeout_ns;
		bool is_full;

		/* Eq. 12: the buffer was emptied after i - 1 exactly when that slot sent. */
		buffered_bytes += layers[i].bytes;
		is_full = !is_last && buffered_bytes + layers[i + 1].bytes > fusion_bytes;
		*slot = (struct lw_fusion_slot){.buffered_bytes = buffered_bytes};
		if (!is_last && !times_out && !is_full)
			continue;
		slot->sent_bytes = buffered_bytes;                              /* eq. 13 */
		slot->wait_ns = times_out ? timeout_ns : is_full ? next_ns : 0; /* eq. 14 */
		if (variant == LW_OSF_FIFO && buffered_bytes >= fusion_bytes)
			slot->wait_ns = 0;
		buffered_bytes = 0;
	}
}

/* Eq. 15 and 16: t_wait is added to the end of the operation before, busy or not. */
static double paper_update_ns(const struct lw_layer *layers, const struct lw_fusion_slot *slots,
	size_t n, struct lw_link link)
{
	double done_ns = 0, tau_ns = 0;

	for (size_t i = 1; i < n; i++) {
		const struct lw_fusion_slot *before = &slots[i - 1];

		done_ns += layers[i].backward_ns;
		tau_ns = fmax(
			tau_ns + before->wait_ns + lw_link_ns(link, before->sent_bytes), done_ns);
	}
	return n ? tau_ns + lw_link_ns(link, slots[n - 1].sent_bytes) : 0;
}

static double fifo_update_ns(const struct lw_layer *layers, const struct lw_fusion_slot *slots,
	size_t n, struct lw_link link)
{
	double done_ns = 0, end_ns = 0;

	for (size_t i = 0; i < n; i++) {
		bool is_last = i + 1 == n;

		if (i > 0)
			done_ns += layers[i].backward_ns;
		/* Nothing to send (F = 0) still cannot end before the last backward pass. */
		if (slots[i].sent_bytes > 0 || is_last)
			end_ns = fmax(end_ns, done_ns + slots[i].wait_ns) +
				 lw_link_ns(link, slots[i].sent_bytes);
	}
	return end_ns;
}

double lw_fusion_update_ns(const struct lw_layer *layers, const struct lw_fusion_slot *slots,
	size_t n, struct lw_link link, enum lw_osf_variant variant)
{
	return variant == LW_OSF_PAPER ? paper_update_ns(layers, slots, n, link)
				       : fifo_update_ns(layers, slots, n, link);
}

size_t lw_fusion_n_ops(const struct lw_fusion_slot *slots, size_t n)
{
	size_t n_ops = 0;

	for (size_t i = 0; i < n; i++)
		n_ops += slots[i].sent_bytes > 0;
	return n_ops;
}
