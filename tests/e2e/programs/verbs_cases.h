/* SPDX-License-Identifier: Apache-2.0 */
/* verbs_cases.h - between verbs_cases.c and verbs_cases_full.c. */
#ifndef LAPWING_TESTS_E2E_PROGRAMS_VERBS_CASES_H
#define LAPWING_TESTS_E2E_PROGRAMS_VERBS_CASES_H

#include "tests/e2e/programs/verbs_rig.h"

extern struct rig rig; /* the device that all cases use */

static inline void end_pair(struct ibv_qp *ends[2])
{
	for (int i = 0; i < 2; i++)
		must(v.ibv_destroy_qp(ends[i]) == 0);
}

void case_destroyed(void);
void case_reset(void);
void case_exit(void);
void case_full(void);
void case_list(void);
void case_long_list(void);
void case_many(void);
void case_too_many(void);
void case_threads(void);

#endif /* LAPWING_TESTS_E2E_PROGRAMS_VERBS_CASES_H */
