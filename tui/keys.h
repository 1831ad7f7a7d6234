/* SPDX-License-Identifier: Apache-2.0 */
/*
 * keys.h - from keys to requests: the one table that screens, help and docs are made of.
 *
 * A key is a Unicode character, or one of enum lw_key. A request is what views understand.
 */
#ifndef LAPWING_TUI_KEYS_H
#define LAPWING_TUI_KEYS_H

#include <stddef.h>
#include <stdint.h>

enum { LW_VIEW_COUNT = 11 }; /* rows of view.c's table */

enum lw_key {
	LW_KEY_NONE = 0,
	LW_KEY_TAB = '\t',
	LW_KEY_ENTER = '\n',
	LW_KEY_ESCAPE = 0x1b,
	LW_KEY_BACKSPACE = 0x7f,
	LW_KEY_FIRST = 0x110000, /* beyond Unicode */
	LW_KEY_UP = LW_KEY_FIRST,
	LW_KEY_DOWN,
	LW_KEY_LEFT,
	LW_KEY_RIGHT,
	LW_KEY_PAGE_UP,
	LW_KEY_PAGE_DOWN,
	LW_KEY_HOME,
	LW_KEY_END,
	LW_KEY_BACK_TAB,
	LW_KEY_F1,
	LW_KEY_CLICK, /* comes with a place */
	LW_KEY_LAST
};

enum { LW_KEY_CTRL_L = 'L' & 0x1f, LW_KEY_CTRL_U = 'U' & 0x1f };

enum lw_request {
	LW_REQUEST_NONE,
	/* of the program */
	LW_REQUEST_QUIT,
	LW_REQUEST_HELP,
	LW_REQUEST_REDRAW,
	LW_REQUEST_NEXT_VIEW,
	LW_REQUEST_PREVIOUS_VIEW,
	LW_REQUEST_SEARCH,
	LW_REQUEST_FIND_NEXT,
	LW_REQUEST_FIND_PREVIOUS,
	LW_REQUEST_COMMAND,
	LW_REQUEST_COPY,
	LW_REQUEST_EXPORT,
	LW_REQUEST_PAUSE,    /* live: stop following */
	LW_REQUEST_MARK,     /* live: remember this moment */
	LW_REQUEST_SNAPSHOT, /* live: write what is known so far */
	/* of the view that is shown */
	LW_REQUEST_BACK,
	LW_REQUEST_ENTER,
	LW_REQUEST_CLICK,
	LW_REQUEST_UP,
	LW_REQUEST_DOWN,
	LW_REQUEST_LEFT,
	LW_REQUEST_RIGHT,
	LW_REQUEST_PAGE_UP,
	LW_REQUEST_PAGE_DOWN,
	LW_REQUEST_TOP,
	LW_REQUEST_BOTTOM,
	LW_REQUEST_SORT, /* by the next column */
	LW_REQUEST_SORT_REVERSE,
	LW_REQUEST_TURN, /* the view's other side: tensors instead of ranks, .. */
	LW_REQUEST_NEXT_STEP,
	LW_REQUEST_PREVIOUS_STEP,
	LW_REQUEST_NEXT_ITEM, /* on this line: the next collective */
	LW_REQUEST_PREVIOUS_ITEM,
	LW_REQUEST_ZOOM_IN,
	LW_REQUEST_ZOOM_OUT,
	LW_REQUEST_ZOOM_ALL,
	LW_REQUEST_FOLLOW,
	LW_REQUEST_NIC,     /* what crossed the network: shown or not */
	LW_REQUEST_GPU,     /* its lanes: by kind, by stream, none */
	LW_REQUEST_KERNELS, /* what is selected: kernels, ranges, or collectives */
	LW_REQUEST_RANGES,  /* the program's own: shown or not */
	LW_REQUEST_RESET,
	/* one for each view, in their order */
	LW_REQUEST_VIEW,
	LW_REQUEST_LAST_VIEW = LW_REQUEST_VIEW + LW_VIEW_COUNT - 1,
};

struct lw_key_row {
	uint32_t key;
	enum lw_request request;
	const char *help; /* what it does; NULL: another key of the row before */
};

/* A set of requests is a number: LW_CAN(UP) | LW_CAN(DOWN). */
#define LW_CAN(name) (UINT64_C(1) << LW_REQUEST_##name)
_Static_assert(LW_REQUEST_LAST_VIEW < 64, "a set of requests has 64 bits");

/* What a request does in one view. */
struct lw_key_words {
	enum lw_request request;
	const char *hint; /* on the last line; "": with the next key; NULL: not there */
	const char *help; /* NULL: the hint, or if there is none what the key table says */
};

/* The requests that something on the screen understands: others never reach it. */
struct lw_key_set {
	uint64_t requests;
	const struct lw_key_words
		*words; /* in the order of the last line, {0} at the end. May be NULL */
};

/** lw_keys() - all rows, in the order in which help shows them. */
const struct lw_key_row *lw_keys(size_t *ret_n);

/** lw_key_request() - what @key asks for. LW_REQUEST_NONE: nothing. */
enum lw_request lw_key_request(uint32_t key);

/** lw_key_of() - the first key of @request. LW_KEY_NONE: none. */
uint32_t lw_key_of(enum lw_request request);

enum { LW_KEY_NAME_BYTES = 16 };

/** lw_key_name() - "q", "Up", "Ctrl-L". Return: @text. */
const char *lw_key_name(uint32_t key, char text[LW_KEY_NAME_BYTES]);

/** lw_key_named() - the reverse, for scripts: "<Up>", "<Space>", or one character. LW_KEY_NONE: none. */
uint32_t lw_key_named(const char *name);

#endif /* LAPWING_TUI_KEYS_H */
