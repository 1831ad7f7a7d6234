/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/import/byte_source.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/err.h"

/* A reader of records goes back to where one began at most: twice the longest, and a power of two. */
enum { KEPT_BYTES = 4 << 20, MAX_FAR_BACK = 16 };

struct lw_byte_source {
	int fd;
	uint64_t file_bytes;
	gzFile gzip;         /* NULL: not compressed */
	unsigned char *kept; /* the last KEPT_BYTES that were unpacked, a ring */
	uint64_t at;         /* unpacked so far */
	uint64_t kept_from;  /* first offset that is kept */
	uint64_t plain_at;   /* not compressed: read so far */
	int n_far_back;
	char problem[128];
};

static int open_gzip(struct lw_byte_source *source)
{
	int fd = dup(source->fd);

	if (fd < 0)
		return lw_fail(LW_ERR_IO, "%s", strerror(errno));
	source->gzip = gzdopen(fd, "rb");
	source->kept = malloc(KEPT_BYTES);
	if (!source->gzip)
		close(fd);
	if (!source->gzip || !source->kept)
		return lw_fail(LW_ERR_NOMEM, "no memory");
	gzbuffer(source->gzip, 128 << 10);
	return LW_OK;
}

int lw_byte_source_open(const char *path, struct lw_byte_source **ret_source)
{
	struct lw_byte_source *source = calloc(1, sizeof(*source));
	unsigned char magic[2] = {0};
	struct stat st;
	int status = LW_OK;

	if (!source)
		return lw_fail(LW_ERR_NOMEM, "no memory");
	source->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO must not block us */
	if (source->fd < 0 || fstat(source->fd, &st) < 0)
		status = lw_fail(LW_ERR_IO, "%s", strerror(errno));
	else if (!S_ISREG(st.st_mode))
		status = lw_fail(LW_ERR_IO, "not a regular file");
	else if (pread(source->fd, magic, sizeof(magic), 0) == 2 && magic[0] == 0x1f &&
		 magic[1] == 0x8b)
		status = open_gzip(source);
	if (status < 0) {
		lw_byte_source_close(source);
		return status;
	}
	source->file_bytes = (uint64_t)st.st_size;
	*ret_source = source;
	return LW_OK;
}

void lw_byte_source_close(struct lw_byte_source *source)
{
	if (!source)
		return;
	if (source->gzip)
		gzclose(source->gzip);
	if (source->fd >= 0)
		close(source->fd);
	free(source->kept);
	free(source);
}

static void keep(struct lw_byte_source *source, const unsigned char *bytes, size_t n_bytes)
{
	for (size_t done = 0; done < n_bytes;) {
		size_t place = (size_t)((source->at + done) % KEPT_BYTES);
		size_t n = n_bytes - done;

		if (n > KEPT_BYTES - place)
			n = KEPT_BYTES - place;
		memcpy(source->kept + place, bytes + done, n);
		done += n;
	}
	source->at += n_bytes;
	if (source->at - source->kept_from > KEPT_BYTES)
		source->kept_from = source->at - KEPT_BYTES;
}

static ssize_t read_kept(
	const struct lw_byte_source *source, unsigned char *bytes, size_t n_bytes, uint64_t offset)
{
	size_t place = (size_t)(offset % KEPT_BYTES);

	if (n_bytes > source->at - offset)
		n_bytes = (size_t)(source->at - offset);
	if (n_bytes > KEPT_BYTES - place)
		n_bytes = KEPT_BYTES - place;
	memcpy(bytes, source->kept + place, n_bytes);
	return (ssize_t)n_bytes;
}

/* Of data that is cut off or damaged, what could be unpacked counts, and then it ends. */
static ssize_t unpack(struct lw_byte_source *source, unsigned char *bytes, size_t n_bytes)
{
	int n = gzread(source->gzip, bytes, (unsigned int)n_bytes), error = Z_OK;
	const char *text;

	if (n > 0) {
		keep(source, bytes, (size_t)n);
		return n;
	}
	text = gzerror(source->gzip, &error);
	if (error == Z_ERRNO)
		return lw_fail(LW_ERR_IO, "%s", strerror(errno));
	if (error != Z_OK && error != Z_STREAM_END && !source->problem[0])
		snprintf(source->problem, sizeof(source->problem),
			"the compressed data breaks off: %s",
			error == Z_BUF_ERROR ? "the file ends" : text);
	return 0;
}

static ssize_t read_gzip(
	struct lw_byte_source *source, unsigned char *bytes, size_t n_bytes, uint64_t offset)
{
	if (offset < source->kept_from) {
		if (source->n_far_back++ == MAX_FAR_BACK)
			return lw_fail(LW_ERR_FORMAT,
				"too damaged to be read while it is compressed: unpack it first");
		if (gzseek(source->gzip, (z_off_t)offset, SEEK_SET) != (z_off_t)offset)
			return lw_fail(LW_ERR_IO, "cannot go back to byte %llu",
				(unsigned long long)offset);
		source->at = source->kept_from = offset;
	}
	if (offset < source->at)
		return read_kept(source, bytes, n_bytes, offset);
	return unpack(source, bytes, n_bytes);
}

ssize_t lw_byte_source_read(
	struct lw_byte_source *source, void *bytes, size_t n_bytes, uint64_t offset)
{
	ssize_t n;

	if (source->gzip)
		return read_gzip(source, bytes, n_bytes, offset);
	do
		n = pread(source->fd, bytes, n_bytes, (off_t)offset);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return lw_fail(LW_ERR_IO, "%s", strerror(errno));
	source->plain_at = offset + (uint64_t)n;
	return n;
}

bool lw_byte_source_is_gzip(const struct lw_byte_source *source)
{
	return source->gzip != NULL;
}

double lw_byte_source_done_frac(const struct lw_byte_source *source)
{
	z_off_t packed = source->gzip ? gzoffset(source->gzip) : (z_off_t)source->plain_at;

	return source->file_bytes && packed > 0 ? (double)packed / (double)source->file_bytes : 0;
}

const char *lw_byte_source_problem(const struct lw_byte_source *source)
{
	return source->problem[0] ? source->problem : NULL;
}
