/* SPDX-License-Identifier: Apache-2.0 */
#include "schema/leisure.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/err.h"

enum { PATIENCE_MS = 5000 };

static char own_name[64]; /* of the socket of this process, "" = none */

/* A name of the abstract kind: no file. Return: its length, 0 = @path is no file. */
static socklen_t address_of(const struct stat *st, struct sockaddr_un *address)
{
	*address = (struct sockaddr_un){.sun_family = AF_UNIX};
	snprintf(address->sun_path + 1, sizeof(address->sun_path) - 1, "lapwing-leisure-%llx-%llx",
		(unsigned long long)st->st_dev, (unsigned long long)st->st_ino);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
			   strlen(address->sun_path + 1));
}

int lw_leisure_begin(const char *path)
{
	struct sockaddr_un address;
	struct stat st;
	sigset_t set;
	int fd;

	if (stat(path, &st) < 0)
		return lw_fail(LW_ERR_IO, "%s: %s", path, strerror(errno));
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return lw_fail(LW_ERR_IO, "socket: %s", strerror(errno));
	signal(SIGIO, SIG_DFL); /* which ends the process */
	sigemptyset(&set);
	sigaddset(&set, SIGIO);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	if (bind(fd, (struct sockaddr *)&address, address_of(&st, &address)) < 0) {
		int status = errno == EADDRINUSE
				     ? lw_fail(LW_ERR_STATE, "%s: is being analysed", path)
				     : lw_fail(LW_ERR_IO, "bind: %s", strerror(errno));

		close(fd);
		return status;
	}
	snprintf(own_name, sizeof(own_name), "%s", address.sun_path + 1);
	if (fcntl(fd, F_SETOWN, getpid()) < 0 || fcntl(fd, F_SETFL, O_ASYNC | O_NONBLOCK) < 0 ||
		listen(fd, 8) < 0)
		return lw_fail(LW_ERR_IO, "listen: %s", strerror(errno));
	return LW_OK; /* the descriptor lives as long as the process */
}

bool lw_leisure_is_busy(const char *path)
{
	struct sockaddr_un address;
	bool is_busy = false;
	struct stat st;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return false;
	if (stat(path, &st) == 0) /* the name is taken; to connect would be to interrupt */
		is_busy = bind(fd, (struct sockaddr *)&address, address_of(&st, &address)) < 0 &&
			  errno == EADDRINUSE;
	close(fd);
	return is_busy;
}

void lw_leisure_interrupt(const char *path)
{
	struct sockaddr_un address;
	struct ucred peer = {0};
	socklen_t peer_bytes = sizeof(peer), n;
	struct stat st;
	int fd;

	if (stat(path, &st) < 0)
		return;
	n = address_of(&st, &address);
	if (!strcmp(own_name, address.sun_path + 1))
		return;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return;
	/* Only who may write the file is waited for: a stranger could take the name to hold us up. */
	if (connect(fd, (struct sockaddr *)&address, n) == 0 &&
		getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &peer_bytes) == 0 &&
		(peer.uid == geteuid() || peer.uid == st.st_uid || peer.uid == 0)) {
		struct pollfd gone = {.fd = fd, .events = POLLIN};

		while (poll(&gone, 1, PATIENCE_MS) < 0 && errno == EINTR)
			;
	}
	close(fd);
}
