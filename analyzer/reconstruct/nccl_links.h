/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nccl_links.h - what NCCL's proxies sent from rank to rank, and what they waited for: the GPU, the other end, the network.
 *
 * A proxy has up to 8 messages (NCCL's steps) under way, so its waits add up to more than the time that went by. What is given
 * is the mean of a message. Of the k-th message from A to B, with the data ready at A at r, handed to the network at h, sent
 * at s, and B's receive posted at p and there at a:
 *
 *	A waits for the other end  peer = h - r      A's message is on the network  wire = s - h
 *	B waits after it posted    got  = a - p
 *
 * None of these alone says who is late: got is long with a late sender and with a slow network; wire, where the network takes
 * messages that nobody has asked for (sockets), with a late receiver, too. Both ends together do, by lengths only, so that
 * clocks need not agree, and sums over the messages of an operation do as well:
 *
 *	on the network     at most  min(wire, got)
 *	receiver was late  at least peer + wire - got      (it had not posted)
 *	sender was late    at least got - peer - wire      (it had nothing to send; or a socket's buffers held it)
 *
 * The k-th operation of a communicator with messages from A to B is the same at both ends, as NCCL has no other order.
 */
#ifndef LAPWING_ANALYZER_RECONSTRUCT_NCCL_LINKS_H
#define LAPWING_ANALYZER_RECONSTRUCT_NCCL_LINKS_H

#include "analyzer/run.h"

struct lw_nccl_side { /* of a link: sums over the proxies at one end, in steps that count */
	double n_proxies, n_messages, bytes;
	double gpu_ns, peer_ns, wire_ns;
};

/* Over operations that both ends recorded, sums; of nothing where n_messages is 0. */
struct lw_nccl_both {
	double n_messages, network_ns, receiver_late_ns, sender_late_ns;
};

struct lw_nccl_half { /* the first half of the operations of a rank, or the second */
	struct lw_nccl_side sent, received;
	struct lw_nccl_both both;
};

struct lw_nccl_link {
	int32_t step;     /* index into the steps of ranks; LW_NONE = all that count together */
	int32_t from, to; /* indices into run->ranks; LW_NONE: not in the run, or not known */
	struct lw_nccl_side sent, received; /* at from, at to; n_proxies 0 = not recorded */
	struct lw_nccl_both both;
	struct lw_nccl_half half[2];
	double n_channels; /* at most, of an operation: each has up to 8 messages under way */
	double n_steps;    /* that the sums are of, 1 = of the whole run */
	const char *why;   /* static: why nothing is known of both; NULL = it is */
	unsigned kinds;    /* of what carried it, as NCCL says: 1 << enum lw_nccl_net_op */
	int32_t nic; /* by which it leaves, index into run->nics; LW_NONE = not known, or several */
	bool has_nics; /* several */
};

struct lw_nccl_links {
	lw_vec(struct lw_nccl_link) at; /* by from, to; LW_NONE first */
	uint64_t n;                     /* of at, and those that were too many */
	bool has_steps;                 /* sums are of steps that count; else of the whole run */
	struct lw_nccl_side
		other; /* of proxies for operations of other processes, or that are not in the run; whole run */
	/* One whose messages are on the network for three times as long as those of any other link of messages of like size, in
	 * both halves of the run: LW_NONE = none stands out, or that is not known. */
	int32_t slow;
	double slow_ns, next_ns; /* of slow: at most, a message; the most of the others */
	int32_t n_like;          /* of slow: how many those are */
	/* Index into run->ranks: others have data for it, it has not posted, and it waits for nobody itself; likewise. */
	int32_t late;
	double late_ns, late_next_ns; /* of late: at least, a message; the most of other ranks */
	int32_t late_for;             /* who waits most for it */
};

/** lw_nccl_links() - Return: LW_OK or LW_ERR_NOMEM; lw_nccl_links_done() in both cases. */
int lw_nccl_links(const struct lw_run *run, struct lw_nccl_links *ret_links);

/** lw_nccl_links_by_step() - the same, each link once a step that counts, by step, the first @most; none stands out. */
int lw_nccl_links_by_step(const struct lw_run *run, uint64_t most, struct lw_nccl_links *ret_links);
void lw_nccl_links_done(struct lw_nccl_links *links);

/** lw_nccl_has_proxies() - some rank recorded some. */
bool lw_nccl_has_proxies(const struct lw_run *run);

/** lw_nccl_proxies_of() - those of operation @op of @rank, side by side. Return: the first, *@ret_n of them. */
const struct lw_nccl_proxy *lw_nccl_proxies_of(
	const struct lw_rank *rank, int32_t op, size_t *ret_n);

/** lw_nccl_carriers_of() - likewise, what carried it. */
const struct lw_nccl_carrier *lw_nccl_carriers_of(
	const struct lw_rank *rank, int32_t op, size_t *ret_n);

#endif /* LAPWING_ANALYZER_RECONSTRUCT_NCCL_LINKS_H */
