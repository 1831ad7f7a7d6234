/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_bad_input.c - what predict and advise say of whole runs that are not as they should be: a refusal
 * with the right words, or an answer that says what is odd, in text and in JSON alike.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/analyzer.h"
#include "analyzer/emit/advice.h"
#include "analyzer/emit/answer.h"
#include "analyzer/emit/report.h"
#include "tests/lib/run_fixture.h"

enum { N_STEPS = 14, MAX_ANSWER = 1 << 20 };

/* A name that no other step has: every record of a tensor gets one of its own, the same on all ranks. */
#define NAMES_OF_ONE_STEP                                                                          \
	"INSERT INTO string SELECT DISTINCT 1000 + batch * 16 + position,"                         \
	" 'allreduce.noname.' || (batch * 16 + position) FROM batch_tensor;"                       \
	"UPDATE batch_tensor SET name_id = 1000 + batch * 16 + position"

/* The second batch carries conv.weight: in every other step it has another name. */
#define NAME_OF_EVERY_OTHER_STEP                                                                   \
	"INSERT INTO string VALUES(1000, 'allreduce.aux.weight');"                                 \
	"UPDATE batch_tensor SET name_id = 1000 WHERE name_id = 3 AND batch / 2 % 2 = 0"

/* From T(7) on every step begins 20 ms later than the one before it would let it: 34.3 ms, then 54.3 ms.
 * T(0) is at 1 s. */
#define LATER(column) #column " + max((" #column " - 1240100000) / 34300000 + 1, 0) * 20000000"
#define SHIFT(table)                                                                               \
	"UPDATE " table " SET start_ns = " LATER(start_ns) ", end_ns = end_ns + " SHIFT_OF
#define SHIFT_OF                                                                                   \
	"max((start_ns - 1240100000) / 34300000 + 1, 0) * 20000000 WHERE start_ns > 1240100000;"
#define SHIFT_AT(table) "UPDATE " table " SET at_ns = " LATER(at_ns) " WHERE at_ns > 1240100000;"
#define STEPS_OF_TWO_LENGTHS                                                                       \
	SHIFT("batch")                                                                             \
	SHIFT("collective")                                                                        \
	SHIFT("cycle") SHIFT("wait") SHIFT_AT("ready") SHIFT_AT("batch_tensor")

static const struct input {
	const char *name;
	int n_ranks, size; /* 0: as many */
	bool no_wire;
	const char *sql;
	const char *refused; /* words of the refusal, NULL = there is an answer ... */
	const char *kind,
		*words; /* ... with this diag, NULL = none; its words, wherever lines end */
} inputs[] = {
	{"as it should be", 2, 0, false, NULL, NULL, NULL, NULL},
	{"no collective", 2, 0, false,
		"DELETE FROM batch; DELETE FROM batch_tensor; DELETE FROM ready; DELETE FROM cycle;"
		"DELETE FROM wait; DELETE FROM collective",
		"no collective operation was recorded", NULL, NULL},
	{"DDP over NCCL", 2, 0, false,
		"DELETE FROM batch; DELETE FROM batch_tensor; DELETE FROM ready; DELETE FROM cycle;"
		"UPDATE process SET framework = 2, transport = 3; UPDATE collective SET transport = 3",
		"do not say which bucket they are", NULL, NULL},
	{"one rank", 1, 0, false, NULL, NULL, "one_rank", "its operations cross no network"},
	{"one of three ranks", 1, 3, false, NULL, NULL, "missing ranks", "2 of 3 ranks are not in"},
	{"two of three ranks", 2, 3, false, NULL, NULL, "missing ranks", "1 of 3 ranks are not in"},
	{"mixed dtypes", 2, 0, false,
		"UPDATE batch SET dtype = 6 WHERE batch % 2 = 0;"
		"UPDATE batch_tensor SET dtype = 6 WHERE batch % 2 = 0",
		NULL, NULL, NULL},
	{"names of one step each", 2, 0, false, NAMES_OF_ONE_STEP, NULL, "changing_steps",
		"tensors are sent in some counted steps and not in others"},
	{"names and sizes of one step each", 2, 0, false,
		NAMES_OF_ONE_STEP "; UPDATE batch SET bytes = bytes + 8 * batch * n_tensors;"
				  "UPDATE batch_tensor SET bytes = bytes + 8 * batch",
		"give operations the same name in every step", NULL, NULL},
	{"steps of two lengths", 2, 0, false, STEPS_OF_TWO_LENGTHS, NULL, "two lengths",
		"6 steps take about 34.3 ms, 7 about 54.3 ms"},
	{"tensors that come and go", 2, 0, false, NAME_OF_EVERY_OTHER_STEP, NULL, "changing_steps",
		"the mean of the middle half of such different ones"},
	{"records lost", 2, 0, false, "INSERT INTO loss VALUES(2, 4, 1, 5000, '')", NULL,
		"ring full", "5000 records lost"},
	{"a counter that could not be read", 2, 0, false,
		"INSERT INTO loss VALUES(NULL, NULL, 14, 1, 'the network namespace of pid 7 cannot be entered')",
		NULL, "counter or socket that could not be read",
		"the network namespace of pid 7 cannot be entered"},
	{"a captured device that disappeared", 2, 0, false,
		"INSERT INTO capture VALUES(1, 1, 'eth7', '', 'live', 'EN10MB', 128, 0, 9, 0, 0, 0, 0, 0, 0, 0, 'eth7: The interface disappeared')",
		NULL, "packets not captured", "--pcap of eth7: The interface disappeared"},
	{"packets that were dropped", 2, 0, false,
		"INSERT INTO capture VALUES(1, 1, 'eth7', '', 'live', 'EN10MB', 128, 0, 9, 0, 5, 0, 0, 0, 0, 0, NULL)",
		NULL, "packets not captured", "packets that the kernel had no room for"},
	{"a capture of another device", 2, 0, false,
		"INSERT INTO socket VALUES(NULL, 1, 1, 0, '10.0.0.1', 1, '10.0.0.2', 2);"
		"INSERT INTO socket_sample VALUES(1, 1, 5, 1, 1000, 0, 1, 1);"
		"INSERT INTO capture VALUES(1, 1, 'eth7', '', 'live', 'EN10MB', 128, 0, 9, 3, 0, 0, 0, 0, 0, 0, NULL)",
		NULL, "capture without the job",
		"--pcap of eth7: none of its 3 packets is of a recorded process"},
	{"a rank that died", 2, 0, false, "UPDATE process SET ended = 'died' WHERE rank = 1", NULL,
		"process ended without saying so (killed or crashed)", "rank 1: process ended"},
	{"a rank killed in an operation", 2, 0, false,
		"UPDATE process SET ended = 'died' WHERE rank = 1;"
		"DELETE FROM batch WHERE batch = (SELECT max(batch) FROM batch)",
		NULL, "unfinished operation",
		"rank 1 was killed: its last operation to end did so"},
	{"a rank that waited in vain and ended by itself", 2, 0, false,
		"UPDATE process SET end_ns = 61000000000 WHERE rank = 1;"
		"DELETE FROM batch WHERE batch = (SELECT max(batch) FROM batch)",
		NULL, "unfinished operation",
		"rank 1 waited in vain: its last operation to end did so"},
	{"a run that was not closed", 2, 0, false, "UPDATE run SET closed = 0", NULL, "not closed",
		"lapwing salvage"},
	{"transport not seen", 2, 0, true, NULL, NULL, "wire time not seen",
		"their copies count as ALLREDUCE"},
	{"a process set beside the global one", 2, 0, false,
		"UPDATE batch SET process_set = 1 WHERE batch % 2 = 0",
		"process set 1 beside the global one", NULL, NULL},
	{"all in another process set", 2, 0, false, "UPDATE batch SET process_set = 1",
		"everything in process set 1, nothing in the global one", NULL, NULL},
};

/* ---- what is printed ------------------------------------------------------------------------------- */

/* Lines of text run on into each other: where they end is of no matter. */
static void join_lines(char *text)
{
	char *to = text;

	for (const char *from = text; *from; from++)
		if ((*from != ' ' && *from != '\n') || (to > text && to[-1] != ' '))
			*to++ = *from == '\n' ? ' ' : *from;
	*to = '\0';
}

static void has(const struct input *input, const char *verb, const char *text, const char *words)
{
	if (!strstr(text, words))
		fail_msg("%s: %s does not say '%s':\n%s", input->name, verb, words, text);
}

static void check_text(const struct input *input, const char *verb, char *text)
{
	char ranks[32];
	const char *line = strstr(text, "Quality of this run"); /* before it are lines of code */

	while (line && *line) {
		assert_true(strcspn(line, "\n") < 80);
		line += strcspn(line, "\n");
		line += *line == '\n';
	}
	join_lines(text);
	if (input->refused) {
		has(input, verb, text, input->refused);
		return;
	}
	if (!input->kind) {
		if (strstr(text, "Quality of this run"))
			fail_msg("%s: %s is not content:\n%s", input->name, verb, text);
		return;
	}
	line = strstr(text, "Quality of this run");
	line = line ? strstr(line, input->kind) : NULL;
	if (line && strstr(line + 1, input->kind))
		fail_msg("%s: %s says twice '%s':\n%s", input->name, verb, input->kind, text);
	has(input, verb, text, "Quality of this run");
	has(input, verb, text, input->kind);
	has(input, verb, text, input->words);
	if (!input->size || !strcmp(verb, "advise"))
		return;
	snprintf(ranks, sizeof(ranks), "%d of %d ranks", input->n_ranks, input->size);
	has(input, verb, text, ranks);
}

static void check_json(const struct input *input, const char *verb, const char *text)
{
	char kind[128];

	if (!input->kind)
		return;
	snprintf(kind, sizeof(kind), "\"kind\": \"%s\"", input->kind);
	has(input, verb, text, kind);
}

/* ---- the verbs -------------------------------------------------------------------------------------- */

static struct lw_run *reconstruct(const struct input *input)
{
	struct make_run spec = make_run_job(input->n_ranks, N_STEPS);
	const char *path = run_fixture_path("bad.lapwing");
	struct lw_run *run;

	spec.size = input->size;
	spec.no_wire = input->no_wire;
	spec.extra_sql = input->sql;
	remove(path);
	make_run_write(path, &spec);
	assert_int_equal(lw_run_reconstruct(&path, 1, LW_STORE_WRITE, NULL, &run), LW_OK);
	return run;
}

static void check_answer(const struct input *input, struct lw_predictor *predictor)
{
	struct lw_ask ask = {.question = LW_ASK_ONE,
		.model = lw_model_find("hvd_cycle"),
		.whatif = LW_WHATIF_RECORDED};
	struct lw_answer answer;
	char *text, *json;
	size_t n;
	FILE *out;

	ask.whatif.bandwidth_frac = 2;
	assert_int_equal(lw_answer(predictor, &ask, &answer), LW_OK);
	out = open_memstream(&text, &n);
	lw_answer_text(&answer, out);
	fclose(out);
	check_text(input, "predict", text);
	out = open_memstream(&json, &n);
	assert_int_equal(lw_answer_json(&answer, out), LW_OK);
	fclose(out);
	check_json(input, "predict --json", json);
	lw_answer_done(&answer);
	free(text);
	free(json);
}

static void check_predict(const struct input *input)
{
	struct lw_run *run = reconstruct(input);
	struct lw_predictor *predictor = NULL;
	int status = lw_predictor_new(run, &predictor);

	if (input->refused) {
		if (status != LW_ERR_LIMIT)
			fail_msg("%s: predict does not refuse: %d", input->name, status);
		has(input, "predict", lw_error_text(), input->refused);
	} else {
		if (status < 0)
			fail_msg("%s: predict: %s", input->name, lw_error_text());
		check_answer(input, predictor);
	}
	lw_predictor_free(predictor);
	lw_run_free(run);
}

static void check_advise(const struct input *input)
{
	static char text[MAX_ANSWER];
	struct lw_run *run = reconstruct(input);
	struct lw_advice_list list;
	struct lw_json *json;
	FILE *out;

	assert_int_equal(lw_advise(run, &list), LW_OK);
	assert_int_equal(!list.replay, input->refused != NULL);
	out = fmemopen(text, sizeof(text), "w");
	lw_advice_text(&list, run, out);
	fclose(out);
	check_text(input, "advise", text);
	out = fmemopen(text, sizeof(text), "w");
	lw_advice_explain_text(&list, run, "horovod.fusion_cycle", out);
	fclose(out);
	check_text(input, "advise --explain", text);
	json = lw_json_open();
	lw_json_array(json, NULL);
	lw_json_diags(json, run);
	lw_json_array_end(json);
	out = fmemopen(text, sizeof(text), "w");
	assert_int_equal(lw_json_close(json, out), LW_OK);
	fclose(out);
	check_json(input, "advise --json", text);
	lw_advice_list_free(&list);
	lw_run_free(run);
}

static void each_is_refused_or_answered_with_what_is_odd(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(inputs) / sizeof(inputs[0]); i++) {
		print_message("%s\n", inputs[i].name);
		check_predict(&inputs[i]);
		check_advise(&inputs[i]);
	}
}

/* Only equal dtypes fuse: with one the two batches of a step become one in a long cycle. */
static void other_dtypes_are_never_fused(void **state)
{
	struct lw_whatif whatif = LW_WHATIF_RECORDED;
	double n_ops[2];

	(void)state;
	whatif.cycle_ns = 60e6;
	for (size_t i = 0; i < 2; i++) {
		struct input input = {.name = "dtypes",
			.n_ranks = 2,
			.sql = i == 0 ? NULL
				      : "UPDATE batch SET dtype = 6 WHERE batch % 2 = 0;"
					"UPDATE batch_tensor SET dtype = 6 WHERE batch % 2 = 0"};
		struct lw_run *run = reconstruct(&input);
		struct lw_prediction prediction;
		struct lw_replay *replay;

		assert_int_equal(lw_replay_new(run, &replay), LW_OK);
		assert_int_equal(lw_replay_predict(replay, &whatif, &prediction, NULL), LW_OK);
		n_ops[i] = (double)prediction.totals.n_batches / replay->input.n_steps;
		lw_replay_free(replay);
		lw_run_free(run);
	}
	print_message("%.2f operations a step of one dtype, %.2f of two\n", n_ops[0], n_ops[1]);
	assert_true(n_ops[0] < 1.8 && n_ops[1] > 1.99);
}

/* One of a job larger than any: it is not taken for rank 0 of 1, and those that are missing are counted. */
static void a_rank_of_a_huge_job_is_itself(void **state)
{
	struct make_run spec = make_run_job(1, 3);
	struct lw_run *run;

	(void)state;
	spec.extra_sql = "UPDATE process SET rank = 1000000000, size = 2000000000";
	run = run_fixture_load(&spec);
	assert_int_equal(run->ranks.n, 1);
	assert_int_equal(run->ranks.at[0].rank, 1000000000);
	assert_int_equal(run->size, 2000000000);
	assert_int_equal(run->n_missing_ranks, 1999999999);
	assert_int_equal(run_fixture_diag(run, "missing ranks"), 1999999999);
	lw_run_free(run);
}

/* What a full disk left: why nothing is in it comes before that nothing is. */
static void a_run_that_was_not_closed_says_so_first(void **state)
{
	const struct lw_report_options options = {.rank = LW_NONE};
	const struct lw_analysis_options how = {.is_read_only = true};
	struct make_run spec = make_run_job(1, 2);
	static char text[MAX_ANSWER];
	const char *path, *no_steps;
	struct lw_analysis *analysis;
	FILE *out;

	(void)state;
	spec.extra_sql = "DELETE FROM batch; DELETE FROM batch_tensor; DELETE FROM ready;"
			 "DELETE FROM cycle; DELETE FROM wait; DELETE FROM collective;"
			 "DELETE FROM thread; DELETE FROM process; UPDATE run SET closed = 0";
	path = run_fixture_path("run.lapwing");
	make_run_write(path, &spec);
	assert_int_equal(lw_analysis_open(&path, 1, &how, &analysis), LW_OK);
	out = fmemopen(text, sizeof(text), "w");
	lw_report_text(analysis, &options, out);
	fclose(out);
	lw_analysis_close(analysis);
	assert_int_equal(strncmp(text, "no rank of a job\n", 17), 0);
	no_steps = strstr(text, "No training step was found");
	assert_non_null(no_steps);
	assert_in_range(strstr(text, "still being written") - text, 1, no_steps - text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_is_refused_or_answered_with_what_is_odd),
		cmocka_unit_test(other_dtypes_are_never_fused),
		cmocka_unit_test(a_rank_of_a_huge_job_is_itself),
		cmocka_unit_test(a_run_that_was_not_closed_says_so_first),
	};

	return cmocka_run_group_tests(tests, run_fixture_make, run_fixture_remove);
}
