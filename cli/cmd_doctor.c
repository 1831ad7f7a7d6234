/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd_doctor.c - `lapwing doctor [-- CMD...]`: which hooks can see this command, before it runs.
 *
 * Looks at files only; the one thing it runs is the command's own Python, to ask where packages lie
 * (they are found, not imported). Each check is one row of checks[]: a question and its answer.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "analyzer/emit/json.h"
#include "base/units.h"
#include "cli/cmd.h"
#include "cli/probe.h"
#include "generated/schema_doctor.h"
#include "schema/ring.h"
#include "schema/rundir.h"

enum verdict { YES, NO, UNSURE };
static const char *const verdict_names[] = {"yes", "no", "unsure"};

struct answer {
	enum verdict verdict;
	char text[512];
};

struct patient {
	char **command;           /* NULL-terminated; NULL: no command was given */
	struct lw_probe launcher; /* its first word */
	struct lw_probe program;  /* what does the work: the last program on the line that exists */
	char python[4096];        /* interpreter that runs it, "" = none */
	char horovod_dir[4096], torch_dir[4096], mpi4py_dir[4096];
	char extension[4096]; /* Horovod's core, "" = not found */
	struct lw_probe extension_probe;
};

static void say(struct answer *answer, enum verdict verdict, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static void say(struct answer *answer, enum verdict verdict, const char *format, ...)
{
	va_list args;

	answer->verdict = verdict;
	va_start(args, format);
	vsnprintf(answer->text, sizeof(answer->text), format, args);
	va_end(args);
}

/* ---- finding out ------------------------------------------------------------------------------- */

/* First line that `python -c @code` prints, "" on any failure. */
static void ask_python(const char *python, const char *code, char *text, size_t room)
{
	const char *const argv[] = {python, "-c", code, NULL};
	posix_spawn_file_actions_t actions;
	ssize_t n = 0, got;
	int ends[2], status;
	pid_t pid;

	text[0] = '\0';
	if (pipe(ends) < 0)
		return;
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
	posix_spawn_file_actions_addclose(&actions, ends[0]);
	posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", 1 /* O_WRONLY */, 0);
	status =
		posix_spawnp(&pid, python, &actions, NULL, (char *const *)(uintptr_t)argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	close(ends[1]);
	while (status == 0 && n < (ssize_t)room - 1 &&
		(got = read(ends[0], text + n, room - 1 - (size_t)n)) > 0)
		n += got;
	close(ends[0]);
	text[n] = '\0';
	text[strcspn(text, "\n")] = '\0';
	if (status == 0)
		waitpid(pid, &status, 0);
}

static void find_package(const char *python, const char *name, char *dir, size_t room)
{
	char code[256];

	snprintf(code, sizeof(code),
		"import importlib.util as u; s = u.find_spec('%s'); "
		"print(list(s.submodule_search_locations)[0] if s and s.submodule_search_locations else '')",
		name);
	ask_python(python, code, dir, room);
}

static void find_extension(struct patient *patient)
{
	static const char *const folders[] = {"torch", "tensorflow", "mxnet"};

	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
		char folder[4200];
		struct dirent *entry;
		DIR *dir;

		snprintf(folder, sizeof(folder), "%s/%s", patient->horovod_dir, folders[i]);
		dir = opendir(folder);
		while (dir && (entry = readdir(dir)))
			if (!strncmp(entry->d_name, "mpi_lib", 7) && strstr(entry->d_name, ".so"))
				snprintf(patient->extension, sizeof(patient->extension),
					"%.3000s/%.255s", folder, entry->d_name);
		if (dir)
			closedir(dir);
		if (patient->extension[0])
			break;
	}
	if (patient->extension[0])
		lw_probe_file(patient->extension, &patient->extension_probe);
}

static bool is_python(const char *path)
{
	const char *name = strrchr(path, '/');

	return !strncmp(name ? name + 1 : path, "python", 6);
}

/*
 * "mpirun -np 2 -x A=B python3 job.py": the program is the last word that is an executable file, so
 * that launchers, env and wrappers in front of it need no list of names.
 */
static void examine(struct patient *patient)
{
	lw_probe_command(patient->command[0], &patient->launcher);
	patient->program = patient->launcher;
	for (char **word = patient->command; *word; word++) {
		struct lw_probe probe;

		if (**word == '-' || strchr(*word, '='))
			continue;
		lw_probe_command(*word, &probe);
		if (probe.kind != LW_PROBE_SCRIPT && probe.kind != LW_PROBE_DYNAMIC &&
			probe.kind != LW_PROBE_STATIC)
			continue;
		patient->program = probe;
		if (is_python(*word) || is_python(probe.path)) {
			snprintf(patient->python, sizeof(patient->python), "%s", probe.path);
			break; /* what follows are its script and arguments */
		}
		if (is_python(probe.interpreter) && !word[1])
			snprintf(patient->python, sizeof(patient->python), "%s", probe.interpreter);
	}
	if (!patient->python[0])
		return;
	find_package(
		patient->python, "horovod", patient->horovod_dir, sizeof(patient->horovod_dir));
	find_package(patient->python, "torch", patient->torch_dir, sizeof(patient->torch_dir));
	find_package(patient->python, "mpi4py", patient->mpi4py_dir, sizeof(patient->mpi4py_dir));
	if (patient->horovod_dir[0])
		find_extension(patient);
}

/* ---- the questions ------------------------------------------------------------------------------- */

static void check_library(const struct patient *patient, struct answer *answer)
{
	char path[4096], own[4096];
	ssize_t n = readlink("/proc/self/exe", own, sizeof(own) - 1);
	char *slash;

	(void)patient;
	own[n > 0 ? n : 0] = '\0';
	slash = strrchr(own, '/');
	if (slash)
		*slash = '\0';
	snprintf(path, sizeof(path), "%.3000s/../lib/liblapwing.so", own);
	if (access(path, R_OK) < 0)
		say(answer, NO, "%s is missing: build it, or install lapwing again", path);
	else if (strpbrk(own, LW_PRELOAD_SEPARATORS))
		say(answer, NO, "%s: LD_PRELOAD cannot name a path with a space or a colon", own);
	else if (!dlopen(path, RTLD_NOW | RTLD_LOCAL))
		say(answer, NO, "%s", dlerror());
	else
		say(answer, YES, "liblapwing.so loads");
}

static void check_ring_space(const struct patient *patient, struct answer *answer)
{
	double ring_bytes = (double)lw_ring_file_bytes(LW_RING_RECORDS_DEFAULT), room_bytes;
	char room[LW_UNIT_TEXT_BYTES], ring[LW_UNIT_TEXT_BYTES];
	struct statvfs fs;

	(void)patient;
	if (statvfs("/dev/shm", &fs) < 0) {
		say(answer, UNSURE,
			"no /dev/shm: rings go to $TMPDIR or /tmp, which may be a slow disk");
		return;
	}
	room_bytes = (double)fs.f_bavail * (double)fs.f_frsize;
	say(answer, room_bytes > 16 * ring_bytes ? YES : NO,
		"/dev/shm has %s free; a recording thread takes %s%s",
		lw_bytes_format(room_bytes, room), lw_bytes_format(ring_bytes, ring),
		room_bytes > 16 * ring_bytes
			? ""
			: ": give the container more (--shm-size), or use --ring-records");
}

static void check_reach(const struct patient *patient, struct answer *answer)
{
	const struct lw_probe *program = &patient->program;
	const char *name = program->path;

	if (patient->launcher.kind == LW_PROBE_MISSING) {
		say(answer, NO, "%s: no such command", patient->command[0]);
		return;
	}
	switch (program->kind) {
	case LW_PROBE_MISSING:
	case LW_PROBE_NOT_EXECUTABLE:
	case LW_PROBE_OTHER:
		say(answer, NO, "%s: not a program", name);
		return;
	case LW_PROBE_STATIC:
		say(answer, NO, "%s is linked statically: nothing can be preloaded into it", name);
		return;
	case LW_PROBE_LIBRARY:
	case LW_PROBE_SCRIPT:
	case LW_PROBE_DYNAMIC:
		break;
	}
	if (program->is_privileged || patient->launcher.is_privileged)
		say(answer, NO, "%s runs with another user's rights: the loader ignores LD_PRELOAD",
			program->is_privileged ? name : patient->launcher.path);
	else
		say(answer, YES, "%s takes LD_PRELOAD%s%s", name,
			patient->python[0] ? ", Python is " : "", patient->python);
}

static void check_preload(const struct patient *patient, struct answer *answer)
{
	const char *preload = getenv("LD_PRELOAD");

	(void)patient;
	if (preload && *preload)
		say(answer, UNSURE, "LD_PRELOAD is already \"%s\": kept, ours goes behind it",
			preload);
	else
		say(answer, YES, "LD_PRELOAD is free");
}

static void check_horovod(const struct patient *patient, struct answer *answer)
{
	size_t n_vtables, n_execute;

	if (!patient->horovod_dir[0]) {
		say(answer, NO, "%s",
			patient->python[0]
				? "this Python has no Horovod"
				: "not a Python program (what a script starts is seen all the same)");
		return;
	}
	if (!patient->extension[0]) {
		say(answer, NO, "%s has no built extension (import horovod.torch would fail)",
			patient->horovod_dir);
		return;
	}
	n_vtables = lw_probe_count_symbols(patient->extension, "_ZTVN7horovod6common");
	n_execute = lw_probe_count_symbols(patient->extension, "7ExecuteERSt6vector");
	if (n_vtables && n_execute)
		say(answer, YES,
			"every tensor's ready time, batches and coordination cycles, on every rank (%zu operations found in %s)",
			n_execute, patient->extension);
	else
		say(answer, UNSURE,
			"%s exports no operation tables: cycles and readiness from its transport only",
			patient->extension);
}

static void check_mpi(const struct patient *patient, struct answer *answer)
{
	const struct lw_probe *program = &patient->program, *extension = &patient->extension_probe;
	bool in_extension = lw_probe_needs(extension, "libmpi");

	if (lw_probe_needs(program, "libmpi") || in_extension)
		say(answer, YES, "collectives and messages of %s",
			in_extension ? "Horovod's MPI transport" : program->path);
	else if (lw_probe_count_symbols(program->path, "MPI_Allreduce"))
		say(answer, NO,
			"MPI is linked into %s statically: relink it with the shared library",
			program->path);
	else if (patient->mpi4py_dir[0])
		say(answer, YES, "mpi4py's calls, if the script uses it (%s)", patient->mpi4py_dir);
	else
		say(answer, NO, "nothing here is linked to MPI");
}

static void check_gloo(const struct patient *patient, struct answer *answer)
{
	size_t n = patient->extension[0]
			   ? lw_probe_count_symbols(patient->extension, "14GlooController")
			   : 0;

	if (n)
		say(answer, YES, "Horovod's Gloo transport");
	else if (patient->torch_dir[0])
		say(answer, UNSURE,
			"torch.distributed over Gloo: collectives, and the buckets of DDP where its library exports them");
	else
		say(answer, NO, "no Gloo here");
}

static void check_ddp(const struct patient *patient, struct answer *answer)
{
	char library[4200];
	size_t n;

	snprintf(library, sizeof(library), "%s/lib/libtorch_cpu.so", patient->torch_dir);
	n = patient->torch_dir[0] ? lw_probe_count_symbols(library, "16ProcessGroupGloo") : 0;
	if (n)
		say(answer, YES,
			"buckets of DistributedDataParallel over Gloo, when each was ready and ran");
	else if (patient->torch_dir[0])
		say(answer, UNSURE, "this torch shows no Gloo process group in %s", library);
	else
		say(answer, NO, "no torch here");
}

static void check_nccl(const struct patient *patient, struct answer *answer)
{
	if (lw_probe_needs(&patient->extension_probe, "libnccl"))
		say(answer, YES,
			"Horovod's batches on NCCL; NCCL's own calls come in a later version");
	else if (patient->extension[0] &&
		 lw_probe_count_symbols(patient->extension, "NCCLAllreduce"))
		say(answer, UNSURE,
			"Horovod has NCCL linked in statically: its batches are seen, NCCL's inside is not");
	else
		say(answer, NO, "no NCCL here");
}

static void check_sockets(const struct patient *patient, struct answer *answer)
{
	(void)patient;
	say(answer, YES,
		"bytes of every TCP connection; traffic of io_uring or RDMA does not pass here");
}

static void check_verbs(const struct patient *patient, struct answer *answer)
{
	DIR *devices = opendir("/sys/class/infiniband");
	void *library = dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_LOCAL);
	struct dirent *entry;
	int n_devices = 0;

	(void)patient;
	while (devices && (entry = readdir(devices)))
		n_devices += entry->d_name[0] != '.';
	if (devices)
		closedir(devices);
	if (!library)
		say(answer, NO, "no libibverbs.so.1 on this machine");
	else if (!dlsym(library, "verbs_set_ops"))
		say(answer, UNSURE,
			"libibverbs.so.1 is older than release 17, or not rdma-core's: its contexts are not seen to open");
	else if (!n_devices)
		say(answer, NO, "no RDMA device in /sys/class/infiniband");
	else
		say(answer, YES,
			"work requests and bytes by queue pair and peer; not what UCX, DOCA or a GPU post past libibverbs");
	if (library)
		dlclose(library);
}

static const struct check {
	const char *id, *question;
	bool is_must, needs_command; /* must: without a yes nothing is recorded at all */
	void (*run)(const struct patient *patient, struct answer *answer);
} checks[] = {
	{"library", "Does the tracer load?", true, false, check_library},
	{"rings", "Is there room to record?", true, false, check_ring_space},
	{"preload", "Is LD_PRELOAD free?", false, false, check_preload},
	{"reach", "Does LD_PRELOAD reach it?", true, true, check_reach},
	{"horovod", "Horovod hook", false, true, check_horovod},
	{"mpi", "MPI hook", false, true, check_mpi},
	{"gloo", "Gloo hook", false, true, check_gloo},
	{"ddp", "torch DDP hook", false, true, check_ddp},
	{"nccl", "NCCL", false, true, check_nccl},
	{"socket", "Socket hook", false, true, check_sockets},
	{"verbs", "RDMA verbs hook", false, true, check_verbs},
};
enum { N_CHECKS = sizeof(checks) / sizeof(checks[0]) };

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
	static struct patient patient;
	struct options options = {.json.schema = schema_doctor};
	struct lw_json *json = NULL;
	int code = LW_EXIT_OK, status;

	lw_cli_parse(&argp, argc, argv, ARGP_IN_ORDER, &options);
	patient.command = options.command;
	if (patient.command)
		examine(&patient);
	if (options.json.is_wanted) {
		json = lw_json_open();
		lw_json_object(json, NULL);
		lw_json_string(json, "lapwing", "doctor");
		lw_json_int(json, "schema_version", 1);
		lw_json_array(json, "checks");
	}
	for (size_t i = 0; i < N_CHECKS; i++) {
		struct answer answer = {UNSURE, ""};

		if (checks[i].needs_command && !patient.command)
			continue;
		checks[i].run(&patient, &answer);
		if (checks[i].is_must && answer.verdict == NO)
			code = LW_EXIT_FAILED;
		if (json) {
			lw_json_object(json, NULL);
			lw_json_string(json, "id", checks[i].id);
			lw_json_string(json, "verdict", verdict_names[answer.verdict]);
			lw_json_bool(json, "must", checks[i].is_must);
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
