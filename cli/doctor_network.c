/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_network.c - what doctor asks about this host's network: which sources of traffic can be read here. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/cmd.h"
#include "cli/doctor.h"

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
