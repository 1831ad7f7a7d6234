/* SPDX-License-Identifier: Apache-2.0 */
/* address.h - IP addresses as 16 bytes: IPv6, or IPv4 mapped into it (::ffff:1.2.3.4). */
#ifndef LAPWING_BASE_ADDRESS_H
#define LAPWING_BASE_ADDRESS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

enum { LW_ADDRESS_BYTES = 16, LW_ADDRESS_V4_AT = 12 /* of these, where IPv4's four begin */ };

/** lw_address_is_v4() - is it a mapped one? */
bool lw_address_is_v4(const uint8_t address[LW_ADDRESS_BYTES]);

/** lw_address_map() - the four bytes of an IPv4 address, mapped. */
void lw_address_map(const void *v4, uint8_t ret_address[LW_ADDRESS_BYTES]);

/** lw_address_text() - as people write it, IPv4 with dots. */
void lw_address_text(const uint8_t address[LW_ADDRESS_BYTES], char text[INET6_ADDRSTRLEN]);

#endif /* LAPWING_BASE_ADDRESS_H */
