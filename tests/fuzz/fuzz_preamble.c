/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes cut in any way: progress is made, no byte is used twice, garbage stays garbage. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "tracer/gloo_preamble.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct lw_preamble_stream stream = {0};
	uint64_t n_messages = 0;
	bool was_garbage = false;
	size_t at = 0;

	/* A byte of length, then that many bytes as one call of the job's. */
	while (at < n) {
		size_t part = data[at++];

		part = part < n - at ? part : n - at;
		while (part) {
			size_t used = 0;
			enum lw_preamble_progress progress =
				lw_preamble_feed(&stream, data + at, part, &used);

			if (used < 1 || used > part || stream.n_header_bytes > LW_PREAMBLE_BYTES)
				abort();
			if (was_garbage && progress != LW_PREAMBLE_GARBAGE)
				abort();
			was_garbage = progress == LW_PREAMBLE_GARBAGE;
			if (progress == LW_PREAMBLE_MESSAGE &&
				(++n_messages != stream.n_messages || stream.n_header_bytes ||
					lw_preamble_opcode(&stream) > 3))
				abort();
			at += used;
			part -= used;
		}
	}
	return 0;
}
