/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd_doctor.c - `lapwing doctor [-- CMD...]`: which hooks can see this command, before it runs.
 *
 * Looks at files only; the one thing it runs is the command's own Python, to ask where packages lie
 * (they are found, not imported). Each check is one row of checks[]: a question and its answer.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyzer/emit/json.h"
#include "base/str.h"
#include "base/units.h"
#include "cli/cmd.h"
#include "cli/doctor.h"
#include "generated/schema_doctor.h"

static const char *const verdict_names[] = {"yes", "no", "unsure"};

/* ---- the questions ------------------------------------------------------------------------------- */

static void check_horovod(const struct lw_doctor_patient *patient, struct lw_doctor_answer *answer)
{
	size_t n_vtables, n_execute;

	if (!patient->horovod_dir[0]) {
		lw_doctor_say_none(patient, answer,
			patient->python[0]
				? "this Python has no Horovod"
				: "not a Python program (what a script starts is seen all the same)");
		return;
	}
	if (!patient->extension[0]) {
		lw_doctor_say(answer, LW_DOCTOR_NO,
			"%s has no built extension (import horovod.torch would fail)",
			patient->horovod_dir);
		return;
	}
	n_vtables = lw_probe_count_symbols(patient->extension, "_ZTVN7horovod6common");
	n_execute = lw_probe_count_symbols(patient->extension, "7ExecuteERSt6vector");
	if (n_vtables && n_execute)
		lw_doctor_say(answer, LW_DOCTOR_YES,
			"every tensor's ready time, batches and coordination cycles, on every rank (%zu operations found in %s)",
			n_execute, patient->extension);
	else
		lw_doctor_say(answer, LW_DOCTOR_UNSURE,
			"%s exports no operation tables: cycles and readiness from its transport only",
			patient->extension);
}

static void check_mpi(const struct lw_doctor_patient *patient, struct lw_doctor_answer *answer)
{
	const struct lw_probe *program = &patient->program, *extension = &patient->extension_probe;
	bool in_extension = lw_probe_needs(extension, "libmpi");

	if (lw_probe_needs(program, "libmpi") || in_extension)
		lw_doctor_say(answer, LW_DOCTOR_YES, "collectives and messages of %s",
			in_extension ? "Horovod's MPI transport" : program->path);
	else if (lw_probe_count_symbols(program->path, "MPI_Allreduce"))
		lw_doctor_say(answer, LW_DOCTOR_NO,
			"MPI is linked into %s statically: relink it with the shared library",
			program->path);
	else if (patient->mpi4py_dir[0])
		lw_doctor_say(answer, LW_DOCTOR_YES, "mpi4py's calls, if the script uses it (%s)",
			patient->mpi4py_dir);
	else
		lw_doctor_say_none(patient, answer, "nothing here is linked to MPI");
}

static void check_gloo(const struct lw_doctor_patient *patient, struct lw_doctor_answer *answer)
{
	size_t n = patient->extension[0]
			   ? lw_probe_count_symbols(patient->extension, "14GlooController")
			   : 0;

	if (n)
		lw_doctor_say(answer, LW_DOCTOR_YES, "Horovod's Gloo transport");
	else if (patient->torch_dir[0])
		lw_doctor_say(answer, LW_DOCTOR_UNSURE,
			"torch.distributed over Gloo: collectives, and the buckets of DDP where its library exports them");
	else
		lw_doctor_say_none(patient, answer, "no Gloo here");
}

static void check_ddp(const struct lw_doctor_patient *patient, struct lw_doctor_answer *answer)
{
	char library[4200];
	size_t n;

	snprintf(library, sizeof(library), "%s/lib/libtorch_cpu.so", patient->torch_dir);
	n = patient->torch_dir[0] ? lw_probe_count_symbols(library, "16ProcessGroupGloo") : 0;
	if (n)
		lw_doctor_say(answer, LW_DOCTOR_YES,
			"buckets of DistributedDataParallel over Gloo, when each was ready and ran");
	else if (patient->torch_dir[0])
		lw_doctor_say(answer, LW_DOCTOR_UNSURE,
			"this torch shows no Gloo process group in %s", library);
	else
		lw_doctor_say_none(patient, answer, "no torch here");
}

static void check_sockets(const struct lw_doctor_patient *patient, struct lw_doctor_answer *answer)
{
	(void)patient;
	lw_doctor_say(answer, LW_DOCTOR_YES,
		"bytes of every TCP connection; traffic of io_uring or RDMA does not pass here");
}

enum check_kind {
	OF_HOST = 0,
	MUST = 1,     /* without a yes nothing is recorded at all */
	OF_JOB = 2,   /* is not asked without a command */
	STARTS = 4,   /* a yes: there is something for which a process is traced */
	FOLLOWS = 8,  /* a hook that sees processes that are traced, and makes none of them so */
	OF_HOOK = 16, /* is not asked of a command that is not there, or not on this host's files */
};

static const struct check {
	const char *id, *question;
	int kind; /* bits of enum check_kind */
	void (*run)(const struct lw_doctor_patient *patient, struct lw_doctor_answer *answer);
} checks[] = {
	{"library", "Does the tracer load?", MUST, lw_doctor_check_library},
	{"rings", "Is there room to record?", MUST, lw_doctor_check_ring_space},
	{"out", "Can the run be written?", OF_HOST, lw_doctor_check_out},
	{"left", "Are earlier runs stored?", OF_HOST, lw_doctor_check_left},
	{"preload", "Is LD_PRELOAD free?", OF_HOST, lw_doctor_check_preload},
	{"cores", "A core for each rank?", OF_JOB, lw_doctor_check_cores},
	{"reach", "Does LD_PRELOAD reach it?", MUST | OF_JOB, lw_doctor_check_reach},
	{"horovod", "Horovod hook", OF_JOB | OF_HOOK | STARTS, check_horovod},
	{"mpi", "MPI hook", OF_JOB | OF_HOOK | STARTS, check_mpi},
	{"gloo", "Gloo hook", OF_JOB | OF_HOOK | STARTS, check_gloo},
	{"ddp", "torch DDP hook", OF_JOB | OF_HOOK | STARTS, check_ddp},
	{"nccl", "NCCL", OF_JOB | OF_HOOK | STARTS, lw_doctor_check_nccl},
	{"nccl_preload", "NCCL by preload", OF_JOB | OF_HOOK, lw_doctor_check_nccl_preload},
	{"nccl_plugin", "NCCL profiler plugin", OF_JOB | OF_HOOK, lw_doctor_check_nccl_plugin},
	{"nvtx", "NVTX ranges", OF_HOOK | FOLLOWS, lw_doctor_check_nvtx},
	{"cupti", "CUPTI: GPU work", OF_HOOK | FOLLOWS, lw_doctor_check_cupti},
	{"socket", "Socket hook", OF_JOB | OF_HOOK | FOLLOWS, check_sockets},
	{"verbs", "RDMA verbs hook", OF_HOOK | FOLLOWS, lw_doctor_check_verbs},
	{"sample", "NIC and TCP counters", OF_HOST, lw_doctor_check_samplers},
	{"nvml", "GPU counters", OF_HOST, lw_doctor_check_nvml},
	{"pcap", "Packet capture", OF_HOST, lw_doctor_check_pcap},
};
enum { N_CHECKS = sizeof(checks) / sizeof(checks[0]) };

static bool is_asked(const struct check *check, const struct lw_doctor_patient *patient)
{
	if (!patient->command)
		return !(check->kind & OF_JOB);
	return !(check->kind & OF_HOOK) ||
	       (patient->launcher.kind != LW_PROBE_MISSING && !lw_doctor_is_elsewhere(patient));
}

/* Of a process that merely has them nothing is recorded. */
static void add_condition(const struct check *check, struct lw_doctor_answer *answer)
{
	char text[sizeof(answer->text)];

	if (answer->verdict == LW_DOCTOR_NO)
		return;
	memcpy(text, answer->text, sizeof(text));
	lw_doctor_say(answer, LW_DOCTOR_UNSURE,
		"only in a process that uses MPI, Horovod, Gloo or NCCL, %sor calls lapwing_mark_step() (lapwing_mark.h), which this command is not known to do: %.320s",
		check->run == lw_doctor_check_cupti ? "has a rank from its launcher, " : "", text);
}

/* ---- the verb --------------------------------------------------------------------------------------- */

struct options {
	struct lw_cli_json json;
	char **command;
};

static error_t parse(int key, char *argument, struct argp_state *state)
{
	struct options *options = state->input;

	(void)argument;
	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &options->json;
		return 0;
	case ARGP_KEY_ARGS:
		options->command = state->argv + state->next;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

int lw_cmd_doctor(int argc, char **argv)
{
	static const struct argp_child children[] = {{&lw_cli_json_argp, 0, NULL, 0}, {0}};
	static const struct argp argp = {NULL, parse, "[-- COMMAND [ARG...]]",
		"Says which hooks can see COMMAND, without running it; without COMMAND, whether this machine is fit."
		"\vExit codes: 0 the tracer can work, 1 it cannot (a check under \"must\" says no).",
		children, NULL, NULL};
	static struct lw_doctor_patient patient;
	struct options options = {.json.schema = schema_doctor};
	struct lw_json *json = NULL;
	int code = LW_EXIT_OK, status;
	bool is_traced = false;

	lw_cli_parse(&argp, argc, argv, ARGP_IN_ORDER, &options);
	patient.command = options.command;
	if (patient.command) {
		lw_doctor_examine(&patient);
		lw_doctor_find_nccl(&patient);
	}
	if (options.json.is_wanted) {
		json = lw_json_open();
		lw_json_object(json, NULL);
		lw_json_string(json, "lapwing", "doctor");
		lw_json_int(json, "schema_version", 1);
		lw_json_array(json, "checks");
	}
	for (size_t i = 0; i < N_CHECKS; i++) {
		struct lw_doctor_answer answer = {LW_DOCTOR_UNSURE, ""};

		if (!is_asked(&checks[i], &patient))
			continue;
		checks[i].run(&patient, &answer);
		is_traced |= (checks[i].kind & STARTS) && answer.verdict == LW_DOCTOR_YES;
		if ((checks[i].kind & FOLLOWS) && patient.command && !is_traced)
			add_condition(&checks[i], &answer);
		if ((checks[i].kind & MUST) && answer.verdict == LW_DOCTOR_NO)
			code = LW_EXIT_FAILED;
		if (json) {
			lw_json_object(json, NULL);
			lw_json_string(json, "id", checks[i].id);
			lw_json_string(json, "verdict", verdict_names[answer.verdict]);
			lw_json_bool(json, "must", checks[i].kind & MUST);
			lw_json_string(json, "text", answer.text);
			lw_json_object_end(json);
		} else {
			printf("%-26s %-6s %s\n", checks[i].question, verdict_names[answer.verdict],
				answer.text);
		}
	}
	if (json) {
		lw_json_array_end(json);
		lw_json_object_end(json);
		status = lw_json_close(json, stdout);
		if (status < 0)
			return lw_cli_fail(status);
	} else if (!patient.command) {
		printf("\n`lapwing doctor -- COMMAND` says which hooks can see a command.\n");
	}
	return code;
}
