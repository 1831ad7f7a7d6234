/* SPDX-License-Identifier: Apache-2.0 */
/*
 * units.h - times, sizes and rates as people write them. The only place where ms and MiB exist.
 *
 * Times are int64_t ns, sizes uint64_t bytes, rates double bytes/s. GB is 1e9, MiB is 2^20.
 */
#ifndef LAPWING_BASE_UNITS_H
#define LAPWING_BASE_UNITS_H

#include <stddef.h>
#include <stdint.h>

#define LW_NS_PER_US INT64_C(1000)
#define LW_NS_PER_MS INT64_C(1000000)
#define LW_NS_PER_S  INT64_C(1000000000)

enum { LW_UNIT_TEXT_BYTES = 32 }; /* every lw_*_format() result fits, terminator included */

/** lw_ns_format() - 1500000 -> "1.50 ms", 11e6 -> "11.0 ms". 3 significant digits but below 1 us; ns, us, ms, s. Return: @text. */
const char *lw_ns_format(double ns, char text[LW_UNIT_TEXT_BYTES]);

/** lw_ns_exact() - what was set, and has no digits behind it: 1000000 -> "1 ms", else as lw_ns_format(). Return: @text. */
const char *lw_ns_exact(double ns, char text[LW_UNIT_TEXT_BYTES]);

/** lw_bytes_format() - 134217728 -> "128 MiB". B, KiB, MiB, GiB; exact powers without decimals. */
const char *lw_bytes_format(double bytes, char text[LW_UNIT_TEXT_BYTES]);

/** lw_rate_format() - 1.25e9 -> "1.25 GB/s" (decimal units, as nccl-tests). */
const char *lw_rate_format(double bytes_per_s, char text[LW_UNIT_TEXT_BYTES]);

/** lw_age_format() - whole seconds: "12 s", "3 min 05 s", "2 h 04 min". Return: @text. */
const char *lw_age_format(int64_t age_ns, char text[LW_UNIT_TEXT_BYTES]);

/** lw_*_or_unknown() - as lw_*_format(); what is not finite is "?". Return: @text. */
const char *lw_ns_or_unknown(double ns, char text[LW_UNIT_TEXT_BYTES]);
const char *lw_bytes_or_unknown(double bytes, char text[LW_UNIT_TEXT_BYTES]);
const char *lw_rate_or_unknown(double bytes_per_s, char text[LW_UNIT_TEXT_BYTES]);

/**
 * lw_ns_parse() - "5ms", "1.5 s", "200us", "10ns"; a bare number is taken as ns.
 * Return: LW_OK and *@ret_ns >= 0, or LW_ERR_FORMAT (not a time) / LW_ERR_LIMIT (overflow).
 */
int lw_ns_parse(const char *text, int64_t *ret_ns);

/**
 * lw_bytes_parse() - "128MiB", "64k" (= KiB, as Horovod users write), "1GB" (= 1e9), "4096".
 * Return: LW_OK, LW_ERR_FORMAT or LW_ERR_LIMIT.
 */
int lw_bytes_parse(const char *text, uint64_t *ret_bytes);

#endif /* LAPWING_BASE_UNITS_H */
