/* SPDX-License-Identifier: Apache-2.0 */
/* spawn.c - start lapwingd as a child and wait until its run file is there. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/units.h"
#include "collector/collector.h"

int lw_collector_spawn(const char *program, const struct lw_collect_options *options)
{
	char ready[16], starter[16], sample_ms[32], pcap[300];
	const char *argv[20] = {program, "--foreground", "--dir", options->dir, "--out",
		options->out, "--command", options->command, "--ready-fd", ready, "--starter",
		starter, "--sample-ms", sample_ms};
	size_t n_args = 14;
	posix_spawnattr_t attributes;
	sigset_t none;
	int fds[2], error, status;
	char byte;
	ssize_t n;
	pid_t pid;

	if (options->pcap_device) {
		snprintf(pcap, sizeof(pcap), "--pcap=%s", options->pcap_device);
		argv[n_args++] = pcap;
	}
	if (options->pcap_filter) {
		argv[n_args++] = "--pcap-filter";
		argv[n_args++] = options->pcap_filter;
	}
	if (pipe2(fds, O_CLOEXEC) < 0)
		return lw_fail(LW_ERR_IO, "pipe: %s", strerror(errno));
	fcntl(fds[1], F_SETFD, 0); /* the write end goes along */
	snprintf(ready, sizeof(ready), "%d", fds[1]);
	snprintf(starter, sizeof(starter), "%d", (int)getpid());
	snprintf(sample_ms, sizeof(sample_ms), "%.6f",
		(double)options->sample.period_ns / (double)LW_NS_PER_MS);
	sigemptyset(&none);
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setsigmask(&attributes, &none);
	/* A session of its own: Ctrl-C and a hangup of the terminal are for the job. */
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK);
	error = posix_spawn(
		&pid, program, NULL, &attributes, (char *const *)(uintptr_t)argv, environ);
	posix_spawnattr_destroy(&attributes);
	close(fds[1]);
	if (error) {
		close(fds[0]);
		return lw_fail(LW_ERR_IO, "%s: %s", program, strerror(error));
	}
	do {
		n = read(fds[0], &byte, 1);
	} while (n < 0 && errno == EINTR);
	close(fds[0]);
	if (n == 1)
		return pid;
	waitpid(pid, &status, 0);
	return lw_fail(LW_ERR_STATE, "the collector did not start");
}
