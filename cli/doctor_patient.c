/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_patient.c - what a command is: its launcher, its program, its Python and where that has what packages. */
#include <dirent.h>
#include <errno.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/str.h"
#include "cli/cmd.h"
#include "cli/doctor.h"

void lw_doctor_say(
	struct lw_doctor_answer *answer, enum lw_doctor_verdict verdict, const char *format, ...)
{
	va_list args;

	answer->verdict = verdict;
	va_start(args, format);
	vsnprintf(answer->text, sizeof(answer->text), format, args);
	va_end(args);
}

void lw_doctor_say_none(
	const struct lw_doctor_patient *patient, struct lw_doctor_answer *answer, const char *text)
{
	if (patient->is_shell)
		lw_doctor_say(answer, LW_DOCTOR_UNSURE,
			"a shell starts what does the work: it is seen when it runs, and not known before");
	else
		lw_doctor_say(answer, LW_DOCTOR_NO, "%s", text);
}

int lw_doctor_ask(const char *const *argv, char *line, size_t line_bytes)
{
	posix_spawn_file_actions_t actions;
	ssize_t n = 0, got;
	int ends[2], status;
	pid_t pid;

	line[0] = '\0';
	if (pipe(ends) < 0)
		return -1;
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
	posix_spawn_file_actions_addclose(&actions, ends[0]);
	posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", 1 /* O_WRONLY */, 0);
	status = posix_spawnp(
		&pid, argv[0], &actions, NULL, (char *const *)(uintptr_t)argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	close(ends[1]);
	while (status == 0 && n < (ssize_t)line_bytes - 1 &&
		(got = read(ends[0], line + n, line_bytes - 1 - (size_t)n)) > 0)
		n += got;
	close(ends[0]);
	line[n] = '\0';
	line[strcspn(line, "\n")] = '\0';
	if (status != 0 || waitpid(pid, &status, 0) != pid)
		return -1;
	return status;
}

/* First line that `python -c @code` prints, "" on any failure. */
static void ask_python(const char *python, const char *code, char *text, size_t room)
{
	lw_doctor_ask((const char *const[]){python, "-c", code, NULL}, text, room);
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

static void find_extension(struct lw_doctor_patient *patient)
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

bool lw_doctor_is_python(const char *path)
{
	const char *name = strrchr(path, '/');

	return !strncmp(name ? name + 1 : path, "python", 6);
}

static const char *base_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static bool is_shell(const char *path)
{
	static const char *const names[] = {
		"sh", "bash", "dash", "ash", "ksh", "zsh", "csh", "tcsh", "fish"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(base_of(path), names[i]))
			return true;
	return false;
}

static void take_python(struct lw_doctor_patient *patient, const char *name)
{
	struct lw_probe probe;

	lw_probe_command(name, &probe); /* "#!/usr/bin/env python3" names no path */
	snprintf(patient->python, sizeof(patient->python), "%s", probe.path);
}

/* "cd job && python3 train.py": the first word that is a Python. */
static void look_into_text(struct lw_doctor_patient *patient, const char *text)
{
	char *copy = strdup(text), *rest = copy, *word;
	struct lw_probe probe;

	while (copy && (word = strsep(&rest, " \t\n;&|()\"'"))) {
		if (!*word || !lw_doctor_is_python(word))
			continue;
		lw_probe_command(word, &probe);
		if (probe.kind < LW_PROBE_SCRIPT)
			continue;
		take_python(patient, word);
		break;
	}
	free(copy);
}

/* A Python script as launcher (torchrun) runs the next one in the same Python. Return: the rest are arguments. */
static bool take_word(struct lw_doctor_patient *patient, char **word)
{
	size_t n = strlen(*word);
	bool is_script = n > 3 && !strcmp(*word + n - 3, ".py");
	struct lw_probe probe;

	if (patient->python[0] && is_script)
		return true;
	lw_probe_command(*word, &probe);
	if (probe.kind != LW_PROBE_SCRIPT && probe.kind != LW_PROBE_DYNAMIC &&
		probe.kind != LW_PROBE_STATIC)
		return false;
	patient->program = probe;
	patient->python[0] = '\0';
	if (lw_doctor_is_python(*word) || lw_doctor_is_python(probe.path)) {
		snprintf(patient->python, sizeof(patient->python), "%s", probe.path);
		return true; /* what follows are its script and arguments */
	}
	if (lw_doctor_is_python(probe.interpreter)) {
		take_python(patient, probe.interpreter);
		return is_script;
	}
	if (!is_shell(*word))
		return false;
	while (*++word)
		if ((!strcmp(*word, "-c") || !strcmp(*word, "-lc")) && word[1]) {
			look_into_text(patient, word[1]);
			return true;
		}
	return false;
}

/*
 * "mpirun -np 2 -x A=B python3 job.py": the program is the last word that is an executable file, so
 * that launchers, env and wrappers in front of it need no list of names.
 */
void lw_doctor_examine(struct lw_doctor_patient *patient)
{
	lw_probe_command(patient->command[0], &patient->launcher);
	patient->program = patient->launcher;
	for (char **word = patient->command; *word; word++)
		if (**word != '-' && !strchr(*word, '=') && take_word(patient, word))
			break;
	patient->is_shell = !patient->python[0] && (is_shell(patient->program.path) ||
							   is_shell(patient->program.interpreter));
	if (!patient->python[0])
		return;
	find_package(
		patient->python, "horovod", patient->horovod_dir, sizeof(patient->horovod_dir));
	find_package(patient->python, "torch", patient->torch_dir, sizeof(patient->torch_dir));
	find_package(patient->python, "mpi4py", patient->mpi4py_dir, sizeof(patient->mpi4py_dir));
	if (patient->horovod_dir[0])
		find_extension(patient);
}
