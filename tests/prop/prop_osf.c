/* SPDX-License-Identifier: Apache-2.0 */
/* Identities of the scaling model on random instances. LAPWING_SEED=n replays another sequence. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "analyzer/model/fusion.h"
#include "analyzer/model/grouping.h"
#include "analyzer/model/osf.h"
#include "base/err.h"
#include "base/random.h"

#define N_OF(a) (sizeof(a) / sizeof((a)[0]))
enum { N_INSTANCES = 4000, MAX_LAYERS = 40, MAX_BRUTE_FORCE = 9 };

/* A cost with a fixed part, a slope and, in half of the instances, a jump as eq. 18 may have. */
struct cost {
	double a_ns, b_ns_per_byte, jump_ns, jump_at_bytes, time_scale;
};

struct instance {
	uint64_t seed;
	size_t n;
	struct lw_layer layers[MAX_LAYERS];
	struct cost cost;
	struct lw_link link;
	double compute_ns, overlap_ns;
	double fusion_bytes, timeout_ns;
};

static uint64_t seed_base(void)
{
	const char *text = getenv("LAPWING_SEED");

	return text ? strtoull(text, NULL, 10) : 1;
}

static double cost_ns(double bytes, const void *params)
{
	const struct cost *cost = params;

	return cost->time_scale * (cost->a_ns + cost->b_ns_per_byte * bytes +
					  (bytes >= cost->jump_at_bytes ? cost->jump_ns : 0));
}

/* Whole numbers of ns and bytes, so that ties and equal sums occur. */
static double below(struct lw_random *random, uint64_t n)
{
	return (double)lw_random_below(random, n);
}

static void instance_init(struct instance *instance, uint64_t seed, size_t max_layers)
{
	struct lw_random random = {seed};

	*instance = (struct instance){.seed = seed, .n = 1 + lw_random_below(&random, max_layers)};
	for (size_t i = 0; i < instance->n; i++) {
		bool is_empty = lw_random_below(&random, 20) == 0;

		instance->layers[i].bytes = is_empty ? 0 : 1 + below(&random, 4000000);
		instance->layers[i].backward_ns = below(&random, 5000000);
	}
	instance->cost = (struct cost){.a_ns = below(&random, 3000000),
		.b_ns_per_byte = 2 * lw_random_unit(&random),
		.jump_ns = lw_random_below(&random, 2) ? below(&random, 4000000) : 0,
		.jump_at_bytes = below(&random, 8000000),
		.time_scale = 1};
	instance->link = (struct lw_link){cost_ns, &instance->cost};
	instance->overlap_ns = lw_layers_overlap_ns(instance->layers, instance->n);
	instance->compute_ns = 1.5 * (instance->overlap_ns + instance->layers[0].backward_ns) + 1;
	instance->fusion_bytes = below(&random, 10000000);
	instance->timeout_ns = below(&random, 6000000);
}

#define check(instance, condition)                                                                 \
	do {                                                                                       \
		if (!(condition))                                                                  \
			fail_msg("seed %llu: not so: %s", (unsigned long long)(instance)->seed,    \
				#condition);                                                       \
	} while (0)

/* Sums are made in different orders: equal up to rounding. */
static bool same(double x, double y)
{
	return fabs(x - y) <= 1e-9 * fmax(1, fmax(fabs(x), fabs(y)));
}

static bool not_above(double x, double y)
{
	return x <= y || same(x, y);
}

static double planned_ns(
	const struct instance *instance, enum lw_osf_variant variant, struct lw_fusion_slot *slots)
{
	lw_fusion_plan(instance->layers, instance->n, instance->fusion_bytes, instance->timeout_ns,
		variant, slots);
	return lw_fusion_update_ns(instance->layers, slots, instance->n, instance->link, variant);
}

static double osf(const struct instance *instance, double update_ns)
{
	return lw_osf(instance->compute_ns, update_ns, instance->overlap_ns);
}

static void without_limits_fusion_is_one_operation_and_csf(void **state)
{
	(void)state;
	for (uint64_t k = 0; k < N_INSTANCES; k++) {
		struct instance instance;
		struct lw_fusion_slot slots[MAX_LAYERS];
		double all_bytes, csf;

		instance_init(&instance, seed_base() + k, MAX_LAYERS);
		instance.fusion_bytes = instance.timeout_ns = INFINITY;
		all_bytes = lw_layers_bytes(instance.layers, instance.n);
		csf = lw_csf(instance.compute_ns, lw_link_ns(instance.link, all_bytes));
		for (int variant = LW_OSF_PAPER; variant <= LW_OSF_FIFO; variant++) {
			double update_ns =
				planned_ns(&instance, (enum lw_osf_variant)variant, slots);

			check(&instance, lw_fusion_n_ops(slots, instance.n) == (all_bytes > 0));
			check(&instance, same(osf(&instance, update_ns), csf));
		}
	}
}

static void without_a_buffer_the_queue_is_the_plain_model(void **state)
{
	(void)state;
	for (uint64_t k = 0; k < N_INSTANCES; k++) {
		struct instance instance;
		struct lw_fusion_slot slots[MAX_LAYERS];

		instance_init(&instance, seed_base() + k, MAX_LAYERS);
		instance.fusion_bytes = 0;
		check(&instance,
			same(planned_ns(&instance, LW_OSF_FIFO, slots),
				lw_layers_update_ns(instance.layers, instance.n, instance.link)));
	}
}

static void a_plan_sends_every_byte_once_and_takes_its_time(void **state)
{
	(void)state;
	for (uint64_t k = 0; k < N_INSTANCES; k++) {
		struct instance instance;

		instance_init(&instance, seed_base() + k, MAX_LAYERS);
		/* ties, where the printed comparators lose bytes */
		if (k % 4 == 0)
			instance.timeout_ns = instance.layers[instance.n / 2].backward_ns;
		if (k % 4 == 1)
			instance.fusion_bytes = instance.layers[0].bytes;
		for (int variant = LW_OSF_PAPER; variant <= LW_OSF_FIFO; variant++) {
			struct lw_fusion_slot slots[MAX_LAYERS];
			double update_ns =
				planned_ns(&instance, (enum lw_osf_variant)variant, slots);
			double sent_bytes = 0, busy_ns = 0, last_ns;

			for (size_t i = 0; i < instance.n; i++) {
				sent_bytes += slots[i].sent_bytes;
				busy_ns += lw_link_ns(instance.link, slots[i].sent_bytes);
			}
			last_ns = lw_link_ns(instance.link, slots[instance.n - 1].sent_bytes);
			check(&instance,
				sent_bytes == lw_layers_bytes(instance.layers, instance.n));
			check(&instance, not_above(busy_ns, update_ns));
			check(&instance, not_above(instance.overlap_ns + last_ns, update_ns));
		}
	}
}

static void scaling_all_times_changes_no_factor(void **state)
{
	(void)state;
	for (uint64_t k = 0; k < N_INSTANCES; k++) {
		struct instance instance, scaled;
		double scale = 0.001 * (double)(1 + k % 5000);

		instance_init(&instance, seed_base() + k, MAX_LAYERS);
		scaled = instance;
		scaled.link.params = &scaled.cost;
		scaled.cost.time_scale = scale;
		scaled.compute_ns *= scale;
		scaled.overlap_ns *= scale;
		scaled.timeout_ns *= scale;
		for (size_t i = 0; i < scaled.n; i++)
			scaled.layers[i].backward_ns *= scale;
		check(&instance, same(osf(&instance, lw_layers_update_ns(instance.layers,
							     instance.n, instance.link)),
					 osf(&scaled, lw_layers_update_ns(scaled.layers, scaled.n,
							      scaled.link))));
		for (int variant = LW_OSF_PAPER; variant <= LW_OSF_FIFO; variant++) {
			enum lw_osf_variant v = (enum lw_osf_variant)variant;
			struct lw_fusion_slot slots[MAX_LAYERS];

			check(&instance, same(osf(&instance, planned_ns(&instance, v, slots)),
						 osf(&scaled, planned_ns(&scaled, v, slots))));
		}
	}
}

static void no_grouping_beats_the_optimal_one(void **state)
{
	size_t n_worse[3] = {0}; /* MG-WFBP, adaFusion as printed, queue-aware */
	double worst[3] = {1, 1, 1};

	(void)state;
	for (uint64_t k = 0; k < N_INSTANCES; k++) {
		struct instance instance;
		bool best[MAX_LAYERS], other[3][MAX_LAYERS];
		double best_ns, one_op_ns;

		instance_init(&instance, seed_base() + k, MAX_LAYERS);
		assert_int_equal(lw_group_optimal(instance.layers, instance.n, INFINITY,
					 instance.link, best),
			LW_OK);
		best_ns = lw_group_update_ns(instance.layers, instance.n, instance.link, best);
		one_op_ns = instance.overlap_ns +
			    lw_link_ns(instance.link, lw_layers_bytes(instance.layers, instance.n));
		check(&instance, not_above(best_ns, one_op_ns));
		check(&instance, not_above(best_ns, lw_layers_update_ns(instance.layers, instance.n,
							    instance.link)));
		lw_group_mgwfbp(instance.layers, instance.n, instance.link, other[0]);
		lw_group_adafusion(instance.layers, instance.n, instance.link, false, other[1]);
		lw_group_adafusion(instance.layers, instance.n, instance.link, true, other[2]);
		for (size_t i = 0; i < 3; i++) {
			double ns = lw_group_update_ns(
				instance.layers, instance.n, instance.link, other[i]);

			check(&instance, not_above(best_ns, ns));
			n_worse[i] += !same(best_ns, ns);
			worst[i] = fmax(worst[i], best_ns > 0 ? ns / best_ns : 1);
		}
	}
	print_message("of %d instances worse than the optimum: MG-WFBP %zu (up to %.2fx), "
		      "adaFusion %zu (%.2fx), queue-aware %zu (%.2fx)\n",
		N_INSTANCES, n_worse[0], worst[0], n_worse[1], worst[1], n_worse[2], worst[2]);
	for (size_t i = 0; i < 3; i++)
		assert_true(n_worse[i] > 0);
}

static void the_programme_equals_brute_force(void **state)
{
	(void)state;
	for (uint64_t k = 0; k < N_INSTANCES; k++) {
		struct instance instance;
		double cap_bytes, best_ns = INFINITY;
		bool is_last[MAX_BRUTE_FORCE];

		instance_init(&instance, seed_base() + k, MAX_BRUTE_FORCE);
		cap_bytes = k % 2 ? instance.fusion_bytes : (double)INFINITY;
		for (unsigned cuts = 0; cuts < 1u << (instance.n - 1); cuts++) {
			double group_bytes = 0;
			size_t n_members = 0;
			bool fits = true;

			for (size_t i = 0; i < instance.n; i++) {
				is_last[i] = i + 1 == instance.n || cuts >> i & 1;
				group_bytes += instance.layers[i].bytes;
				n_members++;
				if (n_members > 1 && group_bytes > cap_bytes)
					fits = false;
				if (is_last[i]) {
					group_bytes = 0;
					n_members = 0;
				}
			}
			if (fits)
				best_ns =
					fmin(best_ns, lw_group_update_ns(instance.layers,
							      instance.n, instance.link, is_last));
		}
		assert_int_equal(lw_group_optimal(instance.layers, instance.n, cap_bytes,
					 instance.link, is_last),
			LW_OK);
		check(&instance, same(lw_group_update_ns(
					      instance.layers, instance.n, instance.link, is_last),
					 best_ns));
	}
}

static void accumulating_gradients_never_lowers_the_factor(void **state)
{
	(void)state;
	for (uint64_t k = 0; k < N_INSTANCES; k++) {
		struct instance instance;
		double update_ns, before = 0;

		instance_init(&instance, seed_base() + k, MAX_LAYERS);
		update_ns = lw_layers_update_ns(instance.layers, instance.n, instance.link);
		for (int n_passes = 1; n_passes <= 32; n_passes *= 2) {
			double factor = lw_osf_accumulated(
				instance.compute_ns, update_ns, instance.overlap_ns, n_passes);

			check(&instance, factor >= before && factor <= 1);
			before = factor;
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_limits_fusion_is_one_operation_and_csf),
		cmocka_unit_test(without_a_buffer_the_queue_is_the_plain_model),
		cmocka_unit_test(a_plan_sends_every_byte_once_and_takes_its_time),
		cmocka_unit_test(scaling_all_times_changes_no_factor),
		cmocka_unit_test(no_grouping_beats_the_optimal_one),
		cmocka_unit_test(the_programme_equals_brute_force),
		cmocka_unit_test(accumulating_gradients_never_lowers_the_factor),
	};

	print_message("seeds from %llu\n", (unsigned long long)seed_base());
	return cmocka_run_group_tests(tests, NULL, NULL);
}
