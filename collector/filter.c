/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/filter.h"

#include <stdio.h>

#include "base/address.h"
#include "base/err.h"

/* The start of a connection to a new peer, so that its sequence numbers are known from the first on:
 * what came before the filter knew the peer can then be stated in bytes. */
static const char openings[] =
	"(tcp[tcpflags] & tcp-syn != 0) or (ip6[6] = 6 and ip6[53] & 2 != 0)";

static void put_own(FILE *out, const uint8_t (*peers)[16], size_t n_peers)
{
	if (n_peers == 0) {
		fputs("tcp or udp port 4791", out);
		return;
	}
	fputs("(tcp and (", out);
	for (size_t i = 0; i < n_peers; i++) {
		char address[INET6_ADDRSTRLEN];

		lw_address_text(peers[i], address);
		fprintf(out, "%shost %s", i ? " or " : "", address);
	}
	fprintf(out, ")) or udp port 4791 or %s", openings);
}

int lw_filter_text(const uint8_t (*peers)[16], size_t n_peers, bool has_tags, const char *also,
	char *text, size_t text_bytes)
{
	FILE *out = fmemopen(text, text_bytes, "w");
	int status = LW_OK;

	if (!out)
		return lw_fail(LW_ERR_NOMEM, "no memory");
	put_own(out, peers, n_peers);
	if (*also)
		fprintf(out, " or (%s)", also);
	/* The last: all behind the word vlan is read as lying behind a tag. */
	if (has_tags) {
		fputs(" or (vlan and (", out);
		put_own(out, peers, n_peers);
		fputs("))", out);
	}
	if (fflush(out) == EOF || ftell(out) >= (long)text_bytes - 1)
		status = lw_fail(LW_ERR_LIMIT, "the filter expression is too long");
	fclose(out);
	return status;
}
