/* SPDX-License-Identifier: Apache-2.0 */
/*
 * collector.h - one collector per host and job: from the rings of a directory to one run file.
 *
 * lapwingd is lw_collect() in a process of its own. `record` starts it with lw_collector_spawn();
 * a job that was started with the variables alone starts it from its first rank.
 */
#ifndef LAPWING_COLLECTOR_COLLECTOR_H
#define LAPWING_COLLECTOR_COLLECTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/vec.h"
#include "collector/sample.h"

enum lw_collect_until {
	LW_UNTIL_STOP, /* DIR/stop appears (or the starter dies), and no process with a ring lives */
	LW_UNTIL_GONE, /* no process with a ring lives, and for grace_ns none appeared */
};

struct lw_collect_options {
	const char *dir; /* ring directory */
	const char *out; /* run file; not used when DIR/out names one already, then that goes on */
	const char *created_by; /* program and version */
	const char *command;    /* what is recorded, "" = not known yet */
	enum lw_collect_until until;
	int64_t grace_ns;        /* LW_UNTIL_GONE */
	pid_t starter;           /* LW_UNTIL_STOP: its end counts as stop; 0 = nobody */
	const char *pcap_device; /* network device to capture, "" = all, NULL = none */
	const char *pcap_filter; /* what is captured beside the job's connections, NULL = nothing */
	bool must_capture;       /* not to begin at all when it cannot be captured */
	bool must_move; /* out counts even when DIR/out names another: what that holds is copied */
	struct lw_sample_options sample; /* period 0 = no sampling */
	void (*ready)(void);             /* called when the run file is there; may be NULL */
	void (*closed)(const char
			*out); /* called when it is closed and nothing is left to do; may be NULL */
};

/**
 * lw_collect() - collect until the job is over, close the run file, remove the directory.
 * SIGTERM makes it end when the processes have gone, at the latest after ten seconds; SIGUSR1 at once.
 * Both are blocked on return. Other signals are the caller's business.
 * On an error the rings stay where they are. *@ret_has_begun: it came so far that records may be in
 * the run file, so the directory is worth a salvage.
 * Return: LW_OK; LW_ERR_STATE: another collector has the directory; LW_ERR_IO, LW_ERR_FORMAT, ...
 */
int lw_collect(const struct lw_collect_options *options, bool *ret_has_begun);

/**
 * lw_collector_spawn() - start lapwingd for @options in a session of its own, wait until it is ready.
 * @program: path of lapwingd. Its errors appear on this process's stderr.
 * Return: its pid; LW_ERR_IO: it could not be started; LW_ERR_STATE: it ended before it was ready and
 * has said why on stderr.
 */
int lw_collector_spawn(const char *program, const struct lw_collect_options *options);

/* ---- ring directories (schema/rundir.h) ---------------------------------------------------------- */

enum { LW_RUNDIR_PATH_BYTES = 256 };

/**
 * lw_rundir_make() - a new private ring directory, in memory where there is room for @wanted_bytes.
 * Return: LW_OK, or LW_ERR_IO: nowhere to put it.
 */
int lw_rundir_make(uint64_t wanted_bytes, char path[LW_RUNDIR_PATH_BYTES]);

/** lw_rundir_remove() - delete what a collector leaves behind, then @path. Return: it is gone. */
bool lw_rundir_remove(const char *path);

/** lw_rundir_stop() - tell the collector of @path that the command ended with @exit_code. */
int lw_rundir_stop(const char *path, int exit_code);

/** lw_rundir_set_out() - DIR/out names the run file: a later collector of @path goes on with it. */
int lw_rundir_set_out(const char *path, const char *out);

struct lw_rundir {
	char path[LW_RUNDIR_PATH_BYTES];
	char out[4096];     /* run file, "" = none yet */
	char last_log[512]; /* last line of its log, "" */
	size_t n_rings;
	bool has_lock;     /* a collector was here once */
	bool is_collected; /* a collector is at work */
};
typedef lw_vec(struct lw_rundir) lw_rundir_list;

/** lw_rundir_look() - Return: LW_OK, or LW_ERR_IO: not a directory of this user. */
int lw_rundir_look(const char *path, struct lw_rundir *ret_rundir);

/** lw_rundir_find() - every ring directory of this user in the usual places. Return: LW_OK or error. */
int lw_rundir_find(lw_rundir_list *ret_list);

/**
 * lw_out_lock() - collectors that start together take turns, from their look at each other to the name
 * in DIR/out. Return: a descriptor to close; -1: no such folder, or it cannot be locked.
 */
int lw_out_lock(const char *out);

/** lw_out_check_free() - Return: LW_OK, or LW_ERR_STATE: a collector that lives is writing @out. */
int lw_out_check_free(const char *out);

#endif /* LAPWING_COLLECTOR_COLLECTOR_H */
