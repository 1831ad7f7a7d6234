/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_network.c - what doctor asks about this host's network: which sources of traffic can be read here. */
#include <dirent.h>
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "cli/cmd.h"
#include "cli/doctor.h"
#include "collector/netlink.h"
#include "collector/tcp_diag.h"

static void ignore(void *user, struct nlmsghdr *message)
{
	(void)user;
	(void)message;
}

/* The socket opens without inet_diag too: only a question tells. */
static bool can_list_tcp(int diag_fd)
{
	char *buffer = diag_fd < 0 ? NULL : malloc(LW_NETLINK_BUFFER_BYTES);
	struct lw_tcp_list_request request;
	bool can;

	if (!buffer)
		return false;
	lw_tcp_request_list(&request);
	can = lw_netlink_dump(diag_fd, &request.head, buffer, ignore, NULL) == LW_OK;
	lw_error_clear();
	free(buffer);
	return can;
}

void lw_doctor_check_samplers(
	const struct lw_doctor_patient *patient, struct lw_doctor_answer *answer)
{
	struct lw_netns_sockets sockets;
	bool has_nics, has_tcp;

	(void)patient;
	if (lw_netns_open(0, &sockets) < 0)
		lw_error_clear();
	has_nics = sockets.route_fd >= 0;
	has_tcp = can_list_tcp(sockets.diag_fd);
	lw_netns_close(&sockets);
	if (!has_nics && !has_tcp)
		lw_doctor_say(answer, LW_DOCTOR_NO,
			"the kernel answers no netlink here: no NIC or TCP counters");
	else
		lw_doctor_say(answer, has_nics && has_tcp ? LW_DOCTOR_YES : LW_DOCTOR_UNSURE,
			"%s, %s, %s; of ranks in network namespaces of their own %s",
			has_nics ? "NICs" : "no NICs",
			has_tcp ? "TCP connections"
				: "no TCP_INFO of connections (this kernel has no inet_diag loaded: sudo modprobe -a inet_diag tcp_diag; in a container, on its host)",
			access("/sys/class/infiniband", F_OK) == 0 ? "RDMA ports"
								   : "no RDMA port is here",
			lw_netns_may_enter() ? "too" : "not, without CAP_SYS_ADMIN");
}

/* The collector captures: its file may have rights that this program has not. */
void lw_doctor_check_pcap(const struct lw_doctor_patient *patient, struct lw_doctor_answer *answer)
{
	char collector[4096], why[480];
	ssize_t n = readlink("/proc/self/exe", collector, sizeof(collector) - 16);
	char *slash;
	int status;

	(void)patient;
	collector[n > 0 ? n : 0] = '\0';
	slash = strrchr(collector, '/');
	strcpy(slash ? slash + 1 : collector, "lapwingd");
	status = lw_doctor_ask(
		(const char *const[]){collector, "--check-pcap", NULL}, why, sizeof(why));
	if (status == 0)
		lw_doctor_say(answer, LW_DOCTOR_YES,
			"headers of packets (record --pcap); RDMA that bypasses the kernel is not seen");
	else
		lw_doctor_say(answer, LW_DOCTOR_NO, "%s", *why ? why : "lapwingd does not run");
}

void lw_doctor_check_verbs(const struct lw_doctor_patient *patient, struct lw_doctor_answer *answer)
{
	DIR *devices = opendir("/sys/class/infiniband");
	void *library = dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_LOCAL);
	struct dirent *entry;
	int n_devices = 0;

	(void)patient;
	while (devices && (entry = readdir(devices)))
		n_devices += entry->d_name[0] != '.';
	if (devices)
		closedir(devices);
	if (!library)
		lw_doctor_say(answer, LW_DOCTOR_NO, "no libibverbs.so.1 on this machine");
	else if (!dlsym(library, "verbs_set_ops"))
		lw_doctor_say(answer, LW_DOCTOR_UNSURE,
			"libibverbs.so.1 is older than release 17, or not rdma-core's: its contexts are not seen to open");
	else if (!n_devices)
		lw_doctor_say(answer, LW_DOCTOR_NO, "no RDMA device in /sys/class/infiniband");
	else
		lw_doctor_say(answer, LW_DOCTOR_YES,
			"work requests and bytes by queue pair and peer; not what UCX, DOCA or a GPU post past libibverbs");
	if (library)
		dlclose(library);
}
