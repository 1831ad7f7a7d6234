/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lapwingd.c - the collector as a process: started by `record` (--foreground), or by the first rank of
 * a job that was started with the variables alone (then it becomes a daemon and logs to DIR/log).
 */
#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/units.h"
#include "collector/collector.h"
#include "collector/packets.h"
#include "schema/rundir.h"

const char *argp_program_version = "lapwingd " LAPWING_VERSION;

/* The first rank starts the collector; the grace covers launchers that start ranks one by one. */
enum { GRACE_S = 2 };

static struct lw_collect_options options = {
	.created_by = "lapwing " LAPWING_VERSION,
	.command = "",
	.until = LW_UNTIL_GONE,
	.grace_ns = GRACE_S * LW_NS_PER_S,
	.sample.period_ns = LW_SAMPLE_DEFAULT_MS * LW_NS_PER_MS,
};
enum { KEY_PCAP = 256, KEY_PCAP_FILTER, KEY_CHECK_PCAP };

static bool is_foreground, is_check;
static int ready_fd = -1;

static void say_ready(void)
{
	if (ready_fd < 0)
		return;
	if (write(ready_fd, "r", 1) < 0)
		return; /* whoever started us has gone; the job has not */
	close(ready_fd);
	ready_fd = -1;
}

/* The analysis of a job that nobody waits for, where `record` is not there to have it made. */
static void analyze(const char *out)
{
	char program[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", program, sizeof(program) - 16);
	const char *off = getenv(LW_ENV_NO_ANALYZE);
	sigset_t none;
	char *slash;

	program[n > 0 ? n : 0] = '\0';
	slash = strrchr(program, '/');
	if (is_foreground || !slash || (off && *off && strcmp(off, "0")))
		return;
	strcpy(slash, "/lapwing");
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	execl(program, "lapwing", "analyze", out, (char *)NULL);
}

/* What cannot be a period leaves the default: `record` has told the user, a rank has nobody to tell. */
static void set_period(const char *text)
{
	int64_t period_ns = text ? lw_sample_period_ns(text) : -1;

	if (period_ns >= 0)
		options.sample.period_ns = period_ns;
}

static error_t parse(int key, char *argument, struct argp_state *state)
{
	switch (key) {
	case 'S':
		set_period(argument);
		return 0;
	case 'R':
		options.sample.sysfs_root = argument;
		return 0;
	case 'd':
		options.dir = argument;
		return 0;
	case 'o':
		options.out = argument;
		return 0;
	case 'c':
		options.command = argument;
		return 0;
	case 'f':
		is_foreground = true;
		return 0;
	case 'r':
		ready_fd = (int)strtol(argument, NULL, 10);
		return 0;
	case 's':
		options.starter = (pid_t)strtol(argument, NULL, 10);
		options.until = LW_UNTIL_STOP;
		return 0;
	case KEY_PCAP:
		options.pcap_device = argument ? argument : "";
		options.must_capture = true;
		return 0;
	case KEY_PCAP_FILTER:
		options.pcap_filter = argument;
		return 0;
	case KEY_CHECK_PCAP:
		is_check = true;
		options.pcap_device = argument ? argument : "";
		return 0;
	case ARGP_KEY_ARG:
		argp_error(state, "'%s': takes no arguments", argument);
		return 0;
	case ARGP_KEY_END:
		if (!options.dir && !is_check)
			argp_error(state, "--dir is missing");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* Leaves the rank's session, directory and descriptors; what it has to say goes to DIR/log. */
static void become_daemon(void)
{
	char path[PATH_MAX];
	pid_t pid = fork();
	int fd;

	if (pid != 0)
		_exit(pid < 0 ? LW_EXIT_FAILED : LW_EXIT_OK);
	setsid();
	snprintf(path, sizeof(path), "%s/" LW_RUNDIR_LOG, options.dir);
	fd = open("/dev/null", O_RDWR);
	dup2(fd, 0);
	dup2(fd, 1);
	dup2(fd, 2);
	if (fd > 2)
		close(fd);
	fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	if (fd >= 0)
		dup2(fd, 2);
	if (fd > 2)
		close(fd);
}

static void ignore_signals(void)
{
	static const int ignored[] = {SIGHUP, SIGINT, SIGQUIT, SIGPIPE, SIGTSTP, SIGUSR2};

	/* Ctrl-C ends the job; its collector still has to store what the job did. */
	for (size_t i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++)
		signal(ignored[i], SIG_IGN);
}

/* For `doctor`: asked of this program, whose file may have rights that others have not. */
static int check_pcap(void)
{
	if (lw_packets_check(options.pcap_device) == LW_OK)
		return LW_EXIT_OK;
	printf("%s\n", lw_error_text());
	return LW_EXIT_FAILED;
}

int main(int argc, char **argv)
{
	static const struct argp_option argp_options[] = {
		{"dir", 'd', "DIR", 0, "ring directory", 0},
		{"out", 'o', "FILE", 0, "run file to write", 0},
		{"command", 'c', "TEXT", 0, "what is recorded", 0},
		{"foreground", 'f', NULL, 0, "stay in the foreground, errors on stderr", 0},
		{"ready-fd", 'r', "FD", 0, "write a byte there when the run file is there", 0},
		{"starter", 's', "PID", 0, "collect until DIR/stop appears or PID ends", 0},
		{"sample-ms", 'S', "N", 0, "look at NICs and sockets every N ms, 0 = never", 0},
		{"sysfs-root", 'R', "DIR", 0, "instead of /sys", 0},
		{"pcap", KEY_PCAP, "DEVICE", OPTION_ARG_OPTIONAL,
			"capture packet headers of DEVICE (default: all)", 0},
		{"pcap-filter", KEY_PCAP_FILTER, "EXPR", 0, "and what EXPR selects", 0},
		{"check-pcap", KEY_CHECK_PCAP, "DEVICE", OPTION_ARG_OPTIONAL,
			"say on stdout why DEVICE cannot be captured; exit code 0: it can", 0},
		{0}};
	static const struct argp argp = {argp_options, parse, NULL,
		"Collects the rings of one job on one host into one run file.", NULL, NULL, NULL};
	bool has_begun;
	int status;

	argp_err_exit_status = LW_EXIT_USAGE;
	set_period(getenv(LW_ENV_SAMPLE_MS));
	/* A job that was started with the variables alone is recorded even when nothing can be captured. */
	options.pcap_device = getenv(LW_ENV_PCAP);
	if (options.pcap_device && !*options.pcap_device)
		options.pcap_device = NULL;
	options.pcap_filter = getenv(LW_ENV_PCAP_FILTER);
	argp_parse(&argp, argc, argv, 0, NULL, NULL);
	if (is_check)
		return check_pcap();
	ignore_signals();
	/* On a host whose cores all train, the job goes first: the rings hold what has to wait. */
	if (nice(10) < 0)
		errno = 0; /* as it was, then */
	if (!is_foreground)
		become_daemon();
	options.ready = say_ready;
	options.closed = analyze;
	status = lw_collect(&options, &has_begun);
	if (status == LW_ERR_STATE && !has_begun && !is_foreground)
		return LW_EXIT_OK; /* another rank was first */
	if (status < 0 && has_begun)
		fprintf(stderr,
			"lapwing: %s; recording stopped, the job goes on. What was not stored yet waits:"
			" `lapwing salvage %s` (or with -o ELSEWHERE)\n",
			lw_error_text(), options.dir);
	else if (status < 0)
		fprintf(stderr, "lapwing: %s\n", lw_error_text());
	return status < 0 ? LW_EXIT_FAILED : LW_EXIT_OK;
}
