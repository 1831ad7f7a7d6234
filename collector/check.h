/* SPDX-License-Identifier: Apache-2.0 */
/* check.h - may this record be believed? For the drain only. */
#ifndef LAPWING_COLLECTOR_CHECK_H
#define LAPWING_COLLECTOR_CHECK_H

#include <stdint.h>

#include "schema/event.h"

/**
 * lw_event_check() - kind and op known, end not before start, times between 0 and @latest_ns, sizes
 * that fit the store, values that are numbers.
 * Return: 0, LW_LOSS_UNKNOWN_KIND or LW_LOSS_TORN.
 */
int lw_event_check(const struct lw_event *event, int64_t latest_ns);

#endif /* LAPWING_COLLECTOR_CHECK_H */
