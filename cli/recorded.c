/* SPDX-License-Identifier: Apache-2.0 */
/* recorded.c - the line of `record` on what its run file holds, and lines on what was asked for and is not in it. */
#include <stdio.h>
#include <string.h>

#include "cli/cmd.h"
#include "cli/launch.h"
#include "schema/store.h"

struct recorded {
	int64_t n_ranks, n_processes, n_events, n_lost, n_died;
	int64_t n_packets, n_samples, n_probes, n_broken;
};

static int count(struct lw_store *store, struct recorded *ret_is)
{
	const struct {
		const char *sql;
		int64_t *ret_n;
	} counts[] = {
		{"SELECT count(DISTINCT rank) FROM process", &ret_is->n_ranks},
		{"SELECT count(*) FROM process", &ret_is->n_processes},
		{"SELECT coalesce(sum(n_stored), 0) FROM thread", &ret_is->n_events},
		{"SELECT coalesce(sum(n_lost), 0) FROM thread", &ret_is->n_lost},
		{"SELECT count(*) FROM process WHERE ended = 'died'", &ret_is->n_died},
		{"SELECT coalesce(sum(n_received), 0) FROM capture", &ret_is->n_packets},
		{"SELECT count(*) FROM counter_sample", &ret_is->n_samples},
		{"SELECT count(*) FROM probe", &ret_is->n_probes},
		{"SELECT count(*) FROM capture WHERE problem IS NOT NULL", &ret_is->n_broken},
	};
	int status = LW_OK;

	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]) && status == LW_OK; i++)
		status = lw_store_int(store, counts[i].sql, counts[i].ret_n);
	return status;
}

static void say_nothing(const struct lw_launch *s, const struct recorded *is)
{
	char rest[128] = "";

	if (is->n_packets)
		snprintf(rest, sizeof(rest), "; %lld packets%s are in it", (long long)is->n_packets,
			is->n_samples ? " and counters" : "");
	else if (is->n_samples)
		snprintf(rest, sizeof(rest), "; counters are in it");
	lw_cli_say(
		"%s: nothing was recorded of any process: no MPI, Horovod, Gloo, NCCL or mark was seen;"
		" NVTX ranges, sockets and GPU work alone make no process one to record: have it call"
		" lapwing_mark_step() (lapwing_mark.h; `lapwing doctor -- %s ...` says what can be seen)%s",
		s->out, s->options.command[0], rest);
}

/* The first text that @sql gives, behind @what. */
static void say_text(
	const struct lw_launch *s, struct lw_store *store, const char *what, const char *sql)
{
	sqlite3_stmt *row;

	if (lw_store_prepare(store, sql, &row) < 0)
		return;
	if (lw_store_step(store, row) == 1)
		lw_cli_say("%s: %s%s", s->out, what, lw_store_column_text(row, 0));
	sqlite3_finalize(row);
}

static void say_missing(
	const struct lw_launch *s, struct lw_store *store, const struct recorded *is)
{
	if (s->options.probe_s > 0 && !is->n_probes)
		say_text(s, store, "--probe: there was none: ",
			"SELECT coalesce((SELECT d.text FROM hook k JOIN string n ON n.id = k.name_id"
			" JOIN string d ON d.id = k.detail_id WHERE n.text = 'probe' AND k.status = 3),"
			" 'no process that could carry it said why (docs/probe.md)')");
}

void lw_launch_summarize(const struct lw_launch *s)
{
	struct recorded is = {0};
	struct lw_store *store;
	int status = lw_store_open(s->out, LW_STORE_READ, &store);

	if (status < 0) {
		lw_cli_fail(status);
		return;
	}
	status = count(store, &is);
	if (status < 0)
		lw_cli_fail(status);
	else if (!is.n_processes)
		say_nothing(s, &is);
	else if (s->place.rank <= 0 || is.n_lost || is.n_died) /* one line a job, not one a rank */
		lw_cli_say("%s: %lld %s, %lld events, %lld lost%s", s->out,
			(long long)(is.n_ranks ? is.n_ranks : is.n_processes),
			is.n_ranks ? "rank(s)" : "process(es) without a rank",
			(long long)is.n_events, (long long)is.n_lost,
			is.n_died ? "; a process died" : "");
	if (status == LW_OK && s->place.rank <= 0)
		say_missing(s, store, &is);
	if (status == LW_OK && is.n_broken) /* each has its own */
		say_text(s, store, "--pcap: it ended early: ",
			"SELECT problem FROM capture WHERE problem IS NOT NULL");
	lw_store_close(store);
}
