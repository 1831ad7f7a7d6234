/* SPDX-License-Identifier: Apache-2.0 */
/*
 * doctor.h - what the checks of `lapwing doctor` share: the patient, and what a check answers.
 *
 * doctor_patient.c finds out what the command is; doctor_reach.c whether LD_PRELOAD reaches it; doctor_host.c asks about this host, doctor_network.c about its
 * network, doctor_gpu.c about its GPUs, doctor_nccl.c about NCCL; cmd_doctor.c asks about the other hooks, and prints.
 */
#ifndef LAPWING_CLI_DOCTOR_H
#define LAPWING_CLI_DOCTOR_H

#include <stddef.h>

#include "cli/probe.h"

enum lw_doctor_verdict { LW_DOCTOR_YES, LW_DOCTOR_NO, LW_DOCTOR_UNSURE };

struct lw_doctor_answer {
	enum lw_doctor_verdict verdict;
	char text[512];
};

enum lw_doctor_nccl_how {
	LW_DOCTOR_NCCL_NONE,     /* nothing is linked to it */
	LW_DOCTOR_NCCL_DYNAMIC,  /* libnccl.so.2 */
	LW_DOCTOR_NCCL_EXPORTED, /* linked in, and its functions can be interposed all the same */
	LW_DOCTOR_NCCL_HIDDEN,   /* linked in */
};

struct lw_doctor_nccl {
	enum lw_doctor_nccl_how how;
	int version;     /* as ncclGetVersion() tells it, 22809 for 2.28.9; 0 = not known */
	char user[4096]; /* what is linked to it */
	char path[4096]; /* where it is, "" = not found */
};

struct lw_doctor_patient {
	char **command;           /* NULL-terminated; NULL: no command was given */
	struct lw_probe launcher; /* its first word */
	struct lw_probe program;  /* what does the work: the last program on the line that exists */
	char python[4096];        /* interpreter that runs it, "" = none */
	bool is_shell;            /* a shell starts what does the work: nobody knows what that is */
	char horovod_dir[4096], torch_dir[4096], mpi4py_dir[4096];
	char extension[4096]; /* Horovod's core, "" = not found */
	struct lw_probe extension_probe;
	struct lw_doctor_nccl nccl;
};

/** lw_doctor_say() - give @answer. */
void lw_doctor_say(struct lw_doctor_answer *answer, enum lw_doctor_verdict verdict,
	const char *format, ...) __attribute__((format(printf, 3, 4)));

/** lw_doctor_say_none() - @text: why not; not so sure where a shell starts what does the work. */
void lw_doctor_say_none(
	const struct lw_doctor_patient *patient, struct lw_doctor_answer *answer, const char *text);

/** lw_doctor_examine() - find out what @patient->command is. Looks at files; runs nothing but its own Python. */
void lw_doctor_examine(struct lw_doctor_patient *patient);

/** lw_doctor_ask() - first line that @argv prints, "" on any failure. Return: its wait status, -1 = it did not run. */
int lw_doctor_ask(const char *const *argv, char *line, size_t line_bytes);

/** lw_doctor_variable() - as the command's words set it (env, mpirun -x), else as the environment does. NULL: not set. */
const char *lw_doctor_variable(const struct lw_doctor_patient *patient, const char *name);

/** lw_doctor_is_python() - @path names an interpreter of Python. */
bool lw_doctor_is_python(const char *path);

/** lw_doctor_is_elsewhere() - it runs in a container or on another host: the files here are not those that it has. */
bool lw_doctor_is_elsewhere(const struct lw_doctor_patient *patient);

/** lw_doctor_check_reach() - does LD_PRELOAD reach the program, past what starts it? */
void lw_doctor_check_reach(
	const struct lw_doctor_patient *patient, struct lw_doctor_answer *answer);

/* Of this host. */
void lw_doctor_check_library(
	const struct lw_doctor_patient *patient, struct lw_doctor_answer *answer);
void lw_doctor_check_ring_space(
	const struct lw_doctor_patient *patient, struct lw_doctor_answer *answer);
void lw_doctor_check_out(const struct lw_doctor_patient *patient, struct lw_doctor_answer *answer);
void lw_doctor_check_left(const struct lw_doctor_patient *patient, struct lw_doctor_answer *answer);
void lw_doctor_check_preload(
	const struct lw_doctor_patient *patient, struct lw_doctor_answer *answer);
void lw_doctor_check_cores(
	const struct lw_doctor_patient *patient, struct lw_doctor_answer *answer);

/* Of its network. */
void lw_doctor_check_samplers(
	const struct lw_doctor_patient *patient, struct lw_doctor_answer *answer);
void lw_doctor_check_pcap(const struct lw_doctor_patient *patient, struct lw_doctor_answer *answer);
void lw_doctor_check_verbs(
	const struct lw_doctor_patient *patient, struct lw_doctor_answer *answer);

/* Of its GPUs. */
void lw_doctor_check_cupti(
	const struct lw_doctor_patient *patient, struct lw_doctor_answer *answer);
void lw_doctor_check_nvtx(const struct lw_doctor_patient *patient, struct lw_doctor_answer *answer);
void lw_doctor_check_nvml(const struct lw_doctor_patient *patient, struct lw_doctor_answer *answer);

/* Of NCCL; lw_doctor_find_nccl() first. */
void lw_doctor_find_nccl(struct lw_doctor_patient *patient);
void lw_doctor_check_nccl(const struct lw_doctor_patient *patient, struct lw_doctor_answer *answer);
void lw_doctor_check_nccl_preload(
	const struct lw_doctor_patient *patient, struct lw_doctor_answer *answer);
void lw_doctor_check_nccl_plugin(
	const struct lw_doctor_patient *patient, struct lw_doctor_answer *answer);

#endif /* LAPWING_CLI_DOCTOR_H */
