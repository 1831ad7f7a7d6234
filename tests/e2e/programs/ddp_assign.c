/* SPDX-License-Identifier: Apache-2.0 */
/* ddp_assign.c - lw_ddp_assign() of what stdin asks; a line: static first cap n (bytes class) x n. */
#include <inttypes.h>
#include <stdio.h>

#include "analyzer/simulate/ddp.h"

enum { MAX = 4096 };

int main(void)
{
	static struct lw_hvd_tensor tensors[MAX];
	static uint32_t bucket_of[MAX], scratch[MAX];
	struct lw_ddp_setting setting = {.wire_frac = 1, .n_threads = 2};
	uint32_t n;
	int is_static;

	while (scanf("%d %" SCNu64 " %" SCNu64 " %" SCNu32, &is_static, &setting.first_bytes,
		       &setting.cap_bytes, &n) == 4 &&
		n <= MAX) {
		setting.is_static = is_static;
		for (uint32_t t = 0; t < n; t++)
			if (scanf("%" SCNu64 " %" SCNd32, &tensors[t].bytes,
				    &tensors[t].fuse_class) != 2)
				return 1;
		lw_ddp_assign(tensors, n, &setting, bucket_of, scratch);
		for (uint32_t t = 0; t < n; t++)
			printf("%" PRIu32 "%c", bucket_of[t], t + 1 < n ? ' ' : '\n');
	}
	return 0;
}
