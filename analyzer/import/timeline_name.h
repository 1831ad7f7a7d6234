/* SPDX-License-Identifier: Apache-2.0 */
/* timeline_name.h - what the names and sizes in a Horovod timeline mean. */
#ifndef LAPWING_ANALYZER_IMPORT_TIMELINE_NAME_H
#define LAPWING_ANALYZER_IMPORT_TIMELINE_NAME_H

#include <stdbool.h>
#include <stdint.h>

#include "analyzer/import/timeline.h"

/** lw_timeline_classify() - kind, operation and transport of the activity @name. */
void lw_timeline_classify(
	const char *name, enum lw_activity_kind *ret_kind, int *ret_op, int *ret_transport);

/**
 * lw_timeline_size() - bytes of a tensor from its dtype ("float32") and shape ("[512, 256]", "[]").
 * Return: false when either is not understood or the product overflows.
 */
bool lw_timeline_size(const char *dtype, const char *shape, uint64_t *ret_bytes, int *ret_dtype);

#endif /* LAPWING_ANALYZER_IMPORT_TIMELINE_NAME_H */
