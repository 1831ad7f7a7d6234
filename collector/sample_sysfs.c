/* SPDX-License-Identifier: Apache-2.0 */
/* sample_sysfs.c - small text files that may hold anything: numbers out of them, and nothing else. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "collector/sampler.h"

enum { LIST_MAX = 4096 }; /* entries of one folder that are looked at */

static bool is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\n';
}

int lw_sysfs_number(const char *text, size_t n_bytes, uint64_t *ret_value)
{
	uint64_t value = 0;
	size_t i = 0, first;

	while (i < n_bytes && is_space(text[i]))
		i++;
	for (first = i; i < n_bytes && text[i] >= '0' && text[i] <= '9'; i++)
		if (__builtin_mul_overflow(value, UINT64_C(10), &value) ||
			__builtin_add_overflow(value, (uint64_t)(text[i] - '0'), &value))
			return LW_ERR_FORMAT;
	if (i == first)
		return LW_ERR_FORMAT;
	while (i < n_bytes && is_space(text[i]))
		i++;
	if (i < n_bytes)
		return LW_ERR_FORMAT;
	*ret_value = value;
	return LW_OK;
}

int lw_sysfs_rate(const char *text, size_t n_bytes, int64_t *ret_bytes_per_s)
{
	double gbit = 0, digit = 1;
	size_t i = 0;

	for (; i < n_bytes && i < 9 && isdigit((unsigned char)text[i]); i++)
		gbit = gbit * 10 + (text[i] - '0');
	if (i && i < n_bytes && text[i] == '.')
		for (i++; i < n_bytes && i < 16 && isdigit((unsigned char)text[i]); i++)
			gbit += (text[i] - '0') * (digit /= 10);
	if (!(gbit > 0) || n_bytes - i < 7 || memcmp(text + i, " Gb/sec", 7) != 0)
		return LW_ERR_FORMAT;
	*ret_bytes_per_s = (int64_t)(gbit * 1e9 / 8);
	return LW_OK;
}

/* Hexadecimal words, a line a CPU. Return: where the line ends. */
static size_t softnet_line(
	const char *text, size_t n_bytes, unsigned column, uint32_t *sum, bool *has_it)
{
	uint32_t word = 0;
	unsigned at = 0;
	size_t i;

	*has_it = false;
	for (i = 0; i < n_bytes && text[i] != '\n'; i++) {
		const char *digits = "0123456789abcdef";
		const char *digit = text[i] ? strchr(digits, text[i]) : NULL;

		if (digit) {
			word = word << 4 | (uint32_t)(digit - digits);
			*has_it |= at == column;
		} else {
			if (at++ == column)
				break;
			word = 0;
		}
	}
	if (*has_it)
		*sum += word;
	while (i < n_bytes && text[i] != '\n')
		i++;
	return i;
}

int lw_softnet_sum(const char *text, size_t n_bytes, unsigned column, uint32_t *ret_sum)
{
	size_t n_lines = 0;
	bool has_it = true;

	*ret_sum = 0;
	for (size_t i = 0; i < n_bytes; i++, n_lines++) {
		i += softnet_line(text + i, n_bytes - i, column, ret_sum, &has_it);
		if (!has_it)
			return LW_ERR_FORMAT;
	}
	return n_lines ? LW_OK : LW_ERR_FORMAT;
}

int lw_sysfs_read(int dir_fd, const char *path, char *text, size_t text_bytes)
{
	/* Not blocked by a FIFO that somebody put there. */
	int fd = openat(dir_fd, path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC), status = 0;
	struct stat st;
	size_t n = 0;
	ssize_t got = 0;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		status = -EINVAL;
	while (!status && n < text_bytes - 1) {
		got = read(fd, text + n, text_bytes - 1 - n);
		if (got < 0)
			status = -errno;
		if (got <= 0)
			break;
		n += (size_t)got;
	}
	if (!status && n == text_bytes - 1 && read(fd, &(char){0}, 1) > 0)
		status = -EFBIG;
	close(fd);
	text[status ? 0 : n] = '\0';
	return status ? status : (int)n;
}

bool lw_sysfs_line(int dir_fd, const char *path, char *line, size_t line_bytes)
{
	int n = lw_sysfs_read(dir_fd, path, line, line_bytes);

	line[strcspn(line, "\n")] = '\0';
	for (char *at = line; *at; at++)
		if (!isprint((unsigned char)*at))
			*at = '?';
	return n > 0 && line[0];
}

bool lw_sysfs_driver(int dir_fd, const char *path, char *name, size_t name_bytes)
{
	char link[PATH_MAX];
	ssize_t n = readlinkat(dir_fd, path, link, sizeof(link) - 1);

	link[n > 0 ? n : 0] = '\0';
	if (!strrchr(link, '/'))
		return false;
	snprintf(name, name_bytes, "%s", strrchr(link, '/') + 1);
	return true;
}

int lw_sysfs_open(const struct lw_samplers *samplers, const char *path)
{
	char whole[PATH_MAX];
	int fd;

	snprintf(whole, sizeof(whole), "%s/%s",
		samplers->options.sysfs_root ? samplers->options.sysfs_root : "/sys", path);
	fd = open(whole, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int lw_sysfs_list(struct lw_samplers *samplers, const char *path,
	void (*each)(struct lw_samplers *samplers, const char *name))
{
	int fd = lw_sysfs_open(samplers, path), n = 0;
	DIR *listing = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;

	if (!listing)
		return fd < 0 ? fd : -errno;
	while (n < LIST_MAX && (entry = readdir(listing))) {
		if (entry->d_name[0] == '.')
			continue;
		each(samplers, entry->d_name);
		n++;
	}
	closedir(listing);
	return 0;
}
