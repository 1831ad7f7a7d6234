/* SPDX-License-Identifier: Apache-2.0 */
/* late_words.h - the one rank that the others wait for, whatever it is that tells: what report, JSON and screens say of it. */
#ifndef LAPWING_ANALYZER_EMIT_LATE_WORDS_H
#define LAPWING_ANALYZER_EMIT_LATE_WORDS_H

#include "analyzer/advise/advise.h"
#include "analyzer/emit/summary.h"

enum lw_late_by {
	LW_LATE_NOBODY,
	LW_LATE_MISSING, /* of the job's ranks some are not in the run: who is late is not known */
	LW_LATE_KERNELS,
	LW_LATE_PROXIES,
	LW_LATE_COMPUTED /* by when gradients were ready, or operations entered */
};

struct lw_late {
	enum lw_late_by by;
	int32_t rank;                    /* of the job; LW_NONE: by is one of the first two */
	char text[LW_ADVICE_TEXT_BYTES]; /* "rank 2 ...", without a full stop; "" = nobody */
};

/** lw_late_find() - @run after all stages. */
void lw_late_find(
	const struct lw_run *run, const struct lw_summary *summary, struct lw_late *ret_late);

/** lw_late_by_name() - "kernels"; NULL where no rank is named. Static. */
const char *lw_late_by_name(enum lw_late_by by);

/** lw_late_is_beside() - @late is not told by the summary's stragglers. */
bool lw_late_is_beside(const struct lw_late *late);

#endif /* LAPWING_ANALYZER_EMIT_LATE_WORDS_H */
