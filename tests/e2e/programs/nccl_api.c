/* SPDX-License-Identifier: Apache-2.0 */
/* nccl_api.c - calls every function of NCCL's API with arguments that can be told apart; see stub_nccl.h. */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "tests/lib/stub_nccl.h"

#define AT(address) ((void *)(uintptr_t)(address))
#define STREAM      ((cudaStream_t)AT(0x57ea))

static int n_results[10];

static void count(ncclResult_t result)
{
	n_results[result < 0 || result > 9 ? 9 : result]++;
	if (errno != ENOTTY && result) /* errno is what the library left */
		printf("errno %d\n", errno);
}

static void operations(ncclComm_t comm)
{
	char *a = AT(0x10000), *b = AT(0x20000);

	count(ncclAllReduce(a, b, 100, 7, 0, comm, STREAM));
	count(ncclAllReduce(a, a, 100, 6, 2, comm, STREAM));
	count(ncclBroadcast(a, b, 10, 8, 3, comm, STREAM));
	count(ncclBcast(a, 11, 0, 1, comm, STREAM));
	count(ncclReduce(a, b, 12, 9, 1, 2, comm, STREAM));
	count(ncclAllGather(a + 1 * 40, a, 10, 2, comm, STREAM)); /* rank 1's part of it */
	count(ncclAllGather(a, b, 10, 2, comm, STREAM));
	count(ncclReduceScatter(a, a + 1 * 32, 4, 4, 0, comm, STREAM));
	count(ncclAlltoAll(a, b, 5, 1, comm, STREAM));
	count(ncclGather(a, b, 6, 3, 0, comm, STREAM));
	count(ncclScatter(a, b, 7, 5, 1, comm, STREAM));
	count(ncclSend(a, 8, 10, 2, comm, STREAM));
	count(ncclRecv(b, 9, 11, 3, comm, STREAM));
	count(ncclPutSignal(a, 13, 7, 2, AT(0x31), 99, 5, 6, 7, comm, STREAM));
	count(ncclSignal(3, 1, 2, 4, comm, STREAM));
	count(ncclWaitSignal(2, AT(0x32), comm, STREAM));
	count(ncclAllReduce(a, b, 1, 99, 0, comm, STREAM));       /* no such type */
	count(ncclAllReduce(a, b, SIZE_MAX, 8, 0, comm, STREAM)); /* more than there can be */
	count(ncclAllReduce(a, b, (size_t)1 << 60, 8, 0, comm, STREAM));
}

int main(void)
{
	ncclUniqueId id, ids[3];
	ncclComm_t comm = NULL, config = NULL, scalable = NULL, all[2] = {0}, child = NULL,
		   none = NULL, grown = NULL, grouped[2] = {0};
	int devices[] = {4, 5}, excluded[] = {3};

	ncclGetUniqueId(&id);
	for (int i = 0; i < 3; i++)
		memset(&ids[i], 'x' + i, sizeof(ids[i]));
	count(ncclCommInitRank(&comm, 4, id, 1));
	operations(comm);
	operations((ncclComm_t)AT(0xdead)); /* nobody has made it */
	count(ncclCommInitRankConfig(&config, 3, ids[0], 2, AT(0xcf)));
	count(ncclCommInitRankScalable(&scalable, 5, 4, 2, &ids[1], NULL));
	count(ncclCommInitAll(all, 2, devices));
	count(ncclCommSplit(comm, -1, 0, &none, NULL));
	count(ncclCommSplit(comm, 7, -3, &child, AT(0xcf)));
	count(ncclAllReduce(AT(1), AT(2), 1, 7, 0, child, STREAM));
	count(ncclCommShrink(comm, excluded, 1, &none, NULL, 1));
	count(ncclCommGrow(comm, 6, &id, 5, &grown, NULL));
	count(ncclCommGrow(comm, 6, NULL, -1, &grown, NULL));

	ncclGroupStart();
	ncclGroupStart();
	count(ncclSend(AT(1), 1, 0, 0, comm, STREAM));
	count(ncclGroupEnd());
	count(ncclRecv(AT(1), 2, 0, 0, comm, STREAM));
	count(ncclGroupEnd());
	ncclGroupStart();
	count(ncclCommInitRank(&grouped[0], 2, ids[2], 0));
	ncclGroupStart();
	count(ncclCommSplit(comm, 1, 0, &grouped[1], NULL));
	count(ncclGroupEnd());
	count(ncclGroupEnd());
	count(ncclAllReduce(AT(1), AT(2), 3, 7, 0, grouped[0], STREAM));
	count(ncclAllReduce(AT(1), AT(2), 4, 7, 0, grouped[1], STREAM));
	ncclGroupStart();
	count(ncclSend(AT(1), 5, 0, 0, comm, STREAM));
	count(ncclGroupSimulateEnd(AT(0x51)));

	count(ncclCommFinalize(comm));
	count(ncclCommDestroy(comm));
	count(ncclCommAbort(config));
	count(ncclAllReduce(AT(1), AT(2), 6, 7, 0, comm, STREAM)); /* it is gone */
	for (int i = 0; i < 10; i++)
		printf("%d ", n_results[i]);
	printf("done\n");
	return 0;
}
