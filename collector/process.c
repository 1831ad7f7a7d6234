/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/process.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <unistd.h>

/* Reads /proc/PID/stat. Return: start ticks, -1 = no such process. @ret_state: 'R', 'S', 'Z', ... */
static int64_t read_stat(pid_t pid, char *ret_state)
{
	char path[64], text[1024], *at;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (n <= 0)
		return -1;
	text[n] = '\0';
	/* The command in parentheses may hold anything, parentheses too; state is field 3. */
	at = strrchr(text, ')');
	if (!at || !at[1])
		return -1;
	*ret_state = at[2];
	for (int field = 2; at && field < 22; field++)
		at = strchr(at + 1, ' ');
	return at ? strtoll(at + 1, NULL, 10) : -1;
}

int64_t lw_process_start_ticks(pid_t pid)
{
	char state;

	return read_stat(pid, &state);
}

bool lw_process_is_alive(pid_t pid, int64_t start_ticks)
{
	char state = '?';
	int64_t now_ticks = pid > 0 ? read_stat(pid, &state) : -1;

	if (now_ticks < 0 || (start_ticks && now_ticks != start_ticks))
		return false;
	/* the leader of a process whose main thread ended is a zombie while its other threads run */
	return state != 'X' && (state != 'Z' || lw_thread_is_alive(pid, 0));
}

bool lw_thread_is_alive(pid_t pid, pid_t tid)
{
	char path[64];

	/* tid 0: any thread that is not the leader */
	if (tid == 0) {
		char text[1024], *threads;
		ssize_t n;
		int fd;

		snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
		if (fd >= 0)
			close(fd);
		text[n > 0 ? n : 0] = '\0';
		threads = strstr(text, "\nThreads:");
		return threads && strtol(threads + 9, NULL, 10) > 1;
	}
	snprintf(path, sizeof(path), "/proc/%d/task/%d", (int)pid, (int)tid);
	return access(path, F_OK) == 0;
}

int lw_process_watch(pid_t pid, int64_t start_ticks)
{
	int fd = pid > 0 ? pidfd_open(pid, 0) : -1;
	int64_t now_ticks;

	if (fd < 0)
		return -1;
	/* Looked at after the descriptor pins the process: a reused pid cannot slip in between. */
	now_ticks = lw_process_start_ticks(pid);
	if (now_ticks < 0 || (start_ticks && now_ticks != start_ticks)) {
		close(fd);
		return -1;
	}
	return fd;
}
