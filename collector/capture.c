/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/capture.h"

#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/units.h"
#include "collector/filter.h"
#include "collector/packet_clock.h"
#include "collector/tap.h"

#define HAND_OVER_NS (100 * LW_NS_PER_MS)
#define ALL_FLOWS_NS LW_NS_PER_S        /* so often totals of known flows are handed over */
#define FORGET_NS    (60 * LW_NS_PER_S) /* a stranger that is silent so long gives its place back */
#define REST_NS      (150 * LW_NS_PER_MS) /* after this time the last block was handed to us */

enum { MAX_BINS = 1 << 16 };     /* that wait for the writer; beyond it bins grow */
enum { MAX_ERRORS = 1000 };      /* of a device that is still there */
enum { MAX_DISPATCH = 1 << 14 }; /* packets between two looks at the clock */

struct news { /* of a flow of the job's */
	struct lw_flow_key key;
	bool is_sent, is_over;
};

struct lw_capture {
	char device[64], also[LW_FILTER_BYTES / 2], link_type[32];
	struct bpf_program also_program; /* bf_len 0 = nothing */
	int64_t start_ns;
	pcap_t *pcap;
	int stop_fd;
	pthread_t thread;
	bool has_thread, has_ended_thread, is_ended; /* is_ended: the last batch was made */

	/* the thread's */
	struct lw_flow_table flows;
	struct lw_packet_clock clock;
	struct lw_packet_batch filling;
	int link;
	unsigned int interface, n_errors; /* index; 0 = all of them */
	uint64_t n_dropped;
	unsigned int last_dropped; /* libpcap's counter, which wraps */
	int64_t stats_ns, handed_ns, all_flows_ns;
	int64_t strangers_ns; /* they were counted */
	uint64_t last_strangers;
	bool is_narrow, is_broken;
	struct lw_filter_peers peers; /* of the job; one that was stays */
	char in_force[LW_FILTER_BYTES];

	pthread_mutex_t lock; /* of all below */
	struct lw_packet_batch ready;
	lw_vec(struct news) news;
	bool has_ready, has_new_filter, is_stopping;
	char filter[2 * LW_FILTER_BYTES]; /* with the user's */

	struct lw_packet_batch taken; /* the owner's */
};

/* ---- the owner's side ---------------------------------------------------------------------------- */

static void clear(struct lw_packet_batch *batch)
{
	batch->bins.n = batch->states.n = batch->gaps.n = 0;
}

static bool emit(void *user, const struct lw_packet_bin *bin)
{
	struct lw_capture *c = user;

	return c->filling.bins.n < MAX_BINS && lw_vec_push(&c->filling.bins, *bin) == LW_OK;
}

static void tell_filter(struct lw_capture *c)
{
	snprintf(c->filter, sizeof(c->filter), "%s%s%s%s", c->in_force, *c->also ? " or (" : "",
		c->also, *c->also ? ")" : "");
}

int lw_capture_open(
	const char *device, const char *filter, struct pcap *tap, struct lw_capture **ret_capture)
{
	struct lw_capture *c = calloc(1, sizeof(*c));
	struct pcap_stat stat;
	int status = LW_OK;

	if (!c) {
		if (tap)
			pcap_close(tap);
		return lw_fail(LW_ERR_NOMEM, "no memory");
	}
	c->pcap = tap;
	c->stop_fd = -1;
	pthread_mutex_init(&c->lock, NULL);
	snprintf(c->device, sizeof(c->device), "%s", device && *device ? device : LW_CAPTURE_ANY);
	if (filter && strlen(filter) >= sizeof(c->also))
		status = lw_fail(LW_ERR_LIMIT, "the filter expression is too long");
	else
		snprintf(c->also, sizeof(c->also), "%s", filter ? filter : "");
	if (status == LW_OK && !tap)
		status = lw_tap_open(c->device, &c->pcap);
	if (status == LW_OK && *c->also)
		status = lw_filter_compile(c->pcap, c->also, &c->also_program);
	c->link = status == LW_OK ? pcap_datalink(c->pcap) : 0;
	if (status == LW_OK)
		status = lw_filter_text(
			&c->peers, c->link == LW_LINK_ETHERNET, c->in_force, sizeof(c->in_force));
	if (status == LW_OK)
		status = lw_tap_filter(c->pcap, c->in_force, &c->also_program);
	if (status == LW_OK)
		status = lw_flows_open(&c->flows, LW_FLOWS_DEFAULT, emit, c);
	if (status == LW_OK)
		status = lw_flows_sum_strangers(&c->flows);
	if (status < 0) {
		lw_capture_close(c);
		return status;
	}
	tell_filter(c);
	if (pcap_stats(c->pcap, &stat) == 0)
		c->last_dropped = stat.ps_drop;
	c->interface = strcmp(c->device, LW_CAPTURE_ANY) ? if_nametoindex(c->device) : 0;
	snprintf(c->link_type, sizeof(c->link_type), "%s", lw_tap_link_name(c->pcap));
	c->flows.mtu_bytes = strcmp(c->device, LW_CAPTURE_ANY) ? lw_tap_mtu(c->device) : 0;
	c->start_ns = lw_packet_clock_read(&c->clock);
	c->stats_ns = c->handed_ns = c->all_flows_ns = c->strangers_ns = c->start_ns;
	*ret_capture = c;
	return LW_OK;
}

struct lw_capture_row lw_capture_describe(const struct lw_capture *c)
{
	return (struct lw_capture_row){.device = c->device,
		.filter = c->filter,
		.source = "live",
		.link_type = c->link_type,
		.snap_bytes = LW_PACKET_SNAP_BYTES,
		.start_ns = c->start_ns};
}

static int tell(struct lw_capture *c, const struct news *one)
{
	int status;

	pthread_mutex_lock(&c->lock);
	status = lw_vec_push(&c->news, *one);
	pthread_mutex_unlock(&c->lock);
	return status;
}

int lw_capture_expect(struct lw_capture *c, const struct lw_flow_key *key, bool is_sent)
{
	return tell(c, &(struct news){.key = *key, .is_sent = is_sent});
}

void lw_capture_forget(struct lw_capture *c, const struct lw_flow_key *key)
{
	/* without memory for that it keeps its place */
	(void)tell(c, &(struct news){.key = *key, .is_over = true});
}

/* What the thread left behind goes the same way as what it handed over. */
static void hand_over(struct lw_capture *c, int64_t now_ns, bool is_last);

const struct lw_packet_batch *lw_capture_take(struct lw_capture *c)
{
	const struct lw_packet_batch *batch = NULL;

	if (c->has_ended_thread && !c->has_ready && !c->is_ended)
		hand_over(c, c->stats_ns, true);
	pthread_mutex_lock(&c->lock);
	if (c->has_ready) {
		struct lw_packet_batch empty = c->taken;

		c->taken = c->ready;
		c->ready = empty;
		clear(&c->ready);
		c->has_ready = false;
		batch = &c->taken;
	}
	pthread_mutex_unlock(&c->lock);
	return batch;
}

bool lw_capture_has_news(struct lw_capture *c)
{
	bool has_news;

	pthread_mutex_lock(&c->lock);
	has_news = c->has_ready || c->has_new_filter;
	pthread_mutex_unlock(&c->lock);
	return has_news;
}

bool lw_capture_filter(struct lw_capture *c, char *text, size_t text_bytes)
{
	bool has_new;

	pthread_mutex_lock(&c->lock);
	has_new = c->has_new_filter;
	c->has_new_filter = false;
	snprintf(text, text_bytes, "%s", c->filter);
	pthread_mutex_unlock(&c->lock);
	return has_new;
}

void lw_capture_stop(struct lw_capture *c)
{
	const uint64_t one = 1;

	if (!c->has_thread)
		return;
	pthread_mutex_lock(&c->lock);
	c->is_stopping = true;
	pthread_mutex_unlock(&c->lock);
	if (write(c->stop_fd, &one, sizeof(one)) < 0)
		errno = 0; /* it looks every 100 ms anyway */
	pthread_join(c->thread, NULL);
	c->has_thread = false;
	c->has_ended_thread = true;
}

struct pcap *lw_capture_leave(struct lw_capture *c)
{
	pcap_t *tap = c->is_broken ? NULL : c->pcap;

	if (tap)
		c->pcap = NULL;
	return tap;
}

void lw_capture_close(struct lw_capture *c)
{
	if (!c)
		return;
	lw_capture_stop(c);
	pcap_freecode(&c->also_program);
	if (c->pcap)
		pcap_close(c->pcap);
	if (c->stop_fd >= 0)
		close(c->stop_fd);
	lw_flows_close(&c->flows);
	lw_packet_batch_free(&c->filling);
	lw_packet_batch_free(&c->ready);
	lw_packet_batch_free(&c->taken);
	lw_vec_free(&c->news);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

/* ---- the thread ------------------------------------------------------------------------------------- */

static void add_gap(struct lw_capture *c, int64_t start_ns, int64_t end_ns, uint64_t n)
{
	struct lw_capture_gap gap = {start_ns, end_ns, n};

	/* Without memory for the row the total still counts. */
	if (c->filling.gaps.n < MAX_BINS)
		(void)lw_vec_push(&c->filling.gaps, gap);
}

static void on_packet(u_char *user, const struct pcap_pkthdr *header, const u_char *bytes)
{
	struct lw_capture *c = (struct lw_capture *)user;
	struct lw_capture_counts *counts = &c->filling.counts;
	struct lw_packet packet;

	counts->n_received++;
	switch (lw_packet_decode(c->link, bytes, header->caplen, header->len, &packet)) {
	case LW_PACKET_OK:
		/* the precision that was asked for puts ns into tv_usec */
		lw_flows_add(&c->flows, &packet,
			lw_packet_clock_convert(
				&c->clock, header->ts.tv_sec * LW_NS_PER_S + header->ts.tv_usec));
		break;
	case LW_PACKET_OTHER:
		counts->n_other++;
		break;
	case LW_PACKET_CUT:
		counts->n_cut++;
		break;
	case LW_PACKET_BAD:
		counts->n_bad++;
		break;
	}
}

static void read_drops(struct lw_capture *c, int64_t now_ns)
{
	struct pcap_stat stat;

	if (pcap_stats(c->pcap, &stat) < 0)
		return;
	if (stat.ps_drop != c->last_dropped) {
		unsigned int n = stat.ps_drop - c->last_dropped;

		c->n_dropped += n;
		add_gap(c, c->stats_ns, now_ns, n);
	}
	c->last_dropped = stat.ps_drop;
	c->stats_ns = now_ns;
}

static bool has_content(const struct lw_packet_batch *batch)
{
	return batch->bins.n || batch->states.n || batch->gaps.n;
}

static void take_news(struct lw_capture *c)
{
	struct news *one;

	pthread_mutex_lock(&c->lock);
	lw_vec_foreach (one, &c->news) {
		if (one->is_over)
			lw_flows_forget(&c->flows, &one->key);
		else
			lw_flows_expect(&c->flows, &one->key);
		if (!one->is_over && one->is_sent && one->key.protocol == IPPROTO_TCP)
			lw_filter_add_peer(&c->peers, one->key.destination);
	}
	c->news.n = 0;
	pthread_mutex_unlock(&c->lock);
}

/* Everything that is full goes to the owner; what it has not taken yet stays in front. */
static void hand_over(struct lw_capture *c, int64_t now_ns, bool is_last)
{
	bool has_all = is_last || now_ns - c->all_flows_ns >= ALL_FLOWS_NS, has_flushed;

	take_news(c);
	has_flushed = lw_flows_flush(&c->flows, is_last ? INT64_MAX : now_ns - HAND_OVER_NS);

	c->filling.counts.n_dropped = c->n_dropped;
	c->filling.counts.clock_error_ns = c->clock.error_ns;
	c->filling.end_ns = is_last ? now_ns : 0;
	c->handed_ns = now_ns;
	pthread_mutex_lock(&c->lock);
	if (!c->has_ready) {
		/* Without memory for their states no bins go: they wait for the next time. */
		int status = lw_flows_states(&c->flows, !has_all, &c->filling);

		if (status == LW_OK && (is_last || has_content(&c->filling))) {
			struct lw_packet_batch full = c->filling;

			c->filling = c->ready;
			c->filling.counts = full.counts;
			memcpy(c->filling.problem, full.problem, sizeof(full.problem));
			c->ready = full;
			c->has_ready = true;
			clear(&c->filling);
			if (has_all) { /* all that is known of them is on its way */
				c->all_flows_ns = now_ns;
				lw_flows_age(&c->flows, now_ns - FORGET_NS);
			}
			c->is_ended = is_last && has_flushed;
		}
	}
	pthread_mutex_unlock(&c->lock);
}

/* libpcap lets nothing pass while it changes a filter: that moment is an incomplete interval. */
static void set_filter(struct lw_capture *c)
{
	char text[LW_FILTER_BYTES];
	int64_t start_ns;

	if (lw_filter_text(&c->peers, c->link == LW_LINK_ETHERNET, text, sizeof(text)) < 0 ||
		!strcmp(text, c->in_force))
		return;
	start_ns = lw_packet_clock_read(&c->clock);
	if (lw_tap_filter(c->pcap, text, &c->also_program) < 0)
		return; /* the old one stays */
	add_gap(c, start_ns, lw_packet_clock_read(&c->clock), 0);
	strcpy(c->in_force, text);
	pthread_mutex_lock(&c->lock);
	tell_filter(c);
	c->has_new_filter = true;
	pthread_mutex_unlock(&c->lock);
}

/* Strangers are counted from one hand-over to the next. */
static bool are_strangers_many(struct lw_capture *c, int64_t now_ns)
{
	int64_t since_ns = now_ns - c->strangers_ns;
	uint64_t n = c->flows.n_foreign - c->last_strangers;

	/* a burst is no reason to look away for good */
	if (since_ns < LW_NS_PER_S)
		return false;
	c->strangers_ns = now_ns;
	c->last_strangers = c->flows.n_foreign;
	return (double)n >
	       (double)LW_CAPTURE_STRANGERS_PER_S * (double)since_ns / (double)LW_NS_PER_S;
}

/* The filter is narrowed when strangers are too many. */
static void follow_job(struct lw_capture *c, int64_t now_ns)
{
	if (are_strangers_many(c, now_ns))
		c->is_narrow = true; /* and stays so: coming and going would leave holes */
	if (c->is_narrow)
		set_filter(c);
}

/* libpcap looks for its name, and takes a device that was renamed for gone. The socket knows better. */
static bool is_still_there(struct lw_capture *c)
{
	char name[IF_NAMESIZE];

	return c->interface && if_indextoname(c->interface, name) && c->n_errors++ < MAX_ERRORS;
}

/* Reads what is there. Return: packets, or < 0: the device is gone. */
static int read_packets(struct lw_capture *c)
{
	int n;

	lw_packet_clock_read(&c->clock);
	n = pcap_dispatch(c->pcap, MAX_DISPATCH, on_packet, (u_char *)c);
	if (n < 0 && is_still_there(c))
		return 0;
	if (n > 0)
		c->n_errors = 0;
	if (n < 0 && !c->is_broken) {
		c->is_broken = true;
		snprintf(c->filling.problem, sizeof(c->filling.problem), "%s: %s", c->device,
			pcap_geterr(c->pcap));
	}
	return n;
}

static bool is_stopping(struct lw_capture *c)
{
	bool is;

	pthread_mutex_lock(&c->lock);
	is = c->is_stopping;
	pthread_mutex_unlock(&c->lock);
	return is;
}

/* Waits for packets, or for the end. */
static void wait_for_packets(struct lw_capture *c, bool only_packets)
{
	struct pollfd fds[] = {{.fd = only_packets ? -1 : c->stop_fd, .events = POLLIN},
		{.fd = c->is_broken ? -1 : pcap_get_selectable_fd(c->pcap), .events = POLLIN}};

	poll(fds, 2, only_packets ? 20 : 100);
}

static void *run(void *user)
{
	struct lw_capture *c = user;
	int64_t end_ns = 0, now_ns = c->start_ns, broken_ns = 0;

	while (!end_ns || now_ns < end_ns) {
		int n = 0;

		wait_for_packets(c, end_ns != 0);
		if (!c->is_broken)
			n = read_packets(c);
		now_ns = lw_packet_clock_read(&c->clock);
		if (n < 0)
			broken_ns = now_ns;
		if (now_ns - c->handed_ns >= HAND_OVER_NS) {
			if (!c->is_broken) {
				read_drops(c, now_ns);
				follow_job(c, now_ns);
			}
			hand_over(c, now_ns, false);
		}
		if (!end_ns && is_stopping(c)) /* packets in the block that is not full come late */
			end_ns = now_ns + (c->is_broken ? 0 : REST_NS);
	}
	if (broken_ns)
		add_gap(c, broken_ns, now_ns, 0);
	else
		read_drops(c, now_ns);
	c->stats_ns = now_ns;
	return NULL;
}

int lw_capture_start(struct lw_capture *c)
{
	int error;

	c->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	error = c->stop_fd < 0 ? errno : pthread_create(&c->thread, NULL, run, c);
	if (error)
		return lw_fail(LW_ERR_NOMEM, "capture: %s", strerror(error));
	c->has_thread = true;
	return LW_OK;
}
