/* SPDX-License-Identifier: Apache-2.0 */
/* sample_ethtool.h - names of drivers' statistics, for tests as well. */
#ifndef LAPWING_COLLECTOR_SAMPLE_ETHTOOL_H
#define LAPWING_COLLECTOR_SAMPLE_ETHTOOL_H

#include <stddef.h>

/**
 * lw_ethtool_match() - is @string (of @string_bytes, terminated only where shorter) in schema/counters.def?
 * @ret_name: its name in the store. Return: row of the table, -1 = not taken.
 */
int lw_ethtool_match(const char *string, size_t string_bytes, char *ret_name, size_t name_bytes);

#endif /* LAPWING_COLLECTOR_SAMPLE_ETHTOOL_H */
