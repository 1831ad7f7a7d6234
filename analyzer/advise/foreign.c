/* SPDX-License-Identifier: Apache-2.0 */
/*
 * foreign.c - others' traffic on a NIC that a rank uses, while it trains: how much it was, who is known of them, and how
 * long the steps with and without it took. A statement of what was measured; it has no gain.
 */
#include <math.h>
#include <stdio.h>

#include "analyzer/advise/trial.h"
#include "base/units.h"

#define GOOD_PART   0.1  /* of what the NIC moved one way in the counted steps */
#define LONGER_FRAC 0.05 /* of a step: beyond that the steps with it took longer */

enum { LEAST_STEP_BYTES = 65536 };

static double part_of(const struct lw_net_account *account)
{
	return fmax(account->foreign.tx_frac,
		account->foreign.rx_frac); /* fmax() takes what is known */
}

static const struct lw_net_account *find_worst(const struct lw_run *run, size_t *ret_n)
{
	const struct lw_net_account *account, *worst = NULL;

	*ret_n = 0;
	lw_vec_foreach (account, &run->network.accounts) {
		if (!(part_of(account) >= GOOD_PART) ||
			account->other_step_bytes < LEAST_STEP_BYTES)
			continue;
		++*ret_n;
		if (!worst || account->other_step_bytes > worst->other_step_bytes)
			worst = account;
	}
	return worst;
}

/* Who: the most of them, where that is a connection that was seen. */
static void who_text(
	const struct lw_run *run, const struct lw_net_account *account, char *text, size_t n)
{
	const struct lw_net_candidate *one;
	char unit[LW_UNIT_TEXT_BYTES], unseen[LW_UNSEEN_TEXT_BYTES];

	lw_vec_foreach (one, &account->candidates) {
		if (one->is_job || one->is_others || one->bytes < account->unseen_bytes)
			continue;
		snprintf(text, n, "most of it is %s", one->text);
		return;
	}
	snprintf(text, n, "over the run %s was on no TCP connection that was seen: %s",
		lw_bytes_format(account->unseen_bytes, unit), lw_net_unseen_text(run, unseen));
}

static void cost_text(const struct lw_net_foreign *foreign, char *text, size_t n)
{
	char unit[2][LW_UNIT_TEXT_BYTES];

	if (!foreign->is_resolved)
		snprintf(text, n,
			"what that cost cannot be told: what moved was read every %s, and steps are too short for that (`record --sample-ms`)",
			lw_ns_exact(foreign->resolution_ns, unit[0]));
	else if (isnan(foreign->with_ns))
		snprintf(text, n,
			"what that cost cannot be told: %u steps had much of it, %u little",
			foreign->n_with, foreign->n_without);
	else if (foreign->with_ns > (1 + LONGER_FRAC) * foreign->without_ns)
		snprintf(text, n, "%u steps with much of it took %s, %u with little %s (medians)",
			foreign->n_with, lw_ns_format(foreign->with_ns, unit[0]),
			foreign->n_without, lw_ns_format(foreign->without_ns, unit[1]));
	else
		snprintf(text, n,
			"the %u steps with much of it took no longer than the %u with little",
			foreign->n_with, foreign->n_without);
}

static int advise_foreign(
	const struct lw_adviser *self, struct lw_run *run, struct lw_advice_list *list)
{
	size_t n;
	const struct lw_net_account *account = find_worst(run, &n);
	char owner[LW_OWNER_TEXT_BYTES], who[300], cost[200], more[80] = "",
							      unit[LW_UNIT_TEXT_BYTES];
	const struct lw_nic *nic;
	bool is_out;

	if (!account)
		return LW_OK;
	nic = &run->nics.at[account->nic];
	is_out = !(account->foreign.tx_frac < account->foreign.rx_frac);
	who_text(run, account, who, sizeof(who));
	cost_text(&account->foreign, cost, sizeof(cost));
	if (n > 1)
		snprintf(more, sizeof(more), "; so have %zu other NICs of ranks, see the report",
			n - 1);
	return lw_advise_find(list, self->id,
		"%.0f %% of what %s (%s) %s during the steps is not the job's, %s a step in all; %s; %s%s",
		100 * part_of(account), nic->name, lw_nic_owner_text(run, nic, owner),
		is_out ? "sent" : "received", lw_bytes_format(account->other_step_bytes, unit), who,
		cost, more);
}

const struct lw_adviser lw_adviser_foreign = {
	.id = "network.foreign",
	.title = "Others' traffic on a rank's NIC",
	.run = advise_foreign,
	.needs_no_replay = true,
	.assumes =
		"What the NIC counted and no connection of a recorded process accounts for is others'; between two readings it moved evenly.",
	.wrong_if =
		"A process of the job was not recorded (an input pipeline, a store): then it is the job's own.",
	.check =
		"Move or stop it for some steps, or give the job another NIC, and compare the steps.",
};
