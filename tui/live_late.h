/* SPDX-License-Identifier: Apache-2.0 */
/*
 * live_late.h - inside the live model: the same operation on all ranks, and who computed longest before it.
 *
 * Reads and writes: the model's groups and slots. Operations are told apart by their serial, which all ranks of
 * the job count alike, and by their first member's name.
 */
#ifndef LAPWING_TUI_LIVE_LATE_H
#define LAPWING_TUI_LIVE_LATE_H

#include "tui/live_model.h"

/** lw_live_slot_of() - of that time, made when needed. NULL: too long ago to be kept. */
struct lw_live_slot *lw_live_slot_of(struct lw_live_rank *rank, int64_t at_ns);

/** lw_live_grow_groups() - room for one more rank; operations that wait for others are forgotten. LW_OK, LW_ERR_NOMEM. */
int lw_live_grow_groups(struct lw_live_model *model);

/**
 * lw_live_note_ready() - @rank had a member of operation @serial queued, and had resumed before that (0: not known). The
 * newest of its members counts.
 */
void lw_live_note_ready(struct lw_live_model *model, const struct lw_live_rank *rank,
	int64_t serial, int64_t name_id, int64_t resumed_ns, int64_t ready_ns);

/** lw_live_forget_late() - steps are known now: who was late at each operation does not compare with that. */
void lw_live_forget_late(struct lw_live_model *model);

/** lw_live_end_operation() - a rank has executed it; when all have, they are compared. */
void lw_live_end_operation(struct lw_live_model *model, int64_t serial);

#endif /* LAPWING_TUI_LIVE_LATE_H */
