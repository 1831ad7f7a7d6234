/* SPDX-License-Identifier: Apache-2.0 */
/*
 * look.h - what a collector does each time it looks: rings, samplers and packets, in one transaction; and which
 * processes of the job are there. When it looks, and for how long: collect.c.
 */
#ifndef LAPWING_COLLECTOR_LOOK_H
#define LAPWING_COLLECTOR_LOOK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/vec.h"
#include "collector/drain.h"
#include "collector/packets.h"
#include "collector/sample.h"
#include "collector/writer.h"

struct lw_look {
	struct lw_drain drain;
	struct lw_writer *writer;
	struct lw_samplers *samplers;
	struct lw_packets *packets;            /* NULL: nobody wants them */
	lw_vec(struct lw_process *) processes; /* not ended yet */
	size_t n_processes;                    /* ever seen */
	int epoll_fd;                          /* tells of ends of processes, by their address */
	int64_t now_ns;
	int64_t changed_ns; /* a process appeared or ended */
	int64_t scanned_ns; /* the directory was read, unwatched pids were asked */
	bool must_scan;     /* there may be new rings */
	bool is_quick;      /* rings fill quickly */
};

/** lw_look() - Return: records stored (more may wait when it is LW_TAKE_MAX_RECORDS), or < 0. */
int lw_look(struct lw_look *look);

/** lw_look_leave() - the last look: what the samplers have, and in the file that processes still run. */
int lw_look_leave(struct lw_look *look);

/** lw_look_close() - close and free everything in @look. */
void lw_look_close(struct lw_look *look);

/** lw_look_watch() - @epoll_fd tells of @fd with @data. Return: LW_OK, LW_ERR_IO. */
int lw_look_watch(int epoll_fd, int fd, void *data);

#endif /* LAPWING_COLLECTOR_LOOK_H */
