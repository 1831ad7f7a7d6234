/* SPDX-License-Identifier: Apache-2.0 */
/* verbs_in_load.c - a library whose constructor, before that of the tracer perhaps, uses RDMA. */
#include <stdio.h>

#include "tests/e2e/programs/verbs_rig.h"

__attribute__((constructor)) static void use(void)
{
	static struct rig rig;
	struct ibv_qp *ends[2];
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	rig_load();
	rig_open(&rig);
	rig_pair(&rig, NULL, ends);
	wr = rig_wr(&rig, &sge, IBV_WR_RDMA_WRITE, 4321);
	wr.send_flags = IBV_SEND_SIGNALED;
	rig_post_send(ends[0], &wr);
	rig_poll(&rig, 1, NULL);
	rig_close(&rig);
	rig_print_account();
}
