/* SPDX-License-Identifier: Apache-2.0 */
#include "tui/prepare.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "tui/batch_rows.h"
#include "tui/connections.h"
#include "tui/timeline_lanes.h"

static void *make_lanes(struct lw_run *run)
{
	struct lw_lanes *lanes = calloc(1, sizeof(*lanes));

	if (lanes && run->ranks.n && lw_lanes_init(lanes, run) == LW_OK)
		return lanes;
	if (lanes)
		lw_lanes_done(lanes);
	free(lanes);
	return NULL;
}

static void free_lanes(void *made)
{
	lw_lanes_done(made);
	free(made);
}

static void *make_tensors(struct lw_run *run)
{
	struct lw_tensor_stats *stats = NULL;

	return lw_tensor_stats_make(run, &stats) == LW_OK ? stats : NULL;
}

static void *make_batches(struct lw_run *run)
{
	struct lw_batch_list *list = calloc(1, sizeof(*list));

	if (list && lw_batch_rows_make(run, LW_NONE, &list->at, &list->n) == LW_OK)
		return list;
	free(list);
	return NULL;
}

static void free_batches(void *made)
{
	struct lw_batch_list *list = made;

	free(list->at);
	free(list);
}

static void *make_connections(struct lw_run *run)
{
	struct lw_connections *connections = calloc(1, sizeof(*connections));

	if (connections && lw_connections_load(run, connections) == LW_OK)
		return connections;
	free(connections);
	return NULL;
}

static void free_connections(void *made)
{
	struct lw_connections *connections = made;

	lw_vec_free(connections);
	free(connections);
}

static const struct {
	const char *stage;
	void *(*make)(struct lw_run *run);
	void (*free)(void *made);
} kinds[LW_PREPARED_COUNT] = {
	[LW_PREPARED_LANES] = {"preparing the timeline (view 1 of 3)", make_lanes, free_lanes},
	[LW_PREPARED_TENSORS] = {"preparing tensors (view 2 of 3)", make_tensors, free},
	[LW_PREPARED_BATCHES] = {"preparing batches (view 2 of 3)", make_batches, free_batches},
	[LW_PREPARED_CONNECTIONS] = {"preparing the network (view 3 of 3)", make_connections,
		free_connections},
};

void lw_prepare(
	struct lw_run *run, struct lw_prepared *prepared, void (*progress)(const char *stage))
{
	for (int i = 0; i < LW_PREPARED_COUNT; i++) {
		progress(kinds[i].stage);
		prepared->of[i] = kinds[i].make(run);
	}
	lw_error_clear(); /* the view that makes it itself says why it cannot */
}

void *lw_prepared_take(struct lw_prepared *prepared, enum lw_prepared_kind kind)
{
	void *made = prepared->of[kind];

	prepared->of[kind] = NULL;
	return made;
}

int lw_prepared_tensors(
	struct lw_prepared *prepared, struct lw_run *run, struct lw_tensor_stats **ret_stats)
{
	size_t n_bytes = (run->tensors.n + 1) * sizeof(**ret_stats);
	struct lw_tensor_stats *made = prepared->of[LW_PREPARED_TENSORS];
	int status = made ? LW_OK : lw_tensor_stats_make(run, &made);

	if (status < 0)
		return status;
	prepared->of[LW_PREPARED_TENSORS] = made;
	*ret_stats = malloc(n_bytes);
	if (!*ret_stats)
		return lw_fail(LW_ERR_NOMEM, "no memory for %zu tensors", run->tensors.n);
	memcpy(*ret_stats, made, n_bytes);
	return LW_OK;
}

void lw_prepared_done(struct lw_prepared *prepared)
{
	for (int i = 0; i < LW_PREPARED_COUNT; i++)
		if (prepared->of[i])
			kinds[i].free(lw_prepared_take(prepared, i));
}
