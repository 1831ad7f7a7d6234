/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as records of CUPTI: what comes out is a record that the collector takes, or is counted. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "collector/check.h"
#include "tracer/cupti_records.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void expect(bool is_so)
{
	if (!is_so)
		abort();
}

static void check(const struct lw_cupti_record *record)
{
	const struct lw_event *event = &record->event;
	int fault = lw_event_check(event, INT64_MAX);

	/* Amounts are as CUPTI gives them: the collector counts those that cannot be. */
	expect(!fault || fault == LW_LOSS_TORN);
	expect(event->t1_ns >= event->t0_ns && event->t0_ns >= 0);
	switch (event->kind) {
	case LW_EV_KERNEL:
		expect(!record->n_name && !record->uuid);
		break;
	case LW_EV_LAUNCH:
		expect(record->n_name > 2 && !strncmp(record->name, "cu", 2));
		expect(event->launch.made_for <= LW_LAUNCH_FOR_BATCH);
		break;
	case LW_EV_GPU_OVERHEAD:
		expect(record->name && *record->name);
		break;
	case LW_EV_GPU:
		expect(record->uuid != NULL);
		break;
	case LW_EV_COPY:
	case LW_EV_GPU_SYNC:
		expect(!record->name);
		break;
	default:
		abort();
	}
}

/* A byte of length, then that many bytes as one record; an eighth of the inputs have an offset of the clock. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	static struct lw_cupti_parser parser;
	struct lw_cupti_record record;
	size_t at = 0;

	memset(&parser, 0, sizeof(parser));
	if (n > 8 && !(data[0] & 7)) {
		memcpy(&parser.offset_ns, data + 1, sizeof(parser.offset_ns));
		at = 9;
	}
	while (at < n) {
		size_t n_bytes = data[at++];
		uint8_t *own; /* exactly as long, so that a sanitizer sees who reads on */

		n_bytes = n_bytes < n - at ? n_bytes : n - at;
		own = malloc(n_bytes ? n_bytes : 1);
		expect(own != NULL);
		memcpy(own, data + at, n_bytes);
		if (lw_cupti_parse(&parser, own, n_bytes, &record) == LW_CUPTI_IS_EVENT)
			check(&record);
		free(own);
		at += n_bytes;
	}
	return 0;
}
