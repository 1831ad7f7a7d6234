/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/launch.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/str.h"
#include "base/units.h"
#include "cli/cmd.h"
#include "cli/finish.h"
#include "cli/probe.h"
#include "schema/launcher.h"
#include "schema/ring.h"
#include "schema/rundir.h"
#include "schema/store.h"

/* What a shell says of a command that it cannot start. */
enum { EXIT_NOT_EXECUTABLE = 126, EXIT_NOT_FOUND = 127, EXIT_SIGNAL = 128 };
enum { MAX_RESTARTS = 3 }; /* of a collector that something kills, the OOM killer for one */
enum { USUAL_RINGS = 16 }; /* recording threads on a host, to choose where the rings have room */

/* ---- before the command starts ----------------------------------------------------------------- */

/* build/bin/lapwing -> build/lib/liblapwing.so, build/bin/lapwingd; the same once installed. */
static int find_own_files(struct lw_launch *s)
{
	char bin[PATH_MAX - 64];
	ssize_t n = readlink("/proc/self/exe", bin, sizeof(bin) - 1);
	char *slash;

	bin[n > 0 ? n : 0] = '\0';
	slash = strrchr(bin, '/');
	if (!slash)
		return lw_fail(LW_ERR_IO, "/proc/self/exe: %s", strerror(errno));
	*slash = '\0';
	snprintf(s->collector, sizeof(s->collector), "%s/lapwingd", bin);
	slash = strrchr(bin, '/');
	snprintf(s->library, sizeof(s->library), "%.*s/lib/liblapwing.so",
		(int)(slash ? slash - bin : 0), bin);
	if (access(s->library, R_OK) < 0)
		return lw_fail(LW_ERR_IO, "%s: %s (build or install lapwing again)", s->library,
			strerror(errno));
	if (strpbrk(s->library, LW_PRELOAD_SEPARATORS))
		return lw_fail(LW_ERR_UNSUPPORTED,
			"%s: LD_PRELOAD cannot name a path with a space or a colon: move or install lapwing elsewhere",
			s->library);
	return LW_OK;
}

/* Return: an exit code when the command cannot run, 0 when it can; warns of what cannot be traced. */
static int check_command(const struct lw_launch *s)
{
	const char *name = s->options.command[0];
	struct lw_probe probe;

	lw_probe_command(name, &probe);
	if (probe.kind == LW_PROBE_MISSING) {
		lw_cli_say("%s: %s: command not found", s->verb, name);
		return EXIT_NOT_FOUND;
	}
	if (probe.kind == LW_PROBE_NOT_EXECUTABLE) {
		lw_cli_say("%s: %s: not an executable file", s->verb, name);
		return EXIT_NOT_EXECUTABLE;
	}
	if (probe.is_privileged)
		lw_cli_say(
			"%s: %s runs with another user's rights, so the loader ignores LD_PRELOAD:"
			" it will not be recorded",
			s->verb, probe.path);
	else if (probe.kind == LW_PROBE_STATIC)
		lw_cli_say("%s: %s is linked statically: it will not be recorded", s->verb,
			probe.path);
	return 0;
}

static int choose_out(struct lw_launch *s)
{
	const char *pattern = s->options.out;

	if (!pattern) /* one record per rank must not write one file */
		pattern = s->place.rank >= 0 ? "run-%r.lapwing" : "run.lapwing";
	return lw_path_expand(pattern, s->place.rank, s->out, sizeof(s->out));
}

/* Nobody named the file, so nobody asked for the run of an hour ago to go: it stays as FILE.old. */
static void keep_earlier(const struct lw_launch *s)
{
	char old[PATH_MAX + 8];

	if (s->options.out || access(s->out, F_OK) < 0)
		return;
	snprintf(old, sizeof(old), "%s.old", s->out);
	if (rename(s->out, old) == 0 && s->place.rank <= 0)
		lw_cli_say("the earlier %s is now %s (-o FILE names the run)", s->out, old);
}

static void append_preload(const char *library)
{
	const char *old = getenv("LD_PRELOAD");
	char *both = NULL;

	if (!old || !*old)
		setenv("LD_PRELOAD", library, 1);
	else if (asprintf(&both, "%s:%s", old, library) > 0)
		setenv("LD_PRELOAD", both, 1);
	free(both);
}

/* NVTX has room for one tool: ours, which hands every call on to the one that was there. */
static void put_before_nvtx_tool(const char *library)
{
	const char *old = getenv("NVTX_INJECTION64_PATH"), *slash = old ? strrchr(old, '/') : NULL;

	/* record inside record: the outer one's library, or this very one */
	if (old && *old && strcmp(slash ? slash + 1 : old, strrchr(library, '/') + 1) != 0)
		setenv(LW_ENV_NVTX_NEXT, old, 1);
	setenv("NVTX_INJECTION64_PATH", library, 1);
}

static void set_environment(const struct lw_launch *s)
{
	char path[PATH_MAX], number[32];
	const char *hooks, *gpu;

	append_preload(s->library);
	setenv(LW_ENV_DIR, s->dir, 1);
	/* On other hosts LAPWING_DIR is missing: the first rank there starts a collector for this name. */
	if (s->out[0] == '/')
		setenv(LW_ENV_OUT, s->out, 1);
	else if (getcwd(path, sizeof(path) - strlen(s->out) - 2)) {
		strcat(path, "/");
		strcat(path, s->out);
		setenv(LW_ENV_OUT, path, 1);
	}
	if (s->options.hooks)
		setenv(LW_ENV_HOOKS, s->options.hooks, 1);
	if (s->options.sample_ms) /* for collectors on other hosts */
		setenv(LW_ENV_SAMPLE_MS, s->options.sample_ms, 1);
	if (s->options.ring_records)
		setenv(LW_ENV_RING_RECORDS, s->options.ring_records, 1);
	if (s->options.probe_s > 0) {
		snprintf(number, sizeof(number), "%.9g", s->options.probe_s);
		setenv(LW_ENV_PROBE, number, 1);
	}
	if (s->options.is_not_analyzed)
		setenv(LW_ENV_NO_ANALYZE, "1", 1);
	if (s->options.pcap_device)
		setenv(LW_ENV_PCAP, *s->options.pcap_device ? s->options.pcap_device : "any", 1);
	if (s->options.pcap_filter)
		setenv(LW_ENV_PCAP_FILTER, s->options.pcap_filter, 1);
	if (s->options.gpu)
		setenv(LW_ENV_GPU, s->options.gpu, 1);
	put_before_nvtx_tool(s->library);
	hooks = getenv(LW_ENV_HOOKS);
	gpu = getenv(LW_ENV_GPU);
	/* Not where another tool has it: the tracer says who. */
	if (lw_hook_list_allows(hooks, "cupti") && !(gpu && !strcmp(gpu, "release")))
		setenv("CUDA_INJECTION64_PATH", s->library, 0);
	/* NCCL then looks its profiler up in the whole process, where our preloaded library is. */
	if (lw_hook_list_allows(hooks, "nccl"))
		setenv("NCCL_PROFILER_PLUGIN", "STATIC_PLUGIN", 0);
}

/* ---- while it runs --------------------------------------------------------------------------------- */

static void caught_signals(sigset_t *set)
{
	static const int signals[] = {
		SIGCHLD, SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGCONT, SIGWINCH};

	sigemptyset(set);
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		sigaddset(set, signals[i]);
}

/* Return: an exit code as a shell gives it. */
static int exit_code_of(int status)
{
	return WIFSIGNALED(status) ? EXIT_SIGNAL + WTERMSIG(status) : WEXITSTATUS(status);
}

/* Return: ns, 0 = none; what was given, else LAPWING_SAMPLE_MS, else the default. -1: it is no period. */
static int64_t sample_period_ns(const struct lw_launch *s)
{
	const char *text = s->options.sample_ms ? s->options.sample_ms : getenv(LW_ENV_SAMPLE_MS);

	return text && *text ? lw_sample_period_ns(text) : LW_SAMPLE_DEFAULT_MS * LW_NS_PER_MS;
}

static int start_collector(struct lw_launch *s)
{
	const struct lw_collect_options collect = {.dir = s->dir,
		.out = s->out,
		.command = s->command,
		.sample = {sample_period_ns(s), s->options.sysfs_root},
		.pcap_device = s->options.pcap_device,
		.pcap_filter = s->options.pcap_filter};
	int pid = lw_collector_spawn(s->collector, &collect);

	s->collector_pid = pid > 0 ? pid : 0;
	s->is_collected = pid > 0;
	return pid > 0 ? LW_OK : pid;
}

/* One that was killed gets a successor, which goes on where it was: the rings hold what was not stored.
 * One that gave up has said why. */
static void look_after_collector(struct lw_launch *s)
{
	int status;

	if (!s->collector_pid || waitpid(s->collector_pid, &status, WNOHANG) != s->collector_pid)
		return;
	s->collector_pid = 0;
	s->is_collected = WIFEXITED(status) && WEXITSTATUS(status) == LW_EXIT_OK;
	if (!WIFSIGNALED(status))
		return;
	if (s->n_restarts++ < MAX_RESTARTS && start_collector(s) == LW_OK)
		lw_cli_say("record: the collector was killed (signal %d): another goes on",
			WTERMSIG(status));
	else
		lw_cli_say("record: the collector was killed (signal %d); what was not stored yet"
			   " waits: `lapwing salvage %s`",
			WTERMSIG(status), s->dir);
}

/* Passes signals on until the command has ended. Return: its wait status. */
static int wait_and_forward(struct lw_launch *s, const sigset_t *signals)
{
	for (;;) {
		siginfo_t info;
		int status, signal = sigwaitinfo(signals, &info);

		/* What the terminal sends goes to the whole group: the command has it already. */
		if (signal > 0 && signal != SIGCHLD && info.si_code <= 0)
			kill(s->child_pid, signal);
		if (signal != SIGCHLD)
			continue;
		if (waitpid(s->child_pid, &status, WNOHANG) == s->child_pid)
			return status;
		look_after_collector(s);
	}
}

static int start_command(struct lw_launch *s, const sigset_t *old_signals)
{
	s->child_pid = fork();
	if (s->child_pid < 0)
		return lw_fail(LW_ERR_IO, "fork: %s", strerror(errno));
	if (s->child_pid == 0) {
		/* kill -9 of record is kill -9 of the command, as it was without record */
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		sigprocmask(SIG_SETMASK, old_signals, NULL);
		lw_cli_as_called();
		set_environment(s);
		execvp(s->options.command[0], s->options.command);
		lw_cli_say("record: %s: %s", s->options.command[0], strerror(errno));
		_exit(errno == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE);
	}
	return LW_OK;
}

/* ---- afterwards -------------------------------------------------------------------------------------- */

/* The command has ended; its collector stores the rest. Ranks may still run (a launcher that was
 * killed): say so, and let an impatient user end it. */
static void wait_for_collector(struct lw_launch *s, const sigset_t *signals)
{
	const struct timespec patience = {.tv_sec = 2};
	bool has_said = s->options.is_quiet;

	for (look_after_collector(s); s->collector_pid; look_after_collector(s)) {
		int signal = sigtimedwait(signals, NULL, &patience);

		if (signal == SIGINT || signal == SIGTERM || signal == SIGHUP)
			kill(s->collector_pid, SIGUSR1);
		else if (signal < 0 && !has_said && isatty(STDERR_FILENO)) {
			lw_cli_say("record: the command has ended; waiting for recorded processes"
				   " that still run (Ctrl-C: do not wait)");
			has_said = true;
		}
	}
}

int lw_launch_prepare(struct lw_launch *s)
{
	int status, code = check_command(s);

	if (code)
		return code;
	s->place = lw_place_from_environment();
	status = sample_period_ns(s) < 0
			 ? lw_fail(LW_ERR_USAGE, LW_ENV_SAMPLE_MS "=%s: ms, 1 to 60000, or 0",
				   getenv(LW_ENV_SAMPLE_MS))
			 : choose_out(s);
	if (status == LW_OK)
		status = find_own_files(s);
	if (status == LW_OK)
		status = lw_rundir_make(
			USUAL_RINGS * lw_ring_file_bytes(LW_RING_RECORDS_DEFAULT), s->dir);
	if (status < 0)
		return lw_cli_fail(lw_cause(status, "%s", s->verb));
	for (char **word = s->options.command; *word; word++) {
		size_t n = strlen(s->command);

		snprintf(s->command + n, sizeof(s->command) - n, "%s%s", n ? " " : "", *word);
	}
	keep_earlier(s);
	return 0;
}

int lw_launch_run(struct lw_launch *s)
{
	sigset_t signals, old_signals;
	int status, code;

	caught_signals(&signals);
	sigprocmask(SIG_BLOCK, &signals, &old_signals);
	status = start_collector(s);
	if (status < 0) {
		lw_rundir_remove(s->dir);
		/* LW_ERR_STATE: the collector has said why */
		return status == LW_ERR_STATE ? LW_EXIT_FAILED : lw_cli_fail(status);
	}
	status = start_command(s, &old_signals);
	code = status < 0 ? lw_cli_fail(status) : exit_code_of(wait_and_forward(s, &signals));
	status = lw_rundir_stop(s->dir, code);
	if (status < 0 && s->collector_pid)
		kill(s->collector_pid, SIGTERM);
	wait_for_collector(s, &signals);
	if (s->is_collected && !s->options.is_quiet)
		lw_launch_summarize(s);
	if (s->is_collected && !s->options.is_not_analyzed)
		lw_finish_apart(s->verb, s->out, s->options.is_quiet);
	return code;
}

/* ---- options of every verb that starts a command --------------------------------------------------- */

/* Names that lw_hook_wanted() and lw_hook_named() are asked for in tracer/. */
static bool are_hooks_known(const char *list)
{
	static const char *const known[] = {"mpi", "horovod", "gloo", "gloo_preamble", "ddp",
		"socket", "wait", "mark", "nvtx", "verbs", "cupti", "nccl"};

	for (const char *at = list; *at;) {
		size_t n = strcspn(at, ","), minus = *at == '-';
		bool is_known = false;

		for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
			is_known |= strlen(known[i]) == n - minus &&
				    !strncmp(known[i], at + minus, n - minus);
		if (!is_known)
			return false;
		at += n + (at[n] == ',');
	}
	return true;
}

/* As tracer/hook_cupti.c reads LAPWING_GPU. */
static bool is_gpu_mode(const char *text)
{
	static const char *const modes[] = {"on", "graphs", "off", "release"};

	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++)
		if (!strcmp(text, modes[i]))
			return true;
	return false;
}

/* Options without a letter; clear of the keys of verbs. */
enum { KEY_NO_ANALYZE = 0x2000, KEY_GPU, KEY_PCAP, KEY_PCAP_FILTER, KEY_SYSFS_ROOT };

static error_t parse(int key, char *argument, struct argp_state *state)
{
	struct lw_launch_options *options = state->input;
	char *end;
	unsigned long n;

	switch (key) {
	case 'o':
		options->out = argument;
		return 0;
	case 'H':
		if (!are_hooks_known(argument))
			argp_error(state,
				"--hooks %s: names are mpi, horovod, gloo, gloo_preamble, ddp, socket, wait, mark, nvtx, verbs, cupti, nccl",
				argument);
		options->hooks = argument;
		return 0;
	case 'r':
		n = strtoul(argument, &end, 10);
		if (*end || n < LW_RING_MIN_RECORDS || n > LW_RING_MAX_RECORDS || n & (n - 1))
			argp_error(state, "--ring-records %s: a power of two from %d to %d",
				argument, LW_RING_MIN_RECORDS, LW_RING_MAX_RECORDS);
		options->ring_records = argument;
		return 0;
	case 'p':
		options->probe_s = argument ? strtod(argument, &end) : LW_PROBE_DEFAULT_S;
		if (argument &&
			(*end || !(options->probe_s > 0 && options->probe_s <= LW_PROBE_MAX_S)))
			argp_error(state, "--probe=%s: seconds, more than 0, at most %d", argument,
				LW_PROBE_MAX_S);
		return 0;
	case KEY_GPU:
		if (!is_gpu_mode(argument))
			argp_error(state, "--gpu=%s: on, graphs, off or release", argument);
		options->gpu = argument;
		return 0;
	case KEY_PCAP:
		if (argument && !*argument)
			argp_error(state, "--pcap=: which device? Without = it is any");
		options->pcap_device = argument ? argument : "";
		return 0;
	case KEY_PCAP_FILTER:
		options->pcap_filter = argument;
		return 0;
	case 'q':
		options->is_quiet = true;
		return 0;
	case KEY_NO_ANALYZE:
		options->is_not_analyzed = true;
		return 0;
	case 's':
		if (lw_sample_period_ns(argument) < 0)
			argp_error(
				state, "--sample-ms %s: ms, 1 to 60000, or 0 for none", argument);
		options->sample_ms = argument;
		return 0;
	case KEY_SYSFS_ROOT:
		options->sysfs_root = argument;
		return 0;
	case ARGP_KEY_ARGS:
		options->command = state->argv + state->next;
		return 0;
	case ARGP_KEY_END:
		if (options->pcap_filter && !options->pcap_device && !getenv(LW_ENV_PCAP))
			argp_error(state, "--pcap-filter needs --pcap");
		return 0;
	case ARGP_KEY_NO_ARGS:
		if (!options->is_command_optional)
			argp_error(state,
				"which command? (lapwing record [OPTION...] -- COMMAND [ARG...])");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option argp_options[] = {
	{"output", 'o', "FILE", 0,
		"run file to write; %h host, %p pid, %r rank, %q{NAME} environment"
		" (default run.lapwing; run-%r.lapwing inside a launcher)",
		0},
	{"hooks", 'H', "LIST", 0,
		"only these, or (-socket) all but those, commas between them: mpi, horovod, gloo, ddp, socket, verbs, wait, mark, nvtx, cupti, nccl (default all; gloo_preamble only when named)",
		0},
	{"ring-records", 'r', "N", 0, "records a thread can have waiting (default 65536)", 0},
	{"probe", 'p', "SECONDS", OPTION_ARG_OPTIONAL,
		"before the job's first operation, measure collectives of many sizes with the"
		" job's own transport, on all ranks at once, for at most SECONDS (default 5):"
		" predictions for settings whose message sizes the job itself does not send",
		0},
	{"sample-ms", 's', "N", 0,
		"look at NICs, RDMA ports, TCP connections and GPUs (NVML) every N ms; 0 = never (default 100; also LAPWING_SAMPLE_MS)",
		0},
	{"sysfs-root", KEY_SYSFS_ROOT, "DIR", OPTION_HIDDEN,
		"counters of NICs and RDMA ports below DIR, not /sys", 0},
	{"no-analyze", KEY_NO_ANALYZE, NULL, 0,
		"do not analyse the run when it has ended: who opens it first then waits for that (also LAPWING_NO_ANALYZE=1)",
		0},
	{"gpu", KEY_GPU, "MODE", 0,
		"what the GPU does, from CUPTI: on (default); graphs = one record a CUDA graph, not each of its"
		" nodes; off = not before the program calls lapwing_gpu_start(); release = CUPTI is left to"
		" the program's own profiler (also LAPWING_GPU)",
		0},
	{"pcap", KEY_PCAP, "DEVICE", OPTION_ARG_OPTIONAL,
		"capture the headers of packets on DEVICE (default: all devices of this network"
		" namespace); needs the capability CAP_NET_RAW (also LAPWING_PCAP=DEVICE)",
		0},
	{"pcap-filter", KEY_PCAP_FILTER, "EXPR", 0,
		"with --pcap: capture what EXPR (pcap-filter(7)) selects too, not only TCP and RoCE;"
		" 'port 2049' shows NFS over UDP (also LAPWING_PCAP_FILTER)",
		0},
	{"quiet", 'q', NULL, 0, "no summary line on stderr", 0}, {0}};

const struct argp lw_launch_argp = {argp_options, parse, NULL, NULL, NULL, NULL, NULL};
