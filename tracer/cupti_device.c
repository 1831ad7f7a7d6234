/* SPDX-License-Identifier: Apache-2.0 */
#include "tracer/cupti_device.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

struct entry { /* linux_dirent64 */
	uint64_t inode, offset;
	uint16_t n_bytes;
	uint8_t type;
	char name[];
};

/* "GPU UUID: 	 GPU-5a1e9e10-..." as the file has it. */
static void write_uuid(const uint8_t uuid[16], char text[48])
{
	size_t n = (size_t)snprintf(text, 48, "GPU-");

	for (int i = 0; i < 16; i++)
		n += (size_t)snprintf(text + n, 48 - n, "%s%02x",
			i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid[i]);
}

static bool is_in_file(const char *path, const char *wanted)
{
	int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
	char text[2048];
	ssize_t n;

	if (fd < 0)
		return false;
	n = syscall(SYS_read, fd, text, sizeof(text) - 1);
	syscall(SYS_close, fd);
	text[n > 0 ? n : 0] = '\0';
	return strstr(text, wanted) != NULL;
}

/* No readdir(): it allocates. */
static bool look_in(const char *root, int fd, const char *wanted, char ret[LW_PCI_TEXT_BYTES])
{
	_Alignas(8) char room[4096];
	char path[512];
	long n;

	while ((n = syscall(SYS_getdents64, fd, room, sizeof(room))) > 0) {
		for (long at = 0; at < n;) {
			const struct entry *entry = (const void *)(room + at);

			at += entry->n_bytes;
			if (entry->name[0] == '.' || strlen(entry->name) >= LW_PCI_TEXT_BYTES)
				continue;
			snprintf(path, sizeof(path), "%s/%s/information", root, entry->name);
			if (!is_in_file(path, wanted))
				continue;
			snprintf(ret, LW_PCI_TEXT_BYTES, "%s", entry->name);
			return true;
		}
	}
	return false;
}

bool lw_cupti_find_pci(const char *root, const uint8_t uuid[16], char ret[LW_PCI_TEXT_BYTES])
{
	int saved_errno = errno, fd;
	bool is_found = false;
	char wanted[48];

	ret[0] = '\0';
	write_uuid(uuid, wanted);
	fd = (int)syscall(SYS_openat, AT_FDCWD, root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0) {
		is_found = look_in(root, fd, wanted, ret);
		syscall(SYS_close, fd);
	}
	errno = saved_errno;
	return is_found;
}
