/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/permission.h"

#include <inttypes.h>
#include <linux/capability.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Which of these sets of this process holds CAP_NET_RAW: "CapBnd", "CapPrm", ... of /proc/self/status. */
static bool is_in_set(const char *name)
{
	FILE *file = fopen("/proc/self/status", "re");
	uint64_t set = 0;
	char line[256];

	while (file && fgets(line, sizeof(line), file)) {
		size_t n = strlen(name);

		if (!strncmp(line, name, n) && line[n] == ':')
			sscanf(line + n + 1, "%" SCNx64, &set);
	}
	if (file)
		fclose(file);
	return set >> CAP_NET_RAW & 1;
}

void lw_permission_explain(char *text, size_t text_bytes)
{
	char own[3000];
	ssize_t n = readlink("/proc/self/exe", own, sizeof(own) - 1);

	own[n > 0 ? n : 0] = '\0';
	if (!is_in_set("CapBnd"))
		snprintf(text, text_bytes,
			"CAP_NET_RAW is missing, and this container or service may not have it at all:"
			" start it with that capability (docker run --cap-add NET_RAW)");
	else if (geteuid() == 0)
		snprintf(text, text_bytes,
			"CAP_NET_RAW is missing although this is root: the user namespace does not own"
			" the network namespace, or something refuses packet sockets (seccomp)");
	else if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1)
		snprintf(text, text_bytes,
			"CAP_NET_RAW is missing, and no_new_privs keeps programs from getting it:"
			" start the job without that (docker: without no-new-privileges)");
	else
		snprintf(text, text_bytes,
			"CAP_NET_RAW is missing: `sudo setcap cap_net_raw+p %s` gives it to the"
			" collector for good (on a file system without nosuid), or record as root",
			own);
}

/* A file with +p can be run everywhere; one with +ep not even be started where the capability is out of
 * bounds (a container without it), and then nothing would be recorded at all. */
void lw_permission_raise(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct sets[2] = {{0}};

	if (syscall(SYS_capget, &header, sets) < 0)
		return;
	sets[0].effective |= sets[0].permitted & (1u << CAP_NET_RAW);
	syscall(SYS_capset, &header, sets);
}

void lw_permission_drop(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct none[2] = {{0}};

	if (geteuid() != 0)
		syscall(SYS_capset, &header, none);
}
