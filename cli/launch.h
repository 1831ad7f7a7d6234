/* SPDX-License-Identifier: Apache-2.0 */
/*
 * launch.h - a command with the tracer preloaded and its collector beside it: what `record` and `live` start.
 *
 * The command's output, input, signals and exit code stay its own.
 */
#ifndef LAPWING_CLI_LAUNCH_H
#define LAPWING_CLI_LAUNCH_H

#include <argp.h>
#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#include "collector/collector.h"
#include "schema/launcher.h"

struct lw_launch_options {
	const char *out, *hooks, *ring_records, *sample_ms, *sysfs_root; /* NULL = default */
	const char *pcap_device, *pcap_filter, *gpu; /* NULL = as the environment says */
	double probe_s;                              /* 0 = no probe */
	bool is_quiet, is_command_optional, is_not_analyzed;
	char **command; /* NULL: none was given */
};

/** lw_launch_argp - these options and COMMAND, for a verb that is parsed ARGP_IN_ORDER. */
extern const struct argp lw_launch_argp;

struct lw_launch {
	const char *verb; /* that says what is wrong */
	struct lw_launch_options options;
	/* prepared: */
	struct lw_place place;
	char out[PATH_MAX], dir[LW_RUNDIR_PATH_BYTES];
	char library[PATH_MAX], collector[PATH_MAX];
	char command[4096]; /* as one line */
	/* while it runs: */
	pid_t collector_pid, child_pid;
	bool is_collected; /* the collector is at work, or has ended well */
	int n_restarts;
};

/**
 * lw_launch_prepare() - all that can be found wrong before the command starts; makes the ring directory.
 * Return: 0, or the exit code of the program, which has said why.
 */
int lw_launch_prepare(struct lw_launch *launch);

/** lw_launch_run() - start collector and command, wait for both. Return: the exit code, as `record` gives it. */
int lw_launch_run(struct lw_launch *launch);

/** lw_launch_summarize() - recorded.c: say on stderr what the run file holds. */
void lw_launch_summarize(const struct lw_launch *launch);

#endif /* LAPWING_CLI_LAUNCH_H */
