/* SPDX-License-Identifier: Apache-2.0 */
/*
 * drain.h - the rings of one directory: found, checked, copied out, given back.
 *
 *	lw_drain_discover()   new ring files
 *	lw_drain_take()       copies what is published, checks every record, groups them by kind
 *	  (the writer stores it, one transaction)
 *	lw_drain_release()    only now may the producers reuse the slots
 *
 * Trusts nothing: the header is copied and checked once, records are copied before they are looked
 * at, sizes are compared with the file's. What is not valid is counted as a loss, never followed.
 */
#ifndef LAPWING_COLLECTOR_DRAIN_H
#define LAPWING_COLLECTOR_DRAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/vec.h"
#include "collector/records.h"
#include "schema/ring.h"

enum { LW_TAKE_MAX_RECORDS = 1 << 16, LW_LOSS_COUNT = 16 };

struct lw_ring {
	char name[80]; /* of its file */
	int fd;
	struct lw_ring_header *header; /* the file's first page, shared with the producer */
	/* of the header, as checked when the ring was found */
	uint32_t n_records, pid, tid, serial;
	int64_t process_start_ticks, created_ns;
	/* the drain's */
	uint64_t position;    /* records taken since the ring was made */
	uint64_t n_ring_full; /* pushes before position that found the ring full */
	bool is_damaged;      /* head, seq or size cannot be: not read any more */
	bool is_final;        /* its producer is gone: a text cut short stays so */
	bool is_ended;        /* read to its end, and its final counts are written */
	/* the writer's; in the run file too */
	struct lw_process *process;
	int64_t thread_id;         /* 0 = not registered yet */
	uint64_t n_stored, n_lost; /* n_stored + n_lost = position + n_ring_full */
	uint64_t n_new
		[LW_LOSS_COUNT]; /* by enum lw_loss_reason: found by this take, not stored yet */
	uint64_t n_taken;        /* records of this take, valid or not */
};

/* A process with rings here; kept by collect.c, its row by the writer. */
struct lw_process {
	uint32_t pid;
	int64_t start_ticks;
	int64_t process_id; /* row; 0 = not registered yet */
	int64_t last_ns;    /* latest time in its records */
	int watch_fd;       /* readable when it ends; -1 = ask */
	bool is_gone;       /* nothing more will be pushed */
	bool is_ended;      /* its row says how it ended */
	bool has_open_ring; /* one of its rings was left without the word that it ended in order */
	uint32_t n_rings;   /* in drain.rings */
};

struct lw_text {
	uint64_t id;
	size_t offset; /* of its terminated text in lw_take.text_bytes */
};

/* What one lw_drain_take() copied out. */
struct lw_take {
	struct lw_event *events;
	struct lw_record *records;
	size_t n; /* events copied; invalid ones are in no list */
	struct lw_record_list of_kind[LW_EV_COUNT];
	lw_vec(struct lw_text) texts;
	lw_vec(char) text_bytes;
};

struct lw_drain {
	char *dir;
	int dir_fd;
	lw_vec(struct lw_ring *) rings;
	lw_vec(char *) refused; /* names of files that are no rings: not looked at again */
	size_t first;           /* ring that is taken first: turns, so that none starves */
	struct lw_take take;
};

/** lw_drain_open() - Return: LW_OK, LW_ERR_IO (@dir cannot be read), LW_ERR_NOMEM. */
int lw_drain_open(struct lw_drain *drain, const char *dir);
void lw_drain_close(struct lw_drain *drain);

/**
 * lw_drain_discover() - look for ring files that are not known yet.
 * @refused: called for a *.ring file that is not a valid ring, with the reason; may be NULL
 * Return: number of new rings (at the end of drain->rings), or < 0.
 */
int lw_drain_discover(struct lw_drain *drain,
	void (*refused)(void *user, const char *name, const char *why), void *user);

/**
 * lw_drain_take() - copy published records of all rings into drain->take.
 * @now_ns: CLOCK_MONOTONIC; a record from later than a second after it is invalid
 * Positions, n_new and n_taken of the rings say what happened; the records stay in the rings.
 * Return: records copied, valid or not.
 */
size_t lw_drain_take(struct lw_drain *drain, int64_t now_ns);

/** lw_drain_release() - everything taken so far is stored: producers may reuse the slots. */
void lw_drain_release(struct lw_drain *drain);

/** lw_ring_head() - records published so far; damaged rings: what was taken. */
uint64_t lw_ring_head(const struct lw_ring *ring);

/** lw_ring_is_closed() - its thread or process said that it ended in order. */
bool lw_ring_is_closed(const struct lw_ring *ring);

/** lw_ring_lost() - pushes that found the ring full so far, as its producer counted them. */
uint64_t lw_ring_lost(const struct lw_ring *ring);

/** lw_drain_forget() - drop @ring and delete its file: all of it is in the store. */
void lw_drain_forget(struct lw_drain *drain, struct lw_ring *ring);

/** lw_drain_forget_all() - the same for every ring, and for files that were no rings. */
void lw_drain_forget_all(struct lw_drain *drain);

#endif /* LAPWING_COLLECTOR_DRAIN_H */
