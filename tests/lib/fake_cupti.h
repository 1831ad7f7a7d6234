/* SPDX-License-Identifier: Apache-2.0 */
/* fake_cupti.h - what fake_cudart.c tells the double of libcupti; see fake_cupti.c. */
#ifndef LAPWING_TESTS_LIB_FAKE_CUPTI_H
#define LAPWING_TESTS_LIB_FAKE_CUPTI_H

#include <stdbool.h>
#include <stdint.h>

enum { FAKE_COPY_HTOD = 1, FAKE_COPY_DTOH = 2, FAKE_COPY_PEER = 100, FAKE_COPY_MEMSET = 101 };

struct fake_work {
	uint64_t start, end; /* ns of fake_cupti_now() */
	uint32_t device, stream, correlation, graph;
};

uint64_t fake_cupti_now(void);
void fake_cupti_api(bool is_driver, uint32_t call, uint32_t correlation, uint64_t start,
	uint64_t end, uint32_t result);
void fake_cupti_kernel(const struct fake_work *work, const char *name);
void fake_cupti_copy(const struct fake_work *work, int how, uint64_t n_bytes);
void fake_cupti_sync(int type, uint32_t stream, uint32_t correlation, uint64_t start, uint64_t end);
void fake_cupti_strange(uint32_t kind); /* a record of that kind, all zeros */

#endif /* LAPWING_TESTS_LIB_FAKE_CUPTI_H */
