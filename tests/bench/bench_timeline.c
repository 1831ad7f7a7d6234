/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_timeline.c - what opening and drawing the timeline costs on a large run.
 *
 *	bench_timeline [STEPS [RANKS [REPEATS]]]
 *
 * A run as the tracer leaves it, of a job that the simulator made: 161 tensors, threshold 1 MiB; 2320 steps on
 * 8 ranks are 10 million records. Screens of 200x60, zoomed from the run to a microsecond a column, ranks down
 * with one, two and all lanes, and tensors down; each rank's packets were captured in every millisecond of the run.
 * Times are CPU time of the one thread. Prints one JSON line.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "analyzer/analyzer.h"
#include "base/units.h"
#include "tests/bench/bench.h"
#include "tests/unit/sim_run.h"
#include "tui/timeline.h"

enum { N_TENSORS = 161, WIDTH = 200, HEIGHT = 60, MAX_REPEATS = 1000 };

static size_t count_records(const struct lw_run *run)
{
	const struct lw_rank *rank;
	size_t n = 0;

	/* a tensor is a READY and a BATCH_TENSOR, a batch has a collective and a round */
	lw_vec_foreach (rank, &run->ranks)
		n += 2 * rank->members.n + 3 * rank->batches.n + rank->waits.n;
	return n;
}

static size_t count_nic_bytes(const struct lw_timeline *timeline)
{
	const struct lw_nic_lane *lane;
	size_t n = 0;

	lw_vec_foreach (lane, &timeline->lanes.nic.lanes)
		n += lane->moved.points.capacity + lane->again.points.capacity;
	return n * sizeof(struct lw_nic_point);
}

static size_t count_bytes(const struct lw_timeline *timeline)
{
	const struct lw_run *run = timeline->lanes.run;
	size_t bytes =
		(run->ranks.n ? run->ranks.at[0].members.n : 0) * sizeof(struct lw_phase_span);

	for (size_t r = 0; r < run->ranks.n; r++) {
		bytes += run->ranks.at[r].batches.n * sizeof(int64_t);
		for (size_t k = 0; k < LW_TRACKS; k++)
			bytes += timeline->lanes.ranks[r].tracks.of[k].stretches.capacity *
				 sizeof(struct lw_stretch);
	}
	return bytes;
}

static int ascending(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* Draws at every zoom from the run to a microsecond. Prints the slowest screen and the median one. */
static void draw_all(
	struct lw_view *view, const char *name, struct lw_cells *cells, size_t n_repeats)
{
	struct lw_timeline *timeline = view->state;
	struct lw_pane pane = lw_pane_whole(cells);
	struct lw_input closer = {LW_REQUEST_ZOOM_IN, 0, 0, HEIGHT, WIDTH};
	double *took_ns = calloc(64 * n_repeats, sizeof(*took_ns)), start_ns;
	size_t n = 0;

	if (!took_ns)
		lw_bench_die();
	timeline->to_fit = LW_TIMELINE_FIT_ALL;
	timeline->cursor_ns = timeline->lanes.length_ns / 2;
	view->ops->draw(view, pane); /* rows of tensors are made when first drawn */
	for (int zoom = 0; zoom < 64 && n < 64 * n_repeats; zoom++) {
		int64_t before_ns = timeline->column_ns;

		for (size_t i = 0; i < n_repeats; i++) {
			start_ns = lw_bench_cpu_ns();
			lw_cells_clear(cells);
			view->ops->draw(view, pane);
			took_ns[n++] = lw_bench_cpu_ns() - start_ns;
		}
		view->ops->request(view, &closer);
		if (timeline->column_ns == before_ns)
			break;
	}
	qsort(took_ns, n, sizeof(*took_ns), ascending);
	printf(",\"%s\":{\"median\":%.0f,\"high\":%.0f,\"screens\":%zu}", name, took_ns[n / 2],
		took_ns[n - 1], n);
	free(took_ns);
}

/* What each rank sent to the next, in bins that are all different. */
static void capture(struct lw_run *run)
{
	for (size_t r = 0; r < run->ranks.n; r++) {
		const struct lw_rank *rank = &run->ranks.at[r];
		struct lw_packet_flow flow = {.from_rank = (int32_t)r,
			.to_rank = (int32_t)((r + 1) % run->ranks.n),
			.payload_bytes = 1};

		for (int64_t at_ns = rank->start_ns / LW_NS_PER_MS * LW_NS_PER_MS;
			at_ns < rank->end_ns; at_ns += LW_NS_PER_MS)
			if (lw_vec_push(&flow.bins,
				    ((struct lw_packet_bin){at_ns,
					    (uint64_t)(at_ns / LW_NS_PER_MS * 7919 % 1250000), 0,
					    at_ns / LW_NS_PER_MS % 50 == 0, 0, 0})) < 0)
				lw_bench_die();
		if (lw_vec_push(&run->flows, flow) < 0)
			lw_bench_die();
	}
}

static size_t count_bins(const struct lw_run *run)
{
	const struct lw_packet_flow *flow;
	size_t n = 0;

	lw_vec_foreach (flow, &run->flows)
		n += flow->bins.n;
	return n;
}

static void free_flows(struct lw_run *run)
{
	struct lw_packet_flow *flow;

	lw_vec_foreach (flow, &run->flows)
		lw_vec_free(&flow->bins);
	lw_vec_free(&run->flows);
}

static struct lw_run *make_run(uint32_t n_steps, uint32_t n_ranks)
{
	static uint64_t bytes[N_TENSORS];
	struct sim_spec spec = {.n_ranks = n_ranks,
		.n_tensors = N_TENSORS,
		.n_steps = n_steps,
		.bytes = bytes,
		.forward_ns = 60 * LW_NS_PER_MS,
		.gap_ns = LW_NS_PER_MS / 2,
		.jitter_ns = LW_NS_PER_MS / 2,
		.setting = {.fusion_bytes = 1 << 20, .cycle_ns = 5 * LW_NS_PER_MS},
		.cost = {.wire_ns = lw_bench_wire_ns,
			.round_ns = 100e3,
			.oversleep_ns = 60e3,
			.dispatch_ns = 30e3,
			.between_ns = 20e3,
			.copy_in_ns_per_byte = 0.1,
			.copy_out_ns_per_byte = 0.1,
			.poll_ns = 1060e3},
		.seed = 1};
	struct lw_run *run;
	struct lw_rank *rank;
	struct lw_group *group;

	for (size_t t = 0; t < N_TENSORS; t++)
		bytes[t] = 4096u << t % 11;
	run = sim_run_new(&spec);
	lw_vec_foreach (rank, &run->ranks) {
		rank->start_ns = rank->steps.at[0].start_ns;
		rank->end_ns = rank->steps.at[rank->steps.n - 1].end_ns;
	}
	lw_vec_foreach (group, &run->groups)
		group->n_wanted = group->n_ranks;
	capture(run);
	return run;
}

int main(int argc, char **argv)
{
	uint32_t n_steps = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 2320;
	uint32_t n_ranks = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 8;
	size_t n_repeats = argc > 3 ? strtoul(argv[3], NULL, 10) : 5;
	struct lw_run *run;
	struct lw_analysis analysis = {0};
	struct lw_data data = {.analysis = &analysis, .generation = 1};
	struct lw_focus focus = LW_FOCUS_NONE;
	struct lw_timeline timeline = {0};
	struct lw_view view = {&lw_view_timeline, &data, &focus, NULL, &timeline, 0};
	struct lw_input turn = {LW_REQUEST_TURN, 0, 0, HEIGHT, WIDTH};
	struct lw_cells cells = {0};
	struct lw_nic_lanes nic;
	double start_ns, nic_ns;

	if (n_steps < 2 || n_ranks < 1 || n_ranks > 64 || n_repeats < 1 ||
		n_repeats > MAX_REPEATS) {
		fprintf(stderr, "usage: bench_timeline [STEPS [RANKS [REPEATS]]]\n");
		return 2;
	}
	analysis.run = run = make_run(n_steps, n_ranks);
	if (lw_cells_resize(&cells, WIDTH, HEIGHT) < 0)
		lw_bench_die();
	start_ns = lw_bench_cpu_ns();
	if (lw_nic_lanes_init(&nic, run) < 0)
		lw_bench_die();
	nic_ns = lw_bench_cpu_ns() - start_ns;
	lw_nic_lanes_done(&nic);
	start_ns = lw_bench_cpu_ns();
	if (view.ops->open(&view) < 0)
		lw_bench_die();
	printf("{\"n_records\":%zu,\"n_ranks\":%u,\"n_steps\":%u,\"open_ns\":%.0f,\"bytes\":%zu"
	       ",\"of_which_nic_ns\":%.0f,\"nic_bytes\":%zu,\"n_bins\":%zu",
		count_records(run), n_ranks, n_steps, lw_bench_cpu_ns() - start_ns,
		count_bytes(&timeline) + count_nic_bytes(&timeline), nic_ns,
		count_nic_bytes(&timeline), count_bins(run));
	draw_all(&view, "ranks_fitting_ns", &cells, n_repeats);
	timeline.density = LW_TIMELINE_ALL;
	draw_all(&view, "ranks_all_ns", &cells, n_repeats);
	timeline.density = LW_TIMELINE_ONE;
	draw_all(&view, "ranks_one_ns", &cells, n_repeats);
	start_ns = lw_bench_cpu_ns();
	view.ops->request(&view, &turn);
	view.ops->draw(&view, lw_pane_whole(&cells));
	printf(",\"turn_ns\":%.0f", lw_bench_cpu_ns() - start_ns);
	draw_all(&view, "tensors_ns", &cells, n_repeats);
	printf("}\n");
	view.ops->done(&view);
	lw_cells_free(&cells);
	free_flows(run);
	sim_run_free(run);
	return 0;
}
