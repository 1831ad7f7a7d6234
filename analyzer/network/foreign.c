/* SPDX-License-Identifier: Apache-2.0 */
/*
 * foreign.c - what others moved over a NIC in the counted steps: its counters, between two readings in proportion, less
 * the connections of the job with their headers and repeats; and whether the steps in which it was much took longer.
 *
 * In a long step an even stream of others has more bytes, and of steps shorter than some readings a long one gets more of
 * what lies beside it: both would make the long steps those of others. So steps are compared only where they are
 * of some readings, and much is much of the bytes of the step and of the rate of all of them.
 */
#include <math.h>
#include <stdlib.h>

#include "analyzer/network/network.h"

enum { LEAST_STEPS = 3 /* for a median */ };
#define MUCH_FRAC                                                                                  \
	0.25 /* of what the NIC moved one way in a step: beyond what readings in between blur */
#define FEW_FRAC 0.1 /* in a step of the rest */
#define WAY_FRAC 0.1 /* of the busier way: on one with less others are worth no word */
#define RESOLVED_FACTOR                                                                            \
	5 /* readings in a step; of shorter ones half may be what lies beside them */

struct step {
	const struct lw_step *at;
	double nic_bytes[2], job_bytes[2]; /* received, sent: as enum lw_end_way */
};

struct spacing { /* of readings that tell what moved, each by its bytes */
	double bytes, bytes_ns;
};

struct steps {
	lw_vec(struct step) of;
	double frames_frac[2];  /* headers that the NIC counted, of those of all segments */
	double bytes_per_ns[2]; /* of the NIC in all of them */
	struct spacing nic, job;
};

static double counted(const struct lw_nic_series *series, int64_t at_ns)
{
	const struct lw_reading *at = series->readings.at;
	size_t low = 0, high = series->readings.n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (at[middle].at_ns <= at_ns)
			low = middle + 1;
		else
			high = middle;
	}
	if (!low)
		return (double)at[0].value;
	if (low == series->readings.n || at[low].at_ns == at[low - 1].at_ns)
		return (double)at[low - 1].value;
	return (double)at[low - 1].value + (double)(at[low].value - at[low - 1].value) *
						   (double)(at_ns - at[low - 1].at_ns) /
						   (double)(at[low].at_ns - at[low - 1].at_ns);
}

/* Steps of the first rank that is there, while the NIC was read. */
static const struct lw_rank *rank_of(const struct lw_run *run, const struct lw_nic *nic)
{
	const struct lw_rank *rank;

	if (nic->ranks.n)
		return &run->ranks.at[nic->ranks.at[0]];
	lw_vec_foreach (rank, &run->ranks)
		if (rank->clock == nic->clock)
			return rank;
	return NULL;
}

static void add_spacing(struct spacing *spacing, double bytes, int64_t from_ns, int64_t to_ns)
{
	if (bytes > 0 && to_ns > from_ns) {
		spacing->bytes += bytes;
		spacing->bytes_ns += bytes * (double)(to_ns - from_ns);
	}
}

static int take_steps(const struct lw_rank *rank, const struct lw_nic *nic, struct steps *steps)
{
	const struct lw_nic_series *series[] = {
		lw_net_series(nic, "rx_bytes"), lw_net_series(nic, "tx_bytes")};
	double nic_bytes[2] = {0, 0}, all_ns = 0;
	const struct lw_step *step;

	lw_vec_foreach (step, &rank->steps) {
		struct step one = {.at = step};

		if (step->excluded || step->start_ns < series[1]->readings.at[0].at_ns ||
			step->end_ns > series[1]->readings.at[series[1]->readings.n - 1].at_ns)
			continue;
		for (int way = 0; way < 2; way++) {
			one.nic_bytes[way] = counted(series[way], step->end_ns) -
					     counted(series[way], step->start_ns);
			nic_bytes[way] += one.nic_bytes[way];
		}
		all_ns += (double)(step->end_ns - step->start_ns);
		if (lw_vec_push(&steps->of, one) < 0)
			return LW_ERR_NOMEM;
	}
	for (int way = 0; way < 2; way++) {
		const struct lw_reading *at = series[way]->readings.at;

		steps->bytes_per_ns[way] = nic_bytes[way] / fmax(1, all_ns);
		for (size_t i = 1; i < series[way]->readings.n; i++)
			add_spacing(&steps->nic, (double)(at[i].value - at[i - 1].value),
				at[i - 1].at_ns, at[i].at_ns);
	}
	return LW_OK;
}

/* The first step that ends after @at_ns. */
static size_t first_after(const struct steps *steps, int64_t at_ns)
{
	size_t low = 0, high = steps->of.n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (steps->of.at[middle].at->end_ns <= at_ns)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* What came in twice: what the other end sent again, on another clock as evenly as the rest. */
static double again_in_bytes(const struct lw_run *run, const struct lw_tcp_end *end,
	const struct step *step, double received_bytes)
{
	const struct lw_nic *nic = &run->nics.at[end->nic];
	const struct lw_tcp_end *peer;
	double n;

	if (end->peer_end == LW_NONE || !lw_net_is_between_ranks(end))
		return 0;
	peer = &run->ends.at[end->peer_end];
	if (run->ranks.at[end->rank].clock == run->ranks.at[end->peer_rank].clock)
		n = lw_net_n_again(peer, step->at->start_ns, step->at->end_ns);
	else
		n = lw_net_n_again(peer, INT64_MIN, INT64_MAX) * received_bytes /
		    fmax(1, lw_end_received_bytes(end));
	return n * lw_net_full_payload_bytes(nic, end);
}

static double header_bytes(const struct lw_nic *nic, const struct lw_tcp_end *end,
	enum lw_end_way way, const struct step *step, double bytes)
{
	double n = lw_net_segments(end, way, step->at->start_ns, step->at->end_ns);

	if (isnan(n))
		n = bytes / lw_net_full_payload_bytes(nic, end);
	return n * lw_net_header_bytes(end, nic->is_loopback);
}

static double spacing_ns(const struct spacing *spacing)
{
	return spacing->bytes > 0 ? spacing->bytes_ns / spacing->bytes : (double)INFINITY;
}

/* Return: the kernel's readings tell more finely than the hook's. */
static bool choose_source(const struct lw_tcp_end *end, struct spacing *job)
{
	struct spacing hooked = {0}, kernel = {0};
	bool is_kernel;

	for (size_t i = 1; i < end->curve.n; i++) {
		const struct lw_curve_point *a = &end->curve.at[i - 1], *b = a + 1;

		add_spacing(&hooked,
			(double)(b->sent_bytes - a->sent_bytes) +
				(double)(b->received_bytes - a->received_bytes),
			a->at_ns, b->at_ns);
	}
	for (size_t i = 1; i < end->tcp.n; i++) {
		const struct lw_tcp_reading *a = &end->tcp.at[i - 1], *b = a + 1;

		if (a->sent_bytes >= 0 && a->received_bytes >= 0)
			add_spacing(&kernel,
				(double)(b->sent_bytes - a->sent_bytes) +
					(double)(b->received_bytes - a->received_bytes),
				a->at_ns, b->at_ns);
	}
	is_kernel = spacing_ns(&kernel) < spacing_ns(&hooked) &&
		    !isnan(lw_net_kernel_bytes(end, LW_END_SENT, INT64_MIN, INT64_MAX)) &&
		    !isnan(lw_net_kernel_bytes(end, LW_END_RECEIVED, INT64_MIN, INT64_MAX));
	job->bytes += is_kernel ? kernel.bytes : hooked.bytes;
	job->bytes_ns += is_kernel ? kernel.bytes_ns : hooked.bytes_ns;
	return is_kernel;
}

static void add_end(const struct lw_run *run, struct steps *steps, const struct lw_tcp_end *end)
{
	const struct lw_nic *nic = &run->nics.at[end->nic];
	size_t hint[2] = {0, 0};
	bool is_kernel;

	if (!end->curve.n)
		return;
	is_kernel = choose_source(end, &steps->job);
	for (size_t i = first_after(steps, end->curve.at[0].at_ns); i < steps->of.n; i++) {
		struct step *step = &steps->of.at[i];
		int64_t from_ns = step->at->start_ns, to_ns = step->at->end_ns;

		if (from_ns >= end->curve.at[end->curve.n - 1].at_ns)
			break;
		for (int w = LW_END_RECEIVED; w <= LW_END_SENT; w++) {
			enum lw_end_way way = (enum lw_end_way)w;
			double before = lw_end_bytes(end, from_ns, way, &hint[way]);
			double bytes = lw_end_bytes(end, to_ns, way, &hint[way]) - before;

			if (way == LW_END_SENT)
				bytes += lw_net_again_bytes(end, from_ns, to_ns);
			if (is_kernel)
				bytes = lw_net_kernel_bytes(end, way, from_ns, to_ns);
			step->job_bytes[way] +=
				bytes +
				steps->frames_frac[way] * header_bytes(nic, end, way, step, bytes);
			if (way == LW_END_RECEIVED)
				step->job_bytes[way] += again_in_bytes(run, end, step, bytes);
		}
	}
}

/* Of what the NIC moves one way: of the step's bytes, or of the mean rate, whichever is less or @is_most. */
static double other_frac(const struct steps *steps, const struct step *step, int way, bool is_most)
{
	double ns = (double)(step->at->end_ns - step->at->start_ns);
	double others = step->nic_bytes[way] - step->job_bytes[way];
	double of_bytes, of_rate;

	if (!(step->nic_bytes[way] > 0) || !(ns > 0) || !(others > 0))
		return 0;
	of_bytes = others / step->nic_bytes[way];
	of_rate = others / ns / steps->bytes_per_ns[way];
	return is_most ? fmax(of_bytes, of_rate) : fmin(of_bytes, of_rate);
}

static double either_way(const struct steps *steps, const struct step *step,
	const struct lw_net_foreign *foreign, bool is_most)
{
	double frac[2] = {0, 0};

	for (int way = 0; way < 2; way++)
		if (!isnan(way == LW_END_SENT ? foreign->tx_frac : foreign->rx_frac))
			frac[way] = other_frac(steps, step, way, is_most);
	return fmax(frac[0], frac[1]);
}

/* Steps with much of it against those with little. */
static int compare(const struct steps *steps, struct lw_net_foreign *foreign)
{
	double *with_ns = calloc(2 * steps->of.n + 1, sizeof(*with_ns)), *without_ns;
	const struct step *step;

	if (!with_ns)
		return lw_fail(LW_ERR_NOMEM, "no memory");
	without_ns = with_ns + steps->of.n;
	lw_vec_foreach (step, &steps->of)
		with_ns[step - steps->of.at] = (double)(step->at->end_ns - step->at->start_ns);
	foreign->is_resolved =
		lw_net_median(with_ns, steps->of.n) >= RESOLVED_FACTOR * foreign->resolution_ns;
	lw_vec_foreach (step, &steps->of) {
		double step_ns = (double)(step->at->end_ns - step->at->start_ns);

		if (!foreign->is_resolved)
			break;
		if (either_way(steps, step, foreign, false) >= MUCH_FRAC)
			with_ns[foreign->n_with++] = step_ns;
		else if (either_way(steps, step, foreign, true) < FEW_FRAC)
			without_ns[foreign->n_without++] = step_ns;
	}
	if (foreign->n_with >= LEAST_STEPS && foreign->n_without >= LEAST_STEPS) {
		foreign->with_ns = lw_net_median(with_ns, foreign->n_with);
		foreign->without_ns = lw_net_median(without_ns, foreign->n_without);
	}
	if (fmin(foreign->with_ns, foreign->without_ns) <
		RESOLVED_FACTOR * foreign->resolution_ns) {
		foreign->is_resolved = false;
		foreign->with_ns = foreign->without_ns = NAN;
		foreign->n_with = foreign->n_without = 0;
	}
	free(with_ns);
	return LW_OK;
}

/* What the frames of the NIC leave of the headers of the job's segments (account.c). */
static void find_frames(const struct lw_run *run, const struct lw_net_on_nics *on,
	const struct lw_net_account *account, struct steps *steps)
{
	const double counted_bytes[2] = {account->header_rx_bytes, account->header_tx_bytes};
	double all_bytes[2] = {0, 0};

	for (size_t i = on->first[account->nic]; i < on->first[account->nic + 1]; i++)
		for (int way = LW_END_RECEIVED; way <= LW_END_SENT; way++) {
			const struct lw_tcp_end *end = &run->ends.at[on->ends[i]];

			if (end->process_id)
				all_bytes[way] += lw_net_account_header_bytes(
					&run->nics.at[account->nic], end, (enum lw_end_way)way);
		}
	for (int way = 0; way < 2; way++)
		steps->frames_frac[way] = fmin(1, counted_bytes[way] / fmax(1, all_bytes[way]));
}

int lw_net_find_foreign(
	const struct lw_run *run, const struct lw_net_on_nics *on, struct lw_net_account *account)
{
	const struct lw_nic *nic = &run->nics.at[account->nic];
	const struct lw_rank *rank = rank_of(run, nic);
	double nic_bytes[2] = {0, 0}, other_bytes[2] = {0, 0};
	struct steps steps = {0};
	const struct step *step;
	int status = rank ? take_steps(rank, nic, &steps) : LW_OK;

	if (!steps.of.n)
		return status;
	find_frames(run, on, account, &steps);
	for (size_t i = on->first[account->nic]; i < on->first[account->nic + 1]; i++)
		if (run->ends.at[on->ends[i]].process_id)
			add_end(run, &steps, &run->ends.at[on->ends[i]]);
	lw_vec_foreach (step, &steps.of)
		for (int way = 0; way < 2; way++) {
			nic_bytes[way] += step->nic_bytes[way];
			other_bytes[way] += step->nic_bytes[way] - step->job_bytes[way];
		}
	account->other_step_bytes =
		(fmax(0, other_bytes[0]) + fmax(0, other_bytes[1])) / (double)steps.of.n;
	if (nic->ranks.n && status == LW_OK) {
		double least_bytes = WAY_FRAC * fmax(nic_bytes[0], nic_bytes[1]);

		if (nic_bytes[0] > 0 && nic_bytes[0] >= least_bytes)
			account->foreign.rx_frac = fmax(0, other_bytes[0]) / nic_bytes[0];
		if (nic_bytes[1] > 0 && nic_bytes[1] >= least_bytes)
			account->foreign.tx_frac = fmax(0, other_bytes[1]) / nic_bytes[1];
		account->foreign.resolution_ns = spacing_ns(&steps.nic); /* it moved something */
		if (steps.job.bytes > 0)
			account->foreign.resolution_ns =
				fmax(account->foreign.resolution_ns, spacing_ns(&steps.job));
		status = compare(&steps, &account->foreign);
	}
	lw_vec_free(&steps.of);
	return status;
}
