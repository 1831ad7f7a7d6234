/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/simulate/closed.h"

#include <math.h>
#include <stdlib.h>

#include "analyzer/model/fusion.h"
#include "analyzer/model/osf.h"

struct point { /* one tensor of the mean step */
	double ready_ns, bytes;
};

static double link_ns(double bytes, const void *wire)
{
	return bytes > 0 ? lw_wire_mean_ns(wire, (uint64_t)bytes, 0) : 0;
}

static int by_ready(const void *a, const void *b)
{
	const struct point *x = a, *y = b;

	return (x->ready_ns > y->ready_ns) - (x->ready_ns < y->ready_ns);
}

/* Mean ready times over steps, the last rank's of each step. Return: tensors; @ret_compute_ns. */
static size_t mean_step(
	const struct lw_replay *replay, double frac, struct point *points, double *ret_compute_ns)
{
	const struct lw_hvd_input *input = &replay->input;
	size_t n = 0, n_rows = (size_t)(input->n_steps - 1) * input->n_ranks;
	double compute_ns = 0;

	for (size_t row = input->n_ranks; row < n_rows + input->n_ranks; row++)
		compute_ns += (double)(input->blocked_ns[row] + input->tail_ns[row]);
	for (uint32_t t = 0; t < input->n_tensors; t++) {
		double sum_ns = 0;
		uint32_t n_steps = 0;

		for (uint32_t s = 1; s < input->n_steps; s++) {
			int64_t last_ns = LW_HVD_NOT_IN_STEP;

			for (uint32_t r = 0; r < input->n_ranks; r++) {
				size_t row = (size_t)s * input->n_ranks + r;
				int64_t at_ns = input->ready_ns[row * input->n_tensors + t];

				last_ns = at_ns > last_ns ? at_ns : last_ns;
			}
			if (last_ns < 0)
				continue;
			sum_ns += (double)last_ns;
			n_steps++;
		}
		if (n_steps * 2 <= input->n_steps - 1) /* not of the usual step */
			continue;
		points[n++] =
			(struct point){frac * sum_ns / n_steps, (double)input->tensors[t].bytes};
	}
	qsort(points, n, sizeof(*points), by_ready);
	*ret_compute_ns = frac * compute_ns / (double)n_rows;
	return n;
}

static double fused_update_ns(const struct lw_layer *layers, size_t n, double fusion_bytes,
	double timeout_ns, struct lw_link link, enum lw_osf_variant variant,
	struct lw_fusion_slot *slots)
{
	lw_fusion_plan(layers, n, fusion_bytes, timeout_ns, variant, slots);
	return lw_fusion_update_ns(layers, slots, n, link, variant);
}

int lw_closed_predict(const struct lw_replay *replay, const struct lw_whatif *whatif,
	enum lw_closed_model model, struct lw_closed *ret_closed)
{
	size_t n_tensors = replay->input.n_tensors, n;
	struct point *points = calloc(n_tensors, sizeof(*points));
	struct lw_layer *layers = calloc(n_tensors, sizeof(*layers));
	struct lw_fusion_slot *slots = calloc(n_tensors, sizeof(*slots));
	double fusion_bytes = isfinite(whatif->fusion_bytes) ? whatif->fusion_bytes
							     : (double)replay->setting.fusion_bytes;
	double timeout_ns =
		isfinite(whatif->cycle_ns) ? whatif->cycle_ns : (double)replay->setting.cycle_ns;
	double compute_ns, overlap_ns, comm_ns, fifo_ns, update_ns = 0;
	struct lw_wire wire = replay->wire;
	struct lw_link link = {link_ns, &wire};
	int status = lw_replay_scale(replay, whatif, &wire.scale);

	if (status == LW_OK && (!points || !layers || !slots))
		status = lw_fail(LW_ERR_NOMEM, "no memory for %zu layers", n_tensors);
	if (status < 0)
		goto done;
	n = mean_step(replay, whatif->compute_frac, points, &compute_ns);
	for (size_t i = 0; i < n; i++)
		layers[i] = (struct lw_layer){
			points[i].bytes, points[i].ready_ns - (i ? points[i - 1].ready_ns : 0)};
	overlap_ns = lw_layers_overlap_ns(layers, n);
	comm_ns = lw_link_ns(link, lw_layers_bytes(layers, n));
	fifo_ns = fused_update_ns(layers, n, fusion_bytes, timeout_ns, link, LW_OSF_FIFO, slots);
	ret_closed->csf = lw_csf(compute_ns, comm_ns);
	ret_closed->osf = lw_osf(compute_ns, lw_layers_update_ns(layers, n, link), overlap_ns);
	ret_closed->osf_f = lw_osf(compute_ns, fifo_ns, overlap_ns);
	switch (model) {
	case LW_CLOSED_CSF:
		update_ns = comm_ns + overlap_ns;
		break;
	case LW_CLOSED_OSF_PAPER:
		update_ns = fused_update_ns(
			layers, n, fusion_bytes, timeout_ns, link, LW_OSF_PAPER, slots);
		break;
	case LW_CLOSED_OSF_FIFO:
		update_ns = fifo_ns;
		break;
	}
	/* eq. 3 to a time: what does not overlap comes on top of compute */
	ret_closed->step_ns = compute_ns + fmax(update_ns - overlap_ns, 0);
done:
	free(points);
	free(layers);
	free(slots);
	return status;
}
