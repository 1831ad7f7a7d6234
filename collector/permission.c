/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/permission.h"

#include <linux/capability.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

void lw_permission_explain(char *text, size_t text_bytes)
{
	char own[3000];
	ssize_t n = readlink("/proc/self/exe", own, sizeof(own) - 1);

	own[n > 0 ? n : 0] = '\0';
	if (prctl(PR_CAPBSET_READ, CAP_NET_RAW, 0, 0, 0) == 0)
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

/* Only this one: samplers enter network namespaces with another. */
void lw_permission_drop(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct sets[2] = {{0}};
	const uint32_t others = ~(1u << CAP_NET_RAW);

	if (geteuid() == 0 || syscall(SYS_capget, &header, sets) < 0)
		return;
	sets[0].effective &= others;
	sets[0].permitted &= others;
	sets[0].inheritable &= others;
	syscall(SYS_capset, &header, sets);
}
