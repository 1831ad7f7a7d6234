/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_sample.c - any bytes as what the samplers read: files of sysfs and procfs, names of drivers, netlink
 * messages. Nothing may read outside them; a number that comes out must be the one that stands there.
 *
 * Input: the first byte says as what, the rest is it.
 */
#include <fcntl.h>
#include <linux/netlink.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "collector/counter.h"
#include "collector/sample_ethtool.h"
#include "collector/sample_tcp.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

/* assert() would be compiled out of an optimized build */
static void must(bool is_so, const char *what)
{
	if (is_so)
		return;
	fprintf(stderr, "fuzz_sample: %s\n", what);
	abort();
}

static void as_number(const char *text, size_t n)
{
	uint64_t value, again;
	char canonical[32];

	if (lw_sysfs_number(text, n, &value) < 0)
		return;
	snprintf(canonical, sizeof(canonical), "%llu\n", (unsigned long long)value);
	must(lw_sysfs_number(canonical, strlen(canonical), &again) == LW_OK && again == value,
		"a number is not itself");
}

static void as_softnet(const char *text, size_t n)
{
	uint32_t sum;

	for (unsigned column = 0; column < 16; column++)
		(void)lw_softnet_sum(text, n, column, &sum);
}

static void as_rate(const char *text, size_t n)
{
	int64_t bytes_per_s;

	must(lw_sysfs_rate(text, n, &bytes_per_s) < 0 || bytes_per_s >= 0, "a rate below 0");
}

static void as_driver_name(const char *text, size_t n)
{
	char name[48];

	if (lw_ethtool_match(text, n, name, sizeof(name)) >= 0)
		must(name[0] && !strchr(name, '#'), "a name without its number");
}

static void as_link(const char *text, size_t n)
{
	char *link = strndup(text, n);

	(void)lw_owner_inode(link);
	free(link);
}

/* As one datagram of the kernel: each message that is whole, as the samplers do it. */
static void as_netlink(const char *text, size_t n)
{
	char *copy = malloc(n ? n : 1); /* malloc aligns, a fuzzer's data is not */
	struct nlmsghdr *message = (struct nlmsghdr *)copy;
	struct lw_tcp_seen seen;
	int left = (int)n;

	memcpy(copy, text, n);
	for (; lw_netlink_is_whole(message, left); message = NLMSG_NEXT(message, left)) {
		const size_t payload = message->nlmsg_len - NLMSG_HDRLEN;

		if (lw_tcp_parse(message, &seen) == LW_OK)
			must(seen.values.acked_bytes >= -1 && seen.values.busy_ns >= -1,
				"a value below unknown");
		for (unsigned type = 0; type < 64; type++)
			(void)lw_netlink_attribute(NLMSG_DATA(message), payload, type, 4, NULL);
	}
	free(copy);
}

/* Through a file, as it is read from sysfs. */
static void as_file(const char *text, size_t n)
{
	static int fd = -1;
	char path[64], line[64], whole[256];
	int n_read;

	if (fd < 0)
		fd = memfd_create("fuzz", MFD_CLOEXEC);
	must(ftruncate(fd, 0) == 0 && pwrite(fd, text, n, 0) == (ssize_t)n, "memfd");
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	n_read = lw_sysfs_read(AT_FDCWD, path, whole, sizeof(whole));
	must(n < sizeof(whole) ? n_read == (int)n && !memcmp(whole, text, n)
			       : n_read == -27 /* EFBIG */,
		"not what is in the file");
	if (lw_sysfs_line(AT_FDCWD, path, line, sizeof(line)))
		for (const char *at = line; *at; at++)
			must(*at >= ' ' && *at <= '~', "a control character in a name");
}

/* Pairs of readings. */
static void as_counter(const char *text, size_t n)
{
	int64_t total = 0;

	for (size_t i = 0; i + 17 <= n; i += 17) {
		uint64_t before, now, delta;
		int64_t next;

		memcpy(&before, text + i, 8);
		memcpy(&now, text + i + 8, 8);
		lw_counter_step(text[i + 16] & 1 ? 32 : 64, before, now, text[i + 16] & 2, &delta);
		next = lw_counter_add(total, delta, 1 + (text[i + 16] & 4));
		must(next >= total && next >= 0, "a value goes down");
		total = next;
		must(lw_counter_first(now, 4) >= 0, "a first value below 0");
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
	static void (*const readers[])(const char *, size_t) = {as_number, as_softnet, as_rate,
		as_driver_name, as_link, as_netlink, as_file, as_counter};

	if (n_bytes)
		readers[data[0] % (sizeof(readers) / sizeof(readers[0]))](
			(const char *)data + 1, n_bytes - 1);
	return 0;
}
