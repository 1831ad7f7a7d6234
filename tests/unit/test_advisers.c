/* SPDX-License-Identifier: Apache-2.0 */
/* Each adviser on a job in which its subject is the matter, and on one in which it is not. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/advise/group_job.h"
#include "base/units.h"
#include "tests/unit/advise_job.h"

struct asked { /* a job and what was said of it */
	struct lw_run *run;
	struct lw_advice_list list;
};

static struct asked ask(struct job *job)
{
	struct asked asked;

	job_advise(job, &asked.run, &asked.list);
	return asked;
}

static void done(struct asked *asked)
{
	lw_advice_list_free(&asked->list);
	sim_run_free(asked->run);
}

static const char *finding(const struct asked *asked, const char *id)
{
	const struct lw_finding *one;

	lw_vec_foreach (one, &asked->list.findings)
		if (!strcmp(one->id, id))
			return one->text;
	return "";
}

/* The share of a step that @truth saves against @job, and that it lies in the interval of @advice. */
static void assert_true_gain(
	const struct job *job, const struct job *truth, const struct lw_advice *advice)
{
	double gain_frac = 1 - job_truth_ns(truth) / job_truth_ns(job);

	print_message("%s: predicted %.1f %% (%.1f to %.1f), true %.1f %%\n  %s\n", advice->id,
		100 * advice->gain_frac.value, 100 * advice->gain_frac.low,
		100 * advice->gain_frac.high, 100 * gain_frac, advice->why);
	assert_true(gain_frac >= advice->gain_frac.low && gain_frac <= advice->gain_frac.high);
}

/* Two sizes, so that a fixed cost and a rate can be told apart. */
static void job_init_mixed(struct job *job, uint32_t n_ranks, uint32_t n_tensors, uint64_t bytes)
{
	job_init(job, n_ranks, n_tensors, bytes);
	for (uint32_t t = 0; t < n_tensors; t += 4)
		job->bytes[t] = 4 * bytes;
	job->spec.setting.fusion_bytes = 1 << 20;
}

static void a_slow_link_asks_for_bandwidth(void **state)
{
	struct job job, truth;
	struct asked asked;

	(void)state;
	job_init_mixed(&job, 4, 40, 50000);
	truth = job;
	truth.link.ns_per_byte /= 2;
	asked = ask(&job);
	assert_true_gain(&job, &truth, job_must_find(&asked.list, "network.bandwidth"));
	assert_int_equal(job_must_find(&asked.list, "network.bandwidth")->kind, LW_ADVICE_HARDWARE);
	done(&asked);
	job.link.ns_per_byte = 0.1;
	asked = ask(&job);
	assert_null(job_find(&asked.list, "network.bandwidth"));
	assert_non_null(strstr(finding(&asked, "network.bandwidth"), "no more than"));
	done(&asked);
}

static void dear_messages_ask_for_lower_latency(void **state)
{
	struct job job, truth;
	struct asked asked;

	(void)state;
	job_init_mixed(&job, 4, 60, 5000);
	job.spec.setting.fusion_bytes = 0;
	job.link = (struct job_link){6 * JOB_MS, 20};
	job.spec.cost.round_ns = 6 * JOB_MS;
	truth = job;
	truth.link.fixed_ns /= 2;
	truth.spec.cost.round_ns /= 2;
	asked = ask(&job);
	assert_true_gain(&job, &truth, job_must_find(&asked.list, "network.latency"));
	done(&asked);
}

static void more_ranks_cost_what_a_ring_costs(void **state)
{
	struct job job, truth;
	struct asked asked;
	const struct lw_trial *trial;
	double truth_ns;
	bool is_found = false;

	(void)state;
	job_init_mixed(&job, 4, 40, 40000);
	truth = job;
	truth.spec.n_ranks = 8;
	truth.link.fixed_ns *= 7.0 / 3;
	truth.spec.cost.round_ns *= 7.0 / 3;
	truth.link.ns_per_byte *= (7.0 / 8) / (3.0 / 4);
	truth_ns = job_truth_ns(&truth);
	asked = ask(&job);
	lw_vec_foreach (trial, &asked.list.tried) {
		if (strcmp(trial->label, "8 ranks"))
			continue;
		is_found = true;
		print_message("8 ranks: %.1f ms (%.1f to %.1f), true %.1f\n",
			trial->step_ns.value / JOB_MS, trial->step_ns.low / JOB_MS,
			trial->step_ns.high / JOB_MS, truth_ns / JOB_MS);
		assert_true(truth_ns >= trial->step_ns.low && truth_ns <= trial->step_ns.high);
	}
	assert_true(is_found);
	done(&asked);
	job_init(&job, 1, 10, 4000);
	asked = ask(&job);
	assert_non_null(strstr(finding(&asked, "scaling.ranks"), "one rank"));
	done(&asked);
}

static void a_slow_rank_is_named_with_what_it_costs(void **state)
{
	struct job job, truth;
	struct asked asked;
	const struct lw_advice *advice;

	(void)state;
	job_init_mixed(&job, 4, 40, 2000);
	job.spec.late_ns = 30 * LW_NS_PER_MS;
	truth = job;
	truth.spec.late_ns = 0;
	asked = ask(&job);
	advice = job_must_find(&asked.list, "ranks.straggler");
	assert_true_gain(&job, &truth, advice);
	assert_non_null(strstr(advice->why, "rank 3 (host d)"));
	assert_int_equal(advice->kind, LW_ADVICE_WHAT_IF);
	done(&asked);
	asked = ask(&truth);
	assert_null(job_find(&asked.list, "ranks.straggler"));
	assert_non_null(strstr(finding(&asked, "ranks.straggler"), "no rank is late"));
	done(&asked);
}

static void a_layer_that_dominates_is_named(void **state)
{
	struct job job, truth;
	struct asked asked;
	const struct lw_advice *advice;

	(void)state;
	job_init_mixed(&job, 2, 20, 20000);
	job.bytes[17] = 1200000;
	truth = job;
	truth.bytes[17] = 120000;
	asked = ask(&job);
	advice = job_must_find(&asked.list, "model.layer");
	assert_true_gain(&job, &truth, advice);
	assert_non_null(strstr(advice->why, "holds 64 % of the bytes"));
	done(&asked);
	job.bytes[17] = 20000;
	asked = ask(&job);
	assert_false(lw_advise_spoke(&asked.list, "model.layer"));
	done(&asked);
}

static void half_the_bytes_are_worth_their_conversion_on_a_slow_link(void **state)
{
	struct job job, truth;
	struct asked asked;
	const struct lw_advice *advice;

	(void)state;
	job_init_mixed(&job, 4, 40, 50000);
	truth = job;
	for (uint32_t t = 0; t < 40; t++)
		truth.bytes[t] /= 2;
	asked = ask(&job);
	advice = job_must_find(&asked.list, "training.fp16");
	assert_true_gain(&job, &truth, advice);
	assert_int_equal(advice->kind, LW_ADVICE_TRAINING);
	assert_non_null(strstr(advice->code, "compression=hvd.Compression.fp16"));
	done(&asked);
}

static void fewer_exchanges_save_what_is_exposed(void **state)
{
	struct job job, more;
	struct asked asked;
	const struct lw_advice *advice;
	double step_ns, compute_ns, gain_frac;

	(void)state;
	job_init_mixed(&job, 4, 40, 50000);
	more = job;
	more.link = (struct job_link){0, 0}; /* a pass that sends nothing */
	more.spec.setting.cycle_ns = 10000;
	more.spec.cost = (struct lw_hvd_cost){.wire_ns = job.spec.cost.wire_ns};
	asked = ask(&job);
	advice = job_must_find(&asked.list, "training.passes");
	step_ns = job_truth_ns(&job);
	compute_ns = job_truth_ns(&more);
	gain_frac = 1 - (step_ns + compute_ns) / 2 / step_ns;
	print_message("two passes: predicted %.1f %% (%.1f to %.1f), true about %.1f %%\n",
		100 * advice->gain_frac.value, 100 * advice->gain_frac.low,
		100 * advice->gain_frac.high, 100 * gain_frac);
	assert_true(gain_frac >= advice->gain_frac.low && gain_frac <= advice->gain_frac.high);
	assert_non_null(strstr(advice->code, "backward_passes_per_step=2"));
	assert_non_null(strstr(advice->why, "divide the loss by 2"));
	done(&asked);
}

static void print_trials(const struct asked *asked, const char *id)
{
	const struct lw_trial *trial;

	lw_vec_foreach (trial, &asked->list.tried)
		if (!strcmp(trial->id, id))
			print_message(
				"  %-28s %6.1f ms (%.1f to %.1f), saves %.1f (%.1f to %.1f)%s\n",
				trial->label, trial->step_ns.value / JOB_MS,
				trial->step_ns.low / JOB_MS, trial->step_ns.high / JOB_MS,
				trial->gain_ns.value / JOB_MS, trial->gain_ns.low / JOB_MS,
				trial->gain_ns.high / JOB_MS,
				trial->prediction.is_extrapolated ? " x" : "");
}

/* Gradients come in bursts and messages are dear: a short cycle sends the first of a burst alone, a long
 * one begins in the middle of a burst. */
static void bursts_of_gradients_ask_for_explicit_groups(void **state)
{
	enum { N = 20 };
	struct job job, truth;
	struct asked asked;
	const struct lw_advice *advice;
	int32_t group_of[N];

	(void)state;
	job_init_mixed(&job, 4, N, 20000);
	job.link = (struct job_link){60 * JOB_MS, 20};
	job.spec.n_in_burst = 10;
	job.spec.gap_ns = 15 * LW_NS_PER_MS;
	job.spec.jitter_ns = 4 * LW_NS_PER_MS;
	job.spec.setting.cycle_ns = 1 * LW_NS_PER_MS;
	job.spec.setting.fusion_bytes = 128 << 20;
	asked = ask(&job);
	print_trials(&asked, "horovod.groups");
	advice = job_must_find(&asked.list, "horovod.groups");
	assert_int_equal(advice->kind, LW_ADVICE_CODE);
	assert_string_equal(advice->set[0].name, "HOROVOD_CYCLE_TIME");
	assert_non_null(
		strstr(advice->code, "groups=2)")); /* as good as the exact ones, and shorter */
	truth = job;
	for (int32_t t = 0; t < N; t++)
		group_of[t] = t < N / 2;
	truth.spec.group_of = group_of;
	assert_true_gain(&job, &truth, advice);
	done(&asked);
	job.spec.n_in_burst = 0; /* nothing to group for */
	job.spec.gap_ns = 2 * LW_NS_PER_MS;
	job.link = (struct job_link){0.1 * JOB_MS, 0.1};
	asked = ask(&job);
	assert_null(job_find(&asked.list, "horovod.groups"));
	assert_non_null(strstr(finding(&asked, "horovod.groups"), "no explicit groups"));
	done(&asked);
}

/* The exact groups of a job, as lines of Python. */
static void groups_are_lists_of_parameter_names(void **state)
{
	enum { N = 4 };
	struct job job;
	struct asked asked;
	struct lw_group_job groups;
	char *code;

	(void)state;
	job_init_mixed(&job, 2, N, 20000);
	asked = ask(&job);
	asked.run->tensors.at[0].name = "allreduce.fc.weight";
	asked.run->tensors.at[1].name = "allreduce.odd \"name\"";
	asked.run->tensors.at[2].name = "DistributedOptimizer_Allreduce/cond/x_0";
	asked.run->tensors.at[3].name = "allreduce.conv.weight";
	assert_int_equal(lw_group_job_init(asked.list.replay, &groups), 0);
	groups.is_last[1] = groups.is_last[3] = true;
	assert_true(lw_group_job_apply(&groups) == 100000); /* 80000 + 20000, the first two */
	assert_int_equal(groups.group_of[groups.tensors[0]], 0);
	assert_int_equal(groups.group_of[groups.tensors[3]], 1);
	code = lw_group_job_code(&groups, asked.run);
	assert_non_null(code);
	print_message("%s\n", code);
	assert_non_null(strstr(code, "    [\"fc.weight\", \"odd \\\"name\\\"\"],\n"));
	assert_non_null(strstr(
		code, "    [\"DistributedOptimizer_Allreduce/cond/x_0\", \"conv.weight\"],\n"));
	assert_non_null(strstr(code, "groups=[[named[name] for name in group]"));
	free(code);
	lw_group_job_done(&groups);
	done(&asked);
}

static void sparse_gradients_pay_below_one_over_n(void **state)
{
	struct job job;
	struct asked asked;

	(void)state;
	job_init_mixed(&job, 8, 40, 50000);
	job.link.fixed_ns = 0;
	asked = ask(&job);
	print_message("%s\n", finding(&asked, "training.sparse"));
	assert_non_null(strstr(finding(&asked, "training.sparse"), "top-k 12.5 %"));
	done(&asked);
	job_init(&job, 2, 30, 4000); /* one size: everything in one operation */
	job.spec.forward_ns = LW_NS_PER_MS;
	job.spec.gap_ns = 1000;
	job.spec.jitter_ns = 100;
	asked = ask(&job);
	assert_non_null(strstr(finding(&asked, "training.sparse"), "cannot be told"));
	done(&asked);
}

static bool is_told(const struct asked *asked, const char *id, const char *text)
{
	const struct lw_finding *one;

	lw_vec_foreach (one, &asked->list.findings)
		if (!strcmp(one->id, id) && strstr(one->text, text))
			return true;
	return false;
}

/* Fused into few sizes: what others cost is not known, and the run that tells is named. */
static void sizes_that_a_run_does_not_hold_ask_for_a_probe(void **state)
{
	struct job job;
	struct asked asked;

	(void)state;
	job_init_mixed(&job, 4, 40, 50000);
	asked = ask(&job);
	for (size_t i = 0; i < asked.list.findings.n; i++)
		print_message(
			"%s: %s\n", asked.list.findings.at[i].id, asked.list.findings.at[i].text);
	assert_true(is_told(&asked, "horovod.evidence", "of sizes that this run does not hold"));
	assert_true(is_told(&asked, "horovod.evidence", "`lapwing record --probe`"));
	done(&asked);
}

/* 2 KB in 4.7 ms, and nothing else: no run of it tells what is the link and what the message. */
static void of_one_size_neither_network_nor_ranks_nor_settings_can_be_told(void **state)
{
	static const char *const ids[] = {"network.bandwidth", "network.latency", "scaling.ranks"};
	struct job job;
	struct asked asked;

	(void)state;
	job_init(&job, 4, 60, 2000);
	job.link = (struct job_link){4.5 * JOB_MS, 100};
	job.spec.setting.fusion_bytes = 0;
	asked = ask(&job);
	for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
		print_message("%s: %s\n", ids[i], finding(&asked, ids[i]));
		assert_null(job_find(&asked.list, ids[i]));
		assert_true(is_told(&asked, ids[i], "cannot be told"));
		assert_true(is_told(&asked, ids[i], "`lapwing record --probe`"));
	}
	print_message("%s\n", finding(&asked, "horovod.fusion_cycle"));
	assert_false(is_told(&asked, "horovod.fusion_cycle", "as good as anything"));
	assert_true(job_find(&asked.list, "horovod.fusion_cycle") ||
		    is_told(&asked, "horovod.fusion_cycle", "cannot be told from this run"));
	done(&asked);
}

static void ask_again(struct asked *asked)
{
	lw_advice_list_free(&asked->list);
	assert_int_equal(lw_advise(asked->run, &asked->list), 0);
}

/* Two hosts of four ranks each. */
static void set_hosts(struct asked *asked, int transport)
{
	static const char *const hosts[] = {"a", "b"};

	for (size_t r = 0; r < 8; r++) {
		asked->run->ranks.at[r].host = (char *)(uintptr_t)hosts[r / 4];
		asked->run->ranks.at[r].transport = transport;
	}
}

/* Many small operations, whose messages take long. */
static void job_init_hosts(struct job *job, struct asked *ret_asked)
{
	job_init_mixed(job, 8, 60, 5000);
	job->spec.setting.fusion_bytes = 0;
	job->link = (struct job_link){8 * JOB_MS, 20};
	job->spec.cost.round_ns = 8 * JOB_MS;
	*ret_asked = ask(job);
	assert_false(lw_advise_spoke(&ret_asked->list, "horovod.hierarchical"));
	set_hosts(ret_asked, LW_TRANSPORT_GLOO);
}

static void the_torus_is_for_hosts_of_several_ranks_and_nccl(void **state)
{
	const struct lw_advice *advice;
	struct job job;
	struct asked asked;

	(void)state;
	job_init_hosts(&job, &asked);
	ask_again(&asked);
	assert_null(job_find(&asked.list, "horovod.hierarchical"));
	assert_non_null(strstr(finding(&asked, "horovod.hierarchical"), "over NCCL only"));
	for (size_t r = 0; r < 8; r++)
		asked.run->ranks.at[r].transport = LW_TRANSPORT_NCCL;
	ask_again(&asked);
	print_message("%s\n", finding(&asked, "horovod.hierarchical"));
	assert_null(job_find(&asked.list, "horovod.hierarchical"));
	assert_non_null(strstr(finding(&asked, "horovod.hierarchical"), "since 0.26"));
	for (size_t r = 0; r < 8; r++)
		asked.run->ranks.at[r].setting_source[LW_SETTING_TORUS_ALLREDUCE] = LW_SOURCE_LIVE;
	ask_again(&asked);
	advice = job_must_find(&asked.list, "horovod.hierarchical");
	print_message("%s\n", advice->why);
	assert_string_equal(advice->set[0].name, "HOROVOD_TORUS_ALLREDUCE");
	assert_int_equal(advice->gain_frac.how, LW_ASSUMED);
	done(&asked);
}

/* What is on already is not advised, and what it brought is not in the run. */
static void reducing_inside_hosts_is_not_advised_twice(void **state)
{
	static const enum lw_setting settings[] = {
		LW_SETTING_TORUS_ALLREDUCE, LW_SETTING_HIERARCHICAL_ALLREDUCE};
	struct job job;
	struct asked asked;

	(void)state;
	job_init_hosts(&job, &asked);
	for (size_t i = 0; i < 2; i++) {
		for (size_t r = 0; r < 8; r++) {
			struct lw_rank *rank = &asked.run->ranks.at[r];

			rank->transport = LW_TRANSPORT_NCCL;
			rank->setting[settings[i]] = 1;
			rank->setting[settings[1 - i]] = 0;
		}
		ask_again(&asked);
		assert_null(job_find(&asked.list, "horovod.hierarchical"));
		print_message("%s\n", finding(&asked, "horovod.hierarchical"));
		assert_non_null(strstr(finding(&asked, "horovod.hierarchical"), "ALLREDUCE is on"));
	}
	done(&asked);
}

/* Large operations: all hangs on what the copies and messages inside a host cost. */
static void a_gain_that_hangs_on_what_is_not_known_is_not_called_none(void **state)
{
	struct job job;
	struct asked asked;
	const char *text;

	(void)state;
	job_init_hosts(&job, &asked);
	done(&asked);
	job.link = (struct job_link){0.1 * JOB_MS, 400};
	job.spec.cost.round_ns = 0.1 * JOB_MS;
	asked = ask(&job);
	set_hosts(&asked, LW_TRANSPORT_NCCL);
	ask_again(&asked);
	text = finding(&asked, "horovod.hierarchical");
	print_message("%s\n", text);
	assert_null(job_find(&asked.list, "horovod.hierarchical"));
	assert_non_null(strstr(text, "hangs on what a message there costs"));
	assert_null(strstr(text, "no more than the error"));
	done(&asked);
}

/* What each rank sends in a step: the hub @hub_bytes, the others @other_bytes. */
static void add_traffic(struct lw_run *run, uint64_t hub_bytes, uint64_t other_bytes)
{
	for (size_t r = 0; r < run->ranks.n; r++) {
		struct lw_rank *rank = &run->ranks.at[r];
		struct lw_traffic traffic = {.at_ns = rank->steps.at[0].start_ns};

		for (size_t s = 0; s < rank->steps.n; s++) {
			assert_int_equal(lw_vec_push(&rank->traffic, traffic), 0);
			traffic.at_ns = rank->steps.at[s].end_ns;
			traffic.sent_bytes += r == 1 ? hub_bytes : other_bytes;
		}
		assert_int_equal(lw_vec_push(&rank->traffic, traffic), 0);
	}
}

static void free_traffic(struct lw_run *run)
{
	for (size_t r = 0; r < run->ranks.n; r++)
		lw_vec_free(&run->ranks.at[r].traffic);
}

static void a_star_is_seen_in_what_ranks_send(void **state)
{
	struct job job, truth;
	struct asked asked;
	const struct lw_advice *advice;
	uint64_t bytes = 0;

	(void)state;
	job_init_mixed(&job, 4, 40, 50000);
	for (uint32_t t = 0; t < 40; t++)
		bytes += job.bytes[t];
	asked = ask(&job);
	add_traffic(asked.run, 3 * bytes / 2, 3 * bytes / 2); /* a ring: 2 (N - 1) / N D */
	ask_again(&asked);
	assert_false(lw_advise_spoke(&asked.list, "network.star"));
	free_traffic(asked.run);
	add_traffic(asked.run, 3 * bytes, bytes);
	ask_again(&asked);
	advice = job_must_find(&asked.list, "network.star");
	truth = job;
	truth.link.ns_per_byte /= 2; /* 3 D less to 2 (N - 1) / N D */
	assert_true_gain(&job, &truth, advice);
	assert_non_null(strstr(advice->why, "rank 1 (host b)"));
	free_traffic(asked.run);
	done(&asked);
}

static void what_can_be_set_comes_first_and_ids_are_known(void **state)
{
	struct job job;
	struct asked asked;
	const struct lw_advice *advice;

	(void)state;
	job_init_mixed(&job, 4, 40, 50000);
	job.spec.setting.cycle_ns = 50 * LW_NS_PER_MS;
	asked = ask(&job);
	assert_true(asked.list.advice.n >= 3);
	for (size_t i = 1; i < asked.list.advice.n; i++)
		assert_true(asked.list.advice.at[i - 1].kind <= asked.list.advice.at[i].kind);
	lw_vec_foreach (advice, &asked.list.advice) {
		assert_ptr_equal(lw_advise_adviser(advice->id)->title, advice->title);
		assert_true(lw_advise_spoke(&asked.list, advice->id));
		assert_true(advice->gain_frac.low > 0);
	}
	assert_null(lw_advise_adviser("no.such"));
	assert_non_null(lw_advise_default(&asked.list));
	for (size_t i = 0; lw_advise_nth(i); i++) {
		assert_non_null(lw_advise_nth(i)->assumes);
		assert_non_null(lw_advise_nth(i)->wrong_if);
		assert_non_null(lw_advise_nth(i)->check);
	}
	done(&asked);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_slow_link_asks_for_bandwidth),
		cmocka_unit_test(dear_messages_ask_for_lower_latency),
		cmocka_unit_test(more_ranks_cost_what_a_ring_costs),
		cmocka_unit_test(a_slow_rank_is_named_with_what_it_costs),
		cmocka_unit_test(a_layer_that_dominates_is_named),
		cmocka_unit_test(half_the_bytes_are_worth_their_conversion_on_a_slow_link),
		cmocka_unit_test(fewer_exchanges_save_what_is_exposed),
		cmocka_unit_test(bursts_of_gradients_ask_for_explicit_groups),
		cmocka_unit_test(groups_are_lists_of_parameter_names),
		cmocka_unit_test(sparse_gradients_pay_below_one_over_n),
		cmocka_unit_test(sizes_that_a_run_does_not_hold_ask_for_a_probe),
		cmocka_unit_test(of_one_size_neither_network_nor_ranks_nor_settings_can_be_told),
		cmocka_unit_test(the_torus_is_for_hosts_of_several_ranks_and_nccl),
		cmocka_unit_test(reducing_inside_hosts_is_not_advised_twice),
		cmocka_unit_test(a_gain_that_hangs_on_what_is_not_known_is_not_called_none),
		cmocka_unit_test(a_star_is_seen_in_what_ranks_send),
		cmocka_unit_test(what_can_be_set_comes_first_and_ids_are_known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
