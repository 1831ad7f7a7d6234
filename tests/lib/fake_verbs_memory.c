/* SPDX-License-Identifier: Apache-2.0 */
/* fake_verbs_memory.c - of the libibverbs double: protection domains and regions of memory. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/fake_verbs.h"

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

API int ibv_cmd_reg_mr(struct ibv_pd *pd, void *address, size_t n, uint64_t device_address,
	int access, struct verbs_mr *mr, void *command, size_t command_bytes, void *response,
	size_t response_bytes)
{
	(void)pd, (void)address, (void)n, (void)device_address, (void)access, (void)command;
	(void)command_bytes, (void)response, (void)response_bytes;
	mr->mr.lkey = mr->mr.rkey = RKEY;
	return 0;
}

API int ibv_cmd_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t n, uint64_t device_address,
	int fd, int access, struct verbs_mr *mr)
{
	(void)pd, (void)offset, (void)n, (void)device_address, (void)access;
	mr->mr.lkey = mr->mr.rkey = RKEY;
	return fd < 0 ? EBADF : 0;
}

static struct ibv_mr *keep_mr(
	struct verbs_mr *mr, struct ibv_pd *pd, void *address, size_t n, int result)
{
	if (result) {
		free(mr);
		errno = result;
		return NULL;
	}
	mr->mr.context = pd->context;
	mr->mr.pd = pd;
	mr->mr.addr = address;
	mr->mr.length = n;
	return &mr->mr;
}

API struct ibv_mr *ibv_reg_mr_iova(
	struct ibv_pd *pd, void *address, size_t n, uint64_t iova, int access)
{
	struct verbs_mr *mr = calloc(1, sizeof(*mr));

	return keep_mr(mr, pd, address, n,
		ibv_cmd_reg_mr(pd, address, n, iova, access, mr, NULL, 0, NULL, 0));
}

API struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *address, size_t n, int access)
{
	return ibv_reg_mr_iova(pd, address, n, (uintptr_t)address, access);
}

API struct ibv_mr *ibv_reg_mr_iova2(
	struct ibv_pd *pd, void *address, size_t n, uint64_t iova, unsigned int access)
{
	return ibv_reg_mr_iova(pd, address, n, iova, (int)access);
}

API struct ibv_mr *ibv_reg_dmabuf_mr(
	struct ibv_pd *pd, uint64_t offset, size_t n, uint64_t iova, int fd, int access)
{
	struct verbs_mr *mr = calloc(1, sizeof(*mr));

	return keep_mr(mr, pd, NULL, n, ibv_cmd_reg_dmabuf_mr(pd, offset, n, iova, fd, access, mr));
}

API int ibv_cmd_dereg_mr(struct verbs_mr *mr)
{
	(void)mr;
	return 0;
}

API int ibv_dereg_mr(struct ibv_mr *mr)
{
	int result = ibv_cmd_dereg_mr((struct verbs_mr *)(void *)mr);

	free(mr);
	return result;
}

API int ibv_cmd_rereg_mr(struct verbs_mr *mr, uint32_t flags, void *address, size_t n,
	uint64_t device_address, int access, struct ibv_pd *pd, void *command, size_t command_bytes,
	void *response, size_t response_bytes)
{
	(void)mr, (void)flags, (void)address, (void)n, (void)device_address, (void)access, (void)pd;
	(void)command, (void)command_bytes, (void)response;
	return response_bytes == WORD ? 0 : EINVAL;
}

API int ibv_rereg_mr(
	struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *address, size_t n, int access)
{
	int result = ibv_cmd_rereg_mr((struct verbs_mr *)(void *)mr, (uint32_t)flags, address, n,
		(uintptr_t)address, access, pd, NULL, 0, NULL, WORD);

	if (!result && flags & IBV_REREG_MR_CHANGE_TRANSLATION) {
		mr->addr = address;
		mr->length = n;
	}
	return result;
}

API int ibv_cmd_alloc_pd(struct ibv_context *context, struct ibv_pd *pd, void *command,
	size_t command_bytes, void *response, size_t response_bytes)
{
	(void)command, (void)command_bytes, (void)response, (void)response_bytes;
	pd->context = context;
	return 0;
}

API struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	struct ibv_pd *pd = calloc(1, sizeof(*pd));

	if (strcmp(context->device->name, "plain0") != 0)
		ibv_cmd_alloc_pd(context, pd, NULL, 0, NULL, 0);
	pd->context = context;
	return pd;
}

API int ibv_dealloc_pd(struct ibv_pd *pd)
{
	free(pd);
	return 0;
}
