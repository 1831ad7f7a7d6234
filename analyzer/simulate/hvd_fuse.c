/* SPDX-License-Identifier: Apache-2.0 */
/* hvd_fuse.c - which agreed tensors go together into one operation, as Horovod's controller decides it. */
#include <string.h>

#include "analyzer/simulate/hvd_state.h"

enum {
	DOUBLE_BYTES = 8,
	ATOMIC_UNIT = 64, /* elements; Horovod rounds the threshold to it */
};

uint64_t lw_hvd_effective_bytes(uint64_t fusion_bytes, uint32_t local_size)
{
	uint64_t unit_bytes = (uint64_t)local_size * DOUBLE_BYTES * ATOMIC_UNIT;

	if (unit_bytes == 0 || fusion_bytes > UINT64_MAX - unit_bytes)
		return fusion_bytes;
	return (fusion_bytes + unit_bytes - 1) / unit_bytes * unit_bytes;
}

uint32_t lw_hvd_take_batch(
	struct lw_hvd_context *c, uint32_t from, uint32_t to, uint32_t *ret_n, uint64_t *ret_bytes)
{
	struct lw_hvd_sim *sim = c->sim;
	const struct lw_hvd_tensor *tensors = c->input->tensors;
	uint32_t head = sim->agreed[from], n = 0, n_skipped = 0, i;
	uint64_t bytes = tensors[head].bytes, skipped_bytes = 0;

	sim->members[n++] = head;
	for (i = from + 1; i < to && tensors[head].fuse_class >= 0; i++) {
		const struct lw_hvd_tensor *next = &tensors[sim->agreed[i]];

		if (next->fuse_class == tensors[head].fuse_class &&
			bytes + next->bytes <= c->fusion_bytes) {
			bytes += next->bytes;
			sim->members[n++] = sim->agreed[i];
			continue;
		}
		skipped_bytes += next->bytes;
		if (bytes + skipped_bytes > c->fusion_bytes)
			break;
		sim->skipped[n_skipped++] = sim->agreed[i];
	}
	memcpy(sim->agreed + i - n_skipped, sim->skipped, n_skipped * sizeof(*sim->agreed));
	*ret_n = n;
	*ret_bytes = bytes;
	return i - n_skipped;
}

uint32_t lw_hvd_gather_group(struct lw_hvd_context *c, uint32_t from, uint32_t to)
{
	const int32_t *group_of = c->input->group_of;
	uint32_t *agreed = c->sim->agreed, n_rest = 0, end = from + 1;
	int32_t group = group_of ? group_of[agreed[from]] : LW_HVD_NO_GROUP;

	if (group < 0)
		return end;
	for (uint32_t i = from + 1; i < to; i++)
		if (group_of[agreed[i]] == group)
			agreed[end++] = agreed[i];
		else
			c->sim->skipped[n_rest++] = agreed[i];
	memcpy(agreed + end, c->sim->skipped, n_rest * sizeof(*agreed));
	return end;
}
