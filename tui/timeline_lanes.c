/* SPDX-License-Identifier: Apache-2.0 */
#include "tui/timeline_lanes.h"

#include <string.h>

static void free_tracks(struct lw_tracks *tracks)
{
	for (size_t i = 0; i < LW_TRACKS; i++)
		lw_vec_free(&tracks->of[i].stretches);
}

static int add_set(
	struct lw_track *track, const struct lw_intervals *set, int64_t from_ns, int64_t to_ns)
{
	int status = LW_OK;

	for (size_t i = 0; i < set->n && status == LW_OK; i++) {
		int64_t start_ns = set->at[i].start_ns, end_ns = set->at[i].end_ns;

		status = lw_track_add(track, start_ns > from_ns ? start_ns : from_ns,
			end_ns < to_ns ? end_ns : to_ns);
	}
	return status;
}

/* What was collected last, within [from, to). */
static int add_phases(
	struct lw_tracks *tracks, const struct lw_phases *phases, int64_t from_ns, int64_t to_ns)
{
	const struct lw_intervals *sets[] = {[LW_LANE_NEGOTIATE] = &phases->negotiate,
		[LW_LANE_WAIT] = &phases->wait,
		[LW_LANE_ALLREDUCE] = &phases->allreduce,
		[LW_LANE_MISC] = &phases->misc};
	int status = LW_OK;

	for (size_t i = LW_LANE_NEGOTIATE; i < LW_TRACKS && status == LW_OK; i++)
		status = add_set(&tracks->of[i], sets[i], from_ns, to_ns);
	return status;
}

/* ---- ranks -------------------------------------------------------------------------------------- */

static int add_step(
	struct lw_lanes *lanes, size_t r, size_t s, bool has_waits, struct lw_intervals *blocked)
{
	const struct lw_step *step = &lanes->run->ranks.at[r].steps.at[s];
	struct lw_rank_lanes *rank = &lanes->ranks[r];
	struct lw_track *compute = &rank->tracks.of[LW_LANE_COMPUTE];
	int64_t at_ns = step->start_ns;
	int status, known;

	if (!step->n_batches)
		return LW_OK;
	status = lw_phases_collect(&lanes->phases, r, s);
	if (status == LW_OK)
		status = add_phases(&rank->tracks, &lanes->phases, step->start_ns, step->end_ns);
	known = lw_blocked_collect(lanes->run, r, s, has_waits, blocked);
	if (status < 0 || known < 0)
		return LW_ERR_NOMEM;
	if (known == LW_BLOCKED_UNKNOWN) {
		rank->is_waited = LW_BLOCKED_UNKNOWN;
		return LW_OK;
	}
	if (known == LW_BLOCKED_ASSUMED && rank->is_waited == LW_BLOCKED_KNOWN)
		rank->is_waited = LW_BLOCKED_ASSUMED;
	for (size_t i = 0; i < blocked->n && status == LW_OK; i++) {
		status = lw_track_add(compute, at_ns, blocked->at[i].start_ns);
		at_ns = blocked->at[i].end_ns;
	}
	return status == LW_OK ? lw_track_add(compute, at_ns, step->end_ns) : status;
}

/* Kernels tell when a rank computed outside of steps, too. */
static int compute_by_kernels(struct lw_lanes *lanes, size_t r)
{
	struct lw_track *compute = &lanes->ranks[r].tracks.of[LW_LANE_COMPUTE];

	lw_vec_free(&compute->stretches);
	compute->total_ns = 0;
	lanes->ranks[r].is_waited = LW_BLOCKED_KNOWN;
	return lw_track_append(compute, &lanes->gpu.ranks[r].all.of[LW_GPU_COMPUTE]);
}

/* Operations that belong to no step, such as the first broadcasts: what of them lies in [from, to). */
static int add_outside(struct lw_lanes *lanes, size_t r, int64_t from_ns, int64_t to_ns)
{
	const struct lw_rank *rank = &lanes->run->ranks.at[r];
	struct lw_phases *phases = &lanes->phases;
	struct lw_intervals sets[LW_TRACKS] = {0},
			    *collected[] = {NULL, &phases->negotiate, &phases->wait,
				    &phases->allreduce, &phases->misc};
	const struct lw_batch *batch;
	int status = LW_OK;

	lw_vec_foreach (batch, &rank->batches) {
		if (batch->step != LW_NONE || batch->group == LW_NONE || batch->start_ns >= to_ns ||
			batch->end_ns <= from_ns)
			continue;
		status |= lw_phases_collect_members(phases, r, batch, 0, batch->n_members);
		for (size_t k = LW_LANE_NEGOTIATE; k < LW_TRACKS; k++)
			for (size_t i = 0; i < collected[k]->n; i++)
				status |= lw_intervals_add(&sets[k], collected[k]->at[i].start_ns,
					collected[k]->at[i].end_ns);
	}
	for (size_t k = LW_LANE_NEGOTIATE; k < LW_TRACKS; k++) {
		lw_intervals_unite(&sets[k], 0);
		status |= add_set(&lanes->ranks[r].tracks.of[k], &sets[k], from_ns, to_ns);
		lw_vec_free(&sets[k]);
	}
	return status ? LW_ERR_NOMEM : LW_OK;
}

static int add_rank(struct lw_lanes *lanes, size_t r, bool has_waits, struct lw_intervals *blocked)
{
	const struct lw_rank *rank = &lanes->run->ranks.at[r];
	struct lw_rank_lanes *own = &lanes->ranks[r];
	int64_t first_ns = INT64_MAX, end_ns = INT64_MAX, reach_ns = INT64_MIN;
	int status;

	if (rank->steps.n) {
		first_ns = rank->steps.at[0].start_ns;
		end_ns = rank->steps.at[rank->steps.n - 1].end_ns;
	}
	own->is_waited = rank->steps.n ? LW_BLOCKED_KNOWN : LW_BLOCKED_UNKNOWN;
	own->reach_ns = malloc((rank->batches.n + 1) * sizeof(*own->reach_ns));
	if (!own->reach_ns)
		return lw_fail(LW_ERR_NOMEM, "no memory");
	for (size_t b = 0; b < rank->batches.n; b++) {
		if (rank->batches.at[b].end_ns > reach_ns)
			reach_ns = rank->batches.at[b].end_ns;
		own->reach_ns[b] = reach_ns;
	}
	status = add_outside(lanes, r, INT64_MIN, first_ns);
	for (size_t s = 0; s < rank->steps.n && status == LW_OK; s++)
		status = add_step(lanes, r, s, has_waits, blocked);
	if (status == LW_OK && rank->steps.n)
		status = add_outside(lanes, r, end_ns, INT64_MAX);
	if (status == LW_OK && lw_gpu_has(rank))
		status = compute_by_kernels(lanes, r);
	for (size_t k = 0; k < LW_TRACKS; k++)
		lanes->is_there[k] |= own->tracks.of[k].stretches.n > 0;
	return status;
}

/* The first thing that is known of a rank, or the last one. */
static int64_t edge_ns(const struct lw_lanes *lanes, size_t r, bool is_last)
{
	const struct lw_rank *rank = &lanes->run->ranks.at[r];
	int64_t edge_ns = is_last ? rank->end_ns : rank->start_ns;

	for (size_t k = 0; k < LW_TRACKS; k++) {
		const struct lw_track *track = &lanes->ranks[r].tracks.of[k];
		size_t n = track->stretches.n;
		const struct lw_stretch *stretch =
			n ? &track->stretches.at[is_last ? n - 1 : 0] : NULL;

		if (stretch && !is_last && stretch->start_ns < edge_ns)
			edge_ns = stretch->start_ns;
		if (stretch && is_last &&
			stretch->start_ns + track->total_ns - stretch->before_ns > edge_ns)
			edge_ns = stretch->start_ns + track->total_ns - stretch->before_ns;
	}
	return edge_ns;
}

/*
 * One clock: the ruler's 0 is the first thing on any rank. Another clock's ranks are laid so that their first
 * step begins below that of rank 0; the screen says that such rows are not aligned.
 */
static void find_origins(struct lw_lanes *lanes)
{
	const struct lw_run *run = lanes->run;

	for (size_t r = 0; r < run->ranks.n; r++) {
		size_t first = 0;
		int64_t origin_ns = INT64_MAX;

		while (run->ranks.at[first].clock != run->ranks.at[r].clock)
			first++;
		if (first < r) {
			lanes->ranks[r].origin_ns = lanes->ranks[first].origin_ns;
			continue;
		}
		for (size_t i = r; i < run->ranks.n; i++)
			if (run->ranks.at[i].clock == run->ranks.at[r].clock &&
				edge_ns(lanes, i, false) < origin_ns)
				origin_ns = edge_ns(lanes, i, false);
		if (r > 0 && run->ranks.at[0].steps.n && run->ranks.at[r].steps.n)
			origin_ns =
				run->ranks.at[r].steps.at[0].start_ns -
				(run->ranks.at[0].steps.at[0].start_ns - lanes->ranks[0].origin_ns);
		lanes->ranks[r].origin_ns = origin_ns;
	}
	for (size_t r = 0; r < run->ranks.n; r++)
		if (edge_ns(lanes, r, true) - lanes->ranks[r].origin_ns > lanes->length_ns)
			lanes->length_ns = edge_ns(lanes, r, true) - lanes->ranks[r].origin_ns;
}

int lw_lanes_init(struct lw_lanes *lanes, struct lw_run *run)
{
	struct lw_intervals blocked = {0};
	bool has_waits = lw_run_has_waits(run);
	int status;

	*lanes = (struct lw_lanes){.run = run, .is_one_clock = lw_run_is_one_clock(run)};
	lanes->n_ranks = run->ranks.n;
	lanes->n_tensors = run->tensors.n;
	lanes->ranks = calloc(run->ranks.n + 1, sizeof(*lanes->ranks));
	status = lanes->ranks ? lw_phases_init(&lanes->phases, run)
			      : lw_fail(LW_ERR_NOMEM, "no memory for the timeline");
	if (status == LW_OK)
		status = lw_gpu_lanes_init(&lanes->gpu, run);
	for (size_t r = 0; r < run->ranks.n && status == LW_OK; r++)
		status = add_rank(lanes, r, has_waits, &blocked);
	lw_vec_free(&blocked);
	if (status == LW_OK)
		status = lw_nic_lanes_init(&lanes->nic, run);
	if (status == LW_OK)
		status = lw_range_lanes_init(&lanes->ranges, run);
	if (status == LW_OK)
		find_origins(lanes);
	return status;
}

/* ---- tensors ------------------------------------------------------------------------------------ */

static void free_tensors(struct lw_lanes *lanes)
{
	struct lw_tensor_lanes *tensors = &lanes->tensors;

	for (size_t t = 0; tensors->tracks && t < lanes->n_tensors; t++)
		if (tensors->tracks[t]) {
			free_tracks(tensors->tracks[t]);
			free(tensors->tracks[t]);
		}
	free(tensors->tracks);
	free(tensors->order);
	free(tensors->first);
	free(tensors->occurrences);
	*tensors = (struct lw_tensor_lanes){0};
}

void lw_lanes_done(struct lw_lanes *lanes)
{
	if (!lanes->run)
		return;
	free_tensors(lanes);
	for (size_t r = 0; lanes->ranks && r < lanes->n_ranks; r++) {
		free_tracks(&lanes->ranks[r].tracks);
		free(lanes->ranks[r].reach_ns);
	}
	free(lanes->ranks);
	lw_nic_lanes_done(&lanes->nic);
	lw_gpu_lanes_done(&lanes->gpu);
	lw_range_lanes_done(&lanes->ranges);
	lw_phases_done(&lanes->phases);
	*lanes = (struct lw_lanes){0};
}

/* Tensors in the order in which batches from @from on carry them; those seen before stay where they are. */
static void order_tensors(struct lw_tensor_lanes *tensors, const struct lw_rank *rank,
	size_t from_batch, bool *is_seen)
{
	for (size_t b = from_batch; b < rank->batches.n; b++)
		for (uint32_t i = 0; i < rank->batches.at[b].n_members; i++) {
			uint32_t tensor =
				rank->members.at[rank->batches.at[b].first_member + i].tensor;

			if (!is_seen[tensor])
				tensors->order[tensors->n_order++] = tensor;
			is_seen[tensor] = true;
		}
}

static void place_occurrences(struct lw_tensor_lanes *tensors, const struct lw_rank *rank, size_t n)
{
	const struct lw_batch *batch;

	lw_vec_foreach (batch, &rank->batches)
		for (uint32_t i = 0; i < batch->n_members; i++)
			tensors->first[rank->members.at[batch->first_member + i].tensor + 1]++;
	for (size_t t = 0; t < n; t++)
		tensors->first[t + 1] += tensors->first[t];
	/* first[t] moves to its end while its places are filled, then all move back by one */
	lw_vec_foreach (batch, &rank->batches)
		for (uint32_t i = 0; i < batch->n_members; i++) {
			uint32_t t = rank->members.at[batch->first_member + i].tensor;

			tensors->occurrences[tensors->first[t]++] =
				(struct lw_occurrence){(uint32_t)(batch - rank->batches.at), i};
		}
	memmove(tensors->first + 1, tensors->first, n * sizeof(*tensors->first));
	tensors->first[0] = 0;
}

int lw_lanes_turn(struct lw_lanes *lanes, size_t rank_index)
{
	const struct lw_rank *rank = &lanes->run->ranks.at[rank_index];
	struct lw_tensor_lanes *tensors = &lanes->tensors;
	size_t n = lanes->run->tensors.n, first = 0;
	bool *is_seen;

	if (tensors->tracks && tensors->rank == rank_index)
		return LW_OK;
	free_tensors(lanes);
	is_seen = calloc(n + 1, sizeof(*is_seen));
	tensors->rank = rank_index;
	tensors->tracks = calloc(n + 1, sizeof(struct lw_tracks *));
	tensors->order = calloc(n + 1, sizeof(*tensors->order));
	tensors->first = calloc(n + 2, sizeof(*tensors->first));
	tensors->occurrences = calloc(rank->members.n + 1, sizeof(*tensors->occurrences));
	if (!is_seen || !tensors->tracks || !tensors->order || !tensors->first ||
		!tensors->occurrences) {
		free(is_seen);
		free_tensors(lanes);
		return lw_fail(LW_ERR_NOMEM, "no memory for the tensors");
	}
	while (first < rank->steps.n && rank->steps.at[first].excluded)
		first++;
	if (first < rank->steps.n)
		order_tensors(tensors, rank, rank->steps.at[first].first_batch, is_seen);
	order_tensors(tensors, rank, 0, is_seen);
	free(is_seen);
	place_occurrences(tensors, rank, n);
	return LW_OK;
}

const struct lw_tracks *lw_lanes_tensor(struct lw_lanes *lanes, uint32_t tensor)
{
	struct lw_tensor_lanes *tensors = &lanes->tensors;
	const struct lw_rank *rank = &lanes->run->ranks.at[tensors->rank];
	struct lw_tracks *tracks = tensors->tracks[tensor];
	int status = LW_OK;

	if (tracks)
		return tracks;
	tracks = tensors->tracks[tensor] = calloc(1, sizeof(*tracks));
	for (size_t i = tensors->first[tensor]; tracks && i < tensors->first[tensor + 1]; i++) {
		const struct lw_batch *batch = &rank->batches.at[tensors->occurrences[i].batch];

		if (batch->group == LW_NONE)
			continue;
		status |= lw_phases_collect_members(
			&lanes->phases, tensors->rank, batch, tensors->occurrences[i].member, 1);
		status |= add_phases(tracks, &lanes->phases, INT64_MIN, INT64_MAX);
	}
	return status == LW_OK ? tracks : NULL;
}
