/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/model/grouping.h"

#include <math.h>
#include <stdlib.h>

#include "base/err.h"

double lw_group_update_ns(
	const struct lw_layer *layers, size_t n, struct lw_link link, const bool *is_last)
{
	double done_ns = 0, end_ns = 0, bytes = 0;

	for (size_t i = 0; i < n; i++) {
		if (i > 0)
			done_ns += layers[i].backward_ns;
		bytes += layers[i].bytes;
		if (!is_last[i])
			continue;
		end_ns = fmax(end_ns, done_ns) + lw_link_ns(link, bytes);
		bytes = 0;
	}
	return end_ns;
}

double lw_group_tick_update_ns(const struct lw_layer *layers, size_t n, struct lw_link link,
	const bool *is_last, double cycle_ns, double phase_ns)
{
	double done_ns = 0, round_ns = phase_ns, end_ns = 0, bytes = 0;

	if (cycle_ns <= 0)
		return lw_group_update_ns(layers, n, link, is_last);
	for (size_t i = 0; i < n; i++) {
		if (i > 0)
			done_ns += layers[i].backward_ns;
		bytes += layers[i].bytes;
		if (!is_last[i])
			continue;
		if (done_ns >
			round_ns) { /* not in this round: the next, which may be late, or later ones */
			round_ns = fmax(round_ns + cycle_ns, end_ns);
			if (done_ns > round_ns)
				round_ns += ceil((done_ns - round_ns) / cycle_ns) * cycle_ns;
		}
		end_ns = fmax(end_ns, round_ns) + lw_link_ns(link, bytes);
		bytes = 0;
	}
	return end_ns;
}

void lw_group_contiguous(size_t n, size_t n_groups, bool *ret_is_last)
{
	size_t length = n / n_groups, n_longer = n % n_groups, at = 0;

	for (size_t i = 0; i < n; i++)
		ret_is_last[i] = false;
	for (size_t g = 0; g < n_groups && at < n; g++) { /* from the end of the model on */
		at += length + (g >= n_groups - n_longer);
		if (at > 0)
			ret_is_last[at - 1] = true;
	}
}

size_t lw_group_n_ops(const bool *is_last, size_t n)
{
	size_t n_ops = 0;

	for (size_t i = 0; i < n; i++)
		n_ops += is_last[i];
	return n_ops;
}

int lw_group_optimal(const struct lw_layer *layers, size_t n, double cap_bytes, struct lw_link link,
	bool *ret_is_last)
{
	/* best_ns[i]: least end of the first i layers; first[i]: where the last group of them begins */
	double *best_ns = calloc(n + 1, sizeof(*best_ns));
	size_t *first = calloc(n + 1, sizeof(*first));
	double done_ns = 0;

	if (!best_ns || !first) {
		free(best_ns);
		free(first);
		return lw_fail(LW_ERR_NOMEM, "no memory to group %zu layers", n);
	}
	for (size_t i = 0; i < n; i++) {
		double bytes = 0;

		if (i > 0)
			done_ns += layers[i].backward_ns;
		best_ns[i + 1] = INFINITY;
		for (size_t j = i + 1; j-- > 0;) {
			double end_ns;

			bytes += layers[j].bytes;
			if (j < i && bytes > cap_bytes)
				break;
			end_ns = fmax(best_ns[j], done_ns) + lw_link_ns(link, bytes);
			if (end_ns < best_ns[i + 1]) {
				best_ns[i + 1] = end_ns;
				first[i + 1] = j;
			}
		}
	}
	for (size_t i = 0; i < n; i++)
		ret_is_last[i] = false;
	for (size_t i = n; i > 0; i = first[i])
		ret_is_last[i - 1] = true;
	free(best_ns);
	free(first);
	return LW_OK;
}

void lw_group_mgwfbp(
	const struct lw_layer *layers, size_t n, struct lw_link link, bool *ret_is_last)
{
	double done_ns = 0, free_ns = 0, bytes = 0;

	for (size_t i = 0; i < n; i++) {
		double start_ns, end_ns, ready_ns, shared_ns;

		if (i > 0)
			done_ns += layers[i].backward_ns;
		bytes += layers[i].bytes;
		ret_is_last[i] = true;
		if (i + 1 == n)
			break;
		start_ns = fmax(free_ns, done_ns);              /* tau_c(l) */
		end_ns = start_ns + lw_link_ns(link, bytes);    /* tau_c(l) + t_c(l) */
		ready_ns = done_ns + layers[i + 1].backward_ns; /* r */
		shared_ns = lw_link_ns(link, bytes) + lw_link_ns(link, layers[i + 1].bytes) -
			    lw_link_ns(link, bytes + layers[i + 1].bytes);
		if (ready_ns < end_ns && (start_ns > ready_ns || ready_ns - start_ns < shared_ns)) {
			ret_is_last[i] = false;
			continue;
		}
		free_ns = end_ns;
		bytes = 0;
	}
}

void lw_group_adafusion(const struct lw_layer *layers, size_t n, struct lw_link link,
	bool queue_aware, bool *ret_is_last)
{
	double done_ns = 0, free_ns = 0, buffered_bytes = 0;

	for (size_t i = 0; i < n; i++) {
		double alone_ns, fused_ns, wait_ns;

		buffered_bytes += layers[i].bytes;
		ret_is_last[i] = true;
		if (i + 1 == n)
			break;
		wait_ns = layers[i + 1].backward_ns;
		if (queue_aware)
			wait_ns = fmax(0, done_ns + wait_ns - fmax(free_ns, done_ns));
		alone_ns = lw_link_ns(link, buffered_bytes) + lw_link_ns(link, layers[i + 1].bytes);
		fused_ns = lw_link_ns(link, buffered_bytes + layers[i + 1].bytes);
		if (fused_ns + wait_ns < alone_ns) {
			ret_is_last[i] = false;
		} else {
			free_ns = fmax(free_ns, done_ns) + lw_link_ns(link, buffered_bytes);
			buffered_bytes = 0;
		}
		done_ns += layers[i + 1].backward_ns;
	}
}
