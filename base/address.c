/* SPDX-License-Identifier: Apache-2.0 */
#include "base/address.h"

#include <arpa/inet.h>
#include <string.h>

static const uint8_t prefix[LW_ADDRESS_V4_AT] = {[10] = 0xff, [11] = 0xff};

bool lw_address_is_v4(const uint8_t address[LW_ADDRESS_BYTES])
{
	return !memcmp(address, prefix, sizeof(prefix));
}

void lw_address_map(const void *v4, uint8_t ret_address[LW_ADDRESS_BYTES])
{
	memcpy(ret_address, prefix, sizeof(prefix));
	memcpy(ret_address + LW_ADDRESS_V4_AT, v4, LW_ADDRESS_BYTES - LW_ADDRESS_V4_AT);
}

void lw_address_text(const uint8_t address[LW_ADDRESS_BYTES], char text[INET6_ADDRSTRLEN])
{
	if (lw_address_is_v4(address))
		inet_ntop(AF_INET, address + LW_ADDRESS_V4_AT, text, INET6_ADDRSTRLEN);
	else
		inet_ntop(AF_INET6, address, text, INET6_ADDRSTRLEN);
}
