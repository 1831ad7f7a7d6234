/* SPDX-License-Identifier: Apache-2.0 */
/*
 * doctor_reach.c - does LD_PRELOAD reach what does the work? Not through launchers that start it in another
 * environment: in a container, on another host, with another user's rights, or with a cleared one.
 *
 * A table of those launchers, since no file tells it. Of a launcher that is not in it nothing is assumed: what it is
 * given may be its arguments.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/doctor.h"

enum { MAX_OPTIONS = 5 };

static const struct barrier {
	const char *launcher;
	enum lw_doctor_verdict verdict;
	bool is_elsewhere; /* its files are not those that are looked at here */
	const char *options
		[MAX_OPTIONS]; /* only with one of them; a last '*' stands for any rest; none: always */
	const char *why;
} barriers[] = {
#define IN_CONTAINER                                                                               \
	"starts it in a container, with an environment and files of its own: have lapwing in the image, and start `lapwing record -- COMMAND` in it"
	{"docker", LW_DOCTOR_NO, true, {NULL}, IN_CONTAINER},
	{"podman", LW_DOCTOR_NO, true, {NULL}, IN_CONTAINER},
	{"nerdctl", LW_DOCTOR_NO, true, {NULL}, IN_CONTAINER},
	{"kubectl", LW_DOCTOR_NO, true, {NULL}, IN_CONTAINER},
	{"oc", LW_DOCTOR_NO, true, {NULL}, IN_CONTAINER},
#define WITH_CLEAN_ENVIRONMENT                                                                     \
	{                                                                                          \
		"-e", "--cleanenv", "-C", "--containall", NULL                                     \
	}
#define CLEAN_CONTAINER                                                                            \
	"starts it in a container without this environment: start `lapwing record -- COMMAND` in it, or leave the option out"
#define OPEN_CONTAINER                                                                             \
	"passes the environment on, and the container need not have liblapwing.so at this path: bind its folder (--bind), or start `lapwing record -- COMMAND` in it"
	{"singularity", LW_DOCTOR_NO, true, WITH_CLEAN_ENVIRONMENT, CLEAN_CONTAINER},
	{"apptainer", LW_DOCTOR_NO, true, WITH_CLEAN_ENVIRONMENT, CLEAN_CONTAINER},
	{"singularity", LW_DOCTOR_UNSURE, true, {NULL}, OPEN_CONTAINER},
	{"apptainer", LW_DOCTOR_UNSURE, true, {NULL}, OPEN_CONTAINER},
#define ON_OTHER_HOST                                                                              \
	"passes no environment to the other host: start `lapwing record -- COMMAND` there"
	{"ssh", LW_DOCTOR_NO, true, {NULL}, ON_OTHER_HOST},
	{"rsh", LW_DOCTOR_NO, true, {NULL}, ON_OTHER_HOST},
	{"pdsh", LW_DOCTOR_NO, true, {NULL}, ON_OTHER_HOST},
#define AS_OTHER_USER "drops LD_PRELOAD: start `lapwing record -- COMMAND` as that user, behind it"
	{"sudo", LW_DOCTOR_NO, false, {NULL}, AS_OTHER_USER},
	{"doas", LW_DOCTOR_NO, false, {NULL}, AS_OTHER_USER},
	{"pkexec", LW_DOCTOR_NO, false, {NULL}, AS_OTHER_USER},
	{"su", LW_DOCTOR_NO, false, {"-", "-l", "--login", NULL}, AS_OTHER_USER},
	{"su", LW_DOCTOR_UNSURE, false, {NULL},
		"drops LD_PRELOAD unless root starts it: start `lapwing record -- COMMAND` as that user, behind it"},
	{"env", LW_DOCTOR_NO, false, {"-i", "-", "--ignore-environment", NULL},
		"clears the environment: leave the option out, or start `lapwing record -- COMMAND` behind it"},
	{"env", LW_DOCTOR_NO, false, {"-uLD_PRELOAD", "--unset=LD_PRELOAD", NULL},
		"takes LD_PRELOAD out of the environment: leave the option out"},
	/* ALL, which is the default, passes everything */
	{"srun", LW_DOCTOR_NO, false, {"--export=NONE", "--export=NIL", NULL},
		"starts the ranks without this environment: use --export=ALL, or `srun ... lapwing record -o run-%r.lapwing -- COMMAND`"},
	{"srun", LW_DOCTOR_NO, false, {"--export=*", NULL},
		"passes the named variables alone: use --export=ALL,..."},
};

/* Launchers and wrappers that start what follows them, with the environment that they have. */
static const char *const starters[] = {"mpirun", "mpiexec", "orterun", "prterun", "horovodrun",
	"srun", "env", "nice", "ionice", "chrt", "numactl", "taskset", "time", "timeout", "nohup",
	"stdbuf", "setsid", "exec", "lapwing"};

static const char *base_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static bool is_starter(const char *word)
{
	for (size_t i = 0; i < sizeof(starters) / sizeof(starters[0]); i++)
		if (!strcmp(base_of(word), starters[i]))
			return true;
	return false;
}

static bool is_like(const char *word, const char *pattern)
{
	size_t n = strlen(pattern);

	return n && pattern[n - 1] == '*' ? !strncmp(word, pattern, n - 1) : !strcmp(word, pattern);
}

/* "-u LD_PRELOAD" and "--export NONE" as if they were one word. */
static const char *joined(char *const *word, char text[128])
{
	const char *value = word[1] ? word[1] : "";

	if (!strcmp(*word, "-u"))
		snprintf(text, 128, "-u%.100s", value);
	else if (!strcmp(*word, "--unset") || !strcmp(*word, "--export"))
		snprintf(text, 128, "%s=%.100s", *word, value);
	else
		return *word;
	return text;
}

/* Does @word, a launcher, get the option that makes it @barrier? Its options end where its command begins. */
static bool has_option(const struct barrier *barrier, char *const *word)
{
	char text[128];

	if (!barrier->options[0])
		return true;
	while (*++word) {
		const char *option = joined(word, text);

		if (!strncmp(option, "--export=", 9) &&
			(strstr(option, "ALL") || strstr(option, "LD_PRELOAD")))
			return false;
		for (size_t i = 0; i < MAX_OPTIONS && barrier->options[i]; i++)
			if (is_like(option, barrier->options[i]))
				return true;
		if (lw_doctor_is_python(*word))
			return false;
	}
	return false;
}

static const struct barrier *find_barrier(char *const *word)
{
	for (size_t i = 0; i < sizeof(barriers) / sizeof(barriers[0]); i++)
		if (!strcmp(base_of(*word), barriers[i].launcher) && has_option(&barriers[i], word))
			return &barriers[i];
	return NULL;
}

/* "-mca plm_rsh_agent ssh", "-launcher ssh": what mpirun itself uses, and gets the environment across. */
static bool is_value(const char *before)
{
	static const char *const ends[] = {"agent", "launcher", "bootstrap"};
	size_t n = strlen(before);

	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		if (n >= strlen(ends[i]) && !strcmp(before + n - strlen(ends[i]), ends[i]))
			return true;
	return false;
}

/* What follows a program are its arguments. */
static bool is_program(const char *word)
{
	struct lw_probe probe;

	if (*word == '-' || strchr(word, '=') || is_starter(word))
		return false;
	lw_probe_command(word, &probe);
	return probe.kind == LW_PROBE_SCRIPT || probe.kind == LW_PROBE_DYNAMIC ||
	       probe.kind == LW_PROBE_STATIC;
}

/* "LD_PRELOAD=" behind env or mpirun -x: in place of ours. */
static bool replaces_ours(const char *word)
{
	return !strncmp(word, "LD_PRELOAD=", 11) && !strstr(word, "liblapwing");
}

/* Return: there is something in the way, and @answer says what. */
static bool find_in_the_way(const struct lw_doctor_patient *patient,
	struct lw_doctor_answer *answer, bool *ret_is_elsewhere)
{
	bool is_command = true; /* words may be launchers, not arguments of the program */

	*ret_is_elsewhere = false;
	for (char **word = patient->command; word && *word && is_command; word++) {
		bool is_first = word == patient->command;
		const struct barrier *barrier =
			is_first || !is_value(word[-1]) ? find_barrier(word) : NULL;

		if (barrier) {
			*ret_is_elsewhere = barrier->is_elsewhere;
			lw_doctor_say(
				answer, barrier->verdict, "%s %s", barrier->launcher, barrier->why);
			return true;
		}
		if (replaces_ours(*word)) {
			lw_doctor_say(answer, LW_DOCTOR_NO,
				"%s takes the place of the tracer in LD_PRELOAD: leave it out, lapwing keeps what LD_PRELOAD had before",
				*word);
			return true;
		}
		if (is_first)
			is_command = is_starter(*word);
		else if (!is_value(word[-1]))
			is_command = !is_program(*word);
	}
	return false;
}

bool lw_doctor_is_elsewhere(const struct lw_doctor_patient *patient)
{
	struct lw_doctor_answer answer;
	bool is_elsewhere;

	return find_in_the_way(patient, &answer, &is_elsewhere) && is_elsewhere;
}

void lw_doctor_check_reach(const struct lw_doctor_patient *patient, struct lw_doctor_answer *answer)
{
	const struct lw_probe *program = &patient->program;
	const char *name = program->path;
	bool is_elsewhere;

	if (patient->launcher.kind == LW_PROBE_MISSING) {
		lw_doctor_say(answer, LW_DOCTOR_NO, "%s: no such command", patient->command[0]);
		return;
	}
	if (find_in_the_way(patient, answer, &is_elsewhere))
		return;
	switch (program->kind) {
	case LW_PROBE_MISSING:
	case LW_PROBE_NOT_EXECUTABLE:
	case LW_PROBE_OTHER:
		lw_doctor_say(answer, LW_DOCTOR_NO, "%s: not a program", name);
		return;
	case LW_PROBE_STATIC:
		lw_doctor_say(answer, LW_DOCTOR_NO,
			"%s is linked statically: nothing can be preloaded into it", name);
		return;
	case LW_PROBE_LIBRARY:
	case LW_PROBE_SCRIPT:
	case LW_PROBE_DYNAMIC:
		break;
	}
	if (program->is_privileged || patient->launcher.is_privileged)
		lw_doctor_say(answer, LW_DOCTOR_NO,
			"%s runs with another user's rights: the loader ignores LD_PRELOAD",
			program->is_privileged ? name : patient->launcher.path);
	else
		lw_doctor_say(answer, LW_DOCTOR_YES, "%s takes LD_PRELOAD%s%s", name,
			patient->python[0] ? ", Python is " : "", patient->python);
}
