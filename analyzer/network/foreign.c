/* SPDX-License-Identifier: Apache-2.0 */
/*
 * foreign.c - what others moved over a NIC in the counted steps: its counters, between two readings in proportion, less
 * the connections of the job with their headers; and whether the steps in which it was much took longer.
 */
#include <math.h>
#include <stdlib.h>

#include "analyzer/network/network.h"

enum { LEAST_STEPS = 3 /* for a median */ };
#define MUCH_FRAC                                                                                  \
	0.25 /* of what the NIC moved one way in a step: beyond what readings in between blur */
#define FEW_FRAC 0.1 /* in a step of the rest */

struct step {
	const struct lw_step *at;
	double nic_bytes[2], job_bytes[2]; /* received, sent: as enum lw_end_way */
};

struct steps {
	lw_vec(struct step) of;
	double headers_frac[2]; /* of the job's payload */
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

static int take_steps(const struct lw_rank *rank, const struct lw_nic *nic, struct steps *steps)
{
	const struct lw_nic_series *series[] = {
		lw_net_series(nic, "rx_bytes"), lw_net_series(nic, "tx_bytes")};
	const struct lw_step *step;

	lw_vec_foreach (step, &rank->steps) {
		struct step one = {.at = step};

		if (step->excluded || step->start_ns < series[1]->readings.at[0].at_ns ||
			step->end_ns > series[1]->readings.at[series[1]->readings.n - 1].at_ns)
			continue;
		for (int way = 0; way < 2; way++)
			one.nic_bytes[way] = counted(series[way], step->end_ns) -
					     counted(series[way], step->start_ns);
		if (lw_vec_push(&steps->of, one) < 0)
			return LW_ERR_NOMEM;
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

static void add_end(struct steps *steps, const struct lw_tcp_end *end)
{
	int64_t last_ns = end->curve.n ? end->curve.at[end->curve.n - 1].at_ns : 0;
	size_t hint[2] = {0, 0};

	if (!end->curve.n)
		return;
	for (size_t i = first_after(steps, end->curve.at[0].at_ns);
		i < steps->of.n && steps->of.at[i].at->start_ns < last_ns; i++)
		for (int way = LW_END_RECEIVED; way <= LW_END_SENT; way++) {
			struct step *step = &steps->of.at[i];
			double before = lw_end_bytes(
				end, step->at->start_ns, (enum lw_end_way)way, &hint[way]);

			step->job_bytes[way] += (1 + steps->headers_frac[way]) *
						(lw_end_bytes(end, step->at->end_ns,
							 (enum lw_end_way)way, &hint[way]) -
							before);
		}
}

static double other_frac(const struct step *step, int way)
{
	return step->nic_bytes[way] > 0 ? 1 - step->job_bytes[way] / step->nic_bytes[way] : 0;
}

/* Steps with much of it against those with little. */
static int compare(const struct steps *steps, struct lw_net_foreign *foreign)
{
	double *with_ns = calloc(2 * steps->of.n + 1, sizeof(*with_ns));
	double *without_ns = with_ns + steps->of.n;
	const struct step *step;

	if (!with_ns)
		return lw_fail(LW_ERR_NOMEM, "no memory");
	lw_vec_foreach (step, &steps->of) {
		double frac =
			fmax(other_frac(step, LW_END_SENT), other_frac(step, LW_END_RECEIVED));
		double step_ns = (double)(step->at->end_ns - step->at->start_ns);

		if (frac >= MUCH_FRAC)
			with_ns[foreign->n_with++] = step_ns;
		else if (frac < FEW_FRAC)
			without_ns[foreign->n_without++] = step_ns;
	}
	if (foreign->n_with >= LEAST_STEPS && foreign->n_without >= LEAST_STEPS) {
		foreign->with_ns = lw_net_median(with_ns, foreign->n_with);
		foreign->without_ns = lw_net_median(without_ns, foreign->n_without);
	}
	free(with_ns);
	return LW_OK;
}

int lw_net_find_foreign(
	const struct lw_run *run, const struct lw_net_on_nics *on, struct lw_net_account *account)
{
	const struct lw_nic *nic = &run->nics.at[account->nic];
	const struct lw_rank *rank = rank_of(run, nic);
	double nic_bytes[2] = {0, 0}, other_bytes[2] = {0, 0};
	struct steps steps = {
		.headers_frac = {account->header_rx_bytes / fmax(1, account->job_rx_bytes),
			account->header_tx_bytes / fmax(1, account->job_tx_bytes)}};
	const struct step *step;
	int status = rank ? take_steps(rank, nic, &steps) : LW_OK;

	if (!steps.of.n)
		return status;
	for (size_t i = on->first[account->nic]; i < on->first[account->nic + 1]; i++)
		if (run->ends.at[on->ends[i]].process_id)
			add_end(&steps, &run->ends.at[on->ends[i]]);
	lw_vec_foreach (step, &steps.of)
		for (int way = 0; way < 2; way++) {
			nic_bytes[way] += step->nic_bytes[way];
			other_bytes[way] += step->nic_bytes[way] - step->job_bytes[way];
		}
	account->other_step_bytes =
		(fmax(0, other_bytes[0]) + fmax(0, other_bytes[1])) / (double)steps.of.n;
	if (nic->ranks.n && status == LW_OK) {
		account->foreign.rx_frac = fmax(0, other_bytes[0]) / fmax(1, nic_bytes[0]);
		account->foreign.tx_frac = fmax(0, other_bytes[1]) / fmax(1, nic_bytes[1]);
		status = compare(&steps, &account->foreign);
	}
	lw_vec_free(&steps.of);
	return status;
}
